//! What an arrival of a phase with sessions starts: a turn that is due, a new session, or nothing.

use crate::units::Nanos;

/// What a credit may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The next turn of the session at this place.
    Continue(u32),
    /// The first turn of the session of this number.
    Begin(u64),
    /// Nothing: it came before any turn that is left was due.
    Idle,
    /// Nothing: it found no slot, and is not to wait for one.
    Drop,
}

/// The phase as the arrival finds it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    /// When the arrival was due.
    pub(super) due: Nanos,
    /// In a closed loop there are no arrivals, only slots, and `due` says nothing.
    pub(super) closed_loop: bool,
    /// The session that has been ready for longest, and since when.
    pub(super) ready: Option<(u32, Nanos)>,
    /// Whether the cap lets a session begin.
    pub(super) has_slot: bool,
    /// Whether the arrival is given up rather than kept waiting for a slot, and there was none when it came.
    pub(super) is_late: bool,
    /// Whether a session is left to begin, on any core.
    pub(super) sessions_left: bool,
}

impl Found {
    /// Decides. `claimed` is the session that the core took and has not begun yet; `claim` takes one.
    pub(super) fn choose(&self, claimed: &mut Option<u64>, claim: impl FnOnce() -> Option<u64>) -> Use {
        // In an open loop an arrival belongs to a turn that was due when it came; a closed loop has no arrivals, and turns always go first.
        if let Some((place, since)) = self.ready
            && (self.closed_loop || since <= self.due)
        {
            return Use::Continue(place);
        }
        if self.is_late {
            return Use::Drop;
        }
        if self.has_slot && claimed.is_none() {
            *claimed = claim();
        }
        match (*claimed, self.ready) {
            (Some(number), _) if self.has_slot => Use::Begin(number),
            // The cap keeps the next session back, so the arrival waits, and the first turn that can use it does.
            (Some(_), Some((place, _))) => Use::Continue(place),
            (None, Some((place, _))) if self.sessions_left && !self.has_slot => Use::Continue(place),
            // There will be no other session: the arrival found nothing to start, and has passed.
            _ => Use::Idle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUE: Nanos = Nanos(100);

    /// An arrival of an open loop that finds a slot, sessions, and no turn.
    fn found() -> Found {
        Found {
            due: DUE,
            closed_loop: false,
            ready: None,
            has_slot: true,
            is_late: false,
            sessions_left: true,
        }
    }

    fn ready(since: u64) -> Option<(u32, Nanos)> {
        Some((7, Nanos(since)))
    }

    /// What an arrival is for when no session is claimed yet and the next number is 40.
    fn fresh(found: Found) -> Use {
        let next = found.sessions_left.then_some(40);
        found.choose(&mut None, || next)
    }

    #[test]
    fn an_arrival_belongs_to_the_turn_that_was_due_when_it_came() {
        assert_eq!(
            fresh(Found {
                ready: ready(100),
                ..found()
            }),
            Use::Continue(7)
        );
        // A turn that became ready after the arrival has the next one.
        assert_eq!(
            fresh(Found {
                ready: ready(101),
                ..found()
            }),
            Use::Begin(40)
        );
        assert_eq!(fresh(found()), Use::Begin(40));
    }

    #[test]
    fn in_a_closed_loop_turns_go_before_sessions_whenever_they_became_ready() {
        let slot = Found {
            closed_loop: true,
            ready: ready(5_000),
            ..found()
        };
        assert_eq!(fresh(slot), Use::Continue(7));
    }

    #[test]
    fn a_session_that_was_claimed_begins_before_another_is() {
        let mut claimed = Some(3);
        let claim = || panic!("one is enough");
        assert_eq!(found().choose(&mut claimed, claim), Use::Begin(3));
        // It stays claimed until it begins: leave to start may not be given at once.
        assert_eq!(claimed, Some(3));
    }

    #[test]
    fn nothing_is_claimed_that_cannot_begin() {
        let mut claimed = None;
        let full = Found {
            has_slot: false,
            ready: ready(200),
            ..found()
        };
        // It waits for a slot, and a turn that becomes ready meanwhile takes it.
        assert_eq!(
            full.choose(&mut claimed, || panic!("there is no slot")),
            Use::Continue(7)
        );
        assert_eq!(claimed, None);
        let late = Found {
            is_late: true,
            ..found()
        };
        assert_eq!(late.choose(&mut claimed, || panic!("it is given up")), Use::Drop);
        assert_eq!(claimed, None);
    }

    #[test]
    fn a_turn_that_was_due_needs_no_slot_and_is_never_dropped() {
        let full = Found {
            has_slot: false,
            is_late: true,
            ready: ready(50),
            ..found()
        };
        assert_eq!(fresh(full), Use::Continue(7));
    }

    #[test]
    fn an_arrival_before_the_turns_that_are_left_has_passed() {
        let over = Found {
            sessions_left: false,
            ..found()
        };
        assert_eq!(fresh(over), Use::Idle);
        assert_eq!(
            fresh(Found {
                ready: ready(101),
                ..over
            }),
            Use::Idle
        );
        assert_eq!(
            fresh(Found {
                ready: ready(100),
                ..over
            }),
            Use::Continue(7)
        );
        // Another core was quicker to the last session.
        let mut claimed = None;
        assert_eq!(found().choose(&mut claimed, || None), Use::Idle);
    }
}
