//! The trials of all variations, compared as they end: which cells are still to run, and what is said about it.

use serde_json::Value;

use super::convergence::{Sample, Trials, what};
use super::sequence::{CellEnd, CellReport};
use super::{Cell, Cells};
use crate::artifact;
use crate::config::{Convergence, ConvergenceMode};

/// What is known so far. Without a rule of convergence nothing is, and every cell runs.
pub(super) struct Agreement<'a> {
    cells: &'a Cells,
    rule: Option<&'a Convergence>,
    /// By variation.
    trials: Vec<Trials>,
    /// One for each variation whose trials are over, in the order of their ends.
    lines: Vec<String>,
}

impl<'a> Agreement<'a> {
    pub(super) fn of(cells: &'a Cells) -> Self {
        Self {
            cells,
            rule: cells.convergence(),
            trials: vec![Trials::new(cells.trials()); cells.variations()],
            lines: Vec::new(),
        }
    }

    /// Takes a cell that has ended, unless those of its variation have agreed. `tell` gets what people should know.
    pub(super) fn take(&mut self, report: &CellReport, tell: &mut dyn FnMut(&str)) {
        let cell = &self.cells.cells()[report.index];
        let Some(rule) = self.rule.filter(|_| !self.is_over(cell)) else {
            return;
        };
        let sample = match report.end {
            CellEnd::Succeeded => self.sample(rule, cell, report, tell),
            _ => None,
        };
        let confidence = self.cells.suite.multi_run.confidence_level;
        let most = self.cells.trials();
        let trials = &mut self.trials[cell.variation];
        if trials.take(rule, confidence, cell.trial, sample) || trials.runs() == most {
            let line = match &self.cells.suite.sweep {
                Some(_) => format!(
                    "{}: {}",
                    self.cells.suite.variations[cell.variation].label,
                    trials.line(rule, most)
                ),
                None => trials.line(rule, most),
            };
            tell(&line);
            self.lines.push(line);
        }
    }

    /// What a trial is compared by; `None` if it does not have it.
    fn sample(
        &self,
        rule: &Convergence,
        cell: &Cell,
        report: &CellReport,
        tell: &mut dyn FnMut(&str),
    ) -> Option<Sample> {
        let sample = match rule.mode {
            ConvergenceMode::CiWidth | ConvergenceMode::Cv => {
                let figure = report
                    .metrics
                    .get(rule.metric)
                    .and_then(|metric| metric[rule.stat].as_f64());
                figure.map(Sample::Figure)
            }
            ConvergenceMode::Distribution => {
                match artifact::read_values(&cell.directory, self.cells.prefix(), &|tag| tag == rule.metric) {
                    Ok(mut values) => values.remove(rule.metric).map(Sample::Requests),
                    Err(error) => {
                        tell(&format!(
                            "{}: {error}, so it does not count towards convergence",
                            cell.name
                        ));
                        return None;
                    }
                }
            }
        };
        if sample.is_none() {
            tell(&format!(
                "{}: no {}, so it does not count towards convergence",
                cell.name,
                what(rule)
            ));
        }
        sample
    }

    /// Whether the trials of this cell's variation have agreed.
    pub(super) fn is_over(&self, cell: &Cell) -> bool {
        self.trials[cell.variation].settled().is_some()
    }

    /// Whether this cell comes after the trial with which they agreed.
    pub(super) fn is_beyond(&self, cell: &Cell) -> bool {
        self.trials[cell.variation]
            .settled()
            .is_some_and(|settled| cell.trial > settled)
    }

    /// What came of a variation, for artifacts; `None` without a rule.
    pub(super) fn to_json(&self, variation: usize) -> Option<Value> {
        let rule = self.rule?;
        Some(self.trials[variation].to_json(rule, self.cells.trials()))
    }

    /// What was said at the ends of variations.
    pub(super) fn into_lines(self) -> Vec<String> {
        self.lines
    }
}
