//! Golden comparisons: configs that AIPerf ran, run by ringload, give the same files with the same keys and units.
//!
//! `golden/NAME/command.txt` and `config.yaml` are the command and the config as AIPerf got them; they run through a link of its name, with a seed
//! behind them. Suites, hooks and runs that end badly are in `golden_commands.rs`. `golden/NAME/tree.json` is what a comparison needs of the tree that
//! AIPerf left: for each file its keys as [`tree`] spells them, grouped by kind of line in JSON lines. Lines of requests that failed by accident are
//! left out. AIPerf decides what stands there, so the trees change only with it, never to
//! please a failing test. What ringload lacks and what it adds is listed in [`LACKING`] and below with the reason, and nowhere else; an entry that is
//! no longer true fails too.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use ringload_mock_server::MockServer;
use ringload_tests::mock;
use ringload_tests::program::Workplace;
use ringload_tests::recorded::{Recorded, folder};
use ringload_tests::tree::{self, LACKING, bare};
use serde_json::Value;

/// What is lacking in runs of an endpoint type alone.
const LACKING_OF: &[(&[&str], &[&str], &str)] = &[
    (
        &["ep_embeddings", "ep_cohere", "ep_tei", "ep_nim_rankings"],
        &[
            "output_sequence_length",
            "data[].metrics.output_sequence_length",
            "Output Sequence Length",
        ],
        "these answers have no output tokens: AIPerf writes a zero that nobody counted",
    ),
    (
        &["ep_messages"],
        &["request_headers.content-type"],
        "AIPerf has this header a second time, in lower case",
    ),
];

/// Figures that AIPerf writes as zeros where nothing streams and so nothing has a first token. ringload leaves them out, as `docs/metrics.md` says.
const ZEROS_WITHOUT_STREAMS: &[&str] = &[
    "active_",
    "effective_decode_",
    "effective_prefill_",
    "effective_total_",
    "Active ",
    "Effective Decode ",
    "Effective Prefill ",
    "Effective Total ",
];

/// Files of slices. They were recorded in part: of the first slice the first sixty keys, of a figure the first twelve, of the table the first rows.
const OF_SLICES: [&str; 2] = [
    "profile_export_aiperf_timeslices.json",
    "profile_export_aiperf_timeslices.csv",
];

/// Figures of the summary that are about the run as a whole.
const NOT_IN_SLICES: [&str; 2] = ["credit_to_start_latency", "e2e_normalized_interactivity_"];

/// Files that ringload writes and AIPerf does not: of an address with the path of the API, AIPerf looks for metrics below that path.
fn is_added_file(name: &str) -> bool {
    name.starts_with("server_metrics_export.") || name.ends_with("/server_metrics.json")
}

/// Keys that only ringload writes.
const ADDED: &[(&str, &str)] = &[
    ("ringload", "what AIPerf's files do not have stands under this key"),
    (
        "request_headers.Accept-Encoding",
        "a compressed answer would hide when its tokens arrived, so ringload asks for none",
    ),
    (
        "trace_data.request_headers.Accept-Encoding",
        "a compressed answer would hide when its tokens arrived, so ringload asks for none",
    ),
    (
        "responses[]",
        "raw records show what had come before a request was cancelled",
    ),
    (
        "run_info.random_seed",
        "AIPerf writes it in sweeps, ringload in every run",
    ),
    (
        "phases[].server_metrics_json",
        "metrics are found at the origin also where the address has a path",
    ),
    (
        "metrics.vllm:cache_config_info.series[].stats.p99",
        "one recorded tree has the first twelve figures of a series only",
    ),
    (
        "warmup_metrics.vllm:cache_config_info.series[].stats.p99",
        "one recorded tree has the first twelve figures of a series only",
    ),
];

/// The names under it are the server's words: the recorded runs had another server.
const OF_THE_SERVER: &str = "trace_data.response_headers.";

/// The last figure of the family of one series.
fn last_value(path: &Path, family: &str) -> Option<f64> {
    let file = SerializedFileReader::try_from(path).expect("a file of columns");
    let rows = file.get_row_iter(None).expect("rows").map(|row| row.expect("a row"));
    let cell = |row: &Row, name: &str| {
        let found = row.get_column_iter().find(|(column, _)| *column == name);
        found.map(|(_, cell)| cell.clone())
    };
    let of_family = rows.filter(|row| cell(row, "metric_name") == Some(Field::Str(family.to_owned())));
    match cell(&of_family.last()?, "value")? {
        Field::Double(value) => Some(value),
        other => panic!("{other:?} is no number"),
    }
}

fn is_lacking(name: &str, key: &str) -> bool {
    let of_all = LACKING.iter().flat_map(|(beginnings, _)| *beginnings);
    let of_some = LACKING_OF.iter().filter(|(names, ..)| names.contains(&name));
    of_all
        .chain(of_some.flat_map(|(_, beginnings, _)| *beginnings))
        .any(|beginning| bare(key).starts_with(beginning))
}

