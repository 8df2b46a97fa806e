//! Which credits a phase has, and when each is due: an absolute schedule as a value.

mod expected;
mod gaps;
mod integrated_rate;

use std::num::NonZeroU32;
use std::sync::Arc;

pub use expected::ExpectedArrivals;
use gaps::UnitArrivals;
use integrated_rate::IntegratedRate;

use super::event::Pace;
use super::stream::{Purpose, Stream};
use super::users::UserStarts;
use crate::credit::{Cancellations, Credit};
use crate::plan::{
    AdaptivePlan, Arrival, ControlVariable, Conversations, PACE_LEAD, PhasePlan, RatePlan, Sampler, Schedule,
};
use crate::units::Nanos;

/// Where in the dataset the next request of the run takes its bytes from.
///
/// Requests take entries in the order of the dataset's sampling, and a phase goes on where the previous one stopped. Phases overlap while they
/// drain, but never while they send, so the cursor of a phase is known when it starts: see [`Pacer::cursor_after`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageCursor {
    position: u64,
    order: Sampler,
}

impl ImageCursor {
    /// The beginning of a dataset with this many entries that is taken as it stands.
    pub fn new(entries: NonZeroU32) -> Self {
        Self::in_order(Sampler::sequential(entries))
    }

    /// The beginning of an order.
    pub fn in_order(order: Sampler) -> Self {
        Self { position: 0, order }
    }

    /// The cursor after `count` more requests.
    pub fn advanced(self, count: u64) -> Self {
        Self {
            position: self.position.wrapping_add(count),
            ..self
        }
    }

    /// The cursor's position in the order.
    pub fn position(self) -> u64 {
        self.position
    }

    /// Index of the entry that the next request takes.
    pub fn image(self) -> u32 {
        self.order.entry(self.position)
    }
}

/// Overdue arrivals that are counted one by one: a second's work.
const COUNTED_OVERDUE: u64 = 10_000_000;

/// The credits of one phase in sequence, an iterator over absolute times.
///
/// Every due time is computed from the phase's start, never from the previous send, so no lateness of anyone can shift the schedule.
/// The schedule depends on the plan, the seed and the cursor alone: the same for any number of cores. Where a controller moves the pace it also
/// depends on what the controller says, and on nothing else: not on when anyone looks.
#[derive(Debug, Clone)]
pub struct Pacer {
    plan: PhasePlan,
    start: ImageCursor,
    cursor: ImageCursor,
    arrivals: Arrivals,
    cancellations: Option<Cancellations>,
    issued: u64,
    /// Due time of the next credit; `None` once there will be no other, as far as the pace is known.
    upcoming: Option<Nanos>,
    /// Nobody changes the pace before; [`Nanos::MAX`] where nobody ever does.
    known_until: Nanos,
}

/// Due times of arrivals in order, with what begins at each.
#[derive(Debug, Clone)]
enum Arrivals {
    ClosedLoop,
    /// The gaps and the rate know nothing of each other: a change of the rate changes no draw.
    AtRate {
        unit: UnitArrivals,
        /// The next arrival in units of the mean gap: a change of the rate moves its time and not this.
        next: f64,
        rate: IntegratedRate,
    },
    /// Starts that are known one by one, with their entries.
    FixedSchedule(Schedule),
    Users(UserStarts),
}

/// The lowest value of what a controller moves, if that is `variable`: the phase begins with it.
fn controlled(plan: &PhasePlan, variable: ControlVariable) -> Option<f64> {
    let adaptive = plan.limits.adaptive.as_ref()?;
    (adaptive.variable == variable).then_some(adaptive.min)
}

impl Pacer {
    /// The schedule of `plan`, whose first request takes the entry under `cursor`.
    ///
    /// # Panics
    /// If the phase has users: what they do depends on their conversations, see [`Pacer::of_sessions`].
    pub fn new(plan: &PhasePlan, seed: u64, cursor: ImageCursor) -> Self {
        let arrivals = match &plan.arrival {
            Arrival::ClosedLoop => Arrivals::ClosedLoop,
            Arrival::FixedSchedule(schedule) => Arrivals::FixedSchedule(schedule.clone()),
            Arrival::AtRate { gaps, rate } => {
                let mut unit = UnitArrivals::new(*gaps, Stream::new(seed, &plan.name, Purpose::Arrival));
                let lowest = controlled(plan, ControlVariable::RequestRate).map(RatePlan::constant);
                let rate = lowest.as_ref().unwrap_or(rate);
                Arrivals::AtRate {
                    next: unit.next(),
                    unit,
                    rate: IntegratedRate::new(rate, Stream::new(seed, &plan.name, Purpose::RateRamp)),
                }
            }
            Arrival::UserCentric { .. } => panic!("phase {} has users, who need conversations", plan.name),
        };
        Self::with_arrivals(plan, seed, cursor, arrivals)
    }

