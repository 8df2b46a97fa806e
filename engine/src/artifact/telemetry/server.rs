//! `server_metrics_export.json`: what the servers' figures came to over all profiling phases, and over all warmup phases.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Page, figures};
use crate::artifact::json::{TOOL_VERSION, local_time};
use crate::plan::PhaseKind;
use crate::telemetry::{Course, FamilyStats, Lifetime, SeriesStats, summarize};

const SCHEMA_VERSION: &str = "1.1";

/// A family with the series of all endpoints.
pub(super) struct Merged<'a> {
    /// As the first endpoint that has it describes it.
    pub(super) family: FamilyStats<'a>,
    /// Address and series.
    pub(super) series: Vec<(&'a str, SeriesStats<'a>)>,
}

/// The families of all endpoints over the phases of a kind, by name.
pub(super) fn merged<'a>(page: &Page<'a>, kind: PhaseKind) -> BTreeMap<&'a str, Merged<'a>> {
    let mut all: BTreeMap<&str, Merged<'a>> = BTreeMap::new();
    for (history, course) in page.answering() {
        let spans = page.spans_of(history, kind);
        for mut family in summarize(history, &spans, page.plan.artifacts.slice) {
            let series = std::mem::take(&mut family.series);
            let merged = all.entry(family.name).or_insert(Merged {
                family,
                series: Vec::new(),
            });
            merged
                .series
                .extend(series.into_iter().map(|series| (course.url.as_str(), series)));
        }
    }
    all
}

pub(super) fn document(page: &Page<'_>) -> Value {
    let profiling = page.lifetimes_of(PhaseKind::Profiling);
    let warmup = page.lifetimes_of(PhaseKind::Warmup);
    let mut document = Map::new();
    document.insert("schema_version".into(), json!(SCHEMA_VERSION));
    document.insert("aiperf_version".into(), json!(TOOL_VERSION));
    document.insert("benchmark_id".into(), json!(page.plan.benchmark_id));
    document.insert("summary".into(), summary(page, &profiling, &warmup));
    document.insert("metrics_phase".into(), json!("profiling"));
    document.insert("metrics".into(), metrics(page, PhaseKind::Profiling));
    if !warmup.is_empty() {
        document.insert("warmup_metrics".into(), metrics(page, PhaseKind::Warmup));
    }
    document.insert("input_config".into(), page.plan.input_config.clone());
    document.insert("ringload".into(), json!({ "endpoints": courses(page) }));
    Value::Object(document)
}

fn metrics(page: &Page<'_>, kind: PhaseKind) -> Value {
    let family = |(name, merged): (&str, Merged<'_>)| {
        let mut object = Map::new();
        object.insert("type".into(), json!(merged.family.kind.as_str()));
        object.insert("description".into(), json!(merged.family.help));
        if let Some(unit) = merged.family.unit {
            object.insert("unit".into(), json!(unit));
        }
        let series = merged.series.iter();
        let series = series.map(|(url, series)| figures::series(page, Some(url), series));
        object.insert("series".into(), series.collect());
        (name.to_owned(), Value::Object(object))
    };
    Value::Object(merged(page, kind).into_iter().map(family).collect())
}

/// From the first start to the last end.
pub(super) fn range(lifetimes: &[Lifetime]) -> Option<(crate::units::Nanos, crate::units::Nanos)> {
    let start = lifetimes.iter().map(|lifetime| lifetime.start).min()?;
    Some((start, lifetimes.iter().map(|lifetime| lifetime.end).max()?))
}

fn summary(page: &Page<'_>, profiling: &[Lifetime], warmup: &[Lifetime]) -> Value {
    let mut summary = Map::new();
    let urls = |answering: bool| -> Value {
        let endpoints = page.facts.servers.iter();
        let endpoints = endpoints.filter(|(history, _)| !answering || !history.scrapes().is_empty());
        endpoints.map(|(_, course)| json!(course.url)).collect()
    };
    summary.insert("endpoints_configured".into(), urls(false));
    summary.insert("endpoints_successful".into(), urls(true));
    let ranges = [("profiling", range(profiling)), ("warmup", range(warmup))];
    if let Some((start, end)) = ranges.iter().find_map(|&(_, range)| range) {
        summary.insert("start_time".into(), json!(local_time(page.wall(start))));
        summary.insert("end_time".into(), json!(local_time(page.wall(end))));
    }
    let info = page.answering();
    let info = info.map(|(history, course)| (course.url.clone(), figures::endpoint_info(page, history, None)));
    summary.insert("endpoint_info".into(), Value::Object(info.collect()));
    let ranges = ranges.iter().filter_map(|&(kind, range)| {
        let (start, end) = range?;
        Some((
            kind.to_owned(),
            json!({ "start_ns": page.wall(start), "end_ns": page.wall(end) }),
        ))
    });
    summary.insert("phase_time_ranges".into(), Value::Object(ranges.collect()));
    Value::Object(summary)
}

/// How it went with each endpoint.
fn courses(page: &Page<'_>) -> Value {
    let endpoints = page.facts.servers.iter();
    endpoints
        .map(|(history, course)| {
            let mut object = course_of(course);
            object.insert("bad_lines".into(), json!(history.bad_lines));
            object.insert("resets".into(), json!(history.resets));
            Value::Object(object)
        })
        .collect()
}

/// How it went with one endpoint.
pub(super) fn course_of(course: &Course) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("url".into(), json!(course.url));
    object.insert("answers".into(), json!(course.answers));
    object.insert("failures".into(), json!(course.failures));
    let texts = [
        ("last_failure", &course.last_failure),
        ("off", &course.off),
        ("first_address", &course.detour),
    ];
    for (key, text) in texts {
        if let Some(text) = text {
            object.insert(key.into(), json!(text));
        }
    }
    for (key, flag) in [
        ("thinned", course.is_thinned),
        ("last_answer_missing", course.is_unanswered),
    ] {
        if flag {
            object.insert(key.into(), json!(true));
        }
    }
    object
}
