//! The walker against `serde_json`.

use super::*;
use proptest::prelude::*;
use serde_json::Value;

fn skips(text: &[u8]) -> bool {
    let mut cursor = Cursor::new(text);
    cursor.skip().and_then(|_| cursor.finish()).is_ok()
}

/// Walks with visitors instead of skipping, and rebuilds the tree.
fn walk(cursor: &mut Cursor<'_>) -> Result<Value, Invalid> {
    Ok(match cursor.kind()? {
        Kind::Object => {
            let mut members = serde_json::Map::new();
            cursor.object(|cursor, name| {
                let name = [b"\"", name.raw, b"\""].concat();
                members.insert(serde_json::from_slice(&name).unwrap(), walk(cursor)?);
                Ok(())
            })?;
            Value::Object(members)
        }
        Kind::Array => {
            let mut elements = Vec::new();
            cursor.array(|cursor, index| {
                assert_eq!(index, elements.len());
                elements.push(walk(cursor)?);
                Ok(())
            })?;
            Value::Array(elements)
        }
        _ => serde_json::from_slice(cursor.skip()?).map_err(|_| Invalid)?,
    })
}

fn walks(text: &[u8]) -> Option<Value> {
    let mut cursor = Cursor::new(text);
    let value = walk(&mut cursor).ok()?;
    cursor.finish().ok().map(|()| value)
}

/// Compares with `serde_json`, except where it stops at a number that no `f64` holds: it says nothing of the rest then.
#[track_caller]
fn assert_judged_alike(text: &[u8]) {
    let accepted = match serde_json::from_slice::<Value>(text) {
        Ok(_) => true,
        Err(error) if error.to_string().starts_with("number out of range") => return,
        Err(_) => false,
    };
    assert_eq!(skips(text), accepted, "skip {:?}", String::from_utf8_lossy(text));
    assert_eq!(
        walks(text).is_some(),
        accepted,
        "walk {:?}",
        String::from_utf8_lossy(text)
    );
}

#[test]
fn the_grammar_is_that_of_serde_json() {
    for text in [
        "",
        " ",
        "0",
        "-0",
        "00",
        "01",
        "-",
        "1.",
        ".5",
        "1.5",
        "1e",
        "1e+",
        "1E-7",
        "+1",
        "0x1",
        "true",
        "tru",
        "truex",
        "null",
        "nul",
        "false",
        "NaN",
        "\"\"",
        "\"",
        "\"a",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12G4\"",
        "\"\\u0041\"",
        "\"\\ud83d\\ude80\"",
        "\"\\ud83d\"",
        "\"\\ude80\"",
        "\"\\ud83d\\n\"",
        "\"\\ud83d\\ud83d\"",
        "\"tab\there\"",
        "\"del\u{7f}\"",
        "\"日本語の長い文字列\"",
        "[]",
        "[",
        "]",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1,2]",
        "{}",
        "{",
        "}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\":1 \"b\":2}",
        "{a:1}",
        "{1:1}",
        "[}",
        "[1}",
        "{\"a\":1]",
        "[{}}",
        "{\"a\":[]]",
        "{]",
        "{\"a\":[}",
        "[{\"a\":1]}",
        "[[],{}]",
        "{\"a\":{\"b\":[1,{\"c\":null}]}}",
        " [ 1 , { \"a\" : 2 } ] ",
        "\u{a0}1",
        "1 1",
        "{} {}",
        "[1]]",
        "\u{feff}1",
        "// c\n1",
    ] {
        assert_judged_alike(text.as_bytes());
    }
}

#[test]
fn invalid_utf_8_is_refused_wherever_it_stands() {
    for text in [
        &b"\"\xff\""[..],
        b"\"long enough for eight \xc3\x28\"",
        b"{\"\x80\":1}",
        b"\xff",
        b"\"\xed\xa0\x80\"",
    ] {
        assert!(!skips(text), "{text:?}");
        assert_judged_alike(text);
    }
}

#[test]
fn nesting_ends_where_serde_json_ends_it() {
    for (depth, accepted) in [(127, true), (128, false), (100_000, false)] {
        let arrays = [vec![b'['; depth], vec![b']'; depth]].concat();
        assert_eq!(skips(&arrays), accepted, "{depth}");
        let objects = [b"{\"a\":".repeat(depth - 1), b"{}".to_vec(), vec![b'}'; depth - 1]].concat();
        assert_eq!(skips(&objects), accepted, "{depth}");
        assert_judged_alike(&arrays);
        assert_judged_alike(&objects);
    }
}

