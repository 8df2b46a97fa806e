//! Probes against a scripted server.

use super::super::test_server::{Answer, Server, answer, status};
use super::*;

fn plan(server: &Server, mode: ReadinessMode) -> ReadinessPlan {
    ReadinessPlan {
        timeout: Nanos::from_secs(30),
        interval: Nanos::from_secs(5),
        mode,
        targets: vec![ProbeTarget {
            model: "m".to_owned(),
            origin: server.origin.clone(),
            base_url: format!("{}/", server.origin),
            models_url: format!("{}/v1/models", server.origin),
            inference_url: format!("{}/v1/chat/completions?key=hidden", server.origin),
            body: br#"{"max_tokens":1}"#.to_vec(),
        }],
    }
}

/// Waits without sleeping; gives the result and the waits in seconds.
fn wait_for(plan: &ReadinessPlan) -> (Result<(), NotReady>, Vec<u64>) {
    let client = ReadinessClient::new(vec![("Authorization".to_owned(), "Bearer k".to_owned())], None);
    let mut waits = Vec::new();
    let result = client.wait_for(plan, |span| {
        waits.push(span.0 / 1_000_000_000);
        Waited::Elapsed
    });
    (result, waits)
}

fn list(ids: &str) -> Answer {
    answer(200, "", &format!(r#"{{"object":"list","data":[{ids}]}}"#))
}

#[test]
fn a_server_is_ready_once_it_answers_a_request_for_one_token() {
    let server = Server::start(vec![Answer::Close, status(503), status(500), status(200)]);
    let (result, waits) = wait_for(&plan(&server, ReadinessMode::Inference));
    assert_eq!((result, waits), (Ok(()), vec![5, 5, 5]));
    let request = server.requests().pop().expect("four probes").to_ascii_lowercase();
    for part in [
        "post /v1/chat/completions?key=hidden http/1.1\r\n",
        "authorization: bearer k\r\n",
        "content-type: application/json\r\n",
        "content-length: 16\r\n",
    ] {
        assert!(request.contains(part), "{part} is not in {request}");
    }
}

#[test]
fn a_refused_request_is_an_answer_of_a_server_that_is_there() {
    for code in [400, 401, 404, 422, 429] {
        let server = Server::start(vec![status(code)]);
        assert_eq!(
            wait_for(&plan(&server, ReadinessMode::Inference)),
            (Ok(()), vec![]),
            "{code}"
        );
    }
}

#[test]
fn a_model_is_ready_once_it_is_listed() {
    let server = Server::start(vec![
        status(503),
        list(r#"{"id":"other"},{"id":"m2"}"#),
        answer(200, "", "no JSON"),
        list(r#"{"id":"other"},{"id":"m"}"#),
    ]);
    let (result, waits) = wait_for(&plan(&server, ReadinessMode::Models));
    assert_eq!((result, waits), (Ok(()), vec![5, 5, 5]));
    assert_eq!(server.paths(), ["/v1/models"; 4]);
}

#[test]
fn a_server_without_a_list_of_models_need_only_be_there() {
    let server = Server::start(vec![status(404), status(500), status(404), status(204)]);
    let (result, waits) = wait_for(&plan(&server, ReadinessMode::Models));
    assert_eq!((result, waits), (Ok(()), vec![5]));
    assert_eq!(server.paths(), ["/v1/models", "/", "/v1/models", "/"]);
}

#[test]
fn both_asks_for_the_list_and_then_for_a_token() {
    let server = Server::start(vec![
        list(r#"{"id":"m"}"#),
        status(503),
        list(r#"{"id":"m"}"#),
        status(200),
    ]);
    let (result, waits) = wait_for(&plan(&server, ReadinessMode::Both));
    assert_eq!((result, waits), (Ok(()), vec![5]));
    let chat = "/v1/chat/completions?key=hidden";
    assert_eq!(server.paths(), ["/v1/models", chat, "/v1/models", chat]);
}

#[test]
fn a_server_that_hangs_is_left_at_the_deadline() {
    let server = Server::start(vec![Answer::BytesAndHang(String::new())]);
    let hasty = ReadinessPlan {
        timeout: Nanos::from_millis(60),
        ..plan(&server, ReadinessMode::Inference)
    };
    let (result, waits) = wait_for(&hasty);
    let error = result.expect_err("no answer came");
    assert_eq!((error.probes, waits), (1, vec![]));
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("model 'm' at {} is not ready after ", server.origin))
            && text.contains("(1 probe): POST ")
            && text.contains("got no answer: timed out")
            && text.contains("wait_for_model_timeout"),
        "{text}"
    );
    assert!(!text.contains("hidden") && !text.contains('\n'), "{text}");
}

#[test]
fn what_cannot_be_sent_is_not_tried_again() {
    let server = Server::start(vec![]);
    let mut sealed = plan(&server, ReadinessMode::Inference);
    sealed.targets[0].inference_url = "https://127.0.0.1:1/".to_owned();
    let (result, waits) = wait_for(&sealed);
    let error = result.expect_err("this client has no TLS");
    assert_eq!((error.probes, waits), (1, vec![]));
    assert!(error.last.contains("https is spoken only in runs"), "{error}");
}

#[test]
fn every_server_is_waited_for_and_the_first_that_does_not_come_ends_it() {
    let (a, b, c) = (
        Server::start(vec![status(200)]),
        Server::start(vec![]),
        Server::start(vec![status(200)]),
    );
    let mut all = plan(&a, ReadinessMode::Inference);
    all.timeout = Nanos::from_secs(1);
    for server in [&b, &c] {
        all.targets.extend(plan(server, ReadinessMode::Inference).targets);
    }
    let (result, _) = wait_for(&all);
    assert_eq!(result.expect_err("nobody listens at the second").origin, b.origin);
    assert_eq!((a.requests().len(), c.requests().len()), (1, 0));
}

#[test]
fn an_interrupted_wait_ends_it() {
    let server = Server::start(vec![status(503), status(200)]);
    let client = ReadinessClient::new(vec![], None);
    let result = client.wait_for(&plan(&server, ReadinessMode::Inference), |_| Waited::Interrupted);
    assert!(result.is_err());
    assert_eq!(server.requests().len(), 1);
}
