//! Whole responses against the reader, each in every split.

mod apis;
mod splits;
mod streams;

use super::super::failure::FailureKind;
use super::*;

/// Everything that a reader says about one response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Facts {
    error: Option<HttpError>,
    status: u16,
    complete: bool,
    consumed: usize,
    heads: u32,
    contents: u32,
    outputs: u32,
    body_bytes: u32,
    keep_alive: bool,
    event_stream: bool,
    missing_done: bool,
    usage: TokenUsage,
    failure: Option<ResponseFailure>,
}

impl Facts {
    fn add(&mut self, feed: Feed) {
        self.consumed += feed.consumed;
        self.heads += u32::from(feed.head_completed);
        self.contents += feed.contents;
        self.outputs += feed.outputs;
        self.body_bytes += feed.body_bytes;
        self.complete = feed.complete;
    }

    fn failure(&self) -> (FailureKind, &str) {
        let failure = self.failure.as_ref().expect("a failed response");
        (failure.kind, &failure.message)
    }

    #[track_caller]
    fn assert_success(&self) {
        assert_eq!(
            (self.error, &self.failure, self.complete),
            (None, &None, true),
            "{self:?}"
        );
    }
}

/// Whether the peer closes after its last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Stay,
    Close,
}

fn read(pieces: &[&[u8]], then: Then) -> Facts {
    read_as(Protocol::Chat, pieces, then)
}

fn read_as(protocol: Protocol, pieces: &[&[u8]], then: Then) -> Facts {
    let mut pool = ScratchPool::new(4, 256);
    let mut reader = ResponseReader::new(protocol);
    let mut facts = Facts::default();
    let feeds = pieces
        .iter()
        .map(|piece| reader.feed(piece, &mut pool))
        .collect::<Vec<_>>();
    let close = (then == Then::Close).then(|| reader.end_of_input(&mut pool));
    for feed in feeds.into_iter().chain(close) {
        match feed {
            Ok(feed) => facts.add(feed),
            Err(error) => {
                // What the failing call itself completed is not reported, so counts depend on the split from here on.
                let status = reader.status();
                facts = Facts {
                    error: Some(error),
                    status,
                    ..Facts::default()
                };
                break;
            }
        }
    }
    if facts.error.is_none() {
        facts.status = reader.status();
        facts.keep_alive = reader.keep_alive();
        facts.event_stream = reader.is_event_stream();
        facts.missing_done = reader.missing_done();
        facts.usage = reader.usage();
        facts.failure = reader.failure();
        if facts.complete {
            assert_eq!(pool.idle(), 4, "a complete response holds no buffer");
        }
    }
    reader.begin(&mut pool);
    assert_eq!(pool.idle(), 4, "begin gives every buffer back");
    facts
}

/// The facts of `wire`, checked to be the same for every cut in two and for single bytes.
#[track_caller]
fn facts(wire: &[u8], then: Then) -> Facts {
    facts_as(Protocol::Chat, wire, then)
}

#[track_caller]
fn facts_as(protocol: Protocol, wire: &[u8], then: Then) -> Facts {
    let whole = read_as(protocol, &[wire], then);
    for cut in 0..=wire.len() {
        let cut_in_two = read_as(protocol, &[&wire[..cut], &wire[cut..]], then);
        assert_eq!(cut_in_two, whole, "cut at {cut}");
    }
    let single_bytes = read_as(protocol, &wire.chunks(1).collect::<Vec<_>>(), then);
    assert_eq!(single_bytes, whole, "single bytes");
    whole
}

const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const ROLE: &str =
    r#"{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;
const TOKEN: &str =
    r#"{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hé"},"finish_reason":null}]}"#;
const THOUGHT: &str =
    r#"{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}"#;
const FINISH: &str = r#"{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const USAGE: &str = r#"{"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}"#;
const DONE: &str = "[DONE]";
const ERROR: &str = r#"{"error":{"message":"engine died","code":503}}"#;
const ANSWER: &str = r#"{"object":"chat.completion","choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1}}"#;

