//! What flags do to what is there already, and what follows from several of them.

use ringload_engine::config;
use ringload_engine::plan::{DrainRule, Plan};
use ringload_engine::units::Nanos;
use serde_json::{Value, json};

use super::{GRID, ONE, OPEN, WARM, file, plan, plans, refusal, suite, told};

#[test]
fn a_ranking_of_flags_alone_has_the_lengths_of_a_ranking() {
    let line = "--model m --endpoint-type COHERE_RANKINGS";
    let dataset = |more: &str| told(None, &format!("{line} {more}"))["datasets"][0].clone();
    // Not the 550 tokens of a prompt.
    let plain = dataset("");
    assert_eq!((plain.get("prompts"), plain.get("rankings")), (None, None));
    let query = dataset("--rankings-query-prompt-token-mean 16 --rankings-query-prompt-token-stddev 4");
    assert_eq!(
        query["rankings"]["query_tokens"],
        json!({ "mean": 16.0, "stddev": 4.0 })
    );
    let twice = refusal(None, &format!("{line} --isl 8 --rankings-query-prompt-token-mean 16"));
    assert!(twice.contains("say the same"), "{twice}");
}

#[test]
fn a_command_line_without_a_file_has_the_defaults_of_the_peer() {
    let config = told(None, "--model m");
    assert_eq!(config["endpoint"]["urls"], json!(["http://localhost:8000"]));
    let dataset = &config["datasets"][0];
    assert_eq!(
        (&dataset["name"], &dataset["entries"], &dataset["prompts"]),
        (&json!("main"), &json!(100), &json!({ "isl": { "mean": 550.0 } }))
    );
    let phase = &config["phases"][0];
    assert_eq!(
        (
            &phase["name"],
            &phase["type"],
            &phase["requests"],
            &phase["concurrency"]
        ),
        (&json!("profiling"), &json!("concurrency"), &json!(10), &json!(1))
    );
    assert_eq!(config["phases"].as_array().map(Vec::len), Some(1));
    // One stop condition is enough, and users all begin.
    assert_eq!(
        told(None, "--model m --benchmark-duration 5")["phases"][0]["requests"],
        Value::Null
    );
    assert_eq!(
        told(None, "--model m --user-centric-rate 5 --num-users 30")["phases"][0]["requests"],
        30
    );
    // Decision 1: without a grace period the phase waits for all.
    assert_eq!(
        told(None, "--model m --benchmark-duration 5")["phases"][0]["grace_period"],
        Value::Null
    );
}

#[test]
fn a_seed_and_trials_belong_to_the_top_level() {
    assert_eq!(plan(Some(ONE), "--random-seed 7").seed, 7);
    let runs = suite(
        Some(ONE),
        "--num-profile-runs 3 --profile-run-cooldown-seconds 1m --confidence-level 0.9 --vary-seed-per-trial",
    )
    .expect("good");
    assert_eq!(
        (
            runs.multi_run.num_runs,
            runs.multi_run.cooldown_s,
            runs.multi_run.confidence_level
        ),
        (3, 60.0, 0.9)
    );
    assert!(
        runs.multi_run.vary_seed_per_trial
            && runs.multi_run.set_consistent_seed
            && runs.multi_run.disable_warmup_after_first
    );
    let off = suite(
        Some(ONE),
        "--num-profile-runs 2 --no-set-consistent-seed --profile-run-disable-warmup-after-first=false --no-sweep-table",
    )
    .expect("good");
    assert!(!off.multi_run.set_consistent_seed && !off.multi_run.disable_warmup_after_first && !off.shows_table);
}

#[test]
fn c06_extra_inputs_have_the_json_type_of_their_looks() {
    let line = r#"--extra-inputs min_tokens:10 ignore_eos:true temp:0.5 x:null word:a:b list:[1,"a"] 'text:"10"' on:on empty: '{"deep": {"a": 1}, "top_k": 7}'"#;
    assert_eq!(
        told(Some(ONE), line)["endpoint"]["extra"],
        json!({"top_k": 7, "min_tokens": 10, "ignore_eos": true, "temp": 0.5, "x": null, "word": "a:b", "list": [1, "a"], "text": "10", "on": "on",
               "empty": "", "deep": {"a": 1}})
    );
}

