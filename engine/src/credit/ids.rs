//! Request and session identities, computed instead of stored.

use crate::id::PhaseId;

/// The identities of a run's requests: 128-bit values that are unique over the run, reproducible from (run key, phase, sequence), and
/// shown as version 4 UUIDs (RFC 9562).
#[derive(Debug, Clone, Copy)]
pub struct RequestIds {
    key: u64,
}

/// What SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014) counts by: 2^64 divided by the golden ratio.
pub(super) const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's next output after the state `z`: a bijection on 64 bits.
pub(super) fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(GAMMA);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl RequestIds {
    /// Identities of the run named by `benchmark_id`.
    pub fn new(benchmark_id: &str) -> Self {
        // FNV-1a: any spread of the name over 64 bits will do.
        let key = benchmark_id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self { key }
    }

    fn pair(self, purpose: u64, phase: PhaseId, sequence: u64) -> (u64, u64) {
        let high = mix(self.key ^ (u64::from(phase.0) << 8) ^ purpose);
        // Each half spreads the sequence over 64 bits by a bijection of its own, so two requests share an identity only if both halves agree in
        // the bits that a version 4 UUID keeps.
        (high ^ mix(sequence), mix(high.wrapping_add(sequence)))
    }

    /// `X-Request-ID`, as two halves.
    pub fn request(self, phase: PhaseId, sequence: u64) -> (u64, u64) {
        self.pair(1, phase, sequence)
    }

    /// `X-Correlation-ID` of a session, as two halves: of its number in the phase.
    pub fn session(self, phase: PhaseId, session: u64) -> (u64, u64) {
        self.pair(2, phase, session)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn identities_are_unique_over_phases_and_purposes() {
        let ids = RequestIds::new("0123456789ab");
        let mut seen = HashSet::new();
        for phase in 0..5 {
            for sequence in 0..20_000 {
                assert!(seen.insert(ids.request(PhaseId(phase), sequence).1));
                assert!(seen.insert(ids.session(PhaseId(phase), sequence).1));
            }
        }
    }
}
