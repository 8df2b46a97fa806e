//! How long does it take to validate each example, and how much of it is the file and how much the plans (P12)?
//!
//! `read` is the text to the config of every variation, `plan` the plans that a validation checks: lengths drawn, requests not rendered. Medians of
//! repetitions in this process. Checked: every example is valid.
//!
//! It leaves out what starting a process costs: `config validate` of the program takes about a millisecond more.
//!
//! `RINGLOAD_BENCH_SMOKE=1` takes one repetition, to show that the bench runs.

use std::path::Path;
use std::time::{Duration, Instant};

use ringload_benches::harness::{self, Size};
use ringload_engine::cells::Cells;
use ringload_engine::config;
use ringload_engine::plan::{BuildOptions, check};

const REPETITIONS: usize = 31;

fn main() {
    let repetitions = match harness::size_of("validate") {
        None => return,
        Some(Size::Smoke) => 1,
        Some(Size::Full) => REPETITIONS,
    };
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    // Relative paths of data sets start at the top of the repository.
    std::env::set_current_dir(root).expect("the repository is there");
    let mut files: Vec<_> = std::fs::read_dir("examples")
        .expect("the examples are there")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    println!("{:<32} {:>8} {:>12} {:>12}", "example", "bytes", "read", "plan");
    for file in files {
        let bytes = std::fs::read(&file).expect("the example is readable");
        let (mut read, mut planned) = (Vec::new(), Vec::new());
        for _ in 0..repetitions {
            let (one, other) = validate(&file.display().to_string(), &bytes);
            read.push(one);
            planned.push(other);
        }
        println!(
            "{:<32} {:>8} {:>9.3} ms {:>9.3} ms",
            file.display(),
            bytes.len(),
            median(read),
            median(planned)
        );
    }
}

fn validate(name: &str, bytes: &[u8]) -> (Duration, Duration) {
    let start = Instant::now();
    let suite = config::parse_suite(name, bytes, &|_| None).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let read = start.elapsed();
    let start = Instant::now();
    let built = if suite.is_single() {
        let config = suite.into_single().expect("it is single");
        check(&config, &BuildOptions::default()).map(drop)
    } else {
        Cells::prepare(suite, BuildOptions::default()).map(drop)
    };
    built.unwrap_or_else(|mistakes| panic!("{mistakes}"));
    (read, start.elapsed())
}

/// In milliseconds.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}
