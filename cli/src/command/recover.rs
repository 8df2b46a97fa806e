//! `ringload recover`: writes the results of a run that died and shows them.

use crate::command_args::Recover;
use crate::console;
use crate::engine::{self, RecoverOptions, Recovered};
use crate::exit::Exit;
use crate::{signals, table};

/// Recovers what the flags name.
pub(crate) fn execute(args: &Recover) -> Exit {
    let options = RecoverOptions {
        directory: args.directory.clone(),
        output: args.output_artifact_dir.clone(),
        overwrite: args.overwrite,
    };
    if let Err(error) = signals::survive_large_files() {
        console::note(&format!("error: signal handlers cannot be installed: {error}"));
        return Exit::RunFailed;
    }
    match engine::recover(&options) {
        Ok(recovered) => conclude(&recovered),
        Err(error) => {
            console::note(&console::error_block(&error));
            if error.is_usage() { Exit::Usage } else { Exit::RunFailed }
        }
    }
}

fn conclude(recovered: &Recovered) -> Exit {
    let mut text = String::new();
    for line in &recovered.account {
        text.push_str(&format!("{line}\n"));
    }
    for scope in &engine::scopes(&recovered.report) {
        text.push_str(&format!("\n{}", table::render(scope)));
    }
    if recovered.shows_trace_timing {
        for (title, rows) in engine::trace_tables(&recovered.report) {
            text.push_str(&format!("\n{}", table::render_table(&title, &rows)));
        }
    }
    text.push('\n');
    text.push_str(&table::render_files(&recovered.artifact_directory, &recovered.files));
    let printed = super::printed(&text);
    match &recovered.failure {
        Some(reason) => {
            console::note(&format!("error: {reason}"));
            Exit::RunFailed
        }
        None => printed,
    }
}
