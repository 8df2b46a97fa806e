//! `sweep`: which variations of the config run, as drafts that are still to be applied to it.

use std::rc::Rc;

use serde_json::Value as Json;

use super::address::{self, Step, Target};
use super::decode::Field;
use super::diagnostic::quote;
use super::merge::merge;
use super::multi_run::{FailurePolicy, cooldown, failure_policy};
use super::schema::{SCENARIO, SWEEP};
use super::secret::{REDACTED, is_secret_path, masked, redact_url};
use super::tree::{Node, Position, Value};

/// Most variations of one sweep: each is checked before any load.
const MAX_VARIATIONS: usize = 10_000;
/// Most parameters of a sweep.
const MAX_PARAMETERS: usize = 100;
/// Most bytes of all variations together: each has a copy of the config.
const MAX_WEIGHT: usize = 512 << 20;

/// What a sweep says beside its variations.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// Seconds between one variation and the next.
    pub cooldown_s: f64,
    /// What changes from one cell to the next: the variation, or first the trial.
    pub order: IterationOrder,
    /// Whether all variations have the same seed, instead of one of their own.
    pub same_seed: bool,
}

/// The order of the cells of a sweep with several trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IterationOrder {
    /// All variations once, then all of them again.
    #[default]
    Repeated,
    /// All trials of a variation, then those of the next.
    Independent,
}

/// A variation before it is applied.
#[derive(Clone)]
pub(super) struct Draft {
    /// Where the file asks for it.
    pub(super) at: Position,
    /// `path=value, path=value`, or the name of a scenario.
    pub(super) label: String,
    /// The name of its directory.
    pub(super) directory: String,
    /// What is reported as its parameters.
    pub(super) values: Vec<(String, Json)>,
    /// What a scenario lays over `benchmark` and over `variables`.
    over: (Option<Rc<Node>>, Option<Rc<Node>>),
    changes: Vec<Change>,
}

/// One swept path and one of its values.
#[derive(Clone)]
struct Change {
    path: Rc<str>,
    /// Where the path is written.
    at: Position,
    target: Target,
    value: Rc<Node>,
    /// Position of the value in its list.
    index: usize,
}

impl Draft {
    /// The one variation of a file without a sweep.
    pub(super) fn base(at: Position) -> Self {
        Self {
            at,
            label: "base".into(),
            directory: String::new(),
            values: Vec::new(),
            over: (None, None),
            changes: Vec::new(),
        }
    }

    /// `benchmark` and `variables` of this variation.
    pub(super) fn apply(&self, body: &Rc<Node>, variables: Option<&Rc<Node>>) -> (Rc<Node>, Option<Rc<Node>>) {
        let mut body = match &self.over.0 {
            Some(over) => merge(body, over),
            None => Rc::clone(body),
        };
        let mut variables = match (variables, &self.over.1) {
            (Some(base), Some(over)) => Some(merge(base, over)),
            (base, over) => over.as_ref().or(base).cloned(),
        };
        for change in &self.changes {
            match &change.target {
                Target::Benchmark(steps) => body = address::set(Some(&body), steps, &change.value, change.at),
                Target::Variables(steps) => {
                    variables = Some(address::set(variables.as_ref(), steps, &change.value, change.at));
                }
            }
        }
        (body, variables)
    }
}

