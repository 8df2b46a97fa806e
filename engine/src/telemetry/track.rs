//! One figure over all scrapes: only its changes are kept, so a figure that stands still costs nothing.

/// The values of one figure by number of scrape. A missing figure is a NaN, as is one that the server itself calls so: neither is a value.
#[derive(Debug, Clone, Default)]
pub(super) struct Track {
    changes: Vec<(u32, f64)>,
}

/// By how much a counter grew.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Increase {
    pub(super) total: f64,
    /// How often it fell, because its server started anew.
    pub(super) resets: u32,
}

impl Track {
    /// Notes the figure of scrape `index`; says whether it is another one than before.
    pub(super) fn note(&mut self, index: usize, value: Option<f64>) -> bool {
        let value = value.unwrap_or(f64::NAN);
        let last = self.changes.last().map_or(f64::NAN, |&(_, last)| last);
        if last == value || (last.is_nan() && value.is_nan()) {
            return false;
        }
        self.changes.push((u32::try_from(index).unwrap_or(u32::MAX), value));
        true
    }

    /// The figure at scrape `index`.
    pub(super) fn at(&self, index: usize) -> Option<f64> {
        let after = self.changes.partition_point(|&(at, _)| at as usize <= index);
        let (_, value) = *self.changes.get(after.checked_sub(1)?)?;
        (!value.is_nan()).then_some(value)
    }

    /// Scrapes after `from` and up to `to` at which the figure changed.
    pub(super) fn changes_between(&self, from: usize, to: usize) -> impl Iterator<Item = (usize, f64)> {
        let first = self.changes.partition_point(|&(at, _)| at as usize <= from);
        self.changes[first..]
            .iter()
            .map(|&(at, value)| (at as usize, value))
            .take_while(move |&(at, _)| at <= to)
    }

    /// How much a counter grew after scrape `from` and up to `to`; `None` if it is in none of them.
    ///
    /// A fall means that the server counts from zero again, and so does a series which was not there at `from`: servers make most of their
    /// series when there is something to count for the first time. A series that was away for a while goes on from where it was.
    pub(super) fn increase(&self, from: usize, to: usize) -> Option<Increase> {
        let is_there = self.at(from).is_some() || self.changes_between(from, to).any(|(_, value)| !value.is_nan());
        if !is_there {
            return None;
        }
        let known = self.changes.partition_point(|&(at, _)| at as usize <= from);
        let before = self.changes[..known].iter().rev().find(|(_, value)| !value.is_nan());
        let mut last = before.map_or(0.0, |&(_, value)| value);
        let mut increase = Increase::default();
        for (_, value) in self.changes_between(from, to).filter(|(_, value)| !value.is_nan()) {
            if value >= last {
                increase.total += value - last;
            } else {
                increase.total += value;
                increase.resets += 1;
            }
            last = value;
        }
        Some(increase)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn track(values: &[Option<f64>]) -> Track {
        let mut track = Track::default();
        for (index, value) in values.iter().enumerate() {
            track.note(index, *value);
        }
        track
    }

    fn counted(values: &[f64]) -> Track {
        track(&values.iter().map(|&value| Some(value)).collect::<Vec<_>>())
    }

    #[test]
    fn e14_a_counter_that_falls_was_reset_and_never_counts_backwards() {
        let increase = counted(&[57.0, 21.0, 30.0]).increase(0, 2);
        assert_eq!(increase, Some(Increase { total: 30.0, resets: 1 }));
    }

    #[test]
    fn a_series_that_appears_counts_from_zero_and_one_that_was_away_goes_on() {
        let appears = track(&[None, Some(5.0), Some(9.0)]);
        assert_eq!(appears.increase(0, 2).map(|one| one.total), Some(9.0));
        assert_eq!(appears.increase(1, 2).map(|one| one.total), Some(4.0));
        let away = track(&[Some(5.0), None, Some(7.0)]);
        assert_eq!(away.increase(0, 2).map(|one| one.total), Some(2.0));
        assert_eq!(away.increase(1, 2).map(|one| one.total), Some(2.0));
        assert_eq!(away.increase(1, 1), None, "it is not there");
        assert_eq!(track(&[None, None]).increase(0, 1), None);
        assert_eq!(counted(&[4.0, 4.0]).increase(0, 1).map(|one| one.total), Some(0.0));
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_was_noted(values in prop::collection::vec(prop::option::of(0u8..4), 1..30)) {
            let values: Vec<Option<f64>> = values.into_iter().map(|value| value.map(f64::from)).collect();
            let track = track(&values);
            for (index, value) in values.iter().enumerate() {
                prop_assert_eq!(track.at(index), *value);
            }
        }

        #[test]
        fn increases_of_neighbours_add_up(values in prop::collection::vec(0u16..100, 3..30), cut in 0usize..30) {
            let track = counted(&values.iter().map(|&value| f64::from(value)).collect::<Vec<_>>());
            let (cut, last) = (cut % values.len(), values.len() - 1);
            let total = |from, to| track.increase(from, to).map_or(0.0, |increase| increase.total);
            prop_assert_eq!(total(0, cut) + total(cut, last), total(0, last));
        }
    }
}
