//! Queries with passages to rank, of wanted lengths, from a seed.
//!
//! The words are those of synthetic prompts: the query has the streams of a conversation's first turn, and each passage of an entry has streams
//! of its own. So an entry that gets more passages keeps its first ones, and no passage is like another.

use std::ops::Range;
use std::sync::Arc;

use super::conversation::{Conversation, Turn, Written};
use super::distribution::LengthDistribution;
use super::lengths::Lengths;
use super::stream_root;
use super::synthetic::{Prompts, entry_stream};

/// A dataset of synthetic requests for ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct SyntheticRankings {
    /// Requests, at least 1.
    pub entries: u32,
    /// Lengths of queries.
    pub query_tokens: LengthDistribution,
    /// Passages of a request.
    pub passages: LengthDistribution,
    /// Lengths of passages.
    pub passage_tokens: LengthDistribution,
    /// Root of the random streams. The same settings and seed give the same requests.
    pub seed: u64,
}

impl SyntheticRankings {
    /// Passages and tokens of every request, before any text is made.
    ///
    /// # Panics
    /// If a distribution has an [invalid parameter](LengthDistribution::invalid_parameter).
    pub fn sizes(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let mut texts = Texts::new(self);
        (0..self.entries).map(move |entry| {
            let query = u64::from(texts.query.size(entry).input_tokens);
            let passages = texts.passages(entry);
            let tokens = (0..passages).map(|number| u64::from(texts.passage(number).size(entry).input_tokens));
            (passages, query + tokens.sum::<u64>())
        })
    }

    /// The number of passages of every request.
    ///
    /// # Panics
    /// If a distribution has an [invalid parameter](LengthDistribution::invalid_parameter).
    pub fn passage_counts(&self) -> impl Iterator<Item = u32> + use<> {
        let texts = Texts::new(self);
        (0..self.entries).map(move |entry| texts.passages(entry))
    }

    /// The requests, each a conversation of one turn, made one by one.
    ///
    /// # Panics
    /// If a distribution has an [invalid parameter](LengthDistribution::invalid_parameter).
    pub fn conversations(&self) -> impl Iterator<Item = Conversation<'static>> + use<> {
        self.conversations_in(0..self.entries)
    }

    /// Those with these numbers: the same that [`conversations`](Self::conversations) makes there.
    ///
    /// # Panics
    /// If a distribution has an [invalid parameter](LengthDistribution::invalid_parameter).
    pub fn conversations_in(&self, entries: Range<u32>) -> impl Iterator<Item = Conversation<'static>> + use<> {
        let mut texts = Texts::new(self);
        entries.map(move |entry| {
            let passages = texts.passages(entry);
            let passages = (0..passages).map(|number| {
                let prompts = texts.passage(number);
                prompts.text(prompts.size(entry))
            });
            let written = Written {
                passages: passages.collect(),
                ..Written::default()
            };
            Conversation {
                id: None,
                turns: vec![Turn {
                    text: texts.query.text(texts.query.size(entry)).into(),
                    written: Some(Box::new(written)),
                    ..Turn::default()
                }],
            }
        })
    }
}

struct Texts {
    passages: LengthDistribution,
    passage_tokens: Arc<Lengths>,
    seed: u64,
    query: Prompts,
    by_number: Vec<Prompts>,
    counts: u64,
}

impl Texts {
    fn new(dataset: &SyntheticRankings) -> Self {
        Self {
            passages: dataset.passages.clone(),
            passage_tokens: Arc::new(Lengths::Apart {
                isl: dataset.passage_tokens.clone(),
                osl: None,
            }),
            seed: dataset.seed,
            query: Prompts::new(dataset.query_tokens.clone(), None, dataset.seed),
            by_number: Vec::new(),
            counts: stream_root(dataset.seed, "passages"),
        }
    }

    fn passages(&self, entry: u32) -> u32 {
        self.passages.draw(&mut entry_stream(self.counts, entry))
    }

    fn passage(&mut self, number: u32) -> &Prompts {
        while self.by_number.len() <= number as usize {
            let suffix = format!(":passage {}", self.by_number.len());
            let prompts = Prompts::with_roots(Arc::clone(&self.passage_tokens), self.seed, &suffix);
            self.by_number.push(prompts);
        }
        &self.by_number[number as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn dataset(passages: LengthDistribution) -> SyntheticRankings {
        SyntheticRankings {
            entries: 20,
            query_tokens: LengthDistribution::Fixed(8),
            passages,
            passage_tokens: LengthDistribution::Normal {
                mean: 30.0,
                stddev: 10.0,
            },
            seed: 5,
        }
    }

    fn words(text: &str) -> u64 {
        text.split(' ').count() as u64
    }

    fn passages<'a>(conversation: &'a Conversation<'_>) -> &'a [String] {
        &conversation.turns[0]
            .written
            .as_deref()
            .expect("it has passages")
            .passages
    }

    #[test]
    fn sizes_are_those_of_the_texts_and_no_passage_is_like_another() {
        let dataset = dataset(LengthDistribution::Normal { mean: 6.0, stddev: 2.0 });
        let mut seen = HashSet::new();
        let mut counts = HashSet::new();
        for (conversation, (count, tokens)) in dataset.conversations().zip(dataset.sizes()) {
            let passages = passages(&conversation);
            let query = &conversation.turns[0].text;
            assert_eq!((passages.len() as u32, words(query)), (count, 8));
            assert_eq!(
                words(query) + passages.iter().map(|text| words(text)).sum::<u64>(),
                tokens
            );
            assert!(passages.iter().all(|text| seen.insert(text.clone())));
            counts.insert(count);
        }
        assert!(counts.len() > 1);
    }

    #[test]
    fn an_entry_with_more_passages_keeps_its_first_ones() {
        let (few, many) = (
            dataset(LengthDistribution::Fixed(2)),
            dataset(LengthDistribution::Fixed(5)),
        );
        for (few, many) in few.conversations().zip(many.conversations()) {
            assert_eq!(
                (few.id == many.id, few.turns[0].text == many.turns[0].text),
                (true, true)
            );
            assert_eq!(passages(&few), &passages(&many)[..2]);
        }
    }
}
