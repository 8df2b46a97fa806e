//! What a dataset is made of, wherever it comes from: conversations of turns.

use serde_json::{Map, Value};

use crate::units::Nanos;

/// One message of the user, and the answer that it asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Turn {
    /// The message, as the server will read it: not escaped for anything.
    pub text: String,
    /// Tokens of the message, where they are known without a tokenizer.
    pub input_tokens: Option<u32>,
    /// Output tokens to ask for, at least 1; `None` leaves the end to the server.
    pub output_tokens: Option<u32>,
    /// From the return of the turn before to this turn. Without meaning for the first turn of a conversation.
    pub delay: Nanos,
    /// When the turn is due on the dataset's own clock; only a fixed schedule looks at it.
    pub timestamp: Option<Nanos>,
    /// What a file says of it beside the text, if anything.
    pub written: Option<Box<Written>>,
}

/// What a turn from a file can have beside its text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    /// A system message in front of the turn's own.
    pub system: Option<String>,
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
pub struct Conversation {
    /// Identity in artifacts: `session_id` in `inputs.json`, `conversation_id` in records. Unique in its dataset.
    pub id: String,
    /// At least one.
    pub turns: Vec<Turn>,
}
