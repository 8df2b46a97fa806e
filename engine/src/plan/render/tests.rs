//! Whole requests, read back by an independent parser.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::dataset::{
    Conversation, FileConversations, FileFormat, FileOptions, Opening, SyntheticRankings, read_records,
};
use crate::plan::IdBlock;

mod drafts;
mod heads;
mod kinds;
mod openings;
mod turns;

fn target() -> Target {
    Target {
        url: "http://127.0.0.1:8000/v1/chat/completions?tier=a".into(),
        host: "127.0.0.1".into(),
        port: 8000,
        authority: "127.0.0.1:8000".into(),
        path: "/v1/chat/completions?tier=a".into(),
        origin: "http://127.0.0.1:8000".into(),
    }
}

/// Inputs that a test changes where it matters.
struct Given {
    kind: EndpointKind,
    use_server_token_count: bool,
    target: Target,
    models: Vec<String>,
    streaming: bool,
    close_after: bool,
    use_legacy_max_tokens: bool,
    headers: Vec<(String, String)>,
    session_header: Option<String>,
    extra: Map<String, Value>,
    entries: u32,
    isl: Option<LengthDistribution>,
    osl: Option<LengthDistribution>,
    turns: u32,
    seed: u64,
}

impl Default for Given {
    fn default() -> Self {
        Self {
            kind: EndpointKind::Chat,
            use_server_token_count: false,
            target: target(),
            models: vec!["mock-model".into()],
            streaming: true,
            close_after: false,
            use_legacy_max_tokens: false,
            headers: Vec::new(),
            session_header: None,
            extra: Map::new(),
            entries: 3,
            isl: Some(LengthDistribution::Fixed(12)),
            osl: Some(LengthDistribution::Fixed(16)),
            turns: 1,
            seed: 1,
        }
    }
}

impl Given {
    fn render(&self) -> Result<RequestImages, RenderError> {
        let isl = self.isl.clone().unwrap_or(DEFAULT_ISL);
        let dataset = Synthetic {
            turns: LengthDistribution::Fixed(self.turns),
            ..Synthetic::of_single_turns(self.entries, isl, self.osl.clone(), self.seed)
        };
        self.with_inputs(|inputs| render_synthetic(inputs, &dataset))
    }

