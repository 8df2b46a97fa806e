//! Prompts of wanted token lengths from a seed.
//!
//! Entry i depends on the seed and on i alone, never on the entries before it. So any part of a data set can be made by any thread, core or
//! machine, and a data set that grows keeps its first entries.
//!
//! No two entries start alike: a server's prefix cache would otherwise answer a part of the load from memory, and the figures would describe
//! the cache. The first three words are the digits of a one-to-one scrambling of the entry's number, which makes the first word unique among
//! 2,048 consecutive entries, the first two among 4,194,304, and the first three over all entries that a `u32` can number.

use std::ops::Range;
use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::conversation::{Conversation, Turn, Written};
use super::delay::DelayDistribution;
use super::distribution::LengthDistribution;
use super::lengths::{LengthStreams, Lengths};
use super::{stream_root, words};
use crate::units::Nanos;

/// Words that number the entry.
const LEADING_WORDS: u32 = 3;
/// Words that one 64-bit draw yields.
pub(super) const WORDS_PER_DRAW: usize = (u64::BITS / words::BITS) as usize;
pub(super) const WORD_MASK: u64 = (1 << words::BITS) - 1;

/// A prompt's measures, known before its text is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizedPrompt {
    /// The entry that it belongs to.
    pub entry: u32,
    /// Input sequence length: tokens of the text, at least 1.
    pub input_tokens: u32,
    /// Output sequence length to ask for, at least 1; `None` leaves it to the server.
    pub output_tokens: Option<u32>,
}

/// A dataset of synthetic conversations.
#[derive(Debug, Clone, PartialEq)]
pub struct Synthetic {
    /// Conversations, at least 1.
    pub entries: u32,
    /// Lengths of messages and of answers.
    pub lengths: Lengths,
    /// Texts of a message, at least 1, each of a length of its own.
    pub batch_size: u32,
    /// Turns of a conversation.
    pub turns: LengthDistribution,
    /// Delays before turns after the first.
    pub turn_delay: DelayDistribution,
    /// Root of the random streams. The same settings and seed give the same conversations.
    pub seed: u64,
}

impl Synthetic {
    /// One-turn conversations.
    pub fn of_single_turns(entries: u32, isl: LengthDistribution, osl: Option<LengthDistribution>, seed: u64) -> Self {
        Self {
            entries,
            lengths: Lengths::Apart { isl, osl },
            batch_size: 1,
            turns: LengthDistribution::Fixed(1),
            turn_delay: DelayDistribution::default(),
            seed,
        }
    }

    /// The lengths of every text of every turn of every conversation, before any text is made. All but the first text of a turn ask for nothing.
    ///
    /// # Panics
    /// If a distribution has an [invalid parameter](LengthDistribution::invalid_parameter).
    pub fn sizes(&self) -> impl Iterator<Item = SizedPrompt> + '_ {
        let mut prompts = TurnPrompts::new(self);
        (0..self.entries).flat_map(move |entry| {
            let turns = prompts.turns(entry);
            (0..turns)
                .flat_map(|turn| prompts.sizes(entry, turn))
                .collect::<Vec<_>>()
        })
    }

    /// The number of turns of every conversation.
    ///
    /// # Panics
    /// If a distribution has an [invalid parameter](LengthDistribution::invalid_parameter).
    pub fn turn_counts(&self) -> impl Iterator<Item = u32> + use<> {
        let prompts = TurnPrompts::new(self);
        (0..self.entries).map(move |entry| prompts.turns(entry))
    }

    /// The conversations, made one by one.
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
        let mut prompts = TurnPrompts::new(self);
        entries.map(move |entry| {
            let turns = (0..prompts.turns(entry))
                .map(|turn| prompts.turn(entry, turn))
                .collect();
            Conversation { id: None, turns }
        })
    }
}

/// Root of the texts behind the first in a message: the prompts of a dataset with the same settings and this seed.
fn batch_root(seed: u64, place: u32) -> u64 {
    stream_root(seed, &format!("text {place} of a message"))
}

