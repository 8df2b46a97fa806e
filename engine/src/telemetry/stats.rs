//! Figures of series over spans of time.

use super::estimate::{Filled, percentile};
use super::exposition::{FamilyKind, Labels};
use super::history::{FamilyHistory, History, SeriesHistory};
use super::span::Span;
use super::unit;
use crate::plan::SLICES_MAX;
use crate::units::Nanos;

/// The percentiles of every figure, as elsewhere in the artifacts.
pub const PERCENTILES: [u8; 9] = [1, 5, 10, 25, 50, 75, 90, 95, 99];

/// What a family came to.
#[derive(Debug, Clone)]
pub struct FamilyStats<'a> {
    /// Its name, that of a counter without `_total`.
    pub name: &'a str,
    /// Its kind.
    pub kind: FamilyKind,
    /// What the server says about it.
    pub help: &'a str,
    /// Its unit, if anything tells it.
    pub unit: Option<&'static str>,
    /// Its series.
    pub series: Vec<SeriesStats<'a>>,
}

/// What a series came to.
#[derive(Debug, Clone)]
pub struct SeriesStats<'a> {
    /// Its labels.
    pub labels: &'a Labels,
    /// Over the whole time.
    pub stats: Stats,
    /// Over slices of the time, where they are asked for.
    pub slices: Vec<Slice>,
}

/// Figures of one series.
#[derive(Debug, Clone, PartialEq)]
pub enum Stats {
    /// Of a gauge, and of a series whose kind the server does not say.
    Gauge(GaugeStats),
    /// Of a counter.
    Counter(CounterStats),
    /// Of a histogram.
    Histogram(HistogramStats),
}

/// Of the values that were seen, one for each scrape.
#[derive(Debug, Clone, PartialEq)]
pub struct GaugeStats {
    /// Mean.
    pub avg: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Sample standard deviation; 0 for one value.
    pub std: f64,
    /// At [`PERCENTILES`], linear between neighbours.
    pub percentiles: [f64; PERCENTILES.len()],
}

/// Growth of a counter.
#[derive(Debug, Clone, PartialEq)]
pub struct CounterStats {
    /// By how much it grew.
    pub total: f64,
    /// The same by second; `None` without time.
    pub rate: Option<f64>,
    /// Rates of the whole slices.
    pub slice_rates: Option<Spread>,
    /// How often it began anew.
    pub resets: u32,
}

/// Over the rates of slices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Mean.
    pub avg: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Sample standard deviation; 0 for one rate.
    pub std: f64,
}

/// Growth of a histogram.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramStats {
    /// Observations.
    pub count: f64,
    /// Their sum, where the server says it.
    pub sum: Option<f64>,
    /// Observations by second; `None` without time.
    pub count_rate: Option<f64>,
    /// Sum by second.
    pub sum_rate: Option<f64>,
    /// Estimates at [`PERCENTILES`]; `None` without buckets or observations.
    pub percentiles: Option<[f64; PERCENTILES.len()]>,
    /// Bounds as written, and observations up to them.
    pub buckets: Vec<(String, f64)>,
}

impl HistogramStats {
    /// Mean; `None` without observations.
    pub fn avg(&self) -> Option<f64> {
        self.sum.filter(|_| self.count > 0.0).map(|sum| sum / self.count)
    }
}

/// A piece of the time.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice {
    /// From here
    pub start: Nanos,
    /// to here.
    pub end: Nanos,
    /// Whether it is as long as slices are.
    pub is_complete: bool,
    /// What the series came to in it.
    pub stats: SliceStats,
}

/// Figures of one slice.
#[derive(Debug, Clone, PartialEq)]
pub enum SliceStats {
    /// Mean, smallest, largest.
    Gauge(f64, f64, f64),
    /// Growth, and the same by second.
    Counter(f64, f64),
    /// Growth of a histogram.
    Histogram {
        /// Observations.
        count: f64,
        /// Their sum.
        sum: f64,
        /// Bounds as written, and observations up to them.
        buckets: Vec<(String, f64)>,
    },
}

/// Every family that was there in `spans`, in the order of names. `slice` also cuts each span into slices of that length.
pub fn summarize<'a>(history: &'a History, spans: &[Span], slice: Option<Nanos>) -> Vec<FamilyStats<'a>> {
    let slices = slice.map_or_else(Vec::new, |length| cut(history, spans, length));
    let over = Over {
        history,
        spans,
        seconds: spans
            .iter()
            .map(Span::seconds)
            .sum::<Option<f64>>()
            .filter(|&seconds| seconds > 0.0),
        slices,
    };
    let family = |(name, family): (&'a str, &'a FamilyHistory)| {
        let series = family.series.iter().filter_map(|(labels, series)| {
            Some(SeriesStats {
                labels,
                stats: over.stats(family.kind, series)?,
                slices: over.slices(family.kind, series),
            })
        });
        let series: Vec<SeriesStats<'a>> = series.collect();
        (!series.is_empty()).then(|| FamilyStats {
            name,
            kind: family.kind,
            help: &family.help,
            unit: unit::of(name, &family.help),
            series,
        })
    };
    history.families().filter_map(family).collect()
}