    fn with_inputs<T>(&self, render: impl FnOnce(&RenderInputs<'_>) -> T) -> T {
        let models = ModelPlan::in_turn(self.models.clone());
        render(&RenderInputs {
            kind: self.kind,
            targets: std::slice::from_ref(&self.target),
            models: &models,
            streaming: self.streaming,
            close_after: self.close_after,
            use_legacy_max_tokens: self.use_legacy_max_tokens,
            use_server_token_count: self.use_server_token_count,
            headers: &self.headers,
            session_header: self.session_header.as_deref(),
            extra: &self.extra,
            template: None,
        })
    }

    /// The images of conversations, unchecked.
    fn make(&self, conversations: impl IntoIterator<Item = Conversation<'static>>) -> Vec<RequestImage> {
        self.with_inputs(|inputs| {
            let parts = Parts::new(inputs).expect("the inputs are sound");
            let turns = conversations.into_iter().flat_map(|conversation| conversation.turns);
            turns
                .map(|turn| {
                    let system = turn.written.as_deref().and_then(|written| written.system.as_deref());
                    parts.image(0, 0, &turn, system, &mut Scratch::default())
                })
                .collect()
        })
    }

    /// The draft of records.
    fn draft<T>(
        &self,
        format: FileFormat,
        records: &[&str],
        look: impl FnOnce(Result<Draft<'_>, RenderError>) -> T,
    ) -> T {
        let options = FileOptions { format, block_size: 4 };
        let sessions = read_records(records.iter().copied(), options).unwrap_or_else(|error| panic!("{error:?}"));
        let make = FileConversations::new(None, 4, self.seed);
        self.with_inputs(|inputs| look(Draft::sessions(inputs, sessions, make)))
    }

    fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    fn error(&self) -> String {
        self.render().expect_err("the inputs are refused").to_string()
    }
}

/// A request as a server reads it.
struct Parsed {
    path: String,
    headers: Vec<(String, String)>,
    body: Value,
}

impl Parsed {
    fn all(&self, name: &str) -> Vec<&str> {
        self.headers
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
            .collect()
    }
}

/// Joins the three parts and parses them, checking what every request must keep.
fn parse(images: &RequestImages, entry: usize) -> Parsed {
    let image = &images.entries[entry];
    let bytes = [&images.heads[0][..], &images.ids.template[..], &image.tail[..]].concat();
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    let body_at = match request.parse(&bytes) {
        Ok(httparse::Status::Complete(at)) => at,
        other => panic!("{other:?} for {}", String::from_utf8_lossy(&bytes)),
    };
    assert_eq!((request.method, request.version), (Some("POST"), Some(1)));
    let parsed = Parsed {
        path: request.path.expect("a parsed request has a path").into(),
        headers: request
            .headers
            .iter()
            .map(|header| (header.name.into(), String::from_utf8_lossy(header.value).into_owned()))
            .collect(),
        body: serde_json::from_slice(&bytes[body_at..]).expect("the body is JSON"),
    };
    assert_eq!(&bytes[body_at..], image.body());
    assert_eq!(parsed.all("Content-Length"), [image.body().len().to_string()]);
    assert_eq!(
        parsed.body.to_string().as_bytes(),
        image.body(),
        "the body is compact JSON"
    );
    parsed
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

fn placeholder_at(ids: &IdBlock, at: usize) -> &[u8] {
    &ids.template[at..at + 36]
}

#[test]
fn a_streaming_request_has_the_fields_of_the_contract_in_their_order() {
    let images = Given::default().render().expect("valid inputs");
    let parsed = parse(&images, 0);
    assert_eq!(parsed.path, "/v1/chat/completions?tier=a");
    let keys: Vec<&String> = parsed.body.as_object().expect("an object").keys().collect();
    assert_eq!(
        keys,
        ["messages", "model", "stream", "max_completion_tokens", "stream_options"]
    );
    assert_eq!(parsed.body["messages"][0]["role"], "user");
    assert_eq!(parsed.body["stream"], true);
    assert_eq!(parsed.body["max_completion_tokens"], 16);
    assert_eq!(parsed.body["stream_options"], json!({"include_usage": true}));
    let text = parsed.body["messages"][0]["content"].as_str().expect("a plain string");
    assert_eq!(text.split(' ').count(), 12);
    assert_eq!(images.entries[0].input_tokens, Some(12));
    assert_eq!(images.entries[0].requested_output_tokens, Some(16));
}

#[test]
fn headers_come_in_order_and_once() {
    let images = Given::default()
        .header("X-Team", "latency")
        .render()
        .expect("valid inputs");
    let parsed = parse(&images, 0);
    let names: Vec<&str> = parsed.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "Host",
            "User-Agent",
            "Accept",
            "Accept-Encoding",
            "Content-Type",
            "X-Team",
            "X-Request-ID",
            "X-Correlation-ID",
            "X-Session-Affinity",
            "Content-Length"
        ]
    );
    assert_eq!(parsed.all("Host"), ["127.0.0.1:8000"]);
    assert_eq!(parsed.all("Accept"), ["text/event-stream"]);
    assert_eq!(parsed.all("Accept-Encoding"), ["identity"]);
    assert_eq!(
        parsed.all("User-Agent"),
        [concat!("ringload/", env!("CARGO_PKG_VERSION"))]
    );
}

#[test]
fn without_streaming_nothing_asks_for_a_stream() {
    let given = Given {
        streaming: false,
        osl: None,
        ..Given::default()
    };
    let images = given.render().expect("valid inputs");
    let parsed = parse(&images, 0);
    assert_eq!(parsed.all("Accept"), ["application/json"]);
    let keys: Vec<&String> = parsed.body.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["messages", "model", "stream"]);
    assert_eq!(parsed.body["stream"], false);
    assert_eq!(images.entries[0].requested_output_tokens, None);
}

#[test]
fn legacy_servers_get_max_tokens() {
    let given = Given {
        use_legacy_max_tokens: true,
        ..Given::default()
    };
    let parsed = parse(&given.render().expect("valid inputs"), 0);
    assert_eq!(parsed.body["max_tokens"], 16);
    assert_eq!(parsed.body.get("max_completion_tokens"), None);
}

