//! `profile_export.jsonl`: one line per request, written while the run goes on.
//!
//! A run can end millions of requests, so a line is pushed together from prepared pieces into one buffer: no tree of values, no
//! allocation but for the two ids.

use std::io::{self, Write};

use crate::clock::WallAnchor;
use crate::id::PhaseId;
use crate::plan::Plan;
use crate::record::{ErrorDetail, Outcome, RequestRecord};
use crate::report::{ErrorCount, Formula, ImageFacts, Kind, METRICS, Metric, RecordView, Unit};
use crate::units::Nanos;

/// Request id and correlation id of a request, as they were sent: a function of its phase and sequence.
pub type RecordIds<'a> = dyn Fn(PhaseId, u64) -> (String, String) + 'a;

/// Bytes gathered before they are handed on.
const FLUSH_AT: usize = 1 << 16;

/// Writes records as lines.
pub struct RecordWriter<W: Write> {
    out: W,
    buffer: Vec<u8>,
    anchor: WallAnchor,
    streaming: bool,
    /// The constant end of each phase's metadata keys, from `benchmark_phase` to `phase_kind`.
    phases: Vec<Vec<u8>>,
    images: Vec<Image>,
    metrics: Vec<Prepared>,
}

struct Image {
    facts: ImageFacts,
    /// Quoted and escaped.
    conversation: Vec<u8>,
}

/// A metric with the text around its value.
struct Prepared {
    before: String,
    formula: Formula,
    style: Style,
    after: String,
}

/// How a value is written.
#[derive(Clone, Copy)]
enum Style {
    Integer,
    /// Nanoseconds as milliseconds.
    Milliseconds,
    Float {
        divisor: f64,
    },
}

