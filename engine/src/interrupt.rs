//! The user's wish to end the run now.

use std::sync::atomic::{AtomicI32, Ordering};

/// Set once, by a signal handler's thread or by an embedding program; looked at by everyone who waits.
#[derive(Debug, Default)]
pub struct Interrupt {
    signal: AtomicI32,
}

impl Interrupt {
    /// Not raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the run to stop sending, cut what is in flight, and write everything. The first signal is kept.
    pub fn raise(&self, signal: i32) {
        let _ = self
            .signal
            .compare_exchange(0, signal, Ordering::Release, Ordering::Relaxed);
    }

    /// The signal that was raised first.
    pub fn signal(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::Acquire)).filter(|&signal| signal != 0)
    }

    /// Whether it was raised.
    pub fn is_raised(&self) -> bool {
        self.signal().is_some()
    }
}
