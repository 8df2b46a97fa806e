//! From resolved settings to request bytes: every byte that the load sends, except ids, is made here before the first request.

mod body;
mod head;
mod said;

use std::num::NonZeroU32;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{
    AnswerFrame, Conversations, EndpointKind, ID_BLOCK_CAPACITY, IdBlock, RequestImage, RequestImages, Sampler, Target,
};
use crate::dataset::{
    Conversation, LengthDistribution, MEAN_BYTES_PER_TOKEN, Synthetic, SyntheticRankings, Turn, Written,
};
use body::BodyTemplate;

/// Input length of a data set that names none. The peer's command line uses the same figure.
pub const DEFAULT_ISL: LengthDistribution = LengthDistribution::Fixed(550);

/// Longest prompt in tokens: far above any context window, far below what would exhaust memory by a slip of the keyboard.
pub const MAX_PROMPT_TOKENS: u32 = 1 << 24;

/// Most bytes that the images of a data set may take together.
pub const MAX_DATASET_BYTES: u64 = 4 << 30;

/// What request bytes are made from.
#[derive(Debug, Clone, Copy)]
pub struct RenderInputs<'a> {
    /// The API that requests speak.
    pub kind: EndpointKind,
    /// Where requests go: gives the request lines and `Host`.
    pub targets: &'a [Target],
    /// Model name, as the server knows it.
    pub model: &'a str,
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
}

/// Settings that no request can be made from. Values of headers are never shown: they may be secrets.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// A header name that HTTP does not allow.
    #[error(
        "endpoint.headers: {name:?} is no header name; a name has at least one character, all of them letters, digits or one of !#$%&'*+-.^_`|~"
    )]
    HeaderName {
        /// The name as given.
        name: String,
    },
    /// A header value with a byte that would end the line or the message.
    #[error(
        "endpoint.headers.{name}: the value has the control character {byte:#04x}; remove it (tabs and spaces are allowed)"
    )]
    HeaderValue {
        /// Name of the header.
        name: String,
        /// The first offending byte.
        byte: u8,
    },
    /// A header that belongs to the engine.
    #[error("endpoint.headers.{name}: this header is set by ringload, because {reason}; remove it")]
    HeaderReserved {
        /// Name of the header.
        name: String,
        /// What would break.
        reason: &'static str,
    },
    /// A session header that cannot carry the correlation id.
    #[error(
        "endpoint.session_header: {name:?} cannot carry the session id: {reason}; choose another name, or remove the key for X-Correlation-ID"
    )]
    SessionHeader {
        /// The name as given.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The header lines with ids do not fit where a connection keeps them.
    #[error("endpoint.session_header: the headers with ids take {length} bytes, allowed are {ID_BLOCK_CAPACITY}; shorten the name by {} characters", length - ID_BLOCK_CAPACITY)]
    IdBlockTooLong {
        /// Bytes that the header lines take.
        length: usize,
    },
    /// A request target that cannot stand in a request line.
    #[error(
        "endpoint.path: {path:?} cannot stand in a request line; it must start with / and hold visible ASCII only (percent-encode the rest)"
    )]
    Path {
        /// The path and query as given.
        path: String,
    },
    /// A `Host` value that cannot stand in a header line.
    #[error(
        "endpoint.urls: {authority:?} is no host; allowed are visible ASCII characters (write international names in punycode)"
    )]
    Authority {
        /// The host and port as given.
        authority: String,
    },
    /// `extra.stream` contradicts the endpoint.
    #[error(
        "endpoint.extra.stream: found {found}, but endpoint.streaming is {streaming}; set endpoint.streaming and remove this key"
    )]
    ExtraStream {
        /// The value found.
        found: Value,
        /// The endpoint's setting.
        streaming: bool,
    },
    /// `extra` in place of the messages of a dataset whose turns build on one another.
    #[error(
        "endpoint.extra.{key}: it replaces the messages of the dataset, whose conversations have several turns; remove it, or set dataset.turns to 1"
    )]
    ExtraMessages {
        /// The key of the messages.
        key: &'static str,
    },
    /// A conversation that goes on, with an API that does not.
    #[error(
        "dataset: conversation {id} has {turns} turns, and requests of type {kind} have no place for what was said before; use prompts of \
         one turn, or one of the types chat, responses, messages"
    )]
    SeveralTurns {
        /// The conversation.
        id: String,
        /// How many it has.
        turns: usize,
        /// `endpoint.type`.
        kind: &'static str,
    },
    /// A turn that cannot be said in this API.
    #[error("dataset: conversation {id} cannot be sent as type {kind}: {reason}")]
    Misfit {
        /// The conversation.
        id: String,
        /// `endpoint.type`.
        kind: &'static str,
        /// What does not suit.
        reason: &'static str,
    },
    /// No entry at all.
    #[error("dataset.entries: found 0, at least 1 is needed")]
    NoEntries,
    /// A distribution with a parameter that is no length.
    #[error("dataset.{key}.{parameter}: found {value}, allowed are finite numbers of at least 0")]
    Length {
        /// Which length.
        key: &'static str,
        /// `mean` or `stddev`.
        parameter: &'static str,
        /// The value found.
        value: f64,
    },
    /// A prompt longer than [`MAX_PROMPT_TOKENS`].
    #[error(
        "dataset.prompts.isl: entry {entry} would have {tokens} tokens, allowed are at most {MAX_PROMPT_TOKENS}; lower isl"
    )]
    PromptTooLong {
        /// The entry, from 0.
        entry: u32,
        /// Its length.
        tokens: u32,
    },
    /// A data set larger than [`MAX_DATASET_BYTES`].
    #[error(
        "dataset.entries: {entries} requests of this length would take about {bytes} bytes of memory, allowed are {MAX_DATASET_BYTES}; lower entries or isl"
    )]
    DatasetTooLarge {
        /// Entries asked for.
        entries: u32,
        /// Estimated bytes of all images.
        bytes: u64,
    },
}

