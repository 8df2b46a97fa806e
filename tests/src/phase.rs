//! Phases in a few words.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use ringload_engine::id::PhaseId;
use ringload_engine::plan::{
    AdaptivePlan, Arrival, CancellationPlan, DrainRule, LimitPlan, OnCap, PhaseKind, PhasePlan, RampPlan, RampStrategy,
    RatePlan, StopRule,
};
use ringload_engine::units::Nanos;

/// A phase under construction. Profiling, not seamless, drained without a limit of time unless told otherwise.
#[derive(Debug, Clone)]
pub struct Phase(PhasePlan);

fn nanos(span: Duration) -> Nanos {
    Nanos(u64::try_from(span.as_nanos()).expect("a test does not last for centuries"))
}

impl Phase {
    fn new(name: &str, arrival: Arrival, concurrency: Option<u32>) -> Self {
        Self(PhasePlan {
            id: PhaseId(0),
            profiling_index: None,
            name: name.to_owned(),
            kind: PhaseKind::Profiling,
            arrival,
            concurrency: concurrency.map(|limit| NonZeroU32::new(limit).expect("a concurrency of at least 1")),
            on_cap: OnCap::Wait,
            stop: StopRule::default(),
            drain: DrainRule::WhileProgressing,
            seamless: false,
            cancellation: None,
            limits: LimitPlan::default(),
        })
    }

    /// A closed loop.
    pub fn closed(name: &str, concurrency: u32) -> Self {
        Self::new(name, Arrival::ClosedLoop, Some(concurrency))
    }

    /// An open loop with even gaps and without a cap.
    pub fn constant(name: &str, rate: f64) -> Self {
        Self::new(name, Arrival::constant(rate), None)
    }

    /// An open loop with exponential gaps and without a cap.
    pub fn poisson(name: &str, rate: f64) -> Self {
        Self::new(name, Arrival::poisson(rate), None)
    }

    /// An open loop with gamma-distributed gaps of this shape and without a cap.
    pub fn gamma(name: &str, rate: f64, shape: f64) -> Self {
        Self::new(name, Arrival::gamma(rate, shape), None)
    }

    /// Gives an open loop another course of its rate.
    #[must_use]
    pub fn at(mut self, rate: RatePlan) -> Self {
        self.0.arrival = self.0.arrival.at(rate);
        self
    }

    /// Drops arrivals that find the cap full.
    #[must_use]
    pub fn dropping(mut self) -> Self {
        self.0.on_cap = OnCap::Drop;
        self
    }

    /// An open loop of users who pace themselves, without a cap.
    pub fn users(name: &str, users: u32, rate: f64) -> Self {
        Self::new(name, Arrival::UserCentric { users, rate }, None)
    }

    /// Caps the requests in flight.
    #[must_use]
    pub fn capped(mut self, concurrency: u32) -> Self {
        self.0.concurrency = NonZeroU32::new(concurrency);
        self
    }

    /// Makes it a warmup.
    #[must_use]
    pub fn warmup(mut self) -> Self {
        self.0.kind = PhaseKind::Warmup;
        self
    }

    /// Stops after this many requests.
    #[must_use]
    pub fn requests(mut self, requests: u64) -> Self {
        self.0.stop.requests = Some(requests);
        self
    }

    /// Stops once this many sessions have begun and are finished; for datasets with later turns.
    #[must_use]
    pub fn sessions(mut self, sessions: u64) -> Self {
        self.0.stop.sessions = Some(sessions);
        self
    }

    /// Stops after this time.
    #[must_use]
    pub fn lasting(mut self, duration: Duration) -> Self {
        self.0.stop.duration = Some(nanos(duration));
        self
    }

    /// Cuts what is in flight this long after the end of the duration.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.0.drain = DrainRule::Grace(nanos(grace));
        self
    }

    /// Waits for the answers, however long they take.
    #[must_use]
    pub fn draining_without_end(mut self) -> Self {
        self.0.drain = DrainRule::Unbounded;
        self
    }

    /// Starts when the one before has stopped sending.
    #[must_use]
    pub fn seamless(mut self) -> Self {
        self.0.seamless = true;
        self
    }

    /// Caps the requests between their start and their first content.
    #[must_use]
    pub fn prefilling(mut self, prefills: u32) -> Self {
        self.0.limits.prefill = NonZeroU32::new(prefills);
        self
    }

    /// Raises the concurrency from 1 in this time.
    #[must_use]
    pub fn ramped(mut self, duration: Duration, strategy: RampStrategy) -> Self {
        self.0.limits.concurrency_ramp = Some(RampPlan {
            duration: nanos(duration),
            strategy,
        });
        self
    }

    /// Raises the prefill limit from 1 in this time.
    #[must_use]
    pub fn prefill_ramped(mut self, duration: Duration, strategy: RampStrategy) -> Self {
        self.0.limits.prefill_ramp = Some(RampPlan {
            duration: nanos(duration),
            strategy,
        });
        self
    }

    /// Ends the run when more than this share of answers are failures.
    #[must_use]
    pub fn failing_at(mut self, threshold: f64) -> Self {
        self.0.limits.failure_threshold = Some(threshold);
        self
    }

    /// Lets a controller move a limit.
    #[must_use]
    pub fn steered(mut self, adaptive: AdaptivePlan) -> Self {
        self.0.limits.adaptive = Some(Arc::new(adaptive));
        self
    }

    /// Disconnects requests with this probability, this long after they were sent.
    #[must_use]
    pub fn cancelling(mut self, probability: f64, delay: Duration) -> Self {
        self.0.cancellation = Some(CancellationPlan {
            probability,
            delay: nanos(delay),
        });
        self
    }
}

/// Phases as the plan wants them: each with its position, profiling ones also with their own.
pub(crate) fn number(phases: Vec<Phase>) -> Vec<PhasePlan> {
    let mut profiling = 0;
    let number = |(at, Phase(mut plan)): (usize, Phase)| {
        plan.id = PhaseId(u16::try_from(at).expect("a handful of phases"));
        if plan.kind == PhaseKind::Profiling {
            plan.profiling_index = Some(profiling);
            profiling += 1;
        }
        plan
    };
    phases.into_iter().enumerate().map(number).collect()
}
