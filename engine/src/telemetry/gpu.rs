//! Figures of GPUs, from what NVIDIA's exporter (DCGM) shows.

use super::exposition::{Exposition, Labels};
use super::history::Scrape;
use super::scraper::{Answer, Keep};
use crate::units::Nanos;

/// A figure of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuField {
    /// Its key in artifacts.
    pub key: &'static str,
    /// What it is called in tables.
    pub title: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Whether it only grows, so that a time has its growth and no distribution.
    pub is_counter: bool,
}

/// Where a field comes from.
struct Origin {
    field: GpuField,
    /// The exporter's name for it.
    source: &'static str,
    /// Exported units in one of the exporter's.
    factor: f64,
    /// Whether parts of a GPU (MIG) have figures of their own. The others are of the board, and the exporter writes them once for each part.
    is_of_parts: bool,
}

const fn gauge(
    key: &'static str,
    title: &'static str,
    unit: &'static str,
    source: &'static str,
    factor: f64,
) -> Origin {
    Origin {
        field: GpuField {
            key,
            title,
            unit,
            is_counter: false,
        },
        source,
        factor,
        is_of_parts: false,
    }
}

const fn counter(
    key: &'static str,
    title: &'static str,
    unit: &'static str,
    source: &'static str,
    factor: f64,
) -> Origin {
    let mut origin = gauge(key, title, unit, source, factor);
    origin.field.is_counter = true;
    origin
}

/// Every figure, in the order of the artifacts.
const ORIGINS: [Origin; GPU_FIELDS] = [
    gauge(
        "nvidia_power_usage",
        "NVIDIA GPU Power Usage",
        "W",
        "DCGM_FI_DEV_POWER_USAGE",
        1.0,
    ),
    counter(
        "nvidia_energy_consumption",
        "NVIDIA Energy Consumption",
        "MJ",
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        1e-9,
    ),
    gauge(
        "nvidia_gpu_utilization",
        "NVIDIA GPU Utilization",
        "%",
        "DCGM_FI_DEV_GPU_UTIL",
        1.0,
    ),
    gauge(
        "nvidia_memory_utilization",
        "NVIDIA Memory Utilization",
        "%",
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        1.0,
    ),
    gauge(
        "nvidia_memory_used",
        "NVIDIA GPU Memory Used",
        "GB",
        "DCGM_FI_DEV_FB_USED",
        0.001_048_576,
    ),
    gauge(
        "nvidia_temperature",
        "NVIDIA GPU Temperature",
        "°C",
        "DCGM_FI_DEV_GPU_TEMP",
        1.0,
    ),
    Origin {
        is_of_parts: true,
        ..gauge(
            "nvidia_sm_utilization",
            "NVIDIA SM Utilization",
            "%",
            "DCGM_FI_PROF_SM_ACTIVE",
            100.0,
        )
    },
    gauge(
        "nvidia_encoder_utilization",
        "NVIDIA Encoder Utilization",
        "%",
        "DCGM_FI_DEV_ENC_UTIL",
        1.0,
    ),
    gauge(
        "nvidia_decoder_utilization",
        "NVIDIA Decoder Utilization",
        "%",
        "DCGM_FI_DEV_DEC_UTIL",
        1.0,
    ),
    counter(
        "nvidia_xid_errors",
        "NVIDIA XID Errors",
        "count",
        "DCGM_FI_DEV_XID_ERRORS",
        1.0,
    ),
    counter(
        "nvidia_power_violation",
        "NVIDIA Power Violation",
        "us",
        "DCGM_FI_DEV_POWER_VIOLATION",
        0.001,
    ),
];

/// How many figures a GPU can have.
pub const GPU_FIELDS: usize = 11;
/// Where energy is among them.
pub(super) const ENERGY: usize = 1;
/// Where power is among them.
pub(super) const POWER: usize = 0;

/// Every figure that a GPU can have, in the order of the artifacts.
pub fn gpu_fields() -> [GpuField; GPU_FIELDS] {
    ORIGINS.each_ref().map(|origin| origin.field)
}

/// Which GPU it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GpuIdentity {
    /// Its number on its host.
    pub index: u32,
    /// Its identity over all hosts.
    pub uuid: String,
    /// Its model.
    pub model: String,
    /// Its place on the bus, where the exporter says it.
    pub pci_bus_id: Option<String>,
    /// Its device file.
    pub device: Option<String>,
    /// Its host.
    pub hostname: Option<String>,
    /// The Kubernetes namespace of what it works for.
    pub namespace: Option<String>,
    /// The Kubernetes pod of what it works for.
    pub pod_name: Option<String>,
}

/// The figures of a GPU at one scrape; what the exporter does not know is missing.
pub(super) type GpuFigures = [Option<f64>; GPU_FIELDS];

