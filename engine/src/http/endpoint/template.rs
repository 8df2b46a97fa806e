//! Answers of an API that only its user knows: what looks like an answer is looked for in the places where APIs keep theirs.
//!
//! In this order: embeddings, rankings, text. Only the first kind that is there counts.

use super::super::chunk_shape::Holes;
use super::super::json::{Cursor, Invalid, Kind};
use super::super::usage::UsageObject;
use super::{Facts, truthy};

/// Members that hold a text, the first one that is not empty counts.
const TEXTS: [&[u8]; 5] = [b"text", b"content", b"response", b"output", b"result"];

/// A text and where it stands in the JSON, quotes included.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct Place<'a> {
    /// Without the quotes, as it is written.
    pub(in crate::http) raw: &'a [u8],
    pub(in crate::http) start: usize,
    pub(in crate::http) end: usize,
}

/// What an answer has in known places.
#[derive(Debug, Default)]
struct Seen<'a> {
    embeddings: bool,
    rankings: bool,
    /// By the order of [`TEXTS`].
    texts: [Option<Place<'a>>; TEXTS.len()],
    /// A list of texts in one of these places, as servers answer that take several prompts.
    has_texts: bool,
    choice: Option<Place<'a>>,
}

/// Reads an event, or a whole body. Of its streams nothing is known but where they end.
pub(in crate::http) fn read<'a>(json: &'a [u8], holes: &mut Holes) -> Result<Facts<'a>, Invalid> {
    let mut cursor = Cursor::new(json);
    let mut facts = Facts::default();
    let mut seen = Seen::default();
    if cursor.kind()? == Kind::Object {
        cursor.object(|cursor, name| {
            let mut room = [0; 32];
            let name = name.unescaped(&mut room);
            match name {
                b"error" => facts.error = truthy(cursor)?,
                b"usage" => facts.usage = UsageObject::read(cursor)?,
                b"embedding" | b"embeddings" => seen.embeddings |= has_items(cursor)?,
                b"data" => seen.embeddings |= has_embeddings(cursor)?,
                b"rankings" | b"results" => seen.rankings |= has_items(cursor)?,
                b"choices" => seen.choice = choice(cursor)?,
                _ => match TEXTS.iter().position(|known| *known == name) {
                    Some(_) if cursor.kind()? == Kind::Array => seen.has_texts |= has_strings(cursor)?,
                    Some(index) => seen.texts[index] = text(cursor)?,
                    None => {
                        cursor.skip()?;
                    }
                },
            }
            Ok(())
        })?;
    } else {
        cursor.skip()?;
    }
    cursor.finish()?;
    if facts.error.is_some() {
        return Ok(facts);
    }
    let is_list = seen.embeddings || seen.rankings;
    let found = seen.texts.into_iter().flatten().next();
    let found = found.or(seen.choice.filter(|_| !seen.has_texts)).filter(|_| !is_list);
    if let Some(place) = found {
        holes.note_answer(place.start, place.end);
        facts.text = Some(place.raw);
    }
    facts.content = is_list || seen.has_texts || found.is_some();
    facts.output = facts.content;
    Ok(facts)
}

/// Consumes the next value; a string that is not empty is returned with its place.
pub(in crate::http) fn text<'a>(cursor: &mut Cursor<'a>) -> Result<Option<Place<'a>>, Invalid> {
    if cursor.kind()? != Kind::String {
        cursor.skip()?;
        return Ok(None);
    }
    let start = cursor.position();
    let text = cursor.string()?;
    let end = cursor.position();
    let raw = text.raw();
    Ok((!raw.is_empty()).then_some(Place { raw, start, end }))
}

/// Consumes the next value and tells whether it is a list that is not empty.
fn has_items(cursor: &mut Cursor<'_>) -> Result<bool, Invalid> {
    let is_list = cursor.kind()? == Kind::Array;
    let raw = cursor.skip()?;
    Ok(is_list && !raw[1..raw.len() - 1].trim_ascii().is_empty())
}

/// The same for a list of strings that has one with a character.
fn has_strings(cursor: &mut Cursor<'_>) -> Result<bool, Invalid> {
    let mut found = false;
    cursor.array(|cursor, _| {
        found |= text(cursor)?.is_some();
        Ok(())
    })?;
    Ok(found)
}

