//! Distributions, pairs and ranges of lengths end to end: what is written reaches the wire, by file and by flags.

use std::collections::BTreeMap;

use ringload_mock_server::MockServer;
use ringload_tests::program::{Ended, Workplace};
use ringload_tests::{configured, mock};
use serde_json::{Value, json};

const ONE_PHASE: &str = "  phases: [{name: load, kind: profiling, type: concurrency, concurrency: 4, requests: 200}]\n";

/// Requests by the words of their prompt and the tokens of their answer, as a server that takes every wish counted them.
fn wire(sections: &str) -> BTreeMap<(u64, u32), usize> {
    let server = mock(|options| options.osl = None);
    configured::run(server.address(), 1, sections);
    counted(&server)
}

fn counted(server: &MockServer) -> BTreeMap<(u64, u32), usize> {
    let mut counts = BTreeMap::new();
    for entry in server.ledger() {
        *counts.entry((entry.prompt_words, entry.tokens_sent)).or_default() += 1;
    }
    counts
}

fn flags(workplace: &Workplace, url: &str, flags: &[&str]) -> Ended {
    let mut words = vec![
        "--streaming",
        "--request-count",
        "200",
        "--num-prompts",
        "200",
        "--random-seed",
        "5",
    ];
    words.extend(["--artifact-dir", "results"]);
    words.extend(flags);
    workplace.profile_of_flags(url, &words)
}

#[test]
fn points_and_peaks_reach_the_server_as_often_as_their_weights_say() {
    let counts = wire(&format!(
        "  dataset:\n    entries: 200\n    prompts:\n      isl: {{points: [{{value: 5, weight: 75}}, {{value: 20, weight: 25}}]}}\n      osl: \
         {{peaks: [{{value: 2}}, {{mean: 7.5, stddev: 3, min: 7, max: 8}}]}}\n{ONE_PHASE}"
    ));
    assert_eq!(counts.values().sum::<usize>(), 200);
    let keys: Vec<(u64, u32)> = counts.keys().copied().collect();
    assert_eq!(keys, [(5, 2), (5, 7), (5, 8), (20, 2), (20, 7), (20, 8)]);
    let of = |wanted: &dyn Fn((u64, u32)) -> bool| -> usize {
        counts
            .iter()
            .filter(|(key, _)| wanted(**key))
            .map(|(_, count)| count)
            .sum()
    };
    // Standard deviations are 6 and 7.
    let (short, terse) = (of(&|(isl, _)| isl == 5), of(&|(_, osl)| osl == 2));
    assert!(short.abs_diff(150) < 25 && terse.abs_diff(100) < 28, "{counts:?}");
}

#[test]
fn pairs_by_file_and_by_flags_are_the_same_requests() {
    let pairs = "{isl: 6, osl: 3, probability: 60}, {isl: 24, isl_stddev: 2, osl: 9, probability: 40}";
    let by_file = {
        let server = mock(|options| options.osl = None);
        let workplace = Workplace::new(&format!(
            "benchmark:\n  dataset: {{prompts: {{sequence_distribution: [{pairs}]}}}}\n  endpoint: {{url: \"{}\"}}\n  model: mock-model\n  phases: [{{name: \
             profiling, type: concurrency, concurrency: 1}}]\n",
            server.url()
        ));
        flags(&workplace, &server.url(), &["--config", "test.yaml"]).expect(0);
        counted(&server)
    };
    assert_eq!(by_file.values().sum::<usize>(), 200);
    let short = by_file[&(6, 3)];
    assert!(short.abs_diff(120) < 28, "{by_file:?}");
    assert!(
        by_file
            .keys()
            .all(|&(isl, osl)| (isl, osl) == (6, 3) || (osl == 9 && isl > 10)),
        "{by_file:?}"
    );
    for words in [
        "6,3:60;24|2,9:40",
        "[(6,3):0.6,(24|2,9):0.4]",
        r#"{"pairs":[{"isl":6,"osl":3,"prob":60},{"isl":24,"isl_stddev":2,"osl":9,"prob":40}]}"#,
    ] {
        let server = mock(|options| options.osl = None);
        let workplace = Workplace::new("");
        flags(&workplace, &server.url(), &["--sequence-distribution", words]).expect(0);
        assert_eq!(counted(&server), by_file, "{words}");
        let echoed = &workplace.root()["input_config"]["datasets"][0]["prompts"];
        let expected = json!({"sequence_distribution": [
            {"isl": 6, "osl": 3, "probability": 60.0}, {"isl": 24, "isl_stddev": 2.0, "osl": 9, "probability": 40.0},
        ]});
        assert_eq!(*echoed, expected, "no length of the defaults stands beside pairs");
    }
}

