//! Phases: their order, what ends them, how they drain, and what of them is in which result.

use std::time::Duration;

use ringload_engine::units::Nanos;
use ringload_tests::books::{Books, spans};
use ringload_tests::statistics::most_open;
use ringload_tests::{Ending, Phase, Run, Scenario, mock};

const MS: u64 = 1_000_000;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// First start and last end of a phase's requests.
fn extent(run: &Run, phase: &str) -> (u64, u64) {
    let spans = spans(run.records_of(phase));
    let first = spans.iter().map(|&(start, _)| start).min();
    let last = spans.iter().map(|&(_, end)| end).max();
    (first.expect("the phase sent"), last.expect("the phase sent"))
}

/// Asserts that no request of a phase with this duration was issued outside of it.
fn assert_issued_within(run: &Run, phase: &str, duration: Duration) {
    let start = run.phase(phase).start_ns;
    let end = start + duration.as_nanos() as u64;
    for record in run.records_of(phase) {
        let issued = record.metadata.credit_issued_ns;
        assert!((start..end).contains(&issued), "{phase} {start}..{end}: {record:?}");
        // The send follows the issue in the same turn of the loop; only a stopped machine puts time between them.
        assert!(record.metadata.request_start_ns < end + 5_000 * MS, "{record:?}");
    }
}

#[test]
fn phases_run_in_order_and_wait_for_one_another() {
    let server = mock(|options| options.ttft = ms(20));
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("a", 4).requests(20))
        .phase(Phase::closed("b", 2).requests(10))
        .phase(Phase::closed("c", 6).requests(12))
        .run();
    let names: Vec<&str> = run.phases.iter().map(|phase| phase.phase_name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(extent(&run, "a").1 <= extent(&run, "b").0);
    assert!(extent(&run, "b").1 <= extent(&run, "c").0);
    for (phase, concurrency) in [("a", 4), ("b", 2), ("c", 6)] {
        assert_eq!(most_open(&spans(run.records_of(phase))), concurrency, "{phase}");
        assert!(run.phase(phase).start_ns <= extent(&run, phase).0);
        assert!(run.phase(phase).end_ns.expect("it ended") >= extent(&run, phase).1);
    }
    Books::complete(&run, &server);
}

#[test]
fn s12_warmup_is_in_its_own_results_and_in_no_aggregate() {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .phase(Phase::closed("warmup", 2).warmup().requests(5))
        .phase(Phase::closed("profiling", 2).requests(7))
        .run();
    assert_eq!(run.root()["request_count"]["avg"], 7.0);
    assert_eq!(run.root()["request_latency"]["count"], 7);
    assert_eq!(run.root()["warmup_metrics"]["request_count"]["avg"], 5.0);
    assert_eq!(run.summary("warmup")["request_count"]["avg"], 5.0);
    assert_eq!((run.counts("warmup").sent, run.counts("profiling").sent), (5, 7));
    assert_eq!(run.records.len(), 12);
    for record in run.records_of("warmup") {
        assert_eq!(
            (record.metadata.phase_kind.as_str(), record.metadata.profiling_index),
            ("warmup", None)
        );
    }
    for record in run.records_of("profiling") {
        assert_eq!(
            (record.metadata.phase_kind.as_str(), record.metadata.profiling_index),
            ("profiling", Some(0))
        );
    }
    assert!(extent(&run, "warmup").1 <= extent(&run, "profiling").0);
    Books::complete(&run, &server);
}

