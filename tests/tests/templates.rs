//! Type template: what its user writes is what arrives, and what is measured is where its user says, against the books of a server with an API of its own.

use std::collections::{BTreeMap, BTreeSet};

use ringload_mock_server::{Api, MockServer, Options, Outcome};
use ringload_tests::books::Books;
use ringload_tests::configured::run_speaking;
use ringload_tests::program::Workplace;
use ringload_tests::{Run, mock};
use serde_json::Value;

const BODY: &str = r#"body: '{"p": {{ texts|tojson }}, "n": {{ max_tokens|tojson }}, "stream": {{ stream|tojson }}}'"#;

/// A server that answers with as many tokens as it is asked for, and keeps what it reads.
fn server(change: impl FnOnce(&mut Options)) -> MockServer {
    mock(|options| {
        options.osl = None;
        options.keep_messages = true;
        change(options);
    })
}

/// A run of twelve requests of this template.
fn twelve(server: &MockServer, template: &str, more: &str) -> Run {
    let endpoint = format!("path: /custom, template: {{{template}}}, {more}");
    let sections = "  dataset: {entries: 8, isl: 16, osl: 5}\n  phases:\n    - {name: load, kind: profiling, type: concurrency, concurrency: 2, requests: 12}\n";
    run_speaking(server.address(), &endpoint, sections)
}

#[test]
fn streams_of_an_own_api_are_measured_token_by_token() {
    // Looked for; followed in place; through a tree of the event.
    for field in ["", ", response_field: text", ", response_field: '@ | text'"] {
        let server = server(|_| {});
        let run = twelve(&server, &format!("{BODY}{field}"), "streaming: true");
        let counts = run.counts("load");
        assert_eq!(
            (counts.sent, counts.succeeded),
            (12, 12),
            "{field}: {:?}",
            run.outcome.failure
        );
        for (record, entry) in &Books::complete(&run, &server).matched {
            assert_eq!(
                (entry.api, entry.outcome, entry.tokens_sent),
                (Api::Custom, Outcome::Complete, 5),
                "{field}"
            );
            let messages = entry.messages.as_ref().expect("kept");
            assert_eq!(messages.len(), 1, "{field}");
            assert_eq!(messages[0].content.split(' ').count(), 16, "{field}");
            let list = record.metrics["inter_chunk_latency"]["value"].as_array().map(Vec::len);
            // The event with the counts has an empty text.
            assert_eq!(list, Some(4), "{field}: {record:?}");
            assert_eq!(record.metric("input_sequence_length"), Some(16.0), "{field}");
            assert_eq!(record.metric("output_sequence_length"), Some(5.0), "{field}");
            let server_ttft = entry.first_token_ns.expect("a stream") - entry.receive_complete_ns;
            let ttft = record.metric("time_to_first_token").expect("a stream");
            assert!(
                ttft * 1e6 >= server_ttft as f64,
                "{field}: {record:?} against {entry:?}"
            );
            let server_span = entry.last_token_ns.expect("a stream") - entry.receive_complete_ns;
            let latency = record.metric("request_latency").expect("a success");
            assert!(
                latency * 1e6 >= server_span as f64,
                "{field}: {record:?} against {entry:?}"
            );
        }
        assert_eq!(run.root()["input_config"]["endpoint"]["type"], "template");
    }
}

#[test]
fn a_later_turn_says_itself_alone_in_the_session_of_its_conversation() {
    let server = server(|_| {});
    let endpoint = format!("path: /custom, template: {{{BODY}}}");
    let sections = "  dataset: {entries: 4, isl: 16, osl: 5, turns: 3}\n  phases:\n    - {name: load, kind: profiling, type: concurrency, concurrency: 2, sessions: 4}\n";
    let run = run_speaking(server.address(), &endpoint, sections);
    let counts = run.counts("load");
    assert_eq!((counts.sent, counts.succeeded), (12, 12), "{:?}", run.outcome.failure);
    let mut turns: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (record, entry) in &Books::complete(&run, &server).matched {
        let messages = entry.messages.as_ref().expect("kept");
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert_eq!(messages[0].content.split(' ').count(), 16);
        assert_eq!(record.metric("input_sequence_length"), Some(16.0));
        let session = entry.session.clone().expect("a session header");
        turns.entry(session).or_default().insert(messages[0].content.clone());
    }
    let sizes: Vec<usize> = turns.values().map(BTreeSet::len).collect();
    assert_eq!(sizes, [3; 4], "three different turns in each of four sessions");
}

#[test]
fn whole_answers_are_one_content_with_their_counts() {
    let server = server(|_| {});
    let run = twelve(&server, &format!("{BODY}, response_field: text"), "streaming: false");
    assert_eq!(run.counts("load").succeeded, 12, "{:?}", run.outcome.failure);
    for (record, entry) in &Books::complete(&run, &server).matched {
        assert_eq!((entry.api, entry.tokens_sent), (Api::Custom, 5));
        assert_eq!(record.metric("output_sequence_length"), Some(5.0));
        assert_eq!(record.metric("time_to_first_token"), None);
    }
}

