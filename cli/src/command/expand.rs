//! `ringload config expand`: prints the configs that a file comes to, or writes each to a file.

mod files;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{printed, quoted};
use crate::command_args::Document;
use crate::console;
use crate::engine::{self, Overrides, Plan, Prepared, SeedChoice, Source, Work};
use crate::exit::Exit;

/// One config that a file comes to.
struct Resolved {
    name: String,
    /// Where its artifacts go, below those of all cells.
    place: PathBuf,
    plan: Plan,
    seed: SeedChoice,
}

/// Prints every cell of a file, or one, or writes them to files in `directory`.
pub(crate) fn execute(file: &Path, index: Option<usize>, format: Document, directory: Option<&Path>) -> Exit {
    let prepared = match engine::prepare(Source::File(file), Overrides::default()) {
        Ok(prepared) => prepared,
        Err(diagnostics) => {
            console::note(diagnostics.trim_end());
            return Exit::Usage;
        }
    };
    let count = match &prepared.work {
        Work::Run(_) => 1,
        Work::Cells(cells) => cells.cells().len(),
    };
    if let Some(index) = index.filter(|&index| index >= count) {
        let cells = match count {
            1 => "one cell, 0".to_owned(),
            count => format!("{count} cells, 0 to {}", count - 1),
        };
        console::note(&format!(
            "error: --index {index}: {} describes {cells}; choose one of these",
            file.display()
        ));
        return Exit::Usage;
    }
    let wanted = index.map_or(0..count, |index| index..index + 1);
    let mut cells = Vec::new();
    for at in wanted {
        match resolved(&prepared, at) {
            Ok(resolved) => cells.push((at, resolved)),
            Err(diagnostics) => {
                console::note(diagnostics.trim_end());
                return Exit::Usage;
            }
        }
    }
    if let Some(directory) = directory {
        let files = cells.iter().map(|(at, cell)| {
            let text = match format {
                Document::Yaml => as_yaml(cell, *at, count),
                Document::Json => format!("{:#}\n", config(cell)),
            };
            (cell.place.as_path(), text)
        });
        return files::write(directory, format, files);
    }
    printed(&match format {
        Document::Yaml => several(&cells, count, file),
        Document::Json if index.is_some() => format!("{:#}\n", config(&cells[0].1)),
        Document::Json => {
            let list = cells.iter().map(|(at, cell)| as_json(cell, *at)).collect();
            format!("{:#}\n", Value::Array(list))
        }
    })
}

/// The cells as YAML documents. A config file holds one of them, so the text says how to come by files.
fn several(cells: &[(usize, Resolved)], count: usize, file: &Path) -> String {
    let documents: Vec<String> = cells.iter().map(|(at, cell)| as_yaml(cell, *at, count)).collect();
    let hint = match documents.len() {
        1 => String::new(),
        several => format!(
            "# {several} configs, and a config file holds one: ringload config expand {} --output-dir DIR writes a file for each\n",
            quoted(&file.display().to_string().replace(char::is_control, "?"))
        ),
    };
    hint + &documents.join("---\n")
}

fn resolved(prepared: &Prepared, at: usize) -> Result<Resolved, String> {
    let choice = |is_seeded| {
        if is_seeded {
            SeedChoice::Fixed
        } else {
            SeedChoice::Drawn
        }
    };
    match &prepared.work {
        Work::Run(plan) => Ok(Resolved {
            name: "the only run".to_owned(),
            // Without a name of its own (`.`, `..`, `/`) it is a run like those of a sweep.
            place: plan.artifacts.directory.file_name().unwrap_or("run".as_ref()).into(),
            plan: Plan::clone(plan),
            seed: choice(prepared.is_seeded),
        }),
        Work::Cells(cells) => {
            let cell = &cells.cells()[at];
            let plan = cells.plan(cell).map_err(|diagnostics| diagnostics.render(true))?;
            Ok(Resolved {
                name: cell.name.clone(),
                place: cell
                    .directory
                    .strip_prefix(cells.directory())
                    .unwrap_or(&cell.directory)
                    .to_owned(),
                plan,
                seed: choice(cell.is_seeded()),
            })
        }
    }
}

/// A plan hash says something only where the seed is decided.
fn plan_hash(resolved: &Resolved) -> Option<String> {
    (resolved.seed == SeedChoice::Fixed).then(|| resolved.plan.fingerprint())
}

fn as_yaml(resolved: &Resolved, at: usize, count: usize) -> String {
    // A name may come from the file, line breaks included.
    let name: String = resolved
        .name
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let hash = plan_hash(resolved).map_or_else(String::new, |hash| format!("; plan {hash}"));
    format!(
        "# cell {at} of {count}: {name}{hash}\n{}",
        resolved.plan.resolved_yaml(resolved.seed)
    )
}

fn config(resolved: &Resolved) -> Value {
    resolved.plan.resolved_config(resolved.seed)
}

fn as_json(resolved: &Resolved, at: usize) -> Value {
    json!({
        "index": at,
        "name": resolved.name,
        "artifact_dir": resolved.plan.artifacts.directory,
        "plan_hash": plan_hash(resolved),
        "config": config(resolved),
    })
}
