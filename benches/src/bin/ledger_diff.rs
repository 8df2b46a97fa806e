//! How much later than the server says do the client's figures say that tokens came?
//!
//! ```text
//! ledger_diff --records PROFILE_EXPORT_JSONL --mock URL [--phase NAME]
//! ```
//!
//! Joins the records of a run with the ledger of the mock server on the request id and prints the distribution of the difference, for the time
//! to first token and for the request latency. Fails if a successful request is missing in the ledger: a figure over the rest would flatter.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use ringload_benches::join;
use ringload_benches::mock;
use ringload_benches::quantile::Sample;

const USAGE: &str = "usage: ledger_diff --records PROFILE_EXPORT_JSONL --mock URL [--phase NAME]";

/// The targets in docs/performance.md, in milliseconds.
const TARGET_P50_MS: f64 = 0.5;
const TARGET_P99_MS: f64 = 2.0;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ledger_diff: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let (mut path, mut url, mut phase) = (None, None, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = Some(arguments.next().ok_or(USAGE)?);
        match argument.as_str() {
            "--records" => path = value.map(PathBuf::from),
            "--mock" => url = value,
            "--phase" => phase = value,
            _ => return Err(USAGE.into()),
        }
    }
    let (path, url) = (path.ok_or(USAGE)?, url.ok_or(USAGE)?);
    let records = join::read_records(&path, phase.as_deref())
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let ledger = mock::ledger(&url).map_err(|error| format!("cannot read the ledger: {error}"))?;
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