/// Each text as one event.
fn events(data: &[&str]) -> String {
    data.iter().map(|data| format!("data: {data}\n\n")).collect()
}

/// One chunk of a chunked body.
fn chunk(payload: &str) -> String {
    format!("{:x}\r\n{payload}\r\n", payload.len())
}

/// A complete chunked stream with one chunk per event.
fn stream(data: &[&str]) -> Vec<u8> {
    let chunks: String = data.iter().map(|data| chunk(&events(&[data]))).collect();
    format!("{STREAM_HEAD}{chunks}0\r\n\r\n").into_bytes()
}

/// A response with a length.
fn sized(status: &str, fields: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[test]
fn a_usual_stream_is_a_success_with_its_contents_and_usage() {
    let wire = stream(&[ROLE, TOKEN, TOKEN, TOKEN, TOKEN, FINISH, USAGE, DONE]);
    let facts = facts(&wire, Then::Stay);
    facts.assert_success();
    assert_eq!((facts.contents, facts.outputs, facts.heads), (4, 4, 1));
    assert_eq!(facts.usage.completion, Some(4));
    assert_eq!((facts.consumed, facts.status), (wire.len(), 200));
    assert!(facts.keep_alive && !facts.missing_done && facts.event_stream);
}

#[test]
fn each_feed_counts_what_it_completed() {
    let (mut pool, mut reader) = (ScratchPool::new(1, 256), ResponseReader::new(Protocol::Chat));
    let head = reader.feed(STREAM_HEAD.as_bytes(), &mut pool).unwrap();
    assert_eq!((head.head_completed, head.contents, head.body_bytes), (true, 0, 0));
    let wire = chunk(&events(&[TOKEN, THOUGHT]));
    let feed = reader.feed(wire.as_bytes(), &mut pool).unwrap();
    assert_eq!(
        (feed.head_completed, feed.contents, feed.outputs, feed.complete),
        (false, 2, 1, false)
    );
    assert_eq!(feed.body_bytes as usize, events(&[TOKEN, THOUGHT]).len());
    let wire = chunk(&events(&[TOKEN]));
    let (first, second) = wire.as_bytes().split_at(60);
    assert_eq!(reader.feed(first, &mut pool).unwrap().contents, 0);
    assert_eq!(pool.idle(), 0, "half an event is carried");
    assert_eq!(reader.feed(second, &mut pool).unwrap().contents, 1);
    assert_eq!(pool.idle(), 1, "a whole event gives its buffer back");
}

#[test]
fn a_reader_serves_one_response_after_the_other() {
    let (mut pool, mut reader) = (ScratchPool::new(1, 256), ResponseReader::new(Protocol::Chat));
    assert!(
        reader
            .feed(&sized("500 Oops", "", "broken"), &mut pool)
            .unwrap()
            .complete
    );
    assert!(reader.failure().is_some() && reader.got_any_byte());
    reader.begin(&mut pool);
    assert!(!reader.got_any_byte() && reader.failure().is_none());
    assert_eq!((reader.status(), reader.usage()), (0, TokenUsage::default()));
    let feed = reader.feed(&stream(&[TOKEN, DONE]), &mut pool).unwrap();
    assert_eq!((feed.contents, feed.complete, reader.failure()), (1, true, None));
}

#[test]
fn bytes_behind_a_complete_response_are_not_consumed() {
    let wire = sized("200 OK", "", ANSWER);
    let facts = facts(&[wire.as_slice(), b"HTTP/1.1 200 OK\r\n"].concat(), Then::Stay);
    facts.assert_success();
    assert_eq!(facts.consumed, wire.len());
}

#[test]
fn an_error_stays_until_the_next_response() {
    let (mut pool, mut reader) = (ScratchPool::new(1, 256), ResponseReader::new(Protocol::Chat));
    // Neither a line end nor the close of the connection is waited for.
    assert_eq!(reader.feed(b"S", &mut pool), Err(HttpError::MalformedHead));
    reader.begin(&mut pool);
    assert_eq!(
        reader.feed(b"HTTP", &mut pool),
        Ok(Feed {
            consumed: 4,
            ..Feed::default()
        })
    );
    assert_eq!(reader.feed(b"/2", &mut pool), Err(HttpError::MalformedHead));
    assert_eq!(reader.feed(&stream(&[TOKEN]), &mut pool), Err(HttpError::MalformedHead));
    assert_eq!(reader.end_of_input(&mut pool), Err(HttpError::MalformedHead));
    assert!(!reader.keep_alive());
    reader.begin(&mut pool);
    assert!(reader.feed(&stream(&[TOKEN, DONE]), &mut pool).unwrap().complete);
}

#[test]
fn h01_a_close_before_the_first_byte_is_told_from_one_inside_the_head() {
    let (mut pool, mut reader) = (ScratchPool::new(1, 256), ResponseReader::new(Protocol::Chat));
    assert_eq!(reader.end_of_input(&mut pool), Err(HttpError::Disconnected));
    assert!(!reader.got_any_byte());
    reader.begin(&mut pool);
    reader.feed(b"H", &mut pool).unwrap();
    assert_eq!(reader.end_of_input(&mut pool), Err(HttpError::Disconnected));
    assert!(reader.got_any_byte());
    assert_eq!(
        facts(b"HTTP/1.1 200 OK\r\nA: b\r\n", Then::Close).error,
        Some(HttpError::Disconnected)
    );
}

#[test]
fn h03_trailers_leave_the_connection_in_step() {
    let wire = format!("{STREAM_HEAD}{}0\r\nX-Foo: bar\r\n\r\n", chunk(&events(&[TOKEN, DONE])));
    let facts = facts(wire.as_bytes(), Then::Stay);
    facts.assert_success();
    assert!(facts.keep_alive);
    assert_eq!(facts.consumed, wire.len());
}

#[test]
fn h04_chunk_extensions_and_odd_sizes_do_not_disturb_a_stream() {
    let payload = events(&[TOKEN, DONE]);
    let wire = format!(
        "{STREAM_HEAD}000{:X};foo=bar\r\n{payload}\r\n0;last\r\n\r\n",
        payload.len()
    );
    let facts = facts(wire.as_bytes(), Then::Stay);
    facts.assert_success();
    assert_eq!((facts.contents, facts.body_bytes as usize), (1, payload.len()));
}

#[test]
fn h06_a_body_that_ends_early_is_incomplete() {
    let answer = sized("200 OK", "", ANSWER);
    assert_eq!(
        facts(&answer[..answer.len() - 1], Then::Close).error,
        Some(HttpError::IncompleteBody)
    );
    let wire = stream(&[TOKEN, FINISH, DONE]);
    for missing in [1, 5, 30] {
        let facts = read(&[&wire[..wire.len() - missing]], Then::Close);
        assert_eq!(facts.error, Some(HttpError::IncompleteBody), "{missing} bytes missing");
    }
}

#[test]
fn h09_interim_heads_are_skipped() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let wire = [interim.as_bytes(), &sized("200 OK", "", ANSWER)].concat();
    let facts = facts(&wire, Then::Stay);
    facts.assert_success();
    assert_eq!((facts.heads, facts.status, facts.consumed), (1, 200, wire.len()));
}

