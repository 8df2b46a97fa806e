//! Distributions, pairs and ranges of lengths: from the file to the requests, and back into the echo.

use serde_json::json;

use super::*;

fn plan_with(dataset: &str) -> Plan {
    plan_of(&format!(
        "random_seed: 5\nbenchmark:\n  model: m\n{ENDPOINT}  dataset: {{entries: 400, {dataset}}}\n  phases: [{{name: profiling, type: concurrency, \
         requests: 2}}]\n"
    ))
}

/// Lengths of all requests: of the prompt, and asked for.
fn lengths(plan: &Plan) -> Vec<(u32, u32)> {
    let entries = plan.requests.entries.iter();
    let length = |image: &crate::plan::RequestImage| {
        (
            image.input_tokens.expect("a length"),
            image.requested_output_tokens.unwrap_or_default(),
        )
    };
    entries.map(length).collect()
}

#[test]
fn requests_have_lengths_of_the_distributions_that_are_written() {
    let plan = plan_with(
        "turns: {points: [{value: 1, weight: 60}, {value: 3, weight: 40}]}, turn_delay: {mean: 100, stddev: 90, min: 50, max: 120}, \
         prompts: {isl: {peaks: [{mean: 16, stddev: 2, weight: 60, max: 19}, {mean: 300, median: 240, weight: 40, min: 100}]}, osl: {mean: 20, median: 10, max: 64}}",
    );
    let turns: Vec<u32> = (0..400).map(|at| plan.requests.conversations.turns(at)).collect();
    let single = turns.iter().filter(|&&turns| turns == 1).count();
    assert!(
        turns.iter().all(|turns| [1, 3].contains(turns)) && single.abs_diff(240) < 40,
        "{single} of 400"
    );
    let lengths = lengths(&plan);
    let (short, long): (Vec<u32>, Vec<u32>) = lengths.iter().map(|(isl, _)| isl).partition(|&&isl| isl <= 19);
    assert!(long.iter().all(|&isl| isl >= 100));
    let share = short.len() as f64 / lengths.len() as f64;
    assert!((share - 0.6).abs() < 0.08, "{share}");
    let mut asked: Vec<u32> = lengths.iter().map(|(_, osl)| *osl).collect();
    asked.sort_unstable();
    assert_eq!(asked.last(), Some(&64), "the tail is cut to the bound");
    let median = asked[asked.len() / 2];
    assert!((9..=12).contains(&median), "{median}");
    let delays = plan
        .requests
        .entries
        .iter()
        .filter(|image| image.turn > 0)
        .map(|image| image.delay);
    let delays: std::collections::BTreeSet<crate::units::Nanos> = delays.collect();
    let ends = (delays.first().copied(), delays.last().copied());
    let millis = |millis| Some(crate::units::Nanos::from_millis(millis));
    assert_eq!(ends, (millis(50), millis(120)), "delays become their bounds");
    assert!(delays.len() > 10);
}

#[test]
fn pairs_stay_together_and_ranges_keep_to_their_ends() {
    let paired = plan_with(
        "prompts: {sequence_distribution: [{isl: 16, osl: 8, probability: 60}, {isl: 320, isl_stddev: 4, osl: 90, osl_stddev: 3, probability: 40}]}",
    );
    let lengths = lengths(&paired);
    let long: Vec<&(u32, u32)> = lengths.iter().filter(|lengths| **lengths != (16, 8)).collect();
    assert!(long.iter().all(|(isl, osl)| *isl > 290 && *osl > 60), "{long:?}");
    assert!(long.len().abs_diff(160) < 40, "{}", long.len());
    let ranged = |style: &str| {
        let plan = plan_with(&format!(
            "prompts: {{isl: 40, osl: {{mean: 10}}, random_range_ratio: 0.5, {style}}}"
        ));
        let (isl, osl): (Vec<u32>, Vec<u32>) = self::lengths(&plan).into_iter().unzip();
        let ends = |lengths: &[u32]| (lengths.iter().min().copied(), lengths.iter().max().copied());
        (ends(&isl), ends(&osl))
    };
    assert_eq!(ranged(""), ((Some(20), Some(60)), (Some(5), Some(15))));
    assert_eq!(
        ranged("random_corpus_style: sglang"),
        ((Some(20), Some(40)), (Some(5), Some(10)))
    );
}

