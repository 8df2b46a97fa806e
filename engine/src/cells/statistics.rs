//! Figures over several runs: mean, spread, and the interval that the true mean lies in.

use std::f64::consts::PI;

/// One figure over the runs that have it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) mean: f64,
    /// Sample standard deviation (n - 1); 0 for a single run.
    pub(super) std: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    /// Standard error of the mean.
    pub(super) se: f64,
    /// Ends of the confidence interval; the mean itself for a single run.
    pub(super) ci: (f64, f64),
    /// The quantile of Student's t behind the interval; `None` for a single run.
    pub(super) t_critical: Option<f64>,
}

impl Spread {
    /// Over at least one figure, at a confidence between 0 and 1.
    pub(super) fn of(figures: &[f64], confidence: f64) -> Self {
        let n = figures.len() as f64;
        let mean = figures.iter().sum::<f64>() / n;
        let (min, max) = figures
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), &x| {
                (min.min(x), max.max(x))
            });
        if figures.len() < 2 {
            return Self {
                mean,
                std: 0.0,
                min,
                max,
                se: 0.0,
                ci: (mean, mean),
                t_critical: None,
            };
        }
        let squares: f64 = figures.iter().map(|x| (x - mean).powi(2)).sum();
        let std = (squares / (n - 1.0)).sqrt();
        let se = std / n.sqrt();
        let t = t_quantile(figures.len() - 1, confidence);
        Self {
            mean,
            std,
            min,
            max,
            se,
            ci: (mean - t * se, mean + t * se),
            t_critical: Some(t),
        }
    }

    /// Standard deviation over mean; `None` around a mean of zero.
    pub(super) fn cv(&self) -> Option<f64> {
        (self.mean != 0.0).then(|| self.std / self.mean)
    }
}

