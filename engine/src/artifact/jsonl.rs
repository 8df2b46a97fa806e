//! `profile_export.jsonl`: one line per request, made after the load.
//!
//! A run can end millions of requests, so a line is pushed together from prepared pieces into one buffer: no tree of values, no
//! allocation.

use std::sync::{Arc, OnceLock};

use super::digits::{push_integer, push_milliseconds};
use super::http_trace::Traces;
use crate::clock::WallAnchor;
use crate::plan::{Conversations, Plan, RequestImage};
use crate::record::{ErrorDetail, ImageFacts, Judge, Outcome, RecordView, RequestRecord};
use crate::report::{ErrorCount, Fields as _, Formula, Kind, METRICS, Metric, Unit, judge};
use crate::units::Nanos;

/// Request id and correlation id of a request, as they were sent: UUIDs.
pub type RecordIds<'a> = (&'a [u8; 36], &'a [u8; 36]);

/// Makes lines of records.
#[derive(Debug)]
pub struct RecordLines {
    anchor: WallAnchor,
    streaming: bool,
    /// The constant end of each phase's metadata keys, from `benchmark_phase` to `phase_kind`.
    phases: Vec<Vec<u8>>,
    /// The word for each phase's kind.
    kinds: Vec<&'static str>,
    images: Arc<[RequestImage]>,
    conversations: Arc<Conversations>,
    /// By image, made when the first record needs it: of a large dataset, few may have been sent.
    turns: Vec<OnceLock<Box<[u8]>>>,
    metrics: Vec<Prepared>,
    judge: Option<Judge>,
    traces: Option<Traces>,
}

/// A metric with the text around its value.
#[derive(Debug)]
struct Prepared {
    tag: &'static str,
    before: String,
    formula: Formula,
    style: Style,
    after: String,
}

/// How a value is written.
#[derive(Debug, Clone, Copy)]
enum Style {
    Integer,
    /// Nanoseconds as milliseconds.
    Milliseconds,
    Float {
        divisor: f64,
    },
}

impl Style {
    fn push(self, value: f64, out: &mut Vec<u8>) {
        match self {
            // Formulas of integer metrics are counts: not negative, without a fraction, below 2^53.
            Self::Integer => push_integer(out, value as u64),
            Self::Milliseconds => match value as u64 {
                nanos if nanos as f64 == value => push_milliseconds(out, nanos),
                _ => push_float(out, value / 1e6),
            },
            Self::Float { divisor } => push_float(out, value / divisor),
        }
    }
}

