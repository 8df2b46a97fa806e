//! Streams and answers of the APIs beside chat completions, in every split.

use proptest::prelude::*;

use super::*;

const CREATED: &str = r#"{"type":"response.created","response":{"id":"r","object":"response","usage":null}}"#;
const DELTA: &str =
    r#"{"type":"response.output_text.delta","item_id":"i","output_index":0,"content_index":0,"delta":"Hé"}"#;
const THINKS: &str = r#"{"type":"response.reasoning_text.delta","output_index":0,"content_index":0,"delta":"hm"}"#;
const CALLS: &str = r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{}"}"#;
const TEXT_DONE: &str = r#"{"type":"response.output_text.done","output_index":0,"content_index":0,"text":"H\u00e9Hé"}"#;
const COMPLETED: &str = r#"{"type":"response.completed","response":{"object":"response","usage":{"input_tokens":9,"output_tokens":4,"total_tokens":13}}}"#;

const START: &str = r#"{"type":"message_start","message":{"type":"message","content":[],"usage":{"input_tokens":9,"cache_read_input_tokens":5,"output_tokens":1}}}"#;
const PING: &str = r#"{"type":"ping"}"#;
const BLOCK: &str = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hé"}}"#;
const THINKING: &str = r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#;
const STOP_REASON: &str = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":8}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

const PIECE: &str = r#"{"object":"text_completion","choices":[{"index":0,"text":"Hé","finish_reason":null}]}"#;
const LAST: &str = r#"{"object":"text_completion","choices":[{"index":0,"text":"","finish_reason":"length"}],"usage":{"prompt_tokens":9,"completion_tokens":2}}"#;

/// A stream whose events have the names that their data say.
fn named(data: &[&str]) -> Vec<u8> {
    let event = |data: &&str| {
        let value: serde_json::Value = serde_json::from_str(data).expect("JSON");
        let name = value["type"].as_str().expect("a type").to_owned();
        chunk(&format!("event: {name}\ndata: {data}\n\n"))
    };
    let chunks: String = data.iter().map(event).collect();
    format!("{STREAM_HEAD}{chunks}0\r\n\r\n").into_bytes()
}

/// The text that is kept of a stream, however it is cut in two.
fn text_of(protocol: Protocol, wire: &[u8]) -> String {
    let read = |pieces: &[&[u8]]| {
        let (mut pool, mut reader) = (ScratchPool::new(2, 256), ResponseReader::new(protocol));
        reader.begin_keeping_text(&mut pool);
        for piece in pieces {
            reader.feed(piece, &mut pool).expect("sound");
        }
        String::from_utf8(reader.text().to_vec()).expect("text")
    };
    let whole = read(&[wire]);
    for cut in 0..=wire.len() {
        assert_eq!(read(&[&wire[..cut], &wire[cut..]]), whole, "cut at {cut}");
    }
    whole
}

#[test]
fn a_stream_of_completions_ends_with_its_reason_and_done() {
    let wire = stream(&[PIECE, PIECE, LAST, DONE]);
    let read = facts_as(Protocol::Completions, &wire, Then::Stay);
    read.assert_success();
    assert_eq!((read.contents, read.outputs, read.missing_done), (2, 2, false));
    assert_eq!((read.usage.prompt, read.usage.completion), (Some(9), Some(2)));
    assert_eq!(text_of(Protocol::Completions, &wire), "HéHé");
    assert!(facts_as(Protocol::Completions, &stream(&[PIECE, LAST]), Then::Stay).missing_done);
    let cut = facts_as(Protocol::Completions, &stream(&[PIECE]), Then::Stay);
    assert_eq!(cut.failure().0, FailureKind::TruncatedStream);
    // Chunks of chats are another API's.
    let other = facts_as(Protocol::Completions, &stream(&[TOKEN, DONE]), Then::Stay);
    assert_eq!(other.failure().0, FailureKind::NoContent);
}

#[test]
fn a_stream_of_responses_ends_with_completed_and_its_whole_text_counts_as_content() {
    let wire = named(&[CREATED, THINKS, DELTA, DELTA, CALLS, TEXT_DONE, COMPLETED]);
    let read = facts_as(Protocol::Responses, &wire, Then::Stay);
    read.assert_success();
    assert_eq!((read.contents, read.outputs, read.missing_done), (5, 4, false));
    assert_eq!(read.usage.total, Some(13));
    // Said in pieces, the whole says nothing new.
    assert_eq!(text_of(Protocol::Responses, &wire), "HéHé");
    assert_eq!(
        text_of(Protocol::Responses, &named(&[CREATED, TEXT_DONE, COMPLETED])),
        r"H\u00e9Hé"
    );
    let cut = facts_as(Protocol::Responses, &named(&[CREATED, DELTA, TEXT_DONE]), Then::Stay);
    assert_eq!(
        cut.failure(),
        (
            FailureKind::TruncatedStream,
            "truncated stream: it ended without response.completed"
        )
    );
    let silent = facts_as(Protocol::Responses, &named(&[CREATED, COMPLETED]), Then::Stay);
    assert_eq!(silent.failure().0, FailureKind::NoContent);
    let failed = r#"{"type":"response.failed","response":{"error":{"code":"server_error","message":"engine died"}}}"#;
    let failed = facts_as(Protocol::Responses, &named(&[CREATED, DELTA, failed]), Then::Stay);
    assert_eq!(failed.failure(), (FailureKind::StreamError, "engine died"));
}

