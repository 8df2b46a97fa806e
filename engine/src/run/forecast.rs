//! What a plan comes to, said before anything is sent: expected requests, and the latest moment at which each phase can end.
//!
//! A pure function of the plan. What depends on the server has no figure here, and says so.

use crate::coordinator::ExpectedArrivals;
use crate::plan::{Arrival, Conversations, DrainRule, Gaps, PhasePlan, Plan, TurnLaw};
use crate::units::Nanos;

/// What a whole plan comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// By phase, in order.
    pub phases: Vec<PhaseForecast>,
    /// From the start of the first phase to the end of the last, at worst.
    pub end: Bound,
}

/// What a phase comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseForecast {
    /// Requests that it sends.
    pub requests: Requests,
    /// From its start to its last send, at worst.
    pub sending: Bound,
    /// From its start to its end, at worst.
    pub end: Bound,
}

/// How many requests a phase sends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Requests {
    /// So many, unless the run ends early.
    Exactly(u64),
    /// So many if the server is fast enough, else fewer.
    AtMost(u64),
    /// About so many: the integral of the rate, or what conversations of the mean length come to.
    About(f64),
    /// As many as the server answers.
    Open,
}

/// The latest moment of something.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// Then.
    At(Nanos),
    /// About then: random gaps have no latest moment.
    About(Nanos),
    /// There is none, for this reason.
    None(&'static str),
}

const BY_SERVER: &str = "the server decides how fast requests end";
const BY_INTERRUPT: &str = "nothing but an interrupt ends it";
const BY_ANSWERS: &str = "requests have no timeout, so the last answers may take any time";

/// Looks at a plan.
pub fn forecast(plan: &Plan) -> Forecast {
    let conversations = &plan.requests.conversations;
    let mut phases = Vec::with_capacity(plan.phases.len());
    // Ends of all phases so far, and the last send of the latest, from the start of the first.
    let (mut ends, mut sent) = (Bound::At(Nanos::ZERO), Bound::At(Nanos::ZERO));
    for phase in &plan.phases {
        let one = of_phase(phase, plan.seed, conversations, plan.endpoint.request_timeout);
        let start = if phase.seamless { sent } else { ends };
        sent = start.plus(one.sending);
        ends = ends.later(start.plus(one.end));
        phases.push(one);
    }
    Forecast { phases, end: ends }
}

fn of_phase(phase: &PhasePlan, seed: u64, conversations: &Conversations, timeout: Option<Nanos>) -> PhaseForecast {
    let expected = ExpectedArrivals::of(phase, seed);
    let sending = sending(phase, conversations, expected.as_ref());
    PhaseForecast {
        requests: requests(phase, conversations, expected.as_ref()),
        sending,
        end: match (phase.drain, phase.stop.duration) {
            (DrainRule::Grace(grace), Some(duration)) => Bound::At(duration + grace),
            // Every request in flight ends with its timeout.
            _ => match timeout {
                Some(timeout) => sending.plus(Bound::At(timeout)),
                None => sending.plus(Bound::None(BY_ANSWERS)),
            },
        },
    }
}

/// Whether arrivals may have to wait for the server before they are sent.
fn may_wait(phase: &PhasePlan, conversations: &Conversations) -> bool {
    let has_limit = phase.concurrency.is_some() || phase.limits.prefill.is_some();
    (has_limit && !phase.drops_arrivals()) || conversations.has_later_turns()
}

fn sending(phase: &PhasePlan, conversations: &Conversations, expected: Option<&ExpectedArrivals>) -> Bound {
    if let Some(duration) = phase.stop.duration {
        return Bound::At(duration);
    }
    if phase.stop.requests.is_none() && phase.stop.sessions.is_none() {
        return Bound::None(BY_INTERRUPT);
    }
    if may_wait(phase, conversations) {
        return Bound::None(BY_SERVER);
    }
    match (&phase.arrival, expected, phase.stop.requests) {
        (Arrival::AtRate { gaps, .. }, Some(expected), Some(requests)) => {
            // Dropped arrivals do not count, so there is no saying how many it takes.
            if phase.drops_arrivals() {
                return Bound::None(BY_SERVER);
            }
            let last = expected.time_of(requests as f64);
            if *gaps == Gaps::Even {
                Bound::At(last)
            } else {
                Bound::About(last)
            }
        }
        (Arrival::FixedSchedule(schedule), ..) => {
            Bound::At(schedule.starts().last().map_or(Nanos::ZERO, |start| start.due))
        }
        _ => Bound::None(BY_SERVER),
    }
}

fn requests(phase: &PhasePlan, conversations: &Conversations, expected: Option<&ExpectedArrivals>) -> Requests {
    let stop = &phase.stop;
    let is_single = phase.arrival.turn_law(conversations) == TurnLaw::Single;
    let of_sessions = stop
        .sessions
        .map(|sessions| sessions as f64 * conversations.turns_mean());
    let in_time = stop.duration.and_then(|duration| match &phase.arrival {
        Arrival::AtRate { .. } => expected.map(|expected| expected.by(duration)),
        Arrival::FixedSchedule(schedule) if is_single => {
            let starts = schedule.starts();
            Some(starts.partition_point(|start| start.due < duration) as f64)
        }
        Arrival::UserCentric { rate, .. } => Some(rate * duration.as_secs_f64()),
        Arrival::ClosedLoop | Arrival::FixedSchedule(_) => None,
    });
    let fewest = [of_sessions, in_time].into_iter().flatten().reduce(f64::min);
    match (stop.requests, fewest) {
        // A count that is reached before the time is up, on average by far, is exact only if nothing keeps it from being reached.
        (Some(count), Some(other)) if other < count as f64 => Requests::About(other),
        (Some(count), _) if stop.duration.is_some() => Requests::AtMost(count),
        (Some(count), _) => Requests::Exactly(count),
        (None, Some(other)) => Requests::About(other),
        (None, None) => Requests::Open,
    }
}

impl Bound {
    /// One after the other.
    fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::None(reason), _) | (_, Self::None(reason)) => Self::None(reason),
            (Self::At(a), Self::At(b)) => Self::At(a + b),
            (Self::At(a) | Self::About(a), Self::At(b) | Self::About(b)) => Self::About(a + b),
        }
    }

    /// The later of both.
    fn later(self, other: Self) -> Self {
        match (self, other) {
            (Self::None(reason), _) | (_, Self::None(reason)) => Self::None(reason),
            (Self::At(a), Self::At(b)) => Self::At(a.max(b)),
            (Self::At(a) | Self::About(a), Self::At(b) | Self::About(b)) => Self::About(a.max(b)),
        }
    }
}
