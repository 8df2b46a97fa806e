//! Bookkeeping: what the artifacts say must add up, and must agree with what the server saw.

use std::collections::{HashMap, HashSet};

use ringload_mock_server::{LedgerEntry, MockServer};
use serde_json::Value;

use crate::record::{Ending, Record};
use crate::run::{Counts, Run};
use crate::server::settled_ledger;

/// The conservation law: sent = succeeded + failed + cancelled + truncated, in each file, between the files, and against the records.
pub(crate) fn conserve(run: &Run) {
    let mut measured = Counts::default();
    for phase in &run.phases {
        let name = &phase.phase_name;
        let document = run.json(&phase.metrics_json);
        let counts = Counts::of_document(&document);
        assert_balanced(name, counts);
        if run.plan.artifacts.records {
            let recorded = Counts::of_records(run.records_of(name).into_iter());
            assert_eq!(recorded, counts, "phase {name}: records (left) and summary (right)");
        }
        assert_eq!(
            (
                phase.successful_request_count,
                phase.error_request_count,
                phase.total_request_count
            ),
            (
                counts.succeeded,
                counts.failed + counts.cancelled,
                counts.succeeded + counts.failed + counts.cancelled
            ),
            "phase {name}: manifest (left) and summary (right)"
        );
        let scalar = |tag: &str| document[tag]["avg"].as_f64();
        let positive = |count: u64| (count > 0).then_some(count as f64);
        if run.plan.artifacts.records {
            assert_eq!(scalar("request_count"), positive(counts.succeeded), "phase {name}");
        }
        assert_eq!(
            scalar("error_request_count"),
            positive(counts.failed + counts.cancelled),
            "phase {name}"
        );
        if phase.phase_kind == "profiling" {
            measured = add(measured, counts);
        }
    }
    let root = run.root();
    assert_eq!(
        Counts::of_document(&root),
        measured,
        "the root file (left) and the sum of all profiling phases (right)"
    );
    let known: HashSet<&str> = run.phases.iter().map(|phase| phase.phase_name.as_str()).collect();
    for record in &run.records {
        assert_sane(record);
        assert!(known.contains(record.metadata.phase_name.as_str()), "{record:?}");
    }
    let identities: HashSet<&str> = run.records.iter().map(id).collect();
    assert_eq!(identities.len(), run.records.len(), "request ids are unique");
    let issues: HashSet<(u64, u64)> = run
        .records
        .iter()
        .map(|record| (record.metadata.phase_index, record.metadata.session_num))
        .collect();
    assert_eq!(issues.len(), run.records.len(), "a credit is used once");
}

fn assert_balanced(name: &str, counts: Counts) {
    assert_eq!(
        counts.sent,
        counts.succeeded + counts.failed + counts.cancelled + counts.truncated,
        "phase {name}: {counts:?}"
    );
}

fn add(a: Counts, b: Counts) -> Counts {
    Counts {
        sent: a.sent + b.sent,
        succeeded: a.succeeded + b.succeeded,
        failed: a.failed + b.failed,
        cancelled: a.cancelled + b.cancelled,
        truncated: a.truncated + b.truncated,
    }
}

/// What holds of every record on its own.
fn assert_sane(record: &Record) {
    let meta = &record.metadata;
    assert!(meta.credit_issued_ns <= meta.request_start_ns, "{record:?}");
    assert!(meta.request_start_ns <= meta.request_end_ns, "{record:?}");
    assert_eq!(meta.benchmark_phase, meta.phase_kind, "{record:?}");
    let cut = matches!(record.ending(), Ending::Cancelled | Ending::Truncated);
    assert_eq!(meta.was_cancelled, cut, "{record:?}");
    assert_eq!(
        meta.cancellation_time_ns,
        cut.then_some(meta.request_end_ns),
        "{record:?}"
    );
    let succeeded = record.ending() == Ending::Succeeded;
    assert_eq!(record.metrics.contains_key("request_latency"), succeeded, "{record:?}");
    assert_eq!(meta.request_ack_ns.is_some(), succeeded, "{record:?}");
    if let Some(code) = record.error.as_ref().and_then(|error| error.code) {
        assert_eq!(code == 499, record.ending() == Ending::Cancelled, "{record:?}");
    }
}

fn id(record: &Record) -> &str {
    &record.metadata.x_request_id
}

/// Requests of a run with what the server saw of them.
pub struct Books<'a> {
    /// Every record that reached the server whole, with its entry, in order of arrival.
    pub matched: Vec<(&'a Record, LedgerEntry)>,
    /// Every record that did not.
    pub unseen: Vec<&'a Record>,
}

