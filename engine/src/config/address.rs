//! Places that a sweep changes: dotted paths as people write them, found in the tree and set in a copy of it.

use std::rc::Rc;

use super::diagnostic::quote;
use super::schema::{ENVELOPE, snake_case};
use super::tree::{Entry, Node, Position, Value, entry_of};

/// Bare names of phase fields: each stands for `phases.profiling.NAME`.
const PHASE_FIELDS: [&str; 13] = [
    "concurrency",
    "prefill_concurrency",
    "rate",
    "requests",
    "duration",
    "sessions",
    "users",
    "smoothness",
    "grace_period",
    "concurrency_ramp",
    "prefill_ramp",
    "rate_ramp",
    "rate_series",
];

/// One step from a value to a value inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Into a mapping.
    Key(String),
    /// Into a list, by position.
    Item(usize),
}

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// Below `benchmark`.
    Benchmark(Vec<Step>),
    /// Below `variables`.
    Variables(Vec<Step>),
}

impl Target {
    /// Whether setting both would set one of them twice: they are the same place, or one lies in the other.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Benchmark(a), Self::Benchmark(b)) | (Self::Variables(a), Self::Variables(b)) => {
                let common = a.len().min(b.len());
                a[..common] == b[..common]
            }
            _ => false,
        }
    }
}

/// A path with its short form spelt out: what labels, directories and the order of a sweep go by.
pub(super) fn full_path(path: &str) -> String {
    if PHASE_FIELDS.contains(&snake_case(path).as_str()) {
        format!("phases.profiling.{path}")
    } else {
        path.to_owned()
    }
}

/// Finds a full path below `benchmark` or `variables`. Keys at its end need not exist yet; phases and items of lists must.
///
/// # Errors
/// Why there is no such place, as a message.
pub(super) fn resolve(body: &Node, path: &str) -> Result<Target, String> {
    let parts: Vec<&str> = path.split('.').collect();
    if parts.iter().any(|part| part.is_empty()) {
        return Err(
            "found an empty part in the path; allowed: keys, phase names and indices with dots between them".into(),
        );
    }
    let first = snake_case(parts[0]);
    match first.as_str() {
        "benchmark" => Err("paths start below `benchmark`; remove the prefix `benchmark.`".into()),
        "variables" if parts.len() > 1 => Ok(Target::Variables(
            parts[1..].iter().map(|part| Step::Key((*part).to_owned())).collect(),
        )),
        key if ENVELOPE.known().any(|known| known == key) => Err(format!(
            "{} cannot be swept: only what is under `benchmark` and the single `variables` can",
            quote(path)
        )),
        "artifacts" if parts.get(1) == Some(&"dir") => Err(
            "the artifact directory cannot be swept: each cell has one of its own below it; remove this parameter"
                .into(),
        ),
        "phases" if parts.len() > 1 => {
            let (steps, node) = phase(body, parts[1])?;
            walk(steps, Some(node), &parts[2..]).map(Target::Benchmark)
        }
        // The short form of a list of one.
        "datasets" if parts.len() > 1 && body.get("datasets").is_none() && body.get("dataset").is_some() => {
            let node = body.get("dataset").expect("it was found just now");
            let name = text(node, "name").unwrap_or("default");
            if parts[1] != name && parts[1] != "0" {
                return Err(format!(
                    "found no dataset {}; allowed: {name}, or the index 0",
                    quote(parts[1])
                ));
            }
            walk(vec![Step::Key("dataset".into())], Some(node), &parts[2..]).map(Target::Benchmark)
        }
        _ => {
            let node = body.get(parts[0]);
            walk(vec![Step::Key(parts[0].to_owned())], node, &parts[1..]).map(Target::Benchmark)
        }
    }
}

fn walk(mut steps: Vec<Step>, mut node: Option<&Rc<Node>>, parts: &[&str]) -> Result<Vec<Step>, String> {
    for part in parts {
        let found = match node.map(|node| (node, &node.value)) {
            Some((_, Value::Sequence(items))) => {
                let named = items.iter().position(|item| text(item, "name") == Some(part));
                let index = named.or_else(|| part.parse().ok().filter(|&index: &usize| index < items.len()));
                let Some(index) = index else {
                    let names: Vec<&str> = items.iter().filter_map(|item| text(item, "name")).collect();
                    return Err(format!(
                        "found no item {}; allowed: {}",
                        quote(part),
                        choices(&names, items.len())
                    ));
                };
                steps.push(Step::Item(index));
                Some(&items[index])
            }
            Some((node, Value::Scalar(_))) if !node.is_null() => {
                let last = match steps.last() {
                    Some(Step::Key(key)) => quote(key),
                    _ => "the item before it".into(),
                };
                return Err(format!(
                    "found {} below {last}, which holds a single value here",
                    quote(part)
                ));
            }
            other => {
                steps.push(Step::Key((*part).to_owned()));
                other.and_then(|(node, _)| node.get(part))
            }
        };
        node = found;
    }
    Ok(steps)
}

