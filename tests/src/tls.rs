//! Servers that speak TLS, with certificates made on the spot.
//!
//! The mock server speaks plain HTTP. A [`TlsServer`] stands in front of it and takes the TLS off, so that the mock's ledger stays the ground
//! truth; or it answers with scripted bytes, where the end of a connection matters.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ALL_VERSIONS, HandshakeKind, ServerConfig, ServerConnection, Stream, SupportedProtocolVersion};
use tempfile::TempDir;

/// An authority of a test's own, with a file that holds its certificate.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// A new authority, unlike any other.
    ///
    /// # Panics
    /// If no key can be made or no file written.
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names are fine names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let folder = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(folder.path().join("roots.pem"), issuer.pem()).expect("a file");
        Self { issuer, folder }
    }

    /// The file with its certificate.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("roots.pem")
    }

    /// The folder of that file.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A server's side of TLS with a certificate for `name` (a DNS name or an address), changed as the test likes.
    ///
    /// # Panics
    /// If `name` is no name.
    pub fn server(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Arc<ServerConfig> {
        self.server_speaking(ALL_VERSIONS, name, change)
    }

    /// The same with these versions of TLS.
    ///
    /// # Panics
    /// As [`Authority::server`].
    pub fn server_speaking(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Arc<ServerConfig> {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(versions)
            .expect("versions that the provider knows")
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).expect("a key that was just made"),
            )
            .expect("certificate and key belong together");
        Arc::new(config)
    }
}

/// A server's side of TLS with a certificate and its key, both in files of PEM.
///
/// # Panics
/// If they are not, or do not belong together.
pub fn server_of_files(certificate: &Path, key: &Path) -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_file(certificate).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(key).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(ALL_VERSIONS)
        .expect("versions that the provider knows")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("certificate and key belong together");
    Arc::new(config)
}

/// How a scripted server ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Farewell {
    /// It says that nothing more comes, then closes.
    CloseNotify,
    /// It closes, as anybody on the way could have done.
    Cut,
}

/// What a server saw.
#[derive(Debug, Default)]
struct Seen {
    greeted: AtomicU64,
    handshakes: AtomicU64,
    resumed: AtomicU64,
    failed: AtomicU64,
    polite: AtomicU64,
    whole: AtomicU64,
}

/// A server that speaks TLS.
pub struct TlsServer {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    seen: Arc<Seen>,
    acceptor: Option<JoinHandle<()>>,
}

impl TlsServer {
    /// Takes the TLS off and passes everything on to `target`, and its answers back.
    pub fn before(target: SocketAddr, config: Arc<ServerConfig>) -> Self {
        Self::start(move |stream, seen| proxy(&stream, target, &config, seen))
    }

    /// Answers the first request of each connection with `answer` and ends the connection.
    pub fn scripted(config: Arc<ServerConfig>, answer: Vec<u8>, farewell: Farewell) -> Self {
        Self::start(move |stream, seen| answer_once(stream, &config, &answer, farewell, seen))
    }

    /// Lets a while pass before its tickets and another one before it reads the request, which it never answers.
    pub fn unhurried(config: Arc<ServerConfig>) -> Self {
        Self::start(move |stream, seen| read_late(stream, &config, seen))
    }

    /// Accepts connections and says nothing.
    pub fn mute() -> Self {
        Self::start(|mut stream, seen| {
            let mut buffer = [0; 4_096];
            if let Ok(1..) = stream.read(&mut buffer) {
                seen.greeted.fetch_add(1, Ordering::AcqRel);
            }
            while let Ok(1..) = stream.read(&mut buffer) {}
        })
    }

