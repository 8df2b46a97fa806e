//! Statistics over the values of one metric.

use super::radix::Number;
use crate::record::FamilyHistogram;

/// The percentiles of every distribution, in the order of the artifacts.
pub const PERCENTILES: [u8; 9] = [1, 5, 10, 25, 50, 75, 90, 95, 99];

/// Statistics of one metric in its exported unit. `None` is a figure that does not exist; every figure present is finite.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// Arithmetic mean.
    pub avg: Option<f64>,
    /// Values at [`PERCENTILES`].
    pub percentiles: [Option<f64>; PERCENTILES.len()],
    /// Smallest value.
    pub min: Option<f64>,
    /// Largest value.
    pub max: Option<f64>,
    /// Population standard deviation.
    pub std: Option<f64>,
    /// Number of values; 0 for a curve over time, which has none.
    pub count: u64,
    /// Sum of all values.
    pub sum: Option<f64>,
}

/// A stretch of time in which a curve does not move.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Piece {
    pub(super) value: f64,
    /// Nanoseconds.
    pub(super) length: u64,
}

impl Number for Piece {
    fn key(self) -> u64 {
        self.value.key()
    }
}

/// The percentiles of a curve over time.
const OVER_TIME: [u8; 4] = [50, 90, 95, 99];

impl Distribution {
    /// The value at one of [`PERCENTILES`]; `None` for any other.
    pub fn percentile(&self, percentile: u8) -> Option<f64> {
        let at = PERCENTILES.iter().position(|&p| p == percentile)?;
        self.percentiles[at]
    }

    /// Exact statistics of `count` values, where `at` gives them in ascending order; `None` without values.
    ///
    /// Percentiles are interpolated linearly at rank `q / 100 * (count - 1)`. Sums run in ascending order, so the figures do not depend on
    /// the order in which records arrived, and compensation (Neumaier) keeps them right for billions of values.
    pub(super) fn of_sorted(count: usize, at: impl Fn(usize) -> f64) -> Option<Self> {
        let last = count.checked_sub(1)?;
        let (min, max) = (at(0), at(last));
        let sum = compensated_sum((0..count).map(&at));
        // Rounding must not put the mean of equal values outside of them.
        let mean = (sum / count as f64).clamp(min, max);
        let squares = compensated_sum((0..count).map(|i| (at(i) - mean) * (at(i) - mean)));
        Some(Self {
            avg: Some(mean),
            percentiles: PERCENTILES.map(|q| {
                let rank = f64::from(q) / 100.0 * last as f64;
                let below = rank.floor() as usize;
                Some(interpolate(at(below), at((below + 1).min(last)), rank - rank.floor()))
            }),
            min: Some(min),
            max: Some(max),
            std: Some((squares / count as f64).sqrt()),
            count: count as u64,
            sum: Some(sum),
        })
    }

    /// The error-adjusted twin: the same values and one infinity per failed request, percentiles by nearest rank (ties to the even rank).
    /// Only finite figures are kept; `None` without values.
    pub(super) fn with_failures(count: usize, failures: u64, at: impl Fn(usize) -> f64) -> Option<Self> {
        if count == 0 {
            return None;
        }
        let total = count as u64 + failures;
        let nearest = |q: u8| {
            let rank = (f64::from(q) / 100.0 * (total - 1) as f64).round_ties_even() as usize;
            (rank < count).then(|| at(rank))
        };
        Some(Self {
            avg: None,
            percentiles: PERCENTILES.map(nearest),
            min: Some(at(0)),
            max: None,
            std: None,
            count: total,
            sum: None,
        })
    }

