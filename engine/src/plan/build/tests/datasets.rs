//! Datasets from files, their order, and the schedules that are made of them.

use super::*;

/// A plan with a dataset of records that stand in the config.
fn with_records(dataset: &str, phases: &str) -> Result<Plan, Diagnostics> {
    let text = format!("benchmark:\n  model: m\n  dataset: {{type: file, {dataset}}}\n{ENDPOINT}  phases:\n{phases}");
    build(&read(&text), &options())
}

fn bodies(plan: &Plan) -> Vec<serde_json::Value> {
    let body = |image: &crate::plan::RequestImage| serde_json::from_slice(image.body()).expect("bodies are JSON");
    plan.requests.entries.iter().map(body).collect()
}

const ONE_PHASE: &str = "    - {name: profiling, type: concurrency, requests: 2}\n";

#[test]
fn records_become_the_bodies_that_they_describe() {
    let records = "osl: 9, records: [{text: \"a \\\"b\\\"\", output_length: 3}, {texts: [c, d], role: tool, session_id: mine}, {text: e, extra: {seed: 5, model: other}}]";
    let plan = with_records(records, ONE_PHASE).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let body = |messages: serde_json::Value, tokens: u32| {
        serde_json::json!({
            "messages": messages, "model": "m", "stream": true, "max_completion_tokens": tokens, "stream_options": {"include_usage": true}
        })
    };
    let mut own = body(serde_json::json!([{"role": "user", "content": "e"}]), 9);
    own["model"] = "other".into();
    own["seed"] = 5.into();
    let parts = serde_json::json!([{"type": "text", "text": "c"}, {"type": "text", "text": "d"}]);
    let expected = [
        body(serde_json::json!([{"role": "user", "content": "a \"b\""}]), 3),
        body(serde_json::json!([{"role": "tool", "content": parts}]), 9),
        own,
    ];
    assert_eq!(bodies(&plan), expected);
    assert_eq!(
        plan.requests.entries[0].input_tokens, None,
        "nothing here counts tokens of a text"
    );
    assert_eq!(plan.requests.conversations.id(1), "mine");
}

#[test]
fn a_trace_may_bring_whole_messages_and_tools() {
    let records = "format: mooncake_trace, records: [{messages: [{role: user, content: x}, {role: assistant, content: y}], tools: [{type: function}]}, {input_length: 5}]";
    let plan = with_records(records, ONE_PHASE).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let text = std::str::from_utf8(plan.requests.entries[0].body()).expect("text");
    assert_eq!(
        text,
        concat!(
            r#"{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}],"model":"m","stream":true,"#,
            r#""tools":[{"type":"function"}],"stream_options":{"include_usage":true}}"#
        )
    );
    assert_eq!(plan.requests.entries[1].input_tokens, Some(5));
    let words = bodies(&plan)[1]["messages"][0]["content"]
        .as_str()
        .map(|text| text.split(' ').count());
    assert_eq!(words, Some(5));
}

#[test]
fn entries_limit_a_file_and_a_pool_is_drawn_from() {
    let records = "records: [{text: a}, {text: b}, {text: c}]";
    let count = |more: &str| {
        let plan =
            with_records(&format!("{more}, {records}"), ONE_PHASE).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let contents = bodies(&plan)
            .iter()
            .map(|body| body["messages"][0]["content"].to_string())
            .collect::<Vec<_>>();
        (plan, contents)
    };
    assert_eq!(count("entries: 2").1, ["\"a\"", "\"b\""]);
    assert_eq!(count("entries: 9").1.len(), 3);
    let (pool, drawn) = count("format: random_pool, entries: 60");
    assert_eq!(drawn.len(), 60);
    for text in ["\"a\"", "\"b\"", "\"c\""] {
        let times = drawn.iter().filter(|drawn| *drawn == text).count();
        // 20 of 60 on average, 3.7 the standard deviation; the seed is fixed.
        assert!((8..33).contains(&times), "{text} was drawn {times} times");
    }
    let bytes: std::collections::HashSet<*const u8> =
        pool.requests.entries.iter().map(|image| image.tail.as_ptr()).collect();
    assert_eq!(bytes.len(), 3, "draws share the bytes of their text");
    assert_eq!(count("format: random_pool").1.len(), 100);
}

