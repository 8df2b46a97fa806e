//! Where figures of the server and its GPUs are read.

use super::super::super::{MetricsFormat, ScrapeSource};
use super::*;

#[test]
fn figures_are_read_at_the_origin_of_each_server_and_at_written_addresses() {
    let shown = |sources: &[ScrapeSource]| -> Vec<(String, bool, bool)> {
        let shown = sources
            .iter()
            .map(|source| (source.url.clone(), source.is_named, source.is_of_endpoint));
        shown.collect()
    };
    let plan = plan_of(&format!(
        "{HEAD}  endpoint: {{urls: [\"http://a:1/v1/chat/completions\", \"http://A:1\", \"http://b:2/base\"]}}\n{PHASES}  \
         server_metrics: {{urls: [\"http://c:3\", \"http://a:1/metrics\", \"http://b:2/x/metrics/?k=v\"]}}\n"
    ));
    let expected = [
        ("http://a:1/metrics", true, true),
        ("http://b:2/metrics", false, true),
        ("http://c:3/metrics", true, false),
        ("http://b:2/x/metrics?k=v", true, true),
    ];
    let expected = expected.map(|(url, is_named, is_of_endpoint)| (url.to_owned(), is_named, is_of_endpoint));
    assert_eq!(shown(&plan.telemetry.server_metrics), expected);
    let seconds: Vec<Option<&str>> = plan
        .telemetry
        .server_metrics
        .iter()
        .map(|source| source.second_url.as_deref())
        .collect();
    assert_eq!(
        seconds,
        [
            Some("http://a:1/prometheus/metrics"),
            Some("http://b:2/prometheus/metrics"),
            Some("http://c:3/prometheus/metrics"),
            None
        ]
    );
    assert_eq!(plan.telemetry.formats, [MetricsFormat::Json, MetricsFormat::Csv]);
    let off = plan_of(&format!(
        "{HEAD}{ENDPOINT}{PHASES}  server_metrics: false\n  gpu_telemetry: false\n"
    ));
    assert_eq!((off.telemetry.server_metrics.len(), off.telemetry.gpu), (0, None));
}

#[test]
fn exporters_of_gpu_figures_are_looked_for_where_they_listen_by_default() {
    let gpu = |more: &str| {
        plan_of(&format!("{HEAD}{ENDPOINT}{PHASES}{more}"))
            .telemetry
            .gpu
            .expect("it is on")
    };
    let urls = |sources: Vec<ScrapeSource>| sources.into_iter().map(|source| source.url).collect::<Vec<_>>();
    assert_eq!(
        urls(gpu("")),
        ["http://localhost:9400/metrics", "http://localhost:9401/metrics"]
    );
    assert_eq!(urls(gpu("  gpu_telemetry: g:9400\n")), ["http://g:9400/metrics"]);
}

#[test]
fn another_server_is_asked_itself_and_nobody_else() {
    let config = read(&format!(
        "{HEAD}{ENDPOINT}{PHASES}  server_metrics: \"http://prod:1/metrics\"\n"
    ));
    let options = BuildOptions {
        target_override: Some("http://127.0.0.1:4000".to_owned()),
        ..options()
    };
    let plan = build(&config, &options).expect("a plan");
    let urls: Vec<&str> = plan
        .telemetry
        .server_metrics
        .iter()
        .map(|source| source.url.as_str())
        .collect();
    assert_eq!(urls, ["http://127.0.0.1:4000/metrics"]);
    assert_eq!(plan.telemetry.gpu, Some(Vec::new()));
    assert!(
        plan.warnings.iter().any(|warning| warning.contains("not asked")),
        "{:?}",
        plan.warnings
    );
}
