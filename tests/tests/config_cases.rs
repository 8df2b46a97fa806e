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
        let dry = [&profile[..], &["--dry-run"]].concat();
        for arguments in [
            &["config", "validate", file][..],
            &["config", "expand", file],
            &profile,
            &dry,
        ] {
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

#[test]
fn what_one_command_accepts_all_accept() {
    let index = std::fs::read_to_string(cases_directory().join("index.tsv")).expect("the index is readable");
    let output = tempfile::tempdir().expect("a temporary directory");
    let artifacts = output.path().join("artifacts").display().to_string();
    let (mut accepted, mut wrong) = (0, Vec::new());
    for row in index.lines().skip(1) {
        let columns: Vec<&str> = row.split('\t').collect();
        if columns[2] == "reject" {
            continue;
        }
        let file = columns[1];
        let commands = [
            &["config", "validate", file][..],
            &["config", "expand", file],
            &[
                "profile",
                "--config",
                file,
                "--dry-run",
                "--output-artifact-dir",
                &artifacts,
            ],
        ];
        let ended = commands.map(run);
        let codes = ended.each_ref().map(|Output { status, .. }| status.code());
        let [validated, expanded, planned] = ended.map(|ended| String::from_utf8_lossy(&ended.stderr).into_owned());
        match codes {
            [Some(0), Some(0), Some(0)] => accepted += 1,
            // Refused in the same words; what must be accepted may only be refused by name.
            [Some(2), Some(2), Some(2)]
                if validated == expanded
                    && validated == planned
                    && (columns[2] == "either" || validated.contains("not supported by ringload")) => {}
            _ => wrong.push(format!("{file}: {codes:?}\n{validated}\n{expanded}\n{planned}")),
        }
    }
    assert!(accepted > 60, "only {accepted} accepted cases");
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
}
