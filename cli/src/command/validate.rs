//! `ringload config validate`: says what is wrong with a config, or that nothing is.

use std::path::Path;

use serde_json::{Value, json};

use super::printed;
use crate::command_args::Report;
use crate::console;
use crate::dry_run_text;
use crate::engine::{self, Checked, Diagnostics, Outline, Overrides, Source};
use crate::exit::Exit;
use crate::number::counted;

/// Checks a config the way a run would, and sends nothing.
pub(crate) fn execute(file: &Path, format: Report) -> Exit {
    let checked = engine::check(Source::File(file), Overrides::default());
    match (checked, format) {
        (Ok(checked), Report::Text) => {
            warnings(&checked).iter().for_each(|warning| console::warn(warning));
            printed(&summary(file, &checked))
        }
        (Err(diagnostics), Report::Text) => {
            console::note(diagnostics.render(true).trim_end());
            Exit::Usage
        }
        (Ok(checked), Report::Json) => {
            let warning = |warning: &String| message(&file.display().to_string(), "warning", "", warning);
            let warnings = warnings(&checked).iter().map(warning).collect();
            printed(&document(file, true, warnings))
        }
        (Err(diagnostics), Report::Json) => match printed(&document(file, false, mistakes(&diagnostics))) {
            Exit::Success => Exit::Usage,
            exit => exit,
        },
    }
}

fn warnings(checked: &Checked) -> &[String] {
    match checked {
        Checked::Run(outline) => &outline.warnings,
        Checked::Cells(cells) => cells.warnings(),
    }
}

/// One line on a config that is valid.
fn summary(file: &Path, checked: &Checked) -> String {
    let (outline, cells): (&Outline, _) = match checked {
        Checked::Run(outline) => (outline, None),
        Checked::Cells(cells) => (cells.first(), Some(cells)),
    };
    let names: Vec<&str> = outline.phases.iter().map(|phase| phase.name.as_str()).collect();
    // The origin alone: a query may hold a secret.
    let origins: Vec<&str> = outline.targets.iter().map(|target| target.origin.as_str()).collect();
    let several = cells.map_or_else(String::new, |cells| {
        format!(
            "; {} ({}), the first of them {}",
            dry_run_text::cell_count(cells),
            dry_run_text::shape(cells),
            cells.cells()[0].name
        )
    });
    format!(
        "{}: valid, {} to {} ({} in the data set){several}\n",
        file.display(),
        names.join(", "),
        origins.join(", "),
        counted(outline.requests, "request"),
    )
}

/// The outcome for editors: everything that was found, in the order of the file.
fn document(file: &Path, is_valid: bool, diagnostics: Vec<Value>) -> String {
    let document = json!({ "file": file.display().to_string(), "valid": is_valid, "diagnostics": diagnostics });
    format!("{document:#}\n")
}

/// A finding without a place, which concerns the file as a whole.
fn message(file: &str, severity: &str, path: &str, message: &str) -> Value {
    json!({
        "file": file, "line": null, "column": null, "end_line": null, "end_column": null,
        "path": path, "message": message, "severity": severity,
    })
}

fn mistakes(diagnostics: &Diagnostics) -> Vec<Value> {
    let ends = diagnostics.ends();
    let one = |(mistake, end): (&engine::Diagnostic, Option<engine::Position>)| {
        let mut value = message(diagnostics.file(), "error", &mistake.path, &mistake.message);
        if mistake.line > 0 {
            value["line"] = json!(mistake.line);
            value["column"] = json!(mistake.column);
        }
        if let Some(end) = end {
            value["end_line"] = json!(end.line);
            value["end_column"] = json!(end.column);
        }
        value
    };
    diagnostics.iter().zip(ends).map(one).collect()
}
