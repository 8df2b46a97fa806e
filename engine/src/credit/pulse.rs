//! What a core says of a phase when the coordinator asks whether anything still comes.
//!
//! Sends and ends of requests are counted, and whoever reads the counters sees them. Bytes are not: a core keeps the instant of the latest one with
//! each request and tells nobody. So where the counters of a phase stand still for long, the coordinator asks, and a core answers by a walk over its
//! requests in flight. The path of a byte pays nothing for it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::units::Nanos;

/// What has to happen before a core sends another request of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outlook {
    /// A request has to end, or a prefill: slots, sessions, prefill slots or places for connections are all taken.
    Answer,
    /// The schedule has to go on: there is a slot, and no credit.
    Credit,
    /// Time has to pass: an arrival or the next turn of a session is due later.
    Time,
}

/// The requests of one phase on one core, or on all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pulse {
    /// The latest byte of any of them, in either direction, or one that is late enough for whoever asked; `None` without requests in flight.
    pub(crate) last_life: Option<Nanos>,
    /// When the oldest of them started.
    pub(crate) oldest: Option<Nanos>,
    /// What the next one waits for.
    pub(crate) outlook: Outlook,
}

impl Pulse {
    /// Nothing in flight, and nothing to send without an answer.
    pub(crate) const NONE: Self = Self {
        last_life: None,
        oldest: None,
        outlook: Outlook::Answer,
    };

    /// Two cores together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            last_life: self.last_life.max(other.last_life),
            oldest: [self.oldest, other.oldest].into_iter().flatten().min(),
            outlook: self.outlook.max(other.outlook),
        }
    }
}

/// Where one core leaves its answer about one phase. One question at a time.
#[derive(Debug, Default)]
pub(crate) struct PulseAnswer {
    /// 0 while there is no answer, else the outlook.
    outlook: AtomicU8,
    /// 0 for none.
    last_life: AtomicU64,
    /// 0 for none.
    oldest: AtomicU64,
}

const OUTLOOKS: [Outlook; 3] = [Outlook::Answer, Outlook::Credit, Outlook::Time];

impl PulseAnswer {
    /// Forgets the answer to the question before. The queue of commands carries that to the core.
    pub(crate) fn forget(&self) {
        self.outlook.store(0, Ordering::Relaxed);
    }

    /// Leaves an answer.
    pub(crate) fn leave(&self, pulse: Pulse) {
        let instant = |instant: Option<Nanos>| instant.unwrap_or(Nanos::ZERO).0;
        self.last_life.store(instant(pulse.last_life), Ordering::Relaxed);
        self.oldest.store(instant(pulse.oldest), Ordering::Relaxed);
        // Release pairs with the acquire load of the reader: it sees both instants of this answer.
        self.outlook.store(pulse.outlook as u8 + 1, Ordering::Release);
    }

    /// The answer, once it is there.
    pub(crate) fn read(&self) -> Option<Pulse> {
        let outlook = self.outlook.load(Ordering::Acquire).checked_sub(1)?;
        let instant = |cell: &AtomicU64| Some(Nanos(cell.load(Ordering::Relaxed))).filter(|&at| at > Nanos::ZERO);
        Some(Pulse {
            last_life: instant(&self.last_life),
            oldest: instant(&self.oldest),
            outlook: OUTLOOKS[usize::from(outlook)],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_there_from_its_leaving_to_the_next_question() {
        let answer = PulseAnswer::default();
        assert_eq!(answer.read(), None);
        for outlook in OUTLOOKS {
            for (last_life, oldest) in [(None, None), (Some(Nanos(7)), Some(Nanos(3)))] {
                let pulse = Pulse {
                    last_life,
                    oldest,
                    outlook,
                };
                answer.leave(pulse);
                assert_eq!(answer.read(), Some(pulse));
            }
        }
        answer.forget();
        assert_eq!(answer.read(), None);
    }

    #[test]
    fn of_several_cores_the_latest_byte_the_oldest_request_and_the_best_outlook_count() {
        let pulse = |last_life, oldest, outlook| Pulse {
            last_life: Some(Nanos(last_life)),
            oldest: Some(Nanos(oldest)),
            outlook,
        };
        let (a, b) = (pulse(5, 1, Outlook::Answer), pulse(9, 4, Outlook::Time));
        assert_eq!(a.and(b), pulse(9, 1, Outlook::Time));
        assert_eq!(b.and(a), a.and(b));
        assert_eq!(Pulse::NONE.and(a), a);
    }
}
