//! Sweeps and trials: one tree for all cells, one reset before each, and a suite that outlives failures and interrupts.

use ringload_mock_server::MockServer;
use ringload_tests::cells::{
    REQUESTS, aggregate_files, config, faulty, json, quick, run_files, scenarios, start, tree,
};
use ringload_tests::mock;
use ringload_tests::program::{Program, Workplace};
use serde_json::Value;

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect()
}

/// Resets at the server, each as the number of inference requests that had arrived before it.
fn resets(server: &MockServer) -> Vec<usize> {
    let requests = server.ledger();
    let log = server.control_log();
    let resets = log.iter().filter(|entry| entry.path == "/reset_prefix_cache");
    resets
        .map(|reset| {
            requests
                .iter()
                .filter(|entry| entry.receive_complete_ns < reset.monotonic_ns)
                .count()
        })
        .collect()
}

const TWO_BY_TWO: &str =
    "sweep: {type: grid, parameters: {phases.p1.concurrency: [1, 2], phases.p2.concurrency: [3, 4]}}";
const CELLS: [&str; 4] = [
    "concurrency_1__concurrency_3",
    "concurrency_1__concurrency_4",
    "concurrency_2__concurrency_3",
    "concurrency_2__concurrency_4",
];

#[test]
fn s66_a_sweep_of_two_phases_resets_before_each_cell_and_leaves_one_tree() {
    let server = quick();
    let (workplace, ended) = start(&server, TWO_BY_TWO, &[], 0);
    assert_eq!(resets(&server), [0, REQUESTS, 2 * REQUESTS, 3 * REQUESTS]);
    let mut expected = aggregate_files("sweep_aggregate", "sweep");
    for cell in CELLS {
        expected.extend(run_files(cell, &["p1", "p2"]));
        expected.extend(aggregate_files(&format!("aggregate/{cell}"), "aggregate"));
    }
    assert_eq!(tree(&workplace.path("results")), expected);
    for (index, cell) in CELLS.iter().enumerate() {
        let run = json(&workplace, &format!("{cell}/run_config.json"));
        assert_eq!(run["variation"]["index"], index);
        assert_eq!(run["random_seed"], 42 + index);
        assert_eq!(run["ringload"]["status"], "succeeded");
        let summary = json(&workplace, &format!("{cell}/profile_export_aiperf.json"));
        assert_eq!(summary["request_count"]["avg"], REQUESTS as f64);
        assert_eq!(summary["ringload"]["plan_hash"], run["ringload"]["plan_hash"]);
        // Every summary of a cell says which one it is.
        for file in ["profile_export_aiperf.json", "phases/p2/profile_export_aiperf.json"] {
            let info = &json(&workplace, &format!("{cell}/{file}"))["run_info"];
            let told = [
                &info["sweep_id"],
                &info["run_label"],
                &info["variation_label"],
                &info["variation_index"],
                &info["variation_values"],
            ];
            let variation = &run["variation"];
            let expected = [
                &run["sweep_id"],
                &run["label"],
                &variation["label"],
                &variation["index"],
                &variation["values"],
            ];
            assert_eq!(told, expected, "{cell}/{file}");
            assert!(told.iter().all(|value| !value.is_null()), "{info}");
        }
    }
    // A busy machine may have put warnings before the table.
    let table = ended.stdout.lines().skip_while(|line| !line.starts_with("#  cell"));
    for (at, line) in table.skip(1).take(4).enumerate() {
        assert!(
            line.starts_with(&format!("{} ", at + 1)) && line.contains("succeeded"),
            "{}",
            ended.stdout
        );
    }
}