/// Renders the requests of synthetic conversations, see [`render_conversations`].
///
/// # Errors
/// The first [`RenderError`] found; lengths are checked before any text is made.
pub fn render_synthetic(inputs: &RenderInputs<'_>, dataset: &Synthetic) -> Result<RequestImages, RenderError> {
    check_length("prompts.isl", dataset.isl)?;
    if let Some(osl) = dataset.osl {
        check_length("prompts.osl", osl)?;
    }
    let parts = Parts::new(inputs)?;
    check_sizes(dataset, &parts.template)?;
    parts.render(dataset.conversations())
}

/// Renders the requests of a data set: one image per turn.
///
/// The body has the fields of the API in the order of the peer, then those of `extra`, then `stream_options` with `include_usage` (only where
/// streams do not count otherwise; a value of the user's own stays). It is compact JSON. Of a later turn it holds the turn's own message alone:
/// the history of its session is put in front of that while the load runs.
///
/// # Errors
/// The first [`RenderError`] found.
pub fn render_conversations(
    inputs: &RenderInputs<'_>,
    conversations: impl IntoIterator<Item = Conversation>,
) -> Result<RequestImages, RenderError> {
    Parts::new(inputs)?.render(conversations)
}

/// Renders synthetic requests for ranks.
///
/// # Errors
/// The first [`RenderError`] found; lengths are checked before any text is made.
pub fn render_rankings(inputs: &RenderInputs<'_>, dataset: &SyntheticRankings) -> Result<RequestImages, RenderError> {
    check_length("rankings.query_tokens", dataset.query_tokens)?;
    check_length("rankings.passages", dataset.passages)?;
    check_length("rankings.passage_tokens", dataset.passage_tokens)?;
    let parts = Parts::new(inputs)?;
    check_ranking_sizes(dataset, &parts.template)?;
    parts.render(dataset.conversations())
}

/// The body of a request for one token, to see whether a server answers.
pub(super) fn probe_body(kind: EndpointKind, model: &str, use_legacy_max_tokens: bool, prompt: &str) -> Vec<u8> {
    let inputs = RenderInputs {
        kind,
        targets: &[],
        model,
        streaming: false,
        close_after: false,
        use_legacy_max_tokens,
        use_server_token_count: false,
        headers: &[],
        session_header: None,
        extra: &Map::new(),
    };
    let turn = Turn {
        text: prompt.to_owned(),
        output_tokens: Some(1),
        written: kind.ranks().then(|| {
            Box::new(Written {
                passages: vec![prompt.to_owned()],
                ..Written::default()
            })
        }),
        ..Turn::default()
    };
    let template = BodyTemplate::new(&inputs, None).expect("without fields of the user's own nothing contradicts");
    template.fill(&turn, None).0
}

/// What all requests of a data set have in common.
struct Parts<'a> {
    inputs: &'a RenderInputs<'a>,
    heads: Vec<Arc<[u8]>>,
    ids: IdBlock,
    template: BodyTemplate,
}

impl<'a> Parts<'a> {
    fn new(inputs: &'a RenderInputs<'a>) -> Result<Self, RenderError> {
        Ok(Self {
            inputs,
            heads: head::render_heads(inputs)?,
            ids: head::render_id_block(inputs)?,
            template: BodyTemplate::new(inputs, None)?,
        })
    }

    fn render(self, conversations: impl IntoIterator<Item = Conversation>) -> Result<RequestImages, RenderError> {
        let mut entries = Vec::new();
        let mut index = Conversations::builder();
        let mut bytes = 0u64;
        for (number, conversation) in (0u32..).zip(conversations) {
            self.check(&conversation)?;
            // Where the system's message is no part of the history, every turn says it.
            let first = conversation.turns.first().and_then(|turn| turn.written.as_deref());
            let system = first.and_then(|written| written.system.as_deref());
            for (position, turn) in (0u32..).zip(&conversation.turns) {
                let image = self.image(number, position, turn, system)?;
                bytes += (image.tail.len() + std::mem::size_of::<RequestImage>()) as u64;
                entries.push(image);
            }
            if bytes > MAX_DATASET_BYTES {
                let entries = number + 1;
                return Err(RenderError::DatasetTooLarge { entries, bytes });
            }
            index.push(conversation.id, conversation.turns.len());
        }
        let index = index.finish();
        let Some(count) = NonZeroU32::new(index.count()) else {
            return Err(RenderError::NoEntries);
        };
        Ok(RequestImages {
            heads: self.heads.into(),
            ids: self.ids.into(),
            entries: entries.into(),
            order: Sampler::sequential(count),
            conversations: index.into(),
            answer_frame: match self.inputs.kind {
                EndpointKind::Responses => AnswerFrame::TYPED,
                _ => AnswerFrame::PLAIN,
            },
        })
    }

