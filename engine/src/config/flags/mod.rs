//! The command line of a run: what each flag writes into the tree of the config, before the tree is read.
//!
//! ```text
//! file (or the document that flags alone make) -> tree -> flags written over it -> sweep, templates, typed sections, as for any file
//! ```
//!
//! So every rule, coercion and message of the file serves the flags too. A value that a flag wrote has the flag as its place
//! ([`Position::of_flag`]), and a mistake in it names the flag and no line.

mod blame;
mod credentials;
mod dataset;
mod document;
mod given;
mod load;
mod overlay;
mod phase;
mod record;
mod refused;
mod sequence;
mod server;
mod sweeps;
mod table;
mod telemetry;
mod variants;
mod warmup;
mod words;

pub use given::Flags;
pub use record::recorded;
pub use refused::refusal;
pub use table::{Flag, Group, Takes, all as all_flags};

pub(super) use blame::causes;
pub(super) use credentials::credentials;
pub(super) use document::{COMMAND_LINE, document};
pub(super) use overlay::{Overlaid, overlay};
pub(super) use words::in_words_of_flags;

use super::tree::Position;

/// Most spellings of one flag; what places of flags count with.
const MAX_SPELLINGS: u32 = 16;

impl Position {
    /// Nowhere: the place of what a command line without a file leaves to defaults.
    pub(super) const NOWHERE: Self = Self { line: 0, column: 0 };

    /// The place of what a flag wrote. No line of a file is 0.
    fn of_flag(flag: usize, spelling: usize) -> Self {
        Self {
            line: 0,
            column: flag as u32 * MAX_SPELLINGS + spelling as u32 + 1,
        }
    }

    /// The flag as it was typed, if this is the place of one.
    pub(crate) fn flag(self) -> Option<String> {
        let at = self.column.checked_sub(1).filter(|_| self.line == 0)?;
        let flag = table::all().nth((at / MAX_SPELLINGS) as usize)?;
        flag.spellings().nth((at % MAX_SPELLINGS) as usize)
    }

    /// The place in a sentence about another one: `line 7`, or the flag.
    pub(super) fn told(self) -> String {
        match self.flag() {
            Some(flag) => flag,
            None if self.line == 0 => "the default".to_owned(),
            None => format!("line {}", self.line),
        }
    }
}
