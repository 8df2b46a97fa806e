//! What one event of a stream, or one whole body, means for a measurement: a small reader for each API behind one face.
//!
//! | API | event with content | end of the stream | whole body |
//! |---|---|---|---|
//! | chat completions | `choices[0].delta` with text, reasoning or tool calls | finish reason, `[DONE]` | `chat.completion` |
//! | completions | `choices[0].text` | finish reason, `[DONE]` | `text_completion` |
//! | responses | `response.output_text.delta` and its like | `response.completed` | `response` |
//! | messages | `content_block_delta` | `stop_reason`, `message_stop` | `message` |
//! | embeddings, rankings | none: they have no stream | | list of embeddings or of ranks |
//! | a template's | whatever looks like an answer, or an [`Extractor`](super::Extractor) finds | end of the body | the same |
//!
//! Readers are pure: JSON bytes in, [`Facts`] out, no state from event to event. What events add up to is the stream's business.

mod chat;
mod completions;
mod lists;
mod messages;
mod responses;
mod template;

use super::chunk_shape::Holes;
use super::json::{Cursor, Invalid, Kind};
use super::usage::UsageObject;
pub(super) use template::{Place, read as read_template, text as text_of};

/// The API that answers are read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// OpenAI chat completions.
    #[default]
    Chat,
    /// OpenAI completions.
    Completions,
    /// OpenAI responses.
    Responses,
    /// Anthropic messages.
    Messages,
    /// OpenAI embeddings.
    Embeddings,
    /// Rankings of Cohere's API.
    CohereRankings,
    /// Rankings of Hugging Face's Text Embeddings Inference.
    TeiRankings,
    /// Rankings of NVIDIA NIM.
    NimRankings,
    /// What its user alone knows: a pool's [`Extractor`](super::Extractor) tells where answers are.
    Template,
}

/// The facts of one event, or of one whole body.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts<'a> {
    /// It counts as a response to the user: text of any channel, or whatever else the API is asked for.
    pub(super) content: bool,
    /// Content outside the reasoning channel.
    pub(super) output: bool,
    /// The answer is finished: a finish reason, or what the API has for one.
    pub(super) finished: bool,
    /// The API's own mark that nothing follows; `[DONE]` is no JSON and stands outside.
    pub(super) done: bool,
    /// The part of the answer that this is a piece of, in an API that says the whole of a part again at its end.
    pub(super) piece_of: Option<Part>,
    /// The part of which this is the whole text.
    pub(super) whole_of: Option<Part>,
    /// A non-empty usage object.
    pub(super) usage: Option<UsageObject>,
    /// The text of the answer, which is not empty: raw JSON without the quotes. Neither reasoning nor tool calls.
    pub(super) text: Option<&'a [u8]>,
    /// A truthy `error`, whatever the object: its JSON text.
    pub(super) error: Option<&'a [u8]>,
}

/// Which part of an answer with several: its item, and which of the item's contents.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) item: u16,
    pub(super) content: u16,
}

/// The facts that are not values of the object.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Signs {
    pub(super) content: bool,
    pub(super) output: bool,
    pub(super) finished: bool,
    pub(super) done: bool,
    pub(super) piece_of: Option<Part>,
}

impl Facts<'_> {
    /// What the object says by its form alone.
    pub(super) fn signs(&self) -> Signs {
        Signs {
            content: self.content,
            output: self.output,
            finished: self.finished,
            done: self.done,
            piece_of: self.piece_of,
        }
    }
}

/// Said of any stream where the API has none.
const NO_STREAMS: &str = "response is an event stream, which this API does not have";

impl Protocol {
    /// All of them.
    pub(crate) const ALL: [Self; 9] = [
        Self::Chat,
        Self::Completions,
        Self::Responses,
        Self::Messages,
        Self::Embeddings,
        Self::CohereRankings,
        Self::TeiRankings,
        Self::NimRankings,
        Self::Template,
    ];

