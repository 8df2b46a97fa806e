//! Request bytes, rendered once: three parts that are sent back to back.
//!
//! ```text
//! head      request line and headers that are the same for every request          shared by all
//! id block  X-Request-ID, X-Correlation-ID, X-Session-Affinity                    patched per request
//! tail      Content-Length, blank line, body                                      shared per dataset entry
//! ```

use std::sync::Arc;

/// One dataset entry as request bytes.
#[derive(Debug, Clone)]
pub struct RequestImage {
    /// `Content-Length: N`, the blank line and the body.
    pub tail: Arc<[u8]>,
    /// Bytes of the body alone: the last `body_len` bytes of `tail`.
    pub body_len: u32,
    /// Input sequence length in tokens, where it is known without a tokenizer.
    pub input_tokens: Option<u32>,
    /// Output tokens that the request asks for (`max_completion_tokens`).
    pub requested_output_tokens: Option<u32>,
    /// Identity of the conversation: `session_id` in `inputs.json`, `conversation_id` in records.
    pub conversation_id: String,
}

impl RequestImage {
    /// The body: what `inputs.json` shows.
    pub fn body(&self) -> &[u8] {
        &self.tail[self.tail.len() - self.body_len as usize..]
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
    /// Request line and headers common to all requests, without the blank line.
    pub head: Arc<[u8]>,
    /// Headers that carry ids.
    pub ids: Arc<IdBlock>,
    /// One image per dataset entry; never empty. Requests take them in order, wrapping, across phases.
    pub entries: Arc<[RequestImage]>,
}
