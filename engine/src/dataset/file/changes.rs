//! A recorded trace with other lengths, or with other things in common, before any text is made of it.
//!
//! What prompts have in common is known by their numbered blocks: the shared part of a prompt is its first blocks, as far as each of them
//! stands a second time in the trace. What follows is its own, and so is the whole of a prompt without blocks. Both parts change by whole factors
//! of their length, and two prompts that shared a part of their beginning share that part of it afterwards.

use std::collections::{HashMap, HashSet};

use rand_xoshiro::rand_core::Rng;

use super::MAX_FILE_BYTES;
use super::record::MAX_TOKENS;
use super::session::{Content, Session, Turns};
use crate::dataset::stream_root;
use crate::dataset::synthetic::{MEAN_BYTES_PER_TOKEN, entry_stream};

/// What is changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TraceChanges {
    /// What the length of shared parts is multiplied with: finite, above 0.
    pub prefix_len: f64,
    /// Sessions are spread over so many sets that share nothing with each other; at least 1.
    pub prefix_roots: u32,
    /// What the length of a prompt's own part is multiplied with: finite, above 0.
    pub prompt_len: f64,
    /// What the tokens that a record asks for are multiplied with: finite, at least 0.
    pub output_len: f64,
    /// Records with longer prompts are left out.
    pub max_input_tokens: Option<u32>,
    /// Most tokens that a record asks for.
    pub max_output_tokens: Option<u32>,
}

/// Why a trace cannot be changed so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnfitTrace {
    /// Every record has a longer prompt than allowed.
    NothingLeft {
        /// Tokens of the shortest one.
        shortest: u32,
    },
    /// The trace has nothing that this key could change.
    NoEffect {
        /// The key of the config.
        key: &'static str,
        /// What it would change.
        lacks: &'static str,
    },
    /// A length that no request may have.
    TooLong {
        /// The key of the config that makes it so.
        key: &'static str,
        /// Number of the record.
        record: u32,
    },
    /// More than all requests may take.
    TooLarge,
}

impl TraceChanges {
    /// No change.
    pub const NONE: Self = Self {
        prefix_len: 1.0,
        prefix_roots: 1,
        prompt_len: 1.0,
        output_len: 1.0,
        max_input_tokens: None,
        max_output_tokens: None,
    };

