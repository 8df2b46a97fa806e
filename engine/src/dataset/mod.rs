//! Conversations of turns: made from a seed.
//!
//! The module takes plain arguments and knows neither config nor plan. Whatever a dataset is made from, it comes out as [`Conversation`]s, one
//! after the other, so that no text is in memory longer than its request takes to render. A synthetic prompt is a row of words from a table chosen so that n
//! words are n tokens in every built-in encoding: input lengths are exact by construction, and no tokenizer runs before the load.

mod conversation;
mod delay;
mod length;
mod synthetic;
mod words;

pub use conversation::{Conversation, Turn};
pub use delay::DelayDistribution;
pub use length::LengthDistribution;
pub(crate) use synthetic::MEAN_BYTES_PER_TOKEN;
pub use synthetic::{Prompts, SizedPrompt, Synthetic};
pub use words::words;
