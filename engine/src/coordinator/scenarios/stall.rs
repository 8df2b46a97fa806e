//! Servers that fall silent for ever, and requests that have no timeout: every phase ends, and says why.

use super::assert_clean;
use crate::coordinator::event::{Action, StopReason};
use crate::coordinator::machine::MachineSettings;
use crate::coordinator::simulation::{Finished, Reply, World, ms, profiling, warmup};
use crate::id::PhaseId;
use crate::plan::{Arrival, DrainRule, OnCap, PhasePlan, RampStrategy};
use crate::units::Nanos;

/// Drains are cut by their own rule only after a hundred times the stall timeout.
fn settings() -> MachineSettings {
    MachineSettings {
        stall_timeout: ms(10_000),
        drain_stall_timeout: Nanos::from_secs(1_000),
        ..MachineSettings::default()
    }
}

fn world(plans: Vec<PhasePlan>) -> World {
    World::build(plans, false, settings())
}

fn failure(run: &Finished) -> &str {
    run.outcome.failure.as_deref().expect("the run failed")
}

#[test]
fn a_closed_loop_against_a_server_that_answers_nothing_ends_as_stalled() {
    let run = world(vec![
        profiling("baseline").cap(4).requests(100),
        profiling("next").requests(1),
    ])
    .serving(|_, _| Reply::Hang)
    .run();
    assert_eq!(
        failure(&run),
        "profiling phase baseline stalled: nothing sent and no byte received for 10 s, 4 requests in flight, the oldest for 10 s"
    );
    let phase = run.phase(0);
    assert_eq!((phase.stop_reason, phase.drain_cut), (StopReason::Stalled, true));
    assert_eq!((phase.tally.sent, phase.tally.truncated), (4, 4));
    assert_eq!((run.end(0), run.run_end()), (ms(10_000), ms(10_000)));
    assert!(!run.started(1), "the run ends with the phase");
}

#[test]
#[should_panic(expected = "no end after")]
fn without_the_rule_it_would_wait_for_ever() {
    let never = MachineSettings {
        stall_timeout: Nanos::MAX,
        ..settings()
    };
    World::build(vec![profiling("p").cap(4).requests(100)], false, never)
        .serving(|_, _| Reply::Hang)
        .run();
}

#[test]
fn what_was_answered_before_is_kept_and_the_silence_counts_from_the_last_answer() {
    let run = world(vec![profiling("p").cap(2).requests(100)])
        .serving(|_, sequence| match sequence {
            0..=9 => Reply::After(ms(1_000)),
            _ => Reply::Hang,
        })
        .run();
    assert_eq!((run.tally(0).succeeded, run.tally(0).truncated), (10, 2));
    assert_eq!(run.end(0), ms(5_000 + 10_000));
}

#[test]
fn one_request_that_lives_keeps_its_phase_alive() {
    // It streams for longer than the timeout, and its slot then serves the rest.
    let run = world(vec![profiling("p").cap(2).requests(4).grace_inf()])
        .serving(|_, sequence| match sequence {
            0 => Reply::Hang,
            1 => Reply::After(ms(60_000)),
            _ => Reply::After(ms(100)),
        })
        .run();
    assert_eq!(run.outcome.failure, None);
    assert_eq!((run.tally(0).sent, run.tally(0).truncated), (4, 1));
    // The last answer came after 60.2 s.
    assert_eq!(run.end(0), ms(70_200));
}

#[test]
fn a_schedule_that_goes_on_is_no_stall_however_slow_it_is() {
    // One arrival in 25 s, and the answer to the first never comes.
    let slow = profiling("slow").arriving(Arrival::constant(0.04)).cap(2).requests(4);
    let run = world(vec![slow.clone()])
        .serving(|_, sequence| {
            if sequence == 0 {
                Reply::Hang
            } else {
                Reply::After(ms(100))
            }
        })
        .run();
    assert_eq!((run.tally(0).sent, run.phase(0).stop_reason), (4, StopReason::Requests));
    // With every slot taken the schedule cannot go on.
    let stuck = world(vec![slow]).serving(|_, _| Reply::Hang).run();
    assert_eq!(
        (stuck.tally(0).sent, stuck.phase(0).stop_reason),
        (2, StopReason::Stalled)
    );
    assert_eq!(stuck.end(0), ms(50_000 + 10_000));
}

