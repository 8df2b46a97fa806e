//! What TLS changes on a connection: a handshake before the first request, and ciphertext where plain connections have the bytes themselves.
//!
//! ```text
//!                 connected             handshake done
//! Connecting ----------------> Handshaking -----------> Busy ...
//!                                                         | cancelled     seen by the server, or a second later
//!                                                         +----------> Parting ---------------------------------> Closing
//! ```
//!
//! The bytes on the wire are the connection's own, in the buffer of its send slot. During the handshake they are what the protocol says next.
//! Afterwards they are the request, a piece at a time so that a long body neither blinds the core nor needs a second copy of itself; what the
//! protocol has to say then goes out with the next piece.

use std::sync::Arc;

use super::connection::State;
use super::core::Core;
use super::failure;
use crate::record::Outcome;
use crate::sys::driver::{BufferId, Driver, OwnBytes};
use crate::sys::socket;
use crate::tls::{Session, TlsClient, Workspace};
use crate::units::Nanos;

/// Request bytes that are enciphered and sent at once: four full records.
const PIECE_BYTES: usize = 64 * 1024;

/// Longest wait for the server of a cancelled request to see that nobody listens any more.
const PARTING: Nanos = Nanos::from_secs(1);

/// What the sealed connections of a core share.
pub(super) struct TlsCore {
    /// By server.
    clients: Vec<Arc<TlsClient>>,
    workspace: Workspace,
    /// A piece of a request, put together.
    piece: Vec<u8>,
    /// The last words of a connection.
    farewell: Vec<u8>,
}

impl TlsCore {
    /// `None` without clients: connections are plain.
    pub(super) fn new(clients: Vec<Arc<TlsClient>>) -> Option<Self> {
        (!clients.is_empty()).then(|| Self {
            clients,
            workspace: Workspace::default(),
            piece: Vec::with_capacity(PIECE_BYTES),
            farewell: Vec::new(),
        })
    }
}

/// The TLS of one connection.
pub(super) struct Seal {
    session: Session,
    /// Bytes of the request that are enciphered.
    sealed: usize,
    /// Bytes of the ciphertext that the kernel has taken.
    handed: usize,
}

impl Seal {
    /// Whether what is sent is the request, and no handshake.
    pub(super) fn carries_request(&self) -> bool {
        self.sealed > 0
    }

    /// Whether the peer said that nothing more comes.
    pub(super) fn peer_closed(&self) -> bool {
        self.session.peer_closed()
    }
}

/// Appends to `piece` what the parts hold from byte `from` on, up to the size of a piece.
fn gather(parts: [&[u8]; 4], from: usize, piece: &mut Vec<u8>) {
    let mut skip = from;
    for part in parts {
        let start = skip.min(part.len());
        let end = part.len().min(start + PIECE_BYTES - piece.len());
        piece.extend_from_slice(&part[start..end]);
        skip -= start;
    }
}

impl<D: Driver> Core<D> {
    /// The connection is there; now both sides say who they are.
    pub(super) fn begin_handshake(&mut self, index: u32, now: Nanos) {
        let tls = self.tls.as_ref().expect("only a run with TLS shakes hands");
        let place = self.slab.get(index);
        place.state = State::Handshaking;
        match Session::new(&tls.clients[usize::from(place.server)]) {
            Ok(session) => {
                place.tls = Some(Box::new(Seal {
                    session,
                    sealed: 0,
                    handed: 0,
                }));
                self.continue_handshake(index);
            }
            Err(error) => self.connect_failed(index, failure::handshake(&error), now),
        }
    }

    /// Sends what the handshake has to say.
    fn continue_handshake(&mut self, index: u32) {
        let place = self.slab.get(index);
        let seal = place.tls.as_mut().expect("a handshake has a session");
        if place.sending {
            return;
        }
        let OwnBytes { outgoing, .. } = self.driver.own_bytes(index);
        outgoing.clear();
        if seal.session.take_pending(outgoing) {
            seal.handed = 0;
            place.sending = true;
            place.operations += 1;
            let (generation, socket) = (place.generation, place.raw_socket());
            self.driver.send_own(index, generation, socket, 0);
        }
    }

    /// Sends the next piece of the prepared request.
    pub(super) fn send_sealed(&mut self, index: u32, now: Nanos) {
        let tls = self
            .tls
            .as_mut()
            .expect("a sealed connection belongs to a run with TLS");
        let place = self.slab.get(index);
        let seal = place.tls.as_mut().expect("a sealed connection has a session");
        let OwnBytes { request, outgoing } = self.driver.own_bytes(index);
        tls.piece.clear();
        outgoing.clear();
        gather(request, seal.sealed, &mut tls.piece);
        if let Err(error) = seal.session.seal(&tls.piece, outgoing) {
            return self.fail(index, Outcome::Error, failure::tls(&error), now);
        }
        seal.sealed += tls.piece.len();
        seal.handed = 0;
        place.sending = true;
        place.operations += 1;
        let (generation, socket) = (place.generation, place.raw_socket());
        self.driver.send_own(index, generation, socket, 0);
    }

    /// A new request begins on the connection.
    pub(super) fn send_first_piece(&mut self, index: u32, now: Nanos) {
        let seal = self.slab.get(index).tls.as_mut();
        seal.expect("a sealed connection has a session").sealed = 0;
        self.send_sealed(index, now);
    }

