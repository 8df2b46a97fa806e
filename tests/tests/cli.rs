//! The program as users meet it: exit codes, what it says where, and signals.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use ringload_mock_server::MockServer;
use ringload_tests::program::{Program, Workplace, config, phase};
use ringload_tests::run::read_manifest;
use ringload_tests::server::{control_paths, faulty, nobody};
use ringload_tests::{eventually, mock};
use serde_json::Value;

#[test]
fn the_bundled_workflow_runs_against_the_built_in_server() {
    let workplace = Workplace::new("");
    let ended = workplace
        .run(&["profile", "--mock", "--ui", "none", "--output-artifact-dir", "out"])
        .expect(0);
    let phases = read_manifest(&workplace.path("out"));
    let names: Vec<(&str, &str)> = phases
        .iter()
        .map(|phase| (phase.phase_name.as_str(), phase.phase_kind.as_str()))
        .collect();
    assert_eq!(
        names,
        [
            ("warmup", "warmup"),
            ("baseline", "profiling"),
            ("cancellation_stress", "profiling"),
            ("recovery", "profiling"),
        ]
    );
    for phase in &phases {
        assert!(phase.successful_request_count > 0, "{phase:?}");
        assert!(ended.stdout.contains(&phase.phase_name), "{}", ended.stdout);
    }
    assert!(ended.stdout.contains("Time to First Token"), "{}", ended.stdout);
    assert!(workplace.path("out/phases/recovery/profile_export_aiperf.csv").exists());
}

#[test]
fn the_built_in_server_has_the_model_that_a_config_waits_for_and_ranks_where_vllm_does() {
    let waiting = config("http://replica-1:8000", &phase("profiling", "concurrency: 2, requests: 4")).replace(
        "    type: chat\n    streaming: true\n",
        "    type: cohere_rankings\n    path: /v1/rerank\n    wait_for_model_timeout: 30\n    wait_for_model_mode: both\n",
    );
    let workplace = Workplace::new(&waiting.replace("model: mock-model", "model: a-model-of-mine"));
    let ended = workplace
        .run(&["profile", "--config", "test.yaml", "--mock", "--ui", "none"])
        .expect(0);
    assert!(ended.stdout.contains("sent 4 = 4 ok"), "{}", ended.stdout);
}

#[test]
fn a_valid_config_is_called_valid_and_nothing_is_written() {
    let workplace = Workplace::new(&config(
        "http://127.0.0.1:9",
        &phase("profiling", "concurrency: 2, requests: 3"),
    ));
    let ended = workplace.run(&["config", "validate", "test.yaml"]).expect(0);
    assert!(ended.stdout.contains("test.yaml: valid"), "{}", ended.stdout);
    assert_eq!(fs::read_dir(workplace.folder()).expect("a folder").count(), 1);
}

#[test]
fn the_examples_are_valid() {
    let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples"));
    let workplace = Workplace::new("");
    let mut seen = 0;
    for entry in fs::read_dir(examples).expect("the examples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            // Examples are run from the top of the repository, where relative paths of datasets start.
            let mut validate = workplace.command(&["config", "validate", &path.display().to_string()]);
            validate.current_dir(examples.join(".."));
            Program::start(validate).end().expect(0);
            seen += 1;
        }
    }
    assert!(seen >= 4, "{seen} examples");
}

#[test]
fn mistakes_are_told_with_their_places_all_at_once_by_both_commands() {
    let server = mock(|_| {});
    let wrong = config(&server.url(), &phase("profiling", "concurency: 2, requests: -3"));
    let workplace = Workplace::new(&wrong);
    let line = wrong.lines().count();
    let validated = workplace.run(&["config", "validate", "test.yaml"]).expect(2);
    for part in [
        &format!("test.yaml:{line}:"),
        "concurency",
        "concurrency",
        "requests",
        "-3",
    ] {
        assert!(
            validated.stderr.contains(part),
            "{part} is not in\n{}",
            validated.stderr
        );
    }
    assert_eq!(validated.stdout, "");
    let profiled = workplace.profile(&[]).expect(2);
    assert_eq!(profiled.stderr, validated.stderr);
    assert!(!workplace.path("results").exists());
    assert_eq!(server.counters().connections, 0);
}