#[test]
fn a_fixed_schedule_takes_its_starts_from_the_dataset() {
    let records = "records: [{text: a, timestamp: 1000}, {text: b, timestamp: 1000}, {text: c, timestamp: 1500}, {text: d, timestamp: 4000}]";
    let starts = |window: &str| {
        let phases = format!("    - {{name: profiling, type: fixed_schedule{window}}}\n");
        let plan = with_records(records, &phases).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let Arrival::FixedSchedule(schedule) = &plan.phases[0].arrival else {
            panic!("{:?}", plan.phases[0].arrival)
        };
        assert_eq!(plan.phases[0].stop.requests, Some(schedule.starts().len() as u64));
        assert_eq!(plan.phases[0].concurrency, None);
        schedule
            .starts()
            .iter()
            .map(|start| (start.due.0 / 1_000_000, start.conversation))
            .collect::<Vec<_>>()
    };
    assert_eq!(starts(""), [(0, 0), (0, 1), (500, 2), (3000, 3)]);
    assert_eq!(starts(", end_offset: 1500"), [(0, 0), (0, 1), (500, 2)]);
    assert_eq!(
        starts(", auto_offset: false"),
        [(1000, 0), (1000, 1), (1500, 2), (4000, 3)]
    );
    assert_eq!(
        starts(", auto_offset: false, start_offset: 1200"),
        [(300, 2), (2800, 3)]
    );
}

#[test]
fn a_dataset_that_is_no_schedule_says_what_is_missing() {
    let schedule = "    - {name: profiling, type: fixed_schedule}\n";
    let refused = |dataset: &str, phases: &str| {
        let mistakes = with_records(dataset, phases).expect_err(dataset).to_string();
        assert_eq!(mistakes.lines().count(), 1, "{mistakes}");
        mistakes
    };
    for (dataset, words) in [
        (
            "records: [{text: a, timestamp: 1}, {text: b}]",
            "records[1] has none; add \"timestamp\" in milliseconds",
        ),
        (
            "records: [{text: a}], format: random_pool",
            "records of format random_pool have none",
        ),
        (
            "records: [{text: a, timestamp: 1}], sampling: random",
            "dataset.sampling is random; remove that key",
        ),
    ] {
        let found = refused(dataset, schedule);
        assert!(
            found.contains("benchmark.phases[0].type") && found.contains(words),
            "{dataset}: {found}"
        );
    }
    let window = "    - {name: profiling, type: fixed_schedule, end_offset: 5}\n";
    let found = refused("records: [{text: a, timestamp: 7}, {text: b, timestamp: 9}]", window);
    assert!(
        found.contains("phases[0].end_offset") && found.contains("go from 7 to 9 ms"),
        "{found}"
    );
    let synthetic = format!("{HEAD}{ENDPOINT}  phases:\n{schedule}");
    let found = build(&read(&synthetic), &options()).expect_err("synthetic").to_string();
    assert!(found.contains("prompts of type synthetic have none"), "{found}");
}

#[test]
fn mistakes_in_a_dataset_carry_the_place_in_its_file_or_in_the_config() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("t.jsonl");
    let path = path.to_str().expect("a path of text");
    std::fs::write(path, "{\"text\": \"a\"}\n{\"text\": 5}\n{}\n").expect("written");
    let found = with_records(&format!("path: {path}"), ONE_PHASE)
        .expect_err("two mistakes")
        .to_string();
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(
        lines,
        [
            format!("{path}:2:10: text: found `5`; allowed: text"),
            format!("{path}:3:1: found no \"text\"; write {{\"text\": ...}}")
        ]
    );
    let found = with_records("path: /nonexistent/x.jsonl", ONE_PHASE)
        .expect_err("no file")
        .to_string();
    assert!(
        found.starts_with("f.yaml:3:")
            && found.contains("benchmark.dataset.path: /nonexistent/x.jsonl: cannot read the file"),
        "{found}"
    );
    let found = with_records("records: [{text: a}, {text: a, delay: no}]", ONE_PHASE)
        .expect_err("one mistake")
        .to_string();
    assert!(
        found.starts_with("f.yaml:3:") && found.contains("benchmark.dataset.records[1].delay: found `false`"),
        "{found}"
    );
}

#[test]
fn the_order_of_a_dataset_follows_its_sampling_and_seed() {
    let plan = plan_of(&format!(
        "{}{ENDPOINT}{PHASES}",
        HEAD.replace("isl: 8", "sampling: shuffle, isl: 8")
    ));
    let order = |plan: &Plan| {
        (0..6)
            .map(|position| plan.requests.order.entry(position))
            .collect::<Vec<_>>()
    };
    let mut first: Vec<u32> = order(&plan)[..3].to_vec();
    first.sort_unstable();
    assert_eq!(first, [0, 1, 2], "a shuffle takes each entry once");
    assert_eq!(order(&with_endpoint("url: h")), [0, 1, 2, 0, 1, 2]);
}

/// A plan of two synthetic conversations of two turns.
fn beginning_with(fields: &str) -> Result<Plan, Diagnostics> {
    let text = format!(
        "benchmark:\n  model: m\n  dataset: {{entries: 2, isl: 4, turns: 2, {fields}}}\n{ENDPOINT}  phases:\n{ONE_PHASE}"
    );
    build(&read(&text), &options())
}

