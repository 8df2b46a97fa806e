//! What the program tells about itself: its config format, its command line, its version.

use clap::{Command, CommandFactory as _};

use super::printed;
use crate::args::Args;
use crate::command_args::Shell;
use crate::console;
use crate::engine;
use crate::exit::Exit;

/// The name that shells and manuals know the program by.
const NAME: &str = "ringload";

/// The JSON Schema of config files.
pub(crate) fn schema() -> Exit {
    printed(&format!("{:#}\n", engine::json_schema()))
}

/// The completions of a shell.
pub(crate) fn completions(shell: Shell) -> Exit {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), NAME, &mut script);
    printed(&String::from_utf8_lossy(&script))
}

/// The manual page of a command, by the words after the program's name.
pub(crate) fn man(words: &[String]) -> Exit {
    let mut command = Args::command();
    command.build();
    let mut found = &command;
    for word in words {
        let Some(inner) = found.find_subcommand(word) else {
            let known: Vec<&str> = found.get_subcommands().map(Command::get_name).collect();
            let allowed = if known.is_empty() {
                "nothing more".to_owned()
            } else {
                known.join(", ")
            };
            console::note(&format!(
                "error: {} has no command '{word}'; allowed after {}: {allowed}",
                found.get_name(),
                found.get_name()
            ));
            return Exit::Usage;
        };
        found = inner;
    }
    // Building has named the pages as manuals name those of commands of commands: ringload-config-validate.
    match page(found) {
        Ok(text) => printed(&text),
        Err(error) => {
            console::note(&format!("error: the manual page cannot be made: {error}"));
            Exit::RunFailed
        }
    }
}

/// The page in the sections that manuals have. The generator's own synopsis lists every flag, which are over a hundred, and its exit codes stand
/// under "EXTRA"; both are put in order here.
fn page(command: &Command) -> std::io::Result<String> {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").replace('-', "\\-");
    let man = clap_mangen::Man::new(command.clone())
        .source(format!("{NAME} {}", env!("CARGO_PKG_VERSION")))
        .manual(format!("{NAME} manual"));
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    text.extend_from_slice(format!(".SH SYNOPSIS\n{usage}\n").as_bytes());
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    if command.get_after_help().is_some() || command.get_after_long_help().is_some() {
        let mut extra = Vec::new();
        man.render_extra_section(&mut extra)?;
        let extra = String::from_utf8_lossy(&extra).replace(".SH EXTRA\nExit codes:", ".SH \"EXIT STATUS\"");
        text.extend_from_slice(extra.as_bytes());
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The version with all that a report of a bug needs.
pub(crate) fn version() -> Exit {
    let endpoints = engine::EndpointType::ALL.map(engine::EndpointType::as_str).join(", ");
    printed(&format!(
        "{NAME} {}\ncommit: {}\nbuild: {}, {}-{}\ndrivers: io_uring, epoll\nendpoints: {endpoints}; http and https, HTTP/1.1\n",
        env!("CARGO_PKG_VERSION"),
        env!("RINGLOAD_COMMIT"),
        env!("RINGLOAD_PROFILE"),
        std::env::consts::ARCH,
        std::env::consts::OS,
    ))
}