#[test]
fn a_server_that_is_not_there_fails_the_run_and_leaves_its_results() {
    let url = format!("http://{}", nobody());
    let workplace = Workplace::new(&config(&url, &phase("profiling", "concurrency: 2, requests: 10")));
    let ended = workplace.profile(&[]).expect(1);
    assert!(ended.stderr.contains("no request succeeded"), "{}", ended.stderr);
    assert!(ended.stderr.contains("refused"), "{}", ended.stderr);
    assert!(
        ended.stderr.trim_end().ends_with(&format!("; server {url}")),
        "{}",
        ended.stderr
    );
    assert_eq!(workplace.root()["error_request_count"]["avg"], 10.0);
    assert_eq!(read_manifest(&workplace.path("results"))[0].error_request_count, 10);
}

#[test]
fn s61_a_server_that_fails_every_request_fails_the_run_and_every_file_is_there() {
    let server = faulty("status:500");
    let workplace = Workplace::new(&config(
        &server.url(),
        &phase("profiling", "concurrency: 2, requests: 10"),
    ));
    let ended = workplace.profile(&[]).expect(1);
    assert!(ended.stderr.contains("no request succeeded"), "{}", ended.stderr);
    let root = workplace.root();
    assert_eq!(root["error_request_count"]["avg"], 10.0);
    let errors = root["error_summary"].as_array().expect("a list").clone();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(
        (&errors[0]["count"], &errors[0]["error_details"]["code"]),
        (&10.into(), &500.into()),
        "{errors:?}"
    );
    for file in [
        "profile_export_aiperf.json",
        "profile_export_aiperf.csv",
        "profile_export.jsonl",
        "phase_manifest.json",
        "inputs.json",
        "phases/profiling/profile_export_aiperf.json",
    ] {
        assert!(workplace.path("results").join(file).exists(), "{file}");
    }
}

#[test]
fn a_run_of_cancellations_alone_fails_and_one_good_phase_saves_it() {
    let server = mock(|_| {});
    let storm = phase(
        "storm",
        "concurrency: 2, requests: 8, cancellation: {rate: 100, delay: 0}",
    );
    Workplace::new(&config(&server.url(), &storm)).profile(&[]).expect(1);
    let saved = storm + &phase("recovery", "concurrency: 2, requests: 8");
    let workplace = Workplace::new(&config(&server.url(), &saved));
    workplace.profile(&[]).expect(0);
    assert_eq!(workplace.root()["ringload"]["cancelled"], 8);
}

#[test]
fn a_measured_phase_that_sent_nothing_fails_the_run_in_one_line() {
    let server = mock(|_| {});
    let idle = "    - {name: idle, kind: profiling, type: constant, rate: 0.5, duration: 0.2}\n";
    let phases = phase("good", "concurrency: 2, requests: 4") + idle;
    let workplace = Workplace::new(&config(&server.url(), &phases));
    let ended = workplace.profile(&[]).expect(1);
    let line = ended.only_error();
    assert!(line.contains("phase idle sent no request"), "{line}");
    assert_eq!(server.counters().requests, 4);
    assert_eq!(
        workplace.root()["ringload"]["succeeded"],
        4,
        "what was measured is written"
    );
}

