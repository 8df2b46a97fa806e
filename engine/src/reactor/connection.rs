//! One connection and the request that it carries.
//!
//! ```text
//!            connect            sent whole, answered
//! Vacant -> Connecting -> Busy ----------------------> Idle -> Busy ...
//!    ^          |          |                             |
//!    |          +----------+---------- Closing <---------+
//!    +------------------------ last completion seen
//!
//! With TLS: Connecting -> Handshaking -> Busy, and Busy -> Parting -> Closing for a request that was cancelled
//! ```
//!
//! A request lives in a connection from its start to its end. A connection that must go is shut down at once but keeps its place until every
//! operation on it has completed: a late completion then finds the place unchanged, or a newer generation that tells it to go away.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use super::sealed::Seal;
use crate::credit::Credit;
use crate::http::{Protocol, ResponseReader, ScratchPool, Wanted};
use crate::plan::EndpointKind;
use crate::record::{Attachments, GapChain, HttpTrace, Transcript};
use crate::units::Nanos;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing: the place is free.
    Vacant,
    /// Waiting for the connection; carries a request.
    Connecting,
    /// Connected; TLS is being agreed on. Carries a request.
    Handshaking,
    /// Carries a request.
    Busy,
    /// Waits for the next request.
    Idle,
    /// Nothing more is sent, and what comes is not wanted; waits for the server to see that. Only with TLS.
    Parting,
    /// Shut down; waits for its last completion.
    Closing,
}

/// A request on its way. Times are monotonic; zero is "not yet".
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    /// The permission it was sent under.
    pub(super) credit: Credit,
    /// The turn of the dataset that it sends.
    pub(super) image: u32,
    /// Number of its session in the phase.
    pub(super) session: u64,
    /// Place of that session in the core's table, [`NONE`] where every session is one request.
    pub(super) session_place: u32,
    /// Whether later turns carry the text of the answer.
    pub(super) keeps_text: bool,
    /// When the schedule wanted it to start.
    pub(super) intended: Nanos,
    /// From when on nothing but the client held it back.
    pub(super) ready: Nanos,
    /// When a free slot took the credit.
    pub(super) issued: Nanos,
    /// Just before the first byte (or the connect) was handed to the kernel.
    pub(super) start: Nanos,
    /// Connection established, TLS included.
    pub(super) connected: Nanos,
    /// Last byte handed to the kernel.
    pub(super) send_end: Nanos,
    /// First read with a byte of the body.
    pub(super) first_body: Nanos,
    /// Response head complete.
    pub(super) head: Nanos,
    /// First content.
    pub(super) first_content: Nanos,
    /// First content that is not reasoning.
    pub(super) first_output: Nanos,
    /// Latest content.
    pub(super) last_content: Nanos,
    /// Latest byte in either direction: what the drain's stall rule looks at.
    pub(super) last_life: Nanos,
    /// Contents so far.
    pub(super) content_events: u32,
    /// Bytes handed to the kernel; with TLS, bytes whose ciphertext was.
    pub(super) bytes_sent: u32,
    /// Body bytes received.
    pub(super) bytes_received: u64,
    /// Reads that carried body bytes.
    pub(super) chunks_received: u32,
    /// Gaps between contents.
    pub(super) gaps: GapChain,
    /// The connection had carried an earlier request.
    pub(super) connection_reused: bool,
    /// Already sent a second time after a reused connection died.
    pub(super) resent: bool,
    /// Holds a prefill slot: until its first content, or its end.
    pub(super) in_prefill: bool,
}

impl Request {
    /// A request that starts now under `credit` and is a session of its own.
    pub(super) fn new(credit: Credit, intended: Nanos, ready: Nanos, now: Nanos) -> Self {
        Self {
            credit,
            image: credit.conversation,
            session: credit.sequence,
            session_place: NONE,
            keeps_text: false,
            intended,
            ready,
            issued: now,
            start: now,
            connected: Nanos::ZERO,
            send_end: Nanos::ZERO,
            first_body: Nanos::ZERO,
            head: Nanos::ZERO,
            first_content: Nanos::ZERO,
            first_output: Nanos::ZERO,
            last_content: Nanos::ZERO,
            last_life: now,
            content_events: 0,
            bytes_sent: 0,
            bytes_received: 0,
            chunks_received: 0,
            gaps: GapChain::EMPTY,
            connection_reused: false,
            resent: false,
            in_prefill: false,
        }
    }

