//! Chunks and answers of OpenAI chat completions.

use super::super::chunk_shape::Holes;
use super::super::json::{Cursor, Invalid, Kind};
use super::super::usage::UsageObject;
use super::{Facts, answer, has_text, is_string, pass_over, truthy};

/// Which of the two objects is expected. Any other object is data of something else and carries no facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// `chat.completion.chunk`, with a `delta`.
    Chunk,
    /// `chat.completion`, with a `message`.
    Answer,
}

impl Shape {
    fn object(self) -> &'static [u8] {
        match self {
            Self::Chunk => b"chat.completion.chunk",
            Self::Answer => b"chat.completion",
        }
    }

    fn message(self) -> &'static [u8] {
        match self {
            Self::Chunk => b"delta",
            Self::Answer => b"message",
        }
    }
}

/// Reads one JSON text. Only the first choice counts. Values that may differ in another text without a change of the facts are noted.
pub(super) fn read<'a>(json: &'a [u8], shape: Shape, holes: &mut Holes) -> Result<Facts<'a>, Invalid> {
    let mut cursor = Cursor::new(json);
    let mut facts = Facts::default();
    let mut expected = false;
    if cursor.kind()? == Kind::Object {
        cursor.object(|cursor, name| {
            match name.unescaped(&mut [0; 32]) {
                b"choices" => {
                    (facts.content, facts.output, facts.finished) = (false, false, false);
                    facts.text = None;
                    holes.forget_answer();
                    if cursor.kind()? == Kind::Array {
                        return cursor.array(|cursor, index| match index {
                            0 => choice(&mut facts, cursor, shape, holes),
                            _ => cursor.skip().map(drop),
                        });
                    }
                    cursor.skip()?;
                }
                b"object" => expected = is_string(cursor, shape.object())?,
                b"usage" => facts.usage = UsageObject::read(cursor)?,
                b"error" => facts.error = truthy(cursor)?,
                _ => pass_over(cursor, holes)?,
            }
            Ok(())
        })?;
    } else {
        cursor.skip()?;
    }
    cursor.finish()?;
    if expected {
        return Ok(facts);
    }
    Ok(Facts {
        error: facts.error,
        ..Facts::default()
    })
}

fn choice<'a>(facts: &mut Facts<'a>, cursor: &mut Cursor<'a>, shape: Shape, holes: &mut Holes) -> Result<(), Invalid> {
    if cursor.kind()? != Kind::Object {
        return cursor.skip().map(drop);
    }
    cursor.object(|cursor, name| match name.unescaped(&mut [0; 32]) {
        b"finish_reason" => {
            facts.finished = cursor.is_non_empty_string()?;
            Ok(())
        }
        name if name == shape.message() => message(facts, cursor, holes),
        _ => cursor.skip().map(drop),
    })
}

/// Role, empty strings and nulls are no content. Tool calls are output unless the same message carries reasoning:
/// a reader of the stream would show the reasoning first.
fn message<'a>(facts: &mut Facts<'a>, cursor: &mut Cursor<'a>, holes: &mut Holes) -> Result<(), Invalid> {
    if cursor.kind()? != Kind::Object {
        return cursor.skip().map(drop);
    }
    let (mut text, mut reasoning, mut tool) = (None, false, false);
    // Of several messages the last one counts.
    holes.forget_answer();
    cursor.object(|cursor, name| {
        match name.unescaped(&mut [0; 32]) {
            b"content" => text = answer(cursor, holes)?,
            b"reasoning_content" | b"reasoning" => reasoning |= has_text(cursor, holes)?,
            b"tool_calls" => tool = has_tool_text(cursor)?,
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    })?;
    facts.text = text;
    facts.content = text.is_some() || reasoning || tool;
    facts.output = text.is_some() || (tool && !reasoning);
    Ok(())
}

