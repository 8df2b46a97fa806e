//! The commands around a config: what they print is itself a config, a script, a document, and nothing of it reaches a server.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use ringload_tests::mock;
use ringload_tests::program::{Program, Workplace, config, phase};
use serde_json::Value;

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Runs the program at the top of the repository, where relative paths of the examples start.
fn at_top(workplace: &Workplace, arguments: &[&str]) -> String {
    let mut command = workplace.command(arguments);
    command.current_dir(repository());
    Program::start(command).end().expect(0).stdout
}

#[test]
fn every_cell_of_every_example_is_printed_as_a_config_that_describes_the_same_cell() {
    let workplace = Workplace::new("");
    let mut cells_seen = 0;
    for entry in fs::read_dir(repository().join("examples")).expect("the examples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let file = path.display().to_string();
        let all = json(&at_top(&workplace, &["config", "expand", &file, "--format", "json"]));
        let all = all.as_array().expect("a list of cells");
        let yaml = at_top(&workplace, &["config", "expand", &file]);
        let documents: Vec<&str> = yaml.split("\n---\n").collect();
        assert_eq!(documents.len(), all.len(), "{file}");
        // The last cell is the one that differs most from the file.
        for index in [0, all.len() - 1] {
            let cell = &all[index];
            assert_eq!(cell["index"], index);
            fs::write(workplace.path("cell.yaml"), documents[index]).expect("a file");
            fs::write(workplace.path("cell.json"), cell["config"].to_string()).expect("a file");
            for printed in ["cell.yaml", "cell.json"] {
                let printed = workplace.path(printed).display().to_string();
                at_top(&workplace, &["config", "validate", &printed]);
                let again = json(&at_top(&workplace, &["config", "expand", &printed, "--format", "json"]));
                assert_eq!(again[0]["config"], cell["config"], "{file}, cell {index}");
                assert_eq!(again[0]["plan_hash"], cell["plan_hash"], "{file}, cell {index}");
            }
            let index = index.to_string();
            let one = at_top(
                &workplace,
                &["config", "expand", &file, "--index", &index, "-f", "json"],
            );
            assert_eq!(json(&one), cell["config"], "{file}, cell {index}");
            cells_seen += 1;
        }
    }
    assert!(cells_seen > 20, "{cells_seen} cells");
}

#[test]
fn a_saved_run_gives_the_same_plan_on_any_number_of_cores() {
    let server = mock(|_| {});
    let workplace = Workplace::new(&config(
        &server.url(),
        &(phase("warmup", "concurrency: 2, requests: 4") + &phase("profiling", "concurrency: 2, requests: 9")),
    ));
    workplace.profile(&[]).expect(0);
    let saved = fs::read_to_string(workplace.path("results/resolved_config.yaml")).expect("a saved config");
    assert!(
        saved.contains("# command: ringload profile --config test.yaml"),
        "{saved}"
    );
    let cores = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(2)
        .to_string();
    let again = [
        "profile",
        "--config",
        "results/resolved_config.yaml",
        "--ui",
        "none",
        "--cores",
        &cores,
        "--output-artifact-dir",
        "again",
    ];
    workplace.run(&again).expect(0);
    let root = |directory: &str| {
        json(&fs::read_to_string(workplace.path(directory).join("profile_export_aiperf.json")).expect("a summary"))
    };
    let (first, second) = (root("results"), root("again"));
    let hash = &first["ringload"]["plan_hash"];
    assert!(hash.is_string() && hash == &second["ringload"]["plan_hash"], "{hash}");
    assert!(
        saved.contains(&format!("# plan {}\n", hash.as_str().expect("a text"))),
        "{saved}"
    );
    assert_eq!(first["run_info"]["random_seed"], second["run_info"]["random_seed"]);
    let inputs = |directory: &str| fs::read(workplace.path(directory).join("inputs.json")).expect("the inputs");
    assert!(inputs("results") == inputs("again"), "other requests");
}

