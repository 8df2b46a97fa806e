//! What conversations begin with, in the bodies of each API.

use super::*;

fn synthetic(kind: EndpointKind, turns: u32, opening: Opening) -> RequestImages {
    let given = Given {
        kind,
        streaming: false,
        ..Given::default()
    };
    given.with_inputs(|inputs| {
        let dataset = Synthetic {
            turns: LengthDistribution::Fixed(turns),
            ..Synthetic::of_single_turns(3, LengthDistribution::Fixed(4), None, 1)
        };
        let draft = Draft::synthetic(inputs, dataset).expect("a draft");
        draft.opened(opening).expect("the same").render()
    })
}

fn bodies(images: &RequestImages) -> Vec<Value> {
    let body = |image: &RequestImage| serde_json::from_slice(image.body()).expect("a body of JSON");
    images.entries.iter().map(body).collect()
}

fn messages() -> Opening {
    Opening::default().with_system_of(8, 1).with_context_of(3, 1)
}

fn words(value: &Value) -> usize {
    value.as_str().expect("a text").split(' ').count()
}

#[test]
fn chats_have_the_system_and_the_context_as_messages_of_the_first_turn() {
    let images = synthetic(EndpointKind::Chat, 2, messages());
    let bodies = bodies(&images);
    let list = |at: usize| bodies[at]["messages"].as_array().expect("a list").clone();
    let roles = |at: usize| -> Vec<Value> { list(at).iter().map(|message| message["role"].clone()).collect() };
    assert_eq!(roles(0), ["system", "user", "user"]);
    assert_eq!(roles(1), ["user"]);
    assert_eq!(
        list(0)
            .iter()
            .map(|message| words(&message["content"]))
            .collect::<Vec<_>>(),
        [8, 3, 4]
    );
    assert_eq!(list(0)[0], list(2)[0], "all conversations have one system message");
    assert_ne!(list(0)[1], list(2)[1], "each has a context of its own");
    // All three are what a history remembers of the turn.
    let remembered: Value =
        serde_json::from_slice(&[b"[", images.entries[0].message(), b"]"].concat()).expect("a list of messages");
    assert_eq!(remembered, bodies[0]["messages"]);
    let tokens = |at: usize| images.entries[at].input_tokens;
    assert_eq!((tokens(0), tokens(1)), (Some(8 + 3 + 4), Some(4)));
}

#[test]
fn other_apis_have_the_system_apart_in_every_turn_and_the_context_as_a_message() {
    for (kind, list, system) in [
        (EndpointKind::Responses, "input", "instructions"),
        (EndpointKind::Messages, "messages", "system"),
    ] {
        let images = synthetic(kind, 2, messages());
        let bodies = bodies(&images);
        let said = |at: usize| -> Vec<(Value, usize)> {
            let messages = bodies[at][list].as_array().expect("a list").iter();
            messages
                .map(|message| (message["role"].clone(), words(&message["content"])))
                .collect()
        };
        assert_eq!(said(0), [(json!("user"), 3), (json!("user"), 4)], "{kind:?}");
        assert_eq!(said(1), [(json!("user"), 4)], "{kind:?}");
        assert_eq!(words(&bodies[0][system]), 8);
        assert!(bodies.iter().all(|body| body[system] == bodies[0][system]), "{kind:?}");
    }
}

#[test]
fn a_pool_stands_in_front_of_the_text_of_every_type_that_has_one() {
    for (kind, place) in [
        (EndpointKind::Chat, "/messages/0/content"),
        (EndpointKind::Completions, "/prompt"),
        (EndpointKind::Embeddings, "/input/0"),
        (EndpointKind::Responses, "/input/0/content"),
        (EndpointKind::Messages, "/messages/0/content"),
    ] {
        let pool = synthetic(kind, 1, Opening::default().with_pool(1, 5, 1));
        let bare = synthetic(kind, 1, Opening::default());
        let mut beginnings = Vec::new();
        for (with, bare) in bodies(&pool).iter().zip(&bodies(&bare)) {
            let text = |body: &Value| body.pointer(place).and_then(Value::as_str).map(str::to_owned);
            let (with, bare) = (text(with).expect("a text"), text(bare).expect("a text"));
            let beginning = with.strip_suffix(&format!(" {bare}"));
            beginnings.push(
                beginning
                    .unwrap_or_else(|| panic!("{kind:?}: {with:?}, {bare:?}"))
                    .to_owned(),
            );
        }
        beginnings.dedup();
        assert_eq!(beginnings.len(), 1, "{kind:?}: a pool of one text");
        assert_eq!(pool.entries[0].input_tokens, Some(5 + 4));
    }
}

