//! `profile_export_aiperf_sweep`: the variations of a sweep side by side, the best of them, and those that no other beats in everything.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::Cells;
use super::agreement::Agreement;
use super::confidence::{Csv, Figure, failed_runs, figures, mode, text};
use super::sequence::{CellEnd, CellReport};
use crate::artifact::{self, ArtifactError, COMPARISON};

/// What more is better of.
const THROUGHPUT: &str = "request_throughput_avg";
/// What less is better of; the first that every variation has.
const LATENCIES: [&str; 2] = ["time_to_first_token_p99", "request_latency_p99"];

/// The statistics of a column of the table.
const COLUMNS: [&str; 5] = ["mean", "std", "min", "max", "cv"];

/// The variations of which a run succeeded.
pub(super) struct Comparison {
    document: Map<String, Value>,
    rows: Vec<Row>,
    names: Vec<String>,
}

struct Row {
    parameters: Map<String, Value>,
    /// As the document has them.
    metrics: Map<String, Value>,
    throughput: Option<(f64, Value)>,
    latency: Option<(f64, Value)>,
}

/// Compares the variations; `None` if no run succeeded.
pub(super) fn of(cells: &Cells, reports: &[CellReport], agreement: &Agreement<'_>) -> Option<Comparison> {
    let suite = &cells.suite;
    let names = parameter_names(cells);
    let mut rows = Vec::new();
    let mut figures_of_rows = Vec::new();
    let mut rows_of = Vec::new();
    for (index, variation) in suite.variations.iter().enumerate() {
        let good: Vec<&CellReport> = reports
            .iter()
            .filter(|run| cells.cells()[run.index].variation == index && run.end == CellEnd::Succeeded)
            .collect();
        if good.is_empty() {
            continue;
        }
        let figures = figures(&good, suite.multi_run.confidence_level);
        let parameters = variation
            .values
            .iter()
            .map(|(path, value)| (short(&names, path).to_owned(), value.clone()))
            .collect();
        let metrics = if suite.multi_run.num_runs == 1 {
            single(&good[0].metrics)
        } else {
            figures
                .iter()
                .map(|figure| (figure.name.clone(), spread(figure)))
                .collect()
        };
        rows.push(Row {
            parameters,
            metrics,
            throughput: None,
            latency: None,
        });
        figures_of_rows.push(figures);
        rows_of.push(index);
    }
    if rows.is_empty() {
        return None;
    }
    let has = |name: &str| {
        figures_of_rows
            .iter()
            .all(|figures| figures.iter().any(|figure| figure.name == name))
    };
    let latency = LATENCIES.into_iter().find(|name| has(name));
    for (row, figures) in rows.iter_mut().zip(&figures_of_rows) {
        row.throughput = mean(figures, THROUGHPUT);
        row.latency = latency.and_then(|name| mean(figures, name));
    }
    let names: Vec<String> = names.into_iter().map(|(_, name)| name).collect();
    let mut comparison = Comparison {
        document: Map::new(),
        rows,
        names,
    };
    comparison.document = comparison.document(cells, reports);
    if cells.suite.multi_run.convergence.is_some() {
        let found: Vec<Value> = rows_of
            .iter()
            .zip(&comparison.rows)
            .map(|(&index, row)| json!({ "parameters": row.parameters, "convergence": agreement.to_json(index) }))
            .collect();
        let additions = json!({ "per_combination": found });
        comparison.document.insert("ringload".into(), additions);
    }
    Some(comparison)
}

/// The mean of a figure, with its unit.
fn mean(figures: &[Figure], name: &str) -> Option<(f64, Value)> {
    let figure = figures.iter().find(|figure| figure.name == name)?;
    Some((figure.spread.mean, figure.unit.clone()))
}

/// The paths that vary, with the names that columns have: the last part, or all of it where that says too little.
fn parameter_names(cells: &Cells) -> Vec<(String, String)> {
    let mut paths: Vec<&str> = Vec::new();
    for (path, _) in cells.suite.variations.iter().flat_map(|variation| &variation.values) {
        if !paths.contains(&path.as_str()) {
            paths.push(path);
        }
    }
    let leaf = |path: &str| path.rsplit('.').next().unwrap_or(path).to_owned();
    let name = |path: &&str| {
        let is_alone = paths.iter().filter(|other| leaf(other) == leaf(path)).count() == 1;
        (path.to_string(), if is_alone { leaf(path) } else { path.to_string() })
    };
    paths.iter().map(name).collect()
}

