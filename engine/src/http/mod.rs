//! The client side of HTTP/1.1 and of the APIs of inference servers as values: bytes in, facts out.
//!
//! ```text
//! bytes -> head -> body framing (length | chunked | until close) -> event stream -> event -> Feed
//!                                                                 \ whole body  -> answer /
//! ```
//!
//! Nothing here reads a socket or a clock. The facts are the same for every split of the input into reads; only which
//! [`Feed`] reports them differs, and that is what the caller stamps with the time of its read. Bytes are judged where
//! they lie; what straddles two reads is carried in a buffer of the core's [`ScratchPool`].

mod body;
mod chunk_shape;
mod chunked;
mod encode;
mod endpoint;
mod error;
mod extractor;
mod failure;
mod head;
mod json;
mod response;
mod scratch;
mod sse;
mod stream;
mod usage;

pub use encode::{format_uuid, patch_ids};
pub use endpoint::Protocol;
pub use error::HttpError;
pub use extractor::Extractor;
pub use failure::{FailureKind, ResponseFailure};
pub use head::{HeadFields, fields_of};
pub use response::{Feed, MAX_BODY_BYTES, ResponseReader};
pub use scratch::{ScratchPool, Tap, Wanted};
pub use sse::MAX_EVENT_BYTES;
pub use usage::TokenUsage;
