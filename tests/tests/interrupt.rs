//! The user ends the run (scenario 65): whatever it was doing, it ends soon, every request is accounted for, and the results are written.

use std::time::{Duration, Instant};

use ringload_engine::plan::ReadinessMode;
use ringload_engine::run::RunError;
use ringload_mock_server::MockServer;
use ringload_tests::books::Books;
use ringload_tests::server::{control_paths, faulty, scripted};
use ringload_tests::{Ending, Phase, Run, Running, Scenario, eventually, mock};

const SIGINT: i32 = 2;
/// The longest that an interrupted run may take to end.
const SOON: Duration = Duration::from_secs(5);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Interrupts a run and asserts what holds of every one that had sent load.
fn interrupt(running: Running) -> Run {
    let asked = Instant::now();
    running.interrupt(SIGINT);
    let run = running.finish();
    assert!(
        asked.elapsed() < SOON,
        "ended {:?} after the interrupt",
        asked.elapsed()
    );
    assert_eq!(run.outcome.interrupted, Some(SIGINT));
    let root = run.root();
    assert_eq!(
        (&root["was_cancelled"], &root["is_complete"]),
        (&true.into(), &false.into())
    );
    assert!(
        root["incomplete_reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("interrupted"))
    );
    assert_eq!(run.json(".aiperf_results_ready.json")["was_cancelled"], true);
    run
}

#[test]
fn s65_in_the_warmup() {
    let server = mock(|options| options.ttft = ms(30));
    let running = Scenario::new(server.address())
        .phase(Phase::closed("warmup", 4).warmup().requests(1_000_000))
        .phase(Phase::closed("profiling", 4).requests(10))
        .start();
    eventually("some load", || server.counters().requests >= 12);
    let run = interrupt(running);
    assert_eq!(run.phases.len(), 1, "the measured phase never starts");
    assert!(run.phase("warmup").was_cancelled);
    let counts = run.counts("warmup");
    assert!(counts.succeeded >= 4 && counts.failed == 0, "{counts:?}");
    Books::compare(&run, &server);
}

#[test]
fn s65_in_the_measured_phase() {
    for cores in [1, 2] {
        // Nothing returns by itself: what was sent is what is in flight.
        let server = faulty("hang");
        let running = Scenario::new(server.address())
            .cores(cores)
            .phase(Phase::closed("load", 6).requests(1_000_000))
            .phase(Phase::closed("next", 6).requests(10))
            .start();
        eventually("a full house", || server.counters().in_flight == 6);
        let run = interrupt(running);
        let counts = run.counts("load");
        assert_eq!((counts.sent, counts.truncated), (6, 6));
        assert!(run.phase("load").was_cancelled);
        assert_eq!(run.phases.len(), 1);
        Books::complete(&run, &server);
        assert_eq!(server.counters().disconnects_before_end, 6);
    }
}

#[test]
fn in_the_middle_of_streams() {
    let server = mock(|options| {
        options.itl = ms(10);
        options.osl = Some(5_000);
    });
    let running = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("load", 8).requests(1_000_000))
        .start();
    eventually("streams under way", || server.counters().in_flight == 8);
    let run = interrupt(running);
    assert_eq!(run.counts("load").truncated, 8);
    for record in &run.records {
        assert_eq!(record.ending(), Ending::Truncated);
        assert!(record.metadata.was_cancelled);
    }
    Books::complete(&run, &server);
}

#[test]
fn in_an_open_loop_with_arrivals_to_come() {
    let server = mock(|_| {});
    let running = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::poisson("load", 300.0).requests(1_000_000))
        .start();
    eventually("some load", || server.counters().requests >= 30);
    let run = interrupt(running);
    let counts = run.counts("load");
    assert!(counts.succeeded >= 20 && counts.sent < 100_000, "{counts:?}");
    Books::compare(&run, &server);
}

#[test]
fn s65_in_the_drain() {
    let server = faulty("hang");
    let running = Scenario::new(server.address())
        .phase(Phase::closed("load", 3).requests(3))
        .phase(Phase::closed("next", 3).requests(3))
        .start();
    // All 3 were sent, so nothing is left but to wait for them.
    eventually("the drain", || server.counters().in_flight == 3);
    let run = interrupt(running);
    assert_eq!(run.counts("load").truncated, 3);
    assert_eq!(run.phases.len(), 1);
    Books::complete(&run, &server);
}

