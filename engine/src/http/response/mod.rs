//! The reader of one response: head, framing, then the event stream or the whole body.

#[cfg(test)]
mod tests;

use super::body::Body;
use super::endpoint::Protocol;
use super::error::HttpError;
use super::failure::{FailureKind, MAX_MESSAGE_BYTES, ResponseFailure, excerpt, without_credentials};
use super::head::{Head, HeadProgress, MAX_HEAD_BYTES};
use super::scratch::{Carry, ScratchPool};
use super::sse::EventSplitter;
use super::stream::{AnswerEvents, AnswerState};
use super::usage::TokenUsage;

/// Largest body that is not a stream. Streams have no bound; their events do.
pub const MAX_BODY_BYTES: usize = 64 << 20;

/// What bytes that arrived together completed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Feed {
    /// Bytes used. Fewer than were given only once the response is complete: the rest belongs to nothing that was asked
    /// for, and the connection should not be used again.
    pub consumed: usize,
    /// The head, not an interim one, ended in these bytes.
    pub head_completed: bool,
    /// Events (or the one whole body) with content that ended in these bytes.
    pub contents: u32,
    /// Those of them that were not reasoning alone.
    pub outputs: u32,
    /// Payload among the bytes: framing of the body does not count.
    pub body_bytes: u32,
    /// The response is complete.
    pub complete: bool,
}

/// What a response has reached.
///
/// ```text
/// Head --blank line--> Body --end--> Complete
///   \                    \
///    `----------error-----`--------> Broken
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Body,
    Complete,
    Broken(HttpError),
}

/// What becomes of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sink {
    /// Events, judged as they end.
    Events,
    /// One answer, judged when it is whole.
    Answer,
    /// The start of the text of a failed response.
    ErrorText,
    /// Nothing: it is read to keep the connection in step.
    Discard,
}

/// A reader for the responses of one connection, one after the other.
///
/// Small, and without memory of its own: a buffer is borrowed while a head, an event or a body straddles reads, and given
/// back when that is whole. Failed responses own the text of their failure.
#[derive(Debug)]
pub struct ResponseReader {
    body: Body,
    carry: Carry,
    answer: AnswerState,
    /// Set as soon as the response is known to be a failure; final once the response is complete.
    failure: Option<Box<ResponseFailure>>,
    /// Bytes of interim heads before the head.
    interim_bytes: u32,
    /// Of the head that is carried.
    head_progress: HeadProgress,
    status: u16,
    state: State,
    sink: Sink,
    events: EventSplitter,
    keep_alive: bool,
    got_any_byte: bool,
}

impl ResponseReader {
    /// A reader that waits for a response of this API.
    pub fn new(protocol: Protocol) -> Self {
        Self {
            body: Body::Length(0),
            carry: Carry::default(),
            answer: AnswerState {
                protocol,
                ..AnswerState::default()
            },
            failure: None,
            interim_bytes: 0,
            head_progress: HeadProgress::default(),
            status: 0,
            state: State::Head,
            sink: Sink::Discard,
            events: EventSplitter::new(),
            keep_alive: false,
            got_any_byte: false,
        }
    }

    /// Makes ready for the next response and gives scratch buffers back. Also right after an error or a cut, before the
    /// reader is dropped or used for another connection.
    pub fn begin(&mut self, pool: &mut ScratchPool) {
        self.carry.release(pool);
        if let Some(text) = self.answer.text.take() {
            pool.put(text);
        }
        *self = Self::new(self.answer.protocol);
    }

    /// The same for a response whose text is wanted, see [`ResponseReader::text`].
    pub fn begin_keeping_text(&mut self, pool: &mut ScratchPool) {
        self.begin(pool);
        self.answer.text = Some(pool.take());
    }

    /// The text of the answer so far, if it is kept: raw JSON without the quotes, neither reasoning nor tool calls. Texts of more than 16 MiB
    /// lack their end.
    pub fn text(&self) -> &[u8] {
        self.answer.text.as_deref().unwrap_or_default()
    }

