//! What conversations begin with before they say anything of their own: a beginning from a pool, a system message, a message of context.
//!
//! ```text
//! system message    the same for all conversations
//! user context      of each conversation its own, a message by itself
//! first turn        a text of the pool, a space, the turn's own text; of several texts each has a beginning of its own
//! ```
//!
//! What requests share is what a server's prefix cache can answer, so nothing is shared by accident: texts of the pool differ from their first word
//! on, as contexts do, and what stands behind them is what would have been sent without them, byte by byte.

use std::sync::Arc;

use rand_xoshiro::rand_core::Rng;

use super::conversation::{Conversation, Turn, Written};
use super::distribution::LengthDistribution;
use super::stream_root;
use super::synthetic::{Prompts, SizedPrompt, entry_stream};
use super::words;

/// What all conversations of a dataset begin with. The default is nothing.
#[derive(Debug, Clone, Default)]
pub struct Opening {
    pool: Option<Pool>,
    system: Option<System>,
    context: Option<Made>,
}

/// Texts of one length.
#[derive(Debug, Clone)]
struct Made {
    prompts: Prompts,
    tokens: u32,
}

impl Made {
    fn new(tokens: u32, seed: u64, purpose: &str) -> Self {
        Self {
            prompts: Prompts::new(LengthDistribution::Fixed(tokens), None, stream_root(seed, purpose)),
            tokens,
        }
    }

    fn text(&self, entry: u32) -> String {
        self.prompts.text(SizedPrompt {
            entry,
            input_tokens: self.tokens,
            output_tokens: None,
        })
    }
}

/// Beginnings of which each conversation draws one.
#[derive(Debug, Clone)]
struct Pool {
    size: u32,
    texts: Made,
    draws: u64,
}

/// The message of the system, and its tokens if it was made to a length.
#[derive(Debug, Clone)]
struct System {
    text: Arc<str>,
    tokens: Option<u32>,
}

impl Opening {
    /// First turns begin with one of `size` texts of `tokens` tokens, both at least 1: each conversation draws its own from `seed`.
    #[must_use]
    pub fn with_pool(self, size: u32, tokens: u32, seed: u64) -> Self {
        Self {
            pool: Some(Pool {
                size,
                texts: Made::new(tokens, seed, "prefix text"),
                draws: stream_root(seed, "prefix"),
            }),
            ..self
        }
    }

    /// The system says this.
    #[must_use]
    pub fn with_system(self, text: &str) -> Self {
        Self {
            system: Some(System {
                text: text.into(),
                tokens: None,
            }),
            ..self
        }
    }

    /// The system says so many tokens, at least 1, that `seed` gives.
    #[must_use]
    pub fn with_system_of(self, tokens: u32, seed: u64) -> Self {
        Self {
            system: Some(System {
                text: Made::new(tokens, seed, "system text").text(0).into(),
                tokens: Some(tokens),
            }),
            ..self
        }
    }

    /// Each conversation has a message of so many tokens, at least 1, in front of its first turn, which no other has.
    #[must_use]
    pub fn with_context_of(self, tokens: u32, seed: u64) -> Self {
        Self {
            context: Some(Made::new(tokens, seed, "context text")),
            ..self
        }
    }

    /// How many different texts of so many tokens a pool can have.
    pub fn pool_size_max(tokens: u32) -> u32 {
        // The first three words number the texts of a pool, and three are more than there are numbers.
        1u32.checked_shl(tokens.saturating_mul(words::BITS)).unwrap_or(u32::MAX)
    }

    /// Tokens in front of the text of first turns.
    pub fn pool_tokens(&self) -> u32 {
        self.pool.as_ref().map_or(0, |pool| pool.texts.tokens)
    }

    /// Tokens of the message in front of first turns.
    pub fn context_tokens(&self) -> u32 {
        self.context.as_ref().map_or(0, |context| context.tokens)
    }

    /// What the system says.
    pub fn system(&self) -> Option<&str> {
        self.system.as_ref().map(|system| &*system.text)
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.pool.is_none() && self.system.is_none() && self.context.is_none()
    }

    /// Puts it in front of the conversation with this number. Numbers of tokens grow by what is put there, or are unknown if that is.
    pub fn open(&self, number: u32, conversation: &mut Conversation<'_>) {
        for (at, turn) in conversation.turns.iter_mut().enumerate() {
            // Turns that say everything themselves say this too.
            if let (Some(system), true) = (&self.system, at == 0 || says_everything(turn)) {
                let own = &mut written(turn).system;
                *own = Some(match own.take() {
                    Some(own) => format!("{}\n\n{own}", system.text),
                    None => String::from(&*system.text),
                });
                add_tokens(turn, system.tokens);
            }
        }
        let Some(first) = conversation.turns.first_mut() else {
            return;
        };
        if let Some(context) = &self.context {
            written(first).context = Some(context.text(number));
            add_tokens(first, Some(context.tokens));
        }
        if let Some(pool) = &self.pool {
            first.text = pool.in_front_of(number, 0, &first.text).into();
            add_tokens(first, Some(pool.texts.tokens));
            let more = first.written.as_deref_mut().map(|written| &mut written.more_texts);
            let more = more.into_iter().flatten();
            let sum: u32 = (1..)
                .zip(more)
                .map(|(place, text)| {
                    *text = pool.in_front_of(number, place, text);
                    pool.texts.tokens
                })
                .fold(0, u32::saturating_add);
            add_tokens(first, Some(sum));
        }
    }
}

