//! Bodies of type template, as they are sent.

use serde_json::{Value, json};

use super::*;

fn with(endpoint: &str, dataset: &str) -> Result<Plan, Diagnostics> {
    let text = format!(
        "random_seed: 1\nbenchmark:\n  model: m\n  dataset: {{{dataset}}}\n  endpoint:\n    url: http://h/custom/\n{endpoint}  phases:\n    \
         - {{name: profiling, type: concurrency, requests: 2}}\n"
    );
    let config = read(&text);
    let built = build(&config, &options());
    // A check makes no requests and says the same.
    let checked = check(&config, &options());
    assert_eq!(
        checked.as_ref().err().map(ToString::to_string),
        built.as_ref().err().map(ToString::to_string)
    );
    built
}

fn bodies(plan: &Plan) -> Vec<Value> {
    let body = |image: &crate::plan::RequestImage| serde_json::from_slice(image.body()).expect("bodies are JSON");
    plan.requests.entries.iter().map(body).collect()
}

fn made(endpoint: &str, dataset: &str) -> Vec<Value> {
    bodies(&with(endpoint, dataset).unwrap_or_else(|mistakes| panic!("{mistakes}")))
}

fn mistake(endpoint: &str, dataset: &str) -> String {
    with(endpoint, dataset).expect_err("a mistake").to_string()
}

#[test]
fn requests_go_to_the_url_as_it_is_with_the_body_of_the_template() {
    let endpoint = "    streaming: true\n    template: {body: '{\"stream\": {{ stream|lower }}, \"p\": {{ text|tojson }}, \"n\": {{ max_tokens|tojson }}, \"m\": \"{{ model }}\"}'}\n    extra: {n: 5, more: {a: 1}}\n";
    let plan = with(endpoint, "entries: 3, isl: 4, osl: 7").expect("a plan");
    assert_eq!(plan.endpoint.targets[0].url, "http://h/custom/");
    assert_eq!(
        (plan.endpoint.kind, plan.endpoint.streaming),
        (EndpointKind::Template, true)
    );
    let texts: Vec<String> = bodies(&plan)
        .iter()
        .map(|body| {
            let text = body["p"].as_str().expect("a text").to_owned();
            let expected = json!({"stream": true, "p": text, "n": 5, "m": "m", "more": {"a": 1}});
            assert_eq!(body.to_string(), expected.to_string(), "in this order");
            text
        })
        .collect();
    assert!(
        texts.iter().all(|text| text.split(' ').count() == 4) && texts[0] != texts[1],
        "{texts:?}"
    );
    let entry = &plan.requests.entries[0];
    assert_eq!((entry.input_tokens, entry.requested_output_tokens), (Some(4), Some(7)));
    assert!(head(&plan).starts_with("POST /custom/ HTTP/1.1\r\n") && !entry.has_history());
}

#[test]
fn what_a_template_does_not_say_is_not_claimed_of_its_requests() {
    let plan = with("    template: {body: '{\"a\": 1}'}\n", "entries: 1, isl: 4, osl: 7").expect("a plan");
    let entry = &plan.requests.entries[0];
    assert_eq!((entry.input_tokens, entry.requested_output_tokens), (None, None));
}

#[test]
fn a_body_asks_for_the_model_of_its_conversation() {
    let text = "benchmark:\n  models: [a, b]\n  dataset: {entries: 4, isl: 3}\n  endpoint: {url: h, template: {body: '{\"m\": {{ model|tojson }}}'}}\n\
                \x20 phases: {type: concurrency, requests: 4}\n";
    let asked: Vec<Value> = bodies(&plan_of(text))
        .into_iter()
        .map(|body| body["m"].clone())
        .collect();
    assert_eq!(asked, ["a", "b", "a", "b"]);
}

#[test]
fn a_pool_asks_each_model_and_prompts_have_their_beginnings() {
    let text = "random_seed: 3\nbenchmark:\n  models: [a, b]\n  dataset: {type: file, format: random_pool, entries: 4, records: [{text: x}, {text: y}]}\n  \
                endpoint: {url: h, template: {body: '{\"m\": {{ model|tojson }}, \"p\": {{ text|tojson }}}'}}\n\
                \x20 phases: {type: concurrency, requests: 4}\n";
    let asked: Vec<Value> = bodies(&plan_of(text))
        .into_iter()
        .map(|body| body["m"].clone())
        .collect();
    assert_eq!(asked, ["a", "b", "a", "b"]);

    let endpoint = "    template: {body: '{\"p\": {{ text|tojson }}, \"n\": {{ texts|length }}}'}\n";
    let plain = made(endpoint, "entries: 2, isl: 4");
    let begun = made(
        endpoint,
        "entries: 2, isl: 4, prefix_prompts: {pool_size: 1, length: 3}",
    );
    for (plain, begun) in plain.iter().zip(&begun) {
        let [plain, begun] = [plain, begun].map(|body| body["p"].as_str().expect("a text"));
        assert!(
            begun.ends_with(plain) && begun.split(' ').count() == 7,
            "{begun} and {plain}"
        );
    }
    let several = made(endpoint, "entries: 1, prompts: {isl: 4, batch_size: 3}");
    assert_eq!(several[0]["n"], 3);
    let text = mistake(
        "    template: {body: '{}'}\n",
        "entries: 1, prefix_prompts: {pool_size: 1, length: 3}",
    );
    assert!(
        text.contains("dataset.prefix_prompts: the template") && text.contains("{{ text|tojson }}"),
        "{text}"
    );
}

#[test]
fn an_own_path_is_appended() {
    let plan = with("    path: /v9\n    template: {body: '{}'}\n", "entries: 1").expect("a plan");
    assert_eq!(plan.endpoint.targets[0].url, "http://h/custom/v9");
}

