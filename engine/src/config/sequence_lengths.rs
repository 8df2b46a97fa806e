//! `benchmark.dataset.prompts`, as far as it binds the lengths of a prompt and of its answer to each other: pairs of them with probabilities, or
//! a range around both.

use super::dataset::MAX_TOKENS;
use super::decode::{Bounds, Field, Section};
use super::distribution::Length;
use super::schema::Schema;

/// Lengths that are drawn together.
pub(super) static LENGTH_PAIR: Schema = Schema {
    place: "benchmark.dataset.prompts.sequence_distribution[]",
    keys: &["isl", "isl_stddev", "osl", "osl_stddev", "probability"],
    refused: &[],
};

/// Lengths that are drawn together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SequencePair {
    /// Tokens of a prompt, on average.
    pub isl: u32,
    /// Their standard deviation.
    pub isl_stddev: Option<f64>,
    /// Tokens that a request asks for, on average.
    pub osl: u32,
    /// Their standard deviation.
    pub osl_stddev: Option<f64>,
    /// How often, in percent.
    pub probability: f64,
}

/// Lengths that are spread evenly around those of the dataset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RangeRatio {
    /// How far, as a share of the length.
    pub ratio: f64,
    /// Whose rule the share follows.
    pub style: Option<CorpusStyle>,
}

/// A benchmark tool with a rule for ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CorpusStyle {
    /// From `len (1 - r)` to `len (1 + r)`.
    #[default]
    Vllm,
    /// From `len r` to `len`.
    Sglang,
}

impl CorpusStyle {
    /// The word of the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
        }
    }
}

/// The sum of probabilities, with room for rounded ones.
const TOTAL: std::ops::RangeInclusive<f64> = 99.0..=101.0;
const SHAPE: &str =
    "a list of pairs, as in [{isl: 256, osl: 128, probability: 60}, {isl: 512, osl: 256, probability: 40}]";

/// The pairs of `prompts`; `dataset` is the section around it.
pub(super) fn pairs(dataset: &Section<'_>, prompts: &Section<'_>) -> Option<Box<[SequencePair]>> {
    let field = prompts.field("sequence_distribution")?;
    let mut is_alone = true;
    for (section, key) in [(prompts, "isl"), (prompts, "osl"), (dataset, "isl"), (dataset, "osl")] {
        if let Some(other) = section.field(key) {
            is_alone = false;
            exclude(&field, "sequence_distribution", prompts, &other, key, section);
        }
    }
    let items = field.items(SHAPE)?;
    if items.len() == 0 {
        field.mistake(&format!("at least one pair: {SHAPE}"));
        return None;
    }
    // Everything is read before the first failure counts, so that each is reported.
    let read: Vec<Option<SequencePair>> = items.map(|item| pair(&item)).collect();
    let pairs = read.into_iter().collect::<Option<Box<[SequencePair]>>>()?;
    let total: f64 = pairs.iter().map(|pair| pair.probability).sum();
    if !TOTAL.contains(&total) {
        let advice = match (0.99..=1.01).contains(&total) {
            true => "; they are percent: write 60 for 0.6",
            false => "",
        };
        prompts.report(
            "sequence_distribution",
            format!("found probabilities that sum up to {total}; allowed: 100 (from 99 to 101){advice}"),
        );
        return None;
    }
    is_alone.then_some(pairs)
}

fn pair(item: &Field<'_>) -> Option<SequencePair> {
    let section = item.section(&LENGTH_PAIR)?;
    let required = |key, advice| match section.has_unknown_keys {
        // Which key was meant is anyone's guess.
        true => section.field(key),
        false => section.required(key, advice),
    };
    let tokens = |field: Option<Field<'_>>| field.and_then(|field| field.integer(1, MAX_TOKENS.into()));
    let limits = Bounds {
        max: MAX_TOKENS.into(),
        ..Bounds::NOT_NEGATIVE
    };
    let deviation = |key| match section.field(key) {
        Some(field) => field.float(limits).map(Some),
        None => Some(None),
    };
    let percent = Bounds {
        max: 100.0,
        ..Bounds::NOT_NEGATIVE
    };
    let isl = tokens(required("isl", "write the tokens of the prompt"));
    let osl = tokens(required("osl", "write the tokens to ask for"));
    let (isl_stddev, osl_stddev) = (deviation("isl_stddev"), deviation("osl_stddev"));
    let probability = required("probability", "write how often this pair is drawn, in percent");
    Some(SequencePair {
        probability: probability.and_then(|field| field.float(percent))?,
        isl: isl?,
        osl: osl?,
        isl_stddev: isl_stddev?,
        osl_stddev: osl_stddev?,
    })
}

/// The range of `prompts`, around lengths that are given beside it.
pub(super) fn range(
    dataset: &Section<'_>,
    prompts: &Section<'_>,
    isl: Option<&Length>,
    osl: Option<&Length>,
) -> Option<RangeRatio> {
    let style = prompts.field("random_corpus_style").map(|field| {
        let words = [CorpusStyle::Vllm, CorpusStyle::Sglang].map(|style| (style.as_str(), style));
        field.word(&words, &[])
    });
    let Some(field) = prompts.field("random_range_ratio") else {
        if style.is_some() {
            prompts.report(
                "random_corpus_style",
                "`random_corpus_style` says how `random_range_ratio` is read, and there is none; add it, or remove this key",
            );
        }
        return None;
    };
    if let Some(pairs) = prompts.field("sequence_distribution") {
        exclude(
            &field,
            "random_range_ratio",
            prompts,
            &pairs,
            "sequence_distribution",
            prompts,
        );
    } else {
        for (key, length) in [("isl", isl), ("osl", osl)] {
            let written = dataset.field(key).or_else(|| prompts.field(key));
            let message = match (written, length) {
                (None, _) => {
                    format!("the range is around a number of tokens, and `{key}` is missing; add it, as in {key}: 128")
                }
                // A mistake that is reported where it is.
                (Some(_), None) => continue,
                (Some(_), Some(length)) if length.fixed().is_some() => continue,
                (Some(written), Some(_)) => format!(
                    "the range is around a number of tokens, and `{key}` ({}) is a distribution; write a number there, or remove this key",
                    written.node.start.told()
                ),
            };
            prompts.report("random_range_ratio", message);
        }
    }
    let style = match style {
        Some(style) => Some(style?),
        None => None,
    };
    let ratio = field.float(Bounds {
        max: 1.0,
        ..Bounds::NOT_NEGATIVE
    })?;
    if ratio == 1.0 && style.unwrap_or_default() == CorpusStyle::Vllm {
        field.mistake("a number from 0 to below 1; with random_corpus_style: sglang it may be 1");
        return None;
    }
    Some(RangeRatio { ratio, style })
}

/// Reports that two keys of which either gives the lengths are both there. A flag stands above every line, and the mistake is one of the flag.
fn exclude<'t>(
    one: &Field<'t>,
    one_key: &'static str,
    one_in: &Section<'t>,
    other: &Field<'t>,
    other_key: &'static str,
    other_in: &Section<'t>,
) {
    let (one_at, other_at) = (one.node.start, other.node.start);
    let message = |late: &str, early: &str, place: String| {
        format!("`{late}` says how long prompts and answers are, and so does `{early}` ({place}); keep one")
    };
    if other_at.flag().is_some() && one_at.flag().is_none() {
        other_in.report(other_key, message(other_key, one_key, one_at.told()));
    } else {
        one_in.report(one_key, message(one_key, other_key, other_at.told()));
    }
}
