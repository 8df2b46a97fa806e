//! What requests of the APIs beside chat completions ask for, read from their JSON bodies.
//!
//! Bodies become trees here: these requests do not come by the hundred thousand.

use serde_json::Value;

use crate::api::Api;
use crate::chat_request::{self, InferenceRequest, tokens_max};
use crate::ledger::Message;

/// Reads `body`.
///
/// # Errors
///
/// The message says what is wrong, for the error body of a 400.
pub(crate) fn parse(api: Api, body: &[u8]) -> Result<InferenceRequest, String> {
    if api == Api::Chat {
        return InferenceRequest::parse(body);
    }
    let body: Value = serde_json::from_slice(body).map_err(|error| format!("invalid request body: {error}"))?;
    let model = match (&body["model"], api) {
        (Value::String(model), _) => model.clone(),
        // The servers of these APIs have one model.
        (Value::Null, Api::TeiRankings | Api::Custom) => String::new(),
        _ => return Err("invalid request body: `model` is not a string".into()),
    };
    let said = said(api, &body).ok_or_else(|| format!("invalid request body: {}", wanted(api)))?;
    let key = match api {
        Api::Responses => "max_output_tokens",
        Api::Custom => "n",
        _ => "max_tokens",
    };
    let tokens_max = match &body[key] {
        Value::Null if api == Api::Messages => return Err("max_tokens is required".into()),
        Value::Null => None,
        number => Some(tokens_max(key, number.as_u64().unwrap_or(0))?),
    };
    let stream = body["stream"].as_bool().unwrap_or(false);
    if stream && !api.has_tokens() {
        return Err("this API does not stream".into());
    }
    Ok(InferenceRequest {
        model,
        stream,
        include_usage: match api {
            Api::Completions => body["stream_options"]["include_usage"].as_bool().unwrap_or(false),
            _ => true,
        },
        tokens_max,
        prompt_words: said.iter().map(|message| words(&message.content)).sum(),
        passages: said.len().saturating_sub(usize::from(api != Api::Embeddings)),
    })
}

/// What a request says, for the ledger.
pub(crate) fn messages(api: Api, body: &[u8]) -> Vec<Message> {
    if api == Api::Chat {
        return chat_request::messages(body);
    }
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    said(api, &body).unwrap_or_default()
}

fn words(text: &str) -> u64 {
    text.split_ascii_whitespace().count() as u64
}

fn wanted(api: Api) -> &'static str {
    match api {
        Api::Chat | Api::Messages => "`messages` is not a list of messages with the roles user and assistant",
        Api::Completions => "`prompt` is neither a string nor a list of strings",
        Api::Responses => "`input` is neither a string nor a list of messages",
        Api::Embeddings => "`input` is neither a string nor a list of strings",
        Api::CohereRankings => "`query` is not a string, or `documents` not a list of strings",
        Api::TeiRankings => "`query` is not a string, or `texts` not a list of strings",
        Api::Custom => "`p` is neither a string nor a list of strings",
        Api::NimRankings => "`query` has no `text`, or `passages` is not a list of objects with one",
    }
}

/// All texts of a request in order; `None` if one is not where it should be. Of a ranking the query comes first.
fn said(api: Api, body: &Value) -> Option<Vec<Message>> {
    let list = |value: &Value, role: &str, text: fn(&Value) -> Option<String>| -> Option<Vec<Message>> {
        let items = value.as_array().filter(|items| !items.is_empty())?;
        items.iter().map(|item| Some(message(role, text(item)?))).collect()
    };
    let string = |value: &Value| value.as_str().map(str::to_owned);
    let texts = |value: &Value| match value.as_str() {
        Some(text) => Some(vec![message("user", text.to_owned())]),
        None => list(value, "user", string),
    };
    let ranking = |query: Option<String>, passages: Option<Vec<Message>>| {
        let query = message("query", query?);
        Some(std::iter::once(query).chain(passages?).collect())
    };
    match api {
        Api::Chat => None,
        Api::Completions => texts(&body["prompt"]),
        Api::Embeddings => texts(&body["input"]),
        Api::Custom => texts(&body["p"]),
        Api::Responses => match &body["input"] {
            Value::String(text) => Some(vec![message("user", text.clone())]),
            items => with_system(&body["instructions"], conversation(items)?),
        },
        Api::Messages => {
            let messages = conversation(&body["messages"])?;
            let known = |message: &Message| matches!(message.role.as_str(), "user" | "assistant");
            messages.iter().all(known).then_some(())?;
            with_system(&body["system"], messages)
        }
        Api::CohereRankings => ranking(string(&body["query"]), list(&body["documents"], "passage", string)),
        Api::TeiRankings => ranking(string(&body["query"]), list(&body["texts"], "passage", string)),
        Api::NimRankings => {
            let text: fn(&Value) -> Option<String> = |value| value["text"].as_str().map(str::to_owned);
            ranking(text(&body["query"]), list(&body["passages"], "passage", text))
        }
    }
}

