//! The body of a request, with gaps for what differs from entry to entry.

use std::ops::Range;

use serde::Serialize;
use serde_json::{Value, json};

use super::{RenderError, RenderInputs};
use crate::dataset::{Turn, Written};

/// A body as bytes, cut at the places that differ between turns.
#[derive(Debug)]
pub(super) struct BodyTemplate {
    segments: Vec<Segment>,
    /// What `extra` says about output tokens, where it says so.
    fixed_output_tokens: Option<Option<u32>>,
}

#[derive(Debug)]
enum Segment {
    Fixed(Vec<u8>),
    /// The turn's message.
    Message,
    /// The output length to ask for: a comma and the member of this name, if the turn has one.
    OutputTokens(&'static str),
}

/// One member of the body: what is sent, in the order of sending. The messages come first.
enum Field {
    Fixed(Value),
    /// JSON that is sent as it is.
    Json(Vec<u8>),
    Messages,
    OutputTokens(&'static str),
}

impl BodyTemplate {
    /// The template of chat completion requests. `written` are fields of a turn's own.
    pub(super) fn chat(inputs: &RenderInputs<'_>, written: Option<&Written>) -> Result<Self, RenderError> {
        let tokens_key = if inputs.use_legacy_max_tokens {
            "max_tokens"
        } else {
            "max_completion_tokens"
        };
        if let Some(found) = inputs.extra.get("stream")
            && *found != Value::Bool(inputs.streaming)
        {
            // Sent as written, it would change the kind of answer behind the back of everything that reads answers.
            return Err(RenderError::ExtraStream {
                found: found.clone(),
                streaming: inputs.streaming,
            });
        }

        let mut fields: Vec<(&str, Field)> = vec![
            ("messages", Field::Messages),
            ("model", Field::Fixed(json!(inputs.model))),
            ("stream", Field::Fixed(json!(inputs.streaming))),
        ];
        if let Some(tools) = written.and_then(|written| written.tools.as_deref()) {
            fields.push(("tools", Field::Json(tools.as_bytes().to_vec())));
        }
        fields.push((tokens_key, Field::OutputTokens(tokens_key)));
        let own = written.and_then(|written| written.extra.as_deref());
        for (key, value) in inputs.extra.iter().chain(own.into_iter().flatten()) {
            let field = Field::Fixed(value.clone());
            match fields.iter_mut().find(|(known, _)| known == key) {
                // A field that is there keeps its place and takes the user's value.
                Some((_, place)) => *place = field,
                None => fields.push((key, field)),
            }
        }
        if inputs.streaming {
            ask_for_usage(&mut fields);
        }

        let fixed_output_tokens = own
            .and_then(|own| own.get(tokens_key))
            .or_else(|| inputs.extra.get(tokens_key))
            .map(|value| value.as_u64().and_then(|tokens| u32::try_from(tokens).ok()));
        Ok(Self {
            segments: cut(fields),
            fixed_output_tokens,
        })
    }

    /// Bytes that every body has, whatever its prompt.
    pub(super) fn fixed_len(&self) -> usize {
        self.segments
            .iter()
            .map(|segment| match segment {
                Segment::Fixed(bytes) => bytes.len(),
                Segment::Message | Segment::OutputTokens(_) => 0,
            })
            .sum()
    }

    /// Whether bodies carry the turn's text; not so when `extra` brings its own messages.
    pub(super) fn has_text(&self) -> bool {
        self.segments.iter().any(|segment| matches!(segment, Segment::Message))
    }

    /// The output tokens that the body of a turn asks for.
    pub(super) fn requested_output_tokens(&self, turn: &Turn) -> Option<u32> {
        self.fixed_output_tokens.unwrap_or(turn.output_tokens)
    }

