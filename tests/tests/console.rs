//! What people read on the console: each thing once, in words that fit their number, and in lines that fit the terminal.

use std::fs;

use ringload_tests::mock;
use ringload_tests::program::{Ended, Program, Workplace, config, phase};

/// Words of a text that stand in the plural behind a 1.
fn wrong_plurals(text: &str) -> Vec<String> {
    let is_plural = |word: &str| word.len() > 3 && word.ends_with('s') && word.chars().all(|c| c.is_ascii_lowercase());
    let of_line = |line: &str| {
        let words: Vec<&str> = line
            .split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | ':' | '(' | ')'))
            .filter(|word| !word.is_empty())
            .collect();
        let pairs = words.windows(2).filter(|pair| pair[0] == "1" && is_plural(pair[1]));
        pairs.map(|pair| pair.join(" ")).collect::<Vec<_>>()
    };
    text.lines().flat_map(of_line).collect()
}

fn assert_singular(what: &str, ended: &Ended) {
    for text in [&ended.stdout, &ended.stderr] {
        let wrong = wrong_plurals(text);
        assert!(wrong.is_empty(), "{what}: {wrong:?} in\n{text}");
    }
}

#[test]
fn one_of_anything_is_in_the_singular() {
    assert_eq!(
        wrong_plurals("sent 1 requests, 11 requests; 1 errors"),
        ["1 requests", "1 errors"]
    );
    let good = mock(|_| {});
    let failing = mock(|options| options.fault = Some("status:500".parse().expect("a fault of the mock server")));
    let one = phase("load", "requests: 1").replace("entries: 8", "entries: 1");
    let text = |url: &str, more: &str| {
        config(url, &(phase("warmup", "requests: 1") + &one)).replace("entries: 8", "entries: 1") + more
    };
    for (url, code) in [(good.url(), 0), (failing.url(), 1)] {
        let workplace = Workplace::new(&text(&url, ""));
        let mut command = workplace.command(&["profile", "--config", "test.yaml", "--cores", "1"]);
        command.env("COLUMNS", "100");
        let ended = Program::start(command).end().expect(code);
        assert!(ended.stdout.contains("sent 1 = "), "{}", ended.stdout);
        assert_singular("a run", &ended);
    }
    let single = Workplace::new(&text(&good.url(), ""));
    for arguments in [
        &["config", "validate", "test.yaml"][..],
        &["config", "expand", "test.yaml", "--index", "3"],
        &["profile", "--config", "test.yaml", "--dry-run", "--cores", "1"],
    ] {
        assert_singular(&arguments.join(" "), &single.run(arguments));
    }
    let sweep = "sweep: {type: grid, parameters: {phases.load.concurrency: [1]}}\n";
    for (url, code) in [(good.url(), 0), (failing.url(), 1)] {
        let suite = Workplace::new(&text(&url, sweep));
        assert_singular("a dry run of a sweep", &suite.profile(&["--dry-run"]).expect(0));
        assert_singular(
            "validation of a sweep",
            &suite.run(&["config", "validate", "test.yaml"]).expect(0),
        );
        assert_singular("a sweep", &suite.profile(&[]).expect(code));
    }
}

#[test]
fn the_figures_of_a_single_measured_phase_stand_there_once() {
    let server = mock(|_| {});
    for (phases, tables) in [
        (phase("load", "requests: 2"), 1),
        (phase("warmup", "requests: 1") + &phase("load", "requests: 2"), 2),
        (phase("a", "requests: 2") + &phase("b", "requests: 2"), 3),
    ] {
        let workplace = Workplace::new(&config(&server.url(), &phases));
        let ended = workplace.profile(&[]).expect(0);
        assert_eq!(ended.stdout.matches("\n  sent ").count(), tables, "{}", ended.stdout);
        assert_eq!(
            ended.stdout.contains("all profiling phases"),
            tables == 3,
            "{}",
            ended.stdout
        );
    }
}

