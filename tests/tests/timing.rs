//! Load and timing under odd conditions: high rates, a client that was stopped, requests that never end, storms.
//!
//! The table in `platform.rs` says which line of the field cases each test stands for.

use std::time::{Duration, Instant};

use ringload_tests::books::{Books, spans};
use ringload_tests::program::{Workplace, config, phase};
use ringload_tests::statistics::{mean, most_open};
use ringload_tests::{Ending, Phase, Record, Run, Scenario, eventually, mock};
use serde_json::Value;

const MS: u64 = 1_000_000;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn figure(document: &Value, path: &str) -> f64 {
    let value = document.pointer(path).unwrap_or(&Value::Null);
    value.as_f64().unwrap_or_else(|| panic!("{path} is {value}"))
}

/// How late each request of a phase started, in the order of the schedule.
fn lags(run: &Run, phase: &str) -> Vec<u64> {
    let mut records = run.records_of(phase);
    records.sort_by_key(|record| record.metadata.session_num);
    records
        .iter()
        .map(|record| record.metadata.request_start_ns - record.ringload.intended_start_ns)
        .collect()
}

#[test]
fn a_high_rate_sends_every_arrival_and_does_not_drift() {
    for (rate, requests) in [(1_000.0, 2_000), (20_000.0, 6_000)] {
        let server = mock(|options| options.fast = true);
        let run = Scenario::new(server.address())
            .phase(Phase::constant("load", rate).requests(requests))
            .run();
        let what = format!("{requests} requests at {rate}/s");
        assert_eq!(run.counts("load").succeeded, requests, "{what}");
        assert_eq!(server.counters().requests, requests, "{what}");
        assert_eq!(figure(&run.summary("load"), "/ringload/arrivals_unsent"), 0.0, "{what}");
        let start = run.phase("load").start_ns;
        let last = run.records.iter().map(|record| record.ringload.intended_start_ns).max();
        let span = requests as f64 / rate * 1e9;
        assert_eq!(last, Some(start + span as u64), "{what}: the schedule is absolute");
    }
    // A machine that stalls makes some requests late; an error that adds up would make all of the last ones late.
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .phase(Phase::constant("load", 200.0).requests(600))
        .run();
    let late = lags(&run, "load");
    let least = late[500..].iter().min().expect("a hundred requests");
    assert!(
        *least < 15 * MS,
        "0.5 % of 3 s, and all of the last hundred were {least} ns late or more"
    );
}

#[test]
fn delays_and_rates_are_the_arithmetic_of_the_records() {
    let server = mock(|options| options.ttft = ms(30));
    let run = Scenario::new(server.address())
        .phase(Phase::constant("load", 100.0).capped(2).requests(60))
        .run();
    let summary = run.summary("load");
    let late: Vec<f64> = lags(&run, "load").iter().map(|&lag| lag as f64 / 1e6).collect();
    // Kept in a histogram of three digits.
    let close = |found: f64, expected: f64| (found - expected).abs() <= 0.002 * expected;
    let most = late.iter().copied().fold(0.0, f64::max);
    assert!(
        close(figure(&summary, "/ringload/send_lag/max"), most),
        "{most} in {summary}"
    );
    assert!(
        close(figure(&summary, "/ringload/send_lag/avg"), mean(&late)),
        "{}",
        mean(&late)
    );
    let latency = figure(&summary, "/request_latency/avg");
    // From the intended start to the end of the response, which comes a moment after the last token.
    let ends: Vec<f64> = run
        .records
        .iter()
        .map(|record| (record.metadata.request_end_ns - record.ringload.intended_start_ns) as f64 / 1e6)
        .collect();
    let effective = figure(&summary, "/effective_latency/avg");
    assert!(
        (effective - mean(&ends)).abs() < 1e-3,
        "{effective} and {}",
        mean(&ends)
    );
    assert!(effective >= latency + mean(&late) - 1e-3, "{effective}, {latency}");
    // The cap holds the rate down to what two slots give: the achieved rate says so.
    let achieved = figure(&summary, "/request_throughput/avg");
    assert!(achieved < 2.0 / 0.030, "{achieved}/s with two slots and 30 ms");
}

