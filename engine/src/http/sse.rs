//! Event boundaries in a byte stream (WHATWG HTML, section 9.2), and the fields of one event.
//!
//! Lines end in LF, CRLF or a lone CR. Work is on bytes throughout: a character cut by a read is whole again by the time
//! its event is.

use memchr::{memchr, memchr2};

use super::error::HttpError;
use super::scratch::{Carry, ScratchPool};

/// Largest event, field names and line ends included.
pub const MAX_EVENT_BYTES: usize = 1 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Finds the blank lines of a stream that arrives in pieces.
#[derive(Debug, Clone, Copy)]
pub(super) struct EventSplitter {
    /// The last byte was a CR: an LF right behind it belongs to the same line end.
    after_cr: bool,
    /// No byte of the current line has been seen.
    line_is_empty: bool,
    /// No event has ended: the current one may start with a byte order mark.
    first: bool,
}

impl EventSplitter {
    pub(super) fn new() -> Self {
        Self {
            after_cr: false,
            line_is_empty: true,
            first: true,
        }
    }

    /// Takes the next piece of the stream and hands every event it completes to `consumer`, in place where the piece
    /// holds it whole. What is left over moves to `carry`.
    ///
    /// # Errors
    /// [`HttpError::EventTooLarge`] as soon as the current event is known to pass [`MAX_EVENT_BYTES`].
    pub(super) fn feed(
        &mut self,
        piece: &[u8],
        carry: &mut Carry,
        pool: &mut ScratchPool,
        mut consumer: impl Consumer,
    ) -> Result<(), HttpError> {
        let mut at = 0;
        loop {
            if self.after_cr && carry.is_empty() && piece.get(at) == Some(&b'\n') {
                // The other half of the blank line that ended the event before.
                self.after_cr = false;
                at += 1;
            }
            if carry.is_empty()
                && at < piece.len()
                && let Some(len) = self.recognised(&piece[at..], &mut consumer, pool)
            {
                at += len;
                self.after_cr = piece[at - 1] == b'\r';
                continue;
            }
            let Some(end) = self.next_end(piece, at) else {
                let rest = &piece[at..];
                if carry.len() + rest.len() > MAX_EVENT_BYTES {
                    return Err(HttpError::EventTooLarge);
                }
                carry.append(rest, pool);
                return Ok(());
            };
            let part = &piece[at..end];
            at = end;
            if carry.len() + part.len() > MAX_EVENT_BYTES {
                return Err(HttpError::EventTooLarge);
            }
            let wanted = if carry.is_empty() {
                consumer.event(self.take_event(part), pool)
            } else {
                carry.append(part, pool);
                let wanted = match self.recognised(carry.bytes(), &mut consumer, pool) {
                    Some(_) => Wanted::More,
                    None => consumer.event(self.take_event(carry.bytes()), pool),
                };
                carry.release(pool);
                wanted
            };
            if wanted == Wanted::Nothing {
                return Ok(());
            }
        }
    }

    /// The stream is over: bytes without a blank line behind them are a last event.
    pub(super) fn finish(&mut self, carry: &mut Carry, pool: &mut ScratchPool, mut consumer: impl Consumer) {
        if !carry.is_empty() {
            consumer.event(self.take_event(carry.bytes()), pool);
            carry.release(pool);
        }
    }

    /// The length of the event at the start of `bytes`, if the consumer took it as one that it knows.
    fn recognised(&mut self, bytes: &[u8], consumer: &mut impl Consumer, pool: &mut ScratchPool) -> Option<usize> {
        // The mark belongs to the stream, not to the event: what is known of an event that begins with one is not true here.
        if self.first && bytes.starts_with(BYTE_ORDER_MARK) {
            return None;
        }
        let len = consumer.recognise(bytes, pool)?;
        self.first = false;
        Some(len)
    }

