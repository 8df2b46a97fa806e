//! What is sent, as the kernel wants it: one run of bytes, or a message header that points at pieces.
//!
//! A slot belongs to a connection index. It sends a request, whose pieces are the head (shared by all to one server), the slot's own id block, what
//! the request alone has in front of its tail (a session's history; mostly nothing), and the tail of the dataset entry (shared) or the end of it;
//! or bytes that the connection made itself, in a buffer of the slot's.
//!
//! A request that fits is first put together in a stage: a small aligned buffer that a send holds until it completes. The kernel copies a row of
//! unaligned pieces more slowly than one aligned run: with stages a request of 1 KB costs 2 % less processor time. A send on a socket
//! with room completes at once, so a few stages serve any number of connections. Long requests, and those that find no stage free, go out
//! in pieces.
//!
//! What is sent stays valid, and at its place, from [`SendSlots::outgoing`] until [`SendSlots::done`]: slots and stages are never moved, and
//! the shared bytes are kept alive by handles held here.
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

/// How a payload lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// In one run, for send(2): where it begins, and its length.
    Run(*const u8, usize),
    /// In pieces, for sendmsg(2).
    Pieces(*const libc::msghdr),
}

/// Bytes of a stage: the head and a prompt of several hundred tokens.
const STAGE_BYTES: usize = 4096;
/// Stages of a core. More than it sends in a turn, for sends that wait for room in their socket keep theirs.
const STAGES: usize = 64;

#[repr(align(64))]
struct Stage([u8; STAGE_BYTES]);

struct SendSlot {
    message: libc::msghdr,
    vectors: [libc::iovec; 4],
    id_block: [u8; ID_BLOCK_BYTES],
    id_length: usize,
    head: u16,
    image: u32,
    /// Takes the place of the tail's first bytes. Not touched while the slot is busy, so the kernel's pointer into it holds.
    insertion: Vec<u8>,
    /// How many bytes of the tail that is.
    tail_from: usize,
    busy: bool,
    /// The stage that the send in flight holds.
    stage: Option<u16>,
    /// The connection's own bytes. Not touched while the slot is busy, so the kernel's pointer into them holds.
    outgoing: Vec<u8>,
}

/// The send slots of a core.
pub(super) struct SendSlots {
    slots: Vec<SendSlot>,
    stages: Box<[Stage]>,
    /// Stages that no send holds. The last one given back is taken first: its bytes are the likeliest to be in the cache.
    free: Vec<u16>,
    heads: Arc<[Arc<[u8]>]>,
    tails: Arc<[Arc<[u8]>]>,
}

impl SendSlots {
    /// Slots for up to `connections` connections.
    pub(super) fn new(connections: usize, heads: Arc<[Arc<[u8]>]>, tails: Arc<[Arc<[u8]>]>) -> Self {
        Self {
            slots: Vec::with_capacity(connections),
            stages: (0..STAGES).map(|_| Stage([0; STAGE_BYTES])).collect(),
            free: (0..STAGES as u16).collect(),
            heads,
            tails,
        }
    }

    /// Makes a connection's next request, which begins with the head of that number: its id block, and what `insert` puts in the place of as many
    /// bytes of the tail as it returns.
    pub(super) fn prepare(
        &mut self,
        index: u32,
        head: u16,
        image: u32,
        insert: impl FnOnce(&mut Vec<u8>) -> usize,
        write: impl FnOnce(&mut [u8; ID_BLOCK_BYTES]) -> usize,
    ) {
        let slot = self.idle_slot(index);
        slot.head = head;
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
                &self.heads[usize::from(slot.head)],
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
                head: 0,
                image: 0,
                insertion: Vec::new(),
                tail_from: 0,
                busy: false,
                stage: None,
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
        self.heads[usize::from(slot.head)].len() + slot.id_length + slot.insertion.len() + tail
    }

    /// The payload from byte `offset` on. The slot is busy until [`SendSlots::done`].
    pub(super) fn outgoing(&mut self, index: u32, payload: Payload, offset: usize) -> Outgoing {
        let slot = &mut self.slots[index as usize];
        assert!(!slot.busy, "one send at a time on a connection");
        slot.busy = true;
        match payload {
            Payload::Own => {
                let rest = &slot.outgoing[offset..];
                Outgoing::Run(rest.as_ptr(), rest.len())
            }
            Payload::Request => {
                let parts: [&[u8]; 4] = [
                    &self.heads[usize::from(slot.head)],
                    &slot.id_block[..slot.id_length],
                    &slot.insertion,
                    &self.tails[slot.image as usize][slot.tail_from..],
                ];
                let length = parts.iter().map(|part| part.len()).sum();
                // What is left of a partly sent request is rare, and goes out in pieces.
                if offset == 0
                    && length <= STAGE_BYTES
                    && let Some(at) = self.free.pop()
                {
                    slot.stage = Some(at);
                    let stage = &mut self.stages[usize::from(at)].0;
                    join(parts, stage);
                    return Outgoing::Run(stage.as_ptr(), length);
                }
                let used = pieces(parts, offset, &mut slot.vectors);
                slot.message.msg_iov = slot.vectors.as_mut_ptr();
                slot.message.msg_iovlen = used;
                Outgoing::Pieces(&slot.message)
            }
        }
    }

    /// The send of a slot has completed.
    pub(super) fn done(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.busy = false;
        self.free.extend(slot.stage.take());
    }

    /// Leaves everything that a message may point at in memory for good.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.slots));
        std::mem::forget(std::mem::take(&mut self.stages));
        std::mem::forget((self.heads.clone(), self.tails.clone()));
    }
}

