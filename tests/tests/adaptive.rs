//! Adaptive scale end to end: the controller sees what the cores did, moves the limit, and leaves its log behind.

use std::collections::BTreeSet;
use std::time::Duration;

use ringload_engine::plan::{AdaptivePlan, ControlVariable, SlaFilter, SlaOp, StepPolicy, WindowMetric, WindowStat};
use ringload_engine::units::Nanos;
use ringload_tests::books::{Books, spans};
use ringload_tests::program::{Workplace, config, phase};
use ringload_tests::statistics::most_open;
use ringload_tests::{Phase, Run, Scenario, mock};
use serde_json::Value;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn filter(metric: WindowMetric, name: &str, op: SlaOp, threshold: f64) -> SlaFilter {
    SlaFilter {
        metric,
        name: name.to_owned(),
        stat: WindowStat::Average,
        stat_name: "avg".to_owned(),
        op,
        threshold,
    }
}

/// From 1 up to `max` in steps of 3, with windows of 400 ms, held for 800 ms.
fn search(max: u32, filters: Vec<SlaFilter>) -> AdaptivePlan {
    AdaptivePlan {
        variable: ControlVariable::Concurrency,
        min: 1,
        max,
        assessment_period: Nanos::from_millis(400),
        min_completed: 1,
        sustain_duration: Nanos::from_millis(800),
        step_policy: StepPolicy::SlaMargin,
        base_step: 3,
        max_step_multiplier: 1,
        step_percent: 25.0,
        filters,
    }
}

