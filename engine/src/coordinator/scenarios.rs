//! The scenarios of lifecycle, seamless transitions and the profiler on simulated time. A test's number is the scenario's.

use super::event::{Action, StopReason};
use super::machine::MachineSettings;
use super::simulation::{Finished, HookScript, Reply, World, ms, profiling, warmup};
use crate::plan::{Arrival, DrainRule};
use crate::units::Nanos;

const WORKS: HookScript = HookScript {
    latency: ms(1),
    succeeds: true,
};
const FAILS: HookScript = HookScript {
    latency: ms(1),
    succeeds: false,
};

fn assert_clean(run: &Finished) {
    assert_eq!(run.outcome, Default::default());
}

// Lifecycle and stops.

#[test]
fn s01_a_request_count_is_exact_and_the_cap_is_reached_and_kept() {
    let run = World::new(vec![profiling("p").cap(4).requests(20)]).run();
    assert_clean(&run);
    assert_eq!((run.tally(0).sent, run.tally(0).succeeded), (20, 20));
    assert_eq!(run.peak(0), 4);
    assert_eq!(run.phase(0).stop_reason, StopReason::Requests);
    // Five rounds of four; the last round starts at 0.8 s.
    assert_eq!((run.sending_complete(0), run.end(0)), (ms(800), ms(1000)));
}

#[test]
fn s02_one_request_under_a_larger_cap_ends() {
    let run = World::new(vec![profiling("p").cap(4).requests(1)]).run();
    assert_clean(&run);
    assert_eq!((run.tally(0).sent, run.peak(0), run.end(0)), (1, 1, ms(200)));
}

#[test]
fn s03_fewer_requests_than_slots_are_all_in_flight_at_once() {
    let run = World::new(vec![profiling("p").cap(8).requests(3)]).run();
    assert_eq!((run.tally(0).sent, run.peak(0)), (3, 3));
}

#[test]
fn s04_a_duration_ends_sending_and_the_grace_lets_all_finish() {
    let run = World::new(vec![profiling("p").lasting(ms(1_900)).grace(ms(5_000))])
        .serving(|_, _| Reply::After(ms(500)))
        .run();
    assert_clean(&run);
    assert_eq!(run.sends(0).last(), Some(&ms(1_500)));
    assert_eq!((run.sending_complete(0), run.end(0)), (ms(1_900), ms(2_000)));
    assert_eq!((run.tally(0).sent, run.tally(0).succeeded), (16, 16));
    assert_eq!(
        (run.phase(0).stop_reason, run.phase(0).drain_cut),
        (StopReason::Duration, false)
    );
}

#[test]
fn s05_the_grace_deadline_is_measured_from_the_start_of_the_phase() {
    let run = World::new(vec![profiling("p").cap(3).lasting(ms(1_000)).grace(ms(1_000))])
        .serving(|_, _| Reply::Hang)
        .stops_after(ms(300))
        .run();
    // The answer to the stop came 300 ms late, the cut did not.
    assert_eq!((run.sending_complete(0), run.end(0)), (ms(1_300), ms(2_000)));
    assert_eq!((run.tally(0).sent, run.tally(0).truncated), (3, 3));
    assert!(run.phase(0).drain_cut);
}

#[test]
fn s05_grace_counts_from_the_duration_also_when_requests_ended_the_sending() {
    let plan = profiling("p").cap(4).requests(2).lasting(ms(1_000)).grace(ms(500));
    let run = World::new(vec![plan]).serving(|_, _| Reply::Hang).run();
    assert_eq!(
        (run.phase(0).stop_reason, run.sending_complete(0)),
        (StopReason::Requests, Nanos::ZERO)
    );
    assert_eq!(run.end(0), ms(1_500));
}

#[test]
fn s06_without_a_grace_period_the_next_phase_waits_for_requests_in_flight() {
    let run = World::new(vec![profiling("a").lasting(ms(1_000)), profiling("b").requests(1)])
        .serving(|_, _| Reply::After(ms(1_500)))
        .run();
    assert_eq!(run.start(1), ms(1_500));
    assert_eq!(run.tally(0).truncated, 0);
    assert!(
        run.times(|action| matches!(action, Action::CutPhase { .. } | Action::CutSilent { .. }))
            .is_empty()
    );
}

