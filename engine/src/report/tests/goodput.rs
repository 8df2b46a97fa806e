//! Good requests, counted in every way that they are counted.

use super::*;
use crate::plan::Slo;
use crate::record::{Better, Criterion, ImageFacts, Judge, RecordView};

const GOODPUT: [&str; 3] = ["goodput", "good_request_count", "good_request_fraction"];

fn judged(slos: &[(&'static str, f64)]) -> Plan {
    Plan {
        slos: slos
            .iter()
            .map(|&(metric, threshold)| Slo { metric, threshold })
            .collect(),
        ..fixture::plan()
    }
}

/// Good requests of one streamed success: 80 ms, first token at 20 ms, 16 tokens, 4 ms each.
fn good(slos: &[(&'static str, f64)]) -> Option<f64> {
    let window = summary(BASELINE, 2000, 2500, tally(1, 0, 0, 0));
    report_of(&judged(slos), &[success(BASELINE, 0)], &[window])
        .aggregate
        .scalar("good_request_count")
}

#[test]
fn thresholds_are_in_exported_units_and_amounts_must_reach_them() {
    for (metric, met, missed) in [
        ("request_latency", 80.0, 79.999_999),
        ("time_to_first_token", 20.0, 19.0),
        ("time_to_second_token", 4.0, 3.9),
        ("inter_token_latency", 4.0, 3.9),
        ("effective_latency", 85.0, 84.0),
        ("output_token_throughput_per_user", 250.0, 250.1),
        ("output_sequence_length", 16.0, 17.0),
        ("e2e_output_token_throughput", 200.0, 201.0),
        // Of 3072 bytes; a size is no throughput, so less is good.
        ("http_req_data_received", 3.0, 2.9),
    ] {
        assert_eq!(good(&[(metric, met)]), Some(1.0), "{metric}");
        assert_eq!(good(&[(metric, missed)]), Some(0.0), "{metric}");
    }
    assert_eq!(
        good(&[("request_latency", 80.0), ("time_to_first_token", 19.0)]),
        Some(0.0)
    );
    // The answer had no reasoning tokens, so there is no such figure to meet the level.
    assert_eq!(good(&[("reasoning_token_count", 0.0)]), Some(0.0));
}

#[test]
fn a_scope_has_its_goodput_and_failures_are_never_good() {
    let mut slow = success(BASELINE, 1);
    slow.last_content = slow.start + Nanos::from_millis(101);
    let records = [
        success(WARMUP, 0),
        success(BASELINE, 0),
        slow,
        other(BASELINE, 2, Outcome::Error),
        other(BASELINE, 3, Outcome::Cancelled),
        other(BASELINE, 4, Outcome::Truncated),
        success(STRESS, 5),
    ];
    let phases = [
        summary(WARMUP, 1000, 2000, tally(1, 0, 0, 0)),
        summary(BASELINE, 2000, 2500, tally(2, 1, 1, 1)),
        summary(STRESS, 2500, 4000, tally(1, 0, 0, 0)),
    ];
    let report = report_of(&judged(&[("request_latency", 100.0)]), &records, &phases);
    let figures = |scope: &ScopeReport| GOODPUT.map(|tag| scope.scalar(tag).unwrap());
    // One of two successes and two errors, in half a second; what was cut is no part of it.
    assert_eq!(figures(&report.phases[1].scope), [2.0, 1.0, 0.25]);
    assert_eq!(figures(&report.phases[2].scope), [1.0 / 1.5, 1.0, 1.0]);
    assert_eq!(figures(&report.aggregate), [1.0, 2.0, 0.4]);
    assert_eq!(figures(report.warmup.as_ref().unwrap()), [1.0, 1.0, 1.0]);
    let level = &report.aggregate.levels[0];
    let findings = |met, missed, lacking| Findings { met, missed, lacking };
    assert_eq!(
        (level.slo.metric, level.findings),
        ("request_latency", findings(2, 1, 0))
    );
    let table = &report.scopes()[3];
    let shown: Vec<&str> = table.scalars.iter().map(|row| row.header).collect();
    assert!(
        shown.contains(&"Goodput")
            && !shown
                .iter()
                .any(|header| header.starts_with("Good") && *header != "Goodput")
    );
}

#[test]
fn without_levels_there_is_no_goodput_and_without_successes_only_the_fraction() {
    let scope = single();
    assert!(GOODPUT.iter().all(|tag| scope.get(tag).is_none()));
    let plan = judged(&[("request_latency", 100.0)]);
    let window = summary(BASELINE, 2000, 2500, tally(0, 1, 0, 0));
    let scope = report_of(&plan, &[other(BASELINE, 0, Outcome::Error)], &[window]).aggregate;
    assert_eq!(GOODPUT.map(|tag| scope.scalar(tag)), [None, None, Some(0.0)]);
}

#[test]
fn without_records_the_cores_have_counted() {
    let mut plan = judged(&[("request_latency", 100.0)]);
    plan.artifacts.records = false;
    let mut collector = Collector::new(&plan, anchor());
    for good in [2, 1] {
        let mut histograms = PhaseHistograms::new();
        (0..good).for_each(|_| histograms.count_good());
        collector.add_histograms(BASELINE, &histograms);
    }
    let report = collector.finish(&[summary(BASELINE, 2000, 4000, tally(4, 0, 0, 0))], &RunEnd::Complete);
    assert_eq!(
        GOODPUT.map(|tag| report.aggregate.scalar(tag)),
        [Some(1.5), Some(3.0), Some(0.75)]
    );
}

fn criterion(figure: fn(&RecordView<'_>) -> Option<f64>, better: Better, threshold: f64) -> Criterion {
    Criterion {
        figure,
        divisor: 1e6,
        better,
        threshold,
    }
}

fn is_good(criteria: Vec<Criterion>, outcome: Outcome) -> bool {
    let mut record = success(BASELINE, 0);
    record.outcome = outcome;
    let image = ImageFacts {
        input_tokens: None,
        is_first: true,
        requested_tokens: None,
        body_bytes: 0,
    };
    let judge = Judge::new(criteria).expect("there are some");
    judge.is_good(&RecordView::new(&record, image))
}

/// 40.1 of the exported unit.
fn figure(_: &RecordView<'_>) -> Option<f64> {
    Some(40_100_000.0)
}

#[test]
fn the_threshold_itself_is_good_on_both_sides() {
    for (better, threshold, good) in [
        (Better::Smaller, 40.1, true),
        (Better::Smaller, 40.1f64.next_down(), false),
        (Better::Smaller, 41.0, true),
        (Better::Larger, 40.1, true),
        (Better::Larger, 40.1f64.next_up(), false),
        (Better::Larger, 39.0, true),
    ] {
        let one = criterion(figure, better, threshold);
        assert_eq!(is_good(vec![one], Outcome::Success), good, "{better:?} {threshold}");
    }
}

#[test]
fn every_level_must_be_met_and_one_without_a_figure_is_not() {
    let met = criterion(figure, Better::Smaller, 50.0);
    let missed = criterion(figure, Better::Smaller, 30.0);
    let absent = criterion(|_| None, Better::Smaller, f64::MAX);
    assert!(is_good(vec![met, met], Outcome::Success));
    assert!(!is_good(vec![met, missed], Outcome::Success));
    assert!(!is_good(vec![absent, met], Outcome::Success));
}

#[test]
fn only_successes_are_good() {
    let met = criterion(figure, Better::Smaller, 50.0);
    for outcome in [Outcome::Error, Outcome::Cancelled, Outcome::Truncated] {
        assert!(!is_good(vec![met], outcome), "{outcome:?}");
    }
    assert!(Judge::new(Vec::new()).is_none(), "without levels nobody judges");
}

#[test]
fn a_level_whose_figure_no_success_has_is_warned_of_and_one_that_some_have_is_not() {
    let mut mute = success(BASELINE, 0);
    mute.usage = Default::default();
    let plan = judged(&[("request_latency", 100.0), ("inter_token_latency", 100.0)]);
    let levels = |records: &[RequestRecord]| report_of(&plan, records, &[]).aggregate.levels;
    let found = levels(&[mute.clone(), mute.clone()]);
    assert_eq!([found[0].findings.met, found[1].findings.lacking], [2, 2]);
    assert_eq!(found[0].warning(), None);
    let warning = found[1].warning().expect("nobody has it");
    assert!(
        warning.starts_with("slos.inter_token_latency: none of 2 successes"),
        "{warning}"
    );
    assert_eq!(levels(&[mute, success(BASELINE, 1)])[1].warning(), None);
}
