//! Responses that were read to their end and still are failures, with the text that explains them.
//!
//! Nothing here is on the hot path, so texts are owned and JSON is read into trees.

use serde_json::Value;

/// Longest message, in bytes.
pub(super) const MAX_MESSAGE_BYTES: usize = 4096;

/// Longest excerpt of a header field or of an unreadable body inside a message.
const MAX_EXCERPT_BYTES: usize = 512;

/// Longest beginning of a body that has no form to name.
const KIND_BYTES: usize = 60;

/// Code of an error inside a successful response that names none of its own.
const UNNAMED_ERROR_CODE: u16 = 502;

/// Why a complete response is a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// A status outside 200 to 299.
    Status,
    /// A content coding although `identity` was asked for.
    ContentEncoding,
    /// An error object or an `error` event inside a response with a success status.
    StreamError,
    /// A stream that ended without a finish reason and without `[DONE]`.
    TruncatedStream,
    /// A complete answer without any content.
    NoContent,
    /// A body that is neither an event stream nor JSON.
    InvalidBody,
}

/// A complete response that is a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseFailure {
    /// Why.
    pub kind: FailureKind,
    /// The status, or the code of an error inside the response; `None` where the failure has no number.
    pub code: Option<u16>,
    /// The reason phrase of a status failure; other kinds are named by their kind.
    pub type_name: Option<String>,
    /// What the server said or what was missing, at most 4096 bytes.
    pub message: String,
}

impl ResponseFailure {
    /// A failure without a number.
    pub(super) fn plain(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            code: None,
            type_name: None,
            message: message.into(),
        }
    }

    /// A status failure. Its message is completed by [`ResponseFailure::add_body`].
    pub(super) fn status(status: u16, reason: &str) -> Self {
        let standard = || http::StatusCode::from_u16(status).ok()?.canonical_reason();
        let reason = Some(reason).filter(|reason| !reason.is_empty()).or_else(standard);
        Self {
            kind: FailureKind::Status,
            code: Some(status),
            type_name: reason.map(|reason| excerpt(reason.as_bytes())),
            message: String::new(),
        }
    }

    /// Puts the body's text, or the lack of it, in front of the notes made from the head.
    pub(super) fn add_body(&mut self, body: &[u8]) {
        let notes = std::mem::take(&mut self.message);
        let room = match notes.len() {
            0 => MAX_MESSAGE_BYTES,
            len => MAX_MESSAGE_BYTES.saturating_sub(len + 1),
        };
        let text = text_of(body, room);
        self.message = match (text.is_empty(), notes.is_empty()) {
            (false, true) => text,
            (false, false) => format!("{text} {notes}"),
            (true, false) => notes,
            (true, true) => format!("status {} with an empty body", self.code.unwrap_or_default()),
        };
    }

    /// Appends a note to the message.
    pub(super) fn add_note(&mut self, note: &str) {
        if !self.message.is_empty() {
            self.message.push(' ');
        }
        self.message.push_str(note);
    }

    /// A content coding that was not asked for.
    pub(super) fn content_coding(coding: &[u8]) -> Self {
        let message = format!(
            "server sent content-encoding '{}' although the request asked for identity; switch compression off at the server \
             or at the proxy before it",
            excerpt(coding)
        );
        Self::plain(FailureKind::ContentEncoding, message)
    }

    /// A truthy `error` member, given as JSON text.
    pub(super) fn error_member(error: &[u8]) -> Self {
        let (code, message) = explain(error);
        Self {
            kind: FailureKind::StreamError,
            code: Some(code),
            type_name: None,
            message: message.unwrap_or_else(|| text_of(error, MAX_MESSAGE_BYTES)),
        }
    }

    /// An `error` event. A comment beside it is its message; else the data is, or what the data says in JSON.
    pub(super) fn error_event(data: &[u8], error: Option<&[u8]>, comment: Option<&[u8]>) -> Self {
        let (code, message) = explain(error.unwrap_or(data));
        let comment = comment
            .map(|comment| text_of(comment, MAX_MESSAGE_BYTES))
            .filter(|comment| !comment.is_empty());
        let mut message = comment
            .or(message)
            .unwrap_or_else(|| text_of(error.unwrap_or(data), MAX_MESSAGE_BYTES));
        if message.is_empty() {
            message.push_str("error event without a message");
        }
        Self {
            kind: FailureKind::StreamError,
            code: Some(code),
            type_name: None,
            message,
        }
    }

    /// A success body in JSON without the content that is `wanted`, which says what a body with it is like.
    pub(super) fn other_answer(wanted: &str, body: &[u8]) -> Self {
        Self::plain(FailureKind::NoContent, format!("{wanted}; found {}", form_of(body)))
    }

    /// A success body that is not JSON.
    pub(super) fn invalid_body(body: &[u8]) -> Self {
        let message = format!("response body is not JSON: '{}'", excerpt(body));
        Self::plain(FailureKind::InvalidBody, message)
    }
}

