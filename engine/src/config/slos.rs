//! `benchmark.slos`: the thresholds that a request must meet to count as good.

use super::decode::{Bounds, Field, Section};
use super::diagnostic::quote;
use super::endpoint_type::EndpointType;
use super::schema::nearest;

/// One threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slo {
    /// A metric that has one value per request.
    pub metric: &'static str,
    /// In the unit of the metric's export, milliseconds for times.
    pub threshold: f64,
}

/// Metrics with one value per request, and whether it takes a stream to measure them. The report has their formulas; one of its tests keeps this
/// list and its own together.
pub const SLO_METRICS: &[(&str, bool)] = &[
    ("request_latency", false),
    ("time_to_first_token", true),
    ("time_to_second_token", true),
    ("time_to_first_output_token", true),
    ("inter_token_latency", true),
    ("decode_duration", true),
    ("full_decode_duration", true),
    ("full_response_inter_token_latency", true),
    ("effective_latency", false),
    ("output_token_throughput_per_user", true),
    ("full_response_output_token_throughput_per_user", true),
    ("e2e_output_token_throughput", false),
    ("prefill_throughput_per_user", true),
    ("input_sequence_length", false),
    ("output_sequence_length", false),
    ("output_token_count", false),
    ("reasoning_token_count", false),
    ("osl_mismatch_diff_pct", false),
    ("usage_prompt_tokens_diff_pct", false),
    ("usage_prompt_tokens", false),
    ("usage_prompt_cache_read_tokens", false),
    ("usage_completion_tokens", false),
    ("usage_reasoning_tokens", false),
    ("usage_total_tokens", false),
    ("http_req_blocked", false),
    ("http_req_dns_lookup", false),
    ("http_req_connecting", false),
    ("http_req_sending", false),
    ("http_req_waiting", false),
    ("http_req_receiving", false),
    ("http_req_connection_reused", false),
    ("http_req_data_sent", false),
    ("http_req_chunks_sent", false),
    ("http_req_data_received", false),
    ("http_req_chunks_received", false),
    ("http_req_connection_overhead", false),
    ("http_req_duration", false),
    ("http_req_total", false),
];

/// Those of [`SLO_METRICS`] that take an answer made of tokens, whether it streams or not.
pub(super) const OF_TOKENS: [&str; 7] = [
    "e2e_output_token_throughput",
    "output_sequence_length",
    "output_token_count",
    "reasoning_token_count",
    "osl_mismatch_diff_pct",
    "usage_completion_tokens",
    "usage_reasoning_tokens",
];

/// Metrics of the format that no single request has. Error-adjusted twins (`adj_`) are more of them.
pub const METRICS_OF_NO_REQUEST: &[&str] = &[
    "effective_concurrency",
    "effective_prefill_concurrency",
    "effective_decode_concurrency",
    "effective_prefill_throughput",
    "effective_prefill_throughput_per_user",
    "effective_decode_throughput",
    "effective_decode_throughput_per_user",
    "effective_total_throughput",
    "active_prefill_throughput",
    "active_prefill_throughput_per_user",
    "active_decode_throughput",
    "active_decode_throughput_per_user",
    "active_total_throughput",
    "tokens_in_flight",
    "request_count",
    "request_throughput",
    "output_token_throughput",
    "input_token_throughput",
    "total_token_throughput",
    "total_isl",
    "total_osl",
    "total_output_tokens",
    "total_reasoning_tokens",
    "total_error_isl",
    "total_usage_prompt_tokens",
    "total_usage_prompt_cache_read_tokens",
    "total_usage_completion_tokens",
    "total_usage_reasoning_tokens",
    "total_usage_total_tokens",
    "overall_usage_prompt_cache_read_pct",
    "error_request_count",
    "context_overflow_count",
    "completed_request_count",
    "request_error_rate",
    "osl_mismatch_count",
    "usage_discrepancy_count",
    "benchmark_duration",
    "goodput",
    "good_request_count",
    "good_request_fraction",
    "e2e_normalized_interactivity_p75",
    "e2e_normalized_interactivity_p90",
    "replay_sched_lag_p50",
    "replay_sched_lag_p90",
    "replay_sched_lag_p99",
    "replay_sched_degraded",
];

/// Metrics of one request that the format has and ringload does not judge by, most of them because it does not measure them.
pub(super) const UNMEASURED: &[&str] = &[
    "credit_to_start_latency",
    "usage_prompt_cache_write_tokens",
    "usage_prompt_cache_miss_tokens",
    "usage_prompt_audio_tokens",
    "usage_prompt_audio_seconds",
    "usage_tool_use_prompt_tokens",
    "usage_completion_audio_tokens",
    "usage_accepted_prediction_tokens",
    "usage_rejected_prediction_tokens",
    "usage_completion_tokens_diff_pct",
    "usage_reasoning_tokens_diff_pct",
    "network_adjusted_time_to_first_token",
    "network_adjusted_time_to_first_output_token",
    "network_adjusted_request_latency",
    "stream_setup_latency",
    "stream_prefill_latency",
    "thinking_efficiency",
    "rtfx",
    "audio_duration",
    "num_images",
    "image_throughput",
    "image_latency",
    "video_inference_time",
    "video_peak_memory",
    "spec_decode_acceptance_length",
    "spec_decode_draft_acceptance_rate",
    "spec_decode_accepted_per_verified",
    "spec_decode_steps",
    "spec_decode_accepted_draft_tokens",
    "spec_decode_draft_tokens",
];

