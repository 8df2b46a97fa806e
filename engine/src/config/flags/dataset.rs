//! Flags of prompts and conversations.

use std::rc::Rc;

use super::super::address::Step;
use super::super::tree::{Node, Position, Value};
use super::document::{mapping, mapping_at};
use super::given::Given;
use super::overlay::{Overlay, below, keys, quoted};
use super::sequence;
use super::table::{Flag, Group, Writes};

use Group::{Dataset, Sessions, Unlisted};
use Writes::{Benchmark, Dataset as Prompts, Special};

pub(super) static FLAGS: &[Flag] = &[
    Flag::value(
        "isl",
        "N",
        Dataset,
        Prompts("isl"),
        "Tokens of a synthetic prompt, or a list to sweep [default: 550]",
    )
    .aka(&["prompt-input-tokens-mean", "synthetic-input-tokens-mean"])
    .list(),
    Flag::value(
        "isl-stddev",
        "N",
        Dataset,
        Special,
        "Standard deviation of --isl, or a list to sweep [default: 0]",
    )
    .aka(&["prompt-input-tokens-stddev", "synthetic-input-tokens-stddev"])
    .list(),
    Flag::value(
        "osl",
        "N",
        Dataset,
        Prompts("osl"),
        "Tokens of an answer, or a list to sweep [default: as the server likes]",
    )
    .aka(&["output-tokens-mean", "prompt-output-tokens-mean"])
    .list(),
    Flag::value(
        "osl-stddev",
        "N",
        Dataset,
        Special,
        "Standard deviation of --osl, or a list to sweep [default: 0]",
    )
    .aka(&["output-tokens-stddev", "prompt-output-tokens-stddev"])
    .list(),
    Flag::value(
        "seq-dist",
        "PAIRS",
        Dataset,
        Prompts("prompts.sequence_distribution"),
        "Pairs of --isl and --osl with percentages, drawn together, as in \"256,128:60;512|20,256|40:40\"",
    )
    .aka(&["sequence-distribution"])
    .more(
        "What follows a | is a standard deviation. Also as \"[(256,128):60,(512,256):40]\", or as JSON: \
         {\"pairs\": [{\"isl\": 256, \"isl_stddev\": 10, \"osl\": 128, \"osl_stddev\": 5, \"prob\": 60}, ...]}. Percentages sum up to 100; \
         fractions that sum up to 1 mean the same.",
    ),
    Flag::value(
        "random-range-ratio",
        "N",
        Dataset,
        Prompts("prompts.random_range_ratio"),
        "How far lengths lie from --isl and --osl, evenly spread, as a share of them",
    ),
    Flag::value(
        "random-corpus-style",
        "WORD",
        Dataset,
        Prompts("prompts.random_corpus_style"),
        "What --random-range-ratio R means: vllm, from N(1-R) to N(1+R), or sglang, from NR to N [default: vllm]",
    ),
    Flag::value(
        "num-dataset-entries",
        "N",
        Dataset,
        Prompts("entries"),
        "Different prompts [default: 100, or as many as requests; of a file: all]",
    )
    .aka(&["num-prompts"])
    .more(
        "Without a config file the default is the number of --num-conversations, else of --request-count, from 100 to 10,000, so that no prompt \
         is found in the server's cache because it was sent before.",
    ),
    Flag::value(
        "input-file",
        "FILE",
        Dataset,
        Prompts("path"),
        "Prompts from a JSONL file instead of synthetic ones",
    )
    .more("With a config file, that must have a dataset of type file."),
    Flag::value(
        "custom-dataset-type",
        "FORMAT",
        Dataset,
        Prompts("format"),
        "Records of --input-file: single_turn, multi_turn, mooncake_trace, random_pool [default: single_turn]",
    ),
    Flag::value(
        "dataset-sampling-strategy",
        "WORD",
        Dataset,
        Prompts("sampling"),
        "Order of prompts: sequential, shuffle or random [default: sequential]",
    ),
    Flag::value(
        "isl-block-size",
        "N",
        Dataset,
        Prompts("block_size"),
        "Tokens of a block that a mooncake_trace numbers [default: 512]",
    )
    .aka(&["prompt-input-tokens-block-size", "synthetic-input-tokens-block-size"]),
    Flag::switch(
        "ignore-trace-delays",
        Dataset,
        Prompts("ignore_trace_delays"),
        "Send the turns of --input-file one after the other, without their timestamps and delays",
    )
    .more("A trace with timestamps is then not replayed, but sent like any other prompts."),
    Flag::value(
        "inter-turn-delay-cap-seconds",
        "TIME",
        Dataset,
        Prompts("inter_turn_delay_cap_seconds"),
        "Longest wait between two turns of --input-file [default: none]",
    ),
    Flag::value(
        "synthesis-speedup-ratio",
        "N",
        Dataset,
        Prompts("synthesis.speedup_ratio"),
        "What timestamps and delays of --input-file are divided by [default: 1]",
    ),
    Flag::value(
        "synthesis-prefix-len-multiplier",
        "N",
        Dataset,
        Prompts("synthesis.prefix_len_multiplier"),
        "What the length of the shared beginnings of a trace is multiplied with [default: 1]",
    ),
    Flag::value(
        "synthesis-prefix-root-multiplier",
        "N",
        Dataset,
        Prompts("synthesis.prefix_root_multiplier"),
        "Over how many sets that share nothing a trace is spread [default: 1]",
    ),
    Flag::value(
        "synthesis-prompt-len-multiplier",
        "N",
        Dataset,
        Prompts("synthesis.prompt_len_multiplier"),
        "What the length of prompts of a trace is multiplied with, behind what they share [default: 1]",
    ),
    Flag::value(
        "synthesis-output-len-multiplier",
        "N",
        Dataset,
        Prompts("synthesis.output_len_multiplier"),
        "What the tokens that records ask for are multiplied with [default: 1]",
    ),
    Flag::value(
        "synthesis-max-isl",
        "N",
        Dataset,
        Prompts("synthesis.max_isl"),
        "Leave out records of a trace with longer prompts [default: none]",
    ),
    Flag::value(
        "synthesis-max-osl",
        "N",
        Dataset,
        Prompts("synthesis.max_osl"),
        "Most tokens that a record may ask for; more become this [default: none]",
    ),
    Flag::value(
        "prompt-batch-size",
        "N",
        Dataset,
        Prompts("prompts.batch_size"),
        "Texts of a request, each drawn by itself [default: 1]",
    )
    .short('b')
    .aka(&["batch-size-text", "batch-size"]),
    Flag::value(
        "rankings-passages-mean",
        "N",
        Dataset,
        Prompts("rankings.passages"),
        "Passages of a ranking request [default: 10]",
    ),
    Flag::value(
        "rankings-passages-stddev",
        "N",
        Dataset,
        Special,
        "Standard deviation of the passages [default: 0]",
    ),
    Flag::value(
        "rankings-passages-prompt-token-mean",
        "N",
        Dataset,
        Prompts("rankings.passage_tokens"),
        "Tokens of a passage [default: 128]",
    ),
    Flag::value(
        "rankings-passages-prompt-token-stddev",
        "N",
        Dataset,
        Special,
        "Standard deviation of a passage's tokens [default: 0]",
    ),
    Flag::value(
        "rankings-query-prompt-token-mean",
        "N",
        Dataset,
        Prompts("rankings.query_tokens"),
        "Tokens of a query [default: 32]",
    ),
    Flag::value(
        "rankings-query-prompt-token-stddev",
        "N",
        Dataset,
        Special,
        "Standard deviation of a query's tokens [default: 0]",
    ),
    Flag::value(
        "tokenizer",
        "NAME",
        Dataset,
        Special,
        "Tokenizer of synthetic prompts: builtin",
    ),
    Flag::value(
        "tokenizer-revision",
        "NAME",
        Unlisted,
        Benchmark("tokenizer.revision"),
        "Revision of the tokenizer",
    ),
    Flag::switch(
        "tokenizer-trust-remote-code",
        Unlisted,
        Benchmark("tokenizer.trust_remote_code"),
        "Run the tokenizer's code",
    ),
    Flag::switch(
        "apply-chat-template",
        Unlisted,
        Benchmark("tokenizer.apply_chat_template"),
        "Count the chat template",
    ),
    Flag::value(
        "system-prompt",
        "TEXT",
        Dataset,
        Prompts("system_prompt"),
        "What the system says in front of every conversation",
    ),
    Flag::value(
        "system-prompt-file",
        "FILE",
        Dataset,
        Prompts("system_prompt_file"),
        "A text file that says it",
    ),
    Flag::value(
        "num-prefix-prompts",
        "N",
        Dataset,
        Prompts("prefix_prompts.pool_size"),
        "Different texts, of which each conversation begins with one [default: 0, none]",
    )
    .aka(&["prefix-prompt-pool-size", "prompt-prefix-pool-size"]),
    Flag::value(
        "prefix-prompt-length",
        "N",
        Dataset,
        Prompts("prefix_prompts.length"),
        "Tokens of each of these texts [default: 0, none]",
    )
    .aka(&["prompt-prefix-length"]),
    Flag::value(
        "shared-system-prompt-length",
        "N",
        Dataset,
        Prompts("prefix_prompts.shared_system_length"),
        "Tokens of a system message that all conversations have",
    ),
    Flag::value(
        "user-context-prompt-length",
        "N",
        Dataset,
        Prompts("prefix_prompts.user_context_length"),
        "Tokens of a message in front of the first turn, of each conversation its own",
    ),
    Flag::value(
        "session-turns-mean",
        "N",
        Sessions,
        Prompts("turns"),
        "Turns of a conversation, or a list to sweep [default: 1]",
    )
    .aka(&["conversation-turn-mean"])
    .list(),
    Flag::value(
        "session-turns-stddev",
        "N",
        Sessions,
        Special,
        "Standard deviation of the turns [default: 0]",
    )
    .aka(&["conversation-turn-stddev"]),
    Flag::value(
        "session-turn-delay-mean",
        "MS",
        Sessions,
        Prompts("turn_delay"),
        "Milliseconds between an answer and the next turn [default: 0]",
    )
    .aka(&["conversation-turn-delay-mean"]),
    Flag::value(
        "session-turn-delay-stddev",
        "MS",
        Sessions,
        Special,
        "Standard deviation of the delay, in milliseconds [default: 0]",
    )
    .aka(&["conversation-turn-delay-stddev"]),
    Flag::value(
        "session-delay-ratio",
        "N",
        Sessions,
        Prompts("turn_delay_ratio"),
        "What every delay is multiplied with [default: 1]",
    )
    .aka(&["conversation-turn-delay-ratio"]),
];

