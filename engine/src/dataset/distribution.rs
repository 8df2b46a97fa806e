//! Distributions of lengths, counts and delays.
//!
//! How many numbers of its stream a draw consumes depends on the kind of distribution alone, but for draws that are cut at zero and drawn again.
//! Each draw of a dataset has a stream of its own, so one never shifts another.

use std::f64::consts::TAU;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

use super::shares::Shares;

/// A distribution of numbers that are not negative. `T` is what a number that is given as such is: whole for lengths, any for delays.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution<T> {
    /// Always this.
    Fixed(T),
    /// Normal, cut at zero (a negative draw is drawn again).
    Normal {
        /// Mean of the uncut distribution: finite, at least 0.
        mean: f64,
        /// Standard deviation of the uncut distribution: finite, at least 0. With 0 every draw is the mean.
        stddev: f64,
    },
    /// Log-normal: its logarithm is normal with mean `ln median` and variance `2 ln (mean / median)`.
    LogNormal {
        /// Mean: finite, at least the median.
        mean: f64,
        /// Median: above 0. One that equals the mean is every draw.
        median: f64,
    },
    /// Every whole number within these bounds alike, both included.
    Range {
        /// The least.
        min: u32,
        /// The greatest, at least `min`.
        max: u32,
    },
    /// One of several distributions, drawn each time.
    Mixture(Shares<Distribution<T>>),
    /// One of several numbers.
    Points(Shares<T>),
    /// Another one, whose draws outside of bounds become these bounds.
    Clamped(Box<Clamped<T>>),
}

/// A distribution within bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Clamped<T> {
    /// What is drawn.
    pub of: Distribution<T>,
    /// The least value; may be infinite.
    pub min: f64,
    /// The greatest, at least `min`; may be infinite.
    pub max: f64,
}

/// A distribution of lengths in tokens, or of counts. Every draw is a whole number of at least 1: it is rounded up, after bounds are applied.
pub type LengthDistribution = Distribution<u32>;

impl<T: Copy + Into<f64>> Distribution<T> {
    /// The parameter that nothing can be drawn from, if there is one: its name and its value.
    pub fn invalid_parameter(&self) -> Option<(&'static str, f64)> {
        let amount = |value: f64| value.is_finite() && value >= 0.0;
        match self {
            Self::Fixed(_) | Self::Points(_) => None,
            Self::Normal { mean, stddev } => [("mean", *mean), ("stddev", *stddev)]
                .into_iter()
                .find(|(_, value)| !amount(*value)),
            Self::LogNormal { mean, .. } if !amount(*mean) => Some(("mean", *mean)),
            Self::LogNormal { mean, median } => (!(*median > 0.0 && median <= mean)).then_some(("median", *median)),
            Self::Range { min, max } => (min > max).then_some(("min", (*min).into())),
            Self::Mixture(peaks) => peaks.iter().find_map(Self::invalid_parameter),
            Self::Clamped(clamped) => {
                let Clamped { of, min, max } = &**clamped;
                let bounds = (min.is_nan() || max.is_nan() || min > max).then_some(("min", *min));
                bounds.or_else(|| of.invalid_parameter())
            }
        }
    }

    /// Draws a number, not rounded. What has one value only consumes nothing from the stream.
    ///
    /// # Panics
    /// If a parameter is invalid, see [`invalid_parameter`](Self::invalid_parameter).
    pub(super) fn draw_number(&self, stream: &mut Xoshiro256PlusPlus) -> f64 {
        match self {
            Self::Fixed(value) => (*value).into(),
            Self::Points(points) => (*points.draw(stream)).into(),
            Self::Mixture(peaks) => peaks.draw(stream).draw_number(stream),
            Self::Clamped(clamped) => {
                let Clamped { of, min, max } = &**clamped;
                of.draw_number(stream).clamp(*min, *max)
            }
            _ => {
                assert!(
                    self.invalid_parameter().is_none(),
                    "nothing can be drawn: {:?} is invalid",
                    self.invalid_parameter()
                );
                self.draw_from_law(stream)
            }
        }
    }

    fn draw_from_law(&self, stream: &mut Xoshiro256PlusPlus) -> f64 {
        match *self {
            // Nothing is drawn, so that a mean alone gives the prompts of a number alone.
            Self::Normal { mean, stddev: 0.0 } => mean,
            // With a mean of at least 0 a draw is kept with probability 1/2 or more, so this ends soon.
            Self::Normal { mean, stddev } => loop {
                let number = mean + stddev * standard_normal(stream);
                if number >= 0.0 {
                    return number;
                }
            },
            Self::LogNormal { mean, median } if mean == median => median,
            Self::LogNormal { mean, median } => {
                let deviation = (2.0 * (mean / median).ln()).sqrt();
                median * (deviation * standard_normal(stream)).exp()
            }
            Self::Range { min, max } => {
                // At most 2^32 numbers, of which a draw of 53 bits prefers none by more than one in 2^21.
                let count = f64::from(max) - f64::from(min) + 1.0;
                (f64::from(min) + (count * uniform(stream)).floor()).min(max.into())
            }
            Self::Fixed(_) | Self::Points(_) | Self::Mixture(_) | Self::Clamped(_) => {
                unreachable!("these have no law of their own")
            }
        }
    }
}

