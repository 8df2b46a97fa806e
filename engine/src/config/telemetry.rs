//! `benchmark.server_metrics` and `benchmark.gpu_telemetry`, as written: what is read from the server and its GPUs while the load runs.

use super::decode::{Field, Section};
use super::endpoint::{Address, address};
use super::scalar;
use super::schema::{NEVER, Schema, refused};
use super::tree::Value;

/// The figures that the server shows about itself.
pub(super) static SERVER_METRICS: Schema = Schema {
    place: "benchmark.server_metrics",
    keys: &["enabled", "url", "urls", "formats", "discovery"],
    refused: &[],
};

/// How further endpoints would be found.
pub(super) static DISCOVERY: Schema = Schema {
    place: "benchmark.server_metrics.discovery",
    keys: &["mode"],
    refused: &[
        refused("label_selector", NEVER),
        refused("namespace", NEVER),
        refused("timeout_seconds", NEVER),
    ],
};

/// The figures of the server's GPUs.
pub(super) static GPU_TELEMETRY: Schema = Schema {
    place: "benchmark.gpu_telemetry",
    keys: &["enabled", "url", "urls", "collector", "mode"],
    refused: &[refused("metrics_file", NEVER)],
};

/// `network_latency` while it is off.
pub(super) static NETWORK_LATENCY: Schema = Schema {
    place: "benchmark.network_latency",
    keys: &["enabled", "ping_interval", "mean_ms"],
    refused: &[],
};

/// Both of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Telemetry {
    /// `server_metrics`.
    pub server_metrics: ServerMetrics,
    /// `gpu_telemetry`.
    pub gpu: GpuTelemetry,
}

/// The figures that the server shows about itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerMetrics {
    /// Whether they are read; they are unless told otherwise.
    pub enabled: Option<bool>,
    /// Addresses beside those of the endpoint.
    pub urls: Vec<Address>,
    /// The files that are written; an empty list writes those of phases only.
    pub formats: Option<Vec<MetricsFormat>>,
}

/// The figures of the server's GPUs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GpuTelemetry {
    /// Whether they are read; they are unless told otherwise.
    pub enabled: Option<bool>,
    /// Addresses of DCGM exporters.
    pub urls: Vec<Address>,
}

/// A file of server metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsFormat {
    /// Figures of the run.
    Json,
    /// The same as a table.
    Csv,
    /// Every scrape.
    Jsonl,
    /// The same as columns, of profiling phases.
    Parquet,
}

impl MetricsFormat {
    const WORDS: [(&'static str, Self); 4] = [
        ("json", Self::Json),
        ("csv", Self::Csv),
        ("jsonl", Self::Jsonl),
        ("parquet", Self::Parquet),
    ];

    /// The word in configs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
            Self::Parquet => "parquet",
        }
    }
}

pub(super) fn decode(benchmark: &Section<'_>) -> Telemetry {
    network_latency(benchmark);
    Telemetry {
        server_metrics: benchmark
            .field("server_metrics")
            .map(|field| server_metrics(&field))
            .unwrap_or_default(),
        gpu: benchmark
            .field("gpu_telemetry")
            .map(|field| gpu(&field))
            .unwrap_or_default(),
    }
}

/// What stands for a section: a word that switches it, an address, or the section itself.
enum Written<'t> {
    Switch(bool),
    Url(Address),
    Section(Section<'t>),
}

fn written<'t>(field: &Field<'t>, schema: &'static Schema) -> Option<Written<'t>> {
    match &field.node.value {
        Value::Faulty => None,
        Value::Scalar(scalar) => match scalar::boolean(&scalar.text).filter(|_| field.is_unquoted()) {
            Some(switch) => Some(Written::Switch(switch)),
            None => address_of_metrics(field).map(Written::Url),
        },
        Value::Sequence(_) => {
            field.mistake(&format!(
                "true, false, a URL, or a mapping with the keys {}",
                schema.keys.join(", ")
            ));
            None
        }
        Value::Mapping(_) => field.section(schema).map(Written::Section),
    }
}

fn server_metrics(field: &Field<'_>) -> ServerMetrics {
    match written(field, &SERVER_METRICS) {
        None => ServerMetrics::default(),
        Some(Written::Switch(enabled)) => ServerMetrics {
            enabled: Some(enabled),
            ..ServerMetrics::default()
        },
        Some(Written::Url(url)) => ServerMetrics {
            urls: vec![url],
            ..ServerMetrics::default()
        },
        Some(Written::Section(section)) => {
            if let Some(discovery) = section.field("discovery").and_then(|field| field.section(&DISCOVERY))
                && let Some(mode) = discovery.field("mode")
            {
                mode.word(&[("auto", ()), ("disabled", ())], &["kubernetes"]);
            }
            ServerMetrics {
                enabled: section.field("enabled").and_then(|field| field.boolean()),
                urls: urls(&section),
                formats: section.field("formats").and_then(|field| formats(&field)),
            }
        }
    }
}

fn gpu(field: &Field<'_>) -> GpuTelemetry {
    match written(field, &GPU_TELEMETRY) {
        None => GpuTelemetry::default(),
        Some(Written::Switch(enabled)) => GpuTelemetry {
            enabled: Some(enabled),
            ..GpuTelemetry::default()
        },
        Some(Written::Url(url)) => GpuTelemetry {
            urls: vec![url],
            ..GpuTelemetry::default()
        },
        Some(Written::Section(section)) => {
            if let Some(collector) = section.field("collector") {
                collector.word(&[("dcgm", ())], &["pynvml", "amdsmi"]);
            }
            if let Some(mode) = section.field("mode") {
                mode.word(&[("summary", ())], &["realtime_dashboard"]);
            }
            GpuTelemetry {
                enabled: section.field("enabled").and_then(|field| field.boolean()),
                urls: urls(&section),
            }
        }
    }
}

/// The addresses, from `url` or `urls`.
fn urls(section: &Section<'_>) -> Vec<Address> {
    if section.exclusive("url", "urls") {
        return Vec::new();
    }
    if let Some(field) = section.field("url") {
        return address_of_metrics(&field).into_iter().collect();
    }
    let Some(field) = section.field("urls") else {
        return Vec::new();
    };
    let items = field.items("a list of URLs; one URL alone is written `url: ...`");
    items
        .into_iter()
        .flatten()
        .filter_map(|item| address_of_metrics(&item))
        .collect()
}

/// An address without user and password: they would have to stand in messages and artifacts or be hidden there, and no exporter asks for them.
fn address_of_metrics(field: &Field<'_>) -> Option<Address> {
    let address = address(field)?;
    if address.url.credentials.is_some() {
        field.refuse("user and password in an address of metrics", "remove them");
        return None;
    }
    Some(address)
}

fn formats(field: &Field<'_>) -> Option<Vec<MetricsFormat>> {
    let items = field.items("a list of json, csv, jsonl, parquet")?;
    let count = items.len();
    let read: Vec<MetricsFormat> = items.filter_map(|item| item.word(&MetricsFormat::WORDS, &[])).collect();
    (read.len() == count).then_some(read)
}

/// `network_latency`: the peer's probe of it is opt-in, and not there yet.
fn network_latency(benchmark: &Section<'_>) {
    let Some(field) = benchmark.field("network_latency") else {
        return;
    };
    let is_on = match &field.node.value {
        Value::Mapping(_) => field
            .section(&NETWORK_LATENCY)
            .and_then(|section| section.field("enabled")?.boolean()),
        _ => field.boolean(),
    };
    if is_on == Some(true) {
        field.refuse("`network_latency`", "write false or remove the key");
    }
}
