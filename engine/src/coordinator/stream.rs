//! Random streams that depend on nothing but (seed, phase name, purpose).

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

/// What a stream is drawn for. Each purpose has its own stream, so that switching one on changes no draw of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Gaps between arrivals.
    Arrival,
    /// Steps of a concurrency ramp.
    ConcurrencyRamp,
    /// Steps of a prefill ramp.
    PrefillRamp,
    /// Steps of a rate ramp.
    RateRamp,
}

impl Purpose {
    /// The word in the derivation. Changing it changes every recorded schedule.
    fn as_str(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::ConcurrencyRamp => "concurrency_ramp",
            Self::PrefillRamp => "prefill_ramp",
            Self::RateRamp => "rate_ramp",
        }
    }
}

/// One stream of draws: Xoshiro256++ seeded with the SHA-256 digest of `seed:phase name:purpose`.
///
/// The name and not the position of the phase enters the digest, so inserting a phase leaves the schedules of the others alone.
/// Phase names cannot hold a colon, so two different triples never share a text.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    generator: Xoshiro256PlusPlus,
}

impl Stream {
    /// The stream of one purpose of one phase.
    pub(super) fn new(seed: u64, phase_name: &str, purpose: Purpose) -> Self {
        let digest = Sha256::digest(format!("{seed}:{phase_name}:{}", purpose.as_str()));
        Self {
            generator: Xoshiro256PlusPlus::from_seed(digest.into()),
        }
    }

    /// A uniform draw from [0, 1) with 53 random bits.
    pub(super) fn uniform(&mut self) -> f64 {
        const SCALE: f64 = 1.0 / (1u64 << 53) as f64;
        (self.generator.next_u64() >> 11) as f64 * SCALE
    }

    /// An exponential draw with mean 1, by inversion.
    pub(super) fn exponential(&mut self) -> f64 {
        // 1 - u lies in (0, 1], so the logarithm is finite; ln_1p keeps the precision of small draws.
        -(-self.uniform()).ln_1p()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(mut stream: Stream) -> Vec<f64> {
        (0..64).map(|_| stream.uniform()).collect()
    }

    #[test]
    fn a_stream_is_a_function_of_seed_name_and_purpose() {
        let base = draws(Stream::new(7, "load", Purpose::Arrival));
        assert_eq!(base, draws(Stream::new(7, "load", Purpose::Arrival)));
        assert_ne!(base, draws(Stream::new(8, "load", Purpose::Arrival)));
        assert_ne!(base, draws(Stream::new(7, "Load", Purpose::Arrival)));
    }

    #[test]
    fn the_derivation_is_pinned_so_that_recorded_seeds_stay_valid() {
        let mut stream = Stream::new(42, "profiling", Purpose::Arrival);
        let first: Vec<u64> = (0..2).map(|_| stream.generator.next_u64()).collect();
        assert_eq!(first, [8129214703205974804, 15422429799314342950]);
    }

    #[test]
    fn draws_stay_in_their_ranges() {
        let mut stream = Stream::new(1, "p", Purpose::Arrival);
        for _ in 0..100_000 {
            let uniform = stream.uniform();
            assert!((0.0..1.0).contains(&uniform), "uniform draw {uniform}");
            let exponential = stream.exponential();
            assert!(
                exponential.is_finite() && exponential >= 0.0,
                "exponential draw {exponential}"
            );
        }
    }
}
