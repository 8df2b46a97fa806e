//! `ringload profile` with a sweep or several trials: runs the cells and shows each as it ends, then all of them.

use std::path::{Path, PathBuf};

use crate::console;
use crate::engine::{self, Cells, CellsError, CellsOptions, Event, RunOptions};
use crate::exit::Exit;
use crate::number::grouped;
use crate::progress::Progress;
use crate::table;
use crate::{args::Ui, cell_table::CellTable};

/// Directories of other cells that are named; the rest is counted.
const STRANGERS_SHOWN: usize = 10;

/// What the flags say about running cells.
pub(crate) struct Wishes {
    pub(crate) ui: Ui,
    pub(crate) resume: bool,
    pub(crate) fail_on_client_limited: bool,
}

/// Runs the cells of a suite. The caller watches for signals.
pub(crate) fn run(cells: &Cells, run: RunOptions, wishes: &Wishes) -> Exit {
    cells.warnings().iter().for_each(|warning| console::warn(warning));
    super::profile::note_readiness(cells.readiness_timeout());
    let options = CellsOptions {
        run,
        resume: wishes.resume,
    };
    let mut shown = Shown {
        cells,
        ui: wishes.ui,
        progress: Progress::on_stderr(wishes.ui),
        table: CellTable::new(
            cells.cells().iter().map(|cell| {
                let place = cell
                    .directory
                    .strip_prefix(cells.directory())
                    .unwrap_or(&cell.directory);
                (cell.name.clone(), place.display().to_string())
            }),
            cells.judges_requests(),
        ),
        notes: Vec::new(),
        tables: Vec::new(),
        limit: None,
    };
    let outcome = match engine::run_cells(cells, &options, &mut |event| shown.take(&event)) {
        Ok(outcome) => outcome,
        Err(error) => return refused(&error),
    };
    shown.progress.clear();
    let Shown {
        table,
        notes,
        tables,
        limit,
        ..
    } = shown;
    let mut text = String::new();
    for note in &notes {
        text.push_str(note);
    }
    if let Some(line) = strangers_line(cells.directory(), &outcome.strangers) {
        text.push_str(&format!("warning: {line}\n"));
    }
    text.push_str(&table.all(&outcome.not_needed));
    for line in &outcome.agreement {
        text.push_str(&format!("{line}\n"));
    }
    text.push_str(&engine::best_lines(&outcome));
    text.push_str(&tables.concat());
    text.push('\n');
    text.push_str(&table::render_files(cells.directory(), &outcome.files));
    if let Err(error) = console::print(&text) {
        console::note(&format!(
            "error: results cannot be written to standard output: {error}; they are in {}",
            cells.directory().display()
        ));
        return outcome.interrupted.map_or(Exit::RunFailed, Exit::Interrupted);
    }
    let limit = limit.filter(|_| wishes.fail_on_client_limited);
    let (exit, reason) = super::profile::verdict(
        outcome.interrupted,
        outcome.failure.as_deref(),
        outcome.threshold_missed.as_deref(),
        limit,
    );
    if let Some(reason) = reason {
        console::note(&format!("error: {reason}"));
    }
    exit
}

/// Results of other values in the same directory, which a reader might take for some of this sweep.
fn strangers_line(root: &Path, strangers: &[PathBuf]) -> Option<String> {
    if strangers.is_empty() {
        return None;
    }
    let relative = |path: &PathBuf| path.strip_prefix(root).unwrap_or(path).display().to_string();
    let mut names: Vec<String> = strangers.iter().take(STRANGERS_SHOWN).map(relative).collect();
    if strangers.len() > STRANGERS_SHOWN {
        names.push(format!("and {} more", strangers.len() - STRANGERS_SHOWN));
    }
    let directories = match strangers.len() {
        1 => "the cell directory".to_owned(),
        count => format!("{} cell directories", grouped(count as u64)),
    };
    Some(format!(
        "{directories} of an earlier attempt with other values: not part of this sweep, and in none of its figures: {}",
        names.join(", ")
    ))
}

fn refused(error: &CellsError) -> Exit {
    console::note(&console::error_block(error));
    if let CellsError::Run(run) = error
        && let Some(signal) = run.interrupted_by()
    {
        return Exit::Interrupted(signal);
    }
    if error.is_usage() { Exit::Usage } else { Exit::RunFailed }
}

/// What is on the console, and what is to be said at the end.
struct Shown<'a> {
    cells: &'a Cells,
    ui: Ui,
    progress: Progress<std::io::Stderr>,
    table: CellTable,
    notes: Vec<String>,
    /// Tables of cells, ready to be printed.
    tables: Vec<String>,
    /// The first cell in which the client was the limit.
    limit: Option<String>,
}

impl Shown<'_> {
    fn take(&mut self, event: &Event<'_>) {
        match event {
            Event::Started(index, cell) => {
                let prefix = format!("cell {}/{} {}  ", index + 1, self.cells.cells().len(), cell.name);
                self.progress = Progress::of_cell(self.ui, prefix);
            }
            Event::Live(snapshot) => self.progress.show(snapshot),
            Event::Cooldown(pause) if self.ui != Ui::None => {
                self.progress.clear();
                console::note(&format!("cooling down for {:.1} s", pause.as_secs_f64()));
            }
            Event::Told(line) if self.ui != Ui::None => {
                self.progress.clear();
                console::note(line);
            }
            Event::Cooldown(_) | Event::Told(_) => {}
            Event::Ended(report, outcome) => {
                self.progress.clear();
                let name = &self.cells.cells()[report.index].name;
                if let Some(outcome) = outcome {
                    let lines = engine::client_lines(&outcome.report);
                    if !lines.is_empty() {
                        self.notes.push(format!("cell {name}: {lines}"));
                    }
                    let told = self.cells.warnings();
                    for warning in outcome.warnings.iter().filter(|warning| !told.contains(warning)) {
                        let line = format!("warning: {warning}\n");
                        if !self.notes.contains(&line) {
                            self.notes.push(line);
                        }
                    }
                    if outcome.shows_trace_timing {
                        for (title, rows) in engine::trace_tables(&outcome.report) {
                            let table = table::render_table(&format!("cell {name}: {title}"), &rows);
                            self.tables.push(format!("\n{table}"));
                        }
                    }
                    let limit = engine::client_limit(&outcome.report);
                    self.limit = self.limit.take().or(limit.map(|limit| format!("cell {name}: {limit}")));
                }
                let line = self.table.add(engine::cell_row(report, *outcome));
                if self.cells.shows_table() && self.ui != Ui::None {
                    console::note(line.trim_end());
                }
            }
        }
    }
}
