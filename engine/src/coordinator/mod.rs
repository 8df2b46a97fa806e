//! The phase machine and the pacer as pure values, and the thread that gives them time.

mod event;
// mod machine;
// mod pacer;

pub use event::{Action, Event, HookCall, PhaseSummary, StopReason, Tally};
// pub use machine::Machine;
// pub use pacer::Pacer;
