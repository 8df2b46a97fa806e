//! Runs under a deadline, and what they left on the disk.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ringload_engine::clock::WallAnchor;
use ringload_engine::interrupt::Interrupt;
use ringload_engine::plan::Plan;
use ringload_engine::run::{DriverChoice, LiveSnapshot, RunError, RunOptions, RunOutcome, run};
use ringload_engine::units::Nanos;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use crate::record::{Ending, Record};
use crate::{PATIENCE, books};

/// A run under way.
pub struct Running {
    plan: Plan,
    interrupt: Arc<Interrupt>,
    seen: Arc<Mutex<Option<LiveSnapshot>>>,
    done: Receiver<Result<RunOutcome, RunError>>,
    thread: JoinHandle<()>,
    temporary: TempDir,
}

/// A run that ended, with its artifacts read back. They are removed when it is dropped.
pub struct Run {
    /// What the engine returned.
    pub outcome: RunOutcome,
    /// What was run.
    pub plan: Plan,
    /// Every request, in the order in which they ended; empty in a run without records.
    pub records: Vec<Record>,
    /// The phases that ran, from the manifest.
    pub phases: Vec<PhaseEntry>,
    /// Turns monotonic instants, as the mock's ledger has them, into the wall-clock times of the artifacts.
    anchor: WallAnchor,
    _temporary: TempDir,
}

/// One entry of `phase_manifest.json`.
#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs, reason = "the names are those of the file format")]
pub struct PhaseEntry {
    pub phase_index: u64,
    pub profiling_index: Option<u64>,
    pub phase_name: String,
    pub phase_kind: String,
    pub start_ns: u64,
    pub end_ns: Option<u64>,
    pub was_cancelled: bool,
    pub successful_request_count: u64,
    pub error_request_count: u64,
    pub total_request_count: u64,
    pub metrics_json: String,
    pub metrics_csv: String,
}

/// Counts of a scope as its JSON file shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names are those of the file format")]
pub struct Counts {
    pub sent: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub truncated: u64,
}

impl Counts {
    pub(crate) fn of_document(document: &Value) -> Self {
        let count = |key: &str| {
            let value = &document["ringload"][key];
            value
                .as_u64()
                .unwrap_or_else(|| panic!("ringload.{key} is {value}, not a count"))
        };
        Self {
            sent: count("sent"),
            succeeded: count("succeeded"),
            failed: count("failed"),
            cancelled: count("cancelled"),
            truncated: count("truncated_request_count"),
        }
    }

    pub(crate) fn of_records<'a>(records: impl Iterator<Item = &'a Record>) -> Self {
        let mut counts = Self::default();
        for record in records {
            counts.sent += 1;
            *match record.ending() {
                Ending::Succeeded => &mut counts.succeeded,
                Ending::Failed => &mut counts.failed,
                Ending::Cancelled => &mut counts.cancelled,
                Ending::Truncated => &mut counts.truncated,
            } += 1;
        }
        counts
    }
}

/// The driver of in-process runs: `RINGLOAD_TEST_DRIVER`, so that the same tests hold over both.
pub fn driver_under_test() -> DriverChoice {
    match std::env::var("RINGLOAD_TEST_DRIVER").as_deref() {
        Ok("epoll") => DriverChoice::Epoll,
        Ok("io-uring") => DriverChoice::IoUring,
        Ok(other) => panic!("RINGLOAD_TEST_DRIVER is '{other}'; io-uring and epoll are known"),
        Err(_) => DriverChoice::Auto,
    }
}

