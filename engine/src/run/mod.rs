//! The composition root: from a plan to artifacts.
//!
//! ```text
//! prepare the directory, limits, address, ring         refused here, nothing was sent
//! wait for the model, reset hook, first scrapes
//! journal thread, one pinned thread per core, control thread, coordinator thread
//! ... load; the calling thread only looks on ...
//! join, merge, read the journal once, report, write
//! ```

mod address;
mod export;
mod facts;
mod forecast;
mod hooks;
mod live;
mod notes;
mod placement;
mod preview;
mod processors;
mod raw;
mod recover;
mod results;
mod servers;
mod telemetry;
mod threads;
mod topology;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use address::Addresses;
pub use forecast::{Bound, Forecast, PhaseForecast, Requests, forecast};
pub use live::{LivePhase, LiveSilence, LiveSnapshot};
use notes::Note;
pub use preview::{HostPreview, Preview, preview};
pub use recover::{RecoverError, RecoverOptions, Recovered, recover};

use crate::artifact::{self, ArtifactDirectory, ArtifactError};
use crate::clock::{self, WallAnchor};
use crate::control::{HookError, NotReady};
use crate::coordinator::LiveBoard;
pub use crate::coordinator::{DRAIN_STALL_TIMEOUT, STALL_TIMEOUT};
use crate::interrupt::Interrupt;
use crate::journal::{Journal, JournalError};
use crate::plan::Plan;
use crate::reactor::{self, Chosen, Profiles, ReactorError};
pub use crate::reactor::{DriverChoice, Pacing};
use crate::report::Report;
use crate::sys::affinity;
use crate::tls::{TlsClient, TlsError};
use crate::units::{Nanos, counted};

/// How often the observer is called.
const OBSERVE: Duration = Duration::from_secs(1);
/// How often a wait looks for an interrupt.
const LOOK: Duration = Duration::from_millis(20);

/// Reactor cores: how many, and where.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CoreChoice {
    /// One per physical core of one memory node, but one.
    #[default]
    Auto,
    /// So many.
    Count(u16),
    /// One on each of these processors.
    Processors(Vec<usize>),
}

/// How to run a plan on this host.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Reactor cores.
    pub cores: CoreChoice,
    /// What moves the bytes.
    pub driver: DriverChoice,
    /// Addresses of this host that connections are bound to in turn; none leaves the choice to the kernel.
    pub source_addresses: Vec<IpAddr>,
    /// How cores wait for the next deadline.
    pub pacing: Pacing,
    /// While a phase without a grace period drains, a request that has received nothing for this long is cut.
    pub drain_stall_timeout: Nanos,
    /// A phase that has sent nothing and received no byte for this long, and cannot go on by itself, ends the run. [`Nanos::MAX`]: never.
    pub stall_timeout: Nanos,
    /// Ends the run early when raised.
    pub interrupt: Arc<Interrupt>,
}

/// A run that sent load, however it ended. All its results are written.
#[derive(Debug)]
pub struct RunOutcome {
    /// The figures.
    pub report: Report,
    /// Where the artifacts are.
    pub artifact_directory: PathBuf,
    /// Every file that was written.
    pub files: Vec<PathBuf>,
    /// The signal that ended the run early.
    pub interrupted: Option<i32>,
    /// Why the run failed, in one line; `None`: it did not.
    pub failure: Option<String>,
    /// Which phase had more failures than its `failed_request_threshold` allows, in one line: that ended the run early.
    pub threshold_missed: Option<String>,
    /// Which processors the cores had and how they waited, in one line.
    pub placement: String,
    /// What came of each controller, one line each.
    pub searches: Vec<String>,
    /// Whether the console shows how requests went over the wire.
    pub shows_trace_timing: bool,
    /// What went wrong without failing the run, one line each.
    pub warnings: Vec<String>,
}

