//! APIs beside chat completions: what is sent, what is measured, and what goes wrong, against the books of a server that reads them on its own.

use std::time::Duration;

use ringload_mock_server::{Api, MockServer, Options, Outcome};
use ringload_tests::books::Books;
use ringload_tests::configured::run_speaking;
use ringload_tests::sessions::sessions;
use ringload_tests::{Ending, Record, Run, mock};
use serde_json::Value;

/// The APIs whose answers are made of tokens, by their words in configs.
const WITH_TOKENS: [(&str, Api); 4] = [
    ("chat", Api::Chat),
    ("completions", Api::Completions),
    ("responses", Api::Responses),
    ("messages", Api::Messages),
];

/// The others.
const WITHOUT_TOKENS: [(&str, Api); 4] = [
    ("embeddings", Api::Embeddings),
    ("cohere_rankings", Api::CohereRankings),
    ("hf_tei_rankings", Api::TeiRankings),
    ("nim_rankings", Api::NimRankings),
];

const DATASET: &str = "  dataset: {entries: 8, isl: 16, osl: 5}\n";

/// A server that answers with as many tokens as it is asked for, and keeps what it reads.
fn server(change: impl FnOnce(&mut Options)) -> MockServer {
    mock(|options| {
        options.osl = None;
        options.keep_messages = true;
        change(options);
    })
}

/// A closed loop of so many requests.
fn requests(count: u32) -> String {
    format!("  phases:\n    - {{name: load, kind: profiling, type: concurrency, concurrency: 2, requests: {count}}}\n")
}

/// A run of twelve requests of this type.
fn twelve(server: &MockServer, kind: &str, streaming: bool) -> Run {
    let endpoint = format!("type: {kind}, streaming: {streaming}");
    run_speaking(server.address(), &endpoint, &format!("{DATASET}{}", requests(12)))
}

fn assert_all_succeed(run: &Run, requests: u64) {
    let counts = run.counts("load");
    assert_eq!(
        (counts.sent, counts.succeeded),
        (requests, requests),
        "{:?}",
        run.outcome.failure
    );
}

fn average(document: &Value, tag: &str) -> Option<f64> {
    document[tag]["avg"].as_f64()
}

#[test]
fn streams_of_every_api_are_measured_token_by_token() {
    for (kind, api) in WITH_TOKENS {
        let server = server(|_| {});
        let run = twelve(&server, kind, true);
        assert_all_succeed(&run, 12);
        let books = Books::complete(&run, &server);
        for (record, entry) in &books.matched {
            assert_eq!(
                (entry.api, entry.outcome, entry.tokens_sent),
                (api, Outcome::Complete, 5),
                "{kind}"
            );
            // The whole of a text at the end of a response is one content more.
            let gaps = if api == Api::Responses { 5 } else { 4 };
            let list = record.metrics["inter_chunk_latency"]["value"].as_array().map(Vec::len);
            assert_eq!(list, Some(gaps), "{kind}: {record:?}");
            assert_eq!(record.metric("input_sequence_length"), Some(16.0), "{kind}");
            assert_eq!(record.metric("output_sequence_length"), Some(5.0), "{kind}");
            let prompt = entry.prompt_words as f64;
            assert_eq!(record.metric("usage_prompt_tokens"), Some(prompt), "{kind}");
            // The server's instants are just before its writes, so the client's cannot be earlier.
            let server_ttft = entry.first_token_ns.expect("a stream") - entry.receive_complete_ns;
            let ttft = record.metric("time_to_first_token").expect("a stream");
            assert!(ttft * 1e6 >= server_ttft as f64, "{kind}: {record:?} against {entry:?}");
            let server_span = entry.last_token_ns.expect("a stream") - entry.receive_complete_ns;
            let latency = record.metric("request_latency").expect("a success");
            assert!(
                latency * 1e6 >= server_span as f64,
                "{kind}: {record:?} against {entry:?}"
            );
        }
        let root = run.root();
        assert_eq!(average(&root, "output_sequence_length"), Some(5.0), "{kind}");
        // The messages API has no total of its own, and none is made up for it.
        assert_eq!(root.get("usage_total_tokens").is_some(), api != Api::Messages, "{kind}");
        assert_eq!(run.outcome.failure, None, "{kind}");
        assert_eq!(
            root["ringload"]["missing_done_count"].as_u64().unwrap_or(0),
            0,
            "{kind}"
        );
    }
}

