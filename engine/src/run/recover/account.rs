//! What was recovered and what was not: for people, for `incomplete_reason`, and for the `ringload` key.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::found::{Found, PhaseFound};
use crate::clock::WallAnchor;
use crate::journal::Salvage;
use crate::plan::{PhasePlan, Plan};
use crate::units::{Nanos, counted};

/// Why what servers answered is not written.
const UNMASKED: &str = "the config has credentials, which the journal has not, so they could not be masked";

/// What was found and what was not.
pub(super) struct Account<'a> {
    /// From the start of the run to the last that is known of it.
    pub(super) life: Nanos,
    pub(super) salvage: &'a Salvage,
    pub(super) found: &'a Found,
    /// The answers are there, and what it takes to write them out is not.
    pub(super) raw_is_lost: bool,
    /// The same of texts of answers.
    pub(super) outputs_are_lost: bool,
    /// The same of traces.
    pub(super) traces_are_lost: bool,
}

impl Account<'_> {
    fn records(&self) -> u64 {
        self.found.phases.iter().map(|phase| phase.seen.sent).sum()
    }

    fn missing(&self) -> u64 {
        self.found.phases.iter().map(PhaseFound::missing).sum()
    }

    /// For `incomplete_reason`.
    pub(super) fn reason(&self) -> String {
        let mut reason = format!(
            "recovered from the journal after the process died without writing its results, {:.1} s after the start of the run or later",
            self.life.as_secs_f64()
        );
        if self.missing() > 0 {
            reason.push_str(&format!(
                "; no record of {} that had ended",
                counted(self.missing(), "request")
            ));
        }
        for line in self.damage() {
            reason.push_str(&format!("; {line}"));
        }
        reason
    }

    fn damage(&self) -> impl Iterator<Item = String> {
        let Salvage { damaged, torn, .. } = *self.salvage;
        let blocks = (damaged > 0).then(|| format!("left out: {} of the journal, damaged", counted(damaged, "block")));
        let tail = (torn > 0).then(|| {
            format!(
                "left out: the last {} of the journal, no whole block",
                counted(torn, "byte")
            )
        });
        blocks.into_iter().chain(tail)
    }

    /// For people.
    pub(super) fn lines(&self, plan: &Plan, journal: &Path) -> Vec<String> {
        let mut lines = vec![format!(
            "{} recovered from {}; the last that it knows of the run is {:.1} s after its start",
            counted(self.records(), "request"),
            journal.display(),
            self.life.as_secs_f64()
        )];
        lines.extend(self.damage());
        for (phase, found) in plan.phases.iter().zip(&self.found.phases) {
            lines.extend(self.of_phase(phase, found));
        }
        lines.push(
            "not in the journal, and so not recovered: server and GPU metrics, control calls, the client's verdict, controller logs".to_owned(),
        );
        if self.traces_are_lost {
            lines.push(format!("trace_data is not written: {UNMASKED}"));
        }
        if self.raw_is_lost {
            lines.push(format!("raw requests and answers are not written: {UNMASKED}"));
        }
        if self.outputs_are_lost {
            lines.push(format!("texts of answers are not written: {UNMASKED}"));
        }
        lines
    }

    fn of_phase(&self, phase: &PhasePlan, found: &PhaseFound) -> Option<String> {
        let (name, missing) = (&phase.name, found.missing());
        if found.summary.is_some() {
            return (missing > 0).then(|| format!("phase {name}: {missing} of its requests have no record"));
        }
        if !found.has_begun() {
            return Some(format!("phase {name} had not begun"));
        }
        let known = match missing {
            0 => String::new(),
            missing => format!(", {} at least", counted(missing, "request")),
        };
        Some(format!(
            "phase {name} was under way: what ended in its last two seconds may be missing{known}; the last count had {} in flight",
            found.counted.in_flight()
        ))
    }

    pub(super) fn to_json(&self, plan: &Plan, anchor: WallAnchor) -> Value {
        let under_way: BTreeMap<&str, Value> = plan
            .phases
            .iter()
            .zip(&self.found.phases)
            .filter(|(_, found)| found.has_begun() && found.summary.is_none())
            .map(|(phase, found)| (phase.name.as_str(), json!({ "in_flight": found.counted.in_flight() })))
            .collect();
        json!({
            "requests": self.records(),
            "missing_requests_at_least": self.missing(),
            "last_known_ns": anchor.to_wall_ns(self.found.last),
            "phases_under_way": under_way,
            "damaged_blocks": self.salvage.damaged,
            "unread_bytes": self.salvage.torn,
        })
    }
}
