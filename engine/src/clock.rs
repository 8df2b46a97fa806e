//! The clock of the run.
//!
//! Every measurement is a reading of `CLOCK_MONOTONIC` (clock_gettime(2)), so it never jumps and can be compared with the readings of
//! another process on this machine. One wall-clock anchor, taken at the start of the run, turns readings into dates for the artifacts.
//! Pure parts never read a clock: they get `now` as an argument.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::units::Nanos;

/// Now, in nanoseconds of the monotonic clock.
pub fn monotonic() -> Nanos {
    crate::sys::time::monotonic_now()
}

/// A pair of readings taken together: turns monotonic instants of this run into wall-clock nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallAnchor {
    monotonic: Nanos,
    wall_ns: u64,
}

impl WallAnchor {
    /// Reads both clocks. The monotonic clock is read on both sides of the wall clock and the tightest of several tries is kept.
    pub fn take() -> Self {
        let mut best = Self {
            monotonic: Nanos::ZERO,
            wall_ns: 0,
        };
        let mut best_gap = Nanos::MAX;
        for _ in 0..16 {
            let before = monotonic();
            let wall = SystemTime::now();
            let after = monotonic();
            let gap = after.since(before);
            if gap < best_gap {
                best_gap = gap;
                best = Self {
                    monotonic: before + Nanos(gap.0 / 2),
                    wall_ns: wall.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64),
                };
            }
        }
        best
    }

    /// An anchor with given readings, for tests and for replay.
    pub fn new(monotonic: Nanos, wall_ns: u64) -> Self {
        Self { monotonic, wall_ns }
    }

    /// The monotonic reading of the anchor.
    pub fn monotonic(self) -> Nanos {
        self.monotonic
    }

    /// The wall-clock reading of the anchor, in nanoseconds since the Unix epoch.
    pub fn wall_ns(self) -> u64 {
        self.wall_ns
    }

    /// The wall-clock time of a monotonic instant, in nanoseconds since the Unix epoch.
    pub fn to_wall_ns(self, instant: Nanos) -> u64 {
        if instant >= self.monotonic {
            self.wall_ns.saturating_add(instant.since(self.monotonic).0)
        } else {
            self.wall_ns.saturating_sub(self.monotonic.since(instant).0)
        }
    }
}
