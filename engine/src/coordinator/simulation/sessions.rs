//! Sessions of simulated phases: what cores do where a conversation has several turns, or users pace themselves.
//!
//! The contract of the cores in few words: a turn is on its way or due at a time of its own, and a session holds one slot from its first turn to its
//! last. Requests are numbered as they start, and nothing starts once every number is taken.

use std::sync::Arc;

use super::{PhaseWorld, World};
use crate::coordinator::presence::Presence;
use crate::coordinator::{ImageCursor, Pacer};
use crate::credit::{Cancellations, Credit};
use crate::plan::{Conversations, PhasePlan, Sampler, TurnLaw};
use crate::units::Nanos;

/// One session under way.
#[derive(Debug)]
struct Session {
    number: u64,
    /// Turns that were sent, of how many.
    sent: u32,
    turns: u32,
    /// When the next turn is due; `None` while one is on its way.
    next: Option<Nanos>,
    /// When the latest turn was due.
    due: Nanos,
}

/// The sessions of one phase; none where a session is one request that a credit says it all about.
#[derive(Debug)]
pub(super) struct Sessions {
    law: TurnLaw,
    conversations: Arc<Conversations>,
    under_way: Vec<Session>,
    begun: u64,
    most: u64,
    /// Requests in all, if anything but the duration ends the phase.
    pub(super) total: Option<u64>,
    pub(super) presence: Presence,
    /// Users by their schedule: when each is due to begin and to leave.
    users: Vec<(Nanos, Nanos)>,
    /// A user who began left fewer than are wanted.
    short_since: Option<Nanos>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            law: TurnLaw::Single,
            conversations: Arc::new(Conversations::of_single_turns([])),
            under_way: Vec::new(),
            begun: 0,
            most: u64::MAX,
            total: None,
            presence: Presence::default(),
            users: Vec::new(),
            short_since: None,
        }
    }
}

impl Sessions {
    /// The sessions of a phase that starts, and its pacer.
    pub(super) fn start(
        plan: &PhasePlan,
        seed: u64,
        cursor: ImageCursor,
        conversations: &Arc<Conversations>,
    ) -> (Self, Pacer) {
        let law = plan.arrival.turn_law(conversations);
        let mut paced = plan.clone();
        let mut total = plan.stop.requests;
        if law != TurnLaw::Single {
            let of_sessions = Pacer::requests_of_sessions(plan, cursor, conversations);
            total = total.into_iter().chain(of_sessions).min();
            // Not every credit becomes a request.
            paced.stop.requests = None;
        }
        let sessions = Self {
            law,
            conversations: Arc::clone(conversations),
            most: plan.stop.sessions.unwrap_or(u64::MAX),
            total,
            ..Self::default()
        };
        (sessions, Pacer::of_sessions(&paced, seed, cursor, conversations))
    }

    /// A user is due to begin, where `wanted` are since `since`: there is a place for this one, and after a gap nobody is missing.
    pub(super) fn check_user(&mut self, credit: &Credit, (since, wanted): (Nanos, f64)) {
        let TurnLaw::Paced { gap } = self.law else { return };
        // Times are rounded to nanoseconds once each.
        let close = Nanos::from_micros(1);
        let due = credit.intended;
        self.users.retain(|&(_, leaves)| leaves > due + close);
        let others = self.users.len() as f64;
        assert!(
            others < wanted,
            "{credit:?} is one too many beside {others} of {wanted} users"
        );
        // Several may leave at the same instant, and their successors begin one after the other.
        if let Some(at) = self.short_since.filter(|&at| due > at + close && since <= at) {
            panic!("a user has been missing since {at}, before {credit:?}; {wanted} are wanted since {since}");
        }
        let is_short = due >= since + gap + close && others + 1.0 < wanted;
        self.short_since = is_short.then(|| self.short_since.unwrap_or(due));
        let turns = credit.turns.min(self.conversations.turns(credit.conversation));
        self.users.push((due, due + Nanos(gap.0 * u64::from(turns))));
    }

    pub(super) fn exist(&self) -> bool {
        self.law != TurnLaw::Single
    }

    pub(super) fn under_way(&self) -> u64 {
        self.under_way.len() as u64
    }

    /// A session of the phase has begun: its number.
    fn begin(&mut self, credit: &Credit, due: Nanos) -> u64 {
        let number = self.begun;
        assert!(number < self.most, "session {number} of {}", self.most);
        self.begun += 1;
        self.under_way.push(Session {
            number,
            sent: 1,
            turns: credit.turns.min(self.conversations.turns(credit.conversation)),
            next: None,
            due,
        });
        number
    }

    /// The session whose next turn has been due for longest, and since when.
    fn first_due(&self) -> Option<(usize, Nanos)> {
        let due = |(place, session): (usize, &Session)| Some((place, session.next?));
        let waiting = self.under_way.iter().enumerate().filter_map(due);
        waiting.min_by_key(|&(place, due)| (due, self.under_way[place].number))
    }

    /// A turn of a session that was due at `due` starts.
    fn go_on(&mut self, place: usize, due: Nanos) -> u64 {
        let session = &mut self.under_way[place];
        session.next = None;
        session.due = due;
        session.sent += 1;
        assert!(session.sent <= session.turns, "{session:?} has no such turn");
        session.number
    }

