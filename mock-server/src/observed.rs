//! What `/metrics` shows beside the counters: how long things took, and how answers ended.
//!
//! As with the counters, every ordering is `Relaxed`: each figure stands alone.

use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds of the buckets of every histogram, in nanoseconds, and as they are written in seconds.
pub(crate) const BOUNDS: [(u64, &str); 14] = [
    (1_000_000, "0.001"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (20_000_000, "0.02"),
    (40_000_000, "0.04"),
    (60_000_000, "0.06"),
    (80_000_000, "0.08"),
    (100_000_000, "0.1"),
    (250_000_000, "0.25"),
    (500_000_000, "0.5"),
    (750_000_000, "0.75"),
    (1_000_000_000, "1"),
    (2_500_000_000, "2.5"),
    (5_000_000_000, "5"),
];

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With its own last token.
    Stop,
    /// At the limit that the request set.
    Length,
    /// With its client, who left.
    Abort,
}

impl Ended {
    pub(crate) const ALL: [(Ended, &str); 3] = [
        (Ended::Stop, "stop"),
        (Ended::Length, "length"),
        (Ended::Abort, "abort"),
    ];
}

/// Times in buckets.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// Not summed up; the last one has no bound.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_ns: AtomicU64,
}

impl Times {
    fn observe(&self, ns: u64) {
        let at = BOUNDS.partition_point(|&(bound, _)| bound < ns);
        self.buckets[at].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Counts up to each bound, all of them last, and their sum.
    pub(crate) fn read(&self) -> ([u64; BOUNDS.len() + 1], u64) {
        let mut up_to = 0;
        let counts = self.buckets.each_ref().map(|bucket| {
            up_to += bucket.load(Ordering::Relaxed);
            up_to
        });
        (counts, self.sum_ns.load(Ordering::Relaxed))
    }
}

/// The figures, as all threads share them.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) prompt_tokens: AtomicU64,
    pub(crate) first_token: Times,
    pub(crate) life: Times,
    ended: [AtomicU64; Ended::ALL.len()],
}

impl Observed {
    /// A request with so many words was accepted.
    pub(crate) fn prompt(&self, words: u64) {
        self.prompt_tokens.fetch_add(words, Ordering::Relaxed);
    }

    /// The first token of a stream goes out.
    pub(crate) fn first_token(&self, waited_ns: u64) {
        self.first_token.observe(waited_ns);
    }

    /// The last bytes of an answer go out, or its client has left.
    pub(crate) fn ended(&self, how: Ended, life_ns: u64) {
        if how != Ended::Abort {
            self.life.observe(life_ns);
        }
        self.ended[how as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self, how: Ended) -> u64 {
        self.ended[how as usize].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_on_a_bound_is_in_its_bucket_and_counts_are_summed_up() {
        let times = Times::default();
        for ns in [1_000_000, 1_000_001, 6_000_000_000] {
            times.observe(ns);
        }
        let (counts, sum_ns) = times.read();
        assert_eq!((counts[0], counts[1], counts[13], counts[14]), (1, 2, 2, 3));
        assert_eq!(sum_ns, 6_002_000_001);
    }
}
