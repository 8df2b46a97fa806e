//! Writes event streams: chunk framing around events, and the events of a chat completion.

use std::collections::HashMap;
use std::io::Write as _;

use serde_json::json;

/// Words that are one token each, with their leading space, in the vocabularies in common use.
const WORDS: [&str; 16] = [
    "the", "of", "and", "to", "in", "is", "that", "for", "it", "as", "was", "with", "on", "by", "at", "from",
];
/// Bytes of rendered streams that one model's cache may hold before it starts afresh.
const CACHE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Models that are cached before the cache starts afresh.
const MODELS_MAX: usize = 64;
/// The answers' fixed parts: ids and times may be constant in a mock.
const ID_AND_TIME: &str = r#""id":"chatcmpl-mock","created":1700000000"#;

/// The word of token `index`.
fn word(index: u32) -> &'static str {
    WORDS[index as usize % WORDS.len()]
}

/// How the bytes of a body are framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Chunked transfer coding, one chunk per event.
    Chunked,
    /// As they are, behind a content length.
    Plain,
}

/// The text of an answer of `tokens` tokens.
pub fn answer_text(tokens: u32) -> String {
    (0..tokens).map(word).collect::<Vec<_>>().join(" ")
}

/// The text of token `index` of an answer.
pub(crate) fn token_text(index: u32) -> String {
    let space = if index == 0 { "" } else { " " };
    format!("{space}{}", word(index))
}

/// Appends one event to `out`: the lines of `event`, which end with an empty one.
pub(crate) fn frame(out: &mut Vec<u8>, framing: Framing, event: &[u8]) {
    match framing {
        Framing::Plain => out.extend_from_slice(event),
        Framing::Chunked => {
            write_to(out, format_args!("{:x}\r\n", event.len()));
            out.extend_from_slice(event);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Appends formatted text.
pub(crate) fn write_to(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a vector takes all that is written");
}

/// Token counts for the usage object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) prompt_tokens: u64,
    pub(crate) completion_tokens: u32,
}

impl Usage {
    /// In the words of OpenAI's completions.
    pub(crate) fn openai(self) -> serde_json::Value {
        let total = self.prompt_tokens + u64::from(self.completion_tokens);
        json!({"prompt_tokens": self.prompt_tokens, "completion_tokens": self.completion_tokens, "total_tokens": total})
    }

    /// In the words of Anthropic's API, which has no total.
    pub(crate) fn anthropic(self) -> serde_json::Value {
        json!({"input_tokens": self.prompt_tokens, "output_tokens": self.completion_tokens})
    }

    fn write(self, out: &mut Vec<u8>) {
        let Usage {
            prompt_tokens,
            completion_tokens,
        } = self;
        let total = prompt_tokens + u64::from(completion_tokens);
        write_to(
            out,
            format_args!(
                r#"{{"prompt_tokens":{prompt_tokens},"completion_tokens":{completion_tokens},"total_tokens":{total}}}"#
            ),
        );
    }
}

/// Why an answer ended, in the protocol's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FinishReason {
    /// The model was done.
    Stop,
    /// The request's limit of tokens was reached.
    Length,
}

impl FinishReason {
    pub(crate) fn word(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
        }
    }
}

/// The rendered pieces of one model's answers.
#[derive(Debug)]
pub(crate) struct Voice {
    /// The model's name as a JSON string.
    model: String,
    role: Vec<u8>,
    first_token: Vec<u8>,
    tokens: Vec<Vec<u8>>,
    stop: Vec<u8>,
    length: Vec<u8>,
    /// Role and tokens of whole streams in chunk framing.
    streams: Cache,
    /// Answers sent whole, up to the end of their content.
    wholes: Cache,
}

/// Bytes rendered once for each number of tokens.
#[derive(Debug, Default)]
struct Cache {
    rendered: HashMap<u32, Vec<u8>>,
    bytes: usize,
}

impl Cache {
    /// Appends what `render` writes for `tokens`.
    fn append(&mut self, out: &mut Vec<u8>, tokens: u32, render: impl FnOnce(&mut Vec<u8>)) {
        if let Some(rendered) = self.rendered.get(&tokens) {
            return out.extend_from_slice(rendered);
        }
        let start = out.len();
        render(out);
        let rendered = &out[start..];
        if self.bytes + rendered.len() > CACHE_BYTES_MAX {
            *self = Cache::default();
        }
        if rendered.len() <= CACHE_BYTES_MAX {
            self.bytes += rendered.len();
            self.rendered.insert(tokens, rendered.to_vec());
        }
    }
}

