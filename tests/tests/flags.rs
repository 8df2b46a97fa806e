//! The program by flags alone and over a file, as people who have commands for the peer call it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use ringload_tests::binary;
use ringload_tests::mock;
use ringload_tests::program::{Ended, Program, Workplace, config, phase};
use ringload_tests::run::read_manifest;
use ringload_tests::server::{ScriptedServer, control_paths, whole_answer};
use serde_json::{Value, json};

/// `profile` with these words, without a file, into `results`.
fn profile(workplace: &Workplace, url: &str, line: &str) -> Ended {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    if !line.contains("artifact-dir") {
        words.extend(["--artifact-dir", "results"]);
    }
    workplace.profile_of_flags(url, &words)
}

/// Everything that a run wrote and said.
fn everything(folder: &Path, ended: &Ended) -> String {
    let mut all = format!("{}{}", ended.stdout, ended.stderr);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                all.push_str(&String::from_utf8_lossy(&fs::read(path).expect("a file")));
            }
        }
    }
    all
}

fn command_of(workplace: &Workplace) -> String {
    let root = workplace.root();
    let found = root.pointer("/run_info/cli_command").and_then(Value::as_str);
    found.unwrap_or_else(|| panic!("no command in {root:#}")).to_owned()
}

#[test]
fn the_quick_start_of_the_control_hooks_runs_by_flags_alone() {
    let server = mock(|_| {});
    let workplace = Workplace::new("");
    let line = "--endpoint-type chat --streaming --concurrency 8 --request-count 100 --reset-kv-cache --server-profiler --warmup-request-count 4 \
                --osl 4";
    profile(&workplace, &server.url(), line).expect(0);
    assert_eq!(
        control_paths(&server),
        ["/reset_prefix_cache", "/start_profile", "/stop_profile"]
    );
    let calls: Vec<u64> = server.control_log().iter().map(|call| call.monotonic_ns).collect();
    let ledger = server.ledger();
    assert_eq!(ledger.len(), 104, "no hook is a request");
    let arrivals = |range: std::ops::Range<usize>| ledger[range].iter().map(|entry| entry.receive_complete_ns);
    let ends = |range: std::ops::Range<usize>| ledger[range].iter().filter_map(|entry| entry.last_byte_ns);
    let story = [
        calls[0],
        arrivals(0..4).min().expect("warmup"),
        ends(0..4).max().expect("answers"),
        calls[1],
        arrivals(4..104).min().expect("load"),
        ends(4..104).max().expect("answers"),
        calls[2],
    ];
    assert!(story.is_sorted(), "{story:?}");
    let records = fs::read_to_string(workplace.path("results/profile_export.jsonl")).expect("records");
    assert_eq!(records.lines().count(), 104, "no hook is a record");
    assert!(
        !records.contains("reset_prefix_cache") && !records.contains("_profile\""),
        "no hook is in the records"
    );
    assert_eq!(workplace.root()["request_count"]["avg"], 100.0);
    assert!(ledger.iter().all(|entry| entry.in_flight_at_arrival <= 8));
}

#[test]
fn a_command_for_the_peer_runs_through_a_link_of_its_name() {
    let server = mock(|options| options.osl = None);
    let workplace = Workplace::new("");
    let link = workplace.path("aiperf");
    symlink(binary::ringload(), &link).expect("a link");
    let run = |line: &str| {
        let mut command = Command::new(&link);
        command.args(line.split_whitespace()).current_dir(workplace.folder());
        Program::start(command).end()
    };
    let line = format!(
        "profile --model mock-model --url {} --endpoint-type chat --streaming --tokenizer builtin --concurrency 2 --request-count 20 --isl 32 \
         --osl 8 --ui none --artifact-dir artifacts/cli_simple",
        server.url()
    );
    run(&line).expect(0);
    let text = fs::read(workplace.path("artifacts/cli_simple/profile_export_aiperf.json")).expect("a summary");
    let root: Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(root["request_count"]["avg"], 20.0);
    assert_eq!(
        (
            &root["input_sequence_length"]["avg"],
            &root["output_sequence_length"]["avg"]
        ),
        (&json!(32.0), &json!(8.0))
    );
    assert_eq!(
        root.pointer("/run_info/cli_command"),
        Some(&json!(format!("aiperf {line}")))
    );
    assert!(
        server
            .ledger()
            .iter()
            .all(|entry| entry.tokens_sent == 8 && entry.in_flight_at_arrival <= 2)
    );
    let help = run("profile -h").expect(0);
    assert!(help.stdout.contains("Usage: aiperf profile"), "{}", help.stdout);
    let plot = run("plot artifacts").expect(2);
    assert!(
        plot.stderr.starts_with("error: plot: not supported by ringload: "),
        "{}",
        plot.stderr
    );
    let below = run("config plot").expect(2);
    assert!(below.stderr.contains("unrecognized subcommand"), "{}", below.stderr);
    assert!(run("--version").expect(0).stdout.starts_with("ringload "));
}

