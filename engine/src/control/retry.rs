//! When a failed call is tried again: the laws alone, without a clock.

use crate::units::Nanos;

/// Wait after the first failure; it doubles with each further one.
const FIRST_WAIT: Nanos = Nanos::from_secs(1);
/// The longest wait.
const LONGEST_WAIT: Nanos = Nanos::from_secs(8);

/// What to do after a failure that may be transient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Try again after this wait.
    RetryAfter(Nanos),
    /// The next attempt would start after the end of the budget.
    GiveUp,
}

/// Exponential backoff inside a budget: waits of 1, 2, 4, 8, 8, .. seconds, and no attempt that starts later than `budget` after the
/// first one started. An attempt that started in time may end after it: each has its own timeout.
#[derive(Debug, Clone)]
pub(super) struct RetryLaw {
    budget: Nanos,
    next_wait: Nanos,
}

impl RetryLaw {
    pub(super) fn new(budget: Nanos) -> Self {
        Self {
            budget,
            next_wait: FIRST_WAIT,
        }
    }

    /// The step after an attempt failed `elapsed` after the first one started.
    pub(super) fn after_failure(&mut self, elapsed: Nanos) -> Step {
        let wait = self.next_wait;
        if elapsed + wait > self.budget {
            return Step::GiveUp;
        }
        self.next_wait = (wait + wait).min(LONGEST_WAIT);
        Step::RetryAfter(wait)
    }
}

/// With less than this left no further probe starts: it would hardly have the time to be answered.
const SHORTEST_PROBE: Nanos = Nanos::from_millis(100);

/// Probes at a steady pace until a deadline: none starts at or after it. Where no whole interval is left, the pause is half of what is, so that a
/// server that comes up late is still found, and a timeout below the interval is waited for too.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProbeLaw {
    /// From the end of a probe to the start of the next.
    pub(super) interval: Nanos,
    /// From the start of the first probe to the deadline.
    pub(super) timeout: Nanos,
}

impl ProbeLaw {
    /// The step after a probe failed `elapsed` after the first one started.
    pub(super) fn after_failure(self, elapsed: Nanos) -> Step {
        let left = self.timeout.since(elapsed);
        if self.interval < left {
            Step::RetryAfter(self.interval)
        } else if left >= SHORTEST_PROBE {
            Step::RetryAfter(Nanos(left.0 / 2))
        } else {
            Step::GiveUp
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts, in milliseconds, of the attempts against a server whose every attempt fails after `latency`.
    fn attempts(budget_ms: u64, latency_ms: u64) -> Vec<u64> {
        let mut law = RetryLaw::new(Nanos::from_millis(budget_ms));
        let (mut now, mut starts) = (Nanos::ZERO, Vec::new());
        loop {
            starts.push(now.0 / 1_000_000);
            now = now + Nanos::from_millis(latency_ms);
            match law.after_failure(now) {
                Step::RetryAfter(wait) => now = now + wait,
                Step::GiveUp => return starts,
            }
        }
    }

    #[test]
    fn s35_waits_double_from_one_second_up_to_eight() {
        assert_eq!(
            attempts(60_000, 0),
            [0, 1_000, 3_000, 7_000, 15_000, 23_000, 31_000, 39_000, 47_000, 55_000]
        );
    }

    #[test]
    fn s35_the_latency_of_attempts_adds_to_the_waits() {
        assert_eq!(attempts(10_000, 250), [0, 1_250, 3_500, 7_750]);
    }

    #[test]
    fn s37_a_hanging_server_is_limited_by_timeout_and_budget() {
        // Timeout 1 s, budget 3 s: the third attempt would start at 5 s.
        assert_eq!(attempts(3_000, 1_000), [0, 2_000]);
        // The last attempt that may start does so at the end of the budget, not after it.
        assert_eq!(attempts(2_000, 1_000), [0, 2_000]);
        assert_eq!(attempts(1_999, 1_000), [0]);
    }

    #[test]
    fn a_budget_of_zero_is_a_single_attempt_and_an_endless_one_has_no_end() {
        assert_eq!(attempts(0, 0), [0]);
        let mut law = RetryLaw::new(Nanos::MAX);
        for _ in 0..1_000 {
            assert!(matches!(
                law.after_failure(Nanos::from_secs(1 << 30)),
                Step::RetryAfter(_)
            ));
        }
    }

    #[test]
    fn probes_keep_their_pace_and_end_before_the_deadline() {
        let law = ProbeLaw {
            interval: Nanos::from_secs(5),
            timeout: Nanos::from_secs(12),
        };
        let after = |seconds| law.after_failure(Nanos::from_secs(seconds));
        assert_eq!(
            (after(0), after(6)),
            (Step::RetryAfter(law.interval), Step::RetryAfter(law.interval))
        );
        assert_eq!((after(12), after(13)), (Step::GiveUp, Step::GiveUp));
    }

    /// Starts, in milliseconds, of the probes of a server that refuses each at once.
    fn probes(interval_ms: u64, timeout_ms: u64) -> Vec<u64> {
        let law = ProbeLaw {
            interval: Nanos::from_millis(interval_ms),
            timeout: Nanos::from_millis(timeout_ms),
        };
        let mut starts = vec![0];
        let mut now = Nanos::ZERO;
        while let Step::RetryAfter(span) = law.after_failure(now) {
            now = now + span;
            starts.push(now.0 / 1_000_000);
        }
        starts
    }

    #[test]
    fn where_no_whole_interval_is_left_the_pauses_get_shorter() {
        // The interval is above the timeout, and the time is used all the same.
        assert_eq!(probes(5_000, 2_000), [0, 1_000, 1_500, 1_750, 1_875, 1_937]);
        // A whole interval would end at the deadline.
        assert_eq!(
            probes(5_000, 10_000),
            [0, 5_000, 7_500, 8_750, 9_375, 9_687, 9_843, 9_921]
        );
        assert_eq!(probes(5_000, 60), [0]);
    }
}
