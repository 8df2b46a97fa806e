//! Bodies that the user's own template makes.

use serde_json::{Map, Value};

use super::said::{passages, texts};
use super::{RenderError, RenderInputs};
use crate::config::{Payload, PayloadFault, PayloadNames};
use crate::dataset::Turn;

/// A template with what is the same in all requests.
#[derive(Debug)]
pub(super) struct Bodies<'a> {
    payload: Payload<'a>,
    inputs: &'a RenderInputs<'a>,
}

impl<'a> Bodies<'a> {
    /// Those of a config whose type is made of a template; `None` if it is another.
    pub(super) fn of(inputs: &'a RenderInputs<'a>) -> Option<Self> {
        let payload = inputs.template?.compile();
        Some(Self { payload, inputs })
    }

    /// Whether they say anything of the prompt.
    pub(super) fn have_text(&self) -> bool {
        self.payload.template().has_text()
    }

    /// The output tokens that the body of a turn asks for.
    pub(super) fn requested_output_tokens(&self, turn: &Turn<'_>) -> Option<u32> {
        let asks = self.payload.template().has_output_tokens();
        turn.output_tokens.filter(|_| asks)
    }

    /// The body of a turn that asks for this model, with the keys of the user's own behind those of the template.
    ///
    /// # Errors
    /// There is none for this turn, and why.
    pub(super) fn body(&self, model: &str, turn: &Turn<'_>) -> Result<Vec<u8>, PayloadFault> {
        let RenderInputs { streaming, extra, .. } = *self.inputs;
        let all: Vec<&str> = texts(turn).collect();
        // A turn of several texts is a query and its passages, if it is anything like that.
        let ranked = passages(turn);
        let query = (!ranked.is_empty()).then_some(&*turn.text);
        let written = turn.written.as_deref();
        let texts = match written.is_some_and(|written| !written.passages.is_empty()) {
            true => all.into_iter().chain(ranked.iter().map(String::as_str)).collect(),
            false => all,
        };
        let names = PayloadNames {
            text: Some(&turn.text),
            texts,
            query,
            queries: query.into_iter().collect(),
            passage: ranked.first().map(String::as_str),
            passages: ranked.iter().map(String::as_str).collect(),
            model,
            max_tokens: turn.output_tokens,
            stream: streaming,
            role: "user",
            ..PayloadNames::default()
        };
        let mut body = self.payload.fill(&names)?;
        let own = written.and_then(|written| written.extra.as_deref());
        for (key, value) in extra.iter().chain(own.into_iter().flatten()) {
            // A key that is there keeps its place and takes the user's value.
            body.insert(key.clone(), value.clone());
        }
        check_stream(&body, streaming)?;
        Ok(Value::Object(body).to_string().into_bytes())
    }
}

/// Refuses a `stream` that contradicts the endpoint: the answer would be of another kind than everything else is prepared for.
fn check_stream(body: &Map<String, Value>, streaming: bool) -> Result<(), PayloadFault> {
    match body.get("stream") {
        Some(Value::Bool(stream)) if *stream != streaming => Err(PayloadFault {
            reason: format!(
                "the body has \"stream\": {stream}, but endpoint.streaming is {streaming}; write {{{{ stream|tojson }}}} there, or set \
                 endpoint.streaming"
            ),
            offset: None,
        }),
        _ => Ok(()),
    }
}

impl RenderError {
    /// A body that could not be made.
    pub(super) fn payload(id: String, turn: u32, fault: PayloadFault) -> Self {
        Self::Payload {
            id,
            turn: turn + 1,
            reason: fault.reason,
            offset: fault.offset,
        }
    }
}