#[test]
fn c06_extra_inputs_and_headers_reach_the_wire_with_their_types() {
    let seen: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
    let server = ScriptedServer::new({
        let seen = Arc::clone(&seen);
        move |mut client| {
            while let Some(request) = client.request() {
                let header = request.header("x-tier").unwrap_or_default().to_owned();
                let body = serde_json::from_slice(&request.body).expect("JSON");
                seen.lock().expect("no server panics").push((header, body));
                if !client.send(whole_answer()) {
                    break;
                }
            }
        }
    });
    let workplace = Workplace::new("");
    let line = "--header X-Tier:1 --extra-inputs min_tokens:10 ignore_eos:true temp:0.5 x:null --request-count 1";
    profile(&workplace, &format!("http://{}", server.address()), line).expect(0);
    let seen = seen.lock().expect("no server panics");
    let (header, body) = &seen[0];
    assert_eq!(header, "1");
    for (key, value) in [
        ("min_tokens", json!(10)),
        ("ignore_eos", json!(true)),
        ("temp", json!(0.5)),
        ("x", Value::Null),
    ] {
        assert_eq!(body.get(key), Some(&value), "{key} in {body}");
    }
    let extra = &workplace.root()["input_config"]["endpoint"]["extra"];
    assert_eq!(
        extra,
        &json!({"min_tokens": 10, "ignore_eos": true, "temp": 0.5, "x": null})
    );
}

#[test]
fn c09_a_warmup_of_no_requests_is_refused_with_the_advice_to_leave_it_out() {
    let server = mock(|_| {});
    let workplace = Workplace::new(&config(
        &server.url(),
        &phase("profiling", "concurrency: 2, requests: 3"),
    ));
    for ended in [
        profile(&workplace, &server.url(), "--warmup-request-count 0"),
        workplace.profile(&["--num-warmup-requests=0"]),
    ] {
        let ended = ended.expect(2);
        assert!(
            ended.stderr.contains("found `0`") && ended.stderr.contains("leave the flag out"),
            "{}",
            ended.stderr
        );
    }
    assert_eq!(server.counters().connections, 0);
}

#[test]
fn a_key_or_threshold_that_stands_twice_is_refused() {
    let workplace = Workplace::new("");
    for (words, name) in [
        ("--extra-inputs seed:1 --extra-inputs seed:2", "key `seed`"),
        ("--extra-inputs seed:1 {\"seed\":2}", "key `seed`"),
        (
            "--goodput request_latency:5 request_latency:6",
            "metric `request_latency`",
        ),
    ] {
        let mut line = vec!["profile", "--model", "m", "--dry-run"];
        line.extend(words.split(' '));
        let ended = workplace.run(&line).expect(2);
        let expected = format!("found the {name} twice; remove one");
        assert!(ended.stderr.contains(&expected), "{words}: {}", ended.stderr);
    }
}