    fn take_event<'a>(&mut self, bytes: &'a [u8]) -> Event<'a> {
        let first = std::mem::replace(&mut self.first, false);
        match bytes.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) if first => Event(rest),
            _ => Event(bytes),
        }
    }

    /// The position behind the next blank line at or after `at`.
    fn next_end(&mut self, piece: &[u8], mut at: usize) -> Option<usize> {
        loop {
            if self.after_cr {
                match piece.get(at) {
                    Some(b'\n') => at += 1,
                    Some(_) => {}
                    None => return None,
                }
                self.after_cr = false;
            }
            let line = piece.get(at..).filter(|line| !line.is_empty())?;
            let Some(len) = memchr2(b'\n', b'\r', line) else {
                self.line_is_empty = false;
                return None;
            };
            let blank = self.line_is_empty && len == 0;
            self.line_is_empty = true;
            self.after_cr = line[len] == b'\r';
            at += len + 1;
            if blank {
                return Some(at);
            }
        }
    }
}

/// Who takes the events.
pub(super) trait Consumer {
    /// Takes the event at the start of `bytes`, if it knows where it ends without looking for the blank line; answers its length. It must not be
    /// longer than [`MAX_EVENT_BYTES`], and end where [`EventSplitter`] would end it. After an event that was taken so, more are wanted.
    fn recognise(&mut self, bytes: &[u8], pool: &mut ScratchPool) -> Option<usize>;

    /// Takes an event; answers whether it wants further events.
    fn event(&mut self, event: Event<'_>, pool: &mut ScratchPool) -> Wanted;
}

/// Whether a consumer of events wants more of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Further events.
    More,
    /// No further event of this stream.
    Nothing,
}

/// The lines of one event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event<'a>(&'a [u8]);

/// What the lines of an event say.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Fields<'a> {
    /// The first `data` line.
    data: &'a [u8],
    /// How many `data` lines there are.
    data_lines: u32,
    /// Whether the event's type is `error`, in any case.
    pub(super) is_error: bool,
    /// The last comment.
    pub(super) comment: Option<&'a [u8]>,
}

impl<'a> Event<'a> {
    /// The whole event, with its blank line unless the stream ended before it.
    pub(super) fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Sorts the lines. Fields other than `data` and `event` have no meaning here.
    pub(super) fn fields(self) -> Fields<'a> {
        let mut fields = Fields::default();
        for line in Lines(self.0) {
            match field(line) {
                (b"data", value) => {
                    if fields.data_lines == 0 {
                        fields.data = value;
                    }
                    fields.data_lines += 1;
                }
                (b"event", value) => fields.is_error = value.trim_ascii().eq_ignore_ascii_case(b"error"),
                (b"", value) if line.first() == Some(&b':') => fields.comment = Some(value),
                _ => {}
            }
        }
        fields
    }

    /// Where the data begins in [`Event::bytes`]; `None` unless it is one line and the event has its blank line.
    pub(super) fn data_at(self, fields: &Fields<'_>) -> Option<usize> {
        // CR LF would be one line end: of a blank line that ends so, the event has the CR alone.
        let ended = matches!(self.0, [.., b'\n', b'\n' | b'\r'] | [.., b'\r', b'\r']);
        (ended && fields.data_lines == 1).then(|| fields.data.as_ptr().addr() - self.0.as_ptr().addr())
    }

    /// Calls `read` with the event's data. Several data lines are joined by LF in a borrowed buffer; one is read in place.
    pub(super) fn with_data<R>(self, fields: &Fields<'_>, pool: &mut ScratchPool, read: impl FnOnce(&[u8]) -> R) -> R {
        if fields.data_lines < 2 {
            return read(fields.data);
        }
        let mut joined = pool.take();
        let values = Lines(self.0).map(field).filter(|(name, _)| *name == b"data");
        for (index, (_, value)) in values.enumerate() {
            if index > 0 {
                joined.push(b'\n');
            }
            joined.extend_from_slice(value);
        }
        let result = read(&joined);
        pool.put(joined);
        result
    }
}

