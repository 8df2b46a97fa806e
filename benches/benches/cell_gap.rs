//! How long is the pause between two cells of a sweep?
//!
//! A sweep of closed-loop cells without cooldown runs against the mock server, with a reset hook and a profiler that answer at once. Printed: from
//! the last byte of a cell's last answer to the arrival of the next cell's first request, both at the server (from its ledger). The pause
//! holds all that a cell costs beside its load: joining the threads, merging, writing artifacts, aggregating nothing yet, building the next plan,
//! the reset, making rings and threads, the profiler's start and the first connection. Checked: every request of every cell is in the ledger.
//!
//! One core and one server thread on loopback, 400 requests a cell: the pause grows with the records of a cell, which are written in it. Not a
//! criterion bench: a pause happens once per cell.
//!
//! `RINGLOAD_BENCH_SMOKE=1` runs three cells only.

use std::sync::Arc;

use ringload_benches::harness;
use ringload_benches::quantile::Sample;
use ringload_engine::cells::{Cells, CellsOptions, run};
use ringload_engine::config::parse_suite;
use ringload_engine::interrupt::Interrupt;
use ringload_engine::plan::BuildOptions;
use ringload_engine::run::{CoreChoice, DRAIN_STALL_TIMEOUT, DriverChoice, Pacing, RunOptions, STALL_TIMEOUT};
use ringload_mock_server::{MockServer, Options};

const REQUESTS: usize = 400;

/// Pauses between `count` cells, in milliseconds.
fn pauses(count: usize) -> Vec<f64> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = MockServer::start(Options {
        port: 0,
        fast: true,
        pin_to: harness::processors().map(|(server, _)| server),
        ..Options::default()
    })
    .expect("a free port");
    let values: Vec<String> = (1..=count).map(|value| value.to_string()).collect();
    let text = format!(
        "sweep: {{type: grid, parameters: {{concurrency: [{}]}}}}\nbenchmark:\n  model: mock-model\n  endpoint: {{url: \"{}\", streaming: true, \
         reset_kv_cache: true, server_profiler: true}}\n  dataset: {{entries: 100, isl: 128, osl: 8}}\n  phases: {{type: concurrency, requests: \
         {REQUESTS}}}\n",
        values.join(", "),
        server.url()
    );
    let suite = parse_suite("bench.yaml", text.as_bytes(), &|_| None).expect("a good config");
    let options = BuildOptions {
        output_directory: Some(directory.path().join("results")),
        ..BuildOptions::default()
    };
    let cells = Cells::prepare(suite, options).expect("good plans");
    let options = CellsOptions {
        run: RunOptions {
            cores: CoreChoice::Count(1),
            driver: DriverChoice::Auto,
            source_addresses: Vec::new(),
            pacing: Pacing::Auto,
            drain_stall_timeout: DRAIN_STALL_TIMEOUT,
            stall_timeout: STALL_TIMEOUT,
            interrupt: Arc::new(Interrupt::new()),
        },
        resume: false,
    };
    let outcome = run(&cells, &options, &mut |_| {}).expect("the cells start");
    assert_eq!(outcome.failure, None);

    let mut ledger = server.ledger();
    assert_eq!(ledger.len(), count * REQUESTS, "every request of every cell");
    ledger.sort_by_key(|entry| entry.receive_complete_ns);
    let cells: Vec<_> = ledger.chunks(REQUESTS).collect();
    let pause = |pair: &[&[ringload_mock_server::LedgerEntry]]| {
        let last = pair[0].iter().filter_map(|entry| entry.last_byte_ns).max();
        let first = pair[1].iter().map(|entry| entry.receive_complete_ns).min();
        let (last, first) = last.zip(first).expect("both cells have requests");
        assert!(first >= last, "cells follow one another");
        (first - last) as f64 / 1e6
    };
    cells.windows(2).map(pause).collect()
}

fn main() {
    // Like criterion's benches: `cargo bench NAME` runs what has the name, and without `--bench`, which is how `cargo test` starts a bench, a
    // short run has to do.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut filters = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .peekable();
    if filters.peek().is_some() && !filters.any(|filter| "cell_gap".contains(filter.as_str())) {
        return;
    }
    let full = arguments.iter().any(|argument| argument == "--bench") && !harness::smoke();
    println!("host: {}", harness::host());
    let pauses = pauses(if full { 20 } else { 3 });
    println!(
        "between cells, last byte to first request: {}",
        Sample::new(pauses).line("ms")
    );
}