#[test]
fn the_table_has_places_goodput_and_what_searches_found() {
    let server = quick();
    let text = format!(
        "benchmark:\n  model: m\n  endpoint: {{url: '{}', streaming: true}}\n  dataset: {{isl: 8, osl: 2}}\n  artifacts: {{dir: ./results}}\n  \
         slos: {{request_latency: 60000}}\n  phases:\n    type: concurrency\n    concurrency: 8\n    duration: 1m\n    adaptive_scale: {{control: {{min: 1, max: 2}}, \
         window: 1s, sustain_duration: 5, \
         sla: {{request_latency: {{p99: {{le: 60000}}}}}}}}\nsweep: {{type: grid, parameters: {{dataset.osl: [2, 3]}}}}\n",
        server.url()
    );
    let workplace = Workplace::new(&text);
    let ended = workplace.profile(&[]).expect(0);
    let table = ended.stdout.lines().skip_while(|line| !line.starts_with("#  cell"));
    let lines: Vec<&str> = table.take(5).collect();
    assert!(lines[0].ends_with("goodput (req/s)  artifacts"), "{}", ended.stdout);
    for (row, cell) in [(1, "osl_2"), (3, "osl_3")] {
        let goodput = &json(&workplace, &format!("{cell}/profile_export_aiperf.json"))["goodput"]["avg"];
        let words: Vec<&str> = lines[row].split_whitespace().rev().take(2).collect();
        let shown: f64 = words[1].replace(',', "").parse().expect("a number");
        let goodput = goodput.as_f64().expect("a goodput");
        assert!(goodput > 0.0 && (shown - goodput).abs() <= 0.0051, "{shown} {goodput}");
        assert!(words[0].ends_with(cell), "{}", lines[row]);
        let found = "adaptive scale of phase profiling, incomplete: nothing broke the service level up to concurrency 2, where the search ended";
        assert_eq!(lines[row + 1].trim_start(), found);
    }
}

#[test]
fn one_trial_has_its_best_configurations_too() {
    let server = quick();
    let (workplace, ended) = start(&server, TWO_BY_TWO, &[], 0);
    let sweep = json(&workplace, "sweep_aggregate/profile_export_aiperf_sweep.json");
    assert_eq!(
        keys(&sweep),
        [
            "aggregation_type",
            "num_profile_runs",
            "num_successful_runs",
            "failed_runs",
            "metadata",
            "per_combination_metrics",
            "best_configurations",
            "pareto_optimal"
        ]
    );
    assert_eq!(
        keys(&sweep["metadata"]),
        [
            "sweep_parameters",
            "num_combinations",
            "sweep_mode",
            "confidence_level",
            "num_trials_per_value",
            "aggregation_type"
        ]
    );
    let rows = sweep["per_combination_metrics"].as_array().expect("a list");
    assert_eq!(rows.len(), 4);
    // Both parameters end alike, so their names are their paths.
    assert_eq!(
        keys(&rows[0]["parameters"]),
        ["phases.p1.concurrency", "phases.p2.concurrency"]
    );
    let throughput = &rows[0]["metrics"]["request_throughput"];
    assert_eq!(
        (&throughput["mean"], &throughput["std"], &throughput["cv"]),
        (&throughput["avg"], &0.0.into(), &0.0.into())
    );
    // The best is what the rows say it is.
    let best = rows.iter().max_by(|a, b| {
        let of = |row: &Value| row["metrics"]["request_throughput"]["mean"].as_f64().expect("a figure");
        of(a).total_cmp(&of(b))
    });
    let told = &sweep["best_configurations"]["best_throughput"];
    assert_eq!(told["parameters"], best.expect("four rows")["parameters"]);
    let front = sweep["pareto_optimal"].as_array().expect("a list");
    assert!(front.contains(&told["parameters"]), "{front:?}");
    assert!(ended.stdout.contains("most requests/s: "), "{}", ended.stdout);
    let table = std::fs::read_to_string(workplace.path("results/sweep_aggregate/profile_export_aiperf_sweep.csv"))
        .expect("a table");
    for words in [
        "\r\n\r\nBest Configurations\r\nConfiguration,phases.p1.concurrency,phases.p2.concurrency,Metric,Unit\r\nBest Throughput,",
        "\r\n\r\nPareto Optimal Points\r\nphases.p1.concurrency,phases.p2.concurrency\r\n",
        "\r\n\r\nMetadata\r\nField,Value\r\nAggregation Type,sweep\r\n",
        "Number of Successful Runs,4\r\n",
    ] {
        assert!(table.contains(words), "{words:?}");
    }
    let single = json(
        &workplace,
        &format!("aggregate/{}/profile_export_aiperf_aggregate.json", CELLS[0]),
    );
    assert_eq!(single["metadata"]["single_run"], true);
    assert_eq!(single["metrics"]["request_latency_p99"]["t_critical"], Value::Null);
}

