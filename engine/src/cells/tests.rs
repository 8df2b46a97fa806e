//! Cells from files: directories, seeds, warmups, mistakes, and what aggregates are made of.

use std::path::Path;

use super::*;
use crate::config::parse_suite;

const BODY: &str = "benchmark:\n  model: m\n  endpoint: {url: \"http://127.0.0.1:1\"HOOK}\n  dataset: {entries: 4, isl: 16, osl: 8}\n  artifacts: {dir: \
                    /d}\n  phases:\n    - {name: warmup, type: concurrency, requests: 2}\n    - {name: p1, kind: profiling, type: concurrency, \
                    requests: 4SEAMLESS}\n";

fn cells_of(envelope: &str, hook: &str, seamless: &str) -> Result<Cells, Diagnostics> {
    let body = BODY.replace("HOOK", hook).replace("SEAMLESS", seamless);
    let suite = parse_suite("f.yaml", format!("{envelope}\n{body}").as_bytes(), &|_| None).expect("a good file");
    Cells::prepare(suite, BuildOptions::default())
}

fn cells(envelope: &str) -> Cells {
    cells_of(envelope, "", "").expect("good plans")
}

fn seeds(cells: &Cells) -> Vec<u64> {
    cells
        .cells()
        .iter()
        .map(|cell| cells.plan(cell).expect("a plan").seed)
        .collect()
}

#[test]
fn a_sweep_with_trials_has_a_cell_for_each_in_its_place() {
    let cells = cells("multi_run: {num_runs: 2}\nsweep: {type: grid, parameters: {phases.p1.concurrency: [1, 4]}}");
    let places: Vec<&Path> = cells.cells().iter().map(|cell| cell.directory.as_path()).collect();
    assert_eq!(
        places,
        [
            "/d/profile_runs/trial_0001/concurrency_1",
            "/d/profile_runs/trial_0001/concurrency_4",
            "/d/profile_runs/trial_0002/concurrency_1",
            "/d/profile_runs/trial_0002/concurrency_4",
        ]
        .map(Path::new)
    );
    assert_eq!(cells.cells()[3].name, "phases.p1.concurrency=4 (run 2 of 2)");
    assert_eq!(cells.plan(&cells.cells()[2]).unwrap().trial, 1);
    assert_eq!(cells.plan(&cells.cells()[2]).unwrap().benchmark_id.len(), 32);
}

#[test]
fn variations_count_on_from_the_root_and_trials_share_it() {
    let sweep = "sweep: {type: grid, parameters: {phases.p1.concurrency: [1, 4]}";
    assert_eq!(seeds(&cells(&format!("{sweep}}}"))), [42, 43]);
    assert_eq!(seeds(&cells(&format!("{sweep}, same_seed: true}}"))), [42, 42]);
    assert_eq!(seeds(&cells(&format!("random_seed: 7\n{sweep}}}"))), [7, 8]);
    assert_eq!(seeds(&cells("multi_run: {num_runs: 3}")), [42, 42, 42]);
    let varied = "random_seed: 7\nmulti_run: {num_runs: 3, vary_seed_per_trial: true}";
    let (first, again) = (seeds(&cells(varied)), seeds(&cells(varied)));
    assert_eq!(first, again, "a function of the root");
    assert!(first[0] != first[1] && first[1] != first[2], "{first:?}");
    let drawn = seeds(&cells("multi_run: {num_runs: 2, set_consistent_seed: false}"));
    assert_ne!(drawn[0], drawn[1]);
}

#[test]
fn later_trials_leave_the_warmup_out_unless_the_cache_is_reset() {
    let phases = |cells: &Cells, at: usize| cells.plan(&cells.cells()[at]).unwrap().phases.len();
    let plain = cells("multi_run: {num_runs: 3}");
    assert_eq!([0, 1, 2].map(|at| phases(&plain, at)), [2, 1, 1]);
    assert_eq!(plain.warnings(), &[] as &[String]);
    let kept = cells("multi_run: {num_runs: 2, disable_warmup_after_first: false}");
    assert_eq!([0, 1].map(|at| phases(&kept, at)), [2, 2]);
    let reset = cells_of("multi_run: {num_runs: 2}", ", reset_kv_cache: true", "").unwrap();
    assert_eq!([0, 1].map(|at| phases(&reset, at)), [2, 2]);
    assert!(reset.warnings()[0].contains("reset_kv_cache"), "{:?}", reset.warnings());
}

