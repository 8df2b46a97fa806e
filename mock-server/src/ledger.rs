//! What really happened: counters, one ledger entry per inference request, and the log of control calls.
//!
//! Every time is `CLOCK_MONOTONIC` in nanoseconds, so a client on the same host can compare without conversion.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::api::Api;

/// Control calls that are kept; later ones are counted only.
const CONTROL_ENTRIES_MAX: usize = 10_000;
/// Bytes of a control call's body that are kept.
const CONTROL_BODY_BYTES_MAX: usize = 4_096;

/// How an inference request ended, as this server saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The whole answer was handed to the kernel.
    Complete,
    /// The client left before the end of the answer.
    Disconnected,
    /// The request was refused: credentials or body.
    Rejected,
    /// A scripted fault kept the answer from being a correct success.
    Faulted,
}

/// One message of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// `user`, `assistant` and the like.
    pub role: String,
    /// The text; empty where the content is no string.
    pub content: String,
}

/// One inference request, from its last received byte to its last sent one.
///
/// Send times are taken just before the bytes are handed to the kernel, so none of them is later than the arrival of
/// those bytes at the client. Times of things that did not happen are absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LedgerEntry {
    /// The API that the request spoke.
    pub api: Api,
    /// When the last byte of the request had been read.
    pub receive_complete_ns: u64,
    /// When the first byte of the response was sent; an interim head counts.
    pub first_byte_ns: Option<u64>,
    /// When the last bytes of the response were sent.
    pub last_byte_ns: Option<u64>,
    /// When the first token of a stream was sent.
    pub first_token_ns: Option<u64>,
    /// When the last token of a stream was sent.
    pub last_token_ns: Option<u64>,
    /// Length of the request body.
    pub request_bytes: u64,
    /// Length of the response on the wire, heads and framing included.
    pub response_bytes: u64,
    /// `X-Request-ID` of the request.
    pub request_id: Option<String>,
    /// `X-Correlation-ID` of the request.
    pub session: Option<String>,
    /// The model that it asks for, if the server keeps messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its messages, if the server keeps them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<Message>>,
    /// Words in the text of all messages.
    pub prompt_words: u64,
    /// Tokens sent.
    pub tokens_sent: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// The fault that was played, as it is written.
    pub fault: Option<String>,
    /// Inference requests in flight over all threads when this one had arrived, itself included.
    ///
    /// A request leaves this count just before the last bytes of its answer are sent, so that a client which waits for
    /// an answer before its next request never sees the count overstated. A client that closes a connection instead
    /// stays in the count until this server notices.
    pub in_flight_at_arrival: u64,
    /// Number of the connection, from 1 in order of acceptance.
    pub connection: u64,
    /// The client's end of the connection.
    pub client: SocketAddr,
    /// Index of the thread that served it.
    pub thread: usize,
}

/// One call of a control route, in order of arrival.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ControlEntry {
    /// When the request had been read.
    pub monotonic_ns: u64,
    /// Path without the query.
    pub path: String,
    /// The query without `?`; empty if there is none.
    pub query: String,
    /// Every header field in order, as it was sent.
    pub headers: Vec<(String, String)>,
    /// Whether the request carried an `Authorization` header.
    pub authorization: bool,
    /// The value of `Content-Length`, if there was one.
    pub content_length: Option<u64>,
    /// Length of the body.
    pub body_bytes: u64,
    /// The body as text, at most its first 4,096 bytes.
    pub body: String,
}

impl ControlEntry {
    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut named = self
            .headers
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value.as_str())
    }
}

/// Totals since the start of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Counters {
    /// Inference requests that arrived whole.
    pub requests: u64,
    /// Requests on all other routes.
    pub other_requests: u64,
    /// Inference requests in flight now; see [`LedgerEntry::in_flight_at_arrival`].
    pub in_flight: u64,
    /// Most inference requests ever in flight at once.
    pub in_flight_max: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections open now.
    pub connections_open: u64,
    /// Inference requests whose client left before the end of the answer.
    pub disconnects_before_end: u64,
    /// Calls of `/reset_prefix_cache` and `/flush_cache` together.
    pub reset_prefix_cache: u64,
    /// Calls of `/start_profile`.
    pub start_profile: u64,
    /// Calls of `/stop_profile`.
    pub stop_profile: u64,
    /// Whether the profiler runs: its last start or stop that was answered with a success was a start.
    pub profiling: bool,
    /// Bytes read from all connections, heads included.
    pub bytes_received: u64,
    /// Tokens handed to the kernel, those of answers that were not finished included.
    pub tokens_sent: u64,
    /// Ledger entries that newer ones displaced.
    pub ledger_dropped: u64,
}

/// The counters as all threads share them.
///
/// Every ordering is `Relaxed`: each counter stands alone, and whoever needs one exact has first seen an answer from
/// this server, which orders the two through the kernel.
#[derive(Debug, Default)]
pub(crate) struct SharedCounters {
    pub(crate) requests: AtomicU64,
    pub(crate) other_requests: AtomicU64,
    pub(crate) in_flight: AtomicU64,
    pub(crate) in_flight_max: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) connections_open: AtomicU64,
    pub(crate) disconnects_before_end: AtomicU64,
    pub(crate) reset_prefix_cache: AtomicU64,
    pub(crate) start_profile: AtomicU64,
    pub(crate) stop_profile: AtomicU64,
    pub(crate) profiling: AtomicBool,
    pub(crate) bytes_received: AtomicU64,
    pub(crate) tokens_sent: AtomicU64,
}