#[test]
fn a_switch_of_protocols_is_refused() {
    let wire = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n";
    assert_eq!(facts(wire, Then::Stay).error, Some(HttpError::UnexpectedUpgrade));
}

#[test]
fn h13_an_error_status_survives_a_body_that_is_cut_short() {
    let wire = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 100\r\n\r\nprompt too long";
    let facts = facts(wire, Then::Close);
    assert_eq!((facts.error, facts.complete, facts.keep_alive), (None, true, false));
    assert_eq!(
        facts.failure(),
        (FailureKind::Status, "prompt too long (body cut short by the server)")
    );
}

#[test]
fn h15_a_content_coding_fails_with_a_clear_message_and_the_body_is_drained() {
    let wire = sized("200 OK", "Content-Encoding: gzip\r\n", "\x1f binary");
    let ok = facts(&wire, Then::Stay);
    assert_eq!(ok.failure().0, FailureKind::ContentEncoding);
    assert!(ok.failure().1.contains("'gzip'") && ok.failure().1.contains("identity"));
    assert!(ok.complete && ok.keep_alive);
    let wire = sized("500 Oops", "Content-Encoding: br\r\n", "\x1f binary");
    let failure = facts(&wire, Then::Stay).failure.unwrap();
    assert_eq!(
        (failure.kind, failure.message.as_str()),
        (FailureKind::Status, "(body not shown: content-encoding 'br')")
    );
}

