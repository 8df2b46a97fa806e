//! The `ringload` command line: reads flags, hands a plan to the engine, draws what comes back. It measures nothing itself.

mod args;
mod cell_table;
mod command;
mod config_args;
mod console;
mod control_args;
mod cores;
mod dry_run_text;
mod engine;
mod exit;
mod number;
mod progress;
mod signals;
mod table;
mod templates;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Args, Command};
use config_args::ConfigCommand;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Help and version come here too. Nobody may be listening any more, and that is no reason to fail.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let exit = match args.command {
        Command::Profile(profile) => command::profile::execute(&profile),
        Command::Config(ConfigCommand::Validate { file, format }) => command::validate::execute(&file, format),
        Command::Config(ConfigCommand::Expand { file, index, format }) => {
            command::expand::execute(&file, index, format)
        }
        Command::Config(ConfigCommand::Init(init)) => command::init::execute(&init),
        Command::Config(ConfigCommand::Schema) => command::about::schema(),
        Command::Completions { shell } => command::about::completions(shell),
        Command::Man { command } => command::about::man(&command),
        Command::Version => command::about::version(),
    };
    exit.into()
}
