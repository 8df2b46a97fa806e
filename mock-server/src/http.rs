//! Reads HTTP/1.1 requests from bytes, however they are split; no sockets here.

use thiserror::Error;

use crate::api::Api;

/// Largest request head.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Largest request body.
const BODY_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Capacity for bodies that a connection keeps from one request to the next.
const BODY_BYTES_KEPT: usize = 1024 * 1024;
/// Longest line of chunk framing: size with extensions, or one trailer.
const CHUNK_LINE_BYTES_MAX: usize = 4 * 1024;
/// Most header fields of a request.
const HEADERS_MAX: usize = 100;

/// The methods that this server tells apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Method {
    #[default]
    Get,
    Post,
    Other,
}

/// A request as far as it has been read. Its buffers are reused from request to request.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// What follows `?`, not decoded; empty if nothing does.
    pub(crate) query: String,
    /// The value of `X-Request-ID`; empty if absent. The same holds for the fields below.
    pub(crate) request_id: String,
    pub(crate) session: String,
    pub(crate) authorization: String,
    /// `x-api-key`, and below `anthropic-version`.
    pub(crate) api_key: String,
    pub(crate) api_version: String,
    pub(crate) fault: String,
    /// Every header field in order, unless the request goes to a path of inference: those come by the hundred thousand.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) content_length: Option<u64>,
    /// The client asked for the connection to be closed after the answer.
    pub(crate) close: bool,
    /// The body, with chunk framing removed.
    pub(crate) body: Vec<u8>,
}

impl Request {
    fn clear(&mut self) {
        self.path.clear();
        self.query.clear();
        self.request_id.clear();
        self.session.clear();
        self.authorization.clear();
        self.api_key.clear();
        self.api_version.clear();
        self.fault.clear();
        self.headers.clear();
        self.content_length = None;
        self.close = false;
        self.body.clear();
        self.body.shrink_to(BODY_BYTES_KEPT);
    }
}

/// Why the bytes are not a request that this server can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum BadRequest {
    #[error("the request head is not valid HTTP/1.1: {0}")]
    Head(httparse::Error),
    #[error("the request head is larger than {HEAD_BYTES_MAX} bytes")]
    HeadTooLarge,
    #[error("this server speaks HTTP/1.1 only")]
    Version,
    #[error("a header value is not text")]
    HeaderText,
    #[error("content-length is not one decimal number")]
    ContentLength,
    #[error("the body is larger than {BODY_BYTES_MAX} bytes")]
    BodyTooLarge,
    #[error("transfer-encoding must be `chunked` alone, without content-length")]
    TransferEncoding,
    #[error("the chunk framing of the body is broken")]
    Chunk,
}

impl BadRequest {
    /// The status to answer with.
    pub(crate) fn status(self) -> u16 {
        match self {
            BadRequest::HeadTooLarge => 431,
            BadRequest::BodyTooLarge => 413,
            BadRequest::Version => 505,
            _ => 400,
        }
    }
}

/// How far the current request has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Everything usable was taken; more bytes are needed.
    NeedMore,
    /// More bytes are needed, and the client waits for `100 Continue` before it sends them. Said once per request.
    NeedContinue,
    /// The request is complete and ready in [`Parser::request`].
    Complete,
}

/// Where in a request the next byte falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Sized { left: u64 },
    ChunkSize,
    ChunkData { left: u64 },
    ChunkEnd,
    Trailer,
    Complete,
}

/// The request parser of one connection.
#[derive(Debug)]
pub(crate) struct Parser {
    state: State,
    expects_continue: bool,
    request: Request,
}

impl Parser {
    pub(crate) fn new() -> Parser {
        Parser {
            state: State::Head,
            expects_continue: false,
            request: Request::default(),
        }
    }

    /// The request read last; whole once [`Parser::advance`] said [`Progress::Complete`].
    pub(crate) fn request(&self) -> &Request {
        &self.request
    }

    /// Makes ready for the next request on the connection.
    pub(crate) fn start_next(&mut self) {
        self.state = State::Head;
        self.expects_continue = false;
        self.request.clear();
    }

    /// Reads on from `input`; returns how many bytes it used up. What is left must come again, in front of what follows.
    ///
    /// # Errors
    ///
    /// After an error the place of the next request is unknown, so the connection must be closed.
    pub(crate) fn advance(&mut self, input: &[u8]) -> Result<(usize, Progress), BadRequest> {
        let mut used = 0;
        loop {
            let step = match self.state {
                State::Complete => return Ok((used, Progress::Complete)),
                State::Head => self.head(&input[used..])?,
                State::Sized { .. } | State::ChunkData { .. } => self.data(&input[used..])?,
                State::ChunkSize => self.chunk_size(&input[used..])?,
                State::ChunkEnd => self.chunk_end(&input[used..])?,
                State::Trailer => self.trailer(&input[used..])?,
            };
            match step {
                Some(bytes) => used += bytes,
                None if self.state != State::Head && std::mem::take(&mut self.expects_continue) => {
                    return Ok((used, Progress::NeedContinue));
                }
                None => return Ok((used, Progress::NeedMore)),
            }
        }
    }