#[test]
fn the_range_of_numbers_is_not_checked_but_their_grammar_is() {
    assert!(skips(b"1e999") && skips(b"[-123456789e99999]"));
    assert!(!skips(b"[1e999,]") && !skips(b"1e9e9"));
}

#[test]
fn escaped_names_are_compared_by_meaning() {
    let unescaped = |text: &str| {
        let text = Cursor::new(text.as_bytes()).string().unwrap();
        text.unescaped(&mut [0; 32]).to_vec()
    };
    assert_eq!(unescaped(r#""delta""#), b"delta");
    assert_eq!(unescaped(r#""\u0064el\u0074a""#), b"delta");
    assert_eq!(unescaped(r#""\"\\\/\b\f\n\r\t""#), b"\"\\/\x08\x0c\n\r\t");
    assert_eq!(unescaped(r#""\ud83d\ude80""#), "🚀".as_bytes());
    let long = format!(r#""\u0061{}""#, "b".repeat(40));
    assert_eq!(unescaped(&long), &long.as_bytes()[1..long.len() - 1]);
}

#[test]
fn only_plain_integers_are_unsigned() {
    let unsigned = |text: &str| Cursor::new(text.as_bytes()).unsigned();
    assert_eq!(unsigned("0"), Ok(Some(0)));
    assert_eq!(unsigned(" 18446744073709551615"), Ok(Some(u64::MAX)));
    for text in [
        "18446744073709551616",
        "-1",
        "1.0",
        "1e3",
        "\"5\"",
        "null",
        "[1]",
        "true",
    ] {
        assert_eq!(unsigned(text), Ok(None), "{text}");
    }
    assert_eq!(unsigned("x"), Err(Invalid));
}

#[test]
fn a_non_empty_string_is_told_from_everything_else() {
    let is = |text: &str| Cursor::new(text.as_bytes()).is_non_empty_string();
    assert_eq!((is("\" \""), is("\"\\n\"")), (Ok(true), Ok(true)));
    for text in ["\"\"", "null", "1", "[\"a\"]", "{\"a\":\"b\"}"] {
        assert_eq!(is(text), Ok(false), "{text}");
    }
    assert_eq!(is("\"a"), Err(Invalid));
}

#[test]
fn a_stop_byte_is_found_at_every_offset() {
    for stop in (0..0x20).chain([b'"', b'\\']).chain(0x80..=0xff) {
        for at in 0..20 {
            let mut bytes = vec![b'a'; 24];
            bytes[at] = stop;
            assert_eq!(plain_end(&bytes, 0), at, "{stop:#x} at {at}");
        }
    }
    assert_eq!(plain_end(b"plain ~!#[]\x7f and more", 3), 21);
}

/// Any tree, with strings that need escapes and characters of all lengths.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Texts made of JSON's own pieces: far likelier than random bytes to be almost right.
fn token_soup() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        &b"{"[..],
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\"",
        b"\"a\"",
        b"\"a\":",
        b"\\",
        b"\\u",
        b"\\ud83d",
        b"\\ude80",
        b"\\n",
        b"0",
        b"-",
        b"1",
        b".",
        b"e",
        b"+",
        b"true",
        b"null",
        b"false",
        b" ",
        b"\n",
        b"\x00",
        b"\xc3",
        b"\xa9",
        b"\xff",
        b"[]",
        b"{}",
        b"{\"a\":1}",
    ]);
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_json_value_is_accepted_and_read_as_serde_json_reads_it(value in any_value(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) }.unwrap();
        prop_assert!(skips(&text));
        prop_assert_eq!(walks(&text), Some(value));
    }

    #[test]
    fn a_cut_or_changed_text_is_judged_as_by_serde_json(
        value in any_value(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let mut text = serde_json::to_vec(&value).unwrap();
        let at = at.index(text.len());
        if cut { text.truncate(at) } else { text[at] = byte }
        assert_judged_alike(&text);
    }

    #[test]
    fn token_soup_is_judged_as_by_serde_json(text in token_soup()) {
        assert_judged_alike(&text);
    }

    #[test]
    fn random_bytes_are_judged_as_by_serde_json(text in proptest::collection::vec(any::<u8>(), 0..64)) {
        assert_judged_alike(&text);
    }
}
