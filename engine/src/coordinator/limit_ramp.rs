//! A limit that rises from 1 to its target, as a value: no clock, and no lateness of anyone can shift a step.

use std::num::NonZeroU32;

use super::stream::Stream;
use crate::plan::{RampPlan, RampStrategy};
use crate::units::Nanos;

/// Most steps of a ramp whose steps are drawn. Beyond it steps raise the limit by more than 1: nobody tells steps of microseconds apart, and
/// the draws of a ramp to four thousand million would fill the memory.
const MOST_DRAWN_STEPS: u32 = 100_000;

/// The limit of a phase at every instant since its start.
///
/// With progress `p = (value - 1) / (target - 1)` and duration `D`, a value applies from
///
/// - `D * p` on (linear),
/// - `D * p^(1/2)` on (exponential: the value grows with the square of the time),
/// - the arrivals of a Poisson process with rate `(target - 1) / D`, of which the first at or after `D` is the last. Their times are scaled so
///   that it falls on `D`, and their steps are equal, so the target is reached exactly then (poisson).
#[derive(Debug, Clone)]
pub(super) struct LimitRamp {
    target: u32,
    duration: Nanos,
    course: Course,
}

#[derive(Debug, Clone)]
enum Course {
    Linear,
    Exponential,
    /// Times of the steps, in order; the last is the duration.
    Poisson(Vec<Nanos>),
}

impl LimitRamp {
    /// The ramp to `target`. `draws` is used by the strategy `poisson` only.
    pub(super) fn new(target: NonZeroU32, plan: RampPlan, draws: Stream) -> Self {
        Self {
            target: target.get(),
            duration: plan.duration,
            course: match plan.strategy {
                RampStrategy::Linear => Course::Linear,
                RampStrategy::Exponential => Course::Exponential,
                RampStrategy::Poisson => Course::Poisson(drawn_steps(target.get() - 1, plan.duration, draws)),
            },
        }
    }

    /// The limit when the phase has lasted for `elapsed`.
    pub(super) fn value_at(&self, elapsed: Nanos) -> u32 {
        if elapsed >= self.duration || self.target == 1 {
            return self.target;
        }
        match &self.course {
            Course::Poisson(steps) => {
                let taken = steps.partition_point(|&step| step <= elapsed);
                let range = u64::from(self.target - 1);
                // At most the range, which is a u32.
                1 + (range * taken as u64 / steps.len() as u64) as u32
            }
            // The largest value that is due. Searched and not computed by the inverse formula, whose rounding could disagree with `due`: a
            // step that is due and not taken would be asked for again and again.
            _ => {
                let (mut reached, mut beyond) = (1, u64::from(self.target) + 1);
                while beyond - reached > 1 {
                    let middle = reached + (beyond - reached) / 2;
                    if self.due(middle) <= elapsed {
                        reached = middle;
                    } else {
                        beyond = middle;
                    }
                }
                reached as u32
            }
        }
    }

    /// When the limit changes next, if the phase has lasted for `elapsed`; later than that. `None`: never again.
    pub(super) fn next_step(&self, elapsed: Nanos) -> Option<Nanos> {
        if elapsed >= self.duration || self.target == 1 {
            return None;
        }
        match &self.course {
            Course::Poisson(steps) => steps.get(steps.partition_point(|&step| step <= elapsed)).copied(),
            _ => Some(self.due(u64::from(self.value_at(elapsed)) + 1)),
        }
    }

    /// When `value`, from 1 to the target, applies. Rounded up, so that it never comes early.
    fn due(&self, value: u64) -> Nanos {
        let (steps, range) = (value - 1, u64::from(self.target - 1));
        if steps == 0 {
            return Nanos::ZERO;
        }
        if steps >= range {
            return self.duration;
        }
        match self.course {
            Course::Linear => {
                let due = (u128::from(self.duration.0) * u128::from(steps)).div_ceil(u128::from(range));
                // Less than the duration, which is a u64.
                Nanos(due as u64)
            }
            Course::Exponential => {
                let progress = steps as f64 / range as f64;
                let due = (self.duration.0 as f64 * progress.sqrt()).ceil() as u64;
                Nanos(due).min(self.duration)
            }
            Course::Poisson(_) => unreachable!("drawn steps are looked up"),
        }
    }
}

