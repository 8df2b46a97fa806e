//! Sweeps, trials and templates: what a file expands to, and the place and words of every mistake.

use serde_json::json;

use super::super::{IterationOrder, Suite, parse_suite};
use super::{environment, mistakes};

const TWO_PHASES: &str = "  phases:\n    - {name: warm, kind: warmup, type: concurrency, concurrency: 2, requests: 4}\n    \
                          - {name: a, kind: profiling, type: concurrency, concurrency: 2, requests: 4}\n    \
                          - {name: b, kind: profiling, type: concurrency, requests: 4}\n";
const ONE_PHASE: &str = "  phases:\n    - {name: load, kind: profiling, type: concurrency, requests: 4}\n";

fn text(envelope: &str, phases: &str) -> String {
    format!(
        "{envelope}\nbenchmark:\n  model: m\n  endpoint: {{url: \"http://h:1\"}}\n  dataset: {{entries: 4, isl: 16, osl: 8}}\n{phases}"
    )
}

fn suite(envelope: &str, phases: &str) -> Suite {
    let text = text(envelope, phases);
    parse_suite("f.yaml", text.as_bytes(), &environment)
        .unwrap_or_else(|mistakes| panic!("{}\n{text}", mistakes.render(true)))
}

fn labels(suite: &Suite) -> Vec<&str> {
    suite
        .variations
        .iter()
        .map(|variation| variation.label.as_str())
        .collect()
}

fn directories(suite: &Suite) -> Vec<&str> {
    suite
        .variations
        .iter()
        .map(|variation| variation.directory.as_str())
        .collect()
}

fn concurrency(suite: &Suite, phase: &str) -> Vec<Option<u32>> {
    let of = |variation: &super::super::Variation| {
        let phases = &variation.config.phases;
        phases
            .iter()
            .find(|other| other.name == phase)
            .expect(phase)
            .concurrency
    };
    suite.variations.iter().map(of).collect()
}

/// The only mistake: its place, and that it says `words`.
#[track_caller]
fn mistake(envelope: &str, phases: &str, place: &str, words: &[&str]) {
    let found = mistakes(&text(envelope, phases));
    let [only] = &found[..] else {
        panic!("one mistake expected: {found:#?}")
    };
    assert!(only.starts_with(&format!("{place}: ")), "{only}");
    for word in words {
        assert!(only.contains(word), "{word:?} is not in: {only}");
    }
}

#[test]
fn a_file_without_a_sweep_is_one_variation_without_a_directory() {
    let suite = suite("", ONE_PHASE);
    assert!(suite.is_single() && suite.shows_table);
    assert_eq!((labels(&suite), directories(&suite)), (vec!["base"], vec![""]));
}

#[test]
fn a_grid_varies_the_last_path_of_the_alphabet_fastest() {
    let envelope = "sweep: {type: grid, parameters: {phases.b.concurrency: [1, 2], phases.a.concurrency: [3, 4]}}";
    let suite = suite(envelope, TWO_PHASES);
    assert_eq!(
        labels(&suite),
        [
            "phases.a.concurrency=3, phases.b.concurrency=1",
            "phases.a.concurrency=3, phases.b.concurrency=2",
            "phases.a.concurrency=4, phases.b.concurrency=1",
            "phases.a.concurrency=4, phases.b.concurrency=2",
        ]
    );
    assert_eq!(
        directories(&suite),
        [
            "concurrency_3__concurrency_1",
            "concurrency_3__concurrency_2",
            "concurrency_4__concurrency_1",
            "concurrency_4__concurrency_2",
        ]
    );
    assert_eq!(concurrency(&suite, "a"), [Some(3), Some(3), Some(4), Some(4)]);
    assert_eq!(concurrency(&suite, "b"), [Some(1), Some(2), Some(1), Some(2)]);
    assert_eq!(concurrency(&suite, "warm"), [Some(2); 4]);
    let last = &suite.variations[3].values;
    let expected = [("phases.a.concurrency", json!(4)), ("phases.b.concurrency", json!(2))];
    assert_eq!(*last, expected.map(|(path, value)| (path.to_owned(), value)));
}

