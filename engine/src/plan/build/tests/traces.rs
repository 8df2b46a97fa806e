//! Recorded times and lengths: from the file to the plan, and back into the echo.

use serde_json::json;

use super::*;
use crate::units::Nanos;

fn with_records(dataset: &str, phase: &str) -> Result<Plan, Diagnostics> {
    let text = format!(
        "random_seed: 5\nbenchmark:\n  model: m\n{ENDPOINT}  dataset: {{type: file, {dataset}}}\n  phases: [{{name: profiling, {phase}}}]\n"
    );
    build(&read(&text), &options())
}

fn plan_with(dataset: &str, phase: &str) -> Plan {
    with_records(dataset, phase).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

const CLOSED: &str = "type: concurrency, requests: 2";
const SCHEDULE: &str = "type: fixed_schedule";

const TALK: &str = "format: multi_turn, records: [{session_id: a, turns: [{text: x, timestamp: 1000}, {text: y, delay: 4000}, {text: z, delay: 100}]}]";

/// Due at 0, 500 and 3000 ms; the last one is a session of two turns.
const TRACE: &str = "records: [{timestamp: 1000, input_length: 10, hash_ids: [1, 2, 3], output_length: 20}, {timestamp: 1500, input_length: 12, hash_ids: [1, \
                     4, 5]}, {timestamp: 4000, session_id: s, input_length: 5}, {delay: 900, session_id: s, input_length: 30}]";

/// Timestamp and delay of each request, in milliseconds.
fn times(plan: &Plan) -> Vec<(Option<f64>, f64)> {
    let entries = plan.requests.entries.iter();
    entries
        .map(|image| (image.timestamp.map(Nanos::as_millis_f64), image.delay.as_millis_f64()))
        .collect()
}

#[test]
fn delays_of_a_file_are_kept_capped_or_ignored() {
    let of = |more: &str| times(&plan_with(&format!("{more}{TALK}"), CLOSED));
    assert_eq!(of(""), [(Some(1000.0), 0.0), (None, 4000.0), (None, 100.0)]);
    assert_eq!(
        of("inter_turn_delay_cap_seconds: 0.5, "),
        [(Some(1000.0), 0.0), (None, 500.0), (None, 100.0)]
    );
    assert_eq!(of("ignore_trace_delays: true, "), [(None, 0.0); 3]);
    assert_eq!(of("ignore_trace_delays: false, "), of(""));
}

#[test]
fn a_fixed_schedule_and_ignored_times_contradict_each_other() {
    let found = with_records(&format!("ignore_trace_delays: true, {TALK}"), SCHEDULE)
        .expect_err("it has nothing to replay")
        .to_string();
    assert!(
        found.lines().count() == 1
            && found.contains("benchmark.phases[0].type")
            && found.contains("dataset.ignore_trace_delays is true; remove that key"),
        "{found}"
    );
}

#[test]
fn the_echo_of_what_is_done_to_a_trace_loads_again_and_gives_the_same_requests() {
    for (dataset, key, echoed) in [
        (
            format!("ignore_trace_delays: true, {TALK}"),
            "/ignore_trace_delays",
            json!(true),
        ),
        (
            format!(
                "format: mooncake_trace, block_size: 4, synthesis: {{speedup_ratio: 2, prompt_len_multiplier: 1.5, prefix_root_multiplier: 2, \
                 max_osl: 9}}, {TRACE}"
            ),
            "/synthesis",
            json!({"speedup_ratio": 2.0, "prefix_root_multiplier": 2, "prompt_len_multiplier": 1.5, "max_osl": 9}),
        ),
        (
            format!("inter_turn_delay_cap_seconds: 500ms, {TALK}"),
            "/inter_turn_delay_cap_seconds",
            json!(0.5),
        ),
    ] {
        let first = plan_with(&dataset, CLOSED);
        let shown = &first.input_config["datasets"][0];
        assert_eq!(shown.pointer(key), Some(&echoed), "{shown:#}");
        let again = plan_of(&json!({ "random_seed": 5, "benchmark": first.input_config }).to_string());
        assert_eq!(first.input_config, again.input_config);
        assert_eq!(times(&first), times(&again), "{dataset}");
        let bodies = |plan: &Plan| -> Vec<Vec<u8>> {
            let entries = plan.requests.entries.iter();
            entries.map(|image| image.body().to_vec()).collect()
        };
        assert_eq!(bodies(&first), bodies(&again), "{dataset}");
    }
}

/// The starts of the schedule, in milliseconds.
fn starts(dataset: &str, window: &str) -> Vec<(f64, u32)> {
    let plan = plan_with(
        &format!("format: mooncake_trace, block_size: 4, {dataset}{TRACE}"),
        &format!("{SCHEDULE}{window}"),
    );
    let Arrival::FixedSchedule(schedule) = &plan.phases[0].arrival else {
        panic!("{:?}", plan.phases[0].arrival)
    };
    let starts = schedule.starts().iter();
    starts
        .map(|start| (start.due.as_millis_f64(), start.conversation))
        .collect()
}

#[test]
fn a_faster_replay_keeps_the_window_of_the_file() {
    assert_eq!(starts("", ""), [(0.0, 0), (500.0, 1), (3000.0, 2)]);
    let twice = "synthesis: {speedup_ratio: 2}, ";
    assert_eq!(starts(twice, ""), [(0.0, 0), (250.0, 1), (1500.0, 2)]);
    assert_eq!(starts(twice, ", end_offset: 1500"), [(0.0, 0), (250.0, 1)]);
    assert_eq!(
        starts(twice, ", auto_offset: false, start_offset: 1200"),
        [(150.0, 1), (1400.0, 2)]
    );
    assert_eq!(starts(twice, ", auto_offset: false")[0], (500.0, 0));
    assert_eq!(starts("synthesis: {speedup_ratio: 0.5}, ", "")[2], (6000.0, 2));
    let plan = plan_with(
        &format!("format: mooncake_trace, block_size: 4, {twice}{TRACE}"),
        SCHEDULE,
    );
    assert_eq!(times(&plan)[3], (None, 450.0), "delays shrink with the timestamps");
    let empty = with_records(
        &format!("format: mooncake_trace, block_size: 4, synthesis: {{speedup_ratio: 3}}, {TRACE}"),
        "type: fixed_schedule, end_offset: 5",
    );
    let empty = empty.expect_err("nothing is due").to_string();
    assert!(empty.contains("go from 1000 to 4000 ms"), "{empty}");
}

#[test]
fn lengths_change_before_anything_is_made_of_them() {
    let plan = |changes: &str| {
        let dataset = format!("format: mooncake_trace, block_size: 4, synthesis: {{{changes}}}, {TRACE}");
        plan_with(&dataset, CLOSED)
    };
    let lengths = |plan: &Plan| -> Vec<(u32, Option<u32>)> {
        let entries = plan.requests.entries.iter();
        entries
            .map(|image| (image.input_tokens.expect("a length"), image.requested_output_tokens))
            .collect()
    };
    let longer = plan("prompt_len_multiplier: 2, output_len_multiplier: 1.5");
    assert_eq!(lengths(&longer), [(16, Some(30)), (20, None), (10, None), (60, None)]);
    let words = |plan: &Plan, at: usize| -> Vec<String> {
        let body: serde_json::Value = serde_json::from_slice(plan.requests.entries[at].body()).expect("JSON");
        let text = body["messages"][0]["content"].as_str().expect("a text").to_owned();
        text.split(' ').map(str::to_owned).collect()
    };
    let unchanged = plan("");
    for at in [0, 1] {
        let (before, after) = (words(&unchanged, at), words(&longer, at));
        assert_eq!(after.len(), [16, 20][at]);
        assert_eq!(before[..], after[..before.len()], "the beginning stays");
    }
    assert_eq!(words(&longer, 0)[..4], words(&longer, 1)[..4]);
    assert_ne!(words(&longer, 0)[4..], words(&longer, 1)[4..16]);
    let cut = plan("max_isl: 11, max_osl: 7");
    assert_eq!(lengths(&cut), [(10, Some(7)), (5, None)]);
    assert_eq!(cut.requests.conversations.count(), 2);
    let entries = plan_with(
        &format!("format: mooncake_trace, block_size: 4, entries: 1, synthesis: {{max_isl: 5}}, {TRACE}"),
        CLOSED,
    );
    assert_eq!(
        lengths(&entries),
        [(5, None)],
        "entries are counted after the others are left out"
    );
}

#[test]
fn a_trace_that_cannot_be_changed_so_says_why() {
    for (changes, records, key, words) in [
        ("max_isl: 4", TRACE, ".max_isl", "the shortest one of 5 tokens"),
        (
            "speedup_ratio: 2",
            "records: [{input_length: 3}]",
            ".speedup_ratio",
            "has no record with a `timestamp` or a `delay`",
        ),
        (
            "output_len_multiplier: 2",
            "records: [{input_length: 3}]",
            ".output_len_multiplier",
            "has no record with an `output_length`",
        ),
        (
            "prompt_len_multiplier: 1e9",
            TRACE,
            ".prompt_len_multiplier",
            "a length of records[0] larger than",
        ),
    ] {
        let dataset = format!("format: mooncake_trace, block_size: 4, synthesis: {{{changes}}}, {records}");
        let found = with_records(&dataset, CLOSED).expect_err(changes).to_string();
        let path = format!("benchmark.dataset.synthesis{key}: ");
        assert!(
            found.lines().count() == 1 && found.contains(&path) && found.contains(words),
            "{changes}: {found}"
        );
    }
}
