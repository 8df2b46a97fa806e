//! `slos`.

use super::*;

/// The sample with these thresholds on line 8, against an endpoint that streams or does not.
fn text(slos: &str, streaming: bool) -> String {
    let endpoint = if streaming {
        "  endpoint: {url: \"http://h:1\", streaming: true}\n"
    } else {
        SAMPLE.endpoint
    };
    let sample = Sample { endpoint, ..SAMPLE }.text();
    format!("{sample}  slos: {slos}\n")
}

#[track_caller]
fn mistake(slos: &str, streaming: bool, path: &str, words: &[&str]) {
    let found = mistakes(&text(slos, streaming));
    let [only] = &found[..] else {
        panic!("one mistake expected, found {found:#?}")
    };
    assert!(
        only.starts_with("8:") && only.contains(&format!(": benchmark.slos{path}: ")),
        "{only}"
    );
    for words in words {
        assert!(only.contains(words), "{words} is not in: {only}");
    }
}

#[test]
fn thresholds_are_read_in_the_order_of_the_file() {
    let slos = read(&text(
        "{time_to_first_token: 40, request_latency: 120.5, output_sequence_length: 1e3}",
        true,
    ))
    .slos;
    let read: Vec<(&str, f64)> = slos.iter().map(|slo| (slo.metric, slo.threshold)).collect();
    assert_eq!(
        read,
        [
            ("time_to_first_token", 40.0),
            ("request_latency", 120.5),
            ("output_sequence_length", 1000.0)
        ]
    );
    for nothing in ["{}", "[]", "null"] {
        assert!(read_slos(nothing).is_empty(), "{nothing}");
    }
}

fn read_slos(slos: &str) -> Vec<Slo> {
    read(&text(slos, true)).slos
}

#[test]
fn an_unknown_metric_is_named_with_the_nearest_and_all_that_are_allowed() {
    let nearest = "did you mean `time_to_first_token`?";
    mistake(
        "{time_to_frist_token: 5}",
        true,
        ".time_to_frist_token",
        &["unknown metric `time_to_frist_token`", nearest],
    );
    mistake("{TTFT: 5}", true, ".TTFT", &[nearest, "http_req_total"]);
    // It is not among the allowed ones then, and the message says why.
    mistake(
        "{TTFT: 5}",
        false,
        ".TTFT",
        &[
            nearest,
            "the endpoint does not stream: set endpoint.streaming: true; without it allowed: request_latency, effective_latency,",
        ],
    );
    mistake(
        "{made_up_metric: 5}",
        true,
        ".made_up_metric",
        &["allowed: request_latency, time_to_first_token,"],
    );
}

#[test]
fn what_no_request_can_be_judged_by_is_refused_with_the_reason() {
    mistake(
        "{request_throughput: 5}",
        true,
        ".request_throughput",
        &["a figure of a whole phase"],
    );
    mistake("{goodput: 5}", true, ".goodput", &["a figure of a whole phase"]);
    mistake(
        "{inter_chunk_latency: 5}",
        true,
        ".inter_chunk_latency",
        &["many values", "inter_token_latency"],
    );
    mistake("{error_isl: 5}", true, ".error_isl", &["failed requests"]);
    mistake("{rtfx: 5}", true, ".rtfx", &["not supported by ringload yet"]);
}

#[test]
fn metrics_of_streams_need_a_stream() {
    let reason = "the endpoint does not stream";
    mistake(
        "{time_to_first_token: 5}",
        false,
        ".time_to_first_token",
        &[reason, "endpoint.streaming: true"],
    );
    assert_eq!(read(&text("{request_latency: 5}", false)).slos.len(), 1);
    // What could not be judged is not on offer either.
    let found = mistakes(&text("{zebra: 5}", false));
    assert!(!found[0].contains("decode_duration"), "{found:?}");
}

#[test]
fn answers_without_tokens_are_judged_by_what_they_have() {
    let embeddings = |slos: &str| {
        let endpoint = "  endpoint: {url: \"http://h:1\", type: embeddings}\n";
        let sample = Sample { endpoint, ..SAMPLE }.text();
        format!("{sample}  slos: {slos}\n")
    };
    for metric in ["output_token_count", "time_to_first_token"] {
        let found = mistakes(&embeddings(&format!("{{{metric}: 5}}")));
        let [only] = &found[..] else {
            panic!("one mistake expected, found {found:#?}")
        };
        assert!(only.contains("the endpoint type embeddings has none"), "{only}");
        let (_, allowed) = only.split_once("allowed: ").expect("what is allowed");
        assert!(
            allowed.contains("request_latency") && !allowed.contains(metric),
            "{only}"
        );
    }
    assert_eq!(
        read(&embeddings("{request_latency: 5, usage_prompt_tokens: 9}"))
            .slos
            .len(),
        2
    );
}

#[test]
fn thresholds_are_finite_numbers() {
    mistake(
        "{request_latency: fast}",
        true,
        ".request_latency",
        &["found `fast`; allowed: a number that is finite"],
    );
    mistake(
        "{request_latency: .inf}",
        true,
        ".request_latency",
        &["a number that is finite"],
    );
    mistake(
        "{request_latency: [1, 2]}",
        true,
        ".request_latency",
        &["put the list under `sweep`"],
    );
    mistake(
        "{request_latency: {p95: 5}}",
        true,
        ".request_latency",
        &["found a mapping"],
    );
    mistake("[request_latency]", true, "", &["a mapping of metrics to thresholds"]);
    assert_eq!(read_slos("{osl_mismatch_diff_pct: -5}")[0].threshold, -5.0);
    let both = mistakes(&text("{nonsense_x: fast}", true));
    assert_eq!(both.len(), 2, "{both:?}");
}

#[test]
fn a_sweep_may_vary_a_threshold() {
    let sample = text("{request_latency: 5}", true);
    let swept = format!("sweep: {{type: grid, parameters: {{slos.request_latency: [100, 200]}}}}\n{sample}");
    let suite = parse_suite("f.yaml", swept.as_bytes(), &environment).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let thresholds: Vec<f64> = suite
        .variations
        .iter()
        .map(|one| one.config.slos[0].threshold)
        .collect();
    assert_eq!(thresholds, [100.0, 200.0]);
}