/// Everything that one exporter said during a run.
#[derive(Debug, Clone, Default)]
pub struct GpuHistory {
    gpus: Vec<GpuIdentity>,
    scrapes: Vec<Scrape>,
    /// By scrape and then by GPU; a scrape from before a GPU was known has no figures of it.
    figures: Vec<Vec<GpuFigures>>,
}

/// Scrapes that are kept: more than a day of them.
const SCRAPES_MAX: usize = 300_000;

impl GpuHistory {
    /// The GPUs, in the order of their numbers as far as they were there from the start.
    pub fn gpus(&self) -> &[GpuIdentity] {
        &self.gpus
    }

    /// Every scrape that was answered, in order.
    pub fn scrapes(&self) -> &[Scrape] {
        &self.scrapes
    }

    /// A figure of a GPU, by number, at a scrape, by number.
    pub fn figure(&self, scrape: usize, gpu: usize, field: usize) -> Option<f64> {
        *self.figures.get(scrape)?.get(gpu)?.get(field)?
    }

    /// Takes one answer; `false` if no GPU is in it.
    fn record(&mut self, sent: Nanos, answered: Nanos, answer: &Exposition) -> bool {
        if self.gpus.is_empty() {
            self.gpus = identities(answer);
        }
        let mut sums = vec![[(0.0, 0u32); GPU_FIELDS]; self.gpus.len()];
        for (at, origin) in ORIGINS.iter().enumerate() {
            let Some(family) = answer.families.get(origin.source) else {
                continue;
            };
            for (labels, reading) in &family.series {
                let Some(value) = reading.value.filter(|&value| is_known(value)) else {
                    continue;
                };
                let Some(uuid) = label(labels, "UUID") else { continue };
                let gpu = self.gpus.iter().position(|gpu| gpu.uuid == uuid).unwrap_or_else(|| {
                    self.gpus.push(identity(labels));
                    sums.push([(0.0, 0); GPU_FIELDS]);
                    self.gpus.len() - 1
                });
                let (sum, count) = &mut sums[gpu][at];
                // Of the board, the first one is as good as the others. Parts share the GPU, so it is as busy as they are on average.
                if *count == 0 || origin.is_of_parts {
                    *sum += value * origin.factor;
                    *count += 1;
                }
            }
        }
        if self.gpus.is_empty() {
            return false;
        }
        let mean = |(sum, count): (f64, u32)| (count > 0).then(|| sum / f64::from(count));
        self.figures.push(sums.into_iter().map(|gpu| gpu.map(mean)).collect());
        self.scrapes.push(Scrape {
            sent,
            answered,
            is_update: true,
        });
        true
    }
}

impl Keep for GpuHistory {
    fn keep(&mut self, sent: Nanos, answered: Nanos, answer: Answer) -> bool {
        self.record(sent, answered, &answer.0)
    }

    fn is_full(&self) -> bool {
        self.scrapes.len() >= SCRAPES_MAX
    }
}

/// Every GPU of an answer, by number.
fn identities(answer: &Exposition) -> Vec<GpuIdentity> {
    let mut found: Vec<GpuIdentity> = Vec::new();
    for origin in &ORIGINS {
        let series = answer
            .families
            .get(origin.source)
            .into_iter()
            .flat_map(|family| family.series.keys());
        for labels in series {
            if label(labels, "UUID").is_some_and(|uuid| found.iter().all(|known| known.uuid != uuid)) {
                found.push(identity(labels));
            }
        }
    }
    found.sort_by(|a, b| (a.index, &a.uuid).cmp(&(b.index, &b.uuid)));
    found
}

fn label<'a>(labels: &'a Labels, name: &str) -> Option<&'a str> {
    let found = labels.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
}

fn identity(labels: &Labels) -> GpuIdentity {
    let text = |name: &str| label(labels, name).map(str::to_owned);
    GpuIdentity {
        index: label(labels, "gpu")
            .and_then(|index| index.parse().ok())
            .unwrap_or_default(),
        uuid: text("UUID").unwrap_or_default(),
        model: text("modelName").unwrap_or_default(),
        pci_bus_id: text("pci_bus_id"),
        device: text("device"),
        hostname: text("Hostname"),
        namespace: text("namespace").or_else(|| text("exported_namespace")),
        pod_name: text("pod").or_else(|| text("exported_pod")),
    }
}

/// Whether it is a figure: for what it cannot read, DCGM writes a number just below the largest of the type (`dcgm_structs.h`: DCGM_INT32_BLANK,
/// DCGM_INT64_BLANK, DCGM_FP64_BLANK and the reasons that follow each).
fn is_known(value: f64) -> bool {
    const INT32_BLANK: f64 = 2_147_483_632.0;
    const FP64_BLANK: f64 = 140_737_488_355_328.0;
    // Doubles are 1,024 apart there.
    const INT64_BLANK: f64 = 9_223_372_036_854_774_784.0;
    let is_blank = (INT32_BLANK..=INT32_BLANK + 15.0).contains(&value)
        || (FP64_BLANK..=FP64_BLANK + 15.0).contains(&value)
        || value >= INT64_BLANK;
    value.is_finite() && !is_blank
}

