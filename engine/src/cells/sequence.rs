//! Running cells one after another, with pauses, and writing what they come to together.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::agreement::Agreement;
use super::resume::{Earlier, ResumeError, look};
use super::{Cell, Cells, collated, comparison, confidence, record};
use crate::artifact::{self, ArtifactError};
use crate::interrupt::Interrupt;
use crate::run::{self, LiveSnapshot, RunError, RunOptions, RunOutcome};
use crate::units::counted;

/// How often a pause looks for an interrupt.
const LOOK: Duration = Duration::from_millis(20);

/// How to run cells on this host.
#[derive(Debug)]
pub struct CellsOptions {
    /// How to run each.
    pub run: RunOptions,
    /// Whether cells that an earlier attempt finished are kept.
    pub resume: bool,
}

/// What happens, as it happens.
#[derive(Debug)]
pub enum Event<'a> {
    /// A cell starts: its position and itself.
    Started(usize, &'a Cell),
    /// Load is sent.
    Live(&'a LiveSnapshot),
    /// A cell has ended; with what the engine returned, unless no load was sent or an earlier attempt ran it.
    Ended(&'a CellReport, Option<&'a RunOutcome>),
    /// A pause before the next cell.
    Cooldown(Duration),
    /// What is to be said about the agreement of trials: one line.
    Told(&'a str),
}

/// How a cell ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CellEnd {
    /// As planned, with successful requests.
    Succeeded,
    /// Why not, in one line.
    Failed(String),
    /// Early, because more requests failed than `failed_request_threshold` allows: which phase, in one line.
    ThresholdMissed(String),
    /// By this signal.
    Interrupted(i32),
}

/// What came of a cell.
#[derive(Debug, Clone)]
pub struct CellReport {
    /// Its position in the order of running.
    pub index: usize,
    /// How it ended.
    pub end: CellEnd,
    /// Whether an earlier attempt ran it.
    pub is_earlier: bool,
    /// Its metrics by tag, as its summary has them.
    pub metrics: Map<String, Value>,
}

/// What came of all cells. Everything is written.
#[derive(Debug)]
pub struct CellsOutcome {
    /// The cells that ran, in order.
    pub reports: Vec<CellReport>,
    /// Aggregates that were written.
    pub files: Vec<PathBuf>,
    /// Positions of cells that did not run because the trials before them agreed.
    pub not_needed: Vec<usize>,
    /// What came of the comparison of trials, a line each.
    pub agreement: Vec<String>,
    /// The signal that ended the suite early.
    pub interrupted: Option<i32>,
    /// Why the suite as a whole failed, in one line; `None`: it did not.
    pub failure: Option<String>,
    /// The first cell that missed its `failed_request_threshold`, in one line.
    pub threshold_missed: Option<String>,
    /// Directories of cells that an earlier attempt with other values left: in no aggregate.
    pub strangers: Vec<PathBuf>,
    /// The best variations and the Pareto front, as the comparison has them; `None` without a sweep or a success.
    pub comparison: Option<Value>,
}

/// A suite that sent no load.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CellsError {
    /// The common directory cannot be used.
    #[error("{0}{hint}", hint = way_on(.0))]
    Artifact(#[from] ArtifactError),
    /// An earlier attempt cannot be gone on with.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// No cell can run as asked.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// What a suite can do about a directory that is occupied and a single run cannot.
fn way_on(error: &ArtifactError) -> &'static str {
    match error {
        ArtifactError::Occupied { .. } => ", or --resume to go on with a suite that was interrupted",
        _ => "",
    }
}

impl CellsError {
    /// Whether another command line would have been accepted.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Artifact(error) => matches!(
                error,
                ArtifactError::Occupied { .. } | ArtifactError::UnderWay { .. } | ArtifactError::Prefix { .. }
            ),
            Self::Resume(_) => true,
            Self::Run(error) => error.is_usage(),
        }
    }
}

/// Runs the cells in their order and writes the aggregates. `watch` is called on this thread.
///
/// # Errors
/// What was found before any load was sent. From then on every outcome is a [`CellsOutcome`].
pub fn run(
    cells: &Cells,
    options: &CellsOptions,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<CellsOutcome, CellsError> {
    let earlier: Vec<Earlier> = if options.resume {
        cells
            .cells()
            .iter()
            .map(|cell| look(cells, cell))
            .collect::<Result<_, _>>()?
    } else {
        cells.clear()?;
        vec![Earlier::Nothing; cells.cells().len()]
    };
    let mut sequence = Sequence {
        cells,
        options,
        reports: Vec::new(),
        not_needed: Vec::new(),
        agreement: Agreement::of(cells),
        previous: None,
    };
    let interrupted = sequence.run(&earlier, watch)?;
    let strangers = if options.resume {
        strangers(cells, &sequence)?
    } else {
        Vec::new()
    };
    Ok(conclude(sequence, interrupted, strangers))
}

/// Directories of cells that are none of this suite, or trials after those that agreed.
fn strangers(cells: &Cells, sequence: &Sequence<'_>) -> Result<Vec<PathBuf>, ArtifactError> {
    let mut found = artifact::cells_in(cells.directory(), cells.prefix())?;
    let is_ours = |cell: &Cell| !sequence.agreement.is_beyond(cell);
    found.retain(|directory| {
        cells
            .cells()
            .iter()
            .all(|cell| cell.directory != *directory || !is_ours(cell))
    });
    Ok(found)
}

struct Sequence<'a> {
    cells: &'a Cells,
    options: &'a CellsOptions,
    reports: Vec<CellReport>,
    not_needed: Vec<usize>,
    agreement: Agreement<'a>,
    /// The cell that ran last in this process.
    previous: Option<usize>,
}

