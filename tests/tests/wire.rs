//! Answers byte by byte: servers of a few lines that do on purpose what servers do in the field.

use std::io::Read as _;
use std::net::Shutdown;
use std::sync::Mutex;
use std::time::Duration;

use ringload_tests::isolation::in_network_of_its_own;
use ringload_tests::server::{Client, ScriptedServer, whole_answer};
use ringload_tests::{Ending, Phase, Run, Scenario, eventually};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Whole answers from a server that does this with each connection, by one client with one connection at a time.
fn one_by_one(requests: u64, serve: impl Fn(Client<'_>) + Send + Sync + 'static) -> (Run, ScriptedServer) {
    let server = ScriptedServer::new(serve);
    let run = Scenario::new(server.address())
        .whole_answers()
        .phase(Phase::closed("load", 1).requests(requests))
        .run();
    (run, server)
}

/// Answers every request of a connection with these bytes.
fn always(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> impl Fn(Client<'_>) + Send + Sync + 'static {
    move |mut client| while client.request().is_some() && client.send(&bytes) {}
}

fn assert_all_succeed(run: &Run, requests: u64) {
    assert_eq!(run.counts("load").succeeded, requests, "{:?}", run.outcome.failure);
    assert_eq!(run.summary("load")["ringload"]["client"]["resends"], 0);
}

/// The body of [`whole_answer`] in chunks, with what chunked coding allows: extensions, upper-case sizes with leading zeros, trailers.
fn chunked_answer() -> String {
    let whole = whole_answer();
    let (_, body) = whole.split_once("\r\n\r\n").expect("a head and a body");
    let (first, second) = body.split_at(10);
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n\
         A;foo=bar;baz=\"q\"\r\n{first}\r\n00{:X}\r\n{second}\r\n0\r\nX-Foo: bar\r\nServer-Timing: total;dur=3\r\n\r\n",
        second.len()
    )
}

#[test]
fn h03_h04_trailers_and_extensions_are_skipped_and_the_connection_stays_in_step() {
    let (run, server) = one_by_one(20, always(chunked_answer()));
    assert_all_succeed(&run, 20);
    assert_eq!(server.connections(), 1);
}

#[test]
fn h09_interim_heads_are_skipped_however_they_come() {
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n";
    let (run, server) = one_by_one(
        10,
        always(format!("HTTP/1.1 100 Continue\r\n\r\n{hints}{}", whole_answer())),
    );
    assert_all_succeed(&run, 10);
    assert_eq!(server.connections(), 1);

    let (run, _) = one_by_one(4, move |mut client| {
        while client.request().is_some() {
            client.send(hints);
            std::thread::sleep(ms(30));
            client.answer();
        }
    });
    assert_all_succeed(&run, 4);
    for record in &run.records {
        let latency = record.metric("request_latency").expect("a success");
        assert!(latency >= 30.0, "the interim head ended the request: {record:?}");
    }
}

#[test]
fn h27_an_answer_with_the_end_of_the_connection_behind_it_is_a_success() {
    let (run, server) = one_by_one(30, |mut client| {
        if client.request().is_some() {
            client.answer();
            let _ = client.stream.shutdown(Shutdown::Write);
        }
    });
    assert_eq!(run.counts("load").succeeded, 30);
    // The end may be seen with the answer, or when the next request is on its way already, which is then sent again.
    let resends = run.summary("load")["ringload"]["client"]["resends"].as_u64();
    assert!(resends.is_some_and(|resends| resends < 30));
    assert_eq!(server.connections(), 30);
}

#[test]
fn an_answer_that_lasts_until_the_close_is_whole_with_it() {
    let whole = whole_answer();
    let (_, body) = whole.split_once("\r\n\r\n").expect("a head and a body");
    let open_end = format!("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{body}");
    let (run, server) = one_by_one(10, move |mut client| {
        if client.request().is_some() {
            client.send(&open_end);
        }
    });
    assert_all_succeed(&run, 10);
    assert_eq!(server.connections(), 10);
}

#[test]
fn h06_an_announced_length_that_is_not_reached_is_an_incomplete_body() {
    let short = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n";
    let (run, _) = one_by_one(5, move |mut client| {
        if client.request().is_some() {
            client.send(format!("{short}{}", "x".repeat(60)));
        }
    });
    assert_eq!(run.counts("load").failed, 5);
    for record in &run.records {
        let error = record.error.as_ref().expect("a failure");
        assert_eq!(error.kind, "ClientPayloadError", "{error:?}");
        assert!(error.message.contains("incomplete body"), "{error:?}");
    }
}

#[test]
fn h13_a_refusal_before_the_body_was_read_is_what_the_record_says() {
    let refusal = r#"{"error":{"message":"prompt of 2000000 tokens is too long"}}"#;
    let answer = format!(
        "HTTP/1.1 413 Content Too Large\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{refusal}",
        refusal.len()
    );
    let server = ScriptedServer::new(move |mut client| {
        if client.head().is_some() {
            client.send(&answer);
            // Closed with most of the body unread, which resets the connection.
        }
    });
    let run = Scenario::new(server.address())
        .whole_answers()
        .entries(1)
        // 8 MB.
        .prompt_tokens(1_500_000)
        .phase(Phase::closed("load", 2).requests(10))
        .run();
    assert!(run.plan.requests.entries[0].body_len > 8_000_000);
    assert_eq!(run.counts("load").failed, 10);
    for record in &run.records {
        let error = record.error.as_ref().expect("a failure");
        assert_eq!(
            (error.code, error.kind.as_str()),
            (Some(413), "Content Too Large"),
            "{error:?}"
        );
        assert!(error.message.contains("2000000 tokens is too long"), "{error:?}");
    }
    assert_eq!(server.connections(), 10, "the connection is dropped");
}

#[test]
fn h14_a_large_body_arrives_whole_and_in_order_through_a_tiny_window() {
    let test = "h14_a_large_body_arrives_whole_and_in_order_through_a_tiny_window";
    let narrow = "echo '4096 4096 4096' > /proc/sys/net/ipv4/tcp_rmem\n\
                  echo '4096 4096 16384' > /proc/sys/net/ipv4/tcp_wmem";
    in_network_of_its_own(test, narrow, || {
        let bodies: &'static Mutex<Vec<Vec<u8>>> = Box::leak(Box::default());
        let server = ScriptedServer::new(move |mut client| {
            while let Some(request) = client.request() {
                bodies.lock().expect("no server panics").push(request.body);
                client.answer();
            }
        });
        let run = Scenario::new(server.address())
            .whole_answers()
            .entries(1)
            .prompt_tokens(750_000)
            .phase(Phase::closed("load", 2).requests(4))
            .run();
        assert_all_succeed(&run, 4);
        let planned = run.plan.requests.entries[0].body();
        assert!(planned.len() > 4_000_000);
        let bodies = bodies.lock().expect("no server panics");
        assert_eq!(bodies.len(), 4);
        assert!(
            bodies.iter().all(|body| body == planned),
            "a body is not the one that was planned"
        );
        for record in &run.records {
            let sending = record.metric("http_req_sending").expect("it was sent");
            assert!(sending > 1.0, "4 MB in one go: the window was not small: {record:?}");
        }
    });
}

#[test]
fn h15_identity_is_asked_for_and_a_server_that_compresses_only_if_allowed_does_not() {
    let (run, _) = one_by_one(5, |mut client| {
        while let Some(request) = client.request() {
            match request.header("accept-encoding") {
                Some("identity") => client.answer(),
                _ => client.send("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n"),
            };
        }
    });
    assert_all_succeed(&run, 5);
}

#[test]
fn h17_a_refusal_for_the_rate_is_one_error_with_its_advice_and_no_second_try() {
    let busy = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2\r\ncontent-length: 9\r\n\r\nslow down";
    let (run, server) = one_by_one(100, move |mut client| {
        let mut count = 0;
        while client.request().is_some() {
            count += 1;
            match count % 10 {
                1 | 4 | 7 => client.send(busy),
                _ => client.answer(),
            };
        }
    });
    let counts = run.counts("load");
    assert_eq!((counts.succeeded, counts.failed), (70, 30));
    assert_eq!((server.requests_seen(), server.connections()), (100, 1));
    for record in run.records.iter().filter(|record| record.ending() == Ending::Failed) {
        let error = record.error.as_ref().expect("a failure");
        assert_eq!(error.code, Some(429));
        assert_eq!(error.message, "slow down (retry-after: 2)");
    }
}

#[test]
fn h25_an_error_takes_as_long_as_the_server_took() {
    let slow = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 4\r\n\r\nboom";
    let (run, _) = one_by_one(3, move |mut client| {
        while client.request().is_some() {
            std::thread::sleep(ms(150));
            client.send(slow);
        }
    });
    assert_eq!(run.counts("load").failed, 3);
    for record in &run.records {
        let lasted = record.metadata.request_end_ns - record.metadata.request_start_ns;
        assert!(lasted >= 150_000_000, "{lasted} ns: {record:?}");
    }
}

#[test]
fn a_redirect_is_not_followed_and_names_its_target() {
    let (run, server) = one_by_one(
        5,
        always(
            "HTTP/1.1 308 Permanent Redirect\r\nLocation: http://127.0.0.1:9/elsewhere\r\ncontent-length: 0\r\n\r\n",
        ),
    );
    assert_eq!(run.counts("load").failed, 5);
    for record in &run.records {
        let error = record.error.as_ref().expect("a failure");
        assert_eq!(error.code, Some(308));
        assert!(error.message.contains("http://127.0.0.1:9/elsewhere"), "{error:?}");
    }
    assert_eq!(
        server.connections(),
        1,
        "an answer that is read whole leaves the connection in step"
    );
}

#[test]
fn bytes_behind_an_answer_end_the_connection_and_count_for_no_later_request() {
    // A second answer that nobody asked for: taken for the answer to the next request, it would be early and wrong.
    let (run, server) = one_by_one(10, |mut client| {
        if client.request().is_some() {
            client.send(format!(
                "{}HTTP/1.1 500 Wrong\r\ncontent-length: 0\r\n\r\n",
                whole_answer()
            ));
            // Open until the client closes.
            let _ = (&mut &*client.stream).read(&mut [0]);
        }
    });
    assert_all_succeed(&run, 10);
    assert_eq!(server.connections(), 10);
}

#[test]
fn h01_a_close_while_a_connection_is_idle_is_neither_an_error_nor_a_resend() {
    let server = ScriptedServer::new(|mut client| {
        if client.request().is_some() {
            client.answer();
            std::thread::sleep(ms(5));
        }
    });
    let run = Scenario::new(server.address())
        .whole_answers()
        .phase(Phase::constant("load", 4.0).requests(6))
        .run();
    assert_all_succeed(&run, 6);
    let connections = run.summary("load")["ringload"]["client"].clone();
    assert_eq!(
        (&connections["connections_opened"], &connections["reconnects"]),
        (&6.into(), &5.into())
    );
}

#[test]
fn h01_a_request_that_is_sent_again_keeps_its_start() {
    // The second request of each connection is read and left without an answer.
    let server = ScriptedServer::new(|mut client| {
        if client.request().is_some() && client.answer() && client.request().is_some() {
            std::thread::sleep(ms(100));
        }
    });
    let run = Scenario::new(server.address())
        .whole_answers()
        .phase(Phase::closed("load", 1).requests(5))
        .run();
    assert_eq!(run.counts("load").succeeded, 5);
    assert_eq!(run.summary("load")["ringload"]["client"]["resends"], 4);
    let slow = run
        .records
        .iter()
        .filter(|record| record.metric("request_latency") >= Some(100.0));
    assert_eq!(slow.count(), 4, "the time on the connection that died counts");
    eventually("the requests at the server", || server.requests_seen() == 9);
}
