//! Goodput end to end: who is good is fixed by what the server does, never by how fast this machine is.

use std::fs;
use std::time::Duration;

use ringload_engine::plan::{AdaptivePlan, ControlVariable, SlaFilter, SlaOp, StepPolicy, WindowMetric, WindowStat};
use ringload_engine::units::Nanos;
use ringload_tests::cells::{self, json};
use ringload_tests::program::{Workplace, config, phase};
use ringload_tests::record::Ending;
use ringload_tests::server::faulty;
use ringload_tests::{Phase, Run, Scenario, mock};
use serde_json::Value;

/// Figures of a summary: goodput, good requests, their share.
fn figures(summary: &Value) -> [Option<f64>; 3] {
    ["goodput", "good_request_count", "good_request_fraction"].map(|tag| summary[tag]["avg"].as_f64())
}

#[test]
fn requests_to_the_slow_one_of_two_servers_are_not_good() {
    // Two milliseconds or three seconds to the first token, and the threshold in between, a thousand times the one and half of the other.
    let (fast, slow) = (mock(|_| {}), mock(|options| options.ttft = Duration::from_secs(3)));
    for (cores, records) in [(1, true), (2, false)] {
        let scenario = Scenario::new(fast.address())
            .also(slow.address())
            .cores(cores)
            .slo("time_to_first_token", 1_500.0)
            .slo("output_sequence_length", 4.0)
            .phase(Phase::closed("warmup", 1).warmup().requests(1))
            // The warmup took the first server, so this phase begins with the second.
            .phase(Phase::closed("load", 11).requests(11));
        let run = match records {
            true => scenario,
            false => scenario.without_records(),
        }
        .run();
        assert_eq!(figures(&run.summary("warmup"))[1..], [Some(1.0), Some(1.0)]);
        let load = run.summary("load");
        assert_eq!(figures(&load)[1..], [Some(5.0), Some(5.0 / 11.0)], "{cores} cores");
        assert_eq!(figures(&run.root())[1..], [Some(5.0), Some(5.0 / 11.0)]);
        // Both rates are over the same window.
        let (goodput, throughput) = (figures(&load)[0], load["request_throughput"]["avg"].as_f64());
        let share = goodput.expect("there is one") / throughput.expect("there is one");
        assert!((share - 5.0 / 11.0).abs() < 1e-9, "{share}");
        if records {
            let good = |record: &&ringload_tests::record::Record| record.metric("good_request_count") == Some(1.0);
            assert_eq!(run.records_of("load").into_iter().filter(good).count(), 5);
        }
    }
    assert_eq!((fast.counters().requests, slow.counters().requests), (12, 12));
}

/// Twelve requests in turn to a server of short answers and one of long ones, whose every third request fails.
fn short_and_long(threshold: f64) -> Run {
    let short = mock(|options| options.osl = Some(3));
    let long = mock(|options| {
        options.osl = Some(9);
        options.fault = Some("every:3:status:500".parse().expect("a fault"));
    });
    Scenario::new(short.address())
        .also(long.address())
        .slo("output_sequence_length", threshold)
        .phase(Phase::closed("load", 4).requests(12))
        .run()
}

#[test]
fn an_amount_must_reach_its_threshold_and_failures_are_never_good() {
    for (threshold, good) in [(3.0, 10.0), (4.0, 4.0), (9.0, 4.0), (10.0, 0.0)] {
        let run = short_and_long(threshold);
        assert_eq!((run.ended(Ending::Succeeded), run.ended(Ending::Failed)), (10, 2));
        let expected = [Some(good), Some(good / 12.0)];
        assert_eq!(figures(&run.root())[1..], expected, "at least {threshold} tokens");
        for record in &run.records {
            let judged = record.metric("good_request_count");
            let tokens = record.metric("output_sequence_length");
            let expected = tokens.map(|tokens| f64::from(u8::from(tokens >= threshold)));
            assert_eq!(judged, expected, "{record:?}");
        }
    }
}

#[test]
fn a_figure_that_an_answer_lacks_is_a_level_missed() {
    let server = mock(|options| options.fault = Some("every:4:no-usage".parse().expect("a fault")));
    let run = Scenario::new(server.address())
        .slo("usage_completion_tokens", 0.0)
        .phase(Phase::closed("load", 2).requests(8))
        .run();
    assert_eq!(figures(&run.root())[1..], [Some(6.0), Some(0.75)]);
    let told = run.root()["ringload"]["slos"].to_string();
    assert_eq!(
        told,
        r#"{"usage_completion_tokens":{"threshold":0.0,"met":6,"missed":0,"lacking":2}}"#
    );
    assert!(!run.outcome.warnings.iter().any(|warning| warning.contains("slos.")));

    let mute = faulty("no-usage");
    let run = Scenario::new(mute.address())
        .slo("inter_token_latency", 1e6)
        .phase(Phase::closed("load", 2).requests(4))
        .run();
    assert_eq!(figures(&run.root())[1..], [Some(0.0), Some(0.0)]);
    let warning = run.outcome.warnings.iter().find(|warning| warning.contains("slos."));
    assert!(
        warning.is_some_and(|warning| warning.contains("none of 4 successes has this figure")),
        "{:?}",
        run.outcome.warnings
    );
}

