//! Everything that one endpoint said during a run.

use std::collections::BTreeMap;

use super::exposition::{Exposition, FamilyKind, Labels, Reading};
use super::scraper::{Answer, Keep};
use super::track::Track;
use crate::units::Nanos;

/// Changes of figures that are kept, 16 bytes each. A server of a thousand moving figures gets here after an hour.
const CHANGES_MAX: usize = 10_000_000;

/// When an endpoint was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scrape {
    /// Just before the connection was opened.
    pub sent: Nanos,
    /// When the head of the answer had come: the moment that its figures stand for.
    pub answered: Nanos,
    /// Whether any figure differed from the scrape before.
    pub is_update: bool,
}

/// All answers of one endpoint.
#[derive(Debug, Clone, Default)]
pub struct History {
    scrapes: Vec<Scrape>,
    families: BTreeMap<String, FamilyHistory>,
    changes: usize,
    /// Lines that were no samples, over all answers.
    pub bad_lines: u64,
    /// Answers in which a counter had fallen: its server had started anew.
    pub resets: u64,
}

/// A family over all answers.
#[derive(Debug, Clone)]
pub(super) struct FamilyHistory {
    pub(super) kind: FamilyKind,
    pub(super) help: String,
    pub(super) series: BTreeMap<Labels, SeriesHistory>,
}

/// A series over all answers.
#[derive(Debug, Clone, Default)]
pub(super) struct SeriesHistory {
    pub(super) value: Track,
    pub(super) sum: Track,
    pub(super) count: Track,
    /// In ascending order of their bounds.
    pub(super) buckets: Vec<Bucket>,
}

/// Observations up to a bound.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    /// As the server writes it.
    pub(super) bound: String,
    pub(super) upper: f64,
    pub(super) track: Track,
}

impl History {
    /// Takes one answer.
    pub(super) fn record(&mut self, sent: Nanos, answered: Nanos, mut answer: Exposition) {
        let index = self.scrapes.len();
        let mut changes = 0;
        let mut has_reset = false;
        for (name, family) in &mut self.families {
            let mut now = answer.families.remove(name).map(|family| family.series);
            for (labels, series) in &mut family.series {
                let reading = now.as_mut().and_then(|series| series.remove(labels));
                has_reset |= reading
                    .as_ref()
                    .is_some_and(|now| series.has_reset(family.kind, index, now));
                changes += series.note(index, reading);
            }
            for (labels, reading) in now.into_iter().flatten() {
                changes += family.series.entry(labels).or_default().note(index, Some(reading));
            }
        }
        for (name, family) in answer.families {
            let kept = self.families.entry(name).or_insert(FamilyHistory {
                kind: family.kind,
                help: family.help,
                series: BTreeMap::new(),
            });
            for (labels, reading) in family.series {
                changes += kept.series.entry(labels).or_default().note(index, Some(reading));
            }
        }
        self.changes += changes;
        self.bad_lines += answer.bad_lines;
        self.resets += u64::from(has_reset);
        self.scrapes.push(Scrape {
            sent,
            answered,
            is_update: index == 0 || changes > 0,
        });
    }

    /// Every scrape that was answered, in order.
    pub fn scrapes(&self) -> &[Scrape] {
        &self.scrapes
    }

    pub(super) fn families(&self) -> impl Iterator<Item = (&str, &FamilyHistory)> {
        self.families.iter().map(|(name, family)| (name.as_str(), family))
    }

    /// What the endpoint said at scrape `index`: every series that was there, by family.
    pub fn at(&self, index: usize) -> impl Iterator<Item = (&str, Vec<Snapshot<'_>>)> {
        self.families().map(move |(name, family)| {
            let series = family.series.iter().filter_map(|(labels, series)| {
                Some(Snapshot {
                    labels,
                    figures: series.at(family.kind, index)?,
                })
            });
            (name, series.collect())
        })
    }
}

impl Keep for History {
    fn keep(&mut self, sent: Nanos, answered: Nanos, answer: Answer) -> bool {
        self.record(sent, answered, answer.0);
        true
    }

    fn is_full(&self) -> bool {
        self.changes >= CHANGES_MAX
    }
}

/// A series at one scrape.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot<'a> {
    /// Its labels.
    pub labels: &'a Labels,
    /// What it says.
    pub figures: Figures<'a>,
}

/// The figures of a series at one scrape.
#[derive(Debug, Clone, PartialEq)]
pub enum Figures<'a> {
    /// One number.
    Value(f64),
    /// A histogram.
    Histogram {
        /// Bounds as written, with the count up to them.
        buckets: Vec<(&'a str, f64)>,
        /// Sum of all observations, where the server says it.
        sum: Option<f64>,
        /// Number of observations.
        count: f64,
    },
}

