//! Several runs from one file: a cell for each variation of a sweep and each trial, one after another in this process.
//!
//! ```text
//! suite (config) -> cells: directory, seed, trial -> every plan is checked once, so that no mistake waits in the last cell
//!   for each cell: plan -> run (engine made anew, joined at the end) -> run_config.json
//! figures of all cells -> one aggregate per variation -> one comparison of the sweep
//! ```
//!
//! A cell that fails is recorded, and the others run. What finished before an interrupt is aggregated and can be resumed from.

mod agreement;
mod collated;
mod comparison;
mod confidence;
mod convergence;
mod layout;
mod record;
mod resume;
mod seed;
mod sequence;
mod statistics;

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

use crate::artifact::ArtifactError;
use crate::config::{Config, Convergence, Diagnostics, PhaseKind, Suite, Variation};
use crate::plan::{self, BuildOptions, CellIdentity, Outline, Plan};
use crate::units::Nanos;
use layout::Layout;

pub use resume::ResumeError;
pub use sequence::{CellEnd, CellReport, CellsError, CellsOptions, CellsOutcome, Event, run};

/// One run: a variation in a trial.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Which variation of the suite.
    pub variation: usize,
    /// Which repetition of it, from 0.
    pub trial: u32,
    /// What people call it: the label of its variation, and the trial if there are several.
    pub name: String,
    /// Its artifacts.
    pub directory: PathBuf,
    /// Root of its random streams; `None` draws one.
    seed: Option<u64>,
}

impl Cell {
    /// Whether its random streams have a root before it runs: from the file, the command line, or the rules of several runs.
    pub fn is_seeded(&self) -> bool {
        self.seed.is_some()
    }

    /// The name of its trial in artifacts.
    fn run_label(&self) -> String {
        format!("run_{:04}", self.trial + 1)
    }
}

/// All cells of a suite in the order of running, checked.
#[derive(Debug)]
pub struct Cells {
    suite: Suite,
    options: BuildOptions,
    layout: Layout,
    base: PathBuf,
    /// Identity of the suite as a whole.
    id: String,
    cells: Vec<Cell>,
    warnings: Vec<String>,
    /// What the first cell runs.
    first: Outline,
    /// Whether the drain of any phase of any cell ends by the silence of its requests.
    ends_drains_by_silence: bool,
}

/// What the checks of all variations found.
struct Checked {
    first: Outline,
    warnings: Vec<String>,
    ends_drains_by_silence: bool,
}

impl Cells {
    /// Lays out the cells and checks the plan of each variation once, so that every mistake is found before any load.
    ///
    /// # Errors
    /// Mistakes that show only when everything is put together.
    pub fn prepare(suite: Suite, options: BuildOptions) -> Result<Self, Diagnostics> {
        let layout = Layout::of(&suite);
        let first = &suite.variations[0].config;
        check_overrides(&suite, &options)?;
        let base = options
            .output_directory
            .clone()
            .unwrap_or_else(|| plan::artifact_directory(suite.variations.iter().map(|variation| &variation.config)));
        let base = std::path::absolute(&base).map_err(|error| {
            suite.mistake(format!(
                "cannot resolve the artifact directory {}: {error}",
                base.display()
            ))
        })?;
        let root = seed::root(options.seed, first.random_seed, suite.multi_run.set_consistent_seed);
        let cells: Vec<Cell> = layout
            .order(suite.variations.len())
            .into_iter()
            .map(|(variation, trial)| {
                let of = &suite.variations[variation];
                Cell {
                    variation,
                    trial,
                    name: name(&suite, of, trial),
                    directory: layout.cell(&base, &of.directory, trial),
                    seed: root.map(|root| seed::of(root, &suite, variation, trial)),
                }
            })
            .collect();
        let Checked {
            first,
            warnings,
            ends_drains_by_silence,
        } = check(&suite, &options, &cells)?;
        Ok(Self {
            suite,
            options,
            layout,
            base,
            id: uuid(),
            cells,
            warnings,
            first,
            ends_drains_by_silence,
        })
    }

    /// What the first cell runs, but for its requests.
    pub fn first(&self) -> &Outline {
        &self.first
    }

