//! `profile_export_aiperf_aggregate`: every figure of a variation over its trials, with its spread and confidence interval.

use std::path::PathBuf;

use csv::{Terminator, WriterBuilder};
use serde_json::{Map, Value, json};

use super::Cells;
use super::agreement::Agreement;
use super::sequence::{CellEnd, CellReport};
use super::statistics::Spread;
use crate::artifact::{self, ArtifactError, CONFIDENCE, TOOL_VERSION};
use crate::config::IterationOrder;

/// Statistics that are aggregated, in the order of the file. The number of requests behind a figure is not one of them.
const STATISTICS: [&str; 14] = [
    "avg", "min", "max", "sum", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "std",
];

/// One figure over the runs of a variation.
pub(super) struct Figure {
    /// `TAG_STATISTIC`.
    pub(super) name: String,
    pub(super) unit: Value,
    pub(super) spread: Spread,
}

/// Every figure that any of the runs has.
pub(super) fn figures(runs: &[&CellReport], confidence: f64) -> Vec<Figure> {
    let mut tags: Vec<&String> = Vec::new();
    for tag in runs.iter().flat_map(|run| run.metrics.keys()) {
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    let mut figures = Vec::new();
    for tag in tags {
        let objects: Vec<&Value> = runs.iter().filter_map(|run| run.metrics.get(tag)).collect();
        for statistic in STATISTICS {
            let values: Vec<f64> = objects.iter().filter_map(|object| object[statistic].as_f64()).collect();
            if !values.is_empty() {
                figures.push(Figure {
                    name: format!("{tag}_{statistic}"),
                    unit: objects[0]["unit"].clone(),
                    spread: Spread::of(&values, confidence),
                });
            }
        }
    }
    figures
}

/// Writes the aggregate of every variation of which a run succeeded.
pub(super) fn write(
    cells: &Cells,
    reports: &[CellReport],
    agreement: &Agreement<'_>,
) -> Vec<Result<PathBuf, ArtifactError>> {
    let mut written = Vec::new();
    for (index, variation) in cells.suite.variations.iter().enumerate() {
        let of_variation = |report: &&CellReport| cells.cells()[report.index].variation == index;
        let runs: Vec<&CellReport> = reports.iter().filter(of_variation).collect();
        let good: Vec<&CellReport> = runs
            .iter()
            .copied()
            .filter(|run| run.end == CellEnd::Succeeded)
            .collect();
        if good.is_empty() {
            continue;
        }
        let figures = figures(&good, cells.suite.multi_run.confidence_level);
        let metadata = metadata(cells, index, &runs, &good);
        let directory = cells.layout.aggregate(cells.directory(), &variation.directory);
        let mut document = json!({
            "schema_version": "1.0",
            "aiperf_version": TOOL_VERSION,
            "metadata": metadata,
            "metrics": figures.iter().map(|figure| (figure.name.clone(), entry(figure))).collect::<Map<String, Value>>(),
        });
        if let Some(found) = agreement.to_json(index) {
            document["ringload"] = json!({ "convergence": found });
        }
        written.push(artifact::write_document(
            &directory.join(format!("{CONFIDENCE}.json")),
            &document,
        ));
        let table = table(&figures, &metadata, runs.len(), good.len());
        written.push(artifact::write_text(
            &directory.join(format!("{CONFIDENCE}.csv")),
            &table,
        ));
    }
    written
}

fn entry(figure: &Figure) -> Value {
    let spread = &figure.spread;
    json!({
        "mean": spread.mean,
        "std": spread.std,
        "min": spread.min,
        "max": spread.max,
        "cv": spread.cv(),
        "se": spread.se,
        "ci_low": spread.ci.0,
        "ci_high": spread.ci.1,
        "t_critical": spread.t_critical,
        "unit": figure.unit,
    })
}

/// The runs of a list that did not succeed, with the reason.
pub(super) fn failed_runs<'a>(
    cells: &Cells,
    runs: impl IntoIterator<Item = &'a CellReport>,
    is_sweep: bool,
) -> Vec<Value> {
    let failed = runs.into_iter().filter_map(|run| {
        let reason = match &run.end {
            CellEnd::Succeeded => return None,
            CellEnd::Failed(reason) | CellEnd::ThresholdMissed(reason) => reason.clone(),
            CellEnd::Interrupted(signal) => format!("interrupted by signal {signal}"),
        };
        let cell = &cells.cells()[run.index];
        let label = if is_sweep { cell.name.clone() } else { cell.run_label() };
        Some(json!({ "label": label, "error": reason }))
    });
    failed.collect()
}

