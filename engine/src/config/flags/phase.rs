//! Flags of one phase over what is there: which type it becomes, and which of its keys that type does not have.

use std::rc::Rc;

use super::super::address::{Step, phases};
use super::super::tree::{Node, Position, Style, Value};
use super::given::{Given, scalar};
use super::overlay::{Overlay, below};
use super::table::Writes;

/// Requests of a phase that nothing else ends, as long as nobody has written a file.
const REQUESTS: &str = "10";

/// Flags that say when requests start. `--fixed-schedule` counts while it is on.
const PATTERNS: [&str; 6] = [
    "request-rate",
    "request-rate-series",
    "arrival-pattern",
    "arrival-smoothness",
    "user-centric-rate",
    "fixed-schedule",
];

/// Words of `--arrival-pattern`, and the types of phases that they stand for.
const ARRIVALS: [(&str, &str); 4] = [
    ("concurrency_burst", "concurrency"),
    ("constant", "constant"),
    ("gamma", "gamma"),
    ("poisson", "poisson"),
];

/// Keys that phases of a type do not have.
fn foreign(kind: &str) -> &'static [&'static str] {
    match kind {
        "concurrency" => &[
            "rate",
            "rate_series",
            "rate_ramp",
            "smoothness",
            "users",
            "on_cap",
            "auto_offset",
            "start_offset",
            "end_offset",
        ],
        "gamma" => &["users", "auto_offset", "start_offset", "end_offset"],
        "user_centric" => &[
            "rate_series",
            "rate_ramp",
            "smoothness",
            "auto_offset",
            "start_offset",
            "end_offset",
        ],
        "fixed_schedule" => &[
            "rate",
            "rate_series",
            "rate_ramp",
            "smoothness",
            "users",
            "requests",
            "sessions",
        ],
        _ => &["smoothness", "users", "auto_offset", "start_offset", "end_offset"],
    }
}

/// The phase that flags change.
pub(super) struct Home {
    pub(super) steps: Vec<Step>,
    pub(super) name: String,
}

