//! Recognised events against walked ones.

use proptest::prelude::*;

use super::super::endpoint::Protocol;
use super::super::failure::ResponseFailure;
use super::super::response::Feed;
use super::super::scratch::{Carry, ScratchPool};
use super::super::sse::{Consumer, Event, EventSplitter, Wanted};
use super::super::stream::{AnswerEvents, AnswerState};
use super::*;

/// Whether events may be recognised.
#[derive(Clone, Copy, PartialEq)]
enum Memory {
    Used,
    Ignored,
}

struct Reader<'r> {
    events: AnswerEvents<'r>,
    memory: Memory,
    recognised: &'r mut usize,
}

impl Consumer for Reader<'_> {
    fn recognise(&mut self, bytes: &[u8], pool: &mut ScratchPool) -> Option<usize> {
        let known = self.memory == Memory::Used;
        let len = known.then(|| self.events.recognise(bytes, pool)).flatten()?;
        *self.recognised += 1;
        Some(len)
    }

    fn event(&mut self, event: Event<'_>, pool: &mut ScratchPool) -> Wanted {
        self.events.event(event, pool)
    }
}

/// Contents and outputs that each piece brought, the stream as a whole, and how many of its events were recognised.
type Read = (Vec<(u32, u32)>, String, usize);

fn read(pieces: &[Vec<u8>], memory: Memory, pool: &mut ScratchPool) -> Read {
    read_as(Protocol::Chat, pieces, memory, pool)
}

fn read_as(protocol: Protocol, pieces: &[Vec<u8>], memory: Memory, pool: &mut ScratchPool) -> Read {
    let (mut splitter, mut carry) = (EventSplitter::new(), Carry::default());
    let (mut chat, mut failure, mut recognised) = (AnswerState::default(), None::<Box<ResponseFailure>>, 0);
    // The text of the answer is among what is compared.
    chat.text = Some(Vec::new());
    chat.protocol = protocol;
    let mut brought = Vec::new();
    for piece in pieces.iter().map(Some).chain([None]) {
        let mut feed = Feed::default();
        let reader = Reader {
            events: AnswerEvents {
                answer: &mut chat,
                feed: &mut feed,
                failure: &mut failure,
            },
            memory,
            recognised: &mut recognised,
        };
        match piece {
            Some(piece) => splitter.feed(piece, &mut carry, pool, reader).unwrap(),
            None => splitter.finish(&mut carry, pool, reader),
        }
        brought.push((feed.contents, feed.outputs));
        if failure.is_some() {
            break;
        }
    }
    carry.release(pool);
    (brought, format!("{chat:?} {failure:?}"), recognised)
}

