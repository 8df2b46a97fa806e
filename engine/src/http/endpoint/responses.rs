//! Events and answers of OpenAI responses. Events are told apart by the `type` in their data; their event names say the same.

use super::super::chunk_shape::Holes;
use super::super::json::{Cursor, Invalid, Kind};
use super::super::usage::UsageObject;
use super::{Facts, Part, answer, has_text, is_string, is_truthy, pass_over, truthy};

/// The events that say something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    TextDelta,
    ReasoningDelta,
    CallDelta,
    TextDone,
    /// The last event of an answer that came to its end, be it the model's or the limit of tokens.
    Ended,
    Failed,
    Other,
}

impl Event {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Invalid> {
        if cursor.kind()? != Kind::String {
            cursor.skip()?;
            return Ok(Self::Other);
        }
        Ok(match cursor.string()?.unescaped(&mut [0; 32]) {
            b"response.output_text.delta" => Self::TextDelta,
            b"response.reasoning_text.delta" => Self::ReasoningDelta,
            b"response.function_call_arguments.delta" => Self::CallDelta,
            b"response.output_text.done" => Self::TextDone,
            b"response.completed" | b"response.incomplete" => Self::Ended,
            b"response.failed" => Self::Failed,
            _ => Self::Other,
        })
    }
}

/// Reads the data of one event.
///
/// The end of a text part says its whole text again. It counts as content, as it does with the peer: it is the last the user waits for. Its
/// text is the answer's only if there were no pieces before it, which the stream knows.
pub(super) fn read_event<'a>(json: &'a [u8], holes: &mut Holes) -> Result<Facts<'a>, Invalid> {
    let mut cursor = Cursor::new(json);
    let mut facts = Facts::default();
    if cursor.kind()? != Kind::Object {
        cursor.skip()?;
        cursor.finish()?;
        return Ok(facts);
    }
    let (mut event, mut delta, mut text, mut part) = (Event::Other, None, None, Part::default());
    let (mut usage, mut response_error) = (None, None);
    cursor.object(|cursor, name| {
        match name.unescaped(&mut [0; 32]) {
            b"type" => event = Event::read(cursor)?,
            b"delta" => delta = answer(cursor, holes)?,
            b"text" => text = whole_text(cursor)?,
            b"output_index" => part.item = index(cursor)?,
            b"content_index" => part.content = index(cursor)?,
            b"response" => (usage, response_error) = response(cursor)?,
            b"error" => facts.error = truthy(cursor)?,
            _ => pass_over(cursor, holes)?,
        }
        Ok(())
    })?;
    cursor.finish()?;
    let has_delta = delta.is_some();
    match event {
        Event::TextDelta if has_delta => {
            (facts.content, facts.output, facts.text, facts.piece_of) = (true, true, delta, Some(part));
        }
        Event::ReasoningDelta => facts.content = has_delta,
        Event::CallDelta => (facts.content, facts.output) = (has_delta, has_delta),
        Event::TextDone if text.is_some() => {
            (facts.content, facts.output, facts.text, facts.whole_of) = (true, true, text, Some(part));
        }
        Event::Ended => (facts.finished, facts.done, facts.usage) = (true, true, usage),
        Event::Failed => {
            (facts.finished, facts.done, facts.usage) = (true, true, usage);
            facts.error = facts.error.or(response_error);
        }
        Event::TextDelta | Event::TextDone | Event::Other => {}
    }
    if event != Event::TextDelta {
        holes.forget_answer();
    }
    Ok(facts)
}

/// Consumes the next value and returns the text of a string that is not empty.
fn whole_text<'a>(cursor: &mut Cursor<'a>) -> Result<Option<&'a [u8]>, Invalid> {
    if cursor.kind()? == Kind::String {
        return Ok(Some(cursor.string()?.raw()).filter(|text| !text.is_empty()));
    }
    cursor.skip()?;
    Ok(None)
}

/// Consumes the next value as a place in a list.
fn index(cursor: &mut Cursor<'_>) -> Result<u16, Invalid> {
    let index = cursor.unsigned()?;
    Ok(index.and_then(|index| u16::try_from(index).ok()).unwrap_or(u16::MAX))
}

