//! The schema against the loader: over whole files, and key by key with values of every shape.

use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::{Value, json};

use super::super::diagnostic::Sink;
use super::super::parse;
use super::*;

mod every_key;

fn validator() -> Validator {
    jsonschema::draft202012::new(&json_schema()).expect("the schema is one")
}

/// A file as an editor sees it: before references and templates are resolved. References are written as texts for that.
fn as_written(text: &str) -> Option<Value> {
    let sink = Sink::default();
    let shielded = text.replace("${", "$\u{1F512}{");
    let root = parse::parse(&shielded, &|_| None, &sink)?;
    let json = root.to_json().to_string().replace("$\u{1F512}{", "${");
    Some(serde_json::from_str(&json).expect("it was JSON before"))
}

fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a text");
            (path, text)
        })
        .collect()
}

fn complaints(validator: &Validator, json: &Value) -> Vec<String> {
    let complaint = |error: jsonschema::ValidationError<'_>| format!("{}: {error}", error.instance_path());
    validator.iter_errors(json).map(complaint).collect()
}

#[test]
fn every_key_of_the_loader_has_its_line_and_every_line_its_key() {
    for (schema, keys) in keys::ALL {
        let described: Vec<&str> = keys.iter().map(|(key, ..)| *key).collect();
        for key in schema.keys {
            assert!(
                described.contains(key),
                "{} {key}: add a line to config/json_schema/keys.rs",
                schema.place
            );
        }
        for key in described {
            assert!(
                schema.keys.contains(&key),
                "{} {key}: the loader does not read this key",
                schema.place
            );
        }
        for (key, _, about) in keys {
            assert!(
                about.ends_with(['.', ')']) && about.len() < 120,
                "{} {key}: {about}",
                schema.place
            );
        }
    }
}

#[test]
fn whatever_the_loader_accepts_is_right_by_the_schema() {
    let validator = validator();
    let mut seen = 0;
    for (path, text) in files("examples").into_iter().chain(files("tests/cases/config/valid")) {
        // Some valid cases of the peer are refused by name here.
        let accepted = super::super::parse_suite("f.yaml", text.as_bytes(), &|_| None).is_ok();
        if !accepted && !path.to_string_lossy().contains("examples") {
            continue;
        }
        let json = as_written(&text).expect("it is YAML");
        let wrong = complaints(&validator, &json);
        assert!(wrong.is_empty(), "{}: {wrong:#?}", path.display());
        seen += 1;
    }
    assert!(seen > 60, "only {seen} files");
}

#[test]
fn files_that_are_wrong_in_structure_are_wrong_by_the_schema() {
    let validator = validator();
    // Of the invalid cases, those whose mistake lies in keys, shapes, words or simple limits.
    let structural = [
        "adaptive_unknown_key",
        "artifacts_export_level",
        "artifacts_summary_csv",
        "benchmark_unknown_key",
        "cancellation_delay_negative",
        "cancellation_rate_101",
        "cancellation_unknown",
        "concurrency_list",
        "concurrency_zero",
        "connection_reuse_unknown",
        "dataset_dist_unknown",
        "dataset_entries_zero",
        "dataset_sampling_unknown",
        "dataset_turns_zero",
        "dataset_type_unknown",
        "dataset_unknown_field",
        "duration_bad_unit",
        "duration_negative",
        "duration_zero",
        "endpoint_type_unknown",
        "endpoint_unknown_field",
        "envelope_unknown_key",
        "failed_threshold_high",
        "grace_negative",
        "kind_case",
        "logging_level_unknown",
        "missing_dataset",
        "missing_endpoint",
        "missing_model",
        "model_empty_string",
        "name_digit_start",
        "name_dot",
        "name_empty",
        "name_hyphen_start",
        "name_slash",
        "name_space",
        "name_unicode",
        "on_cap_unknown",
        "phase_unknown_field",
        "phases_named_mapping",
        "profiler_max_retry",
        "profiler_stop_no_slash",
        "ramp_strategy_unknown",
        "ramp_zero",
        "random_seed_fraction",
        "rate_series_qps_zero",
        "requests_zero",
        "reset_integer",
        "reset_path_no_slash",
        "reset_retry_negative",
        "reset_string",
        "root_is_list",
        "runtime_api_host",
        "schema_version_1",
        "server_metrics_format",
        "server_metrics_list",
        "sessions_zero",
        "smoothness_zero",
        "sweep_empty_parameters",
        "sweep_scalar_value",
        "sweep_scenario_unknown_key",
        "sweep_type_unknown",
        "timeout_negative",
        "type_agentic_replay",
        "type_unknown",
        "url_strategy_unknown",
    ];
    let mut seen = 0;
    let mut passed = Vec::new();
    for (path, text) in files("tests/cases/config/invalid") {
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(json) = as_written(&text).filter(|_| structural.contains(&name)) else {
            continue;
        };
        seen += 1;
        if validator.is_valid(&json) {
            passed.push(name.to_owned());
        }
    }
    assert_eq!(seen, structural.len(), "a case is gone, or is no YAML");
    assert!(passed.is_empty(), "right by the schema: {passed:?}");
}