/// A template as it is but for the times, which suit a real server.
fn hurried(template: &str) -> String {
    let mut text = String::new();
    for line in template.lines() {
        let shortened = [
            ("      duration: ", "300ms"),
            ("        window: ", "1s"),
            ("        sustainDuration: ", "1s"),
            ("  cooldownSeconds: ", "0"),
            ("  numRuns: ", "2"),
        ];
        match shortened.iter().find(|(key, _)| line.starts_with(key)) {
            Some((key, value)) => text.push_str(&format!("{key}{value}\n")),
            None => text.push_str(&format!("{line}\n")),
        }
    }
    // A search takes a few windows.
    if template.contains("adaptiveScale") {
        text = text.replace("duration: 300ms", "duration: 6s");
    }
    text
}

#[test]
fn every_template_runs_against_a_server() {
    let server = mock(|_| {});
    let workplace = Workplace::new("");
    let listed = workplace.run(&["config", "init", "--list"]).expect(0).stdout;
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(
        names,
        [
            "quickstart",
            "multi-phase",
            "hooks",
            "sweep",
            "poisson",
            "trace",
            "adaptive"
        ]
    );
    for name in names {
        let file = format!("{name}.yaml");
        let url = server.url();
        let init = [
            "config",
            "init",
            "--template",
            name,
            "--output",
            &file,
            "--url",
            &url,
            "--model",
            "a-model",
        ];
        let written = workplace.run(&init).expect(0);
        // Both were given, so nothing is left to set.
        assert!(written.stderr.contains("next: ringload profile"), "{}", written.stderr);
        workplace.run(&["config", "validate", &file]).expect(0);
        let text = fs::read_to_string(workplace.path(&file)).expect("a template");
        assert!(text.contains(&format!("--config {file}")), "{text}");
        fs::write(workplace.path("hurried.yaml"), hurried(&text)).expect("a file");
        let before = server.counters().requests;
        let run = [
            "profile",
            "--config",
            "hurried.yaml",
            "--ui",
            "none",
            "--cores",
            "1",
            "--output-artifact-dir",
            name,
        ];
        workplace.run(&run).expect(0);
        assert!(server.counters().requests > before, "{name} sent nothing");
    }
}

#[test]
fn init_without_a_name_is_the_quickstart_and_never_overwrites() {
    let workplace = Workplace::new("");
    let printed = workplace.run(&["config", "init"]).expect(0).stdout;
    assert_eq!(
        printed,
        workplace.run(&["config", "init", "-t", "quickstart"]).expect(0).stdout
    );
    let written = workplace.run(&["config", "init", "--output", "mine.yaml"]).expect(0);
    assert!(written.stderr.contains("set model and url"), "{}", written.stderr);
    let whole = [
        "config",
        "init",
        "--output",
        "whole.yaml",
        "--model",
        "m",
        "--url",
        "http://h",
    ];
    let written = workplace.run(&whole).expect(0);
    assert!(!written.stderr.contains("; set "), "{}", written.stderr);
    fs::write(workplace.path("mine.yaml"), "precious").expect("a file");
    let refused = workplace.run(&["config", "init", "--output", "mine.yaml"]).expect(2);
    assert!(
        refused.stderr.contains("mine.yaml") && refused.stderr.contains("not overwritten"),
        "{}",
        refused.stderr
    );
    assert_eq!(
        fs::read_to_string(workplace.path("mine.yaml")).expect("a file"),
        "precious"
    );
    let wrong = workplace
        .run(&["config", "init", "--url", "ftp://h", "--output", "other.yaml"])
        .expect(2);
    assert!(
        wrong.stderr.contains("--url") && !workplace.path("other.yaml").exists(),
        "{}",
        wrong.stderr
    );
    let near = workplace.run(&["config", "init", "-t", "quickstrat"]).expect(2);
    assert!(near.stderr.contains("quickstart"), "{}", near.stderr);
}

