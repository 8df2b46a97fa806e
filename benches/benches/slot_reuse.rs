//! How long does a slot stay empty between two requests?
//!
//! One closed-loop phase of 64 slots on one core, against a server that paces its streams and against one that answers at once. Printed for
//! each: from the end of a request to the start of the next one on the same connection (from the records), and from the server's last write of
//! an answer to its reading of the next request from that connection (from its ledger). Checked: every request succeeded and is in the ledger,
//! and no connection carried two requests at once.
//!
//! A slot is no connection, but a closed loop at its limit has one request in the place of another, and the connection that has just become
//! idle takes it. The first figure begins when the core saw the last bytes, so the kernel's way is not in it; the second has both ways through
//! the kernel and the server's own waiting in it, and bounds from above what a server can see. With a server at its limit answers come in
//! batches, and the last of a batch waits for the sends of the others, about 6 us each on loopback.
//!
//! Not a criterion bench: quantiles over one long run are the point. `RINGLOAD_BENCH_SMOKE=1` runs a few hundred requests.

use std::collections::HashMap;
use std::time::Duration;

use ringload_benches::harness::{self, Size};
use ringload_benches::join::{by_id, read_records};
use ringload_benches::mock;
use ringload_benches::plan::{Requests, closed_loop, plan, run};
use ringload_benches::quantile::Sample;
use ringload_engine::run::Pacing;
use ringload_mock_server::{LedgerEntry, Options};

const SLOTS: u32 = 64;
/// The target in docs/performance.md.
const TARGET_P50_US: f64 = 20.0;

/// One request in the accounts of both sides, in nanoseconds.
struct Seen {
    start: u64,
    end: u64,
    arrived: u64,
    answered: u64,
}

/// Gaps in microseconds: (by the client's records, by the server's ledger).
fn gaps(server: Options, requests: u64) -> (Vec<f64>, Vec<f64>) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = mock::start(server);
    let asked = Requests {
        streaming: true,
        input_tokens: 64,
        output_tokens: 8,
    };
    let phases = vec![closed_loop(0, "load", SLOTS, Some(requests))];
    run(
        &plan(server.address(), asked, phases, directory.path()),
        Pacing::Efficient,
    );

    let records = read_records(&directory.path().join("profile_export.jsonl"), None).expect("records");
    let ledger = server.ledger();
    let entries = by_id(&ledger);
    let mut connections: HashMap<u64, Vec<Seen>> = HashMap::new();
    for record in &records {
        assert!(record.latency_ms.is_some(), "every request succeeds");
        let entry: &LedgerEntry = entries[record.request_id.as_str()];
        connections.entry(entry.connection).or_default().push(Seen {
            start: record.start_ns,
            end: record.end_ns,
            arrived: entry.receive_complete_ns,
            answered: entry.last_byte_ns.expect("an answer was sent"),
        });
    }
    assert_eq!(records.len() as u64, requests);
    let (mut sent, mut arrived) = (Vec::new(), Vec::new());
    for seen in connections.values_mut() {
        seen.sort_unstable_by_key(|seen| seen.start);
        for pair in seen.windows(2) {
            let gap = |end: u64, start: u64| {
                let gap = start.checked_sub(end).expect("one request at a time on a connection");
                gap as f64 / 1e3
            };
            sent.push(gap(pair[0].end, pair[1].start));
            arrived.push(gap(pair[0].answered, pair[1].arrived));
        }
    }
    (sent, arrived)
}

fn main() {
    let Some(size) = harness::size_of("slot_reuse") else {
        return;
    };
    let (few, many) = if size == Size::Full {
        (10_000, 200_000)
    } else {
        (320, 640)
    };
    println!("host: {}", harness::host());
    let paced = Options {
        ttft: Duration::from_millis(10),
        itl: Duration::from_millis(2),
        // Spreads the ends of requests, as a real server does; without it they would come in lockstep.
        jitter: 0.3,
        ..Options::default()
    };
    let at_its_limit = Options {
        fast: true,
        ..Options::default()
    };
    for (name, server, requests) in [
        ("paced server", paced, few),
        ("server at its limit", at_its_limit, many),
    ] {
        let (sent, arrived) = gaps(server, requests);
        let sample = Sample::new(sent);
        println!(
            "{name}, end to next start at client: {}; target p50 {TARGET_P50_US} us: {}",
            sample.line("us"),
            if sample.at(0.5) <= TARGET_P50_US {
                "met"
            } else {
                "missed"
            }
        );
        println!(
            "{name}, answer to next request at server: {}",
            Sample::new(arrived).line("us")
        );
    }
}
