//! What the server says about itself, read while the load runs: right figures, and no harm from an endpoint that misbehaves.

use std::time::Duration;

use ringload_engine::plan::{MetricsFormat, ScrapeSource, TelemetryPlan};
use ringload_mock_server::{LedgerEntry, MockServer, Outcome};
use ringload_tests::books::Books;
use ringload_tests::server::scripted;
use ringload_tests::{Phase, Run, Scenario, mock};
use serde_json::Value;

const EXPORT: &str = "server_metrics_export.json";

fn source(server: &MockServer, is_named: bool) -> ScrapeSource {
    ScrapeSource {
        url: format!("{}/metrics", server.url()),
        second_url: Some(format!("{}/prometheus/metrics", server.url())),
        is_named,
        is_of_flags: false,
        is_of_endpoint: true,
    }
}

fn read_from(sources: Vec<ScrapeSource>) -> TelemetryPlan {
    TelemetryPlan {
        server_metrics: sources,
        formats: vec![MetricsFormat::Json, MetricsFormat::Csv, MetricsFormat::Jsonl],
        gpu: None,
    }
}

fn observed(server: &MockServer, is_named: bool) -> Scenario {
    Scenario::new(server.address()).telemetry(read_from(vec![source(server, is_named)]))
}

/// A short load against a server whose `/metrics` is scripted.
fn short(server: &MockServer, is_named: bool) -> Run {
    observed(server, is_named)
        .phase(Phase::closed("load", 2).requests(6))
        .run()
}

/// The statistics of a series that has these labels, among others.
fn stats<'a>(metrics: &'a Value, family: &str, label: Option<(&str, &str)>) -> &'a Value {
    let series = metrics[family]["series"].as_array();
    let series = series.unwrap_or_else(|| panic!("no {family} in {metrics:#}"));
    let found = series
        .iter()
        .find(|one| label.is_none_or(|(name, value)| one["labels"][name] == value));
    &found.unwrap_or_else(|| panic!("no {label:?} in {series:#?}"))["stats"]
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn total(metrics: &Value, family: &str, label: Option<(&str, &str)>) -> u64 {
    number(&stats(metrics, family, label)["total"]) as u64
}

fn tokens(entries: &[&LedgerEntry]) -> u64 {
    entries.iter().map(|entry| u64::from(entry.tokens_sent)).sum()
}

fn words(entries: &[&LedgerEntry]) -> u64 {
    entries.iter().map(|entry| entry.prompt_words).sum()
}

#[test]
fn counters_of_a_run_are_those_of_the_ledger() {
    let server = mock(|_| {});
    let run = observed(&server, false)
        .phase(Phase::closed("load", 4).requests(60))
        .run();
    let ledger = server.ledger();
    let entries: Vec<&LedgerEntry> = ledger.iter().collect();
    let export = run.json(EXPORT);
    let metrics = &export["metrics"];
    assert_eq!(total(metrics, "vllm:generation_tokens", None), tokens(&entries));
    assert_eq!(total(metrics, "vllm:prompt_tokens", None), words(&entries));
    let ended = |reason| total(metrics, "vllm:request_success", Some(("finished_reason", reason)));
    assert_eq!((ended("stop"), ended("length"), ended("abort")), (60, 0, 0));

    // The server sums its own times; the ledger has them one by one.
    let first_tokens = stats(metrics, "vllm:time_to_first_token_seconds", None);
    let waited = entries
        .iter()
        .filter_map(|entry| Some(entry.first_token_ns? - entry.receive_complete_ns));
    let sum = waited.sum::<u64>() as f64 / 1e9;
    assert_eq!(first_tokens["count"], 60);
    assert!(
        (number(&first_tokens["sum"]) - sum).abs() < 1e-6 * sum,
        "{first_tokens} and {sum}"
    );
    let median = number(&first_tokens["p50_estimate"]);
    assert!(median > 0.0 && median <= 5.0, "{median}");

    // The rate is that of the load's own time, though there are no scrapes at its very ends.
    let rate = number(&stats(metrics, "vllm:request_success", Some(("finished_reason", "stop")))["rate"]);
    let phase = run.phase("load");
    let seconds = (phase.end_ns.expect("it ended") - phase.start_ns) as f64 / 1e9;
    assert!((rate * seconds - 60.0).abs() < 0.01 * 60.0, "{rate} over {seconds}");
    assert_eq!(metrics["vllm:generation_tokens"]["unit"], "tokens");
    assert!(run.outcome.warnings.is_empty(), "{:?}", run.outcome.warnings);
}