/// Configs that between them have every key in a place where the loader reads it.
fn bases() -> Vec<Value> {
    let phases = json!([
        {"name": "warmup", "type": "concurrency", "concurrency": 4, "prefill_concurrency": 2, "requests": 9, "exclude_from_results": true, "concurrency_ramp": {"duration": 1, "strategy": "linear"},
         "prefill_ramp": {"duration": 1}, "cancellation": {"rate": 5, "delay": 1}, "failed_request_threshold": 0.5},
        {"name": "r", "kind": "profiling", "type": "gamma", "rate": 2, "smoothness": 1, "rate_ramp": {"duration": 1}, "concurrency": 4, "on_cap": "drop", "duration": 5,
         "grace_period": 1, "seamless": true, "sessions": 9},
        {"name": "s", "kind": "profiling", "type": "poisson", "rate_series": {"points": [{"time_s": 0, "qps": 1}, {"time_s": 9, "qps": 2}]}, "requests": 9},
        {"name": "u", "kind": "profiling", "type": "user_centric", "rate": 2, "users": 2, "requests": 9},
        {"name": "f", "kind": "profiling", "type": "fixed_schedule", "auto_offset": false, "start_offset": 0, "end_offset": 9},
        {"name": "a", "kind": "profiling", "type": "concurrency", "duration": 9, "adaptive_scale": true, "adaptive_control_variable": "concurrency",
         "adaptive_control_min": 1, "adaptive_control_max": 8, "adaptive_assessment_period": 1, "adaptive_min_completed_requests": 1,
         "adaptive_sustain_duration": 1, "adaptive_scale_strategy_type": "ramp_until_fail", "adaptive_scale_step_policy": "sla_margin",
         "adaptive_scale_base_step": 1, "adaptive_scale_max_step_multiplier": 2, "adaptive_scale_step_percent": 5,
         "sla": [{"metric_tag": "request_latency", "stat": "p95", "op": "lt", "threshold": 5}]},
        {"name": "b", "kind": "profiling", "type": "concurrency", "duration": 9, "adaptive_scale": {"enabled": true, "control": {"variable": "concurrency", "min": 1, "max": 8},
         "strategy": {"type": "ramp_until_fail", "step_policy": "sla_margin", "base_step": 1, "max_step_multiplier": 2, "step_percent": 5},
         "window": 1, "min_completed_requests": 1, "sustain_duration": 1, "sla": {"request_latency": {"p95": {"lt": 5}}}}},
        {"name": "c", "kind": "profiling", "type": "concurrency", "duration": 9, "adaptive_scale": {"control_variable": "concurrency", "control_min": 1, "control_max": 8,
         "assessment_period": 1, "sustain_duration": 1, "sla": {"request_latency": {"p95": {"lt": 5}}}}},
        {"name": "d", "kind": "profiling", "type": "concurrency", "duration": 9, "adaptive_scale": {"min_concurrency": 1, "max_concurrency": 8,
         "sustain_duration": 1, "sla": {"request_latency": {"p95": {"lt": 5}}}}},
    ]);
    let body = json!({
        "models": {"strategy": "weighted", "items": [{"name": "m", "weight": 1}]},
        "endpoint": {
            "url": "http://h", "type": "chat", "path": "/x", "api_key": "k", "timeout": 5, "streaming": true, "transport": "http",
            "connection_reuse": "pooled", "headers": {"X-A": "1"}, "extra": {"a": 1}, "session_header": "X-S", "use_legacy_max_tokens": true,
            "use_server_token_count": true, "url_strategy": "round_robin", "wait_for_model_timeout": 5, "wait_for_model_interval": 1,
            "wait_for_model_mode": "both", "reset_kv_cache": {"path": "/r", "timeout_seconds": 1, "max_retry_seconds": 1},
            "server_profiler": {"start_path": "/a", "stop_path": "/b", "timeout_seconds": 1},
        },
        "dataset": {
            "name": "d", "type": "synthetic", "entries": 2, "prompts": {"isl": {"type": "normal", "mean": 4, "stddev": 1}, "osl": 2, "batch_size": 1},
            "turns": {"value": 2}, "turn_delay": 5, "turn_delay_ratio": 1, "random_seed": 1, "sampling": "sequential",
            "prefix_prompts": {"shared_system_length": 4, "user_context_length": 2},
        },
        "phases": phases,
        "artifacts": {"dir": "d", "prefix": "p", "summary": ["json"], "records": ["jsonl"], "raw": false, "export_outputs_json": true, "trace": false, "slice_duration": "5s",
            "show_trace_timing": false},
        "slos": {"request_latency": 1500}, "runtime": {"ui": "none"}, "tokenizer": {"name": "builtin"}, "logging": {"level": "info"},
        "server_metrics": {"enabled": true, "urls": ["http://h"], "formats": ["json"], "discovery": {"mode": "auto"}},
        "gpu_telemetry": {"enabled": true, "url": "http://h", "collector": "dcgm", "mode": "summary"}, "network_latency": {"enabled": false},
    });
    let simple = json!({"model": "m", "endpoint": {"url": "http://h"}, "dataset": {"isl": 4, "osl": 4}, "profiling": {"type": "concurrency", "concurrency": 2, "requests": 9}});
    let mut warmed = simple.clone();
    warmed["warmup"] = simple["profiling"].clone();
    let mut filed = simple.clone();
    filed["dataset"] = json!({"type": "file", "path": "p", "format": "mooncake_trace", "block_size": 16, "osl": 4, "system_prompt_file": "s", "synthesis": {
        "speedup_ratio": 2, "prefix_len_multiplier": 2, "prefix_root_multiplier": 2, "prompt_len_multiplier": 2, "output_len_multiplier": 2, "max_isl": 9,
        "max_osl": 9,
    }});
    let mut recorded = simple.clone();
    recorded["dataset"] = json!({
        "type": "file", "records": [{"text": "a"}], "ignore_trace_delays": false, "inter_turn_delay_cap_seconds": 5, "system_prompt": "s",
    });
    recorded["endpoint"] = json!({"urls": ["http://h"]});
    let mut listed = simple.clone();
    listed.as_object_mut().expect("a mapping").remove("dataset");
    listed["datasets"] = json!([{"name": "d", "isl": 4, "prefix_prompts": {"pool_size": 3, "length": 4}}]);
    let sweep = json!({"type": "grid", "parameters": {"profiling.duration": [1, 2]}, "cooldown_seconds": 1, "iteration_order": "repeated",
                       "same_seed": true, "failure_policy": {"on_child_failure": "continue", "max_failures": 2}});
    let scenarios = json!({"type": "scenarios", "runs": [{"name": "a", "benchmark": {"profiling": {"grace_period": 7}}, "values": {"profiling.duration": 3},
                           "variables": {"x": 1}}]});
    let runs = json!({"num_runs": 2, "cooldown_seconds": 1, "confidence_level": 0.9, "set_consistent_seed": true, "vary_seed_per_trial": true,
                      "disable_warmup_after_first": true, "failure_policy": {"max_failures": 1}, "convergence": {"metric": "request_latency",
                      "stat": "p99", "mode": "cv", "threshold": 0.2, "min_runs": 2}});
    let mut shaped = simple.clone();
    shaped["dataset"] = json!({
        "prompts": {
            "isl": {"type": "multimodal", "min": 1, "max": 50, "peaks": [
                {"type": "normal", "mean": 4, "stddev": 1, "min": 0, "max": 9, "weight": 2}, {"mean": 9, "median": 8}, {"value": 5},
                {"peaks": [{"value": 5}, {"mean": 5}]}, {"points": [{"value": 3}]},
            ]},
            "osl": {"points": [{"value": 3, "weight": 2}, {"value": 4}]},
        },
        "turns": {"mean": 3, "median": 2}, "turn_delay": {"value": 0.5, "max": 9},
    });
    let mut paired = simple.clone();
    paired["dataset"] = json!({"prompts": {"sequence_distribution": [
        {"isl": 4, "isl_stddev": 1, "osl": 4, "osl_stddev": 1, "probability": 60}, {"isl": 4, "osl": 4, "probability": 40},
    ]}});
    let mut ranged = simple.clone();
    ranged["dataset"] =
        json!({"prompts": {"isl": 4, "osl": 4, "random_range_ratio": 0.5, "random_corpus_style": "sglang"}});
    let mut ranked = simple.clone();
    ranked["endpoint"] = json!({"url": "http://h", "type": "cohere_rankings"});
    ranked["dataset"] = json!({"entries": 2, "rankings": {"passages": 4, "passage_tokens": {"mean": 8, "stddev": 1}, "query_tokens": 8}});
    let mut custom = simple.clone();
    custom["endpoint"] =
        json!({"url": "http://h", "template": {"body": "{\"p\": {{ text|tojson }}}", "response_field": "a[0].b"}});
    vec![
        json!({"benchmark": ranked}),
        json!({"benchmark": custom}),
        json!({"benchmark": shaped}),
        json!({"benchmark": paired}),
        json!({"benchmark": ranged}),
        json!({"schema_version": "2.0", "random_seed": 1, "no_sweep_table": true, "benchmark": body}),
        json!({"benchmark": warmed, "sweep": sweep}),
        json!({"benchmark": simple, "sweep": scenarios, "variables": {"x": 0}}),
        json!({"benchmark": filed, "multi_run": runs}),
        json!({"benchmark": recorded}),
        json!({"benchmark": listed}),
    ]
}

