//! How long a phase has shown no sign of life, as a value.
//!
//! A sign of life is a request that starts or ends, or a byte in either direction. Starts and ends are counted, so they are known at once. Bytes are
//! known to the cores alone, which are asked only when the counts have stood still for long: see `credit/pulse.rs`.

use super::attention::{Attention, PROMPT};
use crate::units::Nanos;

/// [`MachineSettings::stall_timeout`](super::MachineSettings::stall_timeout) unless somebody wants another: the longest answers that are not
/// streamed take some minutes, and a night is longer.
pub const STALL_TIMEOUT: Nanos = Nanos::from_secs(1800);
/// After so long without a sign of life the user hears of it, and after half of the stall timeout at the latest.
const FIRST_WORD: Nanos = Nanos::from_secs(60);
/// Answers in a row that make a stall: one alone may come at the very moment at which something was due and had not been sent yet.
const ENOUGH_ANSWERS: u32 = 2;
/// How often a phase is looked at that is known to be silent, and the least time between two looks at any; half of the patience if that is less.
const INTERVAL: Nanos = PROMPT;

/// What the cores said about the requests of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signs {
    /// The latest byte of those in flight; `None` if there are none.
    pub last_byte: Option<Nanos>,
    /// When the oldest of them started.
    pub oldest: Option<Nanos>,
    /// Whether the phase will send more though none of them is answered: an arrival or a turn is due later, and there is room for it.
    pub more_is_due: bool,
}

/// A silence that the user should hear of, or that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spell {
    /// The last sign of life before it.
    pub since: Nanos,
    /// When the oldest request in flight started.
    pub oldest: Option<Nanos>,
}

/// The silence of one phase, from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Silence {
    stall_timeout: Nanos,
    start: Nanos,
    /// The last sign of life that is known.
    since: Nanos,
    signs: Signs,
    /// Answers in a row, since the last sign of life, by which nothing will be sent without an answer.
    idle_answers: u32,
    /// When to look next; [`Nanos::MAX`] while the cores are being asked.
    next_look: Nanos,
    /// Looks are questions to the cores and their answers.
    attention: Attention,
    /// The user has heard of the silence that lasts since.
    told: Option<Nanos>,
    /// Silences that have ended after the user had heard of them.
    ended: u32,
    /// The longest of them, and when it began.
    longest: (Nanos, Nanos),
}

impl Silence {
    /// A phase that starts now.
    pub(super) fn new(stall_timeout: Nanos, now: Nanos) -> Self {
        let mut silence = Self {
            stall_timeout,
            start: now,
            since: now,
            signs: Signs {
                last_byte: None,
                oldest: None,
                more_is_due: true,
            },
            idle_answers: 0,
            next_look: Nanos::MAX,
            attention: Attention::new(now),
            told: None,
            ended: 0,
            longest: (Nanos::ZERO, now),
        };
        silence.next_look = now + silence.patience();
        silence
    }

    /// How long a silence may last before the user hears of it. A server that was silent for long and went on is expected to do so again: whole answers
    /// of many minutes are not worth two lines each.
    fn patience(&self) -> Nanos {
        let usual = FIRST_WORD.max(Nanos(self.longest.0.0.saturating_mul(2)));
        usual.min(Nanos(self.stall_timeout.0 / 2))
    }

    fn interval(&self) -> Nanos {
        INTERVAL.min(Nanos(self.patience().0 / 2))
    }

    /// The silences that have ended, in one line; `None` if the user has heard of none.
    pub(super) fn past(&self) -> Option<String> {
        let (length, since) = self.longest;
        let others = match self.ended {
            0 => return None,
            1 => String::new(),
            count => format!(" (the longest of {count} such silences)"),
        };
        let after = since.since(self.start);
        Some(format!(
            "no byte came for {}, from {} after its start on; then it went on{others}",
            length.in_words(),
            after.in_words()
        ))
    }

    /// The last sign of life that is known. Of a phase that is alive it is at most as old as the patience, the interval and the answer of a core take
    /// together, which is well below the stall timeout.
    pub(super) fn since(&self) -> Nanos {
        self.since
    }

    /// When to call [`Silence::asks`].
    pub(super) fn next_look(&self) -> Nanos {
        self.next_look
    }