    /// Statistics of a curve, given as pieces with values going up: each counts by its length. A percentile is the value below or at which the curve
    /// lies for that share of the time. `None` without pieces.
    pub(super) fn over_time(sorted: &[Piece]) -> Option<Self> {
        let (first, last) = (sorted.first()?, sorted.last()?);
        let total: u128 = sorted.iter().map(|piece| u128::from(piece.length)).sum();
        let weighted = |value: &dyn Fn(f64) -> f64| {
            compensated_sum(sorted.iter().map(|piece| value(piece.value) * piece.length as f64)) / total as f64
        };
        let mean = weighted(&|value| value).clamp(first.value, last.value);
        let mut percentiles = [None; PERCENTILES.len()];
        let (mut pieces, mut passed) = (sorted.iter(), 0u128);
        let mut value = None;
        for (percentile, figure) in PERCENTILES.into_iter().zip(&mut percentiles) {
            while passed * 100 < u128::from(percentile) * total {
                let piece = pieces.next()?;
                passed += u128::from(piece.length);
                value = Some(piece.value);
            }
            *figure = value.filter(|_| OVER_TIME.contains(&percentile));
        }
        Some(Self {
            avg: Some(mean),
            percentiles,
            min: Some(first.value),
            max: Some(last.value),
            std: Some(weighted(&|value| (value - mean) * (value - mean)).sqrt()),
            count: 0,
            sum: None,
        })
    }

    /// Statistics of a histogram: everything exact but the percentiles, which carry its resolution; `None` without values.
    pub(super) fn of_histogram(family: &FamilyHistogram) -> Option<Self> {
        let (min, max) = (family.min()? as f64, family.max()? as f64);
        Some(Self {
            avg: family.mean().map(|mean| mean.clamp(min, max)),
            percentiles: PERCENTILES.map(|q| family.percentile(f64::from(q)).map(|v| v as f64)),
            min: Some(min),
            max: Some(max),
            std: family.std(),
            count: family.count(),
            sum: Some(family.sum()),
        })
    }

    /// The same figures in a unit that is `divisor` times larger.
    pub(super) fn scaled(self, divisor: f64) -> Self {
        let scale = |figure: Option<f64>| figure.map(|f| f / divisor).filter(|f| f.is_finite());
        Self {
            avg: scale(self.avg),
            percentiles: self.percentiles.map(scale),
            min: scale(self.min),
            max: scale(self.max),
            std: scale(self.std),
            count: self.count,
            sum: scale(self.sum),
        }
    }
}

/// Between `a` and `b`, never outside: the two forms are exact at their own end.
fn interpolate(a: f64, b: f64, fraction: f64) -> f64 {
    let step = b - a;
    let value = if fraction < 0.5 {
        a + step * fraction
    } else {
        b - step * (1.0 - fraction)
    };
    value.clamp(a, b)
}

