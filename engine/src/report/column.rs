//! Compact storage of what a report needs from every record.
//!
//! Percentiles are exact, so every value is kept until the end of the run; what a record costs decides how long a run can be. Spans are
//! stored as 32-bit nanoseconds (up to 2.1 s) with longer ones beside, at 12 bytes instead of 8, and optional fields that no record
//! has cost nothing. [`Rows`](super::rows::Rows) adds up the bill.

use super::radix;

/// A value that the record did not have.
const ABSENT: u32 = u32::MAX;
/// Entries from here on are positions in `large`.
const LARGE: u32 = 1 << 31;

/// One optional number per record, in the order of the records.
#[derive(Debug, Default)]
pub(super) struct Column {
    /// Records before the first present value: a column that stays absent allocates nothing.
    absent_before: usize,
    entries: Vec<u32>,
    large: Vec<u64>,
}

impl Column {
    /// Appends the next record's value.
    ///
    /// # Panics
    /// After 2^31 - 1 values that do not fit in 31 bits: 24 GiB of them in this column alone.
    pub(super) fn push(&mut self, value: Option<u64>) {
        let entry = match value {
            None if self.entries.is_empty() => {
                self.absent_before += 1;
                return;
            }
            None => ABSENT,
            Some(value) if value < u64::from(LARGE) => value as u32,
            Some(value) => {
                let at = self.large.len();
                assert!(at < (ABSENT - LARGE) as usize, "{at} values above 2^31 in one column");
                self.large.push(value);
                LARGE | at as u32
            }
        };
        self.entries.push(entry);
    }

    /// The value of record `at`; `None` if it had none.
    pub(super) fn get(&self, at: usize) -> Option<u64> {
        let entry = *self.entries.get(at.checked_sub(self.absent_before)?)?;
        match entry {
            ABSENT => None,
            large if large >= LARGE => Some(self.large[(large & !LARGE) as usize]),
            small => Some(u64::from(small)),
        }
    }

    /// Present values, in the order of the records.
    pub(super) fn values(&self) -> impl Iterator<Item = u64> + '_ {
        (self.absent_before..self.absent_before + self.entries.len()).filter_map(|at| self.get(at))
    }
}

/// Values whose record does not matter: 4 bytes each up to 4.3 s, 8 beyond, and as much again while they are sorted.
#[derive(Debug, Default, Clone)]
pub(super) struct Pool {
    small: Vec<u32>,
    large: Vec<u64>,
}

/// How far a pool was filled at some time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mark {
    small: usize,
    large: usize,
}

impl Pool {
    /// How far it is filled.
    pub(super) fn mark(&self) -> Mark {
        Mark {
            small: self.small.len(),
            large: self.large.len(),
        }
    }

    /// Adds the values that another pool, not sorted yet, took in between two marks.
    pub(super) fn append_between(&mut self, other: &Self, from: Mark, to: Mark) {
        self.small.extend_from_slice(&other.small[from.small..to.small]);
        self.large.extend_from_slice(&other.large[from.large..to.large]);
    }

    pub(super) fn push(&mut self, value: u64) {
        match u32::try_from(value) {
            Ok(small) => self.small.push(small),
            Err(_) => self.large.push(value),
        }
    }

    /// Adds the values of another phase.
    pub(super) fn append(&mut self, other: &Self) {
        self.small.extend_from_slice(&other.small);
        self.large.extend_from_slice(&other.large);
    }

    /// Sorts, so that [`at`](Self::at) goes up. Every small value is below every large one.
    pub(super) fn sort(&mut self) {
        radix::sort(&mut self.small);
        radix::sort(&mut self.large);
    }

    pub(super) fn len(&self) -> usize {
        self.small.len() + self.large.len()
    }

    pub(super) fn at(&self, at: usize) -> u64 {
        match self.small.get(at) {
            Some(&small) => u64::from(small),
            None => self.large[at - self.small.len()],
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Values on both sides of every border of the encoding.
    fn value() -> impl Strategy<Value = u64> {
        prop_oneof![
            0..10u64,
            (u64::from(LARGE) - 2)..(u64::from(LARGE) + 2),
            (u64::from(u32::MAX) - 2)..(u64::from(u32::MAX) + 2),
            any::<u64>(),
        ]
    }

    proptest! {
        #[test]
        fn a_column_gives_back_what_was_pushed(values in prop::collection::vec(prop::option::of(value()), 0..200)) {
            let mut column = Column::default();
            values.iter().for_each(|&v| column.push(v));
            let back: Vec<Option<u64>> = (0..values.len()).map(|at| column.get(at)).collect();
            prop_assert_eq!(&back, &values);
            prop_assert_eq!(column.get(values.len()), None);
            let present: Vec<u64> = values.into_iter().flatten().collect();
            prop_assert_eq!(column.values().collect::<Vec<_>>(), present);
        }

        #[test]
        fn a_pool_is_the_sorted_union(a in prop::collection::vec(value(), 0..100), b in prop::collection::vec(value(), 0..100)) {
            let (mut first, mut second) = (Pool::default(), Pool::default());
            a.iter().for_each(|&v| first.push(v));
            b.iter().for_each(|&v| second.push(v));
            first.append(&second);
            first.sort();
            let mut expected = [a, b].concat();
            expected.sort_unstable();
            prop_assert_eq!((0..first.len()).map(|at| first.at(at)).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_column_that_stays_absent_allocates_nothing() {
        let mut column = Column::default();
        (0..1000).for_each(|_| column.push(None));
        assert_eq!(column.entries.capacity(), 0);
        column.push(Some(7));
        assert_eq!((column.get(999), column.get(1000)), (None, Some(7)));
    }
}