    /// Whether the cores are to be asked now, and after which instant a byte would be late enough. Then [`Silence::hear`] must follow.
    pub(super) fn asks(&mut self, now: Nanos) -> Option<Nanos> {
        if now < self.next_look {
            return None;
        }
        if now.since(self.since) < self.patience() {
            // It was alive meanwhile.
            self.next_look = self.since + self.patience();
            return None;
        }
        self.attention.look(self.next_look.max(self.since), self.since, now);
        self.next_look = Nanos::MAX;
        Some(Nanos(now.0.saturating_sub(self.patience().0)))
    }

    /// A sign of life. Gives the silence that it ends, if the user has heard of that.
    pub(super) fn broken(&mut self, at: Nanos) -> Option<Spell> {
        if at <= self.since {
            return None;
        }
        let spell = self.told.take().map(|since| Spell {
            since,
            oldest: self.signs.oldest,
        });
        if let Some(spell) = spell {
            self.ended += 1;
            self.longest = self.longest.max((at.since(spell.since), spell.since));
        }
        self.since = at;
        self.idle_answers = 0;
        self.attention.forget();
        spell
    }

    /// What breaks the silence from now on is no answer, but the end of what was cut.
    pub(super) fn forget_word(&mut self) {
        self.told = None;
    }

    /// What the cores answered. Gives the silence that a byte has ended, if the user has heard of that.
    pub(super) fn hear(&mut self, signs: Signs, now: Nanos) -> Option<Spell> {
        self.signs = signs;
        if self.next_look == Nanos::MAX {
            let asked = self.attention.looked().max(self.since);
            self.attention.look(asked, self.since, now);
        }
        let ended = signs.last_byte.and_then(|at| self.broken(at));
        self.idle_answers = if signs.more_is_due { 0 } else { self.idle_answers + 1 };
        let (silent, enough) = (now.since(self.since), self.enough());
        self.next_look = if silent < self.patience() {
            (self.since + self.patience()).max(now + self.interval())
        } else if silent < enough {
            (now + self.interval()).min(self.since + enough)
        } else {
            now + self.interval()
        };
        ended
    }

    /// A silence of which the user should hear now, if there is one; each is given once.
    pub(super) fn worth_a_word(&mut self, now: Nanos) -> Option<Spell> {
        let is_long = now.since(self.since) >= self.patience();
        if !is_long || self.told.is_some() || self.signs.oldest.is_none() {
            return None;
        }
        self.told = Some(self.since);
        Some(Spell {
            since: self.since,
            oldest: self.signs.oldest,
        })
    }

    /// How long a silence has to be for a stall.
    fn enough(&self) -> Nanos {
        self.stall_timeout + self.attention.unheard()
    }

    /// Whether the phase has stalled, given the last sign of life of everything that it may be waiting for.
    pub(super) fn is_stall(&self, since: Nanos, now: Nanos) -> bool {
        now.since(since.max(self.since)) >= self.enough() && self.idle_answers >= ENOUGH_ANSWERS
    }

