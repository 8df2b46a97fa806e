//! `ringload config validate`: says what is wrong with a config, or that nothing is.

use std::path::Path;

use crate::console;
use crate::engine::{self, Overrides, Source};
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
    let plan = prepared.plan;
    plan.warnings.iter().for_each(|warning| console::warn(warning));
    let names: Vec<&str> = plan.phases.iter().map(|phase| phase.name.as_str()).collect();
    let text = format!(
        "{}: valid, {} to {} ({} requests in the data set)\n",
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
