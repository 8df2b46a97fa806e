//! The inverse of the integral against the rate itself, and its joints.

use super::*;
use crate::coordinator::stream::Purpose;
use crate::units::Nanos;

fn integral(plan: &RatePlan) -> IntegratedRate {
    IntegratedRate::new(plan, Stream::new(7, "p", Purpose::RateRamp))
}

fn ramp(seconds: f64, strategy: RampStrategy) -> RampPlan {
    RampPlan {
        duration: Nanos::from_secs_f64(seconds),
        strategy,
    }
}

fn series() -> RatePlan {
    RatePlan::series(&[(2.0, 5.0), (4.0, 25.0), (4.5, 25.0), (10.0, 0.5), (11.0, 900.0)])
}

/// The rate of [`series`] at `t`, by its definition.
fn rate_of_series(t: f64) -> f64 {
    match t {
        ..2.0 => 5.0,
        2.0..4.0 => 5.0 + 10.0 * (t - 2.0),
        4.0..4.5 => 25.0,
        4.5..10.0 => 25.0 - 24.5 * (t - 4.5) / 5.5,
        10.0..11.0 => 0.5 + 899.5 * (t - 10.0),
        _ => 900.0,
    }
}

/// Asserts that the time of each number of arrivals is where the numerical integral of `rate` gets to it.
fn assert_inverse_of(plan: &RatePlan, rate: impl Fn(f64) -> f64, until_s: f64) {
    let mut inverse = integral(plan);
    let (steps, mut sum) = (200_000, 0.0);
    let step = until_s / f64::from(steps);
    for index in 0..steps {
        let t = step * f64::from(index);
        // Simpson's rule is exact for the square of the time, but for the two steps around a joint.
        sum += step / 6.0 * (rate(t) + 4.0 * rate(t + 0.5 * step) + rate(t + step));
        let time = inverse.time_of(sum);
        assert!(
            (time - (t + step)).abs() < 2.0 * step,
            "{sum} arrivals at {time} s instead of {} s",
            t + step
        );
        let back = inverse.arrivals_by(time);
        assert!(
            (back - sum).abs() <= 1e-9 * sum.max(1.0),
            "{sum} arrivals became {back}"
        );
    }
    assert!(sum > 10.0, "the test has compared next to nothing");
}

#[test]
fn a_constant_rate_is_a_division() {
    let mut inverse = integral(&RatePlan::constant(3.0));
    for k in 1..100_000 {
        assert_eq!(inverse.time_of(f64::from(k)), f64::from(k) / 3.0);
    }
}

#[test]
fn a_series_is_linear_between_points_and_flat_outside() {
    assert_inverse_of(&series(), rate_of_series, 13.0);
}

#[test]
fn a_linear_ramp_starts_where_it_would_be_after_a_tenth_of_a_second() {
    let plan = RatePlan::constant(30.0).ramped(ramp(20.0, RampStrategy::Linear));
    let rate = |t: f64| {
        if t < 20.0 {
            0.15 + (30.0 - 0.15) * t / 20.0
        } else {
            30.0
        }
    };
    assert_inverse_of(&plan, rate, 25.0);
}

#[test]
fn an_exponential_ramp_grows_with_the_square_of_the_time() {
    let plan = RatePlan::constant(30.0).ramped(ramp(20.0, RampStrategy::Exponential));
    let rate = |t: f64| 0.15 + (30.0 - 0.15) * (t / 20.0).min(1.0).powi(2);
    assert_inverse_of(&plan, rate, 25.0);
}

#[test]
fn a_drawn_ramp_rises_by_equal_steps_and_ends_on_time() {
    for seed in 0..50 {
        let plan = RatePlan::constant(400.0).ramped(ramp(10.0, RampStrategy::Poisson));
        let drawn = IntegratedRate::new(&plan, Stream::new(seed, "p", Purpose::RateRamp));
        let (last, steps) = drawn.pieces.split_last().expect("there are pieces");
        assert_eq!((last.start_s, last.rate), (10.0, 400.0));
        // 400 - 4 expected, with a standard deviation of 20.
        assert!((300..500).contains(&steps.len()), "seed {seed}: {} steps", steps.len());
        assert_eq!(steps[0].rate, 4.0);
        let rises = drawn.pieces.windows(2).map(|pair| pair[1].rate - pair[0].rate);
        let equal = 396.0 / steps.len() as f64;
        assert!(rises.into_iter().all(|rise| (rise - equal).abs() < 1e-9), "seed {seed}");
    }
}

#[test]
fn a_series_begins_when_its_ramp_is_over() {
    let plan = series().ramped(ramp(20.0, RampStrategy::Linear));
    let start = 5.0 * 0.1 / 20.0;
    let rate = |t: f64| {
        if t < 20.0 {
            start + (5.0 - start) * t / 20.0
        } else {
            rate_of_series(t - 20.0)
        }
    };
    assert_inverse_of(&plan, rate, 34.0);
}

