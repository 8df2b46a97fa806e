//! What a core does when operations complete, and how requests and connections end.

use std::os::fd::AsFd;

use super::connection::{NONE, Request, State};
use super::core::Core;
use super::failure;
use super::recorder::Ending;
use crate::credit::{CutCause, Sample};
use crate::http::{Feed, HttpError, TokenUsage};
use crate::id::PhaseId;
use crate::plan::ConnectionReuse;
use crate::record::{ErrorDetail, Outcome, Usage};
use crate::sys::driver::{BufferId, Completion, Driver, Operation};
use crate::sys::socket;

use crate::units::Nanos;

impl<D: Driver> Core<D> {
    /// Handles everything that completed; all of it happened at `now` as far as anyone can tell.
    pub(super) fn handle_completions(&mut self, now: Nanos) {
        let mut completions = std::mem::take(&mut self.completions);
        for completion in completions.drain(..) {
            match completion.tag.operation {
                Operation::Wake => {
                    self.exchange.links[self.id.index()].waker.event().drain();
                    self.watching = false;
                }
                Operation::Cancel => {}
                Operation::Connect => self.connect_completed(completion, now),
                Operation::Send => self.send_completed(completion, now),
                Operation::Receive => self.receive_completed(completion, now),
            }
        }
        self.completions = completions;
    }

    fn connect_completed(&mut self, completion: Completion, now: Nanos) {
        let index = completion.tag.index;
        let place = self.slab.get(index);
        debug_assert_eq!(
            place.generation, completion.tag.generation,
            "a place waits for its completions"
        );
        place.operations -= 1;
        self.ramp.ended();
        if place.state == State::Closing {
            // Cancelled too late: the connection may be there all the same, and is closed.
            return self.close_if_quiet(index);
        }
        if completion.result < 0 {
            return self.connect_failed(index, failure::connecting(-completion.result), now);
        }
        place.receiving = true;
        place.operations += 1;
        let (generation, socket) = (place.generation, place.raw_socket());
        place.request().last_life = now;
        if let (Some(trace), Some(socket)) = (&mut place.trace, &place.socket) {
            trace.local = socket::local_address(socket.as_fd());
        }
        self.driver.receive(index, generation, socket);
        if self.tls.is_some() {
            self.begin_handshake(index, now);
        } else {
            self.connected(index, now);
        }
    }

    /// The connection can carry its request.
    pub(super) fn connected(&mut self, index: u32, now: Nanos) {
        self.connect_failing = false;
        let place = self.slab.get(index);
        place.state = State::Busy;
        let request = place.request();
        if !request.resent {
            request.connected = now;
        }
        if let Some(trace) = &mut place.trace {
            trace.connect_end = now;
        }
        self.to_send.push_back(index);
        self.count_connection(index);
    }

    /// A connection is established, in place of one that had ended if there is such a one.
    fn count_connection(&mut self, index: u32) {
        let phase = self.slab.get(index).request().credit.phase.index();
        let replaces = u64::from(self.lost > 0);
        self.lost -= replaces;
        self.counters.connections += 1;
        self.counters.reconnects += replaces;
        let window = self.health.window(phase);
        window.connections_opened += 1;
        window.reconnects += replaces;
    }

    fn send_completed(&mut self, completion: Completion, now: Nanos) {
        let index = completion.tag.index;
        let length = self.driver.request_length(index);
        let place = self.slab.get(index);
        place.operations -= 1;
        place.sending = false;
        match place.state {
            State::Closing => return self.close_if_quiet(index),
            State::Busy | State::Handshaking => {}
            state => unreachable!("a send completed on a connection that is {state:?}"),
        }
        if completion.result < 0 {
            // The server may have answered before it stopped reading (413 and the like): the receive decides what the request was.
            if !place.receiving {
                self.lose(index, failure::broken(-completion.result), now);
            }
            return;
        }
        if place.tls.is_some() {
            return self.sealed_sent(index, completion.result as usize, now);
        }
        let (generation, socket) = (place.generation, place.raw_socket());
        let request = place.request();
        request.last_life = now;
        request.bytes_sent += completion.result as u32;
        let sent = request.bytes_sent as usize;
        if sent < length {
            place.sending = true;
            place.operations += 1;
            if let Some(trace) = &mut place.trace {
                trace.wrote(sent as u32, now);
            }
            return self.driver.send(index, generation, socket, sent);
        }
        self.request_sent(index, now);
    }