/// Whether it is there depends on how many scrapes a run happens to have, on how long it happens to be, and on whether a request that is to be
/// cancelled happens to find a connection.
fn is_matter_of_time(key: &str) -> bool {
    key.ends_with("_update_interval_ms")
        || key.ends_with(".timeslices[].is_complete")
        || key == "trace_data.connection_reused_ns"
}

fn is_added(key: &str) -> bool {
    ADDED.iter().any(|(added, _)| {
        key.strip_prefix(added)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// A config of the peer against the mock server.
struct Golden {
    name: &'static str,
    workplace: Workplace,
    server: MockServer,
}

/// Milliseconds for a token close to those of the golden runs. One slot gives some 120 tokens a second, which the level of adaptive_multi allows,
/// and an answer takes longer than the delay of the cancellations.
const ITL_MS: u64 = 5;

impl Golden {
    /// Runs it to its end against a server that takes `itl_ms` for a token; `shortened` are durations that would take too long.
    fn run(name: &'static str, itl_ms: u64, shortened: &[(&str, &str)]) -> Self {
        let server = mock(|options| {
            options.ttft = Duration::from_millis(6 * itl_ms);
            options.itl = Duration::from_millis(itl_ms);
            options.osl = None;
        });
        let mut recorded = Recorded::read(name, &server.url());
        for (from, to) in shortened {
            recorded.replace(from, to);
        }
        let (workplace, program) = recorded.start(&["--cores", "1", "--random-seed", "7"]);
        program.end().expect(0);
        Self {
            name,
            workplace,
            server,
        }
    }

    fn json(&self, file: &str) -> Value {
        let text = fs::read(self.workplace.path("results").join(file)).expect("a file");
        serde_json::from_slice(&text).expect("JSON")
    }

    /// Asserts that files and keys are those of the peer's tree but for what is listed above.
    fn assert_same_tree(&self) {
        let golden = tree::recorded(self.name);
        let ours = tree::read(&self.workplace.path("results"));
        let mut differences = Vec::new();
        let config = fs::read_to_string(folder(self.name).join("config.yaml")).expect("a config");
        let streams = config.contains("streaming: true");
        let is_zero = |key: &str| !streams && ZEROS_WITHOUT_STREAMS.iter().any(|figure| bare(key).starts_with(figure));

        let of_one_phase = !golden.contains_key("phase_manifest.json");
        for file in ours.keys().filter(|file| !golden.contains_key(*file)) {
            // The peer writes these from two phases on. Ours are there always, so that a reader finds phases in one way.
            let is_phase_file = file == "phase_manifest.json" || file.starts_with("phases/");
            if !(is_added_file(file) || of_one_phase && is_phase_file) {
                differences.push(format!("{file}: only ringload writes it"));
            }
        }
        for (file, kinds) in &golden {
            let Some(found) = ours.get(file) else {
                differences.push(format!("{file}: not written"));
                continue;
            };
            if OF_SLICES.contains(&file.as_str()) {
                continue;
            }
            for (kind, keys) in kinds {
                let Some(found) = found.get(kind) else {
                    differences.push(format!("{file}: no {kind}"));
                    continue;
                };
                let of_the_server = |keys: &BTreeSet<String>| keys.iter().any(|key| key.starts_with(OF_THE_SERVER));
                if of_the_server(keys) != of_the_server(found) {
                    differences.push(format!("{file}, {kind}: one of the two has no headers of the server"));
                }
                let is_compared = |key: &&String| !is_matter_of_time(key) && !key.starts_with(OF_THE_SERVER);
                for key in keys.symmetric_difference(found).filter(is_compared) {
                    let note = match (found.contains(key), is_lacking(self.name, key)) {
                        (false, false) if !is_zero(key) => "missing",
                        (true, false) if !is_added(key) => "only ringload has it",
                        _ => continue,
                    };
                    differences.push(format!("{file}, {kind}: {key}: {note}"));
                }
                for key in keys.intersection(found).filter(|key| is_lacking(self.name, key)) {
                    differences.push(format!("{file}, {kind}: {key}: there by now; take it off the list"));
                }
            }
        }
        assert!(differences.is_empty(), "{}:\n{}", self.name, differences.join("\n"));
    }

    /// Asserts that slices have what was recorded of the peer's, and beyond that the figures of its summary with the same statistics.
    fn assert_same_slices(&self) {
        let (golden, ours) = (tree::recorded(self.name), tree::read(&self.workplace.path("results")));
        let lost = |recorded: &BTreeSet<String>, found: &BTreeSet<String>| -> Vec<String> {
            let lost = recorded
                .iter()
                .filter(|key| !tree::is_among(found, key) && !is_lacking(self.name, key));
            lost.cloned().collect()
        };
        for (file, kind) in OF_SLICES.into_iter().zip(["document", "rows"]) {
            let lost = lost(&golden[file][kind], &ours[file][kind]);
            assert!(lost.is_empty(), "{file}: {lost:#?}");
        }
        let is_in_slices = |key: &&String| {
            key.contains(" (")
                && !key.starts_with("warmup_metrics.")
                && !is_lacking(self.name, key)
                && !NOT_IN_SLICES.iter().any(|figure| key.starts_with(figure))
        };
        let of_summary = golden["profile_export_aiperf.json"]["document"]
            .iter()
            .filter(is_in_slices);
        let expected: BTreeSet<String> = of_summary.map(|key| format!("timeslices[].{key}")).collect();
        let (figures, others): (BTreeSet<String>, BTreeSet<String>) = ours[OF_SLICES[0]]["document"]
            .iter()
            .cloned()
            .partition(|key| key.contains(" ("));
        assert_eq!(figures, expected);
        assert_eq!(
            ours[OF_SLICES[1]]["rows"].len(),
            figures.len(),
            "the table has the same figures"
        );
        // Whether the run happens to end within its last slice.
        let recorded = &golden[OF_SLICES[0]]["document"];
        let fresh = others
            .iter()
            .filter(|key| !recorded.contains(*key) && *key != "timeslices[].is_complete");
        assert_eq!(fresh.collect::<Vec<_>>(), Vec::<&String>::new());
    }

    /// Asserts that bodies have the keys of the peer's in the same order, at all depths.
    fn assert_same_bodies(&self, expected: &[&str]) {
        let inputs = self.json("inputs.json");
        let bodies = inputs["data"].as_array().expect("a list");
        assert_eq!(bodies.len(), 20);
        for body in bodies {
            let body = body["payloads"][0].as_object().expect("a body");
            let keys: Vec<&str> = body.keys().map(String::as_str).collect();
            assert_eq!(keys, expected, "{}", self.name);
        }
    }

    /// Successes and errors of a scope.
    fn counts(&self, file: &str) -> (f64, f64) {
        let document = self.json(file);
        let count = |tag: &str| document[tag]["avg"].as_f64().unwrap_or(0.0);
        (count("request_count"), count("error_request_count"))
    }

    fn counts_of(&self, phase: &str) -> (f64, f64) {
        self.counts(&format!("phases/{phase}/profile_export_aiperf.json"))
    }

    /// Asserts that every request that the server saw has its line.
    fn assert_conserved(&self) {
        let lines = fs::read_to_string(self.workplace.path("results/profile_export.jsonl")).expect("records");
        assert_eq!(lines.lines().count() as u64, self.server.counters().requests);
    }
}

#[test]
fn two_phases_that_overlap() {
    let run = Golden::run("seamless", ITL_MS, &[]);
    run.assert_same_tree();
    run.assert_conserved();
    let phases = ["baseline_traffic", "cancellation_stress"].map(|phase| run.counts_of(phase));
    assert!(
        phases
            .iter()
            .all(|&(succeeded, failed)| succeeded > 0.0 && failed == 0.0)
    );
    // The first one sends for as long as it is written, and is measured until its last answer.
    let manifest = run.json("phase_manifest.json");
    let at = |phase: usize, key: &str| manifest["phases"][phase][key].as_u64().expect("an instant");
    assert!(at(0, "end_ns") > at(1, "start_ns"), "{manifest:#}");
    assert_eq!(run.counts("profile_export_aiperf.json").0, phases[0].0 + phases[1].0);
}

#[test]
fn cancellations_of_some_requests() {
    let run = Golden::run("cancel", ITL_MS, &[]);
    run.assert_same_tree();
    run.assert_conserved();
    // The config fixes their sum. A cancelled request counts as an error, as with the peer.
    let (succeeded, failed) = run.counts("profile_export_aiperf.json");
    assert_eq!(succeeded + failed, 40.0);
    assert_eq!(run.server.counters().requests, 40);
    let summary = &run.json("profile_export_aiperf.json")["error_summary"];
    assert_eq!(summary[0]["error_details"]["code"], 499);
    assert_eq!(summary[0]["error_details"]["type"], "RequestCancellationError");
    assert_eq!(summary[0]["count"].as_f64(), Some(failed));
}

#[test]
fn a_search_for_the_highest_concurrency() {
    let run = Golden::run("adaptive", ITL_MS, &[]);
    run.assert_same_tree();
    run.assert_conserved();
    let summary = run.json("phases/ramp/adaptive_scale_summary.json");
    let tried = summary["candidates"].as_array().expect("candidates");
    assert_eq!(tried[0]["control_value"], 1);
    assert!(
        tried
            .iter()
            .all(|one| one["control_value"].as_u64().is_some_and(|value| value <= 16))
    );
}

#[test]
fn two_searches_behind_a_warmup() {
    let run = Golden::run("adaptive_multi", ITL_MS, &[]);
    run.assert_same_tree();
    run.assert_conserved();
    assert_eq!(run.counts_of("warmup"), (4.0, 0.0));
    let both = run.counts_of("ramp_a").0 + run.counts_of("ramp_b").0;
    assert_eq!(run.counts("profile_export_aiperf.json"), (both, 0.0));
    let listed = &run.json("adaptive_scale_manifest.json")["adaptive_phases"];
    let names: Vec<&str> = listed
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["phase_name"].as_str())
        .collect();
    assert_eq!(names, ["ramp_a", "ramp_b"]);
}

#[test]
fn four_phases_with_a_storm_of_cancellations() {
    // Quick enough for hundreds of requests in the phase that cancels one in twenty.
    let run = Golden::run(
        "multi_phase",
        1,
        &[("duration: 3s", "duration: 1s"), ("duration: 2s", "duration: 1s")],
    );
    run.assert_same_tree();
    run.assert_conserved();
    // A warmup is in its own files only; where nothing is cancelled, nothing fails.
    assert_eq!(run.counts_of("warmup").1, 0.0);
    assert_eq!(run.counts_of("recovery_traffic").1, 0.0);
    let profiled = ["baseline_traffic", "cancellation_stress", "recovery_traffic"].map(|phase| run.counts_of(phase));
    let sum = profiled
        .iter()
        .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert_eq!(run.counts("profile_export_aiperf.json"), sum);
    assert!(profiled[1].1 > profiled[0].1, "{profiled:?}");
}

/// The first three requests of each of AIPerf's runs with other endpoint types; `bodies` are the keys of a body in its order.
fn one_endpoint_type(name: &'static str, bodies: &[&str]) {
    let run = Golden::run(name, ITL_MS, &[]);
    run.assert_same_tree();
    run.assert_conserved();
    run.assert_same_bodies(bodies);
    assert_eq!(run.counts("profile_export_aiperf.json"), (3.0, 0.0), "{name}");
}

#[test]
fn completions() {
    one_endpoint_type(
        "ep_completions",
        &["prompt", "model", "stream", "max_tokens", "stream_options"],
    );
}

#[test]
fn responses() {
    one_endpoint_type("ep_responses", &["input", "model", "stream", "max_output_tokens"]);
}

#[test]
fn messages() {
    one_endpoint_type("ep_messages", &["model", "messages", "max_tokens", "stream"]);
}

#[test]
fn embeddings() {
    one_endpoint_type("ep_embeddings", &["model", "input"]);
}

#[test]
fn rankings() {
    one_endpoint_type("ep_cohere", &["model", "query", "documents"]);
    one_endpoint_type("ep_tei", &["query", "texts"]);
    one_endpoint_type("ep_nim_rankings", &["model", "query", "passages"]);
}

#[test]
fn answers_that_are_not_streamed() {
    one_endpoint_type("nonstream", &["messages", "model", "stream", "max_completion_tokens"]);
}

#[test]
fn metrics_of_the_server_and_service_levels_of_four_phases() {
    let run = Golden::run("server_metrics", ITL_MS, &[]);
    run.assert_same_tree();
    run.assert_same_slices();
    run.assert_conserved();
    let export = run.json("server_metrics_export.json");
    let generated = |metrics: &str| {
        let total = &export[metrics]["vllm:generation_tokens"]["series"][0]["stats"]["total"];
        total.as_f64().expect("a total")
    };
    let columns = run.workplace.path("results").join("server_metrics_export.parquet");
    assert_eq!(
        last_value(&columns, "vllm:generation_tokens"),
        Some(generated("metrics"))
    );
    let all = generated("metrics") + generated("warmup_metrics");
    assert_eq!(all, run.server.counters().tokens_sent as f64);
    let good = |file: &str| run.json(file)["good_request_count"]["avg"].as_f64().expect("a count");
    let sum = ["a", "b"].map(|phase| good(&format!("phases/{phase}/profile_export_aiperf.json")));
    assert_eq!(good("profile_export_aiperf.json"), sum[0] + sum[1]);
}

#[test]
fn figures_of_gpus() {
    let run = Golden::run("gpu", ITL_MS, &[]);
    run.assert_same_tree();
    run.assert_conserved();
    let root = run.json("profile_export_aiperf.json");
    let joules = root["nvidia_total_gpu_energy"]["avg"].as_f64().expect("joules");
    let requests = root["request_count"]["avg"].as_f64().expect("requests");
    let per_request = root["nvidia_energy_per_request"]["avg"]
        .as_f64()
        .expect("joules per request");
    assert!(joules > 0.0 && (per_request * requests - joules).abs() < 1e-6 * joules);
}
