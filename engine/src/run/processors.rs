//! Which processors the cores run on, and which are left to everything else: a pure choice over a described host.
//!
//! In the order of their weight:
//! 1. one core per physical core: two threads of one share its execution units and caches, and each slows the other;
//! 2. all cores in one memory node, so that what they share is not fetched from afar;
//! 3. a physical core for the other threads (coordinator, journal, control calls, console), so that none of them interrupts a core;
//! 4. the last processors rather than the first, where most hosts serve interrupts.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::topology::{Processor, Topology, format_list};
use super::{CoreChoice, RunError};

use crate::units::counted;

/// Where the threads of a run go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Processors {
    /// One processor per core, ascending; `None` where the host does not tell its processors, so that the core is not pinned.
    pub(super) cores: Vec<Option<usize>>,
    /// Where all other threads may run; empty: wherever they may, for no processor is left to them.
    pub(super) others: Vec<usize>,
    /// Whether a processor's worth of time is left beside the cores.
    pub(super) spare: bool,
    /// Whether two cores share a physical core.
    pub(super) shares_physical: bool,
    /// Memory nodes of the cores, ascending; empty if unknown.
    pub(super) nodes: Vec<usize>,
    /// What a user should know of the choice, one line each.
    pub(super) warnings: Vec<String>,
}

impl Processors {
    /// Core `core` could not be pinned: the host refused.
    pub(super) fn lose(&mut self, core: usize) {
        if let Some(processor) = self.cores[core].take() {
            self.warnings.push(format!(
                "core {core} could not be pinned to processor {processor}: the host refuses sched_setaffinity(2); it runs where the kernel puts it"
            ));
        }
    }
}

/// Chooses.
///
/// # Errors
/// More cores than processors, none, or a processor that the process may not use.
pub(super) fn choose(topology: &Topology, wanted: &CoreChoice) -> Result<Processors, RunError> {
    let allowed = &topology.allowed;
    let available = allowed.len().max(1);
    let count = match wanted {
        CoreChoice::Auto => default_count(topology),
        CoreChoice::Count(count) => usize::from(*count),
        CoreChoice::Processors(list) => {
            let unknown: Vec<usize> = list
                .iter()
                .copied()
                .filter(|&id| topology.processor(id).is_none())
                .collect();
            if !unknown.is_empty() {
                return Err(RunError::Processors {
                    unknown: format_list(&unknown),
                    allowed: format_list(&ids(allowed)),
                });
            }
            list.len()
        }
    };
    if count == 0 || count > available {
        return Err(RunError::Cores {
            wanted: count,
            available,
        });
    }
    if allowed.is_empty() {
        return Ok(unknown_host());
    }
    let chosen = match wanted {
        CoreChoice::Processors(list) => allowed
            .iter()
            .filter(|processor| list.contains(&processor.id))
            .collect(),
        _ => pick(allowed, count),
    };
    Ok(describe(topology, chosen))
}

fn ids<'a>(processors: impl IntoIterator<Item = &'a Processor>) -> Vec<usize> {
    processors.into_iter().map(|processor| processor.id).collect()
}

fn unknown_host() -> Processors {
    Processors {
        cores: vec![None],
        others: Vec::new(),
        spare: false,
        shares_physical: false,
        nodes: Vec::new(),
        warnings: vec![
            "this host does not tell which processors the process may use; one core runs, and it is not pinned"
                .to_owned(),
        ],
    }
}

/// As many cores as the largest node has physical cores but one, within the quota; at least one.
fn default_count(topology: &Topology) -> usize {
    let physical = by_node(&topology.allowed)
        .iter()
        .map(|node| physical_cores(node).len())
        .max();
    let available = physical.unwrap_or(1).min(topology.budget);
    available.saturating_sub(1).max(1)
}

/// Processors of each node.
fn by_node(allowed: &[Processor]) -> Vec<Vec<&Processor>> {
    let numbers: BTreeSet<usize> = allowed.iter().map(|processor| processor.node).collect();
    let of = |node| allowed.iter().filter(|processor| processor.node == node).collect();
    numbers.into_iter().map(of).collect()
}

fn physical_cores(processors: &[&Processor]) -> BTreeSet<usize> {
    processors.iter().map(|processor| processor.physical).collect()
}

/// The best `count` of the processors; there are that many.
fn pick(allowed: &[Processor], count: usize) -> Vec<&Processor> {
    let all: Vec<&Processor> = allowed.iter().collect();
    let nodes = by_node(allowed);
    let largest = |fits: &dyn Fn(&Vec<&Processor>) -> bool| {
        nodes
            .iter()
            .filter(|node| fits(node))
            .max_by_key(|node| (physical_cores(node).len(), Reverse(node[0].node)))
    };
    let from = largest(&|node| physical_cores(node).len() >= count)
        .or_else(|| (physical_cores(&all).len() >= count).then_some(&all))
        .or_else(|| largest(&|node| node.len() >= count))
        .unwrap_or(&all);
    let mut order = Vec::with_capacity(from.len());
    let mut used = BTreeSet::new();
    // The first thread of each physical core, then the siblings; in both cases the last ones first.
    let (first, siblings): (Vec<&Processor>, Vec<_>) = from
        .iter()
        .copied()
        .partition(|processor| used.insert(processor.physical));
    order.extend(first.into_iter().rev());
    order.extend(siblings.into_iter().rev());
    order.truncate(count);
    order
}

