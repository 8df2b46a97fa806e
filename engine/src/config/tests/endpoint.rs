//! `endpoint` with its headers, body keys, secrets and hooks.

use super::*;

#[test]
fn endpoint_mistakes_name_their_key() {
    endpoint_mistake("type: chat", ".url", "required");
    endpoint_mistake("urls: []", ".urls", "at least one URL");
    endpoint_mistake("urls: [http://a, https://b]", ".urls[1]", "differ in their scheme");
    endpoint_mistake(
        "urls: [http://u:p@a, http://b]",
        ".urls[1]",
        "differ in user or password",
    );
    endpoint_mistake("urls: [http://a, \"http://b:0\"]", ".urls[1]", "the port must be");
    endpoint_mistake("url: h, url_strategy: random", ".url_strategy", "allowed: round_robin");
    endpoint_mistake("url: http://a, urls: [http://b]", ".urls", "exclude each other");
    endpoint_mistake("url: ftp://h", ".url", "the scheme must be http or https");
    endpoint_mistake(
        "url: \"unix:/run/server.sock\"",
        ".url",
        "not supported by ringload yet: unix sockets",
    );
    endpoint_mistake("url: \"http://::1:80\"", ".url", "in brackets");
    endpoint_mistake(
        "url: h, type: image_generation",
        ".type",
        "not supported by ringload yet: `image_generation`",
    );
    endpoint_mistake("url: h, type: chatt", ".type", "did you mean `chat`?");
    endpoint_mistake("url: h, path: v1/x", ".path", "starts with `/`");
    endpoint_mistake("url: h, timeout: 1d", ".timeout", "`d` is no unit");
    endpoint_mistake("url: h, timeout: 1:30", ".timeout", "base 60");
    endpoint_mistake("url: h, streaming: maybe", ".streaming", "true or false");
    endpoint_mistake(
        "url: h, connection_reuse: nevver",
        ".connection_reuse",
        "did you mean `never`?",
    );
    endpoint_mistake(
        "url: h, transport: sagemaker",
        ".transport",
        "not supported by ringload yet: `sagemaker`",
    );
    endpoint_mistake(
        "url: h, wait_for_model_timeout: -1",
        ".wait_for_model_timeout",
        "of at least 0",
    );
    endpoint_mistake(
        "url: h, wait_for_model_timeout: inf",
        ".wait_for_model_timeout",
        "of at least 0",
    );
    endpoint_mistake(
        "url: h, wait_for_model_timeout: 5, wait_for_model_interval: 0",
        ".wait_for_model_interval",
        "above 0",
    );
    endpoint_mistake(
        "url: h, wait_for_model_interval: 1",
        ".wait_for_model_interval",
        "has no effect while",
    );
    endpoint_mistake(
        "url: h, wait_for_model_timeout: 0, wait_for_model_mode: both",
        ".wait_for_model_mode",
        "has no effect while",
    );
    endpoint_mistake(
        "url: h, wait_for_model_timeout: 5, wait_for_model_mode: model",
        ".wait_for_model_mode",
        "did you mean `models`?",
    );
    endpoint_mistake("url: h, extra: [a]", ".extra", "a mapping");
    endpoint_mistake("url: h, extra: {a: {b: .inf}}", ".extra.a.b", "no JSON form");
    endpoint_mistake("url: h, extra: {a: [010]}", ".extra.a[0]", "write 10");
    endpoint_mistake("url: h, extra: {stream: true}", ".extra", "contradicts");
    endpoint_mistake("url: h, session_header: \"a b\"", ".session_header", "header name");
    endpoint_mistake("url: h, session_header: Host", ".session_header", "does not set itself");
}

#[test]
fn headers_are_text_that_can_stand_in_a_request() {
    let headers = |headers: &str| {
        SAMPLE
            .text()
            .replace("\"http://h:1\"", &format!("h, headers: {{{headers}}}"))
    };
    let config = read(&headers(
        "X-Count: 5, X-On: on, X-V: 1.10, 1: a, Authorization: \"Basic x\"",
    ));
    let expected = [
        ("X-Count", "5"),
        ("X-On", "on"),
        ("X-V", "1.10"),
        ("1", "a"),
        ("Authorization", "Basic x"),
    ];
    let expected: Vec<(String, String)> = expected
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    assert_eq!(config.endpoint.headers, expected);
    assert!(read(&headers("accept: x")).warnings[0].contains("not sent"));
    for (bad, words) in [
        ("\"X A\": 1", "found the header name `X A`"),
        ("\"X\\r\\nY\": 1", "header name"),
        ("X: \"a\\r\\nY: b\"", "line break"),
        ("Content-Length: 1", "sets the header `Content-Length` itself"),
        ("x-request-id: 1", "not supported by ringload yet"),
        ("X-A: 1, x-a: 2", "second time"),
        ("X-A: [1]", "found a list"),
        ("X-A: null", "found null"),
    ] {
        let found = mistakes(&headers(bad));
        assert!(
            found.len() == 1 && found[0].contains(": benchmark.endpoint.headers.") && found[0].contains(words),
            "{bad}: {found:?}"
        );
    }
    let text = headers("X-Sid: 1").replace("h, headers", "h, session_header: x-sid, headers");
    assert!(mistakes(&text)[0].contains("`session_header` sets this header"));
}

