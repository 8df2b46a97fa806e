//! What reads bytes that others wrote, as functions from bytes: the faces that `fuzz/` and the mutation tests drive.
//!
//! Each reads its input in every way that matters and asserts what holds for all inputs. A panic is a finding.
//!
//! Not part of the public interface.

use std::io::Write as _;

use crate::config;
use crate::dataset::{FileFormat, FileOptions, read_bytes};
use crate::http::{Feed, HttpError, Protocol, ResponseReader, ScratchPool};
use crate::journal::{Reader, block_of, salvage};
use crate::record;

/// A config file: it is read, or refused with mistakes that have a place in it and can be shown.
///
/// # Panics
/// If neither.
pub fn config(bytes: &[u8]) {
    let environment = |name: &str| match name {
        "EMPTY" => Some(String::new()),
        "LONG" => Some("x".repeat(100_000)),
        _ => None,
    };
    let Err(mistakes) = config::parse_suite("fuzz.yaml", bytes, &environment) else {
        return;
    };
    let mut last = (0, 0);
    assert!(mistakes.iter().len() > 0, "refused without a mistake");
    for mistake in &mistakes {
        let place = (mistake.line, mistake.column);
        assert!(
            place >= last && mistake.line > 0 && mistake.column > 0,
            "{mistake:?} after {last:?}"
        );
        assert!(
            mistake.message.len() < 4096 && mistake.path.len() < 4096,
            "a message without end: {mistake:?}"
        );
        assert!(
            !mistake.message.contains('\n'),
            "a message of several lines: {mistake:?}"
        );
        last = place;
    }
    let lines = mistakes.render(false).lines().count();
    assert_eq!(lines, mistakes.iter().len(), "a line for each mistake");
    let shown = mistakes.render(true);
    let is_safe = |c: char| c == '\n' || !c.is_control();
    assert!(
        shown.chars().all(is_safe),
        "control characters reach the terminal: {shown:?}"
    );
}

/// The answers to two requests on one connection, head and body: the same facts however the bytes are split into reads.
///
/// # Panics
/// If the facts differ.
pub fn http(bytes: &[u8]) {
    let Some((&seed, wire)) = bytes.split_first() else {
        return;
    };
    let protocol = protocol(seed);
    let whole = facts(protocol, wire, usize::MAX);
    assert_eq!(facts(protocol, wire, 1), whole, "byte by byte");
    let size = 2 + usize::from(seed % 61);
    assert_eq!(facts(protocol, wire, size), whole, "{size} bytes at a time");
}

