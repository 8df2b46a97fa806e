//! Request bytes, rendered once: three parts that are sent back to back.
//!
//! ```text
//! head      request line and headers that are the same for every request          shared by all that go to one URL
//! id block  X-Request-ID, X-Correlation-ID, X-Session-Affinity                    patched per request
//! tail      Content-Length, blank line, body                                      shared per turn of the dataset
//! ```
//!
//! The body of a conversation's later turn holds the turn's own message. A session puts its history in front of that, at
//! [`RequestImage::message`], and so makes a body of its own.

use std::borrow::Cow;
use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;

use super::{Conversations, Sampler};
use crate::units::Nanos;

/// One turn of the dataset as request bytes.
#[derive(Debug, Clone)]
pub struct RequestImage {
    /// `Content-Length: N`, the blank line and the body.
    pub tail: Arc<[u8]>,
    /// Bytes of the body alone: the last `body_len` bytes of `tail`.
    pub body_len: u32,
    /// Where in the body the turn's own message stands: a whole JSON object, first and last of `messages`. Empty if the body has no such place.
    pub message: Range<u32>,
    /// Tokens of the turn's own message, where it is known without a tokenizer.
    pub input_tokens: Option<u32>,
    /// Output tokens that the request asks for (`max_completion_tokens`).
    pub requested_output_tokens: Option<u32>,
    /// The conversation that it is a turn of, see [`RequestImages::conversations`].
    pub conversation: u32,
    /// Position in the conversation, from 0.
    pub turn: u32,
    /// From the return of the turn before to this one.
    pub delay: Nanos,
    /// When it is due on the dataset's own clock.
    pub timestamp: Option<Nanos>,
}

impl RequestImage {
    /// The body: what `inputs.json` shows.
    pub fn body(&self) -> &[u8] {
        &self.tail[self.tail.len() - self.body_len as usize..]
    }

    /// Whether the history of its session belongs into its body. Otherwise the request says everything itself, and is remembered by no later one.
    pub fn has_history(&self) -> bool {
        !self.message.is_empty()
    }

    /// The turn's own message.
    pub fn message(&self) -> &[u8] {
        &self.body()[self.message.start as usize..self.message.end as usize]
    }

    /// Begins the request that has `history` in front of the turn's own message: appends what takes the place of the first bytes of the tail, and
    /// returns how many these are. `history` is messages, each with a comma behind it.
    pub fn begin_with_history(&self, history: &[u8], out: &mut Vec<u8>) -> usize {
        let before = &self.body()[..self.message.start as usize];
        let length = self.body_len as usize + history.len();
        out.reserve(64 + before.len() + history.len());
        // Writing to memory cannot fail.
        let _ = write!(out, "Content-Length: {length}\r\n\r\n");
        out.extend_from_slice(before);
        out.extend_from_slice(history);
        self.tail.len() - self.body_len as usize + before.len()
    }
}

/// The headers that differ from request to request.
#[derive(Debug, Clone)]
pub struct IdBlock {
    /// Header lines with 36 placeholder bytes for each id.
    pub template: Box<[u8]>,
    /// Where the request id stands.
    pub request_id_at: usize,
    /// Where the correlation id stands, each time it occurs.
    pub correlation_id_at: Vec<usize>,
}

/// Longest id block: connections keep the patched copy inline.
pub const ID_BLOCK_CAPACITY: usize = 256;

/// The request bytes of the whole dataset. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RequestImages {
    /// Request line and headers common to all requests to a URL, without the blank line: one head for each URL of the endpoint.
    pub heads: Arc<[Arc<[u8]>]>,
    /// Headers that carry ids.
    pub ids: Arc<IdBlock>,
    /// One image per turn, conversation by conversation; never empty.
    pub entries: Arc<[RequestImage]>,
    /// Which images are whose.
    pub conversations: Arc<Conversations>,
    /// In which order sessions take conversations, over all phases. A fixed schedule has an order of its own.
    pub order: Sampler,
    /// What a session puts around an answer to make a message of it.
    pub answer_frame: AnswerFrame,
}

/// The bytes around an answer, in the messages of a later turn. The answer is raw JSON without quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerFrame {
    /// Up to the opening quote.
    pub before: &'static [u8],
    /// From the closing quote to the comma behind the message.
    pub behind: &'static [u8],
}

impl AnswerFrame {
    /// Role and content.
    pub const PLAIN: Self = Self {
        before: br#"{"role":"assistant","content":""#,
        behind: br#""},"#,
    };
    /// The same with the type of the item.
    pub const TYPED: Self = Self {
        before: br#"{"role":"assistant","content":""#,
        behind: br#"","type":"message"},"#,
    };
}

impl RequestImages {
    /// Identity of the conversation that an image belongs to.
    pub fn conversation_id(&self, image: usize) -> Cow<'_, str> {
        self.conversations.id(self.entries[image].conversation)
    }
}