/// Longest body whose form is looked at: what is longer is named by its beginning.
const MAX_FORM_BYTES: usize = 64 << 10;

/// Names of an object's keys that a message shows.
const KEYS_SHOWN: usize = 6;

/// What kind of JSON a body is: the same words for all bodies of a kind, so that they are counted as one error.
fn form_of(body: &[u8]) -> String {
    let value = match body.len() {
        ..=MAX_FORM_BYTES => serde_json::from_slice(body).unwrap_or(Value::Null),
        _ => Value::Null,
    };
    match &value {
        Value::Object(object) => {
            let named = ["object", "type"].into_iter().find_map(|key| object.get(key)?.as_str());
            if let Some(name) = named {
                return format!("an object of the kind '{}'", excerpt(name.as_bytes()));
            }
            let keys: Vec<&str> = object.keys().take(KEYS_SHOWN).map(String::as_str).collect();
            match keys.len() {
                0 => "an empty object".to_owned(),
                _ => format!("an object with the keys {}", excerpt(keys.join(", ").as_bytes())),
            }
        }
        Value::Array(items) if items.is_empty() => "an empty list".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        _ => format!("'{}'", text_of(body, KIND_BYTES)),
    }
}

/// Code and message of an error value: members `code` and `message` of an object, or a string itself.
fn explain(json: &[u8]) -> (u16, Option<String>) {
    let value = serde_json::from_slice::<Value>(json).unwrap_or(Value::Null);
    let code = value
        .get("code")
        .and_then(Value::as_u64)
        .and_then(|code| u16::try_from(code).ok())
        .filter(|code| (400..=599).contains(code))
        .unwrap_or(UNNAMED_ERROR_CODE);
    let message = value.get("message").unwrap_or(&value).as_str();
    (
        code,
        message.map(|message| text_of(message.as_bytes(), MAX_MESSAGE_BYTES)),
    )
}

/// A short piece of text from the server, for use inside a sentence.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    text_of(bytes, MAX_EXCERPT_BYTES)
}

/// A location without what it may hold of a login: no user, no password, and of parameters their names alone.
pub(super) fn without_credentials(location: &[u8]) -> Vec<u8> {
    let start = memchr::memmem::find(location, b"://").map_or(0, |at| at + 3);
    let is_end = |&byte: &u8| matches!(byte, b'/' | b'?' | b'#');
    let authority_end = location[start..]
        .iter()
        .position(is_end)
        .map_or(location.len(), |at| start + at);
    let host = memchr::memrchr(b'@', &location[start..authority_end]).map_or(start, |at| start + at + 1);
    let mut shown = [&location[..start], &location[host..]].concat();
    if let Some(query) = memchr::memchr2(b'?', b'#', &shown) {
        let parameters = shown.split_off(query);
        for parameter in parameters.split_inclusive(|&byte| byte == b'&') {
            match memchr::memchr(b'=', parameter) {
                Some(value) => {
                    shown.extend_from_slice(&parameter[..=value]);
                    shown.extend_from_slice(if parameter.ends_with(b"&") { b"..&" } else { b".." });
                }
                None => shown.extend_from_slice(parameter),
            }
        }
    }
    shown
}