    /// Takes bytes that arrived together and tells what they completed. Takes nothing once the response is complete.
    ///
    /// # Errors
    /// The bytes are not a response, or pass a bound. The connection is out of step then: every further call returns the
    /// same error until [`ResponseReader::begin`].
    pub fn feed(&mut self, bytes: &[u8], pool: &mut ScratchPool) -> Result<Feed, HttpError> {
        let mut feed = Feed::default();
        let result = self.advance(bytes, pool, &mut feed);
        self.settle(result, feed)
    }

    /// The peer closed its side.
    ///
    /// A body that lasts until the close is complete with it. So is a body that breaks off after the response is known to
    /// be a failure: servers that refuse a request early, or die while answering, often close before their text is out, and
    /// what they said of the reason is worth more than the missing rest.
    ///
    /// # Errors
    /// [`HttpError::Disconnected`] before the end of the head, [`HttpError::IncompleteBody`] before the end of the body.
    pub fn end_of_input(&mut self, pool: &mut ScratchPool) -> Result<Feed, HttpError> {
        let mut feed = Feed::default();
        let result = match self.state {
            State::Head => Err(HttpError::Disconnected),
            State::Body => self.close_body(pool, &mut feed),
            State::Complete => Ok(()),
            State::Broken(error) => Err(error),
        };
        self.keep_alive = false;
        self.settle(result, feed)
    }

    /// The status, 0 before the end of the head.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Whether the connection may carry another request. Valid once the response is complete.
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Whether anything of the response has arrived, interim heads included.
    pub fn got_any_byte(&self) -> bool {
        self.got_any_byte
    }

    /// Whether the answer is an event stream, whatever the request asked for. A whole answer also counts as one content, but
    /// a time to its first token would mean nothing. Valid from the end of the head.
    pub fn is_event_stream(&self) -> bool {
        self.sink == Sink::Events
    }

    /// Whether the response is complete with the end of the connection and in no other way, and so needs proof that the server ended it.
    pub fn lasts_until_close(&self) -> bool {
        self.state == State::Body && matches!(self.body, Body::UntilClose) && self.failure.is_none()
    }

    /// The server's last token counts.
    pub fn usage(&self) -> TokenUsage {
        self.answer.usage.counts()
    }

    /// Whether a successful stream carried a finish reason but no `[DONE]`, or what its API has for one. Valid once the response is complete.
    pub fn missing_done(&self) -> bool {
        self.sink == Sink::Events && self.failure.is_none() && self.answer.finished && !self.answer.done
    }

    /// Why a complete response is a failure; `None` is a success.
    pub fn failure(&self) -> Option<ResponseFailure> {
        self.failure.as_deref().cloned()
    }

    fn settle(&mut self, result: Result<(), HttpError>, mut feed: Feed) -> Result<Feed, HttpError> {
        if let Err(error) = result {
            self.state = State::Broken(error);
            self.keep_alive = false;
            return Err(error);
        }
        feed.complete = self.state == State::Complete;
        Ok(feed)
    }

    fn advance(&mut self, bytes: &[u8], pool: &mut ScratchPool, feed: &mut Feed) -> Result<(), HttpError> {
        self.got_any_byte |= !bytes.is_empty();
        if let State::Broken(error) = self.state {
            return Err(error);
        }
        if self.state == State::Head && !bytes.is_empty() {
            feed.consumed = if self.carry.is_empty() {
                self.begin_head(bytes, pool, feed)?
            } else {
                self.continue_head(bytes, pool, feed)?
            };
        }
        if self.state == State::Body {
            self.read_body(bytes, pool, feed)?;
        }
        Ok(())
    }

    /// Reads the heads that `bytes` begin with; what is left of an unfinished one is carried. Returns the bytes used.
    fn begin_head(&mut self, bytes: &[u8], pool: &mut ScratchPool, feed: &mut Feed) -> Result<usize, HttpError> {
        let used = self.read_heads(bytes, pool, feed)?;
        if feed.head_completed {
            return Ok(used);
        }
        self.carry.append(&bytes[used..], pool);
        Ok(bytes.len())
    }

