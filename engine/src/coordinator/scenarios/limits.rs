//! Limits beside the concurrency: prefills, ramps, failures. A test's number is the scenario's.

use super::assert_clean;
use crate::coordinator::event::{Action, StopReason};
use crate::coordinator::machine::MachineSettings;
use crate::coordinator::simulation::{Reply, World, ms, profiling, warmup};
use crate::plan::{Arrival, RampStrategy};
use crate::units::Nanos;

#[test]
fn a_prefill_limit_holds_starts_back_until_the_first_content() {
    let run = World::new(vec![profiling("p").cap(4).prefilling(1).requests(4)])
        .serving(|_, _| Reply::Stream(ms(100), ms(1_000)))
        .run();
    assert_clean(&run);
    assert_eq!(run.sends(0), [0, 100, 200, 300].map(ms));
    assert_eq!((run.peak(0), run.peak_prefill(0)), (4, 1));
}

#[test]
fn a_prefill_slot_comes_back_with_the_end_of_a_request_that_never_had_content() {
    let run = World::new(vec![
        profiling("p").cap(4).prefilling(1).requests(4).cancelling(1.0, ms(30)),
    ])
    .serving(|_, sequence| {
        if sequence == 0 {
            Reply::Failure(ms(10))
        } else {
            Reply::Hang
        }
    })
    .run();
    assert_eq!((run.tally(0).failed, run.tally(0).cancelled), (1, 3));
    assert_eq!(run.sends(0), [0, 10, 40, 70].map(ms));
}

#[test]
fn a_credit_that_still_waits_for_a_prefill_slot_at_the_end_is_never_sent() {
    let run = World::new(vec![profiling("p").cap(8).prefilling(2).lasting(ms(500))])
        .serving(|_, _| Reply::Stream(ms(300), ms(2_000)))
        .run();
    // Two at once, two at 300 ms; the next would come at 600 ms.
    assert_eq!(
        (run.tally(0).sent, run.sends(0)),
        (4, vec![ms(0), ms(0), ms(300), ms(300)])
    );
}

#[test]
fn an_open_loop_waits_for_prefill_slots_in_order_and_loses_no_arrival() {
    let plan = profiling("p")
        .arriving(Arrival::constant(10.0))
        .uncapped()
        .prefilling(1)
        .requests(6);
    let run = World::new(vec![plan])
        .serving(|_, _| Reply::Stream(ms(150), ms(1_000)))
        .run();
    assert_eq!(run.sends(0), (0..6).map(|k| ms(100 + 150 * k)).collect::<Vec<_>>());
}

#[test]
fn prefills_that_an_earlier_phase_left_behind_count_against_the_limit_of_a_seamless_one() {
    // A has no limit of its own and leaves three prefills that end at 300, 400 and 500 ms.
    let a = profiling("a").cap(3).requests(3);
    let b = profiling("b").cap(8).prefilling(2).requests(3).seamless();
    let run = World::new(vec![a, b])
        .serving(|phase, sequence| match phase.0 {
            0 => Reply::Stream(ms(300 + 100 * sequence), ms(5_000)),
            _ => Reply::Stream(ms(1_000), ms(2_000)),
        })
        .run();
    assert_eq!(run.start(1), Nanos::ZERO);
    assert_eq!(run.sends(1), [400, 500, 1_400].map(ms));
    assert_eq!(run.peak_prefill(1), 2);
}

#[test]
fn a_larger_prefill_limit_of_a_seamless_phase_is_usable_at_once() {
    let a = profiling("a").cap(2).prefilling(2).requests(2);
    let b = profiling("b").cap(8).prefilling(5).requests(4).seamless();
    let run = World::new(vec![a, b])
        .serving(|_, _| Reply::Stream(ms(300), ms(900)))
        .run();
    assert_eq!(run.sends(1), [0, 0, 0, 300].map(ms));
}

#[test]
fn s57_a_linear_ramp_starts_the_kth_request_at_its_share_of_the_time() {
    let run = World::new(vec![
        profiling("p")
            .cap(10)
            .requests(10)
            .ramped(ms(3_000), RampStrategy::Linear),
    ])
    .serving(|_, _| Reply::After(ms(60_000)))
    .run();
    let due = |k: u64| Nanos((3_000_000_000 * (k - 1)).div_ceil(9));
    assert_eq!(run.sends(0), (1..=10).map(due).collect::<Vec<_>>());
    assert_eq!(run.peak(0), 10);
}

#[test]
fn s57_an_exponential_ramp_starts_the_kth_request_at_the_root_of_its_share() {
    let run = World::new(vec![
        profiling("p")
            .cap(10)
            .requests(10)
            .ramped(ms(3_000), RampStrategy::Exponential),
    ])
    .serving(|_, _| Reply::After(ms(60_000)))
    .run();
    for (k, at) in run.sends(0).into_iter().enumerate() {
        let due = 3.0 * (k as f64 / 9.0).sqrt();
        assert!(
            (at.as_secs_f64() - due).abs() < 1e-8,
            "request {k} at {at}, due at {due} s"
        );
    }
}

#[test]
fn s57_a_drawn_ramp_is_at_its_target_when_its_time_is_over() {
    let plan = profiling("p")
        .cap(40)
        .requests(40)
        .ramped(ms(3_000), RampStrategy::Poisson);
    let sends = |seed| {
        let settings = MachineSettings {
            seed,
            ..MachineSettings::default()
        };
        World::build(vec![plan.clone()], false, settings)
            .serving(|_, _| Reply::After(ms(60_000)))
            .run()
            .sends(0)
    };
    let first = sends(1);
    assert_eq!((first[0], first[39]), (Nanos::ZERO, ms(3_000)));
    assert_eq!(first, sends(1));
    assert_ne!(first, sends(2));
}