#[test]
fn pairs_of_lengths_stand_in_the_place_of_both() {
    let pairs = |flag: &str| {
        let line = format!("--model m {flag} 128,64:25;512|9,128:75");
        told(None, &line)["datasets"][0]["prompts"].clone()
    };
    let prompts = pairs("--seq-dist");
    assert_eq!(prompts, pairs("--sequence-distribution"));
    for other in ["[(128,64):25,(512|9,128):75]", "128,64:0.25;512|9,128:0.75"] {
        let line = format!("--model m --seq-dist {other}");
        assert_eq!(told(None, &line)["datasets"][0]["prompts"], prompts, "{other}");
    }
    assert_eq!((prompts.get("isl"), prompts.get("osl")), (None, None));
    let second = &prompts["sequence_distribution"][1];
    for (key, value) in [
        ("isl", 512.0),
        ("isl_stddev", 9.0),
        ("osl", 128.0),
        ("probability", 75.0),
    ] {
        assert_eq!(second[key].as_f64(), Some(value), "{key} in {prompts}");
    }
}

#[test]
fn a_phase_of_flags_drains_like_one_of_a_file() {
    let drains = |file, line| -> Vec<DrainRule> { plan(file, line).phases.iter().map(|phase| phase.drain).collect() };
    let load = "--model m --benchmark-duration 5 --warmup-duration 2";
    let waits = DrainRule::WhileProgressing;
    assert_eq!(drains(None, load), [waits, waits]);
    assert_eq!(drains(Some(ONE), "--benchmark-duration 5"), [waits]);
    let bounded = |seconds| DrainRule::Grace(Nanos::from_secs(seconds));
    assert_eq!(
        drains(
            None,
            &format!("{load} --benchmark-grace-period 0 --warmup-grace-period 3")
        ),
        [bounded(3), bounded(0)]
    );
}

#[test]
fn lists_make_a_sweep_or_join_the_grid_of_the_file() {
    let labels = |file, line| -> Vec<String> {
        let suite = suite(file, line).unwrap_or_else(|mistakes| panic!("{line}: {mistakes}"));
        suite.variations.into_iter().map(|variation| variation.label).collect()
    };
    assert_eq!(
        labels(None, "--model m --concurrency 1,8 --request-count 10,20"),
        [
            "phases.profiling.concurrency=1, phases.profiling.requests=10",
            "phases.profiling.concurrency=1, phases.profiling.requests=20",
            "phases.profiling.concurrency=8, phases.profiling.requests=10",
            "phases.profiling.concurrency=8, phases.profiling.requests=20",
        ]
    );
    assert_eq!(
        labels(Some(ONE), "--concurrency 1,8"),
        ["phases.steady.concurrency=1", "phases.steady.concurrency=8"]
    );
    assert_eq!(labels(Some(GRID), "--osl 4,8").len(), 4);
    assert_eq!(
        labels(None, "--model m --isl 16,32 --osl 4,8 --sweep-type zip"),
        ["dataset.isl=16, dataset.osl=4", "dataset.isl=32, dataset.osl=8"]
    );
    assert_eq!(
        labels(None, "--model m --isl 16,32 --isl-stddev 2")[1],
        "dataset.isl.mean=32"
    );
    for line in [
        "--prefill-concurrency 1,2",
        "--benchmark-duration 5,10s",
        "--request-rate 2,4",
        "--num-conversations 20,30",
        "--isl-stddev 1,2",
        "--osl-stddev 1,2",
        "--session-turns-mean 1,2",
        "--user-centric-rate 5 --num-users 2,3",
    ] {
        assert_eq!(
            plans(Some(ONE), line)
                .map(|plans| plans.len())
                .map_err(|mistakes| mistakes.to_string()),
            Ok(2),
            "{line}"
        );
    }
    let rules = suite(
        None,
        "--model m --isl 16,32 --num-profile-runs 2 --parameter-sweep-mode independent --parameter-sweep-same-seed --parameter-sweep-cooldown-seconds 2s",
    );
    let rules = rules.expect("good").sweep.expect("a sweep");
    assert_eq!((rules.cooldown_s, rules.same_seed), (2.0, true));
    assert_eq!(rules.order, config::IterationOrder::Independent);
}