#[test]
fn results_are_kept_unless_overwriting_is_asked_for() {
    let server = mock(|_| {});
    let workplace = Workplace::new(&config(
        &server.url(),
        &phase("profiling", "concurrency: 2, requests: 5"),
    ));
    workplace.profile(&[]).expect(0);
    let id = |root: &Value| root["benchmark_id"].as_str().map(str::to_owned);
    let first = id(&workplace.root());
    let refused = workplace.profile(&[]).expect(2);
    for part in ["results", "--overwrite", "results-2"] {
        assert!(refused.stderr.contains(part), "{part} is not in {}", refused.stderr);
    }
    assert_eq!(id(&workplace.root()), first);
    assert_eq!(server.counters().requests, 5);
    workplace.profile(&["--overwrite"]).expect(0);
    assert_ne!(id(&workplace.root()), first);
    workplace.profile(&["--output-artifact-dir", "elsewhere"]).expect(0);
    assert!(workplace.path("elsewhere/phase_manifest.json").exists());
    assert_eq!(server.counters().requests, 15);
}

#[test]
fn more_cores_than_there_are_is_a_usage_error() {
    let server = mock(|_| {});
    let workplace = Workplace::new(&config(
        &server.url(),
        &phase("profiling", "concurrency: 2, requests: 5"),
    ));
    let arguments = ["profile", "--config", "test.yaml", "--ui", "none", "--cores", "60000"];
    let ended = workplace.run(&arguments).expect(2);
    assert!(ended.stderr.contains("--cores 60000"), "{}", ended.stderr);
    assert_eq!(server.counters().requests, 0);
}

#[test]
fn one_seed_makes_the_same_requests_in_every_run() {
    let server = mock(|_| {});
    let workplace = Workplace::new(&config(
        &server.url(),
        &phase("profiling", "concurrency: 2, requests: 5"),
    ));
    let bodies = |seed: &str, directory: &str| {
        let more = ["--random-seed", seed, "--output-artifact-dir", directory];
        workplace.profile(&more).expect(0);
        fs::read_to_string(workplace.path(directory).join("inputs.json")).expect("the inputs")
    };
    let first = bodies("7", "a");
    assert_eq!(first, bodies("7", "b"));
    assert_ne!(first, bodies("8", "c"));
}

fn all_texts(folder: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all.push_str(&all_texts(&path));
        } else {
            all.push_str(&fs::read_to_string(&path).expect("a text"));
        }
    }
    all
}

#[test]
fn hooks_and_the_key_reach_the_server_and_the_key_nothing_else() {
    const KEY: &str = "sk-very-secret-77";
    let server = mock(|options| options.api_key = Some(KEY.to_owned()));
    let hooks = format!("type: chat\n    api_key: {KEY}\n    reset_kv_cache: true\n    server_profiler: true\n");
    let phases = phase("warmup", "concurrency: 1, requests: 2") + &phase("profiling", "concurrency: 2, requests: 6");
    let text = config(&server.url(), &phases).replace("type: chat\n", &hooks);
    let workplace = Workplace::new(&text);
    let ended = workplace.profile(&[]).expect(0);
    assert_eq!(
        control_paths(&server),
        ["/reset_prefix_cache", "/start_profile", "/stop_profile"]
    );
    assert!(server.control_log().iter().all(|call| call.authorization));
    assert_eq!(server.counters().requests, 8);
    let shown = all_texts(&workplace.path("results")) + &ended.stdout + &ended.stderr;
    assert!(!shown.contains(KEY), "the key is shown");
}

fn interrupted(server: &MockServer, signal: &str, code: i32) {
    let workplace = Workplace::new(&config(
        &server.url(),
        &phase("profiling", "concurrency: 3, duration: 10m"),
    ));
    let program = workplace.start_profile(&[]);
    eventually("some load", || server.counters().requests >= 3);
    let asked = Instant::now();
    program.signal(signal);
    let ended = program.end().expect(code);
    assert!(
        asked.elapsed() < Duration::from_secs(5),
        "ended after {:?}",
        asked.elapsed()
    );
    assert!(ended.stderr.contains("interrupted"), "{}", ended.stderr);
    let root = workplace.root();
    assert_eq!(
        (&root["was_cancelled"], &root["is_complete"]),
        (&true.into(), &false.into())
    );
    let counts = &root["ringload"];
    let count = |key: &str| counts[key].as_u64().expect("a count");
    assert_eq!(
        count("sent"),
        count("succeeded") + count("failed") + count("cancelled") + count("truncated_request_count")
    );
    assert!(read_manifest(&workplace.path("results"))[0].was_cancelled);
}