impl Running {
    pub(crate) fn start(plan: Plan, options: RunOptions, temporary: TempDir) -> Self {
        let interrupt = Arc::clone(&options.interrupt);
        let seen = Arc::new(Mutex::new(None));
        let (sender, done) = channel();
        let (planned, watched) = (plan.clone(), Arc::clone(&seen));
        let thread = std::thread::spawn(move || {
            let result = run(&planned, &options, &mut |snapshot| {
                *watched.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot.clone());
            });
            // The receiver is gone only if the test has failed already.
            let _ = sender.send(result);
        });
        Self {
            plan,
            interrupt,
            seen,
            done,
            thread,
            temporary,
        }
    }

    /// Asks the run to end, as a signal would.
    pub fn interrupt(&self, signal: i32) {
        self.interrupt.raise(signal);
    }

    /// Requests that have ended so far, as an observer of the run sees them: about once a second.
    pub fn returned(&self) -> u64 {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let phases = seen.as_ref().map_or(&[][..], |snapshot| &snapshot.phases);
        phases.iter().map(|phase| phase.tally.returned()).sum()
    }

    /// Waits for the end of a run that sent load.
    ///
    /// # Panics
    /// If it does not end within [`PATIENCE`], was refused, or lost count of a request.
    pub fn finish(self) -> Run {
        self.finish_within(PATIENCE)
    }

    /// The same with a deadline of the test's own.
    ///
    /// # Panics
    /// As [`Running::finish`].
    pub fn finish_within(self, patience: Duration) -> Run {
        match self.end(patience) {
            (Ok(outcome), plan, temporary) => Run::read(outcome, plan, temporary),
            (Err(error), ..) => panic!("the run was refused: {error}"),
        }
    }

    /// Waits for the refusal of a run that sent no load.
    ///
    /// # Panics
    /// If it does not end within [`PATIENCE`], or sent load.
    pub fn refused(self) -> RunError {
        match self.end(PATIENCE) {
            (Err(error), ..) => error,
            (Ok(outcome), ..) => panic!("the run was to be refused and ended with {:?}", outcome.failure),
        }
    }

    /// Waits for the end of a run that may have sent load or not.
    ///
    /// # Errors
    /// Why it sent none.
    ///
    /// # Panics
    /// As [`Running::finish`], but for refusals.
    pub fn outcome(self) -> Result<Run, RunError> {
        let (result, plan, temporary) = self.end(PATIENCE);
        result.map(|outcome| Run::read(outcome, plan, temporary))
    }

    fn end(self, patience: Duration) -> (Result<RunOutcome, RunError>, Plan, TempDir) {
        match self.done.recv_timeout(patience) {
            Ok(result) => {
                self.thread.join().expect("the run has returned");
                (result, self.plan, self.temporary)
            }
            Err(RecvTimeoutError::Disconnected) => match self.thread.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => unreachable!("a run that returns sends its result"),
            },
            Err(RecvTimeoutError::Timeout) => {
                // Not left to eat the processors of the tests that follow.
                self.interrupt.raise(libc::SIGTERM);
                let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
                panic!("the run has not ended within {patience:?}; last seen: {seen:#?}")
            }
        }
    }
}

fn read_json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The phases of a manifest.
///
/// # Panics
/// If it is not there or is no manifest.
pub fn read_manifest(directory: &Path) -> Vec<PhaseEntry> {
    let document = read_json(&directory.join("phase_manifest.json"));
    assert_eq!(document["schema_version"], 1);
    serde_json::from_value(document["phases"].clone()).unwrap_or_else(|error| panic!("{error} in {document:#}"))
}

impl Run {
    fn read(outcome: RunOutcome, plan: Plan, temporary: TempDir) -> Self {
        let directory = &outcome.artifact_directory;
        let records = if plan.artifacts.records {
            Record::read_all(&directory.join("profile_export.jsonl"))
        } else {
            Vec::new()
        };
        let phases = read_manifest(directory);
        let run = Self {
            outcome,
            plan,
            records,
            phases,
            anchor: WallAnchor::take(),
            _temporary: temporary,
        };
        books::conserve(&run);
        run
    }

    /// A file of the artifacts.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.outcome.artifact_directory.join(relative)
    }

    /// A JSON file of the artifacts.
    ///
    /// # Panics
    /// If it is not there or is not JSON.
    pub fn json(&self, relative: &str) -> Value {
        read_json(&self.path(relative))
    }

    /// The summary of all profiling phases.
    pub fn root(&self) -> Value {
        self.json("profile_export_aiperf.json")
    }

    /// The manifest's entry of a phase.
    ///
    /// # Panics
    /// If the phase did not run.
    pub fn phase(&self, name: &str) -> &PhaseEntry {
        self.phases
            .iter()
            .find(|phase| phase.phase_name == name)
            .unwrap_or_else(|| panic!("no phase {name} in {:?}", self.phases))
    }

    /// The summary of one phase.
    pub fn summary(&self, name: &str) -> Value {
        self.json(&self.phase(name).metrics_json)
    }

    /// The counts of one phase.
    pub fn counts(&self, name: &str) -> Counts {
        Counts::of_document(&self.summary(name))
    }

    /// The records of one phase, in the order in which they ended.
    pub fn records_of(&self, name: &str) -> Vec<&Record> {
        let of_phase = |record: &&Record| record.metadata.phase_name == name;
        self.records.iter().filter(of_phase).collect()
    }

    /// How many requests ended so.
    pub fn ended(&self, ending: Ending) -> usize {
        self.records.iter().filter(|record| record.ending() == ending).count()
    }

    /// A monotonic instant of the mock's ledger as a wall-clock time. Good to some microseconds: both readings of both clocks take time.
    pub fn wall_ns(&self, monotonic_ns: u64) -> u64 {
        self.anchor.to_wall_ns(Nanos(monotonic_ns))
    }
}
