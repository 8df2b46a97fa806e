//! The recorded times of a file, and what is left of them before it is sent: all, some, or none.

use super::session::Session;
use crate::units::Nanos;

/// What becomes of timestamps and delays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FileTimes {
    /// They count.
    Kept {
        /// Longest delay: one that is longer becomes this.
        delay_max: Nanos,
    },
    /// They count for nothing: turns follow at once.
    Ignored,
}

impl FileTimes {
    /// Every time as it is written.
    pub const AS_WRITTEN: Self = Self::Kept { delay_max: Nanos::MAX };

    /// Changes the times of all turns.
    pub fn apply(self, sessions: &mut [Session<'_>]) {
        if self == Self::AS_WRITTEN {
            return;
        }
        for turn in sessions.iter_mut().flat_map(|session| session.turns.iter_mut()) {
            match self {
                Self::Kept { delay_max } => turn.delay = turn.delay.map(|delay| delay.min(delay_max)),
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
            delay_max: Nanos::from_millis(millis),
        };
        let mut expected = written;
        expected[1].1 = Some(2000.0);
        assert_eq!(times(capped(2000)), expected);
        (expected[0].1, expected[1].1) = (Some(0.0), Some(0.0));
        assert_eq!(times(capped(0)), expected);
    }

    #[test]
    fn ignored_times_are_gone() {
        assert_eq!(times(FileTimes::Ignored), [(None, None); 4]);
    }
}
