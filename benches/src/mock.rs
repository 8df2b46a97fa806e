//! The mock server: started in this process, or its counters and ledger read from another one.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use ringload_mock_server::{Counters, LedgerEntry, MockServer, Options};

use crate::harness;

/// Longest silence of the server. A ledger of a million entries takes it a few seconds to write.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server in this process, on a free port and on the server's processor.
///
/// # Panics
/// If the host refuses it.
pub fn start(options: Options) -> MockServer {
    MockServer::start(Options {
        port: 0,
        pin_to: harness::processors().map(|(server, _)| server),
        ..options
    })
    .expect("a host that can run benches has a free port")
}

/// The counters of the server at `url`.
///
/// # Errors
/// The server cannot be reached, or what it says is not what a mock server says.
pub fn counters(url: &str) -> io::Result<Counters> {
    serde_json::from_slice(&get(url, "/counters")?).map_err(io::Error::from)
}

/// The ledger of the server at `url`.
///
/// # Errors
/// The server cannot be reached, or what it says is not what a mock server says.
pub fn ledger(url: &str) -> io::Result<Vec<LedgerEntry>> {
    serde_json::from_slice(&get(url, "/ledger")?).map_err(io::Error::from)
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// One GET on a connection of its own.
fn get(url: &str, path: &str) -> io::Result<Vec<u8>> {
    let authority = url
        .strip_prefix("http://")
        .map(|rest| rest.trim_end_matches('/'))
        .ok_or_else(|| {
            invalid(format!(
                "the mock server's address is {url}; it must start with http://"
            ))
        })?;
    let mut stream = TcpStream::connect(authority)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    body(&answer).ok_or_else(|| invalid(format!("{url}{path} gave no complete 200 answer")))
}

/// The body of a whole answer with a content length.
fn body(answer: &[u8]) -> Option<Vec<u8>> {
    let head_end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..head_end]).ok()?.to_ascii_lowercase();
    let body = &answer[head_end + 4..];
    let length: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))?
        .trim()
        .parse()
        .ok()?;
    (head.starts_with("http/1.1 200 ") && body.len() == length).then(|| body.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_server_has_counted_nothing() {
        let server = start(Options {
            fast: true,
            ..Options::default()
        });
        assert_eq!(counters(&server.url()).expect("counters").requests, 0);
        assert_eq!(ledger(&server.url()).expect("a ledger"), []);
    }

    #[test]
    fn a_short_or_failed_answer_is_no_answer() {
        assert_eq!(
            body(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"),
            Some(b"ab".to_vec())
        );
        assert_eq!(body(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"), None);
        assert_eq!(body(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nab"), None);
    }
}