impl Overlay<'_> {
    /// The profiling phase.
    pub(super) fn write_profiling(&mut self) {
        let has_phase_flags =
            |given: &Given| matches!(given.flag.writes, Writes::Profiling(_)) || PATTERNS.contains(&given.flag.name);
        let given: Vec<&Given> = self.flags.iter().filter(|given| has_phase_flags(given)).collect();
        if given.is_empty() && self.has_file {
            return;
        }
        let Some(home) = self.profiling_home(&given) else {
            return;
        };
        self.check_patterns();
        self.retype_profiling(&home);
        for given in given {
            let Writes::Profiling(key) = given.flag.writes else {
                continue;
            };
            self.write_phase(&home, key, given);
        }
        if let Some(given) = self.get("user-centric-rate") {
            self.write_phase(&home, "rate", given);
            self.check_users(&home, given);
        }
        if !self.has_file {
            self.fill_profiling(&home);
        }
    }

    /// A rate of users is one of how many.
    fn check_users(&mut self, home: &Home, given: &Given) {
        let steps = below(&home.steps, "users");
        if self.get("num-users").is_none() && self.at(&steps).is_none() {
            self.mistake(given.at, "there are no users who could send; add --num-users");
            self.place(&steps, &Rc::new(Node::placeholder(given.at)), given.at);
        }
    }

    /// The only profiling phase; reports every flag if there are several.
    fn profiling_home(&self, given: &[&Given]) -> Option<Home> {
        let known = phases(&self.body);
        let measured: Vec<_> = known.iter().filter(|phase| phase.is_profiling).collect();
        match &measured[..] {
            // A file without one is a mistake of the file, and told there.
            [] => None,
            [only] => Some(Home {
                steps: only.steps.clone(),
                name: only.name.unwrap_or("profiling").to_owned(),
            }),
            several => {
                let names: Vec<&str> = several.iter().filter_map(|phase| phase.name).collect();
                for given in given {
                    let key = match given.flag.writes {
                        Writes::Profiling(key) => key,
                        _ if given.flag.name == "user-centric-rate" => "rate",
                        _ => "type",
                    };
                    let message = format!(
                        "found {} profiling phases ({}), and the flag does not say which; write {key} under one of them in the config file, or \
                         vary it with the path phases.{}.{key} of a sweep",
                        several.len(),
                        names.join(", "),
                        names.first().unwrap_or(&"NAME"),
                    );
                    self.mistake(given.at, message);
                }
                None
            }
        }
    }

    /// Flags that ask for different load at the same time.
    fn check_patterns(&self) {
        let is_schedule = self
            .get("fixed-schedule")
            .is_some_and(|given| given.is_on() == Some(true));
        for name in &PATTERNS[..5] {
            if is_schedule {
                self.exclude(name, "fixed-schedule", "a schedule says when its requests start");
            }
            if !matches!(*name, "user-centric-rate") {
                self.exclude(
                    name,
                    "user-centric-rate",
                    "users send at even gaps, at the rate of all of them",
                );
            }
        }
        if is_schedule && self.ignores_times() {
            self.exclude(
                "ignore-trace-delays",
                "fixed-schedule",
                "a schedule replays the times of the file, and this ignores them",
            );
        }
        self.exclude("request-rate-series", "request-rate", "both say the rate");
        let Some(pattern) = self.get("arrival-pattern") else {
            return;
        };
        if let (Some(smoothness), true) = (self.get("arrival-smoothness"), pattern.word() != "gamma") {
            let message = format!(
                "only gamma gaps have a smoothness, and {} says {}",
                pattern.at.told(),
                pattern.word()
            );
            self.mistake(smoothness.at, message);
        }
        if pattern.word() == "concurrency_burst" {
            for name in ["request-rate", "request-rate-series"] {
                self.exclude(name, "arrival-pattern", "a closed loop (concurrency_burst) has no rate");
            }
        }
    }

    fn retype_profiling(&mut self, home: &Home) {
        let has_rate = self.get("request-rate").or(self.get("request-rate-series"));
        let schedule = self.get("fixed-schedule");
        if let Some(given) = schedule {
            match given.is_on() {
                Some(true) => {
                    self.retype(home, "fixed_schedule", given);
                    // The peer's default; a start needs it, and the file's default is the other one.
                    if !self.has_file || self.get("fixed-schedule-start-offset").is_some() {
                        self.default_offset(home);
                    }
                }
                Some(false) if self.has_file => {
                    let message = "keeps a trace of --input-file from being replayed, and with a config file the type of the phase says so; \
                                   remove the flag";
                    self.mistake(given.at, message);
                }
                Some(false) if !self.is_timed_trace() => {
                    let message = "keeps a trace of --input-file from being replayed, and there is no trace with timestamps; remove the flag";
                    self.mistake(given.at, message);
                }
                Some(false) => {}
                None => self.refuse_word(given, "true or false"),
            }
        }
        if schedule.is_some_and(|given| given.is_on() != Some(false)) {
            // It says when requests start.
        } else if let Some(given) = self.get("user-centric-rate") {
            self.retype(home, "user_centric", given);
        } else {
            let (pattern, smoothness) = (self.get("arrival-pattern"), self.get("arrival-smoothness"));
            self.retype_open(home, has_rate, pattern, smoothness);
        }
        if !self.has_file
            && self.get("fixed-schedule").is_none()
            && !PATTERNS.iter().any(|name| self.get(name).is_some())
        {
            self.promote(home);
        }
    }

    /// The type that follows from a rate and the pattern of its gaps.
    pub(super) fn retype_open(
        &mut self,
        home: &Home,
        rate: Option<&Given>,
        pattern: Option<&Given>,
        smoothness: Option<&Given>,
    ) {
        let by_pattern = pattern.and_then(|pattern| {
            let found = ARRIVALS.iter().find(|(word, _)| *word == pattern.word());
            if found.is_none() {
                self.refuse_word(pattern, &ARRIVALS.map(|(word, _)| word).join(", "));
            }
            found.map(|(_, kind)| (*kind, pattern))
        });
        let wanted = by_pattern.or(smoothness.map(|smoothness| ("gamma", smoothness)));
        match (wanted, rate) {
            (Some((kind, by)), _) => {
                if kind == "concurrency" || self.check_rate(home, rate, by) {
                    self.retype(home, kind, by);
                }
            }
            (None, Some(rate)) => {
                let old = self.text(home, "type").unwrap_or_default();
                if !matches!(old.as_str(), "poisson" | "gamma" | "constant" | "user_centric") {
                    self.retype(home, "poisson", rate);
                }
            }
            (None, None) => {}
        }
    }

    /// Whether there is a rate for gaps to have a pattern.
    fn check_rate(&self, home: &Home, rate: Option<&Given>, needed_by: &Given) -> bool {
        let has_one = rate.is_some()
            || ["rate", "rate_series"]
                .iter()
                .any(|key| self.at(&below(&home.steps, key)).is_some());
        if !has_one {
            let flag = if needed_by.flag.name.starts_with("warmup") {
                "--warmup-request-rate"
            } else {
                "--request-rate"
            };
            self.mistake(
                needed_by.at,
                format!("the phase has no rate whose gaps could have a pattern; add {flag}"),
            );
        }
        has_one
    }

    /// Gives the phase another type. What that type does not have goes, with a warning.
    fn retype(&mut self, home: &Home, kind: &str, by: &Given) {
        let old = self.text(home, "type");
        if old.as_deref() == Some(kind) {
            return;
        }
        let mut dropped = Vec::new();
        for key in foreign(kind) {
            let steps = below(&home.steps, key);
            if let Some(node) = self.at(&steps) {
                dropped.push(format!("{key} ({})", node.start.told()));
                self.remove(&steps);
            }
        }
        if !dropped.is_empty() {
            self.sink.warn(format!(
                "{} makes the phase '{}' one of type {kind}, which has no {}: not used",
                by.at.told(),
                home.name,
                dropped.join(", ")
            ));
        }
        self.put(&below(&home.steps, "type"), &by.scalar(kind), by.at);
    }

    /// Replays a trace with timestamps, as its times are why one brings a trace.
    fn promote(&mut self, home: &Home) {
        if self.ignores_times() || !self.is_timed_trace() {
            return;
        }
        let Some(file) = self.get("input-file") else { return };
        for name in ["request-count", "num-conversations"] {
            if let Some(given) = self.get(name) {
                let message = "the records of --input-file have timestamps, so they are replayed, each once; remove the flag, or add \
                               --no-fixed-schedule";
                return self.mistake(given.at, message);
            }
        }
        self.sink.warn("the records of --input-file have timestamps, so they are replayed; --no-fixed-schedule sends them like any others");
        self.retype(home, "fixed_schedule", file);
        self.default_offset(home);
    }

    /// Whether there is nothing to replay, whatever the file says.
    fn ignores_times(&self) -> bool {
        self.get("ignore-trace-delays")
            .is_some_and(|given| given.is_on() != Some(false))
    }

    fn default_offset(&mut self, home: &Home) {
        let steps = below(&home.steps, "auto_offset");
        if self.at(&steps).is_none() {
            self.put(
                &steps,
                &scalar("false", Style::Substituted, Position::NOWHERE),
                Position::NOWHERE,
            );
        }
    }

    /// One key of a phase.
    pub(super) fn write_phase(&mut self, home: &Home, key: &str, given: &Given) {
        let mut steps = below(&home.steps, key);
        // A ramp is a duration, or a mapping that has one beside its strategy.
        let is_section = matches!(self.at(&steps).map(|node| &node.value), Some(Value::Mapping(_)));
        if key.ends_with("_ramp") && is_section {
            steps = below(&steps, "duration");
        }
        self.write_or_list(&steps, format!("phases.{}.{key}", home.name), given);
    }

    /// The stop condition of a command line that gives none.
    fn fill_profiling(&mut self, home: &Home) {
        let is_schedule = self.text(home, "type").as_deref() == Some("fixed_schedule");
        let ends = ["requests", "sessions", "duration"];
        let is_given = |key: &&str| {
            let path = format!("phases.{}.{key}", home.name);
            self.at(&below(&home.steps, key)).is_some() || self.lists.iter().any(|(_, listed, _)| *listed == path)
        };
        if is_schedule || ends.iter().any(is_given) {
            return;
        }
        // Every user must have begun when the phase ends.
        let users = self
            .get("num-users")
            .into_iter()
            .flat_map(|given| given.word().split(','));
        let most = users.filter_map(|word| word.trim().parse::<u64>().ok()).max();
        let requests = most
            .filter(|&users| users > 10)
            .map_or_else(|| REQUESTS.to_owned(), |users| users.to_string());
        let value = scalar(&requests, Style::Substituted, Position::NOWHERE);
        self.put(&below(&home.steps, "requests"), &value, Position::NOWHERE);
    }

    /// A text of the phase.
    pub(super) fn text(&self, home: &Home, key: &str) -> Option<String> {
        let node = self.at(&below(&home.steps, key))?;
        node.scalar().map(|scalar| scalar.text.clone())
    }
}