    /// Reads the data of one event and notes the values that may differ in another one without a change of these facts.
    pub(super) fn read_event<'a>(self, json: &'a [u8], holes: &mut Holes) -> Result<Facts<'a>, Invalid> {
        match self {
            Self::Chat => chat::read(json, chat::Shape::Chunk, holes),
            Self::Completions => completions::read(json, holes),
            Self::Responses => responses::read_event(json, holes),
            Self::Messages => messages::read_event(json, holes),
            Self::Embeddings | Self::CohereRankings | Self::TeiRankings | Self::NimRankings => lists::read_event(json),
            Self::Template => template::read(json, holes),
        }
    }

    /// Reads a whole body.
    pub(super) fn read_answer(self, json: &[u8]) -> Result<Facts<'_>, Invalid> {
        match self {
            Self::Chat => chat::read(json, chat::Shape::Answer, &mut Holes::default()),
            Self::Completions => completions::read(json, &mut Holes::default()),
            Self::Responses => responses::read_answer(json),
            Self::Messages => messages::read_answer(json),
            Self::Embeddings => lists::read_embeddings(json),
            Self::CohereRankings => lists::read_rankings(json, lists::Place::Results),
            Self::TeiRankings => lists::read_rankings(json, lists::Place::TopOrResults),
            Self::NimRankings => lists::read_rankings(json, lists::Place::Rankings),
            Self::Template => template::read(json, &mut Holes::default()),
        }
    }

    /// Whether keys that a later usage object lacks are filled from an earlier one.
    pub(super) fn merges_usage(self) -> bool {
        self == Self::Messages
    }

    /// Said of a whole body without content.
    pub(super) fn no_answer(self) -> &'static str {
        match self {
            Self::Chat => "response is not a chat.completion with text, reasoning or tool calls in its first choice",
            Self::Completions => "response is not a text_completion with text in its first choice",
            Self::Responses => "response is not a response object with text, reasoning or function calls in its output",
            Self::Messages => "response is not a message with a text, thinking or tool_use block",
            Self::Embeddings => "response has no list `data` whose items all are embeddings",
            Self::CohereRankings => "response has no list `results` with an item",
            Self::TeiRankings => "response is not a list with a rank, and has no list `results` with an item",
            Self::NimRankings => "response has no list `rankings` with an item",
            Self::Template => "response has no text where endpoint.template looks for it",
        }
    }

    /// Said of a whole stream without content.
    pub(super) fn silent_stream(self) -> String {
        match self.events() {
            Some(_) if self == Self::Template => {
                "no token received: no event of the stream carried text where endpoint.template looks for it".to_owned()
            }
            Some(events) => {
                format!("no token received: no event of the stream carried content as events of {events} do")
            }
            None => NO_STREAMS.to_owned(),
        }
    }

    /// What the events of its streams belong to; `None` where it has none.
    pub(super) fn events(self) -> Option<&'static str> {
        match self {
            Self::Chat => Some("chat completions"),
            Self::Completions => Some("completions"),
            Self::Responses => Some("responses"),
            Self::Messages => Some("messages"),
            Self::Template => Some("the template"),
            Self::Embeddings | Self::CohereRankings | Self::TeiRankings | Self::NimRankings => None,
        }
    }

    /// Whether a stream is whole when its body is: nothing else is known of its end.
    pub(super) fn ends_with_body(self) -> bool {
        self == Self::Template
    }

    /// Said of a stream that ended too soon.
    pub(super) fn truncated_stream(self) -> &'static str {
        match self {
            Self::Responses => "truncated stream: it ended without response.completed",
            Self::Messages => "truncated stream: it ended without a stop reason and without message_stop",
            Self::Chat | Self::Completions | Self::Template => {
                "truncated stream: it ended without a finish reason and without [DONE]"
            }
            Self::Embeddings | Self::CohereRankings | Self::TeiRankings | Self::NimRankings => NO_STREAMS,
        }
    }
}

/// Consumes the next value; if it is a string that is not empty, it is noted as the answer's text, which is returned as it is written.
fn answer<'a>(cursor: &mut Cursor<'a>, holes: &mut Holes) -> Result<Option<&'a [u8]>, Invalid> {
    holes.forget_answer();
    if cursor.kind()? != Kind::String {
        cursor.skip()?;
        return Ok(None);
    }
    let start = cursor.position();
    let text = cursor.string()?;
    if text.is_empty() {
        return Ok(None);
    }
    holes.note_answer(start, cursor.position());
    Ok(Some(text.raw()))
}