#[test]
fn whole_answers_of_every_api_are_one_content_with_their_counts() {
    for (kind, api) in WITH_TOKENS {
        let server = server(|_| {});
        let run = twelve(&server, kind, false);
        assert_all_succeed(&run, 12);
        for (record, entry) in &Books::complete(&run, &server).matched {
            assert_eq!((entry.api, entry.tokens_sent), (api, 5), "{kind}");
            assert_eq!(record.metric("output_sequence_length"), Some(5.0), "{kind}");
            assert_eq!(record.metric("time_to_first_token"), None, "{kind}");
        }
    }
}

#[test]
fn answers_without_tokens_have_no_figures_of_tokens() {
    for (kind, api) in WITHOUT_TOKENS {
        let server = server(|_| {});
        // A wish for streams that cannot be granted is one line, and no stream.
        let run = twelve(&server, kind, true);
        assert_all_succeed(&run, 12);
        let said: Vec<&String> = run
            .plan
            .warnings
            .iter()
            .filter(|line| line.contains("streaming"))
            .collect();
        assert_eq!(said.len(), 1, "{kind}: {:?}", run.plan.warnings);
        assert!(said[0].contains(kind) && !run.plan.endpoint.streaming, "{said:?}");
        for (record, entry) in &Books::complete(&run, &server).matched {
            assert_eq!(
                (entry.api, entry.outcome, entry.tokens_sent),
                (api, Outcome::Complete, 0),
                "{kind}"
            );
            assert!(record.metrics.contains_key("request_latency"), "{kind}");
        }
        let root = run.root();
        let keys: Vec<&String> = root.as_object().expect("an object").keys().collect();
        for word in [
            "token",
            "osl",
            "output_sequence",
            "usage",
            "inter_chunk",
            "decode",
            "prefill",
        ] {
            let found: Vec<_> = keys.iter().filter(|key| key.contains(word)).collect();
            // What is known of an input is its length, and the rate at which it went out.
            let of_input = |key: &&&&String| key.as_str() == "input_token_throughput";
            let others = found.iter().filter(|key| !of_input(key)).count();
            assert_eq!(others, 0, "{kind}: {found:?}");
        }
        // Embeddings have one text whose length is known; what a ranking's query and passages come to is not said, as with the peer.
        let isl = (api == Api::Embeddings).then_some(16.0);
        assert_eq!(average(&root, "input_sequence_length"), isl, "{kind}");
        assert_eq!(root.get("input_token_throughput").is_some(), isl.is_some(), "{kind}");
    }
}

#[test]
fn rankings_have_the_passages_that_the_dataset_says() {
    for (kind, _) in &WITHOUT_TOKENS[1..] {
        let server = server(|_| {});
        let dataset = "  dataset: {entries: 6, rankings: {passages: {mean: 4, stddev: 1}, passage_tokens: 20, query_tokens: 7}}\n";
        let run = run_speaking(
            server.address(),
            &format!("type: {kind}"),
            &format!("{dataset}{}", requests(6)),
        );
        assert_all_succeed(&run, 6);
        for (_, entry) in &Books::complete(&run, &server).matched {
            let messages = entry.messages.as_ref().expect("the server keeps them");
            let words = |text: &str| text.split(' ').count();
            assert_eq!(
                (messages[0].role.as_str(), words(&messages[0].content)),
                ("query", 7),
                "{kind}"
            );
            let passages = &messages[1..];
            assert!((1..=9).contains(&passages.len()), "{kind}: {}", passages.len());
            assert!(passages.iter().all(|passage| words(&passage.content) == 20), "{kind}");
        }
    }
}

