//! What a chat completion request asks for, read from its JSON body.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

use crate::ledger;

/// Most tokens that one request may ask for.
const TOKENS_MAX: u64 = 1_000_000;

/// The parts of a request that shape its answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InferenceRequest {
    pub(crate) model: String,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    /// `max_completion_tokens`, else `max_tokens`.
    pub(crate) tokens_max: Option<u32>,
    /// Words in all text of all messages, as this server counts prompt tokens.
    pub(crate) prompt_words: u64,
    /// Texts that each get an answer of their own: inputs of an embedding, passages of a ranking.
    pub(crate) passages: usize,
}

/// A limit of tokens that a request may have.
pub(crate) fn tokens_max(key: &str, tokens: u64) -> Result<u32, String> {
    match tokens {
        1..=TOKENS_MAX => Ok(tokens as u32),
        _ => Err(format!("{key} is {tokens}; it must be from 1 to {TOKENS_MAX}")),
    }
}

impl InferenceRequest {
    /// Reads `body`.
    ///
    /// # Errors
    ///
    /// The message says what is wrong, for the error body of a 400.
    pub(crate) fn parse(body: &[u8]) -> Result<InferenceRequest, String> {
        let body: Body = serde_json::from_slice(body).map_err(|error| format!("invalid request body: {error}"))?;
        let tokens_max = body.max_completion_tokens.or(body.max_tokens);
        let tokens_max = tokens_max
            .map(|tokens| self::tokens_max("max_completion_tokens", tokens))
            .transpose()?;
        Ok(InferenceRequest {
            model: body.model,
            stream: body.stream.unwrap_or(false),
            include_usage: body
                .stream_options
                .and_then(|options| options.include_usage)
                .unwrap_or(false),
            tokens_max,
            prompt_words: body.messages.0,
            passages: 0,
        })
    }
}

/// The messages of a body that [`InferenceRequest::parse`] accepts.
pub(crate) fn messages(body: &[u8]) -> Vec<ledger::Message> {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    messages
        .iter()
        .map(|message| ledger::Message {
            role: text(&message["role"]),
            content: text(&message["content"]),
        })
        .collect()
}

#[derive(Deserialize)]
#[serde(expecting = "a chat completion request")]
struct Body {
    model: String,
    messages: Words,
    stream: Option<bool>,
    max_completion_tokens: Option<u64>,
    max_tokens: Option<u64>,
    stream_options: Option<StreamOptions>,
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

/// Words counted while a list of messages is read, so that no text is ever copied.
struct Words(u64);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Words, D::Error> {
        struct Messages;
        impl<'de> Visitor<'de> for Messages {
            type Value = Words;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of messages")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut messages: A) -> Result<Words, A::Error> {
                let mut words = 0;
                while let Some(Message { content }) = messages.next_element()? {
                    words += content.map_or(0, |content| content.0);
                }
                Ok(Words(words))
            }
        }
        deserializer.deserialize_seq(Messages)
    }
}

#[derive(Deserialize)]
struct Message {
    content: Option<Content>,
}

/// Words of one message's content: a string, or parts of which those with a `text` count.
struct Content(u64);

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Content, D::Error> {
        deserializer.deserialize_any(TextOrParts)
    }
}

struct TextOrParts;

impl<'de> Visitor<'de> for TextOrParts {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of parts")
    }

    fn visit_str<E>(self, text: &str) -> Result<Content, E> {
        Ok(Content(text.split_ascii_whitespace().count() as u64))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Content, A::Error> {
        let mut words = 0;
        while let Some(Part { text }) = parts.next_element()? {
            words += text.map_or(0, |text| text.0);
        }
        Ok(Content(words))
    }
}

#[derive(Deserialize)]
struct Part {
    text: Option<Content>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_every_message_count_in_strings_and_in_parts() {
        let body = br#"{"model":"m","messages":[{"role":"system","content":"one two"},{"role":"user","content":
            [{"type":"text","text":" three\nfour "},{"type":"image_url","image_url":{"url":"data: not counted"}}]},
            {"role":"assistant","content":null,"tool_calls":[]},{"role":"user","content":"f\u00fcnf \"six\""}],
            "temperature":0.5}"#;
        let request = InferenceRequest::parse(body).expect("valid");
        assert_eq!(
            request,
            InferenceRequest {
                model: "m".into(),
                stream: false,
                include_usage: false,
                tokens_max: None,
                prompt_words: 6,
                passages: 0,
            }
        );
    }

    #[test]
    fn messages_are_read_in_order() {
        let body =
            br#"{"model":"m","messages":[{"role":"user","content":"a \"b\""},{"role":"assistant","content":null}]}"#;
        let of = |role: &str, content: &str| ledger::Message {
            role: role.into(),
            content: content.into(),
        };
        assert_eq!(messages(body), [of("user", "a \"b\""), of("assistant", "")]);
    }

    #[test]
    fn max_completion_tokens_goes_before_max_tokens() {
        let parse =
            |fields: &str| InferenceRequest::parse(format!(r#"{{"model":"m","messages":[],{fields}}}"#).as_bytes());
        let request =
            parse(r#""max_tokens":5,"max_completion_tokens":7,"stream":true,"stream_options":{"include_usage":true}"#);
        let request = request.expect("valid");
        assert_eq!(
            (request.tokens_max, request.stream, request.include_usage),
            (Some(7), true, true)
        );
        assert_eq!(parse(r#""max_tokens":5"#).expect("valid").tokens_max, Some(5));
        assert!(parse(r#""max_tokens":0"#).expect_err("refused").contains("from 1 to"));
        assert!(
            parse(r#""max_tokens":1000001"#)
                .expect_err("refused")
                .contains("1000001")
        );
    }

    #[test]
    fn bodies_that_are_not_a_chat_request_are_refused_with_the_reason() {
        for (body, part) in [
            ("", "EOF"),
            ("[]", "a chat completion request"),
            (r#"{"model":"m"}"#, "missing field `messages`"),
            (r#"{"messages":[]}"#, "missing field `model`"),
            (r#"{"model":"m","messages":"hello"}"#, "a list of messages"),
            (
                r#"{"model":"m","messages":[{"content":7}]}"#,
                "a string or a list of parts",
            ),
        ] {
            let message = InferenceRequest::parse(body.as_bytes()).expect_err(body);
            assert!(
                message.starts_with("invalid request body: ") && message.contains(part),
                "{message}"
            );
        }
    }
}
