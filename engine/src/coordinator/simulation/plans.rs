//! Phase plans in few words.

use std::num::NonZeroU32;

use crate::id::PhaseId;
use crate::plan::{
    Arrival, CancellationPlan, DrainRule, LimitPlan, OnCap, PhaseKind, PhasePlan, RampPlan, RampStrategy, Schedule,
    StopRule, Window,
};
use crate::units::Nanos;

pub(in crate::coordinator) const fn ms(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

/// A phase plan to start from: closed loop, concurrency 4, no stop rule, drain without limit.
fn phase(name: &str, kind: PhaseKind) -> PhasePlan {
    PhasePlan {
        id: PhaseId(0),
        profiling_index: None,
        name: name.to_owned(),
        kind,
        arrival: Arrival::ClosedLoop,
        concurrency: NonZeroU32::new(4),
        on_cap: OnCap::Wait,
        stop: StopRule::default(),
        drain: DrainRule::WhileProgressing,
        seamless: false,
        cancellation: None,
        limits: LimitPlan::default(),
    }
}

pub(in crate::coordinator) fn profiling(name: &str) -> PhasePlan {
    phase(name, PhaseKind::Profiling)
}

pub(in crate::coordinator) fn warmup(name: &str) -> PhasePlan {
    phase(name, PhaseKind::Warmup)
}

/// Terse changes to a plan.
impl PhasePlan {
    pub(in crate::coordinator) fn cap(mut self, concurrency: u32) -> Self {
        self.concurrency = NonZeroU32::new(concurrency);
        self
    }

    pub(in crate::coordinator) fn uncapped(self) -> Self {
        self.cap(0)
    }

    pub(in crate::coordinator) fn requests(mut self, requests: u64) -> Self {
        self.stop.requests = Some(requests);
        self
    }

    pub(in crate::coordinator) fn lasting(mut self, duration: Nanos) -> Self {
        self.stop.duration = Some(duration);
        self
    }

    pub(in crate::coordinator) fn grace(mut self, grace: Nanos) -> Self {
        self.drain = DrainRule::Grace(grace);
        self
    }

    /// A drain that nothing but the answers ends.
    pub(in crate::coordinator) fn grace_inf(mut self) -> Self {
        self.drain = DrainRule::Unbounded;
        self
    }

    pub(in crate::coordinator) fn seamless(mut self) -> Self {
        self.seamless = true;
        self
    }

    pub(in crate::coordinator) fn arriving(mut self, arrival: Arrival) -> Self {
        self.arrival = arrival;
        self
    }

    /// A schedule with one session at each of these timestamps; it has no cap, and ends with its last entry.
    pub(in crate::coordinator) fn at_timestamps(self, timestamps: &[Nanos]) -> Self {
        let conversations = timestamps.iter().map(|&timestamp| (Some(timestamp), 1));
        let schedule = Schedule::new(conversations, Window::default()).expect("every entry has a timestamp");
        let requests = schedule.requests();
        self.uncapped()
            .requests(requests)
            .arriving(Arrival::FixedSchedule(schedule))
    }

    pub(in crate::coordinator) fn prefilling(mut self, prefills: u32) -> Self {
        self.limits.prefill = NonZeroU32::new(prefills);
        self
    }

    pub(in crate::coordinator) fn ramped(mut self, duration: Nanos, strategy: RampStrategy) -> Self {
        self.limits.concurrency_ramp = Some(RampPlan { duration, strategy });
        self
    }

    pub(in crate::coordinator) fn prefill_ramped(mut self, duration: Nanos, strategy: RampStrategy) -> Self {
        self.limits.prefill_ramp = Some(RampPlan { duration, strategy });
        self
    }

    pub(in crate::coordinator) fn failing_at(mut self, threshold: f64) -> Self {
        self.limits.failure_threshold = Some(threshold);
        self
    }

    pub(in crate::coordinator) fn dropping(mut self) -> Self {
        self.on_cap = OnCap::Drop;
        self
    }

    pub(in crate::coordinator) fn cancelling(mut self, probability: f64, delay: Nanos) -> Self {
        self.cancellation = Some(CancellationPlan { probability, delay });
        self
    }
}
