//! `model` and `models`: one or several, in the forms of the format.

use super::*;
use crate::config::{Model, ModelStrategy, Models, parse_suite};

fn with(model: &str) -> String {
    SAMPLE.text().replace("model: m", model)
}

fn weighted(items: &str) -> String {
    with(&format!("models: {{strategy: weighted, items: [{items}]}}"))
}

/// The one mistake of a text, without the file.
#[track_caller]
fn mistake(text: &str) -> String {
    let mut found = mistakes(text);
    assert_eq!(found.len(), 1, "{found:#?} in\n{text}");
    found.remove(0)
}

#[test]
fn one_model_in_any_form() {
    for model in [
        "model: m",
        "models: m",
        "model: [m]",
        "models: [\"m\"]",
        "models: {strategy: random, items: [{name: m}]}",
        "model: {items: [{name: m, tokenizer: null, modalities: []}]}",
    ] {
        assert_eq!(names(&read(&with(model))), ["m"], "{model}");
    }
    assert_eq!(names(&read(&with("model: 1.10"))), ["1.10"]);
}

#[test]
fn several_models_with_and_without_a_strategy() {
    for model in [
        "model: [a, b]",
        "models: [a, b]",
        "models: {items: [{name: a}, {name: b}]}",
    ] {
        let models = read(&with(model)).models;
        let item = |name: &str| Model {
            name: name.to_owned(),
            weight: None,
        };
        let expected = Models {
            strategy: None,
            items: vec![item("a"), item("b")],
        };
        assert_eq!(models, expected, "{model}");
    }
    for (word, strategy) in [
        ("round_robin", ModelStrategy::RoundRobin),
        ("RANDOM", ModelStrategy::Random),
    ] {
        let text = with(&format!(
            "models: {{strategy: {word}, items: [{{name: a}}, {{name: a}}]}}"
        ));
        assert_eq!(read(&text).models.strategy, Some(strategy));
    }
    let models = read(&weighted("{name: a, weight: 0.7}, {name: b, weight: 3e-1}")).models;
    assert_eq!(models.strategy, Some(ModelStrategy::Weighted));
    let weights: Vec<Option<f64>> = models.items.iter().map(|model| model.weight).collect();
    assert_eq!(weights, [Some(0.7), Some(0.3)]);
}

#[test]
fn weights_add_up_to_one_but_for_rounding() {
    for weights in [
        &["1"][..],
        &["0.33"; 3],
        &["0.5", "0.51"],
        &["0.0", "1.0"],
        &["0.99"],
        &["0.1"; 10],
    ] {
        let items: Vec<String> = weights
            .iter()
            .map(|weight| format!("{{name: a, weight: {weight}}}"))
            .collect();
        assert_eq!(read(&weighted(&items.join(", "))).models.items.len(), weights.len());
    }
    for (items, sum) in [
        ("{name: a, weight: 0.5}, {name: b, weight: 0.2}", "0.7"),
        ("{name: a, weight: 1}, {name: b, weight: 0.02}", "1.02"),
        ("{name: a, weight: 0}", "0"),
        ("{name: a, weight: 0.1}, {name: b, weight: 0.2}", "0.3"),
    ] {
        let found = mistake(&weighted(items));
        let words =
            format!("benchmark.models.items: found weights that add up to {sum}; allowed: weights that add up to 1");
        assert!(found.contains(&words), "{found}");
    }
}

