//! Slices end to end: what the mock server's ledger says of the requests of each slice. Which requests these are is told by the lines of
//! `profile_export.jsonl`, which are written by other code, so no test depends on how fast this machine is.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use ringload_mock_server::LedgerEntry;
use ringload_tests::record::{Ending, Record};
use ringload_tests::{Phase, Run, Scenario, mock};
use serde_json::Value;

const LENGTH: Duration = Duration::from_millis(200);
const LENGTH_NS: u64 = 200_000_000;
const JSON: &str = "profile_export_aiperf_timeslices.json";
const CSV: &str = "profile_export_aiperf_timeslices.csv";

/// A warmup, arrivals at a rate, a pause without a start of three slices or more, and a closed loop. Every fifth request fails.
fn two_phases_with_a_pause(cores: u16) -> (Run, Vec<LedgerEntry>) {
    let server = mock(|options| {
        options.osl = Some(6);
        options.fault = Some("every:5:status:500".parse().expect("a fault"));
    });
    let slow = mock(|options| options.ttft = Duration::from_millis(800));
    let run = Scenario::new(server.address())
        .cores(cores)
        .also(slow.address())
        .slices(LENGTH)
        .phase(Phase::closed("warmup", 2).warmup().requests(6))
        .phase(Phase::constant("arrivals", 60.0).requests(40))
        .phase(Phase::closed("loop", 4).requests(24))
        .run();
    let mut ledger = server.ledger();
    ledger.extend(slow.ledger());
    (run, ledger)
}

fn slices(run: &Run) -> Vec<Value> {
    let document = run.json(JSON);
    assert_eq!(document["input_config"], run.root()["input_config"]);
    document["timeslices"].as_array().expect("a list").clone()
}

#[test]
fn every_slice_has_the_figures_of_its_requests() {
    for cores in [1, 2] {
        let (run, ledger) = two_phases_with_a_pause(cores);
        let entries: BTreeMap<&str, &LedgerEntry> = ledger
            .iter()
            .map(|entry| (entry.request_id.as_deref().expect("an id"), entry))
            .collect();
        let measured: Vec<_> = run
            .records
            .iter()
            .filter(|record| record.metadata.phase_kind == "profiling")
            .collect();
        assert_eq!(measured.len(), 64);
        let first = measured
            .iter()
            .map(|record| record.metadata.request_start_ns)
            .min()
            .expect("records");
        let last_end = measured
            .iter()
            .map(|record| record.metadata.request_end_ns)
            .max()
            .expect("records");

        let mut expected: BTreeMap<u64, Vec<&Record>> = BTreeMap::new();
        for record in measured.iter().copied() {
            let slice = (record.metadata.request_start_ns - first) / LENGTH_NS;
            expected.entry(slice).or_default().push(record);
        }
        let slices = slices(&run);
        assert_eq!(slices.len(), expected.len(), "slices without a start are left out");
        for (slice, (number, records)) in slices.iter().zip(&expected) {
            let (start, end) = (
                slice["start_ns"].as_u64().expect("ns"),
                slice["end_ns"].as_u64().expect("ns"),
            );
            assert_eq!(
                (start, end),
                (first + number * LENGTH_NS, first + (number + 1) * LENGTH_NS)
            );
            let is_complete = slice.get("is_complete").is_none_or(|is| is != false);
            assert_eq!(is_complete, end <= last_end);
            let (good, bad): (Vec<&Record>, Vec<&Record>) = records
                .iter()
                .copied()
                .partition(|record| record.ending() == Ending::Succeeded);
            let entry = |id: &str| entries[id];
            // A server cannot get a request before it starts.
            let is_caused = |id: &str| run.wall_ns(entry(id).receive_complete_ns) + 1_000_000 > start;
            assert!(records.iter().all(|record| is_caused(&record.metadata.x_request_id)));
            let tokens: u32 = good
                .iter()
                .map(|record| entry(&record.metadata.x_request_id).tokens_sent)
                .sum();
            assert!(
                bad.iter()
                    .all(|record| entry(&record.metadata.x_request_id).fault.is_some())
            );

            let figure = |tag: &str| slice[tag]["avg"].as_f64();
            let counted = |count: usize| (count > 0).then_some(count as f64);
            assert_eq!(figure("request_count"), counted(good.len()), "{slice:#}");
            assert_eq!(figure("error_request_count"), counted(bad.len()));
            assert_eq!(figure("total_osl"), counted(tokens as usize));
            let rate = |count: Option<f64>| count.map(|count| count / 0.2);
            assert_eq!(figure("request_throughput"), rate(counted(good.len())));
            assert_eq!(figure("output_token_throughput"), rate(counted(tokens as usize)));
            let slowest = good
                .iter()
                .filter_map(|record| record.metric("request_latency"))
                .fold(f64::NAN, f64::max);
            assert_eq!(
                slice["request_latency"]["max"].as_f64().unwrap_or(f64::NAN).to_bits(),
                slowest.to_bits()
            );
            // Whatever is in flight, whenever it started.
            let flight: u64 = measured
                .iter()
                .map(|record| {
                    (
                        record.metadata.request_start_ns.max(start),
                        record.metadata.request_end_ns.min(end),
                    )
                })
                .map(|(from, to)| to.saturating_sub(from))
                .sum();
            let concurrency = figure("effective_concurrency").expect("a request was in flight");
            assert!(
                (concurrency - flight as f64 / LENGTH_NS as f64).abs() < 1e-9,
                "{concurrency}: {flight}"
            );
        }
        let sum = |tag: &str| -> f64 { slices.iter().filter_map(|slice| slice[tag]["avg"].as_f64()).sum() };
        for tag in ["request_count", "error_request_count", "total_osl", "total_isl"] {
            assert_eq!(Some(sum(tag)), run.root()[tag]["avg"].as_f64(), "{tag}");
        }
    }
}

