//! Random streams, bodies and damage: how the bytes are split into reads decides nothing.

use proptest::prelude::*;

use super::*;

/// A piece of an event stream, sound or not.
fn stream_part() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec![ROLE, TOKEN, THOUGHT, FINISH, USAGE, DONE, ERROR, "{", ""]).prop_map(|data| events(&[data])),
        1 => prop::sample::select(vec![
            ": ping\n\n", "\n", "event: error\n", "event: x\n", "data: {\n", "data: }\n\n", "\r", "\r\n\r\n", "id: 4\n", "\u{feff}",
            "data: {\"error\":\ndata: true}\n\n", "retry\n\n",
        ]).prop_map(str::to_owned),
    ]
}

/// How a generated body is framed.
#[derive(Debug, Clone, Copy)]
enum Framing {
    Chunked(usize),
    Length,
    Close,
}

fn framing() -> impl Strategy<Value = Framing> {
    prop_oneof![
        (1usize..200).prop_map(Framing::Chunked),
        Just(Framing::Length),
        Just(Framing::Close)
    ]
}

fn framed(head: &str, body: &[u8], framing: Framing) -> Vec<u8> {
    let mut wire = format!("HTTP/1.1 {head}\r\n").into_bytes();
    match framing {
        Framing::Length => {
            wire.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
            wire.extend_from_slice(body);
        }
        Framing::Close => {
            wire.extend_from_slice(b"\r\n");
            wire.extend_from_slice(body);
        }
        Framing::Chunked(size) => {
            wire.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            for part in body.chunks(size) {
                wire.extend_from_slice(format!("{:x};n\r\n", part.len()).as_bytes());
                wire.extend_from_slice(part);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(b"0\r\nT: r\r\n\r\n");
        }
    }
    wire
}

/// `wire` in pieces that end at the given places.
fn pieces<'a>(wire: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(wire.len() + 1)).collect();
    cuts.sort_unstable();
    let mut from = 0;
    let mut pieces: Vec<&[u8]> = cuts
        .into_iter()
        .map(|cut| &wire[std::mem::replace(&mut from, cut)..cut])
        .collect();
    pieces.push(&wire[from..]);
    pieces
}

fn cuts() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    proptest::collection::vec(any::<prop::sample::Index>(), 1..12)
}

proptest! {
    #[test]
    fn every_split_of_a_stream_gives_the_same_facts(
        parts in proptest::collection::vec(stream_part(), 0..10), framing in framing(), crlf in any::<bool>(), cuts in cuts(),
    ) {
        let mut body = parts.concat();
        if crlf {
            body = body.replace('\n', "\r\n");
        }
        let wire = framed("200 OK\r\nContent-Type: text/event-stream", body.as_bytes(), framing);
        prop_assert_eq!(read(&pieces(&wire, &cuts), Then::Close), read(&[&wire], Then::Close));
    }

    #[test]
    fn every_split_of_a_plain_body_gives_the_same_facts(
        body in prop::sample::select(vec![ANSWER, ERROR, "", "text", "{\"object\":\"chat.completion\"}"]),
        head in prop::sample::select(vec!["200 OK", "100 Go\r\n\r\nHTTP/1.1 201 OK", "500 Oops", "302 F\r\nLocation: /", "204 No"]),
        framing in framing(), cuts in cuts(),
    ) {
        let wire = framed(head, body.as_bytes(), framing);
        prop_assert_eq!(read(&pieces(&wire, &cuts), Then::Close), read(&[&wire], Then::Close));
    }

    #[test]
    fn a_damaged_response_gives_the_same_verdict_in_every_split(
        parts in proptest::collection::vec(stream_part(), 0..4), framing in framing(),
        at in any::<prop::sample::Index>(), byte in any::<u8>(), cuts in cuts(),
    ) {
        let mut wire = framed("200 OK\r\nContent-Type: text/event-stream", parts.concat().as_bytes(), framing);
        let at = at.index(wire.len());
        wire[at] = byte;
        prop_assert_eq!(read(&pieces(&wire, &cuts), Then::Close), read(&[&wire], Then::Close));
    }

    #[test]
    fn random_bytes_never_panic_and_never_depend_on_the_split(
        bytes in proptest::collection::vec(any::<u8>(), 0..300), head in any::<bool>(), cuts in cuts(),
    ) {
        let wire = if head { [STREAM_HEAD.as_bytes(), &bytes].concat() } else { bytes };
        prop_assert_eq!(read(&pieces(&wire, &cuts), Then::Close), read(&[&wire], Then::Close));
    }
}
