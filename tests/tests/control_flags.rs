//! Hooks and readiness on the command line of the program. A test's number is the scenario's.

use std::fs;
use std::path::Path;

use ringload_mock_server::MockServer;
use ringload_tests::mock;
use ringload_tests::program::{Workplace, config, phase};
use ringload_tests::server::{control_paths, scripted};

fn workplace(server: &MockServer) -> Workplace {
    let phases = phase("warmup", "concurrency: 2, requests: 4") + &phase("profiling", "concurrency: 8, requests: 20");
    Workplace::new(&config(&server.url(), &phases))
}

/// Every file below a folder as text.
fn texts(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            texts(&path, into);
        } else {
            into.push_str(&String::from_utf8_lossy(&fs::read(&path).expect("a file")));
        }
    }
}

#[test]
fn s26_two_flags_reset_and_profile_around_the_load() {
    let server = mock(|_| {});
    let workplace = workplace(&server);
    workplace.profile(&["--reset-kv-cache", "--server-profiler"]).expect(0);
    assert_eq!(
        control_paths(&server),
        ["/reset_prefix_cache", "/start_profile", "/stop_profile"]
    );
    let calls: Vec<u64> = server.control_log().iter().map(|call| call.monotonic_ns).collect();
    let ledger = server.ledger();
    let (warmup, load) = ledger.split_at(4);
    let first = |entries: &[ringload_mock_server::LedgerEntry]| entries[0].receive_complete_ns;
    let last =
        |entries: &[ringload_mock_server::LedgerEntry]| entries.iter().filter_map(|entry| entry.last_byte_ns).max();
    let story = [
        calls[0],
        first(warmup),
        last(warmup).expect("answers"),
        calls[1],
        first(load),
        last(load).expect("answers"),
        calls[2],
    ];
    assert!(story.is_sorted(), "{story:?}");
    assert_eq!(ledger.len(), 24, "no hook is a request");
    let records = fs::read_to_string(workplace.path("results/profile_export.jsonl")).expect("records");
    assert_eq!(records.lines().count(), 24, "no hook is a record");
    assert_eq!(
        workplace.root()["input_config"]["endpoint"]["reset_kv_cache"],
        serde_json::json!({})
    );
}

#[test]
fn a_preset_and_paths_of_flags_reach_the_server_and_the_file_can_be_overruled() {
    let server = scripted(&["/begin=200", "/end=200"]);
    let workplace = workplace(&server);
    workplace
        .profile(&[
            "--reset-kv-cache",
            "--server-preset",
            "sglang",
            "--server-profiler-start-path",
            "/begin",
            "--server-profiler-stop-path=/end",
        ])
        .expect(0);
    assert_eq!(control_paths(&server), ["/flush_cache", "/begin", "/end"]);
}

#[test]
fn a_server_that_runs_requests_refuses_the_flush_and_the_message_says_what_to_do() {
    let server = scripted(&["/flush_cache=400"]);
    let workplace = workplace(&server);
    let ended = workplace
        .profile(&["--reset-kv-cache", "--server-preset", "sglang"])
        .expect(1);
    for part in [
        "kv-cache reset",
        &server.url(),
        "/flush_cache",
        "status 400",
        "while requests run",
    ] {
        assert!(ended.stderr.contains(part), "{part} is not in {}", ended.stderr);
    }
    assert_eq!(server.counters().requests, 0);
}

#[test]
fn s41_paths_and_times_that_cannot_work_are_refused_with_their_place_before_anything_is_sent() {
    let server = mock(|_| {});
    for (hooks, key) in [
        ("reset_kv_cache: {path: \"http://x\"}", "reset_kv_cache.path"),
        ("reset_kv_cache: {path: //x}", "reset_kv_cache.path"),
        ("server_profiler: {start_path: /a b}", "server_profiler.start_path"),
        (
            "server_profiler: {timeout_seconds: 0}",
            "server_profiler.timeout_seconds",
        ),
        (
            "reset_kv_cache: {max_retry_seconds: -1}",
            "reset_kv_cache.max_retry_seconds",
        ),
        ("wait_for_model_timeout: -1", "wait_for_model_timeout"),
    ] {
        let text = config(&server.url(), &phase("profiling", "concurrency: 2, requests: 3"))
            .replace("    streaming: true\n", &format!("    streaming: true\n    {hooks}\n"));
        let line = text
            .lines()
            .position(|line| line.contains(hooks))
            .expect("it was put there")
            + 1;
        let workplace = Workplace::new(&text);
        for ended in [
            workplace.run(&["config", "validate", "test.yaml"]).expect(2),
            workplace.profile(&[]).expect(2),
        ] {
            let place = format!("test.yaml:{line}:");
            assert!(
                ended.stderr.contains(&place) && ended.stderr.contains(key),
                "{hooks}: {}",
                ended.stderr
            );
        }
    }
    let workplace = workplace(&server);
    for flags in [
        ["--reset-kv-cache-path", "http://x"],
        ["--server-profiler-stop-path", "//x"],
        ["--reset-kv-cache-timeout-seconds", "0"],
        ["--server-preset", "vllm"],
        ["--wait-for-model-interval", "1"],
    ] {
        let ended = workplace.profile(&flags).expect(2);
        assert!(ended.stderr.contains(flags[0]), "{flags:?}: {}", ended.stderr);
    }
    assert_eq!(server.counters().connections, 0);
}

#[test]
fn a_key_in_the_path_of_a_hook_is_nowhere_in_the_artifacts() {
    let server = mock(|_| {});
    let workplace = workplace(&server);
    let ended = workplace
        .profile(&["--reset-kv-cache-path=/reset_prefix_cache?token=hunter2"])
        .expect(0);
    assert_eq!(server.control_log()[0].query, "token=hunter2");
    let mut all = ended.stdout + &ended.stderr;
    texts(&workplace.path("results"), &mut all);
    assert!(all.contains("reset_prefix_cache") && !all.contains("hunter2"));
}

#[test]
fn a_wait_for_the_model_is_told_and_ends_with_one_line() {
    let server = scripted(&["/v1/models=503"]);
    let workplace = workplace(&server);
    let flags = [
        "--wait-for-model-timeout=300ms",
        "--wait-for-model-interval=50ms",
        "--wait-for-model-mode=models",
    ];
    let ended = workplace.profile(&flags).expect(1);
    assert!(ended.stderr.contains("waiting up to 0.3 s"), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("is not ready after") && ended.stderr.contains("status 503"),
        "{}",
        ended.stderr
    );
    assert_eq!(server.counters().requests, 0);
    let ready = mock(|_| {});
    let workplace = self::workplace(&ready);
    workplace.profile(&flags).expect(0);
    assert_eq!(ready.counters().requests, 24);
}
