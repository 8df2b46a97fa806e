//! The bodies of each API, byte by byte: keys in the order of the peer.

use super::*;
use crate::dataset::{Conversation, FileFormat, Written};

/// The body of the one turn of a conversation.
fn body_of(given: &Given, turn: Turn<'static>) -> String {
    let conversation = Conversation {
        id: None,
        turns: vec![turn],
    };
    let images = given.make([conversation]);
    String::from_utf8(images[0].body().to_vec()).expect("JSON is text")
}

fn given(kind: EndpointKind, streaming: bool) -> Given {
    Given {
        kind,
        streaming,
        ..Given::default()
    }
}

fn turn(output_tokens: Option<u32>) -> Turn<'static> {
    Turn {
        text: "a b".into(),
        output_tokens,
        ..Turn::default()
    }
}

fn written(written: Written) -> Turn<'static> {
    Turn {
        written: Some(Box::new(written)),
        ..turn(Some(8))
    }
}

fn passages() -> Turn<'static> {
    written(Written {
        passages: vec!["c".into(), "d".into()],
        ..Written::default()
    })
}

#[test]
fn conversations_take_models_in_turn_in_all_their_turns_and_whatever_the_threads() {
    let given = Given {
        models: vec!["a".into(), "b \"2\"".into(), "c".into()],
        entries: 7,
        turns: 2,
        ..Given::default()
    };
    let images = given.render().expect("valid inputs");
    for image in images.entries.iter() {
        let body: Value = serde_json::from_slice(image.body()).expect("JSON");
        assert_eq!(body["model"], given.models[image.conversation as usize % 3]);
    }
    let on = |threads| {
        given.with_inputs(|inputs| {
            let dataset = Synthetic::of_single_turns(7, LengthDistribution::Fixed(4), None, 1);
            let images = Draft::synthetic(inputs, dataset)
                .expect("valid inputs")
                .render_on(threads);
            images
                .entries
                .iter()
                .map(|image| image.body().to_vec())
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(on(1), on(4));
    for kind in [
        EndpointKind::Completions,
        EndpointKind::Responses,
        EndpointKind::Messages,
        EndpointKind::Embeddings,
        EndpointKind::CohereRankings,
        EndpointKind::NimRankings,
    ] {
        let streaming = kind.makes_tokens();
        let given = Given {
            kind,
            streaming,
            models: vec!["a".into(), "b".into()],
            ..Given::default()
        };
        let turn = || match kind.ranks() {
            true => passages(),
            false => turn(None),
        };
        let bodies = given.with_inputs(|inputs| {
            let parts = Parts::new(inputs).expect("the inputs are sound");
            [0, 1, 2].map(|number| {
                let image = parts.image(number, 0, &turn(), None, &mut Scratch::default());
                let body: Value = serde_json::from_slice(image.body()).expect("JSON");
                body["model"].clone()
            })
        });
        assert_eq!(bodies, ["a", "b", "a"], "{}", kind.as_str());
    }
}

#[test]
fn bodies_have_the_keys_of_their_api_in_its_order() {
    use EndpointKind::*;
    let usage = r#""stream_options":{"include_usage":true}"#;
    for (kind, streaming, turn, expected) in [
        (Completions, true, turn(Some(8)), format!(r#"{{"prompt":"a b","model":"mock-model","stream":true,"max_tokens":8,{usage}}}"#)),
        (Completions, false, turn(None), r#"{"prompt":"a b","model":"mock-model","stream":false}"#.to_owned()),
        (
            Responses,
            true,
            turn(Some(8)),
            r#"{"input":[{"role":"user","content":"a b","type":"message"}],"model":"mock-model","stream":true,"max_output_tokens":8}"#.to_owned(),
        ),
        (
            Messages,
            true,
            turn(Some(8)),
            r#"{"model":"mock-model","messages":[{"role":"user","content":"a b"}],"max_tokens":8,"stream":true}"#.to_owned(),
        ),
        (
            Messages,
            false,
            turn(None),
            r#"{"model":"mock-model","messages":[{"role":"user","content":"a b"}],"max_tokens":1024}"#.to_owned(),
        ),
        (Embeddings, false, turn(Some(8)), r#"{"model":"mock-model","input":["a b"]}"#.to_owned()),
        (CohereRankings, false, passages(), r#"{"model":"mock-model","query":"a b","documents":["c","d"]}"#.to_owned()),
        (HfTeiRankings, false, passages(), r#"{"query":"a b","texts":["c","d"]}"#.to_owned()),
        (
            NimRankings,
            false,
            passages(),
            r#"{"model":"mock-model","query":{"text":"a b"},"passages":[{"text":"c"},{"text":"d"}]}"#.to_owned(),
        ),
    ] {
        assert_eq!(body_of(&given(kind, streaming), turn), expected, "{kind:?}");
    }
}

#[test]
fn responses_ask_for_counts_only_where_they_are_depended_on() {
    let given = Given {
        use_server_token_count: true,
        ..given(EndpointKind::Responses, true)
    };
    let body = body_of(&given, turn(None));
    assert!(
        body.ends_with(r#""stream":true,"stream_options":{"include_usage":true}}"#),
        "{body}"
    );
}

#[test]
fn several_texts_are_a_list_where_texts_are_asked_for_and_parts_where_messages_are() {
    let texts = || {
        written(Written {
            more_texts: vec!["c".into()],
            ..Written::default()
        })
    };
    for (kind, part) in [
        (EndpointKind::Completions, r#""prompt":["a b","c"]"#),
        (EndpointKind::Embeddings, r#""input":["a b","c"]"#),
        (
            EndpointKind::Responses,
            r#""content":[{"type":"input_text","text":"a b"},{"type":"input_text","text":"c"}]"#,
        ),
        (
            EndpointKind::Messages,
            r#""content":[{"type":"text","text":"a b"},{"type":"text","text":"c"}]"#,
        ),
        // The query and what there is to rank.
        (EndpointKind::CohereRankings, r#""query":"a b","documents":["c"]"#),
    ] {
        let body = body_of(&given(kind, false), texts());
        assert!(body.contains(part), "{kind:?}: {body}");
    }
}

#[test]
fn system_and_tools_have_the_place_that_the_api_gives_them() {
    let talk = || {
        written(Written {
            system: Some("s".into()),
            tools: Some(r#"[{"type":"f"}]"#.into()),
            ..Written::default()
        })
    };
    assert_eq!(
        body_of(&given(EndpointKind::Messages, true), talk()),
        r#"{"model":"mock-model","messages":[{"role":"user","content":"a b"}],"max_tokens":8,"stream":true,"system":"s","tools":[{"type":"f"}]}"#
    );
    assert_eq!(
        body_of(&given(EndpointKind::Responses, false), talk()),
        r#"{"input":[{"role":"user","content":"a b","type":"message"}],"model":"mock-model","stream":false,"instructions":"s","max_output_tokens":8,"tools":[{"type":"f"}]}"#
    );
}

#[test]
fn fields_of_the_user_win_in_every_api() {
    let mut given = given(EndpointKind::Messages, false);
    given.extra = json!({"max_tokens": 7, "system": "own", "temperature": 0.5})
        .as_object()
        .cloned()
        .expect("an object");
    assert_eq!(
        body_of(&given, turn(None)),
        r#"{"model":"mock-model","messages":[{"role":"user","content":"a b"}],"max_tokens":7,"system":"own","temperature":0.5}"#
    );
}

#[test]
fn what_an_api_cannot_say_is_refused_with_the_reason() {
    let refused = |kind, format, record: &str| {
        let result = given(kind, false).draft(format, &[record], |draft| draft.map(|_| ()));
        result.expect_err("it does not suit").to_string()
    };
    let message = refused(
        EndpointKind::Completions,
        FileFormat::MultiTurn,
        r#"{"session_id": "c7", "turns": [{"text": "a"}, {"text": "b"}]}"#,
    );
    assert!(
        message.contains("c7") && message.contains("2 turns") && message.contains("completions"),
        "{message}"
    );
    let with_messages = r#"{"messages": [{"role": "user"}]}"#;
    assert!(refused(EndpointKind::Embeddings, FileFormat::MooncakeTrace, with_messages).contains("`messages`"));
    let with_role = r#"{"text": "a", "role": "tool"}"#;
    assert!(refused(EndpointKind::Completions, FileFormat::SingleTurn, with_role).contains("`role`"));
    let with_system = r#"{"turns": [{"role": "system", "text": "s"}, {"text": "a"}]}"#;
    assert!(refused(EndpointKind::Embeddings, FileFormat::MultiTurn, with_system).contains("a system message"));
    assert!(refused(EndpointKind::NimRankings, FileFormat::SingleTurn, r#"{"text": "a"}"#).contains("no passages"));
    let extra = Given {
        turns: 2,
        extra: json!({"input": "x"}).as_object().cloned().expect("an object"),
        ..given(EndpointKind::Responses, false)
    };
    assert!(extra.error().contains("endpoint.extra.input"), "{}", extra.error());
}

#[test]
fn probes_ask_for_one_token_in_the_form_of_the_api() {
    let probe = |kind| String::from_utf8(probe_body(kind, "m", false, None, "Lo").expect("a body")).expect("text");
    assert_eq!(
        probe(EndpointKind::Chat),
        r#"{"messages":[{"role":"user","content":"Lo"}],"model":"m","stream":false,"max_completion_tokens":1}"#
    );
    assert_eq!(
        probe(EndpointKind::Messages),
        r#"{"model":"m","messages":[{"role":"user","content":"Lo"}],"max_tokens":1}"#
    );
    assert_eq!(probe(EndpointKind::HfTeiRankings), r#"{"query":"Lo","texts":["Lo"]}"#);
}
