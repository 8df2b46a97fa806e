//! Datasets from files end to end: what stands in the file reaches the server, in the order that was asked for, and mistakes name their line.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Arc, Mutex};

use ringload_tests::books::Books;
use ringload_tests::configured;
use ringload_tests::program::{Workplace, config};
use ringload_tests::server::ScriptedServer;
use ringload_tests::{Run, mock};
use serde_json::{Value, json};

/// A server that keeps every body, and what it keeps them in.
fn keeping() -> (ScriptedServer, Arc<Mutex<Vec<Value>>>) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    let server = ScriptedServer::new(move |mut client| {
        while let Some(request) = client.request() {
            let body = serde_json::from_slice(&request.body).expect("a body of JSON");
            keep.lock().expect("no test panics with it").push(body);
            if !client.answer() {
                return;
            }
        }
    });
    (server, kept)
}

fn conversations(run: &Run, phase: &str) -> Vec<String> {
    let mut records = run.records_of(phase);
    records.sort_by_key(|record| record.metadata.session_num);
    records
        .into_iter()
        .map(|record| record.metadata.conversation_id.clone())
        .collect()
}

#[test]
fn texts_of_a_file_reach_the_server_as_they_are_and_are_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("prompts.jsonl");
    let texts = [
        "plain",
        "with \"quotes\", a \\ and a\nline",
        "Zürich 東京 🦀",
        "\u{1}\u{2028}",
    ];
    let lines: String = texts
        .iter()
        .enumerate()
        .map(|(k, text)| {
            format!(
                "{}\n",
                json!({"text": text, "session_id": format!("s{k}"), "output_length": 3 + k})
            )
        })
        .collect();
    fs::write(&path, lines).expect("written");
    let (server, kept) = keeping();
    let run = configured::run(
        server.address(),
        1,
        &format!(
            "  dataset: {{type: file, path: {}}}\n  phases: [{{name: load, kind: profiling, type: concurrency, requests: 4}}]\n",
            path.display()
        ),
    );
    let expected: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(k, text)| {
            json!({
                "messages": [{"role": "user", "content": text}], "model": "mock-model", "stream": true,
                "max_completion_tokens": 3 + k, "stream_options": {"include_usage": true},
            })
        })
        .collect();
    assert_eq!(*kept.lock().expect("no thread panicked"), expected);
    assert_eq!(conversations(&run, "load"), ["s0", "s1", "s2", "s3"]);
    let listed = run.json("inputs.json");
    for (k, body) in expected.iter().enumerate() {
        assert_eq!(listed["data"][k]["session_id"], format!("s{k}"));
        assert_eq!(listed["data"][k]["payloads"][0], *body);
    }
    // Nothing here counts the tokens of a text, and no figure is made up.
    assert!(run.root().get("input_sequence_length").is_none());
}

#[test]
fn blocks_of_a_trace_are_shared_to_the_byte_and_have_the_recorded_length() {
    let (server, kept) = keeping();
    let run = configured::run(
        server.address(),
        1,
        "  dataset:\n    type: file\n    format: mooncake_trace\n    block_size: 16\n    records:\n      - {input_length: 40, hash_ids: [1, 2, 3], \
         output_length: 5}\n      - {input_length: 33, hash_ids: [1, 2, 9]}\n      - {input_length: 12}\n  phases: [{name: load, kind: profiling, \
         type: concurrency, requests: 3}]\n",
    );
    let kept = kept.lock().expect("no thread panicked");
    let words: Vec<Vec<&str>> = kept
        .iter()
        .map(|body| {
            body["messages"][0]["content"]
                .as_str()
                .expect("a text")
                .split(' ')
                .collect()
        })
        .collect();
    assert_eq!(words.iter().map(Vec::len).collect::<Vec<_>>(), [40, 33, 12]);
    assert_eq!(words[0][..32], words[1][..32]);
    assert_ne!(words[0][32], words[1][32]);
    assert_eq!(
        (&kept[0]["max_completion_tokens"], kept[1].get("max_completion_tokens")),
        (&json!(5), None)
    );
    assert_eq!(run.root()["total_isl"]["avg"], 85.0);
}