    /// Completes the head that an earlier read began. Returns how many of `bytes` were used.
    fn continue_head(&mut self, bytes: &[u8], pool: &mut ScratchPool, feed: &mut Feed) -> Result<usize, HttpError> {
        let before = self.carry.len();
        let part = &bytes[..bytes.len().min(self.head_room() + 1 - before)];
        let mut held = std::mem::take(&mut self.carry);
        held.append(part, pool);
        // A head can only end at a line end, so parsing waits for one.
        let line_ended = memchr::memchr(b'\n', part).is_some();
        let used = if line_ended || held.len() > self.head_room() {
            self.read_heads(held.bytes(), pool, feed)
        } else {
            self.head_progress.judge_start(held.bytes()).map(|()| 0)
        };
        if let Ok(0) = used {
            // Nothing ended: it stays where it is, for copying it each time would cost the square of its length.
            self.carry = held;
            return Ok(part.len());
        }
        let result = used.map(|used| {
            if feed.head_completed {
                return used - before;
            }
            self.carry.append(&held.bytes()[used..], pool);
            part.len()
        });
        held.release(pool);
        result
    }

    /// Reads the heads that lie whole in `bytes`, up to the final one. Returns the bytes used.
    fn read_heads(&mut self, bytes: &[u8], pool: &mut ScratchPool, feed: &mut Feed) -> Result<usize, HttpError> {
        let mut at = 0;
        // One byte more than the bound shows that it was passed; what lies further on must not decide.
        loop {
            let end = bytes.len().min(at + self.head_room() + 1);
            let Some(head) = Head::parse(&bytes[at..end], &mut self.head_progress)? else {
                break;
            };
            let whole = &bytes[at..at + head.len];
            at += head.len;
            self.head_progress = HeadProgress::default();
            if self.take_head(head, whole, pool)? {
                feed.head_completed = true;
                return Ok(at);
            }
        }
        if bytes.len() - at > self.head_room() {
            return Err(HttpError::HeadTooLarge);
        }
        Ok(at)
    }

    /// Bytes that the bound leaves for the head behind the interim heads so far.
    fn head_room(&self) -> usize {
        MAX_HEAD_BYTES - self.interim_bytes as usize
    }

    /// Takes a head, which is these bytes; answers whether it is the final one.
    fn take_head(&mut self, head: Head<'_>, bytes: &[u8], pool: &mut ScratchPool) -> Result<bool, HttpError> {
        if head.len > self.head_room() {
            return Err(HttpError::HeadTooLarge);
        }
        if head.status == 101 {
            return Err(HttpError::UnexpectedUpgrade);
        }
        if head.is_interim() {
            // The bound on heads bounds it.
            self.interim_bytes += head.len as u32;
            return Ok(false);
        }
        if let Some(tap) = pool.tap() {
            tap.note_head(bytes, head.content_type);
        }
        self.status = head.status;
        self.keep_alive = head.keep_alive;
        self.sink = if !(200..=299).contains(&head.status) {
            self.note_status_failure(&head)
        } else if let Some(coding) = head.content_coding {
            self.failure = Some(Box::new(ResponseFailure::content_coding(coding)));
            Sink::Discard
        } else if head.event_stream {
            Sink::Events
        } else {
            Sink::Answer
        };
        if let (Sink::Answer, Body::Length(length)) = (self.sink, &head.body)
            && *length > MAX_BODY_BYTES as u64
        {
            return Err(HttpError::BodyTooLarge);
        }
        self.body = head.body;
        self.state = State::Body;
        Ok(true)
    }

