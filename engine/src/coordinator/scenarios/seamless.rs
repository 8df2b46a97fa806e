//! Phases that overlap while they drain. A test's number is the scenario's.

use super::assert_clean;
use crate::coordinator::event::Action;
use crate::coordinator::simulation::{Reply, World, ms, profiling, warmup};
use crate::plan::Arrival;
use crate::units::Nanos;

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
        .arriving(Arrival::constant(100.0))
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
