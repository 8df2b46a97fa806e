//! Gaps of open streams, encoded and chained in small blocks.
//!
//! A stream of n tokens needs room for n - 1 gaps until it ends, and thousands of streams are open at once. Chained blocks of one cache line cost
//! what the streams really hold; blocks are reused, so the arena stops growing once the load is steady.

use crate::varint::{VARINT_BYTES, put_varint};

const PAYLOAD: usize = 60;
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone)]
#[repr(align(64))]
struct Block {
    bytes: [u8; PAYLOAD],
    next: u32,
}

/// The gaps of one open stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GapChain {
    first: u32,
    last: u32,
    /// Bytes used in the last block.
    used: u8,
}

impl GapChain {
    /// No gaps.
    pub(crate) const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
        used: 0,
    };
}

/// Blocks of all open streams of a core.
#[derive(Debug, Default)]
pub(crate) struct GapArena {
    blocks: Vec<Block>,
    free: Vec<u32>,
}

impl GapArena {
    /// An arena with room for `blocks` blocks before it has to grow.
    pub(crate) fn with_capacity(blocks: usize) -> Self {
        Self {
            blocks: Vec::with_capacity(blocks),
            free: Vec::with_capacity(blocks),
        }
    }

    fn grab(&mut self) -> u32 {
        if let Some(index) = self.free.pop() {
            self.blocks[index as usize].next = NONE;
            return index;
        }
        self.blocks.push(Block {
            bytes: [0; PAYLOAD],
            next: NONE,
        });
        (self.blocks.len() - 1) as u32
    }

    /// Appends a gap to a chain.
    pub(crate) fn push(&mut self, chain: &mut GapChain, gap: u64) {
        let mut encoded = [0; VARINT_BYTES];
        let length = put_varint(gap, &mut encoded);
        for &byte in &encoded[..length] {
            if chain.last == NONE || usize::from(chain.used) == PAYLOAD {
                let fresh = self.grab();
                if chain.last == NONE {
                    chain.first = fresh;
                } else {
                    self.blocks[chain.last as usize].next = fresh;
                }
                chain.last = fresh;
                chain.used = 0;
            }
            self.blocks[chain.last as usize].bytes[usize::from(chain.used)] = byte;
            chain.used += 1;
        }
    }

    /// The encoded gaps of a chain, in pieces.
    pub(crate) fn pieces(&self, chain: GapChain) -> impl Iterator<Item = &[u8]> {
        let mut at = chain.first;
        std::iter::from_fn(move || {
            let block = self.blocks.get(at as usize)?;
            let used = if at == chain.last {
                usize::from(chain.used)
            } else {
                PAYLOAD
            };
            at = block.next;
            Some(&block.bytes[..used])
        })
    }

    /// The gaps of a chain, decoded.
    pub(crate) fn gaps(&self, chain: GapChain) -> impl Iterator<Item = u64> {
        let mut bytes = self.pieces(chain).flatten();
        std::iter::from_fn(move || {
            let mut value = 0u64;
            for shift in (0..).step_by(7).take(VARINT_BYTES) {
                let byte = *bytes.next()?;
                value |= u64::from(byte & 0x7f) << shift;
                if byte < 0x80 {
                    break;
                }
            }
            Some(value)
        })
    }

    /// Frees a chain's blocks and empties it.
    pub(crate) fn release(&mut self, chain: &mut GapChain) {
        let mut at = chain.first;
        while let Some(block) = self.blocks.get(at as usize) {
            self.free.push(at);
            at = block.next;
        }
        *chain = GapChain::EMPTY;
    }

    /// Blocks ever made, for memory accounting.
    #[cfg(test)]
    fn blocks_made(&self) -> usize {
        self.blocks.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_chains_keep_their_own_bytes_and_reuse_blocks() {
        let mut arena = GapArena::default();
        for _ in 0..10 {
            let mut chains = [GapChain::EMPTY; 3];
            let mut expected: [Vec<u8>; 3] = Default::default();
            for step in 0..300u64 {
                let which = (step % 3) as usize;
                let gap = step * 0x1_0001;
                arena.push(&mut chains[which], gap);
                let mut bytes = [0; VARINT_BYTES];
                let used = put_varint(gap, &mut bytes);
                expected[which].extend_from_slice(&bytes[..used]);
            }
            for (chain, expected) in chains.iter_mut().zip(&expected) {
                assert_eq!(&arena.pieces(*chain).collect::<Vec<_>>().concat(), expected);
                assert_eq!(arena.gaps(*chain).count(), 100);
                assert!(arena.gaps(*chain).all(|gap| gap % 0x1_0001 == 0));
                arena.release(chain);
                assert_eq!(arena.pieces(*chain).count(), 0);
            }
        }
        assert!(
            arena.blocks_made() <= 3 * (100 * 4 / PAYLOAD + 1),
            "blocks are reused: {}",
            arena.blocks_made()
        );
    }
}
