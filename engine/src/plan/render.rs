//! From resolved settings to request bytes: every byte that the load sends, except ids, is made here before the first request.

mod body;
mod head;

use serde_json::{Map, Value};

use super::{ID_BLOCK_CAPACITY, RequestImage, RequestImages, Target};
use crate::dataset::{LengthDistribution, MEAN_BYTES_PER_TOKEN, Prompts, SizedPrompt};
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
    /// Where requests go: gives the request line and `Host`.
    pub target: &'a Target,
    /// Model name, as the server knows it.
    pub model: &'a str,
    /// Whether requests ask for an event stream.
    pub streaming: bool,
    /// Tell the server that the connection will not be used again.
    pub close_after: bool,
    /// Ask for output tokens by `max_tokens` and not by `max_completion_tokens`.
    pub use_legacy_max_tokens: bool,
    /// Further headers. A name that ringload generates too takes the user's value, except `Accept` and `Content-Type`, which follow from the
    /// endpoint. Of several entries with one name (ignoring case) the last one counts.
    pub headers: &'a [(String, String)],
    /// Replaces the name `X-Correlation-ID`.
    pub session_header: Option<&'a str>,
    /// Further fields of the body; they win over built ones.
    pub extra: &'a Map<String, Value>,
    /// Entries of the data set, at least 1.
    pub entries: u32,
    /// Input lengths; `None` is [`DEFAULT_ISL`].
    pub isl: Option<LengthDistribution>,
    /// Output lengths to ask for; `None` asks for none and leaves the end to the server.
    pub osl: Option<LengthDistribution>,
    /// Root of the random streams. The same inputs and seed give the same bytes.
    pub seed: u64,
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
    /// No entry at all.
    #[error("dataset.entries: found 0, at least 1 is needed")]
    NoEntries,
    /// A distribution with a parameter that is no length.
    #[error("dataset.prompts.{key}.{parameter}: found {value}, allowed are finite numbers of at least 0")]
    Length {
        /// `isl` or `osl`.
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

/// Renders the chat completion requests of a data set.
///
/// The body has the fields `messages`, `model`, `stream`, `max_completion_tokens` (or `max_tokens`; only with an output length), then those of
/// `extra`, then `stream_options` with `include_usage` (only when streaming; a value of the user's own stays). It is compact JSON.
///
/// # Errors
/// The first [`RenderError`] found; nothing is rendered then.
pub fn render_chat(inputs: RenderInputs<'_>) -> Result<RequestImages, RenderError> {
    let head = head::render_head(&inputs)?;
    let ids = head::render_id_block(&inputs)?;
    let template = BodyTemplate::chat(&inputs)?;
    let isl = inputs.isl.unwrap_or(DEFAULT_ISL);
    check_length("isl", isl)?;
    if let Some(osl) = inputs.osl {
        check_length("osl", osl)?;
    }

    let prompts = Prompts::new(isl, inputs.osl, inputs.seed);
    let sizes = check_sizes(&inputs, &prompts, &template)?;
    let entries = sizes
        .into_iter()
        .map(|size| render_entry(&template, &prompts, size))
        .collect();
    Ok(RequestImages {
        head: head.into(),
        ids: ids.into(),
        entries,
    })
}

fn check_length(key: &'static str, lengths: LengthDistribution) -> Result<(), RenderError> {
    match lengths.invalid_parameter() {
        None => Ok(()),
        Some((parameter, value)) => Err(RenderError::Length { key, parameter, value }),
    }
}

/// Draws every length and refuses a data set that would not fit, before any text is made.
fn check_sizes(
    inputs: &RenderInputs<'_>,
    prompts: &Prompts,
    template: &BodyTemplate,
) -> Result<Vec<SizedPrompt>, RenderError> {
    if inputs.entries == 0 {
        return Err(RenderError::NoEntries);
    }
    let fixed =
        u64::from(inputs.entries).saturating_mul((template.fixed_len() + std::mem::size_of::<RequestImage>()) as u64);
    let too_large = |bytes: u64| {
        if bytes > MAX_DATASET_BYTES {
            Err(RenderError::DatasetTooLarge {
                entries: inputs.entries,
                bytes,
            })
        } else {
            Ok(())
        }
    };
    // Checked once before the loop, because the list of sizes itself takes memory.
    too_large(fixed)?;
    let mut tokens = 0u64;
    let sizes: Vec<SizedPrompt> = (0..inputs.entries)
        .map(|entry| {
            let size = prompts.size(entry);
            tokens += u64::from(size.input_tokens);
            if size.input_tokens > MAX_PROMPT_TOKENS {
                return Err(RenderError::PromptTooLong {
                    entry,
                    tokens: size.input_tokens,
                });
            }
            Ok(size)
        })
        .collect::<Result<_, _>>()?;
    too_large(fixed.saturating_add(tokens * MEAN_BYTES_PER_TOKEN as u64))?;
    Ok(sizes)
}

fn render_entry(template: &BodyTemplate, prompts: &Prompts, size: SizedPrompt) -> RequestImage {
    let body = template.fill(prompts, size);
    let mut tail = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    tail.reserve_exact(body.len());
    tail.extend_from_slice(&body);
    RequestImage {
        tail: tail.into(),
        body_len: u32::try_from(body.len()).expect("a body is far smaller than the bound of the whole data set"),
        input_tokens: template.has_text().then_some(size.input_tokens),
        requested_output_tokens: template.requested_output_tokens(size),
        conversation_id: prompts.conversation_id(size.entry),
    }
}

#[cfg(test)]
mod tests;