#[test]
fn s65_a_signal_ends_the_run_with_its_own_code_and_all_results() {
    interrupted(&mock(|_| {}), "INT", 130);
    interrupted(&faulty("hang"), "INT", 130);
    interrupted(&mock(|_| {}), "TERM", 143);
}

#[test]
fn s65_a_signal_before_the_load_ends_the_program_too() {
    let server = mock(|_| {});
    let hook = "type: chat\n    reset_kv_cache: {path: \"/reset_prefix_cache?fault=hang\"}\n";
    let text = config(&server.url(), &phase("profiling", "concurrency: 3, duration: 10m"));
    let workplace = Workplace::new(&text.replace("type: chat\n", hook));
    let program = workplace.start_profile(&[]);
    eventually("the reset", || server.counters().reset_prefix_cache == 1);
    let asked = Instant::now();
    program.signal("INT");
    program.end().expect(130);
    assert!(
        asked.elapsed() < Duration::from_secs(5),
        "ended after {:?}",
        asked.elapsed()
    );
    assert_eq!(server.counters().requests, 0);
}

#[test]
fn s65_a_second_signal_ends_the_program_at_once() {
    // The first one waits for the profiler's answer for some seconds: time for a second one.
    let server = mock(|_| {});
    let hook = "type: chat\n    server_profiler: {start_path: \"/start_profile?fault=hang\"}\n";
    let phases = phase("warmup", "concurrency: 1, requests: 2") + &phase("profiling", "concurrency: 3, duration: 10m");
    let workplace = Workplace::new(&config(&server.url(), &phases).replace("type: chat\n", hook));
    let program = workplace.start_profile(&[]);
    eventually("the start of the profiler", || server.counters().start_profile == 1);
    program.signal("INT");
    eventually("the note on the first signal", || {
        program.said("a second signal exits at once")
    });
    program.signal("INT");
    program.end().expect(130);
    // Nothing was written out; the records of the warmup stay in the journal.
    assert!(!workplace.path("results/profile_export_aiperf.json").exists());
    assert!(workplace.path("results/ringload.journal").exists());
}

#[test]
fn progress_goes_to_standard_error_and_results_to_standard_output() {
    let server = mock(|_| {});
    let workplace = Workplace::new(&config(
        &server.url(),
        &phase("profiling", "concurrency: 2, duration: 2500ms"),
    ));
    let output: Output = workplace
        .command(&["profile", "--config", "test.yaml", "--cores", "1"])
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(0));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert!(stderr.lines().any(|line| line.contains("profiling")), "{stderr}");
    assert!(
        stdout.contains("Request Latency") && !stderr.contains("Request Latency"),
        "{stdout}"
    );
    assert!(stdout.contains("profile_export_aiperf.json"), "{stdout}");
}

#[test]
fn too_many_failures_end_the_run_with_a_code_of_their_own() {
    let server = faulty("status:500");
    let load = phase(
        "load",
        "concurrency: 2, requests: 100000, failed_request_threshold: 0.2",
    );
    let workplace = Workplace::new(&config(&server.url(), &(load + &phase("next", "requests: 5"))));
    let ended = workplace.profile(&[]).expect(3);
    let line = ended.only_error();
    for part in [
        "profiling phase load: ",
        "a ratio of 1.000",
        "failed_request_threshold 0.2",
    ] {
        assert!(line.contains(part), "{line}");
    }
    assert_eq!(workplace.root()["was_cancelled"], true);
    assert!(server.counters().requests < 1_000);
}
