//! Open loops and what becomes of arrivals beyond the cap.

use super::assert_clean;
use crate::coordinator::simulation::{Finished, Reply, World, ms, profiling};
use crate::plan::{Arrival, PhasePlan, RatePlan};
use crate::units::Nanos;

fn constant(rate: f64) -> PhasePlan {
    profiling("p").arriving(Arrival::constant(rate)).uncapped()
}

/// Runs one phase against a server that takes `latency` for each request.
fn run(plan: PhasePlan, latency: Nanos) -> Finished {
    World::new(vec![plan]).serving(move |_, _| Reply::After(latency)).run()
}

#[test]
fn s51_a_constant_rate_sends_199_in_4_seconds_from_20_ms_on() {
    let run = run(constant(50.0).lasting(ms(4_000)), ms(10));
    let starts = run.sends(0);
    assert_eq!((starts.len(), starts[0], starts[198]), (199, ms(20), ms(3_980)));
    assert_eq!(run.sending_complete(0), ms(4_000));
    assert_clean(&run);
}

#[test]
fn s55_a_server_that_stalls_shifts_no_send_of_an_uncapped_phase() {
    // Requests of the second second are answered when it is over.
    let stall = |_, sequence| match sequence {
        100..200 => Reply::After(ms(2_000 - 10 * (sequence - 100))),
        _ => Reply::After(ms(5)),
    };
    let run = World::new(vec![constant(100.0).lasting(ms(3_000))])
        .serving(stall)
        .run();
    let expected: Vec<Nanos> = (1..300).map(|k| ms(10 * k)).collect();
    assert_eq!(run.sends(0), expected);
}

#[test]
fn an_arrival_that_finds_no_slot_waits_in_order_unless_it_is_to_be_dropped() {
    // One at a time, 100 ms each, one wanted every 25 ms.
    let plan = constant(40.0).cap(1).requests(4);
    assert_eq!(run(plan.clone(), ms(100)).sends(0), [25, 125, 225, 325].map(ms));
    let dropping = run(plan.clone().dropping(), ms(100));
    assert_eq!(dropping.sends(0), [25, 125, 225, 325].map(ms));
    assert_eq!(dropping.dropped(0), 9, "three between one send and the next");
    // The same with 110 ms: those that wait start when the slot is free, the others at the next arrival after that.
    assert_eq!(run(plan.clone(), ms(110)).sends(0), [25, 135, 245, 355].map(ms));
    assert_eq!(run(plan.dropping(), ms(110)).sends(0), [25, 150, 275, 400].map(ms));
}

#[test]
fn dropped_arrivals_do_not_count_as_requests() {
    for requests in [1, 2, 17, 100] {
        let run = run(constant(200.0).cap(2).dropping().requests(requests), ms(95));
        assert_eq!(run.tally(0).sent, requests);
        assert_eq!(run.sending_complete(0), *run.sends(0).last().expect("it sent"));
        assert_clean(&run);
    }
}

#[test]
fn a_duration_ends_a_phase_that_drops_before_it_has_sent_its_requests() {
    let run = run(
        constant(100.0).cap(1).dropping().requests(1_000).lasting(ms(1_000)),
        ms(95),
    );
    // One in ten finds the slot free.
    assert_eq!((run.tally(0).sent, run.dropped(0)), (10, 89));
    assert_eq!(run.sending_complete(0), ms(1_000));
}

#[test]
fn a_cap_that_does_not_bind_drops_nothing() {
    let run = run(constant(100.0).cap(10).dropping().lasting(ms(2_000)), ms(95));
    assert_eq!((run.tally(0).sent, run.dropped(0)), (199, 0));
}

#[test]
fn a_seamless_phase_drops_what_comes_while_leftovers_hold_its_slots() {
    let first = profiling("a").cap(2).requests(2);
    let second = constant(100.0).cap(2).dropping().seamless().requests(3);
    let run = World::new(vec![first, second])
        .serving(|phase, _| Reply::After(if phase.index() == 0 { ms(105) } else { ms(1) }))
        .run();
    assert_eq!(run.sends(1), [110, 120, 130].map(ms));
    assert_eq!(run.dropped(1), 10);
}

#[test]
fn losses_of_poisson_arrivals_follow_the_formula_of_erlang() {
    // Erlang's loss formula holds for any distribution of the service times (Sevastyanov 1957), so for a constant one too.
    let loss =
        |offered: f64, slots: u32| (1..=slots).fold(1.0, |loss, n| offered * loss / (f64::from(n) + offered * loss));
    for (rate, latency, slots) in [(50.0, 100, 4), (200.0, 50, 12), (30.0, 20, 1)] {
        let plan = profiling("p").arriving(Arrival::poisson(rate)).cap(slots).dropping();
        let run = run(plan.lasting(Nanos::from_secs(150)), ms(latency));
        let (sent, dropped) = (run.tally(0).sent as f64, run.dropped(0) as f64);
        let expected = loss(rate * latency as f64 / 1e3, slots);
        let found = dropped / (sent + dropped);
        // Losses come in clusters; thrice the deviation of independent ones is more than theirs.
        let deviation = (expected * (1.0 - expected) / (sent + dropped)).sqrt();
        assert!(
            (found - expected).abs() < 9.0 * deviation,
            "{slots} slots: {found} of the arrivals were lost instead of {expected}"
        );
    }
}

#[test]
fn a_rate_that_moves_starts_requests_where_its_integral_says() {
    // t + t^2 / 25 = k.
    let plan = constant(1.0).lasting(Nanos::from_secs(25));
    let arrival = plan.arrival.clone().at(RatePlan::series(&[(0.0, 1.0), (25.0, 3.0)]));
    let run = run(plan.arriving(arrival), ms(100));
    let starts = run.sends(0);
    assert_eq!(starts.len(), 49);
    for (k, start) in (1..).zip(starts) {
        let due = 12.5 * ((1.0 + 4.0 * f64::from(k) / 25.0).sqrt() - 1.0);
        assert!(
            (start.as_secs_f64() - due).abs() < 2e-9,
            "request {k} at {start}, due at {due}"
        );
    }
}
