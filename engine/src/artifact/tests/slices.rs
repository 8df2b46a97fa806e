//! Files of slices.

use super::*;

const JSON: &str = "profile_export_aiperf_timeslices.json";
const CSV: &str = "profile_export_aiperf_timeslices.csv";

fn with_slices(millis: u64) -> Plan {
    let mut plan = plan();
    plan.artifacts.slice = Some(Nanos::from_millis(millis));
    plan
}

/// Starts at 0, 100 and 900 ms from the first; each takes 83 ms.
fn three() -> [RequestRecord; 3] {
    [
        success(BASELINE, 0),
        other(BASELINE, 1, Outcome::Error),
        success(STRESS, 9),
    ]
}

#[test]
fn a_slice_has_its_place_first_and_then_its_figures() {
    let tree = write_tree(with_slices(300), &three(), &RunEnd::Complete);
    let text = tree.text(JSON);
    // Both ends are whole milliseconds from 1796025329.002 s on.
    let first = "{\n  \"timeslices\": [\n    {\n      \"start_ns\": 1796025329002000000,\n      \"end_ns\": 1796025329302000000,\n      \"request_throughput\": {\n        \"unit\": \"requests/sec\",\n        \"avg\": 3.3333333333333335\n      },";
    assert!(text.starts_with(first), "{}", &text[..400]);
    assert!(!text.ends_with('\n'));
    let document = tree.json(JSON);
    assert_no_nulls(&document);
    let keys: Vec<&String> = document.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["timeslices", "input_config"]);
    assert_eq!(
        document["input_config"],
        tree.json("profile_export_aiperf.json")["input_config"]
    );
    let slices = document["timeslices"].as_array().unwrap();
    let starts: Vec<u64> = slices
        .iter()
        .map(|slice| slice["start_ns"].as_u64().unwrap() % 1_000_000_000_000)
        .collect();
    assert_eq!(
        starts,
        [
            25_329_002_000_000 % 1_000_000_000_000,
            25_329_902_000_000 % 1_000_000_000_000
        ]
    );
    assert!(slices[0].get("is_complete").is_none());
    let second: Vec<&String> = slices[1].as_object().unwrap().keys().take(4).collect();
    assert_eq!(second, ["start_ns", "end_ns", "is_complete", "request_throughput"]);
    assert_eq!(slices[1]["is_complete"], false);
    for (tag, figure) in slices.iter().flat_map(|slice| slice.as_object().unwrap()) {
        let unit = METRICS
            .iter()
            .find(|metric| metric.tag == tag)
            .map(|metric| metric.unit.name());
        assert_eq!(figure["unit"].as_str(), unit, "{tag}");
    }
}

#[test]
fn the_table_is_sorted_by_slice_and_tag() {
    let tree = write_tree(with_slices(300), &three(), &RunEnd::Complete);
    let text = tree.text(CSV);
    assert!(text.split_inclusive('\n').all(|line| line.ends_with("\r\n")));
    let rows: Vec<Vec<String>> = ::csv::Reader::from_reader(text.as_bytes())
        .records()
        .map(|row| row.unwrap().iter().map(str::to_owned).collect())
        .collect();
    let numbers: BTreeSet<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(
        numbers.into_iter().collect::<Vec<_>>(),
        ["0", "3"],
        "those left out are counted"
    );
    for number in ["0", "3"] {
        let headers: Vec<&str> = rows
            .iter()
            .filter(|row| row[0] == number)
            .map(|row| row[3].as_str())
            .collect();
        let tag = |header: &str| {
            METRICS
                .iter()
                .find(|metric| metric.header == header)
                .map(|metric| metric.tag)
        };
        assert!(headers.is_sorted_by_key(|header| tag(header)), "{headers:?}");
    }
    let statistics = |header: &str| -> Vec<String> {
        let of = rows.iter().filter(|row| row[0] == "0" && row[3] == header);
        of.map(|row| format!("{} {}", row[5], row[6])).collect()
    };
    assert_eq!(statistics("Request Count"), ["avg 1.00"]);
    let latency = [
        "avg 80.00",
        "min 80.00",
        "max 80.00",
        "sum 80.00",
        "p1 80.00",
        "p5 80.00",
        "p10 80.00",
        "p25 80.00",
        "p50 80.00",
        "p75 80.00",
        "p90 80.00",
        "p95 80.00",
        "p99 80.00",
        "std 0.00",
    ];
    assert_eq!(statistics("Request Latency"), latency);
    let names = |header: &str| -> Vec<String> {
        statistics(header)
            .iter()
            .filter_map(|row| row.split_once(' '))
            .map(|(name, _)| name.to_owned())
            .collect()
    };
    assert_eq!(
        names("Effective Concurrency"),
        ["avg", "min", "max", "p50", "p90", "p95", "p99", "std"]
    );
    // One success and one failure: the upper percentiles are infinite.
    assert_eq!(
        names("Request Latency (error-adjusted)"),
        ["min", "p1", "p5", "p10", "p25", "p50"]
    );
}

#[test]
fn prefix_and_summary_switch_hold_for_slices_too() {
    let mut plan = with_slices(300);
    plan.artifacts.prefix = Some("foo".into());
    let tree = write_tree(plan, &three(), &RunEnd::Interrupted);
    assert!(tree.root().join("foo_timeslices.json").exists());
    assert!(tree.text("foo_timeslices.csv").contains("Request Count"));

    let mut plan = with_slices(300);
    plan.artifacts.summary_json = false;
    let tree = write_tree(plan, &three(), &RunEnd::Complete);
    assert!(!tree.root().join(JSON).exists() && tree.root().join(CSV).exists());
    // They are results, which another run must not find.
    let mut again = super::plan();
    again.artifacts.directory = tree.root().to_owned();
    again.artifacts.overwrite = true;
    ArtifactDirectory::prepare(&again).unwrap();
    assert!(!tree.root().join(CSV).exists());
}

#[test]
fn a_run_without_a_start_has_files_without_slices() {
    let tree = write_tree(with_slices(300), &[], &RunEnd::Interrupted);
    assert_eq!(tree.json(JSON)["timeslices"], json!([]));
    assert_eq!(tree.text(CSV), "Timeslice,Start_NS,End_NS,Metric,Unit,Stat,Value\r\n");
    assert!(
        !write_tree(plan(), &three(), &RunEnd::Complete)
            .root()
            .join(JSON)
            .exists()
    );
}

#[test]
fn what_is_ringloads_alone_in_the_config_stands_by_itself() {
    let mut plan = with_slices(300);
    plan.input_config = json!({"phases": [{"name": "baseline", "on_cap": "drop"}]});
    let document = write_tree(plan, &three(), &RunEnd::Complete).json(JSON);
    assert_eq!(document["input_config"], json!({"phases": [{"name": "baseline"}]}));
    let own = json!({"input_config": {"phases": {"baseline": {"on_cap": "drop"}}}});
    assert_eq!(document["ringload"], own);
}
