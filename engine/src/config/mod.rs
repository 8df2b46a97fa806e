//! The file as written: every mistake of it with line, column, key and advice, and the values that were read.
//!
//! ```text
//! bytes -> text -> tree with places (anchors, merge keys, ${ENV}) -> flags written over it -> one tree per variation, templates filled in
//!       -> typed sections -> Config
//! ```
//!
//! A value gets its type from the field it stands in, never from its looks: `on` is text where text is due and a boolean where a
//! boolean is. A key is either read, refused by name ("not supported by ringload yet"), or unknown; none is passed over. What the
//! values mean together is decided in [`plan`](crate::plan).

mod adaptive;
mod address;
mod base64;
mod convergence;
mod dataset;
mod dataset_file;
mod decode;
mod diagnostic;
mod distribution;
mod endpoint;
mod endpoint_type;
mod fixed_schedule;
mod flags;
mod free;
mod headers;
mod hooks;
mod jinja;
mod json_schema;
mod limits;
mod merge;
mod models;
mod multi_run;
mod output;
mod parse;
mod payload;
mod phase_names;
mod phases;
mod prefix;
mod ramp;
mod rate;
mod readiness;
mod scalar;
mod schema;
mod secret;
mod secrets;
mod sequence_lengths;
mod server_preset;
mod shown;
mod slos;
mod source;
mod span;
mod substitute;
mod suite;
mod sweep;
mod synthesis;
mod telemetry;
mod template;
mod tree;
mod url;

#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::sync::Arc;

pub use adaptive::{AdaptiveScale, AdaptiveStep, AdaptiveVariable, Sla};
pub use convergence::{Convergence, ConvergenceMode, NOT_IN_LINES, Needs, RUN_METRICS};
pub use dataset::{Dataset, Rankings, Sampling};
pub use dataset_file::{FileDataset, FileFormat, FileOrigin};
pub use diagnostic::{Diagnostic, Diagnostics};
pub use distribution::{Clamped, Delay, Distribution, Length, Weighted};
pub use endpoint::{Address, ConnectionReuse, Endpoint};
pub use endpoint_type::EndpointType;
pub use fixed_schedule::ScheduleWindow;
pub use flags::{Flag, Flags, Group, Takes, all_flags, recorded, refusal};
pub use hooks::{ResetKvCache, ServerProfiler};
pub use json_schema::json_schema;
pub use limits::Limits;
pub use models::{Model, ModelStrategy, Models};
pub use multi_run::{FailurePolicy, MultiRun};
pub use output::{Artifacts, Ui};
pub use payload::PayloadTemplate;
pub(crate) use payload::{Payload, PayloadFault, PayloadNames};
pub use phases::{Cancellation, OnCap, Phase, PhaseKind, PhaseType};
pub use prefix::{PrefixPrompts, SystemPrompt};
pub use ramp::{Ramp, RampStrategy};
pub use rate::{Rate, RatePoint};
pub use readiness::{ReadinessMode, WaitForModel};
pub use server_preset::ServerPreset;
pub use slos::{METRICS_OF_NO_REQUEST, SLO_METRICS, Slo};
pub use substitute::Environment;
pub use suite::{Suite, Variation, load_suite, load_suite_with, parse_suite, parse_suite_with, suite_of_flags};
pub use sweep::{IterationOrder, Sweep};
pub use synthesis::Synthesis;
pub use telemetry::{GpuTelemetry, MetricsFormat, ServerMetrics, Telemetry};
pub use tree::Position;
pub use url::Url;

pub(crate) use base64::base64;
pub(crate) use diagnostic::Source;
pub(crate) use headers::FIXED as FIXED_HEADERS;
pub use secret::redact_url;
pub(crate) use secret::{REDACTED, is_credential_header, masked, masked_template, redact_path};
pub use secrets::Secrets;
pub use sequence_lengths::{CorpusStyle, RangeRatio, SequencePair};
pub(crate) use url::Scheme;

use adaptive::Judged;
use decode::{Field, Section};
use diagnostic::Sink;
use flags::{Overlaid, overlay};
use schema::{BENCHMARK, ENVELOPE, snake_case};
use slos::Answers;
use tree::{Entry, Node, Value};

/// A whole file as written, free of mistakes.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file, for mistakes found later.
    pub(crate) source: Arc<Source>,
    /// Seed of every random stream.
    pub random_seed: Option<u64>,
    /// The models that are asked for.
    pub models: Models,
    /// The server.
    pub endpoint: Endpoint,
    /// The prompts.
    pub dataset: Dataset,
    /// The workflow in order; at least one profiling phase.
    pub phases: Vec<Phase>,
    /// What is written.
    pub artifacts: Artifacts,
    /// What is read from the server and its GPUs while the load runs.
    pub telemetry: Telemetry,
    /// What makes a request good; empty: nothing is judged.
    pub slos: Vec<Slo>,
    /// How progress shows.
    pub ui: Option<Ui>,
    /// The tokenizer's name.
    pub tokenizer: Option<String>,
    /// Advice about the file itself, one line each.
    pub warnings: Vec<String>,
    /// Its credentials, to be masked in everything that leaves the process.
    pub(crate) secrets: Secrets,
}

