//! Whatever a server does, a request ends as what it was, the run goes on, and no slot is lost.

use std::collections::HashSet;
use std::time::Duration;

use ringload_tests::books::Books;
use ringload_tests::server::{Fickle, ScriptedServer, faulty, nobody};
use ringload_tests::{Ending, Phase, Record, Run, Scenario, eventually, mock};

/// A request timeout that no answer needs.
const PATIENT: Duration = Duration::from_secs(30);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Class and code of a failure, and a part of its message.
type Failure<'a> = (&'a str, Option<u16>, &'a str);

fn assert_failed(record: &Record, (kind, code, message): Failure<'_>) {
    assert_eq!(record.ending(), Ending::Failed, "{record:?}");
    let error = record.error.as_ref().expect("a failed request has an error");
    assert_eq!((error.kind.as_str(), error.code), (kind, code), "{record:?}");
    assert!(error.message.contains(message), "{message:?} is not in {record:?}");
}

/// Every request meets the fault: each fails alike, the phase ends, and a run without success has failed.
fn all_fail(fault: &str, timeout: Duration, expected: Failure<'_>) {
    let server = faulty(fault);
    let run = Scenario::new(server.address())
        .request_timeout(timeout)
        .cores(2)
        .phase(Phase::closed("load", 3).requests(12))
        .run();
    assert_eq!(run.counts("load").failed, 12, "{fault}");
    run.records.iter().for_each(|record| assert_failed(record, expected));
    assert_eq!(Books::complete(&run, &server).matched.len(), 12, "{fault}");
    assert_eq!(run.summary("load")["ringload"]["resent_request_count"], 0, "{fault}");
    let failure = run.outcome.failure.as_deref().expect("nothing succeeded");
    assert!(
        failure.contains("12 failed") && failure.contains(expected.0),
        "{failure}"
    );
    let errors = run.root()["error_summary"].clone();
    assert_eq!(errors.as_array().map(Vec::len), Some(1), "{errors}");
    assert_eq!(errors[0]["count"], 12, "{errors}");
}

/// Every second request meets the fault: half fail, the others are what they would have been, and the slots suffice to the end.
fn half_fail(fault: &str, timeout: Duration, expected: Failure<'_>) {
    let server = faulty(&format!("every:2:{fault}"));
    let run = Scenario::new(server.address())
        .request_timeout(timeout)
        .phase(Phase::closed("load", 12).requests(40))
        .phase(Phase::closed("next", 12).requests(8))
        .run();
    let counts = run.counts("load");
    assert_eq!((counts.succeeded, counts.failed), (20, 20), "{fault}");
    assert_eq!(run.counts("next").sent, 8, "{fault}");
    assert_eq!(run.outcome.failure, None, "{fault}");
    for record in run.records.iter().filter(|record| record.ending() == Ending::Failed) {
        assert_failed(record, expected);
    }
    assert_eq!(Books::complete(&run, &server).matched.len(), 48, "{fault}");
    // Latency metrics share one rule: successes only.
    for metric in ["request_latency", "time_to_first_token", "output_sequence_length"] {
        assert_eq!(run.summary("load")[metric]["count"], 20, "{fault}: {metric}");
    }
    assert_eq!(run.summary("load")["request_error_rate"]["avg"], 50.0, "{fault}");
}

fn fails(fault: &str, expected: Failure<'_>) {
    all_fail(fault, PATIENT, expected);
    half_fail(fault, PATIENT, expected);
}

/// Every request meets the fault, which only varies the form of the answer.
fn all_succeed(fault: &str) -> (Run, u64) {
    let server = faulty(fault);
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("load", 3).requests(24))
        .run();
    assert_eq!(run.counts("load").succeeded, 24, "{fault}");
    assert_eq!(Books::complete(&run, &server).matched.len(), 24, "{fault}");
    assert_eq!(run.outcome.failure, None, "{fault}");
    let connections = server.counters().connections;
    (run, connections)
}

#[test]
fn an_error_status_is_recorded_with_its_text() {
    for (code, reason) in [
        (400, "Bad Request"),
        (404, "Not Found"),
        (413, "Content Too Large"),
        (429, "Too Many Requests"),
        (500, "Internal Server Error"),
        (503, "Service Unavailable"),
    ] {
        fails(&format!("status:{code}"), (reason, Some(code), "scripted fault"));
    }
}

#[test]
fn a_redirect_is_an_error_that_shows_where_to() {
    fails(
        "redirect",
        ("Temporary Redirect", Some(307), "/v1/chat/completions?moved"),
    );
}