#[test]
fn trials_have_the_tree_and_the_figures_of_several_runs() {
    let server = quick();
    let (workplace, _) = start(&server, "multi_run: {num_runs: 2}", &[], 0);
    let mut expected = aggregate_files("aggregate", "aggregate");
    expected.extend(run_files("profile_runs/run_0001", &["p1", "p2"]));
    expected.extend(run_files("profile_runs/run_0002", &["p1", "p2"]));
    assert_eq!(tree(&workplace.path("results")), expected);
    assert_eq!(resets(&server), [0, REQUESTS]);
    let aggregate = json(&workplace, "aggregate/profile_export_aiperf_aggregate.json");
    assert_eq!(
        keys(&aggregate),
        ["schema_version", "aiperf_version", "metadata", "metrics"]
    );
    assert_eq!(
        keys(&aggregate["metadata"]),
        [
            "aggregation_type",
            "num_profile_runs",
            "num_successful_runs",
            "failed_runs",
            "confidence_level",
            "run_labels",
            "cooldown_seconds"
        ]
    );
    let latency = &aggregate["metrics"]["request_latency_avg"];
    assert_eq!(
        keys(latency),
        [
            "mean",
            "std",
            "min",
            "max",
            "cv",
            "se",
            "ci_low",
            "ci_high",
            "t_critical",
            "unit"
        ]
    );
    let of_run = |run: u32| {
        let summary = json(
            &workplace,
            &format!("profile_runs/run_000{run}/profile_export_aiperf.json"),
        );
        assert_eq!(summary["run_info"]["trial"], run - 1);
        summary["request_latency"]["avg"].as_f64().expect("a figure")
    };
    let mean = latency["mean"].as_f64().expect("a figure");
    assert!((mean - f64::midpoint(of_run(1), of_run(2))).abs() < 1e-9);
    let t = latency["t_critical"].as_f64().expect("a figure");
    assert!((t - 12.706_204_736).abs() < 1e-6, "{t}");
}

#[test]
fn a_sweep_with_trials_has_the_tree_of_its_order() {
    let sweep = "sweep: {type: grid, parameters: {phases.p1.concurrency: [1, 4]}ORDER}\nmulti_run: {num_runs: 2}";
    for (order, cell, aggregate, comparison) in [
        (
            "",
            "profile_runs/trial_000T/concurrency_C",
            "aggregate/concurrency_C",
            "aggregate/sweep_aggregate",
        ),
        (
            ", iteration_order: independent",
            "concurrency_C/profile_runs/trial_000T",
            "concurrency_C/aggregate",
            "sweep_aggregate",
        ),
    ] {
        let server = quick();
        let (workplace, _) = start(&server, &sweep.replace("ORDER", order), &[], 0);
        let mut expected = aggregate_files(comparison, "sweep");
        for concurrency in ["1", "4"] {
            expected.extend(aggregate_files(&aggregate.replace('C', concurrency), "aggregate"));
            for trial in ["1", "2"] {
                expected.extend(run_files(
                    &cell.replace('C', concurrency).replace('T', trial),
                    &["p1", "p2"],
                ));
            }
        }
        assert_eq!(tree(&workplace.path("results")), expected, "{order}");
        let place = format!("{comparison}/profile_export_aiperf_sweep.json");
        let sweep = json(&workplace, &place);
        assert_eq!(sweep["num_profile_runs"], 4);
        let metrics = &sweep["per_combination_metrics"][1]["metrics"];
        assert_eq!(
            keys(&metrics["request_throughput_avg"]),
            ["mean", "std", "min", "max", "cv", "ci_low", "ci_high", "unit"]
        );
        assert_eq!(
            sweep["per_combination_metrics"][1]["parameters"],
            serde_json::json!({"concurrency": 4})
        );
    }
}

