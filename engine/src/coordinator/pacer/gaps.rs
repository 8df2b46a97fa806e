//! Gaps between arrivals in units of the mean gap: draws with mean 1, and their sum.

use super::super::stream::Stream;
use crate::plan::Gaps;

/// The arrivals of a process with mean gap 1, one after the other.
#[derive(Debug, Clone)]
pub(super) struct UnitArrivals {
    gaps: Source,
    sum: CompensatedSum,
}

#[derive(Debug, Clone)]
enum Source {
    Even { count: u64 },
    Exponential(Stream),
    Gamma(Gamma),
}

impl UnitArrivals {
    /// The process whose gaps have this distribution.
    pub(super) fn new(gaps: Gaps, draws: Stream) -> Self {
        Self {
            gaps: match gaps {
                Gaps::Even => Source::Even { count: 0 },
                Gaps::Exponential => Source::Exponential(draws),
                Gaps::Gamma { shape } => Source::Gamma(Gamma::new(shape, draws)),
            },
            sum: CompensatedSum::default(),
        }
    }

    /// When the next one arrives.
    pub(super) fn next(&mut self) -> f64 {
        let gap = match &mut self.gaps {
            Source::Even { count } => {
                *count += 1;
                return *count as f64;
            }
            Source::Exponential(draws) => draws.exponential(),
            Source::Gamma(gamma) => gamma.draw(),
        };
        self.sum.add(gap);
        self.sum.value()
    }
}

/// Gamma-distributed draws with mean 1.
///
/// Marsaglia and Tsang, A simple method for generating gamma variables, ACM TOMS 26 (2000): a squeezed rejection of a cubed normal draw for
/// shapes of at least 1. A smaller shape takes a draw of the shape above by one, times a uniform draw to the power of `1 / shape` (their
/// section 6).
#[derive(Debug, Clone)]
struct Gamma {
    draws: Stream,
    shape: f64,
    /// Their d and c, for the shape or the one above it.
    d: f64,
    c: f64,
    /// The second normal draw of a pair.
    spare: Option<f64>,
}

impl Gamma {
    fn new(shape: f64, draws: Stream) -> Self {
        let d = if shape < 1.0 { shape + 1.0 } else { shape } - 1.0 / 3.0;
        Self {
            draws,
            shape,
            d,
            c: 1.0 / (9.0 * d).sqrt(),
            spare: None,
        }
    }

    fn draw(&mut self) -> f64 {
        let cube = self.cube();
        // The mean of a draw is its shape, and so the draw is divided by it.
        let draw = self.d / self.shape * cube;
        if self.shape < 1.0 {
            // 1 - u lies in (0, 1]: a power of zero would be a draw that the distribution cannot have.
            draw * (1.0 - self.draws.uniform()).powf(1.0 / self.shape)
        } else {
            draw
        }
    }

    /// Their v: the draw in units of d.
    fn cube(&mut self) -> f64 {
        loop {
            let x = self.normal();
            let base = 1.0 + self.c * x;
            if base <= 0.0 {
                continue;
            }
            let v = base * base * base;
            let u = 1.0 - self.draws.uniform();
            let square = x * x;
            if u < 1.0 - 0.0331 * square * square || u.ln() < 0.5 * square + self.d * (1.0 - v + v.ln()) {
                return v;
            }
        }
    }

    /// A standard normal draw by the polar method (Marsaglia and Bray, SIAM Review 6, 1964), which gives two at a time.
    fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let x = 2.0 * self.draws.uniform() - 1.0;
            let y = 2.0 * self.draws.uniform() - 1.0;
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let factor = (-2.0 * square.ln() / square).sqrt();
                self.spare = Some(y * factor);
                return x * factor;
            }
        }
    }
}

/// A sum whose rounding error does not grow with the number of terms (Neumaier 1974). After 10^9 gaps a plain f64 sum may be off by
/// microseconds, the size of the lags that are measured against it.
#[derive(Debug, Clone, Default)]
struct CompensatedSum {
    sum: f64,
    correction: f64,
}

impl CompensatedSum {
    fn add(&mut self, term: f64) {
        let sum = self.sum + term;
        self.correction += if self.sum >= term {
            (self.sum - sum) + term
        } else {
            (term - sum) + self.sum
        };
        self.sum = sum;
    }

    fn value(&self) -> f64 {
        self.sum + self.correction
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::stream::Purpose;
    use super::*;

    #[test]
    fn sums_of_gaps_do_not_drift() {
        // A plain sum of 10^7 terms of 0.1 is off by about 2e-4.
        let mut sum = CompensatedSum::default();
        for _ in 0..10_000_000 {
            sum.add(0.1);
        }
        assert!((sum.value() - 1e6).abs() < 1e-9, "{}", sum.value());
    }

    #[test]
    fn gamma_draws_have_the_moments_of_their_shape() {
        for shape in [0.05, 0.25, 0.5, 1.0, 1.5, 4.0, 100.0, 1e6] {
            let mut gamma = Gamma::new(shape, Stream::new(1, "p", Purpose::Arrival));
            let count = 400_000;
            let draws: Vec<f64> = (0..count).map(|_| gamma.draw()).collect();
            let count = f64::from(count);
            let mean = draws.iter().sum::<f64>() / count;
            let variance = draws.iter().map(|draw| (draw - 1.0).powi(2)).sum::<f64>() / count;
            // The variance is 1 / shape; the fourth central moment of the unit-mean draw is 3 / shape^2 + 6 / shape^3.
            let (mean_error, variance_error) = (
                (1.0 / (shape * count)).sqrt(),
                ((2.0 / shape.powi(2) + 6.0 / shape.powi(3)) / count).sqrt(),
            );
            assert!((mean - 1.0).abs() < 4.0 * mean_error, "shape {shape}: mean {mean}");
            assert!(
                (variance - 1.0 / shape).abs() < 4.0 * variance_error,
                "shape {shape}: variance {variance}"
            );
        }
    }

    #[test]
    fn extreme_shapes_give_draws_that_time_can_bear() {
        for shape in [0.001, 1e9, 1e300, f64::MAX] {
            let mut gamma = Gamma::new(shape, Stream::new(1, "p", Purpose::Arrival));
            for _ in 0..100_000 {
                let draw = gamma.draw();
                assert!(draw >= 0.0 && draw.is_finite(), "shape {shape}: {draw}");
            }
        }
    }
}