impl<'a> Books<'a> {
    /// Compares the records of a run with the ledger of the server that it went to: each request that arrived is in exactly one record, no
    /// record stands for two arrivals, and each arrival carried the body that its record names.
    ///
    /// # Panics
    /// If they differ.
    pub fn compare(run: &'a Run, server: &MockServer) -> Self {
        let ledger = settled_ledger(server, connections_made(run));
        let arrivals = ledger.len();
        let mut by_id: HashMap<String, LedgerEntry> = HashMap::new();
        for entry in ledger {
            let identity = entry
                .request_id
                .clone()
                .expect("every request of the engine carries an id");
            if let Some(twice) = by_id.insert(identity, entry) {
                panic!("arrived twice: {twice:?}");
            }
        }
        let lengths = body_lengths(run);
        let mut books = Self {
            matched: Vec::new(),
            unseen: Vec::new(),
        };
        for record in &run.records {
            let Some(entry) = by_id.remove(id(record)) else {
                assert_ne!(record.ending(), Ending::Succeeded, "never arrived: {record:?}");
                books.unseen.push(record);
                continue;
            };
            // A later turn carries the answers of its session too.
            let meta = &record.metadata;
            let (own, has_history) = lengths[&(meta.conversation_id.clone(), meta.turn_index)];
            assert!(
                if has_history {
                    entry.request_bytes > own
                } else {
                    entry.request_bytes == own
                },
                "the body has {own} bytes of its own: {record:?} against {entry:?}"
            );
            assert_eq!(
                entry.session.as_deref(),
                Some(record.metadata.x_correlation_id.as_str())
            );
            books.matched.push((record, entry));
        }
        assert!(
            by_id.is_empty(),
            "{arrivals} arrived, {} without a record, one of them: {:?}",
            by_id.len(),
            by_id.values().next()
        );
        books.matched.sort_by_key(|(_, entry)| entry.receive_complete_ns);
        books
    }

    /// The same for a run whose every request reached the server.
    ///
    /// # Panics
    /// If one did not, or the books differ.
    pub fn complete(run: &'a Run, server: &MockServer) -> Self {
        let books = Self::compare(run, server);
        let unseen = &books.unseen;
        assert!(
            unseen.is_empty(),
            "{} never arrived, the first: {:?}",
            unseen.len(),
            unseen[0]
        );
        books
    }

    /// Entries of one phase, in order of arrival.
    pub fn of_phase(&self, name: &str) -> Vec<&LedgerEntry> {
        self.matched
            .iter()
            .filter(|(record, _)| record.metadata.phase_name == name)
            .map(|(_, entry)| entry)
            .collect()
    }
}

/// Connections that a client saw established.
fn connections_made(run: &Run) -> u64 {
    let root = run.root();
    let cores = root["ringload"]["cores"].as_array().expect("the facts of every core");
    let opened = |core: &Value| core["connections_opened"].as_u64().expect("a count");
    cores.iter().map(opened).sum()
}

/// Length of each body by conversation and turn, and whether a history goes into it, from what the engine planned; `inputs.json` must hold the same bodies.
fn body_lengths(run: &Run) -> HashMap<(String, u64), (u64, bool)> {
    let inputs = run.json("inputs.json");
    let listed = inputs["data"].as_array().expect("inputs.json holds a list");
    let (images, conversations) = (&run.plan.requests.entries, &run.plan.requests.conversations);
    assert_eq!(listed.len(), conversations.count() as usize);
    let mut lengths = HashMap::new();
    for (conversation, shown) in (0..).zip(listed) {
        let id = conversations.id(conversation).into_owned();
        assert_eq!(shown["session_id"], id);
        let turns =
            &images[conversations.images(conversation).start as usize..conversations.images(conversation).end as usize];
        let bodies = turns
            .iter()
            .map(|image| serde_json::from_slice(image.body()).expect("a body is JSON"));
        assert_eq!(shown["payloads"], Value::Array(bodies.collect()));
        lengths.extend((0..).zip(turns).map(|(turn, image)| {
            let has_history = turn > 0 && image.has_history();
            ((id.to_owned(), turn), (u64::from(image.body_len), has_history))
        }));
    }
    lengths
}

/// Client-side intervals from start to end of requests.
pub fn spans<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<(u64, u64)> {
    records
        .into_iter()
        .map(|record| (record.metadata.request_start_ns, record.metadata.request_end_ns))
        .collect()
}

/// Server-side intervals from the arrival of a request to the last byte of its answer.
pub fn server_spans<'a>(entries: impl IntoIterator<Item = &'a LedgerEntry>) -> Vec<(u64, u64)> {
    entries
        .into_iter()
        .map(|entry| {
            let end = entry.last_byte_ns.unwrap_or(entry.receive_complete_ns);
            (entry.receive_complete_ns, end)
        })
        .collect()
}