/// Puts `parts` into `stage`, one behind the other.
fn join(parts: [&[u8]; 4], stage: &mut [u8; STAGE_BYTES]) {
    let mut at = 0;
    for part in parts {
        stage[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
}

/// Points `vectors` at what is left of `parts` from byte `offset` on; returns how many are used.
fn pieces(parts: [&[u8]; 4], offset: usize, vectors: &mut [libc::iovec; 4]) -> usize {
    let mut skip = offset;
    let mut used = 0;
    for part in parts {
        if skip >= part.len() {
            skip -= part.len();
            continue;
        }
        vectors[used] = libc::iovec {
            // The kernel only reads through this pointer.
            iov_base: part[skip..].as_ptr().cast_mut().cast(),
            iov_len: part.len() - skip,
        };
        skip = 0;
        used += 1;
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(outgoing: Outgoing) -> Vec<u8> {
        // SAFETY: the callers keep the slots that own everything the payload points at, and do not change them meanwhile.
        unsafe {
            match outgoing {
                Outgoing::Run(start, length) => std::slice::from_raw_parts(start, length).to_vec(),
                Outgoing::Pieces(message) => std::slice::from_raw_parts((*message).msg_iov, (*message).msg_iovlen)
                    .iter()
                    .flat_map(|part| std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len).to_vec())
                    .collect(),
            }
        }
    }

    fn sent(slots: &mut SendSlots, payload: Payload, offset: usize) -> Vec<u8> {
        let bytes = bytes_of(slots.outgoing(2, payload, offset));
        slots.done(2);
        bytes
    }

    fn heads(texts: &[&str]) -> Arc<[Arc<[u8]>]> {
        texts.iter().map(|text| Arc::from(text.as_bytes())).collect()
    }

    fn is_run(outgoing: Outgoing) -> bool {
        matches!(outgoing, Outgoing::Run(..))
    }

    #[test]
    fn what_goes_out_is_the_payload_from_any_offset_on() {
        let tails: Arc<[Arc<[u8]>]> = Arc::from([Arc::<[u8]>::from(&b"tail-0"[..]), Arc::from(&b"tail-1"[..])]);
        let mut slots = SendSlots::new(4, heads(&["other|", "head|"]), tails);
        let ids = |block: &mut [u8; ID_BLOCK_BYTES]| {
            block[..3].copy_from_slice(b"id|");
            3
        };
        let insert = |own: &mut Vec<u8>| {
            own.extend(b"story|T");
            1
        };
        slots.prepare(2, 1, 0, insert, ids);
        let whole = b"head|id|story|Tail-0";
        assert_eq!(slots.length(2), whole.len());
        for offset in 0..whole.len() {
            assert_eq!(sent(&mut slots, Payload::Request, offset), whole[offset..]);
        }
        assert_eq!(slots.own_bytes(2).request.concat(), whole);
        slots.prepare(2, 1, 1, |_| 0, ids);
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
    fn sends_that_find_no_stage_go_out_in_pieces_until_one_is_given_back() {
        let connections = STAGES as u32 + 1;
        let mut slots = SendSlots::new(
            connections as usize,
            heads(&["head|"]),
            Arc::from([Arc::<[u8]>::from(&b"tail"[..])]),
        );
        let id = |index: u32| {
            move |block: &mut [u8; ID_BLOCK_BYTES]| {
                block[..4].copy_from_slice(&index.to_le_bytes());
                4
            }
        };
        let whole = |index: u32| [&b"head|"[..], &index.to_le_bytes(), b"tail"].concat();
        let mut waiting = Vec::new();
        for index in 0..connections {
            slots.prepare(index, 0, 0, |_| 0, id(index));
            waiting.push(slots.outgoing(index, Payload::Request, 0));
        }
        for (index, &outgoing) in waiting.iter().enumerate() {
            assert_eq!(bytes_of(outgoing), whole(index as u32));
            assert_eq!(is_run(outgoing), index < STAGES);
        }
        slots.done(3);
        slots.prepare(3, 0, 0, |_| 0, id(77));
        let outgoing = slots.outgoing(3, Payload::Request, 0);
        assert!(is_run(outgoing));
        assert_eq!(bytes_of(outgoing), whole(77));
        assert_eq!(bytes_of(waiting[4]), whole(4), "a stage in use was written");
    }

    #[test]
    fn a_request_of_exactly_one_stage_is_staged_and_a_longer_one_is_not() {
        for (tail, staged) in [(STAGE_BYTES, true), (STAGE_BYTES + 1, false)] {
            let tail: Arc<[u8]> = vec![b'x'; tail].into();
            let mut slots = SendSlots::new(1, heads(&[""]), Arc::from([tail.clone()]));
            slots.prepare(0, 0, 0, |_| 0, |_| 0);
            let outgoing = slots.outgoing(0, Payload::Request, 0);
            assert_eq!(is_run(outgoing), staged);
            assert_eq!(bytes_of(outgoing), *tail);
        }
    }

    #[test]
    #[should_panic(expected = "rewritten only after its completion")]
    fn a_busy_slot_is_not_rewritten() {
        let mut slots = SendSlots::new(1, heads(&[""]), Arc::from([Arc::<[u8]>::from([])]));
        slots.prepare(0, 0, 0, |_| 0, |_| 0);
        slots.outgoing(0, Payload::Request, 0);
        slots.prepare(0, 0, 0, |_| 0, |_| 0);
    }

    #[test]
    #[should_panic(expected = "rewritten only after its completion")]
    fn own_bytes_stay_while_they_are_sent() {
        let mut slots = SendSlots::new(1, heads(&[""]), Arc::from([Arc::<[u8]>::from([])]));
        slots.own_bytes(0).outgoing.push(1);
        slots.outgoing(0, Payload::Own, 0);
        slots.own_bytes(0);
    }
}
