//! `benchmark.endpoint`, as written.

use serde_json::{Map, Value as Json};

use super::decode::{Bounds, Field, Section};
use super::endpoint_type::EndpointType;
use super::free::json;
use super::headers;
use super::hooks::{self, ResetKvCache, ServerProfiler};
use super::payload::{self, PayloadTemplate};
use super::readiness::{self, WaitForModel};
use super::schema::ENDPOINT;
use super::tree::Position;
use super::url::Url;

/// The server and how requests are sent to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint {
    /// Where the section begins.
    pub at: Position,
    /// The addresses, at least one. All have the same scheme and the same credentials.
    pub urls: Vec<Address>,
    /// The API; `None` is the default.
    pub kind: Option<EndpointType>,
    /// Path that replaces the one of the API.
    pub path: Option<String>,
    /// Key for `Authorization: Bearer`, or for the header that the API has in its place.
    pub api_key: Option<String>,
    /// Seconds for one request; 0 and infinity are "no limit".
    pub timeout_s: Option<f64>,
    /// Whether requests ask for an event stream. Never where the API has none.
    pub streaming: Option<bool>,
    /// What becomes of a connection whose request has ended.
    pub connection_reuse: Option<ConnectionReuse>,
    /// Whether `transport: http` is written.
    pub transport_http: bool,
    /// Headers of the user in the order of the file.
    pub headers: Vec<(String, String)>,
    /// Keys merged into every request body.
    pub extra: Map<String, Json>,
    /// What bodies are made of, with type template alone.
    pub template: Option<PayloadTemplate>,
    /// Name that replaces `X-Correlation-ID`.
    pub session_header: Option<String>,
    /// `max_tokens` instead of `max_completion_tokens`.
    pub use_legacy_max_tokens: Option<bool>,
    /// Whether the server's token counts were asked for.
    pub use_server_token_count: Option<bool>,
    /// Whether `url_strategy: round_robin` is written.
    pub url_strategy: bool,
    /// Whether and how the run waits for the server.
    pub wait_for_model: WaitForModel,
    /// The reset hook; `None` is off.
    pub reset_kv_cache: Option<ResetKvCache>,
    /// The profiler hook; `None` is off.
    pub server_profiler: Option<ServerProfiler>,
}

/// One address of the endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Address {
    /// Taken apart.
    pub url: Url,
    /// As written, with a scheme.
    pub text: String,
    /// Whether a flag wrote it.
    pub is_of_flag: bool,
}

/// What becomes of a connection whose request has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConnectionReuse {
    /// It waits for any next request.
    #[default]
    Pooled,
    /// It is closed, and the request says so in advance.
    Never,
    /// It waits for the next request of its session and is closed with the session.
    StickyUserSessions,
}

impl ConnectionReuse {
    const ALL: [Self; 3] = [Self::Pooled, Self::Never, Self::StickyUserSessions];

    /// The word in configs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pooled => "pooled",
            Self::Never => "never",
            Self::StickyUserSessions => "sticky-user-sessions",
        }
    }
}

/// Most addresses of an endpoint: each core has connections and counts of its own for each.
const MAX_URLS: usize = 64;

/// The other APIs of the format.
const REFUSED_TYPES: [&str; 10] = [
    "audio_transcription",
    "chat_embeddings",
    "huggingface_generate",
    "image_generation",
    "image_edit",
    "video_generation",
    "image_retrieval",
    "nim_embeddings",
    "solido_rag",
    "raw",
];

