//! What the events of one stream, or the one body of an answer, add up to.

use super::chunk_shape::Holes;
use super::endpoint::{Part, Protocol, Signs};
use super::extractor::Extractor;
use super::failure::{FailureKind, ResponseFailure};
use super::response::Feed;
use super::scratch::ScratchPool;
use super::sse::{Consumer, Event, Wanted};
use super::usage::UsageObject;

/// Longest text of an answer that is kept: what a session would send on with every later turn.
const MAX_TEXT_BYTES: usize = 16 << 20;

/// The facts of one response with a success status.
#[derive(Debug, Default)]
pub(super) struct AnswerState {
    pub(super) protocol: Protocol,
    /// The last usage that was not empty; where the API spreads it over several events, all of it.
    pub(super) usage: UsageObject,
    /// The part of the answer that the last piece of text belonged to. Parts come one after the other.
    pub(super) part: Option<Part>,
    /// Content has been seen.
    pub(super) content: bool,
    /// A finish reason has been seen.
    pub(super) finished: bool,
    /// `[DONE]`, or what the API has for it, has been seen.
    pub(super) done: bool,
    /// The text of the answer so far, if it is wanted: raw JSON without the quotes. Pieces of a JSON string one behind the other are a JSON string.
    pub(super) text: Option<Vec<u8>>,
}

/// Takes the events of one read.
pub(super) struct AnswerEvents<'r> {
    pub(super) answer: &'r mut AnswerState,
    pub(super) feed: &'r mut Feed,
    pub(super) failure: &'r mut Option<Box<ResponseFailure>>,
}

impl Consumer for AnswerEvents<'_> {
    fn recognise(&mut self, bytes: &[u8], pool: &mut ScratchPool) -> Option<usize> {
        let mut text = 0..0;
        let wanted = self.answer.text.is_some().then_some(&mut text);
        let (len, signs) = pool.shapes.recognise(bytes, wanted)?;
        // An object of another kind may have the shape; what looks like its text is no answer.
        if signs.output {
            self.answer.keep(&bytes[text]);
        }
        self.answer.add(signs, self.feed);
        Some(len)
    }

    /// Anything that is not an event of the API, an error or `[DONE]` is ignored: comments, empty data, JSON that is broken,
    /// objects of another kind.
    fn event(&mut self, event: Event<'_>, pool: &mut ScratchPool) -> Wanted {
        let fields = event.fields();
        let mut holes = Holes::default();
        let mut known = None;
        let mut extractor = self.answer.extractor(pool);
        let wanted = event.with_data(&fields, pool, |data| {
            let facts = match &mut extractor {
                Some(extractor) => extractor.read(data, &mut holes),
                None => self.answer.protocol.read_event(data, &mut holes),
            };
            let error = facts.ok().and_then(|facts| facts.error);
            if fields.is_error {
                *self.failure = Some(Box::new(ResponseFailure::error_event(data, error, fields.comment)));
                return Wanted::Nothing;
            }
            if let Some(error) = error {
                *self.failure = Some(Box::new(ResponseFailure::error_member(error)));
                return Wanted::Nothing;
            }
            match facts {
                Ok(facts) => {
                    self.answer.add(facts.signs(), self.feed);
                    // The whole of a part says nothing new behind its pieces.
                    if facts.whole_of.is_none() || facts.whole_of != self.answer.part {
                        self.answer.keep(facts.text.unwrap_or_default());
                    }
                    match facts.usage {
                        Some(usage) => self.answer.count(usage),
                        // A shape tells where the text is, or there is none.
                        None if facts.text.is_none() || holes.have_answer() => known = Some(facts.signs()),
                        None => {}
                    }
                }
                Err(_) => self.answer.done |= data.trim_ascii() == b"[DONE]",
            }
            Wanted::More
        });
        pool.put_extractor(extractor);
        if let (Some(signs), Some(data_at)) = (known, event.data_at(&fields)) {
            pool.shapes.learn(event.bytes(), data_at, &holes, signs);
        }
        wanted
    }
}

impl AnswerState {
    /// Takes a whole body; answers why it is a failure.
    pub(super) fn answer(&mut self, body: &[u8], pool: &mut ScratchPool, feed: &mut Feed) -> Option<ResponseFailure> {
        let mut extractor = self.extractor(pool);
        let failure = self.judge(body, extractor.as_mut(), feed);
        pool.put_extractor(extractor);
        failure
    }

    /// What reads answers of an API that only its user knows, until it is put back.
    fn extractor(&self, pool: &mut ScratchPool) -> Option<Extractor> {
        (self.protocol == Protocol::Template).then(|| pool.take_extractor())
    }

    fn judge(&mut self, body: &[u8], extractor: Option<&mut Extractor>, feed: &mut Feed) -> Option<ResponseFailure> {
        if body.trim_ascii().is_empty() {
            return Some(ResponseFailure::plain(FailureKind::NoContent, "response body is empty"));
        }
        let facts = match extractor {
            Some(extractor) => extractor.read(body, &mut Holes::default()),
            None => self.protocol.read_answer(body),
        };
        let Ok(facts) = facts else {
            return Some(ResponseFailure::invalid_body(body));
        };
        if let Some(error) = facts.error {
            return Some(ResponseFailure::error_member(error));
        }
        self.add(facts.signs(), feed);
        self.keep(facts.text.unwrap_or_default());
        self.usage = facts.usage.unwrap_or(self.usage);
        (!facts.content).then(|| ResponseFailure::other_answer(self.protocol.no_answer(), body))
    }

    /// Judges a stream that ended cleanly; answers why it is a failure.
    pub(super) fn verdict(&self) -> Option<ResponseFailure> {
        if !self.finished && !self.done && !self.protocol.ends_with_body() {
            let mut failure = ResponseFailure::plain(FailureKind::TruncatedStream, self.protocol.truncated_stream());
            // It may be whole, and of another API.
            if let (Some(events), false) = (self.protocol.events(), self.content) {
                failure.add_note(&format!("(no event carried content as events of {events} do)"));
            }
            return Some(failure);
        }
        (!self.content).then(|| ResponseFailure::plain(FailureKind::NoContent, self.protocol.silent_stream()))
    }

    /// Appends a piece of the answer's text, if anyone wants it.
    fn keep(&mut self, piece: &[u8]) {
        if let Some(text) = self
            .text
            .as_mut()
            .filter(|text| text.len() + piece.len() <= MAX_TEXT_BYTES)
        {
            text.extend_from_slice(piece);
        }
    }

    fn add(&mut self, signs: Signs, feed: &mut Feed) {
        feed.contents += u32::from(signs.content);
        feed.outputs += u32::from(signs.output);
        self.content |= signs.content;
        self.finished |= signs.finished;
        self.done |= signs.done;
        self.part = signs.piece_of.or(self.part);
    }

    fn count(&mut self, usage: UsageObject) {
        self.usage = match self.protocol.merges_usage() {
            true => usage.over(self.usage),
            false => usage,
        };
    }
}
