//! Figures of small runs against figures computed by hand or by another route.

mod counts;
mod curves;
mod goodput;
mod slices;

use proptest::prelude::*;

use super::fixture::{self, BASELINE, STRESS, WARMUP, anchor, errors, other, success, summary, tally};
use super::scope::union_length;
use super::*;
use crate::coordinator::{PhaseSummary, StopReason};
use crate::plan::Plan;
use crate::record::{Family, Outcome, PhaseHistograms, RequestRecord};
use crate::units::Nanos;

fn report_of(plan: &Plan, records: &[RequestRecord], phases: &[PhaseSummary]) -> Report {
    let mut collector = Collector::new(plan, anchor());
    let errors = errors();
    records.iter().for_each(|record| collector.add(record, &errors));
    collector.finish(phases, &RunEnd::Complete)
}

/// One success in the first profiling phase, which ran from 2.0 to 2.5 s.
fn single() -> ScopeReport {
    let window = summary(BASELINE, 2000, 2500, tally(1, 0, 0, 0));
    report_of(&fixture::plan(), &[success(BASELINE, 0)], &[window]).aggregate
}

#[test]
fn every_metric_of_one_request_is_what_paper_says() {
    let scope = single();
    let expected: &[(&str, f64)] = &[
        ("request_latency", 80.0),
        ("time_to_first_token", 20.0),
        ("time_to_second_token", 4.0),
        ("time_to_first_output_token", 20.0),
        ("decode_duration", 60.0),
        ("full_decode_duration", 63.0),
        ("inter_token_latency", 60.0 / 15.0),
        ("full_response_inter_token_latency", 63.0 / 15.0),
        ("inter_chunk_latency", 4.0),
        ("output_token_throughput_per_user", 250.0),
        ("full_response_output_token_throughput_per_user", 15e3 / 63.0),
        ("e2e_output_token_throughput", 200.0),
        ("prefill_throughput_per_user", 3200.0),
        ("input_sequence_length", 64.0),
        ("output_sequence_length", 16.0),
        ("output_token_count", 16.0),
        ("osl_mismatch_diff_pct", 0.0),
        ("usage_prompt_tokens_diff_pct", 6.25),
        ("usage_discrepancy_count", 0.0),
        ("usage_prompt_tokens", 60.0),
        ("usage_completion_tokens", 16.0),
        ("usage_total_tokens", 76.0),
        ("http_req_blocked", 0.0),
        ("http_req_dns_lookup", 0.0),
        ("http_req_connecting", 2.0),
        ("http_req_sending", 3.0),
        ("http_req_waiting", 2.0),
        ("http_req_receiving", 78.0),
        ("http_req_connection_reused", 0.0),
        ("http_req_data_sent", 64.0 / 1024.0),
        ("http_req_data_received", 3.0),
        ("http_req_chunks_sent", 1.0),
        ("http_req_chunks_received", 17.0),
        ("http_req_connection_overhead", 2.0),
        ("http_req_duration", 83.0),
        ("http_req_total", 2.0 + 3.0 + 2.0 + 78.0),
        // In flight for 83 of 500 ms: 20 ms of prefill of 64 tokens, then 63 ms of decoding 15 more.
        ("effective_concurrency", 0.166),
        ("effective_prefill_concurrency", 0.04),
        ("effective_decode_concurrency", 0.126),
        ("effective_prefill_throughput", 128.0),
        ("effective_prefill_throughput_per_user", 128.0),
        ("effective_total_throughput", 158.0),
        ("active_prefill_throughput", 3200.0),
        ("active_prefill_throughput_per_user", 3200.0),
        ("active_total_throughput", 79e3 / 83.0),
        ("credit_to_start_latency", 1.0),
        ("effective_latency", 85.0),
        ("request_count", 1.0),
        ("completed_request_count", 1.0),
        ("request_error_rate", 0.0),
        ("osl_mismatch_count", 0.0),
        ("request_throughput", 2.0),
        ("output_token_throughput", 32.0),
        ("input_token_throughput", 128.0),
        ("total_token_throughput", 160.0),
        ("total_isl", 64.0),
        ("total_osl", 16.0),
        ("total_output_tokens", 16.0),
        ("total_usage_prompt_tokens", 60.0),
        ("total_usage_completion_tokens", 16.0),
        ("total_usage_total_tokens", 76.0),
        ("benchmark_duration", 0.08),
        ("e2e_normalized_interactivity_p75", 200.0),
        ("e2e_normalized_interactivity_p90", 200.0),
    ];
    for &(tag, value) in expected {
        let figure = match scope.get(tag) {
            Some(Value::Scalar(value)) => *value,
            Some(Value::Distribution(d)) => d.avg.unwrap(),
            None => panic!("{tag} is absent"),
        };
        assert!(
            (figure - value).abs() <= 1e-9 * value.abs(),
            "{tag}: {figure} is not {value}"
        );
    }
    let tags: Vec<&str> = scope.metrics.iter().map(|measured| measured.metric.tag).collect();
    let unexpected: Vec<_> = tags
        .iter()
        .filter(|tag| expected.iter().all(|(t, _)| t != *tag))
        .collect();
    assert!(unexpected.is_empty(), "absent is absent, but there is {unexpected:?}");
    assert_eq!(scope.distribution("inter_chunk_latency").unwrap().count, 15);
}

