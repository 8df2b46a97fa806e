//! The cases of `tests/cases/config` through the program: a refused file ends every command with exit code 2, places on standard error, nothing sent.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ringload_tests::binary;

fn cases_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/config")
}

/// The program in the directory of the cases, where their relative paths start, without the variables that they take for unset.
fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(binary::ringload());
    command.args(arguments).current_dir(cases_directory());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AIPERF_CASE_")) {
        command.env_remove(name);
    }
    command.output().expect("the program starts")
}

#[test]
fn every_refused_case_ends_with_exit_code_2_and_its_place_whatever_the_command() {
    let places = std::fs::read_to_string(cases_directory().join("places.tsv")).expect("the places are readable");
    let output = tempfile::tempdir().expect("a temporary directory");
    let artifacts = output.path().join("artifacts").display().to_string();
    let mut wrong = Vec::new();
    let mut last = "";
    let mut refused = 0;
    for row in places.lines().skip(1) {
        let mut columns = row.split('\t');
        let (Some(file), Some(line)) = (columns.next(), columns.next()) else {
            panic!("no row of a table: {row}")
        };
        // The first row of a file is its first mistake.
        if std::mem::replace(&mut last, file) == file {
            continue;
        }
        refused += 1;
        let profile = ["profile", "--config", file, "--output-artifact-dir", &artifacts];
        for arguments in [&["config", "validate", file][..], &profile] {
            let Output { status, stdout, stderr } = run(arguments);
            let stderr = String::from_utf8_lossy(&stderr);
            let is_placed = stderr.starts_with(&format!("{file}:{line}:"));
            if status.code() != Some(2) || !stdout.is_empty() || !is_placed {
                wrong.push(format!(
                    "{arguments:?}: {status}\n{}{stderr}",
                    String::from_utf8_lossy(&stdout)
                ));
            }
        }
    }
    assert!(refused > 130, "only {refused} refused cases");
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
    assert!(
        !output.path().join("artifacts").exists(),
        "a refused run made its directory"
    );
}
