//! Limits of a phase beside its concurrency: `prefill_concurrency`, ramps, `failed_request_threshold`.

use super::*;

fn streamed(fields: &str) -> String {
    phase_text(fields).replace("\"http://h:1\"", "\"http://h:1\", streaming: true")
}

fn limits(fields: &str) -> Limits {
    read(&streamed(fields)).phases.remove(0).limits
}

/// The only mistake of a phase of a streaming endpoint.
#[track_caller]
fn mistake(fields: &str, key: &str, words: &str) {
    let found = mistakes(&streamed(fields));
    let [only] = &found[..] else {
        panic!("one mistake expected, found {found:#?}")
    };
    let path = format!("benchmark.phases[0].{key}: ");
    assert!(only.contains(&path) && only.contains(words), "{only}");
}

#[test]
fn limits_are_read_by_their_types() {
    let read = limits(
        "type: concurrency, concurrency: 8, requests: 9, prefill_concurrency: 2, prefillRamp: 500ms, \
         concurrency_ramp: {duration: 1m, strategy: Exponential}, failed_request_threshold: 0.25",
    );
    assert_eq!(read.prefill_concurrency, Some(2));
    assert_eq!(read.failed_request_threshold, Some(0.25));
    let ramp = |duration_s, strategy| Some(Ramp { duration_s, strategy });
    assert_eq!(read.prefill_ramp, ramp(0.5, RampStrategy::Linear));
    assert_eq!(read.concurrency_ramp, ramp(60.0, RampStrategy::Exponential));
    assert_eq!(limits("type: poisson, rate: 5, requests: 1"), Limits::default());
    assert_eq!(
        limits("type: poisson, rate: 5, requests: 1, prefill_concurrency: 900").prefill_concurrency,
        Some(900)
    );
    // A closed loop without a number has one slot, and that is what it rises to.
    assert!(
        limits("type: concurrency, requests: 1, concurrency_ramp: 3")
            .concurrency_ramp
            .is_some()
    );
}

#[test]
fn mistakes_of_limits_are_placed_at_their_value() {
    let stop = "requests: 2";
    for (fields, key, words) in [
        (
            "type: concurrency, prefill_concurrency: 0",
            "prefill_concurrency",
            "at least 1",
        ),
        (
            "type: concurrency, concurrency: 2, prefill_concurrency: 3",
            "prefill_concurrency",
            "allowed: at most 2",
        ),
        (
            "type: concurrency, prefill_concurrency: 2",
            "prefill_concurrency",
            "allowed: at most 1",
        ),
        ("type: concurrency, concurrency_ramp: 0", "concurrency_ramp", "above 0"),
        (
            "type: concurrency, concurrency_ramp: inf",
            "concurrency_ramp",
            "above 0",
        ),
        (
            "type: concurrency, concurrency_ramp: {strategy: linear}",
            "concurrency_ramp.duration",
            "required",
        ),
        (
            "type: concurrency, concurrency_ramp: {duration: 2, strategy: cubic}",
            "concurrency_ramp.strategy",
            "linear, exponential, poisson",
        ),
        (
            "type: concurrency, concurrency_ramp: {duration: 2, steps: 4}",
            "concurrency_ramp.steps",
            "unknown key",
        ),
        (
            "type: poisson, rate: 2, concurrency_ramp: 5",
            "concurrency_ramp",
            "there is no `concurrency`",
        ),
        (
            "type: concurrency, prefill_ramp: 5",
            "prefill_ramp",
            "there is no `prefill_concurrency`",
        ),
        (
            "type: concurrency, failed_request_threshold: 1.5",
            "failed_request_threshold",
            "from 0 to 1",
        ),
        (
            "type: concurrency, failed_request_threshold: 20%",
            "failed_request_threshold",
            "20%",
        ),
    ] {
        mistake(&format!("{fields}, {stop}"), key, words);
    }
}

#[test]
fn prefills_need_a_stream() {
    phase_mistake(
        "type: concurrency, concurrency: 4, requests: 2, prefill_concurrency: 2",
        "2}",
        ".prefill_concurrency",
        "set endpoint.streaming: true",
    );
}

#[test]
fn a_ramp_beside_a_mistaken_limit_is_no_second_mistake() {
    mistake(
        "type: concurrency, requests: 2, concurrency: x, concurrency_ramp: 2",
        "concurrency",
        "whole number",
    );
    mistake(
        "type: concurrency, concurrency: 4, requests: 2, prefil_concurrency: 2, prefill_ramp: 2",
        "prefil_concurrency",
        "did you mean `prefill_concurrency`?",
    );
}