#[test]
fn s66_a_cell_without_a_success_does_not_keep_the_others_from_running() {
    let server = quick();
    let runs =
        ["good", "bad", "last"].map(|name| faulty(&server, name, if name == "bad" { "status:500" } else { "interim" }));
    let (workplace, ended) = start(&server, &scenarios(&runs), &[], 0);
    assert_eq!(resets(&server), [0, REQUESTS, 2 * REQUESTS]);
    let sweep = json(&workplace, "sweep_aggregate/profile_export_aiperf_sweep.json");
    assert_eq!(
        (&sweep["num_profile_runs"], &sweep["num_successful_runs"]),
        (&3.into(), &2.into())
    );
    let failed = sweep["failed_runs"].as_array().expect("a list");
    assert_eq!((failed.len(), &failed[0]["label"]), (1, &"bad".into()));
    assert!(
        failed[0]["error"].as_str().is_some_and(|error| error.contains("500")),
        "{failed:?}"
    );
    assert_eq!(json(&workplace, "bad/run_config.json")["ringload"]["status"], "failed");
    assert!(tree(&workplace.path("results")).is_superset(&run_files("bad", &["p1", "p2"])));
    assert!(
        ended.stdout.contains("failed") && ended.stdout.contains("no request succeeded"),
        "{}",
        ended.stdout
    );
}

#[test]
fn s66_one_good_cell_of_several_is_not_enough() {
    let server = quick();
    let runs = ["good", "bad", "worse"]
        .map(|name| faulty(&server, name, if name == "good" { "interim" } else { "status:500" }));
    let (workplace, ended) = start(&server, &scenarios(&runs), &[], 1);
    assert!(
        ended
            .stderr
            .contains("error: 1 of 3 cells succeeded; bad: no request succeeded"),
        "{}",
        ended.stderr
    );
    assert_eq!(
        json(&workplace, "sweep_aggregate/profile_export_aiperf_sweep.json")["num_successful_runs"],
        1
    );
}

#[test]
fn a_policy_ends_the_suite_at_the_first_failure() {
    let server = quick();
    let runs =
        ["bad", "good", "last"].map(|name| faulty(&server, name, if name == "bad" { "status:500" } else { "interim" }));
    let more = scenarios(&runs).replace(
        "type: scenarios,",
        "type: scenarios, failure_policy: {on_child_failure: abort},",
    );
    let (_, ended) = start(&server, &more, &[], 1);
    assert_eq!(server.ledger().len(), REQUESTS);
    assert_eq!(ended.stdout.matches("not run").count(), 2, "{}", ended.stdout);
}

#[test]
fn results_of_a_sweep_are_never_overwritten_unasked() {
    let server = quick();
    let sweep = "sweep: {type: grid, parameters: {phases.p1.concurrency: [1, 2]}}";
    let (workplace, _) = start(&server, sweep, &[], 0);
    let refused = workplace.profile(&[]).expect(2);
    assert!(
        refused.stderr.contains("--overwrite")
            && refused.stderr.contains("--resume")
            && refused.stderr.contains("results-2"),
        "{}",
        refused.stderr
    );
    assert_eq!(server.ledger().len(), 2 * REQUESTS, "nothing was sent");
    // Another sweep in its place leaves nothing of the first.
    std::fs::write(
        workplace.path("test.yaml"),
        config(&server, &sweep.replace("[1, 2]", "[3, 4]")),
    )
    .expect("a config");
    workplace.profile(&["--overwrite"]).expect(0);
    let left = tree(&workplace.path("results"));
    assert!(
        !left
            .iter()
            .any(|file| file.contains("concurrency_1") || file.contains("concurrency_2")),
        "{left:?}"
    );
    assert!(left.contains("concurrency_4/run_config.json"));
}

