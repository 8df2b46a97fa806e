//! Every key that a file may hold, by section: those that work, and those of the format that ringload refuses by name.
//!
//! One table serves three purposes: unknown keys, the suggestion of the nearest key, and "this key belongs elsewhere".

pub(super) use super::convergence::CONVERGENCE;
pub(super) use super::distribution::{LENGTH, PEAK, POINT};
pub(super) use super::multi_run::{FAILURE_POLICY, MULTI_RUN};
pub(super) use super::output::ARTIFACTS;
pub(super) use super::payload::TEMPLATE;
pub(super) use super::sequence_lengths::LENGTH_PAIR;
pub(super) use super::synthesis::SYNTHESIS;
pub(super) use super::telemetry::{DISCOVERY, GPU_TELEMETRY, NETWORK_LATENCY, SERVER_METRICS};

/// A kind of mapping in the file.
#[derive(Debug)]
pub(super) struct Schema {
    /// Where it stands, with `[]` for list items; `benchmark` alone is the root of most paths.
    pub(super) place: &'static str,
    /// Keys that work.
    pub(super) keys: &'static [&'static str],
    /// Keys that are known and refused, unless their value says "off" or is the default.
    pub(super) refused: &'static [Refused],
}

/// A known key that does not work yet, and the written values under which it asks for nothing.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) key: &'static str,
    /// Scalars in lower case; `[]` and `{}` stand for an empty list and mapping. Null is always harmless.
    pub(super) harmless: &'static [&'static str],
}