#[test]
fn a_connection_that_ends_before_the_answer_fails_its_request() {
    // Not also for every second request: on a connection that was used before, the request would be sent once more.
    all_fail("reset-before-head", PATIENT, ("ConnectionResetError", None, "reset"));
    all_fail(
        "close-before-head",
        PATIENT,
        ("ServerDisconnectedError", None, "before a complete response head"),
    );
}

#[test]
fn an_answer_that_breaks_off_fails_its_request() {
    fails("truncate-body", ("ClientPayloadError", None, "incomplete body"));
    fails("truncate-stream", ("ClientPayloadError", None, "incomplete body"));
    fails("reset-mid-stream", ("ConnectionResetError", None, "reset"));
}

#[test]
fn bytes_that_are_not_http_fail_their_request() {
    fails("garbage", ("MalformedResponseError", None, "not HTTP"));
}

#[test]
fn a_request_that_gets_no_end_times_out() {
    for fault in ["hang", "stall-after:2"] {
        let expected = ("RequestTimeoutError", None, "request timeout");
        all_fail(fault, ms(300), expected);
        // Long enough for those that are answered, on a busy machine too.
        half_fail(fault, ms(1_000), expected);
    }
}

#[test]
fn a_timeout_strikes_at_its_time() {
    let server = faulty("hang");
    let run = Scenario::new(server.address())
        .request_timeout(ms(300))
        .phase(Phase::closed("load", 4).requests(8))
        .run();
    for record in &run.records {
        let lasted = record.metadata.request_end_ns - record.metadata.credit_issued_ns;
        assert!(
            (300_000_000..1_300_000_000).contains(&lasted),
            "{lasted} ns: {record:?}"
        );
    }
}

#[test]
fn a_stream_without_a_finish_reason_and_without_done_is_truncated() {
    fails("no-finish", ("TruncatedStreamError", None, "finish"));
}

#[test]
fn s63_an_error_inside_a_stream_fails_its_request_with_the_servers_code() {
    fails("stream-error", ("SSEResponseError", Some(500), "scripted fault"));
    fails("error-event", ("SSEResponseError", Some(502), "scripted fault"));
}

#[test]
fn a_stream_without_a_token_fails_its_request() {
    fails("no-content", ("InvalidInferenceResultError", None, ""));
}

#[test]
fn a_content_coding_that_nobody_asked_for_fails_its_request() {
    fails("gzip", ("ContentEncodingError", None, "gzip"));
}

#[test]
fn a_finish_reason_without_done_is_a_success_that_is_flagged() {
    let (run, _) = all_succeed("no-done");
    assert_eq!(run.summary("load")["ringload"]["missing_done_count"], 24);
    let (run, _) = all_succeed("split:9");
    assert_eq!(run.summary("load")["ringload"]["missing_done_count"], 0);
}

#[test]
fn an_answer_in_single_bytes_is_the_same_answer() {
    let (run, _) = all_succeed("split:1");
    for record in &run.records {
        assert_eq!(record.metric("output_sequence_length"), Some(4.0));
        assert_eq!(record.gaps_ns().len(), 3, "4 tokens have 3 gaps: {record:?}");
    }
}

#[test]
fn a_server_that_closes_after_each_answer_gets_a_connection_for_each() {
    let (run, connections) = all_succeed("close-after");
    assert_eq!(connections, 24);
    for record in &run.records {
        assert_eq!(record.metric("http_req_connection_reused"), Some(0.0));
    }
    assert_eq!(run.summary("load")["ringload"]["resent_request_count"], 0);
}

#[test]
fn an_interim_head_is_not_the_answer() {
    let (run, connections) = all_succeed("interim");
    assert_eq!(connections, 3);
    for record in &run.records {
        assert_eq!(record.metric("output_sequence_length"), Some(4.0));
        let first_token = record.metric("time_to_first_token").expect("a stream");
        assert!(
            first_token >= 2.0,
            "the interim head comes at once, the first token after 2 ms: {first_token}"
        );
    }
}

#[test]
fn without_usage_there_is_no_output_length() {
    let (run, _) = all_succeed("no-usage");
    for record in &run.records {
        for absent in [
            "output_sequence_length",
            "usage_completion_tokens",
            "inter_token_latency",
        ] {
            assert_eq!(record.metric(absent), None, "{absent}");
        }
        assert_eq!(record.gaps_ns().len(), 3);
    }
    let summary = run.summary("load");
    for absent in [
        "output_sequence_length",
        "output_token_throughput",
        "inter_token_latency",
    ] {
        assert!(summary.get(absent).is_none(), "{absent}");
    }
    assert_eq!(summary["time_to_first_token"]["count"], 24);
}