#[test]
fn a_zip_goes_in_step() {
    let envelope = "sweep: {type: zip, parameters: {concurrency: [1, 2], requests: [10, 20]}}";
    let suite = suite(envelope, ONE_PHASE);
    let requests: Vec<_> = suite
        .variations
        .iter()
        .map(|variation| variation.config.phases[0].requests)
        .collect();
    assert_eq!(concurrency(&suite, "load"), [Some(1), Some(2)]);
    assert_eq!(requests, [Some(10), Some(20)]);
    assert_eq!(
        directories(&suite),
        ["concurrency_1__requests_10", "concurrency_2__requests_20"]
    );
}

#[test]
fn phases_are_named_by_name_by_index_and_by_what_they_alone_are() {
    for path in [
        "phases.load.concurrency",
        "phases.0.concurrency",
        "phases.profiling.concurrency",
        "concurrency",
    ] {
        let envelope = format!("sweep: {{type: grid, parameters: {{{path}: [5, 6]}}}}");
        let suite = suite(&envelope, ONE_PHASE);
        assert_eq!(concurrency(&suite, "load"), [Some(5), Some(6)], "{path}");
        assert_eq!(directories(&suite), ["concurrency_5", "concurrency_6"], "{path}");
    }
    let short_forms = [
        "  warmup: {type: concurrency, requests: 2}\n  profiling: {type: concurrency, requests: 2}\n",
        "  phases: {type: concurrency, requests: 2}\n",
    ];
    for phases in short_forms {
        let suite = suite(
            "sweep: {type: grid, parameters: {phases.profiling.concurrency: [5, 6]}}",
            phases,
        );
        assert_eq!(concurrency(&suite, "profiling"), [Some(5), Some(6)], "{phases}");
    }
    let suite = suite(
        "sweep: {type: grid, parameters: {phases.warmup.concurrency: [5, 6]}}",
        short_forms[0],
    );
    assert_eq!(concurrency(&suite, "warmup"), [Some(5), Some(6)]);
}

#[test]
fn s68_the_only_profiling_phase_is_not_any_of_two() {
    for path in ["phases.profiling.concurrency", "concurrency"] {
        let envelope = format!("sweep: {{type: grid, parameters: {{{path}: [1, 2]}}}}");
        mistake(&envelope, TWO_PHASES, "1:34", &["ambiguous", "a, b"]);
    }
}

#[test]
fn paths_that_lead_nowhere_say_what_there_is() {
    let sweep = |path: &str| format!("sweep: {{type: grid, parameters: {{{path}: [1, 2]}}}}");
    for (path, words) in [
        (
            "phases.nope.concurrency",
            ["found no phase `nope`", "warm, a, b, or an index from 0 to 2"],
        ),
        ("phases.9.concurrency", ["`9`", "an index from 0 to 2"]),
        ("phases.A.concurrency", ["`A`", "did you mean `a`?"]),
        ("benchmark.phases.a.concurrency", ["remove the prefix", "benchmark"]),
        ("random_seed", ["cannot be swept", "`random_seed`"]),
        ("multiRun.num_runs", ["cannot be swept", "`multiRun.num_runs`"]),
        ("artifacts.dir", ["cannot be swept", "directory"]),
        ("phases..concurrency", ["empty part", "allowed"]),
        ("phases.a.concurrency.x", ["`x` below `concurrency`", "single value"]),
        ("datasets.other.entries", ["found no dataset `other`", "default"]),
    ] {
        mistake(&sweep(path), TWO_PHASES, "1:34", &words);
    }
}

#[test]
fn sections_that_are_missing_are_made() {
    let suite = suite(
        "sweep: {type: grid, parameters: {phases.load.cancellation.rate: [25, 50]}}",
        ONE_PHASE,
    );
    let rates: Vec<_> = suite
        .variations
        .iter()
        .map(|variation| {
            variation.config.phases[0]
                .cancellation
                .map(|cancellation| cancellation.rate)
        })
        .collect();
    assert_eq!(rates, [Some(25.0), Some(50.0)]);
    assert_eq!(directories(&suite), ["rate_25", "rate_50"]);
}

