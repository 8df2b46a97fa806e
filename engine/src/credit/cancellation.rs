//! Which requests of a phase are disconnected on purpose: one independent draw per request.

use sha2::{Digest, Sha256};

use super::ids::{GAMMA, mix};
use crate::units::Nanos;

/// The draws of one phase.
///
/// A draw is a function of (seed, phase name, sequence), so it is the same whoever makes it, in whatever order, on any number of cores. The
/// outputs of SplitMix64 are such a function: the generator's state is a counter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cancellations {
    key: u64,
    probability: f64,
    delay: Nanos,
}

impl Cancellations {
    /// Draws with this probability, each for a disconnect after `delay`.
    pub(crate) fn new(seed: u64, phase_name: &str, probability: f64, delay: Nanos) -> Self {
        let digest = Sha256::digest(format!("{seed}:{phase_name}:cancellation"));
        Self {
            key: u64::from_le_bytes(*digest.first_chunk().expect("a SHA-256 digest has 32 bytes")),
            probability,
            delay,
        }
    }

    /// When request `sequence` is disconnected, counted from its last byte's hand-over to the kernel; `None` leaves it alone.
    pub(crate) fn draw(&self, sequence: u64) -> Option<Nanos> {
        const SCALE: f64 = 1.0 / (1u64 << 53) as f64;
        let uniform = (mix(self.key.wrapping_add(sequence.wrapping_mul(GAMMA))) >> 11) as f64 * SCALE;
        (uniform < self.probability).then_some(self.delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(draws: Cancellations) -> Vec<u64> {
        (0..20_000).filter(|&sequence| draws.draw(sequence).is_some()).collect()
    }

    #[test]
    fn draws_have_their_probability_and_do_not_follow_one_another() {
        let chosen = chosen(Cancellations::new(7, "load", 0.3, Nanos::ZERO));
        // 20,000 draws: mean 6,000, standard deviation 65.
        assert!((5_700..6_300).contains(&chosen.len()), "{} of 20,000", chosen.len());
        let pairs = chosen.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
        assert!((1_620..1_980).contains(&pairs), "{pairs} neighbours, 1,800 expected");
    }

    #[test]
    fn a_phase_has_draws_of_its_own_and_borders_are_exact() {
        let of = |seed, name| chosen(Cancellations::new(seed, name, 0.5, Nanos::ZERO));
        assert_eq!(of(1, "a"), of(1, "a"));
        assert_ne!(of(1, "a"), of(2, "a"));
        assert_ne!(of(1, "a"), of(1, "b"));
        assert!(chosen(Cancellations::new(1, "a", 0.0, Nanos::ZERO)).is_empty());
        assert_eq!(chosen(Cancellations::new(1, "a", 1.0, Nanos::ZERO)).len(), 20_000);
    }
}
