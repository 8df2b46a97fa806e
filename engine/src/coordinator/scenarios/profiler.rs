//! The server profiler around profiling phases. A test's number is the scenario's.

use super::{FAILS, WORKS};
use crate::coordinator::simulation::{HookScript, Reply, World, ms, profiling, warmup};
use crate::plan::Arrival;

#[test]
fn s26_the_profiler_starts_after_the_warmup_and_stops_after_the_load() {
    let run = World::with_profiler(vec![warmup("warmup").requests(5), profiling("p").requests(4)]).run();
    assert_eq!(run.story(), ["<0", "0>", "start", "<1", "1>", "stop", "end"]);
    // The clock of the phase starts with the answer of the hook, not with the call.
    assert_eq!(run.start(1), run.end(0) + ms(1));
}

#[test]
fn s28_a_seamless_chain_has_one_start_and_one_stop() {
    let plan = |name| profiling(name).lasting(ms(1_000)).grace(ms(10_000));
    let run = World::with_profiler(vec![
        plan("a"),
        plan("b").cap(8).seamless(),
        plan("c").cap(12).seamless(),
    ])
    .serving(|_, _| Reply::After(ms(3_000)))
    .run();
    assert_eq!(
        run.story(),
        ["start", "<0", "<1", "<2", "0>", "1>", "2>", "stop", "end"]
    );
}

#[test]
fn s28_a_chain_that_never_overlaps_still_hands_the_profiler_over() {
    // A's last request returns before its duration ends, so A ends and B starts in one event.
    let a = profiling("a").arriving(Arrival::constant(1.0)).lasting(ms(1_900));
    let run = World::with_profiler(vec![a, profiling("b").requests(1).seamless()]).run();
    assert_eq!(run.story(), ["start", "<0", "<1", "0>", "1>", "stop", "end"]);
}

#[test]
fn s29_a_settling_phase_between_two_profiling_phases_gives_two_pairs() {
    let run = World::with_profiler(vec![
        profiling("p").requests(4),
        warmup("settle").requests(4),
        profiling("q").requests(4),
    ])
    .run();
    assert_eq!(
        run.story(),
        [
            "start", "<0", "0>", "stop", "<1", "1>", "start", "<2", "2>", "stop", "end"
        ]
    );
    // The settling phase waits for the answer of the stop: no load of its own is in the profile.
    assert_eq!(run.start(1), run.end(0) + ms(1));
}

#[test]
fn a_start_that_meets_a_stop_under_way_waits_for_its_answer() {
    // The stop of A, owed while the seamless warmup sends, outlasts that warmup.
    let slow_stop = HookScript {
        latency: ms(5_000),
        succeeds: true,
    };
    let run = World::with_profiler(vec![
        profiling("a").requests(1),
        warmup("w").requests(8).seamless(),
        profiling("c").requests(1).seamless(),
    ])
    .hooks([WORKS, slow_stop])
    .run();
    assert_eq!(
        run.story(),
        [
            "start", "<0", "<1", "0>", "stop", "1>", "start", "<2", "2>", "stop", "end"
        ]
    );
    assert!(run.start(2) > ms(5_000));
}

#[test]
fn s30_a_failed_start_fails_the_run_before_any_profiling_load_and_sends_no_stop() {
    let run = World::with_profiler(vec![
        warmup("warmup").requests(5),
        profiling("p").requests(4),
        profiling("q").requests(4),
    ])
    .hooks([FAILS])
    .run();
    assert_eq!(run.story(), ["<0", "0>", "start", "end"]);
    assert_eq!(
        run.outcome.failure.as_deref(),
        Some("profiling phase p did not start: server profiler start failed: scripted failure")
    );
    assert_eq!(run.tally(0).succeeded, 5);
}

#[test]
fn s30_a_failed_start_lets_earlier_phases_drain_by_their_own_rules() {
    let run = World::with_profiler(vec![
        warmup("w").cap(2).requests(2),
        profiling("p").requests(4).seamless(),
    ])
    .serving(|_, _| Reply::After(ms(2_000)))
    .hooks([FAILS])
    .run();
    assert_eq!(run.story(), ["<0", "start", "0>", "end"]);
    assert_eq!((run.tally(0).succeeded, run.tally(0).truncated), (2, 0));
}

#[test]
fn s38_a_failed_stop_is_a_warning_after_its_latency() {
    let slow_failure = HookScript {
        latency: ms(2_000),
        succeeds: false,
    };
    let run = World::with_profiler(vec![profiling("p").requests(4)])
        .hooks([WORKS, slow_failure])
        .run();
    assert_eq!(run.outcome.failure, None);
    assert_eq!(run.outcome.warnings, ["server profiler stop failed: scripted failure"]);
    assert_eq!(run.run_end(), run.end(0) + ms(2_000));
}