pub(super) const fn refused(key: &'static str, harmless: &'static [&'static str]) -> Refused {
    Refused { key, harmless }
}

pub(super) const OFF: &[&str] = &["false", "no", "off"];
pub(super) const NEVER: &[&str] = &[];
pub(super) const EMPTY: &[&str] = &["{}", "[]"];

pub(super) static ENVELOPE: Schema = Schema {
    place: "",
    keys: &[
        "schema_version",
        "benchmark",
        "random_seed",
        "sweep",
        "multi_run",
        "variables",
        "no_sweep_table",
    ],
    refused: &[refused("plot", OFF)],
};

pub(super) static SWEEP: Schema = Schema {
    place: "sweep",
    keys: &[
        "type",
        "parameters",
        "runs",
        "cooldown_seconds",
        "iteration_order",
        "same_seed",
        "failure_policy",
    ],
    refused: &[
        refused("sla_filters", EMPTY),
        refused("post_process", EMPTY),
        refused("recipe_name", NEVER),
    ],
};

pub(super) static SCENARIO: Schema = Schema {
    place: "sweep.runs[]",
    keys: &["name", "benchmark", "values", "variables"],
    refused: &[],
};

pub(super) static BENCHMARK: Schema = Schema {
    place: "benchmark",
    keys: &[
        "model",
        "models",
        "endpoint",
        "dataset",
        "datasets",
        "phases",
        "profiling",
        "warmup",
        "artifacts",
        "slos",
        "runtime",
        "tokenizer",
        "logging",
        "server_metrics",
        "gpu_telemetry",
        "network_latency",
    ],
    refused: &[
        refused("metrics", EMPTY),
        refused("otel", NEVER),
        refused("mlflow", NEVER),
        refused("wandb", NEVER),
        refused("accuracy", NEVER),
        refused("scenario", NEVER),
        refused("unsafe_override", OFF),
    ],
};

pub(super) static MODELS: Schema = Schema {
    place: "benchmark.models",
    keys: &["items", "strategy"],
    refused: &[],
};

pub(super) static MODEL: Schema = Schema {
    place: "benchmark.models.items[]",
    keys: &["name", "weight"],
    refused: &[
        refused("lora", NEVER),
        refused("modalities", EMPTY),
        refused("tokenizer", NEVER),
    ],
};

pub(super) static ENDPOINT: Schema = Schema {
    place: "benchmark.endpoint",
    keys: &[
        "url",
        "urls",
        "type",
        "path",
        "api_key",
        "timeout",
        "streaming",
        "transport",
        "connection_reuse",
        "headers",
        "extra",
        "template",
        "session_header",
        "use_legacy_max_tokens",
        "use_server_token_count",
        "url_strategy",
        "wait_for_model_timeout",
        "wait_for_model_interval",
        "wait_for_model_mode",
        "reset_kv_cache",
        "server_profiler",
    ],
    refused: &[
        refused("per_chunk_usage", OFF),
        refused("request_content_type", &["application/json"]),
        refused("download_video_content", OFF),
        refused("uuid_and_strip", OFF),
        refused("aws_region", NEVER),
        refused("aws_profile", NEVER),
        refused("aws_service", NEVER),
        refused("auth_type", NEVER),
        refused("sagemaker", NEVER),
    ],
};

pub(super) static RESET_KV_CACHE: Schema = Schema {
    place: "benchmark.endpoint.reset_kv_cache",
    keys: &["path", "timeout_seconds", "max_retry_seconds"],
    refused: &[],
};

pub(super) static SERVER_PROFILER: Schema = Schema {
    place: "benchmark.endpoint.server_profiler",
    keys: &["start_path", "stop_path", "timeout_seconds"],
    refused: &[],
};

pub(super) static DATASET: Schema = Schema {
    place: "benchmark.dataset",
    keys: &[
        "name",
        "type",
        "entries",
        "prompts",
        "isl",
        "osl",
        "turns",
        "turn_delay",
        "turn_delay_ratio",
        "random_seed",
        "sampling",
        "path",
        "records",
        "format",
        "block_size",
        "ignore_trace_delays",
        "inter_turn_delay_cap_seconds",
        "synthesis",
        "rankings",
        "system_prompt",
        "system_prompt_file",
        "prefix_prompts",
    ],
    refused: &[
        refused("images", NEVER),
        refused("audio", NEVER),
        refused("video", NEVER),
        refused("dataset", NEVER),
        refused("hf_subset", NEVER),
        refused("filters", NEVER),
        refused("cache_bust", NEVER),
        refused("prompt_batch_size", &["1"]),
        refused("image_batch_size", &["1"]),
        refused("audio_batch_size", &["1"]),
        refused("video_batch_size", &["1"]),
        refused("use_think_time_only", OFF),
        refused("max_idle_gap_cap_seconds", NEVER),
        refused("trace_idle_gap_cap_seconds", NEVER),
        refused("trace_session_sample_ratio", NEVER),
        refused("replay_speedup", NEVER),
        refused("open_loop_replay", NEVER),
        refused("open_loop_strict", OFF),
        refused("omit_kv_hints", OFF),
        refused("force_min_tokens", OFF),
        refused("max_context_length", NEVER),
        refused("weka_nested_timestamp_basis", NEVER),
        refused("hf_mooncake_dataset", NEVER),
        refused("hf_mooncake_split", NEVER),
        refused("hf_weka_dataset", NEVER),
        refused("mooncake_trace_to_hf_mapping", EMPTY),
    ],
};

pub(super) static PROMPTS: Schema = Schema {
    place: "benchmark.dataset.prompts",
    keys: &[
        "isl",
        "osl",
        "batch_size",
        "sequence_distribution",
        "random_range_ratio",
        "random_corpus_style",
    ],
    refused: &[
        refused("block_size", NEVER),
        refused("corpus", NEVER),
        refused("cache_bust", NEVER),
    ],
};

pub(super) static PREFIX_PROMPTS: Schema = Schema {
    place: "benchmark.dataset.prefix_prompts",
    keys: &["pool_size", "length", "shared_system_length", "user_context_length"],
    refused: &[],
};

pub(super) static RANKINGS: Schema = Schema {
    place: "benchmark.dataset.rankings",
    keys: &["passages", "passage_tokens", "query_tokens"],
    refused: &[],
};

pub(super) static PHASE: Schema = Schema {
    place: "benchmark.phases[]",
    keys: &[
        "name",
        "kind",
        "type",
        "exclude_from_results",
        "requests",
        "sessions",
        "duration",
        "concurrency",
        "concurrency_ramp",
        "prefill_concurrency",
        "prefill_ramp",
        "failed_request_threshold",
        "sla",
        "adaptive_scale",
        "adaptive_control_variable",
        "adaptive_control_min",
        "adaptive_control_max",
        "adaptive_assessment_period",
        "adaptive_min_completed_requests",
        "adaptive_sustain_duration",
        "adaptive_scale_strategy_type",
        "adaptive_scale_step_policy",
        "adaptive_scale_base_step",
        "adaptive_scale_max_step_multiplier",
        "adaptive_scale_step_percent",
        "on_cap",
        "rate",
        "users",
        "rate_series",
        "rate_ramp",
        "smoothness",
        "grace_period",
        "cancellation",
        "seamless",
        "auto_offset",
        "start_offset",
        "end_offset",
    ],
    refused: &[
        refused("timing_mode", NEVER),
        refused("trajectory_start_min_ratio", NEVER),
        refused("trajectory_start_max_ratio", NEVER),
        refused("burst_phase_starts", OFF),
        refused("system_idle_gap_cap_seconds", NEVER),
        refused("agentic_cache_warmup_duration", NEVER),
        refused("warmup_requests_per_lane", NEVER),
        refused("agentic_warmup_grace_period", NEVER),
    ],
};

pub(super) static CANCELLATION: Schema = Schema {
    place: "benchmark.phases[].cancellation",
    keys: &["rate", "delay"],
    refused: &[],
};

/// A ramp. It stands under several keys, so it is no home for misplaced ones.
pub(super) static RAMP: Schema = Schema {
    place: "benchmark.phases[].rate_ramp",
    keys: &["duration", "strategy"],
    refused: &[],
};

pub(super) static RATE_SERIES: Schema = Schema {
    place: "benchmark.phases[].rate_series",
    keys: &["points", "path"],
    refused: &[],
};

pub(super) static RATE_POINT: Schema = Schema {
    place: "benchmark.phases[].rate_series.points[]",
    keys: &["time_s", "qps"],
    refused: &[],
};

/// `adaptive_scale` as a mapping.
pub(super) static ADAPTIVE_SCALE: Schema = Schema {
    place: "benchmark.phases[].adaptive_scale",
    keys: &[
        "enabled",
        "control",
        "strategy",
        "sla",
        "window",
        "assessment_period",
        "min_completed_requests",
        "sustain_duration",
        "control_variable",
        "control_min",
        "control_max",
        "min_concurrency",
        "max_concurrency",
    ],
    refused: &[],
};

pub(super) static ADAPTIVE_CONTROL: Schema = Schema {
    place: "benchmark.phases[].adaptive_scale.control",
    keys: &["variable", "min", "max"],
    refused: &[],
};

pub(super) static ADAPTIVE_STRATEGY: Schema = Schema {
    place: "benchmark.phases[].adaptive_scale.strategy",
    keys: &[
        "type",
        "step_policy",
        "base_step",
        "max_step_multiplier",
        "step_percent",
    ],
    refused: &[],
};

/// One service level in a list of them.
pub(super) static SLA: Schema = Schema {
    place: "benchmark.phases[].sla[]",
    keys: &["metric_tag", "stat", "op", "threshold"],
    refused: &[],
};

pub(super) static RUNTIME: Schema = Schema {
    place: "benchmark.runtime",
    keys: &["ui"],
    refused: &[
        refused("workers", NEVER),
        refused("workers_min", NEVER),
        refused("workers_per_pod", NEVER),
        refused("record_processors_per_pod", NEVER),
        refused("dataset_api_base_url", NEVER),
        refused("record_processors", NEVER),
        refused("stats_interval", NEVER),
        refused("api_port", NEVER),
        refused("api_host", NEVER),
        refused("service_run_type", &["multiprocessing"]),
        refused("communication", NEVER),
    ],
};

pub(super) static TOKENIZER: Schema = Schema {
    place: "benchmark.tokenizer",
    keys: &["name"],
    refused: &[
        refused("revision", &["main"]),
        refused("trust_remote_code", OFF),
        refused("apply_chat_template", OFF),
    ],
};

pub(super) static LOGGING: Schema = Schema {
    place: "benchmark.logging",
    keys: &["level"],
    refused: &[],
};

/// All sections, to find where a misplaced key belongs.
static ALL: [&Schema; 27] = [
    &ENVELOPE,
    &SWEEP,
    &SCENARIO,
    &FAILURE_POLICY,
    &MULTI_RUN,
    &CONVERGENCE,
    &BENCHMARK,
    &MODELS,
    &ENDPOINT,
    &RESET_KV_CACHE,
    &SERVER_PROFILER,
    &DATASET,
    &SYNTHESIS,
    &PROMPTS,
    &PREFIX_PROMPTS,
    &PHASE,
    &CANCELLATION,
    &RATE_SERIES,
    &RATE_POINT,
    &ARTIFACTS,
    &RUNTIME,
    &TOKENIZER,
    &LOGGING,
    &SERVER_METRICS,
    &DISCOVERY,
    &GPU_TELEMETRY,
    &NETWORK_LATENCY,
];

impl Schema {
    /// All known keys, working or not.
    pub(super) fn known(&self) -> impl Iterator<Item = &'static str> {
        self.keys
            .iter()
            .copied()
            .chain(self.refused.iter().map(|refused| refused.key))
    }

    /// The sections directly above and below this one (or, if there is only one anywhere, that one) that have `key`.
    pub(super) fn homes_of(&self, key: &str) -> Option<String> {
        let mut holders: Vec<&Schema> = ALL
            .into_iter()
            .filter(|schema| schema.known().any(|known| known == key))
            .collect();
        if holders.len() > 1 {
            holders.retain(|other| parent(self.place) == Some(other.place) || parent(other.place) == Some(self.place));
        }
        let name = |schema: &&Schema| {
            if schema.place.is_empty() {
                "the top level"
            } else {
                schema.place
            }
        };
        let names: Vec<&str> = holders.iter().map(name).collect();
        (!names.is_empty()).then(|| names.join(" or "))
    }
}