/// The prompts of each turn of a dataset: those of the first turn are the prompts of the seed, and every later turn has streams of its own, so
/// that a conversation that grows keeps its first turns.
struct TurnPrompts {
    lengths: Arc<Lengths>,
    turns: LengthDistribution,
    turn_delay: DelayDistribution,
    seed: u64,
    by_turn: Vec<Prompts>,
    turn_counts: u64,
    delays: u64,
    /// Of the texts behind the first.
    more: Vec<TurnPrompts>,
}

impl TurnPrompts {
    fn new(dataset: &Synthetic) -> Self {
        Self {
            lengths: Arc::new(dataset.lengths.clone()),
            turns: dataset.turns.clone(),
            turn_delay: dataset.turn_delay.clone(),
            seed: dataset.seed,
            by_turn: Vec::new(),
            turn_counts: stream_root(dataset.seed, "turns"),
            delays: stream_root(dataset.seed, "turn delay"),
            more: (1..dataset.batch_size)
                .map(|place| {
                    Self::new(&Synthetic {
                        batch_size: 1,
                        seed: batch_root(dataset.seed, place),
                        ..dataset.clone()
                    })
                })
                .collect(),
        }
    }

    fn turns(&self, entry: u32) -> u32 {
        self.turns.draw(&mut entry_stream(self.turn_counts, entry))
    }

    fn of(&mut self, turn: u32) -> &Prompts {
        while self.by_turn.len() <= turn as usize {
            let suffix = match self.by_turn.len() {
                0 => String::new(),
                later => format!(":turn {later}"),
            };
            let prompts = Prompts::with_roots(Arc::clone(&self.lengths), self.seed, &suffix);
            self.by_turn.push(prompts);
        }
        &self.by_turn[turn as usize]
    }

    /// The sizes of the texts of a turn.
    fn sizes(&mut self, entry: u32, turn: u32) -> Vec<SizedPrompt> {
        let first = self.of(turn).size(entry);
        let more = self.more.iter_mut().map(|prompts| SizedPrompt {
            output_tokens: None,
            ..prompts.of(turn).size(entry)
        });
        std::iter::once(first).chain(more).collect()
    }

    fn turn(&mut self, entry: u32, turn: u32) -> Turn<'static> {
        let prompts = self.of(turn);
        let size = prompts.size(entry);
        let text = prompts.text(size).into();
        let mut input_tokens = size.input_tokens;
        let mut more_texts = Vec::with_capacity(self.more.len());
        for prompts in &mut self.more {
            let prompts = prompts.of(turn);
            let size = prompts.size(entry);
            input_tokens = input_tokens.saturating_add(size.input_tokens);
            more_texts.push(prompts.text(size));
        }
        let mut stream = entry_stream(self.delays.wrapping_add(u64::from(turn) << 32), entry);
        Turn {
            text,
            input_tokens: Some(input_tokens),
            output_tokens: size.output_tokens,
            delay: match turn {
                0 => Nanos::ZERO,
                _ => self.turn_delay.draw(&mut stream),
            },
            timestamp: None,
            written: (!more_texts.is_empty()).then(|| {
                Box::new(Written {
                    more_texts,
                    ..Written::default()
                })
            }),
        }
    }
}

/// The prompts of one seed.
#[derive(Debug, Clone)]
pub struct Prompts {
    lengths: Arc<Lengths>,
    // Roots of the per-entry streams. Texts have a root of their own, so that another distribution of lengths draws the same words.
    pairs: u64,
    input_lengths: u64,
    output_lengths: u64,
    texts: u64,
}

impl Prompts {
    /// Prompts with input lengths `isl` and wished-for output lengths `osl`.
    pub fn new(isl: LengthDistribution, osl: Option<LengthDistribution>, seed: u64) -> Self {
        Self::with_roots(Arc::new(Lengths::Apart { isl, osl }), seed, "")
    }

    pub(super) fn with_roots(lengths: Arc<Lengths>, seed: u64, suffix: &str) -> Self {
        let root = |purpose: &str| stream_root(seed, &format!("{purpose}{suffix}"));
        Self {
            lengths,
            pairs: root("pair"),
            input_lengths: root("isl"),
            output_lengths: root("osl"),
            texts: root("text"),
        }
    }

