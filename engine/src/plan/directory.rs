//! Where artifacts go, and what they are called, when the config leaves it open.

use std::path::PathBuf;

use crate::config::{Config, PhaseKind, PhaseType, Rate};

/// Longest part of a directory name that comes from the model: the rest and the limit of file systems (255 bytes) leave room.
const MODEL_BYTES_MAX: usize = 150;

/// Endings that a prefix may carry over from the name of a file; the longer ones first, because they contain the shorter.
const KNOWN_SUFFIXES: [&str; 13] = [
    "_server_metrics.parquet",
    "_server_metrics.jsonl",
    "_server_metrics.json",
    "_server_metrics.csv",
    "_gpu_telemetry.jsonl",
    "_timeslices.json",
    "_timeslices.csv",
    "_outputs.json",
    "_console.txt",
    "_raw.jsonl",
    ".jsonl",
    ".json",
    ".csv",
];

/// The directory of the config, or one named after model, API and load: `artifacts/<model>-openai-<type>-<stimulus>`.
pub(super) fn of(config: &Config) -> PathBuf {
    of_all([config])
}

/// The directory that the variations of a sweep have in common. A part of its name in which they differ is left out: the value of the first one
/// would be taken for that of all. Of several directories that are written the first one counts.
///
/// # Panics
/// If there is no variation.
pub fn of_all<'c>(configs: impl IntoIterator<Item = &'c Config>) -> PathBuf {
    let mut configs = configs.into_iter();
    let first = configs.next().expect("a sweep has a variation");
    if let Some(dir) = &first.artifacts.dir {
        return PathBuf::from(dir);
    }
    let mut name = parts(first);
    for other in configs {
        let other = parts(other);
        name.retain(|part| other.contains(part));
    }
    let name: Vec<String> = name.into_iter().map(|(_, text)| text).collect();
    PathBuf::from("artifacts").join(name.join("-"))
}

/// What a name is made of, in order: what each part is about, and its text.
fn parts(config: &Config) -> Vec<(&'static str, String)> {
    let mut parts = vec![
        ("model", model(config)),
        ("family", "openai".to_owned()),
        ("type", config.endpoint.kind.unwrap_or_default().as_str().to_owned()),
    ];
    parts.extend(stimulus(config));
    parts
}

/// The first model as part of a file name, with a word if there are others.
fn model(config: &Config) -> String {
    let name = config.models.names().next().unwrap_or_default();
    let mut safe = name.replace('/', "_");
    let cut = (0..=safe.len().min(MODEL_BYTES_MAX))
        .rev()
        .find(|&at| safe.is_char_boundary(at))
        .unwrap_or(0);
    safe.truncate(cut);
    if config.models.items.len() > 1 {
        safe.push_str("_multi");
    }
    safe
}

/// The load of the first measured phase.
fn stimulus(config: &Config) -> Vec<(&'static str, String)> {
    let first = config.phases.iter().find(|phase| phase.kind == PhaseKind::Profiling);
    let phase = first.expect("a config without mistakes has a profiling phase");
    if matches!(phase.load, PhaseType::FixedSchedule(_)) {
        return vec![("load", "fixed_schedule".to_owned())];
    }
    let concurrency = phase
        .concurrency
        .map(|concurrency| ("concurrency", format!("concurrency{concurrency}")));
    // Debug formatting keeps the fraction of whole rates, as in request_rate20.0. A series is named after its first rate.
    let rate = phase.load.rate().map(Rate::first);
    let rate = rate.map(|rate| ("rate", format!("request_rate{rate:?}")));
    concurrency.into_iter().chain(rate).collect()
}

/// A prefix without the ending of an export.
pub(super) fn base_name(prefix: &str) -> String {
    let bare = KNOWN_SUFFIXES
        .iter()
        .find_map(|suffix| prefix.strip_suffix(suffix))
        .filter(|bare| !bare.is_empty());
    bare.unwrap_or(prefix).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_loses_the_ending_of_an_export() {
        assert_eq!(base_name("run1.json"), "run1");
        assert_eq!(base_name("run1_raw.jsonl"), "run1");
        assert_eq!(base_name("run1_server_metrics.json"), "run1");
        assert_eq!(base_name("run.1"), "run.1");
        assert_eq!(base_name("_raw.jsonl"), "_raw.jsonl");
    }
}
