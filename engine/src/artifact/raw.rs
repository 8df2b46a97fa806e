//! `profile_export_raw.jsonl` and `outputs.json`: what was sent and what was answered, made after the load from records that were kept whole.
//!
//! Events are cut here by the plain rules of the format (WHATWG HTML, section 9.2), apart from the reader of the load, so that the file shows what
//! came and not what was made of it.

use serde_json::json;

use super::jsonl::{RecordIds, RecordLines, push, push_error_of};
use super::request_headers::RequestHeaders;
use crate::clock::WallAnchor;
use crate::plan::{Plan, RequestImages, Secrets};
use crate::record::{ErrorDetail, Outcome, RequestRecord, Transcript};
use crate::units::Nanos;

/// The header of every request that the peer does not show.
const HIDDEN: &str = "Host";

/// The figures of `outputs.json`.
const OUTPUT_METRICS: [&str; 6] = [
    "input_sequence_length",
    "output_token_count",
    "output_sequence_length",
    "request_latency",
    "time_to_first_token",
    "inter_token_latency",
];

/// Makes lines of requests with their answers.
#[derive(Debug)]
pub struct RawLines {
    lines: RecordLines,
    headers: RequestHeaders,
    images: RequestImages,
    secrets: Secrets,
}

/// Makes entries of `outputs.json`.
#[derive(Debug)]
pub struct OutputEntries {
    lines: RecordLines,
    secrets: Secrets,
}

impl RawLines {
    /// Lines for the records of a plan.
    pub fn new(plan: &Plan, anchor: WallAnchor) -> Self {
        Self {
            lines: RecordLines::new(plan, anchor),
            headers: RequestHeaders::of(&plan.requests, &plan.requests.heads[0]).without(HIDDEN),
            images: plan.requests.clone(),
            secrets: plan.secrets.clone(),
        }
    }

