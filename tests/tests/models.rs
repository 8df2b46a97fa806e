//! Several models: which request asked for which, by the ledger of the server.

use std::collections::{BTreeMap, BTreeSet};

use ringload_tests::books::Books;
use ringload_tests::program::{Workplace, config, phase};
use ringload_tests::{Run, configured, mock};
use serde_json::{Value, json};

const DATASET: &str = "  dataset: {entries: 100, isl: 8, osl: 2}\n";
const WEIGHTED: &str =
    "models: {strategy: weighted, items: [{name: mock-a, weight: 0.7}, {name: mock-b, weight: 0.3}]}";

fn closed(concurrency: u32, requests: u32) -> String {
    format!(
        "  phases: [{{name: load, kind: profiling, type: concurrency, concurrency: {concurrency}, requests: {requests}}}]\n"
    )
}

/// The models that the server was asked for, in the order of the dataset. Each conversation is sent once.
fn asked(run: &Run, books: &Books<'_>) -> Vec<String> {
    let conversations = &run.plan.requests.conversations;
    let of: BTreeMap<&str, String> = books
        .matched
        .iter()
        .map(|(record, entry)| {
            let model = entry.model.clone().expect("the ledger keeps models");
            (record.metadata.conversation_id.as_str(), model)
        })
        .collect();
    (0..conversations.count())
        .map(|number| of[&*conversations.id(number)].clone())
        .collect()
}

#[test]
fn requests_take_models_in_turn() {
    let server = mock(|options| options.keep_messages = true);
    let run = configured::run_asking(
        server.address(),
        1,
        "model: [mock-a, mock-b]",
        &format!("{DATASET}{}", closed(1, 100)),
    );
    Books::complete(&run, &server);
    let models: Vec<String> = server.ledger().into_iter().filter_map(|entry| entry.model).collect();
    assert_eq!(models, ["mock-a", "mock-b"].repeat(50));
    let listed = run.json("inputs.json");
    for entry in 0..100 {
        assert_eq!(
            listed["data"][entry]["payloads"][0]["model"],
            ["mock-a", "mock-b"][entry % 2]
        );
    }
}

#[test]
fn draws_are_those_of_the_seed_on_any_number_of_cores() {
    let mut found = BTreeSet::new();
    for cores in [1, 2] {
        let server = mock(|options| options.keep_messages = true);
        let run = configured::run_asking(
            server.address(),
            cores,
            WEIGHTED,
            &format!("{DATASET}{}", closed(8, 100)),
        );
        let books = Books::complete(&run, &server);
        let asked = asked(&run, &books);
        let count = asked.iter().filter(|model| *model == "mock-a").count();
        // What seed 42 draws of 100 with probability 0.7.
        assert_eq!(count, 77, "{cores} cores");
        found.insert(asked);
        assert_eq!(
            run.root()["input_config"]["models"],
            json!({"strategy": "weighted", "items": [{"name": "mock-a", "weight": 0.7}, {"name": "mock-b", "weight": 0.3}]})
        );
    }
    assert_eq!(found.len(), 1, "the same requests ask for the same model");
}

#[test]
fn a_session_stays_with_its_model() {
    let server = mock(|options| options.keep_messages = true);
    let sections = "  dataset: {entries: 6, isl: 8, osl: 2, turns: 3}\n  phases: [{name: load, kind: profiling, type: concurrency, concurrency: 3, \
                    sessions: 6}]\n";
    let run = configured::run_asking(server.address(), 1, "model: [mock-a, mock-b]", sections);
    Books::complete(&run, &server);
    let mut sessions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in server.ledger() {
        let session = sessions.entry(entry.session.expect("a session")).or_default();
        session.push(entry.model.expect("a model"));
    }
    let mut models: Vec<Vec<String>> = sessions.into_values().collect();
    models.sort();
    let expected = [["mock-a"; 3]; 3].into_iter().chain([["mock-b"; 3]; 3]);
    assert_eq!(models, expected.collect::<Vec<_>>());
}

#[test]
fn names_of_a_flag_are_models_in_turn_and_no_sweep_and_what_is_recorded_runs_again() {
    let server = mock(|options| options.keep_messages = true);
    let text = config(&server.url(), &phase("profiling", "concurrency: 2, requests: 8"));
    let workplace = Workplace::new(&text.replace("  artifacts: {dir: ./results}\n", ""));
    let waiting = ["--wait-for-model-timeout", "30", "--random-seed", "3"];
    workplace
        .profile(&[&["--model", "mock-a,mock-b", "-m", "mock-c"][..], &waiting].concat())
        .expect(0);
    let count =
        |ledger: &[Option<String>], name: &str| ledger.iter().filter(|model| model.as_deref() == Some(name)).count();
    let ledger: Vec<Option<String>> = server.ledger().into_iter().map(|entry| entry.model).collect();
    // The probes of readiness, one for each model, and eight prompts.
    assert_eq!(
        ["mock-a", "mock-b", "mock-c"].map(|name| count(&ledger, name)),
        [1 + 3, 1 + 3, 1 + 2]
    );
    let directory = "artifacts/mock-a_multi-openai-chat-concurrency2";
    let read = |name: &str| std::fs::read_to_string(workplace.path(&format!("{directory}/{name}"))).expect(name);
    let root: Value = serde_json::from_str(&read("profile_export_aiperf.json")).expect("JSON");
    assert_eq!(
        root["input_config"]["models"],
        json!({"items": [{"name": "mock-a"}, {"name": "mock-b"}, {"name": "mock-c"}]})
    );
    let resolved = Workplace::new(&read("resolved_config.yaml"));
    resolved.profile(&[]).expect(0);
    let again: Vec<Option<String>> = server.ledger().into_iter().map(|entry| entry.model).collect();
    assert_eq!(count(&again[ledger.len()..], "mock-c"), 1 + 2);
}

#[test]
fn the_built_in_server_lists_all_models_and_a_dry_run_shows_them() {
    let text = config(
        "http://replica-1:8000",
        &phase("profiling", "concurrency: 2, requests: 4"),
    );
    let waiting = text.replace(
        "    streaming: true\n",
        "    streaming: true\n    wait_for_model_timeout: 30\n    wait_for_model_mode: models\n",
    );
    let workplace = Workplace::new(&waiting.replace("model: mock-model", WEIGHTED));
    workplace.profile(&["--mock"]).expect(0);
    let shown = workplace.profile(&["--dry-run", "--overwrite"]).expect(0).stdout;
    assert!(
        shown.contains("models     mock-a 70.0 %, mock-b 30.0 % (drawn for each conversation)\n"),
        "{shown}"
    );
    let shown = workplace
        .profile(&["--dry-run", "--overwrite", "--model", "a,b"])
        .expect(0)
        .stdout;
    assert!(
        shown.contains("models     a, b (conversations take them in turn)\n"),
        "{shown}"
    );
    let shown = workplace
        .profile(&["--dry-run", "--overwrite", "--format", "json"])
        .expect(0)
        .stdout;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["models"][0], json!({"name": "mock-a", "share": 0.7}));
    let expanded = workplace.run(&["config", "expand", "test.yaml"]).expect(0).stdout;
    assert!(
        expanded.contains("strategy: weighted") && expanded.contains("weight: 0.3"),
        "{expanded}"
    );
}