    /// When the oldest request in flight started, as the cores said last.
    pub(super) fn oldest(&self) -> Option<Nanos> {
        self.signs.oldest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(secs: u64) -> Nanos {
        Nanos::from_secs(secs)
    }

    /// Requests in flight since second 1, the last byte at `last`.
    fn waiting(last: u64) -> Signs {
        Signs {
            last_byte: Some(secs(last)),
            oldest: Some(secs(1)),
            more_is_due: false,
        }
    }

    #[test]
    fn cores_are_asked_after_a_minute_of_standing_counts_and_not_before() {
        let mut silence = Silence::new(STALL_TIMEOUT, secs(100));
        assert_eq!(silence.next_look(), secs(160));
        assert_eq!(silence.asks(secs(159)), None);
        assert_eq!(silence.broken(secs(130)), None, "nobody has heard of it");
        assert_eq!(silence.asks(secs(160)), None);
        assert_eq!(silence.next_look(), secs(190));
        assert_eq!(silence.asks(secs(190)), Some(secs(130)));
        assert_eq!(silence.next_look(), Nanos::MAX, "one question at a time");
        // Streams: the latest byte was just now.
        assert_eq!(silence.hear(waiting(189), secs(190)), None);
        assert_eq!(
            (silence.next_look(), silence.worth_a_word(secs(190))),
            (secs(249), None)
        );
    }

    #[test]
    fn a_silence_is_told_once_and_so_is_its_end() {
        let mut silence = Silence::new(STALL_TIMEOUT, secs(1));
        assert_eq!(silence.asks(secs(61)), Some(secs(1)));
        assert_eq!(silence.hear(waiting(1), secs(61)), None);
        let spell = Spell {
            since: secs(1),
            oldest: Some(secs(1)),
        };
        assert_eq!(silence.worth_a_word(secs(61)), Some(spell));
        assert_eq!(silence.worth_a_word(secs(62)), None);
        assert_eq!(silence.next_look(), secs(62));
        assert_eq!(silence.asks(secs(62)), Some(secs(2)));
        assert_eq!(silence.hear(waiting(1), secs(62)), None);
        assert!(silence.asks(secs(63)).is_some());
        assert_eq!(silence.past(), None);
        assert_eq!(silence.hear(waiting(63), secs(63)), Some(spell));
        let past = "no byte came for 1 min 2 s, from 0 s after its start on; then it went on";
        assert_eq!(silence.past().as_deref(), Some(past));
        // The next one is told of after twice as long.
        assert_eq!(silence.next_look(), secs(63 + 2 * 62));
        assert_eq!(silence.broken(secs(70)), None);
    }

    #[test]
    fn a_phase_that_has_nothing_in_flight_or_more_to_send_by_itself_is_no_news() {
        let mut idle = Silence::new(secs(200), secs(0));
        let signs = Signs {
            last_byte: None,
            oldest: None,
            more_is_due: true,
        };
        idle.hear(signs, secs(300));
        assert_eq!(idle.worth_a_word(secs(300)), None);
        assert!(!idle.is_stall(Nanos::ZERO, secs(300)));
    }

    #[test]
    fn a_stall_is_a_silence_of_everything_that_the_phase_may_wait_for() {
        let mut silence = Silence::new(secs(10), secs(0));
        assert_eq!(
            silence.next_look(),
            secs(5),
            "half of the timeout comes before a minute"
        );
        silence.hear(waiting(1), secs(10));
        assert!(!silence.is_stall(Nanos::ZERO, secs(10)));
        assert_eq!(silence.next_look(), secs(11));
        silence.hear(waiting(1), secs(11));
        assert!(silence.is_stall(Nanos::ZERO, secs(11)));
        let mut at_once = Silence::new(secs(10), secs(0));
        at_once.hear(waiting(0), secs(11));
        assert!(
            !at_once.is_stall(Nanos::ZERO, secs(11)),
            "the first answer may have come too early"
        );
        assert!(!silence.is_stall(secs(2), secs(11)), "its neighbour was alive");
        let mut endless = Silence::new(Nanos::MAX, secs(0));
        (0..3).for_each(|_| assert_eq!(endless.hear(waiting(1), Nanos(u64::MAX - 1)), None));
        assert!(!endless.is_stall(Nanos::ZERO, Nanos(u64::MAX - 1)));
    }

    #[test]
    fn time_in_which_nobody_listened_is_no_silence_of_the_server() {
        let mut silence = Silence::new(secs(10), secs(0));
        // Stopped from second 6 to 36.
        assert!(silence.asks(secs(5)).is_some());
        silence.hear(waiting(1), secs(5));
        assert!(silence.asks(secs(36)).is_some());
        for now in 36..42 {
            silence.hear(waiting(1), secs(now));
            assert!(!silence.is_stall(Nanos::ZERO, secs(now)), "at {now}");
            assert!(silence.asks(secs(now + 1)).is_some());
        }
        silence.hear(waiting(1), secs(42));
        assert!(silence.is_stall(Nanos::ZERO, secs(42)), "4 s and 6 s were listened to");
        // Stopped while a core was asked.
        let mut silence = Silence::new(secs(10), secs(0));
        assert!(silence.asks(secs(5)).is_some());
        (0..2).for_each(|_| assert_eq!(silence.hear(waiting(0), secs(25)), None));
        assert!(!silence.is_stall(Nanos::ZERO, secs(25)));
        // A byte starts it anew.
        assert_eq!(silence.broken(secs(26)), None);
        (0..2).for_each(|_| assert_eq!(silence.hear(waiting(26), secs(26)), None));
        assert!(silence.is_stall(Nanos::ZERO, secs(36)));
    }
}