#[test]
fn a_phase_of_any_type_ends_against_a_dead_server() {
    let rate = 20.0;
    let users = Arrival::UserCentric { users: 3, rate };
    let limited = |on_cap: OnCap| move |plan: PhasePlan| PhasePlan { on_cap, ..plan.cap(3) };
    let phases: Vec<(&str, PhasePlan)> = vec![
        ("concurrency", profiling("p").cap(3)),
        (
            "ramped",
            profiling("p")
                .cap(9)
                .ramped(Nanos::from_secs(100_000), RampStrategy::Linear),
        ),
        (
            "constant",
            limited(OnCap::Wait)(profiling("p").arriving(Arrival::constant(rate))),
        ),
        (
            "constant, drop",
            limited(OnCap::Drop)(profiling("p").arriving(Arrival::constant(rate))),
        ),
        (
            "poisson",
            limited(OnCap::Wait)(profiling("p").arriving(Arrival::poisson(rate))),
        ),
        (
            "poisson, drop",
            limited(OnCap::Drop)(profiling("p").arriving(Arrival::poisson(rate))),
        ),
        (
            "gamma",
            limited(OnCap::Wait)(profiling("p").arriving(Arrival::gamma(rate, 0.5))),
        ),
        ("prefill", profiling("p").cap(9).prefilling(2)),
        (
            "prefill, open",
            profiling("p")
                .arriving(Arrival::constant(rate))
                .uncapped()
                .prefilling(2),
        ),
        ("users", profiling("p").arriving(users).cap(3)),
    ];
    for (what, plan) in phases {
        let mut plan = plan;
        plan.stop.requests = Some(1_000);
        for turns in [&[1][..], &[3]] {
            let run = world(vec![plan.clone()])
                .conversing(turns)
                .serving(|_, _| Reply::Hang)
                .run();
            assert_eq!(run.phase(0).stop_reason, StopReason::Stalled, "{what}, {turns:?}");
            assert!(failure(&run).contains("phase p stalled"), "{what}: {}", failure(&run));
        }
    }
}

#[test]
fn open_loops_without_a_cap_send_everything_and_stall_in_a_drain_without_end_only() {
    let schedule: Vec<Nanos> = (0..5).map(|k| ms(15_000 * k)).collect();
    let users = Arrival::UserCentric { users: 2, rate: 1.0 };
    for plan in [
        profiling("p").arriving(Arrival::constant(5.0)).uncapped().requests(20),
        profiling("p").at_timestamps(&schedule),
        profiling("p").arriving(users).uncapped().requests(20),
    ] {
        let run = world(vec![plan.grace_inf()]).serving(|_, _| Reply::Hang).run();
        let tally = run.tally(0);
        assert_eq!(
            (tally.sent, tally.truncated),
            (run.total(0).unwrap_or(tally.sent), tally.sent)
        );
        assert_eq!(run.end(0), run.sending_complete(0) + ms(10_000));
        assert_eq!(run.phase(0).stop_reason, StopReason::Requests);
        let expected = format!(
            "phase p stalled in its drain: no byte received for 10 s; {} requests were cut",
            tally.sent
        );
        assert!(run.outcome.warnings.contains(&expected), "{:?}", run.outcome);
        assert_eq!(run.outcome.failure, None);
    }
}

#[test]
fn turns_that_wait_for_the_answer_before_are_no_future() {
    // Every session has begun, and each waits for its first answer.
    let mut plan = profiling("p").cap(8);
    plan.stop.sessions = Some(3);
    let run = world(vec![plan]).conversing(&[4]).serving(|_, _| Reply::Hang).run();
    assert_eq!((run.tally(0).sent, run.phase(0).stop_reason), (3, StopReason::Stalled));
}

/// A server that never answers the first phase.
fn first_hangs(phase: PhaseId, _: u64) -> Reply {
    match phase.0 {
        0 => Reply::Hang,
        _ => Reply::After(ms(200)),
    }
}

#[test]
fn a_drain_without_end_gives_way_and_the_phase_that_waits_for_its_slots_goes_on() {
    let a = profiling("a").cap(4).requests(4).grace_inf();
    let b = profiling("b").cap(4).requests(8).seamless();
    let run = world(vec![a, b]).serving(first_hangs).cuts_after(ms(50)).run();
    assert_eq!(run.outcome.failure, None);
    assert_eq!((run.tally(0).truncated, run.tally(1).succeeded), (4, 8));
    assert_eq!(run.sends(1)[0], ms(10_050));
    assert_eq!(run.phase(0).stop_reason, StopReason::Requests);
}

#[test]
fn a_drain_beside_a_live_phase_is_cut_alone() {
    let a = profiling("a").cap(1).requests(1).grace_inf();
    let b = profiling("b").cap(4).lasting(ms(30_000)).seamless();
    let run = world(vec![a, b]).serving(first_hangs).run();
    assert_eq!((run.end(0), run.tally(0).truncated), (ms(10_000), 1));
    assert_eq!(
        (run.phase(1).stop_reason, run.tally(1).truncated),
        (StopReason::Duration, 0)
    );
}

