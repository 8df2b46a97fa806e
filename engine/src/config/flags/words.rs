//! Messages about flags in the words of flags: rules speak of keys, and whoever typed a flag has seen none.

use super::super::tree::Position;
use super::table::{self, Flag, Writes};

/// Advice of the readers about files, and what it means on a command line.
const PHRASES: &[(&str, &str)] = &[
    ("remove the key", "remove the flag"),
    ("remove this key", "remove the flag"),
    ("; remove it, or set type: synthetic", "; remove the flag"),
    (
        "; remove it, or set type: file",
        "; remove the flag, or bring prompts in a file, as with --input-file",
    ),
    ("`prefix_prompts` has no meaning", "has no meaning"),
    ("`synthesis` has no meaning", "has no meaning"),
    (
        "write it, as in template: {body: '{\"prompt\": {{ text|tojson }}}'}",
        "write it, as in --extra-inputs 'payload_template:{\"prompt\": {{ text|tojson }}}'",
    ),
    (
        "`isl` is missing; add it, as in isl:",
        "--isl is missing; add it, as in --isl",
    ),
    (
        "`osl` is missing; add it, as in osl:",
        "--osl is missing; add it, as in --osl",
    ),
    (
        "with random_corpus_style: sglang it",
        "with --random-corpus-style sglang it",
    ),
    ("set `rankings.passages`", "set --rankings-passages-mean"),
    ("; lower entries or isl", "; lower --num-dataset-entries or --isl"),
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
    text = without_keys_of_flags(&text);
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

/// A message without the keys behind which it names the flag that set them, as in "`isl` (--isl)".
fn without_keys_of_flags(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    let mut rest = message;
    while let Some((before, after)) = rest.split_once("` (--") {
        let key = before.rfind('`');
        match (key, after.split_once(')')) {
            (Some(key), Some((flag, behind))) if !flag.contains(' ') => {
                text.push_str(&before[..key]);
                text.push_str("--");
                text.push_str(flag);
                rest = behind;
            }
            _ => {
                text.push_str(before);
                text.push_str("` (--");
                rest = after;
            }
        }
    }
    text.push_str(rest);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_told_beside_the_flag_that_set_it() {
        for (message, told) in [
            ("so does `isl` (--isl); keep one", "so does --isl; keep one"),
            ("`a.b` (--ab) and `c` (--c) both", "--ab and --c both"),
            ("so does `isl` (line 7); keep one", "so does `isl` (line 7); keep one"),
            ("`x` and `isl` (--isl is", "`x` and `isl` (--isl is"),
            ("` (--isl)", "` (--isl)"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(without_keys_of_flags(message), told);
        }
    }
}
