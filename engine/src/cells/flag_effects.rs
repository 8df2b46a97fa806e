//! A flag that changes nothing is refused: every flag of the table in every kind of workflow.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::*;
use crate::config::{Flags, Takes, all_flags, suite_of_flags};

/// Kinds of workflows, as command lines. Every one of them is sound.
const WORKFLOWS: &[(&str, &str)] = &[
    ("closed loop", ""),
    ("streams", "--streaming --concurrency 2"),
    ("prefill", "--streaming --concurrency 3 --prefill-concurrency 2"),
    ("rate", "--request-rate 5"),
    ("gamma", "--request-rate 5 --arrival-pattern gamma --concurrency 4"),
    ("users", "--user-centric-rate 5 --num-users 2 --session-turns-mean 2"),
    ("conversations", "--session-turns-mean 3 --num-conversations 2"),
    ("duration", "--benchmark-duration 5"),
    ("records", "--input-file {texts}"),
    (
        "trace",
        "--input-file {trace} --custom-dataset-type mooncake_trace --no-fixed-schedule",
    ),
    ("schedule", "--input-file {trace} --custom-dataset-type mooncake_trace"),
    ("embeddings", "--endpoint-type embeddings"),
    ("rankings", "--endpoint-type nim_rankings"),
    ("completions", "--endpoint-type completions --osl 4"),
    ("responses", "--endpoint-type responses --osl 4"),
    ("messages", "--endpoint-type messages --osl 4"),
    ("warmup", "--warmup-request-count 2"),
    ("warmup at a rate", "--warmup-duration 2 --warmup-request-rate 5"),
    ("sweep", "--concurrency 1,2"),
    ("trials", "--num-profile-runs 2"),
    (
        "trials that converge",
        "--num-profile-runs 3 --convergence-metric request_latency",
    ),
    ("sweep of trials", "--concurrency 1,2 --num-profile-runs 2"),
];

/// A value of a flag that is not its default, for flags whose values are no numbers.
const VALUES: &[(&str, &str)] = &[
    ("model", "other"),
    ("model-selection-strategy", "random"),
    ("url", "http://127.0.0.1:2"),
    ("url-strategy", "round_robin"),
    ("endpoint-type", "completions"),
    ("endpoint", "/other"),
    ("api-key", "key"),
    ("header", "X-A:1"),
    ("extra-inputs", "a:1"),
    ("connection-reuse-strategy", "never"),
    ("session-header", "X-Session"),
    ("transport", "http"),
    ("request-content-type", "application/json"),
    ("reset-kv-cache-path", "/r"),
    ("server-profiler-start-path", "/a"),
    ("server-profiler-stop-path", "/b"),
    ("wait-for-model-mode", "models"),
    ("profile-export-prefix", "other"),
    ("export-level", "summary"),
    ("ui", "none"),
    ("goodput", "request_latency:100"),
    ("log-level", "info"),
    ("server-metrics", "http://127.0.0.1:3/metrics"),
    ("server-metrics-formats", "csv"),
    ("gpu-telemetry", "http://127.0.0.1:4/metrics"),
    ("api-host", "localhost"),
    ("input-file", "{texts}"),
    ("custom-dataset-type", "multi_turn"),
    ("dataset-sampling-strategy", "shuffle"),
    ("tokenizer", "builtin"),
    ("tokenizer-revision", "main"),
    ("arrival-pattern", "constant"),
    ("arrival-smoothness", "2"),
    ("request-rate-series", "{series}"),
    ("request-cancellation-rate", "50"),
    ("failed-request-threshold", "0.5"),
    ("confidence-level", "0.9"),
    ("convergence-metric", "request_latency"),
    ("convergence-stat", "p99"),
    ("convergence-mode", "cv"),
    ("convergence-threshold", "0.2"),
    ("sweep-type", "zip"),
    ("variant", "a:isl=5 b:osl=6"),
    ("parameter-sweep-mode", "independent"),
    ("warmup-arrival-pattern", "constant"),
    ("num-profile-runs", "3"),
    ("num-dataset-entries", "2"),
    ("num-warmup-sessions", "1"),
    ("request-count", "7"),
    ("random-seed", "9"),
];