#[test]
fn c14_credentials_of_flags_reach_the_server_and_are_masked_everywhere() {
    let server = mock(|_| {});
    let workplace = Workplace::new("");
    let url = server.url().replace("http://", "http://user:hunter2@");
    let line = "--header X-Api-Key:hunter2 -H X-Auth-Token:hunter2 --request-count 2 --reset-kv-cache-path=/reset_prefix_cache?token=hunter2";
    let ended = profile(&workplace, &url, line).expect(0);
    let command = command_of(&workplace);
    for part in ["X-Api-Key:", "-H", "--url", "@127.0.0.1"] {
        assert!(command.contains(part), "{part} is not in {command}");
    }
    let call = &server.control_log()[0];
    assert!(call.authorization && call.query == "token=hunter2");
    assert!(
        !everything(&workplace.path("results"), &ended).contains("hunter2"),
        "a credential is shown"
    );
}

#[test]
fn c14_credentials_of_a_url_are_a_basic_header_and_a_redirect_is_an_error_that_shows_the_location() {
    let seen: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let server = ScriptedServer::new({
        let seen = Arc::clone(&seen);
        move |mut client| {
            while let Some(request) = client.request() {
                let header = |name| request.header(name).unwrap_or_default().to_owned();
                seen.lock()
                    .expect("no server panics")
                    .push((header("authorization"), header("host")));
                if !client.send("HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\ncontent-length: 0\r\n\r\n")
                {
                    break;
                }
            }
        }
    });
    let workplace = Workplace::new("");
    let url = format!("http://user:hunter2@{}", server.address());
    let ended = profile(&workplace, &url, "--request-count 2 --no-server-metrics").expect(1);
    // The redirect is not followed: two requests were asked for and two came.
    let wanted = ("Basic dXNlcjpodW50ZXIy".to_owned(), server.address().to_string());
    assert_eq!(*seen.lock().expect("no server panics"), [wanted.clone(), wanted]);
    let error = &workplace.root()["error_summary"][0];
    assert_eq!(
        (&error["error_details"]["code"], &error["count"]),
        (&json!(307), &json!(2))
    );
    let message = error["error_details"]["message"].as_str().expect("a message");
    assert!(message.contains("/elsewhere"), "{message}");
    let shown = everything(&workplace.path("results"), &ended);
    assert!(!shown.contains("hunter2") && !shown.contains("dXNlcjpodW50ZXIy"));
}

#[test]
fn keys_are_in_no_file_however_they_are_given() {
    let server = mock(|options| options.api_key = Some("sk-hunter2".to_owned()));
    for line in [
        "--api-key sk-hunter2 --request-count 2",
        "--api-key=sk-hunter2 --request-count 2",
    ] {
        let workplace = Workplace::new("");
        let ended = profile(&workplace, &server.url(), line).expect(0);
        assert!(command_of(&workplace).contains("--api-key"));
        assert!(
            !everything(&workplace.path("results"), &ended).contains("hunter2"),
            "{line}"
        );
    }
}

/// With fewer prompts than requests the server would answer the rest from its prefix cache.
#[test]
fn without_a_file_no_prompt_is_sent_twice() {
    let server = mock(|options| {
        options.keep_messages = true;
        options.fast = true;
    });
    let workplace = Workplace::new("");
    profile(
        &workplace,
        &server.url(),
        "--concurrency 4 --request-count 150 --isl 20",
    )
    .expect(0);
    let ledger = server.ledger();
    let prompts: BTreeSet<&str> = ledger
        .iter()
        .filter_map(|entry| Some(entry.messages.as_ref()?.first()?.content.as_str()))
        .collect();
    assert_eq!((ledger.len(), prompts.len()), (150, 150));
}

#[test]
fn flags_change_the_only_profiling_phase_of_a_file() {
    let server = mock(|_| {});
    let phases = "    - {name: steady, kind: profiling, type: concurrency, concurrency: 2, requests: 3}\n";
    let workplace = Workplace::new(&config(&server.url(), phases));
    workplace
        .profile(&["--num-requests", "12", "--concurrency=4", "--no-streaming"])
        .expect(0);
    let entries = read_manifest(&workplace.path("results"));
    assert_eq!(
        (entries[0].phase_name.as_str(), entries[0].successful_request_count),
        ("steady", 12)
    );
    let input = &workplace.root()["input_config"];
    assert_eq!(
        (&input["phases"][0]["concurrency"], &input["endpoint"]["streaming"]),
        (&json!(4), &json!(false))
    );
    assert_eq!(server.counters().requests, 12);
}

