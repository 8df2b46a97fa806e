//! Seeds of cells: one root, from which every variation and, if asked for, every trial has its own.

use sha2::{Digest, Sha256};

use crate::config::Suite;

/// What runs share that must have the same seed and were given none.
const CONSISTENT: u64 = 42;

/// The root: the flag's, the file's, or a fixed one. `None`: every cell draws its own.
pub(super) fn root(flag: Option<u64>, file: Option<u64>, consistent: bool) -> Option<u64> {
    flag.or(file).or(consistent.then_some(CONSISTENT))
}

/// The seed of a cell. Variations count on from the root unless they share it; trials share the seed of their variation unless they vary.
pub(super) fn of(root: u64, suite: &Suite, variation: usize, trial: u32) -> u64 {
    let same = suite.sweep.as_ref().is_some_and(|sweep| sweep.same_seed);
    let seed = if same {
        root
    } else {
        root.wrapping_add(variation as u64)
    };
    if !suite.multi_run.vary_seed_per_trial {
        return seed;
    }
    let label = &suite.variations[variation].label;
    let digest = Sha256::digest(format!("{seed}:{label}:trial:{trial}"));
    let (first, _) = digest
        .split_first_chunk::<8>()
        .expect("a digest of SHA-256 has 32 bytes");
    // Readers of JSON that know signed numbers only are many.
    u64::from_be_bytes(*first) >> 1
}