fn describe(topology: &Topology, mut chosen: Vec<&Processor>) -> Processors {
    chosen.sort_by_key(|processor| processor.id);
    let cores = ids(chosen.iter().copied());
    let physical = physical_cores(&chosen);
    let nodes: BTreeSet<usize> = chosen.iter().map(|processor| processor.node).collect();
    let (apart, beside): (Vec<_>, Vec<_>) = topology
        .allowed
        .iter()
        .filter(|processor| !cores.contains(&processor.id))
        .partition(|processor| !physical.contains(&processor.physical));
    // Better in the cores' own node, where what the coordinator hands them is near.
    let near: Vec<usize> = ids(apart
        .iter()
        .copied()
        .filter(|processor| nodes.contains(&processor.node)));
    let others = [near, ids(apart), ids(beside)]
        .into_iter()
        .find(|group| !group.is_empty())
        .unwrap_or_default();
    let mut warnings = Vec::new();
    let list = format_list(&cores);
    let shares_physical = physical.len() < cores.len();
    if shares_physical {
        warnings.push(format!(
            "the {} cores on processors {list} share {} physical cores (SMT siblings), so they slow each other; --cores {} gives each its own",
            cores.len(),
            physical.len(),
            physical.len()
        ));
    }
    if nodes.len() > 1 {
        warnings.push(format!(
            "the cores on processors {list} lie in {} memory nodes; fewer cores, or a list of processors of one node (--cores LIST), keep them \
             together",
            nodes.len()
        ));
    }
    if cores.len() > topology.budget {
        warnings.push(format!(
            "a cgroup quota gives this process the time of {}, less than its {} need: they will be held up",
            counted(topology.budget, "processor"),
            counted(cores.len(), "core")
        ));
    }
    Processors {
        spare: !others.is_empty() && topology.budget > cores.len(),
        cores: cores.into_iter().map(Some).collect(),
        others,
        shares_physical,
        nodes: nodes.into_iter().collect(),
        warnings,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` processors; `describe` gives each its physical core and its node.
    fn host(numbers: impl IntoIterator<Item = usize>, describe: impl Fn(usize) -> (usize, usize)) -> Topology {
        let allowed: Vec<Processor> = numbers
            .into_iter()
            .map(|id| {
                let (physical, node) = describe(id);
                Processor { id, physical, node }
            })
            .collect();
        Topology {
            budget: allowed.len().max(1),
            allowed,
        }
    }

    fn plain(numbers: impl IntoIterator<Item = usize>) -> Topology {
        host(numbers, |id| (id, 0))
    }

    /// Cores, others, warnings.
    fn chosen(topology: &Topology, wanted: CoreChoice) -> (Vec<usize>, Vec<usize>, usize) {
        let processors = choose(topology, &wanted).unwrap();
        let cores = processors.cores.iter().map(|core| core.unwrap()).collect();
        (cores, processors.others, processors.warnings.len())
    }

    #[test]
    fn one_processor_is_shared_by_all() {
        let one = plain([0]);
        assert_eq!(chosen(&one, CoreChoice::Auto), (vec![0], vec![], 0));
        assert!(!choose(&one, &CoreChoice::Auto).unwrap().spare);
        assert!(matches!(
            choose(&one, &CoreChoice::Count(2)),
            Err(RunError::Cores {
                wanted: 2,
                available: 1
            })
        ));
    }

    #[test]
    fn of_two_processors_one_stays_free() {
        let two = plain([0, 1]);
        assert_eq!(chosen(&two, CoreChoice::Auto), (vec![1], vec![0], 0));
        assert!(choose(&two, &CoreChoice::Auto).unwrap().spare);
        assert_eq!(chosen(&two, CoreChoice::Count(2)), (vec![0, 1], vec![], 0));
        assert!(!choose(&two, &CoreChoice::Count(2)).unwrap().spare);
        assert!(choose(&two, &CoreChoice::Count(3)).is_err());
        assert!(choose(&two, &CoreChoice::Count(0)).is_err());
    }

    #[test]
    fn threads_of_one_physical_core_are_not_both_used_before_they_must() {
        // Processors 0 to 3 and their siblings 4 to 7.
        let smt = host(0..8, |id| (id % 4, 0));
        assert_eq!(chosen(&smt, CoreChoice::Auto), (vec![1, 2, 3], vec![0, 4], 0));
        assert_eq!(chosen(&smt, CoreChoice::Count(2)), (vec![2, 3], vec![0, 1, 4, 5], 0));
        // No physical core is left, but siblings of the cores are.
        assert_eq!(
            chosen(&smt, CoreChoice::Count(4)),
            (vec![0, 1, 2, 3], vec![4, 5, 6, 7], 0)
        );
        assert_eq!(
            chosen(&smt, CoreChoice::Count(6)),
            (vec![0, 1, 2, 3, 6, 7], vec![4, 5], 1)
        );
        assert_eq!(chosen(&smt, CoreChoice::Count(8)), ((0..8).collect(), vec![], 1));
        // Neighbouring numbers are siblings on other hosts.
        let pairs = host(0..8, |id| (id / 2 * 2, 0));
        assert_eq!(chosen(&pairs, CoreChoice::Auto), (vec![2, 4, 6], vec![0, 1], 0));
        let single = host(0..2, |_| (0, 0));
        assert_eq!(chosen(&single, CoreChoice::Auto), (vec![0], vec![1], 0));
    }

    #[test]
    fn cores_stay_in_one_node_while_they_fit() {
        // Two nodes of eight physical cores with two threads each: 0 to 7 with 16 to 23, 8 to 15 with 24 to 31; four are offline.
        let online = (0..32).filter(|id| ![12, 13, 28, 29].contains(id));
        let two = host(online, |id| (id % 16, id % 16 / 8));
        let (cores, others, warnings) = chosen(&two, CoreChoice::Auto);
        assert_eq!((cores, others, warnings), ((1..8).collect(), vec![0, 16], 0));
        assert_eq!(
            chosen(&two, CoreChoice::Count(8)),
            ((0..8).collect(), vec![8, 9, 10, 11, 14, 15, 24, 25, 26, 27, 30, 31], 0)
        );
        // Physical cores of the other node are better than siblings.
        let more = choose(&two, &CoreChoice::Count(10)).unwrap();
        assert_eq!(
            (more.nodes, more.shares_physical, more.warnings.len()),
            (vec![0, 1], false, 1)
        );
        let all = choose(&two, &CoreChoice::Count(28)).unwrap();
        assert_eq!(
            (all.nodes, all.shares_physical, all.warnings.len()),
            (vec![0, 1], true, 2)
        );
    }

    #[test]
    fn siblings_of_one_node_are_taken_before_those_of_two() {
        // One physical core with four threads in node 0, one with two threads in node 1.
        let odd = host(0..6, |id| if id < 4 { (0, 0) } else { (4, 1) });
        assert_eq!(chosen(&odd, CoreChoice::Count(2)), (vec![0, 4], vec![1, 2, 3, 5], 1));
        assert_eq!(chosen(&odd, CoreChoice::Count(3)), (vec![0, 2, 3], vec![4, 5], 1));
    }

    #[test]
    fn a_mask_with_holes_is_kept() {
        assert_eq!(
            chosen(&plain([1, 4, 6, 9]), CoreChoice::Auto),
            (vec![4, 6, 9], vec![1], 0)
        );
        // Of the physical cores 0 (processors 0 and 4) and 1 (1 and 5) only one thread each may be used.
        let holes = host([4, 5], |id| (id % 4, 0));
        assert_eq!(chosen(&holes, CoreChoice::Auto), (vec![5], vec![4], 0));
    }

    #[test]
    fn a_quota_bounds_the_default_and_is_named_otherwise() {
        let quota = Topology {
            budget: 3,
            ..plain(0..16)
        };
        assert_eq!(chosen(&quota, CoreChoice::Auto).0, [14, 15]);
        let asked = choose(&quota, &CoreChoice::Count(4)).unwrap();
        assert!(asked.warnings[0].contains("quota"), "{:?}", asked.warnings);
        assert!(!asked.spare, "what is left of the processors may not be used");
    }

    #[test]
    fn a_list_is_taken_as_it_is() {
        let smt = host(0..8, |id| (id % 4, 0));
        let list = |numbers: &[usize]| CoreChoice::Processors(numbers.to_vec());
        assert_eq!(chosen(&smt, list(&[0, 2])), (vec![0, 2], vec![1, 3, 5, 7], 0));
        assert_eq!(chosen(&smt, list(&[2, 6])).2, 1, "siblings");
        let error = choose(&smt, &list(&[2, 9, 10])).unwrap_err().to_string();
        assert!(error.contains("9-10") && error.contains("0-7"), "{error}");
    }

    #[test]
    fn a_host_that_does_not_tell_gets_one_core_that_is_not_pinned() {
        let dark = plain([]);
        for wanted in [CoreChoice::Auto, CoreChoice::Count(1)] {
            let processors = choose(&dark, &wanted).unwrap();
            assert_eq!((processors.cores, processors.spare), (vec![None], false));
        }
        assert!(choose(&dark, &CoreChoice::Count(2)).is_err());
    }
}
