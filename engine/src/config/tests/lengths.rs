//! Distributions of lengths and delays, pairs and ranges of lengths.

use super::super::{Suite, parse_suite};
use super::*;

fn with(dataset: &str) -> String {
    SAMPLE.text().replace(
        "dataset: {entries: 4, isl: 16, osl: 8}",
        &format!("dataset: {{{dataset}}}"),
    )
}

fn isl(isl: &str) -> Option<Length> {
    read(&with(&format!("isl: {isl}"))).dataset.isl
}

fn peak<X>(of: X, weight: Option<f64>) -> Weighted<X> {
    Weighted { of, weight }
}

fn normal(mean: f64, stddev: f64) -> Length {
    Length::Normal {
        mean,
        stddev: Some(stddev),
    }
}

#[test]
fn each_kind_is_known_by_its_keys_or_by_its_name() {
    let log_normal = Length::LogNormal {
        mean: 32.0,
        median: 24.0,
    };
    assert_eq!(isl("{mean: 32, median: 24}"), Some(log_normal.clone()));
    assert_eq!(isl("{type: lognormal, median: 24, mean: 32}"), Some(log_normal.clone()));
    let points = Length::Points(Box::new([peak(1, Some(60.0)), peak(3, None)]));
    assert_eq!(
        isl("{points: [{value: 1, weight: 60}, {value: 3}]}"),
        Some(points.clone())
    );
    assert_eq!(
        isl("{type: empirical, points: [{value: 1, weight: 60}, {value: 3}]}"),
        Some(points.clone())
    );
    let peaks = Length::Peaks(Box::new([
        peak(normal(16.0, 2.0), Some(60.0)),
        peak(log_normal, Some(40.0)),
        peak(Length::Fixed(9), Some(0.0)),
        peak(points, None),
    ]));
    let text = "peaks: [{mean: 16, stddev: 2, weight: 60}, {mean: 32, median: 24, weight: 40}, {type: fixed, value: 9, weight: 0}, \
                {points: [{value: 1, weight: 60}, {value: 3}]}]";
    assert_eq!(isl(&format!("{{{text}}}")), Some(peaks.clone()));
    assert_eq!(isl(&format!("{{type: multimodal, {text}}}")), Some(peaks));
    // A key without a value is absent.
    assert_eq!(
        isl("{type: null, mean: 5, stddev: null, max: null}"),
        Some(Length::Normal {
            mean: 5.0,
            stddev: None
        })
    );
}

#[test]
fn bounds_go_with_every_kind() {
    let clamped = |of: Length, min, max| Some(Length::Clamped(Box::new(Clamped { of, min, max })));
    assert_eq!(
        isl("{mean: 16, stddev: 2, min: -5, max: 20.5}"),
        clamped(normal(16.0, 2.0), Some(-5.0), Some(20.5))
    );
    assert_eq!(
        isl("{value: 16, max: 12}"),
        clamped(Length::Fixed(16), None, Some(12.0))
    );
    let of_points = Length::Points(Box::new([peak(5, None)]));
    assert_eq!(
        isl("{points: [{value: 5}], min: 7, max: 7}"),
        clamped(of_points, Some(7.0), Some(7.0))
    );
    let peaks = Length::Peaks(Box::new([
        peak(
            Length::Clamped(Box::new(Clamped {
                of: normal(4.0, 1.0),
                min: None,
                max: Some(5.0),
            })),
            None,
        ),
        peak(Length::LogNormal { mean: 9.0, median: 9.0 }, None),
    ]));
    assert_eq!(
        isl("{peaks: [{mean: 4, stddev: 1, max: 5}, {mean: 9, median: 9}], min: 2}"),
        clamped(peaks, Some(2.0), None)
    );
}