#[test]
fn a_phase_whose_slots_are_held_by_earlier_ones_says_so() {
    // The drain would be cut by its own rule, much later.
    let b = profiling("b").cap(4).requests(8).seamless();
    let run = world(vec![warmup("a").cap(4).requests(4), b])
        .serving(|_, _| Reply::Hang)
        .run();
    assert_eq!(
        failure(&run),
        "profiling phase b stalled: nothing sent and no byte received for 10 s, no request in flight, for 4 requests of earlier phases \
         hold its slots"
    );
    assert_eq!((run.tally(0).truncated, run.tally(1).sent), (4, 0));
    assert_eq!(run.phase(0).stop_reason, StopReason::Requests);
}

#[test]
fn a_chain_of_seamless_phases_ends_whoever_hangs() {
    for hanging in 0..3 {
        for drain in [
            DrainRule::WhileProgressing,
            DrainRule::Unbounded,
            DrainRule::Grace(ms(5_000)),
        ] {
            let phase = |name: &str| {
                let mut plan = profiling(name).cap(2).requests(4);
                plan.drain = drain;
                if let DrainRule::Grace(_) = drain {
                    plan.stop.duration = Some(ms(60_000));
                }
                plan
            };
            let run = world(vec![phase("a"), phase("b").seamless(), phase("c").seamless()])
                .serving(move |phase, sequence| {
                    if phase.0 == hanging && sequence >= 3 {
                        Reply::Hang
                    } else {
                        Reply::After(ms(100))
                    }
                })
                .run();
            // One request hangs, so the other slot serves the phases behind it.
            assert_eq!(run.outcome.failure, None, "{hanging} {drain:?}");
            assert_eq!(run.tally(usize::from(hanging)).truncated, 1);
            assert_eq!(run.tally(2).sent, 4);
        }
    }
}

#[test]
fn the_first_of_duration_and_stall_ends_the_phase() {
    let lasting = |span| {
        world(vec![profiling("p").cap(2).lasting(span).grace(Nanos::ZERO)])
            .serving(|_, _| Reply::Hang)
            .run()
    };
    assert_eq!(lasting(ms(9_000)).phase(0).stop_reason, StopReason::Duration);
    assert_eq!(lasting(ms(11_000)).phase(0).stop_reason, StopReason::Stalled);
}

#[test]
fn a_grace_period_is_granted_in_full_however_silent_it_is() {
    let run = world(vec![profiling("p").cap(2).lasting(ms(1_000)).grace(ms(60_000))])
        .serving(|_, _| Reply::Hang)
        .run();
    assert_eq!(
        (run.phase(0).stop_reason, run.end(0)),
        (StopReason::Duration, ms(61_000))
    );
    assert_eq!(run.outcome.failure, None);
}

#[test]
fn a_silence_is_told_after_a_minute_and_so_is_its_end() {
    let settings = MachineSettings {
        drain_stall_timeout: Nanos::from_secs(1_000_000),
        ..MachineSettings::default()
    };
    // The first request is lost for 200 s: nothing of it is seen until it is cancelled.
    let run = World::build(
        vec![profiling("p").cap(1).requests(3).cancelling(1.0, ms(200_000))],
        false,
        settings,
    )
    .serving(|_, _| Reply::Hang)
    .run();
    let told = run.times(|action| matches!(action, Action::IsSilent { .. }));
    let ended = run.times(|action| matches!(action, Action::GoesOn { .. }));
    // The second silence is told of after twice the length of the first, which it does not reach.
    assert_eq!((told, ended), (vec![ms(60_000)], vec![ms(200_000)]));
    assert_eq!(
        run.outcome.warnings,
        ["phase p: no byte came for 3 min 20 s, from 0 s after its start on; then it went on"]
    );
}

#[test]
fn a_phase_that_is_answered_is_never_asked_about() {
    let run = world(vec![profiling("p").cap(4).requests(1_000)]).run();
    assert_clean(&run);
    assert!(
        run.times(|action| matches!(action, Action::LookForSigns { .. }))
            .is_empty()
    );
}

#[test]
fn an_interrupt_of_a_silent_run_is_an_interrupt() {
    let run = world(vec![profiling("p").cap(2).requests(9)])
        .serving(|_, _| Reply::Hang)
        .interrupted_at(ms(9_999))
        .run();
    assert_eq!(
        (run.phase(0).stop_reason, &run.outcome.failure),
        (StopReason::Interrupted, &None)
    );
    let cut = run.times(|action| matches!(action, Action::CutPhase { phase: PhaseId(0) }));
    assert_eq!(cut, [ms(9_999)]);
}
