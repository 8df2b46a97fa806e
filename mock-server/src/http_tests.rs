//! Tests of the request parser: the same requests however the bytes are split, and mistakes refused.

use proptest::prelude::*;

use super::*;

/// Feeds `pieces` in order as a connection does, and collects every complete request.
fn read_all<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<(Vec<Request>, usize), BadRequest> {
    let mut parser = Parser::new();
    let (mut pending, mut requests, mut continues) = (Vec::new(), Vec::new(), 0);
    for piece in pieces {
        pending.extend_from_slice(piece);
        loop {
            let (used, progress) = parser.advance(&pending)?;
            pending.drain(..used);
            match progress {
                Progress::NeedMore => break,
                Progress::NeedContinue => continues += 1,
                Progress::Complete => {
                    requests.push(parser.request().clone());
                    parser.start_next();
                }
            }
        }
    }
    Ok((requests, continues))
}

const SIZED: &[u8] = b"POST /v1/chat/completions?fault=no-done HTTP/1.1\r\nHost: a\r\nX-Request-ID: r-1\r\n\
    x-correlation-id: s-1\r\nAuthorization: Bearer k\r\nContent-Length: 11\r\n\r\n{\"a\": true}";
const CHUNKED: &[u8] =
    b"POST /flush_cache HTTP/1.1\r\nTransfer-Encoding: Chunked\r\nConnection: keep-alive, Close\r\n\r\n\
    5;ext=1\r\nhello\r\n1\r\n \r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
const EMPTY: &[u8] = b"\r\nGET /health HTTP/1.1\r\nx-mock-fault: status:503\r\n\r\n";

fn pipelined() -> Vec<u8> {
    [SIZED, CHUNKED, EMPTY, SIZED].concat()
}

#[test]
fn pipelined_requests_come_out_one_by_one() {
    let (requests, continues) = read_all([&pipelined()[..]]).expect("valid");
    assert_eq!(continues, 0);
    let [sized, chunked, empty, again] = &requests[..] else {
        panic!("four requests, not {requests:?}")
    };
    assert_eq!(sized.method, Method::Post);
    assert_eq!(
        (sized.path.as_str(), sized.query.as_str()),
        ("/v1/chat/completions", "fault=no-done")
    );
    assert_eq!((sized.request_id.as_str(), sized.session.as_str()), ("r-1", "s-1"));
    assert_eq!(sized.authorization, "Bearer k");
    assert_eq!(sized.content_length, Some(11));
    assert_eq!(sized.body, b"{\"a\": true}");
    assert!(!sized.close);
    assert_eq!(chunked.body, b"hello 0123456789");
    assert!(chunked.close && chunked.content_length.is_none() && chunked.request_id.is_empty());
    assert_eq!((empty.method, empty.fault.as_str()), (Method::Get, "status:503"));
    assert!(empty.body.is_empty());
    assert_eq!(again, sized);
}

#[test]
fn two_pieces_give_the_same_requests_at_every_place_of_the_cut() {
    let bytes = pipelined();
    let whole = read_all([&bytes[..]]).expect("valid");
    for cut in 0..=bytes.len() {
        assert_eq!(
            read_all([&bytes[..cut], &bytes[cut..]]).as_ref(),
            Ok(&whole),
            "cut at {cut}"
        );
    }
}

proptest! {
    #[test]
    fn any_split_gives_the_same_requests(
        body in proptest::collection::vec(any::<u8>(), 0..300),
        chunks in proptest::collection::vec(1_usize..50, 1..20),
        cuts in proptest::collection::vec(1_usize..40, 1..60),
    ) {
        let mut bytes = SIZED.to_vec();
        bytes.extend_from_slice(b"POST /x HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n");
        let mut rest = &body[..];
        for size in chunks.iter().cycle().take(body.len()) {
            let (chunk, behind) = rest.split_at((*size).min(rest.len()));
            if !chunk.is_empty() {
                bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                bytes.extend_from_slice(chunk);
                bytes.extend_from_slice(b"\r\n");
            }
            rest = behind;
        }
        prop_assert!(rest.is_empty());
        bytes.extend_from_slice(b"0\r\n\r\n");
        bytes.extend_from_slice(EMPTY);
        let (requests, _) = read_all([&bytes[..]]).expect("valid");
        prop_assert_eq!(requests.len(), 3);
        prop_assert_eq!(&requests[1].body, &body);
        let mut pieces = Vec::new();
        let mut rest = &bytes[..];
        for size in cuts.iter().cycle() {
            let (piece, behind) = rest.split_at((*size).min(rest.len()));
            pieces.push(piece);
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(read_all(pieces).expect("valid").0, requests);
    }

    #[test]
    fn no_input_makes_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = read_all([&bytes[..]]);
        let mut request = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        request.extend_from_slice(&bytes);
        let _ = read_all([&request[..]]);
    }
}

#[test]
fn a_client_that_expects_continue_is_told_once_and_only_while_the_body_is_missing() {
    let head: &[u8] = b"POST / HTTP/1.1\r\nexpect: 100-Continue\r\ncontent-length: 4\r\n\r\n";
    let (requests, continues) = read_all([head, b"ab", b"cd"]).expect("valid");
    assert_eq!((requests[0].body.as_slice(), continues), (&b"abcd"[..], 1));
    let (requests, continues) = read_all([&[head, b"abcd"].concat()[..]]).expect("valid");
    assert_eq!((requests.len(), continues), (1, 0));
}

#[test]
fn mistakes_are_refused() {
    let refused = |bytes: &[u8]| read_all([bytes]).expect_err("refused");
    assert_eq!(refused(b"GET / HTTP/1.0\r\n\r\n"), BadRequest::Version);
    assert_eq!(refused(b"GET / HTTP/2.0\r\n\r\n"), BadRequest::Version);
    assert!(matches!(refused(b"\x16\x03\x01\x02"), BadRequest::Head(_)));
    for length in [
        "+1",
        "-1",
        "1, 1",
        "",
        "0x1",
        "1\r\ncontent-length: 2",
        "99999999999999999999999",
    ] {
        let head = format!("POST / HTTP/1.1\r\ncontent-length: {length}\r\n\r\n");
        assert_eq!(refused(head.as_bytes()), BadRequest::ContentLength, "{length}");
    }
    let huge = format!("POST / HTTP/1.1\r\ncontent-length: {}\r\n\r\n", BODY_BYTES_MAX + 1);
    assert_eq!(refused(huge.as_bytes()), BadRequest::BodyTooLarge);
    let chunked = |rest: &str| format!("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n{rest}");
    assert_eq!(
        refused(chunked("content-length: 3\r\n\r\n").as_bytes()),
        BadRequest::TransferEncoding
    );
    assert_eq!(
        refused(b"POST / HTTP/1.1\r\ntransfer-encoding: gzip, chunked\r\n\r\n"),
        BadRequest::TransferEncoding
    );
    assert_eq!(refused(chunked("\r\nzz\r\n").as_bytes()), BadRequest::Chunk);
    assert_eq!(refused(chunked("\r\n3\r\nabcX").as_bytes()), BadRequest::Chunk);
    assert_eq!(
        refused(chunked("\r\nffffffff\r\n").as_bytes()),
        BadRequest::BodyTooLarge
    );
    let long = format!("GET / HTTP/1.1\r\nx: {}", "a".repeat(HEAD_BYTES_MAX));
    assert_eq!(refused(long.as_bytes()), BadRequest::HeadTooLarge);
}
