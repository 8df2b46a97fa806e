//! The heads of requests, which raw records and traces show.

use serde::{Deserialize, Serialize};

use crate::plan::{IdBlock, RequestImages, is_credential_header};

/// What stands in front of every body.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct SavedHeads {
    /// By server.
    pub(super) heads: Vec<String>,
    pub(super) ids: SavedIds,
}

/// The headers that carry ids.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct SavedIds {
    template: String,
    request_id_at: usize,
}

impl SavedHeads {
    pub(super) fn of(requests: &RequestImages) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            heads: requests.heads.iter().map(|head| masked(&text(head))).collect(),
            ids: SavedIds {
                template: text(&requests.ids.template),
                request_id_at: requests.ids.request_id_at,
            },
        }
    }
}

/// A head in which each byte of a value that may be a credential is a star: traces say how many bytes of a request were sent, so its length stays.
/// These values are too short to be searched for, see [`Secrets`](crate::plan::Secrets); longer ones keep the head out of the journal.
fn masked(head: &str) -> String {
    let line = |line: &str| match line.split_once(": ") {
        Some((name, value)) if is_credential_header(name) => {
            let value = value.trim_end_matches(['\r', '\n']);
            let end = &line[name.len() + 2 + value.len()..];
            format!("{name}: {}{end}", "*".repeat(value.len()))
        }
        _ => line.to_owned(),
    };
    head.split_inclusive("\r\n").map(line).collect()
}

impl From<SavedIds> for IdBlock {
    fn from(saved: SavedIds) -> Self {
        Self {
            template: saved.template.into_bytes().into(),
            request_id_at: saved.request_id_at,
            correlation_id_at: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_as_long_as_what_they_hide() {
        let head = "POST /v1 HTTP/1.1\r\nHost: h\r\nX-Key: aé\r\nX-Other: cd\r\nX-Token: \r\n";
        let shown = masked(head);
        assert_eq!(
            shown,
            "POST /v1 HTTP/1.1\r\nHost: h\r\nX-Key: ***\r\nX-Other: cd\r\nX-Token: \r\n"
        );
        assert_eq!(shown.len(), head.len());
    }
}