/// The body of an event stream, plain and in chunks: the same facts.
///
/// # Panics
/// If the facts differ.
pub fn sse(bytes: &[u8]) {
    let Some((&seed, body)) = bytes.split_first() else {
        return;
    };
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
    let mut plain = format!("{head}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    plain.extend_from_slice(body);
    let mut chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    for part in body.chunks(1 + usize::from(seed)) {
        chunked.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        chunked.extend_from_slice(part);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    let protocol = protocol(seed);
    let expected = facts(protocol, &plain, usize::MAX);
    assert_eq!(facts(protocol, &plain, 1), expected, "byte by byte");
    assert_eq!(facts(protocol, &chunked, usize::MAX), expected, "in chunks");
    assert_eq!(facts(protocol, &chunked, 7), expected, "in chunks, split");
}

/// The API that the first byte chooses.
fn protocol(seed: u8) -> Protocol {
    Protocol::ALL[usize::from(seed) % Protocol::ALL.len()]
}

/// What two answers on one connection come to.
#[derive(Debug, PartialEq, Eq)]
struct Facts {
    answers: Vec<Answer>,
}

#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    contents: u32,
    outputs: u32,
    complete: bool,
    failure: String,
    usage: String,
    text: Vec<u8>,
    error: Option<HttpError>,
}

fn facts(protocol: Protocol, wire: &[u8], size: usize) -> Facts {
    let mut pool = ScratchPool::new(2, 1 << 12);
    let mut reader = ResponseReader::new(protocol);
    let mut rest = wire;
    let mut answers = Vec::new();
    for _ in 0..2 {
        reader.begin_keeping_text(&mut pool);
        let answer = answer(&mut reader, &mut rest, size, &mut pool);
        let is_over = !answer.complete || !reader.keep_alive();
        answers.push(answer);
        if is_over {
            break;
        }
    }
    reader.begin(&mut pool);
    Facts { answers }
}

fn answer(reader: &mut ResponseReader, rest: &mut &[u8], size: usize, pool: &mut ScratchPool) -> Answer {
    let mut sum = Feed::default();
    let mut error = None;
    while !sum.complete && error.is_none() && !rest.is_empty() {
        let given = &rest[..size.min(rest.len())];
        match reader.feed(given, pool) {
            Ok(feed) => {
                assert!(
                    feed.consumed <= given.len() && (feed.complete || feed.consumed == given.len()),
                    "{feed:?}"
                );
                add(&mut sum, feed);
                *rest = &rest[feed.consumed..];
            }
            Err(found) => error = Some(found),
        }
    }
    if !sum.complete && error.is_none() {
        match reader.end_of_input(pool) {
            Ok(feed) => add(&mut sum, feed),
            Err(found) => error = Some(found),
        }
    }
    Answer {
        status: reader.status(),
        // What came before an error depends on where the reads ended; that it came to an error does not.
        contents: if error.is_none() { sum.contents } else { 0 },
        outputs: if error.is_none() { sum.outputs } else { 0 },
        complete: sum.complete,
        failure: format!("{:?}", reader.failure()),
        usage: format!("{:?}", reader.usage()),
        text: reader.text().to_vec(),
        error,
    }
}

fn add(sum: &mut Feed, feed: Feed) {
    sum.contents += feed.contents;
    sum.outputs += feed.outputs;
    sum.complete |= feed.complete;
}

/// A journal: as a file, or (odd first byte) as the payload of a block whose checksum is right.
///
/// # Panics
/// If the host has no room for a temporary file.
pub fn journal(bytes: &[u8]) {
    let Some((&choice, rest)) = bytes.split_first() else {
        return;
    };
    let file = if choice % 2 == 0 { rest.to_vec() } else { block_of(rest) };
    let mut at = 0;
    while at < rest.len() {
        let text = record::decode_text(rest, &mut at);
        if text.is_err() || (text == Ok(None) && record::decode(rest, &mut at).is_err()) {
            break;
        }
    }
    let path = std::env::temp_dir().join(format!(
        "ringload-fuzz-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let mut written = std::fs::File::create(&path).expect("a temporary file");
    written.write_all(&file).expect("room for a temporary file");
    if let Ok(reader) = Reader::open(&path) {
        // Every record takes bytes, so there are no more of them than bytes.
        let records = reader.take(file.len() + 1).take_while(Result::is_ok).count();
        assert!(records <= file.len(), "{records} records of {} bytes", file.len());
    }
    if let Ok(hold) = salvage(&path) {
        let mut seen = 0;
        let salvaged = hold.read(|_| true, |_| seen += 1);
        let salvaged = salvaged.expect("a temporary file can be read");
        let reader = salvaged.reader().expect("a temporary file can be read");
        assert_eq!(
            reader.filter_map(Result::ok).count(),
            seen,
            "what was checked can be read"
        );
    }
    let _ = std::fs::remove_file(&path);
}

/// A dataset file in the format that the first byte chooses: sessions, or mistakes that can be shown.
///
/// # Panics
/// If neither.
pub fn dataset(bytes: &[u8]) {
    let Some((&choice, rest)) = bytes.split_first() else {
        return;
    };
    let formats = [
        FileFormat::SingleTurn,
        FileFormat::MultiTurn,
        FileFormat::MooncakeTrace,
        FileFormat::RandomPool,
    ];
    let options = FileOptions {
        format: formats[usize::from(choice) % formats.len()],
        block_size: 16,
    };
    match read_bytes(rest, options) {
        Ok(sessions) => assert!(!sessions.is_empty(), "no session and no mistake"),
        Err(error) => assert!(!error.to_string().is_empty(), "an error without words: {error:?}"),
    }
}