#[test]
fn the_clock_of_a_phase_starts_when_everything_is_ready_to_send() {
    // Much to prepare, so that a clock that ran meanwhile would show it.
    let server = mock(|options| options.fast = true);
    let run = Scenario::new(server.address())
        .entries(2_000)
        .prompt_tokens(500)
        .reset("/reset_prefix_cache")
        .phase(Phase::constant("load", 100.0).requests(20))
        .run();
    let start = run.phase("load").start_ns;
    for file in ["inputs.json", "resolved_config.yaml"] {
        let written = std::fs::metadata(run.path(file)).and_then(|metadata| metadata.modified());
        let written = written
            .expect("a file")
            .duration_since(std::time::UNIX_EPOCH)
            .expect("a time after 1970");
        assert!(
            written.as_nanos() < u128::from(start),
            "{file} was prepared after the phase began"
        );
    }
    assert!(
        run.wall_ns(server.control_log()[0].monotonic_ns) < start,
        "the reset is done before"
    );
    // The schedule counts from there: its first request is due a hundredth of a second later, not at once and behind its time.
    let intended: Vec<u64> = run
        .records
        .iter()
        .map(|record| record.metadata.credit_issued_ns)
        .collect();
    assert!(intended.iter().all(|&at| at >= start + 10 * MS), "{intended:?} {start}");
    for entry in server.ledger() {
        assert!(run.wall_ns(entry.receive_complete_ns) >= start, "{entry:?}");
    }
}

#[test]
fn the_data_set_goes_on_from_phase_to_phase() {
    let server = mock(|options| options.fast = true);
    let run = Scenario::new(server.address())
        .phase(Phase::closed("warmup", 2).warmup().requests(5))
        .phase(Phase::closed("profiling", 2).requests(7))
        .run();
    let image = |conversation: &str| {
        let conversations = &run.plan.requests.conversations;
        (0..conversations.count()).position(|at| conversations.id(at) == conversation)
    };
    for record in &run.records {
        let before = if record.metadata.phase_name == "warmup" { 0 } else { 5 };
        let expected = (before + record.metadata.session_num) as usize;
        assert_eq!(image(&record.metadata.conversation_id), Some(expected));
    }
}

#[test]
fn s04_a_duration_ends_the_starts_and_the_answers_are_waited_for() {
    let server = mock(|options| options.ttft = ms(150));
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("load", 6).lasting(ms(700)))
        .run();
    assert_issued_within(&run, "load", ms(700));
    let counts = run.counts("load");
    assert_eq!(counts.sent, counts.succeeded);
    assert!(counts.sent >= 6, "{counts:?}");
    let phase = run.phase("load");
    let end = phase.end_ns.expect("it ended");
    assert!(end >= phase.start_ns + 700 * MS, "the phase lasts as long as it says");
    assert_eq!(run.summary("load")["ringload"]["stop_reason"], "duration");
    assert_eq!(run.summary("load")["ringload"]["drain_cut"], false);
    Books::complete(&run, &server);
}

#[test]
fn s08_whichever_of_requests_and_duration_comes_first_ends_the_phase() {
    let server = mock(|options| options.ttft = ms(50));
    let run = Scenario::new(server.address())
        .phase(Phase::closed("few", 2).requests(4).lasting(Duration::from_secs(50)))
        .phase(Phase::closed("short", 2).requests(1_000_000).lasting(ms(400)))
        .run();
    assert_eq!(run.counts("few").sent, 4);
    assert_eq!(run.summary("few")["ringload"]["stop_reason"], "requests");
    let few = run.phase("few");
    assert!(
        few.end_ns.expect("it ended") < few.start_ns + 40_000 * MS,
        "the duration is not waited for"
    );
    assert_eq!(run.summary("short")["ringload"]["stop_reason"], "duration");
    assert_issued_within(&run, "short", ms(400));
    assert!((2..1_000).contains(&run.counts("short").sent));
}