#[test]
fn rankings_and_embeddings_come_from_files_too() {
    let record = "{texts: [{name: passages, contents: [p one, p two]}, {name: query, contents: [what is it]}]}";
    let dataset = format!("  dataset: {{type: file, records: [{record}]}}\n");
    let server = server(|_| {});
    let run = run_speaking(
        server.address(),
        "type: hf_tei_rankings",
        &format!("{dataset}{}", requests(2)),
    );
    assert_all_succeed(&run, 2);
    let ledger = server.ledger();
    let said: Vec<&str> = ledger[0]
        .messages
        .as_ref()
        .expect("kept")
        .iter()
        .map(|message| message.content.as_str())
        .collect();
    assert_eq!(said, ["what is it", "p one", "p two"]);

    let dataset = "  dataset: {type: file, records: [{texts: [one two, three]}]}\n";
    let run = run_speaking(
        server.address(),
        "type: embeddings",
        &format!("{dataset}{}", requests(2)),
    );
    assert_all_succeed(&run, 2);
    let ledger = server.ledger();
    let said = ledger.last().and_then(|entry| entry.messages.as_ref()).map(Vec::len);
    assert_eq!(said, Some(2), "two texts, two inputs");
}

#[test]
fn sessions_carry_their_history_in_the_form_of_the_api() {
    for (kind, streaming) in [
        ("responses", true),
        ("responses", false),
        ("messages", true),
        ("messages", false),
    ] {
        let server = server(|_| {});
        let dataset = "  dataset: {entries: 4, isl: 12, osl: {mean: 5, stddev: 2}, turns: 3}\n";
        let phase = "  phases:\n    - {name: load, kind: profiling, type: concurrency, concurrency: 2, sessions: 6}\n";
        let endpoint = format!("type: {kind}, streaming: {streaming}");
        let run = run_speaking(server.address(), &endpoint, &format!("{dataset}{phase}"));
        assert_all_succeed(&run, 18);
        let books = Books::complete(&run, &server);
        // Checks that every turn said what was said before it, answers included.
        let sessions = sessions(&run, &books);
        assert!(
            sessions.len() == 6 && sessions.values().all(|session| session.turns.len() == 3),
            "{kind}"
        );
    }
}

#[test]
fn a_system_message_stands_where_the_api_wants_it_in_every_turn() {
    let turns = "turns: [{role: system, text: be brief}, {text: one}, {text: two}]";
    let dataset =
        format!("  dataset: {{type: file, format: multi_turn, osl: 3, records: [{{session_id: s, {turns}}}]}}\n");
    for kind in ["chat", "responses", "messages"] {
        let server = server(|_| {});
        let phase = "  phases:\n    - {name: load, kind: profiling, type: concurrency, concurrency: 1, sessions: 1}\n";
        let run = run_speaking(server.address(), &format!("type: {kind}"), &format!("{dataset}{phase}"));
        assert_all_succeed(&run, 2);
        for entry in server.ledger() {
            let messages = entry.messages.expect("kept");
            assert_eq!(
                (messages[0].role.as_str(), messages[0].content.as_str()),
                ("system", "be brief"),
                "{kind}"
            );
            let systems = messages.iter().filter(|message| message.role == "system").count();
            assert_eq!(systems, 1, "{kind}");
        }
    }
}

/// Every request meets the fault and fails with an error of this type, code and text.
fn all_fail(kind: &str, streaming: bool, fault: &str, expected: (&str, Option<u16>, &str)) {
    let server = server(|options| options.fault = Some(fault.parse().expect("a fault")));
    let run = twelve(&server, kind, streaming);
    assert_eq!(run.counts("load").failed, 12, "{kind}, {fault}");
    for record in &run.records {
        let error = record.error.as_ref().expect("it failed");
        let found = (error.kind.as_str(), error.code);
        assert_eq!(found, (expected.0, expected.1), "{kind}, {fault}: {record:?}");
        assert!(error.message.contains(expected.2), "{kind}, {fault}: {}", error.message);
    }
    assert_eq!(Books::complete(&run, &server).matched.len(), 12, "{kind}, {fault}");
}

