//! Credentials leave the process on the wire to the server and nowhere else.
//!
//! Every place of a config that takes a credential gets a canary. Then everything that a run leaves, console and files, is searched for the canaries,
//! plain, in base64 and percent-encoded. What the server received is searched too: a canary that was never sent could not have leaked.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ringload_tests::program::{Ended, Program, Workplace};
use ringload_tests::server::{Client, ScriptedServer, nobody, whole_answer};
use ringload_tests::{eventually, mock};

/// Endings of the canaries: a text that no word of ours holds.
const CANARIES: [&str; 12] = [
    "zq1KEY",
    "zq2XAPI",
    "zq3COOKIE",
    "zq4SUBSCRIPTION",
    "zq5USER",
    "zq6PASS",
    "zq7QUERY",
    "zq8EXTRA",
    "zq9HOOK",
    "zq10VARIABLE",
    "zq11ENV",
    "zq12SWEPT",
];

fn base64(text: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bits = text
        .bytes()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1))
        .peekable();
    let mut encoded = String::new();
    while bits.peek().is_some() {
        let six = (0..6).fold(0, |six, _| six << 1 | usize::from(bits.next().unwrap_or(0)));
        encoded.push(char::from(ALPHABET[six]));
    }
    encoded
}

/// Every canary that a text holds, in any of the forms in which it travels.
fn found_in(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut found: Vec<String> = CANARIES
        .iter()
        .filter(|canary| text.contains(*canary))
        .map(|canary| (*canary).to_owned())
        .collect();
    let pair = base64("zq5USER:zq6PASS");
    found.extend(text.contains(&pair).then_some(pair));
    found
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder that is readable") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Asserts that nothing which the program left holds a canary: output, names of files, and every byte of them but the config's own.
fn assert_clean(what: &str, place: &Workplace, ended: &Ended) {
    let mut leaks = Vec::new();
    for (name, text) in [("stdout", &ended.stdout), ("stderr", &ended.stderr)] {
        leaks.extend(
            found_in(text.as_bytes())
                .into_iter()
                .map(|canary| format!("{canary} in {name}:\n{text}")),
        );
    }
    for path in files(place.folder()) {
        let name = path
            .strip_prefix(place.folder())
            .expect("a file of the folder")
            .display()
            .to_string();
        leaks.extend(
            found_in(name.as_bytes())
                .into_iter()
                .map(|canary| format!("{canary} in the name {name}")),
        );
        if name == "test.yaml" {
            continue;
        }
        let bytes = fs::read(&path).expect("a readable file");
        leaks.extend(found_in(&bytes).into_iter().map(|canary| {
            let text = String::from_utf8_lossy(&bytes);
            let before: String = text
                .split(&canary)
                .next()
                .unwrap_or_default()
                .chars()
                .rev()
                .take(200)
                .collect();
            let before: String = before.chars().rev().collect();
            format!("{canary} in {name}: ...{before}{canary}...")
        }));
    }
    assert!(
        leaks.is_empty(),
        "{what}: exit {:?}\n{}",
        ended.code,
        leaks.join("\n\n")
    );
}

/// A config that has a credential wherever it takes one. `{host}` is the server's.
fn config(host: &str, more: &str) -> String {
    format!(
        "schemaVersion: \"2.0\"
variables: {{service_token: zq10VARIABLE}}
{more}benchmark:
  model: mock-model
  endpoint:
    url: http://zq5USER:zq6PASS@{host}/v1/chat/completions?api_key=zq7QUERY&key=zq7QUERY&n=1
    type: chat
    streaming: true
    headers:
      X-Api-Key: zq2XAPI
      Cookie: session=zq3COOKIE
      Ocp-Apim-Subscription-Key: zq4SUBSCRIPTION
      X-Tenant: \"{{{{ service_token }}}}\"
      X-Env: ${{CANARY_TOKEN}}
    extra: {{access_token: zq8EXTRA, nested: {{list: [{{secret: zq8EXTRA}}]}}}}
    reset_kv_cache: {{path: \"/reset_prefix_cache?token=zq9HOOK\", timeout_seconds: 2, max_retry_seconds: 0}}
    server_profiler: {{start_path: \"/start_profile?token=zq9HOOK\", stop_path: \"/stop_profile?token=zq9HOOK\"}}
  dataset: {{type: synthetic, entries: 4, prompts: {{isl: 16, osl: 4}}}}
  artifacts: {{dir: ./results, raw: true, trace: true}}
  phases:
    - {{name: warmup, kind: warmup, type: concurrency, requests: 2}}
    - {{name: load, kind: profiling, type: concurrency, concurrency: 2, requests: 4}}
"
    )
}

fn run(place: &Workplace, arguments: &[&str]) -> Ended {
    let mut command = place.command(arguments);
    command.env("CANARY_TOKEN", "zq11ENV");
    Program::start(command).end()
}

fn profile(place: &Workplace, more: &[&str]) -> Ended {
    let arguments = [
        &["profile", "--config", "test.yaml", "--ui", "simple", "--cores", "1"],
        more,
    ]
    .concat();
    run(place, &arguments)
}

/// What a server does with the credentials of a request.
#[derive(Debug, Clone, Copy)]
enum Echo {
    /// 401 with the whole head of the request in its body.
    Refuse,
    /// 307 to a place that has the credentials in its path and query.
    Redirect,
    /// 200 with an error object in the stream that holds them.
    StreamError,
    /// The reason phrase holds them.
    Reason,
    /// Headers of an answer that is a success otherwise hold them.
    Headers,
}

/// A server that shows everyone what it was given. Keeps what it received. Hooks are answered well unless `hooks` says otherwise.
fn echoing(echo: Echo, hooks: bool) -> (ScriptedServer, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let serve = move |mut client: Client<'_>| {
        while let Some(request) = client.request() {
            let whole = format!("{}{}", request.head, String::from_utf8_lossy(&request.body));
            log.lock().expect("no client panics").push(whole.clone());
            let is_hook = !request.head.contains("/v1/chat/completions");
            if is_hook && !hooks {
                client.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
                continue;
            }
            let flat: String = whole.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            let body =
                serde_json::json!({"error": {"message": format!("who is this? {flat}"), "code": 401}}).to_string();
            let secret = request.header("authorization").unwrap_or("none").to_owned();
            let answer = match echo {
                Echo::Refuse => format!(
                    "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                ),
                Echo::Redirect => format!(
                    "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://zq5USER:zq6PASS@elsewhere/login/zq2XAPI?token={secret}&key=zq7QUERY\r\ncontent-length: 0\r\n\r\n"
                ),
                Echo::StreamError => format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: {body}\n\ndata: [DONE]\n\n"
                ),
                Echo::Headers => whole_answer().replacen(
                    "\r\n",
                    &format!(
                        "\r\nX-Seen: {secret}\r\nVia: zq3COOKIE zq7QUERY\r\nSet-Cookie: {flat}\r\nX-Head: {flat}\r\n"
                    ),
                    1,
                ),
                Echo::Reason => format!("HTTP/1.1 403 No {secret} zq3COOKIE\r\ncontent-length: 0\r\n\r\n"),
            };
            client.send(&answer);
            if matches!(echo, Echo::StreamError) {
                return;
            }
        }
    };
    (ScriptedServer::new(serve), seen)
}

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
            .replace(", raw: true", "")
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
