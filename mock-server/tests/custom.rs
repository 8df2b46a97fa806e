//! The API that only this server has, for clients that are told what to send and where the answer is.

mod support;

use ringload_mock_server::{Api, Outcome};
use serde_json::Value;
use support::{Client, post, start};

#[test]
fn an_api_of_nobody_answers_in_its_own_words_and_its_streams_end_with_their_bodies() {
    let server = start(|options| (options.osl, options.keep_messages) = (None, true));
    let mut client = Client::connect(&server);
    client.send(&post("/custom", "", r#"{"p":"a b","n":2}"#));
    let whole = client.receive().expect("an answer");
    assert_eq!((whole.status, whole.json()["text"].as_str()), (200, Some("the of")));
    client.send(&post("/custom", "", r#"{"p":["a","b c"],"n":2,"stream":true}"#));
    let response = client.receive().expect("a stream");
    let event = |data| serde_json::from_str::<Value>(data).expect("JSON");
    let events: Vec<Value> = response.data().into_iter().map(event).collect();
    let texts: Vec<&str> = events.iter().filter_map(|event| event["text"].as_str()).collect();
    assert_eq!(texts, ["the", " of", ""], "no mark behind the counts: {events:?}");
    assert_eq!(events[2]["usage"]["completion_tokens"], 2);
    client.send(&post("/custom", "", r#"{"prompt":"a"}"#));
    assert_eq!(client.receive().expect("an answer").status, 400);
    let ledger = server.ledger();
    let read: Vec<(Api, u64, u32)> = ledger
        .iter()
        .map(|entry| (entry.api, entry.prompt_words, entry.tokens_sent))
        .collect();
    assert_eq!(read[..2], [(Api::Custom, 2, 2), (Api::Custom, 3, 2)]);
    assert_eq!(ledger[2].outcome, Outcome::Rejected);
}
