//! The lengths of a turn: what it says, and what it asks for.

use rand_xoshiro::Xoshiro256PlusPlus;

use super::distribution::LengthDistribution;
use super::shares::Shares;

/// How long prompts and answers are.
#[derive(Debug, Clone, PartialEq)]
pub enum Lengths {
    /// Each drawn for itself.
    Apart {
        /// Lengths of messages.
        isl: LengthDistribution,
        /// Output lengths to ask for; `None` asks for none.
        osl: Option<LengthDistribution>,
    },
    /// Drawn together: every turn draws a pair, and its two lengths from that.
    Paired(Shares<LengthPair>),
}

/// Lengths that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct LengthPair {
    /// Lengths of messages.
    pub isl: LengthDistribution,
    /// Output lengths to ask for.
    pub osl: LengthDistribution,
}

/// The streams of one turn.
pub(super) struct LengthStreams<S> {
    /// Of the choice between pairs.
    pub(super) pair: S,
    pub(super) input: S,
    pub(super) output: S,
}

impl Lengths {
    /// Draws the lengths of a message and of its answer, if one is asked for. Streams are made when something is drawn from them.
    pub(super) fn draw<S: FnOnce() -> Xoshiro256PlusPlus>(&self, streams: LengthStreams<S>) -> (u32, Option<u32>) {
        let (isl, osl) = match self {
            Self::Apart { isl, osl } => (isl, osl.as_ref()),
            Self::Paired(pairs) => {
                let pair = pairs.draw(&mut (streams.pair)());
                (&pair.isl, Some(&pair.osl))
            }
        };
        let input = isl.draw(&mut (streams.input)());
        (input, osl.map(|osl| osl.draw(&mut (streams.output)())))
    }

    /// The distributions that it is made of, each with what it is called.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&'static str, &LengthDistribution)> {
        let (apart, pairs) = match self {
            Self::Apart { isl, osl } => (Some((isl, osl)), None),
            Self::Paired(pairs) => (None, Some(pairs)),
        };
        let apart = apart
            .into_iter()
            .flat_map(|(isl, osl)| [Some(("prompts.isl", isl)), osl.as_ref().map(|osl| ("prompts.osl", osl))])
            .flatten();
        let paired = pairs.into_iter().flat_map(Shares::iter).flat_map(|pair| {
            [
                ("prompts.sequence_distribution.isl", &pair.isl),
                ("prompts.sequence_distribution.osl", &pair.osl),
            ]
        });
        apart.chain(paired)
    }
}