impl Prepared {
    fn new(metric: &Metric, formula: Formula) -> Self {
        Self {
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

impl<W: Write> RecordWriter<W> {
    /// A writer for the records of a plan.
    pub fn new(plan: &Plan, anchor: WallAnchor, out: W) -> Self {
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
        let images = plan.requests.entries.iter().map(|entry| {
            let mut conversation = Vec::new();
            push_text(&mut conversation, &entry.conversation_id);
            Image {
                facts: ImageFacts::of(entry),
                conversation,
            }
        });
        let metrics = METRICS
            .iter()
            .filter(|metric| metric.per_record && (streaming || !metric.streaming_only));
        Self {
            out,
            buffer: Vec::with_capacity(2 * FLUSH_AT),
            anchor,
            streaming,
            phases: phases.collect(),
            images: images.collect(),
            metrics: metrics
                .filter_map(|metric| match metric.kind {
                    Kind::Record(formula) => Some(Prepared::new(metric, formula)),
                    _ => None,
                })
                .collect(),
        }
    }

    /// Appends one record; `errors` is the error table of the core that ran it.
    ///
    /// # Errors
    /// If the gathered lines cannot be handed on.
    ///
    /// # Panics
    /// If the record belongs to a phase or a dataset entry that the plan does not have.
    pub fn write(&mut self, record: &RequestRecord, errors: &[ErrorDetail], ids: &RecordIds<'_>) -> io::Result<()> {
        self.push_metadata(record, ids);
        push(&mut self.buffer, r#","metrics":{"#);
        match record.outcome {
            Outcome::Success => self.push_metrics(record),
            Outcome::Error | Outcome::Cancelled => {
                if let Some(tokens) = self.images[record.image as usize].facts.input_tokens {
                    push(&mut self.buffer, r#""error_isl":{"value":"#);
                    push_integer(&mut self.buffer, u64::from(tokens));
                    push(&mut self.buffer, r#","unit":"tokens"},"#);
                }
            }
            Outcome::Truncated => {}
        }
        self.close_object();
        if record.outcome != Outcome::Success {
            match errors.get(record.error as usize) {
                Some(detail) => self.push_error(detail.code, &detail.type_name, &detail.message),
                None => {
                    let lost = ErrorCount::of_record(record, errors);
                    self.push_error(lost.code, &lost.type_name, &lost.message);
                }
            }
        }
        // What the peer's records do not have stands apart (its readers skip unknown keys).
        push(&mut self.buffer, r#","ringload":{"intended_start_ns":"#);
        push_integer(&mut self.buffer, self.anchor.to_wall_ns(record.intended));
        push(&mut self.buffer, "}}\n");
        if self.buffer.len() >= FLUSH_AT {
            self.hand_on()?;
        }
        Ok(())
    }

    /// Hands on what is gathered and gives the destination back.
    ///
    /// # Errors
    /// If the last lines cannot be handed on.
    pub fn finish(mut self) -> io::Result<W> {
        self.hand_on()?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn hand_on(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    fn push_metadata(&mut self, record: &RequestRecord, ids: &RecordIds<'_>) {
        let anchor = self.anchor;
        let out = &mut self.buffer;
        let (request_id, correlation_id) = ids(record.phase, record.sequence);
        let cut = matches!(record.outcome, Outcome::Cancelled | Outcome::Truncated);
        let instant = |out: &mut Vec<u8>, key: &str, at: Nanos| {
            push(out, key);
            push_integer(out, anchor.to_wall_ns(at));
        };

        push(out, r#"{"metadata":{"session_num":"#);
        push_integer(out, record.sequence);
        push(out, r#","x_request_id":"#);
        push_text(out, &request_id);
        push(out, r#","x_correlation_id":"#);
        push_text(out, &correlation_id);
        push(out, r#","conversation_id":"#);
        out.extend_from_slice(&self.images[record.image as usize].conversation);
        instant(out, r#","turn_index":0,"credit_issued_ns":"#, record.issued);
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
        push_text(out, &correlation_id);
        push(out, "}");
    }

    /// Metrics in the order of the table, each with a comma behind it.
    fn push_metrics(&mut self, record: &RequestRecord) {
        let out = &mut self.buffer;
        let view = RecordView {
            record,
            image: self.images[record.image as usize].facts,
        };
        for metric in &self.metrics {
            let Some(value) = metric.formula.of_record(&view).filter(|value| value.is_finite()) else {
                continue;
            };
            push(out, &metric.before);
            match metric.style {
                // Formulas of integer metrics are counts: not negative, without a fraction, below 2^53.
                Style::Integer => push_integer(out, value as u64),
                Style::Milliseconds => push_milliseconds(out, value),
                Style::Float { divisor } => push_float(out, value / divisor),
            }
            push(out, &metric.after);
        }
        if self.streaming && !record.gaps.is_empty() {
            push(out, r#""inter_chunk_latency":{"value":["#);
            for (at, &gap) in record.gaps.iter().enumerate() {
                if at > 0 {
                    push(out, ",");
                }
                push_milliseconds(out, gap as f64);
            }
            push(out, r#"],"unit":"ms"},"#);
        }
    }

    /// Closes an object whose members each have a comma behind them.
    fn close_object(&mut self) {
        if self.buffer.last() == Some(&b',') {
            self.buffer.pop();
        }
        push(&mut self.buffer, "}");
    }

    fn push_error(&mut self, code: Option<u16>, type_name: &str, message: &str) {
        let out = &mut self.buffer;
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
}

fn push(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Quoted and escaped.
fn push_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a text is always JSON and a vector takes every byte");
}

fn push_integer(out: &mut Vec<u8>, value: u64) {
    serde_json::to_writer(out, &value).expect("a number is always JSON and a vector takes every byte");
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

/// Nanoseconds as milliseconds. Whole nanoseconds are written digit by digit: exact, shorter than the nearest double would print in
/// other arithmetic, and several times faster.
fn push_milliseconds(out: &mut Vec<u8>, nanos: f64) {
    if nanos.fract() != 0.0 {
        return push_float(out, nanos / 1e6);
    }
    let nanos = nanos as u64;
    push_integer(out, nanos / 1_000_000);
    let mut rest = (nanos % 1_000_000) as u32;
    let mut digits = [b'.', b'0', b'0', b'0', b'0', b'0', b'0'];
    for digit in digits[1..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    // One digit stays, so that the value reads as a float everywhere.
    let used = digits.iter().rposition(|&digit| digit != b'0').unwrap_or(0).max(1);
    out.extend_from_slice(&digits[..=used]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn milliseconds_keep_one_digit_at_least_and_six_at_most() {
        let text = |nanos: f64| {
            let mut out = Vec::new();
            push_milliseconds(&mut out, nanos);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(0.0), "0.0");
        assert_eq!(text(1.0), "0.000001");
        assert_eq!(text(112_874_013.0), "112.874013");
        assert_eq!(text(5_100_000.0), "5.1");
        assert_eq!(text(7_000_000.0), "7.0");
        assert_eq!(text(1.5), "1.5e-6");
    }

    proptest! {
        #[test]
        fn milliseconds_are_the_nearest_double(nanos in 0u64..1 << 53) {
            let mut out = Vec::new();
            push_milliseconds(&mut out, nanos as f64);
            let back: f64 = serde_json::from_slice(&out).unwrap();
            prop_assert_eq!(back, nanos as f64 / 1e6);
        }
    }

    #[test]
    fn core_numbers_have_eight_digits() {
        let mut out = Vec::new();
        push_hex(&mut out, 0xa3f);
        assert_eq!(out, b"00000a3f");
    }
}