impl LengthDistribution {
    /// Draws a length. A fixed length consumes nothing from the stream.
    ///
    /// # Panics
    /// If a parameter is invalid, see [`invalid_parameter`](Self::invalid_parameter).
    pub(super) fn draw(&self, stream: &mut Xoshiro256PlusPlus) -> u32 {
        // The cast saturates, so an absurd deviation gives an absurd length and not a wrapped one.
        (self.draw_number(stream).ceil() as u32).max(1)
    }
}

/// A number from 0 to below 1, of 53 bits.
pub(super) fn uniform(stream: &mut Xoshiro256PlusPlus) -> f64 {
    (stream.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// A draw of the standard normal distribution: Box and Muller (1958), of whose pair one value is kept, so that every draw consumes exactly
/// two numbers and a distribution can change its parameters without shifting the draws after it.
fn standard_normal(stream: &mut Xoshiro256PlusPlus) -> f64 {
    // 53 bits each; the first lies in (0, 1], so that its logarithm is finite.
    let radius_draw = ((stream.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    let angle_draw = uniform(stream);
    (-2.0 * radius_draw.ln()).sqrt() * (TAU * angle_draw).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;

    /// A law without a name in a message of a test.
    type Law = LengthDistribution;

    fn draws(distribution: Law, count: usize) -> Vec<u32> {
        let mut stream = Xoshiro256PlusPlus::seed_from_u64(7);
        (0..count).map(|_| distribution.draw(&mut stream)).collect()
    }

    fn moments(lengths: &[u32]) -> (f64, f64) {
        let mean = lengths.iter().map(|&l| f64::from(l)).sum::<f64>() / lengths.len() as f64;
        let variance = lengths.iter().map(|&l| (f64::from(l) - mean).powi(2)).sum::<f64>() / lengths.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn normal_lengths_have_the_mean_and_deviation_asked_for() {
        let normal = Law::Normal {
            mean: 500.0,
            stddev: 50.0,
        };
        let (mean, deviation) = moments(&draws(normal, 20_000));
        // Rounding up adds half a token; the standard error of the mean is 50 / sqrt(20000) = 0.35.
        assert!((mean - 500.5).abs() < 1.5, "mean {mean}");
        assert!((deviation - 50.0).abs() < 1.5, "standard deviation {deviation}");
    }

    #[test]
    fn a_normal_draws_what_it_always_drew() {
        let normal = Law::Normal {
            mean: 40.0,
            stddev: 15.0,
        };
        assert_eq!(draws(normal, 6), [57, 30, 37, 35, 43, 55]);
    }

    #[test]
    fn a_cut_normal_is_redrawn_and_not_piled_up_at_one() {
        // Half of the uncut draws are negative. Clamping would give 1 to that half; redrawing leaves about 0.8 % of the mass in (0, 1].
        let normal = Law::Normal {
            mean: 0.0,
            stddev: 100.0,
        };
        let lengths = draws(normal, 10_000);
        let ones = lengths.iter().filter(|&&l| l == 1).count();
        assert!((40..160).contains(&ones), "{ones} of 10,000 lengths are 1");
    }

    #[test]
    fn log_normal_lengths_have_the_mean_and_the_median_asked_for() {
        let law = Law::LogNormal {
            mean: 1024.0,
            median: 512.0,
        };
        let mut lengths = draws(law, 100_000);
        let (mean, deviation) = moments(&lengths);
        // The variance is mean^2 (mean^2 / median^2 - 1), so the standard error of the mean is 1024 sqrt(3 / 100000) = 5.6.
        assert!((mean - 1024.5).abs() < 20.0, "mean {mean}");
        assert!(
            (deviation / (1024.0 * 3f64.sqrt()) - 1.0).abs() < 0.15,
            "standard deviation {deviation}"
        );
        lengths.sort_unstable();
        let median = lengths[lengths.len() / 2];
        assert!(median.abs_diff(512) < 8, "median {median}");
    }

    #[test]
    fn without_skew_a_log_normal_is_its_median_to_the_token() {
        for tokens in 1..2000 {
            let value = f64::from(tokens);
            let law = Law::LogNormal {
                mean: value,
                median: value,
            };
            assert_eq!(draws(law, 1), [tokens]);
        }
    }

    #[test]
    fn a_mixture_draws_from_its_peaks_by_weight() {
        let peak = |mean| Law::Normal { mean, stddev: 5.0 };
        let mixture = Law::Mixture(Shares::new([
            (3.0, peak(100.0)),
            (1.0, Law::Fixed(900)),
            (0.0, Law::Fixed(7)),
        ]));
        let lengths = draws(mixture, 40_000);
        let (low, high): (Vec<u32>, Vec<u32>) = lengths.iter().partition(|&&length| length < 500);
        assert!(low.len().abs_diff(30_000) < 400, "{} short ones", low.len());
        assert!(high.iter().all(|&length| length == 900));
        let (mean, deviation) = moments(&low);
        assert!(
            (mean - 100.5).abs() < 0.3 && (deviation - 5.0).abs() < 0.2,
            "{mean} {deviation}"
        );
    }

    #[test]
    fn points_are_drawn_as_they_are() {
        let points = Law::Points(Shares::new([(40.0, 128), (35.0, 512), (25.0, 2048)]));
        let lengths = draws(points, 40_000);
        for (value, share) in [(128, 16_000), (512, 14_000), (2048, 10_000)] {
            let count = lengths.iter().filter(|&&length| length == value).count();
            assert!(count.abs_diff(share) < 400, "{count} times {value}");
        }
    }

    #[test]
    fn a_range_has_all_its_numbers_and_both_ends() {
        let mut counts = [0u32; 5];
        for length in draws(Law::Range { min: 3, max: 7 }, 50_000) {
            counts[length as usize - 3] += 1;
        }
        assert!(counts.iter().all(|&count| count.abs_diff(10_000) < 400), "{counts:?}");
        let all = Law::Range { min: 0, max: u32::MAX };
        assert!(draws(all, 1000).iter().any(|&length| length > 3_000_000_000));
        assert_eq!(draws(Law::Range { min: 5, max: 5 }, 2), [5, 5]);
    }

    #[test]
    fn draws_outside_of_bounds_become_the_bounds() {
        let clamped = |of, min, max| Law::Clamped(Box::new(Clamped { of, min, max }));
        let normal = Law::Normal {
            mean: 100.0,
            stddev: 50.0,
        };
        let free = draws(normal.clone(), 2000);
        let bound = draws(clamped(normal, 80.0, 120.0), 2000);
        assert!(
            free.iter()
                .zip(&bound)
                .all(|(free, bound)| (*free).clamp(80, 120) == *bound)
        );
        assert_eq!(draws(clamped(Law::Fixed(5), 8.0, f64::INFINITY), 1), [8]);
        assert_eq!(draws(clamped(Law::Fixed(5), f64::NEG_INFINITY, 2.5), 1), [3]);
        let points = Law::Points(Shares::new([(1.0, 1), (1.0, 9)]));
        assert_eq!(draws(clamped(points, 4.0, 4.0), 3), [4, 4, 4]);
    }

    #[test]
    fn lengths_are_rounded_up_and_never_zero() {
        assert_eq!(draws(Law::Fixed(0), 1), [1]);
        assert_eq!(draws(Law::Normal { mean: 0.0, stddev: 0.0 }, 1), [1]);
        let above = Law::Normal {
            mean: 12.1,
            stddev: 0.0,
        };
        assert_eq!(draws(above, 1), [13]);
        let tiny = Law::LogNormal {
            mean: 1e-3,
            median: 1e-9,
        };
        assert!(draws(tiny, 1000).iter().all(|&length| length >= 1));
        assert_eq!(draws(Law::Points(Shares::new([(1.0, 0)])), 1), [1]);
        assert_eq!(draws(Law::Range { min: 0, max: 0 }, 1), [1]);
        let below = Law::Clamped(Box::new(Clamped {
            of: Law::Fixed(9),
            min: -5.0,
            max: -1.0,
        }));
        assert_eq!(draws(below, 1), [1]);
    }

    #[test]
    fn a_tail_beyond_all_bounds_saturates() {
        let law = Law::LogNormal {
            mean: f64::MAX,
            median: f64::MIN_POSITIVE,
        };
        assert!(draws(law, 1000).contains(&u32::MAX));
    }

    #[test]
    fn bad_parameters_are_named() {
        let bad = |law: Law| law.invalid_parameter().map(|(name, _)| name);
        let normal = |mean, stddev| Law::Normal { mean, stddev };
        assert_eq!(bad(normal(f64::NAN, 1.0)), Some("mean"));
        assert_eq!(bad(normal(-1.0, 1.0)), Some("mean"));
        assert_eq!(bad(normal(1.0, f64::INFINITY)), Some("stddev"));
        assert_eq!(bad(normal(1.0, 0.0)), None);
        assert_eq!(bad(Law::Fixed(1)), None);
        let log_normal = |mean, median| Law::LogNormal { mean, median };
        assert_eq!(bad(log_normal(5.0, 9.0)), Some("median"));
        assert_eq!(bad(log_normal(5.0, 0.0)), Some("median"));
        assert_eq!(bad(log_normal(f64::INFINITY, 1.0)), Some("mean"));
        assert_eq!(bad(log_normal(5.0, 5.0)), None);
        assert_eq!(
            bad(Law::Mixture(Shares::new([
                (1.0, normal(1.0, 1.0)),
                (1.0, log_normal(1.0, 2.0))
            ]))),
            Some("median")
        );
        let clamped = |min, max| {
            Law::Clamped(Box::new(Clamped {
                of: normal(1.0, 1.0),
                min,
                max,
            }))
        };
        assert_eq!(bad(clamped(2.0, 1.0)), Some("min"));
        assert_eq!(bad(clamped(f64::NAN, 1.0)), Some("min"));
        assert_eq!(bad(clamped(1.0, 1.0)), None);
        assert_eq!(bad(Law::Range { min: 2, max: 1 }), Some("min"));
    }
}
