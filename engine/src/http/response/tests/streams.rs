//! Event streams: what their events and their ends mean.

use super::super::super::sse::MAX_EVENT_BYTES;
use super::*;

#[test]
fn an_endless_event_is_refused_but_a_long_stream_is_not() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let piece = vec![b'x'; 64 * 1024];
    let mut pieces: Vec<&[u8]> = vec![head.as_bytes(), b"data:"];
    pieces.extend(std::iter::repeat_n(piece.as_slice(), MAX_EVENT_BYTES / piece.len()));
    assert_eq!(read(&pieces, Then::Stay).error, Some(HttpError::EventTooLarge));
    let block = events(&[TOKEN]).repeat(1000);
    let mut pieces: Vec<&[u8]> = vec![head.as_bytes()];
    pieces.extend(std::iter::repeat_n(block.as_bytes(), 20));
    assert_eq!(read(&pieces, Then::Stay).contents, 20_000);
}

#[test]
fn s05_crlf_and_lone_cr_streams_give_their_contents_before_the_end() {
    for end in ["\r\n", "\r", "\n"] {
        let body = events(&[TOKEN, FINISH, DONE]).replace('\n', end);
        let wire = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{body}");
        let before_the_end = facts(wire.as_bytes(), Then::Stay);
        assert_eq!(
            (before_the_end.contents, before_the_end.complete),
            (1, false),
            "{end:?}"
        );
        facts(wire.as_bytes(), Then::Close).assert_success();
    }
}

#[test]
fn s08_pings_broken_json_and_foreign_objects_are_ignored() {
    let body = format!(
        ": ping\n\n{}data: {{\"broken\n\ndata:\n\ndata: 5\n\ndata: {{\"object\":\"other\"}}\n\n: x\ndata: {TOKEN}\n\n{}",
        events(&[TOKEN]),
        events(&[DONE])
    );
    let wire = format!("{STREAM_HEAD}{}0\r\n\r\n", chunk(&body));
    let facts = facts(wire.as_bytes(), Then::Stay);
    facts.assert_success();
    assert_eq!((facts.contents, facts.outputs), (2, 2));
}

#[test]
fn s10_a_character_cut_by_a_chunk_or_a_read_is_content_all_the_same() {
    let token = TOKEN.replace("Hé", "日本🚀");
    let body = events(&[&token]);
    let first = body.find('本').unwrap() + 1;
    let parts = [&body.as_bytes()[..first], &body.as_bytes()[first..]];
    let mut wire = STREAM_HEAD.as_bytes().to_vec();
    for part in parts {
        wire.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        wire.extend_from_slice(part);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(format!("{}0\r\n\r\n", chunk(&events(&[DONE]))).as_bytes());
    let facts = facts(&wire, Then::Stay);
    facts.assert_success();
    assert_eq!(facts.contents, 1);
}

#[test]
fn s12_an_error_object_fails_the_stream_and_the_body_is_still_read() {
    let wire = stream(&[TOKEN, TOKEN, ERROR, TOKEN, DONE]);
    let facts = facts(&wire, Then::Stay);
    let failure = facts.failure.as_ref().unwrap();
    assert_eq!((failure.kind, failure.code), (FailureKind::StreamError, Some(503)));
    assert_eq!(failure.message, "engine died");
    assert_eq!((facts.contents, facts.consumed), (2, wire.len()));
    assert!(facts.complete && facts.keep_alive && !facts.missing_done);
}

#[test]
fn an_error_member_that_is_null_or_empty_is_no_error() {
    for value in ["null", "{}", "\"\"", "false"] {
        let token = TOKEN.replacen('{', &format!("{{\"error\":{value},"), 1);
        facts(&stream(&[&token, DONE]), Then::Stay).assert_success();
    }
}

#[test]
fn s14_an_error_event_fails_the_stream_with_its_text() {
    let body = format!("{}event: error\ndata: out of memory\n\n", events(&[TOKEN, TOKEN]));
    let facts = facts(format!("{STREAM_HEAD}{}0\r\n\r\n", chunk(&body)).as_bytes(), Then::Stay);
    assert_eq!(facts.failure(), (FailureKind::StreamError, "out of memory"));
    assert_eq!(facts.failure.unwrap().code, Some(502));
}

#[test]
fn an_error_in_a_stream_survives_the_close_that_follows_it() {
    let wire = format!("{STREAM_HEAD}{}", chunk(&events(&[TOKEN, ERROR])));
    let facts = facts(wire.as_bytes(), Then::Close);
    assert_eq!(facts.failure(), (FailureKind::StreamError, "engine died"));
    assert_eq!((facts.complete, facts.keep_alive), (true, false));
}

#[test]
fn s15_only_the_end_marker_is_no_token() {
    let facts = facts(&stream(&[DONE]), Then::Stay);
    assert_eq!(facts.failure().0, FailureKind::NoContent);
    assert!(facts.failure().1.starts_with("no token received"));
}

#[test]
fn s17_the_content_counts_in_the_feed_of_the_later_event() {
    let (mut pool, mut reader) = (ScratchPool::new(1, 256), ResponseReader::new(Protocol::Chat));
    let role = format!("{STREAM_HEAD}{}", chunk(&events(&[ROLE])));
    assert_eq!(reader.feed(role.as_bytes(), &mut pool).unwrap().contents, 0);
    let token = chunk(&events(&[TOKEN]));
    assert_eq!(reader.feed(token.as_bytes(), &mut pool).unwrap().contents, 1);
}

#[test]
fn s19_reasoning_is_content_but_not_output() {
    let facts = facts(&stream(&[THOUGHT, THOUGHT, TOKEN, FINISH, DONE]), Then::Stay);
    facts.assert_success();
    assert_eq!((facts.contents, facts.outputs), (3, 1));
}

#[test]
fn the_last_usage_that_is_not_empty_counts_as_a_whole() {
    let with = |usage: &str| format!(r#"{{"object":"chat.completion.chunk","choices":[],"usage":{usage}}}"#);
    let (first, second) = (
        with(r#"{"prompt_tokens":1,"total_tokens":2}"#),
        with(r#"{"prompt_tokens":5}"#),
    );
    let facts = facts(
        &stream(&[TOKEN, &first, &second, &with("{}"), &with("null"), DONE]),
        Then::Stay,
    );
    assert_eq!((facts.usage.prompt, facts.usage.total), (Some(5), None));
}

#[test]
fn s28_a_lone_finish_event_is_no_content() {
    let facts = facts(&stream(&[FINISH, DONE]), Then::Stay);
    assert_eq!(facts.failure().0, FailureKind::NoContent);
}

#[test]
fn s29_a_stream_without_finish_and_end_marker_is_truncated() {
    let ended = facts(&stream(&[TOKEN, TOKEN, TOKEN]), Then::Stay);
    assert_eq!(ended.failure().0, FailureKind::TruncatedStream);
    let empty = facts(&stream(&[]), Then::Stay);
    assert_eq!(empty.failure().0, FailureKind::TruncatedStream);
}

#[test]
fn s29_a_finish_without_the_end_marker_is_a_flagged_success() {
    let facts = facts(&stream(&[TOKEN, FINISH]), Then::Stay);
    facts.assert_success();
    assert!(facts.missing_done);
}

#[test]
fn a_last_event_without_its_blank_line_counts() {
    let body = format!("{}data: {TOKEN}\ndata:", events(&[TOKEN, DONE]));
    let wire = format!("{STREAM_HEAD}{}0\r\n\r\n", chunk(&body));
    let facts = facts(wire.as_bytes(), Then::Stay);
    facts.assert_success();
    assert_eq!(facts.contents, 2);
}