    /// The last byte of a request was handed to the kernel.
    pub(super) fn request_sent(&mut self, index: u32, now: Nanos) {
        let request = self.slab.get(index).request();
        request.send_end = now;
        match request.credit.cancel_after {
            None => {}
            Some(Nanos::ZERO) => self.cancel(index, now),
            Some(delay) => self.cancels.set(index, now + delay),
        }
    }

    fn receive_completed(&mut self, completion: Completion, now: Nanos) {
        let index = completion.tag.index;
        let place = self.slab.get(index);
        if !completion.more {
            place.operations -= 1;
            place.receiving = false;
        }
        if let Some(buffer) = completion.buffer {
            if completion.result > 0 && place.tls.is_some() {
                self.received_sealed(index, buffer, completion.result as usize, now);
            } else if completion.result > 0 {
                self.received(index, buffer, completion.result as usize, now);
            }
            self.driver.recycle(buffer);
        } else if completion.result == -libc::ENOBUFS {
            // Not an end: armed again below.
        } else if completion.result <= 0 {
            self.input_ended(index, -completion.result, now);
        }
        self.continue_receiving(index, completion);
    }

    /// Arms the receive again if it ended although the connection goes on, and lets go of a connection that waited for this completion.
    fn continue_receiving(&mut self, index: u32, completion: Completion) {
        if completion.more {
            return;
        }
        let place = self.slab.get(index);
        match place.state {
            State::Handshaking | State::Busy | State::Idle | State::Parting
                if place.generation == completion.tag.generation =>
            {
                place.receiving = true;
                place.operations += 1;
                let (generation, socket) = (place.generation, place.raw_socket());
                self.driver.receive_again(index, generation, socket);
            }
            State::Closing => self.close_if_quiet(index),
            _ => {}
        }
    }

    fn received(&mut self, index: u32, buffer: BufferId, length: usize, now: Nanos) {
        let place = self.slab.get(index);
        match place.state {
            State::Busy => {}
            State::Idle => return self.out_of_step(index),
            _ => return,
        }
        let bytes = self.driver.bytes(buffer, length);
        let outcome = place.reader.feed(bytes, &mut self.scratch);
        self.fed(index, outcome, length, now);
    }

    /// Bytes that nobody asked for arrived on an idle connection.
    pub(super) fn out_of_step(&mut self, index: u32) {
        self.forget_idle(index);
        self.close(index);
    }

    /// Keeps what a read brought, if that is wanted.
    fn keep_read(&mut self, index: u32, now: Nanos) {
        let Some(tap) = self.scratch.tap() else { return };
        let place = self.slab.get(index);
        let payload_bytes = std::mem::take(&mut tap.payload_bytes);
        if let Some(trace) = &mut place.trace {
            trace.read(&mut tap.head, payload_bytes, now);
        }
        if let Some(transcript) = &mut place.transcript {
            transcript.content_type.append(&mut tap.content_type);
            transcript.take(&mut tap.payload, now);
        }
        tap.content_type.clear();
    }

    /// The reader took `length` bytes of a busy connection.
    pub(super) fn fed(&mut self, index: u32, outcome: Result<Feed, HttpError>, length: usize, now: Nanos) {
        self.keep_read(index, now);
        let place = self.slab.get(index);
        let request = place.request.as_mut().expect("a busy connection carries a request");
        request.last_life = now;
        match outcome {
            Ok(feed) => {
                self.note(index, feed, now);
                if feed.complete {
                    self.answered(index, feed.consumed == length, now);
                }
            }
            Err(error) => self.fail(index, Outcome::Error, failure::protocol(error), now),
        }
    }

    /// Stamps what a read brought.
    fn note(&mut self, index: u32, feed: Feed, now: Nanos) {
        let place = self.slab.get(index);
        let request = place.request.as_mut().expect("a busy connection carries a request");
        if feed.head_completed {
            request.head = now;
        }
        if feed.body_bytes > 0 {
            if request.chunks_received == 0 {
                request.first_body = now;
            }
            request.bytes_received += u64::from(feed.body_bytes);
            request.chunks_received += 1;
        }
        for _ in 0..feed.contents {
            if request.content_events > 0 {
                self.recorder
                    .keep_gap(&mut request.gaps, now.since(request.last_content));
            } else if place.reader.is_event_stream() {
                // A whole body has no first token, whatever was asked for.
                request.first_content = now;
                if std::mem::take(&mut request.in_prefill) {
                    self.exchange.release_prefill(now);
                }
            }
            request.last_content = now;
            request.content_events += 1;
        }
        if feed.outputs > 0 && request.first_output == Nanos::ZERO && place.reader.is_event_stream() {
            request.first_output = now;
        }
    }

