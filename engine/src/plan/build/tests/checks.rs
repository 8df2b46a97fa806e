//! A check refuses what a build refuses: everything that no request can be made from, before one is made.

use serde_json::json;

use super::*;
use crate::config::Length;

/// The config that the others differ from.
fn sound() -> Config {
    read(&format!("{HEAD}{ENDPOINT}{PHASES}"))
}

fn with_records(dataset: &str) -> Config {
    read(&format!(
        "benchmark:\n  model: m\n  dataset: {{type: file, {dataset}}}\n{ENDPOINT}{PHASES}"
    ))
}

/// What is refused of `config` changed by `change`, by a check and by a build.
fn refused(mut config: Config, change: impl Fn(&mut Config)) -> (String, String) {
    change(&mut config);
    let checked = check(&config, &options())
        .map(|_| ())
        .expect_err("the check refuses it");
    let built = build(&config, &options())
        .map(|_| ())
        .expect_err("the build refuses it");
    (checked.to_string(), built.to_string())
}

#[test]
fn every_error_of_rendering_is_found_by_a_check() {
    type Change = fn(&mut Config);
    // The config itself refuses most of these where they are written; here they are put behind its back.
    let changes: [(&str, Change); 14] = [
        ("endpoint.headers: \"a b\" is no header name", |config| {
            config.endpoint.headers.push(("a b".to_owned(), String::new()));
        }),
        ("the control character 0x0a", |config| {
            config.endpoint.headers.push(("X-A".to_owned(), "a\nb".to_owned()));
        }),
        ("endpoint.headers.Content-Length", |config| {
            config
                .endpoint
                .headers
                .push(("Content-Length".to_owned(), "1".to_owned()));
        }),
        ("endpoint.session_header: \"Host\"", |config| {
            config.endpoint.session_header = Some("Host".to_owned());
        }),
        ("the headers with ids take", |config| {
            config.endpoint.session_header = Some("X".repeat(300));
        }),
        ("endpoint.path: \"/a b\"", |config| {
            config.endpoint.path = Some("/a b".to_owned())
        }),
        ("endpoint.extra.stream", |config| {
            config.endpoint.extra.insert("stream".to_owned(), json!(false));
        }),
        ("endpoint.extra.messages", |config| {
            config.endpoint.extra.insert("messages".to_owned(), json!([]));
            config.dataset.turns = Some(Length::Fixed(2));
        }),
        ("has 2 turns", |config| {
            config.endpoint.kind = Some(EndpointKind::Completions);
            config.dataset.turns = Some(Length::Fixed(2));
        }),
        ("dataset.entries: found 0", |config| config.dataset.entries = Some(0)),
        ("dataset.prompts.isl.mean", |config| {
            config.dataset.isl = Some(Length::Normal {
                mean: -1.0,
                stddev: Some(0.0),
            });
        }),
        ("dataset.prompts.osl.stddev", |config| {
            config.dataset.osl = Some(Length::Normal {
                mean: 1.0,
                stddev: Some(f64::NAN),
            });
        }),
        ("dataset.prompts.isl: entry 0 would have", |config| {
            config.dataset.isl = Some(Length::Fixed(u32::MAX));
        }),
        ("requests of this length would take", |config| {
            config.dataset.entries = Some(100_000);
            config.dataset.isl = Some(Length::Fixed(100_000));
        }),
    ];
    for (expected, change) in changes {
        let (checked, built) = refused(sound(), change);
        assert_eq!(checked, built);
        assert!(checked.contains(expected), "{expected}: {checked}");
    }
    let (checked, built) = refused(with_records("records: [{text: a, role: tool}]"), |config| {
        config.endpoint.kind = Some(EndpointKind::Embeddings);
    });
    assert_eq!(checked, built);
    assert!(checked.contains("cannot be sent as type embeddings"), "{checked}");
}

#[test]
fn a_check_counts_the_requests_of_every_kind_of_dataset() {
    let of_turns = |turns: &str| read(&format!("{}{ENDPOINT}{PHASES}", HEAD.replace("isl", turns)));
    for (config, expected) in [
        (sound(), 3),
        (of_turns("turns: 4, isl"), 12),
        (
            with_records("records: [{text: a, session_id: s}, {text: b}, {text: c, session_id: s}]"),
            3,
        ),
        (with_records("entries: 1, records: [{text: a}, {text: b}]"), 1),
        (
            with_records("format: random_pool, entries: 7, records: [{text: a}, {text: b}]"),
            7,
        ),
        (
            with_records("format: multi_turn, records: [{turns: [{role: system, text: s}, {text: a}, {text: b}]}]"),
            2,
        ),
    ] {
        let outline = check(&config, &options()).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let plan = build(&config, &options()).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert_eq!(
            (outline.requests, plan.requests.entries.len()),
            (expected, expected as usize)
        );
    }
}