#[test]
fn h17_retry_after_is_shown_with_the_status() {
    let facts = facts(
        &sized("429 Too Many Requests", "Retry-After: 2\r\n", "slow down"),
        Then::Stay,
    );
    let failure = facts.failure.as_ref().unwrap();
    assert_eq!(
        (failure.code, failure.type_name.as_deref()),
        (Some(429), Some("Too Many Requests"))
    );
    assert_eq!(failure.message, "slow down (retry-after: 2)");
    assert!(facts.keep_alive);
}

#[test]
fn h26_the_reason_in_an_error_body_is_shown_whatever_its_framing() {
    for wire in [
        sized("400 Bad Request", "", "{\"detail\":\"bad\"}"),
        b"HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"det\r\nb\r\nail\":\"bad\"}\r\n0\r\n\r\n".to_vec(),
        b"HTTP/1.1 400 Bad Request\r\n\r\n{\"detail\":\"bad\"}".to_vec(),
        sized("400 Bad Request", "Content-Type: text/event-stream\r\n", "{\"detail\":\"bad\"}"),
    ] {
        let facts = facts(&wire, Then::Close);
        assert_eq!(facts.failure(), (FailureKind::Status, "{\"detail\":\"bad\"}"));
        assert_eq!(facts.contents, 0);
    }
}

#[test]
fn a_long_error_body_is_drained_and_its_message_bounded() {
    let facts = read(
        &sized("500 Oops", "", &"x".repeat(100_000))
            .chunks(1000)
            .collect::<Vec<_>>(),
        Then::Stay,
    );
    assert_eq!(
        (facts.failure().1.len(), facts.complete, facts.keep_alive),
        (4096, true, true)
    );
    assert_eq!(facts.body_bytes, 100_000);
}

#[test]
fn c14_a_redirect_is_a_failure_that_shows_the_location() {
    let facts = facts(
        &sized("307 Temporary Redirect", "Location: /v2/chat\r\n", "<html>"),
        Then::Stay,
    );
    assert_eq!(
        facts.failure(),
        (
            FailureKind::Status,
            "redirect to '/v2/chat' was not followed: set the endpoint url to the final address"
        )
    );
    assert_eq!(facts.failure.unwrap().code, Some(307));
}

#[test]
fn h27_a_whole_response_with_a_close_right_behind_is_a_success() {
    for wire in [
        sized("200 OK", "Connection: close\r\n", ANSWER),
        format!("HTTP/1.1 200 OK\r\n\r\n{ANSWER}").into_bytes(),
        format!(
            "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{}",
            events(&[TOKEN, DONE])
        )
        .into_bytes(),
    ] {
        let facts = facts(&wire, Then::Close);
        facts.assert_success();
        assert_eq!((facts.contents, facts.keep_alive), (1, false));
    }
}