impl Sequence<'_> {
    /// Returns the signal that ended it early.
    fn run(&mut self, earlier: &[Earlier], watch: &mut dyn FnMut(Event<'_>)) -> Result<Option<i32>, CellsError> {
        let interrupt = &self.options.run.interrupt;
        let cells = self.cells.cells();
        let mut kept: Vec<Option<CellReport>> = cells
            .iter()
            .enumerate()
            .map(|(index, cell)| self.kept(index, cell, earlier[index]))
            .collect();
        // What earlier attempts ran decides as it did then, before any trial that failed runs again.
        for report in kept.iter().flatten() {
            self.agreement.take(report, &mut |line| watch(Event::Told(line)));
        }
        for (index, cell) in cells.iter().enumerate() {
            if self.agreement.is_over(cell) && (kept[index].is_none() || self.agreement.is_beyond(cell)) {
                self.not_needed.push(index);
                continue;
            }
            if let Some(report) = kept[index].take() {
                watch(Event::Ended(&report, None));
                self.reports.push(report);
                continue;
            }
            let pause = self.pause(cell);
            if !pause.is_zero() {
                watch(Event::Cooldown(pause));
                wait(pause, interrupt);
            }
            if interrupt.is_raised() {
                return Ok(interrupt.signal());
            }
            watch(Event::Started(index, cell));
            let (report, outcome) = self.one(index, cell, earlier[index], watch)?;
            watch(Event::Ended(&report, outcome.as_ref()));
            self.previous = Some(index);
            let signal = match report.end {
                CellEnd::Interrupted(signal) => Some(signal),
                _ => interrupt.signal(),
            };
            if !matches!(report.end, CellEnd::Interrupted(_)) {
                self.agreement.take(&report, &mut |line| watch(Event::Told(line)));
            }
            self.reports.push(report);
            if signal.is_some() {
                return Ok(signal);
            }
            let failed = self
                .reports
                .iter()
                .filter(|report| matches!(report.end, CellEnd::Failed(_) | CellEnd::ThresholdMissed(_)));
            let limit = self.cells.suite.failure_policy.max_failures;
            if limit.is_some_and(|limit| failed.count() >= limit as usize) {
                break;
            }
        }
        Ok(None)
    }

    /// The report of a cell that an earlier attempt finished, if its figures are still there.
    fn kept(&self, index: usize, cell: &Cell, earlier: Earlier) -> Option<CellReport> {
        if earlier != Earlier::Finished {
            return None;
        }
        Some(CellReport {
            index,
            end: CellEnd::Succeeded,
            is_earlier: true,
            metrics: artifact::read_metrics(&cell.directory, self.cells.prefix())?,
        })
    }

    /// The pause before a cell: none before the first that runs.
    fn pause(&self, cell: &Cell) -> Duration {
        let Some(previous) = self.previous.map(|at| &self.cells.cells()[at]) else {
            return Duration::ZERO;
        };
        let suite = &self.cells.suite;
        let same_trial = previous.trial == cell.trial;
        let seconds = match &suite.sweep {
            // The order decides what changes between neighbours: the variation alone, the trial alone, or at a turn both.
            Some(sweep) if previous.variation != cell.variation && (same_trial || self.is_independent()) => {
                sweep.cooldown_s
            }
            _ => suite.multi_run.cooldown_s,
        };
        Duration::from_secs_f64(seconds)
    }

    fn is_independent(&self) -> bool {
        let sweep = self.cells.suite.sweep.as_ref();
        sweep.is_some_and(|sweep| sweep.order == crate::config::IterationOrder::Independent)
    }

    /// Runs one cell.
    ///
    /// # Errors
    /// The first cell is refused for a reason that holds for all of them.
    fn one(
        &self,
        index: usize,
        cell: &Cell,
        earlier: Earlier,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<(CellReport, Option<RunOutcome>), CellsError> {
        let report = |end, metrics| CellReport {
            index,
            end,
            is_earlier: false,
            metrics,
        };
        let failed = |reason: String| (report(CellEnd::Failed(reason), Map::new()), None);
        let seed = match earlier {
            Earlier::Unfinished { seed } => cell.seed.or(Some(seed)),
            Earlier::Nothing | Earlier::Finished => cell.seed,
        };
        let mut plan = match self.cells.plan_with(cell, seed) {
            Ok(plan) => plan,
            Err(mistakes) => return Ok(failed(mistakes.to_string())),
        };
        if self.previous.is_some() {
            // The servers have been waited for, and have answered.
            plan.readiness = None;
        }
        // What an attempt left that did not finish makes room for this one.
        plan.artifacts.overwrite = earlier != Earlier::Nothing;
        if let Err(error) = record::write(self.cells, cell, &plan, None) {
            return Ok(failed(error.to_string()));
        }
        let result = run::run(&plan, &self.options.run, &mut |snapshot| watch(Event::Live(snapshot)));
        let (end, metrics, outcome) = match result {
            Ok(outcome) => (end_of(&outcome), artifact::metrics(&outcome.report), Some(outcome)),
            Err(error) => match error.interrupted_by() {
                Some(signal) => (CellEnd::Interrupted(signal), Map::new(), None),
                // The same would happen to every other cell.
                None if self.previous.is_none() && (error.is_usage() || matches!(error, RunError::NotReady(_))) => {
                    record::remove(self.cells, cell);
                    return Err(error.into());
                }
                None => (CellEnd::Failed(error.to_string()), Map::new(), None),
            },
        };
        // The file says how the cell ended, so one that cannot be written is a cell that did not end well.
        let end = match record::write(self.cells, cell, &plan, Some(&end)) {
            Err(error) if end == CellEnd::Succeeded => CellEnd::Failed(error.to_string()),
            _ => end,
        };
        Ok((report(end, metrics), outcome))
    }
}

fn end_of(outcome: &RunOutcome) -> CellEnd {
    match (outcome.interrupted, &outcome.failure, &outcome.threshold_missed) {
        (Some(signal), ..) => CellEnd::Interrupted(signal),
        (None, Some(reason), _) => CellEnd::Failed(reason.clone()),
        (None, None, Some(reason)) => CellEnd::ThresholdMissed(reason.clone()),
        (None, None, None) if outcome.report.aggregate.counts.succeeded == 0 => {
            CellEnd::Failed("no request succeeded".into())
        }
        (None, None, None) => CellEnd::Succeeded,
    }
}

/// Sleeps until the end of the pause or an interrupt.
fn wait(pause: Duration, interrupt: &Interrupt) {
    let start = Instant::now();
    while !interrupt.is_raised() {
        let left = pause.saturating_sub(start.elapsed());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(LOOK));
    }
}

