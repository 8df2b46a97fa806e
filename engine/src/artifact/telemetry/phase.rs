//! `phases/NAME/server_metrics.json`: what the servers' figures came to in one phase.

use serde_json::{Map, Value, json};

use super::{Page, figures, short};
use crate::report::PhaseReport;
use crate::telemetry::summarize;

const SCHEMA_VERSION: u32 = 1;

/// `None` if no endpoint answered in this phase.
pub(super) fn document(page: &Page<'_>, phase: &PhaseReport) -> Option<Value> {
    let lifetime = page.lifetime(phase.id)?;
    let mut summaries = Map::new();
    let (mut successful, mut bounds) = (Vec::new(), Vec::new());
    for (history, course) in page.answering() {
        let Some(span) = page.span(history, lifetime) else {
            continue;
        };
        let families = summarize(history, &[span], page.plan.artifacts.slice);
        let metrics = families.iter().map(|family| {
            let series = family.series.iter().map(|series| figures::series(page, None, series));
            let value = json!({
                "type": family.kind.as_str(),
                "description": family.help,
                "series": series.collect::<Vec<_>>(),
            });
            (family.name.to_owned(), value)
        });
        let summary = json!({
            "endpoint_url": course.url,
            "info": figures::endpoint_info(page, history, Some(&span)),
            "metrics": Value::Object(metrics.collect()),
        });
        summaries.insert(short(&course.url).to_owned(), summary);
        successful.push(json!(course.url));
        let (from, to) = span.scrapes().into_inner();
        bounds.push((history.scrapes()[from].answered, history.scrapes()[to].answered));
    }
    let start = bounds.iter().map(|&(start, _)| start).min()?;
    let end = bounds.iter().map(|&(_, end)| end).max()?;
    let configured = page.facts.servers.iter().map(|(_, course)| json!(course.url));
    let mut data = json!({
        "benchmark_id": page.plan.benchmark_id,
        "phase": phase.kind.as_str(),
        "phase_index": phase.id.0,
        "phase_name": phase.name,
        "phase_kind": phase.kind.as_str(),
        "start_ns": page.wall(start),
        "end_ns": page.wall(end),
        "endpoints_configured": configured.collect::<Vec<_>>(),
        "endpoints_successful": successful,
        "error_summary": [],
        "phase_results": [],
        "endpoint_summaries": Value::Object(summaries),
    });
    if let Some(index) = phase.profiling_index {
        data["profiling_index"] = json!(index);
    }
    Some(enveloped(page, phase, data))
}

/// The data of a phase with what says whose they are.
pub(super) fn enveloped(page: &Page<'_>, phase: &PhaseReport, data: Value) -> Value {
    let lifetime = page.lifetime(phase.id);
    json!({
        "data": data,
        "phase": {
            "phase_index": phase.id.0,
            "profiling_index": phase.profiling_index,
            "phase_name": phase.name,
            "phase_kind": phase.kind.as_str(),
            "start_ns": lifetime.map(|lifetime| page.wall(lifetime.start)),
            "end_ns": lifetime.map(|lifetime| page.wall(lifetime.end)),
            "was_cancelled": phase.scope.was_cancelled,
        },
        "schema_version": SCHEMA_VERSION,
        "warnings": [],
    })
}
