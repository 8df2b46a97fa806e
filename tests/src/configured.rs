//! Runs of configs as users write them, for what only the way from the file to the plan can show.

use std::net::SocketAddr;
use std::sync::Arc;

use ringload_engine::config;
use ringload_engine::interrupt::Interrupt;
use ringload_engine::plan::{BuildOptions, build};
use ringload_engine::run::{CoreChoice, DRAIN_STALL_TIMEOUT, Pacing, RunOptions, STALL_TIMEOUT};

use crate::run::{Run, Running, driver_under_test};

/// Runs a config to its end: `sections` are lines of YAML for the keys beside model and endpoint, indented by two.
///
/// # Panics
/// If the config has a mistake, or the run does not end in time or loses count of a request.
pub fn run(address: SocketAddr, cores: u16, sections: &str) -> Run {
    start(address, cores, sections).finish()
}

/// The same, under way.
///
/// # Panics
/// If the config has a mistake.
pub fn start(address: SocketAddr, cores: u16, sections: &str) -> Running {
    start_speaking(address, cores, "streaming: true", sections)
}

/// Runs a config to its end on one core; `endpoint` are fields of the endpoint beside its URL.
///
/// # Panics
/// As [`run`].
pub fn run_speaking(address: SocketAddr, endpoint: &str, sections: &str) -> Run {
    start_speaking(address, 1, endpoint, sections).finish()
}

/// The same against a server that streams; `models` is the line of YAML that names the models.
///
/// # Panics
/// As [`run`].
pub fn run_asking(address: SocketAddr, cores: u16, models: &str, sections: &str) -> Run {
    start_with(address, cores, models, "streaming: true", sections).finish()
}

fn start_speaking(address: SocketAddr, cores: u16, endpoint: &str, sections: &str) -> Running {
    start_with(address, cores, "model: mock-model", endpoint, sections)
}

fn start_with(address: SocketAddr, cores: u16, models: &str, endpoint: &str, sections: &str) -> Running {
    let text = format!(
        "randomSeed: 42\nbenchmark:\n  {models}\n  endpoint: {{url: \"http://{address}\", timeout: 30, {endpoint}}}\n{sections}"
    );
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let config = config::parse("test.yaml", text.as_bytes(), &|_| None).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let options = BuildOptions {
        output_directory: Some(temporary.path().join("results")),
        benchmark_id: Some("0123456789ab".to_owned()),
        ..BuildOptions::default()
    };
    let plan = build(&config, &options).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let options = RunOptions {
        cores: CoreChoice::Count(cores),
        driver: driver_under_test(),
        source_addresses: Vec::new(),
        pacing: Pacing::Auto,
        drain_stall_timeout: DRAIN_STALL_TIMEOUT,
        stall_timeout: STALL_TIMEOUT,
        interrupt: Arc::new(Interrupt::new()),
    };
    Running::start(plan, options, temporary)
}
