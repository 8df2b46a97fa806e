//! Open loop: an absolute schedule that neither the server nor the cap nor the number of cores can shift.

use std::time::Duration;

use ringload_tests::books::{Books, spans};
use ringload_tests::statistics::{mean, most_open};
use ringload_tests::{Ending, Phase, Record, Run, Scenario, mock};
use serde_json::Value;

const MS: u64 = 1_000_000;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Records of a phase in the order of their schedule.
fn scheduled<'a>(run: &'a Run, phase: &str) -> Vec<&'a Record> {
    let mut records = run.records_of(phase);
    records.sort_by_key(|record| record.metadata.session_num);
    records
}

/// A figure of a phase's summary.
fn figure(run: &Run, phase: &str, path: &str) -> f64 {
    let summary = run.summary(phase);
    let value = summary.pointer(path).unwrap_or(&Value::Null);
    value.as_f64().unwrap_or_else(|| panic!("{path} is {value}"))
}

/// The instants at which the schedule wanted the requests of a phase to start, as offsets from its start in nanoseconds.
fn intended(run: &Run, phase: &str) -> Vec<u64> {
    let start = run.phase(phase).start_ns;
    let records = scheduled(run, phase);
    records
        .iter()
        .map(|record| record.ringload.intended_start_ns - start)
        .collect()
}

/// Asserts that requests were wanted at the instants of the schedule and that none started before its own.
fn assert_on_schedule(run: &Run, phase: &str, instants: &[u64]) {
    assert_eq!(intended(run, phase), instants);
    for record in scheduled(run, phase) {
        let (issued, due) = (record.metadata.credit_issued_ns, record.ringload.intended_start_ns);
        assert!(issued >= due, "due at {due} and issued at {issued}: {record:?}");
    }
}

fn even(rate: f64, count: u64) -> Vec<u64> {
    (1..=count).map(|k| (k as f64 / rate * 1e9).round() as u64).collect()
}

#[test]
fn arrivals_of_a_constant_rate_are_due_at_k_over_rate_on_any_number_of_cores() {
    for cores in [1, 2] {
        let server = mock(|_| {});
        let run = Scenario::new(server.address())
            .cores(cores)
            .phase(Phase::constant("load", 150.0).requests(90))
            .run();
        assert_on_schedule(&run, "load", &even(150.0, 90));
        Books::complete(&run, &server);
    }
}

#[test]
fn a_duration_holds_the_arrivals_that_are_due_within_it() {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .phase(Phase::constant("load", 50.0).lasting(ms(990)))
        .run();
    // k / 50 < 0.99 s for k = 1 to 49.
    assert_on_schedule(&run, "load", &even(50.0, 49));
    let phase = run.phase("load");
    assert!(
        phase.end_ns.expect("it ended") >= phase.start_ns + 990 * MS,
        "the phase lasts until its duration is over"
    );
    assert_eq!(figure(&run, "load", "/ringload/arrivals_unsent"), 0.0);
    Books::complete(&run, &server);
}

/// Runs a Poisson phase and returns when its requests were wanted.
fn poisson(seed: u64, name: &str, cores: u16) -> Vec<u64> {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .seed(seed)
        .cores(cores)
        .phase(Phase::poisson(name, 200.0).requests(120))
        .run();
    Books::complete(&run, &server);
    let instants = intended(&run, name);
    assert_on_schedule(&run, name, &instants);
    instants
}

#[test]
fn a_poisson_schedule_is_the_same_for_one_seed_and_phase_on_any_number_of_cores() {
    let schedule = poisson(3, "load", 1);
    assert_eq!(poisson(3, "load", 2), schedule);
    assert_ne!(poisson(4, "load", 1), schedule, "another seed");
    assert_ne!(poisson(3, "other", 1), schedule, "another phase");
}

#[test]
fn poisson_gaps_vary_as_much_as_their_mean() {
    let gaps: Vec<f64> = poisson(11, "load", 1)
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) as f64)
        .collect();
    let coefficient = ringload_tests::statistics::deviation(&gaps) / mean(&gaps);
    // 1 for exponential gaps, 0 for even ones; 119 gaps give a standard error below 0.1.
    assert!((0.6..1.5).contains(&coefficient), "{coefficient}");
    // 119 gaps of 5 ms on average, within 4 standard errors.
    assert!((3e6..7e6).contains(&mean(&gaps)), "{}", mean(&gaps));
}

