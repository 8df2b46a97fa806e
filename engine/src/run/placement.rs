//! How many cores, which processors, how many connections: what the plan needs of this host.

use serde_json::{Value, json};

use super::processors::{self, Processors};
use super::topology::{Topology, format_list};
use super::{CoreChoice, RunError};
use crate::plan::PhasePlan;
use crate::sys::limits;
use crate::units::{counted, plural};

/// Descriptors beside the connections: standard streams, files, rings, events, control sockets.
const OTHER_DESCRIPTORS: u64 = 128;
/// Places per core for connections that are closing while their successors already run.
const CLOSING: usize = 64;
/// Connections that one address can have from this host, because a port is 16 bits. Some hosts allow a process a thousand million descriptors,
/// and an open loop without a cap must not ask for tables of that size.
const PORTS: u64 = 1 << 16;

/// Where the cores run and how large they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placement {
    /// Where the threads go.
    pub(super) processors: Processors,
    /// How the number of cores came about.
    choice: &'static str,
    /// Most connections of one core at once.
    pub(super) connections_per_core: usize,
    /// Descriptors that the plan needs at least, and those that this process may have.
    pub(super) descriptors: (u64, u64),
}

/// Decides the placement and raises the descriptor limit.
///
/// # Errors
/// More cores than the process may use, processors that it may not use, or fewer descriptors than the plan's concurrency needs.
pub(super) fn place(phases: &[PhasePlan], servers: usize, wanted: &CoreChoice) -> Result<Placement, RunError> {
    let processors = processors::choose(&Topology::of_host(), wanted)?;
    let needed = connections_in_flight(phases) + OTHER_DESCRIPTORS;
    let limit = limits::raise_descriptor_limit(needed);
    if limit < needed {
        return Err(RunError::Descriptors { needed, limit });
    }
    Ok(Placement {
        connections_per_core: connections(phases, servers, processors.cores.len(), limit),
        descriptors: (needed, limit),
        processors,
        choice: match wanted {
            CoreChoice::Auto => "default",
            CoreChoice::Count(_) => "count",
            CoreChoice::Processors(_) => "list",
        },
    })
}

impl Placement {
    /// The choice in one line.
    pub(super) fn line(&self) -> String {
        let pinned: Vec<usize> = self.processors.cores.iter().copied().flatten().collect();
        let cores = counted(self.processors.cores.len(), "core");
        if pinned.is_empty() {
            return format!("{cores}, not pinned");
        }
        let word = |list: &[usize]| plural(&list.len(), "processor");
        let others = match self.processors.others.as_slice() {
            [] => "the other threads have no processor of their own".to_owned(),
            others => format!("the other threads on {} {}", word(others), format_list(others)),
        };
        format!("{cores} on {} {}, {others}", word(&pinned), format_list(&pinned))
    }

    /// Most connections that the plan can have open together: by its limits, or as many as there are places where a phase has none.
    pub(super) fn most_in_flight(&self, phases: &[PhasePlan]) -> u64 {
        let places = (self.connections_per_core * self.processors.cores.len()) as u64;
        let is_unlimited = |phase: &PhasePlan| phase.concurrency.is_none() && !phase.arrival.is_closed_loop();
        if phases.iter().any(is_unlimited) {
            places
        } else {
            connections_in_flight(phases).min(places)
        }
    }

    /// The choice as artifacts show it.
    pub(super) fn to_json(&self) -> Value {
        let Processors {
            others,
            spare,
            shares_physical,
            nodes,
            ..
        } = &self.processors;
        json!({
            "choice": self.choice,
            "other_threads": others,
            "processor_to_spare": spare,
            "cores_share_physical_cores": shares_physical,
            "memory_nodes": nodes,
        })
    }
}

/// Most requests of a phase that can be in flight together; `None` is unlimited.
fn limit_of(phase: &PhasePlan) -> Option<u64> {
    let limit = u64::from(phase.concurrency?.get());
    Some(phase.stop.requests.map_or(limit, |requests| limit.min(requests)))
}

/// Most requests that phases with a limit can have in flight together. Only a chain of seamless phases overlaps, and in a chain the total is
/// bounded by the largest limit.
fn connections_in_flight(phases: &[PhasePlan]) -> u64 {
    phases.iter().filter_map(limit_of).max().unwrap_or(1)
}

