//! `inputs.json`: the request bodies of the dataset, by conversation.

use std::io::{self, Write};

use serde_json::Value;

use crate::plan::RequestImage;

/// Writes one entry at a time, so that a large dataset is never in memory twice. Bodies are parsed on the way: what is not JSON would
/// spoil the whole file.
pub(super) fn write(entries: &[RequestImage], out: &mut dyn Write) -> io::Result<()> {
    out.write_all(br#"{"data": ["#)?;
    for (at, entry) in entries.iter().enumerate() {
        let body: Value = serde_json::from_slice(entry.body()).map_err(|error| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the body of dataset entry {at} is not JSON: {error}"),
            )
        })?;
        let separator = if at == 0 { "" } else { ", " };
        write!(out, r#"{separator}{{"session_id": "#)?;
        serde_json::to_writer(&mut *out, &entry.conversation_id)?;
        out.write_all(br#", "payloads": ["#)?;
        serde_json::to_writer(&mut *out, &body)?;
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
        let mut entries = fixture::plan().requests.entries.to_vec();
        entries[1].tail = b"{oops"[..].into();
        entries[1].body_len = 5;
        let text = write(&entries, &mut io::sink()).unwrap_err().to_string();
        assert!(text.starts_with("the body of dataset entry 1 is not JSON: "), "{text}");
    }
}
