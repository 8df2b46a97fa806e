//! Files beside those of single runs: what a directory of several runs holds of its own, and how to tell it from what others put there.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::directory::{AtomicFile, free_name, remove, results_in};
use super::error::ArtifactError;
use super::json;
use super::names::Names;
use crate::report::Report;

/// What stands for the version of the tool in every document.
pub const TOOL_VERSION: &str = json::TOOL_VERSION;
/// What one of several runs was asked to do.
pub const RUN_CONFIG: &str = "run_config.json";
/// Figures over the trials of a variation, without their endings.
pub const CONFIDENCE: &str = "profile_export_aiperf_aggregate";
/// Figures over the variations of a sweep, without their endings.
pub const COMPARISON: &str = "profile_export_aiperf_sweep";

/// How far below the common directory its files are: `profile_runs/trial_0001/CELL`.
const DEEPEST: usize = 4;

/// Writes a document with an indent of two spaces, all of it or nothing.
///
/// # Errors
/// If it cannot be written.
pub fn write_document(path: &Path, document: &Value) -> Result<PathBuf, ArtifactError> {
    let mut file = AtomicFile::create(path.to_owned())?;
    match super::pretty(document, &mut file) {
        Ok(()) => file.commit(),
        Err(source) => Err(unwritten(path, source)),
    }
}

/// Writes a text, all of it or nothing.
///
/// # Errors
/// If it cannot be written.
pub fn write_text(path: &Path, text: &[u8]) -> Result<PathBuf, ArtifactError> {
    let mut file = AtomicFile::create(path.to_owned())?;
    match file.write_all(text) {
        Ok(()) => file.commit(),
        Err(source) => Err(unwritten(path, source)),
    }
}

fn unwritten(path: &Path, source: io::Error) -> ArtifactError {
    ArtifactError::Write {
        path: path.to_owned(),
        source,
    }
}

/// The metrics of a run by tag, as its summary has them.
pub fn metrics(report: &Report) -> Map<String, Value> {
    json::metrics(report)
}

/// The metrics of a run that has ended, read back from its summary; `None` if there is none that can be read.
pub fn read_metrics(directory: &Path, prefix: Option<&str>) -> Option<Map<String, Value>> {
    let text = fs::read(directory.join(Names::new(prefix)?.json())).ok()?;
    let Value::Object(document) = serde_json::from_slice(&text).ok()? else {
        return None;
    };
    // A metric is what has a unit.
    Some(
        document
            .into_iter()
            .filter(|(_, value)| value.get("unit").is_some())
            .collect(),
    )
}

/// Refuses a directory that holds results, of one run or of several, unless they may be removed; then removes them.
///
/// # Errors
/// If there are any and they must stay, or they cannot be found or removed.
pub fn clear(root: &Path, prefix: Option<&str>, overwrite: bool) -> Result<(), ArtifactError> {
    let found = removable(root, prefix, overwrite)?;
    // The deepest come last in the walk and go first, so that what they leave empty can go too.
    for (directory, files) in found.iter().rev() {
        remove(directory, files)?;
        if directory != root {
            // Fails on a directory with files of somebody else, which is right.
            let _ = fs::remove_dir(directory);
        }
    }
    Ok(())
}

/// The same refusal; removes nothing.
///
/// # Errors
/// If there are results and they must stay, or they cannot be found.
pub fn check(root: &Path, prefix: Option<&str>, overwrite: bool) -> Result<(), ArtifactError> {
    removable(root, prefix, overwrite).map(drop)
}

/// Results by directory, parents before children.
fn removable(root: &Path, prefix: Option<&str>, overwrite: bool) -> Result<Found, ArtifactError> {
    let names = Names::new(prefix).ok_or_else(|| ArtifactError::Prefix {
        prefix: prefix.unwrap_or_default().to_owned(),
    })?;
    let mut found = Vec::new();
    if root.exists() {
        find(root, root, 0, &names, &mut found).map_err(|source| ArtifactError::Unusable {
            directory: root.to_owned(),
            source,
        })?;
    }
    let first = found
        .iter()
        .find_map(|(directory, files)| Some((directory, files.first()?)));
    if let (Some((_, first)), false) = (first, overwrite) {
        return Err(ArtifactError::Occupied {
            found: first.strip_prefix(root).unwrap_or(first).display().to_string(),
            free: free_name(root),
            directory: root.to_owned(),
        });
    }
    Ok(found)
}

/// Directories with their results.
type Found = Vec<(PathBuf, Vec<PathBuf>)>;

/// Directories with results below `directory`, itself included, parents before children.
fn find(root: &Path, directory: &Path, depth: usize, names: &Names, found: &mut Found) -> io::Result<()> {
    let own = |name: &str| {
        let aggregate = name.strip_suffix(".json").or_else(|| name.strip_suffix(".csv"));
        aggregate.is_some_and(|stem| stem == CONFIDENCE || stem == COMPARISON)
    };
    let config = directory.join(RUN_CONFIG);
    let mut files = Vec::new();
    // Without one, files of these names below the root are somebody else's.
    if directory == root || config.is_file() {
        files.extend(results_in(directory, names)?);
    }
    if config.is_file() {
        files.push(config);
    }
    let mut children = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            children.push(entry.path());
        } else if entry.file_name().to_str().is_some_and(own) {
            files.push(entry.path());
        }
    }
    children.sort();
    found.push((directory.to_owned(), files));
    if depth < DEEPEST {
        for child in children {
            find(root, &child, depth + 1, names, found)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: &Path) {
        fs::create_dir_all(path.parent().expect("it has one")).expect("a directory");
        fs::write(path, "{}").expect("a file");
    }

    #[test]
    fn results_of_several_runs_are_refused_or_removed_whole() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("results");
        clear(&root, None, false).unwrap();
        let ours = [
            "aggregate/concurrency_2/profile_export_aiperf_aggregate.json",
            "sweep_aggregate/profile_export_aiperf_sweep.csv",
            "profile_runs/trial_0001/concurrency_2/run_config.json",
            "profile_runs/trial_0001/concurrency_2/phases/a/profile_export_aiperf.json",
            "profile_runs/trial_0001/concurrency_2/inputs.json",
        ];
        let theirs = ["aggregate/notes.md", "old/inputs.json"];
        ours.iter().chain(&theirs).for_each(|name| put(&root.join(name)));
        let refused = clear(&root, None, false).unwrap_err();
        assert!(matches!(refused, ArtifactError::Occupied { .. }), "{refused}");
        assert!(ours.iter().all(|name| root.join(name).exists()));
        clear(&root, None, true).unwrap();
        assert!(ours.iter().all(|name| !root.join(name).exists()));
        assert!(theirs.iter().all(|name| root.join(name).exists()));
        assert!(!root.join("profile_runs").exists(), "what was left empty is gone");
    }
}
