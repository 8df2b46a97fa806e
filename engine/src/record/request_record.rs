//! One finished request: fixed-size fields, then the gaps of its stream.
//!
//! Times are readings of the monotonic clock; [`Nanos::ZERO`] means "did not happen".

use super::http_trace::HttpTrace;
use super::outcome::Outcome;
use super::transcript::Transcript;
use crate::id::{CoreId, PhaseId};
use crate::units::Nanos;

/// Token counts that the server reported in its last non-empty usage object; `None` where a field was absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Input tokens.
    pub prompt_tokens: Option<u32>,
    /// Output tokens, reasoning included.
    pub completion_tokens: Option<u32>,
    /// The server's own total.
    pub total_tokens: Option<u32>,
    /// Reasoning tokens among the output tokens.
    pub reasoning_tokens: Option<u32>,
    /// Input tokens that came from the server's prefix cache.
    pub cache_read_tokens: Option<u32>,
}

/// One finished request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRecord {
    /// Phase that issued the credit. Never derived from time.
    pub phase: PhaseId,
    /// Core that ran it.
    pub core: CoreId,
    /// How it ended.
    pub outcome: Outcome,
    /// Issue number within the phase, from 0 (`session_num`).
    pub sequence: u64,
    /// Number of the session within the phase, from 0: where each has one request, the same as `sequence`.
    pub session: u64,
    /// Turn of the dataset that was sent.
    pub image: u32,
    /// Tokens of the session's earlier turns, that is of its messages and of the answers to them; `None` if a server did not count one.
    pub history_tokens: Option<u32>,
    /// Bytes of those in the body, beside the turn's own.
    pub history_bytes: u32,
    /// Index into the core's [`ErrorTable`](super::ErrorTable); meaningful unless the outcome is a success.
    pub error: u32,
    /// HTTP status, 0 if no head arrived.
    pub status: u16,
    /// Whether the connection had carried an earlier request.
    pub connection_reused: bool,
    /// Whether the request was resent because a reused connection died before the first response byte.
    pub resent: bool,
    /// The stream carried a finish reason but no `[DONE]`.
    pub missing_done: bool,
    /// When the schedule wanted the request to start; for closed loops, when its slot took the credit.
    pub intended: Nanos,
    /// When the core took the credit for a free slot.
    pub issued: Nanos,
    /// Just before the request was handed to the kernel, connecting included.
    pub start: Nanos,
    /// Connection established (new connections only).
    pub connected: Nanos,
    /// Last request byte handed to the kernel.
    pub send_end: Nanos,
    /// First read with a byte of the body, as far as the body kept to the rules.
    pub first_body: Nanos,
    /// Response head complete.
    pub head: Nanos,
    /// First content.
    pub first_content: Nanos,
    /// First content that is not reasoning.
    pub first_output: Nanos,
    /// Last content.
    pub last_content: Nanos,
    /// Body fully read, or the error or cut happened.
    pub end: Nanos,
    /// Events (or the one body) that carried content.
    pub content_events: u32,
    /// Request bytes, head included.
    pub bytes_sent: u32,
    /// Response body bytes.
    pub bytes_received: u64,
    /// Reads that carried body bytes.
    pub chunks_received: u32,
    /// Server-side token counts.
    pub usage: Usage,
    /// Gaps between consecutive contents, in nanoseconds: `content_events - 1` entries, the first is the time to second token.
    pub gaps: Vec<u64>,
    /// What the server answered, if that is kept.
    pub transcript: Option<Box<Transcript>>,
    /// How it went over the wire, if that is kept.
    pub trace: Option<Box<HttpTrace>>,
}

/// A stored record that cannot be read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("record at byte {at} is damaged")]
pub struct DecodeError {
    /// Offset in the block.
    pub at: usize,
}