#[test]
fn a_stream_of_messages_counts_over_all_its_usage_objects() {
    let wire = named(&[START, PING, THINKING, BLOCK, BLOCK, STOP_REASON, STOP]);
    let read = facts_as(Protocol::Messages, &wire, Then::Stay);
    read.assert_success();
    assert_eq!((read.contents, read.outputs, read.missing_done), (3, 2, false));
    let usage = read.usage;
    assert_eq!(
        (usage.prompt, usage.completion, usage.cache_read, usage.total),
        (Some(14), Some(8), Some(5), None)
    );
    assert_eq!(text_of(Protocol::Messages, &wire), "HéHé");
    let no_stop = facts_as(Protocol::Messages, &named(&[START, BLOCK, STOP_REASON]), Then::Stay);
    assert!(no_stop.missing_done && no_stop.failure.is_none());
    let cut = facts_as(Protocol::Messages, &named(&[START, BLOCK]), Then::Stay);
    assert_eq!(cut.failure().0, FailureKind::TruncatedStream);
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let failed = facts_as(Protocol::Messages, &named(&[START, BLOCK, error]), Then::Stay);
    assert_eq!(failed.failure(), (FailureKind::StreamError, "Overloaded"));
}

#[test]
fn whole_answers_are_judged_by_their_api() {
    let embeddings =
        r#"{"object":"list","data":[{"object":"embedding","embedding":[0.1]}],"usage":{"prompt_tokens":9}}"#;
    let answers = [
        (
            Protocol::Completions,
            r#"{"object":"text_completion","choices":[{"text":"a"}]}"#,
        ),
        (Protocol::Responses, r#"{"object":"response","output_text":"a"}"#),
        (
            Protocol::Messages,
            r#"{"type":"message","content":[{"type":"text","text":"a"}]}"#,
        ),
        (Protocol::Embeddings, embeddings),
        (
            Protocol::CohereRankings,
            r#"{"results":[{"index":0,"relevance_score":0.5}]}"#,
        ),
        (Protocol::TeiRankings, r#"[{"index":0,"score":0.5}]"#),
        (Protocol::NimRankings, r#"{"rankings":[{"index":0,"logit":0.5}]}"#),
    ];
    for (protocol, body) in answers {
        let read = facts_as(protocol, &sized("200 OK", "", body), Then::Stay);
        read.assert_success();
        assert_eq!(read.contents, 1, "{protocol:?}");
        assert_eq!(read.usage, TokenUsage::default(), "{protocol:?}");
        let other = facts_as(protocol, &sized("200 OK", "", r#"{"object":"other"}"#), Then::Stay);
        let told = format!("{}; found an object of the kind 'other'", protocol.no_answer());
        assert_eq!(other.failure(), (FailureKind::NoContent, told.as_str()), "{protocol:?}");
        let broken = facts_as(protocol, &sized("200 OK", "", &body[1..]), Then::Stay);
        assert_eq!(broken.failure().0, FailureKind::InvalidBody, "{protocol:?}");
    }
}

#[test]
fn an_answer_of_another_api_is_told_with_what_was_found_and_what_was_wanted() {
    // Bodies that are whole in their own API, and empty ones, with the words that name them.
    let bodies = [
        (
            Some(Protocol::Chat),
            r#"{"object":"chat.completion","choices":[{"message":{"content":"a"}}]}"#,
            "kind 'chat.completion'",
        ),
        (
            Some(Protocol::Completions),
            r#"{"object":"text_completion","choices":[{"text":"a"}]}"#,
            "kind 'text_completion'",
        ),
        (
            Some(Protocol::Responses),
            r#"{"object":"response","output_text":"a"}"#,
            "kind 'response'",
        ),
        (
            Some(Protocol::Messages),
            r#"{"type":"message","content":[{"type":"text","text":"a"}]}"#,
            "kind 'message'",
        ),
        (
            Some(Protocol::Embeddings),
            r#"{"object":"list","data":[{"object":"embedding","embedding":[0.1]}]}"#,
            "kind 'list'",
        ),
        (
            Some(Protocol::CohereRankings),
            r#"{"id":"x","results":[{"index":0,"relevance_score":0.5}]}"#,
            "the keys id, results",
        ),
        (Some(Protocol::TeiRankings), r#"[{"index":0,"score":0.5}]"#, "a list"),
        (
            Some(Protocol::NimRankings),
            r#"{"rankings":[{"index":0,"logit":0.5}]}"#,
            "the keys rankings",
        ),
        (None, "[]", "an empty list"),
        (None, "{}", "an empty object"),
        (None, r#""hello""#, "'\"hello\"'"),
    ];
    // Two APIs that look alike from outside.
    let is_read = |own: Protocol, protocol: Protocol| {
        own == protocol || (own, protocol) == (Protocol::CohereRankings, Protocol::TeiRankings)
    };
    // What is of nobody may look like anything.
    for protocol in Protocol::ALL
        .into_iter()
        .filter(|protocol| *protocol != Protocol::Template)
    {
        for (own, body, words) in bodies {
            if own.is_some_and(|own| is_read(own, protocol)) {
                continue;
            }
            let read = facts_as(protocol, &sized("200 OK", "", body), Then::Stay);
            let (kind, message) = read.failure();
            assert_eq!(kind, FailureKind::NoContent, "{protocol:?}: {body}");
            assert!(
                message.starts_with(protocol.no_answer()) && message.contains(words),
                "{protocol:?}: {message}"
            );
        }
        // Streams of others, whole and cut.
        for (own, events) in [
            (Protocol::Chat, &[TOKEN, DONE][..]),
            (Protocol::Responses, &[CREATED, DELTA, COMPLETED]),
            (Protocol::Messages, &[START, BLOCK, STOP_REASON, STOP]),
        ] {
            if own == protocol {
                continue;
            }
            let read = facts_as(protocol, &stream(events), Then::Stay);
            let (kind, message) = read.failure();
            assert!(
                matches!(kind, FailureKind::NoContent | FailureKind::TruncatedStream),
                "{kind:?}"
            );
            let wanted = protocol.events().map_or_else(
                || "response is an event stream, which this API does not have".to_owned(),
                |events| format!("content as events of {events} do"),
            );
            assert!(message.contains(&wanted), "{protocol:?}: {message}");
        }
    }
}

#[test]
fn a_stream_of_nobodys_api_is_whole_when_its_body_is() {
    let read = facts_as(
        Protocol::Template,
        &stream(&[
            r#"{"text":"a"}"#,
            r#"{"text":""}"#,
            "plain",
            r#"{"text":"","usage":{"completion_tokens":2}}"#,
        ]),
        Then::Stay,
    );
    assert_eq!((read.failure.is_none(), read.contents), (true, 2), "{read:?}");
    let empty = facts_as(Protocol::Template, &stream(&[r#"{"text":""}"#, DONE]), Then::Stay);
    let (kind, message) = empty.failure();
    assert_eq!(kind, FailureKind::NoContent);
    assert!(message.contains("where endpoint.template looks for it"), "{message}");
    let other = facts_as(Protocol::Template, &sized("200 OK", "", r#"{"words":"a"}"#), Then::Stay);
    assert_eq!(other.failure().0, FailureKind::NoContent);
    let plain = facts_as(Protocol::Template, &sized("200 OK", "", "just words"), Then::Stay);
    assert_eq!((plain.failure.is_none(), plain.contents), (true, 1), "{plain:?}");
    let cut = facts_as(Protocol::Template, &stream(&[r#"{"text":"a"}"#])[..90], Then::Close);
    assert!(cut.error.is_some() || cut.failure.is_some(), "{cut:?}");
}

#[test]
fn an_api_without_streams_has_no_answer_in_one() {
    let read = facts_as(
        Protocol::Embeddings,
        &stream(&[r#"{"data":[{"object":"embedding"}]}"#, DONE]),
        Then::Stay,
    );
    assert_eq!(read.failure().0, FailureKind::NoContent);
    let error = facts_as(Protocol::Embeddings, &stream(&[ERROR]), Then::Stay);
    assert_eq!(error.failure(), (FailureKind::StreamError, "engine died"));
}

proptest! {
    #[test]
    fn every_split_of_every_api_gives_the_same_facts(
        parts in proptest::collection::vec(prop::sample::select(vec![
            CREATED, DELTA, THINKS, CALLS, TEXT_DONE, COMPLETED, START, PING, BLOCK, THINKING, STOP_REASON, STOP, PIECE, LAST, DONE, ERROR, "{",
        ]), 0..12),
        protocol in prop::sample::select(vec![
            Protocol::Completions, Protocol::Responses, Protocol::Messages, Protocol::Embeddings, Protocol::TeiRankings,
            Protocol::Template,
        ]),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 1..12),
    ) {
        let wire = stream(&parts);
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(wire.len() + 1)).collect();
        ends.sort_unstable();
        ends.push(wire.len());
        let mut from = 0;
        let pieces: Vec<&[u8]> = ends.into_iter().map(|end| &wire[std::mem::replace(&mut from, end)..end]).collect();
        prop_assert_eq!(read_as(protocol, &pieces, Then::Close), read_as(protocol, &[&wire], Then::Close));
    }
}
