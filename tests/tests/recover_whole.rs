//! A journal that is whole gives what the run itself wrote: the same lines, the same figures, the same phases. And that of a run that stalled.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use ringload_tests::program::{Program, Workplace, config, phase};
use ringload_tests::server::faulty;
use ringload_tests::{eventually, mock};
use serde_json::{Map, Value};

/// What has a unit is a metric.
fn metrics(document: &Value) -> Map<String, Value> {
    let members = document.as_object().expect("a document");
    let metrics = members.iter().filter(|(_, value)| value.get("unit").is_some());
    metrics.map(|(tag, value)| (tag.clone(), value.clone())).collect()
}

/// Runs a config, ends with `code`, and recovers its results once more from a copy of its journal. Returns where both are, and what recovery said.
fn twice(text: &str, more: &[&str], code: i32) -> (Workplace, String) {
    let workplace = Workplace::new(text);
    let arguments = ["profile", "--config", "test.yaml", "--ui", "none", "--cores", "2"];
    let program = Program::start(workplace.command(&[&arguments, more].concat()));
    let (journal, copy) = (workplace.path("results/ringload.journal"), workplace.path("copy"));
    fs::create_dir(&copy).expect("a folder");
    // A second name for the file: the run removes the first one when everything is written.
    eventually("the journal", || {
        fs::hard_link(&journal, copy.join("ringload.journal")).is_ok()
    });
    program.end().expect(code);
    assert!(!journal.exists());
    let said = workplace.run(&["recover", "copy"]).expect(0).stdout;
    (workplace, said)
}

