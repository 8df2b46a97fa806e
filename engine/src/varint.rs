//! LEB128: whole numbers in as few bytes as they need, seven bits in each, the low ones first (DWARF 5, section 7.6).

/// Longest varint of a u64.
pub(crate) const VARINT_BYTES: usize = 10;

/// Writes `value`; returns the bytes used.
pub(crate) fn put_varint(mut value: u64, out: &mut [u8; VARINT_BYTES]) -> usize {
    let mut used = 0;
    while value >= 0x80 {
        out[used] = value as u8 | 0x80;
        value >>= 7;
        used += 1;
    }
    out[used] = value as u8;
    used + 1
}

/// Appends `value`.
pub(crate) fn push_varint(value: u64, out: &mut Vec<u8>) {
    let mut bytes = [0; VARINT_BYTES];
    let used = put_varint(value, &mut bytes);
    out.extend_from_slice(&bytes[..used]);
}

/// Reads the number at `at` and moves it behind; `None` if the bytes end before it does.
pub(crate) fn get_varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..).step_by(7).take(VARINT_BYTES) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back_one_behind_the_other(numbers in proptest::collection::vec(any::<u64>(), 0..20), shifts in 0u32..64) {
            let mut bytes = Vec::new();
            numbers.iter().for_each(|number| push_varint(number >> shifts, &mut bytes));
            let mut at = 0;
            for number in &numbers {
                prop_assert_eq!(get_varint(&bytes, &mut at), Some(number >> shifts));
            }
            prop_assert_eq!(at, bytes.len());
            prop_assert_eq!(get_varint(&bytes, &mut at), None);
        }
    }
}