/// Consumes the next value and tells whether it is a list of calls of which any has text in its name or arguments.
fn has_tool_text(cursor: &mut Cursor<'_>) -> Result<bool, Invalid> {
    let mut found = false;
    if cursor.kind()? != Kind::Array {
        cursor.skip()?;
        return Ok(found);
    }
    cursor.array(|cursor, _| {
        if cursor.kind()? != Kind::Object {
            return cursor.skip().map(drop);
        }
        cursor.object(|cursor, name| {
            if name.unescaped(&mut [0; 32]) != b"function" || cursor.kind()? != Kind::Object {
                return cursor.skip().map(drop);
            }
            cursor.object(|cursor, name| {
                match name.unescaped(&mut [0; 32]) {
                    b"name" | b"arguments" => found |= cursor.is_non_empty_string()?,
                    _ => {
                        cursor.skip()?;
                    }
                }
                Ok(())
            })
        })
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::super::usage::TokenUsage;
    use super::*;

    fn facts_of(text: &[u8], shape: Shape) -> Result<Facts<'_>, Invalid> {
        read(text, shape, &mut Holes::default())
    }

    fn counts(facts: &Facts<'_>) -> Option<TokenUsage> {
        facts.usage.map(UsageObject::counts)
    }

    fn chunk_with(choice: &str, rest: &str) -> String {
        format!(r#"{{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{choice}]{rest}}}"#)
    }

    /// Content, output and finished of a chunk with this delta.
    fn delta(delta: &str) -> (bool, bool, bool) {
        let text = chunk_with(&format!(r#"{{"index":0,"delta":{delta},"finish_reason":null}}"#), "");
        let facts = facts_of(text.as_bytes(), Shape::Chunk).unwrap();
        (facts.content, facts.output, facts.finished)
    }

    const NOTHING: (bool, bool, bool) = (false, false, false);
    const REASONING: (bool, bool, bool) = (true, false, false);
    const OUTPUT: (bool, bool, bool) = (true, true, false);

    #[test]
    fn s17_role_empty_and_null_deltas_carry_no_content() {
        for text in [
            "{}",
            "null",
            r#"{"role":"assistant"}"#,
            r#"{"role":"assistant","content":""}"#,
            r#"{"content":null}"#,
            r#"{"content":5}"#,
            r#"{"content":["a"]}"#,
            r#"{"reasoning_content":"","reasoning":null,"content":""}"#,
            r#"{"tool_calls":[],"content":""}"#,
            r#"{"function_call":{"name":"f","arguments":"{}"}}"#,
            r#"{"refusal":"no"}"#,
        ] {
            assert_eq!(delta(text), NOTHING, "{text}");
        }
    }

    #[test]
    fn text_counts_even_if_it_is_blank() {
        for text in [
            r#"{"content":"hi"}"#,
            r#"{"content":" "}"#,
            r#"{"content":"\n","role":"assistant"}"#,
        ] {
            assert_eq!(delta(text), OUTPUT, "{text}");
        }
    }

    #[test]
    fn s19_reasoning_counts_under_both_spellings_and_is_not_output_by_itself() {
        assert_eq!(delta(r#"{"reasoning_content":"hm"}"#), REASONING);
        assert_eq!(delta(r#"{"reasoning":"hm","reasoning_content":""}"#), REASONING);
        assert_eq!(delta(r#"{"reasoning":"hm","content":"a"}"#), OUTPUT);
        assert_eq!(
            delta(r#"{"reasoning":"hm","tool_calls":[{"function":{"name":"f"}}]}"#),
            REASONING
        );
    }

    #[test]
    fn s33_tool_calls_count_once_they_have_text() {
        for text in [
            r#"{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":""}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"{"}}],"content":null}"#,
            r#"{"tool_calls":[{"index":0},{"index":1,"function":{"arguments":"{"}}]}"#,
        ] {
            assert_eq!(delta(text), OUTPUT, "{text}");
        }
        for text in [
            r#"{"tool_calls":[{"index":0,"id":"x","type":"function"}]}"#,
            r#"{"tool_calls":[{"function":{"name":"","arguments":null}}]}"#,
            r#"{"tool_calls":[null,{"function":"f"}]}"#,
            r#"{"tool_calls":{"function":{"name":"f"}}}"#,
        ] {
            assert_eq!(delta(text), NOTHING, "{text}");
        }
    }

    #[test]
    fn a_finish_reason_is_a_non_empty_string() {
        let finished = |choice: &str| {
            let facts = chunk_with(choice, "");
            facts_of(facts.as_bytes(), Shape::Chunk).unwrap().finished
        };
        assert!(finished(r#"{"delta":{},"finish_reason":"stop"}"#));
        assert!(finished(r#"{"finish_reason":"length"}"#));
        assert!(!finished(r#"{"delta":{},"finish_reason":null}"#));
        assert!(!finished(r#"{"delta":{},"finish_reason":""}"#));
    }

    #[test]
    fn only_the_first_choice_counts() {
        let text = chunk_with(r#"{"delta":{}},{"delta":{"content":"b"},"finish_reason":"stop"}"#, "");
        assert_eq!(facts_of(text.as_bytes(), Shape::Chunk), Ok(Facts::default()));
        let text = chunk_with(r#"null,{"delta":{"content":"b"}}"#, "");
        assert_eq!(facts_of(text.as_bytes(), Shape::Chunk), Ok(Facts::default()));
    }

    #[test]
    fn s24_usage_is_read_beside_empty_choices() {
        let text = chunk_with(
            "",
            r#","usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}"#,
        );
        let facts = facts_of(text.as_bytes(), Shape::Chunk).unwrap();
        assert_eq!(counts(&facts).and_then(|usage| usage.total), Some(5));
        assert!(!facts.content);
        for rest in [r#","usage":null"#, r#","usage":{}"#] {
            let text = chunk_with("", rest);
            assert_eq!(facts_of(text.as_bytes(), Shape::Chunk), Ok(Facts::default()));
        }
    }

    #[test]
    fn other_objects_carry_nothing_but_errors() {
        for object in [
            r#""object":"response","#,
            r#""object":"chat.completion","#,
            r#""object":7,"#,
            "",
        ] {
            let text = format!(
                r#"{{{object}"choices":[{{"delta":{{"content":"a"}},"message":{{"content":"a"}},"finish_reason":"stop"}}],"usage":{{"a":1}}}}"#
            );
            assert_eq!(facts_of(text.as_bytes(), Shape::Chunk), Ok(Facts::default()), "{text}");
        }
        for text in ["[]", "1", r#""object""#, "null"] {
            assert_eq!(facts_of(text.as_bytes(), Shape::Chunk), Ok(Facts::default()), "{text}");
        }
        let facts = facts_of(br#"{"error":{"code":500}}"#, Shape::Chunk).unwrap();
        assert_eq!(facts.error, Some(&br#"{"code":500}"#[..]));
    }

    #[test]
    fn an_answer_has_a_message_instead_of_a_delta() {
        let text = br#"{"object":"chat.completion","choices":[{"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}],
            "usage":{"completion_tokens":1}}"#;
        let facts = facts_of(text, Shape::Answer).unwrap();
        assert!(facts.content && facts.output && facts.finished);
        assert_eq!(counts(&facts).and_then(|usage| usage.completion), Some(1));
        assert_eq!(facts_of(text, Shape::Chunk), Ok(Facts::default()));
    }

    #[test]
    fn names_may_be_escaped_and_strange_shapes_are_skipped() {
        let text = r#"{"obj\u0065ct":"chat.completion.\u0063hunk","choic\u0065s":[{"delta":{"content":"a"}}]}"#;
        assert!(facts_of(text.as_bytes(), Shape::Chunk).unwrap().content);
        let text = r#"{"object":"chat.completion.chunk","choices":{"0":{"delta":{"content":"a"}}},"usage":[1]}"#;
        assert_eq!(facts_of(text.as_bytes(), Shape::Chunk), Ok(Facts::default()));
    }

    #[test]
    fn an_object_that_breaks_off_has_no_facts() {
        let text = chunk_with(r#"{"delta":{"content":"a"}}"#, "");
        for cut in 0..text.len() {
            assert_eq!(
                facts_of(&text.as_bytes()[..cut], Shape::Chunk),
                Err(Invalid),
                "cut at {cut}"
            );
        }
        assert!(facts_of(format!("{text}x").as_bytes(), Shape::Chunk).is_err());
    }
}
