//! `config expand`: everything resolved and no secret shown, printed or as files that run as they are.

use std::fs;

use ringload_tests::mock;
use ringload_tests::program::{Program, Workplace, config, phase};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn expand_writes_a_file_for_each_cell_that_runs_as_it_is_and_overwrites_none() {
    let server = mock(|_| {});
    let file = config(&server.url(), &phase("profiling", "concurrency: 1, requests: 3"))
        + "sweep: {type: grid, parameters: {phases.0.concurrency: [2, 3]}}\nmulti_run: {num_runs: 2}\nrandom_seed: 7\n";
    let workplace = Workplace::new(&file);
    let expand = ["config", "expand", "test.yaml", "--output-dir", "some/cells"];
    let written = workplace.run(&expand).expect(0);
    let paths: Vec<&str> = written.stdout.lines().collect();
    let names = [
        "trial_0001-concurrency_2",
        "trial_0001-concurrency_3",
        "trial_0002-concurrency_2",
        "trial_0002-concurrency_3",
    ];
    assert_eq!(paths, names.map(|name| format!("some/cells/{name}.yaml")));
    workplace.run(&["profile", "--config", paths[3]]).expect(0);
    assert_eq!(server.ledger().len(), 3);
    let cell = "results/profile_runs/trial_0002/concurrency_3";
    assert!(workplace.path(cell).join("profile_export_aiperf.json").exists());

    // One of them exists, so none is written.
    fs::remove_file(workplace.path(paths[0])).expect("it was written");
    let refused = workplace.run(&expand).expect(2);
    let taken = format!("{} exists and is not overwritten", paths[1]);
    assert!(refused.stderr.contains(&taken), "{}", refused.stderr);
    assert!(!workplace.path(paths[0]).exists());

    // One cell alone, as JSON.
    let alone = ["--index", "3", "--format", "json"];
    let written = workplace.run(&[&expand[..], &alone[..]].concat()).expect(0);
    assert_eq!(written.stdout, "some/cells/trial_0002-concurrency_3.json\n");
    let again = workplace
        .run(&["config", "expand", written.stdout.trim(), "--format", "json"])
        .expect(0);
    let all = workplace
        .run(&["config", "expand", "test.yaml", "--format", "json"])
        .expect(0);
    assert_eq!(json(&again.stdout)[0]["plan_hash"], json(&all.stdout)[3]["plan_hash"]);

    // What is printed holds several documents, and says what to do about it.
    let printed = workplace.run(&["config", "expand", "test.yaml"]).expect(0);
    assert!(
        printed
            .stdout
            .starts_with("# 4 configs, and a config file holds one: ringload config expand test.yaml --output-dir DIR")
    );
    fs::write(workplace.path("all.yaml"), &printed.stdout).expect("a file");
    let refused = workplace.run(&["profile", "--config", "all.yaml"]).expect(2);
    assert!(
        refused.stderr.contains("found a second document; allowed: one; "),
        "{}",
        refused.stderr
    );
}

#[test]
fn expand_resolves_everything_and_shows_no_secret() {
    let text = "variables: {n: 3}\nbenchmark:\n  model: m\n  endpoint: {url: 'http://h', api_key: '${A_KEY}', headers: {X-Trace: '${A_TRACE}'}}\n  \
                dataset: {isl: 8}\n  phases: {type: concurrency, concurrency: '{{ n * 2 }}', requests: 9}\n";
    let workplace = Workplace::new(text);
    let mut command = workplace.command(&["config", "expand", "test.yaml"]);
    command.env("A_KEY", "hunter2").env("A_TRACE", "blue");
    let ended = Program::start(command).end().expect(0);
    assert!(!ended.stdout.contains("hunter2"), "{}", ended.stdout);
    for part in [
        "concurrency: 6",
        "api_key: \"<redacted>\"",
        "X-Trace: blue",
        "name: profiling",
    ] {
        assert!(ended.stdout.contains(part), "{part}\n{}", ended.stdout);
    }
    // The mask would be sent for the key, and whoever runs the file hears of it.
    fs::write(workplace.path("cell.yaml"), &ended.stdout).expect("a file");
    let validated = workplace.run(&["config", "validate", "cell.yaml"]).expect(0);
    assert!(
        validated.stderr.contains("benchmark.endpoint.api_key holds <redacted>"),
        "{}",
        validated.stderr
    );
    let beyond = workplace
        .run(&["config", "expand", "cell.yaml", "--index", "1"])
        .expect(2);
    assert!(beyond.stderr.contains("one cell, 0"), "{}", beyond.stderr);
}