#[test]
fn the_short_help_has_a_line_for_each_flag_at_any_width() {
    let workplace = Workplace::new("");
    for width in [80_usize, 100] {
        let mut command = workplace.command(&["profile", "-h"]);
        command.env("COLUMNS", width.to_string());
        let help = Program::start(command).end().expect(0).stdout;
        assert!(
            help.contains("Usage: ringload profile [OPTIONS]") && help.contains("\nLoad:\n"),
            "{help}"
        );
        for flag in [
            "--concurrency <N>",
            "-u, --url <URL>...",
            "--dry-run",
            "--pacing <HOW>",
            "-h",
        ] {
            let lines = help.lines().filter(|line| line.trim_start().starts_with(flag));
            assert_eq!(lines.count(), 1, "{flag}\n{help}");
        }
        assert!(help.lines().all(|line| line.chars().count() <= width), "{help}");
    }
    // With other flags too, and the long one says more.
    let with_flags = workplace.run(&["profile", "--model", "m", "-h"]).expect(0).stdout;
    assert!(with_flags.contains("Usage: "), "{with_flags}");
    let long = workplace.run(&["profile", "--help"]).expect(0).stdout;
    assert!(
        long.contains("Exit codes:") && long.contains("--concurrency <N>"),
        "{long}"
    );
}

#[test]
fn cells_of_other_values_are_named_when_a_sweep_goes_on() {
    let server = mock(|_| {});
    let text = |values: &str| {
        config(&server.url(), &phase("load", "requests: 2"))
            + &format!("sweep: {{type: grid, same_seed: true, parameters: {{phases.load.concurrency: [{values}]}}}}\n")
    };
    let workplace = Workplace::new(&text("1, 2, 3"));
    workplace.profile(&[]).expect(0);
    let whole = workplace.profile(&["--resume"]).expect(0);
    assert!(!whole.stdout.contains("not part of this sweep"), "{}", whole.stdout);
    fs::write(workplace.path("test.yaml"), text("1, 4")).expect("a config");
    let ended = workplace.profile(&["--resume"]).expect(0);
    let line = "warning: 2 cell directories of an earlier attempt with other values: not part of this sweep, and in none of its figures: \
                concurrency_2, concurrency_3\n";
    assert!(ended.stdout.contains(line), "{}", ended.stdout);
    assert!(workplace.path("results/concurrency_2/run_config.json").exists());
}

#[test]
fn a_sweep_does_not_go_on_with_another_data_set() {
    let server = mock(|_| {});
    let text = config(&server.url(), &phase("load", "requests: 2")).replace(
        "    type: synthetic\n    entries: 8\n    prompts: {isl: 16, osl: 4}\n",
        "    type: file\n    path: texts.jsonl\n",
    ) + "multi_run: {num_runs: 2}\n";
    let workplace = Workplace::new(&text);
    let write =
        |words: &str| fs::write(workplace.path("texts.jsonl"), format!("{{\"text\": \"{words}\"}}\n")).expect("a file");
    write("one two");
    workplace.profile(&[]).expect(0);
    let first = fs::read_to_string(workplace.path("results/profile_runs/run_0001/run_config.json")).expect("a record");
    assert!(first.contains("\"dataset_sha256\""), "{first}");
    workplace.profile(&["--resume"]).expect(0);
    let sent = server.counters().requests;
    write("three four");
    for more in [&["--resume"][..], &["--resume", "--dry-run"]] {
        let refused = workplace.profile(more).expect(2);
        assert!(
            refused
                .stderr
                .contains("the data set file texts.jsonl has changed since")
                && refused.stderr.contains("run_0001"),
            "{}",
            refused.stderr
        );
    }
    assert_eq!(server.counters().requests, sent, "nothing was sent");
    write("one two");
    let dry = workplace.profile(&["--resume", "--dry-run"]).expect(0);
    assert!(dry.stderr.contains("2 of 2 cells finished earlier"), "{}", dry.stderr);
}
