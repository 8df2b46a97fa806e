//! Suites as tests run them: a config of two measured phases, and what its cells leave on the disk.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use ringload_mock_server::MockServer;
use serde_json::Value;

use crate::mock;
use crate::program::{Ended, Workplace};

/// Requests of a cell of [`config`]: those of both phases.
pub const REQUESTS: usize = 10;

/// Two measured phases with the server's cache reset before them; `more` are lines of the top level.
pub fn config(server: &MockServer, more: &str) -> String {
    format!(
        "schemaVersion: \"2.0\"\nbenchmark:\n  model: mock-model\n  endpoint:\n    url: {}/v1/chat/completions\n    type: chat\n    streaming: \
         true\n    reset_kv_cache: true\n  dataset: {{type: synthetic, entries: 4, prompts: {{isl: 8, osl: 2}}}}\n  artifacts: {{dir: ./results}}\n  \
         phases:\n    - {{name: p1, kind: profiling, type: concurrency, requests: 6}}\n    - {{name: p2, kind: profiling, type: concurrency, \
         requests: 4}}\n{more}\n",
        server.url()
    )
}

/// A server that answers at once, token by token.
pub fn quick() -> MockServer {
    mock(|options| {
        options.ttft = Duration::from_millis(1);
        options.itl = Duration::from_millis(1);
    })
}

/// Files below a folder, relative to it.
///
/// # Panics
/// If it cannot be read.
pub fn tree(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let relative = path.strip_prefix(root).expect("it lies below");
                found.insert(relative.display().to_string());
            }
        }
    }
    found
}

/// Files of one run with these phases.
pub fn run_files(place: &str, phases: &[&str]) -> BTreeSet<String> {
    let fixed = [
        ".aiperf_results_ready.json",
        "inputs.json",
        "phase_manifest.json",
        "profile_export.jsonl",
        "profile_export_aiperf.csv",
        "profile_export_aiperf.json",
        "resolved_config.yaml",
        "run_config.json",
        "server_metrics_export.csv",
        "server_metrics_export.json",
    ];
    let of_phases = phases.iter().flat_map(|phase| {
        [
            "profile_export_aiperf.csv",
            "profile_export_aiperf.json",
            "server_metrics.json",
        ]
        .map(|name| format!("{place}/phases/{phase}/{name}"))
    });
    fixed
        .iter()
        .map(|name| format!("{place}/{name}"))
        .chain(of_phases)
        .collect()
}

/// Both files of an aggregate.
pub fn aggregate_files(place: &str, name: &str) -> BTreeSet<String> {
    ["csv", "json"]
        .map(|ending| format!("{place}/profile_export_aiperf_{name}.{ending}"))
        .into()
}

/// A JSON file of the results.
///
/// # Panics
/// If it is not there or is not JSON.
pub fn json(workplace: &Workplace, relative: &str) -> Value {
    let path = workplace.path("results").join(relative);
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A scenario whose load is answered with this fault. The control routes are not asked for one: the query is that of the inference route.
pub fn faulty(server: &MockServer, name: &str, fault: &str) -> String {
    format!(
        "{{name: {name}, benchmark: {{endpoint: {{url: \"{}/v1/chat/completions?fault={fault}&cell={name}\"}}}}}}",
        server.url()
    )
}

/// A sweep of scenarios.
pub fn scenarios(runs: &[String]) -> String {
    format!("sweep: {{type: scenarios, runs: [{}]}}", runs.join(", "))
}

/// Runs a suite, which ends with this exit code.
pub fn start(server: &MockServer, more: &str, flags: &[&str], code: i32) -> (Workplace, Ended) {
    let workplace = Workplace::new(&config(server, more));
    let ended = workplace.profile(flags).expect(code);
    (workplace, ended)
}