#[test]
fn errors_in_streams_are_errors_in_every_api() {
    for (kind, api) in WITH_TOKENS {
        let code = match api {
            // These two name no number.
            Api::Responses | Api::Messages => 502,
            _ => 500,
        };
        all_fail(
            kind,
            true,
            "stream-error",
            ("SSEResponseError", Some(code), "scripted fault"),
        );
        all_fail(
            kind,
            true,
            "error-event",
            ("SSEResponseError", Some(502), "scripted fault"),
        );
        all_fail(
            kind,
            true,
            "no-content",
            ("InvalidInferenceResultError", None, "no token received"),
        );
        all_fail(
            kind,
            true,
            "status:503",
            ("Service Unavailable", Some(503), "scripted fault"),
        );
    }
}

#[test]
fn a_stream_that_ends_too_soon_is_cut_in_every_api() {
    for (kind, api) in WITH_TOKENS {
        let missing = match api {
            Api::Responses => "without response.completed",
            Api::Messages => "without message_stop",
            _ => "without [DONE]",
        };
        all_fail(kind, true, "no-finish", ("TruncatedStreamError", None, missing));
    }
    // The stop reason is there, and its mark of the end is not: a success, and counted.
    for kind in ["completions", "messages"] {
        let server = server(|options| options.fault = Some("no-done".parse().expect("a fault")));
        let run = twelve(&server, kind, true);
        assert_all_succeed(&run, 12);
        assert_eq!(run.summary("load")["ringload"]["missing_done_count"], 12, "{kind}");
    }
}

#[test]
fn failures_of_whole_answers_are_failures_in_every_api() {
    for (kind, _) in WITH_TOKENS.into_iter().chain(WITHOUT_TOKENS) {
        all_fail(
            kind,
            false,
            "status:429",
            ("Too Many Requests", Some(429), "scripted fault"),
        );
        all_fail(kind, false, "truncate-body", ("ClientPayloadError", None, ""));
    }
}

#[test]
fn streams_are_abandoned_midway_in_every_api() {
    for (kind, _) in WITH_TOKENS {
        let server = server(|options| {
            options.ttft = Duration::from_millis(2);
            options.itl = Duration::from_millis(40);
            options.osl = Some(200);
        });
        let phase = "  phases:\n    - {name: load, kind: profiling, type: concurrency, concurrency: 2, requests: 6, \
                     cancellation: {rate: 100, delay: 0.15}}\n";
        let run = run_speaking(
            server.address(),
            &format!("type: {kind}, streaming: true"),
            &format!("{DATASET}{phase}"),
        );
        assert_eq!(run.counts("load").cancelled, 6, "{kind}");
        let cancelled = |record: &&Record| record.ending() == Ending::Cancelled;
        assert_eq!(run.records.iter().filter(cancelled).count(), 6, "{kind}");
        for (record, entry) in &Books::complete(&run, &server).matched {
            assert_eq!(entry.outcome, Outcome::Disconnected, "{kind}");
            let partial = record.ringload.partial_tokens.expect("it had begun");
            assert!(
                partial >= 1 && partial <= u64::from(entry.tokens_sent),
                "{kind}: {partial} of {}",
                entry.tokens_sent
            );
        }
    }
}

#[test]
fn the_key_goes_where_the_api_looks_for_it_in_load_probes_and_hooks() {
    for (kind, api) in WITH_TOKENS {
        let server = server(|options| options.api_key = Some("k-1".to_owned()));
        let endpoint = format!("type: {kind}, api_key: k-1, wait_for_model_timeout: 20, reset_kv_cache: true");
        let run = run_speaking(server.address(), &endpoint, &format!("{DATASET}{}", requests(4)));
        assert_all_succeed(&run, 4);
        let [probe, ..] = &server.ledger()[..] else {
            panic!("a probe and the load")
        };
        assert_eq!(
            (probe.api, probe.outcome),
            (api, Outcome::Complete),
            "{kind}: the probe is answered"
        );
        assert_eq!(server.counters().requests, 5, "{kind}");
        let hook = &server.control_log()[0];
        let (key, version, bearer) = (
            hook.header("x-api-key"),
            hook.header("anthropic-version"),
            hook.header("authorization"),
        );
        let expected = match api {
            Api::Messages => (Some("k-1"), Some("2023-06-01"), None),
            _ => (None, None, Some("Bearer k-1")),
        };
        assert_eq!((key, version, bearer), expected, "{kind}");
        let shown = run.root()["input_config"]["endpoint"]["api_key"].clone();
        assert_ne!(shown, "k-1", "{kind}");
    }
}