    /// How long the first cell may wait for the servers to be ready; `None` does not wait. The other cells find them ready.
    pub fn readiness_timeout(&self) -> Option<Nanos> {
        self.first.readiness.as_ref().map(|readiness| readiness.timeout)
    }

    /// The cells in the order of running.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The directory that holds all of them.
    pub fn directory(&self) -> &Path {
        &self.base
    }

    /// Whether finished cells are to be shown.
    pub fn shows_table(&self) -> bool {
        self.suite.shows_table
    }

    /// Whether the drain of any phase of any cell ends by the silence of its requests, see [`plan::ends_drains_by_silence`].
    pub fn ends_drains_by_silence(&self) -> bool {
        self.ends_drains_by_silence
    }

    /// Whether any variation has service levels for its requests.
    pub fn judges_requests(&self) -> bool {
        let is_judged = |variation: &Variation| !variation.config.slos.is_empty();
        self.suite.variations.iter().any(is_judged)
    }

    /// Advice on all plans, each line once.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// How often each variation runs.
    pub fn trials(&self) -> u32 {
        self.suite.multi_run.num_runs
    }

    /// When a variation runs no more, before it has run that often; `None` runs it that often.
    pub fn convergence(&self) -> Option<&Convergence> {
        self.suite.multi_run.convergence.as_ref()
    }

    /// How many variations there are.
    pub fn variations(&self) -> usize {
        self.suite.variations.len()
    }

    /// What a cell runs.
    ///
    /// # Errors
    /// Mistakes that show only when everything is put together.
    pub fn plan(&self, cell: &Cell) -> Result<Plan, Diagnostics> {
        self.plan_with(cell, cell.seed)
    }

    fn plan_with(&self, cell: &Cell, seed: Option<u64>) -> Result<Plan, Diagnostics> {
        let options = options_of(&self.options, cell, seed);
        let mut plan = plan::build(&of_trial(&self.suite, cell), &options)?;
        plan.cell = Some(self.identity(cell));
        Ok(plan)
    }

    fn identity(&self, cell: &Cell) -> CellIdentity {
        let variation = &self.suite.variations[cell.variation];
        CellIdentity {
            sweep_id: self.id.clone(),
            run_label: cell.run_label(),
            variation_index: cell.variation,
            variation_label: variation.label.clone(),
            variation_values: variation.values.iter().cloned().collect(),
        }
    }

    fn prefix(&self) -> Option<&str> {
        self.suite.variations[0].config.artifacts.prefix.as_deref()
    }

    /// Whether the common directory holds results that may not be overwritten. Changes nothing.
    ///
    /// # Errors
    /// If it does, or cannot be read.
    pub fn check_directory(&self) -> Result<(), ArtifactError> {
        crate::artifact::check(&self.base, self.prefix(), self.options.overwrite)
    }

    /// Refuses a common directory with results, or removes them.
    ///
    /// # Errors
    /// Results that must stay, or cannot be removed.
    fn clear(&self) -> Result<(), ArtifactError> {
        crate::artifact::clear(&self.base, self.prefix(), self.options.overwrite)
    }
}

/// Checks what will run; returns the first cell in outline and the advice on all of them. Later trials of a variation differ from its second one
/// by their seed alone.
fn check(suite: &Suite, options: &BuildOptions, cells: &[Cell]) -> Result<Checked, Diagnostics> {
    let mut first = None;
    let mut ends_drains_by_silence = false;
    let mut warnings = trial_warnings(suite);
    for cell in cells.iter().filter(|cell| cell.trial < 2) {
        let checked = plan::check(&of_trial(suite, cell), &options_of(options, cell, cell.seed));
        let outline = checked.map_err(|mistakes| {
            if suite.sweep.is_some() {
                mistakes.in_variation(&suite.variations[cell.variation].label)
            } else {
                mistakes
            }
        })?;
        for warning in &outline.warnings {
            if !warnings.contains(warning) {
                warnings.push(warning.clone());
            }
        }
        ends_drains_by_silence |= plan::ends_drains_by_silence(&outline.phases);
        first = first.or(Some(outline));
    }
    Ok(Checked {
        first: first.expect("a suite has a cell, and its first is a first trial"),
        warnings,
        ends_drains_by_silence,
    })
}