impl SharedCounters {
    /// Reads all of them; `ledger_dropped` is kept elsewhere.
    pub(crate) fn read(&self, ledger_dropped: u64) -> Counters {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            requests: load(&self.requests),
            other_requests: load(&self.other_requests),
            in_flight: load(&self.in_flight),
            in_flight_max: load(&self.in_flight_max),
            connections: load(&self.connections),
            connections_open: load(&self.connections_open),
            disconnects_before_end: load(&self.disconnects_before_end),
            reset_prefix_cache: load(&self.reset_prefix_cache),
            start_profile: load(&self.start_profile),
            stop_profile: load(&self.stop_profile),
            profiling: self.profiling.load(Ordering::Relaxed),
            bytes_received: load(&self.bytes_received),
            tokens_sent: load(&self.tokens_sent),
            ledger_dropped,
        }
    }
}

/// Adds one and returns the new value.
pub(crate) fn increment(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed) + 1
}

/// Locks even if a thread panicked inside: the data are plain records, whole at every point where a panic could occur.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The newest entries of one thread.
#[derive(Debug)]
pub(crate) struct Ledger {
    entries: VecDeque<LedgerEntry>,
    capacity: usize,
    dropped: u64,
}

impl Ledger {
    pub(crate) fn new(capacity: usize) -> Ledger {
        Ledger {
            entries: VecDeque::new(),
            capacity,
            dropped: 0,
        }
    }

    /// Files `entry` and returns its number, for [`Ledger::amend`].
    pub(crate) fn push(&mut self, entry: LedgerEntry) -> u64 {
        let number = self.dropped + self.entries.len() as u64;
        self.entries.push_back(entry);
        if self.entries.len() > self.capacity {
            self.entries.pop_front();
            self.dropped += 1;
        }
        number
    }

    /// Changes a filed entry, if it is still kept.
    pub(crate) fn amend(&mut self, number: u64, change: impl FnOnce(&mut LedgerEntry)) {
        let index = number
            .checked_sub(self.dropped)
            .and_then(|index| usize::try_from(index).ok());
        if let Some(entry) = index.and_then(|index| self.entries.get_mut(index)) {
            change(entry);
        }
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.entries.iter()
    }
}

/// The control calls, oldest first.
#[derive(Debug, Default)]
pub(crate) struct ControlLog {
    entries: Vec<ControlEntry>,
}

impl ControlLog {
    /// Keeps a call, with its body cut; beyond the bound it is dropped.
    pub(crate) fn push(&mut self, mut entry: ControlEntry, body: &[u8]) {
        if self.entries.len() < CONTROL_ENTRIES_MAX {
            entry.body_bytes = body.len() as u64;
            entry.body = String::from_utf8_lossy(&body[..body.len().min(CONTROL_BODY_BYTES_MAX)]).into_owned();
            self.entries.push(entry);
        }
    }

    pub(crate) fn entries(&self) -> &[ControlEntry] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(received_ns: u64) -> LedgerEntry {
        LedgerEntry {
            api: Api::Chat,
            receive_complete_ns: received_ns,
            first_byte_ns: None,
            last_byte_ns: None,
            first_token_ns: None,
            last_token_ns: None,
            request_bytes: 2,
            response_bytes: 3,
            request_id: Some("r".into()),
            session: None,
            model: None,
            messages: None,
            prompt_words: 1,
            tokens_sent: 0,
            outcome: Outcome::Complete,
            fault: None,
            in_flight_at_arrival: 1,
            connection: 1,
            client: ([127, 0, 0, 1], 4000).into(),
            thread: 0,
        }
    }

    #[test]
    fn the_newest_entries_stay_and_the_others_are_counted() {
        let mut ledger = Ledger::new(3);
        for received_ns in 0..10 {
            ledger.push(entry(received_ns));
        }
        assert_eq!(ledger.dropped(), 7);
        assert_eq!(
            ledger
                .entries()
                .map(|entry| entry.receive_complete_ns)
                .collect::<Vec<_>>(),
            [7, 8, 9]
        );
    }

    #[test]
    fn an_entry_is_amended_by_its_number_while_it_is_kept() {
        let mut ledger = Ledger::new(2);
        let numbers: Vec<u64> = (0..3).map(|received_ns| ledger.push(entry(received_ns))).collect();
        for number in numbers {
            ledger.amend(number, |entry| {
                entry.tokens_sent = 100 + entry.receive_complete_ns as u32
            });
        }
        assert_eq!(
            ledger.entries().map(|entry| entry.tokens_sent).collect::<Vec<_>>(),
            [101, 102]
        );
    }

    #[test]
    fn a_ledger_without_capacity_counts_only() {
        let mut ledger = Ledger::new(0);
        let number = ledger.push(entry(0));
        ledger.amend(number, |_| panic!("nothing is kept"));
        assert_eq!((ledger.dropped(), ledger.entries().count()), (1, 0));
    }

    #[test]
    fn outcomes_are_written_as_documented_and_entries_read_back() {
        let entry = LedgerEntry {
            outcome: Outcome::Disconnected,
            ..entry(5)
        };
        let json = serde_json::to_string(&entry).expect("plain data");
        assert!(json.contains(r#""outcome":"disconnected""#), "{json}");
        assert_eq!(serde_json::from_str::<LedgerEntry>(&json).expect("round trip"), entry);
    }
}