#[test]
fn without_usage_the_token_family_is_absent_and_the_latency_family_stays() {
    let mut record = success(BASELINE, 0);
    record.usage = Default::default();
    let scope = report_of(
        &fixture::plan(),
        &[record],
        &[summary(BASELINE, 2000, 2500, tally(1, 0, 0, 0))],
    )
    .aggregate;
    for tag in [
        "request_latency",
        "time_to_first_token",
        "inter_chunk_latency",
        "decode_duration",
        "total_isl",
    ] {
        assert!(scope.get(tag).is_some(), "{tag}");
    }
    let of_tokens = [
        "osl",
        "output_token_",
        "output_sequence",
        "usage",
        "inter_token",
        "normalized",
        "total_token",
    ];
    let left: Vec<_> = scope
        .metrics
        .iter()
        .map(|measured| measured.metric.tag)
        .filter(|tag| of_tokens.iter().any(|part| tag.contains(part)))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_run_without_streaming_has_no_streaming_metric() {
    let mut plan = fixture::plan();
    plan.endpoint.streaming = false;
    let mut record = success(BASELINE, 0);
    record.first_content = record.last_content;
    record.gaps.clear();
    let scope = report_of(&plan, &[record, other(BASELINE, 1, Outcome::Error)], &[]).aggregate;
    assert!(scope.metrics.iter().all(|measured| !measured.metric.streaming_only));
    for tag in [
        "request_latency",
        "adj_request_latency",
        "e2e_normalized_interactivity_p90",
        "e2e_output_token_throughput",
    ] {
        assert!(scope.get(tag).is_some(), "{tag}");
    }
}

#[test]
fn token_intervals_of_zero_give_no_throughput_per_user() {
    let mut instant = success(BASELINE, 0);
    instant.first_content = instant.last_content;
    instant.end = instant.last_content;
    let mut single_token = success(BASELINE, 1);
    single_token.usage.completion_tokens = Some(1);
    let scope = report_of(&fixture::plan(), &[instant, single_token], &[]).aggregate;
    assert_eq!(scope.distribution("inter_token_latency").unwrap().count, 1);
    assert_eq!(scope.distribution("inter_token_latency").unwrap().max, Some(0.0));
    assert!(scope.get("output_token_throughput_per_user").is_none());
    assert!(scope.get("full_response_output_token_throughput_per_user").is_none());
}

#[test]
fn reasoning_and_cache_counts_come_from_the_records_that_have_them() {
    let mut record = success(BASELINE, 1);
    record.usage.reasoning_tokens = Some(16);
    record.usage.cache_read_tokens = Some(30);
    let mut none = success(BASELINE, 2);
    none.usage.reasoning_tokens = Some(0);
    let scope = report_of(&fixture::plan(), &[success(BASELINE, 0), record, none], &[]).aggregate;
    assert_eq!(scope.distribution("reasoning_token_count").unwrap().count, 1);
    assert_eq!(scope.distribution("usage_reasoning_tokens").unwrap().count, 2);
    // All output of the second request was reasoning, so it has no other output.
    assert_eq!(scope.distribution("output_token_count").unwrap().count, 2);
    assert_eq!(scope.scalar("total_reasoning_tokens"), Some(16.0));
    assert_eq!(scope.scalar("total_usage_prompt_cache_read_tokens"), Some(30.0));
    let percent = scope.scalar("overall_usage_prompt_cache_read_pct").unwrap();
    assert!((percent - 100.0 * 30.0 / 180.0).abs() < 1e-12);
}

#[test]
fn warmup_stays_out_of_the_aggregate_and_has_its_own_scope() {
    let records = [
        success(WARMUP, 0),
        success(BASELINE, 1),
        other(WARMUP, 2, Outcome::Error),
    ];
    let phases = [
        summary(WARMUP, 1000, 2000, tally(1, 1, 0, 0)),
        summary(BASELINE, 2000, 3000, tally(1, 0, 0, 0)),
    ];
    let report = report_of(&fixture::plan(), &records, &phases);
    assert_eq!(report.aggregate.scalar("request_count"), Some(1.0));
    assert!(report.aggregate.errors.is_empty());
    assert_eq!(report.warmup.as_ref().unwrap().scalar("error_request_count"), Some(1.0));
    let names: Vec<&str> = report.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(
        names,
        ["warmup", "baseline"],
        "a phase that never started has no report"
    );
}

#[test]
fn rates_over_overlapping_phases_use_the_union_of_their_windows() {
    let records = [success(BASELINE, 0), success(STRESS, 1), success(STRESS, 2)];
    let phases = [
        summary(BASELINE, 2000, 3500, tally(1, 0, 0, 0)),
        summary(STRESS, 3000, 5000, tally(2, 0, 0, 0)),
    ];
    let report = report_of(&fixture::plan(), &records, &phases);
    assert_eq!(report.aggregate.scalar("benchmark_duration"), Some(3.0));
    assert_eq!(report.aggregate.scalar("request_throughput"), Some(1.0));
    assert_eq!(report.phases[1].scope.scalar("request_throughput"), Some(1.0));
    // One phase: from its first start (2.102 s) to its last content (2.202 + 0.08 s).
    let duration = report.phases[1].scope.scalar("benchmark_duration").unwrap();
    assert!((duration - 0.18).abs() < 1e-12, "{duration}");
    let window = report.aggregate.window.unwrap();
    assert_eq!(window.end_ns - window.start_ns, 3_000_000_000);
    assert_eq!(window.start_ns, anchor().wall_ns() + 1_000_000_000);
}

#[test]
fn the_union_leaves_pauses_out() {
    let windows = |pairs: &[(u64, u64)]| union_length(pairs.iter().map(|&(a, b)| (Nanos(a), Nanos(b))).collect()).0;
    assert_eq!(windows(&[]), 0);
    assert_eq!(windows(&[(10, 20), (30, 40)]), 20);
    assert_eq!(windows(&[(30, 40), (10, 35)]), 30);
    assert_eq!(windows(&[(10, 50), (20, 30), (45, 60)]), 50);
}

#[test]
fn an_interrupted_run_says_so_and_a_phase_without_summary_takes_its_window_from_its_records() {
    let mut interrupted = summary(BASELINE, 2000, 3000, tally(1, 0, 0, 0));
    interrupted.stop_reason = StopReason::Interrupted;
    let mut collector = Collector::new(&fixture::plan(), anchor());
    for record in [success(BASELINE, 0), success(STRESS, 5), success(STRESS, 6)] {
        collector.add(&record, &errors());
    }
    let report = collector.finish(&[interrupted], &RunEnd::Interrupted);
    assert!(report.aggregate.was_cancelled && report.aggregate.incomplete_reason.is_some());
    assert!(
        report
            .phases
            .iter()
            .all(|phase| phase.scope.was_cancelled && phase.scope.incomplete_reason.is_some())
    );
    let window = report.phases[1].scope.window.unwrap();
    assert!(!window.ended && report.phases[0].scope.window.unwrap().ended);
    assert_eq!(window.start_ns, anchor().to_wall_ns(success(STRESS, 5).issued));
    assert_eq!(window.end_ns, anchor().to_wall_ns(success(STRESS, 6).end));
}

#[test]
fn a_run_that_sent_nothing_has_a_report_without_metrics() {
    let report = report_of(&fixture::plan(), &[], &[]);
    assert!(report.aggregate.metrics.is_empty() && report.aggregate.window.is_none());
    assert!(report.phases.is_empty() && report.warmup.is_none());
}

#[test]
fn without_records_distributions_come_from_histograms_and_counts_from_the_phase() {
    let mut plan = fixture::plan();
    plan.artifacts.records = false;
    let mut collector = Collector::new(&plan, anchor());
    for core in 0..2 {
        let mut histograms = PhaseHistograms::new();
        histograms.record(Family::RequestLatency, (core + 1) * 100_000_000);
        histograms.record(Family::OutputTokens, 16);
        histograms.record(Family::SendLag, 50_000);
        collector.add_histograms(BASELINE, &histograms);
    }
    collector.add(&other(BASELINE, 9, Outcome::Error), &errors());
    let report = collector.finish(&[summary(BASELINE, 2000, 4000, tally(2, 1, 0, 0))], &RunEnd::Complete);
    let scope = &report.aggregate;
    assert_eq!(report.percentiles, PercentileMode::Histogram);
    let latency = scope.distribution("request_latency").unwrap();
    assert_eq!((latency.avg, latency.max, latency.count), (Some(150.0), Some(200.0), 2));
    assert_eq!(scope.scalar("request_count"), Some(2.0));
    assert_eq!(scope.scalar("error_request_count"), Some(1.0));
    assert_eq!(scope.scalar("request_throughput"), Some(1.0));
    assert_eq!(scope.scalar("output_token_throughput"), Some(16.0));
    assert_eq!(scope.scalar("benchmark_duration"), Some(2.0));
    assert_eq!(scope.errors[0].code, Some(503));
    let lag = scope.send_lag.as_ref().unwrap();
    assert_eq!((lag.count, lag.percentile(99)), (2, Some(0.05)));
    assert!(scope.get("credit_to_start_latency").is_none() && scope.get("adj_request_latency").is_none());
}

#[test]
fn tables_are_in_console_order_with_the_aggregate_last() {
    let records = [
        success(WARMUP, 0),
        success(BASELINE, 1),
        other(BASELINE, 2, Outcome::Error),
    ];
    let report = report_of(&fixture::plan(), &records, &[]);
    let tables = report.scopes();
    let phases: Vec<_> = tables
        .iter()
        .map(|table| table.phase.map(|phase| phase.name.as_str()))
        .collect();
    assert_eq!(phases, [Some("warmup"), Some("baseline"), None]);
    let main: Vec<&str> = tables[2]
        .rows
        .iter()
        .filter(|r| r.group == Group::Main)
        .map(|r| r.header)
        .collect();
    assert_eq!(
        main[..3],
        [
            "Time to First Token",
            "Time to Second Token",
            "Time to First Output Token"
        ]
    );
    assert!(main.last().unwrap().ends_with("(error-adjusted)"));
    let effective = tables[2].rows.iter().filter(|row| row.group == Group::Effective);
    let effective: Vec<&str> = effective.map(|row| row.header).collect();
    assert_eq!(
        (effective[0], tables[2].rows[0].header),
        ("Effective Latency (CO-aware)", effective[0])
    );
    let is_on_the_wire = |row: &DistributionRow| row.group == Group::Trace;
    assert!(
        tables[2]
            .rows
            .iter()
            .all(|row| row.header.starts_with("HTTP") == is_on_the_wire(row))
    );
    let first = tables[2]
        .rows
        .iter()
        .position(is_on_the_wire)
        .expect("they are measured");
    assert!(tables[2].rows[first..].iter().all(is_on_the_wire), "behind all others");
    let throughput = tables[2].scalars.iter().position(|s| s.header == "Request Throughput");
    let count = tables[2].scalars.iter().position(|s| s.header == "Request Count");
    assert!(throughput.unwrap() < count.unwrap());
}

/// Records that differ in everything a figure depends on.
fn record() -> impl Strategy<Value = RequestRecord> {
    let spans = (1..5_000_000_000u64, 0..5_000_000_000u64, 0..1_000_000u64);
    (0..2000u64, 1..3u16, 0..6u8, spans, prop::option::of(0..40u32)).prop_map(
        |(sequence, phase, fate, (ttft, decode, tail), tokens)| {
            let phase = crate::id::PhaseId(phase);
            match fate {
                0 => other(phase, sequence, Outcome::Error),
                1 => other(phase, sequence, Outcome::Cancelled),
                2 => other(phase, sequence, Outcome::Truncated),
                _ => {
                    let mut record = success(phase, sequence);
                    record.first_content = record.start + Nanos(ttft);
                    record.last_content = record.first_content + Nanos(decode);
                    record.end = record.last_content + Nanos(tail);
                    record.gaps = vec![decode];
                    record.usage.completion_tokens = tokens;
                    record
                }
            }
        },
    )
}

proptest! {
    #[test]
    fn the_order_of_records_does_not_matter(records in prop::collection::vec(record(), 1..60), pivot in any::<prop::sample::Index>()) {
        let plan = fixture::plan();
        let mut shuffled = records.clone();
        shuffled.rotate_left(pivot.index(records.len()));
        shuffled.reverse();
        let (a, b) = (report_of(&plan, &records, &[]), report_of(&plan, &shuffled, &[]));
        prop_assert_eq!(format!("{:?}", a.aggregate), format!("{:?}", b.aggregate));
    }

    #[test]
    fn figures_are_finite_and_ordered_and_counts_add_up(records in prop::collection::vec(record(), 1..60)) {
        let scope = report_of(&fixture::plan(), &records, &[]).aggregate;
        prop_assert_eq!(scope.counts.sent, records.len() as u64);
        prop_assert_eq!(scope.counts.returned(), scope.counts.sent);
        for measured in &scope.metrics {
            match &measured.value {
                Value::Scalar(value) => prop_assert!(value.is_finite(), "{}", measured.metric.tag),
                Value::Distribution(d) => {
                    let figures = [d.min].into_iter().chain(d.percentiles).chain([d.max]).flatten();
                    let figures: Vec<f64> = figures.collect();
                    prop_assert!(figures.is_sorted(), "{}: {figures:?}", measured.metric.tag);
                    prop_assert!(figures.iter().all(|f| f.is_finite()));
                }
            }
        }
    }

    #[test]
    fn the_latency_percentiles_are_those_of_the_records(records in prop::collection::vec(record(), 1..60)) {
        let scope = report_of(&fixture::plan(), &records, &[]).aggregate;
        let mut latencies: Vec<f64> = records
            .iter()
            .filter(|r| r.outcome == Outcome::Success)
            .map(|r| (r.last_content.0 - r.start.0) as f64 / 1e6)
            .collect();
        latencies.sort_by(|a, b| a.partial_cmp(b).unwrap());
        match scope.distribution("request_latency") {
            None => prop_assert!(latencies.is_empty()),
            Some(d) => for q in PERCENTILES {
                let rank = (latencies.len() - 1) as f64 * f64::from(q) / 100.0;
                let (low, high) = (latencies[rank as usize], latencies[rank.ceil() as usize]);
                let expected = low * (1.0 - rank.fract()) + high * rank.fract();
                let found = d.percentile(q).unwrap();
                prop_assert!((found - expected).abs() <= 1e-9 * expected, "p{q}: {found} is not {expected}");
            },
        }
    }
}

#[test]
fn many_records_in_parallel_give_the_same_as_few_in_line() {
    let plan = fixture::plan();
    let records: Vec<RequestRecord> = (0..30_000).map(|sequence| success(BASELINE, sequence)).collect();
    let mut collector = Collector::new(&plan, anchor());
    for record in records.iter().chain(&records) {
        collector.add(record, &[]);
    }
    let parallel = collector.finish(&[], &RunEnd::Complete).aggregate;
    let inline = report_of(&plan, &records, &[]).aggregate;
    let tags = |scope: &ScopeReport| scope.metrics.iter().map(|m| m.metric.tag).collect::<Vec<_>>();
    assert_eq!(tags(&parallel), tags(&inline));
    let (a, b) = (
        parallel.distribution("request_latency").unwrap(),
        inline.distribution("request_latency").unwrap(),
    );
    assert_eq!((a.count, a.percentiles, a.avg), (2 * b.count, b.percentiles, b.avg));
}

#[test]
fn replay_lag_counts_from_the_least_late_request_of_phases_with_a_schedule() {
    let mut plan = fixture::plan();
    // 101 successes that started 2, 3, ..., 102 ms late: percentiles of the lag without its smallest value are whole milliseconds.
    let late = |phase, sequence: u64| {
        let mut record = success(phase, sequence);
        for instant in [&mut record.start, &mut record.last_content, &mut record.end] {
            *instant = *instant + Nanos::from_millis(sequence);
        }
        record
    };
    let records: Vec<RequestRecord> = (0..101).map(|sequence| late(BASELINE, sequence)).collect();
    let windows = [summary(BASELINE, 2000, 20_000, tally(101, 0, 0, 0))];
    assert_eq!(
        report_of(&plan, &records, &windows)
            .aggregate
            .scalar("replay_sched_lag_p50"),
        None
    );

    let starts = (0..101).map(|k| (Some(Nanos::from_millis(k * 100)), 1));
    let schedule = crate::plan::Schedule::new(starts, crate::plan::Window::default()).expect("timestamps");
    plan.phases[BASELINE.index()].arrival = crate::plan::Arrival::FixedSchedule(schedule);
    let scope = report_of(&plan, &records, &windows).aggregate;
    let figures = ["p50", "p90", "p99"].map(|at| scope.scalar(&format!("replay_sched_lag_{at}")));
    assert_eq!(figures, [Some(50.0), Some(90.0), Some(99.0)]);
    assert_eq!(scope.scalar("replay_sched_degraded"), Some(0.0));

    let mut stuck = records;
    stuck[1].end = stuck[1].end + Nanos::from_secs(60);
    stuck[1].start = stuck[1].start + Nanos::from_secs(60);
    stuck[1].last_content = stuck[1].end;
    let scope = report_of(
        &plan,
        &stuck[..2],
        &[summary(BASELINE, 2000, 70_000, tally(2, 0, 0, 0))],
    )
    .aggregate;
    assert_eq!(scope.scalar("replay_sched_degraded"), Some(1.0));
}
