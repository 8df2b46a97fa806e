//! Who needs the server profiler, and the one control call that may be under way for it.

use std::collections::BTreeSet;

use super::event::{Action, HookCall};
use crate::id::PhaseId;

/// What became of a wish for the profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acquired {
    /// It runs.
    Running,
    /// It was called; the answer will tell.
    Starting,
    /// A stop is under way. Ask again after its answer.
    Busy,
}

/// The server profiler and the phases that own it.
///
/// The server sees starts and stops strictly in turn, because a call is made only in a settled state:
///
/// ```text
///   Stopped --first owner--> Starting --ok--> Running --last owner left--> Stopping --any answer--> Stopped
///                               +--failed--> Stopped
/// ```
///
/// If the last owner leaves while a start is under way, the stop follows the answer of the start.
#[derive(Debug)]
pub(super) struct Profiler {
    state: ProfilerState,
    owners: BTreeSet<PhaseId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProfilerState {
    Stopped,
    Starting,
    Running,
    Stopping,
}

impl Profiler {
    pub(super) fn new() -> Self {
        Self {
            state: ProfilerState::Stopped,
            owners: BTreeSet::new(),
        }
    }

    /// Makes `phase` an owner unless the profiler is busy stopping.
    pub(super) fn acquire(&mut self, phase: PhaseId, actions: &mut Vec<Action>) -> Acquired {
        match self.state {
            ProfilerState::Running => {
                self.owners.insert(phase);
                Acquired::Running
            }
            ProfilerState::Stopped => {
                self.owners.insert(phase);
                self.state = ProfilerState::Starting;
                actions.push(Action::CallHook(HookCall::ProfilerStart));
                Acquired::Starting
            }
            ProfilerState::Stopping => Acquired::Busy,
            ProfilerState::Starting => panic!(
                "phase {} asks for the profiler while it starts for {:?}, but phases start one at a time",
                phase.0, self.owners
            ),
        }
    }

    /// Ends the ownership of `phase`, if it had any.
    pub(super) fn release(&mut self, phase: PhaseId, actions: &mut Vec<Action>) {
        self.owners.remove(&phase);
        self.stop_if_unowned(actions);
    }

    /// Takes the answer of a start: whether it profiles now. A failed start leaves nothing to stop and no owner.
    pub(super) fn start_answered(&mut self, started: bool, actions: &mut Vec<Action>) {
        assert_eq!(
            self.state,
            ProfilerState::Starting,
            "a profiler start was answered that nobody asked for"
        );
        if started {
            self.state = ProfilerState::Running;
            self.stop_if_unowned(actions);
        } else {
            self.state = ProfilerState::Stopped;
            self.owners.clear();
        }
    }

    /// Takes the answer of a stop. Whatever it was, the profiler counts as stopped: there is nothing better to do than to go on.
    pub(super) fn stop_answered(&mut self) {
        assert_eq!(
            self.state,
            ProfilerState::Stopping,
            "a profiler stop was answered that nobody asked for"
        );
        self.state = ProfilerState::Stopped;
    }

    /// Whether nothing runs and no call is under way.
    pub(super) fn is_stopped(&self) -> bool {
        self.state == ProfilerState::Stopped
    }

    /// Whether a stop is owed whose answer has not come.
    pub(super) fn is_stopping(&self) -> bool {
        self.state == ProfilerState::Stopping
    }

    fn stop_if_unowned(&mut self, actions: &mut Vec<Action>) {
        if self.state == ProfilerState::Running && self.owners.is_empty() {
            self.state = ProfilerState::Stopping;
            actions.push(Action::CallHook(HookCall::ProfilerStop));
        }
    }
}
