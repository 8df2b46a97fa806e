//! What GPUs said: `telemetry_data` of the run's summary, its table, `gpu_telemetry_export.jsonl` and `phases/NAME/gpu_telemetry.json`.

use std::io::{self, Write};

use csv::Terminator;
use serde_json::{Map, Value, json};

use super::{Page, phase, server, short};
use crate::artifact::csv::writer;
use crate::artifact::json::{insert, local_time};
use crate::plan::PhaseKind;
use crate::report::{PhaseReport, ScopeReport};
use crate::telemetry::{
    Course, Efficiency, GpuFigure, GpuHistory, GpuIdentity, GpuStats, Lifetime, LoadFigures, PERCENTILES, Span,
    efficiency, gpu_fields, summarize_gpus,
};

/// What stands for the maker of every GPU that DCGM knows.
const PLATFORM: &str = "nvidia";

impl<'a> Page<'a> {
    fn gpu_span(&self, history: &GpuHistory, lifetime: Lifetime) -> Option<Span> {
        let all: Vec<Lifetime> = self.facts.lifetimes.iter().map(|&(_, lifetime)| lifetime).collect();
        Span::choose(history.scrapes(), lifetime, &all)
    }

    /// Exporters that answered, with the scrapes of profiling phases.
    fn gpus(&self) -> Vec<(&'a Course, Vec<GpuStats<'a>>)> {
        let lifetimes = self.lifetimes_of(PhaseKind::Profiling);
        self.exporters()
            .map(|(history, course)| {
                let spans = lifetimes
                    .iter()
                    .filter_map(|&lifetime| self.gpu_span(history, lifetime));
                (
                    course,
                    summarize_gpus(history, &crate::telemetry::union(spans.collect())),
                )
            })
            .collect()
    }

    fn exporters(&self) -> impl Iterator<Item = (&'a GpuHistory, &'a Course)> + use<'a> {
        let exporters = self.facts.gpus.into_iter().flatten();
        exporters
            .filter(|(history, _)| !history.scrapes().is_empty())
            .map(|(history, course)| (history, course))
    }
}

/// `telemetry_data` of the run; `None` if nobody asked for GPUs.
pub(super) fn of_run(page: &Page<'_>) -> Option<Value> {
    page.facts.gpus?;
    let lifetimes = page.lifetimes_of(PhaseKind::Profiling);
    Some(data(page, &page.gpus(), server::range(&lifetimes)))
}

/// What the load cost in energy.
pub(super) fn costs(page: &Page<'_>, scope: &ScopeReport) -> Vec<Efficiency> {
    let gpus: Vec<GpuStats<'_>> = page.gpus().into_iter().flat_map(|(_, gpus)| gpus).collect();
    let lifetimes = page.lifetimes_of(PhaseKind::Profiling);
    let spans = page.exporters().next().map(|(history, _)| {
        let spans = lifetimes
            .iter()
            .filter_map(|&lifetime| page.gpu_span(history, lifetime));
        crate::telemetry::union(spans.collect())
    });
    let first = page.plan.phases.iter().find(|phase| phase.kind == PhaseKind::Profiling);
    let load = LoadFigures {
        seconds: spans.and_then(|spans| spans.iter().map(Span::seconds).sum()),
        input_tokens: scope.scalar("total_isl"),
        output_tokens: scope.scalar("total_osl"),
        requests: scope.scalar("request_count"),
        latency_s: scope
            .distribution("request_latency")
            .and_then(|latency| latency.avg)
            .map(|ms| ms / 1e3),
        request_rate: scope.scalar("request_throughput"),
        output_rate: scope.scalar("output_token_throughput"),
        goodput: scope.scalar("goodput"),
        concurrency: first
            .and_then(|phase| phase.concurrency)
            .map(|limit| f64::from(limit.get())),
    };
    efficiency(&gpus, &load)
}