fn message(role: &str, content: String) -> Message {
    Message {
        role: role.to_owned(),
        content,
    }
}

/// Messages whose content is a string or a list of parts with text.
fn conversation(list: &Value) -> Option<Vec<Message>> {
    let items = list.as_array().filter(|items| !items.is_empty())?;
    let content = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => parts
            .iter()
            .map(|part| part["text"].as_str())
            .collect::<Option<Vec<_>>>()
            .map(|texts| texts.join(" ")),
        _ => None,
    };
    items
        .iter()
        .map(|item| Some(message(item["role"].as_str()?, content(&item["content"])?)))
        .collect()
}

fn with_system(system: &Value, messages: Vec<Message>) -> Option<Vec<Message>> {
    match system {
        Value::Null => Some(messages),
        Value::String(text) => Some(
            std::iter::once(message("system", text.clone()))
                .chain(messages)
                .collect(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(api: Api, body: &str) -> Result<(u64, Option<u32>, bool), String> {
        parse(api, body.as_bytes()).map(|request| (request.prompt_words, request.tokens_max, request.include_usage))
    }

    #[test]
    fn each_api_has_its_words_where_it_keeps_them() {
        for (api, body, words) in [
            (Api::Completions, r#"{"model":"m","prompt":"a b","max_tokens":3}"#, 2),
            (
                Api::Completions,
                r#"{"model":"m","prompt":["a b","c"],"max_tokens":3}"#,
                3,
            ),
            (
                Api::Responses,
                r#"{"model":"m","input":[{"role":"user","content":"a b","type":"message"}],"instructions":"c"}"#,
                3,
            ),
            (
                Api::Responses,
                r#"{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]}]}"#,
                2,
            ),
            (
                Api::Messages,
                r#"{"model":"m","max_tokens":3,"system":"c","messages":[{"role":"user","content":"a b"}]}"#,
                3,
            ),
            (Api::Embeddings, r#"{"model":"m","input":["a b","c"]}"#, 3),
            (Api::Custom, r#"{"p":"a b","n":3}"#, 2),
            (Api::Custom, r#"{"p":["a b","c"]}"#, 3),
            (
                Api::CohereRankings,
                r#"{"model":"m","query":"a b","documents":["c","d"]}"#,
                4,
            ),
            (Api::TeiRankings, r#"{"query":"a b","texts":["c","d"]}"#, 4),
            (
                Api::NimRankings,
                r#"{"model":"m","query":{"text":"a b"},"passages":[{"text":"c"}]}"#,
                3,
            ),
        ] {
            assert_eq!(read(api, body).map(|read| read.0), Ok(words), "{body}");
        }
    }

    #[test]
    fn bodies_that_are_none_of_the_api_are_refused_with_the_reason() {
        for (api, body, part) in [
            (Api::Completions, "[]", "`model`"),
            (Api::Completions, r#"{"model":"m","prompt":7}"#, "`prompt`"),
            (
                Api::Completions,
                r#"{"model":"m","prompt":"a","max_tokens":0}"#,
                "from 1 to",
            ),
            (Api::Responses, r#"{"model":"m","input":[{"role":"user"}]}"#, "`input`"),
            (
                Api::Messages,
                r#"{"model":"m","messages":[{"role":"user","content":"a"}]}"#,
                "max_tokens is required",
            ),
            (
                Api::Messages,
                r#"{"model":"m","max_tokens":1,"messages":[{"role":"system","content":"a"}]}"#,
                "roles",
            ),
            (Api::Embeddings, r#"{"model":"m","input":[]}"#, "`input`"),
            (Api::Custom, r#"{"prompt":"a"}"#, "`p`"),
            (
                Api::Embeddings,
                r#"{"model":"m","input":["a"],"stream":true}"#,
                "does not stream",
            ),
            (
                Api::CohereRankings,
                r#"{"model":"m","query":"a","documents":[]}"#,
                "`documents`",
            ),
            (Api::CohereRankings, r#"{"query":"a","documents":["b"]}"#, "`model`"),
            (
                Api::NimRankings,
                r#"{"model":"m","query":"a","passages":[{"text":"b"}]}"#,
                "`query`",
            ),
        ] {
            let message = read(api, body).expect_err(body);
            assert!(message.contains(part), "{message}");
        }
    }
}
