//! Chunks and answers of OpenAI completions: both have the same form.

use super::super::chunk_shape::Holes;
use super::super::json::{Cursor, Invalid, Kind};
use super::super::usage::UsageObject;
use super::{Facts, answer, pass_over, truthy};

/// Reads one JSON text. Only the first choice counts, and in it only text that is not empty.
pub(super) fn read<'a>(json: &'a [u8], holes: &mut Holes) -> Result<Facts<'a>, Invalid> {
    let mut cursor = Cursor::new(json);
    let mut facts = Facts::default();
    let mut expected = false;
    if cursor.kind()? != Kind::Object {
        cursor.skip()?;
        cursor.finish()?;
        return Ok(facts);
    }
    cursor.object(|cursor, name| {
        match name.unescaped(&mut [0; 32]) {
            b"choices" => {
                (facts.text, facts.finished) = (None, false);
                holes.forget_answer();
                if cursor.kind()? == Kind::Array {
                    return cursor.array(|cursor, index| match index {
                        0 => choice(&mut facts, cursor, holes),
                        _ => cursor.skip().map(drop),
                    });
                }
                cursor.skip()?;
            }
            b"object" => expected = is_completion(cursor)?,
            b"usage" => facts.usage = UsageObject::read(cursor)?,
            b"error" => facts.error = truthy(cursor)?,
            _ => pass_over(cursor, holes)?,
        }
        Ok(())
    })?;
    cursor.finish()?;
    if expected {
        let has_text = facts.text.is_some();
        (facts.content, facts.output) = (has_text, has_text);
        return Ok(facts);
    }
    Ok(Facts {
        error: facts.error,
        ..Facts::default()
    })
}

fn choice<'a>(facts: &mut Facts<'a>, cursor: &mut Cursor<'a>, holes: &mut Holes) -> Result<(), Invalid> {
    if cursor.kind()? != Kind::Object {
        return cursor.skip().map(drop);
    }
    cursor.object(|cursor, name| {
        match name.unescaped(&mut [0; 32]) {
            b"text" => facts.text = answer(cursor, holes)?,
            b"finish_reason" => facts.finished = cursor.is_non_empty_string()?,
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    })
}

/// Servers call the object by either name.
fn is_completion(cursor: &mut Cursor<'_>) -> Result<bool, Invalid> {
    if cursor.kind()? == Kind::String {
        let mut room = [0; 32];
        return Ok(matches!(
            cursor.string()?.unescaped(&mut room),
            b"text_completion" | b"completion"
        ));
    }
    cursor.skip()?;
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(text: &str) -> Facts<'_> {
        read(text.as_bytes(), &mut Holes::default()).unwrap()
    }

    fn with_choices(choices: &str) -> String {
        format!(r#"{{"id":"c","object":"text_completion","created":1,"model":"m","choices":[{choices}]}}"#)
    }

    #[test]
    fn text_of_the_first_choice_is_output_unless_it_is_empty() {
        for (choices, content) in [
            (r#"{"index":0,"text":"the","finish_reason":null}"#, true),
            (r#"{"text":" "}"#, true),
            (r#"{"text":""}"#, false),
            (r#"{"text":null}"#, false),
            (r#"{"text":["a"]}"#, false),
            (r#"{"text":""},{"text":"b"}"#, false),
            (r#"null,{"text":"b"}"#, false),
            (r#"{"delta":{"content":"a"}}"#, false),
            ("", false),
        ] {
            let text = with_choices(choices);
            let facts = facts(&text);
            assert_eq!((facts.content, facts.output), (content, content), "{choices}");
        }
    }

    #[test]
    fn both_names_of_the_object_are_known_and_no_others() {
        for (object, known) in [
            ("text_completion", true),
            ("completion", true),
            ("chat.completion.chunk", false),
        ] {
            let text = with_choices(r#"{"text":"a","finish_reason":"stop"}"#).replace("text_completion", object);
            let facts = facts(&text);
            assert_eq!((facts.content, facts.finished), (known, known), "{object}");
        }
        assert!(!facts(r#"{"choices":[{"text":"a"}]}"#).content);
    }

    #[test]
    fn finish_reason_and_usage_may_come_with_the_last_text() {
        let text = r#"{"object":"text_completion","usage":{"prompt_tokens":3,"completion_tokens":2},"choices":[{"text":"é","finish_reason":"length"}]}"#;
        let facts = facts(text);
        assert!(facts.content && facts.finished && !facts.done);
        assert_eq!(facts.text, Some("é".as_bytes()));
        assert_eq!(facts.usage.and_then(|usage| usage.counts().completion), Some(2));
    }
}