#[test]
fn faults_of_whole_answers_are_told_apart_too() {
    for (fault, expected) in [
        ("truncate-body", ("ClientPayloadError", None, "incomplete body")),
        ("gzip", ("ContentEncodingError", None, "gzip")),
        ("status:503", ("Service Unavailable", Some(503), "scripted fault")),
    ] {
        let server = faulty(fault);
        let run = Scenario::new(server.address())
            .whole_answers()
            .phase(Phase::closed("load", 3).requests(9))
            .run();
        assert_eq!(run.counts("load").failed, 9, "{fault}");
        run.records.iter().for_each(|record| assert_failed(record, expected));
        Books::complete(&run, &server);
    }
}

#[test]
fn a_close_behind_each_answer_loses_and_doubles_nothing() {
    // Whether the close is seen before the next request is a race: either way each request is answered once.
    let (run, _) = all_succeed("silent-close");
    let resent = run.summary("load")["ringload"]["resent_request_count"].as_u64();
    assert!(resent.expect("a count") <= 24);
}

#[test]
fn a_request_that_meets_the_end_of_a_kept_connection_is_sent_once_more_and_counted() {
    for manner in [Fickle::Close, Fickle::Reset] {
        let server = ScriptedServer::fickle(manner);
        let run = Scenario::new(server.address())
            .whole_answers()
            .phase(Phase::closed("load", 1).requests(10))
            .run();
        // The first goes over a fresh connection, each other one dies on the connection of the one before.
        assert_eq!(run.counts("load").succeeded, 10, "{manner:?}");
        let summary = run.summary("load");
        assert_eq!(summary["ringload"]["resent_request_count"], 9, "{manner:?}");
        assert_eq!(summary["request_count"]["avg"], 10.0, "{manner:?}");
        let by_core = run.root()["ringload"]["cores"][0]["resends"].clone();
        assert_eq!(by_core, 9, "{manner:?}");
        assert_eq!(server.requests_seen(), 19, "{manner:?}");
    }
}

#[test]
fn a_request_whose_answer_has_begun_is_not_sent_again() {
    let server = ScriptedServer::fickle(Fickle::HalfAnswer);
    let run = Scenario::new(server.address())
        .whole_answers()
        .phase(Phase::closed("load", 1).requests(10))
        .run();
    assert_eq!((run.counts("load").succeeded, run.counts("load").failed), (5, 5));
    assert_eq!(run.summary("load")["ringload"]["resent_request_count"], 0);
    for record in run.records.iter().filter(|record| record.ending() == Ending::Failed) {
        assert_failed(record, ("ServerDisconnectedError", None, ""));
    }
}

#[test]
fn a_server_that_is_not_there_is_asked_steadily_and_the_run_ends_on_time() {
    let run = Scenario::new(nobody())
        .cores(2)
        .phase(Phase::closed("load", 8).lasting(ms(500)))
        .phase(Phase::constant("open", 100.0).requests(20))
        .run();
    let counts = run.counts("load");
    assert_eq!(counts.sent, counts.failed);
    // One start per core each half millisecond, and the first wave.
    assert!((10..=2 * 1_100 + 8).contains(&counts.sent), "{} attempts", counts.sent);
    assert_eq!(run.counts("open").failed, 20);
    for record in &run.records {
        assert_failed(record, ("ConnectionRefusedError", None, "refused"));
    }
    let phase = run.phase("load");
    let lasted = phase.end_ns.expect("it ended") - phase.start_ns;
    assert!((500_000_000..4_000_000_000).contains(&lasted), "{lasted} ns");
    assert!(
        run.outcome
            .failure
            .as_deref()
            .is_some_and(|reason| reason.contains("refused"))
    );
    assert!(run.root().get("request_latency").is_none());
}

#[test]
fn a_server_that_stops_in_the_middle_ends_requests_but_not_the_run() {
    // An address of its own: once the server has gone, no other test's server takes its port.
    let server = mock(|options| {
        options.host = "127.77.0.2".to_owned();
        options.ttft = ms(20);
    });
    let running = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("load", 8).lasting(ms(1_200)))
        .phase(Phase::closed("after", 2).requests(4))
        .start();
    eventually("some load", || server.counters().requests >= 24);
    drop(server);
    let run = running.finish();
    let counts = run.counts("load");
    assert!(counts.succeeded >= 8 && counts.failed > 8, "{counts:?}");
    assert_eq!(run.counts("after").failed, 4);
    assert_eq!(run.outcome.failure, None, "some requests succeeded");
    let kinds: HashSet<&str> = run
        .records
        .iter()
        .filter_map(|record| record.error.as_ref())
        .map(|error| error.kind.as_str())
        .collect();
    assert!(kinds.contains("ConnectionRefusedError"), "{kinds:?}");
    let phase = run.phase("load");
    assert!(phase.end_ns.expect("it ended") < phase.start_ns + 5_000_000_000);
}
