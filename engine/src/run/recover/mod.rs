//! The results of a run whose process died, from its journal.
//!
//! The journal is read twice: once to check it and to count what is there, once to write it out the way a run does. It is not changed and stays.

mod account;
mod error;
mod found;

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::notes::{self, Note, Opening};
use super::{export, facts, raw};
use crate::artifact::{self, ArtifactDirectory, EngineFacts};
use crate::clock::WallAnchor;
use crate::coordinator::PhaseSummary;
use crate::journal::{Hold, Salvage, salvage};
use crate::plan::Plan;
use crate::record::RequestRecord;
use crate::report::{Collector, Report, RunEnd, Slices};
use crate::units::Nanos;
use account::Account;
pub use error::RecoverError;
use found::{Found, PhaseFound};

/// What to recover, and where to.
#[derive(Debug, Clone)]
pub struct RecoverOptions {
    /// The artifact directory of the run, or that of a suite in which one run died.
    pub directory: PathBuf,
    /// Where the artifacts go; `None`: into the directory of the run.
    pub output: Option<PathBuf>,
    /// Whether results in `output` may be removed.
    pub overwrite: bool,
}

/// The results of a run that died. They are written.
#[derive(Debug)]
pub struct Recovered {
    /// The figures.
    pub report: Report,
    /// Where the artifacts are.
    pub artifact_directory: PathBuf,
    /// Every file that was written.
    pub files: Vec<PathBuf>,
    /// What was found and what was not, one line each.
    pub account: Vec<String>,
    /// Whether the console shows how requests went over the wire.
    pub shows_trace_timing: bool,
    /// Which files could not be written, in one line.
    pub failure: Option<String>,
}

/// Writes the results of a run that died.
///
/// # Errors
/// Nothing can be recovered; nothing was written.
pub fn recover(options: &RecoverOptions) -> Result<Recovered, RecoverError> {
    let run = locate(options)?;
    let path = run.join(artifact::JOURNAL);
    let hold = salvage(&path).map_err(|reason| RecoverError::of(&path, reason))?;
    let opening = opening(&path, &hold)?;
    if options.output.is_none() && artifact::is_ready(&run) {
        return Err(RecoverError::Complete(run));
    }
    let target = options.output.clone().unwrap_or_else(|| run.clone());
    let (anchor, start) = (opening.anchor(), Nanos(opening.start));
    let (has_heads, has_bodies) = (opening.plan.has_heads(), opening.plan.has_bodies());
    let shows_texts = opening.plan.is_without_secrets();
    let mut plan = opening
        .plan
        .restore(&opening.dataset, target)
        .ok_or_else(|| RecoverError::Unopened(path.clone()))?;
    if !plan.artifacts.records {
        return Err(RecoverError::NoRecords(path));
    }
    let mut found = Found::new(&plan, &hold);
    let (phases, images, servers) = (
        plan.phases.len(),
        plan.requests.entries.len(),
        plan.requests.heads.len(),
    );
    let known = |record: &RequestRecord| {
        let server = record.trace.as_deref().filter(|_| has_heads).map(|trace| trace.server);
        record.phase.index() < phases
            && (record.image as usize) < images
            && server.is_none_or(|server| usize::from(server) < servers)
    };
    let salvage = hold.read(known, |record| found.see(record))?;
    if !found.phases.iter().any(PhaseFound::has_begun) {
        return Err(RecoverError::Nothing(path));
    }
    plan.artifacts.overwrite = options.overwrite;
    let (directory, mut files) = open(&plan, options, &run)?;
    let account = Account {
        life: found.last.since(start),
        salvage: &salvage,
        found: &found,
        raw_is_lost: plan.artifacts.raw && !has_bodies,
        outputs_are_lost: plan.artifacts.outputs && !shows_texts,
        traces_are_lost: plan.artifacts.trace && !has_heads,
    };
    plan.artifacts.trace &= has_heads;
    plan.artifacts.raw &= has_bodies;
    plan.artifacts.outputs &= shows_texts;
    let mut lines = account.lines(&plan, &path);
    let (report, texts_failure) = collect(&plan, &directory, anchor, &found, &salvage, &account, &mut files);
    lines.extend(report.slices.as_ref().and_then(Slices::warning));
    let mut engine = EngineFacts {
        run: found.facts.clone(),
        phases: found
            .phases
            .iter()
            .filter_map(|phase| phase.summary.as_ref())
            .map(|summary| (summary.phase, facts::of_phase(summary)))
            .collect(),
        records_lost: true,
    };
    facts::identify(&mut engine.run, &plan);
    engine.run.insert("recovered".into(), account.to_json(&plan, anchor));
    let written = artifact::write_all(&directory, &plan, &report, &engine, None, None);
    files.extend(written.files);
    let failures: Vec<String> = texts_failure
        .into_iter()
        .chain(written.failures.iter().map(ToString::to_string))
        .collect();
    if !failures.is_empty() {
        // What is not whole is to be recovered again, once there is room.
        artifact::unmark_ready(directory.path());
    }
    Ok(Recovered {
        report,
        artifact_directory: directory.path().to_owned(),
        files,
        account: lines,
        shows_trace_timing: plan.artifacts.show_trace_timing,
        failure: (!failures.is_empty()).then(|| failures.join("; ")),
    })
}

