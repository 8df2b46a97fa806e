//! Distributions of lengths, counts and delays, as written.
//!
//! Five kinds, told apart by their keys: `value` is a fixed value, `mean` with or without `stddev` is normal, `mean` with `median` log-normal,
//! `peaks` a mixture of distributions, `points` a choice between values. `type` names the kind. A bare number is a fixed value.

use super::decode::{Bounds, Field, Section};
use super::schema::Schema;

use crate::units::counted;

/// A distribution of lengths. It stands under several keys, so it is no home for misplaced ones.
pub(super) static LENGTH: Schema = Schema {
    place: "benchmark.dataset.prompts.isl",
    keys: &[
        "type", "value", "mean", "stddev", "median", "peaks", "points", "min", "max",
    ],
    refused: &[],
};

/// A distribution among others.
pub(super) static PEAK: Schema = Schema {
    place: "benchmark.dataset.prompts.isl.peaks[]",
    keys: &[
        "type", "value", "mean", "stddev", "median", "peaks", "points", "min", "max", "weight",
    ],
    refused: &[],
};

/// A value among others.
pub(super) static POINT: Schema = Schema {
    place: "benchmark.dataset.prompts.isl.points[]",
    keys: &["value", "weight"],
    refused: &[],
};

/// A distribution. `T` is what a single value is: whole for lengths and counts, any number for delays.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution<T> {
    /// Always the same.
    Fixed(T),
    /// Normal, cut at zero.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation; none is 0.
        stddev: Option<f64>,
    },
    /// Log-normal.
    LogNormal {
        /// Mean.
        mean: f64,
        /// What half of the draws are below; above 0 and up to the mean.
        median: f64,
    },
    /// A mixture of at least two.
    Peaks(Box<[Weighted<Distribution<T>>]>),
    /// A choice between values; at least one.
    Points(Box<[Weighted<T>]>),
    /// Another one within bounds.
    Clamped(Box<Clamped<T>>),
}

/// A part of a distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct Weighted<X> {
    /// What is drawn.
    pub of: X,
    /// How often, against the other parts; none is 1. Of at least one part it is above 0.
    pub weight: Option<f64>,
}

/// A distribution whose draws outside of bounds become the bounds: at least one of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Clamped<T> {
    /// What is drawn.
    pub of: Distribution<T>,
    /// The least value.
    pub min: Option<f64>,
    /// The greatest value, at least `min`.
    pub max: Option<f64>,
}

/// A distribution of counts of tokens, turns or passages: draws are rounded up, and at least 1.
pub type Length = Distribution<u32>;

/// A distribution of delays in milliseconds.
pub type Delay = Distribution<f64>;

impl<X> Weighted<X> {
    /// Its weight, written or not.
    pub fn share(&self) -> f64 {
        self.weight.unwrap_or(1.0)
    }
}

impl<T: Copy + Into<f64>> Distribution<T> {
    /// The mean of its draws before they are cut at zero and rounded. Bounds are applied to the mean and not to the draws.
    pub(super) fn expected(&self) -> f64 {
        match self {
            Self::Fixed(value) => (*value).into(),
            Self::Normal { mean, .. } | Self::LogNormal { mean, .. } => *mean,
            Self::Peaks(peaks) => weighted_mean(peaks, Self::expected),
            Self::Points(points) => weighted_mean(points, |value| (*value).into()),
            Self::Clamped(clamped) => {
                let Clamped { of, min, max } = &**clamped;
                of.expected()
                    .max(min.unwrap_or(f64::NEG_INFINITY))
                    .min(max.unwrap_or(f64::INFINITY))
            }
        }
    }

    /// Whether a draw can be above 1.
    pub(super) fn may_exceed_one(&self) -> bool {
        match self {
            Self::Fixed(value) => (*value).into() > 1.0,
            Self::Normal { mean, stddev } => *mean > 1.0 || stddev.is_some_and(|stddev| stddev > 0.0),
            Self::LogNormal { mean, median } => *mean > 1.0 || median < mean,
            Self::Peaks(peaks) => peaks.iter().any(|peak| peak.share() > 0.0 && peak.of.may_exceed_one()),
            Self::Points(points) => points.iter().any(|point| point.of.into() > 1.0),
            Self::Clamped(clamped) => {
                let Clamped { of, min, max } = &**clamped;
                min.is_some_and(|min| min > 1.0) || (of.may_exceed_one() && max.is_none_or(|max| max > 1.0))
            }
        }
    }
}

impl Length {
    /// The only value, if there is one by its kind.
    pub fn fixed(&self) -> Option<u32> {
        match *self {
            Self::Fixed(value) => Some(value),
            Self::Normal { mean, stddev } if stddev.unwrap_or(0.0) == 0.0 => Some((mean.ceil() as u32).max(1)),
            _ => None,
        }
    }
}

