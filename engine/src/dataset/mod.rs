//! Conversations of turns: made from a seed, or brought by the user in a file.
//!
//! The module takes plain arguments and knows neither config nor plan. Whatever a dataset is made from, it comes out as [`Conversation`]s, one
//! after the other, so that no text is in memory longer than its request takes to render. A synthetic prompt is a row of words from a table
//! chosen so that n words are n tokens in every built-in encoding: input lengths are exact by construction, and no tokenizer runs before the
//! load.

mod blocks;
mod choice;
mod conversation;
mod delay;
mod distribution;
mod file;
mod lengths;
mod opening;
mod rankings;
mod sampling;
mod shares;
mod synthetic;
mod text;
mod words;

pub use blocks::{Blocks, DEFAULT_BLOCK_SIZE};
pub use choice::Choice;
pub use conversation::{Conversation, ConversationIds, Turn, Written};
pub use delay::DelayDistribution;
pub use distribution::{Clamped, Distribution, LengthDistribution};
pub use file::{
    Content, FileConversations, FileError, FileFormat, FileMistake, FileOptions, FileTimes, FileTurn, Session,
    TraceChanges, Turns, UnfitTrace, load_file, read_bytes, read_records, sha256,
};
pub use lengths::{LengthPair, Lengths};
pub use opening::Opening;
pub use rankings::SyntheticRankings;
pub use sampling::{Sampler, Sampling};
pub use shares::Shares;
pub(crate) use synthetic::MEAN_BYTES_PER_TOKEN;
pub use synthetic::{Prompts, SizedPrompt, Synthetic};
pub use text::{TextError, load_text};
pub use words::words;

use sha2::{Digest, Sha256};

/// The root of the streams of one purpose.
fn stream_root(seed: u64, purpose: &str) -> u64 {
    let digest = Sha256::digest(format!("{seed}:dataset:{purpose}"));
    u64::from_le_bytes(*digest.first_chunk().expect("a SHA-256 digest has 32 bytes"))
}
