//! Schedules against the distributions that they are drawn from: counts within three standard deviations, Kolmogorov-Smirnov tests of the gaps at
//! the level of 0.1 %, no correlation of neighbours. Seeds are fixed, so a test that passes passes always.

use std::num::NonZeroU32;

use super::{ImageCursor, Pacer};
use crate::coordinator::simulation::{ms, profiling};
use crate::plan::{Arrival, Gaps, PhasePlan, RampPlan, RampStrategy, RatePlan};
use crate::units::Nanos;

fn times_of(plan: &PhasePlan, seed: u64) -> Vec<Nanos> {
    let cursor = ImageCursor::new(NonZeroU32::new(10).expect("not zero"));
    Pacer::new(plan, seed, cursor).map(|credit| credit.intended).collect()
}

fn times(arrival: Arrival, seconds: f64, seed: u64) -> Vec<Nanos> {
    let plan = profiling("p").arriving(arrival).lasting(Nanos::from_secs_f64(seconds));
    times_of(&plan, seed)
}

/// Gaps in units of the mean gap: differences of the integrated rate between arrivals, the first since the start.
fn unit_gaps(times: &[Nanos], integral: impl Fn(f64) -> f64) -> Vec<f64> {
    let sums: Vec<f64> = std::iter::once(0.0)
        .chain(times.iter().map(|time| integral(time.as_secs_f64())))
        .collect();
    sums.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// Kolmogorov-Smirnov distance between a sample and a distribution function, where each value may be off by `blur`: the clock counts whole
/// nanoseconds, and most gaps of a bursty process are shorter.
fn distance(sample: &[f64], blur: f64, distribution: impl Fn(f64) -> f64) -> f64 {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let at = |(index, &value): (usize, &f64)| {
        let too_few = distribution(value - blur) - index as f64 / count;
        let too_many = (index + 1) as f64 / count - distribution(value + blur);
        too_few.max(too_many)
    };
    sorted.iter().enumerate().map(at).fold(0.0, f64::max)
}

/// Asserts that the gaps have that distribution and that neighbours do not correlate.
fn assert_drawn_from(gaps: &[f64], rate: f64, distribution: impl Fn(f64) -> f64, what: &str) {
    let count = gaps.len() as f64;
    // Both ends of a gap are rounded to a nanosecond.
    let (distance, critical) = (distance(gaps, 1e-9 * rate, &distribution), 1.949 / count.sqrt());
    assert!(distance < critical, "{what}: distance {distance}, critical {critical}");
    // Of the ranks, as it were: gaps of bursty processes have tails in which a few decide over any correlation of their own.
    let ranks: Vec<f64> = gaps.iter().map(|&gap| distribution(gap)).collect();
    let mean = ranks.iter().sum::<f64>() / count;
    let product: f64 = ranks.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    let correlation = product / ranks.iter().map(|rank| (rank - mean).powi(2)).sum::<f64>();
    assert!(
        correlation.abs() < 4.0 / count.sqrt(),
        "{what}: neighbours correlate by {correlation}"
    );
}

/// `variance` is that of a gap; counts may be off by so many standard deviations.
fn assert_count(count: usize, expected: f64, variance: f64, deviations: f64, what: &str) {
    let off = (count as f64 - expected).abs();
    assert!(
        off <= deviations * (expected * variance).sqrt() + 1.0 + 1e-9 * expected,
        "{what}: {count} arrivals instead of {expected}"
    );
}

fn exponential(x: f64) -> f64 {
    -(-x).exp_m1()
}

/// Distribution function of the gamma distribution with mean 1: the regularised lower incomplete gamma function, by its power series (DLMF
/// 8.7.1) and, in the upper tail, by its continued fraction (DLMF 8.9.2).
fn gamma(shape: f64) -> impl Fn(f64) -> f64 {
    move |gap| {
        let x = gap * shape;
        if x <= 0.0 {
            return 0.0;
        }
        let front = (shape * x.ln() - x - ln_gamma(shape)).exp();
        if x < shape + 1.0 {
            let (mut term, mut sum, mut at) = (1.0 / shape, 1.0 / shape, shape);
            while term > sum * 1e-16 {
                at += 1.0;
                term *= x / at;
                sum += term;
            }
            return front * sum;
        }
        // Lentz's algorithm.
        let mut b = x + 1.0 - shape;
        let mut c = 1e300;
        let mut d = 1.0 / b;
        let mut fraction = d;
        for n in 1..10_000 {
            let a = -f64::from(n) * (f64::from(n) - shape);
            b += 2.0;
            d = 1.0 / (a * d + b);
            c = b + a / c;
            fraction *= c * d;
            if (c * d - 1.0).abs() < 1e-15 {
                break;
            }
        }
        1.0 - front * fraction
    }
}

/// Logarithm of the gamma function: Stirling's series (DLMF 5.11.1) after the argument has been raised to where four terms suffice.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 15.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5)) - 1.0 / (1680.0 * x.powi(7));
    shift + (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series
}

#[test]
fn the_reference_distribution_has_its_known_values() {
    for x in [0.01, 0.3, 1.0, 2.0, 9.0] {
        assert!((gamma(1.0)(x) - exponential(x)).abs() < 1e-13, "{x}");
        // Shape 2, mean 1: 1 - (1 + 2x) exp(-2x).
        let erlang = 1.0 - (1.0 + 2.0 * x) * (-2.0 * x).exp();
        assert!((gamma(2.0)(x) - erlang).abs() < 1e-13, "{x}");
    }
    // Shape 1/2, mean 1: the square of a normal draw; P(|z| < 1) and P(|z| < 2).
    assert!((gamma(0.5)(1.0) - 0.682_689_492_137_086).abs() < 1e-12);
    assert!((gamma(0.5)(4.0) - 0.954_499_736_103_642).abs() < 1e-12);
}

#[test]
fn s51_even_arrivals_of_50_a_second_are_199_in_4_seconds() {
    let times = times(Arrival::constant(50.0), 4.0, 1);
    assert_eq!((times.len(), times[0], times[198]), (199, ms(20), ms(3_980)));
    assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) == ms(20)));
}