#[test]
fn s06_a_grace_period_of_zero_cuts_at_the_end_of_the_duration() {
    let run = World::new(vec![profiling("p").cap(5).lasting(ms(1_000)).grace(Nanos::ZERO)])
        .serving(|_, _| Reply::After(ms(1_500)))
        .run();
    assert_eq!(
        (run.end(0), run.tally(0).truncated, run.tally(0).succeeded),
        (ms(1_000), 5, 0)
    );
}

#[test]
fn s06_a_silent_request_is_cut_after_the_stall_timeout_and_a_live_one_is_not() {
    let settings = MachineSettings {
        drain_stall_timeout: ms(5_000),
    };
    let run = World::build(vec![profiling("p").cap(2).lasting(ms(1_000))], false, settings)
        .serving(|_, sequence| {
            if sequence == 0 {
                Reply::Hang
            } else {
                Reply::After(ms(30_000))
            }
        })
        .run();
    assert_eq!((run.tally(0).truncated, run.tally(0).succeeded), (1, 1));
    let looks = run.times(|action| matches!(action, Action::CutSilent { .. }));
    // The first look is a whole timeout into the drain, and then there is one a second until the end.
    assert_eq!(looks.first(), Some(&ms(6_000)));
    assert!(
        looks.windows(2).all(|pair| pair[1].since(pair[0]) == ms(1_000)),
        "{looks:?}"
    );
    assert_eq!(
        run.served
            .iter()
            .find(|served| served.sequence == 0)
            .map(|served| served.end),
        Some(ms(1_006_000))
    );
    // Silence is a matter of requests; the grace period cut nothing.
    assert!(!run.phase(0).drain_cut);
}

#[test]
fn s06_an_unbounded_drain_is_never_cut() {
    let mut plan = profiling("p").cap(1).lasting(ms(1_000));
    plan.drain = DrainRule::Unbounded;
    let run = World::new(vec![plan])
        .serving(|_, _| Reply::After(Nanos::from_secs(20_000)))
        .run();
    assert_eq!((run.tally(0).succeeded, run.end(0)), (1, Nanos::from_secs(20_000)));
}

#[test]
fn s08_the_first_of_duration_and_requests_ends_the_sending() {
    let by_requests = World::new(vec![profiling("p").requests(8).lasting(ms(10_000))]).run();
    assert_eq!(
        (by_requests.phase(0).stop_reason, by_requests.tally(0).sent),
        (StopReason::Requests, 8)
    );
    assert_eq!(by_requests.end(0), ms(400));
    let by_duration = World::new(vec![profiling("p").requests(1_000).lasting(ms(500))]).run();
    assert_eq!(
        (by_duration.phase(0).stop_reason, by_duration.tally(0).sent),
        (StopReason::Duration, 12)
    );
    assert_eq!(by_duration.sending_complete(0), ms(500));
}

#[test]
fn s12_profiling_starts_after_the_last_return_of_the_warmup() {
    let run = World::new(vec![warmup("warmup").cap(2).requests(5), profiling("p").requests(4)]).run();
    assert_eq!((run.tally(0).sent, run.tally(1).sent), (5, 4));
    assert_eq!((run.end(0), run.start(1)), (ms(600), ms(600)));
    assert_eq!(run.story(), ["<0", "0>", "<1", "1>", "end"]);
}

#[test]
fn a_slow_open_loop_lasts_until_its_duration_even_if_its_last_arrival_is_long_past() {
    // One arrival at 1 s; the next would come at 2 s and does not exist.
    let a = profiling("a")
        .arriving(Arrival::Constant { rate: 1.0 })
        .lasting(ms(1_900))
        .uncapped();
    let run = World::new(vec![a, profiling("b").requests(1).seamless()]).run();
    assert_eq!((run.tally(0).sent, run.phase(0).stop_reason), (1, StopReason::Duration));
    assert_eq!(run.start(1), ms(1_900));
}

#[test]
fn an_open_loop_behind_its_cap_sends_overdue_requests_in_order_and_loses_none() {
    let plan = profiling("p")
        .arriving(Arrival::Constant { rate: 10.0 })
        .cap(1)
        .requests(10);
    let run = World::new(vec![plan]).run();
    assert_eq!(run.tally(0).succeeded, 10);
    // Due each 100 ms from 0.1 s, served one by one in 200 ms.
    assert_eq!(run.sends(0), (0..10).map(|k| ms(100 + 200 * k)).collect::<Vec<_>>());
}

