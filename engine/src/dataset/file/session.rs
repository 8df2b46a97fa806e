//! From records to sessions: which fields a format has, and which records belong together.

use std::borrow::Cow;
use std::collections::HashMap;
use std::iter::Chain;
use std::ops::{Deref, DerefMut};
use std::{option, slice, vec};

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::mistake::Mistakes;
use super::record::{Members, Raw, Reader};
use super::{FileFormat, FileOptions};
use crate::units::{Nanos, counted};

/// The turns of one conversation, in the order in which they are sent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Session<'a> {
    /// Its identity in the file, if it has one.
    pub id: Option<Box<str>>,
    /// A message that stands before those of every turn.
    pub system: Option<String>,
    /// Whether a turn continues what was said before it. Otherwise each turn says everything itself.
    pub keeps_history: bool,
    /// At least one.
    pub turns: Turns<'a>,
}

/// Turns in order. One alone, which most sessions of large files are, takes no memory of its own.
#[derive(Debug, Clone, PartialEq)]
pub enum Turns<'a> {
    /// One.
    One(FileTurn<'a>),
    /// Any number.
    Many(Vec<FileTurn<'a>>),
}

impl<'a> Turns<'a> {
    /// Appends the turns of a later record.
    fn extend(&mut self, later: Self) {
        let mut turns: Vec<FileTurn<'a>> = std::mem::take(self).into_iter().collect();
        turns.extend(later);
        *self = Self::Many(turns);
    }
}

impl Default for Turns<'_> {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl<'a> Deref for Turns<'a> {
    type Target = [FileTurn<'a>];

    fn deref(&self) -> &Self::Target {
        match self {
            Self::One(turn) => slice::from_ref(turn),
            Self::Many(turns) => turns,
        }
    }
}

impl DerefMut for Turns<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::One(turn) => slice::from_mut(turn),
            Self::Many(turns) => turns,
        }
    }
}

impl<'a> IntoIterator for Turns<'a> {
    type Item = FileTurn<'a>;
    type IntoIter = Chain<option::IntoIter<FileTurn<'a>>, vec::IntoIter<FileTurn<'a>>>;

    fn into_iter(self) -> Self::IntoIter {
        let (one, many) = match self {
            Self::One(turn) => (Some(turn), Vec::new()),
            Self::Many(turns) => (None, turns),
        };
        one.into_iter().chain(many)
    }
}

/// One request of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileTurn<'a> {
    /// The record that it stands in: line from 1, or index from 0 of records that were given one by one.
    pub record: u32,
    /// What is said.
    pub content: Content<'a>,
    /// Who says it; `user` when absent.
    pub role: Option<Box<str>>,
    /// Output tokens to ask for.
    pub output_tokens: Option<u32>,
    /// When a schedule wants it to start, on the file's own clock.
    pub timestamp: Option<Nanos>,
    /// Wait after the return of the turn before it.
    pub delay: Option<Nanos>,
    /// Further fields of the request body.
    pub extra: Option<Box<Map<String, Value>>>,
}

/// What a request says.
#[derive(Debug, Clone, PartialEq)]
pub enum Content<'a> {
    /// This text.
    Text(Cow<'a, str>),
    /// Several texts in one message.
    Parts(Vec<String>),
    /// A synthetic prompt that is like no other.
    Words {
        /// Input sequence length in tokens.
        input_tokens: u32,
    },
    /// A synthetic prompt of numbered blocks, see [`Blocks`](crate::dataset::Blocks).
    Blocks {
        /// Input sequence length in tokens.
        input_tokens: u32,
        /// As many as the length takes.
        hash_ids: Box<[u64]>,
    },
    /// Messages as the API wants them.
    Messages {
        /// A JSON list.
        messages: Box<str>,
        /// A JSON list of tool definitions.
        tools: Option<Box<str>>,
    },
}

/// A record that was read: a session, or a part of one.
pub(super) type Record<'a> = Session<'a>;

/// Reads records, each with its number. Blank lines are no records.
pub(super) fn read<'a>(
    numbered: impl Iterator<Item = (&'a str, u32)>,
    options: FileOptions,
) -> (Vec<Record<'a>>, Mistakes) {
    let mut records = Vec::new();
    let mut mistakes = Mistakes::default();
    for (line, number) in numbered {
        if line.trim().is_empty() {
            continue;
        }
        let mut reader = Reader::new(line, number, mistakes.of_next_record());
        if let Some(members) = reader.members() {
            records.extend(record(&mut reader, &members, options));
        }
    }
    (records, mistakes)
}