    /// The kernel took `sent` bytes of ciphertext.
    pub(super) fn sealed_sent(&mut self, index: u32, sent: usize, now: Nanos) {
        let place = self.slab.get(index);
        let seal = place.tls.as_mut().expect("a sealed connection has a session");
        seal.handed += sent;
        let (handed, sealed) = (seal.handed, seal.sealed);
        if handed < self.driver.own_bytes(index).outgoing.len() {
            place.sending = true;
            place.operations += 1;
            // Behind the handshake what is sent is the request, and bytes count once their whole piece is handed over.
            if let (Some(trace), true) = (&mut place.trace, sealed > 0) {
                trace.wrote(place.request.map_or(0, |request| request.bytes_sent), now);
            }
            let (generation, socket) = (place.generation, place.raw_socket());
            return self.driver.send_own(index, generation, socket, handed);
        }
        let length = self.driver.request_length(index);
        let state = place.state;
        let request = place.request();
        request.last_life = now;
        match state {
            State::Handshaking => self.continue_handshake(index),
            // That was the handshake: the request waited for it.
            _ if sealed == 0 => self.to_send.push_back(index),
            _ => {
                request.bytes_sent = sealed as u32;
                if sealed < length {
                    if let Some(trace) = &mut place.trace {
                        trace.wrote(sealed as u32, now);
                    }
                    self.send_sealed(index, now);
                } else {
                    self.request_sent(index, now);
                }
            }
        }
    }

    /// Ciphertext arrived.
    pub(super) fn received_sealed(&mut self, index: u32, buffer: BufferId, length: usize, now: Nanos) {
        let place = self.slab.get(index);
        if matches!(place.state, State::Closing | State::Vacant) {
            return;
        }
        let tls = self
            .tls
            .as_mut()
            .expect("a sealed connection belongs to a run with TLS");
        let seal = place.tls.as_mut().expect("a sealed connection has a session");
        let outcome = seal
            .session
            .receive(self.driver.bytes(buffer, length), &mut tls.workspace);
        let (established, closed) = (seal.session.is_established(), seal.peer_closed());
        let resumed = seal.session.is_resumed();
        if place.state == State::Parting {
            if closed || outcome.is_err() || !tls.workspace.plaintext().is_empty() {
                self.parted(index);
            }
            return;
        }
        if let Some(request) = &mut place.request {
            request.last_life = now;
        }
        if place.state == State::Handshaking {
            match &outcome {
                Err(error) => return self.connect_failed(index, failure::handshake(error), now),
                Ok(()) if closed => return self.connect_failed(index, failure::handshake_cut(), now),
                Ok(()) if !established => return self.continue_handshake(index),
                Ok(()) => {
                    self.counters.handshakes += 1;
                    self.counters.resumptions += u64::from(resumed);
                    self.connected(index, now);
                }
            }
        }
        self.deciphered(index, now);
        // The request may have ended with those bytes, and the connection with it.
        match (self.slab.get(index).state, outcome) {
            (State::Busy, Err(error)) => {
                self.fail(index, Outcome::Error, failure::tls(&error), now);
            }
            (State::Busy, Ok(())) if closed => self.input_ended(index, 0, now),
            (State::Idle, outcome) if closed || outcome.is_err() => {
                self.forget_idle(index);
                self.close(index);
            }
            _ => {}
        }
    }

    /// Hands what was deciphered to the connection's reader.
    fn deciphered(&mut self, index: u32, now: Nanos) {
        let tls = self
            .tls
            .as_ref()
            .expect("a sealed connection belongs to a run with TLS");
        let bytes = tls.workspace.plaintext();
        if bytes.is_empty() {
            return; // tickets and the like
        }
        let place = self.slab.get(index);
        if place.state == State::Idle {
            return self.out_of_step(index);
        }
        let outcome = place.reader.feed(bytes, &mut self.scratch);
        let length = bytes.len();
        self.fed(index, outcome, length, now);
    }

    /// Leaves a connection whose request was cancelled. A server sends tickets behind the handshake, and a socket that is closed before it has read
    /// them answers with a reset, which takes away what the server has not read of the request yet. So only the own side is closed, until the
    /// server has closed its own, or has answered, which it does once it has the request.
    pub(super) fn part(&mut self, index: u32, now: Nanos) {
        let place = self.slab.get(index);
        if place.sending || !place.receiving {
            return self.close(index);
        }
        self.say_farewell(index);
        let place = self.slab.get(index);
        place.state = State::Parting;
        if let Some(socket) = place.borrow_socket() {
            socket::shut_down_sending(socket);
        }
        self.cancels.set(index, now + PARTING);
    }

    /// The server has seen that the client is gone.
    pub(super) fn parted(&mut self, index: u32) {
        self.cancels.remove(index);
        self.close(index);
    }

    /// Tells the peer of a sealed connection that nothing more comes, unless half a record stands in front or nobody listens.
    pub(super) fn say_farewell(&mut self, index: u32) {
        let Some(tls) = &mut self.tls else { return };
        let place = self.slab.get(index);
        let quiet = place.receiving && !place.sending;
        let Some(seal) = place.tls.as_mut().filter(|_| quiet) else {
            return;
        };
        tls.farewell.clear();
        seal.session.farewell(&mut tls.farewell);
        if let Some(socket) = place.borrow_socket().filter(|_| !tls.farewell.is_empty()) {
            socket::send_last(socket, &tls.farewell);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_request_in_order() {
        let parts = [vec![1u8; 100], vec![2; 7], Vec::new(), vec![3; 3 * PIECE_BYTES]];
        let whole = parts.concat();
        for start in [0, 1, 99, 100, 103, 107, 5_000, PIECE_BYTES, whole.len() - 1] {
            let mut from = start;
            let mut gathered = Vec::new();
            while from < whole.len() {
                let mut piece = Vec::new();
                gather([&parts[0], &parts[1], &parts[2], &parts[3]], from, &mut piece);
                assert!(piece.len() == PIECE_BYTES || from + piece.len() == whole.len());
                from += piece.len();
                gathered.extend(piece);
            }
            assert_eq!(gathered, whole[start..]);
        }
    }
}
