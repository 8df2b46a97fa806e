//! Suites that the user ends, and goes on with: at any moment, soon, with everything that finished kept.

use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant};

use ringload_tests::cells::{REQUESTS, config, faulty, json, quick, scenarios, start, tree};
use ringload_tests::eventually;
use ringload_tests::program::{Ended, Workplace};
use serde_json::Value;

/// The longest that an interrupted suite may take to end.
const SOON: Duration = Duration::from_secs(5);

/// Interrupts a suite, and returns what it left and how many of its requests had arrived.
fn interrupt(workplace: &Workplace, signal: &str, code: i32, when: impl FnMut() -> bool) -> Ended {
    let program = workplace.start_profile(&[]);
    eventually("the moment of the interrupt", when);
    let asked = Instant::now();
    program.signal(signal);
    let ended = program.end().expect(code);
    assert!(asked.elapsed() < SOON, "ended {:?} after the signal", asked.elapsed());
    ended
}

#[test]
fn an_interrupt_in_a_cooldown_keeps_what_finished_and_can_be_resumed() {
    let server = quick();
    let sweep = "sweep: {type: grid, cooldown_seconds: 3600, parameters: {phases.p1.concurrency: [1, 2]}}";
    let workplace = Workplace::new(&config(&server, sweep));
    let done = workplace.path("results/concurrency_1/run_config.json");
    let finished = || std::fs::read_to_string(&done).is_ok_and(|text| text.contains("\"succeeded\""));
    let ended = interrupt(&workplace, "INT", 130, finished);
    assert!(ended.stdout.contains("not run"), "{}", ended.stdout);
    let sweep_file = "sweep_aggregate/profile_export_aiperf_sweep.json";
    assert_eq!(json(&workplace, sweep_file)["num_successful_runs"], 1);
    assert_eq!(server.ledger().len(), REQUESTS);

    // Kept cells are not run again, and there is no pause before the first that is.
    let resumed = workplace.profile(&["--resume"]).expect(0);
    assert_eq!(server.ledger().len(), 2 * REQUESTS);
    assert!(resumed.stdout.contains("kept"), "{}", resumed.stdout);
    let sweep = json(&workplace, sweep_file);
    assert_eq!(
        (&sweep["num_profile_runs"], &sweep["num_successful_runs"]),
        (&2.into(), &2.into())
    );
    assert_eq!(sweep["per_combination_metrics"].as_array().map(Vec::len), Some(2));
}

#[test]
fn an_interrupt_in_a_cell_is_resumed_from_that_cell() {
    let server = quick();
    // The second cell never ends by itself: its server holds every answer back.
    let (good, slow) = (faulty(&server, "good", "interim"), faulty(&server, "slow", "hang"));
    let workplace = Workplace::new(&config(&server, &scenarios(&[good.clone(), slow])));
    interrupt(&workplace, "TERM", 143, || {
        server.ledger().len() > REQUESTS || server.counters().requests > REQUESTS as u64
    });
    assert_eq!(
        json(&workplace, "slow/run_config.json")["ringload"]["status"],
        "interrupted"
    );
    assert_eq!(
        json(&workplace, "slow/profile_export_aiperf.json")["was_cancelled"],
        true
    );
    assert_eq!(
        json(&workplace, "good/run_config.json")["ringload"]["status"],
        "succeeded"
    );

    // A changed config is refused, and the change is named.
    let changed = config(&server, &scenarios(&[good, faulty(&server, "slow", "interim")]));
    std::fs::write(workplace.path("test.yaml"), changed).expect("a config");
    let before = server.counters().requests;
    let refused = workplace.profile(&["--resume"]).expect(2);
    assert!(
        refused.stderr.contains("the config has changed") && refused.stderr.contains("endpoint.urls[0] was"),
        "{}",
        refused.stderr
    );
    assert_eq!(server.counters().requests, before, "nothing was sent");
}

#[test]
fn an_interrupt_at_any_moment_ends_the_suite_with_the_profiler_stopped() {
    // Moments are counted in what the server has seen, control calls and requests of three cells with 12 to 15 each; how long after that is
    // random, so that every run of the test has twenty others.
    for seen_before in (0..40).step_by(2) {
        let wait = Duration::from_micros(RandomState::new().hash_one(seen_before) % 30_000);
        let moment = format!("{wait:?} after {seen_before}");
        let server = quick();
        let sweep = "sweep: {type: grid, parameters: {phases.p1.concurrency: [1, 2, 3]}}";
        let text = config(&server, sweep).replace(
            "reset_kv_cache: true",
            "reset_kv_cache: true\n    server_profiler: true",
        );
        let workplace = Workplace::new(&text);
        let program = workplace.start_profile(&[]);
        let seen = || server.control_log().len() + server.counters().requests as usize;
        eventually("the moment of the interrupt", || {
            seen() >= seen_before && workplace.path("results").exists()
        });
        std::thread::sleep(wait);
        let asked = Instant::now();
        program.signal("INT");
        let ended = program.end();
        assert!(
            asked.elapsed() < SOON,
            "moment {moment}: ended {:?} after the signal",
            asked.elapsed()
        );
        // The last cell may have ended before the signal.
        assert!(matches!(ended.code, Some(130 | 0)), "moment {moment}: {ended:?}");
        let log = server.control_log();
        let last = log.iter().rev().find(|entry| entry.path.ends_with("_profile"));
        assert!(
            last.is_none_or(|entry| entry.path == "/stop_profile"),
            "moment {moment}: {log:?}"
        );
        let root = workplace.path("results");
        for file in tree(&root).iter().filter(|file| file.ends_with(".json")) {
            let text = std::fs::read(root.join(file)).expect("a file");
            let read: Result<Value, _> = serde_json::from_slice(&text);
            assert!(read.is_ok(), "moment {moment}: {file}");
        }
    }
}

#[test]
fn resume_needs_cells() {
    let server = quick();
    let (_, ended) = start(&server, "", &["--resume"], 2);
    assert!(ended.stderr.contains("describes one run"), "{}", ended.stderr);
}