/// Usage and error of the response that an event carries.
fn response<'a>(cursor: &mut Cursor<'a>) -> Result<(Option<UsageObject>, Option<&'a [u8]>), Invalid> {
    let (mut usage, mut error) = (None, None);
    if cursor.kind()? != Kind::Object {
        cursor.skip()?;
        return Ok((usage, error));
    }
    cursor.object(|cursor, name| {
        match name.unescaped(&mut [0; 32]) {
            b"usage" => usage = UsageObject::read(cursor)?,
            b"error" => error = Some(cursor.skip()?).filter(|value| is_truthy(value)),
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    })?;
    Ok((usage, error))
}

/// Reads a whole body: text, reasoning and function calls of `output`; without any, `output_text`.
pub(super) fn read_answer(json: &[u8]) -> Result<Facts<'_>, Invalid> {
    let mut cursor = Cursor::new(json);
    let mut facts = Facts::default();
    if cursor.kind()? != Kind::Object {
        cursor.skip()?;
        cursor.finish()?;
        return Ok(facts);
    }
    let (mut expected, mut shortcut) = (false, None);
    cursor.object(|cursor, name| {
        match name.unescaped(&mut [0; 32]) {
            b"object" => expected = is_string(cursor, b"response")?,
            b"output" if cursor.kind()? == Kind::Array => {
                return cursor.array(|cursor, _| output_item(&mut facts, cursor));
            }
            b"output_text" => shortcut = whole_text(cursor)?,
            b"usage" => facts.usage = UsageObject::read(cursor)?,
            b"error" => facts.error = truthy(cursor)?,
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    })?;
    cursor.finish()?;
    if !expected {
        return Ok(Facts {
            error: facts.error,
            ..Facts::default()
        });
    }
    if !facts.content && shortcut.is_some() {
        (facts.content, facts.output, facts.text) = (true, true, shortcut);
    }
    (facts.finished, facts.done) = (true, true);
    Ok(facts)
}

/// One item of `output`. What it is shows in its `type`, which may come behind the rest; so all places that hold text are looked at.
fn output_item<'a>(facts: &mut Facts<'a>, cursor: &mut Cursor<'a>) -> Result<(), Invalid> {
    if cursor.kind()? != Kind::Object {
        return cursor.skip().map(drop);
    }
    #[derive(Clone, Copy, PartialEq)]
    enum Item {
        Message,
        Reasoning,
        Call,
        Other,
    }
    let (mut item, mut text, mut summary, mut call) = (Item::Other, None, false, false);
    cursor.object(|cursor, name| {
        match name.unescaped(&mut [0; 32]) {
            b"type" if cursor.kind()? == Kind::String => {
                item = match cursor.string()?.unescaped(&mut [0; 32]) {
                    b"message" => Item::Message,
                    b"reasoning" => Item::Reasoning,
                    b"function_call" => Item::Call,
                    _ => Item::Other,
                };
            }
            b"content" => text = first_text(cursor, b"output_text")?.or(text),
            b"summary" => summary |= first_text(cursor, b"summary_text")?.is_some(),
            b"name" | b"arguments" => call |= has_text(cursor, &mut Holes::default())?,
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    })?;
    match item {
        Item::Message if text.is_some() => {
            (facts.content, facts.output) = (true, true);
            facts.text = facts.text.or(text);
        }
        Item::Reasoning => facts.content |= summary,
        Item::Call if call => (facts.content, facts.output) = (true, true),
        _ => {}
    }
    Ok(())
}

/// Consumes a list of parts and returns the first text that is not empty in a part of this type.
fn first_text<'a>(cursor: &mut Cursor<'a>, wanted: &[u8]) -> Result<Option<&'a [u8]>, Invalid> {
    let mut found = None;
    if cursor.kind()? != Kind::Array {
        cursor.skip()?;
        return Ok(found);
    }
    cursor.array(|cursor, _| {
        if cursor.kind()? != Kind::Object {
            return cursor.skip().map(drop);
        }
        let (mut is_wanted, mut text) = (false, None);
        cursor.object(|cursor, name| {
            match name.unescaped(&mut [0; 32]) {
                b"type" => is_wanted = is_string(cursor, wanted)?,
                b"text" => text = whole_text(cursor)?,
                _ => {
                    cursor.skip()?;
                }
            }
            Ok(())
        })?;
        if is_wanted && found.is_none() {
            found = text;
        }
        Ok(())
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, rest: &str) -> String {
        format!(r#"{{"type":"{kind}","output_index":1,"content_index":2,"sequence_number":7{rest}}}"#)
    }

    fn facts(text: &str) -> Facts<'_> {
        read_event(text.as_bytes(), &mut Holes::default()).unwrap()
    }

    const PART: Option<Part> = Some(Part { item: 1, content: 2 });

    #[test]
    fn deltas_count_once_they_have_text_and_reasoning_is_no_output() {
        for (kind, content, output) in [
            ("response.output_text.delta", true, true),
            ("response.reasoning_text.delta", true, false),
            ("response.function_call_arguments.delta", true, true),
            ("response.refusal.delta", false, false),
            ("response.created", false, false),
        ] {
            let full = event(kind, r#","delta":"a""#);
            let read = facts(&full);
            assert_eq!((read.content, read.output), (content, output), "{kind}");
            let empty = event(kind, r#","delta":"""#);
            assert_eq!(facts(&empty), Facts::default(), "{kind}");
        }
    }

    #[test]
    fn only_text_is_kept_and_it_knows_its_part() {
        let text = event("response.output_text.delta", r#","delta":"h\u00e9""#);
        let read = facts(&text);
        assert_eq!((read.text, read.piece_of), (Some(&br"h\u00e9"[..]), PART));
        let call = event("response.function_call_arguments.delta", r#","delta":"{""#);
        assert_eq!((facts(&call).text, facts(&call).piece_of), (None, None));
    }

    #[test]
    fn the_end_of_a_part_is_content_with_the_text_of_the_whole() {
        let done = event("response.output_text.done", r#","text":"the and""#);
        let read = facts(&done);
        assert!(read.content && read.output && !read.finished);
        assert_eq!((read.text, read.whole_of), (Some(&b"the and"[..]), PART));
        let empty = event("response.output_text.done", r#","text":"""#);
        assert_eq!(facts(&empty), Facts::default());
    }

    #[test]
    fn the_type_may_come_last() {
        let text = r#"{"delta":"a","type":"response.output_text.delta"}"#;
        assert_eq!(facts(text).text, Some(&b"a"[..]));
    }

    #[test]
    fn completed_and_incomplete_end_the_answer_with_its_usage() {
        for kind in ["response.completed", "response.incomplete"] {
            let rest = r#","response":{"object":"response","error":null,"usage":{"input_tokens":9,"output_tokens":8,"total_tokens":17}}"#;
            let text = event(kind, rest);
            let read = facts(&text);
            assert!(
                read.finished && read.done && !read.content && read.error.is_none(),
                "{kind}"
            );
            assert_eq!(read.usage.map(|usage| usage.counts().total), Some(Some(17)));
        }
        // What a response in progress says of its usage is not final.
        let created = event("response.created", r#","response":{"usage":{"input_tokens":9}}"#);
        assert_eq!(facts(&created).usage, None);
    }

    #[test]
    fn a_failed_response_is_an_error_if_it_says_which() {
        let failed = event(
            "response.failed",
            r#","response":{"error":{"code":"server_error","message":"no"}}"#,
        );
        assert_eq!(
            facts(&failed).error,
            Some(&br#"{"code":"server_error","message":"no"}"#[..])
        );
        let silent = event("response.failed", r#","response":{"status":"failed"}"#);
        assert!(facts(&silent).error.is_none() && facts(&silent).finished);
    }

    #[test]
    fn a_whole_answer_has_its_text_in_output_or_beside_it() {
        let of = |output: &str| format!(r#"{{"object":"response","output":[{output}],"usage":{{"output_tokens":2}}}}"#);
        let read = |text: &str| {
            let facts = read_answer(text.as_bytes()).unwrap();
            (facts.content, facts.output, facts.text.map(<[u8]>::to_vec))
        };
        let message = r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}"#;
        let reasoning = r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]}"#;
        let call = r#"{"type":"function_call","name":"f","arguments":"{}"}"#;
        let hi = Some(b"hi".to_vec());
        assert_eq!(read(&of(message)), (true, true, hi.clone()));
        assert_eq!(read(&of(&format!("{reasoning},{message}"))), (true, true, hi.clone()));
        assert_eq!(read(&of(reasoning)), (true, false, None));
        assert_eq!(read(&of(call)), (true, true, None));
        assert_eq!(
            read(&of(
                r#"{"type":"message","content":[{"type":"refusal","text":"no"}]},null,{"type":"x"}"#
            )),
            (false, false, None)
        );
        assert_eq!(
            read(r#"{"object":"response","output":[],"output_text":"hi"}"#),
            (true, true, hi)
        );
        assert_eq!(read(r#"{"object":"other","output_text":"hi"}"#), (false, false, None));
    }
}
