//! What a turn says, in the form in which each API wants it.

use std::borrow::Cow;
use std::ops::Range;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::body::push_json;
use crate::dataset::Turn;
use crate::plan::EndpointKind;

/// The form of what is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A list of messages, the system's among them.
    Messages,
    /// A list of messages without the system's, which stands elsewhere.
    UserMessages,
    /// The same with a type in each message.
    Items,
    /// A text, or a list of several.
    Prompt,
    /// A list of texts.
    Texts,
    /// The query to a ranking.
    Query,
    /// The same as an object.
    QueryObject,
    /// The passages to be ranked.
    Passages,
    /// The same as objects.
    PassageObjects,
}

impl Form {
    /// Appends what a turn says. In a list of messages the turn's own have a place, where a history can stand in front of them.
    pub(super) fn push(self, turn: &Turn<'_>, out: &mut Vec<u8>) -> Option<Range<usize>> {
        let object = |text: &str| json!({ "text": text });
        match self {
            Self::Messages | Self::UserMessages | Self::Items => {
                out.push(b'[');
                let start = out.len();
                self.push_messages(turn, out);
                let place = start..out.len();
                out.push(b']');
                return Some(place);
            }
            Self::Prompt if more_texts(turn).is_empty() => push_json(out, &*turn.text),
            Self::Prompt | Self::Texts => {
                let texts: Vec<&str> = texts(turn).collect();
                push_json(out, &texts);
            }
            Self::Query => push_json(out, &*turn.text),
            Self::QueryObject => push_json(out, &object(&turn.text)),
            Self::Passages => push_json(out, passages(turn)),
            Self::PassageObjects => {
                let passages: Vec<Value> = passages(turn).iter().map(|text| object(text)).collect();
                push_json(out, &passages);
            }
        }
        None
    }

    /// The turn's message, with the system's in front of it where that is a message too; or all the messages that the turn brings.
    fn push_messages(self, turn: &Turn<'_>, out: &mut Vec<u8>) {
        let Some(written) = turn.written.as_deref() else {
            return self.push_message(out, "user", &*turn.text);
        };
        let system = written.system.as_deref().filter(|_| self == Self::Messages);
        if let Some(messages) = &written.messages {
            let list = messages
                .trim()
                .strip_prefix('[')
                .and_then(|list| list.strip_suffix(']'));
            let list = list.expect("a file's messages are a JSON list").trim();
            match system {
                Some(system) => self.push_led_messages(out, system, list),
                None => out.extend_from_slice(list.as_bytes()),
            }
            return;
        }
        let role = written.role.as_deref().unwrap_or("user");
        let mut first = Cow::Borrowed(&*turn.text);
        match system {
            Some(system) if role == SYSTEM => first = joined(system, &first).into(),
            Some(system) => {
                self.push_message(out, SYSTEM, system);
                out.push(b',');
            }
            None => {}
        }
        if let Some(context) = &written.context {
            self.push_message(out, "user", context);
            out.push(b',');
        }
        if written.more_texts.is_empty() {
            return self.push_message(out, role, &*first);
        }
        let kind = match self {
            Self::Items => "input_text",
            _ => "text",
        };
        let texts = std::iter::once(&*first).chain(more_texts(turn).iter().map(String::as_str));
        let parts: Vec<Value> = texts.map(|text| json!({"type": kind, "text": text})).collect();
        self.push_message(out, role, &parts);
    }

    /// The messages that a turn brings, behind what the system says: the first one takes it in if it is the system's too.
    fn push_led_messages(self, out: &mut Vec<u8>, system: &str, list: &str) {
        let mut stream = serde_json::Deserializer::from_str(list).into_iter::<Map<String, Value>>();
        let first = stream.next().and_then(Result::ok);
        let rest = &list[stream.byte_offset()..];
        let Some(mut first) = first.filter(|first| first.get("role").is_some_and(|role| role == SYSTEM)) else {
            self.push_message(out, SYSTEM, system);
            out.push(b',');
            return out.extend_from_slice(list.as_bytes());
        };
        match first.get_mut("content") {
            Some(Value::String(own)) => *own = joined(system, own),
            Some(Value::Array(parts)) => parts.insert(0, json!({"type": "text", "text": system})),
            _ => {
                first.insert("content".to_owned(), json!(system));
            }
        }
        push_json(out, &first);
        out.extend_from_slice(rest.as_bytes());
    }

    fn push_message(self, out: &mut Vec<u8>, role: &str, content: &(impl Serialize + ?Sized)) {
        out.extend_from_slice(br#"{"role":"#);
        push_json(out, role);
        out.extend_from_slice(br#","content":"#);
        push_json(out, content);
        if self == Self::Items {
            out.extend_from_slice(br#","type":"message""#);
        }
        out.push(b'}');
    }
}

/// The role of the system's message.
const SYSTEM: &str = "system";

/// Two messages of the system as one.
fn joined(first: &str, second: &str) -> String {
    format!("{first}\n\n{second}")
}

/// What a turn has beside the text, as far as it decides whether an API can say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Demands<'a> {
    pub(super) role: Option<&'a str>,
    pub(super) has_system: bool,
    pub(super) has_messages: bool,
    /// Texts to be ranked.
    pub(super) passages: usize,
}

/// What a turn has that a request of this type cannot say, or lacks that it must; `None` if it suits.
pub(super) fn misfit(kind: EndpointKind, turn: Demands<'_>) -> Option<&'static str> {
    if kind.ranks() && turn.passages == 0 {
        return Some("it has no passages to rank; write \"texts\" with the query first and the passages behind it");
    }
    if kind.carries_history() {
        return None;
    }
    if turn.has_messages {
        return Some("it has `messages`, and requests of this type are made of texts");
    }
    if turn.has_system {
        return Some("it has a system message, and requests of this type have no place for one");
    }
    if turn.role.is_some_and(|role| role != "user") {
        return Some("it has a `role`, and requests of this type have no place for one");
    }
    None
}

/// All texts of a turn's message.
pub(super) fn texts<'a>(turn: &'a Turn<'_>) -> impl Iterator<Item = &'a str> {
    std::iter::once(&*turn.text).chain(more_texts(turn).iter().map(String::as_str))
}

fn more_texts<'a>(turn: &'a Turn<'_>) -> &'a [String] {
    turn.written.as_deref().map_or(&[], |written| &written.more_texts)
}

/// Passages are what they are, or of a record with several texts those behind the query.
pub(super) fn passages<'a>(turn: &'a Turn<'_>) -> &'a [String] {
    turn.written
        .as_deref()
        .map_or(&[], |written| match written.passages.is_empty() {
            true => &written.more_texts[..],
            false => &written.passages[..],
        })
}
