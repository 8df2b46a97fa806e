//! The body of a request, with gaps for what differs from entry to entry.

use serde_json::{Value, json};

use super::{RenderError, RenderInputs};
use crate::dataset::{Prompts, SizedPrompt};

/// A body as bytes, cut at the places that differ between entries.
#[derive(Debug)]
pub(super) struct BodyTemplate {
    segments: Vec<Segment>,
    /// What `extra` says about output tokens, where it says so.
    fixed_output_tokens: Option<Option<u32>>,
}

#[derive(Debug)]
enum Segment {
    Fixed(Vec<u8>),
    /// The text of the prompt, inside a JSON string.
    Text,
    /// The output length to ask for.
    OutputTokens,
}

/// One member of the body: what is sent, in the order of sending.
enum Field {
    Fixed(Value),
    Messages,
    OutputTokens,
}

impl BodyTemplate {
    /// The template of chat completion requests.
    pub(super) fn chat(inputs: &RenderInputs<'_>) -> Result<Self, RenderError> {
        let tokens_key = if inputs.use_legacy_max_tokens {
            "max_tokens"
        } else {
            "max_completion_tokens"
        };
        if let Some(found) = inputs.extra.get("stream")
            && *found != Value::Bool(inputs.streaming)
        {
            // Sent as written, it would change the kind of answer behind the back of everything that reads answers.
            return Err(RenderError::ExtraStream {
                found: found.clone(),
                streaming: inputs.streaming,
            });
        }

        let mut fields: Vec<(&str, Field)> = vec![
            ("messages", Field::Messages),
            ("model", Field::Fixed(json!(inputs.model))),
            ("stream", Field::Fixed(json!(inputs.streaming))),
        ];
        if inputs.osl.is_some() {
            fields.push((tokens_key, Field::OutputTokens));
        }
        for (key, value) in inputs.extra {
            let field = Field::Fixed(value.clone());
            match fields.iter_mut().find(|(known, _)| known == key) {
                // A field that is there keeps its place and takes the user's value.
                Some((_, place)) => *place = field,
                None => fields.push((key, field)),
            }
        }
        if inputs.streaming {
            ask_for_usage(&mut fields);
        }

        let fixed_output_tokens = inputs
            .extra
            .get(tokens_key)
            .map(|value| value.as_u64().and_then(|tokens| u32::try_from(tokens).ok()));
        Ok(Self {
            segments: cut(fields),
            fixed_output_tokens,
        })
    }

    /// Bytes that every body has, whatever its prompt.
    pub(super) fn fixed_len(&self) -> usize {
        self.segments
            .iter()
            .map(|segment| match segment {
                Segment::Fixed(bytes) => bytes.len(),
                Segment::Text | Segment::OutputTokens => 0,
            })
            .sum()
    }

    /// Whether bodies carry the prompt's text; not so when `extra` brings its own messages.
    pub(super) fn has_text(&self) -> bool {
        self.segments.iter().any(|segment| matches!(segment, Segment::Text))
    }

    /// The output tokens that the body of a prompt asks for.
    pub(super) fn requested_output_tokens(&self, size: SizedPrompt) -> Option<u32> {
        self.fixed_output_tokens.unwrap_or(size.output_tokens)
    }

    /// The body of one prompt.
    pub(super) fn fill(&self, prompts: &Prompts, size: SizedPrompt) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.fixed_len());
        for segment in &self.segments {
            match segment {
                Segment::Fixed(bytes) => out.extend_from_slice(bytes),
                // Words and spaces need no escaping in JSON.
                Segment::Text => prompts.write_text(size, &mut out),
                Segment::OutputTokens => {
                    let tokens = size
                        .output_tokens
                        .expect("the gap exists only where output lengths are drawn");
                    out.extend_from_slice(tokens.to_string().as_bytes());
                }
            }
        }
        out
    }
}

/// Asks for the server's token counts, unless the user decided that.
fn ask_for_usage(fields: &mut Vec<(&str, Field)>) {
    match fields.iter_mut().find(|(key, _)| *key == "stream_options") {
        None => fields.push(("stream_options", Field::Fixed(json!({"include_usage": true})))),
        Some((_, Field::Fixed(Value::Object(options)))) => {
            options.entry("include_usage").or_insert(Value::Bool(true));
        }
        // Something else than an object (null, say) is the user's own decision.
        Some(_) => {}
    }
}

/// Serialises the fields and joins neighbouring bytes.
fn cut(fields: Vec<(&str, Field)>) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut open = Vec::from(b"{");
    let mut cut_at = |open: &mut Vec<u8>, gap| {
        segments.push(Segment::Fixed(std::mem::take(open)));
        segments.push(gap);
    };
    for (at, (key, field)) in fields.into_iter().enumerate() {
        if at > 0 {
            open.push(b',');
        }
        push_json(&mut open, &Value::from(key));
        open.push(b':');
        match field {
            Field::Fixed(value) => push_json(&mut open, &value),
            Field::Messages => {
                open.extend_from_slice(br#"[{"role":"user","content":""#);
                cut_at(&mut open, Segment::Text);
                open.extend_from_slice(br#""}]"#);
            }
            Field::OutputTokens => cut_at(&mut open, Segment::OutputTokens),
        }
    }
    open.push(b'}');
    segments.push(Segment::Fixed(open));
    segments
}

fn push_json(out: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(out, value).expect("a JSON value can be written to memory");
}
