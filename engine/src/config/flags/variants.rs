//! `--variant`: a sweep whose variations are written one by one, each as flags without their dashes.
//!
//! A variation is the command line with its flags among the others, so it means what that command line means: a rate turns the phase into an open loop, and a
//! duration takes the place of the default number of requests.

use std::rc::Rc;

use serde_json::Value as Json;

use super::super::diagnostic::{Diagnostic, Sink, quote};
use super::super::schema::nearest;
use super::super::tree::{Node, Position, Style, Value};
use super::document::mapping_at;
use super::given::{Flags, Given, collection, scalar};
use super::overlay::{Overlaid, Overlay, edit, keys};
use super::table::{self, Flag, Group, Takes};

/// The flag.
const NAME: &str = "variant";

/// Flags beside those of load, warmup, data set and sessions that may vary.
const OTHERS: [&str; 2] = ["model", "streaming"];
/// Flags of these that may not: the document that the others are written over depends on them.
const FIXED: [&str; 2] = ["input-file", "custom-dataset-type"];

/// One variation as it is written.
#[derive(Debug)]
struct Variant {
    name: Option<String>,
    given: Vec<Given>,
}

impl Variant {
    /// `[NAME:] KEY=VALUE, KEY=VALUE`
    ///
    /// # Errors
    /// What is wrong with it.
    fn read(text: &str) -> Result<Self, String> {
        let (name, pairs) = match text.split_once(':') {
            Some((name, pairs)) if !name.contains('=') => (Some(name.trim()), pairs),
            _ => (None, text),
        };
        if name.is_some_and(str::is_empty) {
            return Err(format!("found no name before the colon of {}", quote(text)));
        }
        let mut given: Vec<Given> = Vec::new();
        for pair in pairs.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| {
                format!(
                    "found {}; allowed: flags with values, as in 'short: isl=128, concurrency=8'",
                    quote(pair)
                )
            })?;
            let one = pair_of(key.trim(), value.trim())?;
            if given.iter().any(|other| other.flag.name == one.flag.name) {
                return Err(format!("found {} twice; keep one", one.flag.long()));
            }
            given.push(one);
        }
        if given.is_empty() {
            return Err(format!(
                "found no flags in {}; allowed: flags with values, as in 'short: isl=128, concurrency=8'",
                quote(text)
            ));
        }
        Ok(Self {
            name: name.map(str::to_owned),
            given,
        })
    }

    /// What is reported as its parameters.
    fn values(&self) -> Vec<(String, Json)> {
        let value = |given: &Given| (given.flag.name.replace('-', "_"), given.node().to_json());
        self.given.iter().map(value).collect()
    }
}

fn may_vary(flag: &Flag) -> bool {
    let is_of_the_load = matches!(
        flag.group,
        Group::Load | Group::Warmup | Group::Dataset | Group::Sessions
    );
    (is_of_the_load && !FIXED.contains(&flag.name)) || OTHERS.contains(&flag.name)
}

fn pair_of(key: &str, value: &str) -> Result<Given, String> {
    let name = key.replace('_', "-");
    let known = |flag: &&'static Flag| flag.name == name || flag.aliases.contains(&name.as_str());
    let names = || table::all().filter(|flag| may_vary(flag)).map(|flag| flag.name);
    let Some((index, flag)) = table::all().enumerate().find(|(_, flag)| known(flag)) else {
        let underscored: Vec<String> = names().map(|name| name.replace('-', "_")).collect();
        let near = nearest(key, underscored.iter().map(String::as_str));
        let advice = near.map_or_else(
            || format!("allowed: {}", names().collect::<Vec<_>>().join(", ")),
            |near| format!("did you mean `{}`?", near.replace('_', "-")),
        );
        return Err(format!("found the unknown flag {}; {advice}", quote(key)));
    };
    if !may_vary(flag) {
        return Err(format!(
            "found {}, which does not vary here; allowed: {}; a `sweep` in a config file varies anything under `benchmark`",
            flag.long(),
            names().collect::<Vec<_>>().join(", ")
        ));
    }
    let quotes = |quote: char| value.strip_prefix(quote).and_then(|value| value.strip_suffix(quote));
    let value = quotes('\'').or_else(|| quotes('"')).unwrap_or(value);
    if value.is_empty() {
        return Err(match flag.takes {
            Takes::Switch => format!("found no value of {}; allowed: true or false", flag.long()),
            _ => format!("found no value of {}", flag.long()),
        });
    }
    Ok(Given {
        flag,
        at: Position::of_flag(index, 0),
        words: vec![value.to_owned()],
    })
}

/// The variations of a command line over a document; `None` without the flag, or after a report.
pub(super) fn overlay(
    envelope: &Rc<Node>,
    body: &Rc<Node>,
    flags: &Flags,
    has_file: bool,
    sink: &Sink,
) -> Option<Overlaid> {
    let given = flags.get(NAME)?;
    let variants = read(envelope, flags, given, sink)?;
    let runs = variants.iter().map(|variant| {
        let name = variant.name.as_ref().map(|name| ("name", given.text(name)));
        mapping_at(name.as_slice(), given.at)
    });
    let runs = collection(Value::Sequence(runs.collect()), given.at);
    let sweep = mapping_at(
        &[
            ("type", scalar("scenarios", Style::Substituted, given.at)),
            ("runs", runs),
        ],
        given.at,
    );
    let envelope = edit(Some(envelope), &keys("sweep"), given.at, Some(&sweep));
    let rest: Vec<&Given> = flags.iter().filter(|given| given.flag.name != NAME).collect();
    let mut mistakes = Mistakes::default();
    let mut all = Vec::new();
    for (index, variant) in variants.iter().enumerate() {
        let flags = Flags {
            given: rest.iter().copied().chain(&variant.given).cloned().collect(),
        };
        let own = Sink::default();
        let mut overlaid = Overlay::write(&envelope, body, &flags, has_file, &own);
        overlaid.values = variant.values();
        all.push(overlaid);
        let name = variant.name.clone().unwrap_or_else(|| format!("scenario_{index}"));
        mistakes.add(own, &name, sink);
    }
    mistakes.hand_over(variants.len(), sink);
    let mut first = all[0].clone();
    first.variants = all;
    Some(first)
}

