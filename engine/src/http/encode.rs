//! Request bytes: heads and tails rendered once by the plan, ids patched for each request.

/// Why a request head cannot be rendered. Anything that could end a line early is refused, so that no configured value can
/// smuggle a header or a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The method is not a token.
    #[error("method '{}' is not a token: use letters such as POST", .0.escape_debug())]
    Method(String),
    /// The request target is not an absolute path.
    #[error("path '{}' is not a request path: it must start with / and hold neither blanks, control characters, # nor \
             non-ASCII characters; percent-encode them", .0.escape_debug())]
    Path(String),
    /// The host is empty or holds characters that cannot stand in a `Host` header.
    #[error("host '{}' cannot stand in a host header: only visible ASCII characters are allowed", .0.escape_debug())]
    Authority(String),
    /// A header name is not a token.
    #[error("header name '{}' is not a token: only letters, digits and !#$%&'*+-.^_`|~ are allowed", .0.escape_debug())]
    HeaderName(String),
    /// A header value holds a control character. The value is not shown, it may be a secret.
    #[error("value of header '{0}' holds a line break or another control character; remove it")]
    HeaderValue(String),
    /// A header that decides where the request ends.
    #[error("header '{0}' cannot be set: the engine frames requests itself; remove it")]
    Framing(String),
}

/// Request line and header lines without the blank line at the end: what all requests have in common.
///
/// The host header comes first and is `authority` unless `headers` name another host. Order and spelling of the other
/// headers are kept.
///
/// # Errors
/// Names the part that HTTP/1.1 does not allow.
pub fn request_head(
    method: &str,
    path: &str,
    authority: &str,
    headers: &[(&str, &str)],
) -> Result<Vec<u8>, EncodeError> {
    if !is_token(method) {
        return Err(EncodeError::Method(method.to_owned()));
    }
    if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Err(EncodeError::Path(path.to_owned()));
    }
    if authority.is_empty() || !authority.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(EncodeError::Authority(authority.to_owned()));
    }
    for &(name, value) in headers {
        check_header(name, value)?;
    }
    let is_host = |name: &str| name.eq_ignore_ascii_case("host");
    let host = headers
        .iter()
        .rev()
        .find(|(name, _)| is_host(name))
        .map_or(authority, |&(_, value)| value);
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n");
    for (name, value) in headers.iter().filter(|(name, _)| !is_host(name)) {
        head.extend([name, ": ", value, "\r\n"]);
    }
    Ok(head.into_bytes())
}

/// The rest of a request behind its common headers: length, blank line, body.
pub fn request_tail(body: &[u8]) -> Vec<u8> {
    let mut tail = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    tail.extend_from_slice(body);
    tail
}

/// Writes a request's own id lines to the front of `out` and returns their length.
///
/// `template` holds 36 placeholder bytes at `request_id_at` and at each of `correlation_id_at`.
///
/// # Panics
/// If the template is longer than `out`, or a place does not lie in it: the plan that rendered them is wrong.
pub fn patch_ids(
    template: &[u8],
    request_id_at: usize,
    correlation_id_at: &[usize],
    request_id: &[u8; 36],
    correlation_id: &[u8; 36],
    out: &mut [u8],
) -> usize {
    let block = &mut out[..template.len()];
    block.copy_from_slice(template);
    block[request_id_at..request_id_at + 36].copy_from_slice(request_id);
    for &at in correlation_id_at {
        block[at..at + 36].copy_from_slice(correlation_id);
    }
    template.len()
}

/// A random UUID (RFC 9562, version 4) from 128 random bits, six of which give way to version and variant.
pub fn format_uuid(hi: u64, lo: u64) -> [u8; 36] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let hi = hi & !0xF000 | 0x4000;
    let lo = lo & !(0b11 << 62) | 0b10 << 62;
    let mut text = [b'-'; 36];
    let mut at = 0;
    for nibble in 0..32 {
        if matches!(at, 8 | 13 | 18 | 23) {
            at += 1;
        }
        let word = if nibble < 16 { hi } else { lo };
        text[at] = DIGITS[(word >> (60 - nibble % 16 * 4)) as usize & 0xF];
        at += 1;
    }
    text
}

fn check_header(name: &str, value: &str) -> Result<(), EncodeError> {
    if !is_token(name) {
        return Err(EncodeError::HeaderName(name.to_owned()));
    }
    let framing = ["content-length", "transfer-encoding"];
    if framing.iter().any(|framing| name.eq_ignore_ascii_case(framing)) {
        return Err(EncodeError::Framing(name.to_owned()));
    }
    // RFC 9110, section 5.5: visible characters, blanks and tabs; bytes beyond ASCII are opaque.
    if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return Err(EncodeError::HeaderValue(name.to_owned()));
    }
    Ok(())
}

