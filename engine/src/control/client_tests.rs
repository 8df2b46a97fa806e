//! The client against a scripted server.

use super::super::test_server::{Answer, Server, answer, status};
use super::*;

const SECRET: &str = "sk-very-secret";

fn client(servers: &[&Server]) -> HookClient {
    let origins = servers.iter().map(|server| server.origin.clone()).collect();
    HookClient::new(
        origins,
        vec![("Authorization".to_owned(), format!("Bearer {SECRET}"))],
        None,
    )
}

fn reset_hook() -> ResetHook {
    ResetHook {
        path: "/reset_prefix_cache".to_owned(),
        timeout: Nanos::from_secs(5),
        retry_budget: Nanos::from_secs(60),
    }
}

fn profiler_hook() -> ProfilerHook {
    ProfilerHook {
        start_path: "/start_profile".to_owned(),
        stop_path: "/stop_profile".to_owned(),
        timeout: Nanos::from_secs(5),
    }
}

/// Resets without sleeping. Gives the result and the waits that were asked for, in seconds.
fn reset(client: &HookClient, hook: &ResetHook) -> (Result<(), HookError>, Vec<u64>) {
    let mut waits = Vec::new();
    let result = client.reset(hook, |span| {
        waits.push(span.0 / 1_000_000_000);
        Waited::Elapsed
    });
    (result, waits)
}

fn assert_fit_for_a_message(error: &HookError) {
    for text in [error.to_string(), format!("{error:?}")] {
        assert!(!text.contains('\n'), "{text}");
        assert!(!text.contains(SECRET) && !text.contains("body-text"), "{text}");
    }
}

#[test]
fn a_call_is_a_post_with_the_users_headers_and_an_empty_body() {
    let server = Server::start(vec![status(200)]);
    let client = client(&[&server]);
    client.profiler_stop(&profiler_hook()).expect("the server answered 200");
    let request = server.requests().remove(0).to_ascii_lowercase();
    let (head, body) = request.split_once("\r\n\r\n").expect("the head ends");
    assert!(head.starts_with("post /stop_profile http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\ncontent-length: 0"), "{head}");
    assert!(head.contains(&format!("\r\nauthorization: bearer {SECRET}")), "{head}");
    assert!(head.contains("\r\nuser-agent: ringload/"), "{head}");
    assert_eq!(body, "");
}

#[test]
fn framing_headers_of_the_user_are_left_out() {
    let server = Server::start(vec![status(200)]);
    let headers = [
        ("Content-Length", "7"),
        ("Transfer-Encoding", "chunked"),
        ("X-Mine", "1"),
    ];
    let headers = headers
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    let client = HookClient::new(vec![server.origin.clone()], headers, None);
    client.profiler_stop(&profiler_hook()).expect("the server answered 200");
    let request = server.requests().remove(0).to_ascii_lowercase();
    assert!(
        request.contains("x-mine: 1") && request.contains("content-length: 0"),
        "{request}"
    );
    assert!(
        !request.contains("transfer-encoding") && !request.contains("length: 7"),
        "{request}"
    );
}

#[test]
fn s35_a_busy_server_is_asked_again_until_it_resets() {
    for busy in [409, 423, 429, 503] {
        let server = Server::start(vec![status(busy), status(busy), status(200)]);
        let client = client(&[&server]);
        let (result, waits) = reset(&client, &reset_hook());
        assert_eq!((result, waits), (Ok(()), vec![1, 2]));
        let report = &client.reports()[0];
        assert_eq!(
            (report.attempts, report.status, report.succeeded()),
            (3, Some(200), true)
        );
        assert_eq!(server.requests().len(), 3);
    }
}

#[test]
fn s35_any_other_status_is_fatal_at_once_and_says_what_to_do() {
    for (code, advice) in [
        (400, ""),
        (401, "API key"),
        (403, "API key"),
        (404, "VLLM_SERVER_DEV_MODE=1"),
        (500, ""),
    ] {
        let server = Server::start(vec![answer(code, "", "body-text")]);
        let client = client(&[&server]);
        let (result, waits) = reset(&client, &reset_hook());
        let error = result.expect_err("the status is an error");
        assert_fit_for_a_message(&error);
        let text = error.to_string();
        let call = format!(
            "kv-cache reset (POST {}/reset_prefix_cache) was answered with status {code}",
            server.origin
        );
        assert!(text.starts_with(&call) && text.contains(advice), "{text}");
        assert_eq!((waits, client.reports()[0].attempts), (vec![], 1));
    }
}

