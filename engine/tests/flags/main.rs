//! Flags against the file: what a flag writes is what the same words in a file say, and every command line of the tables gets its verdict.

mod combining;
mod names;
mod random;
mod templates;

use std::collections::BTreeSet;
use std::io::Write as _;

use ringload_engine::cells::Cells;
use ringload_engine::config::{self, Diagnostics, Flags, Group, Suite, Takes, all_flags};
use ringload_engine::plan::{BuildOptions, Plan, build};
use serde_json::Value;

/// One profiling phase, a server that streams, synthetic prompts.
const ONE: &str = "benchmark:
  model: m
  endpoint: {url: \"http://h:1\", streaming: true, headers: {X-Old: a}, extra: {top_k: 5}}
  dataset: {entries: 4, isl: 16, osl: 8}
  phases:
    - {name: steady, kind: profiling, type: concurrency, concurrency: 4, requests: 20}
";

const TWO: &str = "benchmark:
  model: m
  endpoint: {url: \"http://h:1\"}
  dataset: {entries: 4, isl: 16, osl: 8}
  phases:
    - {name: first, kind: profiling, type: concurrency, concurrency: 4, requests: 20}
    - {name: second, kind: profiling, type: concurrency, concurrency: 4, requests: 20}
";

/// Two warmup phases, of which flags change the first.
const WARM: &str = "benchmark:
  model: m
  endpoint: {url: \"http://h:1\"}
  dataset: {entries: 4, isl: 16, osl: 8}
  phases:
    - {name: prime, kind: warmup, type: concurrency, concurrency: 2, requests: 3}
    - {name: settle, kind: warmup, type: concurrency, concurrency: 2, requests: 3}
    - {name: profiling, type: concurrency, concurrency: 4, requests: 20}
";

const OPEN: &str = "benchmark:
  model: m
  endpoint: {url: \"http://h:1\"}
  dataset: {entries: 4, isl: 16, osl: 8}
  phases:
    - {name: profiling, type: gamma, rate: 5, smoothness: 2, rate_ramp: {duration: 2, strategy: exponential}, requests: 20}
";

const GRID: &str = "benchmark:
  model: m
  endpoint: {url: \"http://h:1\"}
  dataset: {entries: 4, isl: 16, osl: 8}
  phases:
    - {name: profiling, type: concurrency, concurrency: 4, requests: 20}
sweep:
  type: grid
  parameters: {concurrency: [1, 2]}
";

const SCENARIOS: &str = "benchmark:
  model: m
  endpoint: {url: \"http://h:1\"}
  dataset: {entries: 4, isl: 16, osl: 8}
  phases:
    - {name: profiling, type: concurrency, concurrency: 4, requests: 20}
sweep:
  type: scenarios
  runs: [{name: a, values: {phases.0.requests: 5}}]
";

/// The words of a line as the command line's parser hands them on. Words in `'` may hold blanks.
fn flags(line: &str) -> Flags {
    let mut words: Vec<String> = Vec::new();
    for (at, part) in line.split('\'').enumerate() {
        if at % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    let mut flags = Flags::default();
    let mut rest = words.iter().peekable();
    while let Some(flag) = rest.next() {
        let (flag, mut given) = match flag.split_once('=').filter(|_| flag.starts_with("--")) {
            Some((flag, value)) => (flag, vec![value.to_owned()]),
            None => (flag.as_str(), Vec::new()),
        };
        while let Some(word) = rest.next_if(|word| !word.starts_with('-') || word.parse::<f64>().is_ok()) {
            given.push(word.clone());
        }
        flags
            .add(flag, given)
            .unwrap_or_else(|message| panic!("{line}: {message}"));
    }
    flags
}

fn suite(file: Option<&str>, line: &str) -> Result<Suite, Diagnostics> {
    match file {
        Some(text) => config::parse_suite_with("f.yaml", text.as_bytes(), &|_| None, &flags(line)),
        None => config::suite_of_flags(&flags(line)),
    }
}

/// The plans of all variations.
fn plans(file: Option<&str>, line: &str) -> Result<Vec<Plan>, Diagnostics> {
    let suite = suite(file, line)?;
    if suite.is_single() {
        return Ok(vec![build(&suite.into_single()?, &BuildOptions::default())?]);
    }
    let cells = Cells::prepare(suite, BuildOptions::default())?;
    cells.cells().iter().map(|cell| cells.plan(cell)).collect()
}

fn plan(file: Option<&str>, line: &str) -> Plan {
    let mut plans = plans(file, line).unwrap_or_else(|mistakes| panic!("{line}: {mistakes}"));
    assert_eq!(plans.len(), 1, "{line}");
    plans.remove(0)
}

fn refusal(file: Option<&str>, line: &str) -> String {
    match plans(file, line) {
        Err(mistakes) => mistakes.render(true),
        Ok(plans) => panic!("{line} is accepted: {:#}", plans[0].input_config),
    }
}

/// `input_config` of a command line.
fn told(file: Option<&str>, line: &str) -> Value {
    plan(file, line).input_config
}

/// The mistakes of a command line without a file.
fn mistakes_of(line: &str) -> String {
    plans(None, line)
        .err()
        .map_or_else(|| panic!("{line} is accepted"), |mistakes| mistakes.to_string())
}

/// A JSONL file with these lines.
fn file(lines: &[&str]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(lines.join("\n").as_bytes()).expect("room for it");
    file
}

/// Flags over [`ONE`], aliases too, and where the artifacts show what they wrote: `FLAGS | PLACE | JSON`.
const WRITTEN: &str = include_str!("written.txt");

/// Command lines that are refused: `FILE | FLAGS | BEGINNING OF THE MESSAGE`.
const REFUSED: &str = include_str!("refused.txt");

/// The rows of a table.
fn rows(table: &'static str) -> impl Iterator<Item = [&'static str; 3]> {
    let lines = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let columns: Vec<&str> = line.splitn(3, " | ").collect();
        columns
            .try_into()
            .unwrap_or_else(|_| panic!("three columns expected: {line}"))
    })
}

/// A file of the tables.
fn named(name: &str) -> Option<&'static str> {
    match name {
        "NONE" => None,
        "ONE" => Some(ONE),
        "TWO" => Some(TWO),
        "GRID" => Some(GRID),
        "SCENARIOS" => Some(SCENARIOS),
        other => panic!("unknown file {other}"),
    }
}

#[test]
fn every_flag_and_every_alias_writes_where_the_file_would() {
    let mut wrong = Vec::new();
    for [line, place, value] in rows(WRITTEN) {
        let wanted: Value = serde_json::from_str(value).expect("the table holds JSON");
        let config = told(Some(ONE), line);
        if config.pointer(place) != Some(&wanted) {
            wrong.push(format!("{line}: {place} is {:?}", config.pointer(place)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_flag_that_the_help_lists_is_left_out_here() {
    // Tested by themselves: they need a file of their own, or say how often everything runs.
    let elsewhere = [
        "random-seed",
        "rankings-passages-mean",
        "rankings-passages-stddev",
        "rankings-passages-prompt-token-mean",
        "rankings-passages-prompt-token-stddev",
        "rankings-query-prompt-token-mean",
        "rankings-query-prompt-token-stddev",
        "input-file",
        "custom-dataset-type",
        "isl-block-size",
        "ignore-trace-delays",
        "inter-turn-delay-cap-seconds",
        "synthesis-speedup-ratio",
        "synthesis-prefix-len-multiplier",
        "synthesis-prefix-root-multiplier",
        "synthesis-prompt-len-multiplier",
        "synthesis-output-len-multiplier",
        "synthesis-max-isl",
        "synthesis-max-osl",
        "seq-dist",
        "request-rate-series",
        "fixed-schedule",
        "fixed-schedule-auto-offset",
        "fixed-schedule-start-offset",
        "fixed-schedule-end-offset",
    ];
    let tested: BTreeSet<&str> = rows(WRITTEN).flat_map(|[line, ..]| line.split([' ', '='])).collect();
    for flag in all_flags().filter(|flag| !matches!(flag.group, Group::Unlisted | Group::Sweep)) {
        if elsewhere.contains(&flag.name) {
            continue;
        }
        for name in [flag.name].iter().chain(flag.aliases) {
            assert!(tested.contains(format!("--{name}").as_str()), "--{name} is not tested");
        }
    }
}

/// Flags of time that set a rule of a suite, which no echo of a run shows.
const RULES_IN_SECONDS: [&str; 2] = ["profile-run-cooldown-seconds", "parameter-sweep-cooldown-seconds"];

#[test]
fn every_flag_of_time_takes_numbers_of_seconds_and_units() {
    let mut tested = 0;
    for flag in all_flags().filter(|flag| flag.takes == Takes::Value("TIME") && flag.group != Group::Unlisted) {
        let name = flag.long();
        if RULES_IN_SECONDS.contains(&flag.name) {
            for (written, seconds) in [("90", 90.0), ("1m30s", 90.0), ("1500ms", 1.5)] {
                let line = format!("--model m --concurrency 1,2 --num-profile-runs 2 {name} {written}");
                let suite = suite(None, &line).unwrap_or_else(|mistakes| panic!("{line}: {mistakes}"));
                let sweep = suite.sweep.map_or(0.0, |sweep| sweep.cooldown_s);
                let between = suite.multi_run.cooldown_s;
                assert_eq!(sweep.max(between), seconds, "{line}");
            }
            tested += 1;
            continue;
        }
        if flag.name == "inter-turn-delay-cap-seconds" {
            let of_file = ONE.replace("{entries: 4, isl: 16, osl: 8}", "{type: file, records: [{text: a}]}");
            for (written, seconds) in [("90", 90.0), ("1m30s", 90.0), ("1500ms", 1.5)] {
                let shown = told(Some(&of_file), &format!("{name} {written}"));
                assert_eq!(shown["datasets"][0]["inter_turn_delay_cap_seconds"], seconds);
            }
            tested += 1;
            continue;
        }
        let of_it = |line: &str| line.split_whitespace().any(|word| word == name);
        // The row that shows what this flag writes is the last one that it stands in: others need it beside the flag that they show.
        let [line, place, _] = rows(WRITTEN)
            .filter(|[line, ..]| of_it(line))
            .find(|[line, ..]| line.split_whitespace().rev().nth(1) == Some(&name))
            .unwrap_or_else(|| panic!("no row of written.txt ends with {name}"));
        let (start, _) = line.rsplit_once(' ').expect("a flag and its value");
        for (written, seconds) in [("90", 90.0), ("1m30s", 90.0), ("1500ms", 1.5), ("1h30m", 5400.0)] {
            let line = format!("{start} {written}");
            let shown = told(Some(ONE), &line).pointer(place).cloned();
            let shown = match shown {
                // A hook shows all that is set of it.
                Some(Value::Object(fields)) if fields.len() == 1 => fields.into_iter().next().map(|(_, value)| value),
                other => other,
            };
            assert_eq!(shown, Some(seconds.into()), "{line}");
        }
        tested += 1;
    }
    assert!(tested > 15, "only {tested} flags");
}

#[test]
fn every_wrong_command_line_names_its_flag_and_no_line_for_it() {
    let mut wrong = Vec::new();
    for [file, line, words] in rows(REFUSED) {
        let told = refusal(named(file), line);
        let first = told.lines().next().unwrap_or_default();
        if !first.starts_with(words) || first.contains("f.yaml") || first.contains("hunter2") {
            wrong.push(format!("{line}:\n{told}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn every_field_that_is_not_there_is_refused_by_the_name_of_its_flag() {
    // What their defaults ask for is there.
    let harmless = ["request-content-type", "log-level", "tokenizer-revision"];
    for flag in all_flags().filter(|flag| flag.group == Group::Unlisted && !harmless.contains(&flag.name)) {
        let value = if flag.negation().is_some() { "" } else { "5" };
        let told = refusal(Some(ONE), &format!("--{} {value}", flag.name));
        let words = format!("--{}: not supported by ringload", flag.name);
        assert!(told.starts_with(&words), "{told}");
    }
}

#[test]
fn mistakes_of_flags_and_of_the_file_are_told_together() {
    let told = refusal(
        Some(&ONE.replace("isl: 16", "isl: x")),
        "--request-count 0 --url ftp://h",
    );
    let lines: Vec<&str> = told.lines().filter(|line| line.contains("found")).collect();
    assert_eq!(lines.len(), 3, "{told}");
    assert!(
        lines[0].starts_with("--url") && lines[1].starts_with("--request-count") && lines[2].starts_with("f.yaml:4:"),
        "{told}"
    );
}

#[test]
fn a_flag_replaces_what_is_wrong_in_the_file() {
    let phase = told(Some(&ONE.replace("requests: 20", "requests: -20")), "--request-count 5")["phases"][0].clone();
    assert_eq!(phase["requests"], 5);
}

#[test]
fn templates_of_the_file_see_what_flags_say_and_words_of_flags_are_none() {
    let template = ONE.replace("requests: 20", "requests: \"{{ phases.steady.concurrency * 10 }}\"");
    assert_eq!(told(Some(&template), "--concurrency 7")["phases"][0]["requests"], 70);
}

#[test]
fn sections_that_are_none_stay_the_mistake_of_the_file() {
    for (good, bad) in [
        ("  dataset: {entries: 4, isl: 16, osl: 8}", "  dataset: 5"),
        (
            "  endpoint: {url: \"http://h:1\", streaming: true, headers: {X-Old: a}, extra: {top_k: 5}}",
            "  endpoint: [a]",
        ),
        ("  model: m", "  model: m\n  artifacts: x\nmulti_run: 3"),
    ] {
        let told = refusal(
            Some(&ONE.replace(good, bad)),
            "--isl 5 --num-prompts 3 --streaming --export-level summary --num-profile-runs 2",
        );
        assert!(told.contains("f.yaml:"), "{bad}: {told}");
    }
    let told = refusal(Some("benchmark: [a]"), "--model n --concurrency 3");
    assert!(told.contains("f.yaml:1:12: benchmark: found a list"), "{told}");
}

#[test]
fn a_tokenizer_that_is_a_name_becomes_a_section_for_its_other_flags() {
    let file = format!("{ONE}  tokenizer: builtin\n");
    assert_eq!(
        told(Some(&file), "--tokenizer-revision main")["tokenizer"]["name"],
        "builtin"
    );
    let refused = refusal(Some(&file), "--tokenizer-revision v2");
    assert!(
        refused.starts_with("--tokenizer-revision: not supported by ringload"),
        "{refused}"
    );
}