#[test]
fn s25_while_phases_overlap() {
    let server = faulty("hang");
    let running = Scenario::new(server.address())
        .cores(2)
        .profiler("/start_profile", "/stop_profile")
        .phase(Phase::closed("a", 3).requests(3))
        .phase(Phase::closed("b", 7).requests(1_000_000).seamless())
        .phase(Phase::closed("c", 7).requests(10))
        .start();
    eventually("both phases in flight", || server.counters().in_flight == 7);
    let run = interrupt(running);
    assert_eq!((run.counts("a").truncated, run.counts("b").truncated), (3, 4));
    assert_eq!(run.phases.len(), 2);
    assert_eq!(control_paths(&server), ["/start_profile", "/stop_profile"]);
    Books::complete(&run, &server);
}

#[test]
fn while_cancellations_are_due() {
    let server = faulty("hang");
    let running = Scenario::new(server.address())
        .phase(Phase::closed("load", 4).requests(1_000_000).cancelling(1.0, ms(20)))
        .start();
    eventually("some load", || server.counters().requests >= 12);
    let run = interrupt(running);
    let counts = run.counts("load");
    assert!(counts.cancelled >= 8 && counts.truncated <= 4, "{counts:?}");
    Books::compare(&run, &server);
}

#[test]
fn while_nobody_answers() {
    let running = Scenario::new(ringload_tests::server::nobody())
        .phase(Phase::closed("load", 4).requests(1_000_000))
        .start();
    eventually("some load", || running.returned() > 0);
    let run = interrupt(running);
    let counts = run.counts("load");
    assert!(counts.failed > 0 && counts.succeeded == 0, "{counts:?}");
    assert_eq!(
        run.outcome.failure, None,
        "the interrupt explains that nothing succeeded"
    );
}

/// Interrupts a run that has sent no load yet: it ends soon, and sends none.
fn assert_ends_before_the_load(running: Running, server: &MockServer) {
    let asked = Instant::now();
    running.interrupt(SIGINT);
    let error = running.refused();
    assert!(matches!(error, RunError::Interrupted { signal: SIGINT }), "{error}");
    assert!(asked.elapsed() < SOON);
    assert_eq!(server.counters().requests, 0);
}

#[test]
fn s65_before_the_load_while_the_reset_is_retried() {
    let server = mock(|_| {});
    let running = Scenario::new(server.address())
        .reset("/reset_prefix_cache?fault=status:503")
        .phase(Phase::closed("load", 4).requests(10))
        .start();
    eventually("the first reset", || server.counters().reset_prefix_cache >= 1);
    assert_ends_before_the_load(running, &server);
}

#[test]
fn before_the_load_while_the_reset_is_not_answered() {
    let server = mock(|_| {});
    let running = Scenario::new(server.address())
        .hook_timeout(Duration::from_secs(40))
        .reset("/reset_prefix_cache?fault=hang")
        .phase(Phase::closed("load", 4).requests(10))
        .start();
    eventually("the reset", || server.counters().reset_prefix_cache >= 1);
    let asked = Instant::now();
    running.interrupt(SIGINT);
    let error = running.refused();
    assert!(matches!(error, RunError::Interrupted { signal: SIGINT }), "{error}");
    assert!(
        asked.elapsed() < SOON,
        "ended {:?} after the interrupt",
        asked.elapsed()
    );
    assert_eq!(server.counters().requests, 0);
}

#[test]
fn a_profiler_that_runs_is_stopped() {
    let server = faulty("hang");
    let running = Scenario::new(server.address())
        .profiler("/start_profile", "/stop_profile")
        .phase(Phase::closed("load", 2).requests(1_000_000))
        .start();
    eventually("some load", || server.counters().in_flight == 2);
    let run = interrupt(running);
    assert_eq!(run.counts("load").truncated, 2);
    assert_eq!(control_paths(&server), ["/start_profile", "/stop_profile"]);
}

#[test]
fn s65_while_the_profiler_starts() {
    let server = mock(|options| options.ttft = ms(1));
    let running = Scenario::new(server.address())
        .hook_timeout(Duration::from_secs(40))
        .profiler("/start_profile?fault=hang", "/stop_profile")
        .phase(Phase::closed("warmup", 1).warmup().requests(3))
        .phase(Phase::closed("load", 2).requests(10))
        .start();
    eventually("the start of the profiler", || server.counters().start_profile == 1);
    let asked = Instant::now();
    running.interrupt(SIGINT);
    let run = running.finish();
    assert!(
        asked.elapsed() < SOON,
        "ended {:?} after the interrupt",
        asked.elapsed()
    );
    assert_eq!(run.outcome.interrupted, Some(SIGINT));
    assert_eq!(run.phases.len(), 1);
    assert_eq!(server.counters().requests, 3, "no load follows");
    // Nobody knows whether the server profiles now, so it is told to stop.
    assert_eq!(control_paths(&server), ["/start_profile", "/stop_profile"]);
}

