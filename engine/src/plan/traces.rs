//! What a config changes of a recorded trace: its times, its lengths, what its prompts share.

use super::Window;
use crate::config::{self, Config, Diagnostics, FileOrigin, ScheduleWindow};
use crate::dataset::{DEFAULT_BLOCK_SIZE, FileFormat, FileTimes, Session, TraceChanges, UnfitTrace};
use crate::units::Nanos;

/// What becomes of the times of a dataset.
pub(super) fn times(config: &Config) -> FileTimes {
    let Some(file) = &config.dataset.file else {
        return FileTimes::AS_WRITTEN;
    };
    if file.ignore_trace_delays == Some(true) {
        return FileTimes::Ignored;
    }
    FileTimes::Kept {
        speedup: speedup(file),
        delay_max: file.delay_cap_s.map_or(Nanos::MAX, Nanos::from_secs_f64),
    }
}

fn speedup(file: &config::FileDataset) -> f64 {
    file.synthesis.and_then(|written| written.speedup_ratio).unwrap_or(1.0)
}

/// The part of a trace that a schedule replays: it is written with the times of the file, whatever the speed.
pub(super) fn window(times: FileTimes, written: ScheduleWindow) -> Window {
    let bound =
        |millis: Option<u64>, default| millis.map_or(default, |millis| times.scaled(Nanos::from_millis(millis)));
    let first = bound(written.start_ms, Nanos::ZERO);
    Window {
        first,
        last: bound(written.end_ms, Nanos::MAX),
        zero: (written.auto_offset == Some(false)).then_some(first),
    }
}

/// Tokens of a block.
pub(super) fn block_size(file: &config::FileDataset) -> u32 {
    file.block_size.unwrap_or(DEFAULT_BLOCK_SIZE)
}

/// What records are.
pub(super) fn format(file: &config::FileDataset) -> FileFormat {
    match file.format.unwrap_or_default() {
        config::FileFormat::SingleTurn => FileFormat::SingleTurn,
        config::FileFormat::MultiTurn => FileFormat::MultiTurn,
        config::FileFormat::MooncakeTrace => FileFormat::MooncakeTrace,
        config::FileFormat::RandomPool => FileFormat::RandomPool,
    }
}

fn changes(written: &config::Synthesis) -> TraceChanges {
    TraceChanges {
        prefix_len: written.prefix_len_multiplier.unwrap_or(1.0),
        prefix_roots: written.prefix_root_multiplier.unwrap_or(1),
        prompt_len: written.prompt_len_multiplier.unwrap_or(1.0),
        output_len: written.output_len_multiplier.unwrap_or(1.0),
        max_input_tokens: written.max_isl,
        max_output_tokens: written.max_osl,
    }
}

/// Takes as many sessions as are asked for, of a pool all, and changes them. Records that are left out do not count among them.
///
/// # Errors
/// What keeps the file from being changed so.
pub(super) fn change(
    config: &Config,
    file: &config::FileDataset,
    sessions: &mut Vec<Session<'_>>,
    seed: u64,
) -> Result<(), Diagnostics> {
    let unfit = |error| unfit(config, file, error);
    let changes = file.synthesis.as_ref().map_or(TraceChanges::NONE, changes);
    changes.leave_out(sessions).map_err(unfit)?;
    if let (Some(entries), false) = (config.dataset.entries, format(file) == FileFormat::RandomPool) {
        sessions.truncate(entries as usize);
    }
    changes.apply(sessions, block_size(file), seed).map_err(unfit)?;
    let times = times(config);
    if matches!(times, FileTimes::Kept { .. }) && speedup(file) != 1.0 {
        let mut turns = sessions.iter().flat_map(|session| session.turns.iter());
        if turns.all(|turn| turn.timestamp.is_none() && turn.delay.is_none()) {
            return Err(unfit(UnfitTrace::NoEffect {
                key: "speedup_ratio",
                lacks: "record with a `timestamp` or a `delay`",
            }));
        }
    }
    times.apply(sessions);
    Ok(())
}

fn unfit(config: &Config, file: &config::FileDataset, error: UnfitTrace) -> Diagnostics {
    let at = file.synthesis.map_or(config.dataset.at, |written| written.at);
    let (key, message) = match error {
        UnfitTrace::NothingLeft { shortest } => (
            "max_isl",
            format!("every record has a longer prompt, the shortest one of {shortest} tokens; set it to at least that"),
        ),
        UnfitTrace::NoEffect { key, lacks } => (
            key,
            format!("the dataset has no {lacks}, so there is nothing to change; remove the key"),
        ),
        UnfitTrace::TooLong { key, record } => {
            let place = match &file.origin {
                FileOrigin::Path { path, .. } => format!("{path}:{record}"),
                FileOrigin::Records(_) => format!("records[{record}]"),
            };
            (
                key,
                format!("it makes a length of {place} larger than any request may have (10000000 tokens); lower it"),
            )
        }
        UnfitTrace::TooLarge => (
            "",
            "the prompts would take more than 4 GiB of memory; lower the factors, or take fewer `entries`".to_owned(),
        ),
    };
    let path = format!("benchmark.dataset.synthesis.{key}");
    config.mistake(at, path.trim_end_matches('.'), message)
}
