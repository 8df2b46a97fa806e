//! Every file in `examples/` is a plan without a word of advice against it, and says how to run it.

use std::path::Path;

use ringload_engine::cells::Cells;
use ringload_engine::config::{self, Suite};
use ringload_engine::plan::{
    Arrival, BuildOptions, ControlVariable, DrainRule, PhasePlan, Plan, RateCourse, build, check,
};

fn suite(name: &str) -> Suite {
    // Examples are run from the top of the repository, and so relative paths of datasets start there.
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::env::set_current_dir(top).expect("the repository is there");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
    let text = std::fs::read_to_string(&path).expect("the example is readable");
    assert!(
        text.contains(&format!("ringload profile --config examples/{name}")),
        "{name} does not say how to run it"
    );
    config::parse_suite(name, text.as_bytes(), &|_| None).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn plan(name: &str) -> Plan {
    let config = suite(name)
        .into_single()
        .unwrap_or_else(|mistakes| panic!("{mistakes}"));
    build(&config, &BuildOptions::default()).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn cells(name: &str) -> Cells {
    Cells::prepare(suite(name), BuildOptions::default()).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

#[test]
fn every_example_is_sound() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .expect("the examples are there")
        .map(|entry| {
            entry
                .expect("the directory is readable")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|name| name.ends_with(".yaml"))
        .collect();
    names.sort();
    for expected in [
        "completions.yaml",
        "embeddings.yaml",
        "fixed-schedule.yaml",
        "goodput.yaml",
        "hooks.yaml",
        "messages.yaml",
        "multi-phase.yaml",
        "poisson.yaml",
        "quickstart.yaml",
        "rankings.yaml",
        "rates.yaml",
        "responses.yaml",
        "seamless.yaml",
        "server-metrics.yaml",
        "several-servers.yaml",
        "sweep.yaml",
    ] {
        assert!(names.iter().any(|name| name == expected), "{expected} is missing");
    }
    for name in names {
        let told = if suite(&name).is_single() {
            let config = suite(&name).into_single().expect("it is single");
            // Without a seed each of the two would draw one, and with it the numbers of turns.
            let options = BuildOptions {
                seed: Some(7),
                ..BuildOptions::default()
            };
            let outline = check(&config, &options).unwrap_or_else(|mistakes| panic!("{mistakes}"));
            let plan = build(&config, &options).unwrap_or_else(|mistakes| panic!("{mistakes}"));
            assert_eq!(outline.requests, plan.requests.entries.len() as u64, "{name}");
            assert_eq!(outline.warnings, plan.warnings, "{name}");
            plan.warnings
        } else {
            let cells = cells(&name);
            for cell in cells.cells() {
                let plan = cells.plan(cell);
                plan.unwrap_or_else(|mistakes| panic!("{name}, cell {}: {mistakes}", cell.name));
            }
            cells.warnings().to_vec()
        };
        // What trials do differently is said of every file that has them.
        let expected = ["connections are opened", "keep their warmup phases"];
        let is_advice = |warning: &&String| !expected.iter().any(|words| warning.contains(words));
        let warnings: Vec<&String> = told.iter().filter(is_advice).collect();
        assert!(warnings.is_empty(), "{name}: {warnings:?}");
    }
}

/// AIPerf's public schema knows camelCase only, and users of both tools point their editors at it (`docs/config-commands.md`).
#[test]
fn the_examples_spell_keys_as_aiperfs_schema_does() {
    // Not keys of the format: tags of metrics, fields of trace records, variables of the example, keys of a body; and of the environment, which are upper case.
    let names = [
        "error_rate",
        "hash_ids",
        "input_length",
        "inter_token_latency",
        "\"max_new_tokens\"",
        "output_length",
        "prompt_tokens",
        "time_to_first_token",
    ];
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut keys = 0;
    for entry in std::fs::read_dir(directory).expect("the examples are there") {
        let path = entry.expect("the directory is readable").path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("the example is readable");
        for line in text.lines().map(|line| line.split('#').next().unwrap_or_default()) {
            let before_colons: Vec<&str> = line.split(':').collect();
            for part in &before_colons[..before_colons.len() - 1] {
                let key = part.rsplit(['{', ',', ' ', '.']).next().unwrap_or_default();
                keys += 1;
                assert!(
                    !key.contains('_') || key.starts_with(char::is_uppercase) || names.contains(&key),
                    "{}: `{key}` is not camelCase",
                    path.display()
                );
            }
        }
    }
    assert!(keys > 200, "{keys} keys");
}

#[test]
fn the_examples_show_what_they_are_named_after() {
    assert_eq!(plan("quickstart.yaml").phases[0].stop.requests, Some(100));
    assert_eq!(plan("multi-phase.yaml").phases.len(), 4);
    assert!(matches!(plan("poisson.yaml").phases[1].drain, DrainRule::Grace(_)));
    let seamless: Vec<bool> = plan("seamless.yaml")
        .phases
        .iter()
        .map(|phase| phase.seamless)
        .collect();
    assert_eq!(seamless, [false, true, false]);
    let ramp = &plan("ramp.yaml").phases[0].limits;
    assert!(ramp.concurrency_ramp.is_some() && ramp.prefill.is_some() && ramp.failure_threshold.is_some());
    let moved = |name| plan(name).phases[1].limits.adaptive.as_ref().map(|plan| plan.variable);
    assert_eq!(moved("adaptive.yaml"), Some(ControlVariable::Concurrency));
    assert_eq!(moved("adaptive-rate.yaml"), Some(ControlVariable::RequestRate));
    assert_eq!(plan("goodput.yaml").slos.len(), 2);
    let rates = plan("rates.yaml").phases;
    let moves = |phase: &PhasePlan| match &phase.arrival {
        Arrival::AtRate { rate, .. } => (rate.ramp.is_some(), matches!(rate.course, RateCourse::Series(_))),
        _ => panic!("{} has no rate", phase.name),
    };
    assert_eq!((moves(&rates[0]), moves(&rates[1])), ((true, false), (false, true)));
    assert!(rates[2].concurrency.is_some());
    assert_eq!(cells("sweep.yaml").cells().len(), 18);
    assert!(
        matches!(&plan("fixed-schedule.yaml").phases[0].arrival, Arrival::FixedSchedule(schedule) if schedule.starts().len() == 12)
    );
    let hooks = plan("hooks.yaml").hooks;
    assert!(hooks.reset_kv_cache.is_some() && hooks.server_profiler.is_some());
}
