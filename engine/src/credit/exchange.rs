//! Everything that the coordinator and the cores share.

use std::sync::atomic::{AtomicBool, Ordering};

use super::gate::PhaseGate;
use super::link::{Command, CoreLink, Waker};
use super::prefill::PrefillSlots;
use super::progress::PhaseCounters;
use super::pulse::Pulse;
use crate::id::PhaseId;
use crate::units::Nanos;

/// The meeting place of the coordinator and the cores of one run.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// One gate per phase.
    pub(crate) gates: Vec<PhaseGate>,
    /// One link per core.
    pub(crate) links: Vec<CoreLink>,
    /// The prefill slots of phases with a prefill limit.
    pub(crate) prefill: PrefillSlots,
    /// Wakes the coordinator.
    pub(crate) coordinator: Waker,
    /// Set while the coordinator wants to know of every return at once (drains, overlapping phases).
    pub(crate) attention: AtomicBool,
    core_failed: AtomicBool,
}

impl Exchange {
    /// An exchange for a run. `capacities` gives the credits that each phase's gate holds.
    ///
    /// # Errors
    /// No descriptor for the wake-up events.
    pub(crate) fn new(capacities: &[usize], cores: usize) -> std::io::Result<Self> {
        Ok(Self {
            gates: capacities.iter().map(|&capacity| PhaseGate::new(capacity)).collect(),
            links: (0..cores)
                .map(|_| CoreLink::new(capacities.len()))
                .collect::<Result<_, _>>()?,
            prefill: PrefillSlots::new(cores),
            coordinator: Waker::new()?,
            attention: AtomicBool::new(false),
            core_failed: AtomicBool::new(false),
        })
    }

    /// The same exchange, with a line for samples from each core.
    pub(crate) fn sampled(mut self) -> Self {
        self.links = self.links.into_iter().map(CoreLink::sampled).collect();
        self
    }

    /// The counters of one phase on every core.
    pub(crate) fn counters(&self, phase: PhaseId) -> impl Iterator<Item = &PhaseCounters> {
        self.links.iter().map(move |link| link.progress.phase(phase.index()))
    }

    /// Lets so many requests be in prefill from now on.
    pub(crate) fn limit_prefills(&self, limit: u32, now: Nanos) {
        self.prefill.limit(limit, now, |core| self.links[core].waker.wake());
    }

    /// A core waits for a prefill slot. It looks for its grant at every turn from then on.
    pub(crate) fn wait_for_prefill(&self, core: usize, now: Nanos) {
        self.prefill.wait(core, now, |core| self.links[core].waker.wake());
    }

    /// A prefill slot is given back.
    pub(crate) fn release_prefill(&self, now: Nanos) {
        self.prefill.release(now, |core| self.links[core].waker.wake());
    }

    /// Asks every core for the [`Pulse`] of a phase; a byte after `since` is late enough.
    pub(crate) fn ask_pulse(&self, phase: PhaseId, since: Nanos) {
        for link in &self.links {
            link.pulse(phase).forget();
            link.command(Command::TellPulse { phase, since });
        }
    }

    /// The answers of all cores to the latest question, once every one is there.
    pub(crate) fn pulse(&self, phase: PhaseId) -> Option<Pulse> {
        self.links
            .iter()
            .try_fold(Pulse::NONE, |pulse, link| Some(pulse.and(link.pulse(phase).read()?)))
    }

    /// Whether every core has carried out `Close` for a phase.
    pub(crate) fn all_closed(&self, phase: PhaseId) -> bool {
        self.links.iter().all(|link| link.has_closed(phase))
    }

    /// A core has ended early. Its requests can never return, so the run cannot go on.
    pub(crate) fn report_core_failure(&self) {
        self.core_failed.store(true, Ordering::Release);
        self.coordinator.wake();
    }

    /// Whether a core has ended early.
    pub(crate) fn core_failed(&self) -> bool {
        self.core_failed.load(Ordering::Acquire)
    }
}