#[test]
fn mistakes_of_the_last_cell_are_found_before_the_first_runs() {
    let server = quick();
    let (workplace, ended) = start(
        &server,
        "sweep: {type: grid, parameters: {phases.p1.concurrency: [1, 0]}}",
        &[],
        2,
    );
    assert!(
        ended
            .stderr
            .contains("test.yaml:14:61: benchmark.phases[0].concurrency: found `0`")
            && ended.stderr.contains("in the variation `phases.p1.concurrency=0`"),
        "{}",
        ended.stderr
    );
    assert!(!workplace.path("results").exists());
    let validated = workplace.run(&["config", "validate", "test.yaml"]).expect(2);
    assert_eq!(validated.stderr, ended.stderr, "one pipeline");
    assert_eq!((server.ledger().len(), server.control_log().len()), (0, 0));
}

#[test]
fn later_trials_of_a_warm_server_skip_the_warmup() {
    let server = quick();
    let text = config(&server, "multi_run: {num_runs: 2}")
        .replace("    reset_kv_cache: true\n", "")
        .replace("{name: p1, kind: profiling", "{name: warmup");
    let workplace = Workplace::new(&text);
    workplace.profile(&[]).expect(0);
    let files = tree(&workplace.path("results"));
    assert!(files.is_superset(&run_files("profile_runs/run_0001", &["warmup", "p2"])));
    assert!(files.is_superset(&run_files("profile_runs/run_0002", &["p2"])));
    assert!(
        !files
            .iter()
            .any(|file| file.starts_with("profile_runs/run_0002/phases/warmup"))
    );
    // With a reset before each run the warmup stays, and a line says why.
    let text = text.replace(
        "    streaming: true\n",
        "    streaming: true\n    reset_kv_cache: true\n",
    );
    let workplace = Workplace::new(&text);
    let ended = workplace.profile(&[]).expect(0);
    assert!(ended.stderr.contains("keep their warmup phases"), "{}", ended.stderr);
    assert!(tree(&workplace.path("results")).is_superset(&run_files("profile_runs/run_0002", &["warmup", "p2"])));
}

#[test]
fn each_finished_cell_is_a_line() {
    let server = quick();
    let workplace = Workplace::new(&config(&server, TWO_BY_TWO));
    let mut command = workplace.command(&["profile", "--config", "test.yaml", "--cores", "1"]);
    command.env("NO_COLOR", "1");
    let ended = Program::start(command).end().expect(0);
    let lines = |text: &str| text.lines().filter(|line| line.contains("succeeded")).count();
    assert_eq!((lines(&ended.stderr), lines(&ended.stdout)), (4, 4), "{}", ended.stderr);
    std::fs::remove_dir_all(workplace.path("results")).expect("results");
    let hidden = config(&server, &format!("{TWO_BY_TWO}\nno_sweep_table: true"));
    std::fs::write(workplace.path("test.yaml"), hidden).expect("a config");
    let command = workplace.command(&["profile", "--config", "test.yaml", "--cores", "1"]);
    let ended = Program::start(command).end().expect(0);
    assert_eq!((lines(&ended.stderr), lines(&ended.stdout)), (0, 4), "{}", ended.stderr);
}

#[test]
fn the_server_is_waited_for_once() {
    let server = quick();
    let text = config(&server, TWO_BY_TWO).replace(
        "    streaming: true\n",
        "    streaming: true\n    wait_for_model_timeout: 10\n    wait_for_model_mode: models\n",
    );
    let workplace = Workplace::new(&text);
    let ended = workplace.profile(&[]).expect(0);
    assert_eq!(ended.stderr.matches("to be ready").count(), 1, "{}", ended.stderr);
    assert_eq!(server.ledger().len(), 4 * REQUESTS);
    // A server that is not there ends the suite, and leaves no trace of results.
    let text = text
        .replace(&server.url(), "http://127.0.0.1:9")
        .replace("timeout: 10", "timeout: 0.2");
    let workplace = Workplace::new(&text);
    for _ in 0..2 {
        workplace.profile(&[]).expect(1);
    }
    assert!(!workplace.path("results").exists());
}

