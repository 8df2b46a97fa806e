//! A safe face on one io_uring instance, shaped for one reactor core.
//!
//! # Why this is sound
//! The kernel holds pointers into four kinds of memory, and each is owned by [`Ring`] itself and outlives every operation:
//! - **Receive buffers** are one allocation that is never resized. A buffer belongs to the kernel until a completion names it, then to
//!   the core until [`Ring::recycle`] hands it back; [`Ring::bytes`] only lends buffers that a completion named.
//! - **The buffer ring** (the list of free buffers) is a page-aligned mapping, written only here, its tail published with release order.
//! - **Send slots** (message header, vectors, id block) live in a vector that is sized at start and never reallocated. A slot is
//!   `busy` from submission to completion, and no slot is rewritten while it is busy. Vectors point into a slot's own id block and into
//!   shared request bytes, which the ring keeps alive by holding its own handles on them.
//! - **The peer's address** is boxed and never changed.
//!
//! Closing an instance ends its operations, but not before the close returns. So a core lets every operation complete before it drops its
//! ring, and a ring dropped with operations outstanding (after a panic) leaks that memory instead of freeing it under the kernel.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{BufRingEntry, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::socket::KernelAddress;
use crate::units::Nanos;

/// Receive buffers per core: small enough to stay in the second-level cache.
const BUFFERS: u16 = 256;
/// Bytes of one receive buffer.
const BUFFER_BYTES: usize = 4096;
/// Bytes of the part of a request that differs from request to request.
pub(crate) const ID_BLOCK_BYTES: usize = 256;
/// The only buffer group.
const GROUP: u16 = 0;

/// What an operation was: the low byte of its tag.
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

impl Tag {
    fn to_user_data(self) -> u64 {
        (u64::from(self.index) << 32) | (u64::from(self.generation & 0x00ff_ffff) << 8) | self.operation as u64
    }

    fn from_user_data(data: u64) -> Self {
        let operation = match data as u8 {
            1 => Operation::Connect,
            2 => Operation::Send,
            3 => Operation::Receive,
            4 => Operation::Wake,
            _ => Operation::Cancel,
        };
        Self {
            index: (data >> 32) as u32,
            generation: (data >> 8) as u32 & 0x00ff_ffff,
            operation,
        }
    }
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
    /// Whether the operation goes on (multishot receive).
    pub(crate) more: bool,
}

/// A receive buffer that belongs to the core until it is recycled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BufferId(u16);

struct SendSlot {
    message: libc::msghdr,
    vectors: [libc::iovec; 3],
    id_block: [u8; ID_BLOCK_BYTES],
    id_length: usize,
    image: u32,
    busy: bool,
}

struct BufferRing {
    entries: *mut BufRingEntry,
    bytes: usize,
    tail: u16,
}

impl BufferRing {
    fn new() -> io::Result<Self> {
        let bytes = usize::from(BUFFERS) * size_of::<BufRingEntry>();
        // SAFETY: an anonymous private mapping with no address hint; the result is checked.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            entries: memory.cast(),
            bytes,
            tail: 0,
        })
    }

    /// Puts a buffer into the list; visible to the kernel after [`BufferRing::publish`].
    fn push(&mut self, id: u16, address: *mut u8) {
        let at = usize::from(self.tail & (BUFFERS - 1));
        // SAFETY: `at` is below the number of entries of the mapping. The kernel only reads entries below the published tail, and at most
        // BUFFERS buffers exist, so this entry is not in use. Only address, length and id are written: the tail shares entry 0.
        unsafe {
            let entry = &mut *self.entries.add(at);
            entry.set_addr(address as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&self) {
        // SAFETY: `entries` is the first entry of the ring, whose reserved field is the tail (io_uring_register_buf_ring(3)). Release order
        // pairs with the kernel's acquire load, so the entries are visible before the tail.
        unsafe {
            let tail = BufRingEntry::tail(self.entries).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }
}

impl Drop for BufferRing {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return; // leaked on purpose, see the module comment
        }
        // SAFETY: the mapping was made by `new` with this length and is not used afterwards.
        unsafe { libc::munmap(self.entries.cast(), self.bytes) };
    }
}