    /// Appends the line of one request, without credentials: a server may have said one.
    ///
    /// # Panics
    /// If the record belongs to a phase or a dataset entry that the plan does not have.
    pub fn append(&self, record: &RequestRecord, errors: &[ErrorDetail], ids: RecordIds<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        let none = Transcript::default();
        let transcript = record.transcript.as_deref().unwrap_or(&none);
        self.lines.push_metadata(record, ids, out);
        push(
            out,
            &format!(r#","start_perf_ns":{},"request_headers":{{"#, record.start.0),
        );
        self.headers.push(ids, out);
        push(out, "}");
        if record.status != 0 && !matches!(record.outcome, Outcome::Cancelled | Outcome::Truncated) {
            push(out, &format!(r#","status":{}"#, record.status));
        }
        push(out, r#","responses":["#);
        // A refusal is told by its error, as with the peer; what had come before a cut is shown, which the peer does not do.
        if (200..=299).contains(&record.status) {
            push_responses(transcript, out);
        }
        push(out, "]");
        push_error_of(record, errors, out);
        push(out, r#","payload":"#);
        self.push_payload(record, transcript, out);
        push(out, "}\n");
        self.secrets.redact_from(out, start);
    }

    /// The body as it was sent: with the history of its session in front of the turn's own message.
    fn push_payload(&self, record: &RequestRecord, transcript: &Transcript, out: &mut Vec<u8>) {
        let image = &self.images.entries[record.image as usize];
        let (before, behind) = image.body().split_at(image.message.start as usize);
        out.extend_from_slice(before);
        out.extend_from_slice(&transcript.history);
        out.extend_from_slice(behind);
    }
}

impl OutputEntries {
    /// Entries for the records of a plan.
    pub fn new(plan: &Plan, anchor: WallAnchor) -> Self {
        Self {
            lines: RecordLines::new(plan, anchor),
            secrets: plan.secrets.clone(),
        }
    }

    /// Appends the entry of one request. `text` is what was answered, raw JSON without the quotes; empty is none.
    ///
    /// # Panics
    /// If the record belongs to a phase or a dataset entry that the plan does not have.
    pub fn append(&self, record: &RequestRecord, ids: RecordIds<'_>, text: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        self.lines.push_output(record, ids, &OUTPUT_METRICS, out);
        push(out, r#","response_text":"#);
        if record.outcome != Outcome::Success || text.is_empty() {
            push(out, "null}");
            return;
        }
        push(out, "\"");
        out.extend_from_slice(text);
        push(out, "\"}");
        self.secrets.redact_from(out, start);
    }
}

/// The answer: an event each, or the one body.
fn push_responses(transcript: &Transcript, out: &mut Vec<u8>) {
    let body = &transcript.body;
    if body.is_empty() {
        return;
    }
    if !transcript.is_stream {
        let entry = json!({
            "perf_ns": transcript.time_of(body.len() - 1).0,
            "text": String::from_utf8_lossy(body),
            "content_type": String::from_utf8_lossy(&transcript.content_type),
        });
        return push(out, &entry.to_string());
    }
    let mut first = true;
    let mut push_event = |packets: &mut Vec<serde_json::Value>, at: Nanos| {
        if packets.is_empty() {
            return;
        }
        push(out, if std::mem::take(&mut first) { "" } else { "," });
        let entry = json!({"perf_ns": at.0, "packets": std::mem::take(packets)});
        push(out, &entry.to_string());
    };
    let (mut at, mut packets) = (0, Vec::new());
    while at < body.len() {
        let (line, next) = next_line(body, at);
        if line.is_empty() {
            // The event is complete with the last byte of its blank line.
            push_event(&mut packets, transcript.time_of(next - 1));
        } else {
            packets.push(packet(line));
        }
        at = next;
    }
    push_event(&mut packets, transcript.time_of(body.len() - 1));
}

/// The line at `at` without its end, and where the next one begins.
fn next_line(body: &[u8], at: usize) -> (&[u8], usize) {
    let rest = &body[at..];
    let Some(length) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
        return (rest, body.len());
    };
    let end = match &rest[length..] {
        [b'\r', b'\n', ..] => length + 2,
        _ => length + 1,
    };
    (&rest[..length], at + end)
}

/// A field of an event; a line that begins with a colon is a comment.
fn packet(line: &[u8]) -> serde_json::Value {
    let text = String::from_utf8_lossy(line);
    let (name, value) = text.split_once(':').unwrap_or((&text, ""));
    let name = if name.is_empty() { "comment" } else { name.trim() };
    json!({"name": name, "value": value.trim()})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript(is_stream: bool, reads: &[(u64, &str)]) -> Transcript {
        let mut transcript = Transcript {
            is_stream,
            content_type: b"application/json".to_vec(),
            ..Transcript::default()
        };
        for (time, piece) in reads {
            transcript.take(&mut piece.as_bytes().to_vec(), Nanos(*time));
        }
        transcript
    }

    fn responses(transcript: &Transcript) -> serde_json::Value {
        let mut out = b"[".to_vec();
        push_responses(transcript, &mut out);
        out.push(b']');
        serde_json::from_slice(&out).expect("JSON")
    }

    #[test]
    fn events_have_the_time_of_the_read_that_completed_them() {
        let read = responses(&transcript(
            true,
            &[
                (1, "data: a\n"),
                (2, "\ndata: b\n\ndata: c"),
                (3, "\n\n: x\r\n\r\ndata: end"),
            ],
        ));
        let data = |value: &str| json!([{"name": "data", "value": value}]);
        assert_eq!(
            read,
            json!([
                {"perf_ns": 2, "packets": data("a")},
                {"perf_ns": 2, "packets": data("b")},
                {"perf_ns": 3, "packets": data("c")},
                {"perf_ns": 3, "packets": [{"name": "comment", "value": "x"}]},
                {"perf_ns": 3, "packets": data("end")},
            ])
        );
    }

    #[test]
    fn an_event_is_all_its_fields_in_order() {
        let read = responses(&transcript(true, &[(1, "event: ping\rdata: {\"a\":1}\r\r")]));
        let packets = json!([{"name": "event", "value": "ping"}, {"name": "data", "value": "{\"a\":1}"}]);
        assert_eq!(read, json!([{"perf_ns": 1, "packets": packets}]));
    }

    #[test]
    fn a_whole_body_is_one_text_and_none_is_none() {
        let read = responses(&transcript(false, &[(1, "{\"a\":"), (4, "1}")]));
        assert_eq!(
            read,
            json!([{"perf_ns": 4, "text": "{\"a\":1}", "content_type": "application/json"}])
        );
        assert_eq!(responses(&transcript(false, &[])), json!([]));
        assert_eq!(responses(&transcript(true, &[])), json!([]));
    }
}
