//! Slices against slices computed by hand, and against runs that consist of the requests of one slice.

use super::*;
use crate::plan::SLICES_MAX;

/// A plan with slices of so many milliseconds.
fn plan(millis: u64) -> Plan {
    let mut plan = fixture::plan();
    plan.artifacts.slice = Some(Nanos::from_millis(millis));
    plan
}

fn slices_of(plan: &Plan, records: &[RequestRecord]) -> Vec<Slice> {
    match report_of(plan, records, &[]).slices {
        Some(Slices::Cut(slices)) => slices,
        other => panic!("{other:?}"),
    }
}

fn figure(slice: &Slice, tag: &str) -> Option<f64> {
    let measured = slice.metrics.iter().find(|measured| measured.metric.tag == tag)?;
    match &measured.value {
        Value::Scalar(value) => Some(*value),
        Value::Distribution(d) => d.avg,
    }
}

fn numbers(slices: &[Slice]) -> Vec<usize> {
    slices.iter().map(|slice| slice.number).collect()
}

fn all(slices: &[Slice], tag: &str) -> Vec<Option<f64>> {
    slices.iter().map(|slice| figure(slice, tag)).collect()
}

/// The same request, so much later.
fn later(record: RequestRecord, span: Nanos) -> RequestRecord {
    let at = |instant: Nanos| {
        if instant == Nanos::ZERO {
            instant
        } else {
            instant + span
        }
    };
    RequestRecord {
        intended: at(record.intended),
        issued: at(record.issued),
        start: at(record.start),
        connected: at(record.connected),
        send_end: at(record.send_end),
        first_body: at(record.first_body),
        head: at(record.head),
        first_content: at(record.first_content),
        first_output: at(record.first_output),
        last_content: at(record.last_content),
        end: at(record.end),
        ..record
    }
}

#[test]
fn a_request_belongs_to_the_slice_in_which_it_starts() {
    // Starts at 0, 100, ..., 700 ms from the first: the one at 500 ms is the first of its slice.
    let records: Vec<_> = (0..8).map(|sequence| success(BASELINE, sequence)).collect();
    let slices = slices_of(&plan(250), &records);
    assert_eq!(numbers(&slices), [0, 1, 2]);
    assert_eq!(all(&slices, "request_count"), [Some(3.0), Some(2.0), Some(3.0)]);
    // Over the whole slice, however long the requests of it took.
    assert_eq!(all(&slices, "request_throughput"), [Some(12.0), Some(8.0), Some(12.0)]);
    assert_eq!(
        all(&slices, "output_token_throughput"),
        [Some(192.0), Some(128.0), Some(192.0)]
    );
    // From the first start to the last content.
    assert_eq!(all(&slices, "benchmark_duration"), [Some(0.28), Some(0.18), Some(0.28)]);
    // Each request is in flight for 83 ms: the third begins 50 ms before the end of its slice and goes on in the next.
    let flights = [83.0 + 83.0 + 50.0, 33.0 + 83.0 + 83.0, 83.0 + 83.0 + 50.0];
    for (slice, flight) in slices.iter().zip(flights) {
        let found = figure(slice, "effective_concurrency").unwrap();
        assert!((found - flight / 250.0).abs() < 1e-12, "{}: {found}", slice.number);
    }
    let first_start = anchor().to_wall_ns(records[0].start);
    for slice in &slices {
        assert_eq!(slice.start_ns, first_start + 250_000_000 * slice.number as u64);
        assert_eq!(slice.end_ns - slice.start_ns, 250_000_000);
    }
    // The last request ends at 783 ms, after the end of the last slice.
    assert!(slices.iter().all(|slice| slice.is_complete));
}

#[test]
fn a_slice_that_the_run_does_not_fill_says_so() {
    let one = slices_of(&plan(100), &[success(BASELINE, 0)]);
    assert_eq!(
        (numbers(&one), one[0].is_complete),
        (vec![0], false),
        "it ends after 83 ms"
    );
    assert!(slices_of(&plan(83), &[success(BASELINE, 0)])[0].is_complete);
    let two = slices_of(&plan(100), &[success(BASELINE, 0), success(BASELINE, 1)]);
    assert_eq!(
        two.iter().map(|slice| slice.is_complete).collect::<Vec<_>>(),
        [true, false]
    );
}