#[test]
fn a_shuffle_goes_on_over_phases_and_takes_each_entry_once_per_pass() {
    let records: String = (0..10)
        .map(|k| format!("      - {{text: x, session_id: s{k}}}\n"))
        .collect();
    let sections = |sampling: &str, seed: u64| {
        format!(
            "  dataset:\n    type: file\n    sampling: {sampling}\n    random_seed: {seed}\n    records:\n{records}  phases:\n    - {{name: first, kind: \
             profiling, type: concurrency, requests: 7}}\n    - {{name: second, kind: profiling, type: concurrency, requests: 13}}\n"
        )
    };
    let taken = |sampling: &str, seed: u64, cores: u16| {
        let server = mock(|_| {});
        let run = configured::run(server.address(), cores, &sections(sampling, seed));
        Books::complete(&run, &server);
        [conversations(&run, "first"), conversations(&run, "second")].concat()
    };
    let shuffled = taken("shuffle", 3, 1);
    for pass in shuffled.chunks(10) {
        assert_eq!(pass.iter().collect::<BTreeSet<_>>().len(), 10, "{shuffled:?}");
    }
    assert_ne!(shuffled[..10], shuffled[10..]);
    assert_eq!(taken("shuffle", 3, 2), shuffled, "the number of cores changes nothing");
    assert_ne!(taken("shuffle", 4, 1), shuffled);
    let drawn = taken("random", 3, 1);
    assert!(
        drawn[..10].iter().collect::<BTreeSet<_>>().len() < 10,
        "draws with replacement: {drawn:?}"
    );
    let ordered: Vec<String> = (0..20).map(|k| format!("s{}", k % 10)).collect();
    assert_eq!(taken("sequential", 3, 1), ordered);
}

#[test]
fn a_relative_path_starts_at_the_current_directory_and_mistakes_name_their_line() {
    let server = mock(|_| {});
    let url = format!("http://{}", server.address());
    let phases = "    - {name: load, kind: profiling, type: concurrency, requests: 2}\n";
    let synthetic = "    type: synthetic\n    entries: 8\n    prompts: {isl: 16, osl: 4}\n";
    let text = config(&url, phases).replace(synthetic, "    {type: file, path: prompts.jsonl}\n");
    assert!(text.contains("prompts.jsonl"), "{text}");
    let place = Workplace::new(&text);
    let missing = place.run(&["config", "validate", "test.yaml"]).expect(2);
    assert!(
        missing
            .stderr
            .contains("benchmark.dataset.path: prompts.jsonl: cannot read the file"),
        "{}",
        missing.stderr
    );

    fs::write(
        place.path("prompts.jsonl"),
        "{\"text\": \"a\"}\n{\"txt\": \"b\"}\n{\"text\": 1}\n",
    )
    .expect("written");
    let refused = place.profile(&[]).expect(2);
    for line in [
        "prompts.jsonl:2:1: found no \"text\"",
        "prompts.jsonl:3:10: text: found `1`; allowed: text",
    ] {
        assert!(refused.stderr.contains(line), "{line} is not in {}", refused.stderr);
    }
    assert_eq!(
        server.counters().requests,
        0,
        "nothing is sent before every record is right"
    );

    fs::write(place.path("prompts.jsonl"), "{\"text\": \"a\"}\n{\"text\": \"b\"}\n").expect("written");
    place.profile(&[]).expect(0);
    assert_eq!(place.root()["request_count"]["avg"], 2.0);
}

#[test]
fn a_file_in_another_format_is_one_mistake_that_names_the_way_out() {
    let phases = "    - {name: load, kind: profiling, type: concurrency, requests: 2}\n";
    let synthetic = "    type: synthetic\n    entries: 8\n    prompts: {isl: 16, osl: 4}\n";
    let config = config("http://127.0.0.1:1", phases);
    let of_file = |keys: &str| config.replace(synthetic, &format!("    {{type: file, path: prompts.jsonl{keys}}}\n"));
    let place = Workplace::new(&of_file(""));
    fs::write(
        place.path("prompts.jsonl"),
        "{\"turns\": [{\"text\": \"a\"}]}\n".repeat(30),
    )
    .expect("written");
    let found = "prompts.jsonl:1:1: found no \"text\"; a record with \"turns\" is of format multi_turn; all 30 records fail like this one";
    let way_out = |word: &str| format!("{found}: correct them, or set {word} to what they are\n");
    let told = |place: &Workplace, flags: &[&str]| {
        let stderr = place.profile(flags).expect(2).stderr;
        stderr.lines().next().unwrap_or_default().to_owned() + "\n"
    };
    let expected = format!(": benchmark.dataset.format: {}", way_out("`format`"));
    assert!(told(&place, &[]).ends_with(&expected), "{}", told(&place, &[]));
    let expected = format!("--custom-dataset-type: {}", way_out("--custom-dataset-type"));
    assert_eq!(told(&place, &["--custom-dataset-type", "single_turn"]), expected);
    let flags = ["profile", "--model", "m", "--input-file", "prompts.jsonl", "--dry-run"];
    let ended = place.run(&flags).expect(2);
    assert_eq!(
        ended.stderr,
        format!("--input-file: {}", way_out("--custom-dataset-type"))
    );
    let ended = place.run(&[&flags[..], &["--custom-dataset-type", "multi_turn"]].concat());
    ended.expect(0);
    // A field of the records is told as one, though a flag has the same word, and its place with it.
    fs::write(
        place.path("trace.jsonl"),
        "{\"input_length\": 5, \"hash_ids\": [1, 2]}\n".repeat(3),
    )
    .expect("written");
    let flags = [
        "profile",
        "--model",
        "m",
        "--input-file",
        "trace.jsonl",
        "--custom-dataset-type",
        "mooncake_trace",
        "--isl-block-size",
        "16",
        "--dry-run",
    ];
    let stderr = place.run(&flags).expect(2).stderr;
    let found = "trace.jsonl:1:33: hash_ids: found 2 blocks for input_length 5; with blocks of 16 tokens it takes 1; set the block size";
    assert!(stderr.contains(found), "{stderr}");
    // The same of records that stand in the config.
    let inline = config.replace(synthetic, "    {type: file, records: [{turns: []}, {turns: []}]}\n");
    fs::write(place.path("test.yaml"), inline).expect("written");
    let expected = "benchmark.dataset.format: records[0]: found no \"text\"; a record with \"turns\" is of format multi_turn; all 2 records fail like \
                    this one: correct them, or set `format` to what they are\n";
    assert!(told(&place, &[]).ends_with(expected), "{}", told(&place, &[]));
}

