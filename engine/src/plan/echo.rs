//! `input_config` of the artifacts: the config with every short form spelt out, unset fields left out, and secrets masked. Put
//! under `benchmark:` it loads again and gives the same plan.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::target::TargetParts;
use crate::config::{
    Config, Dataset, Endpoint, Length, Phase, PhaseKind, REDACTED, ResetKvCache, ServerProfiler, is_credential_name,
    redact_url,
};

/// The config as it runs: `directory` and `server` are what takes the place of the written ones, if anything does.
pub(super) fn input_config(config: &Config, directory: Option<&Path>, server: &TargetParts) -> Value {
    let models: Vec<Value> = config.models.iter().map(|name| json!({ "name": name })).collect();
    let mut echo = Map::new();
    echo.insert("models".to_owned(), json!({ "items": models }));
    echo.insert("endpoint".to_owned(), endpoint(&config.endpoint, server));
    echo.insert("datasets".to_owned(), json!([dataset(&config.dataset)]));
    echo.insert("phases".to_owned(), config.phases.iter().map(phase).collect());
    let artifacts = artifacts(config, directory);
    if artifacts.as_object().is_some_and(|artifacts| !artifacts.is_empty()) {
        echo.insert("artifacts".to_owned(), artifacts);
    }
    if let Some(name) = &config.tokenizer {
        echo.insert("tokenizer".to_owned(), json!({ "name": name }));
    }
    if let Some(ui) = config.ui {
        echo.insert("runtime".to_owned(), json!({ "ui": ui.as_str() }));
    }
    Value::Object(echo)
}

/// A mapping without the fields that are not set.
fn set_fields<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let set = fields
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(set.collect())
}

/// Seconds as a float; infinity has no JSON number, but the word loads again.
fn seconds(seconds: f64) -> Value {
    if seconds.is_finite() {
        json!(seconds)
    } else {
        json!("inf")
    }
}

fn endpoint(endpoint: &Endpoint, server: &TargetParts) -> Value {
    let url = if *server == TargetParts::of(&endpoint.url) {
        redact_url(&endpoint.url_text)
    } else {
        let query = endpoint
            .url
            .query
            .as_ref()
            .map_or_else(String::new, |query| format!("?{query}"));
        redact_url(&format!("{}{}{query}", server.origin(), endpoint.url.path))
    };
    let masked = |(name, value): &(String, String)| {
        let value = if is_credential_name(name) { REDACTED } else { value };
        (name.clone(), json!(value))
    };
    let headers: Map<String, Value> = endpoint.headers.iter().map(masked).collect();
    set_fields([
        ("urls", Some(json!([url]))),
        ("type", Some(json!("chat"))),
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
            (!endpoint.extra.is_empty()).then(|| mask_object(&endpoint.extra)),
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

/// Body keys may hold credentials too, at any depth.
fn mask_object(object: &Map<String, Value>) -> Value {
    let masked = object.iter().map(|(key, value)| {
        let value = if is_credential_name(key) {
            json!(REDACTED)
        } else {
            mask(value)
        };
        (key.clone(), value)
    });
    Value::Object(masked.collect())
}

fn mask(value: &Value) -> Value {
    match value {
        Value::Object(object) => mask_object(object),
        Value::Array(items) => Value::Array(items.iter().map(mask).collect()),
        _ => value.clone(),
    }
}

fn dataset(dataset: &Dataset) -> Value {
    let length = |length: Length| match length {
        Length::Fixed(tokens) => json!({ "value": f64::from(tokens) }),
        Length::Normal { mean, stddev } => json!({ "mean": mean, "stddev": stddev }),
    };
    let prompts = set_fields([("isl", dataset.isl.map(length)), ("osl", dataset.osl.map(length))]);
    set_fields([
        ("name", Some(json!(dataset.name.as_deref().unwrap_or("default")))),
        ("type", Some(json!("synthetic"))),
        ("random_seed", dataset.random_seed.map(Value::from)),
        ("entries", dataset.entries.map(Value::from)),
        (
            "prompts",
            prompts
                .as_object()
                .is_some_and(|prompts| !prompts.is_empty())
                .then_some(prompts),
        ),
        ("turns", dataset.turns.map(length)),
        (
            "turn_delay",
            dataset.turn_delay.map(|delay| match delay.stddev_ms {
                0.0 => json!({ "value": delay.mean_ms }),
                stddev_ms => json!({ "mean": delay.mean_ms, "stddev": stddev_ms }),
            }),
        ),
        ("turn_delay_ratio", dataset.turn_delay_ratio.map(Value::from)),
    ])
}

fn phase(phase: &Phase) -> Value {
    set_fields([
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
        ("rate", phase.load.rate().map(Value::from)),
        ("users", phase.load.users().map(Value::from)),
        ("grace_period", phase.grace_period_s.map(seconds)),
        (
            "cancellation",
            phase
                .cancellation
                .map(|cancellation| json!({ "rate": cancellation.rate, "delay": cancellation.delay_s })),
        ),
        ("seamless", phase.seamless.then(|| json!(true))),
    ])
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
    ])
}
