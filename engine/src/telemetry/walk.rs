//! A history scrape by scrape: values as they were, and what is counted as its growth since the spans began.

use super::exposition::{FamilyKind, Labels};
use super::history::{Figures, History, SeriesHistory};
use super::span::Span;
use super::track::Track;
use super::unit;
use crate::units::Nanos;

/// What a series is called.
#[derive(Debug, Clone, Copy)]
pub struct SeriesName<'a> {
    /// Name of its family, that of a counter without `_total`.
    pub family: &'a str,
    /// Its kind.
    pub kind: FamilyKind,
    /// What the server says about it.
    pub help: &'a str,
    /// Its unit, if anything tells it.
    pub unit: Option<&'static str>,
    /// Its labels.
    pub labels: &'a Labels,
}

/// Goes through the scrapes of spans in order. What is counted between spans is left out, as in the figures of a run, so a counter ends at its total.
///
/// Each step looks only at what changed since the step before: the growth of a long run would else be summed anew at every scrape.
#[derive(Debug)]
pub struct Walk<'a> {
    series: Vec<Walked<'a>>,
    stops: Vec<Stop>,
    passed: usize,
}

/// A scrape to stop at.
#[derive(Debug, Clone, Copy)]
struct Stop {
    /// The scrape that growth is counted from: the stop before, or the reference of a span.
    from: usize,
    index: usize,
    answered: Nanos,
}

#[derive(Debug)]
struct Walked<'a> {
    name: SeriesName<'a>,
    history: &'a SeriesHistory,
    grown: Grown,
}

/// Growth so far.
#[derive(Debug)]
struct Grown {
    value: f64,
    sum: f64,
    count: f64,
    /// In the order of the history's.
    buckets: Vec<f64>,
}

impl<'a> Walk<'a> {
    /// A walk through `spans`, which are in order and do not overlap. It stops where a span begins and at each scrape with news.
    pub fn new(history: &'a History, spans: &[Span], is_wanted: impl Fn(&str) -> bool) -> Self {
        let families = history.families().filter(|(name, _)| is_wanted(name));
        let series = families.flat_map(|(family, kept)| {
            let unit = unit::of(family, &kept.help);
            kept.series.iter().map(move |(labels, series)| Walked {
                name: SeriesName {
                    family,
                    kind: kept.kind,
                    help: &kept.help,
                    unit,
                    labels,
                },
                history: series,
                grown: Grown {
                    value: 0.0,
                    sum: 0.0,
                    count: 0.0,
                    buckets: vec![0.0; series.buckets.len()],
                },
            })
        });
        Self {
            series: series.collect(),
            stops: stops(history, spans),
            passed: 0,
        }
    }

    /// Every series of the walk, also those that no stop shows.
    pub fn names(&self) -> impl Iterator<Item = SeriesName<'a>> {
        self.series.iter().map(|series| series.name)
    }

    /// When the next stop was answered; `None` at the end.
    pub fn next_at(&self) -> Option<Nanos> {
        self.stops.get(self.passed).map(|stop| stop.answered)
    }

    /// Goes to the next stop and gives the series that are there.
    pub fn step(&mut self) -> impl Iterator<Item = (SeriesName<'a>, Figures<'a>)> {
        let stop = self.stops.get(self.passed).copied();
        self.passed += 1;
        self.series.iter_mut().filter_map(move |series| {
            let stop = stop?;
            series.grown.add(series.history, stop);
            Some((series.name, series.at(stop.index)?))
        })
    }
}

fn stops(history: &History, spans: &[Span]) -> Vec<Stop> {
    let scrapes = history.scrapes();
    let mut stops = Vec::new();
    // Neighbours share a scrape.
    let mut unseen = 0;
    for span in spans {
        let mut from = span.reference;
        let begin = span.first.max(unseen);
        for (index, scrape) in scrapes.iter().enumerate().take(span.end_at + 1).skip(begin) {
            // The first one has no stop before it that it could be like.
            if index == begin || scrape.is_update {
                let answered = scrape.answered;
                stops.push(Stop { from, index, answered });
                from = index;
            }
        }
        unseen = unseen.max(span.end_at + 1);
    }
    stops
}

impl Grown {
    fn add(&mut self, series: &SeriesHistory, stop: Stop) {
        let growth = |track: &Track| track.increase(stop.from, stop.index).map_or(0.0, |one| one.total);
        self.value += growth(&series.value);
        self.sum += growth(&series.sum);
        self.count += growth(&series.count);
        for (grown, bucket) in self.buckets.iter_mut().zip(&series.buckets) {
            *grown += growth(&bucket.track);
        }
    }
}

