//! `trace_data` against what servers saw: bytes, ports, connections, and what is left out when a thing did not happen.
//!
//! With `RINGLOAD_TEST_DRIVER` all of this holds over either driver.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use ringload_engine::dataset::LengthDistribution;
use ringload_engine::plan::{ConnectionReuse, Verification};
use ringload_mock_server::LedgerEntry;
use ringload_tests::books::Books;
use ringload_tests::server::{Fickle, ScriptedServer, faulty, nobody};
use ringload_tests::tls::{Authority, TlsServer};
use ringload_tests::{Ending, Phase, Record, Run, Scenario, mock};
use serde_json::Value;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn trace(record: &Record) -> &Value {
    record
        .trace_data
        .as_ref()
        .unwrap_or_else(|| panic!("no trace: {record:?}"))
}

fn keys(record: &Record) -> Vec<&str> {
    let trace = trace(record).as_object().expect("an object");
    trace.keys().map(String::as_str).collect()
}

fn has(record: &Record, key: &str) -> bool {
    trace(record).get(key).is_some()
}

fn number(record: &Record, key: &str) -> u64 {
    let value = &trace(record)[key];
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{key} is {value} in {record:?}"))
}

fn text<'a>(record: &'a Record, key: &str) -> &'a str {
    let value = &trace(record)[key];
    value
        .as_str()
        .unwrap_or_else(|| panic!("{key} is {value} in {record:?}"))
}

fn end_of(record: &Record, side: &str) -> SocketAddr {
    let ip = text(record, &format!("{side}_ip"));
    let port = number(record, &format!("{side}_port"));
    SocketAddr::new(ip.parse().expect("an IP address"), u16::try_from(port).expect("a port"))
}

/// What holds of every trace, whatever became of the request.
fn assert_sound(record: &Record) {
    assert_eq!(text(record, "trace_type"), "aiohttp");
    assert_eq!(
        number(record, "request_send_start_ns"),
        record.metadata.request_start_ns
    );
    let stamp = |key: &str| trace(record)[key].as_u64();
    // Where both are there, one is not before the other.
    for (earlier, later) in [
        ("tcp_connect_start_ns", "tcp_connect_end_ns"),
        ("tcp_connect_end_ns", "request_headers_sent_ns"),
        ("request_send_start_ns", "request_headers_sent_ns"),
        ("request_headers_sent_ns", "request_send_end_ns"),
        ("request_send_start_ns", "response_headers_received_ns"),
        ("response_headers_received_ns", "response_receive_start_ns"),
        ("response_receive_start_ns", "response_receive_end_ns"),
    ] {
        if let (Some(earlier_at), Some(later_at)) = (stamp(earlier), stamp(later)) {
            assert!(earlier_at <= later_at, "{earlier} is after {later}: {record:?}");
        }
    }
    for (span, from, to) in [
        ("sending_ns", "request_send_start_ns", "request_send_end_ns"),
        ("waiting_ns", "request_send_end_ns", "response_receive_start_ns"),
        ("receiving_ns", "response_receive_start_ns", "response_receive_end_ns"),
        ("duration_ns", "request_send_start_ns", "response_receive_end_ns"),
        ("connecting_ns", "tcp_connect_start_ns", "tcp_connect_end_ns"),
    ] {
        let expected = stamp(from).zip(stamp(to)).map(|(from, to)| to.saturating_sub(from));
        assert_eq!(stamp(span), expected, "{span}: {record:?}");
    }
    let is_new = has(record, "tcp_connect_start_ns");
    assert!(
        !(is_new && has(record, "connection_reused_ns")),
        "a connection is new or it is not: {record:?}"
    );
    for list in ["request_chunks", "response_chunks"] {
        assert!(
            trace(record)
                .get(list)
                .is_none_or(|chunks| *chunks == Value::Array(Vec::new()))
        );
    }
}

fn assert_no_response(record: &Record) {
    let found: Vec<&str> = keys(record)
        .into_iter()
        .filter(|key| key.starts_with("response_"))
        .collect();
    assert!(found.is_empty(), "{found:?}: {record:?}");
    for span in ["waiting_ns", "receiving_ns", "duration_ns"] {
        assert!(!has(record, span), "{span}: {record:?}");
    }
}