/// A token by RFC 9110, section 5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_request_line_host_and_headers_in_order() {
        let head = request_head(
            "POST",
            "/v1/chat/completions?a=b",
            "127.0.0.1:8000",
            &[("Accept", "text/event-stream"), ("X-Empty", "")],
        );
        assert_eq!(
            head.unwrap(),
            b"POST /v1/chat/completions?a=b HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nAccept: text/event-stream\r\nX-Empty: \r\n"
        );
    }

    #[test]
    fn h11_an_ipv6_authority_keeps_its_brackets_and_a_configured_host_replaces_it() {
        let head = request_head("GET", "/", "[::1]:8000", &[]).unwrap();
        assert_eq!(head, b"GET / HTTP/1.1\r\nHost: [::1]:8000\r\n");
        let head = request_head("GET", "/", "a:1", &[("A", "b"), ("host", "c")]).unwrap();
        assert_eq!(head, b"GET / HTTP/1.1\r\nHost: c\r\nA: b\r\n");
    }

    #[test]
    fn nothing_can_inject_a_line() {
        let bad = "a\r\nX: y";
        assert!(matches!(request_head(bad, "/", "h", &[]), Err(EncodeError::Method(_))));
        assert!(matches!(
            request_head("GET", "/a\r\nb", "h", &[]),
            Err(EncodeError::Path(_))
        ));
        assert!(matches!(
            request_head("GET", "/", bad, &[]),
            Err(EncodeError::Authority(_))
        ));
        for value in [bad, "a\nb", "a\rb", "a\0", "\x7f"] {
            assert_eq!(
                request_head("GET", "/", "h", &[("X-Key", value)]),
                Err(EncodeError::HeaderValue("X-Key".into()))
            );
        }
        for name in ["", "a b", "a:", "a\r\n", "é"] {
            assert_eq!(
                request_head("GET", "/", "h", &[(name, "v")]),
                Err(EncodeError::HeaderName(name.into()))
            );
        }
        for name in ["Content-Length", "transfer-encoding"] {
            assert_eq!(
                request_head("GET", "/", "h", &[(name, "5")]),
                Err(EncodeError::Framing(name.into()))
            );
        }
    }

    #[test]
    fn paths_must_be_absolute_and_encoded() {
        for path in ["", "v1", "/a b", "/é", "/a#b", "http://h/"] {
            assert_eq!(request_head("GET", path, "h", &[]), Err(EncodeError::Path(path.into())));
        }
    }

    #[test]
    fn errors_name_the_header_but_never_show_its_value() {
        let error = request_head("GET", "/", "h", &[("Authorization", "Bearer secret\n")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "value of header 'Authorization' holds a line break or another control character; remove it"
        );
    }

    #[test]
    fn a_tail_is_length_blank_line_and_body() {
        assert_eq!(request_tail(b"{}"), b"Content-Length: 2\r\n\r\n{}");
        assert_eq!(request_tail(b""), b"Content-Length: 0\r\n\r\n");
    }

    #[test]
    fn ids_replace_their_placeholders_only() {
        let placeholder = "-".repeat(36);
        let template = format!("R: {placeholder}\r\nC: {placeholder}\r\nS: {placeholder}\r\n");
        let (request, correlation) = (format_uuid(1, 2), format_uuid(3, 4));
        let mut out = [b'#'; 256];
        let len = patch_ids(template.as_bytes(), 3, &[44, 85], &request, &correlation, &mut out);
        let (request, correlation) = (
            std::str::from_utf8(&request).unwrap(),
            std::str::from_utf8(&correlation).unwrap(),
        );
        assert_eq!(
            std::str::from_utf8(&out[..len]).unwrap(),
            format!("R: {request}\r\nC: {correlation}\r\nS: {correlation}\r\n")
        );
        assert!(out[len..].iter().all(|&byte| byte == b'#'));
    }

    #[test]
    fn a_uuid_has_its_bits_in_order_and_version_and_variant_set() {
        let text = |hi, lo| String::from_utf8(format_uuid(hi, lo).to_vec()).unwrap();
        assert_eq!(
            text(0x0123_4567_89ab_cdef, 0x0123_4567_89ab_cdef),
            "01234567-89ab-4def-8123-456789abcdef"
        );
        assert_eq!(text(0, 0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(text(u64::MAX, u64::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
