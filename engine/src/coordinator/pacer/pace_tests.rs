//! Schedules whose pace a controller moves: against the integral of the rate that was asked for, whoever looks when.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::{ImageCursor, Pacer};
use crate::coordinator::event::Pace;
use crate::coordinator::simulation::{ms, profiling};
use crate::plan::{
    AdaptivePlan, Arrival, ControlVariable, Conversations, PACE_LEAD, PhasePlan, SlaFilter, SlaOp, StepPolicy,
    WindowMetric, WindowStat,
};
use crate::units::Nanos;

const PERIOD: Nanos = ms(1_000);

fn steered(mut plan: PhasePlan, variable: ControlVariable, min: f64) -> PhasePlan {
    plan.limits.adaptive = Some(Arc::new(AdaptivePlan {
        variable,
        min,
        max: 1e6,
        assessment_period: PERIOD,
        min_completed: 1,
        sustain_duration: PERIOD,
        step_policy: StepPolicy::SlaMargin,
        base_step: 1.0,
        max_step_multiplier: 1,
        step_percent: 25.0,
        filters: vec![SlaFilter {
            metric: WindowMetric::RequestLatency,
            name: "request_latency".to_owned(),
            stat: WindowStat::Average,
            stat_name: "avg".to_owned(),
            op: SlaOp::Lt,
            threshold: 1.0,
        }],
    }));
    plan
}

/// When the change after the window of this number, from 1, applies.
fn change(window: usize) -> Nanos {
    Nanos(PERIOD.0 * window as u64) + PACE_LEAD
}

/// Due times of a schedule with one value per window. `looks` says how long it is from one look of the shell to the next, which also is when it
/// hears what the controller decided; the gate is never full.
fn drive(pacer: &mut Pacer, values: &[f64], mut looks: impl FnMut() -> Nanos) -> Vec<Nanos> {
    let end = change(values.len());
    let (mut now, mut window, mut due) = (Nanos::ZERO, 1, Vec::new());
    while now < end {
        if window < values.len() && now >= Nanos(PERIOD.0 * window as u64) {
            pacer.go_on(Pace {
                value: values[window],
                from: change(window),
                known_until: change(window + 1),
            });
            window += 1;
        }
        while pacer.is_open(now) {
            let credit = pacer.next().expect("an open pacer has a credit");
            assert!(credit.intended < now + PACE_LEAD, "{} at {now}", credit.intended);
            due.push(credit.intended);
        }
        now = now + looks();
    }
    due.retain(|&due| due < end);
    due
}

fn rates(arrival: Arrival, seed: u64, values: &[f64], looks: impl FnMut() -> Nanos) -> Vec<Nanos> {
    let plan = steered(
        profiling("p").arriving(arrival),
        ControlVariable::RequestRate,
        values[0],
    );
    let mut pacer = Pacer::new(&plan, seed, ImageCursor::new(NonZeroU32::MIN));
    drive(&mut pacer, values, looks)
}

/// The integral of the rate that was asked for.
fn integral(values: &[f64], until: Nanos) -> f64 {
    let ends = (1..=values.len()).map(|window| change(window).min(until).as_secs_f64());
    let mut from = 0.0;
    let mut sum = 0.0;
    for (value, end) in values.iter().zip(ends) {
        sum += value * (end - from);
        from = end;
    }
    sum
}

const STEPS: [f64; 8] = [10.0, 40.0, 2_000.0, 3.5, 0.25, 500.0, 500.0, 80.0];

#[test]
fn as_many_arrivals_come_as_the_integral_of_the_stepped_rate_says() {
    let due = rates(Arrival::constant(9.0), 1, &STEPS, || ms(10));
    for (number, due) in (1u32..).zip(&due) {
        let off = integral(&STEPS, *due) - f64::from(number);
        assert!(off.abs() < 1e-4, "arrival {number} at {due}: off by {off}");
    }
    let expected = integral(&STEPS, change(STEPS.len()));
    assert!((due.len() as f64 - expected).abs() < 1.0, "{} of {expected}", due.len());

    // The same draws at a rate of one are the arrivals in units of the mean gap: what the rates make of them is their integral.
    for arrival in [Arrival::poisson, |rate| Arrival::gamma(rate, 0.5)] {
        let due = rates(arrival(9.0), 7, &STEPS, || ms(10));
        let plan = profiling("p").arriving(arrival(1.0));
        let unit = Pacer::new(&plan, 7, ImageCursor::new(NonZeroU32::MIN));
        for (due, unit) in due.iter().zip(unit) {
            let off = integral(&STEPS, *due) - unit.intended.as_secs_f64();
            assert!(off.abs() < 1e-4, "{due}: off by {off}");
        }
        assert!((due.len() as f64 - expected).abs() < 6.0 * (2.0 * expected).sqrt());
    }
}

