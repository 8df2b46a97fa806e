//! Trials that run until they agree: which cells run, what is said about it, and that an interrupted suite comes to the same end.

use ringload_tests::cells::{REQUESTS, config, faulty, json, quick, scenarios, start, tree};
use ringload_tests::eventually;
use ringload_tests::program::{Ended, Program, Workplace};
use serde_json::{Value, json as value};

const SWEEP: &str = "sweep: {type: grid, parameters: {phases.p1.concurrency: [1, 2]}, iteration_order: ORDER}";

fn trials(runs: u32, rule: &str) -> String {
    format!("multi_run: {{num_runs: {runs}, convergence: {{{rule}}}}}")
}

fn said(ended: &Ended, words: &str) -> usize {
    ended.stdout.lines().filter(|line| line.contains(words)).count()
}

#[test]
fn trials_that_agree_are_followed_by_no_more() {
    let server = quick();
    let (workplace, ended) = start(&server, &trials(4, "metric: request_count, mode: cv"), &[], 0);
    assert_eq!(server.ledger().len(), 2 * REQUESTS, "each run counts the same requests");
    let line = "converged after 2 of at most 4 runs: request_count avg: cv 0.0000, at or below the threshold of 0.05";
    assert_eq!(
        (said(&ended, line), said(&ended, "not needed")),
        (1, 2),
        "{}",
        ended.stdout
    );
    let files = tree(&workplace.path("results"));
    assert!(!files.iter().any(|file| file.contains("run_0003")), "{files:?}");
    let aggregate = json(&workplace, "aggregate/profile_export_aiperf_aggregate.json");
    assert_eq!(aggregate["metadata"]["num_profile_runs"], 2);
    assert_eq!(
        aggregate["ringload"]["convergence"],
        value!({
            "metric": "request_count", "stat": "avg", "mode": "cv", "threshold": 0.05, "min_runs": 2, "max_runs": 4, "runs": 2, "figure": 0.0,
            "converged": true,
        })
    );
    // The requests of both runs together.
    let collated = json(&workplace, "aggregate/profile_export_aiperf_collated.json");
    let latency = &collated["metrics"]["request_latency"];
    assert_eq!(latency["combined"]["count"], 2 * REQUESTS);
    let labels: Vec<&Value> = latency["per_run"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|run| &run["label"])
        .collect();
    assert_eq!(labels, ["run_0001", "run_0002"]);
}

#[test]
fn trials_that_never_agree_run_as_often_as_allowed() {
    let server = quick();
    let rule = "metric: request_latency, threshold: 0, min_runs: 3";
    let (workplace, ended) = start(&server, &trials(3, rule), &[], 0);
    assert_eq!(server.ledger().len(), 3 * REQUESTS);
    assert_eq!(
        said(&ended, "not converged after 3 of 3 runs: request_latency avg: ci_width"),
        1,
        "{}",
        ended.stdout
    );
    let found = json(&workplace, "aggregate/profile_export_aiperf_aggregate.json");
    let found = &found["ringload"]["convergence"];
    assert_eq!((&found["converged"], &found["runs"]), (&value!(false), &value!(3)));
    assert!(found["figure"].as_f64().is_some_and(|figure| figure > 0.0), "{found}");
}

#[test]
fn requests_are_compared_with_those_of_the_trials_before() {
    let server = quick();
    let rule = "metric: output_sequence_length, mode: distribution, min_runs: 3";
    let (_workplace, ended) = start(&server, &trials(5, rule), &[], 0);
    assert_eq!(server.ledger().len(), 3 * REQUESTS, "answers have one length");
    let line = "converged after 3 of at most 5 runs: output_sequence_length by request: p-value 1.0000, at or above the threshold of 0.05";
    assert_eq!(said(&ended, line), 1, "{}", ended.stdout);
}

#[test]
fn each_variation_has_an_end_of_its_own_in_either_order() {
    for (order, third) in [
        ("repeated", "profile_runs/trial_0003/b"),
        ("independent", "b/profile_runs/trial_0003"),
    ] {
        let server = quick();
        // The second scenario fails in all its runs, and so never agrees.
        let runs = [faulty(&server, "a", "interim"), faulty(&server, "b", "status:500")];
        let sweep = scenarios(&runs).replace(
            "{type: scenarios,",
            &format!("{{type: scenarios, iteration_order: {order},"),
        );
        let more = format!("{sweep}\n{}", trials(3, "metric: request_count"));
        let (workplace, ended) = start(&server, &more, &[], 0);
        assert_eq!(server.ledger().len(), 5 * REQUESTS, "{order}: two runs and three");
        assert!(workplace.path("results").join(third).exists(), "{order}");
        assert_eq!(
            said(&ended, "a: converged after 2 of at most 3 runs"),
            1,
            "{}",
            ended.stdout
        );
        let line = "b: not converged after 3 of 3 runs: 0 with request_count avg, and it takes 2 to compare them";
        assert_eq!(said(&ended, line), 1, "{}", ended.stdout);
        assert_eq!(said(&ended, "not needed"), 1, "{}", ended.stdout);
    }
}

