//! Every file of `tests/cases/config` gets the verdict of its row in `index.tsv` from the one pipeline: load, then build.

use std::path::{Path, PathBuf};

use ringload_engine::cells::Cells;
use ringload_engine::config::{self, Diagnostics};
use ringload_engine::plan::{BuildOptions, Outline, PhasePlan, Plan, build, check};

/// A row of the index.
struct Case {
    file: String,
    verdict: String,
    is_seed_rule: bool,
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
            let [_, file, verdict, _, rule_from, _] = columns[..] else {
                panic!("six columns expected: {line}")
            };
            Case {
                file: file.to_owned(),
                verdict: verdict.to_owned(),
                is_seed_rule: rule_from == "seed",
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
    if suite.is_single() {
        let config = suite.into_single()?;
        let built = build(&config, &BuildOptions::default());
        assert_same_verdict(&check(&config, &BuildOptions::default()), &built);
        return built;
    }
    let cells = Cells::prepare(suite, BuildOptions::default())?;
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

/// Parts of the format that work as a whole: an accepted case of theirs is accepted here too.
const WHOLE: [&str; 4] = ["/adaptive_", "/sweep_", "/jinja_", "/multi_run_"];

#[test]
fn every_case_gets_its_verdict() {
    let mut wrong = Vec::new();
    let cases = cases();
    assert!(cases.len() > 200, "only {} cases found", cases.len());
    for Case {
        file,
        verdict,
        is_seed_rule,
    } in &cases
    {
        let result = resolve(&cases_directory().join(file));
        let is_right = match (verdict.as_str(), &result) {
            ("accept", Ok(_)) | ("either", _) => true,
            ("accept", Err(mistakes)) => {
                let may_be_refused = !is_seed_rule && !WHOLE.iter().any(|prefix| file.contains(prefix));
                may_be_refused
                    && mistakes
                        .iter()
                        .all(|mistake| mistake.message.contains("not supported by ringload"))
            }
            ("reject", Err(mistakes)) => mistakes.iter().any(|mistake| mistake.line > 0 && mistake.column > 0),
            ("reject", Ok(_)) => false,
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

#[test]
fn a_refused_case_is_refused_for_its_own_reason_and_nothing_else() {
    // A sample over all sections: the place and the heart of the message. One mistake in the file is one message.
    let expected = [
        (
            "invalid/phase_unknown_field.yaml",
            "14:44",
            "benchmark.phases[0].concurency",
            "did you mean `concurrency`?",
        ),
        (
            "invalid/requests_zero.yaml",
            "14:54",
            "benchmark.phases[0].requests",
            "found `0`",
        ),
        (
            "invalid/duration_bad_unit.yaml",
            "14:54",
            "benchmark.phases[0].duration",
            "`d` is no unit",
        ),
        (
            "invalid/name_duplicate_case.yaml",
            "15:14",
            "benchmark.phases[1].name",
            "line 14",
        ),
        (
            "invalid/kind_missing_custom.yaml",
            "14:7",
            "benchmark.phases[0].kind",
            "required",
        ),
        (
            "invalid/reset_string.yaml",
            "7:21",
            "benchmark.endpoint.reset_kv_cache",
            "remove the quotes",
        ),
        (
            "invalid/endpoint_type_unknown.yaml",
            "7:11",
            "benchmark.endpoint.type",
            "found `grpc`; allowed: chat",
        ),
        (
            "invalid/random_seed_fraction.yaml",
            "3:14",
            "random_seed",
            "found `1.5`",
        ),
        (
            "invalid/artifacts_summary_csv.yaml",
            "15:31",
            "benchmark.artifacts.summary[1]",
            "found `csv`; allowed: json",
        ),
        (
            "valid/quirk_requests_true.yaml",
            "14:54",
            "benchmark.phases[0].requests",
            "found `true`; allowed: a whole number",
        ),
        (
            "valid/hook_path_space.yaml",
            "7:28",
            "benchmark.endpoint.reset_kv_cache.path",
            "found `/a b`",
        ),
        (
            "invalid/slos_unknown_metric.yaml",
            "15:26",
            "benchmark.slos.made_up_metric",
            "unknown metric `made_up_metric`; allowed: request_latency, ",
        ),
        (
            "invalid/slos_stream_metric_without_streaming.yaml",
            "14:31",
            "benchmark.slos.time_to_first_token",
            "the endpoint does not stream",
        ),
        ("invalid/empty_file.yaml", "1:1", "", "empty document"),
    ];
    for (file, place, path, heart) in expected {
        let mistakes = resolve(&cases_directory().join(file)).expect_err(file);
        let shown = mistakes.to_string();
        let [mistake] = &mistakes.iter().collect::<Vec<_>>()[..] else {
            panic!("{file}: one mistake expected:\n{shown}")
        };
        assert_eq!(format!("{}:{}", mistake.line, mistake.column), place, "{shown}");
        assert_eq!(mistake.path, path, "{shown}");
        assert!(mistake.message.contains(heart), "{shown}");
    }
}

#[test]
fn a_case_about_service_levels_is_read_and_not_refused_by_name() {
    let plan = resolve(&cases_directory().join("valid/slos.yaml")).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!(plan.slos.len(), 3);
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
