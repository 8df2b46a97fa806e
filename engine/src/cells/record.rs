//! `run_config.json`: what a cell was asked to do, and how it ended.
//!
//! It is written before the load with the status `running` and again, last of all files of the cell, with the end. So a finished cell is known by
//! this one file, which also names what was run.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::sequence::CellEnd;
use super::{Cell, Cells};
use crate::artifact::{self, ArtifactError, RUN_CONFIG};
use crate::plan::Plan;

/// Digest of the data set's file, under `ringload`.
pub(super) const DATASET_SHA256: &str = "dataset_sha256";
/// Digest of the file of the system's message, beside it.
pub(super) const SYSTEM_PROMPT_SHA256: &str = "system_prompt_sha256";
/// Statuses of a cell under `ringload`.
const RUNNING: &str = "running";
pub(super) const SUCCEEDED: &str = "succeeded";
const FAILED: &str = "failed";
const INTERRUPTED: &str = "interrupted";

/// Writes the file; `end` is `None` before the load.
///
/// # Errors
/// If it cannot be written.
pub(super) fn write(cells: &Cells, cell: &Cell, plan: &Plan, end: Option<&CellEnd>) -> Result<PathBuf, ArtifactError> {
    artifact::write_document(&cell.directory.join(RUN_CONFIG), &document(cells, cell, plan, end))
}

/// Takes back the file of a cell that sent nothing, with the directories that this leaves empty, so that nothing looks like results to the next
/// attempt. Best effort: the reason of the refusal is worth more.
pub(super) fn remove(cells: &Cells, cell: &Cell) {
    let _ = std::fs::remove_file(cell.directory.join(RUN_CONFIG));
    for directory in cell
        .directory
        .ancestors()
        .take_while(|directory| directory.starts_with(cells.directory()))
    {
        if std::fs::remove_dir(directory).is_err() {
            return;
        }
    }
}

fn document(cells: &Cells, cell: &Cell, plan: &Plan, end: Option<&CellEnd>) -> Value {
    let variation = &cells.suite.variations[cell.variation];
    let identity = cells.identity(cell);
    let (status, reason) = match end {
        None => (RUNNING, None),
        Some(CellEnd::Succeeded) => (SUCCEEDED, None),
        Some(CellEnd::Failed(reason) | CellEnd::ThresholdMissed(reason)) => (FAILED, Some(reason)),
        Some(CellEnd::Interrupted(_)) => (INTERRUPTED, None),
    };
    let mut additions = json!({ "status": status, "plan_hash": plan.fingerprint() });
    if let Some(file) = &plan.dataset_file {
        additions[DATASET_SHA256] = json!(file.sha256);
    }
    if let Some(file) = &plan.system_prompt_file {
        additions[SYSTEM_PROMPT_SHA256] = json!(file.sha256);
    }
    if let Some(reason) = reason {
        additions["reason"] = json!(reason);
    }
    json!({
        "benchmark_id": plan.benchmark_id,
        "sweep_id": identity.sweep_id,
        "cfg": plan.input_config,
        "variation": {
            "index": identity.variation_index,
            "label": identity.variation_label,
            "values": identity.variation_values,
        },
        "trial": cell.trial,
        "artifact_dir": cell.directory,
        "label": identity.run_label,
        "cli_command": plan.command,
        "random_seed": plan.seed,
        "variables": variation.variables,
        "resolved": {},
        "ringload": additions,
    })
}
