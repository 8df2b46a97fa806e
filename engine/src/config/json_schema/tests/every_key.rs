//! Rules that hold for every key of the format, tried on each: times take units, what is not there is refused by its name, and messages speak of
//! the file alone.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::super::schema::{RAMP, Schema};
use super::super::keys;
use super::super::shape::Shape;
use super::{bases, places, said, validator, without_indices};
use crate::config::parse_suite;

/// The section of a key and its shape, by the path of messages.
fn shape_at(path: &str) -> Option<&'static Shape> {
    let bare = without_indices(path);
    let (section, key) = bare.rsplit_once('.').unwrap_or(("", &bare));
    let is_its = |schema: &Schema| {
        // One table serves the ramps of all limits.
        let place = schema.place.replace("[]", "");
        place == section || std::ptr::eq(schema, &RAMP) && section.ends_with("_ramp")
    };
    let (_, keys) = keys::ALL.iter().find(|(schema, _)| is_its(schema))?;
    keys.iter().find(|(known, ..)| *known == key).map(|(_, shape, _)| shape)
}

fn is_time(shape: &Shape) -> bool {
    match shape {
        Shape::Duration(_) => true,
        Shape::OneOf(shapes) => shapes.iter().any(is_time),
        _ => false,
    }
}

/// Every place of every base, once for each key: the last one, since a point of a series comes after the one before.
fn every_place() -> Vec<(Value, String, String)> {
    let mut all = BTreeMap::new();
    for base in bases() {
        let mut found = Vec::new();
        places(&base, "", "", &mut found);
        for (pointer, path) in found {
            all.insert(without_indices(&path), (base.clone(), pointer, path));
        }
    }
    all.into_values().collect()
}

fn with(base: &Value, pointer: &str, value: &str) -> String {
    let mut changed = base.clone();
    *changed.pointer_mut(pointer).expect("it was found there") = json!(value);
    changed.to_string()
}

#[test]
fn every_time_takes_numbers_of_seconds_and_units() {
    // Pairs of one length: what was read is then equal with all its positions in the file.
    let pairs = [
        ("1m30s", "90.00"),
        ("1500ms", "1.5000"),
        ("2 Min", "120.0"),
        ("30s", "30."),
        ("1h30m", "5400."),
    ];
    let validator = validator();
    let mut times = BTreeSet::new();
    for (base, pointer, path) in every_place() {
        if !shape_at(&path).is_some_and(is_time) {
            continue;
        }
        let read = |value: &str| {
            let text = with(&base, &pointer, value);
            parse_suite("f.yaml", text.as_bytes(), &|_| None)
                // It keeps the text of the file, for messages.
                .map(|suite| format!("{suite:?}").replace(&format!("\\\"{value}\\\""), "VALUE"))
                .map_err(|mistakes| mistakes.to_string())
        };
        for (units, seconds) in pairs {
            let (units, seconds) = (read(units), read(seconds));
            assert!(units.is_ok(), "{path}: {units:?}");
            assert_eq!(units, seconds, "{path}");
        }
        assert_ne!(
            read("1m30s"),
            read("1m31s"),
            "{path}: the comparison above sees nothing"
        );
        let forever: Value = serde_json::from_str(&with(&base, &pointer, "inf")).expect("it was JSON before");
        assert_eq!(validator.is_valid(&forever), read("inf").is_ok(), "{path}: inf");
        times.insert(path);
    }
    assert!(times.len() > 20, "only {times:?}");
}

#[test]
fn every_number_refuses_what_yaml_versions_read_in_two_ways() {
    let mut numbers = 0;
    for (base, pointer, path) in every_place() {
        if !matches!(
            shape_at(&path),
            Some(Shape::Whole(_) | Shape::Number(_) | Shape::Duration(_))
        ) {
            continue;
        }
        for (written, advice) in [
            ("010", "write 10"),
            ("1:30", "base 60"),
            ("0x10", "write the number in decimal"),
        ] {
            let changed: Value = serde_json::from_str(&with(&base, &pointer, written)).expect("it was JSON before");
            let told = said(&changed, &path);
            assert!(
                matches!(&told[..], [one] if one.contains(written) && one.contains(advice)),
                "{path}: {written}: {told:?}"
            );
        }
        numbers += 1;
    }
    assert!(numbers > 40, "only {numbers} keys");
}

#[test]
fn every_switch_takes_six_words_and_no_others() {
    let mut switches = 0;
    for (base, pointer, path) in every_place() {
        if !matches!(shape_at(&path), Some(Shape::Boolean)) {
            continue;
        }
        let told = |written: &str| {
            let changed = serde_json::from_str(&with(&base, &pointer, written)).expect("it was JSON before");
            said(&changed, &path)
        };
        for word in ["true", "yes", "on", "false", "no", "off", "True", "OFF"] {
            let told = told(word);
            // Some of them contradict another key of the base, but none for its spelling.
            assert!(
                !told.iter().any(|message| message.contains("allowed: true")),
                "{path}: {word}: {told:?}"
            );
        }
        for word in ["1", "0", "y", "n", "enabled", ""] {
            let told = told(word);
            assert!(
                matches!(&told[..], [one] if one.contains("allowed: true")),
                "{path}: {word}: {told:?}"
            );
        }
        switches += 1;
    }
    assert!(switches > 10, "only {switches} keys");
}