#[cfg(test)]
mod tests {
    use super::super::exposition::parse;
    use super::*;

    fn at(key: &str) -> usize {
        gpu_fields().iter().position(|field| field.key == key).expect("a field")
    }

    fn recorded(text: &str) -> GpuHistory {
        let mut history = GpuHistory::default();
        assert!(history.record(Nanos(1), Nanos(2), &parse(text)));
        history
    }

    fn figure(history: &GpuHistory, gpu: usize, key: &str) -> Option<f64> {
        history.figure(0, gpu, at(key))
    }

    #[test]
    fn figures_are_in_the_units_of_the_artifacts() {
        let labels = "gpu=\"1\",UUID=\"GPU-b\",device=\"nvidia1\",modelName=\"H200\",Hostname=\"n1\"";
        let text: String = [
            ("DCGM_FI_DEV_POWER_USAGE", "312.5"),
            ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "1500000000"),
            ("DCGM_FI_DEV_FB_USED", "40960"),
            ("DCGM_FI_PROF_SM_ACTIVE", "0.25"),
            ("DCGM_FI_DEV_POWER_VIOLATION", "3000"),
        ]
        .iter()
        .map(|(name, value)| format!("{name}{{{labels}}} {value}\n"))
        .collect();
        let history = recorded(&text);
        let gpu = &history.gpus()[0];
        assert_eq!(
            (gpu.index, gpu.model.as_str(), gpu.hostname.as_deref()),
            (1, "H200", Some("n1"))
        );
        for (key, expected) in [
            ("nvidia_power_usage", 312.5),
            ("nvidia_energy_consumption", 1.5),
            ("nvidia_memory_used", 42.949_672_96),
            ("nvidia_sm_utilization", 25.0),
            ("nvidia_power_violation", 3.0),
        ] {
            let found = figure(&history, 0, key).expect(key);
            assert!((found - expected).abs() < 1e-9, "{key}: {found}");
        }
    }

    #[test]
    fn e11_a_number_that_stands_for_nothing_is_missing() {
        for blank in [
            "9223372036854775794",
            "9.223372036854776e+18",
            "140737488355329",
            "2147483632",
            "2147483635",
        ] {
            let history = recorded(&format!(
                "DCGM_FI_DEV_GPU_UTIL{{gpu=\"0\",UUID=\"a\"}} {blank}\nDCGM_FI_DEV_POWER_USAGE{{gpu=\"0\",UUID=\"a\"}} 90\n"
            ));
            assert_eq!(figure(&history, 0, "nvidia_gpu_utilization"), None, "{blank}");
            assert_eq!(figure(&history, 0, "nvidia_power_usage"), Some(90.0));
        }
    }

    #[test]
    fn e16_parts_of_a_gpu_do_not_multiply_what_is_of_its_board() {
        let text: String = (1..=3)
            .map(|part| {
                let labels = format!("gpu=\"0\",UUID=\"a\",GPU_I_PROFILE=\"1g.18gb\",GPU_I_ID=\"{part}\"");
                format!("DCGM_FI_DEV_POWER_USAGE{{{labels}}} 300\nDCGM_FI_PROF_SM_ACTIVE{{{labels}}} 0.{part}\n")
            })
            .collect();
        let history = recorded(&text);
        assert_eq!(history.gpus().len(), 1);
        assert_eq!(figure(&history, 0, "nvidia_power_usage"), Some(300.0));
        let busy = figure(&history, 0, "nvidia_sm_utilization").expect("a figure");
        assert!((busy - 20.0).abs() < 1e-9, "{busy}");
    }

    #[test]
    fn e17_fields_that_the_exporter_does_not_show_are_missing_and_not_zero() {
        let history = recorded("DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"a\"} 61\n");
        let known: Vec<f64> = (0..GPU_FIELDS)
            .filter_map(|field| history.figure(0, 0, field))
            .collect();
        assert_eq!(known, [61.0]);
    }

    #[test]
    fn a_page_without_gpus_is_not_from_an_exporter() {
        assert!(!GpuHistory::default().record(Nanos(1), Nanos(2), &parse("vllm:x 1\n")));
    }

    #[test]
    fn gpus_are_in_the_order_of_their_numbers() {
        let history =
            recorded("DCGM_FI_DEV_GPU_TEMP{gpu=\"1\",UUID=\"a\"} 1\nDCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"b\"} 2\n");
        let order: Vec<&str> = history.gpus().iter().map(|gpu| gpu.uuid.as_str()).collect();
        assert_eq!(order, ["b", "a"]);
        assert_eq!(figure(&history, 0, "nvidia_temperature"), Some(2.0));
    }
}