#[test]
fn every_length_and_delay_takes_every_kind() {
    let dataset = read(&with(
        "osl: {mean: 9, median: 8}, turns: {points: [{value: 1}, {value: 4}]}, turn_delay: {peaks: [{value: 0.5}, {mean: 90, median: 30}], max: 500}",
    ))
    .dataset;
    assert!(matches!(dataset.osl, Some(Length::LogNormal { .. })));
    assert!(matches!(dataset.turns, Some(Length::Points(_))));
    let delay = Delay::Clamped(Box::new(Clamped {
        of: Delay::Peaks(Box::new([
            peak(Delay::Fixed(0.5), None),
            peak(
                Delay::LogNormal {
                    mean: 90.0,
                    median: 30.0,
                },
                None,
            ),
        ])),
        min: None,
        max: Some(500.0),
    }));
    assert_eq!(dataset.turn_delay, Some(delay));
    let ranked = with("rankings: {passages: {points: [{value: 2}]}, passage_tokens: {mean: 9, median: 8}, query_tokens: {value: 4, max: 3}}")
        .replace("url: \"http://h:1\"", "url: \"http://h:1\", type: nim_rankings");
    let rankings = read(&ranked).dataset.rankings;
    assert!(matches!(rankings.passages, Some(Length::Points(_))));
    assert!(matches!(rankings.passage_tokens, Some(Length::LogNormal { .. })));
    assert!(matches!(rankings.query_tokens, Some(Length::Clamped(_))));
    let file = read(&with("type: file, path: p, osl: {points: [{value: 2}]}")).dataset;
    assert!(matches!(file.osl, Some(Length::Points(_))));
}

#[test]
fn mistakes_in_distributions_are_at_their_keys() {
    for (isl, path, words) in [
        (
            "{mean: 5, median: 9}",
            "median",
            "found 9; allowed: a number above 0 and up to the mean, 5",
        ),
        (
            "{mean: 5, median: 0}",
            "median",
            "found `0`; allowed: a number above 0 and up to 10000000",
        ),
        ("{median: 4}", "mean", "this key is required"),
        (
            "{mean: 5, median: 4, stddev: 1}",
            "stddev",
            "no meaning for a log-normal distribution; remove it or `median`",
        ),
        (
            "{type: normal, mean: 5, median: 4}",
            "median",
            "no meaning for a normal distribution; remove it or change `type`",
        ),
        (
            "{mean: 5, value: 4}",
            "mean",
            "no meaning for a fixed value; remove it or `value`",
        ),
        (
            "{points: [{value: 1}], mean: 4}",
            "mean",
            "no meaning for a choice between points; remove it or `points`",
        ),
        (
            "{peaks: [{value: 1}, {value: 2}], points: [{value: 1}]}",
            "points",
            "no meaning for a mixture of peaks; remove it or `peaks`",
        ),
        (
            "{type: gaussian, mean: 5}",
            "type",
            "allowed: fixed, normal, lognormal, multimodal, empirical",
        ),
        ("{type: Normal, mean: 5}", "type", "found `Normal`"),
        (
            "{type: empirical}",
            "points",
            "this key is required; write a list of values",
        ),
        ("{peaks: [{value: 1}]}", "peaks", "found 1 peak; allowed: at least 2"),
        ("{peaks: []}", "peaks", "found 0 peaks"),
        ("{peaks: 5}", "peaks", "found `5`; allowed: a list of distributions"),
        (
            "{peaks: [{value: 1, weight: 0}, {value: 2, weight: 0}]}",
            "peaks",
            "at least one above 0",
        ),
        (
            "{peaks: [{value: 1, weight: -1}, {value: 2}]}",
            "peaks[0].weight",
            "of at least 0",
        ),
        (
            "{peaks: [{value: 1}, {mean: 2, median: 3}]}",
            "peaks[1].median",
            "up to the mean, 2",
        ),
        (
            "{peaks: [{value: 1}, {value: 2, wieght: 3}]}",
            "peaks[1].wieght",
            "did you mean `weight`?",
        ),
        (
            "{peaks: [{value: 1}, {weight: 3}]}",
            "peaks[1].mean",
            "this key is required",
        ),
        (
            "{peaks: [{value: 1}, 5]}",
            "peaks[1]",
            "a mapping with the keys type, value",
        ),
        ("{points: []}", "points", "found no point"),
        ("{points: [{value: 0}]}", "points[0].value", "from 1 to 10000000"),
        ("{points: [{value: 1.5}]}", "points[0].value", "whole number"),
        ("{points: [{value: 1, weight: 0}]}", "points[0].weight", "above 0"),
        ("{points: [{weight: 1}]}", "points[0].value", "this key is required"),
        ("{points: [{value: 1, wt: 1}]}", "points[0].wt", "unknown key `wt`"),
        ("{value: 5, weight: 1}", "weight", "unknown key `weight`"),
        (
            "{mean: 5, min: 9, max: 8}",
            "min",
            "found 9; allowed: a number up to `max`, which is 8",
        ),
        ("{mean: 5, min: .inf}", "min", "that is finite"),
        ("{mean: 5, min: 10000001}", "min", "a number of at most 10000000"),
        ("{mean: 5, max: inf}", "max", "from 1 to 10000000"),
        ("{mean: 5, max: 0}", "max", "from 1 to 10000000"),
        ("{mean: 5, stddev: 10000001}", "stddev", "from 0 to 10000000"),
        ("{mean: 10000001, median: 5}", "mean", "up to 10000000"),
        ("[5, 6]", "", "allowed: a mapping"),
    ] {
        let found = mistakes(&with(&format!("isl: {isl}")));
        let [mistake] = &found[..] else {
            panic!("{isl}: {found:#?}")
        };
        let separator = if path.is_empty() { "" } else { "." };
        let place = format!(": benchmark.dataset.isl{separator}{path}: ");
        assert!(
            mistake.starts_with("5:") && mistake.contains(&place) && mistake.contains(words),
            "{isl}: {mistake}"
        );
    }
    // Every mistake of one distribution is told.
    let found = mistakes(&with(
        "isl: {peaks: [{mean: -1, stddev: -1}, {points: [{value: 0}, {value: 0}]}], min: x, max: y}",
    ));
    assert_eq!(found.len(), 6, "{found:#?}");
}

