//! Which credits a phase has, and when each is due: an absolute schedule as a value.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::stream::{Purpose, Stream};
use super::users::UserStarts;
use crate::credit::{Cancellations, Credit};
use crate::plan::{Arrival, Conversations, PhasePlan};
use crate::units::Nanos;

/// Where in the dataset the next request of the run takes its bytes from.
///
/// Requests take entries in order, wrapping, and a phase goes on where the previous one stopped. Phases overlap while they drain, but
/// never while they send, so the cursor of a phase is known when it starts: see [`Pacer::cursor_after`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageCursor {
    next: u32,
    entries: NonZeroU32,
}

impl ImageCursor {
    /// The beginning of a dataset with this many entries.
    pub fn new(entries: NonZeroU32) -> Self {
        Self { next: 0, entries }
    }

    /// The cursor after `count` more requests.
    pub fn advanced(self, count: u64) -> Self {
        let entries = u64::from(self.entries.get());
        let next = (u64::from(self.next) + count % entries) % entries;
        Self {
            next: u32::try_from(next).expect("a remainder of a division by a u32 fits a u32"),
            ..self
        }
    }

    /// Index of the entry that the next request takes.
    pub fn image(self) -> u32 {
        self.next
    }
}

/// The credits of one phase in sequence, an iterator over absolute times.
///
/// Every due time is computed from the phase's start, never from the previous send, so no lateness of anyone can shift the schedule.
/// The schedule depends on the plan, the seed and the cursor alone: the same for any number of cores.
#[derive(Debug, Clone)]
pub struct Pacer {
    plan: PhasePlan,
    start: ImageCursor,
    cursor: ImageCursor,
    arrivals: Arrivals,
    cancellations: Option<Cancellations>,
    issued: u64,
    /// Due time of the next credit; `None` once there will be no other.
    upcoming: Option<Nanos>,
}

/// Due times of arrivals in order, with what begins at each.
#[derive(Debug, Clone)]
enum Arrivals {
    ClosedLoop,
    Constant {
        rate: f64,
    },
    Poisson {
        rate: f64,
        draws: Stream,
        /// Sum of unit-mean draws: the arrival's time in units of the mean gap. Dividing the sum, not each gap, by the rate keeps the
        /// draws independent of the rate.
        sum: CompensatedSum,
    },
    Users {
        rate: f64,
        starts: UserStarts,
    },
}

impl Pacer {
    /// The schedule of `plan`, whose first request takes the entry under `cursor`.
    ///
    /// # Panics
    /// If the phase has users: what they do depends on their conversations, see [`Pacer::of_sessions`].
    pub fn new(plan: &PhasePlan, seed: u64, cursor: ImageCursor) -> Self {
        let arrivals = match plan.arrival {
            Arrival::ClosedLoop => Arrivals::ClosedLoop,
            Arrival::Constant { rate } => Arrivals::Constant { rate },
            Arrival::Poisson { rate } => Arrivals::Poisson {
                rate,
                draws: Stream::new(seed, &plan.name, Purpose::Arrival),
                sum: CompensatedSum::default(),
            },
            Arrival::UserCentric { .. } => panic!("phase {} has users, who need conversations", plan.name),
        };
        Self::with_arrivals(plan, seed, cursor, arrivals)
    }

    /// The schedule of `plan`, whose sessions take `conversations` from the one under `cursor` on.
    pub fn of_sessions(plan: &PhasePlan, seed: u64, cursor: ImageCursor, conversations: &Arc<Conversations>) -> Self {
        let Arrival::UserCentric { users, rate } = plan.arrival else {
            return Self::new(plan, seed, cursor);
        };
        let starts = UserStarts::new(users, Arc::clone(conversations), cursor);
        Self::with_arrivals(plan, seed, cursor, Arrivals::Users { rate, starts })
    }

    /// Requests of the phase in all, if its sessions are limited: started ones are finished, so these are the turns of their conversations.
    pub(super) fn requests_of_sessions(
        plan: &PhasePlan,
        cursor: ImageCursor,
        conversations: &Arc<Conversations>,
    ) -> Option<u64> {
        let sessions = plan.stop.sessions?;
        Some(match plan.arrival {
            Arrival::UserCentric { users, .. } => {
                UserStarts::new(users, Arc::clone(conversations), cursor).turns_of(sessions)
            }
            _ => conversations.turns_of(cursor.image(), sessions),
        })
    }

    fn with_arrivals(plan: &PhasePlan, seed: u64, cursor: ImageCursor, arrivals: Arrivals) -> Self {
        let mut pacer = Self {
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
        pacer.upcoming = pacer.compute_upcoming();
        pacer
    }

    /// Due time of the next credit as an offset from the start of the phase, without taking it.
    pub fn peek_intended(&self) -> Option<Nanos> {
        self.upcoming
    }

    /// Credits taken from this pacer so far.
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// Where the next phase begins in the dataset when `sent` requests of this one were started. Credits that were issued but taken
    /// back consumed nothing.
    pub fn cursor_after(&self, sent: u64) -> ImageCursor {
        self.start.advanced(sent)
    }

    fn compute_upcoming(&mut self) -> Option<Nanos> {
        if self.plan.stop.requests.is_some_and(|requests| self.issued >= requests) {
            return None;
        }
        let due = match &mut self.arrivals {
            // A closed loop has no schedule to compare with the duration: the machine takes unsent credits back when it ends.
            Arrivals::ClosedLoop => return Some(Nanos::ZERO),
            Arrivals::Constant { rate } => Nanos::from_secs_f64((self.issued + 1) as f64 / *rate),
            Arrivals::Users { .. } if self.plan.stop.sessions.is_some_and(|sessions| self.issued >= sessions) => {
                return None;
            }
            Arrivals::Users { rate, starts } => Nanos::from_secs_f64(starts.peek() as f64 / *rate),
            Arrivals::Poisson { rate, draws, sum } => {
                sum.add(draws.exponential());
                Nanos::from_secs_f64(sum.value() / *rate)
            }
        };
        // An arrival at or after the end of the phase does not exist, nor does one beyond the end of time.
        (due < self.plan.stop.duration.unwrap_or(Nanos::MAX)).then_some(due)
    }
}

impl Iterator for Pacer {
    type Item = Credit;

    fn next(&mut self) -> Option<Credit> {
        let intended = self.upcoming?;
        let turns = match &mut self.arrivals {
            Arrivals::Users { starts, .. } => starts.next_start().turns,
            _ => u32::MAX,
        };
        let credit = Credit {
            phase: self.plan.id,
            conversation: self.cursor.image(),
            turns,
            sequence: self.issued,
            intended,
            cancel_after: self.cancellations.and_then(|draws| draws.draw(self.issued)),
        };
        self.issued += 1;
        self.cursor = self.cursor.advanced(1);
        self.upcoming = self.compute_upcoming();
        Some(credit)
    }
}

/// A sum whose rounding error does not grow with the number of terms (Neumaier 1974). After 10^9 gaps a plain f64 sum may be off by
/// microseconds, the size of the lags that are measured against it.
#[derive(Debug, Clone, Default)]
struct CompensatedSum {
    sum: f64,
    correction: f64,
}

impl CompensatedSum {
    fn add(&mut self, term: f64) {
        let sum = self.sum + term;
        self.correction += if self.sum >= term {
            (self.sum - sum) + term
        } else {
            (term - sum) + self.sum
        };
        self.sum = sum;
    }

    fn value(&self) -> f64 {
        self.sum + self.correction
    }
}

#[cfg(test)]
#[path = "pacer_tests.rs"]
mod tests;
