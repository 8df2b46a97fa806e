//! Messages about flags in the words of flags: rules speak of keys, and whoever typed a flag has seen none.

use super::super::tree::Position;
use super::table::{self, Flag, Writes};

/// Advice of the readers about files, and what it means on a command line.
const PHRASES: &[(&str, &str)] = &[
    ("remove the key", "remove the flag"),
    ("remove this key", "remove the flag"),
    ("set endpoint.streaming: true", "add --streaming"),
    ("set `endpoint.streaming`", "use --streaming"),
    ("add auto_offset: false", "add --no-fixed-schedule-auto-offset"),
    ("write type: gamma", "write --arrival-pattern gamma"),
    (
        "end_offset or dataset.entries",
        "--fixed-schedule-end-offset or --num-dataset-entries",
    ),
    (
        "auto_offset, which is on unless it is set to false,",
        "--fixed-schedule-auto-offset, which is on in config files unless it is set to false,",
    ),
    ("put the list under `sweep`", "put commas between the values"),
];

/// A message whose place is a flag, with flags for the keys that it names.
pub(in super::super) fn in_words_of_flags(at: Position, message: &str) -> String {
    let mut text = message.to_owned();
    for (phrase, meaning) in PHRASES {
        text = text.replace(phrase, meaning);
    }
    let Some(home) = at
        .flag()
        .and_then(|typed| table::all().find(|flag| flag.spellings().any(|name| name == typed)))
    else {
        return text;
    };
    // The flag stands before the message already.
    if let Some(key) = last_key(home) {
        let refusal = "not supported by ringload yet";
        text = text.replace(&format!("{refusal}: `{key}`;"), &format!("{refusal};"));
        // Of two that exclude each other both are named.
        if let Some(rest) = text
            .strip_prefix(&format!("`{key}` "))
            .filter(|rest| !rest.starts_with("and "))
        {
            text = rest.to_owned();
        }
    }
    for flag in table::all() {
        if let (Some(key), true) = (last_key(flag), is_beside(home, flag)) {
            let long = flag.long();
            text = text.replace(&format!("`{key}`"), &long);
            text = text.replace(&format!("{long} ({long})"), &long);
        }
    }
    text
}

/// Whether keys of both stand in the same section, so that a message about one may name the other.
fn is_beside(one: &Flag, other: &Flag) -> bool {
    let section = |flag: &Flag| path(flag).map(|path| (std::mem::discriminant(&flag.writes), parent(path)));
    section(one).is_some() && section(one) == section(other)
}

fn parent(path: &'static str) -> &'static str {
    path.rsplit_once('.').map_or("", |(parent, _)| parent)
}

fn last_key(flag: &Flag) -> Option<&'static str> {
    path(flag).map(|path| path.rsplit_once('.').map_or(path, |(_, key)| key))
}

fn path(flag: &Flag) -> Option<&'static str> {
    match flag.writes {
        Writes::Special => None,
        Writes::Envelope(path)
        | Writes::Benchmark(path)
        | Writes::Dataset(path)
        | Writes::Profiling(path)
        | Writes::Warmup(path)
        | Writes::Sweep(path) => Some(path),
    }
}