impl Pool {
    /// A text of the conversation with this number, behind the beginning that is drawn for its place in the message.
    fn in_front_of(&self, number: u32, place: u32, own: &str) -> String {
        let mut text = self.texts.text(self.draw(number, place));
        text.push(' ');
        text.push_str(own);
        text
    }

    /// Which beginning a text of a conversation has.
    fn draw(&self, number: u32, place: u32) -> u32 {
        let root = self.draws.wrapping_add(u64::from(place) << 32);
        let bits = entry_stream(root, number).next_u64();
        // The upper half of the product is even over the pool to within 2^-32 (Lemire 2019, without the rejection).
        ((u128::from(bits) * u128::from(self.size)) >> u64::BITS) as u32
    }
}

fn says_everything(turn: &Turn<'_>) -> bool {
    let written = turn.written.as_deref();
    written.is_some_and(|written| written.is_complete || written.messages.is_some())
}

fn written<'t>(turn: &'t mut Turn<'_>) -> &'t mut Written {
    turn.written.get_or_insert_default()
}

fn add_tokens(turn: &mut Turn<'_>, more: Option<u32>) {
    let sum = turn
        .input_tokens
        .zip(more)
        .and_then(|(own, more)| own.checked_add(more));
    turn.input_tokens = sum;
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use super::*;
    use crate::dataset::{FileConversations, FileFormat, FileOptions, Synthetic, read_records};

    const SEED: u64 = 5;

    fn synthetic(entries: u32) -> Vec<Conversation<'static>> {
        let dataset = Synthetic {
            turns: LengthDistribution::Fixed(2),
            ..Synthetic::of_single_turns(entries, LengthDistribution::Fixed(6), None, SEED)
        };
        dataset.conversations().collect()
    }

    fn opened(opening: &Opening, mut conversations: Vec<Conversation<'static>>) -> Vec<Conversation<'static>> {
        for (number, conversation) in (0..).zip(&mut conversations) {
            opening.open(number, conversation);
        }
        conversations
    }

    fn count(text: &str) -> usize {
        text.split(' ').count()
    }

    #[test]
    fn a_beginning_of_the_pool_stands_in_front_of_the_prompt_that_would_be_there_without_it() {
        let opening = Opening::default().with_pool(3, 4, SEED);
        let (bare, with) = (synthetic(60), opened(&opening, synthetic(60)));
        let mut drawn: BTreeMap<String, u32> = BTreeMap::new();
        for (bare, with) in bare.iter().zip(&with) {
            let (own, first) = (&bare.turns[0], &with.turns[0]);
            let beginning = first
                .text
                .strip_suffix(&*own.text)
                .and_then(|text| text.strip_suffix(' '));
            let beginning = beginning.unwrap_or_else(|| panic!("{:?} against {:?}", first.text, own.text));
            assert_eq!(count(beginning), 4);
            assert_eq!(first.input_tokens, Some(10));
            assert_eq!(with.turns[1], bare.turns[1], "later turns are what they were");
            *drawn.entry(beginning.to_owned()).or_default() += 1;
        }
        assert_eq!(drawn.len(), 3);
        // A third of 60 is 20, with a standard deviation of 3.7. The seed is fixed, so this is no lottery.
        assert!(drawn.values().all(|times| (9..=31).contains(times)), "{drawn:?}");
        let first_words: HashSet<&str> = drawn.keys().filter_map(|text| text.split(' ').next()).collect();
        assert_eq!(first_words.len(), 3, "texts of a pool differ from their first word on");
    }

    #[test]
    fn each_of_several_texts_has_a_beginning_of_its_own() {
        let dataset = Synthetic {
            batch_size: 3,
            ..Synthetic::of_single_turns(20, LengthDistribution::Fixed(6), None, SEED)
        };
        let opening = Opening::default().with_pool(4, 2, SEED);
        let made = opened(&opening, dataset.conversations().collect());
        let drawn = |place: usize| -> Vec<String> {
            let beginning = |conversation: &Conversation<'static>| {
                let turn = &conversation.turns[0];
                assert_eq!(turn.input_tokens, Some(3 * (2 + 6)));
                let text = match place {
                    0 => &*turn.text,
                    _ => &turn.written.as_deref().expect("more texts").more_texts[place - 1],
                };
                assert_eq!(count(text), 2 + 6);
                text.split(' ').take(2).collect::<Vec<_>>().join(" ")
            };
            made.iter().map(beginning).collect()
        };
        let all: HashSet<String> = (0..3).flat_map(drawn).collect();
        assert_eq!(all.len(), 4, "all from one pool");
        assert!(drawn(0) != drawn(1) && drawn(1) != drawn(2));
    }

    #[test]
    fn what_is_drawn_depends_on_the_seed_and_the_number_alone() {
        let texts = |size, tokens, seed| -> Vec<String> {
            let opening = Opening::default().with_pool(size, tokens, seed);
            let made = opened(&opening, synthetic(20)).into_iter();
            made.map(|conversation| conversation.turns[0].text.to_string())
                .collect()
        };
        assert_eq!(texts(7, 4, 1), texts(7, 4, 1));
        assert_ne!(texts(7, 4, 1), texts(7, 4, 2));
        let mut last = synthetic(20).remove(19);
        Opening::default().with_pool(7, 4, 1).open(19, &mut last);
        assert_eq!(last.turns[0].text, texts(7, 4, 1)[19]);
        // Longer texts begin as shorter ones do.
        for (short, long) in texts(7, 4, 1).iter().zip(texts(7, 9, 1)) {
            let short: Vec<&str> = short.split(' ').take(4).collect();
            assert!(long.starts_with(&short.join(" ")), "{short:?} against {long}");
        }
    }

    #[test]
    fn a_pool_has_as_many_different_texts_as_words_allow() {
        assert_eq!(Opening::pool_size_max(1), 2048);
        assert_eq!(Opening::pool_size_max(2), 1 << 22);
        assert_eq!(Opening::pool_size_max(3), u32::MAX);
        assert_eq!(Opening::pool_size_max(u32::MAX), u32::MAX);
        let pool = Made::new(1, 3, "prefix text");
        let texts: HashSet<String> = (0..2048).map(|number| pool.text(number)).collect();
        assert_eq!(texts.len(), 2048);
        let pool = Opening::default().with_pool(u32::MAX, 1, 3).pool.expect("a pool");
        assert!((0..1000).any(|number| pool.draw(number, 0) > u32::MAX / 2));
    }

    #[test]
    fn the_system_says_the_same_to_all_and_every_context_is_its_own() {
        let opening = Opening::default().with_system_of(8, SEED).with_context_of(3, SEED);
        let made = opened(&opening, synthetic(50));
        let first = |conversation: &Conversation<'static>| {
            let first = conversation.turns[0].clone();
            let written = first.written.expect("a system message");
            (
                written.system.expect("it is there"),
                written.context.expect("it is there"),
            )
        };
        let systems: HashSet<String> = made.iter().map(|made| first(made).0).collect();
        let contexts: HashSet<String> = made.iter().map(|made| first(made).1).collect();
        assert_eq!((systems.len(), contexts.len()), (1, 50));
        assert!(systems.iter().all(|text| count(text) == 8) && contexts.iter().all(|text| count(text) == 3));
        for (bare, made) in synthetic(50).iter().zip(&made) {
            assert_eq!(
                (&made.turns[0].text, made.turns[0].input_tokens),
                (&bare.turns[0].text, Some(6 + 8 + 3))
            );
            assert_eq!(
                made.turns[1], bare.turns[1],
                "a history says it again, and no later turn"
            );
        }
    }

    #[test]
    fn a_message_of_the_users_own_leaves_the_tokens_unknown() {
        let opening = Opening::default().with_system("Be brief.\nAlways.");
        let made = opened(&opening, synthetic(1)).remove(0);
        let written = made.turns[0].written.as_deref().expect("a system message");
        assert_eq!(written.system.as_deref(), Some("Be brief.\nAlways."));
        assert_eq!(
            (made.turns[0].input_tokens, made.turns[1].input_tokens),
            (None, Some(6))
        );
    }

    #[test]
    fn records_keep_their_own_system_message_and_those_that_say_everything_say_this_too() {
        let systems = |format, records: &[&'static str]| -> Vec<Option<String>> {
            let options = FileOptions { format, block_size: 4 };
            let sessions = read_records(records.iter().copied(), options).expect("records");
            let mut make = FileConversations::new(None, 4, 1);
            let mut conversation = make.make(sessions.into_iter().next().expect("a session"));
            Opening::default().with_system("S").open(0, &mut conversation);
            let system = |turn: Turn<'_>| turn.written.and_then(|written| written.system);
            conversation.turns.into_iter().map(system).collect()
        };
        let own = r#"{"turns": [{"role": "system", "text": "own"}, {"text": "a"}, {"text": "b"}]}"#;
        assert_eq!(
            systems(FileFormat::MultiTurn, &[own]),
            [Some("S\n\nown".to_owned()), None]
        );
        let complete = [
            r#"{"text": "a", "session_id": "s"}"#,
            r#"{"text": "b", "session_id": "s"}"#,
        ];
        assert_eq!(
            systems(FileFormat::SingleTurn, &complete),
            [Some("S".to_owned()), Some("S".to_owned())]
        );
        let mixed = [
            r#"{"input_length": 5, "session_id": "s"}"#,
            r#"{"messages": [{"role": "user", "content": "b"}], "session_id": "s"}"#,
            r#"{"input_length": 5, "session_id": "s"}"#,
        ];
        assert_eq!(
            systems(FileFormat::MooncakeTrace, &mixed),
            [Some("S".to_owned()), Some("S".to_owned()), None]
        );
    }
}