/// The same for a list whose items all have an `embedding`: numbers, or a text that stands for them.
fn has_embeddings(cursor: &mut Cursor<'_>) -> Result<bool, Invalid> {
    if cursor.kind()? != Kind::Array {
        cursor.skip()?;
        return Ok(false);
    }
    let (mut any, mut all) = (false, true);
    cursor.array(|cursor, _| {
        any = true;
        let mut has_one = false;
        if cursor.kind()? != Kind::Object {
            cursor.skip()?;
        } else {
            cursor.object(|cursor, name| {
                if name.unescaped(&mut [0; 32]) != b"embedding" {
                    return cursor.skip().map(drop);
                }
                has_one = match cursor.kind()? {
                    Kind::String => text(cursor)?.is_some(),
                    _ => has_items(cursor)?,
                };
                Ok(())
            })?;
        }
        all &= has_one;
        Ok(())
    })?;
    Ok(any && all)
}

/// The text of the first choice of an API like OpenAI's: its own, or that of its message or delta.
fn choice<'a>(cursor: &mut Cursor<'a>) -> Result<Option<Place<'a>>, Invalid> {
    if cursor.kind()? != Kind::Array {
        cursor.skip()?;
        return Ok(None);
    }
    let mut found = None;
    cursor.array(|cursor, index| {
        if index > 0 || cursor.kind()? != Kind::Object {
            return cursor.skip().map(drop);
        }
        cursor.object(|cursor, name| {
            match name.unescaped(&mut [0; 32]) {
                b"text" => found = text(cursor)?.or(found),
                b"message" | b"delta" if cursor.kind()? == Kind::Object => cursor.object(|cursor, name| {
                    if name.unescaped(&mut [0; 32]) == b"content" {
                        found = text(cursor)?.or(found);
                        return Ok(());
                    }
                    cursor.skip().map(drop)
                })?,
                _ => {
                    cursor.skip()?;
                }
            }
            Ok(())
        })
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(json: &str) -> Facts<'_> {
        read(json.as_bytes(), &mut Holes::default()).unwrap_or_else(|_| panic!("{json}"))
    }

    #[test]
    fn text_is_found_where_apis_keep_theirs() {
        for json in [
            r#"{"text":"abc"}"#,
            r#"{"content":"abc","id":1}"#,
            r#"{"response":"abc"}"#,
            r#"{"output":"abc"}"#,
            r#"{"result":"abc","text":""}"#,
            r#"{"result":"other","text":"abc"}"#,
            r#"{"choices":[{"text":"abc"},{"text":"x"}]}"#,
            r#"{"choices":[{"message":{"role":"assistant","content":"abc"}}]}"#,
            r#"{"choices":[{"delta":{"content":"abc"}}]}"#,
            r#"{"response":null,"choices":[{"text":"abc"}],"text":{}}"#,
        ] {
            let facts = facts(json);
            assert_eq!(facts.text, Some(&b"abc"[..]), "{json}");
            assert!(facts.content && facts.output && !facts.finished, "{json}");
        }
    }

    #[test]
    fn embeddings_and_ranks_and_lists_of_texts_are_answers_without_one_text() {
        for json in [
            r#"{"data":[{"embedding":[0.5],"index":0},{"embedding":"AAA="}],"text":"x"}"#,
            r#"{"embedding":[1,2]}"#,
            r#"{"embeddings":[[1],[2]]}"#,
            r#"{"rankings":[{"index":0}]}"#,
            r#"{"results":[{"index":0}],"content":"x"}"#,
            r#"{"text":["a","b"]}"#,
        ] {
            let facts = facts(json);
            assert_eq!((facts.content, facts.text), (true, None), "{json}");
        }
    }

    #[test]
    fn nothing_else_is_an_answer() {
        for json in [
            "{}",
            "[]",
            r#"["text"]"#,
            "1",
            r#"{"text":""}"#,
            r#"{"text":7}"#,
            r#"{"text":[]}"#,
            r#"{"text":[""]}"#,
            r#"{"data":[]}"#,
            r#"{"data":[{"embedding":[1]},{}]}"#,
            r#"{"embeddings":[ ]}"#,
            r#"{"rankings":{}}"#,
            r#"{"choices":[]}"#,
            r#"{"choices":[{"delta":{"role":"assistant"}}]}"#,
            r#"{"choices":[null,{"text":"a"}]}"#,
            r#"{"nested":{"text":"a"}}"#,
        ] {
            let facts = facts(json);
            assert_eq!((facts.content, facts.text), (false, None), "{json}");
        }
    }

    #[test]
    fn errors_and_usage_are_read_beside_the_answer() {
        let facts = facts(r#"{"text":"a","usage":{"completion_tokens":3}}"#);
        assert_eq!(facts.usage.and_then(|usage| usage.counts().completion), Some(3));
        let failed = read(br#"{"text":"a","error":"no"}"#, &mut Holes::default()).expect("JSON");
        assert_eq!((failed.content, failed.error), (false, Some(&br#""no""#[..])));
    }
}
