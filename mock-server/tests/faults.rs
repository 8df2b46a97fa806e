//! Each fault once, as a client sees it and as the ledger tells it.

mod support;

use std::io::ErrorKind;
use std::time::Duration;

use ringload_mock_server::{LedgerEntry, MockServer, Outcome};
use support::{Client, Response, chat, post, start, wait_for};

/// Asks for a stream with `fault`; the answer, if there was one, and the connection.
fn play(server: &MockServer, fault: &str) -> (std::io::Result<Response>, Client) {
    let mut client = Client::connect(server);
    client.send(&chat(true, &format!("x-mock-fault: {fault}\r\n")));
    (client.receive(), client)
}

/// The same where an answer is expected.
fn answer(server: &MockServer, fault: &str) -> (Response, Client) {
    let (response, client) = play(server, fault);
    (response.unwrap_or_else(|error| panic!("{fault}: {error}")), client)
}

fn last(server: &MockServer) -> LedgerEntry {
    server.ledger().pop().expect("an entry")
}

/// Whether another request is answered on the connection.
fn is_kept(client: &mut Client) -> bool {
    client.send("GET /health HTTP/1.1\r\n\r\n");
    client.receive().is_ok_and(|response| response.status == 200)
}

#[test]
fn no_answer_at_all() {
    let server = start(|_| {});
    let (response, _) = play(&server, "reset-before-head");
    assert_eq!(response.expect_err("reset").kind(), ErrorKind::ConnectionReset);
    assert_eq!(
        (last(&server).outcome, last(&server).response_bytes),
        (Outcome::Faulted, 0)
    );
    let (response, _) = play(&server, "close-before-head");
    assert_eq!(response.expect_err("closed").kind(), ErrorKind::UnexpectedEof);
    let (response, client) = play(&server, "garbage");
    assert!(response.is_err(), "{:?}", client.unread());
    assert_eq!(last(&server).fault.as_deref(), Some("garbage"));
    assert_eq!(server.counters().disconnects_before_end, 0);

    let mut client = Client::connect(&server);
    client.send(&chat(false, "x-mock-fault: hang\r\n"));
    client
        .stream
        .set_read_timeout(Some(Duration::from_millis(100)))
        .expect("above zero");
    let error = client.receive().expect_err("no answer");
    assert!(
        matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        "{error}"
    );
    drop(client);
    wait_for("the disconnect", || server.counters().disconnects_before_end == 1);
    let entry = last(&server);
    assert_eq!(
        (entry.outcome, entry.fault.as_deref()),
        (Outcome::Disconnected, Some("hang"))
    );
}

#[test]
fn other_answers() {
    let server = start(|_| {});
    let (response, mut client) = answer(&server, "status:503");
    assert_eq!((response.status, &response.json()["error"]["code"]), (503, &503.into()));
    assert!(is_kept(&mut client));
    let (response, _) = answer(&server, "redirect");
    assert!(response.status == 307 && response.head.contains("location: /v1/"));
    let (response, _) = answer(&server, "gzip");
    assert!(response.head.contains("content-encoding: gzip"));
    assert_eq!(last(&server).outcome, Outcome::Faulted);
    let (response, mut client) = answer(&server, "interim");
    assert_eq!(response.status, 103);
    assert_eq!(client.receive().expect("the answer").tokens().len(), 4);
    let entry = last(&server);
    assert_eq!(entry.outcome, Outcome::Complete);
    assert!(entry.first_byte_ns < entry.first_token_ns);
}

#[test]
fn bodies_that_end_too_early() {
    let server = start(|_| {});
    for (fault, stream, tokens) in [
        ("truncate-stream", true, 2),
        ("truncate-body", true, 2),
        ("truncate-body", false, 0),
    ] {
        let mut client = Client::connect(&server);
        client.send(&chat(stream, &format!("x-mock-fault: {fault}\r\n")));
        let response = client.receive().expect(fault);
        assert!(
            !response.whole && !response.body.contains("[DONE]"),
            "{fault}: {response:?}"
        );
        if stream {
            assert_eq!(response.tokens().len(), tokens, "{fault}");
        }
        client.end().expect("closed, not reset");
        assert_eq!(last(&server).outcome, Outcome::Faulted, "{fault}");
    }
    let (response, mut client) = answer(&server, "reset-mid-stream");
    assert!(!response.whole && response.tokens().len() == 2);
    // The error came in the middle of the body; behind it nothing is left.
    client.end().expect("the socket reports its error once");
    assert_eq!(last(&server).outcome, Outcome::Faulted);
}

#[test]
fn streams_that_stop_without_ending() {
    let server = start(|_| {});
    for tokens in [0, 3] {
        let mut client = Client::connect(&server);
        client.send(&chat(true, &format!("x-mock-fault: stall-after:{tokens}\r\n")));
        client
            .stream
            .set_read_timeout(Some(Duration::from_millis(200)))
            .expect("above zero");
        let response = client.receive().expect("a head");
        assert_eq!(
            (response.status, response.tokens().len(), response.whole),
            (200, tokens, false)
        );
        let stalled = server.counters().disconnects_before_end;
        drop(client);
        wait_for("the disconnect", || {
            server.counters().disconnects_before_end == stalled + 1
        });
        assert_eq!(
            (last(&server).outcome, last(&server).tokens_sent),
            (Outcome::Disconnected, tokens as u32)
        );
    }
}

