//! Names and kinds of phases: what a name may be, and the rules that bind all phases of a workflow together.

use std::borrow::Cow;
use std::collections::HashMap;

use super::decode::{Field, Section};
use super::diagnostic::{Sink, quote};
use super::phases::PhaseKind;
use super::schema::nearest;
use super::tree::Position;

/// Longest name, in characters: names become directories.
const MAX_NAME: usize = 100;

/// Names that Windows reserves for devices, so that artifact directories can be copied there.
const WINDOWS_DEVICES: [&str; 4] = ["CON", "PRN", "AUX", "NUL"];

/// What is known about name and kind of one phase, mistakes included.
pub(super) struct Identity<'t> {
    /// Where the name is written, and the name.
    pub(super) name: Option<(Position, Cow<'t, str>)>,
    /// Path of the name for messages.
    path: String,
    /// Whether the name stands inside its phase. A name that a sweep gives does not.
    is_own: bool,
    /// The kind, written or inferred.
    pub(super) kind: Option<PhaseKind>,
}

/// Reads `name` and `kind` of a phase. `prefill` is what a short form says when they are not written.
pub(super) fn identity<'t>(
    phase: &Field<'t>,
    section: &Section<'t>,
    prefill: Option<(&'static str, PhaseKind)>,
) -> Identity<'t> {
    let field = match prefill {
        Some(_) => section.field("name"),
        None => section.required("name", "give the phase a unique name"),
    };
    let mut path = String::new();
    let name = match &field {
        Some(field) => {
            path.clone_from(&field.path);
            field.text().filter(|name| match name_fault(name) {
                None => true,
                Some(fault) => {
                    field.report(format!("found {}; {fault}", field.found()));
                    false
                }
            })
        }
        None => None,
    };
    let name = match (field, prefill) {
        // A name that came with a merge key is right where it stands: the phase that took it needs its own.
        (Some(_), _) if section.is_merged("name") => name.map(|name| (section.start, Cow::Borrowed(name))),
        (Some(field), _) => name.map(|name| (field.node.start, Cow::Borrowed(name))),
        (None, Some((name, _))) => Some((section.start, Cow::Borrowed(name))),
        (None, None) => None,
    };
    let words = [("warmup", PhaseKind::Warmup), ("profiling", PhaseKind::Profiling)];
    let kind = match (section.field("kind"), prefill) {
        (Some(field), _) => field.exact_word(&words, &[]),
        (None, Some((_, kind))) => Some(kind),
        (None, None) => name.as_ref().and_then(|(_, name)| inferred_kind(section, name)),
    };
    if let (Some((_, name)), Some(kind)) = (&name, kind) {
        let owner = words.iter().find(|(word, _)| name.eq_ignore_ascii_case(word));
        if let Some((word, owner)) = owner
            && *owner != kind
        {
            let key = if section.has("kind") { "kind" } else { "name" };
            let message = format!(
                "the name {} is reserved for kind: {word}; choose another name or kind",
                quote(name)
            );
            section.report(key, message);
        }
    }
    let is_within = |at: &Position| (phase.node.start..=phase.node.end).contains(at);
    Identity {
        is_own: name.as_ref().is_some_and(|(at, _)| is_within(at)),
        name,
        path,
        kind,
    }
}

/// The kind of a canonical name; custom names must say it.
fn inferred_kind(section: &Section<'_>, name: &str) -> Option<PhaseKind> {
    match name {
        "warmup" => Some(PhaseKind::Warmup),
        "profiling" => Some(PhaseKind::Profiling),
        _ => {
            let hint = match nearest(name, ["warmup", "profiling"]) {
                Some(near) => format!(" (only the name `{near}` implies one)"),
                None => String::new(),
            };
            let message = format!(
                "this key is required for the name {}{hint}; write kind: warmup or kind: profiling",
                quote(name)
            );
            section.report("kind", message);
            None
        }
    }
}

/// Why a text cannot be the name of a phase.
fn name_fault(name: &str) -> Option<String> {
    let mut bytes = name.bytes();
    let starts_well = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    if !starts_well || !bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') {
        return Some("allowed: a letter or `_`, then letters, digits, `_` and `-`".to_owned());
    }
    if name.len() > MAX_NAME {
        return Some(format!("allowed: at most {MAX_NAME} characters, not {}", name.len()));
    }
    let upper = name.to_ascii_uppercase();
    let is_numbered_device = upper.len() == 4
        && (upper.starts_with("COM") || upper.starts_with("LPT"))
        && matches!(upper.as_bytes()[3], b'1'..=b'9');
    if is_numbered_device || WINDOWS_DEVICES.contains(&upper.as_str()) {
        return Some("names of Windows devices cannot be directories everywhere; choose another".to_owned());
    }
    None
}

/// Rules over all phases: names unique ignoring case, and something to measure.
pub(super) fn check_workflow(identities: &[Option<Identity<'_>>], list: Position, sink: &Sink) {
    let mut seen: HashMap<String, &Identity<'_>> = HashMap::new();
    for identity in identities.iter().flatten() {
        let Some((_, name)) = &identity.name else { continue };
        let Some(first) = seen.get(&name.to_ascii_lowercase()) else {
            seen.insert(name.to_ascii_lowercase(), identity);
            continue;
        };
        // The later one is wrong, unless only the earlier one was renamed from elsewhere.
        let (wrong, other) = if identity.is_own && !first.is_own {
            (*first, identity)
        } else {
            (identity, *first)
        };
        if let (Some((at, name)), Some((taken, _))) = (&wrong.name, &other.name) {
            let message = format!(
                "found {}; a phase of this name is on {} already, and names must differ in more than case",
                quote(name),
                taken.told()
            );
            sink.report(*at, &wrong.path, message);
        }
    }
    // A phase whose kind could not be read may be the one that measures.
    let all_warmup = identities.iter().all(|identity| {
        identity
            .as_ref()
            .is_some_and(|identity| identity.kind == Some(PhaseKind::Warmup))
    });
    if all_warmup {
        sink.report(
            list,
            "benchmark.phases",
            "found warmup phases only; at least one phase must have kind: profiling",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_identifiers_that_any_file_system_takes() {
        for good in ["a", "_Phase-2_b", "COM0", "com10", "console", &"x".repeat(100)] {
            assert_eq!(name_fault(good), None, "{good}");
        }
        for bad in [
            "",
            "1st",
            "-a",
            "a b",
            "a.b",
            "../x",
            "phas\u{e9}",
            "abc\n",
            "con",
            "Lpt9",
            "NUL",
            &"x".repeat(101),
        ] {
            assert!(name_fault(bad).is_some(), "{bad}");
        }
    }
}
