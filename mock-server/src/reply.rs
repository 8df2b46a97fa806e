//! Response heads, whole responses, and what each fault does to them.

use serde::Serialize;
use serde_json::json;

use crate::fault::Fault;
use crate::sse::write_to;

/// What happens to the connection behind an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It serves the next request.
    Keep,
    /// It is closed in good order, once the client has had time to read.
    Close,
    /// It is closed at once (FIN).
    Cut,
    /// It is reset at once (RST).
    Reset,
}

impl Ending {
    /// The ending of an answer that was sent in full, unless a fault cuts it off.
    pub(crate) fn of(client_closes: bool, fault: Option<&Fault>) -> Ending {
        match fault {
            Some(Fault::TruncateBody | Fault::SilentClose) => Ending::Cut,
            Some(Fault::CloseAfter) => Ending::Close,
            _ if client_closes => Ending::Close,
            _ => Ending::Keep,
        }
    }
}

/// How the end of a body is announced.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Length {
    /// `content-length`.
    Bytes(u64),
    /// `transfer-encoding: chunked`.
    Chunked,
}

/// Appends a response head. `extra` is whole header lines.
pub(crate) fn head(
    out: &mut Vec<u8>,
    status: u16,
    content_type: &str,
    length: Length,
    client_closes: bool,
    fault: Option<&Fault>,
    extra: &str,
) {
    write_to(
        out,
        format_args!(
            "HTTP/1.1 {status} {}\r\ncontent-type: {content_type}\r\n",
            reason(status)
        ),
    );
    match (length, fault) {
        // One page more than there is, so that no buffering on the way can hide the gap.
        (Length::Bytes(bytes), Some(Fault::TruncateBody)) => {
            write_to(out, format_args!("content-length: {}\r\n", bytes + 4_096));
        }
        (Length::Bytes(bytes), _) => write_to(out, format_args!("content-length: {bytes}\r\n")),
        (Length::Chunked, _) => out.extend_from_slice(b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n"),
    }
    if fault == Some(&Fault::Gzip) {
        out.extend_from_slice(b"content-encoding: gzip\r\n");
    }
    if Ending::of(client_closes, fault) == Ending::Close {
        out.extend_from_slice(b"connection: close\r\n");
    }
    out.extend_from_slice(extra.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends a 103 head, which says nothing about the answer.
pub(crate) fn interim(out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n");
}

/// A response that is sent whole.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    content_type: &'static str,
    /// Whole header lines.
    extra: String,
}

/// The media type of nearly every answer.
const JSON: &str = "application/json";

impl Reply {
    /// JSON of `value` with status 200.
    pub(crate) fn json(value: &impl Serialize) -> Reply {
        let body = serde_json::to_vec(value).expect("the records of this server are plain data");
        Reply {
            status: 200,
            body,
            content_type: JSON,
            extra: String::new(),
        }
    }

    /// Text that is JSON already.
    pub(crate) fn rendered(body: Vec<u8>) -> Reply {
        Reply {
            status: 200,
            body,
            content_type: JSON,
            extra: String::new(),
        }
    }

    /// A page in the text format of Prometheus.
    pub(crate) fn prometheus(page: String) -> Reply {
        Reply {
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            ..Reply::rendered(page.into_bytes())
        }
    }

    /// An error in the shape that OpenAI's API gives it.
    pub(crate) fn error(status: u16, message: &str) -> Reply {
        let kind = match status {
            401 => "authentication_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            500.. => "internal_server_error",
            _ => "invalid_request_error",
        };
        let error = json!({ "error": { "message": message, "type": kind, "param": null, "code": status } });
        Reply {
            status,
            ..Reply::json(&error)
        }
    }

    /// The same answer under a script: its status and, where the script has one or the status is another kind of answer, another body.
    pub(crate) fn scripted(self, status: u16, body: Option<&str>) -> Reply {
        match body {
            Some(body) => Reply {
                status,
                body: body.as_bytes().to_vec(),
                content_type: self.content_type,
                extra: String::new(),
            },
            // Has no body by definition (RFC 9110, 15.3.5).
            None if status == 204 => Reply {
                body: Vec::new(),
                status,
                ..self
            },
            None if (200..300).contains(&status) => Reply { status, ..self },
            None => Reply::error(status, "scripted answer"),
        }
    }

    /// The same with one more header line.
    pub(crate) fn with_header(mut self, name: &str, value: &str) -> Reply {
        self.extra.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    /// Appends head and body.
    pub(crate) fn write(&self, out: &mut Vec<u8>, client_closes: bool, fault: Option<&Fault>) {
        let length = Length::Bytes(self.body.len() as u64);
        head(
            out,
            self.status,
            self.content_type,
            length,
            client_closes,
            fault,
            &self.extra,
        );
        out.extend_from_slice(&self.body);
    }
}

/// What a fault does instead of any answer of the route.
#[derive(Debug)]
pub(crate) enum Instead {
    /// Another answer, and what follows it.
    Reply(Reply),
    /// Bytes that are not HTTP, then FIN.
    Garbage,
    /// No byte at all, and the connection ends so.
    Nothing(Ending),
    /// No byte at all, and the connection stays.
    Hang,
}

impl Instead {
    /// What `fault` puts in the place of the answer, if that is what it does.
    pub(crate) fn of(fault: Option<&Fault>) -> Option<Instead> {
        Some(match fault? {
            Fault::Status(code) => Instead::Reply(Reply::error(*code, "scripted fault")),
            Fault::Redirect => Instead::Reply(
                Reply::error(307, "scripted fault").with_header("location", "/v1/chat/completions?moved"),
            ),
            Fault::ResetBeforeHead => Instead::Nothing(Ending::Reset),
            Fault::CloseBeforeHead => Instead::Nothing(Ending::Cut),
            Fault::Garbage => Instead::Garbage,
            Fault::Hang => Instead::Hang,
            _ => return None,
        })
    }
}

/// The bytes of [`Instead::Garbage`].
pub(crate) const GARBAGE: &[u8] = b"\x00\x01 this is not HTTP \xff\xfe\r\n\r\n";

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        307 => "Temporary Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        422 => "Unprocessable Content",
        423 => "Locked",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Scripted",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(reply: &Reply, client_closes: bool, fault: Option<Fault>) -> String {
        let mut out = Vec::new();
        reply.write(&mut out, client_closes, fault.as_ref());
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn an_error_has_its_status_and_the_shape_of_the_api() {
        let text = written(
            &Reply::error(404, "no \"route\"").with_header("allow", "GET"),
            false,
            None,
        );
        let (head, body) = text.split_once("\r\n\r\n").expect("head and body");
        assert!(
            head.starts_with("HTTP/1.1 404 Not Found\r\n") && head.contains("\r\nallow: GET"),
            "{head}"
        );
        assert!(
            head.contains(&format!("\r\ncontent-length: {}\r\n", body.len())),
            "{head}"
        );
        let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(body["error"]["message"], "no \"route\"");
        assert_eq!(body["error"]["type"], "not_found_error");
    }

    #[test]
    fn the_connection_header_follows_the_ending() {
        let reply = Reply::json(&json!({}));
        assert!(!written(&reply, false, None).contains("connection"));
        assert!(written(&reply, true, None).contains("connection: close\r\n"));
        assert!(written(&reply, false, Some(Fault::CloseAfter)).contains("connection: close\r\n"));
        assert!(!written(&reply, false, Some(Fault::SilentClose)).contains("connection"));
    }

    #[test]
    fn truncated_bodies_promise_more_and_gzip_is_declared() {
        let reply = Reply::json(&json!({}));
        assert!(written(&reply, false, Some(Fault::TruncateBody)).contains("content-length: 4098\r\n"));
        assert!(written(&reply, false, Some(Fault::Gzip)).contains("content-encoding: gzip\r\n"));
    }
}
