//! Events and answers of Anthropic messages. Events are told apart by the `type` in their data; their event names say the same.

use super::super::chunk_shape::Holes;
use super::super::json::{Cursor, Invalid, Kind};
use super::super::usage::UsageObject;
use super::{Facts, answer, has_text, is_string, is_truthy, pass_over, truthy};

/// The events that say something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// `message_start`, with the usage of the prompt.
    Start,
    BlockDelta,
    /// `message_delta`, with the stop reason and the usage of the answer.
    MessageDelta,
    Stop,
    Other,
}

/// What the delta of a block is a piece of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Channel {
    Text,
    Thinking,
    Tool,
    Other,
}

/// A `delta` as far as any event needs it.
struct Delta<'a> {
    channel: Channel,
    text: Option<&'a [u8]>,
    thinks: bool,
    calls: bool,
    stops: bool,
}

/// Reads the data of one event.
pub(super) fn read_event<'a>(json: &'a [u8], holes: &mut Holes) -> Result<Facts<'a>, Invalid> {
    let mut cursor = Cursor::new(json);
    let mut facts = Facts::default();
    if cursor.kind()? != Kind::Object {
        cursor.skip()?;
        cursor.finish()?;
        return Ok(facts);
    }
    let (mut event, mut delta, mut start_usage, mut usage) = (Event::Other, None, None, None);
    cursor.object(|cursor, name| {
        match name.unescaped(&mut [0; 32]) {
            b"type" => event = event_kind(cursor)?,
            b"delta" => delta = read_delta(cursor, holes)?,
            b"message" => start_usage = usage_inside(cursor)?,
            b"usage" => usage = UsageObject::read(cursor)?,
            b"error" => facts.error = truthy(cursor)?,
            _ => pass_over(cursor, holes)?,
        }
        Ok(())
    })?;
    cursor.finish()?;
    let channel = delta.as_ref().map_or(Channel::Other, |delta| delta.channel);
    match (event, delta) {
        (Event::Start, _) => facts.usage = start_usage,
        (Event::BlockDelta, Some(delta)) => match channel {
            Channel::Text if delta.text.is_some() => {
                (facts.content, facts.output, facts.text) = (true, true, delta.text);
            }
            Channel::Thinking => facts.content = delta.thinks,
            Channel::Tool => (facts.content, facts.output) = (delta.calls, delta.calls),
            Channel::Text | Channel::Other => {}
        },
        (Event::MessageDelta, delta) => {
            facts.finished = delta.is_some_and(|delta| delta.stops);
            facts.usage = usage;
        }
        (Event::Stop, _) => facts.done = true,
        (Event::BlockDelta | Event::Other, _) => {}
    }
    if (event, channel) != (Event::BlockDelta, Channel::Text) {
        holes.forget_answer();
    }
    Ok(facts)
}

fn event_kind(cursor: &mut Cursor<'_>) -> Result<Event, Invalid> {
    if cursor.kind()? != Kind::String {
        cursor.skip()?;
        return Ok(Event::Other);
    }
    Ok(match cursor.string()?.unescaped(&mut [0; 32]) {
        b"message_start" => Event::Start,
        b"content_block_delta" => Event::BlockDelta,
        b"message_delta" => Event::MessageDelta,
        b"message_stop" => Event::Stop,
        _ => Event::Other,
    })
}

fn read_delta<'a>(cursor: &mut Cursor<'a>, holes: &mut Holes) -> Result<Option<Delta<'a>>, Invalid> {
    holes.forget_answer();
    if cursor.kind()? != Kind::Object {
        cursor.skip()?;
        return Ok(None);
    }
    let mut delta = Delta {
        channel: Channel::Other,
        text: None,
        thinks: false,
        calls: false,
        stops: false,
    };
    cursor.object(|cursor, name| {
        match name.unescaped(&mut [0; 32]) {
            b"type" if cursor.kind()? == Kind::String => {
                delta.channel = match cursor.string()?.unescaped(&mut [0; 32]) {
                    b"text_delta" => Channel::Text,
                    b"thinking_delta" => Channel::Thinking,
                    b"input_json_delta" => Channel::Tool,
                    _ => Channel::Other,
                };
            }
            b"text" => delta.text = answer(cursor, holes)?,
            b"thinking" => delta.thinks = has_text(cursor, holes)?,
            b"partial_json" => delta.calls = has_text(cursor, holes)?,
            b"stop_reason" => delta.stops = cursor.is_non_empty_string()?,
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    })?;
    Ok(Some(delta))
}

/// The usage of the message that an event carries.
fn usage_inside(cursor: &mut Cursor<'_>) -> Result<Option<UsageObject>, Invalid> {
    let mut usage = None;
    if cursor.kind()? != Kind::Object {
        cursor.skip()?;
        return Ok(usage);
    }
    cursor.object(|cursor, name| {
        if name.unescaped(&mut [0; 32]) == b"usage" {
            usage = UsageObject::read(cursor)?;
            return Ok(());
        }
        cursor.skip().map(drop)
    })?;
    Ok(usage)
}

