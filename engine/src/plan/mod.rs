//! What will happen: resolved, immutable, and independent of how many cores run it.
//!
//! Only this module reads [`config`](crate::config). Everything below it works from these types.

mod adaptive;
mod advice;
mod authorization;
mod beginning;
mod build;
mod conversations;
mod dataset;
mod directory;
mod echo;
mod lengths;
mod models;
mod phase;
mod rate;
mod readiness;
pub mod render;
mod request_image;
mod resolved;
mod saved;
mod schedule;
mod slices;
mod target;
mod telemetry;
mod traces;
mod yaml;

pub use crate::config::{
    ConnectionReuse, EndpointType as EndpointKind, METRICS_OF_NO_REQUEST, MetricsFormat, NOT_IN_LINES, Needs,
    RUN_METRICS, ReadinessMode, SLO_METRICS, Secrets, Slo,
};
pub(crate) use crate::config::{REDACTED, is_credential_header, redact_url};
pub use crate::dataset::{Choice, Sampler, Sampling};
pub use adaptive::{AdaptivePlan, ControlVariable, PACE_LEAD, SlaFilter, SlaOp, StepPolicy, WindowMetric, WindowStat};
pub use build::{BuildOptions, Outline, build, check};
pub use conversations::Conversations;
pub use directory::of_all as artifact_directory;
pub use models::ModelPlan;
pub use phase::{
    CancellationPlan, DrainRule, LimitPlan, PhaseKind, PhasePlan, RampPlan, RampStrategy, StopRule, TurnLaw,
    ends_drains_by_silence,
};
pub use rate::{Arrival, Gaps, OnCap, RateCourse, RatePlan, RatePoint};
pub use request_image::{AnswerFrame, ID_BLOCK_CAPACITY, IdBlock, RequestImage, RequestImages};
pub use resolved::SeedChoice;
pub(crate) use saved::SavedPlan;
pub use schedule::{NoSchedule, Schedule, ScheduledStart, Window};

use std::path::PathBuf;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::units::Nanos;

/// A whole run, resolved.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Random identity of the run: 12 hexadecimal digits.
    pub benchmark_id: String,
    /// Which repetition of the same plan this is, from 0.
    pub trial: u32,
    /// Where it stands among several runs; `None` for a run of its own.
    pub cell: Option<CellIdentity>,
    /// Root of every random stream. From the config, or drawn once and recorded.
    pub seed: u64,
    /// The models that are asked for.
    pub models: ModelPlan,
    /// Where requests go and how they are judged.
    pub endpoint: EndpointPlan,
    /// The request bytes of every dataset entry.
    pub requests: RequestImages,
    /// The file that they were made of; `None` if there is none.
    pub dataset_file: Option<DatasetFile>,
    /// The file of the system's message in them; `None` if there is none.
    pub system_prompt_file: Option<DatasetFile>,
    /// The workflow, in order. Never empty; at least one profiling phase.
    pub phases: Vec<PhasePlan>,
    /// How to wait for the server before anything else; `None` does not.
    pub readiness: Option<ReadinessPlan>,
    /// Control hooks around the load.
    pub hooks: HookPlan,
    /// What is read from the server and its GPUs while the load runs.
    pub telemetry: TelemetryPlan,
    /// What makes a request good; empty: nothing is judged.
    pub slos: Vec<Slo>,
    /// What is written, and where.
    pub artifacts: ArtifactPlan,
    /// The normalised config without unset fields, secrets redacted: `input_config` of the artifacts.
    pub input_config: serde_json::Value,
    /// The credentials of the config, to be masked in everything that leaves the process.
    pub secrets: Secrets,
    /// The redacted command line for `run_info.cli_command`.
    pub command: String,
    /// Advice found while planning, one line each (for example "concurrency 100 can never be reached with 10 requests").
    pub warnings: Vec<String>,
}

