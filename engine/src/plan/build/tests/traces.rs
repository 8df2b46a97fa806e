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
