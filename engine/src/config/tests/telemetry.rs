//! `server_metrics` and `gpu_telemetry`: what is read, and what is refused.

use super::*;

fn with(more: &'static str) -> Telemetry {
    Sample { more, ..SAMPLE }.read().telemetry
}

fn texts(urls: &[Address]) -> Vec<&str> {
    urls.iter().map(|address| address.text.as_str()).collect()
}

#[test]
fn a_switch_an_address_or_a_section_can_be_written() {
    assert_eq!(with(""), Telemetry::default());
    assert_eq!(with("  server_metrics: on\n").server_metrics.enabled, Some(true));
    assert_eq!(with("  server_metrics: false\n").server_metrics.enabled, Some(false));
    assert_eq!(with("  gpuTelemetry: no\n").gpu.enabled, Some(false));
    assert_eq!(
        texts(&with("  server_metrics: h:9090/metrics\n").server_metrics.urls),
        ["http://h:9090/metrics"]
    );
    let metrics = with(
        "  server_metrics: {urls: [\"http://a\", \"https://b/x\"], formats: [jsonl, parquet], discovery: {mode: auto}}\n",
    );
    assert_eq!(texts(&metrics.server_metrics.urls), ["http://a", "https://b/x"]);
    assert_eq!(
        metrics.server_metrics.formats,
        Some(vec![MetricsFormat::Jsonl, MetricsFormat::Parquet])
    );
    let gpu = with("  gpu_telemetry: {url: \"http://h:9400/metrics\", collector: dcgm, mode: summary}\n").gpu;
    assert_eq!(texts(&gpu.urls), ["http://h:9400/metrics"]);
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    for (more, words) in [
        ("  server_metrics: {discovery: {mode: kubernetes}}\n", "`kubernetes`"),
        ("  server_metrics: {discovery: {namespace: x}}\n", "`namespace`"),
        (
            "  server_metrics: {url: \"http://u:p@h/metrics\"}\n",
            "user and password",
        ),
        ("  gpu_telemetry: {collector: pynvml}\n", "`pynvml`"),
        ("  gpu_telemetry: {mode: realtime_dashboard}\n", "`realtime_dashboard`"),
        ("  gpu_telemetry: {metrics_file: x.csv}\n", "`metrics_file`"),
    ] {
        let found = Sample { more, ..SAMPLE }.mistakes();
        assert!(
            found.len() == 1 && found[0].contains("not supported by ringload yet") && found[0].contains(words),
            "{more}: {found:?}"
        );
    }
}

#[test]
fn mistakes_say_what_is_allowed() {
    for (more, words) in [
        (
            "  server_metrics: [\"http://h/metrics\"]\n",
            "allowed: true, false, a URL, or a mapping with the keys enabled, url",
        ),
        (
            "  server_metrics: {formats: [xml]}\n",
            "found `xml`; allowed: json, csv, jsonl, parquet",
        ),
        ("  server_metrics: {urls: \"http://h/metrics\"}\n", "a list of URLs"),
        ("  server_metrics: ftp://h/metrics\n", "http or https"),
        ("  gpu_telemetry: {collector: rocm}\n", "allowed: dcgm"),
        ("  gpu_telemetry: {url: \"http://h\", urls: []}\n", "exclude each other"),
    ] {
        let found = Sample { more, ..SAMPLE }.mistakes();
        assert!(found.len() == 1 && found[0].contains(words), "{more}: {found:?}");
    }
}
