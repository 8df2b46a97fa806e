//! How much later than the server says do the client's figures say that tokens came?
//!
//! Joins the records of a run with the ledger of the mock server on the request id and prints the distribution of the difference, for the time
//! to first token and for the request latency. Fails if a successful request is missing in the ledger: a figure over the rest would flatter.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use ringload_benches::quantile::Sample;
use ringload_benches::{harness, join, mock};

/// The targets in docs/performance.md, in milliseconds.
const TARGET_P50_MS: f64 = 0.5;
const TARGET_P99_MS: f64 = 2.0;

/// Tells how much later than the server's ledger the client's records say that tokens came
#[derive(Debug, Parser)]
struct Options {
    /// `profile_export.jsonl` of the run
    #[arg(long, value_name = "FILE")]
    records: PathBuf,
    /// Address of the mock server
    #[arg(long, value_name = "URL")]
    mock: String,
    /// Only the records of this phase
    #[arg(long, value_name = "NAME")]
    phase: Option<String>,
}

fn main() -> ExitCode {
    harness::exit("ledger_diff", run(&Options::parse()))
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let records = join::read_records(&options.records, options.phase.as_deref())
        .map_err(|error| format!("cannot read {}: {error}", options.records.display()))?;
    let ledger = mock::ledger(&options.mock).map_err(|error| format!("cannot read the ledger: {error}"))?;
    let added = join::added(&records, &ledger);
    if added.unmatched > 0 || added.latency_ms.is_empty() {
        return Err(format!(
            "{} of {} records have no times in the ledger of {} entries",
            added.unmatched,
            records.len(),
            ledger.len()
        )
        .into());
    }
    println!(
        "  {} of {} requests joined with the ledger",
        added.latency_ms.len(),
        records.len()
    );
    for (what, values) in [("TTFT", added.ttft_ms), ("request latency", added.latency_ms)] {
        let sample = Sample::new(values);
        let met = sample.at(0.5) <= TARGET_P50_MS && sample.at(0.99) <= TARGET_P99_MS;
        println!(
            "  client-added {what}: {}; target p50 {TARGET_P50_MS} ms, p99 {TARGET_P99_MS} ms: {}",
            sample.line("ms"),
            if met { "met" } else { "missed" }
        );
    }
    Ok(())
}
