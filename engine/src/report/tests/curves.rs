//! Figures over time against areas computed by hand.

use super::*;

fn average(scope: &ScopeReport, tag: &str) -> f64 {
    scope.distribution(tag).unwrap_or_else(|| panic!("{tag}")).avg.unwrap()
}

/// Like [`success`], started at an instant and ended so many milliseconds later.
fn lasting(phase: crate::id::PhaseId, sequence: u64, start_ms: u64, millis: u64) -> RequestRecord {
    let mut record = success(phase, sequence);
    record.start = Nanos::from_millis(start_ms);
    record.first_content = record.start + Nanos::from_millis(millis / 2);
    record.last_content = record.start + Nanos::from_millis(millis);
    record.end = record.last_content;
    record
}

#[test]
fn requests_in_flight_are_weighted_by_time() {
    // One request for 100 ms, two for 100, one for 100, and none for 200.
    let records = [lasting(BASELINE, 0, 2000, 200), lasting(BASELINE, 1, 2100, 200)];
    let window = summary(BASELINE, 2000, 2500, tally(2, 0, 0, 0));
    let scope = report_of(&fixture::plan(), &records, &[window]).aggregate;
    let figures = scope.distribution("effective_concurrency").unwrap();
    assert_eq!(
        (figures.avg, figures.min, figures.max),
        (Some(0.8), Some(0.0), Some(2.0))
    );
    assert_eq!(
        [50, 90, 99].map(|q| figures.percentile(q)),
        [Some(1.0), Some(2.0), Some(2.0)]
    );
    assert_eq!((figures.count, figures.sum, figures.percentile(25)), (0, None, None));
    // Prefills of 2000 to 2100 and 2100 to 2200: the second begins where the first ends, and does not meet it.
    let prefill = scope.distribution("effective_prefill_concurrency").unwrap();
    assert_eq!((prefill.avg, prefill.max), (Some(0.4), Some(1.0)));
    // 64 tokens in 100 ms, whenever there is a prefill.
    let active = scope.distribution("active_prefill_throughput").unwrap();
    assert_eq!(
        (active.min, active.max, active.std),
        (Some(640.0), Some(640.0), Some(0.0))
    );
    // Between 2100 and 2200 one is in prefill and one decodes 15 tokens.
    let total = scope.distribution("effective_total_throughput").unwrap();
    assert_eq!(total.max, Some(790.0));
}

#[test]
fn a_rate_per_user_is_that_of_the_average_user_at_that_time() {
    // Two prefills of 64 tokens at once, of 100 and of 200 ms.
    let records = [lasting(BASELINE, 0, 2000, 200), lasting(BASELINE, 1, 2000, 400)];
    let window = summary(BASELINE, 2000, 2400, tally(2, 0, 0, 0));
    let scope = report_of(&fixture::plan(), &records, &[window]).aggregate;
    let active = scope.distribution("active_prefill_throughput_per_user").unwrap();
    assert_eq!((active.max, active.min), (Some((640.0 + 320.0) / 2.0), Some(320.0)));
    assert_eq!(
        scope.distribution("active_prefill_throughput").unwrap().max,
        Some(960.0)
    );
}

#[test]
fn every_request_was_in_flight_and_only_successes_had_stages() {
    let records = [
        lasting(BASELINE, 0, 2000, 100),
        other(BASELINE, 1, Outcome::Error),
        other(BASELINE, 2, Outcome::Cancelled),
        other(BASELINE, 3, Outcome::Truncated),
    ];
    let window = summary(BASELINE, 2000, 3000, tally(1, 1, 1, 1));
    let scope = report_of(&fixture::plan(), &records, &[window]).aggregate;
    // 100 ms and three of 10 ms.
    assert!((average(&scope, "effective_concurrency") - 0.13).abs() < 1e-12);
    assert!((average(&scope, "effective_prefill_concurrency") - 0.05).abs() < 1e-12);
    let failures = report_of(&fixture::plan(), &records[1..], &[]).aggregate;
    assert!(failures.get("effective_concurrency").is_some());
    assert!(failures.get("effective_decode_concurrency").is_none());
}

#[test]
fn pauses_between_phases_are_no_part_of_the_window_and_overlaps_are_once() {
    let records = [lasting(BASELINE, 0, 2000, 100), lasting(STRESS, 1, 4000, 100)];
    let apart = [
        summary(BASELINE, 2000, 2200, tally(1, 0, 0, 0)),
        summary(STRESS, 4000, 4200, tally(1, 0, 0, 0)),
    ];
    let report = report_of(&fixture::plan(), &records, &apart);
    assert_eq!(average(&report.aggregate, "effective_concurrency"), 0.5);
    assert_eq!(average(&report.phases[0].scope, "effective_concurrency"), 0.5);
    let overlapping = [
        summary(BASELINE, 2000, 4200, tally(1, 0, 0, 0)),
        summary(STRESS, 2200, 4200, tally(1, 0, 0, 0)),
    ];
    let report = report_of(&fixture::plan(), &records, &overlapping);
    assert!((average(&report.aggregate, "effective_concurrency") - 0.2 / 2.2).abs() < 1e-12);
}

#[test]
fn without_token_counts_there_are_concurrencies_and_no_rates() {
    let mut plan = fixture::plan();
    let mut entries = plan.requests.entries.to_vec();
    entries.iter_mut().for_each(|entry| entry.input_tokens = None);
    plan.requests.entries = entries.into();
    let mut record = success(BASELINE, 0);
    record.usage = Default::default();
    let scope = report_of(&plan, &[record], &[]).aggregate;
    for tag in ["effective_prefill_concurrency", "effective_decode_concurrency"] {
        assert!(scope.get(tag).is_some(), "{tag}");
    }
    for tag in [
        "effective_prefill_throughput",
        "effective_total_throughput",
        "active_total_throughput",
    ] {
        assert!(scope.get(tag).is_none(), "{tag}");
    }
}

proptest! {
    #[test]
    fn concurrency_times_window_is_the_time_of_all_requests(records in prop::collection::vec(record(), 1..60)) {
        let report = report_of(&fixture::plan(), &records, &[]);
        for phase in &report.phases {
            let window = phase.scope.window.unwrap();
            let window_s = (window.end_ns - window.start_ns) as f64 / 1e9;
            let of_phase = records.iter().filter(|record| record.phase == phase.id);
            let time: f64 = of_phase.map(|record| record.end.since(record.start).as_secs_f64()).sum();
            let area = average(&phase.scope, "effective_concurrency") * window_s;
            prop_assert!((area - time).abs() <= 1e-9 * time.max(1.0), "{area} is not {time}");
        }
    }
}