#[test]
fn failures_and_simulated_disconnects_are_returns_like_any_other() {
    let run = World::new(vec![profiling("p").requests(400).cancelling(0.5, ms(50))])
        .serving(|_, sequence| {
            if sequence % 4 == 0 {
                Reply::Failure(ms(10))
            } else {
                Reply::After(ms(100))
            }
        })
        .run();
    let tally = run.tally(0);
    assert_eq!((tally.sent, tally.failed, tally.truncated), (400, 100, 0));
    assert!((120..180).contains(&tally.cancelled), "{tally:?}");
    assert_eq!(tally.succeeded + tally.cancelled, 300);
}

#[test]
fn a_profiling_phase_that_sent_nothing_fails_the_run_in_one_line() {
    let silent = profiling("quiet")
        .arriving(Arrival::Constant { rate: 0.1 })
        .lasting(ms(1_000));
    let run = World::new(vec![silent, profiling("b").requests(1)]).run();
    let failure = run.outcome.failure.expect("the run failed");
    assert!(failure.contains("phase quiet sent no request in 1.000 s"), "{failure}");
    assert!(!failure.contains('\n'));
}

#[test]
fn a_warmup_that_sent_nothing_is_only_a_warning() {
    let silent = warmup("quiet")
        .arriving(Arrival::Constant { rate: 0.1 })
        .lasting(ms(1_000));
    let run = World::new(vec![silent, profiling("b").requests(1)]).run();
    assert_eq!(run.outcome.failure, None);
    assert_eq!(run.outcome.warnings.len(), 1);
    assert!(
        run.outcome.warnings[0].contains("warmup phase quiet sent no request"),
        "{:?}",
        run.outcome.warnings
    );
}

// Seamless transitions.

#[test]
fn s13_a_seamless_phase_starts_at_the_send_end_and_shares_the_cap_with_the_leftovers() {
    let a = profiling("a").cap(4).lasting(ms(1_900)).grace(ms(5_000));
    let run = World::new(vec![a, profiling("b").cap(4).requests(8).seamless()])
        .serving(|_, _| Reply::After(ms(1_000)))
        .run();
    assert_clean(&run);
    assert_eq!(run.start(1), run.sending_complete(0));
    assert!(run.end(0) > run.start(1));
    assert_eq!(
        (run.tally(0).sent, run.tally(0).succeeded, run.tally(1).succeeded),
        (8, 8, 8)
    );
    assert_eq!(run.peak_all(1), 4);
    // The first send of B takes the slot of the first return of A.
    assert_eq!(run.sends(1)[0], ms(2_000));
}

#[test]
fn s15_a_larger_cap_gives_the_difference_at_once_and_the_rest_as_leftovers_return() {
    let a = profiling("a").cap(2).requests(2);
    let run = World::new(vec![a, profiling("b").cap(8).requests(8).seamless()])
        .serving(|phase, sequence| {
            Reply::After(if phase.0 == 0 {
                ms(300 + 100 * sequence)
            } else {
                ms(5_000)
            })
        })
        .run();
    let zero = Nanos::ZERO;
    assert_eq!(run.sends(1), [zero, zero, zero, zero, zero, zero, ms(300), ms(400)]);
    let limits = run.times(|action| matches!(action, Action::SetLimit { phase, .. } if phase.0 == 1));
    assert_eq!(limits, [zero, ms(300), ms(400)]);
}

#[test]
fn s15_a_smaller_cap_starts_with_no_slot_until_enough_leftovers_returned() {
    let a = profiling("a").cap(4).requests(4);
    let run = World::new(vec![a, profiling("b").cap(2).requests(2).seamless()])
        .serving(|phase, sequence| {
            Reply::After(if phase.0 == 0 {
                ms(100 * (sequence + 1))
            } else {
                ms(1_000)
            })
        })
        .run();
    // Four leftovers against a cap of two: the third return gives the first slot.
    assert_eq!(run.sends(1), [ms(300), ms(400)]);
}