/// Words of a message that are flags, or names of types of the implementation.
fn internals(message: &str) -> Vec<String> {
    let types = [
        "u8", "u16", "u32", "u64", "usize", "i64", "i128", "f64", "bool", "str", "String", "Option", "Vec",
    ];
    let words = message.split(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_')));
    let is_type = |word: &str| {
        let mut letters = word.chars();
        // `PhaseType`: a capital, small letters, and a capital again.
        let is_camel = letters.next().is_some_and(char::is_uppercase)
            && letters.next().is_some_and(char::is_lowercase)
            && letters.any(char::is_uppercase);
        is_camel || types.contains(&word)
    };
    words
        .filter(|word| word.starts_with("--") && word.len() > 2 || is_type(word))
        .map(str::to_owned)
        .collect()
}

#[test]
fn no_message_about_a_file_names_a_flag_or_a_type() {
    assert_eq!(
        internals("found `a`; use --isl, a PhaseType or u64"),
        ["--isl", "PhaseType", "u64"]
    );
    let mistaken = [
        json!(true),
        json!(-1),
        json!("010"),
        json!("1d"),
        json!("text"),
        json!(" "),
        json!([[1]]),
        json!({"unknown_key": 1}),
    ];
    let mut read = 0;
    for (base, pointer, path) in every_place() {
        for candidate in &mistaken {
            let mut changed = base.clone();
            *changed.pointer_mut(&pointer).expect("it was found there") = candidate.clone();
            for message in said(&changed, "") {
                read += 1;
                assert_eq!(internals(&message), [""; 0], "{path}: {candidate}: {message}");
            }
        }
    }
    assert!(read > 1_000, "only {read} messages");
}

/// The mappings of a file that are sections of this schema, as JSON pointers.
fn sections(value: &Value, pointer: &str, place: &str, wanted: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(entries) => {
            if place == wanted {
                found.push(pointer.to_owned());
            }
            for (key, value) in entries {
                let separator = if place.is_empty() { "" } else { "." };
                sections(
                    value,
                    &format!("{pointer}/{key}"),
                    &format!("{place}{separator}{key}"),
                    wanted,
                    found,
                );
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                sections(
                    item,
                    &format!("{pointer}/{index}"),
                    &format!("{place}[]"),
                    wanted,
                    found,
                );
            }
        }
        _ => {}
    }
}

#[test]
fn every_key_that_is_not_there_is_refused_by_its_name() {
    let mut refused = 0;
    for (schema, _) in keys::ALL {
        for key in schema.refused {
            // A value that asks for something, in both spellings of the key.
            let mut camel = String::new();
            for (at, part) in key.key.split('_').enumerate() {
                let (first, rest) = part.split_at(usize::from(at > 0 && !part.is_empty()));
                camel.push_str(&first.to_uppercase());
                camel.push_str(rest);
            }
            let mut found = None;
            for base in bases() {
                let mut pointers = Vec::new();
                sections(&base, "", "", schema.place, &mut pointers);
                for pointer in pointers {
                    for name in [key.key, &camel] {
                        let mut changed = base.clone();
                        let Some(section) = changed.pointer_mut(&pointer).and_then(Value::as_object_mut) else {
                            continue;
                        };
                        section.insert(name.to_owned(), json!("something"));
                        let messages = said(&changed, "");
                        let is_named = messages
                            .iter()
                            .any(|message| message.starts_with("not supported by ringload") && message.contains(name));
                        assert!(is_named, "{} {name}: {messages:?}", schema.place);
                        found = Some(());
                    }
                }
            }
            assert!(
                found.is_some(),
                "{} {}: no base has this section",
                schema.place,
                key.key
            );
            refused += 1;
        }
    }
    assert!(refused > 20, "only {refused} keys");
}

#[test]
fn every_key_of_aiperf_works_or_is_refused_by_its_name() {
    let table = include_str!("../../../../../tests/cases/config/peer_keys.tsv");
    let mut unknown = Vec::new();
    let mut sections = BTreeSet::new();
    for row in table.lines().skip(1) {
        let (place, key) = row.split_once('\t').expect("two columns");
        let known = |(schema, _): &&(&Schema, &[keys::Key])| schema.place == place;
        let Some((schema, _)) = keys::ALL.iter().find(known) else {
            panic!("no section stands at {place}")
        };
        sections.insert(place);
        if !schema.known().any(|known| known == key) {
            unknown.push(format!("{place}: {key}"));
        }
    }
    assert!(sections.len() > 20, "only {sections:?}");
    assert!(unknown.is_empty(), "{unknown:#?}");
}
