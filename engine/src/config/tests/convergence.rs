//! `multi_run.convergence`: what may converge, and how.

use super::super::{Convergence, ConvergenceMode, parse_suite};
use super::{environment, mistakes};

fn text(rule: &str, more: &str, benchmark: &str) -> String {
    format!(
        "multi_run: {{num_runs: 5, convergence: {rule}}}\n{more}benchmark:\n  model: m\n  endpoint: {{url: \"http://h:1\"}}\n  dataset: {{entries: 4, isl: 16, osl: \
         8}}\n  phases:\n    - {{name: load, kind: profiling, type: concurrency, requests: 4}}\n{benchmark}"
    )
}

fn rule(written: &str) -> Option<Convergence> {
    let text = text(written, "", "");
    let suite = parse_suite("f.yaml", text.as_bytes(), &environment);
    suite
        .unwrap_or_else(|mistakes| panic!("{written}: {mistakes}"))
        .multi_run
        .convergence
}

#[test]
fn the_threshold_has_a_default_for_each_mode() {
    let expected = Convergence {
        metric: "request_latency",
        stat: "avg",
        mode: ConvergenceMode::CiWidth,
        threshold: 0.1,
        min_runs: 2,
    };
    assert_eq!(rule("{metric: request_latency}"), Some(expected.clone()));
    for (mode, threshold) in [(ConvergenceMode::Cv, 0.05), (ConvergenceMode::Distribution, 0.05)] {
        let found = rule(&format!("{{metric: request_latency, mode: {}}}", mode.as_str()));
        let expected = Convergence {
            mode,
            threshold,
            ..expected.clone()
        };
        assert_eq!(found, Some(expected));
    }
    let of_a_run = rule("{metric: effective_concurrency, stat: max}");
    assert_eq!(
        of_a_run.map(|rule| (rule.metric, rule.stat)),
        Some(("effective_concurrency", "max"))
    );
    let all = rule("{metric: request_latency, stat: P99, mode: CV, threshold: 0, minRuns: 5}");
    assert_eq!(
        all,
        Some(Convergence {
            stat: "p99",
            mode: ConvergenceMode::Cv,
            threshold: 0.0,
            min_runs: 5,
            ..expected
        })
    );
    assert_eq!(rule("null"), None);
}

#[test]
fn a_rule_that_cannot_hold_is_a_mistake_with_its_place() {
    for (written, path, words) in [
        ("{}", "convergence.metric", "this key is required"),
        (
            "{metric: latency}",
            "convergence.metric",
            "did you mean `request_latency`?",
        ),
        (
            "{metric: ttft}",
            "convergence.metric",
            "did you mean `time_to_first_token`?",
        ),
        (
            "{metric: x}",
            "convergence.metric",
            "allowed: a metric of the run's summary",
        ),
        ("{metric: rtfx}", "convergence.metric", "not supported by ringload yet"),
        (
            "{metric: request_latency, stat: p42}",
            "convergence.stat",
            "allowed: avg, p50, p90",
        ),
        (
            "{metric: request_throughput, stat: p99}",
            "convergence.stat",
            "`request_throughput` is one figure of a run",
        ),
        (
            "{metric: request_latency, stat: p99, mode: distribution}",
            "convergence.stat",
            "compares all requests",
        ),
        (
            "{metric: request_latency, mode: ks}",
            "convergence.mode",
            "allowed: ci_width, cv, distribution",
        ),
        (
            "{metric: request_throughput, mode: distribution}",
            "convergence.metric",
            "a figure of a whole run",
        ),
        (
            "{metric: effective_latency, mode: distribution}",
            "convergence.metric",
            "do not have `effective_latency`",
        ),
        (
            "{metric: request_latency, threshold: 1.5}",
            "convergence.threshold",
            "found `1.5`",
        ),
        (
            "{metric: request_latency, threshold: .nan}",
            "convergence.threshold",
            "found `.nan`",
        ),
        (
            "{metric: request_latency, min_runs: 1}",
            "convergence.min_runs",
            "at least 2",
        ),
        (
            "{metric: request_latency, min_runs: 6}",
            "convergence.min_runs",
            "there are 5 runs at most",
        ),
        (
            "{metric: request_latency, mn_runs: 2}",
            "convergence.mn_runs",
            "did you mean `min_runs`?",
        ),
        // What takes a stream, tokens or service levels, where there are none.
        ("{metric: time_to_first_token}", "convergence.metric", "does not stream"),
        (
            "{metric: active_total_throughput}",
            "convergence.metric",
            "does not stream",
        ),
        ("{metric: goodput}", "convergence.metric", "there are no `slos`"),
    ] {
        let found = mistakes(&text(written, "", ""));
        assert!(
            found.len() == 1 && found[0].starts_with("1:") && found[0].contains(path) && found[0].contains(words),
            "{written}: {found:#?}"
        );
    }
    let found = mistakes(&text("{metric: request_latency}", "", "").replace("num_runs: 5, ", ""));
    assert!(found.len() == 1 && found[0].contains("it takes 2 runs"), "{found:?}");
    let found = mistakes(&text(
        "{metric: request_latency, mode: distribution}",
        "",
        "  artifacts: {records: false}\n",
    ));
    assert!(
        found.len() == 1 && found[0].contains("artifacts.records is false"),
        "{found:?}"
    );
    let found = mistakes(
        &text("{metric: output_sequence_length}", "", "").replace("\"http://h:1\"", "\"http://h:1\", type: embeddings"),
    );
    assert!(
        found
            .iter()
            .any(|mistake| mistake.contains("the endpoint type embeddings has none")),
        "{found:?}"
    );
}

#[test]
fn a_metric_that_some_variations_lack_names_one_of_them() {
    let sweep = "sweep: {type: grid, parameters: {endpoint.streaming: [true, false]}}\n";
    let found = mistakes(&text("{metric: time_to_first_token}", sweep, ""));
    assert!(
        found.len() == 1 && found[0].contains("(in the variation `endpoint.streaming=False`)"),
        "{found:?}"
    );
    let good = text("{metric: request_latency}", sweep, "");
    assert!(parse_suite("f.yaml", good.as_bytes(), &environment).is_ok());
}
