//! The document that a command line makes without a file: what must be there, by default.

use std::rc::Rc;

use super::super::endpoint_type::EndpointType;
use super::super::tree::{Entry, Node, Position, Style, Value};
use super::given::{Flags, collection, scalar};
use super::overlay::{edit, keys};

/// What messages call it.
pub(in super::super) const COMMAND_LINE: &str = "command line";

const URL: &str = "http://localhost:8000";
const ENTRIES: &str = "100";
const ISL: &str = "550";

/// A document with the defaults of the command line, for flags to write over: one server, synthetic prompts, one profiling phase.
pub(in super::super) fn document(flags: &Flags) -> Rc<Node> {
    let dataset = if flags.has("input-file") {
        mapping(&[("name", text("main")), ("type", text("file"))])
    } else {
        mapping(&[
            ("name", text("main")),
            ("type", text("synthetic")),
            ("entries", text(ENTRIES)),
        ])
    };
    // Queries have a length of their own.
    let ranks = flags.get("endpoint-type").is_some_and(|given| {
        let is_named = |kind: &EndpointType| kind.as_str().eq_ignore_ascii_case(given.word());
        EndpointType::ALL
            .into_iter()
            .find(is_named)
            .is_some_and(|kind| kind.ranks() || (kind == EndpointType::Template && has_rankings(flags)))
    });
    // Pairs bring both lengths.
    let dataset = if ranks || flags.has("input-file") || flags.has("seq-dist") {
        dataset
    } else {
        edit(Some(&dataset), &keys("isl.mean"), Position::NOWHERE, Some(&text(ISL)))
    };
    let phase = mapping(&[("name", text("profiling")), ("type", text("concurrency"))]);
    let benchmark = mapping(&[
        ("endpoint", mapping(&[("url", text(URL))])),
        ("dataset", dataset),
        ("phases", collection(Value::Sequence(vec![phase]), Position::NOWHERE)),
    ]);
    mapping(&[("benchmark", benchmark)])
}

/// Whether prompts are queries with passages, for a type that may have either.
fn has_rankings(flags: &Flags) -> bool {
    flags.iter().any(|given| given.flag.name.starts_with("rankings-"))
}

fn text(text: &str) -> Rc<Node> {
    scalar(text, Style::Substituted, Position::NOWHERE)
}

/// A mapping that nobody wrote.
pub(super) fn mapping(entries: &[(&str, Rc<Node>)]) -> Rc<Node> {
    mapping_at(entries, Position::NOWHERE)
}

/// A mapping that a flag wrote.
pub(super) fn mapping_at(entries: &[(&str, Rc<Node>)], at: Position) -> Rc<Node> {
    let entry = |(key, value): &(&str, Rc<Node>)| Entry {
        key: (*key).to_owned(),
        key_at: value.start,
        value: Rc::clone(value),
        merged: false,
    };
    collection(Value::Mapping(entries.iter().map(entry).collect()), at)
}
