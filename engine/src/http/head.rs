//! Response heads: the few facts of a status line and header lines that decide how the rest is read.

use std::mem::MaybeUninit;

use memchr::memrchr;

use super::body::Body;
use super::chunked::ChunkedDecoder;
use super::error::HttpError;

/// Longest head, interim heads before it included.
pub(super) const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Most header lines of one head.
pub(super) const MAX_HEADERS: usize = 128;

/// One complete head.
#[derive(Debug)]
pub(super) struct Head<'a> {
    /// Bytes of the head, its blank line included.
    pub(super) len: usize,
    pub(super) status: u16,
    /// Empty when the server sent none, or sent one that is not ASCII.
    pub(super) reason: &'a str,
    /// Framing of the body; meaningless for an interim head.
    pub(super) body: Body,
    /// Whether the connection may carry another request once the body has been read.
    pub(super) keep_alive: bool,
    /// Whether the body is `text/event-stream`.
    pub(super) event_stream: bool,
    pub(super) content_type: Option<&'a [u8]>,
    /// The content coding, unless it is `identity`.
    pub(super) content_coding: Option<&'a [u8]>,
    pub(super) location: Option<&'a [u8]>,
    pub(super) retry_after: Option<&'a [u8]>,
}

impl<'a> Head<'a> {
    /// Whether a further head follows (status 1xx).
    pub(super) fn is_interim(&self) -> bool {
        self.status < 200
    }

    /// Reads the head at the start of `bytes`; `None` while it is incomplete, and `progress` then says how much of it need not be looked at again.
    ///
    /// Only whole lines are looked at. So the verdict on a head is the same however it was split, and each line is judged as soon as it is whole.
    /// What cannot become a status line is refused sooner, see [`HeadProgress::judge_start`].
    pub(super) fn parse(bytes: &'a [u8], progress: &mut HeadProgress) -> Result<Option<Self>, HttpError> {
        let Some(last_line_end) = memrchr(b'\n', &bytes[progress.checked()..]) else {
            return progress.judge_start(bytes).map(|()| None);
        };
        let lines = &bytes[..=progress.checked() + last_line_end];
        if progress.in_fields && !progress.ends_in(lines)? {
            return Ok(None);
        }
        // What was judged before is read once more for what it says: remembering that would take more room in every reader. Blank lines say nothing.
        let blank = if progress.in_fields { 0 } else { progress.checked() };
        let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut []);
        looked_at(&lines[blank..]);
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            &lines[blank..],
            &mut headers,
        );
        let len = match parsed.map_err(refusal)? {
            httparse::Status::Complete(len) => blank + len,
            httparse::Status::Partial => {
                progress.note(lines);
                return progress.judge_start(bytes).map(|()| None);
            }
        };
        let (Some(status), Some(version)) = (response.code, response.version) else {
            return Err(HttpError::MalformedHead);
        };
        if status < 100 {
            return Err(HttpError::MalformedHead);
        }
        let fields = Fields::collect(response.headers)?;
        let body = fields.body(status, version)?;
        Ok(Some(Self {
            len,
            status,
            reason: response.reason.unwrap_or(""),
            keep_alive: fields.keep_alive(version) && !matches!(body, Body::UntilClose),
            body,
            event_stream: fields.event_stream,
            content_type: fields.content_type,
            content_coding: fields.content_coding,
            location: fields.location,
            retry_after: fields.retry_after,
        }))
    }
}

/// How much of an unfinished head has been judged, so that a head that arrives byte by byte costs no more than a few times its length.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HeadProgress {
    /// Bytes of the whole lines that were judged, none of which ends the head.
    checked: u32,
    /// Header lines among them.
    fields: u8,
    /// Whether the status line is among them. Before it stand blank lines, which do not count.
    in_fields: bool,
}

const _: () = assert!(MAX_HEADERS <= u8::MAX as usize);

impl HeadProgress {
    fn checked(&self) -> usize {
        self.checked as usize
    }

    /// Refuses bytes that cannot become a head, long before a line of them ends: who speaks TLS, HTTP/2 or no HTTP at all may never send one, and the
    /// request would wait for it until its timeout. No more bytes than these are looked at, for a status line may be long and arrive byte by byte.
    pub(super) fn judge_start(&self, bytes: &[u8]) -> Result<(), HttpError> {
        const START: &[u8] = b"HTTP/1.";
        let line = &bytes[self.checked()..];
        let line = &line[..line.len().min(START.len())];
        // A line feed may follow and make it a blank line.
        let may_be_one = self.in_fields || line == b"\r" || START.starts_with(line);
        may_be_one.then_some(()).ok_or(HttpError::MalformedHead)
    }

