//! Histograms of one phase: kept per core while the load runs, merged exactly after the drain.
//!
//! HdrHistogram with 3 significant digits (a value is off by at most 0.1 %); count, sum, sum of squares, minimum and maximum are exact
//! beside it, so that only percentiles carry the histogram's resolution.

use hdrhistogram::Histogram;

use crate::units::Nanos;

/// What a histogram counts. Spans are in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Family {
    /// Last content minus start, successes only.
    RequestLatency,
    /// First content minus start, streamed successes only.
    TimeToFirstToken,
    /// Second content minus first.
    TimeToSecondToken,
    /// (request latency - TTFT) / (output tokens - 1), successes with at least two output tokens.
    InterTokenLatency,
    /// Gaps between consecutive contents, pooled over all successes.
    InterChunkLatency,
    /// End of body minus first content.
    FullDecodeDuration,
    /// Output tokens by the server's usage.
    OutputTokens,
    /// Input tokens of successes.
    InputTokens,
    /// Start minus intended start, all requests.
    SendLag,
    /// Time to establish a connection, new connections only.
    Connect,
    /// Start minus the instant from which on nothing but the client held the request back, all requests. That instant is the intended start,
    /// or the end of the request whose slot it had to wait for.
    ClientLag,
    /// For every completion, the longest that it can have lain unseen: from the core's last look at the kernel to the one that found it.
    Unseen,
    /// How much later than asked a timed wait of a core came back.
    Oversleep,
}

impl Family {
    /// Every family, in the order of the table.
    pub const ALL: [Self; 13] = [
        Self::RequestLatency,
        Self::TimeToFirstToken,
        Self::TimeToSecondToken,
        Self::InterTokenLatency,
        Self::InterChunkLatency,
        Self::FullDecodeDuration,
        Self::OutputTokens,
        Self::InputTokens,
        Self::SendLag,
        Self::Connect,
        Self::ClientLag,
        Self::Unseen,
        Self::Oversleep,
    ];
}

/// One family's values.
#[derive(Debug, Clone)]
pub struct FamilyHistogram {
    histogram: Histogram<u64>,
    count: u64,
    sum: u128,
    sum_of_squares: f64,
    min: u64,
    max: u64,
}

/// The largest value kept apart: six hours, the default request timeout. Larger ones count in the last bucket; the maximum stays exact.
const HIGHEST: u64 = Nanos::from_secs(6 * 3600).0;

impl FamilyHistogram {
    fn new() -> Self {
        Self {
            histogram: Histogram::new_with_bounds(1, HIGHEST, 3)
                .expect("the bounds are constants that the crate accepts"),
            count: 0,
            sum: 0,
            sum_of_squares: 0.0,
            min: u64::MAX,
            max: 0,
        }
    }

    fn record(&mut self, value: u64, times: u64) {
        self.histogram.saturating_record_n(value, times);
        self.count += times;
        self.sum += u128::from(value) * u128::from(times);
        self.sum_of_squares += value as f64 * value as f64 * times as f64;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    fn merge(&mut self, other: &Self) {
        self.histogram
            .add(&other.histogram)
            .expect("both histograms have the same bounds");
        self.count += other.count;
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Exact sum.
    pub fn sum(&self) -> f64 {
        self.sum as f64
    }

    /// Exact mean; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Population standard deviation; `None` without values.
    pub fn std(&self) -> Option<f64> {
        let mean = self.mean()?;
        Some((self.sum_of_squares / self.count as f64 - mean * mean).max(0.0).sqrt())
    }

    /// Exact minimum; `None` without values.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// Exact maximum; `None` without values.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// Number of values of `value` or more, to the histogram's resolution.
    pub fn count_from(&self, value: u64) -> u64 {
        self.histogram.count_between(value.min(HIGHEST), u64::MAX)
    }

    /// The value at a percentile (0 to 100), clamped to the exact minimum and maximum; `None` without values.
    pub fn percentile(&self, percentile: f64) -> Option<u64> {
        (self.count > 0).then(|| self.histogram.value_at_percentile(percentile).clamp(self.min, self.max))
    }
}

/// All families of one phase.
#[derive(Debug, Clone)]
pub struct PhaseHistograms {
    families: Vec<FamilyHistogram>,
    good: u64,
}

impl Default for PhaseHistograms {
    fn default() -> Self {
        Self::new()
    }
}

impl PhaseHistograms {
    /// Empty histograms; the only allocation they ever make.
    pub fn new() -> Self {
        Self {
            families: Family::ALL.iter().map(|_| FamilyHistogram::new()).collect(),
            good: 0,
        }
    }

    /// Counts one value.
    pub fn record(&mut self, family: Family, value: u64) {
        self.families[family as usize].record(value, 1);
    }

    /// Counts one value that occurred `times` times, at least once.
    pub fn record_times(&mut self, family: Family, value: u64, times: u64) {
        self.families[family as usize].record(value, times);
    }

    /// Adds the values of another core. Order does not matter.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.families.iter_mut().zip(&other.families) {
            mine.merge(theirs);
        }
        self.good += other.good;
    }

