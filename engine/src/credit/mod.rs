//! Where the coordinator and the cores meet.
//!
//! A credit is permission to send one request. The coordinator puts the credits of a phase into that phase's `PhaseGate`, one bounded
//! lock-free queue that all cores pop, so that no core sits on the last ones. What a core may do with them (how many at once, until when)
//! arrives as `Command`s over the core's own queue. Where arrivals may be dropped a credit is permission to try, and the requests that do start are
//! numbered by a counter that all cores share (`Claims`). What became of them flows back through counters that only one core
//! writes (`CoreProgress`); of the bytes of requests a core says something only when asked (`Pulse`). Cores meet without the coordinator in one
//! more place: the slots of a limit on prefills (`PrefillSlots`). Neither side ever waits for the other; whoever sleeps says so and is woken
//! (`Waker`).

//! Where conversations have several turns, or users pace themselves, a credit says only when something may start, and what it is is decided where
//! it is taken. Numbers of requests and sessions then come from counters that all cores share (`Claims`).

mod cancellation;
mod claims;
// The folder is named for its main type, which has a file to itself.
#[allow(clippy::module_inception)]
mod credit;
mod exchange;
mod gate;
mod ids;
mod link;
mod prefill;
mod progress;
mod pulse;
mod sample;

pub use credit::Credit;
pub use ids::RequestIds;

pub(crate) use cancellation::Cancellations;
pub(crate) use exchange::Exchange;
pub(crate) use gate::PhaseGate;
pub(crate) use link::{Command, CutCause};
pub(crate) use progress::PhaseCounters;
pub(crate) use pulse::{Outlook, Pulse};
pub(crate) use sample::Sample;