    /// Whether the head, whose status line was judged, ends in the last of these lines.
    fn ends_in(&mut self, lines: &[u8]) -> Result<bool, HttpError> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let fresh = &lines[self.checked()..];
        looked_at(fresh);
        let room = MAX_HEADERS - usize::from(self.fields);
        let parsed = httparse::parse_headers(fresh, &mut headers[..room]).map_err(refusal)?;
        if parsed.is_partial() {
            self.note(lines);
        }
        Ok(parsed.is_complete())
    }

    /// Takes note of whole lines that the head does not end in.
    fn note(&mut self, lines: &[u8]) {
        for line in lines[self.checked()..].split_inclusive(|&byte| byte == b'\n') {
            match (line, self.in_fields) {
                (b"\n" | b"\r\n", false) => {}
                (_, false) => self.in_fields = true,
                // No more than the parser had room for.
                (_, true) => self.fields += 1,
            }
        }
        self.checked = u32::try_from(lines.len()).expect("a head is bounded");
    }
}

fn refusal(error: httparse::Error) -> HttpError {
    match error {
        httparse::Error::TooManyHeaders => HttpError::TooManyHeaders,
        _ => HttpError::MalformedHead,
    }
}

/// Called with all bytes that are parsed, for the test that adds them up.
fn looked_at(bytes: &[u8]) {
    #[cfg(test)]
    tests::LOOKED_AT.set(tests::LOOKED_AT.get() + bytes.len());
    #[cfg(not(test))]
    let _ = bytes;
}

/// What a head says, line by line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadFields<'a> {
    /// The reason phrase; empty when there is none, or one that is not ASCII.
    pub reason: &'a str,
    /// Names and values in the order of their lines.
    pub fields: Vec<(&'a str, &'a [u8])>,
}

/// Every field of a head that was read before; `None` for bytes that are no whole head.
pub fn fields_of(head: &[u8]) -> Option<HeadFields<'_>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let whole = response.parse(head).is_ok_and(|status| status.is_complete());
    whole.then(|| HeadFields {
        reason: response.reason.unwrap_or_default(),
        fields: response
            .headers
            .iter()
            .map(|header| (header.name, header.value))
            .collect(),
    })
}

/// The header fields that matter, over all their lines.
#[derive(Default)]
struct Fields<'a> {
    length: Option<u64>,
    /// Transfer codings named, and whether each of them was `chunked`.
    transfer_codings: usize,
    only_chunked: bool,
    close: bool,
    explicit_keep_alive: bool,
    event_stream: bool,
    content_type: Option<&'a [u8]>,
    content_coding: Option<&'a [u8]>,
    location: Option<&'a [u8]>,
    retry_after: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    fn collect(headers: &[httparse::Header<'a>]) -> Result<Self, HttpError> {
        let mut fields = Self {
            only_chunked: true,
            ..Self::default()
        };
        for header in headers {
            let (name, value) = (header.name, header.value);
            // Each comparison starts with the length, so most of this chain is comparing integers.
            if name.eq_ignore_ascii_case("content-length") {
                fields.content_length(value)?;
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                for coding in list(value) {
                    fields.transfer_codings += 1;
                    fields.only_chunked &= coding.eq_ignore_ascii_case(b"chunked");
                }
            } else if name.eq_ignore_ascii_case("connection") {
                for option in list(value) {
                    fields.close |= option.eq_ignore_ascii_case(b"close");
                    fields.explicit_keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            } else if name.eq_ignore_ascii_case("content-type") {
                let media_type = value.split(|&byte| byte == b';').next().unwrap_or_default();
                fields.content_type = Some(value);
                fields.event_stream = media_type.trim_ascii().eq_ignore_ascii_case(b"text/event-stream");
            } else if name.eq_ignore_ascii_case("content-encoding") {
                let coding = list(value).find(|coding| !coding.eq_ignore_ascii_case(b"identity"));
                fields.content_coding = fields.content_coding.or(coding);
            } else if name.eq_ignore_ascii_case("location") {
                fields.location = Some(value);
            } else if name.eq_ignore_ascii_case("retry-after") {
                fields.retry_after = Some(value);
            }
        }
        Ok(fields)
    }

    /// Takes one `Content-Length` line; repeated equal values count as one (RFC 9110, section 8.6).
    fn content_length(&mut self, value: &[u8]) -> Result<(), HttpError> {
        let mut values = 0;
        for item in list(value) {
            values += 1;
            let length = decimal(item).ok_or(HttpError::BadContentLength)?;
            if self.length.is_some_and(|earlier| earlier != length) {
                return Err(HttpError::ConflictingLength);
            }
            self.length = Some(length);
        }
        if values == 0 {
            return Err(HttpError::BadContentLength);
        }
        Ok(())
    }

    /// Framing by RFC 9112, section 6.3. A length beside a transfer coding is refused rather than overruled: one of two
    /// parties on the way would read the body differently.
    fn body(&self, status: u16, version: u8) -> Result<Body, HttpError> {
        if matches!(status, 100..=199 | 204 | 304) {
            return Ok(Body::Length(0));
        }
        match (self.transfer_codings, self.length) {
            (0, Some(length)) => Ok(Body::Length(length)),
            (0, None) => Ok(Body::UntilClose),
            (1, None) if self.only_chunked && version == 1 => Ok(Body::Chunked(ChunkedDecoder::new())),
            (1, Some(_)) if self.only_chunked && version == 1 => Err(HttpError::ConflictingLength),
            _ => Err(HttpError::BadTransferEncoding),
        }
    }

    fn keep_alive(&self, version: u8) -> bool {
        !self.close && (version == 1 || self.explicit_keep_alive)
    }
}

/// The elements of a comma-separated field value; empty ones do not count (RFC 9110, section 5.6.1).
fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&byte| byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|item| !item.is_empty())
}