    /// The lengths of an entry.
    ///
    /// # Panics
    /// If a distribution has an [invalid parameter](LengthDistribution::invalid_parameter).
    pub fn size(&self, entry: u32) -> SizedPrompt {
        let stream = |root| move || entry_stream(root, entry);
        let (input_tokens, output_tokens) = self.lengths.draw(LengthStreams {
            pair: stream(self.pairs),
            input: stream(self.input_lengths),
            output: stream(self.output_lengths),
        });
        SizedPrompt {
            entry,
            input_tokens,
            output_tokens,
        }
    }

    /// Appends the text of a prompt: `input_tokens` words with single spaces between them, nothing that JSON would have to escape.
    pub fn write_text(&self, prompt: SizedPrompt, out: &mut Vec<u8>) {
        let table = words::words();
        let mut remaining = prompt.input_tokens as usize;
        out.reserve(remaining * MEAN_BYTES_PER_TOKEN);
        let start = out.len();
        let mut push = |number: u64| {
            if out.len() > start {
                out.push(b' ');
            }
            out.extend_from_slice(table[(number & WORD_MASK) as usize].as_bytes());
        };

        let number = scramble(prompt.entry, self.texts);
        let leading = remaining.min(LEADING_WORDS as usize);
        for digit in 0..leading as u32 {
            push(number >> (digit * words::BITS));
        }
        remaining -= leading;

        let mut stream = entry_stream(self.texts, prompt.entry);
        while remaining > 0 {
            let mut bits = stream.next_u64();
            for _ in 0..remaining.min(WORDS_PER_DRAW) {
                push(bits);
                bits >>= words::BITS;
            }
            remaining = remaining.saturating_sub(WORDS_PER_DRAW);
        }
    }

    /// The text of a prompt.
    pub fn text(&self, prompt: SizedPrompt) -> String {
        let mut out = Vec::new();
        self.write_text(prompt, &mut out);
        String::from_utf8(out).expect("the word table is ASCII")
    }
}

/// What a word and its space take, rounded up: for estimates only.
pub(crate) const MEAN_BYTES_PER_TOKEN: usize = 7;

/// The stream of one entry. Neighbouring numbers are fine as seeds: `seed_from_u64` spreads them with SplitMix64.
pub(super) fn entry_stream(root: u64, entry: u32) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(root.wrapping_add(u64::from(entry)))
}

