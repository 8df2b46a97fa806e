//! When a fixed schedule starts its sessions: the timestamps of the dataset, moved so that the phase begins at zero.

use std::sync::Arc;

use crate::units::Nanos;

/// The start of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduledStart {
    /// Offset from the start of the phase.
    pub due: Nanos,
    /// Conversation of the dataset.
    pub conversation: u32,
}

// A schedule of a million sessions takes 16 MB, whoever looks at it: the list is shared.
const _: () = assert!(size_of::<ScheduledStart>() == 16);

/// The starts of a fixed schedule in order; entries that are due at the same time keep the order of the dataset. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    starts: Arc<[ScheduledStart]>,
    /// The timestamp that is the beginning of the phase.
    zero: Nanos,
    requests: u64,
}

/// The part of the dataset's timestamps that is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Sessions that start before this timestamp are left out.
    pub first: Nanos,
    /// Sessions that start after this timestamp are left out.
    pub last: Nanos,
    /// The timestamp that is the beginning of the phase; `None` is that of the first session in the window.
    pub zero: Option<Nanos>,
}

impl Default for Window {
    /// Everything, from its first timestamp on.
    fn default() -> Self {
        Self {
            first: Nanos::ZERO,
            last: Nanos::MAX,
            zero: None,
        }
    }
}

/// Why there is no schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSchedule {
    /// A conversation whose first turn has no timestamp.
    NoTimestamp {
        /// The first of them.
        conversation: u32,
    },
    /// No session starts in the window.
    Empty {
        /// First timestamp of the dataset.
        first: Nanos,
        /// Last timestamp of a session's start.
        last: Nanos,
    },
}

impl Schedule {
    /// The schedule of conversations that start at these timestamps, by number of the conversation, and have so many turns.
    ///
    /// # Errors
    /// A conversation has no timestamp, or none is in the window.
    pub fn new(conversations: impl Iterator<Item = (Option<Nanos>, u32)>, window: Window) -> Result<Self, NoSchedule> {
        let (mut first, mut last) = (Nanos::MAX, Nanos::ZERO);
        let mut requests = 0u64;
        let mut starts = Vec::with_capacity(conversations.size_hint().0);
        for ((timestamp, turns), conversation) in conversations.zip(0..) {
            let Some(due) = timestamp else {
                return Err(NoSchedule::NoTimestamp { conversation });
            };
            (first, last) = (first.min(due), last.max(due));
            if (window.first..=window.last).contains(&due) {
                requests += u64::from(turns);
                starts.push(ScheduledStart { due, conversation });
            }
        }
        sort(&mut starts);
        let Some(earliest) = starts.first() else {
            return Err(NoSchedule::Empty { first, last });
        };
        let zero = window.zero.unwrap_or(earliest.due);
        for start in &mut starts {
            start.due = start.due.since(zero);
        }
        Ok(Self {
            starts: starts.into(),
            zero,
            requests,
        })
    }

    /// The starts in order; never empty.
    pub fn starts(&self) -> &[ScheduledStart] {
        &self.starts
    }

    /// The timestamp of the dataset that is the start of the phase.
    pub fn zero(&self) -> Nanos {
        self.zero
    }

    /// All turns of all sessions.
    pub fn requests(&self) -> u64 {
        self.requests
    }
}

/// Sorts starts by when they are due; those that are due at the same time keep their order.
///
/// Recorded traces are sorted as a rule, or nearly: then each start is moved to its place in one pass, for which a sort by merging takes
/// several. What takes more moves than there are starts is sorted so; the moves until then have kept the order of equals.
fn sort(starts: &mut [ScheduledStart]) {
    let mut moves_left = starts.len();
    for next in 1..starts.len() {
        let mut at = next;
        while at > 0 && starts[at - 1].due > starts[at].due {
            if moves_left == 0 {
                starts.sort_by_key(|start| start.due);
                return;
            }
            moves_left -= 1;
            starts.swap(at - 1, at);
            at -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    fn schedule(timestamps: &[u64], window: Window) -> Result<Vec<(u64, u32)>, NoSchedule> {
        let conversations = timestamps.iter().map(|&timestamp| (Some(ms(timestamp)), 1));
        let schedule = Schedule::new(conversations, window)?;
        Ok(schedule
            .starts()
            .iter()
            .map(|start| (start.due.0 / 1_000_000, start.conversation))
            .collect())
    }

    #[test]
    fn s60_the_first_timestamp_is_the_beginning() {
        let starts = schedule(&[1000, 1000, 1500, 4000], Window::default());
        assert_eq!(starts, Ok(vec![(0, 0), (0, 1), (500, 2), (3000, 3)]));
    }

    #[test]
    fn s60_a_start_offset_leaves_out_what_is_before_it_and_is_the_beginning() {
        let window = Window {
            first: ms(1200),
            zero: Some(ms(1200)),
            ..Window::default()
        };
        assert_eq!(
            schedule(&[1000, 1000, 1500, 4000], window),
            Ok(vec![(300, 2), (2800, 3)])
        );
    }

    #[test]
    fn s60_an_end_offset_alone_leaves_the_beginning_at_the_first_timestamp() {
        let window = Window {
            last: ms(1500),
            ..Window::default()
        };
        assert_eq!(
            schedule(&[1000, 1000, 1500, 4000], window),
            Ok(vec![(0, 0), (0, 1), (500, 2)])
        );
    }

    #[test]
    fn timestamps_in_any_order_are_sorted_and_equal_ones_keep_theirs() {
        let starts = schedule(&[7, 3, 7, 3, 0], Window::default());
        assert_eq!(starts, Ok(vec![(0, 4), (3, 1), (3, 3), (7, 0), (7, 2)]));
    }

    proptest! {
        #[test]
        fn starts_in_any_disorder_are_sorted_and_equal_ones_keep_theirs(
            steps in proptest::collection::vec(0u64..3, 1..200),
            displaced in proptest::collection::vec((any::<prop::sample::Index>(), 0u64..400), 0..200),
        ) {
            let mut timestamps: Vec<u64> = steps.iter().scan(0, |time, step| { *time += step; Some(*time) }).collect();
            for (at, timestamp) in displaced {
                let at = at.index(timestamps.len());
                timestamps[at] = timestamp;
            }
            let mut expected: Vec<(u64, u32)> = timestamps.iter().copied().zip(0..).collect();
            expected.sort_unstable();
            let window = Window { zero: Some(Nanos::ZERO), ..Window::default() };
            prop_assert_eq!(schedule(&timestamps, window), Ok(expected));
        }
    }

    #[test]
    fn what_cannot_be_a_schedule_says_why() {
        let window = Window {
            first: ms(10),
            ..Window::default()
        };
        let empty = NoSchedule::Empty {
            first: ms(3),
            last: ms(8),
        };
        assert_eq!(schedule(&[3, 8], window), Err(empty));
        let conversations = [(Some(ms(1)), 1), (None, 1), (None, 1)];
        assert_eq!(
            Schedule::new(conversations.into_iter(), Window::default()),
            Err(NoSchedule::NoTimestamp { conversation: 1 })
        );
    }

    #[test]
    fn all_turns_of_the_sessions_in_the_window_count() {
        let conversations = [(Some(ms(1)), 2), (Some(ms(9)), 5), (Some(ms(2)), 3)];
        let window = Window {
            last: ms(2),
            ..Window::default()
        };
        assert_eq!(
            Schedule::new(conversations.into_iter(), window).map(|schedule| schedule.requests()),
            Ok(5)
        );
    }
}