/// Times of the steps of a drawn ramp over `range`.
fn drawn_steps(range: u32, duration: Nanos, mut draws: Stream) -> Vec<Nanos> {
    // In units of the mean gap the ramp is as long as it has steps on average.
    let length = f64::from(range.min(MOST_DRAWN_STEPS));
    let mut times = Vec::new();
    let mut sum = 0.0;
    while range > 0 && sum < length {
        sum += draws.exponential();
        times.push(sum);
    }
    let scale = duration.0 as f64 / sum;
    let mut steps: Vec<Nanos> = times.iter().map(|time| Nanos((time * scale) as u64)).collect();
    if let Some(last) = steps.last_mut() {
        *last = duration;
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::super::stream::Purpose;
    use super::*;

    fn ramp(target: u32, seconds: u64, strategy: RampStrategy) -> LimitRamp {
        let plan = RampPlan {
            duration: Nanos::from_secs(seconds),
            strategy,
        };
        let target = NonZeroU32::new(target).expect("a limit of at least 1");
        LimitRamp::new(target, plan, Stream::new(7, "p", Purpose::ConcurrencyRamp))
    }

    const ALL: [RampStrategy; 3] = [RampStrategy::Linear, RampStrategy::Exponential, RampStrategy::Poisson];

    /// Follows the ramp from step to step.
    fn walk(ramp: &LimitRamp) -> Vec<(Nanos, u32)> {
        let mut path = vec![(Nanos::ZERO, ramp.value_at(Nanos::ZERO))];
        while let Some(next) = ramp.next_step(path[path.len() - 1].0) {
            assert!(next > path[path.len() - 1].0, "a step to the past: {path:?}, {next:?}");
            path.push((next, ramp.value_at(next)));
        }
        path
    }

    #[test]
    fn linear_values_apply_at_even_times() {
        let path = walk(&ramp(10, 3, RampStrategy::Linear));
        let due = |value: u64| Nanos((3_000_000_000 * (value - 1)).div_ceil(9));
        let expected: Vec<(Nanos, u32)> = (1..=10).map(|value| (due(value), value as u32)).collect();
        assert_eq!(path, expected);
    }

    #[test]
    fn exponential_values_apply_at_the_square_root_of_their_progress() {
        let path = walk(&ramp(10, 3, RampStrategy::Exponential));
        assert_eq!(path.len(), 10);
        for (at, value) in path {
            let expected = 3.0 * (f64::from(value - 1) / 9.0).sqrt();
            assert!((at.as_secs_f64() - expected).abs() < 1e-8, "{value} at {at}");
        }
    }

    #[test]
    fn a_step_never_comes_before_its_time() {
        for strategy in ALL {
            let ramp = ramp(1_000, 7, strategy);
            for (at, value) in walk(&ramp).into_iter().skip(1) {
                assert!(
                    ramp.value_at(Nanos(at.0 - 1)) < value,
                    "{strategy:?}: {value} before {at}"
                );
            }
        }
    }

    #[test]
    fn every_ramp_rises_from_one_to_its_target_and_gets_there_when_it_says() {
        for strategy in ALL {
            for target in [1, 2, 3, 64, 100_000, u32::MAX] {
                let ramp = ramp(target, 5, strategy);
                let start = ramp.value_at(Nanos::ZERO);
                assert_eq!(start, 1, "{strategy:?} to {target}");
                assert_eq!(ramp.value_at(Nanos::from_secs(5)), target, "{strategy:?} to {target}");
                assert_eq!(ramp.value_at(Nanos::MAX), target);
                assert_eq!(ramp.next_step(Nanos::from_secs(5)), None);
                let values: Vec<u32> = (0..=500).map(|at| ramp.value_at(Nanos::from_millis(10 * at))).collect();
                assert!(values.is_sorted(), "{strategy:?} to {target}: {values:?}");
            }
        }
    }

    #[test]
    fn drawn_steps_end_with_the_ramp_and_are_about_as_many_as_the_range() {
        for seed in 0..20 {
            let plan = RampPlan {
                duration: Nanos::from_secs(10),
                strategy: RampStrategy::Poisson,
            };
            let target = NonZeroU32::new(401).expect("not zero");
            let ramp = LimitRamp::new(target, plan, Stream::new(seed, "p", Purpose::PrefillRamp));
            let path = walk(&ramp);
            assert_eq!(path.last(), Some(&(Nanos::from_secs(10), 401)));
            // 400 expected, with a standard deviation of 20.
            assert!((320..480).contains(&path.len()), "seed {seed}: {} steps", path.len());
        }
    }

    #[test]
    fn drawn_steps_depend_on_the_seed_and_on_nothing_else() {
        let path = |seed| {
            let plan = RampPlan {
                duration: Nanos::from_secs(10),
                strategy: RampStrategy::Poisson,
            };
            let target = NonZeroU32::new(50).expect("not zero");
            walk(&LimitRamp::new(
                target,
                plan,
                Stream::new(seed, "p", Purpose::PrefillRamp),
            ))
        };
        assert_eq!(path(1), path(1));
        assert_ne!(path(1), path(2));
    }
}
