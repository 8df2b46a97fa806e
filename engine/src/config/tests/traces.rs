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

#[test]
fn changes_of_a_trace_are_read_as_they_are_written() {
    let all = file(
        "format: mooncake_trace, synthesis: {speedup_ratio: 2.5, prefix_len_multiplier: 1.5, prefix_root_multiplier: 3, prompt_len_multiplier: 0.5, \
         output_len_multiplier: 0, maxIsl: 4096, max_osl: 1e3, allow_dataset_wrap: false}",
    );
    let read = all.synthesis.expect("changes");
    let expected = Synthesis {
        at: read.at,
        speedup_ratio: Some(2.5),
        prefix_len_multiplier: Some(1.5),
        prefix_root_multiplier: Some(3),
        prompt_len_multiplier: Some(0.5),
        output_len_multiplier: Some(0.0),
        max_isl: Some(4096),
        max_osl: Some(1000),
    };
    assert_eq!(read, expected);
    // Values that change nothing suit every format, as the peer writes them into its own configs.
    for format in ["single_turn", "multi_turn", "mooncake_trace", "random_pool"] {
        let defaults = "speedup_ratio: 1.0, prefix_len_multiplier: 1, prefix_root_multiplier: 1, prompt_len_multiplier: 1.0, output_len_multiplier: 1.0, \
                        max_isl: null, max_osl: null";
        assert!(
            file(&format!("format: {format}, synthesis: {{{defaults}}}"))
                .synthesis
                .is_some()
        );
    }
    let talk = file("format: multi_turn, synthesis: {speedup_ratio: 2, output_len_multiplier: 2, max_osl: 9}");
    assert_eq!(talk.synthesis.and_then(|read| read.max_osl), Some(9));
}

#[test]
fn changes_that_no_trace_can_have_are_mistakes_at_their_keys() {
    let trace = |changes: &str| format!("type: file, path: t, format: mooncake_trace, synthesis: {{{changes}}}");
    let of = |format: &str, changes: &str| format!("type: file, path: t, format: {format}, synthesis: {{{changes}}}");
    let cases = [
        (trace("speedup_ratio: 0"), "speedup_ratio", "a number above 0"),
        (trace("speedup_ratio: inf"), "speedup_ratio", "a number above 0"),
        (
            trace("prefix_len_multiplier: 0"),
            "prefix_len_multiplier",
            "a number above 0",
        ),
        (
            trace("prompt_len_multiplier: -1"),
            "prompt_len_multiplier",
            "a number above 0",
        ),
        (
            trace("output_len_multiplier: -0.1"),
            "output_len_multiplier",
            "a number of at least 0",
        ),
        (
            trace("prefix_root_multiplier: 1.5"),
            "prefix_root_multiplier",
            "a whole number from 1",
        ),
        (trace("max_isl: 0"), "max_isl", "a whole number from 1"),
        (trace("max_osl: 1e9"), "max_osl", "a whole number from 1"),
        (
            trace("allow_dataset_wrap: true"),
            "allow_dataset_wrap",
            "not supported by ringload yet",
        ),
        (
            trace("speedup_ration: 2"),
            "speedup_ration",
            "did you mean `speedup_ratio`?",
        ),
        (
            of("single_turn", "prompt_len_multiplier: 2"),
            "prompt_len_multiplier",
            "set format: mooncake_trace",
        ),
        (
            of("multi_turn", "prefix_root_multiplier: 2"),
            "prefix_root_multiplier",
            "set format: mooncake_trace",
        ),
        (of("multi_turn", "max_isl: 5"), "max_isl", "set format: mooncake_trace"),
        (
            of("random_pool", "output_len_multiplier: 2"),
            "output_len_multiplier",
            "remove the key",
        ),
    ];
    for (dataset, key, words) in &cases {
        each_is_a_mistake(&[(dataset, &format!("synthesis.{key}"), words)]);
    }
    each_is_a_mistake(&[
        (
            "isl: 5, synthesis: {speedup_ratio: 2}",
            "synthesis",
            "has no meaning for synthetic prompts",
        ),
        (
            "type: file, path: t, synthesis: 2",
            "synthesis",
            "a mapping with the keys speedup_ratio",
        ),
    ]);
}

#[test]
fn a_speed_of_ignored_times_says_that_it_has_no_effect() {
    let text = with("type: file, path: t, ignore_trace_delays: true, synthesis: {speedup_ratio: 2}");
    let warnings = read(&text).warnings;
    assert!(
        warnings.len() == 1 && warnings[0].contains("its `speedup_ratio` has no effect"),
        "{warnings:?}"
    );
}

#[test]
fn a_sweep_varies_the_changes_of_a_trace() {
    let text = format!(
        "sweep: {{type: grid, parameters: {{dataset.synthesis.speedup_ratio: [1, 2, 4]}}}}\n{}",
        with("type: file, path: t, format: mooncake_trace")
    );
    let suite = parse_suite("f.yaml", text.as_bytes(), &environment)
        .unwrap_or_else(|mistakes| panic!("{}\n{text}", mistakes.render(true)));
    let speed = |variation: &super::super::Variation| {
        let file = variation.config.dataset.file.as_ref().expect("a file");
        file.synthesis.and_then(|read| read.speedup_ratio)
    };
    let found: Vec<_> = suite.variations.iter().map(speed).collect();
    assert_eq!(found, [Some(1.0), Some(2.0), Some(4.0)]);
    assert_eq!(suite.variations[1].directory, "speedup_ratio_2");
}