    /// Whether requests of this type can say what the conversation says.
    fn check(&self, conversation: &Conversation) -> Result<(), RenderError> {
        let (kind, turns) = (self.inputs.kind, &conversation.turns);
        if turns.len() > 1 && !kind.carries_history() {
            return Err(RenderError::SeveralTurns {
                id: conversation.id.clone(),
                turns: turns.len(),
                kind: kind.as_str(),
            });
        }
        if turns.len() > 1 && !self.template.has_text() {
            let key = self.template.said_key;
            return Err(RenderError::ExtraMessages { key });
        }
        match turns.iter().find_map(|turn| said::misfit(kind, turn)) {
            None => Ok(()),
            Some(reason) => Err(RenderError::Misfit {
                id: conversation.id.clone(),
                kind: kind.as_str(),
                reason,
            }),
        }
    }

    fn image(
        &self,
        conversation: u32,
        position: u32,
        turn: &Turn,
        system: Option<&str>,
    ) -> Result<RequestImage, RenderError> {
        let own = turn.written.as_deref();
        let own = own.filter(|written| written.extra.is_some() || written.tools.is_some());
        let own = own
            .map(|written| BodyTemplate::new(self.inputs, Some(written)))
            .transpose()?;
        let template = own.as_ref().unwrap_or(&self.template);
        let (body, message) = template.fill(turn, system);
        let mut tail = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
        tail.reserve_exact(body.len());
        tail.extend_from_slice(&body);
        Ok(RequestImage {
            tail: tail.into(),
            body_len: u32::try_from(body.len()).expect("a body is far smaller than the bound of the whole data set"),
            message,
            input_tokens: turn.input_tokens.filter(|_| template.has_text()),
            requested_output_tokens: template.requested_output_tokens(turn),
            conversation,
            turn: position,
            delay: turn.delay,
            timestamp: turn.timestamp,
        })
    }
}

fn check_length(key: &'static str, lengths: LengthDistribution) -> Result<(), RenderError> {
    match lengths.invalid_parameter() {
        None => Ok(()),
        Some((parameter, value)) => Err(RenderError::Length { key, parameter, value }),
    }
}

/// Draws every length and refuses a data set that would not fit, before any text is made.
fn check_sizes(dataset: &Synthetic, template: &BodyTemplate) -> Result<(), RenderError> {
    let entries = dataset.entries;
    if entries == 0 {
        return Err(RenderError::NoEntries);
    }
    let per_turn = (template.fixed_len() + std::mem::size_of::<RequestImage>()) as u64;
    let too_large = |bytes: u64| {
        if bytes > MAX_DATASET_BYTES {
            Err(RenderError::DatasetTooLarge { entries, bytes })
        } else {
            Ok(())
        }
    };
    // Checked once before the loop, because drawing lengths takes time.
    too_large(u64::from(entries).saturating_mul(per_turn))?;
    let mut bytes = 0u64;
    for size in dataset.sizes() {
        if size.input_tokens > MAX_PROMPT_TOKENS {
            return Err(RenderError::PromptTooLong {
                entry: size.entry,
                tokens: size.input_tokens,
            });
        }
        bytes += per_turn + u64::from(size.input_tokens) * MEAN_BYTES_PER_TOKEN as u64;
    }
    too_large(bytes)
}

/// The same for requests for ranks.
fn check_ranking_sizes(dataset: &SyntheticRankings, template: &BodyTemplate) -> Result<(), RenderError> {
    let entries = dataset.entries;
    if entries == 0 {
        return Err(RenderError::NoEntries);
    }
    let per_entry = (template.fixed_len() + std::mem::size_of::<RequestImage>()) as u64;
    let mut bytes = u64::from(entries).saturating_mul(per_entry);
    for (passages, tokens) in dataset.sizes() {
        if bytes > MAX_DATASET_BYTES {
            return Err(RenderError::DatasetTooLarge { entries, bytes });
        }
        bytes += u64::from(passages) * PASSAGE_FRAME_BYTES + tokens * MEAN_BYTES_PER_TOKEN as u64;
    }
    match bytes > MAX_DATASET_BYTES {
        true => Err(RenderError::DatasetTooLarge { entries, bytes }),
        false => Ok(()),
    }
}

/// Bytes around a passage in a body, at most.
const PASSAGE_FRAME_BYTES: u64 = 16;

#[cfg(test)]
mod tests;
