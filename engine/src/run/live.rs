//! What a user sees while the run goes on.

use crate::coordinator::{LiveBoard, Tally, tally};
use crate::credit::Exchange;
use crate::plan::PhasePlan;
use crate::units::Nanos;

/// The run at one moment.
#[derive(Debug, Clone)]
pub struct LiveSnapshot {
    /// Since the start of the run.
    pub elapsed: Nanos,
    /// Phases that have started and not ended, oldest first.
    pub phases: Vec<LivePhase>,
    /// Age of the oldest request in flight, over all phases.
    pub oldest_request: Option<Nanos>,
}

/// One phase at one moment.
#[derive(Debug, Clone)]
pub struct LivePhase {
    /// Its name.
    pub name: String,
    /// Since its start.
    pub elapsed: Nanos,
    /// Its counts.
    pub tally: Tally,
    /// It sends no more and waits for its requests in flight.
    pub draining: bool,
    /// It has shown no sign of life for long.
    pub silent: Option<LiveSilence>,
}

/// A phase without a sign of life, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveSilence {
    /// Nothing was sent and no byte came for so long.
    pub lasts: Nanos,
    /// Age of the oldest request of the phase in flight.
    pub oldest_request: Option<Nanos>,
}

/// Looks at a run. Takes no lock that a core could want.
pub(super) fn snapshot(
    phases: &[PhasePlan],
    exchange: &Exchange,
    board: &LiveBoard,
    start: Nanos,
    now: Nanos,
) -> LiveSnapshot {
    let open = board.open();
    let oldest = exchange.links.iter().filter_map(|link| link.progress.oldest()).min();
    LiveSnapshot {
        elapsed: now.since(start),
        oldest_request: oldest.map(|since| now.since(since)),
        phases: open
            .into_iter()
            .map(|open| LivePhase {
                name: phases[open.phase.index()].name.clone(),
                elapsed: now.since(open.start),
                tally: tally(exchange, open.phase),
                draining: open.draining,
                silent: open.silent.map(|spell| LiveSilence {
                    lasts: now.since(spell.since),
                    oldest_request: spell.oldest.map(|start| now.since(start)),
                }),
            })
            .collect(),
    }
}
