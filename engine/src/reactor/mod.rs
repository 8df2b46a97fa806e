//! One core's loop: credits in, requests out, records and counts back.
//!
//! A core obeys credits and deadlines and knows nothing of policy. It never imports the coordinator.

mod completions;
mod connection;
mod core;
mod deadline;
mod failure;
mod recorder;
mod slab;

use std::io;
use std::sync::Arc;

use crate::credit::RequestIds;
use crate::id::CoreId;
use crate::journal::BlockWriter;
use crate::plan::{PhasePlan, RequestImages};
use crate::record::{ErrorDetail, PhaseHistograms};
use crate::sys::socket::KernelAddress;
use crate::units::Nanos;

pub(crate) use self::core::Core;

const _: () = assert!(crate::plan::ID_BLOCK_CAPACITY == crate::sys::uring::ID_BLOCK_BYTES);

/// What one core needs beside the exchange.
pub(crate) struct CorePlan {
    /// The core.
    pub(crate) id: CoreId,
    /// The workflow.
    pub(crate) phases: Vec<PhasePlan>,
    /// Most connections at once, those that are closing included.
    pub(crate) connections: usize,
    /// Request bytes.
    pub(crate) images: RequestImages,
    /// Identities of requests.
    pub(crate) ids: RequestIds,
    /// Where to connect.
    pub(crate) address: KernelAddress,
    /// Whether answers are streams, for the streaming histograms.
    pub(crate) streaming: bool,
    /// Longest life of a request.
    pub(crate) request_timeout: Nanos,
    /// Where records go.
    pub(crate) journal: BlockWriter,
    /// Whether records of successes go there too. Failures always do: histograms cannot hold their texts.
    pub(crate) keep_successes: bool,
}

/// What a core leaves behind.
pub(crate) struct CoreReport {
    /// Figures by phase.
    pub(crate) histograms: Vec<PhaseHistograms>,
    /// Failure texts by index.
    pub(crate) errors: Vec<ErrorDetail>,
    /// Figures of the core itself.
    pub(crate) counters: CoreCounters,
}

/// Figures of a core itself, for the artifacts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CoreCounters {
    /// io_uring_enter(2) calls.
    pub(crate) enters: u64,
    /// Completions.
    pub(crate) completions: u64,
    /// Receives that found no free buffer.
    pub(crate) buffer_shortages: u64,
    /// Completions that overflowed the completion queue.
    pub(crate) overflows: u64,
    /// Connections opened.
    pub(crate) connections: u64,
    /// Requests sent a second time because a reused connection had died.
    pub(crate) resends: u64,
    /// Processor time of the core's thread, the kernel's work for it included.
    pub(crate) busy: Nanos,
    /// Nanoseconds from the core's start to its end.
    pub(crate) life: Nanos,
}

/// A core that cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReactorError {
    /// The ring could not be made.
    #[error("io_uring is not available: {source}; {advice}")]
    Setup {
        /// Why.
        source: io::Error,
        /// Probable cause and what to do.
        advice: &'static str,
    },
    /// The ring stopped working.
    #[error("io_uring failed while the load ran: {0}")]
    Ring(io::Error),
}

impl ReactorError {
    fn setup(source: io::Error) -> Self {
        let advice = match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                "it is refused here: a container's seccomp profile blocks it (allow io_uring_setup, io_uring_enter and io_uring_register), \
                 or the sysctl kernel.io_uring_disabled is not 0"
            }
            Some(libc::ENOSYS) => {
                "this kernel has no io_uring or a seccomp profile hides it; Linux 6.1 or newer is needed"
            }
            Some(libc::ENOMEM) => "the locked-memory limit is too low: raise it (ulimit -l) or use fewer cores",
            Some(libc::EINVAL) => "this kernel is too old: Linux 6.1 or newer is needed",
            _ => "see io_uring_setup(2)",
        };
        Self::Setup { source, advice }
    }
}

/// Starts nothing: tells whether a ring can be made on this host.
///
/// # Errors
/// The same as the cores would get.
pub(crate) fn probe() -> Result<(), ReactorError> {
    let address = KernelAddress::new(std::net::SocketAddr::from(([127, 0, 0, 1], 1)));
    // On a thread of its own: a ring belongs to the thread that made it.
    std::thread::spawn(move || crate::sys::uring::Ring::new(1, Arc::from([]), Arc::from([]), address).map(drop))
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        .map_err(ReactorError::setup)
}
