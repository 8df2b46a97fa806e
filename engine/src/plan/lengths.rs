//! From distributions as written to those that are drawn from.

use super::render::DEFAULT_ISL;
use crate::config::{self, CorpusStyle, Dataset, RangeRatio};
use crate::dataset::{Clamped, Distribution, LengthDistribution, LengthPair, Lengths, Shares};

/// The lengths of synthetic prompts and answers.
pub(super) fn lengths(written: &Dataset) -> Lengths {
    match &written.sequence_distribution {
        Some(pairs) => Lengths::Paired(Shares::new(pairs.iter().map(|pair| {
            let lengths = LengthPair {
                isl: normal(pair.isl, pair.isl_stddev),
                osl: normal(pair.osl, pair.osl_stddev),
            };
            (pair.probability, lengths)
        }))),
        None => {
            let length = |length: &config::Length| match written.range {
                Some(range) => around(length, range),
                None => distribution(length),
            };
            Lengths::Apart {
                isl: written.isl.as_ref().map_or(DEFAULT_ISL, length),
                osl: written.osl.as_ref().map(length),
            }
        }
    }
}

/// The range around a fixed length. The formulas are those of the tools, in the same arithmetic, so that the ranges are too.
fn around(length: &config::Length, range: RangeRatio) -> LengthDistribution {
    let tokens = length
        .fixed()
        .expect("the config has a range around fixed lengths only");
    let (length, ratio) = (f64::from(tokens), range.ratio);
    // The casts saturate.
    let (min, max) = match range.style.unwrap_or_default() {
        CorpusStyle::Vllm => (
            (length * (1.0 - ratio)).floor() as u32,
            (length * (1.0 + ratio)).ceil() as u32,
        ),
        CorpusStyle::Sglang => ((length * ratio).floor() as u32, tokens),
    };
    LengthDistribution::Range { min: min.max(1), max }
}

fn normal(tokens: u32, stddev: Option<f64>) -> LengthDistribution {
    match stddev {
        None => LengthDistribution::Fixed(tokens),
        Some(stddev) => LengthDistribution::Normal {
            mean: tokens.into(),
            stddev,
        },
    }
}

/// A distribution of lengths, counts or delays.
pub(super) fn distribution<T: Copy>(written: &config::Distribution<T>) -> Distribution<T> {
    match written {
        config::Distribution::Fixed(value) => Distribution::Fixed(*value),
        config::Distribution::Normal { mean, stddev } => Distribution::Normal {
            mean: *mean,
            stddev: stddev.unwrap_or(0.0),
        },
        config::Distribution::LogNormal { mean, median } => Distribution::LogNormal {
            mean: *mean,
            median: *median,
        },
        config::Distribution::Peaks(peaks) => Distribution::Mixture(Shares::new(
            peaks.iter().map(|peak| (peak.share(), distribution(&peak.of))),
        )),
        config::Distribution::Points(points) => {
            Distribution::Points(Shares::new(points.iter().map(|point| (point.share(), point.of))))
        }
        config::Distribution::Clamped(clamped) => Distribution::Clamped(Box::new(Clamped {
            of: distribution(&clamped.of),
            min: clamped.min.unwrap_or(f64::NEG_INFINITY),
            max: clamped.max.unwrap_or(f64::INFINITY),
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_the_tools() {
        let range = |tokens, ratio, style| {
            let around = around(&config::Length::Fixed(tokens), RangeRatio { ratio, style });
            let LengthDistribution::Range { min, max } = around else {
                panic!("{around:?}")
            };
            (min, max)
        };
        assert_eq!(range(128, 0.3, None), (89, 167));
        assert_eq!(range(128, 0.3, Some(CorpusStyle::Vllm)), (89, 167));
        assert_eq!(range(128, 0.3, Some(CorpusStyle::Sglang)), (38, 128));
        assert_eq!(range(1, 0.9, Some(CorpusStyle::Vllm)), (1, 2), "a range begins at 1");
        assert_eq!(range(1024, 0.0, Some(CorpusStyle::Sglang)), (1, 1024));
        assert_eq!(range(1024, 1.0, Some(CorpusStyle::Sglang)), (1024, 1024));
        assert_eq!(range(1024, 0.0, None), (1024, 1024));
    }

    #[test]
    fn a_distribution_means_what_is_written() {
        let peak = |of, weight| config::Weighted { of, weight };
        let written = config::Length::Clamped(Box::new(config::Clamped {
            of: config::Length::Peaks(Box::new([
                peak(
                    config::Length::Normal {
                        mean: 9.0,
                        stddev: Some(2.0),
                    },
                    Some(3.0),
                ),
                peak(
                    config::Length::LogNormal {
                        mean: 30.0,
                        median: 20.0,
                    },
                    None,
                ),
                peak(config::Length::Points(Box::new([peak_of(4), peak_of(5)])), Some(0.0)),
            ])),
            min: Some(2.0),
            max: None,
        }));
        let drawn = LengthDistribution::Clamped(Box::new(Clamped {
            of: LengthDistribution::Mixture(Shares::new([
                (3.0, LengthDistribution::Normal { mean: 9.0, stddev: 2.0 }),
                (
                    1.0,
                    LengthDistribution::LogNormal {
                        mean: 30.0,
                        median: 20.0,
                    },
                ),
            ])),
            min: 2.0,
            max: f64::INFINITY,
        }));
        assert_eq!(distribution(&written), drawn);
    }

    fn peak_of(of: u32) -> config::Weighted<u32> {
        config::Weighted { of, weight: None }
    }
}
