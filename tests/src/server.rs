//! Servers to test against, and addresses without one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ringload_mock_server::{LedgerEntry, MockServer, Options};

use crate::eventually;

/// A quick mock server on a free port: 2 ms to the first of 4 tokens, 1 ms between tokens, unless `change` says otherwise.
///
/// # Panics
/// If it does not start.
pub fn mock(change: impl FnOnce(&mut Options)) -> MockServer {
    let mut options = Options {
        port: 0,
        ttft: Duration::from_millis(2),
        itl: Duration::from_millis(1),
        osl: Some(4),
        ..Options::default()
    };
    change(&mut options);
    MockServer::start(options).expect("the mock server starts")
}

/// A mock server that plays `fault` on every inference request.
///
/// # Panics
/// If there is no such fault.
pub fn faulty(fault: &str) -> MockServer {
    mock(|options| options.fault = Some(fault.parse().expect("a fault of the mock server")))
}

/// A mock server whose control routes answer by these scripts.
///
/// # Panics
/// If one is no script.
pub fn scripted(scripts: &[&str]) -> MockServer {
    let read = |text: &&str| text.parse().expect("a script of the mock server");
    mock(|options| options.control = scripts.iter().map(read).collect())
}

/// An address that refuses connections.
///
/// It is on a loopback address of its own: the port is free again as soon as it is known, and on 127.0.0.1 a server of another test could take
/// it, or a client's own port could happen to be the one it connects to.
///
/// # Panics
/// If the host has no such loopback address.
pub fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.77.0.1:0").expect("all of 127.0.0.0/8 is this host");
    listener.local_addr().expect("a bound socket has an address")
}

/// The ledger once the server has seen all that clients sent over `connections` connections, now closed: what a client left in the kernel's
/// buffers when it went away arrives after its run has ended.
///
/// # Panics
/// If the server is not through with them in time.
pub fn settled_ledger(server: &MockServer, connections: u64) -> Vec<LedgerEntry> {
    eventually("the end of all connections at the server", || {
        let counters = server.counters();
        counters.connections >= connections && counters.connections_open == 0 && counters.in_flight == 0
    });
    server.ledger()
}

/// Paths of the control calls, in order of arrival.
pub fn control_paths(server: &MockServer) -> Vec<String> {
    server.control_log().into_iter().map(|entry| entry.path).collect()
}

/// How a fickle server treats the second request of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fickle {
    /// Reads it and closes without an answer (FIN).
    Close,
    /// Closes with the request half read (RST).
    Reset,
    /// Answers with half a status line, then closes.
    HalfAnswer,
}

/// A part of an answer: milliseconds to wait before it, and the text.
pub type Piece = (u64, String);

/// A server of a few lines, for what the mock cannot do: its timings and closes are not the mock's to choose.
pub struct ScriptedServer {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    seen: Arc<AtomicU64>,
    connections: Arc<AtomicU64>,
    acceptor: Option<JoinHandle<()>>,
}

const WHOLE_ANSWER: &str = r#"{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#;

/// A connection as a scripted server has it.
pub struct Client<'a> {
    /// The socket, for what the methods here do not do.
    pub stream: &'a TcpStream,
    reader: BufReader<&'a TcpStream>,
    seen: &'a AtomicU64,
}

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Request line and header lines.
    pub head: String,
    /// Body.
    pub body: Vec<u8>,
}

impl Received {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .next()
    }
}

impl Client<'_> {
    /// The next request; `None` at the end of the connection.
    pub fn request(&mut self) -> Option<Received> {
        let head = self.head()?;
        let mut received = Received { head, body: Vec::new() };
        let length = received
            .header("content-length")
            .map_or(0, |length| length.parse().expect("a number"));
        received.body.resize(length, 0);
        self.reader.read_exact(&mut received.body).ok()?;
        Some(received)
    }

    /// The head of the next request, the body left unread but for what came along with it.
    pub fn head(&mut self) -> Option<String> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let first = head.is_empty();
            if self.reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
            if first {
                self.seen.fetch_add(1, Ordering::AcqRel);
            }
        }
        Some(head)
    }

    /// Sends bytes; `false` when the client has gone.
    pub fn send(&self, bytes: impl AsRef<[u8]>) -> bool {
        (&mut &*self.stream).write_all(bytes.as_ref()).is_ok()
    }

    /// Sends a whole answer with one token.
    pub fn answer(&self) -> bool {
        self.send(whole_answer())
    }
}

