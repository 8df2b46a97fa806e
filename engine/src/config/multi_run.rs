//! `multi_run`: how often every variation runs, and what differs between its trials.

use super::convergence::{self, Convergence};
use super::decode::{Bounds, Field, Section};
use super::schema::Schema;

pub(super) static MULTI_RUN: Schema = Schema {
    place: "multi_run",
    keys: &[
        "num_runs",
        "cooldown_seconds",
        "confidence_level",
        "set_consistent_seed",
        "vary_seed_per_trial",
        "disable_warmup_after_first",
        "convergence",
        "failure_policy",
    ],
    refused: &[],
};

pub(super) static FAILURE_POLICY: Schema = Schema {
    place: "sweep.failure_policy",
    keys: &["on_child_failure", "max_failures"],
    refused: &[],
};

/// Most trials of a variation.
const MAX_RUNS: i128 = 10;
/// Longest pause between cells, in seconds.
const MAX_COOLDOWN_S: f64 = 86_400.0;

/// `multi_run` as written, defaults filled.
#[derive(Debug, Clone, PartialEq)]
pub struct MultiRun {
    /// Trials of each variation, from 1.
    pub num_runs: u32,
    /// Seconds between one trial and the next.
    pub cooldown_s: f64,
    /// Confidence of intervals, between 0 and 1.
    pub confidence_level: f64,
    /// Whether runs without a written seed share a fixed one.
    pub set_consistent_seed: bool,
    /// Whether every trial draws prompts and arrivals of its own.
    pub vary_seed_per_trial: bool,
    /// Whether trials after the first leave their warmup phases out.
    pub disable_warmup_after_first: bool,
    /// When trials agree, so that no more of them run; `None` runs them all.
    pub convergence: Option<Convergence>,
}

impl Default for MultiRun {
    fn default() -> Self {
        Self {
            num_runs: 1,
            cooldown_s: 0.0,
            confidence_level: 0.95,
            set_consistent_seed: true,
            vary_seed_per_trial: false,
            disable_warmup_after_first: true,
            convergence: None,
        }
    }
}

/// When the cells that are left are not run any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FailurePolicy {
    /// Failed cells after which no other starts; `None` runs them all.
    pub max_failures: Option<u32>,
}

/// Reads the section, with the failure policy if it has one.
pub(super) fn decode(envelope: &Section<'_>) -> (MultiRun, Option<FailurePolicy>) {
    let defaults = MultiRun::default();
    let Some(section) = envelope.field("multi_run").and_then(|field| field.section(&MULTI_RUN)) else {
        return (defaults, None);
    };
    let flag = |key, default| section.field(key).and_then(|field| field.boolean()).unwrap_or(default);
    let confidence = section.field("confidence_level").and_then(|field| {
        let level = field.float(Bounds {
            max: 1.0,
            ..Bounds::POSITIVE
        })?;
        if level >= 1.0 {
            field.mistake("a number above 0 and below 1, as in 0.95");
        }
        Some(level)
    });
    let num_runs = match section.field("num_runs") {
        Some(field) => field.integer(1, MAX_RUNS),
        None => Some(defaults.num_runs),
    };
    // Next to a number that cannot be read nothing is said about how it relates to this.
    let most = num_runs.unwrap_or(MAX_RUNS as u32);
    let runs = MultiRun {
        num_runs: num_runs.unwrap_or(defaults.num_runs),
        convergence: section
            .field("convergence")
            .and_then(|field| convergence::decode(&field, most)),
        cooldown_s: cooldown(&section),
        confidence_level: confidence.unwrap_or(defaults.confidence_level),
        set_consistent_seed: flag("set_consistent_seed", defaults.set_consistent_seed),
        vary_seed_per_trial: flag("vary_seed_per_trial", defaults.vary_seed_per_trial),
        disable_warmup_after_first: flag("disable_warmup_after_first", defaults.disable_warmup_after_first),
    };
    (
        runs,
        section.field("failure_policy").and_then(|field| failure_policy(&field)),
    )
}

/// `cooldown_seconds` of a section, in seconds.
pub(super) fn cooldown(section: &Section<'_>) -> f64 {
    let bounds = Bounds {
        max: MAX_COOLDOWN_S,
        ..Bounds::NOT_NEGATIVE
    };
    let field = section.field("cooldown_seconds");
    field.and_then(|field| field.duration(bounds)).unwrap_or(0.0)
}

/// `failure_policy`, of a sweep or of trials.
pub(super) fn failure_policy(field: &Field<'_>) -> Option<FailurePolicy> {
    let section = field.section(&FAILURE_POLICY)?;
    let aborts = section
        .field("on_child_failure")
        .and_then(|field| field.word(&[("continue", false), ("abort", true)], &[]));
    let limit = section
        .field("max_failures")
        .and_then(|field| field.integer(1, u32::MAX.into()));
    Some(FailurePolicy {
        max_failures: if aborts == Some(true) { Some(1) } else { limit },
    })
}