#[test]
fn conversations_are_expected_to_have_a_turn() {
    for turns in [
        "{mean: 0.5, median: 0.2}",
        "{peaks: [{mean: 0.1}, {mean: 0.3}]}",
        "{mean: 0.5, stddev: 3, max: 1}",
    ] {
        let found = mistakes(&with(&format!("turns: {turns}")));
        assert!(
            found.len() == 1 && found[0].contains("at least 1, for a conversation has a turn"),
            "{turns}: {found:?}"
        );
    }
    for turns in ["{mean: 0.5, stddev: 3, min: 1}", "{peaks: [{mean: 0.1}, {mean: 3}]}"] {
        read(&with(&format!("turns: {turns}")));
    }
    // One turn by all means is no conversation of several.
    let completions = |turns: &str| {
        with(&format!("turns: {turns}")).replace("url: \"http://h:1\"", "url: \"http://h:1\", type: completions")
    };
    for turns in [
        "{points: [{value: 1}]}",
        "{mean: 1, median: 1}",
        "{mean: 4, stddev: 2, max: 1}",
        "{peaks: [{value: 1}, {value: 2, weight: 0}]}",
    ] {
        read(&completions(turns));
    }
    for turns in [
        "{points: [{value: 1}, {value: 2}]}",
        "{mean: 1, median: 0.5}",
        "{value: 1, min: 2}",
        "{peaks: [{value: 1}, {value: 2}]}",
    ] {
        let found = mistakes(&completions(turns));
        assert!(
            found.len() == 1 && found[0].contains("no place for what was said before"),
            "{turns}: {found:?}"
        );
    }
}

#[test]
fn pairs_of_lengths_are_read_with_their_probabilities() {
    let pairs = read(&with(
        "prompts: {sequence_distribution: [{isl: 16, osl: 8, probability: 60}, {isl: 32, islStddev: 4, osl: 16, osl_stddev: 0.5, probability: 40.5}]}",
    ))
    .dataset
    .sequence_distribution
    .expect("pairs");
    let plain = SequencePair {
        isl: 16,
        isl_stddev: None,
        osl: 8,
        osl_stddev: None,
        probability: 60.0,
    };
    let varied = SequencePair {
        isl: 32,
        isl_stddev: Some(4.0),
        osl: 16,
        osl_stddev: Some(0.5),
        probability: 40.5,
    };
    assert_eq!(*pairs, [plain, varied]);
}

