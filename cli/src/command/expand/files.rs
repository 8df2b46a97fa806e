//! Cells as files: one each, in one directory.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::command::printed;
use crate::command_args::Document;
use crate::console;
use crate::engine::PROFILE_RUNS;
use crate::exit::Exit;

/// Writes each cell, given by the place of its artifacts and its text, and prints the paths. Nothing is written if one of the files exists.
pub(super) fn write<'c>(directory: &Path, format: Document, cells: impl Iterator<Item = (&'c Path, String)>) -> Exit {
    let ending = match format {
        Document::Yaml => "yaml",
        Document::Json => "json",
    };
    let files: Vec<(PathBuf, String)> = cells
        .map(|(place, text)| (directory.join(format!("{}.{ending}", name(place))), text))
        .collect();
    if let Some((taken, _)) = files.iter().find(|(path, _)| path.symlink_metadata().is_ok()) {
        return refuse_existing(taken);
    }
    if let Err(error) = fs::create_dir_all(directory) {
        console::note(&format!("error: --output-dir {}: {error}", directory.display()));
        return Exit::RunFailed;
    }
    let mut paths = String::new();
    for (path, text) in &files {
        match write_new(path, text) {
            Ok(()) => paths.push_str(&format!("{}\n", path.display())),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return refuse_existing(path),
            Err(error) => {
                console::note(&format!("error: --output-dir: {}: {error}", path.display()));
                return Exit::RunFailed;
            }
        }
    }
    printed(&paths)
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    // `create_new` leaves no moment between the look and the writing.
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())
}

fn refuse_existing(path: &Path) -> Exit {
    console::note(&format!(
        "error: --output-dir: {} exists and is not overwritten; choose another directory or remove it",
        path.display()
    ));
    Exit::Usage
}

/// The directories of a place in one word; the one that all trials have in common says nothing.
fn name(place: &Path) -> String {
    let parts = place.iter().map(|part| part.to_string_lossy());
    let is_alone = parts.clone().count() == 1;
    let telling: Vec<_> = parts.filter(|part| is_alone || part != PROFILE_RUNS).collect();
    telling.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_after_the_directory_of_its_cell() {
        for (place, expected) in [
            ("concurrency_10", "concurrency_10"),
            ("profile_runs", "profile_runs"),
            ("profile_runs/run_0002", "run_0002"),
            ("profile_runs/trial_0001/isl_1.5", "trial_0001-isl_1.5"),
            ("isl_1.5/profile_runs/trial_0001", "isl_1.5-trial_0001"),
        ] {
            assert_eq!(name(Path::new(place)), expected);
        }
    }
}