/// Flags that may say what holds anyway, and why.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("model-selection-strategy", "there may be one model"),
    ("url-strategy", "the only word, for commands of the peer"),
    ("transport", "the only word, for commands of the peer"),
    ("log-level", "the only word, for commands of the peer"),
    ("request-content-type", "the only word, for commands of the peer"),
    ("tokenizer-revision", "the only word, for commands of the peer"),
    ("set-consistent-seed", "on by default; off has an effect without a seed"),
    (
        "profile-run-disable-warmup-after-first",
        "on by default, and there may be no warmup",
    ),
    ("sweep-type", "the list is obeyed either way"),
    ("osl", "the records may all have lengths of their own"),
    ("ignore-trace-delays", "the records may have no times"),
    ("inter-turn-delay-cap-seconds", "no wait may be longer"),
    ("synthesis-max-osl", "no record may ask for more"),
    ("use-legacy-max-tokens", "the records may have no lengths"),
    ("tokenizer", "the only word, for commands of the peer"),
    ("ui", "read by the command line itself"),
];

struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).expect("a file");
        write("texts", "{\"text\": \"a b\"}\n{\"text\": \"c\"}\n{\"text\": \"d\"}\n");
        write(
            "trace",
            "{\"timestamp\": 5, \"input_length\": 600, \"output_length\": 4, \"hash_ids\": [1, 2]}\n{\"timestamp\": 20, \"input_length\": 8, \
             \"output_length\": 4, \"hash_ids\": [3]}\n{\"timestamp\": 1000, \"input_length\": 8, \"output_length\": 4, \"hash_ids\": [4]}\n",
        );
        write("series", "[{\"time_s\": 0, \"qps\": 5}, {\"time_s\": 10, \"qps\": 9}]");
        Self { directory }
    }

    fn fill(&self, words: &str) -> String {
        let path = |name: &str| self.directory.path().join(name).display().to_string();
        ["texts", "trace", "series"]
            .into_iter()
            .fold(words.to_owned(), |words, name| {
                words.replace(&format!("{{{name}}}"), &path(name))
            })
    }
}

fn flags(line: &str) -> Result<Flags, String> {
    let mut flags = Flags::default();
    let mut words = line.split_whitespace().peekable();
    while let Some(flag) = words.next() {
        let mut values = Vec::new();
        while let Some(value) = words.next_if(|word| !word.starts_with("--")) {
            values.push(value.to_owned());
        }
        flags.add(flag, values)?;
    }
    Ok(flags)
}

/// Everything that a command line comes to but its words: what is sent, when, what is asked of the server, what is written and what is warned of.
fn effect(line: &str) -> Result<String, String> {
    let flags = flags(line)?;
    let suite = suite_of_flags(&flags).map_err(|mistakes| mistakes.to_string())?;
    let options = BuildOptions {
        output_directory: Some("/d".into()),
        benchmark_id: Some("id".into()),
        ..BuildOptions::default()
    };
    let told = |plan: Plan| {
        let plan = Plan {
            input_config: serde_json::Value::Null,
            benchmark_id: String::new(),
            command: String::new(),
            cell: None,
            ..plan
        };
        format!("{plan:?}\n")
    };
    if suite.is_single() {
        let config = suite.into_single().map_err(|mistakes| mistakes.to_string())?;
        return plan::build(&config, &options)
            .map(told)
            .map_err(|mistakes| mistakes.to_string());
    }
    let cells = Cells::prepare(suite, options).map_err(|mistakes| mistakes.to_string())?;
    let mut text = String::new();
    for cell in cells.cells() {
        text.push_str(&told(cells.plan(cell).map_err(|mistakes| mistakes.to_string())?));
    }
    let sweep = cells.suite.sweep.as_ref();
    let _ = write!(
        text,
        "{:?} {:?} {}",
        cells.suite.multi_run,
        sweep.map(|sweep| (sweep.cooldown_s, sweep.order)),
        cells.shows_table()
    );
    Ok(text)
}