#[test]
fn a_missing_input_length_is_550_tokens() {
    let images = Given {
        isl: None,
        ..Given::default()
    }
    .render()
    .expect("valid inputs");
    assert_eq!(images.entries[2].input_tokens, Some(550));
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let normal = Some(LengthDistribution::Normal {
        mean: 20.0,
        stddev: 6.0,
    });
    let bytes = |seed| {
        let given = Given {
            seed,
            isl: normal.clone(),
            osl: normal.clone(),
            entries: 40,
            ..Given::default()
        };
        let images = given.render().expect("valid inputs");
        let conversations = images.conversations;
        let entries = images.entries.iter();
        entries
            .map(|e| (e.tail.clone(), conversations.id(e.conversation).into_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(bytes(1), bytes(1));
    for (one, other) in bytes(1).iter().zip(bytes(2)) {
        assert_ne!(*one.0, *other.0);
        assert_ne!(one.1, other.1);
    }
}

#[test]
fn drawn_lengths_are_what_the_body_says() {
    let given = Given {
        isl: Some(LengthDistribution::Normal {
            mean: 20.0,
            stddev: 6.0,
        }),
        osl: Some(LengthDistribution::Normal { mean: 9.0, stddev: 3.0 }),
        entries: 50,
        ..Given::default()
    };
    let images = given.render().expect("valid inputs");
    let mut seen = std::collections::HashSet::new();
    for (entry, image) in images.entries.iter().enumerate() {
        let parsed = parse(&images, entry);
        let text = parsed.body["messages"][0]["content"].as_str().expect("a plain string");
        assert_eq!(image.input_tokens, Some(text.split(' ').count() as u32));
        assert_eq!(
            json!(image.requested_output_tokens),
            parsed.body["max_completion_tokens"]
        );
        seen.insert((image.input_tokens, image.requested_output_tokens));
    }
    assert!(seen.len() > 20, "lengths vary: {seen:?}");
}

#[test]
fn extra_fields_win_keep_the_place_of_built_ones_and_come_before_stream_options() {
    let extra =
        object(json!({"temperature": 0.5, "model": "other", "max_completion_tokens": 3, "nested": {"a": [1, null]}}));
    let images = Given {
        extra,
        ..Given::default()
    }
    .render()
    .expect("valid inputs");
    let body = parse(&images, 0).body;
    let keys: Vec<&String> = body.as_object().expect("an object").keys().collect();
    assert_eq!(
        keys,
        [
            "messages",
            "model",
            "stream",
            "max_completion_tokens",
            "temperature",
            "nested",
            "stream_options"
        ]
    );
    assert_eq!((&body["model"], &body["temperature"]), (&json!("other"), &json!(0.5)));
    assert_eq!(body["nested"], json!({"a": [1, null]}));
    assert_eq!(
        images.entries[0].requested_output_tokens,
        Some(3),
        "what is asked for is what is recorded"
    );
}

#[test]
fn messages_of_the_users_own_have_no_known_length() {
    let messages = json!([{"role": "user", "content": "say \"hi\"\n"}]);
    let extra = object(json!({"messages": messages}));
    let images = Given {
        extra,
        ..Given::default()
    }
    .render()
    .expect("valid inputs");
    assert_eq!(parse(&images, 0).body["messages"], messages);
    assert_eq!(images.entries[0].input_tokens, None);
}

#[test]
fn stream_options_of_the_users_own_stay() {
    let options = |value: Value| {
        let extra = object(json!({"stream_options": value}));
        let images = Given {
            extra,
            ..Given::default()
        }
        .render()
        .expect("valid inputs");
        parse(&images, 0).body["stream_options"].clone()
    };
    assert_eq!(
        options(json!({"include_usage": false})),
        json!({"include_usage": false})
    );
    assert_eq!(options(json!({"other": 1})), json!({"other": 1, "include_usage": true}));
    assert_eq!(options(Value::Null), Value::Null);
}

#[test]
fn an_extra_stream_must_agree_with_the_endpoint() {
    let given = |stream: Value| Given {
        extra: object(json!({"stream": stream})),
        ..Given::default()
    };
    assert!(given(json!(true)).render().is_ok());
    assert_eq!(
        given(json!(false)).error(),
        "endpoint.extra.stream: found false, but endpoint.streaming is true; set endpoint.streaming and remove this key"
    );
    assert!(given(json!("true")).render().is_err());
}

#[test]
fn sizes_out_of_bounds_are_refused_before_any_memory_is_taken() {
    let with = |entries, isl| Given {
        entries,
        isl: Some(isl),
        ..Given::default()
    };
    assert!(
        with(0, LengthDistribution::Fixed(1))
            .error()
            .starts_with("dataset.entries: found 0")
    );
    assert!(
        with(u32::MAX, LengthDistribution::Fixed(1))
            .error()
            .starts_with("dataset.entries: 4294967295 requests")
    );
    assert!(
        with(100_000, LengthDistribution::Fixed(10_000))
            .error()
            .contains("lower entries or isl")
    );
    assert!(
        with(1, LengthDistribution::Fixed(u32::MAX))
            .error()
            .starts_with("dataset.prompts.isl: entry 0")
    );
    let endless = LengthDistribution::Normal {
        mean: 1.0,
        stddev: f64::INFINITY,
    };
    assert!(
        with(1, endless)
            .error()
            .starts_with("dataset.prompts.isl.stddev: found inf")
    );
    let bad_osl = Given {
        osl: Some(LengthDistribution::Normal {
            mean: -1.0,
            stddev: 0.0,
        }),
        ..Given::default()
    };
    assert!(bad_osl.error().starts_with("dataset.prompts.osl.mean: found -1"));
}

proptest! {
    #[test]
    fn any_model_name_and_extra_text_survive(model in ".*", key in ".*", text in ".*") {
        prop_assume!(!["messages", "model", "stream", "max_completion_tokens", "stream_options"].contains(&key.as_str()));
        let extra = object(json!({ key.clone(): text }));
        let images = Given { models: vec![model.clone()], extra, ..Given::default() }.render().expect("valid inputs");
        let body = parse(&images, 0).body;
        prop_assert_eq!(&body["model"], &json!(model));
        prop_assert_eq!(&body[&key], &json!(text));
    }
}