/// Reads a whole body: the blocks of a `message`.
pub(super) fn read_answer(json: &[u8]) -> Result<Facts<'_>, Invalid> {
    let mut cursor = Cursor::new(json);
    let mut facts = Facts::default();
    if cursor.kind()? != Kind::Object {
        cursor.skip()?;
        cursor.finish()?;
        return Ok(facts);
    }
    let mut expected = false;
    cursor.object(|cursor, name| {
        match name.unescaped(&mut [0; 32]) {
            b"type" => expected = is_string(cursor, b"message")?,
            b"content" if cursor.kind()? == Kind::Array => {
                return cursor.array(|cursor, _| block(&mut facts, cursor));
            }
            b"stop_reason" => facts.finished = cursor.is_non_empty_string()?,
            b"usage" => facts.usage = UsageObject::read(cursor)?,
            b"error" => facts.error = truthy(cursor)?,
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    })?;
    cursor.finish()?;
    if expected {
        return Ok(facts);
    }
    Ok(Facts {
        error: facts.error,
        ..Facts::default()
    })
}

fn block<'a>(facts: &mut Facts<'a>, cursor: &mut Cursor<'a>) -> Result<(), Invalid> {
    if cursor.kind()? != Kind::Object {
        return cursor.skip().map(drop);
    }
    let (mut channel, mut text, mut thinks, mut calls) = (Channel::Other, None, false, false);
    let holes = &mut Holes::default();
    cursor.object(|cursor, name| {
        match name.unescaped(&mut [0; 32]) {
            b"type" if cursor.kind()? == Kind::String => {
                channel = match cursor.string()?.unescaped(&mut [0; 32]) {
                    b"text" => Channel::Text,
                    b"thinking" => Channel::Thinking,
                    b"tool_use" => Channel::Tool,
                    _ => Channel::Other,
                };
            }
            b"text" => text = answer(cursor, holes)?,
            b"thinking" => thinks = has_text(cursor, holes)?,
            b"name" => calls |= has_text(cursor, holes)?,
            b"input" => calls |= is_truthy(cursor.skip()?),
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    })?;
    match channel {
        Channel::Text if text.is_some() => {
            (facts.content, facts.output) = (true, true);
            facts.text = facts.text.or(text);
        }
        Channel::Thinking => facts.content |= thinks,
        Channel::Tool if calls => (facts.content, facts.output) = (true, true),
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(text: &str) -> Facts<'_> {
        read_event(text.as_bytes(), &mut Holes::default()).unwrap()
    }

    fn block_delta(delta: &str) -> (bool, bool) {
        let text = format!(r#"{{"type":"content_block_delta","index":0,"delta":{delta}}}"#);
        let facts = facts(&text);
        assert!(!facts.finished && !facts.done);
        (facts.content, facts.output)
    }

    #[test]
    fn deltas_of_blocks_count_in_their_channel_once_they_have_text() {
        for (delta, expected) in [
            (r#"{"type":"text_delta","text":"the"}"#, (true, true)),
            (r#"{"text":"the","type":"text_delta"}"#, (true, true)),
            (r#"{"type":"text_delta","text":""}"#, (false, false)),
            (r#"{"type":"thinking_delta","thinking":"hm"}"#, (true, false)),
            (r#"{"type":"thinking_delta","thinking":""}"#, (false, false)),
            (r#"{"type":"input_json_delta","partial_json":"{"}"#, (true, true)),
            (r#"{"type":"input_json_delta","partial_json":""}"#, (false, false)),
            (r#"{"type":"signature_delta","signature":"s"}"#, (false, false)),
            // Text under another type is not what the type says.
            (r#"{"type":"thinking_delta","text":"a"}"#, (false, false)),
            ("null", (false, false)),
        ] {
            assert_eq!(block_delta(delta), expected, "{delta}");
        }
    }

    #[test]
    fn starts_stops_and_pings_carry_no_content() {
        for text in [
            r#"{"type":"ping"}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"other","delta":{"type":"text_delta","text":"a"}}"#,
        ] {
            assert_eq!(facts(text), Facts::default(), "{text}");
        }
        assert!(facts(r#"{"type":"message_stop"}"#).done);
    }

    #[test]
    fn usage_comes_at_the_start_and_with_the_stop_reason() {
        let start = r#"{"type":"message_start","message":{"id":"m","type":"message","content":[],"usage":{"input_tokens":9,"output_tokens":1}}}"#;
        let start = facts(start);
        assert!(!start.content && !start.finished);
        let end = facts(r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":8}}"#);
        assert!(end.finished && !end.done);
        let counts = end.usage.unwrap().over(start.usage.unwrap()).counts();
        assert_eq!(
            (counts.prompt, counts.completion, counts.total),
            (Some(9), Some(8), None)
        );
        assert!(!facts(r#"{"type":"message_delta","delta":{"stop_reason":null}}"#).finished);
    }

    #[test]
    fn a_whole_answer_is_its_blocks() {
        let read = |content: &str| {
            let text = format!(
                r#"{{"type":"message","content":[{content}],"stop_reason":"end_turn","usage":{{"output_tokens":1}}}}"#
            );
            let facts = read_answer(text.as_bytes()).unwrap();
            assert!(facts.finished && facts.usage.is_some());
            (facts.content, facts.output, facts.text.map(<[u8]>::to_vec))
        };
        assert_eq!(
            read(r#"{"type":"text","text":"hi"}"#),
            (true, true, Some(b"hi".to_vec()))
        );
        assert_eq!(
            read(r#"{"type":"thinking","thinking":"hm"},{"type":"text","text":""}"#),
            (true, false, None)
        );
        assert_eq!(read(r#"{"type":"tool_use","name":"f","input":{}}"#), (true, true, None));
        assert_eq!(read(r#"{"type":"image","text":"a"},null"#), (false, false, None));
        let other = read_answer(br#"{"type":"other","content":[{"type":"text","text":"a"}]}"#).unwrap();
        assert_eq!(other, Facts::default());
    }
}
