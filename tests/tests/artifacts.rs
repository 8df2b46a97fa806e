//! Artifacts: every file is there and readable, the figures in them follow from the records, and earlier results are safe.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use ringload_engine::report::{METRICS, Unit};
use ringload_mock_server::MockServer;
use ringload_tests::run::read_manifest;
use ringload_tests::statistics::{deviation, mean, percentile};
use ringload_tests::{Ending, Phase, Record, Run, Scenario, mock};
use serde_json::Value;

/// A run with everything in it: a warmup, failures, cancellations, an overlap.
fn eventful(server: &MockServer) -> Scenario {
    Scenario::new(server.address())
        .cores(2)
        .output_tokens(6)
        .phase(Phase::closed("warmup", 2).warmup().requests(10))
        .phase(Phase::closed("baseline", 4).requests(60))
        .phase(
            Phase::closed("storm", 6)
                .requests(40)
                .cancelling(0.3, Duration::ZERO)
                .seamless(),
        )
}

fn eventful_server() -> MockServer {
    mock(|options| {
        options.ttft = Duration::from_millis(8);
        options.jitter = 0.5;
        options.osl = None;
        options.fault = Some("every:7:status:503".parse().expect("a fault"));
    })
}

/// All files below a directory, with their contents.
fn tree(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(root: &Path, directory: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(root, &path, found);
            } else {
                let name = path.strip_prefix(root).expect("it lies below").display().to_string();
                found.insert(name, fs::read(&path).expect("a file"));
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(directory, directory, &mut found);
    found
}

#[test]
fn every_file_is_there_and_no_other_and_each_can_be_read() {
    let server = eventful_server();
    let run = eventful(&server).run();
    let tree = tree(&run.outcome.artifact_directory);
    let mut expected: BTreeSet<String> = [
        ".aiperf_results_ready.json",
        "inputs.json",
        "phase_manifest.json",
        "profile_export.jsonl",
        "profile_export_aiperf.csv",
        "profile_export_aiperf.json",
        "resolved_config.yaml",
    ]
    .map(String::from)
    .into();
    for phase in ["warmup", "baseline", "storm"] {
        for kind in ["json", "csv"] {
            expected.insert(format!("phases/{phase}/profile_export_aiperf.{kind}"));
        }
    }
    assert_eq!(tree.keys().cloned().collect::<BTreeSet<_>>(), expected);
    let reported: BTreeSet<String> = run
        .outcome
        .files
        .iter()
        .map(|path| {
            let relative = path.strip_prefix(&run.outcome.artifact_directory);
            relative.expect("it lies in the directory").display().to_string()
        })
        .collect();
    assert_eq!(reported, expected, "what the outcome names");
    for (name, bytes) in &tree {
        if name.ends_with(".json") {
            let _: Value = serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
    let ready = run.json(".aiperf_results_ready.json");
    assert_eq!(
        (&ready["ready"], &ready["was_cancelled"]),
        (&true.into(), &false.into())
    );
    let root = run.root();
    assert_eq!(
        (&root["is_complete"], &root["was_cancelled"]),
        (&true.into(), &false.into())
    );
    assert_eq!(root["ringload"]["seed"], 42);
    assert_eq!(root["ringload"]["cores"].as_array().map(Vec::len), Some(2));
}

/// The values of a metric over some records, in its exported unit.
fn values(records: &[&Record], tag: &str) -> Vec<f64> {
    if tag == "inter_chunk_latency" {
        let gaps = records.iter().flat_map(|record| record.gaps_ns());
        return gaps.map(|gap| gap as f64 / 1e6).collect();
    }
    records.iter().filter_map(|record| record.metric(tag)).collect()
}

fn assert_close(found: &Value, expected: f64, what: &str) {
    let found = found.as_f64().unwrap_or_else(|| panic!("{what}: {found} is no number"));
    let tolerance = 1e-9 * expected.abs().max(1.0);
    assert!(
        (found - expected).abs() <= tolerance,
        "{what}: {found}, from the records {expected}"
    );
}

/// Recomputes every distribution of a summary from the records that it describes. Returns how many there were.
fn assert_statistics(document: &Value, records: &[&Record]) -> usize {
    let mut checked = 0;
    for (tag, figures) in document.as_object().expect("an object") {
        // Twins with infinities for failures and figures without a value per record are not made of the records' own values alone.
        let adjusted =
            tag.starts_with("adj_") || ["effective_latency", "credit_to_start_latency"].contains(&tag.as_str());
        // Figures over time have no values to count.
        if figures.get("p50").is_none() || figures.get("count").is_none() || adjusted {
            continue;
        }
        let relevant: Vec<&Record> = records
            .iter()
            .copied()
            .filter(|record| (record.ending() == Ending::Succeeded) != (tag == "error_isl"))
            .collect();
        let values = values(&relevant, tag);
        assert!(!values.is_empty(), "{tag} has no values in the records");
        assert_eq!(figures["count"], values.len(), "{tag}");
        for percent in [1, 5, 10, 25, 50, 75, 90, 95, 99] {
            let expected = percentile(&values, f64::from(percent));
            assert_close(&figures[format!("p{percent}")], expected, &format!("{tag} p{percent}"));
        }
        assert_close(&figures["avg"], mean(&values), &format!("{tag} avg"));
        assert_close(&figures["min"], percentile(&values, 0.0), &format!("{tag} min"));
        assert_close(&figures["max"], percentile(&values, 100.0), &format!("{tag} max"));
        assert_close(&figures["sum"], values.iter().sum(), &format!("{tag} sum"));
        assert_close(&figures["std"], deviation(&values), &format!("{tag} std"));
        checked += 1;
    }
    checked
}

#[test]
fn every_distribution_follows_from_the_records() {
    let server = eventful_server();
    let run = eventful(&server).run();
    let profiling: Vec<&Record> = run
        .records
        .iter()
        .filter(|record| record.metadata.phase_kind == "profiling")
        .collect();
    let checked = assert_statistics(&run.root(), &profiling);
    assert!(checked >= 25, "{checked} distributions in the root file");
    for phase in ["warmup", "baseline", "storm"] {
        let checked = assert_statistics(&run.summary(phase), &run.records_of(phase));
        assert!(checked >= 25, "{checked} distributions in {phase}");
    }
    let warmup = run.records_of("warmup");
    assert_statistics(&run.root()["warmup_metrics"], &warmup);
}

fn seconds(phases: &[(u64, u64)]) -> f64 {
    let mut sorted = phases.to_vec();
    sorted.sort_unstable();
    let mut covered = 0;
    let mut until = 0;
    for (start, end) in sorted {
        covered += end.saturating_sub(start.max(until));
        until = until.max(end);
    }
    covered as f64 / 1e9
}

#[test]
fn throughput_times_the_window_is_the_count() {
    // The last answers of the first phase take so long that the second is sure to have started.
    let server = mock(|options| options.ttft = Duration::from_millis(800));
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("baseline", 4).requests(8))
        .phase(Phase::closed("storm", 6).requests(8).seamless())
        .run();
    let window = |name: &str| {
        let phase = run.phase(name);
        (phase.start_ns, phase.end_ns.expect("it ended"))
    };
    let windows = [window("baseline"), window("storm")];
    assert!(windows[0].1 > windows[1].0, "the phases overlap");
    for (document, window_s) in [
        (run.summary("baseline"), seconds(&windows[..1])),
        (run.summary("storm"), seconds(&windows[1..])),
        // The union: an instant in two phases counts once.
        (run.root(), seconds(&windows)),
    ] {
        let figure = |tag: &str| document[tag]["avg"].as_f64().unwrap_or_else(|| panic!("no {tag}"));
        let counted = figure("request_throughput") * window_s;
        assert!((counted / figure("request_count") - 1.0).abs() < 1e-9, "{counted}");
        let tokens = figure("output_token_throughput") * window_s;
        assert!((tokens / figure("total_osl") - 1.0).abs() < 1e-9, "{tokens}");
    }
    let root = run.root();
    assert_close(
        &root["benchmark_duration"]["avg"],
        seconds(&windows),
        "benchmark_duration",
    );
    assert_eq!(root["total_osl"]["avg"], root["output_sequence_length"]["sum"]);
}

/// Compares the two summaries of a scope figure by figure. Returns the number of rows.
fn assert_same_figures(document: &Value, csv_text: &str) -> usize {
    let (distributions, scalars) = csv_text
        .split_once("\r\n\r\n")
        .expect("two tables with an empty line between");
    let mut rows = BTreeMap::new();
    for table in [distributions, scalars] {
        let mut reader = csv::ReaderBuilder::new().from_reader(table.as_bytes());
        let header = reader.headers().expect("a header").clone();
        for row in reader.records() {
            let row = row.expect("a row");
            let cells: BTreeMap<String, String> = header
                .iter()
                .zip(&row)
                .skip(1)
                .map(|(key, cell)| (key.to_owned(), cell.to_owned()))
                .collect();
            assert!(
                rows.insert(row[0].to_owned(), cells).is_none(),
                "{} stands twice",
                &row[0]
            );
        }
    }
    let mut compared = 0;
    for metric in METRICS {
        let name = match metric.unit {
            Unit::Count | Unit::Requests => metric.header.to_owned(),
            unit => format!("{} ({})", metric.header, unit.name()),
        };
        let figures = &document[metric.tag];
        let row = rows.remove(&name);
        if figures.is_null() {
            assert!(row.is_none(), "{name} is in the CSV file only");
            continue;
        }
        let Some(row) = row else {
            // An error-adjusted twin without a finite percentile is no row.
            assert!(
                metric.tag.starts_with("adj_") && figures.get("p1").is_none(),
                "{name} is in the JSON file only"
            );
            continue;
        };
        for (key, cell) in row {
            let key = if key == "Value" { "avg".to_owned() } else { key };
            let expected = figures[&key]
                .as_f64()
                .map_or(String::new(), |figure| format!("{figure:.2}"));
            assert_eq!(cell, expected, "{name}, {key}");
        }
        compared += 1;
    }
    assert!(rows.is_empty(), "rows that are no metric: {rows:?}");
    compared
}

#[test]
fn csv_and_json_show_the_same_figures() {
    let server = eventful_server();
    let run = eventful(&server).run();
    let read = |relative: &str| fs::read_to_string(run.path(relative)).expect("a file");
    let compared = assert_same_figures(&run.root(), &read("profile_export_aiperf.csv"));
    assert!(compared > 40, "{compared} metrics");
    for phase in &run.phases {
        assert_same_figures(&run.summary(&phase.phase_name), &read(&phase.metrics_csv));
    }
}

#[test]
fn results_of_an_earlier_run_are_never_touched() {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let directory = temporary.path().join("results");
    let server = mock(|options| options.fast = true);
    let small = || {
        Scenario::new(server.address())
            .directory(&directory)
            .phase(Phase::closed("load", 2).requests(5))
    };
    drop(small().run());
    let before = tree(&directory);
    let error = small().start().refused().to_string();
    assert!(error.contains("--overwrite") && error.contains("results-2"), "{error}");
    assert_eq!(tree(&directory), before);
    assert_eq!(server.counters().requests, 5, "the second run sent nothing");
}

#[test]
fn overwriting_leaves_nothing_of_the_earlier_run_and_all_that_is_not_ours() {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let directory = temporary.path().join("results");
    let server = mock(|options| options.fast = true);
    let first = Scenario::new(server.address())
        .directory(&directory)
        .phase(Phase::closed("old", 2).requests(5))
        .phase(Phase::closed("kept", 2).requests(5))
        .run();
    drop(first);
    fs::write(directory.join("notes.md"), "mine").expect("a note");
    let run = Scenario::new(server.address())
        .directory(&directory)
        .overwrite()
        .phase(Phase::closed("kept", 2).requests(3))
        .run();
    assert!(!directory.join("phases/old").exists());
    assert_eq!(run.counts("kept").sent, 3);
    assert_eq!(run.records.len(), 3);
    assert_eq!(read_manifest(&directory).len(), 1);
    assert_eq!(fs::read_to_string(directory.join("notes.md")).expect("a note"), "mine");
}

#[test]
fn a_directory_that_cannot_be_written_is_refused_before_any_load() {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let file = temporary.path().join("file");
    fs::write(&file, "not a directory").expect("a file");
    let server = mock(|_| {});
    let below = file.join("results");
    let error = Scenario::new(server.address())
        .directory(&below)
        .reset("/reset_prefix_cache")
        .phase(Phase::closed("load", 2).requests(5))
        .start()
        .refused()
        .to_string();
    assert!(error.contains(&below.display().to_string()), "{error}");
    let counters = server.counters();
    assert_eq!((counters.requests, counters.reset_prefix_cache), (0, 0));
}

#[test]
fn without_records_the_figures_come_from_histograms_and_agree_with_themselves() {
    let server = mock(|options| options.jitter = 0.5);
    let run: Run = Scenario::new(server.address())
        .cores(2)
        .without_records()
        .phase(Phase::closed("load", 4).requests(200))
        .run();
    assert!(!run.path("profile_export.jsonl").exists());
    let summary = run.summary("load");
    assert_eq!(summary["ringload"]["percentiles"], "histogram");
    assert_eq!(run.counts("load").succeeded, 200);
    for tag in ["request_latency", "time_to_first_token", "output_sequence_length"] {
        let figures = &summary[tag];
        assert_eq!(figures["count"], 200, "{tag}");
        let ladder: Vec<f64> = [
            "min", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "max",
        ]
        .iter()
        .map(|key| figures[*key].as_f64().unwrap_or_else(|| panic!("{tag} {key}")))
        .collect();
        assert!(ladder.is_sorted(), "{tag}: {ladder:?}");
    }
    // 2 ms to the first token with half of it as jitter, and 3 further tokens of 0.5 to 1.5 ms.
    assert!(
        summary["time_to_first_token"]["min"]
            .as_f64()
            .is_some_and(|ms| ms >= 1.0)
    );
    assert!(summary["request_latency"]["min"].as_f64().is_some_and(|ms| ms >= 2.5));
    assert_eq!(summary["output_sequence_length"]["avg"], 4.0);
}
