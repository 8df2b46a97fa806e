//! Figures of series as JSON.

use serde_json::{Map, Value, json};

use super::Page;
use crate::artifact::json::insert;
use crate::telemetry::{History, Labels, PERCENTILES, SeriesStats, Slice, SliceStats, Span, Stats};

/// A series; `endpoint` is its address, where it does not stand around it.
pub(super) fn series(page: &Page<'_>, endpoint: Option<&str>, series: &SeriesStats<'_>) -> Value {
    let mut object = Map::new();
    if let Some(url) = endpoint {
        object.insert("endpoint_url".into(), json!(url));
    }
    if !series.labels.is_empty() {
        object.insert("labels".into(), labels(series.labels));
    }
    object.insert("stats".into(), stats(&series.stats));
    if let Stats::Histogram(histogram) = &series.stats
        && histogram.count > 0.0
    {
        object.insert("buckets".into(), buckets(&histogram.buckets));
    }
    if !series.slices.is_empty() {
        object.insert(
            "timeslices".into(),
            series.slices.iter().map(|one| slice(page, one)).collect(),
        );
    }
    Value::Object(object)
}

pub(super) fn labels(labels: &Labels) -> Value {
    let pairs = labels.iter().map(|(name, value)| (name.clone(), json!(value)));
    Value::Object(pairs.collect())
}

/// Counts are whole, whatever the format of their server; a server that counts in halves keeps them.
pub(super) fn count(count: f64) -> Value {
    if count.fract() == 0.0 && count.abs() < 9e15 {
        json!(count as i64)
    } else {
        json!(count)
    }
}

fn buckets(buckets: &[(String, f64)]) -> Value {
    let pairs = buckets.iter().map(|(bound, up_to)| (bound.clone(), count(*up_to)));
    Value::Object(pairs.collect())
}

fn stats(stats: &Stats) -> Value {
    let mut object = Map::new();
    match stats {
        Stats::Gauge(gauge) => {
            for (key, value) in [
                ("avg", gauge.avg),
                ("min", gauge.min),
                ("max", gauge.max),
                ("std", gauge.std),
            ] {
                insert(&mut object, key, Some(value));
            }
            for (q, value) in PERCENTILES.iter().zip(gauge.percentiles) {
                insert(&mut object, &format!("p{q}"), Some(value));
            }
        }
        Stats::Counter(counter) => {
            insert(&mut object, "total", Some(counter.total));
            insert(&mut object, "rate", counter.rate);
            if let Some(rates) = counter.slice_rates {
                insert(&mut object, "rate_avg", Some(rates.avg));
                insert(&mut object, "rate_min", Some(rates.min));
                insert(&mut object, "rate_max", Some(rates.max));
                insert(&mut object, "rate_std", Some(rates.std));
            }
        }
        Stats::Histogram(histogram) => {
            object.insert("count".into(), count(histogram.count));
            if histogram.count > 0.0 {
                insert(&mut object, "sum", histogram.sum);
                insert(&mut object, "avg", histogram.avg());
                insert(&mut object, "count_rate", histogram.count_rate);
                insert(&mut object, "sum_rate", histogram.sum_rate);
                for (q, value) in PERCENTILES.iter().zip(histogram.percentiles.iter().flatten()) {
                    insert(&mut object, &format!("p{q}_estimate"), Some(*value));
                }
            }
        }
    }
    Value::Object(object)
}

fn slice(page: &Page<'_>, slice: &Slice) -> Value {
    let mut object = Map::new();
    object.insert("start_ns".into(), json!(page.wall(slice.start)));
    object.insert("end_ns".into(), json!(page.wall(slice.end)));
    match &slice.stats {
        SliceStats::Gauge(avg, min, max) => {
            insert(&mut object, "avg", Some(*avg));
            insert(&mut object, "min", Some(*min));
            insert(&mut object, "max", Some(*max));
        }
        SliceStats::Counter(total, rate) => {
            insert(&mut object, "total", Some(*total));
            insert(&mut object, "rate", Some(*rate));
        }
        SliceStats::Histogram {
            count: observed,
            sum,
            buckets: up_to,
        } => {
            object.insert("count".into(), count(*observed));
            insert(&mut object, "sum", Some(*sum));
            insert(
                &mut object,
                "avg",
                Some(if *observed > 0.0 { sum / observed } else { 0.0 }),
            );
            object.insert("buckets".into(), buckets(up_to));
        }
    }
    if !slice.is_complete {
        object.insert("is_complete".into(), json!(false));
    }
    Value::Object(object)
}

/// How an endpoint was read over some of its scrapes; `span` chooses them, `None` takes all.
pub(super) fn endpoint_info(page: &Page<'_>, history: &History, span: Option<&Span>) -> Value {
    let scrapes = match span {
        Some(span) => &history.scrapes()[span.scrapes()],
        None => history.scrapes(),
    };
    let (Some(first), Some(last)) = (scrapes.first(), scrapes.last()) else {
        return json!({});
    };
    let latency: f64 = scrapes
        .iter()
        .map(|scrape| scrape.answered.since(scrape.sent).as_millis_f64())
        .sum();
    let mut info = Map::new();
    info.insert("total_fetches".into(), json!(scrapes.len()));
    info.insert("first_fetch_ns".into(), json!(page.wall(first.answered)));
    info.insert("last_fetch_ns".into(), json!(page.wall(last.answered)));
    info.insert("avg_fetch_latency_ms".into(), json!(latency / scrapes.len() as f64));
    let updates: Vec<_> = scrapes.iter().filter(|scrape| scrape.is_update).collect();
    info.insert("unique_updates".into(), json!(updates.len()));
    if let (Some(first), Some(last)) = (updates.first(), updates.last()) {
        let duration = last.answered.since(first.answered);
        info.insert("first_update_ns".into(), json!(page.wall(first.answered)));
        info.insert("last_update_ns".into(), json!(page.wall(last.answered)));
        info.insert("duration_seconds".into(), json!(duration.as_secs_f64()));
        let mut intervals: Vec<f64> = updates
            .windows(2)
            .map(|pair| pair[1].answered.since(pair[0].answered).as_millis_f64())
            .collect();
        intervals.sort_by(f64::total_cmp);
        if !intervals.is_empty() {
            let average = intervals.iter().sum::<f64>() / intervals.len() as f64;
            info.insert("avg_update_interval_ms".into(), json!(average));
        }
        // One interval is its own average, and needs no second name.
        if intervals.len() > 1 {
            let (below, above) = (intervals[(intervals.len() - 1) / 2], intervals[intervals.len() / 2]);
            info.insert("median_update_interval_ms".into(), json!((below + above) / 2.0));
        }
    }
    Value::Object(info)
}
