//! The processors that this process may use, and how they hang together.

use std::fs;
use std::path::Path;

use crate::sys::affinity;

/// Where the kernel describes processors and memory nodes.
const SYSTEM: &str = "/sys/devices/system";

/// One processor that the process may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Processor {
    /// Its number.
    pub(super) id: usize,
    /// Its physical core, named by the lowest processor number there: processors of one name share execution units (SMT siblings).
    pub(super) physical: usize,
    /// Its memory node; 0 where the kernel does not tell.
    pub(super) node: usize,
}

/// What the process may use of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Topology {
    /// Processors in the affinity mask, ascending. The mask that the kernel gives out leaves out processors that are offline and those outside the
    /// cgroup's cpuset. Empty where the host does not tell its processors.
    pub(super) allowed: Vec<Processor>,
    /// Processors' worth of time that the process may use: fewer than it may run on where a cgroup has a quota. At least 1.
    pub(super) budget: usize,
}

impl Topology {
    /// The host's.
    pub(super) fn of_host() -> Self {
        let allowed = affinity::allowed_processors();
        // The standard library knows the quotas of both versions of cgroups.
        let budget = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            budget: budget.min(allowed.len()).max(1),
            allowed: read(Path::new(SYSTEM), &allowed),
        }
    }

    /// A processor by its number.
    pub(super) fn processor(&self, id: usize) -> Option<&Processor> {
        self.allowed.iter().find(|processor| processor.id == id)
    }
}

/// Describes the processors `allowed` by the files below `system`. A file that is missing, as in some sandboxes, makes a processor a physical
/// core of its own, and puts it into node 0.
fn read(system: &Path, allowed: &[usize]) -> Vec<Processor> {
    let nodes = nodes(system);
    allowed
        .iter()
        .map(|&id| Processor {
            id,
            physical: physical_core(system, id).unwrap_or(id),
            node: nodes
                .iter()
                .find(|(_, processors)| processors.contains(&id))
                .map_or(0, |&(node, _)| node),
        })
        .collect()
}

/// The lowest processor of the physical core of `id`, allowed or not.
fn physical_core(system: &Path, id: usize) -> Option<usize> {
    let topology = |id: usize, file: &str| {
        let path = system.join(format!("cpu/cpu{id}/topology/{file}"));
        Some(fs::read_to_string(path).ok()?.trim().to_owned())
    };
    if let Some(siblings) = topology(id, "thread_siblings_list").and_then(|list| parse_list(&list)) {
        return siblings.into_iter().min();
    }
    // The same number of a core occurs in each package.
    let place = |id| Some((topology(id, "physical_package_id")?, topology(id, "core_id")?));
    let own = place(id)?;
    (0..=id).find(|&other| place(other).as_ref() == Some(&own))
}

/// Memory nodes with their processors.
fn nodes(system: &Path) -> Vec<(usize, Vec<usize>)> {
    let entries = fs::read_dir(system.join("node")).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let node = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
            let list = fs::read_to_string(entry.path().join("cpulist")).ok()?;
            Some((node, parse_list(&list)?))
        })
        .collect()
}

/// The numbers of a list such as `0-3,8`, the kernel's way to write sets of processors. An empty list is a node without processors.
fn parse_list(list: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        numbers.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(numbers)
}

/// Numbers as the kernel writes them: `0-3,8`. They must ascend.
pub(super) fn format_list(numbers: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let part = |&(first, last): &(usize, usize)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(system: &Path, file: &str, text: &str) {
        let path = system.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn described(processors: &[Processor]) -> Vec<(usize, usize, usize)> {
        processors.iter().map(|p| (p.id, p.physical, p.node)).collect()
    }

    #[test]
    fn siblings_and_nodes_come_from_the_kernels_lists() {
        let system = tempfile::tempdir().unwrap();
        for (id, siblings) in [(0, "0,4"), (1, "1,5"), (4, "0,4"), (5, "1,5")] {
            write(
                system.path(),
                &format!("cpu/cpu{id}/topology/thread_siblings_list"),
                siblings,
            );
        }
        write(system.path(), "node/node0/cpulist", "0,4");
        write(system.path(), "node/node1/cpulist", "1-3,5");
        // A node of memory alone has no processors.
        write(system.path(), "node/node2/cpulist", "");
        write(system.path(), "node/possible", "0-2");
        let read = read(system.path(), &[1, 4, 5]);
        assert_eq!(described(&read), [(1, 1, 1), (4, 0, 0), (5, 1, 1)]);
    }

    #[test]
    fn without_sibling_lists_the_package_and_the_core_number_tell() {
        let system = tempfile::tempdir().unwrap();
        for (id, package, core) in [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 0, 0)] {
            write(
                system.path(),
                &format!("cpu/cpu{id}/topology/physical_package_id"),
                &package.to_string(),
            );
            write(
                system.path(),
                &format!("cpu/cpu{id}/topology/core_id"),
                &core.to_string(),
            );
        }
        let read = read(system.path(), &[0, 1, 2, 3]);
        assert_eq!(described(&read), [(0, 0, 0), (1, 1, 0), (2, 2, 0), (3, 0, 0)]);
    }

    #[test]
    fn without_any_file_each_processor_stands_alone() {
        let system = tempfile::tempdir().unwrap();
        let read = read(system.path(), &[2, 7]);
        assert_eq!(described(&read), [(2, 2, 0), (7, 7, 0)]);
    }

    #[test]
    fn the_host_describes_itself() {
        let topology = Topology::of_host();
        assert!((1..=topology.allowed.len().max(1)).contains(&topology.budget));
        for processor in &topology.allowed {
            assert!(processor.physical <= processor.id);
            assert_eq!(topology.processor(processor.id), Some(processor));
        }
    }

    #[test]
    fn lists_are_read_and_written_as_the_kernel_writes_them() {
        for list in ["", "0", "0-3", "0-3,8", "2,4-6,9"] {
            assert_eq!(format_list(&parse_list(list).unwrap()), list);
        }
        assert_eq!(parse_list("0-1\n"), Some(vec![0, 1]));
        assert_eq!(parse_list("none"), None);
    }
}
