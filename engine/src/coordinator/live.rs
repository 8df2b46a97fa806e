//! What anyone may see of a run while it runs.

use std::fmt;
use std::sync::Mutex;

use super::event::PhaseSummary;
use super::silence::Spell;
use crate::id::PhaseId;
use crate::units::Nanos;

/// A phase that has started and not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenPhase {
    pub(crate) phase: PhaseId,
    pub(crate) start: Nanos,
    pub(crate) draining: bool,
    /// No sign of life for long.
    pub(crate) silent: Option<Spell>,
}

/// What happened to a phase.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PhaseNews<'a> {
    /// Its clock started.
    Started(PhaseId, Nanos),
    /// It is over.
    Ended(&'a PhaseSummary),
}

type Tell = Box<dyn Fn(PhaseNews<'_>) + Send + Sync>;

/// The open phases, oldest first. Written by the coordinator a few times per phase; never touched by a core.
#[derive(Default)]
pub(crate) struct LiveBoard {
    open: Mutex<Vec<OpenPhase>>,
    /// Called where a phase starts or ends.
    tell: Option<Tell>,
}

impl fmt::Debug for LiveBoard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveBoard")
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

impl LiveBoard {
    /// A board that calls `tell` where a phase starts or ends, on the thread of the coordinator: it must not take long.
    pub(crate) fn telling(tell: impl Fn(PhaseNews<'_>) + Send + Sync + 'static) -> Self {
        Self {
            tell: Some(Box::new(tell)),
            ..Self::default()
        }
    }

    fn tell(&self, news: PhaseNews<'_>) {
        if let Some(tell) = &self.tell {
            tell(news);
        }
    }

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
                silent: None,
            })
        });
        self.tell(PhaseNews::Started(phase, start));
    }

    pub(crate) fn draining(&self, phase: PhaseId) {
        self.change(phase, |entry| entry.draining = true);
    }

    pub(crate) fn silent(&self, phase: PhaseId, spell: Option<Spell>) {
        self.change(phase, |entry| entry.silent = spell);
    }

    fn change(&self, phase: PhaseId, change: impl FnOnce(&mut OpenPhase)) {
        self.with(|open| open.iter_mut().find(|entry| entry.phase == phase).map(change));
    }

    pub(crate) fn ended(&self, summary: &PhaseSummary) {
        self.with(|open| open.retain(|entry| entry.phase != summary.phase));
        self.tell(PhaseNews::Ended(summary));
    }

    pub(crate) fn open(&self) -> Vec<OpenPhase> {
        self.with(|open| open.clone())
    }
}