/// Flags of distributions: mean, deviation, and the key that both write.
const DISTRIBUTIONS: [(&str, &str, &str); 7] = [
    ("isl", "isl-stddev", "isl"),
    ("osl", "osl-stddev", "osl"),
    ("session-turns-mean", "session-turns-stddev", "turns"),
    ("session-turn-delay-mean", "session-turn-delay-stddev", "turn_delay"),
    (
        "rankings-passages-mean",
        "rankings-passages-stddev",
        "rankings.passages",
    ),
    (
        "rankings-passages-prompt-token-mean",
        "rankings-passages-prompt-token-stddev",
        "rankings.passage_tokens",
    ),
    (
        "rankings-query-prompt-token-mean",
        "rankings-query-prompt-token-stddev",
        "rankings.query_tokens",
    ),
];

/// Flags of the pool of beginnings.
const POOL: [&str; 2] = ["num-prefix-prompts", "prefix-prompt-length"];

/// Flags of datasets that come from a file.
const OF_FILES: [&str; 2] = ["input-file", "custom-dataset-type"];

impl Overlay<'_> {
    /// Prompts and conversations.
    pub(super) fn write_dataset(&mut self) {
        let (steps, path) = match self.at(&keys("datasets")).map(|node| &node.value) {
            Some(Value::Sequence(items)) if !items.is_empty() => {
                (vec![Step::Key("datasets".into()), Step::Item(0)], "datasets.0")
            }
            // A file without a dataset is a mistake of the file, and told there.
            _ if self.at(&keys("dataset")).is_none() => return,
            _ => (keys("dataset"), "dataset"),
        };
        let is_file = self.check_file(&steps);
        for given in self.flags.iter() {
            // Refused already, and the rules of the section would refuse it a second time.
            if !is_file && OF_FILES.contains(&given.flag.name) {
                continue;
            }
            let Writes::Dataset(key) = given.flag.writes else {
                continue;
            };
            if DISTRIBUTIONS.iter().any(|(mean, ..)| *mean == given.flag.name) {
                continue;
            }
            if key == "path" {
                self.remove(&below(&steps, "records"));
            }
            // The peer's defaults, by which there is no pool.
            if POOL.contains(&given.flag.name) && given.word().trim() == "0" {
                self.remove(&below(&steps, key));
                continue;
            }
            if given.flag.name == "seq-dist" {
                match sequence::pairs(given) {
                    Ok(pairs) => self.put(&below(&steps, key), &pairs, given.at),
                    Err(reason) => self.mistake(given.at, format!("found {}; {reason}", quoted(given))),
                }
                continue;
            }
            self.put(&below(&steps, key), &given.node(), given.at);
        }
        for (mean, stddev, key) in DISTRIBUTIONS {
            self.write_distribution(&steps, path, key, self.get(mean), self.get(stddev), mean);
        }
        self.check_turns(&steps, path);
        self.check_limit(&steps, path, is_file);
    }

    /// Whether a dataset has this key, or a list of values for it.
    fn has(&self, steps: &[Step], path: &str, key: &str) -> bool {
        let listed = format!("{path}.{key}");
        self.at(&below(steps, key)).is_some_and(|node| !node.is_null())
            || self.lists.iter().any(|(_, path, _)| path.starts_with(&listed))
    }

    /// Delays are those between turns.
    fn check_turns(&self, steps: &[Step], path: &str) {
        let turns = self.at(&below(steps, "turns")).and_then(|turns| turns.scalar());
        let is_single = turns.is_some_and(|turns| turns.text.trim().parse() == Ok(1.0));
        let has_turns = self.has(steps, path, "turns") && !is_single;
        for name in ["session-turn-delay-mean", "session-turn-delay-stddev"] {
            if let (Some(given), false) = (self.get(name), has_turns) {
                let message = "conversations have one turn, so there is nothing between turns; add --session-turns-mean, or remove the flag";
                self.mistake(given.at, message);
            }
        }
        if let (Some(given), false) = (self.get("session-delay-ratio"), self.has(steps, path, "turn_delay")) {
            self.mistake(
                given.at,
                "there is no delay to multiply; add --session-turn-delay-mean, or remove the flag",
            );
        }
    }

    /// Records of a file may bring limits of their own.
    fn check_limit(&self, steps: &[Step], path: &str, is_file: bool) {
        let has_limit = is_file
            || ["osl", "prompts.osl", "prompts.sequence_distribution"]
                .iter()
                .any(|key| self.has(steps, path, key));
        let given = self.get("use-legacy-max-tokens");
        if let (Some(given), false) = (given.filter(|given| given.is_on() == Some(true)), has_limit) {
            let message = "no request has a limit of tokens, which this names; add --osl, or remove the flag";
            self.mistake(given.at, message);
        }
    }

    /// Whether prompts come from a file; a flag does not change that.
    fn check_file(&mut self, steps: &[Step]) -> bool {
        let kind = self.at(&below(steps, "type"));
        let is_file = kind
            .and_then(|node| node.scalar())
            .is_some_and(|kind| kind.text == "file");
        let place = kind.map(|node| node.start.told());
        if is_file {
            return true;
        }
        for name in OF_FILES {
            let Some(given) = self.get(name) else { continue };
            let message = match &place {
                _ if !self.has_file => {
                    "says what the records of --input-file are; add that flag, or remove this one".to_owned()
                }
                Some(place) => format!(
                    "the dataset of the config file is not of type file ({place}); write type: file there, or remove the flag"
                ),
                None => {
                    "the dataset of the config file is not of type file; write type: file there, or remove the flag"
                        .to_owned()
                }
            };
            self.mistake(given.at, message);
        }
        false
    }

    fn write_distribution(
        &mut self,
        dataset: &[Step],
        path: &str,
        key: &str,
        mean: Option<&Given>,
        stddev: Option<&Given>,
        mean_flag: &str,
    ) {
        if mean.is_none() && stddev.is_none() {
            return;
        }
        // Lengths of prompts have two places in the file.
        let long = format!("prompts.{key}");
        let is_length = matches!(key, "isl" | "osl");
        let is_long = is_length
            && (self.at(&below(dataset, &long)).is_some()
                || (self.at(&below(dataset, "prompts")).is_some() && self.at(&below(dataset, key)).is_none()));
        let key = if is_long { long.as_str() } else { key };
        let home = below(dataset, key);
        let old = self.at(&home).cloned();
        let is_normal = old
            .as_ref()
            .is_some_and(|old| old.get("mean").is_some() && old.get("median").is_none());
        if let (Some(mean), None) = (mean, stddev) {
            let is_list = mean.list().is_some();
            // A list takes the place of the default as a whole: its cells are named after the key that varies.
            let is_default = old.as_ref().is_some_and(|old| old.start == Position::NOWHERE);
            let replaces = if is_list { !is_normal || is_default } else { !is_normal };
            if replaces && (is_list || !is_length) {
                return self.write_or_list(&home, format!("{path}.{key}"), mean);
            }
            if replaces {
                // A normal distribution that does not vary, as the peer writes it.
                return self.put(&home, &mapping_at(&[("mean", mean.node())], mean.at), mean.at);
            }
        }
        let is_scalar = old.as_ref().is_some_and(|old| old.scalar().is_some());
        if let (Some(stddev), None, false, false) = (stddev, mean, is_normal, is_scalar) {
            let message = match old {
                None => format!("there is no mean for it; add --{mean_flag}"),
                Some(old) => format!(
                    "the config file has another distribution there ({}); add --{mean_flag} to replace it, or remove the flag",
                    old.start.told()
                ),
            };
            return self.mistake(stddev.at, message);
        }
        if !is_normal {
            let start: Rc<Node> = match &old {
                Some(old) if is_scalar => mapping(&[("mean", Rc::clone(old))]),
                _ => mapping(&[]),
            };
            let at = stddev.or(mean).map_or(start.start, |given| given.at);
            self.place(&home, &start, at);
        }
        for (given, part) in [(mean, "mean"), (stddev, "stddev")] {
            if let Some(given) = given {
                self.write_or_list(&below(&home, part), format!("{path}.{key}.{part}"), given);
            }
        }
    }

    /// A value, or a list of them for the sweep.
    pub(super) fn write_or_list(&mut self, steps: &[Step], path: String, given: &Given) {
        match given.list() {
            Some(values) => self.lists.push((given.at, path, values)),
            None => self.put(steps, &given.node(), given.at),
        }
    }

    /// Whether the first record of the file of a command line has a timestamp.
    pub(super) fn is_timed_trace(&self) -> bool {
        let is_trace = self
            .get("custom-dataset-type")
            .is_some_and(|given| given.word() == "mooncake_trace");
        match self.get("input-file") {
            Some(file) if is_trace => first_record(file.word())
                .is_some_and(|record| record.get("timestamp").is_some_and(|time| !time.is_null())),
            _ => false,
        }
    }

    /// A word in a message, for flags whose words are checked before the field is known.
    pub(super) fn refuse_word(&self, given: &Given, allowed: &str) {
        self.mistake(given.at, format!("found {}; allowed: {allowed}", quoted(given)));
    }
}

/// The first line of a JSONL file that says something. What is wrong with the file is told by its own reader.
fn first_record(path: &str) -> Option<serde_json::Value> {
    use std::io::{BufRead as _, BufReader, Read as _};
    /// Longest record that is looked at.
    const LIMIT: u64 = 16 << 20;
    let file = std::fs::File::open(path)
        .ok()
        .filter(|file| file.metadata().is_ok_and(|metadata| metadata.is_file()))?;
    let lines = BufReader::new(file.take(LIMIT)).lines();
    let line = lines.map_while(Result::ok).find(|line| !line.trim().is_empty())?;
    serde_json::from_str(line.trim_start_matches('\u{feff}')).ok()
}
