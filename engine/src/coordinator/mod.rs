//! The phase machine and the pacer as pure values, and the thread that gives them time.

mod adaptive;
mod attention;
mod event;
mod limit_ramp;
mod live;
mod machine;
mod pacer;
mod phase_run;
mod presence;
mod profiler;
mod silence;
mod stream;
mod surroundings;
mod thread;
mod users;

#[cfg(test)]
mod explorer;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod simulation;

pub use adaptive::{AdaptiveEvent, AdaptiveReport, Candidate, EventKind, Spread, Stage, Status, Window, WindowTotals};
pub use event::{Action, Event, HookCall, Pace, PhaseSummary, StopReason, Tally};
pub use machine::{DRAIN_STALL_TIMEOUT, Machine, MachineSettings, RunOutcome};
pub use pacer::{ExpectedArrivals, ImageCursor, Pacer};
pub use silence::{STALL_TIMEOUT, Signs, Spell};

pub(crate) use live::{LiveBoard, PhaseNews};
pub(crate) use thread::{Coordinator, CoordinatorReport, HookPort, UnsentArrivals, gate_capacity, tally};
