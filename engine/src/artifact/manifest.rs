//! `phase_manifest.json`: which phases ran, what came of them, and where their files are.
//!
//! Written for any number of phases, one included: a reader finds the phases of every run in the same place. Keys are sorted.

use serde_json::{Value, json};

use crate::plan::PhaseKind;
use crate::report::PhaseReport;

/// One phase and the files that were written for it.
pub(super) struct Entry<'a> {
    phase: &'a PhaseReport,
    /// Path of its JSON summary, relative to the manifest.
    pub(super) metrics_json: Option<String>,
    /// Path of its CSV summary, relative to the manifest.
    pub(super) metrics_csv: Option<String>,
    /// Path of the server's figures, relative to the manifest.
    pub(super) server_metrics_json: Option<String>,
    /// Path of the GPUs' figures, relative to the manifest.
    pub(super) gpu_telemetry_json: Option<String>,
}

impl<'a> Entry<'a> {
    pub(super) fn new(phase: &'a PhaseReport) -> Self {
        Self {
            phase,
            metrics_json: None,
            metrics_csv: None,
            server_metrics_json: None,
            gpu_telemetry_json: None,
        }
    }

    fn document(&self) -> Value {
        let scope = &self.phase.scope;
        let failed = scope.counts.failed + scope.counts.cancelled;
        let window = scope.window;
        let mut entry = json!({
            "end_ns": window.filter(|window| window.ended).map(|window| window.end_ns),
            "error_request_count": failed,
            "error_summary": scope.errors.iter().map(|error| json!({
                "count": error.count,
                "error_details": {
                    "cause": null,
                    "cause_chain": null,
                    "code": error.code,
                    "details": null,
                    "message": error.message,
                    "type": error.type_name,
                },
            })).collect::<Vec<_>>(),
            "phase_index": self.phase.id.0,
            "phase_kind": self.phase.kind.as_str(),
            "phase_name": self.phase.name,
            "profiling_index": self.phase.profiling_index.filter(|_| self.phase.kind == PhaseKind::Profiling),
            "start_ns": window.map(|window| window.start_ns),
            "successful_request_count": scope.counts.succeeded,
            "total_request_count": scope.counts.succeeded + failed,
            "was_cancelled": scope.was_cancelled,
        });
        let files = [
            ("metrics_json", &self.metrics_json),
            ("metrics_csv", &self.metrics_csv),
            ("server_metrics_json", &self.server_metrics_json),
            ("gpu_telemetry_json", &self.gpu_telemetry_json),
        ];
        for (key, path) in files {
            if let Some(path) = path {
                entry[key] = json!(path);
            }
        }
        entry
    }
}

/// The whole manifest.
pub(super) fn document(entries: &[Entry<'_>]) -> Value {
    let mut document = json!({
        "phases": entries.iter().map(Entry::document).collect::<Vec<_>>(),
        "schema_version": 1,
    });
    document.sort_all_objects();
    document
}