#[test]
fn a_seamless_phase_that_becomes_the_first_starts_by_itself() {
    let cells = cells_of("multi_run: {num_runs: 2}", "", ", seamless: true").unwrap();
    let seamless = |at: usize| cells.plan(&cells.cells()[at]).unwrap().phases.last().unwrap().seamless;
    assert_eq!([seamless(0), seamless(1)], [true, false]);
    assert!(
        cells
            .warnings()
            .iter()
            .any(|warning| warning.contains("nothing to join"))
    );
}

#[test]
fn a_fingerprint_is_of_what_is_measured() {
    let sweep = "sweep: {type: grid, same_seed: true, parameters: {phases.p1.concurrency: [1, 4]}}";
    let (one, two) = (cells(sweep), cells(sweep));
    let print = |cells: &Cells, at: usize| cells.plan(&cells.cells()[at]).unwrap().fingerprint();
    assert_eq!(print(&one, 0), print(&two, 0));
    assert_ne!(print(&one, 0), print(&one, 1));
    assert_ne!(print(&one, 0), print(&cells(&format!("random_seed: 1\n{sweep}")), 0));
}

#[test]
fn a_flag_and_a_sweep_of_the_same_thing_exclude_each_other() {
    let text = BODY.replace("HOOK", "").replace("SEAMLESS", "");
    let sweep = "sweep: {type: grid, parameters: {endpoint.url: [\"http://127.0.0.1:2\", \"http://127.0.0.1:3\"]}}";
    let suite = parse_suite("f.yaml", format!("{sweep}\n{text}").as_bytes(), &|_| None).expect("a good file");
    let options = BuildOptions {
        target_override: Some("http://127.0.0.1:9".into()),
        ..BuildOptions::default()
    };
    let refused = Cells::prepare(suite, options).expect_err("two servers").to_string();
    assert!(
        refused.contains("--mock") && refused.contains("endpoint.url"),
        "{refused}"
    );
}

#[test]
fn the_directory_of_a_sweep_is_named_after_what_its_cells_have_in_common() {
    let text = BODY
        .replace("HOOK", "")
        .replace("SEAMLESS", "")
        .replace("  artifacts: {dir: /d}\n", "")
        .replace(
            "type: concurrency, requests: 4",
            "type: poisson, rate: 20, concurrency: 3, requests: 4",
        );
    for (sweep, name) in [
        ("phases.p1.concurrency: [1, 4]", "m-openai-chat-request_rate20.0"),
        ("phases.p1.rate: [1, 4]", "m-openai-chat-concurrency3"),
        ("phases.p1.rate: [1, 4], phases.p1.concurrency: [1, 4]", "m-openai-chat"),
        (
            "phases.p1.requests: [1, 4]",
            "m-openai-chat-concurrency3-request_rate20.0",
        ),
        (
            "endpoint.type: [chat, completions]",
            "m-openai-concurrency3-request_rate20.0",
        ),
    ] {
        let text = format!("sweep: {{type: grid, parameters: {{{sweep}}}}}\n{text}");
        let suite =
            parse_suite("f.yaml", text.as_bytes(), &|_| None).unwrap_or_else(|mistakes| panic!("{sweep}: {mistakes}"));
        let cells = Cells::prepare(suite, BuildOptions::default()).expect("good plans");
        let directory = cells.directory();
        assert_eq!(
            directory.file_name().and_then(|name| name.to_str()),
            Some(name),
            "{sweep}"
        );
        assert!(cells.cells().iter().all(|cell| cell.directory.starts_with(directory)));
    }
}