/// A search from 1 to 3 by the share of good requests.
fn by_share(threshold: f64) -> AdaptivePlan {
    AdaptivePlan {
        variable: ControlVariable::Concurrency,
        min: 1.0,
        max: 3.0,
        assessment_period: Nanos::from_millis(300),
        min_completed: 1,
        sustain_duration: Nanos::from_millis(300),
        step_policy: StepPolicy::SlaMargin,
        base_step: 1.0,
        max_step_multiplier: 1,
        step_percent: 25.0,
        filters: vec![SlaFilter {
            metric: WindowMetric::GoodputRatio,
            name: "goodput_ratio".to_owned(),
            stat: WindowStat::Average,
            stat_name: "avg".to_owned(),
            op: SlaOp::Ge,
            threshold,
        }],
    }
}

#[test]
fn a_controller_steers_by_the_share_of_good_requests() {
    // Every answer has four tokens: all are good, or none is.
    for (tokens, reason) in [
        (4.0, "max_control_value_reached_without_saturation"),
        (5.0, "no_sustainable_concurrency_found"),
    ] {
        let server = mock(|_| {});
        let run = Scenario::new(server.address())
            .cores(2)
            .slo("output_sequence_length", tokens)
            .phase(
                Phase::closed("search", 3)
                    .lasting(Duration::from_secs(20))
                    .steered(by_share(1.0)),
            )
            .run();
        let summary = run.json("phases/search/adaptive_scale_summary.json");
        assert_eq!(summary["completed_reason"], reason, "{summary:#}");
        assert_eq!(summary["sla_metric"], "goodput_ratio");
    }
}

const LEVELS: &str = "  slos: {time_to_first_token: 20000, output_sequence_length: 4}\n";

#[test]
fn a_config_with_levels_shows_goodput_wherever_figures_are() {
    let server = mock(|_| {});
    let text = config(&server.url(), &phase("load", "concurrency: 2, requests: 6"));
    let workplace = Workplace::new(&format!("{text}{LEVELS}"));
    let ended = workplace.profile(&[]).expect(0);
    assert!(ended.stdout.contains("\n  Goodput (requests/sec) "), "{}", ended.stdout);
    let root = workplace.root();
    assert_eq!(
        root["input_config"]["slos"].to_string(),
        r#"{"time_to_first_token":20000.0,"output_sequence_length":4.0}"#
    );
    assert_eq!(figures(&root)[1..], [Some(6.0), Some(1.0)]);
    let units = ["goodput", "good_request_count", "good_request_fraction"].map(|tag| root[tag]["unit"].clone());
    assert_eq!(units, ["requests/sec", "requests", "ratio"]);
    let table = fs::read_to_string(workplace.path("results/profile_export_aiperf.csv")).expect("a table");
    for row in [
        "\r\nGood Request Count,6.00\r\n",
        "\r\nGoodRequestFraction (ratio),1.00\r\n",
        "\r\nGoodput (requests/sec),",
    ] {
        assert!(table.contains(row), "{row:?} is not in {table}");
    }
    // Without levels there is none of it.
    let plain = Workplace::new(&text);
    let ended = plain.profile(&[]).expect(0);
    assert!(!ended.stdout.contains("Goodput"), "{}", ended.stdout);
    assert_eq!(figures(&plain.root()), [None; 3]);
    assert_eq!(plain.root()["input_config"].get("slos"), None);
}

#[test]
fn validate_and_profile_refuse_the_same_levels() {
    let server = mock(|_| {});
    let text = config(&server.url(), &phase("load", "requests: 1"));
    let text = format!("{text}  slos: {{time_to_frist_token: 5, request_throughput: 5}}\n");
    let workplace = Workplace::new(&text);
    for arguments in [
        &["profile", "--config", "test.yaml"][..],
        &["config", "validate", "test.yaml"],
    ] {
        let refused = workplace.run(arguments).expect(2);
        for words in ["did you mean `time_to_first_token`?", "a figure of a whole phase"] {
            assert!(refused.stderr.contains(words), "{words}: {}", refused.stderr);
        }
    }
    assert_eq!(server.counters().requests, 0);
}

#[test]
fn a_sweep_over_a_level_compares_goodput() {
    let server = mock(|_| {});
    let more = "  slos: {output_sequence_length: 1}\nsweep: {type: grid, parameters: {slos.output_sequence_length: [4, 5]}}\nmulti_run: {num_runs: 2}";
    let (workplace, _) = cells::start(&server, more, &[], 0);
    let sweep = json(&workplace, "aggregate/sweep_aggregate/profile_export_aiperf_sweep.json");
    let rows = sweep["per_combination_metrics"].as_array().expect("a list");
    let good: Vec<&Value> = rows
        .iter()
        .map(|row| &row["metrics"]["good_request_count_avg"]["mean"])
        .collect();
    assert_eq!(good, [10.0, 0.0], "{sweep:#}");
    assert!(
        rows.iter()
            .all(|row| row["metrics"]["goodput_avg"]["unit"] == "requests/sec")
    );
}
