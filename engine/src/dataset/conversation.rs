//! What a dataset is made of, wherever it comes from: conversations of turns.

use std::borrow::Cow;

use rand_xoshiro::rand_core::Rng;
use serde_json::{Map, Value};

use super::stream_root;
use super::synthetic::entry_stream;
use crate::units::Nanos;

/// One message of the user, and the answer that it asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Turn<'a> {
    /// The message, as the server will read it: not escaped for anything.
    pub text: Cow<'a, str>,
    /// Tokens of the message, where they are known without a tokenizer.
    pub input_tokens: Option<u32>,
    /// Output tokens to ask for, at least 1; `None` leaves the end to the server.
    pub output_tokens: Option<u32>,
    /// From the return of the turn before to this turn. Without meaning for the first turn of a conversation.
    pub delay: Nanos,
    /// When the turn is due on the dataset's own clock; only a fixed schedule looks at it.
    pub timestamp: Option<Nanos>,
    /// What there is of it beside the text, if anything.
    pub written: Option<Box<Written>>,
}

/// What a turn can have beside its text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    /// A system message in front of the turn's own.
    pub system: Option<String>,
    /// A message of the user in front of the turn's own, behind the system's.
    pub context: Option<String>,
    /// Who speaks, in place of the user.
    pub role: Option<Box<str>>,
    /// Texts after the first, in the same message.
    pub more_texts: Vec<String>,
    /// What the text is a query to: passages to be ranked.
    pub passages: Vec<String>,
    /// All messages of the request as a JSON list, in place of the text.
    pub messages: Option<Box<str>>,
    /// Definitions of tools, as a JSON list.
    pub tools: Option<Box<str>>,
    /// Further fields of the body; they win over all others.
    pub extra: Option<Box<Map<String, Value>>>,
    /// The request says everything itself: no history goes in front of it.
    pub is_complete: bool,
}

/// The turns that one session sends, in order; each request carries the history of those before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation<'a> {
    /// Identity in artifacts: `session_id` in `inputs.json`, `conversation_id` in records. Unique in its dataset. Without one it has that which
    /// [`ConversationIds`] makes of its number.
    pub id: Option<Box<str>>,
    /// At least one.
    pub turns: Vec<Turn<'a>>,
}

/// Identities of conversations that have none of their own, in the form of random UUIDs (RFC 9562, version 4).
///
/// They are made when artifacts are written: nothing that is sent needs them, and making a million takes a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConversationIds {
    root: u64,
}

impl ConversationIds {
    /// Those of a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            root: stream_root(seed, "conversation"),
        }
    }

    /// Those that [`root`](Self::root) stands for.
    pub fn of_root(root: u64) -> Self {
        Self { root }
    }

    /// All that they are made from.
    pub fn root(self) -> u64 {
        self.root
    }

    /// The identity of a conversation, by its number in the dataset.
    pub fn of(self, number: u32) -> String {
        let mut stream = entry_stream(self.root, number);
        let high = (stream.next_u64() & !0xF000) | 0x4000;
        let low = (stream.next_u64() & !(0b11 << 62)) | (0b10 << 62);
        let mut text = String::with_capacity(36);
        for at in 0..32u32 {
            if matches!(at, 8 | 12 | 16 | 20) {
                text.push('-');
            }
            let half = if at < 16 { high } else { low };
            let digit = (half >> (60 - 4 * (at % 16))) & 0xF;
            text.push(char::from(b"0123456789abcdef"[digit as usize]));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn identities_are_uuids_and_differ() {
        let ids: HashSet<String> = (0..1000).map(|number| ConversationIds::new(1).of(number)).collect();
        assert_eq!(ids.len(), 1000);
        // Those that a seed gave before: files of earlier runs are compared with those of later ones.
        assert_eq!(ConversationIds::new(1).of(0), "0a144a81-3e8b-46aa-8508-e2152a070fcc");
        for id in ids {
            let groups: Vec<usize> = id.split('-').map(str::len).collect();
            assert_eq!(groups, [8, 4, 4, 4, 12], "{id}");
            assert_eq!(id.as_bytes()[14], b'4', "version of {id}");
            assert!(b"89ab".contains(&id.as_bytes()[19]), "variant of {id}");
        }
    }
}
