//! Where a body ends (RFC 9112, section 6.3).

use super::chunked::ChunkedDecoder;
use super::error::HttpError;

/// The framing of one body and how much of it is still to come.
#[derive(Debug)]
pub(super) enum Body {
    /// So many bytes are still to come; zero is the end, also for statuses that never have a body.
    Length(u64),
    /// The chunks say.
    Chunked(ChunkedDecoder),
    /// Everything until the peer closes.
    UntilClose,
}

impl Body {
    /// Whether the body is complete without the peer having to close.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(decoder) => decoder.is_done(),
            Self::UntilClose => false,
        }
    }

    /// The next span of payload: bytes consumed, and the payload among them.
    pub(super) fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<(usize, &'a [u8]), HttpError> {
        match self {
            Self::Length(left) => {
                let take = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= take as u64;
                Ok((take, &bytes[..take]))
            }
            Self::Chunked(decoder) => decoder.next(bytes),
            Self::UntilClose => Ok((bytes.len(), bytes)),
        }
    }
}
