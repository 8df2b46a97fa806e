//! Running cells one after another, with pauses, and writing what they come to together.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::resume::{Earlier, ResumeError, look};
use super::{Cell, Cells, comparison, confidence, record};
use crate::artifact::{self, ArtifactError};
use crate::interrupt::Interrupt;
use crate::run::{self, LiveSnapshot, RunError, RunOptions, RunOutcome};

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
}

/// How a cell ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CellEnd {
    /// As planned, with successful requests.
    Succeeded,
    /// Why not, in one line.
    Failed(String),
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
    /// The signal that ended the suite early.
    pub interrupted: Option<i32>,
    /// Why the suite as a whole failed, in one line; `None`: it did not.
    pub failure: Option<String>,
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
        previous: None,
    };
    let interrupted = sequence.run(&earlier, watch)?;
    Ok(conclude(cells, sequence.reports, interrupted))
}

struct Sequence<'a> {
    cells: &'a Cells,
    options: &'a CellsOptions,
    reports: Vec<CellReport>,
    /// The cell that ran last in this process.
    previous: Option<usize>,
}

impl Sequence<'_> {
    /// Returns the signal that ended it early.
    fn run(&mut self, earlier: &[Earlier], watch: &mut dyn FnMut(Event<'_>)) -> Result<Option<i32>, CellsError> {
        let interrupt = &self.options.run.interrupt;
        for (index, cell) in self.cells.cells().iter().enumerate() {
            if let Some(report) = self.kept(index, cell, earlier[index]) {
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
            self.reports.push(report);
            if signal.is_some() {
                return Ok(signal);
            }
            let failed = self
                .reports
                .iter()
                .filter(|report| matches!(report.end, CellEnd::Failed(_)));
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
    let reason = outcome.failure.as_ref().or(outcome.threshold_missed.as_ref());
    match (outcome.interrupted, reason) {
        (Some(signal), _) => CellEnd::Interrupted(signal),
        (None, Some(reason)) => CellEnd::Failed(reason.clone()),
        (None, None) if outcome.report.aggregate.counts.succeeded == 0 => {
            CellEnd::Failed("no request succeeded".into())
        }
        (None, None) => CellEnd::Succeeded,
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

fn conclude(cells: &Cells, reports: Vec<CellReport>, interrupted: Option<i32>) -> CellsOutcome {
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
    note(confidence::write(cells, &reports));
    let comparison = cells
        .suite
        .sweep
        .is_some()
        .then(|| comparison::of(cells, &reports))
        .flatten();
    if let Some(comparison) = &comparison {
        note(comparison.write(cells));
    }
    let total = cells.cells().len();
    let succeeded = reports.iter().filter(|report| report.end == CellEnd::Succeeded).count();
    let too_few = (succeeded < total.min(ENOUGH)).then(|| {
        let first = reports.iter().find_map(|report| match &report.end {
            CellEnd::Failed(reason) => Some(format!("; {}: {reason}", cells.cells()[report.index].name)),
            _ => None,
        });
        format!("{succeeded} of {total} cells succeeded{}", first.unwrap_or_default())
    });
    let reasons: Vec<String> = too_few.into_iter().chain(problems).collect();
    CellsOutcome {
        reports,
        files,
        interrupted,
        failure: (!reasons.is_empty()).then(|| reasons.join("; ")),
        comparison: comparison.map(|comparison| comparison.summary()),
    }
}
