//! Chunked bodies (RFC 9112, section 7.1) as spans of payload.
//!
//! Chunk extensions and trailers are skipped. Line ends must be CRLF: a bare LF is refused, because clients disagree
//! about it and a decoder that guesses can put a connection out of step without anyone noticing. Blanks between the
//! size and the line end are tolerated, since some servers pad their sizes.

use memchr::memchr2;

use super::error::HttpError;

/// Longest chunk size line, extensions included, and longest trailer section.
pub(super) const MAX_LINE_BYTES: u32 = 16 * 1024;

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The first digit of a size.
    SizeStart,
    /// More digits, or the end of the size.
    Size,
    /// Anything up to CR: blanks or an extension.
    Extension,
    /// LF of the size line.
    SizeLf,
    /// Payload.
    Data,
    /// CR after the payload.
    DataCr,
    /// LF after the payload.
    DataLf,
    /// The start of a trailer line, or CR of the blank line that ends the body.
    TrailerStart,
    /// Anything up to CR.
    TrailerLine,
    /// LF of a trailer line.
    TrailerLf,
    /// LF of the blank line that ends the body.
    EndLf,
    /// The body is over.
    Done,
}

/// An incremental decoder of one chunked body.
#[derive(Debug)]
pub(super) struct ChunkedDecoder {
    /// Size read so far, then payload bytes still to come.
    remaining: u64,
    /// Bytes of the current size line or of the trailer section.
    line_bytes: u32,
    state: State,
}

impl ChunkedDecoder {
    pub(super) fn new() -> Self {
        Self {
            remaining: 0,
            line_bytes: 0,
            state: State::SizeStart,
        }
    }

    /// Whether the blank line after the last chunk has been read.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads framing up to the next span of payload. Returns the bytes consumed and the span, which is empty only when
    /// the input or the body is used up.
    pub(super) fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<(usize, &'a [u8]), HttpError> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match self.state {
                State::Data => {
                    let rest = &bytes[at..];
                    let take = usize::try_from(self.remaining).map_or(rest.len(), |left| left.min(rest.len()));
                    self.remaining -= take as u64;
                    if self.remaining == 0 {
                        self.state = State::DataCr;
                    }
                    return Ok((at + take, &rest[..take]));
                }
                State::Extension | State::TrailerLine => {
                    let rest = &bytes[at..];
                    let skip = memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
                    self.count_line(skip)?;
                    at += skip;
                    if let Some(&end) = bytes.get(at) {
                        if end == b'\n' {
                            return Err(HttpError::BadChunk);
                        }
                        self.state = match self.state {
                            State::Extension => State::SizeLf,
                            _ => State::TrailerLf,
                        };
                        at += 1;
                    }
                }
                State::Done => break,
                State::DataCr if bytes[at..].starts_with(b"\r\n") => {
                    self.state = State::SizeStart;
                    at += 2;
                }
                State::SizeStart => match plain_size_line(&bytes[at..]) {
                    Some((size, len)) => {
                        self.remaining = size;
                        self.state = State::Data;
                        at += len;
                    }
                    None => {
                        self.framing_byte(byte)?;
                        at += 1;
                    }
                },
                _ => {
                    self.framing_byte(byte)?;
                    at += 1;
                }
            }
        }
        Ok((at, &[]))
    }

    /// One byte of a size or of a line end.
    fn framing_byte(&mut self, byte: u8) -> Result<(), HttpError> {
        self.state = match (self.state, byte) {
            (State::SizeStart | State::Size, _) if byte.is_ascii_hexdigit() => {
                if self.remaining > u64::MAX >> 4 {
                    return Err(HttpError::BadChunk);
                }
                self.count_line(1)?;
                self.remaining = self.remaining << 4 | u64::from(hex_value(byte));
                State::Size
            }
            (State::Size, b'\r') => State::SizeLf,
            (State::Size, b';' | b' ' | b'\t') => State::Extension,
            (State::SizeLf, b'\n') => {
                self.line_bytes = 0;
                if self.remaining == 0 {
                    State::TrailerStart
                } else {
                    State::Data
                }
            }
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::SizeStart,
            (State::TrailerStart, b'\r') => State::EndLf,
            (State::TrailerStart, _) if byte != b'\n' => {
                self.count_line(1)?;
                State::TrailerLine
            }
            (State::TrailerLf, b'\n') => State::TrailerStart,
            (State::EndLf, b'\n') => State::Done,
            _ => return Err(HttpError::BadChunk),
        };
        Ok(())
    }

    fn count_line(&mut self, bytes: usize) -> Result<(), HttpError> {
        self.line_bytes = self.line_bytes.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        if self.line_bytes > MAX_LINE_BYTES {
            return Err(HttpError::ChunkLineTooLarge);
        }
        Ok(())
    }
}

/// A size line at the start of `bytes` as nearly all of them are: up to seven digits, not zero, and CRLF. Size and length of the line.
fn plain_size_line(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut size = 0;
    for (at, &byte) in bytes.iter().take(8).enumerate() {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            b'\r' if size > 0 && bytes.get(at + 1) == Some(&b'\n') => return Some((size, at + 2)),
            _ => return None,
        };
        size = size << 4 | u64::from(digit);
    }
    None
}