#[test]
fn phases_share_the_counters_out_and_lose_nothing() {
    let server = mock(|_| {});
    let run = observed(&server, false)
        .cores(2)
        .phase(Phase::closed("warmup", 2).warmup().requests(20))
        .phase(Phase::closed("a", 4).requests(40))
        .phase(Phase::closed("settle", 1).warmup().requests(5))
        .phase(Phase::closed("b", 8).requests(60))
        .run();
    let books = Books::complete(&run, &server);
    let export = run.json(EXPORT);
    let family = "vllm:request_success";
    let label = Some(("finished_reason", "stop"));
    let of_phase = |name: &str| {
        let file = run.json(&format!("phases/{name}/server_metrics.json"));
        let summaries = file["data"]["endpoint_summaries"]
            .as_object()
            .expect("endpoints")
            .clone();
        assert_eq!(summaries.len(), 1);
        total(&summaries.values().next().expect("one")["metrics"], family, label)
    };
    let phases = ["warmup", "a", "settle", "b"];
    let counted = phases.map(of_phase);
    assert_eq!(counted.iter().sum::<u64>(), 125, "{counted:?}");
    // What lies between profiling phases is not theirs.
    assert_eq!(total(&export["metrics"], family, label), counted[1] + counted[3]);
    assert_eq!(total(&export["warmup_metrics"], family, label), counted[0] + counted[2]);
    let entries: Vec<&LedgerEntry> = phases.iter().flat_map(|name| books.of_phase(name)).collect();
    let both = total(&export["metrics"], "vllm:generation_tokens", None)
        + total(&export["warmup_metrics"], "vllm:generation_tokens", None);
    assert_eq!(both, tokens(&entries));
    for phase in &run.phases {
        let file = run.json(&format!("phases/{}/server_metrics.json", phase.phase_name));
        assert_eq!(file["phase"]["phase_kind"], phase.phase_kind.as_str());
        assert_eq!(file["phase"]["start_ns"], phase.start_ns);
    }
}

#[test]
fn every_scrape_that_says_something_new_is_a_line_of_its_phase() {
    let server = mock(|options| options.itl = Duration::from_millis(20));
    let run = observed(&server, false)
        .phase(Phase::closed("load", 2).lasting(Duration::from_millis(1_200)))
        .run();
    let text = std::fs::read_to_string(run.path("server_metrics_export.jsonl")).expect("lines");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let times: Vec<u64> = lines
        .iter()
        .map(|line| line["timestamp_ns"].as_u64().expect("a time"))
        .collect();
    assert!(times.is_sorted() && lines.len() >= 3, "{times:?}");
    assert!(
        lines[0].get("phase_name").is_none(),
        "the first one is from before the load"
    );
    let inside = lines.iter().filter(|line| line["phase_name"] == "load").count();
    assert!(inside >= 2, "{inside} of {}", lines.len());
    let running = |line: &Value| number(&line["metrics"]["vllm:num_requests_running"][0]["value"]);
    assert!(
        lines.iter().any(|line| running(line) == 2.0),
        "both slots were seen at work"
    );
    assert!(
        lines
            .iter()
            .all(|line| line["metrics"].get("vllm:cache_config_info").is_none())
    );
    // Counters never fall from line to line, and the last line is the end.
    let generated: Vec<f64> = lines
        .iter()
        .map(|line| number(&line["metrics"]["vllm:generation_tokens"][0]["value"]))
        .collect();
    assert!(generated.is_sorted(), "{generated:?}");
    assert_eq!(generated.last().copied(), Some(server.counters().tokens_sent as f64));
}

#[test]
fn a_server_without_metrics_costs_two_questions_and_no_line() {
    let server = scripted(&["/metrics=404", "/prometheus/metrics=404"]);
    let run = short(&server, false);
    assert!(run.outcome.warnings.is_empty(), "{:?}", run.outcome.warnings);
    assert_eq!(server.counters().other_requests, 2);
    assert!(!run.path(EXPORT).exists() && !run.path("phases/load/server_metrics.json").exists());
    let named = short(&server, true).outcome.warnings;
    assert!(
        named.len() == 1 && named[0].contains("answers with status 404") && named[0].contains("server_metrics.urls"),
        "{named:?}"
    );
    let both = format!(
        "{0}/metrics answers with status 404, and {0}/prometheus/metrics likewise; ",
        server.url()
    );
    assert!(named[0].contains(&both), "{named:?}");
}