    /// The same request, to be sent again from the first byte. Start and intended start stay: the user waited since then.
    pub(super) fn again(self) -> Self {
        Self {
            bytes_sent: 0,
            send_end: Nanos::ZERO,
            connection_reused: false,
            resent: true,
            ..self
        }
    }
}

/// Index that means "none": in the chain of active connections, and where a session's place is expected.
pub(super) const NONE: u32 = u32::MAX;

/// One place for a connection.
pub(super) struct Connection {
    pub(super) state: State,
    /// Raised whenever the place is taken, so that operations of earlier tenants are recognised. 24 bits travel with an operation.
    pub(super) generation: u32,
    pub(super) socket: Option<OwnedFd>,
    /// Operations whose last completion has not been seen.
    pub(super) operations: u8,
    /// Whether the multishot receive is armed.
    pub(super) receiving: bool,
    /// Whether a send is on its way.
    pub(super) sending: bool,
    /// Number of the server that it leads to.
    pub(super) server: u16,
    /// Requests that ended well here.
    pub(super) served: u32,
    /// Place of the session that it waits for while idle, [`NONE`] if it waits for any request.
    pub(super) session: u32,
    /// The request, while connecting or busy.
    pub(super) request: Option<Request>,
    pub(super) reader: ResponseReader,
    /// What the server answered so far, if that is kept.
    pub(super) transcript: Option<Box<Transcript>>,
    /// How the request goes over the wire, if that is kept.
    pub(super) trace: Option<Box<HttpTrace>>,
    /// With TLS, from the connect on.
    pub(super) tls: Option<Box<Seal>>,
    /// Neighbours in the chain of active connections, oldest start first.
    pub(super) previous: u32,
    pub(super) next: u32,
}

/// How the answers of an API are read.
pub(crate) fn protocol_of(kind: EndpointKind) -> Protocol {
    match kind {
        EndpointKind::Chat => Protocol::Chat,
        EndpointKind::Completions => Protocol::Completions,
        EndpointKind::Responses => Protocol::Responses,
        EndpointKind::Messages => Protocol::Messages,
        EndpointKind::Embeddings => Protocol::Embeddings,
        EndpointKind::CohereRankings => Protocol::CohereRankings,
        EndpointKind::HfTeiRankings => Protocol::TeiRankings,
        EndpointKind::NimRankings => Protocol::NimRankings,
        EndpointKind::Template => Protocol::Template,
    }
}

impl Connection {
    pub(super) fn vacant(protocol: Protocol) -> Self {
        Self {
            state: State::Vacant,
            generation: 0,
            socket: None,
            operations: 0,
            receiving: false,
            sending: false,
            server: 0,
            served: 0,
            session: NONE,
            request: None,
            reader: ResponseReader::new(protocol),
            transcript: None,
            trace: None,
            tls: None,
            previous: NONE,
            next: NONE,
        }
    }

    /// Takes a request, and makes the reader ready for its response.
    pub(super) fn begin(&mut self, request: Request, scratch: &mut ScratchPool) {
        if request.keeps_text {
            self.reader.begin_keeping_text(scratch);
        } else {
            self.reader.begin(scratch);
        }
        if let Some(tap) = scratch.tap() {
            self.begin_keeping(tap.wanted);
        }
        self.request = Some(request);
    }

    fn begin_keeping(&mut self, wanted: Wanted) {
        if wanted.bodies {
            self.transcript.get_or_insert_default().clear();
        }
        if wanted.heads {
            self.trace.get_or_insert_default().begin(self.server);
        }
    }

    /// What is kept of the request beside its record.
    pub(super) fn attachments(&self) -> Attachments<'_> {
        Attachments {
            transcript: self.transcript.as_deref(),
            trace: self.trace.as_deref(),
        }
    }

    /// The descriptor for an operation.
    pub(super) fn raw_socket(&self) -> RawFd {
        self.socket
            .as_ref()
            .expect("a connection in use has a socket")
            .as_raw_fd()
    }

    /// The socket, while there is one.
    pub(super) fn borrow_socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// The request of a connection that carries one.
    pub(super) fn request(&mut self) -> &mut Request {
        self.request
            .as_mut()
            .expect("a connecting or busy connection carries a request")
    }
}
