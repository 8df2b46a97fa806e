//! Any flags over any file get an answer, and a refusal says something.

use proptest::prelude::*;
use ringload_engine::config::{self, Flags, Takes, all_flags};
use ringload_engine::plan::{BuildOptions, build};

use super::{GRID, ONE, OPEN, SCENARIOS, TWO, WARM};

/// Words that are right for some flag, and words that are right for none.
const WORDS: [&str; 22] = [
    "",
    "0",
    "1",
    "8",
    "-1",
    "1.5",
    "1,2",
    ",",
    "x",
    "nan",
    "inf",
    "30s",
    "true",
    "poisson",
    "gamma",
    "zip",
    "a:1",
    "{\"a\": [1]}",
    "{",
    "/x",
    "http://h",
    "/no/such/file",
];

/// Files in the forms of the format, and files that are wrong where flags write.
fn files() -> Vec<Option<String>> {
    let forms = [
        ("phases:\n    - {name: steady, kind: profiling, ", "phases:\n    {"),
        ("phases:\n    - {name: steady, kind: profiling, ", "profiling:\n    {"),
        ("  dataset: {", "  datasets:\n  - {name: d, "),
        ("isl: 16", "prompts: {isl: {mean: 5}}"),
        ("  model: m\n", "  model: [m]\n  tokenizer: builtin\n  artifacts:\n"),
        ("concurrency: 4", "concurrency: ${C:4}"),
        ("{entries: 4, isl: 16, osl: 8}", "[]"),
        ("streaming: true", "reset_kv_cache: 5"),
        ("requests: 20", "requests: \"{{ concurrency }}\""),
    ];
    let changed = forms.into_iter().map(|(from, to)| ONE.replace(from, to));
    let whole = [
        ONE,
        TWO,
        WARM,
        OPEN,
        GRID,
        SCENARIOS,
        "benchmark: 5",
        "benchmark: {phases: {}}",
        "model: m\nphases: []",
    ]
    .map(str::to_owned);
    changed.chain(whole).map(Some).chain([None]).collect()
}

fn given(choices: &[(prop::sample::Index, prop::sample::Index)]) -> Flags {
    let all: Vec<_> = all_flags().collect();
    let mut flags = Flags::default();
    for (flag, word) in choices {
        let flag = flag.get(&all);
        let word = word.get(&WORDS);
        let words = if flag.takes == Takes::Switch && word.is_empty() {
            Vec::new()
        } else {
            vec![(*word).to_owned()]
        };
        // The same one twice is refused, and that is fine.
        let _ = flags.add(&flag.long(), words);
    }
    flags
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_flags_over_any_file_get_an_answer(
        file in any::<prop::sample::Index>(),
        choices in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 1..6),
    ) {
        let flags = given(&choices);
        let read = match file.get(&files()) {
            Some(text) => config::parse_suite_with("f.yaml", text.as_bytes(), &|_| None, &flags),
            None => config::suite_of_flags(&flags),
        };
        let built = read.and_then(|suite| if suite.is_single() { build(&suite.into_single()?, &BuildOptions::default()).map(|_| ()) } else { Ok(()) });
        if let Err(mistakes) = built {
            prop_assert!(mistakes.render(true).lines().all(|line| !line.trim().is_empty()), "{}", mistakes.render(true));
        }
    }
}
