//! Why nothing can be recovered.

use std::path::{Path, PathBuf};

use super::super::notes::Note;
use crate::artifact::ArtifactError;
use crate::journal::{JournalError, NotSalvaged, VERSION};

/// A directory of which nothing can be recovered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// No directory.
    #[error("{} is no directory; name the artifact directory of the run", .0.display())]
    NoDirectory(PathBuf),
    /// No journal.
    #[error("{} holds no journal of a run that died: {why}", .directory.display())]
    NoJournal {
        /// The directory.
        directory: PathBuf,
        /// What is there.
        why: &'static str,
    },
    /// Several journals in the cells of a suite.
    #[error("{} holds {} journals; recover them one by one: {}", .directory.display(), .journals.len(), listed(.journals))]
    Several {
        /// The directory.
        directory: PathBuf,
        /// Where the journals are.
        journals: Vec<PathBuf>,
    },
    /// The results are there.
    #[error(
        "{} holds the results of this run already; to make them from the journal again, choose another place with --output-artifact-dir", .0.display()
    )]
    Complete(PathBuf),
    /// The run is not dead.
    #[error("{} is in use by a run that is under way or by another recovery{}; wait for its end", .path.display(), process(*.pid))]
    UnderWay {
        /// The journal.
        path: PathBuf,
        /// Who started it.
        pid: Option<u32>,
    },
    /// Another format.
    #[error(
        "{} has version {version} of the format, and this ringload reads version {VERSION}; use the ringload that wrote it", .path.display()
    )]
    Version {
        /// The journal.
        path: PathBuf,
        /// Its version.
        version: u8,
    },
    /// Something else.
    #[error("{} is no journal of ringload", .0.display())]
    Foreign(PathBuf),
    /// The beginning is missing.
    #[error("{} does not say what ran: its first note is missing or damaged, so its records mean nothing", .0.display())]
    Unopened(PathBuf),
    /// The beginning is of another version of the program.
    #[error("{} was written by ringload {version}, and this is {}; use the one that wrote it", .path.display(), env!("CARGO_PKG_VERSION"))]
    OtherProgram {
        /// The journal.
        path: PathBuf,
        /// Which one.
        version: String,
    },
    /// Nothing to write.
    #[error("{} holds no request and no phase: the run died before its load", .0.display())]
    Nothing(PathBuf),
    /// The run kept no records.
    #[error("{} holds failures only: the run kept no records (artifacts.records: false), and its figures were lost with its memory", .0.display())]
    NoRecords(PathBuf),
    /// The way out lies across the way in.
    #[error("--output-artifact-dir {}: it holds the run that is to be recovered; leave the flag out to write there", .0.display())]
    Across(PathBuf),
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The artifact directory cannot be used.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
}

impl RecoverError {
    /// Whether another command line would have been accepted, as opposed to another journal.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::NoDirectory(_)
                | Self::NoJournal { .. }
                | Self::Several { .. }
                | Self::Complete(_)
                | Self::Across(_)
                | Self::Artifact(ArtifactError::Occupied { .. } | ArtifactError::UnderWay { .. })
        )
    }

    pub(super) fn of(path: &Path, reason: NotSalvaged) -> Self {
        let path = path.to_owned();
        match reason {
            NotSalvaged::Io(error) => Self::Journal(error),
            NotSalvaged::Version(version) => Self::Version { path, version },
            NotSalvaged::Foreign => Self::Foreign(path),
            NotSalvaged::Unopened => Self::Unopened(path),
            NotSalvaged::Alive(opening) => {
                let pid = match opening.as_deref().and_then(Note::decode) {
                    Some(Note::Opening(opening)) => Some(opening.pid),
                    _ => None,
                };
                Self::UnderWay { path, pid }
            }
        }
    }
}

fn listed(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    shown.join(", ")
}

fn process(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (begun by process {pid})"))
}