fn weighted_mean<X>(parts: &[Weighted<X>], mean: impl Fn(&X) -> f64) -> f64 {
    // Against the heaviest, so that no sum of weights is infinite.
    let heaviest = parts.iter().map(Weighted::share).fold(0.0, f64::max);
    let share = |part: &Weighted<X>| part.share() / heaviest;
    let sum: f64 = parts.iter().map(share).sum();
    parts.iter().map(|part| share(part) / sum * mean(&part.of)).sum()
}

/// A distribution of counts up to `max`, which every parameter keeps to.
pub(super) fn length(field: &Field<'_>, max: u32) -> Option<Length> {
    let numbers = Numbers {
        value: &|field| field.integer(1, max.into()),
        limits: Bounds {
            max: max.into(),
            ..Bounds::NOT_NEGATIVE
        },
        least: 1.0,
    };
    numbers.read(field)
}

/// A distribution of delays.
pub(super) fn delay(field: &Field<'_>) -> Option<Delay> {
    let numbers = Numbers {
        value: &|field| field.float(Bounds::NOT_NEGATIVE),
        limits: Bounds::NOT_NEGATIVE,
        least: 0.0,
    };
    numbers.read(field)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fixed,
    Normal,
    LogNormal,
    Multimodal,
    Empirical,
}

impl Kind {
    const WORDS: [(&'static str, Self); 5] = [
        ("fixed", Self::Fixed),
        ("normal", Self::Normal),
        ("lognormal", Self::LogNormal),
        ("multimodal", Self::Multimodal),
        ("empirical", Self::Empirical),
    ];

    /// Keys that tell the kind where `type` does not, the most telling first. What is left is normal.
    const TELLING: [(&'static str, Self); 4] = [
        ("peaks", Self::Multimodal),
        ("points", Self::Empirical),
        ("median", Self::LogNormal),
        ("value", Self::Fixed),
    ];

    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Fixed => &["value"],
            Self::Normal => &["mean", "stddev"],
            Self::LogNormal => &["mean", "median"],
            Self::Multimodal => &["peaks"],
            Self::Empirical => &["points"],
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Fixed => "a fixed value",
            Self::Normal => "a normal distribution",
            Self::LogNormal => "a log-normal distribution",
            Self::Multimodal => "a mixture of peaks",
            Self::Empirical => "a choice between points",
        }
    }
}

/// The kind of a distribution. Keys that belong to another one are reported.
fn kind(section: &Section<'_>) -> Option<Kind> {
    let named = section.field("type");
    let found = Kind::TELLING.iter().find(|(key, _)| section.has(key));
    let (kind, remedy) = match (&named, found) {
        (Some(field), _) => (field.exact_word(&Kind::WORDS, &[])?, "change `type`".to_owned()),
        (None, Some((key, kind))) => (*kind, format!("`{key}`")),
        (None, None) => (Kind::Normal, String::new()),
    };
    // A key that is not known says nothing about which others belong.
    if section.has_unknown_keys {
        return None;
    }
    for key in ["value", "mean", "stddev", "median", "peaks", "points"] {
        if section.has(key) && !kind.keys().contains(&key) {
            let title = kind.title();
            section.report(
                key,
                format!("`{key}` has no meaning for {title}; remove it or {remedy}"),
            );
        }
    }
    Some(kind)
}

/// How the numbers of a distribution are read.
struct Numbers<'r, T> {
    /// A single value.
    value: &'r dyn Fn(&Field<'_>) -> Option<T>,
    /// Of means and the like.
    limits: Bounds,
    /// The least upper bound.
    least: f64,
}