#[test]
fn a_head_that_comes_byte_by_byte_stays_in_one_buffer() {
    let fields = format!("X-Filler: {}\r\n", "x".repeat(200)).repeat(100);
    let wire = format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n");
    let (mut pool, mut reader) = (ScratchPool::new(1, MAX_HEAD_BYTES), ResponseReader::new(Protocol::Chat));
    let (last, before) = wire.as_bytes().split_last().unwrap();
    for byte in before {
        let feed = reader.feed(&[*byte], &mut pool).unwrap();
        assert_eq!((feed.consumed, feed.head_completed), (1, false));
    }
    assert!(reader.feed(&[*last], &mut pool).unwrap().complete);
    assert_eq!(pool.idle(), 1, "a second buffer is one that it was copied to");
}

#[test]
fn the_head_is_bounded_interim_heads_included() {
    let filler = |bytes: usize| format!("X-Filler: {}\r\n", "x".repeat(bytes - 12));
    let with_head_of = |bytes: usize| {
        let rest = "HTTP/1.1 204 None\r\n\r\n";
        format!("HTTP/1.1 204 None\r\n{}\r\n", filler(bytes - rest.len())).into_bytes()
    };
    let interim = "HTTP/1.1 100 Continue\r\n\r\n";
    for step in [1 << 20, 4096, 777] {
        let read = |wire: &[u8]| read(&wire.chunks(step).collect::<Vec<_>>(), Then::Stay);
        assert_eq!(read(&with_head_of(MAX_HEAD_BYTES)).status, 204, "pieces of {step}");
        let long = with_head_of(MAX_HEAD_BYTES + 1);
        assert_eq!(read(&long).error, Some(HttpError::HeadTooLarge), "pieces of {step}");
        let after_interim = [interim.as_bytes(), &with_head_of(MAX_HEAD_BYTES)].concat();
        assert_eq!(
            read(&after_interim).error,
            Some(HttpError::HeadTooLarge),
            "pieces of {step}"
        );
        let endless = interim.repeat(MAX_HEAD_BYTES / interim.len() + 1);
        assert_eq!(
            read(endless.as_bytes()).error,
            Some(HttpError::HeadTooLarge),
            "pieces of {step}"
        );
        let no_line_end = format!("HTTP/1.1 200 {}", "H".repeat(MAX_HEAD_BYTES + 1 - 13));
        assert_eq!(
            read(no_line_end.as_bytes()).error,
            Some(HttpError::HeadTooLarge),
            "pieces of {step}"
        );
    }
}

#[test]
fn whole_bodies_are_bounded_by_length_and_by_what_arrives() {
    let announced = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", MAX_BODY_BYTES + 1);
    assert_eq!(
        read(&[announced.as_bytes()], Then::Stay).error,
        Some(HttpError::BodyTooLarge)
    );
    let mebibyte = vec![b' '; 1 << 20];
    let mut pieces: Vec<&[u8]> = vec![b"HTTP/1.1 200 OK\r\n\r\n"];
    pieces.extend(std::iter::repeat_n(mebibyte.as_slice(), MAX_BODY_BYTES >> 20));
    assert_eq!(read(&pieces, Then::Stay).error, None);
    pieces.push(b" ");
    assert_eq!(read(&pieces, Then::Stay).error, Some(HttpError::BodyTooLarge));
}

#[test]
fn s34_a_whole_answer_is_one_content_although_a_stream_was_asked_for() {
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n{}{}0\r\n\r\n",
        chunk(&ANSWER[..30]),
        chunk(&ANSWER[30..])
    );
    for wire in [
        sized("200 OK", "Content-Type: application/json\r\n", ANSWER),
        chunked.into_bytes(),
    ] {
        let facts = facts(&wire, Then::Stay);
        facts.assert_success();
        assert_eq!(
            (facts.contents, facts.outputs, facts.body_bytes as usize),
            (1, 1, ANSWER.len())
        );
        assert_eq!(facts.usage.completion, Some(1));
        assert!(facts.keep_alive && !facts.missing_done && !facts.event_stream);
    }
}

#[test]
fn an_answer_of_reasoning_alone_is_no_output() {
    let answer = ANSWER.replace("\"content\"", "\"reasoning\"");
    let facts = facts(&sized("200 OK", "", &answer), Then::Stay);
    facts.assert_success();
    assert_eq!((facts.contents, facts.outputs), (1, 0));
}