#[test]
fn records_give_texts_queries_and_passages() {
    let endpoint = "    template: {body: '{\"t\": {{ texts|tojson }}, \"q\": {{ query|tojson }}, \"p\": {{ passages|tojson }}, \"n\": {{ queries|length }}}'}\n";
    let records = "type: file, records: [{text: \"a \\\"b\\\"\", extra: {seed: 5, t: mine}}, {texts: [c, d]}, {texts: [{name: passages, contents: [e]}, {name: query, contents: [f]}]}]";
    assert_eq!(
        made(endpoint, records),
        [
            json!({"t": "mine", "q": null, "p": [], "n": 0, "seed": 5}),
            json!({"t": ["c", "d"], "q": "c", "p": ["d"], "n": 1}),
            json!({"t": ["f", "e"], "q": "f", "p": ["e"], "n": 1}),
        ]
    );
    let drawn = made(
        endpoint,
        "entries: 2, rankings: {passages: 3, passage_tokens: 2, query_tokens: 4}",
    );
    for body in drawn {
        let words = |value: &Value| value.as_str().map(|text| text.split(' ').count());
        assert_eq!(
            (words(&body["q"]), body["p"].as_array().map(Vec::len)),
            (Some(4), Some(3)),
            "{body}"
        );
        assert_eq!(body["t"].as_array().map(Vec::len), Some(4), "{body}");
    }
}

#[test]
fn a_body_that_cannot_be_made_is_told_with_its_entry_before_anything_is_sent() {
    let block = |body: &str| format!("    template:\n      body: |\n        {{\n        {body}}}\n");
    let text = mistake(&block("\"p\": {{ text }}"), "entries: 2, isl: 3");
    for part in [
        "f.yaml:9:9: benchmark.endpoint.template.body: conversation ",
        ", turn 1, has no body: the body is no JSON",
        "it begins `{",
        "the filter tojson",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    // The second record has no second text.
    let records = "type: file, records: [{texts: [a, b], session_id: one}, {text: c, session_id: two}]";
    let text = mistake(&block("\"p\": {{ passages[0]|tojson }}"), records);
    for part in ["f.yaml:10:", "conversation two, turn 1", "undefined"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let text = mistake("    template: {body: '[{{ text|tojson }}]'}\n", "entries: 1");
    assert!(text.contains("the body is no JSON object"), "{text}");
    let text = mistake("    template: {body: '{\"stream\": true}'}\n", "entries: 1");
    assert!(
        text.contains("endpoint.streaming is false") && text.contains("{{ stream|tojson }}"),
        "{text}"
    );
    assert_eq!(
        made("    template: {body: '{\"stream\": \"all\"}'}\n", "entries: 1"),
        [json!({"stream": "all"})]
    );
}

#[test]
fn records_with_more_than_texts_are_refused() {
    for (record, part) in [
        ("{session_id: s, turns: [{text: a}, {text: b}]}", "2 turns"),
        ("{session_id: s, turns: [{text: a, role: tool}]}", "a `role`"),
    ] {
        let dataset = format!("type: file, format: multi_turn, records: [{record}]");
        let text = mistake("    template: {body: '{\"p\": {{ text|tojson }}}'}\n", &dataset);
        assert!(text.contains(part) && text.contains("type template"), "{text}");
    }
}

#[test]
fn a_probe_is_a_request_of_the_template_for_one_token() {
    let endpoint = "    wait_for_model_timeout: 5\n    template: {body: '{\"p\": {{ text|tojson }}, \"n\": {{ max_tokens|tojson }}, \"q\": {{ passages[0]|tojson }}}'}\n";
    let plan = with(endpoint, "entries: 1, rankings: {passages: 1}").expect("a plan");
    let probe = &plan.readiness.expect("it waits").targets[0];
    assert_eq!(probe.body, br#"{"p":"Lo","n":1,"q":"Lo"}"#);
    assert_eq!(
        (probe.inference_url.as_str(), probe.models_url.as_str()),
        ("http://h/custom/", "http://h/v1/models")
    );
    let text = mistake(
        "    wait_for_model_timeout: 5\n    template: {body: '{\"p\": {{ texts[2]|tojson }}}'}\n",
        "type: file, records: [{texts: [a, b, c]}]",
    );
    assert!(text.contains("of the readiness probe"), "{text}");
}

#[test]
fn the_echo_of_a_template_loads_again_and_gives_the_same_plan() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("body");
    std::fs::write(&path, "{\"p\": {{ text|tojson }}, \"api_key\": \"hunter2hunter2\"}").expect("a file");
    for body in ["'{\"p\": {{ text|tojson }}}'", "nv-embedqa"] {
        let endpoint = format!("    template: {{body: {body}, response_field: 'a[0].b'}}\n");
        let plan = with(&endpoint, "entries: 2, isl: 3, random_seed: 4").expect("a plan");
        let again = read(&json!({"random_seed": 1, "benchmark": plan.input_config}).to_string());
        let again = build(&again, &options()).expect("the same plan");
        assert_eq!(again.input_config, plan.input_config);
        assert_eq!(bodies(&again), bodies(&plan));
        assert_eq!(again.endpoint.response_field.as_deref(), Some("a[0].b"));
    }
    let plan = with(&format!("    template: {{body: '{}'}}\n", path.display()), "entries: 1").expect("a plan");
    assert_eq!(
        plan.input_config["endpoint"]["template"]["body"],
        "{\"p\": {{ text|tojson }}, \"api_key\": \"<redacted>\"}"
    );
    assert_eq!(plan.secrets.redact("hunter2hunter2"), "<redacted>");
}
