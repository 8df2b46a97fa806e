//! How phases start, stop sending, drain and end. A test's number is the scenario's.

use super::assert_clean;
use crate::coordinator::event::{Action, StopReason};
use crate::coordinator::machine::MachineSettings;
use crate::coordinator::simulation::{Reply, World, ms, profiling, warmup};
use crate::plan::{Arrival, DrainRule};
use crate::units::Nanos;

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
        ..MachineSettings::default()
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
fn s06_a_request_may_be_silent_for_five_minutes_of_a_drain_unless_told_otherwise() {
    let run = World::new(vec![
        profiling("p").cap(1).lasting(ms(1_000)),
        profiling("next").requests(1),
    ])
    .serving(|phase, _| if phase.0 == 0 { Reply::Hang } else { Reply::After(ms(1)) })
    .run();
    let looks = run.times(|action| matches!(action, Action::CutSilent { .. }));
    assert_eq!(looks.first(), Some(&ms(301_000)));
    assert_eq!((run.tally(0).truncated, run.start(1)), (1, ms(301_000)));
}

#[test]
fn s06_time_in_which_nobody_listened_is_no_silence_of_a_request() {
    let settings = MachineSettings {
        drain_stall_timeout: ms(300_000),
        ..MachineSettings::default()
    };
    let end = |offset: u64, span: u64| {
        World::build(vec![profiling("p").cap(1).lasting(ms(1_000))], false, settings)
            .serving(|_, _| Reply::Hang)
            .stopped_at(ms(offset), ms(span))
            .run()
            .end(0)
    };
    assert_eq!(end(30_000, 0), ms(301_000));
    // What was due at 30 s came at 430 s, and the look before was at 29 s.
    assert_eq!(end(29_500, 400_500), ms(301_000 + 401_000));
    assert_eq!(end(300_900, 400_100), ms(301_000 + 401_000), "just before the cut");
    assert_eq!(
        end(500, 400_500),
        ms(401_000 + 300_000),
        "before the drain, which begins late"
    );
    assert_eq!(end(30_000, 900), ms(301_000), "a look may be a little late");
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
fn s11_a_cut_that_takes_long_is_waited_for_and_the_next_phase_has_all_its_slots() {
    // Nothing completes a phase by force: a core cuts its own requests and cannot fail to, so the counts stay exact however late it answers.
    let a = profiling("a").cap(4).lasting(ms(1_000)).grace(ms(500));
    let run = World::new(vec![a, profiling("b").cap(4).requests(8)])
        .serving(|phase, _| {
            if phase.0 == 0 {
                Reply::Hang
            } else {
                Reply::After(ms(200))
            }
        })
        .cuts_after(ms(12_000))
        .run();
    assert_eq!((run.tally(0).truncated, run.end(0)), (4, ms(13_500)));
    assert_eq!((run.start(1), run.peak(1), run.tally(1).succeeded), (ms(13_500), 4, 8));
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
        .arriving(Arrival::constant(1.0))
        .lasting(ms(1_900))
        .uncapped();
    let run = World::new(vec![a, profiling("b").requests(1).seamless()]).run();
    assert_eq!((run.tally(0).sent, run.phase(0).stop_reason), (1, StopReason::Duration));
    assert_eq!(run.start(1), ms(1_900));
}

#[test]
fn an_open_loop_behind_its_cap_sends_overdue_requests_in_order_and_loses_none() {
    let plan = profiling("p").arriving(Arrival::constant(10.0)).cap(1).requests(10);
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
    let silent = profiling("quiet").arriving(Arrival::constant(0.1)).lasting(ms(1_000));
    let run = World::new(vec![silent, profiling("b").requests(1)]).run();
    let failure = run.outcome.failure.expect("the run failed");
    assert!(failure.contains("phase quiet sent no request in 1.000 s"), "{failure}");
    assert!(!failure.contains('\n'));
}

#[test]
fn a_warmup_that_sent_nothing_is_only_a_warning() {
    let silent = warmup("quiet").arriving(Arrival::constant(0.1)).lasting(ms(1_000));
    let run = World::new(vec![silent, profiling("b").requests(1)]).run();
    assert_eq!(run.outcome.failure, None);
    assert_eq!(run.outcome.warnings.len(), 1);
    assert!(
        run.outcome.warnings[0].contains("warmup phase quiet sent no request"),
        "{:?}",
        run.outcome.warnings
    );
}

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
fn an_older_count_does_not_undo_a_newer_one() {
    use crate::coordinator::{Event, Machine, Tally};
    let phase = crate::id::PhaseId(0);
    let mut machine = Machine::new(&[profiling("p").requests(2)], false, MachineSettings::default());
    let mut actions = Vec::new();
    for sent in [2, 1] {
        let tally = Tally {
            sent,
            ..Tally::default()
        };
        machine.handle(Event::Tick, ms(1), &mut actions);
        machine.handle(Event::Progress { phase, tally }, ms(2), &mut actions);
    }
    machine.handle(Event::CreditsExhausted { phase, issued: 2 }, ms(3), &mut actions);
    let tally = Tally {
        sent: 1,
        succeeded: 2,
        ..Tally::default()
    };
    machine.handle(Event::Progress { phase, tally }, ms(4), &mut actions);
    let Some(Action::PhaseEnded(summary)) = actions.iter().rev().nth(1) else {
        panic!("the phase has not ended: {actions:?}");
    };
    assert_eq!(
        (summary.sending_complete, summary.end, summary.tally.sent),
        (ms(3), ms(4), 2)
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

#[test]
#[should_panic(expected = "cannot take the answer that issuing stopped in state Waiting")]
fn an_answer_that_nobody_asked_for_is_a_panic_with_the_state() {
    let mut plan = profiling("p").requests(1);
    plan.id = crate::id::PhaseId(0);
    let mut machine = crate::coordinator::Machine::new(&[plan], false, MachineSettings::default());
    let stray = crate::coordinator::Event::IssuingStopped {
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
    let mut machine = crate::coordinator::Machine::new(&[first, later], false, MachineSettings::default());
    let tally = crate::coordinator::Tally {
        sent: 1,
        ..Default::default()
    };
    let phase = crate::id::PhaseId(1);
    machine.handle(
        crate::coordinator::Event::Progress { phase, tally },
        Nanos(1),
        &mut Vec::new(),
    );
}