#[test]
fn s52_s53_poisson_counts_and_gaps_have_their_distribution() {
    for (rate, seconds) in [(200.0, 30.0), (20_000.0, 10.0)] {
        for seed in 1..=5 {
            let what = format!("seed {seed} at {rate}/s");
            let times = times(Arrival::poisson(rate), seconds, seed);
            assert_count(times.len(), rate * seconds, 1.0, 3.0, &what);
            assert_drawn_from(&unit_gaps(&times, |t| rate * t), rate, exponential, &what);
        }
    }
}

#[test]
fn s52_s53_gamma_counts_and_gaps_have_their_distribution() {
    for shape in [4.0, 0.25, 1.0, 37.5, 0.02] {
        for (rate, seconds) in [(200.0, 30.0), (20_000.0, 10.0)] {
            for seed in 1..=3 {
                let what = format!("seed {seed}, shape {shape} at {rate}/s");
                let times = times(Arrival::gamma(rate, shape), seconds, seed);
                assert_count(times.len(), rate * seconds, 1.0 / shape, 3.0, &what);
                let gaps = unit_gaps(&times, |t| rate * t);
                assert_drawn_from(&gaps, rate, gamma(shape), &what);
                let count = gaps.len() as f64;
                let mean = gaps.iter().sum::<f64>() / count;
                let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count;
                let coefficient = variance.sqrt() / mean;
                let expected = 1.0 / shape.sqrt();
                let tolerance = 5.0 * expected * ((0.5 + 1.5 / shape) / count).sqrt();
                assert!(
                    (coefficient - expected).abs() < tolerance,
                    "{what}: coefficient of variation {coefficient} instead of {expected}"
                );
            }
        }
    }
}

#[test]
fn the_distribution_test_can_fail() {
    let even = unit_gaps(&times(Arrival::constant(200.0), 30.0, 1), |t| 200.0 * t);
    assert!(distance(&even, 0.0, exponential) > 0.3);
    let poisson = unit_gaps(&times(Arrival::poisson(200.0), 30.0, 1), |t| 200.0 * t);
    assert!(distance(&poisson, 0.0, gamma(0.8)) > 1.949 / (poisson.len() as f64).sqrt());
    assert!(distance(&poisson, 0.0, gamma(1.2)) > 1.949 / (poisson.len() as f64).sqrt());
}

