//! What a core says of a phase whose counters have stood still for long.

use super::core::Core;
use crate::credit::{Outlook, Pulse};
use crate::id::PhaseId;
use crate::sys::driver::Driver;
use crate::units::Nanos;

impl<D: Driver> Core<D> {
    /// Leaves word of the requests of a phase. Walks from the oldest request in flight on, and only until one has had a byte after `since`.
    pub(super) fn tell_pulse(&mut self, phase: PhaseId, since: Nanos, now: Nanos) {
        let (mut last_life, mut oldest) = (None, None);
        let mut at = self.slab.oldest();
        while let Some(index) = at.filter(|_| last_life <= Some(since)) {
            at = self.slab.younger(index);
            let request = self.slab.get(index).request();
            if request.credit.phase == phase {
                last_life = last_life.max(Some(request.last_life));
                oldest = oldest.or(Some(request.issued));
            }
        }
        let outlook = self.outlook(phase.index(), now);
        self.exchange.links[self.id.index()].pulse(phase).leave(Pulse {
            last_life,
            oldest,
            outlook,
        });
    }

    /// What has to happen before this core sends another request of a phase.
    fn outlook(&self, phase: usize, now: Nanos) -> Outlook {
        let run = &self.phases[phase];
        if run.open && self.sessions.any_waits(PhaseId(phase as u16)) {
            return Outlook::Time;
        }
        if !self.wants_credit(phase) {
            return Outlook::Answer;
        }
        match run.held {
            None => Outlook::Credit,
            // What is due already waits for something else than time.
            Some(held) if self.exchange.gates[phase].start() + held.intended <= now => Outlook::Answer,
            Some(_) if run.awaits_prefill || !self.has_place() => Outlook::Answer,
            Some(_) => Outlook::Time,
        }
    }
}