#[test]
fn s06_without_grace_the_end_of_the_duration_cuts_and_the_next_phase_is_undisturbed() {
    // Nothing is answered in time but what the second phase sends: it waits long enough.
    let server = mock(|options| options.ttft = ms(1_500));
    let run = Scenario::new(server.address())
        .phase(Phase::closed("cut", 4).lasting(ms(300)).grace(Duration::ZERO))
        .phase(Phase::closed("next", 3).requests(6))
        .run();
    let counts = run.counts("cut");
    assert_eq!((counts.sent, counts.truncated), (4, 4));
    let cut_at = run.phase("cut").start_ns + 300 * MS;
    for record in run.records_of("cut") {
        assert_eq!(record.ending(), Ending::Truncated);
        assert!(record.metadata.request_end_ns >= cut_at, "cut early: {record:?}");
        assert!(
            record.metadata.request_end_ns < cut_at + 1_000 * MS,
            "cut late: {record:?}"
        );
    }
    let summary = run.summary("cut");
    assert_eq!(summary["ringload"]["drain_cut"], true);
    assert!(summary.get("request_latency").is_none() && summary.get("error_request_count").is_none());
    assert_eq!(run.counts("next").succeeded, 6);
    assert_eq!(most_open(&spans(run.records_of("next"))), 3);
    assert_eq!(run.root()["request_count"]["avg"], 6.0);
    let books = Books::complete(&run, &server);
    assert_eq!(
        server.counters().disconnects_before_end,
        4,
        "{:?}",
        books.of_phase("cut")
    );
}

#[test]
fn a_request_that_hears_nothing_ends_the_drain_and_one_that_does_goes_on() {
    let server = mock(|options| options.fault = Some("every:2:hang".parse().expect("a fault")));
    // Four streams, each longer than the patience and never silent for as long.
    let steady = mock(|options| {
        options.ttft = ms(100);
        options.itl = ms(100);
        options.osl = Some(20);
    });
    let silent = Scenario::new(server.address())
        .drain_stall_timeout(Nanos::from_secs(1))
        .phase(Phase::closed("load", 4).requests(4))
        .phase(Phase::closed("next", 1).requests(1))
        .run();
    let counts = silent.counts("load");
    assert_eq!((counts.succeeded, counts.truncated), (2, 2));
    let run = Scenario::new(steady.address())
        .drain_stall_timeout(Nanos::from_secs(1))
        .phase(Phase::closed("load", 4).requests(4))
        .run();
    assert_eq!(run.counts("load").succeeded, 4);
}

#[test]
fn s05_a_grace_period_is_measured_from_the_end_of_the_duration() {
    let server = mock(|options| options.fault = Some("hang".parse().expect("a fault")));
    let run = Scenario::new(server.address())
        .phase(Phase::closed("hung", 5).lasting(ms(300)).grace(ms(400)))
        .run();
    let counts = run.counts("hung");
    assert_eq!((counts.sent, counts.truncated), (5, 5));
    let phase = run.phase("hung");
    let end = phase.end_ns.expect("it ended");
    assert!(end >= phase.start_ns + 700 * MS, "the grace period is granted in full");
    assert!(end < phase.start_ns + 10_000 * MS, "and not for ever");
    assert!(run.outcome.failure.is_some(), "no request succeeded");
}

#[test]
fn a_grace_period_does_not_begin_early_when_the_requests_run_out() {
    let server = mock(|options| options.fault = Some("hang".parse().expect("a fault")));
    let run = Scenario::new(server.address())
        .phase(Phase::closed("hung", 3).requests(3).lasting(ms(600)).grace(ms(100)))
        .run();
    assert_eq!(run.counts("hung").truncated, 3);
    assert_eq!(run.summary("hung")["ringload"]["stop_reason"], "requests");
    let phase = run.phase("hung");
    let end = phase.end_ns.expect("it ended");
    assert!(
        end >= phase.start_ns + 700 * MS,
        "cut {} ns after the start",
        end - phase.start_ns
    );
}

#[test]
fn no_request_is_issued_at_or_after_the_end_however_quick_the_answers() {
    // Answers in microseconds: a core that learned of the end only from the coordinator would start many more until then.
    let server = mock(|options| options.fast = true);
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("a", 16).lasting(ms(200)))
        .phase(Phase::closed("b", 16).lasting(ms(200)).seamless())
        .run();
    for phase in ["a", "b"] {
        assert_issued_within(&run, phase, ms(200));
        assert!(run.counts(phase).sent > 100, "{:?}", run.counts(phase));
    }
    Books::complete(&run, &server);
}

