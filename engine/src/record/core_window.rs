//! What a core knows of itself over the time that a phase was open on it.

use crate::units::Nanos;

/// Figures of one core from a phase's first slot to its end. They are the core's own: phases that overlap on a core share what it did, and each
/// of them has all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CoreWindow {
    /// Length of the window.
    pub wall: Nanos,
    /// Processor time of the core's thread, the kernel's work for it included.
    pub cpu: Nanos,
    /// Time in turns that found nothing to do: a core that spins for a deadline is not busy.
    pub spun: Nanos,
    /// Time in which the thread was ready to run and others had its processor; `None` where the kernel does not tell.
    pub starved: Option<Nanos>,
    /// Time in which the core's processor did other work: other threads, interrupts, other guests of the hypervisor. Only the run knows on which
    /// processor the core is, so a core leaves it out; `None` also where the kernel does not tell.
    pub others: Option<Nanos>,
    /// How often the thread was put on its processor.
    pub runs: u64,
    /// Completions that did not fit the completion queue and came late.
    pub queue_overflows: u64,
    /// Receives that found no free buffer and had to be started again.
    pub buffer_shortages: u64,
    /// Times the core stood still because the disk did not keep up with the records.
    pub journal_waits: u64,
    /// Requests of the phase that had a slot and their time, and waited for a place for a connection.
    pub kept_back: u64,
    /// Connections opened for requests of the phase.
    pub connections_opened: u64,
    /// Those of them that took the place of a connection that had ended.
    pub reconnects: u64,
    /// Requests of the phase sent once more because a reused connection had died.
    pub resends: u64,
    /// Connections of the phase that failed for want of a local port.
    pub local_ports_exhausted: u64,
    /// Connections of the phase that failed for want of a descriptor.
    pub descriptors_exhausted: u64,
}
