//! The epoll driver: readiness turned into completions, for hosts that refuse io_uring.
//!
//! Sends and connects are tried at once and finish in the same turn where the kernel allows; what it does not take waits for writability.
//! Receives are level-triggered: a turn reads one buffer from each readable socket, so that one full stream cannot starve the others.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use super::driver::{BufferId, Completion, Driver, DriverCounters, Operation, OwnBytes, Tag};
use super::send_slots::{ID_BLOCK_BYTES, Outgoing, Payload, SendSlots};
use super::socket::KernelAddress;
use crate::units::Nanos;

/// Receive buffers: as many reads as one turn does.
const BUFFERS: u16 = 128;
/// Bytes of one receive buffer.
const BUFFER_BYTES: usize = 8192;
/// Events taken from the kernel in one call.
const EVENTS: usize = 256;
/// The event data of the wake-up event; connection indices are below it.
const WAKE: u64 = u64::MAX;

/// What the driver does for one connection index.
#[derive(Debug, Clone, Copy)]
struct Interest {
    generation: u32,
    socket: RawFd,
    connecting: bool,
    /// What waits for writability, from which offset on.
    sending: Option<(Payload, usize)>,
    receiving: bool,
    /// Events the kernel watches for, zero if the socket is not in the set.
    registered: u32,
}

const NOTHING: Interest = Interest {
    generation: 0,
    socket: -1,
    connecting: false,
    sending: None,
    receiving: false,
    registered: 0,
};

impl Interest {
    fn wanted(&self) -> u32 {
        let read = if self.receiving { libc::EPOLLIN as u32 } else { 0 };
        let write = if self.connecting || self.sending.is_some() {
            libc::EPOLLOUT as u32
        } else {
            0
        };
        read | write
    }
}

/// One epoll set with everything it needs.
pub(crate) struct Epoll {
    set: OwnedFd,
    interests: Vec<Interest>,
    slots: SendSlots,
    buffers: Box<[u8]>,
    free: Vec<u16>,
    peers: Arc<[KernelAddress]>,
    /// Completions of operations that ended when they were started.
    ready: Vec<Completion>,
    events: Vec<libc::epoll_event>,
    counters: DriverCounters,
}

fn last_errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