impl Voice {
    fn new(model: &str) -> Voice {
        let model = serde_json::to_string(model).expect("a string is always JSON");
        let delta = |delta: &str| {
            event(
                &model,
                &format!(r#"[{{"index":0,"delta":{delta},"finish_reason":null}}]"#),
                "",
            )
        };
        let token = |text: String| delta(&format!(r#"{{"content":"{text}"}}"#));
        let finish = |reason: FinishReason| {
            event(
                &model,
                &format!(r#"[{{"index":0,"delta":{{}},"finish_reason":"{}"}}]"#, reason.word()),
                "",
            )
        };
        Voice {
            role: delta(r#"{"role":"assistant","content":""}"#),
            first_token: token(word(0).to_owned()),
            tokens: WORDS.iter().map(|word| token(format!(" {word}"))).collect(),
            stop: finish(FinishReason::Stop),
            length: finish(FinishReason::Length),
            streams: Cache::default(),
            wholes: Cache::default(),
            model,
        }
    }

    /// Appends the chunk with the role and no content.
    pub(crate) fn role(&self, out: &mut Vec<u8>, framing: Framing) {
        frame(out, framing, &self.role);
    }

    /// Appends the chunk of token `index`.
    pub(crate) fn token(&self, out: &mut Vec<u8>, framing: Framing, index: u32) {
        let event = if index == 0 {
            &self.first_token
        } else {
            &self.tokens[index as usize % WORDS.len()]
        };
        frame(out, framing, event);
    }

    /// Appends role and `tokens` tokens in chunk framing.
    pub(crate) fn stream(&mut self, out: &mut Vec<u8>, tokens: u32) {
        let mut streams = std::mem::take(&mut self.streams);
        streams.append(out, tokens, |out| {
            self.role(out, Framing::Chunked);
            (0..tokens).for_each(|index| self.token(out, Framing::Chunked, index));
        });
        self.streams = streams;
    }

    /// Appends the chunk with the finish reason.
    pub(crate) fn finish(&self, out: &mut Vec<u8>, framing: Framing, reason: FinishReason) {
        let event = match reason {
            FinishReason::Stop => &self.stop,
            FinishReason::Length => &self.length,
        };
        frame(out, framing, event);
    }

    /// Appends the chunk with the usage and no choices.
    pub(crate) fn usage(&self, out: &mut Vec<u8>, framing: Framing, usage: Usage) {
        let mut text = br#","usage":"#.to_vec();
        usage.write(&mut text);
        frame(
            out,
            framing,
            &event(&self.model, "[]", std::str::from_utf8(&text).expect("digits and names")),
        );
    }

    /// Appends the JSON of an answer that is sent whole.
    pub(crate) fn whole(&mut self, out: &mut Vec<u8>, tokens: u32, reason: FinishReason, usage: Option<Usage>) {
        let model = &self.model;
        self.wholes.append(out, tokens, |out| {
            write_to(
                out,
                format_args!(r#"{{{ID_AND_TIME},"object":"chat.completion","model":{model},"#),
            );
            out.extend_from_slice(br#""choices":[{"index":0,"message":{"role":"assistant","content":""#);
            for index in 0..tokens {
                out.extend_from_slice(if index == 0 { b"" } else { b" " });
                out.extend_from_slice(word(index).as_bytes());
            }
        });
        write_to(
            out,
            format_args!(r#""}},"logprobs":null,"finish_reason":"{}"}}]"#, reason.word()),
        );
        if let Some(usage) = usage {
            out.extend_from_slice(br#","usage":"#);
            usage.write(out);
        }
        out.push(b'}');
    }
}

/// The lines of one chunk event.
fn event(model: &str, choices: &str, usage: &str) -> Vec<u8> {
    format!(
        "data: {{{ID_AND_TIME},\"object\":\"chat.completion.chunk\",\"model\":{model},\"choices\":{choices}{usage}}}\n\n"
    )
    .into_bytes()
}

/// Appends `data: [DONE]`.
pub(crate) fn done(out: &mut Vec<u8>, framing: Framing) {
    frame(out, framing, b"data: [DONE]\n\n");
}

/// Appends data with an error object, as a server does that fails in the middle of a stream.
pub(crate) fn error_data(out: &mut Vec<u8>, framing: Framing) {
    let error = r#"{"error":{"message":"scripted fault","type":"internal_server_error","param":null,"code":500}}"#;
    frame(out, framing, format!("data: {error}\n\n").as_bytes());
}

/// Appends an event of the type `error`, with a comment line and a code that is not a number.
pub(crate) fn error_event(out: &mut Vec<u8>, framing: Framing) {
    let error = r#"{"message":"scripted fault","code":"overloaded"}"#;
    frame(
        out,
        framing,
        format!("event: error\n: scripted fault\ndata: {error}\n\n").as_bytes(),
    );
}

/// Appends the last chunk, where there is chunk framing.
pub(crate) fn end(out: &mut Vec<u8>, framing: Framing) {
    if framing == Framing::Chunked {
        out.extend_from_slice(b"0\r\n\r\n");
    }
}

/// The voices of one thread, by model.
#[derive(Debug, Default)]
pub(crate) struct Voices(HashMap<String, Voice>);

impl Voices {
    /// The voice of `model`, made on first use.
    pub(crate) fn of(&mut self, model: &str) -> &mut Voice {
        // Two look-ups on a hit, because one would borrow the map for the rest of the function on a miss too.
        if !self.0.contains_key(model) {
            if self.0.len() == MODELS_MAX {
                self.0.clear();
            }
            self.0.insert(model.to_owned(), Voice::new(model));
        }
        self.0.get_mut(model).expect("it was just put there")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Takes chunk framing away, checking every size.
    fn unframe(mut bytes: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        while !bytes.is_empty() {
            let line = bytes.windows(2).position(|pair| pair == b"\r\n").expect("a size line");
            let size = usize::from_str_radix(std::str::from_utf8(&bytes[..line]).expect("hex"), 16).expect("hex");
            body.extend_from_slice(&bytes[line + 2..line + 2 + size]);
            assert_eq!(&bytes[line + 2 + size..line + 4 + size], b"\r\n");
            bytes = &bytes[line + 4 + size..];
        }
        body
    }

    fn events(bytes: &[u8]) -> Vec<Value> {
        let text = String::from_utf8(unframe(bytes)).expect("text");
        let events = text
            .split_terminator("\n\n")
            .map(|event| event.strip_prefix("data: ").expect("data"));
        events.map(|data| serde_json::from_str(data).expect("JSON")).collect()
    }

    #[test]
    fn a_stream_is_chunk_objects_with_role_then_one_word_per_token() {
        let mut voices = Voices::default();
        let mut out = Vec::new();
        voices.of("a \"model\"").stream(&mut out, 40);
        let events = events(&out);
        assert_eq!(events.len(), 41);
        assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
        let words: Vec<&str> = events[1..]
            .iter()
            .map(|event| event["choices"][0]["delta"]["content"].as_str().expect("text"))
            .collect();
        assert_eq!(words.concat().split(' ').count(), 40);
        for event in &events {
            assert_eq!(event["object"], "chat.completion.chunk");
            assert_eq!(event["model"], "a \"model\"");
        }
    }

    #[test]
    fn cached_and_stepwise_rendering_give_the_same_bytes() {
        let mut voices = Voices::default();
        let voice = voices.of("m");
        let (mut first, mut cached, mut stepwise) = (Vec::new(), b"head".to_vec(), Vec::new());
        voice.stream(&mut first, 33);
        voice.stream(&mut cached, 33);
        voice.role(&mut stepwise, Framing::Chunked);
        (0..33).for_each(|index| voice.token(&mut stepwise, Framing::Chunked, index));
        assert_eq!(first, stepwise);
        assert_eq!(cached, [b"head", &stepwise[..]].concat());
    }

    #[test]
    fn the_end_has_reason_and_usage_that_add_up() {
        let mut voices = Voices::default();
        let voice = voices.of("m");
        let mut out = Vec::new();
        voice.finish(&mut out, Framing::Chunked, FinishReason::Length);
        voice.usage(
            &mut out,
            Framing::Chunked,
            Usage {
                prompt_tokens: 7,
                completion_tokens: 3,
            },
        );
        let events = events(&out);
        assert_eq!(events[0]["choices"][0]["finish_reason"], "length");
        assert_eq!(events[1]["choices"].as_array().map(Vec::len), Some(0));
        assert_eq!(events[1]["usage"]["total_tokens"], 10);
    }

    #[test]
    fn an_answer_sent_whole_has_the_words_of_the_stream() {
        let mut voices = Voices::default();
        let mut out = Vec::new();
        let usage = Usage {
            prompt_tokens: 1,
            completion_tokens: 20,
        };
        voices.of("m").whole(&mut out, 20, FinishReason::Stop, Some(usage));
        let answer: Value = serde_json::from_slice(&out).expect("JSON");
        let content = answer["choices"][0]["message"]["content"].as_str().expect("text");
        assert_eq!(content.split(' ').count(), 20);
        assert_eq!(content, answer_text(20));
        assert_eq!(
            (&answer["object"], &answer["usage"]["total_tokens"]),
            (&"chat.completion".into(), &21.into())
        );
        out.clear();
        voices.of("m").whole(&mut out, 1, FinishReason::Stop, None);
        let answer: Value = serde_json::from_slice(&out).expect("JSON");
        assert!(answer.get("usage").is_none());
    }
}