    /// The schedule of `plan`, whose sessions take `conversations` from the one under `cursor` on.
    pub fn of_sessions(plan: &PhasePlan, seed: u64, cursor: ImageCursor, conversations: &Arc<Conversations>) -> Self {
        let &Arrival::UserCentric { users, rate } = &plan.arrival else {
            return Self::new(plan, seed, cursor);
        };
        let starts = match controlled(plan, ControlVariable::Users) {
            // Fewer users at the same pace.
            Some(fewest) => UserStarts::new(
                AdaptivePlan::whole(fewest),
                fewest * rate / f64::from(users),
                Arc::clone(conversations),
                cursor,
            ),
            None => UserStarts::new(users, rate, Arc::clone(conversations), cursor),
        };
        Self::with_arrivals(plan, seed, cursor, Arrivals::Users(starts))
    }

    /// Requests of the phase in all, if its sessions are limited: started ones are finished, so these are the turns of their conversations.
    pub(super) fn requests_of_sessions(
        plan: &PhasePlan,
        cursor: ImageCursor,
        conversations: &Arc<Conversations>,
    ) -> Option<u64> {
        let sessions = plan.stop.sessions?;
        Some(match &plan.arrival {
            &Arrival::UserCentric { users, rate } => {
                UserStarts::new(users, rate, Arc::clone(conversations), cursor).turns_of(sessions)
            }
            _ => conversations.turns_of(cursor.order, cursor.position, sessions),
        })
    }

    fn with_arrivals(plan: &PhasePlan, seed: u64, cursor: ImageCursor, arrivals: Arrivals) -> Self {
        let pace_moves = plan.limits.adaptive.as_ref().filter(|plan| plan.variable.is_pace());
        let mut pacer = Self {
            known_until: pace_moves.map_or(Nanos::MAX, |plan| plan.assessment_period + PACE_LEAD),
            plan: plan.clone(),
            start: cursor,
            cursor,
            arrivals,
            cancellations: plan
                .cancellation
                .map(|draw| Cancellations::new(seed, &plan.name, draw.probability, draw.delay)),
            issued: 0,
            upcoming: None,
        };
        pacer.upcoming = pacer.find_upcoming();
        pacer
    }

    /// Due time of the next credit as an offset from the start of the phase, without taking it. Where the pace may change before, the time is the
    /// one at the pace of now.
    pub fn peek_intended(&self) -> Option<Nanos> {
        self.upcoming
    }

    /// Whether a credit may be taken when the phase has lasted for `elapsed`. Where the pace moves only those are there that are due soon, and none
    /// whose time is not certain yet; else all are.
    pub(super) fn is_open(&self, elapsed: Nanos) -> bool {
        let horizon = if self.known_until == Nanos::MAX {
            Nanos::MAX
        } else {
            self.known_until.min(elapsed + PACE_LEAD)
        };
        self.upcoming.is_some_and(|due| due < horizon)
    }

    /// From when on the next credit may be taken, in phases whose pace moves; `None` if only another pace can tell.
    #[cfg(test)]
    pub(super) fn opens(&self) -> Option<Nanos> {
        let due = self.upcoming.filter(|&due| due < self.known_until)?;
        (self.known_until < Nanos::MAX).then(|| Nanos((due.0 + 1).saturating_sub(PACE_LEAD.0)))
    }

    /// Whether no credit is left, whatever becomes of the pace.
    pub(super) fn is_exhausted(&self) -> bool {
        let end = self.plan.stop.duration.unwrap_or(Nanos::MAX);
        self.upcoming.is_none() && (self.known_until >= end || self.remaining() == Some(0))
    }

    /// The schedule goes on at another pace. What is due before it applies stays as it is, and so do the draws: the same arrivals come sooner or
    /// later.
    ///
    /// # Panics
    /// If the pace was certain for longer: a credit may have been taken whose time would have been another.
    pub(super) fn go_on(&mut self, pace: Pace) {
        let known_until = self.known_until;
        assert!(
            pace.from >= known_until && pace.known_until >= pace.from,
            "phase {}: {pace:?} changes a schedule that is certain until {known_until}",
            self.plan.name
        );
        match &mut self.arrivals {
            Arrivals::AtRate { rate, .. } => rate.change(pace.from.as_secs_f64(), pace.value),
            Arrivals::Users(starts) => starts.change(AdaptivePlan::whole(pace.value), pace.from),
            Arrivals::ClosedLoop | Arrivals::FixedSchedule(_) => {
                panic!("phase {} has no pace to move", self.plan.name)
            }
        }
        self.known_until = pace.known_until;
        if self.upcoming.is_none_or(|due| due >= pace.from) {
            // The rounding of the inverse must not carry an arrival to before the change.
            self.upcoming = self.find_upcoming().map(|due| due.max(pace.from));
        }
    }

