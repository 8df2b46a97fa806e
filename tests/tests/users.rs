//! `user_centric` phases: who begins when, how users pace themselves, and what ends them.

use std::collections::BTreeMap;
use std::time::Duration;

use ringload_engine::dataset::LengthDistribution;
use ringload_tests::books::Books;
use ringload_tests::sessions::{Session, sessions};
use ringload_tests::{Phase, Run, Scenario, mock};

const MS: u64 = 1_000_000;

/// Starts of sessions in ticks of `tick_ns`, with their turns; every start within a microsecond of a tick.
fn starts(run: &Run, sessions: &BTreeMap<String, Session<'_>>, tick_ns: u64) -> Vec<(u64, usize)> {
    let begin = run.phase("load").start_ns;
    let start = |session: &Session<'_>| {
        let intended = session.turns[0].0.ringload.intended_start_ns - begin;
        let tick = (intended + tick_ns / 2) / tick_ns;
        assert!(
            intended.abs_diff(tick * tick_ns) < 1_000,
            "{intended} ns is between two ticks"
        );
        (tick, session.turns.len())
    };
    let mut starts: Vec<(u64, usize)> = sessions.values().map(start).collect();
    starts.sort_unstable();
    starts
}

#[test]
fn s58_users_begin_as_the_formula_says_and_send_once_per_round() {
    for cores in [1, 2] {
        let server = mock(|options| options.keep_messages = true);
        // Five users, one turn in 10 ms over all: 50 ms from turn to turn of one user. Conversations of four turns make histories of three.
        let run = Scenario::new(server.address())
            .turns(LengthDistribution::Fixed(4))
            .cores(cores)
            .phase(Phase::users("load", 5, 100.0).sessions(8))
            .run();
        let books = Books::complete(&run, &server);
        let sessions = sessions(&run, &books);
        let starts = starts(&run, &sessions, 10 * MS);
        // Ages 15, 12, 9, 6, 3 of users 0 to 4; turns left 3 - age / 5, offset 5 - age mod 5; user 0 is done, and a fresh one takes its offset.
        let first = [(0, 4), (1, 2), (2, 3), (3, 1), (4, 2)];
        assert_eq!(starts[..5], first);
        // Successors: of the one-turn user a round after tick 3, then of those with two turns.
        assert_eq!(starts[5..], [(8, 4), (11, 4), (14, 4)]);
        assert_eq!(run.counts("load").sent, 12 + 12);
        for session in sessions.values() {
            for pair in session.turns.windows(2) {
                let gap = pair[1].0.ringload.intended_start_ns - pair[0].0.ringload.intended_start_ns;
                assert!(gap + 1_000 >= 50 * MS, "{gap} ns from turn to turn");
            }
        }
    }
}

#[test]
fn a_turn_that_returns_late_moves_all_later_turns_of_its_user() {
    let server = mock(|options| options.ttft = Duration::from_millis(80));
    let run = Scenario::new(server.address())
        .turns(LengthDistribution::Fixed(3))
        .phase(Phase::users("load", 1, 20.0).sessions(2))
        .run();
    let mut turns: Vec<_> = run.records.iter().collect();
    turns.sort_by_key(|record| (record.metadata.x_correlation_id.clone(), record.metadata.turn_index));
    for pair in turns.windows(2).filter(|pair| pair[1].metadata.turn_index > 0) {
        let (before, next) = (&pair[0].metadata, &pair[1]);
        assert!(
            next.ringload.intended_start_ns + 1_000 >= before.request_end_ns,
            "due at the return"
        );
        assert!(next.metadata.request_start_ns >= before.request_end_ns);
    }
    // The second user begins three rounds of 50 ms after the first, whatever became of that one.
    let mut begins: Vec<u64> = turns
        .iter()
        .filter(|record| record.metadata.turn_index == 0)
        .map(|record| record.ringload.intended_start_ns)
        .collect();
    begins.sort_unstable();
    assert!((begins[1] - begins[0]).abs_diff(150 * MS) < 1_000, "{begins:?}");
}

#[test]
fn requests_are_exact_and_numbered_without_gaps_on_any_number_of_cores() {
    for cores in [1, 2] {
        let server = mock(|options| options.fast = true);
        let run = Scenario::new(server.address())
            .turns(LengthDistribution::Normal { mean: 5.0, stddev: 2.0 })
            .cores(cores)
            .phase(
                Phase::users("load", 40, 2_000.0)
                    .requests(333)
                    .cancelling(0.2, Duration::ZERO),
            )
            .run();
        assert_eq!(run.counts("load").sent, 333);
        let mut numbers: Vec<u64> = run.records.iter().map(|record| record.metadata.session_num).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..333));
    }
}

#[test]
fn a_cap_keeps_users_waiting_in_order_and_loses_none() {
    let server = mock(|options| options.keep_messages = true);
    let run = Scenario::new(server.address())
        .turns(LengthDistribution::Fixed(3))
        .phase(Phase::users("load", 6, 600.0).capped(2).sessions(9))
        .run();
    let books = Books::complete(&run, &server);
    let sessions = sessions(&run, &books);
    assert_eq!(sessions.len(), 9);
    let open: Vec<(u64, u64)> = sessions.values().map(Session::span).collect();
    assert!(ringload_tests::statistics::most_open(&open) <= 2);
}

#[test]
fn a_duration_ends_users_midway() {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .turns(LengthDistribution::Fixed(50))
        .cores(2)
        .phase(Phase::users("load", 10, 500.0).lasting(Duration::from_millis(300)))
        .run();
    let sent = run.counts("load").sent;
    assert!((10..=150).contains(&sent), "{sent} requests in 0.3 s at 500 per second");
    assert_eq!(run.outcome.failure, None);
}
