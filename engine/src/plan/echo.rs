//! `input_config` of the artifacts: the config with every short form spelt out, unset fields left out, and secrets masked. Put
//! under `benchmark:` it loads again and gives the same plan.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::target::TargetParts;
use crate::config::{
    AdaptiveScale, AdaptiveStep, AdaptiveVariable, Address, Config, Dataset, Distribution, Endpoint, FileOrigin,
    Length, Model, Models, Phase, PhaseKind, PhaseType, PrefixPrompts, REDACTED, Ramp, Rankings, Rate, RatePoint,
    ResetKvCache, ScheduleWindow, SequencePair, ServerProfiler, Sla, Synthesis, SystemPrompt, is_credential_header,
    masked, masked_template, redact_url,
};

/// The config as it runs: `directory` and `replacement` are what takes the place of the written directory and servers, if anything does.
pub(super) fn input_config(config: &Config, directory: Option<&Path>, replacement: Option<&TargetParts>) -> Value {
    let mut echo = Map::new();
    echo.insert("models".to_owned(), models(&config.models));
    echo.insert("endpoint".to_owned(), endpoint(&config.endpoint, replacement));
    echo.insert("datasets".to_owned(), json!([dataset(&config.dataset)]));
    echo.insert("phases".to_owned(), config.phases.iter().map(phase).collect());
    let artifacts = artifacts(config, directory);
    if artifacts.as_object().is_some_and(|artifacts| !artifacts.is_empty()) {
        echo.insert("artifacts".to_owned(), artifacts);
    }
    if !config.slos.is_empty() {
        let thresholds = config
            .slos
            .iter()
            .map(|slo| (slo.metric.to_owned(), json!(slo.threshold)));
        echo.insert("slos".to_owned(), Value::Object(thresholds.collect()));
    }
    if let Some(name) = &config.tokenizer {
        echo.insert("tokenizer".to_owned(), json!({ "name": name }));
    }
    let metrics = &config.telemetry.server_metrics;
    let formats = metrics.formats.as_ref();
    let metrics = set_fields([
        ("enabled", metrics.enabled.map(Value::from)),
        ("urls", urls(&metrics.urls)),
        (
            "formats",
            formats.map(|formats| formats.iter().map(|format| json!(format.as_str())).collect()),
        ),
    ]);
    let gpu = &config.telemetry.gpu;
    let gpu = set_fields([("enabled", gpu.enabled.map(Value::from)), ("urls", urls(&gpu.urls))]);
    for (key, section) in [("server_metrics", metrics), ("gpu_telemetry", gpu)] {
        if section.as_object().is_some_and(|section| !section.is_empty()) {
            echo.insert(key.to_owned(), section);
        }
    }
    // The peer says of this one setting that it is off.
    echo.insert("network_latency".to_owned(), json!({ "enabled": false }));
    if let Some(ui) = config.ui {
        echo.insert("runtime".to_owned(), json!({ "ui": ui.as_str() }));
    }
    let mut echo = Value::Object(echo);
    config.secrets.redact_json(&mut echo);
    echo
}

fn models(models: &Models) -> Value {
    let item = |model: &Model| {
        set_fields([
            ("name", Some(json!(model.name))),
            ("weight", model.weight.map(Value::from)),
        ])
    };
    set_fields([
        ("strategy", models.strategy.map(|strategy| json!(strategy.as_str()))),
        ("items", Some(models.items.iter().map(item).collect())),
    ])
}

/// A mapping without the fields that are not set.
fn set_fields<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let set = fields
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(set.collect())
}

/// Addresses of metrics, unless there are none.
fn urls(addresses: &[Address]) -> Option<Value> {
    let shown = addresses.iter().map(|address| json!(redact_url(&address.text)));
    (!addresses.is_empty()).then(|| shown.collect())
}

/// Seconds as a float; infinity has no JSON number, but the word loads again.
fn seconds(seconds: f64) -> Value {
    if seconds.is_finite() {
        json!(seconds)
    } else {
        json!("inf")
    }
}