impl<T> Numbers<'_, T> {
    fn read(&self, field: &Field<'_>) -> Option<Distribution<T>> {
        if field.node.scalar().is_some() {
            return (self.value)(field).map(Distribution::Fixed);
        }
        self.within(&field.section(&LENGTH)?)
    }

    fn within(&self, section: &Section<'_>) -> Option<Distribution<T>> {
        let kind = kind(section)?;
        // Both are read before the first failure counts, so that each is reported.
        let clamp = self.clamp(section);
        let of = match kind {
            Kind::Fixed => {
                let value = section.required("value", "it is the fixed value");
                value.and_then(|field| (self.value)(&field)).map(Distribution::Fixed)
            }
            Kind::Normal => self.normal(section),
            Kind::LogNormal => self.log_normal(section),
            Kind::Multimodal => self.peaks(section).map(Distribution::Peaks),
            Kind::Empirical => self.points(section).map(Distribution::Points),
        };
        match (of?, clamp?) {
            (of, (None, None)) => Some(of),
            (of, (min, max)) => Some(Distribution::Clamped(Box::new(Clamped { of, min, max }))),
        }
    }

    fn normal(&self, section: &Section<'_>) -> Option<Distribution<T>> {
        let mean = section.required("mean", "write a number, {value: N} or {mean: M, stddev: S}");
        let stddev = optional(section.field("stddev"), |field| field.float(self.limits));
        Some(Distribution::Normal {
            mean: mean?.float(self.limits)?,
            stddev: stddev?,
        })
    }

    fn log_normal(&self, section: &Section<'_>) -> Option<Distribution<T>> {
        let limits = Bounds {
            min_is_allowed: false,
            ..self.limits
        };
        let advice = "a log-normal distribution is {mean: M, median: N}";
        let (mean, median) = (section.required("mean", advice), section.required("median", advice));
        let read = |field: Option<Field<'_>>| field.and_then(|field| field.float(limits));
        let (mean, median) = (read(mean), read(median));
        let (mean, median) = (mean?, median?);
        if median > mean {
            section.report(
                "median",
                format!(
                    "found {median}; allowed: a number above 0 and up to the mean, {mean}, for a log-normal distribution has its tail above"
                ),
            );
            return None;
        }
        Some(Distribution::LogNormal { mean, median })
    }

    fn peaks(&self, section: &Section<'_>) -> Option<Box<[Weighted<Distribution<T>>]>> {
        const SHAPE: &str =
            "a list of distributions, as in [{mean: 128, stddev: 20, weight: 60}, {value: 2048, weight: 40}]";
        let field = section.required("peaks", &format!("write {SHAPE}"))?;
        let items = field.items(SHAPE)?;
        if items.len() < 2 {
            let found = counted(items.len(), "peak");
            section.report("peaks", format!("found {found}; allowed: at least 2, as {SHAPE}"));
            return None;
        }
        let peaks = items.map(|item| {
            let section = item.section(&PEAK)?;
            let weight = optional(section.field("weight"), |field| field.float(Bounds::NOT_NEGATIVE));
            let of = self.within(&section);
            Some(Weighted {
                of: of?,
                weight: weight?,
            })
        });
        let peaks = all(peaks)?;
        if peaks.iter().all(|peak| peak.share() == 0.0) {
            section.report(
                "peaks",
                "found the weight 0 for each peak; allowed: at least one above 0",
            );
            return None;
        }
        Some(peaks)
    }

    fn points(&self, section: &Section<'_>) -> Option<Box<[Weighted<T>]>> {
        const SHAPE: &str = "a list of values, as in [{value: 128, weight: 60}, {value: 2048, weight: 40}]";
        let field = section.required("points", &format!("write {SHAPE}"))?;
        let items = field.items(SHAPE)?;
        if items.len() == 0 {
            section.report("points", format!("found no point; allowed: at least 1, as {SHAPE}"));
            return None;
        }
        let points = items.map(|item| {
            let section = item.section(&POINT)?;
            let weight = optional(section.field("weight"), |field| field.float(Bounds::POSITIVE));
            let value = match section.has_unknown_keys {
                true => section.field("value"),
                false => section.required("value", "it is what is drawn"),
            };
            let of = value.and_then(|field| (self.value)(&field));
            Some(Weighted {
                of: of?,
                weight: weight?,
            })
        });
        all(points)
    }

    /// The bounds of draws; `None` if a mistake was reported.
    fn clamp(&self, section: &Section<'_>) -> Option<(Option<f64>, Option<f64>)> {
        let min = optional(section.field("min"), |field| {
            let min = field.float(Bounds::FINITE)?;
            if min > self.limits.max {
                field.mistake(&format!("a number of at most {}", self.limits.max));
                return None;
            }
            Some(min)
        });
        let max = optional(section.field("max"), |field| {
            field.float(Bounds {
                min: self.least,
                ..self.limits
            })
        });
        let (min, max) = (min?, max?);
        if let (Some(min), Some(max)) = (min, max)
            && min > max
        {
            section.report(
                "min",
                format!("found {min}; allowed: a number up to `max`, which is {max}"),
            );
            return None;
        }
        Some((min, max))
    }
}

/// What an absent key says, or a present one; `None` if a mistake was reported.
fn optional<'t>(field: Option<Field<'t>>, read: impl Fn(&Field<'t>) -> Option<f64>) -> Option<Option<f64>> {
    match field {
        Some(field) => read(&field).map(Some),
        None => Some(None),
    }
}

/// All parts. Everything is read before the first failure counts, so that each is reported.
fn all<X>(parts: impl Iterator<Item = Option<X>>) -> Option<Box<[X]>> {
    parts.collect::<Vec<_>>().into_iter().collect()
}