/// What may stand at each place of an event: its lines, then the values of its object.
const PLACES: [&[&str]; 8] = [
    &[
        "data: @\n\n",
        "data:@\r\n\r\n",
        "data:@\r\r",
        "data:@\r\n\n",
        "data: @\n",
        "id: 1\ndata: @\n\n",
        "event: error\ndata: @\n\n",
        "data: @\ndata:\n\n",
        "data\n\n",
        "data: [DONE]\n\n",
    ],
    STRINGS,
    &["1", "17000", "0", "01", "-1", "1.5", "2e3", r#""1""#],
    &["chat.completion.chunk", "chat.completion"],
    &["content", "reasoning", "role", r"c\u006fntent"],
    STRINGS,
    &["null", r#""stop""#, r#""""#],
    &[
        "",
        r#","usage":{"prompt_tokens":4}"#,
        r#","error":"no""#,
        r#","error":null,"x":"y""#,
    ],
];

const STRINGS: &[&str] = &[
    r#""a""#,
    r#""""#,
    r#"" two words""#,
    r#""\n\u00e9\"""#,
    "\"日本\"",
    r#""\ud83d\ude80""#,
    r#""\ud83d""#,
    "null",
    "[1]",
    "\"\t\"",
    "\n\"a\"",
];

fn event(choice: &[usize; 8]) -> Vec<u8> {
    let at = |place: usize| PLACES[place][choice[place]];
    let (id, created, object, name, text, reason, rest) = (at(1), at(2), at(3), at(4), at(5), at(6), at(7));
    let json = format!(
        r#"{{"id":{id},"created":{created},"object":"{object}","choices":[{{"delta":{{"{name}":{text}}},"finish_reason":{reason}}}]{rest}}}"#
    );
    at(0).replace('@', &json).into_bytes()
}

/// Events that differ from the one before in one place, and sometimes in one byte.
fn stream() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let index = any::<prop::sample::Index>;
    let byte = prop_oneof![prop::sample::select(b"\n\r\"\\}7 ".to_vec()), any::<u8>()];
    let damage = prop::option::weighted(0.1, (0..3, index(), byte));
    prop::collection::vec((0..20usize, index(), damage), 1..20).prop_map(|steps| {
        let mut choice = [0; 8];
        let step = |(place, value, damage): (usize, prop::sample::Index, Option<(i32, prop::sample::Index, u8)>)| {
            // Most changes are those of the text.
            let place = if place < 8 { place } else { 5 };
            choice[place] = value.index(PLACES[place].len());
            let mut event = event(&choice);
            if let Some((how, at, byte)) = damage {
                let at = at.index(event.len());
                match how {
                    0 => event[at] = byte,
                    1 => event.insert(at, byte),
                    _ => drop(event.remove(at)),
                }
            }
            event
        };
        steps.into_iter().map(step).collect()
    })
}

proptest! {
    #[test]
    fn recognised_events_have_the_facts_that_a_walk_gives_them(
        streams in prop::collection::vec(stream(), 1..4), cut in 1..400usize,
    ) {
        let mut warm = ScratchPool::new(1, 64);
        for stream in &streams {
            let (brought, whole, _) = read(stream, Memory::Ignored, &mut ScratchPool::new(1, 64));
            let known = read(stream, Memory::Used, &mut warm);
            prop_assert_eq!((&known.0, &known.1), (&brought, &whole));
            // Cut anywhere, and known even better.
            let pieces: Vec<Vec<u8>> = stream.concat().chunks(cut).map(<[u8]>::to_vec).collect();
            let cold = read(&pieces, Memory::Ignored, &mut ScratchPool::new(1, 64));
            let known = read(&pieces, Memory::Used, &mut warm);
            prop_assert_eq!((&known.0, &known.1), (&cold.0, &cold.1));
        }
    }
}

/// What may stand in an event of another API: its type, then its values.
const OTHERS: [(Protocol, [&[&str]; 4], &str); 3] = [
    (
        Protocol::Completions,
        [
            &["text_completion", "completion", "other"],
            STRINGS,
            &["null", r#""length""#],
            &["", r#","usage":{"prompt_tokens":4}"#],
        ],
        r#"{"id":"c","object":"@0","choices":[{"text":@1,"finish_reason":@2}]@3}"#,
    ),
    (
        Protocol::Responses,
        [
            &[
                "response.output_text.delta",
                "response.reasoning_text.delta",
                "response.function_call_arguments.delta",
                "response.output_text.done",
                "response.completed",
                "other",
            ],
            STRINGS,
            &["0", "1", "12", "null"],
            &[
                "",
                r#","text":"a""#,
                r#","text":"""#,
                r#","item_id":"i""#,
                r#","response":{"usage":{"input_tokens":1}}"#,
            ],
        ],
        r#"{"type":"@0","sequence_number":@2,"delta":@1,"output_index":@2,"content_index":0@3}"#,
    ),
    (
        Protocol::Messages,
        [
            &["text_delta", "thinking_delta", "input_json_delta", "other"],
            STRINGS,
            &["text", "thinking", "partial_json", "stop_reason"],
            &["content_block_delta", "message_delta", "message_stop", "ping"],
        ],
        r#"{"delta":{"@2":@1,"type":"@0"},"index":1,"type":"@3"}"#,
    ),
];

proptest! {
    #[test]
    fn events_of_other_apis_are_recognised_as_exactly(
        api in 0..OTHERS.len(),
        steps in prop::collection::vec((0..7usize, any::<prop::sample::Index>()), 1..40),
        cut in 1..300usize,
    ) {
        let (protocol, places, form) = OTHERS[api];
        let mut choice = [0; 4];
        let stream: Vec<Vec<u8>> = steps.into_iter().map(|(place, value)| {
            let place = if place < 4 { place } else { 1 };
            choice[place] = value.index(places[place].len());
            let filled = (0..4).fold(form.to_owned(), |text, at| text.replace(&format!("@{at}"), places[at][choice[at]]));
            format!("event: x\ndata: {filled}\n\n").into_bytes()
        }).collect();
        let mut warm = ScratchPool::new(1, 64);
        let (brought, whole, _) = read_as(protocol, &stream, Memory::Ignored, &mut ScratchPool::new(1, 64));
        for _ in 0..2 {
            let known = read_as(protocol, &stream, Memory::Used, &mut warm);
            prop_assert_eq!((&known.0, &known.1), (&brought, &whole));
        }
        let pieces: Vec<Vec<u8>> = stream.concat().chunks(cut).map(<[u8]>::to_vec).collect();
        let cold = read_as(protocol, &pieces, Memory::Ignored, &mut ScratchPool::new(1, 64));
        let known = read_as(protocol, &pieces, Memory::Used, &mut warm);
        prop_assert_eq!((&known.0, &known.1), (&cold.0, &cold.1));
    }
}

#[test]
fn the_tokens_of_every_api_are_recognised_after_the_first() {
    let (delta, block, piece) = (
        r#"{"type":"response.output_text.delta","item_id":"i","output_index":0,"content_index":0,"sequence_number":@,"delta":"t@"}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"t@"}}"#,
        r#"{"id":"c@","object":"text_completion","created":@,"choices":[{"index":0,"text":"t@","finish_reason":null}]}"#,
    );
    for (protocol, form) in [
        (Protocol::Responses, delta),
        (Protocol::Messages, block),
        (Protocol::Completions, piece),
    ] {
        let event =
            |number: u32| format!("event: x\ndata: {}\n\n", form.replace('@', &number.to_string())).into_bytes();
        let stream: Vec<Vec<u8>> = (1..=10).map(event).collect();
        let (brought, _, recognised) = read_as(protocol, &stream, Memory::Used, &mut ScratchPool::new(1, 64));
        assert_eq!((&brought[..10], recognised), (&[(1, 1); 10][..], 9), "{protocol:?}");
    }
}

fn token(id: &str, created: u32, text: &str) -> Vec<u8> {
    let json = format!(
        r#"{{"id":"{id}","object":"chat.completion.chunk","created":{created},"choices":[{{"delta":{{"content":"{text}"}}}}]}}"#
    );
    format!("data: {json}\n\n").into_bytes()
}

#[test]
fn only_the_first_chunk_of_a_kind_is_walked_whatever_stream_it_belongs_to() {
    let mut pool = ScratchPool::new(1, 64);
    let first: Vec<_> = (0..10).map(|index| token("a", 7, &format!("t{index}"))).collect();
    let (brought, _, recognised) = read(&first, Memory::Used, &mut pool);
    assert_eq!((&brought[..10], recognised), (&[(1, 1); 10][..], 9));
    let second: Vec<_> = (0..10)
        .map(|index| token("other", 1000, &format!("é{index}")))
        .collect();
    assert_eq!(read(&second, Memory::Used, &mut pool).2, 10);
    // A text of no characters is another fact.
    let (brought, _, recognised) = read(&[token("a", 7, "")], Memory::Used, &mut pool);
    assert_eq!((brought[0], recognised), ((0, 0), 0));
}

#[test]
fn a_byte_order_mark_makes_another_event_of_the_same_bytes() {
    let mut pool = ScratchPool::new(1, 64);
    let marked = [&b"\xef\xbb\xbfdata: x\n"[..], &token("a", 7, "b")].concat();
    let (brought, ..) = read(
        &[b"\n".to_vec(), marked.clone(), marked.clone()],
        Memory::Used,
        &mut pool,
    );
    assert_eq!(brought[..3], [(0, 0), (1, 1), (1, 1)]);
    assert_eq!(
        read(&[marked], Memory::Used, &mut pool).0[0],
        (0, 0),
        "two lines of data"
    );
}

#[test]
fn an_event_that_the_end_of_its_stream_ended_is_no_shape() {
    let mut pool = ScratchPool::new(1, 64);
    let line = token("a", 7, "b").strip_suffix(b"\n").expect("a blank line").to_vec();
    assert_eq!(read(std::slice::from_ref(&line), Memory::Used, &mut pool).0[1], (1, 1));
    let other = [&line[..], b"event: error\n\n"].concat();
    assert_eq!(read(&[other], Memory::Used, &mut pool).0[0], (0, 0));
}

#[test]
fn shapes_never_outgrow_their_room() {
    let mut pool = ScratchPool::new(1, 64);
    let long = "x".repeat(5 * MAX_SHAPE_BYTES);
    for text in ["a", &long, "b", &long] {
        read(&[token(text, 7, text)], Memory::Used, &mut pool);
    }
    assert!(
        pool.shapes
            .shapes
            .iter()
            .all(|shape| shape.event.capacity() == MAX_SHAPE_BYTES)
    );
    assert_eq!(read(&[token("c", 7, &long)], Memory::Used, &mut pool).2, 1);
}
