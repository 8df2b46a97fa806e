//! Units that carry their meaning.

use std::fmt;
use std::ops::Add;

/// Nanoseconds: a reading of the monotonic clock (`CLOCK_MONOTONIC`, since boot) or a span between two readings.
///
/// Arithmetic saturates: a deadline beyond the end of time is the end of time, and a span that would be negative is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The zero span.
    pub const ZERO: Self = Self(0);
    /// Later than any deadline: "never".
    pub const MAX: Self = Self(u64::MAX);

    /// A span of whole milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// A span of whole microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// A span of whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// A span of `secs` seconds, rounded to the nearest nanosecond. Negative and NaN give zero, infinity gives [`Nanos::MAX`].
    pub fn from_secs_f64(secs: f64) -> Self {
        // A float to integer cast saturates and maps NaN to 0, which is the rule above.
        Self((secs * 1e9).round() as u64)
    }

    /// The span in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The span in milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The span as people say it: 1.5 s, 30 min, 2 h 5 min.
    pub fn in_words(self) -> String {
        let seconds = self.as_secs_f64();
        if seconds < 60.0 {
            // Without digits that say nothing.
            let text = format!("{seconds:.3}");
            return format!("{} s", text.trim_end_matches('0').trim_end_matches('.'));
        }
        let whole = seconds.round() as u64;
        let parts = [(whole / 3600, "h"), (whole / 60 % 60, "min"), (whole % 60, "s")];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let words: Vec<String> = parts.map(|(count, unit)| format!("{count} {unit}")).collect();
        words.join(" ")
    }

    /// The span from `earlier` to `self`; zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Self;

    fn add(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            u64::MAX => write!(f, "never"),
            ns if ns >= 1_000_000_000 => write!(f, "{:.3} s", self.as_secs_f64()),
            ns if ns >= 1_000_000 => write!(f, "{:.3} ms", self.as_millis_f64()),
            ns => write!(f, "{:.1} us", ns as f64 / 1e3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Nanos::MAX + Nanos(1), Nanos::MAX);
        assert_eq!(Nanos(1).since(Nanos(2)), Nanos::ZERO);
        assert_eq!(Nanos::from_secs_f64(f64::INFINITY), Nanos::MAX);
        assert_eq!(Nanos::from_secs_f64(-1.0), Nanos::ZERO);
        assert_eq!(Nanos::from_secs_f64(f64::NAN), Nanos::ZERO);
        assert_eq!(Nanos::from_secs_f64(0.0015), Nanos::from_micros(1500));
    }

    #[test]
    fn spans_are_said_without_digits_that_say_nothing() {
        for (millis, text) in [
            (0, "0 s"),
            (250, "0.25 s"),
            (30_000, "30 s"),
            (60_000, "1 min"),
            (90_500, "1 min 31 s"),
            (21_900_000, "6 h 5 min"),
            (86_409_000, "24 h 9 s"),
        ] {
            assert_eq!(Nanos::from_millis(millis).in_words(), text);
        }
    }
}
