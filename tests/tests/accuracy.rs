//! Figures against the ground truth, request by request.
//!
//! Client and server read the same monotonic clock, so a span of the client that encloses one of the server can never be shorter. How much longer
//! it may be depends on the machine: single requests get a bound that only a defect breaks, the middle of them a tighter one.

use std::time::Duration;

use ringload_mock_server::LedgerEntry;
use ringload_tests::books::{Books, server_spans, spans};
use ringload_tests::server::{Piece, ScriptedServer};
use ringload_tests::statistics::{mean_open, most_open, percentile};
use ringload_tests::{Phase, Record, Run, Scenario, mock};

const MS: u64 = 1_000_000;
/// Anchors of two clocks, read by two parties, agree to this.
const CLOCKS: u64 = MS / 2;
/// No single event is seen later than this, however starved the machine.
const LATE: u64 = 20_000 * MS;
/// Half of all events are seen sooner than this: sooner than the shortest gap between tokens, so that no event can pass for its neighbour.
const USUALLY: f64 = 15e6;

/// A client's span and the server's span within it.
struct Pair {
    client: u64,
    server: u64,
}

/// Asserts that every span of the client encloses the server's, and is not much longer.
fn assert_encloses(what: &str, pairs: &[Pair]) {
    assert!(!pairs.is_empty());
    let mut excess = Vec::new();
    for (at, &Pair { client, server }) in pairs.iter().enumerate() {
        assert!(
            client >= server,
            "{what} {at}: {client} ns at the client, {server} ns at the server"
        );
        assert!(
            client - server < LATE,
            "{what} {at}: {client} ns at the client, {server} ns at the server"
        );
        excess.push((client - server) as f64);
    }
    let median = percentile(&excess, 50.0);
    assert!(median < USUALLY, "{what}: half are more than {median} ns too long");
}

fn since_arrival(entry: &LedgerEntry, instant: Option<u64>) -> u64 {
    instant.expect("it happened") - entry.receive_complete_ns
}

fn streamed(cores: u16) -> (Run, Vec<(Record, LedgerEntry)>) {
    let server = mock(|options| {
        options.ttft = Duration::from_millis(30);
        options.itl = Duration::from_millis(40);
        options.jitter = 0.4;
        options.osl = Some(6);
    });
    let run = Scenario::new(server.address())
        .cores(cores)
        .phase(Phase::closed("load", 4).requests(40))
        .run();
    let matched = Books::complete(&run, &server).matched;
    let matched = matched
        .into_iter()
        .map(|(record, entry)| (record.clone(), entry))
        .collect();
    (run, matched)
}

#[test]
fn times_to_the_first_and_to_the_last_token_enclose_those_of_the_server() {
    for cores in [1, 2] {
        let (_run, matched) = streamed(cores);
        let pairs = |tag: &str, instant: fn(&LedgerEntry) -> Option<u64>| -> Vec<Pair> {
            matched
                .iter()
                .map(|(record, entry)| Pair {
                    client: record.metric_ns(tag).expect("a success has it"),
                    server: since_arrival(entry, instant(entry)),
                })
                .collect()
        };
        let first = pairs("time_to_first_token", |entry| entry.first_token_ns);
        assert_encloses("time to first token", &first);
        // The mock waits 30 ms, 40 % more or less: figures that do not vary are not measured.
        let spread: Vec<f64> = first.iter().map(|pair| pair.client as f64).collect();
        assert!(percentile(&spread, 90.0) - percentile(&spread, 10.0) > 5e6);
        assert_encloses(
            "request latency",
            &pairs("request_latency", |entry| entry.last_token_ns),
        );
    }
}

#[test]
fn instants_of_the_client_stand_around_those_of_the_server() {
    let (run, matched) = streamed(1);
    for (record, entry) in &matched {
        let meta = &record.metadata;
        let first_token = meta.request_start_ns + record.metric_ns("time_to_first_token").expect("a stream");
        let (ack, end) = (meta.request_ack_ns.expect("a success has it"), meta.request_end_ns);
        let received = run.wall_ns(entry.receive_complete_ns);
        assert!(
            meta.request_start_ns <= received + CLOCKS,
            "start: {record:?} {entry:?}"
        );
        for (what, seen, happened) in [
            ("head", ack, entry.first_byte_ns),
            ("first token", first_token, entry.first_token_ns),
            ("end", end, entry.last_byte_ns),
        ] {
            let happened = run.wall_ns(happened.expect("answered"));
            let in_time = seen + CLOCKS >= happened && seen < happened + LATE;
            assert!(
                in_time,
                "{what} at {seen} ns, sent at {happened} ns: {record:?} {entry:?}"
            );
        }
    }
}