#[test]
fn e01_figures_at_the_second_address_are_found_with_one_warning() {
    let server = scripted(&[
        "/metrics=200:[{\"name\": \"x\"}]",
        "/prometheus/metrics=200:# TYPE g gauge\ng 4\n",
    ]);
    let run = short(&server, false);
    assert_eq!(number(&stats(&run.json(EXPORT)["metrics"], "g", None)["avg"]), 4.0);
    let warnings = &run.outcome.warnings;
    assert!(
        warnings.len() == 1 && warnings[0].contains("/prometheus/metrics"),
        "{warnings:?}"
    );
    assert_eq!(run.counts("load").succeeded, 6);

    let server = scripted(&["/metrics=200:[{\"name\": \"x\"}]"]);
    let run = short(&server, false);
    let warnings = &run.outcome.warnings;
    assert!(
        warnings.len() == 1 && warnings[0].starts_with("no server metrics: "),
        "{warnings:?}"
    );
    assert_eq!(server.counters().other_requests, 2, "one probe of each address");
}

#[test]
fn e04_bad_lines_are_left_out_and_counted() {
    let server = scripted(&["/metrics=200:# TYPE g gauge\ng{x=\"1\"} 4\ng{x=\"a\"b\"} 5\n"]);
    let run = short(&server, false);
    let export = run.json(EXPORT);
    assert_eq!(export["metrics"]["g"]["series"].as_array().map(Vec::len), Some(1));
    let bad = export["ringload"]["endpoints"][0]["bad_lines"]
        .as_u64()
        .expect("a count");
    let answers = export["ringload"]["endpoints"][0]["answers"].as_u64().expect("a count");
    assert_eq!(bad, answers, "one in each answer");
    let warnings = &run.outcome.warnings;
    assert!(
        warnings.len() == 1 && warnings[0].contains("no Prometheus text"),
        "{warnings:?}"
    );
}

#[test]
fn e14_a_server_that_starts_anew_does_not_make_counters_fall() {
    let page = |value: u32| format!("200:# TYPE c counter\nc_total {value}\n");
    let script = format!("/metrics={},{},{}", page(57), page(21), page(30));
    let server = scripted(&[&script]);
    let run = short(&server, false);
    assert_eq!(total(&run.json(EXPORT)["metrics"], "c", None), 30);
    let warnings = &run.outcome.warnings;
    assert!(
        warnings.len() == 1 && warnings[0].contains("began anew"),
        "{warnings:?}"
    );
}

#[test]
fn an_endpoint_that_hangs_takes_nothing_from_the_run() {
    let server = scripted(&["/metrics=hang"]);
    let run = short(&server, true);
    assert_eq!(run.counts("load").succeeded, 6);
    assert_eq!(
        server.counters().other_requests,
        1,
        "the end of the run did not wait for its timeout"
    );
    let warnings = &run.outcome.warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("no answer"), "{warnings:?}");
    assert!(!run.path(EXPORT).exists());
}

#[test]
fn an_endpoint_that_dies_under_way_has_what_it_said_before() {
    let server = scripted(&["/metrics=200:# TYPE g gauge\ng 4\n,500"]);
    let run = observed(&server, true)
        .phase(Phase::closed("load", 2).requests(200))
        .run();
    assert_eq!(run.counts("load").succeeded, 200);
    let warnings = &run.outcome.warnings;
    assert!(
        warnings.len() == 1 && warnings[0].contains("scrapes failed"),
        "{warnings:?}"
    );
}

#[test]
fn headers_of_requests_go_to_the_server_of_the_load_only() {
    let [load, other] = [(); 2].map(|()| scripted(&["/metrics=200:g 1\n", "/x/metrics=200:g 1\n"]));
    let foreign = ScrapeSource {
        url: format!("{}/x/metrics", other.url()),
        second_url: None,
        is_named: true,
        is_of_flags: false,
        is_of_endpoint: false,
    };
    let own = ScrapeSource {
        url: format!("{}/x/metrics", load.url()),
        ..source(&load, true)
    };
    Scenario::new(load.address())
        .header("Authorization", "Bearer key")
        .telemetry(read_from(vec![own, foreign]))
        .phase(Phase::closed("load", 2).requests(6))
        .run();
    let carried = |server: &MockServer| -> Vec<bool> {
        let calls = server.control_log();
        let calls = calls.iter().filter(|call| call.path == "/x/metrics");
        calls.map(|call| call.authorization).collect()
    };
    assert!(!carried(&load).is_empty() && carried(&load).iter().all(|&carried| carried));
    assert!(!carried(&other).is_empty() && !carried(&other).iter().any(|&carried| carried));
}

