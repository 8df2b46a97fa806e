//! How long sequences are, in tokens.

use std::f64::consts::TAU;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

/// A distribution of sequence lengths in tokens. Every draw is a whole number of at least 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LengthDistribution {
    /// Always this long; 0 gives 1.
    Fixed(u32),
    /// Normal, cut at zero (a negative draw is drawn again) and rounded up.
    Normal {
        /// Mean of the uncut distribution: finite, at least 0.
        mean: f64,
        /// Standard deviation of the uncut distribution: finite, at least 0.
        stddev: f64,
    },
}

impl LengthDistribution {
    /// The parameter that no length can be drawn from, if there is one: its name and its value.
    pub fn invalid_parameter(&self) -> Option<(&'static str, f64)> {
        let Self::Normal { mean, stddev } = *self else {
            return None;
        };
        [("mean", mean), ("stddev", stddev)]
            .into_iter()
            .find(|(_, value)| !(value.is_finite() && *value >= 0.0))
    }

    /// Draws a length. A fixed length consumes nothing from the stream.
    ///
    /// # Panics
    /// If a parameter is invalid, see [`invalid_parameter`](Self::invalid_parameter).
    pub(super) fn draw(&self, stream: &mut Xoshiro256PlusPlus) -> u32 {
        match *self {
            Self::Fixed(tokens) => tokens.max(1),
            Self::Normal { mean, stddev } => {
                assert!(
                    self.invalid_parameter().is_none(),
                    "no length can be drawn from {self:?}: mean and stddev are finite and not negative"
                );
                // With a mean of at least 0 a draw is kept with probability 1/2 or more, so this ends soon.
                loop {
                    let length = mean + stddev * standard_normal(stream);
                    if length >= 0.0 {
                        // The cast saturates, so an absurd deviation gives an absurd length and not a wrapped one.
                        return (length.ceil() as u32).max(1);
                    }
                }
            }
        }
    }
}

/// A draw of the standard normal distribution: Box and Muller (1958), of whose pair one value is kept, so that every draw consumes exactly
/// two numbers and a distribution can change its parameters without shifting the draws after it.
pub(super) fn standard_normal(stream: &mut Xoshiro256PlusPlus) -> f64 {
    // 53 bits each; the first lies in (0, 1], so that its logarithm is finite.
    let radius_draw = ((stream.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    let angle_draw = (stream.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    (-2.0 * radius_draw.ln()).sqrt() * (TAU * angle_draw).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;

    fn draws(distribution: LengthDistribution, count: usize) -> Vec<u32> {
        let mut stream = Xoshiro256PlusPlus::seed_from_u64(7);
        (0..count).map(|_| distribution.draw(&mut stream)).collect()
    }

    #[test]
    fn normal_lengths_have_the_mean_and_deviation_asked_for() {
        let lengths = draws(
            LengthDistribution::Normal {
                mean: 500.0,
                stddev: 50.0,
            },
            20_000,
        );
        let mean = lengths.iter().map(|&l| f64::from(l)).sum::<f64>() / lengths.len() as f64;
        let variance = lengths.iter().map(|&l| (f64::from(l) - mean).powi(2)).sum::<f64>() / lengths.len() as f64;
        // Rounding up adds half a token; the standard error of the mean is 50 / sqrt(20000) = 0.35.
        assert!((mean - 500.5).abs() < 1.5, "mean {mean}");
        assert!(
            (variance.sqrt() - 50.0).abs() < 1.5,
            "standard deviation {}",
            variance.sqrt()
        );
    }

    #[test]
    fn a_cut_normal_is_redrawn_and_not_piled_up_at_one() {
        // Half of the uncut draws are negative. Clamping would give 1 to that half; redrawing leaves about 0.8 % of the mass in (0, 1].
        let lengths = draws(
            LengthDistribution::Normal {
                mean: 0.0,
                stddev: 100.0,
            },
            10_000,
        );
        let ones = lengths.iter().filter(|&&l| l == 1).count();
        assert!((40..160).contains(&ones), "{ones} of 10,000 lengths are 1");
    }

    #[test]
    fn lengths_are_rounded_up_and_never_zero() {
        assert_eq!(draws(LengthDistribution::Fixed(0), 1), [1]);
        assert_eq!(draws(LengthDistribution::Normal { mean: 0.0, stddev: 0.0 }, 1), [1]);
        assert_eq!(
            draws(
                LengthDistribution::Normal {
                    mean: 12.1,
                    stddev: 0.0
                },
                1
            ),
            [13]
        );
    }

    #[test]
    fn bad_parameters_are_named() {
        let bad = |mean, stddev| {
            LengthDistribution::Normal { mean, stddev }
                .invalid_parameter()
                .map(|(name, _)| name)
        };
        assert_eq!(bad(f64::NAN, 1.0), Some("mean"));
        assert_eq!(bad(-1.0, 1.0), Some("mean"));
        assert_eq!(bad(1.0, f64::INFINITY), Some("stddev"));
        assert_eq!(bad(1.0, 0.0), None);
        assert_eq!(LengthDistribution::Fixed(1).invalid_parameter(), None);
    }
}
