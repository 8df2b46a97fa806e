//! How late does a paced server send, by its own ledger?
//!
//! Starts a server in this process, opens paced streams on it, and prints how far behind their due times the first and
//! last tokens were handed to the kernel. It says nothing about when they reached the client.
//!
//! `cargo run --release -p ringload-mock-server --example lateness -- [STREAMS] [TOKENS] [ITL_MS] [THREADS]`

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use ringload_mock_server::{MockServer, Options};

/// Streams are begun this far apart, so that no two are due together unless there are many.
const STAGGER: Duration = Duration::from_micros(50);
/// The first argument of the process that plays the clients.
const CLIENT: &str = "client";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, address, streams] = &arguments[..]
        && role == CLIENT
    {
        return play_client(address, streams.parse()?);
    }
    let numbers = arguments
        .iter()
        .map(|text| text.parse())
        .collect::<Result<Vec<u64>, _>>()?;
    let number = |index: usize, default| numbers.get(index).copied().unwrap_or(default);
    let (streams, tokens, itl_ms, threads) = (number(0, 1), number(1, 200), number(2, 10), number(3, 1));
    let options = Options {
        port: 0,
        threads: threads as usize,
        ttft: Duration::from_millis(100),
        itl: Duration::from_millis(itl_ms),
        osl: Some(u32::try_from(tokens)?),
        ..Options::default()
    };
    let (ttft_ns, length_ns) = (100_000_000, (tokens - 1) * itl_ms * 1_000_000);
    let server = MockServer::start(options)?;
    // The clients are a process of their own, so that each side has all of its descriptors for itself.
    let client = Command::new(std::env::current_exe()?)
        .args([CLIENT, &server.address().to_string(), &streams.to_string()])
        .status()?;
    if !client.success() {
        return Err(format!("the clients failed; the server had {:?}", server.counters()).into());
    }

    let ledger = server.ledger();
    let lateness = |sent_ns: Option<u64>, due_ns: u64| sent_ns.expect("every token was sent") - due_ns;
    let first = ledger
        .iter()
        .map(|entry| lateness(entry.first_token_ns, entry.receive_complete_ns + ttft_ns))
        .collect();
    let last = ledger
        .iter()
        .map(|entry| lateness(entry.last_token_ns, entry.receive_complete_ns + ttft_ns + length_ns))
        .collect();
    println!("{streams} streams of {tokens} tokens, one each {itl_ms} ms, on {threads} threads");
    print("first token", first);
    print("last token", last);
    println!("most in flight at once: {}", server.counters().in_flight_max);
    Ok(())
}

/// Opens `streams` streams on `address` and reads each to its end.
fn play_client(address: &str, streams: u64) -> Result<(), Box<dyn Error>> {
    let mut clients = (0..streams)
        .map(|_| TcpStream::connect(address))
        .collect::<Result<Vec<_>, _>>()?;
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hello"}],"stream":true}"#;
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut next = Instant::now();
    for client in &mut clients {
        client.set_nodelay(true)?;
        client.write_all(request.as_bytes())?;
        next += STAGGER;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let mut buffer = vec![0; 64 * 1024];
    for client in &mut clients {
        let mut answer = Vec::new();
        while !answer.ends_with(b"0\r\n\r\n") {
            let received = client.read(&mut buffer)?;
            if received == 0 {
                return Err("a stream ended too early".into());
            }
            answer.extend_from_slice(&buffer[..received]);
        }
    }
    Ok(())
}

fn print(what: &str, mut late_ns: Vec<u64>) {
    late_ns.sort_unstable();
    let at = |percent: usize| late_ns[(late_ns.len() - 1) * percent / 100] as f64 / 1e3;
    println!(
        "{what}: late by p50 {:.0} us, p99 {:.0} us, most {:.0} us",
        at(50),
        at(99),
        at(100)
    );
}