#[test]
fn s16_three_phases_overlap_and_each_keeps_its_own_requests() {
    let plan = |name| profiling(name).cap(4).lasting(ms(1_000)).grace(ms(10_000));
    let run = World::new(vec![
        plan("a"),
        plan("b").cap(8).seamless(),
        plan("c").cap(12).seamless(),
    ])
    .serving(|_, _| Reply::After(ms(3_000)))
    .run();
    assert_clean(&run);
    for index in 0..3 {
        assert_eq!(
            (run.tally(index).sent, run.tally(index).succeeded),
            (4, 4),
            "phase {index}"
        );
    }
    assert_eq!((run.end(0), run.end(1), run.end(2)), (ms(3_000), ms(4_000), ms(5_000)));
    assert!(run.end(0) > run.start(2));
    assert_eq!(run.run_end(), ms(5_000));
}

#[test]
fn s16_phases_may_complete_in_another_order_than_they_started() {
    let run = World::new(vec![
        profiling("a").cap(1).requests(1),
        profiling("b").cap(2).requests(3).seamless(),
    ])
    .serving(|phase, _| Reply::After(if phase.0 == 0 { ms(9_000) } else { ms(100) }))
    .run();
    assert_eq!(run.story(), ["<0", "<1", "1>", "0>", "end"]);
}

#[test]
fn s18_a_non_seamless_phase_waits_for_all_earlier_phases() {
    let a = profiling("a").cap(2).requests(2);
    let b = profiling("b").cap(4).requests(4).seamless();
    let run = World::new(vec![a, b, profiling("c").requests(1)])
        .serving(|phase, _| Reply::After(if phase.0 == 0 { ms(8_000) } else { ms(100) }))
        .run();
    assert_eq!(run.end(1), ms(200));
    assert_eq!(run.start(2), ms(8_000));
    assert_eq!(run.story(), ["<0", "<1", "1>", "0>", "<2", "2>", "end"]);
}

#[test]
fn s22_warmup_leftovers_count_against_the_limit_of_a_seamless_profiling_phase() {
    let run = World::new(vec![
        warmup("warmup").cap(3).requests(3),
        profiling("p").cap(4).requests(6).seamless(),
    ])
    .serving(|phase, _| Reply::After(if phase.0 == 0 { ms(1_000) } else { ms(300) }))
    .run();
    assert_eq!(run.peak_all(1), 4);
    assert_eq!(run.sends(1)[..4], [Nanos::ZERO, ms(300), ms(600), ms(900)]);
    assert_eq!((run.tally(0).sent, run.tally(1).sent), (3, 6));
}

#[test]
#[should_panic(expected = "phase a is seamless but has no predecessor")]
fn s23_seamless_on_the_first_phase_is_a_broken_plan() {
    let _ = World::new(vec![profiling("a").seamless().requests(1)]);
}

#[test]
fn s23_seamless_on_a_warmup_is_honoured() {
    let run = World::new(vec![
        profiling("p").requests(4),
        warmup("w").requests(4).cap(8).seamless(),
        profiling("q").requests(4).cap(12).seamless(),
    ])
    .run();
    assert_eq!((run.start(1), run.start(2)), (Nanos::ZERO, Nanos::ZERO));
}

#[test]
fn a_chain_with_an_uncapped_middle_phase_does_not_wedge_the_next_one() {
    let a = profiling("a").cap(3).requests(3);
    let b = profiling("b")
        .arriving(Arrival::Constant { rate: 100.0 })
        .uncapped()
        .requests(20)
        .seamless();
    let c = profiling("c").cap(3).lasting(ms(5_000)).seamless();
    let run = World::new(vec![a, b, c]).serving(|_, _| Reply::After(ms(1_000))).run();
    assert_clean(&run);
    // The middle phase runs free beside the leftovers, and they do not stop it.
    assert_eq!((run.tally(1).sent, run.peak_all(1)), (20, 23));
    // The last one waits until fewer than three requests of anyone are left, then runs to its cap.
    assert_eq!((run.start(2), run.sends(2)[0]), (ms(200), ms(1_180)));
    assert_eq!(run.peak_all(2), 3);
}