#[test]
fn s65_a_profiler_that_starts_after_the_run_gave_up_on_it_is_stopped_again() {
    let server = scripted(&["/start_profile=200@3300"]);
    let running = Scenario::new(server.address())
        .hook_timeout(Duration::from_secs(40))
        .profiler("/start_profile", "/stop_profile")
        .phase(Phase::closed("load", 2).requests(10))
        .start();
    eventually("the start of the profiler", || server.counters().start_profile == 1);
    let run = interrupt(running);
    assert_eq!(server.counters().requests, 0, "no load follows");
    // One stop when the run gave up on the start, and one when it was answered after all.
    eventually("the last stop", || server.counters().stop_profile == 2);
    eventually("the end of the profile", || !server.counters().profiling);
    assert_eq!(
        control_paths(&server),
        ["/start_profile", "/stop_profile", "/stop_profile"]
    );
    let hooks = run.root()["ringload"]["hooks"].clone();
    assert_eq!(
        hooks[0]["hook"], "profiler start",
        "calls that were given up are told: {hooks}"
    );
    assert_eq!(hooks[1]["hook"], "profiler stop", "{hooks}");
}

#[test]
fn s65_a_stop_that_is_not_answered_keeps_no_other_server_from_being_stopped() {
    let (a, b) = (scripted(&["/stop_profile=hang"]), scripted(&[]));
    let running = Scenario::new(a.address())
        .also(b.address())
        .hook_timeout(Duration::from_secs(40))
        .profiler("/start_profile", "/stop_profile")
        .phase(Phase::closed("load", 2).requests(1_000_000))
        .start();
    eventually("some load", || a.counters().requests > 4);
    let run = interrupt(running);
    assert_eq!(control_paths(&a), ["/start_profile", "/stop_profile"]);
    assert_eq!(control_paths(&b), ["/start_profile", "/stop_profile"]);
    assert!(!b.counters().profiling);
    let warning = run.outcome.warnings.iter().find(|line| line.contains("may still run"));
    let command = format!("curl -X POST {}/stop_profile", a.url());
    assert!(
        warning.is_some_and(|line| line.contains(&command)),
        "{:?}",
        run.outcome.warnings
    );
    let hooks = run.root()["ringload"]["hooks"].clone();
    let given_up = hooks
        .as_array()
        .into_iter()
        .flatten()
        .filter(|call| call["given_up"] == true)
        .count();
    assert_eq!(given_up, 1, "{hooks}");
}

#[test]
fn s65_before_the_load_while_the_model_is_not_ready() {
    let server = scripted(&["/v1/models=503"]);
    let running = Scenario::new(server.address())
        .wait_for_model(ReadinessMode::Models, Duration::from_secs(600), Duration::from_secs(60))
        .phase(Phase::closed("load", 4).requests(10))
        .start();
    eventually("a probe", || server.counters().other_requests >= 1);
    assert_ends_before_the_load(running, &server);
}

#[test]
fn s65_at_any_moment_of_a_hooked_run() {
    // Resets, probes, starts and stops take their time, so that each moment meets another of them.
    let slow = [
        "/v1/models=503,200:{\"data\":[{\"id\":\"mock-model\"}]}",
        "/reset_prefix_cache=200@60",
        "/start_profile=200@60",
        "/stop_profile=200@60",
    ];
    let mut moments = [0; 2];
    for step in 0..14 {
        let server = scripted(&slow);
        let running = Scenario::new(server.address())
            .cores(2)
            .wait_for_model(ReadinessMode::Models, ms(5_000), ms(50))
            .reset("/reset_prefix_cache")
            .profiler("/start_profile", "/stop_profile")
            .phase(Phase::closed("warmup", 2).warmup().requests(20))
            .phase(Phase::closed("a", 4).requests(40))
            .phase(Phase::closed("b", 4).requests(40).seamless())
            .phase(Phase::closed("settle", 2).warmup().requests(20))
            .phase(Phase::closed("c", 4).requests(1_000_000))
            .start();
        std::thread::sleep(ms(45 * step));
        let asked = Instant::now();
        running.interrupt(SIGINT);
        let outcome = running.outcome();
        assert!(
            asked.elapsed() < SOON,
            "step {step}: ended {:?} after the interrupt",
            asked.elapsed()
        );
        match outcome {
            Err(error) => {
                assert!(matches!(error, RunError::Interrupted { signal: SIGINT }), "{error}");
                moments[0] += 1;
            }
            Ok(run) => {
                assert_eq!(run.outcome.interrupted, Some(SIGINT));
                assert_eq!(run.root()["was_cancelled"], true);
                moments[1] += 1;
            }
        }
        assert!(
            !server.counters().profiling,
            "step {step}: {:?}",
            control_paths(&server)
        );
    }
    assert!(
        moments.iter().all(|&count| count > 0),
        "before and during the load: {moments:?}"
    );
}