#[test]
fn an_own_path_is_asked_in_any_api() {
    // The server knows no such path, and says which it was asked for.
    let server = server(|_| {});
    let run = run_speaking(
        server.address(),
        "type: embeddings, path: /embed",
        &format!("{DATASET}{}", requests(2)),
    );
    let error = run.records[0].error.as_ref().expect("it failed");
    assert_eq!(error.code, Some(404));
    assert!(error.message.contains("/embed"), "{}", error.message);
}

/// The raw records of a run, in the order of its records.
fn raw_records(run: &Run) -> Vec<Value> {
    let text = std::fs::read_to_string(run.path("profile_export_raw.jsonl")).expect("raw records");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect()
}

#[test]
fn raw_records_hold_what_went_over_the_wire() {
    for (kind, api) in WITH_TOKENS.into_iter().chain(WITHOUT_TOKENS) {
        let server = server(|options| options.api_key = Some("k-1".to_owned()));
        let streaming = WITH_TOKENS.contains(&(kind, api));
        let endpoint = format!("type: {kind}, streaming: {streaming}, api_key: k-1");
        let run = run_speaking(
            server.address(),
            &endpoint,
            &format!("{DATASET}  artifacts: {{raw: true}}\n{}", requests(6)),
        );
        assert_all_succeed(&run, 6);
        let (raw, outputs) = (raw_records(&run), run.json("outputs.json"));
        let outputs = outputs["data"].as_array().expect("a list");
        assert_eq!((raw.len(), outputs.len()), (6, 6), "{kind}");
        let text = std::fs::read_to_string(run.path("profile_export_raw.jsonl")).expect("raw records");
        assert!(!text.contains("k-1"), "{kind}: a key stands in the raw records");
        let books = Books::complete(&run, &server);
        for ((record, line), output) in run.records.iter().zip(&raw).zip(outputs) {
            let id = &record.metadata.x_request_id;
            assert_eq!(
                (&line["metadata"]["x_request_id"], &output["x_request_id"]),
                (&Value::from(id.as_str()), &Value::from(id.as_str()))
            );
            assert_eq!(line["request_headers"]["X-Request-ID"], id.as_str(), "{kind}");
            assert_eq!(line["status"], 200, "{kind}");
            let (_, entry) = books
                .matched
                .iter()
                .find(|(matched, _)| matched.metadata.x_request_id == *id)
                .expect("it arrived");
            assert_eq!(line["payload"].to_string().len() as u64, entry.request_bytes, "{kind}");
            let responses = line["responses"].as_array().expect("a list");
            if !streaming {
                assert_eq!(responses.len(), 1, "{kind}");
                assert_eq!(responses[0]["content_type"], "application/json", "{kind}");
                serde_json::from_str::<Value>(responses[0]["text"].as_str().expect("a text")).expect("JSON");
                assert_eq!(output["response_text"], Value::Null, "{kind}");
                continue;
            }
            // Every event that the server of this API sends for five tokens, each with the time of its read.
            let events = match api {
                Api::Chat => 5 + 4,
                Api::Completions => 5 + 3,
                Api::Responses => 5 + 4,
                _ => 5 + 6,
            };
            assert_eq!(responses.len(), events, "{kind}: {line:#}");
            let times: Vec<u64> = responses
                .iter()
                .map(|event| event["perf_ns"].as_u64().expect("a time"))
                .collect();
            assert!(
                times.is_sorted() && times[0] > line["start_perf_ns"].as_u64().expect("a time"),
                "{kind}"
            );
            assert_eq!(output["response_text"], ringload_mock_server::answer_text(5), "{kind}");
            assert_eq!(output["metrics"]["output_sequence_length"], 5, "{kind}");
        }
    }
}

