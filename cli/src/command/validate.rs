//! `ringload config validate`: says what is wrong with a config, or that nothing is.

use std::path::Path;

use crate::console;
use crate::engine::{self, Overrides, Source, Work};
use crate::exit::Exit;
use crate::number::grouped;

/// Checks a config the way a run would, and sends nothing.
pub(crate) fn execute(file: &Path) -> Exit {
    let prepared = match engine::prepare(Source::File(file), Overrides::default()) {
        Ok(prepared) => prepared,
        Err(diagnostics) => {
            console::note(diagnostics.trim_end());
            return Exit::Usage;
        }
    };
    let (plan, cells) = match prepared.work {
        Work::Run(plan) => (*plan, None),
        Work::Cells(cells) => {
            cells.warnings().iter().for_each(|warning| console::warn(warning));
            match cells.plan(&cells.cells()[0]) {
                Ok(plan) => (plan, Some(cells)),
                Err(diagnostics) => {
                    console::note(diagnostics.render(true).trim_end());
                    return Exit::Usage;
                }
            }
        }
    };
    if cells.is_none() {
        plan.warnings.iter().for_each(|warning| console::warn(warning));
    }
    let names: Vec<&str> = plan.phases.iter().map(|phase| phase.name.as_str()).collect();
    let several = cells.map_or_else(String::new, |cells| {
        format!(
            "; {} cells ({} variations, {} runs of each), the first of them {}",
            grouped(cells.cells().len() as u64),
            grouped(cells.variations() as u64),
            cells.trials(),
            cells.cells()[0].name
        )
    });
    let text = format!(
        "{}: valid, {} to {} ({} requests in the data set){several}\n",
        file.display(),
        names.join(", "),
        // The origin alone: a query may hold a secret.
        plan.endpoint
            .targets
            .iter()
            .map(|target| target.origin.as_str())
            .collect::<Vec<_>>()
            .join(", "),
        grouped(plan.requests.entries.len() as u64),
    );
    match console::print(&text) {
        Ok(()) => Exit::Success,
        Err(error) => {
            console::note(&format!("error: standard output: {error}"));
            Exit::RunFailed
        }
    }
}
