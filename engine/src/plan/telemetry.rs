//! Where figures of the server and its GPUs are read.

use super::target::TargetParts;
use super::{ScrapeSource, Target, TelemetryPlan};
use crate::config::{Address, Config, MetricsFormat};

/// What Prometheus itself asks for.
const PATH: &str = "/metrics";
/// Where some servers have it, with something else at the usual path.
const SECOND_PATH: &str = "/prometheus/metrics";
/// Where exporters of GPU figures listen unless told otherwise.
const GPU_DEFAULTS: [&str; 2] = ["http://localhost:9400/metrics", "http://localhost:9401/metrics"];

/// The addresses of the config, and those that follow from the servers: each once. If the servers of the config are `replaced` by another one,
/// figures of theirs would describe a load that they do not get, so only that one is asked, which the warning says.
pub(super) fn plan(config: &Config, targets: &[Target], replaced: bool) -> (TelemetryPlan, Option<String>) {
    let (metrics, gpu) = (&config.telemetry.server_metrics, &config.telemetry.gpu);
    let is_of_flags = config.is_of_flags();
    let mut server_metrics: Vec<ScrapeSource> = Vec::new();
    if metrics.enabled.unwrap_or(true) {
        for target in targets {
            add(
                &mut server_metrics,
                ScrapeSource {
                    is_of_flags,
                    ..source(&target.origin, PATH.to_owned(), false, targets)
                },
            );
        }
        for address in metrics.urls.iter().filter(|_| !replaced) {
            add(&mut server_metrics, of_address(address, targets));
        }
    }
    let gpu_sources = gpu.enabled.unwrap_or(true).then(|| {
        let mut sources: Vec<ScrapeSource> = Vec::new();
        if gpu.urls.is_empty() && !replaced {
            sources.extend(GPU_DEFAULTS.map(|url| ScrapeSource {
                url: url.to_owned(),
                second_url: None,
                is_named: false,
                is_of_flags,
                is_of_endpoint: false,
            }));
        }
        for address in gpu.urls.iter().filter(|_| !replaced) {
            let source = ScrapeSource {
                second_url: None,
                ..of_address(address, targets)
            };
            add(&mut sources, source);
        }
        sources
    });
    let is_left_out = replaced && !(metrics.urls.is_empty() && gpu.urls.is_empty());
    let warning = is_left_out.then(|| {
        "the addresses in server_metrics and gpu_telemetry are not asked: the load goes to another server, whose own figures are read".to_owned()
    });
    let formats = metrics.formats.clone();
    let plan = TelemetryPlan {
        server_metrics,
        formats: formats.unwrap_or_else(|| vec![MetricsFormat::Json, MetricsFormat::Csv]),
        gpu: gpu_sources,
    };
    (plan, warning)
}

fn add(sources: &mut Vec<ScrapeSource>, source: ScrapeSource) {
    match sources.iter_mut().find(|known| known.url == source.url) {
        Some(known) => {
            known.is_named |= source.is_named;
            known.is_of_flags |= source.is_of_flags;
        }
        None => sources.push(source),
    }
}

fn source(origin: &str, path: String, is_named: bool, targets: &[Target]) -> ScrapeSource {
    ScrapeSource {
        second_url: (path == PATH).then(|| format!("{origin}{SECOND_PATH}")),
        url: format!("{origin}{path}"),
        is_named,
        is_of_flags: false,
        is_of_endpoint: targets.iter().any(|target| target.origin == origin),
    }
}

fn of_address(Address { url, is_of_flag, .. }: &Address, targets: &[Target]) -> ScrapeSource {
    let path = url.path.trim_end_matches('/');
    let suffix = if path.ends_with(PATH) { "" } else { PATH };
    let query = url.query.as_ref().map_or_else(String::new, |query| format!("?{query}"));
    let path = format!("{path}{suffix}{query}");
    ScrapeSource {
        is_of_flags: *is_of_flag,
        ..source(&TargetParts::of(url).origin(), path, true, targets)
    }
}