#[test]
fn slices_without_a_start_are_left_out_and_counted() {
    let records = [success(BASELINE, 20), success(BASELINE, 0), success(STRESS, 21)];
    let slices = slices_of(&plan(250), &records);
    assert_eq!(numbers(&slices), [0, 8]);
    assert_eq!(all(&slices, "request_count"), [Some(1.0), Some(2.0)], "over all phases");
    let mut stalled = success(BASELINE, 0);
    stalled.end = success(BASELINE, 20).end;
    let slices = slices_of(&plan(250), &[stalled, success(BASELINE, 20)]);
    assert_eq!(numbers(&slices), [0, 8]);
    // What goes on in a slice is not only what starts in it: one for all of it, another for 83 ms.
    assert_eq!(figure(&slices[0], "effective_concurrency"), Some(1.0));
    let both = figure(&slices[1], "effective_concurrency").unwrap();
    assert!((both - 2.0 * 83.0 / 250.0).abs() < 1e-12, "{both}");
}

#[test]
fn warmup_is_in_no_slice() {
    let records = [success(WARMUP, 0), success(BASELINE, 5), success(WARMUP, 5)];
    let slices = slices_of(&plan(1000), &records);
    assert_eq!(numbers(&slices), [0]);
    assert_eq!(slices[0].start_ns, anchor().to_wall_ns(records[1].start));
    assert_eq!(figure(&slices[0], "request_count"), Some(1.0));
    let found = figure(&slices[0], "effective_concurrency").unwrap();
    assert!((found - 0.083).abs() < 1e-12, "{found}");
    assert!(slices_of(&plan(1000), &[success(WARMUP, 0)]).is_empty());
    assert!(slices_of(&plan(1000), &[]).is_empty());
}

#[test]
fn failures_count_where_they_started() {
    let records = [
        success(BASELINE, 0),
        other(BASELINE, 1, Outcome::Error),
        // In a slice of its own.
        other(BASELINE, 3, Outcome::Cancelled),
        // In flight, and no reason for a slice.
        other(BASELINE, 5, Outcome::Truncated),
        success(BASELINE, 7),
    ];
    let slices = slices_of(&plan(200), &records);
    assert_eq!(numbers(&slices), [0, 1, 3]);
    assert_eq!(all(&slices, "error_request_count"), [Some(1.0), Some(1.0), None]);
    assert_eq!(all(&slices, "request_error_rate"), [Some(50.0), Some(100.0), Some(0.0)]);
    assert_eq!(all(&slices, "context_overflow_count"), [Some(0.0), Some(0.0), None]);
    assert_eq!(all(&slices, "total_error_isl"), [Some(64.0), Some(64.0), None]);
    assert_eq!(all(&slices, "request_latency"), [Some(80.0), None, Some(80.0)]);
    // Nobody is in a prefill of the second: that is known.
    assert_eq!(figure(&slices[1], "effective_prefill_concurrency"), Some(0.0));
    assert_eq!(figure(&slices[1], "active_prefill_throughput"), None);
    // 10 ms of the cancelled one.
    let flight = figure(&slices[1], "effective_concurrency").unwrap();
    assert!((flight - 0.05).abs() < 1e-12, "{flight}");

    // One that never got a connection counts where it took its slot.
    let mut unstarted = other(BASELINE, 3, Outcome::Error);
    unstarted.start = Nanos::ZERO;
    let slices = slices_of(&plan(200), &[success(BASELINE, 0), unstarted]);
    assert_eq!(all(&slices, "error_request_count"), [None, Some(1.0)]);
}

#[test]
fn a_request_is_good_in_its_slice() {
    let mut plan = plan(200);
    plan.slos = vec![crate::plan::Slo {
        metric: "request_latency",
        threshold: 80.0,
    }];
    let mut slow = success(BASELINE, 1);
    slow.last_content = slow.end;
    let records = [success(BASELINE, 2), slow, success(BASELINE, 0), success(BASELINE, 3)];
    let slices = slices_of(&plan, &records);
    assert_eq!(all(&slices, "good_request_count"), [Some(1.0), Some(2.0)]);
    assert_eq!(all(&slices, "goodput"), [Some(5.0), Some(10.0)]);
    assert_eq!(all(&slices, "good_request_fraction"), [Some(0.5), Some(1.0)]);
}

#[test]
fn too_many_slices_are_refused_with_a_length_that_does() {
    let at = |nanos: u64| later(success(BASELINE, 0), Nanos(nanos));
    let run = |millis: u64, last: u64| report_of(&plan(millis), &[at(0), at(last)], &[]).slices;
    let last_of_all = SLICES_MAX * 1_000_000 - 1;
    let Some(Slices::Cut(slices)) = run(1, last_of_all) else {
        panic!("{SLICES_MAX} slices are fine");
    };
    assert_eq!(numbers(&slices), [0, SLICES_MAX as usize - 1]);
    let Some(Slices::TooMany { count, shortest }) = run(1, last_of_all + 1) else {
        panic!("one more is not");
    };
    assert_eq!((count, shortest), (SLICES_MAX + 1, Nanos::from_millis(2)));
    let warning = run(1, last_of_all + 1).unwrap().warning().unwrap();
    assert!(
        warning.contains("in 10001 slices") && warning.contains("slices of 2.000 ms or more"),
        "{warning}"
    );
    assert!(matches!(run(2, last_of_all + 1), Some(Slices::Cut(_))));
}

