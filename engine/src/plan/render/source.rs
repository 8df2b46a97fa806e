//! What requests are made from, and the making of them on several threads.
//!
//! Texts, ids and numbers depend on the place in the dataset alone, so it is cut into as many stretches as there are threads; what they make is
//! put together in the order of the dataset and is the same for any number of them.

use std::num::NonZeroU32;
use std::ops::Range;

use super::{Parts, Scratch};
use crate::dataset::{
    Content, Conversation, ConversationIds, FileConversations, Session, Synthetic, SyntheticRankings,
};
use crate::plan::{Conversations, RequestImage, RequestImages, Sampler};

/// What requests are made from.
pub(super) enum Source<'t> {
    Synthetic(Synthetic),
    Rankings(SyntheticRankings),
    Sessions {
        sessions: Vec<Session<'t>>,
        make: FileConversations,
    },
}

/// Neighbouring conversations of a source.
struct Stretch<'a> {
    /// The number of its first one.
    first: u32,
    conversations: Box<dyn Iterator<Item = Conversation<'a>> + Send + 'a>,
}

/// The requests of a stretch, with the number of turns of each of its conversations and what identities they bring.
struct Rendered {
    entries: Vec<RequestImage>,
    turns: Vec<u32>,
    own_ids: Vec<(u32, Box<str>)>,
}

impl<'t> Source<'t> {
    /// Makes all requests. The source must not be empty.
    pub(super) fn render(mut self, parts: &Parts<'_>, threads: usize) -> RequestImages {
        let made = self.made_ids();
        let mut stretches = self.cut(threads.max(1)).into_iter();
        let own = stretches.next();
        let rendered: Vec<Rendered> = std::thread::scope(|scope| {
            let threads: Vec<_> = stretches.map(|stretch| scope.spawn(|| stretch.render(parts))).collect();
            let own = own.map(|stretch| stretch.render(parts));
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            own.into_iter().chain(threads.into_iter().map(join)).collect()
        });
        // What is left of a large file takes a while to give back.
        std::thread::scope(|scope| {
            scope.spawn(move || drop(self));
            together(rendered, parts, made)
        })
    }

    /// All conversations, made one after the other; the source keeps what it has.
    pub(super) fn conversations(&self) -> Box<dyn Iterator<Item = Conversation<'t>> + '_> {
        match self {
            Self::Synthetic(dataset) => Box::new(dataset.conversations_in(0..dataset.entries).map(shorter)),
            Self::Rankings(dataset) => Box::new(dataset.conversations_in(0..dataset.entries).map(shorter)),
            Self::Sessions { sessions, make } => {
                let mut make = make.clone();
                Box::new(sessions.iter().map(move |session| make.make(session.clone())))
            }
        }
    }

    /// The identities of conversations that bring none.
    pub(super) fn made_ids(&self) -> ConversationIds {
        match self {
            Self::Synthetic(dataset) => ConversationIds::new(dataset.seed),
            Self::Rankings(dataset) => ConversationIds::new(dataset.seed),
            Self::Sessions { make, .. } => make.ids(),
        }
    }

    pub(super) fn count(&self) -> u32 {
        match self {
            Self::Synthetic(dataset) => dataset.entries,
            Self::Rankings(dataset) => dataset.entries,
            Self::Sessions { sessions, .. } => {
                u32::try_from(sessions.len()).expect("the bound on bytes bounds the sessions")
            }
        }
    }

    /// Synthetic texts of a message.
    pub(super) fn batch_size(&self) -> u32 {
        match self {
            Self::Synthetic(dataset) => dataset.batch_size,
            Self::Rankings(_) | Self::Sessions { .. } => 1,
        }
    }

