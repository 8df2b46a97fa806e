//! The scenarios of lifecycle, rates, seamless transitions, interrupts and the profiler on simulated time.

mod adaptive;
mod fixed_schedule;
mod interrupt;
mod lifecycle;
mod limits;
mod profiler;
mod rates;
mod seamless;
mod stall;

use super::simulation::{Finished, HookScript, ms};

/// A hook call that takes a millisecond and works.
const WORKS: HookScript = HookScript {
    latency: ms(1),
    succeeds: true,
};

/// A hook call that takes a millisecond and fails.
const FAILS: HookScript = HookScript {
    latency: ms(1),
    succeeds: false,
};

/// The run was neither interrupted nor failed, and gave no warning.
fn assert_clean(run: &Finished) {
    assert_eq!(run.outcome, Default::default());
}
