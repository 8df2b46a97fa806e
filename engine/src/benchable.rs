//! The engine's inside as far as the benches need it: thin faces over private parts, without policy of their own.
//!
//! Not part of the public interface. Anything here may change with the parts behind it.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use crate::clock;
use crate::credit::{Command, Credit, Exchange, PhaseGate, RequestIds};
use crate::http::{Extractor, Wanted};
use crate::id::{CoreId, PhaseId};
use crate::journal::{BlockWriter, Journal};
use crate::plan::Plan;
use crate::reactor::{
    self, CorePlan, CoreReport, Deadlines, DriverKind, Pacing, ReactorError, Routes, connects_in_flight,
};
use crate::record::{self, Attachments, DecodeError, GapArena, GapChain, Outcome, RequestRecord};
use crate::sys::{affinity, limits};
use crate::units::Nanos;

/// The credits of one phase, as the coordinator pushes and the cores take them.
#[derive(Debug)]
pub struct Gate(PhaseGate);

impl Gate {
    /// A gate that holds up to `capacity` credits.
    pub fn new(capacity: usize) -> Self {
        Self(PhaseGate::new(capacity))
    }

    /// Credits that still fit.
    pub fn room(&self) -> usize {
        self.0.room()
    }

    /// Adds a credit.
    ///
    /// # Panics
    /// If there is no room.
    pub fn push(&self, credit: Credit) {
        self.0.push(credit);
    }

    /// Takes the oldest credit.
    pub fn take(&self) -> Option<Credit> {
        self.0.take()
    }
}

/// What a core does with a request that ended, without the core: gaps kept while the stream is open, then the record's bytes.
#[derive(Debug, Default)]
pub struct RecordPath {
    arena: GapArena,
    block: Vec<u8>,
}

/// The gaps of one open stream in a [`RecordPath`].
#[derive(Debug)]
pub struct Kept(GapChain);

impl RecordPath {
    /// Keeps the gaps of a stream, one by one, as contents arrive.
    pub fn keep(&mut self, gaps: &[u64]) -> Kept {
        let mut chain = GapChain::EMPTY;
        gaps.iter().for_each(|&gap| self.arena.push(&mut chain, gap));
        Kept(chain)
    }

    /// The kept gaps, decoded.
    pub fn gaps(&self, kept: &Kept) -> impl Iterator<Item = u64> {
        self.arena.gaps(kept.0)
    }

    /// Appends the record and its kept gaps to the block.
    pub fn encode(&mut self, record: &RequestRecord, kept: &Kept) {
        record::encode(
            record,
            self.arena.pieces(kept.0),
            Attachments::default(),
            &mut self.block,
        );
    }

    /// Lets go of kept gaps.
    pub fn release(&mut self, kept: Kept) {
        let mut chain = kept.0;
        self.arena.release(&mut chain);
    }

    /// The block so far.
    pub fn block(&self) -> &[u8] {
        &self.block
    }

    /// Empties the block and keeps its memory.
    pub fn clear(&mut self) {
        self.block.clear();
    }
}

/// Reads the record at `*at` and moves `*at` behind it.
///
/// # Errors
/// The bytes are not a whole record.
pub fn decode(bytes: &[u8], at: &mut usize) -> Result<RequestRecord, DecodeError> {
    record::decode(bytes, at)
}

/// The timers of a core: one deadline per connection.
#[derive(Debug)]
pub struct Timers(Deadlines);

impl Timers {
    /// Timers for so many connections.
    pub fn new(connections: usize) -> Self {
        Self(Deadlines::new(connections))
    }

    /// Sets the deadline of a connection.
    pub fn set(&mut self, index: u32, at: Nanos) {
        self.0.set(index, at);
    }

    /// Removes the deadline of a connection.
    pub fn remove(&mut self, index: u32) {
        self.0.remove(index);
    }

    /// The soonest deadline.
    pub fn next(&self) -> Option<Nanos> {
        self.0.next()
    }

    /// Takes the soonest deadline that is due.
    pub fn take_due(&mut self, now: Nanos) -> Option<u32> {
        self.0.take_due(now)
    }
}

/// One reactor core on its own thread, with its journal, fed as the coordinator feeds it: the first phase of a plan, a closed loop without end.
pub struct LoadedCore {
    exchange: Arc<Exchange>,
    core: JoinHandle<Result<CoreReport, ReactorError>>,
    journal: Journal,
    /// Where the kernel accounts for the core's thread; empty where it does not.
    account: PathBuf,
    entries: u64,
    sent: u64,
}

/// What a burst of requests took.
#[derive(Debug, Clone, Copy)]
pub struct Burst {
    /// From the first credit to the end of the last request.
    pub elapsed: Nanos,
    /// Processor time of the core's thread; `None` where the kernel does not tell.
    pub processor_time: Option<Nanos>,
}

/// Credits that the gate of a [`LoadedCore`] holds: as many as the coordinator gives one core.
const GATE_CAPACITY: usize = 16_384;
const PHASE: PhaseId = PhaseId(0);

impl fmt::Debug for LoadedCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedCore")
            .field("sent", &self.sent)
            .finish_non_exhaustive()
    }
}