#[test]
fn the_echo_of_lengths_loads_again_and_gives_the_same_requests() {
    for (dataset, key, echoed) in [
        (
            "isl: {peaks: [{mean: 16, stddev: 2, weight: 60, max: 20}, {mean: 32, median: 24, weight: 40}, {points: [{value: 3}]}], min: 4}",
            "/prompts/isl",
            json!({"peaks": [
                {"mean": 16.0, "stddev": 2.0, "weight": 60.0, "max": 20.0}, {"mean": 32.0, "median": 24.0, "weight": 40.0}, {"points": [{"value": 3.0}]},
            ], "min": 4.0}),
        ),
        (
            "turns: {points: [{value: 1, weight: 60}, {value: 3}]}",
            "/turns",
            json!({"points": [{"value": 1.0, "weight": 60.0}, {"value": 3.0}]}),
        ),
        (
            "turns: 2, turn_delay: {mean: 100, stddev: 10, min: 0, max: 500}",
            "/turn_delay",
            json!({"mean": 100.0, "stddev": 10.0, "min": 0.0, "max": 500.0}),
        ),
        (
            "turns: 2, turn_delay: {type: fixed, value: 2.5}",
            "/turn_delay",
            json!({"value": 2.5}),
        ),
        (
            "prompts: {sequence_distribution: [{isl: 16, osl: 8, probability: 60}, {isl: 32, isl_stddev: 4, osl: 16, probability: 40}]}",
            "/prompts/sequence_distribution",
            json!([{"isl": 16, "osl": 8, "probability": 60.0}, {"isl": 32, "isl_stddev": 4.0, "osl": 16, "probability": 40.0}]),
        ),
        (
            "prompts: {isl: 40, osl: 10, random_range_ratio: 0.5, random_corpus_style: sglang}",
            "/prompts",
            json!({"isl": {"value": 40.0}, "osl": {"value": 10.0}, "random_range_ratio": 0.5, "random_corpus_style": "sglang"}),
        ),
    ] {
        let first = plan_with(dataset);
        let shown = &first.input_config["datasets"][0];
        assert_eq!(shown.pointer(key), Some(&echoed), "{shown:#}");
        let again = plan_of(&json!({ "random_seed": 5, "benchmark": first.input_config }).to_string());
        assert_eq!(first.input_config, again.input_config);
        assert_eq!(lengths(&first), lengths(&again), "{dataset}");
    }
}

#[test]
fn tails_that_no_request_can_be_made_from_are_refused() {
    let refused = |dataset: &str| {
        let text = format!(
            "random_seed: 5\nbenchmark:\n  model: m\n{ENDPOINT}  dataset: {{entries: 1000, {dataset}}}\n  phases: [{{name: profiling, type: concurrency, \
             requests: 2}}]\n"
        );
        // A plan would be too long to show.
        let checked = check(&read(&text), &options()).map(|_| ());
        checked.expect_err(dataset).to_string()
    };
    let turns = refused("isl: 1, turns: {mean: 10000, median: 100}");
    assert!(
        turns.contains("dataset.turns: entry ")
            && turns.contains("allowed are at most 100000; lower the mean, or set a max"),
        "{turns}"
    );
    let long = refused("isl: {mean: 10000000, median: 100000}");
    assert!(
        long.contains("dataset.prompts.isl: entry ") && long.contains("lower it, or set a max"),
        "{long}"
    );
    let pairs =
        refused("prompts: {sequence_distribution: [{isl: 10000000, isl_stddev: 10000000, osl: 5, probability: 100}]}");
    assert!(
        pairs.contains("dataset.prompts.sequence_distribution: entry "),
        "{pairs}"
    );
}
