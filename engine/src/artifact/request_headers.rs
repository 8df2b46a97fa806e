//! The headers of requests as artifacts show them: in the order in which they were sent, with their secrets masked.

use super::jsonl::{RecordIds, push, push_id, push_text};
use crate::plan::{REDACTED, RequestImages, is_credential_header};

/// The header that says which server of several a session is bound to; masked, as with the peer.
const AFFINITY: &str = "X-Session-Affinity";

/// The headers of all requests to one server, but for the length of their bodies.
#[derive(Debug)]
pub(super) struct RequestHeaders(Vec<Header>);

#[derive(Debug)]
struct Header {
    name: String,
    value: HeaderValue,
}

#[derive(Debug)]
enum HeaderValue {
    Fixed(String),
    RequestId,
    CorrelationId,
}

impl RequestHeaders {
    /// Those of requests that begin with this head of the plan's.
    pub(super) fn of(images: &RequestImages, head: &[u8]) -> Self {
        let mut headers = Vec::new();
        for line in String::from_utf8_lossy(head).lines().skip(1) {
            let Some((name, value)) = line.split_once(": ") else {
                continue;
            };
            let is_secret = is_credential_header(name) || name.eq_ignore_ascii_case(AFFINITY);
            let value = if is_secret { REDACTED } else { value };
            headers.push(Header {
                name: name.to_owned(),
                value: HeaderValue::Fixed(value.to_owned()),
            });
        }
        let ids = &images.ids;
        let mut at = 0;
        for line in String::from_utf8_lossy(&ids.template).split_inclusive("\r\n") {
            let Some((name, _)) = line.split_once(": ") else {
                continue;
            };
            let value = if name.eq_ignore_ascii_case(AFFINITY) {
                HeaderValue::Fixed(REDACTED.to_owned())
            } else if at + name.len() + 2 == ids.request_id_at {
                HeaderValue::RequestId
            } else {
                HeaderValue::CorrelationId
            };
            at += line.len();
            headers.push(Header {
                name: name.to_owned(),
                value,
            });
        }
        Self(headers)
    }

    /// The same but for the header of that name.
    pub(super) fn without(mut self, name: &str) -> Self {
        self.0.retain(|header| !header.name.eq_ignore_ascii_case(name));
        self
    }

    /// Appends them as members of an object, with commas between them.
    pub(super) fn push(&self, ids: RecordIds<'_>, out: &mut Vec<u8>) {
        for (at, Header { name, value }) in self.0.iter().enumerate() {
            push(out, if at > 0 { "," } else { "" });
            push_text(out, name);
            push(out, ":");
            match value {
                HeaderValue::Fixed(value) => push_text(out, value),
                HeaderValue::RequestId => push_id(out, ids.0),
                HeaderValue::CorrelationId => push_id(out, ids.1),
            }
        }
    }
}
