//! The `ringload` program.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The program of the workspace, as it is now.
///
/// Cargo builds the programs of other packages for a test only by accident, so the first caller builds it: this costs little when it is up to
/// date, and nothing can be tested that is not.
///
/// # Panics
/// If it cannot be built.
pub fn ringload() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let test = std::env::current_exe().expect("a test has a path");
        // target/<profile>/deps/<test>
        let profile = test
            .ancestors()
            .nth(2)
            .expect("a test lies two folders below its profile");
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "ringload", "--bin", "ringload"]);
        build
            .arg("--manifest-path")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"));
        build
            .arg("--target-dir")
            .arg(profile.parent().expect("a profile lies in a target folder"));
        // Cargo describes the package under test in the environment. A build script that looks at those variables would be run again, and
        // everything above it be compiled again, whenever a test and a person build in turn.
        for (name, _) in std::env::vars_os() {
            let told = name.to_string_lossy();
            if [
                "CARGO_PKG_",
                "CARGO_MANIFEST_",
                "CARGO_CRATE_NAME",
                "CARGO_PRIMARY_PACKAGE",
            ]
            .iter()
            .any(|prefix| told.starts_with(prefix))
            {
                build.env_remove(&name);
            }
        }
        if profile.ends_with("release") {
            build.arg("--release");
        }
        let status = build.status().expect("cargo runs, it has started this test");
        assert!(status.success(), "the program does not build: {status}");
        profile.join("ringload")
    })
}
