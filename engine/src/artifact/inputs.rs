//! `inputs.json`: the request bodies of the dataset, by conversation.
//!
//! It is written before the load, and of a large dataset it is hundreds of megabytes: conversations are taken in blocks, whose text several threads
//! make and one writes in the order of the dataset.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::plan::{RequestImage, RequestImages, Secrets};

/// Conversations of one block: a hundred kilobytes for short prompts.
const BLOCK: u32 = 512;
/// Blocks of a maker that may wait for the writer.
const WAITING: usize = 4;
/// More makers are faster than the one that writes.
const MAKERS_MAX: usize = 4;

/// Writes block by block, so that a large dataset is never in memory twice. Bodies are parsed on the way: what is not JSON would spoil the whole
/// file.
///
/// A later turn is shown with its own message: what goes before it are the answers of its session, which nobody knows before the load.
pub(super) fn write(requests: &RequestImages, secrets: &Secrets, out: &mut dyn Write) -> io::Result<()> {
    let count = requests.conversations.count();
    let blocks: Vec<Range<u32>> = (0..count)
        .step_by(BLOCK as usize)
        .map(|first| first..count.min(first.saturating_add(BLOCK)))
        .collect();
    let make = |shown: &mut Shown<'_>, block: &Range<u32>| text(requests, shown, block.clone());
    out.write_all(br#"{"data": ["#)?;
    let processors = thread::available_parallelism().map_or(1, usize::from);
    match processors.min(blocks.len()).min(MAKERS_MAX) {
        0 | 1 => {
            let mut shown = Shown::new(secrets);
            blocks
                .iter()
                .try_for_each(|block| out.write_all(&make(&mut shown, block)?))?;
        }
        makers => thread::scope(|scope| {
            let texts: Vec<Receiver<io::Result<Vec<u8>>>> = (0..makers)
                .map(|maker| {
                    let (made, texts) = sync_channel(WAITING);
                    let own = blocks.iter().skip(maker).step_by(makers);
                    scope.spawn(move || {
                        let mut shown = Shown::new(secrets);
                        deliver(own.map(|block| make(&mut shown, block)), &made);
                    });
                    texts
                })
                .collect();
            (0..blocks.len()).try_for_each(|block| {
                let text = texts[block % makers].recv();
                out.write_all(&text.expect("a maker ends with its last block or when nobody receives it")?)
            })
        })?,
    }
    out.write_all(b"]}")
}

/// Sends texts until nobody wants them any more.
fn deliver(texts: impl Iterator<Item = io::Result<Vec<u8>>>, to: &SyncSender<io::Result<Vec<u8>>>) {
    for text in texts {
        if to.send(text).is_err() {
            break;
        }
    }
}

/// Most ends of bodies that are remembered.
const ENDS_MAX: usize = 4096;

/// What stands behind the messages of a body, and how that is shown.
type End = (Rc<[u8]>, Rc<[u8]>);

/// Bodies as they may be shown. What stands around the messages is the same in most of them, so it is looked through once.
struct Shown<'a> {
    secrets: &'a Secrets,
    /// What stood in front of the messages of the latest body, shown as it is.
    start: Vec<u8>,
    /// What stood behind them in earlier ones, and how that is shown.
    ends: HashMap<Rc<[u8]>, Rc<[u8]>>,
    /// That of the latest body, which mostly is that of the next one too.
    last: Option<End>,
}

impl<'a> Shown<'a> {
    fn new(secrets: &'a Secrets) -> Self {
        Self {
            secrets,
            start: Vec::new(),
            ends: HashMap::new(),
            last: None,
        }
    }

    fn push(&mut self, image: &RequestImage, out: &mut Vec<u8>) -> serde_json::Result<()> {
        let (body, from) = (image.body(), out.len());
        if image.message.is_empty() {
            return self.secrets.push_body(body, out);
        }
        let (start, rest) = body.split_at(image.message.start as usize);
        let (message, end) = rest.split_at(image.message.len());
        if start != self.start {
            self.ends.clear();
            self.last = None;
            start.clone_into(&mut self.start);
        }
        if self.last.as_ref().is_none_or(|(last, _)| **last != *end) {
            self.last = self
                .ends
                .get_key_value(end)
                .map(|(end, shown)| (end.clone(), shown.clone()));
        }
        if let Some((_, end)) = &self.last {
            out.extend_from_slice(start);
            // Several messages are not one value.
            if self.secrets.push_body(message, out).is_ok() {
                out.extend_from_slice(end);
                return Ok(());
            }
            out.truncate(from);
        } else if self.ends.len() < ENDS_MAX {
            self.remember(start, end);
        }
        self.secrets.push_body(body, out)
    }

