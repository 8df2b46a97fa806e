//! Sessions against rustls' own server side, in memory.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::version::{TLS12, TLS13};
use rustls::{ALL_VERSIONS, Error, ServerConfig, ServerConnection, SupportedProtocolVersion};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::{Session, TlsClient, TlsError, Workspace, explain, provider};
use crate::plan::Verification;

const HOST: &str = "server.test";

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A server with a certificate for `name` under `issuer`.
fn server(
    issuer: &CertifiedIssuer<'static, KeyPair>,
    name: &str,
    change: impl FnOnce(&mut CertificateParams),
) -> Arc<ServerConfig> {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    server_with(certificate.der().clone(), &key)
}

fn server_with(certificate: CertificateDer<'static>, key: &KeyPair) -> Arc<ServerConfig> {
    server_speaking(ALL_VERSIONS, certificate, key)
}

fn server_speaking(
    versions: &[&'static SupportedProtocolVersion],
    certificate: CertificateDer<'static>,
    key: &KeyPair,
) -> Arc<ServerConfig> {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    Arc::new(config)
}

/// A client that trusts these certificates.
fn client(pem: &str) -> TlsClient {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("roots.pem");
    std::fs::write(&path, pem).unwrap();
    TlsClient::new(HOST, &Verification::CaFile(path)).unwrap()
}

/// Both ends of a connection, and what the client has deciphered.
struct Pair {
    session: Session,
    server: ServerConnection,
    workspace: Workspace,
    deciphered: Vec<u8>,
    /// Longest run of bytes that the client gets at once.
    split: usize,
}

impl Pair {
    fn new(client: &TlsClient, config: &Arc<ServerConfig>, split: usize) -> Self {
        Self {
            session: Session::new(client).unwrap(),
            server: ServerConnection::new(Arc::clone(config)).unwrap(),
            workspace: Workspace::default(),
            deciphered: Vec::new(),
            split,
        }
    }

    /// What the client has to say goes to the server.
    fn server_hears(&mut self, ciphertext: &[u8]) {
        let mut rest = ciphertext;
        while !rest.is_empty() {
            self.server.read_tls(&mut rest).unwrap();
            // A server that fails sends its alert all the same.
            let _ = self.server.process_new_packets();
        }
    }

    /// What the server has to say goes to the client, in pieces.
    fn client_hears(&mut self) -> Result<(), Error> {
        let mut ciphertext = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut ciphertext).unwrap();
        }
        self.feed(&ciphertext)
    }

    fn feed(&mut self, ciphertext: &[u8]) -> Result<(), Error> {
        for piece in ciphertext.chunks(self.split) {
            let result = self.session.receive(piece, &mut self.workspace);
            self.deciphered.extend_from_slice(self.workspace.plaintext());
            result?;
        }
        Ok(())
    }

    fn shake_hands(&mut self) -> Result<(), Error> {
        loop {
            let mut flight = Vec::new();
            self.session.take_pending(&mut flight);
            self.server_hears(&flight);
            self.client_hears()?;
            if self.session.is_established() {
                return Ok(());
            }
            assert!(!flight.is_empty(), "neither side has anything to say");
        }
    }

    /// A handshake to its very end. Without this the client's last words of it go out with its first request.
    fn settled(client: &TlsClient, config: &Arc<ServerConfig>) -> Self {
        let mut pair = Self::new(client, config, usize::MAX);
        pair.shake_hands().unwrap();
        let mut flight = Vec::new();
        pair.session.take_pending(&mut flight);
        pair.server_hears(&flight);
        pair.client_hears().unwrap();
        pair
    }

    /// Sends a request piece by piece and returns what the server read.
    fn request(&mut self, pieces: &[&[u8]]) -> Vec<u8> {
        let mut read = Vec::new();
        for piece in pieces {
            let mut ciphertext = Vec::new();
            self.session.seal(piece, &mut ciphertext).unwrap();
            // A server takes no more ciphertext than it has room for plaintext.
            for part in ciphertext.chunks(4_096) {
                self.server_hears(part);
                let mut buffer = [0; 65_536];
                while let Ok(count @ 1..) = self.server.reader().read(&mut buffer) {
                    read.extend_from_slice(&buffer[..count]);
                }
            }
        }
        read
    }

    /// Lets the server answer and returns what the client deciphered.
    fn answer(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.deciphered.clear();
        self.server.set_buffer_limit(None);
        self.server.writer().write_all(bytes).unwrap();
        self.client_hears().unwrap();
        std::mem::take(&mut self.deciphered)
    }
}