fn compensated_sum(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0f64);
    for value in values {
        let next = sum + value;
        lost += if sum.abs() >= value.abs() {
            (sum - next) + value
        } else {
            (value - next) + sum
        };
        sum = next;
    }
    sum + lost
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::{Family, PhaseHistograms};

    fn exact(values: &[f64]) -> Option<Distribution> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Distribution::of_sorted(sorted.len(), |i| sorted[i])
    }

    /// The textbook definition, written apart from the code above: walk to the rank and weigh the two neighbours.
    fn reference_percentile(values: &[f64], q: f64) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_by(|a, b| a.partial_cmp(b).unwrap());
        let rank = (sorted.len() - 1) as f64 * q / 100.0;
        let (low, high) = (rank as usize, rank.ceil() as usize);
        sorted[low] * (1.0 - rank.fract()) + sorted[high] * rank.fract()
    }

    #[test]
    fn figures_of_four_values_computed_by_hand() {
        let d = exact(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((d.avg, d.sum, d.count), (Some(2.5), Some(10.0), 4));
        assert_eq!((d.min, d.max), (Some(1.0), Some(4.0)));
        // Population deviation: sqrt((1.5^2 + 0.5^2) * 2 / 4).
        assert_eq!(d.std, Some(1.25f64.sqrt()));
        assert_eq!(d.percentile(50), Some(2.5));
        assert_eq!(d.percentile(25), Some(1.75));
        // Rank 2.97: between 3 and 4.
        assert!((d.percentile(99).unwrap() - 3.97).abs() < 1e-12);
        assert_eq!(d.percentile(42), None);
    }

    #[test]
    fn the_error_adjusted_twin_takes_the_nearest_rank_and_drops_what_is_infinite() {
        let sorted: Vec<f64> = (1..=6).map(f64::from).collect();
        let d = Distribution::with_failures(6, 5, |i| sorted[i]).unwrap();
        assert_eq!((d.count, d.min), (11, Some(1.0)));
        assert_eq!((d.avg, d.max, d.std, d.sum), (None, None, None, None));
        // Eleven values: p25 is at rank 2.5, a tie, taken at the even rank 2; p50 at rank 5; p75 at rank 7.5 is a failure.
        assert_eq!(d.percentile(25), Some(3.0));
        assert_eq!(d.percentile(50), Some(6.0));
        assert_eq!(d.percentile(75), None);
        assert_eq!(Distribution::with_failures(0, 5, |_| unreachable!()), None);
    }

    #[test]
    fn a_curve_counts_by_the_length_of_its_pieces() {
        let piece = |value, length| Piece { value, length };
        let d = Distribution::over_time(&[piece(0.0, 10), piece(2.0, 40), piece(4.0, 50)]).unwrap();
        assert_eq!((d.avg, d.min, d.max), (Some(2.8), Some(0.0), Some(4.0)));
        // 10 x 2.8^2 + 40 x 0.8^2 + 50 x 1.2^2, over 100.
        assert!((d.std.unwrap() - 1.76f64.sqrt()).abs() < 1e-12);
        // Half of the time the curve is at 2 or below, exactly.
        assert_eq!((d.percentile(50), d.percentile(90)), (Some(2.0), Some(4.0)));
        assert_eq!((d.percentile(25), d.sum, d.count), (None, None, 0));
        assert_eq!(Distribution::over_time(&[]), None);
    }

    #[test]
    fn a_histogram_keeps_exact_moments() {
        let mut histograms = PhaseHistograms::new();
        for value in [1_000_000u64, 3_000_000] {
            histograms.record(Family::RequestLatency, value);
        }
        let d = Distribution::of_histogram(histograms.family(Family::RequestLatency)).unwrap();
        let d = d.scaled(1e6);
        assert_eq!((d.avg, d.std, d.sum), (Some(2.0), Some(1.0), Some(4.0)));
        assert_eq!((d.min, d.max, d.count), (Some(1.0), Some(3.0), 2));
        assert_eq!(Distribution::of_histogram(histograms.family(Family::Connect)), None);
    }

    #[test]
    fn small_deviations_of_large_values_are_not_lost() {
        let d = exact(&[1e15, 1e15 + 1.0]).unwrap();
        assert_eq!(d.std, Some(0.5));
    }

    proptest! {
        #[test]
        fn percentiles_follow_the_definition_and_go_up(values in prop::collection::vec(0.0..1e12f64, 1..300)) {
            let d = exact(&values).unwrap();
            let mut previous = d.min.unwrap();
            for (q, p) in PERCENTILES.iter().zip(d.percentiles) {
                let (p, expected) = (p.unwrap(), reference_percentile(&values, f64::from(*q)));
                prop_assert!((p - expected).abs() <= 1e-9 * expected.abs().max(1.0), "p{q}: {p} is not {expected}");
                prop_assert!(p >= previous);
                previous = p;
            }
            prop_assert!(d.max.unwrap() >= previous);
            prop_assert!(d.avg.unwrap() >= d.min.unwrap() && d.avg.unwrap() <= d.max.unwrap());
        }

        #[test]
        fn equal_values_are_every_figure(value in 0.0..1e18f64, count in 1usize..500) {
            let d = exact(&vec![value; count]).unwrap();
            prop_assert!(d.percentiles.iter().chain([&d.avg, &d.min, &d.max]).all(|f| *f == Some(value)));
            prop_assert_eq!(d.std, Some(0.0));
        }
    }
}