#[test]
fn a_ramp_that_is_over_limits_nothing_and_one_to_one_is_none() {
    let run = World::new(vec![
        profiling("a").cap(1).requests(3).ramped(ms(500), RampStrategy::Linear),
        profiling("b").cap(2).requests(6).ramped(ms(100), RampStrategy::Linear),
    ])
    .run();
    assert_eq!(run.sends(0), [0, 200, 400].map(ms));
    assert_eq!(run.sends(1), [600, 700, 800, 900, 1_000, 1_100].map(ms));
}

#[test]
fn a_ramp_stops_with_the_sending() {
    let run = World::new(vec![
        profiling("p")
            .cap(100)
            .lasting(ms(1_000))
            .ramped(ms(10_000), RampStrategy::Linear),
    ])
    .serving(|_, _| Reply::After(ms(30_000)))
    .run();
    // 99 steps in ten seconds: nine within the first, and the one that is there from the start.
    assert_eq!(run.tally(0).sent, 10);
    let after = run.times(|action| matches!(action, Action::SetLimit { .. }));
    assert!(after.iter().all(|&at| at < ms(1_000)), "{after:?}");
    assert_eq!(run.end(0), ms(30_000) + Nanos((10_000_000_000u64 * 9).div_ceil(99)));
}

#[test]
fn leftovers_count_against_the_value_that_the_ramp_of_a_seamless_phase_has_reached() {
    let a = profiling("a").cap(3).requests(3);
    let b = profiling("b")
        .cap(5)
        .requests(4)
        .seamless()
        .ramped(ms(4_000), RampStrategy::Linear);
    let run = World::new(vec![a, b])
        .serving(|phase, _| Reply::After(if phase.0 == 0 { ms(10_000) } else { ms(60_000) }))
        .run();
    // Ramp values 1 to 5 at 0, 1, 2, 3 and 4 s; three slots are A's until 10 s.
    assert_eq!(run.sends(1), [3_000, 4_000, 10_000, 10_000].map(ms));
}

#[test]
fn a_prefill_ramp_lets_prefills_in_one_by_one() {
    let run = World::new(vec![
        profiling("p")
            .cap(10)
            .prefilling(4)
            .prefill_ramped(ms(3_000), RampStrategy::Linear)
            .requests(4),
    ])
    .serving(|_, _| Reply::Stream(ms(50_000), ms(60_000)))
    .run();
    assert_eq!(run.sends(0), [0, 1_000, 2_000, 3_000].map(ms));
}

#[test]
fn too_many_failures_end_the_run_with_what_is_there() {
    let a = profiling("a").cap(4).requests(1_000).failing_at(0.5);
    let run = World::new(vec![warmup("w").requests(4), a, profiling("b").requests(4)])
        .serving(|phase, sequence| match (phase.0, sequence) {
            (1, 0) => Reply::After(ms(100_000)),
            (1, sequence) if sequence % 3 > 0 => Reply::Failure(ms(20)),
            _ => Reply::After(ms(20)),
        })
        .run();
    let line = run.outcome.threshold_missed.as_deref().expect("two of three fail");
    assert!(
        line.contains("profiling phase a: ")
            && line.contains(" above failed_request_threshold 0.5")
            && !line.contains('\n'),
        "{line}"
    );
    assert_eq!((run.outcome.failure.as_deref(), run.outcome.interrupted), (None, false));
    let tally = run.tally(1);
    assert_eq!((tally.failed + tally.succeeded, tally.truncated), (12, 1), "{tally:?}");
    assert_eq!(run.phase(1).stop_reason, StopReason::Interrupted);
    assert!(!run.started(2));
}

#[test]
fn a_threshold_waits_for_as_many_answers_as_slots_and_for_ten() {
    for (cap, sent) in [(1, 10), (10, 10), (25, 25)] {
        let run = World::new(vec![profiling("p").cap(cap).requests(1_000).failing_at(0.0)])
            .serving(|_, _| Reply::Failure(ms(20)))
            .run();
        assert!(run.outcome.threshold_missed.is_some(), "cap {cap}");
        assert_eq!(run.tally(0).failed, sent, "cap {cap}");
    }
    let few = World::new(vec![profiling("p").requests(9).failing_at(0.0)])
        .serving(|_, _| Reply::Failure(ms(20)))
        .run();
    assert_eq!(few.outcome.threshold_missed, None);
}

#[test]
fn a_ratio_at_the_threshold_is_within_it_and_disconnects_are_no_failures() {
    let half = World::new(vec![profiling("p").cap(1).requests(100).failing_at(0.5)])
        .serving(|_, sequence| {
            if sequence % 2 == 0 {
                Reply::After(ms(5))
            } else {
                Reply::Failure(ms(5))
            }
        })
        .run();
    assert_eq!(half.outcome.threshold_missed, None);
    assert_eq!(half.tally(0).failed, 50);
    let stormy = World::new(vec![
        profiling("p").requests(100).failing_at(0.1).cancelling(0.9, ms(5)),
    ])
    .run();
    assert_eq!(stormy.outcome.threshold_missed, None);
}

#[test]
fn failures_that_come_with_the_last_return_miss_the_threshold_too() {
    let run = World::new(vec![
        profiling("p").cap(20).requests(20).failing_at(0.9),
        profiling("q").requests(1),
    ])
    .serving(|_, _| Reply::Failure(ms(20)))
    .run();
    assert!(run.outcome.threshold_missed.is_some());
    assert!(!run.started(1));
}