/// What service levels of `adaptive_scale` are called too, and other tools say.
pub(super) const SHORT: &[(&str, &str)] = &[
    ("ttft", "time_to_first_token"),
    ("itl", "inter_token_latency"),
    ("tpot", "inter_token_latency"),
    ("latency", "request_latency"),
    ("e2el", "request_latency"),
];

/// What the endpoint answers, as far as it could be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answers {
    /// Whether they stream.
    pub(super) streaming: Option<bool>,
    /// Their API.
    pub(super) kind: Option<EndpointType>,
}

/// The thresholds in the order of the file.
pub(super) fn decode(benchmark: &Section<'_>, answers: Answers) -> Vec<Slo> {
    let Some(field) = benchmark.field("slos") else {
        return Vec::new();
    };
    // An empty list asks for as little as an empty mapping.
    if field.is_empty() {
        return Vec::new();
    }
    let Some(entries) = field.free_entries("a mapping of metrics to thresholds, as in {time_to_first_token: 200}")
    else {
        return Vec::new();
    };
    // Everything is read before anything is given up on, so that all mistakes are reported.
    let read = |(name, _, value): (&str, _, Field<'_>)| {
        let (metric, threshold) = (metric(&value, name, answers), value.float(Bounds::FINITE));
        Some(Slo {
            metric: metric?,
            threshold: threshold?,
        })
    };
    entries.filter_map(read).collect()
}

/// Whether the file asks for a judgement at all, with mistakes or without.
pub(super) fn are_written(benchmark: &Section<'_>) -> bool {
    benchmark.field("slos").is_some_and(|field| !field.is_empty())
}

fn metric(field: &Field<'_>, name: &str, answers: Answers) -> Option<&'static str> {
    let without_tokens = answers.kind.filter(|kind| !kind.makes_tokens());
    let has_tokens =
        |name: &str, needs_stream: bool| without_tokens.is_none() || !(needs_stream || OF_TOKENS.contains(&name));
    let streams = |needs_stream: bool| !needs_stream || answers.streaming != Some(false);
    let allowed = || -> String {
        let names: Vec<&str> = SLO_METRICS
            .iter()
            .filter(|(name, needs_stream)| streams(*needs_stream) && has_tokens(name, *needs_stream))
            .map(|(name, _)| *name)
            .collect();
        names.join(", ")
    };
    if let Some(&(metric, needs_stream)) = SLO_METRICS.iter().find(|(metric, _)| *metric == name) {
        if let (Some(kind), false) = (without_tokens, has_tokens(metric, needs_stream)) {
            field.report(format!(
                "`{name}` is measured in answers made of tokens, and the endpoint type {} has none, so no request could meet it; allowed: {}",
                kind.as_str(),
                allowed()
            ));
            return None;
        }
        if !streams(needs_stream) {
            field.report(format!(
                "`{name}` is measured in streams, and the endpoint does not stream, so no request could meet it; set endpoint.streaming: true or \
                 remove the key"
            ));
            return None;
        }
        return Some(metric);
    }
    if METRICS_OF_NO_REQUEST.contains(&name) || name.starts_with("adj_") {
        field.report(format!(
            "`{name}` is a figure of a whole phase, and slos judge each request; allowed: {}",
            allowed()
        ));
    } else if name == "inter_chunk_latency" {
        field.report(
            "`inter_chunk_latency` has many values per request, and slos judge one; inter_token_latency is the mean of a request",
        );
    } else if name == "error_isl" {
        field.report("`error_isl` belongs to failed requests, and those are never good; remove the key");
    } else if UNMEASURED.contains(&name) {
        field.refuse(
            &format!("the metric `{name}` in slos"),
            &format!("allowed: {}", allowed()),
        );
    } else {
        // What no answer of this endpoint has is not what was meant.
        let of_endpoint = SLO_METRICS.iter().filter(|(metric, needs)| has_tokens(metric, *needs));
        let short = SHORT.iter().find(|(short, _)| short.eq_ignore_ascii_case(name));
        let near = short.map(|(_, metric)| *metric);
        let near = near.or_else(|| nearest(name, of_endpoint.clone().map(|(metric, _)| *metric)));
        let meant = of_endpoint.clone().find(|(metric, _)| Some(*metric) == near);
        let advice = match meant {
            None => String::new(),
            Some((meant, needs_stream)) if streams(*needs_stream) => format!("did you mean `{meant}`? "),
            Some((meant, _)) => format!(
                "did you mean `{meant}`? It is measured in streams, and the endpoint does not stream: set endpoint.streaming: true; without it "
            ),
        };
        field.report(format!(
            "unknown metric {}; {advice}allowed: {}",
            quote(name),
            allowed()
        ));
    }
    None
}
