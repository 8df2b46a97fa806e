//! What a dataset is made of, wherever it comes from: conversations of turns.

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
}

/// The turns that one session sends, in order; each request carries the history of those before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// Identity in artifacts: `session_id` in `inputs.json`, `conversation_id` in records. Unique in its dataset.
    pub id: String,
    /// At least one.
    pub turns: Vec<Turn>,
}
