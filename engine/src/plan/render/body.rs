//! The body of a request, with gaps for what differs from entry to entry.

use std::ops::Range;

use serde::Serialize;
use serde_json::{Value, json};

use super::said::Form;
use super::{RenderError, RenderInputs};
use crate::dataset::{Opening, Turn, Written};
use crate::plan::EndpointKind;

/// Output tokens to ask for where the API wants a number and the dataset has none.
const DEFAULT_MAX_TOKENS: u32 = 1024;

/// A body as bytes, cut at the places that differ between turns.
#[derive(Debug)]
pub(super) struct BodyTemplate {
    segments: Vec<Segment>,
    /// The name of what is said, for messages to the user.
    pub(super) said_key: &'static str,
    /// What `extra` says about output tokens, where it says so.
    fixed_output_tokens: Option<Option<u32>>,
}

#[derive(Debug)]
enum Segment {
    Fixed(Vec<u8>),
    /// The name of the model.
    Model,
    /// What the turn says.
    Said(Form),
    /// The system's message: a comma and the member of this name, if the conversation has one.
    System(&'static str),
    /// The output length to ask for: a comma and the member of this name, if the turn has one or the API needs one.
    OutputTokens(&'static str, Option<u32>),
}

/// One member of the body: what is sent, in the order of sending. The first one is always there.
enum Field {
    Fixed(Value),
    /// JSON that is sent as it is.
    Json(Vec<u8>),
    Model,
    Said(Form),
    System(&'static str),
    OutputTokens(&'static str, Option<u32>),
}

impl BodyTemplate {
    /// The template of requests. `written` are fields of a turn's own.
    pub(super) fn new(inputs: &RenderInputs<'_>, written: Option<&Written>) -> Self {
        let built = built_fields(inputs, written);
        let tokens_key = built.iter().find_map(|(_, field)| match field {
            Field::OutputTokens(key, _) => Some(*key),
            _ => None,
        });
        let said = built.iter().find(|(_, field)| matches!(field, Field::Said(_)));
        let said_key = said.map_or("", |(key, _)| *key);
        let mut fields: Vec<(&str, Field)> = built;
        let own = written.and_then(|written| written.extra.as_deref());
        for (key, value) in inputs.extra.iter().chain(own.into_iter().flatten()) {
            let field = Field::Fixed(value.clone());
            match fields.iter_mut().find(|(known, _)| known == key) {
                // A field that is there keeps its place and takes the user's value.
                Some((_, place)) => *place = field,
                None => fields.push((key, field)),
            }
        }
        if asks_for_usage(inputs) {
            ask_for_usage(&mut fields);
        }

        let fixed_output_tokens = tokens_key.and_then(|key| {
            let value = own.and_then(|own| own.get(key)).or_else(|| inputs.extra.get(key))?;
            Some(value.as_u64().and_then(|tokens| u32::try_from(tokens).ok()))
        });
        Self {
            segments: cut(fields),
            said_key,
            fixed_output_tokens,
        }
    }

    /// Bytes that every body has, whatever its prompt.
    pub(super) fn fixed_len(&self) -> usize {
        self.segments
            .iter()
            .map(|segment| match segment {
                Segment::Fixed(bytes) => bytes.len(),
                Segment::Model | Segment::Said(_) | Segment::System(_) | Segment::OutputTokens(..) => 0,
            })
            .sum()
    }

    /// Whether bodies carry the turn's text; not so when `extra` brings its own.
    pub(super) fn has_text(&self) -> bool {
        self.segments.iter().any(|segment| matches!(segment, Segment::Said(_)))
    }

    /// The key of the user's own `extra` that stands where something of `opening` would be said, if there is one.
    pub(super) fn replaced_by(&self, inputs: &RenderInputs<'_>, opening: &Opening) -> Option<&'static str> {
        if !opening.is_empty() && !self.has_text() {
            return Some(self.said_key);
        }
        let own_place = built_fields(inputs, None)
            .into_iter()
            .find_map(|(_, field)| match field {
                Field::System(key) => Some(key),
                _ => None,
            });
        own_place.filter(|_| opening.system().is_some() && !self.repeats_system())
    }

    /// Whether every turn says what the conversation's system says.
    pub(super) fn repeats_system(&self) -> bool {
        self.segments
            .iter()
            .any(|segment| matches!(segment, Segment::System(_)))
    }

    /// The output tokens that the body of a turn asks for.
    pub(super) fn requested_output_tokens(&self, turn: &Turn<'_>) -> Option<u32> {
        self.fixed_output_tokens.unwrap_or(turn.output_tokens)
    }

    /// Appends the body of one turn to an empty buffer; returns where in it the turn's message stands: nowhere if requests have no place for a history, if `extra` brings the
    /// messages, or if the turn has all of them. `model` is a name as JSON. `system` is what the conversation's system says, for APIs that keep it apart.
    pub(super) fn fill(&self, turn: &Turn<'_>, model: &[u8], system: Option<&str>, out: &mut Vec<u8>) -> Range<u32> {
        out.reserve(self.fixed_len() + model.len() + turn.text.len() + 64);
        let mut message = 0..0;
        for segment in &self.segments {
            match segment {
                Segment::Fixed(bytes) => out.extend_from_slice(bytes),
                Segment::Model => out.extend_from_slice(model),
                Segment::Said(form) => {
                    let place = form.push(turn, out);
                    let is_complete = turn
                        .written
                        .as_deref()
                        .is_some_and(|written| written.is_complete || written.messages.is_some());
                    if let (Some(place), false) = (place, is_complete) {
                        message = place.start as u32..place.end as u32;
                    }
                }
                Segment::System(key) => {
                    if let Some(system) = system {
                        push_member(out, key, system);
                    }
                }
                Segment::OutputTokens(key, default) => {
                    if let Some(tokens) = turn.output_tokens.or(*default) {
                        push_member(out, key, &tokens);
                    }
                }
            }
        }
        message
    }
}

/// Refuses a `stream` of the user's own that contradicts the endpoint.
pub(super) fn check_extra(inputs: &RenderInputs<'_>) -> Result<(), RenderError> {
    match inputs.extra.get("stream") {
        // Sent as written, it would change the kind of answer behind the back of everything that reads answers.
        Some(found) if *found != Value::Bool(inputs.streaming) => Err(RenderError::ExtraStream {
            found: found.clone(),
            streaming: inputs.streaming,
        }),
        _ => Ok(()),
    }
}

/// The fields of each API in the order of the peer, without those of the user.
fn built_fields(inputs: &RenderInputs<'_>, written: Option<&Written>) -> Vec<(&'static str, Field)> {
    let model = || ("model", Field::Model);
    let stream = || ("stream", Field::Fixed(json!(inputs.streaming)));
    let tools = || {
        let tools = written.and_then(|written| written.tools.as_deref())?;
        Some(("tools", Field::Json(tools.as_bytes().to_vec())))
    };
    let fields: Vec<Option<(&'static str, Field)>> = match inputs.kind {
        EndpointKind::Chat => {
            let tokens = match inputs.use_legacy_max_tokens {
                true => "max_tokens",
                false => "max_completion_tokens",
            };
            vec![
                Some(("messages", Field::Said(Form::Messages))),
                Some(model()),
                Some(stream()),
                tools(),
                Some((tokens, Field::OutputTokens(tokens, None))),
            ]
        }
        EndpointKind::Completions => vec![
            Some(("prompt", Field::Said(Form::Prompt))),
            Some(model()),
            Some(stream()),
            Some(("max_tokens", Field::OutputTokens("max_tokens", None))),
        ],
        EndpointKind::Responses => vec![
            Some(("input", Field::Said(Form::Items))),
            Some(model()),
            Some(stream()),
            Some(("instructions", Field::System("instructions"))),
            Some(("max_output_tokens", Field::OutputTokens("max_output_tokens", None))),
            tools(),
        ],
        EndpointKind::Messages => vec![
            Some(model()),
            Some(("messages", Field::Said(Form::UserMessages))),
            Some((
                "max_tokens",
                Field::OutputTokens("max_tokens", Some(DEFAULT_MAX_TOKENS)),
            )),
            inputs.streaming.then(stream),
            Some(("system", Field::System("system"))),
            tools(),
        ],
        EndpointKind::Embeddings => vec![Some(model()), Some(("input", Field::Said(Form::Texts)))],
        EndpointKind::CohereRankings => vec![
            Some(model()),
            Some(("query", Field::Said(Form::Query))),
            Some(("documents", Field::Said(Form::Passages))),
        ],
        EndpointKind::HfTeiRankings => vec![
            Some(("query", Field::Said(Form::Query))),
            Some(("texts", Field::Said(Form::Passages))),
        ],
        EndpointKind::NimRankings => vec![
            Some(model()),
            Some(("query", Field::Said(Form::QueryObject))),
            Some(("passages", Field::Said(Form::PassageObjects))),
        ],
        // Its bodies are made elsewhere, all of them.
        EndpointKind::Template => Vec::new(),
    };
    fields.into_iter().flatten().collect()
}

/// Whether streams of this API end with their token counts only if that is asked for.
fn asks_for_usage(inputs: &RenderInputs<'_>) -> bool {
    inputs.streaming
        && match inputs.kind {
            EndpointKind::Chat | EndpointKind::Completions => true,
            // Its streams count in any case; the peer asks where it depends on the counts.
            EndpointKind::Responses => inputs.use_server_token_count,
            _ => false,
        }
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
            Field::Model => {
                name(&mut open);
                cut_at(&mut open, Segment::Model);
            }
            Field::Said(form) => {
                name(&mut open);
                cut_at(&mut open, Segment::Said(form));
            }
            Field::System(key) => cut_at(&mut open, Segment::System(key)),
            Field::OutputTokens(key, default) => cut_at(&mut open, Segment::OutputTokens(key, default)),
        }
    }
    open.push(b'}');
    segments.push(Segment::Fixed(open));
    segments
}

fn push_member(out: &mut Vec<u8>, key: &str, value: &(impl Serialize + ?Sized)) {
    out.push(b',');
    push_json(out, key);
    out.push(b':');
    push_json(out, value);
}

pub(super) fn push_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("a JSON value can be written to memory");
}