impl Config {
    /// Whether no file was written: flags say everything.
    pub(crate) fn is_of_flags(&self) -> bool {
        self.source.file() == flags::COMMAND_LINE
    }

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

/// Reads the bytes of a file that messages call `file` and that describes one run.
///
/// # Errors
/// All mistakes of the file, sorted by place, or that it describes several runs.
pub fn parse(file: &str, bytes: &[u8], environment: &Environment<'_>) -> Result<Config, Diagnostics> {
    parse_suite(file, bytes, environment)?.into_single()
}

/// Seconds of a duration above zero, written as in a file: 30, 30s, 500ms, 2m, 1h30m.
///
/// # Errors
/// What is allowed.
pub fn positive_duration(text: &str) -> Result<f64, String> {
    decode::Bounds::POSITIVE.duration(text)
}

/// Seconds of a duration that may be turned off: infinity for `inf` and for 0.
///
/// # Errors
/// What is allowed.
pub fn duration_or_never(text: &str) -> Result<f64, String> {
    let seconds = decode::Bounds::NOT_NEGATIVE.or_infinity().duration(text)?;
    Ok(if seconds == 0.0 { f64::INFINITY } else { seconds })
}

struct Body {
    models: Models,
    endpoint: Endpoint,
    dataset: Dataset,
    phases: Vec<Phase>,
    artifacts: Artifacts,
    telemetry: Telemetry,
    slos: Vec<Slo>,
    ui: Option<Ui>,
    tokenizer: Option<String>,
}

/// What to read: a tree, and the flags that go over it.
struct Input<'a> {
    root: &'a Rc<Node>,
    flags: &'a Flags,
    /// Whether the tree was written by the user.
    has_file: bool,
}

fn envelope(input: &Input<'_>, source: &Arc<Source>, sink: &Sink) -> Option<Suite> {
    let root = input.root;
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
        None => (root, None),
    };
    // Keys keep their paths: in a flat file `phases` is `phases`.
    let (body, path) = match flat_body {
        Some(node) => (Some(node), ""),
        None => (root.get("benchmark").filter(|node| !node.is_null()), "benchmark"),
    };
    let overlaid = body.map(|body| {
        // What is no mapping is a mistake of the file, and flags would hide it.
        let is_mapping = matches!(body.value, Value::Mapping(_));
        if !is_mapping || (input.flags.is_empty() && input.has_file) {
            Overlaid::bare(envelope_node, body)
        } else {
            overlay(envelope_node, body, input.flags, input.has_file, sink)
        }
    });
    let section = Field {
        node: overlaid.as_ref().map_or(envelope_node, |overlaid| &overlaid.envelope),
        path: String::new(),
        sink,
    }
    .section(&ENVELOPE)?;
    check_version(&section);
    if flat_body.is_none() {
        section.required("benchmark", "put model, endpoint, dataset and phases under it");
    }
    suite::read(&section, overlaid.as_ref(), path, source, sink)
}

/// The old flat shape, taken apart into what belongs to the envelope and what belongs to `benchmark`. Not when `benchmark` is
/// there too: then a body key at the top level is more likely one level too high than old.
fn lift_flat(root: &Node, entries: &[Entry]) -> Option<(Rc<Node>, Rc<Node>)> {
    let is_body = |entry: &Entry| BENCHMARK.known().any(|key| key == snake_case(&entry.key));
    let has_benchmark = entries.iter().any(|entry| entry.key == "benchmark");
    if has_benchmark || !entries.iter().any(is_body) {
        return None;
    }
    let (body, envelope): (Vec<Entry>, Vec<Entry>) = entries.iter().cloned().partition(is_body);
    let node = |entries| Node::made(root, Value::Mapping(entries));
    Some((node(envelope), node(body)))
}

fn check_version(envelope: &Section<'_>) {
    if let Some(field) = envelope.field("schema_version")
        && let Some(scalar) = field.scalar("\"2.0\"")
        && scalar.text != "2.0"
    {
        field.mistake("\"2.0\"");
    }
}

fn benchmark(section: &Section<'_>) -> Option<Body> {
    // Everything is read before anything is given up on, so that all mistakes are reported.
    let models = models::decode(section);
    let endpoint = section
        .required("endpoint", "as in endpoint: {url: http://localhost:8000, type: chat}")
        .and_then(|field| endpoint::decode(&field));
    let kind = endpoint.as_ref().map(|endpoint| endpoint.kind.unwrap_or_default());
    models::check_kind(section, &models, kind);
    let dataset = dataset::decode(section, kind);
    let streaming = endpoint.as_ref().map(|endpoint| endpoint.streaming.unwrap_or(false));
    let slos = slos::decode(section, Answers { streaming, kind });
    let judged = Judged {
        streaming,
        has_slos: slos::are_written(section),
    };
    let phases = phases::decode(section, judged);
    let artifacts = output::artifacts(section);
    let ui = output::ui(section);
    let tokenizer = output::tokenizer(section);
    output::logging(section);
    let telemetry = telemetry::decode(section);
    Some(Body {
        models,
        endpoint: endpoint?,
        dataset: dataset?,
        phases,
        artifacts,
        telemetry,
        slos,
        ui,
        tokenizer,
    })
}
