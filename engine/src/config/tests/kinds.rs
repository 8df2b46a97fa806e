//! `endpoint.type` and what it means for other keys.

use super::*;

fn with(endpoint: &str, dataset: &str) -> String {
    SAMPLE
        .text()
        .replace(
            "dataset: {entries: 4, isl: 16, osl: 8}",
            &format!("dataset: {{{dataset}}}"),
        )
        .replace(SAMPLE.endpoint, &format!("  endpoint: {{url: h, {endpoint}}}\n"))
}

fn kind_of(endpoint: &str) -> (Option<EndpointType>, Vec<String>) {
    let config = read(&with(endpoint, "entries: 4"));
    (config.endpoint.kind, config.warnings)
}

#[test]
fn every_type_is_read_in_any_case_and_chat_is_the_default() {
    assert_eq!(kind_of("streaming: true").0, None);
    for kind in EndpointType::ALL {
        // This one has no body without its section.
        let more = match kind {
            EndpointType::Template => ", template: {body: '{}'}",
            _ => "",
        };
        assert_eq!(
            kind_of(&format!("type: {}{more}", kind.as_str())),
            (Some(kind), Vec::new())
        );
        assert_eq!(
            kind_of(&format!("type: {}{more}", kind.as_str().to_uppercase())).0,
            Some(kind)
        );
    }
}

#[test]
fn types_that_are_not_there_are_refused_by_name() {
    for kind in [
        "image_generation",
        "video_generation",
        "audio_transcription",
        "huggingface_generate",
        "raw",
        "nim_embeddings",
    ] {
        let text = mistakes(&with(&format!("type: {kind}"), "entries: 4"));
        let wanted = format!(
            "not supported by ringload yet: `{kind}`; allowed: chat, completions, responses, messages, embeddings"
        );
        assert!(text.iter().any(|mistake| mistake.contains(&wanted)), "{text:?}");
    }
}

#[test]
fn a_wish_for_streams_without_streams_is_one_warning_and_off() {
    let config = read(&with("type: embeddings, streaming: true", "entries: 4"));
    assert_eq!(config.endpoint.streaming, Some(false));
    assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
    assert!(config.warnings[0].contains("benchmark.endpoint.streaming") && config.warnings[0].contains("embeddings"));
    // So nothing that is measured in streams can be asked for either.
    let phase = "{name: profiling, type: concurrency, concurrency: 4, prefill_concurrency: 2, requests: 2}";
    let text = with("type: embeddings, streaming: true", "entries: 4")
        .replace(SAMPLE.phases, &format!("  phases:\n    - {phase}\n"));
    assert!(
        mistakes(&text)
            .iter()
            .any(|mistake| mistake.contains("does not stream"))
    );
}

#[test]
fn keys_without_effect_are_told_and_change_nothing() {
    let config = read(&with("type: nim_rankings", "entries: 4, osl: 8"));
    assert!(
        config.warnings.len() == 1 && config.warnings[0].contains("dataset.osl"),
        "{:?}",
        config.warnings
    );
    let config = read(&with("type: completions, use_legacy_max_tokens: true", "entries: 4"));
    assert!(config.warnings.len() == 1 && config.warnings[0].contains("use_legacy_max_tokens"));
    let config = read(&with("use_legacy_max_tokens: true", "entries: 4, osl: 8"));
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}

#[test]
fn a_dataset_that_does_not_suit_the_type_is_a_mistake_of_the_dataset() {
    for (kind, dataset, key, part) in [
        ("completions", "turns: 2", "turns", "no place for what was said before"),
        (
            "embeddings",
            "turns: {mean: 1, stddev: 1}",
            "turns",
            "no place for what was said before",
        ),
        ("cohere_rankings", "turns: 3", "turns", "chat, responses, messages"),
        (
            "chat",
            "rankings: {passages: 3}",
            "rankings",
            "no meaning for an endpoint of type chat",
        ),
        (
            "nim_rankings",
            "isl: 5, rankings: {query_tokens: 3}",
            "rankings",
            "say the same",
        ),
        (
            "nim_rankings",
            "rankings: {passages: 0}",
            "rankings.passages",
            "a whole number from 1 to 10000",
        ),
        (
            "nim_rankings",
            "rankings: {passage: 1}",
            "rankings.passage",
            "did you mean `passages`?",
        ),
    ] {
        let found = mistakes(&with(&format!("type: {kind}"), dataset));
        let [mistake] = &found[..] else {
            panic!("{kind}, {dataset}: {found:?}")
        };
        let place = format!("benchmark.dataset.{key}: ");
        assert!(mistake.contains(&place) && mistake.contains(part), "{mistake}");
    }
    for (kind, dataset) in [
        ("responses", "turns: 2"),
        ("completions", "turns: 1"),
        ("embeddings", "turns: {value: 1}"),
        ("messages", "turns: 4"),
    ] {
        read(&with(&format!("type: {kind}"), dataset));
    }
}

#[test]
fn lengths_of_queries_and_passages_are_distributions() {
    let dataset = "rankings: {passages: {mean: 4, stddev: 1}, passage_tokens: 64, query_tokens: {value: 9}}";
    let rankings = read(&with("type: hf_tei_rankings", dataset)).dataset.rankings;
    let normal = Length::Normal {
        mean: 4.0,
        stddev: Some(1.0),
    };
    assert_eq!(
        (rankings.passages, rankings.passage_tokens, rankings.query_tokens),
        (Some(normal), Some(Length::Fixed(64)), Some(Length::Fixed(9)))
    );
}