    fn start(serve: impl Fn(TcpStream, &Seen) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let (stopping, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Seen::default()));
        let (stop, counters, serve) = (Arc::clone(&stopping), Arc::clone(&seen), Arc::new(serve));
        let acceptor = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                let stream = stream.expect("a connection");
                stream.set_nodelay(true).expect("an option of every TCP socket");
                let (counters, serve) = (Arc::clone(&counters), Arc::clone(&serve));
                std::thread::spawn(move || serve(stream, &counters));
            }
        });
        Self {
            address,
            stopping,
            seen,
            acceptor: Some(acceptor),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections over which a mute server has read something.
    pub fn greeted(&self) -> u64 {
        self.seen.greeted.load(Ordering::Acquire)
    }

    /// Handshakes that were done.
    pub fn handshakes(&self) -> u64 {
        self.seen.handshakes.load(Ordering::Acquire)
    }

    /// Those of them that resumed an earlier session.
    pub fn resumed(&self) -> u64 {
        self.seen.resumed.load(Ordering::Acquire)
    }

    /// Handshakes that failed.
    pub fn failed(&self) -> u64 {
        self.seen.failed.load(Ordering::Acquire)
    }

    /// Requests that an unhurried server has read whole.
    pub fn whole_requests(&self) -> u64 {
        self.seen.whole.load(Ordering::Acquire)
    }

    /// Connections at whose end the client said that nothing more comes.
    pub fn polite_ends(&self) -> u64 {
        self.seen.polite.load(Ordering::Acquire)
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // The acceptor looks at the flag when a connection comes.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// Does the handshake; `None` if it fails, with the alert sent.
fn accept(stream: &TcpStream, config: &Arc<ServerConfig>, seen: &Seen) -> Option<ServerConnection> {
    let mut connection = ServerConnection::new(Arc::clone(config)).expect("a server's side");
    while connection.is_handshaking() {
        if connection.complete_io(&mut &*stream).is_err() {
            seen.failed.fetch_add(1, Ordering::AcqRel);
            return None;
        }
    }
    seen.handshakes.fetch_add(1, Ordering::AcqRel);
    if connection.handshake_kind() == Some(HandshakeKind::Resumed) {
        seen.resumed.fetch_add(1, Ordering::AcqRel);
    }
    // Tickets, which stand behind the handshake.
    while connection.wants_write() {
        connection.write_tls(&mut &*stream).ok()?;
    }
    Some(connection)
}

/// Both directions at once, a thread for each. The connection is locked to cipher and to decipher, never to wait for bytes.
fn proxy(stream: &TcpStream, target: SocketAddr, config: &Arc<ServerConfig>, seen: &Seen) {
    let Some(connection) = accept(stream, config, seen) else {
        return;
    };
    let connection = Mutex::new(connection);
    let locked = || connection.lock().unwrap_or_else(PoisonError::into_inner);
    let Ok(upstream) = TcpStream::connect(target) else {
        return;
    };
    upstream.set_nodelay(true).expect("an option of every TCP socket");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = vec![0; 65_536];
            while let Ok(count @ 1..) = (&upstream).read(&mut buffer) {
                let mut connection = locked();
                if connection.writer().write_all(&buffer[..count]).is_err() || !flush(&mut connection, stream) {
                    break;
                }
            }
            let mut connection = locked();
            connection.send_close_notify();
            flush(&mut connection, stream);
            let _ = stream.shutdown(Shutdown::Both);
        });
        let mut ciphertext = vec![0; 16_384];
        // What came with the handshake is deciphered first.
        let mut plaintext = decipher(&mut locked(), &[]);
        while let Some(bytes) = plaintext.take() {
            if (&upstream).write_all(&bytes).is_err() {
                break;
            }
            if let Ok(count @ 1..) = (&*stream).read(&mut ciphertext) {
                plaintext = decipher(&mut locked(), &ciphertext[..count]);
            }
        }
        let polite = locked()
            .process_new_packets()
            .is_ok_and(|state| state.peer_has_closed());
        seen.polite.fetch_add(u64::from(polite), Ordering::AcqRel);
        let _ = upstream.shutdown(Shutdown::Both);
    });
}

/// What these bytes decipher to; `None` if they are not TLS.
fn decipher(connection: &mut ServerConnection, mut ciphertext: &[u8]) -> Option<Vec<u8>> {
    let mut plaintext = Vec::new();
    loop {
        let taken = if ciphertext.is_empty() {
            0
        } else {
            connection.read_tls(&mut ciphertext).ok()?
        };
        connection.process_new_packets().ok()?;
        let mut buffer = [0; 16_384];
        while let Ok(count @ 1..) = connection.reader().read(&mut buffer) {
            plaintext.extend_from_slice(&buffer[..count]);
        }
        if taken == 0 || ciphertext.is_empty() {
            return Some(plaintext);
        }
    }
}

/// Sends all that the connection has to say; whether that worked.
fn flush(connection: &mut ServerConnection, mut stream: &TcpStream) -> bool {
    while connection.wants_write() {
        if connection.write_tls(&mut stream).is_err() {
            return false;
        }
    }
    true
}

fn answer_once(mut stream: TcpStream, config: &Arc<ServerConfig>, answer: &[u8], farewell: Farewell, seen: &Seen) {
    let Some(mut connection) = accept(&stream, config, seen) else {
        return;
    };
    let mut sealed = Stream::new(&mut connection, &mut stream);
    if read_request(&mut sealed).is_none() || sealed.write_all(answer).is_err() || sealed.flush().is_err() {
        return;
    }
    if farewell == Farewell::CloseNotify {
        connection.send_close_notify();
        flush(&mut connection, &stream);
    }
    let _ = stream.shutdown(Shutdown::Write);
    // The client closes next; a close with unread bytes would reset the connection and take the answer with it.
    let mut rest = [0; 4_096];
    while let Ok(1..) = stream.read(&mut rest) {}
}

fn read_late(mut stream: TcpStream, config: &Arc<ServerConfig>, seen: &Seen) {
    let mut connection = ServerConnection::new(Arc::clone(config)).expect("a server's side");
    while connection.is_handshaking() {
        let read = connection.read_tls(&mut stream).is_ok_and(|count| count > 0);
        if !read || connection.process_new_packets().is_err() {
            return;
        }
        if connection.is_handshaking() {
            flush(&mut connection, &stream);
        }
    }
    std::thread::sleep(Duration::from_millis(100));
    flush(&mut connection, &stream);
    std::thread::sleep(Duration::from_millis(100));
    if read_request(&mut Stream::new(&mut connection, &mut stream)).is_some() {
        seen.whole.fetch_add(1, Ordering::AcqRel);
    }
}

/// Reads one request to the end of its body.
fn read_request(reader: &mut impl Read) -> Option<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        reader.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?.to_ascii_lowercase();
    let length = head
        .split("content-length: ")
        .nth(1)?
        .split("\r\n")
        .next()?
        .parse()
        .ok()?;
    reader.read_exact(&mut vec![0; length]).ok()
}
