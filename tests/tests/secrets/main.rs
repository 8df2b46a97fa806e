//! Credentials leave the process on the wire to the server and nowhere else.
//!
//! Every place of a config that takes a credential gets a canary. Then everything that a run leaves, console and files, is searched for the canaries,
//! plain, in base64 and percent-encoded. What the server received is searched too: a canary that was never sent could not have leaked.

mod canaries;

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use canaries::{Echo, assert_clean, base64, config, echoing, found_in, profile, run};
use ringload_tests::program::{Program, Workplace};
use ringload_tests::server::{ScriptedServer, nobody, whole_answer};
use ringload_tests::{eventually, mock};

#[test]
fn a_run_that_passes_shows_no_credential() {
    let server = ScriptedServer::new(|mut client| {
        while client.request().is_some() {
            client.send(whole_answer());
        }
    });
    let place = Workplace::new(&config(&server.address().to_string(), ""));
    let ended = profile(&place, &[]).expect(0);
    assert!(place.path("results/profile_export.jsonl").exists() && place.path("results/inputs.json").exists());
    assert_clean("a run that passes", &place, &ended);
    for arguments in [
        &["config", "validate", "test.yaml"][..],
        &["config", "validate", "--format", "json", "test.yaml"],
        &["config", "expand", "test.yaml"],
        &[
            "profile",
            "--config",
            "test.yaml",
            "--dry-run",
            "--output-artifact-dir",
            "dry",
        ],
    ] {
        let ended = run(&place, arguments).expect(0);
        assert_clean(&format!("{arguments:?}"), &place, &ended);
    }
    // Flags carry credentials too.
    let path = "/reset_prefix_cache?token=zq9HOOK";
    let ended = profile(&place, &["--overwrite", "--reset-kv-cache-path", path]).expect(0);
    assert_clean("a run with flags", &place, &ended);
}

#[test]
fn a_run_that_is_killed_leaves_no_credential_and_neither_does_its_recovery() {
    for echo in [Echo::Refuse, Echo::StreamError, Echo::Reason] {
        let (server, _) = echoing(echo, false);
        let text = config(&server.address().to_string(), "");
        let text = text
            // Both keep answers as they come until the run writes them out, see `docs/recover.md`.
            .replace(", raw: true, trace: true", "")
            .replace("concurrency: 2, requests: 4", "concurrency: 2, duration: 10m");
        let place = Workplace::new(&text);
        let mut command = place.command(&["profile", "--config", "test.yaml", "--ui", "none", "--cores", "1"]);
        command.env("CANARY_TOKEN", "zq11ENV");
        let program = Program::start(command);
        let journal = place.path("results/ringload.journal");
        eventually("some records", || {
            fs::metadata(&journal).is_ok_and(|journal| journal.len() > 70_000)
        });
        program.signal("KILL");
        let ended = program.end();
        let bytes = fs::read(&journal).expect("a journal");
        let masked = bytes.windows(10).any(|window| window == b"<redacted>");
        assert!(masked, "{echo:?}: the server was to say a credential");
        assert_clean(&format!("{echo:?}, killed"), &place, &ended);
        let ended = run(&place, &["recover", "results"]).expect(0);
        assert!(place.path("results/profile_export.jsonl").exists());
        assert_clean(&format!("{echo:?}, recovered"), &place, &ended);
    }
}

