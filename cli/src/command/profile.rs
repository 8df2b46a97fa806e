//! `ringload profile`: runs a workflow and shows what came out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{cells, dry_run, quoted};
use ringload_engine::units::Nanos;

use crate::args::{DriverFlag, PacingFlag, PresetFlag, Profile, Ui};
use crate::console;
use crate::engine::{
    self, DRAIN_STALL_TIMEOUT, DriverChoice, Interrupt, Overrides, Pacing, Plan, Prepared, RunOptions, RunOutcome,
    STALL_TIMEOUT, ServerPreset, Source, Verification, Work,
};
use crate::exit::Exit;
use crate::last_words;
use crate::progress::Progress;
use crate::signals::Watch;
use crate::table;

/// Where the bundled workflow writes; a number follows when the name is taken.
const BUNDLED_DIRECTORY: &str = "artifacts/mock";

/// Runs the workflow that the flags name.
pub(crate) fn execute(args: &Profile) -> Exit {
    let source = source(args);
    let mock = match args.mock.then(engine::start_mock).transpose() {
        Ok(mock) => mock,
        Err(error) => return failed(&console::error_block(&error)),
    };
    let overrides = Overrides {
        output_directory: output_directory(args, source),
        overwrite: args.overwrite,
        target: mock.as_ref().map(|mock| mock.url()),
        verification: verification(args),
        command: command_line(std::env::args_os().map(|argument| argument.to_string_lossy().into_owned())),
        flags: args.flags.0.clone(),
        preset: args.server_preset.map(|preset| match preset {
            PresetFlag::Vllm => ServerPreset::Vllm,
            PresetFlag::Sglang => ServerPreset::Sglang,
        }),
    };
    let prepared = match engine::prepare(source, overrides) {
        Ok(prepared) => prepared,
        Err(diagnostics) => {
            console::note(diagnostics.trim_end());
            return Exit::Usage;
        }
    };
    // A run that waits until its model is listed must find it.
    if let Some(mock) = &mock {
        mock.list_models(prepared.models.clone());
    }
    // `mock` ends with this function, after the load that goes there.
    run(args, prepared)
}

fn run(args: &Profile, prepared: Prepared) -> Exit {
    let Prepared { work, ui, .. } = prepared;
    if args.resume && matches!(work, Work::Run(_)) {
        console::note(
            "error: --resume goes on with a sweep or with several runs, and this config describes one run; remove the flag",
        );
        return Exit::Usage;
    }
    if args.drain_stall_timeout.is_some() && !work.ends_drains_by_silence() {
        console::note(
            "error: --drain-stall-timeout cuts silent requests in the drain of a phase without a grace period, and every phase has one; remove the flag or \
             a grace period",
        );
        return Exit::Usage;
    }
    let interrupt = Arc::new(Interrupt::new());
    let watch = {
        let interrupt = Arc::clone(&interrupt);
        match Watch::start(move |signal| interrupt.raise(signal)) {
            Ok(watch) => watch,
            Err(error) => return failed(&format!("error: signal handlers cannot be installed: {error}")),
        }
    };
    let ui = ui.unwrap_or(Ui::Simple);
    let options = RunOptions {
        cores: args.cores.clone().unwrap_or_default(),
        driver: match args.driver {
            DriverFlag::Auto => DriverChoice::Auto,
            DriverFlag::IoUring => DriverChoice::IoUring,
            DriverFlag::Epoll => DriverChoice::Epoll,
        },
        source_addresses: args.source_address.clone(),
        pacing: match args.pacing {
            PacingFlag::Auto => Pacing::Auto,
            PacingFlag::Efficient => Pacing::Efficient,
            PacingFlag::Precise => Pacing::Precise,
            PacingFlag::Busy => Pacing::Busy,
        },
        drain_stall_timeout: args
            .drain_stall_timeout
            .map_or(DRAIN_STALL_TIMEOUT, Nanos::from_secs_f64),
        stall_timeout: args.stall_timeout.map_or(STALL_TIMEOUT, Nanos::from_secs_f64),
        interrupt,
    };
    if args.dry_run.dry_run {
        let format = args.dry_run.format.unwrap_or_default();
        return match &work {
            Work::Run(plan) => dry_run::of_run(plan, &options, format),
            Work::Cells(suite) => dry_run::of_cells(suite, &options, args.resume, format),
        };
    }
    let directories: Vec<&Path> = match &work {
        Work::Run(plan) => vec![&plan.artifacts.directory],
        Work::Cells(suite) => suite.cells().iter().map(|cell| cell.directory.as_path()).collect(),
    };
    let _ready = last_words::prepare(directories.into_iter());
    // Results are printed with the watch still on: a signal now must not leave half a table behind in silence.
    let exit = match work {
        Work::Run(plan) => run_one(&plan, &options, ui, args.fail_on_client_limited),
        Work::Cells(suite) => {
            let wishes = cells::Wishes {
                ui,
                resume: args.resume,
                fail_on_client_limited: args.fail_on_client_limited,
            };
            cells::run(&suite, options, &wishes)
        }
    };
    drop(watch);
    exit
}

