//! The `ringload` command line: reads flags, hands a plan to the engine, draws what comes back. It measures nothing itself.

mod args;
mod cell_table;
mod command;
mod command_args;
mod config_args;
mod console;
mod cores;
mod dry_run_text;
mod engine;
mod exit;
mod last_words;
mod number;
mod peer;
mod progress;
mod short_help;
mod signals;
mod sys;
mod table;
mod templates;

use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _};

use args::{Args, Command};
use command_args::ConfigCommand;
use exit::Exit;

fn main() -> ExitCode {
    signals::exit_until_watched();
    let parsed = Args::command()
        .bin_name(invoked_name())
        .try_get_matches()
        .and_then(|mut matches| Args::from_arg_matches_mut(&mut matches));
    let args = match parsed {
        Ok(args) => args,
        Err(error) => return refuse(&error),
    };
    let exit = match args.command {
        Command::Profile(profile) if profile.short_help => short_help::print(&invoked_name()),
        Command::Profile(profile) => command::profile::execute(&profile),
        Command::Config(ConfigCommand::Validate { file, format }) => command::validate::execute(&file, format),
        Command::Config(ConfigCommand::Expand {
            file,
            index,
            format,
            output_dir,
        }) => command::expand::execute(&file, index, format, output_dir.as_deref()),
        Command::Config(ConfigCommand::Init(init)) => command::init::execute(&init),
        Command::Config(ConfigCommand::Schema) => command::about::schema(),
        Command::Recover(recover) => command::recover::execute(&recover),
        Command::Completions { shell } => command::about::completions(shell),
        Command::Man { command } => command::about::man(&command),
        Command::Version => command::about::version(),
    };
    exit.into()
}

/// What the program was called: scripts for the peer reach it through a link of that name, and the help shows what they can type.
fn invoked_name() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&called).file_name().and_then(|name| name.to_str());
    name.unwrap_or("ringload").to_owned()
}

/// Tells what is wrong with a command line, or the help.
fn refuse(error: &clap::Error) -> ExitCode {
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg)
        && let Some(refusal) = engine::refusal(typed)
    {
        console::note(&format!("error: {refusal}"));
        return Exit::Usage.into();
    }
    // A word after `config` is none of these.
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand)
        && std::env::args_os().nth(1).is_some_and(|first| first == typed.as_str())
        && let Some(refusal) = peer::refusal(typed)
    {
        console::note(&format!("error: {refusal}"));
        return Exit::Usage.into();
    }
    // Help and version come here too. Nobody may be listening any more, and that is no reason to fail.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
