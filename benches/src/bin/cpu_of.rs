//! Runs a client and tells what it cost: one line of JSON.
//!
//! ```text
//! cpu_of --name NAME --load-s SECONDS --mock URL [--edges] [--append FILE] -- COMMAND [ARGUMENT...]
//! ```
//!
//! Processor time comes from the operating system's account of the finished process, the number of requests from the server's counters: no
//! client is asked about itself. With `--edges` the server's ledger is read too, for the time from the start of the process to the first
//! request, and from the last answer to the end of the process. The command's own output goes to standard error.

use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};

use ringload_benches::{mock, sys};
use ringload_engine::clock;
use ringload_engine::units::Nanos;
use serde_json::{Map, Value, json};

const USAGE: &str =
    "usage: cpu_of --name NAME --load-s SECONDS --mock URL [--edges] [--append FILE] -- COMMAND [ARGUMENT...]";

#[derive(Default)]
struct Options {
    name: String,
    load_s: f64,
    mock: String,
    edges: bool,
    append: Option<String>,
    command: Vec<String>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cpu_of: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
    let mut options = Options::default();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(USAGE);
        match argument.as_str() {
            "--name" => options.name = value()?,
            "--load-s" => options.load_s = value()?.parse()?,
            "--mock" => options.mock = value()?,
            "--edges" => options.edges = true,
            "--append" => options.append = Some(value()?),
            "--" => options.command.extend(arguments.by_ref()),
            _ => return Err(USAGE.into()),
        }
    }
    if options.name.is_empty() || options.mock.is_empty() || options.command.is_empty() {
        return Err(USAGE.into());
    }
    Ok(options)
}

fn run() -> Result<(), Box<dyn Error>> {
    let options = options(std::env::args().skip(1))?;
    let requests_before = mock::counters(&options.mock)?.requests;
    let start = clock::monotonic();
    let status = Command::new(&options.command[0])
        .args(&options.command[1..])
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .map_err(|error| format!("cannot run {}: {error}", options.command[0]))?;
    let end = clock::monotonic();
    if !status.success() {
        return Err(format!("{} ended with {status}", options.command.join(" ")).into());
    }
    let usage = sys::children();
    let requests = mock::counters(&options.mock)?.requests - requests_before;
    let processor_us = (usage.user + usage.system).as_secs_f64() * 1e6;
    let mut line = Map::from_iter([
        ("name".to_owned(), json!(options.name)),
        ("wall_s".to_owned(), json!(end.since(start).as_secs_f64())),
        ("user_s".to_owned(), json!(usage.user.as_secs_f64())),
        ("system_s".to_owned(), json!(usage.system.as_secs_f64())),
        ("max_rss_kib".to_owned(), json!(usage.max_rss_kib)),
        ("requests".to_owned(), json!(requests)),
        (
            "cpu_us_per_request".to_owned(),
            json!(processor_us / requests.max(1) as f64),
        ),
    ]);
    if options.load_s > 0.0 {
        line.insert("requests_per_s".to_owned(), json!(requests as f64 / options.load_s));
    }
    if options.edges {
        edges(&options.mock, start, end, &mut line)?;
    }
    let line = Value::Object(line);
    println!("{line}");
    if let Some(path) = options.append {
        writeln!(OpenOptions::new().create(true).append(true).open(path)?, "{line}")?;
    }
    Ok(())
}

/// The idle ends of a run, in milliseconds. Both clocks are the same: `CLOCK_MONOTONIC` of this machine.
fn edges(url: &str, start: Nanos, end: Nanos, line: &mut Map<String, Value>) -> Result<(), Box<dyn Error>> {
    let ledger = mock::ledger(url)?;
    let first = ledger.iter().map(|entry| entry.receive_complete_ns).min();
    let last = ledger.iter().filter_map(|entry| entry.last_byte_ns).max();
    let (Some(first), Some(last)) = (first, last) else {
        return Err("the server's ledger has no request".into());
    };
    line.insert(
        "exec_to_first_request_ms".to_owned(),
        json!(Nanos(first).since(start).as_millis_f64()),
    );
    line.insert(
        "last_response_to_exit_ms".to_owned(),
        json!(end.since(Nanos(last)).as_millis_f64()),
    );
    Ok(())
}
