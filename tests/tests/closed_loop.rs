//! Closed loop: exactly the requests asked for, never more in flight than allowed, and always as many as allowed.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use ringload_tests::books::{Books, server_spans, spans};
use ringload_tests::statistics::{changes, mean_open, most_open};
use ringload_tests::{Ending, Phase, Run, Scenario, mock};

#[test]
fn s01_exactly_the_requests_asked_for_are_sent_on_any_number_of_cores() {
    for (requests, concurrency) in [(1, 4), (3, 8), (10, 4), (1000, 16)] {
        for cores in [1, 2] {
            let server = mock(|options| options.fast = true);
            let run = Scenario::new(server.address())
                .cores(cores)
                .phase(Phase::closed("load", concurrency).requests(requests))
                .run();
            let what = format!("{requests} requests on {cores} cores");
            assert_eq!(run.counts("load").sent, requests, "{what}");
            assert_eq!(run.ended(Ending::Succeeded) as u64, requests, "{what}");
            assert_eq!(server.counters().requests, requests, "{what}");
            assert_eq!(Books::complete(&run, &server).matched.len() as u64, requests, "{what}");
            assert_eq!(run.outcome.failure, None, "{what}");
        }
    }
}

#[test]
fn s03_fewer_requests_than_slots_start_together_and_no_other_follows() {
    let server = mock(|options| options.ttft = Duration::from_millis(1_000));
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("load", 8).requests(3))
        .run();
    let books = Books::complete(&run, &server);
    assert_eq!(books.matched.len(), 3);
    assert_eq!(server.counters().in_flight_max, 3);
    assert_eq!(most_open(&spans(&run.records)), 3);
}

/// Asserts that a run of one phase held its concurrency: never above, and at it from the first arrivals to the last start.
fn assert_plateau(run: &Run, books: &Books<'_>, concurrency: usize) {
    let arrivals: Vec<u64> = books
        .matched
        .iter()
        .map(|(_, entry)| entry.in_flight_at_arrival)
        .collect();
    assert_eq!(
        arrivals.iter().max(),
        Some(&(concurrency as u64)),
        "in flight at arrival"
    );
    let seen = server_spans(books.matched.iter().map(|(_, entry)| entry));
    assert_eq!(most_open(&seen), concurrency, "in flight at the server");
    let held = spans(&run.records);
    assert_eq!(most_open(&held), concurrency, "in flight at the client");
    // From the moment at which all slots are taken to the last start a free slot takes the next request at once. What is missing from the
    // full number is the time between an answer and its successor: microseconds beside answers of 40 ms and more.
    let full = changes(&held)
        .into_iter()
        .find(|&(_, open)| open == concurrency)
        .expect("the plateau is reached")
        .0;
    let last = held.iter().map(|&(start, _)| start).max().expect("there are requests");
    let mean = mean_open(&held, full, last);
    assert!(
        mean > 0.9 * concurrency as f64,
        "{mean:.2} of {concurrency} in flight on average"
    );
}

#[test]
fn the_concurrency_is_held_and_never_exceeded() {
    let server = mock(|options| options.ttft = Duration::from_millis(40));
    let run = Scenario::new(server.address())
        .phase(Phase::closed("load", 10).requests(200))
        .run();
    assert_plateau(&run, &Books::complete(&run, &server), 10);
}

#[test]
fn two_cores_share_one_concurrency() {
    let server = mock(|options| options.ttft = Duration::from_millis(100));
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("load", 64).requests(640))
        .run();
    let books = Books::complete(&run, &server);
    assert_plateau(&run, &books, 64);
    let mut by_worker: HashMap<&str, usize> = HashMap::new();
    for record in &run.records {
        *by_worker.entry(&record.metadata.worker_id).or_default() += 1;
    }
    assert_eq!(by_worker.len(), 2, "both cores send: {by_worker:?}");
    for worker in by_worker.keys() {
        let own = run.records.iter().filter(|record| record.metadata.worker_id == *worker);
        assert_eq!(most_open(&spans(own)), 32, "{worker} holds its half of the slots");
    }
}

#[test]
fn an_odd_concurrency_is_held_by_two_cores_too() {
    let server = mock(|options| options.ttft = Duration::from_millis(40));
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("load", 5).requests(60))
        .run();
    assert_plateau(&run, &Books::complete(&run, &server), 5);
}

/// Which entry of the data set each request took, by its number in the phase, and what it weighed at the server.
fn images(seed: u64, cores: u16) -> (BTreeMap<u64, String>, Vec<u64>) {
    let server = mock(|options| options.fast = true);
    let run = Scenario::new(server.address())
        .seed(seed)
        .cores(cores)
        .phase(Phase::closed("load", 8).requests(100))
        .run();
    let books = Books::complete(&run, &server);
    let mut bytes: Vec<u64> = books.matched.iter().map(|(_, entry)| entry.request_bytes).collect();
    bytes.sort_unstable();
    let taken = run
        .records
        .iter()
        .map(|record| (record.metadata.session_num, record.metadata.conversation_id.clone()))
        .collect();
    (taken, bytes)
}

#[test]
fn one_seed_sends_the_same_bodies_in_the_same_order_on_any_number_of_cores() {
    let (taken, bytes) = images(7, 1);
    assert_eq!(taken.len(), 100);
    assert_eq!((taken.clone(), bytes.clone()), images(7, 2));
    // Entries come in order and wrap.
    for (number, conversation) in &taken {
        assert_eq!(conversation, &taken[&(number % 16)], "request {number}");
    }
    let (other, other_bytes) = images(8, 1);
    assert_ne!(taken[&0], other[&0]);
    assert_ne!(bytes, other_bytes);
}

#[test]
fn whole_answers_are_counted_like_streams() {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .whole_answers()
        .phase(Phase::closed("load", 4).requests(40))
        .run();
    assert_eq!(Books::complete(&run, &server).matched.len(), 40);
    for record in &run.records {
        assert_eq!(record.metric("output_sequence_length"), Some(4.0));
        assert_eq!(record.metric("time_to_first_token"), None);
    }
}

#[test]
fn connections_are_kept_and_no_more_of_them_opened_than_slots() {
    for cores in [1, 2] {
        let server = mock(|_| {});
        let run = Scenario::new(server.address())
            .cores(cores)
            .phase(Phase::closed("load", 6).requests(120))
            .run();
        Books::complete(&run, &server);
        let connections = server.counters().connections;
        // With two cores, one may have sent everything before the other got a processor.
        assert!(
            connections == 6 || (cores == 2 && connections < 6),
            "{connections} on {cores} cores"
        );
        let fresh = run
            .records
            .iter()
            .filter(|record| record.metric("http_req_connection_reused") == Some(0.0));
        assert_eq!(fresh.count() as u64, connections, "{cores} cores");
    }
}