/// Every place of the bases where a key stands, as a JSON pointer and the path of messages.
fn places(value: &Value, pointer: &str, path: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let separator = if path.is_empty() { "" } else { "." };
                let pointer = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                let path = format!("{path}{separator}{key}");
                found.push((pointer.clone(), path.clone()));
                places(value, &pointer, &path, found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                places(item, &format!("{pointer}/{index}"), &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

/// The path of a key whatever list it stands in.
fn without_indices(path: &str) -> String {
    let part = |part: &str| part.split_once(']').map_or(part, |(_, rest)| rest).to_owned();
    path.split('[').map(part).collect()
}

/// What the loader says of a key and of what is below it.
fn said(json: &Value, path: &str) -> Vec<String> {
    let text = json.to_string();
    match super::super::parse_suite("f.yaml", text.as_bytes(), &|_| None) {
        Ok(_) => Vec::new(),
        Err(mistakes) => mistakes
            .iter()
            .filter(|mistake| mistake.path.starts_with(path))
            .map(|mistake| mistake.message.clone())
            .collect(),
    }
}

#[test]
fn the_bases_have_every_key_and_are_sound() {
    let mut paths = Vec::new();
    for base in bases() {
        let wrong = complaints(&validator(), &base);
        assert!(wrong.is_empty(), "{wrong:#?}");
        let text = base.to_string();
        if let Err(mistakes) = super::super::parse_suite("f.yaml", text.as_bytes(), &|_| None) {
            panic!("{mistakes}");
        }
        places(&base, "", "", &mut paths);
    }
    // Read only to be ignored: nothing of them is looked at while they are off.
    let unread = ["benchmark.network_latency"];
    for (schema, keys) in keys::ALL {
        for (key, ..) in keys {
            if unread.contains(&schema.place) && *key != "enabled" {
                continue;
            }
            let is_there = paths.iter().any(|(_, path)| path.rsplit('.').next() == Some(key));
            assert!(
                is_there,
                "{} {key} stands in no base: the tests below miss it",
                schema.place
            );
        }
    }
}

/// Values of every shape.
fn candidates() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(false),
        json!("on"),
        json!("No"),
        json!("true"),
        json!(0),
        json!(1),
        json!(2.0),
        json!(0.5),
        json!(-1),
        json!(101),
        json!(1e300),
        json!("5"),
        json!("1e3"),
        json!("0.5"),
        json!("inf"),
        json!(".inf"),
        json!("30s"),
        json!("1h30m"),
        json!("2 Min"),
        json!("500ms"),
        json!("1d"),
        json!(""),
        json!(" "),
        json!("text"),
        json!("/path"),
        json!("a b"),
        json!("${X:5}"),
        json!("{{ 5 }}"),
        json!([]),
        json!([1]),
        json!(["text"]),
        json!({}),
        json!({"unknown_key": 1}),
        json!([{"unknown_key": 1}]),
        json!([[1]]),
    ]
}

#[test]
fn a_value_that_the_loader_takes_is_right_by_the_schema_wherever_it_stands() {
    let validator = validator();
    let mut tried = 0;
    let mut seen = std::collections::BTreeSet::new();
    for base in bases() {
        let mut found = Vec::new();
        places(&base, "", "", &mut found);
        for (pointer, path) in found {
            // Once for each key: the loader reads a key in one way, in whichever phase it stands.
            if !seen.insert(without_indices(&path)) {
                continue;
            }
            for candidate in candidates() {
                let mut changed = base.clone();
                *changed.pointer_mut(&pointer).expect("it was found there") = candidate.clone();
                tried += 1;
                let text = changed.to_string();
                if super::super::parse_suite("f.yaml", text.as_bytes(), &|_| None).is_ok() {
                    let wrong = complaints(&validator, &changed);
                    assert!(
                        wrong.is_empty(),
                        "{path}: {candidate} is accepted by the loader, but: {wrong:#?}"
                    );
                }
            }
        }
    }
    assert!(tried > 5_000, "only {tried} values");
}

#[test]
fn a_value_of_a_shape_that_the_loader_refuses_is_wrong_by_the_schema() {
    let validator = validator();
    // Free keys and values: the loader has its own rules there, which are not shapes.
    let is_free = |path: &str| {
        [
            ".extra",
            ".headers",
            ".variables",
            ".values",
            ".parameters",
            ".records",
            ".sla",
            ".slos",
        ]
        .iter()
        .any(|free| path.contains(free))
    };
    let mut tried = 0;
    for base in bases() {
        let mut found = Vec::new();
        places(&base, "", "", &mut found);
        for (pointer, path) in found
            .into_iter()
            .filter(|(_, path)| !is_free(path) && !path.starts_with("variables"))
        {
            for candidate in [json!([[1]]), json!({"unknown_key": 1}), json!([{"unknown_key": 1}])] {
                let mut changed = base.clone();
                *changed.pointer_mut(&pointer).expect("it was found there") = candidate.clone();
                if !said(&changed, &path).is_empty() {
                    tried += 1;
                    assert!(
                        !validator.is_valid(&changed),
                        "{path}: {candidate} is refused by the loader alone"
                    );
                }
            }
        }
    }
    assert!(tried > 400, "only {tried} values");
}

#[test]
fn the_words_are_those_of_the_loader() {
    fn words_of(shape: &shape::Shape) -> Option<&'static [&'static str]> {
        match shape {
            shape::Shape::Words(words) | shape::Shape::Exactly(words) => Some(words),
            _ => None,
        }
    }
    let mut compared = 0;
    for base in bases() {
        let mut found = Vec::new();
        places(&base, "", "", &mut found);
        for (pointer, path) in found {
            let bare = without_indices(&path);
            let (section, key) = bare.rsplit_once('.').unwrap_or(("", &bare));
            let place = |schema: &Schema| schema.place.replace("[]", "") == section;
            let Some((_, keys)) = keys::ALL.iter().find(|(schema, _)| place(schema)) else {
                continue;
            };
            let Some(words) = keys
                .iter()
                .find(|(known, ..)| *known == key)
                .and_then(|(_, shape, _)| words_of(shape))
            else {
                continue;
            };
            // The one word of a tokenizer is refused in a sentence of its own.
            if key == "name" && section.ends_with("tokenizer") {
                continue;
            }
            let mut changed = base.clone();
            *changed.pointer_mut(&pointer).expect("it was found there") = json!("zqzqzq");
            let message = said(&changed, &path).join("\n");
            let allowed = message
                .split("allowed: ")
                .nth(1)
                .unwrap_or_else(|| panic!("{path}: {message}"));
            let mut listed: Vec<&str> = allowed.lines().next().unwrap_or_default().split(", ").collect();
            let mut written = words.to_vec();
            listed.sort_unstable();
            written.sort_unstable();
            assert_eq!(written, listed, "{path}: {message}");
            compared += 1;
        }
    }
    assert!(compared > 20, "only {compared} keys");
}

#[test]
fn both_spellings_are_known_and_one_is_offered() {
    let phase = &json_schema()["$defs"]["benchmark_phases"];
    assert!(phase["properties"]["grace_period"].is_object());
    assert!(phase["properties"]["gracePeriod"].is_null());
    assert_eq!(
        phase["patternProperties"]["^gracePeriod$"],
        phase["properties"]["grace_period"]
    );
    let text = json_schema().to_string();
    assert!(text.len() < 200_000, "{} bytes are much for an editor", text.len());
}
