//! Quantiles of small samples, kept whole.

/// A sample in order.
#[derive(Debug, Clone)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// Sorts the values; those that are no numbers are refused.
    ///
    /// # Panics
    /// If a value is NaN.
    pub fn new(mut values: Vec<f64>) -> Self {
        assert!(!values.iter().any(|value| value.is_nan()), "a sample holds numbers");
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// The number of values.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The smallest value such that at least the fraction `q` of all values is not above it (nearest rank). Not interpolated: each quantile
    /// is something that was measured.
    ///
    /// # Panics
    /// If the sample is empty.
    pub fn at(&self, q: f64) -> f64 {
        let rank = (q * self.0.len() as f64).ceil() as usize;
        self.0[rank.clamp(1, self.0.len()) - 1]
    }

    /// `n` values with median, 99th percentile, smallest and largest, in one line.
    ///
    /// # Panics
    /// If the sample is empty.
    pub fn line(&self, unit: &str) -> String {
        format!(
            "p50 {:.3} {unit}, p99 {:.3} {unit}, min {:.3}, max {:.3} (n = {})",
            self.at(0.5),
            self.at(0.99),
            self.at(0.0),
            self.at(1.0),
            self.count()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_ranks() {
        let sample = Sample::new((1..=100).rev().map(f64::from).collect());
        assert_eq!(
            (sample.at(0.0), sample.at(0.5), sample.at(0.99), sample.at(1.0)),
            (1.0, 50.0, 99.0, 100.0)
        );
        let five = Sample::new(vec![5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!((five.at(0.5), five.at(0.99)), (3.0, 5.0));
    }
}