/// Joins the records of a session in the order of the file; the session stands where its first record does.
pub(super) fn group(parts: Vec<Vec<Record<'_>>>) -> Vec<Session<'_>> {
    if parts.iter().flatten().all(|record| record.id.is_none()) {
        // Each record is a session: the first part grows by the others, and is not moved itself.
        let mut parts = parts.into_iter();
        let mut sessions = parts.next().unwrap_or_default();
        parts.for_each(|part| sessions.extend(part));
        return sessions;
    }
    let mut sessions: Vec<Session<'_>> = Vec::with_capacity(parts.iter().map(Vec::len).sum());
    let mut known: HashMap<Box<str>, usize> = HashMap::new();
    for record in parts.into_iter().flatten() {
        let Some(id) = &record.id else {
            sessions.push(record);
            continue;
        };
        match known.get(id) {
            Some(&at) => sessions[at].turns.extend(record.turns),
            None => {
                known.insert(id.clone(), sessions.len());
                sessions.push(record);
            }
        }
    }
    sessions
}

fn record<'a>(reader: &mut Reader<'a, '_>, members: &Members<'a>, options: FileOptions) -> Option<Record<'a>> {
    if let Some(kind) = members.kind {
        let name = options.format.as_str();
        if reader.text("type", kind).is_some_and(|found| found != name) {
            reader.report(
                "type",
                kind,
                format!("found {kind}, but the format is {name}; set it to what the file holds"),
            );
        }
    }
    let id = members.session_id.and_then(|raw| reader.text("session_id", raw));
    let (mut system, mut keeps_history) = (None, true);
    let turns = match options.format {
        FileFormat::MultiTurn => {
            let mut turns = conversation(reader, members)?;
            system = take_system(&mut turns);
            Turns::Many(turns)
        }
        FileFormat::SingleTurn => {
            keeps_history = false;
            let content = said(reader, members);
            Turns::One(turn(reader, members, content)?)
        }
        FileFormat::MooncakeTrace => {
            let content = traced(reader, members, options.block_size);
            keeps_history = !matches!(content, Some(Content::Messages { .. }));
            Turns::One(turn(reader, members, content)?)
        }
        FileFormat::RandomPool => {
            let content = said(reader, members)?;
            let bare = Members::default();
            Turns::One(turn(reader, &bare, Some(content))?)
        }
    };
    Some(Session {
        // A pool has no sessions: its texts are drawn one by one.
        id: id.filter(|_| options.format != FileFormat::RandomPool).map(Box::from),
        system,
        keeps_history,
        turns,
    })
}

/// The turns of a conversation that stands in one record.
fn conversation<'a>(reader: &mut Reader<'a, '_>, members: &Members<'a>) -> Option<Vec<FileTurn<'a>>> {
    let Some(list) = members.turns else {
        let advice = if members.text.is_some() || members.texts.is_some() {
            "it has a text of its own, as records of format single_turn have"
        } else {
            "write turns: [{\"text\": ...}, ...]"
        };
        reader.report_record(format!("found no \"turns\"; {advice}"));
        return None;
    };
    let items = reader.items("turns", list)?;
    // Everything is read before anything is given up on, so that all mistakes are reported.
    let turns: Vec<Option<FileTurn<'a>>> = items
        .into_iter()
        .enumerate()
        .map(|(at, raw)| {
            let mut inside = reader.inside(format!("turns[{at}]."));
            let members = inside.members_of("", raw)?;
            let content = said(&mut inside, &members);
            turn(&mut inside, &members, content)
        })
        .collect();
    turns.into_iter().collect()
}

/// A conversation may begin with a system message that has nothing but its text: it is said before every turn and is no request.
fn take_system(turns: &mut Vec<FileTurn<'_>>) -> Option<String> {
    let [first, _, ..] = &turns[..] else { return None };
    let is_bare = first.timestamp.is_none()
        && first.delay.is_none()
        && first.output_tokens.is_none()
        && first.extra.is_none()
        && first.role.as_deref() == Some("system");
    if !is_bare {
        return None;
    }
    match turns.remove(0).content {
        Content::Text(text) => Some(text.into_owned()),
        Content::Parts(texts) => Some(texts.join("\n")),
        other => unreachable!("conversations are made of texts, not of {other:?}"),
    }
}

/// The fields that every request may have, around its content. `None` if the content is.
fn turn<'a>(reader: &mut Reader<'a, '_>, members: &Members<'a>, content: Option<Content<'a>>) -> Option<FileTurn<'a>> {
    let role = members.role.and_then(|raw| reader.text("role", raw));
    let turn = FileTurn {
        record: reader.record(),
        content: Content::Words { input_tokens: 0 },
        role: role.filter(|role| role != "user").map(Box::from),
        output_tokens: reader.tokens("output_length", members.output_length),
        timestamp: reader.millis("timestamp", members.timestamp),
        delay: reader.millis("delay", members.delay),
        extra: extra(reader, members).map(Box::new),
    };
    Some(FileTurn {
        content: content?,
        ..turn
    })
}

/// Fields for the request body, without those that other keys decide.
fn extra<'a>(reader: &mut Reader<'a, '_>, members: &Members<'a>) -> Option<Map<String, Value>> {
    let fields = reader.object("extra", members.extra)?;
    for (key, advice) in [
        ("stream", "endpoint.streaming decides it"),
        ("messages", "the record says what to send"),
    ] {
        if let (true, Some(raw)) = (fields.contains_key(key), members.extra) {
            reader.report("extra", raw, format!("found the key \"{key}\": {advice}; remove it"));
        }
    }
    (!fields.is_empty()).then_some(fields)
}

