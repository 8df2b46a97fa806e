//! The one place where the command line meets the engine and the mock server.
//!
//! Everything that the other modules know of a run passes through here, so a change of the engine's face ends in this file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ringload_engine::plan::{PhaseKind, ends_drains_by_silence};
pub(crate) use ringload_engine::plan::{Secrets, Verification};
use ringload_engine::record::FailureClass;

use crate::args::Ui;
use crate::cell_table::CellRow;
use crate::console;
use crate::number::grouped_decimal;
use crate::table::{ErrorCount, Row, Scope};

pub(crate) use ringload_engine::artifact::{JOURNAL, PROFILE_RUNS};
pub(crate) use ringload_engine::cells::{
    Cell, CellEnd, CellReport, Cells, CellsError, CellsOptions, CellsOutcome, Event, run as run_cells,
};
pub(crate) use ringload_engine::config::json_schema;
pub(crate) use ringload_engine::interrupt::Interrupt;
pub(crate) use ringload_engine::plan::{
    Arrival, DrainRule, Gaps, ModelPlan, Outline, PhasePlan, Plan, RateCourse, RatePlan, SeedChoice,
};
pub(crate) use ringload_engine::run::{
    Bound, CoreChoice, DRAIN_STALL_TIMEOUT, DriverChoice, HostPreview, LivePhase, LiveSilence, LiveSnapshot, Pacing,
    PhaseForecast, Preview, RecoverOptions, Recovered, Requests, RunError, RunOptions, RunOutcome, STALL_TIMEOUT,
    preview, recover, run,
};
pub(crate) use ringload_engine::units::Nanos;

use ringload_engine::config::{self, Suite};
pub(crate) use ringload_engine::config::{
    ConvergenceMode, Diagnostic, Diagnostics, EndpointType, Flag, Flags, Group, Position, ServerPreset, Takes,
    all_flags, duration_or_never, positive_duration, recorded, redact_url, refusal,
};
use ringload_engine::plan::{self, BuildOptions};
use ringload_engine::report::{self, ClientReport, DistributionRow, Report, Table, Verdict};
use ringload_mock_server::{MockServer, Options as MockOptions, StartError};

/// What the console shows of a scope: the figures that decide, one screen for a few phases. Every other metric is in the artifacts.
const CONSOLE_METRICS: [&str; 13] = [
    "time_to_first_token",
    "time_to_second_token",
    "request_latency",
    "effective_latency",
    "inter_token_latency",
    "inter_chunk_latency",
    "output_token_throughput_per_user",
    "input_sequence_length",
    "output_sequence_length",
    "request_throughput",
    "goodput",
    "output_token_throughput",
    "total_token_throughput",
];

/// The workflow of `profile --mock` without a config.
const BUNDLED: &str = include_str!("bundled.yaml");
/// What messages about it call it.
const BUNDLED_NAME: &str = "(bundled workflow)";

/// Where a config comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    /// A file of the user's.
    File(&'a Path),
    /// The workflow that comes with the program.
    Bundled,
    /// The flags alone.
    Flags,
}

/// What the command line decides over the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overrides {
    /// Artifact directory.
    pub(crate) output_directory: Option<PathBuf>,
    /// Whether earlier results may go.
    pub(crate) overwrite: bool,
    /// Scheme, host and port of the server.
    pub(crate) target: Option<String>,
    /// How an https server proves who it is.
    pub(crate) verification: Option<Verification>,
    /// The command line as recorded in artifacts.
    pub(crate) command: String,
    /// What goes over the config.
    pub(crate) flags: Flags,
    /// Whose control routes fill the paths of hooks.
    pub(crate) preset: Option<ServerPreset>,
}

/// What a config describes.
#[derive(Debug)]
pub(crate) enum Work {
    /// One run.
    Run(Box<Plan>),
    /// A sweep, or several runs of the same.
    Cells(Box<Cells>),
}

impl Work {
    /// Whether it matters how long a request may be silent while its phase drains.
    pub(crate) fn ends_drains_by_silence(&self) -> bool {
        match self {
            Self::Run(plan) => ends_drains_by_silence(&plan.phases),
            Self::Cells(cells) => cells.ends_drains_by_silence(),
        }
    }
}

/// Work that was checked as [`resolve`] does and is not ready to start: no request is made.
#[derive(Debug)]
pub(crate) enum Checked {
    /// One run.
    Run(Outline),
    /// A sweep, or several runs of the same.
    Cells(Box<Cells>),
}

/// Work that is ready to start.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) work: Work,
    /// `runtime.ui` of the config.
    pub(crate) ui: Option<Ui>,
    /// Whether the file decides the seed of a single run.
    pub(crate) is_seeded: bool,
    /// The models of all variations, each once.
    pub(crate) models: Vec<String>,
}

/// The same as [`resolve`], for people.
///
/// # Errors
/// Every mistake of the config, rendered.
pub(crate) fn prepare(source: Source<'_>, overrides: Overrides) -> Result<Prepared, String> {
    resolve(source, overrides).map_err(|diagnostics| diagnostics.render(true))
}