/// A number made of digits only.
fn decimal(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |number, digit| {
        let value = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(value)
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    thread_local! {
        /// Bytes that were parsed in this thread.
        pub(super) static LOOKED_AT: Cell<usize> = const { Cell::new(0) };
    }

    fn parse(bytes: &[u8]) -> Result<Option<Head<'_>>, HttpError> {
        Head::parse(bytes, &mut HeadProgress::default())
    }

    fn head(text: &str) -> Head<'_> {
        parse(text.as_bytes()).expect("a valid head").expect("a complete head")
    }

    fn framing_error(fields: &str) -> HttpError {
        parse(format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes()).unwrap_err()
    }

    #[test]
    fn a_plain_head_gives_status_reason_and_length() {
        let head = head("HTTP/1.1 404 Not Found\r\ncontent-length: 12\r\n\r\nrest");
        assert_eq!((head.status, head.reason, head.len), (404, "Not Found", 46));
        assert!(matches!(head.body, Body::Length(12)));
        assert!(head.keep_alive && !head.event_stream && !head.is_interim());
    }

    #[test]
    fn every_line_of_a_kept_head_is_told_in_order() {
        let text = b"HTTP/1.1 200 \r\nB: 1\r\nSet-Cookie: x=\xe4\r\nB:\r\n\r\n";
        let read = fields_of(text).expect("a whole head");
        assert_eq!(read.reason, "");
        assert_eq!(read.fields, [("B", &b"1"[..]), ("Set-Cookie", b"x=\xe4"), ("B", b"")]);
        assert_eq!(fields_of(&text[..text.len() - 1]), None);
        assert_eq!(fields_of(b"junk\r\n\r\n"), None);
    }

    #[test]
    fn every_prefix_of_a_head_is_incomplete() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Y: z\r\n\r\n";
        for cut in 0..text.len() {
            assert!(parse(&text[..cut]).unwrap().is_none(), "cut at {cut}");
        }
        assert_eq!(parse(text).unwrap().unwrap().len, text.len());
    }

    #[test]
    fn bytes_that_are_not_http_are_malformed() {
        for text in [
            "SSH-2.0-OpenSSH\r\n",
            "HTTP/2 200 OK\r\n",
            "HTTP/1.1 2x0 OK\r\n",
            "HTTP/1.1 099 Low\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
            "HTTP/1.1 200 OK\r\nSpace : b\r\n\r\n",
        ] {
            assert_eq!(
                parse(text.as_bytes()).unwrap_err(),
                HttpError::MalformedHead,
                "{text:?}"
            );
        }
    }

    #[test]
    fn what_cannot_become_a_status_line_is_refused_before_it_ends() {
        for text in "\0|HTTP/2|HTTX|\x15\x03\x03| HTTP|\r\n\nSSH|\rH|http/1.1".split('|') {
            assert_eq!(parse(text.as_bytes()).unwrap_err(), HttpError::MalformedHead);
        }
        for text in "|\r|\r\n\r|\nHTTP/1.|HTTP/1.7 is judged when it is whole".split('|') {
            assert!(parse(text.as_bytes()).unwrap().is_none(), "{text:?}");
        }
    }

    #[test]
    fn header_lines_are_limited() {
        let text = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(MAX_HEADERS));
        assert!(parse(text.as_bytes()).unwrap().is_some());
        let text = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(MAX_HEADERS + 1));
        assert_eq!(parse(text.as_bytes()).unwrap_err(), HttpError::TooManyHeaders);
    }

    #[test]
    fn equal_lengths_agree_and_different_ones_conflict() {
        for fields in [
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: 005\r\nContent-Length: 5\r\n",
        ] {
            let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
            assert!(matches!(head(&text).body, Body::Length(5)), "{fields:?}");
        }
        for fields in ["Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5, 6\r\n"] {
            assert_eq!(framing_error(fields), HttpError::ConflictingLength, "{fields:?}");
        }
    }

    #[test]
    fn lengths_that_are_not_numbers_are_refused() {
        for value in ["", "-1", "+5", "0x10", "5 5", "18446744073709551616", ","] {
            assert_eq!(
                framing_error(&format!("Content-Length: {value}\r\n")),
                HttpError::BadContentLength,
                "{value:?}"
            );
        }
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n";
        assert!(matches!(head(text).body, Body::Length(u64::MAX)));
    }

    #[test]
    fn one_chunked_coding_is_the_only_one_accepted() {
        let text = "HTTP/1.1 200 OK\r\ntransfer-encoding: , Chunked\r\n\r\n";
        assert!(matches!(head(text).body, Body::Chunked(_)));
        for fields in [
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip\r\n",
            "Transfer-Encoding: identity\r\nContent-Length: 5\r\n",
            "Transfer-Encoding: xchunked\r\n",
        ] {
            assert_eq!(framing_error(fields), HttpError::BadTransferEncoding, "{fields:?}");
        }
        assert_eq!(
            framing_error("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
            HttpError::ConflictingLength
        );
        let old = b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(parse(old).unwrap_err(), HttpError::BadTransferEncoding);
    }

    #[test]
    fn statuses_without_a_body_have_none_whatever_the_fields_say() {
        for status in ["100 Continue", "103 Early Hints", "204 No Content", "304 Not Modified"] {
            let text = format!("HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\n");
            assert!(matches!(head(&text).body, Body::Length(0)), "{status}");
        }
    }

    #[test]
    fn a_connection_persists_by_version_option_and_framing() {
        for (version, fields, expected) in [
            ("1.1", "Content-Length: 0\r\n", true),
            ("1.1", "Content-Length: 0\r\nConnection: close\r\n", false),
            ("1.1", "Content-Length: 0\r\nConnection: foo, CLOSE\r\n", false),
            (
                "1.1",
                "Content-Length: 0\r\nConnection: keep-alive\r\nConnection: close\r\n",
                false,
            ),
            ("1.1", "", false),
            ("1.0", "Content-Length: 0\r\n", false),
            ("1.0", "Content-Length: 0\r\nConnection: Keep-Alive\r\n", true),
            ("1.0", "Connection: keep-alive\r\n", false),
        ] {
            let text = format!("HTTP/{version} 200 OK\r\n{fields}\r\n");
            assert_eq!(head(&text).keep_alive, expected, "{text:?}");
        }
    }

    #[test]
    fn an_event_stream_is_known_by_its_media_type() {
        for (value, expected) in [
            ("text/event-stream", true),
            ("Text/Event-Stream; charset=utf-8", true),
            ("text/event-stream;charset=utf-8", true),
            ("text/event-streams", false),
            ("application/json", false),
        ] {
            let text = format!("HTTP/1.1 200 OK\r\nContent-Type: {value}\r\n\r\n");
            assert_eq!(head(&text).event_stream, expected, "{value}");
        }
    }

    #[test]
    fn content_codings_other_than_identity_are_seen() {
        for (value, expected) in [
            ("gzip", Some(&b"gzip"[..])),
            ("identity, br", Some(b"br")),
            ("Identity", None),
            ("", None),
        ] {
            let text = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {value}\r\n\r\n");
            assert_eq!(head(&text).content_coding, expected, "{value}");
        }
    }

    #[test]
    fn location_and_retry_after_are_kept() {
        let head = head("HTTP/1.1 307 Temporary Redirect\r\nLocation: /v2\r\nRetry-After: 2\r\n\r\n");
        assert_eq!((head.location, head.retry_after), (Some(&b"/v2"[..]), Some(&b"2"[..])));
    }

    /// What a verdict depends on: `None` while the head is incomplete.
    type Verdict = Result<Option<(usize, u16, String, bool)>, HttpError>;

    fn verdict(bytes: &[u8], progress: &mut HeadProgress) -> Verdict {
        Head::parse(bytes, progress).map(|head| {
            head.map(|head| {
                let body = format!("{} {:?} {:?}", head.reason, head.body, head.content_type);
                (head.len, head.status, body, head.keep_alive)
            })
        })
    }

    /// Reads a head that grows to these lengths, up to the first verdict: at each of them it is that of reading afresh.
    fn grow(bytes: &[u8], lengths: impl IntoIterator<Item = usize>) {
        let mut progress = HeadProgress::default();
        for length in lengths {
            let grown = verdict(&bytes[..length], &mut progress);
            let afresh = verdict(&bytes[..length], &mut HeadProgress::default());
            assert_eq!(
                grown,
                afresh,
                "{length} bytes of {:?}",
                bytes.escape_ascii().to_string()
            );
            if !matches!(grown, Ok(None)) {
                break;
            }
        }
    }

    #[test]
    fn a_head_that_grows_is_judged_as_one_that_is_there() {
        let full = |lines: usize| format!("HTTP/1.1 200 OK\r\n{}\r\nrest", "A: b\r\n".repeat(lines));
        let heads = [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: text/event-stream\r\n\r\nabcde",
            "\r\n\n\r\nHTTP/1.0 404 \nConnection: keep-alive\n\n",
            "HTTP/1.1 200\r\n\r\n\r\n",
            "HTTP/1.1 099 Low\r\nA: b\r\n\r\n",
            "\nSSH-2.0-OpenSSH\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: b\r\nno colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\nA:\r\nB: \t \r\n\r\n",
            "HTTP/1.1 200 OK\r\rA: b\r\n\r\n",
            &full(MAX_HEADERS),
            &full(MAX_HEADERS + 1),
        ];
        for head in heads.map(str::as_bytes) {
            for step in 1..=head.len().min(40) {
                grow(head, (step..head.len()).step_by(step).chain([head.len()]));
            }
            for cut in 0..=head.len() {
                grow(head, [cut, head.len()]);
            }
        }
    }

    #[test]
    fn a_head_that_comes_byte_by_byte_is_not_read_over_and_over() {
        let field = format!("X: {}\r\n", "y".repeat(500));
        let heads = [
            format!("HTTP/1.1 200 OK\r\n{}\r\n", field.repeat(MAX_HEADERS)),
            format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\n".repeat(MAX_HEADERS)),
            format!("{}HTTP/1.1 200 OK\r\n\r\n", "\r\n".repeat(MAX_HEAD_BYTES / 4)),
            format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(MAX_HEAD_BYTES / 2)),
        ];
        for head in &heads {
            LOOKED_AT.set(0);
            let mut progress = HeadProgress::default();
            let lengths = 1..=head.len();
            let complete = lengths
                .filter(|&length| matches!(Head::parse(&head.as_bytes()[..length], &mut progress), Ok(Some(_))))
                .count();
            assert_eq!(complete, 1);
            // Once as it arrives, once more when it is whole, and the status line a third time.
            let looked = LOOKED_AT.get();
            assert!(looked <= 3 * head.len(), "{looked} bytes read of {}", head.len());
        }
    }

    proptest! {
        #[test]
        fn random_heads_are_judged_alike_however_they_grow(
            lines in proptest::collection::vec(
                prop::sample::select(vec![
                    "HTTP/1.1 200 OK\r\n", "HTTP/1.0 503\n", "A: b\r\n", "Content-Length: 7\n", "Transfer-Encoding: chunked\r\n", "\r\n", "\n",
                    "A : b\r\n", " b\r\n", "A:\r\n", "\r", "A: \rb\n", "A: \u{e9}\r\n", "Connection: close\r\n",
                ]),
                0..12,
            ),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let bytes = format!("HTTP/1.1 200 OK\r\n{}", lines.concat()).into_bytes();
            for bytes in [&bytes[..], &bytes[17..]] {
                let mut lengths: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
                lengths.sort_unstable();
                grow(bytes, lengths.into_iter().chain([bytes.len()]));
            }
        }
    }
}