/// Bytes as text without blanks around it, cut to `max` bytes at a character.
fn text_of(bytes: &[u8], max: usize) -> String {
    let bytes = bytes.trim_ascii();
    // Room for one more character than can be kept, so that a character cut here is removed below, not replaced.
    let head = &bytes[..bytes.len().min(max + 4)];
    let mut text = String::from_utf8_lossy(head).into_owned();
    if let Some(cut) = (0..=max.min(text.len())).rev().find(|&at| text.is_char_boundary(at)) {
        text.truncate(cut);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_shown_without_what_it_may_hold_of_a_login() {
        for (location, shown) in [
            ("/v2/chat", "/v2/chat"),
            ("http://u:p@h:1/a@b?token=x&n&m=#f", "http://h:1/a@b?token=..&n&m=.."),
            ("//u@h/a", "//u@h/a"),
            ("https://h#access_token=x", "https://h#access_token=.."),
            ("?", "?"),
            ("://@", "://"),
        ] {
            assert_eq!(
                String::from_utf8_lossy(&without_credentials(location.as_bytes())),
                shown,
                "{location}"
            );
        }
    }

    #[test]
    fn h18_a_status_failure_shows_reason_and_body() {
        let mut failure = ResponseFailure::status(404, "Nope");
        failure.add_body(b" {\"detail\":\"no such model\"}\n");
        assert_eq!(failure.type_name.as_deref(), Some("Nope"));
        assert_eq!(
            (failure.code, failure.message.as_str()),
            (Some(404), "{\"detail\":\"no such model\"}")
        );
    }

    #[test]
    fn a_missing_reason_is_the_standard_one_or_none() {
        assert_eq!(
            ResponseFailure::status(503, "").type_name.as_deref(),
            Some("Service Unavailable")
        );
        assert_eq!(ResponseFailure::status(599, "").type_name, None);
    }

    #[test]
    fn notes_follow_the_body_and_stand_alone_without_one() {
        let mut failure = ResponseFailure::status(429, "");
        failure.add_note("(retry-after: 2)");
        let mut with_body = failure.clone();
        with_body.add_body(&[b'x'; 5000]);
        assert_eq!(with_body.message.len(), MAX_MESSAGE_BYTES);
        assert!(with_body.message.ends_with("x (retry-after: 2)"));
        failure.add_body(b"");
        assert_eq!(failure.message, "(retry-after: 2)");
        let mut silent = ResponseFailure::status(500, "");
        silent.add_body(b"\r\n");
        assert_eq!(silent.message, "status 500 with an empty body");
    }

    #[test]
    fn s12_an_error_member_gives_code_and_message() {
        for (json, code, message) in [
            (r#"{"code":500,"message":"boom"}"#, 500, "boom"),
            (r#"{"code":200,"message":"boom"}"#, 502, "boom"),
            (r#"{"code":"500","message":"boom"}"#, 502, "boom"),
            (r#"{"code":429}"#, 429, r#"{"code":429}"#),
            (r#""out of \"memory\"""#, 502, "out of \"memory\""),
            ("true", 502, "true"),
        ] {
            let failure = ResponseFailure::error_member(json.as_bytes());
            assert_eq!(
                (failure.code, failure.message.as_str()),
                (Some(code), message),
                "{json}"
            );
        }
    }

    #[test]
    fn s14_an_error_event_is_explained_by_comment_member_or_data() {
        let event = |data: &str, error: Option<&str>, comment: Option<&str>| {
            let failure =
                ResponseFailure::error_event(data.as_bytes(), error.map(str::as_bytes), comment.map(str::as_bytes));
            (failure.code.unwrap(), failure.message)
        };
        assert_eq!(event("plain words", None, None), (502, "plain words".into()));
        assert_eq!(event(r#"{"code":503,"message":"m"}"#, None, None), (503, "m".into()));
        assert_eq!(
            event("{}", Some(r#"{"code":503,"message":"m"}"#), None),
            (503, "m".into())
        );
        assert_eq!(event(r#"{"code":503}"#, None, Some("note")), (503, "note".into()));
        assert_eq!(event("", None, Some("")), (502, "error event without a message".into()));
    }

    #[test]
    fn texts_are_bounded_and_cut_between_characters() {
        assert_eq!(text_of("ééé".as_bytes(), 3), "é");
        assert_eq!(text_of("ééé".as_bytes(), 4), "éé");
        assert_eq!(text_of(b"a\xffb", 10), "a\u{fffd}b");
        let failure = ResponseFailure::error_member(format!("\"{}\"", "語".repeat(2000)).as_bytes());
        assert_eq!(failure.message.len(), 4095);
        assert!(ResponseFailure::invalid_body(&[b'<'; 100_000]).message.len() < 600);
        for body in [
            format!("{{\"data\":\"{}\"}}", "x".repeat(1 << 20)),
            format!("{{\"{}\":1}}", "k".repeat(1 << 15)),
        ] {
            assert!(ResponseFailure::other_answer("wanted", body.as_bytes()).message.len() < 600);
        }
    }
}