#[test]
fn data_sets_and_whole_sections_are_swept_like_anything_else() {
    let suite = suite(
        "sweep: {type: grid, parameters: {datasets.default.entries: [2, 3], endpoint.reset_kv_cache: [true, {path: /r}]}}",
        ONE_PHASE,
    );
    let entries: Vec<_> = suite
        .variations
        .iter()
        .map(|variation| variation.config.dataset.entries)
        .collect();
    assert_eq!(entries, [Some(2), Some(2), Some(3), Some(3)]);
    assert_eq!(
        directories(&suite),
        [
            "entries_2__reset_kv_cache_True",
            "entries_2__reset_kv_cache_2",
            "entries_3__reset_kv_cache_True",
            "entries_3__reset_kv_cache_2"
        ]
    );
}

#[test]
fn directories_use_as_much_of_the_path_as_it_takes_to_differ() {
    // Both cells would be `concurrency_1__concurrency_1` if values coincided; these two differ by case only.
    let suite = suite("sweep: {type: grid, parameters: {model: [Qwen, qwen]}}", ONE_PHASE);
    assert_eq!(directories(&suite), ["model_Qwen__1", "model_qwen__2"]);
    let urls = "sweep: {type: grid, parameters: {endpoint.url: [\"http://a/b\", \"http://ab\"]}}";
    let suite = self::suite(urls, ONE_PHASE);
    assert_eq!(directories(&suite), ["url_httpab__1", "url_httpab__2"]);
}

#[test]
fn secrets_are_in_no_label_and_no_directory() {
    let suite = suite(
        "sweep: {type: grid, parameters: {endpoint.api_key: [hunter2, hunter3]}}",
        ONE_PHASE,
    );
    assert_eq!(directories(&suite), ["api_key_1", "api_key_2"]);
    for variation in &suite.variations {
        let shown = format!("{} {:?} {}", variation.label, variation.values, variation.directory);
        assert!(!shown.contains("hunter"), "{shown}");
    }
    assert_eq!(suite.variations[1].config.endpoint.api_key.as_deref(), Some("hunter3"));
}

#[test]
fn a_mistake_of_one_variation_names_it_and_points_into_the_sweep() {
    mistake(
        "sweep: {type: grid, parameters: {phases.a.concurrency: [1, 0], phases.b.requests: [1, 2]}}",
        TWO_PHASES,
        "1:60: benchmark.phases[1].concurrency",
        &[
            "found `0`",
            "in the variation `phases.a.concurrency=0, phases.b.requests=1` and 1 more",
        ],
    );
    mistake(
        "sweep: {type: grid, parameters: {phases.a.concurency: [1, 2]}}",
        TWO_PHASES,
        "1:34: benchmark.phases[1].concurency",
        &["unknown key `concurency`"],
    );
}

#[test]
fn a_mistake_of_every_variation_is_told_once() {
    let envelope = "sweep: {type: grid, parameters: {phases.a.concurrency: [1, 2, 3]}}";
    let phases = TWO_PHASES.replace("name: b,", "name: b, rate: 3,");
    mistake(envelope, &phases, "9:17: benchmark.phases[2].rate", &["has no rate"]);
    assert!(!mistakes(&text(envelope, &phases))[0].contains("variation"));
}

#[test]
fn cells_that_are_the_same_are_refused() {
    mistake(
        "sweep: {type: grid, parameters: {concurrency: [2, 3, 2]}}",
        ONE_PHASE,
        "1:54",
        &["the same as", "line 1, column 48"],
    );
}

