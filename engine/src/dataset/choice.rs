//! Which of several alternatives each entry of a dataset gets: in turn, or drawn.
//!
//! As with prompts, the answer depends on the number of the entry and the seed alone, so it is the same however many threads ask.

use std::num::NonZeroU32;

use rand_xoshiro::rand_core::Rng;

use super::stream_root;
use super::synthetic::entry_stream;

/// A rule that gives every entry one of several alternatives, which are numbered from 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice(Rule);

#[derive(Debug, Clone, PartialEq)]
enum Rule {
    InTurn(NonZeroU32),
    /// Root of the draws, and the sum of the weights up to each alternative and with it.
    Drawn {
        root: u64,
        ends: Vec<f64>,
    },
}

impl Choice {
    /// The first entry gets the first one, and after the last comes the first again.
    pub fn in_turn(alternatives: NonZeroU32) -> Self {
        Self(Rule::InTurn(alternatives))
    }

    /// Independent draws. `weights` are relative to their sum; `purpose` tells these draws from others with the same seed.
    ///
    /// # Panics
    /// If a weight is negative or no number, or none is above zero.
    pub fn drawn(weights: &[f64], seed: u64, purpose: &str) -> Self {
        let mut end = 0.0;
        let ends = weights.iter().map(|&weight| {
            assert!(weight >= 0.0, "a weight of {weight}");
            end += weight;
            end
        });
        let ends: Vec<f64> = ends.collect();
        assert!(end > 0.0 && end.is_finite(), "weights {weights:?}");
        Self(Rule::Drawn {
            root: stream_root(seed, purpose),
            ends,
        })
    }

    /// The alternative of an entry.
    pub fn of(&self, entry: u32) -> usize {
        match &self.0 {
            Rule::InTurn(alternatives) => (entry % *alternatives) as usize,
            Rule::Drawn { root, ends } => {
                // The upper 53 bits: evenly spaced from 0 to below 1.
                let draw = (entry_stream(*root, entry).next_u64() >> 11) as f64 / (1u64 << 53) as f64;
                let total = ends[ends.len() - 1];
                // Rounding must not take a draw beyond the last weight that is above zero, where the ends reach the total.
                ends.partition_point(|&end| end <= draw * total && end < total)
            }
        }
    }

    /// The probability of each alternative; `None` if they come in turn.
    pub fn probabilities(&self) -> Option<Vec<f64>> {
        match &self.0 {
            Rule::InTurn(_) => None,
            Rule::Drawn { ends, .. } => {
                let total = ends[ends.len() - 1];
                let starts = std::iter::once(&0.0).chain(ends);
                Some(
                    ends.iter()
                        .zip(starts)
                        .map(|(end, start)| (end - start) / total)
                        .collect(),
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(choice: &Choice, alternatives: usize, entries: u32) -> Vec<u32> {
        let mut counts = vec![0; alternatives];
        (0..entries).for_each(|entry| counts[choice.of(entry)] += 1);
        counts
    }

    #[test]
    fn in_turn_goes_round() {
        let choice = Choice::in_turn(NonZeroU32::new(3).expect("positive"));
        let taken: Vec<usize> = (0..7).map(|entry| choice.of(entry)).collect();
        assert_eq!(taken, [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(choice.probabilities(), None);
    }

    #[test]
    fn draws_follow_the_weights_whatever_their_sum() {
        for weights in [[0.7, 0.2, 0.1], [0.693, 0.198, 0.099]] {
            let choice = Choice::drawn(&weights, 5, "model");
            let found = counts(&choice, 3, 100_000);
            // Standard deviations of 145, 126 and 95; the seed is fixed, so this is no lottery.
            for (count, expected) in found.iter().zip([70_000, 20_000, 10_000]) {
                assert!(count.abs_diff(expected) < 500, "{found:?}");
            }
            let probabilities = choice.probabilities().expect("they are drawn");
            assert!((probabilities[0] - 0.7).abs() < 1e-12, "{probabilities:?}");
        }
    }

    #[test]
    fn what_has_no_weight_is_never_drawn() {
        let found = counts(&Choice::drawn(&[0.0, 1.0, 0.0], 1, "model"), 3, 10_000);
        assert_eq!(found, [0, 10_000, 0]);
        // A sum that no binary fraction meets, and the last weight zero.
        let found = counts(&Choice::drawn(&[0.1, 0.2, 0.7, 0.0], 2, "model"), 4, 10_000);
        assert_eq!(found[3], 0);
    }

    #[test]
    fn the_seed_and_the_purpose_decide_and_the_order_of_asking_does_not() {
        let taken = |seed, purpose| -> Vec<usize> {
            let choice = Choice::drawn(&[1.0, 1.0], seed, purpose);
            let mut taken: Vec<usize> = (0..64).rev().map(|entry| choice.of(entry)).collect();
            taken.reverse();
            taken
        };
        let first = taken(1, "model");
        let choice = Choice::drawn(&[1.0, 1.0], 1, "model");
        assert_eq!(first, (0..64).map(|entry| choice.of(entry)).collect::<Vec<_>>());
        assert_ne!(first, taken(2, "model"));
        assert_ne!(first, taken(1, "other"));
    }
}
