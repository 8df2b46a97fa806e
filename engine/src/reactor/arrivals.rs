//! What a core does with arrivals in phases that drop those which find no slot.

use super::core::Core;
use crate::credit::Credit;
use crate::sys::driver::Driver;

/// Arrivals that a core drops at a time before it looks at its connections again: some tens of microseconds.
const DROPS_AT_ONCE: u64 = 1024;

impl<D: Driver> Core<D> {
    /// The next credit of a phase that has a free slot here, without the arrivals that found none: they are dropped, and counted.
    ///
    /// They are looked at when a slot has become free and not when they were due. Until then nobody needs to know, and a core without a slot must
    /// not take arrivals away from one that has some.
    pub(super) fn next_arrival(&mut self, phase: usize) -> Option<Credit> {
        if !self.phases[phase].drops {
            return self.next_credit(phase);
        }
        if !self.exchange.gates[phase].requests.any_left() {
            // What comes now comes after the last request.
            self.phases[phase].open = false;
            return None;
        }
        let start = self.exchange.gates[phase].start();
        let mut dropped = 0;
        let next = loop {
            match self.next_credit(phase) {
                Some(credit) if self.health.found_no_slot(phase, start + credit.intended) => dropped += 1,
                other => break other,
            }
            if dropped == DROPS_AT_ONCE {
                break None;
            }
        };
        if dropped > 0 {
            self.count_dropped(phase, dropped);
        }
        next
    }

    /// Arrivals of a phase found no slot.
    pub(super) fn count_dropped(&self, phase: usize, arrivals: u64) {
        let link = &self.exchange.links[self.id.index()];
        link.progress.phase(phase).count_dropped(arrivals);
    }

    /// The credit with its place among the requests of its phase. Where arrivals may be dropped the place is known when a request is certain to
    /// start, and not before; `None`: it cannot start yet, or the last request was started meanwhile.
    pub(super) fn numbered(&mut self, credit: Credit) -> Option<Credit> {
        let phase = credit.phase.index();
        if !self.phases[phase].drops {
            return Some(credit);
        }
        let can_send = self.can_send();
        if !can_send {
            return None;
        }
        let gate = &self.exchange.gates[phase];
        let Some(number) = gate.requests.take() else {
            self.phases[phase].open = false;
            return None;
        };
        if !gate.requests.any_left() {
            // The phase has sent all that it has to send.
            self.notify = true;
        }
        Some(Credit {
            sequence: number,
            conversation: self.images.order.entry(gate.first_position().wrapping_add(number)),
            cancel_after: self.phases[phase].cancellations.and_then(|draws| draws.draw(number)),
            ..credit
        })
    }
}
