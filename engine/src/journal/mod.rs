//! Records on their way from the cores to the disk, and back.
//!
//! Cores fill blocks; a full block goes to the writer thread over a lock-free queue and an empty one comes back. The writer appends blocks,
//! checksummed, to one file in the artifact directory. After the run the file is read back once, all cores merged by completion time.
//!
//! A process that dies leaves the file behind, so it tells all that the artifacts need: beside blocks of records it has notes of the run, the first of
//! which says what ran. A block is handed over about a second after its first record at the latest, so that little is missing.
//!
//! ```text
//! file    magic with the version of the format (8 bytes), then frames
//! frame   kind (u16), core (u16), length of the payload (u32), CRC-32 of the payload (u32), CRC-32 of these twelve bytes (u32), payload
//! kinds   0: records of the core, each text of a failure before the first record that needs it; 1: a note, which is the run's own to read
//! ```

mod frame;
mod reader;
mod salvage;
mod writer;

pub(crate) use frame::{VERSION, block_of};
pub(crate) use reader::Reader;
pub(crate) use salvage::{Hold, NotSalvaged, Salvage, salvage};
pub(crate) use writer::{BlockWriter, Closed, Journal};

/// A journal that cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file system refused.
    #[error("journal {path}: {source}")]
    Io {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Its first note, with all that the dataset sends, is longer than a frame can say.
    #[error(
        "journal {path}: found {bytes} bytes of requests to keep for the time after a crash; allowed: at most {}; take fewer or shorter entries, or \
         leave raw records out",
        u32::MAX
    )]
    TooLarge {
        /// The file, which was not made.
        path: std::path::PathBuf,
        /// Bytes of the note.
        bytes: usize,
    },
    /// A block or record does not check out.
    #[error("journal {path}: damaged at byte {at}")]
    Damaged {
        /// The file.
        path: std::path::PathBuf,
        /// Where the damage begins.
        at: u64,
    },
}
