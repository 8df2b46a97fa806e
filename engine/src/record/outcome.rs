//! What became of a request, by class.

/// The four ways a request ends. `sent = success + error + cancelled + truncated`, always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Outcome {
    /// A complete, well-formed answer with content.
    Success = 0,
    /// Anything that went wrong, including an answer with an error status.
    Error = 1,
    /// Disconnected on purpose by the phase's `cancellation`; code 499.
    Cancelled = 2,
    /// Cut by the engine: the drain ran out of time, or the run was interrupted.
    Truncated = 3,
}

impl Outcome {
    /// All outcomes, in the order of their discriminants.
    pub const ALL: [Self; 4] = [Self::Success, Self::Error, Self::Cancelled, Self::Truncated];

    /// The outcome of a stored discriminant.
    pub fn from_u8(value: u8) -> Option<Self> {
        Self::ALL.get(usize::from(value)).copied()
    }
}

/// Why a request failed. Small and `Copy`; the text that belongs to it is interned in an [`ErrorTable`](super::ErrorTable).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FailureClass {
    /// The server's host refused the connection.
    ConnectionRefused = 1,
    /// No connection for another reason (unreachable, no route).
    ConnectFailed = 2,
    /// The peer reset the connection.
    ConnectionReset = 3,
    /// The peer closed the connection before a complete response head.
    ServerDisconnected = 4,
    /// The body ended before its announced end.
    IncompleteBody = 5,
    /// Bytes that are not HTTP/1.1.
    MalformedResponse = 6,
    /// A response status outside 200 to 299; redirects included, they are never followed.
    HttpStatus = 7,
    /// The request outlived the request timeout.
    Timeout = 8,
    /// An error object or an `error` event inside a stream.
    StreamError = 9,
    /// A stream that ended without a finish reason and without `[DONE]`.
    TruncatedStream = 10,
    /// A complete answer without any content.
    NoContent = 11,
    /// A success answer whose body is not the JSON that the endpoint promises.
    InvalidBody = 12,
    /// A content coding that was not asked for.
    ContentEncoding = 13,
    /// A head, line or body above the engine's bounds.
    TooLarge = 14,
    /// The phase's `cancellation` disconnected.
    Cancelled = 15,
    /// The engine cut the request at the end of a drain or of the run.
    Truncated = 16,
    /// No connection: every local port for the destination is taken.
    LocalPortsExhausted = 17,
    /// No connection: the process may open no more files.
    DescriptorsExhausted = 18,
    /// The TLS handshake failed, or the bytes of a connection are not the TLS that was agreed on.
    TlsFailed = 19,
}

impl FailureClass {
    /// All classes, in the order of their discriminants, which count from 1.
    const ALL: [Self; 19] = [
        Self::ConnectionRefused,
        Self::ConnectFailed,
        Self::ConnectionReset,
        Self::ServerDisconnected,
        Self::IncompleteBody,
        Self::MalformedResponse,
        Self::HttpStatus,
        Self::Timeout,
        Self::StreamError,
        Self::TruncatedStream,
        Self::NoContent,
        Self::InvalidBody,
        Self::ContentEncoding,
        Self::TooLarge,
        Self::Cancelled,
        Self::Truncated,
        Self::LocalPortsExhausted,
        Self::DescriptorsExhausted,
        Self::TlsFailed,
    ];

    /// The class of a stored discriminant.
    pub(super) fn from_u8(value: u8) -> Option<Self> {
        Self::ALL.get(usize::from(value).checked_sub(1)?).copied()
    }

    /// The `type` of error objects in artifacts. Status errors use the reason phrase instead.
    ///
    /// Names that users of the peer filter on are kept; the rest are descriptive.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::ConnectionRefused => "ConnectionRefusedError",
            Self::ConnectFailed => "ConnectError",
            Self::ConnectionReset => "ConnectionResetError",
            Self::ServerDisconnected => "ServerDisconnectedError",
            Self::IncompleteBody => "ClientPayloadError",
            Self::MalformedResponse => "MalformedResponseError",
            Self::HttpStatus => "HttpStatusError",
            Self::Timeout => "RequestTimeoutError",
            Self::StreamError => "SSEResponseError",
            Self::TruncatedStream => "TruncatedStreamError",
            Self::NoContent => "InvalidInferenceResultError",
            Self::InvalidBody => "InvalidResponseBodyError",
            Self::ContentEncoding => "ContentEncodingError",
            Self::TooLarge => "ResponseTooLargeError",
            Self::Cancelled => "RequestCancellationError",
            Self::Truncated => "RequestTruncated",
            Self::LocalPortsExhausted => "LocalPortsExhaustedError",
            Self::DescriptorsExhausted => "DescriptorsExhaustedError",
            Self::TlsFailed => "TlsError",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_comes_back_from_its_discriminant() {
        for class in FailureClass::ALL {
            assert_eq!(FailureClass::from_u8(class as u8), Some(class));
        }
        let beyond = FailureClass::ALL.len() as u8 + 1;
        assert_eq!((FailureClass::from_u8(0), FailureClass::from_u8(beyond)), (None, None));
    }
}
