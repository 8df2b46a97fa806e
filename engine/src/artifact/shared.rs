//! Files beside those of single runs: what a directory of several runs holds of its own, where, and how to tell it from what others put there.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::directory::{AtomicFile, check_writable, files_in, free_name, remove, results_in};
use super::error::ArtifactError;
use super::json;
use super::names::{JOURNAL_NAME, Names, READY};
use crate::report::Report;

/// What stands for the version of the tool in every document.
pub const TOOL_VERSION: &str = json::TOOL_VERSION;
/// What one of several runs was asked to do.
pub const RUN_CONFIG: &str = "run_config.json";
/// Figures over the trials of a variation, without their endings.
pub const CONFIDENCE: &str = "profile_export_aiperf_aggregate";
/// Requests of all trials of a variation together, without its ending.
pub const COLLATED: &str = "profile_export_aiperf_collated";
/// Figures over the variations of a sweep, without their endings.
pub const COMPARISON: &str = "profile_export_aiperf_sweep";

/// Directory of the figures over trials.
pub const AGGREGATE: &str = "aggregate";
/// Directory of the figures over variations.
pub const SWEEP_AGGREGATE: &str = "sweep_aggregate";
/// Directory of the trials.
pub const PROFILE_RUNS: &str = "profile_runs";
/// How the trials of a variation are called; those of a suite without variations are not.
pub const TRIAL: &str = "trial_";

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

/// Whose directory it is that may hold earlier results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// One run. If it is a cell, its [`RUN_CONFIG`] lies there already.
    Run,
    /// Several runs, which have it in common.
    Suite,
}

/// Refuses a directory that holds results, of one run or of several, unless they may be removed; then removes them.
///
/// # Errors
/// If there are any and they must stay, or they cannot be found or removed.
pub fn clear(root: &Path, prefix: Option<&str>, overwrite: bool) -> Result<(), ArtifactError> {
    let (_, found) = removable(root, prefix, overwrite, Owner::Suite)?;
    remove_found(root, &found)
}

/// The same refusal; removes nothing.
///
/// # Errors
/// If there are results and they must stay, or they cannot be found.
pub fn check(root: &Path, prefix: Option<&str>, overwrite: bool) -> Result<(), ArtifactError> {
    removable(root, prefix, overwrite, Owner::Suite)?;
    check_writable(root)
}

/// The names of the files of this run, and results by directory, parents before children.
pub(super) fn removable(
    root: &Path,
    prefix: Option<&str>,
    overwrite: bool,
    owner: Owner,
) -> Result<(Names, Found), ArtifactError> {
    let names = Names::new(prefix).ok_or_else(|| ArtifactError::Prefix {
        prefix: prefix.unwrap_or_default().to_owned(),
    })?;
    let mut found = Vec::new();
    if root.exists() {
        find(root, &names, owner, &mut found).map_err(|source| ArtifactError::Unusable {
            directory: root.to_owned(),
            source,
        })?;
    }
    let journals: Vec<&Path> = found
        .iter()
        .filter_map(|(directory, _)| left_journal(directory))
        .collect();
    if let Some(directory) = journals.iter().find(|directory| is_under_way(directory)) {
        return Err(ArtifactError::UnderWay {
            directory: directory.to_path_buf(),
        });
    }
    let first = found.iter().find_map(|(_, files)| files.first());
    if let (Some(first), false) = (first, overwrite) {
        return Err(ArtifactError::Occupied {
            found: first.strip_prefix(root).unwrap_or(first).display().to_string(),
            free: free_name(root),
            recoverable: journals.first().map(|directory| directory.to_path_buf()),
            directory: root.to_owned(),
        });
    }
    Ok((names, found))
}

/// Directories of cells in a directory of several runs, whichever attempt they are of.
///
/// # Errors
/// If they cannot be found.
pub fn cells_in(root: &Path, prefix: Option<&str>) -> Result<Vec<PathBuf>, ArtifactError> {
    let (_, found) = removable(root, prefix, true, Owner::Suite)?;
    let directories = found.into_iter().map(|(directory, _)| directory);
    Ok(directories
        .filter(|directory| directory != root && directory.join(RUN_CONFIG).is_file())
        .collect())
}

/// The directory again, if its run left a journal and no results.
fn left_journal(directory: &Path) -> Option<&Path> {
    let is_left = directory.join(JOURNAL_NAME).is_file() && !is_ready(directory);
    is_left.then_some(directory)
}

/// Whether a run has written all its results there.
pub fn is_ready(directory: &Path) -> bool {
    directory.join(READY).is_file()
}

/// Takes that mark away. Best effort: who cannot write there has been told so.
pub fn unmark_ready(directory: &Path) {
    let _ = fs::remove_file(directory.join(READY));
}

