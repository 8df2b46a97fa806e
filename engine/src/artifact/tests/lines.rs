//! Lines of `profile_export.jsonl` for requests that did not succeed.

use super::*;

#[test]
fn failed_cancelled_and_cut_requests_have_lines_with_their_error() {
    let lines = multi_phase().lines();
    let (failed, cancelled, cut) = (&lines[2], &lines[5], &lines[6]);
    let expected = json!({"code": 503, "type": "Service Unavailable", "message": "busy \"now\"\n"});
    assert_eq!(failed["error"], expected);
    assert_eq!(failed["metrics"], json!({"error_isl": {"value": 64, "unit": "tokens"}}));
    assert_eq!(failed["metadata"]["was_cancelled"], false);
    assert!(failed["metadata"].get("request_ack_ns").is_none());

    assert_eq!(cancelled["error"]["code"], 499);
    assert_eq!(cancelled["metadata"]["was_cancelled"], true);
    assert_eq!(
        cancelled["metadata"]["cancellation_time_ns"],
        cancelled["metadata"]["request_end_ns"]
    );

    assert_eq!(
        [failed, cancelled, cut].map(|line| line["ringload"].get("partial_tokens").cloned()),
        [None, Some(json!(0)), Some(json!(0))]
    );

    assert_eq!(cut["error"], json!({"type": "RequestTruncated", "message": "cut"}));
    assert_eq!(
        (&cut["metadata"]["was_cancelled"], &cut["metrics"]),
        (&json!(true), &json!({}))
    );
}

#[test]
fn a_success_says_whether_it_was_good_and_a_failure_does_not() {
    let mut judged = plan();
    judged.slos = vec![crate::plan::Slo {
        metric: "request_latency",
        threshold: 100.0,
    }];
    let mut slow = success(BASELINE, 1);
    slow.last_content = slow.start + Nanos::from_millis(101);
    let records = [success(BASELINE, 0), slow, other(BASELINE, 2, Outcome::Error)];
    let lines = write_tree(judged, &records, &RunEnd::Complete).lines();
    let good = |line: &Value| line["metrics"].get("good_request_count").cloned();
    let count = |count: u64| Some(json!({"value": count, "unit": "requests"}));
    assert_eq!([0, 1, 2].map(|at| good(&lines[at])), [count(1), count(0), None]);
    let unjudged = write_tree(plan(), &records, &RunEnd::Complete).lines();
    assert_eq!(good(&unjudged[0]), None);
}

#[test]
fn tokens_that_came_before_a_disconnect_are_kept_and_count_nowhere() {
    let streamed = |content_events, completion_tokens| {
        let mut record = other(BASELINE, 1, Outcome::Cancelled);
        record.content_events = content_events;
        record.usage.completion_tokens = completion_tokens;
        record
    };
    for (record, expected) in [(streamed(7, None), 7), (streamed(7, Some(9)), 9)] {
        let tree = write_tree(plan(), &[success(BASELINE, 0), record], &RunEnd::Complete);
        assert_eq!(tree.lines()[1]["ringload"]["partial_tokens"], expected);
        let root = tree.json("profile_export_aiperf.json");
        assert_eq!(root["total_output_tokens"]["avg"], 16.0);
    }
}
