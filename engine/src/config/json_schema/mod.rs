//! The file format as a JSON Schema (2020-12), for editors: made of the tables of [`schema`](super::schema), which the loader reads too, and of
//! [`keys`], which says of each key what may stand there.
//!
//! It knows keys, shapes, words and simple limits. What must stand together, and what must not, is what `config validate` says. Nothing that the
//! loader accepts may be wrong by the schema; tests hold the two against each other key by key.

mod keys;
mod shape;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use super::schema::{BENCHMARK, ENVELOPE, Schema};

/// The schema as a document.
pub fn json_schema() -> Value {
    let mut definitions = Map::new();
    definitions.insert("open".to_owned(), shape::open());
    for (schema, keys) in keys::ALL {
        definitions.insert(shape::definition(schema), section(&[(schema, keys)]));
    }
    // The old shape: what belongs under `benchmark` stands at the top.
    let body = keys::of(&BENCHMARK);
    let envelope: Vec<keys::Key> = keys::of(&ENVELOPE)
        .iter()
        .filter(|(key, ..)| *key != "benchmark")
        .copied()
        .collect();
    definitions.insert(
        "flat_file".to_owned(),
        section(&[(&ENVELOPE, &envelope), (&BENCHMARK, body)]),
    );
    definitions.insert("complete".to_owned(), complete());
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ringload config",
        "description": format!("The config file of ringload {}: where the load goes, what it is made of, and in which phases it runs.", env!("CARGO_PKG_VERSION")),
        "type": "object",
        "if": { "required": ["benchmark"] },
        "then": {
            "$ref": "#/$defs/file",
            // A sweep may bring what its base lacks.
            "if": { "not": { "required": ["sweep"] } },
            "then": { "properties": { "benchmark": { "$ref": "#/$defs/complete" } } },
        },
        "else": {
            "$ref": "#/$defs/flat_file",
            "if": { "not": { "required": ["sweep"] } },
            "then": { "$ref": "#/$defs/complete" },
        },
        "$defs": definitions,
    })
}

/// What a body needs to describe a run.
fn complete() -> Value {
    let one_of = |keys: &[&str]| {
        let required: Vec<Value> = keys.iter().map(|key| json!({ "required": [key] })).collect();
        json!({ "anyOf": required })
    };
    json!({
        "required": ["endpoint"],
        "allOf": [one_of(&["model", "models"]), one_of(&["dataset", "datasets"]), one_of(&["phases", "profiling"])],
    })
}

/// A mapping with the keys of one section, or of two.
fn section(parts: &[(&Schema, &[keys::Key])]) -> Value {
    let (mut properties, mut camel) = (Map::new(), Map::new());
    for (schema, keys) in parts {
        let mut add = |key: &str, value: Value| {
            let other = camel_case(key);
            if other != key {
                // A pattern, so that editors offer each key once, in the spelling of the documentation.
                camel.insert(format!("^{other}$"), value.clone());
            }
            properties.insert(key.to_owned(), value);
        };
        for (key, shape, about) in keys.iter() {
            add(key, shape.property(about));
        }
        for refused in schema.refused {
            add(refused.key, shape::harmless(refused.key, refused.harmless));
        }
    }
    let mut section = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !camel.is_empty() {
        section["patternProperties"] = Value::Object(camel);
    }
    section
}

/// The other spelling of a key.
fn camel_case(key: &str) -> String {
    let mut camel = String::with_capacity(key.len());
    let mut is_start = false;
    for c in key.chars() {
        match c {
            '_' => is_start = true,
            c if is_start => {
                camel.push(c.to_ascii_uppercase());
                is_start = false;
            }
            c => camel.push(c),
        }
    }
    camel
}
