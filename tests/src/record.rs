//! Lines of `profile_export.jsonl` as typed values.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

/// One request as the artifacts show it. All times are wall-clock nanoseconds.
#[derive(Debug, Clone, Deserialize)]
pub struct Record {
    /// Who and when.
    pub metadata: Metadata,
    /// Figures by tag, each an object with `value` and `unit`.
    pub metrics: Map<String, Value>,
    /// Why it did not succeed.
    pub error: Option<RecordError>,
    /// What only ringload's records have.
    pub ringload: Additions,
    /// How it went over the wire, in runs with traces.
    pub trace_data: Option<Value>,
}

/// What only ringload's records have.
#[derive(Debug, Clone, Deserialize)]
pub struct Additions {
    /// When the schedule wanted the request to start; in a closed loop, when its slot took the credit.
    pub intended_start_ns: u64,
    /// Tokens of a stream that the client left before its end.
    pub partial_tokens: Option<u64>,
}

/// Who and when.
#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs, reason = "the names are those of the file format")]
pub struct Metadata {
    pub session_num: u64,
    pub x_request_id: String,
    pub x_correlation_id: String,
    pub conversation_id: String,
    /// Position of the request in its session, from 0.
    pub turn_index: u64,
    pub credit_issued_ns: u64,
    pub request_start_ns: u64,
    pub request_ack_ns: Option<u64>,
    pub request_end_ns: u64,
    pub worker_id: String,
    pub benchmark_phase: String,
    pub phase_index: u64,
    pub profiling_index: Option<u64>,
    pub phase_name: String,
    pub phase_kind: String,
    pub was_cancelled: bool,
    pub cancellation_time_ns: Option<u64>,
}

/// Why a request did not succeed.
#[derive(Debug, Clone, Deserialize)]
pub struct RecordError {
    /// Status, or 499 for cancellations.
    pub code: Option<u16>,
    /// Class of the failure, or the reason phrase of a status.
    #[serde(rename = "type")]
    pub kind: String,
    /// What happened.
    pub message: String,
}

/// The four ways a request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// A complete answer.
    Succeeded,
    /// Something went wrong.
    Failed,
    /// Disconnected by the phase's cancellation.
    Cancelled,
    /// Cut by the engine.
    Truncated,
}

impl Record {
    /// All lines of a file.
    ///
    /// # Panics
    /// If a line is not a record.
    pub fn read_all(path: &Path) -> Vec<Self> {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}")))
            .collect()
    }

    /// How it ended.
    pub fn ending(&self) -> Ending {
        match self.error.as_ref().map(|error| error.kind.as_str()) {
            None => Ending::Succeeded,
            Some("RequestCancellationError") => Ending::Cancelled,
            Some("RequestTruncated") => Ending::Truncated,
            Some(_) => Ending::Failed,
        }
    }

    /// A figure that is one number.
    pub fn metric(&self, tag: &str) -> Option<f64> {
        self.metrics.get(tag)?.get("value")?.as_f64()
    }

    /// A figure in milliseconds as whole nanoseconds.
    pub fn metric_ns(&self, tag: &str) -> Option<u64> {
        let figure = self.metrics.get(tag)?;
        assert_eq!(figure["unit"], "ms", "{tag}");
        Some((figure["value"].as_f64()? * 1e6).round() as u64)
    }

    /// Gaps between contents of the stream, in nanoseconds.
    pub fn gaps_ns(&self) -> Vec<u64> {
        let figures = self.metrics.get("inter_chunk_latency").map(|figure| &figure["value"]);
        let list = figures.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        list.iter()
            .map(|gap| (gap.as_f64().expect("a gap is a number") * 1e6).round() as u64)
            .collect()
    }
}
