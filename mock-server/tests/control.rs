//! Scripted answers of control routes, and what the log keeps of calls.

mod support;

use ringload_mock_server::{MockServer, Options, StartError};
use support::{Client, post, start, wait_for};

fn scripted(scripts: &[&str]) -> MockServer {
    start(|options| options.control = scripts.iter().map(|text| text.parse().expect("a script")).collect())
}

fn call(client: &mut Client, path: &str) -> (u16, String) {
    client.send(&post(path, "", ""));
    let response = client.receive().expect("an answer");
    (response.status, response.body)
}

#[test]
fn a_script_answers_call_by_call_and_repeats_its_last_answer() {
    let server = scripted(&["/reset_prefix_cache=503,200:busy,unsuccessful,204"]);
    let mut client = Client::connect(&server);
    let answers: Vec<(u16, String)> = (0..5).map(|_| call(&mut client, "/reset_prefix_cache")).collect();
    let codes: Vec<u16> = answers.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, [503, 200, 200, 204, 204]);
    assert_eq!(
        (answers[1].1.as_str(), answers[2].1.as_str()),
        ("busy", r#"{"success":false}"#)
    );
    assert_eq!(answers[3].1, "");
    assert_eq!(server.counters().reset_prefix_cache, 5);
    assert_eq!(call(&mut client, "/flush_cache").0, 200, "another path has no script");
}

#[test]
fn a_scripted_path_becomes_a_control_route() {
    let server = scripted(&["/v1/admin/reset=429,200"]);
    let mut client = Client::connect(&server);
    assert_eq!(call(&mut client, "/v1/admin/reset?hard=1").0, 429);
    assert_eq!(
        call(&mut client, "/v1/admin/reset"),
        (200, r#"{"success":true}"#.to_owned())
    );
    let log = server.control_log();
    let seen: Vec<(&str, &str)> = log
        .iter()
        .map(|entry| (entry.path.as_str(), entry.query.as_str()))
        .collect();
    assert_eq!(seen, [("/v1/admin/reset", "hard=1"), ("/v1/admin/reset", "")]);
}

#[test]
fn the_log_keeps_the_headers_of_a_call() {
    let server = scripted(&[]);
    let mut client = Client::connect(&server);
    client.send(&post("/start_profile", "X-Any: one\r\nAuthorization: Bearer k\r\n", ""));
    client.receive().expect("an answer");
    client.send(&post("/stop_profile", "", ""));
    client.receive().expect("an answer");
    let log = server.control_log();
    assert_eq!(
        (log[0].header("x-any"), log[0].header("AUTHORIZATION")),
        (Some("one"), Some("Bearer k"))
    );
    assert_eq!(log[1].header("x-any"), None, "headers belong to their own call");
}

#[test]
fn a_profiler_runs_from_a_start_that_succeeds_to_a_stop_that_does() {
    let server = scripted(&["/start_profile=500,200", "/stop_profile=500,200"]);
    let mut client = Client::connect(&server);
    let mut profiling = |path| {
        call(&mut client, path);
        server.counters().profiling
    };
    assert_eq!(
        ["/start_profile", "/start_profile", "/stop_profile", "/stop_profile"].map(&mut profiling),
        [false, true, true, false]
    );
}

#[test]
fn a_delayed_answer_has_no_effect_if_its_client_does_not_wait() {
    let server = scripted(&["/start_profile=200@60000,200"]);
    let mut hasty = Client::connect(&server);
    hasty.send(&post("/start_profile", "", ""));
    wait_for("the call", || server.counters().start_profile == 1);
    drop(hasty);
    wait_for("the end of its connection", || server.counters().connections_open == 0);
    assert!(!server.counters().profiling);
}

#[test]
fn inference_has_no_script() {
    let options = Options {
        port: 0,
        control: vec!["/v1/chat/completions=503".parse().expect("a script")],
        ..Options::default()
    };
    let refused = MockServer::start(options).err().expect("refused");
    assert!(
        matches!(refused, StartError::Option { option: "control", .. }),
        "{refused}"
    );
}