#[test]
fn a_flag_and_a_sweep_of_the_same_hook_exclude_each_other() {
    let server = quick();
    let sweep = "sweep: {type: grid, parameters: {endpoint.reset_kv_cache: [true, false]}}";
    let (_, ended) = start(&server, sweep, &["--reset-kv-cache"], 2);
    assert!(
        ended.stderr.contains("--reset-kv-cache") && ended.stderr.contains("endpoint.reset_kv_cache"),
        "{}",
        ended.stderr
    );
    let (_, ended) = start(&server, sweep, &[], 0);
    assert_eq!(resets(&server), [0], "one of the two cells has the hook");
    assert!(ended.stdout.contains("succeeded"), "{}", ended.stdout);
}

#[test]
fn the_exit_code_of_a_sweep_is_that_of_its_worst_outcome() {
    let server = quick();
    // Enough answers for a ratio, in one phase. `threshold` ends the run early, `fails` has no success, `good` has nothing else.
    let run = |name: &str| {
        let (name, kind) = (name, name.trim_end_matches(|c: char| c.is_ascii_digit()));
        let fault = if kind == "good" { "interim" } else { "status:500" };
        let threshold = if kind == "threshold" {
            ", failed_request_threshold: 0.5"
        } else {
            ""
        };
        format!(
            "{{name: {name}, benchmark: {{endpoint: {{url: \"{}/v1/chat/completions?fault={fault}&cell={name}\"}}, phases: [{{name: p1{threshold}}}]}}}}",
            server.url()
        )
    };
    for (names, code, words) in [
        (&["good1", "good2"][..], 0, ""),
        (&["good1", "good2", "fails"], 0, ""),
        (
            &["good1", "good2", "fails", "threshold"],
            3,
            "2 of 4 cells succeeded; threshold: ",
        ),
        (
            &["good1", "threshold"],
            3,
            "1 of 2 cells succeeded; threshold: profiling phase p1: ",
        ),
        (&["threshold1", "threshold2"], 3, "0 of 2 cells succeeded; threshold1: "),
        (
            &["good1", "fails", "threshold"],
            1,
            "1 of 3 cells succeeded; fails: no request succeeded",
        ),
    ] {
        let runs: Vec<String> = names.iter().map(|name| run(name)).collect();
        let text = config(&server, &scenarios(&runs)).replace("requests: 6", "requests: 60");
        let workplace = Workplace::new(&text);
        let ended = workplace.profile(&[]).expect(code);
        assert!(ended.stderr.contains(words), "{names:?}: {}", ended.stderr);
    }
}

#[test]
fn variants_of_the_command_line_run_what_their_flags_say() {
    // Answers as long as they are asked to be.
    let server = mock(|options| options.osl = None);
    let workplace = Workplace::new("");
    let mut command = workplace.command(&["profile", "--ui", "none", "--cores", "1", "--artifact-dir", "results"]);
    command.args(["--model", "mock-model", "--url", &server.url(), "--isl-stddev", "0"]);
    command.args(["--variant", "short: isl=8, osl=2, request_count=3", "--variant"]);
    command.args(["long: isl=40, osl=5, request-count=4, request_rate=50, streaming=true"]);
    let ended = Program::start(command).end().expect(0);
    let tokens: Vec<u32> = server.ledger().iter().map(|entry| entry.tokens_sent).collect();
    assert_eq!(tokens, [2, 2, 2, 5, 5, 5, 5], "{}", ended.stdout);
    let lengths = |cell: &str| {
        json(&workplace, &format!("{cell}/profile_export_aiperf.json"))["input_sequence_length"]["avg"].clone()
    };
    assert_eq!((lengths("short"), lengths("long")), (8.0.into(), 40.0.into()));
    // A rate makes an open loop, and only there.
    let kind = |cell: &str| json(&workplace, &format!("{cell}/run_config.json"))["cfg"]["phases"][0]["type"].clone();
    assert_eq!((kind("short"), kind("long")), ("concurrency".into(), "poisson".into()));
    let sweep = json(&workplace, "sweep_aggregate/profile_export_aiperf_sweep.json");
    assert_eq!(
        keys(&sweep["per_combination_metrics"][1]["parameters"]),
        ["scenario", "isl", "osl", "request_count", "request_rate", "streaming"]
    );
    assert_eq!(sweep["per_combination_metrics"][1]["parameters"]["request_rate"], 50);
}