#[test]
fn a_new_warmup_phase_follows_the_profiling_phase_through_the_cells() {
    let concurrencies = |file, line| -> Vec<Vec<Value>> {
        let plans = plans(file, line).unwrap_or_else(|mistakes| panic!("{line}: {mistakes}"));
        let of = |plan: Plan| {
            plan.input_config["phases"]
                .as_array()
                .expect("phases")
                .iter()
                .map(|phase| phase["concurrency"].clone())
                .collect()
        };
        plans.into_iter().map(of).collect()
    };
    let each = [vec![json!(1), json!(1)], vec![json!(8), json!(8)]];
    assert_eq!(
        concurrencies(None, "--model m --concurrency 1,8 --warmup-request-count 9"),
        each
    );
    assert_eq!(
        concurrencies(Some(ONE), "--concurrency 1,8 --warmup-request-count 9"),
        each
    );
    let flat = ONE.replace("    - {name: steady, kind: profiling, ", "    {");
    assert_eq!(
        concurrencies(Some(&flat), "--concurrency 1,8 --warmup-request-count 9"),
        each
    );
    let short = ONE.replace(
        "  phases:\n    - {name: steady, kind: profiling, ",
        "  profiling:\n    {",
    );
    assert_eq!(
        concurrencies(Some(&short), "--concurrency 1,8 --warmup-request-count 9"),
        each
    );
    let own = [vec![json!(2), json!(1)], vec![json!(2), json!(8)]];
    assert_eq!(
        concurrencies(
            None,
            "--model m --concurrency 1,8 --warmup-request-count 9 --warmup-concurrency 2"
        ),
        own
    );
}

#[test]
fn warmup_flags_change_the_first_warmup_phase() {
    let phases = told(Some(WARM), "--warmup-concurrency 3 --warmup-request-count 5")["phases"].clone();
    assert_eq!(
        (&phases[0]["concurrency"], &phases[0]["requests"]),
        (&json!(3), &json!(5))
    );
    assert_eq!(
        (&phases[1]["concurrency"], &phases[1]["requests"]),
        (&json!(2), &json!(3))
    );
    assert_eq!(phases.as_array().map(Vec::len), Some(3));
    // Decision 7: a new one takes over how the profiling phase sends, not what it cancels.
    let new = told(
        None,
        "--model m --request-rate 5 --request-cancellation-rate 50 --warmup-duration 5",
    )["phases"][0]
        .clone();
    assert_eq!(
        (&new["type"], &new["rate"], &new["cancellation"]),
        (&json!("poisson"), &json!(5.0), &Value::Null)
    );
}

#[test]
fn hooks_keep_what_the_file_says_beside_a_flag() {
    let hooks = ONE.replace(
        "streaming: true",
        "streaming: true, reset_kv_cache: {path: /mine}, server_profiler: false",
    );
    let endpoint = told(Some(&hooks), "--reset-kv-cache --server-profiler-stop-path /halt")["endpoint"].clone();
    assert_eq!(endpoint["reset_kv_cache"], json!({ "path": "/mine" }));
    assert_eq!(endpoint["server_profiler"], json!({ "stop_path": "/halt" }));
    let off = told(Some(&hooks), "--no-reset-kv-cache")["endpoint"].clone();
    assert_eq!(off.get("reset_kv_cache"), None);
}

