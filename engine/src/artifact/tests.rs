//! Whole artifact trees: read back strictly, and compared with the keys and units that readers of the peer's files know.

mod lines;
mod slices;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::coordinator::StopReason;
use crate::plan::Plan;
use crate::record::{Family, Outcome, PhaseHistograms, RequestRecord};
use crate::report::fixture::{BASELINE, STRESS, WARMUP, anchor, errors, other, plan, success, summary, tally};
use crate::report::{Collector, METRICS, RunEnd};
use crate::units::Nanos;

const MULTI_PHASE: &str = include_str!("../../tests/golden/multi_phase.txt");
const NONSTREAM: &str = include_str!("../../tests/golden/nonstream.txt");
const CANCEL: &str = include_str!("../../tests/golden/cancel.txt");
const EDGE: &str = include_str!("../../tests/golden/edge.txt");

/// What a golden list says of one kind of key.
fn golden<'a>(list: &'a str, kind: &str) -> BTreeSet<&'a str> {
    let prefix = format!("{kind} ");
    list.lines().filter_map(|line| line.strip_prefix(&prefix)).collect()
}

/// A tree written from records, in a directory that lives as long as this.
struct Tree {
    temp: tempfile::TempDir,
    written: Written,
}

impl Tree {
    fn root(&self) -> &Path {
        self.temp.path()
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(name)).unwrap()
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn lines(&self) -> Vec<Value> {
        let text = self.text("profile_export.jsonl");
        assert!(text.is_empty() || text.ends_with('\n'));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn write_tree(mut plan: Plan, records: &[RequestRecord], end: &RunEnd) -> Tree {
    let temp = tempfile::tempdir().unwrap();
    plan.artifacts.directory = temp.path().to_owned();
    let directory = ArtifactDirectory::prepare(&plan).unwrap();
    write_inputs(&directory, &plan).unwrap();
    write_resolved(&directory, &plan).unwrap();

    let mut collector = Collector::new(&plan, anchor());
    let (lines, mut text) = (RecordLines::new(&plan, anchor()), Vec::new());
    let id = |kind: &str, phase: PhaseId, sequence: u64| -> [u8; 36] {
        let text = format!("{:-<36}", format!("{kind}-{}-{sequence}", phase.0));
        text.into_bytes().try_into().unwrap()
    };
    for record in records {
        let ids = ["r", "c"].map(|kind| id(kind, record.phase, record.sequence));
        collector.add(record, &errors());
        lines.append(record, &errors(), (&ids[0], &ids[1]), &mut text);
    }
    let mut file = directory.create_records().unwrap();
    file.write_all(&text).unwrap();
    file.commit().unwrap();
    let mut histograms = PhaseHistograms::new();
    histograms.record(Family::SendLag, 50_000);
    collector.add_histograms(BASELINE, &histograms);

    let stop_reason = match end {
        RunEnd::Interrupted => StopReason::Interrupted,
        _ => StopReason::Duration,
    };
    let phases: Vec<_> = plan
        .phases
        .iter()
        .enumerate()
        .filter_map(|(at, phase)| {
            let count = |outcome| {
                records
                    .iter()
                    .filter(|r| r.phase == phase.id && r.outcome == outcome)
                    .count() as u64
            };
            let tally = tally(
                count(Outcome::Success),
                count(Outcome::Error),
                count(Outcome::Cancelled),
                count(Outcome::Truncated),
            );
            let mut summary = summary(phase.id, 1000 * at as u64 + 1000, 1000 * at as u64 + 2000, tally);
            summary.stop_reason = stop_reason;
            (tally.sent > 0).then_some(summary)
        })
        .collect();
    let report = collector.finish(&phases, end);
    let mut facts = EngineFacts::default();
    facts.run.insert("driver".into(), json!("epoll"));
    facts.phases.push((BASELINE, facts.run.clone()));
    let written = write_all(&directory, &plan, &report, &facts, None, None);
    Tree { temp, written }
}

fn multi_phase() -> Tree {
    let records = [
        success(WARMUP, 0),
        success(BASELINE, 1),
        other(BASELINE, 2, Outcome::Error),
        success(STRESS, 3),
        success(STRESS, 4),
        other(STRESS, 5, Outcome::Cancelled),
        other(STRESS, 6, Outcome::Truncated),
    ];
    write_tree(plan(), &records, &RunEnd::Complete)
}

/// Every key of a summary is known with the same unit; additions stand under `ringload` only.
fn assert_known(document: &Value, list: &str) {
    let (top, metrics, stats) = (golden(list, "top"), golden(list, "metric"), golden(list, "stat"));
    let metric = |key: &str, value: &Value| {
        let entry = format!("{key} {}", value["unit"].as_str().unwrap());
        assert!(metrics.contains(entry.as_str()), "{entry} is not known");
        for stat in value.as_object().unwrap().keys() {
            assert!(stats.contains(stat.as_str()), "{key}.{stat} is not known");
        }
    };
    for (key, value) in document.as_object().unwrap() {
        match key.as_str() {
            "ringload" => assert!(value.get("unit").is_none(), "ringload would be taken for a metric"),
            "warmup_metrics" => value
                .as_object()
                .unwrap()
                .iter()
                .for_each(|(key, value)| metric(key, value)),
            _ if value.get("unit").is_some() => metric(key, value),
            _ => assert!(top.contains(key.as_str()), "{key} is not known"),
        }
    }
}

fn assert_no_nulls(value: &Value) {
    match value {
        Value::Null => panic!("a null was written"),
        Value::Array(items) => items.iter().for_each(assert_no_nulls),
        Value::Object(members) => members.values().for_each(assert_no_nulls),
        _ => {}
    }
}

/// Known figures that are not computed yet; `docs/metrics.md` lists them.
fn is_open(entry: &str) -> bool {
    let open = [
        "effective_decode_throughput",
        "active_decode_throughput",
        "tokens_in_flight",
        "usage_completion_tokens_diff_pct",
    ];
    open.iter().any(|figure| entry.starts_with(figure))
}

#[test]
fn a_multi_phase_run_writes_known_keys_and_misses_only_what_is_documented() {
    let tree = multi_phase();
    assert!(tree.written.failures.is_empty(), "{:?}", tree.written.failures);
    let root = tree.json("profile_export_aiperf.json");
    assert_known(&root, MULTI_PHASE);
    assert_no_nulls(&root);
    for name in ["warmup", "baseline", "stress"] {
        let phase = tree.json(&format!("phases/{name}/profile_export_aiperf.json"));
        assert_known(&phase, MULTI_PHASE);
        assert!(phase.get("warmup_metrics").is_none());
    }
    let missing: Vec<&str> = golden(MULTI_PHASE, "metric")
        .into_iter()
        .filter(|entry| root.get(entry.split_once(' ').unwrap().0).is_none())
        .filter(|entry| !is_open(entry))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    for key in golden(MULTI_PHASE, "top")
        .into_iter()
        .filter(|key| *key != "telemetry_data")
    {
        assert!(root.get(key).is_some(), "{key}");
    }
}

#[test]
fn other_kinds_of_run_write_known_keys_too() {
    let mut nonstream = plan();
    nonstream.endpoint.streaming = false;
    let mut whole = success(BASELINE, 0);
    whole.first_content = whole.last_content;
    whole.gaps.clear();
    let tree = write_tree(nonstream, &[whole], &RunEnd::Complete);
    assert_known(&tree.json("profile_export_aiperf.json"), NONSTREAM);
    let records = golden(NONSTREAM, "record");
    for (key, value) in tree.lines()[0]["metrics"].as_object().unwrap() {
        assert!(
            records.contains(format!("{key} {}", value["unit"].as_str().unwrap()).as_str()),
            "{key}"
        );
    }

    let cancelled = [success(BASELINE, 0), other(BASELINE, 1, Outcome::Cancelled)];
    let tree = write_tree(plan(), &cancelled, &RunEnd::Complete);
    assert_known(&tree.json("profile_export_aiperf.json"), CANCEL);

    let mut reasoning = success(BASELINE, 0);
    reasoning.usage.reasoning_tokens = Some(4);
    let tree = write_tree(
        plan(),
        &[reasoning, other(BASELINE, 1, Outcome::Error)],
        &RunEnd::Complete,
    );
    let root = tree.json("profile_export_aiperf.json");
    assert_known(&root, EDGE);
    assert_eq!(root["total_reasoning_tokens"]["avg"], 4.0);
}

#[test]
fn a_summary_has_the_order_and_the_types_of_the_contract() {
    let tree = multi_phase();
    let text = tree.text("profile_export_aiperf.json");
    assert!(text.starts_with("{\n  \"schema_version\": \"1.5\",\n  \"aiperf_version\": \"ringload-"));
    assert!(!text.ends_with('\n'));
    let root = tree.json("profile_export_aiperf.json");
    let keys: Vec<&str> = root.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys[2..6],
        ["benchmark_id", "request_throughput", "request_latency", "request_count"]
    );
    let at = |key| keys.iter().position(|k| *k == key).unwrap();
    let order = [
        "total_error_isl",
        "input_config",
        "run_info",
        "was_cancelled",
        "is_complete",
        "error_summary",
    ];
    assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{keys:?}");
    assert!(at("end_time") < at("warmup_metrics") && at("warmup_metrics") < at("http_req_blocked"));

    let latency = root["request_latency"].as_object().unwrap();
    let stats: Vec<&str> = latency.keys().map(String::as_str).collect();
    let expected = "unit avg p1 p5 p10 p25 p50 p75 p90 p95 p99 min max std count sum";
    assert_eq!(stats.join(" "), expected);
    assert_eq!(latency["count"], json!(3));
    assert_eq!(root["request_count"], json!({"unit": "requests", "avg": 3.0}));
    let adjusted: Vec<&String> = root["adj_request_latency"].as_object().unwrap().keys().collect();
    assert_eq!(adjusted, ["unit", "p1", "p5", "p10", "p25", "p50", "min", "count"]);
    assert_eq!(
        root["start_time"].as_str().unwrap().len(),
        "2026-11-30T07:55:29.748591".len()
    );
    assert_eq!(root["run_info"]["random_seed"], 42);
    let errors = json!([
        {"error_details": {"code": 499, "type": "RequestCancellationError", "message": "cancelled"}, "count": 1},
        {"error_details": {"code": 503, "type": "Service Unavailable", "message": "busy \"now\"\n"}, "count": 1},
    ]);
    assert_eq!(root["error_summary"], errors);
}

#[test]
fn the_ringload_key_accounts_for_every_request() {
    let tree = multi_phase();
    let ours = &tree.json("profile_export_aiperf.json")["ringload"];
    assert_eq!(
        (&ours["driver"], &ours["percentiles"]),
        (&json!("epoll"), &json!("exact"))
    );
    let count = |key: &str| ours[key].as_u64().unwrap();
    let ended = ["succeeded", "failed", "cancelled", "truncated_request_count"].map(count);
    assert_eq!(ended, [3, 1, 1, 1]);
    assert_eq!(count("sent"), ended.iter().sum::<u64>());
    assert_eq!(ours["send_lag"]["p99"], 0.05);
    let phase = tree.json("phases/stress/profile_export_aiperf.json");
    assert!(phase["ringload"].get("driver").is_none() && phase["ringload"].get("send_lag").is_none());
    let root = tree.json("profile_export_aiperf.json");
    assert_eq!(
        (&root["is_complete"], &root["was_cancelled"]),
        (&json!(true), &json!(false))
    );
    assert!(root.get("incomplete_reason").is_none());
}

#[test]
fn a_run_that_ended_early_is_written_and_says_why() {
    let failed = write_tree(
        plan(),
        &[other(BASELINE, 0, Outcome::Error)],
        &RunEnd::Failed("hook refused".into()),
    );
    let root = failed.json("profile_export_aiperf.json");
    assert_eq!(
        (&root["is_complete"], &root["was_cancelled"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(root["incomplete_reason"], "hook refused");
    assert_eq!(root["error_request_count"]["avg"], 1.0);
    assert!(root.get("request_count").is_none() && root.get("request_latency").is_none());

    let interrupted = write_tree(plan(), &[success(BASELINE, 0)], &RunEnd::Interrupted);
    assert_eq!(interrupted.json("profile_export_aiperf.json")["was_cancelled"], true);
    assert_eq!(
        interrupted.json("phase_manifest.json")["phases"][0]["was_cancelled"],
        true
    );
    let ready = r#"{"ready":true,"was_cancelled":true,"partial":false}"#;
    assert_eq!(interrupted.text(".aiperf_results_ready.json"), ready);

    let nothing = write_tree(plan(), &[], &RunEnd::Interrupted);
    assert!(nothing.written.failures.is_empty());
    assert_eq!(
        nothing.json("phase_manifest.json"),
        json!({"phases": [], "schema_version": 1})
    );
}

#[test]
fn lines_have_the_known_keys_and_the_values_of_their_records() {
    let tree = multi_phase();
    let lines = tree.lines();
    assert_eq!(lines.len(), 7);
    let keys = |kind| -> BTreeSet<&str> {
        golden(MULTI_PHASE, kind)
            .union(&golden(CANCEL, kind))
            .copied()
            .collect()
    };
    for line in &lines {
        assert_no_nulls(line);
        assert!(
            line.as_object()
                .unwrap()
                .keys()
                .all(|key| keys("line").contains(key.as_str()) || key == "ringload"),
            "{line}"
        );
        for key in line["metadata"].as_object().unwrap().keys() {
            assert!(keys("metadata").contains(key.as_str()), "{key}");
        }
        for (key, value) in line["metrics"].as_object().unwrap() {
            assert!(
                keys("record").contains(format!("{key} {}", value["unit"].as_str().unwrap()).as_str()),
                "{key}"
            );
        }
    }
    let missing: Vec<&str> = keys("record")
        .into_iter()
        .filter(|entry| lines[1]["metrics"].get(entry.split_once(' ').unwrap().0).is_none() && !is_open(entry))
        .collect();
    assert_eq!(missing, ["error_isl tokens"]);

    let record = success(BASELINE, 1);
    let metadata = &lines[1]["metadata"];
    let wall = |instant: Nanos| json!(anchor().to_wall_ns(instant));
    assert_eq!(metadata["session_num"], 1);
    assert_eq!(
        (&metadata["x_request_id"], &metadata["x_correlation_id"]),
        (&json!(format!("{:-<36}", "r-1-1")), &json!(format!("{:-<36}", "c-1-1")))
    );
    assert_eq!(metadata["root_correlation_id"], metadata["x_correlation_id"]);
    assert_eq!(metadata["conversation_id"], "conversation-1");
    assert_eq!(metadata["credit_issued_ns"], wall(record.issued));
    assert_eq!(metadata["request_start_ns"], wall(record.start));
    assert_eq!(metadata["request_ack_ns"], wall(record.head));
    assert_eq!(metadata["request_end_ns"], wall(record.end));
    assert_eq!(metadata["worker_id"], "worker_00000003");
    assert_eq!(
        (&metadata["phase_index"], &metadata["profiling_index"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(
        (&metadata["phase_name"], &metadata["was_cancelled"]),
        (&json!("baseline"), &json!(false))
    );
    let metrics = &lines[1]["metrics"];
    assert_eq!(metrics["request_latency"], json!({"value": 80.0, "unit": "ms"}));
    assert_eq!(
        metrics["output_sequence_length"],
        json!({"value": 16, "unit": "tokens"})
    );
    assert_eq!(metrics["http_req_connection_reused"]["value"], json!(0));
    assert_eq!(metrics["http_req_data_received"]["value"], json!(3.0));
    assert_eq!(metrics["inter_chunk_latency"]["value"].as_array().unwrap().len(), 15);

    let warmup = &lines[0]["metadata"];
    assert_eq!(
        (&warmup["benchmark_phase"], warmup.get("profiling_index")),
        (&json!("warmup"), None)
    );
}

#[test]
fn the_manifest_has_every_phase_with_sorted_keys_and_paths_that_exist() {
    let tree = multi_phase();
    assert!(tree.text("phase_manifest.json").ends_with("}\n"));
    let manifest = tree.json("phase_manifest.json");
    let phases = manifest["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 3);
    for phase in phases {
        let keys: Vec<&str> = phase.as_object().unwrap().keys().map(String::as_str).collect();
        assert!(keys.is_sorted());
        let known: Vec<&str> = golden(MULTI_PHASE, "manifest").into_iter().collect();
        assert_eq!(keys, known);
        for path in [&phase["metrics_json"], &phase["metrics_csv"]] {
            assert!(tree.root().join(path.as_str().unwrap()).is_file());
        }
        let details = phase["error_summary"].get(0).map(|error| &error["error_details"]);
        assert!(details.is_none_or(|details| details.get("cause").is_some_and(Value::is_null)));
    }
    assert_eq!(phases[0]["profiling_index"], Value::Null);
    let counts = ["successful_request_count", "error_request_count", "total_request_count"];
    assert_eq!(counts.map(|key| phases[2][key].as_u64().unwrap()), [2, 1, 3]);
    assert_eq!(phases[1]["start_ns"], anchor().to_wall_ns(Nanos::from_secs(2)));
    assert_eq!(phases[1]["end_ns"], anchor().to_wall_ns(Nanos::from_secs(3)));
}

#[test]
fn the_csv_has_two_sections_sorted_by_tag() {
    let tree = multi_phase();
    let text = tree.text("profile_export_aiperf.csv");
    assert!(text.ends_with("\r\n") && !text.replace("\r\n", "").contains('\n'));
    let (distributions, scalars) = text.split_once("\r\n\r\n").unwrap();
    let rows: Vec<Vec<&str>> = distributions
        .split("\r\n")
        .map(|row| row.split(',').collect())
        .collect();
    assert_eq!(
        rows[0].join(","),
        "Metric,avg,min,max,sum,p1,p5,p10,p25,p50,p75,p90,p95,p99,std"
    );
    assert!(rows.iter().all(|row| row.len() == 15));
    let row = |name: &str| {
        rows.iter()
            .find(|row| row[0] == name)
            .unwrap_or_else(|| panic!("{name}"))[1..]
            .to_vec()
    };
    let latency = ["80.00", "80.00", "80.00", "240.00"];
    assert_eq!(row("Request Latency (ms)")[..4], latency);
    assert_eq!(row("Request Latency (error-adjusted) (ms)")[..4], ["", "80.00", "", ""]);
    assert_eq!(row("HTTP Chunks Sent")[0], "1.00");
    let tag = |header: &str| {
        let name =
            |m: &&crate::report::Metric| header == m.header || header == format!("{} ({})", m.header, m.unit.name());
        METRICS.iter().find(name).unwrap().tag
    };
    let tags: Vec<&str> = rows[1..].iter().map(|row| tag(row[0])).collect();
    assert!(tags.is_sorted(), "{tags:?}");

    let scalars: Vec<&str> = scalars.trim_end().split("\r\n").collect();
    assert_eq!(scalars[..2], ["Metric,Value", "Benchmark Duration (sec),2.00"]);
    assert!(scalars.contains(&"Request Count,3.00"));
    assert!(scalars.contains(&"Completed Requests (Success + Error),5.00"));
}

#[test]
fn inputs_hold_the_bodies_by_conversation() {
    let inputs = multi_phase().json("inputs.json");
    let expected = json!({"messages": [{"role": "user", "content": "a b"}], "model": "m \"x\""});
    let data = inputs["data"].as_array().unwrap();
    assert_eq!(data.len(), 2);
    assert_eq!(data[1], json!({"session_id": "conversation-1", "payloads": [expected]}));
}

#[test]
fn a_file_that_cannot_be_written_stops_no_other() {
    let temp = tempfile::tempdir().unwrap();
    let mut plan = plan();
    plan.artifacts.directory = temp.path().to_owned();
    let directory = ArtifactDirectory::prepare(&plan).unwrap();
    // A file where the phases' directory should be.
    fs::write(temp.path().join("phases"), "x").unwrap();
    let mut collector = Collector::new(&plan, anchor());
    collector.add(&success(BASELINE, 0), &[]);
    let report = collector.finish(&[], &RunEnd::Complete);
    let written = write_all(&directory, &plan, &report, &EngineFacts::default(), None, None);
    assert_eq!(written.failures.len(), 2);
    assert!(
        written.failures[0]
            .to_string()
            .contains("phases/baseline/profile_export_aiperf.json")
    );
    let names: Vec<_> = written
        .files
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap())
        .collect();
    let expected = [
        "profile_export_aiperf.json",
        "profile_export_aiperf.csv",
        "phase_manifest.json",
        ".aiperf_results_ready.json",
    ];
    assert_eq!(names, expected);
    let manifest: Value = serde_json::from_slice(&fs::read(&written.files[2]).unwrap()).unwrap();
    assert!(manifest["phases"][0].get("metrics_json").is_none());
    assert!(
        fs::read_to_string(&written.files[3])
            .unwrap()
            .contains(r#""partial":true"#)
    );
}

#[test]
fn prefix_and_summary_switch_are_obeyed() {
    let mut plan = plan();
    plan.artifacts.prefix = Some("night.json".into());
    plan.artifacts.summary_json = false;
    let tree = write_tree(plan, &[success(BASELINE, 0)], &RunEnd::Complete);
    let mut names: Vec<String> = fs::read_dir(tree.root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected = [
        ".aiperf_results_ready.json",
        "inputs.json",
        "night.csv",
        "night.jsonl",
        "phase_manifest.json",
        "phases",
        "resolved_config.yaml",
    ];
    assert_eq!(names, expected);
    let manifest = tree.json("phase_manifest.json");
    assert_eq!(manifest["phases"][0]["metrics_csv"], "phases/baseline/night.csv");
    assert!(manifest["phases"][0].get("metrics_json").is_none());
}

#[test]
fn a_second_run_into_the_same_directory_is_refused_and_with_overwrite_starts_clean() {
    let tree = multi_phase();
    let mut plan = plan();
    plan.artifacts.directory = tree.root().to_owned();
    assert!(matches!(
        ArtifactDirectory::prepare(&plan),
        Err(ArtifactError::Occupied { .. })
    ));
    plan.artifacts.overwrite = true;
    ArtifactDirectory::prepare(&plan).unwrap();
    assert_eq!(
        fs::read_dir(tree.root()).unwrap().count(),
        0,
        "everything we write is recognised as ours"
    );
}

#[test]
fn a_record_whose_error_text_was_lost_still_has_an_error() {
    let plan = plan();
    let (id, mut line) = ([b'0'; 36], Vec::new());
    RecordLines::new(&plan, anchor()).append(&other(BASELINE, 0, Outcome::Cancelled), &[], (&id, &id), &mut line);
    let line: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(line["error"]["type"], "RequestCancellationError");
}