#[test]
fn a_sweep_says_what_it_takes() {
    for (sweep, place, words) in [
        (
            "{parameters: {concurrency: [1]}}",
            "1:8",
            &["required", "grid, zip, scenarios"],
        ),
        ("{type: random}", "1:15", &["found `random`", "grid"]),
        ("{type: sobol, samples: 2}", "1:15", &["not supported", "`sobol`"]),
        (
            "{type: latin_hypercube}",
            "1:15",
            &["not supported", "`latin_hypercube`"],
        ),
        (
            "{type: adaptive_search}",
            "1:15",
            &["not supported", "`adaptive_search`"],
        ),
        ("{type: grid, parameters: {}}", "1:33", &["at least one path", "empty"]),
        (
            "{type: grid, parameters: {concurrency: []}}",
            "1:47",
            &["at least one value", "empty"],
        ),
        (
            "{type: grid, parameters: {concurrency: 4}}",
            "1:47",
            &["a list of values", "`4`"],
        ),
        (
            "{type: grid, parameters: {duration: [.nan]}}",
            "1:45",
            &["finite", ".nan"],
        ),
        ("{type: grid}", "1:8", &["required", "parameters"]),
        (
            "{type: zip, parameters: {concurrency: [1, 2], requests: [4]}}",
            "1:32",
            &["different lengths", "has 1"],
        ),
        (
            "{type: grid, parameters: {concurrency: [1], phases.load.concurrency: [2]}}",
            "1:52",
            &["same field", "line 1"],
        ),
        (
            "{type: grid, runs: [], parameters: {concurrency: [1]}}",
            "1:21",
            &["another type", "`runs`"],
        ),
        (
            "{type: grid, sla_filters: [x], parameters: {concurrency: [1]}}",
            "1:21",
            &["not supported", "sla_filters"],
        ),
        ("{type: scenarios, runs: []}", "1:32", &["scenarios", "1 to 10000"]),
        (
            "{type: scenarios, runs: [{name: a}, {name: A}]}",
            "1:51",
            &["a second time", "line 1"],
        ),
        (
            "{type: scenarios, runs: [{name: ../a}]}",
            "1:40",
            &["directory name", "../a"],
        ),
        (
            "{type: scenarios, runs: [{name: aggregate}]}",
            "1:40",
            &["`aggregate`", "other files"],
        ),
        (
            "{type: scenarios, runs: [{name: a, phases: []}]}",
            "1:43",
            &["unknown key `phases`", "benchmark"],
        ),
    ] {
        mistake(&format!("sweep: {sweep}"), ONE_PHASE, place, words);
    }
    let many = (0..101).map(|n| (n + 1).to_string()).collect::<Vec<_>>().join(", ");
    let envelope = format!("sweep: {{type: grid, parameters: {{concurrency: [{many}], requests: [{many}]}}}}");
    mistake(&envelope, ONE_PHASE, "1:33", &["10201 variations", "at most 10000"]);
}

#[test]
fn scenarios_merge_phases_by_name_and_replace_kinds_of_lengths() {
    let envelope = "sweep:\n  type: scenarios\n  runs:\n    - {name: short, benchmark: {dataset: {isl: {mean: 5, stddev: 1}}, phases: [{name: b, \
                    requests: 9}]}}\n    - {name: more, values: {phases.a.concurrency: 7}}";
    let suite = suite(envelope, TWO_PHASES);
    assert_eq!(
        (labels(&suite), directories(&suite)),
        (vec!["short", "more"], vec!["short", "more"])
    );
    let requests: Vec<_> = suite
        .variations
        .iter()
        .map(|variation| variation.config.phases[2].requests)
        .collect();
    assert_eq!(requests, [Some(9), Some(4)]);
    assert_eq!(concurrency(&suite, "a"), [Some(2), Some(7)]);
    assert_eq!(suite.variations[1].values[0], ("scenario".to_owned(), json!("more")));
}

#[test]
fn variables_are_swept_before_templates_are_filled_in() {
    let phases = ONE_PHASE.replace(
        "requests: 4",
        "concurrency: \"{{ c * 2 }}\", requests: \"{{ phases.load.concurrency + 1 }}\"",
    );
    let suite = suite(
        "variables: {c: 1}\nsweep: {type: grid, parameters: {variables.c: [3, 4]}}",
        &phases,
    );
    assert_eq!(concurrency(&suite, "load"), [Some(6), Some(8)]);
    assert_eq!(suite.variations[0].config.phases[0].requests, Some(7));
    assert_eq!(directories(&suite), ["c_3", "c_4"]);
    assert_eq!(suite.variations[1].variables["c"], json!(4));
}

