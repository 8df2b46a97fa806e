//! What no request can be made from, in words for the user.

use serde_json::Value;

use super::{ID_BLOCK_CAPACITY, MAX_DATASET_BYTES, MAX_DRAWN_COUNT, MAX_PROMPT_TOKENS};

use crate::units::counted;

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
    #[error("endpoint.session_header: the headers with ids take {length} bytes, allowed are {ID_BLOCK_CAPACITY}; shorten the name by {}", counted(length - ID_BLOCK_CAPACITY, "character"))]
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
    /// `extra` in place of what conversations begin with.
    #[error(
        "endpoint.extra.{key}: it replaces what dataset.system_prompt or dataset.prefix_prompts would put there; keep one of them"
    )]
    ExtraOpening {
        /// The key of what is replaced.
        key: &'static str,
    },
    /// A beginning for prompts that bodies do not hold.
    #[error(
        "dataset.prefix_prompts: the template of bodies says nothing of the prompt, and so not what it begins with; write {{{{ text|tojson }}}} in \
         endpoint.template.body, or remove the key"
    )]
    TemplateOpening,
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
    /// A body that the user's template could not make.
    #[error("conversation {id}, turn {turn}, has no body: {reason}")]
    Payload {
        /// The conversation.
        id: String,
        /// Its turn, from 1.
        turn: u32,
        /// What is wrong.
        reason: String,
        /// Byte of the template at which it is wrong, if that is known.
        offset: Option<usize>,
    },
    /// No entry at all.
    #[error("dataset.entries: found 0, at least 1 is needed")]
    NoEntries,
    /// A distribution with a parameter that is no length.
    #[error(
        "dataset.{key}.{parameter}: found {value}, allowed are finite numbers of at least 0, a median above 0 and up to the mean, and a min up to max"
    )]
    Length {
        /// Which length.
        key: &'static str,
        /// `mean`, `stddev`, `median` or `min`.
        parameter: &'static str,
        /// The value found.
        value: f64,
    },
    /// A prompt longer than [`MAX_PROMPT_TOKENS`].
    #[error(
        "dataset.{key}: entry {entry} would have {tokens} tokens, allowed are at most {MAX_PROMPT_TOKENS}; lower {}",
        lower_what(key)
    )]
    PromptTooLong {
        /// What gives the lengths.
        key: &'static str,
        /// The entry, from 0.
        entry: u32,
        /// Its length.
        tokens: u32,
    },
    /// A draw of more turns or passages than [`MAX_DRAWN_COUNT`].
    #[error(
        "dataset.{key}: entry {entry} would have {count}, allowed are at most {MAX_DRAWN_COUNT}; lower the mean, or set a max"
    )]
    CountTooLarge {
        /// What is counted.
        key: &'static str,
        /// The entry, from 0.
        entry: u32,
        /// How many it would have.
        count: u32,
    },
    /// A pool whose texts, once for each model, are more than [`MAX_DATASET_BYTES`].
    #[error(
        "dataset: {texts} texts, each for {models} models, would take about {bytes} bytes of memory, allowed are {MAX_DATASET_BYTES}; take fewer \
         texts or fewer models"
    )]
    PoolOfModels {
        /// Records of the pool.
        texts: usize,
        /// Models of the run.
        models: usize,
        /// Estimated bytes of all of them.
        bytes: u64,
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

/// What shortens the longest draws of a length.
fn lower_what(key: &str) -> &'static str {
    match key {
        "prompts.sequence_distribution" => "isl or isl_stddev of its pairs",
        _ => "it, or set a max",
    }
}
