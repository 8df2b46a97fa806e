//! `benchmark.dataset.synthesis`, as written: what is changed of a recorded trace before it is replayed.

use super::dataset::MAX_TOKENS;
use super::dataset_file::FileFormat;
use super::decode::{Bounds, Field, Section};
use super::schema::{OFF, Schema, refused};
use super::tree::Position;

pub(super) static SYNTHESIS: Schema = Schema {
    place: "benchmark.dataset.synthesis",
    keys: &[
        "speedup_ratio",
        "prefix_len_multiplier",
        "prefix_root_multiplier",
        "prompt_len_multiplier",
        "output_len_multiplier",
        "max_isl",
        "max_osl",
    ],
    refused: &[refused("allow_dataset_wrap", OFF)],
};

/// Most sets of prompts that share nothing with each other: as many as there may be entries.
const MAX_ROOTS: u32 = 10_000_000;

/// What is changed of a trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Synthesis {
    /// Where the section begins.
    pub at: Position,
    /// What recorded times are divided by.
    pub speedup_ratio: Option<f64>,
    /// What the length of shared beginnings is multiplied with.
    pub prefix_len_multiplier: Option<f64>,
    /// Sets of prompts that share nothing with each other.
    pub prefix_root_multiplier: Option<u32>,
    /// What the length of the rest of a prompt is multiplied with.
    pub prompt_len_multiplier: Option<f64>,
    /// What the tokens that a record asks for are multiplied with.
    pub output_len_multiplier: Option<f64>,
    /// Records with longer prompts are left out.
    pub max_isl: Option<u32>,
    /// Most tokens that a record asks for.
    pub max_osl: Option<u32>,
}

/// Keys about lengths of prompts, which texts do not have.
const OF_LENGTHS: [&str; 4] = [
    "prefix_len_multiplier",
    "prefix_root_multiplier",
    "prompt_len_multiplier",
    "max_isl",
];

/// `format` is what records are, if it could be read.
pub(super) fn decode(field: &Field<'_>, format: Option<FileFormat>) -> Option<Synthesis> {
    let section = field.section(&SYNTHESIS)?;
    let factor = |key, bounds| read(&section, key, |field| field.float(bounds));
    let whole = |key, max: u32| read(&section, key, |field| field.integer(1, max.into()));
    let (speedup, prefix_len) = (
        factor("speedup_ratio", Bounds::POSITIVE),
        factor("prefix_len_multiplier", Bounds::POSITIVE),
    );
    let roots = whole("prefix_root_multiplier", MAX_ROOTS);
    let (prompt_len, output_len) = (
        factor("prompt_len_multiplier", Bounds::POSITIVE),
        factor("output_len_multiplier", Bounds::NOT_NEGATIVE),
    );
    let (max_isl, max_osl) = (whole("max_isl", MAX_TOKENS), whole("max_osl", MAX_TOKENS));
    let read = Synthesis {
        at: section.start,
        speedup_ratio: speedup?,
        prefix_len_multiplier: prefix_len?,
        prefix_root_multiplier: roots?,
        prompt_len_multiplier: prompt_len?,
        output_len_multiplier: output_len?,
        max_isl: max_isl?,
        max_osl: max_osl?,
    };
    if let Some(format) = format {
        suits(&section, &read, format);
    }
    Some(read)
}

/// The value of a key; the outer `None` is a mistake, the inner one an absent key.
fn read<T>(section: &Section<'_>, key: &'static str, value: impl Fn(&Field<'_>) -> Option<T>) -> Option<Option<T>> {
    match section.field(key) {
        Some(field) => value(&field).map(Some),
        None => Some(None),
    }
}

/// Reports what records of this format have nothing for. A value that changes nothing suits them all.
fn suits(section: &Section<'_>, read: &Synthesis, format: FileFormat) {
    let changes = |factor: Option<f64>| factor.is_some_and(|factor| factor != 1.0);
    let written = [
        ("speedup_ratio", changes(read.speedup_ratio)),
        ("prefix_len_multiplier", changes(read.prefix_len_multiplier)),
        (
            "prefix_root_multiplier",
            read.prefix_root_multiplier.is_some_and(|roots| roots > 1),
        ),
        ("prompt_len_multiplier", changes(read.prompt_len_multiplier)),
        ("output_len_multiplier", changes(read.output_len_multiplier)),
        ("max_isl", read.max_isl.is_some()),
        ("max_osl", read.max_osl.is_some()),
    ];
    let name = format.as_str();
    for (key, _) in written.into_iter().filter(|(_, is_written)| *is_written) {
        if format == FileFormat::RandomPool {
            section.report(
                key,
                format!("records of format {name} are texts and nothing else, of which nothing can be changed; remove the key"),
            );
        } else if OF_LENGTHS.contains(&key) && format != FileFormat::MooncakeTrace {
            section.report(
                key,
                format!("records of format {name} are texts, without a length that could be changed; remove the key, or set format: mooncake_trace"),
            );
        }
    }
}
