//! Adaptive scale end to end: the controller sees what the cores did, moves the limit, and leaves its log behind.

use std::collections::BTreeSet;
use std::time::Duration;

use ringload_engine::dataset::LengthDistribution;
use ringload_engine::plan::{AdaptivePlan, ControlVariable, SlaFilter, SlaOp, StepPolicy, WindowMetric, WindowStat};
use ringload_engine::units::Nanos;
use ringload_tests::books::{Books, spans};
use ringload_tests::program::{Workplace, config};
use ringload_tests::sessions::{Session, sessions};
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
fn search(max: f64, filters: Vec<SlaFilter>) -> AdaptivePlan {
    AdaptivePlan {
        variable: ControlVariable::Concurrency,
        min: 1.0,
        max,
        assessment_period: Nanos::from_millis(400),
        min_completed: 1,
        sustain_duration: Nanos::from_millis(800),
        step_policy: StepPolicy::SlaMargin,
        base_step: 3.0,
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
            16.0,
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
    let plan = search(
        7.0,
        vec![filter(WindowMetric::ErrorRate, "error_rate", SlaOp::Le, 100.0)],
    );
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
        8.0,
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
    assert_eq!(
        run.outcome.searches,
        ["adaptive scale of phase search, failed: concurrency 1, the lowest, broke the service level already"]
    );
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
        ..search(4.0, vec![filter(WindowMetric::ErrorRate, "error_rate", SlaOp::Le, 1.0)])
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

/// From `min` in steps of `step`, with windows of 2 s, held for 4 s, while requests take less than 150 ms on average.
fn pace(variable: ControlVariable, min: f64, step: f64, max: f64) -> AdaptivePlan {
    AdaptivePlan {
        variable,
        min,
        assessment_period: Nanos::from_millis(2_000),
        sustain_duration: Nanos::from_millis(4_000),
        base_step: step,
        ..search(
            max,
            vec![filter(
                WindowMetric::RequestLatency,
                "request_latency",
                SlaOp::Lt,
                150.0,
            )],
        )
    }
}

/// The values of a search by window, and that it found a boundary under a server that slows down, and held it.
fn found(run: &Run, phase: &str, variable: &str) -> Vec<f64> {
    let summary = run.json(&format!("phases/{phase}/adaptive_scale_summary.json"));
    assert_eq!(summary["control_variable"], variable);
    assert_eq!(
        (&summary["status"], &summary["completed_reason"]),
        (&"completed".into(), &"sustain_duration_completed".into()),
        "{summary:#}"
    );
    assert_eq!(run.summary(phase)["ringload"]["stop_reason"], "adaptive");
    let events = events(run, phase);
    let order = kinds(&events);
    assert_eq!(order[0], "adaptive_phase_started");
    assert!(order.contains(&"sustain_started") && order.contains(&"boundary_discovered"));
    assert_eq!(order.last(), Some(&"adaptive_complete"));
    let manifest = run.json("adaptive_scale_manifest.json");
    assert_eq!(
        manifest["adaptive_phases"][0]["summary_path"],
        format!("phases/{phase}/adaptive_scale_summary.json")
    );
    let tried = summary["candidates"].as_array().expect("a list");
    let values: Vec<f64> = tried.iter().filter_map(|one| one["control_value"].as_f64()).collect();
    assert_eq!(values.len(), tried.len());
    values
}

#[test]
fn a_rate_is_steered_and_every_request_was_due_where_the_integral_of_the_rate_is_whole() {
    for cores in [1, 2] {
        // Ten a second find the server idle and take 40 ms; at a hundred it falls behind until 16 are in flight, which take a third of a second.
        let server = mock(|options| {
            options.ttft = ms(20);
            options.itl = ms(0);
            options.load_delay = ms(20);
        });
        let run = Scenario::new(server.address())
            .cores(cores)
            .phase(
                Phase::constant("search", 100.0)
                    .capped(16)
                    .dropping()
                    .lasting(Duration::from_secs(60))
                    .steered(pace(ControlVariable::RequestRate, 10.0, 90.0, 200.0)),
            )
            .run();
        let rates = found(&run, "search", "request_rate");
        assert_eq!(rates[..3], [10.0, 100.0, 10.0]);
        let summary = run.json("phases/search/adaptive_scale_summary.json");
        assert_eq!(
            (&summary["boundary_value"], &summary["first_failing_value"]),
            (&10.0.into(), &100.0.into())
        );
        Books::complete(&run, &server);
        // Arrivals are even, and a rate applies from 50 ms behind the window that it follows from until 50 ms behind the next.
        let begin = run.phase("search").start_ns;
        let integral = |due_s: f64| {
            let change = |window: usize| 2.0 * window as f64 + 0.05;
            let of = |(window, rate): (usize, &f64)| {
                let from = if window == 0 { 0.0 } else { change(window) };
                let until = if window + 1 < rates.len() {
                    change(window + 1)
                } else {
                    f64::INFINITY
                };
                rate * (due_s.min(until) - from).max(0.0)
            };
            rates.iter().enumerate().map(of).sum::<f64>()
        };
        let mut numbers = BTreeSet::new();
        for record in run.records_of("search") {
            let due_s = (record.ringload.intended_start_ns - begin) as f64 / 1e9;
            let number = integral(due_s);
            assert!(
                (number - number.round()).abs() < 1e-3,
                "a request was due at {due_s} s, as number {number}"
            );
            numbers.insert(number.round() as u64);
        }
        assert_eq!(numbers.len(), run.records.len(), "no arrival came twice");
        let summary = run.summary("search");
        assert!(
            summary["ringload"]["arrivals_dropped"].as_u64() > Some(0),
            "{summary:#}"
        );
    }
}

#[test]
fn a_low_rate_is_kept_when_arrivals_are_further_apart_than_they_are_looked_ahead() {
    let server = mock(|options| options.fast = true);
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(
            Phase::poisson("search", 8.0)
                .lasting(Duration::from_millis(1_500))
                .steered(pace(ControlVariable::RequestRate, 8.0, 1.0, 9.0)),
        )
        .run();
    let summary = run.json("phases/search/adaptive_scale_summary.json");
    assert_eq!(summary["completed_reason"], "phase_stopped");
    Books::complete(&run, &server);
    let counts = run.counts("search");
    assert!(counts.succeeded > 0 && counts.succeeded == counts.sent);
}

#[test]
fn users_are_steered_and_those_who_are_to_leave_finish_their_conversations() {
    for cores in [1, 2] {
        // Two users send ten requests a second, twenty would send a hundred, of which the server bears fifty.
        let server = mock(|options| {
            options.ttft = ms(20);
            options.itl = ms(0);
            options.load_delay = ms(20);
            options.keep_messages = true;
        });
        let run = Scenario::new(server.address())
            .turns(LengthDistribution::Fixed(3))
            .cores(cores)
            .phase(
                Phase::users("search", 20, 100.0)
                    .lasting(Duration::from_secs(60))
                    .steered(pace(ControlVariable::Users, 2.0, 18.0, 20.0)),
            )
            .run();
        let users = found(&run, "search", "users");
        assert_eq!(users[..3], [2.0, 20.0, 2.0]);
        let books = Books::complete(&run, &server);
        let sessions = sessions(&run, &books);
        let begin = run.phase("search").start_ns;
        let end = 2_000_000_000 * users.len() as u64;
        let starts_in = |from_s: f64, to_s: f64| {
            let start = |session: &&Session<'_>| (session.turns[0].0.ringload.intended_start_ns - begin) as f64 / 1e9;
            let within = |session: &&Session<'_>| (from_s..to_s).contains(&start(session));
            sessions.values().filter(within).count()
        };
        // A user lasts for three gaps of 200 ms. Eighteen come evenly within the first gap behind the change.
        assert_eq!(starts_in(2.05, 2.65), 20);
        // Nobody follows those who are taken away: two begin per 600 ms.
        assert_eq!(starts_in(4.65, 5.85), 4);
        // All have sent every turn, but for those of the end; and those of the start, whose history is behind them.
        for session in sessions.values() {
            let first = session.turns[0].0.ringload.intended_start_ns - begin;
            let is_whole = session.turns.len() == 3;
            assert!(
                is_whole || first < 400_000_000 || first + 3_000_000_000 > end,
                "{} turns of a user who began at {first} ns",
                session.turns.len()
            );
        }
    }
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
    let sla = "{time_to_first_token: {p95: {lt: 20000}}, error_rate: {avg: {le: 1}}}";
    for (load, control, values) in [
        ("type: concurrency, concurrency: 6", "min: 1, max: 3", [1.0, 2.0, 3.0]),
        (
            "type: gamma, rate: 30",
            "variable: request_rate, min: 10.5, max: 12.5",
            [10.5, 11.5, 12.5],
        ),
        (
            "type: user_centric, users: 6, rate: 60",
            "variable: users, min: 1, max: 3",
            [1.0, 2.0, 3.0],
        ),
    ] {
        let block = format!(
            "{load}, duration: 20, adaptive_scale: {{control: {{{control}}}, window: 1, sustain_duration: 1, \
             strategy: {{base_step: 1, max_step_multiplier: 1}}, sla: {sla}}}"
        );
        leaves_the_files_of_the_format(
            &config(
                &server.url(),
                &format!("    - {{name: ramp, kind: profiling, {block}}}\n"),
            ),
            values,
        );
    }
}

fn leaves_the_files_of_the_format(config: &str, values: [f64; 3]) {
    let workplace = Workplace::new(config);
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
    let tried: Vec<f64> = candidates
        .iter()
        .filter_map(|one| one["control_value"].as_f64())
        .collect();
    assert_eq!(tried, values);
    // A second run with the same directory removes what the first left.
    workplace.profile(&["--overwrite"]).expect(0);
}