/// The t with `P(|T| <= t) = confidence` for Student's distribution with `df` degrees of freedom, by bisection.
fn t_quantile(df: usize, confidence: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while within(df, high) < confidence && high < 1e15 {
        low = high;
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if within(df, middle) < confidence {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// `P(|T| <= t)` for `df` degrees of freedom: the finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4.
fn within(df: usize, t: f64) -> f64 {
    let nu = df as f64;
    let theta = (t / nu.sqrt()).atan();
    let (sin, cos) = theta.sin_cos();
    let cos2 = cos * cos;
    if df.is_multiple_of(2) {
        let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
        while k < nu / 2.0 {
            term *= cos2 * (2.0 * k - 1.0) / (2.0 * k);
            sum += term;
            k += 1.0;
        }
        return sin * sum;
    }
    if df == 1 {
        return 2.0 * theta / PI;
    }
    let (mut term, mut sum, mut k) = (cos, cos, 1.0);
    while k < (nu - 1.0) / 2.0 {
        term *= cos2 * (2.0 * k) / (2.0 * k + 1.0);
        sum += term;
        k += 1.0;
    }
    2.0 / PI * (theta + sin * sum)
}

/// Pairs of values up to which the p-value is counted out; it is as close as makes no difference beyond.
const PAIRS_MAX: usize = 10_000_000;

/// The two-sided p-value of the test of Smirnov: how likely two samples of one distribution are as far apart as these, or further. Both at least one value,
/// all finite; they are sorted here.
pub(super) fn smirnov_p_value(a: &mut [f64], b: &mut [f64]) -> f64 {
    a.sort_unstable_by(f64::total_cmp);
    b.sort_unstable_by(f64::total_cmp);
    // The largest distance between the distribution functions, as a multiple of 1 / (m n) so that nothing is rounded.
    let (m, n) = (a.len() as u64, b.len() as u64);
    let (mut i, mut j, mut distance) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        let value = a[i].min(b[j]);
        i += a[i..].iter().take_while(|&&x| x <= value).count();
        j += b[j..].iter().take_while(|&&x| x <= value).count();
        distance = distance.max((i as u64 * n).abs_diff(j as u64 * m));
    }
    if a.len().saturating_mul(b.len()) <= PAIRS_MAX {
        beyond(m, n, distance)
    } else {
        beyond_in_the_limit(m as f64, n as f64, distance as f64 / (m * n) as f64)
    }
}

/// `P(D >= distance / (m n))`, where all orders of `m + n` values are equally likely: an order is a walk from (0, 0) to (m, n) in steps to the right and
/// up, and one minus the share of walks that stay closer to the diagonal than that is the answer (Hodges 1958).
fn beyond(m: u64, n: u64, distance: u64) -> f64 {
    if distance == 0 {
        return 1.0;
    }
    let is_inside = |i: u64, j: u64| (i * n).abs_diff(j * m) < distance;
    // How likely a walk comes to (i, j) and was inside all the way, for one i after the other.
    let mut column = vec![0.0; n as usize + 1];
    for i in 0..=m {
        for j in 0..=n {
            let left = (m + n - i - j + 1) as f64;
            let from_the_left = match i {
                0 => 0.0,
                i => column[j as usize] * (m - i + 1) as f64 / left,
            };
            let from_below = match j {
                0 => 0.0,
                j => column[j as usize - 1] * (n - j + 1) as f64 / left,
            };
            column[j as usize] = match (i, j) {
                (0, 0) => 1.0,
                _ if is_inside(i, j) => from_the_left + from_below,
                _ => 0.0,
            };
        }
    }
    (1.0 - column[n as usize]).clamp(0.0, 1.0)
}

/// The same by the distribution of Kolmogorov, with the correction of Stephens (1970) for samples that are not endless.
fn beyond_in_the_limit(m: f64, n: f64, distance: f64) -> f64 {
    let size = (m * n / (m + n)).sqrt();
    let lambda = (size + 0.12 + 0.11 / size) * distance;
    // Below this the series is one to seven digits, and it converges slowly.
    if lambda < 0.3 {
        return 1.0;
    }
    let term = |k: i32| {
        let sign = if k % 2 == 1 { 2.0 } else { -2.0 };
        sign * (-2.0 * f64::from(k * k) * lambda * lambda).exp()
    };
    (1..=20).map(term).sum::<f64>().clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_p_value_is_the_share_of_orders_that_are_as_far_apart() {
        // Counted out over all ways to deal the values.
        for (a, b, p) in [
            (&[1.0, 2.0, 3.0][..], &[4.0, 5.0, 6.0][..], 0.1),
            (&[1.0, 2.0, 3.0, 1.0, 2.0, 3.0], &[6.0, 5.0, 4.0], 2.0 / 84.0),
            (
                &[1.0, 2.0, 5.0, 8.0, 9.0],
                &[3.0, 4.0, 6.0, 7.0, 10.0, 11.0, 12.0],
                0.545_454_545_454_545_4,
            ),
            (
                &[1.0, 4.0, 5.0, 9.0, 10.0, 12.0, 13.0, 14.0],
                &[2.0, 3.0, 6.0, 7.0, 8.0, 11.0],
                0.376_290_376_290_376_3,
            ),
            (&[5.0, 5.0], &[5.0], 1.0),
        ] {
            for (a, b) in [(a, b), (b, a)] {
                let found = smirnov_p_value(&mut a.to_vec(), &mut b.to_vec());
                assert!((found - p).abs() < 1e-12, "{a:?} {b:?}: {found}, not {p}");
            }
        }
    }

    #[test]
    fn the_limit_is_close_to_what_is_counted_out() {
        for (m, n, distance) in [(500, 400, 0.05), (500, 400, 0.09), (500, 400, 0.15), (3000, 1000, 0.01)] {
            let counted = beyond(m, n, (distance * (m * n) as f64) as u64);
            let limit = beyond_in_the_limit(m as f64, n as f64, distance);
            assert!(
                (counted - limit).abs() < 0.02,
                "{m} {n} {distance}: {counted} and {limit}"
            );
        }
        let (mut a, mut b): (Vec<f64>, Vec<f64>) =
            ((0..8000).map(f64::from).collect(), (0..8000).map(f64::from).collect());
        assert_eq!(smirnov_p_value(&mut a, &mut b), 1.0);
        b.iter_mut().for_each(|value| *value += 1000.0);
        assert!(smirnov_p_value(&mut a, &mut b) < 1e-9);
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (df, confidence, t) in [
            (1, 0.95, 12.706_204_736),
            (2, 0.95, 4.302_652_730),
            (3, 0.95, 3.182_446_305),
            (4, 0.95, 2.776_445_105),
            (9, 0.95, 2.262_157_163),
            (1, 0.9, 6.313_751_515),
            (5, 0.99, 4.032_142_984),
            (8, 0.99, 3.355_387_331),
        ] {
            let found = t_quantile(df, confidence);
            assert!((found - t).abs() < 1e-8 * t, "{df} {confidence}: {found}, not {t}");
        }
        assert!(t_quantile(1, 0.999_999_999).is_finite());
    }

    #[test]
    fn two_runs_give_the_interval_of_the_textbook() {
        // The latencies of a pair of runs and what another tool made of them.
        let spread = Spread::of(&[61.573_500_041_666_66, 62.758_218_708_333_33], 0.95);
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9 * b.abs();
        assert!(close(spread.mean, 62.165_859_375) && close(spread.std, 0.837_722_602_998_286_5));
        assert!(close(spread.se, 0.592_359_333_333_334_3) && close(spread.cv().unwrap(), 0.013_475_605_604_435_297));
        assert!(close(spread.ci.0, 54.639_220_408_282_696) && close(spread.ci.1, 69.692_498_341_717_3));
    }

    #[test]
    fn one_run_has_no_spread_and_zero_no_relative_one() {
        let one = Spread::of(&[5.0], 0.95);
        assert_eq!((one.std, one.se, one.ci, one.t_critical), (0.0, 0.0, (5.0, 5.0), None));
        assert_eq!(Spread::of(&[0.0, 0.0], 0.95).cv(), None);
    }
}