pub(super) fn decode(field: &Field<'_>) -> Option<Endpoint> {
    let section = field.section(&ENDPOINT)?;
    let urls = urls(&section);
    let written_kind = section.field("type");
    let kind = written_kind
        .as_ref()
        .and_then(|field| field.word(&EndpointType::ALL.map(|kind| (kind.as_str(), kind)), &REFUSED_TYPES));
    let template = section.field("template");
    // The section says the type as well as the word.
    let kind = match &written_kind {
        Some(_) => kind,
        None => template.as_ref().map(|_| EndpointType::Template),
    };
    // Of a type that could not be read nothing is known that other keys could contradict.
    let known_kind = match &written_kind {
        Some(_) => kind,
        None => Some(kind.unwrap_or_default()),
    };
    check_template(written_kind.as_ref(), known_kind, template.as_ref());
    let template = template.and_then(|field| payload::decode(&field));
    let streaming = section
        .field("streaming")
        .and_then(|field| field.boolean())
        .map(|streaming| streaming && can_stream(&section, known_kind));
    let extra = section
        .field("extra")
        .and_then(|field| extra(&field, streaming.unwrap_or(false)))
        .unwrap_or_default();
    if known_kind == Some(EndpointType::Template) {
        payload::check_extra(&section, &extra);
    }
    let api_key = section.field("api_key").and_then(|field| api_key(&field));
    let session_header = section
        .field("session_header")
        .and_then(|field| headers::session_header(&field));
    let headers = section
        .field("headers")
        .map(|field| headers::decode(&field, session_header.as_deref()))
        .unwrap_or_default();
    if urls.iter().flatten().any(|address| address.url.credentials.is_some()) && section.field("api_key").is_some() {
        section.report(
            "api_key",
            "the URL holds a user and password already, and both become `Authorization`; keep one",
        );
    }
    let path = section.field("path").and_then(|field| path(&field));
    let timeout_s = section
        .field("timeout")
        .and_then(|field| field.duration(Bounds::NOT_NEGATIVE.or_infinity()));
    let connection_reuse = section
        .field("connection_reuse")
        .and_then(|field| field.word(&ConnectionReuse::ALL.map(|reuse| (reuse.as_str(), reuse)), &[]));
    let transport = section
        .field("transport")
        .and_then(|field| field.word(&[("http", ())], &["sagemaker"]));
    let boolean = |key| section.field(key).and_then(|field| field.boolean());
    let (use_legacy_max_tokens, use_server_token_count) =
        (boolean("use_legacy_max_tokens"), boolean("use_server_token_count"));
    if let (Some(true), Some(kind)) = (
        use_legacy_max_tokens,
        known_kind.filter(|kind| *kind != EndpointType::Chat),
    ) {
        warn(
            &section,
            "use_legacy_max_tokens",
            kind,
            "it is about a key of type chat",
        );
    }
    let reset_kv_cache = section
        .field("reset_kv_cache")
        .and_then(|field| hooks::reset_kv_cache(&field));
    let server_profiler = section
        .field("server_profiler")
        .and_then(|field| hooks::server_profiler(&field));
    let url_strategy = section
        .field("url_strategy")
        .and_then(|field| field.word(&[("round_robin", ())], &[]));
    let wait_for_model = readiness::decode(&section);
    let urls = urls?;
    Some(Endpoint {
        at: section.start,
        urls,
        kind,
        path,
        api_key,
        timeout_s,
        streaming,
        connection_reuse,
        transport_http: transport.is_some(),
        headers,
        extra,
        template,
        session_header,
        use_legacy_max_tokens,
        use_server_token_count,
        url_strategy: url_strategy.is_some(),
        wait_for_model,
        reset_kv_cache,
        server_profiler,
    })
}

/// Reports a type and a section that do not belong together.
fn check_template(written: Option<&Field<'_>>, kind: Option<EndpointType>, template: Option<&Field<'_>>) {
    match (kind, template) {
        (Some(EndpointType::Template), None) => {
            if let Some(field) = written {
                field.report(
                    "type template has no body of its own; write it, as in template: {body: '{\"prompt\": {{ text|tojson }}}'}",
                );
            }
        }
        (Some(other), Some(field)) if other != EndpointType::Template => {
            field.report(format!(
                "bodies of type {} are made by that type; remove this section, or set type: template",
                other.as_str()
            ));
        }
        _ => {}
    }
}

