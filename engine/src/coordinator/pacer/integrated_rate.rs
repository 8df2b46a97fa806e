//! The rate of an open loop integrated over time, and its inverse in closed form.

use super::super::stream::Stream;
use crate::plan::{RampPlan, RampStrategy, RateCourse, RatePlan};

/// A ramp starts at the rate that it has after this time if it is linear and starts at zero; at its target if it is shorter. A start at zero
/// would leave the first arrivals to the rounding of tiny numbers.
const RAMP_START_S: f64 = 0.1;

/// Most steps of a drawn ramp, on average. Beyond it steps raise the rate by more than 1 per second: nobody tells them apart, and the steps of a
/// ramp to 10^9 per second would fill the memory.
const MOST_DRAWN_STEPS: f64 = 100_000.0;

/// Most steps towards a root that are cheaper than its closed form.
const NEWTON_STEPS: u32 = 2;
/// A step this small, as a share of the root, is the last: its square is below the precision of a float.
const NEWTON_PRECISION: f64 = 1e-8;

/// The integral `L(t)` of the rate from the start of the phase to `t`, as the function that takes a number of arrivals to the time at which
/// `L` reaches it.
///
/// An inhomogeneous Poisson process is a homogeneous one of unit rate under this function (time rescaling: Cinlar, Introduction to Stochastic
/// Processes, 1975, section 4.7), and so are arrivals with any other gaps of mean 1: their count until `t` follows `L(t)` whatever the course of
/// the rate.
#[derive(Debug, Clone)]
pub(super) struct IntegratedRate {
    /// Pieces in order; the first starts at zero and the last has no end.
    pieces: Vec<Piece>,
    /// The piece of the latest call.
    at: usize,
    /// What the latest call found there, in seconds from the start of the piece: the next answer is near.
    latest: f64,
}

/// A stretch of time over which the rate follows one formula.
#[derive(Debug, Clone, Copy)]
struct Piece {
    /// Seconds from the start of the phase.
    start_s: f64,
    length_s: f64,
    /// The integral up to the start of the piece.
    arrivals: f64,
    /// The rate at its start, positive.
    rate: f64,
    bend: Bend,
}

/// How the rate goes on from the start of a piece, `t` seconds later.
#[derive(Debug, Clone, Copy)]
enum Bend {
    /// `rate`
    Flat,
    /// `rate + slope * t`
    Linear { slope: f64 },
    /// `rate + factor * t^2` with a positive factor
    Square { factor: f64 },
}

impl IntegratedRate {
    /// The integral of `plan`. `draws` is used by a ramp of the strategy `poisson` only.
    pub(super) fn new(plan: &RatePlan, draws: Stream) -> Self {
        let mut pieces = Pieces::default();
        let target = match &plan.course {
            RateCourse::Constant(rate) => *rate,
            RateCourse::Series(points) => points.first().expect("a series has points").rate,
        };
        if let Some(ramp) = plan.ramp {
            pieces.ramp(target, ramp, draws);
        }
        if let RateCourse::Series(points) = &plan.course {
            let begin = pieces.end_s;
            for pair in points.windows(2) {
                pieces.flat_until(begin + pair[0].time_s, pair[0].rate);
                pieces.linear_until(begin + pair[1].time_s, pair[0].rate, pair[1].rate);
            }
        }
        let last = match &plan.course {
            RateCourse::Constant(rate) => *rate,
            RateCourse::Series(points) => points.last().expect("a series has points").rate,
        };
        pieces.flat_until(f64::INFINITY, last);
        Self {
            pieces: pieces.list,
            at: 0,
            latest: 0.0,
        }
    }

    /// From `from_s` seconds after the start of the phase on the rate is `rate`. The last piece must have begun by then.
    pub(super) fn change(&mut self, from_s: f64, rate: f64) {
        let last = self.pieces.last_mut().expect("the last piece has no end");
        let length_s = from_s - last.start_s;
        debug_assert!(
            length_s >= 0.0,
            "the rate changes at {from_s} s, before {} s",
            last.start_s
        );
        let next = Piece {
            start_s: from_s,
            length_s: f64::INFINITY,
            arrivals: last.arrivals + last.integral(length_s),
            rate,
            bend: Bend::Flat,
        };
        if length_s > 0.0 {
            last.length_s = length_s;
            self.pieces.push(next);
        } else {
            *last = next;
        }
    }

    /// Seconds from the start of the phase at which the integral reaches `arrivals`. Calls come with arrivals in order.
    pub(super) fn time_of(&mut self, arrivals: f64) -> f64 {
        // At a joint the later piece answers, and its answer is its start: both sides agree exactly.
        while let Some(next) = self.pieces.get(self.at + 1)
            && arrivals >= next.arrivals
        {
            self.at += 1;
            self.latest = 0.0;
        }
        let piece = &self.pieces[self.at];
        self.latest = piece.offset_of(arrivals, self.latest);
        piece.start_s + self.latest
    }

    /// The integral from the start of the phase to `time_s`.
    pub(super) fn arrivals_by(&self, time_s: f64) -> f64 {
        let after = self.pieces.partition_point(|piece| piece.start_s <= time_s);
        let piece = &self.pieces[after.saturating_sub(1)];
        piece.arrivals + piece.integral(time_s - piece.start_s)
    }
}