#[test]
fn the_schedule_does_not_depend_on_when_anyone_looks() {
    for arrival in [Arrival::constant(9.0), Arrival::poisson(9.0), Arrival::gamma(9.0, 3.0)] {
        let prompt = rates(arrival.clone(), 3, &STEPS, || ms(1));
        for every in [3, 10, 49, 120, 400] {
            assert_eq!(
                prompt,
                rates(arrival.clone(), 3, &STEPS, || ms(every)),
                "every {every} ms"
            );
        }
        let mut span = 1;
        let uneven = rates(arrival.clone(), 3, &STEPS, || {
            span = span * 7 % 211;
            ms(span)
        });
        assert_eq!(prompt, uneven);
        assert!(prompt.is_sorted());
        // Seeds make another schedule of what is drawn, and of nothing else.
        assert_eq!(
            prompt == rates(arrival.clone(), 4, &STEPS, || ms(1)),
            arrival == Arrival::constant(9.0)
        );
    }
}

#[test]
fn what_is_due_before_a_change_is_what_would_have_been_without_it() {
    let flat = rates(Arrival::poisson(9.0), 3, &[50.0; 4], || ms(10));
    let plain: Vec<Nanos> = Pacer::new(
        &profiling("p").arriving(Arrival::poisson(50.0)),
        3,
        ImageCursor::new(NonZeroU32::MIN),
    )
    .map(|credit| credit.intended)
    .take_while(|&due| due < change(4))
    .collect();
    for (flat, plain) in flat.iter().zip(&plain) {
        assert!(
            flat.0.abs_diff(plain.0) <= 1,
            "no step is no change: {flat} for {plain}"
        );
    }
    assert_eq!(flat.len(), plain.len());
    let stepped = rates(Arrival::poisson(9.0), 3, &[50.0, 50.0, 400.0, 400.0], || ms(10));
    let before = |due: &[Nanos]| due.iter().copied().filter(|&due| due < change(2)).collect::<Vec<_>>();
    assert_eq!(before(&flat), before(&stepped));
    assert!(stepped.len() > flat.len() + 200);
}

#[test]
fn a_rate_so_low_that_nothing_would_come_is_not_the_end_of_the_schedule() {
    let plan = steered(
        profiling("p").arriving(Arrival::constant(9.0)).lasting(ms(3_000)),
        ControlVariable::RequestRate,
        0.01,
    );
    let mut pacer = Pacer::new(&plan, 1, ImageCursor::new(NonZeroU32::MIN));
    assert_eq!((pacer.peek_intended(), pacer.is_exhausted()), (None, false));
    let due = drive(&mut pacer, &[0.01, 100.0, 100.0], || ms(10));
    // 0.0105 arrivals by 1.05 s, then one each 10 ms.
    assert_eq!(due[0], ms(1_050) + Nanos(9_895_000));
    assert_eq!(due.len(), 195);
    assert!(pacer.is_exhausted());
}

#[test]
#[should_panic(expected = "certain until")]
fn a_change_of_what_is_certain_is_a_mistake_of_the_caller() {
    let plan = steered(
        profiling("p").arriving(Arrival::constant(9.0)),
        ControlVariable::RequestRate,
        5.0,
    );
    let mut pacer = Pacer::new(&plan, 1, ImageCursor::new(NonZeroU32::MIN));
    pacer.go_on(Pace {
        value: 6.0,
        from: PERIOD,
        known_until: change(2),
    });
}

#[test]
fn starts_of_users_follow_the_number_of_users_and_not_the_looks() {
    // Whole conversations of 3 turns at a gap of 200 ms: a user lasts for 600 ms.
    let conversations = Arc::new(Conversations::of_turns((0..9).map(|id| (id.to_string(), 3))));
    let arrival = Arrival::UserCentric { users: 20, rate: 100.0 };
    let plan = steered(profiling("p").arriving(arrival), ControlVariable::Users, 2.0);
    let cursor = ImageCursor::new(NonZeroU32::new(9).expect("not zero"));
    let of = |every| {
        let mut pacer = Pacer::of_sessions(&plan, 1, cursor, &conversations);
        drive(&mut pacer, &[2.0, 8.0, 8.0, 8.0, 4.0, 4.0, 4.0, 4.0], || ms(every))
    };
    let due = of(10);
    for every in [1, 49, 120, 400] {
        assert_eq!(due, of(every), "every {every} ms");
    }
    let within = |from: Nanos, span: u64| {
        let to = from + ms(span);
        due.iter().filter(|&&due| due >= from && due < to).count()
    };
    // Each of n users begins once per 600 ms; histories make the first two come sooner.
    assert_eq!(within(ms(400), 600), 2);
    // Six come within one gap, the first at the change.
    assert!(due.contains(&change(1)));
    assert_eq!(within(change(1), 600), 8);
    assert_eq!(within(change(2), 1_800), 24);
    // The next four who would have begun do not, and the others go on.
    assert_eq!(within(change(4), 600), 4);
    assert_eq!(within(change(6), 1_200), 8);
}
