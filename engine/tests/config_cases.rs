//! Every file of `tests/cases/config` gets the verdict of its row in `index.tsv` from the one pipeline: load, then build.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringload_engine::cells::Cells;
use ringload_engine::config::{self, Diagnostic, Diagnostics};
use ringload_engine::plan::{BuildOptions, Outline, PhasePlan, Plan, build, check};

/// A row of the index.
struct Case {
    file: String,
    verdict: String,
}

fn cases_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases/config")
}

fn cases() -> Vec<Case> {
    let index =
        std::fs::read_to_string(cases_directory().join("index.tsv")).expect("the index of the cases is readable");
    let mut lines = index.lines();
    assert_eq!(lines.next(), Some("name\tfile\tringload\tpeer\trule_from\treason"));
    lines
        .map(|line| {
            let columns: Vec<&str> = line.split('\t').collect();
            let [_, file, verdict, ..] = columns[..] else {
                panic!("six columns expected: {line}")
            };
            Case {
                file: file.to_owned(),
                verdict: verdict.to_owned(),
            }
        })
        .collect()
}

/// The pipeline up to the first plan, with an environment in which the variables of the cases are unset, in the directory of the cases: relative paths of datasets
/// start there.
fn resolve(file: &Path) -> Result<Plan, Diagnostics> {
    std::env::set_current_dir(cases_directory()).expect("the directory of the cases is there");
    let bytes = std::fs::read(file).expect("the case is readable");
    let suite = config::parse_suite(&file.display().to_string(), &bytes, &|_| None)?;
    // Without a seed the check and the build would each draw one, and with it numbers of turns.
    let options = BuildOptions {
        seed: Some(7),
        ..BuildOptions::default()
    };
    if suite.is_single() {
        let config = suite.into_single()?;
        let built = build(&config, &options);
        assert_same_verdict(&check(&config, &options), &built);
        return built;
    }
    let cells = Cells::prepare(suite, options)?;
    // What was checked when the cells were prepared is what is built when they run.
    let built = cells.plan(&cells.cells()[0]);
    assert_same_verdict(&Ok(cells.first().clone()), &built);
    built
}

/// A check says what a build says.
fn assert_same_verdict(checked: &Result<Outline, Diagnostics>, built: &Result<Plan, Diagnostics>) {
    match (checked, built) {
        (Ok(outline), Ok(plan)) => {
            assert_eq!(outline.requests, plan.requests.entries.len() as u64);
            assert_eq!(outline.warnings, plan.warnings);
            assert_eq!(outline.targets, plan.endpoint.targets);
            let names =
                |phases: &[PhasePlan]| -> Vec<String> { phases.iter().map(|phase| phase.name.clone()).collect() };
            assert_eq!(names(&outline.phases), names(&plan.phases));
        }
        (Err(checked), Err(built)) => assert_eq!(checked.to_string(), built.to_string()),
        (checked, built) => panic!("checked {:?}, built {:?}", checked.as_ref().err(), built.as_ref().err()),
    }
}

