//! Limits beside the concurrency: prefills over all cores, limits that ramp up, and failures that end the run.

use std::collections::HashSet;
use std::time::Duration;

use ringload_engine::plan::RampStrategy;
use ringload_mock_server::LedgerEntry;
use ringload_tests::books::{Books, spans};
use ringload_tests::server::faulty;
use ringload_tests::statistics::most_open;
use ringload_tests::{Ending, Phase, Record, Run, Scenario, mock};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Client-side spans from the issue of requests to their first token, or to their end without one.
fn prefills<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<(u64, u64)> {
    records
        .into_iter()
        .map(|record| {
            let start = record.metadata.credit_issued_ns;
            let first = record
                .metric_ns("time_to_first_token")
                .map(|span| record.metadata.request_start_ns + span);
            (start, first.unwrap_or(record.metadata.request_end_ns))
        })
        .collect()
}

/// Server-side spans of prefill: from the arrival of a request to its first token.
///
/// The mock stamps a token before the client can have seen it, and a request after the client has sent it, so a client that keeps the limit is
/// never seen to break it.
fn served_prefills<'a>(entries: impl IntoIterator<Item = &'a LedgerEntry>) -> Vec<(u64, u64)> {
    entries
        .into_iter()
        .map(|entry| {
            let end = entry.first_token_ns.or(entry.last_byte_ns);
            (entry.receive_complete_ns, end.unwrap_or(entry.receive_complete_ns))
        })
        .collect()
}

fn workers(run: &Run) -> usize {
    let workers: HashSet<&str> = run
        .records
        .iter()
        .map(|record| record.metadata.worker_id.as_str())
        .collect();
    workers.len()
}

#[test]
fn prefills_stay_within_their_limit_over_all_cores_and_decodes_run_beside_them() {
    for (cores, limit) in [(1, 1), (1, 3), (2, 1), (2, 2), (2, 3)] {
        let server = mock(|options| {
            options.ttft = ms(15);
            options.itl = ms(20);
            options.osl = Some(6);
        });
        let run = Scenario::new(server.address())
            .cores(cores)
            .phase(Phase::closed("load", 12).prefilling(limit).requests(80))
            .run();
        let what = format!("{cores} cores, {limit} prefills");
        let books = Books::complete(&run, &server);
        assert_eq!(run.counts("load").succeeded, 80, "{what}");
        let seen = served_prefills(books.matched.iter().map(|(_, entry)| entry));
        assert_eq!(most_open(&seen), limit as usize, "{what}: at the server");
        assert_eq!(
            most_open(&prefills(&run.records)),
            limit as usize,
            "{what}: at the client"
        );
        // A prefill takes 15 ms and its decode 100 ms: requests overlap although their prefills do not.
        assert!(most_open(&spans(&run.records)) > limit as usize + 1, "{what}");
        assert_eq!(workers(&run), usize::from(cores), "{what}: no core starves");
    }
}

#[test]
fn with_one_prefill_slot_two_cores_take_turns() {
    // Decodes are over at once, so each core always has requests that want the slot: were it not handed over, one core would keep it.
    let server = mock(|options| {
        options.ttft = ms(3);
        options.itl = Duration::ZERO;
        options.osl = Some(1);
    });
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("load", 8).prefilling(1).requests(200))
        .run();
    assert_eq!(most_open(&prefills(&run.records)), 1);
    let first = &run.records[0].metadata.worker_id;
    let of_first = run
        .records
        .iter()
        .filter(|record| record.metadata.worker_id == *first)
        .count();
    assert!((80..=120).contains(&of_first), "{of_first} of 200 on one of two cores");
    Books::complete(&run, &server);
}

#[test]
fn requests_that_end_without_a_token_give_their_prefill_slot_back() {
    // Disconnected, refused and hanging until the timeout: each kind would block everything behind it.
    for (fault, phase) in [
        ("hang", Phase::closed("load", 6).cancelling(1.0, ms(5))),
        ("status:500", Phase::closed("load", 6)),
        ("reset-before-head", Phase::closed("load", 6)),
        ("first:6:hang", Phase::closed("load", 6)),
    ] {
        let server = faulty(fault);
        let run = Scenario::new(server.address())
            .cores(2)
            .request_timeout(ms(300))
            .phase(phase.prefilling(1).requests(24))
            .run();
        assert_eq!(run.counts("load").sent, 24, "{fault}");
        assert_eq!(most_open(&prefills(&run.records)), 1, "{fault}");
    }
}

#[test]
fn an_open_loop_waits_for_prefill_slots_in_order() {
    let server = mock(|options| options.ttft = ms(20));
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::constant("load", 200.0).prefilling(2).requests(60))
        .run();
    assert_eq!(run.counts("load").succeeded, 60);
    assert_eq!(most_open(&prefills(&run.records)), 2);
    // The limit lets 100 a second through, half of what is offered: later arrivals wait, and their wait is on record.
    let lag = |record: &Record| record.metadata.request_start_ns - record.ringload.intended_start_ns;
    let last = run.records.iter().max_by_key(|record| record.metadata.session_num);
    assert!(last.map(lag) > Some(200_000_000), "{last:?}");
    Books::complete(&run, &server);
}