impl<'a> Walked<'a> {
    fn at(&self, index: usize) -> Option<Figures<'a>> {
        let (history, grown) = (self.history, &self.grown);
        match history.at(self.name.kind, index)? {
            Figures::Value(_) if self.name.kind == FamilyKind::Counter => Some(Figures::Value(grown.value)),
            Figures::Value(value) => Some(Figures::Value(value)),
            Figures::Histogram { sum, .. } => {
                let buckets = history.buckets.iter().zip(&grown.buckets);
                let there = buckets.filter(|(bucket, _)| bucket.track.at(index).is_some());
                let buckets: Vec<(&str, f64)> = there.map(|(bucket, &grown)| (bucket.bound.as_str(), grown)).collect();
                let count = match history.count.at(index) {
                    Some(_) => grown.count,
                    None => buckets.last()?.1,
                };
                Some(Figures::Histogram {
                    buckets,
                    sum: sum.map(|_| grown.sum),
                    count,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::span::{Lifetime, union};
    use super::*;

    /// The spans of phases that follow each other.
    fn spans(history: &History, phases_ms: &[(u64, u64)]) -> Vec<Span> {
        let lifetime = |&(start, end): &(u64, u64)| Lifetime {
            start: Nanos::from_millis(start),
            end: Nanos::from_millis(end),
        };
        let all: Vec<Lifetime> = phases_ms.iter().map(lifetime).collect();
        let chosen = all.iter().filter_map(|&one| Span::choose(history.scrapes(), one, &all));
        union(chosen.collect())
    }

    /// Second and value of each stop.
    fn walked(history: &History, spans: &[Span]) -> Vec<(u64, f64)> {
        let mut walk = Walk::new(history, spans, |_| true);
        let mut all = Vec::new();
        while let Some(at) = walk.next_at() {
            for (_, figures) in walk.step() {
                match figures {
                    Figures::Value(value) => all.push((at.0 / 1_000_000_000, value)),
                    Figures::Histogram { .. } => panic!("{figures:?}"),
                }
            }
        }
        all
    }

    #[test]
    fn a_counter_begins_at_its_reference_and_leaves_out_what_lies_between_spans() {
        let history = History::each_second(
            &[5, 7, 7, 10, 50, 90, 91, 2].map(|value| format!("# TYPE c counter\nc_total {value}\n")),
        );
        let both = spans(&history, &[(100, 2_900), (4_500, 6_500)]);
        // Second 2 brings nothing new. The server starts anew in second 7.
        assert_eq!(
            walked(&history, &both),
            [(1, 2.0), (3, 5.0), (5, 45.0), (6, 46.0), (7, 48.0)]
        );
        // Without a scrape before it, the first one inside is the reference and a stop.
        let first_inside = Span {
            reference: 1,
            ..both[0]
        };
        assert_eq!(walked(&history, &[first_inside]), [(1, 0.0), (3, 3.0)]);
    }

    #[test]
    fn neighbours_stop_once_at_the_scrape_that_they_share() {
        let history =
            History::each_second(&[0, 1, 3, 6, 10].map(|value| format!("# TYPE c counter\nc_total {value}\n")));
        let spans = spans(&history, &[(100, 1_900), (1_950, 3_900)]);
        assert_eq!(walked(&history, &spans), [(1, 1.0), (2, 3.0), (3, 6.0), (4, 10.0)]);
    }

    #[test]
    fn a_gauge_is_as_it_was() {
        let history = History::each_second(&[4, 4, 3].map(|value| format!("# TYPE g gauge\ng {value}\n")));
        let spans = spans(&history, &[(100, 1_900)]);
        assert_eq!(walked(&history, &spans), [(1, 4.0), (2, 3.0)]);
    }

    #[test]
    fn a_histogram_grows_in_all_its_parts() {
        let answer = |low: u32, all: u32, sum: u32| {
            format!(
                "# TYPE h histogram\nh_bucket{{le=\"1\"}} {low}\nh_bucket{{le=\"+Inf\"}} {all}\nh_sum {sum}\nh_count {all}\n"
            )
        };
        let history = History::each_second(&[answer(3, 4, 20), answer(3, 6, 50)]);
        let mut walk = Walk::new(&history, &spans(&history, &[(100, 900)]), |_| true);
        let figures: Vec<Figures<'_>> = walk.step().map(|(_, figures)| figures).collect();
        let expected = Figures::Histogram {
            buckets: vec![("1", 0.0), ("+Inf", 2.0)],
            sum: Some(30.0),
            count: 2.0,
        };
        assert_eq!(figures, [expected]);
        assert_eq!((walk.next_at(), walk.step().count()), (None, 0));
    }
}
