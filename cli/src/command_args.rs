//! Commands around config files, and the ones that describe the program itself.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Subcommand, ValueEnum};

use crate::templates;

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a config file: every mistake is reported with its line and column. Nothing is sent and nothing is written.
    Validate {
        /// The config file (YAML).
        file: PathBuf,

        /// How the outcome is told: mistakes for people on standard error, or one JSON document for editors on standard output.
        #[arg(long, value_name = "FORMAT", default_value = "text")]
        format: Report,
    },

    /// Print the config as it runs: short forms, variables, templates and the environment resolved, secrets masked.
    ///
    /// A file with a sweep or several runs describes a cell for each of them. Each printed cell is a config file that runs alone and gives the plan
    /// of its cell; only masked secrets have to be put back. Where the file leaves the seed open, so does the printed one.
    Expand {
        /// The config file (YAML).
        file: PathBuf,

        /// Print this cell alone, counted from 0.
        #[arg(long, short = 'i', value_name = "N")]
        index: Option<usize>,

        /// How cells are printed: as YAML with a comment before each, or as JSON (a list of cells, or with --index the config itself).
        #[arg(long, short = 'f', value_name = "FORMAT", default_value = "yaml")]
        format: Document,

        /// Write each cell to a file of its own in this directory, named like the directory of its artifacts, and print the paths. No file is overwritten.
        #[arg(long, short = 'o', value_name = "DIR")]
        output_dir: Option<PathBuf>,
    },

    /// Print or write a commented config to start from.
    Init(Init),

    /// Print the JSON Schema of config files, for editors.
    ///
    /// Editors with a YAML language server take it with a first line of the config such as
    /// `# yaml-language-server: $schema=./ringload.schema.json`.
    Schema,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Init {
    /// Which one; --list names them.
    #[arg(long, short = 't', value_name = "NAME", default_value = templates::DEFAULT,
          value_parser = PossibleValuesParser::new(templates::names()), hide_possible_values = true)]
    pub(crate) template: String,

    /// List the templates with a line on each.
    #[arg(long, short = 'l', conflicts_with_all = ["output", "model", "url"])]
    pub(crate) list: bool,

    /// Write to this file, which must not exist yet [default: standard output].
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Name of the model, in place of the template's.
    #[arg(long, short = 'm', value_name = "NAME")]
    pub(crate) model: Option<String>,

    /// Address of the server, in place of the template's.
    #[arg(long, short = 'u', value_name = "URL")]
    pub(crate) url: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Recover {
    /// The artifact directory of the run. That of a sweep or of several runs does too if one of them died.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Write the results here instead of into DIR.
    #[arg(long, alias = "artifact-dir", value_name = "DIR")]
    pub(crate) output_artifact_dir: Option<PathBuf>,

    /// Remove results of an earlier run from that other directory first.
    #[arg(long, requires = "output_artifact_dir")]
    pub(crate) overwrite: bool,
}

/// The words of `--format` of commands that report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Report {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

/// The words of `--format` of commands that print configs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Document {
    /// YAML
    Yaml,
    /// JSON
    Json,
}

/// Shells with completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// ringload completions bash > ~/.local/share/bash-completion/completions/ringload
    Bash,
    /// ringload completions zsh > a file _ringload in a directory of $fpath
    Zsh,
    /// ringload completions fish > ~/.config/fish/completions/ringload.fish
    Fish,
}

/// What `profile --dry-run` prints.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct DryRun {
    /// Print what would run and stop: phases, expected requests, latest ends, needs of this host. Nothing is sent and nothing is written.
    ///
    /// Exits as the run would if it were refused before the load; the server is not asked and its name not resolved.
    #[arg(long, help_heading = "Input")]
    pub(crate) dry_run: bool,

    /// How --dry-run prints.
    #[arg(long, value_name = "FORMAT", requires = "dry_run", help_heading = "Input")]
    pub(crate) format: Option<Report>,
}
