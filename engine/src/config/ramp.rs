//! Ramps of a phase, as written: `concurrency_ramp`, `prefill_ramp` and `rate_ramp`.

use super::decode::{Bounds, Field};
use super::schema::RAMP;
use super::tree::Value;

/// The course of a value that rises to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RampStrategy {
    /// Evenly.
    #[default]
    Linear,
    /// Slowly at first: with the square of the time.
    Exponential,
    /// By equal steps at random instants.
    Poisson,
}

impl RampStrategy {
    /// The word of the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Exponential => "exponential",
            Self::Poisson => "poisson",
        }
    }
}

/// A value that rises to its target from the start of the phase on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ramp {
    /// Seconds until the target is reached; positive and finite.
    pub duration_s: f64,
    /// How it gets there.
    pub strategy: RampStrategy,
}

/// A mapping, or the duration alone.
pub(super) fn decode(field: &Field<'_>) -> Option<Ramp> {
    let (duration, strategy) = if let Value::Mapping(_) = field.node.value {
        let section = field.section(&RAMP)?;
        let duration = section.required("duration", "write how long the value rises, as in duration: 30s");
        let words = [
            ("linear", RampStrategy::Linear),
            ("exponential", RampStrategy::Exponential),
            ("poisson", RampStrategy::Poisson),
        ];
        let strategy = section.field("strategy").map(|field| field.word(&words, &[]));
        (duration, strategy.unwrap_or(Some(RampStrategy::default())))
    } else {
        (Some(field.clone()), Some(RampStrategy::default()))
    };
    let duration_s = duration.and_then(|field| field.duration(Bounds::POSITIVE));
    Some(Ramp {
        duration_s: duration_s?,
        strategy: strategy?,
    })
}