#[test]
fn a_server_that_echoes_credentials_tells_nobody() {
    for echo in [
        Echo::Refuse,
        Echo::Redirect,
        Echo::StreamError,
        Echo::Reason,
        Echo::Headers,
    ] {
        for hooks in [false, true] {
            let (server, seen) = echoing(echo, hooks);
            let place = Workplace::new(&config(&server.address().to_string(), ""));
            let passes = matches!(echo, Echo::Headers);
            let ended = profile(&place, &[]).expect(i32::from(!passes));
            assert_clean(&format!("{echo:?}, hooks {hooks}"), &place, &ended);
            let seen = seen.lock().expect("no client panics").concat();
            let sent = found_in(seen.as_bytes());
            // With hooks that fail nothing but a hook was sent.
            let wanted = if hooks && !passes { "zq2XAPI" } else { "zq8EXTRA" };
            if passes {
                let records = fs::read_to_string(place.path("results/profile_export.jsonl")).expect("records");
                assert!(records.contains(r#""X-Seen":"Basic <redacted>"#), "{records}");
            }
            assert!(
                sent.iter().any(|canary| canary == wanted),
                "{echo:?}: {wanted} was never sent, only {sent:?}"
            );
        }
    }
}

#[test]
fn a_server_that_is_not_there_tells_nobody() {
    let place = Workplace::new(&config(&nobody().to_string(), ""));
    let ended = profile(&place, &[]).expect(1);
    assert_clean("no server", &place, &ended);
    let without_hooks = config(&nobody().to_string(), "")
        .lines()
        .filter(|line| !line.contains("zq9HOOK"))
        .collect::<Vec<_>>()
        .join("\n");
    let place = Workplace::new(&without_hooks);
    let ended = profile(&place, &[]).expect(1);
    assert_clean("no server and no hooks", &place, &ended);
    let waiting = without_hooks.replace(
        "    streaming: true\n",
        "    streaming: true\n    wait_for_model_timeout: 1s\n    wait_for_model_interval: 100ms\n",
    );
    let place = Workplace::new(&waiting);
    let ended = profile(&place, &[]).expect(1);
    assert_clean("no server to wait for", &place, &ended);
}

#[test]
fn sweeps_show_no_credential_either() {
    let server = mock(|_| {});
    let sweeps = [
        "{type: grid, parameters: {endpoint.headers.X-Api-Key: [zq12SWEPT1, zq12SWEPT2]}}",
        "{type: grid, parameters: {endpoint.headers: [{Cookie: zq12SWEPT1}, {Cookie: zq12SWEPT2}]}}",
        "{type: grid, parameters: {variables.service_token: [zq12SWEPT1, zq12SWEPT2]}}",
        "{type: grid, parameters: {endpoint.extra: [{access_token: zq12SWEPT1}, {access_token: zq12SWEPT2}]}}",
        "{type: scenarios, runs: [{name: a, variables: {service_token: zq12SWEPT1}}, {name: b, values: {endpoint.headers.Cookie: zq12SWEPT2}}]}",
    ];
    for sweep in sweeps {
        let place = Workplace::new(&config(&server.address().to_string(), &format!("sweep: {sweep}\n")));
        let ended = profile(&place, &[]).expect(0);
        assert_clean(sweep, &place, &ended);
    }
    // A credential that only some cells have leaks in none, also when all fail.
    let (server, _) = echoing(Echo::Refuse, false);
    let place = Workplace::new(&config(
        &server.address().to_string(),
        &format!("sweep: {}\n", sweeps[0]),
    ));
    let ended = profile(&place, &[]).expect(1);
    assert_clean("a sweep that fails", &place, &ended);
}

#[test]
fn mistakes_beside_a_credential_do_not_show_it() {
    let good = config("127.0.0.1:1", "");
    let edits: [(&str, &str); 24] = [
        ("type: chat", "type: chatt"),
        ("type: chat", "api_key: zq1KEY, type: chat"),
        ("type: chat", "api_key: [zq1KEY]\n    type: chat"),
        ("type: chat", "api_key: {a: zq1KEY}\n    type: chat"),
        ("type: chat", "apikey: zq1KEY\n    type: chat"),
        ("type: chat", "api_kye: zq1KEY\n    type: chat"),
        ("type: chat", "api_key: \"zq1KEY\\n\"\n    type: chat"),
        ("type: chat", "api_key: \"zq1KEY\n    type: chat"),
        ("type: chat", "api_key: zq1KEY ${NOT_SET}\n    type: chat"),
        ("type: chat", "api_key: \"zq1KEY {{ nope }}\"\n    type: chat"),
        ("type: chat", "api_key: \"zq1KEY {{\"\n    type: chat"),
        ("type: chat", "api_key: !!int zq1KEY\n    type: chat"),
        ("type: chat", "api_key: zq1KEY\n    api_key: zq1KEY\n    type: chat"),
        ("http://zq5USER", "ftp://zq5USER"),
        ("127.0.0.1:1", "127.0.0.1:99999"),
        ("127.0.0.1:1", "[::1"),
        ("Cookie: session=zq3COOKIE", "Cookie: \"session=zq3COOKIE\\x01\""),
        ("Cookie: session=zq3COOKIE", "Cookie : [zq3COOKIE]"),
        ("Cookie: session=zq3COOKIE", "\"Coo kie\": zq3COOKIE"),
        ("X-Env: ${CANARY_TOKEN}", "X-Env: \"${CANARY_TOKEN}\\x01\""),
        ("X-Env: ${CANARY_TOKEN}", "X-Env: x\n    streaming: ${CANARY_TOKEN}"),
        ("requests: 4", "requests: \"{{ service_token }}\""),
        ("requests: 4", "requests: \"{{ service_token + 1 }}\""),
        ("/reset_prefix_cache?token=zq9HOOK", "reset?token=zq9HOOK"),
    ];
    for (from, to) in edits {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        let place = Workplace::new(&text);
        for arguments in [
            &["config", "validate", "test.yaml"][..],
            &["config", "validate", "--format", "json", "test.yaml"],
            &["profile", "--config", "test.yaml"],
        ] {
            let ended = run(&place, arguments);
            assert_eq!(ended.code, Some(2), "{to}: {}{}", ended.stdout, ended.stderr);
            assert_clean(to, &place, &ended);
        }
    }
    // A tab stops the scanner, so nobody knows which lines hold a credential.
    for line in good.lines() {
        let text = good.replacen(line, &format!("{line}\n\t]"), 1);
        let place = Workplace::new(&text);
        let ended = run(&place, &["config", "validate", "test.yaml"]);
        assert_clean(line, &place, &ended);
    }
}

#[test]
fn credentials_on_the_command_line_are_shown_by_nobody() {
    let (server, seen) = echoing(Echo::Refuse, false);
    let url = format!("http://{}/v1/chat/completions?key=zq7QUERY", server.address());
    let login = format!("http://zq5USER:zq6PASS@{}", server.address());
    let flags = [
        vec![
            "--url",
            &url,
            "--api-key",
            "zq1KEY",
            "-H",
            "X-Api-Key: zq2XAPI",
            "--extra-inputs",
            "access_token:zq8EXTRA",
        ],
        vec![
            "--url",
            &login,
            "--header",
            "Cookie: a=zq3COOKIE",
            "--extra-inputs",
            "{\"nested\": {\"secret\": \"zq8EXTRA\"}}",
        ],
    ];
    for flags in flags {
        let place = Workplace::new("");
        let common = [
            "profile",
            "--ui",
            "none",
            "--cores",
            "1",
            "--model",
            "m",
            "--request-count",
            "3",
            "--output-artifact-dir",
            "results",
        ];
        let ended = run(&place, &[&common, &flags[..]].concat()).expect(1);
        assert!(
            place.path("results/profile_export_aiperf.json").exists(),
            "{}",
            ended.stderr
        );
        assert_clean(&format!("{flags:?}"), &place, &ended);
        // Beside a mistake.
        let ended = run(
            &place,
            &[&common, &flags[..], &["--concurrency", "0", "--overwrite"]].concat(),
        )
        .expect(2);
        assert_clean(&format!("{flags:?} and a mistake"), &place, &ended);
    }
    let seen = seen.lock().expect("no client panics").concat();
    let sent = found_in(seen.as_bytes());
    for canary in [
        "zq1KEY",
        "zq2XAPI",
        "zq3COOKIE",
        "zq7QUERY",
        "zq8EXTRA",
        &base64("zq5USER:zq6PASS"),
    ] {
        assert!(
            sent.iter().any(|found| found == canary),
            "{canary} was never sent, only {sent:?}"
        );
    }
    // A mistake in the credential itself.
    for flags in [
        ["--url", "ftp://zq5USER:zq6PASS@h"],
        ["--api-key", "zq1KEY\n"],
        ["-H", "Bad Name: zq2XAPI"],
        ["-H", "X-Api-Key zq2XAPI"],
    ] {
        let place = Workplace::new("");
        let ended = run(
            &place,
            &[&["profile", "--model", "m", "--request-count", "3"], &flags[..]].concat(),
        )
        .expect(2);
        assert_clean(&format!("{flags:?}"), &place, &ended);
    }
}

/// Everything that a table of columns holds, texts of its head included, in words: its bytes may be packed.
fn columns(path: &Path) -> String {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let file = SerializedFileReader::try_from(path).expect("a file of columns");
    let rows = file
        .get_row_iter(None)
        .expect("rows")
        .map(|row| format!("{:?}", row.expect("a row")));
    let rows: Vec<String> = rows.collect();
    assert!(!rows.is_empty(), "a table without rows hides nothing");
    format!(
        "{:?}\n{}",
        file.metadata().file_metadata().key_value_metadata(),
        rows.join("\n")
    )
}

#[test]
fn metrics_that_show_credentials_bring_them_into_no_artifact() {
    let seen = Arc::new(Mutex::new(String::new()));
    let log = Arc::clone(&seen);
    let server = ScriptedServer::new(move |mut client| {
        let mut scrapes = 0;
        while let Some(request) = client.request() {
            if request.head.contains("/v1/chat/completions") {
                client.send(whole_answer());
                continue;
            }
            log.lock().expect("no client panics").push_str(&request.head);
            scrapes += 1;
            let login = request.header("authorization").unwrap_or("none").to_owned();
            let path = request.head.split_whitespace().nth(1).unwrap_or_default().to_owned();
            let text = format!(
                "# HELP v:run Asked by {login} with zq3COOKIE at {path}\n# TYPE v:run gauge\nv:run{{auth=\"{login}\",tenant=\"zq10VARIABLE\"}} {scrapes}\n\
                 # TYPE v:tok_total counter\nv:tok_total{{key=\"zq2XAPI\"}} {scrapes}\n# TYPE v:config_info gauge\nv:config_info{{api_key=\"zq4SUBSCRIPTION\"}} 1\n\
                 # TYPE v:lat histogram\nv:lat_bucket{{le=\"+Inf\",env=\"zq11ENV\"}} {scrapes}\nv:lat_sum{{env=\"zq11ENV\"}} 1\nv:lat_count{{env=\"zq11ENV\"}} {scrapes}\n\
                 zq8EXTRA {scrapes}\n# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n\
                 DCGM_FI_DEV_POWER_USAGE{{gpu=\"0\",UUID=\"GPU-zq2XAPI\",device=\"nvidia0\",modelName=\"{login}\",Hostname=\"zq3COOKIE\"}} 300\n"
            );
            client.send(format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{text}",
                text.len()
            ));
        }
    });
    let host = server.address().to_string();
    let text = config(&host, "")
        .lines()
        .filter(|line| !line.contains("zq9HOOK"))
        .collect::<Vec<_>>()
        .join("\n")
        .replace("requests: 4}", "duration: 1s}")
        + &format!(
            "\n  server_metrics: {{urls: [\"http://{host}/x/metrics?key=zq7QUERY\"], formats: [json, csv, jsonl, parquet]}}\n  gpu_telemetry: \
             {{urls: [\"http://{host}/dcgm/metrics?token=zq7QUERY\"]}}\n"
        );
    let place = Workplace::new(&text);
    let ended = profile(&place, &[]).expect(0);
    for file in [
        "server_metrics_export.json",
        "server_metrics_export.csv",
        "server_metrics_export.jsonl",
        "server_metrics_export.parquet",
        "gpu_telemetry_export.jsonl",
        "phases/load/server_metrics.json",
        "phases/load/gpu_telemetry.json",
    ] {
        let length = fs::metadata(place.path("results").join(file)).map(|file| file.len());
        assert!(
            length.is_ok_and(|length| length > 0),
            "{file} is missing: {}{}",
            ended.stdout,
            ended.stderr
        );
    }
    assert_clean("metrics that show credentials", &place, &ended);
    let leaks = found_in(columns(&place.path("results/server_metrics_export.parquet")).as_bytes());
    assert!(leaks.is_empty(), "{leaks:?}");
    let export = fs::read_to_string(place.path("results/server_metrics_export.json")).expect("an export");
    assert!(export.contains("<redacted>") && export.contains("v:run"), "{export}");
    let sent = found_in(seen.lock().expect("no client panics").as_bytes());
    assert!(
        sent.iter().any(|canary| canary == "zq2XAPI"),
        "the server was shown none, only {sent:?}"
    );
}

#[test]
fn a_refused_address_shows_no_part_that_may_be_a_secret() {
    for url in [
        "http://zq5USER:zq6/PASS@h",
        "http://zq5USER:zq6PASS#x@h",
        "http://zq5USER:zq6PASS?x@h:0",
        "http://h/#zq7QUERY",
        "http://h/v1#access_token=zq7QUERY",
        "ftp://zq5USER:zq6PASS@h",
        "http://h:99999/?anything=zq7QUERY",
        "unix:zq5USER@h",
        "http://zq5USER:zq6PASS@h /v1",
    ] {
        let place = Workplace::new("");
        let line = ["profile", "--model", "m", "--url", url];
        assert_clean(url, &place, &run(&place, &line).expect(2));
        for (from, to) in [
            (
                "    url: http://zq5USER:zq6PASS@127.0.0.1:1/v1/chat/completions?api_key=zq7QUERY&key=zq7QUERY&n=1",
                format!("    url: '{url}'"),
            ),
            ("  artifacts:", format!("  server_metrics: '{url}'\n  artifacts:")),
            ("path: \"/reset_prefix_cache?token=zq9HOOK\"", format!("path: '{url}'")),
        ] {
            let good = config("127.0.0.1:1", "");
            let text = good.replacen(from, &to, 1);
            assert_ne!(text, good, "{from}");
            let place = Workplace::new(&text);
            let ended = run(&place, &["config", "validate", "test.yaml"]).expect(2);
            assert_clean(url, &place, &ended);
        }
    }
}
