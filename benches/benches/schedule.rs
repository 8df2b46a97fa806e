//! How long does a replay of a million requests take to start, and what does it hold in memory?
//!
//! A trace of short prompts is written to a file and goes the way of every config: read, rendered, sorted, and then every credit of its schedule
//! is made. Times are of one run in this process, on as many threads as reading takes; memory is the resident set, and its peak while the file
//! was in memory too. Checked: every entry has a credit, and due times are in order.
//!
//! It says nothing about sending: see `core_loopback` and `send_lag`.
//!
//! `RINGLOAD_BENCH_SMOKE=1` takes a thousandth, to show that the bench runs.

use std::fmt::Write as _;
use std::fs;
use std::time::Instant;

use ringload_benches::harness;
use ringload_engine::config;
use ringload_engine::coordinator::{ImageCursor, Pacer};
use ringload_engine::dataset::{DEFAULT_BLOCK_SIZE, FileFormat, FileOptions, load_file, read_bytes};
use ringload_engine::plan::{Arrival, BuildOptions, ScheduledStart, build};
use ringload_engine::units::Nanos;

const ENTRIES: u32 = 1_000_000;

/// Kibibytes after this name in `/proc/self/status`.
fn status_kib(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells a process about itself");
    let line = status
        .lines()
        .find(|line| line.starts_with(name))
        .expect("the line is there");
    line.split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse().ok())
        .expect("a number")
}

fn main() {
    let entries = if harness::smoke() { ENTRIES / 1000 } else { ENTRIES };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.jsonl");
    let mut text = String::new();
    for entry in 0..entries {
        // Every second one is late by more than its neighbour, as merged logs are.
        let timestamp = f64::from(entry ^ 1) / 8.0;
        writeln!(
            text,
            r#"{{"timestamp": {timestamp}, "text": "request {entry} of a trace", "output_length": 16}}"#
        )
        .expect("memory");
    }
    fs::write(&path, &text).expect("room for the file");
    let file_bytes = text.len();
    drop(text);
    let config = format!(
        "benchmark:\n  model: m\n  endpoint: {{url: \"http://127.0.0.1:1\"}}\n  dataset: {{type: file, path: {}}}\n  phases: [{{name: replay, kind: \
         profiling, type: fixed_schedule}}]\n",
        path.display()
    );
    let config = config::parse("bench.yaml", config.as_bytes(), &|_| None).expect("the config has no mistake");

    let options = FileOptions {
        format: FileFormat::SingleTurn,
        block_size: DEFAULT_BLOCK_SIZE,
    };
    let begin = Instant::now();
    let bytes = load_file(&path).expect("the file can be read");
    drop(read_bytes(&bytes, options).expect("the file has no mistake"));
    drop(bytes);
    let read = begin.elapsed();

    let before = status_kib("VmRSS");
    let begin = Instant::now();
    let plan = build(&config, &BuildOptions::default()).expect("the file has no mistake");
    let planned = begin.elapsed();
    let held = status_kib("VmRSS") - before;
    let peak = status_kib("VmHWM") - before;

    let begin = Instant::now();
    let mut pacer = Pacer::new(&plan.phases[0], plan.seed, ImageCursor::in_order(plan.requests.order));
    let first = pacer.next().map(|credit| credit.intended);
    let started = begin.elapsed();
    assert_eq!(first, Some(Nanos::ZERO));
    let begin = Instant::now();
    let mut last = Nanos::ZERO;
    for credit in pacer.by_ref() {
        assert!(credit.intended >= last, "due times are in order");
        last = credit.intended;
    }
    let paced = begin.elapsed();
    assert_eq!(pacer.issued(), u64::from(entries));
    assert!(matches!(plan.phases[0].arrival, Arrival::FixedSchedule(_)));

    let each = |kib: u64| kib * 1024 / u64::from(entries);
    println!("{entries} entries in {file_bytes} bytes");
    println!(
        "read in {read:.1?}; read, rendered and sorted in {planned:.1?}; first credit {started:.1?} after the start of the phase"
    );
    println!("{:.0} ns per credit", paced.as_secs_f64() * 1e9 / f64::from(entries));
    println!(
        "{} bytes per waiting entry of the schedule; {} per entry with its request, {} while the file is read",
        size_of::<ScheduledStart>(),
        each(held),
        each(peak)
    );
}
