//! What once went wrong, one test each.

use std::fs;
use std::time::{Duration, Instant};

use ringload_engine::run::RunError;
use ringload_tests::{Phase, Scenario, eventually, mock};

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