    /// The body of one turn, and where in it the turn's message stands; nowhere if `extra` brings the messages or the turn has all of them.
    pub(super) fn fill(&self, turn: &Turn) -> (Vec<u8>, Range<u32>) {
        let mut out = Vec::with_capacity(self.fixed_len() + turn.text.len() + 64);
        let mut message = 0..0;
        for segment in &self.segments {
            match segment {
                Segment::Fixed(bytes) => out.extend_from_slice(bytes),
                Segment::Message => {
                    let start = out.len() as u32;
                    push_messages(&mut out, turn);
                    let is_complete = turn
                        .written
                        .as_deref()
                        .is_some_and(|written| written.is_complete || written.messages.is_some());
                    if !is_complete {
                        message = start..out.len() as u32;
                    }
                }
                Segment::OutputTokens(key) => {
                    if let Some(tokens) = turn.output_tokens {
                        out.extend_from_slice(format!(r#","{key}":{tokens}"#).as_bytes());
                    }
                }
            }
        }
        (out, message)
    }
}

/// What the turn says: its message, with the system's in front of it, or all the messages that it brings.
fn push_messages(out: &mut Vec<u8>, turn: &Turn) {
    let Some(written) = turn.written.as_deref() else {
        return push_message(out, "user", &turn.text);
    };
    if let Some(messages) = &written.messages {
        let list = messages
            .trim()
            .strip_prefix('[')
            .and_then(|list| list.strip_suffix(']'));
        out.extend_from_slice(list.expect("a file's messages are a JSON list").trim().as_bytes());
        return;
    }
    if let Some(system) = &written.system {
        push_message(out, "system", system);
        out.push(b',');
    }
    let role = written.role.as_deref().unwrap_or("user");
    if written.more_texts.is_empty() {
        return push_message(out, role, &turn.text);
    }
    let texts = std::iter::once(&turn.text).chain(&written.more_texts);
    let parts: Vec<Value> = texts.map(|text| json!({"type": "text", "text": text})).collect();
    push_message(out, role, &parts);
}

fn push_message(out: &mut Vec<u8>, role: &str, content: &(impl Serialize + ?Sized)) {
    out.extend_from_slice(br#"{"role":"#);
    push_json(out, role);
    out.extend_from_slice(br#","content":"#);
    push_json(out, content);
    out.push(b'}');
}

/// Asks for the server's token counts, unless the user decided that.
fn ask_for_usage(fields: &mut Vec<(&str, Field)>) {
    match fields.iter_mut().find(|(key, _)| *key == "stream_options") {
        None => fields.push(("stream_options", Field::Fixed(json!({"include_usage": true})))),
        Some((_, Field::Fixed(Value::Object(options)))) => {
            options.entry("include_usage").or_insert(Value::Bool(true));
        }
        // Something else than an object (null, say) is the user's own decision.
        Some(_) => {}
    }
}

/// Serialises the fields and joins neighbouring bytes.
fn cut(fields: Vec<(&str, Field)>) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut open = Vec::from(b"{");
    let mut cut_at = |open: &mut Vec<u8>, gap| {
        segments.push(Segment::Fixed(std::mem::take(open)));
        segments.push(gap);
    };
    for (at, (key, field)) in fields.into_iter().enumerate() {
        let name = |open: &mut Vec<u8>| {
            if at > 0 {
                open.push(b',');
            }
            push_json(open, key);
            open.push(b':');
        };
        match field {
            Field::Fixed(value) => {
                name(&mut open);
                push_json(&mut open, &value);
            }
            Field::Json(json) => {
                name(&mut open);
                open.extend_from_slice(&json);
            }
            Field::Messages => {
                name(&mut open);
                open.push(b'[');
                cut_at(&mut open, Segment::Message);
                open.push(b']');
            }
            Field::OutputTokens(key) => cut_at(&mut open, Segment::OutputTokens(key)),
        }
    }
    open.push(b'}');
    segments.push(Segment::Fixed(open));
    segments
}

fn push_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("a JSON value can be written to memory");
}