#[test]
fn the_grace_of_one_phase_cuts_that_phase_only() {
    let a = profiling("a").cap(3).lasting(ms(1_000)).grace(ms(1_500));
    let run = World::new(vec![a, profiling("b").cap(5).requests(5).seamless()])
        .serving(|_, _| Reply::After(ms(4_000)))
        .run();
    assert_eq!((run.tally(0).truncated, run.end(0)), (3, ms(2_500)));
    assert_eq!((run.tally(1).succeeded, run.tally(1).truncated), (5, 0));
    // Two at once, three in the slots that the cut freed.
    assert_eq!(run.sends(1), [ms(1_000), ms(1_000), ms(2_500), ms(2_500), ms(2_500)]);
}

#[test]
fn a_phase_that_never_got_a_slot_is_named_with_the_cause() {
    let a = profiling("a").cap(4).requests(4);
    let run = World::new(vec![a, profiling("b").cap(2).lasting(ms(500)).seamless()])
        .serving(|_, _| Reply::After(ms(1_000)))
        .run();
    assert_eq!(run.tally(1).sent, 0);
    let failure = run.outcome.failure.expect("the run failed");
    assert!(
        failure.contains("phase b sent no request") && failure.contains("held all its slots"),
        "{failure}"
    );
}

#[test]
fn every_transition_of_a_seamless_chain_may_fall_into_one_event() {
    // All requests are sent in the first instant and answered late: B and C start in the event that ends A's and B's sending.
    let plan = |name, cap| profiling(name).cap(cap).requests(2);
    let run = World::new(vec![plan("a", 2), plan("b", 4).seamless(), plan("c", 6).seamless()]).run();
    assert_eq!(run.story()[..3], ["<0", "<1", "<2"]);
    assert_eq!(
        (run.start(1), run.start(2), run.run_end()),
        (Nanos::ZERO, Nanos::ZERO, ms(200))
    );
}

// Late and unordered counts.

#[test]
fn counts_may_arrive_late_and_out_of_order() {
    let mut delays = [90u64, 10, 70, 30, 0, 50].into_iter().cycle();
    let a = profiling("a").cap(4).requests(40);
    let run = World::new(vec![
        a,
        profiling("b").cap(2).requests(10).seamless(),
        profiling("c").requests(10),
    ])
    .progress_delayed(move || ms(delays.next().unwrap_or(0)))
    .run();
    assert_clean(&run);
    assert_eq!(
        (run.tally(0).succeeded, run.tally(1).succeeded, run.tally(2).succeeded),
        (40, 10, 10)
    );
}

#[test]
fn counts_that_arrive_after_the_deadline_do_not_move_it() {
    let run = World::new(vec![profiling("p").lasting(ms(1_000)).grace(ms(500))])
        .progress_delayed(|| ms(800))
        .run();
    assert_eq!(run.sending_complete(0), ms(1_000));
    // All had returned when the grace expired; the machine learnt it later. Nothing was cut.
    assert_eq!((run.tally(0).truncated, run.phase(0).drain_cut), (0, false));
    assert_eq!(run.end(0), ms(1_800));
}

// Interrupts.

#[test]
fn s25_an_interrupt_during_an_overlap_cuts_both_phases_and_stops_the_profiler_once() {
    let a = profiling("a").cap(4).lasting(ms(1_000)).grace(ms(9_000));
    let b = profiling("b").cap(8).lasting(ms(9_000)).seamless();
    let run = World::with_profiler(vec![a, b, profiling("c").requests(1)])
        .serving(|_, _| Reply::After(ms(5_000)))
        .cuts_after(ms(2))
        .interrupted_at(ms(1_500))
        .run();
    assert!(run.outcome.interrupted && run.outcome.failure.is_none());
    assert_eq!((run.tally(0).truncated, run.tally(1).truncated), (4, 4));
    assert_eq!(run.story(), ["start", "<0", "<1", "0>", "1>", "stop", "end"]);
    assert_eq!(run.phase(1).stop_reason, StopReason::Interrupted);
    assert_eq!((run.phase(0).drain_cut, run.phase(1).drain_cut), (true, true));
    assert!(!run.started(2));
    // Cut in 2 ms, stopped in 1 ms.
    assert_eq!(run.run_end(), ms(1_503));
}

