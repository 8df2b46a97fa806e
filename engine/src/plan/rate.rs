//! When requests of a phase start, and how fast arrivals come over its time.

use super::{RampPlan, Schedule};

/// When requests of a phase start.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrival {
    /// Closed loop: a request starts whenever a slot is free.
    ClosedLoop,
    /// Open loop: requests start when a schedule says so. Arrival k (from 1) is due when the integral of the rate over the time since the start
    /// of the phase reaches the sum of the first k gaps, each a draw with mean 1.
    ///
    /// So the rate changes nothing in the draws, and whatever its course, as many arrivals as its integral are to be expected.
    AtRate {
        /// Distribution of the gaps.
        gaps: Gaps,
        /// Arrivals per second.
        rate: RatePlan,
    },
    /// Open loop: requests start at the timestamps of the dataset.
    FixedSchedule(Schedule),
    /// Open loop: users who each send a turn every `users / rate` seconds, whatever the server does, and are followed by others when they leave.
    UserCentric {
        /// Users at any time, at least 1.
        users: u32,
        /// Requests per second of all users together, positive and finite.
        rate: f64,
    },
}

impl Arrival {
    /// Arrivals at even gaps of `1 / rate` seconds.
    pub fn constant(rate: f64) -> Self {
        Self::AtRate {
            gaps: Gaps::Even,
            rate: RatePlan::constant(rate),
        }
    }

    /// Arrivals of a Poisson process with `rate` arrivals per second.
    pub fn poisson(rate: f64) -> Self {
        Self::AtRate {
            gaps: Gaps::Exponential,
            rate: RatePlan::constant(rate),
        }
    }

    /// Arrivals with gamma-distributed gaps and `rate` arrivals per second.
    pub fn gamma(rate: f64, shape: f64) -> Self {
        Self::AtRate {
            gaps: Gaps::Gamma { shape },
            rate: RatePlan::constant(rate),
        }
    }

    /// The same gaps at another rate; what has no gaps stays what it is.
    #[must_use]
    pub fn at(self, rate: RatePlan) -> Self {
        match self {
            Self::AtRate { gaps, .. } => Self::AtRate { gaps, rate },
            other => other,
        }
    }

    /// Whether requests start when slots are free and not when a schedule says so.
    pub fn is_closed_loop(&self) -> bool {
        *self == Self::ClosedLoop
    }
}

/// The distribution of gaps between arrivals, in units of the mean gap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Gaps {
    /// Always 1.
    Even,
    /// Exponential with mean 1: a Poisson process.
    Exponential,
    /// Gamma with mean 1.
    Gamma {
        /// The shape, positive: the coefficient of variation is `1 / sqrt(shape)`, and 1 is exponential.
        shape: f64,
    },
}

/// Arrivals per second over the time of a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct RatePlan {
    /// The rate once the ramp is over. Its time begins there.
    pub course: RateCourse,
    /// How the rate gets to the first value of its course; at once without it.
    pub ramp: Option<RampPlan>,
}

impl RatePlan {
    /// `rate` arrivals per second, always.
    pub fn constant(rate: f64) -> Self {
        Self {
            course: RateCourse::Constant(rate),
            ramp: None,
        }
    }

    /// A rate that is linear between points `(seconds, arrivals per second)`, the first value before the first and the last after the last.
    pub fn series(points: &[(f64, f64)]) -> Self {
        let point = |&(time_s, rate)| RatePoint { time_s, rate };
        Self {
            course: RateCourse::Series(points.iter().map(point).collect()),
            ramp: None,
        }
    }

    /// The same after a ramp.
    #[must_use]
    pub fn ramped(self, ramp: RampPlan) -> Self {
        Self {
            ramp: Some(ramp),
            ..self
        }
    }
}

/// The rate of a phase after its ramp. All rates are positive and at most 10^9 per second.
#[derive(Debug, Clone, PartialEq)]
pub enum RateCourse {
    /// Always the same.
    Constant(f64),
    /// Linear between points, constant before and after them. At least one point, times strictly increasing.
    Series(Vec<RatePoint>),
}

/// One point of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatePoint {
    /// Seconds since the beginning of the series, zero or more.
    pub time_s: f64,
    /// Arrivals per second.
    pub rate: f64,
}

/// What becomes of an arrival that finds every slot of its phase taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnCap {
    /// It waits, in order, and keeps its intended start.
    #[default]
    Wait,
    /// It is dropped, and counted.
    Drop,
}