#[test]
fn a_conversation_of_a_file_is_told_with_its_history_and_its_system_message() {
    let (server, kept) = keeping();
    let run = configured::run(
        server.address(),
        1,
        "  dataset:\n    type: file\n    format: multi_turn\n    records:\n      - session_id: talk\n        turns: [{role: system, text: be brief}, {text: a, \
         output_length: 2}, {text: b}, {text: c, role: tool}]\n  phases: [{name: load, kind: profiling, type: concurrency, sessions: 1}]\n",
    );
    let messages: Vec<Value> = kept
        .lock()
        .expect("no thread panicked")
        .iter()
        .map(|body| body["messages"].clone())
        .collect();
    let say = |role: &str, content: &str| json!({"role": role, "content": content});
    let mut history = vec![say("system", "be brief"), say("user", "a")];
    let first = json!(history.clone());
    history.extend([say("assistant", "yes"), say("user", "b")]);
    let second = json!(history.clone());
    history.extend([say("assistant", "yes"), say("tool", "c")]);
    assert_eq!(messages, [first, second, json!(history)]);
    let turns: Vec<(String, u64)> = {
        let mut records = run.records_of("load");
        records.sort_by_key(|record| record.metadata.turn_index);
        records
            .into_iter()
            .map(|record| (record.metadata.conversation_id.clone(), record.metadata.turn_index))
            .collect()
    };
    assert_eq!(turns, [0, 1, 2].map(|turn| ("talk".to_owned(), turn)));
}

#[test]
fn records_of_a_session_that_say_everything_themselves_carry_no_history() {
    let (server, kept) = keeping();
    configured::run(
        server.address(),
        1,
        "  dataset:\n    type: file\n    records: [{text: a, session_id: s}, {text: b, session_id: s}]\n  phases: [{name: load, kind: profiling, type: \
         concurrency, sessions: 1}]\n",
    );
    let kept = kept.lock().expect("no thread panicked");
    let contents: Vec<&Value> = kept.iter().map(|body| &body["messages"]).collect();
    assert_eq!(
        contents,
        [
            &json!([{"role": "user", "content": "a"}]),
            &json!([{"role": "user", "content": "b"}])
        ]
    );
}

#[test]
fn a_shuffle_of_conversations_takes_each_once_per_pass() {
    let records: String = (0..6)
        .map(|k| format!("      - {{session_id: s{k}, turns: [{{text: a}}, {{text: b}}]}}\n"))
        .collect();
    for cores in [1, 2] {
        let server = mock(|_| {});
        let run = configured::run(
            server.address(),
            cores,
            &format!(
                "  dataset:\n    type: file\n    format: multi_turn\n    sampling: shuffle\n    records:\n{records}  phases:\n    - {{name: load, kind: \
                 profiling, type: concurrency, concurrency: 2, sessions: 6}}\n"
            ),
        );
        let mut taken: Vec<(String, u64)> = run
            .records_of("load")
            .into_iter()
            .map(|record| (record.metadata.conversation_id.clone(), record.metadata.turn_index))
            .collect();
        taken.sort();
        let each: Vec<(String, u64)> = (0..6)
            .flat_map(|k| [(format!("s{k}"), 0), (format!("s{k}"), 1)])
            .collect();
        assert_eq!(taken, each, "{cores} cores");
    }
}
