//! A resolved config is a config: every example and every valid case, spelt out and read again, gives the plan that it came from (A10).
//!
//! The test has a process of its own, because it changes the current directory, where relative paths of datasets start.

use std::path::{Path, PathBuf};

use ringload_engine::cells::Cells;
use ringload_engine::config;
use ringload_engine::plan::{BuildOptions, Plan, SeedChoice, build};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every plan that a file describes; `None` if it is refused.
fn all_plans(file: &str, bytes: &[u8]) -> Option<Vec<Plan>> {
    let suite = config::parse_suite(file, bytes, &|_| None).ok()?;
    let options = BuildOptions {
        // Where a file leaves the seed open it is the same for both sides of a comparison.
        seed: Some(7),
        ..BuildOptions::default()
    };
    if suite.is_single() {
        let config = suite.into_single().expect("it is single");
        return Some(vec![build(&config, &options).ok()?]);
    }
    let cells = Cells::prepare(suite, options).ok()?;
    let plan = |cell| {
        let plan = cells.plan(cell);
        plan.expect("all cells were checked")
    };
    Some(cells.cells().iter().map(plan).collect())
}

/// The files of a folder, by name.
fn yaml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    files
}

#[test]
fn a_resolved_config_loads_and_gives_the_same_plan() {
    // A10. Cells of a sweep too: each is a file of its own.
    let examples = root().join("examples");
    let cases = root().join("tests/cases/config");
    let mut compared = 0;
    for (folder, directory) in [(&examples, root()), (&cases.join("valid"), cases.clone())] {
        for path in yaml_files(folder) {
            std::env::set_current_dir(&directory).expect("relative paths of datasets start here");
            let name = path.display().to_string();
            let bytes = std::fs::read(&path).expect("the file is readable");
            let plans = all_plans(&name, &bytes);
            assert!(plans.is_some() || *folder != examples, "{name} is refused");
            for plan in plans.into_iter().flatten() {
                let yaml = plan.resolved_yaml(SeedChoice::Fixed);
                let json = plan.resolved_config(SeedChoice::Fixed).to_string();
                for text in [yaml, json] {
                    let suite = config::parse_suite(&name, text.as_bytes(), &|_| None);
                    let config = suite.and_then(|suite| suite.into_single());
                    let config = config.unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
                    let again = build(&config, &BuildOptions::default());
                    let again = again.unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
                    assert_eq!(again.fingerprint(), plan.fingerprint(), "{name}:\n{text}");
                    assert_eq!(again.phases, plan.phases, "{name}:\n{text}");
                    assert_eq!(again.seed, plan.seed, "{name}:\n{text}");
                    assert_eq!(again.readiness, plan.readiness, "{name}:\n{text}");
                    assert_eq!(again.artifacts, plan.artifacts, "{name}:\n{text}");
                    assert_eq!(again.endpoint.targets, plan.endpoint.targets, "{name}:\n{text}");
                    let bodies = |plan: &Plan| {
                        let images = plan.requests.entries.iter();
                        images.map(|image| image.body().to_vec()).collect::<Vec<_>>()
                    };
                    assert!(bodies(&again) == bodies(&plan), "{name}: other bodies\n{text}");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 100, "only {compared} plans were compared");
}