/// A course of the rate with its integral, written down apart from the engine's.
struct Course {
    name: &'static str,
    plan: RatePlan,
    integral: fn(f64) -> f64,
}

fn courses(scale: f64) -> [Course; 4] {
    let seconds = |seconds| Nanos::from_secs(seconds);
    let ramp = |duration, strategy| RampPlan { duration, strategy };
    // All at a scale of 1; callers multiply.
    [
        Course {
            name: "1 to 3 over 25 s",
            plan: RatePlan::series(&[(0.0, scale), (25.0, 3.0 * scale)]),
            integral: |t| {
                let inside = t.min(25.0);
                inside + inside * inside / 25.0 + 3.0 * (t - inside)
            },
        },
        Course {
            name: "2, down to 0.5, and up again",
            plan: RatePlan::series(&[(5.0, 2.0 * scale), (15.0, 0.5 * scale), (20.0, 4.0 * scale)]),
            integral: |t| {
                let down = (t.min(15.0) - 5.0).max(0.0);
                let up = (t.min(20.0) - 15.0).max(0.0);
                2.0 * t.min(5.0) + 2.0 * down - 0.075 * down * down
                    + 0.5 * up
                    + 0.35 * up * up
                    + 4.0 * (t - 20.0).max(0.0)
            },
        },
        Course {
            name: "linear ramp to 3 over 20 s",
            plan: RatePlan::constant(3.0 * scale).ramped(ramp(seconds(20), RampStrategy::Linear)),
            integral: |t| {
                let inside = t.min(20.0);
                0.015 * inside + 0.5 * (3.0 - 0.015) / 20.0 * inside * inside + 3.0 * (t - inside)
            },
        },
        Course {
            name: "exponential ramp to 3 over 20 s",
            plan: RatePlan::constant(3.0 * scale).ramped(ramp(seconds(20), RampStrategy::Exponential)),
            integral: |t| {
                let inside = t.min(20.0);
                0.015 * inside + (3.0 - 0.015) / 3.0 * inside.powi(3) / 400.0 + 3.0 * (t - inside)
            },
        },
    ]
}

