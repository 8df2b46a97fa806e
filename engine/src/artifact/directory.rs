//! The artifact directory: checked before any load, never overwritten by accident, no half-written file under a final name.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::ArtifactError;
use super::names::{self, Names};
use super::shared::{Found, Owner, removable, remove_found};
use crate::plan::Plan;
use crate::sys::permissions;

/// A directory that can take the artifacts of a run.
#[derive(Debug)]
pub struct ArtifactDirectory {
    root: PathBuf,
    names: Names,
}

impl ArtifactDirectory {
    /// Makes the directory, removes an earlier run's files if the plan says so, and proves that a file can be written.
    ///
    /// # Errors
    /// If the directory holds results and may not be overwritten, or cannot be made, cleared or written. Nothing was sent by then.
    pub fn prepare(plan: &Plan) -> Result<Self, ArtifactError> {
        let root = plan.artifacts.directory.clone();
        let unusable = |source| ArtifactError::Unusable {
            directory: root.clone(),
            source,
        };
        let (names, found) = Self::look(plan)?;
        fs::create_dir_all(&root).map_err(unusable)?;
        remove_found(&root, &found)?;
        let probe = root.join(format!(".probe{}", names::UNFINISHED));
        File::create(&probe)
            .and_then(|mut file| file.write_all(b"ringload"))
            .and_then(|()| fs::remove_file(&probe))
            .map_err(unusable)?;
        Ok(Self { root, names })
    }

    /// The directory of a run whose process died: what the run had begun to write makes room, everything else stays.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn reopen(plan: &Plan) -> Result<Self, ArtifactError> {
        let root = plan.artifacts.directory.clone();
        let prefix = plan.artifacts.prefix.as_deref();
        let names = Names::new(prefix).ok_or_else(|| ArtifactError::Prefix {
            prefix: prefix.unwrap_or_default().to_owned(),
        })?;
        let found = results_in(&root, &names).map_err(|source| ArtifactError::Unusable {
            directory: root.clone(),
            source,
        })?;
        let begun = |path: &PathBuf| path.to_string_lossy().ends_with(names::UNFINISHED);
        remove(&root, &found.into_iter().filter(begun).collect::<Vec<_>>())?;
        Ok(Self { root, names })
    }

    /// Whether the directory holds results that may not be overwritten. Changes nothing.
    ///
    /// # Errors
    /// If it does, or cannot be read.
    pub fn check(plan: &Plan) -> Result<(), ArtifactError> {
        Self::look(plan)?;
        check_writable(&plan.artifacts.directory)
    }

    /// The names of the files, and results of earlier runs that may go.
    fn look(plan: &Plan) -> Result<(Names, Found), ArtifactError> {
        let artifacts = &plan.artifacts;
        removable(
            &artifacts.directory,
            artifacts.prefix.as_deref(),
            artifacts.overwrite,
            Owner::Run,
        )
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.root
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// The file that takes one line per request; see [`RecordLines`](super::RecordLines).
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create_records(&self) -> Result<AtomicFile, ArtifactError> {
        self.create(&self.names.jsonl())
    }

    /// Starts the file of raw records.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create_raw(&self) -> Result<AtomicFile, ArtifactError> {
        self.create(&self.names.raw())
    }

    /// Starts the file of outputs.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create_outputs(&self) -> Result<AtomicFile, ArtifactError> {
        self.create(&self.names.outputs())
    }

    /// Starts a file under a path relative to the directory; it appears there when it is committed.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(&self, relative: &str) -> Result<AtomicFile, ArtifactError> {
        AtomicFile::create(self.root.join(relative))
    }

    /// Writes a whole file under a path relative to the directory: all of it, or nothing.
    ///
    /// # Errors
    /// If it cannot be written; a file that was there before is then still the old one.
    pub fn write_atomically(
        &self,
        relative: &str,
        write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
    ) -> Result<PathBuf, ArtifactError> {
        let mut file = self.create(relative)?;
        match write(&mut file) {
            Ok(()) => file.commit(),
            Err(source) => Err(ArtifactError::Write {
                path: self.root.join(relative),
                source,
            }),
        }
    }
}

/// A file that takes its name when it is complete. Dropped before that, it leaves nothing.
///
/// It is not forced to the disk: the rename protects against a killed process, which is what happens to load generators, and waiting
/// for the disk would hold up the end of every run.
#[derive(Debug)]
pub struct AtomicFile {
    file: BufWriter<File>,
    unfinished: PathBuf,
    target: PathBuf,
    committed: bool,
}

