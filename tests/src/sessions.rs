//! Sessions as the server saw them, put together by correlation id from a ledger that keeps messages.

use std::collections::BTreeMap;

use ringload_mock_server::{LedgerEntry, Message, Outcome, answer_text};
use serde_json::Value;

use crate::books::Books;
use crate::record::{Ending, Record};
use crate::run::Run;

/// One session: its requests in the order of their turns.
#[derive(Debug)]
pub struct Session<'a> {
    /// What the client recorded and what the server saw, turn by turn.
    pub turns: Vec<(&'a Record, &'a LedgerEntry)>,
}

impl Session<'_> {
    /// Numbers of the connections that carried it, without repetitions in a row.
    pub fn connections(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.turns.iter().map(|(_, entry)| entry.connection).collect();
        numbers.dedup();
        numbers
    }

    /// From its first start to its last end, by the client.
    pub fn span(&self) -> (u64, u64) {
        let (first, last) = (self.turns[0].0, self.turns[self.turns.len() - 1].0);
        (first.metadata.request_start_ns, last.metadata.request_end_ns)
    }
}

fn message(role: &str, content: &str) -> Message {
    serde_json::from_value(serde_json::json!({"role": role, "content": content})).expect("a message")
}

/// What the user says in a turn, by the plan.
fn own_message(run: &Run, record: &Record) -> Message {
    let conversations = &run.plan.requests.conversations;
    let conversation = (0..conversations.count())
        .find(|&at| conversations.id(at) == record.metadata.conversation_id)
        .expect("a conversation of the plan");
    let image = conversations.images(conversation).start + record.metadata.turn_index as u32;
    let body: Value = serde_json::from_slice(run.plan.requests.entries[image as usize].body()).expect("JSON");
    let messages = body.get("messages").unwrap_or(&body["input"]);
    message("user", messages[0]["content"].as_str().expect("a text"))
}

/// The sessions of a run, by correlation id, each checked: its turns are of one conversation, follow one another from the first on, ran on one
/// core, none started before the one before had returned, and each carried the messages of all turns before it with the answers that those got.
///
/// # Panics
/// If one is not so, or the server kept no messages.
pub fn sessions<'a>(run: &Run, books: &'a Books<'a>) -> BTreeMap<String, Session<'a>> {
    let mut by_id: BTreeMap<String, Session<'a>> = BTreeMap::new();
    for (record, entry) in &books.matched {
        let session = by_id
            .entry(record.metadata.x_correlation_id.clone())
            .or_insert_with(|| Session { turns: Vec::new() });
        session.turns.push((record, entry));
    }
    for session in by_id.values_mut() {
        session.turns.sort_by_key(|(record, _)| record.metadata.turn_index);
        check(run, session);
    }
    by_id
}

fn check(run: &Run, session: &Session<'_>) {
    let (first, _) = session.turns[0];
    let mut history: Vec<Message> = Vec::new();
    let mut returned = 0;
    for (turn, (record, entry)) in (0..).zip(&session.turns) {
        let meta = &record.metadata;
        assert_eq!(meta.turn_index, turn, "turns follow one another: {record:?}");
        assert_eq!(meta.conversation_id, first.metadata.conversation_id, "{record:?}");
        assert_eq!(meta.worker_id, first.metadata.worker_id, "{record:?}");
        assert!(meta.request_start_ns >= returned, "{record:?}");
        returned = meta.request_end_ns;
        history.push(own_message(run, record));
        let sent = entry.messages.as_ref().expect("the server keeps messages");
        assert_eq!(*sent, history, "{record:?}");
        if record.ending() == Ending::Succeeded {
            assert_eq!(entry.outcome, Outcome::Complete);
            history.push(message("assistant", &answer_text(entry.tokens_sent)));
        }
    }
}
