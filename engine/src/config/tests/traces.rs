//! What a config does to recorded times and lengths.

use super::*;

fn with(dataset: &str) -> String {
    let replaced = format!("dataset: {{{dataset}}}");
    SAMPLE
        .text()
        .replace("dataset: {entries: 4, isl: 16, osl: 8}", &replaced)
}

fn file(fields: &str) -> FileDataset {
    let config = read(&with(&format!("type: file, path: t.jsonl, {fields}")));
    config.dataset.file.expect("a file")
}

/// Asserts that every one of these is the only mistake, at this key of the dataset.
fn each_is_a_mistake(cases: &[(&str, &str, &str)]) {
    for (dataset, key, words) in cases {
        let found = mistakes(&with(dataset));
        let [mistake] = &found[..] else {
            panic!("{dataset}: {found:#?}")
        };
        let place = format!(": benchmark.dataset.{key}: ");
        assert!(
            mistake.contains(&place) && mistake.contains(words),
            "{dataset}: {mistake}"
        );
    }
}

#[test]
fn times_of_a_file_are_ignored_or_capped() {
    let times = |fields: &str| {
        let file = file(fields);
        (file.ignore_trace_delays, file.delay_cap_s)
    };
    assert_eq!(times("format: multi_turn"), (None, None));
    assert_eq!(
        times("ignore_trace_delays: on, use_think_time_only: false"),
        (Some(true), None)
    );
    assert_eq!(times("ignoreTraceDelays: false"), (Some(false), None));
    for (written, seconds) in [("0", 0.0), ("2.5", 2.5), ("1500ms", 1.5)] {
        let fields = format!("inter_turn_delay_cap_seconds: {written}");
        assert_eq!(times(&fields), (None, Some(seconds)));
    }
    each_is_a_mistake(&[
        (
            "type: file, path: t, ignore_trace_delays: 2",
            "ignore_trace_delays",
            "true or false",
        ),
        (
            "type: file, path: t, inter_turn_delay_cap_seconds: -1",
            "inter_turn_delay_cap_seconds",
            "found `-1`; allowed: a duration of at least 0",
        ),
        (
            "type: file, path: t, inter_turn_delay_cap_seconds: inf",
            "inter_turn_delay_cap_seconds",
            "found `inf`",
        ),
        (
            "isl: 5, inter_turn_delay_cap_seconds: 1",
            "inter_turn_delay_cap_seconds",
            "has no meaning for synthetic prompts",
        ),
        (
            "isl: 5, ignore_trace_delays: true",
            "ignore_trace_delays",
            "has no meaning for synthetic prompts",
        ),
        (
            "type: file, path: t, use_think_time_only: true",
            "use_think_time_only",
            "not supported by ringload yet",
        ),
    ]);
}

#[test]
fn a_cap_without_delays_says_that_it_has_no_effect() {
    let text = with("type: file, path: t, ignore_trace_delays: true, inter_turn_delay_cap_seconds: 1");
    let warnings = read(&text).warnings;
    assert!(
        warnings.len() == 1 && warnings[0].contains("inter_turn_delay_cap_seconds: this has no effect"),
        "{warnings:?}"
    );
}

#[test]
fn a_sweep_varies_what_is_done_to_times() {
    let text = format!(
        "sweep: {{type: grid, parameters: {{dataset.ignore_trace_delays: [true, false], dataset.inter_turn_delay_cap_seconds: [1, 2]}}}}\n{}",
        with("type: file, path: t")
    );
    let suite = parse_suite("f.yaml", text.as_bytes(), &environment)
        .unwrap_or_else(|mistakes| panic!("{}\n{text}", mistakes.render(true)));
    let times = |variation: &super::super::Variation| {
        let file = variation.config.dataset.file.as_ref().expect("a file");
        (file.ignore_trace_delays, file.delay_cap_s)
    };
    let found: Vec<_> = suite.variations.iter().map(times).collect();
    let pairs = [(true, 1.0), (true, 2.0), (false, 1.0), (false, 2.0)];
    assert_eq!(found, pairs.map(|(ignore, cap)| (Some(ignore), Some(cap))));
}