#[test]
fn a_flag_changes_something_or_is_refused() {
    let files = Files::new();
    let mut ignored = BTreeSet::new();
    let (mut refused, mut effective) = (0, 0);
    for (workflow, base) in WORKFLOWS {
        let base = files.fill(base);
        let common = "--model m --random-seed 1 --num-dataset-entries 3 --isl 4";
        let common = if base.contains("--input-file") {
            "--model m --random-seed 1"
        } else if base.contains("rankings") {
            "--model m --random-seed 1 --num-dataset-entries 3"
        } else {
            common
        };
        let line = format!("{common} {base}");
        let before = effect(&line).unwrap_or_else(|mistakes| panic!("{workflow}: {mistakes}"));
        let given = flags(&line).expect("it was read");
        for flag in all_flags().filter(|flag| !given.has(flag.name)) {
            let value = VALUES
                .iter()
                .find(|(name, _)| *name == flag.name)
                .map(|(_, value)| *value);
            let spellings: Vec<String> = match flag.takes {
                Takes::Switch => std::iter::once(flag.long())
                    .chain(flag.negation().map(|name| format!("--{name}")))
                    .collect(),
                _ => vec![format!("{} {}", flag.long(), value.unwrap_or("3"))],
            };
            for spelling in spellings {
                match effect(&format!("{line} {}", files.fill(&spelling))) {
                    Err(_) => refused += 1,
                    Ok(after) if after != before => effective += 1,
                    // Off is what most of them are, and may be said.
                    Ok(_) if spelling.starts_with("--no-") && !flag.name.starts_with("no-") => {}
                    Ok(_) if WITHOUT_EFFECT.iter().any(|(name, _)| *name == flag.name) => {}
                    Ok(_) => {
                        ignored.insert(format!("{workflow}: {spelling}"));
                    }
                }
            }
        }
    }
    assert!(ignored.is_empty(), "{:#?}", ignored);
    assert!(
        refused > 100 && effective > 100,
        "{refused} refused, {effective} effective"
    );
}

#[test]
fn a_flag_that_only_turns_off_what_is_not_there_is_refused_where_nothing_could_be() {
    let files = Files::new();
    let common = "--model m --random-seed 1";
    for (line, flag, words) in [
        ("", "--no-fixed-schedule", "no trace with timestamps"),
        (
            "--input-file {texts}",
            "--no-fixed-schedule",
            "no trace with timestamps",
        ),
        ("", "--no-set-consistent-seed", "there is one run"),
        ("", "--no-profile-run-disable-warmup-after-first", "more than once"),
        (
            "--concurrency 1,2",
            "--profile-run-cooldown-seconds 3",
            "more than once",
        ),
    ] {
        let refused = effect(&files.fill(&format!("{common} {line} {flag}"))).expect_err(flag);
        let name = flag.split(' ').next().expect("a flag");
        assert!(
            refused.starts_with(&format!("{name}: ")) && refused.contains(words),
            "{refused}"
        );
    }
}

#[test]
fn a_trace_that_is_not_replayed_takes_the_load_of_the_other_flags() {
    let files = Files::new();
    let trace =
        "--model m --random-seed 1 --input-file {trace} --custom-dataset-type mooncake_trace --no-fixed-schedule";
    let told = |more: &str| effect(&files.fill(&format!("{trace} {more}")));
    for (more, words) in [
        ("--request-rate 5", "Exponential"),
        ("--request-rate 5 --arrival-pattern constant", "Even"),
        ("--request-rate 5 --arrival-smoothness 2", "Gamma"),
    ] {
        let told = told(more).unwrap_or_else(|mistakes| panic!("{more}: {mistakes}"));
        assert!(told.contains(words), "{more}");
    }
    let refused = told("--arrival-pattern constant").expect_err("there is no rate");
    assert!(
        refused.contains("--arrival-pattern") && refused.contains("--request-rate"),
        "{refused}"
    );
}

#[test]
fn the_name_of_a_flag_stands_once_in_its_refusal() {
    let files = Files::new();
    let mut refusals = 0;
    for flag in all_flags() {
        let value = VALUES
            .iter()
            .find(|(name, _)| *name == flag.name)
            .map(|(_, value)| *value);
        for value in [value.unwrap_or("3"), "-1", "x"] {
            let word = match flag.takes {
                Takes::Switch => format!("{}={value}", flag.long()).replace("=3", ""),
                _ => format!("{} {}", flag.long(), files.fill(value)),
            };
            let base = if flag.name == "model" { "" } else { "--model m" };
            let Err(refused) = effect(&format!("{base} {}", word.replace('=', " "))) else {
                continue;
            };
            refusals += 1;
            let (long, lines) = (flag.long(), refused.lines());
            for line in lines.filter_map(|line| line.strip_prefix(&format!("{long}: "))) {
                let again = line.split(&long).skip(1).any(|rest| !rest.starts_with('-'));
                assert!(!again, "{long}: {line}");
            }
        }
    }
    assert!(refusals > 100, "{refusals}");
}