/// A whole answer with one token, head included.
pub fn whole_answer() -> String {
    let length = WHOLE_ANSWER.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{WHOLE_ANSWER}")
}

impl ScriptedServer {
    /// A server that does this with each connection, on a free port of 127.0.0.1.
    pub fn new(serve: impl Fn(Client<'_>) + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0", serve)
    }

    /// The same at an address of the test's own.
    ///
    /// # Panics
    /// If the address is taken.
    pub fn at(address: &str, serve: impl Fn(Client<'_>) + Send + Sync + 'static) -> Self {
        Self::start(address, move |stream, seen| {
            serve(Client {
                stream,
                reader: BufReader::new(stream),
                seen,
            });
        })
    }

    /// A server that answers the first request of each connection and fails the second, as one whose keep-alive ends at the moment of reuse.
    /// With the mock it would be a race whether its close or the next request comes first.
    pub fn fickle(manner: Fickle) -> Self {
        Self::new(move |client| serve_fickle(client, manner))
    }

    /// A server that answers every request with these pieces, each in a write of its own after its pause.
    pub fn paced(pieces: Vec<Piece>) -> Self {
        Self::new(move |client| serve_paced(client, &pieces))
    }

    fn start(address: &str, serve: impl Fn(&TcpStream, &AtomicU64) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let stopping = Arc::new(AtomicBool::new(false));
        let [seen, connections] = [0, 0].map(|none| Arc::new(AtomicU64::new(none)));
        let (stop, counter, serve) = (Arc::clone(&stopping), Arc::clone(&seen), Arc::new(serve));
        let accepted = Arc::clone(&connections);
        let acceptor = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                let stream = stream.expect("a connection");
                accepted.fetch_add(1, Ordering::AcqRel);
                stream.set_nodelay(true).expect("an option of every TCP socket");
                let (counter, serve) = (Arc::clone(&counter), Arc::clone(&serve));
                std::thread::spawn(move || serve(&stream, &counter));
            }
        });
        Self {
            address,
            stopping,
            seen,
            connections,
            acceptor: Some(acceptor),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requests of which the first byte has arrived.
    pub fn requests_seen(&self) -> u64 {
        self.seen.load(Ordering::Acquire)
    }

    /// Connections so far.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Acquire)
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // The acceptor looks at the flag when a connection comes. Where no local port is left for one it stays, and ends with the process.
        if let (Ok(_), Some(acceptor)) = (TcpStream::connect(self.address), self.acceptor.take()) {
            let _ = acceptor.join();
        }
    }
}

fn serve_paced(mut client: Client<'_>, pieces: &[Piece]) {
    while client.request().is_some() {
        for (pause_ms, text) in pieces {
            std::thread::sleep(Duration::from_millis(*pause_ms));
            if !client.send(text) {
                return;
            }
        }
    }
}

fn serve_fickle(mut client: Client<'_>, manner: Fickle) {
    if client.request().is_none() || !client.answer() {
        return;
    }
    match manner {
        Fickle::Close => drop(client.request()),
        Fickle::Reset => {
            // Unread bytes in the kernel's buffer turn the close into a reset; a larger reader would take them all.
            let mut one = [0];
            if matches!((&mut &*client.stream).read(&mut one), Ok(1)) {
                client.seen.fetch_add(1, Ordering::AcqRel);
            }
        }
        Fickle::HalfAnswer => {
            if client.request().is_some() {
                client.send("HTTP/1.1 2");
            }
        }
    }
}
