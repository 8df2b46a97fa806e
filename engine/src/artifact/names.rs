//! File names of artifacts.

/// Request bodies of the dataset.
pub(super) const INPUTS: &str = "inputs.json";
/// What ran, as a config of its own.
pub(super) const RESOLVED: &str = "resolved_config.yaml";
/// Records of a run that has not been written out yet.
pub(super) const JOURNAL_NAME: &str = "ringload.journal";
/// Where the files of each phase are.
pub(super) const MANIFEST: &str = "phase_manifest.json";
/// What a controller did in its phase.
pub(super) const ADAPTIVE_EVENTS: &str = "adaptive_scale_events.jsonl";
/// What came of it.
pub(super) const ADAPTIVE_SUMMARY: &str = "adaptive_scale_summary.json";
/// Where these two are, for each phase that has them.
pub(super) const ADAPTIVE_MANIFEST: &str = "adaptive_scale_manifest.json";
/// Written last.
pub(super) const READY: &str = ".aiperf_results_ready.json";
/// Directory of the phases' directories.
pub(super) const PHASES: &str = "phases";
/// End of the names under which files are written before they are complete.
pub(super) const UNFINISHED: &str = ".ringload-unfinished";

/// Base names without a prefix.
const SUMMARY: &str = "profile_export_aiperf";
const RECORDS: &str = "profile_export";

/// Suffixes that users leave on a prefix, longest first so that the whole of it goes.
const KNOWN_SUFFIXES: [&str; 12] = [
    "_server_metrics.parquet",
    "_server_metrics.jsonl",
    "_server_metrics.json",
    "_gpu_telemetry.jsonl",
    "_server_metrics.csv",
    "_timeslices.json",
    "_timeslices.csv",
    "_outputs.json",
    "_raw.jsonl",
    ".jsonl",
    ".json",
    ".csv",
];

/// Names of the exports that `artifacts.prefix` renames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    summary: String,
    records: String,
}

impl Names {
    /// Names under a prefix; `None` if the prefix is not a plain file name.
    pub(super) fn new(prefix: Option<&str>) -> Option<Self> {
        let Some(prefix) = prefix else {
            return Some(Self {
                summary: SUMMARY.to_owned(),
                records: RECORDS.to_owned(),
            });
        };
        let base = KNOWN_SUFFIXES
            .iter()
            .find_map(|suffix| prefix.strip_suffix(suffix))
            .unwrap_or(prefix);
        let plain = !base.is_empty() && !base.contains(['/', '\\', '\0']);
        plain.then(|| Self {
            summary: base.to_owned(),
            records: base.to_owned(),
        })
    }

    /// Summary of a scope as JSON.
    pub(super) fn json(&self) -> String {
        format!("{}.json", self.summary)
    }

    /// Summary of a scope as CSV.
    pub(super) fn csv(&self) -> String {
        format!("{}.csv", self.summary)
    }

    /// One line per request.
    pub(super) fn jsonl(&self) -> String {
        format!("{}.jsonl", self.records)
    }

    /// Requests and answers, byte by byte.
    pub(super) fn raw(&self) -> String {
        format!("{}_raw.jsonl", self.records)
    }

    /// What was answered, with a few figures.
    pub(super) fn outputs(&self) -> String {
        match self.records == RECORDS {
            true => "outputs.json".to_owned(),
            false => format!("{}_outputs.json", self.records),
        }
    }

    /// All of them.
    pub(super) fn all(&self) -> [String; 5] {
        [self.json(), self.csv(), self.jsonl(), self.raw(), self.outputs()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_replaces_the_base_names_without_its_suffix() {
        let plain = Names::new(None).unwrap();
        let defaults = [
            "profile_export_aiperf.json",
            "profile_export_aiperf.csv",
            "profile_export.jsonl",
            "profile_export_raw.jsonl",
            "outputs.json",
        ];
        assert_eq!(plain.all(), defaults.map(String::from));
        for prefix in ["foo", "foo.json", "foo.csv", "foo_raw.jsonl", "foo_timeslices.json"] {
            let names = Names::new(Some(prefix)).unwrap();
            assert_eq!(
                names.all(),
                ["foo.json", "foo.csv", "foo.jsonl", "foo_raw.jsonl", "foo_outputs.json"].map(String::from),
                "{prefix}"
            );
        }
    }

    #[test]
    fn a_prefix_cannot_leave_the_directory() {
        for prefix in ["", ".json", "../foo", "a/b", "a\\b"] {
            assert_eq!(Names::new(Some(prefix)), None, "{prefix}");
        }
    }
}