/// The scrapes of one slice.
struct Piece {
    start: Nanos,
    end: Nanos,
    is_complete: bool,
    /// What was counted at its start and at its end.
    counted: (usize, usize),
    /// Scrapes inside.
    inside: (usize, usize),
}

/// Cuts spans into slices, each span from its own start on. No slices at all if there would be too many to be of use.
fn cut(history: &History, spans: &[Span], length: Nanos) -> Vec<Piece> {
    let scrapes = history.scrapes();
    let mut pieces = Vec::new();
    for span in spans {
        let mut start = span.start;
        while start < span.end {
            if pieces.len() as u64 == SLICES_MAX {
                return Vec::new();
            }
            let wanted = start + length;
            let end = wanted.min(span.end);
            let answered_by = |instant: Nanos| scrapes.partition_point(|scrape| scrape.answered <= instant);
            let at = |instant: Nanos| match instant {
                instant if instant >= span.end => span.end_at,
                instant if instant <= span.start => span.reference,
                instant => answered_by(instant)
                    .saturating_sub(1)
                    .clamp(span.reference, span.end_at),
            };
            let from = scrapes.partition_point(|scrape| scrape.answered < start);
            let to = scrapes.partition_point(|scrape| scrape.answered < end);
            // The short rest of a span may have no scrape but the one that ends it.
            let inside = if from == to && end == span.end {
                (span.end_at, span.end_at + 1)
            } else {
                (from, to)
            };
            pieces.push(Piece {
                start,
                end,
                is_complete: wanted <= span.end,
                counted: (at(start), at(end)),
                inside,
            });
            start = wanted;
        }
    }
    pieces
}

struct Over<'a> {
    history: &'a History,
    spans: &'a [Span],
    seconds: Option<f64>,
    slices: Vec<Piece>,
}

impl Over<'_> {
    fn stats(&self, kind: FamilyKind, series: &SeriesHistory) -> Option<Stats> {
        match kind {
            FamilyKind::Gauge | FamilyKind::Unknown => {
                let seen = self.spans.iter().flat_map(|span| span.first..=span.last);
                gauge(seen.filter_map(|index| finite(series, index)).collect()).map(Stats::Gauge)
            }
            FamilyKind::Counter => self.counter(series).map(Stats::Counter),
            FamilyKind::Histogram => self.histogram(series).map(Stats::Histogram),
        }
    }

    fn counter(&self, series: &SeriesHistory) -> Option<CounterStats> {
        let grown = self
            .spans
            .iter()
            .map(|span| series.value.increase(span.reference, span.end_at));
        let mut grown = grown.flatten().peekable();
        grown.peek()?;
        let (mut total, mut resets) = (0.0, 0);
        for increase in grown {
            total += increase.total;
            resets += increase.resets;
        }
        let rates = self
            .slices
            .iter()
            .filter(|piece| piece.is_complete)
            .filter_map(|piece| {
                let increase = series.value.increase(piece.counted.0, piece.counted.1)?;
                Some(increase.total / piece.end.since(piece.start).as_secs_f64())
            });
        Some(CounterStats {
            total,
            rate: self.seconds.map(|seconds| total / seconds),
            slice_rates: spread(&rates.collect::<Vec<_>>()),
            resets,
        })
    }

    fn histogram(&self, series: &SeriesHistory) -> Option<HistogramStats> {
        let spans: Vec<(usize, usize)> = self.spans.iter().map(|span| (span.reference, span.end_at)).collect();
        let growth = Growth::over(series, &spans)?;
        let means = bucket_means(series, &spans);
        let filled = filled(series, &growth, &means);
        let estimates = PERCENTILES.map(|q| percentile(&filled, f64::from(q)));
        Some(HistogramStats {
            count: growth.count,
            sum: growth.sum,
            count_rate: self.seconds.map(|seconds| growth.count / seconds),
            sum_rate: self.seconds.and_then(|seconds| Some(growth.sum? / seconds)),
            percentiles: estimates[0].is_some().then(|| estimates.map(Option::unwrap_or_default)),
            buckets: growth.buckets,
        })
    }

    fn slices(&self, kind: FamilyKind, series: &SeriesHistory) -> Vec<Slice> {
        let slice = |piece: &Piece| {
            let stats = match kind {
                FamilyKind::Gauge | FamilyKind::Unknown => {
                    let seen = (piece.inside.0..piece.inside.1).filter_map(|index| finite(series, index));
                    let stats = gauge(seen.collect())?;
                    SliceStats::Gauge(stats.avg, stats.min, stats.max)
                }
                FamilyKind::Counter => {
                    let total = series.value.increase(piece.counted.0, piece.counted.1)?.total;
                    SliceStats::Counter(total, total / piece.end.since(piece.start).as_secs_f64())
                }
                FamilyKind::Histogram => {
                    let growth = Growth::over(series, &[piece.counted])?;
                    SliceStats::Histogram {
                        count: growth.count,
                        sum: growth.sum.unwrap_or_default(),
                        buckets: growth.buckets,
                    }
                }
            };
            Some(Slice {
                start: piece.start,
                end: piece.end,
                is_complete: piece.is_complete,
                stats,
            })
        };
        debug_assert!(
            self.slices
                .iter()
                .all(|piece| piece.inside.1 <= self.history.scrapes().len())
        );
        self.slices.iter().filter_map(slice).collect()
    }
}

