//! The figures of one window: what the requests that ended in it say about the server.

use super::event::Spread;
use crate::credit::Sample;
use crate::plan::{SlaFilter, WindowMetric, WindowStat};
use crate::record::Outcome;
use crate::units::Nanos;

/// Requests that ended since the last assessment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Window {
    pub(crate) samples: Vec<Sample>,
    /// Users who are on their last conversation because the controller wants fewer.
    pub(crate) leaving: u32,
}

/// How many requests of a window ended how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WindowTotals {
    /// Successes.
    pub completed: u64,
    /// Failures.
    pub errored: u64,
    /// Simulated disconnects.
    pub cancelled: u64,
}

impl WindowTotals {
    /// All that ended.
    pub fn ended(self) -> u64 {
        self.completed + self.errored + self.cancelled
    }
}

fn milliseconds(span: Nanos) -> f64 {
    span.as_millis_f64()
}

/// Milliseconds between the tokens of one answer.
fn inter_token(sample: &Sample) -> Option<f64> {
    let first = sample.first_token?;
    let gaps = sample.output_tokens.checked_sub(1).filter(|&gaps| gaps > 0)?;
    Some(milliseconds(sample.latency.since(first)) / f64::from(gaps))
}

impl Window {
    /// Forgets requests that were issued before an instant.
    pub(super) fn forget_before(&mut self, issued: Nanos) {
        self.samples.retain(|sample| sample.issued >= issued);
    }

    /// How many ended how.
    pub fn totals(&self) -> WindowTotals {
        let count = |outcome| self.samples.iter().filter(|sample| sample.outcome == outcome).count() as u64;
        WindowTotals {
            completed: count(Outcome::Success),
            errored: count(Outcome::Error),
            cancelled: count(Outcome::Cancelled),
        }
    }

    fn successes(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(|sample| sample.outcome == Outcome::Success)
    }

    /// Successes that met every service level of the run.
    fn good(&self) -> u64 {
        self.samples.iter().filter(|sample| sample.good).count() as u64
    }

    /// Whether output tokens are the server's counts, or events with content: (some are the former, some are the latter).
    pub(super) fn token_sources(&self) -> (bool, bool) {
        let by_server = |sample: &Sample| sample.counted_by_server;
        (self.successes().any(by_server), !self.successes().all(by_server))
    }

    /// Values of a metric that has one per request, in order. A request without the value counts as infinitely slow.
    fn distribution(&self, metric: WindowMetric) -> Vec<f64> {
        let value = |sample: &Sample| match metric {
            WindowMetric::RequestLatency => Some(milliseconds(sample.latency)),
            WindowMetric::TimeToFirstToken => sample.first_token.map(milliseconds),
            WindowMetric::InterTokenLatency => inter_token(sample),
            _ => None,
        };
        let mut values: Vec<f64> = self
            .successes()
            .map(|sample| value(sample).unwrap_or(f64::INFINITY))
            .collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    }

    /// A metric that has one value per request; `None` without requests.
    pub(super) fn spread(&self, metric: WindowMetric) -> Option<Spread> {
        let values = self.distribution(metric);
        let percentile = |percent| statistic(&values, WindowStat::Percentile(percent));
        Some(Spread {
            average: statistic(&values, WindowStat::Average)?,
            p50: percentile(50)?,
            p95: percentile(95)?,
            p99: percentile(99)?,
        })
    }

    /// What a filter looks at, in a window of this length. A distribution without values is infinitely slow.
    pub(super) fn value(&self, filter: &SlaFilter, length: Nanos) -> f64 {
        let totals = self.totals();
        let share = |part: u64| part as f64 / totals.ended().max(1) as f64;
        let rate = |count: f64| count / length.as_secs_f64().max(f64::MIN_POSITIVE);
        match filter.metric {
            WindowMetric::RequestThroughput => rate(totals.completed as f64),
            WindowMetric::OutputTokenThroughput => {
                let tokens: u64 = self.successes().map(|sample| u64::from(sample.output_tokens)).sum();
                rate(tokens as f64)
            }
            WindowMetric::Goodput => rate(self.good() as f64),
            WindowMetric::GoodputRatio => share(self.good()),
            WindowMetric::SuccessRate => share(totals.completed),
            WindowMetric::ErrorRate => 100.0 * share(totals.errored),
            WindowMetric::CancellationRate => share(totals.cancelled),
            metric => statistic(&self.distribution(metric), filter.stat).unwrap_or(f64::INFINITY),
        }
    }
}

/// A number of a sorted distribution; `None` without values.
fn statistic(sorted: &[f64], stat: WindowStat) -> Option<f64> {
    let (&first, &last) = (sorted.first()?, sorted.last()?);
    Some(match stat {
        WindowStat::Average => sorted.iter().sum::<f64>() / sorted.len() as f64,
        WindowStat::Min => first,
        WindowStat::Max => last,
        WindowStat::Percentile(percent) => {
            let rank = (sorted.len() - 1) as f64 * f64::from(percent) / 100.0;
            let (low, high) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
            // Infinity times zero is no number.
            if rank.fract() == 0.0 || low == high {
                low
            } else {
                low + (high - low) * rank.fract()
            }
        }
    })
}