/// Name and value of a line: the first colon parts them, and one space behind it is not part of the value.
fn field(line: &[u8]) -> (&[u8], &[u8]) {
    match memchr(b':', line) {
        Some(colon) => {
            let value = &line[colon + 1..];
            (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
        }
        None => (line, &line[line.len()..]),
    }
}

/// The lines of a slice without their ends.
struct Lines<'a>(&'a [u8]);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let Some(len) = memchr2(b'\n', b'\r', self.0) else {
            return Some(std::mem::take(&mut self.0));
        };
        let line = &self.0[..len];
        let skip = if self.0[len..].starts_with(b"\r\n") { 2 } else { 1 };
        self.0 = &self.0[len + skip..];
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A consumer that knows no event beforehand.
    struct Take<F>(F);

    impl<F: FnMut(Event<'_>, &mut ScratchPool) -> Wanted> Consumer for Take<F> {
        fn recognise(&mut self, _: &[u8], _: &mut ScratchPool) -> Option<usize> {
            None
        }

        fn event(&mut self, event: Event<'_>, pool: &mut ScratchPool) -> Wanted {
            (self.0)(event, pool)
        }
    }

    fn take<F: FnMut(Event<'_>, &mut ScratchPool) -> Wanted>(event: F) -> Take<F> {
        Take(event)
    }

    /// Data, error flag and comment of each event that has any of them.
    type Seen = Vec<(String, bool, Option<String>)>;

    fn note(seen: &mut Seen, event: Event<'_>, pool: &mut ScratchPool) -> Wanted {
        let fields = event.fields();
        let data = event.with_data(&fields, pool, |data| String::from_utf8_lossy(data).into_owned());
        let comment = fields.comment.map(|text| String::from_utf8_lossy(text).into_owned());
        if !data.is_empty() || fields.is_error || comment.is_some() {
            seen.push((data, fields.is_error, comment));
        }
        Wanted::More
    }

    fn events_of(pieces: &[&[u8]]) -> Seen {
        let mut pool = ScratchPool::new(2, 256);
        let (mut splitter, mut carry, mut seen) = (EventSplitter::new(), Carry::default(), Seen::new());
        for piece in pieces {
            splitter
                .feed(
                    piece,
                    &mut carry,
                    &mut pool,
                    take(|event, pool| note(&mut seen, event, pool)),
                )
                .unwrap();
        }
        splitter.finish(&mut carry, &mut pool, take(|event, pool| note(&mut seen, event, pool)));
        assert_eq!(pool.idle(), 2, "a buffer was not given back");
        seen
    }

    /// The events of `text`, checked to be the same for every cut in two and for single bytes.
    fn events(text: &str) -> Seen {
        let bytes = text.as_bytes();
        let whole = events_of(&[bytes]);
        for cut in 0..bytes.len() {
            assert_eq!(events_of(&[&bytes[..cut], &bytes[cut..]]), whole, "cut at {cut}");
        }
        assert_eq!(events_of(&bytes.chunks(1).collect::<Vec<_>>()), whole);
        whole
    }

    fn data(text: &str) -> Vec<String> {
        events(text).into_iter().map(|(data, ..)| data).collect()
    }

    #[test]
    fn s01_two_events_in_one_read_are_two_events() {
        assert_eq!(data("data: a\n\ndata: b\n\n"), ["a", "b"]);
    }

    #[test]
    fn s03_several_data_lines_are_joined_by_line_feeds() {
        assert_eq!(
            data("data: a\r\ndata:\rdata\ndata:  b\r\r\ndata: c\n\n"),
            ["a\n\n\n b", "c"]
        );
    }

    #[test]
    fn s05_all_three_line_ends_end_lines() {
        for end in ["\n", "\r\n", "\r"] {
            let text = format!("data: a{end}id: 1{end}{end}data: b{end}{end}{end}{end}data: c{end}{end}");
            assert_eq!(data(&text), ["a", "b", "c"], "{end:?}");
        }
        assert_eq!(data("data: a\r\n\rdata: b\n\r\ndata: c\r\n\n"), ["a", "b", "c"]);
    }

    #[test]
    fn nothing_is_carried_between_whole_events_whatever_their_line_ends() {
        for end in ["\n", "\r\n", "\r"] {
            let (mut splitter, mut carry) = (EventSplitter::new(), Carry::default());
            let mut pool = ScratchPool::new(1, 64);
            for _ in 0..3 {
                let event = format!("data: a{end}{end}");
                splitter
                    .feed(event.as_bytes(), &mut carry, &mut pool, take(|_, _| Wanted::More))
                    .unwrap();
                assert_eq!(pool.idle(), 1, "{end:?}");
            }
        }
    }

    #[test]
    fn s06_at_most_one_space_is_taken_from_a_value() {
        assert_eq!(data("data:a\n\ndata: b\n\ndata:  c\n\n"), ["a", "b", " c"]);
    }

    #[test]
    fn s08_comments_and_blank_lines_are_not_data() {
        let seen = events(": ping\n\n\n\ndata: a\n: note\n\n");
        assert_eq!(
            seen,
            [
                (String::new(), false, Some("ping".into())),
                ("a".into(), false, Some("note".into()))
            ]
        );
    }

    #[test]
    fn s10_a_character_cut_by_a_read_is_whole_in_its_event() {
        assert_eq!(data("data: 日本語🚀\n\ndata: é\n\n"), ["日本語🚀", "é"]);
    }

    #[test]
    fn the_error_type_is_known_in_any_case_and_the_last_type_counts() {
        assert!(events("event: Error\ndata: x\n\n")[0].1);
        assert!(events("event:ERROR \n\n")[0].1);
        assert!(!events("event: errors\ndata: x\n\n")[0].1);
        assert!(!events("event: error\nevent: token\ndata: x\n\n")[0].1);
        assert!(!events("event: error\n\ndata: x\n\n")[1].1);
    }

    #[test]
    fn a_byte_order_mark_counts_only_at_the_start_of_the_stream() {
        assert_eq!(data("\u{feff}data: a\n\n\u{feff}data: b\n\ndata: c\n\n"), ["a", "c"]);
        assert_eq!(data("\u{feff}\n\ndata: a\n\n"), ["a"]);
    }

    #[test]
    fn what_is_left_at_the_end_is_a_last_event() {
        assert_eq!(data("data: a\n\ndata: b\n"), ["a", "b"]);
        assert_eq!(data("data: a"), ["a"]);
        assert_eq!(data("data: a\r"), ["a"]);
    }

    #[test]
    fn lines_without_a_colon_and_unknown_fields_are_harmless() {
        assert_eq!(data("nonsense\nretry: 5\ndatabase: 1\ndata: a\n\n"), ["a"]);
    }

    #[test]
    fn an_event_at_the_bound_passes_and_one_above_fails_however_it_is_split() {
        let of_size = |bytes: usize| [b"data:".to_vec(), vec![b'x'; bytes - 7], b"\n\n".to_vec()].concat();
        let feed = |wire: &[u8], step: usize| {
            let (mut splitter, mut carry) = (EventSplitter::new(), Carry::default());
            let (mut pool, mut events) = (ScratchPool::new(1, 64), 0);
            wire.chunks(step)
                .try_for_each(|piece| {
                    splitter.feed(
                        piece,
                        &mut carry,
                        &mut pool,
                        take(|_, _| {
                            events += 1;
                            Wanted::More
                        }),
                    )
                })
                .map(|()| events)
        };
        for step in [4096, MAX_EVENT_BYTES - 1, usize::MAX] {
            assert_eq!(feed(&of_size(MAX_EVENT_BYTES), step), Ok(1));
            assert_eq!(feed(&of_size(MAX_EVENT_BYTES + 1), step), Err(HttpError::EventTooLarge));
        }
    }

    #[test]
    fn a_consumer_that_wants_nothing_gets_nothing_more() {
        let mut events = 0;
        EventSplitter::new()
            .feed(
                b"data: a\n\ndata: b\n\n",
                &mut Carry::default(),
                &mut ScratchPool::new(0, 64),
                take(|_, _| {
                    events += 1;
                    Wanted::Nothing
                }),
            )
            .unwrap();
        assert_eq!(events, 1);
    }
}
