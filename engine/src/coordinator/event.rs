//! Events in, actions out: the whole vocabulary between the phase machine and its shell.

use super::adaptive::Window;
use super::silence::{Signs, Spell};
use crate::id::PhaseId;
use crate::units::Nanos;

/// Cumulative counts of one phase over all cores. Every count only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Requests that were started.
    pub sent: u64,
    /// Requests that ended well.
    pub succeeded: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests cancelled by the phase's `cancellation`.
    pub cancelled: u64,
    /// Requests cut by the engine.
    pub truncated: u64,
}

impl Tally {
    /// Requests that ended, however.
    pub fn returned(&self) -> u64 {
        self.succeeded + self.failed + self.cancelled + self.truncated
    }

    /// Requests started and not yet ended.
    pub fn in_flight(&self) -> u64 {
        self.sent.saturating_sub(self.returned())
    }
}

/// A control call that the shell carries out on its own thread and answers with [`Event::HookAnswered`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookCall {
    /// Start the server profiler at every origin.
    ProfilerStart,
    /// Stop the server profiler at every origin.
    ProfilerStop,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Time passed. Sent at least at every [`Machine::next_deadline`](super::Machine::next_deadline).
    Tick,
    /// Counts of a phase as the cores last published them. They may lag, and an older reading may follow a newer one.
    Progress {
        /// The phase.
        phase: PhaseId,
        /// Its counts.
        tally: Tally,
    },
    /// The last credit that the phase will ever have was put in its queue; `issued` were put there in all.
    CreditsExhausted {
        /// The phase.
        phase: PhaseId,
        /// Credits issued.
        issued: u64,
    },
    /// Answer to [`Action::StopIssuing`]: no credit of the phase can start a request any more, and exactly `sent` did or will.
    IssuingStopped {
        /// The phase.
        phase: PhaseId,
        /// Credits that were taken by a core.
        sent: u64,
    },
    /// Answer to [`Action::Assess`]: what ended in the phase since the last one.
    Assessed {
        /// The phase.
        phase: PhaseId,
        /// The requests.
        window: Window,
    },
    /// Answer to [`Action::LookForSigns`].
    SignsSeen {
        /// The phase.
        phase: PhaseId,
        /// What the cores know of it.
        signs: Signs,
    },
    /// Answer to [`Action::CallHook`].
    HookAnswered {
        /// The call.
        call: HookCall,
        /// `Err` carries the one-line reason.
        result: Result<(), String>,
    },
    /// The user wants the run to end now.
    Interrupted,
}

/// What the shell must do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Start the clock of a phase: from now on its pacer issues credits.
    StartPhase {
        /// The phase.
        phase: PhaseId,
    },
    /// Let the phase have this many requests in flight over all cores (`u32::MAX`: no limit). Zero until the first one, which may come
    /// long after [`Action::StartPhase`] if requests of earlier phases hold all slots. Falls during a phase only if a controller moves it;
    /// nothing is cut then.
    SetLimit {
        /// The phase.
        phase: PhaseId,
        /// Slots over all cores.
        limit: u32,
    },
    /// Let this many requests of the run be in prefill over all cores, from now on: started and without content, those that earlier phases
    /// left behind included. Given for phases with a prefill limit only, before the first [`Action::SetLimit`]. It falls as that does.
    SetPrefillLimit {
        /// The phase.
        phase: PhaseId,
        /// Prefills over all cores.
        limit: u32,
    },
    /// The schedule of the phase goes on at this pace. Given after every window of a phase whose pace a controller moves, also where nothing changed;
    /// until the first one it is the lowest pace of the controller.
    SetPace {
        /// The phase.
        phase: PhaseId,
        /// The pace.
        pace: Pace,
    },
    /// Answer with [`Event::Assessed`]: the controller of the phase wants to know how it went.
    Assess {
        /// The phase.
        phase: PhaseId,
    },
    /// Take back every credit that no core has taken, and answer with [`Event::IssuingStopped`].
    StopIssuing {
        /// The phase.
        phase: PhaseId,
    },
    /// Cut every request in flight of this phase and of no other.
    CutPhase {
        /// The phase.
        phase: PhaseId,
    },
    /// Cut requests of this phase that have received nothing since `silent_since`.
    CutSilent {
        /// The phase.
        phase: PhaseId,
        /// Requests whose last sign of life is older than this are cut.
        silent_since: Nanos,
    },
    /// Cut every request in flight of this phase: it has stalled.
    CutStalled {
        /// The phase.
        phase: PhaseId,
        /// The stall timeout.
        timeout: Nanos,
    },
    /// Answer with [`Event::SignsSeen`]: the counts of the phase have stood still for long, and the cores know whether bytes still come.
    LookForSigns {
        /// The phase.
        phase: PhaseId,
        /// A byte after this instant is late enough, and need not be the latest.
        since: Nanos,
    },
    /// Let the user know that the phase has been silent for long, until [`Action::GoesOn`] or the end of the phase.
    IsSilent {
        /// The phase.
        phase: PhaseId,
        /// The silence.
        spell: Spell,
    },
    /// Let the user know that the silence is over.
    GoesOn {
        /// The phase.
        phase: PhaseId,
    },
    /// Carry out a control call.
    CallHook(HookCall),
    /// The phase is over; everything that belongs to it is accounted for.
    PhaseEnded(PhaseSummary),
    /// Nothing is left to do.
    RunEnded,
}

/// How a schedule goes on. Times are offsets from the start of its phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Arrivals per second, or users.
    pub value: f64,
    /// It applies from here on: what was due before stays as it was.
    pub from: Nanos,
    /// No other pace applies before: credits that are due by then may be issued, and no others.
    pub known_until: Nanos,
}

/// Why a phase stopped sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// All requests of `requests` (or `sessions`) were sent.
    Requests,
    /// `duration` passed.
    Duration,
    /// Its controller had found what it looked for, or knew that it never would.
    Adaptive,
    /// It had sent nothing and received no byte for the stall timeout, and could not go on by itself.
    Stalled,
    /// The run was interrupted or failed.
    Interrupted,
}

/// What a phase did, on the monotonic clock.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseSummary {
    /// The phase.
    pub phase: PhaseId,
    /// Start of its clock.
    pub start: Nanos,
    /// When it stopped sending.
    pub sending_complete: Nanos,
    /// When the last of its requests ended.
    pub end: Nanos,
    /// Final counts: `sent == returned`.
    pub tally: Tally,
    /// Why it stopped sending.
    pub stop_reason: StopReason,
    /// Whether the grace period, the end of the run or a stall cut requests.
    pub drain_cut: bool,
}
