//! Keys of distributions.

use super::super::super::schema::{LENGTH, LENGTH_PAIR, PEAK, POINT};
use super::super::shape::Limits;
use super::super::shape::Shape::{self, *};
use super::Key;

const NOT_NEGATIVE: Limits = Limits::NOT_NEGATIVE;
const POSITIVE: Limits = Limits::POSITIVE;

/// Lengths and counts.
pub(super) const TOKENS: Shape = OneOf(&[Whole(1), Section(&LENGTH)]);
/// Delays.
pub(super) const DELAY: Shape = OneOf(&[Number(NOT_NEGATIVE), Section(&LENGTH)]);
/// Lengths that are drawn together.
pub(super) const PAIRS: Shape = List(&Section(&LENGTH_PAIR));

const TYPE: Key = (
    "type",
    Exactly(&["fixed", "normal", "lognormal", "multimodal", "empirical"]),
    "Kind of the distribution; known by its keys.",
);
const VALUE: Key = ("value", Number(NOT_NEGATIVE), "Always this.");
const MEAN: Key = (
    "mean",
    Number(NOT_NEGATIVE),
    "Mean of a normal distribution, or with median of a log-normal one.",
);
const STDDEV: Key = (
    "stddev",
    Number(NOT_NEGATIVE),
    "Standard deviation of a normal distribution.",
);
const MEDIAN: Key = (
    "median",
    Number(POSITIVE),
    "Median of a log-normal distribution, up to its mean.",
);
const PEAKS: Key = (
    "peaks",
    List(&Section(&PEAK)),
    "A mixture: at least two distributions, each with a weight.",
);
const POINTS: Key = (
    "points",
    List(&Section(&POINT)),
    "Values to choose from, each with a weight.",
);
const MIN: Key = ("min", Number(Limits::NONE), "Draws below it become it.");
const MAX: Key = ("max", Number(NOT_NEGATIVE), "Draws above it become it.");

pub(super) const IN_LENGTH: &[Key] = &[TYPE, VALUE, MEAN, STDDEV, MEDIAN, PEAKS, POINTS, MIN, MAX];

pub(super) const IN_PEAK: &[Key] = &[
    TYPE,
    VALUE,
    MEAN,
    STDDEV,
    MEDIAN,
    PEAKS,
    POINTS,
    MIN,
    MAX,
    (
        "weight",
        Number(NOT_NEGATIVE),
        "How often it is drawn from, against the other peaks; 1 by default.",
    ),
];

pub(super) const IN_POINT: &[Key] = &[
    ("value", Number(NOT_NEGATIVE), "What is drawn."),
    (
        "weight",
        Number(POSITIVE),
        "How often it is drawn, against the other points; 1 by default.",
    ),
];

pub(super) const IN_LENGTH_PAIR: &[Key] = &[
    ("isl", Whole(1), "Tokens of a prompt, on average."),
    (
        "isl_stddev",
        Number(NOT_NEGATIVE),
        "Their standard deviation; 0 by default.",
    ),
    ("osl", Whole(1), "Tokens that a request asks for, on average."),
    (
        "osl_stddev",
        Number(NOT_NEGATIVE),
        "Their standard deviation; 0 by default.",
    ),
    (
        "probability",
        Number(NOT_NEGATIVE.up_to(100.0)),
        "How often the pair is drawn, in percent; 100 over all pairs.",
    ),
];