#[test]
fn raw_records_of_later_turns_have_their_history_and_failures_their_error() {
    let server = server(|_| {});
    let dataset = "  dataset: {entries: 3, isl: 12, osl: 4, turns: 3}\n  artifacts: {raw: true}\n";
    let phase = "  phases:\n    - {name: warmup, kind: warmup, type: concurrency, concurrency: 1, sessions: 1}\n    \
                 - {name: load, kind: profiling, type: concurrency, concurrency: 2, sessions: 4}\n";
    let run = run_speaking(
        server.address(),
        "type: responses, streaming: true",
        &format!("{dataset}{phase}"),
    );
    let books = Books::complete(&run, &server);
    let raw = raw_records(&run);
    assert_eq!(raw.len(), 15);
    for line in &raw {
        let id = line["metadata"]["x_request_id"].as_str().expect("an id");
        let (_, entry) = books
            .matched
            .iter()
            .find(|(record, _)| record.metadata.x_request_id == id)
            .expect("it arrived");
        // Byte for byte: the length is that of the body that arrived, and so are its messages.
        assert_eq!(line["payload"].to_string().len() as u64, entry.request_bytes);
        let said = line["payload"]["input"].as_array().expect("a list").len();
        assert_eq!(Some(said), entry.messages.as_ref().map(Vec::len));
    }
    let outputs = run.json("outputs.json");
    let counts = ["data", "warmup"].map(|key| outputs[key].as_array().map(Vec::len));
    assert_eq!(counts, [Some(12), Some(3)]);

    let server = faulty_every_second("stream-error");
    let run = run_speaking(
        server.address(),
        "type: messages, streaming: true",
        &format!("{DATASET}  artifacts: {{raw: true}}\n{}", requests(6)),
    );
    let raw = raw_records(&run);
    for (record, line) in run.records.iter().zip(&raw) {
        let failed = record.ending() == Ending::Failed;
        assert_eq!(line.get("error").is_some(), failed);
        let last = line["responses"]
            .as_array()
            .and_then(|events| events.last())
            .expect("events");
        let name = if failed { "error" } else { "message_stop" };
        assert_eq!(last["packets"][0], serde_json::json!({"name": "event", "value": name}));
    }
}

#[test]
fn texts_of_answers_are_written_without_raw_records_and_raw_records_without_them() {
    for (artifacts, raw, texts) in [
        ("{export_outputs_json: true}", false, true),
        ("{raw: true, export_outputs_json: false}", true, false),
        ("{raw: false}", false, false),
    ] {
        let server = server(|options| options.api_key = Some("k-1".to_owned()));
        let run = run_speaking(
            server.address(),
            "type: chat, streaming: true, api_key: k-1",
            &format!("{DATASET}  artifacts: {artifacts}\n{}", requests(6)),
        );
        assert_all_succeed(&run, 6);
        let is_written = |name: &str| run.path(name).exists();
        assert_eq!(
            (is_written("profile_export_raw.jsonl"), is_written("outputs.json")),
            (raw, texts),
            "{artifacts}"
        );
        if !texts {
            continue;
        }
        let outputs = run.json("outputs.json");
        let (entries, books) = (
            outputs["data"].as_array().expect("a list"),
            Books::complete(&run, &server),
        );
        assert_eq!(entries.len(), books.matched.len());
        for entry in entries {
            assert!(
                books
                    .matched
                    .iter()
                    .any(|(record, _)| entry["x_request_id"] == record.metadata.x_request_id.as_str()),
                "{entry}"
            );
            assert_eq!(entry["response_text"], ringload_mock_server::answer_text(5));
        }
    }
}

fn faulty_every_second(fault: &str) -> MockServer {
    server(|options| options.fault = Some(format!("every:2:{fault}").parse().expect("a fault")))
}
