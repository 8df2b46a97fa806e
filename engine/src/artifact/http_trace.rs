//! `trace_data`: how a request went over the wire, in its line of `profile_export.jsonl`.
//!
//! Keys and their order are those of the peer. A key whose event did not happen is not there. `docs/trace.md` says what each of them means.

use super::digits::push_integer;
use super::jsonl::{RecordIds, push, push_text};
use super::request_headers::RequestHeaders;
use crate::clock::WallAnchor;
use crate::http::fields_of;
use crate::plan::{Plan, REDACTED, RequestImages, Secrets, is_credential_header, redact_url};
use crate::record::{HttpTrace, RequestRecord};
use crate::units::Nanos;

/// Headers of answers whose value is an address, which may hold credentials that nobody but the server knows.
const ADDRESSES: [&str; 2] = ["location", "content-location"];

/// Makes the traces of a run's requests.
#[derive(Debug)]
pub(super) struct Traces {
    anchor: WallAnchor,
    servers: Vec<Server>,
    images: RequestImages,
    secrets: Secrets,
}

/// What all requests to one server have in common.
#[derive(Debug)]
struct Server {
    headers: RequestHeaders,
    /// Bytes of the head up to the line with the length of the body.
    bytes: usize,
}

/// How a request went out.
#[derive(Debug, PartialEq, Eq)]
struct Sent {
    /// When the write had ended that took the last byte of the head.
    head_end: Option<Nanos>,
    /// Writes that took something.
    writes: u64,
    /// Bytes of the body that they took.
    body_bytes: u64,
}

impl Sent {
    /// `head_bytes` is the length of the head that was to be sent.
    fn of(record: &RequestRecord, trace: &HttpTrace, head_bytes: u64) -> Self {
        let last = happened(record.send_end).map(|end| (end, record.bytes_sent));
        let writes = || trace.writes.iter().copied().chain(last);
        let so_far = |write: &(Nanos, u32)| u64::from(write.1);
        Self {
            head_end: writes().find(|write| so_far(write) >= head_bytes).map(|(at, _)| at),
            writes: writes().count() as u64,
            body_bytes: writes()
                .last()
                .map_or(0, |write| so_far(&write).saturating_sub(head_bytes)),
        }
    }
}

fn happened(at: Nanos) -> Option<Nanos> {
    (at != Nanos::ZERO).then_some(at)
}

/// From one event to another; zero if the other came first, as an answer does that did not wait for the request.
fn span(from: Option<Nanos>, to: Option<Nanos>) -> Option<Nanos> {
    Some(to?.since(from?))
}

impl Traces {
    /// For the records of a plan.
    pub(super) fn new(plan: &Plan, anchor: WallAnchor) -> Self {
        let images = plan.requests.clone();
        let server = |head: &std::sync::Arc<[u8]>| Server {
            headers: RequestHeaders::of(&images, head),
            bytes: head.len() + images.ids.template.len(),
        };
        Self {
            anchor,
            servers: images.heads.iter().map(server).collect(),
            images,
            secrets: plan.secrets.clone(),
        }
    }