    /// Keeps what the head tells about a failure; answers what becomes of the body.
    fn note_status_failure(&mut self, head: &Head<'_>) -> Sink {
        let mut failure = ResponseFailure::status(head.status, head.reason);
        let mut sink = Sink::ErrorText;
        if let Some(after) = head.retry_after {
            failure.add_note(&format!("(retry-after: {})", excerpt(after)));
        }
        if let (300..=399, Some(location)) = (head.status, head.location) {
            failure.add_note(&format!(
                "redirect to '{}' was not followed: set the endpoint url to the final address",
                excerpt(&without_credentials(location))
            ));
            sink = Sink::Discard;
        }
        if let Some(coding) = head.content_coding {
            failure.add_note(&format!("(body not shown: content-encoding '{}')", excerpt(coding)));
            sink = Sink::Discard;
        }
        self.failure = Some(Box::new(failure));
        sink
    }

    fn read_body(&mut self, bytes: &[u8], pool: &mut ScratchPool, feed: &mut Feed) -> Result<(), HttpError> {
        while feed.consumed < bytes.len() && !self.body.is_done() {
            let (used, payload) = self.body.next(&bytes[feed.consumed..])?;
            feed.consumed += used;
            feed.body_bytes = feed
                .body_bytes
                .saturating_add(u32::try_from(payload.len()).unwrap_or(u32::MAX));
            if !payload.is_empty() {
                if let Some(tap) = pool.tap() {
                    tap.note_payload(payload);
                }
                self.take_payload(payload, pool, feed)?;
            }
        }
        if self.body.is_done() && self.state == State::Body {
            self.complete(pool, feed);
        }
        Ok(())
    }

    fn take_payload(&mut self, payload: &[u8], pool: &mut ScratchPool, feed: &mut Feed) -> Result<(), HttpError> {
        match self.sink {
            Sink::Events => {
                let Self {
                    events,
                    carry,
                    answer,
                    failure,
                    ..
                } = self;
                // An error ends the interest in a stream, not the reading of its body.
                if failure.is_none() {
                    events.feed(payload, carry, pool, AnswerEvents { answer, feed, failure })?;
                }
            }
            Sink::Answer if self.carry.is_empty() && self.body.is_done() => {
                self.failure = self.answer.answer(payload, pool, feed).map(Box::new);
                self.finish(pool);
            }
            Sink::Answer => {
                if self.carry.len() + payload.len() > MAX_BODY_BYTES {
                    return Err(HttpError::BodyTooLarge);
                }
                self.carry.append(payload, pool);
            }
            Sink::ErrorText => {
                let room = MAX_MESSAGE_BYTES.saturating_sub(self.carry.len());
                self.carry.append(&payload[..payload.len().min(room)], pool);
            }
            Sink::Discard => {}
        }
        Ok(())
    }

    fn close_body(&mut self, pool: &mut ScratchPool, feed: &mut Feed) -> Result<(), HttpError> {
        if !matches!(self.body, Body::UntilClose) {
            let failure = self.failure.as_mut().ok_or(HttpError::IncompleteBody)?;
            if failure.kind == FailureKind::Status {
                failure.add_note("(body cut short by the server)");
            }
        }
        self.complete(pool, feed);
        Ok(())
    }

    /// The body is over: judges what is left of it, and the response as a whole.
    fn complete(&mut self, pool: &mut ScratchPool, feed: &mut Feed) {
        let Self {
            events,
            carry,
            answer,
            failure,
            ..
        } = self;
        match self.sink {
            Sink::Events => {
                if failure.is_none() {
                    events.finish(carry, pool, AnswerEvents { answer, feed, failure });
                }
                if failure.is_none() {
                    *failure = answer.verdict().map(Box::new);
                }
            }
            Sink::Answer => *failure = answer.answer(carry.bytes(), pool, feed).map(Box::new),
            Sink::ErrorText => {
                if let Some(failure) = failure {
                    failure.add_body(carry.bytes());
                }
            }
            Sink::Discard => {}
        }
        self.finish(pool);
    }

    fn finish(&mut self, pool: &mut ScratchPool) {
        self.carry.release(pool);
        self.state = State::Complete;
    }
}