    /// Turns that have no history with the beginning of their conversation in it.
    pub(super) fn openings(&self) -> u64 {
        let Self::Sessions { sessions, .. } = self else {
            return self.count().into();
        };
        let of_one = |session: &Session<'_>| {
            let later = session.turns.iter().skip(1);
            let complete =
                later.filter(|turn| !session.keeps_history || matches!(turn.content, Content::Messages { .. }));
            1 + complete.count() as u64
        };
        sessions.iter().map(of_one).sum()
    }

    /// Cuts the source into at most so many stretches.
    fn cut(&mut self, parts: usize) -> Vec<Stretch<'_>> {
        let count = self.count();
        let length = count.div_ceil(u32::try_from(parts).unwrap_or(u32::MAX)).max(1);
        let ranges = (0..count)
            .step_by(length as usize)
            .map(|first| first..count.min(first.saturating_add(length)));
        match self {
            Self::Synthetic(dataset) => ranges
                .map(|range: Range<u32>| Stretch {
                    first: range.start,
                    conversations: Box::new(dataset.conversations_in(range).map(shorter)),
                })
                .collect(),
            Self::Rankings(dataset) => ranges
                .map(|range: Range<u32>| Stretch {
                    first: range.start,
                    conversations: Box::new(dataset.conversations_in(range).map(shorter)),
                })
                .collect(),
            Self::Sessions { sessions, make } => {
                let mut make = make.clone();
                ranges
                    .zip(sessions.chunks_mut(length as usize))
                    .map(|(range, sessions)| {
                        let mut own = make.clone();
                        make.skip(sessions);
                        Stretch {
                            first: range.start,
                            // A session is given up as soon as its requests are made.
                            conversations: Box::new(
                                sessions
                                    .iter_mut()
                                    .map(move |session| own.make(std::mem::take(session))),
                            ),
                        }
                    })
                    .collect()
            }
        }
    }
}

/// A conversation that borrows nothing as one that may.
fn shorter<'a>(conversation: Conversation<'static>) -> Conversation<'a> {
    conversation
}

impl Stretch<'_> {
    fn render(self, parts: &Parts<'_>) -> Rendered {
        let count = self.conversations.size_hint().0;
        let mut rendered = Rendered {
            entries: Vec::with_capacity(count),
            turns: Vec::with_capacity(count),
            own_ids: Vec::new(),
        };
        let mut scratch = Scratch::default();
        for (number, mut conversation) in (self.first..).zip(self.conversations) {
            parts.opening.open(number, &mut conversation);
            let turns = &conversation.turns;
            // Where the system's message is no part of the history, every turn says it.
            let first = turns.first().and_then(|turn| turn.written.as_deref());
            let system = first.and_then(|written| written.system.as_deref());
            for (position, turn) in (0u32..).zip(turns) {
                let image = parts.image(number, position, turn, system, &mut scratch);
                rendered.entries.push(image);
            }
            let count = u32::try_from(turns.len()).expect("the bound on bytes bounds the turns");
            rendered.turns.push(count);
            rendered.own_ids.extend(conversation.id.map(|id| (number, id)));
        }
        rendered
    }
}

fn together(rendered: Vec<Rendered>, parts: &Parts<'_>, made: ConversationIds) -> RequestImages {
    let requests: usize = rendered.iter().map(|part| part.entries.len()).sum();
    let mut index = Conversations::builder(made);
    let mut images = Vec::with_capacity(rendered.len());
    for part in rendered {
        let mut own_ids = part.own_ids.into_iter().peekable();
        for turns in part.turns {
            let number = index.count();
            index.push(own_ids.next_if(|&(own, _)| own == number).map(|(_, id)| id), turns);
        }
        images.push(part.entries);
    }
    let index = index.finish();
    let mut images = images.into_iter().flatten();
    // The length of a range is known beforehand, so that images go to their place at once; a list of lists would be copied twice.
    let next = |_| images.next().expect("as many images as were counted");
    let entries = (0..requests).map(next).collect();
    let count = NonZeroU32::new(index.count()).expect("a draft of nothing was refused");
    RequestImages {
        heads: parts.heads.clone().into(),
        ids: parts.ids.clone().into(),
        entries,
        order: Sampler::sequential(count),
        conversations: index.into(),
        answer_frame: parts.answer_frame(),
    }
}
