//! Which credits a phase has, and when each is due: an absolute schedule as a value.

use std::num::NonZeroU32;

use super::stream::{Purpose, Stream};
use crate::credit::Credit;
use crate::plan::{Arrival, CancellationPlan, PhasePlan, Sampler, Schedule};
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

    /// Index of the entry that the next request takes.
    pub fn image(self) -> u32 {
        self.order.entry(self.position)
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
    cancellation: Option<Cancellation>,
    issued: u64,
    /// Due time of the next credit; `None` once there will be no other.
    upcoming: Option<Nanos>,
}

/// Due times of arrivals in order.
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
    /// Starts that are known one by one, with their entries.
    FixedSchedule(Schedule),
}

#[derive(Debug, Clone)]
struct Cancellation {
    plan: CancellationPlan,
    draws: Stream,
}

impl Pacer {
    /// The schedule of `plan`, whose first request takes the entry under `cursor`.
    pub fn new(plan: &PhasePlan, seed: u64, cursor: ImageCursor) -> Self {
        let arrivals = match plan.arrival {
            Arrival::ClosedLoop => Arrivals::ClosedLoop,
            Arrival::FixedSchedule(ref schedule) => Arrivals::FixedSchedule(schedule.clone()),
            Arrival::Constant { rate } => Arrivals::Constant { rate },
            Arrival::Poisson { rate } => Arrivals::Poisson {
                rate,
                draws: Stream::new(seed, &plan.name, Purpose::Arrival),
                sum: CompensatedSum::default(),
            },
        };
        let cancellation = plan
            .cancellation
            .filter(|cancellation| cancellation.probability > 0.0)
            .map(|cancellation| Cancellation {
                plan: cancellation,
                draws: Stream::new(seed, &plan.name, Purpose::Cancellation),
            });
        let mut pacer = Self {
            plan: plan.clone(),
            start: cursor,
            cursor,
            arrivals,
            cancellation,
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
    /// back consumed nothing, and a fixed schedule never does: it takes the entries that it names.
    pub fn cursor_after(&self, sent: u64) -> ImageCursor {
        match self.arrivals {
            Arrivals::FixedSchedule(_) => self.start,
            _ => self.start.advanced(sent),
        }
    }

    /// The entry of the next credit.
    fn entry(&self) -> u32 {
        match &self.arrivals {
            Arrivals::FixedSchedule(schedule) => schedule.starts()[self.issued as usize].conversation,
            _ => self.cursor.image(),
        }
    }

    fn compute_upcoming(&mut self) -> Option<Nanos> {
        if self.plan.stop.requests.is_some_and(|requests| self.issued >= requests) {
            return None;
        }
        let due = match &mut self.arrivals {
            // A closed loop has no schedule to compare with the duration: the machine takes unsent credits back when it ends.
            Arrivals::ClosedLoop => return Some(Nanos::ZERO),
            Arrivals::Constant { rate } => Nanos::from_secs_f64((self.issued + 1) as f64 / *rate),
            Arrivals::FixedSchedule(schedule) => schedule.starts().get(self.issued as usize)?.due,
            Arrivals::Poisson { rate, draws, sum } => {
                sum.add(draws.exponential());
                Nanos::from_secs_f64(sum.value() / *rate)
            }
        };
        // An arrival at or after the end of the phase does not exist, nor does one beyond the end of time.
        (due < self.plan.stop.duration.unwrap_or(Nanos::MAX)).then_some(due)
    }

    fn draw_cancellation(&mut self) -> Option<Nanos> {
        let cancellation = self.cancellation.as_mut()?;
        (cancellation.draws.uniform() < cancellation.plan.probability).then_some(cancellation.plan.delay)
    }
}

impl Iterator for Pacer {
    type Item = Credit;

    fn next(&mut self) -> Option<Credit> {
        let intended = self.upcoming?;
        let credit = Credit {
            phase: self.plan.id,
            image: self.entry(),
            sequence: self.issued,
            intended,
            cancel_after: self.draw_cancellation(),
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