#[test]
fn an_interrupt_before_anything_else_ends_the_run_at_once() {
    let run = World::new(vec![profiling("p").requests(1)])
        .interrupted_at(Nanos::ZERO)
        .run();
    assert!(run.outcome.interrupted);
    assert!(run.run_end() <= ms(200));
}

#[test]
fn an_interrupt_while_the_profiler_starts_stops_it_after_its_answer() {
    let slow = HookScript {
        latency: ms(3_000),
        succeeds: true,
    };
    let run = World::with_profiler(vec![profiling("p").requests(1)])
        .hooks([slow])
        .interrupted_at(ms(500))
        .run();
    assert_eq!(run.story(), ["start", "stop", "end"]);
    assert!(!run.started(0));
    assert_eq!(run.run_end(), ms(3_001));
}

#[test]
fn an_interrupt_while_the_profiler_fails_to_start_leaves_nothing_to_stop() {
    let run = World::with_profiler(vec![profiling("p").requests(1)])
        .hooks([HookScript {
            latency: ms(3_000),
            succeeds: false,
        }])
        .interrupted_at(ms(500))
        .run();
    assert_eq!(run.story(), ["start", "end"]);
    assert_eq!(run.outcome.failure, None);
    assert_eq!(run.outcome.warnings, ["server profiler start failed: scripted failure"]);
}

#[test]
fn an_interrupt_while_issuing_stops_cuts_after_the_answer() {
    let run = World::new(vec![profiling("p").cap(2).lasting(ms(1_000)).grace(ms(9_000))])
        .serving(|_, _| Reply::After(ms(5_000)))
        .stops_after(ms(400))
        .interrupted_at(ms(1_200))
        .run();
    assert_eq!(run.phase(0).stop_reason, StopReason::Duration);
    assert_eq!((run.tally(0).truncated, run.end(0)), (2, ms(1_400)));
}

#[test]
fn an_interrupt_while_draining_cuts_at_once_and_a_second_one_changes_nothing() {
    let run = World::new(vec![profiling("p").cap(2).requests(2)])
        .serving(|_, _| Reply::Hang)
        .cuts_after(ms(300))
        .interrupted_at(ms(700))
        .interrupted_at(ms(800))
        .run();
    assert_eq!((run.tally(0).truncated, run.run_end()), (2, ms(1_000)));
    assert_eq!(run.times(|action| matches!(action, Action::CutPhase { .. })), [ms(700)]);
}

#[test]
fn an_interrupt_while_the_last_stop_is_under_way_waits_for_its_answer() {
    let slow_stop = HookScript {
        latency: ms(1_000),
        succeeds: true,
    };
    let run = World::with_profiler(vec![profiling("p").requests(1), profiling("q").requests(1)])
        .hooks([WORKS, slow_stop])
        .interrupted_at(ms(600))
        .run();
    assert_eq!(run.story(), ["start", "<0", "0>", "stop", "end"]);
    assert_eq!(run.run_end(), ms(1_201));
}

// Profiler.

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
    let a = profiling("a")
        .arriving(Arrival::Constant { rate: 1.0 })
        .lasting(ms(1_900));
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

// Broken contracts.

#[test]
#[should_panic(expected = "cannot take the answer that issuing stopped in state Waiting")]
fn an_answer_that_nobody_asked_for_is_a_panic_with_the_state() {
    let mut plan = profiling("p").requests(1);
    plan.id = crate::id::PhaseId(0);
    let mut machine = super::Machine::new(&[plan], false, MachineSettings::default());
    let stray = super::Event::IssuingStopped {
        phase: crate::id::PhaseId(0),
        sent: 1,
    };
    machine.handle(stray, Nanos(1), &mut Vec::new());
}

#[test]
#[should_panic(expected = "counts exceed the 0 requests that it sent")]
fn counts_of_a_phase_that_never_started_are_a_panic_with_the_numbers() {
    let mut later = profiling("later").requests(1);
    later.id = crate::id::PhaseId(1);
    let first = profiling("first").requests(1);
    let mut machine = super::Machine::new(&[first, later], false, MachineSettings::default());
    let tally = super::Tally {
        sent: 1,
        ..Default::default()
    };
    let phase = crate::id::PhaseId(1);
    machine.handle(super::Event::Progress { phase, tally }, Nanos(1), &mut Vec::new());
}