/// The entry's number, scrambled one to one within the bits of the leading words.
///
/// An odd factor is invertible modulo a power of two, and so is the addition; and the low n bits of the result depend on the low n bits of
/// the number alone, which is what makes short prefixes unique over runs of entries.
fn scramble(entry: u32, root: u64) -> u64 {
    let factor = root | 1;
    let offset = root.rotate_left(32);
    u64::from(entry).wrapping_mul(factor).wrapping_add(offset) & ((1 << (LEADING_WORDS * words::BITS)) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{LengthPair, Shares};
    use std::collections::HashSet;
    use std::time::Instant;

    fn fixed(tokens: u32, seed: u64) -> Prompts {
        Prompts::new(LengthDistribution::Fixed(tokens), None, seed)
    }

    fn texts(prompts: &Prompts, entries: impl Iterator<Item = u32>) -> Vec<String> {
        entries.map(|entry| prompts.text(prompts.size(entry))).collect()
    }

    #[test]
    fn a_text_has_as_many_words_as_asked_for() {
        for tokens in [1, 2, 3, 4, 7, 8, 9, 13, 512] {
            let prompts = fixed(tokens, 1);
            let text = prompts.text(prompts.size(0));
            assert_eq!(text.split(' ').count(), tokens as usize);
            assert!(
                text.split(' ').all(|word| words::words().binary_search(&word).is_ok()),
                "{text:?}"
            );
        }
    }

    #[test]
    fn entries_do_not_depend_on_the_order_in_which_they_are_made() {
        let forward = texts(&fixed(40, 5), 0..50);
        let mut backward = texts(&fixed(40, 5), (0..50).rev());
        backward.reverse();
        assert_eq!(forward, backward);
    }

    #[test]
    fn the_seed_decides_the_text() {
        assert_ne!(texts(&fixed(40, 5), 0..5), texts(&fixed(40, 6), 0..5));
    }

    #[test]
    fn lengths_do_not_change_the_words() {
        let short = fixed(20, 5);
        let long = Prompts::new(
            LengthDistribution::Fixed(30),
            Some(LengthDistribution::Normal { mean: 9.0, stddev: 3.0 }),
            5,
        );
        let (short, long) = (short.text(short.size(3)), long.text(long.size(3)));
        assert!(long.starts_with(&format!("{short} ")), "{short:?} against {long:?}");
    }

    #[test]
    fn no_two_entries_share_their_first_words() {
        for seed in 0..20 {
            let first_words: HashSet<String> = texts(&fixed(1, seed), 500..500 + 2048).into_iter().collect();
            assert_eq!(first_words.len(), 2048, "seed {seed}");
            let first_pairs: HashSet<String> = texts(&fixed(2, seed), 0..30_000).into_iter().collect();
            assert_eq!(first_pairs.len(), 30_000, "seed {seed}");
        }
        let prompts = fixed(3, 9);
        assert_eq!(
            HashSet::<String>::from_iter(texts(&prompts, [0, 1 << 22, 1 << 24, 1 << 31, u32::MAX].into_iter())).len(),
            5
        );
    }

    #[test]
    fn words_are_drawn_evenly() {
        let mut counts = vec![0u32; words::LEN];
        for text in texts(&fixed(1003, 3), 0..200) {
            for word in text.split(' ').skip(LEADING_WORDS as usize) {
                counts[words::words().binary_search(&word).expect("a word of the table")] += 1;
            }
        }
        let mean = 200_000.0 / words::LEN as f64;
        let chi_square: f64 = counts.iter().map(|&n| (f64::from(n) - mean).powi(2) / mean).sum();
        // 2047 degrees of freedom: mean 2047, standard deviation 64. The seed is fixed, so this is no lottery.
        assert!((1700.0..2400.0).contains(&chi_square), "chi-square {chi_square}");
    }

    #[test]
    fn the_estimate_of_bytes_is_near_the_truth() {
        let total: usize = words::words().iter().map(|word| word.len() + 1).sum();
        assert!(total <= MEAN_BYTES_PER_TOKEN * words::LEN && total > (MEAN_BYTES_PER_TOKEN - 1) * words::LEN);
    }

    fn dataset(turns: LengthDistribution) -> Synthetic {
        Synthetic {
            turns,
            turn_delay: DelayDistribution::fixed(40.0),
            ..Synthetic::of_single_turns(20, LengthDistribution::Fixed(12), None, 5)
        }
    }

    #[test]
    fn the_first_turn_of_a_conversation_is_the_prompt_of_its_entry_however_many_follow() {
        let one: Vec<Conversation<'_>> = dataset(LengthDistribution::Fixed(1)).conversations().collect();
        let three: Vec<Conversation<'_>> = dataset(LengthDistribution::Fixed(3)).conversations().collect();
        assert_eq!(
            one.iter().map(|c| c.turns[0].text.clone()).collect::<Vec<_>>(),
            texts(&fixed(12, 5), 0..20)
        );
        for (short, long) in one.iter().zip(&three) {
            assert_eq!((&short.id, &short.turns[0]), (&long.id, &long.turns[0]));
            assert_eq!(short.turns[0].delay, Nanos::ZERO);
            assert!(long.turns[1..].iter().all(|turn| turn.delay == Nanos::from_millis(40)));
            let texts: HashSet<&str> = long.turns.iter().map(|turn| &*turn.text).collect();
            assert_eq!(texts.len(), 3, "no turn repeats another");
        }
    }

    #[test]
    fn texts_behind_the_first_have_lengths_and_words_of_their_own() {
        let isl = LengthDistribution::Normal {
            mean: 20.0,
            stddev: 5.0,
        };
        let dataset = |batch_size| Synthetic {
            batch_size,
            turns: LengthDistribution::Fixed(2),
            ..Synthetic::of_single_turns(30, isl.clone(), Some(LengthDistribution::Fixed(4)), 5)
        };
        let one: Vec<Conversation<'_>> = dataset(1).conversations().collect();
        let two: Vec<Conversation<'_>> = dataset(2).conversations().collect();
        let three: Vec<Conversation<'_>> = dataset(3).conversations().collect();
        let more = |turn: &Turn<'_>| turn.written.as_deref().expect("several texts").more_texts.clone();
        let mut lengths = Vec::new();
        for (at, three) in three.iter().enumerate() {
            for (turn, made) in three.turns.iter().enumerate() {
                let first = &one[at].turns[turn];
                assert_eq!(
                    (&made.text, made.output_tokens),
                    (&first.text, first.output_tokens),
                    "the first is what it was"
                );
                assert_eq!(first.written, None);
                let texts = more(made);
                assert_eq!(
                    texts[..1],
                    more(&two[at].turns[turn])[..],
                    "so are others when there are more"
                );
                let words = |text: &str| text.split(' ').count();
                let all = words(&made.text) + texts.iter().map(|text| words(text)).sum::<usize>();
                assert_eq!(made.input_tokens, Some(all as u32));
                lengths.push([words(&made.text), words(&texts[0]), words(&texts[1])]);
            }
        }
        assert!(
            (0..2).all(|place| lengths.iter().any(|of_one| of_one[place] != of_one[2])),
            "lengths are drawn one by one: {lengths:?}"
        );
        let texts: Vec<String> = three.iter().flat_map(|made| made.turns.iter().flat_map(more)).collect();
        let distinct: HashSet<&String> = texts.iter().collect();
        assert_eq!((texts.len(), distinct.len()), (120, 120));
        let sizes: u64 = dataset(3).sizes().map(|size| u64::from(size.input_tokens)).sum();
        let made = three.iter().flat_map(|made| &made.turns);
        assert_eq!(
            sizes,
            made.map(|turn| u64::from(turn.input_tokens.expect("made")))
                .sum::<u64>()
        );
        let again: Vec<Conversation<'_>> = dataset(3).conversations_in(7..9).collect();
        assert_eq!(again, three[7..9]);
    }

    #[test]
    fn sizes_are_those_of_the_turns_and_numbers_of_turns_vary_as_drawn() {
        let dataset = dataset(LengthDistribution::Normal { mean: 4.0, stddev: 2.0 });
        let conversations: Vec<Conversation<'_>> = dataset.conversations().collect();
        let turns: Vec<usize> = conversations.iter().map(|c| c.turns.len()).collect();
        assert!(turns.iter().all(|&count| count >= 1) && turns.iter().any(|count| *count != turns[0]));
        let counted: Vec<u32> = conversations
            .iter()
            .flat_map(|c| c.turns.iter().map(|turn| turn.input_tokens.unwrap()))
            .collect();
        assert_eq!(
            dataset.sizes().map(|size| size.input_tokens).collect::<Vec<_>>(),
            counted
        );
        let again: Vec<Conversation<'_>> = dataset.conversations().collect();
        assert_eq!(again, conversations);
    }

    #[test]
    fn lengths_that_belong_together_are_drawn_together_turn_by_turn() {
        let pair = |isl, osl| LengthPair {
            isl: LengthDistribution::Fixed(isl),
            osl: LengthDistribution::Fixed(osl),
        };
        let paired = Synthetic {
            lengths: Lengths::Paired(Shares::new([(60.0, pair(8, 3)), (40.0, pair(24, 9))])),
            ..dataset(LengthDistribution::Fixed(200))
        };
        let sizes: Vec<(u32, Option<u32>)> = paired
            .sizes()
            .map(|size| (size.input_tokens, size.output_tokens))
            .collect();
        let short = sizes.iter().filter(|size| **size == (8, Some(3))).count();
        let long = sizes.iter().filter(|size| **size == (24, Some(9))).count();
        assert_eq!(
            short + long,
            4000,
            "no length of one pair stands beside one of the other"
        );
        // The standard deviation is 31.
        assert!(short.abs_diff(2400) < 120, "{short} of 4,000");
        assert!(
            sizes
                .chunks(200)
                .all(|turns| turns.iter().any(|size| size != &turns[0])),
            "turns of one conversation differ"
        );
    }

    /// Prints the cost of making prompts; a figure that depends on the machine is not asserted.
    #[test]
    fn a_thousand_prompts_of_512_tokens() {
        let begin = Instant::now();
        let bytes: usize = texts(&fixed(512, 1), 0..1000).iter().map(String::len).sum();
        println!("1,000 prompts of 512 tokens: {:?}, {bytes} bytes", begin.elapsed());
        assert!(bytes > 2_000_000);
    }
}