fn events(run: &Run, phase: &str) -> Vec<Value> {
    let path = run.path(&format!("phases/{phase}/adaptive_scale_events.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["event"].as_str()).collect()
}

#[test]
fn s69_a_search_rises_until_the_level_breaks_and_holds_what_held() {
    for cores in [1, 2] {
        // Answers of 10 ms: one slot gives less than 100 a second, four less than 400. The level is broken by throughput, which no machine can
        // exceed however fast it is: with 1 slot below 100, with 4 of them above 150 unless the machine stands still.
        let server = mock(|options| options.ttft = ms(10));
        let plan = search(
            16,
            vec![filter(
                WindowMetric::RequestThroughput,
                "request_throughput",
                SlaOp::Lt,
                130.0,
            )],
        );
        let run = Scenario::new(server.address())
            .cores(cores)
            .phase(
                Phase::closed("search", 16)
                    .lasting(Duration::from_secs(20))
                    .steered(plan),
            )
            .run();
        let summary = run.json("phases/search/adaptive_scale_summary.json");
        assert_eq!(summary["completed_reason"], "sustain_duration_completed", "{summary:#}");
        assert_eq!(summary["status"], "completed");
        assert_eq!(run.summary("search")["ringload"]["stop_reason"], "adaptive");
        let events = events(&run, "search");
        let order = kinds(&events);
        assert_eq!((order[0], order[1]), ("adaptive_phase_started", "adaptive_window"));
        let at = |kind| {
            order
                .iter()
                .position(|&one| one == kind)
                .unwrap_or_else(|| panic!("no {kind}: {order:?}"))
        };
        assert!(at("sustain_started") < at("boundary_discovered"));
        assert_eq!(order.last(), Some(&"adaptive_complete"));
        // The value that was held passed, and one step above it broke.
        let (held, broke) = (&summary["boundary_value"], &summary["first_failing_value"]);
        assert_eq!(broke.as_u64(), held.as_u64().map(|held| held + 3), "{summary:#}");
        // The limit was kept all the way.
        let most = most_open(&spans(&run.records)) as u64;
        assert_eq!(Some(most), broke.as_u64());
        let manifest = run.json("adaptive_scale_manifest.json");
        assert_eq!(
            manifest["adaptive_phases"][0]["events_path"],
            "phases/search/adaptive_scale_events.jsonl"
        );
        assert_eq!(summary["ringload"]["samples_lost"], 0);
        Books::complete(&run, &server);
    }
}

#[test]
fn windows_count_what_the_records_say() {
    let server = mock(|options| options.fault = Some("every:4:status:500".parse().expect("a fault")));
    let plan = search(7, vec![filter(WindowMetric::ErrorRate, "error_rate", SlaOp::Le, 100.0)]);
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(
            Phase::closed("search", 7)
                .lasting(Duration::from_secs(20))
                .steered(plan),
        )
        .run();
    let summary = run.json("phases/search/adaptive_scale_summary.json");
    assert_eq!(
        summary["completed_reason"],
        "max_control_value_reached_without_saturation"
    );
    let tried = summary["candidates"].as_array().expect("a list");
    assert_eq!(
        tried
            .iter()
            .filter_map(|one| one["control_value"].as_u64())
            .collect::<Vec<_>>(),
        [1, 4, 7]
    );
    let sum = |key: &str| tried.iter().filter_map(|one| one[key].as_u64()).sum::<u64>();
    let counts = run.counts("search");
    // What ended behind the last window is in none.
    assert!(sum("success_count") <= counts.succeeded && sum("success_count") + 60 > counts.succeeded / 2);
    assert!(sum("error_count") > 0 && sum("error_count") <= counts.failed);
    assert_eq!(sum("request_count"), sum("success_count") + sum("error_count"));
    assert_eq!(summary["ringload"]["output_tokens_from"], "usage");
}

#[test]
fn a_search_that_fails_at_once_stops_its_phase_and_the_next_one_runs() {
    let server = mock(|options| options.ttft = ms(30));
    let plan = search(
        8,
        vec![filter(WindowMetric::RequestLatency, "request_latency", SlaOp::Lt, 5.0)],
    );
    let run = Scenario::new(server.address())
        .phase(
            Phase::closed("search", 8)
                .lasting(Duration::from_secs(20))
                .steered(plan),
        )
        .phase(Phase::closed("next", 4).requests(8))
        .run();
    let summary = run.json("phases/search/adaptive_scale_summary.json");
    assert_eq!(
        (&summary["status"], &summary["completed_reason"]),
        (&"failed".into(), &"no_sustainable_concurrency_found".into())
    );
    assert_eq!(run.outcome.failure, None);
    assert_eq!(run.counts("next").succeeded, 8);
    assert_eq!(most_open(&spans(run.records_of("search"))), 1);
}

#[test]
fn a_prefill_limit_is_steered_too() {
    let server = mock(|options| {
        options.ttft = ms(20);
        options.itl = ms(10);
    });
    let plan = AdaptivePlan {
        variable: ControlVariable::PrefillConcurrency,
        ..search(4, vec![filter(WindowMetric::ErrorRate, "error_rate", SlaOp::Le, 1.0)])
    };
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(
            Phase::closed("search", 20)
                .prefilling(4)
                .lasting(Duration::from_secs(20))
                .steered(plan),
        )
        .run();
    let summary = run.json("phases/search/adaptive_scale_summary.json");
    assert_eq!(summary["control_variable"], "prefill_concurrency");
    assert_eq!(summary["last_passing_value"], 4);
    Books::complete(&run, &server);
}

/// Keys of an event and of a summary, as readers of the format know them.
const EVENT_KEYS: &str = "accepted_value adaptive_iteration binding_sla boundary_value cancelled candidate_value completed control control_value \
    control_value_after control_value_before control_variable error_count errored event fault_window_id first_failing_value in_flight \
    last_passing_value phase phase_end_ts phase_id phase_index phase_kind phase_name phase_start_ts profiling_index reason run_id sample_count \
    schema_version sent sla_bound sla_metric sla_op sla_passed sla_stat sla_value sla_values step_policy step_size strategy_type throughput \
    timestamp timestamp_ns timestamp_utc";
const SUMMARY_KEYS: &str = "base_step boundary_value candidates completed_reason control control_value control_variable first_failing_value \
    last_passing_value max_step_multiplier phase_index phase_kind phase_name profiling_index result schema_version sla sla_bound sla_metric sla_op \
    sla_passed_during_sustain sla_stat status step_percent step_policy strategy_type sustain_duration_seconds sustain_passed_windows \
    sustain_started_at sustain_windows throughput totals";
const CANDIDATE_KEYS: &str = "accepted adaptive_iteration cancelled candidate_value control_value duration_s end_ts error_count itl_p50_ms \
    itl_p95_ms itl_p99_ms latency_avg_ms latency_p50_ms latency_p95_ms latency_p99_ms rejection_reason request_count start_ts success_count \
    success_rate throughput_rps ttft_p50_ms ttft_p95_ms ttft_p99_ms";

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn a_config_with_a_controller_runs_and_its_files_have_the_keys_of_the_format() {
    let server = mock(|options| options.ttft = ms(10));
    let block = "concurrency: 6, duration: 20, adaptive_scale: {control: {min: 1, max: 3}, window: 1, sustain_duration: 1, \
                 strategy: {base_step: 1, max_step_multiplier: 1}, sla: {time_to_first_token: {p95: {lt: 20000}}, error_rate: {avg: {le: 1}}}}";
    let workplace = Workplace::new(&config(&server.url(), &phase("ramp", block)));
    workplace.profile(&[]).expect(0);
    let folder = workplace.path("results/phases/ramp");
    let text = std::fs::read_to_string(folder.join("adaptive_scale_events.jsonl")).expect("the log");
    let known: Vec<&str> = EVENT_KEYS.split_whitespace().collect();
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(keys(&event), known, "{line}");
    }
    let text = std::fs::read_to_string(folder.join("adaptive_scale_summary.json")).expect("the summary");
    let summary: Value = serde_json::from_str(&text).expect("JSON");
    let mut known: BTreeSet<&str> = SUMMARY_KEYS.split_whitespace().collect();
    known.insert("ringload");
    assert_eq!(keys(&summary).into_iter().collect::<BTreeSet<_>>(), known);
    assert!(keys(&summary).is_sorted());
    let candidates = summary["candidates"].as_array().expect("a list");
    let known: Vec<&str> = CANDIDATE_KEYS.split_whitespace().collect();
    assert!(candidates.iter().all(|one| keys(one) == known), "{summary:#}");
    assert_eq!(candidates.len(), 3);
    // A second run with the same directory removes what the first left.
    workplace.profile(&["--overwrite"]).expect(0);
}
