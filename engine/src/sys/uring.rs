//! The io_uring driver: one instance per reactor core.
//!
//! # Why this is sound
//! The kernel holds pointers into four kinds of memory, and each is owned by [`Ring`] itself and outlives every operation:
//! - **Receive buffers** are one allocation that is never resized. A buffer belongs to the kernel until a completion names it, then to
//!   the core until [`Driver::recycle`] hands it back; [`Driver::bytes`] only lends buffers that a completion named.
//! - **The buffer ring** (the list of free buffers) is a page-aligned mapping, written only here, its tail published with release order.
//! - **Send slots and stages** are never moved, and not rewritten from submission to completion; see [`SendSlots`].
//! - **The peers' addresses** are shared and never changed.
//!
//! Closing an instance ends its operations, but not before the close returns. So a core lets every operation complete before it drops its
//! ring, and a ring dropped with operations outstanding (after a panic) leaks that memory instead of freeing it under the kernel.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{BufRingEntry, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};

use super::driver::{BufferId, Completion, Driver, DriverCounters, Operation, OwnBytes, Tag};
use super::send_slots::{ID_BLOCK_BYTES, Outgoing, Payload, SendSlots};
use super::socket::KernelAddress;
use crate::units::Nanos;

/// Receive buffers per core: small enough to stay in the second-level cache.
const BUFFERS: u16 = 128;
/// Bytes of one receive buffer.
const BUFFER_BYTES: usize = 8192;
/// The only buffer group.
const GROUP: u16 = 0;

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

/// Kernels without what the driver needs are refused here, before any load. The flags of the setup imply most of it on kernels as released;
/// distributions move features between versions, so each is looked at.
fn require_features(ring: &IoUring) -> io::Result<()> {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    if suffices(ring.params().is_feature_ext_arg(), |code| probe.is_supported(code)) {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EINVAL))
    }
}

/// Whether a kernel can do all that the driver asks of it. `ext_arg` carries the timeout of a wait.
fn suffices(ext_arg: bool, is_supported: impl Fn(u8) -> bool) -> bool {
    let codes = [
        opcode::Connect::CODE,
        opcode::Send::CODE,
        opcode::SendMsg::CODE,
        opcode::RecvMulti::CODE,
        opcode::PollAdd::CODE,
        opcode::AsyncCancel::CODE,
    ];
    ext_arg && codes.into_iter().all(is_supported)
}

/// One io_uring instance with everything that the kernel may touch.
pub(crate) struct Ring {
    ring: IoUring,
    buffer_ring: BufferRing,
    buffers: Box<[u8]>,
    slots: SendSlots,
    peers: Arc<[KernelAddress]>,
    counters: DriverCounters,
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
        heads: Arc<[Arc<[u8]>]>,
        tails: Arc<[Arc<[u8]>]>,
        peers: Arc<[KernelAddress]>,
    ) -> io::Result<Self> {
        let completions = (connections * 2).next_power_of_two().clamp(4096, 65_536) as u32;
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_clamp()
            .setup_cqsize(completions)
            .build(1024)?;
        require_features(&ring)?;
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
            slots: SendSlots::new(connections, heads, tails),
            peers,
            counters: DriverCounters::default(),
            outstanding: 0,
        })
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

    fn send_payload(&mut self, index: u32, generation: u32, socket: RawFd, payload: Payload, offset: usize) {
        let outgoing = self.slots.outgoing(index, payload, offset);
        let tag = Tag {
            index,
            generation,
            operation: Operation::Send,
        };
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        let entry = match outgoing {
            Outgoing::Run(start, length) => opcode::Send::new(Fd(socket), start, length as u32).flags(flags).build(),
            Outgoing::Pieces(message) => opcode::SendMsg::new(Fd(socket), message).flags(flags as u32).build(),
        };
        self.push(&entry.user_data(tag.to_user_data()));
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
}

