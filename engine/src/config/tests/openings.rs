//! What conversations begin with: `prefix_prompts`, `system_prompt`, `system_prompt_file`.

use super::*;

const DATASET: &str = "dataset: {entries: 4, isl: 16, osl: 8}";

fn with(fields: &str) -> String {
    SAMPLE
        .text()
        .replace(DATASET, &format!("dataset: {{entries: 4, isl: 16, osl: 8, {fields}}}"))
}

fn speaking(kind: &str, fields: &str) -> String {
    with(fields).replace("url: \"http://h:1\"", &format!("url: \"http://h:1\", type: {kind}"))
}

#[test]
fn prefixes_are_a_pool_or_messages_or_nothing() {
    let prefix = |fields: &str| read(&with(&format!("prefix_prompts: {fields}"))).dataset.prefix_prompts;
    assert!(matches!(
        prefix("{pool_size: 3, length: 16}"),
        Some(PrefixPrompts::Pool {
            size: 3,
            length: 16,
            ..
        })
    ));
    for (fields, shared_system_length, user_context_length) in [
        ("{shared_system_length: 8}", Some(8), None),
        ("{userContextLength: 4, shared_system_length: null}", None, Some(4)),
        ("{shared_system_length: 8, user_context_length: 4}", Some(8), Some(4)),
    ] {
        let expected = PrefixPrompts::Messages {
            shared_system_length,
            user_context_length,
        };
        assert_eq!(prefix(fields), Some(expected), "{fields}");
    }
    for nothing in ["{}", "null", "{pool_size: null}"] {
        assert_eq!(prefix(nothing), None, "{nothing}");
    }
}

#[test]
fn a_system_message_is_a_text_of_any_lines_or_a_file() {
    let system = |fields: &str| read(&with(fields)).dataset.system_prompt;
    let text = |text: &str| Some(SystemPrompt::Text(text.to_owned()));
    assert_eq!(
        system(r#"system_prompt: "Be brief.\nAlways.""#),
        text("Be brief.\nAlways.")
    );
    assert_eq!(system("systemPrompt: 5"), text("5"));
    assert_eq!(
        system("system_prompt_file: a.txt"),
        Some(SystemPrompt::File {
            path: "a.txt".to_owned(),
            at: Position { line: 5, column: 62 }
        })
    );
    assert_eq!(system("system_prompt: null"), None);
}

#[test]
fn what_excludes_each_other_or_is_half_is_told_at_its_place() {
    for (fields, place, words) in [
        ("prefix_prompts: {pool_size: 2}", "5:58", "length: this key is required"),
        ("prefix_prompts: {length: 2}", "5:58", "pool_size: this key is required"),
        (
            "prefix_prompts: {length: 2, user_context_length: 3}",
            "5:42",
            "`length` and `user_context_length` exclude each other",
        ),
        (
            "prefix_prompts: {pool_size: 0, length: 3}",
            "5:70",
            "found `0`; allowed: a whole number from 1 to 10000000",
        ),
        (
            "prefix_prompts: {shared_system_length: 1.5}",
            "5:81",
            "found `1.5`; allowed: a whole number",
        ),
        (
            "prefix_prompts: {poolsize: 3, length: 3}",
            "5:59",
            "did you mean `pool_size`?",
        ),
        ("prefix_prompts: 5", "5:58", "a mapping with the keys pool_size"),
        ("system_prompt: \" \"", "5:57", "text that is not blank"),
        ("system_prompt_file: \"\"", "5:62", "text that is not blank"),
        (
            "system_prompt: a, system_prompt_file: b",
            "5:60",
            "`system_prompt_file` and `system_prompt` (line 5) exclude each other",
        ),
        (
            "system_prompt: a, prefix_prompts: {shared_system_length: 3}",
            "5:42",
            "`system_prompt` and `prefix_prompts.shared_system_length` (line 5) both say",
        ),
        (
            "shared_system_length: 3",
            "5:42",
            "it belongs in benchmark.dataset.prefix_prompts",
        ),
    ] {
        let found = mistakes(&with(fields));
        assert!(
            found.len() == 1 && found[0].starts_with(&format!("{place}: ")) && found[0].contains(words),
            "{fields}: {found:?}"
        );
    }
    let file = SAMPLE.text().replace(
        DATASET,
        "dataset: {type: file, records: [{text: a}], system_prompt: s, prefix_prompts: {pool_size: 2, length: 2}}",
    );
    one_mistake(
        &file,
        "5:65: benchmark.dataset.prefix_prompts",
        "no meaning beside prompts from a file",
    );
}

#[test]
fn rankings_have_one_query() {
    let ranks = |dataset: &str| {
        let text = SAMPLE.text().replace(DATASET, dataset);
        text.replace("url: \"http://h:1\"", "url: \"http://h:1\", type: cohere_rankings")
    };
    read(&ranks("dataset: {prompts: {batch_size: 1}}"));
    one_mistake(
        &ranks("dataset: {prompts: {batch_size: 2}}"),
        "5:35: benchmark.dataset.prompts.batch_size",
        "have one query; remove it, and set `rankings.passages`",
    );
}

#[test]
fn requests_without_a_place_for_messages_refuse_them_and_take_a_pool() {
    for kind in ["completions", "embeddings"] {
        read(&speaking(kind, "prefix_prompts: {pool_size: 2, length: 2}").replace("osl: 8, ", ""));
    }
    for kind in ["chat", "responses", "messages"] {
        read(&speaking(
            kind,
            "system_prompt: a, prefix_prompts: {user_context_length: 3}",
        ));
    }
    for (kind, fields, words) in [
        ("completions", "system_prompt: a", "no place for messages of the system"),
        (
            "embeddings",
            "system_prompt_file: a",
            "no place for messages of the system",
        ),
        (
            "completions",
            "prefix_prompts: {shared_system_length: 3}",
            "no place for messages of the system or of context",
        ),
        (
            "embeddings",
            "prefix_prompts: {user_context_length: 3}",
            "use one of the types chat, responses, messages",
        ),
        (
            "cohere_rankings",
            "prefix_prompts: {pool_size: 3, length: 4}",
            "queries and passages, which have no common beginning",
        ),
    ] {
        let found = mistakes(&speaking(kind, fields).replace("osl: 8, ", ""));
        assert!(
            found.len() == 1 && found[0].starts_with("5:") && found[0].contains(words),
            "{kind}, {fields}: {found:?}"
        );
    }
}