#[test]
fn what_conversations_begin_with_is_in_front_of_the_prompts_that_the_seed_gives() {
    let plain = bodies(&beginning_with("sampling: sequential").expect("a plan"));
    let plan = beginning_with("system_prompt: \"Be brief.\\nAlways.\"").expect("a plan");
    let mut expected = plain.clone();
    for at in [0, 2] {
        let system = serde_json::json!({"role": "system", "content": "Be brief.\nAlways."});
        let messages = expected[at]["messages"].as_array_mut().expect("a list");
        messages.insert(0, system);
    }
    assert_eq!(bodies(&plan), expected);
    let tokens =
        |plan: &Plan| -> Vec<Option<u32>> { plan.requests.entries.iter().map(|image| image.input_tokens).collect() };
    assert_eq!(
        tokens(&plan),
        [None, Some(4), None, Some(4)],
        "nothing counts tokens of a text"
    );
    let pool = beginning_with("prefix_prompts: {pool_size: 1, length: 6}").expect("a plan");
    assert_eq!(tokens(&pool), [Some(10), Some(4), Some(10), Some(4)]);
    let words = |body: &serde_json::Value| body["messages"][0]["content"].as_str().expect("a text").to_owned();
    for at in [0, 2] {
        assert!(words(&bodies(&pool)[at]).ends_with(&format!(" {}", words(&plain[at]))));
    }
    let seeded = beginning_with("random_seed: 8, prefix_prompts: {pool_size: 1, length: 6}").expect("a plan");
    assert_ne!(words(&bodies(&seeded)[0])[..12], words(&bodies(&pool)[0])[..12]);
}

#[test]
fn a_pool_larger_than_the_texts_there_are_is_refused() {
    let told = |fields: &str| beginning_with(fields).expect_err("it is refused").to_string();
    assert!(
        told("prefix_prompts: {pool_size: 2049, length: 1}")
            .contains(":3:71: benchmark.dataset.prefix_prompts.pool_size: found 2049, and there are 2048 different texts of 1 token; lower `pool_size`"),
    );
    beginning_with("prefix_prompts: {pool_size: 2048, length: 1}").expect("a plan");
    beginning_with("prefix_prompts: {pool_size: 10000000, length: 3}").expect("a plan");
}

#[test]
fn the_file_of_a_system_message_is_part_of_what_is_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("system.txt");
    let fields = format!("system_prompt_file: {}", path.display());
    let told = |fields: &str| beginning_with(fields).expect_err("it is refused").to_string();
    let address = told("system_prompt_file: \"https://me:hunter22@host/x?api_key=abc\"");
    assert!(
        address.contains("https://<redacted>@host/x?<redacted>: cannot read the file") && !address.contains("hunter22"),
        "{address}"
    );
    let missing = told(&fields);
    let place = "f.yaml:3:63: benchmark.dataset.system_prompt_file: ";
    assert!(
        missing.starts_with(place) && missing.contains("system.txt: cannot read the file"),
        "{missing}"
    );
    std::fs::write(&path, "Be \"brief\".\n").expect("written");
    let first = beginning_with(&fields).expect("a plan");
    assert_eq!(
        bodies(&first)[0]["messages"][0],
        serde_json::json!({"role": "system", "content": "Be \"brief\".\n"})
    );
    let again = plan_of(&serde_json::json!({ "benchmark": first.input_config }).to_string());
    assert_eq!(again.fingerprint(), first.fingerprint());
    assert_eq!(bodies(&again), bodies(&first));
    let file = first.system_prompt_file.clone().expect("the file");
    assert_eq!(
        (file.path, file.sha256),
        (path.display().to_string(), crate::dataset::sha256(b"Be \"brief\".\n"))
    );
    std::fs::write(&path, "Be long.\n").expect("written");
    let other = beginning_with(&fields).expect("a plan");
    assert_ne!(other.fingerprint(), first.fingerprint());
    assert_eq!(other.input_config, first.input_config);
    std::fs::write(&path, b"\xff").expect("written");
    assert!(told(&fields).contains("which is no UTF-8"));
}

#[test]
fn a_system_message_stands_in_front_of_every_record() {
    let records = "system_prompt: S, format: multi_turn, records: [{turns: [{role: system, text: own}, {text: a}]}, {turns: [{text: b}]}]";
    let plan = with_records(records, ONE_PHASE).expect("a plan");
    let contents = |at: usize| -> Vec<String> {
        let body = &bodies(&plan)[at];
        let messages = body["messages"].as_array().expect("a list").iter();
        messages
            .map(|message| message["content"].as_str().expect("a text").to_owned())
            .collect()
    };
    assert_eq!(contents(0), ["S\n\nown", "a"]);
    assert_eq!(contents(1), ["S", "b"]);
    let pool = "system_prompt: S, format: random_pool, entries: 3, records: [{text: a}]";
    let plan = with_records(pool, ONE_PHASE).expect("a plan");
    assert!(bodies(&plan).iter().all(|body| body["messages"][0]["content"] == "S"));
}
