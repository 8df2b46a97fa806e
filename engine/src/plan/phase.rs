//! One phase of the workflow, resolved.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::{AdaptivePlan, Arrival, Conversations, OnCap};
use crate::id::PhaseId;
use crate::units::Nanos;

/// The semantic role of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseKind {
    /// Prepares the server; never part of aggregate results.
    Warmup,
    /// Measured.
    Profiling,
}

impl PhaseKind {
    /// The word in config and artifacts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warmup => "warmup",
            Self::Profiling => "profiling",
        }
    }
}

/// What starts the turns of a phase's sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnLaw {
    /// A session is one request, and each takes a credit.
    Single,
    /// Every turn takes a credit: the next one once its delay since the return of the one before has passed, and before any new session.
    Credited,
    /// A credit begins a session. Every later turn is due a fixed time after the turn before was, or at its return if that is later.
    Paced {
        /// The time between turns of one user.
        gap: Nanos,
    },
    /// A credit begins a session. Later turns are due at their timestamps, else after their delays, and not before the return of the turn before.
    Scheduled {
        /// The timestamp at which the phase starts.
        zero: Nanos,
    },
}

impl Arrival {
    /// What starts the turns of sessions with these conversations.
    pub fn turn_law(&self, conversations: &Conversations) -> TurnLaw {
        match self {
            Self::FixedSchedule(schedule) if conversations.has_later_turns() => {
                TurnLaw::Scheduled { zero: schedule.zero() }
            }
            Self::ClosedLoop | Self::AtRate { .. } if conversations.has_later_turns() => TurnLaw::Credited,
            Self::ClosedLoop | Self::AtRate { .. } | Self::FixedSchedule(_) => TurnLaw::Single,
            Self::UserCentric { users, rate } => TurnLaw::Paced {
                gap: Nanos::from_secs_f64(f64::from(*users) / rate),
            },
        }
    }
}

/// What ends the sending of a phase: whichever limit comes first. Both unset means "until interrupted" (`duration: inf`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StopRule {
    /// Requests to send; arrivals that are dropped do not count. `sessions` counts here too where every session is one request.
    pub requests: Option<u64>,
    /// Sessions to begin; those that have begun are finished. `None` where every session is one request and takes a credit as such.
    pub sessions: Option<u64>,
    /// Time from the start of the phase in which requests may start.
    pub duration: Option<Nanos>,
}

/// How long a phase that stopped sending waits for its requests in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainRule {
    /// `grace_period` unset: until all returned; a request that has received nothing for the stall timeout is cut.
    WhileProgressing,
    /// Explicit grace period: cut at phase start + duration + grace.
    Grace(Nanos),
    /// `grace_period: inf`: until all returned.
    Unbounded,
}

/// Whether the drain of any of the phases ends by the silence of its requests, so that it matters how long that is.
pub fn ends_drains_by_silence(phases: &[PhasePlan]) -> bool {
    phases.iter().any(|phase| phase.drain == DrainRule::WhileProgressing)
}

/// Simulated client disconnects.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CancellationPlan {
    /// Probability that a request is cancelled, 0 to 1, drawn independently for each.
    pub probability: f64,
    /// From the hand-over of the last request byte to the kernel until the connection is closed.
    pub delay: Nanos,
}

/// The course of a value that rises to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RampStrategy {
    /// Evenly.
    #[default]
    Linear,
    /// Slowly at first: with the square of the time.
    Exponential,
    /// At random instants, as many as a Poisson process has arrivals.
    Poisson,
}

/// A value that rises to its target from the start of the phase on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RampPlan {
    /// From the start of the phase until the target is reached; above zero.
    pub duration: Nanos,
    /// How it gets there.
    pub strategy: RampStrategy,
}

/// What a phase limits beside its concurrency.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LimitPlan {
    /// Most requests over all cores that have been started and have no content yet; `None` is unlimited.
    pub prefill: Option<NonZeroU32>,
    /// How the concurrency rises from 1; at once without it. Only beside a concurrency.
    pub concurrency_ramp: Option<RampPlan>,
    /// How the prefill limit rises from 1; at once without it. Only beside a prefill limit.
    pub prefill_ramp: Option<RampPlan>,
    /// The run ends when more than this share of the phase's answers, 0 to 1, are failures.
    pub failure_threshold: Option<f64>,
    /// Moves one of the limits while the phase runs; the limit itself is the highest value then.
    pub adaptive: Option<Arc<AdaptivePlan>>,
}

/// One phase, resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct PhasePlan {
    /// Position in the workflow.
    pub id: PhaseId,
    /// Position among profiling phases; `None` for warmup.
    pub profiling_index: Option<u16>,
    /// Unique name (ignoring case), safe as a directory name.
    pub name: String,
    /// Role.
    pub kind: PhaseKind,
    /// When requests start.
    pub arrival: Arrival,
    /// Most requests in flight over all cores; `None` is unlimited but still counted.
    pub concurrency: Option<NonZeroU32>,
    /// What becomes of an arrival that finds no slot, or no prefill slot; means something beside a schedule and such a limit only.
    pub on_cap: OnCap,
    /// What ends the sending.
    pub stop: StopRule,
    /// What ends the drain.
    pub drain: DrainRule,
    /// Start as soon as the previous phase stopped sending, without waiting for its drain.
    pub seamless: bool,
    /// Simulated disconnects; `None` draws nothing.
    pub cancellation: Option<CancellationPlan>,
    /// Further limits.
    pub limits: LimitPlan,
}

impl PhasePlan {
    /// Whether arrivals that find no slot are dropped.
    pub fn drops_arrivals(&self) -> bool {
        let has_limit = self.concurrency.is_some() || self.limits.prefill.is_some();
        self.on_cap == OnCap::Drop && !self.arrival.is_closed_loop() && has_limit
    }
}