#[test]
fn mistakes_in_pairs_are_at_their_keys() {
    const ONE: &str = "{isl: 5, osl: 5, probability: 100}";
    let pairs = |list: &str| format!("prompts: {{sequence_distribution: {list}}}");
    for (dataset, path, words) in [
        (
            pairs("[{isl: 5, osl: 5, probability: 50}]"),
            "prompts.sequence_distribution",
            "found probabilities that sum up to 50; allowed: 100 (from 99 to 101)",
        ),
        (
            pairs("[{isl: 5, osl: 5, probability: 0.6}, {isl: 5, osl: 5, probability: 0.4}]"),
            "prompts.sequence_distribution",
            "they are percent: write 60 for 0.6",
        ),
        (
            pairs("[]"),
            "prompts.sequence_distribution",
            "found an empty list; allowed: at least one pair",
        ),
        (pairs("5"), "prompts.sequence_distribution", "a list of pairs"),
        (
            pairs("[{isl: 5, probability: 100}]"),
            "prompts.sequence_distribution[0].osl",
            "this key is required",
        ),
        (
            pairs("[{isl: 5, osl: 5}]"),
            "prompts.sequence_distribution[0].probability",
            "in percent",
        ),
        (
            pairs("[{isl: 0, osl: 5, probability: 100}]"),
            "prompts.sequence_distribution[0].isl",
            "from 1 to 10000000",
        ),
        (
            pairs("[{isl: 5, osl: 5, osl_stddev: -1, probability: 100}]"),
            "prompts.sequence_distribution[0].osl_stddev",
            "from 0 to 10000000",
        ),
        (
            pairs("[{isl: 5, osl: 5, probability: 101}]"),
            "prompts.sequence_distribution[0].probability",
            "from 0 to 100",
        ),
        (
            pairs("[{isl: 5, osl: 5, probabilty: 100}]"),
            "prompts.sequence_distribution[0].probabilty",
            "did you mean `probability`?",
        ),
        (
            format!("isl: 5, prompts: {{sequence_distribution: [{ONE}]}}"),
            "prompts.sequence_distribution",
            "`sequence_distribution` says how long prompts and answers are, and so does `isl` (line 5)",
        ),
        (
            format!("prompts: {{sequence_distribution: [{ONE}], osl: 5}}"),
            "prompts.sequence_distribution",
            "`sequence_distribution` says how long prompts and answers are, and so does `osl` (line 5)",
        ),
        (
            format!("prompts: {{sequence_distribution: [{ONE}], random_range_ratio: 0.5}}"),
            "prompts.random_range_ratio",
            "`random_range_ratio` says how long prompts and answers are, and so does `sequence_distribution` (line 5)",
        ),
    ] {
        let found = mistakes(&with(&dataset));
        let [mistake] = &found[..] else {
            panic!("{dataset}: {found:#?}")
        };
        let place = format!(": benchmark.dataset.{path}: ");
        assert!(
            mistake.contains(&place) && mistake.contains(words),
            "{dataset}: {mistake}"
        );
    }
}

#[test]
fn a_range_is_around_fixed_lengths() {
    let prompts = |keys: &str| format!("prompts: {{{keys}}}");
    let range = |keys: &str| read(&with(&prompts(keys))).dataset.range;
    let of = |ratio, style| Some(RangeRatio { ratio, style });
    assert_eq!(range("isl: 5, osl: 5, random_range_ratio: 0.5"), of(0.5, None));
    assert_eq!(
        range("isl: {mean: 5}, osl: {value: 5}, random_range_ratio: 1, random_corpus_style: SGLang"),
        of(1.0, Some(CorpusStyle::Sglang))
    );
    assert_eq!(
        range("isl: {mean: 5, stddev: 0}, osl: 5, random_range_ratio: 0, random_corpus_style: vllm"),
        of(0.0, Some(CorpusStyle::Vllm))
    );
    for (keys, key, words) in [
        (
            "isl: 5, random_range_ratio: 0.5",
            "random_range_ratio",
            "`osl` is missing; add it",
        ),
        (
            "isl: {mean: 5, stddev: 1}, osl: 5, random_range_ratio: 0.5",
            "random_range_ratio",
            "`isl` (line 5) is a distribution; write a number there",
        ),
        (
            "isl: 5, osl: 5, random_range_ratio: 1",
            "random_range_ratio",
            "found `1`; allowed: a number from 0 to below 1",
        ),
        (
            "isl: 5, osl: 5, random_range_ratio: 1.5",
            "random_range_ratio",
            "from 0 to 1",
        ),
        ("isl: 5, osl: 0, random_range_ratio: 0.5", "osl", "from 1 to 10000000"),
        (
            "isl: 5, osl: 5, random_range_ratio: 0.5, random_corpus_style: trt",
            "random_corpus_style",
            "allowed: vllm, sglang",
        ),
        (
            "isl: 5, osl: 5, random_corpus_style: vllm",
            "random_corpus_style",
            "there is none; add it",
        ),
    ] {
        let found = mistakes(&with(&prompts(keys)));
        let [mistake] = &found[..] else {
            panic!("{keys}: {found:#?}")
        };
        let place = format!(": benchmark.dataset.prompts.{key}: ");
        assert!(mistake.contains(&place) && mistake.contains(words), "{keys}: {mistake}");
    }
}

