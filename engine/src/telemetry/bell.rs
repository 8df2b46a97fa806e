//! How threads that wait for the next scrape hear that something happened before it is due.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Rung where a phase starts or ends, and for the last time when the load has ended.
#[derive(Debug, Default)]
pub struct Bell {
    state: Mutex<State>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct State {
    times: u64,
    is_over: bool,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// Its time was up.
    Due,
    /// A phase started or ended.
    Rung,
    /// The load has ended.
    Over,
}

impl Bell {
    fn state(&self) -> MutexGuard<'_, State> {
        // Two plain values are whole after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A phase starts or ends.
    pub fn ring(&self) {
        self.state().times += 1;
        self.rung.notify_all();
    }

    /// The load has ended.
    pub fn end(&self) {
        self.state().is_over = true;
        self.rung.notify_all();
    }

    /// How often it has been rung.
    pub(super) fn times(&self) -> u64 {
        self.state().times
    }

    /// Waits until `due`, or until it has been rung more than `heard` times.
    pub(super) fn wait(&self, heard: u64, due: Instant) -> Heard {
        let mut state = self.state();
        loop {
            if state.is_over {
                return Heard::Over;
            }
            if state.times > heard {
                return Heard::Rung;
            }
            let left = due.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return Heard::Due;
            }
            state = self
                .rung
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_was_rung_before_the_wait_is_heard() {
        let bell = Bell::default();
        let never = Instant::now() + Duration::from_secs(600);
        assert_eq!(bell.wait(0, Instant::now()), Heard::Due);
        bell.ring();
        assert_eq!(bell.wait(0, never), Heard::Rung);
        assert_eq!(bell.wait(1, Instant::now()), Heard::Due, "once");
        bell.end();
        assert_eq!(bell.wait(1, never), Heard::Over);
    }

    #[test]
    fn a_wait_ends_when_it_is_rung() {
        let bell = Arc::new(Bell::default());
        let waiting = Arc::clone(&bell);
        let thread = std::thread::spawn(move || waiting.wait(0, Instant::now() + Duration::from_secs(600)));
        bell.ring();
        assert_eq!(thread.join().expect("it heard"), Heard::Rung);
    }
}
