//! In which order a run takes the entries of a dataset.

use std::num::NonZeroU32;

use super::stream_root;

/// An order of taking entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sampling {
    /// In the order of the dataset, from the beginning again after the last.
    #[default]
    Sequential,
    /// Each entry once in a random order, then each once in another random order, and so on.
    Shuffle,
    /// Independent draws, with replacement.
    Random,
}

/// Which entry stands at a position of the order.
///
/// A function of the position and nothing else: there is no state that threads would share, any part of a run can ask for any position, and a
/// phase that sent `n` requests leaves the next phase at position `n`, whatever the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampler {
    sampling: Sampling,
    entries: NonZeroU32,
    root: u64,
}

/// Rounds of the shuffle beside six for each bit of the number of entries: what few entries need to be in every order equally often.
const ROUNDS_MIN: u64 = 24;

impl Sampler {
    /// The order of a dataset with this many entries. The same seed gives the same order.
    pub fn new(sampling: Sampling, entries: NonZeroU32, seed: u64) -> Self {
        Self {
            sampling,
            entries,
            root: stream_root(seed, "sampling"),
        }
    }

    /// The order of the dataset itself.
    pub fn sequential(entries: NonZeroU32) -> Self {
        Self {
            sampling: Sampling::Sequential,
            entries,
            root: 0,
        }
    }

    /// Draws with replacement that are not those of [`Sampling::Random`] with the same seed: of what a run then takes in its own order.
    pub fn of_pool(entries: NonZeroU32, seed: u64) -> Self {
        Self {
            sampling: Sampling::Random,
            entries,
            root: stream_root(seed, "pool"),
        }
    }

    /// Whether every entry comes once in as many positions as there are entries, counted from a multiple of that.
    pub fn takes_each_once_a_pass(self) -> bool {
        self.sampling != Sampling::Random
    }

    /// Entries of the dataset.
    pub fn entries(self) -> NonZeroU32 {
        self.entries
    }

    /// The entry at a position, counted from 0 over the whole run.
    pub fn entry(self, position: u64) -> u32 {
        let entries = u64::from(self.entries.get());
        let entry = match self.sampling {
            Sampling::Sequential => position % entries,
            Sampling::Shuffle => self.permuted(position % entries, mix(self.root ^ mix(position / entries))),
            // The high half of a product maps 64 random bits evenly to the entries, up to one part in 2^32.
            Sampling::Random => ((u128::from(mix(self.root ^ mix(position))) * u128::from(entries)) >> 64) as u64,
        };
        u32::try_from(entry).expect("an entry is below the number of entries, which fits a u32")
    }

    /// The image of `index` under the permutation of one pass, by swap-or-not (Hoang, Morris and Rogaway, "An enciphering scheme based on a
    /// card shuffle", CRYPTO 2012): every round pairs the places by a random sum and swaps each pair or not by a random bit of it. It needs no
    /// table, any number of entries will do, and six rounds per bit make the orders even.
    fn permuted(self, index: u64, key: u64) -> u64 {
        let entries = u64::from(self.entries.get());
        let bits = u64::from(u64::BITS - entries.leading_zeros());
        let mut place = index;
        for round in 0..ROUNDS_MIN + 6 * bits {
            let round_key = mix(key ^ round);
            // The sum of a pair, evenly drawn from the entries as in `entry`.
            let sum = ((u128::from(round_key) * u128::from(entries)) >> 64) as u64;
            let partner = (sum + entries - place) % entries;
            if mix(round_key ^ place.max(partner)) >> 63 == 1 {
                place = partner;
            }
        }
        place
    }
}

/// The output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn mix(z: u64) -> u64 {
    let z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    fn sampler(sampling: Sampling, entries: u32, seed: u64) -> Sampler {
        Sampler::new(sampling, NonZeroU32::new(entries).expect("positive"), seed)
    }

    fn pass(sampler: Sampler, number: u64) -> Vec<u32> {
        let entries = u64::from(sampler.entries().get());
        (0..entries)
            .map(|index| sampler.entry(number * entries + index))
            .collect()
    }

    #[test]
    fn sequential_goes_round_in_order() {
        let sampler = sampler(Sampling::Sequential, 3, 1);
        let taken: Vec<u32> = (0..7).map(|position| sampler.entry(position)).collect();
        assert_eq!(taken, [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(sampler.entry(u64::MAX), (u64::MAX % 3) as u32);
    }

    #[test]
    fn each_pass_of_a_shuffle_has_every_entry_once_and_differs_from_the_last() {
        for entries in [1, 2, 3, 4, 5, 7, 16, 17, 100, 1000, 4096, 4097] {
            let sampler = sampler(Sampling::Shuffle, entries, 9);
            for number in 0..4 {
                let taken: HashSet<u32> = pass(sampler, number).into_iter().collect();
                assert_eq!(taken.len() as u32, entries, "pass {number} of {entries} entries");
            }
            if entries > 50 {
                assert_ne!(pass(sampler, 0), pass(sampler, 1), "{entries} entries");
                assert_ne!(
                    pass(sampler, 0),
                    (0..entries).collect::<Vec<_>>(),
                    "{entries} entries stay in order"
                );
            }
        }
        let widest = sampler(Sampling::Shuffle, u32::MAX, 9);
        assert!(widest.entry(u64::MAX) < u32::MAX);
    }

    #[test]
    fn every_order_of_a_few_entries_is_as_likely_as_the_others() {
        for (entries, orders) in [(3u32, 6usize), (4, 24), (5, 120)] {
            let mut counts: HashMap<Vec<u32>, u32> = HashMap::new();
            let (sampler, passes) = (sampler(Sampling::Shuffle, entries, 3), 200 * orders as u64);
            for number in 0..passes {
                *counts.entry(pass(sampler, number)).or_default() += 1;
            }
            assert_eq!(counts.len(), orders, "{entries} entries");
            let chi_square: f64 = counts.values().map(|&n| (f64::from(n) - 200.0).powi(2) / 200.0).sum();
            // Mean: orders - 1; four standard deviations above it. The seed is fixed, so this is no lottery.
            let freedom = orders as f64 - 1.0;
            assert!(
                chi_square < freedom + 4.0 * (2.0 * freedom).sqrt(),
                "chi-square {chi_square} with {freedom} degrees of freedom"
            );
        }
    }

    #[test]
    fn random_draws_are_even_and_repeat() {
        let sampler = sampler(Sampling::Random, 50, 4);
        let mut counts = [0u32; 50];
        for position in 0..50_000 {
            counts[sampler.entry(position) as usize] += 1;
        }
        let chi_square: f64 = counts.iter().map(|&n| (f64::from(n) - 1000.0).powi(2) / 1000.0).sum();
        // 49 degrees of freedom: mean 49, standard deviation 10.
        assert!((15.0..90.0).contains(&chi_square), "chi-square {chi_square}");
        let first: HashSet<u32> = pass(sampler, 0).into_iter().collect();
        assert!(first.len() < 50, "fifty draws of fifty with replacement repeat some");
    }

    #[test]
    fn the_seed_decides_the_order_and_nothing_else_does() {
        for sampling in [Sampling::Shuffle, Sampling::Random] {
            let first = pass(sampler(sampling, 200, 7), 0);
            assert_eq!(first, pass(sampler(sampling, 200, 7), 0));
            assert_ne!(first, pass(sampler(sampling, 200, 8), 0));
        }
    }
}