    /// Credits taken from this pacer so far.
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// Where the next phase begins in the dataset when `sent` requests of this one were started. Credits that were issued but taken
    /// back consumed nothing, and a fixed schedule never does: it takes the entries that it names.
    pub fn cursor_after(&self, sent: u64) -> ImageCursor {
        match self.arrivals {
            Arrivals::FixedSchedule(_) => self.start,
            _ => self.start.advanced(sent),
        }
    }

    /// Turns of the session that begins with the next credit; moves on to the one after.
    fn take_turns(&mut self) -> u32 {
        match &mut self.arrivals {
            Arrivals::Users(starts) => starts.next_start().turns,
            _ => u32::MAX,
        }
    }

    /// The entry of the next credit.
    fn entry(&self) -> u32 {
        match &self.arrivals {
            Arrivals::FixedSchedule(schedule) => schedule.starts()[self.issued as usize].conversation,
            _ => self.cursor.image(),
        }
    }

    /// The credit behind the one that was taken.
    fn advance(&mut self) {
        self.issued += 1;
        // The last bit of an inverse may go back where the sum of gaps goes on.
        let before = self.upcoming.unwrap_or(Nanos::ZERO);
        if let Arrivals::AtRate { unit, next, .. } = &mut self.arrivals {
            *next = unit.next();
        }
        self.upcoming = self.find_upcoming().map(|due| due.max(before));
    }

    fn find_upcoming(&mut self) -> Option<Nanos> {
        if self.remaining() == Some(0) {
            return None;
        }
        let due = match &mut self.arrivals {
            // A closed loop has no schedule to compare with the duration: the machine takes unsent credits back when it ends.
            Arrivals::ClosedLoop => return Some(Nanos::ZERO),
            Arrivals::Users(_) if self.plan.stop.sessions.is_some_and(|sessions| self.issued >= sessions) => {
                return None;
            }
            Arrivals::Users(starts) => starts.peek(),
            Arrivals::AtRate { next, rate, .. } => Nanos::from_secs_f64(rate.time_of(*next)),
            Arrivals::FixedSchedule(schedule) => schedule.starts().get(self.issued as usize)?.due,
        };
        // An arrival at or after the end of the phase does not exist, nor does one beyond the end of time.
        (due < self.plan.stop.duration.unwrap_or(Nanos::MAX)).then_some(due)
    }

    /// Credits that may still be issued, if that is known. Where arrivals are dropped it is not: they go on until enough were sent.
    fn remaining(&self) -> Option<u64> {
        if self.plan.drops_arrivals() {
            return None;
        }
        self.plan
            .stop
            .requests
            .map(|requests| requests.saturating_sub(self.issued))
    }

    /// Takes the arrivals that are due when the phase has lasted for `elapsed` and gives their number.
    ///
    /// Beyond [`COUNTED_OVERDUE`] it is the expected number: a schedule that far ahead of its cores was a mistake, and the end of a run must not
    /// wait for it.
    pub(super) fn take_overdue(&mut self, elapsed: Nanos) -> u64 {
        let first = self.issued;
        while self.upcoming.is_some_and(|due| due <= elapsed) {
            if self.issued - first == COUNTED_OVERDUE {
                return COUNTED_OVERDUE + self.expected_overdue(elapsed);
            }
            self.take_turns();
            self.advance();
        }
        self.issued - first
    }

    /// Arrivals to be expected from the next one until `elapsed`.
    fn expected_overdue(&self, elapsed: Nanos) -> u64 {
        let Some(from) = self.upcoming else {
            return 0;
        };
        let until = elapsed.min(self.plan.stop.duration.unwrap_or(Nanos::MAX));
        let expected = match &self.arrivals {
            Arrivals::ClosedLoop => return 0,
            Arrivals::AtRate { rate, .. } => {
                rate.arrivals_by(until.as_secs_f64()) - rate.arrivals_by(from.as_secs_f64())
            }
            Arrivals::Users(starts) => until.since(from).as_secs_f64() * starts.per_second(),
            Arrivals::FixedSchedule(schedule) => {
                let ahead = &schedule.starts()[self.issued as usize..];
                return ahead.partition_point(|start| start.due <= until) as u64;
            }
        };
        (expected.round() as u64).min(self.remaining().unwrap_or(u64::MAX))
    }
}

impl Iterator for Pacer {
    type Item = Credit;

    fn next(&mut self) -> Option<Credit> {
        let intended = self.upcoming?;
        let turns = self.take_turns();
        let credit = Credit {
            phase: self.plan.id,
            conversation: self.entry(),
            turns,
            sequence: self.issued,
            intended,
            cancel_after: self.cancellations.and_then(|draws| draws.draw(self.issued)),
        };
        self.cursor = self.cursor.advanced(1);
        self.advance();
        Some(credit)
    }
}

#[cfg(test)]
mod distribution_tests;
#[cfg(test)]
mod pace_tests;
#[cfg(test)]
#[path = "pacer_tests.rs"]
mod tests;
