//! Runs a client and tells what it cost: one line of JSON.
//!
//! Processor time comes from the operating system's account of the finished process, the numbers of requests and of tokens from the server's
//! counters: no client is asked about itself. The one exception are ringload's artifacts, for what the kernel accounted to its threads one by
//! one: what the load itself cost, without what is done before and after it.

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use ringload_benches::{client, harness, mock, sys};
use ringload_engine::clock;
use ringload_engine::units::Nanos;
use serde_json::{Map, Value, json};

/// Runs a client and tells what it cost: one line of JSON
#[derive(Debug, Parser)]
struct Options {
    /// Name of the contestant
    #[arg(long)]
    name: String,
    /// Address of the mock server
    #[arg(long, value_name = "URL")]
    mock: String,
    /// Seconds of load, for the rates
    #[arg(long, value_name = "SECONDS")]
    load_s: Option<f64>,
    /// Process id of the server, for the share of a processor that it used
    #[arg(long, value_name = "PID")]
    server: Option<u32>,
    /// Tell how long the client took from its start to the first request, and from the last answer to its end
    #[arg(long)]
    edges: bool,
    /// Artifacts of ringload, for the processor time of its cores and of its coordinator
    #[arg(long, value_name = "DIR")]
    artifacts: Option<PathBuf>,
    /// Append the line to this file too
    #[arg(long, value_name = "FILE")]
    append: Option<PathBuf>,
    /// The client
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

fn main() -> ExitCode {
    harness::exit("cpu_of", run(&Options::parse()))
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let server_time = || options.server.map(processor_time).transpose();
    let (counted, server_before) = (mock::counters(&options.mock)?, server_time()?);
    let start = clock::monotonic();
    let status = client::start(&options.command)?.wait()?;
    let end = clock::monotonic();
    client::expect_success(&options.command, status)?;
    let (usage, server_after) = (sys::children(), server_time()?);
    let counters = mock::counters(&options.mock)?;
    let (requests, tokens) = (
        counters.requests - counted.requests,
        counters.tokens_sent - counted.tokens_sent,
    );
    let mut line = Map::new();
    let mut figure = |name: &str, value: f64| line.insert(name.to_owned(), json!(value));
    figure("wall_s", end.since(start).as_secs_f64());
    figure("user_s", usage.user.as_secs_f64());
    figure("system_s", usage.system.as_secs_f64());
    figure("max_rss_kib", usage.max_rss_kib as f64);
    figure("requests", requests as f64);
    figure("tokens", tokens as f64);
    let mut each = |who: &str, seconds: f64| {
        for (what, count) in [("request", requests), ("token", tokens)] {
            figure(&format!("{who}_us_per_{what}"), seconds * 1e6 / count.max(1) as f64);
        }
    };
    each("cpu", (usage.user + usage.system).as_secs_f64());
    let facts = options.artifacts.as_deref().map(client::facts).transpose()?;
    if let Some(facts) = &facts {
        let busy_s = client::sum_of_cores(facts, "busy_seconds").ok_or("a core of ringload without busy_seconds")?;
        each("cores", busy_s);
        let share = facts["coordinator_busy_share"].as_f64();
        figure(
            "coordinator_share",
            share.ok_or("no coordinator_busy_share of ringload")?,
        );
    }
    if let Some(load_s) = options.load_s {
        figure("requests_per_s", requests as f64 / load_s);
        figure("tokens_per_s", tokens as f64 / load_s);
        if let (Some(before), Some(after)) = (server_before, server_after) {
            figure("server_busy_share", after.since(before).as_secs_f64() / load_s);
        }
    }
    if options.edges {
        let (before, after) = edges(&options.mock, start, end)?;
        figure("exec_to_first_request_ms", before.as_millis_f64());
        figure("last_response_to_exit_ms", after.as_millis_f64());
    }
    line.insert("name".to_owned(), json!(options.name));
    let line = Value::Object(line);
    println!("{line}");
    if let Some(path) = &options.append {
        writeln!(OpenOptions::new().create(true).append(true).open(path)?, "{line}")?;
    }
    Ok(())
}

/// The idle ends of a run: before the first request, behind the last answer. Both clocks are the same: `CLOCK_MONOTONIC` of this machine.
fn edges(url: &str, start: Nanos, end: Nanos) -> Result<(Nanos, Nanos), Box<dyn Error>> {
    let ledger = mock::ledger(url)?;
    let first = ledger.iter().map(|entry| entry.receive_complete_ns).min();
    let last = ledger.iter().filter_map(|entry| entry.last_byte_ns).max();
    let (Some(first), Some(last)) = (first, last) else {
        return Err("the server's ledger has no request".into());
    };
    Ok((Nanos(first).since(start), end.since(Nanos(last))))
}

/// What all threads of a process have used so far; proc_pid_schedstat(5): the first number is nanoseconds on a processor.
fn processor_time(process: u32) -> Result<Nanos, Box<dyn Error>> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        let first = text.split_whitespace().next().ok_or("an empty schedstat")?;
        sum += first.parse::<u64>()?;
    }
    Ok(Nanos(sum))
}
