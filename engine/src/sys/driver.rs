//! One face for both ways to move bytes: io_uring and epoll.
//!
//! A core starts operations on sockets and takes their completions. It never sees which driver it has: an epoll driver makes the same
//! completions out of readiness.

use std::io;
use std::os::fd::RawFd;

use super::send_slots::ID_BLOCK_BYTES;
use crate::units::Nanos;

/// What an operation was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Operation {
    /// Connecting.
    Connect = 1,
    /// Sending a request.
    Send = 2,
    /// Receiving until told otherwise.
    Receive = 3,
    /// Waiting for the wake-up event.
    Wake = 4,
    /// Cancelling another operation.
    Cancel = 5,
}

/// Names an operation: which connection, which use of its slot, and what it does.
///
/// The generation tells a late completion of an earlier connection from one of the connection that now has the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag {
    /// Connection index.
    pub(crate) index: u32,
    /// Generation of the index, modulo 2^24.
    pub(crate) generation: u32,
    /// What the operation does.
    pub(crate) operation: Operation,
}

/// A finished operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Completion {
    /// Which operation.
    pub(crate) tag: Tag,
    /// Bytes or zero, or a negative errno.
    pub(crate) result: i32,
    /// The receive buffer that holds the bytes, if any.
    pub(crate) buffer: Option<BufferId>,
    /// Whether the operation goes on (receive).
    pub(crate) more: bool,
}

/// A receive buffer that belongs to the core until it is recycled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BufferId(pub(super) u16);

/// What a connection's own bytes for the wire are made of.
pub(crate) struct OwnBytes<'a> {
    /// The prepared request, in its parts.
    pub(crate) request: [&'a [u8]; 4],
    /// The bytes themselves: the core writes them, the driver keeps them in place while they are sent.
    pub(crate) outgoing: &'a mut Vec<u8>,
}

/// Counters of a driver, for the artifacts: io_uring is nearly invisible to strace(1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DriverCounters {
    /// io_uring_enter(2) or epoll_pwait2(2) calls.
    pub(crate) enters: u64,
    /// Completions seen.
    pub(crate) completions: u64,
    /// Receives that ended because no buffer was free, and were armed again.
    pub(crate) buffer_shortages: u64,
    /// Completions that did not fit the completion queue (kept by the kernel, delivered late).
    pub(crate) overflows: u64,
}

/// Moves bytes for the connections of one core.
///
/// Every operation ends with exactly one completion whose `more` is false. A connection's socket must stay open until each of its operations has
/// ended; `shutdown(2)` makes them end soon.
pub(crate) trait Driver {
    /// Starts connecting `socket` to the peer of that number.
    fn connect(&mut self, index: u32, generation: u32, socket: RawFd, peer: usize);

    /// Ends a connect early; the connect completes with ECANCELED, or with its own result if that came first.
    fn cancel_connect(&mut self, index: u32, generation: u32);

    /// Receives on `socket` until it ends; each completion brings a buffer.
    fn receive(&mut self, index: u32, generation: u32, socket: RawFd);

    /// Counts and re-arms a receive that ended although the connection goes on.
    fn receive_again(&mut self, index: u32, generation: u32, socket: RawFd);

    /// Makes a connection's next request of an image, which begins with the head of that number. `insert` appends what takes the place of the first bytes of the image's tail, and returns how
    /// many these are: none, and 0, for a request that is sent as it was rendered. `write` fills the id block and returns its length.
    fn prepare_request(
        &mut self,
        index: u32,
        head: u16,
        image: u32,
        insert: impl FnOnce(&mut Vec<u8>) -> usize,
        write: impl FnOnce(&mut [u8; ID_BLOCK_BYTES]) -> usize,
    );

    /// Bytes of the prepared request of a connection.
    fn request_length(&self, index: u32) -> usize;

    /// Sends the prepared request from byte `offset` on.
    fn send(&mut self, index: u32, generation: u32, socket: RawFd, offset: usize);

    /// Bytes that the connection makes itself, such as ciphertext. Only while nothing is sent on it.
    fn own_bytes(&mut self, index: u32) -> OwnBytes<'_>;

    /// Sends the connection's own bytes from byte `offset` on.
    fn send_own(&mut self, index: u32, generation: u32, socket: RawFd, offset: usize);

    /// Waits once for `event` to become readable.
    fn watch(&mut self, event: RawFd);

    /// Hands everything to the kernel and waits for a completion, at most `timeout` (zero: does not wait). Completions are appended.
    ///
    /// # Errors
    /// The kernel refuses for a reason that is neither a timeout, an interruption, nor a full queue.
    fn turn(&mut self, timeout: Nanos, into: &mut Vec<Completion>) -> io::Result<()>;

    /// The bytes that a completion brought.
    fn bytes(&self, buffer: BufferId, length: usize) -> &[u8];

    /// Gives a buffer back.
    fn recycle(&mut self, buffer: BufferId);

    /// Counters so far.
    fn counters(&mut self) -> DriverCounters;
}
