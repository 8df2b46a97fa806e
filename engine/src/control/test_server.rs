//! A server for the tests of the client: one scripted answer per connection, and a log of what it read.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What the server does with one connection, after it read the request.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    /// Writes these bytes and closes.
    Bytes(String),
    /// Writes these bytes and keeps the connection open.
    BytesAndHang(String),
    /// Closes without a byte.
    Close,
}

/// A complete answer with this status, extra header lines and body.
pub(super) fn answer(status: u16, headers: &str, body: &str) -> Answer {
    Answer::Bytes(format!(
        "HTTP/1.1 {status} Reason\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

/// A complete answer without body.
pub(super) fn status(status: u16) -> Answer {
    answer(status, "", "")
}

/// A server on a free port of the loopback address. It refuses connections once its script is played.
pub(super) struct Server {
    pub(super) origin: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(super) fn start(script: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
        let origin = format!("http://{}", listener.local_addr().expect("the listener is bound"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        // With nothing to play the port is closed when this returns, so that the first connection is refused for certain.
        if !script.is_empty() {
            thread::spawn(move || play(listener, script, &log));
        }
        Self { origin, requests }
    }

    /// The requests read so far, as text.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests
            .lock()
            .expect("no test panics while it holds the log")
            .clone()
    }

    /// The paths of the requests read so far.
    pub(super) fn paths(&self) -> Vec<String> {
        self.requests()
            .iter()
            .filter_map(|request| request.split(' ').nth(1).map(str::to_owned))
            .collect()
    }
}

fn play(listener: TcpListener, script: Vec<Answer>, log: &Mutex<Vec<String>>) {
    let mut held = Vec::new();
    for answer in script {
        let Ok((mut stream, _)) = listener.accept() else { return };
        let request = read_request(&mut stream);
        // Logged before it is answered, so that whoever has the answer finds the request in the log.
        log.lock().expect("no test panics while it holds the log").push(request);
        match answer {
            Answer::Bytes(bytes) => drop(stream.write_all(bytes.as_bytes())),
            Answer::BytesAndHang(bytes) => {
                drop(stream.write_all(bytes.as_bytes()));
                held.push(stream);
            }
            Answer::Close => {}
        }
    }
    drop(listener);
    // Hung connections stay open until the client gives up on them.
    for mut stream in held {
        drop(stream.read_to_end(&mut Vec::new()));
    }
}

fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 1024];
    while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&buffer[..count]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
