//! After the load: merge the cores, read the journal once, report, write.

use super::servers::Servers;
use super::telemetry::lifetimes;
use super::threads::Ended;
use super::{Host, RunOutcome, export, facts, raw};
use crate::artifact::{self, AdaptiveFacts, ArtifactDirectory, TelemetryFacts};
use crate::clock::WallAnchor;
use crate::coordinator::{AdaptiveReport, CoordinatorReport, PhaseSummary, StopReason, UnsentArrivals};
use crate::id::PhaseId;
use crate::journal::{Closed, Reader};
use crate::plan::{PhasePlan, Plan};
use crate::reactor::CoreReport;
use crate::record::CoreWindow;
use crate::report::{ClientNotes, Collector, Level, RunEnd, ScopeReport, Slices};
use crate::units::{Nanos, counted};

/// Turns what the threads left into artifacts. Whatever fails on the way is told and does not stop the rest: nothing measured is dropped.
pub(super) fn write(
    plan: &Plan,
    directory: &ArtifactDirectory,
    anchor: WallAnchor,
    host: &Host,
    ended: Ended,
    journal: Closed,
    signal: Option<i32>,
) -> RunOutcome {
    let mut problems = Vec::new();
    let mut warnings = ended.coordinator.outcome.warnings.clone();
    warnings.extend(unsent(plan, &ended.coordinator.arrivals));
    warnings.extend(ended.observed.warnings());
    let mut cores = Vec::new();
    for core in ended.cores {
        match core {
            Ok(mut report) => {
                // Servers like to say what they did not accept. Records hold places in this table, so this is where all texts of servers are.
                for detail in &mut report.errors {
                    detail.message = plan.secrets.redact(&detail.message).into_owned();
                    detail.type_name = plan.secrets.redact(&detail.type_name).into_owned();
                }
                cores.push(report);
            }
            Err(error) => {
                problems.push(error.to_string());
                cores.push(CoreReport {
                    histograms: vec![],
                    windows: vec![],
                    servers: vec![],
                    errors: vec![],
                    counters: Default::default(),
                });
            }
        }
    }

    let mut collector = Collector::new(plan, anchor);
    for phase in &plan.phases {
        for histograms in cores.iter().filter_map(|core| core.histograms.get(phase.id.index())) {
            collector.add_histograms(phase.id, histograms);
        }
    }
    for summary in &ended.coordinator.phases {
        let notes = client_notes(summary.phase, &cores, host, &ended.coordinator);
        collector.add_client(summary.phase, notes);
    }
    let mut files = Vec::new();
    let mut lost = Vec::new();
    let texts: Vec<_> = cores.iter_mut().map(|core| std::mem::take(&mut core.errors)).collect();
    let reader = Reader::open(&journal.path);
    let (read, exported) = export::records(plan, directory, anchor, reader, &texts, &mut collector);
    if let Err(error) = journal.written.and(read) {
        lost.push(format!("{error}; records are missing, so figures come from histograms"));
        collector.forget_records();
    }
    match exported {
        Ok(file) => files.extend(file),
        Err(reason) => lost.push(format!("{reason}; the records remain in {}", journal.path.display())),
    }
    match raw::export(plan, directory, anchor, Reader::open(&journal.path), &texts) {
        Ok(raw) => files.extend(raw),
        Err(reason) => lost.push(format!("{reason}; the records remain in {}", journal.path.display())),
    }
    let records_lost = !lost.is_empty();

    let reasons: Vec<String> = failure(plan, &ended.coordinator)
        .into_iter()
        .chain(problems)
        .chain(lost)
        .collect();
    let mut failure = (!reasons.is_empty()).then(|| plan.secrets.redact(&reasons.join("; ")).into_owned());
    let threshold_missed = ended.coordinator.outcome.threshold_missed.clone();
    let end = match (&failure, &threshold_missed, signal) {
        (_, _, Some(_)) => RunEnd::Interrupted,
        (Some(reason), _, None) => RunEnd::Failed(reason.clone()),
        (None, Some(line), None) => RunEnd::ThresholdMissed(line.clone()),
        (None, None, None) => RunEnd::Complete,
    };
    let report = collector.finish(&ended.coordinator.phases, &end);
    warnings.extend(report.aggregate.levels.iter().filter_map(Level::warning));
    warnings.extend(report.slices.as_ref().and_then(Slices::warning));
    // Set after `end`: the phases did all they were asked to, so the artifacts are complete although the run was in vain.
    if failure.is_none() && signal.is_none() && threshold_missed.is_none() {
        failure = in_vain(plan, &report.aggregate);
    }
    let counters: Vec<_> = cores.iter().map(|core| core.counters).collect();
    let mut hooks = ended.hooks.to_json(anchor);
    hooks.iter_mut().for_each(|hook| plan.secrets.redact_json(hook));
    let mut engine = facts::collect(
        host,
        &counters,
        &ended.coordinator,
        plan.seed,
        hooks,
        &Servers::of(plan, &cores),
    );
    engine.records_lost = records_lost;
    facts::identify(&mut engine.run, plan);
    let controllers = AdaptiveFacts {
        reports: &ended.coordinator.adaptive,
        samples_lost: ended.coordinator.samples_lost,
        anchor,
    };
    let telemetry = TelemetryFacts {
        servers: &ended.observed.servers,
        gpus: ended.observed.gpus.as_deref(),
        lifetimes: &lifetimes(&ended.coordinator.phases),
        anchor,
    };
    let written = artifact::write_all(directory, plan, &report, &engine, Some(&controllers), Some(telemetry));
    files.extend(written.files);
    if let Some(first) = written.failures.first() {
        let unwritten = match written.failures.len() {
            1 => first.to_string(),
            count => format!("{count} files could not be written, the first: {first}"),
        };
        failure = Some(failure.map_or(unwritten.clone(), |failure| format!("{failure}; {unwritten}")));
    } else if !records_lost && let Err(error) = std::fs::remove_file(&journal.path) {
        // Everything that the journal held is in the artifacts now.
        warnings.push(format!("cannot remove {}: {error}", journal.path.display()));
    }
    RunOutcome {
        report,
        artifact_directory: directory.path().to_owned(),
        files,
        interrupted: signal,
        failure,
        threshold_missed,
        placement: format!("{}; {}", host.placement.line(), host.profiles.line()),
        searches: searches(plan, &ended.coordinator.adaptive),
        shows_trace_timing: plan.artifacts.show_trace_timing,
        warnings,
    }
}

