//! The words of the APIs beside chat completions: events of their streams, and answers that are sent whole.
//!
//! Rendered afresh each time: only chat completions have to saturate a client.

use serde_json::{Value, json};

use crate::api::Api;
use crate::sse::{FinishReason, Framing, Usage, answer_text, done, frame, token_text};

/// An answer in one of the APIs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dialect<'a> {
    pub(crate) api: Api,
    pub(crate) model: &'a str,
    pub(crate) finish: FinishReason,
    /// Token counts, if the answer is to have them; with the tokens that were really sent.
    pub(crate) usage: Option<Usage>,
}

/// Appends an event with a name, as the APIs have it whose events are of several kinds.
fn named(out: &mut Vec<u8>, framing: Framing, data: &Value) {
    let name = data["type"].as_str().unwrap_or_default();
    frame(out, framing, format!("event: {name}\ndata: {data}\n\n").as_bytes());
}

fn unnamed(out: &mut Vec<u8>, framing: Framing, data: &Value) {
    frame(out, framing, format!("data: {data}\n\n").as_bytes());
}

impl Dialect<'_> {
    /// Appends what comes before the first token.
    pub(crate) fn opening(&self, out: &mut Vec<u8>, framing: Framing, prompt_words: u64) {
        match self.api {
            Api::Responses => {
                for (number, kind) in ["response.created", "response.in_progress"].into_iter().enumerate() {
                    let response =
                        json!({"id": "resp_mock", "object": "response", "status": "in_progress", "model": self.model});
                    named(
                        out,
                        framing,
                        &json!({"type": kind, "sequence_number": number, "response": response}),
                    );
                }
            }
            Api::Messages => {
                let message = json!({
                    "id": "msg_mock", "type": "message", "role": "assistant", "model": self.model, "content": [],
                    "usage": {"input_tokens": prompt_words, "output_tokens": 1},
                });
                named(out, framing, &json!({"type": "message_start", "message": message}));
                let block = json!({"type": "text", "text": ""});
                named(
                    out,
                    framing,
                    &json!({"type": "content_block_start", "index": 0, "content_block": block}),
                );
                named(out, framing, &json!({"type": "ping"}));
            }
            _ => {}
        }
    }

    /// Appends the event of token `index`.
    pub(crate) fn token(&self, out: &mut Vec<u8>, framing: Framing, index: u32) {
        let text = token_text(index);
        match self.api {
            Api::Responses => {
                let delta = json!({
                    "type": "response.output_text.delta", "sequence_number": u64::from(index) + 2, "item_id": "item_mock",
                    "output_index": 0, "content_index": 0, "delta": text,
                });
                named(out, framing, &delta);
            }
            Api::Messages => {
                let delta = json!({"type": "text_delta", "text": text});
                named(
                    out,
                    framing,
                    &json!({"type": "content_block_delta", "index": 0, "delta": delta}),
                );
            }
            Api::Custom => unnamed(out, framing, &json!({"seq": index, "text": text})),
            _ => unnamed(
                out,
                framing,
                &self.completion(json!([{"index": 0, "text": text, "logprobs": null, "finish_reason": null}])),
            ),
        }
    }

    /// Appends what comes behind the last of `tokens` tokens: the reason and the counts, and with `ends` the mark of the end.
    pub(crate) fn closing(&self, out: &mut Vec<u8>, framing: Framing, tokens: u32, ends: bool) {
        match self.api {
            Api::Responses => {
                let text = answer_text(tokens);
                if tokens > 0 {
                    let whole = json!({"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": text});
                    named(out, framing, &whole);
                }
                named(
                    out,
                    framing,
                    &json!({"type": "response.completed", "response": self.response(&text)}),
                );
            }
            Api::Messages => {
                named(out, framing, &json!({"type": "content_block_stop", "index": 0}));
                let mut end = json!({"type": "message_delta", "delta": {"stop_reason": self.stop_reason()}});
                if let Some(usage) = self.usage {
                    end["usage"] = json!({"output_tokens": usage.completion_tokens});
                }
                named(out, framing, &end);
                if ends {
                    named(out, framing, &json!({"type": "message_stop"}));
                }
            }
            // No reason, no mark: such a stream ends with its body.
            Api::Custom => {
                if let Some(usage) = self.usage {
                    unnamed(
                        out,
                        framing,
                        &json!({"seq": tokens, "text": "", "usage": usage.openai()}),
                    );
                }
            }
            _ => {
                let last = json!([{"index": 0, "text": "", "logprobs": null, "finish_reason": self.finish.word()}]);
                unnamed(out, framing, &self.completion(last));
                if let Some(usage) = self.usage {
                    let mut counts = self.completion(json!([]));
                    counts["usage"] = usage.openai();
                    unnamed(out, framing, &counts);
                }
                if ends {
                    done(out, framing);
                }
            }
        }
    }

    /// Appends an error in the middle of a stream, in the form of the API.
    pub(crate) fn error(&self, out: &mut Vec<u8>, framing: Framing) {
        match self.api {
            Api::Responses => {
                let error = json!({"code": "server_error", "message": "scripted fault"});
                let response = json!({"id": "resp_mock", "object": "response", "status": "failed", "error": error});
                named(out, framing, &json!({"type": "response.failed", "response": response}));
            }
            Api::Messages => {
                let error = json!({"type": "overloaded_error", "message": "scripted fault"});
                named(out, framing, &json!({"type": "error", "error": error}));
            }
            _ => crate::sse::error_data(out, framing),
        }
    }

    /// Appends an answer that is sent whole. `inputs` is how many texts or passages there were.
    pub(crate) fn whole(&self, out: &mut Vec<u8>, tokens: u32, inputs: usize) {
        let text = answer_text(tokens);
        let ranks = |score: &str| -> Value {
            (0..inputs)
                .map(|index| json!({"index": index, score: 1.0 / (index + 1) as f64}))
                .collect()
        };
        let answer = match self.api {
            Api::Responses => self.response(&text),
            Api::Messages => {
                let mut answer = json!({
                    "id": "msg_mock", "type": "message", "role": "assistant", "model": self.model,
                    "content": [{"type": "text", "text": text}], "stop_reason": self.stop_reason(),
                });
                if let Some(usage) = self.usage {
                    answer["usage"] = usage.anthropic();
                }
                answer
            }
            Api::Embeddings => {
                let embedding =
                    |index: usize| json!({"object": "embedding", "index": index, "embedding": [0.5, -0.25, 0.125]});
                let prompt = self.usage.map_or(0, |usage| usage.prompt_tokens);
                json!({
                    "object": "list", "model": self.model, "data": (0..inputs).map(embedding).collect::<Vec<_>>(),
                    "usage": {"prompt_tokens": prompt, "total_tokens": prompt},
                })
            }
            Api::CohereRankings => json!({"id": "rank_mock", "results": ranks("relevance_score")}),
            Api::TeiRankings => ranks("score"),
            Api::NimRankings => json!({"rankings": ranks("logit")}),
            Api::Custom => {
                let mut answer = json!({"text": text});
                if let Some(usage) = self.usage {
                    answer["usage"] = usage.openai();
                }
                answer
            }
            Api::Chat | Api::Completions => {
                let mut answer = self.completion(json!([{
                    "index": 0, "text": text, "logprobs": null, "finish_reason": self.finish.word(),
                }]));
                if let Some(usage) = self.usage {
                    answer["usage"] = usage.openai();
                }
                answer
            }
        };
        out.extend_from_slice(answer.to_string().as_bytes());
    }

    fn completion(&self, choices: Value) -> Value {
        json!({
            "id": "cmpl-mock", "object": "text_completion", "created": 1_700_000_000, "model": self.model, "choices": choices,
        })
    }

    fn response(&self, text: &str) -> Value {
        let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
        let mut response = json!({
            "id": "resp_mock", "object": "response", "status": "completed", "model": self.model, "error": null,
            "output": [{"type": "message", "id": "item_mock", "role": "assistant", "status": "completed", "content": content}],
        });
        if let Some(usage) = self.usage {
            let mut counts = usage.anthropic();
            counts["total_tokens"] = json!(usage.prompt_tokens + u64::from(usage.completion_tokens));
            response["usage"] = counts;
        }
        response
    }

    fn stop_reason(&self) -> &'static str {
        match self.finish {
            FinishReason::Stop => "end_turn",
            FinishReason::Length => "max_tokens",
        }
    }
}
