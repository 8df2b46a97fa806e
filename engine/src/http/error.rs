//! Ways in which bytes fail to be a response. `Copy`, so that the hot path can count them by kind.

use super::response::MAX_BODY_BYTES;
use super::sse::MAX_EVENT_BYTES;
use super::{chunked, head};

/// Why a response could not be read. After any of these the connection is out of step and must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The bytes are not a status line and header lines.
    #[error("response head is not HTTP/1.1")]
    MalformedHead,
    /// The head, interim heads before it included, outgrew its bound.
    #[error("response head is longer than {} bytes", head::MAX_HEAD_BYTES)]
    HeadTooLarge,
    /// More header lines than the engine looks at.
    #[error("response head has more than {} header lines", head::MAX_HEADERS)]
    TooManyHeaders,
    /// Status 101 although no request asks for another protocol.
    #[error("server switched protocols (status 101) without being asked")]
    UnexpectedUpgrade,
    /// A `Content-Length` that is not a decimal number of 64 bits.
    #[error("content-length is not a number")]
    BadContentLength,
    /// Two lengths that differ, or a length beside a transfer coding.
    #[error("content-length contradicts another content-length or a transfer-encoding")]
    ConflictingLength,
    /// A transfer coding other than one `chunked`, or any in an HTTP/1.0 response.
    #[error("transfer-encoding is not exactly one 'chunked' of an HTTP/1.1 response")]
    BadTransferEncoding,
    /// Bytes that break the chunked framing.
    #[error("chunked body is malformed")]
    BadChunk,
    /// A chunk size line or the trailer section outgrew its bound.
    #[error("chunk size line or trailers are longer than {} bytes", chunked::MAX_LINE_BYTES)]
    ChunkLineTooLarge,
    /// A body that has to be held whole outgrew its bound.
    #[error("response body is larger than {} MiB", MAX_BODY_BYTES >> 20)]
    BodyTooLarge,
    /// One event of a stream outgrew its bound.
    #[error("event is larger than {} MiB", MAX_EVENT_BYTES >> 20)]
    EventTooLarge,
    /// The peer closed before a complete head.
    #[error("server closed the connection before a complete response head")]
    Disconnected,
    /// The peer closed before the announced end of the body.
    #[error("incomplete body: server closed the connection before the end of the response body")]
    IncompleteBody,
}

impl HttpError {
    /// Whether a bound of the engine was passed, as opposed to bytes that are wrong by themselves.
    pub fn is_too_large(self) -> bool {
        matches!(
            self,
            Self::HeadTooLarge
                | Self::TooManyHeaders
                | Self::ChunkLineTooLarge
                | Self::BodyTooLarge
                | Self::EventTooLarge
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_bound() {
        assert_eq!(
            HttpError::HeadTooLarge.to_string(),
            "response head is longer than 65536 bytes"
        );
        assert_eq!(HttpError::EventTooLarge.to_string(), "event is larger than 1 MiB");
        assert_eq!(
            HttpError::BodyTooLarge.to_string(),
            "response body is larger than 64 MiB"
        );
    }
}