/// Connections of one core: its share of every phase that may overlap, twice over for those that are closing, within the descriptor limit. Each
/// server may have all of them idle while the load is at the others; fewer places mean that idle connections are closed to make room.
fn connections(phases: &[PhasePlan], servers: usize, cores: usize, limit: u64) -> usize {
    let descriptors = (limit.saturating_sub(OTHER_DESCRIPTORS).min(PORTS) as usize / cores).max(1);
    let unlimited = phases
        .iter()
        .any(|phase| phase.concurrency.is_none() && !phase.arrival.is_closed_loop());
    if unlimited {
        return descriptors;
    }
    let mut chain = 0;
    let mut longest = 0;
    for phase in phases {
        let share = (limit_of(phase).unwrap_or(1) as usize).div_ceil(cores);
        chain = if phase.seamless { chain + share } else { share };
        longest = longest.max(chain);
    }
    ((1 + servers) * longest + CLOSING).min(descriptors)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::id::PhaseId;
    use crate::plan::{Arrival, DrainRule, LimitPlan, OnCap, PhaseKind, StopRule};
    use crate::units::Nanos;

    fn phase(concurrency: Option<u32>, seamless: bool) -> PhasePlan {
        PhasePlan {
            id: PhaseId(0),
            profiling_index: Some(0),
            name: "p".into(),
            kind: PhaseKind::Profiling,
            arrival: if concurrency.is_some() {
                Arrival::ClosedLoop
            } else {
                Arrival::constant(1.0)
            },
            concurrency: concurrency.and_then(NonZeroU32::new),
            stop: StopRule {
                requests: None,
                sessions: None,
                duration: Some(Nanos::from_secs(1)),
            },
            drain: DrainRule::WhileProgressing,
            on_cap: OnCap::Wait,
            seamless,
            cancellation: None,
            limits: LimitPlan::default(),
        }
    }

    #[test]
    fn the_choice_fits_one_line() {
        let line = |cores: &[Option<usize>], others: &[usize]| {
            Placement {
                processors: Processors {
                    cores: cores.to_vec(),
                    others: others.to_vec(),
                    spare: !others.is_empty(),
                    shares_physical: false,
                    nodes: vec![0],
                    warnings: Vec::new(),
                },
                choice: "default",
                connections_per_core: 1,
                descriptors: (129, 1024),
            }
            .line()
        };
        assert_eq!(
            line(&[Some(1)], &[0]),
            "1 core on processor 1, the other threads on processor 0"
        );
        assert_eq!(
            line(&[Some(2), Some(3), Some(6)], &[0, 1, 4]),
            "3 cores on processors 2-3,6, the other threads on processors 0-1,4"
        );
        assert_eq!(
            line(&[Some(0)], &[]),
            "1 core on processor 0, the other threads have no processor of their own"
        );
        assert_eq!(line(&[None], &[]), "1 core, not pinned");
    }

    #[test]
    fn connections_cover_a_seamless_chain_and_stay_within_the_descriptors() {
        let chain = [phase(Some(10), false), phase(Some(64), true), phase(Some(8), false)];
        assert_eq!(connections(&chain, 1, 2, 100_000), 2 * (5 + 32) + CLOSING);
        assert_eq!(connections(&chain, 1, 1, OTHER_DESCRIPTORS + 80), 80);
        assert_eq!(connections(&[phase(None, false)], 1, 2, 1128), 500);
        assert_eq!(connections_in_flight(&chain), 64);
    }

    #[test]
    fn connections_that_can_never_be_open_need_no_place() {
        let mut few = phase(Some(u32::MAX), false);
        few.stop.requests = Some(2);
        assert_eq!(connections_in_flight(std::slice::from_ref(&few)), 2);
        assert_eq!(connections(&[few.clone()], 1, 1, 1024), 2 * 2 + CLOSING);
        // Three servers may each have both connections idle.
        assert_eq!(connections(&[few], 3, 1, 1024), 4 * 2 + CLOSING);
        let limit_of_some_containers = 1 << 30;
        assert_eq!(
            connections(&[phase(None, false)], 1, 2, limit_of_some_containers),
            1 << 15
        );
    }
}
