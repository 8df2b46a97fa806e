//! The words of a command line as a tree, for whoever looks for credentials in it.

use std::rc::Rc;

use serde_json::Value as Json;

use super::super::tree::{Entry, Node, Position, Value};
use super::given::{Flags, Given, collection};
use super::server::{extra_value, json_node};

/// A mapping from the names of flags to their words; headers and keys of bodies by their own names.
pub(in super::super) fn credentials(flags: &Flags) -> Rc<Node> {
    let entries = flags.iter().flat_map(|given| match given.flag.name {
        "header" => {
            let headers = given.words.iter().filter_map(|word| word.split_once(':'));
            let headers = headers.map(|(name, value)| entry(given, name.trim(), given.text(value.trim())));
            vec![entry(
                given,
                "headers",
                collection(Value::Mapping(headers.collect()), given.at),
            )]
        }
        "extra-inputs" => given.words.iter().filter_map(|word| extra(given, word)).collect(),
        name => {
            let words = given.words.iter().map(|word| given.text(word)).collect();
            vec![entry(given, name, collection(Value::Sequence(words), given.at))]
        }
    });
    collection(Value::Mapping(entries.collect()), Position::NOWHERE)
}

fn extra(given: &Given, word: &str) -> Option<Entry> {
    if let Ok(object @ Json::Object(_)) = serde_json::from_str(word) {
        return Some(entry(given, "extra", json_node(&object, given.at)));
    }
    let (name, value) = word.split_once(':')?;
    Some(entry(given, name, extra_value(given, value)))
}

fn entry(given: &Given, key: &str, value: Rc<Node>) -> Entry {
    Entry {
        key: key.to_owned(),
        key_at: given.at,
        value,
        merged: false,
    }
}
