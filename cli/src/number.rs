//! Numbers as people read them.

use ringload_engine::units::plural;

/// An integer with thousands separators.
pub(crate) fn grouped(value: u64) -> String {
    group_digits(&value.to_string())
}

/// An integer with thousands separators and its noun, which is given in the singular.
pub(crate) fn counted(value: u64, noun: &str) -> String {
    format!("{} {}", grouped(value), plural(&value, noun))
}

/// A figure with thousands separators and this many decimals. What is not finite has no digits to group and is written as it is.
pub(crate) fn grouped_decimal(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if !value.is_finite() {
        return text;
    }
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.as_str()),
    };
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    format!("{sign}{}{fraction}", group_digits(whole))
}

fn group_digits(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        for (value, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (123_456, "123,456"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(grouped(value), text);
        }
    }

    #[test]
    fn a_noun_follows_its_number() {
        for (value, text) in [(0, "0 cells"), (1, "1 cell"), (2000, "2,000 cells")] {
            assert_eq!(counted(value, "cell"), text);
        }
    }

    #[test]
    fn decimals_stay_in_one_piece() {
        for (value, decimals, text) in [
            (0.0, 2, "0.00"),
            (999.999, 2, "1,000.00"),
            (1_234_567.891, 2, "1,234,567.89"),
            (-1234.5, 1, "-1,234.5"),
            (1234.5, 0, "1,234"),
            (f64::INFINITY, 2, "inf"),
            (f64::NAN, 2, "NaN"),
        ] {
            assert_eq!(grouped_decimal(value, decimals), text);
        }
    }
}