fn short<'a>(names: &'a [(String, String)], path: &'a str) -> &'a str {
    names
        .iter()
        .find(|(full, _)| full == path)
        .map_or(path, |(_, name)| name)
}

/// The metrics of a single run, with the keys that readers of several runs look for.
fn single(metrics: &Map<String, Value>) -> Map<String, Value> {
    let one = |(tag, object): (&String, &Value)| {
        let average = &object["avg"];
        let or_average = |key: &str| if object[key].is_null() { average } else { &object[key] };
        let mut entry = json!({
            "mean": average,
            "avg": average,
            "std": 0.0,
            "min": or_average("min"),
            "max": or_average("max"),
            "cv": 0.0,
            "ci_low": average,
            "ci_high": average,
            "unit": object["unit"],
        });
        for (key, value) in object.as_object().into_iter().flatten() {
            if key.starts_with('p') || key == "count" || key == "sum" {
                entry[key.as_str()] = value.clone();
            }
        }
        (tag.clone(), entry)
    };
    metrics
        .iter()
        .filter(|(_, object)| !object["avg"].is_null())
        .map(one)
        .collect()
}

fn spread(figure: &Figure) -> Value {
    let spread = &figure.spread;
    json!({
        "mean": spread.mean,
        "std": spread.std,
        "min": spread.min,
        "max": spread.max,
        "cv": spread.cv(),
        "ci_low": spread.ci.0,
        "ci_high": spread.ci.1,
        "unit": figure.unit,
    })
}