fn endpoint(endpoint: &Endpoint, replacement: Option<&TargetParts>) -> Value {
    let url = |Address { url, text, .. }: &Address| match replacement {
        Some(server) if *server != TargetParts::of(url) => {
            let query = url.query.as_ref().map_or_else(String::new, |query| format!("?{query}"));
            redact_url(&format!("{}{}{query}", server.origin(), url.path))
        }
        _ => redact_url(text),
    };
    let urls: Vec<String> = endpoint.urls.iter().map(url).collect();
    let shown = |(name, value): &(String, String)| {
        let value = if is_credential_header(name) { REDACTED } else { value };
        (name.clone(), json!(value))
    };
    let headers: Map<String, Value> = endpoint.headers.iter().map(shown).collect();
    set_fields([
        ("urls", Some(json!(urls))),
        ("url_strategy", endpoint.url_strategy.then(|| json!("round_robin"))),
        ("type", Some(json!(endpoint.kind.unwrap_or_default().as_str()))),
        ("path", endpoint.path.as_ref().map(|path| json!(redact_url(path)))),
        ("api_key", endpoint.api_key.as_ref().map(|_| json!(REDACTED))),
        ("timeout", endpoint.timeout_s.map(seconds)),
        ("streaming", endpoint.streaming.map(Value::from)),
        ("transport", endpoint.transport_http.then(|| json!("http"))),
        (
            "connection_reuse",
            endpoint.connection_reuse.map(|reuse| json!(reuse.as_str())),
        ),
        ("headers", (!headers.is_empty()).then_some(Value::Object(headers))),
        (
            "extra",
            (!endpoint.extra.is_empty()).then(|| masked(Value::Object(endpoint.extra.clone()))),
        ),
        (
            "template",
            endpoint.template.as_ref().map(|template| {
                let response_field = template.response_field.as_ref().map(|field| json!(field));
                set_fields([
                    ("body", Some(json!(masked_template(&template.body)))),
                    ("response_field", response_field),
                ])
            }),
        ),
        (
            "session_header",
            endpoint.session_header.as_ref().map(|name| json!(name)),
        ),
        ("use_legacy_max_tokens", endpoint.use_legacy_max_tokens.map(Value::from)),
        (
            "use_server_token_count",
            endpoint.use_server_token_count.map(Value::from),
        ),
        ("wait_for_model_timeout", endpoint.wait_for_model.timeout_s.map(seconds)),
        (
            "wait_for_model_interval",
            endpoint.wait_for_model.interval_s.map(seconds),
        ),
        (
            "wait_for_model_mode",
            endpoint.wait_for_model.mode.map(|mode| json!(mode.as_str())),
        ),
        ("reset_kv_cache", endpoint.reset_kv_cache.as_ref().map(reset_kv_cache)),
        (
            "server_profiler",
            endpoint.server_profiler.as_ref().map(server_profiler),
        ),
    ])
}

fn reset_kv_cache(hook: &ResetKvCache) -> Value {
    set_fields([
        ("path", hook.path.as_ref().map(|path| json!(redact_url(path)))),
        ("timeout_seconds", hook.timeout_s.map(seconds)),
        ("max_retry_seconds", hook.max_retry_s.map(seconds)),
    ])
}

fn server_profiler(hook: &ServerProfiler) -> Value {
    set_fields([
        (
            "start_path",
            hook.start_path.as_ref().map(|path| json!(redact_url(path))),
        ),
        ("stop_path", hook.stop_path.as_ref().map(|path| json!(redact_url(path)))),
        ("timeout_seconds", hook.timeout_s.map(seconds)),
    ])
}