/// The word for the order of a sweep.
pub(super) fn mode(cells: &Cells) -> &'static str {
    match cells.suite.sweep.as_ref().map(|sweep| sweep.order) {
        Some(IterationOrder::Independent) => "independent",
        _ => "repeated",
    }
}

fn metadata(cells: &Cells, variation: usize, runs: &[&CellReport], good: &[&CellReport]) -> Map<String, Value> {
    let suite = &cells.suite;
    let labels: Vec<String> = good.iter().map(|run| cells.cells()[run.index].run_label()).collect();
    let mut metadata = Map::new();
    let mut put = |key: &str, value: Value| metadata.insert(key.into(), value);
    put("aggregation_type", json!("confidence"));
    put("num_profile_runs", json!(runs.len()));
    put("num_successful_runs", json!(good.len()));
    put("failed_runs", failed_runs(cells, runs.iter().copied(), false).into());
    put("confidence_level", json!(suite.multi_run.confidence_level));
    put("run_labels", json!(labels));
    if good.len() == 1 {
        put("single_run", json!(true));
    }
    put("cooldown_seconds", json!(suite.multi_run.cooldown_s));
    if suite.sweep.is_some() {
        let of = &suite.variations[variation];
        put("variation_label", json!(of.label));
        put("variation_values", Value::Object(of.values.iter().cloned().collect()));
        put("sweep_mode", json!(mode(cells)));
        put("model", json!(of.config.models.names().next()));
    }
    metadata
}

/// The same as a table, a blank line, and what was aggregated.
fn table(figures: &[Figure], metadata: &Map<String, Value>, runs: usize, good: usize) -> Vec<u8> {
    let mut out = Csv::default();
    out.record([
        "metric",
        "mean",
        "std",
        "min",
        "max",
        "cv",
        "se",
        "ci_low",
        "ci_high",
        "t_critical",
        "unit",
    ]);
    for figure in figures {
        let spread = &figure.spread;
        out.record([
            figure.name.clone(),
            format!("{:.2}", spread.mean),
            format!("{:.2}", spread.std),
            format!("{:.2}", spread.min),
            format!("{:.2}", spread.max),
            spread.cv().map_or_else(|| "inf".into(), |cv| format!("{cv:.4}")),
            format!("{:.4}", spread.se),
            format!("{:.2}", spread.ci.0),
            format!("{:.2}", spread.ci.1),
            spread.t_critical.map_or_else(String::new, |t| format!("{t:.4}")),
            text(&figure.unit),
        ]);
    }
    out.blank();
    out.record(["Aggregation Type", "confidence"]);
    out.record(["Total Runs".to_owned(), runs.to_string()]);
    out.record(["Successful Runs".to_owned(), good.to_string()]);
    let told = [
        "aggregation_type",
        "num_profile_runs",
        "num_successful_runs",
        "failed_runs",
    ];
    for (key, value) in metadata.iter().filter(|(key, _)| !told.contains(&key.as_str())) {
        out.record([title(key), text(value)]);
    }
    out.0
}

/// A table of commas, CRLF and quotes where needed, whose records may differ in length.
#[derive(Default)]
pub(super) struct Csv(pub(super) Vec<u8>);

impl Csv {
    pub(super) fn record<T: AsRef<[u8]>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let mut out = WriterBuilder::new()
            .terminator(Terminator::CRLF)
            .from_writer(&mut self.0);
        let written = out.write_record(cells).and_then(|()| Ok(out.flush()?));
        written.expect("memory takes any record");
    }

    /// A line without anything.
    pub(super) fn blank(&mut self) {
        self.0.extend_from_slice(b"\r\n");
    }
}

/// A value of metadata as text.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `cooldown_seconds` as `Cooldown Seconds`.
fn title(key: &str) -> String {
    let words = key.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    });
    words.collect::<Vec<_>>().join(" ")
}
