//! Names the commit that the program is built from, for `ringload version`. Without git or outside its own checkout it is "unknown".

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let commit = commit().unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=RINGLOAD_COMMIT={commit}");
    let profile = std::env::var("PROFILE").unwrap_or_default();
    println!("cargo::rustc-env=RINGLOAD_PROFILE={profile}");
}

fn commit() -> Option<String> {
    // A copy of the sources inside another project's checkout must not be taken for that project's commit.
    let workspace = Path::new("..").canonicalize().ok()?;
    if Path::new(&git(&["rev-parse", "--show-toplevel"])?)
        .canonicalize()
        .ok()?
        != workspace
    {
        return None;
    }
    // The reference log grows with every movement of HEAD, also where the branch itself is packed away with others. Files that are not there
    // would have cargo build again every time.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