impl Prepared {
    fn new(metric: &Metric, formula: Formula) -> Self {
        Self {
            tag: metric.tag,
            before: format!(r#""{}":{{"value":"#, metric.tag),
            formula,
            style: match metric.unit {
                _ if metric.integer => Style::Integer,
                Unit::Milliseconds => Style::Milliseconds,
                unit => Style::Float {
                    divisor: unit.divisor(),
                },
            },
            after: format!(r#","unit":"{}"}},"#, metric.unit.name()),
        }
    }
}

impl RecordLines {
    /// Lines for the records of a plan.
    pub fn new(plan: &Plan, anchor: WallAnchor) -> Self {
        let streaming = plan.endpoint.streaming;
        let phases = plan.phases.iter().map(|phase| {
            let kind = phase.kind.as_str();
            let index = phase.profiling_index;
            let index = index.map_or(String::new(), |index| format!(r#""profiling_index":{index},"#));
            let mut text = format!(
                r#","benchmark_phase":"{kind}","phase_index":{},{index}"phase_name":"#,
                phase.id.0
            )
            .into_bytes();
            push_text(&mut text, &phase.name);
            push(&mut text, &format!(r#","phase_kind":"{kind}","was_cancelled":"#));
            text
        });
        let metrics = METRICS
            .iter()
            .filter(|metric| metric.per_record && (streaming || !metric.streaming_only));
        Self {
            anchor,
            streaming,
            phases: phases.collect(),
            kinds: plan.phases.iter().map(|phase| phase.kind.as_str()).collect(),
            images: Arc::clone(&plan.requests.entries),
            conversations: Arc::clone(&plan.requests.conversations),
            turns: plan.requests.entries.iter().map(|_| OnceLock::new()).collect(),
            metrics: metrics
                .filter_map(|metric| match metric.kind {
                    Kind::Record(formula) => Some(Prepared::new(metric, formula)),
                    _ => None,
                })
                .collect(),
            judge: judge(&plan.slos),
            traces: plan.artifacts.trace.then(|| Traces::new(plan, anchor)),
        }
    }

    /// Appends the line of one record to `out`; `errors` is the error table of the core that ran it.
    ///
    /// # Panics
    /// If the record belongs to a phase or a dataset entry that the plan does not have.
    pub fn append(&self, record: &RequestRecord, errors: &[ErrorDetail], ids: RecordIds<'_>, out: &mut Vec<u8>) {
        self.push_metadata(record, ids, out);
        push(out, r#","metrics":{"#);
        match record.outcome {
            Outcome::Success => self.push_metrics(record, out),
            Outcome::Error | Outcome::Cancelled => {
                if let Some(tokens) = self.view(record).input_tokens() {
                    push(out, r#""error_isl":{"value":"#);
                    push_integer(out, tokens);
                    push(out, r#","unit":"tokens"},"#);
                }
            }
            Outcome::Truncated => {}
        }
        close_object(out);
        if let (Some(traces), Some(trace)) = (&self.traces, &record.trace) {
            traces.push(record, trace, ids, out);
        }
        push_error_of(record, errors, out);
        // What the peer's records do not have stands apart (its readers skip unknown keys).
        push(out, r#","ringload":{"intended_start_ns":"#);
        push_integer(out, self.anchor.to_wall_ns(record.intended));
        if matches!(record.outcome, Outcome::Cancelled | Outcome::Truncated) {
            push(out, r#","partial_tokens":"#);
            push_integer(out, partial_tokens(record));
        }
        push(out, "}}\n");
    }

    pub(super) fn push_metadata(
        &self,
        record: &RequestRecord,
        (request_id, correlation_id): RecordIds<'_>,
        out: &mut Vec<u8>,
    ) {
        let anchor = self.anchor;
        let cut = matches!(record.outcome, Outcome::Cancelled | Outcome::Truncated);
        let instant = |out: &mut Vec<u8>, key: &str, at: Nanos| {
            push(out, key);
            push_integer(out, anchor.to_wall_ns(at));
        };

        push(out, r#"{"metadata":{"session_num":"#);
        push_integer(out, record.sequence);
        push(out, r#","x_request_id":"#);
        push_id(out, request_id);
        push(out, r#","x_correlation_id":"#);
        push_id(out, correlation_id);
        push(out, r#","conversation_id":"#);
        out.extend_from_slice(self.turn(record));
        instant(out, r#","credit_issued_ns":"#, record.issued);
        instant(out, r#","request_start_ns":"#, record.start);
        if record.outcome == Outcome::Success && record.head != Nanos::ZERO {
            instant(out, r#","request_ack_ns":"#, record.head);
        }
        instant(out, r#","request_end_ns":"#, record.end);
        push(out, r#","worker_id":"worker_"#);
        push_hex(out, record.core.0);
        push(out, r#"","record_processor_id":"record_processor_"#);
        push_hex(out, record.core.0);
        push(out, r#"""#);
        out.extend_from_slice(&self.phases[record.phase.index()]);
        if cut {
            instant(out, r#"true,"cancellation_time_ns":"#, record.end);
        } else {
            push(out, "false");
        }
        push(
            out,
            r#","context_overflow_skip":false,"agent_depth":0,"root_correlation_id":"#,
        );
        push_id(out, correlation_id);
        push(out, "}");
    }

    /// The beginning of an entry of `outputs.json`, up to the end of its metrics: those with these tags, in this order and without units.
    pub(super) fn push_output(
        &self,
        record: &RequestRecord,
        (request_id, _): RecordIds<'_>,
        tags: &[&str],
        out: &mut Vec<u8>,
    ) {
        push(out, r#"{"session_num":"#);
        push_integer(out, record.sequence);
        push(out, r#","conversation_id":"#);
        out.extend_from_slice(self.turn(record));
        push(out, r#","x_request_id":"#);
        push_id(out, request_id);
        push(
            out,
            &format!(r#","benchmark_phase":"{}""#, self.kinds[record.phase.index()]),
        );
        for (key, at) in [("request_start_ns", record.start), ("request_end_ns", record.end)] {
            push(out, &format!(r#","{key}":{}"#, self.anchor.to_wall_ns(at)));
        }
        push(out, r#","metrics":{"#);
        if record.outcome == Outcome::Success {
            let view = self.view(record);
            for metric in tags
                .iter()
                .filter_map(|tag| self.metrics.iter().find(|metric| metric.tag == *tag))
            {
                if let Some(value) = metric.formula.of_record(&view).filter(|value| value.is_finite()) {
                    push(out, &format!(r#""{}":"#, metric.tag));
                    metric.style.push(value, out);
                    push(out, ",");
                }
            }
        }
        close_object(out);
    }

    fn view<'a>(&self, record: &'a RequestRecord) -> RecordView<'a> {
        RecordView::new(record, ImageFacts::of(&self.images[record.image as usize]))
    }

    /// The identity of the conversation, quoted and escaped, and which of its turns this is.
    fn turn(&self, record: &RequestRecord) -> &[u8] {
        self.turns[record.image as usize].get_or_init(|| {
            let image = &self.images[record.image as usize];
            let mut text = Vec::new();
            push_text(&mut text, &self.conversations.id(image.conversation));
            push(&mut text, &format!(r#","turn_index":{}"#, image.turn));
            text.into()
        })
    }

    /// Metrics in the order of the table, each with a comma behind it.
    fn push_metrics(&self, record: &RequestRecord, out: &mut Vec<u8>) {
        let view = self.view(record);
        for metric in &self.metrics {
            let Some(value) = metric.formula.of_record(&view).filter(|value| value.is_finite()) else {
                continue;
            };
            push(out, &metric.before);
            metric.style.push(value, out);
            push(out, &metric.after);
        }
        if let Some(judge) = &self.judge {
            push(out, r#""good_request_count":{"value":"#);
            push_integer(out, u64::from(judge.is_good(&view)));
            push(out, r#","unit":"requests"},"#);
        }
        if self.streaming && !record.gaps.is_empty() {
            push(out, r#""inter_chunk_latency":{"value":["#);
            for (at, &gap) in record.gaps.iter().enumerate() {
                if at > 0 {
                    push(out, ",");
                }
                push_milliseconds(out, gap);
            }
            push(out, r#"],"unit":"ms"},"#);
        }
    }
}

/// Output tokens of a stream that the client left: the server's count if one had come, else the events with content.
fn partial_tokens(record: &RequestRecord) -> u64 {
    record.usage.completion_tokens.unwrap_or(record.content_events).into()
}

/// Closes an object whose members each have a comma behind them.
fn close_object(out: &mut Vec<u8>) {
    if out.last() == Some(&b',') {
        out.pop();
    }
    push(out, "}");
}

/// The error of a request that did not succeed.
pub(super) fn push_error_of(record: &RequestRecord, errors: &[ErrorDetail], out: &mut Vec<u8>) {
    if record.outcome == Outcome::Success {
        return;
    }
    match errors.get(record.error as usize) {
        Some(detail) => push_error(out, detail.code, &detail.type_name, &detail.message),
        None => {
            let lost = ErrorCount::of_record(record, errors);
            push_error(out, lost.code, &lost.type_name, &lost.message);
        }
    }
}

fn push_error(out: &mut Vec<u8>, code: Option<u16>, type_name: &str, message: &str) {
    push(out, r#","error":{"#);
    if let Some(code) = code {
        push(out, r#""code":"#);
        push_integer(out, u64::from(code));
        push(out, ",");
    }
    push(out, r#""type":"#);
    push_text(out, type_name);
    push(out, r#","message":"#);
    push_text(out, message);
    push(out, "}");
}

pub(super) fn push(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Quoted and escaped.
pub(super) fn push_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a text is always JSON and a vector takes every byte");
}

/// Quoted; a UUID has nothing to escape.
pub(super) fn push_id(out: &mut Vec<u8>, id: &[u8; 36]) {
    let mut quoted = [b'"'; 38];
    quoted[1..37].copy_from_slice(id);
    out.extend_from_slice(&quoted);
}

fn push_float(out: &mut Vec<u8>, value: f64) {
    serde_json::to_writer(out, &value).expect("a finite number is always JSON and a vector takes every byte");
}

/// Eight hexadecimal digits, the shape that readers know.
fn push_hex(out: &mut Vec<u8>, core: u16) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    push(out, "0000");
    out.extend([12, 8, 4, 0].map(|shift| DIGITS[usize::from(core >> shift & 15)]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_numbers_have_eight_digits() {
        let mut out = Vec::new();
        push_hex(&mut out, 0xa3f);
        assert_eq!(out, b"00000a3f");
    }
}
