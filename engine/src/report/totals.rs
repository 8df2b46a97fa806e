//! Figures of a whole scope that derived metrics are made of.

use super::distribution::Distribution;
use super::scope::{Measured, Value};

/// What the scalar metrics of a scope are computed from.
pub(crate) struct Totals<'a> {
    /// Distributions of the scope, in exported units.
    pub(super) measured: &'a [Measured],
    pub(super) successes: u64,
    /// Failed and cancelled requests.
    pub(super) errors: u64,
    /// Successes that met every service level; `None` if none are given.
    pub(super) good: Option<u64>,
    /// Failures for want of room in the model's context.
    pub(super) context_overflows: u64,
    /// Length of the observation window; with several phases, of the union of their windows.
    pub(super) window_s: Option<f64>,
    pub(super) benchmark_duration_s: Option<f64>,
    /// Nanoseconds per output token.
    pub(super) normalized_latency: Option<Distribution>,
    /// Of one 0 or 1 per request.
    pub(super) osl_mismatch: Option<Distribution>,
    /// Of one 0 or 1 per request.
    pub(super) usage_discrepancy: Option<Distribution>,
    /// Nanoseconds from the intended to the actual start, over the phases that replay a schedule; `None` if none does.
    pub(super) schedule_offset: Option<Distribution>,
}

/// A replay whose 99th percentile lags by more than this many milliseconds is no replay of that schedule.
const DEGRADED_FROM_MS: f64 = 500.0;

impl Totals<'_> {
    fn present(count: u64) -> Option<f64> {
        (count > 0).then_some(count as f64)
    }

    /// Sum of a distribution.
    pub(super) fn sum(&self, tag: &str) -> Option<f64> {
        debug_assert!(super::metric::metric(tag).is_some(), "{tag} is not in the table");
        self.measured.iter().find_map(|measured| match &measured.value {
            Value::Distribution(distribution) if measured.metric.tag == tag => distribution.sum,
            _ => None,
        })
    }

    /// An amount per second of the window.
    pub(super) fn rate(&self, amount: Option<f64>) -> Option<f64> {
        let window = self.window_s.filter(|&seconds| seconds > 0.0)?;
        Some(amount? / window)
    }

    pub(super) fn successes(&self) -> Option<f64> {
        Self::present(self.successes)
    }

    /// Absent without successes, as the figures that it is seen beside.
    pub(super) fn good(&self) -> Option<f64> {
        self.successes()?;
        Some(self.good? as f64)
    }

    pub(super) fn good_fraction(&self) -> Option<f64> {
        Some(self.good? as f64 / self.completed()?)
    }

    pub(super) fn errors(&self) -> Option<f64> {
        Self::present(self.errors)
    }

    /// There as soon as a request has failed: 0 then says that it was for other reasons.
    pub(super) fn context_overflows(&self) -> Option<f64> {
        self.errors()?;
        Some(self.context_overflows as f64)
    }

    pub(super) fn completed(&self) -> Option<f64> {
        Self::present(self.successes + self.errors)
    }

    pub(super) fn error_rate(&self) -> Option<f64> {
        Some(100.0 * self.errors as f64 / self.completed()?)
    }

    pub(super) fn benchmark_duration(&self) -> Option<f64> {
        self.benchmark_duration_s
    }

    pub(super) fn total_token_throughput(&self) -> Option<f64> {
        self.rate(Some(
            self.sum("input_sequence_length")? + self.sum("output_sequence_length")?,
        ))
    }

    pub(super) fn cache_read_percent(&self) -> Option<f64> {
        let prompt = self.sum("usage_prompt_tokens").filter(|&tokens| tokens > 0.0)?;
        Some(100.0 * self.sum("usage_prompt_cache_read_tokens")? / prompt)
    }

    pub(super) fn osl_mismatches(&self) -> Option<f64> {
        self.osl_mismatch.as_ref()?.sum
    }

    pub(super) fn usage_discrepancies(&self) -> Option<f64> {
        self.usage_discrepancy.as_ref()?.sum
    }

    /// Output tokens per second of the request at this percentile of latency per token.
    pub(super) fn normalized_interactivity(&self, percentile: u8) -> Option<f64> {
        let latency_ns = self.normalized_latency.as_ref()?.percentile(percentile)?;
        (latency_ns > 0.0).then(|| 1e9 / latency_ns)
    }

    /// This percentile of the lag behind the schedule, counted from the least late request.
    pub(super) fn replay_lag_ms(&self, percentile: u8) -> Option<f64> {
        let offsets = self.schedule_offset.as_ref()?;
        Some((offsets.percentile(percentile)? - offsets.min?) / 1e6)
    }

    /// 1 if the replay could not keep to its schedule, else 0.
    pub(super) fn replay_is_degraded(&self) -> Option<f64> {
        Some(f64::from(self.replay_lag_ms(99)? > DEGRADED_FROM_MS))
    }
}