#[test]
fn variables_use_each_other_in_any_order_but_not_in_a_circle() {
    let phases = ONE_PHASE.replace("requests: 4", "requests: \"{{ n }}\"");
    let good = suite("variables: {n: \"{{ c * 5 }}\", c: 2}", &phases);
    assert_eq!(good.variations[0].config.phases[0].requests, Some(10));
    let found = mistakes(&text("variables: {n: \"{{ c }}\", c: \"{{ n }}\"}", ONE_PHASE));
    assert_eq!(found.len(), 1, "{found:?}");
    let way = "(variables.n -> variables.c -> variables.n); break the circle";
    assert!(
        found[0].starts_with("1:16: variables.n: ") && found[0].contains(way),
        "{found:?}"
    );
    // What only leads into a circle is no part of it.
    let load = ONE_PHASE.replace(
        "requests: 4",
        "requests: \"{{ entry }}\", concurrency: \"{{ phases.load.requests }}\"",
    );
    let found = mistakes(&text(
        "variables: {entry: \"{{ n }}\", n: \"{{ c + m }}\", c: \"{{ n }}\", m: 1}",
        &load,
    ));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("1:34: variables.n: "), "{found:?}");
    let itself = ONE_PHASE.replace("requests: 4", "requests: \"{{ phases.load.requests }}\"");
    let way = "(benchmark.phases[0].requests -> benchmark.phases[0].requests)";
    mistake("", &itself, "7:66: benchmark.phases[0].requests", &[way]);
}

#[test]
fn a_template_that_has_no_value_is_reported_where_it_stands() {
    // The place is where in the template it is wrong; the value itself begins in column 66 with its quote.
    for (template, place, words) in [
        ("{{ nope }}", "7:70", ["`nope` has no value", "names of `variables`"]),
        (
            "{{ random_seed + nope }}",
            "7:84",
            ["`nope` has no value", "names of `variables`"],
        ),
        (
            "{{ random_sead }}",
            "7:70",
            ["`random_sead` has no value", "did you mean `random_seed`?"],
        ),
        (
            "{{ phases.lod.requests }}",
            "7:70",
            ["`phases.lod.requests` has no value", "names of"],
        ),
        ("{{ 1 +", "7:72", ["cannot be read", "allowed"]),
        ("{% if %}", "7:73", ["cannot be read", "allowed"]),
        ("{{ 1 / 0 }}", "7:70", ["cannot fill in", "`{{ 1 / 0 }}`"]),
    ] {
        let phases = ONE_PHASE.replace("requests: 4", &format!("requests: \"{template}\""));
        let place = format!("{place}: benchmark.phases[0].requests");
        mistake("random_seed: 1", &phases, &place, &words);
    }
    // Where the text is not in the file as it is, the place is the value's.
    let escaped = ONE_PHASE.replace("requests: 4", "requests: \"\\x7b{ nope }}\"");
    mistake(
        "",
        &escaped,
        "7:66: benchmark.phases[0].requests",
        &["`nope` has no value"],
    );
    let block = ONE_PHASE.replace("}\n", "}\n  tokenizer:\n    name: |\n      a\n      {{ nope }}\n");
    mistake("", &block, "11:10: benchmark.tokenizer.name", &["`nope` has no value"]);
    // The lines of a folded block are not those of its text.
    let folded = block.replace("name: |", "name: >");
    mistake("", &folded, "10:7: benchmark.tokenizer.name", &["`nope` has no value"]);
}

#[test]
fn sweeps_that_would_fill_the_memory_are_refused() {
    let numbers: Vec<String> = (1..=1000).map(|value| value.to_string()).collect();
    let list = numbers.join(", ");
    let grid = |parameters: &str| format!("sweep: {{type: grid, parameters: {{{parameters}}}}}");
    let cells = grid(&format!(
        "concurrency: [{list}], requests: [{list}], sessions: [{list}]"
    ));
    let found = mistakes(&text(&cells, ONE_PHASE));
    assert!(found[0].contains("found 1000000000 variations"), "{found:#?}");
    let long = grid(&format!(
        "variables.x: [{}], concurrency: [{list}]",
        "x".repeat(1 << 20)
    ));
    let found = mistakes(&text(&long, ONE_PHASE));
    assert!(
        found[0].contains("allowed: at most 512 MiB for all of them"),
        "{found:#?}"
    );
    let many: Vec<String> = (0..101).map(|at| format!("variables.x{at}: [1]")).collect();
    let found = mistakes(&text(&grid(&many.join(", ")), ONE_PHASE));
    assert!(
        found[0].contains("found 101 parameters; allowed: at most 100"),
        "{found:#?}"
    );
}