fn dataset(dataset: &Dataset) -> Value {
    let length = |length: &Option<Length>| length.as_ref().map(distribution);
    let file = dataset.file.as_ref();
    let (path, records) = match file.map(|file| &file.origin) {
        Some(FileOrigin::Path { path, .. }) => (Some(path.as_str()), None),
        Some(FileOrigin::Records(records)) => {
            let records = records
                .iter()
                .map(|(_, json)| serde_json::from_str::<Value>(json).expect("the config holds records as JSON"));
            (None, Some(records.collect()))
        }
        None => (None, None),
    };
    let (system_prompt, system_prompt_file) = match &dataset.system_prompt {
        Some(SystemPrompt::Text(text)) => (Some(json!(text)), None),
        Some(SystemPrompt::File { path, .. }) => (None, Some(json!(path))),
        None => (None, None),
    };
    let prompts = match file {
        Some(_) => Value::Null,
        None => set_fields([
            ("isl", length(&dataset.isl)),
            ("osl", length(&dataset.osl)),
            (
                "sequence_distribution",
                dataset
                    .sequence_distribution
                    .as_ref()
                    .map(|pairs| pairs.iter().map(sequence_pair).collect()),
            ),
            ("random_range_ratio", dataset.range.map(|range| json!(range.ratio))),
            (
                "random_corpus_style",
                dataset
                    .range
                    .and_then(|range| range.style)
                    .map(|style| json!(style.as_str())),
            ),
            ("batch_size", dataset.batch_size.map(Value::from)),
        ]),
    };
    set_fields([
        ("name", Some(json!(dataset.name.as_deref().unwrap_or("default")))),
        ("type", Some(json!(if file.is_some() { "file" } else { "synthetic" }))),
        ("path", path.map(Value::from)),
        ("records", records),
        (
            "format",
            file.and_then(|file| file.format).map(|format| json!(format.as_str())),
        ),
        ("block_size", file.and_then(|file| file.block_size).map(Value::from)),
        (
            "ignore_trace_delays",
            file.and_then(|file| file.ignore_trace_delays).map(Value::from),
        ),
        (
            "inter_turn_delay_cap_seconds",
            file.and_then(|file| file.delay_cap_s).map(Value::from),
        ),
        (
            "synthesis",
            file.and_then(|file| file.synthesis.as_ref()).map(synthesis),
        ),
        ("sampling", dataset.sampling.map(|sampling| json!(sampling.as_str()))),
        ("random_seed", dataset.random_seed.map(Value::from)),
        ("entries", dataset.entries.map(Value::from)),
        ("osl", file.and_then(|_| length(&dataset.osl))),
        (
            "prompts",
            prompts
                .as_object()
                .is_some_and(|prompts| !prompts.is_empty())
                .then_some(prompts),
        ),
        (
            "rankings",
            (dataset.rankings != Rankings::default()).then(|| {
                set_fields([
                    ("passages", length(&dataset.rankings.passages)),
                    ("passage_tokens", length(&dataset.rankings.passage_tokens)),
                    ("query_tokens", length(&dataset.rankings.query_tokens)),
                ])
            }),
        ),
        ("prefix_prompts", dataset.prefix_prompts.map(prefix_prompts)),
        ("system_prompt", system_prompt),
        ("system_prompt_file", system_prompt_file),
        ("turns", length(&dataset.turns)),
        ("turn_delay", dataset.turn_delay.as_ref().map(distribution)),
        ("turn_delay_ratio", dataset.turn_delay_ratio.map(Value::from)),
    ])
}

fn synthesis(synthesis: &Synthesis) -> Value {
    set_fields([
        ("speedup_ratio", synthesis.speedup_ratio.map(Value::from)),
        (
            "prefix_len_multiplier",
            synthesis.prefix_len_multiplier.map(Value::from),
        ),
        (
            "prefix_root_multiplier",
            synthesis.prefix_root_multiplier.map(Value::from),
        ),
        (
            "prompt_len_multiplier",
            synthesis.prompt_len_multiplier.map(Value::from),
        ),
        (
            "output_len_multiplier",
            synthesis.output_len_multiplier.map(Value::from),
        ),
        ("max_isl", synthesis.max_isl.map(Value::from)),
        ("max_osl", synthesis.max_osl.map(Value::from)),
    ])
}

