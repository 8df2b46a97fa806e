//! The results of a run whose process died, from its journal.
//!
//! The journal is read twice: once to check it and to count what is there, once to write it out the way a run does. It is not changed and stays.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::notes::{Note, Opening};
use super::{export, facts};
use crate::artifact::{self, ArtifactDirectory, ArtifactError, EngineFacts};
use crate::clock::WallAnchor;
use crate::coordinator::{PhaseSummary, StopReason, Tally};
use crate::id::PhaseId;
use crate::journal::{Hold, JournalError, NotSalvaged, Salvage, salvage};
use crate::plan::{PhasePlan, Plan};
use crate::record::{Family, Outcome, PhaseHistograms, RequestRecord};
use crate::report::{Collector, Report, RunEnd};
use crate::units::Nanos;

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
    /// Which files could not be written, in one line.
    pub failure: Option<String>,
}

/// A directory of which nothing can be recovered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// No directory.
    #[error("{} is no directory; name the artifact directory of the run", .0.display())]
    NoDirectory(PathBuf),
    /// No journal.
    #[error("{} holds no journal of a run that died: {why}", .directory.display())]
    NoJournal {
        /// The directory.
        directory: PathBuf,
        /// What is there.
        why: &'static str,
    },
    /// Several journals in the cells of a suite.
    #[error("{} holds {} journals; recover them one by one: {}", .directory.display(), .journals.len(), listed(.journals))]
    Several {
        /// The directory.
        directory: PathBuf,
        /// Where the journals are.
        journals: Vec<PathBuf>,
    },
    /// The results are there.
    #[error(
        "{} holds the results of this run already; to make them from the journal again, choose another place with --output-artifact-dir", .0.display()
    )]
    Complete(PathBuf),
    /// The run is not dead.
    #[error("{} is in use by a run that is under way or by another recovery{}; wait for its end", .path.display(), process(*.pid))]
    UnderWay {
        /// The journal.
        path: PathBuf,
        /// Who started it.
        pid: Option<u32>,
    },
    /// Another format.
    #[error(
        "{} has version {version} of the format, and this ringload reads version 2; use the ringload that wrote it", .path.display()
    )]
    Version {
        /// The journal.
        path: PathBuf,
        /// Its version.
        version: u8,
    },
    /// Something else.
    #[error("{} is no journal of ringload", .0.display())]
    Foreign(PathBuf),
    /// The beginning is missing.
    #[error("{} does not say what ran: its first note is missing or damaged, so its records mean nothing", .0.display())]
    Unopened(PathBuf),
    /// The beginning is of another version of the program.
    #[error("{} was written by ringload {version}, and this is {}; use the one that wrote it", .path.display(), env!("CARGO_PKG_VERSION"))]
    OtherProgram {
        /// The journal.
        path: PathBuf,
        /// Which one.
        version: String,
    },
    /// Nothing to write.
    #[error("{} holds no request and no phase: the run died before its load", .0.display())]
    Nothing(PathBuf),
    /// The run kept no records.
    #[error("{} holds failures only: the run kept no records (artifacts.records: false), and its figures were lost with its memory", .0.display())]
    NoRecords(PathBuf),
    /// The way out lies across the way in.
    #[error("--output-artifact-dir {}: it holds the run that is to be recovered; leave the flag out to write there", .0.display())]
    Across(PathBuf),
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The artifact directory cannot be used.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
}

impl RecoverError {
    /// Whether another command line would have been accepted, as opposed to another journal.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::NoDirectory(_)
                | Self::NoJournal { .. }
                | Self::Several { .. }
                | Self::Complete(_)
                | Self::Across(_)
                | Self::Artifact(ArtifactError::Occupied { .. } | ArtifactError::UnderWay { .. })
        )
    }

    fn of(path: &Path, reason: NotSalvaged) -> Self {
        let path = path.to_owned();
        match reason {
            NotSalvaged::Io(error) => Self::Journal(error),
            NotSalvaged::Version(version) => Self::Version { path, version },
            NotSalvaged::Foreign => Self::Foreign(path),
            NotSalvaged::Unopened => Self::Unopened(path),
            NotSalvaged::Alive(opening) => {
                let pid = match opening.as_deref().and_then(Note::decode) {
                    Some(Note::Opening(opening)) => Some(opening.pid),
                    _ => None,
                };
                Self::UnderWay { path, pid }
            }
        }
    }
}

