//! When the turns of sessions start, and what becomes of a session when one has returned.
//!
//! Under [`TurnLaw::Credited`] a credit says only when something may start: a turn that is due goes first, else a new session begins. Under the other
//! laws a credit begins a session, and its later turns start when they are due. Either way a request takes its number from the phase's gate as it
//! starts, so that the totals are exact whatever the cores do.

use super::arrival_use::{Found, Use};
use super::completions::usage;
use super::connection::{NONE, Request, State};
use super::core::{Core, Start};
use super::prefill::PrefillRule;
use crate::clock;
use crate::credit::Credit;
use crate::id::PhaseId;
use crate::plan::TurnLaw;
use crate::record::Outcome;
use crate::sys::driver::Driver;
use crate::units::Nanos;

/// Leave for a turn to start.
#[derive(Debug, Clone, Copy)]
struct Leave {
    /// When it was given.
    at: Nanos,
    /// Since when the prefill slot was there for it; zero if nothing was waited for.
    since: Nanos,
}

impl<D: Driver> Core<D> {
    /// Starts every turn of a phase with sessions that may start.
    pub(super) fn start_turns(&mut self, phase: usize, now: Nanos) {
        if self.phases[phase].law != TurnLaw::Credited {
            self.start_due_turns(phase, now);
        }
        while self.wants_credit(phase) && !(self.phases[phase].closed_loop && now < self.paused_until) {
            let Some(credit) = self.next_credit(phase) else { break };
            let gate = &self.exchange.gates[phase];
            let due = gate.start() + credit.intended;
            if due > now || now >= gate.stop_at() || !self.use_credit(phase, credit, due, now) {
                self.phases[phase].held = Some(credit);
                break;
            }
        }
    }

    /// Uses up a credit that is due, if only for nothing; `false` if what it is for has to wait.
    fn use_credit(&mut self, phase: usize, credit: Credit, due: Nanos, now: Nanos) -> bool {
        let choice = match self.phases[phase].law {
            TurnLaw::Credited => self.choose(phase, due),
            _ => Use::Begin(credit.sequence),
        };
        match choice {
            Use::Idle => return true,
            Use::Drop => {
                self.count_dropped(phase, 1);
                return true;
            }
            Use::Continue(place) if self.sessions.get(place).has_connection() => {}
            Use::Continue(_) | Use::Begin(_) if self.can_send() => {}
            Use::Continue(_) | Use::Begin(_) => return false,
        }
        let Some(leave) = self.ask_leave(phase, now) else {
            if self.phases[phase].drops {
                self.count_dropped(phase, 1);
            }
            return self.phases[phase].drops;
        };
        match choice {
            Use::Continue(place) => self.continue_session(phase, place, due, leave),
            Use::Begin(number) => self.begin_session(phase, credit, number, leave),
            Use::Idle | Use::Drop => {}
        }
        true
    }

    /// Later turns that start without a credit.
    fn start_due_turns(&mut self, phase: usize, now: Nanos) {
        while self.may_continue(phase)
            && now < self.exchange.gates[phase].stop_at()
            && let Some(place) = self.sessions.first_ready(phase)
            && (self.sessions.get(place).has_connection() || self.can_send())
            && let Some(leave) = self.ask_leave(phase, now)
        {
            let due = self.sessions.get(place).due();
            self.continue_session(phase, place, due, leave);
        }
    }

    /// Takes a prefill slot for a turn if the phase has them. `None`: there is none, or the phase is over by now.
    fn ask_leave(&mut self, phase: usize, now: Nanos) -> Option<Leave> {
        let none = Nanos::ZERO;
        if self.phases[phase].prefill == PrefillRule::Free {
            return Some(Leave { at: now, since: none });
        }
        let since = self.take_prefill(PhaseId(phase as u16), now)?;
        // Another core may have freed the slot since this turn began: the request is issued after that.
        let at = clock::monotonic();
        let gate = &self.exchange.gates[phase];
        if at >= gate.stop_at() || !gate.requests.any_left() {
            self.exchange.release_prefill(at);
            return None;
        }
        Some(Leave { at, since })
    }

    /// The next number for a turn that has leave to start; without one the leave is given back.
    fn take_number(&mut self, phase: usize, leave: Leave) -> Option<u64> {
        let sequence = self.exchange.gates[phase].requests.take();
        if sequence.is_none() && self.phases[phase].prefill != PrefillRule::Free {
            self.exchange.release_prefill(leave.at);
        }
        sequence
    }

    /// Whether a session of the phase has a turn that could start.
    fn may_continue(&self, phase: usize) -> bool {
        self.phases[phase].open
            && self.sessions.first_ready(phase).is_some()
            && self.exchange.gates[phase].requests.any_left()
    }

    /// When a turn that needs no credit, and only waits for its time or for a place, should be looked at again.
    pub(super) fn next_turn(&self, phase: usize) -> Option<Nanos> {
        let by_itself = self.phases[phase].law != TurnLaw::Single && self.phases[phase].law != TurnLaw::Credited;
        let waits = self.phases[phase].awaits_prefill || !self.has_place();
        (by_itself && !waits && self.may_continue(phase)).then_some(Nanos::ZERO)
    }

    /// Whether a credit of the phase could be used: by a turn that is due or by a new session.
    pub(super) fn wants_credit(&self, phase: usize) -> bool {
        let (run, gate) = (&self.phases[phase], &self.exchange.gates[phase]);
        let has_slot = run.occupied < run.slots;
        if run.law == TurnLaw::Single {
            return run.open && has_slot;
        }
        let may_begin = match run.law {
            TurnLaw::Credited => has_slot && (run.claimed.is_some() || gate.sessions.any_left()),
            _ => has_slot,
        };
        let continues = run.law == TurnLaw::Credited && self.sessions.first_ready(phase).is_some();
        run.open && gate.requests.any_left() && (may_begin || continues)
    }