#[test]
fn free_values_take_the_types_of_their_looks() {
    let text = SAMPLE.text().replace(
        "\"http://h:1\"",
        "h, extra: {a: 1, b: 1.0, c: yes, d: \"yes\", e: null, f: [x, -2], g: {h: 1e3}, i: 18446744073709551615, j: \"010\"}",
    );
    let extra = serde_json::to_string(&read(&text).endpoint.extra).expect("extra is JSON");
    assert_eq!(
        extra,
        r#"{"a":1,"b":1.0,"c":true,"d":"yes","e":null,"f":["x",-2],"g":{"h":1000.0},"i":18446744073709551615,"j":"010"}"#
    );
}

#[test]
fn secrets_never_appear() {
    let cases = [
        "url: \"http://user:hunter2@\"",
        "url: \"http://user:hunter2@h\", retries: 1",
        "url: h, api_key: \"hunter2 x\"",
        "url: h, apiKey: [hunter2]",
        "url: h, api_key: hunter2, retries: 1",
        "url: h, headers: {Authorization: [hunter2]}, nope: 1",
        "url: h, headers: {Cookie: \"hunter2\\n\"}",
        "url: h, headers: {X-Any: \"hunter2\\u0001\"}",
        "url: \"http://user:hunter2@h\", api_key: hunter2",
        "url: h, token: hunter2",
        "url: h, api_key: \"hunter2${\"",
        "url: h, api_key: hunter2 ]",
    ];
    for case in cases {
        let text = SAMPLE.text().replace("url: \"http://h:1\"", case);
        let found = parse("f.yaml", text.as_bytes(), &environment).expect_err(case);
        assert!(!found.to_string().contains("hunter2"), "{case}: {found}");
        assert!(
            !found.render(true).contains("hunter2"),
            "{case}: {}",
            found.render(true)
        );
    }
    let text = SAMPLE.text().replace("\"http://h:1\"", "h, api_key: \"${KEY} \"");
    assert!(
        !parse("f.yaml", text.as_bytes(), &environment)
            .unwrap_err()
            .render(true)
            .contains("hunter2")
    );
}

#[test]
fn hooks_are_off_on_or_set() {
    let hooks = |hook: &str| {
        read(
            &SAMPLE
                .text()
                .replace("\"http://h:1\"", &format!("h, reset_kv_cache: {hook}")),
        )
        .endpoint
    };
    for off in ["false", "null", "no", "\"${N:off}\""] {
        assert_eq!(hooks(off).reset_kv_cache, None, "{off}");
    }
    for on in ["true", "yes", "On", "{}", "\"${N:true}\""] {
        assert_eq!(hooks(on).reset_kv_cache, Some(ResetKvCache::default()), "{on}");
    }
    let set = hooks("{path: /r?x=1, timeoutSeconds: 500ms, max_retry_seconds: 0}").reset_kv_cache;
    assert_eq!(
        set,
        Some(ResetKvCache {
            path: Some("/r?x=1".into()),
            timeout_s: Some(0.5),
            max_retry_s: Some(0.0)
        })
    );
    for (bad, words) in [
        ("\"true\"", "remove the quotes"),
        ("1", "true, false, or a mapping"),
        ("[]", "true, false, or a mapping"),
        ("{method: GET}", "unknown key `method`"),
        ("{path: //evil/x}", "another host"),
        ("{timeout_seconds: 0}", "above 0"),
        ("{timeout_seconds: inf}", "above 0"),
        ("{max_retry_seconds: -1}", "at least 0"),
    ] {
        endpoint_mistake(&format!("url: h, reset_kv_cache: {bad}"), reset_path(bad), words);
    }
    endpoint_mistake(
        "url: h, server_profiler: {stop_path: stop}",
        ".server_profiler.stop_path",
        "must start with `/`",
    );
    endpoint_mistake(
        "url: h, server_profiler: {path: /x}",
        ".server_profiler.path",
        "allowed here: start_path, stop_path",
    );
}

/// Where a mistake of the reset hook is reported: at its key if it is a mapping.
fn reset_path(written: &str) -> &'static str {
    match written.split([':', '{']).nth(1) {
        Some("method") => ".reset_kv_cache.method",
        Some("path") => ".reset_kv_cache.path",
        Some("timeout_seconds") => ".reset_kv_cache.timeout_seconds",
        Some("max_retry_seconds") => ".reset_kv_cache.max_retry_seconds",
        _ => ".reset_kv_cache",
    }
}
