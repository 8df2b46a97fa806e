//! Files of what the server and its GPUs said about themselves.
//!
//! ```text
//! server_metrics_export.json, .csv   figures over all profiling phases
//! server_metrics_export.jsonl        every scrape
//! phases/NAME/server_metrics.json    figures over one phase
//! ```

mod figures;
mod lines;
mod phase;
mod server;
mod table;

use crate::clock::WallAnchor;
use crate::id::PhaseId;
use crate::plan::{MetricsFormat, PhaseKind, Plan};
use crate::report::PhaseReport;
use crate::telemetry::{Course, History, Lifetime, Span, union};

use super::{ArtifactDirectory, Written, names, pretty};

/// What the scrapers of a run leave behind.
#[derive(Debug, Clone, Copy)]
pub struct TelemetryFacts<'a> {
    /// Endpoints of servers, those that never answered included.
    pub servers: &'a [(History, Course)],
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

/// Writes the files of the whole run.
pub(super) fn write_run(directory: &ArtifactDirectory, plan: &Plan, facts: TelemetryFacts<'_>, written: &mut Written) {
    let page = Page { plan, facts };
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
        });
    }
}

/// Writes the file of one phase and gives its path, if there is anything to write.
pub(super) fn write_phase(
    directory: &ArtifactDirectory,
    plan: &Plan,
    phase: &PhaseReport,
    facts: TelemetryFacts<'_>,
    written: &mut Written,
) -> Option<String> {
    let page = Page { plan, facts };
    let document = phase::document(&page, phase)?;
    let path = format!("{}/{}/{}", names::PHASES, phase.name, names::PHASE_SERVER_METRICS);
    let is_written = written.note(directory.write_atomically(&path, |out| super::adaptive::document(&document, out)));
    is_written.then_some(path)
}

/// An address without its scheme and the usual path: how endpoints are called where a name must be short.
fn short(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.strip_suffix("/metrics").unwrap_or(rest)
}
