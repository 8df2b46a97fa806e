//! Whatever the bytes, the reader answers: a config, or mistakes that have a place in the file.

use std::sync::OnceLock;

use proptest::prelude::*;

use super::*;

/// A file that uses every section.
const FULL: &str = "\
schemaVersion: \"2.0\"
randomSeed: 7
benchmark:
  model: org/m
  endpoint:
    url: http://user:pw@h:8000/v1
    type: chat
    streaming: yes
    timeout: 1m30s
    headers: {X-A: 5, Cookie: c}
    extra: {temperature: 0.5, stop: [a, \"b\"]}
    reset_kv_cache: {path: /r, timeout_seconds: 5}
    server_profiler: true
  dataset: &d {type: synthetic, entries: 4, prompts: {isl: {mean: 16, stddev: 2, max: 40}, osl: {peaks: [{mean: 8, median: 6, weight: 2}, {points: [{value: 3}]}]}}}
  phases:
    - &p {name: warmup, type: concurrency, concurrency: 2, requests: 4}
    - {<<: *p, name: load, kind: profiling, duration: 2s, grace_period: inf, cancellation: {rate: 5}}
    - {name: tail, kind: profiling, type: poisson, rate: \"${RATE:2.5}\", sessions: 4, seamless: true}
    - {name: curve, kind: profiling, type: gamma, smoothness: 2, rate_series: [{time_s: 0, qps: 1}, {time_s: 9, qps: 2}], sessions: 4}
    - {name: climb, kind: profiling, type: constant, rate: 5, rate_ramp: {duration: 2s}, concurrency: 3, on_cap: drop, requests: 9}
  artifacts: {dir: ./x, prefix: y, summary: [json], records: false}
  runtime: {ui: none}
  tokenizer: {name: builtin}
";

/// Reads and checks that an answer of mistakes can be shown and has places.
fn answer(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Err(mistakes) = parse("f.yaml", bytes, &environment) {
        prop_assert!(mistakes.iter().next().is_some());
        prop_assert!(
            mistakes.iter().all(|mistake| mistake.line >= 1 && mistake.column >= 1),
            "{}",
            mistakes
        );
        prop_assert!(!mistakes.render(true).is_empty());
        let places: Vec<_> = mistakes.iter().map(|mistake| (mistake.line, mistake.column)).collect();
        prop_assert!(places.is_sorted());
    }
    Ok(())
}

/// Pieces of the language that are likely to meet trouble where they do not belong.
fn fragment() -> impl Strategy<Value = &'static str> {
    static PIECES: OnceLock<Vec<&str>> = OnceLock::new();
    let pieces = PIECES.get_or_init(|| {
        vec![
            "{",
            "}",
            "[",
            "]",
            ":",
            ": ",
            "- ",
            "\n",
            "\n  ",
            "\t",
            "&a ",
            "*a",
            "<<: *a",
            "!!str ",
            "!x ",
            "|\n",
            ">\n",
            "'",
            "\"",
            "? ",
            ",",
            "#",
            "---\n",
            "...\n",
            "${",
            "${X}",
            "${X:1}",
            "{{ x }}",
            "%YAML 1.1\n",
            "null",
            "~",
            "true",
            "010",
            "1:30",
            ".inf",
            ".nan",
            "-1",
            "1e400",
            "\u{0}",
            "\u{feff}",
            "\u{2028}",
            "\u{85}",
            "\r",
            "sweep",
            "url",
            "name",
            "phases",
            "type",
            "9999999999999999999999",
            "\\x",
        ]
    });
    prop::sample::select(pieces.as_slice())
}

#[test]
fn the_full_file_is_accepted() {
    assert_eq!(read(FULL).phases.len(), 5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn arbitrary_bytes_get_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        answer(&bytes)?;
    }

    #[test]
    fn arbitrary_yaml_like_text_gets_an_answer(pieces in prop::collection::vec(fragment(), 0..60)) {
        answer(pieces.concat().as_bytes())?;
    }

    #[test]
    fn a_valid_file_with_a_changed_piece_gets_an_answer(
        at in 0..FULL.len(),
        removed in 0usize..12,
        inserted in prop::collection::vec(fragment(), 0..3),
    ) {
        let end = (at + removed).min(FULL.len());
        let text = [&FULL.as_bytes()[..at], inserted.concat().as_bytes(), &FULL.as_bytes()[end..]].concat();
        answer(&text)?;
    }

    #[test]
    fn a_value_replaced_by_any_scalar_gets_an_answer(line in 0..FULL.lines().count(), value in "[ -~]{0,20}") {
        let replaced: Vec<String> = FULL
            .lines()
            .enumerate()
            .map(|(index, text)| match text.split_once(": ") {
                Some((key, _)) if index == line => format!("{key}: {value}"),
                _ => text.to_owned(),
            })
            .collect();
        answer(replaced.join("\n").as_bytes())?;
    }

    #[test]
    fn any_whole_number_in_range_is_read_back(requests in 1..=u64::MAX) {
        prop_assert_eq!(phase(&format!("type: concurrency, requests: {requests}")).requests, Some(requests));
    }
}