#[test]
fn a_grace_period_that_is_not_needed_is_not_waited_for() {
    let server = mock(|options| options.ttft = ms(100));
    let run = Scenario::new(server.address())
        .phase(Phase::closed("load", 2).lasting(ms(250)).grace(Duration::from_secs(50)))
        .run();
    let phase = run.phase("load");
    assert!(phase.end_ns.expect("it ended") < phase.start_ns + 20_000 * MS);
    assert_eq!(run.counts("load").truncated, 0);
}

#[test]
fn s02_a_phase_of_one_request_ends() {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("warmup", 1).warmup().requests(1))
        .phase(Phase::closed("one", 4).requests(1))
        .phase(Phase::constant("another", 100.0).requests(1))
        .run();
    for phase in ["warmup", "one", "another"] {
        assert_eq!(run.counts(phase).succeeded, 1, "{phase}");
    }
}

#[test]
fn warmups_may_stand_between_profiling_phases() {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .phase(Phase::closed("settle", 2).warmup().requests(3))
        .phase(Phase::closed("stress", 4).requests(8))
        .phase(Phase::closed("settle_again", 2).warmup().requests(4))
        .phase(Phase::closed("final", 2).requests(6))
        .run();
    assert_eq!(run.root()["request_count"]["avg"], 14.0);
    assert_eq!(run.root()["warmup_metrics"]["request_count"]["avg"], 7.0);
    let indices: Vec<Option<u64>> = run.phases.iter().map(|phase| phase.profiling_index).collect();
    assert_eq!(indices, [None, Some(0), None, Some(1)]);
}

#[test]
fn a_workflow_of_warmup_baseline_storm_and_recovery_accounts_for_everything() {
    let server = mock(|options| {
        options.ttft = ms(10);
        options.itl = ms(2);
    });
    let run = Scenario::new(server.address())
        .cores(2)
        .entries(100)
        .phase(Phase::closed("warmup", 8).warmup().lasting(ms(400)))
        .phase(
            Phase::closed("baseline_traffic", 16)
                .lasting(ms(800))
                .cancelling(0.05, Duration::ZERO),
        )
        .phase(
            Phase::closed("cancellation_stress", 32)
                .lasting(ms(500))
                .cancelling(0.5, Duration::ZERO),
        )
        .phase(
            Phase::closed("recovery_traffic", 16)
                .lasting(ms(800))
                .cancelling(0.0, Duration::ZERO),
        )
        .run();
    assert_eq!(run.outcome.failure, None);
    for (phase, duration, concurrency) in [
        ("warmup", 400, 8),
        ("baseline_traffic", 800, 16),
        ("cancellation_stress", 500, 32),
        ("recovery_traffic", 800, 16),
    ] {
        assert_issued_within(&run, phase, ms(duration));
        assert!(most_open(&spans(run.records_of(phase))) <= concurrency, "{phase}");
        let counts = run.counts(phase);
        assert_eq!((counts.failed, counts.truncated), (0, 0), "{phase}");
        assert!(counts.succeeded > 0, "{phase}");
    }
    assert_eq!(run.counts("warmup").cancelled, 0);
    assert_eq!(run.counts("recovery_traffic").cancelled, 0);
    let share = |phase: &str| {
        let counts = run.counts(phase);
        counts.cancelled as f64 / counts.sent as f64
    };
    assert!((0.2..0.8).contains(&share("cancellation_stress")));
    assert!(share("baseline_traffic") < 0.2);
    let storm = run.counts("cancellation_stress");
    let books = Books::complete(&run, &server);
    assert_eq!(books.of_phase("cancellation_stress").len() as u64, storm.sent);
}