/// Consumes the next value and tells whether it is a string that is not empty; such a one is noted.
fn has_text(cursor: &mut Cursor<'_>, holes: &mut Holes) -> Result<bool, Invalid> {
    cursor.kind()?;
    let start = cursor.position();
    let found = cursor.is_non_empty_string()?;
    if found {
        holes.note_text(start, cursor.position());
    }
    Ok(found)
}

/// Consumes the next value and tells whether it is the string `wanted`.
fn is_string(cursor: &mut Cursor<'_>, wanted: &[u8]) -> Result<bool, Invalid> {
    if cursor.kind()? == Kind::String {
        return Ok(cursor.string()?.unescaped(&mut [0; 32]) == wanted);
    }
    cursor.skip()?;
    Ok(false)
}

/// Consumes the next value, which is without meaning, and notes it.
fn pass_over(cursor: &mut Cursor<'_>, holes: &mut Holes) -> Result<(), Invalid> {
    let value = cursor.skip()?;
    holes.note_any(value, cursor.position());
    Ok(())
}

/// Consumes the next value and returns it if it is true of a script.
fn truthy<'a>(cursor: &mut Cursor<'a>) -> Result<Option<&'a [u8]>, Invalid> {
    Ok(Some(cursor.skip()?).filter(|value| is_truthy(value)))
}

/// Whether a valid JSON value is anything but null, false, zero or empty.
fn is_truthy(value: &[u8]) -> bool {
    match value {
        [b'n' | b'f', ..] => false,
        [b't', ..] => true,
        [b'"', ..] => value.len() > 2,
        [b'{' | b'[', inner @ .., _] => !inner.trim_ascii().is_empty(),
        digits => digits
            .iter()
            .take_while(|byte| !matches!(byte, b'e' | b'E'))
            .any(|byte| matches!(byte, b'1'..=b'9')),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn truth_of_values_follows_the_usual_scripting_rules() {
        for value in ["null", "false", "0", "-0", "0.0", "0e9", "\"\"", "{}", "[ ]"] {
            assert!(!is_truthy(value.as_bytes()), "{value}");
        }
        for value in ["true", "1", "-0.5", "10e0", "\" \"", "{\"a\":0}", "[0]"] {
            assert!(is_truthy(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn a_top_level_error_is_one_in_every_api_and_in_both_forms() {
        let text = br#"{"error":{"message":"no"}}"#;
        for protocol in Protocol::ALL {
            let event = protocol.read_event(text, &mut Holes::default()).unwrap();
            let answer = protocol.read_answer(text).unwrap();
            for facts in [event, answer] {
                assert_eq!(facts.error, Some(&br#"{"message":"no"}"#[..]), "{protocol:?}");
                assert!(!facts.content && !facts.finished, "{protocol:?}");
            }
        }
    }

    #[test]
    fn json_of_any_kind_is_read_by_every_api_without_content() {
        for text in [
            "[]",
            "1",
            r#""object""#,
            "null",
            "{}",
            r#"{"type":"ping"}"#,
            r#"{"data":[],"results":[],"rankings":[]}"#,
        ] {
            for protocol in Protocol::ALL {
                let event = protocol.read_event(text.as_bytes(), &mut Holes::default()).unwrap();
                assert_eq!(event, Facts::default(), "{protocol:?} {text}");
                let answer = protocol.read_answer(text.as_bytes()).unwrap();
                assert!(!answer.content, "{protocol:?} {text}");
            }
        }
    }

    proptest! {
        #[test]
        fn whatever_serde_json_refuses_has_no_facts(text in proptest::collection::vec(any::<u8>(), 0..48)) {
            let refused = serde_json::from_slice::<serde_json::Value>(&text).is_err();
            for protocol in Protocol::ALL {
                prop_assert_eq!(protocol.read_event(&text, &mut Holes::default()).is_err(), refused);
                prop_assert_eq!(protocol.read_answer(&text).is_err(), refused);
            }
        }
    }
}