impl Comparison {
    fn document(&self, cells: &Cells, reports: &[CellReport]) -> Map<String, Value> {
        let suite = &cells.suite;
        let successful = reports.iter().filter(|report| report.end == CellEnd::Succeeded).count();
        let paths = parameter_names(cells);
        let parameters: Vec<Value> = paths
            .iter()
            .map(|(path, name)| {
                let mut values: Vec<&Value> = Vec::new();
                for (_, value) in suite
                    .variations
                    .iter()
                    .flat_map(|of| &of.values)
                    .filter(|(of, _)| of == path)
                {
                    if !values.contains(&value) {
                        values.push(value);
                    }
                }
                json!({ "name": name, "values": values })
            })
            .collect();
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| json!({ "parameters": row.parameters, "metrics": row.metrics }))
            .collect();
        let mut document = Map::new();
        let mut put = |key: &str, value: Value| document.insert(key.into(), value);
        put("aggregation_type", json!("sweep"));
        put("num_profile_runs", json!(reports.len()));
        put("num_successful_runs", json!(successful));
        put("failed_runs", failed_runs(cells, reports, true).into());
        put(
            "metadata",
            json!({
                "sweep_parameters": parameters,
                "num_combinations": suite.variations.len(),
                "sweep_mode": mode(cells),
                "confidence_level": suite.multi_run.confidence_level,
                "num_trials_per_value": suite.multi_run.num_runs,
                "aggregation_type": "sweep",
            }),
        );
        put("per_combination_metrics", rows.into());
        put("best_configurations", Value::Object(self.best()));
        put(
            "pareto_optimal",
            self.front()
                .into_iter()
                .map(|at| Value::Object(self.rows[at].parameters.clone()))
                .collect(),
        );
        document
    }

    /// Best configurations and Pareto front alone.
    pub(super) fn summary(&self) -> Value {
        let of = |key: &str| self.document[key].clone();
        json!({ "best_configurations": of("best_configurations"), "pareto_optimal": of("pareto_optimal") })
    }

    fn best(&self) -> Map<String, Value> {
        let entry = |row: &Row, (metric, unit): &(f64, Value)| json!({ "parameters": row.parameters, "metric": metric, "unit": unit });
        let of = |figure: fn(&Row) -> Option<&(f64, Value)>, sign: f64| {
            let known = self.rows.iter().filter_map(|row| Some((row, figure(row)?)));
            known.max_by(|(_, a), (_, b)| (a.0 * sign).total_cmp(&(b.0 * sign)))
        };
        let fastest = of(|row| row.throughput.as_ref(), 1.0).map(|(row, figure)| entry(row, figure));
        let shortest = of(|row| row.latency.as_ref(), -1.0).map(|(row, figure)| entry(row, figure));
        let pairs = [("best_throughput", fastest), ("best_latency_p99", shortest)];
        pairs
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect()
    }

    /// Rows that no other row beats in one figure without being worse in the other.
    fn front(&self) -> Vec<usize> {
        let point = |row: &Row| Some((row.throughput.as_ref()?.0, row.latency.as_ref()?.0));
        let points: Vec<Option<(f64, f64)>> = self.rows.iter().map(point).collect();
        let beaten = |(throughput, latency): (f64, f64)| {
            points.iter().flatten().any(|&(other_throughput, other_latency)| {
                let no_worse = other_throughput >= throughput && other_latency <= latency;
                no_worse && (other_throughput > throughput || other_latency < latency)
            })
        };
        let is_in_front = |&at: &usize| points[at].is_some_and(|point| !beaten(point));
        (0..points.len()).filter(is_in_front).collect()
    }

    /// Writes the document and the table.
    pub(super) fn write(&self, cells: &Cells) -> Vec<Result<PathBuf, ArtifactError>> {
        let directory = cells.layout.comparison(cells.directory());
        let document = Value::Object(self.document.clone());
        vec![
            artifact::write_document(&directory.join(format!("{COMPARISON}.json")), &document),
            artifact::write_text(&directory.join(format!("{COMPARISON}.csv")), &self.table()),
        ]
    }

    fn table(&self) -> Vec<u8> {
        let mut tags: Vec<&String> = self.rows.iter().flat_map(|row| row.metrics.keys()).collect();
        tags.sort_unstable();
        tags.dedup();
        let mut out = Csv::default();
        let columns = tags
            .iter()
            .flat_map(|tag| COLUMNS.map(|column| format!("{tag}_{column}")));
        out.record(self.names.iter().cloned().chain(columns));
        for row in &self.rows {
            let figures = tags.iter().flat_map(|tag| {
                COLUMNS.map(|column| {
                    let digits = if column == "cv" { 4 } else { 2 };
                    let metric = row.metrics.get(*tag);
                    let figure = metric.and_then(|metric| metric[column].as_f64());
                    match figure {
                        Some(figure) => format!("{figure:.digits$}"),
                        // There is a mean, and it is zero.
                        None if metric.is_some() && column == "cv" => "inf".into(),
                        None => String::new(),
                    }
                })
            });
            out.record(self.values(&row.parameters).chain(figures));
        }
        section(&mut out, "Best Configurations");
        let best = self.best();
        if !best.is_empty() {
            let ends = ["Metric".to_owned(), "Unit".to_owned()];
            out.record(
                ["Configuration".to_owned()]
                    .into_iter()
                    .chain(self.names.iter().cloned())
                    .chain(ends),
            );
        }
        for (key, title) in [
            ("best_throughput", "Best Throughput"),
            ("best_latency_p99", "Best Latency P99"),
        ] {
            let Some(entry) = best.get(key) else { continue };
            let parameters = entry["parameters"].as_object().cloned().unwrap_or_default();
            let metric = format!("{:.2}", entry["metric"].as_f64().unwrap_or_default());
            let row = [title.to_owned()].into_iter().chain(self.values(&parameters));
            out.record(row.chain([metric, text(&entry["unit"])]));
        }
        section(&mut out, "Pareto Optimal Points");
        let front = self.front();
        if front.is_empty() {
            out.record(["None"]);
        } else {
            out.record(&self.names);
            front
                .iter()
                .for_each(|&at| out.record(self.values(&self.rows[at].parameters)));
        }
        section(&mut out, "Metadata");
        out.record(["Field", "Value"]);
        let metadata = &self.document["metadata"];
        for (title, value) in [
            ("Aggregation Type", "sweep".to_owned()),
            ("Sweep Parameters", self.names.join(", ")),
            ("Number of Combinations", text(&metadata["num_combinations"])),
            ("Number of Profile Runs", text(&self.document["num_profile_runs"])),
            ("Number of Successful Runs", text(&self.document["num_successful_runs"])),
        ] {
            out.record([title, &value]);
        }
        out.0
    }

    fn values<'a>(&'a self, parameters: &'a Map<String, Value>) -> impl Iterator<Item = String> + 'a {
        self.names
            .iter()
            .map(|name| parameters.get(name).map_or_else(String::new, text))
    }
}

/// A blank line and the title of what follows.
fn section(out: &mut Csv, title: &str) {
    out.blank();
    out.record([title]);
}