#[test]
fn mistakes_are_told_to_editors_with_beginning_and_end() {
    let text = "variables: {n: -3}\nbenchmark:\n  model: m\n  endpoint: {url: 'http://h', timout: 5}\n  dataset: {isl: 8}\n  \
                phases:\n    - {name: profiling, type: concurrency, requests: '{{ n * 2 }}'}\n";
    let workplace = Workplace::new(text);
    let ended = workplace
        .run(&["config", "validate", "test.yaml", "--format", "json"])
        .expect(2);
    assert_eq!(ended.stderr, "");
    let found = json(&ended.stdout);
    assert_eq!((&found["valid"], &found["file"]), (&false.into(), &"test.yaml".into()));
    let marked = |at: usize| {
        let one = &found["diagnostics"][at];
        assert_eq!(
            (&one["file"], &one["severity"]),
            (&"test.yaml".into(), &"error".into()),
            "{one}"
        );
        assert_eq!(one["line"], one["end_line"], "{one}");
        let number = |key: &str| usize::try_from(one[key].as_u64().expect("a number")).expect("a small one");
        let line = text.lines().nth(number("line") - 1).expect("a line");
        (
            one["path"].as_str().expect("a path").to_owned(),
            line[number("column") - 1..number("end_column") - 1].to_owned(),
        )
    };
    assert_eq!(marked(0), ("benchmark.endpoint.timout".to_owned(), "timout".to_owned()));
    // What a template comes to is wrong where the template stands.
    assert_eq!(
        marked(1),
        ("benchmark.phases[0].requests".to_owned(), "'{{ n * 2 }}'".to_owned())
    );
    assert!(
        found["diagnostics"][1]["message"]
            .as_str()
            .is_some_and(|message| message.contains("found `-6`")),
        "{found}"
    );
    assert_eq!(found["diagnostics"].as_array().map(Vec::len), Some(2), "{found}");
    // The same mistakes for people, each with its line.
    let told = workplace.run(&["config", "validate", "test.yaml"]).expect(2).stderr;
    assert!(
        told.contains("test.yaml:4:31") && told.contains("did you mean `timeout`?"),
        "{told}"
    );
}

#[test]
fn warnings_are_told_to_editors_too() {
    let workplace = Workplace::new(&config(
        "http://h",
        &phase("profiling", "concurrency: 100, requests: 10"),
    ));
    let found = json(
        &workplace
            .run(&["config", "validate", "test.yaml", "--format", "json"])
            .expect(0)
            .stdout,
    );
    assert_eq!(found["valid"], true);
    let warning = &found["diagnostics"][0];
    assert_eq!(warning["severity"], "warning");
    assert!(
        warning["message"]
            .as_str()
            .is_some_and(|text| text.contains("concurrency 100 can never be reached")),
        "{warning}"
    );
}

#[test]
fn a_dry_run_tells_all_and_touches_nothing() {
    let server = mock(|_| {});
    let phases = phase("warmup", "concurrency: 100, requests: 10")
        + "    - {name: load, kind: profiling, type: poisson, rate: 20, duration: 10s, grace_period: 1h, seamless: true}\n";
    let text = config(&server.url(), &phases).replace(
        "    type: chat\n",
        "    type: chat\n    reset_kv_cache: true\n    wait_for_model_timeout: 9\n",
    );
    let workplace = Workplace::new(&text);
    let ended = workplace.profile(&["--dry-run"]).expect(0);
    for part in [
        "1. warmup (warmup): closed loop",
        "2. load (profiling, seamless): open loop, Poisson arrivals, 20 requests/s",
        "about 200",
        "1 h 10 s after its start at the latest",
        "wait for the model, up to 9 s; POST /reset_prefix_cache before the load",
        "file descriptors needed",
        "1 core",
    ] {
        assert!(ended.stdout.contains(part), "{part}\n{}", ended.stdout);
    }
    for part in ["concurrency 100 can never be reached", "it may last 3610 s"] {
        assert!(ended.stderr.contains(part), "{part}\n{}", ended.stderr);
    }
    let found = json(&workplace.profile(&["--dry-run", "--format", "json"]).expect(0).stdout);
    assert_eq!(found["phases"][0]["expected_requests"]["count"], 10);
    assert_eq!(found["phases"][1]["expected_requests"]["count"], 200.0);
    assert_eq!(found["phases"][1]["ends"]["seconds"], 3610.0);
    assert_eq!(found["ends"]["meaning"], "unbounded");
    assert_eq!(found["host"]["cores"], 1);
    assert_eq!(
        (server.counters().connections, server.counters().other_requests),
        (0, 0)
    );
    assert_eq!(
        fs::read_dir(workplace.folder()).expect("a folder").count(),
        1,
        "test.yaml alone"
    );
    // Without the flag its format says nothing.
    workplace.profile(&["--format", "json"]).expect(2);
}

