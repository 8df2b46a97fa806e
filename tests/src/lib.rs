//! Harness of the end-to-end tests: the mock server's ledger is the ground truth, and what the engine wrote to disk is what is tested.
//!
//! ```text
//! Scenario (server, phases, faults) --> Running (own thread, deadline) --> Run (outcome + artifacts read back)
//!                                                                           |
//!     MockServer::ledger(), counters(), control_log() -- books, sessions ---+
//! ```
//!
//! Every [`Run`] is checked for the conservation law before a test sees it. Nothing here sleeps to synchronise: tests wait for a condition
//! with a deadline ([`eventually`]), and a run that does not end in time is a panic that says where it stood.

pub mod binary;
pub mod books;
pub mod cells;
pub mod configured;
pub mod hurtful;
pub mod isolation;
pub mod mutate;
pub mod peak;
pub mod phase;
pub mod program;
pub mod record;
pub mod recorded;
pub mod run;
pub mod scenario;
pub mod server;
pub mod sessions;
pub mod statistics;
pub mod sys;
pub mod tls;
pub mod tree;

pub use phase::Phase;
pub use record::{Ending, Record};
pub use run::{Run, Running};
pub use scenario::Scenario;
pub use server::mock;

use std::time::{Duration, Instant};

/// Longest wait for anything that a test waits for. Far above what a slow machine needs, far below what a person would wait for.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` holds.
///
/// # Panics
/// When it does not within [`PATIENCE`]; `what` says what was waited for.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