#[test]
fn a_comma_list_runs_a_cell_for_each_value() {
    let server = mock(|_| {});
    let workplace = Workplace::new("");
    profile(
        &workplace,
        &server.url(),
        "--streaming --concurrency 1,3 --request-count 6 --osl 2",
    )
    .expect(0);
    for cell in ["concurrency_1", "concurrency_3"] {
        assert!(
            workplace
                .path("results")
                .join(cell)
                .join("profile_export_aiperf.json")
                .exists(),
            "{cell}"
        );
    }
    assert_eq!(server.counters().requests, 12);
}

#[test]
fn unknown_flags_get_a_hint_and_those_of_the_peer_a_reason() {
    let workplace = Workplace::new("");
    for (line, words) in [
        ("--concurency 3", "'--concurrency'"),
        ("--request-cout 3", "'--request-count'"),
        (
            "--server-metrics-discovery-mode auto",
            "--server-metrics-discovery-mode: not supported by ringload",
        ),
        (
            "--model m --gpu-telemetry pynvml",
            "not supported by ringload yet: `pynvml`",
        ),
        (
            "--model m --gpu-telemetry dashboard localhost:9400/metrics",
            "--gpu-telemetry: not supported by ringload yet: `dashboard`; leave the word out",
        ),
        ("--scenario x", "--scenario: not supported by ringload"),
        ("-vv", "-v: not supported by ringload"),
        (
            "--streaming --no-streaming",
            "--no-streaming and --streaming are the same flag",
        ),
        ("", "--model is required"),
    ] {
        let words_of_line = ["profile"]
            .into_iter()
            .chain(line.split_whitespace())
            .collect::<Vec<_>>();
        let ended = workplace.run(&words_of_line).expect(2);
        assert!(ended.stderr.contains(words), "{line}: {}", ended.stderr);
        assert_eq!(ended.stdout, "");
    }
}

#[test]
fn the_short_help_lists_flags_by_purpose_in_the_documented_order() {
    let workplace = Workplace::new("");
    let help = workplace.run(&["profile", "-h"]).expect(0).stdout;
    let headings: Vec<&str> = help
        .lines()
        .filter(|line| !line.starts_with(' ') && line.ends_with(':'))
        .collect();
    assert_eq!(
        headings,
        [
            "Options:",
            "Input:",
            "Endpoint:",
            "Dataset:",
            "Load:",
            "Warmup:",
            "Sessions:",
            "Control hooks and readiness:",
            "Sweep and trials:",
            "Output:",
            "Engine:"
        ]
    );
    assert!(!help.contains("--workers-max") && !help.contains("--num-requests") && !help.contains("--no-streaming"));
    // What is documented is what there is.
    let documented = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/command-line.md"))
        .expect("the table of flags");
    let (documented, _) = documented
        .split_once("\n## recover\n")
        .expect("the flags of other commands stand behind");
    let mut rows: Vec<&str> = documented
        .lines()
        .filter(|line| line.starts_with("| `-"))
        .filter_map(|line| line.split(" | ").next())
        .collect();
    rows.sort_unstable();
    for pair in rows.windows(2) {
        assert_ne!(pair[0], pair[1], "a flag has two rows");
    }
    for flag in help
        .split([' ', '[', ',', '\n'])
        .filter(|word| word.starts_with("--") && word.len() > 2)
    {
        let flag = flag.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        assert!(
            documented.contains(&format!("`{flag}`")) || documented.contains(&format!("`{flag} ")),
            "{flag} is not documented"
        );
    }
}

