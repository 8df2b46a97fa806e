//! Control hooks: called in order, at the right moment, once, and never part of the load. A test's number is the scenario's.

use std::time::Duration;

use ringload_mock_server::{ControlEntry, MockServer};
use ringload_tests::books::Books;
use ringload_tests::server::{control_paths, scripted};
use ringload_tests::{Phase, Run, Scenario, mock};

const RESET: &str = "/reset_prefix_cache";
const START: &str = "/start_profile";
const STOP: &str = "/stop_profile";

/// First arrival and last answer of a phase at the server.
fn extent(books: &Books<'_>, phase: &str) -> (u64, u64) {
    let entries = books.of_phase(phase);
    let first = entries.iter().map(|entry| entry.receive_complete_ns).min();
    let last = entries.iter().filter_map(|entry| entry.last_byte_ns).max();
    (first.expect("it sent"), last.expect("it was answered"))
}

/// The only call of a path.
fn only(server: &MockServer, path: &str) -> ControlEntry {
    let calls: Vec<ControlEntry> = server
        .control_log()
        .into_iter()
        .filter(|entry| entry.path == path)
        .collect();
    assert_eq!(calls.len(), 1, "{path}: {calls:?}");
    calls[0].clone()
}

fn with_hooks(server: &MockServer) -> Scenario {
    Scenario::new(server.address()).reset(RESET).profiler(START, STOP)
}

#[test]
fn s26_reset_warmup_start_load_stop() {
    let server = mock(|_| {});
    let run = with_hooks(&server)
        .header("Authorization", "Bearer key")
        .header("X-Tenant", "a")
        .cores(2)
        .phase(Phase::closed("warmup", 2).warmup().requests(6))
        .phase(Phase::closed("load", 4).requests(20))
        .run();
    assert_eq!(control_paths(&server), [RESET, START, STOP]);
    let books = Books::complete(&run, &server);
    let (warmup, load) = (extent(&books, "warmup"), extent(&books, "load"));
    let instants = [
        only(&server, RESET).monotonic_ns,
        warmup.0,
        warmup.1,
        only(&server, START).monotonic_ns,
        load.0,
        load.1,
        only(&server, STOP).monotonic_ns,
    ];
    assert!(instants.is_sorted(), "{instants:?}");
    for entry in server.control_log() {
        assert_eq!((entry.body_bytes, entry.body.as_str()), (0, ""), "{entry:?}");
        assert_eq!(entry.content_length, Some(0), "{entry:?}");
        assert_eq!(entry.header("authorization"), Some("Bearer key"), "{entry:?}");
        assert_eq!(entry.header("x-tenant"), Some("a"), "{entry:?}");
    }
    assert_eq!(run.records.len(), 26, "no hook is a record");
    let calls = run.root()["ringload"]["hooks"].clone();
    let told: Vec<bool> = calls
        .as_array()
        .expect("the hooks are in the facts")
        .iter()
        .map(|call| call["succeeded"].as_bool().expect("a boolean"))
        .collect();
    assert_eq!(told, [true, true, true], "{calls}");
    for (call, logged) in calls.as_array().into_iter().flatten().zip(server.control_log()) {
        assert_eq!((&call["attempts"], &call["status"]), (&1.into(), &200.into()), "{call}");
        assert_eq!(call["origin"], server.url(), "{call}");
        let start = call["start_ns"].as_u64().expect("a time");
        let end = start + call["duration_ns"].as_u64().expect("a span");
        let arrived = run.wall_ns(logged.monotonic_ns);
        // The two clocks are read at different moments, some microseconds apart.
        let slack = 1_000_000;
        assert!(
            (start - slack..end + slack).contains(&arrived),
            "{call} against {logged:?}"
        );
    }
}

#[test]
fn time_spent_in_hooks_is_in_no_phase() {
    // The reset is refused once and repeated after a second.
    let server = mock(|_| {});
    let run: Run = Scenario::new(server.address())
        .reset("/reset_prefix_cache?fault=first:1:status:503")
        .phase(Phase::closed("load", 4).requests(20))
        .run();
    assert_eq!(control_paths(&server), [RESET, RESET]);
    let phase = run.phase("load");
    let log = server.control_log();
    assert!(
        log[1].monotonic_ns - log[0].monotonic_ns >= 1_000_000_000,
        "the pause before the second attempt"
    );
    assert!(phase.start_ns >= run.wall_ns(log[1].monotonic_ns));
    let first = run.records.iter().map(|record| record.metadata.credit_issued_ns).min();
    assert!(first >= Some(phase.start_ns));
}

