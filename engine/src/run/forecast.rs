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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::plan::{BuildOptions, build};

    fn of(phases: &str, timeout: &str) -> Forecast {
        let text = format!(
            "random_seed: 1\nbenchmark:\n  model: m\n  endpoint: {{url: h, timeout: {timeout}}}\n  dataset: {{entries: 4, isl: 8, osl: 2}}\n  \
             phases:\n{phases}"
        );
        let config =
            config::parse("f.yaml", text.as_bytes(), &|_| None).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        forecast(&build(&config, &BuildOptions::default()).expect("the plan is sound"))
    }

    fn phase(rest: &str) -> String {
        format!("    - {{name: p, kind: profiling, {rest}}}\n")
    }

    fn one(rest: &str) -> PhaseForecast {
        of(&phase(rest), "100").phases[0].clone()
    }

    const fn s(seconds: u64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    #[test]
    fn a_closed_loop_ends_with_its_time_or_when_the_server_lets_it() {
        let timed = one("type: concurrency, concurrency: 4, duration: 10, grace_period: 5");
        assert_eq!(
            (timed.requests, timed.sending, timed.end),
            (Requests::Open, Bound::At(s(10)), Bound::At(s(15)))
        );
        // Without a grace period the timeout of the last request decides.
        let waits = one("type: concurrency, concurrency: 4, duration: 10, requests: 50");
        assert_eq!((waits.requests, waits.end), (Requests::AtMost(50), Bound::At(s(110))));
        let counted = one("type: concurrency, concurrency: 4, requests: 50");
        assert_eq!(
            (counted.requests, counted.end),
            (Requests::Exactly(50), Bound::None(BY_SERVER))
        );
        assert_eq!(one("type: concurrency, duration: inf").end, Bound::None(BY_INTERRUPT));
        let endless = of(&phase("type: concurrency, duration: 10"), "0").end;
        assert_eq!(endless, Bound::None(BY_ANSWERS));
    }

    #[test]
    fn an_open_loop_sends_the_integral_of_its_rate() {
        assert_eq!(
            one("type: constant, rate: 20, duration: 10").requests,
            Requests::About(200.0)
        );
        // From the rate of the ramp's start to its target on a line: half of it while it rises, but for its first tenth of a second.
        let Requests::About(ramped) = one("type: poisson, rate: 20, rate_ramp: 10, duration: 20").requests else {
            panic!("a rate over a time has an expectation")
        };
        assert!((300.0 - ramped).abs() < 2.0, "{ramped}");
        let series = one("type: gamma, rate_series: [{time_s: 0, qps: 10}, {time_s: 10, qps: 30}], duration: 20");
        assert_eq!(series.requests, Requests::About(500.0));
        let counted = one("type: constant, rate: 20, requests: 100");
        assert_eq!(
            (counted.requests, counted.sending),
            (Requests::Exactly(100), Bound::At(s(5)))
        );
        assert_eq!(
            one("type: poisson, rate: 20, requests: 100").sending,
            Bound::About(s(5))
        );
        assert_eq!(
            one("type: poisson, rate: 20, requests: 100, concurrency: 2").sending,
            Bound::None(BY_SERVER)
        );
        assert_eq!(
            one("type: poisson, rate: 20, requests: 1000, duration: 10").requests,
            Requests::About(200.0)
        );
        assert_eq!(
            one("type: poisson, rate: 20, requests: 100, duration: 10").requests,
            Requests::AtMost(100)
        );
    }

    #[test]
    fn phases_follow_one_another_and_seamless_ones_the_sending() {
        let timed = |name: &str, rest: &str| {
            format!("    - {{name: {name}, kind: profiling, type: concurrency, duration: 10, grace_period: 5{rest}}}\n")
        };
        assert_eq!(of(&(timed("a", "") + &timed("b", "")), "100").end, Bound::At(s(30)));
        assert_eq!(
            of(&(timed("a", "") + &timed("b", ", seamless: true")), "100").end,
            Bound::At(s(25))
        );
        // The long drain of the first outlasts the second.
        let long = timed("a", "").replace("grace_period: 5", "grace_period: 60");
        assert_eq!(
            of(&(long + &timed("b", ", seamless: true")), "100").end,
            Bound::At(s(70))
        );
        let open = timed("a", "").replace("duration: 10, grace_period: 5", "requests: 7");
        assert_eq!(of(&(open + &timed("b", "")), "100").end, Bound::None(BY_SERVER));
    }
}
