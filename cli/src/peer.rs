//! Commands of the peer that ringload does not have: scripts reach it through a link of the peer's name, and are told what to do instead.

/// Names with the advice.
const REFUSED: &[(&str, &str)] = &[
    ("analyze", FIGURES),
    (
        "analyze-trace",
        "traces are not described; profile --dry-run with --input-file checks one and counts its requests",
    ),
    (
        "chat",
        "nobody types here; send one request with profile --request-count 1",
    ),
    (
        "kube",
        "there is no operator; run profile where the load is to come from",
    ),
    ("plot", FIGURES),
    ("plugins", "there are none; version lists the endpoint types"),
    ("proxy", PROCESSES),
    ("service", PROCESSES),
    ("speed-bench-report", FIGURES),
    (
        "synthesize",
        "no data set is written; profile makes synthetic prompts as it starts, or takes those of --input-file",
    ),
    (
        "validate",
        "config validate checks a config, and profile --dry-run with --input-file a trace",
    ),
];

const FIGURES: &str =
    "nothing is drawn or compared after a run; its figures are in profile_export_aiperf.json and profile_export.jsonl";
const PROCESSES: &str = "a run is one process; profile starts all that it needs";

/// The refusal of a command that the peer knows; `None` for one that nobody knows.
pub(crate) fn refusal(command: &str) -> Option<String> {
    let (_, advice) = REFUSED.iter().find(|(name, _)| *name == command)?;
    Some(format!("{command}: not supported by ringload: {advice}"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Args;

    #[test]
    fn a_command_works_or_is_refused_and_never_both() {
        for command in Args::command().get_subcommands() {
            assert_eq!(refusal(command.get_name()), None);
        }
        assert_eq!(refusal("polt"), None);
    }

    #[test]
    fn advice_names_flags_that_are_there() {
        let command = Args::command();
        let profile = command.find_subcommand("profile").expect("the command");
        let known: Vec<&str> = profile.get_arguments().filter_map(clap::Arg::get_long).collect();
        let words = REFUSED.iter().flat_map(|(_, advice)| advice.split_whitespace());
        let flags: Vec<&str> = words.filter_map(|word| word.strip_prefix("--")).collect();
        assert!(!flags.is_empty());
        assert!(flags.iter().all(|flag| known.contains(flag)), "{flags:?}");
    }
}
