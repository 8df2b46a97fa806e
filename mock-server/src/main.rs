//! The mock inference server as a program.

mod args;

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use ringload_mock_server::MockServer;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut message = format!("error: {error}");
            let mut cause = error.source();
            while let Some(source) = cause {
                message.push_str(&format!(": {source}"));
                cause = source.source();
            }
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let args = args::Args::parse();
    // Before the line on standard output, so that whoever reads it can stop this server in good order.
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let started: Result<Vec<MockServer>, _> = args.into_options()?.into_iter().map(MockServer::start).collect();
    let servers = started?;
    for server in &servers {
        println!("listening on {}", server.url());
    }
    std::io::stdout().flush()?;
    signals.forever().next();
    drop(servers);
    Ok(())
}