#[test]
fn a_2xx_that_says_success_false_is_busy_and_any_other_body_is_fine() {
    let busy = answer(
        200,
        "Content-Type: application/json\r\n",
        r#"{"success": false, "note": "body-text"}"#,
    );
    let server = Server::start(vec![
        busy.clone(),
        busy.clone(),
        answer(200, "", r#"{"success": true}"#),
    ]);
    assert_eq!(reset(&client(&[&server]), &reset_hook()), (Ok(()), vec![1, 2]));

    let single = ResetHook {
        retry_budget: Nanos::ZERO,
        ..reset_hook()
    };
    let server = Server::start(vec![busy]);
    let (result, _) = reset(&client(&[&server]), &single);
    let error = result.expect_err("the budget is spent");
    assert_fit_for_a_message(&error);
    assert!(error.to_string().contains("\"success\": false"), "{error}");

    let long = format!("{{\"success\": false, \"filler\": \"{}\"}}", "x".repeat(70_000));
    for body in ["", "ok", "[1]", r#"{"success": "false"}"#, r#"{"ok": false}"#, &long] {
        let server = Server::start(vec![answer(200, "", body)]);
        let (result, waits) = reset(&client(&[&server]), &single);
        assert_eq!((result, waits), (Ok(()), vec![]), "body of {} bytes", body.len());
    }
}

#[test]
fn a_connection_that_closes_or_is_refused_is_tried_again() {
    let server = Server::start(vec![Answer::Close, status(200)]);
    assert_eq!(reset(&client(&[&server]), &reset_hook()), (Ok(()), vec![1]));

    let gone = Server::start(vec![]);
    let client = client(&[&gone]);
    let single = ResetHook {
        retry_budget: Nanos::from_millis(1_500),
        ..reset_hook()
    };
    let (result, waits) = reset(&client, &single);
    let error = result.expect_err("nobody listens");
    assert!(matches!(&error, HookError::GaveUp { attempts: 2, .. }), "{error:?}");
    assert!(error.to_string().starts_with("gave up after 2 attempts in "), "{error}");
    assert_eq!((waits, client.reports()[0].status), (vec![1], None));
}

#[test]
fn s37_a_server_that_hangs_in_head_or_body_is_left_after_the_timeout() {
    let hook = ResetHook {
        timeout: Nanos::from_millis(60),
        retry_budget: Nanos::ZERO,
        ..reset_hook()
    };
    for written in ["", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbody"] {
        let server = Server::start(vec![Answer::BytesAndHang(written.to_owned())]);
        let client = client(&[&server]);
        let (result, _) = reset(&client, &hook);
        let error = result.expect_err("no complete answer came");
        assert!(error.to_string().contains("timed out after 60.000 ms"), "{error}");
        let took = client.reports()[0].duration;
        assert!(took >= hook.timeout && took < Nanos::from_secs(5), "{took}");
    }
}

#[test]
fn s39_a_redirect_is_an_error_that_shows_where_to_but_no_secret() {
    for code in [301, 302, 307, 308] {
        let elsewhere = Server::start(vec![status(200)]);
        let location = format!(
            "Location: http://user:{SECRET}@{}/login?token={SECRET}\r\n",
            &elsewhere.origin[7..]
        );
        let server = Server::start(vec![answer(code, &location, "body-text")]);
        let (result, waits) = reset(&client(&[&server]), &reset_hook());
        let error = result.expect_err("a redirect is refused");
        assert_fit_for_a_message(&error);
        let text = error.to_string();
        assert!(
            text.contains(&format!("status {code} to {}/login", elsewhere.origin)),
            "{text}"
        );
        assert_eq!((waits, elsewhere.requests().len()), (vec![], 0));
    }
    let server = Server::start(vec![status(302)]);
    let (result, _) = reset(&client(&[&server]), &reset_hook());
    assert!(
        result
            .expect_err("a redirect is refused")
            .to_string()
            .contains("an unnamed location")
    );
}

#[test]
fn an_interrupted_wait_ends_the_reset() {
    let server = Server::start(vec![status(503), status(200)]);
    let client = client(&[&server]);
    let result = client.reset(&reset_hook(), |_| Waited::Interrupted);
    assert!(matches!(result, Err(HookError::Interrupted { .. })), "{result:?}");
    assert_eq!(server.requests().len(), 1);
    assert_eq!(
        (client.reports()[0].attempts, client.reports()[0].succeeded()),
        (1, false)
    );
}

#[test]
fn resets_go_to_each_origin_once_and_stop_at_the_first_that_fails() {
    let (a, b, c) = (
        Server::start(vec![status(200)]),
        Server::start(vec![status(400)]),
        Server::start(vec![status(200)]),
    );
    let client = client(&[&a, &a, &b, &c]);
    assert!(reset(&client, &reset_hook()).0.is_err());
    assert_eq!((a.requests().len(), b.requests().len(), c.requests().len()), (1, 1, 0));
}

#[test]
fn s32_a_start_that_fails_is_taken_back_in_reverse_order_where_it_worked() {
    let (a, b) = (Server::start(vec![status(200); 2]), Server::start(vec![status(200); 2]));
    let c = Server::start(vec![status(500), status(200)]);
    let client = client(&[&a, &b, &c]);
    let error = client
        .profiler_start(&profiler_hook())
        .expect_err("the third start fails");
    assert!(matches!(&error, HookError::Status { status: 500, .. }), "{error:?}");
    assert_eq!(a.paths(), ["/start_profile", "/stop_profile"]);
    assert_eq!(b.paths(), ["/start_profile", "/stop_profile"]);
    assert_eq!(c.paths(), ["/start_profile"]);
    let reports = client.reports();
    let calls: Vec<_> = reports
        .iter()
        .map(|report| (report.what, report.origin.as_str()))
        .collect();
    assert_eq!(
        calls,
        [
            (Hook::ProfilerStart, a.origin.as_str()),
            (Hook::ProfilerStart, b.origin.as_str()),
            (Hook::ProfilerStart, c.origin.as_str()),
            (Hook::ProfilerStop, b.origin.as_str()),
            (Hook::ProfilerStop, a.origin.as_str()),
        ]
    );
}

#[test]
fn a_start_whose_answer_is_lost_is_taken_back_too() {
    let server = Server::start(vec![Answer::Close, status(200)]);
    let error = client(&[&server])
        .profiler_start(&profiler_hook())
        .expect_err("no answer came");
    assert!(matches!(&error, HookError::Transport { .. }), "{error:?}");
    assert_eq!(server.paths(), ["/start_profile", "/stop_profile"]);
}

#[test]
fn a_start_that_nobody_received_has_nothing_to_take_back() {
    let gone = Server::start(vec![]);
    let client = client(&[&gone]);
    client.profiler_start(&profiler_hook()).expect_err("nobody listens");
    assert_eq!(client.reports().len(), 1);
}

#[test]
fn a_start_is_neither_retried_nor_judged_by_its_body() {
    let server = Server::start(vec![status(503), status(200)]);
    client(&[&server])
        .profiler_start(&profiler_hook())
        .expect_err("busy is an error for a start");
    assert_eq!(server.paths(), ["/start_profile"]);
    let server = Server::start(vec![answer(200, "", r#"{"success": false}"#)]);
    client(&[&server])
        .profiler_start(&profiler_hook())
        .expect("a 2xx is a success");
}

#[test]
fn a_failed_rollback_is_told_with_its_cause() {
    let (a, b) = (
        Server::start(vec![status(200), status(500)]),
        Server::start(vec![status(404)]),
    );
    let error = client(&[&a, &b])
        .profiler_start(&profiler_hook())
        .expect_err("the second start fails");
    assert_fit_for_a_message(&error);
    let text = error.to_string();
    assert!(
        text.contains("status 404") && text.contains("profiler is configured"),
        "{text}"
    );
    assert!(
        text.contains("taking it back failed too") && text.contains("status 500"),
        "{text}"
    );
}

#[test]
fn a_stop_is_attempted_everywhere_and_all_failures_are_told() {
    let (a, b, c) = (
        Server::start(vec![status(500)]),
        Server::start(vec![status(200)]),
        Server::start(vec![status(404)]),
    );
    let error = client(&[&a, &b, &c])
        .profiler_stop(&profiler_hook())
        .expect_err("two stops fail");
    let text = error.to_string();
    assert!(
        text.contains(&a.origin) && !text.contains(&b.origin) && text.contains(&c.origin),
        "{text}"
    );
    assert_eq!(b.paths(), ["/stop_profile"]);
}

#[test]
fn what_cannot_be_sent_is_said_and_not_retried() {
    let tls = HookClient::new(vec!["https://127.0.0.1:1".to_owned()], vec![], None);
    let (result, waits) = reset(&tls, &reset_hook());
    assert!(matches!(&result, Err(HookError::Unsendable { .. })), "{result:?}");
    assert_eq!(waits, [0; 0]);

    let headers = vec![("bad name".to_owned(), SECRET.to_owned())];
    let malformed = HookClient::new(vec!["http://127.0.0.1:1".to_owned()], headers, None);
    let error = reset(&malformed, &reset_hook()).0.expect_err("the header is malformed");
    assert!(matches!(&error, HookError::Unsendable { .. }), "{error:?}");
    assert_fit_for_a_message(&error);
}

#[test]
fn an_answer_that_is_not_http_is_a_transport_error() {
    let server = Server::start(vec![Answer::Bytes("SSH-2.0-OpenSSH_9.9\r\n".to_owned())]);
    let error = client(&[&server])
        .profiler_stop(&profiler_hook())
        .expect_err("that is not HTTP");
    assert!(matches!(&error, HookError::Transport { .. }), "{error:?}");
}
