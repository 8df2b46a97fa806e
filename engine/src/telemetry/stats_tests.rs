//! Statistics over answers written by hand, one second apart.

use super::super::exposition::parse;
use super::super::span::{Lifetime, Span};
use super::*;

fn history(answers: &[String]) -> History {
    let mut history = History::default();
    for (second, answer) in (0..).zip(answers) {
        history.record(Nanos::from_secs(second), Nanos::from_secs(second), parse(answer));
    }
    history
}

/// A span with every scrape in it: the first one is the reference and the others are inside.
fn whole(history: &History) -> Vec<Span> {
    let phase = Lifetime {
        start: Nanos::from_millis(1),
        end: history.scrapes().last().expect("a scrape").answered,
    };
    Span::choose(history.scrapes(), phase, &[phase]).into_iter().collect()
}

fn counters(values: &[u32]) -> History {
    history(
        &values
            .iter()
            .map(|value| format!("# TYPE c counter\nc {value}\n"))
            .collect::<Vec<_>>(),
    )
}

fn only(history: &History, spans: &[Span], slice: Option<Nanos>) -> (Stats, Vec<Slice>) {
    let mut families = summarize(history, spans, slice);
    assert_eq!(families.len(), 1);
    let series = families[0].series.remove(0);
    (series.stats, series.slices)
}

#[test]
fn a_gauge_is_described_by_the_values_that_were_seen() {
    let answers = [7, 1, 4, 4, 3].map(|value| format!("# TYPE g gauge\ng {value}\n"));
    let history = history(&answers);
    let Stats::Gauge(stats) = only(&history, &whole(&history), None).0 else {
        panic!("a gauge")
    };
    // The first answer is of the time before, the last is sent at the end and not inside.
    assert_eq!((stats.avg, stats.min, stats.max), (3.0, 1.0, 4.0));
    assert!((stats.std - 3f64.sqrt()).abs() < 1e-12);
    assert_eq!((stats.percentiles[0], stats.percentiles[4]), (1.06, 4.0));
}

#[test]
fn a_counter_is_described_by_its_growth() {
    let history = counters(&[10, 15, 15, 40]);
    let Stats::Counter(stats) = only(&history, &whole(&history), None).0 else {
        panic!("a counter")
    };
    assert_eq!((stats.total, stats.resets, stats.slice_rates), (30.0, 0, None));
    assert!(stats.rate.is_some_and(|rate| (rate - 10.0).abs() < 0.01), "{stats:?}");
}

#[test]
fn slices_add_up_and_the_last_one_says_that_it_is_short() {
    let history = counters(&[0, 5, 9, 20, 21]);
    let spans = whole(&history);
    let (Stats::Counter(stats), slices) = only(&history, &spans, Some(Nanos::from_millis(1_500))) else {
        panic!("a counter")
    };
    let totals: Vec<(f64, bool)> = slices
        .iter()
        .map(|slice| match slice.stats {
            SliceStats::Counter(total, _) => (total, slice.is_complete),
            _ => panic!("{slice:?}"),
        })
        .collect();
    assert_eq!(totals, [(5.0, true), (15.0, true), (1.0, false)]);
    assert_eq!(slices.last().expect("slices").end, spans[0].end);
    let rates = stats.slice_rates.expect("whole slices");
    assert_eq!((rates.min, rates.max), (5.0 / 1.5, 10.0));
}

#[test]
fn too_many_slices_are_none() {
    let history = counters(&[0, 5]);
    assert!(only(&history, &whole(&history), Some(Nanos(10_000))).1.is_empty());
}

fn observed(counts: [u32; 3], sum: f64) -> String {
    let [low, middle, all] = counts;
    format!(
        "# HELP h in seconds\n# TYPE h histogram\nh_bucket{{le=\"1\"}} {low}\nh_bucket{{le=\"2\"}} {middle}\nh_bucket{{le=\"+Inf\"}} {all}\n\
         h_sum {sum}\nh_count {all}\n"
    )
}

#[test]
fn a_histogram_is_described_by_the_growth_of_its_buckets() {
    let history = history(&[
        observed([5, 5, 5], 2.5),
        observed([5, 15, 15], 14.5),
        observed([9, 19, 20], 26.0),
    ]);
    let Stats::Histogram(stats) = only(&history, &whole(&history), None).0 else {
        panic!("a histogram")
    };
    assert_eq!(
        (stats.count, stats.sum, stats.avg()),
        (15.0, Some(23.5), Some(23.5 / 15.0))
    );
    let buckets = [("1", 4.0), ("2", 14.0), ("+Inf", 15.0)].map(|(bound, count)| (bound.to_owned(), count));
    assert_eq!(stats.buckets, buckets);
    // The ten of the first second are known to be 1.2 on average, so the median is near that and not in the middle of its bucket.
    let median = stats.percentiles.expect("observations")[4];
    assert!((1.0..1.25).contains(&median), "{median}");
    assert_eq!(summarize(&history, &whole(&history), None)[0].unit, Some("seconds"));
}

#[test]
fn a_histogram_without_observations_has_no_percentiles() {
    let still = observed([5, 5, 5], 2.5);
    let history = history(&[still.clone(), still.clone(), still]);
    let Stats::Histogram(stats) = only(&history, &whole(&history), None).0 else {
        panic!("a histogram")
    };
    assert_eq!((stats.count, stats.avg(), stats.percentiles), (0.0, None, None));
}

#[test]
fn spans_apart_leave_out_what_lies_between() {
    let history = counters(&[0, 10, 100, 130]);
    let phases = [(1, 1_000), (2_001, 3_000)].map(|(start, end)| Lifetime {
        start: Nanos::from_millis(start),
        end: Nanos::from_millis(end),
    });
    let spans: Vec<Span> = phases
        .iter()
        .filter_map(|&phase| Span::choose(history.scrapes(), phase, &phases))
        .collect();
    let Stats::Counter(stats) = only(&history, &spans, None).0 else {
        panic!("a counter")
    };
    assert_eq!(stats.total, 40.0);
}
