//! `ringload config init`: a commented config to start from.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use super::printed;
use crate::command_args::Init;
use crate::console;
use crate::engine;
use crate::exit::Exit;
use crate::templates::{self, Template};

/// Lists the templates, prints one, or writes it to a new file.
pub(crate) fn execute(args: &Init) -> Exit {
    if args.list {
        let widest = templates::ALL.iter().map(|template| template.name.len()).max();
        let line = |template: &Template| {
            format!(
                "{:width$}  {}\n",
                template.name,
                template.about,
                width = widest.unwrap_or(0)
            )
        };
        return printed(&templates::ALL.iter().map(line).collect::<String>());
    }
    let Some(template) = Template::named(&args.template) else {
        // The parser of the flag knows the names; this is for a caller that does not use it.
        console::note(&format!(
            "error: --template {}: no such template; allowed: {}",
            args.template,
            templates::names().join(", ")
        ));
        return Exit::Usage;
    };
    let name = match &args.output {
        Some(path) => path.display().to_string(),
        None => format!("{}.yaml", template.name),
    };
    let text = template.filled(&name, args.model.as_deref(), args.url.as_deref());
    if let Err(mistakes) = engine::check_text(&name, &text) {
        console::note(&format!(
            "error: the config would not be valid; correct --model or --url\n{}",
            mistakes.trim_end()
        ));
        return Exit::Usage;
    }
    match &args.output {
        None => printed(&text),
        Some(path) => write(path, &text, left_to_set(args.model.is_some(), args.url.is_some())),
    }
}

/// What the user has yet to do in the file, as the beginning of a sentence.
fn left_to_set(has_model: bool, has_url: bool) -> &'static str {
    match (has_model, has_url) {
        (false, false) => "set model and url, then: ",
        (false, true) => "set model, then: ",
        (true, false) => "set url, then: ",
        (true, true) => "next: ",
    }
}

fn write(path: &Path, text: &str, left: &str) -> Exit {
    let shown = path.display();
    // `create_new` leaves no moment between the look and the writing.
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Ok(()) => {
            console::note(&format!("wrote {shown}; {left}ringload profile --config {shown}"));
            Exit::Success
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            console::note(&format!(
                "error: --output {shown}: the file exists and is not overwritten; choose another name or remove it"
            ));
            Exit::Usage
        }
        Err(error) => {
            console::note(&format!("error: --output {shown}: {error}"));
            Exit::RunFailed
        }
    }
}
