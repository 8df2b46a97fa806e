//! Flags of sweeps and trials.

use std::rc::Rc;

use super::super::address::Step;
use super::super::tree::{Entry, Node, Position, Style, Value};
use super::given::{Given, collection, scalar};
use super::overlay::{Overlay, keys};
use super::table::{Flag, Group, Writes};

use Group::Sweep;
use Writes::{Envelope, Special, Sweep as Rule};

pub(super) static FLAGS: &[Flag] = &[
    Flag::value(
        "num-profile-runs",
        "N",
        Sweep,
        Envelope("multi_run.num_runs"),
        "How often everything runs, from 1 to 10 [default: 1]",
    ),
    Flag::value(
        "profile-run-cooldown-seconds",
        "TIME",
        Sweep,
        Envelope("multi_run.cooldown_seconds"),
        "Pause between runs [default: 0]",
    ),
    Flag::value(
        "confidence-level",
        "N",
        Sweep,
        Envelope("multi_run.confidence_level"),
        "Confidence of intervals over runs, between 0 and 1 [default: 0.95]",
    ),
    Flag::switch(
        "profile-run-disable-warmup-after-first",
        Sweep,
        Envelope("multi_run.disable_warmup_after_first"),
        "Leave the warmup out after the first run [default: on]",
    ),
    Flag::switch(
        "set-consistent-seed",
        Sweep,
        Envelope("multi_run.set_consistent_seed"),
        "Use one seed for all runs when none is given [default: on]",
    ),
    Flag::switch(
        "vary-seed-per-trial",
        Sweep,
        Envelope("multi_run.vary_seed_per_trial"),
        "Draw prompts and arrivals anew in every run [default: off]",
    ),
    Flag::value(
        "convergence-metric",
        "METRIC",
        Sweep,
        Envelope("multi_run.convergence.metric"),
        "End the runs of a variation once this metric agrees between them, such as request_latency",
    )
    .more("--num-profile-runs is then the most runs. Two are the fewest."),
    Flag::value(
        "convergence-stat",
        "WORD",
        Sweep,
        Envelope("multi_run.convergence.stat"),
        "Statistic of that metric: avg, p50, p90, p95, p99, min, max [default: avg]",
    ),
    Flag::value(
        "convergence-threshold",
        "N",
        Sweep,
        Envelope("multi_run.convergence.threshold"),
        "From 0 to 1: largest ci_width or cv, or smallest p-value [default: 0.1 for ci_width, else 0.05]",
    ),
    Flag::value(
        "convergence-mode",
        "WORD",
        Sweep,
        Special,
        "How runs are compared: ci_width, cv, or distribution for their requests [default: ci_width]",
    ),
    Flag::value(
        "sweep-type",
        "WORD",
        Sweep,
        Rule("type"),
        "How lists are combined: grid, or zip for the first values, then the second ones [default: grid]",
    ),
    Flag::value(
        "parameter-sweep-mode",
        "WORD",
        Sweep,
        Rule("iteration_order"),
        "Order of cells: repeated, or independent for all runs of a variation at once [default: repeated]",
    ),
    Flag::switch(
        "parameter-sweep-same-seed",
        Sweep,
        Rule("same_seed"),
        "Give all variations the same seed [default: off]",
    ),
    Flag::value(
        "parameter-sweep-cooldown-seconds",
        "TIME",
        Sweep,
        Rule("cooldown_seconds"),
        "Pause between variations [default: 0]",
    ),
    Flag::values(
        "variant",
        "VARIANT",
        Sweep,
        Special,
        "One variation, as '[name:] key=value, key=value' with flags for keys; give two or more",
    )
    .aka(&["sweep-variant"])
    .more(
        "As in --variant 'short: isl=128, concurrency=64' --variant 'long: isl=8000, concurrency=4'. Keys are flags of load, warmup, data set and sessions, model \
         and streaming, without their dashes; - and _ are the same. No lists of values beside it, and no sweep of a config file.",
    ),
    Flag::switch(
        "no-sweep-table",
        Sweep,
        Envelope("no_sweep_table"),
        "Do not show a line for each finished cell",
    ),
];

/// Flags that say how the runs of one variation go on from each other.
const OF_TRIALS: [&str; 8] = [
    "profile-run-cooldown-seconds",
    "confidence-level",
    "profile-run-disable-warmup-after-first",
    "parameter-sweep-mode",
    "convergence-metric",
    "convergence-stat",
    "convergence-threshold",
    "convergence-mode",
];

/// Flags that say how runs are compared.
const OF_CONVERGENCE: [&str; 3] = ["convergence-stat", "convergence-threshold", "convergence-mode"];

/// Flags that say how several runs differ or are shown, whether of one variation or of several.
const OF_CELLS: [&str; 3] = ["set-consistent-seed", "vary-seed-per-trial", "no-sweep-table"];

