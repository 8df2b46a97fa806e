//! Sessions of a file as conversations: what they only describe becomes text here, one conversation at a time.

use std::borrow::Cow;

use super::session::{Content, FileTurn, Session};
use crate::dataset::blocks::Blocks;
use crate::dataset::conversation::{Conversation, ConversationIds, Turn, Written};
use crate::dataset::distribution::LengthDistribution;
use crate::dataset::synthetic::{Prompts, SizedPrompt};
use crate::units::Nanos;

/// Makes conversations of the sessions of a file.
#[derive(Debug, Clone)]
pub struct FileConversations {
    prompts: Prompts,
    blocks: Blocks,
    ids: ConversationIds,
    /// Turns made so far.
    turns: u32,
}

impl FileConversations {
    /// Conversations whose turns ask for `osl` output tokens where the file does not say. Prompts that it only describes are made from `seed`.
    pub fn new(osl: Option<LengthDistribution>, block_size: u32, seed: u64) -> Self {
        Self {
            prompts: Prompts::new(LengthDistribution::Fixed(1), osl, seed),
            blocks: Blocks::new(block_size, seed),
            ids: ConversationIds::new(seed),
            turns: 0,
        }
    }

    /// The identities of conversations that have none of their own.
    pub fn ids(&self) -> ConversationIds {
        self.ids
    }

    /// Leaves out the next sessions: what comes after them is made as if they had been.
    pub fn skip(&mut self, sessions: &[Session<'_>]) {
        let turns: usize = sessions.iter().map(|session| session.turns.len()).sum();
        self.turns += u32::try_from(turns).expect("the bounds of a file bound its turns");
    }

    /// The next conversation.
    pub fn make<'a>(&mut self, session: Session<'a>) -> Conversation<'a> {
        let Session {
            id,
            mut system,
            keeps_history,
            turns,
        } = session;
        // One turn has no history that could be left out.
        let is_complete = !keeps_history && turns.len() > 1;
        Conversation {
            id,
            turns: turns
                .into_iter()
                .map(|turn| self.turn(turn, system.take(), is_complete))
                .collect(),
        }
    }

    fn turn<'a>(&mut self, turn: FileTurn<'a>, system: Option<String>, is_complete: bool) -> Turn<'a> {
        // The number of a turn in the file makes its prompt like no other.
        let entry = self.turns;
        self.turns += 1;
        let mut written = Written {
            system,
            role: turn.role,
            extra: turn.extra,
            is_complete,
            ..Written::default()
        };
        let mut input_tokens = None;
        let text = match turn.content {
            Content::Text(text) => text,
            Content::Parts(texts) => {
                let mut texts = texts.into_iter();
                let first = texts.next().unwrap_or_default();
                written.more_texts = texts.collect();
                first.into()
            }
            Content::Words { input_tokens: tokens } => {
                input_tokens = Some(tokens);
                let size = SizedPrompt {
                    entry,
                    input_tokens: tokens,
                    output_tokens: None,
                };
                self.prompts.text(size).into()
            }
            Content::Blocks {
                input_tokens: tokens,
                hash_ids,
            } => {
                input_tokens = Some(tokens);
                self.blocks.text(&hash_ids, tokens).into()
            }
            Content::Messages { messages, tools } => {
                written.messages = Some(messages);
                written.tools = tools;
                Cow::default()
            }
        };
        Turn {
            text,
            input_tokens,
            output_tokens: turn.output_tokens.or_else(|| self.prompts.size(entry).output_tokens),
            delay: turn.delay.unwrap_or(Nanos::ZERO),
            timestamp: turn.timestamp,
            written: (written != Written::default()).then(|| Box::new(written)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{FileFormat, FileOptions, read_records};

    fn conversations<'a>(
        format: FileFormat,
        records: &[&'a str],
        osl: Option<LengthDistribution>,
        seed: u64,
    ) -> Vec<Conversation<'a>> {
        let options = FileOptions { format, block_size: 4 };
        let sessions = read_records(records.iter().copied(), options).unwrap_or_else(|error| panic!("{error:?}"));
        let mut make = FileConversations::new(osl, 4, seed);
        sessions.into_iter().map(|session| make.make(session)).collect()
    }

    #[test]
    fn what_a_trace_describes_becomes_text_of_that_length() {
        let records = [
            r#"{"input_length": 6, "hash_ids": [1, 2]}"#,
            r#"{"input_length": 7, "hash_ids": [1, 3], "output_length": 5}"#,
            r#"{"input_length": 9}"#,
            r#"{"input_length": 9}"#,
        ];
        let made = conversations(
            FileFormat::MooncakeTrace,
            &records,
            Some(LengthDistribution::Fixed(8)),
            1,
        );
        let turn = |at: usize| &made[at].turns[0];
        let words = |at: usize| turn(at).text.split(' ').collect::<Vec<_>>();
        assert_eq!((0..4).map(|at| words(at).len()).collect::<Vec<_>>(), [6, 7, 9, 9]);
        assert_eq!(
            (0..4).map(|at| turn(at).input_tokens).collect::<Vec<_>>(),
            [6, 7, 9, 9].map(Some)
        );
        assert_eq!(
            (0..4).map(|at| turn(at).output_tokens).collect::<Vec<_>>(),
            [8, 5, 8, 8].map(Some)
        );
        assert_eq!(words(0)[..4], words(1)[..4], "block 1 is shared");
        assert_ne!(words(2)[..3], words(3)[..3], "prompts without blocks share nothing");
        assert!((0..4).all(|at| turn(at).written.is_none()));
        assert_ne!(
            conversations(FileFormat::MooncakeTrace, &records, None, 2)[0].turns[0].text,
            turn(0).text
        );
    }

    #[test]
    fn a_system_message_stands_before_the_first_turn_and_requests_that_say_everything_are_marked() {
        let talk = r#"{"session_id": "s", "turns": [{"role": "system", "text": "brief"}, {"text": "a"}, {"text": "b", "delay": 3}]}"#;
        let [talk] = &conversations(FileFormat::MultiTurn, &[talk], None, 1)[..] else {
            panic!("one conversation")
        };
        let [first, second] = &talk.turns[..] else {
            panic!("two turns")
        };
        assert_eq!(talk.id.as_deref(), Some("s"));
        assert_eq!(
            first.written.as_deref().and_then(|written| written.system.as_deref()),
            Some("brief")
        );
        assert_eq!(
            (&*second.text, second.delay, &second.written),
            ("b", Nanos::from_millis(3), &None)
        );

        let [single] = &conversations(FileFormat::SingleTurn, &[r#"{"texts": ["a", "b"]}"#], None, 1)[..] else {
            panic!("one conversation")
        };
        let written = single.turns[0].written.as_deref().expect("it has two texts");
        assert_eq!(
            (&*single.turns[0].text, &written.more_texts[..]),
            ("a", &["b".to_owned()][..])
        );
        assert_eq!(single.id, None);

        let records = [
            r#"{"text": "a", "session_id": "s"}"#,
            r#"{"text": "b", "session_id": "s"}"#,
        ];
        let session = &conversations(FileFormat::SingleTurn, &records, None, 1)[0];
        assert!(
            session
                .turns
                .iter()
                .all(|turn| turn.written.as_deref().is_some_and(|written| written.is_complete))
        );
    }
}
