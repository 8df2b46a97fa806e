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
    acceptor: Option<JoinHandle<()>>,
}

const WHOLE_ANSWER: &str = r#"{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#;

impl ScriptedServer {
    /// A server that answers the first request of each connection and fails the second, as one whose keep-alive ends at the moment of reuse.
    /// With the mock it would be a race whether its close or the next request comes first.
    pub fn fickle(manner: Fickle) -> Self {
        Self::start(move |stream, seen| serve_fickle(stream, manner, seen))
    }

    /// A server that answers every request with these pieces, each in a write of its own after its pause.
    pub fn paced(pieces: Vec<Piece>) -> Self {
        Self::start(move |stream, seen| serve_paced(stream, &pieces, seen))
    }

    fn start(serve: impl Fn(&TcpStream, &AtomicU64) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let (stopping, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stop, counter, serve) = (Arc::clone(&stopping), Arc::clone(&seen), Arc::new(serve));
        let acceptor = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                let stream = stream.expect("a connection");
                stream.set_nodelay(true).expect("an option of every TCP socket");
                let (counter, serve) = (Arc::clone(&counter), Arc::clone(&serve));
                std::thread::spawn(move || serve(&stream, &counter));
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

    /// Requests of which the first byte has arrived.
    pub fn requests_seen(&self) -> u64 {
        self.seen.load(Ordering::Acquire)
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // The acceptor looks at the flag when a connection comes.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn serve_paced(stream: &TcpStream, pieces: &[Piece], seen: &AtomicU64) {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    while read_request(&mut reader, seen).is_some() {
        for (pause_ms, text) in pieces {
            std::thread::sleep(Duration::from_millis(*pause_ms));
            if writer.write_all(text.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn serve_fickle(stream: &TcpStream, manner: Fickle, seen: &AtomicU64) {
    let mut reader = BufReader::new(stream);
    if read_request(&mut reader, seen).is_none() {
        return;
    }
    let length = WHOLE_ANSWER.len();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    let mut writer = stream;
    if writer.write_all(format!("{head}{WHOLE_ANSWER}").as_bytes()).is_err() {
        return;
    }
    match manner {
        Fickle::Close => drop(read_request(&mut reader, seen)),
        Fickle::Reset => {
            // Unread bytes in the kernel's buffer turn the close into a reset; a larger reader would take them all.
            let mut one = [0];
            if matches!((&mut &*stream).read(&mut one), Ok(1)) {
                seen.fetch_add(1, Ordering::AcqRel);
            }
        }
        Fickle::HalfAnswer => {
            if read_request(&mut reader, seen).is_some() {
                let _ = writer.write_all(b"HTTP/1.1 2");
            }
        }
    }
}

/// Reads one request with a body; `None` at the end of the connection.
fn read_request(reader: &mut BufReader<&TcpStream>, seen: &AtomicU64) -> Option<()> {
    let mut length = 0;
    let mut line = String::new();
    let mut first = true;
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if std::mem::take(&mut first) {
            seen.fetch_add(1, Ordering::AcqRel);
        }
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().ok()?,
            Some(_) => {}
            None if line.trim_end().is_empty() => break,
            None => {}
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()
}
