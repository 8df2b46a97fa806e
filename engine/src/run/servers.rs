//! What each server of a load with several got, for the artifacts.

use serde_json::{Value, json};

use crate::id::PhaseId;
use crate::plan::{PhaseKind, Plan, Target};
use crate::reactor::CoreReport;
use crate::record::{Outcome, ServerCounts};

/// Requests by phase and server, over all cores; empty where there is one server.
pub(super) struct Servers {
    urls: Vec<String>,
    /// By phase, then by server.
    counts: Vec<Vec<ServerCounts>>,
    profiling: Vec<bool>,
}

impl Servers {
    pub(super) fn of(plan: &Plan, cores: &[CoreReport]) -> Self {
        let servers = plan.endpoint.targets.len();
        let of_phase = |phase: usize| {
            let mut sums = vec![ServerCounts::default(); servers];
            for core in cores {
                let counts = core.servers.iter().skip(phase * servers);
                sums.iter_mut().zip(counts).for_each(|(sum, counts)| sum.add(counts));
            }
            sums
        };
        let phases = if servers > 1 { plan.phases.len() } else { 0 };
        Self {
            urls: plan.endpoint.targets.iter().map(shown).collect(),
            counts: (0..phases).map(of_phase).collect(),
            profiling: plan
                .phases
                .iter()
                .map(|phase| phase.kind == PhaseKind::Profiling)
                .collect(),
        }
    }

    /// The servers of one phase.
    pub(super) fn of_phase(&self, phase: PhaseId) -> Option<Value> {
        self.counts.get(phase.index()).map(|counts| self.to_json(counts))
    }

    /// The servers of all profiling phases.
    pub(super) fn of_run(&self) -> Option<Value> {
        if self.counts.is_empty() {
            return None;
        }
        let mut sums = vec![ServerCounts::default(); self.urls.len()];
        let profiling = self
            .counts
            .iter()
            .zip(&self.profiling)
            .filter(|(_, profiling)| **profiling);
        for (counts, _) in profiling {
            sums.iter_mut().zip(counts).for_each(|(sum, counts)| sum.add(counts));
        }
        Some(self.to_json(&sums))
    }

    fn to_json(&self, counts: &[ServerCounts]) -> Value {
        let server = |(url, counts): (&String, &ServerCounts)| {
            json!({
                "url": url,
                "sent": counts.all(),
                "succeeded": counts.of(Outcome::Success),
                "failed": counts.of(Outcome::Error),
                "cancelled": counts.of(Outcome::Cancelled),
                "truncated_request_count": counts.of(Outcome::Truncated),
            })
        };
        self.urls.iter().zip(counts).map(server).collect()
    }
}

/// A URL without its query, which may hold a key.
fn shown(target: &Target) -> String {
    let path = target.path.split('?').next().unwrap_or_default();
    format!("{}{path}", target.origin)
}
