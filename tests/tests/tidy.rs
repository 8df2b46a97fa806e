//! Rules about the sources that the compiler does not know: which module may use which, where unsafe code may stand, how long files may be.
//!
//! A wish for a new arrow is a line in [`ROWS`] and so a visible decision in a commit.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Modules of the engine and what they may use. Only rows above a row can stand in it, so a cycle cannot be written down.
const ROWS: &[(&str, &[&str])] = &[
    ("id", &[]),
    ("units", &[]),
    // Numbers in few bytes, for what a journal keeps of records and of the plan.
    ("varint", &[]),
    ("interrupt", &[]),
    ("sys", &["units"]),
    // The monotonic clock is a system call.
    ("clock", &["sys", "units"]),
    ("http", &[]),
    ("dataset", &["units"]),
    // Where answers are is an expression, which is compiled where it is written so that its mistakes have a place.
    ("config", &["http", "units"]),
    ("plan", &["config", "dataset", "id", "units", "varint"]),
    // What a request is judged by depends on the entry of the dataset that was sent.
    ("record", &["id", "plan", "units", "varint"]),
    // Counts by outcome; cores and coordinator wake one another through an event of the kernel; a test bounds its wait by the clock.
    ("credit", &["clock", "id", "record", "sys", "units"]),
    ("journal", &["id", "record", "units"]),
    // Whom to trust is decided in the plan.
    ("tls", &["plan"]),
    // Reports of calls carry their times.
    ("control", &["clock", "plan", "tls", "units"]),
    // Pages are read by the control client, off the load's connections.
    ("telemetry", &["control", "plan", "units"]),
    (
        "reactor",
        &[
            "clock", "credit", "http", "id", "journal", "plan", "record", "sys", "tls", "units",
        ],
    ),
    // From `sys` only the processor time of its own thread, which artifacts show.
    (
        "coordinator",
        &["clock", "credit", "id", "interrupt", "plan", "record", "sys", "units"],
    ),
    // Phase summaries and counts are the coordinator's words; dates come from the clock's anchor.
    ("report", &["clock", "coordinator", "id", "plan", "record", "units"]),
    // What controllers of phases did is the coordinator's word; its summaries of phases are for tests to write. A head that was kept is read by
    // the parser that read it under load. From `sys` only whether a directory may be written.
    (
        "artifact",
        &[
            "clock",
            "coordinator",
            "http",
            "id",
            "plan",
            "record",
            "report",
            "sys",
            "telemetry",
            "units",
        ],
    ),
    (
        "run",
        &[
            "artifact",
            "clock",
            "control",
            "coordinator",
            "credit",
            "http",
            "id",
            "interrupt",
            "journal",
            "plan",
            "reactor",
            "record",
            "report",
            "sys",
            "telemetry",
            "tls",
            "units",
        ],
    ),
    // Several runs one after another, and what they come to together.
    ("cells", &["artifact", "config", "interrupt", "plan", "run", "units"]),
    // Faces for fuzzing, outside the pipeline; nothing imports it.
    (
        "fuzzable",
        &["config", "dataset", "http", "journal", "record", "telemetry"],
    ),
    // Faces for the benches, outside the pipeline; nothing imports it.
    (
        "benchable",
        &[
            "clock", "credit", "http", "id", "journal", "plan", "reactor", "record", "sys", "units",
        ],
    ),
];

/// What the command line may use of the engine: what goes in, what comes out, and no part of the machinery.
const CLI: &[&str] = &[
    "artifact",
    "cells",
    "config",
    "coordinator", // `Tally`
    "interrupt",
    "plan",
    "record", // `FailureClass`
    "report",
    "run",
    "units",
];

/// The only folders with unsafe code.
const UNSAFE: &[&str] = &[
    "engine/src/sys/",
    "cli/src/sys.rs",
    "mock-server/src/sys.rs",
    "benches/src/sys.rs",
    "tests/src/sys/",
];

const LINES_MAX: usize = 600;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Paths below a folder of the workspace with one of these endings, relative to the workspace.
fn files(folder: &str, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path.strip_prefix(root()).expect("it lies below").to_owned());
            }
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A file without its comments: what stands behind `//` on a line, which is enough here, because no path of a module stands in a text.
fn code(path: &Path) -> String {
    let text = read(path);
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect();
    lines.join("\n")
}

/// First segments of all paths that start with `prefix`, groups in braces included.
fn used<'a>(code: &'a str, prefix: &str) -> BTreeSet<&'a str> {
    let name = |text: &'a str| {
        text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .next()
            .unwrap_or_default()
    };
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        let rest = &code[at + prefix.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.insert(name(rest));
            continue;
        };
        // Names at the first level of the group stand behind the brace or a comma.
        let (mut depth, mut start) = (0, true);
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => start = true,
                c if start && !c.is_whitespace() => {
                    found.insert(name(&group[at..]));
                    start = false;
                }
                _ => {}
            }
        }
    }
    found.remove("");
    found
}

