//! Percentiles of a histogram of which only buckets are known.

/// A bucket of observations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Filled {
    /// Above this.
    pub(super) lower: f64,
    /// Up to this; infinite for the last one.
    pub(super) upper: f64,
    /// So many.
    pub(super) count: f64,
    /// Their mean, where it is known.
    pub(super) mean: Option<f64>,
}

impl Filled {
    /// Where the observations are taken to lie, evenly spread. With a known mean it is the widest range inside the bucket that has it; without
    /// one it is the whole bucket. The last bucket has no end: without a mean all of it lies at its beginning, which is the least it can be.
    fn range(self) -> (f64, f64) {
        match self.mean {
            Some(mean) if mean >= self.lower && mean <= self.upper => {
                let half = (mean - self.lower).min(self.upper - mean);
                (mean - half, mean + half)
            }
            _ if self.upper.is_finite() => (self.lower, self.upper),
            _ => (self.lower, self.lower),
        }
    }
}

/// The value below which `q` percent of the observations lie; `None` without any. Buckets are in ascending order.
pub(super) fn percentile(buckets: &[Filled], q: f64) -> Option<f64> {
    let total: f64 = buckets.iter().map(|bucket| bucket.count).sum();
    let wanted = q / 100.0 * total;
    let mut below = 0.0;
    let mut filled = buckets.iter().filter(|bucket| bucket.count > 0.0).peekable();
    while let Some(bucket) = filled.next() {
        if below + bucket.count >= wanted || filled.peek().is_none() {
            let (lower, upper) = bucket.range();
            let fraction = ((wanted - below) / bucket.count).clamp(0.0, 1.0);
            return Some(lower + (upper - lower) * fraction);
        }
        below += bucket.count;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bucket(lower: f64, upper: f64, count: f64, mean: Option<f64>) -> Filled {
        Filled {
            lower,
            upper,
            count,
            mean,
        }
    }

    #[test]
    fn without_means_a_percentile_is_where_a_line_through_the_bucket_puts_it() {
        let buckets = [bucket(0.0, 1.0, 50.0, None), bucket(1.0, 3.0, 50.0, None)];
        assert_eq!(percentile(&buckets, 25.0), Some(0.5));
        assert_eq!(percentile(&buckets, 50.0), Some(1.0));
        assert_eq!(percentile(&buckets, 75.0), Some(2.0));
        assert_eq!(percentile(&buckets, 100.0), Some(3.0));
    }

    #[test]
    fn a_known_mean_draws_the_percentiles_to_it() {
        let buckets = [bucket(0.1, 0.25, 10.0, Some(0.12))];
        let median = percentile(&buckets, 50.0).expect("observations");
        assert!((median - 0.12).abs() < 1e-12, "{median}");
        assert!(percentile(&buckets, 99.0).is_some_and(|p99| p99 < 0.14));
    }

    #[test]
    fn the_last_bucket_has_no_end() {
        let open = |mean| [bucket(0.0, 5.0, 1.0, None), bucket(5.0, f64::INFINITY, 9.0, mean)];
        assert_eq!(percentile(&open(None), 99.0), Some(5.0));
        assert_eq!(percentile(&open(Some(8.0)), 55.0), Some(8.0));
    }

    #[test]
    fn nothing_observed_has_no_percentile() {
        assert_eq!(percentile(&[bucket(0.0, 1.0, 0.0, None)], 50.0), None);
        assert_eq!(percentile(&[], 50.0), None);
    }

    proptest! {
        #[test]
        fn percentiles_rise_and_stay_inside(counts in prop::collection::vec((0u8..5, prop::option::of(0.0f64..1.0)), 1..8)) {
            let buckets: Vec<Filled> = counts
                .iter()
                .enumerate()
                .map(|(at, &(count, part))| {
                    let lower = at as f64;
                    bucket(lower, lower + 1.0, f64::from(count), part.map(|part| lower + part))
                })
                .collect();
            let values: Vec<f64> = (0..=100).filter_map(|q| percentile(&buckets, f64::from(q))).collect();
            prop_assert!(values.windows(2).all(|pair| pair[0] <= pair[1]), "{:?}", values);
            prop_assert!(values.iter().all(|&value| value >= 0.0 && value <= buckets.len() as f64));
        }
    }
}
