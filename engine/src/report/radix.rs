//! Sorting numbers by their digits.
//!
//! Exact percentiles need every metric sorted, some thirty times the number of requests and once all gaps. Comparing costs more the more
//! values there are; a pass per byte costs the same for each, and bytes in which all values agree (the high ones of any span) need no pass.

/// A number with a place among all others.
pub(super) trait Number: Copy + Default {
    /// An unsigned number of the same order.
    fn key(self) -> u64;
}

impl Number for u32 {
    fn key(self) -> u64 {
        u64::from(self)
    }
}

impl Number for u64 {
    fn key(self) -> u64 {
        self
    }
}

/// In the order of [`f64::total_cmp`].
impl Number for f64 {
    fn key(self) -> u64 {
        let bits = self.to_bits();
        // Negative numbers: all bits turn, so that larger magnitudes come first. Others: the sign bit lifts them above.
        let negative = (bits as i64 >> 63) as u64;
        bits ^ (negative | 1 << 63)
    }
}

/// Fewer values are compared: the passes have a fixed cost of their own.
const RADIX_FROM: usize = 1024;

/// Sorts upwards. Needs room for as many values again while it runs.
pub(super) fn sort<N: Number>(values: &mut Vec<N>) {
    if values.len() < RADIX_FROM {
        values.sort_unstable_by_key(|value| value.key());
        return;
    }
    let first = values[0].key();
    let differing = values.iter().fold(0, |bits, value| bits | (value.key() ^ first));
    let mut other = Vec::new();
    for shift in (0..u64::BITS).step_by(8).filter(|shift| differing >> shift & 0xFF != 0) {
        let digit = |value: N| (value.key() >> shift) as usize & 0xFF;
        let mut places = [0usize; 256];
        values.iter().for_each(|&value| places[digit(value)] += 1);
        let mut next = 0;
        for place in &mut places {
            next += std::mem::replace(place, next);
        }
        other.resize(values.len(), N::default());
        for &value in values.iter() {
            let place = &mut places[digit(value)];
            other[*place] = value;
            *place += 1;
        }
        std::mem::swap(values, &mut other);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Few values or enough for passes, of all sizes.
    fn bits() -> impl Strategy<Value = Vec<u64>> {
        let sizes = prop_oneof![0..40usize, RADIX_FROM - 2..2 * RADIX_FROM];
        (sizes, 0..64u32).prop_flat_map(|(size, shift)| {
            prop::collection::vec(any::<u64>().prop_map(move |bits| bits >> shift), size)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn integers_are_in_order(bits in bits()) {
            let mut long = bits.clone();
            sort(&mut long);
            let mut expected = bits.clone();
            expected.sort_unstable();
            prop_assert_eq!(&long, &expected);

            let mut short: Vec<u32> = bits.iter().map(|&bits| bits as u32).collect();
            let mut expected = short.clone();
            sort(&mut short);
            expected.sort_unstable();
            prop_assert_eq!(short, expected);
        }

        #[test]
        fn floats_are_in_total_order(bits in bits()) {
            let mut values: Vec<f64> = bits.iter().map(|&bits| f64::from_bits(bits)).collect();
            let mut expected = values.clone();
            sort(&mut values);
            expected.sort_unstable_by(f64::total_cmp);
            let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&values), bits(&expected));
        }
    }
}
