//! The document that a command line makes without a file: what must be there, by default.

use std::rc::Rc;

use super::super::endpoint_type::EndpointType;
use super::super::scalar::number;
use super::super::tree::{Entry, Node, Position, Style, Value};
use super::given::{Flags, collection, scalar};
use super::overlay::{edit, keys};

/// What messages call it.
pub(in super::super) const COMMAND_LINE: &str = "command line";

const URL: &str = "http://localhost:8000";
const ENTRIES: i128 = 100;
/// As many prompts as requests, so that none is sent twice, would be more than the memory for a long run.
const ENTRIES_MAX: i128 = 10_000;
const ISL: &str = "550";

/// A document with the defaults of the command line, for flags to write over: one server, synthetic prompts, one profiling phase.
pub(in super::super) fn document(flags: &Flags) -> Rc<Node> {
    let dataset = if flags.has("input-file") {
        mapping(&[("name", text("main")), ("type", text("file"))])
    } else {
        mapping(&[
            ("name", text("main")),
            ("type", text("synthetic")),
            ("entries", text(&entries(flags).to_string())),
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

/// Different prompts where no flag says how many: a prompt that is sent again would be answered from the server's prefix cache. A count that cannot
/// be read is refused by its field.
fn entries(flags: &Flags) -> i128 {
    let asked = flags.get("num-conversations").or_else(|| flags.get("request-count"));
    let counts = asked.into_iter().flat_map(|given| given.word().split(','));
    let largest = counts.filter_map(|word| number(word.trim()).ok()?.integer).max();
    largest.unwrap_or(ENTRIES).clamp(ENTRIES, ENTRIES_MAX)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_prompts_as_requests_or_conversations_within_bounds() {
        for (line, wanted) in [
            ("", 100),
            ("--request-count 10", 100),
            ("--request-count 1e3", 1000),
            ("--num-requests 200,700,300", 700),
            ("--request-count 5000 --num-sessions 300", 300),
            ("--num-conversations 1000000000", 10_000),
            ("--request-count many", 100),
            ("--request-count -5", 100),
            ("--request-count ,", 100),
        ] {
            let mut flags = Flags::default();
            let words: Vec<&str> = line.split_whitespace().collect();
            for pair in words.chunks(2) {
                flags.add(pair[0], vec![pair[1].to_owned()]).expect("a known flag");
            }
            assert_eq!(entries(&flags), wanted, "{line}");
        }
    }
}