/// The directory of the run that is meant.
fn locate(options: &RecoverOptions) -> Result<PathBuf, RecoverError> {
    let root = &options.directory;
    if !root.is_dir() {
        return Err(RecoverError::NoDirectory(root.clone()));
    }
    if root.join(artifact::JOURNAL).is_file() {
        return Ok(root.clone());
    }
    let mut journals = artifact::journals_below(root);
    match (journals.len(), artifact::is_ready(root)) {
        (1, _) => Ok(journals.remove(0)),
        (0, true) => Err(RecoverError::NoJournal {
            directory: root.clone(),
            why: "the run wrote all its results itself",
        }),
        (0, false) => Err(RecoverError::NoJournal {
            directory: root.clone(),
            why: "name a directory with a file ringload.journal",
        }),
        _ => Err(RecoverError::Several {
            directory: root.clone(),
            journals,
        }),
    }
}

fn opening(path: &Path, hold: &Hold) -> Result<Opening, RecoverError> {
    let first = hold.notes.first().map_or(&[][..], Vec::as_slice);
    if let Some(Note::Opening(opening)) = Note::decode(first) {
        return Ok(*opening);
    }
    let note: Option<Value> = serde_json::from_slice(notes::parts(first).0).ok();
    let version = note.as_ref().and_then(|note| note["opening"]["version"].as_str());
    Err(match version {
        Some(version) => RecoverError::OtherProgram {
            path: path.to_owned(),
            version: version.to_owned(),
        },
        None => RecoverError::Unopened(path.to_owned()),
    })
}

/// The directory that takes the artifacts, and what of the run's own files goes there.
fn open(plan: &Plan, options: &RecoverOptions, run: &Path) -> Result<(ArtifactDirectory, Vec<PathBuf>), RecoverError> {
    let Some(output) = &options.output else {
        return Ok((ArtifactDirectory::reopen(plan)?, Vec::new()));
    };
    // With `overwrite` the journal itself would be in the way.
    if let (Ok(output), Ok(run)) = (output.canonicalize(), run.canonicalize())
        && run.starts_with(output)
    {
        return Err(RecoverError::Across(options.output.clone().unwrap_or_default()));
    }
    let directory = ArtifactDirectory::prepare(plan)?;
    let copied = artifact::BEFORE_LOAD.iter().filter_map(|name| {
        let target = directory.path().join(name);
        // Best effort: the originals are where they were.
        std::fs::copy(run.join(name), &target).ok().map(|_| target)
    });
    let copied = copied.collect();
    Ok((directory, copied))
}

/// Hands everything to the report, and every record to its line. Returns the report and why there is no file of records, if so.
fn collect(
    plan: &Plan,
    directory: &ArtifactDirectory,
    anchor: WallAnchor,
    found: &Found,
    salvage: &Salvage,
    account: &Account<'_>,
    files: &mut Vec<PathBuf>,
) -> (Report, Option<String>) {
    let mut collector = Collector::new(plan, anchor);
    let mut summaries = Vec::new();
    for (phase, found) in plan.phases.iter().zip(&found.phases) {
        if let Some(start) = found.start {
            collector.add_start(phase.id, start);
        }
        if let Some(histograms) = &found.histograms {
            collector.add_histograms(phase.id, histograms);
        }
        if let Some(summary) = &found.summary {
            collector.add_lost(phase.id, found.missing());
            // Counts stand beside the records, so they are those of the records.
            summaries.push(PhaseSummary {
                tally: found.seen,
                ..summary.clone()
            });
        }
    }
    let (read, file) = export::records(
        plan,
        directory,
        anchor,
        salvage.reader(),
        &salvage.texts,
        &mut collector,
    );
    let mut failures: Vec<String> = read.err().iter().map(ToString::to_string).collect();
    match file {
        Ok(file) => files.extend(file),
        Err(reason) => failures.push(reason),
    }
    let reason = account.reason();
    let end = if found.is_over() {
        RunEnd::Failed(reason)
    } else {
        RunEnd::Killed(reason)
    };
    match raw::export(plan, directory, anchor, salvage.reader(), &salvage.texts) {
        Ok(raw) => files.extend(raw),
        Err(reason) => failures.push(reason),
    }
    let failure = (!failures.is_empty()).then(|| failures.join("; "));
    (collector.finish(&summaries, &end), failure)
}
