//! What once went wrong, one test each.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ringload_engine::run::RunError;
use ringload_tests::binary::ringload;
use ringload_tests::{Phase, Scenario, eventually, mock};
use serde_json::Value;

/// The reset blocked the run for as long as its timeout, so that Ctrl-C took half a minute.
#[test]
fn an_interrupt_does_not_wait_for_a_reset_without_an_answer() {
    let server = mock(|_| {});
    let directory = tempfile::tempdir().expect("a temporary directory");
    let running = Scenario::new(server.address())
        .directory(directory.path())
        .reset("/reset_prefix_cache?fault=hang")
        .phase(Phase::closed("load", 1).requests(1))
        .start();
    eventually("the reset at the server", || server.counters().other_requests > 0);
    let asked = Instant::now();
    running.interrupt(libc::SIGINT);
    let refusal = running.refused();
    let took = asked.elapsed();
    assert!(
        matches!(refusal, RunError::Interrupted { signal: libc::SIGINT }),
        "{refusal}"
    );
    assert!(took < Duration::from_secs(2), "the interrupt took {took:?}");
    assert_eq!(server.counters().requests, 0);
    let left: Vec<_> = fs::read_dir(directory.path()).expect("it is there").collect();
    assert!(left.is_empty(), "an unmeasured run left {left:?}");
}

/// `inputs.json` of a run that its hook had refused was taken for results, so that the same command was refused for good.
#[test]
fn a_run_that_its_reset_refused_can_be_tried_again() {
    let server = mock(|_| {});
    let directory = tempfile::tempdir().expect("a temporary directory");
    let scenario = |path: &str| {
        Scenario::new(server.address())
            .directory(directory.path())
            .reset(path)
            .phase(Phase::closed("load", 1).requests(1))
    };
    let refusal = scenario("/reset_prefix_cache?fault=status:404").start().refused();
    assert!(matches!(refusal, RunError::Control(_)), "{refusal}");
    let run = scenario("/reset_prefix_cache").run();
    assert_eq!(run.counts("load").succeeded, 1);
    assert_eq!(server.counters().requests, 1);
}

/// All connects of a turn went into one enter, which on loopback carries each of them out: a burst blinded its core until the last of them, and
/// every request of the burst was stamped with the start of the first.
#[test]
fn a_burst_of_connects_does_not_hold_up_its_first_requests() {
    let server = mock(|options| options.ttft = Duration::from_millis(300));
    let run = Scenario::new(server.address())
        .phase(Phase::closed("burst", 1_000).requests(1_000))
        .run();
    let mut connecting: Vec<f64> = run
        .records
        .iter()
        .filter_map(|record| record.metric("http_req_connecting"))
        .collect();
    connecting.sort_by(f64::total_cmp);
    assert_eq!(connecting.len(), 1_000, "every request opened a connection");
    let starts = || run.records.iter().map(|record| record.metadata.request_start_ns);
    let first = starts().min().expect("there are records");
    let last = starts().max().expect("there are records");
    let span_ms = (last - first) as f64 / 1e6 + connecting[999];
    let median = connecting[500];
    assert!(
        median < span_ms / 5.0,
        "half of the connects took more than {median} ms of the {span_ms} ms that all of them took"
    );
}

/// Runs the program with files of at most `kib` KiB and gives its exit code, its standard error and its artifact directory.
fn run_with_small_files(kib: u32, requests: u32) -> (Option<i32>, String, tempfile::TempDir) {
    let server = mock(|_| {});
    let directory = tempfile::tempdir().expect("a temporary directory");
    let config = directory.path().join("config.yaml");
    let text = format!(
        "benchmark:\n  model: m\n  endpoint: {{url: '{}', type: chat, streaming: true}}\n  dataset: {{type: synthetic, entries: 4, \
         prompts: {{isl: 16, osl: 4}}}}\n  phases: {{type: concurrency, concurrency: 64, requests: {requests}}}\n",
        server.url()
    );
    fs::write(&config, text).expect("the directory can be written");
    let output = Command::new("sh")
        // The unit of ulimit -f is 512 bytes (POSIX).
        .args(["-c", "ulimit -f \"$0\" && exec \"$@\"", &(2 * kib).to_string()])
        .arg(ringload())
        .args(["profile", "--ui", "none", "--config"])
        .arg(&config)
        .arg("--output-artifact-dir")
        .arg(directory.path().join("results"))
        .output()
        .expect("a shell runs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), told, directory)
}

fn json(directory: &Path, file: &str) -> Value {
    let path = directory.join("results").join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A file-size limit killed the process by SIGXFSZ, and an export that could not be written left figures of the records before it.
#[test]
fn an_export_that_does_not_fit_takes_nothing_else_with_it() {
    let (code, told, directory) = run_with_small_files(300, 1_000);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("profile_export.jsonl: File too large"), "{told}");
    let root = json(directory.path(), "profile_export_aiperf.json");
    assert_eq!(root["request_count"]["avg"], 1_000.0);
    assert_eq!(root["ringload"]["percentiles"], "exact");
    assert_eq!(root["is_complete"], false);
    assert_eq!(json(directory.path(), ".aiperf_results_ready.json")["partial"], true);
    let results = directory.path().join("results");
    assert!(results.join("ringload.journal").exists() && !results.join("profile_export.jsonl").exists());
}

/// With the journal cut short the run reported no figure at all, although its histograms had counted every request.
#[test]
fn a_journal_that_does_not_fit_leaves_figures_of_every_request() {
    let (code, told, directory) = run_with_small_files(150, 5_000);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("figures come from histograms"), "{told}");
    let root = json(directory.path(), "profile_export_aiperf.json");
    assert_eq!(root["ringload"]["percentiles"], "histogram");
    assert_eq!(root["request_latency"]["count"], 5_000);
    assert_eq!(root["request_count"]["avg"], 5_000.0);
    let phases = json(directory.path(), "phase_manifest.json");
    assert_eq!(phases["phases"][0]["successful_request_count"], 5_000);
}

/// A schedule that was not sent to its end was told in the file of its phase only, so that a rate that was never offered looked like one that was.
#[test]
fn a_schedule_that_was_not_sent_to_its_end_is_told() {
    let server = mock(|options| options.ttft = Duration::from_millis(100));
    let loaded = |name: &str| Phase::constant(name, 100.0).lasting(Duration::from_millis(300));
    let run = Scenario::new(server.address())
        .phase(loaded("free"))
        .phase(loaded("capped").capped(1))
        .run();
    let told: Vec<&String> = run
        .outcome
        .warnings
        .iter()
        .filter(|line| line.contains("arrivals"))
        .collect();
    let facts = run.json("phases/capped/profile_export_aiperf.json");
    let unsent = facts["ringload"]["arrivals_unsent"].as_u64().expect("a count");
    assert!(unsent > 0, "one slot of 100 ms serves no 100 arrivals a second");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with(&format!("phase capped: {unsent} arrivals ")),
        "{told:?}"
    );
}
