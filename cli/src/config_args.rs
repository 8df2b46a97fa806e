//! Flags that write into the config: the parser and the help are made from the engine's table of them.

use clap::builder::StyledStr;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, Error, FromArgMatches};

use crate::engine::{Flag, Flags, Group, Takes, all_flags};

/// The flags of a command line that the engine puts over the config.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConfigArgs(pub(crate) Flags);

impl clap::Args for ConfigArgs {
    fn augment_args(command: Command) -> Command {
        // The help has its headings in the order in which their first flag comes.
        let by_group = Group::ALL
            .into_iter()
            .flat_map(|group| all_flags().filter(move |flag| flag.group == group));
        by_group.fold(command, |command, flag| {
            let listed = command.arg(main_argument(flag));
            let aliases = flag
                .aliases
                .iter()
                .map(|&alias| words(flag, Arg::new(alias).long(alias)).hide(true));
            let negation = flag.negation().map(|name| {
                let id = name.clone();
                Arg::new(id).long(name).hide(true).action(ArgAction::SetTrue)
            });
            listed.args(aliases).args(negation)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ConfigArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut flags = Flags::default();
        for flag in all_flags() {
            let mut names = vec![flag.name.to_owned()];
            names.extend(flag.aliases.iter().map(|&alias| alias.to_owned()));
            for name in &names {
                if matches.value_source(name) != Some(ValueSource::CommandLine) {
                    continue;
                }
                let words = matches.get_many::<String>(name).into_iter().flatten().cloned();
                add(&mut flags, &format!("--{name}"), words.collect())?;
            }
            if let Some(name) = flag.negation()
                && matches.get_flag(&name)
            {
                add(&mut flags, &format!("--{name}"), Vec::new())?;
            }
        }
        Ok(Self(flags))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn add(flags: &mut Flags, typed: &str, words: Vec<String>) -> Result<(), Error> {
    flags
        .add(typed, words)
        .map_err(|message| Error::raw(clap::error::ErrorKind::ArgumentConflict, format!("{message}\n")))
}

/// The argument that the help shows.
fn main_argument(flag: &'static Flag) -> Arg {
    let argument = words(flag, Arg::new(flag.name).long(flag.name));
    let argument = match flag.short {
        Some(letter) => argument.short(letter),
        None => argument,
    };
    let mut long = format!("{}.", flag.help);
    if !flag.more.is_empty() {
        long.push_str(&format!("\n\n{}", flag.more));
    }
    if !flag.aliases.is_empty() {
        let names: Vec<String> = flag.aliases.iter().map(|alias| format!("--{alias}")).collect();
        long.push_str(&format!("\n\nAlso: {}", names.join(", ")));
    }
    argument
        .help(flag.help)
        .long_help(StyledStr::from(long))
        .help_heading(flag.group.title())
        .hide(flag.group == Group::Unlisted)
}

/// What may stand after a flag. Numbers below zero are values, so that the engine can say what is wrong with them.
fn words(flag: &'static Flag, argument: Arg) -> Arg {
    match flag.takes {
        Takes::Value(name) => argument.value_name(name).allow_negative_numbers(true),
        Takes::Values(name) => argument
            .value_name(name)
            .num_args(1..)
            .action(ArgAction::Append)
            .allow_negative_numbers(true),
        Takes::Switch => argument
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use clap::error::ErrorKind;

    use super::*;
    use crate::args::{Args, Command as Subcommand};

    fn given(line: &str) -> Result<Flags, ErrorKind> {
        let words = ["ringload", "profile"].into_iter().chain(line.split_whitespace());
        match Args::try_parse_from(words) {
            Ok(Args {
                command: Subcommand::Profile(profile),
            }) => Ok(profile.flags.0),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.kind()),
        }
    }

    #[test]
    fn every_spelling_of_every_flag_is_taken() {
        for flag in all_flags() {
            let value = if flag.takes == Takes::Switch { "" } else { " 1" };
            let mut lines = vec![format!("--{}{value}", flag.name), format!("--{}=1", flag.name)];
            lines.extend(flag.aliases.iter().map(|alias| format!("--{alias}{value}")));
            lines.extend(flag.short.map(|letter| format!("-{letter}{value}")));
            lines.extend(flag.negation().map(|name| format!("--{name}")));
            for line in lines {
                let flags = given(&line).unwrap_or_else(|kind| panic!("{line}: {kind:?}"));
                assert!(flags.has(flag.name), "{line}");
            }
        }
    }

    #[test]
    fn one_flag_under_two_names_or_twice_is_a_contradiction() {
        for line in [
            "--request-count 1 --num-requests 2",
            "--request-count 1 --request-count 2",
            "--streaming --no-streaming",
        ] {
            assert_eq!(given(line).err(), Some(ErrorKind::ArgumentConflict), "{line}");
        }
    }

    #[test]
    fn values_that_look_like_flags_are_values_where_they_are_numbers() {
        assert!(given("--warmup-request-count -1").is_ok_and(|flags| flags.has("warmup-request-count")));
        assert!(given("--extra-inputs a:1 b:2 --header X:1 -H Y:2 -u h i").is_ok());
        assert_eq!(given("--streaming false").err(), Some(ErrorKind::UnknownArgument));
    }
}