impl Driver for Ring {
    fn connect(&mut self, index: u32, generation: u32, socket: RawFd, peer: usize) {
        let (address, length) = self.peers[peer].as_raw();
        let tag = Tag {
            index,
            generation,
            operation: Operation::Connect,
        };
        let entry = opcode::Connect::new(Fd(socket), address, length);
        self.push(&entry.build().user_data(tag.to_user_data()));
    }

    fn cancel_connect(&mut self, index: u32, generation: u32) {
        let target = Tag {
            index,
            generation,
            operation: Operation::Connect,
        };
        let tag = Tag {
            operation: Operation::Cancel,
            ..target
        };
        let entry = opcode::AsyncCancel::new(target.to_user_data());
        self.push(&entry.build().user_data(tag.to_user_data()));
    }

    fn receive(&mut self, index: u32, generation: u32, socket: RawFd) {
        let tag = Tag {
            index,
            generation,
            operation: Operation::Receive,
        };
        let entry = opcode::RecvMulti::new(Fd(socket), GROUP);
        self.push(&entry.build().user_data(tag.to_user_data()));
    }

    fn receive_again(&mut self, index: u32, generation: u32, socket: RawFd) {
        self.counters.buffer_shortages += 1;
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

    fn send(&mut self, index: u32, generation: u32, socket: RawFd, offset: usize) {
        self.send_payload(index, generation, socket, Payload::Request, offset);
    }

    fn own_bytes(&mut self, index: u32) -> OwnBytes<'_> {
        self.slots.own_bytes(index)
    }

    fn send_own(&mut self, index: u32, generation: u32, socket: RawFd, offset: usize) {
        self.send_payload(index, generation, socket, Payload::Own, offset);
    }

    fn watch(&mut self, event: RawFd) {
        let tag = Tag {
            index: 0,
            generation: 0,
            operation: Operation::Wake,
        };
        let entry = opcode::PollAdd::new(Fd(event), libc::POLLIN as u32);
        self.push(&entry.build().user_data(tag.to_user_data()));
    }

    fn turn(&mut self, timeout: Nanos, into: &mut Vec<Completion>) -> io::Result<()> {
        let outcome = if timeout == Nanos::ZERO {
            self.enter_now()
        } else {
            self.enter_waiting(timeout)
        };
        match outcome.map_err(|error| (error.raw_os_error(), error)) {
            Ok(_) | Err((Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN), _)) => {}
            Err((_, error)) => return Err(error),
        }
        let before = into.len();
        for entry in self.ring.completion() {
            let tag = Tag::from_user_data(entry.user_data());
            if tag.operation == Operation::Send {
                self.slots.done(tag.index);
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

    fn bytes(&self, buffer: BufferId, length: usize) -> &[u8] {
        let start = usize::from(buffer.0) * BUFFER_BYTES;
        &self.buffers[start..start + length]
    }

    fn recycle(&mut self, buffer: BufferId) {
        // SAFETY: buffer ids come from completions, so they are below BUFFERS.
        let address = unsafe { self.buffers.as_mut_ptr().add(usize::from(buffer.0) * BUFFER_BYTES) };
        self.buffer_ring.push(buffer.0, address);
        self.buffer_ring.publish();
    }

    fn counters(&mut self) -> DriverCounters {
        self.counters.overflows = u64::from(self.ring.completion().overflow());
        self.counters
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.outstanding > 0 {
            std::mem::forget(std::mem::take(&mut self.buffers));
            self.slots.leak();
            std::mem::forget(Arc::clone(&self.peers));
            self.buffer_ring.bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p05_a_kernel_that_lacks_a_feature_or_an_operation_does_not_suffice() {
        assert!(suffices(true, |_| true));
        assert!(!suffices(false, |_| true));
        for missing in [
            opcode::Connect::CODE,
            opcode::Send::CODE,
            opcode::SendMsg::CODE,
            opcode::RecvMulti::CODE,
        ] {
            assert!(!suffices(true, |code| code != missing));
        }
    }

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