    /// Looks through what stands around messages. It is not remembered if the start is not shown as it is.
    fn remember(&mut self, start: &[u8], end: &[u8]) {
        let mut shown = Vec::new();
        let around = [start, end].concat();
        if self.secrets.push_body(&around, &mut shown).is_ok() && shown.starts_with(start) {
            self.ends.insert(end.into(), shown[start.len()..].into());
        }
    }
}

/// The text of some conversations.
fn text(requests: &RequestImages, shown: &mut Shown<'_>, block: Range<u32>) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    for conversation in block {
        let separator: &[u8] = if conversation == 0 { b"" } else { b", " };
        out.extend_from_slice(separator);
        out.extend_from_slice(br#"{"session_id": "#);
        serde_json::to_writer(&mut out, &*requests.conversations.id(conversation))?;
        out.extend_from_slice(br#", "payloads": ["#);
        for (turn, image) in requests.conversations.images(conversation).enumerate() {
            out.extend_from_slice(if turn == 0 { b"" } else { b", " });
            shown
                .push(&requests.entries[image as usize], &mut out)
                .map_err(|error| {
                    io::Error::new(
                        io::ErrorKind::InvalidData,
                        format!("the body of dataset entry {conversation}, turn {turn} is not JSON: {error}"),
                    )
                })?;
        }
        out.extend_from_slice(b"]}");
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Conversations;
    use crate::report::fixture;

    #[test]
    fn a_body_that_is_not_json_is_named() {
        let mut requests = fixture::plan().requests;
        let mut entries = requests.entries.to_vec();
        entries[1].tail = b"{oops"[..].into();
        entries[1].body_len = 5;
        requests.entries = entries.into();
        let text = write(&requests, &Secrets::default(), &mut io::sink())
            .unwrap_err()
            .to_string();
        assert!(
            text.starts_with("the body of dataset entry 1, turn 0 is not JSON: "),
            "{text}"
        );
    }

    /// So many conversations of one turn, each with its number in its body.
    fn numbered(count: u32) -> RequestImages {
        let mut requests = fixture::plan().requests;
        let entries = (0..count).map(|number| {
            let mut image = requests.entries[0].clone();
            let body = format!("{{\"n\":{number}}}");
            image.body_len = body.len() as u32;
            image.tail = body.into_bytes().into();
            image
        });
        requests.entries = entries.collect();
        requests.conversations = Conversations::of_single_turns((0..count).map(|number| format!("c{number}"))).into();
        requests
    }

    #[test]
    fn blocks_that_several_threads_make_stand_in_the_order_of_the_dataset() {
        for count in [1, BLOCK, BLOCK + 1, 9 * BLOCK + 3] {
            let mut file = Vec::new();
            write(&numbered(count), &Secrets::default(), &mut file).unwrap();
            let expected: Vec<String> = (0..count)
                .map(|number| format!("{{\"session_id\": \"c{number}\", \"payloads\": [{{\"n\":{number}}}]}}"))
                .collect();
            let expected = format!("{{\"data\": [{}]}}", expected.join(", "));
            assert_eq!(String::from_utf8(file).unwrap(), expected);
        }
    }

    #[test]
    fn bodies_are_shown_alike_whether_what_is_around_their_messages_was_seen_or_not() {
        let secrets = Secrets::default();
        let mut shown = Shown::new(&secrets);
        let user = r#"{"role":"user","content":"a\u00e9"}"#;
        let two = format!(r#"{{"role":"system","content":"b"}},{user}"#);
        let mut image = fixture::plan().requests.entries[0].clone();
        for (start, message, end) in [
            (r#"{"messages":["#, user, r#"],"max_tokens":1,"api_key":"k"}"#),
            (r#"{"messages":["#, user, r#"],"max_tokens":2,"api_key":"k"}"#),
            (r#"{"messages":["#, &two, r#"],"max_tokens":2,"api_key":"k"}"#),
            (r#"{"messages":["#, user, r#"],"max_tokens":2,"api_key":"k"}"#),
            (r#"{"model":"m","token":["#, user, r#"],"n":2}"#),
            (r#"{"model":"m","token":["#, user, r#"],"n":2}"#),
            (r#"{"x":"\u0041","input":["#, user, r#"]}"#),
            (r#"{"x":"\u0041","input":["#, user, r#"]}"#),
        ] {
            let body = [start, message, end].concat();
            image.body_len = body.len() as u32;
            image.message = start.len() as u32..(start.len() + message.len()) as u32;
            image.tail = body.clone().into_bytes().into();
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            shown.push(&image, &mut found).unwrap();
            secrets.push_body(body.as_bytes(), &mut expected).unwrap();
            assert_eq!(String::from_utf8(found), String::from_utf8(expected));
        }
        assert_eq!(shown.ends.len(), 0, "a start that is shown otherwise is not remembered");
    }

    #[test]
    fn a_file_that_takes_no_more_ends_the_makers() {
        let mut full = &mut [0; 100_000][..];
        let error = write(&numbered(20 * BLOCK), &Secrets::default(), &mut full).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    }
}
