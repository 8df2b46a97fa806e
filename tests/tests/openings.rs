//! What conversations begin with, end to end: pools, system messages and contexts as the server saw them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use ringload_mock_server::{LedgerEntry, MockServer};
use ringload_tests::books::Books;
use ringload_tests::program::{Workplace, config, phase};
use ringload_tests::server::settled_ledger;
use ringload_tests::{Run, configured, mock};
use serde_json::Value;

/// A quick server that keeps messages.
fn server() -> MockServer {
    mock(|options| {
        options.keep_messages = true;
        options.fast = true;
    })
}

/// Role and text of each message of a request, as it arrived.
fn said(entry: &LedgerEntry) -> Vec<(String, String)> {
    let messages = entry.messages.as_ref().expect("the server keeps messages").iter();
    messages
        .map(|message| (message.role.clone(), message.content.clone()))
        .collect()
}

fn words(text: &str) -> usize {
    text.split(' ').count()
}

/// Runs 24 requests, or as many as these sections say, of a chat.
fn run(server: &MockServer, dataset: &str, stop: &str) -> Run {
    configured::run(
        server.address(),
        2,
        &format!(
            "  dataset: {{entries: 12, isl: 6, osl: 3, {dataset}}}\n  phases: [{{name: load, kind: profiling, type: concurrency, concurrency: 3, {stop}}}]\n"
        ),
    )
}

/// The mean input length that the client reports against the words that the server counted.
fn assert_counts_what_arrived(run: &Run, books: &Books<'_>) {
    for (record, entry) in &books.matched {
        let isl = &record.metrics["input_sequence_length"]["value"];
        assert_eq!(isl.as_f64(), Some(entry.prompt_words as f64), "{record:?}");
    }
    let total: u64 = books.matched.iter().map(|(_, entry)| entry.prompt_words).sum();
    assert_eq!(run.root()["total_isl"]["avg"], total as f64);
}

#[test]
fn requests_share_the_beginnings_of_a_pool_and_nothing_else() {
    let server = server();
    let run = run(&server, "prefix_prompts: {pool_size: 3, length: 5}", "requests: 24");
    let books = Books::complete(&run, &server);
    let mut beginnings: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, entry) in &books.matched {
        let messages = said(entry);
        let [(role, text)] = &messages[..] else {
            panic!("one message expected: {messages:?}")
        };
        assert_eq!((role.as_str(), words(text)), ("user", 5 + 6));
        let words: Vec<&str> = text.split(' ').collect();
        let (beginning, own) = words.split_at(5);
        beginnings.entry(beginning.join(" ")).or_default().insert(own.join(" "));
    }
    assert_eq!(beginnings.len(), 3, "{beginnings:?}");
    // 12 prompts, each behind one beginning only.
    assert_eq!(beginnings.values().map(BTreeSet::len).sum::<usize>(), 12);
    assert_counts_what_arrived(&run, &books);
}

#[test]
fn the_system_message_and_the_context_are_in_the_history_of_every_turn() {
    let server = server();
    let run = run(
        &server,
        "turns: 3, prefix_prompts: {shared_system_length: 7, user_context_length: 4}",
        "sessions: 12",
    );
    let books = Books::complete(&run, &server);
    let mut systems = BTreeSet::new();
    let mut contexts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (record, entry) in &books.matched {
        let messages = said(entry);
        let roles: Vec<&str> = messages.iter().map(|(role, _)| role.as_str()).collect();
        let turn = record.metadata.turn_index as usize;
        let mut expected = vec!["system", "user", "user"];
        expected.extend(["assistant", "user"].iter().cycle().take(2 * turn));
        assert_eq!(roles, expected);
        let counts: Vec<usize> = messages[..3].iter().map(|(_, text)| words(text)).collect();
        assert_eq!(counts, [7, 4, 6]);
        systems.insert(messages[0].1.clone());
        let own = contexts.entry(record.metadata.conversation_id.clone()).or_default();
        own.insert(messages[1].1.clone());
    }
    assert_eq!(systems.len(), 1, "{systems:?}");
    assert!(contexts.values().all(|of_one| of_one.len() == 1), "{contexts:?}");
    let distinct: BTreeSet<&String> = contexts.values().flatten().collect();
    assert_eq!((contexts.len(), distinct.len()), (12, 12));
    assert_counts_what_arrived(&run, &books);
}

