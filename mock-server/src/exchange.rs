//! One inference request on its way through the books: counted, stamped, filed.

use std::sync::atomic::Ordering;

use crate::api::Api;
use crate::connection::Connection;
use crate::http::Request;
use crate::ledger::{LedgerEntry, Message, Outcome, increment, lock};
use crate::observed::Ended;
use crate::server::Thread;
use crate::sse::FinishReason;
use crate::sys;

/// The client left before the end of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClientLeft;

/// An inference request between its arrival and its entry in the ledger.
pub(crate) struct Exchange<'a> {
    thread: &'a Thread,
    entry: LedgerEntry,
    /// Tokens of a stream that are sent or about to be.
    streamed: u32,
    /// The number of the filed entry.
    filed: Option<u64>,
    /// Why the answer ends, if it comes to its end.
    finish: FinishReason,
    /// Which inference request of this server it is, from 1.
    pub(crate) ordinal: u64,
}

impl<'a> Exchange<'a> {
    /// Counts the arrival of `request`.
    pub(crate) fn arrive(
        thread: &'a Thread,
        request: &Request,
        received_ns: u64,
        connection: &Connection,
    ) -> Exchange<'a> {
        let counters = &thread.shared.counters;
        let in_flight = increment(&counters.in_flight);
        counters.in_flight_max.fetch_max(in_flight, Ordering::Relaxed);
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Exchange {
            thread,
            entry: LedgerEntry {
                api: Api::of(&request.path).unwrap_or_default(),
                receive_complete_ns: received_ns,
                first_byte_ns: None,
                last_byte_ns: None,
                first_token_ns: None,
                last_token_ns: None,
                request_bytes: request.body.len() as u64,
                response_bytes: 0,
                request_id: text(&request.request_id),
                session: text(&request.session),
                model: None,
                messages: None,
                prompt_words: 0,
                tokens_sent: 0,
                // Overwritten when the entry is filed; what an entry would be that nobody finished.
                outcome: Outcome::Disconnected,
                fault: None,
                in_flight_at_arrival: in_flight,
                connection: connection.number,
                client: connection.client,
                thread: thread.index,
            },
            streamed: 0,
            filed: None,
            finish: FinishReason::Stop,
            ordinal: increment(&counters.requests),
        }
    }

    /// Requests in flight at its arrival, itself included.
    pub(crate) fn in_flight(&self) -> u64 {
        self.entry.in_flight_at_arrival
    }

    /// Notes how long the prompt is.
    pub(crate) fn prompt_words(&mut self, words: u64) {
        self.entry.prompt_words = words;
        self.thread.shared.observed.prompt(words);
    }

    /// Notes why the answer will end.
    pub(crate) fn finish(&mut self, reason: FinishReason) {
        self.finish = reason;
    }

    /// Notes whom the request asks, and what it says.
    pub(crate) fn messages(&mut self, model: &str, messages: Vec<Message>) {
        self.entry.model = Some(model.to_owned());
        self.entry.messages = Some(messages);
    }

    /// Notes the fault that is played.
    pub(crate) fn fault(&mut self, fault: String) {
        self.entry.fault = Some(fault);
    }

    /// Notes that the bytes which go out next bring the tokens of a stream to `tokens`.
    pub(crate) fn streamed(&mut self, tokens: u32) {
        self.streamed = tokens;
    }

    /// Notes that the bytes which go out next are a whole answer of `tokens` tokens.
    pub(crate) fn whole(&mut self, tokens: u32) {
        self.tokens_sent(tokens);
    }

    /// Notes that bytes go out now.
    pub(crate) fn sending(&mut self) {
        let now_ns = sys::monotonic_ns();
        self.entry.first_byte_ns.get_or_insert(now_ns);
        self.entry.last_byte_ns = Some(now_ns);
        if self.streamed > self.entry.tokens_sent {
            if self.entry.first_token_ns.is_none() {
                self.entry.first_token_ns = Some(now_ns);
                let waited = now_ns.saturating_sub(self.entry.receive_complete_ns);
                self.thread.shared.observed.first_token(waited);
            }
            self.entry.last_token_ns = Some(now_ns);
            self.tokens_sent(self.streamed);
        }
    }

    /// Brings the tokens of this answer to `tokens`, in the entry and in the server's total.
    fn tokens_sent(&mut self, tokens: u32) {
        let more = tokens - self.entry.tokens_sent;
        self.entry.tokens_sent = tokens;
        let total = &self.thread.shared.counters.tokens_sent;
        total.fetch_add(u64::from(more), Ordering::Relaxed);
    }

    /// Files the entry, just before the last bytes are sent: once the client has them, it finds the entry in the
    /// ledger and the request out of the count of those in flight.
    pub(crate) fn file(&mut self, outcome: Outcome, response_bytes: u64) {
        self.entry.outcome = outcome;
        self.entry.response_bytes = response_bytes;
        self.leave_flight();
        self.observe(outcome);
        // The texts move, so that filing allocates nothing; the rest stays for the access log.
        let (request_id, session, fault, model, messages) = (
            self.entry.request_id.take(),
            self.entry.session.take(),
            self.entry.fault.take(),
            self.entry.model.take(),
            self.entry.messages.take(),
        );
        let entry = LedgerEntry {
            request_id,
            session,
            fault,
            model,
            messages,
            ..self.entry
        };
        self.filed = Some(lock(self.thread.ledger()).push(entry));
    }

    /// Counts the end in what `/metrics` shows.
    fn observe(&self, outcome: Outcome) {
        let ended = match (outcome, self.finish) {
            (Outcome::Complete, FinishReason::Stop) => Ended::Stop,
            (Outcome::Complete, FinishReason::Length) => Ended::Length,
            (Outcome::Disconnected, _) => Ended::Abort,
            _ => return,
        };
        let life_ns = sys::monotonic_ns().saturating_sub(self.entry.receive_complete_ns);
        self.thread.shared.observed.ended(ended, life_ns);
    }

    /// Closes the books on a client that left when `response_bytes` had been sent.
    pub(crate) fn client_left(&mut self, response_bytes: u64) {
        increment(&self.thread.shared.counters.disconnects_before_end);
        match self.filed {
            None => self.file(Outcome::Disconnected, response_bytes),
            Some(number) => lock(self.thread.ledger()).amend(number, |entry| {
                entry.outcome = Outcome::Disconnected;
                entry.response_bytes = response_bytes;
            }),
        }
    }

    /// The line of the access log.
    pub(crate) fn log_line(&self) -> String {
        let LedgerEntry {
            receive_complete_ns,
            outcome,
            tokens_sent,
            response_bytes,
            connection,
            ..
        } = &self.entry;
        let end_ns = self.entry.last_byte_ns.unwrap_or(*receive_complete_ns);
        let ms = end_ns.saturating_sub(*receive_complete_ns) as f64 / 1e6;
        format!("{outcome:?} {tokens_sent} tokens {response_bytes} bytes {ms:.3} ms connection {connection}")
    }

    fn leave_flight(&self) {
        self.thread.shared.counters.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        // Only a panic gets here without an entry; the count must not be wrong for the rest of the run.
        if self.filed.is_none() {
            self.leave_flight();
        }
    }
}