/// Whether a text that messages call `name` is a config, whatever its references to the environment come to.
///
/// # Errors
/// Every mistake of it, rendered.
pub(crate) fn check_text(name: &str, text: &str) -> Result<(), String> {
    let read = config::parse_suite(name, text.as_bytes(), &|_| Some("x".to_owned()));
    read.map(drop).map_err(|diagnostics| diagnostics.render(true))
}

/// Reads a config and resolves it: the one pipeline of every command.
///
/// # Errors
/// Every mistake of the config, with the flags that it comes from.
pub(crate) fn resolve(source: Source<'_>, overrides: Overrides) -> Result<Prepared, Diagnostics> {
    let tried = overrides.clone();
    resolve_once(source, overrides).map_err(|mistakes| {
        let with = |flags: &Flags| Overrides {
            flags: flags.clone(),
            ..tried.clone()
        };
        mistakes.blame(&tried.flags, &|flags| {
            let (suite, options) = read(source, with(flags))?;
            check_suite(suite, options).map(drop)
        })
    })
}

fn resolve_once(source: Source<'_>, overrides: Overrides) -> Result<Prepared, Diagnostics> {
    let (suite, options) = read(source, overrides)?;
    console::hide(suite.secrets());
    let ui = suite.variations[0].config.ui.map(|ui| match ui {
        config::Ui::None => Ui::None,
        config::Ui::Simple => Ui::Simple,
    });
    let is_seeded = suite.variations[0].config.random_seed.is_some();
    let models: BTreeSet<String> = suite
        .variations
        .iter()
        .flat_map(|variation| variation.config.models.names().map(str::to_owned))
        .collect();
    let work = if suite.is_single() {
        let config = suite.into_single()?;
        Work::Run(Box::new(plan::build(&config, &options)?))
    } else {
        Work::Cells(Box::new(Cells::prepare(suite, options)?))
    };
    Ok(Prepared {
        work,
        ui,
        is_seeded,
        models: models.into_iter().collect(),
    })
}

/// Whether [`resolve`] would succeed, found out without making requests.
///
/// # Errors
/// Those of [`resolve`].
pub(crate) fn check(source: Source<'_>, overrides: Overrides) -> Result<Checked, Diagnostics> {
    let (suite, options) = read(source, overrides)?;
    console::hide(suite.secrets());
    check_suite(suite, options)
}

fn check_suite(suite: Suite, options: BuildOptions) -> Result<Checked, Diagnostics> {
    if suite.is_single() {
        return plan::check(&suite.into_single()?, &options).map(Checked::Run);
    }
    Ok(Checked::Cells(Box::new(Cells::prepare(suite, options)?)))
}

fn read(source: Source<'_>, overrides: Overrides) -> Result<(Suite, BuildOptions), Diagnostics> {
    let mut suite = match source {
        Source::File(path) => config::load_suite_with(path, &overrides.flags),
        Source::Bundled => config::parse_suite_with(BUNDLED_NAME, BUNDLED.as_bytes(), &|_| None, &overrides.flags),
        Source::Flags => config::suite_of_flags(&overrides.flags),
    }?;
    if let Some(preset) = overrides.preset {
        suite.apply_preset(preset)?;
    }
    let options = BuildOptions {
        output_directory: overrides.output_directory,
        overwrite: overrides.overwrite,
        target_override: overrides.target,
        verification: overrides.verification,
        command: overrides.command,
        benchmark_id: None,
        seed: None,
        trial: 0,
    };
    Ok((suite, options))
}

/// A cell that has ended, as its line of the table; `outcome` if it ran now.
pub(crate) fn cell_row(report: &CellReport, outcome: Option<&RunOutcome>) -> CellRow {
    let figure = |tag: &str, statistic: &str| report.metrics.get(tag)?.get(statistic)?.as_f64();
    let (status, reason) = match &report.end {
        CellEnd::Succeeded if report.is_earlier => ("kept", None),
        CellEnd::Succeeded => ("succeeded", None),
        CellEnd::Failed(reason) | CellEnd::ThresholdMissed(reason) => ("failed", Some(reason.clone())),
        CellEnd::Interrupted(_) => ("interrupted", None),
    };
    CellRow {
        index: report.index,
        status: status.to_owned(),
        figures: [
            figure("request_throughput", "avg"),
            figure("time_to_first_token", "p99"),
            figure("request_latency", "p99"),
            figure("output_token_throughput", "avg"),
            figure("goodput", "avg"),
        ],
        reason,
        searches: outcome.map_or_else(Vec::new, |outcome| outcome.searches.clone()),
    }
}

/// The best variations of a sweep, a line each; empty without a sweep.
pub(crate) fn best_lines(outcome: &CellsOutcome) -> String {
    let Some(comparison) = &outcome.comparison else {
        return String::new();
    };
    let mut lines = String::new();
    for (key, title) in [
        ("best_throughput", "most requests/s"),
        ("best_latency_p99", "shortest p99"),
    ] {
        let best = &comparison["best_configurations"][key];
        let Some(parameters) = best["parameters"].as_object() else {
            continue;
        };
        let pairs: Vec<String> = parameters
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let figure = best["metric"].as_f64().unwrap_or_default();
        let unit = best["unit"].as_str().unwrap_or_default();
        lines.push_str(&format!(
            "{title}: {} ({} {unit})\n",
            pairs.join(", "),
            grouped_decimal(figure, 2)
        ));
    }
    lines
}

