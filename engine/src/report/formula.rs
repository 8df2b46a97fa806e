//! Formulas of the per-request metrics, in internal units: nanoseconds, bytes, tokens.
//!
//! A formula whose inputs are absent gives `None`; it never gives a value that is not finite.

use super::fields::Fields;

const SECOND: f64 = 1e9;
/// An output length that misses the request by more than this share, or by more than [`MISMATCH_TOKENS`], is a mismatch.
const MISMATCH_SHARE: f64 = 0.05;
/// See [`MISMATCH_SHARE`].
const MISMATCH_TOKENS: f64 = 50.0;

/// Counts of the same tokens that differ by more than this many percent are a discrepancy.
const DISCREPANCY_PCT: f64 = 10.0;

/// Counts of nanoseconds and tokens are far below 2^53, so the conversion is exact.
fn number(value: u64) -> Option<f64> {
    Some(value as f64)
}

/// `amount` per second over a span of nanoseconds that is not zero.
fn per_second(amount: f64, span_ns: f64) -> Option<f64> {
    (span_ns > 0.0).then(|| amount * SECOND / span_ns)
}

pub(super) fn nothing(_: &impl Fields) -> Option<f64> {
    Some(0.0)
}

pub(super) fn one(_: &impl Fields) -> Option<f64> {
    Some(1.0)
}

pub(super) fn request_latency(r: &impl Fields) -> Option<f64> {
    number(r.latency())
}

pub(super) fn time_to_first_token(r: &impl Fields) -> Option<f64> {
    number(r.first_content()?)
}

pub(super) fn time_to_second_token(r: &impl Fields) -> Option<f64> {
    number(r.second_content_gap()?)
}

pub(super) fn time_to_first_output_token(r: &impl Fields) -> Option<f64> {
    number(r.first_output()?)
}

pub(super) fn decode_duration(r: &impl Fields) -> Option<f64> {
    number(r.latency().saturating_sub(r.first_content()?))
}

pub(super) fn full_decode_duration(r: &impl Fields) -> Option<f64> {
    number(r.end().saturating_sub(r.first_content()?))
}

/// Intervals between output tokens: one less than the tokens, and at least one.
fn token_intervals(r: &impl Fields) -> Option<f64> {
    let tokens = r.completion_tokens()?;
    (tokens >= 2).then(|| (tokens - 1) as f64)
}

pub(super) fn inter_token_latency(r: &impl Fields) -> Option<f64> {
    Some(decode_duration(r)? / token_intervals(r)?)
}

pub(super) fn full_response_inter_token_latency(r: &impl Fields) -> Option<f64> {
    Some(full_decode_duration(r)? / token_intervals(r)?)
}

pub(super) fn output_token_throughput_per_user(r: &impl Fields) -> Option<f64> {
    per_second(1.0, inter_token_latency(r)?)
}

pub(super) fn full_response_output_token_throughput_per_user(r: &impl Fields) -> Option<f64> {
    per_second(1.0, full_response_inter_token_latency(r)?)
}

pub(super) fn e2e_output_token_throughput(r: &impl Fields) -> Option<f64> {
    per_second(r.completion_tokens()? as f64, r.latency() as f64)
}

pub(super) fn prefill_throughput_per_user(r: &impl Fields) -> Option<f64> {
    per_second(input_sequence_length(r)?, r.first_content()? as f64)
}

/// Nanoseconds of latency per output token, over requests that have both and an input and a first token after zero time.
pub(super) fn e2e_normalized_latency(r: &impl Fields) -> Option<f64> {
    let tokens = r.completion_tokens().filter(|&tokens| tokens > 0)?;
    input_sequence_length(r).filter(|&tokens| tokens > 0.0)?;
    let timed = r.latency() > 0 && r.first_content() != Some(0);
    timed.then(|| r.latency() as f64 / tokens as f64)
}

pub(super) fn input_sequence_length(r: &impl Fields) -> Option<f64> {
    number(r.input_tokens()?)
}

pub(super) fn output_sequence_length(r: &impl Fields) -> Option<f64> {
    number(r.completion_tokens()?)
}