#[test]
fn counts_follow_the_integral_of_any_course_of_the_rate() {
    for scale in [1.0, 5.0, 50.0, 5_000.0] {
        for course in courses(scale) {
            for until in [3.0, 12.5, 19.0, 25.0, 31.0] {
                let expected = scale * (course.integral)(until);
                for (gaps, variance) in [
                    (Gaps::Even, 0.0),
                    (Gaps::Exponential, 1.0),
                    (Gaps::Gamma { shape: 4.0 }, 0.25),
                    (Gaps::Gamma { shape: 0.25 }, 4.0),
                ] {
                    // Hundreds of thousands of arrivals tell enough at once.
                    for seed in 1..=if scale > 1_000.0 { 1 } else { 3 } {
                        let rate = course.plan.clone();
                        let count = times(Arrival::AtRate { gaps, rate }, until, seed).len();
                        let what = format!("{} by {until} s, scale {scale}, {gaps:?}, seed {seed}", course.name);
                        // The count of bursty arrivals starts above its mean, by half of what the variance exceeds that of the exponential.
                        let offset = (variance - 1.0f64).max(0.0) / 2.0;
                        // Hundreds of counts: at three deviations one or two would be off by chance.
                        assert_count(count, expected + offset, variance, 4.0, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn from_1_to_3_a_second_in_25_seconds_is_50_and_not_115() {
    let rate = RatePlan::series(&[(0.0, 1.0), (25.0, 3.0)]);
    let counts: Vec<usize> = (0..400)
        .map(|seed| times(Arrival::poisson(1.0).at(rate.clone()), 25.0, seed).len())
        .collect();
    let mean = counts.iter().sum::<usize>() as f64 / 400.0;
    // A count has a standard deviation of sqrt(50), their mean a twentieth of that.
    assert!((mean - 50.0).abs() < 3.0 * 50f64.sqrt() / 20.0, "{mean}");
    let even = times(Arrival::constant(1.0).at(rate), 25.0, 1);
    assert_eq!(even.len(), 49, "the fiftieth is due at 25 s, which is the end");
}

#[test]
fn gaps_keep_their_distribution_while_the_rate_moves() {
    for course in courses(1_000.0) {
        let integral = |t| 1_000.0 * (course.integral)(t);
        let rate = course.plan.clone();
        let poisson = times(Arrival::poisson(1.0).at(rate.clone()), 30.0, 4);
        assert_drawn_from(&unit_gaps(&poisson, integral), 4_000.0, exponential, course.name);
        let gamma_times = times(Arrival::gamma(1.0, 4.0).at(rate), 30.0, 4);
        assert_drawn_from(&unit_gaps(&gamma_times, integral), 4_000.0, gamma(4.0), course.name);
    }
}

#[test]
fn the_course_of_the_rate_changes_no_draw() {
    let flat = unit_gaps(&times(Arrival::poisson(1_000.0), 20.0, 9), |t| 1_000.0 * t);
    for course in courses(1_000.0) {
        let moved = times(Arrival::poisson(1.0).at(course.plan), 20.0, 9);
        let moved = unit_gaps(&moved, |t| 1_000.0 * (course.integral)(t));
        assert!(moved.len() > 5_000);
        for (index, (flat, moved)) in flat.iter().zip(&moved).enumerate() {
            // A nanosecond at up to 4,000 arrivals per second.
            assert!(
                (flat - moved).abs() < 1e-5,
                "{}: gap {index}: {flat} {moved}",
                course.name
            );
        }
    }
}

#[test]
fn a_drawn_ramp_gives_as_many_arrivals_as_its_steps_hold() {
    // Each step lasts as long as a gap of the steps' process, so on average the rate is the linear one; over seeds the mean of the counts is that of
    // the linear ramp.
    let ramp = RampPlan {
        duration: Nanos::from_secs(20),
        strategy: RampStrategy::Poisson,
    };
    let plan = RatePlan::constant(100.0).ramped(ramp);
    let counts: Vec<f64> = (0..400)
        .map(|seed| times(Arrival::constant(1.0).at(plan.clone()), 20.0, seed).len() as f64)
        .collect();
    let mean = counts.iter().sum::<f64>() / 400.0;
    let deviation = (counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 400.0).sqrt();
    let linear = 20.0 * (0.5 + 100.0) / 2.0;
    assert!(
        (mean - linear).abs() < 3.0 * deviation / 20.0 + 6.0,
        "{mean} instead of {linear}"
    );
    assert!(deviation > 1.0, "drawn steps differ from seed to seed");
}

#[test]
fn overdue_arrivals_are_counted_and_beyond_a_bound_estimated() {
    let pacer = |plan: &PhasePlan| Pacer::new(plan, 3, ImageCursor::new(NonZeroU32::new(10).expect("not zero")));
    let plan = profiling("p").arriving(Arrival::poisson(1_000.0)).lasting(ms(10_000));
    let all = times_of(&plan, 3);
    let mut overdue = pacer(&plan);
    let issued = overdue.by_ref().take(100).count() as u64;
    let due = all.iter().filter(|&&time| time <= ms(4_000)).count() as u64;
    assert_eq!(overdue.take_overdue(ms(4_000)), due - issued);
    assert_eq!(overdue.take_overdue(ms(4_000)), 0, "they are taken once");
    assert_eq!(
        overdue.take_overdue(Nanos::MAX),
        all.len() as u64 - due,
        "none after the end"
    );
    // 10^9 a second for an hour: more than anyone can count.
    let flood = profiling("p")
        .arriving(Arrival::constant(1e9))
        .lasting(Nanos::from_secs(3_600));
    assert_eq!(
        pacer(&flood).take_overdue(Nanos::from_secs(3_600)),
        3_599_999_999_999,
        "the last one would be due at the end"
    );
    assert_eq!(
        pacer(&flood.requests(20_000_000)).take_overdue(Nanos::from_secs(3_600)),
        20_000_000
    );
    assert_eq!(
        pacer(&profiling("p").requests(5)).take_overdue(Nanos::ZERO),
        5,
        "a closed loop"
    );
}