#[test]
fn a_system_prompt_of_a_file_is_sent_by_the_program_and_told_in_its_artifacts() {
    let server = server();
    let url = format!("http://{}", server.address());
    let place = Workplace::new(&config(&url, &phase("load", "requests: 4")));
    fs::write(place.path("system.txt"), "Be brief.\nAlways.\n").expect("written");
    place.profile(&["--system-prompt-file", "system.txt"]).expect(0);
    let ledger = settled_ledger(&server, 1);
    assert_eq!(ledger.len(), 4);
    for entry in &ledger {
        let messages = said(entry);
        assert_eq!(messages.len(), 2);
        assert_eq!(messages[0], ("system".to_owned(), "Be brief.\nAlways.\n".to_owned()));
    }
    let root = place.root();
    assert_eq!(root["input_config"]["datasets"][0]["system_prompt_file"], "system.txt");
    let digest = root["ringload"]["system_prompt_sha256"].as_str().expect("a digest");
    assert_eq!(digest.len(), 64);
    assert!(
        root.get("input_sequence_length").is_none(),
        "nothing counts the tokens of a text"
    );
    let inputs: Value =
        serde_json::from_slice(&fs::read(place.path("results/inputs.json")).expect("a file")).expect("JSON");
    assert_eq!(
        inputs["data"][0]["payloads"][0]["messages"][0]["content"],
        "Be brief.\nAlways.\n"
    );

    let missing = place
        .profile(&["--overwrite", "--system-prompt-file", "none.txt"])
        .expect(2);
    assert!(
        missing
            .stderr
            .contains("--system-prompt-file: none.txt: cannot read the file"),
        "{}",
        missing.stderr
    );
    for (flags, told) in [
        (
            "--num-prefix-prompts 5000 --prefix-prompt-length 1",
            "--num-prefix-prompts: found 5000, and there are 2048 different texts of 1 token; lower --num-prefix-prompts, or raise \
             --prefix-prompt-length",
        ),
        (
            "--shared-system-prompt-length 5 --system-prompt hi",
            "--system-prompt: --system-prompt and --shared-system-prompt-length both say what the system's message is; keep one",
        ),
        (
            "--num-prefix-prompts 2 --prefix-prompt-length 3 --input-file prompts.jsonl",
            "--num-prefix-prompts: has no meaning beside prompts from a file; remove the flag",
        ),
        (
            "--session-turns-mean 3 --input-file prompts.jsonl",
            "--session-turns-mean: has no meaning beside prompts from a file; remove the flag",
        ),
        (
            "--prompt-batch-size 3 --endpoint-type nim_rankings",
            "--prompt-batch-size: requests to an endpoint of type nim_rankings have one query; remove it, and set --rankings-passages-mean for",
        ),
    ] {
        let words: Vec<&str> = flags.split(' ').collect();
        let ended = place.run(&[&["profile", "--model", "m", "--dry-run"], &words[..]].concat());
        let stderr = ended.expect(2).stderr;
        assert!(stderr.contains(told), "{flags}: {stderr}");
    }
    let refused = place
        .profile(&["--overwrite", "--endpoint-type", "completions", "--system-prompt", "x"])
        .expect(2);
    assert!(
        refused.stderr.contains("have no place for messages of the system"),
        "{}",
        refused.stderr
    );
    assert_eq!(server.counters().requests, 4, "nothing more was sent");
}

#[test]
fn other_apis_get_the_system_where_they_want_it_and_completions_get_beginnings() {
    let run = |kind: &str, dataset: &str| -> Vec<Value> {
        let server = server();
        let run = configured::run_speaking(
            server.address(),
            &format!("type: {kind}"),
            &format!(
                "  dataset: {{entries: 4, isl: 6, {dataset}}}\n  phases: [{{name: load, kind: profiling, type: concurrency, requests: 4}}]\n"
            ),
        );
        Books::complete(&run, &server);
        let inputs = run.json("inputs.json");
        let data = inputs["data"].as_array().expect("a list").iter();
        data.map(|session| session["payloads"][0].clone()).collect()
    };
    for body in run(
        "messages",
        "osl: 3, system_prompt: Be brief., prefix_prompts: {user_context_length: 2}",
    ) {
        assert_eq!(body["system"], "Be brief.");
        assert_eq!(body["messages"].as_array().map(Vec::len), Some(2));
    }
    for body in run("responses", "osl: 3, prefix_prompts: {shared_system_length: 5}") {
        assert_eq!(words(body["instructions"].as_str().expect("a text")), 5);
        assert_eq!(body["input"].as_array().map(Vec::len), Some(1));
    }
    let bodies = run("completions", "osl: 3, prefix_prompts: {pool_size: 1, length: 3}");
    let first_three = |body: &Value| -> Vec<String> {
        let text = body["prompt"].as_str().expect("a text");
        assert_eq!(words(text), 9);
        text.split(' ').take(3).map(str::to_owned).collect()
    };
    assert!(bodies.iter().all(|body| first_three(body) == first_three(&bodies[0])));
}

