//! One core's loop: credits in, requests out, records and counts back.
//!
//! A core obeys credits and deadlines and knows nothing of policy. It never imports the coordinator.

mod arrival_use;
mod arrivals;
mod completions;
mod connection;
mod core;
mod deadline;
mod failure;
mod health;
mod idle;
mod opening;
mod pacing;
mod prefill;
mod pulse;
mod ramp;
mod recorder;
mod routes;
mod sealed;
mod servers;
mod sessions;
mod slab;
mod turns;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::credit::{Exchange, RequestIds};
use crate::http::{Extractor, ScratchPool, Wanted};
use crate::id::CoreId;
use crate::journal::BlockWriter;
use crate::plan::{ConnectionReuse, EndpointKind, PhasePlan, RequestImages, Secrets};
use crate::record::{CoreWindow, ErrorDetail, Judge, PhaseHistograms, ServerCounts};
use crate::sys::driver::Driver;
use crate::sys::epoll::Epoll;
use crate::sys::uring::Ring;
use crate::tls::TlsClient;
use crate::units::Nanos;

pub(crate) use self::deadline::Deadlines;
pub use self::pacing::Pacing;
pub(crate) use self::pacing::Profiles;

use self::core::Core;
pub(crate) use connection::protocol_of;
pub(crate) use ramp::connects_in_flight;
pub(crate) use routes::Routes;

const _: () = assert!(crate::plan::ID_BLOCK_CAPACITY == crate::sys::send_slots::ID_BLOCK_BYTES);

/// How often a ring is asked for while locked memory is short, and the pause between: half a second in all.
const MEMORY_ATTEMPTS: u32 = 26;
const MEMORY_PAUSE: Duration = Duration::from_millis(20);

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
    /// Root of random draws.
    pub(crate) seed: u64,
    /// Where to connect, and from where.
    pub(crate) routes: Routes,
    /// Most connects at once whose outcome is open.
    pub(crate) connects_in_flight: usize,
    /// What becomes of connections whose request has ended.
    pub(crate) connection_reuse: ConnectionReuse,
    /// The TLS of its connections by server; empty without.
    pub(crate) tls: Vec<Arc<TlsClient>>,
    /// How answers are read.
    pub(crate) kind: EndpointKind,
    /// Where answers of type template are.
    pub(crate) extractor: Extractor,
    /// What of answers is kept beside what their records say.
    pub(crate) wanted: Wanted,
    /// Whether answers are streams, for the streaming histograms.
    pub(crate) streaming: bool,
    /// Longest life of a request.
    pub(crate) request_timeout: Nanos,
    /// How to wait.
    pub(crate) pacing: Profiles,
    /// Where records go.
    pub(crate) journal: BlockWriter,
    /// Whether records of successes go there too. Failures always do: histograms cannot hold their texts.
    pub(crate) keep_successes: bool,
    /// Tells good requests from others; `None` without service levels.
    pub(crate) judge: Option<Judge>,
    /// What the texts of failures must not say in the journal.
    pub(crate) secrets: Secrets,
}

impl CorePlan {
    /// The buffers of the core's readers.
    fn scratch(&self) -> ScratchPool {
        ScratchPool::new(64, 4096)
            .with_tap(self.wanted)
            .with_extractor(self.extractor.clone())
    }
}

/// What a core leaves behind.
pub(crate) struct CoreReport {
    /// Figures by phase.
    pub(crate) histograms: Vec<PhaseHistograms>,
    /// What the core knows of itself, by phase.
    pub(crate) windows: Vec<CoreWindow>,
    /// Requests by phase and server, in this order; empty where there is one server.
    pub(crate) servers: Vec<ServerCounts>,
    /// Failure texts by index.
    pub(crate) errors: Vec<ErrorDetail>,
    /// Figures of the core itself.
    pub(crate) counters: CoreCounters,
}

/// Figures of a core itself, for the artifacts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CoreCounters {
    /// Calls that submit and wait: io_uring_enter(2) or epoll_pwait2(2).
    pub(crate) enters: u64,
    /// Completions.
    pub(crate) completions: u64,
    /// Receives that found no free buffer.
    pub(crate) buffer_shortages: u64,
    /// Completions that overflowed the completion queue.
    pub(crate) overflows: u64,
    /// Connections opened.
    pub(crate) connections: u64,
    /// Those of them that took the place of one that had ended.
    pub(crate) reconnects: u64,
    /// TLS handshakes that were done.
    pub(crate) handshakes: u64,
    /// Those of them that resumed an earlier session.
    pub(crate) resumptions: u64,
    /// Requests sent a second time because a reused connection had died.
    pub(crate) resends: u64,
    /// Processor time of the core's thread, the kernel's work for it included.
    pub(crate) busy: Nanos,
    /// Nanoseconds from the core's start to its end.
    pub(crate) life: Nanos,
}

/// Which driver moves the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DriverChoice {
    /// io_uring, or epoll where the host refuses it.
    #[default]
    Auto,
    /// io_uring or nothing.
    IoUring,
    /// epoll.
    Epoll,
}

