//! Several things, each with its share of the draws.

use rand_xoshiro::Xoshiro256PlusPlus;

use super::distribution::uniform;

/// Things to draw from by weight, in the order in which they were given. Those without weight are left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Shares<X> {
    /// Each with the sum of the weights up to it, itself included. The sums never fall.
    items: Box<[(f64, X)]>,
}

impl<X> Shares<X> {
    /// Shares of things with weights, which may sum up to anything.
    ///
    /// # Panics
    /// If a weight is negative or not finite, or all are 0.
    pub fn new(items: impl IntoIterator<Item = (f64, X)>) -> Self {
        let mut items: Vec<(f64, X)> = items.into_iter().filter(|(weight, _)| *weight != 0.0).collect();
        let heaviest = items
            .iter()
            .fold(0.0, |heaviest, (weight, _)| f64::max(heaviest, *weight));
        let mut sum = 0.0;
        for (weight, _) in &mut items {
            assert!(
                weight.is_finite() && *weight > 0.0,
                "{weight} is no weight: weights are finite and not negative"
            );
            // Against the heaviest, so that no sum of finite weights is infinite.
            sum += *weight / heaviest;
            *weight = sum;
        }
        assert!(!items.is_empty(), "shares are of something with a weight above 0");
        Self { items: items.into() }
    }

    /// Draws one of them, which consumes one number of the stream.
    pub(super) fn draw(&self, stream: &mut Xoshiro256PlusPlus) -> &X {
        let last = self.items.len() - 1;
        let at = self.items[last].0 * uniform(stream);
        // Rounding can take the product up to the sum itself.
        let index = self.items.partition_point(|(sum, _)| *sum <= at).min(last);
        &self.items[index].1
    }

    /// All that can be drawn.
    pub fn iter(&self) -> impl Iterator<Item = &X> {
        self.items.iter().map(|(_, item)| item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;

    fn counts(shares: &Shares<usize>, draws: usize) -> [usize; 4] {
        let mut stream = Xoshiro256PlusPlus::seed_from_u64(11);
        let mut counts = [0; 4];
        for _ in 0..draws {
            counts[*shares.draw(&mut stream)] += 1;
        }
        counts
    }

    #[test]
    fn things_are_drawn_as_often_as_their_weights_say() {
        let shares = Shares::new([(6.0, 0), (0.0, 1), (3.0, 2), (1.0, 3)]);
        let counts = counts(&shares, 100_000);
        assert_eq!(counts[1], 0, "no weight, no draw");
        // The standard deviation of a share of a half is 158; the seed is fixed, so this is no lottery.
        for (count, expected) in [(counts[0], 60_000), (counts[2], 30_000), (counts[3], 10_000)] {
            assert!(expected_near(count, expected), "{counts:?}");
        }
    }

    fn expected_near(count: usize, expected: usize) -> bool {
        count.abs_diff(expected) < 500
    }

    #[test]
    fn the_scale_of_weights_changes_nothing() {
        let small = Shares::new([(1.0, 0), (3.0, 1)]);
        let vast = Shares::new([(f64::MAX / 3.0, 0), (f64::MAX, 1)]);
        assert_eq!(counts(&small, 1000), counts(&vast, 1000));
    }

    #[test]
    #[should_panic(expected = "weight above 0")]
    fn nothing_to_draw_is_a_fault_of_the_caller() {
        Shares::new([(0.0, 1)]);
    }
}