#[test]
fn what_a_flag_asked_is_answered_with_its_name() {
    let workplace = Workplace::new(&config(
        "http://127.0.0.1:1",
        "    - {name: load, kind: profiling, type: concurrency, concurrency: 4, prefill_concurrency: 2, requests: 9}\n  slos: {time_to_first_token: 5}\n",
    ));
    fs::write(workplace.path("texts.jsonl"), "{\"text\": \"a\"}\n").expect("a file");
    for (line, told) in [
        (
            "--no-streaming",
            &[
                "--no-streaming over test.yaml:14:93: benchmark.phases[0].prefill_concurrency: the end of a prefill",
                "--no-streaming over test.yaml:15:31: benchmark.slos.time_to_first_token: `time_to_first_token` is measured in streams",
            ][..],
        ),
        (
            "--concurrency 1",
            &["--concurrency over test.yaml:14:93: benchmark.phases[0].prefill_concurrency: found 2"],
        ),
        (
            "--concurrency 3 --endpoint-type embeddings",
            &[
                "--endpoint-type over test.yaml:14:93: benchmark.phases[0].prefill_concurrency: ",
                "--endpoint-type over test.yaml:15:31: benchmark.slos.time_to_first_token: ",
            ],
        ),
        (
            "--input-file texts.jsonl",
            &["--input-file: the dataset of the config file is not of type file"],
        ),
        (
            "--workers-max 3",
            &["--workers-max: not supported by ringload yet; remove the flag"],
        ),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let ended = workplace.profile(&[&words[..], &["--dry-run"]].concat());
        for told in told {
            assert!(ended.stderr.contains(told), "{line}: {told}\n{}", ended.stderr);
        }
        assert_eq!(ended.code, Some(2), "{line}: {}", ended.stderr);
        let mistakes = ended
            .stderr
            .lines()
            .filter(|line| line.starts_with("--") || line.starts_with("test.yaml"))
            .count();
        assert_eq!(mistakes, told.len(), "{line}: {}", ended.stderr);
    }
    // What the file alone has wrong stays a mistake of the file.
    fs::write(
        workplace.path("test.yaml"),
        config("http://127.0.0.1:1", &phase("load", "requests: 0")),
    )
    .expect("a config");
    let ended = workplace.profile(&["--no-streaming", "--isl", "0.5"]).expect(2);
    assert!(
        ended.stderr.lines().any(|line| line.starts_with("test.yaml:14:")),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_schedule_that_a_flag_asked_for_is_refused_under_its_name() {
    let workplace = Workplace::new(&config("http://127.0.0.1:1", &phase("load", "requests: 9")));
    let ended = workplace.profile(&["--fixed-schedule", "--dry-run"]).expect(2);
    assert!(
        ended.stderr.contains("--fixed-schedule over test.yaml:14:")
            && ended.stderr.contains("a fixed schedule replays the timestamps"),
        "{}",
        ended.stderr
    );
    // Without a file there is nothing but flags.
    fs::write(workplace.path("texts.jsonl"), "{\"text\": \"a\"}\n").expect("a file");
    let line = [
        "profile",
        "--model",
        "m",
        "--input-file",
        "texts.jsonl",
        "--fixed-schedule",
        "--dry-run",
    ];
    let ended = workplace.run(&line).expect(2);
    assert!(
        ended
            .stderr
            .starts_with("--fixed-schedule: a fixed schedule replays the timestamps")
            && ended.stderr.contains("texts.jsonl:1"),
        "{}",
        ended.stderr
    );
}

#[test]
fn advice_on_metrics_is_in_the_words_of_whoever_named_the_address() {
    let server = mock(|_| {});
    let nobody = "http://127.0.0.1:9/metrics";
    let workplace = Workplace::new("");
    let ended = profile(
        &workplace,
        &server.url(),
        &format!("--request-count 2 --server-metrics {nobody}"),
    )
    .expect(0);
    let told = format!("{}{}", ended.stdout, ended.stderr);
    assert!(
        told.contains("with --server-metrics, or give --no-server-metrics") && !told.contains("server_metrics.urls"),
        "{told}"
    );
    let text = config(&server.url(), &phase("load", "requests: 2")) + &format!("  server_metrics: {nobody}\n");
    let ended = Workplace::new(&text).profile(&[]).expect(0);
    let told = format!("{}{}", ended.stdout, ended.stderr);
    assert!(
        told.contains("in server_metrics.urls, or write server_metrics: false") && !told.contains("--server"),
        "{told}"
    );
}
