//! How much memory does a client take for each stream that it holds open, and does it lose one?
//!
//! Runs a client that first opens one stream and then `N` at once, and samples its resident memory (`VmRSS`) all the while: the figure is what
//! it grew by from one stream to the most that it had while any was open, over `N`. Tables, buffers and the journal's blocks are in it, and so is
//! whatever else grows with the load; the kernel's share of a connection is not. Fails if a request is missing in the server's or in the
//! client's account.

use std::error::Error;
use std::path::PathBuf;
use std::process::{Child, ExitCode};
use std::time::Duration;

use clap::Parser;
use ringload_benches::{client, harness, join, mock};

/// The target in docs/performance.md.
const TARGET_BYTES: u64 = 2048;
/// Time between two samples: short beside the life of a stream, long beside what a sample costs the server.
const SAMPLE: Duration = Duration::from_millis(50);

/// Tells how much memory a client takes for each stream that it holds open
#[derive(Debug, Parser)]
struct Options {
    /// Streams that the client holds open at once
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    streams: u64,
    /// Address of the mock server
    #[arg(long, value_name = "URL")]
    mock: String,
    /// Where the client, ringload, puts its artifacts
    #[arg(long, value_name = "DIR")]
    artifacts: PathBuf,
    /// The client
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Resident memory of the client, in KiB.
#[derive(Debug, Default)]
struct Resident {
    /// The most while one stream was open and no more had been.
    alone: u64,
    /// The most while any stream was open.
    most: u64,
}

fn main() -> ExitCode {
    harness::exit("hold_streams", run(&Options::parse()))
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let mut client = client::start(&options.command)?;
    let watched = watch(&mut client, &options.mock);
    if watched.is_err() {
        // Best effort: it may have ended by itself, which may be the error.
        let _ = client.kill();
    }
    let status = client.wait()?;
    let resident = watched?;
    client::expect_success(&options.command, status)?;
    account(options)?;
    let grown = resident.most.saturating_sub(resident.alone);
    let bytes = grown * 1024 / options.streams;
    println!(
        "  memory: {} KiB with one stream, {} KiB with {}: {bytes} bytes per stream; target {TARGET_BYTES}: {}",
        resident.alone,
        resident.most,
        options.streams,
        if bytes <= TARGET_BYTES { "met" } else { "missed" }
    );
    Ok(())
}

/// Samples until the client has ended.
fn watch(client: &mut Child, url: &str) -> Result<Resident, Box<dyn Error>> {
    let mut resident = Resident::default();
    while client.try_wait()?.is_none() {
        let counters = mock::counters(url)?;
        let now = resident_kib(client.id());
        if counters.in_flight_max == 1 && counters.in_flight == 1 {
            resident.alone = resident.alone.max(now);
        }
        if counters.in_flight > 0 {
            resident.most = resident.most.max(now);
        }
        std::thread::sleep(SAMPLE);
    }
    if resident.alone == 0 {
        return Err("the client was never seen with one stream".into());
    }
    Ok(resident)
}

/// `VmRSS` of a process; 0 when it has just ended.
fn resident_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    number.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// Compares the accounts of both sides and prints what the driver counted.
fn account(options: &Options) -> Result<(), Box<dyn Error>> {
    let wanted = 2 * options.streams + 1;
    let counters = mock::counters(&options.mock)?;
    let facts = client::facts(&options.artifacts)?;
    let recorded = join::read_records(&options.artifacts.join("profile_export.jsonl"), None)?;
    let answered = recorded.iter().filter(|record| record.latency_ms.is_some()).count() as u64;
    let seen = [
        ("requests at the server", counters.requests),
        ("records of the client", recorded.len() as u64),
        ("answers in the records", answered),
    ];
    for (what, count) in seen {
        if count != wanted {
            return Err(format!("{count} {what}, {wanted} requests were to be sent").into());
        }
    }
    if counters.in_flight_max != options.streams {
        return Err(format!(
            "{} streams were open at most, not {}",
            counters.in_flight_max, options.streams
        )
        .into());
    }
    let sum = |figure| client::sum_of_cores(&facts, figure).ok_or("a core of ringload without its driver's counts");
    println!("  {wanted} requests sent, seen by the server, and answered: nothing lost");
    println!(
        "  driver {}: {} enters, {} completions, {} of them overflowed the queue, {} receives found no buffer",
        facts["driver"].as_str().unwrap_or("unknown"),
        sum("driver_enters")?,
        sum("driver_completions")?,
        sum("driver_overflows")?,
        sum("buffer_shortages")?
    );
    Ok(())
}
