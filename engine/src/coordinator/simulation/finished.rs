//! What a simulated run left behind, and questions to it.

use super::super::adaptive::AdaptiveReport;
use super::super::event::{Action, HookCall, PhaseSummary, Tally};
use super::super::machine::RunOutcome;
use super::{Entry, Served};
use crate::id::PhaseId;
use crate::units::Nanos;

/// What a run left behind. Times are offsets from its start.
pub(in crate::coordinator) struct Finished {
    pub(super) epoch: Nanos,
    pub(super) end: Nanos,
    pub(in crate::coordinator) outcome: RunOutcome,
    pub(in crate::coordinator) adaptive: Vec<(PhaseId, AdaptiveReport)>,
    pub(super) phases: Vec<Option<PhaseSummary>>,
    pub(super) dropped: Vec<u64>,
    pub(super) totals: Vec<Option<u64>>,
    pub(super) peaks: Vec<(u64, u64, u64)>,
    pub(in crate::coordinator) log: Vec<(Nanos, Entry)>,
    pub(in crate::coordinator) served: Vec<Served>,
}

impl Finished {
    pub(in crate::coordinator) fn phase(&self, index: usize) -> &PhaseSummary {
        self.phases[index]
            .as_ref()
            .unwrap_or_else(|| panic!("phase {index} never started"))
    }

    pub(in crate::coordinator) fn started(&self, index: usize) -> bool {
        self.phases[index].is_some()
    }

    pub(in crate::coordinator) fn tally(&self, index: usize) -> Tally {
        self.phase(index).tally
    }

    pub(in crate::coordinator) fn start(&self, index: usize) -> Nanos {
        self.phase(index).start.since(self.epoch)
    }

    pub(in crate::coordinator) fn sending_complete(&self, index: usize) -> Nanos {
        self.phase(index).sending_complete.since(self.epoch)
    }

    pub(in crate::coordinator) fn end(&self, index: usize) -> Nanos {
        self.phase(index).end.since(self.epoch)
    }

    pub(in crate::coordinator) fn run_end(&self) -> Nanos {
        self.end.since(self.epoch)
    }

    /// Requests that the phase has in all, if anything but its duration ends it.
    pub(in crate::coordinator) fn total(&self, index: usize) -> Option<u64> {
        self.totals[index]
    }

    /// Arrivals that were dropped.
    pub(in crate::coordinator) fn dropped(&self, index: usize) -> u64 {
        self.dropped[index]
    }

    /// Most requests in flight that the phase had itself.
    pub(in crate::coordinator) fn peak(&self, index: usize) -> u64 {
        self.peaks[index].0
    }

    /// Most requests in flight over all phases right after a send of this phase.
    pub(in crate::coordinator) fn peak_all(&self, index: usize) -> u64 {
        self.peaks[index].1
    }

    /// Most requests without content over all phases right after a send of this phase.
    pub(in crate::coordinator) fn peak_prefill(&self, index: usize) -> u64 {
        self.peaks[index].2
    }

    /// Starts of the phase's requests in order.
    pub(in crate::coordinator) fn sends(&self, index: usize) -> Vec<Nanos> {
        self.log
            .iter()
            .filter(|(_, entry)| matches!(entry, Entry::Sent(phase) if phase.index() == index))
            .map(|(at, _)| at.since(self.epoch))
            .collect()
    }

    /// Control calls and phases in the order in which they were made, as short words: `start`, `stop`, `<phase` and `phase>`.
    pub(in crate::coordinator) fn story(&self) -> Vec<String> {
        self.log
            .iter()
            .filter_map(|(_, entry)| match entry {
                Entry::Did(Action::CallHook(HookCall::ProfilerStart)) => Some("start".to_owned()),
                Entry::Did(Action::CallHook(HookCall::ProfilerStop)) => Some("stop".to_owned()),
                Entry::Did(Action::StartPhase { phase }) => Some(format!("<{}", phase.0)),
                Entry::Did(Action::PhaseEnded(summary)) => Some(format!("{}>", summary.phase.0)),
                Entry::Did(Action::RunEnded) => Some("end".to_owned()),
                _ => None,
            })
            .collect()
    }

    /// Offsets at which an action of the given kind was taken.
    pub(in crate::coordinator) fn times(&self, wanted: impl Fn(&Action) -> bool) -> Vec<Nanos> {
        self.log
            .iter()
            .filter(|(_, entry)| matches!(entry, Entry::Did(action) if wanted(action)))
            .map(|(at, _)| at.since(self.epoch))
            .collect()
    }
}
