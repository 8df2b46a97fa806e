//! Requests counted by what was wrong with them.

use super::*;

#[test]
fn an_output_far_from_the_request_is_a_mismatch() {
    let with_tokens = |sequence, tokens| {
        let mut record = success(BASELINE, sequence);
        record.usage.completion_tokens = Some(tokens);
        record
    };
    // 5 % of 16 is 0.8: one token off is too far.
    let records = [with_tokens(0, 16), with_tokens(1, 15), with_tokens(2, 32)];
    let scope = report_of(&fixture::plan(), &records, &[]).aggregate;
    assert_eq!(scope.scalar("osl_mismatch_count"), Some(2.0));
    let difference = scope.distribution("osl_mismatch_diff_pct").unwrap();
    assert_eq!((difference.min, difference.max), (Some(-6.25), Some(100.0)));
}

#[test]
fn an_input_that_the_server_counts_otherwise_is_a_discrepancy() {
    let counted = |sequence, tokens| {
        let mut record = success(BASELINE, sequence);
        record.usage.prompt_tokens = tokens;
        record
    };
    // 64 tokens in the dataset: 10 % are 6.4, and a server that does not count is none.
    let counts = [Some(70), Some(71), Some(57), Some(58), None];
    let records: Vec<RequestRecord> = (0..).zip(counts).map(|(at, tokens)| counted(at, tokens)).collect();
    let scope = report_of(&fixture::plan(), &records, &[]).aggregate;
    assert_eq!(scope.scalar("usage_discrepancy_count"), Some(2.0));
    let difference = scope.distribution("usage_prompt_tokens_diff_pct").unwrap();
    assert_eq!((difference.count, difference.max), (4, Some(700.0 / 64.0)));
}

#[test]
fn failures_count_and_stay_out_of_latencies() {
    let records = [
        success(BASELINE, 0),
        other(BASELINE, 1, Outcome::Error),
        other(BASELINE, 2, Outcome::Error),
        other(BASELINE, 3, Outcome::Cancelled),
        other(BASELINE, 4, Outcome::Truncated),
    ];
    let report = report_of(
        &fixture::plan(),
        &records,
        &[summary(BASELINE, 2000, 3000, tally(1, 2, 1, 1))],
    );
    let scope = &report.aggregate;
    assert_eq!(scope.counts, tally(1, 2, 1, 1));
    assert_eq!(scope.scalar("request_count"), Some(1.0));
    assert_eq!(scope.scalar("error_request_count"), Some(3.0));
    assert_eq!(scope.scalar("completed_request_count"), Some(4.0));
    assert_eq!(scope.scalar("request_error_rate"), Some(75.0));
    assert_eq!(scope.scalar("context_overflow_count"), Some(0.0));
    assert_eq!(scope.scalar("total_error_isl"), Some(192.0));
    assert_eq!(scope.distribution("request_latency").unwrap().count, 1);
    assert_eq!(scope.distribution("credit_to_start_latency").unwrap().count, 4);
    let adjusted = scope.distribution("adj_request_latency").unwrap();
    assert_eq!(
        (adjusted.count, adjusted.min, adjusted.percentile(1)),
        (4, Some(80.0), Some(80.0))
    );
    // Rank 1.5 ties to 2, which is a failure.
    assert_eq!(
        (adjusted.percentile(50), adjusted.max, adjusted.avg),
        (None, None, None)
    );
    let texts: Vec<_> = scope
        .errors
        .iter()
        .map(|e| (e.code, e.type_name.as_str(), e.count))
        .collect();
    let expected = [
        (Some(503), "Service Unavailable", 2),
        (Some(499), "RequestCancellationError", 1),
    ];
    assert_eq!(texts, expected);
}

#[test]
fn equal_errors_of_different_cores_are_one() {
    let mut collector = Collector::new(&fixture::plan(), anchor());
    let table = errors();
    let reversed: Vec<_> = table.iter().rev().cloned().collect();
    collector.add(&other(BASELINE, 0, Outcome::Error), &table);
    let mut elsewhere = other(BASELINE, 1, Outcome::Error);
    (elsewhere.core, elsewhere.error) = (crate::id::CoreId(4), 2);
    collector.add(&elsewhere, &reversed);
    let report = collector.finish(&[], &RunEnd::Complete);
    assert_eq!(report.aggregate.errors.len(), 1);
    assert_eq!(report.aggregate.errors[0].count, 2);
}
