//! Signs of life of phases whose counts stand still: asked of the cores, and told to the machine.

use super::Coordinator;
use crate::coordinator::event::Event;
use crate::coordinator::silence::Signs;
use crate::credit::Outlook;
use crate::id::PhaseId;
use crate::units::Nanos;

impl Coordinator {
    /// Asks every core about a phase.
    pub(super) fn look_for_signs(&mut self, phase: PhaseId, since: Nanos) {
        self.exchange.ask_pulse(phase, since);
        self.asked.push(phase);
    }

    /// Passes on what all cores have answered.
    pub(super) fn hear_cores(&mut self, now: Nanos) {
        for phase in std::mem::take(&mut self.asked) {
            let Some(pulse) = self.exchange.pulse(phase) else {
                self.asked.push(phase);
                continue;
            };
            let has_credits_to_come =
                |phase| matches!(&self.sending, Some(sending) if sending.phase == phase && !sending.exhausted);
            let signs = Signs {
                last_byte: pulse.last_life,
                oldest: pulse.oldest,
                more_is_due: match pulse.outlook {
                    Outlook::Answer => false,
                    Outlook::Credit => has_credits_to_come(phase),
                    Outlook::Time => true,
                },
            };
            self.tell(Event::SignsSeen { phase, signs }, now);
        }
    }
}