#[test]
fn an_arrival_that_finds_the_cap_full_waits_in_order_and_the_wait_counts() {
    // One at a time, 100 ms each, one wanted every 25 ms: request k waits for the k before it.
    let server = mock(|options| {
        options.ttft = ms(100);
        options.osl = Some(1);
    });
    let run = Scenario::new(server.address())
        .phase(Phase::constant("load", 40.0).capped(1).requests(8))
        .run();
    let books = Books::complete(&run, &server);
    assert_eq!(most_open(&spans(&run.records)), 1);
    let order: Vec<u64> = books
        .matched
        .iter()
        .map(|(record, _)| record.metadata.session_num)
        .collect();
    assert_eq!(order, (0..8).collect::<Vec<_>>());
    assert_on_schedule(&run, "load", &even(40.0, 8));
    // Request k (from 0) is due at 25 (k + 1) ms, starts no earlier than 25 + 100 k ms, and ends 100 ms later: 100 + 75 k ms since it was due.
    assert!(figure(&run, "load", "/effective_latency/avg") >= 100.0 + 75.0 * 3.5);
    assert!(figure(&run, "load", "/effective_latency/max") >= 100.0 + 75.0 * 7.0);
    let lag = figure(&run, "load", "/ringload/send_lag/max");
    assert!(lag >= 75.0 * 7.0 * 0.999, "the last one waited {lag} ms");
    let latency = figure(&run, "load", "/request_latency/p50");
    assert!((100.0..300.0).contains(&latency), "the wait is not in it: {latency} ms");
}

#[test]
fn a_cap_holds_over_all_cores() {
    let server = mock(|options| options.ttft = ms(50));
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::constant("load", 400.0).capped(6).requests(90))
        .run();
    Books::complete(&run, &server);
    assert_eq!(most_open(&spans(&run.records)), 6);
    assert_eq!(server.counters().in_flight_max, 6);
}

#[test]
fn s55_a_stalling_server_does_not_shift_the_sends() {
    // Nothing is answered before 1.5 s, and the whole schedule of 300 ms is sent by then.
    let server = mock(|options| options.ttft = ms(1_500));
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::constant("load", 200.0).requests(60))
        .run();
    let books = Books::complete(&run, &server);
    assert_on_schedule(&run, "load", &even(200.0, 60));
    let answers = books.matched.iter().filter_map(|(_, entry)| entry.first_byte_ns);
    let first_answer = answers.min().expect("they were answered");
    let last_arrival = books.matched.last().expect("they arrived").1.receive_complete_ns;
    assert!(
        last_arrival < first_answer,
        "all sends were made while the server stalled"
    );
    assert_eq!(server.counters().in_flight_max, 60);
}

#[test]
fn requests_that_never_return_do_not_hold_up_the_others() {
    let server = mock(|options| options.fault = Some("every:3:hang".parse().expect("a fault")));
    let run = Scenario::new(server.address())
        .request_timeout(ms(3_000))
        .phase(Phase::constant("load", 100.0).requests(60))
        .run();
    let counts = run.counts("load");
    assert_eq!((counts.succeeded, counts.failed), (40, 20));
    let start = run.phase("load").start_ns;
    let last = scheduled(&run, "load").last().expect("sent").metadata.request_start_ns - start;
    assert!(
        last < 2_900 * MS,
        "the last one started at {last} ns, before any timeout"
    );
    Books::complete(&run, &server);
}

#[test]
fn arrivals_that_the_cap_kept_back_to_the_end_are_counted() {
    for cores in [1, 2] {
        let server = mock(|options| options.ttft = ms(2_000));
        let run = Scenario::new(server.address())
            .cores(cores)
            .phase(Phase::constant("load", 100.0).capped(4).lasting(ms(500)))
            .run();
        // Due at 10, 20, ..., 490 ms: 49 arrivals, of which 4 found a slot.
        assert_eq!(run.counts("load").sent, 4, "{cores} cores");
        assert_eq!(run.ended(Ending::Succeeded), 4, "{cores} cores");
        assert_eq!(figure(&run, "load", "/ringload/arrivals_unsent"), 45.0, "{cores} cores");
        Books::complete(&run, &server);
    }
}

#[test]
fn nothing_is_unsent_when_the_cap_does_not_bind() {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .phase(Phase::poisson("load", 100.0).capped(50).lasting(ms(500)))
        .run();
    assert_eq!(figure(&run, "load", "/ringload/arrivals_unsent"), 0.0);
    assert!(run.counts("load").sent > 20);
}