impl Draft {
    /// The swept path that decides the value at `steps` of the body, and where it is written.
    pub(super) fn path_to(&self, steps: &[Step]) -> Option<(&str, Position)> {
        let target = Target::Benchmark(steps.to_vec());
        let change = self.changes.iter().find(|change| change.target.overlaps(&target))?;
        Some((&change.path, change.at))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Grid,
    Zip,
    Scenarios,
}

const KINDS: [(&str, Kind); 3] = [("grid", Kind::Grid), ("zip", Kind::Zip), ("scenarios", Kind::Scenarios)];
const REFUSED_KINDS: [&str; 3] = ["sobol", "latin_hypercube", "adaptive_search"];

/// Reads the section against the config that it varies. `None` after a report.
pub(super) fn decode(field: &Field<'_>, body: &Rc<Node>) -> Option<(Sweep, Option<FailurePolicy>, Vec<Draft>)> {
    // The kind decides which keys there are, so nothing is said about the keys of a kind that is refused.
    let kind = match field.node.get("type") {
        Some(node) => {
            let kind = Field {
                node,
                path: format!("{}.type", field.path),
                sink: field.sink,
            };
            kind.exact_word(&KINDS, &REFUSED_KINDS)?
        }
        None => {
            field.section(&SWEEP)?.required("type", "allowed: grid, zip, scenarios");
            return None;
        }
    };
    let section = field.section(&SWEEP)?;
    let sweep = Sweep {
        cooldown_s: cooldown(&section),
        order: section
            .field("iteration_order")
            .and_then(|field| {
                let words = [
                    ("repeated", IterationOrder::Repeated),
                    ("independent", IterationOrder::Independent),
                ];
                field.word(&words, &[])
            })
            .unwrap_or_default(),
        same_seed: section
            .field("same_seed")
            .and_then(|field| field.boolean())
            .unwrap_or(false),
    };
    let policy = section.field("failure_policy").and_then(|field| failure_policy(&field));
    let (wanted, other) = match kind {
        Kind::Grid | Kind::Zip => ("parameters", "runs"),
        Kind::Scenarios => ("runs", "parameters"),
    };
    if section.has(other) {
        section.report(
            other,
            format!("`{other}` belongs to another type of sweep; remove it, or change `type`"),
        );
    }
    let drafts = match kind {
        Kind::Scenarios => scenarios(
            &section.required(wanted, "list the scenarios, as in runs: [{name: a}]")?,
            body,
        )?,
        Kind::Grid | Kind::Zip => {
            let advice = "name what varies, as in parameters: {phases.profiling.concurrency: [1, 2, 4]}";
            let parameters = section.required(wanted, advice)?;
            let lists = lists(&parameters, body)?;
            let count = match kind {
                Kind::Grid => lists
                    .iter()
                    .fold(1, |count: usize, list| count.saturating_mul(list.len())),
                _ => lists.first().map_or(0, Vec::len),
            };
            let heaviest = |list: &Vec<Change>| list.iter().map(|change| change.value.weight()).max();
            check_weight(&parameters, count, body, lists.iter().filter_map(heaviest).sum())?;
            let drafts = if kind == Kind::Grid {
                grid(&parameters, &lists)
            } else {
                zip(&parameters, &lists)
            }?;
            named(drafts)
        }
    };
    Some((sweep, policy, drafts))
}

/// Reports more variations than fit into memory. `varied` is what one of them adds to the config.
fn check_weight(field: &Field<'_>, count: usize, body: &Node, varied: usize) -> Option<()> {
    let each = body.weight().saturating_add(varied);
    // Too many of them is reported as such.
    if count <= MAX_VARIATIONS && count.saturating_mul(each) > MAX_WEIGHT {
        field.report(format!(
            "found {count} variations of a config of {} KiB; allowed: at most {} MiB for all of them; put long lists into files, or split the sweep",
            each >> 10,
            MAX_WEIGHT >> 20
        ));
        return None;
    }
    Some(())
}

/// The lists of values in the order of their full paths.
fn lists(parameters: &Field<'_>, body: &Node) -> Option<Vec<Vec<Change>>> {
    if let Value::Mapping(entries) = &parameters.node.value
        && entries.len() > MAX_PARAMETERS
    {
        parameters.report(format!(
            "found {} parameters; allowed: at most {MAX_PARAMETERS}",
            entries.len()
        ));
        return None;
    }
    let mut good = true;
    let mut lists: Vec<Vec<Change>> = Vec::new();
    for (key, at, field) in parameters.free_entries("a mapping from paths to lists of values")? {
        let path = address::full_path(key);
        let target = match address::resolve(body, &path) {
            Ok(target) => target,
            Err(message) => {
                field.sink.report(at, &field.path, message);
                good = false;
                continue;
            }
        };
        let Value::Sequence(items) = &field.node.value else {
            field.mistake("a list of values, as in [1, 2, 4]");
            good = false;
            continue;
        };
        if items.is_empty() {
            field.mistake("at least one value");
            good = false;
            continue;
        }
        for (index, item) in items.iter().enumerate() {
            if let Some(scalar) = item.scalar()
                && matches!(
                    scalar.text.to_ascii_lowercase().trim_start_matches(['-', '+']),
                    ".nan" | "nan" | ".inf"
                )
            {
                let message = format!("found {}; allowed: values that are finite", quote(&scalar.text));
                field
                    .sink
                    .report(item.start, &format!("{}[{index}]", field.path), message);
                good = false;
            }
        }
        if let Some(first) = lists.iter().find(|list| list[0].target.overlaps(&target)) {
            let message = format!(
                "sets the same field as {} ({}); keep one",
                quote(&first[0].path),
                first[0].at.told()
            );
            field.sink.report(at, &field.path, message);
            good = false;
            continue;
        }
        let path: Rc<str> = path.into();
        let change = |(index, value): (usize, &Rc<Node>)| Change {
            path: Rc::clone(&path),
            at,
            target: target.clone(),
            value: Rc::clone(value),
            index,
        };
        lists.push(items.iter().enumerate().map(change).collect());
    }
    if good && lists.is_empty() {
        parameters.mistake("at least one path");
        return None;
    }
    lists.sort_by(|a, b| a[0].path.cmp(&b[0].path));
    good.then_some(lists)
}

/// Every combination; the last path varies fastest.
fn grid(parameters: &Field<'_>, lists: &[Vec<Change>]) -> Option<Vec<Vec<Change>>> {
    let count = lists
        .iter()
        .try_fold(1usize, |count, list| count.checked_mul(list.len()));
    if count.is_none_or(|count| count > MAX_VARIATIONS) {
        let count = count.map_or_else(
            || "more variations than can be counted".into(),
            |count| format!("{count} variations"),
        );
        parameters.report(format!("found {count}; allowed: at most {MAX_VARIATIONS}"));
        return None;
    }
    let mut rows: Vec<Vec<Change>> = vec![Vec::new()];
    for list in lists {
        rows = rows
            .into_iter()
            .flat_map(|row| {
                list.iter()
                    .map(move |change| row.iter().chain([change]).cloned().collect())
            })
            .collect();
    }
    Some(rows)
}

/// The first values together, then the second ones.
fn zip(parameters: &Field<'_>, lists: &[Vec<Change>]) -> Option<Vec<Vec<Change>>> {
    let lengths: Vec<usize> = lists.iter().map(Vec::len).collect();
    if lengths.iter().any(|&length| length != lengths[0]) {
        let told: Vec<String> = lists
            .iter()
            .map(|list| format!("{} has {}", quote(&list[0].path), list.len()))
            .collect();
        let message = format!(
            "found lists of different lengths: {}; allowed: lists of one length",
            told.join(", ")
        );
        parameters.report(message);
        return None;
    }
    if lengths[0] > MAX_VARIATIONS {
        parameters.report(format!(
            "found {} variations; allowed: at most {MAX_VARIATIONS}",
            lengths[0]
        ));
        return None;
    }
    let row = |at: usize| lists.iter().map(|list| list[at].clone()).collect();
    Some((0..lengths[0]).map(row).collect())
}

/// A value as labels and artifacts show it.
fn shown(change: &Change) -> Json {
    let is_headers = change.path.ends_with(".headers");
    if is_headers || is_secret_path(&change.path) {
        return Json::String(REDACTED.into());
    }
    match change.value.to_json() {
        Json::String(text) => Json::String(redact_url(&text)),
        value => masked(value),
    }
}

/// A value as text, as a reader knows it from the names of directories.
fn text_of(value: &Json) -> String {
    match value {
        Json::Bool(true) => "True".into(),
        Json::Bool(false) => "False".into(),
        Json::Null => "None".into(),
        Json::String(text) => text.clone(),
        // Debug formatting keeps the fraction of whole numbers, as in 20.0.
        Json::Number(number) if number.is_f64() => format!("{:?}", number.as_f64().unwrap_or(0.0)),
        other => other.to_string(),
    }
}

/// A text without what file systems refuse.
fn file_name(text: &str) -> String {
    let kept: String = text
        .chars()
        .filter(|c| !"<>:\"|?*/\\".contains(*c) && !c.is_control())
        .collect();
    kept.replace("..", "")
}

/// Gives labels and directories to rows of a grid or zip.
fn named(rows: Vec<Vec<Change>>) -> Vec<Draft> {
    let directories = directories(&rows);
    let label = |row: &[Change]| {
        let parts: Vec<String> = row
            .iter()
            .map(|change| format!("{}={}", change.path, text_of(&shown(change))))
            .collect();
        parts.join(", ")
    };
    rows.into_iter()
        .zip(directories)
        .map(|(row, directory)| Draft {
            at: row.last().map_or(Position::START, |change| change.value.start),
            label: label(&row),
            directory,
            values: row
                .iter()
                .map(|change| (change.path.to_string(), shown(change)))
                .collect(),
            over: (None, None),
            changes: row,
        })
        .collect()
}

/// Longest directory name, in bytes; what is cut is told apart by a number.
const MAX_DIRECTORY: usize = 150;

/// `LEAF_VALUE__LEAF_VALUE` with as many last parts of each path as it takes for all names to differ, and numbers where no path helps.
fn directories(rows: &[Vec<Change>]) -> Vec<String> {
    let deepest = rows.iter().flatten().map(|change| change.path.split('.').count()).max();
    let names = |depth: usize| -> Vec<String> {
        let name = |change: &Change| {
            let parts: Vec<&str> = change.path.split('.').collect();
            let leaf = parts[parts.len().saturating_sub(depth)..].join(".");
            let value = shown(change);
            let is_text = !is_secret_path(&change.path) && !value.is_array() && !value.is_object();
            // What has no short text is told apart by its place in the list.
            let value = if is_text {
                text_of(&value)
            } else {
                (change.index + 1).to_string()
            };
            file_name(&format!("{leaf}_{value}"))
        };
        rows.iter()
            .map(|row| {
                let mut name = row.iter().map(name).collect::<Vec<_>>().join("__");
                let cut = (0..=name.len().min(MAX_DIRECTORY))
                    .rev()
                    .find(|&at| name.is_char_boundary(at));
                name.truncate(cut.unwrap_or(0));
                name
            })
            .collect()
    };
    let is_unique = |names: &[String]| {
        let mut seen: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
        seen.sort_unstable();
        seen.windows(2).all(|pair| pair[0] != pair[1])
    };
    for depth in 1..=deepest.unwrap_or(1) {
        let names = names(depth);
        if is_unique(&names) {
            return names;
        }
    }
    let mut names = names(1);
    for (at, name) in names.iter_mut().enumerate() {
        name.push_str(&format!("__{}", at + 1));
    }
    names
}

/// The scenarios of `runs`.
fn scenarios(runs: &Field<'_>, body: &Rc<Node>) -> Option<Vec<Draft>> {
    let items = runs.items("a list of scenarios")?;
    if items.len() == 0 || items.len() > MAX_VARIATIONS {
        runs.mistake(&format!("from 1 to {MAX_VARIATIONS} scenarios"));
        return None;
    }
    check_weight(runs, items.len(), body, runs.node.weight() / items.len())?;
    let mut drafts: Vec<Draft> = Vec::new();
    let mut good = true;
    for (index, item) in items.enumerate() {
        let Some(draft) = scenario(&item, index, body) else {
            good = false;
            continue;
        };
        let twin = drafts
            .iter()
            .find(|other| other.directory.eq_ignore_ascii_case(&draft.directory));
        if let Some(twin) = twin {
            let named = item.node.get("name").map(|node| Field {
                node,
                path: format!("{}.name", item.path),
                sink: item.sink,
            });
            named.as_ref().unwrap_or(&item).report(format!(
                "found the name {} a second time; the scenario on {} has it, and names must differ in more than case",
                quote(&draft.label),
                twin.at.told()
            ));
            good = false;
        }
        drafts.push(draft);
    }
    good.then_some(drafts)
}

fn scenario(item: &Field<'_>, index: usize, body: &Rc<Node>) -> Option<Draft> {
    let section = item.section(&SCENARIO)?;
    if section.has_unknown_keys {
        return None;
    }
    let name = match section.field("name") {
        Some(field) => scenario_name(&field)?,
        None => format!("scenario_{index}"),
    };
    let changed = section
        .node("benchmark")
        .map_or_else(|| Rc::clone(body), |over| merge(body, over));
    if let Some(field) = section.field("variables") {
        let _is_a_mapping = field.free_entries("a mapping from names to values")?;
    }
    let mut values = vec![("scenario".to_owned(), Json::String(name.clone()))];
    let mut changes = Vec::new();
    if let Some(field) = section.field("values") {
        for (key, at, value) in field.free_entries("a mapping from paths to values")? {
            let path = address::full_path(key);
            let target = match address::resolve(&changed, &path) {
                Ok(target) => target,
                Err(message) => {
                    value.sink.report(at, &value.path, message);
                    return None;
                }
            };
            let change = Change {
                path: path.as_str().into(),
                at,
                target,
                value: Rc::clone(field.node.get(key)?),
                index,
            };
            values.push((path, shown(&change)));
            changes.push(change);
        }
    }
    Some(Draft {
        at: item.node.start,
        label: name.clone(),
        directory: name,
        values,
        over: (section.node("benchmark").cloned(), section.node("variables").cloned()),
        changes,
    })
}

/// A name that is a directory everywhere.
fn scenario_name(field: &Field<'_>) -> Option<String> {
    /// Directories that stand beside those of cells.
    const TAKEN: [&str; 4] = ["aggregate", "sweep_aggregate", "profile_runs", "phases"];
    let name = field.non_empty_text()?;
    if let Some(taken) = TAKEN.iter().find(|taken| name.eq_ignore_ascii_case(taken)) {
        field.report(format!(
            "found {}; the directory `{taken}` is for other files; choose another name",
            quote(name)
        ));
        return None;
    }
    let is_plain =
        name.len() <= 100 && !name.starts_with('.') && file_name(name) == name && !name.ends_with([' ', '.']);
    if !is_plain {
        field.mistake(
            "a directory name of at most 100 bytes without / \\ < > : \" | ? * and `..`, not starting with `.`",
        );
        return None;
    }
    Some(name.to_owned())
}
