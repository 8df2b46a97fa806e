//! `inputs.json`: the request bodies of the dataset, by conversation.

use std::io::{self, Write};

use serde_json::Value;

use crate::plan::{RequestImages, Secrets};

/// Writes one entry at a time, so that a large dataset is never in memory twice. Bodies are parsed on the way: what is not JSON would
/// spoil the whole file.
///
/// A later turn is shown with its own message: what goes before it are the answers of its session, which nobody knows before the load.
pub(super) fn write(requests: &RequestImages, secrets: &Secrets, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(br#"{"data": ["#)?;
    for conversation in 0..requests.conversations.count() {
        let separator = if conversation == 0 { "" } else { ", " };
        write!(out, r#"{separator}{{"session_id": "#)?;
        serde_json::to_writer(&mut *out, requests.conversations.id(conversation))?;
        out.write_all(br#", "payloads": ["#)?;
        for (turn, image) in requests.conversations.images(conversation).enumerate() {
            let body: Value = serde_json::from_slice(requests.entries[image as usize].body()).map_err(|error| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("the body of dataset entry {conversation}, turn {turn} is not JSON: {error}"),
                )
            })?;
            let body = secrets.redact_body(body);
            out.write_all(if turn == 0 { b"" } else { b", " })?;
            serde_json::to_writer(&mut *out, &body)?;
        }
        out.write_all(b"]}")?;
    }
    out.write_all(b"]}")
}

#[cfg(test)]
mod tests {
    use super::*;
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
}