/// Counters of the ring, for the artifacts: io_uring is nearly invisible to strace(1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RingCounters {
    /// io_uring_enter(2) calls.
    pub(crate) enters: u64,
    /// Completions seen.
    pub(crate) completions: u64,
    /// Receives that ended because no buffer was free, and were armed again.
    pub(crate) buffer_shortages: u64,
    /// Completions that did not fit the completion queue (kept by the kernel, delivered late).
    pub(crate) overflows: u64,
}

/// One io_uring instance with everything that the kernel may touch.
pub(crate) struct Ring {
    ring: IoUring,
    buffer_ring: BufferRing,
    buffers: Box<[u8]>,
    slots: Vec<SendSlot>,
    head: Arc<[u8]>,
    tails: Arc<[Arc<[u8]>]>,
    address: Box<KernelAddress>,
    counters: RingCounters,
    /// Operations submitted whose last completion has not been seen.
    outstanding: usize,
}

impl Ring {
    /// Creates the instance. Must be called on the thread that will use it (`SINGLE_ISSUER`).
    ///
    /// # Errors
    /// The error of io_uring_setup(2) or of the registrations: EPERM under a seccomp filter or the `kernel.io_uring_disabled` sysctl, ENOSYS
    /// without io_uring, ENOMEM when the locked-memory limit is too low, EINVAL on kernels before 6.1.
    pub(crate) fn new(
        connections: usize,
        head: Arc<[u8]>,
        tails: Arc<[Arc<[u8]>]>,
        address: KernelAddress,
    ) -> io::Result<Self> {
        let completions = (connections * 2).next_power_of_two().clamp(4096, 65_536) as u32;
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_clamp()
            .setup_cqsize(completions)
            .build(1024)?;
        let mut buffer_ring = BufferRing::new()?;
        let mut buffers = vec![0u8; usize::from(BUFFERS) * BUFFER_BYTES].into_boxed_slice();
        // SAFETY: the mapping is page-aligned, has BUFFERS entries, and lives until after the instance is closed.
        unsafe {
            ring.submitter()
                .register_buf_ring_with_flags(buffer_ring.entries as u64, BUFFERS, GROUP, 0)?
        };
        for id in 0..BUFFERS {
            // SAFETY: stays inside the allocation: id < BUFFERS.
            let address = unsafe { buffers.as_mut_ptr().add(usize::from(id) * BUFFER_BYTES) };
            buffer_ring.push(id, address);
        }
        buffer_ring.publish();
        Ok(Self {
            ring,
            buffer_ring,
            buffers,
            slots: Vec::with_capacity(connections),
            head,
            tails,
            address: Box::new(address),
            counters: RingCounters::default(),
            outstanding: 0,
        })
    }

    /// Counters so far.
    pub(crate) fn counters(&mut self) -> RingCounters {
        self.counters.overflows = u64::from(self.ring.completion().overflow());
        self.counters
    }

