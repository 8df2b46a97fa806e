//! What formulas may ask of a finished request, wherever it is stored.
//!
//! The same formula serves the per-record export, which has the whole [`RequestRecord`](crate::record::RequestRecord), and the report, which has compact columns.

use crate::record::{ImageFacts, RecordView};
use crate::units::Nanos;

/// The measured facts of one successful request. Spans are nanoseconds.
pub(crate) trait Fields {
    /// Start to last content.
    fn latency(&self) -> u64;
    /// Start to first content.
    fn first_content(&self) -> Option<u64>;
    /// First content to second.
    fn second_content_gap(&self) -> Option<u64>;
    /// Start to the first content that is not reasoning.
    fn first_output(&self) -> Option<u64>;
    /// Start to the end of the body.
    fn end(&self) -> u64;
    /// Intended start to the end of the body.
    fn since_intended(&self) -> u64;
    /// Start to connected; 0 on a connection that was there already.
    fn connecting(&self) -> u64;
    /// Start to the hand-over of the last request byte.
    fn sending(&self) -> u64;
    /// Start to the first byte of the body.
    fn first_body(&self) -> u64;
    /// Whether the connection had carried an earlier request.
    fn connection_reused(&self) -> bool;
    /// Reads that carried body bytes.
    fn chunks_received(&self) -> u64;
    /// Response body bytes.
    fn bytes_received(&self) -> u64;
    /// The server's count of input tokens.
    fn prompt_tokens(&self) -> Option<u64>;
    /// The server's count of output tokens, reasoning included.
    fn completion_tokens(&self) -> Option<u64>;
    /// The server's total.
    fn total_tokens(&self) -> Option<u64>;
    /// Reasoning tokens among the output tokens.
    fn reasoning_tokens(&self) -> Option<u64>;
    /// Input tokens from the server's prefix cache.
    fn cache_read_tokens(&self) -> Option<u64>;
    /// Tokens of the whole input, earlier turns of the session included, where known.
    fn input_tokens(&self) -> Option<u64>;
    /// Bytes of earlier turns in the body.
    fn history_bytes(&self) -> u64;
    /// Facts of the turn of the dataset that was sent.
    fn image(&self) -> ImageFacts;
}

/// From the start of a request to `instant`; `None` if it did not happen.
fn span_to(view: &RecordView<'_>, instant: Nanos) -> Option<u64> {
    (instant != Nanos::ZERO).then(|| instant.since(view.record.start).0)
}

impl Fields for RecordView<'_> {
    fn latency(&self) -> u64 {
        self.record.last_content.since(self.record.start).0
    }

    fn first_content(&self) -> Option<u64> {
        span_to(self, self.record.first_content)
    }

    fn second_content_gap(&self) -> Option<u64> {
        self.second_gap
    }

    fn first_output(&self) -> Option<u64> {
        span_to(self, self.record.first_output)
    }

    fn end(&self) -> u64 {
        self.record.end.since(self.record.start).0
    }

    fn since_intended(&self) -> u64 {
        self.record.end.since(self.record.intended).0
    }

    fn connecting(&self) -> u64 {
        span_to(self, self.record.connected).unwrap_or(0)
    }

    fn sending(&self) -> u64 {
        self.record.send_end.since(self.record.start).0
    }

    fn first_body(&self) -> u64 {
        self.record.first_body.since(self.record.start).0
    }

    fn connection_reused(&self) -> bool {
        self.record.connection_reused
    }

    fn chunks_received(&self) -> u64 {
        u64::from(self.record.chunks_received)
    }

    fn bytes_received(&self) -> u64 {
        self.record.bytes_received
    }

    fn prompt_tokens(&self) -> Option<u64> {
        self.record.usage.prompt_tokens.map(u64::from)
    }

    fn completion_tokens(&self) -> Option<u64> {
        self.record.usage.completion_tokens.map(u64::from)
    }

    fn total_tokens(&self) -> Option<u64> {
        self.record.usage.total_tokens.map(u64::from)
    }

    fn reasoning_tokens(&self) -> Option<u64> {
        self.record.usage.reasoning_tokens.map(u64::from)
    }

    fn cache_read_tokens(&self) -> Option<u64> {
        self.record.usage.cache_read_tokens.map(u64::from)
    }

    fn input_tokens(&self) -> Option<u64> {
        let own = self.image.input_tokens?;
        Some(u64::from(own) + u64::from(self.record.history_tokens?))
    }

    fn history_bytes(&self) -> u64 {
        u64::from(self.record.history_bytes)
    }

    fn image(&self) -> ImageFacts {
        self.image
    }
}