#[test]
fn a_dry_run_is_refused_as_the_run_would_be() {
    let server = mock(|_| {});
    let workplace = Workplace::new(&config(
        &server.url(),
        &phase("profiling", "concurrency: 2, requests: 4"),
    ));
    workplace.profile(&["--dry-run"]).expect(0);
    workplace.profile(&[]).expect(0);
    let sent = server.counters().requests;
    let (dry, real) = (
        workplace.profile(&["--dry-run"]).expect(2),
        workplace.profile(&[]).expect(2),
    );
    assert!(
        dry.stderr.contains(real.stderr.trim()),
        "{}\n{}",
        dry.stderr,
        real.stderr
    );
    workplace.profile(&["--dry-run", "--overwrite"]).expect(0);
    assert!(
        workplace.path("results/profile_export_aiperf.json").exists(),
        "a dry run removes nothing"
    );
    assert_eq!(server.counters().requests, sent);
}

#[test]
fn a_dry_run_finds_what_a_run_finds_before_its_load() {
    let workplace = Workplace::new(&config("http://127.0.0.1:9", &phase("profiling", "requests: 4")));
    fs::write(workplace.path("file"), "").expect("a file");
    let secure = config("https://127.0.0.1:9", &phase("profiling", "requests: 4"));
    fs::write(workplace.path("secure.yaml"), secure).expect("a config");
    for arguments in [
        // An address for documents, which no host has (RFC 5737).
        &["--source-address", "192.0.2.1"][..],
        &["--source-address", "0.0.0.0"],
        &["--source-address", "::1"],
        &["--config", "secure.yaml", "--ca-file", "missing.pem"],
        &["--config", "secure.yaml", "--ca-file", "file"],
        &["--output-artifact-dir", "file"],
        &["--output-artifact-dir", "file/below"],
        &["--cores", "4000"],
    ] {
        let config = if arguments[0] == "--config" {
            &[][..]
        } else {
            &["--config", "test.yaml"]
        };
        let with = |more: &[&str]| workplace.run(&[&["profile", "--ui", "none"], config, arguments, more].concat());
        let (dry, real) = (with(&["--dry-run"]), with(&[]));
        assert_eq!(dry.code, real.code, "{arguments:?}\n{}\n{}", dry.stderr, real.stderr);
        assert!(
            real.code == Some(2) || real.code == Some(1),
            "{arguments:?}: {}",
            real.stderr
        );
        let error = real.stderr.lines().find(|line| line.starts_with("error: "));
        let error = error.unwrap_or_else(|| panic!("{arguments:?}: {}", real.stderr));
        assert!(
            dry.stderr.contains(error),
            "{arguments:?}\n{}\n{}",
            dry.stderr,
            real.stderr
        );
    }
    assert!(!workplace.path("results").exists());
}