#[test]
fn pairs_and_ranges_suit_types_that_are_asked_for_tokens() {
    let typed = |kind: &str, prompts: &str| {
        with(&format!("prompts: {{{prompts}}}"))
            .replace("url: \"http://h:1\"", &format!("url: \"http://h:1\", type: {kind}"))
    };
    let pairs = "sequence_distribution: [{isl: 5, osl: 5, probability: 100}]";
    let config = read(&typed("embeddings", pairs));
    assert!(
        config.warnings.len() == 1 && config.warnings[0].contains("its `osl` has no effect"),
        "{:?}",
        config.warnings
    );
    for prompts in [pairs, "random_range_ratio: 0.5"] {
        let found = mistakes(&typed("nim_rankings", prompts));
        assert!(
            found
                .iter()
                .any(|mistake| mistake.contains("write their lengths under `rankings`")),
            "{found:?}"
        );
    }
    let found = mistakes(&with(&format!("type: file, path: p, prompts: {{{pairs}}}")));
    assert!(
        found.len() == 1 && found[0].contains("`prompts` has no meaning beside prompts from a file"),
        "{found:?}"
    );
}

fn suite(parameters: &str, dataset: &str) -> Suite {
    let text = format!("sweep: {{type: grid, parameters: {{{parameters}}}}}\n{}", with(dataset));
    parse_suite("f.yaml", text.as_bytes(), &environment)
        .unwrap_or_else(|mistakes| panic!("{}\n{text}", mistakes.render(true)))
}

fn lengths(suite: &Suite) -> Vec<Length> {
    let isl = |variation: &super::super::Variation| variation.config.dataset.isl.clone().expect("a length");
    suite.variations.iter().map(isl).collect()
}

#[test]
fn a_sweep_varies_a_part_of_a_distribution_or_all_of_it() {
    let parts = suite(
        "dataset.prompts.isl.mean: [16, 32]",
        "prompts: {isl: {mean: 8, stddev: 2}}",
    );
    assert_eq!(lengths(&parts), [normal(16.0, 2.0), normal(32.0, 2.0)]);
    let weights = suite(
        "dataset.isl.peaks.1.weight: [1, 9]",
        "isl: {peaks: [{value: 4}, {value: 8}]}",
    );
    let peaks = |weight| {
        Length::Peaks(Box::new([
            peak(Length::Fixed(4), None),
            peak(Length::Fixed(8), Some(weight)),
        ]))
    };
    assert_eq!(lengths(&weights), [peaks(1.0), peaks(9.0)]);
    let kinds = suite(
        "datasets.default.prompts.isl: [512, {mean: 512, stddev: 100}, {mean: 9, median: 8}, {peaks: [{value: 4}, {value: 8, weight: 9}]}]",
        "prompts: {isl: {points: [{value: 1}]}}",
    );
    let log_normal = Length::LogNormal { mean: 9.0, median: 8.0 };
    assert_eq!(
        lengths(&kinds),
        [Length::Fixed(512), normal(512.0, 100.0), log_normal, peaks(9.0)]
    );
    let directories: Vec<&str> = kinds.variations.iter().map(|one| one.directory.as_str()).collect();
    assert_eq!(directories, ["isl_512", "isl_2", "isl_3", "isl_4"]);
    let pairs = suite(
        "dataset.prompts.sequence_distribution.0.isl: [5, 6]",
        "prompts: {sequence_distribution: [{isl: 4, osl: 4, probability: 100}]}",
    );
    let first = |variation: &super::super::Variation| {
        variation.config.dataset.sequence_distribution.as_ref().expect("pairs")[0].isl
    };
    assert_eq!(pairs.variations.iter().map(first).collect::<Vec<_>>(), [5, 6]);
}
