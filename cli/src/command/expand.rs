//! `ringload config expand`: prints the configs that a file comes to.

use std::path::Path;

use serde_json::{Value, json};

use super::printed;
use crate::command_args::Document;
use crate::console;
use crate::engine::{self, Overrides, Plan, Prepared, SeedChoice, Source, Work};
use crate::exit::Exit;

/// One config that a file comes to.
struct Resolved {
    name: String,
    plan: Plan,
    seed: SeedChoice,
}

/// Prints every cell of a file, or one.
pub(crate) fn execute(file: &Path, index: Option<usize>, format: Document) -> Exit {
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
    let mut text = String::new();
    let mut list = Vec::new();
    for at in wanted {
        let resolved = match resolved(&prepared, at) {
            Ok(resolved) => resolved,
            Err(diagnostics) => {
                console::note(diagnostics.trim_end());
                return Exit::Usage;
            }
        };
        match format {
            Document::Yaml => text.push_str(&as_yaml(&resolved, at, count, text.is_empty())),
            Document::Json => list.push(as_json(&resolved, at, index.is_some())),
        }
    }
    if format == Document::Json {
        let document = match index {
            Some(_) => list.swap_remove(0),
            None => Value::Array(list),
        };
        text = format!("{document:#}\n");
    }
    printed(&text)
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
            plan: Plan::clone(plan),
            seed: choice(prepared.is_seeded),
        }),
        Work::Cells(cells) => {
            let cell = &cells.cells()[at];
            let plan = cells.plan(cell).map_err(|diagnostics| diagnostics.render(true))?;
            Ok(Resolved {
                name: cell.name.clone(),
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

fn as_yaml(resolved: &Resolved, at: usize, count: usize, is_first: bool) -> String {
    // Several documents are told apart as YAML has it. A config file holds one of them.
    let separator = if is_first { "" } else { "---\n" };
    // A name may come from the file, line breaks included.
    let name: String = resolved
        .name
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let hash = plan_hash(resolved).map_or_else(String::new, |hash| format!("; plan {hash}"));
    format!(
        "{separator}# cell {at} of {count}: {name}{hash}\n{}",
        resolved.plan.resolved_yaml(resolved.seed)
    )
}

fn as_json(resolved: &Resolved, at: usize, is_alone: bool) -> Value {
    let config = resolved.plan.resolved_config(resolved.seed);
    if is_alone {
        return config;
    }
    json!({
        "index": at,
        "name": resolved.name,
        "artifact_dir": resolved.plan.artifacts.directory,
        "plan_hash": plan_hash(resolved),
        "config": config,
    })
}