/// What a cell decides beside its config.
fn options_of(options: &BuildOptions, cell: &Cell, seed: Option<u64>) -> BuildOptions {
    BuildOptions {
        output_directory: Some(cell.directory.clone()),
        // What may be removed is decided for the common directory.
        overwrite: false,
        benchmark_id: Some(format!("{:016x}{:016x}", draw_u64(), draw_u64())),
        seed,
        trial: cell.trial,
        ..options.clone()
    }
}

fn name(suite: &Suite, variation: &Variation, trial: u32) -> String {
    let most = match suite.multi_run.convergence {
        Some(_) => "at most ",
        None => "",
    };
    let run = format!("run {} of {most}{}", trial + 1, suite.multi_run.num_runs);
    match (suite.sweep.is_some(), suite.multi_run.num_runs > 1) {
        (true, true) => format!("{} ({run})", variation.label),
        (true, false) => variation.label.clone(),
        (false, _) => run,
    }
}

/// A flag that the sweep would override, or that would override the sweep, leaves open what was meant.
fn check_overrides(suite: &Suite, options: &BuildOptions) -> Result<(), Diagnostics> {
    if options.target_override.is_some()
        && let Some(path) = suite.swept("endpoint.url")
    {
        let message = format!("--mock replaces the server, and the sweep varies {path}: remove one of them");
        return Err(suite.mistake(message));
    }
    let dir = |variation: &Variation| variation.config.artifacts.dir.clone();
    if suite
        .variations
        .iter()
        .any(|variation| dir(variation) != dir(&suite.variations[0]))
    {
        return Err(suite.mistake(
            "artifacts.dir differs between variations: every cell has a directory of its own below a common one; write artifacts.dir once".into(),
        ));
    }
    Ok(())
}

/// Whether later trials of a variation leave its warmup out. Never when the server's cache is emptied before each: that would measure a cold one.
fn drops_warmup(suite: &Suite, config: &Config) -> bool {
    suite.multi_run.disable_warmup_after_first && config.endpoint.reset_kv_cache.is_none()
}

fn has_warmup(config: &Config) -> bool {
    config.phases.iter().any(|phase| phase.kind == PhaseKind::Warmup)
}

/// The config of a cell: that of its variation, after the first trial without warmup phases.
fn of_trial(suite: &Suite, cell: &Cell) -> Config {
    let mut config = suite.variations[cell.variation].config.clone();
    if cell.trial > 0 && drops_warmup(suite, &config) {
        config.phases.retain(|phase| phase.kind != PhaseKind::Warmup);
        if let Some(first) = config.phases.first_mut() {
            // There is no phase left that it could join on to.
            first.seamless = false;
        }
    }
    config
}

fn trial_warnings(suite: &Suite) -> Vec<String> {
    let runs = suite.multi_run.num_runs;
    let configs = || {
        suite
            .variations
            .iter()
            .map(|variation| &variation.config)
            .filter(|config| has_warmup(config))
    };
    if runs < 2 || !suite.multi_run.disable_warmup_after_first {
        return Vec::new();
    }
    let keeps = configs().any(|config| !drops_warmup(suite, config));
    let joins = configs().any(|config| {
        let first = config.phases.iter().find(|phase| phase.kind == PhaseKind::Profiling);
        drops_warmup(suite, config) && first.is_some_and(|first| first.seamless)
    });
    let kept = keeps.then(|| {
        format!("runs 2 to {runs} keep their warmup phases, because reset_kv_cache empties the server's cache before each of them")
    });
    let joined = joins.then(|| {
        format!("runs 2 to {runs} leave the warmup out, so their first phase, which is seamless, starts with nothing to join on to")
    });
    kept.into_iter().chain(joined).collect()
}

/// 64 random bits. The standard library seeds its hashers from the operating system and exposes nothing more direct.
fn draw_u64() -> u64 {
    RandomState::new().hash_one(0u8)
}

/// A random identity as text (RFC 9562, version 4).
fn uuid() -> String {
    let (high, low) = (draw_u64(), draw_u64());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        0x8000 | ((low >> 48) & 0x3fff),
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod flag_effects;
#[cfg(test)]
mod tests;