#[test]
fn prefills_of_an_earlier_phase_count_against_the_limit_of_a_seamless_one() {
    let server = mock(|options| {
        options.ttft = ms(400);
        options.itl = ms(5);
    });
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("a", 6).requests(6))
        .phase(Phase::closed("b", 20).prefilling(2).requests(8).seamless())
        .run();
    let books = Books::complete(&run, &server);
    let spans_a = prefills(run.records_of("a"));
    for record in run.records_of("b") {
        let at = record.metadata.request_start_ns;
        let older = spans_a.iter().filter(|&&(start, end)| start <= at && at < end).count();
        assert!(older < 2, "{older} prefills of a are open at {record:?}");
    }
    assert_eq!(most_open(&served_prefills(books.of_phase("b"))), 2);
    assert_eq!(run.counts("b").succeeded, 8);
}

#[test]
fn a_duration_ends_the_wait_for_a_prefill_slot() {
    let server = faulty("hang");
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("a", 8).prefilling(3).lasting(ms(300)).grace(ms(100)))
        .phase(Phase::closed("b", 4).prefilling(2).lasting(ms(200)).grace(ms(100)))
        .run();
    for (phase, sent) in [("a", 3), ("b", 2)] {
        let counts = run.counts(phase);
        assert_eq!((counts.sent, counts.truncated), (sent, sent), "{phase}");
    }
}

/// Starts of the requests of a phase since its start, in seconds and in order.
fn starts(run: &Run, phase: &str) -> Vec<f64> {
    let zero = run.phase(phase).start_ns;
    let records = run.records_of(phase);
    let mut starts: Vec<f64> = records
        .iter()
        .map(|record| (record.metadata.credit_issued_ns - zero) as f64 / 1e9)
        .collect();
    starts.sort_by(f64::total_cmp);
    starts
}

#[test]
fn s57_a_ramp_adds_a_request_at_each_of_its_steps() {
    for (cores, strategy, due) in [
        (1, RampStrategy::Linear, (|share| share) as fn(f64) -> f64),
        (2, RampStrategy::Linear, |share| share),
        (2, RampStrategy::Exponential, f64::sqrt),
    ] {
        let server = faulty("hang");
        let run = Scenario::new(server.address())
            .cores(cores)
            .phase(
                Phase::closed("load", 10)
                    .ramped(ms(1_500), strategy)
                    .lasting(ms(1_700))
                    .grace(Duration::ZERO),
            )
            .run();
        let starts = starts(&run, "load");
        assert_eq!(starts.len(), 10, "{strategy:?} on {cores} cores");
        for (k, &start) in starts.iter().enumerate() {
            let due = 1.5 * due(k as f64 / 9.0);
            // Never early; late as the machine is.
            assert!(
                start >= due - 1e-6,
                "{strategy:?}: request {k} at {start}, due at {due}"
            );
        }
        assert!(
            starts[8] < 1.69,
            "{strategy:?}: the steps are spread over the ramp: {starts:?}"
        );
    }
}

#[test]
fn a_prefill_ramp_lets_prefills_in_one_by_one() {
    let server = faulty("hang");
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(
            Phase::closed("load", 12)
                .prefilling(4)
                .prefill_ramped(ms(900), RampStrategy::Linear)
                .lasting(ms(1_200))
                .grace(Duration::ZERO),
        )
        .run();
    let starts = starts(&run, "load");
    assert_eq!(starts.len(), 4);
    for (k, &start) in starts.iter().enumerate() {
        assert!(start >= 0.3 * k as f64 - 1e-6, "{starts:?}");
    }
}

#[test]
fn too_many_failures_end_the_run_and_leave_its_results() {
    for cores in [1, 2] {
        let server = faulty("status:503");
        let run = Scenario::new(server.address())
            .cores(cores)
            .phase(Phase::closed("load", 4).requests(1_000_000).failing_at(0.3))
            .phase(Phase::closed("next", 4).requests(10))
            .run();
        let line = run.outcome.threshold_missed.as_deref().expect("everything fails");
        assert!(
            line.contains("phase load: ") && line.contains("failed_request_threshold 0.3"),
            "{line}"
        );
        assert_eq!((run.outcome.failure.as_deref(), run.outcome.interrupted), (None, None));
        assert_eq!(run.phases.len(), 1, "the next phase never starts");
        assert!(run.phase("load").was_cancelled);
        let counts = run.counts("load");
        assert!(counts.failed >= 10 && counts.sent < 1_000_000, "{counts:?}");
        let root = run.root();
        assert_eq!(
            (&root["was_cancelled"], &root["is_complete"]),
            (&true.into(), &false.into())
        );
        assert_eq!(root["incomplete_reason"].as_str(), Some(line));
    }
}

#[test]
fn requests_in_flight_are_cut_when_the_threshold_is_missed() {
    let server = faulty("every:2:status:500");
    let run = Scenario::new(server.address())
        .phase(Phase::closed("load", 4).requests(1_000_000).failing_at(0.4))
        .run();
    assert!(run.outcome.threshold_missed.is_some());
    let ended = run.ended(Ending::Failed) + run.ended(Ending::Succeeded);
    assert!(ended >= 10 && run.ended(Ending::Truncated) <= 4, "{ended} ended");
}
