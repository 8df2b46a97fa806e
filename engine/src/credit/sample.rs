//! What a core tells of each finished request while a phase is steered by its own figures.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;

use crate::id::PhaseId;
use crate::record::Outcome;
use crate::units::Nanos;

/// One finished request, as far as the controller of its phase is concerned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    pub(crate) phase: PhaseId,
    pub(crate) outcome: Outcome,
    /// When it was issued.
    pub(crate) issued: Nanos,
    /// From its start to its last content.
    pub(crate) latency: Nanos,
    /// From its start to its first content, in a stream.
    pub(crate) first_token: Option<Nanos>,
    /// Tokens of its answer: the server's count, or the events with content.
    pub(crate) output_tokens: u32,
    /// Whether the tokens are the server's count.
    pub(crate) counted_by_server: bool,
    /// The number of its session, if it was the last turn of one with places of its own.
    pub(crate) session_over: Option<u64>,
    /// Whether it met every one of the run's `slos`; without any, none does.
    pub(crate) good: bool,
}

/// The samples of one core on their way to the coordinator: a queue with a bound, so that a core never waits and never allocates.
#[derive(Debug)]
pub(crate) struct Samples {
    queue: ArrayQueue<Sample>,
    lost: AtomicU64,
}

/// Samples that wait at most. The coordinator looks a hundred times a second, so a core would have to end 6.5 million requests a second to
/// overflow it.
const CAPACITY: usize = 1 << 16;

impl Samples {
    pub(super) fn new() -> Self {
        Self {
            queue: ArrayQueue::new(CAPACITY),
            lost: AtomicU64::new(0),
        }
    }

    /// Leaves a sample; one that finds no room is counted as lost.
    pub(crate) fn leave(&self, sample: Sample) {
        if self.queue.push(sample).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes the oldest sample.
    pub(crate) fn take(&self) -> Option<Sample> {
        self.queue.pop()
    }

    /// Samples that found no room.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
