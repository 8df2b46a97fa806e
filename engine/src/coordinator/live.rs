//! What anyone may see of a run while it runs.

use std::sync::Mutex;

use crate::id::PhaseId;
use crate::units::Nanos;

/// A phase that has started and not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenPhase {
    pub(crate) phase: PhaseId,
    pub(crate) start: Nanos,
    pub(crate) draining: bool,
}

/// The open phases, oldest first. Written by the coordinator a few times per phase; never touched by a core.
#[derive(Debug, Default)]
pub(crate) struct LiveBoard {
    open: Mutex<Vec<OpenPhase>>,
}

impl LiveBoard {
    fn with<T>(&self, change: impl FnOnce(&mut Vec<OpenPhase>) -> T) -> T {
        // A list of plain values is whole after every statement, so a panic elsewhere cannot have left it broken.
        change(&mut self.open.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    pub(crate) fn started(&self, phase: PhaseId, start: Nanos) {
        self.with(|open| {
            open.push(OpenPhase {
                phase,
                start,
                draining: false,
            })
        });
    }

    pub(crate) fn draining(&self, phase: PhaseId) {
        self.with(|open| {
            if let Some(entry) = open.iter_mut().find(|entry| entry.phase == phase) {
                entry.draining = true;
            }
        });
    }

    pub(crate) fn ended(&self, phase: PhaseId) {
        self.with(|open| open.retain(|entry| entry.phase != phase));
    }

    pub(crate) fn open(&self) -> Vec<OpenPhase> {
        self.with(|open| open.clone())
    }
}