/// What a request that was sent whole has, against what arrived.
fn assert_sent(record: &Record, entry: &LedgerEntry) {
    assert_eq!(number(record, "request_bytes_total"), entry.request_bytes);
    let headers = &trace(record)["request_headers"];
    assert_eq!(headers["Content-Length"], entry.request_bytes.to_string());
    assert_eq!(headers["X-Request-ID"], record.metadata.x_request_id);
    assert_eq!(headers["X-Correlation-ID"], record.metadata.x_correlation_id);
    assert_eq!(headers["X-Session-Affinity"], "<redacted>");
    assert!(number(record, "request_chunks_count") >= 1);
}

/// The figure and the span of the trace are one, also where the head came long before the body.
fn assert_waited(record: &Record) {
    let figure = record.metric("http_req_waiting").expect("a success");
    assert_eq!(
        number(record, "waiting_ns"),
        (figure * 1e6).round() as u64,
        "{record:?}"
    );
}

/// What an answer that came whole has, against the figures of the record.
fn assert_received(record: &Record) {
    assert_waited(record);
    assert_eq!(number(record, "response_status_code"), 200);
    assert_eq!(text(record, "response_reason"), "OK");
    let metric = |tag: &str| record.metric(tag).expect("a success");
    assert_eq!(
        number(record, "response_bytes_total") as f64,
        metric("http_req_data_received") * 1024.0
    );
    assert_eq!(
        number(record, "response_chunks_count") as f64,
        metric("http_req_chunks_received")
    );
    assert_eq!(
        Some(number(record, "response_headers_received_ns")),
        record.metadata.request_ack_ns
    );
}

/// The client's end of each connection, with the requests that went over it in the order of their arrival.
fn by_connection<'a>(books: &Books<'a>) -> BTreeMap<(u64, SocketAddr), Vec<&'a Record>> {
    let mut found: BTreeMap<_, Vec<&Record>> = BTreeMap::new();
    for (record, entry) in &books.matched {
        found.entry((entry.connection, entry.client)).or_default().push(record);
    }
    found
}

// --- connections -----------------------------------------------------------------------------------------------------------------------

#[test]
fn ports_and_connects_are_those_that_the_server_saw_whatever_becomes_of_connections() {
    for reuse in [
        ConnectionReuse::Pooled,
        ConnectionReuse::Never,
        ConnectionReuse::StickyUserSessions,
    ] {
        let server = mock(|_| {});
        let run = Scenario::new(server.address())
            .cores(2)
            .connection_reuse(reuse)
            .turns(LengthDistribution::Fixed(2))
            .traced()
            .phase(Phase::closed("load", 5).sessions(20))
            .run();
        assert_eq!(run.counts("load").succeeded, 40, "{reuse:?}");
        let books = Books::complete(&run, &server);
        for (record, entry) in &books.matched {
            assert_sound(record);
            assert_sent(record, entry);
            assert_received(record);
            assert_eq!(end_of(record, "local"), entry.client, "{reuse:?}");
            assert_eq!(end_of(record, "remote"), server.address(), "{reuse:?}");
            assert!(number(record, "request_send_start_ns") <= run.wall_ns(entry.receive_complete_ns));
            let first_byte = entry.first_byte_ns.expect("it was answered");
            assert!(run.wall_ns(first_byte) <= number(record, "response_headers_received_ns"));
            let last_token = entry.last_token_ns.expect("it was streamed");
            assert!(run.wall_ns(last_token) <= number(record, "response_receive_end_ns"));
        }
        // The first request on a connection opened it; the others found it.
        let connections = by_connection(&books);
        assert_eq!(connections.len() as u64, server.counters().connections, "{reuse:?}");
        for requests in connections.values() {
            for (at, record) in requests.iter().enumerate() {
                assert_eq!(has(record, "tcp_connect_end_ns"), at == 0, "{reuse:?}: {record:?}");
                assert_eq!(has(record, "connection_reused_ns"), at > 0, "{reuse:?}: {record:?}");
                assert_eq!(
                    record.metric_ns("http_req_connecting"),
                    Some(trace(record)["connecting_ns"].as_u64().unwrap_or(0)),
                    "{reuse:?}"
                );
                if at > 0 {
                    assert_eq!(number(record, "connection_reused_ns"), record.metadata.credit_issued_ns);
                }
            }
        }
    }
}