#[test]
fn answers_without_content_json_or_success_are_failures() {
    for (body, kind, message) in [
        ("", FailureKind::NoContent, "response body is empty"),
        ("{\"object\":\"list\"}", FailureKind::NoContent, "not a chat.completion"),
        ("<html>hi", FailureKind::InvalidBody, "'<html>hi'"),
        ("{\"object\":", FailureKind::InvalidBody, "not JSON"),
        (ERROR, FailureKind::StreamError, "engine died"),
    ] {
        let facts = facts(&sized("200 OK", "", body), Then::Stay);
        assert_eq!(facts.failure().0, kind, "{body:?}");
        assert!(facts.failure().1.contains(message), "{facts:?}");
        assert_eq!((facts.contents, facts.keep_alive), (0, true));
    }
    let facts = facts(b"HTTP/1.1 204 No Content\r\n\r\n", Then::Stay);
    assert_eq!((facts.complete, facts.failure().0), (true, FailureKind::NoContent));
}

#[test]
fn a_reader_stays_small() {
    assert!(
        size_of::<ResponseReader>() <= 192,
        "{} bytes",
        size_of::<ResponseReader>()
    );
}

#[test]
fn straddling_events_reuse_the_pools_buffers() {
    let (mut pool, mut reader) = (ScratchPool::new(1, 4096), ResponseReader::new(Protocol::Chat));
    reader.feed(STREAM_HEAD.as_bytes(), &mut pool).unwrap();
    let wire = chunk(&events(&[TOKEN])).repeat(500);
    let buffer = pool.take();
    let address = buffer.as_ptr();
    pool.put(buffer);
    for piece in wire.as_bytes().chunks(100) {
        reader.feed(piece, &mut pool).unwrap();
    }
    reader.begin(&mut pool);
    let buffer = pool.take();
    assert_eq!((buffer.as_ptr(), pool.idle()), (address, 0));
}

#[test]
fn the_text_of_an_answer_is_kept_as_it_is_written_if_it_is_wanted() {
    let mut pool = ScratchPool::new(4, 64);
    let mut reader = ResponseReader::new(Protocol::Chat);
    let text = |piece: &str| format!(r#"{{"object":"chat.completion.chunk","choices":[{{"delta":{piece}}}]}}"#);
    let data = [
        text(r#"{"role":"assistant","content":""}"#),
        text(r#"{"reasoning_content":"hm"}"#),
        text(r#"{"content":"a \"b\""}"#),
        text(r#"{"content":"\u00e9"}"#),
        text(r#"{"content":" é"}"#),
        text(r#"{"content":"x","content":null}"#),
        text(r#"{"tool_calls":[{"function":{"name":"f"}}]}"#),
        r#"{"object":"other","choices":[{"delta":{"content":"no"}}]}"#.to_owned(),
        "[DONE]".to_owned(),
    ];
    let data: Vec<&str> = data.iter().map(String::as_str).collect();
    let wire = stream(&data);
    for size in [1, 7, wire.len()] {
        for _ in 0..2 {
            reader.begin_keeping_text(&mut pool);
            for piece in wire.chunks(size) {
                reader.feed(piece, &mut pool).unwrap();
            }
            assert_eq!(reader.text(), r#"a \"b\"\u00e9 é"#.as_bytes());
        }
    }
    reader.begin(&mut pool);
    reader.feed(&wire, &mut pool).unwrap();
    assert_eq!(reader.text(), b"", "nobody asked");
    let body = r#"{"object":"chat.completion","choices":[{"message":{"content":"whole"}}]}"#;
    reader.begin_keeping_text(&mut pool);
    reader.feed(&sized("200 OK", "", body), &mut pool).unwrap();
    assert_eq!(reader.text(), b"whole");
    reader.begin(&mut pool);
    assert_eq!(pool.idle(), 4, "buffers go back");
}