#[test]
fn s35_a_busy_server_is_asked_again() {
    for answer in ["unsuccessful", "409", "423", "429", "close-before-head"] {
        let server = scripted(&[&format!("{RESET}={answer},200")]);
        let run = Scenario::new(server.address())
            .reset(RESET)
            .phase(Phase::closed("load", 2).requests(4))
            .run();
        assert_eq!(control_paths(&server), [RESET, RESET], "{answer}");
        assert_eq!(run.counts("load").succeeded, 4, "{answer}");
    }
}

#[test]
fn s35_attempts_come_after_one_and_two_more_seconds_and_then_the_load() {
    let server = scripted(&[&format!("{RESET}=503,503,200")]);
    let run = Scenario::new(server.address())
        .reset(RESET)
        .phase(Phase::closed("load", 2).requests(4))
        .run();
    let at: Vec<u64> = server.control_log().iter().map(|entry| entry.monotonic_ns).collect();
    assert_eq!(at.len(), 3);
    // Later is the machine's doing, earlier would be ours.
    assert!(
        at[1] - at[0] >= 1_000_000_000 && at[2] - at[1] >= 2_000_000_000,
        "{at:?}"
    );
    let books = Books::complete(&run, &server);
    assert!(extent(&books, "load").0 > at[2]);
    let call = &run.root()["ringload"]["hooks"][0];
    assert_eq!((&call["attempts"], &call["status"]), (&3.into(), &200.into()), "{call}");
    assert!(call["duration_ns"].as_u64() >= Some(3_000_000_000), "{call}");
}

#[test]
fn s37_a_reset_that_hangs_is_limited_by_its_timeout_and_its_budget() {
    let server = scripted(&[&format!("{RESET}=hang")]);
    let error = Scenario::new(server.address())
        .hook_timeout(Duration::from_secs(1))
        .reset_budget(Duration::from_secs(3))
        .reset(RESET)
        .phase(Phase::closed("load", 2).requests(4))
        .start()
        .refused()
        .to_string();
    // The second attempt starts at 2 s and ends at 3 s; a third would start at 5 s.
    assert_eq!(control_paths(&server), [RESET, RESET], "{error}");
    assert!(error.starts_with("gave up after 2 attempts in "), "{error}");
    assert!(
        error.contains(&server.url()) && error.contains("timed out after 1"),
        "{error}"
    );
    assert_eq!(server.counters().requests, 0);
}

#[test]
fn s38_a_stop_that_hangs_delays_the_end_by_its_timeout_and_no_more() {
    let server = scripted(&[&format!("{STOP}=hang")]);
    let timeout = Duration::from_secs(1);
    let run = Scenario::new(server.address())
        .hook_timeout(timeout)
        .profiler(START, STOP)
        .phase(Phase::closed("load", 2).requests(10))
        .run();
    assert_eq!(run.outcome.failure, None);
    let warning = run
        .outcome
        .warnings
        .iter()
        .find(|line| line.contains("profiler stop failed"));
    assert!(
        warning.is_some_and(|line| line.contains("timed out")),
        "{:?}",
        run.outcome.warnings
    );
    let hooks = run.root()["ringload"]["hooks"].clone();
    let took = hooks[1]["duration_ns"].as_u64().expect("a span");
    assert!(took >= 1_000_000_000, "{hooks}");
    assert_eq!(
        (&hooks[1]["succeeded"], &hooks[1]["status"]),
        (&false.into(), &serde_json::Value::Null)
    );
    assert_eq!(run.counts("load").succeeded, 10);
}

