//! What does it cost to read a streamed chat answer?
//!
//! One answer of 32 tokens in chunked framing, one chunk per event, about 200 bytes each, goes through the response reader
//! whole, one event per feed, and in pieces of 100 bytes that cut every event. Times are per answer; criterion's
//! throughput counts events and bytes, and a line per case gives nanoseconds per event. Checked on every iteration: the
//! number of contents and the end.
//!
//! This is the parser alone, with its input in cache: no socket, no clock reading, no record. It bounds the cost of an
//! event from below and says nothing about how many events a core can take from a network.
//!
//! `RINGLOAD_BENCH_SMOKE=1` measures for a moment only, to show that the bench runs.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use ringload_benches::harness;
use ringload_engine::http::{Protocol, ResponseReader, ScratchPool};

const TOKENS: usize = 32;

/// The wire bytes of one event in its own chunk.
fn chunk(data: &str) -> Vec<u8> {
    let event = format!("data: {data}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len()).into_bytes()
}

/// Head, then one part per event, then the last chunk: together one response.
fn answer() -> Vec<Vec<u8>> {
    let object = |choices: &str, rest: &str| {
        format!(
            r#"{{"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,"model":"mock-model","choices":[{choices}]{rest}}}"#
        )
    };
    let delta = |delta: &str, reason: &str| {
        object(
            &format!(r#"{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{reason}}}"#),
            "",
        )
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nserver: mock\r\n\
                date: Tue, 14 Nov 2023 22:13:20 GMT\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut parts = vec![head.as_bytes().to_vec()];
    parts.push(chunk(&delta(r#"{"role":"assistant","content":""}"#, "null")));
    for token in 0..TOKENS {
        parts.push(chunk(&delta(&format!(r#"{{"content":" token{token}"}}"#), "null")));
    }
    parts.push(chunk(&delta("{}", r#""length""#)));
    let usage = r#","usage":{"prompt_tokens":128,"completion_tokens":32,"total_tokens":160}"#;
    parts.push(chunk(&object("", usage)));
    parts.push(chunk("[DONE]"));
    parts.push(b"0\r\n\r\n".to_vec());
    parts
}

/// Reads one answer and checks what it amounts to.
fn read(reader: &mut ResponseReader, pool: &mut ScratchPool, feeds: &[&[u8]]) {
    reader.begin(pool);
    let (mut contents, mut complete) = (0, false);
    for bytes in feeds {
        let feed = reader.feed(black_box(bytes), pool).expect("the answer is well formed");
        contents += feed.contents;
        complete = feed.complete;
    }
    assert!(contents as usize == TOKENS && complete && reader.failure().is_none());
}

fn main() {
    let parts = answer();
    let whole = parts.concat();
    let events = parts.len() - 2;
    let cases: [(&str, Vec<&[u8]>); 3] = [
        ("whole answer", vec![&whole]),
        ("event per feed", parts.iter().map(Vec::as_slice).collect()),
        ("100 bytes per feed", whole.chunks(100).collect()),
    ];

    let mut criterion = Criterion::default().configure_from_args();
    if harness::smoke() {
        criterion = criterion
            .sample_size(10)
            .warm_up_time(Duration::from_millis(20))
            .measurement_time(Duration::from_millis(50));
    }
    let mut group = criterion.benchmark_group("http_parse");
    group.throughput(Throughput::ElementsAndBytes {
        elements: events as u64,
        bytes: whole.len() as u64,
    });
    for (name, feeds) in &cases {
        let (mut reader, mut pool) = (ResponseReader::new(Protocol::Chat), ScratchPool::new(4, 4096));
        // Criterion owns the statistics; this sum over all of its iterations serves the line below only.
        let (mut spent, mut rounds) = (Duration::ZERO, 0u64);
        group.bench_function(*name, |bencher| {
            bencher.iter_custom(|iterations| {
                let start = Instant::now();
                for _ in 0..iterations {
                    read(&mut reader, &mut pool, feeds);
                }
                let elapsed = start.elapsed();
                spent += elapsed;
                rounds += iterations;
                elapsed
            });
        });
        if rounds > 0 {
            let per_answer = spent.as_secs_f64() / rounds as f64;
            println!(
                "{name}: {:.0} ns per event, {:.0} MB/s ({events} events, {} bytes, {rounds} answers)\n",
                per_answer * 1e9 / events as f64,
                whole.len() as f64 / per_answer / 1e6,
                whole.len()
            );
        }
    }
    group.finish();
    criterion.final_summary();
}
