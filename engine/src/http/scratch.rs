//! Buffers for bytes that straddle reads, and shapes of chunks, shared by the connections of one core.
//!
//! Thousands of streams are open at once, but only those whose last read ended inside an event hold bytes. Buffers
//! therefore belong to the core and are lent: memory follows the number of straddling reads, not of connections.

use super::chunk_shape::ChunkShapes;
use super::extractor::Extractor;

/// Idle buffers of one core. Takes never fail: an empty pool allocates, and the buffer joins the pool when it comes back.
#[derive(Debug)]
pub struct ScratchPool {
    idle: Vec<Vec<u8>>,
    bytes_each: usize,
    pub(super) shapes: ChunkShapes,
    tap: Option<Tap>,
    /// Finds answers of an API that only its user knows.
    extractor: Extractor,
}

/// What of an answer is wanted beside its meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Every byte of the body.
    pub bodies: bool,
    /// The head, and how much of the body each read brought.
    pub heads: bool,
}

/// Where what is wanted of answers is left, read by read.
#[derive(Debug, Default)]
pub struct Tap {
    /// What is left here.
    pub wanted: Wanted,
    /// What the latest read brought of the body, without its framing, if bodies are wanted.
    pub payload: Vec<u8>,
    /// How many bytes of the body that was, wanted or not.
    pub payload_bytes: usize,
    /// `Content-Type` of the head, if it ended in the latest read.
    pub content_type: Vec<u8>,
    /// The head itself, no interim one, if it ended in the latest read and heads are wanted.
    pub head: Vec<u8>,
}

impl Tap {
    pub(super) fn note_head(&mut self, head: &[u8], content_type: Option<&[u8]>) {
        self.content_type.extend_from_slice(content_type.unwrap_or_default());
        if self.wanted.heads {
            self.head.extend_from_slice(head);
        }
    }

    pub(super) fn note_payload(&mut self, payload: &[u8]) {
        self.payload_bytes += payload.len();
        if self.wanted.bodies {
            self.payload.extend_from_slice(payload);
        }
    }
}

impl ScratchPool {
    /// A buffer that grew past this many times its first size is shrunk on return: one huge body must not pin its memory.
    const KEEP_GROWTH: usize = 16;

    /// A pool of `buffers` buffers with room for `bytes_each` bytes each.
    pub fn new(buffers: usize, bytes_each: usize) -> Self {
        Self {
            idle: (0..buffers).map(|_| Vec::with_capacity(bytes_each)).collect(),
            bytes_each: bytes_each.max(1),
            shapes: ChunkShapes::default(),
            tap: None,
            extractor: Extractor::default(),
        }
    }

    /// The same with a [`Tap`], if anything is wanted: every byte of it is copied into the tap.
    pub fn with_tap(mut self, wanted: Wanted) -> Self {
        self.tap = (wanted != Wanted::default()).then(|| Tap {
            wanted,
            ..Tap::default()
        });
        self
    }

    /// The same with this way to answers of [`Protocol::Template`](super::Protocol::Template).
    pub fn with_extractor(mut self, extractor: Extractor) -> Self {
        self.extractor = extractor;
        self
    }

    /// The way to answers, to be put back before it is wanted again.
    pub(super) fn take_extractor(&mut self) -> Extractor {
        std::mem::take(&mut self.extractor)
    }

    /// Puts it back, if it was taken.
    pub(super) fn put_extractor(&mut self, extractor: Option<Extractor>) {
        if let Some(extractor) = extractor {
            self.extractor = extractor;
        }
    }

    /// Where what is wanted of answers is left, if anything is. It must be taken out before the next read.
    pub fn tap(&mut self) -> Option<&mut Tap> {
        self.tap.as_mut()
    }

    /// An empty buffer that owns memory.
    pub fn take(&mut self) -> Vec<u8> {
        self.idle.pop().unwrap_or_else(|| Vec::with_capacity(self.bytes_each))
    }

    /// Takes a buffer back. Buffers without memory are ignored.
    pub fn put(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() == 0 {
            return;
        }
        buffer.clear();
        if buffer.capacity() > self.bytes_each * Self::KEEP_GROWTH {
            buffer.shrink_to(self.bytes_each);
        }
        self.idle.push(buffer);
    }

    /// Buffers that are ready to be taken without an allocation.
    pub fn idle(&self) -> usize {
        self.idle.len()
    }
}

/// Bytes carried from one read to the next: nothing, or one buffer on loan from the pool.
#[derive(Debug, Default)]
pub(super) struct Carry(Vec<u8>);

impl Carry {
    /// The bytes carried so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends `bytes`, borrowing a buffer first if none is held.
    pub(super) fn append(&mut self, bytes: &[u8], pool: &mut ScratchPool) {
        if bytes.is_empty() {
            return;
        }
        if self.0.capacity() == 0 {
            self.0 = pool.take();
        }
        self.0.extend_from_slice(bytes);
    }

    /// Gives the buffer back; nothing is carried any more.
    pub(super) fn release(&mut self, pool: &mut ScratchPool) {
        pool.put(std::mem::take(&mut self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_pool_allocates_and_keeps_what_comes_back() {
        let mut pool = ScratchPool::new(1, 64);
        let (first, second) = (pool.take(), pool.take());
        assert_eq!(pool.idle(), 0);
        assert!(second.capacity() >= 64);
        pool.put(first);
        pool.put(second);
        assert_eq!(pool.idle(), 2);
    }

    #[test]
    fn returned_buffers_are_empty_and_huge_ones_shrink() {
        let mut pool = ScratchPool::new(0, 64);
        pool.put(Vec::new());
        assert_eq!(pool.idle(), 0);
        pool.put(b"old".to_vec());
        assert!(pool.take().is_empty());
        let huge = 64 * ScratchPool::KEEP_GROWTH + 1;
        pool.put(Vec::with_capacity(huge));
        assert!(pool.take().capacity() < huge);
    }

    #[test]
    fn a_carry_borrows_only_when_it_has_bytes() {
        let mut pool = ScratchPool::new(1, 64);
        let mut carry = Carry::default();
        carry.append(b"", &mut pool);
        assert_eq!(pool.idle(), 1);
        carry.append(b"ab", &mut pool);
        carry.append(b"c", &mut pool);
        assert_eq!((carry.bytes(), pool.idle()), (&b"abc"[..], 0));
        carry.release(&mut pool);
        assert_eq!((carry.len(), carry.is_empty(), pool.idle()), (0, true, 1));
    }
}
