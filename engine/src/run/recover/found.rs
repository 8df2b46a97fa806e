//! What a journal says of its run: its notes, and the counts of its records.

use serde_json::{Map, Value};

use super::super::notes::{Count, Note};
use crate::coordinator::{PhaseSummary, StopReason, Tally};
use crate::id::PhaseId;
use crate::journal::Hold;
use crate::plan::Plan;
use crate::record::{Family, Outcome, PhaseHistograms, RequestRecord};
use crate::units::Nanos;

/// What is known of a phase.
#[derive(Default)]
pub(super) struct PhaseFound {
    pub(super) start: Option<Nanos>,
    pub(super) summary: Option<PhaseSummary>,
    /// The last counts while it was under way.
    pub(super) counted: Tally,
    /// What the records say.
    pub(super) seen: Tally,
    pub(super) histograms: Option<PhaseHistograms>,
}

impl PhaseFound {
    pub(super) fn has_begun(&self) -> bool {
        self.start.is_some() || self.summary.is_some() || self.seen.sent > 0
    }

    /// Requests that are known to have ended and have no record.
    pub(super) fn missing(&self) -> u64 {
        let ended = self.summary.as_ref().map_or(self.counted, |summary| summary.tally);
        ended.returned().saturating_sub(self.seen.sent)
    }
}

/// What the journal says, apart from the records themselves.
pub(super) struct Found {
    pub(super) phases: Vec<PhaseFound>,
    pub(super) facts: Map<String, Value>,
    /// The last instant that it knows of.
    pub(super) last: Nanos,
    load_ended: bool,
}

impl Found {
    pub(super) fn new(plan: &Plan, hold: &Hold) -> Self {
        let mut found = Self {
            phases: plan.phases.iter().map(|_| PhaseFound::default()).collect(),
            facts: Map::new(),
            last: Nanos::ZERO,
            load_ended: false,
        };
        for note in hold.notes.iter().filter_map(|note| Note::decode(note)) {
            found.hear(note);
        }
        found
    }

    fn of(&mut self, phase: PhaseId) -> Option<&mut PhaseFound> {
        self.phases.get_mut(phase.index())
    }

    fn hear(&mut self, note: Note) {
        let mut at = 0;
        match note {
            Note::Opening(opening) => at = opening.start,
            Note::Facts(facts) => self.facts = facts,
            Note::PhaseStarted { phase, at: start } => {
                at = start;
                if let Some(found) = self.of(PhaseId(phase)) {
                    found.start = Some(Nanos(start));
                }
            }
            Note::PhaseEnded(ended) => {
                if let Some(summary) = ended.summary()
                    && let Some(found) = self.of(summary.phase)
                {
                    at = summary.end.0;
                    found.summary = Some(summary);
                }
            }
            Note::Counts { at: taken, phases } => {
                at = taken;
                for (phase, tally) in phases.into_iter().map(Count::read) {
                    if let Some(found) = self.of(phase) {
                        found.counted = tally;
                    }
                }
            }
            Note::LoadEnded { at: end } => {
                at = end;
                self.load_ended = true;
            }
        }
        self.last = self.last.max(Nanos(at));
    }

    pub(super) fn see(&mut self, record: &RequestRecord) {
        self.last = self.last.max(record.end);
        let Some(found) = self.of(record.phase) else { return };
        found.seen.sent += 1;
        *match record.outcome {
            Outcome::Success => &mut found.seen.succeeded,
            Outcome::Error => &mut found.seen.failed,
            Outcome::Cancelled => &mut found.seen.cancelled,
            Outcome::Truncated => &mut found.seen.truncated,
        } += 1;
        let histograms = found.histograms.get_or_insert_with(PhaseHistograms::new);
        histograms.record(Family::SendLag, record.start.since(record.intended).0);
    }

    /// Whether every phase did all it was asked to, so that only the writing is missing.
    pub(super) fn is_over(&self) -> bool {
        let ended = |phase: &PhaseFound| {
            let summary = phase.summary.as_ref();
            let early = |reason| matches!(reason, StopReason::Interrupted | StopReason::Stalled);
            summary.is_some_and(|summary| !early(summary.stop_reason))
        };
        self.load_ended && self.phases.iter().all(ended)
    }
}
