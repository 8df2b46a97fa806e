//! Going on with a suite that was interrupted: which cells have finished, and whether they are cells of this config.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::record::{DATASET_SHA256, SUCCEEDED, SYSTEM_PROMPT_SHA256};
use super::{Cell, Cells};
use crate::artifact::RUN_CONFIG;
use crate::config::Diagnostics;
use crate::plan::DatasetFile;

/// What an earlier attempt left of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Earlier {
    /// Nothing.
    Nothing,
    /// A cell that did not succeed; it runs again, in place of what is there. With the seed that it had drawn.
    Unfinished { seed: u64 },
    /// A cell that succeeded.
    Finished,
}

/// An earlier attempt that this config cannot go on with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// A cell ran something else.
    #[error(
        "--resume: the config has changed since {} ran: {difference}; restore it, or choose another directory, or give --overwrite to start over",
        .directory.display()
    )]
    Changed {
        /// The cell's directory.
        directory: PathBuf,
        /// The first difference, with its key.
        difference: String,
    },
    /// A cell sent other prompts.
    #[error(
        "--resume: the data set file {file} has changed since {} ran; restore it, or choose another directory, or give --overwrite to start over",
        .directory.display()
    )]
    DatasetChanged {
        /// The cell's directory.
        directory: PathBuf,
        /// The file, as the config names it.
        file: String,
    },
    /// A file of a cell that says nothing.
    #[error("--resume: {} cannot be read: {reason}; remove the directory of this cell to run it again", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A plan that cannot be built, which was possible a moment ago.
    #[error("{0}")]
    Plan(Diagnostics),
}

impl Cells {
    /// How many cells an earlier attempt finished, so that a run with `--resume` would keep them.
    ///
    /// # Errors
    /// Why it would be refused.
    pub fn finished(&self) -> Result<usize, ResumeError> {
        let mut count = 0;
        for cell in self.cells() {
            count += usize::from(look(self, cell)? == Earlier::Finished);
        }
        Ok(count)
    }
}

/// Looks at what is in a cell's directory.
///
/// # Errors
/// What was run there differs from what the cell would run, or cannot be told.
pub(super) fn look(cells: &Cells, cell: &Cell) -> Result<Earlier, ResumeError> {
    let path = cell.directory.join(RUN_CONFIG);
    if !path.exists() {
        return Ok(Earlier::Nothing);
    }
    let unreadable = |reason: String| ResumeError::Unreadable {
        path: path.clone(),
        reason,
    };
    let text = fs::read(&path).map_err(|error| unreadable(error.to_string()))?;
    let before: Value = serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
    let seed = before["random_seed"]
        .as_u64()
        .ok_or_else(|| unreadable("it has no random_seed".into()))?;
    // A seed that was drawn is drawn no second time.
    let plan = cells
        .plan_with(cell, cell.seed.or(Some(seed)))
        .map_err(ResumeError::Plan)?;
    let changed = |difference| ResumeError::Changed {
        directory: cell.directory.clone(),
        difference,
    };
    let file_changed = |file: &DatasetFile| ResumeError::DatasetChanged {
        directory: cell.directory.clone(),
        file: file.path.clone(),
    };
    if before["ringload"]["plan_hash"] != plan.fingerprint().as_str() {
        if plan.seed != seed {
            return Err(changed(format!("random_seed was {seed} and is {}", plan.seed)));
        }
        let (mut was, mut is) = (before["cfg"].clone(), plan.input_config.clone());
        for config in [&mut was, &mut is] {
            if let Value::Object(config) = config {
                config.retain(|key, _| key != "artifacts" && key != "runtime");
            }
        }
        let difference = difference("", &was, &is);
        // What that file holds is part of the plan, and not of the config.
        if let (None, Some(file)) = (&difference, &plan.system_prompt_file)
            && before["ringload"][SYSTEM_PROMPT_SHA256] != file.sha256.as_str()
        {
            return Err(file_changed(file));
        }
        let difference = difference.unwrap_or_else(|| "it was written by another version".into());
        return Err(changed(difference));
    }
    if let Some(file) = &plan.dataset_file
        && before["ringload"][DATASET_SHA256] != file.sha256.as_str()
    {
        return Err(file_changed(file));
    }
    if before["ringload"]["status"] == SUCCEEDED {
        Ok(Earlier::Finished)
    } else {
        Ok(Earlier::Unfinished { seed })
    }
}

/// The first place where two configs differ, and both values.
fn difference(path: &str, was: &Value, is: &Value) -> Option<String> {
    let below = |key: &str| {
        if path.is_empty() {
            key.to_owned()
        } else {
            format!("{path}.{key}")
        }
    };
    match (was, is) {
        _ if was == is => None,
        (Value::Object(a), Value::Object(b)) => {
            let missing = &Value::Null;
            let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            keys.into_iter().find_map(|key| {
                difference(
                    &below(key),
                    a.get(key).unwrap_or(missing),
                    b.get(key).unwrap_or(missing),
                )
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .enumerate()
            .find_map(|(at, (was, is))| difference(&format!("{path}[{at}]"), was, is)),
        _ => Some(format!("{path} was {} and is {}", told(was), told(is))),
    }
}

fn told(value: &Value) -> String {
    match value {
        Value::Null => "not set".into(),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "a mapping".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_difference_is_named_with_its_key() {
        let was = json!({"phases": [{"name": "a", "requests": 20}], "endpoint": {"streaming": true}});
        for (is, told) in [
            (
                json!({"phases": [{"name": "a", "requests": 30}], "endpoint": {"streaming": true}}),
                "phases[0].requests was 20 and is 30",
            ),
            (
                json!({"phases": [{"name": "a", "requests": 20}], "endpoint": {}}),
                "endpoint.streaming was true and is not set",
            ),
            (
                json!({"phases": [{"name": "a", "requests": 20, "seamless": true}], "endpoint": {"streaming": true}}),
                "phases[0].seamless was not set and is true",
            ),
            (
                json!({"phases": [], "endpoint": {"streaming": true}}),
                "phases was a list of 1 and is a list of 0",
            ),
        ] {
            assert_eq!(difference("", &was, &is).as_deref(), Some(told));
        }
        assert_eq!(difference("", &was, &was.clone()), None);
    }
}
