//! Files of what the server and its GPUs said about themselves.
//!
//! ```text
//! server_metrics_export.json, .csv   figures over all profiling phases
//! server_metrics_export.jsonl        every scrape
//! server_metrics_export.parquet      every scrape of profiling phases, a row for each figure
//! gpu_telemetry_export.jsonl         every GPU at every scrape; its figures stand in the run's summary
//! phases/NAME/server_metrics.json    figures over one phase, and the same of GPUs in gpu_telemetry.json
//! ```

mod figures;
mod gpu;
mod lines;
mod parquet;
mod phase;
mod server;
mod table;

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use crate::clock::WallAnchor;
use crate::id::PhaseId;
use crate::plan::{MetricsFormat, PhaseKind, Plan};
use crate::report::{PhaseReport, ScopeReport};
use crate::telemetry::{Course, Efficiency, GpuHistory, History, Lifetime, Span, union};

use super::{ArtifactDirectory, Written, names, pretty};

/// What the scrapers of a run leave behind.
#[derive(Debug, Clone, Copy)]
pub struct TelemetryFacts<'a> {
    /// Endpoints of servers, those that never answered included.
    pub servers: &'a [(History, Course)],
    /// Exporters of GPU figures, those that never answered included; `None`: nobody asked for these.
    pub gpus: Option<&'a [(GpuHistory, Course)]>,
    /// When each phase ran; those that did not start are not there.
    pub lifetimes: &'a [(PhaseId, Lifetime)],
    /// Turns instants into wall-clock time.
    pub anchor: WallAnchor,
}

/// What writers of one file need.
#[derive(Clone, Copy)]
struct Page<'a> {
    plan: &'a Plan,
    facts: TelemetryFacts<'a>,
}

impl<'a> Page<'a> {
    /// Endpoints that answered.
    fn answering(&self) -> impl Iterator<Item = &'a (History, Course)> + use<'a> {
        self.facts
            .servers
            .iter()
            .filter(|(history, _)| !history.scrapes().is_empty())
    }

    fn wall(&self, instant: crate::units::Nanos) -> u64 {
        self.facts.anchor.to_wall_ns(instant)
    }

    fn lifetime(&self, phase: PhaseId) -> Option<Lifetime> {
        let found = self.facts.lifetimes.iter().find(|(id, _)| *id == phase);
        found.map(|&(_, lifetime)| lifetime)
    }

    /// When the phases of a kind ran, in order.
    fn lifetimes_of(&self, kind: PhaseKind) -> Vec<Lifetime> {
        let phases = self.plan.phases.iter().filter(|phase| phase.kind == kind);
        phases.filter_map(|phase| self.lifetime(phase.id)).collect()
    }

    fn span(&self, history: &History, lifetime: Lifetime) -> Option<Span> {
        let all: Vec<Lifetime> = self.facts.lifetimes.iter().map(|&(_, lifetime)| lifetime).collect();
        Span::choose(history.scrapes(), lifetime, &all)
    }

    /// The time of the phases of a kind, what lies between them left out.
    fn spans_of(&self, history: &History, kind: PhaseKind) -> Vec<Span> {
        let lifetimes = self.lifetimes_of(kind).into_iter();
        union(lifetimes.filter_map(|lifetime| self.span(history, lifetime)).collect())
    }
}

/// Adds what is known of GPUs to the summary of the run.
pub(super) fn add_to_summary(
    document: &mut Map<String, Value>,
    plan: &Plan,
    scope: &ScopeReport,
    facts: TelemetryFacts<'_>,
) {
    let page = Page { plan, facts };
    if let Some(data) = gpu::of_run(&page) {
        // It stands before the config.
        let at = document
            .keys()
            .position(|key| key == "input_config")
            .unwrap_or(document.len());
        document.shift_insert(at, "telemetry_data".into(), data);
    }
    let costs = gpu::costs(&page, scope).into_iter();
    document.extend(costs.map(|cost| (cost.tag.to_owned(), json!({ "unit": cost.unit, "avg": cost.value }))));
}

/// What the load cost in energy, as far as GPUs tell it.
pub(super) fn costs(plan: &Plan, scope: &ScopeReport, facts: TelemetryFacts<'_>) -> Vec<Efficiency> {
    gpu::costs(&Page { plan, facts }, scope)
}

/// Writes the table of GPUs behind the run's other tables.
pub(super) fn write_gpu_table(plan: &Plan, facts: TelemetryFacts<'_>, out: &mut dyn Write) -> io::Result<()> {
    gpu::write_table(&Page { plan, facts }, out)
}

/// Writes the files of the whole run.
pub(super) fn write_run(directory: &ArtifactDirectory, plan: &Plan, facts: TelemetryFacts<'_>, written: &mut Written) {
    let page = Page { plan, facts };
    if gpu::has_lines(&page) {
        let name = directory.names().gpu_telemetry();
        written.note(directory.write_atomically(&name, |out| gpu::write_lines(&page, out)));
    }
    // Nobody answered: a file without figures would look like a server without load.
    if page.answering().next().is_none() {
        return;
    }
    for format in &plan.telemetry.formats {
        let name = directory.names().server_metrics(format.as_str());
        written.note(match format {
            MetricsFormat::Json => {
                let document = server::document(&page);
                directory.write_atomically(&name, |out| pretty(&document, out))
            }
            MetricsFormat::Csv => directory.write_atomically(&name, |out| table::write(&page, out)),
            MetricsFormat::Jsonl => directory.write_atomically(&name, |out| lines::write(&page, out)),
            MetricsFormat::Parquet => directory.write_atomically(&name, |out| parquet::write(&page, out)),
        });
    }
}

/// The files of one phase.
pub(super) struct PhaseFiles {
    /// Path of the servers' figures.
    pub(super) server_metrics: Option<String>,
    /// Path of the GPUs' figures.
    pub(super) gpu_telemetry: Option<String>,
}

/// Writes the files of one phase, as far as there is anything to write.
pub(super) fn write_phase(
    directory: &ArtifactDirectory,
    plan: &Plan,
    phase: &PhaseReport,
    facts: TelemetryFacts<'_>,
    written: &mut Written,
) -> PhaseFiles {
    let page = Page { plan, facts };
    let mut write = |document: Option<Value>, name: &str| {
        let document = document?;
        let path = format!("{}/{}/{name}", names::PHASES, phase.name);
        let outcome = directory.write_atomically(&path, |out| super::adaptive::document(&document, out));
        written.note(outcome).then_some(path)
    };
    PhaseFiles {
        server_metrics: write(phase::document(&page, phase), names::PHASE_SERVER_METRICS),
        gpu_telemetry: write(gpu::of_phase(&page, phase), names::PHASE_GPU_TELEMETRY),
    }
}

/// An address without its scheme and the usual path: how endpoints are called where a name must be short.
fn short(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.strip_suffix("/metrics").unwrap_or(rest)
}
