//! One client connection: a reader that never stops, an input buffer, and a writer.
//!
//! A task of its own keeps one receive outstanding for as long as the connection lives, also while an answer is being
//! paced. So a client that leaves is noticed at once, a pipelined request is kept, and no receive is ever dropped:
//! dropping a completion-based receive loses the bytes that it has already taken.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};

use monoio::buf::{IoBuf, IoBufMut};
use monoio::io::{AsyncReadRent, AsyncWriteRent, AsyncWriteRentExt, OwnedReadHalf, OwnedWriteHalf, Splitable};
use monoio::net::TcpStream;

use crate::http::{BadRequest, Parser, Progress};
use crate::sys;
use crate::timer::Alarm;

/// The first size of a receive buffer, and how far it grows for a client that fills it.
const RECEIVE_BYTES_MIN: usize = 4 * 1024;
const RECEIVE_BYTES_MAX: usize = 64 * 1024;
/// Bytes that may wait behind the request being answered. A client that pipelines more has to wait.
const WAITING_BYTES_MAX: usize = 256 * 1024;

/// Bytes that have been received and not used up yet, with the time each of them came.
#[derive(Debug, Default)]
struct Input {
    bytes: Vec<u8>,
    /// Bytes used up since the connection was opened.
    used: u64,
    /// For each receive: the stream offset just behind it, and its time.
    receipts: VecDeque<(u64, u64)>,
    ended: bool,
}

impl Input {
    fn receive(&mut self, bytes: &[u8], now_ns: u64) {
        if self.bytes.is_empty() {
            self.receipts.clear();
        }
        self.bytes.extend_from_slice(bytes);
        self.receipts.push_back((self.used + self.bytes.len() as u64, now_ns));
    }

    /// Uses up the first `count` bytes.
    fn consume(&mut self, count: usize) {
        self.bytes.drain(..count);
        self.used += count as u64;
        while self.receipts.front().is_some_and(|(end, _)| *end < self.used) {
            self.receipts.pop_front();
        }
    }

    /// When the byte used up last was received.
    fn last_used_ns(&self) -> u64 {
        self.receipts.front().map_or(0, |(_, received_ns)| *received_ns)
    }
}

/// What the tasks of one connection share.
pub(crate) struct Connection {
    pub(crate) number: u64,
    /// The other end.
    pub(crate) client: SocketAddr,
    socket: RawFd,
    input: RefCell<Input>,
    /// The serving task, while it waits for input or for the end of it.
    server: Cell<Option<Waker>>,
    /// The reading task, while too much input waits.
    reader: Cell<Option<Waker>>,
    /// What the client still sends is thrown away.
    discarding: Cell<bool>,
    /// This side has ended the connection.
    shut: Cell<bool>,
}

/// What came next on a connection.
pub(crate) enum Next {
    /// A whole request, in the parser, with the time its last byte came.
    Request { received_ns: u64 },
    /// The client waits for `100 Continue`.
    Continue,
    /// Bytes that are no request; the connection cannot be used any more.
    Bad(BadRequest),
    /// The client closed, or the connection broke.
    Ended,
}

/// Why a wait for a deadline ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    /// The deadline came.
    Due,
    /// The client left first.
    ClientLeft,
}

impl Connection {
    pub(crate) fn new(number: u64, client: SocketAddr, socket: RawFd) -> Connection {
        Connection {
            number,
            client,
            socket,
            input: RefCell::default(),
            server: Cell::new(None),
            reader: Cell::new(None),
            discarding: Cell::new(false),
            shut: Cell::new(false),
        }
    }