#[test]
fn s39_a_redirect_is_refused_and_nothing_secret_is_told() {
    let server = scripted(&[&format!("{RESET}=redirect")]);
    let error = Scenario::new(server.address())
        .header("Authorization", "Bearer hidden")
        .reset(&format!("{RESET}?token=hidden"))
        .phase(Phase::closed("load", 2).requests(4))
        .start()
        .refused()
        .to_string();
    for part in [
        "redirected with status 307 to /v1/chat/completions",
        &server.url(),
        RESET,
    ] {
        assert!(error.contains(part), "{part} is not in {error}");
    }
    assert!(!error.contains("hidden") && !error.contains("scripted"), "{error}");
    assert_eq!(control_paths(&server), [RESET], "the redirect is not followed");
    assert_eq!(server.control_log()[0].query, "token=hidden");
}

#[test]
fn s32_a_start_that_fails_at_one_origin_is_taken_back_in_reverse_order_where_it_worked() {
    let servers = [scripted(&[]), scripted(&[]), scripted(&[&format!("{START}=500")])];
    let run = Scenario::new(servers[0].address())
        .also(servers[1].address())
        .also(servers[2].address())
        .profiler(START, STOP)
        .phase(Phase::closed("warmup", 3).warmup().requests(6))
        .phase(Phase::closed("load", 3).requests(6))
        .run();
    let reason = run.outcome.failure.as_deref().expect("the run failed");
    assert!(
        reason.contains(&servers[2].url()) && reason.contains("status 500"),
        "{reason}"
    );
    assert_eq!(control_paths(&servers[0]), [START, STOP]);
    assert_eq!(control_paths(&servers[1]), [START, STOP]);
    assert_eq!(control_paths(&servers[2]), [START], "what did not start is not stopped");
    let stop = |server: &MockServer| server.control_log()[1].monotonic_ns;
    assert!(
        stop(&servers[1]) < stop(&servers[0]),
        "the last one that started is stopped first"
    );
    assert_eq!(run.phases.len(), 1, "no measured load");
}

#[test]
fn s34_an_origin_gets_each_hook_once_however_many_urls_name_it() {
    let (a, b) = (mock(|_| {}), mock(|_| {}));
    let run = with_hooks(&a)
        .also_at(a.address(), "/v1/chat/completions?replica=2")
        .also(b.address())
        .phase(Phase::closed("load", 3).requests(12))
        .run();
    for server in [&a, &b] {
        assert_eq!(control_paths(server), [RESET, START, STOP]);
    }
    let calls = run.root()["ringload"]["hooks"].clone();
    assert_eq!(calls.as_array().map(Vec::len), Some(6), "{calls}");
}

#[test]
fn hooks_of_several_origins_are_called_in_order_and_all_are_stopped_whatever_one_says() {
    let (a, b) = (scripted(&[&format!("{STOP}=500")]), scripted(&[]));
    let run = Scenario::new(a.address())
        .also(b.address())
        .reset(RESET)
        .profiler(START, STOP)
        .phase(Phase::closed("load", 2).requests(8))
        .run();
    assert_eq!(run.outcome.failure, None);
    let warnings: Vec<_> = run
        .outcome
        .warnings
        .iter()
        .filter(|line| line.contains("profiler stop"))
        .collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains(&a.url()) && !warnings[0].contains(&b.url()),
        "{warnings:?}"
    );
    let (first, second) = (a.control_log(), b.control_log());
    assert_eq!((first.len(), second.len()), (3, 3));
    for (first, second) in first.iter().zip(&second) {
        assert!(
            first.monotonic_ns < second.monotonic_ns,
            "{} at both in turn",
            first.path
        );
    }
    assert!(!b.counters().profiling);
}

#[test]
fn s35_a_reset_that_is_refused_ends_the_run_before_any_load() {
    for (path, calls) in [
        ("/no_such_route", 0),
        ("/reset_prefix_cache?fault=status:400", 1),
        ("/reset_prefix_cache?fault=status:401", 1),
        ("/reset_prefix_cache?fault=redirect", 1),
    ] {
        let server = mock(|_| {});
        let error = Scenario::new(server.address())
            .reset(path)
            .profiler(START, STOP)
            .phase(Phase::closed("warmup", 1).warmup().requests(2))
            .phase(Phase::closed("load", 2).requests(4))
            .start()
            .refused()
            .to_string();
        let counters = server.counters();
        assert_eq!(
            (counters.requests, counters.reset_prefix_cache),
            (0, calls),
            "{path}: {error}"
        );
        assert_eq!((counters.start_profile, counters.stop_profile), (0, 0), "{path}");
        let named = path.split('?').next().expect("a path");
        assert!(error.contains(named), "{path}: {error}");
        assert!(
            !error.contains("scripted fault"),
            "bodies of control answers are not shown: {error}"
        );
    }
}

