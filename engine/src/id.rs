//! Identities that travel between threads.

/// A reactor core of this run, counted from 0 in the order of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreId(pub u16);

/// A phase of this run: its position in the workflow, counted from 0 (`phase_index` in artifacts).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhaseId(pub u16);

impl CoreId {
    /// The core as an index into per-core tables.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl PhaseId {
    /// The phase as an index into per-phase tables.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}
