//! Stand-ins with the agreed face: they let the command line compile and its tests run until the real parts are joined. Each refuses to work
//! with an error that says so. To join, delete this file and import the real modules in the parent.
// A stand-in reads nothing of what it is given.
#![allow(dead_code)]

/// Stands in for `ringload_engine::run`.
pub(crate) mod run {
    use std::path::PathBuf;
    use std::sync::Arc;

    use ringload_engine::coordinator::Tally;
    use ringload_engine::plan::Plan;
    use ringload_engine::units::Nanos;

    use super::report::Report;

    #[derive(Debug)]
    pub(crate) struct RunOptions {
        pub(crate) cores: Option<u16>,
        pub(crate) interrupt: Arc<Interrupt>,
    }

    #[derive(Debug)]
    pub(crate) struct Interrupt;

    impl Interrupt {
        pub(crate) fn new() -> Self {
            Self
        }

        pub(crate) fn raise(&self, _signal: i32) {}
    }

    #[derive(Debug)]
    pub(crate) struct LiveSnapshot {
        pub(crate) elapsed: Nanos,
        pub(crate) phases: Vec<LivePhase>,
    }

    #[derive(Debug)]
    pub(crate) struct LivePhase {
        pub(crate) name: String,
        pub(crate) elapsed: Nanos,
        pub(crate) tally: Tally,
        pub(crate) draining: bool,
    }

    #[derive(Debug)]
    pub(crate) struct RunOutcome {
        pub(crate) report: Report,
        pub(crate) artifact_directory: PathBuf,
        pub(crate) files: Vec<PathBuf>,
        pub(crate) interrupted: Option<i32>,
        pub(crate) failure: Option<String>,
        pub(crate) warnings: Vec<String>,
    }

    #[derive(Debug)]
    pub(crate) struct RunError(String);

    impl std::fmt::Display for RunError {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(&self.0)
        }
    }

    impl std::error::Error for RunError {}

    pub(crate) fn run(
        _plan: Plan,
        options: RunOptions,
        _observer: &mut dyn FnMut(&LiveSnapshot),
    ) -> Result<RunOutcome, RunError> {
        Err(RunError(format!(
            "the engine is not joined yet (cores: {:?})",
            options.cores
        )))
    }
}

/// Stands in for `ringload_engine::{config, plan}`.
pub(crate) mod config {
    use std::path::{Path, PathBuf};

    use ringload_engine::plan::Plan;

    #[derive(Debug)]
    pub(crate) struct Config;

    impl Config {
        pub(crate) fn runtime_ui(&self) -> Option<&str> {
            None
        }
    }

    #[derive(Debug)]
    pub(crate) struct BuildOptions {
        pub(crate) output_directory: Option<PathBuf>,
        pub(crate) overwrite: bool,
        pub(crate) target_override: Option<String>,
        pub(crate) command: String,
        pub(crate) benchmark_id: Option<String>,
        pub(crate) seed: Option<u64>,
    }

    #[derive(Debug)]
    pub(crate) struct Diagnostics(String);

    impl Diagnostics {
        pub(crate) fn render(&self, _with_excerpt: bool) -> String {
            self.0.clone()
        }
    }

    pub(crate) fn load(path: &Path) -> Result<Config, Diagnostics> {
        match std::fs::read_to_string(path) {
            Ok(text) => parse(&path.display().to_string(), &text),
            Err(error) => Err(Diagnostics(format!("{}: {error}", path.display()))),
        }
    }

    pub(crate) fn parse(_name: &str, _text: &str) -> Result<Config, Diagnostics> {
        Ok(Config)
    }

    pub(crate) fn build(_config: &Config, options: &BuildOptions) -> Result<Plan, Diagnostics> {
        Err(Diagnostics(format!(
            "the config reader is not joined yet ({options:?})"
        )))
    }
}

/// Stands in for `ringload_mock_server`.
pub(crate) mod mock {
    #[derive(Debug, Default)]
    pub(crate) struct Options {
        pub(crate) port: u16,
        pub(crate) threads: usize,
    }

    #[derive(Debug)]
    pub(crate) struct StartError(String);

    impl std::fmt::Display for StartError {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(&self.0)
        }
    }

    impl std::error::Error for StartError {}

    #[derive(Debug)]
    pub(crate) struct MockServer;

    impl MockServer {
        pub(crate) fn start(options: Options) -> Result<Self, StartError> {
            Err(StartError(format!(
                "the mock server is not joined yet (port {}, {} threads)",
                options.port, options.threads
            )))
        }

        pub(crate) fn url(&self) -> String {
            String::new()
        }
    }
}

/// Stands in for `ringload_engine::report`.
pub(crate) mod report {
    use ringload_engine::coordinator::Tally;
    use ringload_engine::plan::PhaseKind;

    #[derive(Debug)]
    pub(crate) struct Report {
        pub(crate) phases: Vec<PhaseReport>,
        pub(crate) aggregate: ScopeReport,
    }

    #[derive(Debug)]
    pub(crate) struct PhaseReport {
        pub(crate) name: String,
        pub(crate) kind: PhaseKind,
        pub(crate) scope: ScopeReport,
    }

    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Window {
        pub(crate) start_ns: u64,
        pub(crate) end_ns: u64,
    }

    #[derive(Debug, Default)]
    pub(crate) struct ScopeReport {
        pub(crate) window: Option<Window>,
        pub(crate) counts: Tally,
        pub(crate) errors: Vec<ErrorCount>,
    }

    #[derive(Debug)]
    pub(crate) struct ErrorCount {
        pub(crate) code: Option<u16>,
        pub(crate) type_name: String,
        pub(crate) message: String,
        pub(crate) count: u64,
    }

    #[derive(Debug)]
    pub(crate) struct DistributionRow {
        pub(crate) header: &'static str,
        pub(crate) unit: &'static str,
        pub(crate) avg: Option<f64>,
        pub(crate) min: Option<f64>,
        pub(crate) max: Option<f64>,
        pub(crate) p99: Option<f64>,
        pub(crate) p90: Option<f64>,
        pub(crate) p50: Option<f64>,
        pub(crate) std: Option<f64>,
    }

    #[derive(Debug)]
    pub(crate) struct ScalarRow {
        pub(crate) header: &'static str,
        pub(crate) unit: &'static str,
        pub(crate) value: f64,
    }

    #[derive(Debug)]
    pub(crate) struct Table<'a> {
        pub(crate) phase: Option<&'a PhaseReport>,
        pub(crate) scope: &'a ScopeReport,
        pub(crate) rows: Vec<DistributionRow>,
        pub(crate) scalars: Vec<ScalarRow>,
    }

    impl Report {
        pub(crate) fn scopes(&self) -> Vec<Table<'_>> {
            let phases = self.phases.iter().map(|phase| (Some(phase), &phase.scope));
            phases
                .chain([(None, &self.aggregate)])
                .map(|(phase, scope)| Table {
                    phase,
                    scope,
                    rows: Vec::new(),
                    scalars: Vec::new(),
                })
                .collect()
        }
    }
}