#[test]
fn streams_with_parts_missing() {
    let server = start(|_| {});
    let case = |fault: &str| {
        let (response, mut client) = answer(&server, fault);
        assert!(response.whole && is_kept(&mut client), "{fault}: {response:?}");
        let parts = ["[DONE]", "\"finish_reason\":\"stop\"", "\"usage\""].map(|part| response.body.contains(part));
        (response.tokens().len(), parts, last(&server).outcome)
    };
    assert_eq!(case("no-done"), (4, [false, true, true], Outcome::Complete));
    assert_eq!(case("no-finish"), (4, [false, false, false], Outcome::Faulted));
    assert_eq!(case("no-usage"), (4, [true, true, false], Outcome::Complete));
    assert_eq!(case("no-content"), (0, [true, true, true], Outcome::Faulted));
    assert_eq!(case("stream-error"), (2, [false, false, false], Outcome::Faulted));
    assert_eq!(case("error-event"), (0, [false, false, false], Outcome::Faulted));
    assert!(answer(&server, "stream-error").0.data()[3].contains(r#""error":{"#));
    assert!(answer(&server, "error-event").0.body.contains("event: error\n"));
}

#[test]
fn correct_answers_in_another_form() {
    let server = start(|_| {});
    let (split, mut client) = answer(&server, "split:7");
    assert!(split.whole && split.tokens().len() == 4 && is_kept(&mut client));
    let (plain, _) = answer(&server, "first:1:hang");
    assert_eq!(split.body, plain.body);

    let (response, mut client) = answer(&server, "close-after");
    assert!(response.whole && response.head.contains("connection: close"));
    client.end().expect("closed in good order");
    let (response, mut client) = answer(&server, "silent-close");
    assert!(response.whole && !response.head.contains("connection"));
    client.end().expect("closed in good order");
    assert!(server.ledger().iter().all(|entry| entry.outcome == Outcome::Complete));
}

#[test]
fn the_servers_own_fault_meets_each_nth_request_that_asks_for_none() {
    let server = start(|options| options.fault = Some("every:3:status:429".parse().expect("valid")));
    let mut client = Client::connect(&server);
    let mut status = |headers: &str| {
        client.send(&chat(true, headers));
        client.receive().expect("an answer").status
    };
    let statuses: Vec<u16> = (0..6).map(|_| status("")).collect();
    assert_eq!(statuses, [200, 200, 429, 200, 200, 429]);
    let own = [status(""), status(""), status("x-mock-fault: no-usage\r\n")];
    assert_eq!(own, [200, 200, 200]);
    assert_eq!(client.get("/health")["status"], "ok");
}

#[test]
fn faults_of_other_routes_and_faults_that_do_not_fit() {
    let server = start(|options| options.fast = true);
    let mut client = Client::connect(&server);
    client.send(&post("/reset_prefix_cache?fault=status:500", "", ""));
    assert_eq!(client.receive().expect("an answer").status, 500);
    assert_eq!(server.counters().reset_prefix_cache, 1);
    client.send(&post("/start_profile", "x-mock-fault: split:5\r\n", ""));
    assert_eq!(client.receive().expect("an answer").json()["success"], true);
    for request in [
        chat(false, "x-mock-fault: no-done\r\n"),
        chat(true, "x-mock-fault: unsuccessful\r\n"),
        post("/start_profile", "x-mock-fault: truncate-stream\r\n", ""),
        "GET /health?fault=unsuccessful HTTP/1.1\r\n\r\n".to_owned(),
    ] {
        client.send(&request);
        let response = client.receive().expect("an answer");
        assert!(
            response.status == 400 && response.body.contains("cannot be played here"),
            "{response:?}"
        );
    }
    // What tells of the server is reached by the headers of the load too, and answers all the same; a query is meant for it.
    for (path, status) in [
        ("/metrics", 200),
        ("/v1/models", 200),
        ("/metrics?fault=status:500", 500),
    ] {
        client.send(&format!("GET {path} HTTP/1.1\r\nx-mock-fault: status:503\r\n\r\n"));
        assert_eq!(client.receive().expect("an answer").status, status, "{path}");
    }
    client.send(&post("/stop_profile?fault=reset-before-head", "", ""));
    assert_eq!(client.receive().expect_err("reset").kind(), ErrorKind::ConnectionReset);
}

#[test]
fn faults_are_played_by_a_fast_server_too() {
    let server = start(|options| options.fast = true);
    assert_eq!(answer(&server, "truncate-stream").0.tokens().len(), 2);
    assert_eq!(answer(&server, "stream-error").0.tokens().len(), 2);
    let (response, mut client) = answer(&server, "interim");
    assert_eq!(
        (response.status, client.receive().expect("the answer").tokens().len()),
        (103, 4)
    );
    let (response, _) = answer(&server, "reset-mid-stream");
    assert!(!response.whole);
    let mut client = Client::connect(&server);
    client.send(&chat(true, "x-mock-fault: stall-after:2\r\n"));
    client
        .stream
        .set_read_timeout(Some(Duration::from_millis(200)))
        .expect("above zero");
    let response = client.receive().expect("a head");
    assert!(!response.whole && response.tokens().len() == 2);
}
