//! The schedule against its formulas.

use std::num::NonZeroU32;

use super::{ImageCursor, Pacer};
use crate::coordinator::simulation::{ms, profiling};
use crate::plan::{Arrival, PhasePlan, Sampler, Sampling};
use crate::units::Nanos;

fn entries(count: u32) -> ImageCursor {
    ImageCursor::new(NonZeroU32::new(count).expect("a dataset is not empty"))
}

fn pacer(plan: &PhasePlan, seed: u64) -> Pacer {
    Pacer::new(plan, seed, entries(1_000))
}

fn constant(rate: f64) -> PhasePlan {
    profiling("p").arriving(Arrival::constant(rate))
}

fn poisson(rate: f64) -> PhasePlan {
    profiling("p").arriving(Arrival::poisson(rate))
}

fn due_times(plan: &PhasePlan, seed: u64, count: usize) -> Vec<Nanos> {
    pacer(plan, seed).take(count).map(|credit| credit.intended).collect()
}

#[test]
fn constant_arrivals_are_exact_to_the_rounding_of_a_nanosecond() {
    for rate in [1u64, 3, 7, 50, 997, 20_000, 1_000_000] {
        let plan = constant(rate as f64).requests(1_000_000);
        for (k, credit) in (1u128..).zip(pacer(&plan, 1)) {
            let exact = (k * 1_000_000_000 + u128::from(rate) / 2) / u128::from(rate);
            let off = u128::from(credit.intended.0).abs_diff(exact);
            assert!(
                off <= 1,
                "arrival {k} at {rate}/s is due at {} ns instead of {exact}",
                credit.intended.0
            );
        }
    }
}

#[test]
fn constant_arrivals_at_or_after_the_end_of_the_phase_do_not_exist() {
    // Due at 20 ms, 40 ms, .. 3.98 s; the one at 4 s is not before the end.
    let times = due_times(&constant(50.0).lasting(ms(4_000)), 1, usize::MAX);
    assert_eq!((times.len(), times[0], times[198]), (199, ms(20), ms(3_980)));
    assert_eq!(
        due_times(&constant(50.0).lasting(Nanos(4_000_000_001)), 1, usize::MAX).len(),
        200
    );
    assert_eq!(pacer(&constant(1.0).lasting(ms(1_000)), 1).next(), None);
}

#[test]
fn requests_bound_every_kind_of_arrival() {
    for plan in [profiling("p"), constant(50.0), poisson(50.0)] {
        let mut pacer = pacer(&plan.requests(37), 1);
        assert_eq!(pacer.by_ref().count(), 37);
        assert_eq!((pacer.issued(), pacer.peek_intended(), pacer.next()), (37, None, None));
    }
}

#[test]
fn a_closed_loop_is_due_at_once_and_knows_no_duration() {
    let mut pacer = pacer(&profiling("p").lasting(ms(1)), 1);
    assert!(
        pacer
            .by_ref()
            .take(100_000)
            .all(|credit| credit.intended == Nanos::ZERO)
    );
    assert_eq!(pacer.peek_intended(), Some(Nanos::ZERO));
}

#[test]
fn peek_and_next_agree() {
    let mut pacer = pacer(&poisson(300.0).lasting(ms(2_000)), 5);
    let mut count = 0;
    loop {
        let peeked = pacer.peek_intended();
        assert_eq!(pacer.peek_intended(), peeked);
        assert_eq!(pacer.next().map(|credit| credit.intended), peeked);
        count += 1;
        if peeked.is_none() {
            break;
        }
    }
    assert!(count > 100);
}

#[test]
fn the_same_seed_gives_the_same_schedule_and_another_seed_or_phase_another() {
    let plan = poisson(100.0);
    let other = profiling("q").arriving(plan.arrival.clone());
    let times = due_times(&plan, 9, 1_000);
    assert_eq!(times, due_times(&plan, 9, 1_000));
    assert_ne!(times, due_times(&plan, 10, 1_000));
    assert_ne!(times, due_times(&other, 9, 1_000));
}

#[test]
fn the_gaps_scale_with_the_rate_and_nothing_else() {
    let (slow, fast) = (
        due_times(&poisson(100.0), 9, 1_000),
        due_times(&poisson(400.0), 9, 1_000),
    );
    for (slow, fast) in slow.iter().zip(&fast) {
        assert!(slow.0.abs_diff(4 * fast.0) <= 4, "{slow} is not four times {fast}");
    }
}

#[test]
fn schedules_never_go_back_and_end_at_the_end_of_time() {
    for plan in [constant(1e9), constant(1e12), poisson(1e9)] {
        assert!(due_times(&plan, 1, 100_000).is_sorted());
    }
    for plan in [constant(1e-300), poisson(1e-300), constant(f64::MIN_POSITIVE)] {
        assert_eq!(pacer(&plan, 1).next(), None);
    }
    // One arrival in 300 years fits the clock, the second does not.
    assert_eq!(pacer(&constant(1.0 / (300.0 * 365.25 * 86_400.0)), 1).count(), 1);
}