/// Whether a wish for streams can be granted; says so if not. A type with a mistake may be one that has them.
fn can_stream(section: &Section<'_>, kind: Option<EndpointType>) -> bool {
    match kind.filter(|kind| !kind.makes_tokens()) {
        Some(kind) => {
            warn(
                section,
                "streaming",
                kind,
                "its answers come whole, and so they are asked for",
            );
            false
        }
        None => true,
    }
}

/// Says that a key has no effect with a type. Such keys stay behind when a file is tried with another type, and change nothing there.
fn warn(section: &Section<'_>, key: &'static str, kind: EndpointType, reason: &str) {
    section.warn(
        key,
        &format!("this has no effect with type {}: {reason}", kind.as_str()),
    );
}

/// The addresses, from `url` or `urls`, each a text or a list.
fn urls(section: &Section<'_>) -> Option<Vec<Address>> {
    if section.exclusive("url", "urls") {
        return None;
    }
    let Some(field) = section.field("url").or_else(|| section.field("urls")) else {
        section.required(
            "url",
            "write the address of the server, as in url: http://localhost:8000",
        );
        return None;
    };
    if field.node.scalar().is_some() {
        return Some(vec![address(&field)?]);
    }
    let fields: Vec<Field<'_>> = field.items("a URL or a list of URLs")?.collect();
    if fields.is_empty() || fields.len() > MAX_URLS {
        field.mistake(&format!("at least one URL, and at most {MAX_URLS}"));
        return None;
    }
    // All are read before any is given up on, so that all mistakes are known at once.
    let read: Vec<Option<Address>> = fields.iter().map(address).collect();
    let read: Vec<Address> = read.into_iter().collect::<Option<_>>()?;
    let (first, others) = read.split_first().expect("there is at least one");
    for (other, field) in others.iter().zip(&fields[1..]) {
        if other.url.scheme != first.url.scheme {
            field.report("this address and the first one differ in their scheme; use http for all or https for all");
        }
        if other.url.credentials != first.url.credentials {
            field.report(
                "this address and the first one differ in user or password; use the same for all, or `api_key`",
            );
        }
    }
    Some(read)
}

pub(super) fn address(field: &Field<'_>) -> Option<Address> {
    let text = field.scalar("a URL such as http://localhost:8000")?.text.trim();
    match Url::parse(text) {
        Ok(url) => {
            let scheme = if text.contains("://") { "" } else { "http://" };
            let text = format!("{scheme}{text}");
            Some(Address {
                url,
                text,
                is_of_flag: field.node.start.flag().is_some(),
            })
        }
        Err(fault) => {
            field.report(format!("found {}; {fault}", field.found()));
            None
        }
    }
}

/// `endpoint.path`: a request target, so a query is fine.
fn path(field: &Field<'_>) -> Option<String> {
    let path = field.scalar("a path that starts with `/`")?.text.as_str();
    if !path.starts_with('/') || !path.bytes().all(|b| b.is_ascii_graphic()) || path.contains('#') {
        field.mistake("a path that starts with `/`, percent-encoded, without `#`");
        return None;
    }
    Some(path.to_owned())
}

/// A key that can stand in a header.
fn api_key(field: &Field<'_>) -> Option<String> {
    let key = field.text()?;
    if key.trim().is_empty() || !key.bytes().all(|b| b.is_ascii_graphic()) {
        field.mistake("a key of printable ASCII characters without blanks");
        return None;
    }
    Some(key.to_owned())
}

/// Body keys. Only `stream` cannot be the user's: the answer would be read in the wrong form.
fn extra(field: &Field<'_>, streaming: bool) -> Option<Map<String, Json>> {
    let Json::Object(extra) = json(field)? else {
        field.mistake("a mapping of keys for the request body");
        return None;
    };
    if let Some(stream) = extra.get("stream")
        && *stream != Json::Bool(streaming)
    {
        field.report("`stream` here contradicts `endpoint.streaming`; remove it and set `endpoint.streaming`");
        return None;
    }
    Some(extra)
}
