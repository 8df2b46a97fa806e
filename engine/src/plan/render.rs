//! From resolved settings to request bytes: every byte that the load sends, except ids, is made here before the first request.
//!
//! ```text
//! inputs, dataset -> draft (everything that can be refused is refused, no text is made) -> images (on several threads, refuses nothing)
//! ```
//!
//! So a validation, which needs no text, accepts and refuses what a run does.

mod body;
mod draft;
mod error;
mod head;
mod payload;
mod said;
mod source;

use std::io::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{AnswerFrame, EndpointKind, ID_BLOCK_CAPACITY, IdBlock, ModelPlan, RequestImage, RequestImages, Target};
use crate::config::PayloadTemplate;
use crate::dataset::{Choice, LengthDistribution, Opening, Synthetic, Turn, Written};
use body::{BodyTemplate, push_json};
pub(super) use draft::Draft;
pub use error::RenderError;
use payload::Bodies;

/// Input length of a data set that names none. The peer's command line uses the same figure.
pub const DEFAULT_ISL: LengthDistribution = LengthDistribution::Fixed(550);

/// Longest prompt in tokens: far above any context window, far below what would exhaust memory by a slip of the keyboard.
pub const MAX_PROMPT_TOKENS: u32 = 1 << 24;

/// Most turns of a conversation, or passages of a request, that a distribution may give.
pub const MAX_DRAWN_COUNT: u32 = 100_000;

/// Most bytes that the images of a data set may take together, by an estimate from the lengths of their texts.
pub const MAX_DATASET_BYTES: u64 = 4 << 30;

/// What request bytes are made from.
#[derive(Debug, Clone, Copy)]
pub struct RenderInputs<'a> {
    /// The API that requests speak.
    pub kind: EndpointKind,
    /// Where requests go: gives the request lines and `Host`.
    pub targets: &'a [Target],
    /// The models that they ask for.
    pub models: &'a ModelPlan,
    /// Whether requests ask for an event stream.
    pub streaming: bool,
    /// Tell the server that the connection will not be used again.
    pub close_after: bool,
    /// Ask for output tokens by `max_tokens` and not by `max_completion_tokens`, in chat completions.
    pub use_legacy_max_tokens: bool,
    /// The server's counts are depended on: they are asked for even where they come in any case.
    pub use_server_token_count: bool,
    /// Further headers. A name that ringload generates too takes the user's value, except `Accept` and `Content-Type`, which follow from the
    /// endpoint. Of several entries with one name (ignoring case) the last one counts.
    pub headers: &'a [(String, String)],
    /// Replaces the name `X-Correlation-ID`.
    pub session_header: Option<&'a str>,
    /// Further fields of the body; they win over built ones.
    pub extra: &'a Map<String, Value>,
    /// What makes bodies of type template, and of no other.
    pub template: Option<&'a PayloadTemplate>,
}

/// Renders the requests of synthetic conversations.
///
/// # Errors
/// The first [`RenderError`] found, before any text is made.
pub fn render_synthetic(inputs: &RenderInputs<'_>, dataset: &Synthetic) -> Result<RequestImages, RenderError> {
    Draft::synthetic(inputs, dataset.clone())
        .and_then(Draft::with_bodies)
        .map(Draft::render)
}

/// The body of a request for one token, to see whether a server answers.
///
/// # Errors
/// The template cannot make a body of such a request.
pub(super) fn probe_body(
    kind: EndpointKind,
    model: &str,
    use_legacy_max_tokens: bool,
    template: Option<&PayloadTemplate>,
    prompt: &str,
) -> Result<Vec<u8>, RenderError> {
    let models = ModelPlan::in_turn(vec![model.to_owned()]);
    let inputs = RenderInputs {
        kind,
        targets: &[],
        models: &models,
        streaming: false,
        close_after: false,
        use_legacy_max_tokens,
        use_server_token_count: false,
        headers: &[],
        session_header: None,
        extra: &Map::new(),
        template,
    };
    let turn = Turn {
        text: prompt.into(),
        output_tokens: Some(1),
        written: (kind.ranks() || kind == EndpointKind::Template).then(|| {
            Box::new(Written {
                passages: vec![prompt.to_owned()],
                ..Written::default()
            })
        }),
        ..Turn::default()
    };
    if let Some(bodies) = Bodies::of(&inputs) {
        let body = bodies.body(model, &turn);
        return body.map_err(|fault| RenderError::payload("of the readiness probe".to_owned(), 0, fault));
    }
    let mut body = Vec::new();
    BodyTemplate::new(&inputs, None).fill(&turn, &json(model), None, &mut body);
    Ok(body)
}