fn prefix_prompts(prefix: PrefixPrompts) -> Value {
    match prefix {
        PrefixPrompts::Pool { size, length, .. } => json!({ "pool_size": size, "length": length }),
        PrefixPrompts::Messages {
            shared_system_length,
            user_context_length,
        } => set_fields([
            ("shared_system_length", shared_system_length.map(Value::from)),
            ("user_context_length", user_context_length.map(Value::from)),
        ]),
    }
}

fn distribution<T: Copy + Into<f64>>(written: &Distribution<T>) -> Value {
    let value = |value: &T| json!({ "value": (*value).into() });
    match written {
        Distribution::Fixed(fixed) => value(fixed),
        Distribution::Normal { mean, stddev } => {
            set_fields([("mean", Some(json!(mean))), ("stddev", stddev.map(Value::from))])
        }
        Distribution::LogNormal { mean, median } => json!({ "mean": mean, "median": median }),
        Distribution::Peaks(peaks) => {
            let peaks = peaks.iter().map(|peak| weighted(distribution(&peak.of), peak.weight));
            json!({ "peaks": peaks.collect::<Vec<_>>() })
        }
        Distribution::Points(points) => {
            let points = points.iter().map(|point| weighted(value(&point.of), point.weight));
            json!({ "points": points.collect::<Vec<_>>() })
        }
        Distribution::Clamped(clamped) => {
            let mut echo = distribution(&clamped.of);
            for (key, bound) in [("min", clamped.min), ("max", clamped.max)] {
                if let Some(bound) = bound {
                    echo[key] = json!(bound);
                }
            }
            echo
        }
    }
}

/// A part of a distribution, whose weight stands among its keys.
fn weighted(mut of: Value, weight: Option<f64>) -> Value {
    if let Some(weight) = weight {
        of["weight"] = json!(weight);
    }
    of
}

fn sequence_pair(pair: &SequencePair) -> Value {
    set_fields([
        ("isl", Some(json!(pair.isl))),
        ("isl_stddev", pair.isl_stddev.map(Value::from)),
        ("osl", Some(json!(pair.osl))),
        ("osl_stddev", pair.osl_stddev.map(Value::from)),
        ("probability", Some(json!(pair.probability))),
    ])
}

fn phase(phase: &Phase) -> Value {
    let (constant, points) = match phase.load.rate() {
        None => (None, None),
        Some(Rate::Constant(rate)) => (Some(*rate), None),
        Some(Rate::Series(points)) => (None, Some(points)),
    };
    let smoothness = match &phase.load {
        PhaseType::Gamma { smoothness, .. } => *smoothness,
        _ => None,
    };
    let window = match phase.load {
        PhaseType::FixedSchedule(window) => window,
        _ => ScheduleWindow::default(),
    };
    let mut echo = set_fields([
        ("name", Some(json!(phase.name))),
        ("kind", Some(json!(phase.kind.as_str()))),
        ("type", Some(json!(phase.load.as_str()))),
        (
            "exclude_from_results",
            (phase.kind == PhaseKind::Warmup).then(|| json!(true)),
        ),
        ("duration", phase.duration_s.map(seconds)),
        ("requests", phase.requests.map(Value::from)),
        ("sessions", phase.sessions.map(Value::from)),
        ("concurrency", phase.concurrency.map(Value::from)),
        ("prefill_concurrency", phase.limits.prefill_concurrency.map(Value::from)),
        ("concurrency_ramp", phase.limits.concurrency_ramp.map(ramp)),
        ("prefill_ramp", phase.limits.prefill_ramp.map(ramp)),
        (
            "failed_request_threshold",
            phase.limits.failed_request_threshold.map(Value::from),
        ),
        ("on_cap", phase.on_cap.map(|on_cap| json!(on_cap.as_str()))),
        ("users", phase.load.users().map(Value::from)),
        ("rate", constant.map(Value::from)),
        ("rate_series", points.map(|points| rate_series(points))),
        ("rate_ramp", phase.rate_ramp.map(ramp)),
        ("smoothness", smoothness.map(Value::from)),
        ("auto_offset", window.auto_offset.map(Value::from)),
        ("start_offset", window.start_ms.map(Value::from)),
        ("end_offset", window.end_ms.map(Value::from)),
        ("grace_period", phase.grace_period_s.map(seconds)),
        (
            "cancellation",
            phase
                .cancellation
                .map(|cancellation| json!({ "rate": cancellation.rate, "delay": cancellation.delay_s })),
        ),
        ("seamless", phase.seamless.then(|| json!(true))),
    ]);
    if let (Some(adaptive), Value::Object(keys)) = (&phase.limits.adaptive, &mut echo) {
        keys.append(&mut adaptive_scale(adaptive));
    }
    echo
}

