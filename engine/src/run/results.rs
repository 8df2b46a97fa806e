//! After the load: merge the cores, read the journal once, report, write.

use std::path::PathBuf;

use super::placement::Placement;
use super::threads::Ended;
use super::{RunOutcome, facts};
use crate::artifact::{self, ArtifactDirectory, RecordWriter};
use crate::clock::WallAnchor;
use crate::credit::RequestIds;
use crate::http::format_uuid;
use crate::id::PhaseId;
use crate::journal::{JournalError, Reader};
use crate::plan::Plan;
use crate::reactor::{Chosen, CoreReport};
use crate::record::ErrorDetail;
use crate::report::{Collector, RunEnd, ScopeReport};

/// What the run had of this host.
pub(super) struct Host<'a> {
    pub(super) placement: &'a Placement,
    pub(super) driver: &'a Chosen,
}

/// Turns what the threads left into artifacts. Whatever fails on the way is told and does not stop the rest: nothing measured is dropped.
pub(super) fn write(
    plan: &Plan,
    directory: &ArtifactDirectory,
    anchor: WallAnchor,
    host: Host<'_>,
    ended: Ended,
    journal: Result<PathBuf, JournalError>,
    signal: Option<i32>,
) -> RunOutcome {
    let mut problems = Vec::new();
    let mut warnings = ended.coordinator.outcome.warnings.clone();
    let mut cores = Vec::new();
    for core in ended.cores {
        match core {
            Ok(report) => cores.push(report),
            Err(error) => {
                problems.push(error.to_string());
                cores.push(CoreReport {
                    histograms: vec![],
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
    let mut files = Vec::new();
    let mut journal_path = None;
    match journal {
        Err(error) => problems.push(error.to_string()),
        Ok(path) => match read_records(plan, directory, anchor, &path, &cores, &mut collector) {
            Ok(jsonl) => {
                files.extend(jsonl);
                journal_path = Some(path);
            }
            Err(reason) => problems.push(format!("{reason}; the records remain in {}", path.display())),
        },
    }

    let mut failure = ended.coordinator.outcome.failure.clone();
    if failure.is_none() && !problems.is_empty() {
        failure = Some(problems.join("; "));
    }
    let end = match (&failure, signal) {
        (_, Some(_)) => RunEnd::Interrupted,
        (Some(reason), None) => RunEnd::Failed(reason.clone()),
        (None, None) => RunEnd::Complete,
    };
    let report = collector.finish(&ended.coordinator.phases, &end);
    // Set after `end`: the phases did all they were asked to, so the artifacts are complete although the run was in vain.
    if failure.is_none() && signal.is_none() {
        failure = in_vain(&report.aggregate);
    }
    let counters: Vec<_> = cores.iter().map(|core| core.counters).collect();
    let engine = facts::collect(
        &host,
        &counters,
        &ended.coordinator,
        plan.seed,
        ended.hooks.to_json(anchor),
    );
    let written = artifact::write_all(directory, plan, &report, &engine);
    files.extend(written.files);
    if written.failures.is_empty() {
        // Everything that the journal held is in the artifacts now.
        if let Some(path) = journal_path
            && let Err(error) = std::fs::remove_file(&path)
        {
            warnings.push(format!("cannot remove {}: {error}", path.display()));
        }
    } else {
        let reasons: Vec<String> = written.failures.iter().map(ToString::to_string).collect();
        failure.get_or_insert_with(|| reasons.join("; "));
    }
    RunOutcome {
        report,
        artifact_directory: directory.path().to_owned(),
        files,
        interrupted: signal,
        failure,
        warnings,
    }
}

/// Why a run that sent its load failed all the same: a measurement without a single success measures nothing.
fn in_vain(aggregate: &ScopeReport) -> Option<String> {
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
    Some(line)
}

fn read_records(
    plan: &Plan,
    directory: &ArtifactDirectory,
    anchor: WallAnchor,
    journal: &std::path::Path,
    cores: &[CoreReport],
    collector: &mut Collector,
) -> Result<Option<PathBuf>, String> {
    let ids = RequestIds::new(&plan.benchmark_id);
    let text = |(high, low)| String::from_utf8_lossy(&format_uuid(high, low)).into_owned();
    let names =
        |phase: PhaseId, sequence: u64| (text(ids.request(phase, sequence)), text(ids.session(phase, sequence)));
    let no_errors: Vec<ErrorDetail> = Vec::new();
    let failed = |error: std::io::Error| format!("profile_export.jsonl: {error}");
    let mut writer = match plan.artifacts.records {
        true => {
            let file = directory.create_records().map_err(|error| error.to_string())?;
            Some(RecordWriter::new(plan, anchor, file))
        }
        false => None,
    };
    for record in Reader::open(journal).map_err(|error| error.to_string())? {
        let record = record.map_err(|error| error.to_string())?;
        let errors = cores.get(record.core.index()).map_or(&no_errors, |core| &core.errors);
        collector.add(&record, errors);
        if let Some(writer) = &mut writer {
            writer.write(&record, errors, &names).map_err(failed)?;
        }
    }
    let Some(writer) = writer else { return Ok(None) };
    let file = writer.finish().map_err(failed)?;
    file.commit().map(Some).map_err(|error| error.to_string())
}
