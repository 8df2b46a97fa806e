//! Request line and headers.

use std::sync::Arc;

use super::{RenderError, RenderInputs};
use crate::plan::{ID_BLOCK_CAPACITY, IdBlock, Target};

/// Where an id will stand: an id has the length of a UUID in text form.
const ID_PLACEHOLDER: &str = "00000000-0000-0000-0000-000000000000";

const REQUEST_ID: &str = "X-Request-ID";
const CORRELATION_ID: &str = "X-Correlation-ID";
const SESSION_AFFINITY: &str = "X-Session-Affinity";

/// Generated headers that the endpoint decides and that a user's header of the same name does not replace.
const DECIDED_BY_ENDPOINT: [&str; 2] = ["Accept", "Content-Type"];

/// Headers that a user cannot set, and what would break.
const RESERVED: [(&str, &str); 8] = [
    ("Content-Length", "it frames the body"),
    ("Transfer-Encoding", "it frames the body"),
    ("Trailer", "it frames the body"),
    ("Connection", "connections belong to the engine's pool"),
    ("Keep-Alive", "connections belong to the engine's pool"),
    ("Upgrade", "requests stay HTTP/1.1"),
    ("Expect", "bodies are sent without waiting for an interim answer"),
    (REQUEST_ID, "it differs from request to request and names the record"),
];

/// For each target the request line and the headers that are the same for every request, each line with its end, without the blank line.
pub(super) fn render_heads(inputs: &RenderInputs<'_>) -> Result<Vec<Arc<[u8]>>, RenderError> {
    check_headers(inputs)?;
    let head = |target| Ok(Arc::from(render_head(inputs, target)?));
    inputs.targets.iter().map(head).collect()
}

fn render_head(inputs: &RenderInputs<'_>, target: &Target) -> Result<Vec<u8>, RenderError> {
    let visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if !target.path.starts_with('/') || !visible(&target.path) {
        return Err(RenderError::Path {
            path: target.path.clone(),
        });
    }
    if target.authority.is_empty() || !visible(&target.authority) {
        return Err(RenderError::Authority {
            authority: target.authority.clone(),
        });
    }
    let accept = if inputs.streaming {
        "text/event-stream"
    } else {
        "application/json"
    };
    let generated = [
        ("Host", target.authority.as_str()),
        ("User-Agent", concat!("ringload/", env!("CARGO_PKG_VERSION"))),
        ("Accept", accept),
        // The engine does not decode: a compressed answer would hide when its tokens arrived.
        ("Accept-Encoding", "identity"),
        ("Content-Type", "application/json"),
    ];
    let mut head = format!("POST {} HTTP/1.1\r\n", target.path).into_bytes();
    for (name, value) in generated {
        match user_value(inputs, name) {
            Some(own) if !contains(&DECIDED_BY_ENDPOINT, name) => push_line(&mut head, name, own),
            _ => push_line(&mut head, name, value),
        }
    }
    if inputs.close_after {
        // RFC 9112, 9.6: a client that will not use the connection again says so. The server can then close first and keep the waiting time of
        // the closed connection on its side.
        push_line(&mut head, "Connection", "close");
    }
    for (at, (name, value)) in inputs.headers.iter().enumerate() {
        let generated_too = generated.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        let repeated_later = inputs.headers[at + 1..]
            .iter()
            .any(|(later, _)| later.eq_ignore_ascii_case(name));
        if !generated_too && !repeated_later {
            push_line(&mut head, name, value);
        }
    }
    Ok(head)
}

/// The headers that carry ids. A correlation id or affinity of the user's own stands in the head and leaves its line here out.
pub(super) fn render_id_block(inputs: &RenderInputs<'_>) -> Result<IdBlock, RenderError> {
    let session_header = inputs.session_header.unwrap_or(CORRELATION_ID);
    check_session_header(session_header)?;

    let mut template = Vec::new();
    let mut push_id = |name: &str| {
        push_line(&mut template, name, ID_PLACEHOLDER);
        template.len() - "\r\n".len() - ID_PLACEHOLDER.len()
    };
    let request_id_at = push_id(REQUEST_ID);
    let mut correlation_id_at = Vec::new();
    let mut names = vec![session_header];
    if !session_header.eq_ignore_ascii_case(SESSION_AFFINITY) {
        names.push(SESSION_AFFINITY);
    }
    for name in names {
        if user_value(inputs, name).is_none() {
            correlation_id_at.push(push_id(name));
        }
    }
    if template.len() > ID_BLOCK_CAPACITY {
        return Err(RenderError::IdBlockTooLong { length: template.len() });
    }
    Ok(IdBlock {
        template: template.into_boxed_slice(),
        request_id_at,
        correlation_id_at,
    })
}

fn check_headers(inputs: &RenderInputs<'_>) -> Result<(), RenderError> {
    for (name, value) in inputs.headers {
        if !is_token(name) {
            return Err(RenderError::HeaderName { name: name.clone() });
        }
        // RFC 9110, 5.5: a recipient may take CR, LF and NUL for the end of something; other control characters are never sent on purpose.
        if let Some(byte) = value.bytes().find(|byte| byte.is_ascii_control() && *byte != b'\t') {
            return Err(RenderError::HeaderValue {
                name: name.clone(),
                byte,
            });
        }
        if let Some(&(_, reason)) = RESERVED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            return Err(RenderError::HeaderReserved {
                name: name.clone(),
                reason,
            });
        }
    }
    Ok(())
}

fn check_session_header(name: &str) -> Result<(), RenderError> {
    let error = |reason| {
        Err(RenderError::SessionHeader {
            name: name.to_owned(),
            reason,
        })
    };
    if !is_token(name) {
        return error("it is no header name (letters, digits and !#$%&'*+-.^_`|~)");
    }
    let generated = ["Host", "User-Agent", "Accept", "Accept-Encoding", "Content-Type"];
    if contains(&generated, name) || RESERVED.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
        return error("ringload sets that header itself");
    }
    Ok(())
}

/// The last header of that name among the user's own.
fn user_value<'a>(inputs: &RenderInputs<'a>, name: &str) -> Option<&'a str> {
    inputs
        .headers
        .iter()
        .rev()
        .find(|(own, _)| own.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
}

fn contains(names: &[&str], name: &str) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Whether the text is a `token` (RFC 9110, 5.6.2), what a field name has to be.
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

fn push_line(out: &mut Vec<u8>, name: &str, value: &str) {
    for part in [name, ": ", value, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}
