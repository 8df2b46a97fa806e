//! The keys of `benchmark.dataset` with type: file.

use super::decode::{Bounds, Section};
use super::free;
use super::tree::Position;

/// Keys that only datasets from files have.
pub(super) const KEYS: [&str; 6] = [
    "path",
    "records",
    "format",
    "block_size",
    "ignore_trace_delays",
    "inter_turn_delay_cap_seconds",
];

/// Prompts that the user brings.
#[derive(Debug, Clone, PartialEq)]
pub struct FileDataset {
    /// Where they stand.
    pub origin: FileOrigin,
    /// What a record looks like.
    pub format: Option<FileFormat>,
    /// Tokens of a block that a trace numbers.
    pub block_size: Option<u32>,
    /// Whether recorded times count for nothing.
    pub ignore_trace_delays: Option<bool>,
    /// Longest wait between two turns, in seconds.
    pub delay_cap_s: Option<f64>,
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
    let format = section.field("format").map(|field| {
        let words = FileFormat::ALL.map(|format| (format.as_str(), format));
        field.word(&words, &REFUSED_FORMATS)
    });
    let block_size = section.field("block_size").map(|field| {
        // What a faulty format was meant to be is unknown.
        if let Some(other) = format.unwrap_or(Some(FileFormat::default()))
            && other != FileFormat::MooncakeTrace
        {
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
    // A file that is tried without its delays may keep its cap.
    if let (Some(Some(true)), Some(_)) = (ignore_trace_delays, delay_cap_s) {
        let key = "inter_turn_delay_cap_seconds";
        section.warn(
            key,
            "this has no effect beside `ignore_trace_delays`, which leaves no delays",
        );
    }
    let origin = origin(section);
    Some(FileDataset {
        origin: origin?,
        // A mistake in either is reported and gives up; absent is fine.
        format: match format {
            Some(format) => Some(format?),
            None => None,
        },
        block_size: match block_size {
            Some(size) => Some(size?),
            None => None,
        },
        ignore_trace_delays: match ignore_trace_delays {
            Some(ignore) => Some(ignore?),
            None => None,
        },
        delay_cap_s: match delay_cap_s {
            Some(cap) => Some(cap?),
            None => None,
        },
    })
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