#[test]
fn a_change_of_type_says_which_keys_of_the_file_it_drops() {
    let warnings = |file, line| plan(Some(file), line).warnings;
    let dropped = |warnings: &[String]| warnings.iter().filter(|warning| warning.contains("not used")).count();
    let poisson = warnings(OPEN, "--arrival-pattern poisson");
    assert_eq!(dropped(&poisson), 1, "{poisson:?}");
    assert!(
        poisson[0].contains(
            "--arrival-pattern makes the phase 'profiling' one of type poisson, which has no smoothness (line 6)"
        ),
        "{poisson:?}"
    );
    let closed = warnings(OPEN, "--arrival-pattern concurrency_burst");
    assert!(
        closed[0].contains("rate (line 6), rate_ramp (line 6), smoothness (line 6)"),
        "{closed:?}"
    );
    assert_eq!(dropped(&warnings(ONE, "--request-rate 5")), 0);
    // The type stays where it has a rate already, and a ramp keeps its strategy.
    let phase = told(Some(OPEN), "--request-rate 9 --request-rate-ramp-duration 3")["phases"][0].clone();
    assert_eq!(
        (&phase["type"], &phase["rate"], &phase["rate_ramp"]),
        (
            &json!("gamma"),
            &json!(9.0),
            &json!({"duration": 3.0, "strategy": "exponential"})
        )
    );
}

