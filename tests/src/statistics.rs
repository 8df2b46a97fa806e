//! Statistics written down a second time, from their definitions and without a look at the engine's.

/// Arithmetic mean.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Population standard deviation.
pub fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

/// Percentile with linear interpolation between the closest ranks (Hyndman and Fan's type 7, the default of numpy).
///
/// # Panics
/// Without values.
pub fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() - 1) as f64 * percent / 100.0;
    let (low, high) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
    low + (high - low) * rank.fract()
}

/// Most intervals open at any one time. An interval that ends when another starts is over.
pub fn most_open(intervals: &[(u64, u64)]) -> usize {
    changes(intervals).iter().map(|&(_, open)| open).max().unwrap_or(0)
}

/// The mean number of open intervals between two instants.
pub fn mean_open(intervals: &[(u64, u64)], from: u64, to: u64) -> f64 {
    let covered: u64 = intervals
        .iter()
        .map(|&(start, end)| end.min(to).saturating_sub(start.max(from)))
        .sum();
    covered as f64 / (to - from) as f64
}

/// Instants at which the number of open intervals changes, with the number from then on.
pub fn changes(intervals: &[(u64, u64)]) -> Vec<(u64, usize)> {
    let mut edges: Vec<(u64, i32)> = intervals
        .iter()
        .flat_map(|&(start, end)| [(start, 1), (end, -1)])
        .collect();
    // At one instant ends come before starts: -1 sorts before 1.
    edges.sort_unstable();
    let mut open = 0i32;
    let mut changes: Vec<(u64, usize)> = Vec::with_capacity(edges.len());
    for (at, step) in edges {
        open += step;
        changes.push((at, usize::try_from(open).unwrap_or(0)));
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_agree_with_numpy() {
        let values: Vec<f64> = (0..20).map(f64::from).collect();
        assert_eq!(percentile(&values, 50.0), 9.5);
        assert!((percentile(&values, 99.0) - 18.81).abs() < 1e-12);
        assert_eq!(percentile(&[30.0, 10.0, 20.0], 25.0), 15.0);
        assert_eq!(percentile(&[7.0], 1.0), 7.0);
    }

    #[test]
    fn open_intervals_are_counted_at_their_edges() {
        let intervals = [(0, 10), (10, 20), (5, 15), (30, 40)];
        assert_eq!(most_open(&intervals), 2);
        assert_eq!(mean_open(&intervals, 0, 20), 1.5);
        assert_eq!(most_open(&[]), 0);
    }
}