impl Plan {
    /// A digest of what will be measured: the config without the places of its artifacts, the seed, and what the file of the system's message
    /// holds. Two runs with the same one, and the same `dataset_file`, may be taken for each other. Secrets are not part of it, because `input_config` has none.
    pub fn fingerprint(&self) -> String {
        let mut config = self.input_config.clone();
        if let Value::Object(config) = &mut config {
            config.retain(|key, _| key != "artifacts" && key != "runtime");
        }
        let mut told = format!("{}:{config}", self.seed);
        if let Some(file) = &self.system_prompt_file {
            told.push_str(&format!(":{}", file.sha256));
        }
        let digest = Sha256::digest(told);
        digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A file of a dataset, as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetFile {
    /// Its path as written.
    pub path: String,
    /// SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: String,
}

/// What tells a run of a suite from the others; every summary carries it, so that a file is understood without its neighbours.
#[derive(Debug, Clone, PartialEq)]
pub struct CellIdentity {
    /// Identity of the suite as a whole.
    pub sweep_id: String,
    /// The name of its trial, `run_0001` for the first.
    pub run_label: String,
    /// Number of its variation, from 0.
    pub variation_index: usize,
    /// What people call the variation. Secrets masked.
    pub variation_label: String,
    /// The swept values by path. Secrets masked.
    pub variation_values: serde_json::Map<String, Value>,
}

/// How a server proves who it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Verification {
    /// By a certificate under one of the roots that this host trusts.
    #[default]
    SystemRoots,
    /// By a certificate under one of the roots of this PEM file, and no others.
    CaFile(PathBuf),
    /// It need not.
    Off,
}

/// Where requests go and how they are judged.
#[derive(Debug, Clone)]
pub struct EndpointPlan {
    /// The API.
    pub kind: EndpointKind,
    /// JMESPath to the answers of type template; `None` looks for them.
    pub response_field: Option<String>,
    /// The servers that get the load: sessions take them in turn. Never empty.
    pub targets: Vec<Target>,
    /// Whether requests ask for an event stream.
    pub streaming: bool,
    /// What becomes of a connection whose request has ended.
    pub connection_reuse: ConnectionReuse,
    /// Longest life of one request from its start; `None` waits without limit.
    pub request_timeout: Option<Nanos>,
    /// How the server proves who it is; `None` speaks plain HTTP.
    pub tls: Option<Verification>,
    /// Headers that control requests carry (authorisation and the user's own), name and value.
    pub control_headers: Vec<(String, String)>,
}

/// One server address as the user named it, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The URL of requests, as normalised from the config (with scheme, path and query).
    pub url: String,
    /// Host without brackets, to be resolved.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Value of the `Host` header: host (bracketed if IPv6) and, unless default, port.
    pub authority: String,
    /// Path and query of requests, starting with `/`.
    pub path: String,
    /// `scheme://host:port`, where control hooks go.
    pub origin: String,
}

/// How to wait for the server before anything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadinessPlan {
    /// For each target, from its first probe on.
    pub timeout: Nanos,
    /// From the end of a probe to the start of the next.
    pub interval: Nanos,
    /// What makes a target ready.
    pub mode: ReadinessMode,
    /// Every server with every model, in the order of probing.
    pub targets: Vec<ProbeTarget>,
}

/// One model at one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeTarget {
    /// The model.
    pub model: String,
    /// `scheme://host:port`.
    pub origin: String,
    /// Asked in place of the list of models where there is none.
    pub base_url: String,
    /// The list of models.
    pub models_url: String,
    /// Where requests go.
    pub inference_url: String,
    /// A request for one token.
    pub body: Vec<u8>,
}

/// Control hooks around the load; `None` is off.
#[derive(Debug, Clone, Default)]
pub struct HookPlan {
    /// KV-cache reset before anything else is sent.
    pub reset_kv_cache: Option<ResetHook>,
    /// Server profiler around profiling phases.
    pub server_profiler: Option<ProfilerHook>,
}

/// The reset hook: one POST per origin, retried while the server is busy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResetHook {
    /// Path on each origin, starting with `/`.
    pub path: String,
    /// Longest life of one POST.
    pub timeout: Nanos,
    /// No attempt starts later than this after the first.
    pub retry_budget: Nanos,
}

/// The profiler hook: a POST before and after profiling load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfilerHook {
    /// Path that starts the profiler.
    pub start_path: String,
    /// Path that stops it.
    pub stop_path: String,
    /// Longest life of one POST.
    pub timeout: Nanos,
}

/// What is read from the server and its GPUs while the load runs; without sources nothing is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TelemetryPlan {
    /// Where the server shows figures about itself.
    pub server_metrics: Vec<ScrapeSource>,
    /// The files that are written of them.
    pub formats: Vec<MetricsFormat>,
    /// Exporters of the figures of GPUs; `None`: nobody asked for these.
    pub gpu: Option<Vec<ScrapeSource>>,
}

/// An address that shows figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScrapeSource {
    /// The address.
    pub url: String,
    /// Where they may be instead.
    pub second_url: Option<String>,
    /// Whether the user wrote it: then its silence is worth a warning.
    pub is_named: bool,
    /// Whether it is a flag that would say otherwise, and not the config file.
    pub is_of_flags: bool,
    /// Whether it belongs to the server that gets the load: only that one may see the headers of requests.
    pub is_of_endpoint: bool,
}

/// More slices than this of one run are nobody's reading.
pub const SLICES_MAX: u64 = 10_000;

/// What is written, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactPlan {
    /// The artifact directory, absolute.
    pub directory: PathBuf,
    /// Whether results of an earlier run in that directory may be removed.
    pub overwrite: bool,
    /// Whether `profile_export_aiperf.json` is written.
    pub summary_json: bool,
    /// Whether `profile_export.jsonl` is written and percentiles are exact.
    pub records: bool,
    /// Whether requests and answers are written byte by byte. Only with `records`.
    pub raw: bool,
    /// Whether `outputs.json` has the texts of answers. Only with `records`.
    pub outputs: bool,
    /// Whether each line says how its request went over the wire. Only with `records`.
    pub trace: bool,
    /// Whether the console shows how requests went over the wire.
    pub show_trace_timing: bool,
    /// `artifacts.prefix`: replaces the base name of exports.
    pub prefix: Option<String>,
    /// Length of the slices of the run that have figures of their own.
    pub slice: Option<Nanos>,
}