#[test]
fn templates_that_grow_without_end_are_refused() {
    // Each doubles the one before it: 2^40 bytes if nobody stopped it.
    let mut doubling = String::from("variables: {v0: xxxxxxxx");
    for level in 1..30 {
        doubling.push_str(&format!(", v{level}: \"{{{{ v{0} ~ v{0} }}}}\"", level - 1));
    }
    doubling.push('}');
    let found = mistakes(&text(&doubling, ONE_PHASE));
    assert!(
        found.iter().any(|line| line.contains("its value is longer than")),
        "{found:#?}"
    );
    let mut chain = String::from("variables: {v0: 1");
    for level in 1..60 {
        chain.push_str(&format!(", v{level}: \"{{{{ v{} }}}}\"", level - 1));
    }
    chain.push('}');
    let found = mistakes(&text(&chain, ONE_PHASE));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].contains("a chain of more than 32 templates"), "{found:#?}");
    let loops = ONE_PHASE.replace(
        "requests: 4",
        "requests: \"{% for i in range(90000) %}{% for j in range(90000) %}x{% endfor %}{% endfor %}\"",
    );
    mistake(
        "",
        &loops,
        "7:66: benchmark.phases[0].requests",
        &["it takes more than 100000 steps"],
    );
}

#[test]
fn trials_have_their_rules() {
    let suite = suite(
        "random_seed: 7\nno_sweep_table: true\nmulti_run: {num_runs: 3, cooldown_seconds: 500ms, confidence_level: 0.9, set_consistent_seed: false, \
         vary_seed_per_trial: true, disable_warmup_after_first: false, failure_policy: {max_failures: 2}}",
        ONE_PHASE,
    );
    let runs = &suite.multi_run;
    assert_eq!((runs.num_runs, runs.cooldown_s, runs.confidence_level), (3, 0.5, 0.9));
    assert!(!runs.set_consistent_seed && runs.vary_seed_per_trial && !runs.disable_warmup_after_first);
    assert_eq!(suite.failure_policy.max_failures, Some(2));
    assert!(!suite.is_single() && !suite.shows_table);
    for (runs, words) in [
        ("num_runs: 11", ["found `11`", "1 to 10"]),
        ("num_runs: 0", ["found `0`", "1 to 10"]),
        ("confidence_level: 1", ["found `1`", "below 1"]),
        ("cooldown_seconds: 90000", ["found `90000`", "86400"]),
        (
            "failure_policy: {on_child_failure: stop}",
            ["found `stop`", "continue, abort"],
        ),
    ] {
        let found = mistakes(&text(&format!("multi_run: {{{runs}}}"), ONE_PHASE));
        assert!(words.iter().all(|word| found[0].contains(word)), "{found:?}");
    }
}

#[test]
fn a_sweep_has_an_order_and_a_policy() {
    let suite = suite(
        "sweep: {type: grid, parameters: {concurrency: [1, 2]}, iteration_order: independent, same_seed: true, cooldown_seconds: 2, failure_policy: \
         {on_child_failure: abort}}",
        ONE_PHASE,
    );
    let sweep = suite.sweep.as_ref().expect("it has one");
    assert_eq!(
        (sweep.order, sweep.same_seed, sweep.cooldown_s),
        (IterationOrder::Independent, true, 2.0)
    );
    assert_eq!(suite.failure_policy.max_failures, Some(1));
}

#[test]
fn a_list_of_numbers_in_a_phase_is_told_where_it_belongs() {
    let phases = ONE_PHASE.replace("requests: 4", "concurrency: [1, 2], requests: 4");
    mistake(
        "",
        &phases,
        "7:69: benchmark.phases[0].concurrency",
        &["found a list", "under `sweep`"],
    );
}

#[test]
fn a_caller_that_takes_one_run_gets_no_other() {
    let text = text("sweep: {type: grid, parameters: {concurrency: [1, 2]}}", ONE_PHASE);
    let refused = super::super::parse("f.yaml", text.as_bytes(), &environment).expect_err("several runs");
    assert!(refused.to_string().contains("2 variations of 1 run each"), "{refused}");
}
