//! The program from outside: what needs neither a server nor a run.

use std::process::{Command, Output, Stdio};

fn ringload(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ringload"))
        .args(arguments)
        .output()
        .expect("the program was built for this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn help_goes_to_standard_output_and_names_flags_and_exit_codes() {
    let output = ringload(&["profile", "--help"]);
    assert_eq!(output.status.code(), Some(0));
    let help = text(&output.stdout);
    for flag in [
        "--config",
        "--mock",
        "--cores",
        "--ui",
        "--output-artifact-dir",
        "--overwrite",
        "--random-seed",
    ] {
        assert!(help.contains(flag), "{flag} is missing in\n{help}");
    }
    let general = text(&ringload(&["--help"]).stdout);
    assert!(general.contains("Exit codes:") && general.contains("130"), "{general}");
}

#[test]
fn the_version_is_the_package_version() {
    let output = ringload(&["--version"]);
    assert_eq!(
        text(&output.stdout),
        format!("ringload {}\n", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn the_long_version_names_the_commit_and_what_the_build_can_do() {
    let output = ringload(&["version"]);
    let long = text(&output.stdout);
    let mut lines = long.lines();
    assert_eq!(lines.next(), Some(concat!("ringload ", env!("CARGO_PKG_VERSION"))));
    let commit = lines
        .next()
        .and_then(|line| line.strip_prefix("commit: "))
        .unwrap_or_default();
    let is_hash = commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(is_hash || commit == "unknown", "{long}");
    assert!(long.contains("drivers: io_uring, epoll"), "{long}");
}

#[test]
fn usage_errors_end_with_code_2_and_leave_standard_output_empty() {
    for arguments in [
        &[][..],
        &["profile"],
        &["profile", "--no-such-flag"],
        &["profile", "--mock", "--cores", "0"],
        &["config", "validate"],
    ] {
        let output = ringload(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_config_that_does_not_exist_is_named() {
    for arguments in [
        &["profile", "--config", "no-such-file.yaml"][..],
        &["config", "validate", "no-such-file.yaml"],
    ] {
        let output = ringload(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            text(&output.stderr).contains("no-such-file.yaml"),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_reader_that_went_away_is_no_panic() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ringload"))
        .args(["profile", "--help"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built for this test");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("panicked"));
}
