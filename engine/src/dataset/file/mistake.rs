//! What is wrong with a dataset file, and where.

use std::{fmt, io};

use crate::units::counted;

/// Most mistakes that are kept: nobody reads more, and a file in another format has one per line.
pub(super) const MAX_MISTAKES: usize = 20;

/// One mistake in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMistake {
    /// Line of the file, from 1; of records that were given one by one, the index from 0.
    pub record: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The field, as in `turns[1].delay`; empty for the whole record.
    pub field: String,
    /// What was found, what is allowed, what to do. Fields of records stand in quotes, as in JSON: what stands in backticks is a value, or a key of the
    /// config, and that becomes a flag where a flag is to blame.
    pub message: String,
}

impl fmt::Display for FileMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}

/// A dataset that cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The operating system refuses it.
    #[error("cannot read the file: {0}")]
    Unreadable(io::Error),
    /// A directory, a pipe, a device.
    #[error("cannot read the file: it is not a regular file")]
    NotAFile,
    /// More than any dataset may take.
    #[error(
        "found {bytes} bytes; allowed: at most {}; take a part of the file",
        super::MAX_FILE_BYTES
    )]
    TooLarge {
        /// Size of the file.
        bytes: u64,
    },
    /// No record in it.
    #[error("found no record; write one JSON object per line")]
    Empty,
    /// Each of several records has the same mistake: they are of another format, or made wrongly.
    #[error("{first}; all {records} records fail like this one")]
    Alike {
        /// That of the first record.
        first: FileMistake,
        /// How many there are.
        records: usize,
    },
    /// Mistakes in records, in the order of the file.
    #[error("{}", counted(list.len() + more, "mistake"))]
    Mistakes {
        /// The first of them.
        list: Vec<FileMistake>,
        /// How many there are beside the list.
        more: usize,
    },
}

/// Collects mistakes, so that one reading reports them all.
#[derive(Debug, Default)]
pub(super) struct Mistakes {
    list: Vec<FileMistake>,
    more: usize,
    /// Records that were read.
    records: usize,
    /// Whether any mistake is another one than the first.
    differ: bool,
}

impl Mistakes {
    /// A record is read now.
    pub(super) fn of_next_record(&mut self) -> &mut Self {
        self.records += 1;
        self
    }

    pub(super) fn push(&mut self, mistake: FileMistake) {
        if let Some(first) = self.list.first() {
            self.differ |= (&first.field, &first.message) != (&mistake.field, &mistake.message);
        }
        if self.list.len() < MAX_MISTAKES {
            self.list.push(mistake);
        } else {
            self.more += 1;
        }
    }

    /// Takes over the mistakes of a later part of the file.
    pub(super) fn absorb(&mut self, later: Self) {
        later.list.into_iter().for_each(|mistake| self.push(mistake));
        self.more += later.more;
        self.records += later.records;
        self.differ |= later.differ;
    }

    pub(super) fn into_result(mut self) -> Result<(), FileError> {
        if self.list.is_empty() {
            return Ok(());
        }
        let found = self.list.len() + self.more;
        if found > 1 && found == self.records && !self.differ {
            return Err(FileError::Alike {
                first: self.list.swap_remove(0),
                records: self.records,
            });
        }
        Err(FileError::Mistakes {
            list: self.list,
            more: self.more,
        })
    }
}