#[test]
fn answers_without_anything_in_their_place_are_failures() {
    for (streaming, part) in [(true, "no token received"), (false, "response has no text")] {
        let server = server(|_| {});
        let template = format!("{BODY}, response_field: words");
        let run = twelve(&server, &template, &format!("streaming: {streaming}"));
        assert_eq!(run.counts("load").failed, 12);
        for record in &run.records {
            let error = record.error.as_ref().expect("it failed");
            assert_eq!(error.kind, "InvalidInferenceResultError", "{record:?}");
            assert!(
                error.message.contains(part) && error.message.contains("endpoint.template"),
                "{}",
                error.message
            );
        }
    }
}

#[test]
fn errors_and_cuts_are_told_as_of_every_api() {
    for (fault, kind) in [
        ("status:503", "Service Unavailable"),
        ("stream-error", "SSEResponseError"),
        ("no-content", "InvalidInferenceResultError"),
        ("truncate-stream", "ClientPayloadError"),
    ] {
        let server = server(|options| options.fault = Some(fault.parse().expect("a fault")));
        let run = twelve(&server, BODY, "streaming: true");
        assert_eq!(run.counts("load").failed, 12, "{fault}");
        for record in &run.records {
            assert_eq!(
                record.error.as_ref().map(|error| error.kind.as_str()),
                Some(kind),
                "{fault}"
            );
        }
    }
    // Nothing is known of the end of such a stream but that of its body.
    let server = server(|options| options.fault = Some("no-finish".parse().expect("a fault")));
    assert_eq!(twelve(&server, BODY, "streaming: true").counts("load").succeeded, 12);
}

#[test]
fn a_command_line_of_the_peer_runs_and_its_artifacts_say_what_was_sent_and_answered() {
    let server = server(|_| {});
    let workplace = Workplace::new("");
    let url = format!("http://{}/custom", server.address());
    let template = r#"payload_template:{"p": {{ text|tojson }}, "n": {{ max_tokens }}}"#;
    let ended = workplace.run(&[
        "profile",
        "--model",
        "m",
        "--url",
        &url,
        "--endpoint-type",
        "template",
        "--extra-inputs",
        template,
        "response_field:text",
        "top_k:3",
        "--isl",
        "6",
        "--osl",
        "4",
        "--request-count",
        "5",
        "--export-level",
        "raw",
        "--ui",
        "none",
        "--artifact-dir",
        "results",
    ]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let ledger = server.ledger();
    assert_eq!(ledger.len(), 5);
    let json = |name: &str| -> Value {
        let text = std::fs::read_to_string(workplace.path("results").join(name))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        serde_json::from_str(&text).expect("JSON")
    };
    let inputs = json("inputs.json");
    let sent: Vec<&Value> = inputs["data"]
        .as_array()
        .expect("sessions")
        .iter()
        .map(|session| &session["payloads"][0])
        .collect();
    for entry in &ledger {
        let said = &entry.messages.as_ref().expect("kept")[0].content;
        let payload = sent
            .iter()
            .find(|payload| payload["p"] == said.as_str())
            .expect("one of the dataset");
        assert_eq!((payload["n"].as_u64(), payload["top_k"].as_u64()), (Some(4), Some(3)));
        assert_eq!(
            (entry.api, entry.tokens_sent, said.split(' ').count()),
            (Api::Custom, 4, 6)
        );
    }
    let outputs = json("outputs.json").to_string();
    assert_eq!(
        outputs.matches(&ringload_mock_server::answer_text(4)).count(),
        5,
        "{outputs}"
    );
}

#[test]
fn a_template_without_a_body_for_some_entry_sends_nothing() {
    let server = server(|_| {});
    let config = format!(
        "benchmark:\n  model: m\n  endpoint:\n    url: http://{}/custom\n    template:\n      body: |\n        {{\"p\": {{{{ text }}}}}}\n  \
         dataset: {{isl: 4}}\n  phases: {{type: concurrency, requests: 2}}\n",
        server.address()
    );
    let workplace = Workplace::new(&config);
    for arguments in [
        &["config", "validate", "test.yaml"][..],
        &["profile", "--config", "test.yaml", "--dry-run"],
        &["profile", "--config", "test.yaml"],
    ] {
        let ended = workplace.run(arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}");
        let text = &ended.stderr;
        assert!(
            text.starts_with("test.yaml:7:9:") && text.contains("the filter tojson") && text.contains("conversation "),
            "{arguments:?}: {text}"
        );
    }
    assert!(server.ledger().is_empty());
}
