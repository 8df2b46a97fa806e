//! Failures of a scope, grouped by what a person would call the same error.

use std::collections::HashMap;

use crate::id::CoreId;
use crate::record::{ErrorDetail, FailureClass, Outcome, RequestRecord};

/// One distinct failure and how often it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorCount {
    /// HTTP status, 499 for cancellations; `None` where the failure has no number.
    pub code: Option<u16>,
    /// The `type` of artifacts.
    pub type_name: String,
    /// Its text.
    pub message: String,
    /// Requests that ended with it.
    pub count: u64,
}

impl ErrorCount {
    fn is_same(&self, other: &Self) -> bool {
        (self.code, &self.type_name, &self.message) == (other.code, &other.type_name, &other.message)
    }

    /// A group without requests for a record's failure. A journal cut short may have lost the text; the outcome still names it.
    pub(crate) fn of_record(record: &RequestRecord, errors: &[ErrorDetail]) -> Self {
        match errors.get(record.error as usize) {
            Some(detail) => Self {
                code: detail.code,
                type_name: detail.type_name.clone(),
                message: detail.message.clone(),
                count: 0,
            },
            None => Self {
                code: None,
                type_name: match record.outcome {
                    Outcome::Cancelled => FailureClass::Cancelled.type_name(),
                    Outcome::Truncated => FailureClass::Truncated.type_name(),
                    Outcome::Success | Outcome::Error => "UnknownError",
                }
                .to_owned(),
                message: "(the text of this failure was lost)".to_owned(),
                count: 0,
            },
        }
    }
}

/// What servers say, in lower case, of a request that is longer than the model can take: OpenAI and what follows it, vLLM, SGLang, TensorRT-LLM,
/// llama.cpp, TGI. None of it is said of anything else.
const OVERFLOW: [&str; 9] = [
    "context length",
    "context_length",
    "context size",
    "context_size",
    "context window",
    "maximum model length",
    "max_model_len",
    "max_seq_len",
    "`max_new_tokens` must be <=",
];

/// Requests among these failures that were too long for the model, by the words of the server.
pub(super) fn context_overflows(errors: &[ErrorCount]) -> u64 {
    let is_overflow = |error: &&ErrorCount| {
        let message = error.message.to_lowercase();
        OVERFLOW.iter().any(|words| message.contains(words))
    };
    errors.iter().filter(is_overflow).map(|error| error.count).sum()
}

/// Failures of one phase.
#[derive(Debug, Default)]
pub(super) struct ErrorGroups {
    groups: Vec<ErrorCount>,
    /// Group of each entry of each core's table, so that a storm of errors does not compare texts.
    known: HashMap<(CoreId, u32), usize>,
}

impl ErrorGroups {
    /// Failures that have been counted already.
    pub(super) fn of_counts(groups: Vec<ErrorCount>) -> Self {
        Self {
            groups,
            known: HashMap::new(),
        }
    }

    /// A group by its number.
    pub(super) fn group(&self, number: usize) -> &ErrorCount {
        &self.groups[number]
    }

    /// Counts the failure of one record; the number of its group.
    pub(super) fn add(&mut self, record: &RequestRecord, errors: &[ErrorDetail]) -> usize {
        let groups = &mut self.groups;
        let group = *self.known.entry((record.core, record.error)).or_insert_with(|| {
            let fresh = ErrorCount::of_record(record, errors);
            groups
                .iter()
                .position(|group| group.is_same(&fresh))
                .unwrap_or_else(|| {
                    groups.push(fresh);
                    groups.len() - 1
                })
        });
        groups[group].count += 1;
        group
    }

    /// The failures of several phases: the most frequent first, equals by their text.
    pub(super) fn merged<'a>(phases: impl Iterator<Item = &'a Self>) -> Vec<ErrorCount> {
        let mut merged: HashMap<(Option<u16>, &str, &str), u64> = HashMap::new();
        for group in phases.flat_map(|phase| &phase.groups) {
            *merged
                .entry((group.code, &group.type_name, &group.message))
                .or_default() += group.count;
        }
        let mut counts: Vec<ErrorCount> = merged
            .into_iter()
            .map(|((code, type_name, message), count)| ErrorCount {
                code,
                type_name: type_name.to_owned(),
                message: message.to_owned(),
                count,
            })
            .collect();
        counts.sort_by(|a, b| {
            let text = |e: &ErrorCount| (e.type_name.clone(), e.message.clone(), e.code);
            b.count.cmp(&a.count).then_with(|| text(a).cmp(&text(b)))
        });
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflows_are_known_by_the_words_of_the_servers() {
        let errors = |messages: &[&str]| -> Vec<ErrorCount> {
            let one = |message: &&str| ErrorCount {
                code: Some(400),
                type_name: "Bad Request".to_owned(),
                message: (*message).to_owned(),
                count: 2,
            };
            messages.iter().map(one).collect()
        };
        let overflows = errors(&[
            r#"{"error":{"message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"}}"#,
            r#"{"error":{"code":"context_length_exceeded"}}"#,
            "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
            "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
            "the request exceeds the available context size, try increasing it",
            "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
        ]);
        assert_eq!(context_overflows(&overflows), 12);
        let others = errors(&[
            "busy",
            "model not found",
            "max_tokens must be at least 1",
            "queue is full",
        ]);
        assert_eq!(context_overflows(&others), 0);
    }
}