#[test]
fn a_range_by_flags_keeps_to_its_ends() {
    let ends = |style: &[&str]| {
        let server = mock(|options| options.osl = None);
        let workplace = Workplace::new("");
        let words = [&["--isl", "20", "--osl", "4", "--random-range-ratio", "0.5"], style].concat();
        flags(&workplace, &server.url(), &words).expect(0);
        let (isl, osl): (Vec<u64>, Vec<u32>) = counted(&server).into_keys().unzip();
        (
            isl.first().copied(),
            isl.last().copied(),
            osl.iter().min().copied(),
            osl.iter().max().copied(),
        )
    };
    assert_eq!(ends(&[]), (Some(10), Some(30), Some(2), Some(6)));
    assert_eq!(
        ends(&["--random-corpus-style", "sglang"]),
        (Some(10), Some(20), Some(2), Some(4))
    );
}

#[test]
fn mistakes_in_pairs_and_ranges_are_told_with_the_flag() {
    let workplace = Workplace::new("");
    for (words, told) in [
        (
            &["--seq-dist", "256"][..],
            "--seq-dist: found `256`; allowed: ISL,OSL:PERCENT",
        ),
        (
            &["--seq-dist", "256,128:60"],
            "--seq-dist: found probabilities that sum up to 60; allowed: 100",
        ),
        (
            &["--seq-dist", "0,128:100"],
            "--seq-dist: found `0`; allowed: a whole number from 1 to 10000000",
        ),
        (
            &["--seq-dist", "6,3:100", "--isl", "5"],
            "--seq-dist: says how long prompts and answers are, and so does --isl; keep one",
        ),
        (
            &["--seq-dist", "6,3:100", "--random-range-ratio", "0.5"],
            "--random-range-ratio: says how long prompts and answers are, and so does --seq-dist; keep one",
        ),
        (
            &["--random-range-ratio", "0.5"],
            "--random-range-ratio: the range is around a number of tokens, and --osl is missing; add it, as in --osl 128",
        ),
        (
            &["--random-range-ratio", "1", "--osl", "5"],
            "--random-range-ratio: found `1`; allowed: a number from 0 to below 1; with --random-corpus-style sglang it may be 1",
        ),
        (
            &["--isl", "10000000", "--prompt-batch-size", "1000"],
            "; lower --num-dataset-entries or --isl",
        ),
    ] {
        let ended = flags(&workplace, "http://127.0.0.1:1", words);
        let ended = ended.expect(2);
        assert!(ended.stderr.contains(told), "{words:?}: {}", ended.stderr);
    }
}

#[test]
fn a_dry_run_and_an_expansion_know_distributions() {
    let workplace = Workplace::new(
        "sweep: {type: grid, parameters: {dataset.prompts.isl: [8, {mean: 8, median: 4, max: 9}]}}\nbenchmark:\n  model: m\n  endpoint: {url: \
         \"http://127.0.0.1:1\"}\n  dataset: {entries: 50, turns: {points: [{value: 2}, {value: 4}]}, prompts: {isl: {points: [{value: 3}]}}}\n  phases: \
         [{name: profiling, type: concurrency, requests: 9}]\n",
    );
    let shown = workplace
        .run(&["profile", "--config", "test.yaml", "--dry-run", "--format", "json"])
        .expect(0);
    let shown: Value = serde_json::from_str(&shown.stdout).expect("JSON");
    let turns = shown["dataset"]["turns_mean"].as_f64().expect("a mean");
    assert!((2.4..3.6).contains(&turns), "{turns}");
    let expanded = workplace.run(&["config", "expand", "test.yaml"]).expect(0);
    assert!(expanded.stdout.contains("median"), "{}", expanded.stdout);
}
