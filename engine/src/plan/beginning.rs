//! From what conversations begin with as written to the texts of it.

use std::path::Path;

use super::DatasetFile;
use super::dataset::NoDataset;
use crate::config::{Config, PrefixPrompts, SystemPrompt, redact_path};
use crate::dataset::{Opening, load_text, sha256};
use crate::units::counted;

/// What conversations begin with, and the file that the system's message is from.
#[derive(Debug, Default)]
pub(super) struct Beginning {
    pub(super) opening: Opening,
    pub(super) file: Option<DatasetFile>,
}

/// Looks at what conversations begin with; `seed` is that of the dataset.
pub(super) fn of(config: &Config, seed: u64) -> Result<Beginning, NoDataset> {
    let written = &config.dataset;
    let mut found = Beginning::default();
    match written.prefix_prompts {
        Some(PrefixPrompts::Pool { size, size_at, length }) => {
            let size_max = Opening::pool_size_max(length);
            if size > size_max {
                let message = format!(
                    "found {size}, and there are {size_max} different texts of {}; lower `pool_size`, or raise `length`",
                    counted(length, "token")
                );
                let key = "benchmark.dataset.prefix_prompts.pool_size";
                return Err(NoDataset::Mistakes(config.mistake(size_at, key, message)));
            }
            found.opening = found.opening.with_pool(size, length, seed);
        }
        Some(PrefixPrompts::Messages {
            shared_system_length,
            user_context_length,
        }) => {
            if let Some(tokens) = shared_system_length {
                found.opening = found.opening.with_system_of(tokens, seed);
            }
            if let Some(tokens) = user_context_length {
                found.opening = found.opening.with_context_of(tokens, seed);
            }
        }
        None => {}
    }
    match &written.system_prompt {
        Some(SystemPrompt::Text(text)) => found.opening = found.opening.with_system(text),
        Some(SystemPrompt::File { path, at }) => {
            let text = load_text(Path::new(path)).map_err(|error| {
                let message = format!("{}: {error}", redact_path(path));
                NoDataset::Mistakes(config.mistake(*at, "benchmark.dataset.system_prompt_file", message))
            })?;
            found.opening = found.opening.with_system(&text);
            found.file = Some(DatasetFile {
                path: path.clone(),
                sha256: sha256(text.as_bytes()),
            });
        }
        None => {}
    }
    Ok(found)
}