impl LoadedCore {
    /// Starts a core, pinned to `processor`, with as many slots as the plan's first phase has concurrency.
    ///
    /// # Panics
    /// If the host refuses a thread, the ring or the journal, or the phase has no concurrency.
    pub fn start(plan: &Plan, address: SocketAddr, processor: Option<usize>, journal: &Path) -> Self {
        let phase = &plan.phases[PHASE.index()];
        let slots = phase.concurrency.expect("a closed loop has a concurrency").get();
        let exchange =
            Arc::new(Exchange::new(&[GATE_CAPACITY], 1).expect("a host that can run benches has descriptors"));
        let journal = Journal::start(journal, 1, b"bench").expect("the bench names a writable file");
        let core_plan = CorePlan {
            id: CoreId(0),
            phases: plan.phases[..1].to_vec(),
            connections: 2 * slots as usize + 64,
            images: plan.requests.clone(),
            ids: RequestIds::new(&plan.benchmark_id),
            seed: plan.seed,
            routes: Routes::new(&[[address]], &[]),
            connects_in_flight: connects_in_flight(1),
            connection_reuse: plan.endpoint.connection_reuse,
            tls: Vec::new(),
            kind: plan.endpoint.kind,
            extractor: Extractor::default(),
            wanted: Wanted::default(),
            streaming: plan.endpoint.streaming,
            request_timeout: plan.endpoint.request_timeout.unwrap_or(Nanos::MAX),
            pacing: Pacing::Efficient.on_host(true),
            journal: BlockWriter::new(CoreId(0), journal.queue()),
            judge: None,
            secrets: plan.secrets.clone(),
            keep_successes: true,
        };
        limits::raise_descriptor_limit(core_plan.connections as u64 + 128);
        let (ready, account) = std::sync::mpsc::channel();
        let theirs = Arc::clone(&exchange);
        let core = std::thread::spawn(move || {
            if let Some(processor) = processor {
                affinity::pin_to(processor);
            }
            limits::sharpen_timers();
            reactor::run_core(DriverKind::IoUring, core_plan, theirs, |_| {
                let _ = ready.send(own_account());
            })
        });
        let account = account.recv().expect("the core's thread reports before it runs");
        let since = clock::monotonic();
        exchange.gates[PHASE.index()].open(since, Nanos::MAX);
        exchange.links[0].command(Command::Allow {
            phase: PHASE,
            slots,
            since,
        });
        Self {
            exchange,
            core,
            journal,
            account,
            entries: plan.requests.entries.len() as u64,
            sent: 0,
        }
    }

    /// Sends `requests` requests and waits until all have ended.
    ///
    /// # Panics
    /// If a request does not succeed, or the core ends.
    pub fn send(&mut self, requests: u64) -> Burst {
        let goal = self.sent + requests;
        let before = self.processor_time();
        let start = clock::monotonic();
        loop {
            self.feed(goal);
            if self.ended() == goal {
                break;
            }
            self.wait(goal);
        }
        let elapsed = clock::monotonic().since(start);
        assert_eq!(self.count(Outcome::Success), goal, "every request succeeds");
        Burst {
            elapsed,
            processor_time: before.and_then(|before| Some(self.processor_time()?.since(before))),
        }
    }

    /// Ends the core and its journal.
    ///
    /// # Panics
    /// If either failed.
    pub fn stop(self) {
        self.exchange.links[0].command(Command::Shutdown);
        self.core
            .join()
            .expect("the core does not panic")
            .expect("the ring works to the end");
        let written = self.journal.finish().written;
        written.expect("the journal can be written");
    }

    fn feed(&mut self, goal: u64) {
        let gate = &self.exchange.gates[PHASE.index()];
        let credits = (gate.room() as u64).min(goal - self.sent);
        for _ in 0..credits {
            gate.push(Credit {
                phase: PHASE,
                conversation: (self.sent % self.entries) as u32,
                turns: u32::MAX,
                sequence: self.sent,
                intended: Nanos::ZERO,
                cancel_after: None,
            });
            self.sent += 1;
        }
        if credits > 0 {
            self.exchange.links[0].feed();
        }
        // The coordinator asks for every return only once the last credit is taken; so does this.
        let ending = self.sent == goal && gate.is_empty();
        self.exchange.attention.store(ending, Ordering::Relaxed);
    }

    fn wait(&self, goal: u64) {
        let waker = &self.exchange.coordinator;
        waker.prepare_sleep();
        let watched = self.exchange.attention.load(Ordering::Relaxed);
        let starved = !watched && self.exchange.gates[PHASE.index()].is_empty();
        if self.ended() != goal && !starved {
            waker.event().wait(Nanos::from_millis(10));
        }
        waker.awake();
        assert!(!self.core.is_finished(), "the core runs until it is told to end");
    }

    fn count(&self, outcome: Outcome) -> u64 {
        self.exchange.links[0].progress.phase(PHASE.index()).ended(outcome)
    }

    fn ended(&self) -> u64 {
        Outcome::ALL.into_iter().map(|outcome| self.count(outcome)).sum()
    }

    /// proc_pid_schedstat(5): the first number is nanoseconds on a processor.
    fn processor_time(&self) -> Option<Nanos> {
        let text = std::fs::read_to_string(&self.account).ok()?;
        text.split_whitespace().next()?.parse().ok().map(Nanos)
    }
}

/// The calling thread's file of processor time.
fn own_account() -> PathBuf {
    let thread = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    Path::new("/proc").join(thread).join("schedstat")
}