#[test]
fn runs_that_did_not_ask_or_have_no_records_have_no_slices() {
    let records = [success(BASELINE, 0)];
    assert!(report_of(&fixture::plan(), &records, &[]).slices.is_none());
    let mut without = plan(100);
    without.artifacts.records = false;
    assert!(report_of(&without, &records, &[]).slices.is_none());
    let mut collector = Collector::new(&plan(100), anchor());
    collector.add(&records[0], &[]);
    collector.forget_records();
    assert!(collector.finish(&[], &RunEnd::Complete).slices.is_none());
}

#[test]
fn slices_of_many_requests_are_those_of_few() {
    // More than a thread's worth in the first slice, and as many again in a hundred others.
    let many = super::super::share::PARALLEL_FROM as u64;
    let at = |k: u64| {
        let start = if k < many {
            k * 1_000
        } else {
            1_000_000_000 + (k - many) % 100 * 1_000_000_000
        };
        later(success(BASELINE, 0), Nanos(start))
    };
    let mut collector = Collector::new(&plan(1000), anchor());
    (0..2 * many).for_each(|k| collector.add(&at(k), &[]));
    let Some(Slices::Cut(slices)) = collector.finish(&[], &RunEnd::Complete).slices else {
        panic!("they are cut");
    };
    assert_eq!(numbers(&slices), (0..101).collect::<Vec<_>>());
    assert_eq!(figure(&slices[0], "request_count"), Some(many as f64));
    let few = Some(many as f64 / 100.0);
    assert!(all(&slices[1..], "request_count").iter().all(|count| *count == few));
    for tag in ["request_latency", "inter_chunk_latency"] {
        assert!(
            all(&slices[..100], tag).iter().all(|f| *f == figure(&slices[0], tag)),
            "{tag}"
        );
    }
}

proptest! {
    #[test]
    fn a_slice_reports_its_requests_like_a_run_of_them_alone(
        records in prop::collection::vec((record(), 0..3_000_000_000u64), 1..60),
        millis in 50..900u64,
    ) {
        let records: Vec<RequestRecord> = records.into_iter().map(|(record, span)| later(record, Nanos(span))).collect();
        let slices = slices_of(&plan(millis), &records);
        let measured: Vec<&RequestRecord> = records.iter().filter(|record| record.phase != WARMUP).collect();
        prop_assume!(!measured.is_empty());
        let first = measured.iter().map(|record| record.start).min().unwrap();
        let length = Nanos::from_millis(millis);
        let mut left: Vec<&RequestRecord> = measured.iter().copied().filter(|record| record.outcome != Outcome::Truncated).collect();
        for slice in &slices {
            let start = first + Nanos(slice.number as u64 * length.0);
            let end = start + length;
            prop_assert_eq!((slice.start_ns, slice.end_ns), (anchor().to_wall_ns(start), anchor().to_wall_ns(end)));
            let (of_slice, others): (Vec<_>, Vec<_>) = left.into_iter().partition(|record| start <= record.start && record.start < end);
            left = others;
            prop_assert!(!of_slice.is_empty(), "slice {} is empty", slice.number);
            // One phase of these requests alone, as long as the slice.
            let alone: Vec<_> = of_slice.iter().map(|record| RequestRecord { phase: BASELINE, ..(*record).clone() }).collect();
            let mut window = summary(BASELINE, 0, 0, Default::default());
            (window.start, window.end) = (start, end);
            let report = report_of(&fixture::plan(), &alone, &[window]).aggregate;
            let wanted = |measured: &&Measured| {
                let tag = measured.metric.tag;
                !tag.starts_with("e2e_normalized") && tag != "credit_to_start_latency" && !is_over_time(tag)
            };
            let expected: Vec<_> = report.metrics.iter().filter(wanted).map(|m| (m.metric.tag, &m.value)).collect();
            let found: Vec<_> = slice.metrics.iter().filter(|m| !is_over_time(m.metric.tag)).map(|m| (m.metric.tag, &m.value)).collect();
            prop_assert_eq!(found, expected);
            // Added up request by request.
            let flight: u64 = measured.iter().map(|r| r.end.min(end).since(r.start.max(start)).0).sum();
            let concurrency = figure(slice, "effective_concurrency").unwrap();
            prop_assert!((concurrency - flight as f64 / length.0 as f64).abs() < 1e-9, "{} of {}", concurrency, flight);
        }
        prop_assert!(left.is_empty(), "{} requests are in no slice", left.len());
    }
}

fn is_over_time(tag: &str) -> bool {
    tag.starts_with("active_") || tag.starts_with("effective_") && tag != "effective_latency"
}
