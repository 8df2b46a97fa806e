//! A journal that is whole gives what the run itself wrote: the same lines, the same figures, the same phases.

use std::fs;

use ringload_tests::program::{Program, Workplace, config, phase};
use ringload_tests::{eventually, mock};
use serde_json::{Map, Value};

/// What has a unit is a metric.
fn metrics(document: &Value) -> Map<String, Value> {
    let members = document.as_object().expect("a document");
    let metrics = members.iter().filter(|(_, value)| value.get("unit").is_some());
    metrics.map(|(tag, value)| (tag.clone(), value.clone())).collect()
}

#[test]
fn what_is_recovered_of_a_whole_journal_is_what_the_run_wrote() {
    let server = mock(|options| options.jitter = 0.5);
    let phases = phase("warmup", "concurrency: 2, requests: 20")
        + &phase(
            "first",
            "concurrency: 4, requests: 300, cancellation: {rate: 20, delay: 0.003}",
        )
        + "    - {name: second, kind: profiling, type: poisson, rate: 200, requests: 300, seamless: true}\n";
    let text = config(
        &format!("{}/v1/chat/completions?fault=every:7:status:503", server.url()),
        &phases,
    );
    let text = text.replace("  phases:\n", "  slos: {request_latency: 6}\n  phases:\n");
    let workplace = Workplace::new(&text);
    let arguments = ["profile", "--config", "test.yaml", "--ui", "none", "--cores", "2"];
    let program = Program::start(workplace.command(&arguments));
    let (journal, copy) = (workplace.path("results/ringload.journal"), workplace.path("copy"));
    fs::create_dir(&copy).expect("a folder");
    // A second name for the file: the run removes the first one when everything is written.
    eventually("the journal", || {
        fs::hard_link(&journal, copy.join("ringload.journal")).is_ok()
    });
    program.end().expect(0);
    assert!(!journal.exists());
    let ended = workplace.run(&["recover", "copy"]).expect(0);
    assert!(
        ended.stdout.starts_with("620 requests recovered from "),
        "{}",
        ended.stdout
    );

    let read = |place: &str, name: &str| {
        fs::read_to_string(workplace.path(place).join(name)).unwrap_or_else(|error| panic!("{place}/{name}: {error}"))
    };
    let json = |place: &str, name: &str| serde_json::from_str::<Value>(&read(place, name)).expect("JSON");
    let mut same = vec!["profile_export.jsonl".to_owned()];
    let mut documents = vec!["profile_export_aiperf.json".to_owned()];
    for name in ["warmup", "first", "second"] {
        same.push(format!("phases/{name}/profile_export_aiperf.csv"));
        documents.push(format!("phases/{name}/profile_export_aiperf.json"));
    }
    for name in &same {
        assert!(read("results", name) == read("copy", name), "{name}");
    }
    // A table of GPUs follows in the run's own, though there are none.
    let name = "profile_export_aiperf.csv";
    assert!(read("results", name).starts_with(&read("copy", name)), "{name}");
    for name in &documents {
        let (run, recovered) = (json("results", name), json("copy", name));
        assert_eq!(metrics(&run), metrics(&recovered), "{name}");
        for key in [
            "benchmark_id",
            "input_config",
            "run_info",
            "error_summary",
            "start_time",
            "end_time",
        ] {
            assert_eq!(run[key], recovered[key], "{name}: {key}");
        }
        for key in [
            "sent",
            "succeeded",
            "failed",
            "cancelled",
            "slos",
            "stop_reason",
            "seed",
            "driver",
            "plan_hash",
        ] {
            assert_eq!(
                run["ringload"][key], recovered["ringload"][key],
                "{name}: ringload.{key}"
            );
        }
        let lag = |document: &Value| document["ringload"]["send_lag"]["p99"].as_f64().expect("a figure");
        assert_eq!(lag(&run), lag(&recovered), "{name}");
    }
    let phases = |place: &str| {
        let mut manifest = json(place, "phase_manifest.json");
        for phase in manifest["phases"].as_array_mut().expect("a list") {
            // What the server said of itself is in no journal.
            phase.as_object_mut().expect("a phase").remove("server_metrics_json");
        }
        manifest
    };
    assert_eq!(phases("results"), phases("copy"));
    let root = json("copy", "profile_export_aiperf.json");
    assert_eq!(
        (&root["is_complete"], &root["was_cancelled"]),
        (&false.into(), &false.into())
    );
    assert_eq!(root["ringload"]["recovered"]["missing_requests_at_least"], 0);
    assert!(
        root["error_summary"]
            .as_array()
            .is_some_and(|errors| !errors.is_empty()),
        "there were failures"
    );
}