/// The flat keys, whichever form was written.
fn adaptive_scale(adaptive: &AdaptiveScale) -> Map<String, Value> {
    let variable = match adaptive.variable {
        AdaptiveVariable::Concurrency => "concurrency",
        AdaptiveVariable::PrefillConcurrency => "prefill_concurrency",
        AdaptiveVariable::RequestRate => "request_rate",
        AdaptiveVariable::Users => "users",
    };
    let policy = adaptive.step_policy.map(|policy| match policy {
        AdaptiveStep::SlaMargin => "sla_margin",
        AdaptiveStep::FixedPercent => "fixed_percent_step",
    });
    let filter =
        |sla: &Sla| json!({ "metric_tag": sla.metric, "stat": sla.stat, "op": sla.op, "threshold": sla.threshold });
    let keys = [
        ("adaptive_scale", Some(json!(true))),
        ("adaptive_control_variable", Some(json!(variable))),
        ("adaptive_control_min", adaptive.min.map(Value::from)),
        ("adaptive_control_max", Some(json!(adaptive.max))),
        (
            "adaptive_assessment_period",
            adaptive.assessment_period_s.map(Value::from),
        ),
        (
            "adaptive_min_completed_requests",
            adaptive.min_completed_requests.map(Value::from),
        ),
        ("adaptive_sustain_duration", Some(json!(adaptive.sustain_duration_s))),
        (
            "adaptive_scale_strategy_type",
            adaptive.names_strategy.then(|| json!("ramp_until_fail")),
        ),
        ("adaptive_scale_step_policy", policy.map(Value::from)),
        ("adaptive_scale_base_step", adaptive.base_step.map(number)),
        (
            "adaptive_scale_max_step_multiplier",
            adaptive.max_step_multiplier.map(Value::from),
        ),
        ("adaptive_scale_step_percent", adaptive.step_percent.map(Value::from)),
        ("sla", Some(adaptive.sla.iter().map(filter).collect())),
    ];
    keys.into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

/// A number that is whole as such.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        json!(value as i64)
    } else {
        json!(value)
    }
}

fn ramp(ramp: Ramp) -> Value {
    json!({ "duration": ramp.duration_s, "strategy": ramp.strategy.as_str() })
}

/// The points themselves, also of a series that was read from a file: the file may be gone when the echo is read.
fn rate_series(points: &[RatePoint]) -> Value {
    let point = |point: &RatePoint| json!({ "time_s": point.time_s, "qps": point.qps });
    json!({ "points": points.iter().map(point).collect::<Vec<_>>() })
}

fn artifacts(config: &Config, directory: Option<&Path>) -> Value {
    let written = &config.artifacts;
    let dir = directory
        .map(|path| path.display().to_string())
        .or_else(|| written.dir.clone());
    let formats = |enabled: bool, format: &str| if enabled { json!([format]) } else { json!(false) };
    set_fields([
        ("dir", dir.map(Value::from)),
        ("prefix", written.prefix.as_ref().map(|prefix| json!(prefix))),
        ("summary", written.summary.map(|enabled| formats(enabled, "json"))),
        ("records", written.records.map(|enabled| formats(enabled, "jsonl"))),
        ("slice_duration", written.slice_duration_s.map(Value::from)),
        ("raw", written.raw.map(Value::from)),
        ("export_outputs_json", written.export_outputs_json.map(Value::from)),
        ("trace", written.trace.map(Value::from)),
        ("show_trace_timing", written.show_trace_timing.map(Value::from)),
    ])
}