#[test]
fn an_interrupted_suite_comes_to_the_same_end() {
    for order in ["independent", "repeated"] {
        let server = quick();
        // After the runs that agree there is a pause without end.
        let sweep = SWEEP.replace("ORDER", order);
        let pause = match order {
            "independent" => sweep.replace("{type", "{cooldown_seconds: 3600, type"),
            _ => sweep,
        };
        let mut more = format!("{pause}\n{}", trials(4, "metric: request_count"));
        if order == "repeated" {
            more = more.replace("num_runs: 4", "num_runs: 4, cooldown_seconds: 3600");
        }
        let workplace = Workplace::new(&config(&server, &more));
        let program = workplace.start_profile(&[]);
        eventually("two cells that finished", || {
            let ends = ends(&workplace);
            ends.iter().filter(|text| text.contains("\"succeeded\"")).count() == 2
        });
        program.signal("INT");
        program.end().expect(130);
        assert_eq!(server.ledger().len(), 2 * REQUESTS);

        // Without the pause, which is no part of what was run.
        let text = config(&server, &more.replace("3600", "0"));
        std::fs::write(workplace.path("test.yaml"), text).expect("a config");
        let ended = workplace.profile(&["--resume"]).expect(0);
        assert_eq!(server.ledger().len(), 4 * REQUESTS, "{order}: two runs of each");
        assert_eq!(
            said(&ended, ": converged after 2 of at most 4 runs"),
            2,
            "{}",
            ended.stdout
        );
        assert_eq!(said(&ended, "not needed"), 4, "{}", ended.stdout);
    }
}

/// The texts of all that says how a cell ended.
fn ends(workplace: &Workplace) -> Vec<String> {
    let root = workplace.path("results");
    if !root.exists() {
        return Vec::new();
    }
    let files = tree(&root);
    let ends = files.iter().filter(|file| file.ends_with("run_config.json"));
    ends.filter_map(|file| std::fs::read_to_string(root.join(file)).ok())
        .collect()
}

#[test]
fn runs_beyond_those_that_agree_are_strangers_to_the_suite() {
    let server = quick();
    let (workplace, _) = start(&server, "multi_run: {num_runs: 3}", &[], 0);
    let text = config(&server, &trials(3, "metric: request_count"));
    std::fs::write(workplace.path("test.yaml"), text).expect("a config");
    let ended = workplace.profile(&["--resume"]).expect(0);
    assert_eq!(server.ledger().len(), 3 * REQUESTS, "nothing more was sent");
    assert!(
        ended.stdout.contains("profile_runs/run_0003") && said(&ended, "converged after 2 of at most 3 runs") == 1,
        "{}",
        ended.stdout
    );
    let aggregate = json(&workplace, "aggregate/profile_export_aiperf_aggregate.json");
    assert_eq!(aggregate["metadata"]["num_profile_runs"], 2);
}

#[test]
fn a_trial_without_the_metric_is_told() {
    let server = quick();
    let text = config(&server, &trials(2, "metric: replay_sched_lag_p50"));
    let workplace = Workplace::new(&text);
    let command = workplace.command(&["profile", "--config", "test.yaml", "--cores", "1"]);
    let ended = Program::start(command).end().expect(0);
    // Nothing replays a schedule here.
    assert!(
        ended
            .stderr
            .contains("run 1 of at most 2: no replay_sched_lag_p50 avg, so it does not count towards convergence"),
        "{}",
        ended.stderr
    );
    let line = "not converged after 2 of 2 runs: 0 with replay_sched_lag_p50 avg, and it takes 2 to compare them";
    assert_eq!(said(&ended, line), 1, "{}", ended.stdout);
}

#[test]
fn flags_and_the_dry_run_say_the_same() {
    let server = quick();
    let workplace = Workplace::new(&config(&server, SWEEP.replace("ORDER", "repeated").as_str()));
    let flags = [
        "--num-profile-runs",
        "10",
        "--convergence-metric",
        "request_latency",
        "--convergence-stat",
        "p99",
        "--convergence-mode",
        "ci-width",
        "--convergence-threshold",
        "0.2",
    ];
    let dry = [&flags[..], &["--dry-run"]].concat();
    let shown = workplace.profile(&dry).expect(0).stdout;
    assert!(
        shown.contains("at most 20 cells: 2 variations, 2 to 10 runs of each, until request_latency p99 has a ci_width of at most 0.2"),
        "{shown}"
    );
    assert!(shown.contains("(run 1 of at most 10)"), "{shown}");
    let json = workplace
        .profile(&[&dry[..], &["--format", "json"]].concat())
        .expect(0)
        .stdout;
    let found: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        found["convergence"],
        value!({ "metric": "request_latency", "stat": "p99", "mode": "ci_width", "threshold": 0.2, "min_runs": 2, "max_runs": 10 })
    );
}
