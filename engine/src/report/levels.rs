//! Each service level by itself: which one keeps requests from being good.

use super::collector::PhaseData;
use crate::plan::Slo;
use crate::record::Finding;
use crate::units::counted;

/// What requests made of one level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Findings {
    /// Requests that met it.
    pub met: u64,
    /// Requests that did not.
    pub missed: u64,
    /// Requests that do not have the figure, and so are not good.
    pub lacking: u64,
}

impl Findings {
    pub(super) fn count(&mut self, finding: Finding) {
        let count = match finding {
            Finding::Met => &mut self.met,
            Finding::Missed => &mut self.missed,
            Finding::Lacking => &mut self.lacking,
        };
        *count += 1;
    }

    fn plus(self, other: Self) -> Self {
        Self {
            met: self.met + other.met,
            missed: self.missed + other.missed,
            lacking: self.lacking + other.lacking,
        }
    }
}

/// A level and what the successes of a scope made of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// The threshold.
    pub slo: Slo,
    /// Counts of successes.
    pub findings: Findings,
}

impl Level {
    /// A word on a level that no success can have met because none has the figure.
    pub fn warning(&self) -> Option<String> {
        let Findings { met, missed, lacking } = self.findings;
        (lacking > 0 && met + missed == 0).then(|| {
            format!(
                "slos.{}: none of {} has this figure, so none is good: numbers of tokens are those of the server's usage, and what \
                 is per token needs two tokens or more",
                self.slo.metric,
                counted(lacking, "success")
            )
        })
    }
}

/// The levels over some phases, in the order of the config; empty if nothing was counted.
pub(super) fn of(slos: &[Slo], phases: &[&PhaseData]) -> Vec<Level> {
    if phases.iter().all(|phase| phase.levels.is_empty()) {
        return Vec::new();
    }
    let over_phases = |at: usize| {
        let counted = phases.iter().filter_map(|phase| phase.levels.get(at).copied());
        counted.fold(Findings::default(), Findings::plus)
    };
    slos.iter()
        .enumerate()
        .map(|(at, &slo)| Level {
            slo,
            findings: over_phases(at),
        })
        .collect()
}