#[test]
fn a_ramp_shorter_than_its_start_is_none() {
    for strategy in [RampStrategy::Linear, RampStrategy::Exponential, RampStrategy::Poisson] {
        for seconds in [1e-9, 0.05, 0.1] {
            let mut inverse = integral(&RatePlan::constant(8.0).ramped(ramp(seconds, strategy)));
            for k in 1..100 {
                let (time, expected) = (inverse.time_of(f64::from(k)), f64::from(k) / 8.0);
                assert!(
                    (time - expected).abs() < 1e-12,
                    "{strategy:?} {seconds}: {time} {expected}"
                );
            }
        }
    }
}

#[test]
fn joints_are_exact_from_both_sides() {
    for plan in [
        series(),
        series().ramped(ramp(3.0, RampStrategy::Linear)),
        series().ramped(ramp(3.0, RampStrategy::Exponential)),
        RatePlan::constant(1e6).ramped(ramp(3.0, RampStrategy::Poisson)),
    ] {
        let pieces = integral(&plan).pieces;
        for pair in pieces.windows(2) {
            let joint = pair[1].arrivals;
            let time_of = |piece: &Piece, arrivals| piece.start_s + piece.offset_of(arrivals, 0.0);
            assert_eq!(time_of(&pair[1], joint), pair[1].start_s);
            let before = time_of(&pair[0], joint.next_down());
            assert!(
                before <= pair[1].start_s,
                "{before} is beyond the joint {}",
                pair[1].start_s
            );
            let off = pair[1].start_s - time_of(&pair[0], joint);
            assert!((0.0..1e-12 * pair[1].start_s.max(1.0)).contains(&off), "off by {off}");
        }
    }
}

#[test]
fn times_never_go_back_by_more_than_the_last_bit() {
    for plan in [
        series(),
        RatePlan::constant(1e9).ramped(ramp(0.5, RampStrategy::Exponential)),
        RatePlan::constant(1e9).ramped(ramp(0.5, RampStrategy::Linear)),
        RatePlan::series(&[(0.0, 1e9), (1.0, 1e-9), (1e6, 1e9)]),
    ] {
        let mut inverse = integral(&plan);
        let (mut before, mut sum) = (0.0f64, 0.0);
        for index in 0..1_000_000u32 {
            sum += 1e-3 * f64::from(index % 7);
            let time = inverse.time_of(sum);
            assert!(time >= before * (1.0 - 1e-14), "{sum}: {before} then {time}");
            before = time;
        }
    }
}

#[test]
fn a_root_found_from_the_latest_one_is_the_root_of_the_closed_form() {
    let mut draws = Stream::new(3, "p", Purpose::Arrival);
    let mut refined = 0;
    // From ramps of a few arrivals, where the latest is far, to some of a billion.
    for (target, seconds) in [
        (3.0, 2.0),
        (30.0, 20.0),
        (1e4, 5.0),
        (1e6, 1.0),
        (1e9, 1_000.0),
        (1e9, 0.5),
    ] {
        let mut inverse = integral(&RatePlan::constant(target).ramped(ramp(seconds, RampStrategy::Exponential)));
        let piece = inverse.pieces[0];
        let Bend::Square { factor } = piece.bend else {
            panic!("the ramp is no square")
        };
        let mut sum = 0.0;
        for _ in 0..200_000 {
            // Now and then arrivals stay away for long.
            sum += draws.exponential() * if draws.uniform() < 1e-3 { 1e4 } else { 1.0 };
            if sum >= piece.integral(piece.length_s) {
                break;
            }
            refined += u32::from(piece.refined(factor, sum, inverse.latest).is_some());
            let (found, root) = (inverse.time_of(sum), piece.cubic_root(factor, sum));
            assert!(
                (found / root - 1.0).abs() < 1e-15,
                "{target} in {seconds} s: {sum} arrivals at {found} s instead of {root} s"
            );
        }
    }
    assert!(refined > 400_000, "the closed form answered all but {refined} times");
}

#[test]
fn extreme_series_give_times_all_the_same() {
    for plan in [
        RatePlan::series(&[(0.0, 1e9), (f64::MIN_POSITIVE, 1e-9), (1.0, 5.0)]),
        RatePlan::series(&[(1e300, 1.0), (f64::MAX, 1e9)]),
        RatePlan::series(&[(0.0, f64::MIN_POSITIVE), (1e-300, 1e9), (f64::MAX, 1.0)]),
        RatePlan::series(&[(5.0, 1.0), (5.000_000_000_000_001, 1e9)]),
    ] {
        let mut inverse = integral(&plan);
        for k in 0..10_000 {
            let time = inverse.time_of(f64::from(k));
            assert!(time >= 0.0, "{plan:?}: {k} arrivals at {time}");
        }
    }
}

#[test]
fn a_steep_ramp_keeps_its_precision() {
    // From 10^-9 of the target: formulas that subtract would be off by the size of the start.
    for strategy in [RampStrategy::Linear, RampStrategy::Exponential] {
        let mut inverse = integral(&RatePlan::constant(1e9).ramped(ramp(1e8, strategy)));
        for exponent in -20..17 {
            let sum = 10f64.powi(exponent);
            let back = inverse.time_of(sum);
            let sum_again = inverse.arrivals_by(back);
            assert!(
                (sum_again / sum - 1.0).abs() < 1e-12,
                "{strategy:?}: {sum} became {sum_again}"
            );
        }
    }
}
