//! What the events of one chat stream, or the one body of an answer, add up to.

use super::chat::{ChatFacts, Shape};
use super::failure::{FailureKind, ResponseFailure};
use super::response::Feed;
use super::scratch::ScratchPool;
use super::sse::{Event, Wanted};
use super::usage::TokenUsage;

/// The facts of one response with a success status.
#[derive(Debug, Default)]
pub(super) struct ChatStream {
    /// The last usage that was not empty.
    pub(super) usage: TokenUsage,
    /// Content has been seen.
    pub(super) content: bool,
    /// A finish reason has been seen.
    pub(super) finished: bool,
    /// `[DONE]` has been seen.
    pub(super) done: bool,
}

impl ChatStream {
    /// Takes one event. Anything that is not a chat chunk, an error or `[DONE]` is ignored: comments, empty data, JSON
    /// that is broken, objects of another kind.
    pub(super) fn event(
        &mut self,
        event: Event<'_>,
        pool: &mut ScratchPool,
        feed: &mut Feed,
        failure: &mut Option<Box<ResponseFailure>>,
    ) -> Wanted {
        let fields = event.fields();
        event.with_data(&fields, pool, |data| {
            let facts = ChatFacts::read(data, Shape::Chunk);
            let error = facts.ok().and_then(|facts| facts.error);
            if fields.is_error {
                *failure = Some(Box::new(ResponseFailure::error_event(data, error, fields.comment)));
                return Wanted::Nothing;
            }
            if let Some(error) = error {
                *failure = Some(Box::new(ResponseFailure::error_member(error)));
                return Wanted::Nothing;
            }
            match facts {
                Ok(facts) => self.add(facts, feed),
                Err(_) => self.done |= data.trim_ascii() == b"[DONE]",
            }
            Wanted::More
        })
    }

    /// Takes a whole body; answers why it is a failure.
    pub(super) fn answer(&mut self, body: &[u8], feed: &mut Feed) -> Option<ResponseFailure> {
        if body.trim_ascii().is_empty() {
            return Some(ResponseFailure::plain(FailureKind::NoContent, "response body is empty"));
        }
        let Ok(facts) = ChatFacts::read(body, Shape::Answer) else {
            return Some(ResponseFailure::invalid_body(body));
        };
        if let Some(error) = facts.error {
            return Some(ResponseFailure::error_member(error));
        }
        self.add(facts, feed);
        (!facts.content).then(|| {
            ResponseFailure::plain(
                FailureKind::NoContent,
                "response is not a chat.completion with text, reasoning or tool calls in its first choice",
            )
        })
    }

    /// Judges a stream that ended cleanly; answers why it is a failure.
    pub(super) fn verdict(&self) -> Option<ResponseFailure> {
        if !self.finished && !self.done {
            return Some(ResponseFailure::plain(
                FailureKind::TruncatedStream,
                "truncated stream: it ended without a finish reason and without [DONE]",
            ));
        }
        (!self.content).then(|| {
            ResponseFailure::plain(
                FailureKind::NoContent,
                "no token received: no event of the stream carried content",
            )
        })
    }

    fn add(&mut self, facts: ChatFacts<'_>, feed: &mut Feed) {
        feed.contents += u32::from(facts.content);
        feed.outputs += u32::from(facts.output);
        self.content |= facts.content;
        self.finished |= facts.finished;
        if let Some(usage) = facts.usage {
            self.usage = usage;
        }
    }
}