impl Piece {
    fn integral(&self, t: f64) -> f64 {
        match self.bend {
            Bend::Flat => self.rate * t,
            Bend::Linear { slope } => (self.rate + 0.5 * slope * t) * t,
            Bend::Square { factor } => (self.rate + factor / 3.0 * t * t) * t,
        }
    }

    /// Seconds from the start of the piece at which the integral reaches `arrivals`; `near` is a time close to it, or any other.
    fn offset_of(&self, arrivals: f64, near: f64) -> f64 {
        let count = arrivals - self.arrivals;
        let t = match self.bend {
            Bend::Flat => count / self.rate,
            // The root of rate t + slope t^2 / 2 = count, in the form that subtracts nothing when the rate rises and stays finite when the slope
            // is all but zero. What stands under the root is the square of the rate at `t`.
            Bend::Linear { slope } => {
                let square = self.rate * self.rate + 2.0 * slope * count;
                2.0 * count / (self.rate + square.max(0.0).sqrt())
            }
            Bend::Square { factor } => self
                .refined(factor, count, near)
                .unwrap_or_else(|| self.cubic_root(factor, count)),
        };
        // Rounding must not carry a time over the joint. `min` also takes the length for a NaN, which points closer than the floats can tell
        // apart could bring about.
        t.min(self.length_s)
    }

    /// The root of rate t + factor t^3 / 3 = count by Newton's steps from `near`, if two of them get there: on a ramp of many arrivals the latest
    /// one is so near that this takes a quarter of the time of the closed form.
    fn refined(&self, factor: f64, count: f64, near: f64) -> Option<f64> {
        let mut t = near;
        for _ in 0..NEWTON_STEPS {
            let step = (count - self.integral(t)) / (self.rate + factor * t * t);
            t += step;
            // A step from a distance d leaves at most d^2 factor t / (rate + factor t^2) < d^2 / t, with `t` the larger of its two ends: the square
            // of the relative error, and so less than a float can tell.
            if step.abs() <= NEWTON_PRECISION * t {
                return Some(t);
            }
        }
        None
    }

    /// The same in closed form: the one real root of t^3 + 3 p t = q. Cardano's is u - p / u with the cube root u below; as u^3 - (p / u)^3 = q, it
    /// is also a quotient that subtracts nothing.
    fn cubic_root(&self, factor: f64, count: f64) -> f64 {
        let (p, q) = (self.rate / factor, 3.0 * count / factor);
        let half = 0.5 * q;
        let u = (half + (half * half + p * p * p).sqrt()).cbrt();
        let v = p / u;
        q / (u * u + p + v * v)
    }
}

/// Pieces under construction.
#[derive(Debug, Default)]
struct Pieces {
    list: Vec<Piece>,
    end_s: f64,
    arrivals: f64,
}

impl Pieces {
    fn push(&mut self, end_s: f64, rate: f64, bend: Bend) {
        let piece = Piece {
            start_s: self.end_s,
            length_s: end_s - self.end_s,
            arrivals: self.arrivals,
            rate,
            bend,
        };
        if piece.length_s > 0.0 {
            self.arrivals += piece.integral(piece.length_s);
            self.end_s = end_s;
            self.list.push(piece);
        }
    }

    fn flat_until(&mut self, end_s: f64, rate: f64) {
        self.push(end_s, rate, Bend::Flat);
    }

    fn linear_until(&mut self, end_s: f64, from: f64, to: f64) {
        let slope = (to - from) / (end_s - self.end_s);
        let bend = if from == to { Bend::Flat } else { Bend::Linear { slope } };
        self.push(end_s, from, bend);
    }

    fn ramp(&mut self, target: f64, ramp: RampPlan, draws: Stream) {
        let duration = ramp.duration.as_secs_f64();
        let start = target * (RAMP_START_S / duration).min(1.0);
        let range = target - start;
        if range <= 0.0 {
            return self.flat_until(duration, target);
        }
        match ramp.strategy {
            RampStrategy::Linear => self.linear_until(duration, start, target),
            RampStrategy::Exponential => {
                let factor = range / (duration * duration);
                self.push(duration, start, Bend::Square { factor });
            }
            RampStrategy::Poisson => {
                let steps = drawn_steps(range, duration, draws);
                for (taken, &end_s) in steps.iter().enumerate() {
                    self.flat_until(end_s, start + range * (taken as f64 / steps.len() as f64));
                }
            }
        }
    }
}

/// Times of the equal steps of a drawn ramp: the arrivals of a Poisson process with `range / duration` arrivals per second up to the first at or
/// after `duration`, scaled so that it falls on `duration`.
fn drawn_steps(range: f64, duration: f64, mut draws: Stream) -> Vec<f64> {
    // In units of the mean gap the ramp is as long as it has steps on average.
    let length = range.min(MOST_DRAWN_STEPS);
    let mut times = Vec::new();
    let mut sum = 0.0;
    while sum < length {
        sum += draws.exponential();
        times.push(sum);
    }
    let scale = duration / sum;
    times.iter_mut().for_each(|time| *time *= scale);
    if let Some(last) = times.last_mut() {
        *last = duration;
    }
    times
}

#[cfg(test)]
#[path = "integrated_rate_tests.rs"]
mod tests;