#[test]
fn s55_a_client_that_was_stopped_sends_what_is_overdue_at_once_and_all_of_it() {
    let server = mock(|_| {});
    let phases = "    - {name: load, kind: profiling, type: constant, rate: 200, requests: 400}\n";
    let workplace = Workplace::new(&config(&server.url(), phases));
    let program = workplace.start_profile(&[]);
    eventually("some load", || server.counters().requests >= 40);
    program.signal("STOP");
    // The stall itself, not a wait for something.
    std::thread::sleep(ms(500));
    program.signal("CONT");
    program.end().expect(0);
    let mut records = Record::read_all(&workplace.path("results/profile_export.jsonl"));
    assert_eq!((records.len(), server.counters().requests), (400, 400));
    assert!(records.iter().all(|record| record.ending() == Ending::Succeeded));
    records.sort_by_key(|record| record.metadata.session_num);
    assert!(
        records.is_sorted_by_key(|record| (record.ringload.intended_start_ns, record.metadata.credit_issued_ns)),
        "they went out in the order of the schedule"
    );
    let mut starts: Vec<u64> = records.iter().map(|record| record.metadata.request_start_ns).collect();
    starts.sort_unstable();
    let (at, gap) = starts
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .enumerate()
        .max_by_key(|&(_, gap)| gap)
        .expect("gaps");
    assert!(
        gap >= 450 * MS,
        "the client was stopped for 500 ms and the longest gap is {gap} ns"
    );
    // Some hundred arrivals were overdue. At the rate of the schedule they would take as long as the stall.
    let overdue = (gap / (5 * MS)) as usize;
    let burst = starts[at + overdue * 9 / 10] - starts[at + 1];
    assert!(burst < gap / 2, "{overdue} overdue requests took {burst} ns to send");
    let late = |record: &Record| record.metadata.request_start_ns - record.ringload.intended_start_ns;
    let most = records.iter().map(late).max().expect("records");
    assert!(most >= 400 * MS, "the greatest lag is {most} ns");
    let shown = figure(&workplace.root(), "/ringload/send_lag/max");
    assert!(
        (shown - most as f64 / 1e6).abs() < 0.002 * shown,
        "{shown} ms shown, {most} ns in the records"
    );
}

#[test]
fn a_request_that_never_ends_holds_up_neither_its_phase_nor_the_files() {
    let server = mock(|options| options.fault = Some("first:1:stall-after:1".parse().expect("a fault")));
    let run = Scenario::new(server.address())
        .phase(Phase::closed("stuck", 3).lasting(ms(300)).grace(ms(200)))
        .phase(Phase::closed("next", 3).requests(9))
        .run();
    assert_eq!((run.counts("stuck").truncated, run.counts("next").succeeded), (1, 9));
    assert!(run.counts("stuck").succeeded > 0);
    let cut: Vec<&Record> = run
        .records
        .iter()
        .filter(|record| record.metadata.was_cancelled)
        .collect();
    assert_eq!(cut.len(), 1);
    let elapsed = cut[0].metadata.request_end_ns - cut[0].metadata.request_start_ns;
    assert!(elapsed >= 400 * MS, "cut after {elapsed} ns: {:?}", cut[0]);
    for phase in &run.phases {
        assert!(
            run.path(&phase.metrics_json).exists() && run.path(&phase.metrics_csv).exists(),
            "{phase:?}"
        );
    }
}

