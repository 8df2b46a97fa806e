//! Request lines, headers and ids.

use super::*;

#[test]
fn a_connection_that_will_not_be_used_again_is_announced_as_such() {
    let connection = |close_after| {
        let given = Given {
            close_after,
            ..Given::default()
        };
        let images = given.render().expect("valid inputs");
        parse(&images, 0).all("Connection").join(",")
    };
    assert_eq!(connection(true), "close");
    // HTTP/1.1 keeps connections unless told otherwise.
    assert_eq!(connection(false), "");
}

#[test]
fn user_headers_replace_generated_ones_except_those_of_the_endpoint() {
    let images = Given::default()
        .header("host", "front.example")
        .header("USER-AGENT", "probe")
        .header("accept-encoding", "gzip")
        .header("Accept", "x/y")
        .header("content-type", "text/plain")
        .header("x-a", "first")
        .header("X-A", "second")
        .render()
        .expect("valid inputs");
    let parsed = parse(&images, 0);
    for (name, expected) in [
        ("Host", "front.example"),
        ("User-Agent", "probe"),
        ("Accept-Encoding", "gzip"),
        ("Accept", "text/event-stream"),
        ("Content-Type", "application/json"),
        ("X-A", "second"),
    ] {
        assert_eq!(parsed.all(name), [expected], "{name}");
    }
}

#[test]
fn ids_stand_where_the_block_says() {
    let images = Given::default().render().expect("valid inputs");
    let ids = &images.ids;
    assert_eq!(ids.correlation_id_at.len(), 2);
    for at in ids.correlation_id_at.iter().copied().chain([ids.request_id_at]) {
        assert_eq!(placeholder_at(ids, at), b"00000000-0000-0000-0000-000000000000");
        assert_eq!(&ids.template[at + 36..at + 38], b"\r\n");
    }
    assert!(ids.template[..ids.request_id_at].ends_with(b"X-Request-ID: "));
    assert!(ids.template[..ids.correlation_id_at[0]].ends_with(b"X-Correlation-ID: "));
    assert!(ids.template[..ids.correlation_id_at[1]].ends_with(b"X-Session-Affinity: "));
}

#[test]
fn a_session_header_replaces_the_name_of_the_correlation_id() {
    let with = |name: &str| Given {
        session_header: Some(name.into()),
        ..Given::default()
    };
    let parsed = parse(&with("X-Session").render().expect("valid inputs"), 0);
    assert_eq!(parsed.all("X-Session").len(), 1);
    assert_eq!(parsed.all("X-Correlation-ID").len(), 0);
    let same = with("x-session-affinity").render().expect("valid inputs");
    assert_eq!(
        same.ids.correlation_id_at.len(),
        1,
        "one line, not two of the same name"
    );

    for name in ["", "X Session", "Content-Length", "accept", "x-request-id"] {
        assert!(
            with(name)
                .error()
                .contains(&format!("endpoint.session_header: {name:?}")),
            "{name}"
        );
    }
    let long = with(&"S".repeat(200)).error();
    assert!(long.contains("allowed are 256; shorten the name by"), "{long}");
    let rendered = with(&"S".repeat(106))
        .render()
        .expect("a block of exactly the capacity fits");
    assert_eq!(rendered.ids.template.len(), ID_BLOCK_CAPACITY);
    assert!(
        with(&"S".repeat(107))
            .error()
            .ends_with("shorten the name by 1 character")
    );
}

#[test]
fn a_correlation_id_of_the_users_own_replaces_the_generated_line() {
    let images = Given::default()
        .header("x-session-affinity", "node-3")
        .render()
        .expect("valid inputs");
    let parsed = parse(&images, 0);
    assert_eq!(parsed.all("X-Session-Affinity"), ["node-3"]);
    assert_eq!(images.ids.correlation_id_at.len(), 1);
}

#[test]
fn headers_cannot_smuggle_anything() {
    for (value, byte) in [
        ("a\r\nX-Evil: 1", "0x0d"),
        ("a\nb", "0x0a"),
        ("a\0", "0x00"),
        ("\u{7f}", "0x7f"),
    ] {
        let message = Given::default().header("X-Token", value).error();
        assert!(
            message.contains("endpoint.headers.X-Token") && message.contains(byte),
            "{message}"
        );
        assert!(!message.contains("Evil"), "values may be secrets: {message}");
    }
    for name in ["", "X Token", "X-Token:", "X\r\n", "Ünder"] {
        let message = Given::default().header(name, "v").error();
        assert!(message.contains(&format!("{name:?} is no header name")), "{message}");
    }
    for name in [
        "content-length",
        "Transfer-Encoding",
        "connection",
        "Expect",
        "X-Request-Id",
    ] {
        let message = Given::default().header(name, "v").error();
        assert!(message.starts_with(&format!("endpoint.headers.{name}: ")), "{message}");
    }
    assert!(Given::default().header("X-Ok", "tab\there, ünicode").render().is_ok());
}

#[test]
fn a_target_that_would_break_the_request_line_is_refused() {
    for path in ["v1", "", "/a b", "/a\r\nb", "/ä"] {
        let given = Given {
            target: Target {
                path: path.into(),
                ..target()
            },
            ..Given::default()
        };
        assert_eq!(given.render().err(), Some(RenderError::Path { path: path.into() }));
    }
    let given = Given {
        target: Target {
            authority: "a\nb".into(),
            ..target()
        },
        ..Given::default()
    };
    assert!(given.error().starts_with("endpoint.urls: "));
}
