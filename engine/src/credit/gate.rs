//! The credits of one phase, and the instant after which none of them may start a request.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;

use super::claims::Claims;
use super::credit::Credit;
use crate::units::Nanos;

/// The credits of one phase.
#[derive(Debug)]
pub(crate) struct PhaseGate {
    credits: ArrayQueue<Credit>,
    /// Start of the phase's clock; zero before it started.
    start: AtomicU64,
    /// No request may start at or after this instant.
    stop_at: AtomicU64,
    /// Issue numbers of requests, in phases where a core takes them.
    pub(crate) requests: Claims,
    /// Numbers of sessions, in phases where a core decides to begin one.
    pub(crate) sessions: Claims,
    /// Where in the order of the dataset session 0 takes its conversation.
    first_position: AtomicU64,
    /// Sessions that have sent their first turn.
    begun: AtomicU64,
}

impl PhaseGate {
    /// A gate that holds up to `capacity` credits.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            credits: ArrayQueue::new(capacity.max(1)),
            start: AtomicU64::new(0),
            stop_at: AtomicU64::new(u64::MAX),
            requests: Claims::default(),
            sessions: Claims::default(),
            first_position: AtomicU64::new(0),
            begun: AtomicU64::new(0),
        }
    }

    /// Lets cores begin sessions and number requests by themselves: `requests` and `sessions` in all, each without bound if `None`. Session k takes
    /// the conversation at the k-th position of the dataset's order from `first` on. Before [`PhaseGate::open`].
    pub(crate) fn open_claims(&self, requests: Option<u64>, sessions: Option<u64>, first: u64) {
        self.first_position.store(first, Ordering::Release);
        self.requests.open(requests);
        self.sessions.open(sessions);
    }

    /// Where in the order of the dataset session 0 takes its conversation.
    pub(crate) fn first_position(&self) -> u64 {
        self.first_position.load(Ordering::Acquire)
    }

    /// A session sends its first turn.
    pub(crate) fn count_begun(&self) {
        // Published by the core's counters, like everything else that it did.
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// Sessions that have sent their first turn.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Starts the phase's clock. Published before any credit is pushed; the queue's own ordering carries it to the cores.
    pub(crate) fn open(&self, start: Nanos, stop_at: Nanos) {
        self.start.store(start.0, Ordering::Release);
        self.stop_at.store(stop_at.0, Ordering::Release);
    }

    /// Lets no request start from `now` on.
    pub(crate) fn stop(&self, now: Nanos) {
        self.stop_at.fetch_min(now.0, Ordering::AcqRel);
    }

    /// Start of the phase's clock.
    pub(crate) fn start(&self) -> Nanos {
        Nanos(self.start.load(Ordering::Acquire))
    }

    /// No request may start at or after this instant.
    pub(crate) fn stop_at(&self) -> Nanos {
        Nanos(self.stop_at.load(Ordering::Acquire))
    }

    /// Credits that still fit.
    pub(crate) fn room(&self) -> usize {
        self.credits.capacity() - self.credits.len()
    }

    /// Adds a credit. Only the coordinator pushes, and never more than [`PhaseGate::room`].
    pub(crate) fn push(&self, credit: Credit) {
        self.credits
            .push(credit)
            .expect("the only producer has checked the room");
    }

    /// Takes the oldest credit.
    pub(crate) fn take(&self) -> Option<Credit> {
        self.credits.pop()
    }

    /// Whether no credit is waiting.
    pub(crate) fn is_empty(&self) -> bool {
        self.credits.is_empty()
    }

    /// Takes back every waiting credit; returns how many of them were due at `now`.
    pub(crate) fn withdraw(&self, now: Nanos) -> u64 {
        let start = self.start();
        let due = |credit: &Credit| start + credit.intended <= now;
        std::iter::from_fn(|| self.credits.pop()).filter(due).count() as u64
    }
}