/// The file of one phase; `None` if no exporter answered in it.
pub(super) fn of_phase(page: &Page<'_>, phase: &PhaseReport) -> Option<Value> {
    let lifetime = page.lifetime(phase.id)?;
    let gpus: Vec<(&Course, Vec<GpuStats<'_>>)> = page
        .exporters()
        .filter_map(|(history, course)| {
            let span = page.gpu_span(history, lifetime)?;
            Some((course, summarize_gpus(history, &[span])))
        })
        .collect();
    if gpus.is_empty() {
        return None;
    }
    let range = Some((lifetime.start, lifetime.end));
    Some(phase::enveloped(page, phase, data(page, &gpus, range)))
}

fn data(
    page: &Page<'_>,
    exporters: &[(&Course, Vec<GpuStats<'_>>)],
    range: Option<(crate::units::Nanos, crate::units::Nanos)>,
) -> Value {
    // As with the peer, an exporter counts as configured once it has answered: those of the defaults need not exist.
    let urls: Vec<&str> = exporters.iter().map(|(course, _)| course.url.as_str()).collect();
    let mut summary = Map::new();
    summary.insert("endpoints_configured".into(), json!(urls));
    summary.insert("endpoints_successful".into(), json!(urls));
    if let Some((start, end)) = range {
        summary.insert("start_time".into(), json!(local_time(page.wall(start))));
        summary.insert("end_time".into(), json!(local_time(page.wall(end))));
    }
    let endpoints = exporters.iter().map(|(course, gpus)| {
        let gpus = gpus.iter().enumerate();
        let gpus = gpus.map(|(at, gpu)| (format!("gpu_{at}"), of_gpu(gpu)));
        (
            short(&course.url).to_owned(),
            json!({ "gpus": Value::Object(gpus.collect()) }),
        )
    });
    json!({
        "summary": summary,
        "endpoints": Value::Object(endpoints.collect()),
        "error_summary": [],
    })
}

fn of_gpu(gpu: &GpuStats<'_>) -> Value {
    let identity = gpu.identity;
    let mut object = Map::new();
    object.insert("gpu_index".into(), json!(identity.index));
    object.insert("gpu_name".into(), json!(identity.model));
    object.insert("gpu_uuid".into(), json!(identity.uuid));
    object.insert("platform".into(), json!(PLATFORM));
    for (key, text) in places(identity) {
        if let Some(text) = text {
            object.insert(key.into(), json!(text));
        }
    }
    let metrics = gpu
        .figures
        .iter()
        .map(|(field, figure)| (field.key.to_owned(), metric(field.unit, figure)));
    object.insert("metrics".into(), Value::Object(metrics.collect()));
    Value::Object(object)
}

fn places(identity: &GpuIdentity) -> [(&'static str, Option<&str>); 3] {
    [
        ("hostname", identity.hostname.as_deref()),
        ("namespace", identity.namespace.as_deref()),
        ("pod_name", identity.pod_name.as_deref()),
    ]
}

fn metric(unit: &str, figure: &GpuFigure) -> Value {
    let mut object = Map::new();
    object.insert("unit".into(), json!(unit));
    match figure {
        GpuFigure::Growth(grown) => insert(&mut object, "avg", Some(*grown)),
        GpuFigure::Distribution { stats, count, sum } => {
            insert(&mut object, "avg", Some(stats.avg));
            for (q, value) in PERCENTILES.iter().zip(stats.percentiles) {
                insert(&mut object, &format!("p{q}"), Some(value));
            }
            insert(&mut object, "min", Some(stats.min));
            insert(&mut object, "max", Some(stats.max));
            insert(&mut object, "std", Some(stats.std));
            object.insert("count".into(), json!(count));
            insert(&mut object, "sum", Some(*sum));
        }
    }
    Value::Object(object)
}

/// The table behind the run's other figures: its head is there also without GPUs.
pub(super) fn write_table(page: &Page<'_>, out: &mut dyn Write) -> io::Result<()> {
    if page.facts.gpus.is_none() {
        return Ok(());
    }
    out.write_all(b"\r\n\r\n")?;
    let exporters = page.gpus();
    let gpus = || {
        exporters
            .iter()
            .flat_map(|(course, gpus)| gpus.iter().map(move |gpu| (*course, gpu)))
    };
    let shown: Vec<usize> = (0..3)
        .filter(|&at| gpus().any(|(_, gpu)| places(gpu.identity)[at].1.is_some()))
        .collect();
    let mut header: Vec<String> = ["Endpoint", "GPU_Index", "GPU_Name", "GPU_UUID", "Platform", "Metric"]
        .map(String::from)
        .to_vec();
    header.extend(["avg", "min", "max", "sum"].map(String::from));
    header.extend(PERCENTILES.map(|q| format!("p{q}")));
    header.push("std".to_owned());
    header.extend(
        shown
            .iter()
            .map(|&at| ["Hostname", "Namespace", "Pod Name"][at].to_owned()),
    );
    let mut rows = writer(out, Terminator::CRLF);
    rows.write_record(&header)?;
    for (course, gpu) in gpus() {
        let identity = gpu.identity;
        for (field, figure) in &gpu.figures {
            let mut row = vec![
                short(&course.url).to_owned(),
                identity.index.to_string(),
                identity.model.clone(),
                identity.uuid.clone(),
                PLATFORM.to_owned(),
                format!("{} ({})", field.title, field.unit),
            ];
            row.extend(cells(figure));
            row.extend(
                shown
                    .iter()
                    .map(|&at| places(identity)[at].1.unwrap_or_default().to_owned()),
            );
            rows.write_record(&row)?;
        }
    }
    rows.flush()
}

/// Average, smallest, largest, sum, percentiles, deviation.
fn cells(figure: &GpuFigure) -> Vec<String> {
    let values: Vec<f64> = match figure {
        GpuFigure::Growth(grown) => vec![*grown],
        GpuFigure::Distribution { stats, sum, .. } => [stats.avg, stats.min, stats.max, *sum]
            .into_iter()
            .chain(stats.percentiles)
            .chain([stats.std])
            .collect(),
    };
    let mut cells: Vec<String> = values.iter().map(|value| format!("{value:.2}")).collect();
    cells.resize(PERCENTILES.len() + 5, String::new());
    cells
}

/// Whether there is anything for [`write_lines`].
pub(super) fn has_lines(page: &Page<'_>) -> bool {
    page.exporters().next().is_some()
}

/// Every GPU at every scrape.
pub(super) fn write_lines(page: &Page<'_>, out: &mut dyn Write) -> io::Result<()> {
    for (history, course) in page.exporters() {
        for (index, scrape) in history.scrapes().iter().enumerate() {
            for (gpu, identity) in history.gpus().iter().enumerate() {
                let fields = gpu_fields().into_iter().enumerate();
                let figures = fields
                    .filter_map(|(at, field)| Some((field.key.to_owned(), json!(history.figure(index, gpu, at)?))));
                let figures: Map<String, Value> = figures.collect();
                if figures.is_empty() {
                    continue;
                }
                let line = line(page, course, identity, scrape.answered, figures);
                serde_json::to_writer(&mut *out, &line)?;
                out.write_all(b"\n")?;
            }
        }
    }
    Ok(())
}

fn line(
    page: &Page<'_>,
    course: &Course,
    identity: &GpuIdentity,
    answered: crate::units::Nanos,
    figures: Map<String, Value>,
) -> Value {
    let mut line = Map::new();
    line.insert("gpu_index".into(), json!(identity.index));
    line.insert("gpu_uuid".into(), json!(identity.uuid));
    line.insert("gpu_model_name".into(), json!(identity.model));
    for (key, text) in [("pci_bus_id", &identity.pci_bus_id), ("device", &identity.device)] {
        if let Some(text) = text {
            line.insert(key.into(), json!(text));
        }
    }
    for (key, text) in places(identity) {
        if let Some(text) = text {
            line.insert(key.into(), json!(text));
        }
    }
    line.insert("platform".into(), json!(PLATFORM));
    line.insert("timestamp_ns".into(), json!(page.wall(answered)));
    line.insert("telemetry_source_url".into(), json!(course.url));
    line.insert("telemetry_data".into(), Value::Object(figures));
    Value::Object(line)
}
