//! Datasets from files: one JSON object per line, in one of the formats that the field uses.
//!
//! ```text
//! bytes -> lines -> records (every mistake with line, column and field) -> sessions in the order of the file
//! ```
//!
//! Texts are taken as they are; prompts that a trace only describes (so many tokens, these blocks) stay descriptions here and become text when
//! the requests are rendered, so that no text is in memory twice.

mod conversations;
mod mistake;
mod record;
mod session;

use std::path::Path;

use sha2::{Digest as _, Sha256};

pub use conversations::FileConversations;
pub use mistake::{FileError, FileMistake};
pub use session::{Content, FileTurn, Session};

use mistake::Mistakes;

/// Largest file that is read, in bytes: as much as the requests made of it may take.
const MAX_FILE_BYTES: u64 = 4 << 30;

/// What the records of a file look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileFormat {
    /// A record is one request; records of one session follow each other.
    #[default]
    SingleTurn,
    /// A record is a conversation.
    MultiTurn,
    /// A record is one request of a recorded trace, with its time and either its text or its measures.
    MooncakeTrace,
    /// A record is a text that requests are drawn from, with replacement.
    RandomPool,
}

impl FileFormat {
    /// The word in configs and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SingleTurn => "single_turn",
            Self::MultiTurn => "multi_turn",
            Self::MooncakeTrace => "mooncake_trace",
            Self::RandomPool => "random_pool",
        }
    }
}

/// How a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOptions {
    /// What its records look like.
    pub format: FileFormat,
    /// Tokens of a block that `hash_ids` number, at least 1.
    pub block_size: u32,
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq)]
pub struct FileContents {
    /// Its sessions; never empty.
    pub sessions: Vec<Session>,
    /// SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: String,
}

/// The sessions of a file, in the order in which they first occur in it; never empty.
///
/// # Errors
/// The file cannot be read, is larger than 4 GiB, or has mistakes; the first [`FileMistake`]s of it are all reported together.
pub fn read_file(path: &Path, options: FileOptions) -> Result<FileContents, FileError> {
    let metadata = std::fs::metadata(path).map_err(FileError::Unreadable)?;
    if !metadata.is_file() {
        return Err(FileError::NotAFile);
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(FileError::TooLarge { bytes: metadata.len() });
    }
    let bytes = std::fs::read(path).map_err(FileError::Unreadable)?;
    Ok(FileContents {
        sessions: read_bytes(&bytes, options)?,
        sha256: Sha256::digest(&bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
    })
}

/// The sessions of the bytes of a file.
///
/// # Errors
/// The mistakes of the file.
pub fn read_bytes(bytes: &[u8], options: FileOptions) -> Result<Vec<Session>, FileError> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return Err(not_utf8(bytes, error.valid_up_to())),
    };
    // A mark at the beginning says that the file is UTF-8, which it has to be anyway.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    read_lines(text, options)
}

/// The sessions of records that are given one by one; `record` of a turn or mistake is then the index from 0.
///
/// # Errors
/// The mistakes of the records.
pub fn read_records(records: &[String], options: FileOptions) -> Result<Vec<Session>, FileError> {
    let numbered = records.iter().map(String::as_str).zip(0..);
    let (records, mistakes) = session::read(numbered, options);
    gather(vec![records], mistakes)
}

/// Files up to this many bytes are read by one thread: starting another takes longer than they do.
const BYTES_PER_THREAD: usize = 1 << 20;

fn read_lines(text: &str, options: FileOptions) -> Result<Vec<Session>, FileError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let parts = split(text, threads.min(text.len() / BYTES_PER_THREAD + 1));
    let read = |(first_line, part): (u32, &str)| session::read(part.lines().zip(first_line..), options);
    let read: Vec<_> = if let [part] = parts[..] {
        vec![read(part)]
    } else {
        std::thread::scope(|scope| {
            let threads: Vec<_> = parts.into_iter().map(|part| scope.spawn(move || read(part))).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect()
        })
    };
    let mut records = Vec::with_capacity(read.len());
    let mut mistakes = Mistakes::default();
    for (part, found) in read {
        records.push(part);
        mistakes.absorb(found);
    }
    gather(records, mistakes)
}

fn gather(records: Vec<Vec<session::Record>>, mistakes: Mistakes) -> Result<Vec<Session>, FileError> {
    mistakes.into_result()?;
    let sessions = session::group(records);
    if sessions.is_empty() {
        return Err(FileError::Empty);
    }
    Ok(sessions)
}

/// Cuts a text into about equal parts at ends of lines, each with the number of its first line, counted from 1.
fn split(text: &str, parts: usize) -> Vec<(u32, &str)> {
    let mut found = Vec::with_capacity(parts);
    let (mut rest, mut line) = (text, 1u32);
    for left in (1..=parts).rev() {
        let wanted = rest.len() / left;
        let end = match memchr::memchr(b'\n', &rest.as_bytes()[wanted..]) {
            Some(at) if left > 1 => wanted + at + 1,
            _ => rest.len(),
        };
        let (part, after) = rest.split_at(end);
        found.push((line, part));
        let lines = memchr::memchr_iter(b'\n', part.as_bytes()).count();
        line = line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        rest = after;
    }
    found
}

fn not_utf8(bytes: &[u8], at: usize) -> FileError {
    let line = memchr::memchr_iter(b'\n', &bytes[..at]).count() + 1;
    let column = at - memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |end| end + 1) + 1;
    let mut mistakes = Mistakes::default();
    mistakes.push(FileMistake {
        record: u32::try_from(line).unwrap_or(u32::MAX),
        column: u32::try_from(column).unwrap_or(u32::MAX),
        field: String::new(),
        message: format!(
            "found the byte {:#04x}, which is no UTF-8; convert the file to UTF-8",
            bytes[at]
        ),
    });
    match mistakes.into_result() {
        Err(error) => error,
        Ok(()) => unreachable!("one mistake was pushed"),
    }
}

#[cfg(test)]
mod tests;
