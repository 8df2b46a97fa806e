//! Texts of failures, stored once per distinct text.
//!
//! A storm of equal errors costs one entry. The table is bounded: past [`ErrorTable::CAPACITY`] distinct texts of a core, further ones
//! share one entry per class that says so. Failures are off the hot path, so this may allocate.

use std::collections::HashMap;

use super::outcome::FailureClass;

/// One distinct failure: what artifacts show as an error object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ErrorDetail {
    /// Class of the failure.
    pub class: FailureClass,
    /// HTTP status, 499 for cancellations, the code of an error inside a stream; `None` where the failure has no number.
    pub code: Option<u16>,
    /// The `type` shown in artifacts.
    pub type_name: String,
    /// Message, at most [`ErrorTable::MESSAGE_BYTES`] bytes.
    pub message: String,
}

/// Interned failures; an index is stable for the life of the table.
#[derive(Debug, Default)]
pub struct ErrorTable {
    details: Vec<ErrorDetail>,
    index: HashMap<ErrorDetail, u32>,
}

impl ErrorTable {
    /// Most distinct texts.
    pub const CAPACITY: usize = 4096;
    /// Longest message kept.
    pub const MESSAGE_BYTES: usize = 4096;

    /// The index of a failure, entering it if it is new. Indices are given in order from 0.
    pub fn intern(&mut self, mut detail: ErrorDetail) -> u32 {
        if detail.message.len() > Self::MESSAGE_BYTES {
            let cut = (0..=Self::MESSAGE_BYTES)
                .rev()
                .find(|&at| detail.message.is_char_boundary(at))
                .unwrap_or(0);
            detail.message.truncate(cut);
        }
        if let Some(&known) = self.index.get(&detail) {
            return known;
        }
        if self.details.len() >= Self::CAPACITY {
            let message = format!(
                "(text dropped: more than {} distinct error texts in this run)",
                Self::CAPACITY
            );
            detail = ErrorDetail {
                message,
                code: None,
                type_name: detail.class.type_name().to_owned(),
                ..detail
            };
            if let Some(&known) = self.index.get(&detail) {
                return known;
            }
        }
        let fresh = self.details.len() as u32;
        self.index.insert(detail.clone(), fresh);
        self.details.push(detail);
        fresh
    }

    /// All failures, by index.
    pub fn details(&self) -> &[ErrorDetail] {
        &self.details
    }

    /// Gives the failures away, by index.
    pub fn into_details(self) -> Vec<ErrorDetail> {
        self.details
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail(message: String) -> ErrorDetail {
        ErrorDetail {
            class: FailureClass::HttpStatus,
            code: Some(500),
            type_name: "Internal Server Error".into(),
            message,
        }
    }

    #[test]
    fn equal_failures_share_an_entry() {
        let mut table = ErrorTable::default();
        let first = table.intern(detail("a".into()));
        assert_eq!(table.intern(detail("a".into())), first);
        assert_ne!(table.intern(detail("b".into())), first);
        assert_eq!(table.details().len(), 2);
    }

    #[test]
    fn the_table_is_bounded_and_says_so() {
        let mut table = ErrorTable::default();
        for i in 0..ErrorTable::CAPACITY + 500 {
            table.intern(detail(format!("{i}")));
        }
        assert_eq!(table.details().len(), ErrorTable::CAPACITY + 1);
        assert!(table.details()[ErrorTable::CAPACITY].message.contains("text dropped"));
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let mut table = ErrorTable::default();
        table.intern(detail("é".repeat(3000)));
        assert_eq!(table.details()[0].message.len(), ErrorTable::MESSAGE_BYTES);
    }
}
