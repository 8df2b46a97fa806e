//! What the time of a phase was like outside of the cores: did the process run at all, and who else had the processors.
//!
//! The coordinator wakes every few milliseconds on a processor that need not be one of the cores', so it sees what a core that sleeps for an
//! answer cannot: a process that was stopped, or a machine that stood still.

use crate::clock;
use crate::id::PhaseId;
use crate::sys::accounting::{ProcessorIdle, idle_processors};
use crate::units::Nanos;

/// The surroundings of one phase, from about the start of its clock to its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Surroundings {
    /// Length.
    pub(crate) wall: Nanos,
    /// The latest that the coordinator came back from a wait.
    pub(crate) stall: Nanos,
    /// Idle time of each processor; empty where the kernel does not tell.
    pub(crate) idle: Vec<ProcessorIdle>,
}

/// Watches the surroundings of the phases that are open.
#[derive(Debug)]
pub(super) struct Watch {
    phases: Vec<Surroundings>,
    open: Vec<Open>,
}

/// A phase between its start and the reading that closes it.
#[derive(Debug)]
struct Open {
    phase: PhaseId,
    /// When the idle times were read, and what they were; `None` until [`Watch::look`].
    opening: Option<(Nanos, Vec<ProcessorIdle>)>,
    over: bool,
}

impl Watch {
    pub(super) fn new(phases: usize) -> Self {
        Self {
            phases: vec![Surroundings::default(); phases],
            open: Vec::new(),
        }
    }

    pub(super) fn started(&mut self, phase: PhaseId) {
        self.open.push(Open {
            phase,
            opening: None,
            over: false,
        });
    }

    pub(super) fn ended(&mut self, phase: PhaseId) {
        let of_phase = self.open.iter_mut().find(|open| open.phase == phase);
        if let Some(open) = of_phase {
            open.over = true;
        }
    }

    /// A wait came back this much later than asked.
    pub(super) fn late(&mut self, by: Nanos) {
        for open in &self.open {
            let stall = &mut self.phases[open.phase.index()].stall;
            *stall = by.max(*stall);
        }
    }

    /// Reads the idle times if a phase has started or ended since the last look. Apart from those events, because reading takes up to a
    /// millisecond on large hosts, and the first credits of a phase must not wait for it.
    pub(super) fn look(&mut self) {
        if self.open.iter().all(|open| open.opening.is_some() && !open.over) {
            return;
        }
        // Without the file nothing is known of the processors, which is what an empty list says.
        let (now, idle) = (clock::monotonic(), idle_processors().unwrap_or_default());
        for open in &mut self.open {
            let (since, before) = open.opening.get_or_insert_with(|| (now, idle.clone()));
            if open.over {
                let surroundings = &mut self.phases[open.phase.index()];
                surroundings.wall = now.since(*since);
                surroundings.idle = grown(before, &idle);
            }
        }
        self.open.retain(|open| !open.over);
    }

    pub(super) fn into_surroundings(self) -> Vec<Surroundings> {
        self.phases
    }
}

/// Idle time between two readings of every processor that is in both.
fn grown(before: &[ProcessorIdle], after: &[ProcessorIdle]) -> Vec<ProcessorIdle> {
    let earlier = |processor: usize| before.iter().find(|entry| entry.processor == processor);
    after
        .iter()
        .filter_map(|entry| {
            Some(ProcessorIdle {
                idle: entry.idle.since(earlier(entry.processor)?.idle),
                ..*entry
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_wait_counts_for_every_phase_that_is_open_and_for_no_other() {
        let mut watch = Watch::new(3);
        watch.started(PhaseId(0));
        watch.late(Nanos(5));
        watch.look();
        watch.started(PhaseId(1));
        watch.late(Nanos(3));
        watch.ended(PhaseId(0));
        watch.look();
        watch.late(Nanos(9));
        watch.ended(PhaseId(1));
        watch.ended(PhaseId(2));
        watch.look();
        let surroundings = watch.into_surroundings();
        let stalls: Vec<u64> = surroundings.iter().map(|phase| phase.stall.0).collect();
        assert_eq!(stalls, [5, 9, 0]);
        assert!(surroundings[0].wall > Nanos::ZERO);
        assert_eq!(surroundings[2], Surroundings::default());
    }

    #[test]
    fn only_processors_of_both_readings_are_compared() {
        let entry = |processor, idle| ProcessorIdle {
            processor,
            idle: Nanos(idle),
        };
        let growth = grown(&[entry(0, 10), entry(2, 5)], &[entry(0, 30), entry(1, 7), entry(2, 5)]);
        assert_eq!(growth, [entry(0, 20), entry(2, 0)]);
    }
}
