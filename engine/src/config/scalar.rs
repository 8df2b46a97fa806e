//! Text to numbers, booleans and durations, by the type of the field and not by the looks of the text.

/// Why a text is not a value of the wanted type, where advice is possible beyond "found X; allowed Y".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing more to say.
    NoMatch,
    /// What to write instead.
    Advice(String),
}

/// A decimal number. `integer` is set when the value is whole and exact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Number {
    pub(super) value: f64,
    pub(super) integer: Option<i128>,
}

/// Largest whole number that a float holds exactly together with all below it.
const EXACT_WHOLE: f64 = 9_007_199_254_740_992.0;

/// true, false, yes, no, on, off in any case.
pub(super) fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// Whether a text is infinity, as YAML or people write it.
fn infinity(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    matches!(lower.strip_prefix('+').unwrap_or(&lower), "inf" | ".inf" | "infinity")
}

/// Reads a decimal number: sign, digits with `_` between them, fraction, exponent. Infinity is `inf`.
///
/// # Errors
/// `010` (octal or ten?), `1:30` (base 60 to YAML 1.1) and `0x1f` are refused with advice, everything else without.
pub(super) fn number(text: &str) -> Result<Number, Fault> {
    let text = text.trim();
    if infinity(text) {
        return Ok(Number {
            value: f64::INFINITY,
            integer: None,
        });
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_base_60 = unsigned.contains(':')
        && unsigned
            .split(':')
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    if is_base_60 {
        return Err(Fault::Advice(
            "`:` reads as base 60 in some YAML; write one plain number".to_owned(),
        ));
    }
    let lower = unsigned.to_ascii_lowercase();
    if lower.len() > 2 && (lower.starts_with("0x") || lower.starts_with("0o") || lower.starts_with("0b")) {
        return Err(Fault::Advice("write the number in decimal".to_owned()));
    }
    let (mantissa, exponent) = match lower.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (lower.as_str(), None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |part: &str| part.is_empty() || is_digits(part);
    let has_digits = !whole.is_empty() || fraction.is_some_and(|fraction| !fraction.is_empty());
    let exponent_fits =
        exponent.is_none_or(|exponent| is_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)));
    if !has_digits || !digits(whole) || !fraction.is_none_or(digits) || !exponent_fits {
        return Err(Fault::NoMatch);
    }
    if whole.len() > 1 && whole.starts_with('0') {
        let bare = whole.trim_start_matches(['0', '_']);
        let bare = if bare.is_empty() { "0" } else { bare };
        return Err(Fault::Advice(format!(
            "a leading 0 reads as octal in some YAML; write {bare}"
        )));
    }
    let clean: String = text.chars().filter(|&c| c != '_').collect();
    let value: f64 = clean.parse().map_err(|_| Fault::NoMatch)?;
    let integer = if fraction.is_none() && exponent.is_none() {
        clean.parse().ok()
    } else if value.fract() == 0.0 && value.abs() <= EXACT_WHOLE {
        Some(value as i128)
    } else {
        None
    };
    Ok(Number { value, integer })
}

/// Digits with single `_` between them.
fn is_digits(text: &str) -> bool {
    !text.is_empty()
        && text
            .split('_')
            .all(|group| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit()))
}

