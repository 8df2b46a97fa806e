//! Seamless phases: the next one starts at the send end of the one before, and both share the slots while the older drains.

use std::time::Duration;

use ringload_mock_server::LedgerEntry;
use ringload_tests::books::{Books, server_spans, spans};
use ringload_tests::statistics::{changes, most_open};
use ringload_tests::{Ending, Phase, Run, Scenario, mock};

const MS: u64 = 1_000_000;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn first_arrival(entries: &[&LedgerEntry]) -> u64 {
    entries
        .iter()
        .map(|entry| entry.receive_complete_ns)
        .min()
        .expect("it sent")
}

fn last_answer(entries: &[&LedgerEntry]) -> u64 {
    entries
        .iter()
        .filter_map(|entry| entry.last_byte_ns)
        .max()
        .expect("it was answered")
}

/// How many of the requests were in flight at an instant of the client.
fn open_at(run: &Run, phase: &str, at: u64) -> usize {
    let spans = spans(run.records_of(phase));
    spans.iter().filter(|&&(start, end)| start <= at && at < end).count()
}

#[test]
fn s13_the_next_phase_starts_while_requests_of_the_one_before_are_in_flight() {
    let server = mock(|options| options.ttft = ms(1_000));
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("a", 4).requests(6))
        .phase(Phase::closed("b", 4).requests(8).seamless())
        .run();
    let books = Books::complete(&run, &server);
    let (a, b) = (books.of_phase("a"), books.of_phase("b"));
    assert!(first_arrival(&b) < last_answer(&a), "b starts before a has drained");
    // Slots are shared: a's second wave of 2 leaves 2 for b.
    assert_eq!(
        most_open(&server_spans(books.matched.iter().map(|(_, entry)| entry))),
        4
    );
    assert_eq!(most_open(&spans(&run.records)), 4);
    assert_eq!(server.counters().in_flight_max, 4);
    assert_eq!((run.counts("a").succeeded, run.counts("b").succeeded), (6, 8));
    assert!(run.phase("a").end_ns.expect("it ended") > run.phase("b").start_ns);
}

#[test]
fn s13_a_duration_hands_over_and_late_answers_stay_with_their_phase() {
    let server = mock(|options| options.ttft = ms(1_500));
    let run = Scenario::new(server.address())
        .phase(Phase::closed("a", 4).lasting(ms(2_300)).grace(Duration::from_secs(20)))
        .phase(Phase::closed("b", 4).requests(8).seamless())
        .run();
    let books = Books::complete(&run, &server);
    assert_eq!(most_open(&spans(&run.records)), 4);
    assert_eq!(run.counts("a").truncated, 0);
    let begin_b = run.phase("b").start_ns;
    let late = run
        .records_of("a")
        .iter()
        .filter(|record| record.metadata.request_end_ns > begin_b)
        .count();
    assert_eq!(late, 4, "the wave that was in flight at the hand-over");
    assert_eq!(run.counts("a").succeeded, run.records_of("a").len() as u64);
    let overlap = begin_b.abs_diff(run.phase("a").start_ns + 2_300 * MS);
    assert!(
        overlap < 600 * MS,
        "b starts when a's duration is over, not {overlap} ns away"
    );
    assert!(first_arrival(&books.of_phase("b")) >= last_answer(&books.of_phase("a")) - 1_000 * MS);
}

#[test]
fn s15_a_larger_successor_takes_what_is_free_at_once_and_the_rest_as_it_returns() {
    let server = mock(|options| options.ttft = ms(1_200));
    let run = Scenario::new(server.address())
        .phase(Phase::closed("a", 2).requests(2))
        .phase(Phase::closed("b", 8).requests(16).seamless())
        .run();
    Books::complete(&run, &server);
    // 2 of a hold 2 of the 8 slots until they return.
    let returns = spans(&run.records);
    let first_return = returns.iter().map(|&(_, end)| end).min().expect("there are requests");
    let before = run
        .records_of("b")
        .iter()
        .filter(|record| record.metadata.request_start_ns < first_return)
        .count();
    assert_eq!(before, 6);
    assert_eq!(most_open(&spans(&run.records)), 8);
    assert_eq!(most_open(&spans(run.records_of("b"))), 8);
}

#[test]
fn s15_a_smaller_successor_waits_until_there_is_room() {
    let server = mock(|options| options.ttft = ms(800));
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("a", 8).requests(8))
        .phase(Phase::closed("b", 3).requests(6).seamless())
        .run();
    Books::complete(&run, &server);
    assert_eq!(most_open(&spans(&run.records)), 8, "the leftover alone");
    for record in run.records_of("b") {
        let older = open_at(&run, "a", record.metadata.request_start_ns);
        let own = open_at(&run, "b", record.metadata.request_start_ns);
        assert!(older + own <= 3, "{older} of a and {own} of b at {record:?}");
    }
    assert_eq!(most_open(&spans(run.records_of("b"))), 3);
}