/// Starts the mock server of `--mock`; it ends when it is dropped.
///
/// # Errors
/// When it gets no port or no thread.
pub(crate) fn start_mock() -> Result<MockServer, StartError> {
    // Port 0: any free one. Delays are the defaults, 20 ms to the first token and 5 ms between tokens.
    MockServer::start(MockOptions {
        port: 0,
        ..MockOptions::default()
    })
}

/// What speaks against the client, for each profiling phase in which anything does: what decided, then the rest.
pub(crate) fn client_lines(report: &Report) -> String {
    report
        .phases
        .iter()
        .filter(|phase| phase.kind == PhaseKind::Profiling)
        .filter_map(|phase| Some(findings(&phase.name, phase.client.as_ref()?)))
        .collect()
}

fn findings(phase: &str, client: &ClientReport) -> String {
    let Some((deciding, others)) = client.findings.split_first() else {
        return String::new();
    };
    let verdict = match deciding.verdict {
        Verdict::Invalid => "INVALID",
        verdict => verdict.as_str(),
    };
    let mut lines = format!("client: {verdict} in phase '{phase}': {deciding}\n");
    for other in others {
        lines.push_str(&format!("  and {}: {other}\n", other.verdict.as_str()));
    }
    lines
}

/// Why the run does not describe the server, if the client was the limit.
pub(crate) fn client_limit(report: &Report) -> Option<String> {
    let (phase, client) = report.worst_client()?;
    let deciding = client
        .deciding()
        .filter(|deciding| deciding.verdict == Verdict::Invalid)?;
    Some(format!(
        "the client was the limit in phase '{}': {deciding}",
        phase.name
    ))
}

/// The report as tables: every phase that started, then the aggregate of the measured ones if there are several.
pub(crate) fn scopes(report: &Report) -> Vec<Scope> {
    shown_tables(report).iter().map(scope_of).collect()
}

fn shown_tables(report: &Report) -> Vec<Table<'_>> {
    let mut tables = report.scopes();
    let is_measured = |table: &Table<'_>| table.phase.is_some_and(|phase| phase.kind == PhaseKind::Profiling);
    // Of a single measured phase the aggregate would say the same once more.
    let is_aggregate_news = tables.iter().filter(|table| is_measured(table)).count() != 1;
    tables.retain(|table| table.phase.is_some() || is_aggregate_news);
    tables
}

/// How the requests of the same scopes went over the wire: a title and rows for each that had a request.
pub(crate) fn trace_tables(report: &Report) -> Vec<(String, Vec<Row>)> {
    let tables = shown_tables(report);
    let of = |table: &Table<'_>| {
        let timed = table.rows.iter().filter(|row| row.group == report::Group::Trace);
        (
            format!("HTTP trace timing, {}", name_of(table)),
            timed.map(row_of).collect(),
        )
    };
    let all = tables.iter().map(of);
    all.filter(|(_, rows): &(_, Vec<Row>)| !rows.is_empty()).collect()
}

fn name_of(table: &Table<'_>) -> String {
    match table.phase {
        Some(phase) => format!("{} ({})", phase.name, phase.kind.as_str()),
        None => "all profiling phases".to_owned(),
    }
}

fn row_of(row: &DistributionRow) -> Row {
    Row {
        header: row.header.to_owned(),
        unit: row.unit.to_owned(),
        values: [row.avg, row.min, row.max, row.p99, row.p90, row.p50, row.std],
    }
}

fn scope_of(table: &Table<'_>) -> Scope {
    let mut title = name_of(table);
    if let Some(window) = table.scope.window {
        let seconds = window.end_ns.saturating_sub(window.start_ns) as f64 / 1e9;
        title.push_str(&format!(", {seconds:.1} s"));
    }
    if let Some(client) = table.client {
        title.push_str(&format!(", client: {}", client.verdict().as_str()));
    }
    let shown = |tag: &str| CONSOLE_METRICS.contains(&tag);
    let distributions = table.rows.iter().filter(|row| shown(row.tag)).map(row_of);
    let scalars = table.scalars.iter().filter(|row| shown(row.tag)).map(|row| Row {
        header: row.header.to_owned(),
        unit: row.unit.to_owned(),
        values: [Some(row.value), None, None, None, None, None, None],
    });
    Scope {
        title,
        counts: table.scope.counts,
        rows: distributions.chain(scalars).collect(),
        // Cancellations were asked for and have their place among the counts.
        errors: table
            .scope
            .errors
            .iter()
            .filter(|error| error.type_name != FailureClass::Cancelled.type_name())
            .map(|error| ErrorCount {
                count: error.count,
                code: error.code,
                type_name: error.type_name.clone(),
                message: error.message.clone(),
            })
            .collect(),
    }
}
