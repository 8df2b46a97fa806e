//! The coordinator's line to one core.

use std::sync::atomic::{AtomicBool, Ordering, fence};

use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;

use super::progress::CoreProgress;
use super::pulse::PulseAnswer;
use super::sample::Samples;
use crate::id::PhaseId;
use crate::sys::event_fd::EventFd;
use crate::units::Nanos;

/// What a core must do. Commands are few (a handful per phase); credits do not travel here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Command {
    /// Start taking credits of a phase, at most `slots` requests in flight on this core. Repeated with more slots as the limit grows.
    Allow {
        /// The phase.
        phase: PhaseId,
        /// This core's share of the limit.
        slots: u32,
        /// Since when those that it did not have before are there.
        since: Nanos,
    },
    /// Take no more credits of a phase, give back the one in hand, and acknowledge.
    Close {
        /// The phase.
        phase: PhaseId,
    },
    /// Cut the requests of a phase that are in flight.
    Cut {
        /// The phase.
        phase: PhaseId,
        /// Why, and with that which of them.
        cause: CutCause,
    },
    /// Leave word of the requests of a phase in [`CoreLink::pulse`].
    TellPulse {
        /// The phase.
        phase: PhaseId,
        /// A byte after this instant is late enough: nobody needs to look for a later one.
        since: Nanos,
    },
    /// A phase is over: everything that belongs to it has returned.
    Ended {
        /// The phase.
        phase: PhaseId,
    },
    /// End once nothing is in flight.
    Shutdown,
}

/// Why requests are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutCause {
    /// The drain of their phase is over, or the run is.
    Over,
    /// Their phase drains, and they have received nothing since this instant; those that have stay.
    Silent {
        /// The instant.
        since: Nanos,
    },
    /// Their phase has stalled: it had sent and received nothing for the stall timeout.
    Stalled {
        /// That timeout.
        timeout: Nanos,
    },
}

/// Wakes a thread that may be asleep, at the price of a system call only if it is.
///
/// The sleeper calls [`Waker::prepare_sleep`], looks once more for work, sleeps on the event, and calls [`Waker::awake`]. Another thread makes
/// its work visible and calls [`Waker::wake`]. The two fences order "I sleep, is there work?" against "there is work, does it sleep?": at
/// least one side sees the other.
#[derive(Debug)]
pub(crate) struct Waker {
    sleeping: CachePadded<AtomicBool>,
    event: EventFd,
}

impl Waker {
    /// A waker for one thread.
    ///
    /// # Errors
    /// No descriptor or no memory for the event.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            sleeping: CachePadded::default(),
            event: EventFd::new()?,
        })
    }

    /// Announces sleep. Work must be looked for once more after this.
    pub(crate) fn prepare_sleep(&self) {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Ends the announcement.
    pub(crate) fn awake(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
    }

    /// Wakes the thread if it announced sleep.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) && self.sleeping.swap(false, Ordering::Relaxed) {
            self.event.signal();
        }
    }

    /// The event to sleep on.
    pub(crate) fn event(&self) -> &EventFd {
        &self.event
    }
}

/// Everything that the coordinator and one core share.
#[derive(Debug)]
pub(crate) struct CoreLink {
    commands: ArrayQueue<Command>,
    /// Wakes the core.
    pub(crate) waker: Waker,
    /// Finished requests of phases that are steered by them; `None` in a run without such phases.
    pub(crate) samples: Option<Samples>,
    /// What the core did so far.
    pub(crate) progress: CoreProgress,
    /// Phases whose `Close` the core has carried out.
    closed: Vec<AtomicBool>,
    /// By phase: what the core says of it when asked.
    pulses: Vec<PulseAnswer>,
    /// Whether the sleeping core has a slot without a credit.
    hungry: CachePadded<AtomicBool>,
}

impl CoreLink {
    /// The link of one core in a run of `phases` phases.
    ///
    /// # Errors
    /// No descriptor for the wake-up event.
    pub(crate) fn new(phases: usize) -> std::io::Result<Self> {
        Ok(Self {
            commands: ArrayQueue::new(1024),
            waker: Waker::new()?,
            samples: None,
            progress: CoreProgress::new(phases),
            closed: (0..phases).map(|_| AtomicBool::new(false)).collect(),
            pulses: (0..phases).map(|_| PulseAnswer::default()).collect(),
            hungry: CachePadded::default(),
        })
    }

    /// The same link, over which samples can be left.
    pub(super) fn sampled(mut self) -> Self {
        self.samples = Some(Samples::new());
        self
    }

    /// Sends a command and wakes the core. The queue holds far more than a run sends between two turns of a core; should a core be stopped
    /// for so long that it fills, the coordinator yields until there is room.
    pub(crate) fn command(&self, command: Command) {
        let mut command = command;
        while let Err(refused) = self.commands.push(command) {
            command = refused;
            self.waker.wake();
            std::thread::yield_now();
        }
        self.waker.wake();
    }

    /// The next command.
    pub(crate) fn next_command(&self) -> Option<Command> {
        self.commands.pop()
    }

    /// Whether no command waits.
    pub(crate) fn is_quiet(&self) -> bool {
        self.commands.is_empty()
    }

    /// The core is about to sleep; `hungry` tells whether new credits would let it go on. It looks once more for both after this.
    pub(crate) fn announce_sleep(&self, hungry: bool) {
        self.hungry.store(hungry, Ordering::Relaxed);
        self.waker.prepare_sleep();
    }

    /// New credits are there: wakes the core if it sleeps for want of one.
    pub(crate) fn feed(&self) {
        fence(Ordering::SeqCst);
        if self.hungry.load(Ordering::Relaxed) {
            self.waker.wake();
        }
    }

    /// Where the core answers [`Command::TellPulse`].
    pub(crate) fn pulse(&self, phase: PhaseId) -> &PulseAnswer {
        &self.pulses[phase.index()]
    }

    /// The core has carried out `Close`: no request of the phase will start here any more, and all that did are counted.
    pub(crate) fn acknowledge_close(&self, phase: PhaseId) {
        self.closed[phase.index()].store(true, Ordering::Release);
    }

    /// Whether the core has carried out `Close`.
    pub(crate) fn has_closed(&self, phase: PhaseId) -> bool {
        self.closed[phase.index()].load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_sleeper_never_misses_work() {
        // Ping-pong over two wakers; a lost wake-up would hang until the long timeout and fail the bound on rounds.
        let links: Arc<[CoreLink; 2]> = Arc::new([CoreLink::new(1).unwrap(), CoreLink::new(1).unwrap()]);
        let rounds = 20_000;
        let player = |me: usize, links: Arc<[CoreLink; 2]>| {
            std::thread::spawn(move || {
                let mut got = 0;
                while got < rounds {
                    if links[me].next_command().is_some() {
                        got += 1;
                        links[1 - me].command(Command::Shutdown);
                        continue;
                    }
                    links[me].waker.prepare_sleep();
                    if links[me].is_quiet() {
                        let before = crate::clock::monotonic();
                        links[me].waker.event().wait(Nanos::from_secs(30));
                        assert!(
                            crate::clock::monotonic().since(before) < Nanos::from_secs(20),
                            "missed a wake-up"
                        );
                    }
                    links[me].waker.awake();
                }
            })
        };
        let players = [player(0, links.clone()), player(1, links.clone())];
        links[0].command(Command::Shutdown);
        // Player 1 sends one more than player 0 takes.
        for player in players {
            player.join().unwrap();
        }
    }
}
