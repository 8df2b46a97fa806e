//! Every flag that AIPerf knows either works or is refused by its name: none is a mystery to the command line.

use std::collections::BTreeSet;

use ringload_engine::config::{all_flags, refusal};

/// What `aiperf profile --help` of 0.13.0.dev20261023 lists.
const OF_AIPERF: &str = include_str!("aiperf_flags.txt");

/// Flags that the command line reads itself.
const OF_THE_COMMAND_LINE: [&str; 4] = ["--config", "-f", "--artifact-dir", "--output-artifact-dir"];

#[test]
fn every_flag_of_aiperf_works_or_is_refused_by_name() {
    let works: BTreeSet<String> = all_flags()
        .flat_map(|flag| {
            let names = std::iter::once(&flag.name).chain(flag.aliases);
            let letter = flag.short.map(|letter| format!("-{letter}"));
            names
                .map(|name| format!("--{name}"))
                .chain(flag.negation().map(|name| format!("--{name}")))
                .chain(letter)
                .collect::<Vec<String>>()
        })
        .chain(OF_THE_COMMAND_LINE.map(str::to_owned))
        .collect();
    let names: Vec<&str> = OF_AIPERF.lines().filter(|name| !name.is_empty()).collect();
    assert!(names.len() > 300, "only {} names", names.len());
    let mysteries: Vec<&str> = names
        .into_iter()
        .filter(|name| !works.contains(*name) && refusal(name).is_none())
        .collect();
    assert!(mysteries.is_empty(), "neither work nor are refused: {mysteries:?}");
}
