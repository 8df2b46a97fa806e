//! Why artifacts could not be written.

use std::io;
use std::path::{Path, PathBuf};

/// A problem with the artifact directory or a file in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArtifactError {
    /// The directory holds results that nobody allowed to be removed.
    #[error(
        "the artifact directory {} holds results of an earlier run ({found}), and results are never overwritten: choose another, \
         for example {}, or give --overwrite to remove them{}", .directory.display(), .free.display(), way_back(.recoverable.as_deref())
    )]
    Occupied {
        /// The directory.
        directory: PathBuf,
        /// One of the files found.
        found: String,
        /// A directory of a similar name that does not exist.
        free: PathBuf,
        /// Where a run left its journal and no results.
        recoverable: Option<PathBuf>,
    },
    /// A run that is under way writes there.
    #[error("a run is under way in the artifact directory {}; wait for its end, or choose another", .directory.display())]
    UnderWay {
        /// The directory.
        directory: PathBuf,
    },
    /// The directory cannot be made or cannot take a file.
    #[error("cannot write in the artifact directory {}: {source}; choose one that can be created and written", .directory.display())]
    Unusable {
        /// The directory.
        directory: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Files of an earlier run cannot be found or removed.
    #[error("--overwrite: cannot remove {}: {source}; remove it by hand or choose another directory", .path.display())]
    Remove {
        /// What should have gone.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A prefix that is not a plain file name.
    #[error("artifacts.prefix: {prefix:?} is not a plain file name: use a name without slashes")]
    Prefix {
        /// The prefix found.
        prefix: String,
    },
    /// A file of an earlier run of the same suite cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What can be done about a run that died.
fn way_back(recoverable: Option<&Path>) -> String {
    recoverable.map_or_else(String::new, |directory| {
        format!(
            "; that run did not write its results, and ringload recover {} does",
            directory.display()
        )
    })
}