/// The first body of records with a system message, in chat.
fn told(kind: EndpointKind, format: FileFormat, record: &str) -> Value {
    let given = Given {
        kind,
        ..Given::default()
    };
    given.draft(format, &[record], |draft| {
        let opened = draft.expect("a draft").opened(Opening::default().with_system("S"));
        bodies(&opened.expect("the same").render()).remove(0)
    })
}

#[test]
fn a_system_message_of_a_records_own_is_joined_to_it() {
    let of_messages = |messages: &str| {
        let record = format!(r#"{{"messages": {messages}}}"#);
        told(EndpointKind::Chat, FileFormat::MooncakeTrace, &record)["messages"].clone()
    };
    assert_eq!(
        of_messages(r#"[ {"role":"system","content":"own","name":"n"} , {"role":"user","content":"a]"} ]"#),
        json!([{"role": "system", "content": "S\n\nown", "name": "n"}, {"role": "user", "content": "a]"}])
    );
    assert_eq!(
        of_messages(r#"[{"role": "system", "content": [{"type": "text", "text": "own"}]}]"#),
        json!([{"role": "system", "content": [{"type": "text", "text": "S"}, {"type": "text", "text": "own"}]}])
    );
    assert_eq!(
        of_messages(r#"[{"role": "system"}, {"role": "user", "content": "a"}]"#),
        json!([{"role": "system", "content": "S"}, {"role": "user", "content": "a"}])
    );
    assert_eq!(
        of_messages(r#"[{"role": "user", "content": "a"}, {"role": "system", "content": "later"}]"#),
        json!([{"role": "system", "content": "S"}, {"role": "user", "content": "a"}, {"role": "system", "content": "later"}])
    );
    let single = |record: &str| told(EndpointKind::Chat, FileFormat::SingleTurn, record)["messages"].clone();
    assert_eq!(
        single(r#"{"text": "own", "role": "system"}"#),
        json!([{"role": "system", "content": "S\n\nown"}])
    );
    assert_eq!(
        single(r#"{"text": "a"}"#),
        json!([{"role": "system", "content": "S"}, {"role": "user", "content": "a"}])
    );
    let own = r#"{"turns": [{"role": "system", "text": "own"}, {"text": "a"}]}"#;
    let messages = told(EndpointKind::Messages, FileFormat::MultiTurn, own);
    assert_eq!(messages["system"], "S\n\nown");
    assert_eq!(messages["messages"], json!([{"role": "user", "content": "a"}]));
}

#[test]
fn fields_of_the_users_own_do_not_stand_in_for_it_unseen() {
    let error = |kind, extra: Value, opening: Opening| {
        let given = Given {
            kind,
            extra: object(extra),
            ..Given::default()
        };
        given.with_inputs(|inputs| {
            let dataset = Synthetic::of_single_turns(3, LengthDistribution::Fixed(4), None, 1);
            let draft = Draft::synthetic(inputs, dataset).expect("a draft").opened(opening);
            draft.map(|_| ()).map_err(|error| error.to_string())
        })
    };
    let system = || Opening::default().with_system("S");
    let pool = || Opening::default().with_pool(2, 2, 1);
    for (kind, extra, opening, key) in [
        (EndpointKind::Chat, json!({"messages": []}), system(), "messages"),
        (EndpointKind::Messages, json!({"system": "own"}), system(), "system"),
        (
            EndpointKind::Responses,
            json!({"instructions": "own"}),
            system(),
            "instructions",
        ),
        (EndpointKind::Completions, json!({"prompt": "own"}), pool(), "prompt"),
    ] {
        let told = error(kind, extra, opening).expect_err("it is refused");
        assert!(
            told.starts_with(&format!("endpoint.extra.{key}: it replaces")),
            "{told}"
        );
    }
    assert_eq!(error(EndpointKind::Messages, json!({"system": "own"}), pool()), Ok(()));
}
