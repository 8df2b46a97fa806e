//! How many cores, which processors, how many connections: what the plan needs of this host.

use super::RunError;
use crate::plan::{Arrival, PhasePlan};
use crate::sys::{affinity, limits};

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
    /// One processor per core; `None` where the host does not tell its processors, so the core is not pinned.
    pub(super) processors: Vec<Option<usize>>,
    /// Most connections of one core at once.
    pub(super) connections_per_core: usize,
}

/// Decides the placement and raises the descriptor limit.
///
/// # Errors
/// More cores than the process may use, or fewer descriptors than the plan's concurrency needs.
pub(super) fn place(phases: &[PhasePlan], wanted: Option<u16>) -> Result<Placement, RunError> {
    let allowed = affinity::allowed_processors();
    let cores = core_count(wanted, allowed.len())?;
    let needed = connections_in_flight(phases) + OTHER_DESCRIPTORS;
    let limit = limits::raise_descriptor_limit(needed);
    if limit < needed {
        return Err(RunError::Descriptors { needed, limit });
    }
    Ok(Placement {
        processors: processors(&allowed, cores),
        connections_per_core: connections(phases, cores, limit),
    })
}

fn core_count(wanted: Option<u16>, allowed: usize) -> Result<usize, RunError> {
    let available = allowed.max(1);
    match wanted.map(usize::from) {
        Some(0) => Err(RunError::Cores { wanted: 0, available }),
        Some(wanted) if wanted > available => Err(RunError::Cores { wanted, available }),
        Some(wanted) => Ok(wanted),
        // One processor stays free for the coordinator, the journal and the console.
        None => Ok(available.saturating_sub(1).max(1)),
    }
}

/// The last processors, so that the first one, where most hosts serve interrupts, is used last.
fn processors(allowed: &[usize], cores: usize) -> Vec<Option<usize>> {
    if allowed.is_empty() {
        return vec![None; cores];
    }
    allowed[allowed.len() - cores..].iter().copied().map(Some).collect()
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

/// Connections of one core: its share of every phase that may overlap, twice over for those that are closing, within the descriptor limit.
fn connections(phases: &[PhasePlan], cores: usize, limit: u64) -> usize {
    let descriptors = (limit.saturating_sub(OTHER_DESCRIPTORS).min(PORTS) as usize / cores).max(1);
    let unlimited = phases
        .iter()
        .any(|phase| phase.concurrency.is_none() && phase.arrival != Arrival::ClosedLoop);
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
    (2 * longest + CLOSING).min(descriptors)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::id::PhaseId;
    use crate::plan::{DrainRule, PhaseKind, StopRule};
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
                Arrival::Constant { rate: 1.0 }
            },
            concurrency: concurrency.and_then(NonZeroU32::new),
            stop: StopRule {
                requests: None,
                duration: Some(Nanos::from_secs(1)),
            },
            drain: DrainRule::WhileProgressing,
            seamless,
            cancellation: None,
        }
    }

    #[test]
    fn one_processor_stays_free_unless_cores_are_asked_for() {
        assert_eq!(core_count(None, 8).unwrap(), 7);
        assert_eq!(core_count(None, 1).unwrap(), 1);
        assert_eq!(core_count(Some(8), 8).unwrap(), 8);
        assert!(core_count(Some(9), 8).is_err());
        assert!(core_count(Some(0), 8).is_err());
        assert_eq!(processors(&[0, 2, 4, 6], 2), [Some(4), Some(6)]);
    }

    #[test]
    fn connections_cover_a_seamless_chain_and_stay_within_the_descriptors() {
        let chain = [phase(Some(10), false), phase(Some(64), true), phase(Some(8), false)];
        assert_eq!(connections(&chain, 2, 100_000), 2 * (5 + 32) + CLOSING);
        assert_eq!(connections(&chain, 1, OTHER_DESCRIPTORS + 80), 80);
        assert_eq!(connections(&[phase(None, false)], 2, 1128), 500);
        assert_eq!(connections_in_flight(&chain), 64);
    }

    #[test]
    fn connections_that_can_never_be_open_need_no_place() {
        let mut few = phase(Some(u32::MAX), false);
        few.stop.requests = Some(2);
        assert_eq!(connections_in_flight(std::slice::from_ref(&few)), 2);
        assert_eq!(connections(&[few], 1, 1024), 2 * 2 + CLOSING);
        let limit_of_some_containers = 1 << 30;
        assert_eq!(connections(&[phase(None, false)], 2, limit_of_some_containers), 1 << 15);
    }
}
