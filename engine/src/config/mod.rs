//! The file as written: every mistake of it with line, column, key and advice, and the values that were read.
//!
//! ```text
//! bytes -> text -> tree with places (anchors, merge keys, ${ENV}) -> typed sections -> Config
//! ```
//!
//! A value gets its type from the field it stands in, never from its looks: `on` is text where text is due and a boolean where a
//! boolean is. A key is either read, refused by name ("not supported by ringload yet"), or unknown; none is passed over. What the
//! values mean together is decided in [`plan`](crate::plan).

mod adaptive;
mod control_flags;
mod dataset;
mod dataset_file;
mod decode;
mod diagnostic;
mod endpoint;
mod fixed_schedule;
mod free;
mod headers;
mod hooks;
mod limits;
mod models;
mod output;
mod parse;
mod phase_names;
mod phases;
mod ramp;
mod rate;
mod readiness;
mod scalar;
mod schema;
mod secret;
mod substitute;
mod tree;
mod url;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

pub use adaptive::{AdaptiveScale, AdaptiveStep, AdaptiveVariable, Sla};
pub use control_flags::{ControlFlags, ServerPreset, control_path, positive_seconds, retry_seconds};
pub use dataset::{Dataset, Delay, Length, Sampling};
pub use dataset_file::{FileDataset, FileFormat, FileOrigin};
pub use diagnostic::{Diagnostic, Diagnostics};
pub use endpoint::{Address, ConnectionReuse, Endpoint};
pub use fixed_schedule::ScheduleWindow;
pub use hooks::{ResetKvCache, ServerProfiler};
pub use limits::Limits;
pub use output::{Artifacts, Ui};
pub use phases::{Cancellation, OnCap, Phase, PhaseKind, PhaseType};
pub use ramp::{Ramp, RampStrategy};
pub use rate::{Rate, RatePoint};
pub use readiness::{ReadinessMode, WaitForModel};
pub use substitute::Environment;
pub use tree::Position;
pub use url::Url;

pub(crate) use diagnostic::Source;
pub(crate) use headers::FIXED as FIXED_HEADERS;
pub use secret::redact_url;
pub(crate) use secret::{REDACTED, is_credential_name};
pub(crate) use url::Scheme;

use decode::{Field, Section};
use diagnostic::Sink;
use schema::{BENCHMARK, ENVELOPE, MULTI_RUN, snake_case};
use tree::{Entry, Node, Value};

/// A whole file as written, free of mistakes.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file, for mistakes found later.
    pub(crate) source: Arc<Source>,
    /// Seed of every random stream.
    pub random_seed: Option<u64>,
    /// Model names; one.
    pub models: Vec<String>,
    /// The server.
    pub endpoint: Endpoint,
    /// The prompts.
    pub dataset: Dataset,
    /// The workflow in order; at least one profiling phase.
    pub phases: Vec<Phase>,
    /// What is written.
    pub artifacts: Artifacts,
    /// How progress shows.
    pub ui: Option<Ui>,
    /// The tokenizer's name.
    pub tokenizer: Option<String>,
    /// Advice about the file itself, one line each.
    pub warnings: Vec<String>,
}

impl Config {
    /// A mistake that shows only when the values are put together.
    pub(crate) fn mistake(&self, at: Position, path: &str, message: String) -> Diagnostics {
        let diagnostic = Diagnostic {
            line: at.line,
            column: at.column,
            path: path.to_owned(),
            message,
        };
        Diagnostics::new(self.source.clone(), vec![diagnostic])
    }
}

/// Reads a file, with the environment of the process for `${NAME}`.
///
/// # Errors
/// All mistakes of the file, or why it could not be read.
pub fn load(path: &Path) -> Result<Config, Diagnostics> {
    let file = path.display().to_string();
    let unreadable = |reason: String| Diagnostics::unreadable(&file, reason);
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(format!("cannot read the file: {error}")))?;
    if !metadata.is_file() {
        return Err(unreadable("cannot read the file: it is not a regular file".to_owned()));
    }
    // Checked before reading, so that a wrong path to a huge file costs nothing.
    if metadata.len() > parse::MAX_BYTES as u64 {
        let limit = parse::MAX_BYTES;
        return Err(unreadable(format!(
            "found {} bytes; allowed: at most {limit}",
            metadata.len()
        )));
    }
    let bytes = std::fs::read(path).map_err(|error| unreadable(format!("cannot read the file: {error}")))?;
    parse(&file, &bytes, &|name| std::env::var(name).ok())
}

