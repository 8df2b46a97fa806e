//! A plain blocking client, with as little of HTTP in it as the tests need.
#![allow(dead_code, reason = "each test binary uses its own part of the client")]

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ringload_mock_server::{MockServer, Options};
use serde_json::Value;

/// Starts a quick server on a free port.
pub(crate) fn start(change: impl FnOnce(&mut Options)) -> MockServer {
    let mut options = Options {
        port: 0,
        ttft: Duration::from_millis(2),
        itl: Duration::from_millis(1),
        osl: Some(4),
        ..Default::default()
    };
    change(&mut options);
    MockServer::start(options).expect("the server starts")
}

/// One response as it was read.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// The head in lower case, with its first line.
    pub(crate) head: String,
    /// The body without chunk framing.
    pub(crate) body: String,
    /// The body came to its announced end.
    pub(crate) whole: bool,
}

impl Response {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// The data of all events.
    pub(crate) fn data(&self) -> Vec<&str> {
        let lines = self.body.lines();
        lines.filter_map(|line| line.strip_prefix("data: ")).collect()
    }

    /// The contents of all deltas.
    pub(crate) fn tokens(&self) -> Vec<String> {
        let chunks = self.data().into_iter().filter(|data| *data != "[DONE]");
        let chunks = chunks.map(|data| serde_json::from_str::<Value>(data).expect("JSON"));
        chunks
            .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
            .filter(|content| !content.is_empty())
            .collect()
    }
}

/// A connection that keeps what it has read too far.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    read: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(server: &MockServer) -> Client {
        let stream = TcpStream::connect(server.address()).expect("the server accepts");
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .expect("a timeout above zero");
        stream.set_nodelay(true).expect("a TCP socket");
        Client {
            stream,
            read: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, bytes: &str) {
        self.stream.write_all(bytes.as_bytes()).expect("the server reads");
    }

    /// Reads the next response; an error where the connection broke before its head was whole.
    pub(crate) fn receive(&mut self) -> io::Result<Response> {
        let end = loop {
            if let Some(end) = find(&self.read, b"\r\n\r\n") {
                break end + 4;
            }
            if !self.fill()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let head = String::from_utf8_lossy(&self.read.drain(..end).collect::<Vec<_>>()).to_ascii_lowercase();
        let status = head.strip_prefix("http/1.1 ").and_then(|rest| rest[..3].parse().ok());
        let status = status.ok_or(io::ErrorKind::InvalidData)?;
        let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        let (body, whole) = if header("transfer-encoding") == Some("chunked") {
            self.chunks()?
        } else if let Some(length) = header("content-length") {
            let length: usize = length.parse().map_err(|_| io::ErrorKind::InvalidData)?;
            while self.read.len() < length && self.fill()? {}
            let available = length.min(self.read.len());
            (self.read.drain(..available).collect(), available == length)
        } else {
            (Vec::new(), true)
        };
        Ok(Response {
            status,
            head,
            body: String::from_utf8_lossy(&body).into_owned(),
            whole,
        })
    }

    /// Reads a chunked body; `false` where it ended too early.
    fn chunks(&mut self) -> io::Result<(Vec<u8>, bool)> {
        let mut body = Vec::new();
        loop {
            let Some(line) = find(&self.read, b"\r\n") else {
                match self.fill() {
                    Ok(true) => continue,
                    _ => return Ok((body, false)),
                }
            };
            let size = std::str::from_utf8(&self.read[..line])
                .ok()
                .and_then(|hex| usize::from_str_radix(hex, 16).ok());
            let size = size.ok_or(io::ErrorKind::InvalidData)?;
            while self.read.len() < line + 2 + size + 2 {
                if !matches!(self.fill(), Ok(true)) {
                    return Ok((body, false));
                }
            }
            body.extend_from_slice(&self.read[line + 2..line + 2 + size]);
            assert_eq!(&self.read[line + 2 + size..line + 4 + size], b"\r\n");
            self.read.drain(..line + 4 + size);
            if size == 0 {
                return Ok((body, true));
            }
        }
    }

    /// Reads more; `false` at the end of the stream.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 64 * 1024];
        let received = self.stream.read(&mut buffer)?;
        self.read.extend_from_slice(&buffer[..received]);
        Ok(received > 0)
    }

    /// How the connection ends, with nothing more sent: `Ok` for FIN.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        while self.fill()? {}
        Ok(())
    }

    pub(crate) fn unread(&self) -> &[u8] {
        &self.read
    }

    pub(crate) fn get(&mut self, path: &str) -> Value {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: mock\r\n\r\n"));
        self.receive().expect("an answer").json()
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// A chat request; `headers` are whole lines.
pub(crate) fn chat(stream: bool, headers: &str) -> String {
    let options = if stream {
        r#","stream":true,"stream_options":{"include_usage":true}"#
    } else {
        ""
    };
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"count these words"}}]{options}}}"#);
    post("/v1/chat/completions", headers, &body)
}

pub(crate) fn post(path: &str, headers: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: mock\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Waits until `condition` holds; the limit only bounds a failure.
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}