/// A run that sent no load.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The artifact directory cannot be used.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The driver cannot be used.
    #[error(transparent)]
    Reactor(#[from] ReactorError),
    /// TLS cannot be used as asked.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A control hook failed before the load.
    #[error(transparent)]
    Control(#[from] HookError),
    /// The model is not served.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// More cores than there are.
    #[error("--cores {wanted}: this process may use {}; ask for at most {available}", counted(*available, "processor"))]
    Cores {
        /// Asked for.
        wanted: usize,
        /// What the process may use.
        available: usize,
    },
    /// Processors that the process may not use.
    #[error("--cores: processor {unknown} is not among those that this process may use: {allowed}; name some of these")]
    Processors {
        /// Asked for.
        unknown: String,
        /// What the process may use.
        allowed: String,
    },
    /// Fewer descriptors than connections.
    #[error(
        "the concurrency of this plan needs {needed} file descriptors and the hard limit is {limit}; raise it (ulimit -Hn {needed}) or lower the concurrency"
    )]
    Descriptors {
        /// Needed.
        needed: u64,
        /// Allowed.
        limit: u64,
    },
    /// The server's name does not resolve.
    #[error("cannot resolve the host '{host}': {reason}")]
    Resolve {
        /// The name.
        host: String,
        /// Why.
        reason: String,
    },
    /// Connections cannot come from that address.
    #[error("--source-address {address}: {reason}")]
    SourceAddress {
        /// The address.
        address: IpAddr,
        /// Why, and what to do.
        reason: String,
    },
    /// A thread or an event could not be made.
    #[error("cannot start the run: {0}")]
    Threads(std::io::Error),
    /// The user interrupted before any load was sent.
    #[error("interrupted by signal {signal} before any load was sent")]
    Interrupted {
        /// The signal.
        signal: i32,
    },
}

impl RunError {
    /// The signal, if the user ended the run.
    pub fn interrupted_by(&self) -> Option<i32> {
        match self {
            Self::Interrupted { signal } => Some(*signal),
            _ => None,
        }
    }

    /// Whether another command line would have been accepted, as opposed to another host or server.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Cores { .. }
                | Self::SourceAddress { .. }
                | Self::Processors { .. }
                | Self::Tls(TlsError::CaFile { .. } | TlsError::Name { .. })
                | Self::Artifact(
                    ArtifactError::Occupied { .. } | ArtifactError::UnderWay { .. } | ArtifactError::Prefix { .. }
                )
        )
    }
}

/// Runs a plan to its end and writes its artifacts. `observer` is called on this thread about once a second while load is sent.
///
/// # Errors
/// What was found before any load was sent. From then on every outcome is a [`RunOutcome`].
pub fn run(plan: &Plan, options: &RunOptions, observer: &mut dyn FnMut(&LiveSnapshot)) -> Result<RunOutcome, RunError> {
    let placement = placement::place(&plan.phases, plan.endpoint.targets.len(), &options.cores)?;
    let tls = tls_clients(plan)?;
    let (targets, sources) = (plan.endpoint.targets.clone(), options.source_addresses.clone());
    let addresses = unless_interrupted("ringload-resolver", &options.interrupt, move || {
        address::resolve(&targets, &sources)
    })??;
    let mut host = Host {
        profiles: options.pacing.on_host(placement.processors.spare),
        pacing: options.pacing,
        placement,
        addresses,
        tls,
        driver: reactor::choose(options.driver)?,
    };
    let directory = ArtifactDirectory::prepare(plan)?;
    let before = [
        artifact::write_inputs(&directory, plan)?,
        artifact::write_resolved(&directory, plan)?,
    ];
    let caller = KeptOff::processors_of_cores(&host);
    let Started {
        journal,
        load,
        anchor,
        start,
        board,
        observers,
    } = start_load(plan, &mut host, &directory, options).inspect_err(|_| {
        // Nothing was measured, so nothing may look like results to the next run. Best effort: the reason of the refusal is worth more.
        for file in &before {
            let _ = std::fs::remove_file(file);
        }
        let _ = std::fs::remove_file(directory.path().join(artifact::JOURNAL));
    })?;
    let notes = journal.notes();
    while !load.ended_within(OBSERVE) {
        let now = clock::monotonic();
        if let Some(counts) = Note::counts(load.exchange(), &board, now) {
            notes.add(counts.encode());
        }
        observer(&live::snapshot(&plan.phases, load.exchange(), &board, start, now));
    }
    let mut ended = load.join(observers);
    let at = clock::monotonic().0;
    notes.add(Note::LoadEnded { at }.encode());
    // What follows is work for all processors.
    drop(caller);
    ended.coordinator.outcome.warnings.extend(ended.unstopped.take());
    let mut outcome = results::write(
        plan,
        &directory,
        anchor,
        &host,
        ended,
        journal.finish(),
        options.interrupt.signal(),
    );
    outcome.files.splice(0..0, before);
    outcome.warnings.splice(
        0..0,
        host.driver
            .reason
            .into_iter()
            .chain(host.placement.processors.warnings)
            .chain(plan.warnings.iter().cloned()),
    );
    Ok(outcome)
}

