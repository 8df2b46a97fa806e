//! `profile_export_aiperf_collated.json`: the requests of all trials of a variation as one population. With a rule of convergence only, as the peer has it.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::Cells;
use super::confidence::failed_runs;
use super::sequence::{CellEnd, CellReport};
use crate::artifact::{self, ArtifactError, COLLATED, TOOL_VERSION};

const DESCRIPTION: &str = "Figures of single requests, those of all runs taken together. profile_export_aiperf_aggregate.json has figures of runs instead.";

/// Percentiles, between neighbours in proportion.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)];

/// Writes the file of every variation of which a run succeeded. A run whose lines cannot be read is a problem.
pub(super) fn write(cells: &Cells, reports: &[CellReport]) -> Vec<Result<PathBuf, ArtifactError>> {
    let mut written = Vec::new();
    if cells.suite.multi_run.convergence.is_none() {
        return written;
    }
    for (index, variation) in cells.suite.variations.iter().enumerate() {
        if variation.config.artifacts.records == Some(false) {
            continue;
        }
        let of_variation = |report: &&CellReport| cells.cells()[report.index].variation == index;
        let runs: Vec<&CellReport> = reports.iter().filter(of_variation).collect();
        let mut good = Vec::new();
        for run in runs.iter().filter(|run| run.end == CellEnd::Succeeded) {
            let cell = &cells.cells()[run.index];
            match artifact::read_values(&cell.directory, cells.prefix(), &|_| true) {
                Ok(values) => good.push((cell.run_label(), values)),
                Err(error) => written.push(Err(error)),
            }
        }
        if good.is_empty() {
            continue;
        }
        let labels: Vec<&String> = good.iter().map(|(label, _)| label).collect();
        let document = json!({
            "schema_version": "1.0.0",
            "aiperf_version": TOOL_VERSION,
            "description": DESCRIPTION,
            "metadata": {
                "aggregation_type": "detailed",
                "num_profile_runs": runs.len(),
                "num_successful_runs": good.len(),
                "failed_runs": failed_runs(cells, runs.iter().copied(), false),
                "run_labels": labels,
            },
            "metrics": metrics(&good),
        });
        let directory = cells.layout.aggregate(cells.directory(), &variation.directory);
        written.push(artifact::write_document(
            &directory.join(format!("{COLLATED}.json")),
            &document,
        ));
    }
    written
}

fn metrics(runs: &[(String, HashMap<String, Vec<f64>>)]) -> Map<String, Value> {
    let mut by_tag: BTreeMap<&String, Vec<(&String, &Vec<f64>)>> = BTreeMap::new();
    for (label, values) in runs {
        for (tag, values) in values {
            by_tag.entry(tag).or_default().push((label, values));
        }
    }
    let of_run = |&(label, values): &(&String, &Vec<f64>)| json!({ "label": label, "mean": mean(values), "count": values.len() });
    by_tag
        .into_iter()
        .map(|(tag, runs)| {
            let mut all: Vec<f64> = runs.iter().flat_map(|(_, values)| values.iter().copied()).collect();
            let per_run: Vec<Value> = runs.iter().map(of_run).collect();
            (
                tag.clone(),
                json!({ "combined": combined(&mut all), "per_run": per_run }),
            )
        })
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Statistics of at least one value; the deviation is that of a sample (n - 1).
fn combined(values: &mut [f64]) -> Map<String, Value> {
    values.sort_unstable_by(f64::total_cmp);
    let (count, mean) = (values.len(), mean(values));
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let std = if count < 2 {
        0.0
    } else {
        (squares / (count as f64 - 1.0)).sqrt()
    };
    let percentile = |share: f64| {
        let place = share * (count - 1) as f64;
        let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
        low + (high - low) * place.fract()
    };
    let mut object = Map::new();
    object.insert("mean".into(), json!(mean));
    object.insert("std".into(), json!(std));
    object.extend(PERCENTILES.map(|(name, share)| (name.to_owned(), json!(percentile(share)))));
    object.insert("count".into(), json!(count));
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_all_runs_are_one_population() {
        let run = |label: &str, values: &[f64]| (label.to_owned(), HashMap::from([("a".to_owned(), values.to_vec())]));
        let metrics = metrics(&[run("run_0001", &[4.0, 1.0]), run("run_0002", &[3.0, 2.0, 5.0])]);
        let combined_of = |key: &str| metrics["a"]["combined"][key].as_f64().expect(key);
        for (key, expected) in [
            ("mean", 3.0),
            ("std", 2.5_f64.sqrt()),
            ("p50", 3.0),
            ("p90", 4.6),
            ("p95", 4.8),
            ("p99", 4.96),
            ("count", 5.0),
        ] {
            assert!(
                (combined_of(key) - expected).abs() < 1e-12,
                "{key}: {}",
                combined_of(key)
            );
        }
        assert_eq!(
            metrics["a"]["per_run"],
            json!([
                { "label": "run_0001", "mean": 2.5, "count": 2 },
                { "label": "run_0002", "mean": 10.0 / 3.0, "count": 3 },
            ])
        );
        assert_eq!(combined(&mut [7.0])["std"], 0.0);
    }
}