pub(super) fn output_token_count(r: &impl Fields) -> Option<f64> {
    let visible = r.completion_tokens()?.saturating_sub(r.reasoning_tokens().unwrap_or(0));
    (visible > 0).then_some(visible as f64)
}

pub(super) fn reasoning_token_count(r: &impl Fields) -> Option<f64> {
    r.reasoning_tokens().filter(|&tokens| tokens > 0).and_then(number)
}

/// Output tokens minus those asked for, and those asked for.
fn mismatch(r: &impl Fields) -> Option<(f64, f64)> {
    let requested = r.image().requested_tokens.filter(|&tokens| tokens > 0)?;
    Some((
        r.completion_tokens()? as f64 - f64::from(requested),
        f64::from(requested),
    ))
}

pub(super) fn osl_mismatch_diff_pct(r: &impl Fields) -> Option<f64> {
    let (difference, requested) = mismatch(r)?;
    Some(100.0 * difference / requested)
}

pub(super) fn osl_mismatch(r: &impl Fields) -> Option<f64> {
    let (difference, requested) = mismatch(r)?;
    let tolerated = (requested * MISMATCH_SHARE).min(MISMATCH_TOKENS);
    Some(f64::from(u8::from(difference.abs() > tolerated)))
}

/// How far the server's count of the input is from the dataset's, either way.
pub(super) fn usage_prompt_tokens_diff_pct(r: &impl Fields) -> Option<f64> {
    let (counted, known) = (r.prompt_tokens()?, r.input_tokens().filter(|&tokens| tokens > 0)?);
    Some(100.0 * counted.abs_diff(known) as f64 / known as f64)
}

pub(super) fn usage_discrepancy(r: &impl Fields) -> Option<f64> {
    Some(f64::from(usage_prompt_tokens_diff_pct(r)? > DISCREPANCY_PCT))
}

pub(super) fn usage_prompt_tokens(r: &impl Fields) -> Option<f64> {
    number(r.prompt_tokens()?)
}

pub(super) fn usage_prompt_cache_read_tokens(r: &impl Fields) -> Option<f64> {
    number(r.cache_read_tokens()?)
}

pub(super) fn usage_reasoning_tokens(r: &impl Fields) -> Option<f64> {
    number(r.reasoning_tokens()?)
}

pub(super) fn usage_total_tokens(r: &impl Fields) -> Option<f64> {
    number(r.total_tokens()?)
}

pub(super) fn effective_latency(r: &impl Fields) -> Option<f64> {
    number(r.since_intended())
}

/// Start minus intended start.
pub(super) fn schedule_offset(r: &impl Fields) -> Option<f64> {
    number(r.since_intended().saturating_sub(r.end()))
}

pub(super) fn connecting(r: &impl Fields) -> Option<f64> {
    number(r.connecting())
}

pub(super) fn sending(r: &impl Fields) -> Option<f64> {
    number(r.sending())
}

pub(super) fn waiting(r: &impl Fields) -> Option<f64> {
    number(r.first_body().saturating_sub(r.sending()))
}

/// Zero when the body came in one read: its end is then the read itself.
pub(super) fn receiving(r: &impl Fields) -> Option<f64> {
    match r.chunks_received() {
        0 | 1 => Some(0.0),
        _ => number(r.end().saturating_sub(r.first_body())),
    }
}

pub(super) fn connection_reused(r: &impl Fields) -> Option<f64> {
    Some(f64::from(u8::from(r.connection_reused())))
}

pub(super) fn data_sent(r: &impl Fields) -> Option<f64> {
    Some(f64::from(r.image().body_bytes) + r.history_bytes() as f64)
}

pub(super) fn data_received(r: &impl Fields) -> Option<f64> {
    Some(r.bytes_received() as f64)
}

pub(super) fn chunks_received(r: &impl Fields) -> Option<f64> {
    Some(r.chunks_received() as f64)
}

pub(super) fn http_duration(r: &impl Fields) -> Option<f64> {
    number(r.end())
}

/// The sum of the parts as the peer adds them: `sending` runs from the start, so a new connection counts twice.
pub(super) fn http_total(r: &impl Fields) -> Option<f64> {
    Some(connecting(r)? + sending(r)? + waiting(r)? + receiving(r)?)
}
