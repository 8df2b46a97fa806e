//! How long users think between two turns.

use rand_xoshiro::Xoshiro256PlusPlus;

use super::length::standard_normal;
use crate::units::Nanos;

/// A distribution of delays: normal, cut at zero (a negative draw is drawn again).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DelayDistribution {
    /// Mean of the uncut distribution in milliseconds: finite, at least 0.
    pub mean_ms: f64,
    /// Standard deviation of the uncut distribution in milliseconds: finite, at least 0. With 0 every delay is the mean.
    pub stddev_ms: f64,
    /// What every draw is multiplied with: finite, at least 0.
    pub ratio: f64,
}

impl DelayDistribution {
    /// Draws a delay. Without deviation nothing is consumed from the stream.
    pub(super) fn draw(&self, stream: &mut Xoshiro256PlusPlus) -> Nanos {
        let mut delay_ms = self.mean_ms;
        if self.stddev_ms > 0.0 {
            // With a mean of at least 0 a draw is kept with probability 1/2 or more, so this ends soon.
            loop {
                delay_ms = self.mean_ms + self.stddev_ms * standard_normal(stream);
                if delay_ms >= 0.0 {
                    break;
                }
            }
        }
        Nanos::from_secs_f64(delay_ms * self.ratio / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;

    #[test]
    fn a_delay_is_the_mean_or_varies_around_it_and_is_scaled() {
        let mut stream = Xoshiro256PlusPlus::seed_from_u64(3);
        let even = DelayDistribution {
            mean_ms: 250.0,
            stddev_ms: 0.0,
            ratio: 0.5,
        };
        assert_eq!(even.draw(&mut stream), Nanos::from_millis(125));
        let uneven = DelayDistribution {
            mean_ms: 100.0,
            stddev_ms: 20.0,
            ratio: 2.0,
        };
        let draws: Vec<f64> = (0..10_000).map(|_| uneven.draw(&mut stream).as_millis_f64()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        // The standard error of the mean is 0.4 ms.
        assert!((mean - 200.0).abs() < 2.0, "mean {mean}");
        assert!((variance.sqrt() - 40.0).abs() < 1.5, "deviation {}", variance.sqrt());
    }
}