#[test]
fn mistakes_of_models_are_told_where_they_are() {
    for (model, path, words) in [
        ("model: \"\"", "model", "found an empty text"),
        ("model: []", "model", "found an empty list; allowed: at least one model"),
        (
            "models: []",
            "models",
            "found an empty list; allowed: at least one model",
        ),
        ("model:", "model", "this key is required"),
        ("model: {items: []}", "model.items", "at least one model"),
        ("model: {}", "model.items", "list the models"),
        ("model: a\n  models: [b]", "models", "exclude each other"),
        ("model: \"a\\nb\"", "model", "no control characters"),
        ("model: [a, \" \"]", "model[1]", "not blank"),
        ("model: [a, {name: b}]", "model[1]", "found a mapping; allowed: text"),
        (
            "models: {items: [a]}",
            "models.items[0]",
            "a mapping with the keys name, weight",
        ),
        (
            "models: {items: [{weight: 1}], strategy: weighted}",
            "models.items[0].name",
            "this key is required",
        ),
        (
            "models: {strategy: weighted, items: [{name: a, weight: 1}, {name: b}]}",
            "models.items[1].weight",
            "with strategy weighted each model has a share",
        ),
        (
            "models: {strategy: weighted, items: [{name: a, weight: 1.5}]}",
            "models.items[0].weight",
            "found `1.5`; allowed: a number from 0 to 1",
        ),
        (
            "models: {strategy: weighted, items: [{name: a, weight: -0.5}]}",
            "models.items[0].weight",
            "allowed: a number from 0 to 1",
        ),
        (
            "models: {items: [{name: a, weight: 1}]}",
            "models.items[0].weight",
            "weights count with `strategy: weighted` alone",
        ),
        (
            "models: {strategy: random, items: [{name: a, weight: 1}]}",
            "models.items[0].weight",
            "weights count with `strategy: weighted` alone",
        ),
        (
            "models: {strategy: weigthed, items: [{name: a, weight: 3}]}",
            "models.strategy",
            "found `weigthed`; allowed: round_robin, random, weighted; did you mean `weighted`?",
        ),
        (
            "models: {items: [{name: a, lora: l}]}",
            "models.items[0].lora",
            "not supported by ringload yet",
        ),
        (
            "models: {items: [{name: a, modalities: [image]}]}",
            "models.items[0].modalities",
            "not supported by ringload yet",
        ),
        (
            "models: {items: [{name: a, tokenizer: {name: t}}]}",
            "models.items[0].tokenizer",
            "not supported by ringload yet",
        ),
    ] {
        let text = with(model);
        // A weight beyond its limits is read whatever the strategy turns out to be.
        let found: Vec<String> = mistakes(&text);
        let is_it = |line: &String| line.contains(&format!(": benchmark.{path}: ")) && line.contains(words);
        assert!(found.iter().any(is_it) && found.len() <= 2, "{model}: {found:#?}");
        if !model.contains("weigthed") {
            assert_eq!(found.len(), 1, "{model}: {found:#?}");
        }
    }
}

#[test]
fn requests_that_name_no_model_have_one() {
    let text = |model: &str| with(model).replace("url: \"http://h:1\"", "url: \"http://h:1\", type: hf_tei_rankings");
    let text = |model: &str| text(model).replace("isl: 16, osl: 8", "random_seed: 3");
    assert_eq!(names(&read(&text("model: m"))), ["m"]);
    for (model, key) in [
        ("model: [a, b]", "model"),
        ("models: {items: [{name: a}, {name: b}]}", "models"),
    ] {
        let found = mistake(&text(model));
        assert!(
            found.contains(&format!(
                "benchmark.{key}: found 2 models; requests to an endpoint of type hf_tei_rankings name none"
            )),
            "{found}"
        );
    }
}

#[test]
fn a_sweep_varies_models() {
    let suite = |base: &str, path: &str, values: &str| {
        let text = with(base) + &format!("sweep: {{type: grid, parameters: {{{path}: {values}}}}}\n");
        parse_suite("f.yaml", text.as_bytes(), &environment)
            .unwrap_or_else(|mistakes| panic!("{}", mistakes.render(true)))
    };
    let swept = |base: &str, path: &str, values: &str| -> Vec<Models> {
        let suite = suite(base, path, values);
        suite
            .variations
            .into_iter()
            .map(|variation| variation.config.models)
            .collect()
    };
    let names = |models: &Models| models.names().map(str::to_owned).collect::<Vec<_>>();
    for (base, path) in [("model: m", "model"), ("models: [m, n]", "models")] {
        let found = swept(base, path, "[a, [a, b]]");
        assert_eq!(
            found.iter().map(names).collect::<Vec<_>>(),
            [vec!["a"], vec!["a", "b"]],
            "{path}"
        );
    }
    let long = "models: {items: [{name: a}, {name: b}]}";
    let found = swept(long, "models.strategy", "[round_robin, random]");
    let strategies: Vec<Option<ModelStrategy>> = found.iter().map(|models| models.strategy).collect();
    assert_eq!(
        strategies,
        [Some(ModelStrategy::RoundRobin), Some(ModelStrategy::Random)]
    );
    let found = swept(long, "models.items.1.name", "[c, d]");
    assert_eq!(found.iter().map(names).collect::<Vec<_>>(), [["a", "c"], ["a", "d"]]);
    let directories = |values: &str| -> Vec<String> {
        let variations = suite("model: m", "model", values).variations;
        variations.into_iter().map(|variation| variation.directory).collect()
    };
    assert_eq!(directories("[[a, b], [a, c]]").len(), 2);
}
