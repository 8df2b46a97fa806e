//! From what happened on a connection to the failure that the record shows.

use std::io;

use crate::credit::CutCause;
use crate::http::{FailureKind, HttpError, ResponseFailure};
use crate::record::{ErrorDetail, FailureClass};
use crate::tls;
use crate::units::Nanos;

fn detail(class: FailureClass, code: Option<u16>, message: String) -> ErrorDetail {
    ErrorDetail {
        class,
        code,
        type_name: class.type_name().to_owned(),
        message,
    }
}

/// What helps when every local port is taken, for messages.
const PORT_REMEDIES: &str = "use more addresses of this host (--source-address), widen net.ipv4.ip_local_port_range, or keep \
                                        connections open (connection_reuse: pooled)";

/// No connection, for the address that it was to come from cannot be had.
pub(super) fn binding(errno: i32) -> ErrorDetail {
    let error = io::Error::from_raw_os_error(errno);
    detail(
        FailureClass::ConnectFailed,
        None,
        format!("bind: the source address cannot be used ({error}); it must stay an address of this host"),
    )
}

/// No connection.
pub(super) fn connecting(errno: i32) -> ErrorDetail {
    let error = io::Error::from_raw_os_error(errno);
    match errno {
        libc::ECONNREFUSED => detail(FailureClass::ConnectionRefused, None, format!("connect: {error}")),
        libc::EADDRNOTAVAIL | libc::EADDRINUSE => detail(
            FailureClass::LocalPortsExhausted,
            None,
            format!("connect: no local port is left for this destination ({error}): {PORT_REMEDIES}"),
        ),
        libc::EMFILE | libc::ENFILE => detail(
            FailureClass::DescriptorsExhausted,
            None,
            format!("socket: no file descriptor is left ({error}); raise the limit (ulimit -n)"),
        ),
        _ => detail(FailureClass::ConnectFailed, None, format!("connect: {error}")),
    }
}

/// The connection broke while a request was on it.
pub(super) fn broken(errno: i32) -> ErrorDetail {
    let error = io::Error::from_raw_os_error(errno);
    detail(
        FailureClass::ConnectionReset,
        None,
        format!("connection broke: {error}"),
    )
}

/// No agreement on TLS.
pub(super) fn handshake(error: &rustls::Error) -> ErrorDetail {
    let reason = tls::explain(error);
    detail(FailureClass::TlsFailed, None, format!("TLS handshake: {reason}"))
}

/// The server closed the connection in the middle of the handshake.
pub(super) fn handshake_cut() -> ErrorDetail {
    detail(
        FailureClass::TlsFailed,
        None,
        "TLS handshake: the server closed the connection; does it speak TLS on this port?".to_owned(),
    )
}

/// The connection does not carry the TLS that was agreed on.
pub(super) fn tls(error: &rustls::Error) -> ErrorDetail {
    detail(FailureClass::TlsFailed, None, format!("TLS: {}", tls::explain(error)))
}

/// Bytes that are no response, or an end in the wrong place.
pub(super) fn protocol(error: HttpError) -> ErrorDetail {
    let class = match error {
        HttpError::Disconnected => FailureClass::ServerDisconnected,
        HttpError::IncompleteBody => FailureClass::IncompleteBody,
        error if error.is_too_large() => FailureClass::TooLarge,
        _ => FailureClass::MalformedResponse,
    };
    detail(class, None, error.to_string())
}

/// A complete response that is not a success.
pub(super) fn response(failure: ResponseFailure) -> ErrorDetail {
    let class = match failure.kind {
        FailureKind::Status => FailureClass::HttpStatus,
        FailureKind::StreamError => FailureClass::StreamError,
        FailureKind::TruncatedStream => FailureClass::TruncatedStream,
        FailureKind::NoContent => FailureClass::NoContent,
        FailureKind::InvalidBody => FailureClass::InvalidBody,
        FailureKind::ContentEncoding => FailureClass::ContentEncoding,
    };
    let type_name = failure.type_name.unwrap_or_else(|| class.type_name().to_owned());
    ErrorDetail {
        class,
        code: failure.code,
        type_name,
        message: failure.message,
    }
}

/// The request outlived its timeout.
pub(super) fn timeout(limit: Nanos) -> ErrorDetail {
    detail(
        FailureClass::Timeout,
        None,
        format!("no complete response within the request timeout of {limit}"),
    )
}

/// The phase's `cancellation` disconnected.
pub(super) fn cancelled(delay: Nanos) -> ErrorDetail {
    detail(
        FailureClass::Cancelled,
        Some(499),
        format!("Request cancelled {:.3}s after being sent", delay.as_secs_f64()),
    )
}

/// The engine cut the request.
pub(super) fn truncated(cause: CutCause) -> ErrorDetail {
    let message = match cause {
        CutCause::Over => "request cut by the client at the end of the drain or of the run".to_owned(),
        CutCause::Silent { .. } => {
            "request cut by the client: it received nothing for too long while its phase drained (--drain-stall-timeout)"
                .to_owned()
        }
        CutCause::Stalled { timeout } => format!(
            "request cut by the client: its phase stalled, nothing was sent and no byte received for {} (--stall-timeout)",
            timeout.in_words()
        ),
    };
    detail(FailureClass::Truncated, None, message)
}
