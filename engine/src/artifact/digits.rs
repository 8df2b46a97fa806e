//! Numbers as text, for lines of which a run writes millions.
//!
//! The general formatters settle questions that records do not ask. Nanoseconds are whole, so a millisecond value is its digits with a point
//! among them.

/// "00" to "99".
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// Digits of the largest u64.
const DIGITS_MAX: usize = 20;

fn pair(number: u64) -> [u8; 2] {
    PAIRS[number as usize]
}

/// Writes `value` so that it ends at `end`; returns where it begins.
fn put(mut value: u64, room: &mut [u8], end: usize) -> usize {
    let mut at = end;
    while value >= 100 {
        at -= 2;
        room[at..at + 2].copy_from_slice(&pair(value % 100));
        value /= 100;
    }
    if value >= 10 {
        at -= 2;
        room[at..at + 2].copy_from_slice(&pair(value));
    } else {
        at -= 1;
        room[at] = b'0' + value as u8;
    }
    at
}

/// Appends a whole number.
pub(super) fn push_integer(out: &mut Vec<u8>, value: u64) {
    let mut room = [0; DIGITS_MAX];
    let start = put(value, &mut room, DIGITS_MAX);
    out.extend_from_slice(&room[start..]);
}

/// Appends nanoseconds as milliseconds: exact, with at least one digit behind the point, so that it reads as a float everywhere, and at most six.
pub(super) fn push_milliseconds(out: &mut Vec<u8>, nanos: u64) {
    let (whole, rest) = (nanos / 1_000_000, nanos % 1_000_000);
    let mut room = [0; DIGITS_MAX + 7];
    let start = put(whole, &mut room, DIGITS_MAX);
    room[DIGITS_MAX] = b'.';
    for (at, hundredths) in [rest / 10_000, rest / 100 % 100, rest % 100].into_iter().enumerate() {
        room[DIGITS_MAX + 1 + 2 * at..][..2].copy_from_slice(&pair(hundredths));
    }
    let mut end = room.len();
    while end > DIGITS_MAX + 2 && room[end - 1] == b'0' {
        end -= 1;
    }
    out.extend_from_slice(&room[start..end]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn milliseconds(nanos: u64) -> String {
        let mut out = Vec::new();
        push_milliseconds(&mut out, nanos);
        String::from_utf8(out).unwrap()
    }

    fn integer(value: u64) -> String {
        let mut out = Vec::new();
        push_integer(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn milliseconds_keep_one_digit_at_least_and_six_at_most() {
        assert_eq!(milliseconds(0), "0.0");
        assert_eq!(milliseconds(1), "0.000001");
        assert_eq!(milliseconds(112_874_013), "112.874013");
        assert_eq!(milliseconds(5_100_000), "5.1");
        assert_eq!(milliseconds(7_000_000), "7.0");
        assert_eq!(milliseconds(100_000_000), "100.0");
        assert_eq!(milliseconds(u64::MAX), "18446744073709.551615");
    }

    #[test]
    fn integers_have_all_their_digits_at_every_length() {
        for length in 1..20 {
            let power = 10u64.pow(length);
            for value in [power - 1, power, power + 1] {
                assert_eq!(integer(value), value.to_string());
            }
        }
        assert_eq!(integer(u64::MAX), u64::MAX.to_string());
    }

    proptest! {
        #[test]
        fn milliseconds_are_the_nearest_double(nanos in 0u64..1 << 53) {
            let back: f64 = serde_json::from_str(&milliseconds(nanos)).unwrap();
            prop_assert_eq!(back, nanos as f64 / 1e6);
        }

        #[test]
        fn integers_are_what_the_standard_library_prints(value in any::<u64>(), shift in 0..64u32) {
            prop_assert_eq!(integer(value >> shift), (value >> shift).to_string());
        }
    }
}