#[test]
fn every_case_gets_its_verdict() {
    let mut wrong = Vec::new();
    let cases = cases();
    assert!(cases.len() > 200, "only {} cases found", cases.len());
    for Case { file, verdict } in &cases {
        let result = resolve(&cases_directory().join(file));
        let is_right = match (verdict.as_str(), &result) {
            ("accept", Ok(_)) | ("either", _) => true,
            ("accept", Err(_)) | ("reject", Ok(_)) => false,
            ("reject", Err(mistakes)) => mistakes.iter().any(|mistake| mistake.line > 0 && mistake.column > 0),
            (other, _) => panic!("unknown verdict {other} of {file}"),
        };
        if !is_right {
            let found = result.map_or_else(|mistakes| mistakes.to_string(), |_| "accepted".to_owned());
            wrong.push(format!("{file}: expected {verdict}, got: {found}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} cases:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

/// A row of the places: where a mistake of a refused file is.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    line: u32,
    column: u32,
    path: String,
}

/// The mistakes of each refused file, in the order of the file.
fn places() -> BTreeMap<String, Vec<Place>> {
    let table = std::fs::read_to_string(cases_directory().join("places.tsv")).expect("the places are readable");
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("file\tline\tcolumn\tpath"));
    let mut places: BTreeMap<String, Vec<Place>> = BTreeMap::new();
    for line in lines {
        let columns: Vec<&str> = line.split('\t').collect();
        let [file, line, column, path] = columns[..] else {
            panic!("four columns expected: {line}")
        };
        let place = Place {
            line: line.parse().expect("a line"),
            column: column.parse().expect("a column"),
            path: path.to_owned(),
        };
        places.entry(file.to_owned()).or_default().push(place);
    }
    places
}

/// Whether a mistake is at its place. A section that is refused by name is refused at its own key, on the same line.
fn is_at(mistake: &Diagnostic, place: &Place) -> bool {
    let is_refused_by_name = mistake.message.contains("not supported by ringload");
    let is_around = place
        .path
        .strip_prefix(&mistake.path)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
    mistake.line == place.line
        && (mistake.column == place.column && mistake.path == place.path || is_refused_by_name && is_around)
}

#[test]
fn every_mistake_of_a_refused_case_is_at_its_place_and_there_are_no_others() {
    let mut places = places();
    let mut wrong = Vec::new();
    for Case { file, verdict, .. } in cases().iter().filter(|case| case.verdict == "reject") {
        let Some(expected) = places.remove(file) else {
            wrong.push(format!("{file}: expected {verdict}, and places.tsv has no row for it"));
            continue;
        };
        let mistakes = resolve(&cases_directory().join(file)).expect_err(file);
        let found: Vec<&Diagnostic> = mistakes.iter().collect();
        let are_all = found.len() == expected.len();
        if !are_all
            || !found
                .iter()
                .zip(&expected)
                .all(|(mistake, place)| is_at(mistake, place))
        {
            wrong.push(format!(
                "{file}: expected {expected:?}, got:\n{}",
                mistakes.render(true)
            ));
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
    assert!(places.is_empty(), "rows of no refused case: {:?}", places.keys());
}

#[test]
fn a_refused_case_is_refused_for_its_own_reason() {
    // A sample over all sections: the heart of the message.
    let expected = [
        ("invalid/phase_unknown_field.yaml", "did you mean `concurrency`?"),
        ("invalid/requests_zero.yaml", "found `0`"),
        ("invalid/duration_bad_unit.yaml", "`d` is no unit"),
        ("invalid/name_duplicate_case.yaml", "line 14"),
        ("invalid/kind_missing_custom.yaml", "required"),
        ("invalid/reset_string.yaml", "remove the quotes"),
        ("invalid/endpoint_type_unknown.yaml", "found `grpc`; allowed: chat"),
        ("invalid/random_seed_fraction.yaml", "found `1.5`"),
        ("invalid/artifacts_summary_csv.yaml", "found `csv`; allowed: json"),
        (
            "valid/quirk_requests_true.yaml",
            "found `true`; allowed: a whole number",
        ),
        ("valid/hook_path_space.yaml", "found `/a b`"),
        ("invalid/empty_file.yaml", "empty document"),
        (
            "invalid/dataset_lognormal_median.yaml",
            "found 9; allowed: a number above 0 and up to the mean, 5",
        ),
        (
            "invalid/dataset_seqdist_sum.yaml",
            "found probabilities that sum up to 50; allowed: 100",
        ),
        ("invalid/user_centric_single_turn_file.yaml", "write format: multi_turn"),
        ("invalid/jinja_undefined.yaml", "`nope` has no value"),
        (
            "invalid/sweep_name_field.yaml",
            "found `b`; a phase of this name is on line 16",
        ),
        (
            "invalid/sweep_unknown_field.yaml",
            "did you mean `concurrency`, which is on line 15 already?",
        ),
        ("invalid/profiler_stop_no_slash.yaml", "such as /stop_profile"),
        (
            "invalid/slos_unknown_metric.yaml",
            "unknown metric `made_up_metric`; allowed: request_latency, ",
        ),
        (
            "invalid/slos_stream_metric_without_streaming.yaml",
            "the endpoint does not stream",
        ),
    ];
    for (file, heart) in expected {
        let mistakes = resolve(&cases_directory().join(file)).expect_err(file);
        let [mistake] = &mistakes.iter().collect::<Vec<_>>()[..] else {
            panic!("{file}: one mistake expected:\n{mistakes}")
        };
        assert!(mistake.message.contains(heart), "{mistakes}");
    }
}

#[test]
fn mistakes_of_files_are_told_without_flags_and_types() {
    let mut read = 0;
    for Case { file, .. } in cases() {
        let Err(mistakes) = resolve(&cases_directory().join(&file)) else {
            continue;
        };
        for mistake in mistakes.iter() {
            read += 1;
            let flag = mistake.message.split_whitespace().find(|word| {
                word.trim_matches(|c: char| !(c.is_alphanumeric() || c == '-'))
                    .starts_with("--")
            });
            assert_eq!(flag, None, "{file}: {mistake:?}");
            for name in [
                "Option<",
                "Vec<",
                "u32",
                "u64",
                "f64",
                "usize",
                "PhaseType",
                "Config {",
                "benchmark::",
                "Error(",
            ] {
                assert!(!mistake.message.contains(name), "{file}: {mistake:?}");
            }
        }
    }
    assert!(read > 150, "only {read} messages");
}

#[test]
fn a_case_about_service_levels_is_read_and_not_refused_by_name() {
    let plan = resolve(&cases_directory().join("valid/slos.yaml")).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!(plan.slos.len(), 3);
}

#[test]
fn cases_about_lengths_mean_what_they_say() {
    let plan = |name: &str| {
        resolve(&cases_directory().join(format!("valid/{name}.yaml"))).unwrap_or_else(|mistakes| panic!("{mistakes}"))
    };
    let distributions = plan("dataset_distributions");
    for image in &*distributions.requests.entries {
        assert_eq!(image.requested_output_tokens, Some(8));
        assert!(image.delay.as_millis_f64() <= 500.0 && (image.turn > 0) == (image.delay.as_millis_f64() > 0.0));
    }
    let conversations = &distributions.requests.conversations;
    assert_eq!(conversations.count(), 4);
    assert!((0..4).all(|at| [1, 3].contains(&conversations.turns(at))));
    let pairs = plan("dataset_sequence_distribution");
    let entries = &pairs.requests.entries;
    assert_eq!(entries.len(), 100);
    let is_long = |image: &ringload_engine::plan::RequestImage| image.requested_output_tokens == Some(16);
    let long = entries.iter().filter(|image| is_long(image)).count();
    assert!((20..60).contains(&long), "{long} of 100");
    for image in &**entries {
        let tokens = image.input_tokens.expect("a length");
        assert!(if is_long(image) {
            tokens.abs_diff(32) < 20
        } else {
            tokens == 16
        });
    }
}

#[test]
fn cases_about_models_ask_for_all_of_them() {
    let asked = |name: &str| -> Vec<String> {
        let plan = resolve(&cases_directory().join(format!("valid/{name}.yaml")));
        let plan = plan.unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let model = |body: &[u8]| {
            let body: serde_json::Value = serde_json::from_slice(body).expect("JSON");
            body["model"].as_str().expect("a name").to_owned()
        };
        plan.requests.entries.iter().map(|image| model(image.body())).collect()
    };
    assert_eq!(asked("models_list"), ["mock-a", "mock-b", "mock-a", "mock-b"]);
    assert_eq!(asked("model_list_singular"), asked("models_list"));
    assert_eq!(asked("models_scalar"), ["mock-a"; 4]);
    let weighted = asked("models_advanced_weighted");
    assert!(weighted.iter().all(|model| model == "mock-a" || model == "mock-b"));
}

#[test]
fn cases_about_beginnings_mean_what_they_say() {
    let bodies = |name: &str| -> Vec<serde_json::Value> {
        let plan = resolve(&cases_directory().join(format!("valid/{name}.yaml")));
        let plan = plan.unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let body = |body: &[u8]| serde_json::from_slice(body).expect("a body of JSON");
        plan.requests.entries.iter().map(|image| body(image.body())).collect()
    };
    let words = |message: &serde_json::Value| -> (String, usize) {
        let text = |key: &str| message[key].as_str().expect("a text").to_owned();
        (text("role"), text("content").split(' ').count())
    };
    for body in bodies("dataset_shared_system") {
        let messages: Vec<(String, usize)> = body["messages"].as_array().expect("a list").iter().map(words).collect();
        let expected = [("system", 8), ("user", 4), ("user", 16)].map(|(role, words)| (role.to_owned(), words));
        assert_eq!(messages, expected);
    }
    let mut beginnings: BTreeMap<String, u32> = BTreeMap::new();
    for body in bodies("dataset_prefix_pool") {
        let text = body["messages"][0]["content"].as_str().expect("a text");
        let words: Vec<&str> = text.split(' ').collect();
        assert_eq!(words.len(), 4 + 16);
        *beginnings.entry(words[..4].join(" ")).or_default() += 1;
    }
    assert_eq!(beginnings.len(), 2, "{beginnings:?}");
}

#[test]
fn cases_about_schedules_are_read_and_not_refused_by_name() {
    for name in [
        "gamma_smoothness",
        "rate_series_inline",
        "rate_series_points_key",
        "rate_ramp_strategies",
        "on_cap_drop",
        "on_cap_wait",
        "fixed_schedule_offsets",
    ] {
        let plan = resolve(&cases_directory().join(format!("valid/{name}.yaml")));
        let plan = plan.unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert!(!plan.phases[0].arrival.is_closed_loop(), "{name}");
    }
}