fn refusal(client: &TlsClient, config: &Arc<ServerConfig>) -> String {
    let mut pair = Pair::new(client, config, usize::MAX);
    let error = pair.shake_hands().expect_err("the handshake fails");
    // The server learns the reason too.
    let mut alert = Vec::new();
    pair.session.farewell(&mut alert);
    pair.server.read_tls(&mut &alert[..]).unwrap();
    let heard = pair.server.process_new_packets();
    assert!(matches!(heard, Err(Error::AlertReceived(_))), "{heard:?}");
    explain(&error)
}

#[test]
fn the_same_bytes_arrive_however_the_ciphertext_is_split() {
    let issuer = authority();
    let client = client(&issuer.pem());
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![HOST.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let large: Vec<u8> = (0..100_000u32).map(|at| (at % 251) as u8).collect();
    for version in [&TLS12, &TLS13] {
        let config = server_speaking(&[version], certificate.der().clone(), &key);
        for split in [1, 2, 3, 4, 5, 6, 7, 63, 4_096, usize::MAX] {
            let what = format!("{:?}, split {split}", version.version);
            let mut pair = Pair::new(&client, &config, split);
            pair.shake_hands().unwrap();
            for round in 0..3 {
                let read = pair.request(&[b"head", &large, b"tail"]);
                assert_eq!(read, [b"head", &large[..], b"tail"].concat(), "{what}, round {round}");
                assert_eq!(pair.answer(b"data: one\n\n"), b"data: one\n\n", "{what}, round {round}");
                assert_eq!(pair.answer(&large), large, "{what}, round {round}");
            }
        }
    }
}

#[test]
fn every_single_split_of_two_records_gives_both() {
    let issuer = authority();
    let (client, config) = (client(&issuer.pem()), server(&issuer, HOST, |_| {}));
    let mut at = 1;
    loop {
        let mut pair = Pair::settled(&client, &config);
        let mut ciphertext = Vec::new();
        for text in [b"one", b"two"] {
            pair.server.writer().write_all(text).unwrap();
            pair.server.write_tls(&mut ciphertext).unwrap();
        }
        if at >= ciphertext.len() {
            break;
        }
        pair.feed(&ciphertext[..at]).unwrap();
        pair.feed(&ciphertext[at..]).unwrap();
        assert_eq!(pair.deciphered, b"onetwo", "split at {at}");
        at += 1;
    }
    assert!(at > 2 * 22, "two records were split at {at} places only");
}

#[test]
fn tickets_make_the_next_handshake_short() {
    let issuer = authority();
    let (client, config) = (client(&issuer.pem()), server(&issuer, HOST, |_| {}));
    for expected in [false, true, true] {
        let mut pair = Pair::new(&client, &config, usize::MAX);
        pair.shake_hands().unwrap();
        // Tickets come behind the handshake, with the answer.
        pair.request(&[b"request"]);
        pair.answer(b"answer");
        assert_eq!(pair.session.is_resumed(), expected);
    }
}

#[test]
fn a_close_is_told_from_a_cut() {
    let issuer = authority();
    let (client, config) = (client(&issuer.pem()), server(&issuer, HOST, |_| {}));
    let mut pair = Pair::settled(&client, &config);
    assert_eq!(pair.answer(b"all of it"), b"all of it");
    assert!(!pair.session.peer_closed());
    pair.server.send_close_notify();
    pair.client_hears().unwrap();
    assert!(pair.session.peer_closed());

    let mut farewell = Vec::new();
    pair.session.farewell(&mut farewell);
    pair.server.read_tls(&mut &farewell[..]).unwrap();
    assert!(pair.server.process_new_packets().unwrap().peer_has_closed());
}

#[test]
fn damaged_records_are_refused_and_what_came_before_them_is_kept() {
    let issuer = authority();
    let (client, config) = (client(&issuer.pem()), server(&issuer, HOST, |_| {}));
    let mut pair = Pair::settled(&client, &config);
    let mut ciphertext = Vec::new();
    for text in [b"good", b"evil"] {
        pair.server.writer().write_all(text).unwrap();
        pair.server.write_tls(&mut ciphertext).unwrap();
    }
    *ciphertext.last_mut().unwrap() ^= 1;
    let error = pair.feed(&ciphertext).expect_err("the last record is damaged");
    assert_eq!(pair.deciphered, b"good");
    assert!(explain(&error).contains("decrypt"), "{}", explain(&error));
    let mut farewell = Vec::new();
    pair.session.farewell(&mut farewell);
    pair.server.read_tls(&mut &farewell[..]).unwrap();
    let heard = pair.server.process_new_packets();
    assert!(matches!(heard, Err(Error::AlertReceived(_))), "{heard:?}");
}

#[test]
fn a_refused_certificate_names_the_check_and_the_remedy() {
    let (issuer, stranger) = (authority(), authority());
    let client = client(&issuer.pem());
    let unknown = refusal(&client, &server(&stranger, HOST, |_| {}));
    assert!(
        unknown.contains("no trusted root has issued it") || unknown.contains("not that of a trusted root"),
        "{unknown}"
    );
    assert!(
        unknown.contains("--ca-file") && unknown.contains("--insecure"),
        "{unknown}"
    );

    let old = server(&issuer, HOST, |params| {
        params.not_before = rcgen::date_time_ymd(2019, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 1, 2);
    });
    let expired = refusal(&client, &old);
    assert!(
        expired.contains("it expired on 2020-01-02 00:00 UTC; renew it"),
        "{expired}"
    );
    let early = server(&issuer, HOST, |params| {
        params.not_before = rcgen::date_time_ymd(2999, 1, 1)
    });
    assert!(refusal(&client, &early).contains("not valid before 2999-01-01"));

    let name = refusal(&client, &server(&issuer, "other.test", |_| {}));
    assert!(
        name.contains("other.test") && name.contains("not for 'server.test'"),
        "{name}"
    );

    // What `openssl req -x509` makes unless told otherwise.
    let own = authority();
    let own_client = self::client(&own.pem());
    let as_leaf = refusal(&own_client, &server_with(own.der().clone(), own.key()));
    assert!(as_leaf.contains("CA:FALSE"), "{as_leaf}");
}

#[test]
fn without_verification_any_certificate_will_do() {
    let issuer = authority();
    let client = TlsClient::new(HOST, &Verification::Off).unwrap();
    let old = server(&issuer, "other.test", |params| {
        params.not_after = rcgen::date_time_ymd(2020, 1, 2)
    });
    let mut pair = Pair::new(&client, &old, usize::MAX);
    pair.shake_hands().unwrap();
    assert_eq!(pair.request(&[b"hello"]), b"hello");
}

#[test]
fn a_plain_server_is_recognised() {
    let client = TlsClient::new(HOST, &Verification::Off).unwrap();
    let mut session = Session::new(&client).unwrap();
    assert!(session.take_pending(&mut Vec::new()));
    let error = session
        .receive(b"HTTP/1.1 400 Bad Request\r\n\r\n", &mut Workspace::default())
        .expect_err("that is no TLS");
    assert!(explain(&error).contains("write http://"), "{}", explain(&error));
    let mut farewell = Vec::new();
    session.farewell(&mut farewell);
    assert_eq!(farewell.first(), Some(&21), "an alert: {farewell:?}");
    assert!(session.seal(b"more", &mut farewell).is_err());
}

#[test]
fn files_that_hold_no_usable_root_are_refused_with_their_path() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("roots.pem");
    let refused = |what: &str| {
        let error = TlsClient::new(HOST, &Verification::CaFile(path.clone())).expect_err(what);
        let text = error.to_string();
        assert!(text.starts_with(&format!("--ca-file {}: ", path.display())), "{text}");
        text
    };
    assert!(refused("missing").contains("cannot be read"));
    std::fs::write(&path, "no certificate here\n").unwrap();
    assert!(refused("empty").contains("holds no certificate"));
    std::fs::write(&path, "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n").unwrap();
    assert!(refused("not PEM").contains("certificate 1 is no valid PEM"));
    std::fs::write(&path, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    assert!(refused("not X.509").contains("certificate 1 is no X.509"));
    std::fs::write(&path, [0xff, 0xfe, 0x00]).unwrap();
    assert!(refused("binary").contains("holds no certificate"));
    assert!(matches!(
        TlsClient::new("a..b", &Verification::Off),
        Err(TlsError::Name { .. })
    ));
}
