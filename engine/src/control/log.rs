//! What was called so far: for the artifacts, and for whoever must take back a start that nobody waits for any more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::{Hook, HookError};
use super::origin::redacted;
use crate::clock;
use crate::units::Nanos;

/// One control call with all its attempts, for the artifacts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookReport {
    /// The hook.
    pub what: Hook,
    /// The origin without credentials.
    pub origin: String,
    /// Start of the first attempt on the monotonic clock.
    pub start: Nanos,
    /// From there to the end of the last attempt; of a call without an end so far, to the moment of the report.
    pub duration: Nanos,
    /// Attempts made.
    pub attempts: u32,
    /// Status of the last answer; `None` if the last attempt got none.
    pub status: Option<u16>,
    /// What became of it.
    pub end: CallEnd,
}

/// What became of a control call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd {
    /// Nothing yet.
    Pending,
    /// It did what it is for.
    Succeeded,
    /// It did not.
    Failed,
    /// No complete answer came, and the server may have acted.
    Uncertain,
}

impl HookReport {
    /// Whether the call did what it is for.
    pub fn succeeded(&self) -> bool {
        self.end == CallEnd::Succeeded
    }

    /// Whether it may have left a profiler running.
    fn may_profile(&self) -> bool {
        self.what == Hook::ProfilerStart && self.end != CallEnd::Failed
    }

    /// A stop that began later than this has undone a start.
    fn undone_after(&self) -> Nanos {
        match self.end {
            CallEnd::Pending => self.start,
            _ => self.start + self.duration,
        }
    }
}

/// A call of the log.
#[derive(Debug)]
struct Entry {
    /// Number of the origin.
    server: usize,
    report: HookReport,
}

/// The calls of a run, shared by the threads that make them and those that tell of them.
#[derive(Debug, Clone, Default)]
pub(super) struct HookLog(Arc<Mutex<Vec<Entry>>>);

/// A call that was begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallId(usize);

impl HookLog {
    /// Writes down that a call begins.
    pub(super) fn begin(&self, what: Hook, server: usize, origin: &str) -> CallId {
        let mut entries = self.entries();
        entries.push(Entry {
            server,
            report: HookReport {
                what,
                origin: redacted(origin),
                start: clock::monotonic(),
                duration: Nanos::ZERO,
                attempts: 1,
                status: None,
                end: CallEnd::Pending,
            },
        });
        CallId(entries.len() - 1)
    }

    /// Writes down one more attempt.
    pub(super) fn again(&self, call: CallId) {
        self.entries()[call.0].report.attempts += 1;
    }

    /// Writes down how a call ended, with the status of a good answer.
    pub(super) fn end(&self, call: CallId, result: Result<u16, &HookError>) {
        let mut entries = self.entries();
        let report = &mut entries[call.0].report;
        report.duration = clock::monotonic().since(report.start);
        (report.status, report.end) = match result {
            Ok(status) => (Some(status), CallEnd::Succeeded),
            Err(error) if error.may_have_had_effect() => (error.status(), CallEnd::Uncertain),
            Err(error) => (error.status(), CallEnd::Failed),
        };
    }

    /// All calls, in the order in which they began.
    pub(super) fn reports(&self) -> Vec<HookReport> {
        let now = clock::monotonic();
        let shown = |entry: &Entry| match entry.report.end {
            CallEnd::Pending => HookReport {
                duration: now.since(entry.report.start),
                ..entry.report.clone()
            },
            _ => entry.report.clone(),
        };
        self.entries().iter().map(shown).collect()
    }

    /// Whether the profiler of a server may run without a stop on its way there: a start was made that may have worked, and no stop since.
    pub(super) fn needs_stop(&self, server: usize) -> bool {
        let entries = self.entries();
        let calls = || {
            entries
                .iter()
                .filter(|entry| entry.server == server)
                .map(|entry| &entry.report)
        };
        let stopped_since = |at: Nanos| calls().any(|call| call.what == Hook::ProfilerStop && call.start >= at);
        calls().any(|call| call.may_profile() && !stopped_since(call.undone_after()))
    }

    /// Whether a start or a stop at a server is still without its answer.
    pub(super) fn awaits_answer(&self, server: usize) -> bool {
        let pending = |entry: &Entry| entry.server == server && entry.report.end == CallEnd::Pending;
        self.entries().iter().any(pending)
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        // Entries are whole at every point where a thread could panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::{Effect, HookCallName};
    use super::*;

    fn lost(effect: Effect) -> HookError {
        HookError::Transport {
            call: HookCallName {
                hook: Hook::ProfilerStart,
                origin: "http://h".to_owned(),
                path: "/start_profile".to_owned(),
            },
            reason: "closed".to_owned(),
            effect,
        }
    }

    #[test]
    fn a_start_needs_a_stop_unless_it_failed_for_certain() {
        for (result, expected) in [
            (Ok(200), true),
            (Err(lost(Effect::Possible)), true),
            (Err(lost(Effect::None)), false),
        ] {
            let log = HookLog::default();
            let call = log.begin(Hook::ProfilerStart, 0, "http://h");
            assert!(log.needs_stop(0) && log.awaits_answer(0) && !log.needs_stop(1));
            log.end(call, result.as_ref().copied());
            assert_eq!((log.needs_stop(0), log.awaits_answer(0)), (expected, false));
        }
    }

    #[test]
    fn a_stop_undoes_the_starts_before_it_and_none_that_is_answered_after_it() {
        let log = HookLog::default();
        let start = log.begin(Hook::ProfilerStart, 0, "http://h");
        let stop = log.begin(Hook::ProfilerStop, 0, "http://h");
        assert!(
            !log.needs_stop(0),
            "one stop behind a start without an answer is enough"
        );
        log.end(stop, Ok(200));
        log.end(start, Ok(200));
        assert!(log.needs_stop(0), "the start took effect after the stop");
        log.begin(Hook::ProfilerStop, 0, "http://h");
        assert!(!log.needs_stop(0));
        assert!(!log.needs_stop(1));
    }

    #[test]
    fn a_call_without_an_answer_is_told_with_the_time_it_has_taken() {
        let log = HookLog::default();
        let call = log.begin(Hook::ProfilerStart, 0, "http://user:secret@h");
        let report = log.reports().remove(0);
        assert_eq!(
            (report.origin.as_str(), report.end, report.status),
            ("http://h", CallEnd::Pending, None)
        );
        let later = log.reports().remove(0);
        assert!(later.duration >= report.duration);
        log.end(call, Ok(204));
        let ended = log.reports().remove(0);
        assert_eq!((ended.status, ended.end), (Some(204), CallEnd::Succeeded));
        assert_eq!(log.reports(), [ended]);
    }
}