/// Reads the bytes of a file that messages call `file`.
///
/// # Errors
/// All mistakes of the file, sorted by place.
pub fn parse(file: &str, bytes: &[u8], environment: &Environment<'_>) -> Result<Config, Diagnostics> {
    let sink = Sink::default();
    let text = parse::decode_text(bytes, &sink);
    let root = text.and_then(|text| parse::parse(text, environment, &sink));
    let secrets = root.as_deref().map(secret::find_secrets);
    let source = Arc::new(Source::new(file, text.unwrap_or(""), secrets));
    let parts = root.and_then(|root| envelope(&root, &sink));
    let (mistakes, warnings) = sink.into_parts();
    match parts {
        Some(parts) if mistakes.is_empty() => Ok(Config {
            source,
            random_seed: parts.random_seed,
            models: parts.body.models,
            endpoint: parts.body.endpoint,
            dataset: parts.body.dataset,
            phases: parts.body.phases,
            artifacts: parts.body.artifacts,
            ui: parts.body.ui,
            tokenizer: parts.body.tokenizer,
            warnings,
        }),
        _ => {
            assert!(!mistakes.is_empty(), "a reader gave up on {file} without a report");
            Err(Diagnostics::new(source, mistakes))
        }
    }
}

struct Envelope {
    random_seed: Option<u64>,
    body: Body,
}

struct Body {
    models: Vec<String>,
    endpoint: Endpoint,
    dataset: Dataset,
    phases: Vec<Phase>,
    artifacts: Artifacts,
    ui: Option<Ui>,
    tokenizer: Option<String>,
}

fn envelope(root: &Rc<Node>, sink: &Sink) -> Option<Envelope> {
    let Value::Mapping(entries) = &root.value else {
        let field = Field {
            node: root,
            path: String::new(),
            sink,
        };
        field.mistake("a mapping with the key `benchmark`");
        return None;
    };
    let lifted = lift_flat(root, entries);
    if lifted.is_some() {
        sink.warn("the keys of `benchmark` stand at the top level; this works, but write them under `benchmark:`");
    }
    let (envelope_node, flat_body) = match &lifted {
        Some((envelope, body)) => (envelope, Some(body)),
        None => (&**root, None),
    };
    let section = Field {
        node: envelope_node,
        path: String::new(),
        sink,
    }
    .section(&ENVELOPE)?;
    check_version(&section);
    check_multi_run(&section);
    let random_seed = section
        .field("random_seed")
        .and_then(|field| field.integer(0, u64::MAX.into()));
    let body = match flat_body {
        // Keys keep their paths: in a flat file `phases` is `phases`.
        Some(node) => Field {
            node,
            path: String::new(),
            sink,
        },
        None => section.required("benchmark", "put model, endpoint, dataset and phases under it")?,
    };
    let body = benchmark(&body.section(&BENCHMARK)?)?;
    Some(Envelope { random_seed, body })
}

/// The old flat shape, taken apart into what belongs to the envelope and what belongs to `benchmark`. Not when `benchmark` is
/// there too: then a body key at the top level is more likely one level too high than old.
fn lift_flat(root: &Node, entries: &[Entry]) -> Option<(Node, Node)> {
    let is_body = |entry: &Entry| BENCHMARK.known().any(|key| key == snake_case(&entry.key));
    let has_benchmark = entries.iter().any(|entry| entry.key == "benchmark");
    if has_benchmark || !entries.iter().any(is_body) {
        return None;
    }
    let copy = |entry: &Entry| Entry {
        key: entry.key.clone(),
        key_at: entry.key_at,
        value: Rc::clone(&entry.value),
        merged: entry.merged,
    };
    let node = |wants_body: bool| Node {
        start: root.start,
        end: root.end,
        size: root.size,
        height: root.height,
        value: Value::Mapping(
            entries
                .iter()
                .filter(|entry| is_body(entry) == wants_body)
                .map(copy)
                .collect(),
        ),
    };
    Some((node(false), node(true)))
}

fn check_version(envelope: &Section<'_>) {
    if let Some(field) = envelope.field("schema_version")
        && let Some(scalar) = field.scalar("\"2.0\"")
        && scalar.text != "2.0"
    {
        field.mistake("\"2.0\"");
    }
}

/// One run is what happens anyway; more are refused.
fn check_multi_run(envelope: &Section<'_>) {
    let Some(section) = envelope.field("multi_run").and_then(|field| field.section(&MULTI_RUN)) else {
        return;
    };
    if let Some(field) = section.field("num_runs")
        && field.integer::<u32>(1, 10).is_some_and(|runs| runs > 1)
    {
        field.refuse("several runs of one benchmark", "write 1 or remove `multi_run`");
    }
}

fn benchmark(section: &Section<'_>) -> Option<Body> {
    // Everything is read before anything is given up on, so that all mistakes are reported.
    let models = models::decode(section);
    let endpoint = section
        .required("endpoint", "as in endpoint: {url: http://localhost:8000, type: chat}")
        .and_then(|field| endpoint::decode(&field));
    let dataset = dataset::decode(section);
    let streaming = endpoint.as_ref().map(|endpoint| endpoint.streaming.unwrap_or(false));
    let phases = phases::decode(section, streaming);
    let artifacts = output::artifacts(section);
    let ui = output::ui(section);
    let tokenizer = output::tokenizer(section);
    output::logging(section);
    output::telemetry(section);
    Some(Body {
        models,
        endpoint: endpoint?,
        dataset: dataset?,
        phases,
        artifacts,
        ui,
        tokenizer,
    })
}