    /// Receives until the connection ends; the body of the reading task.
    pub(crate) async fn read(&self, mut half: OwnedReadHalf<TcpStream>, bytes_received: &AtomicU64) {
        let mut buffer = Vec::with_capacity(RECEIVE_BYTES_MIN);
        loop {
            let (result, filled) = half.read(buffer).await;
            buffer = filled;
            let received = result.unwrap_or(0);
            if received == 0 || self.shut.get() {
                self.input.borrow_mut().ended = true;
                self.wake_server();
                return;
            }
            bytes_received.fetch_add(received as u64, Ordering::Relaxed);
            if !self.discarding.get() {
                self.input.borrow_mut().receive(&buffer, sys::monotonic_ns());
                self.wake_server();
            }
            let capacity = buffer.bytes_total();
            buffer.clear();
            if received == capacity && capacity < RECEIVE_BYTES_MAX {
                buffer.reserve_exact(capacity * 2);
            }
            self.room().await;
        }
    }

    /// Waits until not too much input waits to be used.
    async fn room(&self) {
        std::future::poll_fn(|cx| {
            if self.input.borrow().bytes.len() < WAITING_BYTES_MAX || self.shut.get() {
                return Poll::Ready(());
            }
            self.reader.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    fn wake_server(&self) {
        if let Some(waker) = self.server.take() {
            waker.wake();
        }
    }

    fn wake_reader(&self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    /// Waits for the next whole request; it is then in `parser`.
    pub(crate) async fn next(&self, parser: &mut Parser) -> Next {
        std::future::poll_fn(|cx| {
            let mut input = self.input.borrow_mut();
            let next = match parser.advance(&input.bytes) {
                Err(error) => Next::Bad(error),
                Ok((used, progress)) => {
                    input.consume(used);
                    self.wake_reader();
                    match progress {
                        Progress::Complete => Next::Request {
                            received_ns: input.last_used_ns(),
                        },
                        Progress::NeedContinue => Next::Continue,
                        Progress::NeedMore if input.ended => Next::Ended,
                        Progress::NeedMore => {
                            self.server.set(Some(cx.waker().clone()));
                            return Poll::Pending;
                        }
                    }
                }
            };
            Poll::Ready(next)
        })
        .await
    }

    /// Whether the client has closed its side. A client that only shuts down its sending side counts as gone, as it
    /// does for the servers that this one stands for.
    pub(crate) fn client_left(&self) -> bool {
        self.input.borrow().ended
    }

    /// Waits for `deadline_ns`, or for the client to leave; without a deadline for the latter alone.
    pub(crate) async fn wait(&self, alarm: &Alarm, deadline_ns: Option<u64>) -> Waited {
        let waited = std::future::poll_fn(|cx| {
            if self.client_left() {
                return Poll::Ready(Waited::ClientLeft);
            }
            if let Some(deadline_ns) = deadline_ns {
                if sys::monotonic_ns() >= deadline_ns {
                    return Poll::Ready(Waited::Due);
                }
                alarm.arm(deadline_ns, cx.waker());
            }
            self.server.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
        alarm.disarm();
        waited
    }

    /// Throws away what the client still sends, until it closes or `deadline_ns`.
    pub(crate) async fn discard(&self, alarm: &Alarm, deadline_ns: u64) {
        self.discarding.set(true);
        let waiting = self.input.borrow().bytes.len();
        self.input.borrow_mut().consume(waiting);
        self.wake_reader();
        self.wait(alarm, Some(deadline_ns)).await;
    }

    /// Ends both directions now (FIN); the reading task ends with it.
    pub(crate) fn shut(&self) {
        self.shut.set(true);
        self.wake_reader();
        sys::shutdown_both(self.socket);
    }

    /// Resets the connection (RST); the reading task ends with it.
    pub(crate) fn reset(&self) {
        // The only cause of an error is a client that was quicker; then the shut-down below ends the reading task.
        let _ = sys::reset(self.socket);
        self.shut();
    }
}

/// How bytes get to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandOver {
    /// By a system call of their own. The time in the ledger is the time of that call, however many streams have a token at once.
    AtOnce,
    /// With all others of one turn of the runtime: cheapest, but what is noted before the write is up to a whole batch of writes too early.
    InBatches,
}

/// The sending side of a connection, with the buffer in which answers are rendered.
pub(crate) struct Writer {
    half: OwnedWriteHalf<TcpStream>,
    socket: RawFd,
    hand_over: HandOver,
    /// What [`Writer::flush`] sends next.
    pub(crate) out: Vec<u8>,
    /// How many bytes go into one write; all of them if `None`.
    pub(crate) piece: Option<NonZeroUsize>,
    sent: u64,
}

impl Writer {
    fn new(half: OwnedWriteHalf<TcpStream>, socket: RawFd, hand_over: HandOver) -> Writer {
        Writer {
            half,
            socket,
            hand_over,
            out: Vec::new(),
            piece: None,
            sent: 0,
        }
    }

    /// Starts counting at zero, for the next answer.
    pub(crate) fn start_next(&mut self) {
        self.out.clear();
        self.piece = None;
        self.sent = 0;
    }

    /// Bytes of this answer that are sent or about to be.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.sent + self.out.len() as u64
    }

    /// Bytes of this answer that the kernel took.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent
    }

    /// Sends what is in the buffer, in one write if the socket takes it, and empties the buffer.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        let mut bytes = std::mem::take(&mut self.out);
        let total = bytes.len();
        let piece = self.piece.map_or(total, NonZeroUsize::get);
        let mut start = 0;
        while start < total {
            let end = (start + piece).min(total);
            if self.hand_over == HandOver::AtOnce
                && let Some(taken) = sys::send_now(self.socket, &bytes[start..end])
            {
                self.sent += taken as u64;
                start += taken;
                if start == end {
                    continue;
                }
            }
            // What the socket has no room for, and every error, is for the runtime to see.
            let (result, slice) = self.half.write_all(bytes.slice(start..end)).await;
            bytes = slice.into_inner();
            result?;
            self.sent += (end - start) as u64;
            start = end;
        }
        bytes.clear();
        self.out = bytes;
        Ok(())
    }

    /// Ends the sending direction (FIN) behind what was sent.
    pub(crate) async fn finish(&mut self) {
        // An error means that the client was quicker.
        let _ = self.half.shutdown().await;
    }
}

/// The read half of `stream`, its writer, and what the two share.
pub(crate) fn open(
    number: u64,
    client: SocketAddr,
    stream: TcpStream,
    hand_over: HandOver,
) -> (Rc<Connection>, OwnedReadHalf<TcpStream>, Writer) {
    let socket = stream.as_raw_fd();
    let connection = Rc::new(Connection::new(number, client, socket));
    let (read, write) = stream.into_split();
    (connection, read, Writer::new(write, socket, hand_over))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_keeps_the_time_of_its_own_last_byte() {
        let mut input = Input::default();
        input.receive(b"aaaa", 10);
        input.receive(b"aabb", 20);
        input.receive(b"bb", 30);
        input.consume(3);
        assert_eq!(input.last_used_ns(), 10);
        input.consume(3);
        assert_eq!(input.last_used_ns(), 20);
        input.consume(4);
        assert_eq!(input.last_used_ns(), 30);
        input.receive(b"cc", 40);
        input.consume(1);
        input.receive(b"c", 50);
        assert_eq!(input.last_used_ns(), 40);
        input.consume(2);
        assert_eq!(input.last_used_ns(), 50);
        assert!(input.bytes.is_empty());
    }

    #[test]
    fn two_requests_of_one_receive_share_its_time() {
        let mut input = Input::default();
        input.receive(b"aabb", 10);
        input.consume(2);
        assert_eq!(input.last_used_ns(), 10);
        input.consume(2);
        assert_eq!(input.last_used_ns(), 10);
    }

    #[test]
    fn receipts_do_not_pile_up_under_a_long_body() {
        let mut input = Input::default();
        for turn in 0..10_000 {
            input.receive(b"aaaa", turn);
            input.consume(4);
        }
        assert!(input.receipts.len() <= 2);
        assert_eq!(input.last_used_ns(), 9_999);
    }
}