/// Reads a duration in seconds: a number (`30`, `0.5`), or numbers with units from the largest to the smallest (`1h30m`, `500ms`,
/// `2 min`), or infinity.
///
/// # Errors
/// As for [`number`], and with the unit named that is unknown or out of order.
pub(super) fn duration(text: &str) -> Result<f64, Fault> {
    match number(text) {
        Ok(number) => return Ok(number.value),
        Err(fault @ Fault::Advice(_)) => return Err(fault),
        Err(Fault::NoMatch) => {}
    }
    let lower = text.trim().to_ascii_lowercase();
    let mut rest = lower.as_str();
    let mut seconds = 0.0;
    let mut last_unit = f64::INFINITY;
    while !rest.is_empty() {
        let digits_end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (amount_text, tail) = rest.split_at(digits_end);
        let amount = number(amount_text)?.value;
        let tail = tail.trim_start();
        let unit_end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let unit_s = match unit {
            "h" | "hr" | "hour" => 3600.0,
            "m" | "min" => 60.0,
            "s" | "sec" => 1.0,
            "ms" => 0.001,
            "" => return Err(Fault::Advice(format!("`{amount_text}` lacks a unit: ms, s, m or h"))),
            _ => {
                return Err(Fault::Advice(format!(
                    "`{unit}` is no unit; the units are ms, s, sec, m, min, h, hr, hour"
                )));
            }
        };
        if unit_s >= last_unit {
            return Err(Fault::Advice("write each unit once, the largest first".to_owned()));
        }
        last_unit = unit_s;
        // Milliseconds are divided, not multiplied by 0.001: 500 ms is then exactly 0.5 s.
        seconds += if unit == "ms" { amount / 1000.0 } else { amount * unit_s };
        rest = tail.trim_start();
    }
    if last_unit.is_infinite() {
        Err(Fault::NoMatch)
    } else {
        Ok(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_may_be_written_with_an_exponent_or_a_zero_fraction() {
        for (text, value) in [
            ("0", 0),
            ("12", 12),
            ("-3", -3),
            ("+4", 4),
            ("1e3", 1000),
            ("3.0", 3),
            ("1_000", 1000),
            ("5.", 5),
        ] {
            assert_eq!(number(text).unwrap().integer, Some(value), "{text}");
        }
        assert_eq!(number("18446744073709551615").unwrap().integer, Some(u64::MAX.into()));
        for text in ["1.5", "1e-1", "1e300", "inf"] {
            assert_eq!(number(text).unwrap().integer, None, "{text}");
        }
    }

    #[test]
    fn ambiguous_numbers_are_refused_with_advice() {
        for (text, word) in [
            ("010", "write 10"),
            ("00", "write 0"),
            ("-01.5", "write 1"),
            ("1:30", "base 60"),
            ("0x10", "decimal"),
        ] {
            match number(text) {
                Err(Fault::Advice(advice)) => assert!(advice.contains(word), "{text}: {advice}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        for text in [
            "", "true", "nan", ".nan", "1__0", "_1", "1_", "e3", ".", "1e", "--1", "1.2.3", "0x", "٣",
        ] {
            assert_eq!(number(text), Err(Fault::NoMatch), "{text}");
        }
    }

    #[test]
    fn durations_take_seconds_units_and_sums_of_units() {
        let cases = [
            ("30", 30.0),
            ("0.5", 0.5),
            ("1e2", 100.0),
            ("30s", 30.0),
            ("500ms", 0.5),
            ("2 Min", 120.0),
            ("1H30M", 5400.0),
            ("1m30s", 90.0),
            ("1.5 hr", 5400.0),
            ("1 hour 2 sec 3 ms", 3602.003),
            (" 5sec ", 5.0),
        ];
        for (text, seconds) in cases {
            assert_eq!(duration(text), Ok(seconds), "{text}");
        }
        assert_eq!(duration("INF"), Ok(f64::INFINITY));
        assert_eq!(duration(".inf"), Ok(f64::INFINITY));
    }

    #[test]
    fn durations_without_sense_are_refused() {
        for text in ["1d", "1m30", "30s1m", "1s1s", "1:30", "010s"] {
            assert!(matches!(duration(text), Err(Fault::Advice(_))), "{text}");
        }
        for text in ["", " ", "s", "-5s", "+5s", ".nan", "5 s?", "true"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn booleans_take_six_words_in_any_case() {
        for text in ["true", "YES", "On"] {
            assert_eq!(boolean(text), Some(true));
        }
        for text in ["false", "No", "OFF"] {
            assert_eq!(boolean(text), Some(false));
        }
        assert_eq!(boolean("1"), None);
        assert_eq!(boolean("y"), None);
    }
}