/// The driver of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DriverKind {
    IoUring,
    Epoll,
}

impl DriverKind {
    /// The word in flags and artifacts.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::IoUring => "io-uring",
            Self::Epoll => "epoll",
        }
    }
}

/// A driver, and why it is not the first choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) kind: DriverKind,
    /// Cause and remedy in one line, if io_uring was refused.
    pub(crate) reason: Option<String>,
}

/// A core that cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReactorError {
    /// io_uring could not be set up.
    #[error("io_uring is not available: {cause}; {advice}")]
    Setup {
        /// Why.
        cause: io::Error,
        /// Probable cause and what to do.
        advice: &'static str,
    },
    /// The epoll set could not be made.
    #[error("cannot create an epoll set: {0}")]
    Epoll(io::Error),
    /// The driver stopped working.
    #[error("the kernel failed while the load ran: {0}")]
    Driver(io::Error),
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
        Self::Setup { cause: source, advice }
    }

    /// The one line that a run says when it goes on with epoll instead.
    pub(crate) fn as_reason(&self) -> String {
        format!("{self}; the run uses the epoll driver")
    }
}

fn new_ring(plan: &CorePlan) -> Result<Ring, ReactorError> {
    let (heads, tails) = shared_bytes(&plan.images);
    patiently(|| {
        Ring::new(
            plan.connections,
            Arc::clone(&heads),
            Arc::clone(&tails),
            plan.routes.peers(),
        )
    })
}

/// Asks again for a while if locked memory is short: the kernel gives back what a closed ring had locked some time after the close, and both the
/// probe and an earlier run of the same user may just have closed theirs.
fn patiently<T>(mut make: impl FnMut() -> io::Result<T>) -> Result<T, ReactorError> {
    let mut asked = 1;
    loop {
        match make() {
            Err(error) if error.raw_os_error() == Some(libc::ENOMEM) && asked < MEMORY_ATTEMPTS => {
                asked += 1;
                std::thread::sleep(MEMORY_PAUSE);
            }
            outcome => return outcome.map_err(ReactorError::setup),
        }
    }
}

fn new_epoll(plan: &CorePlan) -> Result<Epoll, ReactorError> {
    let (heads, tails) = shared_bytes(&plan.images);
    Epoll::new(plan.connections, heads, tails, plan.routes.peers()).map_err(ReactorError::Epoll)
}

type SharedPieces = Arc<[Arc<[u8]>]>;

fn shared_bytes(images: &RequestImages) -> (SharedPieces, SharedPieces) {
    let tails = images.entries.iter().map(|image| Arc::clone(&image.tail)).collect();
    (Arc::clone(&images.heads), tails)
}

/// Makes a core over the driver of that kind and runs it to its end. Must be called on the core's own thread, for a ring belongs to the thread that
/// made it. `ready` is told whether the core can run, before it does.
///
/// # Errors
/// The driver cannot be made, or failed while the load ran.
pub(crate) fn run_core(
    kind: DriverKind,
    plan: CorePlan,
    exchange: Arc<Exchange>,
    ready: impl FnOnce(bool),
) -> Result<CoreReport, ReactorError> {
    fn go<D: Driver>(
        driver: Result<D, ReactorError>,
        plan: CorePlan,
        exchange: Arc<Exchange>,
        ready: impl FnOnce(bool),
    ) -> Result<CoreReport, ReactorError> {
        let core = driver.map(|driver| Core::new(plan, driver, exchange));
        ready(core.is_ok());
        core?.run()
    }
    match kind {
        DriverKind::IoUring => go(new_ring(&plan), plan, exchange, ready),
        DriverKind::Epoll => go(new_epoll(&plan), plan, exchange, ready),
    }
}

/// Decides the driver by trying: starts nothing.
///
/// # Errors
/// io_uring was asked for by name and is refused.
pub(crate) fn choose(choice: DriverChoice) -> Result<Chosen, ReactorError> {
    if choice == DriverChoice::Epoll {
        return Ok(Chosen {
            kind: DriverKind::Epoll,
            reason: None,
        });
    }
    match (probe(), choice) {
        (Ok(()), _) => Ok(Chosen {
            kind: DriverKind::IoUring,
            reason: None,
        }),
        (Err(error), DriverChoice::Auto) => Ok(Chosen {
            kind: DriverKind::Epoll,
            reason: Some(error.as_reason()),
        }),
        (Err(error), _) => Err(error),
    }
}

fn probe() -> Result<(), ReactorError> {
    // All three calls are made: a seccomp profile may allow the first and forbid the others.
    let make = || {
        let mut ring = Ring::new(1, Arc::from([]), Arc::from([]), Arc::from([]))?;
        ring.turn(Nanos::ZERO, &mut Vec::new())
    };
    // On a thread of its own: a ring belongs to the thread that made it.
    std::thread::spawn(move || patiently(make))
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