/// Reads all of them; `None` after a report.
fn read(envelope: &Node, flags: &Flags, given: &Given, sink: &Sink) -> Option<Vec<Variant>> {
    let told = given.at.told();
    let mut wrong: Vec<(Position, String)> = Vec::new();
    if let Some(sweep) = envelope.get("sweep").filter(|node| !node.is_null()) {
        let place = sweep.start.told();
        wrong.push((
            given.at,
            format!("the config file has a sweep of its own ({place}); remove the flag"),
        ));
    }
    let mut variants = Vec::new();
    for word in &given.words {
        match Variant::read(word) {
            Ok(variant) => variants.push(variant),
            Err(message) => wrong.push((given.at, message)),
        }
    }
    if given.words.len() < 2 {
        let message = "found one variant, which is no sweep; add another one, or give its flags by themselves";
        wrong.push((given.at, message.to_owned()));
    }
    for other in flags.iter() {
        let is_own = |own: &Given| own.flag.name == other.flag.name;
        let message = if other.list().is_some() {
            format!("a list of values is a sweep, and {told} another; keep one")
        } else if other.flag.name == "sweep-type" {
            format!("says how lists are combined, and {told} has none; remove the flag")
        } else if variants
            .iter()
            .any(|variant: &Variant| variant.given.iter().any(is_own))
        {
            format!("{told} varies it too; write it in each variant, or in none")
        } else {
            continue;
        };
        wrong.push((other.at, message));
    }
    let is_good = wrong.is_empty();
    for (at, message) in wrong {
        sink.report(at, "", message);
    }
    is_good.then_some(variants)
}

/// What the variations report: each mistake once, with a variation that makes it unless all do.
#[derive(Default)]
struct Mistakes {
    found: Vec<(Diagnostic, String, usize)>,
    warned: Vec<String>,
}

impl Mistakes {
    fn add(&mut self, own: Sink, name: &str, sink: &Sink) {
        let (mistakes, warnings) = own.into_parts();
        for mistake in mistakes {
            match self.found.iter_mut().find(|(other, ..)| *other == mistake) {
                Some((_, _, count)) => *count += 1,
                None => self.found.push((mistake, name.to_owned(), 1)),
            }
        }
        for warning in warnings {
            if !self.warned.contains(&warning) {
                sink.warn(warning.clone());
                self.warned.push(warning);
            }
        }
    }

    fn hand_over(self, variants: usize, sink: &Sink) {
        for (mistake, name, count) in self.found {
            let at = Position {
                line: mistake.line,
                column: mistake.column,
            };
            let of = match count {
                count if count == variants => String::new(),
                _ => format!(" (in the variation {})", quote(&name)),
            };
            sink.report(at, &mistake.path, format!("{}{of}", mistake.message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Option<String>, String), String> {
        let variant = Variant::read(text)?;
        let pairs: Vec<String> = variant
            .given
            .iter()
            .map(|given| format!("{}={}", given.flag.name, given.word()))
            .collect();
        Ok((variant.name, pairs.join(" ")))
    }

    #[test]
    fn a_variant_is_a_name_and_flags_in_either_spelling() {
        for (text, name, pairs) in [
            ("a: isl=128, concurrency=8", Some("a"), "isl=128 concurrency=8"),
            (
                "request_rate=2.5,request-count = 7,",
                None,
                "request-rate=2.5 request-count=7",
            ),
            ("prompt-input-tokens-mean=4", None, "isl=4"),
            ("b c:model='x:y'", Some("b c"), "model=x:y"),
            ("model=x:y, streaming=false", None, "model=x:y streaming=false"),
        ] {
            assert_eq!(read(text), Ok((name.map(str::to_owned), pairs.to_owned())), "{text}");
        }
        let values = Variant::read("isl=8, streaming=true, benchmark_duration=5s")
            .expect("flags")
            .values();
        let expected = [
            ("isl", Json::from(8)),
            ("streaming", Json::from(true)),
            ("benchmark_duration", Json::from("5s")),
        ];
        assert_eq!(values, expected.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn what_is_no_variant_is_told_with_what_would_be_one() {
        for (text, words) in [
            ("", "found no flags in ``"),
            ("a:", "found no flags in `a:`"),
            (": isl=1", "found no name before the colon"),
            ("a: isl", "found `isl`; allowed: flags with values"),
            ("a: isl=", "found no value of --isl"),
            ("a: streaming=''", "allowed: true or false"),
            ("isl=1, prompt_input_tokens_mean=2", "found --isl twice"),
            ("concurency=1", "did you mean `concurrency`?"),
            ("x=1", "found the unknown flag `x`; allowed: "),
            ("api-key=1", "found --api-key, which does not vary here; allowed: "),
            ("input_file=x", "found --input-file, which does not vary here"),
            ("variant=x", "found --variant, which does not vary here"),
        ] {
            let message = read(text).expect_err(text);
            assert!(message.contains(words), "{text}: {message}");
        }
    }
}
