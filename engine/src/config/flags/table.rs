//! What a flag is: its spellings, the words it takes, its help, and what it writes.

use super::{dataset, load, server, sweeps, warmup};

/// One flag. The command line and its help are made from this.
#[derive(Debug)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// Other names of the same, which the peer or the seed documents know.
    pub aliases: &'static [&'static str],
    /// One letter.
    pub short: Option<char>,
    /// The words after it.
    pub takes: Takes,
    /// Where the help lists it.
    pub group: Group,
    /// What it is for, in one line: unit and default included.
    pub help: &'static str,
    /// What the long help adds; may be empty.
    pub more: &'static str,
    /// Whether several values, with commas between them, make a sweep.
    pub is_list: bool,
    pub(super) writes: Writes,
}

/// The words after a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// One, which the help calls so.
    Value(&'static str),
    /// One or several, and the flag may be repeated.
    Values(&'static str),
    /// None: on. `--flag=false` and `--no-flag` are off.
    Switch,
}

/// Where the help lists a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// What is run.
    Input,
    /// The server.
    Endpoint,
    /// The prompts.
    Dataset,
    /// The profiling phase.
    Load,
    /// The warmup phase.
    Warmup,
    /// Conversations.
    Sessions,
    /// What is asked of the server beside the load.
    Hooks,
    /// Several runs.
    Sweep,
    /// Artifacts and console.
    Output,
    /// Fields of the format of which ringload has the default only: not listed.
    Unlisted,
}

impl Group {
    /// All, in the order of the help.
    pub const ALL: [Self; 10] = [
        Self::Input,
        Self::Endpoint,
        Self::Dataset,
        Self::Load,
        Self::Warmup,
        Self::Sessions,
        Self::Hooks,
        Self::Sweep,
        Self::Output,
        Self::Unlisted,
    ];

    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Input => "Input",
            Self::Endpoint => "Endpoint",
            Self::Dataset => "Dataset",
            Self::Load => "Load",
            Self::Warmup => "Warmup",
            Self::Sessions => "Sessions",
            Self::Hooks => "Control hooks and readiness",
            Self::Sweep => "Sweep and trials",
            Self::Output => "Output",
            Self::Unlisted => "Unlisted",
        }
    }
}

/// What a flag writes, as dotted keys below a part of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writes {
    /// A value of the top level.
    Envelope(&'static str),
    /// A value under `benchmark`.
    Benchmark(&'static str),
    /// A value of the only dataset.
    Dataset(&'static str),
    /// A value of the only profiling phase.
    Profiling(&'static str),
    /// A value of the first warmup phase, which is made if need be.
    Warmup(&'static str),
    /// A rule of the sweep.
    Sweep(&'static str),
    /// Something that its own code knows.
    Special,
}

impl Flag {
    const fn new(name: &'static str, takes: Takes, group: Group, writes: Writes, help: &'static str) -> Self {
        Self {
            name,
            aliases: &[],
            short: None,
            takes,
            group,
            help,
            more: "",
            is_list: false,
            writes,
        }
    }

    pub(super) const fn value(
        name: &'static str,
        value: &'static str,
        group: Group,
        writes: Writes,
        help: &'static str,
    ) -> Self {
        Self::new(name, Takes::Value(value), group, writes, help)
    }

    pub(super) const fn values(
        name: &'static str,
        value: &'static str,
        group: Group,
        writes: Writes,
        help: &'static str,
    ) -> Self {
        Self::new(name, Takes::Values(value), group, writes, help)
    }

    pub(super) const fn switch(name: &'static str, group: Group, writes: Writes, help: &'static str) -> Self {
        Self::new(name, Takes::Switch, group, writes, help)
    }

    pub(super) const fn aka(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    pub(super) const fn short(self, short: char) -> Self {
        Self {
            short: Some(short),
            ..self
        }
    }

    pub(super) const fn more(self, more: &'static str) -> Self {
        Self { more, ..self }
    }

    pub(super) const fn list(self) -> Self {
        Self { is_list: true, ..self }
    }

    /// Its name with dashes.
    pub fn long(&self) -> String {
        format!("--{}", self.name)
    }

    /// The negation of a switch, without dashes.
    pub fn negation(&self) -> Option<String> {
        let has_one = self.takes == Takes::Switch && !self.name.starts_with("no-");
        has_one.then(|| format!("no-{}", self.name))
    }

    /// All that a user may type: names, the letter, the negation of a switch.
    pub(super) fn spellings(&self) -> impl Iterator<Item = String> {
        let names = std::iter::once(&self.name).chain(self.aliases);
        let short = self.short.map(|letter| format!("-{letter}"));
        let negation = self.negation().map(|name| format!("--{name}"));
        names.map(|name| format!("--{name}")).chain(short).chain(negation)
    }
}

/// Every flag that writes into the config.
pub fn all() -> impl Iterator<Item = &'static Flag> {
    [server::FLAGS, dataset::FLAGS, load::FLAGS, warmup::FLAGS, sweeps::FLAGS]
        .into_iter()
        .flatten()
}
