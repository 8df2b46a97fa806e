//! The wait for the server: before everything else, as long as allowed, and no part of the load.

use std::time::Duration;

use ringload_engine::plan::ReadinessMode;
use ringload_tests::server::{control_paths, faulty, nobody, scripted};
use ringload_tests::{Phase, Run, Scenario, mock};

const PATIENT: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(50);

fn load(scenario: Scenario) -> Scenario {
    scenario.phase(Phase::closed("load", 2).requests(6))
}

/// The records are those of the load, whatever the server saw before it.
fn assert_only_load(run: &Run) {
    assert_eq!((run.records.len(), run.counts("load").succeeded), (6, 6));
}

#[test]
fn a_model_is_waited_for_until_it_is_listed_and_only_then_comes_the_reset() {
    let listed = r#"200:{"data":[{"id":"mock-model"}]}"#;
    let other = r#"200:{"data":[{"id":"another"}]}"#;
    let server = scripted(&[&format!("/v1/models=503,close-before-head,{other},{listed}")]);
    let scenario = Scenario::new(server.address())
        .wait_for_model(ReadinessMode::Models, PATIENT, SHORT)
        .reset("/reset_prefix_cache");
    assert_only_load(&load(scenario).run());
    assert_eq!(control_paths(&server), ["/reset_prefix_cache"]);
    // Four probes and the reset.
    assert_eq!((server.counters().other_requests, server.counters().requests), (5, 6));
}

#[test]
fn a_server_is_waited_for_until_it_answers_a_request_for_one_token() {
    let server = faulty("first:2:status:503");
    let scenario = Scenario::new(server.address()).wait_for_model(ReadinessMode::Inference, PATIENT, SHORT);
    assert_only_load(&load(scenario).run());
    // Two probes that failed, one that did not, and the load.
    assert_eq!(server.counters().requests, 2 + 1 + 6);
}

#[test]
fn both_means_the_list_and_a_token_at_every_server() {
    let servers = [mock(|_| {}), mock(|_| {})];
    let scenario = Scenario::new(servers[0].address())
        .also(servers[1].address())
        .wait_for_model(ReadinessMode::Both, PATIENT, SHORT);
    assert_only_load(&load(scenario).run());
    for server in &servers {
        assert_eq!(
            (server.counters().other_requests, server.counters().requests),
            (1, 1 + 3)
        );
    }
}

#[test]
fn a_server_that_never_gets_ready_ends_the_run_with_one_line() {
    let address = nobody();
    let error = load(Scenario::new(address).wait_for_model(
        ReadinessMode::Inference,
        Duration::from_millis(300),
        Duration::from_millis(100),
    ))
    .start()
    .refused()
    .to_string();
    for part in [
        "mock-model",
        &address.to_string(),
        "not ready after",
        "refused",
        "wait_for_model_timeout",
    ] {
        assert!(error.contains(part), "{part} is not in {error}");
    }
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn a_probe_that_is_not_answered_is_left_at_the_deadline_and_nothing_else_is_sent() {
    let server = scripted(&["/v1/models=hang"]);
    let scenario = Scenario::new(server.address())
        .wait_for_model(ReadinessMode::Models, Duration::from_millis(300), SHORT)
        .reset("/reset_prefix_cache");
    let error = load(scenario).start().refused().to_string();
    assert!(error.contains("timed out") && error.contains("(1 probe)"), "{error}");
    assert_eq!(
        (server.counters().requests, server.counters().reset_prefix_cache),
        (0, 0)
    );
}
