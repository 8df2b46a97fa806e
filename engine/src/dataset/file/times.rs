//! The recorded times of a file, and what is left of them before it is sent: all, some, or none.

use super::session::Session;
use crate::units::Nanos;

/// The latest time that a record may have: far below the end of the clock.
const LATEST: Nanos = Nanos::from_millis(10_000_000_000_000);

/// What becomes of timestamps and delays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FileTimes {
    /// They count.
    Kept {
        /// What timestamps and delays are divided by: finite, above 0.
        speedup: f64,
        /// Longest delay: one that is longer after the division becomes this.
        delay_max: Nanos,
    },
    /// They count for nothing: turns follow at once.
    Ignored,
}

impl FileTimes {
    /// Every time as it is written.
    pub const AS_WRITTEN: Self = Self::Kept {
        speedup: 1.0,
        delay_max: Nanos::MAX,
    };

    /// What times are divided by.
    pub fn speedup(self) -> f64 {
        match self {
            Self::Kept { speedup, .. } => speedup,
            Self::Ignored => 1.0,
        }
    }

    /// A time of the file as it is replayed. What is earlier or later in the file stays so, and what is at the same time too.
    pub fn scaled(self, time: Nanos) -> Nanos {
        match self.speedup() {
            1.0 => time,
            // The cast saturates.
            speedup => Nanos((time.0 as f64 / speedup).round() as u64).min(LATEST),
        }
    }

    /// Changes the times of all turns.
    pub fn apply(self, sessions: &mut [Session<'_>]) {
        if self == Self::AS_WRITTEN {
            return;
        }
        for turn in sessions.iter_mut().flat_map(|session| session.turns.iter_mut()) {
            match self {
                Self::Kept { delay_max, .. } => {
                    turn.timestamp = turn.timestamp.map(|at| self.scaled(at));
                    turn.delay = turn.delay.map(|delay| self.scaled(delay).min(delay_max));
                }
                Self::Ignored => (turn.timestamp, turn.delay) = (None, None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{FileFormat, FileOptions, read_records};

    /// Timestamps and delays in milliseconds, turn by turn.
    fn times(of: FileTimes) -> Vec<(Option<f64>, Option<f64>)> {
        let records = [
            r#"{"session_id": "a", "turns": [{"text": "1", "timestamp": 5, "delay": 100}, {"text": "2", "delay": 3000.5}]}"#,
            r#"{"session_id": "b", "turns": [{"text": "3", "timestamp": 9000}, {"text": "4"}]}"#,
        ];
        let options = FileOptions {
            format: FileFormat::MultiTurn,
            block_size: 1,
        };
        let mut sessions = read_records(records.into_iter(), options).unwrap_or_else(|error| panic!("{error:?}"));
        of.apply(&mut sessions);
        let turns = sessions.iter().flat_map(|session| session.turns.iter());
        turns
            .map(|turn| {
                (
                    turn.timestamp.map(Nanos::as_millis_f64),
                    turn.delay.map(Nanos::as_millis_f64),
                )
            })
            .collect()
    }

    #[test]
    fn a_cap_shortens_delays_and_leaves_timestamps() {
        let written = [
            (Some(5.0), Some(100.0)),
            (None, Some(3000.5)),
            (Some(9000.0), None),
            (None, None),
        ];
        assert_eq!(times(FileTimes::AS_WRITTEN), written);
        let capped = |millis| FileTimes::Kept {
            speedup: 1.0,
            delay_max: Nanos::from_millis(millis),
        };
        let mut expected = written;
        expected[1].1 = Some(2000.0);
        assert_eq!(times(capped(2000)), expected);
        (expected[0].1, expected[1].1) = (Some(0.0), Some(0.0));
        assert_eq!(times(capped(0)), expected);
    }

    #[test]
    fn a_faster_replay_divides_times_before_delays_are_capped() {
        let faster = |speedup, cap| FileTimes::Kept {
            speedup,
            delay_max: Nanos::from_millis(cap),
        };
        assert_eq!(
            times(faster(4.0, 100_000)),
            [
                (Some(1.25), Some(25.0)),
                (None, Some(750.125)),
                (Some(2250.0), None),
                (None, None)
            ]
        );
        assert_eq!(times(faster(2.0, 1500))[1].1, Some(1500.0));
        assert_eq!(times(faster(0.5, 100_000))[2].0, Some(18_000.0));
        assert_eq!(
            times(faster(f64::MIN_POSITIVE, 1))[2].0,
            Some(1e13),
            "no later than any record may be"
        );
        assert_eq!(times(faster(f64::MAX, 1))[2].0, Some(0.0));
    }

    #[test]
    fn ignored_times_are_gone() {
        assert_eq!(times(FileTimes::Ignored), [(None, None); 4]);
    }
}
