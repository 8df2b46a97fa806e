//! `server_metrics_export.jsonl`: every scrape that says something new, in the order of time.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::{Page, figures};
use crate::telemetry::{Course, Figures, History, Scrape, Snapshot};
use crate::units::Nanos;

pub(super) fn write(page: &Page<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut scrapes: Vec<(Nanos, &History, &Course, usize)> = Vec::new();
    for (history, course) in page.answering() {
        let news = history
            .scrapes()
            .iter()
            .enumerate()
            .filter(|(_, scrape)| scrape.is_update);
        scrapes.extend(news.map(|(index, scrape)| (scrape.answered, history, course, index)));
    }
    scrapes.sort_by_key(|&(answered, ..)| answered);
    for (_, history, course, index) in scrapes {
        serde_json::to_writer(&mut *out, &line(page, history, course, index))?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn line(page: &Page<'_>, history: &History, course: &Course, index: usize) -> Value {
    let scrape = history.scrapes()[index];
    let mut metrics = Map::new();
    for (name, series) in history.at(index) {
        // They say what the server is and do not change.
        if name.ends_with("_info") || series.is_empty() {
            continue;
        }
        metrics.insert(name.to_owned(), series.iter().map(snapshot).collect());
    }
    let mut line = Map::new();
    line.insert("endpoint_url".into(), json!(course.url));
    line.insert("timestamp_ns".into(), json!(page.wall(scrape.answered)));
    line.insert(
        "endpoint_latency_ns".into(),
        json!(scrape.answered.since(scrape.sent).0),
    );
    line.insert("metrics".into(), Value::Object(metrics));
    line.insert("request_sent_ns".into(), json!(page.wall(scrape.sent)));
    line.insert("first_byte_ns".into(), json!(page.wall(scrape.answered)));
    phase(page, &scrape, &mut line);
    Value::Object(line)
}

/// The phase that was under way; of several the one that started last, as it is the one that sends.
fn phase(page: &Page<'_>, scrape: &Scrape, line: &mut Map<String, Value>) {
    let running = page
        .facts
        .lifetimes
        .iter()
        .filter(|(_, lifetime)| lifetime.start <= scrape.answered && scrape.answered <= lifetime.end);
    let Some((id, _)) = running.max_by_key(|(_, lifetime)| lifetime.start) else {
        return;
    };
    let phase = &page.plan.phases[id.index()];
    line.insert("benchmark_phase".into(), json!(phase.kind.as_str()));
    line.insert("phase_index".into(), json!(id.0));
    if let Some(index) = phase.profiling_index {
        line.insert("profiling_index".into(), json!(index));
    }
    line.insert("phase_name".into(), json!(phase.name));
    line.insert("phase_kind".into(), json!(phase.kind.as_str()));
}

fn snapshot(snapshot: &Snapshot<'_>) -> Value {
    let mut object = Map::new();
    if !snapshot.labels.is_empty() {
        object.insert("labels".into(), figures::labels(snapshot.labels));
    }
    match &snapshot.figures {
        Figures::Value(value) => {
            object.insert("value".into(), json!(value));
        }
        Figures::Histogram { buckets, sum, count } => {
            let buckets = buckets.iter().map(|(bound, count)| ((*bound).to_owned(), json!(count)));
            object.insert("buckets".into(), Value::Object(buckets.collect()));
            if let Some(sum) = sum {
                object.insert("sum".into(), json!(sum));
            }
            object.insert("count".into(), json!(count));
        }
    }
    Value::Object(object)
}