/// A client for each target, under roots that are read once.
fn tls_clients(plan: &Plan) -> Result<Vec<Arc<TlsClient>>, TlsError> {
    let Some(verification) = &plan.endpoint.tls else {
        return Ok(Vec::new());
    };
    let (first, others) = plan.endpoint.targets.split_first().expect("a plan has a target");
    let first = Arc::new(TlsClient::new(&first.host, verification)?);
    let mut clients = vec![Arc::clone(&first)];
    for target in others {
        clients.push(Arc::new(first.for_host(&target.host)?));
    }
    Ok(clients)
}

/// Keeps the calling thread, and with it every thread that it starts meanwhile and that does not pin itself, off the processors of the cores:
/// coordinator, journal, control client, and what the caller does with snapshots.
struct KeptOff {
    /// Where the caller could run before.
    before: Vec<usize>,
}

impl KeptOff {
    fn processors_of_cores(host: &Host) -> Self {
        let before = affinity::allowed_processors();
        let others = &host.placement.processors.others;
        // Refused only where pinning is refused as well, and of that the user hears.
        let moved = !others.is_empty() && affinity::restrict_to(others);
        Self {
            before: if moved { before } else { Vec::new() },
        }
    }
}

impl Drop for KeptOff {
    fn drop(&mut self) {
        if !self.before.is_empty() {
            affinity::restrict_to(&self.before);
        }
    }
}

/// What the run has of this host.
struct Host {
    placement: placement::Placement,
    pacing: Pacing,
    profiles: Profiles,
    addresses: Addresses,
    /// By target; shared by all cores, the first by the control client too. Empty without TLS.
    tls: Vec<Arc<TlsClient>>,
    driver: Chosen,
}

/// A load under way and what it was started with.
struct Started {
    journal: Journal,
    load: threads::Load,
    anchor: WallAnchor,
    start: Nanos,
    board: Arc<LiveBoard>,
    observers: telemetry::Observers,
}

/// Waits for the model and resets the server's cache, if the plan says so, and starts the threads.
fn start_load(
    plan: &Plan,
    host: &mut Host,
    directory: &ArtifactDirectory,
    options: &RunOptions,
) -> Result<Started, RunError> {
    // A client's roots are those of the others; the names are in the addresses of calls.
    let tls = host.tls.first().map(|client| &**client);
    hooks::await_model(plan, tls, &options.interrupt)?;
    let hooks = hooks::Hooks::new(plan, tls, Arc::clone(&options.interrupt)).reset()?;
    if let Some(signal) = options.interrupt.signal() {
        return Err(RunError::Interrupted { signal });
    }
    let observers = telemetry::Observers::start(plan, tls)?;
    let bell = Arc::clone(&observers.bell);
    let anchor = WallAnchor::take();
    let start = clock::monotonic();
    let journal = Journal::start(
        &directory.path().join(artifact::JOURNAL),
        host.placement.processors.cores.len(),
        &Note::opening(plan, anchor, start),
    )?;
    let notes = journal.notes();
    let board = Arc::new(LiveBoard::telling(move |news| {
        notes.add(Note::of(news).encode());
        bell.ring();
    }));
    let load = threads::Load::start(plan, host, &journal, hooks, &board, options)?;
    // Which driver the cores have is known only now.
    journal
        .notes()
        .add(Note::Facts(facts::of_start(host, plan.seed)).encode());
    Ok(Started {
        journal,
        load,
        anchor,
        start,
        board,
        observers,
    })
}

/// Does `work` on a thread of its own and leaves it there when the user ends the run: a name server or a control route that does not answer
/// may block for as long as its timeout, and nobody waits for that after a Ctrl-C. What the work would have come to is of no interest then.
///
/// # Errors
/// No thread, or the interrupt.
fn unless_interrupted<T: Send + 'static>(
    name: &str,
    interrupt: &Interrupt,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RunError> {
    let (sender, answer) = channel();
    let thread = threads::spawn(name.to_owned(), move || {
        // The receiver is gone if the user did not wait.
        let _ = sender.send(work());
    })?;
    loop {
        let received = answer.recv_timeout(LOOK);
        if let Some(signal) = interrupt.signal() {
            return Err(RunError::Interrupted { signal });
        }
        match received {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => unreachable!("work that returns sends its result"),
            },
        }
    }
}