    /// Appends the trace of one request as a member of its line, without credentials: a server may have said one.
    ///
    /// # Panics
    /// If it belongs to a server or a dataset entry that the plan does not have.
    pub(super) fn push(&self, record: &RequestRecord, trace: &HttpTrace, ids: RecordIds<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        // The peer's word for this set of keys, whoever was the client.
        push(out, r#","trace_data":{"trace_type":"aiohttp""#);
        self.push_request(record, trace, ids, out);
        self.push_response(record, trace, out);
        self.push_connection(record, trace, out);
        let began = Some(record.start);
        let (sent, first, last) = (
            happened(record.send_end),
            happened(trace.first_body),
            happened(trace.last_body),
        );
        for (key, value) in [
            ("sending_ns", span(began, sent)),
            ("waiting_ns", span(sent, first)),
            ("receiving_ns", span(first, last)),
            ("duration_ns", span(began, last)),
            (
                "connecting_ns",
                span(happened(trace.connect_start), happened(trace.connect_end)),
            ),
        ] {
            if let Some(value) = value {
                push_number(out, key, value.0);
            }
        }
        push(out, "}");
        self.secrets.redact_from(out, start);
    }

    fn push_request(&self, record: &RequestRecord, trace: &HttpTrace, ids: RecordIds<'_>, out: &mut Vec<u8>) {
        let image = &self.images.entries[record.image as usize];
        let body_bytes = u64::from(image.body_len) + u64::from(record.history_bytes);
        let server = &self.servers[usize::from(trace.server)];
        let framing = format!("Content-Length: {body_bytes}\r\n\r\n");
        let sent = Sent::of(record, trace, (server.bytes + framing.len()) as u64);
        self.push_instant(out, "request_send_start_ns", Some(record.start));
        if sent.head_end.is_some() || trace.sending {
            push(out, r#","request_headers":{"#);
            server.headers.push(ids, out);
            push(out, &format!(r#","Content-Length":"{body_bytes}"}}"#));
        }
        self.push_instant(out, "request_headers_sent_ns", sent.head_end);
        push(out, r#","request_chunks":[]"#);
        self.push_instant(out, "request_send_end_ns", happened(record.send_end));
        if !trace.sending {
            push_number(out, "request_chunks_count", sent.writes);
            push_number(out, "request_bytes_total", sent.body_bytes);
        }
    }

    fn push_response(&self, record: &RequestRecord, trace: &HttpTrace, out: &mut Vec<u8>) {
        let Some(head) = fields_of(&trace.head) else { return };
        push_number(out, "response_status_code", u64::from(record.status));
        push(out, r#","response_reason":"#);
        push_text(out, head.reason);
        self.push_instant(out, "response_receive_start_ns", happened(trace.first_body));
        push_response_headers(&head.fields, out);
        self.push_instant(out, "response_headers_received_ns", happened(trace.head_end));
        push(out, r#","response_chunks":[]"#);
        push_number(out, "response_chunks_count", u64::from(trace.body_reads));
        push_number(out, "response_bytes_total", trace.body_bytes);
        self.push_instant(out, "response_receive_end_ns", happened(trace.last_body));
    }

    fn push_connection(&self, record: &RequestRecord, trace: &HttpTrace, out: &mut Vec<u8>) {
        self.push_instant(out, "tcp_connect_start_ns", happened(trace.connect_start));
        self.push_instant(out, "tcp_connect_end_ns", happened(trace.connect_end));
        // A request takes an idle connection at the instant at which it takes its slot.
        self.push_instant(
            out,
            "connection_reused_ns",
            record.connection_reused.then_some(record.issued),
        );
        for (side, address) in [("local", trace.local), ("remote", trace.remote)] {
            if let Some(address) = address {
                push(
                    out,
                    &format!(r#","{side}_ip":"{}","{side}_port":{}"#, address.ip(), address.port()),
                );
            }
        }
    }

    fn push_instant(&self, out: &mut Vec<u8>, key: &str, at: Option<Nanos>) {
        if let Some(at) = at {
            push_number(out, key, self.anchor.to_wall_ns(at));
        }
    }
}

fn push_number(out: &mut Vec<u8>, key: &str, value: u64) {
    push(out, &format!(r#","{key}":"#));
    push_integer(out, value);
}

/// The fields of an answer by name; several lines of one name are one list (RFC 9110, 5.3).
fn push_response_headers(fields: &[(&str, &[u8])], out: &mut Vec<u8>) {
    let mut shown: Vec<(&str, String)> = Vec::with_capacity(fields.len());
    for &(name, value) in fields {
        let value = shown_value(name, value);
        match shown.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, earlier)) => *earlier = format!("{earlier}, {value}"),
            None => shown.push((name, value)),
        }
    }
    push(out, r#","response_headers":{"#);
    for (at, (name, value)) in shown.iter().enumerate() {
        push(out, if at > 0 { "," } else { "" });
        push_text(out, name);
        push(out, ":");
        push_text(out, value);
    }
    push(out, "}");
}

fn shown_value(name: &str, value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    if is_credential_header(name) {
        return REDACTED.to_owned();
    }
    match ADDRESSES.iter().any(|address| name.eq_ignore_ascii_case(address)) {
        true => redact_url(&text),
        false => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::plan::IdBlock;
    use crate::record::Outcome;
    use crate::report::fixture::{BASELINE, anchor, other, plan, success};

    const HEAD: &str = "POST /v1 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer t0ken-of-mine\r\nX-Tenant: blue\r\n";
    const IDS: &str = "X-Request-ID: 00000000-0000-0000-0000-000000000000\r\nX-Session-Affinity: 00000000-0000-0000-0000-000000000000\r\n";
    const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nServer: s\r\n\r\n";
    /// Behind the start of the request, in milliseconds; zero is "not".
    const WALL: u64 = 1_000_000;

    fn of(record: &RequestRecord, trace: &HttpTrace) -> Value {
        let mut plan = plan();
        plan.requests.heads = Arc::from([Arc::from(HEAD.as_bytes())]);
        plan.requests.ids = Arc::new(IdBlock {
            template: IDS.as_bytes().into(),
            request_id_at: 14,
            correlation_id_at: vec![72],
        });
        let mut out = b"{\"metrics\":{}".to_vec();
        Traces::new(&plan, anchor()).push(record, trace, (&[b'r'; 36], &[b'c'; 36]), &mut out);
        out.push(b'}');
        let line: Value = serde_json::from_slice(&out).expect("JSON");
        line["trace_data"].clone()
    }

    fn keys(trace: &Value) -> Vec<&str> {
        trace
            .as_object()
            .expect("an object")
            .keys()
            .map(String::as_str)
            .collect()
    }

    /// The bytes of a request of the fixture: its head and a body of so many bytes.
    fn head_bytes(body: u64) -> u32 {
        (HEAD.len() + IDS.len() + format!("Content-Length: {body}\r\n\r\n").len()) as u32
    }

    fn body_bytes(record: &RequestRecord) -> u64 {
        u64::from(plan().requests.entries[record.image as usize].body_len) + u64::from(record.history_bytes)
    }

    /// A success whose request was sent whole, and its trace.
    fn whole() -> (RequestRecord, HttpTrace) {
        let mut record = success(BASELINE, 0);
        record.history_bytes = 1000;
        record.bytes_sent = head_bytes(body_bytes(&record)) + body_bytes(&record) as u32;
        let after = |millis| record.start + Nanos(millis * WALL);
        let trace = HttpTrace {
            server: 0,
            sending: false,
            connect_start: record.start,
            connect_end: after(2),
            head_end: after(6),
            first_body: after(20),
            last_body: after(82),
            local: Some("127.0.0.1:4001".parse().expect("an address")),
            remote: Some("[::1]:80".parse().expect("an address")),
            body_bytes: 3072,
            body_reads: 17,
            writes: Vec::new(),
            head: ANSWER.as_bytes().to_vec(),
        };
        (record, trace)
    }

    #[test]
    fn a_request_on_a_new_connection_has_the_keys_of_the_peer_in_their_order() {
        let (record, trace) = whole();
        let at = |millis: u64| anchor().to_wall_ns(record.start) + millis * WALL;
        let body = body_bytes(&record);
        let expected = json!({
            "trace_type": "aiohttp",
            "request_send_start_ns": at(0),
            "request_headers": {
                "Host": "h", "Authorization": "<redacted>", "X-Tenant": "blue", "X-Request-ID": "r".repeat(36),
                "X-Session-Affinity": "<redacted>", "Content-Length": body.to_string(),
            },
            "request_headers_sent_ns": at(3),
            "request_chunks": [],
            "request_send_end_ns": at(3),
            "request_chunks_count": 1,
            "request_bytes_total": body,
            "response_status_code": 200,
            "response_reason": "OK",
            "response_receive_start_ns": at(20),
            "response_headers": {"content-type": "text/event-stream", "Server": "s"},
            "response_headers_received_ns": at(6),
            "response_chunks": [],
            "response_chunks_count": 17,
            "response_bytes_total": 3072,
            "response_receive_end_ns": at(82),
            "tcp_connect_start_ns": at(0),
            "tcp_connect_end_ns": at(2),
            "local_ip": "127.0.0.1",
            "local_port": 4001,
            "remote_ip": "::1",
            "remote_port": 80,
            "sending_ns": 3 * WALL,
            "waiting_ns": 17 * WALL,
            "receiving_ns": 62 * WALL,
            "duration_ns": 82 * WALL,
            "connecting_ns": 2 * WALL,
        });
        let found = of(&record, &trace);
        assert_eq!(found, expected);
        assert_eq!(keys(&found), keys(&expected));
    }

    #[test]
    fn a_request_on_a_connection_that_was_there_says_when_it_took_it_and_not_how_it_came_to_be() {
        let (mut record, mut trace) = whole();
        record.connection_reused = true;
        record.connected = Nanos::ZERO;
        (trace.connect_start, trace.connect_end) = (Nanos::ZERO, Nanos::ZERO);
        let found = of(&record, &trace);
        assert_eq!(found["connection_reused_ns"], anchor().to_wall_ns(record.issued));
        assert_eq!(
            keys(&found)[17..],
            [
                "connection_reused_ns",
                "local_ip",
                "local_port",
                "remote_ip",
                "remote_port",
                "sending_ns",
                "waiting_ns",
                "receiving_ns",
                "duration_ns",
            ]
        );
    }

    #[test]
    fn a_connection_that_was_refused_leaves_what_was_tried() {
        let (good, _) = whole();
        let record = RequestRecord {
            send_end: Nanos::ZERO,
            bytes_sent: 0,
            status: 0,
            ..other(BASELINE, 0, Outcome::Error)
        };
        let trace = HttpTrace {
            connect_start: good.start,
            remote: Some("127.0.0.1:80".parse().expect("an address")),
            ..HttpTrace::default()
        };
        let start = anchor().to_wall_ns(record.start);
        assert_eq!(
            of(&record, &trace),
            json!({
                "trace_type": "aiohttp", "request_send_start_ns": start, "request_chunks": [], "request_chunks_count": 0,
                "request_bytes_total": 0, "tcp_connect_start_ns": start, "remote_ip": "127.0.0.1", "remote_port": 80,
            })
        );
    }

    #[test]
    fn a_request_that_was_cut_while_it_was_sent_says_how_far_it_came() {
        let (mut record, mut trace) = whole();
        let head = head_bytes(body_bytes(&record));
        record.outcome = Outcome::Truncated;
        (record.send_end, record.status) = (Nanos::ZERO, 0);
        trace = HttpTrace {
            writes: vec![(Nanos(7), head - 1), (Nanos(8), head), (Nanos(9), head + 600)],
            local: trace.local,
            remote: trace.remote,
            ..HttpTrace::default()
        };
        record.bytes_sent = head + 600;
        let found = of(&record, &trace);
        assert_eq!(found["request_headers_sent_ns"], anchor().to_wall_ns(Nanos(8)));
        assert_eq!(
            [&found["request_chunks_count"], &found["request_bytes_total"]],
            [&json!(3), &json!(600)]
        );
        for absent in [
            "request_send_end_ns",
            "sending_ns",
            "waiting_ns",
            "response_status_code",
            "response_chunks",
        ] {
            assert_eq!(found.get(absent), None, "{absent}");
        }
        // How much of a write went out that was under way is not known.
        trace.sending = true;
        let found = of(&record, &trace);
        assert!(found.get("request_headers").is_some());
        for unknown in ["request_chunks_count", "request_bytes_total"] {
            assert_eq!(found.get(unknown), None, "{unknown}");
        }
        trace.sending = false;
        // Not even the head is out.
        trace.writes.truncate(1);
        record.bytes_sent = head - 1;
        let found = of(&record, &trace);
        assert!(found.get("request_headers").is_none() && found.get("request_headers_sent_ns").is_none());
        assert_eq!(
            [&found["request_chunks_count"], &found["request_bytes_total"]],
            [&json!(1), &json!(0)]
        );
    }

    #[test]
    fn a_long_request_counts_all_its_writes() {
        let (record, mut trace) = whole();
        let head = head_bytes(body_bytes(&record));
        trace.writes = vec![(record.start + Nanos(5), head + 1), (record.start + Nanos(6), head + 2)];
        let found = of(&record, &trace);
        assert_eq!(
            found["request_headers_sent_ns"],
            anchor().to_wall_ns(record.start + Nanos(5))
        );
        assert_eq!(found["request_send_end_ns"], anchor().to_wall_ns(record.send_end));
        assert_eq!(
            [&found["request_chunks_count"], &found["request_bytes_total"]],
            [&json!(3), &json!(body_bytes(&record))]
        );
    }

    #[test]
    fn an_answer_of_which_only_the_head_came_has_no_body_and_no_duration() {
        let (mut record, mut trace) = whole();
        record.outcome = Outcome::Cancelled;
        (trace.first_body, trace.last_body) = (Nanos::ZERO, Nanos::ZERO);
        (trace.body_bytes, trace.body_reads) = (0, 0);
        let found = of(&record, &trace);
        assert_eq!(
            [
                &found["response_status_code"],
                &found["response_chunks_count"],
                &found["response_bytes_total"]
            ],
            [&json!(200), &json!(0), &json!(0)]
        );
        assert!(found.get("response_headers_received_ns").is_some() && found.get("sending_ns").is_some());
        for absent in [
            "response_receive_start_ns",
            "response_receive_end_ns",
            "waiting_ns",
            "receiving_ns",
            "duration_ns",
        ] {
            assert_eq!(found.get(absent), None, "{absent}");
        }
    }

    #[test]
    fn an_answer_that_did_not_wait_for_the_request_was_waited_for_in_no_time() {
        let (mut record, mut trace) = whole();
        record.send_end = trace.first_body + Nanos(1);
        trace.last_body = trace.first_body;
        let found = of(&record, &trace);
        assert_eq!([&found["waiting_ns"], &found["receiving_ns"]], [&json!(0), &json!(0)]);
    }

    #[test]
    fn lines_of_one_name_are_one_list_and_credentials_of_a_server_are_masked() {
        let (record, mut trace) = whole();
        trace.head = b"HTTP/1.1 302 Found\r\nVia: a\r\nvia: b \xe4\r\nSet-Cookie: sid=1\r\nX-Auth-Token: t\r\nSet-Cookie: b=2\r\n\
            Location: http://u:p@h/login?token=zzz&page=2\r\nX-RateLimit-Remaining-Tokens: 5\r\n\r\n"
            .to_vec();
        let found = of(&record, &trace);
        assert_eq!(found["response_reason"], "Found");
        assert_eq!(
            found["response_headers"],
            json!({
                "Via": "a, b \u{fffd}", "Set-Cookie": "<redacted>, <redacted>", "X-Auth-Token": "<redacted>",
                "Location": "http://<redacted>@h/login?token=<redacted>&page=2", "X-RateLimit-Remaining-Tokens": "5",
            })
        );
    }
}