    /// Decides what a credit that was due at `due` is for.
    fn choose(&mut self, phase: usize, due: Nanos) -> Use {
        let run = &mut self.phases[phase];
        let gate = &self.exchange.gates[phase];
        let has_slot = run.occupied < run.slots;
        let place = self.sessions.first_ready(phase);
        let found = Found {
            due,
            closed_loop: run.closed_loop,
            ready: place.map(|place| (place, self.sessions.get(place).due())),
            has_slot,
            is_late: run.drops && (!has_slot || self.health.found_no_slot(phase, due)),
            sessions_left: gate.sessions.any_left(),
        };
        found.choose(&mut run.claimed, || gate.sessions.take())
    }

    fn begin_session(&mut self, phase: usize, credit: Credit, number: u64, leave: Leave) {
        let Some(sequence) = self.take_number(phase, leave) else {
            return;
        };
        let gate = &self.exchange.gates[phase];
        let conversation = match self.phases[phase].law {
            TurnLaw::Credited => self.images.order.entry(gate.first_position().wrapping_add(number)),
            _ => credit.conversation,
        };
        gate.count_begun();
        self.phases[phase].claimed = None;
        let intended = gate.start() + credit.intended;
        let images = self.images.conversations.images(conversation);
        let place = self
            .sessions
            .begin(credit.phase, number, images, credit.turns, intended);
        let wanted = (!self.phases[phase].closed_loop).then_some(intended);
        let ready = self
            .health
            .ready(phase, wanted, self.paused_until, leave.at)
            .max(leave.since);
        self.start_turn(place, sequence, wanted, ready, Start::NewSlot, leave.at);
    }

    fn continue_session(&mut self, phase: usize, place: u32, due: Nanos, leave: Leave) {
        let Some(sequence) = self.take_number(phase, leave) else {
            return;
        };
        self.sessions.take_ready(phase);
        let ready = self.sessions.get(place).due().max(due).max(leave.since);
        let wanted = (!self.phases[phase].closed_loop).then_some(due);
        self.start_turn(place, sequence, wanted, ready, Start::HeldSlot, leave.at);
    }

    fn start_turn(&mut self, place: u32, sequence: u64, wanted: Option<Nanos>, ready: Nanos, slot: Start, now: Nanos) {
        let session = self.sessions.get(place);
        let phase = session.phase();
        let gate = &self.exchange.gates[phase.index()];
        if !gate.requests.any_left() {
            // The coordinator learns that the phase has sent everything.
            self.notify = true;
        }
        let intended = wanted.unwrap_or(now);
        let image = session.image();
        let cancellations = self.phases[phase.index()].cancellations;
        let credit = Credit {
            phase,
            conversation: self.images.entries[image as usize].conversation,
            turns: u32::MAX,
            sequence,
            intended: intended.since(gate.start()),
            cancel_after: cancellations.and_then(|draws| draws.draw(sequence)),
        };
        let request = Request {
            image,
            session: session.number(),
            session_place: place,
            keeps_text: !session.is_last_turn() && self.images.entries[image as usize].has_history(),
            ..Request::new(credit, intended, ready, now)
        };
        let kept = session.take_connection();
        self.health.wanted(&credit, ready, now);
        let placed = self.dispatch(request, kept, slot, now);
        assert!(placed, "a turn starts only when it can be sent");
    }

    /// A turn has returned: the session goes on or is over.
    pub(super) fn turn_ended(&mut self, index: u32, request: &Request, outcome: Outcome, now: Nanos) {
        let phase = request.credit.phase.index();
        let connection = self.slab.peek(index);
        let session = self.sessions.get(request.session_place);
        if !self.phases[phase].open || session.is_last_turn() {
            self.sessions.end(request.session_place);
            self.leave_slot(phase, now);
            return;
        }
        let image = &self.images.entries[request.image as usize];
        let next = &self.images.entries[request.image as usize + 1];
        let answer = match outcome {
            Outcome::Success => connection.reader.text(),
            // What had come of it is no answer.
            _ => &[],
        };
        let answer_tokens = usage(connection.reader.usage()).completion_tokens;
        if image.has_history() {
            let answer = (self.images.answer_frame, answer);
            session.remember(image.message(), image.input_tokens, answer, answer_tokens);
        }
        let due = match self.phases[phase].law {
            TurnLaw::Paced { gap } => now.max(session.due() + gap),
            TurnLaw::Scheduled { zero } => next.timestamp.map_or(now + next.delay, |at| {
                self.exchange.gates[phase].start() + at.since(zero)
            }),
            TurnLaw::Single | TurnLaw::Credited => now + next.delay,
        };
        self.sessions.await_turn(request.session_place, due, now);
    }

    /// Ends the sessions of a phase that have no turn on its way.
    pub(super) fn cut_sessions(&mut self, phase: PhaseId, now: Nanos) {
        let (ended, connections) = self.sessions.cut(phase);
        for _ in 0..ended {
            self.leave_slot(phase.index(), now);
        }
        for index in connections {
            self.slab.get(index).session = NONE;
            self.close(index);
        }
    }

    /// Keeps the connection of a turn that has returned for the next turn of its session, if there will be one.
    pub(super) fn keep_for_session(&mut self, index: u32, place: u32) {
        self.slab.get(index).session = place;
        self.sessions.get(place).keep_connection(index);
        debug_assert_eq!(self.slab.get(index).state, State::Idle);
    }
}
