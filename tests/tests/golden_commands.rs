//! Commands that AIPerf ran, word for word: suites, hooks, runs by flags alone and runs that end badly. The other ones are in `golden.rs`.
//!
//! In the cells of a suite AIPerf echoes every key of its config with its default, and aggregates were recorded for some of the figures only. So
//! keys of echoes are left out of the recorded trees of suites, and what ringload has beyond a tree is not looked at here: what single runs echo
//! and add is compared to the key in `golden.rs`.

use std::time::Duration;

use ringload_mock_server::MockServer;
use ringload_tests::cells::{json, tree as files};
use ringload_tests::program::Workplace;
use ringload_tests::recorded::Recorded;
use ringload_tests::server::control_paths;
use ringload_tests::tree::{self, LACKING, Tree, bare, is_among};
use ringload_tests::{eventually, mock};
use serde_json::json;

/// A server with the timings of the recorded runs, to the order; every request meets `fault`.
fn server(fault: Option<&str>) -> MockServer {
    mock(|options| {
        options.ttft = Duration::from_millis(30);
        options.itl = Duration::from_millis(5);
        options.osl = None;
        options.fault = fault.map(|fault| fault.parse().expect("a fault of the mock server"));
    })
}

/// Runs the command to its end, which has this code.
fn run(name: &str, server: &MockServer, code: i32) -> Workplace {
    let (workplace, program) = Recorded::read(name, &server.url()).start(&[]);
    program.end().expect(code);
    workplace
}

/// Successes and errors of the run.
fn counts(workplace: &Workplace) -> (f64, f64) {
    let root = workplace.root();
    let count = |tag: &str| root[tag]["avg"].as_f64().unwrap_or(0.0);
    (count("request_count"), count("error_request_count"))
}

/// What AIPerf alone has in suites, beside what stands in [`LACKING`].
const LACKING_IN_SUITES: &[(&str, &str)] = &[
    (
        "resolved.",
        "what the parent told the process of a cell; here one process runs all",
    ),
    ("None", "with one trial AIPerf finds no Pareto front; here there is one"),
];

fn is_lacking(key: &str) -> bool {
    let general = LACKING.iter().flat_map(|(keys, _)| *keys);
    let of_suites = LACKING_IN_SUITES.iter().map(|(key, _)| key);
    general.chain(of_suites).any(|lacking| bare(key).starts_with(lacking))
}

/// Asserts that every file that AIPerf wrote is there, with every key of it.
fn assert_has_tree(name: &str, workplace: &Workplace) {
    let ours: Tree = tree::read(&workplace.path("results"));
    let mut missing = Vec::new();
    for (file, kinds) in &tree::recorded(name) {
        for (kind, keys) in kinds {
            let Some(found) = ours.get(file).and_then(|kinds| kinds.get(kind)) else {
                missing.push(format!("{file}: no {kind}"));
                continue;
            };
            // Whether an interval between two scrapes is there depends on how many a short phase happens to have.
            let is_there = |key: &str| is_among(found, key) || is_lacking(key) || key.ends_with("_update_interval_ms");
            let lost = keys.iter().filter(|key| !is_there(key));
            missing.extend(lost.map(|key| format!("{file}, {kind}: {key}")));
        }
    }
    assert!(missing.is_empty(), "{name}:\n{}", missing.join("\n"));
}

#[test]
fn flags_alone() {
    let server = server(None);
    let workplace = run("cli_simple", &server, 0);
    assert_eq!(counts(&workplace), (20.0, 0.0));
    let ledger = server.ledger();
    assert!(
        ledger
            .iter()
            .all(|entry| entry.tokens_sent == 8 && entry.in_flight_at_arrival <= 2)
    );
}

#[test]
fn hooks_around_phases_that_overlap() {
    let server = server(None);
    let workplace = run("hooks", &server, 0);
    assert_has_tree("hooks", &workplace);
    assert_eq!(
        control_paths(&server),
        ["/reset_prefix_cache", "/start_profile", "/stop_profile"]
    );
    let (succeeded, failed) = counts(&workplace);
    // Six requests of the warmup are in its own files.
    assert_eq!((succeeded + 6.0, failed), (server.counters().requests as f64, 0.0));
}

#[test]
fn a_third_of_the_requests_fails() {
    for name in ["edge", "edge_server_tokens"] {
        let server = server(Some("every:3:status:400"));
        let workplace = run(name, &server, 0);
        assert_eq!(counts(&workplace), (12.0, 6.0), "{name}");
        let raw = std::fs::read_to_string(workplace.path("results/profile_export_raw.jsonl")).expect("raw records");
        assert_eq!(raw.lines().count(), 18, "{name}");
    }
}

#[test]
fn every_request_fails() {
    let server = server(Some("status:500"));
    let workplace = run("all_errors", &server, 1);
    assert_eq!(counts(&workplace), (0.0, 4.0));
    // AIPerf leaves neither summary nor manifest then.
    let written = files(&workplace.path("results"));
    for file in [
        "inputs.json",
        "profile_export.jsonl",
        "profile_export_aiperf.csv",
        "phase_manifest.json",
    ] {
        assert!(written.contains(file), "{file} is not among {written:?}");
    }
}

#[test]
fn an_interrupt_in_the_second_phase() {
    let server = server(None);
    let (workplace, program) = Recorded::read("sigint", &server.url()).start(&[]);
    // The first phase sends for three seconds, so a request that comes later is one of the second.
    eventually("a request of the second phase", || {
        let ledger = server.ledger();
        let arrivals = || ledger.iter().map(|entry| entry.receive_complete_ns);
        arrivals()
            .min()
            .zip(arrivals().max())
            .is_some_and(|(first, last)| last - first > 3_500_000_000)
    });
    program.signal("INT");
    program.end().expect(130);
    assert_eq!(workplace.root()["was_cancelled"], true);
    let manifest = json(&workplace, "phase_manifest.json");
    let of = |phase: usize, key: &str| &manifest["phases"][phase][key];
    assert_eq!(
        [of(0, "was_cancelled"), of(1, "was_cancelled")],
        [&json!(false), &json!(true)]
    );
    assert!(
        [0, 1]
            .iter()
            .all(|&phase| of(phase, "successful_request_count").as_u64() > Some(0)),
        "{manifest:#}"
    );
}

#[test]
fn a_sweep_over_one_of_two_phases() {
    let server = server(None);
    let workplace = run("sweep", &server, 0);
    assert_has_tree("sweep", &workplace);
    let sweep = json(&workplace, "sweep_aggregate/profile_export_aiperf_sweep.json");
    assert_eq!(
        (&sweep["num_profile_runs"], &sweep["num_successful_runs"]),
        (&json!(2), &json!(2))
    );
    for cell in ["concurrency_2", "concurrency_4"] {
        let second = json(&workplace, &format!("{cell}/phases/second/profile_export_aiperf.json"));
        assert_eq!(second["request_count"]["avg"], 20.0, "{cell}");
    }
}

#[test]
fn trials_and_a_sweep_of_them() {
    let trials = server(None);
    let workplace = run("trials", &trials, 0);
    assert_has_tree("trials", &workplace);
    assert_eq!(trials.counters().requests, 2 * 16);
    let both = server(None);
    let workplace = run("sweep_trials", &both, 0);
    assert_has_tree("sweep_trials", &workplace);
    assert_eq!(both.counters().requests, 2 * 2 * (16 + 8));
}
