//! Records on their way from the cores to the disk, and back.
//!
//! Cores fill blocks; a full block goes to the writer thread over a lock-free queue and an empty one comes back. The writer appends blocks,
//! checksummed, to one file in the artifact directory. After the run the file is read back once, all cores merged by completion time.
//!
//! ```text
//! file   magic (8 bytes), then blocks
//! block  core (u16), zero (u16), length of the payload (u32), CRC-32 of the payload (u32), payload: whole records
//! ```

mod reader;
mod writer;

pub(crate) use reader::Reader;
pub(crate) use writer::{BlockWriter, Journal};

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
    /// A block or record does not check out.
    #[error("journal {path}: damaged at byte {at}")]
    Damaged {
        /// The file.
        path: std::path::PathBuf,
        /// Where the damage begins.
        at: u64,
    },
}

const MAGIC: &[u8; 8] = b"ringload";
const BLOCK_HEADER_BYTES: usize = 12;

/// A journal with one block of this payload.
pub(crate) fn block_of(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let mut file = MAGIC.to_vec();
    file.extend_from_slice(&[0; 4]);
    file.extend_from_slice(&length.to_le_bytes());
    file.extend_from_slice(&crc32fast::hash(payload).to_le_bytes());
    file.extend_from_slice(payload);
    file
}
