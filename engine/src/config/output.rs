//! What comes out of a run and how it shows: artifacts, runtime, tokenizer, logging.

use super::decode::{Bounds, Field, Section};
use super::scalar;
use super::schema::{EMPTY, LOGGING, OFF, RUNTIME, Schema, TOKENIZER, refused};
use super::tree::{Position, Value};

pub(super) static ARTIFACTS: Schema = Schema {
    place: "benchmark.artifacts",
    keys: &[
        "dir",
        "prefix",
        "summary",
        "records",
        "raw",
        "export_outputs_json",
        "trace",
        "slice_duration",
        "show_trace_timing",
    ],
    refused: &[
        refused("user_files", EMPTY),
        refused("auto_plot", OFF),
        refused("plot_required", OFF),
    ],
};

/// `benchmark.artifacts`, as written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Artifacts {
    /// Directory, relative to the current one.
    pub dir: Option<String>,
    /// Base name of exports.
    pub prefix: Option<String>,
    /// Whether the summary JSON is written.
    pub summary: Option<bool>,
    /// Whether per-request records are written.
    pub records: Option<bool>,
    /// Seconds of each slice of the run that has figures of its own.
    pub slice_duration_s: Option<f64>,
    /// Where that is written.
    pub slice_at: Option<Position>,
    /// Whether requests and answers are written byte by byte.
    pub raw: Option<bool>,
    /// Whether the texts of answers are written; as `raw` if not.
    pub export_outputs_json: Option<bool>,
    /// Whether records say how their requests went over the wire.
    pub trace: Option<bool>,
    /// Whether the console shows how requests went over the wire.
    pub show_trace_timing: Option<bool>,
}

/// `benchmark.runtime.ui`: how progress shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ui {
    /// No progress.
    None,
    /// A line now and then.
    Simple,
}

impl Ui {
    /// The word of the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Simple => "simple",
        }
    }
}

pub(super) fn artifacts(benchmark: &Section<'_>) -> Artifacts {
    let Some(section) = benchmark.field("artifacts").and_then(|field| field.section(&ARTIFACTS)) else {
        return Artifacts::default();
    };
    let records = section.field("records").and_then(|field| formats(&field, "jsonl"));
    let kept_with_records = |key: &'static str, what: &str| {
        let wanted = section.field(key).and_then(|field| field.boolean());
        if wanted == Some(true) && records == Some(false) {
            section.report(
                key,
                format!("{what} are kept with the records, and `records` is false; remove one of the two"),
            );
        }
        wanted
    };
    let raw = kept_with_records("raw", "requests and answers");
    let export_outputs_json = kept_with_records("export_outputs_json", "texts of answers");
    let trace = kept_with_records("trace", "traces of requests");
    let slice = section.field("slice_duration");
    Artifacts {
        dir: section
            .field("dir")
            .and_then(|field| field.non_empty_text().map(str::to_owned)),
        prefix: section.field("prefix").and_then(|field| prefix(&field)),
        summary: section.field("summary").and_then(|field| formats(&field, "json")),
        records,
        raw,
        export_outputs_json,
        trace,
        show_trace_timing: section.field("show_trace_timing").and_then(|field| field.boolean()),
        slice_duration_s: slice.as_ref().and_then(|field| field.duration(Bounds::POSITIVE)),
        slice_at: slice.map(|field| field.node.start),
    }
}

/// Files that have one name whatever the prefix is, beside the exports or in the directory of a phase or cell: an export of that name would
/// replace them, or they it.
const TAKEN: [&str; 8] = [
    "inputs",
    "phase_manifest",
    "run_config",
    "server_metrics",
    "gpu_telemetry",
    "adaptive_scale_events",
    "adaptive_scale_summary",
    "adaptive_scale_manifest",
];

/// A base name that stays in the artifact directory.
fn prefix(field: &Field<'_>) -> Option<String> {
    let prefix = field.non_empty_text()?;
    let is_name = prefix.len() <= 100 && !prefix.starts_with('.') && !prefix.contains(['/', '\\']);
    if !is_name {
        field.mistake("a file name of at most 100 bytes without `/` and `\\` that does not start with `.`");
        return None;
    }
    if TAKEN.contains(&bare(prefix)) {
        field.mistake(&format!(
            "a name that no other file of the artifacts has, so none of {}",
            TAKEN.join(", ")
        ));
        return None;
    }
    Some(prefix.to_owned())
}

/// A prefix without what users leave on it and the exports take off again.
fn bare(prefix: &str) -> &str {
    let stem = [".jsonl", ".json", ".csv"]
        .iter()
        .find_map(|ending| prefix.strip_suffix(ending));
    let kinds = ["_server_metrics", "_gpu_telemetry", "_timeslices", "_outputs", "_raw"];
    match stem {
        Some(stem) => kinds.iter().find_map(|kind| stem.strip_suffix(kind)).unwrap_or(stem),
        None => prefix,
    }
}

/// `[json]`, `true` or `false`. An empty list is refused: it reads like "nothing" to some and like "the default" to others.
fn formats(field: &Field<'_>, only: &'static str) -> Option<bool> {
    let allowed = format!("[{only}] or false");
    if let Some(scalar) = field.node.scalar() {
        let value = scalar::boolean(&scalar.text);
        if value.is_none() {
            field.mistake(&allowed);
        }
        return value;
    }
    let items = field.items(&allowed)?;
    let count = items.len();
    if count == 0 {
        field.mistake(&allowed);
        return None;
    }
    let good = items.filter_map(|item| item.word(&[(only, ())], &[])).count();
    (good == count).then_some(true)
}

pub(super) fn ui(benchmark: &Section<'_>) -> Option<Ui> {
    let section = benchmark.field("runtime")?.section(&RUNTIME)?;
    section
        .field("ui")?
        .word(&[("none", Ui::None), ("simple", Ui::Simple)], &["dashboard"])
}

/// The tokenizer by name. Synthetic prompts have their length by construction, so the built-in one is all that makes sense.
pub(super) fn tokenizer(benchmark: &Section<'_>) -> Option<String> {
    let field = benchmark.field("tokenizer")?;
    let name = match &field.node.value {
        Value::Mapping(_) => field.section(&TOKENIZER)?.field("name")?,
        _ => field,
    };
    let text = name.non_empty_text()?;
    if text != "builtin" {
        name.refuse(
            &format!("the tokenizer {}", name.found()),
            "write builtin or remove the key",
        );
        return None;
    }
    Some(text.to_owned())
}

/// `logging.level`: only the default, because nothing logs more or less yet.
pub(super) fn logging(benchmark: &Section<'_>) {
    let Some(section) = benchmark.field("logging").and_then(|field| field.section(&LOGGING)) else {
        return;
    };
    if let Some(level) = section.field("level") {
        level.word(
            &[("info", ())],
            &["trace", "debug", "notice", "warning", "success", "error", "critical"],
        );
    }
}