#[test]
fn requests_to_several_servers_name_their_own() {
    let servers = [mock(|_| {}), mock(|_| {})];
    let run = Scenario::new(servers[0].address())
        .also(servers[1].address())
        .traced()
        .phase(Phase::closed("load", 4).requests(20))
        .run();
    assert_eq!(run.counts("load").succeeded, 20);
    let mut seen = BTreeSet::new();
    for record in &run.records {
        let remote = end_of(record, "remote");
        assert_eq!(trace(record)["request_headers"]["Host"], remote.to_string());
        seen.insert(remote);
    }
    assert_eq!(seen, servers.iter().map(|server| server.address()).collect());
}

#[test]
fn a_request_that_is_sent_again_shows_the_connection_that_carried_it() {
    let server = ScriptedServer::fickle(Fickle::Close);
    let run = Scenario::new(server.address())
        .whole_answers()
        .traced()
        .phase(Phase::closed("load", 1).requests(10))
        .run();
    assert_eq!(run.counts("load").succeeded, 10);
    let resends = run.summary("load")["ringload"]["client"]["resends"].as_u64();
    assert_eq!(resends, Some(9), "all but the first met the end of a connection");
    let mut ports = BTreeSet::new();
    for (at, record) in run.records.iter().enumerate() {
        assert_sound(record);
        assert_received(record);
        assert!(
            !has(record, "connection_reused_ns"),
            "it was not the old one: {record:?}"
        );
        // The clock of the request had started with the first try, and that of the connect with the second.
        let began = number(record, "tcp_connect_start_ns") >= number(record, "request_send_start_ns");
        assert!(began, "{at}: {record:?}");
        ports.insert(number(record, "local_port"));
    }
    assert_eq!(ports.len(), 10, "a connection for each");
}

// --- bytes -----------------------------------------------------------------------------------------------------------------------------

#[test]
fn the_answer_on_the_wire_is_its_head_and_its_body() {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .whole_answers()
        .traced()
        .phase(Phase::closed("load", 3).requests(20))
        .run();
    let books = Books::complete(&run, &server);
    assert_eq!(books.matched.len(), 20);
    for (record, entry) in &books.matched {
        assert_sound(record);
        assert_sent(record, entry);
        assert_received(record);
        let headers = trace(record)["response_headers"].as_object().expect("an object");
        assert_eq!(
            headers["content-length"],
            number(record, "response_bytes_total").to_string()
        );
        let lines: usize = headers
            .iter()
            .map(|(name, value)| name.len() + value.as_str().expect("a text").len() + ": \r\n".len())
            .sum();
        let head = "HTTP/1.1 200 OK\r\n\r\n".len() + lines;
        assert_eq!(
            head as u64 + number(record, "response_bytes_total"),
            entry.response_bytes
        );
    }
}

