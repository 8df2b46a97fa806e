//! Prompts from the block hashes of a trace.
//!
//! A trace says which requests share a prefix without saying what the prefix is: each block of tokens has a number, and equal numbers mean equal
//! text. Block `h` is the row of words that the stream of (seed, `h`) gives, so requests that share block numbers share their text to the byte,
//! and a server's prefix cache sees the sharing that was recorded.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::synthetic::{MEAN_BYTES_PER_TOKEN, WORD_MASK, WORDS_PER_DRAW};
use super::{stream_root, words};

/// Tokens of a block unless the config says otherwise: what Mooncake's traces were recorded with.
pub const DEFAULT_BLOCK_SIZE: u32 = 512;

/// The blocks of one seed.
#[derive(Debug, Clone, Copy)]
pub struct Blocks {
    root: u64,
    size: u32,
}

impl Blocks {
    /// Blocks of `size` tokens, at least 1.
    pub fn new(size: u32, seed: u64) -> Self {
        Self {
            root: stream_root(seed, "block"),
            size: size.max(1),
        }
    }

    /// The text of a prompt, see [`Blocks::write_text`].
    pub fn text(&self, hash_ids: &[u64], input_tokens: u32) -> String {
        let mut out = Vec::with_capacity(input_tokens as usize * MEAN_BYTES_PER_TOKEN);
        self.write_text(hash_ids, input_tokens, &mut out);
        String::from_utf8(out).expect("the word table is ASCII")
    }

    /// Appends the text of a prompt of `input_tokens` words whose blocks have these numbers. Every block is whole but the last one, of which the
    /// beginning is taken. Nothing in it would have to be escaped in JSON.
    ///
    /// The number of blocks must be `input_tokens` divided by their size, rounded up.
    pub fn write_text(&self, hash_ids: &[u64], input_tokens: u32, out: &mut Vec<u8>) {
        let table = words::words();
        let mut remaining = input_tokens as usize;
        let start = out.len();
        for &hash in hash_ids {
            let mut in_block = remaining.min(self.size as usize);
            remaining -= in_block;
            // SplitMix64 spreads the sum over the state, so neighbouring numbers give unrelated blocks.
            let mut stream = Xoshiro256PlusPlus::seed_from_u64(self.root.wrapping_add(hash));
            while in_block > 0 {
                let mut bits = stream.next_u64();
                for _ in 0..in_block.min(WORDS_PER_DRAW) {
                    if out.len() > start {
                        out.push(b' ');
                    }
                    out.extend_from_slice(table[(bits & WORD_MASK) as usize].as_bytes());
                    bits >>= words::BITS;
                }
                in_block = in_block.saturating_sub(WORDS_PER_DRAW);
            }
        }
        debug_assert_eq!(
            remaining,
            0,
            "{} blocks are too few for {input_tokens} tokens",
            hash_ids.len()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(blocks: Blocks, hash_ids: &[u64], tokens: u32) -> String {
        blocks.text(hash_ids, tokens)
    }

    #[test]
    fn equal_numbers_are_equal_text_and_others_are_not() {
        let blocks = Blocks::new(7, 1);
        let first = text(blocks, &[3, 9, 4], 21);
        let second = text(blocks, &[3, 9, 5], 21);
        assert_eq!(first.split(' ').count(), 21);
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (first, second) = (words(&first), words(&second));
        assert_eq!(first[..14], second[..14], "two blocks are shared");
        assert_ne!(first[14..], second[14..]);
        // A block is the same wherever it stands.
        assert_eq!(words(&text(blocks, &[4], 7)), first[14..]);
        assert_ne!(words(&text(Blocks::new(7, 2), &[4], 7)), first[14..], "another seed");
    }

    #[test]
    fn the_last_block_is_cut_and_the_cut_is_a_prefix() {
        let blocks = Blocks::new(512, 1);
        let whole = text(blocks, &[1, u64::MAX], 1024);
        for tokens in [513, 514, 700, 1023] {
            let cut = text(blocks, &[1, u64::MAX], tokens);
            assert_eq!(cut.split(' ').count(), tokens as usize);
            assert!(whole.starts_with(&format!("{cut} ")), "{tokens} tokens");
        }
    }
}