/// The value at a scrape, unless it is infinite: no statistic can be made of that.
fn finite(series: &SeriesHistory, index: usize) -> Option<f64> {
    series.value.at(index).filter(|value| value.is_finite())
}

/// Statistics of values; `None` without any.
pub(super) fn gauge(mut values: Vec<f64>) -> Option<GaugeStats> {
    values.sort_by(f64::total_cmp);
    let (&min, &max) = (values.first()?, values.last()?);
    let count = values.len() as f64;
    // Rounding must not put the mean of equal values outside of them.
    let avg = (values.iter().sum::<f64>() / count).clamp(min, max);
    let at = |q: u8| {
        let rank = f64::from(q) / 100.0 * (count - 1.0);
        let below = values[rank.floor() as usize];
        let above = values[rank.ceil() as usize];
        below + (above - below) * rank.fract()
    };
    Some(GaugeStats {
        avg,
        min,
        max,
        std: deviation(&values, avg),
        percentiles: PERCENTILES.map(at),
    })
}

fn spread(rates: &[f64]) -> Option<Spread> {
    if rates.is_empty() {
        return None;
    }
    let avg = rates.iter().sum::<f64>() / rates.len() as f64;
    Some(Spread {
        avg,
        min: rates.iter().copied().fold(f64::INFINITY, f64::min),
        max: rates.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        std: deviation(rates, avg),
    })
}

/// With one less than the number of values below the fraction, as for a sample.
fn deviation(values: &[f64], mean: f64) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

/// By how much the parts of a histogram grew.
struct Growth {
    count: f64,
    sum: Option<f64>,
    buckets: Vec<(String, f64)>,
}

impl Growth {
    fn over(series: &SeriesHistory, spans: &[(usize, usize)]) -> Option<Self> {
        let grown = |track: &super::track::Track| {
            let mut parts = spans
                .iter()
                .filter_map(|&(from, to)| track.increase(from, to))
                .peekable();
            parts.peek()?;
            Some(parts.map(|increase| increase.total).sum::<f64>())
        };
        let buckets = series.buckets.iter();
        let buckets: Vec<(String, f64)> = buckets
            .filter_map(|bucket| Some((bucket.bound.clone(), grown(&bucket.track)?)))
            .collect();
        let count = grown(&series.count).or_else(|| buckets.last().map(|&(_, count)| count))?;
        Some(Self {
            count,
            sum: grown(&series.sum).filter(|sum| sum.is_finite()),
            buckets,
        })
    }
}

/// Buckets with their own observations in place of the sums up to them.
fn filled(series: &SeriesHistory, growth: &Growth, means: &[Option<f64>]) -> Vec<Filled> {
    let mut below = 0.0;
    let mut lower = None;
    let buckets = series.buckets.iter().zip(means).filter_map(|(bucket, &mean)| {
        let &(_, up_to) = growth.buckets.iter().find(|(bound, _)| *bound == bucket.bound)?;
        // Sizes and times begin at zero; a first bucket below that has no known beginning.
        let from = lower.unwrap_or(if bucket.upper > 0.0 { 0.0 } else { bucket.upper });
        let filled = Filled {
            lower: from,
            upper: bucket.upper,
            count: (up_to - below).max(0.0),
            mean,
        };
        below = up_to;
        lower = Some(bucket.upper);
        Some(filled)
    });
    buckets.collect()
}

/// What the observations of each bucket were on average, where anything tells: between two scrapes of which all new observations fell into one
/// bucket, the growth of the sum is theirs.
fn bucket_means(series: &SeriesHistory, spans: &[(usize, usize)]) -> Vec<Option<f64>> {
    let mut found = vec![(0.0, 0.0); series.buckets.len()];
    for &(from, to) in spans {
        let mut before = from;
        for (now, _) in series.count.changes_between(from, to) {
            let mut below = 0.0;
            let mut filled = Vec::new();
            for (at, bucket) in series.buckets.iter().enumerate() {
                let up_to = bucket
                    .track
                    .increase(before, now)
                    .map_or(below, |increase| increase.total);
                if up_to > below {
                    filled.push((at, up_to - below));
                }
                below = below.max(up_to);
            }
            if let ([(at, count)], Some(sum)) = (&filled[..], series.sum.increase(before, now)) {
                found[*at].0 += sum.total;
                found[*at].1 += count;
            }
            before = now;
        }
    }
    found
        .into_iter()
        .map(|(sum, count)| (count > 0.0).then_some(sum / count))
        .collect()
}

#[cfg(test)]
#[path = "stats_tests.rs"]
mod tests;
