//! The user ends the run, at every stage of it. A test's number is the scenario's.

use super::WORKS;
use crate::coordinator::Machine;
use crate::coordinator::event::{Action, Event, StopReason};
use crate::coordinator::machine::MachineSettings;
use crate::coordinator::simulation::{HookScript, Reply, World, ms, profiling};

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
    let mut machine = Machine::new(&[profiling("p").requests(1)], true, MachineSettings::default());
    let mut actions = Vec::new();
    machine.handle(Event::Interrupted, ms(1), &mut actions);
    assert_eq!(actions, [Action::RunEnded]);
    assert!(machine.outcome().interrupted);
}

#[test]
fn an_interrupt_while_sending_takes_credits_back_and_cuts_what_was_sent() {
    let run = World::new(vec![profiling("p").cap(3).requests(9)])
        .interrupted_at(ms(100))
        .run();
    assert_eq!(
        (run.tally(0).sent, run.tally(0).truncated, run.run_end()),
        (3, 3, ms(100))
    );
    assert_eq!(run.phase(0).stop_reason, StopReason::Interrupted);
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
