//! What conversations begin with, as written: `prefix_prompts`, `system_prompt` and `system_prompt_file` of a dataset.

use super::dataset::{MAX_ENTRIES, MAX_TOKENS};
use super::decode::{Field, Section};
use super::endpoint_type::EndpointType;
use super::schema::PREFIX_PROMPTS;
use super::tree::Position;

/// Beginnings that are made to a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefixPrompts {
    /// First turns begin with one of several texts.
    Pool {
        /// Texts.
        size: u32,
        /// Where their number is written.
        size_at: Position,
        /// Tokens of each.
        length: u32,
    },
    /// Messages in front of the first turn; at least one of them.
    Messages {
        /// Tokens of the system's, which all conversations have.
        shared_system_length: Option<u32>,
        /// Tokens of the user's, of which each conversation has its own.
        user_context_length: Option<u32>,
    },
}

/// What the system says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SystemPrompt {
    /// This.
    Text(String),
    /// What is in a file; a relative path starts at the current directory.
    File {
        /// The path as written.
        path: String,
        /// Where it is written.
        at: Position,
    },
}

const POOL: [&str; 2] = ["pool_size", "length"];
const SHARED: &str = "shared_system_length";
const MESSAGES: [&str; 2] = [SHARED, "user_context_length"];

/// The keys of a dataset; `endpoint` is what requests speak, if that could be read.
pub(super) fn decode(
    dataset: &Section<'_>,
    endpoint: Option<EndpointType>,
) -> (Option<PrefixPrompts>, Option<SystemPrompt>) {
    let section = dataset
        .field("prefix_prompts")
        .and_then(|field| field.section(&PREFIX_PROMPTS));
    let made = section.as_ref().and_then(|section| prefix_prompts(dataset, section));
    let system = system_prompt(dataset);
    let has = |keys: &[&'static str]| {
        let section = section.as_ref();
        section.is_some_and(|section| keys.iter().any(|key| section.field(key).is_some()))
    };
    let shared = section.as_ref().filter(|section| section.field(SHARED).is_some());
    if let Some(at) = shared.and_then(|section| section.key_at(SHARED)) {
        for key in ["system_prompt", "system_prompt_file"] {
            if dataset.field(key).is_some() {
                let place = at.told();
                dataset.report(
                    key,
                    format!("`{key}` and `prefix_prompts.{SHARED}` ({place}) both say what the system's message is; keep one"),
                );
            }
        }
    }
    if let Some(endpoint) = endpoint {
        suits(dataset, endpoint, has(&POOL), has(&MESSAGES));
    }
    (made, system)
}

/// Reports what requests of this type have no place for.
fn suits(dataset: &Section<'_>, endpoint: EndpointType, has_pool: bool, has_messages: bool) {
    let kind = endpoint.as_str();
    // Of a template it is the dataset that says whether its requests are queries.
    let ranks = endpoint.ranks() || (endpoint == EndpointType::Template && dataset.field("rankings").is_some());
    if ranks && has_pool {
        dataset.report(
            "prefix_prompts",
            format!(
                "requests to an endpoint of type {kind} are queries and passages, which have no common beginning; remove it"
            ),
        );
    }
    if endpoint.carries_history() {
        return;
    }
    let systems = ["system_prompt", "system_prompt_file"].map(|key| (key, dataset.field(key).is_some()));
    for (key, is_there) in systems.into_iter().chain([("prefix_prompts", has_messages)]) {
        if is_there {
            dataset.report(
                key,
                format!(
                    "requests to an endpoint of type {kind} have no place for messages of the system or of context; remove it, or use one of \
                     the types chat, responses, messages"
                ),
            );
        }
    }
}

/// The section says one of two things, or nothing.
fn prefix_prompts(dataset: &Section<'_>, section: &Section<'_>) -> Option<PrefixPrompts> {
    let first = |keys: [&'static str; 2]| keys.into_iter().find(|key| section.field(key).is_some());
    let number = |field: Field<'_>, max: u32| field.integer::<u32>(1, max.into());
    let length = |key| section.field(key).map(|field| number(field, MAX_TOKENS));
    match (first(POOL), first(MESSAGES)) {
        (Some(pool), Some(message)) => {
            let words = format!(
                "`{pool}` and `{message}` exclude each other: prompts begin with texts of a pool, or messages stand in front of them; keep one"
            );
            // The mistake is one of the flag, if either is a flag's.
            match [pool, message].map(|key| section.key_at(key).is_some_and(|at| at.flag().is_some())) {
                [true, _] => section.report(pool, words),
                [_, true] => section.report(message, words),
                _ => dataset.report("prefix_prompts", words),
            }
            None
        }
        (Some(_), None) => {
            let size = section.required("pool_size", "write how many texts of that length there are");
            let length = section.required("length", "write how many tokens each text of the pool has");
            let size_at = size.as_ref().map(|field| field.node.start);
            let size = size.and_then(|field| number(field, MAX_ENTRIES));
            let length = length.and_then(|field| number(field, MAX_TOKENS));
            Some(PrefixPrompts::Pool {
                size: size?,
                size_at: size_at?,
                length: length?,
            })
        }
        (None, Some(_)) => {
            // Both are read before either is given up on.
            let (system, context) = (length(SHARED), length("user_context_length"));
            Some(PrefixPrompts::Messages {
                shared_system_length: match system {
                    Some(length) => Some(length?),
                    None => None,
                },
                user_context_length: match context {
                    Some(length) => Some(length?),
                    None => None,
                },
            })
        }
        (None, None) => None,
    }
}

fn system_prompt(dataset: &Section<'_>) -> Option<SystemPrompt> {
    if dataset.exclusive("system_prompt", "system_prompt_file") {
        return None;
    }
    if let Some(field) = dataset.field("system_prompt_file") {
        return Some(SystemPrompt::File {
            path: field.non_empty_text()?.to_owned(),
            at: field.node.start,
        });
    }
    let field = dataset.field("system_prompt")?;
    // Several lines are usual here.
    let text = field.text()?;
    if text.trim().is_empty() {
        field.mistake("text that is not blank");
        return None;
    }
    Some(SystemPrompt::Text(text.to_owned()))
}