#[test]
fn gaps_between_tokens_are_those_of_the_server() {
    let (_run, matched) = streamed(1);
    let mut deviations = Vec::new();
    for (record, entry) in &matched {
        let gaps = record.gaps_ns();
        assert_eq!(gaps.len(), 5, "6 tokens have 5 gaps");
        let first = record.metric_ns("time_to_first_token").expect("a stream");
        let latency = record.metric_ns("request_latency").expect("a stream");
        assert_eq!(
            gaps.iter().sum::<u64>(),
            latency - first,
            "the gaps add up to the decode time"
        );
        assert_eq!(record.metric_ns("time_to_second_token"), Some(gaps[0]));
        let between = record.metric("inter_token_latency").expect("a stream");
        assert!(
            (between - (latency - first) as f64 / 5e6).abs() < 1e-6,
            "ITL is the decode time over 5 intervals"
        );
        let decode = entry.last_token_ns.expect("a stream") - entry.first_token_ns.expect("a stream");
        deviations.push((latency - first).abs_diff(decode) as f64);
    }
    assert!(percentile(&deviations, 50.0) < USUALLY, "{deviations:?}");
}

/// A head, a role, reasoning, two contents, the usage and the end of the stream, each 60 ms after the one before.
fn paced() -> Vec<Piece> {
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let event = |rest: &str| chunk(&format!("data: {{\"object\":\"chat.completion.chunk\",{rest}}}\n\n"));
    let delta = |delta: &str| event(&format!("\"choices\":[{{\"index\":0,\"delta\":{{{delta}}}}}]"));
    [
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_owned(),
        delta(r#""role":"assistant""#),
        delta(r#""reasoning_content":"so""#),
        delta(r#""content":"yes""#),
        event(r#""choices":[{"index":0,"delta":{"content":"!"},"finish_reason":"stop"}]"#),
        event(r#""choices":[],"usage":{"prompt_tokens":4,"completion_tokens":3,"total_tokens":7}"#),
        chunk("data: [DONE]\n\n") + "0\r\n\r\n",
    ]
    .map(|text| (60, text))
    .into()
}

#[test]
fn each_part_of_a_stream_is_timed_by_what_it_is() {
    let server = ScriptedServer::paced(paced());
    let run = Scenario::new(server.address())
        .phase(Phase::closed("load", 2).requests(6))
        .run();
    assert_eq!(run.counts("load").succeeded, 6, "{:?}", run.records.first());
    // What comes early is a defect in every record; what comes late is one if it does so usually.
    let mut spacing: [Vec<f64>; 3] = Default::default();
    for record in &run.records {
        let meta = &record.metadata;
        let figure = |tag: &str| {
            record
                .metric_ns(tag)
                .unwrap_or_else(|| panic!("no {tag} in {record:?}"))
        };
        let ack = meta.request_ack_ns.expect("a success has it") - meta.request_start_ns;
        let end = meta.request_end_ns - meta.request_start_ns;
        let (first, output) = (figure("time_to_first_token"), figure("time_to_first_output_token"));
        let latency = figure("request_latency");
        assert!(ack >= 60 * MS, "{record:?}");
        // Neither the head nor the role is a token; reasoning is one.
        assert!(first >= 180 * MS, "{record:?}");
        assert!(output >= 240 * MS, "{record:?}");
        assert!(latency >= 300 * MS, "{record:?}");
        assert!(end >= 420 * MS, "{record:?}");
        assert_eq!(record.gaps_ns().len(), 2);
        assert_eq!(record.metric("output_sequence_length"), Some(3.0));
        let between = record.metric("inter_token_latency").expect("3 tokens");
        assert!((between - (latency - first) as f64 / 2e6).abs() < 1e-6);
        for (samples, span) in spacing.iter_mut().zip([first - ack, output - first, end - latency]) {
            samples.push(span as f64);
        }
    }
    // Two pauses from the head to the first token, one to the first that is not reasoning, two from the last token to the end: the usage and
    // the end of the stream are not in the latency.
    for (samples, pauses) in spacing.iter().zip([2.0, 1.0, 2.0]) {
        let median = percentile(samples, 50.0);
        assert!(
            (median / 60e6 - pauses).abs() < 0.5,
            "{pauses} pauses of 60 ms: {samples:?}"
        );
    }
}

#[test]
fn whole_answers_are_timed_from_start_to_end() {
    let server = mock(|options| {
        options.ttft = Duration::from_millis(25);
        options.jitter = 0.3;
    });
    let run = Scenario::new(server.address())
        .whole_answers()
        .phase(Phase::closed("load", 3).requests(30))
        .run();
    let pairs: Vec<Pair> = Books::complete(&run, &server)
        .matched
        .iter()
        .map(|(record, entry)| Pair {
            client: record.metric_ns("request_latency").expect("a success has it"),
            server: since_arrival(entry, entry.last_byte_ns),
        })
        .collect();
    assert_encloses("request latency", &pairs);
}

#[test]
fn an_error_takes_as_long_as_the_server_took() {
    let server = mock(|options| options.fault = Some("status:500".parse().expect("a fault")));
    let run = Scenario::new(server.address())
        .phase(Phase::closed("load", 4).requests(100))
        .run();
    let pairs: Vec<Pair> = Books::complete(&run, &server)
        .matched
        .iter()
        .map(|(record, entry)| Pair {
            client: record.metadata.request_end_ns - record.metadata.request_start_ns,
            server: since_arrival(entry, entry.last_byte_ns),
        })
        .collect();
    assert_encloses("error", &pairs);
}

#[test]
fn a_stall_within_the_run_is_in_the_latency_from_the_schedule() {
    // One slot, and one request that holds it for 600 ms: those behind it wait although the server answers them at once.
    let server = mock(|options| {
        options.ttft = Duration::from_millis(1);
        options.fault = Some("every:5:stall-after:1".parse().expect("a fault"));
    });
    let run = Scenario::new(server.address())
        .request_timeout(Duration::from_millis(600))
        .phase(Phase::constant("load", 20.0).capped(1).requests(9))
        .run();
    Books::complete(&run, &server);
    let summary = run.summary("load");
    let figure = |path: &str| {
        summary
            .pointer(path)
            .and_then(serde_json::Value::as_f64)
            .expect("a figure")
    };
    // Request 5 is due at 250 ms and holds the slot until 850 ms; request 6 was due at 300 ms.
    assert!(figure("/effective_latency/max") > 500.0);
    assert!(figure("/ringload/send_lag/max") > 500.0);
    assert!(
        figure("/request_latency/p50") < 300.0,
        "the wait is not in the latency from the start"
    );
}

#[test]
fn concurrency_over_time_is_that_of_the_records_and_never_below_the_servers() {
    let server = mock(|options| {
        options.ttft = Duration::from_millis(20);
        options.fault = Some("every:5:status:500".parse().expect("a fault"));
    });
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("closed", 5).requests(60))
        .phase(Phase::poisson("open", 80.0).requests(40))
        .run();
    let books = Books::complete(&run, &server);
    for name in ["closed", "open"] {
        let figures = run.summary(name)["effective_concurrency"].clone();
        let of = |statistic: &str| figures[statistic].as_f64().expect("a figure");
        let open = spans(run.records_of(name));
        let phase = run.phase(name);
        let window = (phase.start_ns, phase.end_ns.expect("it ended"));
        assert_eq!(of("max"), most_open(&open) as f64, "{name}: failures are in flight too");
        let mean = mean_open(&open, window.0, window.1);
        assert!((of("avg") - mean).abs() < 1e-6, "{name}: {figures} is not {mean}");
        let at_server = server_spans(books.of_phase(name));
        assert!(of("max") >= most_open(&at_server) as f64, "{name}");
    }
    assert_eq!(run.summary("closed")["effective_concurrency"]["max"], 5.0);
}
