//! The keys of `benchmark.dataset` with type: file.

use super::decode::{Bounds, Section};
use super::free;
use super::synthesis::{self, Synthesis};
use super::tree::Position;

/// Keys that only datasets from files have.
pub(super) const KEYS: [&str; 7] = [
    "path",
    "records",
    "format",
    "block_size",
    "ignore_trace_delays",
    "inter_turn_delay_cap_seconds",
    "synthesis",
];

/// Prompts that the user brings.
#[derive(Debug, Clone, PartialEq)]
pub struct FileDataset {
    /// Where they stand.
    pub origin: FileOrigin,
    /// What a record looks like.
    pub format: Option<FileFormat>,
    /// Where that is written; if nowhere, what it would say something of.
    pub format_at: Position,
    /// Tokens of a block that a trace numbers.
    pub block_size: Option<u32>,
    /// Whether recorded times count for nothing.
    pub ignore_trace_delays: Option<bool>,
    /// Longest wait between two turns, in seconds.
    pub delay_cap_s: Option<f64>,
    /// What is changed of the records.
    pub synthesis: Option<Synthesis>,
}

/// Where records stand.
#[derive(Debug, Clone, PartialEq)]
pub enum FileOrigin {
    /// In a file; a relative path starts at the current directory.
    Path {
        /// The path as written.
        path: String,
        /// Where it is written.
        at: Position,
    },
    /// In the config itself: each as JSON, with its place.
    Records(Vec<(Position, String)>),
}

/// What a record looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileFormat {
    /// One request.
    #[default]
    SingleTurn,
    /// A conversation.
    MultiTurn,
    /// One request of a recorded trace.
    MooncakeTrace,
    /// A text that requests are drawn from.
    RandomPool,
}

impl FileFormat {
    const ALL: [Self; 4] = [Self::SingleTurn, Self::MultiTurn, Self::MooncakeTrace, Self::RandomPool];

    /// The word of the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SingleTurn => "single_turn",
            Self::MultiTurn => "multi_turn",
            Self::MooncakeTrace => "mooncake_trace",
            Self::RandomPool => "random_pool",
        }
    }
}

/// Formats that do not work yet.
const REFUSED_FORMATS: [&str; 16] = [
    "bailian_trace",
    "baseten_trace",
    "burst_gpt_trace",
    "dag_jsonl",
    "inputs_json",
    "raw_payload",
    "sagemaker_data_capture",
    "tracelab",
    "weka_trace",
    "h_cua_perf",
    "speed_bench_qualitative",
    "speed_bench_throughput_1k",
    "speed_bench_throughput_2k",
    "speed_bench_throughput_8k",
    "speed_bench_throughput_16k",
    "speed_bench_throughput_32k",
];

/// Largest block: the longest prompt there is.
const MAX_BLOCK: u32 = 10_000_000;

pub(super) fn decode(section: &Section<'_>) -> Option<FileDataset> {
    let mut format_at = None;
    let format = section.field("format").map(|field| {
        format_at = Some(field.node.start);
        let words = FileFormat::ALL.map(|format| (format.as_str(), format));
        field.word(&words, &REFUSED_FORMATS)
    });
    // What a faulty format was meant to be is unknown.
    let known_format = format.unwrap_or(Some(FileFormat::default()));
    let block_size = section.field("block_size").map(|field| {
        if let Some(other) = known_format.filter(|format| *format != FileFormat::MooncakeTrace) {
            let name = other.as_str();
            field.report(format!(
                "records of format {name} have no blocks; remove the key, or set format: mooncake_trace"
            ));
        }
        field.integer(1, MAX_BLOCK.into())
    });
    let ignore_trace_delays = section.field("ignore_trace_delays").map(|field| field.boolean());
    let delay_cap_s = section
        .field("inter_turn_delay_cap_seconds")
        .map(|field| field.duration(Bounds::NOT_NEGATIVE));
    let synthesis = section
        .field("synthesis")
        .map(|field| synthesis::decode(&field, known_format));
    let origin = origin(section)?;
    let origin_at = match &origin {
        FileOrigin::Path { at, .. } => *at,
        FileOrigin::Records(records) => records[0].0,
    };
    let file = FileDataset {
        origin,
        format_at: format_at.unwrap_or(origin_at),
        // A mistake in any of them is reported and gives up; absent is fine.
        format: transpose(format)?,
        block_size: transpose(block_size)?,
        ignore_trace_delays: transpose(ignore_trace_delays)?,
        delay_cap_s: transpose(delay_cap_s)?,
        synthesis: transpose(synthesis)?,
    };
    if file.ignore_trace_delays == Some(true) {
        warn_of_times(section, &file);
    }
    Some(file)
}

fn transpose<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    match read {
        Some(value) => value.map(Some),
        None => Some(None),
    }
}

/// Says what changes times that are ignored. A file that is tried without its times may keep them.
fn warn_of_times(section: &Section<'_>, file: &FileDataset) {
    let reason = "beside `ignore_trace_delays`, which leaves no times";
    if file.delay_cap_s.is_some() {
        let key = "inter_turn_delay_cap_seconds";
        section.warn(key, &format!("this has no effect {reason}"));
    }
    let speedup = file.synthesis.and_then(|changes| changes.speedup_ratio);
    if speedup.is_some_and(|ratio| ratio != 1.0) {
        section.warn("synthesis", &format!("its `speedup_ratio` has no effect {reason}"));
    }
}

fn origin(section: &Section<'_>) -> Option<FileOrigin> {
    if section.exclusive("path", "records") {
        return None;
    }
    if let Some(records) = section.field("records") {
        let items = records.items("a list of records, as in [{text: hello}]")?;
        if items.len() == 0 {
            records.mistake("at least one record");
            return None;
        }
        // Everything is read before the first failure counts, so that each is reported.
        let read: Vec<Option<(Position, String)>> = items
            .map(|item| Some((item.node.start, free::json(&item)?.to_string())))
            .collect();
        return read.into_iter().collect::<Option<Vec<_>>>().map(FileOrigin::Records);
    }
    let field = section.required(
        "path",
        "write the path of a JSONL file, or the records themselves under `records`",
    )?;
    Some(FileOrigin::Path {
        path: field.non_empty_text()?.to_owned(),
        at: field.node.start,
    })
}