#[test]
fn modules_of_the_engine_use_only_what_stands_above_them() {
    for (at, (module, allowed)) in ROWS.iter().enumerate() {
        for above in *allowed {
            let known = ROWS[..at].iter().any(|(name, _)| name == above);
            assert!(
                known,
                "the row of {module} names {above}, which does not stand above it"
            );
        }
    }
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for path in files("engine/src", &[".rs"]) {
        let inside = path.strip_prefix("engine/src").expect("it lies below");
        let first = inside.components().next().expect("a path has a part").as_os_str();
        let module = first.to_string_lossy().trim_end_matches(".rs").to_owned();
        if module == "lib" {
            continue;
        }
        let Some((_, allowed)) = ROWS.iter().find(|(name, _)| *name == module) else {
            wrong.push(format!("{}: the module {module} has no row", path.display()));
            continue;
        };
        let text = code(&path);
        for target in used(&text, "crate::") {
            if target != module && !allowed.contains(&target) {
                wrong.push(format!(
                    "{}: uses {target}; {module} may use {allowed:?}",
                    path.display()
                ));
            }
            arrows.entry(module.clone()).or_default().insert(target.to_owned());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (module, allowed) in ROWS {
        for target in *allowed {
            let drawn = arrows.get(*module).is_some_and(|targets| targets.contains(*target));
            assert!(
                drawn,
                "the row of {module} allows {target}, which it does not use any more"
            );
        }
    }
}

#[test]
fn names_are_found_in_every_form_of_a_path() {
    let code = "use crate::plan;\nuse crate::{\n    credit::{Gate, Credit},\n    id::CoreId, units,\n};\nlet x = crate::http::f();";
    let expected: BTreeSet<&str> = ["plan", "credit", "id", "units", "http"].into();
    assert_eq!(used(code, "crate::"), expected);
}

#[test]
fn the_command_line_uses_the_face_of_the_engine_and_the_mock_server_nothing_of_it() {
    for path in files("cli/src", &[".rs"]) {
        for module in used(&code(&path), "ringload_engine::") {
            assert!(CLI.contains(&module), "{}: uses {module} of the engine", path.display());
        }
    }
    for (package, other) in [("mock-server", "ringload-engine"), ("engine", "ringload-mock-server")] {
        let manifest = read(&Path::new(package).join("Cargo.toml"));
        assert!(
            !manifest.contains(other),
            "{package} depends on {other}: two readings of the protocol must stay two"
        );
    }
}

#[test]
fn unsafe_code_stands_where_it_may_and_says_why_it_is_sound() {
    let mut blocks = 0;
    for package in ["engine", "cli", "mock-server", "benches", "tests", "fuzz"] {
        for path in files(package, &[".rs"]) {
            let shown = path.display().to_string();
            let may = UNSAFE.iter().any(|allowed| shown.starts_with(allowed));
            let text = read(&path);
            let lines: Vec<&str> = text.lines().collect();
            for (at, line) in lines.iter().enumerate() {
                let statement = line.split("//").next().unwrap_or_default();
                let permits = statement.contains(concat!("allow(unsafe", "_code"));
                let opens = ["unsafe {", "unsafe impl", "unsafe fn", "unsafe extern"]
                    .iter()
                    .any(|form| statement.contains(form) && !statement.contains('"'));
                assert!(may || !(permits || opens), "{shown}:{}: unsafe code", at + 1);
                if opens {
                    blocks += 1;
                    let near = lines[at.saturating_sub(8)..at].iter();
                    let explained = near
                        .clone()
                        .any(|line| line.contains("// SAFETY:") || line.contains("# Safety"));
                    assert!(explained, "{shown}:{}: no SAFETY comment", at + 1);
                }
            }
        }
    }
    assert!(
        blocks > 10,
        "{blocks} blocks of unsafe code found: the search is broken"
    );
}

#[test]
fn nothing_is_left_over() {
    let markers = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("X", "XX"),
        concat!("db", "g!("),
        concat!("unimpl", "emented!("),
    ];
    for folder in [
        "engine",
        "cli",
        "mock-server",
        "benches",
        "tests",
        "fuzz",
        "docs",
        "examples",
    ] {
        for path in files(folder, &[".rs", ".md", ".toml", ".yaml"]) {
            for (at, line) in read(&path).lines().enumerate() {
                for marker in markers {
                    assert!(!line.contains(marker), "{}:{}: {marker}", path.display(), at + 1);
                }
            }
        }
    }
}

#[test]
fn no_file_holds_two_ideas() {
    let mut seen = 0;
    for package in ["engine", "cli", "mock-server", "benches", "tests", "fuzz"] {
        for path in files(package, &[".rs"]) {
            let lines = read(&path).lines().count();
            assert!(
                lines <= LINES_MAX,
                "{} has {lines} lines, {LINES_MAX} are the limit",
                path.display()
            );
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen} files found: the search is broken");
}

#[test]
fn every_file_says_its_job() {
    for package in ["engine", "cli", "mock-server", "benches", "tests"] {
        for path in files(package, &[".rs"]) {
            let text = read(&path);
            assert!(
                text.starts_with("//!"),
                "{} does not start with its job",
                path.display()
            );
        }
    }
}
