//! What a run leaves behind: formats and the directory, no computing.
//!
//! ```text
//! phase_manifest.json             the phases that ran and where their files are
//! profile_export_aiperf.json/csv  all profiling phases together
//! phases/NAME/                    the same two files for one phase
//! profile_export.jsonl            one line per request, in the order in which requests ended
//! profile_export_raw.jsonl        the same with what was sent and answered, byte by byte; outputs.json: the texts; each only on request
//! inputs.json                     the request bodies of the dataset
//! *_timeslices.json/csv           figures of each slice of the run, with `artifacts.slice_duration`
//! server_metrics_export.*         what the server said about itself; phases/NAME/server_metrics.json of one phase
//! resolved_config.yaml            what ran, as a config that gives the same plan again
//! adaptive_scale_manifest.json    phases that a controller steered; its log and its result are in phases/NAME/
//! ```
//!
//! Keys and units are those of the peer; what it does not have stands under one key, `ringload`.

mod adaptive;
mod client;
mod csv;
mod digits;
mod directory;
mod echo;
mod error;
mod http_trace;
mod inputs;
mod json;
mod jsonl;
mod manifest;
mod names;
mod raw;
mod request_headers;
mod shared;
mod telemetry;
mod timeslices;
mod values;

#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::path::PathBuf;

use serde_json::{Map, Value};

pub use adaptive::AdaptiveFacts;
pub use directory::{ArtifactDirectory, AtomicFile};
pub use error::ArtifactError;
pub use jsonl::{RecordIds, RecordLines};
pub use raw::{OutputEntries, RawLines};
pub use shared::{
    AGGREGATE, COLLATED, COMPARISON, CONFIDENCE, PROFILE_RUNS, RUN_CONFIG, SWEEP_AGGREGATE, TOOL_VERSION, TRIAL,
    cells_in, check, clear, is_ready, journals_below, metrics, read_metrics, unmark_ready, write_document, write_text,
};
pub use telemetry::TelemetryFacts;
pub use values::read_values;

use crate::id::PhaseId;
use crate::plan::{Plan, SeedChoice};
use crate::report::{Report, Slices};

/// Name of the journal in the artifact directory. It is there while a run's records have not been written out.
pub const JOURNAL: &str = names::JOURNAL_NAME;

/// Names of the files that are written before the load.
pub const BEFORE_LOAD: [&str; 2] = [names::INPUTS, names::RESOLVED];

/// What the engine knows beside the report, for the `ringload` key of the JSON files: client verdict, driver, cores and the like.
#[derive(Debug, Clone, Default)]
pub struct EngineFacts {
    /// Of the whole run, for the root file.
    pub run: Map<String, Value>,
    /// Of single phases, for their own files.
    pub phases: Vec<(PhaseId, Map<String, Value>)>,
    /// The file of records is missing or not whole, which the marker tells as it does for the other files.
    pub records_lost: bool,
}

impl EngineFacts {
    fn of_phase(&self, id: PhaseId) -> Map<String, Value> {
        self.phases
            .iter()
            .find(|(phase, _)| *phase == id)
            .map(|(_, facts)| facts.clone())
            .unwrap_or_default()
    }
}

/// What came of writing the artifacts.
#[derive(Debug, Default)]
pub struct Written {
    /// Files that are complete, in the order of writing.
    pub files: Vec<PathBuf>,
    /// Files that are not, and why.
    pub failures: Vec<ArtifactError>,
}

impl Written {
    /// Notes the outcome of one file and says whether it is there.
    fn note(&mut self, outcome: Result<PathBuf, ArtifactError>) -> bool {
        match outcome {
            Ok(path) => {
                self.files.push(path);
                true
            }
            Err(failure) => {
                self.failures.push(failure);
                false
            }
        }
    }
}

/// Writes the request bodies of the dataset. Meant for the time before the load, so that a run that dies has its inputs.
///
/// # Errors
/// If the file cannot be written or a body is not JSON.
pub fn write_inputs(directory: &ArtifactDirectory, plan: &Plan) -> Result<PathBuf, ArtifactError> {
    directory.write_atomically(names::INPUTS, |out| inputs::write(&plan.requests, &plan.secrets, out))
}

