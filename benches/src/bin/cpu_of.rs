//! Runs a client and tells what it cost: one line of JSON.
//!
//! ```text
//! cpu_of --name NAME --load-s SECONDS --mock URL [--edges] [--artifacts DIR] [--append FILE] -- COMMAND [ARGUMENT...]
//! ```
//!
//! Processor time comes from the operating system's account of the finished process, the number of requests from the server's counters: no
//! client is asked about itself. With `--edges` the server's ledger is read too, for the time from the start of the process to the first
//! request, and from the last answer to the end of the process. With `--artifacts` the processor time of ringload's cores is added, which the
//! kernel accounted for their threads: what the load itself cost, without what is done before and after it. The command's own output goes to
//! standard error.

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};

use ringload_benches::{mock, sys};
use ringload_engine::clock;
use ringload_engine::units::Nanos;
use serde_json::{Map, Value, json};

const USAGE: &str = "usage: cpu_of --name NAME --load-s SECONDS --mock URL [--edges] [--artifacts DIR] [--append FILE] -- COMMAND [ARGUMENT...]";

#[derive(Default)]
struct Options {
    name: String,
    load_s: f64,
    mock: String,
    edges: bool,
    artifacts: Option<String>,
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
            "--artifacts" => options.artifacts = Some(value()?),
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
    if let Some(directory) = &options.artifacts {
        let busy_us = cores_busy_s(directory)? * 1e6;
        line.insert(
            "cores_us_per_request".to_owned(),
            json!(busy_us / requests.max(1) as f64),
        );
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

/// Processor seconds of ringload's cores, all together, from the artifacts of its run.
fn cores_busy_s(directory: &str) -> Result<f64, Box<dyn Error>> {
    let path = format!("{directory}/profile_export_aiperf.json");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let run: Value = serde_json::from_str(&text)?;
    let cores = run["ringload"]["cores"]
        .as_array()
        .ok_or("the artifacts name no cores")?;
    let busy = cores.iter().map(|core| core["busy_seconds"].as_f64());
    busy.sum::<Option<f64>>()
        .ok_or_else(|| format!("{path}: a core without busy_seconds").into())
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
