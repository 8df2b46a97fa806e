//! `endpoint.headers` and `endpoint.session_header`: names and values that can stand in a request.

use super::decode::Field;
use super::diagnostic::quote;
use super::tree::Position;

/// Headers that frame the message or the connection, and are therefore the engine's.
const FRAMING: [&str; 8] = [
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "expect",
    "upgrade",
    "te",
    "trailer",
];

/// The header that names the record of a request, and therefore differs from request to request.
const REQUEST_ID: &str = "x-request-id";

/// Generated headers that cannot carry the session id.
const GENERATED: [&str; 5] = ["host", "user-agent", "accept", "accept-encoding", "content-type"];

/// Headers that follow from the endpoint type; a user's value is not sent.
pub(crate) const FIXED: [&str; 2] = ["accept", "content-type"];

/// The headers in the order of the file, without those that have mistakes.
pub(super) fn decode(field: &Field<'_>, session_header: Option<&str>) -> Vec<(String, String)> {
    let Some(entries) = field.free_entries("a mapping of header names and values") else {
        return Vec::new();
    };
    let mut headers: Vec<(String, String)> = Vec::new();
    let mut places: Vec<Position> = Vec::new();
    for (name, name_at, value) in entries {
        let fault = name_fault(name).or_else(|| {
            session_header
                .is_some_and(|session| session.eq_ignore_ascii_case(name))
                .then(|| "`session_header` sets this header; remove one".to_owned())
        });
        if let Some(fault) = fault {
            value.sink.report(name_at, &value.path, fault);
            continue;
        }
        if let Some(first) = headers.iter().position(|(known, _)| known.eq_ignore_ascii_case(name)) {
            let message = format!(
                "found this header a second time; it is on {} already; remove one",
                places[first].told()
            );
            value.sink.report(name_at, &value.path, message);
            continue;
        }
        let Some(text) = value.text() else { continue };
        if text.chars().any(|c| c.is_control() && c != '\t') {
            value.report("found a line break or control character; allowed: text on one line");
            continue;
        }
        if FIXED.contains(&name.to_ascii_lowercase().as_str()) {
            value.sink.warn(format!(
                "{}: the header follows from the endpoint; the value of the config is not sent",
                value.path
            ));
        }
        headers.push((name.to_owned(), text.to_owned()));
        places.push(name_at);
    }
    headers
}

/// The name that replaces `X-Correlation-ID`.
pub(super) fn session_header(field: &Field<'_>) -> Option<String> {
    let name = field.text()?;
    if GENERATED.contains(&name.to_ascii_lowercase().as_str()) {
        field.mistake("a header name that ringload does not set itself, such as X-Session-ID");
        return None;
    }
    match name_fault(name) {
        None => Some(name.to_owned()),
        Some(fault) => {
            field.report(fault);
            None
        }
    }
}

/// Why a name cannot be a header of a request.
fn name_fault(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    if !is_token(name) {
        Some(format!(
            "found the header name {}; allowed: letters, digits and !#$%&'*+-.^_`|~",
            quote(name)
        ))
    } else if FRAMING.contains(&lower.as_str()) {
        Some(format!("ringload sets the header {} itself; remove it", quote(name)))
    } else if lower == REQUEST_ID {
        Some(format!(
            "not supported by ringload yet: a fixed value for {}, which differs from request to request; remove it",
            quote(name)
        ))
    } else {
        None
    }
}

/// `token` of RFC 9110, section 5.6.2.
fn is_token(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}
