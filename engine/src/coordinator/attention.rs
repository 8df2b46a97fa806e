//! Which time somebody listened in, as a value.

use crate::units::Nanos;

/// What was due comes within this span where all is well.
pub(super) const PROMPT: Nanos = Nanos::from_secs(1);

/// How much of a silence nobody listened to: this process was stopped, or its machine was, and maybe the server with it.
///
/// What was due and came late was held up, and nobody knows since when, so all of the time since the last look is in doubt. What is in doubt is not
/// held against the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attention {
    looked: Nanos,
    unheard: Nanos,
}

impl Attention {
    /// Somebody listens from `now` on.
    pub(super) fn new(now: Nanos) -> Self {
        Self {
            looked: now,
            unheard: Nanos::ZERO,
        }
    }

    /// A look at a silence that began at `since`; it was due at `due` and comes now.
    pub(super) fn look(&mut self, due: Nanos, since: Nanos, now: Nanos) {
        if now.since(due) > PROMPT {
            self.unheard = self.unheard + now.since(self.looked.max(since));
        }
        self.looked = now;
    }

    /// The last look.
    pub(super) fn looked(&self) -> Nanos {
        self.looked
    }

    /// How much of the silence is in doubt.
    pub(super) fn unheard(&self) -> Nanos {
        self.unheard
    }

    /// Another silence begins, of which nothing is in doubt.
    pub(super) fn forget(&mut self) {
        self.unheard = Nanos::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(secs: u64) -> Nanos {
        Nanos::from_secs(secs)
    }

    #[test]
    fn a_late_look_puts_all_the_time_since_the_last_one_in_doubt() {
        let mut attention = Attention::new(secs(0));
        attention.look(secs(10), Nanos::ZERO, secs(11));
        assert_eq!((attention.unheard(), attention.looked()), (Nanos::ZERO, secs(11)));
        attention.look(secs(12), Nanos::ZERO, secs(40));
        assert_eq!(attention.unheard(), secs(29), "from 11 to 40");
        attention.look(secs(41), secs(50), secs(60));
        assert_eq!(attention.unheard(), secs(39), "nothing was in doubt before the silence");
        attention.forget();
        assert_eq!((attention.unheard(), attention.looked()), (Nanos::ZERO, secs(60)));
    }
}