    /// The peer closed its side (`errno` 0) or the connection broke.
    pub(super) fn input_ended(&mut self, index: u32, errno: i32, now: Nanos) {
        let place = self.slab.get(index);
        match place.state {
            State::Idle => {
                self.forget_idle(index);
                self.close(index);
            }
            State::Parting => self.parted(index),
            State::Handshaking if errno != 0 => self.connect_failed(index, failure::broken(errno), now),
            State::Handshaking => self.connect_failed(index, failure::handshake_cut(), now),
            // Without the peer's word that it closed, anybody may have cut the body.
            State::Busy
                if place.reader.lasts_until_close() && place.tls.as_ref().is_some_and(|tls| !tls.peer_closed()) =>
            {
                self.lose(index, failure::protocol(HttpError::IncompleteBody), now);
            }
            State::Busy => match place.reader.end_of_input(&mut self.scratch) {
                // The end of an until-close body; or the answer so far says already why the request failed.
                Ok(feed) => {
                    self.note(index, feed, now);
                    self.answered(index, false, now);
                }
                Err(_) if errno != 0 => self.lose(index, failure::broken(errno), now),
                Err(error) => self.lose(index, failure::protocol(error), now),
            },
            _ => {}
        }
    }

    /// The connection is gone. A request on a reused connection of which no response byte had arrived is sent once more: the server closed the
    /// connection while it was idle, and never saw the request (RFC 9112, 9.3.1).
    fn lose(&mut self, index: u32, detail: ErrorDetail, now: Nanos) {
        let place = self.slab.get(index);
        let retry = place
            .request
            .filter(|request| request.connection_reused && !request.resent && !place.reader.got_any_byte());
        if let Some(mut request) = retry
            && let Some(fresh) = self.slab.claim()
        {
            self.recorder.forget_gaps(&mut request.gaps);
            self.cancels.remove(index);
            self.slab.relink(index, fresh);
            self.slab.get(fresh).server = self.slab.get(index).server;
            self.slab.get(index).request = None;
            self.close(index);
            self.counters.resends += 1;
            self.health.window(request.credit.phase.index()).resends += 1;
            return self.connect(fresh, request.again(), now);
        }
        self.fail(index, Outcome::Error, detail, now);
    }

    /// The response is complete.
    fn answered(&mut self, index: u32, in_step: bool, now: Nanos) {
        let place = self.slab.get(index);
        let session = place.request().session_place;
        let fit = in_step && place.reader.keep_alive() && !place.sending && place.receiving;
        let failure = place.reader.failure();
        let succeeded = failure.is_none();
        match failure {
            None => self.finish(index, Outcome::Success, 0, now),
            Some(failure) => {
                let error = self.recorder.intern(failure::response(failure));
                self.finish(index, Outcome::Error, error, now);
            }
        }
        let keep = match self.connection_reuse {
            ConnectionReuse::Pooled => true,
            // Of a session that is one request nothing is left.
            ConnectionReuse::StickyUserSessions => succeeded && self.sessions.goes_on(session),
            ConnectionReuse::Never => false,
        };
        if keep && fit {
            let place = self.slab.get(index);
            place.state = State::Idle;
            place.served += 1;
            let server = place.server;
            if self.connection_reuse == ConnectionReuse::StickyUserSessions {
                self.keep_for_session(index, session);
            } else {
                self.idle.push(server, index);
            }
        } else {
            self.close(index);
        }
    }

    /// Disconnects a request because its credit says so.
    pub(super) fn cancel(&mut self, index: u32, now: Nanos) {
        let place = self.slab.get(index);
        let credit = place.request().credit;
        let speaks_tls = place.tls.is_some();
        let error = *self.cancel_errors[credit.phase.index()].get_or_insert_with(|| {
            let delay = credit.cancel_after.unwrap_or(Nanos::ZERO);
            self.recorder.intern(failure::cancelled(delay))
        });
        self.finish(index, Outcome::Cancelled, error, now);
        if speaks_tls {
            self.part(index, now);
        } else {
            self.close(index);
        }
    }

    /// Cuts the requests of one phase, all of them or those that the cause is about.
    pub(super) fn cut(&mut self, phase: PhaseId, cause: CutCause, now: Nanos) {
        let mut at = self.slab.oldest();
        while let Some(index) = at {
            at = self.slab.younger(index);
            let request = self.slab.get(index).request();
            let stays = matches!(cause, CutCause::Silent { since } if request.last_life >= since);
            if request.credit.phase == phase && !stays {
                self.fail(index, Outcome::Truncated, failure::truncated(cause), now);
            }
        }
    }

