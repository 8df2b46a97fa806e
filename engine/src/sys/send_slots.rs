//! What is sent, as the kernel wants it: message headers that point at pieces of bytes.
//!
//! A slot belongs to a connection index. It sends a request, whose pieces are the head (shared), the slot's own id block, what the request alone
//! has in front of its tail (a session's history; mostly nothing), and the tail of the dataset entry (shared) or the end of it; or bytes that
//! the connection made itself, in a buffer of the slot's.
//! A slot's message stays valid, and at its place, from [`SendSlots::message`] until the slot is prepared again: slots are never moved, and the
//! shared bytes are kept alive by handles held here.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::Arc;

use super::driver::OwnBytes;

/// Bytes of the part of a request that differs from request to request.
pub(crate) const ID_BLOCK_BYTES: usize = 256;

/// What a slot sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payload {
    /// The prepared request.
    Request,
    /// The connection's own bytes.
    Own,
}

struct SendSlot {
    message: libc::msghdr,
    vectors: [libc::iovec; 4],
    id_block: [u8; ID_BLOCK_BYTES],
    id_length: usize,
    image: u32,
    /// Takes the place of the tail's first bytes. Not touched while the slot is busy, so the kernel's pointer into it holds.
    insertion: Vec<u8>,
    /// How many bytes of the tail that is.
    tail_from: usize,
    busy: bool,
    /// The connection's own bytes. Not touched while the slot is busy, so the kernel's pointer into them holds.
    outgoing: Vec<u8>,
}

/// The send slots of a core.
pub(super) struct SendSlots {
    slots: Vec<SendSlot>,
    head: Arc<[u8]>,
    tails: Arc<[Arc<[u8]>]>,
}

impl SendSlots {
    /// Slots for up to `connections` connections.
    pub(super) fn new(connections: usize, head: Arc<[u8]>, tails: Arc<[Arc<[u8]>]>) -> Self {
        Self {
            slots: Vec::with_capacity(connections),
            head,
            tails,
        }
    }

    /// Makes a connection's next request: its id block, and what `insert` puts in the place of as many bytes of the tail as it returns.
    pub(super) fn prepare(
        &mut self,
        index: u32,
        image: u32,
        insert: impl FnOnce(&mut Vec<u8>) -> usize,
        write: impl FnOnce(&mut [u8; ID_BLOCK_BYTES]) -> usize,
    ) {
        let slot = self.idle_slot(index);
        slot.image = image;
        slot.insertion.clear();
        slot.tail_from = insert(&mut slot.insertion);
        slot.id_length = write(&mut slot.id_block);
    }

    /// The connection's own bytes, and the prepared request.
    pub(super) fn own_bytes(&mut self, index: u32) -> OwnBytes<'_> {
        self.idle_slot(index);
        let slot = &mut self.slots[index as usize];
        OwnBytes {
            request: [
                &self.head,
                &slot.id_block[..slot.id_length],
                &slot.insertion,
                &self.tails[slot.image as usize][slot.tail_from..],
            ],
            outgoing: &mut slot.outgoing,
        }
    }

    /// The slot of a connection, to be written.
    fn idle_slot(&mut self, index: u32) -> &mut SendSlot {
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
                }; 4],
                id_block: [0; ID_BLOCK_BYTES],
                id_length: 0,
                image: 0,
                insertion: Vec::new(),
                tail_from: 0,
                busy: false,
                outgoing: Vec::new(),
            });
        }
        let slot = &mut self.slots[at];
        assert!(!slot.busy, "a send slot is rewritten only after its completion");
        slot
    }

    /// Bytes of the prepared request.
    pub(super) fn length(&self, index: u32) -> usize {
        let slot = &self.slots[index as usize];
        let tail = self.tails[slot.image as usize].len() - slot.tail_from;
        self.head.len() + slot.id_length + slot.insertion.len() + tail
    }

    /// The payload from byte `offset` on, for sendmsg(2). The slot is busy until [`SendSlots::done`].
    pub(super) fn message(&mut self, index: u32, payload: Payload, offset: usize) -> *const libc::msghdr {
        let slot = &mut self.slots[index as usize];
        assert!(!slot.busy, "one send at a time on a connection");
        let parts: [&[u8]; 4] = match payload {
            Payload::Request => [
                &self.head,
                &slot.id_block[..slot.id_length],
                &slot.insertion,
                &self.tails[slot.image as usize][slot.tail_from..],
            ],
            Payload::Own => [&slot.outgoing, &[], &[], &[]],
        };
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
        &slot.message
    }

    /// The send of a slot has completed.
    pub(super) fn done(&mut self, index: u32) {
        self.slots[index as usize].busy = false;
    }

    /// Leaves everything that a message may point at in memory for good.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.slots));
        std::mem::forget((self.head.clone(), self.tails.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(slots: &mut SendSlots, payload: Payload, offset: usize) -> Vec<u8> {
        let message = slots.message(2, payload, offset);
        // SAFETY: the message and what it points at are owned by `slots`, which outlives this block and is not changed in it.
        let bytes = unsafe {
            std::slice::from_raw_parts((*message).msg_iov, (*message).msg_iovlen)
                .iter()
                .flat_map(|part| std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len).to_vec())
                .collect()
        };
        slots.done(2);
        bytes
    }

    #[test]
    fn a_message_holds_the_payload_from_any_offset_on() {
        let tails: Arc<[Arc<[u8]>]> = Arc::from([Arc::<[u8]>::from(&b"tail-0"[..]), Arc::from(&b"tail-1"[..])]);
        let mut slots = SendSlots::new(4, Arc::from(&b"head|"[..]), tails);
        let ids = |block: &mut [u8; ID_BLOCK_BYTES]| {
            block[..3].copy_from_slice(b"id|");
            3
        };
        let insert = |own: &mut Vec<u8>| {
            own.extend(b"story|T");
            1
        };
        slots.prepare(2, 0, insert, ids);
        let whole = b"head|id|story|Tail-0";
        assert_eq!(slots.length(2), whole.len());
        for offset in 0..whole.len() {
            assert_eq!(sent(&mut slots, Payload::Request, offset), whole[offset..]);
        }
        assert_eq!(slots.own_bytes(2).request.concat(), whole);
        slots.prepare(2, 1, |_| 0, ids);
        let whole = b"head|id|tail-1";
        assert_eq!(slots.length(2), whole.len());
        for offset in 0..whole.len() {
            assert_eq!(sent(&mut slots, Payload::Request, offset), whole[offset..]);
        }
        let OwnBytes { request, outgoing } = slots.own_bytes(2);
        assert_eq!(request.concat(), whole);
        outgoing.extend(b"sealed");
        for offset in 0..6 {
            assert_eq!(sent(&mut slots, Payload::Own, offset), b"sealed"[offset..]);
        }
    }

    #[test]
    #[should_panic(expected = "rewritten only after its completion")]
    fn a_busy_slot_is_not_rewritten() {
        let mut slots = SendSlots::new(1, Arc::from([]), Arc::from([Arc::<[u8]>::from([])]));
        slots.prepare(0, 0, |_| 0, |_| 0);
        slots.message(0, Payload::Request, 0);
        slots.prepare(0, 0, |_| 0, |_| 0);
    }

    #[test]
    #[should_panic(expected = "rewritten only after its completion")]
    fn own_bytes_stay_while_they_are_sent() {
        let mut slots = SendSlots::new(1, Arc::from([]), Arc::from([Arc::<[u8]>::from([])]));
        slots.own_bytes(0).outgoing.push(1);
        slots.message(0, Payload::Own, 0);
        slots.own_bytes(0);
    }
}
