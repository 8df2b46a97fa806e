//! How long users think between two turns.

use rand_xoshiro::Xoshiro256PlusPlus;

use super::distribution::Distribution;
use crate::units::Nanos;

/// A distribution of delays.
#[derive(Debug, Clone, PartialEq)]
pub struct DelayDistribution {
    /// Draws, in milliseconds.
    pub delays_ms: Distribution<f64>,
    /// What every draw is multiplied with: finite, at least 0.
    pub ratio: f64,
}

impl DelayDistribution {
    /// Always this long.
    pub fn fixed(delay_ms: f64) -> Self {
        Self {
            delays_ms: Distribution::Fixed(delay_ms),
            ratio: 1.0,
        }
    }

    /// Draws a delay. What has one value only consumes nothing from the stream.
    ///
    /// # Panics
    /// If a parameter is invalid, see [`invalid_parameter`](Distribution::invalid_parameter).
    pub(super) fn draw(&self, stream: &mut Xoshiro256PlusPlus) -> Nanos {
        Nanos::from_secs_f64(self.delays_ms.draw_number(stream) * self.ratio / 1e3)
    }
}

impl Default for DelayDistribution {
    /// No delay.
    fn default() -> Self {
        Self::fixed(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{Clamped, Shares};
    use rand_xoshiro::rand_core::SeedableRng;

    #[test]
    fn a_delay_is_the_mean_or_varies_around_it_and_is_scaled() {
        let mut stream = Xoshiro256PlusPlus::seed_from_u64(3);
        let even = DelayDistribution {
            ratio: 0.5,
            ..DelayDistribution::fixed(250.0)
        };
        assert_eq!(even.draw(&mut stream), Nanos::from_millis(125));
        let uneven = DelayDistribution {
            delays_ms: Distribution::Normal {
                mean: 100.0,
                stddev: 20.0,
            },
            ratio: 2.0,
        };
        let draws: Vec<f64> = (0..10_000).map(|_| uneven.draw(&mut stream).as_millis_f64()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        // The standard error of the mean is 0.4 ms.
        assert!((mean - 200.0).abs() < 2.0, "mean {mean}");
        assert!((variance.sqrt() - 40.0).abs() < 1.5, "deviation {}", variance.sqrt());
    }

    #[test]
    fn delays_have_fractions_and_keep_to_bounds() {
        let mut stream = Xoshiro256PlusPlus::seed_from_u64(3);
        let points = Distribution::Points(Shares::new([(1.0, 0.25), (1.0, 900.0)]));
        let clamped = DelayDistribution {
            delays_ms: Distribution::Clamped(Box::new(Clamped {
                of: points,
                min: 0.0,
                max: 500.0,
            })),
            ratio: 1.0,
        };
        let mut draws: Vec<Nanos> = (0..100).map(|_| clamped.draw(&mut stream)).collect();
        draws.sort_unstable();
        draws.dedup();
        assert_eq!(draws, [Nanos::from_micros(250), Nanos::from_millis(500)]);
    }

    #[test]
    fn a_delay_beyond_all_time_is_the_longest_and_no_fault() {
        let mut stream = Xoshiro256PlusPlus::seed_from_u64(3);
        let vast = DelayDistribution {
            delays_ms: Distribution::LogNormal {
                mean: f64::MAX,
                median: f64::MIN_POSITIVE,
            },
            ratio: f64::MAX,
        };
        let draws: Vec<Nanos> = (0..1000).map(|_| vast.draw(&mut stream)).collect();
        assert!(draws.contains(&Nanos::from_secs_f64(f64::INFINITY)) && draws.contains(&Nanos::ZERO));
    }
}
