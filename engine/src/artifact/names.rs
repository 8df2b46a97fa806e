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
/// Figures of the server in one phase.
pub(super) const PHASE_SERVER_METRICS: &str = "server_metrics.json";
/// Figures of GPUs in one phase.
pub(super) const PHASE_GPU_TELEMETRY: &str = "gpu_telemetry.json";
/// Written last.
pub(super) const READY: &str = ".aiperf_results_ready.json";
/// Directory of the phases' directories.
pub(super) const PHASES: &str = "phases";
/// End of the names under which files are written before they are complete.
pub(super) const UNFINISHED: &str = ".ringload-unfinished";

/// Base names without a prefix.
const SUMMARY: &str = "profile_export_aiperf";
const RECORDS: &str = "profile_export";
const SERVER_METRICS: &str = "server_metrics_export";
const GPU_TELEMETRY: &str = "gpu_telemetry_export";

/// Endings of the files of server metrics.
const SERVER_METRICS_FORMATS: [&str; 4] = ["json", "csv", "jsonl", "parquet"];

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
    server_metrics: String,
    gpu_telemetry: String,
}

impl Names {
    /// Names under a prefix; `None` if the prefix is not a plain file name.
    pub(super) fn new(prefix: Option<&str>) -> Option<Self> {
        let Some(prefix) = prefix else {
            return Some(Self {
                summary: SUMMARY.to_owned(),
                records: RECORDS.to_owned(),
                server_metrics: SERVER_METRICS.to_owned(),
                gpu_telemetry: GPU_TELEMETRY.to_owned(),
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
            server_metrics: format!("{base}_server_metrics"),
            gpu_telemetry: format!("{base}_gpu_telemetry"),
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

    /// Figures of the slices of the run, in one of their formats.
    pub(super) fn timeslices(&self, format: &str) -> String {
        format!("{}_timeslices.{format}", self.summary)
    }

    /// One line per request.
    pub(super) fn jsonl(&self) -> String {
        format!("{}.jsonl", self.records)
    }

    /// Figures of the server, in one of their formats.
    pub(super) fn server_metrics(&self, format: &str) -> String {
        format!("{}.{format}", self.server_metrics)
    }

    /// Figures of GPUs, one line for each of them at each scrape.
    pub(super) fn gpu_telemetry(&self) -> String {
        format!("{}.jsonl", self.gpu_telemetry)
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
    pub(super) fn all(&self) -> Vec<String> {
        let mut all = vec![
            self.json(),
            self.csv(),
            self.timeslices("json"),
            self.timeslices("csv"),
            self.jsonl(),
            self.raw(),
            self.outputs(),
            self.gpu_telemetry(),
        ];
        all.extend(SERVER_METRICS_FORMATS.map(|format| self.server_metrics(format)));
        all
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
            "profile_export_aiperf_timeslices.json",
            "profile_export_aiperf_timeslices.csv",
            "profile_export.jsonl",
            "profile_export_raw.jsonl",
            "outputs.json",
            "gpu_telemetry_export.jsonl",
            "server_metrics_export.json",
            "server_metrics_export.csv",
            "server_metrics_export.jsonl",
            "server_metrics_export.parquet",
        ];
        assert_eq!(plain.all(), defaults.map(String::from));
        for prefix in ["foo", "foo.json", "foo.csv", "foo_raw.jsonl", "foo_timeslices.json"] {
            let names = Names::new(Some(prefix)).unwrap();
            assert_eq!(
                names.all()[..9],
                [
                    "foo.json",
                    "foo.csv",
                    "foo_timeslices.json",
                    "foo_timeslices.csv",
                    "foo.jsonl",
                    "foo_raw.jsonl",
                    "foo_outputs.json",
                    "foo_gpu_telemetry.jsonl",
                    "foo_server_metrics.json"
                ]
                .map(String::from),
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