impl SeriesHistory {
    /// Whether what is counted is less at scrape `index` than it was before.
    fn has_reset(&self, kind: FamilyKind, index: usize, now: &Reading) -> bool {
        let (before, now) = match kind {
            FamilyKind::Counter => (&self.value, now.value),
            FamilyKind::Histogram => (&self.count, now.count),
            FamilyKind::Gauge | FamilyKind::Unknown => return false,
        };
        let before = index.checked_sub(1).and_then(|before_index| before.at(before_index));
        before.zip(now).is_some_and(|(before, now)| now < before)
    }

    /// Notes what the series says at scrape `index`, and gives how many figures differ from before.
    fn note(&mut self, index: usize, reading: Option<Reading>) -> usize {
        let Reading {
            value,
            sum,
            count,
            buckets,
        } = reading.unwrap_or_default();
        let mut changes = usize::from(self.value.note(index, value))
            + usize::from(self.sum.note(index, sum))
            + usize::from(self.count.note(index, count));
        for bucket in &mut self.buckets {
            let now = buckets.iter().find(|(bound, _)| *bound == bucket.bound);
            changes += usize::from(bucket.track.note(index, now.map(|&(_, count)| count)));
        }
        for (bound, count) in buckets {
            if self.buckets.iter().any(|known| known.bound == bound) {
                continue;
            }
            // A bound that is no number bounds nothing.
            let Some(upper) = upper(&bound) else { continue };
            let mut track = Track::default();
            changes += usize::from(track.note(index, Some(count)));
            let at = self.buckets.partition_point(|known| known.upper <= upper);
            self.buckets.insert(at, Bucket { bound, upper, track });
        }
        changes
    }

    pub(super) fn at(&self, kind: FamilyKind, index: usize) -> Option<Figures<'_>> {
        if kind != FamilyKind::Histogram {
            return self
                .value
                .at(index)
                .filter(|value| value.is_finite())
                .map(Figures::Value);
        }
        let buckets: Vec<(&str, f64)> = self
            .buckets
            .iter()
            .filter_map(|bucket| Some((bucket.bound.as_str(), bucket.track.at(index)?)))
            .collect();
        let count = self
            .count
            .at(index)
            .or_else(|| buckets.last().map(|&(_, count)| count))?;
        Some(Figures::Histogram {
            buckets,
            sum: self.sum.at(index).filter(|sum| sum.is_finite()),
            count,
        })
    }
}

fn upper(bound: &str) -> Option<f64> {
    match bound {
        "+Inf" | "Inf" | "inf" => Some(f64::INFINITY),
        number => number.parse().ok().filter(|bound: &f64| bound.is_finite()),
    }
}

#[cfg(test)]
impl History {
    /// What a server said that was asked every second and answered 2 ms later.
    pub(crate) fn each_second<S: AsRef<str>>(answers: &[S]) -> Self {
        let mut history = Self::default();
        for (second, answer) in (0..).zip(answers) {
            let answered = Nanos::from_millis(second * 1_000 + 2);
            history.record(
                Nanos::from_secs(second),
                answered,
                super::exposition::parse(answer.as_ref()),
            );
        }
        history
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_like_the_one_before_is_no_update() {
        let history = History::each_second(&[
            "a 1\nb{x=\"1\"} 2\n",
            "b{x=\"1\"} 2\na 1\n",
            "a 1\n",
            "a 1\nb{x=\"1\"} 2\n",
        ]);
        let updates: Vec<bool> = history.scrapes().iter().map(|scrape| scrape.is_update).collect();
        assert_eq!(updates, [true, false, true, true], "a series that left is news");
        let there = |index| history.at(index).map(|(_, series)| series.len()).collect::<Vec<_>>();
        assert_eq!((there(1), there(2), there(3)), (vec![1, 1], vec![1, 0], vec![1, 1]));
    }

    #[test]
    fn buckets_are_in_the_order_of_their_bounds_however_they_are_written() {
        let history = History::each_second(&[
            "# TYPE h histogram\nh_bucket{le=\"+Inf\"} 3\nh_bucket{le=\"10\"} 2\nh_bucket{le=\"2.5\"} 1\nh_sum 9\nh_count 3\n",
        ]);
        let (_, series) = history.at(0).next().expect("a family");
        let Figures::Histogram { buckets, sum, count } = &series[0].figures else {
            panic!("{series:?}")
        };
        assert_eq!(buckets, &[("2.5", 1.0), ("10", 2.0), ("+Inf", 3.0)]);
        assert_eq!((*sum, *count), (Some(9.0), 3.0));
    }
}
