//! One file per command.

pub(crate) mod about;
pub(crate) mod cells;
pub(crate) mod dry_run;
pub(crate) mod expand;
pub(crate) mod init;
pub(crate) mod profile;
pub(crate) mod validate;

use crate::console;
use crate::exit::Exit;

/// Prints what a command came to, and ends it well if somebody could be told.
fn printed(text: &str) -> Exit {
    match console::print(text) {
        Ok(()) => Exit::Success,
        Err(error) => {
            console::note(&format!("error: standard output: {error}"));
            Exit::RunFailed
        }
    }
}