/// Value of an ASCII hexadecimal digit.
fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        // Setting bit 5 lowers a letter.
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Payload, bytes consumed and whether the body ended, fed in pieces of `step` bytes.
    fn decode(wire: &[u8], step: usize) -> Result<(Vec<u8>, usize, bool), HttpError> {
        let mut decoder = ChunkedDecoder::new();
        let (mut payload, mut consumed) = (Vec::new(), 0);
        for piece in wire.chunks(step) {
            let mut at = 0;
            while at < piece.len() && !decoder.is_done() {
                let (used, span) = decoder.next(&piece[at..])?;
                payload.extend_from_slice(span);
                at += used;
            }
            consumed += at;
        }
        Ok((payload, consumed, decoder.is_done()))
    }

    /// The same result for the whole and for every piece size.
    fn decode_all_ways(wire: &[u8]) -> Result<(Vec<u8>, usize, bool), HttpError> {
        let whole = decode(wire, wire.len().max(1));
        for step in 1..wire.len() {
            assert_eq!(decode(wire, step), whole, "pieces of {step}");
        }
        whole
    }

    #[test]
    fn chunks_are_joined_and_bytes_after_the_end_are_left_alone() {
        let (payload, consumed, done) = decode_all_ways(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\nHTTP").unwrap();
        assert_eq!((payload.as_slice(), consumed, done), (&b"abcde"[..], 20, true));
    }

    #[test]
    fn h03_trailers_are_skipped() {
        let (payload, _, done) = decode_all_ways(b"1\r\na\r\n0\r\nX-Foo: bar\r\nY: z\r\n\r\n").unwrap();
        assert_eq!((payload.as_slice(), done), (&b"a"[..], true));
    }

    #[test]
    fn h04_extensions_upper_case_and_leading_zeros_are_accepted() {
        let (payload, _, done) =
            decode_all_ways(b"2;foo=bar\r\nab\r\n000A;x=\"1;2\"\r\n0123456789\r\n1  \r\nz\r\n00\r\n\r\n").unwrap();
        assert_eq!((payload.as_slice(), done), (&b"ab0123456789z"[..], true));
    }

    #[test]
    fn a_body_without_its_last_chunk_is_not_done() {
        assert!(!decode_all_ways(b"3\r\nabc\r\n").unwrap().2);
        assert!(!decode_all_ways(b"3\r\nabc\r\n0\r\n").unwrap().2);
    }

    #[test]
    fn broken_framing_is_refused() {
        for wire in [
            &b"\r\nabc"[..],
            b"g\r\n",
            b"-1\r\n",
            b"0x3\r\nabc",
            b";a=b\r\n",
            b"3\nabc\r\n",
            b"3;a\nabc\r\n",
            b"3\r\nabcd\r\n",
            b"3\r\nabc\n0\r\n",
            b"3\r\rabc",
            b"0\r\nX: y\n\r\n",
            b"0\r\n\n",
            b"0\r\n\rx",
        ] {
            assert_eq!(
                decode_all_ways(wire),
                Err(HttpError::BadChunk),
                "{:?}",
                wire.escape_ascii().to_string()
            );
        }
    }

    #[test]
    fn the_largest_size_is_held_and_one_more_digit_overflows() {
        let mut decoder = ChunkedDecoder::new();
        let (used, span) = decoder.next(b"FFFFFFFFFFFFFFFF\r\nab").unwrap();
        assert_eq!((used, span), (20, &b"ab"[..]));
        assert_eq!(decoder.remaining, u64::MAX - 2);
        assert_eq!(decode_all_ways(b"10000000000000000\r\n"), Err(HttpError::BadChunk));
    }

    #[test]
    fn size_lines_and_trailers_are_bounded() {
        let long = vec![b'0'; MAX_LINE_BYTES as usize + 1];
        assert_eq!(decode(&long, long.len()), Err(HttpError::ChunkLineTooLarge));
        assert_eq!(decode(&long, 1), Err(HttpError::ChunkLineTooLarge));
        let extension = [b"1;", long.as_slice()].concat();
        assert_eq!(decode(&extension, 7), Err(HttpError::ChunkLineTooLarge));
        let trailers = [
            b"0\r\n".to_vec(),
            b"A: 1234\r\n".repeat(MAX_LINE_BYTES as usize / 7 + 1),
        ]
        .concat();
        assert_eq!(decode(&trailers, 100), Err(HttpError::ChunkLineTooLarge));
        assert_eq!(decode(&trailers, trailers.len()), Err(HttpError::ChunkLineTooLarge));
    }

    #[test]
    fn the_bound_is_per_size_line_not_per_body() {
        let wire = [
            b"1;name=value\r\na\r\n".repeat(MAX_LINE_BYTES as usize / 4),
            b"0\r\n\r\n".to_vec(),
        ]
        .concat();
        let (payload, _, done) = decode(&wire, 1000).unwrap();
        assert_eq!((payload.len(), done), (MAX_LINE_BYTES as usize / 4, true));
    }
}