#[test]
fn s30_a_profiler_that_does_not_start_lets_no_measured_phase_start() {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .profiler("/start_profile?fault=status:500", STOP)
        .phase(Phase::closed("warmup", 2).warmup().requests(5))
        .phase(Phase::closed("load", 2).requests(10))
        .run();
    let reason = run.outcome.failure.as_deref().expect("the run failed");
    assert!(
        reason.contains("load") && reason.contains("profiler start failed"),
        "{reason}"
    );
    assert_eq!(run.counts("warmup").succeeded, 5);
    assert_eq!(run.phases.len(), 1, "{:?}", run.phases);
    assert_eq!(server.counters().requests, 5);
    assert_eq!(control_paths(&server), [START], "what did not start is not stopped");
    assert_eq!(run.root()["is_complete"], false);
}

#[test]
fn a_profiler_whose_start_is_not_answered_is_stopped() {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .hook_timeout(Duration::from_millis(300))
        .profiler("/start_profile?fault=hang", STOP)
        .phase(Phase::closed("warmup", 2).warmup().requests(5))
        .phase(Phase::closed("load", 2).requests(10))
        .run();
    assert!(run.outcome.failure.is_some());
    assert_eq!(server.counters().requests, 5);
    assert_eq!(control_paths(&server), [START, STOP], "it may run all the same");
}

#[test]
fn a_profiler_that_does_not_stop_is_a_warning() {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .profiler(START, "/stop_profile?fault=status:500")
        .phase(Phase::closed("load", 2).requests(10))
        .run();
    assert_eq!(run.outcome.failure, None);
    assert_eq!(run.counts("load").succeeded, 10);
    let warned = run
        .outcome
        .warnings
        .iter()
        .any(|line| line.contains("profiler stop failed"));
    assert!(warned, "{:?}", run.outcome.warnings);
}

#[test]
fn s28_a_seamless_chain_is_profiled_as_one() {
    let server = mock(|options| options.ttft = Duration::from_millis(60));
    let run = Scenario::new(server.address())
        .profiler(START, STOP)
        .phase(Phase::closed("a", 4).requests(6))
        .phase(Phase::closed("b", 4).requests(6).seamless())
        .phase(Phase::closed("c", 4).requests(6).seamless())
        .run();
    let books = Books::complete(&run, &server);
    assert!(only(&server, START).monotonic_ns < extent(&books, "a").0);
    let last = ["a", "b", "c"].map(|phase| extent(&books, phase).1);
    assert!(last.iter().all(|&end| end < only(&server, STOP).monotonic_ns));
}

#[test]
fn s29_a_warmup_between_measured_phases_is_not_profiled() {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .cores(2)
        .profiler(START, STOP)
        .phase(Phase::closed("first", 2).requests(6))
        .phase(Phase::closed("settle", 2).warmup().requests(6))
        .phase(Phase::closed("second", 2).requests(6))
        .run();
    assert_eq!(control_paths(&server), [START, STOP, START, STOP]);
    let at: Vec<u64> = server.control_log().iter().map(|entry| entry.monotonic_ns).collect();
    let books = Books::complete(&run, &server);
    let (first, settle, second) = (
        extent(&books, "first"),
        extent(&books, "settle"),
        extent(&books, "second"),
    );
    let instants = [
        at[0], first.0, first.1, at[1], settle.0, settle.1, at[2], second.0, second.1, at[3],
    ];
    assert!(instants.is_sorted(), "{instants:?}");
}

#[test]
fn control_calls_come_on_connections_of_their_own() {
    let server = mock(|_| {});
    let run = with_hooks(&server).phase(Phase::closed("load", 3).requests(30)).run();
    let books = Books::complete(&run, &server);
    let mut connections: Vec<u64> = books.matched.iter().map(|(_, entry)| entry.connection).collect();
    connections.sort_unstable();
    connections.dedup();
    assert_eq!(connections.len(), 3);
    assert!(server.counters().connections > 3, "the hooks' own are counted on top");
    assert!(
        !connections.contains(&1),
        "the reset came first, on a connection without load"
    );
}
