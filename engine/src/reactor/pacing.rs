//! How a core passes the time until its next deadline: what a request's start costs in lateness, against what waiting costs in processor time.

use crate::units::Nanos;

/// A timed sleep ends late: the processor has to leave its idle state and the thread has to be scheduled, 35 to 60 us on virtual machines. What
/// is left of the lead is spun away.
const LEAD: Nanos = Nanos::from_micros(80);
/// A send on loopback runs inside the enter and takes about 6 us; more of them at once would blind the core to arrivals and deadlines.
const SENDS: usize = 8;
/// The same where the schedule matters more than the system calls that smaller batches cost.
const SENDS_ON_SCHEDULE: usize = 4;

/// How cores wait, as the user may choose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pacing {
    /// Precise for open-loop phases if a processor is to spare, else efficient.
    #[default]
    Auto,
    /// Sleep until the next deadline.
    Efficient,
    /// Sleep until shortly before the next deadline, then spin.
    Precise,
    /// Never sleep while there is load.
    Busy,
}

/// How a core waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Efficient,
    Precise,
    Busy,
}

/// The profiles of a run: one while a phase with a schedule is open on a core, one for the rest of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Profiles {
    pub(crate) open_loop: Profile,
    pub(crate) closed_loop: Profile,
}

impl Pacing {
    /// The word in flags and artifacts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Efficient => "efficient",
            Self::Precise => "precise",
            Self::Busy => "busy",
        }
    }

    /// The profiles on a host that has a processor to spare beside those of the cores, or has not: a core that spins there would take the time
    /// of the coordinator, the journal and perhaps the server.
    pub(crate) fn on_host(self, processor_to_spare: bool) -> Profiles {
        let all = |profile| Profiles {
            open_loop: profile,
            closed_loop: profile,
        };
        match self {
            Self::Auto if processor_to_spare => Profiles {
                open_loop: Profile::Precise,
                closed_loop: Profile::Efficient,
            },
            Self::Auto | Self::Efficient => all(Profile::Efficient),
            Self::Precise => all(Profile::Precise),
            Self::Busy => all(Profile::Busy),
        }
    }
}

impl Profiles {
    /// Both in one line.
    pub(crate) fn line(self) -> String {
        let (open, closed) = (self.open_loop.as_str(), self.closed_loop.as_str());
        if open == closed {
            format!("pacing {open}")
        } else {
            format!("pacing {open} in open-loop phases, else {closed}")
        }
    }

    /// The profile of a core while phases of these kinds are open on it.
    pub(super) fn with(self, schedule_open: bool) -> Profile {
        if schedule_open {
            self.open_loop
        } else {
            self.closed_loop
        }
    }
}

impl Profile {
    /// The word in artifacts.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Efficient => "efficient",
            Self::Precise => "precise",
            Self::Busy => "busy",
        }
    }

    /// Sends handed to the kernel in one turn.
    pub(super) fn sends_per_turn(self, schedule_open: bool) -> usize {
        if schedule_open && self != Self::Efficient {
            SENDS_ON_SCHEDULE
        } else {
            SENDS
        }
    }

    /// How long a core may sleep at `now` that has nothing to do before `deadline`: zero if it is to look and come back at once. `loaded` tells
    /// whether requests are in flight or scheduled.
    pub(super) fn sleep(self, now: Nanos, deadline: Nanos, loaded: bool) -> Nanos {
        match self {
            Self::Busy if loaded => Nanos::ZERO,
            Self::Efficient | Self::Busy => deadline.since(now),
            Self::Precise => deadline.since(now + LEAD),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos::from_secs(1);

    #[test]
    fn auto_spins_only_for_a_schedule_and_only_beside_a_spare_processor() {
        let spare = Pacing::Auto.on_host(true);
        assert_eq!(spare.with(true), Profile::Precise);
        assert_eq!(spare.with(false), Profile::Efficient);
        let alone = Pacing::Auto.on_host(false);
        assert_eq!(
            (alone.with(true), alone.with(false)),
            (Profile::Efficient, Profile::Efficient)
        );
        for (pacing, profile) in [
            (Pacing::Efficient, Profile::Efficient),
            (Pacing::Precise, Profile::Precise),
            (Pacing::Busy, Profile::Busy),
        ] {
            for spare in [false, true] {
                let profiles = pacing.on_host(spare);
                assert_eq!((profiles.with(true), profiles.with(false)), (profile, profile));
            }
        }
    }

    #[test]
    fn efficient_sleeps_to_the_deadline_and_precise_spins_before_it() {
        let deadline = NOW + Nanos::from_millis(1);
        for loaded in [false, true] {
            assert_eq!(Profile::Efficient.sleep(NOW, deadline, loaded), Nanos::from_millis(1));
            assert_eq!(Profile::Precise.sleep(NOW, deadline, loaded), Nanos::from_micros(920));
            for late in [Nanos(deadline.0 - LEAD.0), deadline, Nanos::MAX] {
                assert_eq!(Profile::Precise.sleep(late, deadline, loaded), Nanos::ZERO);
            }
            assert!(Profile::Precise.sleep(NOW, Nanos::MAX, loaded) > Nanos::from_secs(1_000_000));
        }
        assert_eq!(Profile::Efficient.sleep(deadline, deadline, false), Nanos::ZERO);
    }

    #[test]
    fn busy_sleeps_only_without_load() {
        let deadline = NOW + Nanos::from_secs(5);
        assert_eq!(Profile::Busy.sleep(NOW, deadline, true), Nanos::ZERO);
        assert_eq!(Profile::Busy.sleep(NOW, deadline, false), Nanos::from_secs(5));
    }

    #[test]
    fn batches_are_smaller_where_a_schedule_must_be_kept() {
        assert_eq!(Profile::Efficient.sends_per_turn(true), SENDS);
        assert_eq!(Profile::Precise.sends_per_turn(false), SENDS);
        assert_eq!(Profile::Precise.sends_per_turn(true), SENDS_ON_SCHEDULE);
        assert_eq!(Profile::Busy.sends_per_turn(true), SENDS_ON_SCHEDULE);
    }
}