/// A text as JSON.
fn json(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    push_json(&mut out, text);
    out
}

/// What all requests of a data set have in common.
///
/// The body has the fields of the API in the order of the peer, then those of `extra`, then `stream_options` with `include_usage` (only where
/// streams do not count otherwise; a value of the user's own stays). It is compact JSON. Of a later turn it holds the turn's own message alone:
/// the history of its session is put in front of that while the load runs.
struct Parts<'a> {
    inputs: &'a RenderInputs<'a>,
    heads: Vec<Arc<[u8]>>,
    ids: IdBlock,
    template: BodyTemplate,
    /// Names of the models as JSON.
    models: Vec<Vec<u8>>,
    /// Which of them a conversation asks for.
    choice: Choice,
    /// What conversations begin with.
    opening: Opening,
    /// In place of that, where the user's own template makes bodies.
    bodies: Option<Bodies<'a>>,
}

/// Memory of a thread that renders, from request to request.
#[derive(Default)]
struct Scratch {
    body: Vec<u8>,
    tail: Vec<u8>,
}

impl<'a> Parts<'a> {
    fn new(inputs: &'a RenderInputs<'a>) -> Result<Self, RenderError> {
        body::check_extra(inputs)?;
        Ok(Self {
            inputs,
            heads: head::render_heads(inputs)?,
            ids: head::render_id_block(inputs)?,
            template: BodyTemplate::new(inputs, None),
            models: inputs.models.names.iter().map(|name| json(name)).collect(),
            choice: inputs.models.choice.clone(),
            opening: Opening::default(),
            bodies: Bodies::of(inputs),
        })
    }

    /// The request of a turn. `system` is what the conversation's system says, for APIs in which every turn says it.
    fn image(
        &self,
        conversation: u32,
        position: u32,
        turn: &Turn<'_>,
        system: Option<&str>,
        scratch: &mut Scratch,
    ) -> RequestImage {
        let own = turn.written.as_deref();
        let own = own.filter(|written| written.extra.is_some() || written.tools.is_some());
        let own = own.map(|written| BodyTemplate::new(self.inputs, Some(written)));
        let template = own.as_ref().unwrap_or(&self.template);
        let Scratch { body, tail } = scratch;
        body.clear();
        let (message, has_text, requested_output_tokens) = match &self.bodies {
            Some(bodies) => {
                let made = bodies
                    .body(self.model(conversation), turn)
                    .expect("a draft is refused that has no body for a turn");
                body.extend_from_slice(&made);
                (0..0, bodies.have_text(), bodies.requested_output_tokens(turn))
            }
            None => {
                let model = &self.models[self.choice.of(conversation)];
                let message = template.fill(turn, model, system, body);
                (message, template.has_text(), template.requested_output_tokens(turn))
            }
        };
        tail.clear();
        // Writing to memory cannot fail.
        let _ = write!(tail, "Content-Length: {}\r\n\r\n", body.len());
        tail.extend_from_slice(body);
        RequestImage {
            tail: Arc::from(&tail[..]),
            body_len: u32::try_from(body.len()).expect("a body is far smaller than the bound of the whole data set"),
            message,
            input_tokens: turn.input_tokens.filter(|_| has_text),
            requested_output_tokens,
            conversation,
            turn: position,
            delay: turn.delay,
            timestamp: turn.timestamp,
        }
    }

    /// The model that a conversation asks for.
    fn model(&self, conversation: u32) -> &'a str {
        &self.inputs.models.names[self.choice.of(conversation)]
    }

    /// The bytes around an answer of this API, in the messages of a later turn.
    fn answer_frame(&self) -> AnswerFrame {
        match self.inputs.kind {
            EndpointKind::Responses => AnswerFrame::TYPED,
            _ => AnswerFrame::PLAIN,
        }
    }
}

#[cfg(test)]
mod tests;