impl AtomicFile {
    pub(super) fn create(target: PathBuf) -> Result<Self, ArtifactError> {
        let name = target.file_name().map(|name| name.to_string_lossy().into_owned());
        let unfinished = target.with_file_name(format!(".{}{}", name.unwrap_or_default(), names::UNFINISHED));
        let parent = target.parent().unwrap_or(Path::new("."));
        let file = fs::create_dir_all(parent).and_then(|()| File::create(&unfinished));
        match file {
            Ok(file) => Ok(Self {
                file: BufWriter::with_capacity(1 << 16, file),
                unfinished,
                target,
                committed: false,
            }),
            Err(source) => Err(ArtifactError::Write { path: target, source }),
        }
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// If the last bytes cannot be written or the file cannot be renamed.
    pub fn commit(mut self) -> Result<PathBuf, ArtifactError> {
        let target = self.target.clone();
        let renamed = self.file.flush().and_then(|()| fs::rename(&self.unfinished, &target));
        self.committed = renamed.is_ok();
        match renamed {
            Ok(()) => Ok(target),
            Err(source) => Err(ArtifactError::Write { path: target, source }),
        }
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.committed {
            // Best effort: a leftover is recognised and removed by the next run with `--overwrite`.
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}

/// Whether the directory, or the nearest one above it that exists, can take files, as far as that shows without writing one.
pub(super) fn check_writable(root: &Path) -> Result<(), ArtifactError> {
    let Some(existing) = root.ancestors().find(|path| path.exists()) else {
        return Ok(());
    };
    // What is no directory has nothing in it, and the kernel says so.
    let place = if existing.is_dir() {
        existing.to_owned()
    } else {
        existing.join(".")
    };
    permissions::may_create_in(&place).map_err(|source| ArtifactError::Unusable {
        directory: root.to_owned(),
        source,
    })
}

/// Files in the directory that this tool wrote: known names only, so that nothing of a stranger is ever removed.
pub(super) fn results_in(root: &Path, names: &Names) -> io::Result<Vec<PathBuf>> {
    let mut exports: BTreeSet<String> = names.all().into_iter().collect();
    exports.extend(Names::new(None).map(|defaults| defaults.all()).into_iter().flatten());
    // An earlier run may have had another prefix; its manifest knows.
    if let Some(earlier) = manifest_names(&root.join(names::MANIFEST)) {
        exports.extend(earlier.all());
    }
    let fixed = [
        names::INPUTS,
        names::RESOLVED,
        names::MANIFEST,
        names::READY,
        names::JOURNAL_NAME,
        names::ADAPTIVE_MANIFEST,
    ];
    let of_phases = [
        names::ADAPTIVE_EVENTS,
        names::ADAPTIVE_SUMMARY,
        names::PHASE_SERVER_METRICS,
        names::PHASE_GPU_TELEMETRY,
    ];
    let mut found = files_in(root, |name| fixed.contains(&name) || exports.contains(name))?;
    let phases = root.join(names::PHASES);
    if phases.is_dir() {
        for entry in fs::read_dir(&phases)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                let wanted = |name: &str| exports.contains(name) || of_phases.contains(&name);
                found.extend(files_in(&entry.path(), wanted)?);
            }
        }
    }
    Ok(found)
}

/// Files of one directory whose name is wanted, or is the name under which such a file is being written.
pub(super) fn files_in(directory: &Path, wanted: impl Fn(&str) -> bool) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let complete = name
            .strip_suffix(names::UNFINISHED)
            .and_then(|name| name.strip_prefix('.'))
            .unwrap_or(name);
        // Links too: a rename would silently replace them.
        if wanted(complete) && !entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// The names that the run of a manifest used; `None` if there is no manifest or it tells none.
fn manifest_names(manifest: &Path) -> Option<Names> {
    let document: Value = serde_json::from_slice(&fs::read(manifest).ok()?).ok()?;
    let path = document["phases"].as_array()?.first()?["metrics_csv"]
        .as_str()?
        .to_owned();
    let name = Path::new(&path).file_name()?.to_str()?;
    Names::new(Some(name)).filter(|names| names.csv() == name)
}

/// Removes files of an earlier run and the phase directories that they leave empty.
pub(super) fn remove(root: &Path, files: &[PathBuf]) -> Result<(), ArtifactError> {
    for path in files {
        fs::remove_file(path).map_err(|source| ArtifactError::Remove {
            path: path.clone(),
            source,
        })?;
    }
    let parents: BTreeSet<&Path> = files.iter().filter_map(|path| path.parent()).collect();
    let emptied = parents.into_iter().filter(|parent| *parent != root);
    for directory in emptied.chain([root.join(names::PHASES).as_path()]) {
        // Fails on a directory with files of somebody else, which is right.
        let _ = fs::remove_dir(directory);
    }
    Ok(())
}

/// The first of `NAME-2`, `NAME-3` and so on that does not exist.
pub(super) fn free_name(root: &Path) -> PathBuf {
    let name = root.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_else(|| "artifacts".to_owned());
    (2u32..)
        .map(|number| root.with_file_name(format!("{name}-{number}")))
        .find(|path| !path.exists())
        .unwrap_or_else(|| root.join("run"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn plan(root: &Path) -> Plan {
        let mut plan = fixture::plan();
        plan.artifacts.directory = root.join("results");
        plan
    }

    fn put(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }

    #[test]
    fn a_new_directory_is_made_and_left_empty() {
        let temp = tempfile::tempdir().unwrap();
        let directory = ArtifactDirectory::prepare(&plan(temp.path())).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn results_of_an_earlier_run_are_refused_with_a_free_name() {
        let temp = tempfile::tempdir().unwrap();
        let plan = plan(temp.path());
        let earlier = plan
            .artifacts
            .directory
            .join("phases/baseline/profile_export_aiperf.csv");
        put(&earlier);
        fs::create_dir(temp.path().join("results-2")).unwrap();
        let text = ArtifactDirectory::prepare(&plan).unwrap_err().to_string();
        assert!(text.contains("phases/baseline/profile_export_aiperf.csv"), "{text}");
        assert!(text.contains("results-3") && text.contains("--overwrite"), "{text}");
        assert!(earlier.exists());
    }

    #[test]
    fn an_unfinished_export_counts_as_results() {
        let temp = tempfile::tempdir().unwrap();
        let plan = plan(temp.path());
        put(&plan
            .artifacts
            .directory
            .join(".profile_export.jsonl.ringload-unfinished"));
        assert!(matches!(
            ArtifactDirectory::prepare(&plan),
            Err(ArtifactError::Occupied { .. })
        ));
    }

    #[test]
    fn files_of_somebody_else_are_no_obstacle_and_stay() {
        let temp = tempfile::tempdir().unwrap();
        let mut plan = plan(temp.path());
        let root = plan.artifacts.directory.clone();
        let strangers = [
            "notes.md",
            "phases/baseline/plot.png",
            "phases/other/inputs.json",
            "sub/inputs.json",
        ];
        strangers.iter().for_each(|name| put(&root.join(name)));
        ArtifactDirectory::prepare(&plan).unwrap();

        let ours = [
            "inputs.json",
            ".aiperf_results_ready.json",
            "phases/baseline/profile_export_aiperf.json",
        ];
        ours.iter().for_each(|name| put(&root.join(name)));
        put(&root.join("phases/emptied/profile_export_aiperf.csv"));
        plan.artifacts.overwrite = true;
        ArtifactDirectory::prepare(&plan).unwrap();
        assert!(ours.iter().all(|name| !root.join(name).exists()));
        assert!(!root.join("phases/emptied").exists());
        assert!(strangers.iter().all(|name| root.join(name).exists()));
    }

    #[test]
    fn results_of_a_suite_are_refused_or_removed_whole() {
        let temp = tempfile::tempdir().unwrap();
        let mut plan = plan(temp.path());
        let root = plan.artifacts.directory.clone();
        let of_suite = [
            "concurrency_2/run_config.json",
            "concurrency_2/profile_export.jsonl",
            "sweep_aggregate/profile_export_aiperf_sweep.json",
        ];
        of_suite.iter().for_each(|name| put(&root.join(name)));
        assert!(matches!(
            ArtifactDirectory::prepare(&plan),
            Err(ArtifactError::Occupied { .. })
        ));
        plan.artifacts.overwrite = true;
        ArtifactDirectory::prepare(&plan).unwrap();
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    }

    #[test]
    fn the_run_config_of_a_cell_is_no_result() {
        let temp = tempfile::tempdir().unwrap();
        let mut plan = plan(temp.path());
        let config = plan.artifacts.directory.join("run_config.json");
        put(&config);
        ArtifactDirectory::prepare(&plan).unwrap();
        plan.artifacts.overwrite = true;
        ArtifactDirectory::prepare(&plan).unwrap();
        assert!(config.exists());
    }

    #[test]
    fn overwrite_finds_the_files_of_another_prefix_through_the_manifest() {
        let temp = tempfile::tempdir().unwrap();
        let mut plan = plan(temp.path());
        let root = plan.artifacts.directory.clone();
        let earlier = ["old.json", "old.csv", "old.jsonl", "phases/gone/old.csv"];
        earlier.iter().for_each(|name| put(&root.join(name)));
        let manifest = r#"{"phases":[{"metrics_csv":"phases/gone/old.csv"}],"schema_version":1}"#;
        fs::write(root.join("phase_manifest.json"), manifest).unwrap();
        plan.artifacts.overwrite = true;
        ArtifactDirectory::prepare(&plan).unwrap();
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_is_a_file_is_named() {
        let temp = tempfile::tempdir().unwrap();
        let plan = plan(temp.path());
        fs::write(&plan.artifacts.directory, "x").unwrap();
        let text = ArtifactDirectory::prepare(&plan).unwrap_err().to_string();
        assert!(
            text.starts_with("cannot write in the artifact directory ") && text.contains("results"),
            "{text}"
        );
    }

    #[test]
    fn a_failed_write_keeps_the_old_file_and_leaves_no_other() {
        let temp = tempfile::tempdir().unwrap();
        let directory = ArtifactDirectory::prepare(&plan(temp.path())).unwrap();
        directory
            .write_atomically("a.txt", |out| out.write_all(b"old"))
            .unwrap();
        let failure = directory.write_atomically("a.txt", |out| {
            out.write_all(b"new")?;
            Err(io::Error::other("disk on fire"))
        });
        assert!(failure.unwrap_err().to_string().contains("disk on fire"));
        assert_eq!(fs::read_to_string(directory.path().join("a.txt")).unwrap(), "old");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