#[test]
fn prompts_come_from_a_file_and_a_trace_with_timestamps_is_replayed() {
    let trace = file(&[
        r#"{"timestamp": 0, "input_length": 600, "output_length": 4, "hash_ids": [1, 2]}"#,
        r#"{"timestamp": 20, "input_length": 5, "output_length": 4}"#,
    ]);
    let path = trace.path().display().to_string();
    let line = format!("--model m --input-file {path} --custom-dataset-type mooncake_trace");
    let replayed = plan(None, &line);
    assert_eq!(replayed.input_config["phases"][0]["type"], "fixed_schedule");
    assert!(
        replayed
            .warnings
            .iter()
            .any(|warning| warning.contains("--no-fixed-schedule")),
        "{:?}",
        replayed.warnings
    );
    let sent = told(None, &format!("{line} --no-fixed-schedule"));
    assert_eq!(
        (&sent["phases"][0]["type"], &sent["phases"][0]["requests"]),
        (&json!("concurrency"), &json!(10))
    );
    assert_eq!(
        told(None, &format!("{line} --request-rate 5"))["phases"][0]["type"],
        "poisson"
    );
    assert!(
        refusal(None, &format!("{line} --request-count 5"))
            .starts_with("--request-count: the records of --input-file have timestamps")
    );
    let window = told(
        None,
        &format!(
            "{line} --fixed-schedule --fixed-schedule-start-offset 10 --fixed-schedule-end-offset 30 --isl-block-size 500"
        ),
    );
    assert_eq!(
        (
            &window["phases"][0]["start_offset"],
            &window["phases"][0]["end_offset"],
            &window["phases"][0]["auto_offset"]
        ),
        (&json!(10), &json!(30), &json!(false))
    );
    assert_eq!(window["datasets"][0]["block_size"], 500);
    let ignored = told(None, &format!("{line} --ignore-trace-delays --request-count 5"));
    assert_eq!(
        (
            &ignored["phases"][0]["type"],
            &ignored["datasets"][0]["ignore_trace_delays"]
        ),
        (&json!("concurrency"), &json!(true)),
        "there is nothing to replay"
    );
    assert_eq!(
        told(None, &format!("{line} --no-ignore-trace-delays"))["phases"][0]["type"],
        "fixed_schedule"
    );
    let contradiction = refusal(None, &format!("{line} --ignore-trace-delays --fixed-schedule"));
    assert!(
        contradiction.starts_with("--ignore-trace-delays: a schedule replays the times of the file"),
        "{contradiction}"
    );
    let capped = told(None, &format!("{line} --inter-turn-delay-cap-seconds 1m"));
    assert_eq!(capped["datasets"][0]["inter_turn_delay_cap_seconds"], 60.0);
    let changed = told(
        None,
        &format!(
            "{line} --synthesis-speedup-ratio 2 --synthesis-prefix-len-multiplier 1 --synthesis-prefix-root-multiplier 2 \
             --synthesis-prompt-len-multiplier 0.5 --synthesis-output-len-multiplier 3 --synthesis-max-isl 700 --synthesis-max-osl 9"
        ),
    );
    assert_eq!(
        changed["datasets"][0]["synthesis"],
        json!({"speedup_ratio": 2.0, "prefix_len_multiplier": 1.0, "prefix_root_multiplier": 2, "prompt_len_multiplier": 0.5,
               "output_len_multiplier": 3.0, "max_isl": 700, "max_osl": 9})
    );
    assert!(
        refusal(None, &format!("{line} --synthesis-max-isl 4"))
            .starts_with("--synthesis-max-isl: every record has a longer prompt")
    );
    assert!(
        refusal(Some(ONE), "--ignore-trace-delays")
            .starts_with("--ignore-trace-delays: has no meaning for synthetic prompts")
    );
    let auto = told(None, &format!("{line} --fixed-schedule --fixed-schedule-auto-offset"));
    assert_eq!(auto["phases"][0]["auto_offset"], true);

    let texts = file(&[r#"{"text": "hello"}"#, r#"{"text": "world"}"#]);
    let path = texts.path().display().to_string();
    let config = told(None, &format!("--model m --input-file {path}"));
    assert_eq!(
        (&config["datasets"][0]["type"], config["datasets"][0].get("entries")),
        (&json!("file"), None)
    );
    let from_file = ONE.replace("{entries: 4, isl: 16, osl: 8}", "{type: file, records: [{text: a}]}");
    let replaced = told(
        Some(&from_file),
        &format!("--input-file {path} --custom-dataset-type single_turn"),
    );
    assert_eq!(
        (&replaced["datasets"][0]["path"], replaced["datasets"][0].get("records")),
        (&json!(path), None)
    );
    for (line, words) in [
        (
            format!("--input-file {path}"),
            "--input-file: the dataset of the config file is not of type file",
        ),
        (
            "--custom-dataset-type single_turn".to_owned(),
            "--custom-dataset-type: the dataset of the config file is not of type file",
        ),
    ] {
        assert!(refusal(Some(ONE), &line).starts_with(words), "{line}");
    }
    assert!(refusal(None, "--model m --input-file /no/such/file").starts_with("--input-file: "));
    assert!(
        refusal(None, &format!("--model m --input-file {path} --isl 5"))
            .starts_with("--isl: has no meaning beside prompts from a file")
    );
}

#[test]
fn a_rate_series_comes_from_its_file() {
    let series = file(&[r#"[{"time_s": 0, "qps": 1}, {"time_s": 5, "qps": 9}]"#]);
    let phase = told(Some(ONE), &format!("--request-rate-series {}", series.path().display()))["phases"][0].clone();
    assert_eq!(
        (&phase["type"], phase["rate_series"].is_null()),
        (&json!("poisson"), false)
    );
    assert!(
        refusal(Some(ONE), "--request-rate-series /no/such/file")
            .starts_with("--request-rate-series: cannot read the points")
    );
}

#[test]
fn prompts_of_other_endpoint_types_have_flags_too() {
    let line = "--model m --endpoint-type nim_rankings --rankings-passages-mean 5 --rankings-passages-stddev 1 --rankings-passages-prompt-token-mean 32 \
                --rankings-passages-prompt-token-stddev 8 --rankings-query-prompt-token-mean 16 --rankings-query-prompt-token-stddev 4";
    let dataset = told(None, line)["datasets"][0].clone();
    assert_eq!(
        dataset["rankings"],
        json!({"passages": {"mean": 5.0, "stddev": 1.0}, "passage_tokens": {"mean": 32.0, "stddev": 8.0}, "query_tokens": {"mean": 16.0, "stddev": 4.0}})
    );
    for flag in ["--prompt-batch-size", "--batch-size-text", "--batch-size", "-b"] {
        let line = format!("--model m --endpoint-type embeddings {flag} 3");
        assert_eq!(told(None, &line)["datasets"][0]["prompts"]["batch_size"], 3);
        let refused = refusal(None, &format!("--model m {flag} 0"));
        assert!(
            refused.starts_with(&format!("{flag}: found `0`; allowed: a whole number from 1 to 10000")),
            "{refused}"
        );
    }
}