#[test]
fn a_dry_run_of_a_sweep_lists_its_cells() {
    let text = config("http://h", &phase("profiling", "concurrency: 2, requests: 4"))
        + "sweep: {type: grid, parameters: {phases.profiling.concurrency: [1, 2, 3]}}\nmulti_run: {num_runs: 2}\n";
    let workplace = Workplace::new(&text);
    let shown = workplace.profile(&["--dry-run"]).expect(0).stdout;
    assert!(
        shown.contains("6 cells: 3 variations, 2 runs of each") && shown.contains("concurrency_3"),
        "{shown}"
    );
    let found = json(&workplace.profile(&["--dry-run", "--format", "json"]).expect(0).stdout);
    assert_eq!(found["cells"].as_array().map(Vec::len), Some(6), "{found}");
}

#[test]
fn the_schema_is_a_document_that_describes_every_phase_key() {
    let workplace = Workplace::new("");
    let schema = json(&workplace.run(&["config", "schema"]).expect(0).stdout);
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let keys = schema["$defs"]["benchmark_phases"]["properties"]
        .as_object()
        .expect("keys of a phase");
    assert!(
        keys.len() > 30 && keys.values().all(|key| key["description"].is_string()),
        "{keys:?}"
    );
}

/// Whether a shell finds a script in order; `None` without the shell.
fn accepts(shell: &str, script: &Path) -> Option<bool> {
    let status = Command::new(shell)
        .arg("-n")
        .arg(script)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .ok()?;
    Some(status.success())
}

#[test]
fn completions_know_the_flags_and_are_scripts_of_their_shell() {
    let workplace = Workplace::new("");
    for shell in ["bash", "zsh", "fish"] {
        let script = workplace.run(&["completions", shell]).expect(0).stdout;
        for word in ["dry-run", "expand", "output-artifact-dir", "quickstart"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
        let path = workplace.path(shell);
        fs::write(&path, script).expect("a file");
        match accepts(shell, &path) {
            Some(is_accepted) => assert!(is_accepted, "{shell} refuses its script"),
            None => eprintln!("skipped: there is no {shell} here to read its script"),
        }
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let workplace = Workplace::new("");
    for (words, heart) in [
        (&[][..], "completions"),
        (&["profile"], "dry\\-run"),
        (&["config"], "expand"),
        (&["config", "validate"], "format"),
        (&["config", "init"], "template"),
    ] {
        let arguments: Vec<&str> = ["man"].iter().chain(words).copied().collect();
        let page = workplace.run(&arguments).expect(0).stdout;
        assert!(page.contains(".TH ") && page.contains(heart), "{words:?}\n{page}");
        // The usage in a line, not a list of all flags; exit codes where manuals have them.
        let synopsis = page.split(".SH SYNOPSIS\n").nth(1).and_then(|rest| rest.lines().next());
        assert!(
            synopsis.is_some_and(|line| line.starts_with("ringload") && line.len() < 80),
            "{words:?}\n{page}"
        );
        assert!(!page.contains(".SH EXTRA"), "{words:?}\n{page}");
    }
    let refused = workplace.run(&["man", "config", "nothing"]).expect(2);
    assert!(
        refused.stderr.contains("validate, expand, init, schema"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_time_for_silent_drains_is_refused_where_no_drain_ends_by_it() {
    let first = phase("first", "concurrency: 1, duration: 1, grace_period: 5");
    let graced = phase("second", "concurrency: 1, duration: 1, grace_period: inf");
    let open = phase("second", "concurrency: 1, requests: 2");
    let swept =
        "sweep: {type: scenarios, runs: [{name: a, benchmark: {model: a}}, {name: b, benchmark: {model: b}}]}\n";
    for (second, more, code) in [(&graced, "", 2), (&graced, swept, 2), (&open, "", 0), (&open, swept, 0)] {
        let workplace = Workplace::new(&(config("http://127.0.0.1:1", &(first.clone() + second)) + more));
        let ended = workplace
            .profile(&["--drain-stall-timeout", "9", "--dry-run"])
            .expect(code);
        let told = ended
            .stderr
            .contains("error: --drain-stall-timeout cuts silent requests");
        assert_eq!(told, code == 2, "{}", ended.stderr);
    }
}
