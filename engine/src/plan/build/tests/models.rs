//! Which prompts ask for which model.

use super::*;

const DATASET: &str = "  dataset: {entries: 100, isl: 8}\n";

fn text(models: &str, dataset: &str) -> String {
    format!("benchmark:\n  {models}\n{dataset}{ENDPOINT}{PHASES}")
}

/// The model of each request, in the order of the dataset.
fn models(plan: &Plan) -> Vec<String> {
    let model = |image: &crate::plan::RequestImage| {
        let body: serde_json::Value = serde_json::from_slice(image.body()).expect("bodies are JSON");
        body["model"].as_str().expect("a name").to_owned()
    };
    plan.requests.entries.iter().map(model).collect()
}

fn count(models: &[String], name: &str) -> usize {
    models.iter().filter(|model| *model == name).count()
}

const WEIGHTED: &str =
    "models: {strategy: weighted, items: [{name: a, weight: 0.7}, {name: b, weight: 0.3}, {name: c, weight: 0}]}";

#[test]
fn prompts_take_models_in_turn_unless_they_are_drawn() {
    for form in [
        "model: [a, b, c]",
        "models: {strategy: round_robin, items: [{name: a}, {name: b}, {name: c}]}",
    ] {
        let found = models(&plan_of(&text(form, DATASET)));
        let expected: Vec<&str> = (0..100).map(|entry| ["a", "b", "c"][entry % 3]).collect();
        assert_eq!(found, expected, "{form}");
    }
    let even = models(&plan_of(&text(
        "models: {strategy: random, items: [{name: a}, {name: b}]}",
        DATASET,
    )));
    let weighted = models(&plan_of(&text(WEIGHTED, DATASET)));
    // What the seed of these tests draws.
    assert_eq!((count(&even, "a"), count(&even, "b")), (45, 55));
    assert_eq!((count(&weighted, "a"), count(&weighted, "b")), (70, 30));
    let of_seed = |seed| {
        let dataset = format!("  dataset: {{entries: 100, isl: 8, random_seed: {seed}}}\n");
        models(&plan_of(&text(WEIGHTED, &dataset)))
    };
    assert_eq!(of_seed(7), weighted);
    assert_ne!(of_seed(8), weighted);
}

#[test]
fn a_conversation_keeps_its_model_and_a_record_its_own() {
    let dataset = "  dataset: {entries: 4, isl: 8, turns: 3}\n";
    assert_eq!(
        models(&plan_of(&text("model: [a, b]", dataset))).concat(),
        "aaabbbaaabbb"
    );
    let records = "  dataset: {type: file, records: [{text: x}, {text: y, extra: {model: z}}, {text: x}, {text: x}]}\n";
    assert_eq!(models(&plan_of(&text("model: [a, b]", records))).concat(), "azab");
    let all = text("model: [a, b]", records).replace("streaming: true", "streaming: true, extra: {model: e}");
    assert_eq!(models(&plan_of(&all)).concat(), "ezee");
}

#[test]
fn draws_from_a_pool_take_models_as_other_prompts_do() {
    let dataset =
        "  dataset: {type: file, format: random_pool, entries: 60, records: [{text: x}, {text: y}, {text: z}]}\n";
    let said = |plan: &Plan| -> Vec<String> {
        let text = |image: &crate::plan::RequestImage| {
            let body: serde_json::Value = serde_json::from_slice(image.body()).expect("bodies are JSON");
            body["messages"][0]["content"].as_str().expect("a text").to_owned()
        };
        plan.requests.entries.iter().map(text).collect()
    };
    let one = plan_of(&text("model: a", dataset));
    let several = plan_of(&text("model: [a, b]", dataset));
    assert_eq!(said(&several), said(&one), "the draws are the same whatever the models");
    assert_eq!(models(&several).concat(), "ab".repeat(30));
    assert!(
        several
            .requests
            .entries
            .iter()
            .zip(0..)
            .all(|(image, number)| image.conversation == number)
    );
    let weighted = models(&plan_of(&text(WEIGHTED, dataset)));
    assert_eq!(weighted[..], models(&plan_of(&text(WEIGHTED, DATASET)))[..60]);
}

#[test]
fn a_pool_for_more_models_than_memory_holds_is_refused_before_it_is_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool.jsonl");
    std::fs::write(&path, "{\"text\": \"x\"}\n".repeat(20_000)).expect("written");
    let dataset = format!(
        "  dataset: {{type: file, format: random_pool, entries: 2, path: {}}}\n",
        path.display()
    );
    let names: Vec<String> = (0..2000).map(|number| format!("m{number}")).collect();
    let written = text(&format!("model: [{}]", names.join(", ")), &dataset);
    let told = build(&read(&written), &options())
        .expect_err("it is refused")
        .to_string();
    assert!(
        told.contains("20000 texts, each for 2000 models, would take about")
            && told.contains("take fewer texts or fewer models"),
        "{told}"
    );
}

#[test]
fn artifacts_are_named_after_the_first_model_and_show_all_as_they_can_be_read_again() {
    let name = |models: &str| {
        let directory = plan_of(&text(models, DATASET)).artifacts.directory;
        directory.file_name().expect("a name").to_string_lossy().into_owned()
    };
    assert_eq!(name("model: [org/a, b]"), "org_a_multi-openai-chat-concurrency1");
    assert_eq!(name("model: [org/a]"), "org_a-openai-chat-concurrency1");
    let long = format!("model: [{}, b]", "\u{e9}".repeat(300));
    assert!(name(&long).len() < 255 && name(&long).contains("_multi-"));

    for (written, expected) in [
        (
            "model: [a, b]",
            serde_json::json!({"items": [{"name": "a"}, {"name": "b"}]}),
        ),
        (
            WEIGHTED,
            serde_json::json!({
                "strategy": "weighted",
                "items": [{"name": "a", "weight": 0.7}, {"name": "b", "weight": 0.3}, {"name": "c", "weight": 0.0}],
            }),
        ),
    ] {
        let plan = plan_of(&text(written, DATASET));
        assert_eq!(plan.input_config["models"], expected);
        let again = plan_of(&plan.resolved_yaml(crate::plan::SeedChoice::Fixed));
        assert_eq!(again.models, plan.models);
        assert_eq!(models(&again), models(&plan));
    }
}

#[test]
fn every_model_that_may_be_asked_for_is_waited_for_once() {
    let probed = |models: &str| -> Vec<String> {
        let text = text(models, DATASET).replace("streaming: true", "streaming: true, wait_for_model_timeout: 9");
        let readiness = plan_of(&text).readiness.expect("it waits");
        readiness.targets.into_iter().map(|target| target.model).collect()
    };
    assert_eq!(probed("model: [a, b, a]"), ["a", "b"]);
    assert_eq!(probed(WEIGHTED), ["a", "b"]);
}