    fn push(&mut self, entry: &squeue::Entry) {
        loop {
            // SAFETY: every entry built in this module points at memory that `self` owns, see the module comment.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                self.outstanding += 1;
                return;
            }
            // The queue is full: hand it to the kernel without waiting. An error here is seen again, and reported, by `turn`.
            let _ = self.enter_now();
        }
    }

    /// Starts connecting `socket` to the peer.
    pub(crate) fn connect(&mut self, index: u32, generation: u32, socket: RawFd) {
        let (address, length) = self.address.as_raw();
        let tag = Tag {
            index,
            generation,
            operation: Operation::Connect,
        };
        let entry = opcode::Connect::new(Fd(socket), address, length)
            .build()
            .user_data(tag.to_user_data());
        self.push(&entry);
    }

    /// Ends a connect early; the connect completes with ECANCELED, or with its own result if that came first.
    pub(crate) fn cancel_connect(&mut self, index: u32, generation: u32) {
        let target = Tag {
            index,
            generation,
            operation: Operation::Connect,
        }
        .to_user_data();
        let tag = Tag {
            index,
            generation,
            operation: Operation::Cancel,
        };
        self.push(&opcode::AsyncCancel::new(target).build().user_data(tag.to_user_data()));
    }

    /// Receives on `socket` until it ends; each completion brings a buffer.
    pub(crate) fn receive(&mut self, index: u32, generation: u32, socket: RawFd) {
        let tag = Tag {
            index,
            generation,
            operation: Operation::Receive,
        };
        self.push(
            &opcode::RecvMulti::new(Fd(socket), GROUP)
                .build()
                .user_data(tag.to_user_data()),
        );
    }

    /// Counts and re-arms a receive that ended because no buffer was free.
    pub(crate) fn receive_again(&mut self, index: u32, generation: u32, socket: RawFd) {
        self.counters.buffer_shortages += 1;
        self.receive(index, generation, socket);
    }

    /// Makes the id block of a connection's next request. `write` fills the block and returns its length.
    pub(crate) fn prepare_request(
        &mut self,
        index: u32,
        image: u32,
        write: impl FnOnce(&mut [u8; ID_BLOCK_BYTES]) -> usize,
    ) {
        let at = index as usize;
        while self.slots.len() <= at {
            assert!(
                self.slots.len() < self.slots.capacity(),
                "send slots are sized for every connection of the plan"
            );
            self.slots.push(SendSlot {
                // SAFETY: msghdr is plain data for which all zeroes is a valid value.
                message: unsafe { std::mem::zeroed() },
                vectors: [libc::iovec {
                    iov_base: ptr::null_mut(),
                    iov_len: 0,
                }; 3],
                id_block: [0; ID_BLOCK_BYTES],
                id_length: 0,
                image: 0,
                busy: false,
            });
        }
        let slot = &mut self.slots[at];
        assert!(!slot.busy, "a send slot is rewritten only after its completion");
        slot.image = image;
        slot.id_length = write(&mut slot.id_block);
    }

    /// Bytes of the prepared request of a connection.
    pub(crate) fn request_length(&self, index: u32) -> usize {
        let slot = &self.slots[index as usize];
        self.head.len() + slot.id_length + self.tails[slot.image as usize].len()
    }

    /// Sends the prepared request from byte `offset` on.
    pub(crate) fn send(&mut self, index: u32, generation: u32, socket: RawFd, offset: usize) {
        let slot = &mut self.slots[index as usize];
        assert!(!slot.busy, "one send at a time on a connection");
        let parts: [&[u8]; 3] = [
            &self.head,
            &slot.id_block[..slot.id_length],
            &self.tails[slot.image as usize],
        ];
        let mut skip = offset;
        let mut used = 0;
        for part in parts {
            if skip >= part.len() {
                skip -= part.len();
                continue;
            }
            slot.vectors[used] = libc::iovec {
                // The kernel only reads through this pointer.
                iov_base: part[skip..].as_ptr().cast_mut().cast(),
                iov_len: part.len() - skip,
            };
            skip = 0;
            used += 1;
        }
        slot.message.msg_iov = slot.vectors.as_mut_ptr();
        slot.message.msg_iovlen = used;
        slot.busy = true;
        let message: *const libc::msghdr = &slot.message;
        let tag = Tag {
            index,
            generation,
            operation: Operation::Send,
        };
        let flags = (libc::MSG_NOSIGNAL | libc::MSG_WAITALL) as u32;
        let entry = opcode::SendMsg::new(Fd(socket), message)
            .flags(flags)
            .build()
            .user_data(tag.to_user_data());
        self.push(&entry);
    }

    /// Waits once for `event` to become readable.
    pub(crate) fn watch(&mut self, event: RawFd) {
        let tag = Tag {
            index: 0,
            generation: 0,
            operation: Operation::Wake,
        };
        self.push(
            &opcode::PollAdd::new(Fd(event), libc::POLLIN as u32)
                .build()
                .user_data(tag.to_user_data()),
        );
    }

    /// Submits everything and waits for a completion, at most `timeout` (zero: does not wait). Completions are appended to `into`.
    ///
    /// # Errors
    /// An error of io_uring_enter(2) that is neither a timeout, an interruption, nor a full queue.
    pub(crate) fn turn(&mut self, timeout: Nanos, into: &mut Vec<Completion>) -> io::Result<()> {
        let outcome = if timeout == Nanos::ZERO {
            self.enter_now()
        } else {
            self.enter_waiting(timeout)
        };
        match outcome {
            Ok(_) => {}
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)
                ) => {}
            Err(error) => return Err(error),
        }
        let before = into.len();
        for entry in self.ring.completion() {
            let tag = Tag::from_user_data(entry.user_data());
            if tag.operation == Operation::Send {
                self.slots[tag.index as usize].busy = false;
            }
            if !cqueue::more(entry.flags()) {
                self.outstanding -= 1;
            }
            into.push(Completion {
                tag,
                result: entry.result(),
                buffer: cqueue::buffer_select(entry.flags()).map(BufferId),
                more: cqueue::more(entry.flags()),
            });
        }
        self.counters.completions += (into.len() - before) as u64;
        Ok(())
    }

    fn enter_now(&mut self) -> io::Result<usize> {
        self.counters.enters += 1;
        let pending = self.ring.submission().len() as u32;
        // Under DEFER_TASKRUN completions only run inside an enter that asks for events, which `submit` does not.
        const GETEVENTS: u32 = 1;
        // SAFETY: no argument is passed; `pending` entries are in the queue.
        unsafe {
            self.ring
                .submitter()
                .enter::<libc::sigset_t>(pending, 0, GETEVENTS, None)
        }
    }

    fn enter_waiting(&mut self, timeout: Nanos) -> io::Result<usize> {
        self.counters.enters += 1;
        let spec = Timespec::new()
            .sec(timeout.0 / 1_000_000_000)
            .nsec((timeout.0 % 1_000_000_000) as u32);
        self.ring
            .submitter()
            .submit_with_args(1, &SubmitArgs::new().timespec(&spec))
    }

    /// The bytes that a completion brought.
    pub(crate) fn bytes(&self, buffer: BufferId, length: usize) -> &[u8] {
        let start = usize::from(buffer.0) * BUFFER_BYTES;
        &self.buffers[start..start + length]
    }

    /// Gives a buffer back to the kernel.
    pub(crate) fn recycle(&mut self, buffer: BufferId) {
        // SAFETY: buffer ids come from completions, so they are below BUFFERS.
        let address = unsafe { self.buffers.as_mut_ptr().add(usize::from(buffer.0) * BUFFER_BYTES) };
        self.buffer_ring.push(buffer.0, address);
        self.buffer_ring.publish();
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.outstanding > 0 {
            std::mem::forget(std::mem::take(&mut self.buffers));
            std::mem::forget(std::mem::take(&mut self.slots));
            std::mem::forget((self.head.clone(), self.tails.clone()));
            let stand_in = Box::new(*self.address);
            std::mem::forget(std::mem::replace(&mut self.address, stand_in));
            self.buffer_ring.bytes = 0;
        }
    }
}

impl AsRawFd for Ring {
    fn as_raw_fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_survives_the_kernel() {
        for operation in [
            Operation::Connect,
            Operation::Send,
            Operation::Receive,
            Operation::Wake,
            Operation::Cancel,
        ] {
            let tag = Tag {
                index: 0xdead_beef,
                generation: 0x00ab_cdef,
                operation,
            };
            assert_eq!(Tag::from_user_data(tag.to_user_data()), tag);
        }
    }
}