fn read(workplace: &Workplace, name: &str) -> String {
    fs::read_to_string(workplace.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn json(workplace: &Workplace, name: &str) -> Value {
    serde_json::from_str(&read(workplace, name)).expect("JSON")
}

fn assert_same(workplace: &Workplace, name: &str) {
    let [run, recovered] = ["results", "copy"].map(|place| read(workplace, &format!("{place}/{name}")));
    assert!(run == recovered, "{name}");
}

#[test]
fn traces_of_a_whole_journal_are_those_of_the_run_for_each_server() {
    let servers = [mock(|options| options.jitter = 0.5), mock(|_| {})];
    // Two servers whose heads differ in length, and a value that is masked in the journal although it is too short to be a secret.
    let path = "/v1/chat/completions";
    let text = config(
        &format!("{}{path}", servers[0].url()),
        &phase(
            "load",
            "concurrency: 4, requests: 120, cancellation: {rate: 20, delay: 0.003}",
        ),
    );
    let urls = format!(
        "    urls: [\"{}{path}?fault=every:7:status:503\", \"{}{path}\"]\n    headers: {{X-Key: ab, X-Tenant: blue}}\n",
        servers[0].url(),
        servers[1].url()
    );
    let at = text.find("    url: ").expect("a server");
    let end = at + text[at..].find('\n').expect("a line") + 1;
    let text = format!("{}{urls}{}", &text[..at], &text[end..]);
    let traced = |more: &str| text.replace("{dir: ./results}", &format!("{{dir: ./results, trace: true{more}}}"));

    let (workplace, said) = twice(&traced(", raw: true"), &[], 0);
    for name in ["profile_export.jsonl", "profile_export_raw.jsonl", "outputs.json"] {
        assert_same(&workplace, name);
    }
    assert!(!said.contains("not written"), "{said}");
    let lines = read(&workplace, "copy/profile_export.jsonl");
    let hosts: BTreeSet<String> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .filter(|line| line["error"].is_null())
        .map(|line| {
            let headers = &line["trace_data"]["request_headers"];
            assert_eq!(
                (&headers["X-Key"], &headers["X-Tenant"]),
                (&"<redacted>".into(), &"blue".into())
            );
            headers["Host"].as_str().expect("a host").to_owned()
        })
        .collect();
    assert_eq!(
        hosts,
        servers.each_ref().map(|server| server.address().to_string()).into()
    );

    let (workplace, said) = twice(&traced(""), &[], 0);
    assert_same(&workplace, "profile_export.jsonl");
    assert!(!said.contains("not written"), "{said}");

    let secret = traced("").replace("X-Tenant: blue", "X-Token: a-long-secret");
    let (workplace, said) = twice(&secret, &[], 0);
    assert!(
        said.contains("trace_data is not written: the config has credentials"),
        "{said}"
    );
    assert!(read(&workplace, "results/profile_export.jsonl").contains("trace_data"));
    assert!(!read(&workplace, "copy/profile_export.jsonl").contains("trace_data"));
}

#[test]
fn slices_of_a_whole_journal_are_those_of_the_run_or_too_many_of_both() {
    let server = mock(|options| options.ttft = Duration::from_millis(20));
    let sliced = |length: &str| {
        let phases = phase("warmup", "concurrency: 1, requests: 2") + &phase("load", "concurrency: 3, requests: 60");
        let text = config(&server.url(), &phases);
        text.replace(
            "{dir: ./results}",
            &format!("{{dir: ./results, slice_duration: {length}}}"),
        )
    };
    let (workplace, _) = twice(&sliced("100ms"), &[], 0);
    assert_same(&workplace, "profile_export_aiperf_timeslices.csv");
    let slices =
        |place: &str| json(&workplace, &format!("{place}/profile_export_aiperf_timeslices.json"))["timeslices"].take();
    assert_eq!(slices("results"), slices("copy"));
    assert!(slices("copy").as_array().is_some_and(|slices| slices.len() > 1));

    let (workplace, said) = twice(&sliced("0.000001"), &[], 0);
    assert!(
        said.contains("artifacts.slice_duration: profile_export_aiperf_timeslices is not written"),
        "{said}"
    );
    assert!(!workplace.path("copy/profile_export_aiperf_timeslices.csv").exists());
}

#[test]
fn a_run_that_stalled_is_recovered_as_one_that_stalled() {
    let server = faulty("hang");
    let text = config(&server.url(), &phase("load", "concurrency: 2, requests: 9"));
    let (workplace, said) = twice(&text, &["--stall-timeout", "1"], 1);
    assert!(said.starts_with("2 requests recovered from "), "{said}");
    assert_same(&workplace, "profile_export.jsonl");
    let name = "phases/load/profile_export_aiperf.json";
    let [run, recovered] = ["results", "copy"].map(|place| json(&workplace, &format!("{place}/{name}")));
    assert_eq!(run["ringload"]["stop_reason"], "stalled");
    for key in ["stop_reason", "drain_cut", "truncated_request_count", "sent"] {
        assert_eq!(run["ringload"][key], recovered["ringload"][key], "{key}");
    }
    for key in ["is_complete", "incomplete_reason"] {
        assert_eq!(run[key], recovered[key], "{key}");
    }
    assert_eq!(
        json(&workplace, "copy/profile_export_aiperf.json")["is_complete"],
        false
    );
}

#[test]
fn the_files_of_a_run_are_identified_in_what_is_recovered_of_it() {
    let server = mock(|_| {});
    let place = tempfile::tempdir().expect("a folder");
    let [prompts, system] = ["prompts.jsonl", "system.txt"].map(|name| place.path().join(name));
    fs::write(&prompts, "{\"text\": \"one\"}\n{\"text\": \"two\"}\n").expect("a file");
    fs::write(&system, "be brief").expect("a file");
    let text = config(&server.url(), &phase("load", "concurrency: 2, requests: 100"));
    let files = format!(
        "type: file\n    path: {}\n    system_prompt_file: {}\n",
        prompts.display(),
        system.display()
    );
    let synthetic = "type: synthetic\n    entries: 8\n    prompts: {isl: 16, osl: 4}\n";
    assert!(text.contains(synthetic));
    let text = text.replace(synthetic, &files);
    let (workplace, _) = twice(&text, &[], 0);
    let [run, recovered] =
        ["results", "copy"].map(|place| json(&workplace, &format!("{place}/profile_export_aiperf.json")));
    for key in ["plan_hash", "dataset_sha256", "system_prompt_sha256"] {
        assert!(run["ringload"][key].is_string(), "{key}");
        assert_eq!(run["ringload"][key], recovered["ringload"][key], "{key}");
    }
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
    let (workplace, said) = twice(&text, &[], 0);
    assert!(said.starts_with("620 requests recovered from "), "{said}");
    let json = |place: &str, name: &str| json(&workplace, &format!("{place}/{name}"));
    let read = |place: &str, name: &str| read(&workplace, &format!("{place}/{name}"));
    let mut same = vec!["profile_export.jsonl".to_owned()];
    let mut documents = vec!["profile_export_aiperf.json".to_owned()];
    for name in ["warmup", "first", "second"] {
        same.push(format!("phases/{name}/profile_export_aiperf.csv"));
        documents.push(format!("phases/{name}/profile_export_aiperf.json"));
    }
    for name in &same {
        assert_same(&workplace, name);
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

#[test]
fn a_run_that_is_killed_while_nothing_moves_has_no_stop_reason_and_says_what_was_in_flight() {
    let server = faulty("every:3:hang");
    let workplace = Workplace::new(&config(&server.url(), &phase("load", "concurrency: 2, requests: 100")));
    let program = workplace.start_profile(&["--stall-timeout", "inf"]);
    let journal = workplace.path("results/ringload.journal");
    // Both slots are taken for ever, and the journal knows.
    let counted = b"\"sent\":6,\"succeeded\":4";
    eventually("the moment to die", || {
        let bytes = fs::read(&journal).unwrap_or_default();
        bytes.windows(counted.len()).any(|window| window == counted)
    });
    program.signal("KILL");
    assert_eq!(program.end().code, None, "a signal ended it");
    let said = workplace.run(&["recover", "results"]).expect(0).stdout;
    for part in ["phase load was under way", "the last count had 2 in flight"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let summary = json(&workplace, "results/phases/load/profile_export_aiperf.json");
    assert!(summary["ringload"]["stop_reason"].is_null(), "{summary:#}");
    let root = workplace.root();
    assert_eq!(
        root["ringload"]["recovered"]["phases_under_way"]["load"]["in_flight"],
        2
    );
}