#[test]
fn requests_that_hang_are_cut_when_the_grace_period_is_over_and_listed_with_their_time() {
    let server = mock(|options| options.fault = Some("every:10:hang".parse().expect("a fault")));
    let begun = Instant::now();
    let run = Scenario::new(server.address())
        .phase(Phase::constant("load", 100.0).lasting(ms(800)).grace(ms(500)))
        .run();
    let took = begun.elapsed();
    let counts = run.counts("load");
    assert_eq!((counts.sent, counts.truncated), (79, 7), "{counts:?}");
    for record in run.records.iter().filter(|record| record.metadata.was_cancelled) {
        let lasted = record.metadata.request_end_ns - record.metadata.request_start_ns;
        assert_eq!(
            record.metadata.cancellation_time_ns,
            Some(record.metadata.request_end_ns)
        );
        let end = run.phase("load").start_ns + 1_300 * MS;
        assert!(record.metadata.request_end_ns >= end && lasted > 0, "{record:?}");
    }
    // Request timeouts are 30 s here: it was the grace period that ended the run.
    assert!(took < Duration::from_secs(15), "{took:?}");
    Books::complete(&run, &server);
}

#[test]
fn a_storm_of_cancellations_counts_its_connections_and_leaves_the_next_phase_alone() {
    let server = mock(|options| options.ttft = ms(60));
    let run = Scenario::new(server.address())
        .phase(
            Phase::closed("storm", 1_024)
                .requests(3_000)
                .cancelling(0.5, Duration::ZERO),
        )
        .phase(Phase::closed("recovery", 64).requests(256))
        .run();
    let storm = run.counts("storm");
    assert_eq!((storm.sent, storm.failed, storm.truncated), (3_000, 0, 0));
    assert!((1_300..1_700).contains(&storm.cancelled), "{storm:?}");
    assert_eq!(run.counts("recovery").succeeded, 256);
    for record in run.records_of("recovery") {
        assert_eq!(record.ending(), Ending::Succeeded);
    }
    assert_eq!(run.summary("recovery")["request_latency"]["count"], 256);
    Books::complete(&run, &server);
    // Each cancelled request took its connection with it; what is left at the end is a connection for each slot at most.
    let opened = server.counters().connections;
    let cores = run.root()["ringload"]["cores"].clone();
    let told: u64 = cores
        .as_array()
        .expect("cores")
        .iter()
        .filter_map(|core| core["connections_opened"].as_u64())
        .sum();
    assert_eq!(told, opened);
    assert!(
        (storm.cancelled..=storm.cancelled + 1_024).contains(&opened),
        "{opened} connections, {storm:?}"
    );
}

#[test]
fn a_warmup_keeps_its_own_concurrency() {
    let server = mock(|options| options.ttft = ms(10));
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("warmup", 8).warmup().requests(100))
        .phase(Phase::closed("profiling", 2).requests(4))
        .run();
    assert_eq!(run.counts("warmup").succeeded, 100);
    assert_eq!(server.counters().in_flight_max, 8);
    assert_eq!(most_open(&spans(run.records_of("warmup"))), 8);
}

#[test]
fn plans_that_cannot_do_what_they_say_are_carried_out_and_commented() {
    let server = mock(|_| {});
    let phases = phase("warmup", "concurrency: 2, requests: 4") + &phase("load", "concurrency: 100, requests: 10");
    let workplace = Workplace::new(&config(&server.url(), &phases));
    let ended = workplace.profile(&["--no-server-metrics"]).expect(0);
    for part in [
        "concurrency 100 can never be reached with 10 requests",
        "above the 2 of the warmup",
    ] {
        assert!(ended.stderr.contains(part), "'{part}' is not in {}", ended.stderr);
    }
    assert_eq!(server.counters().requests, 14);
    // The first wave of the measured phase opens connections, and its records say so.
    let records = Record::read_all(&workplace.path("results/profile_export.jsonl"));
    let cold = |record: &&Record| {
        record.metadata.phase_name == "load" && record.metric("http_req_connection_reused") == Some(0.0)
    };
    let cold = records.iter().filter(cold).count() as u64;
    assert_eq!(cold + 2, server.counters().connections);
}
