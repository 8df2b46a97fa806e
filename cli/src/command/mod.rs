//! One file per command.

pub(crate) mod about;
pub(crate) mod cells;
pub(crate) mod dry_run;
pub(crate) mod expand;
pub(crate) mod init;
pub(crate) mod profile;
pub(crate) mod recover;
pub(crate) mod validate;

use crate::console;
use crate::exit::Exit;

/// A word as a shell reads it back the same.
pub(crate) fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument.to_owned()
    } else {
        // Inside single quotes everything is literal but the single quote itself (POSIX shell, 2.2.2).
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

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
