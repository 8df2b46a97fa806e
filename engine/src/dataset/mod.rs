//! Prompts of wanted lengths, made from a seed.
//!
//! The module takes plain arguments and knows neither config nor plan. A synthetic prompt is a row of words from a table chosen so that n
//! words are n tokens in every built-in encoding: input lengths are exact by construction, and no tokenizer runs before the load.

mod length;
mod synthetic;
mod words;

pub use length::LengthDistribution;
pub(crate) use synthetic::MEAN_BYTES_PER_TOKEN;
pub use synthetic::{Prompts, SizedPrompt};
pub use words::words;