/// Why the phases did not do what they were asked to. Of a stall also where: the machine knows no servers.
fn failure(plan: &Plan, coordinator: &CoordinatorReport) -> Option<String> {
    let mut line = coordinator.outcome.failure.clone()?;
    let stalled = |summary: &PhaseSummary| summary.stop_reason == StopReason::Stalled;
    if coordinator.phases.iter().any(stalled) {
        line.push_str(&format!("; server {}", servers(plan)));
    }
    Some(line)
}

/// Where the load went.
fn servers(plan: &Plan) -> String {
    let origins = plan.endpoint.targets.iter().map(|target| target.origin.as_str());
    origins.collect::<Vec<_>>().join(", ")
}

/// What came of the controller of each phase that has one and started.
fn searches(plan: &Plan, reports: &[(PhaseId, AdaptiveReport)]) -> Vec<String> {
    let line = |(id, report): &(PhaseId, AdaptiveReport)| {
        let phase = &plan.phases[id.index()];
        let controller = phase.limits.adaptive.as_deref()?;
        Some(format!(
            "adaptive scale of phase {}, {}",
            phase.name,
            report.told(controller.variable)
        ))
    };
    reports.iter().filter_map(line).collect()
}

/// What the cores and the coordinator noted about the client over a phase that ended.
fn client_notes(phase: PhaseId, cores: &[CoreReport], host: &Host, coordinator: &CoordinatorReport) -> ClientNotes {
    let surroundings = &coordinator.surroundings[phase.index()];
    let others = |processor: usize, cpu: Nanos| {
        let idle = surroundings
            .idle
            .iter()
            .find(|entry| entry.processor == processor)?
            .idle;
        Some(surroundings.wall.since(idle).since(cpu))
    };
    let windows = cores
        .iter()
        .zip(&host.placement.processors.cores)
        .filter_map(|(core, processor)| {
            let window = *core.windows.get(phase.index())?;
            Some(CoreWindow {
                others: processor.and_then(|processor| others(processor, window.cpu)),
                ..window
            })
        });
    ClientNotes {
        cores: windows.collect(),
        stall: surroundings.stall,
        unsent: coordinator.arrivals[phase.index()].map_or(0, |arrivals| arrivals.unsent),
    }
}

/// A word for each open loop that did not send its whole schedule: its offered rate was not the one that was asked for.
fn unsent<'a>(plan: &'a Plan, arrivals: &'a [Option<UnsentArrivals>]) -> impl Iterator<Item = String> + 'a {
    let of = |(phase, arrivals): (&'a PhasePlan, &Option<UnsentArrivals>)| {
        let UnsentArrivals { dropped, unsent } = arrivals.unwrap_or_default();
        let unsent = (unsent > 0).then(|| {
            format!(
                "phase {}: {} due and not sent when it ended: its limits left no room, or the client was late",
                phase.name,
                counted(unsent, "arrival")
            )
        });
        let dropped = (dropped > 0).then(|| {
            format!(
                "phase {}: dropped {} that found no slot (on_cap: drop)",
                phase.name,
                counted(dropped, "arrival")
            )
        });
        dropped.into_iter().chain(unsent)
    };
    plan.phases.iter().zip(arrivals).flat_map(of)
}

/// Why a run that sent its load failed all the same: a measurement without a single success measures nothing.
fn in_vain(plan: &Plan, aggregate: &ScopeReport) -> Option<String> {
    let counts = aggregate.counts;
    if counts.sent == 0 || counts.succeeded > 0 {
        return None;
    }
    let mut line = format!(
        "no request succeeded: {} failed, {} were cancelled, {} were cut",
        counts.failed, counts.cancelled, counts.truncated
    );
    if let Some(error) = aggregate.errors.first() {
        let code = error.code.map_or(String::new(), |code| format!("{code} "));
        let message = error.message.lines().next().unwrap_or_default();
        line.push_str(&format!(
            "; the most frequent error ({} x): {code}{}: {message}",
            error.count, error.type_name
        ));
    }
    line.push_str(&format!("; server {}", servers(plan)));
    Some(line)
}
