//! The canaries, the config that has one wherever it takes a credential, and the search for them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ringload_tests::program::{Ended, Program, Workplace};
use ringload_tests::server::{Client, ScriptedServer, whole_answer};

/// Endings of the canaries: a text that no word of ours holds.
pub(super) const CANARIES: [&str; 12] = [
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

pub(super) fn base64(text: &str) -> String {
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
pub(super) fn found_in(bytes: &[u8]) -> Vec<String> {
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
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
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
pub(super) fn assert_clean(what: &str, place: &Workplace, ended: &Ended) {
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
pub(super) fn config(host: &str, more: &str) -> String {
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

pub(super) fn run(place: &Workplace, arguments: &[&str]) -> Ended {
    let mut command = place.command(arguments);
    command.env("CANARY_TOKEN", "zq11ENV");
    Program::start(command).end()
}

pub(super) fn profile(place: &Workplace, more: &[&str]) -> Ended {
    let arguments = [
        &["profile", "--config", "test.yaml", "--ui", "simple", "--cores", "1"],
        more,
    ]
    .concat();
    run(place, &arguments)
}

/// What a server does with the credentials of a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Echo {
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
pub(super) fn echoing(echo: Echo, hooks: bool) -> (ScriptedServer, Arc<Mutex<Vec<String>>>) {
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