#[test]
fn an_interrupted_run_has_its_figures_too() {
    let server = mock(|_| {});
    let running = observed(&server, false).phase(Phase::closed("load", 2)).start();
    ringload_tests::eventually("some load", || server.counters().requests >= 20);
    running.interrupt(2);
    let run = running.finish();
    let export = run.json(EXPORT);
    let complete = server
        .ledger()
        .iter()
        .filter(|entry| entry.outcome == Outcome::Complete)
        .count() as u64;
    let counted = total(
        &export["metrics"],
        "vllm:request_success",
        Some(("finished_reason", "stop")),
    );
    // An answer whose end and whose client's leave cross each other is a success first, and then amended.
    assert!((complete..=complete + 2).contains(&counted), "{counted} and {complete}");
}

#[test]
fn figures_of_gpus_are_those_that_the_exporter_showed() {
    let server = mock(|_| {});
    let exporter = ScrapeSource {
        url: format!("{}/dcgm/metrics", server.url()),
        second_url: None,
        is_named: true,
        is_of_flags: false,
        is_of_endpoint: false,
    };
    let telemetry = TelemetryPlan {
        gpu: Some(vec![exporter]),
        ..TelemetryPlan::default()
    };
    let run = Scenario::new(server.address())
        .telemetry(telemetry)
        .phase(Phase::closed("load", 8).lasting(Duration::from_millis(800)))
        .run();
    assert!(run.outcome.warnings.is_empty(), "{:?}", run.outcome.warnings);
    let text = std::fs::read_to_string(run.path("gpu_telemetry_export.jsonl")).expect("lines");
    let energy = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        number(&line["telemetry_data"]["nvidia_energy_consumption"]) * 1e6
    };
    let counted: Vec<f64> = text.lines().map(energy).collect();
    assert!(counted.is_sorted() && counted.len() >= 3, "{counted:?}");
    // From before the only phase to one of the scrapes at its end.
    let joules = number(&run.root()["nvidia_total_gpu_energy"]["avg"]);
    let is_growth = |last: &f64| (last - counted[0] - joules).abs() < 1e-6 * joules;
    assert!(
        joules > 0.0 && counted.iter().any(is_growth),
        "{joules} and {counted:?}"
    );
    let gpus = &run.root()["telemetry_data"]["endpoints"];
    let gpu = gpus
        .as_object()
        .and_then(|all| all.values().next())
        .expect("an exporter")["gpus"]["gpu_0"]
        .clone();
    assert_eq!(
        (gpu["gpu_name"].as_str(), gpu["hostname"].as_str()),
        (Some("Mock H200"), Some("mockhost"))
    );
    let power = &gpu["metrics"]["nvidia_power_usage"];
    let bounds = [
        100.0,
        number(&power["min"]),
        number(&power["avg"]),
        number(&power["max"]),
        700.0,
    ];
    assert!(bounds.is_sorted(), "{bounds:?}");
    assert!(
        gpu["metrics"].get("nvidia_encoder_utilization").is_none(),
        "the exporter does not show it"
    );
    assert!(!run.path(EXPORT).exists(), "nobody asked for the server's own");
}

#[test]
fn an_exporter_that_is_not_one_is_named() {
    let server = mock(|_| {});
    let page = ScrapeSource {
        second_url: None,
        ..source(&server, true)
    };
    let telemetry = TelemetryPlan {
        gpu: Some(vec![page]),
        ..TelemetryPlan::default()
    };
    let run = Scenario::new(server.address())
        .telemetry(telemetry)
        .phase(Phase::closed("load", 2).requests(6))
        .run();
    let warnings = &run.outcome.warnings;
    assert!(
        warnings.len() == 1 && warnings[0].starts_with("no GPU telemetry: "),
        "{warnings:?}"
    );
    assert_eq!(run.root()["telemetry_data"]["endpoints"], serde_json::json!({}));
}