#[test]
fn a_sweep_is_not_resumed_with_another_system_prompt() {
    let server = server();
    let url = format!("http://{}", server.address());
    let text = config(&url, &phase("load", "requests: 2")).replace(
        "    prompts: {isl: 16, osl: 4}\n",
        "    prompts: {isl: 4, osl: 2}\n    system_prompt_file: system.txt\n",
    );
    let place = Workplace::new(&format!(
        "randomSeed: 3\n{text}sweep:\n  type: grid\n  parameters:\n    concurrency: [1, 2]\n"
    ));
    fs::write(place.path("system.txt"), "Be brief.").expect("written");
    place.profile(&[]).expect(0);
    place.profile(&["--resume"]).expect(0);
    assert_eq!(server.counters().requests, 4, "all cells had finished");
    fs::write(place.path("system.txt"), "Be long.").expect("written");
    let refused = place.profile(&["--resume"]).expect(2);
    assert!(
        refused.stderr.contains("system.txt has changed since"),
        "{}",
        refused.stderr
    );
    assert_eq!(server.counters().requests, 4);
}

#[test]
fn several_texts_of_a_request_are_counted_one_by_one() {
    let texts = |kind: &str, place: &str, dataset: &str| -> Vec<Vec<usize>> {
        let server = server();
        let run = configured::run_speaking(
            server.address(),
            &format!("type: {kind}"),
            &format!(
                "  dataset: {{entries: 4, prompts: {{isl: 6, batch_size: 3}}, {dataset}}}\n  phases: [{{name: load, kind: profiling, type: concurrency, \
                 requests: 4}}]\n"
            ),
        );
        let books = Books::complete(&run, &server);
        // What a request brings is counted by the server as it is by the client.
        for (record, entry) in &books.matched {
            let image = &run.plan.requests.entries[record.metadata.session_num as usize % 4];
            assert_eq!(image.input_tokens.map(u64::from), Some(entry.prompt_words), "{kind}");
        }
        let inputs = run.json("inputs.json");
        let data = inputs["data"].as_array().expect("a list").iter();
        data.map(|session| {
            let list = session["payloads"][0].pointer(place).and_then(Value::as_array);
            let list = list.unwrap_or_else(|| panic!("{kind}: {session}")).iter();
            list.map(|text| words(text.as_str().unwrap_or_else(|| text["text"].as_str().expect("a text"))))
                .collect()
        })
        .collect()
    };
    for (kind, place) in [
        ("embeddings", "/input"),
        ("completions", "/prompt"),
        ("chat", "/messages/0/content"),
        ("messages", "/messages/0/content"),
        ("responses", "/input/0/content"),
    ] {
        assert_eq!(texts(kind, place, "random_seed: 1"), [[6; 3]; 4], "{kind}");
    }
    let pool = "prefix_prompts: {pool_size: 2, length: 5}";
    assert_eq!(texts("embeddings", "/input", pool), [[11; 3]; 4]);
}

#[test]
fn a_sweep_over_the_size_of_a_pool_is_a_run_for_each() {
    let server = server();
    let url = format!("http://{}", server.address());
    let text = config(&url, &phase("load", "requests: 16")).replace(
        "    prompts: {isl: 16, osl: 4}\n",
        "    prompts: {isl: 4, osl: 2}\n    prefix_prompts: {pool_size: 1, length: 3}\n",
    );
    let place = Workplace::new(&format!(
        "{text}sweep:\n  type: grid\n  parameters:\n    dataset.prefix_prompts.pool_size: [1, 8]\n"
    ));
    place.profile(&[]).expect(0);
    let ledger = settled_ledger(&server, 2);
    let beginnings = |entries: &[LedgerEntry]| -> usize {
        let beginning =
            |entry: &LedgerEntry| -> Vec<String> { said(entry)[0].1.split(' ').take(3).map(str::to_owned).collect() };
        entries.iter().map(beginning).collect::<BTreeSet<_>>().len()
    };
    assert_eq!(ledger.len(), 32);
    assert_eq!(beginnings(&ledger[..16]), 1);
    assert!(beginnings(&ledger[16..]) > 3);
}
