//! What may stand under each key, and what it is for: one line per key of the tables in [`schema`](super::super::schema). A test says which line is
//! missing when a key is added there.

mod body;
mod file;
mod lengths;
mod phase;

use super::super::schema::{
    ADAPTIVE_CONTROL, ADAPTIVE_SCALE, ADAPTIVE_STRATEGY, ARTIFACTS, BENCHMARK, CANCELLATION, CONVERGENCE, DATASET,
    DISCOVERY, ENDPOINT, ENVELOPE, FAILURE_POLICY, GPU_TELEMETRY, LENGTH, LENGTH_PAIR, LOGGING, MODEL, MODELS,
    MULTI_RUN, NETWORK_LATENCY, PEAK, PHASE, POINT, PREFIX_PROMPTS, PROMPTS, RAMP, RANKINGS, RATE_POINT, RATE_SERIES,
    RESET_KV_CACHE, RUNTIME, SCENARIO, SERVER_METRICS, SERVER_PROFILER, SLA, SWEEP, SYNTHESIS, Schema, TEMPLATE,
    TOKENIZER,
};
use super::shape::Shape;

/// A key, what may stand there, and what it is for.
pub(super) type Key = (&'static str, Shape, &'static str);

/// Every section with its keys.
pub(super) static ALL: [(&Schema, &[Key]); 39] = [
    (&ENVELOPE, file::IN_ENVELOPE),
    (&SWEEP, file::IN_SWEEP),
    (&SCENARIO, file::IN_SCENARIO),
    (&FAILURE_POLICY, file::IN_FAILURE_POLICY),
    (&MULTI_RUN, file::IN_MULTI_RUN),
    (&CONVERGENCE, file::IN_CONVERGENCE),
    (&BENCHMARK, body::IN_BENCHMARK),
    (&MODELS, body::IN_MODELS),
    (&MODEL, body::IN_MODEL),
    (&ENDPOINT, body::IN_ENDPOINT),
    (&TEMPLATE, body::IN_TEMPLATE),
    (&RESET_KV_CACHE, body::IN_RESET_KV_CACHE),
    (&SERVER_PROFILER, body::IN_SERVER_PROFILER),
    (&DATASET, body::IN_DATASET),
    (&SYNTHESIS, body::IN_SYNTHESIS),
    (&PROMPTS, body::IN_PROMPTS),
    (&PREFIX_PROMPTS, body::IN_PREFIX_PROMPTS),
    (&RANKINGS, body::IN_RANKINGS),
    (&LENGTH, lengths::IN_LENGTH),
    (&PEAK, lengths::IN_PEAK),
    (&POINT, lengths::IN_POINT),
    (&LENGTH_PAIR, lengths::IN_LENGTH_PAIR),
    (&PHASE, phase::IN_PHASE),
    (&CANCELLATION, phase::IN_CANCELLATION),
    (&RAMP, phase::IN_RAMP),
    (&RATE_SERIES, phase::IN_RATE_SERIES),
    (&RATE_POINT, phase::IN_RATE_POINT),
    (&ADAPTIVE_SCALE, phase::IN_ADAPTIVE_SCALE),
    (&ADAPTIVE_CONTROL, phase::IN_ADAPTIVE_CONTROL),
    (&ADAPTIVE_STRATEGY, phase::IN_ADAPTIVE_STRATEGY),
    (&SLA, phase::IN_SLA),
    (&ARTIFACTS, body::IN_ARTIFACTS),
    (&RUNTIME, body::IN_RUNTIME),
    (&TOKENIZER, body::IN_TOKENIZER),
    (&LOGGING, body::IN_LOGGING),
    (&SERVER_METRICS, body::IN_SERVER_METRICS),
    (&DISCOVERY, body::IN_DISCOVERY),
    (&GPU_TELEMETRY, body::IN_GPU_TELEMETRY),
    (&NETWORK_LATENCY, body::IN_NETWORK_LATENCY),
];

/// The keys of a section.
pub(super) fn of(schema: &Schema) -> &'static [Key] {
    let found = ALL.iter().find(|(other, _)| std::ptr::eq(*other, schema));
    found.map_or(&[], |(_, keys)| keys)
}
