//! The server over real sockets: answers, ledger, counters, connections, and its program.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringload_mock_server::{LedgerEntry, MockServer, Options, Outcome, StartError};
use support::{Client, chat, post, start, wait_for};

#[test]
fn a_stream_has_role_tokens_reason_usage_and_done() {
    let server = start(|options| options.osl = None);
    let mut client = Client::connect(&server);
    let body = r#"{"model":"m","messages":[{"role":"user","content":"one two three"}],"stream":true,
        "max_completion_tokens":3,"stream_options":{"include_usage":true}}"#;
    client.send(&post(
        "/v1/chat/completions",
        "X-Request-ID: r-1\r\nX-Correlation-ID: s-1\r\n",
        body,
    ));
    let response = client.receive().expect("an answer");
    assert!(response.whole && response.status == 200 && response.head.contains("content-type: text/event-stream"));
    assert_eq!(response.tokens().concat(), "the of and");
    let data = response.data();
    assert_eq!(data.len(), 7, "{data:?}");
    assert!(data[0].contains(r#""role":"assistant""#) && data[4].contains(r#""finish_reason":"length""#));
    assert!(data[5].contains(r#""usage":{"prompt_tokens":3,"completion_tokens":3,"total_tokens":6}"#));
    assert_eq!(data[6], "[DONE]");

    let [entry] = &server.ledger()[..] else {
        panic!("one entry, not {:?}", server.ledger())
    };
    assert_eq!(
        (entry.outcome, entry.tokens_sent, entry.prompt_words),
        (Outcome::Complete, 3, 3)
    );
    assert_eq!(
        (entry.request_id.as_deref(), entry.session.as_deref()),
        (Some("r-1"), Some("s-1"))
    );
    assert_eq!(
        (entry.request_bytes, entry.in_flight_at_arrival),
        (body.len() as u64, 1)
    );
    assert_eq!((entry.connection, entry.thread, entry.fault.as_deref()), (1, 0, None));
}

#[test]
fn a_whole_answer_comes_with_its_last_token_and_carries_usage() {
    let server = start(|options| options.itl = Duration::from_millis(10));
    let mut client = Client::connect(&server);
    client.send(&chat(false, ""));
    let response = client.receive().expect("an answer");
    let answer = response.json();
    assert_eq!(answer["choices"][0]["message"]["content"], "the of and to");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert_eq!(answer["usage"]["total_tokens"], 7);
    let entry = &server.ledger()[0];
    let after_ns = entry.first_byte_ns.expect("sent") - entry.receive_complete_ns;
    assert!(
        after_ns >= 32_000_000,
        "sent after {after_ns} ns, due after 2 + 3 * 10 ms"
    );
    assert_eq!((entry.first_byte_ns, entry.first_token_ns), (entry.last_byte_ns, None));
    assert_eq!(entry.response_bytes, (response.head.len() + response.body.len()) as u64);
}

#[test]
fn nothing_is_sent_before_its_time_and_the_stamps_are_in_order() {
    let server = start(|options| {
        options.ttft = Duration::from_millis(30);
        options.itl = Duration::from_millis(10);
    });
    let mut client = Client::connect(&server);
    let started = Instant::now();
    client.send(&chat(true, ""));
    client.fill().expect("first bytes");
    assert!(
        started.elapsed() >= Duration::from_millis(30),
        "first byte after {:?}",
        started.elapsed()
    );
    client.receive().expect("an answer");
    assert!(started.elapsed() >= Duration::from_millis(60));
    let entry = &server.ledger()[0];
    let after = |stamp: Option<u64>| stamp.expect("sent") - entry.receive_complete_ns;
    assert_eq!(entry.first_byte_ns, entry.first_token_ns);
    assert!(after(entry.first_token_ns) >= 30_000_000 && after(entry.last_token_ns) >= 60_000_000);
    assert!(entry.last_byte_ns >= entry.last_token_ns);
}

#[test]
fn jittered_answers_repeat_with_their_seed() {
    let delays = || {
        let server = start(|options| {
            options.jitter = 0.9;
            options.ttft = Duration::from_millis(20);
            options.osl = Some(1);
        });
        let mut client = Client::connect(&server);
        for _ in 0..4 {
            client.send(&chat(true, ""));
            client.receive().expect("an answer");
        }
        let entries = server.ledger().into_iter();
        entries
            .map(|entry| entry.first_token_ns.expect("sent") - entry.receive_complete_ns)
            .collect::<Vec<_>>()
    };
    let (first, second) = (delays(), delays());
    // 20 ms give or take 18: two draws that agree by chance within the lateness of a busy machine are possible, four
    // times in a row are not.
    let far = first
        .iter()
        .zip(&second)
        .filter(|(a, b)| a.abs_diff(**b) > 8_000_000)
        .count();
    assert!(far <= 1, "{first:?} and {second:?}");
}

#[test]
fn a_client_that_leaves_is_seen_while_it_waits_for_the_first_token() {
    let server = start(|options| options.ttft = Duration::from_secs(3_600));
    let mut client = Client::connect(&server);
    let request = chat(true, "x-request-id: gone\r\n");
    client.send(&request);
    drop(client);
    wait_for("the disconnect", || server.counters().disconnects_before_end == 1);
    let entry = &server.ledger()[0];
    assert_eq!(
        (entry.outcome, entry.request_id.as_deref()),
        (Outcome::Disconnected, Some("gone"))
    );
    assert_eq!(
        (entry.response_bytes, entry.first_byte_ns, entry.tokens_sent),
        (0, None, 0)
    );
    let body = request.split_once("\r\n\r\n").expect("a body").1;
    assert_eq!(entry.request_bytes, body.len() as u64);
    wait_for("the end of the connection", || server.counters().connections_open == 0);
    assert_eq!((server.counters().in_flight, server.counters().in_flight_max), (0, 1));
}

#[test]
fn a_client_that_leaves_is_seen_in_the_middle_of_a_stream() {
    let server = start(|options| options.itl = Duration::from_secs(3_600));
    let mut client = Client::connect(&server);
    client.send(&chat(true, ""));
    client.fill().expect("the first token");
    drop(client);
    wait_for("the disconnect", || server.counters().disconnects_before_end == 1);
    let entry = &server.ledger()[0];
    assert_eq!((entry.outcome, entry.tokens_sent), (Outcome::Disconnected, 1));
    assert!(entry.response_bytes > 0 && entry.first_token_ns.is_some());
}

#[test]
fn requests_sent_ahead_are_answered_in_order_also_when_they_arrive_during_an_answer() {
    let server = start(|options| options.ttft = Duration::from_millis(20));
    let mut client = Client::connect(&server);
    client.send(&chat(true, "x-request-id: a\r\n"));
    let second = chat(false, "x-request-id: b\r\n");
    let (front, rest) = second.split_at(30);
    client.send(front);
    client.fill().expect("the first answer has begun");
    client.send(rest);
    client.send(&(chat(true, "x-request-id: c\r\n") + "GET /health HTTP/1.1\r\n\r\n"));
    assert_eq!(client.receive().expect("a").tokens().len(), 4);
    assert_eq!(client.receive().expect("b").json()["object"], "chat.completion");
    assert_eq!(client.receive().expect("c").tokens().len(), 4);
    assert_eq!(client.receive().expect("health").json()["status"], "ok");
    let ledger = server.ledger();
    let ids: Vec<_> = ledger
        .iter()
        .map(|entry| entry.request_id.as_deref().expect("an id"))
        .collect();
    assert_eq!(ids, ["a", "b", "c"]);
    assert!(
        ledger
            .iter()
            .all(|entry| entry.connection == 1 && entry.in_flight_at_arrival == 1)
    );
    assert_eq!(server.counters().connections, 1);
}

#[test]
fn bodies_come_chunked_in_pieces_and_after_continue() {
    let server = start(|_| {});
    let mut client = Client::connect(&server);
    let body = r#"{"model":"m","messages":[{"role":"user","content":"a b"}]}"#;
    client.send("POST /v1/chat/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n");
    for piece in [&body[..10], &body[10..]] {
        client.send(&format!("{:x}\r\n{piece}\r\n", piece.len()));
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.receive().expect("an answer").status, 200);
    let request = post("/v1/chat/completions", "expect: 100-continue\r\n", body);
    let (head, body) = request.split_at(request.len() - body.len());
    client.send(head);
    assert_eq!(client.receive().expect("an interim answer").status, 100);
    client.send(body);
    assert_eq!(client.receive().expect("an answer").json()["usage"]["prompt_tokens"], 2);
    assert!(
        server
            .ledger()
            .iter()
            .all(|entry| entry.request_bytes == body.len() as u64)
    );
}

#[test]
fn a_large_body_is_read_whole() {
    let server = start(|options| options.fast = true);
    let mut client = Client::connect(&server);
    let prompt = "word ".repeat(1_000_000);
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{prompt}"}}]}}"#);
    client.send(&post("/v1/chat/completions", "", &body));
    assert_eq!(
        client.receive().expect("an answer").json()["usage"]["prompt_tokens"],
        1_000_000
    );
    assert!(server.counters().bytes_received > 5_000_000);
}

#[test]
fn fast_and_paced_streams_have_the_same_bytes() {
    let read = |fast: bool| {
        let server = start(|options| (options.fast, options.osl) = (fast, Some(40)));
        let mut client = Client::connect(&server);
        client.send(&chat(true, ""));
        let response = client.receive().expect("an answer");
        let entry = server.ledger().remove(0);
        assert_eq!((entry.tokens_sent, entry.outcome), (40, Outcome::Complete));
        assert!(entry.first_token_ns.is_some() && entry.last_token_ns.is_some());
        (response.head + &response.body, entry.response_bytes)
    };
    assert_eq!(read(true), read(false));
}

#[test]
fn without_delays_each_token_still_has_a_write_of_its_own() {
    let stamps = |fast: bool| {
        let server = start(|options| {
            (options.ttft, options.itl) = (Duration::ZERO, Duration::ZERO);
            (options.fast, options.osl) = (fast, Some(40));
        });
        let mut client = Client::connect(&server);
        client.send(&chat(true, ""));
        assert_eq!(client.receive().expect("an answer").tokens().len(), 40);
        let entry = server.ledger().remove(0);
        // A write has one stamp, and 39 more of them cannot all be taken in the same nanosecond.
        (entry.first_token_ns, entry.last_token_ns)
    };
    let (first, last) = stamps(false);
    assert!(first < last, "{first:?} to {last:?}");
    let (first, last) = stamps(true);
    assert_eq!(first, last, "a fast answer goes out in one write");
}

#[test]
fn tokens_are_counted_when_they_are_sent_and_not_when_their_answer_ends() {
    let server = start(|_| ());
    let mut client = Client::connect(&server);
    for stream in [true, false] {
        client.send(&chat(stream, ""));
        client.receive().expect("an answer");
    }
    assert_eq!(server.counters().tokens_sent, 2 * 4);
    client.send(&chat(true, "x-mock-fault: stall-after:3\r\n"));
    wait_for("the third token", || server.counters().tokens_sent == 2 * 4 + 3);
    assert_eq!(server.ledger().len(), 2, "the third answer is still open");
    drop(client);
    wait_for("its entry", || server.ledger().len() == 3);
    let tokens = server
        .ledger()
        .iter()
        .map(|entry| u64::from(entry.tokens_sent))
        .sum::<u64>();
    assert_eq!(tokens, server.counters().tokens_sent);
}

#[test]
fn wrong_requests_get_the_errors_of_the_api() {
    let server = start(|options| options.api_key = Some("secret".into()));
    let mut client = Client::connect(&server);
    let mut status = |request: &str| {
        client.send(request);
        let response = client.receive().expect("an answer");
        assert!(response.json()["error"]["message"].is_string());
        response.status
    };
    assert_eq!(status("GET /nothing HTTP/1.1\r\n\r\n"), 404);
    assert_eq!(status("GET /v1/chat/completions HTTP/1.1\r\n\r\n"), 405);
    assert_eq!(status(&post("/health", "", "")), 405);
    assert_eq!(status(&chat(true, "")), 401);
    assert_eq!(status(&chat(true, "authorization: Bearer wrong\r\n")), 401);
    assert_eq!(
        status(&post("/v1/chat/completions", "authorization: Bearer secret\r\n", "{}")),
        400
    );
    assert_eq!(
        status(&chat(true, "authorization: Bearer secret\r\nx-mock-fault: nothing\r\n")),
        400
    );
    client.send(&chat(true, "authorization: bearer secret\r\n"));
    assert_eq!(client.receive().expect("an answer").status, 200);
    client.send(&post("/start_profile", "", ""));
    assert_eq!(client.receive().expect("an answer").status, 200);
    client.send("nonsense\r\n\r\n");
    let response = client.receive().expect("an answer");
    assert!(response.status == 400 && response.head.contains("connection: close"));
    client.end().expect("the connection is closed in good order");
    let outcomes: Vec<_> = server.ledger().iter().map(|entry| entry.outcome).collect();
    assert_eq!(outcomes, [vec![Outcome::Rejected; 4], vec![Outcome::Complete]].concat());
}

#[test]
fn control_calls_are_counted_and_logged_in_order() {
    let server = start(|_| {});
    let mut client = Client::connect(&server);
    let calls = [
        post("/reset_prefix_cache", "", ""),
        post("/start_profile", "authorization: Bearer k\r\n", r#"{"a":1}"#),
        "POST /stop_profile HTTP/1.1\r\n\r\n".to_owned(),
        post("/flush_cache?fault=first:1:unsuccessful", "", ""),
        post("/flush_cache?fault=first:3:unsuccessful", "", ""),
    ];
    for (call, success) in calls.iter().zip([true, true, true, true, false]) {
        client.send(call);
        assert_eq!(
            client.receive().expect("an answer").json()["success"],
            success,
            "{call}"
        );
    }
    let log = server.control_log();
    let paths: Vec<_> = log.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "/reset_prefix_cache",
            "/start_profile",
            "/stop_profile",
            "/flush_cache",
            "/flush_cache"
        ]
    );
    assert!(log.is_sorted_by_key(|entry| entry.monotonic_ns));
    assert!(log[1].authorization && !log[0].authorization);
    assert_eq!((log[0].content_length, log[2].content_length), (Some(0), None));
    assert_eq!((log[1].body_bytes, log[1].body.as_str()), (7, r#"{"a":1}"#));
    let counters = server.counters();
    assert_eq!(
        (
            counters.reset_prefix_cache,
            counters.start_profile,
            counters.stop_profile
        ),
        (3, 1, 1)
    );
    assert_eq!((counters.requests, counters.other_requests), (0, 5));
    assert_eq!(client.get("/control"), serde_json::to_value(&log).expect("plain data"));
}

#[test]
fn what_http_tells_is_what_the_handle_tells() {
    let server = start(|options| options.ledger_capacity = 3);
    let mut client = Client::connect(&server);
    for index in 0..5 {
        client.send(&chat(true, &format!("x-request-id: r{index}\r\n")));
        client.receive().expect("an answer");
    }
    let ledger: Vec<LedgerEntry> = serde_json::from_value(client.get("/ledger")).expect("entries");
    assert_eq!(ledger, server.ledger());
    let ids: Vec<_> = ledger
        .iter()
        .map(|entry| entry.request_id.as_deref().expect("an id"))
        .collect();
    assert_eq!(ids, ["r2", "r3", "r4"]);
    let counters = client.get("/counters");
    assert_eq!(
        (&counters["requests"], &counters["ledger_dropped"]),
        (&5.into(), &2.into())
    );
    assert_eq!(counters["connections_open"], 1);
    assert_eq!(client.get("/v1/models")["data"][0]["id"], "mock-model");
}

#[test]
fn requests_in_flight_are_counted_over_all_threads() {
    let server = start(|options| {
        options.threads = 3;
        options.ttft = Duration::from_millis(300);
    });
    let mut clients: Vec<Client> = (0..24).map(|_| Client::connect(&server)).collect();
    for client in &mut clients {
        client.send(&chat(true, "connection: close\r\n"));
    }
    for client in &mut clients {
        assert!(client.receive().expect("an answer").head.contains("connection: close"));
        client.end().expect("closed in good order");
    }
    let ledger = server.ledger();
    assert!(ledger.is_sorted_by_key(|entry| entry.receive_complete_ns));
    let mut in_flight: Vec<u64> = ledger.iter().map(|entry| entry.in_flight_at_arrival).collect();
    in_flight.sort_unstable();
    assert_eq!(in_flight, (1..=24).collect::<Vec<_>>());
    assert!(
        ledger.iter().any(|entry| entry.thread != ledger[0].thread),
        "24 connections on one of three threads"
    );
    let counters = server.counters();
    assert_eq!(
        (counters.requests, counters.in_flight, counters.in_flight_max),
        (24, 0, 24)
    );
    drop(clients);
    wait_for("the end of all connections", || server.counters().connections_open == 0);
}

#[test]
fn a_client_with_its_answer_is_out_of_flight_and_in_the_ledger() {
    let server = start(|options| (options.threads, options.fast) = (2, true));
    std::thread::scope(|scope| {
        for index in 0..4 {
            let server = &server;
            scope.spawn(move || {
                for request in 0..100 {
                    // A new connection for each, so that the threads of the server change all the time.
                    let mut client = Client::connect(server);
                    let id = format!("{index}-{request}");
                    client.send(&chat(request % 2 == 0, &format!("x-request-id: {id}\r\n")));
                    client.receive().expect("an answer");
                    let is_filed = server
                        .ledger()
                        .iter()
                        .any(|entry| entry.request_id.as_deref() == Some(&id));
                    assert!(is_filed, "{id} is answered but not in the ledger");
                }
            });
        }
    });
    let counters = server.counters();
    assert_eq!(
        (counters.requests, counters.in_flight, counters.disconnects_before_end),
        (400, 0, 0)
    );
    assert!(
        counters.in_flight_max <= 4,
        "{} in flight from 4 clients",
        counters.in_flight_max
    );
    assert!(server.ledger().iter().all(|entry| entry.in_flight_at_arrival <= 4));
}

#[test]
fn a_stopped_server_closes_its_connections_and_frees_its_port() {
    let server = start(|options| options.ttft = Duration::from_secs(3_600));
    let mut busy = Client::connect(&server);
    busy.send(&chat(true, ""));
    wait_for("the arrival", || server.counters().requests == 1);
    let mut idle = Client::connect(&server);
    wait_for("the accept", || server.counters().connections_open == 2);
    let port = server.address().port();
    let stopping = Instant::now();
    drop(server);
    assert!(
        stopping.elapsed() < Duration::from_millis(900),
        "stopped after {:?}",
        stopping.elapsed()
    );
    busy.end().expect("closed");
    idle.end().expect("closed");
    MockServer::start(Options {
        port,
        ..Default::default()
    })
    .expect("the port is free again");
}

#[test]
fn a_server_does_not_share_a_port_and_refuses_senseless_options() {
    let server = start(|options| options.threads = 2);
    let again = MockServer::start(Options {
        port: server.address().port(),
        threads: 2,
        ..Default::default()
    });
    assert!(matches!(again.err(), Some(StartError::Bind { .. })));
    let refused = |options| MockServer::start(options).err().expect("refused").to_string();
    assert!(
        refused(Options {
            port: 0,
            threads: 0,
            ..Default::default()
        })
        .starts_with("threads: 0 is not allowed")
    );
    assert!(
        refused(Options {
            port: 0,
            jitter: 1.5,
            ..Default::default()
        })
        .starts_with("jitter: 1.5")
    );
    assert!(
        refused(Options {
            port: 0,
            osl: Some(0),
            ..Default::default()
        })
        .starts_with("osl: 0")
    );
    assert!(
        refused(Options {
            port: 0,
            pin_to: Some(100_000),
            ..Default::default()
        })
        .starts_with("pin_to: ")
    );
}

/// Runs the program, gives `play` its address, then ends it with `signal`.
fn with_program(environment: &[(&str, &str)], signal: i32, play: impl FnOnce(&str)) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_ringload-mock-server"))
        .args(["--port", "0", "--ttft", "0.5", "--itl", "0.2", "--access-logs"])
        .envs(environment.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(program.stdout.take().expect("piped")).lines();
    let line = lines.next().expect("one line").expect("text");
    let address = line.strip_prefix("listening on http://").expect("the documented line");
    play(address);
    let kill = Command::new("kill")
        .args([format!("-{signal}"), program.id().to_string()])
        .status();
    assert!(kill.expect("kill runs").success());
    assert!(program.wait().expect("the program ends").success());
    assert!(lines.next().is_none(), "more than one line on standard output");
    let log = BufReader::new(program.stderr.take().expect("piped"))
        .lines()
        .next()
        .expect("a log line")
        .expect("text");
    assert!(log.starts_with("POST /v1/chat/completions Complete 16 tokens"), "{log}");
}

fn one_stream(address: &str) {
    let mut stream = std::net::TcpStream::connect(address).expect("the program accepts");
    stream
        .write_all(chat(true, "connection: close\r\n").as_bytes())
        .expect("the program reads");
    let answer = std::io::read_to_string(stream).expect("text");
    assert!(answer.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"), "{answer}");
}

#[test]
fn the_program_says_where_it_listens_and_ends_well_on_a_signal() {
    with_program(&[], 15, one_stream);
}

#[test]
fn the_program_serves_without_io_uring() {
    with_program(&[("MONOIO_FORCE_LEGACY_DRIVER", "1")], 2, one_stream);
}