#[test]
fn the_table_has_every_figure_of_the_document_with_two_decimals() {
    let (run, _) = two_phases_with_a_pause(1);
    let text = fs::read_to_string(run.path(CSV)).expect("a table");
    assert!(text.starts_with("Timeslice,Start_NS,End_NS,Metric,Unit,Stat,Value\r\n"));
    let mut reader = csv::ReaderBuilder::new().from_reader(text.as_bytes());
    let mut rows: BTreeMap<(u64, u64), Vec<Vec<String>>> = BTreeMap::new();
    for row in reader.records() {
        let row = row.expect("a row");
        let number = |at: usize| row[at].parse::<u64>().expect("a number");
        assert_eq!(number(2) - number(1), LENGTH_NS);
        let cells = [3, 4, 5, 6].map(|at| row[at].to_owned()).to_vec();
        rows.entry((number(0), number(1))).or_default().push(cells);
    }
    let slices = slices(&run);
    assert_eq!(rows.len(), slices.len());
    let first = slices[0]["start_ns"].as_u64().expect("ns");
    for (slice, ((number, start), rows)) in slices.iter().zip(rows) {
        assert_eq!(slice["start_ns"], start);
        assert_eq!((start - first) / LENGTH_NS, number);
        // The document has figures by tag, the table by name: compared without either.
        let mut expected = Vec::new();
        for figure in slice.as_object().expect("a slice").values() {
            let Some(unit) = figure["unit"].as_str() else { continue };
            for (statistic, value) in figure.as_object().expect("figures") {
                // Tables have no counts of values, here as elsewhere.
                if !["unit", "count"].contains(&statistic.as_str()) {
                    let value = value.as_f64().expect("a number");
                    expected.push(vec![unit.to_owned(), statistic.clone(), format!("{value:.2}")]);
                }
            }
        }
        let mut found: Vec<_> = rows.into_iter().map(|row| row[1..].to_vec()).collect();
        expected.sort();
        found.sort();
        assert_eq!(found, expected);
    }
}

#[test]
fn slices_are_of_the_run_and_not_of_its_phases() {
    let (run, _) = two_phases_with_a_pause(1);
    let is_of_slices = |path: &&std::path::PathBuf| path.to_string_lossy().contains("timeslices");
    let files: Vec<_> = run.outcome.files.iter().filter(is_of_slices).collect();
    assert_eq!(files, [&run.path(JSON), &run.path(CSV)]);
    assert!(!run.path("phases/loop").join(JSON).exists());
}

#[test]
fn without_records_or_a_wish_there_are_no_files() {
    let server = mock(|_| {});
    let scenario = || Scenario::new(server.address()).phase(Phase::closed("load", 1).requests(2));
    for run in [scenario().run(), scenario().slices(LENGTH).without_records().run()] {
        assert!(!run.path(JSON).exists() && !run.path(CSV).exists());
    }
}

#[test]
fn a_run_with_too_many_slices_says_what_would_have_done() {
    let server = mock(|options| options.ttft = Duration::from_millis(20));
    let run = Scenario::new(server.address())
        .slices(Duration::from_micros(1))
        .phase(Phase::closed("load", 1).requests(2))
        .run();
    assert!(!run.path(JSON).exists() && !run.path(CSV).exists());
    let warnings = run.outcome.warnings;
    let told = warnings
        .iter()
        .filter(|warning| warning.starts_with("artifacts.slice_duration: "));
    assert_eq!(told.count(), 1, "{warnings:?}");
    assert!(run.outcome.failure.is_none());
}