    /// A turn has returned. `open` tells whether the phase still sends.
    pub(super) fn returned(&mut self, number: u64, open: bool, now: Nanos) {
        let place = self.under_way.iter().position(|session| session.number == number);
        let place = place.expect("a session is under way until its last turn has returned");
        let session = &mut self.under_way[place];
        assert_eq!(session.next, None, "two turns of {session:?} at once");
        if !open || session.sent == session.turns {
            let is_over = session.sent == session.turns;
            self.under_way.swap_remove(place);
            if is_over {
                self.presence.ended(number);
            }
            return;
        }
        session.next = Some(match self.law {
            TurnLaw::Paced { gap } => now.max(session.due + gap),
            _ => now,
        });
    }

    /// The phase sends nothing more: sessions without a turn on its way end.
    pub(super) fn close(&mut self) {
        self.under_way.retain(|session| session.next.is_none());
    }
}

impl PhaseWorld {
    fn has_slot(&self) -> bool {
        let taken = if self.sessions.exist() {
            self.sessions.under_way()
        } else {
            self.truth.in_flight()
        };
        taken < u64::from(self.limit)
    }

    fn may_begin(&self) -> bool {
        self.has_slot() && self.sessions.begun < self.sessions.most
    }

    /// Whether every request was sent.
    pub(super) fn is_spent(&self) -> bool {
        self.sessions.total.is_some_and(|total| self.truth.sent >= total)
    }

    /// When the next request could start, as far as slots and its time decide it.
    pub(super) fn next_start(&self) -> Option<Nanos> {
        let credit = self.queue.front().map(|credit| self.start + credit.intended);
        if !self.sessions.exist() {
            return credit.filter(|_| self.has_slot());
        }
        if self.is_spent() || self.exhausted || self.stopped {
            return None;
        }
        let turn = self.sessions.first_due().map(|(_, due)| due);
        match self.sessions.law {
            TurnLaw::Credited => credit.filter(|_| turn.is_some() || self.may_begin()),
            _ => turn.into_iter().chain(credit.filter(|_| self.may_begin())).min(),
        }
    }

    /// Whether the phase will send more though nothing is answered: something is due later, and there is a slot for it.
    pub(super) fn more_is_due(&self, now: Nanos) -> bool {
        if self.stopped || self.is_spent() {
            return false;
        }
        let turn = self.sessions.first_due().is_some_and(|(_, due)| due > now);
        let has_credits_to_come = self.pacer.as_ref().is_some_and(|pacer| !pacer.is_exhausted());
        let awaits_credit = self.queue.is_empty() && has_credits_to_come && self.has_slot();
        turn || awaits_credit || self.next_start().is_some_and(|at| at > now)
    }

    /// Whether an arrival would be dropped that came and was not used at once.
    pub(super) fn finds_nothing(&self) -> bool {
        if self.sessions.exist() {
            self.sessions.first_due().is_none() && !self.has_slot()
        } else {
            !self.has_slot()
        }
    }
}

impl World {
    /// Gives the dataset conversations of so many turns.
    pub(in crate::coordinator) fn conversing(mut self, turns: &[usize]) -> Self {
        let ids = turns.iter().enumerate().map(|(id, &turns)| (id.to_string(), turns));
        self.conversations = Arc::new(Conversations::of_turns(ids));
        let entries = std::num::NonZeroU32::new(self.conversations.count()).expect("there is a conversation");
        self.cursor = ImageCursor::in_order(Sampler::sequential(entries));
        self
    }

    /// Starts the turn that is due next in a phase with sessions.
    pub(super) fn send_turn(&mut self, index: usize) {
        let world = &mut self.phases[index];
        let plan = &self.plans[index];
        let ready = world.sessions.first_due().filter(|&(_, due)| due <= self.now);
        let credit = world.queue.front().copied();
        let arrival = credit
            .map(|credit| world.start + credit.intended)
            .filter(|&due| due <= self.now);
        let is_closed_loop = plan.arrival.is_closed_loop();
        let goes_on = match (world.sessions.law, ready, arrival) {
            // In an open loop an arrival belongs to a turn that was due when it came.
            (TurnLaw::Credited, Some((_, due)), Some(arrival)) if !is_closed_loop && due > arrival => {
                let is_full = !world.has_slot();
                let none_left = world.sessions.begun == world.sessions.most;
                if none_left || (is_full && plan.drops_arrivals()) {
                    // It found nothing to start, or no slot for it.
                    world.dropped += u64::from(!none_left);
                    world.queue.pop_front();
                    return self.refill();
                }
                is_full
            }
            (_, ready, _) => ready.is_some(),
        };
        if world.sessions.law == TurnLaw::Credited || !goes_on {
            world.queue.pop_front();
        }
        let session = match ready.filter(|_| goes_on) {
            Some((place, due)) => world
                .sessions
                .go_on(place, arrival.map_or(due, |arrival| arrival.max(due))),
            None => {
                let credit = credit.expect("a session begins with a credit");
                let entry = self.cursor.image();
                let credit = match world.sessions.law {
                    // Cores take the conversations in the order of the sessions.
                    TurnLaw::Credited => Credit {
                        conversation: entry,
                        ..credit
                    },
                    _ => credit,
                };
                assert_eq!(
                    credit.conversation, entry,
                    "the dataset is not taken in order across phases"
                );
                self.cursor = self.cursor.advanced(1);
                let due = arrival.expect("it was chosen because it is due");
                world.sessions.begin(&credit, due)
            }
        };
        let sequence = world.truth.sent;
        let draws = |cancel: crate::plan::CancellationPlan| {
            let draws = Cancellations::new(self.seed, &plan.name, cancel.probability, cancel.delay);
            draws.draw(sequence)
        };
        let cancel_after = plan.cancellation.and_then(draws);
        self.launch(index, sequence, cancel_after, Some(session));
        self.refill();
    }
}
