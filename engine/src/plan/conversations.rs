//! Which images belong to which conversation of the dataset.

use std::borrow::Cow;
use std::ops::Range;

use crate::dataset::{ConversationIds, Sampler};

/// The conversations of a dataset, as ranges of its images. Never empty.
#[derive(Debug, Clone)]
pub struct Conversations {
    /// Identities that the dataset brings, by conversation, in order.
    own: Vec<(u32, Box<str>)>,
    /// All others.
    made: ConversationIds,
    /// The first image of each conversation, and behind the last one the number of images.
    starts: Vec<u32>,
    turns_max: u32,
}

/// Equal are those that show the same identities and turns, whether the identities were brought or made.
impl PartialEq for Conversations {
    fn eq(&self, other: &Self) -> bool {
        self.starts == other.starts && (0..self.count()).all(|number| self.id(number) == other.id(number))
    }
}

impl Eq for Conversations {}

/// A list of conversations in the making.
#[derive(Debug)]
pub(super) struct Builder(Conversations);

impl Builder {
    /// Adds the next conversation, whose images follow those of the one before.
    pub(super) fn push(&mut self, id: Option<Box<str>>, turns: u32) {
        assert!(turns > 0, "a conversation has at least one turn");
        let list = &mut self.0;
        let number = list.count();
        let end = list.starts.last().copied().unwrap_or(0).checked_add(turns);
        list.starts
            .push(end.expect("the dataset's bound on bytes bounds its images"));
        list.own.extend(id.map(|id| (number, id)));
        list.turns_max = list.turns_max.max(turns);
    }

    /// Conversations so far.
    pub(super) fn count(&self) -> u32 {
        self.0.count()
    }

    pub(super) fn finish(self) -> Conversations {
        self.0
    }
}

impl Conversations {
    /// Conversations without an identity of their own have one of `made`.
    pub(super) fn builder(made: ConversationIds) -> Builder {
        Builder(Self {
            own: Vec::new(),
            made,
            starts: vec![0],
            turns_max: 0,
        })
    }

    /// Conversations of one turn each.
    pub fn of_single_turns(ids: impl IntoIterator<Item = String>) -> Self {
        Self::of_turns(ids.into_iter().map(|id| (id, 1)))
    }

    /// Conversations by identity and number of turns.
    pub fn of_turns(conversations: impl IntoIterator<Item = (String, usize)>) -> Self {
        let mut list = Self::builder(ConversationIds::new(0));
        for (id, turns) in conversations {
            let turns = u32::try_from(turns).expect("the number of an image has 32 bits");
            list.push(Some(id.into()), turns);
        }
        list.finish()
    }

    /// So many conversations of one turn each, with identities that are made.
    pub(super) fn of_made_ids(made: ConversationIds, count: u32) -> Self {
        let mut list = Self::builder(made);
        (0..count).for_each(|_| list.push(None, 1));
        list.finish()
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        u32::try_from(self.starts.len() - 1)
            .expect("there are fewer conversations than images, whose numbers are 32 bits")
    }

    /// The identity of one: `session_id` in `inputs.json`, `conversation_id` in records.
    pub fn id(&self, conversation: u32) -> Cow<'_, str> {
        match self.own.binary_search_by_key(&conversation, |&(number, _)| number) {
            Ok(at) => Cow::Borrowed(&self.own[at].1),
            Err(_) => Cow::Owned(self.made.of(conversation)),
        }
    }

    /// The identities that the dataset brings, by conversation, in order.
    pub(super) fn own_ids(&self) -> &[(u32, Box<str>)] {
        &self.own
    }

    /// Where all other identities come from.
    pub(super) fn made_ids(&self) -> ConversationIds {
        self.made
    }

    /// The images of its turns.
    pub fn images(&self, conversation: u32) -> Range<u32> {
        let at = conversation as usize;
        self.starts[at]..self.starts[at + 1]
    }

    /// Its number of turns.
    pub fn turns(&self, conversation: u32) -> u32 {
        let images = self.images(conversation);
        images.end - images.start
    }

    /// Whether any of them has more than one turn.
    pub fn has_later_turns(&self) -> bool {
        self.turns_max > 1
    }

    /// Turns of a conversation, on average.
    pub fn turns_mean(&self) -> f64 {
        f64::from(self.images_count()) / f64::from(self.count())
    }

    fn images_count(&self) -> u32 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Turns of `sessions` sessions together that take conversations in this order from position `first` on.
    pub fn turns_of(&self, order: Sampler, first: u64, sessions: u64) -> u64 {
        let (count, all) = (u64::from(self.count()), u64::from(self.images_count()));
        let turns = |positions: Range<u64>| -> u64 { positions.map(|at| u64::from(self.turns(order.entry(at)))).sum() };
        let end = first.saturating_add(sessions);
        if !order.takes_each_once_a_pass() || sessions < count {
            return turns(first..end);
        }
        // Whole passes have all turns, so only their neighbours are looked at.
        let (whole_from, whole_to) = (first.next_multiple_of(count), end / count * count);
        let passes = (whole_to - whole_from) / count;
        turns(first..whole_from) + passes.saturating_mul(all) + turns(whole_to..end)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::dataset::Sampling;

    #[test]
    fn images_are_counted_from_one_conversation_to_the_next() {
        let list = Conversations::of_turns([("a", 2), ("b", 1), ("c", 3)].map(|(id, turns)| (id.to_owned(), turns)));
        assert_eq!((list.count(), list.turns_mean()), (3, 2.0));
        assert_eq!((&*list.id(1), list.images(2), list.turns(0)), ("b", 3..6, 2));
        assert!(list.has_later_turns());
        assert!(!Conversations::of_single_turns(["x".to_owned()]).has_later_turns());
    }

    #[test]
    fn conversations_without_an_identity_of_their_own_have_a_made_one() {
        let made = ConversationIds::new(7);
        let mut list = Conversations::builder(made);
        for id in [None, Some("own"), None] {
            list.push(id.map(Box::from), 2);
        }
        let list = list.finish();
        let ids: Vec<_> = (0..3).map(|number| list.id(number)).collect();
        assert_eq!(ids, [&*made.of(0), "own", &*made.of(2)]);
        assert_eq!(Conversations::of_made_ids(made, 3).id(2), made.of(2));
    }

    #[test]
    fn turns_of_sessions_wrap_as_the_dataset_does() {
        let list = Conversations::of_turns([2, 1, 3].map(|turns| (String::new(), turns)));
        for sampling in [Sampling::Sequential, Sampling::Shuffle, Sampling::Random] {
            let order = Sampler::new(sampling, NonZeroU32::new(3).unwrap(), 7);
            for (first, sessions) in (0..7).flat_map(|first| (0..12).map(move |sessions| (first, sessions))) {
                let expected: u32 = (first..first + sessions).map(|at| list.turns(order.entry(at))).sum();
                assert_eq!(list.turns_of(order, first, sessions), u64::from(expected));
            }
        }
    }
}