/// Successful cells that make a suite of several a success.
const ENOUGH: usize = 2;

fn conclude(sequence: Sequence<'_>, interrupted: Option<i32>, strangers: Vec<PathBuf>) -> CellsOutcome {
    let Sequence {
        cells,
        reports,
        not_needed,
        agreement,
        ..
    } = sequence;
    let mut files = Vec::new();
    let mut problems = Vec::new();
    let mut note = |written: Vec<Result<PathBuf, ArtifactError>>| {
        for result in written {
            match result {
                Ok(file) => files.push(file),
                Err(error) => problems.push(error.to_string()),
            }
        }
    };
    note(confidence::write(cells, &reports, &agreement));
    note(collated::write(cells, &reports));
    let comparison = cells
        .suite
        .sweep
        .is_some()
        .then(|| comparison::of(cells, &reports, &agreement))
        .flatten();
    if let Some(comparison) = &comparison {
        note(comparison.write(cells));
    }
    let shortage = Shortage::of(cells, &reports, cells.cells().len() - not_needed.len());
    let reasons: Vec<String> = shortage.failure.into_iter().chain(problems).collect();
    CellsOutcome {
        reports,
        files,
        not_needed,
        agreement: agreement.into_lines(),
        interrupted,
        failure: (!reasons.is_empty()).then(|| reasons.join("; ")),
        threshold_missed: shortage.threshold_missed,
        strangers,
        comparison: comparison.map(|comparison| comparison.summary()),
    }
}

/// What keeps a suite from being a success, in one line each. A threshold that was missed is the weaker reason: the run did what the config says.
struct Shortage {
    /// Too few successes, and not for thresholds alone.
    failure: Option<String>,
    threshold_missed: Option<String>,
}

impl Shortage {
    /// `total` is how many cells were due.
    fn of(cells: &Cells, reports: &[CellReport], total: usize) -> Self {
        let succeeded = reports.iter().filter(|report| report.end == CellEnd::Succeeded).count();
        let told = |report: &CellReport, reason: &str| {
            let (name, total) = (&cells.cells()[report.index].name, counted(total, "cell"));
            format!("{succeeded} of {total} succeeded; {name}: {reason}")
        };
        let failed = reports.iter().find_map(|report| match &report.end {
            CellEnd::Failed(reason) => Some(told(report, reason)),
            _ => None,
        });
        let threshold_missed = reports.iter().find_map(|report| match &report.end {
            CellEnd::ThresholdMissed(reason) => Some(told(report, reason)),
            _ => None,
        });
        let is_enough = succeeded >= total.min(ENOUGH);
        let failure = match (failed, &threshold_missed) {
            _ if is_enough => None,
            (Some(failed), _) => Some(failed),
            (None, Some(_)) => None,
            (None, None) => Some(format!("{succeeded} of {} succeeded", counted(total, "cell"))),
        };
        Self {
            failure,
            threshold_missed,
        }
    }
}
