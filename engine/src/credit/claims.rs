//! Numbers that cores take for themselves, none twice and none left out, up to a bound.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

/// A row of numbers from 0 up, shared by all cores.
///
/// A phase whose later turns need no credit counts its requests and sessions like this: a turn that is due takes the next number and starts, and
/// once the bound is reached nothing starts any more. So the totals are exact on any number of cores, and no core asks the coordinator.
#[derive(Debug)]
pub(crate) struct Claims {
    next: CachePadded<AtomicU64>,
    bound: AtomicU64,
}

impl Default for Claims {
    /// A row of no numbers.
    fn default() -> Self {
        Self {
            next: CachePadded::default(),
            bound: AtomicU64::new(0),
        }
    }
}

impl Claims {
    /// Lets `bound` numbers be taken; `None` is no bound. Called before the phase's first command, whose queue carries it to the cores.
    pub(super) fn open(&self, bound: Option<u64>) {
        self.bound.store(bound.unwrap_or(u64::MAX), Ordering::Release);
    }

    /// Takes the next number.
    pub(crate) fn take(&self) -> Option<u64> {
        let bound = self.bound.load(Ordering::Acquire);
        // The numbers order nothing else: what a core does with its own is published by the core's counters.
        self.next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                (next < bound).then_some(next + 1)
            })
            .ok()
    }

    /// Whether there is a number to take. Another core may be quicker.
    pub(crate) fn any_left(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.bound.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_below_the_bound_is_taken_once_by_any_number_of_threads() {
        let claims = Claims::default();
        assert_eq!(claims.take(), None);
        claims.open(Some(10_000));
        let mut taken: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| std::iter::from_fn(|| claims.take()).collect::<Vec<_>>()))
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..10_000));
        assert!(!claims.any_left());
    }
}
