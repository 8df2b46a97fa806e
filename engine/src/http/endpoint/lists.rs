//! Answers that are lists: embeddings, and ranks of passages. They have no stream, and their usage is not read, for it would count no output.

use super::super::json::{Cursor, Invalid, Kind};
use super::{Facts, is_string, truthy};

/// Where an API keeps its ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In `rankings`.
    Rankings,
    /// In `results`.
    Results,
    /// The answer itself is the list, or has it in `results`.
    TopOrResults,
}

/// Reads an event: all that one of these can say is an error.
pub(super) fn read_event(json: &[u8]) -> Result<Facts<'_>, Invalid> {
    read(json, |cursor, _| cursor.skip().map(|_| None))
}

/// Reads an answer whose `data` is to be a list of embeddings and of nothing else. A list with anything else in it has no content.
pub(super) fn read_embeddings(json: &[u8]) -> Result<Facts<'_>, Invalid> {
    read(json, |cursor, name| {
        if name != b"data" {
            cursor.skip()?;
            return Ok(None);
        }
        all_items(cursor, |cursor| {
            let mut is_embedding = false;
            if cursor.kind()? != Kind::Object {
                cursor.skip()?;
                return Ok(false);
            }
            cursor.object(|cursor, name| {
                if name.unescaped(&mut [0; 32]) == b"object" {
                    is_embedding = is_string(cursor, b"embedding")?;
                    return Ok(());
                }
                cursor.skip().map(drop)
            })?;
            Ok(is_embedding)
        })
        .map(Some)
    })
}

/// Reads an answer with a list of ranks.
pub(super) fn read_rankings(json: &[u8], place: Place) -> Result<Facts<'_>, Invalid> {
    let is_rank = |cursor: &mut Cursor<'_>| {
        let is_object = cursor.kind()? == Kind::Object;
        cursor.skip()?;
        Ok(is_object)
    };
    let mut cursor = Cursor::new(json);
    if place == Place::TopOrResults && cursor.kind()? == Kind::Array {
        let content = all_items(&mut cursor, is_rank)?;
        cursor.finish()?;
        return Ok(of_content(content));
    }
    let wanted: &[u8] = match place {
        Place::Rankings => b"rankings",
        Place::Results | Place::TopOrResults => b"results",
    };
    read(json, |cursor, name| {
        if name == wanted {
            return all_items(cursor, is_rank).map(Some);
        }
        cursor.skip()?;
        Ok(None)
    })
}

/// Reads an object. `member` gets each value but errors, and tells whether it is the content that was asked for, if it stands in that place.
fn read<'a>(
    json: &'a [u8],
    mut member: impl FnMut(&mut Cursor<'a>, &[u8]) -> Result<Option<bool>, Invalid>,
) -> Result<Facts<'a>, Invalid> {
    let mut cursor = Cursor::new(json);
    let (mut content, mut error) = (false, None);
    if cursor.kind()? == Kind::Object {
        cursor.object(|cursor, name| {
            match name.unescaped(&mut [0; 32]) {
                b"error" => error = truthy(cursor)?,
                name => content = member(cursor, name)?.unwrap_or(content),
            }
            Ok(())
        })?;
    } else {
        cursor.skip()?;
    }
    cursor.finish()?;
    Ok(Facts {
        error,
        ..of_content(content)
    })
}

fn of_content<'a>(content: bool) -> Facts<'a> {
    Facts {
        content,
        output: content,
        ..Facts::default()
    }
}

/// Consumes the next value and tells whether it is a list with an item whose items all pass.
fn all_items<'a>(
    cursor: &mut Cursor<'a>,
    mut passes: impl FnMut(&mut Cursor<'a>) -> Result<bool, Invalid>,
) -> Result<bool, Invalid> {
    if cursor.kind()? != Kind::Array {
        cursor.skip()?;
        return Ok(false);
    }
    let (mut any, mut all) = (false, true);
    cursor.array(|cursor, _| {
        any = true;
        all &= passes(cursor)?;
        Ok(())
    })?;
    Ok(any && all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embeddings_are_a_list_of_embeddings_and_of_nothing_else() {
        let content = |data: &str| {
            let text = format!(r#"{{"object":"list","data":{data},"model":"m","usage":{{"prompt_tokens":9}}}}"#);
            let facts = read_embeddings(text.as_bytes()).unwrap();
            assert_eq!(facts.usage, None);
            facts.content
        };
        let one = r#"{"object":"embedding","index":0,"embedding":[0.1,-2e-3]}"#;
        assert!(content(&format!("[{one}]")));
        assert!(content(&format!("[{one},{one}]")));
        for other in ["[]", "null", "{}", r#"[{"object":"image"}]"#, "[{}]", "[1]"] {
            assert!(!content(other), "{other}");
        }
        assert!(!content(&format!(r#"[{one},{{"object":"x"}}]"#)));
    }

    #[test]
    fn ranks_are_looked_for_where_the_api_keeps_them() {
        let ranks = r#"[{"index":0,"score":0.5},{"index":1,"score":0.4}]"#;
        let content = |text: &str, place| read_rankings(text.as_bytes(), place).unwrap().content;
        let (results, rankings) = (
            format!(r#"{{"results":{ranks}}}"#),
            format!(r#"{{"rankings":{ranks}}}"#),
        );
        let places = [Place::Rankings, Place::Results, Place::TopOrResults];
        assert_eq!(places.map(|place| content(&rankings, place)), [true, false, false]);
        assert_eq!(places.map(|place| content(&results, place)), [false, true, true]);
        assert_eq!(places.map(|place| content(ranks, place)), [false, false, true]);
        for empty in [r#"{"results":[],"rankings":[]}"#, "[]", "[1]", r#"{"results":{}}"#, "1"] {
            assert_eq!(places.map(|place| content(empty, place)), [false; 3], "{empty}");
        }
    }
}