/// The place around a place: `benchmark.phases[]` is in `benchmark`, `benchmark` in the top level.
fn parent(place: &'static str) -> Option<&'static str> {
    if place.is_empty() {
        None
    } else {
        Some(place.rsplit_once('.').map_or("", |(parent, _)| parent))
    }
}

/// The snake_case spelling of a key written in camelCase; other keys as they are.
pub(super) fn snake_case(key: &str) -> String {
    let is_camel = key.starts_with(|c: char| c.is_ascii_lowercase()) && !key.contains('_');
    if !is_camel {
        return key.to_owned();
    }
    let mut snake = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// The candidate that was probably meant by `word`: at most a third of its letters away.
pub(super) fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    // Long words cannot be near a key, and comparing them would cost the square of their length.
    if word.chars().count() > 64 {
        return None;
    }
    let word = snake_case(word).to_ascii_lowercase().replace(['-', ' '], "_");
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len().max(word.len()) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn camel_case_becomes_snake_case_and_the_rest_stays() {
        assert_eq!(snake_case("useServerTokenCount"), "use_server_token_count");
        assert_eq!(snake_case("grace_period"), "grace_period");
        assert_eq!(snake_case("Name"), "Name");
        assert_eq!(snake_case("X-Count"), "X-Count");
    }

    #[test]
    fn the_nearest_key_is_found_within_reason() {
        assert_eq!(nearest("concurency", PHASE.known()), Some("concurrency"));
        assert_eq!(nearest("Duration", PHASE.known()), Some("duration"));
        assert_eq!(nearest("warmpu", ["warmup", "profiling"]), Some("warmup"));
        assert_eq!(nearest("zebra", PHASE.known()), None);
    }

    #[test]
    fn a_misplaced_key_finds_the_section_around_or_below() {
        assert_eq!(BENCHMARK.homes_of("concurrency").as_deref(), Some("benchmark.phases[]"));
        assert_eq!(
            BENCHMARK.homes_of("random_seed").as_deref(),
            Some("the top level or benchmark.dataset")
        );
        assert_eq!(
            PHASE.homes_of("delay").as_deref(),
            Some("benchmark.phases[].cancellation")
        );
        assert_eq!(PHASE.homes_of("streaming").as_deref(), Some("benchmark.endpoint"));
        assert_eq!(ENVELOPE.homes_of("phases").as_deref(), Some("benchmark"));
        let ambiguous = BENCHMARK.homes_of("type");
        assert_eq!(
            ambiguous.as_deref(),
            Some("benchmark.endpoint or benchmark.dataset or benchmark.phases[]")
        );
        assert_eq!(BENCHMARK.homes_of("nonsense"), None);
    }

    #[test]
    fn no_section_lists_a_key_twice() {
        for schema in ALL {
            let mut keys: Vec<&str> = schema.known().collect();
            keys.sort_unstable();
            let all = keys.len();
            keys.dedup();
            assert_eq!(keys.len(), all, "{}", schema.place);
        }
    }
}