/// Whether the journal there is being written: its writer locks it for as long as it lives.
fn is_under_way(directory: &Path) -> bool {
    let journal = File::open(directory.join(JOURNAL_NAME));
    journal.is_ok_and(|journal| matches!(journal.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Directories at and below this one where a run left a journal and no results; not deeper than the cells of several runs lie.
pub fn journals_below(root: &Path) -> Vec<PathBuf> {
    /// `VARIATION/profile_runs/trial_0001`.
    const DEPTH: usize = 3;
    let (mut found, mut level) = (Vec::new(), vec![root.to_owned()]);
    for _ in 0..=DEPTH {
        found.extend(
            level
                .iter()
                .filter_map(|directory| left_journal(directory))
                .map(Path::to_owned),
        );
        let below = level.iter().filter_map(|directory| directories_in(directory).ok());
        level = below.flatten().collect();
    }
    found.sort();
    found
}

/// Removes what was found, and the directories that this leaves empty.
pub(super) fn remove_found(root: &Path, found: &Found) -> Result<(), ArtifactError> {
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

/// Directories with their results.
pub(super) type Found = Vec<(PathBuf, Vec<PathBuf>)>;

/// Results of one run or of a suite in `root`, parents before children.
///
/// Only places where a suite of this very directory puts them are looked at: a directory below may be the root of another suite, whose
/// results are not in the way and must not be removed.
fn find(root: &Path, names: &Names, owner: Owner, found: &mut Found) -> io::Result<()> {
    let mut files = results_in(root, names)?;
    files.extend(aggregates_in(root)?);
    let config = root.join(RUN_CONFIG);
    if owner == Owner::Suite && config.is_file() {
        files.push(config);
    }
    found.push((root.to_owned(), files));
    for child in directories_in(root)? {
        match child.file_name().and_then(|name| name.to_str()) {
            Some(SWEEP_AGGREGATE) => found.push((child.clone(), aggregates_in(&child)?)),
            Some(AGGREGATE) => {
                found.push((child.clone(), aggregates_in(&child)?));
                for variation in directories_in(&child)? {
                    found.push((variation.clone(), aggregates_in(&variation)?));
                }
            }
            Some(PROFILE_RUNS) => {
                found.push((child.clone(), Vec::new()));
                for trial in directories_in(&child)? {
                    found.push((trial.clone(), cell_in(&trial, names)?));
                    for cell in directories_in(&trial)? {
                        found.push((cell.clone(), cell_in(&cell, names)?));
                    }
                }
            }
            _ => find_variation(&child, names, found)?,
        }
    }
    Ok(())
}

/// Results of a directory that may be a cell, or hold the trials of a variation.
fn find_variation(directory: &Path, names: &Names, found: &mut Found) -> io::Result<()> {
    let files = cell_in(directory, names)?;
    let runs = directory.join(PROFILE_RUNS);
    let mut trials = Vec::new();
    if runs.is_dir() {
        trials = directories_in(&runs)?;
    }
    let is_trial = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(TRIAL)) && path.join(RUN_CONFIG).is_file()
    };
    trials.retain(is_trial);
    // A directory of somebody else is not named here, so that an empty one stays.
    if files.is_empty() && trials.is_empty() {
        return Ok(());
    }
    found.push((directory.to_owned(), files));
    if trials.is_empty() {
        return Ok(());
    }
    let aggregate = directory.join(AGGREGATE);
    if aggregate.is_dir() {
        found.push((aggregate.clone(), aggregates_in(&aggregate)?));
    }
    found.push((runs, Vec::new()));
    for trial in trials {
        found.push((trial.clone(), cell_in(&trial, names)?));
    }
    Ok(())
}

/// The files of a cell. Without a [`RUN_CONFIG`] files of these names are somebody else's.
fn cell_in(directory: &Path, names: &Names) -> io::Result<Vec<PathBuf>> {
    let config = directory.join(RUN_CONFIG);
    if !config.is_file() {
        return Ok(Vec::new());
    }
    let mut files = results_in(directory, names)?;
    files.push(config);
    Ok(files)
}

/// Figures over several runs.
fn aggregates_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    files_in(directory, |name| {
        let stem = name.strip_suffix(".json").or_else(|| name.strip_suffix(".csv"));
        stem.is_some_and(|stem| [CONFIDENCE, COLLATED, COMPARISON].contains(&stem))
    })
}

/// Directories of a directory, in order; links to some are not followed.
fn directories_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
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
    #[test]
    fn results_of_other_suites_below_are_not_in_the_way_and_stay() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("results");
        let theirs = [
            "sweep/concurrency_2/run_config.json",
            "sweep/concurrency_2/profile_export.jsonl",
            "sweep/aggregate/concurrency_2/profile_export_aiperf_aggregate.json",
            "sweep/sweep_aggregate/profile_export_aiperf_sweep.csv",
            "trials/profile_runs/run_0001/run_config.json",
            "trials/aggregate/profile_export_aiperf_aggregate.json",
            "both/profile_runs/trial_0001/concurrency_2/run_config.json",
            "independent/concurrency_2/profile_runs/trial_0001/run_config.json",
        ];
        theirs.iter().for_each(|name| put(&root.join(name)));
        fs::create_dir(root.join("empty")).unwrap();
        clear(&root, None, false).unwrap();
        clear(&root, None, true).unwrap();
        assert!(theirs.iter().all(|name| root.join(name).exists()));
        assert!(root.join("empty").exists());
    }

    #[test]
    fn trials_of_a_variation_are_refused_or_removed() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("results");
        let ours = [
            "concurrency_2/profile_runs/trial_0001/run_config.json",
            "concurrency_2/profile_runs/trial_0001/inputs.json",
            "concurrency_2/aggregate/profile_export_aiperf_aggregate.json",
        ];
        ours.iter().for_each(|name| put(&root.join(name)));
        assert!(clear(&root, None, false).is_err());
        clear(&root, None, true).unwrap();
        assert!(!root.join("concurrency_2").exists());
    }
}
