//! Requests of conversations with several turns.

use super::*;
use crate::dataset::FileFormat;

#[test]
fn a_later_turn_is_a_request_of_its_own_message_and_tells_where_that_stands() {
    let given = |turns| Given {
        turns,
        ..Given::default()
    };
    let (one, three) = (given(1).render().unwrap(), given(3).render().unwrap());
    assert_eq!((one.entries.len(), three.entries.len()), (3, 9));
    for conversation in 0..3 {
        let images = three.conversations.images(conversation);
        assert_eq!(
            three.entries[images.start as usize].tail,
            one.entries[conversation as usize].tail
        );
        for (turn, at) in images.enumerate() {
            let (image, parsed) = (&three.entries[at as usize], parse(&three, at as usize));
            assert_eq!((image.conversation, image.turn), (conversation, turn as u32));
            let message: Value = serde_json::from_slice(image.message()).expect("a message is an object");
            assert_eq!(parsed.body["messages"], json!([message]));
            let mut request = Vec::new();
            let history = br#"{"role":"user","content":"before"},"#;
            let from = image.begin_with_history(history, &mut request);
            request.extend_from_slice(&image.tail[from..]);
            let (head, body) = request.split_at(request.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4);
            assert_eq!(head, format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
            let mut expected = parsed.body;
            expected["messages"] = json!([{"role": "user", "content": "before"}, message]);
            assert_eq!(String::from_utf8_lossy(body), expected.to_string());
        }
    }
}

#[test]
fn texts_of_any_kind_and_missing_output_lengths_come_out_right() {
    let text = "a \"quote\" \\ and\na line \u{1F600}";
    let record = json!({"turns": [{"text": text, "output_length": 7}, {"text": text}]}).to_string();
    let images = Given::default()
        .draft(FileFormat::MultiTurn, &[&record], |draft| draft.map(Draft::render))
        .unwrap();
    let (first, second) = (parse(&images, 0).body, parse(&images, 1).body);
    assert_eq!(first["messages"][0]["content"], text);
    assert_eq!(first["max_completion_tokens"], 7);
    assert_eq!(second.get("max_completion_tokens"), None);
}

#[test]
fn messages_of_the_users_own_cannot_stand_for_several_turns() {
    let given = |turns| Given {
        turns,
        extra: object(json!({"messages": []})),
        ..Given::default()
    };
    assert!(given(1).render().is_ok());
    assert!(given(2).error().starts_with("endpoint.extra.messages: "));
}