impl Overlay<'_> {
    /// The lists of all flags, as a sweep or in the one of the file, and its rules.
    pub(super) fn write_sweep(&mut self) {
        let written = self.envelope.get("sweep").filter(|node| !node.is_null()).cloned();
        self.write_convergence();
        self.check_runs(written.is_some() || !self.lists.is_empty());
        let kind = self.get("sweep-type");
        if let (Some(kind), Some(sweep)) = (kind, &written) {
            let message = format!(
                "the config file has a sweep of its own ({}); remove the flag",
                sweep.start.told()
            );
            return self.mistake(kind.at, message);
        }
        if let Some(kind) = kind.filter(|kind| !matches!(kind.word(), "grid" | "zip")) {
            return self.refuse_word(kind, "grid, zip");
        }
        if self.lists.is_empty() && written.is_none() && self.get("variant").is_none() {
            for given in self
                .flags
                .iter()
                .filter(|given| matches!(given.flag.writes, Writes::Sweep(_)))
            {
                self.mistake(given.at, "there is no sweep for it; give a flag several values, as in --concurrency 1,8,64, or remove the flag");
            }
            return;
        }
        if !self.join_lists(written.as_ref(), kind) {
            return;
        }
        for given in self.flags.iter() {
            if let Writes::Sweep(key) = given.flag.writes {
                let steps = keys(&format!("sweep.{key}"));
                self.put_envelope(&steps, &given.node(), given.at);
            }
        }
    }

    /// How runs are compared, where there is something that is. The peer spells the words of the flag with `-`, those of the file with `_`.
    fn write_convergence(&mut self) {
        let metric = keys("multi_run.convergence.metric");
        if let Some(mode) = self.get("convergence-mode") {
            let steps = keys("multi_run.convergence.mode");
            self.put_envelope(&steps, &mode.scalar(&mode.word().replace('-', "_")), mode.at);
        }
        let rule = self
            .envelope
            .get("multi_run")
            .and_then(|runs| runs.get("convergence").cloned());
        // What is there and no mapping is a mistake of the file, and is told there.
        let is_complete =
            rule.is_none_or(|rule| !matches!(rule.value, Value::Mapping(_)) || rule.get("metric").is_some());
        if is_complete {
            return;
        }
        let mut without = false;
        for name in OF_CONVERGENCE {
            if let Some(given) = self.get(name) {
                without = true;
                self.mistake(
                    given.at,
                    "says how runs are compared, and nothing is; add --convergence-metric, or remove the flag",
                );
            }
        }
        if without {
            // Told once.
            let told = Rc::new(Node::placeholder(Position::NOWHERE));
            self.put_envelope(&metric, &told, Position::NOWHERE);
        }
    }

    /// Rules of several runs, where there is one.
    fn check_runs(&mut self, has_sweep: bool) {
        let runs = self
            .envelope
            .get("multi_run")
            .and_then(|section| section.get("num_runs").cloned());
        // What cannot be read is refused where it is read, or is a template.
        let has_trials = runs.is_some_and(|runs| runs.scalar().is_none_or(|runs| runs.text.trim().parse() != Ok(1.0)));
        for name in OF_TRIALS {
            if let (Some(given), false) = (self.get(name), has_trials) {
                self.mistake(
                    given.at,
                    "nothing runs more than once; add --num-profile-runs, or remove the flag",
                );
            }
        }
        if !has_trials && self.get("convergence-metric").is_some() {
            // That there are no runs to compare has been told.
            let none = scalar("null", Style::Plain, Position::NOWHERE);
            self.put_envelope(&keys("multi_run.convergence"), &none, Position::NOWHERE);
        }
        for name in OF_CELLS {
            if let (Some(given), false) = (self.get(name), has_trials || has_sweep) {
                let message = "there is one run; add --num-profile-runs, give a flag several values as in --concurrency 1,8,64, or remove the flag";
                self.mistake(given.at, message);
            }
        }
    }

    fn join_lists(&mut self, written: Option<&Rc<Node>>, kind: Option<&Given>) -> bool {
        let lists = std::mem::take(&mut self.lists);
        let Some((first, ..)) = lists.first() else { return true };
        match written {
            Some(sweep) if !is_grid(sweep) => {
                for (at, ..) in &lists {
                    let message = format!(
                        "a list of values joins a sweep of type grid, and that of the config file is another ({}); give one value, or put the list there",
                        sweep.start.told()
                    );
                    self.mistake(*at, message);
                }
                return false;
            }
            Some(_) => {}
            None if kind.is_none() => {
                self.put_envelope(&keys("sweep.type"), &scalar("grid", Style::Substituted, *first), *first)
            }
            None => {}
        }
        let parameters = Step::Key("parameters".into());
        let old = self
            .envelope
            .get("sweep")
            .and_then(|sweep| sweep.get("parameters"))
            .cloned();
        let mut entries = match old.as_ref().map(|node| &node.value) {
            Some(Value::Mapping(entries)) => entries.clone(),
            Some(_) => return true,
            None => Vec::new(),
        };
        for (at, path, values) in lists {
            entries.push(Entry {
                key: path,
                key_at: at,
                value: collection(Value::Sequence(values), at),
                merged: false,
            });
        }
        let at = entries.first().map_or(Position::NOWHERE, |entry| entry.key_at);
        let made = match &old {
            Some(old) => Node::made(old, Value::Mapping(entries)),
            None => collection(Value::Mapping(entries), at),
        };
        let steps = [Step::Key("sweep".into()), parameters];
        self.put_envelope(&steps, &made, at);
        true
    }
}

fn is_grid(sweep: &Node) -> bool {
    let kind = sweep.get("type").and_then(|node| node.scalar());
    kind.is_some_and(|kind| kind.text == "grid")
}
