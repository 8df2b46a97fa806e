//! Servers that fall silent for ever, and requests that have no timeout: the run ends, says why, and loses count of nothing.
//!
//! With `RINGLOAD_TEST_DRIVER` all of this holds over either driver.

use std::net::TcpListener;
use std::time::Duration;

use ringload_engine::dataset::LengthDistribution;
use ringload_engine::plan::Verification;
use ringload_engine::run::DriverChoice;
use ringload_engine::units::Nanos;
use ringload_tests::books::Books;
use ringload_tests::program::{Workplace, config, phase};
use ringload_tests::server::faulty;
use ringload_tests::sys::backlog::full_listener;
use ringload_tests::{Ending, Phase, Run, Scenario, mock};

const TIMEOUT: Nanos = Nanos::from_secs(1);

/// A workflow whose requests nothing ends but answers, and the stall timeout.
fn patient(address: std::net::SocketAddr) -> Scenario {
    Scenario::new(address).without_request_timeout().stall_timeout(TIMEOUT)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn failure(run: &Run) -> &str {
    run.outcome.failure.as_deref().expect("the run failed")
}

fn stop_reason(run: &Run, phase: &str) -> String {
    let reason = &run.summary(phase)["ringload"]["stop_reason"];
    reason.as_str().expect("a word").to_owned()
}

#[test]
fn a_closed_loop_without_a_single_answer_ends_as_stalled_over_either_driver() {
    for driver in [DriverChoice::Auto, DriverChoice::Epoll] {
        let server = faulty("hang");
        let run = patient(server.address())
            .driver(driver)
            .cores(2)
            .phase(Phase::closed("baseline", 6).requests(1_000))
            .phase(Phase::closed("next", 1).requests(1))
            .run();
        let counts = run.counts("baseline");
        assert_eq!((counts.sent, counts.truncated), (6, 6), "{driver:?}");
        let line = failure(&run);
        for part in [
            "profiling phase baseline stalled: nothing sent and no byte received for 1",
            "6 requests in flight, the oldest for 1",
            &format!("; server http://{}", server.address()),
        ] {
            assert!(line.contains(part), "{part:?} is not in {line:?}");
        }
        assert_eq!(stop_reason(&run, "baseline"), "stalled");
        let summary = run.summary("baseline");
        assert_eq!(summary["ringload"]["drain_cut"], true);
        assert_eq!(summary["is_complete"], false);
        assert_eq!(run.root()["incomplete_reason"], line);
        assert_eq!(run.phases.len(), 1, "the run ends with the phase");
        for record in &run.records {
            assert_eq!(record.ending(), Ending::Truncated);
            let error = record.error.as_ref().expect("what is cut has an error");
            assert_eq!(error.kind, "RequestTruncated");
            assert!(error.message.contains("its phase stalled"), "{}", error.message);
        }
        assert_eq!(Books::complete(&run, &server).matched.len(), 6);
    }
}

#[test]
fn what_was_answered_before_the_silence_is_measured() {
    let server = faulty("every:4:hang");
    let run = patient(server.address())
        .phase(Phase::closed("load", 3).requests(1_000))
        .run();
    let counts = run.counts("load");
    // Three slots are lost to the fourth, the eighth and the twelfth request.
    assert_eq!((counts.sent, counts.succeeded, counts.truncated), (12, 9, 3));
    assert!(failure(&run).contains("phase load stalled"), "{}", failure(&run));
    assert_eq!(run.summary("load")["request_latency"]["count"], 9);
    Books::complete(&run, &server);
}

#[test]
fn streams_that_go_on_keep_a_phase_alive_although_nothing_is_counted() {
    // Each stream is several times as long as the timeout, and neither sends nor ends meanwhile.
    let server = mock(|options| {
        options.ttft = ms(100);
        options.itl = ms(200);
        options.osl = Some(25);
    });
    let run = patient(server.address())
        .stall_timeout(Nanos::from_secs(2))
        .phase(Phase::closed("load", 3).requests(3))
        .phase(Phase::closed("next", 2).lasting(ms(4_000)))
        .run();
    assert_eq!(run.outcome.failure, None);
    assert_eq!((run.counts("load").succeeded, run.counts("next").truncated), (3, 0));
    assert_eq!(stop_reason(&run, "next"), "duration");
}

#[test]
fn a_schedule_that_goes_on_is_no_stall() {
    // An arrival each two seconds, and the first request hangs.
    let server = faulty("first:1:hang");
    let run = patient(server.address())
        .drain_stall_timeout(TIMEOUT)
        .phase(Phase::constant("slow", 0.5).capped(2).requests(3))
        .run();
    assert_eq!(run.outcome.failure, None);
    let counts = run.counts("slow");
    assert_eq!((counts.succeeded, counts.truncated), (2, 1));
}

#[test]
fn users_who_think_are_no_stall_and_users_who_wait_for_ever_are_one() {
    let thinking = |fault: Option<&str>| {
        let server = mock(|options| options.fault = fault.map(|fault| fault.parse().expect("a fault")));
        patient(server.address())
            .turns(LengthDistribution::Fixed(2))
            .turn_delay(ms(2_500))
            .phase(Phase::closed("talk", 2).sessions(2))
            .run()
    };
    let run = thinking(None);
    assert_eq!((run.counts("talk").succeeded, &run.outcome.failure), (4, &None));
    let run = thinking(Some("hang"));
    assert_eq!(run.counts("talk").truncated, 2);
    assert_eq!(stop_reason(&run, "talk"), "stalled");
}

#[test]
fn phases_of_every_type_end() {
    for (phase, sent) in [
        (Phase::constant("load", 50.0).capped(3), 3),
        (Phase::poisson("load", 50.0).capped(3), 3),
        (Phase::gamma("load", 50.0, 0.5).capped(3).dropping(), 3),
        (Phase::users("load", 4, 50.0).capped(3), 3),
        (Phase::closed("load", 5).prefilling(2), 2),
        (Phase::constant("load", 50.0).prefilling(2), 2),
    ] {
        let server = faulty("hang");
        let run = patient(server.address()).cores(2).phase(phase.requests(200)).run();
        assert_eq!(run.counts("load").truncated, sent, "{:?}", run.plan.phases[0]);
        assert_eq!(stop_reason(&run, "load"), "stalled");
        Books::complete(&run, &server);
    }
}

#[test]
fn a_seamless_phase_that_never_gets_a_slot_names_those_that_hold_them() {
    let server = faulty("hang");
    let run = patient(server.address())
        .phase(Phase::closed("a", 4).requests(4))
        .phase(Phase::closed("b", 4).requests(4).seamless())
        .run();
    let line = failure(&run);
    assert!(
        line.contains("phase b stalled") && line.contains("for 4 requests of earlier phases hold its slots"),
        "{line}"
    );
    assert_eq!((run.counts("a").truncated, run.counts("b").sent), (4, 0));
    assert_eq!(
        (stop_reason(&run, "a"), stop_reason(&run, "b")),
        ("requests".into(), "stalled".into())
    );
    Books::complete(&run, &server);
}

#[test]
fn a_drain_without_end_gives_way_and_the_run_goes_on() {
    let server = faulty("first:4:hang");
    let run = patient(server.address())
        .phase(Phase::closed("a", 4).requests(4).draining_without_end())
        .phase(Phase::closed("b", 4).requests(20).seamless())
        .run();
    assert_eq!(run.outcome.failure, None);
    assert_eq!((run.counts("a").truncated, run.counts("b").succeeded), (4, 20));
    let warnings = &run.outcome.warnings;
    let told = |line: &String| line.contains("phase a stalled in its drain") && line.contains("4 requests were cut");
    assert!(warnings.iter().any(told), "{warnings:?}");
    Books::complete(&run, &server);
}

#[test]
fn connects_that_never_complete_are_silent_too() {
    let listener = full_listener();
    let address = listener.local_addr().expect("a bound socket has an address");
    let run = patient(address).phase(Phase::closed("load", 8).requests(100)).run();
    assert_eq!(run.counts("load").truncated, 8);
    assert!(failure(&run).contains("8 requests in flight"), "{}", failure(&run));
    drop(listener);
}

#[test]
fn a_handshake_that_is_never_answered_is_silence() {
    // The kernel completes the connects; nobody reads.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    let run = patient(address)
        .tls(Verification::Off)
        .phase(Phase::closed("load", 3).requests(100))
        .run();
    assert_eq!(run.counts("load").truncated, 3);
    assert_eq!(stop_reason(&run, "load"), "stalled");
    drop(listener);
}

#[test]
fn a_server_that_closes_every_connection_at_once_uses_up_the_requests() {
    let server = faulty("close-before-head");
    let run = patient(server.address())
        .phase(Phase::closed("load", 3).requests(50))
        .run();
    assert_eq!(
        (run.counts("load").failed, stop_reason(&run, "load")),
        (50, "requests".into())
    );
}

#[test]
fn the_program_says_early_that_nothing_comes_and_in_the_end_why_it_gave_up() {
    let server = faulty("hang");
    let url = server.url();
    let place = Workplace::new(&config(&url, &phase("baseline", "concurrency: 3, requests: 100")));
    let arguments = [
        "profile",
        "--config",
        "test.yaml",
        "--cores",
        "1",
        "--stall-timeout",
        "5s",
    ];
    let ended = place.run(&arguments).expect(1);
    for part in [
        "warning: phase baseline: no byte for",
        "error: profiling phase baseline stalled: nothing sent and no byte received for 5",
        "3 requests in flight",
        &format!("; server {url}"),
    ] {
        assert!(ended.stderr.contains(part), "{part:?} is not in\n{}", ended.stderr);
    }
    assert_eq!(place.root()["ringload"]["truncated_request_count"], 3);
    assert_eq!(server.ledger().len(), 3);
    assert_eq!(place.root()["is_complete"], false);
}