impl Epoll {
    /// Creates the set.
    ///
    /// # Errors
    /// No descriptor, or no memory.
    pub(crate) fn new(
        connections: usize,
        heads: Arc<[Arc<[u8]>]>,
        tails: Arc<[Arc<[u8]>]>,
        peers: Arc<[KernelAddress]>,
    ) -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked before it is owned.
        let set = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if set < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            // SAFETY: a fresh descriptor that nobody else owns.
            set: unsafe { OwnedFd::from_raw_fd(set) },
            interests: Vec::with_capacity(connections),
            slots: SendSlots::new(connections, heads, tails),
            buffers: vec![0; usize::from(BUFFERS) * BUFFER_BYTES].into_boxed_slice(),
            free: (0..BUFFERS).collect(),
            peers,
            ready: Vec::with_capacity(1024),
            events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS],
            counters: DriverCounters::default(),
        })
    }

    fn complete(&mut self, index: u32, operation: Operation, result: i32) {
        let generation = self.interests[index as usize].generation;
        self.ready.push(Completion {
            tag: Tag {
                index,
                generation,
                operation,
            },
            result,
            buffer: None,
            more: false,
        });
    }

    fn interest(&mut self, index: u32) -> &mut Interest {
        let at = index as usize;
        if self.interests.len() <= at {
            self.interests.resize(at + 1, NOTHING);
        }
        &mut self.interests[at]
    }

    /// Tells the kernel what to watch for, if that changed.
    fn register(&mut self, index: u32) {
        let interest = self.interests[index as usize];
        let wanted = interest.wanted();
        if wanted == interest.registered {
            return;
        }
        let call = match (interest.registered, wanted) {
            (0, _) => libc::EPOLL_CTL_ADD,
            (_, 0) => libc::EPOLL_CTL_DEL,
            _ => libc::EPOLL_CTL_MOD,
        };
        let mut event = libc::epoll_event {
            events: wanted,
            u64: u64::from(index),
        };
        // SAFETY: the event lives for the call. The socket is open: operations end before it is closed.
        let failed = unsafe { libc::epoll_ctl(self.set.as_raw_fd(), call, interest.socket, &mut event) } != 0;
        self.interests[index as usize].registered = wanted;
        if failed {
            self.give_up(index, -last_errno());
        }
    }

    /// The kernel does not watch the socket (no memory, or the limit of watches): every operation on it ends with that error.
    fn give_up(&mut self, index: u32, errno: i32) {
        let interest = &mut self.interests[index as usize];
        let (connecting, sending, receiving) = (
            interest.connecting,
            interest.sending.take().is_some(),
            interest.receiving,
        );
        (interest.connecting, interest.receiving, interest.registered) = (false, false, 0);
        if connecting {
            self.complete(index, Operation::Connect, errno);
        }
        if sending {
            self.slots.done(index);
            self.complete(index, Operation::Send, errno);
        }
        if receiving {
            self.complete(index, Operation::Receive, errno);
        }
    }

    /// Tries to send; what the socket does not take now waits for writability.
    fn try_send(&mut self, index: u32, payload: Payload, offset: usize) {
        let socket = self.interests[index as usize].socket;
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: what the payload points at is owned by the slots, which do not change during the call.
        let sent = unsafe {
            match self.slots.outgoing(index, payload, offset) {
                Outgoing::Run(start, length) => libc::send(socket, start.cast(), length, flags),
                Outgoing::Pieces(message) => libc::sendmsg(socket, message, flags),
            }
        };
        let errno = last_errno();
        self.slots.done(index);
        self.interests[index as usize].sending = None;
        match sent {
            0.. => self.complete(index, Operation::Send, sent as i32),
            _ if matches!(errno, libc::EAGAIN | libc::EINTR | libc::ENOBUFS) => {
                self.interests[index as usize].sending = Some((payload, offset));
            }
            _ => self.complete(index, Operation::Send, -errno),
        }
        self.register(index);
    }

    fn finish_connect(&mut self, index: u32) {
        let socket = self.interests[index as usize].socket;
        let mut error: libc::c_int = 0;
        let mut length = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: writes one live c_int whose size is given.
        let failed = unsafe {
            libc::getsockopt(
                socket,
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                (&raw mut error).cast(),
                &mut length,
            )
        } != 0;
        self.interests[index as usize].connecting = false;
        self.register(index);
        self.complete(index, Operation::Connect, if failed { -last_errno() } else { -error });
    }

    /// Reads one buffer.
    fn read(&mut self, index: u32, into: &mut Vec<Completion>) {
        let Some(buffer) = self.free.pop() else {
            // Level-triggered: the next turn sees the socket again.
            self.counters.buffer_shortages += 1;
            return;
        };
        let Interest { generation, socket, .. } = self.interests[index as usize];
        let tag = Tag {
            index,
            generation,
            operation: Operation::Receive,
        };
        let start = usize::from(buffer) * BUFFER_BYTES;
        let target = &mut self.buffers[start..start + BUFFER_BYTES];
        // SAFETY: reads into a live slice of that length.
        let got = unsafe { libc::recv(socket, target.as_mut_ptr().cast(), target.len(), libc::MSG_DONTWAIT) };
        if got > 0 {
            let (result, buffer) = (got as i32, Some(BufferId(buffer)));
            return into.push(Completion {
                tag,
                result,
                buffer,
                more: true,
            });
        }
        let errno = if got == 0 { 0 } else { last_errno() };
        self.free.push(buffer);
        if matches!(errno, libc::EAGAIN | libc::EINTR) {
            return;
        }
        self.interests[index as usize].receiving = false;
        self.register(index);
        into.push(Completion {
            tag,
            result: -errno,
            buffer: None,
            more: false,
        });
    }

    fn wait(&mut self, timeout: Nanos) -> io::Result<usize> {
        self.counters.enters += 1;
        let spec = libc::timespec {
            tv_sec: (timeout.0 / 1_000_000_000) as libc::time_t,
            tv_nsec: (timeout.0 % 1_000_000_000) as libc::c_long,
        };
        let (set, room) = (self.set.as_raw_fd(), self.events.len() as libc::c_int);
        // The raw call: the C library's wrapper is younger than the kernels that have it (5.11).
        // SAFETY: the events and the timespec live for the call; no signal mask.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                set,
                self.events.as_mut_ptr(),
                room,
                &raw const spec,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        if count >= 0 {
            return Ok(count as usize);
        }
        match last_errno() {
            libc::EINTR => Ok(0),
            libc::ENOSYS | libc::EPERM => self.wait_millis(timeout),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// On kernels without nanosecond timeouts, and under filters that do not know the newer call: rounds down, so that it is never late.
    fn wait_millis(&mut self, timeout: Nanos) -> io::Result<usize> {
        let millis = (timeout.0 / 1_000_000).min(i32::MAX as u64) as libc::c_int;
        // SAFETY: the events live for the call.
        let count = unsafe {
            libc::epoll_wait(
                self.set.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.len() as libc::c_int,
                millis,
            )
        };
        match count {
            0.. => Ok(count as usize),
            _ if last_errno() == libc::EINTR => Ok(0),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Driver for Epoll {
    fn connect(&mut self, index: u32, generation: u32, socket: RawFd, peer: usize) {
        *self.interest(index) = Interest {
            generation,
            socket,
            ..NOTHING
        };
        let (address, length) = self.peers[peer].as_raw();
        // SAFETY: the address is kept alive by `self` and of the given length.
        let outcome = unsafe { libc::connect(socket, address, length) };
        match (outcome, last_errno()) {
            (0, _) => self.complete(index, Operation::Connect, 0),
            (_, libc::EINPROGRESS | libc::EINTR) => {
                self.interests[index as usize].connecting = true;
                self.register(index);
            }
            (_, errno) => self.complete(index, Operation::Connect, -errno),
        }
    }

    fn cancel_connect(&mut self, index: u32, generation: u32) {
        let interest = &mut self.interests[index as usize];
        if interest.connecting && interest.generation == generation {
            interest.connecting = false;
            self.register(index);
            self.complete(index, Operation::Connect, -libc::ECANCELED);
        }
    }

    fn receive(&mut self, index: u32, generation: u32, socket: RawFd) {
        let interest = self.interest(index);
        (interest.generation, interest.socket, interest.receiving) = (generation, socket, true);
        self.register(index);
    }

    fn receive_again(&mut self, index: u32, generation: u32, socket: RawFd) {
        self.receive(index, generation, socket);
    }

    fn prepare_request(
        &mut self,
        index: u32,
        head: u16,
        image: u32,
        insert: impl FnOnce(&mut Vec<u8>) -> usize,
        write: impl FnOnce(&mut [u8; ID_BLOCK_BYTES]) -> usize,
    ) {
        self.slots.prepare(index, head, image, insert, write);
    }

    fn request_length(&self, index: u32) -> usize {
        self.slots.length(index)
    }

    fn send(&mut self, index: u32, _generation: u32, _socket: RawFd, offset: usize) {
        self.try_send(index, Payload::Request, offset);
    }

    fn own_bytes(&mut self, index: u32) -> OwnBytes<'_> {
        self.slots.own_bytes(index)
    }

    fn send_own(&mut self, index: u32, _generation: u32, _socket: RawFd, offset: usize) {
        self.try_send(index, Payload::Own, offset);
    }

    fn watch(&mut self, event: RawFd) {
        let mut watch = libc::epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLONESHOT) as u32,
            u64: WAKE,
        };
        // SAFETY: the event structure lives for the calls. The first watch adds the descriptor, later ones arm it again.
        unsafe {
            if libc::epoll_ctl(self.set.as_raw_fd(), libc::EPOLL_CTL_MOD, event, &mut watch) != 0 {
                libc::epoll_ctl(self.set.as_raw_fd(), libc::EPOLL_CTL_ADD, event, &mut watch);
            }
        }
    }

    fn turn(&mut self, timeout: Nanos, into: &mut Vec<Completion>) -> io::Result<()> {
        let before = into.len();
        let timeout = if self.ready.is_empty() { timeout } else { Nanos::ZERO };
        let count = self.wait(timeout)?;
        // What ended when it was started comes first: a request is sent before its answer is read.
        into.append(&mut self.ready);
        for at in 0..count {
            let libc::epoll_event { events, u64: data } = self.events[at];
            if data == WAKE {
                let tag = Tag {
                    index: 0,
                    generation: 0,
                    operation: Operation::Wake,
                };
                into.push(Completion {
                    tag,
                    result: 0,
                    buffer: None,
                    more: false,
                });
                continue;
            }
            let index = data as u32;
            let broken = events & (libc::EPOLLERR | libc::EPOLLHUP) as u32 != 0;
            let writable = broken || events & libc::EPOLLOUT as u32 != 0;
            let interest = self.interests[index as usize];
            if interest.connecting && writable {
                self.finish_connect(index);
            }
            if let Some((payload, offset)) = interest.sending.filter(|_| writable) {
                self.try_send(index, payload, offset);
            }
            into.append(&mut self.ready);
            if interest.receiving && (broken || events & libc::EPOLLIN as u32 != 0) {
                self.read(index, into);
            }
        }
        self.counters.completions += (into.len() - before) as u64;
        Ok(())
    }

    fn bytes(&self, buffer: BufferId, length: usize) -> &[u8] {
        let start = usize::from(buffer.0) * BUFFER_BYTES;
        &self.buffers[start..start + length]
    }

    fn recycle(&mut self, buffer: BufferId) {
        self.free.push(buffer.0);
    }

    fn counters(&mut self) -> DriverCounters {
        self.counters
    }
}