    /// Leaves out records whose prompts are too long, and sessions of which nothing is left.
    ///
    /// # Errors
    /// [`UnfitTrace::NothingLeft`].
    pub fn leave_out(&self, sessions: &mut Vec<Session<'_>>) -> Result<(), UnfitTrace> {
        let Some(max) = self.max_input_tokens else {
            return Ok(());
        };
        let mut shortest = u32::MAX;
        let mut fits = |content: &Content<'_>| match content {
            Content::Words { input_tokens } | Content::Blocks { input_tokens, .. } => {
                shortest = shortest.min(*input_tokens);
                *input_tokens <= max
            }
            Content::Text(_) | Content::Parts(_) | Content::Messages { .. } => true,
        };
        sessions.retain_mut(|session| {
            match &mut session.turns {
                Turns::One(turn) => return fits(&turn.content),
                Turns::Many(turns) => turns.retain(|turn| fits(&turn.content)),
            }
            !session.turns.is_empty()
        });
        match sessions.is_empty() {
            true => Err(UnfitTrace::NothingLeft { shortest }),
            false => Ok(()),
        }
    }

    /// Changes the lengths of all turns, and what they share. Blocks have `block_size` tokens; `seed` decides which session joins which set.
    ///
    /// # Errors
    /// What keeps the trace from being changed so.
    pub fn apply(&self, sessions: &mut [Session<'_>], block_size: u32, seed: u64) -> Result<(), UnfitTrace> {
        self.outputs(sessions)?;
        self.prompts(sessions, block_size.max(1))?;
        self.roots(sessions, seed)
    }

    fn outputs(&self, sessions: &mut [Session<'_>]) -> Result<(), UnfitTrace> {
        let key = "output_len_multiplier";
        let mut any = false;
        for turn in sessions.iter_mut().flat_map(|session| session.turns.iter_mut()) {
            let Some(tokens) = &mut turn.output_tokens else {
                continue;
            };
            any = true;
            let max = self.max_output_tokens.unwrap_or(u32::MAX);
            let scaled = f64::from((*tokens).min(max)) * self.output_len;
            let scaled = scaled.round_ties_even().max(1.0).min(max.into());
            if scaled > MAX_TOKENS {
                return Err(UnfitTrace::TooLong {
                    key,
                    record: turn.record,
                });
            }
            *tokens = scaled as u32;
        }
        let lacks = "record with an `output_length`";
        match any || self.output_len == 1.0 {
            true => Ok(()),
            false => Err(UnfitTrace::NoEffect { key, lacks }),
        }
    }

    fn prompts(&self, sessions: &mut [Session<'_>], block_size: u32) -> Result<(), UnfitTrace> {
        if self.prefix_len == 1.0 && self.prompt_len == 1.0 {
            return Ok(());
        }
        let shared = shared_blocks(sessions);
        let (mut any_length, mut any_shared, mut bytes) = (false, false, 0u64);
        let turns = sessions.iter_mut().flat_map(|session| session.turns.iter_mut());
        for (number, turn) in (0u64..).zip(turns) {
            let (length, old_blocks): (&mut u32, Option<&mut Box<[u64]>>) = match &mut turn.content {
                Content::Words { input_tokens } => (input_tokens, None),
                Content::Blocks { input_tokens, hash_ids } => (input_tokens, Some(hash_ids)),
                Content::Text(_) | Content::Parts(_) | Content::Messages { .. } => continue,
            };
            let is_shared = |block: &&u64| shared.contains(*block);
            let prefix = old_blocks
                .as_ref()
                .map_or(0, |blocks| blocks.iter().take_while(is_shared).count());
            any_length = true;
            any_shared |= prefix > 0;
            let (prefix_len, own_len) = self.parts(*length, prefix, block_size);
            let mut new_len = prefix_len + own_len;
            if let Some(max) = self.max_input_tokens {
                new_len = new_len.min(max.into());
            }
            if new_len > MAX_TOKENS {
                return Err(UnfitTrace::TooLong {
                    key: if own_len > prefix_len {
                        "prompt_len_multiplier"
                    } else {
                        "prefix_len_multiplier"
                    },
                    record: turn.record,
                });
            }
            *length = new_len as u32;
            bytes += u64::from(*length) * MEAN_BYTES_PER_TOKEN as u64;
            if let Some(blocks) = old_blocks {
                let count = length.div_ceil(block_size) as usize;
                bytes += (count * size_of::<u64>()) as u64;
                // Before the memory is taken.
                if bytes > MAX_FILE_BYTES {
                    return Err(UnfitTrace::TooLarge);
                }
                let (prefix, own) = blocks.split_at(prefix);
                let prefix_count = stretched_count(prefix.len(), self.prefix_len).min(count);
                let mut new = stretched(prefix, self.prefix_len, prefix_count);
                let further = |at: usize| mixed(number, at as u64, FURTHER);
                new.extend((0..count - prefix_count).map(|at| own.get(at).copied().unwrap_or_else(|| further(at))));
                *blocks = new.into();
            }
        }
        if self.prompt_len != 1.0 && !any_length {
            return Err(UnfitTrace::NoEffect {
                key: "prompt_len_multiplier",
                lacks: "record with an `input_length`",
            });
        }
        if self.prefix_len != 1.0 && !any_shared {
            return Err(UnfitTrace::NoEffect {
                key: "prefix_len_multiplier",
                lacks: "block among the first `hash_ids` of a record that stands a second time",
            });
        }
        Ok(())
    }

    /// New lengths of the shared part, whose blocks are `prefix`, and of the other, in tokens. Their sum is at least 1.
    fn parts(&self, length: u32, prefix: usize, block_size: u32) -> (f64, f64) {
        let size = f64::from(block_size);
        let whole = prefix as f64 * size;
        // A prompt that is shared to its end may end within a block.
        let missing = (whole - f64::from(length)).max(0.0);
        let own = (f64::from(length) - whole).max(0.0);
        let prefix_len = match prefix {
            0 => 0.0,
            _ => stretched_count(prefix, self.prefix_len) as f64 * size - missing,
        };
        let own_len = (own * self.prompt_len).floor();
        (prefix_len, if prefix_len + own_len < 1.0 { 1.0 } else { own_len })
    }

    fn roots(&self, sessions: &mut [Session<'_>], seed: u64) -> Result<(), UnfitTrace> {
        if self.prefix_roots <= 1 {
            return Ok(());
        }
        let root = stream_root(seed, "prefix root");
        let mut any = false;
        for (number, session) in (0u32..).zip(sessions) {
            // Turns of a session stay together: each has the beginning of the one before.
            let draw = u128::from(entry_stream(root, number).next_u64()) * u128::from(self.prefix_roots);
            let set = (draw >> 64) as u64;
            for turn in session.turns.iter_mut() {
                if let Content::Blocks { hash_ids, .. } = &mut turn.content {
                    any = true;
                    hash_ids.iter_mut().for_each(|block| *block = mixed(*block, set, ROOT));
                }
            }
        }
        match any {
            true => Ok(()),
            false => Err(UnfitTrace::NoEffect {
                key: "prefix_root_multiplier",
                lacks: "record with `hash_ids`",
            }),
        }
    }
}

/// Blocks that stand more than once in the trace.
fn shared_blocks(sessions: &[Session<'_>]) -> HashSet<u64> {
    let mut counts: HashMap<u64, bool> = HashMap::new();
    for turn in sessions.iter().flat_map(|session| session.turns.iter()) {
        if let Content::Blocks { hash_ids, .. } = &turn.content {
            for &block in hash_ids {
                counts.entry(block).and_modify(|again| *again = true).or_insert(false);
            }
        }
    }
    counts
        .into_iter()
        .filter_map(|(block, again)| again.then_some(block))
        .collect()
}

/// Blocks of a shared part of so many: rounded away from its length, and at least one of any.
fn stretched_count(blocks: usize, factor: f64) -> usize {
    let count = blocks as f64 * factor;
    match (blocks, factor > 1.0) {
        (0, _) => 0,
        // Far beyond what a request may have, and below what an addition of two overflows.
        (_, true) => count.ceil().min(1e15) as usize,
        (_, false) => count.floor().max(1.0) as usize,
    }
}

/// The first `count` blocks of a shared part that is stretched or shortened. Which block stands at a place depends on that place and on the block that
/// stood at its share of the length alone, so common beginnings stay common.
fn stretched(prefix: &[u64], factor: f64, count: usize) -> Vec<u64> {
    let mut new = Vec::with_capacity(count);
    let (mut last, mut copies) = (usize::MAX, 0);
    for at in 0..count {
        let old = ((at as f64 / factor) as usize).min(prefix.len() - 1);
        copies = if old == last { copies + 1 } else { 0 };
        last = old;
        new.push(mixed(prefix[old], copies, COPY));
    }
    new
}

/// What a block that the trace does not have is made for.
const COPY: u64 = 0x636f_7079;
const FURTHER: u64 = 0x6675_7274;
const ROOT: u64 = 0x726f_6f74;

/// The number of a further block, spread over all numbers so that it meets none of the trace; copy 0 of a block, and its place in set 0, is itself.
fn mixed(block: u64, copy: u64, purpose: u64) -> u64 {
    if copy == 0 && purpose != FURTHER {
        return block;
    }
    scrambled(scrambled(block ^ scrambled(purpose)).wrapping_add(copy))
}

/// One to one (the finaliser of SplitMix64, Steele, Lea and Flood 2014).
fn scrambled(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests;