    fn head(&mut self, input: &[u8]) -> Result<Option<usize>, BadRequest> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Request::new(&mut headers);
        let size = match head.parse(input).map_err(|error| match error {
            httparse::Error::Version => BadRequest::Version,
            error => BadRequest::Head(error),
        })? {
            httparse::Status::Complete(size) if size <= HEAD_BYTES_MAX => size,
            httparse::Status::Partial if input.len() <= HEAD_BYTES_MAX => return Ok(None),
            _ => return Err(BadRequest::HeadTooLarge),
        };
        if head.version != Some(1) {
            return Err(BadRequest::Version);
        }
        let request = &mut self.request;
        request.method = match head.method {
            Some("GET") => Method::Get,
            Some("POST") => Method::Post,
            _ => Method::Other,
        };
        let target = head.path.unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        request.path.push_str(path);
        request.query.push_str(query);
        if Api::of(&request.path).is_none() {
            let text = |header: &httparse::Header<'_>| {
                let value = String::from_utf8_lossy(header.value).into_owned();
                (header.name.to_owned(), value)
            };
            request.headers.extend(head.headers.iter().map(text));
        }
        let mut chunked = false;
        for header in head.headers.iter() {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            let kept = if is("x-request-id") {
                &mut request.request_id
            } else if is("x-correlation-id") {
                &mut request.session
            } else if is("authorization") {
                &mut request.authorization
            } else if is("x-api-key") {
                &mut request.api_key
            } else if is("anthropic-version") {
                &mut request.api_version
            } else if is("x-mock-fault") {
                &mut request.fault
            } else if is("content-length") {
                let length = decimal(header.value).ok_or(BadRequest::ContentLength)?;
                if request
                    .content_length
                    .replace(length)
                    .is_some_and(|earlier| earlier != length)
                {
                    return Err(BadRequest::ContentLength);
                }
                continue;
            } else if is("transfer-encoding") {
                if chunked || !header.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err(BadRequest::TransferEncoding);
                }
                chunked = true;
                continue;
            } else if is("connection") {
                request.close |= header
                    .value
                    .split(|byte| *byte == b',')
                    .any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"));
                continue;
            } else if is("expect") {
                self.expects_continue = header.value.trim_ascii().eq_ignore_ascii_case(b"100-continue");
                continue;
            } else {
                continue;
            };
            kept.clear();
            kept.push_str(std::str::from_utf8(header.value).map_err(|_| BadRequest::HeaderText)?);
        }
        self.state = match (chunked, request.content_length) {
            (true, Some(_)) => return Err(BadRequest::TransferEncoding),
            (true, None) => State::ChunkSize,
            (false, None | Some(0)) => State::Complete,
            (false, Some(left)) if left <= BODY_BYTES_MAX => State::Sized { left },
            (false, Some(_)) => return Err(BadRequest::BodyTooLarge),
        };
        Ok(Some(size))
    }

    /// Takes body bytes, of a sized body or of one chunk.
    fn data(&mut self, input: &[u8]) -> Result<Option<usize>, BadRequest> {
        let (State::Sized { left } | State::ChunkData { left }) = &mut self.state else {
            unreachable!("data is read in the two states that hold a length");
        };
        if input.is_empty() {
            return Ok(None);
        }
        let taken = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
        self.request.body.extend_from_slice(&input[..taken]);
        *left -= taken as u64;
        match self.state {
            State::Sized { left: 0 } => self.state = State::Complete,
            State::ChunkData { left: 0 } => self.state = State::ChunkEnd,
            _ => {}
        }
        Ok(Some(taken))
    }

    fn chunk_size(&mut self, input: &[u8]) -> Result<Option<usize>, BadRequest> {
        match httparse::parse_chunk_size(input).map_err(|_| BadRequest::Chunk)? {
            httparse::Status::Partial if input.len() <= CHUNK_LINE_BYTES_MAX => Ok(None),
            httparse::Status::Partial => Err(BadRequest::Chunk),
            httparse::Status::Complete((line, left)) => {
                if left > BODY_BYTES_MAX - self.request.body.len() as u64 {
                    return Err(BadRequest::BodyTooLarge);
                }
                self.state = if left == 0 {
                    State::Trailer
                } else {
                    State::ChunkData { left }
                };
                Ok(Some(line))
            }
        }
    }

    fn chunk_end(&mut self, input: &[u8]) -> Result<Option<usize>, BadRequest> {
        match input {
            [b'\r', b'\n', ..] => {
                self.state = State::ChunkSize;
                Ok(Some(2))
            }
            [] | [b'\r'] => Ok(None),
            _ => Err(BadRequest::Chunk),
        }
    }

    /// Drops one trailer line; an empty one ends the body.
    fn trailer(&mut self, input: &[u8]) -> Result<Option<usize>, BadRequest> {
        match input.iter().position(|byte| *byte == b'\n') {
            Some(end) if end < CHUNK_LINE_BYTES_MAX => {
                if matches!(&input[..end], b"" | b"\r") {
                    self.state = State::Complete;
                }
                Ok(Some(end + 1))
            }
            None if input.len() < CHUNK_LINE_BYTES_MAX => Ok(None),
            _ => Err(BadRequest::Chunk),
        }
    }
}

/// A number of decimal digits alone: `str::parse` would also take a plus sign.
fn decimal(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
