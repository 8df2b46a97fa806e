//! Control hooks: called in order, at the right moment, once, and never part of the load.

use std::time::Duration;

use ringload_mock_server::{ControlEntry, MockServer};
use ringload_tests::books::Books;
use ringload_tests::server::control_paths;
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
fn reset_warmup_start_load_stop() {
    let server = mock(|_| {});
    let run = with_hooks(&server)
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
fn a_busy_server_is_asked_again() {
    for fault in [
        "first:1:unsuccessful",
        "first:1:status:429",
        "first:1:close-before-head",
    ] {
        let server = mock(|_| {});
        let run = Scenario::new(server.address())
            .reset(&format!("{RESET}?fault={fault}"))
            .phase(Phase::closed("load", 2).requests(4))
            .run();
        assert_eq!(control_paths(&server), [RESET, RESET], "{fault}");
        assert_eq!(run.counts("load").succeeded, 4, "{fault}");
    }
}

#[test]
fn a_reset_that_is_refused_ends_the_run_before_any_load() {
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
fn a_profiler_that_does_not_start_lets_no_measured_phase_start() {
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
fn a_seamless_chain_is_profiled_as_one() {
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
fn a_warmup_between_measured_phases_is_not_profiled() {
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