#[test]
fn s42_a_probability_of_one_cancels_every_request_after_its_delay() {
    let plan = profiling("p").cancelling(1.0, ms(3)).requests(50);
    assert!(pacer(&plan, 1).all(|credit| credit.cancel_after == Some(ms(3))));
    let at_once = profiling("p").cancelling(1.0, Nanos::ZERO).requests(50);
    assert!(pacer(&at_once, 1).all(|credit| credit.cancel_after == Some(Nanos::ZERO)));
}

fn cancelled(plan: &PhasePlan, seed: u64) -> Vec<u64> {
    pacer(plan, seed)
        .filter(|credit| credit.cancel_after.is_some())
        .map(|credit| credit.sequence)
        .collect()
}

#[test]
fn s45_cancellations_are_independent_draws_that_a_seed_repeats() {
    let plan = profiling("p").cancelling(0.3, Nanos::ZERO).requests(2_000);
    let chosen = cancelled(&plan, 4);
    let sigma = (2_000.0f64 * 0.3 * 0.7).sqrt();
    assert!(
        (chosen.len() as f64 - 600.0).abs() < 3.0 * sigma,
        "{} of 2000",
        chosen.len()
    );
    assert_eq!(chosen, cancelled(&plan, 4));
    assert_ne!(chosen, cancelled(&plan, 5));
    let other = profiling("q").cancelling(0.3, Nanos::ZERO).requests(2_000);
    assert_ne!(chosen, cancelled(&other, 4));
}

#[test]
fn s47_cancellation_changes_no_arrival_and_arrivals_change_no_cancellation() {
    let plain = poisson(100.0).requests(500);
    let cancelling = plain.clone().cancelling(0.5, ms(1));
    assert_eq!(due_times(&plain, 3, 500), due_times(&cancelling, 3, 500));
    let closed = profiling("p").cancelling(0.5, ms(1)).requests(500);
    assert_eq!(cancelled(&cancelling, 3), cancelled(&closed, 3));
}

#[test]
fn s47_a_phase_draws_the_same_whatever_the_phases_before_it_drew() {
    // Streams hang on the name, so a warmup before it, or its position, cannot matter.
    let mut moved = profiling("p").cancelling(0.3, ms(1)).requests(500);
    let first = cancelled(&moved, 3);
    moved.id = crate::id::PhaseId(4);
    assert_eq!(first, cancelled(&moved, 3));
}

#[test]
fn s50_no_block_and_a_probability_of_zero_cancel_nothing() {
    assert_eq!(cancelled(&profiling("p").requests(1_000), 1), [0; 0]);
    assert_eq!(
        cancelled(&profiling("p").cancelling(0.0, ms(1)).requests(1_000), 1),
        [0; 0]
    );
}

#[test]
fn the_dataset_is_taken_in_order_and_goes_on_where_the_previous_phase_stopped() {
    let first = Pacer::new(&profiling("a"), 1, entries(3));
    let images: Vec<u32> = first.clone().take(7).map(|credit| credit.conversation).collect();
    assert_eq!(images, [0, 1, 2, 0, 1, 2, 0]);
    // Seven were issued, five were sent: the next phase takes the sixth.
    let mut second = Pacer::new(&profiling("b"), 1, first.cursor_after(5));
    assert_eq!(
        second.next().map(|credit| (credit.conversation, credit.sequence)),
        Some((2, 0))
    );
    assert!(second.cursor_after(u64::MAX).image() < 3);
    let widest = entries(u32::MAX).advanced(u64::from(u32::MAX) - 1).advanced(u64::MAX);
    assert!(widest.image() < u32::MAX);
}

#[test]
fn s60_a_fixed_schedule_names_its_entries_and_leaves_the_dataset_where_it_was() {
    let plan = profiling("p").at_timestamps(&[1000, 1000, 1500, 4000].map(ms));
    let start = entries(3).advanced(2);
    let credits: Vec<(Nanos, u32, u64)> = Pacer::new(&plan, 1, start)
        .map(|credit| (credit.intended, credit.conversation, credit.sequence))
        .collect();
    assert_eq!(
        credits,
        [(ms(0), 0, 0), (ms(0), 1, 1), (ms(500), 2, 2), (ms(3000), 3, 3)]
    );
    assert_eq!(Pacer::new(&plan, 1, start).cursor_after(4), start);
    let cut = plan.lasting(ms(3000));
    assert_eq!(
        Pacer::new(&cut, 1, start).count(),
        3,
        "an entry at the end of the phase does not exist"
    );
}

#[test]
fn phases_go_on_where_the_one_before_stopped_in_any_order_of_the_dataset() {
    for sampling in [Sampling::Shuffle, Sampling::Random] {
        let order = Sampler::new(sampling, NonZeroU32::new(7).expect("seven"), 5);
        let plan = profiling("p").requests(20);
        let whole: Vec<u32> = Pacer::new(&plan, 1, ImageCursor::in_order(order))
            .map(|credit| credit.conversation)
            .collect();
        let first = Pacer::new(&plan, 1, ImageCursor::in_order(order));
        let second = Pacer::new(&plan, 1, first.cursor_after(9));
        let images: Vec<u32> = first
            .take(9)
            .chain(second)
            .map(|credit| credit.conversation)
            .take(20)
            .collect();
        assert_eq!(images, whole, "{sampling:?}");
    }
}