fn run_one(plan: &Plan, options: &RunOptions, ui: Ui, fail_on_client_limited: bool) -> Exit {
    let told = plan.warnings.clone();
    told.iter().for_each(|warning| console::warn(warning));
    note_readiness(plan.readiness.as_ref().map(|readiness| readiness.timeout));
    let mut progress = Progress::on_stderr(ui);
    let result = engine::run(plan, options, &mut |snapshot| progress.show(snapshot));
    progress.clear();
    let outcome = match result {
        Ok(outcome) => outcome,
        Err(error) => {
            console::note(&console::error_block(&error));
            return match error.interrupted_by() {
                Some(signal) => Exit::Interrupted(signal),
                None if error.is_usage() => Exit::Usage,
                None => Exit::RunFailed,
            };
        }
    };
    conclude(&outcome, &told, fail_on_client_limited)
}

/// Says what the start waits for.
pub(super) fn note_readiness(timeout: Option<Nanos>) {
    if let Some(timeout) = timeout {
        console::note(&format!(
            "waiting up to {} s for each server and model to be ready",
            timeout.as_secs_f64()
        ));
    }
}

/// Prints the results and decides how the program ends.
fn conclude(outcome: &RunOutcome, told: &[String], fail_on_client_limited: bool) -> Exit {
    let scopes = engine::scopes(&outcome.report);
    // First of all: whoever reads on must know what the figures are worth.
    let mut text = engine::client_lines(&outcome.report);
    for warning in outcome.warnings.iter().filter(|warning| !told.contains(warning)) {
        text.push_str(&format!("warning: {warning}\n"));
    }
    text.push_str(&format!("{}\n", outcome.placement));
    for scope in &scopes {
        text.push_str(&format!("\n{}", table::render(scope)));
    }
    if outcome.shows_trace_timing {
        for (title, rows) in engine::trace_tables(&outcome.report) {
            text.push_str(&format!("\n{}", table::render_table(&title, &rows)));
        }
    }
    if !outcome.searches.is_empty() {
        text.push_str(&format!("\n{}\n", outcome.searches.join("\n")));
    }
    text.push('\n');
    text.push_str(&table::render_files(&outcome.artifact_directory, &outcome.files));
    if let Err(error) = console::print(&text) {
        let exit = failed(&format!(
            "error: results cannot be written to standard output: {error}; they are in {}",
            outcome.artifact_directory.display()
        ));
        // The terminal that hung up is not there to be written to.
        return outcome.interrupted.map_or(exit, Exit::Interrupted);
    }
    let limit = fail_on_client_limited
        .then(|| engine::client_limit(&outcome.report))
        .flatten();
    let (exit, reason) = verdict(
        outcome.interrupted,
        outcome.failure.as_deref(),
        outcome.threshold_missed.as_deref(),
        limit,
    );
    if let Some(reason) = reason {
        console::note(&format!("error: {reason}"));
    }
    exit
}

/// How a run that wrote its results ends, and why if not well.
pub(super) fn verdict(
    interrupted: Option<i32>,
    failure: Option<&str>,
    threshold_missed: Option<&str>,
    client_limit: Option<String>,
) -> (Exit, Option<String>) {
    // An interrupt explains every failure that follows from it.
    if let Some(signal) = interrupted {
        return (Exit::Interrupted(signal), None);
    }
    if let Some(reason) = failure {
        return (Exit::RunFailed, Some(reason.to_owned()));
    }
    if let Some(reason) = threshold_missed {
        return (Exit::ThresholdMissed, Some(reason.to_owned()));
    }
    if client_limit.is_some() {
        return (Exit::ClientLimited, client_limit);
    }
    (Exit::Success, None)
}

fn failed(block: &str) -> Exit {
    console::note(block);
    Exit::RunFailed
}

/// How an https server proves who it is, as far as the command line says so.
fn verification(args: &Profile) -> Option<Verification> {
    let file = args.ca_file.clone().map(Verification::CaFile);
    file.or_else(|| args.insecure.then_some(Verification::Off))
}