/// The content of a record that says it in so many words.
fn said<'a>(reader: &mut Reader<'a, '_>, members: &Members<'a>) -> Option<Content<'a>> {
    for (field, raw) in members.media() {
        reader.refuse(field, raw, "write requests of text");
    }
    match (members.text, members.texts) {
        (Some(raw), None) => reader.text("text", raw).map(Content::Text),
        (None, Some(raw)) => {
            let mut texts = reader.texts("texts", raw)?;
            Some(match texts.len() {
                1 => Content::Text(texts.remove(0).into()),
                _ => Content::Parts(texts),
            })
        }
        (Some(_), Some(raw)) => {
            reader.report("texts", raw, "\"text\" says the same; keep one".to_owned());
            None
        }
        (None, None) => {
            if members.media().iter().all(|(_, raw)| raw.is_none()) {
                reader.report_record(format!("found no \"text\"{}", advice(members)));
            }
            None
        }
    }
}

/// What a record without the field that its format needs looks like.
fn advice(members: &Members<'_>) -> &'static str {
    if members.turns.is_some() {
        "; a record with \"turns\" is of format multi_turn"
    } else if members.input_length.is_some() || members.text_input.is_some() || members.messages.is_some() {
        "; a record with \"input_length\", \"text_input\" or \"messages\" is of format mooncake_trace"
    } else {
        "; write {\"text\": ...}"
    }
}

/// The content of a record of a trace.
fn traced<'a>(reader: &mut Reader<'a, '_>, members: &Members<'a>, block_size: u32) -> Option<Content<'a>> {
    reader.refuse(
        "payload",
        members.payload,
        "write \"messages\" and put further fields of the body into \"extra\"",
    );
    reader.refuse("context_mode", members.context_mode, "remove it");
    if let Some(mode) = members.message_mode
        && reader.text("message_mode", mode).is_some_and(|mode| mode != "history")
    {
        reader.refuse(
            "message_mode",
            Some(mode),
            "allowed: history, where each entry has all messages up to it",
        );
    }
    let ways: [(&str, Raw<'a>); 3] = [
        ("input_length", members.input_length),
        ("text_input", members.text_input),
        ("messages", members.messages),
    ];
    let written: Vec<(&str, &RawValue)> = ways
        .into_iter()
        .filter_map(|(field, raw)| Some((field, raw?)))
        .collect();
    if let [(first, _), (second, raw), ..] = written[..] {
        reader.report(
            second,
            raw,
            format!("\"{first}\" says what to send already; keep one of input_length, text_input, messages"),
        );
        return None;
    }
    for (field, raw, needs) in [
        ("hash_ids", members.hash_ids, members.input_length),
        ("tools", members.tools, members.messages),
    ] {
        if let (Some(raw), None) = (raw, needs) {
            let partner = if field == "tools" { "messages" } else { "input_length" };
            reader.report(
                field,
                raw,
                format!("it belongs to \"{partner}\", which is not there; remove it or add that"),
            );
        }
    }
    match written.first() {
        Some(("text_input", raw)) => reader.text("text_input", raw).map(Content::Text),
        Some(("messages", raw)) => {
            let tools = match members.tools {
                Some(tools) => Some(reader.list_of_objects("tools", tools, "type")?),
                None => None,
            };
            let messages = reader.list_of_objects("messages", raw, "role")?;
            Some(Content::Messages { messages, tools })
        }
        Some(_) => {
            let input_tokens = reader.tokens("input_length", members.input_length);
            let Some(raw) = members.hash_ids else {
                return input_tokens.map(|input_tokens| Content::Words { input_tokens });
            };
            let hash_ids = reader.numbers("hash_ids", raw)?;
            let input_tokens = input_tokens?;
            blocks(reader, raw, input_tokens, hash_ids, block_size)
        }
        None => {
            if members.payload.is_none() {
                let hint = if members.text.is_some() || members.turns.is_some() {
                    "; a record with \"text\" is of format single_turn, one with \"turns\" of format multi_turn"
                } else {
                    ""
                };
                reader.report_record(format!(
                    "found none of \"input_length\", \"text_input\", \"messages\"; write one{hint}"
                ));
            }
            None
        }
    }
}

/// A prompt of numbered blocks, if there are as many as its length takes.
fn blocks(
    reader: &mut Reader<'_, '_>,
    raw: &RawValue,
    input_tokens: u32,
    hash_ids: Box<[u64]>,
    block_size: u32,
) -> Option<Content<'static>> {
    if hash_ids.is_empty() {
        return Some(Content::Words { input_tokens });
    }
    let wanted = input_tokens.div_ceil(block_size) as usize;
    if hash_ids.len() != wanted {
        reader.report(
            "hash_ids",
            raw,
            format!(
                "found {} for input_length {input_tokens}; with blocks of {block_size} tokens it takes {wanted}; set the block \
                 size to that of the trace",
                counted(hash_ids.len(), "block")
            ),
        );
        return None;
    }
    Some(Content::Blocks { input_tokens, hash_ids })
}
