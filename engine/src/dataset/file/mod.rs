//! Datasets from files: one JSON object per line, in one of the formats that the field uses.
//!
//! ```text
//! bytes -> lines -> records (every mistake with line, column and field) -> sessions in the order of the file
//! ```
//!
//! Texts are taken as they are; prompts that a trace only describes (so many tokens, these blocks) stay descriptions here and become text when
//! the requests are rendered, so that no text is in memory twice.

mod changes;
mod conversations;
mod mistake;
mod record;
mod session;
mod times;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

pub use changes::{TraceChanges, UnfitTrace};
pub use conversations::FileConversations;
pub use mistake::{FileError, FileMistake};
pub use session::{Content, FileTurn, Session, Turns};
pub use times::FileTimes;

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

/// The bytes of a file, for [`read_bytes`]: sessions borrow their texts from them.
///
/// # Errors
/// The file cannot be read, or is larger than 4 GiB.
pub fn load_file(path: &Path) -> Result<Vec<u8>, FileError> {
    let metadata = std::fs::metadata(path).map_err(FileError::Unreadable)?;
    if !metadata.is_file() {
        return Err(FileError::NotAFile);
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(FileError::TooLarge { bytes: metadata.len() });
    }
    let read = match usize::try_from(metadata.len()) {
        Ok(length) if length > LARGE => read_halves(path, length),
        _ => std::fs::read(path),
    };
    read.map_err(FileError::Unreadable)
}

/// SHA-256 of bytes, in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Files of more bytes than this are read by two threads: most of the time goes into memory that is touched for the first time.
const LARGE: usize = 16 << 20;

fn read_halves(path: &Path, length: usize) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let mut bytes = vec![0; length];
    let (first, second) = bytes.split_at_mut(length / 2);
    let at = first.len() as u64;
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| file.read_exact_at(second, at));
        let one = file.read_exact_at(first, 0);
        (
            one,
            other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    });
    one.and(other).map(|()| bytes)
}

/// The sessions of the bytes of a file, in the order in which they first occur in it; never empty.
///
/// # Errors
/// The mistakes of the file; the first [`FileMistake`]s of it are all reported together.
pub fn read_bytes(bytes: &[u8], options: FileOptions) -> Result<Vec<Session<'_>>, FileError> {
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
pub fn read_records<'a>(
    records: impl Iterator<Item = &'a str>,
    options: FileOptions,
) -> Result<Vec<Session<'a>>, FileError> {
    let (records, mistakes) = session::read(records.zip(0..), options);
    gather(vec![records], mistakes)
}

/// Files up to this many bytes are read by one thread: starting another takes longer than they do.
const BYTES_PER_THREAD: usize = 1 << 20;

fn read_lines(text: &str, options: FileOptions) -> Result<Vec<Session<'_>>, FileError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let parts = split(text, threads.min(text.len() / BYTES_PER_THREAD + 1));
    let read = |(first_line, part)| session::read(str::lines(part).zip(first_line..), options);
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

fn gather(records: Vec<Vec<session::Record<'_>>>, mistakes: Mistakes) -> Result<Vec<Session<'_>>, FileError> {
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