#[test]
fn reads_of_a_stream_are_counted_and_its_head_is_none_of_them() {
    let event = |text: &str| {
        let data =
            format!(r#"{{"object":"chat.completion.chunk","choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#);
        format!("data: {data}\n\n")
    };
    let end = r#"data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    let payloads = [event("a"), event("b"), event("c"), format!("{end}\n\ndata: [DONE]\n\n")];
    let body: usize = payloads.iter().map(String::len).sum();
    let chunk = |payload: &String| format!("{:x}\r\n{payload}\r\n", payload.len());
    let head = "HTTP/1.1 200 Fine\r\nContent-Type: text/event-stream\r\nX-A: 1\r\nTransfer-Encoding: chunked\r\nx-a: 2\r\n\r\n";
    let mut pieces = vec![(0, head.to_owned())];
    pieces.extend(payloads.iter().map(|payload| (40, chunk(payload))));
    // The last chunk has no byte of the body.
    pieces.push((40, "0\r\n\r\n".to_owned()));
    let server = ScriptedServer::paced(pieces);
    let run = Scenario::new(server.address())
        .traced()
        .phase(Phase::closed("load", 2).requests(8))
        .run();
    assert_eq!(run.counts("load").succeeded, 8, "{:?}", run.records[0].error);
    for record in &run.records {
        assert_sound(record);
        assert_waited(record);
        assert_eq!(number(record, "response_bytes_total"), body as u64);
        assert_eq!(text(record, "response_reason"), "Fine");
        let expected = serde_json::json!({
            "Content-Type": "text/event-stream", "X-A": "1, 2", "Transfer-Encoding": "chunked",
        });
        assert_eq!(trace(record)["response_headers"], expected);
        // Pieces can meet in one read if this host stands still, never the other way round.
        assert!((1..=4).contains(&number(record, "response_chunks_count")), "{record:?}");
        assert_eq!(
            Some(number(record, "response_chunks_count") as f64),
            record.metric("http_req_chunks_received")
        );
    }
    let apart = |record: &&Record| {
        number(record, "response_headers_received_ns") < number(record, "response_receive_start_ns")
            && number(record, "response_receive_end_ns") < record.metadata.request_end_ns
            && number(record, "response_chunks_count") == 4
    };
    assert!(run.records.iter().filter(apart).count() > 0, "{:?}", run.records[0]);
}

#[test]
fn a_long_request_is_counted_to_the_last_byte() {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .entries(1)
        // More than the buffers of a socket take at once.
        .prompt_tokens(1_500_000)
        .traced()
        .phase(Phase::closed("load", 1).requests(3))
        .run();
    let books = Books::complete(&run, &server);
    for (record, entry) in &books.matched {
        assert!(entry.request_bytes > 8_000_000);
        assert_sound(record);
        assert_sent(record, entry);
        assert_received(record);
    }
}

#[test]
fn behind_tls_the_bytes_are_those_of_the_request_and_connecting_ends_with_the_handshake() {
    let server = mock(|_| {});
    let authority = Authority::new();
    let front = TlsServer::before(server.address(), authority.server("127.0.0.1", |_| {}));
    let run = Scenario::new(front.address())
        .tls(Verification::CaFile(authority.file()))
        .prompt_tokens(30_000)
        .traced()
        .phase(Phase::closed("load", 2).requests(12))
        .run();
    assert_eq!(run.counts("load").succeeded, 12);
    let books = Books::complete(&run, &server);
    let mut connects = 0;
    for (record, entry) in &books.matched {
        assert_sound(record);
        assert_sent(record, entry);
        assert_received(record);
        // 64 KB are enciphered and written at once.
        assert!(entry.request_bytes > 128 * 1024 && number(record, "request_chunks_count") >= 3);
        assert!(number(record, "request_headers_sent_ns") < number(record, "request_send_end_ns"));
        assert_eq!(end_of(record, "remote"), front.address());
        connects += u64::from(has(record, "connecting_ns"));
        assert_eq!(
            record.metric_ns("http_req_connecting"),
            Some(trace(record)["connecting_ns"].as_u64().unwrap_or(0))
        );
    }
    assert_eq!(connects, server.counters().connections);
}

// --- what did not happen ---------------------------------------------------------------------------------------------------------------

fn failing(server: SocketAddr, requests: u64) -> Run {
    let run = Scenario::new(server)
        .traced()
        .phase(Phase::closed("load", 2).requests(requests))
        .run();
    run.records.iter().for_each(assert_sound);
    run
}

#[test]
fn a_server_that_is_not_there_leaves_the_address_that_was_tried() {
    let server = nobody();
    let run = failing(server, 4);
    assert_eq!(run.counts("load").failed, 4);
    for record in &run.records {
        assert_eq!(
            keys(record),
            [
                "trace_type",
                "request_send_start_ns",
                "request_chunks",
                "request_chunks_count",
                "request_bytes_total",
                "tcp_connect_start_ns",
                "remote_ip",
                "remote_port",
            ]
        );
        assert_eq!(end_of(record, "remote"), server);
        assert_eq!(
            (
                number(record, "request_chunks_count"),
                number(record, "request_bytes_total")
            ),
            (0, 0)
        );
    }
}

#[test]
fn without_an_answer_there_is_none_of_its_keys() {
    for fault in ["reset-before-head", "close-before-head", "garbage"] {
        let server = faulty(fault);
        let run = failing(server.address(), 6);
        assert_eq!(run.counts("load").failed, 6, "{fault}");
        let books = Books::complete(&run, &server);
        for (record, entry) in &books.matched {
            assert_no_response(record);
            assert_sent(record, entry);
            assert_eq!(end_of(record, "local"), entry.client, "{fault}");
        }
    }
}

#[test]
fn an_answer_that_is_a_failure_is_told_as_it_came() {
    for (fault, status, reason) in [
        ("status:503", 503, "Service Unavailable"),
        ("gzip", 200, "OK"),
        ("truncate-stream", 200, "OK"),
        ("stream-error", 200, "OK"),
    ] {
        let server = faulty(fault);
        let run = failing(server.address(), 4);
        assert_eq!(run.counts("load").failed, 4, "{fault}");
        for record in &run.records {
            assert_eq!(number(record, "response_status_code"), status, "{fault}");
            assert_eq!(text(record, "response_reason"), reason, "{fault}");
            assert!(number(record, "response_chunks_count") > 0, "{fault}");
            assert!(has(record, "duration_ns"), "{fault}");
            let headers = &trace(record)["response_headers"];
            if let Some(length) = headers["content-length"].as_str() {
                assert_eq!(length, number(record, "response_bytes_total").to_string(), "{fault}");
            }
            assert_eq!(fault == "gzip", headers["content-encoding"] == "gzip", "{fault}");
        }
    }
}

#[test]
fn an_interim_head_is_not_the_head() {
    let server = faulty("interim");
    let run = failing(server.address(), 4);
    assert_eq!(run.counts("load").succeeded, 4);
    for record in &run.records {
        assert_received(record);
        assert_eq!(trace(record)["response_headers"].get("link"), None);
    }
}

#[test]
fn a_refusal_before_the_request_was_through_does_not_guess_how_far_it_came() {
    let answer = "HTTP/1.1 413 Content Too Large\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno";
    let server = ScriptedServer::new(move |mut client| {
        if client.head().is_some() {
            client.send(answer);
        }
    });
    let run = Scenario::new(server.address())
        .whole_answers()
        .entries(1)
        .prompt_tokens(1_500_000)
        .traced()
        .phase(Phase::closed("load", 1).requests(5))
        .run();
    assert_eq!(run.counts("load").failed, 5);
    for record in &run.records {
        assert_sound(record);
        assert_eq!(number(record, "response_status_code"), 413);
        assert_eq!(number(record, "response_bytes_total"), 2);
        let length = trace(record)["request_headers"]["Content-Length"].as_str();
        let length: u64 = length.expect("its head went out").parse().expect("a number");
        // A write that was under way, or one that ended with an error: either way not all of it is known to be out.
        assert!(!has(record, "request_send_end_ns"), "{record:?}");
        let known = trace(record)["request_bytes_total"].as_u64();
        assert!(known.is_none_or(|known| known < length), "{record:?}");
    }
}

#[test]
fn a_cancelled_request_says_what_had_come_by_then() {
    let server = mock(|options| {
        options.ttft = ms(10);
        options.itl = ms(20);
        options.osl = Some(50);
    });
    let run = Scenario::new(server.address())
        .cores(2)
        .traced()
        .phase(Phase::closed("load", 4).requests(24).cancelling(1.0, ms(150)))
        .run();
    assert_eq!(run.counts("load").cancelled, 24);
    let books = Books::complete(&run, &server);
    let mut answered = 0;
    for (record, entry) in &books.matched {
        assert_eq!(record.ending(), Ending::Cancelled);
        assert_sound(record);
        assert_sent(record, entry);
        assert_eq!(end_of(record, "local"), entry.client);
        if has(record, "response_status_code") {
            answered += 1;
            assert!(number(record, "response_bytes_total") < entry.response_bytes);
            assert!(number(record, "response_receive_end_ns") <= record.metadata.request_end_ns);
        }
    }
    assert!(answered > 0, "none of 24 had an answer after 150 ms");

    let server = faulty("hang");
    let run = Scenario::new(server.address())
        .traced()
        .phase(Phase::closed("load", 4).requests(12).cancelling(1.0, ms(5)))
        .run();
    let books = Books::complete(&run, &server);
    for (record, entry) in &books.matched {
        assert_sound(record);
        assert_sent(record, entry);
        assert_no_response(record);
    }
}

#[test]
fn a_cut_request_has_its_trace_and_a_run_without_traces_has_none() {
    let server = mock(|options| options.itl = Duration::from_secs(5));
    let scenario = || Scenario::new(server.address()).phase(Phase::closed("load", 2).lasting(ms(300)).grace(ms(100)));
    let run = scenario().traced().run();
    assert_eq!(run.ended(Ending::Truncated), 2);
    for record in &run.records {
        assert_sound(record);
        assert_eq!(number(record, "response_status_code"), 200);
        assert!(has(record, "request_send_end_ns"));
    }
    let run = scenario().run();
    assert!(run.records.iter().all(|record| record.trace_data.is_none()));
}