    /// Counts a request that met every service level. No histogram can tell how many did: they must all be met by the same request.
    pub fn count_good(&mut self) {
        self.good += 1;
    }

    /// Requests that met every service level; 0 if none are given.
    pub fn good(&self) -> u64 {
        self.good
    }

    /// One family.
    pub fn family(&self, family: Family) -> &FamilyHistogram {
        &self.families[family as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_is_the_same_in_any_order_and_moments_are_exact() {
        let mut parts: Vec<PhaseHistograms> = (0..3).map(|_| PhaseHistograms::new()).collect();
        for value in 0..3000u64 {
            parts[(value % 3) as usize].record(Family::RequestLatency, 1_000_000 + value * 7919);
        }
        let mut forward = PhaseHistograms::new();
        let mut backward = PhaseHistograms::new();
        parts.iter().for_each(|p| forward.merge(p));
        parts.iter().rev().for_each(|p| backward.merge(p));
        let (a, b) = (
            forward.family(Family::RequestLatency),
            backward.family(Family::RequestLatency),
        );
        assert_eq!(
            (a.count(), a.min(), a.max(), a.sum()),
            (b.count(), b.min(), b.max(), b.sum())
        );
        assert_eq!(a.percentile(99.0), b.percentile(99.0));
        assert_eq!(a.count(), 3000);
        assert_eq!(a.min(), Some(1_000_000));
        assert_eq!(a.max(), Some(1_000_000 + 2999 * 7919));
    }

    #[test]
    fn a_value_counted_many_times_is_many_values() {
        let (mut once, mut many) = (PhaseHistograms::new(), PhaseHistograms::new());
        for _ in 0..40 {
            once.record(Family::Unseen, 250_000);
        }
        many.record_times(Family::Unseen, 250_000, 40);
        let (once, many) = (once.family(Family::Unseen), many.family(Family::Unseen));
        assert_eq!((once.count(), once.sum()), (many.count(), many.sum()));
        assert_eq!(once.std(), many.std());
        assert_eq!((many.count_from(250_000), many.count_from(260_000)), (40, 0));
        assert_eq!(many.percentile(1.0), Some(250_000));
    }

    #[test]
    fn one_value_is_every_percentile() {
        let mut histograms = PhaseHistograms::new();
        histograms.record(Family::TimeToFirstToken, 682_001);
        let family = histograms.family(Family::TimeToFirstToken);
        for p in [0.0, 1.0, 50.0, 99.0, 100.0] {
            assert_eq!(family.percentile(p), Some(682_001));
        }
        assert_eq!(family.std(), Some(0.0));
    }

    #[test]
    fn values_beyond_the_range_keep_the_exact_maximum() {
        let mut histograms = PhaseHistograms::new();
        histograms.record(Family::RequestLatency, u64::MAX / 2);
        assert_eq!(histograms.family(Family::RequestLatency).max(), Some(u64::MAX / 2));
    }
}