/// Where the workflow comes from. A model is what every workflow of flags names.
fn source(args: &Profile) -> Source<'_> {
    match &args.config {
        Some(file) => Source::File(file),
        None if args.mock && !args.flags.0.has("model") => Source::Bundled,
        None => Source::Flags,
    }
}

/// The artifact directory as far as the command line decides it.
fn output_directory(args: &Profile, source: Source<'_>) -> Option<PathBuf> {
    match (&args.output_artifact_dir, source) {
        (Some(directory), _) => Some(directory.clone()),
        // A demonstration is run again and again; it must neither be refused nor remove what an earlier one left.
        (None, Source::Bundled) => Some(first_free(Path::new(BUNDLED_DIRECTORY))),
        (None, Source::File(_) | Source::Flags) => None,
    }
}

/// The first of `base`, `base-2`, `base-3` … that does not exist.
fn first_free(base: &Path) -> PathBuf {
    let numbered = (2u32..).map(|number| {
        let mut name = base.as_os_str().to_owned();
        name.push(format!("-{number}"));
        PathBuf::from(name)
    });
    std::iter::once(base.to_owned())
        .chain(numbered)
        .find(|path| !path.exists())
        .expect("a file system does not hold four thousand million directories of one name")
}

/// The command line as one line that a shell reads back the same.
fn command_line(arguments: impl Iterator<Item = String>) -> String {
    let words = engine::recorded(arguments).into_iter().enumerate();
    let quoted: Vec<String> = words
        .map(|(at, word)| if at == 0 { program_name(&word) } else { quoted(&word) })
        .collect();
    quoted.join(" ")
}

/// The program without its path, which says nothing about the run.
fn program_name(path: &str) -> String {
    quoted(
        Path::new(path)
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("ringload"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser as _;

    #[test]
    fn an_interrupt_stands_above_every_failure_and_a_failure_above_a_slow_client() {
        let slow = || Some("slow client".to_owned());
        assert_eq!(
            verdict(Some(2), Some("no load"), Some("ratio"), slow()),
            (Exit::Interrupted(2), None)
        );
        assert_eq!(
            verdict(None, Some("no load"), Some("ratio"), slow()),
            (Exit::RunFailed, Some("no load".into()))
        );
        assert_eq!(
            verdict(None, None, Some("ratio"), slow()),
            (Exit::ThresholdMissed, Some("ratio".to_owned()))
        );
        assert_eq!(verdict(None, None, None, slow()), (Exit::ClientLimited, slow()));
        assert_eq!(verdict(None, None, None, None), (Exit::Success, None));
    }

    #[test]
    fn the_bundled_workflow_takes_a_free_name() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let base = root.path().join("mock");
        for name in ["mock", "mock-2", "mock-3"] {
            let free = first_free(&base);
            assert_eq!(free, root.path().join(name));
            std::fs::create_dir(free).expect("the name is free");
        }
    }

    #[test]
    fn only_the_bundled_workflow_decides_its_directory() {
        let directory = |line: &str| {
            let words = ["ringload", "profile"].into_iter().chain(line.split_whitespace());
            match Args::try_parse_from(words).expect("a valid command line").command {
                Command::Profile(args) => output_directory(&args, source(&args)),
                other => panic!("{other:?}"),
            }
        };
        for line in ["--mock -c a.yaml", "--mock --model m", "--model m", ""] {
            assert_eq!(directory(line), None, "{line}");
        }
        for line in ["--mock -c a.yaml --artifact-dir out", "--mock --artifact-dir out"] {
            assert_eq!(directory(line), Some("out".into()), "{line}");
        }
        assert!(directory("--mock").is_some_and(|path| path.starts_with("artifacts")));
    }

    #[test]
    fn the_command_line_can_be_pasted_into_a_shell() {
        let line = command_line(
            [
                "/opt/x y/ringload",
                "profile",
                "--config",
                "it's a file.yaml",
                "",
                "$HOME",
            ]
            .map(String::from)
            .into_iter(),
        );
        assert_eq!(line, r"ringload profile --config 'it'\''s a file.yaml' '' '$HOME'");
    }

    #[test]
    fn secrets_are_not_recorded() {
        let words = [
            "ringload",
            "profile",
            "--reset-kv-cache-path=/reset?token=hidden",
            "-H",
            "X-A: hidden",
            "--api-key",
            "hidden",
        ];
        let line = command_line(words.map(String::from).into_iter());
        assert!(
            line.contains("/reset?") && line.contains("X-A:") && !line.contains("hidden"),
            "{line}"
        );
    }
}