fn listed(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    shown.join(", ")
}

fn process(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (begun by process {pid})"))
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
    let mut plan = opening
        .plan
        .restore(target)
        .ok_or_else(|| RecoverError::Unopened(path.clone()))?;
    if !plan.artifacts.records {
        return Err(RecoverError::NoRecords(path));
    }
    let mut found = Found::new(&plan, &hold);
    let (phases, images) = (plan.phases.len(), plan.requests.entries.len());
    let known = |record: &RequestRecord| record.phase.index() < phases && (record.image as usize) < images;
    let salvage = hold.read(known, |record| found.see(record))?;
    if found.phases.iter().all(|phase| !phase.has_begun()) {
        return Err(RecoverError::Nothing(path));
    }
    plan.artifacts.overwrite = options.overwrite;
    let (directory, mut files) = open(&plan, options, &run)?;
    let account = Account {
        life: found.last.since(start),
        salvage: &salvage,
        found: &found,
    };
    let lines = account.lines(&plan, &path);
    let (report, texts_failure) = collect(&plan, &directory, anchor, &found, &salvage, &account, &mut files);
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
    engine.run.insert("plan_hash".into(), plan.fingerprint().into());
    engine.run.insert("recovered".into(), account.to_json(&plan, anchor));
    let written = artifact::write_all(&directory, &plan, &report, &engine, None, None);
    files.extend(written.files);
    let failures: Vec<String> = texts_failure
        .into_iter()
        .chain(written.failures.iter().map(ToString::to_string))
        .collect();
    Ok(Recovered {
        report,
        artifact_directory: directory.path().to_owned(),
        files,
        account: lines,
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
    let note: Option<Value> = serde_json::from_slice(first).ok();
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

/// What is known of a phase.
#[derive(Default)]
struct PhaseFound {
    start: Option<Nanos>,
    summary: Option<PhaseSummary>,
    /// The last counts while it was under way.
    counted: Tally,
    /// What the records say.
    seen: Tally,
    histograms: Option<PhaseHistograms>,
}

impl PhaseFound {
    fn has_begun(&self) -> bool {
        self.start.is_some() || self.summary.is_some() || self.seen.sent > 0
    }

    /// Requests that are known to have ended and have no record.
    fn missing(&self) -> u64 {
        let ended = self.summary.as_ref().map_or(self.counted, |summary| summary.tally);
        ended.returned().saturating_sub(self.seen.sent)
    }
}

/// What the journal says, apart from the records themselves.
struct Found {
    phases: Vec<PhaseFound>,
    facts: Map<String, Value>,
    /// The last instant that it knows of.
    last: Nanos,
    load_ended: bool,
}

impl Found {
    fn new(plan: &Plan, hold: &Hold) -> Self {
        let mut found = Self {
            phases: plan.phases.iter().map(|_| PhaseFound::default()).collect(),
            facts: Map::new(),
            last: Nanos::ZERO,
            load_ended: false,
        };
        for note in hold.notes.iter().filter_map(|note| Note::decode(note)) {
            found.hear(note);
        }
        found
    }

    fn of(&mut self, phase: PhaseId) -> Option<&mut PhaseFound> {
        self.phases.get_mut(phase.index())
    }

    fn hear(&mut self, note: Note) {
        let mut at = 0;
        match note {
            Note::Opening(opening) => at = opening.start,
            Note::Facts(facts) => self.facts = facts,
            Note::PhaseStarted { phase, at: start } => {
                at = start;
                if let Some(found) = self.of(PhaseId(phase)) {
                    found.start = Some(Nanos(start));
                }
            }
            Note::PhaseEnded(ended) => {
                if let Some(summary) = ended.summary()
                    && let Some(found) = self.of(summary.phase)
                {
                    at = summary.end.0;
                    found.summary = Some(summary);
                }
            }
            Note::Counts { at: taken, phases } => {
                at = taken;
                for (phase, tally) in phases.into_iter().map(super::notes::Count::read) {
                    if let Some(found) = self.of(phase) {
                        found.counted = tally;
                    }
                }
            }
            Note::LoadEnded { at: end } => {
                at = end;
                self.load_ended = true;
            }
        }
        self.last = self.last.max(Nanos(at));
    }

    fn see(&mut self, record: &RequestRecord) {
        self.last = self.last.max(record.end);
        let Some(found) = self.of(record.phase) else { return };
        found.seen.sent += 1;
        *match record.outcome {
            Outcome::Success => &mut found.seen.succeeded,
            Outcome::Error => &mut found.seen.failed,
            Outcome::Cancelled => &mut found.seen.cancelled,
            Outcome::Truncated => &mut found.seen.truncated,
        } += 1;
        let histograms = found.histograms.get_or_insert_with(PhaseHistograms::new);
        histograms.record(Family::SendLag, record.start.since(record.intended).0);
    }

    /// Whether every phase did all it was asked to, so that only the writing is missing.
    fn is_over(&self) -> bool {
        let ended = |phase: &PhaseFound| {
            let summary = phase.summary.as_ref();
            summary.is_some_and(|summary| summary.stop_reason != StopReason::Interrupted)
        };
        self.load_ended && self.phases.iter().all(ended)
    }
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
    let failure = (!failures.is_empty()).then(|| failures.join("; "));
    (collector.finish(&summaries, &end), failure)
}

/// What was found and what was not.
struct Account<'a> {
    /// From the start of the run to the last that is known of it.
    life: Nanos,
    salvage: &'a Salvage,
    found: &'a Found,
}

impl Account<'_> {
    fn records(&self) -> u64 {
        self.found.phases.iter().map(|phase| phase.seen.sent).sum()
    }

    fn missing(&self) -> u64 {
        self.found.phases.iter().map(PhaseFound::missing).sum()
    }

    /// For `incomplete_reason`.
    fn reason(&self) -> String {
        let mut reason = format!(
            "recovered from the journal after the process died without writing its results, {:.1} s after the start of the run or later",
            self.life.as_secs_f64()
        );
        if self.missing() > 0 {
            reason.push_str(&format!("; {} requests that had ended have no record", self.missing()));
        }
        for line in self.damage() {
            reason.push_str(&format!("; {line}"));
        }
        reason
    }

    fn damage(&self) -> impl Iterator<Item = String> {
        let Salvage { damaged, torn, .. } = *self.salvage;
        let blocks = (damaged > 0).then(|| format!("{damaged} blocks of the journal are damaged and were left out"));
        let tail =
            (torn > 0).then(|| format!("the last {torn} bytes of the journal are no whole block and were left out"));
        blocks.into_iter().chain(tail)
    }

    /// For people.
    fn lines(&self, plan: &Plan, journal: &Path) -> Vec<String> {
        let mut lines = vec![format!(
            "{} requests recovered from {}; the last that it knows of the run is {:.1} s after its start",
            self.records(),
            journal.display(),
            self.life.as_secs_f64()
        )];
        lines.extend(self.damage());
        for (phase, found) in plan.phases.iter().zip(&self.found.phases) {
            lines.extend(self.of_phase(phase, found));
        }
        lines.push(
            "not in the journal, and so not recovered: server and GPU metrics, control calls, the client's verdict, controller logs".to_owned(),
        );
        if plan.artifacts.raw {
            lines.push("raw requests and answers are not recovered; the answers stay in the journal".to_owned());
        }
        lines
    }

    fn of_phase(&self, phase: &PhasePlan, found: &PhaseFound) -> Option<String> {
        let (name, missing) = (&phase.name, found.missing());
        if found.summary.is_some() {
            return (missing > 0).then(|| format!("phase {name}: {missing} of its requests have no record"));
        }
        if !found.has_begun() {
            return Some(format!("phase {name} had not begun"));
        }
        Some(format!(
            "phase {name} was under way: missing are at least {missing} requests that had ended, {} in flight at the last count, and whatever ended in \
             the last two seconds",
            found.counted.in_flight()
        ))
    }

    fn to_json(&self, plan: &Plan, anchor: WallAnchor) -> Value {
        let under_way: BTreeMap<&str, Value> = plan
            .phases
            .iter()
            .zip(&self.found.phases)
            .filter(|(_, found)| found.has_begun() && found.summary.is_none())
            .map(|(phase, found)| (phase.name.as_str(), json!({ "in_flight": found.counted.in_flight() })))
            .collect();
        json!({
            "requests": self.records(),
            "missing_requests_at_least": self.missing(),
            "last_known_ns": anchor.to_wall_ns(self.found.last),
            "phases_under_way": under_way,
            "damaged_blocks": self.salvage.damaged,
            "unread_bytes": self.salvage.torn,
        })
    }
}