#[test]
fn s16_three_seamless_phases_overlap_and_each_keeps_its_own_count() {
    let server = mock(|options| options.ttft = ms(1_800));
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("a", 2).lasting(ms(300)))
        .phase(Phase::closed("b", 4).lasting(ms(300)).seamless())
        .phase(Phase::closed("c", 6).lasting(ms(300)).seamless())
        .run();
    let books = Books::complete(&run, &server);
    for (phase, count) in [("a", 2), ("b", 2), ("c", 2)] {
        // Every answer takes longer than all three phases send: each gets the slots that the ones before do not hold.
        assert_eq!(run.counts(phase).succeeded, count, "{phase}");
        assert_eq!(books.of_phase(phase).len() as u64, count, "{phase}");
    }
    let all = changes(&spans(&run.records));
    assert_eq!(all.iter().map(|&(_, open)| open).max(), Some(6), "all three at once");
    assert!(run.phase("a").end_ns.expect("it ended") > run.phase("c").start_ns);
}

#[test]
fn s18_a_phase_that_is_not_seamless_waits_for_all_before_it() {
    // The first two requests hang until they time out, those of b are quick: c must not start when b is done.
    let server = mock(|options| options.fault = Some("first:2:hang".parse().expect("a fault")));
    let run = Scenario::new(server.address())
        .request_timeout(ms(1_000))
        .phase(Phase::closed("a", 2).lasting(ms(200)))
        .phase(Phase::closed("b", 4).requests(4).seamless())
        // Large enough to have slots beside those that a holds.
        .phase(Phase::closed("c", 6).requests(6))
        .run();
    assert_eq!((run.counts("a").failed, run.counts("b").succeeded), (2, 4));
    let end_a = spans(run.records_of("a")).iter().map(|&(_, end)| end).max();
    let end_b = spans(run.records_of("b")).iter().map(|&(_, end)| end).max();
    let start_c = spans(run.records_of("c")).iter().map(|&(start, _)| start).min();
    assert!(end_b < end_a, "b has drained before a");
    assert!(start_c > end_a, "c waits for a too");
    assert!(run.phase("c").start_ns >= run.phase("a").end_ns.expect("it ended"));
    assert_eq!(run.counts("c").succeeded, 6);
}

#[test]
fn the_grace_of_one_phase_cuts_no_other() {
    let server = mock(|options| options.ttft = ms(2_000));
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("a", 3).lasting(ms(200)).grace(ms(200)))
        .phase(Phase::closed("b", 6).requests(9).seamless())
        .run();
    let counts = run.counts("a");
    assert_eq!((counts.sent, counts.truncated), (3, 3));
    // a is cut at 400 ms, when 3 requests of b are in flight: they must not notice, and b takes over a's slots.
    let cut = spans(run.records_of("a")).iter().map(|&(_, end)| end).min();
    assert_eq!(open_at(&run, "b", cut.expect("a has requests") - 1), 3);
    assert_eq!(run.counts("b").succeeded, 9);
    assert_eq!(run.ended(Ending::Truncated), 3);
    assert_eq!(most_open(&spans(run.records_of("b"))), 6);
    Books::complete(&run, &server);
    assert_eq!(server.counters().disconnects_before_end, 3);
}

#[test]
fn an_uncapped_phase_starves_no_successor() {
    let server = mock(|options| options.ttft = ms(150));
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("a", 4).requests(8))
        .phase(Phase::constant("open", 200.0).requests(60).seamless())
        .phase(Phase::closed("c", 4).requests(12).seamless())
        .run();
    assert_eq!(run.counts("open").succeeded, 60);
    assert_eq!(run.counts("c").succeeded, 12);
    assert_eq!(run.outcome.failure, None);
    // Requests of the open loop count against c's limit while they drain.
    for record in run.records_of("c") {
        let start = record.metadata.request_start_ns;
        let open = open_at(&run, "open", start) + open_at(&run, "c", start);
        assert!(open <= 4, "{open} in flight at {record:?}");
    }
    Books::complete(&run, &server);
}

#[test]
fn s22_a_warmup_hands_over_seamlessly_and_stays_out_of_the_results() {
    let server = mock(|options| options.ttft = ms(1_000));
    let run = Scenario::new(server.address())
        .phase(Phase::closed("warmup", 4).warmup().requests(4))
        .phase(Phase::closed("profiling", 6).requests(12).seamless())
        .run();
    let warm_end = spans(run.records_of("warmup")).iter().map(|&(_, end)| end).max();
    let start = spans(run.records_of("profiling")).iter().map(|&(start, _)| start).min();
    assert!(start < warm_end, "the phases overlap");
    assert_eq!(run.root()["request_count"]["avg"], 12.0);
    assert_eq!(most_open(&spans(&run.records)), 6);
    Books::complete(&run, &server);
}
