//! Counters that a core writes and others may read at any time.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::record::Outcome;
use crate::units::Nanos;

/// Cumulative counts of one phase on one core. Written by that core only, so plain loads and stores suffice.
#[derive(Debug, Default)]
pub(crate) struct PhaseCounters {
    sent: AtomicU64,
    ended: [AtomicU64; 4],
    unsent: AtomicU64,
    dropped: AtomicU64,
}

fn bump(counter: &AtomicU64) {
    // Release pairs with the acquire loads of the readers: a reader that sees a request's end also sees that it was sent.
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Release);
}

impl PhaseCounters {
    /// A request started.
    pub(crate) fn count_sent(&self) {
        bump(&self.sent);
    }

    /// A request ended.
    pub(crate) fn count_ended(&self, outcome: Outcome) {
        bump(&self.ended[outcome as usize]);
    }

    /// A credit was due and is given back because its phase has ended.
    pub(crate) fn count_unsent(&self) {
        bump(&self.unsent);
    }

    /// Arrivals found no slot and were dropped.
    pub(crate) fn count_dropped(&self, arrivals: u64) {
        self.dropped
            .store(self.dropped.load(Ordering::Relaxed) + arrivals, Ordering::Release);
    }

    /// Arrivals that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Acquire)
    }

    /// Credits that were due and given back.
    pub(crate) fn unsent(&self) -> u64 {
        self.unsent.load(Ordering::Acquire)
    }

    /// Requests that ended with `outcome`.
    pub(crate) fn ended(&self, outcome: Outcome) -> u64 {
        self.ended[outcome as usize].load(Ordering::Acquire)
    }

    /// Requests started. Read after the ended counts, so that in-flight counts are never negative.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }
}

/// All counters of one core.
#[derive(Debug)]
pub(crate) struct CoreProgress {
    phases: Vec<CachePadded<PhaseCounters>>,
    /// Start of the oldest request in flight; `u64::MAX` without one.
    oldest: CachePadded<AtomicU64>,
}

impl CoreProgress {
    /// Zeroed counters for `phases` phases.
    pub(crate) fn new(phases: usize) -> Self {
        Self {
            phases: (0..phases).map(|_| CachePadded::default()).collect(),
            oldest: CachePadded::new(AtomicU64::new(u64::MAX)),
        }
    }

    /// Shows since when the oldest request has been in flight.
    pub(crate) fn show_oldest(&self, since: Option<Nanos>) {
        self.oldest.store(since.unwrap_or(Nanos::MAX).0, Ordering::Relaxed);
    }

    /// Since when the oldest request has been in flight.
    pub(crate) fn oldest(&self) -> Option<Nanos> {
        Some(Nanos(self.oldest.load(Ordering::Relaxed))).filter(|&since| since < Nanos::MAX)
    }

    /// The counters of one phase.
    pub(crate) fn phase(&self, index: usize) -> &PhaseCounters {
        &self.phases[index]
    }
}
