//! `profile -h`: every flag in one line, so that it is found by eye. What does not fit is cut; `--help` has all of it.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command, CommandFactory as _};

use crate::args::Args;
use crate::console;
use crate::exit::Exit;

/// Width where nobody tells one, and the least that lines are made for.
const DEFAULT_WIDTH: usize = 100;
const LEAST_WIDTH: usize = 60;
/// Columns for names of flags. Longer names push their text to the right; only these lines do not line up.
const NAME_WIDTH: usize = 34;
/// Beginning of a line that stands under no heading.
const INDENT: &str = "  ";

/// Prints the short help of `profile`, for a program that was called so.
pub(crate) fn print(program: &str) -> Exit {
    let mut all = Args::command().bin_name(program);
    all.build();
    let profile = all
        .find_subcommand_mut("profile")
        .expect("the program has a command of that name");
    match console::print(&render(profile, width())) {
        Ok(()) => Exit::Success,
        Err(_) => Exit::RunFailed,
    }
}

/// The width of the terminal; `COLUMNS` says otherwise.
fn width() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let of_terminal = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    told.or_else(of_terminal).unwrap_or(DEFAULT_WIDTH).max(LEAST_WIDTH)
}

fn render(command: &mut Command, width: usize) -> String {
    let usage = command.render_usage();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("{}\n\n{usage}\n", wrapped(&about, width));
    let shown: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_hide_set()).collect();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for arg in &shown {
        if !headings.contains(&arg.get_help_heading()) {
            headings.push(arg.get_help_heading());
        }
    }
    for heading in headings {
        let _ = write!(text, "\n{}:\n", heading.unwrap_or("Options"));
        for arg in shown.iter().filter(|arg| arg.get_help_heading() == heading) {
            text.push_str(&line(arg, width));
        }
    }
    text
}

/// A text in lines of at most this width.
fn wrapped(text: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is a line");
        if last.is_empty() || last.chars().count() + 1 + word.chars().count() <= width {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

/// Name and purpose of a flag, in one line that is not longer than `width`.
fn line(arg: &Arg, width: usize) -> String {
    let name = name(arg);
    let start = format!("{INDENT}{name:<NAME_WIDTH$}");
    let room = width.saturating_sub(start.chars().count() + 2);
    format!("{start}  {}\n", fit(&purpose(arg), &defaults(arg), room))
}

/// `-u, --url <URL>...`, as it is typed.
fn name(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let mut name = short.into_iter().chain(long).collect::<Vec<_>>().join(", ");
    // Switches take a word too, which is off in nearly all cases.
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) && !arg.is_require_equals_set();
    if let (true, Some(values)) = (takes_value, arg.get_value_names()) {
        let _ = write!(name, " <{}>", values.join("> <"));
    }
    if matches!(arg.get_action(), ArgAction::Append) {
        name.push_str("...");
    }
    name
}

fn purpose(arg: &Arg) -> String {
    arg.get_help().map(ToString::to_string).unwrap_or_default()
}

/// Words and default of a flag that its text does not name.
fn defaults(arg: &Arg) -> String {
    let mut text = String::new();
    let words = arg.get_possible_values();
    let has_words = !words.is_empty() && !matches!(arg.get_action(), ArgAction::SetTrue);
    if has_words {
        let names: Vec<&str> = words.iter().map(|word| word.get_name()).collect();
        let _ = write!(text, "[{}]", names.join(", "));
    }
    let values: Vec<String> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy().into_owned())
        .collect();
    if !values.is_empty() && has_words {
        let _ = write!(text, " [default: {}]", values.join(", "));
    }
    text
}

/// The text in so many characters: all of it; without its second sentence; without the words; at last cut between words. The default stays as long
/// as there is room for it.
fn fit(purpose: &str, defaults: &str, room: usize) -> String {
    let (told, default) = match purpose.split_once(" [default:") {
        Some((told, default)) => (told, format!(" [default:{default}")),
        None => (purpose, String::new()),
    };
    let defaults = if defaults.is_empty() {
        String::new()
    } else {
        format!(" {defaults}")
    };
    let sentence = told.split(". ").next().unwrap_or(told);
    // What stands before the details, if that says something by itself.
    let details = [", ", ": "].iter().filter_map(|mark| sentence.find(mark)).min();
    let clause = details.map_or(sentence, |at| &sentence[..at]);
    let clause = if clause.contains(' ') && !clause.contains('`') {
        clause
    } else {
        sentence
    };
    let ways = [
        format!("{told}{default}{defaults}"),
        format!("{sentence}{default}{defaults}"),
        format!("{sentence}{default}"),
        format!("{clause}{default}"),
        sentence.to_owned(),
    ];
    ways.into_iter()
        .find(|way| way.chars().count() <= room)
        .unwrap_or_else(|| cut(sentence, room))
}

/// As many whole words as fit, and a sign that there are more.
fn cut(text: &str, room: usize) -> String {
    let mut kept = String::new();
    for word in text.split(' ') {
        if kept.chars().count() + 1 + word.chars().count() + 2 > room {
            break;
        }
        if !kept.is_empty() {
            kept.push(' ');
        }
        kept.push_str(word);
    }
    kept + " …"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(width: usize) -> String {
        let mut all = Args::command().bin_name("ringload");
        all.build();
        render(all.find_subcommand_mut("profile").expect("a command"), width)
    }

    #[test]
    fn every_flag_is_one_line_that_fits() {
        let command = Args::command();
        let profile = command.find_subcommand("profile").expect("a command");
        let names: Vec<&str> = profile
            .get_arguments()
            .filter(|arg| !arg.is_hide_set())
            .filter_map(Arg::get_long)
            .collect();
        assert!(names.len() > 80, "{names:?}");
        for width in [80, 100, 120] {
            let text = help(width);
            for name in &names {
                let is_of = |line: &&str| {
                    let mut words = line.split_whitespace().map(|word| word.trim_end_matches(','));
                    line.starts_with(INDENT) && words.by_ref().take(2).any(|word| word == format!("--{name}"))
                };
                assert_eq!(text.lines().filter(is_of).count(), 1, "{name} at {width}:\n{text}");
            }
            let flags = text.lines().filter(|line| line.trim_start().starts_with('-')).count();
            let indented = text.lines().filter(|line| line.starts_with(INDENT)).count();
            assert_eq!(indented, flags, "no flag has a second line at {width}:\n{text}");
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width), "{longest:?} at {width}:\n{text}");
        }
    }

    #[test]
    fn a_text_keeps_its_default_longer_than_its_details() {
        let fit = |room| fit("Requests to send, or a list to sweep. More [default: 10]", "", room);
        assert_eq!(fit(80), "Requests to send, or a list to sweep. More [default: 10]");
        assert_eq!(fit(52), "Requests to send, or a list to sweep [default: 10]");
        assert_eq!(fit(32), "Requests to send [default: 10]");
        assert_eq!(fit(20), "Requests to send, …");
    }
}