    /// Ends a request that did not succeed, and its connection.
    pub(super) fn fail(&mut self, index: u32, outcome: Outcome, detail: ErrorDetail, now: Nanos) {
        let error = self.recorder.intern(detail);
        self.finish(index, outcome, error, now);
        self.close(index);
    }

    /// Ends the request of a connection: record, counts, slot.
    fn finish(&mut self, index: u32, outcome: Outcome, error: u32, now: Nanos) {
        self.slab.unlink(index);
        self.cancels.remove(index);
        let place = self.slab.get(index);
        let mut request: Request = place.request.take().expect("a request ends once");
        let server = place.server;
        let (history_tokens, history_bytes) = match request.session_place {
            NONE => (Some(0), 0),
            session if self.images.entries[request.image as usize].has_history() => {
                let session = self.sessions.get(session);
                if let Some(transcript) = &mut place.transcript {
                    transcript.history.extend_from_slice(session.history());
                }
                session.history_size()
            }
            _ => (Some(0), 0),
        };
        if let Some(transcript) = &mut place.transcript {
            transcript.is_stream = place.reader.is_event_stream();
        }
        if let Some(trace) = &mut place.trace {
            trace.sending = place.sending && place.tls.as_ref().is_none_or(|tls| tls.carries_request());
        }
        let ending = Ending {
            outcome,
            error,
            status: place.reader.status(),
            missing_done: outcome == Outcome::Success && place.reader.missing_done(),
            usage: usage(place.reader.usage()),
            history_tokens,
            history_bytes,
            at: now,
        };
        let good = self.recorder.finish(&mut request, ending, place.attachments());
        if request.in_prefill {
            self.exchange.release_prefill(now);
        }
        let phase = request.credit.phase.index();
        self.servers.count(phase, server, outcome);
        if self.phases[phase].sampled {
            self.leave_sample(&request, &ending, good);
        }
        if request.session_place == NONE {
            self.leave_slot(phase, now);
        } else {
            self.turn_ended(index, &request, outcome, now);
        }
        self.exchange.links[self.id.index()]
            .progress
            .phase(phase)
            .count_ended(outcome);
        self.progressed = true;
    }

    /// Tells the controller of the phase what it needs to know of a request.
    fn leave_sample(&self, request: &Request, ending: &Ending, good: bool) {
        let Some(samples) = &self.exchange.links[self.id.index()].samples else {
            return;
        };
        let by_server = ending.usage.completion_tokens;
        let session_over = (request.session_place != NONE && self.sessions.is_at_last_turn(request.session_place))
            .then_some(request.session);
        samples.leave(Sample {
            phase: request.credit.phase,
            outcome: ending.outcome,
            issued: request.issued,
            latency: request.last_content.since(request.start),
            first_token: Some(request.first_content.since(request.start))
                .filter(|_| request.first_content > Nanos::ZERO),
            output_tokens: by_server.unwrap_or(request.content_events),
            counted_by_server: by_server.is_some(),
            session_over,
            good,
        });
    }

    /// Ends a connection. Its place is free once every operation on it has completed.
    pub(super) fn close(&mut self, index: u32) {
        let place = self.slab.get(index);
        let connecting = place.state == State::Connecting && place.operations > 0;
        self.lost += u64::from(!matches!(place.state, State::Connecting | State::Handshaking));
        if place.tls.is_some() {
            self.say_farewell(index);
        }
        let place = self.slab.get(index);
        place.state = State::Closing;
        place.reader.begin(&mut self.scratch);
        if connecting {
            let generation = place.generation;
            self.driver.cancel_connect(index, generation);
        } else if place.operations > 0
            && let Some(socket) = place.borrow_socket()
        {
            socket::shut_down(socket);
        }
        self.close_if_quiet(index);
    }

    fn close_if_quiet(&mut self, index: u32) {
        let place = self.slab.get(index);
        if place.state == State::Closing && place.operations == 0 {
            self.slab.vacate(index);
        }
    }

    /// An idle connection is no longer to be had.
    pub(super) fn forget_idle(&mut self, index: u32) {
        let place = self.slab.get(index);
        let server = place.server;
        match std::mem::replace(&mut place.session, NONE) {
            NONE => self.idle.forget(server, index),
            session => {
                self.sessions.get(session).take_connection();
            }
        }
    }
}

pub(super) fn usage(counts: TokenUsage) -> Usage {
    Usage {
        prompt_tokens: counts.prompt,
        completion_tokens: counts.completion,
        total_tokens: counts.total,
        reasoning_tokens: counts.reasoning,
        cache_read_tokens: counts.cache_read,
    }
}
