//! What a tree of artifacts consists of: its files, and the keys of each by kind of line.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;

use crate::cells;
use crate::recorded::folder;

/// The one file that only ringload writes whatever ran.
const OWN_FILE: &str = "resolved_config.yaml";

/// Beginnings of keys and of rows that AIPerf has and ringload has not, as `docs/metrics.md` says under "Not there yet".
pub const LACKING: &[(&[&str], &str)] = &[
    (
        &[
            "effective_decode_throughput",
            "active_decode_throughput",
            "tokens_in_flight",
            "Effective Decode Throughput",
            "Active Decode Throughput",
            "Tokens In Flight",
        ],
        "curves that follow every chunk",
    ),
    (
        &["usage_completion_tokens_diff_pct", "Usage Completion Diff %"],
        "no client-side tokenizer counts the answers",
    ),
    (
        &["error.cause_chain", "error.cause"],
        "an exception of Python has no counterpart",
    ),
];

/// Keys of a file by kind of line, of files by path.
pub type Tree = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Collects the keys of a value as paths. A figure with a unit is one entry: its path, its unit and the names of its statistics. Those of an
/// error-adjusted figure are left out: which percentiles are finite depends on how many requests failed.
fn keys(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            if let Some(unit) = object.get("unit").and_then(Value::as_str) {
                let statistics: BTreeSet<&str> =
                    object.keys().map(String::as_str).filter(|key| *key != "unit").collect();
                let names = statistics.into_iter().collect::<Vec<_>>().join(" ");
                let is_adjusted = path.rsplit('.').next().is_some_and(|name| name.starts_with("adj_"));
                into.insert(match is_adjusted {
                    true => format!("{path} ({unit})"),
                    false => format!("{path} ({unit}): {names}"),
                });
                return;
            }
            for (key, value) in object {
                let dot = if path.is_empty() { "" } else { "." };
                keys(value, &format!("{path}{dot}{key}"), into);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| keys(item, &format!("{path}[]"), into)),
        _ => drop(into.insert(path.to_owned())),
    }
}

/// What kind of line this is of a file of JSON lines. Lines of one kind have the same keys.
fn kind(line: &Value) -> String {
    let metadata = &line["metadata"];
    let Some(phase) = metadata["phase_kind"].as_str() else {
        return "event".to_owned();
    };
    let ending = match (metadata["was_cancelled"].as_bool(), line.get("error")) {
        (Some(true), _) => "cancelled",
        (_, Some(_)) => "failed",
        _ => "succeeded",
    };
    format!("{phase} {ending}")
}

/// Servers of tests are told apart by their ports, which are other ones each time.
fn without_ports(text: &str) -> String {
    let mut parts = text.split("127.0.0.1:");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str("SERVER");
        plain.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    plain
}

/// Names of the columns of a file that has rows.
fn read_columns(path: &Path) -> BTreeSet<String> {
    let file = SerializedFileReader::try_from(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let rows: Result<Vec<_>, _> = file.get_row_iter(None).expect("rows").collect();
    assert!(!rows.expect("every row").is_empty(), "{}", path.display());
    let schema = file.metadata().file_metadata().schema_descr();
    schema.columns().iter().map(|column| column.name().to_owned()).collect()
}

/// The first cells of the rows of a table. In the table of slices these are numbers, so of that it is the figures, spelled as in documents.
fn read_rows(text: &str) -> BTreeSet<String> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes());
    let rows: Vec<_> = reader.records().map(|row| row.expect("a row")).collect();
    if rows.first().is_none_or(|row| &row[0] != "Timeslice") {
        // Remarks say whose file it is.
        let cells = rows.iter().map(|row| row[0].to_owned());
        return cells.filter(|cell| !cell.starts_with('#')).collect();
    }
    let mut figures: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for row in &rows[1..] {
        figures
            .entry(format!("{} ({})", &row[3], &row[4]))
            .or_default()
            .insert(&row[5]);
    }
    figures
        .into_iter()
        .map(|(figure, statistics)| format!("{figure}: {}", statistics.into_iter().collect::<Vec<_>>().join(" ")))
        .collect()
}

fn read_keys(path: &Path) -> BTreeMap<String, BTreeSet<String>> {
    if path.extension().is_some_and(|extension| extension == "parquet") {
        return BTreeMap::from([("columns".to_owned(), read_columns(path))]);
    }
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let text = without_ports(&text);
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => {
            let document: Value = serde_json::from_str(&text).expect("JSON");
            keys(&document, "", found.entry("document".to_owned()).or_default());
        }
        Some("jsonl") => {
            for line in text.lines() {
                let line: Value = serde_json::from_str(line).expect("a line of JSON");
                keys(&line, "", found.entry(kind(&line)).or_default());
            }
        }
        Some("csv") => {
            found.insert("rows".to_owned(), read_rows(&text));
        }
        other => panic!("{}: no such file is expected: {other:?}", path.display()),
    }
    found
}

/// A key without the scope that its metric stands in.
pub fn bare(key: &str) -> &str {
    let scopes = [
        "warmup_metrics.",
        "timeslices[].",
        "per_combination_metrics[].metrics.",
        "metrics.",
    ];
    scopes.iter().find_map(|scope| key.strip_prefix(scope)).unwrap_or(key)
}

/// Whether the key is there. A figure may have more statistics than were recorded.
pub fn is_among(found: &BTreeSet<String>, key: &str) -> bool {
    let words = |statistics: &str| statistics.split(' ').map(str::to_owned).collect::<BTreeSet<_>>();
    let Some((figure, statistics)) = key.split_once("): ") else {
        return found.contains(key);
    };
    found
        .iter()
        .filter_map(|ours| ours.split_once("): "))
        .any(|(name, ours)| name == figure && words(ours).is_superset(&words(statistics)))
}

/// The tree below a directory.
///
/// # Panics
/// If a file in it is not what its name says.
pub fn read(root: &Path) -> Tree {
    let files = cells::tree(root).into_iter();
    files
        .filter(|name| !name.ends_with(OWN_FILE))
        .map(|name| {
            let keys = read_keys(&root.join(&name));
            (name, keys)
        })
        .collect()
}

/// The recorded tree of this name.
///
/// # Panics
/// If none was recorded.
pub fn recorded(name: &str) -> Tree {
    let text = fs::read(folder(name).join("tree.json")).expect("a tree");
    serde_json::from_slice(&text).expect("a tree")
}