/// A phase as paths know it, in any of the forms of the file.
pub(super) struct Known<'t> {
    pub(super) name: Option<&'t str>,
    /// Written, or what the name or the form says.
    pub(super) kind: Option<&'t str>,
    pub(super) is_profiling: bool,
    pub(super) steps: Vec<Step>,
    pub(super) node: &'t Rc<Node>,
}

/// All phases in their order.
pub(super) fn phases<'t>(body: &'t Node) -> Vec<Known<'t>> {
    let known = |node: &'t Rc<Node>, steps, prefill: Option<&'static str>| {
        let name = text(node, "name").or(prefill);
        let kind = text(node, "kind").or(prefill).or(name);
        Known {
            name,
            kind,
            is_profiling: kind == Some("profiling"),
            steps,
            node,
        }
    };
    let key = |key: &str| Step::Key(key.to_owned());
    match body.get("phases") {
        Some(list) => match &list.value {
            Value::Sequence(items) => items
                .iter()
                .enumerate()
                .map(|(at, node)| known(node, vec![key("phases"), Step::Item(at)], None))
                .collect(),
            Value::Mapping(_) => vec![known(list, vec![key("phases")], Some("profiling"))],
            Value::Scalar(_) | Value::Faulty => Vec::new(),
        },
        None => ["warmup", "profiling"]
            .into_iter()
            .filter_map(|form| Some(known(body.get(form)?, vec![key(form)], Some(form))))
            .collect(),
    }
}

/// The phase of a name, an index, or `profiling` for the only one of that kind.
fn phase<'t>(body: &'t Node, wanted: &str) -> Result<(Vec<Step>, &'t Rc<Node>), String> {
    let mut phases = phases(body);
    let names: Vec<&str> = phases.iter().filter_map(|phase| phase.name).collect();
    let measured: Vec<usize> = (0..phases.len()).filter(|&at| phases[at].is_profiling).collect();
    let named = phases.iter().position(|phase| phase.name == Some(wanted));
    let found = named.or_else(|| wanted.parse().ok().filter(|&index: &usize| index < phases.len()));
    let found = match (found, wanted) {
        (Some(at), _) => at,
        (None, "profiling") => match measured[..] {
            [only] => only,
            [] => return Err("found no profiling phase that `profiling` could stand for".into()),
            _ => {
                let names: Vec<&str> = measured.iter().filter_map(|&at| phases[at].name).collect();
                return Err(format!(
                    "`profiling` is ambiguous: the profiling phases are {}; name one of them, as in phases.{}.concurrency",
                    names.join(", "),
                    names.first().copied().unwrap_or("NAME")
                ));
            }
        },
        (None, _) => {
            let near = names.iter().find(|name| name.eq_ignore_ascii_case(wanted));
            let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            return Err(format!(
                "found no phase {}; allowed: {}{hint}",
                quote(wanted),
                choices(&names, phases.len())
            ));
        }
    };
    let Known { steps, node, .. } = phases.swap_remove(found);
    Ok((steps, node))
}

fn choices(names: &[&str], count: usize) -> String {
    let indices = match count {
        0 => "nothing, for the list is empty".to_owned(),
        1 => "the index 0".to_owned(),
        count => format!("an index from 0 to {}", count - 1),
    };
    if names.is_empty() {
        indices
    } else {
        format!("{}, or {indices}", names.join(", "))
    }
}

fn text<'t>(node: &'t Node, key: &str) -> Option<&'t str> {
    node.get(key)?.scalar().map(|scalar| scalar.text.as_str())
}

/// A copy of `node` in which `steps` lead to `value`. Mappings that are missing on the way are made, and count as written `at` the place that
/// asked for them. Lists are as [`resolve`] found them.
pub(super) fn set(node: Option<&Rc<Node>>, steps: &[Step], value: &Rc<Node>, at: Position) -> Rc<Node> {
    let Some((step, rest)) = steps.split_first() else {
        return Rc::clone(value);
    };
    match (step, node.map(|node| (node, &node.value))) {
        (Step::Item(index), Some((node, Value::Sequence(items)))) => {
            let mut items = items.clone();
            items[*index] = set(Some(&items[*index]), rest, value, at);
            Node::made(node, Value::Sequence(items))
        }
        (Step::Key(key), Some((node, Value::Mapping(entries)))) => {
            let mut entries = entries.clone();
            match entry_of(&entries, key) {
                Some(index) => entries[index].value = set(Some(&entries[index].value), rest, value, at),
                None => entries.push(entry(key, set(None, rest, value, at), at)),
            }
            Node::made(node, Value::Mapping(entries))
        }
        (Step::Key(key), _) => {
            let entries = vec![entry(key, set(None, rest, value, at), at)];
            Node::made(&Node::placeholder(at), Value::Mapping(entries))
        }
        (Step::Item(_), _) => unreachable!("a step into a list was found in that list"),
    }
}

fn entry(key: &str, value: Rc<Node>, at: Position) -> Entry {
    Entry {
        key: key.to_owned(),
        key_at: at,
        value,
        merged: false,
    }
}