/// Writes what runs as a config that gives the same plan again. Meant for the time before the load too.
///
/// # Errors
/// If the file cannot be written.
pub fn write_resolved(directory: &ArtifactDirectory, plan: &Plan) -> Result<PathBuf, ArtifactError> {
    // A command line may hold line breaks, and a comment ends with its line.
    let command: String = plan
        .command
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let head = format!(
        "# What ran, resolved; secrets are masked. It gives the same plan again: ringload profile --config {}\n# plan {}\n# command: {command}\n",
        names::RESOLVED,
        plan.fingerprint()
    );
    directory.write_atomically(names::RESOLVED, |out| {
        out.write_all(head.as_bytes())?;
        out.write_all(plan.resolved_yaml(SeedChoice::Fixed).as_bytes())
    })
}

/// Writes everything that comes from the report: summaries of the run and of each phase, the manifest, and last the marker that
/// results are ready. A file that fails does not stop the others.
pub fn write_all(
    directory: &ArtifactDirectory,
    plan: &Plan,
    report: &Report,
    facts: &EngineFacts,
    controllers: Option<&AdaptiveFacts<'_>>,
    telemetry: Option<TelemetryFacts<'_>>,
) -> Written {
    let mut written = Written::default();
    let (json_name, csv_name) = (directory.names().json(), directory.names().csv());
    if plan.artifacts.summary_json {
        let document = json::root(plan, report, facts.run.clone(), telemetry);
        written.note(directory.write_atomically(&json_name, |out| pretty(&document, out)));
    }
    written.note(directory.write_atomically(&csv_name, |out| {
        let costs = telemetry.map(|facts| telemetry::costs(plan, &report.aggregate, facts));
        csv::write(&report.aggregate, &costs.unwrap_or_default(), out)?;
        telemetry.map_or(Ok(()), |facts| telemetry::write_gpu_table(plan, facts, out))
    }));
    if let Some(Slices::Cut(slices)) = &report.slices {
        let (json_name, csv_name) = (
            directory.names().timeslices("json"),
            directory.names().timeslices("csv"),
        );
        if plan.artifacts.summary_json {
            written.note(directory.write_atomically(&json_name, |out| timeslices::write_json(plan, slices, out)));
        }
        written.note(directory.write_atomically(&csv_name, |out| timeslices::write_csv(slices, out)));
    }
    if let Some(facts) = telemetry {
        telemetry::write_run(directory, plan, facts, &mut written);
    }

    let mut entries = Vec::with_capacity(report.phases.len());
    for phase in &report.phases {
        let place = |name: &str| format!("{}/{}/{name}", names::PHASES, phase.name);
        let mut entry = manifest::Entry::new(phase);
        if plan.artifacts.summary_json {
            let document = json::phase(plan, report, phase, facts.of_phase(phase.id));
            let path = place(&json_name);
            if written.note(directory.write_atomically(&path, |out| pretty(&document, out))) {
                entry.metrics_json = Some(path);
            }
        }
        let path = place(&csv_name);
        if written.note(directory.write_atomically(&path, |out| csv::write(&phase.scope, &[], out))) {
            entry.metrics_csv = Some(path);
        }
        if let Some(facts) = telemetry {
            let files = telemetry::write_phase(directory, plan, phase, facts, &mut written);
            entry.server_metrics_json = files.server_metrics;
            entry.gpu_telemetry_json = files.gpu_telemetry;
        }
        entries.push(entry);
    }
    if let Some(controllers) = controllers {
        adaptive::write(directory, plan, controllers, &mut written);
    }
    let document = manifest::document(&entries);
    written.note(directory.write_atomically(names::MANIFEST, |out| {
        pretty(&document, out)?;
        out.write_all(b"\n")
    }));

    let ready = format!(
        r#"{{"ready":true,"was_cancelled":{},"partial":{}}}"#,
        report.aggregate.was_cancelled,
        facts.records_lost || !written.failures.is_empty()
    );
    written.note(directory.write_atomically(names::READY, |out| out.write_all(ready.as_bytes())));
    written
}

/// Two-space indent, no trailing newline.
fn pretty(document: &Value, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(out, document).map_err(io::Error::from)
}
