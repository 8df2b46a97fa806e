//! How long is the pause between two phases?
//!
//! A workflow of two closed-loop phases runs several times against the mock server, once with the second phase seamless and once without.
//! Printed: from the start of the last request of the first phase to the start of the first request of the second (from the records), and from
//! the last arrival of the first phase to the first of the second at the server (from its ledger). Without `seamless` the pause holds the
//! drain, which is about one request latency here; with it, the pause is what the coordinator and a core need to change over. Checked: every
//! request of both phases is in the records and in the ledger, and no request of the second phase arrived before the last of the first.
//!
//! One core and one server thread on loopback. With more cores the phase ends when the last core has given its credits back, so the pause
//! grows with the slowest of them. Not a criterion bench: a pause happens once per run.
//!
//! `RINGLOAD_BENCH_SMOKE=1` runs each kind twice only.

use std::time::Duration;

use ringload_benches::harness::{self, Size};
use ringload_benches::join::{by_id, read_records};
use ringload_benches::mock;
use ringload_benches::plan::{Requests, closed_loop, plan, run};
use ringload_benches::quantile::Sample;
use ringload_engine::run::Pacing;
use ringload_mock_server::Options;

const CONCURRENCY: u32 = 32;
const REQUESTS: u64 = 320;
const PHASES: [&str; 2] = ["first", "second"];

/// Gaps of one run in milliseconds: (by the client's records, by the server's ledger).
fn gaps(seamless: bool) -> (f64, f64) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = mock::start(Options {
        ttft: Duration::from_millis(10),
        itl: Duration::from_millis(2),
        // Spreads the requests of a phase, as a real server does; without it they would move in lockstep.
        jitter: 0.3,
        ..Options::default()
    });
    let mut phases: Vec<_> = (0..)
        .zip(PHASES)
        .map(|(id, name)| closed_loop(id, name, CONCURRENCY, Some(REQUESTS)))
        .collect();
    phases[1].seamless = seamless;
    let requests = Requests {
        streaming: true,
        input_tokens: 64,
        output_tokens: 8,
    };
    let plan = plan(server.address(), requests, phases, directory.path());
    run(&plan, Pacing::Auto);

    let records = read_records(&directory.path().join("profile_export.jsonl"), None).expect("records");
    let ledger = server.ledger();
    let arrivals = by_id(&ledger);
    let [mut first, mut second] = [(0, 0); 2].map(|_| (Vec::new(), Vec::new()));
    for record in &records {
        let arrival = arrivals
            .get(record.request_id.as_str())
            .expect("the ledger knows every request");
        let side = if record.phase == PHASES[0] {
            &mut first
        } else {
            &mut second
        };
        side.0.push(record.start_ns);
        side.1.push(arrival.receive_complete_ns);
    }
    assert_eq!((first.0.len(), second.0.len()), (REQUESTS as usize, REQUESTS as usize));
    let gap = |before: &[u64], after: &[u64]| {
        let (last, first) = (before.iter().max(), after.iter().min());
        let (last, first) = last.zip(first).expect("both phases have requests");
        assert!(
            first >= last,
            "the second phase begins after the first has sent its last request"
        );
        (first - last) as f64 / 1e6
    };
    (gap(&first.0, &second.0), gap(&first.1, &second.1))
}

fn main() {
    let Some(size) = harness::size_of("seamless_gap") else {
        return;
    };
    let runs = if size == Size::Full { 10 } else { 2 };
    println!("host: {}", harness::host());
    for (name, seamless) in [("seamless", true), ("not seamless", false)] {
        let (sent, arrived): (Vec<f64>, Vec<f64>) = (0..runs).map(|_| gaps(seamless)).unzip();
        println!("{name}, between starts of requests: {}", Sample::new(sent).line("ms"));
        println!(
            "{name}, between arrivals at server: {}",
            Sample::new(arrived).line("ms")
        );
    }
}
