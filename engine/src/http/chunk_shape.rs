//! Recognises the chunks of a stream by the bytes that they have in common.
//!
//! The events of a stream differ from each other in the text of one token, and from those of other streams in an id and a time. So
//! once the JSON walker has read an event, its bytes are kept as a [shape](Shape): what lies between the values that may differ is compared,
//! the values themselves are checked for being JSON of the same kind, and the facts follow without a walk. A comparison costs a tenth
//! of it.
//!
//! This is exact, not a guess. A string in the place of a string, or a whole number in the place of one, leaves the structure of a JSON
//! text as it was, and the facts depend on such a value by nothing but whether a text is empty. None of the values can hold a line end, so
//! the lines of the event, and where it ends, are the same too.

use std::ops::Range;

use super::endpoint::Signs;
use super::json::Cursor;
use super::sse::MAX_EVENT_BYTES;

/// Shapes of one core: role, text, reasoning and finish of the streams of one server.
const SHAPES: usize = 4;
/// Longest event that is kept as a shape.
const MAX_SHAPE_BYTES: usize = 1024;
/// Values of a shape that may differ: the text, and what servers put around it (id, time, model, fingerprint).
const MAX_HOLES: usize = 8;

/// What a value that may differ must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A string of at least one character.
    Text,
    /// Any string.
    String,
    /// Digits without a leading zero.
    Count,
}

impl Kind {
    /// The position behind such a value at `at`.
    fn pass(self, bytes: &[u8], at: usize) -> Option<usize> {
        let rest = bytes.get(at..)?;
        match self {
            Self::Text | Self::String => {
                // The cursor would skip blanks, line ends among them.
                if rest.first() != Some(&b'"') {
                    return None;
                }
                let mut cursor = Cursor::new(rest);
                let text = cursor.string().ok()?;
                (self == Self::String || !text.is_empty()).then(|| at + cursor.position())
            }
            Self::Count => is_count_start(rest).then(|| {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
                at + digits.count()
            }),
        }
    }
}

fn is_count_start(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(b'1'..=b'9'))
}

/// A value that may differ, from the first byte of its JSON text to behind the last.
#[derive(Debug, Clone, Copy)]
struct Hole {
    kind: Kind,
    start: usize,
    end: usize,
}

/// The values of one event that its facts do not depend on, in their order.
#[derive(Debug, Clone)]
pub(super) struct Holes {
    holes: [Hole; MAX_HOLES],
    count: usize,
    /// Which of them is the text of the answer.
    text: Option<usize>,
}

impl Default for Holes {
    fn default() -> Self {
        let none = Hole {
            kind: Kind::String,
            start: 0,
            end: 0,
        };
        Self {
            holes: [none; MAX_HOLES],
            count: 0,
            text: None,
        }
    }
}

impl Holes {
    /// Notes a value without meaning, `raw`, that ends at `end`. Only strings and plain numbers may differ; others count as fixed.
    pub(super) fn note_any(&mut self, raw: &[u8], end: usize) {
        let start = end - raw.len();
        if raw.first() == Some(&b'"') {
            self.note(Kind::String, start, end);
        } else if is_count_start(raw) && raw.iter().all(u8::is_ascii_digit) {
            self.note(Kind::Count, start, end);
        }
    }

    /// Notes a string of which only matters that it is not empty.
    pub(super) fn note_text(&mut self, start: usize, end: usize) {
        self.note(Kind::Text, start, end);
    }

    /// Notes the text of the answer, which is not empty. Of several the last one counts.
    pub(super) fn note_answer(&mut self, start: usize, end: usize) {
        self.text = (self.count < MAX_HOLES).then_some(self.count);
        self.note(Kind::Text, start, end);
    }

    /// The text that was noted is not the answer's after all.
    pub(super) fn forget_answer(&mut self) {
        self.text = None;
    }

    /// Whether the text of the answer is among them.
    pub(super) fn have_answer(&self) -> bool {
        self.text.is_some()
    }

    fn note(&mut self, kind: Kind, start: usize, end: usize) {
        // Without room the value counts as fixed: events that differ there are walked.
        if let Some(hole) = self.holes.get_mut(self.count) {
            *hole = Hole { kind, start, end };
            self.count += 1;
        }
    }

    fn as_slice(&self) -> &[Hole] {
        &self.holes[..self.count]
    }

    /// Where the text of the answer stands, without its quotes; an empty place if there is none.
    fn answer(&self) -> Range<usize> {
        self.text.map_or(0..0, |index| {
            let hole = self.holes[index];
            hole.start + 1..hole.end - 1
        })
    }
}

/// An event that was walked or recognised, and what it amounts to.
#[derive(Debug)]
struct Shape {
    /// The bytes of the event; empty for a shape that is not in use. Never grows.
    event: Vec<u8>,
    holes: Holes,
    signs: Signs,
}

impl Shape {
    fn new() -> Self {
        Self {
            event: Vec::with_capacity(MAX_SHAPE_BYTES),
            holes: Holes::default(),
            signs: Signs::default(),
        }
    }

    /// The length of an event of this shape at the start of `bytes`. `text` is told where in it the text of the answer is, if there is one.
    fn recognise(&mut self, bytes: &[u8], text: Option<&mut Range<usize>>) -> Option<usize> {
        let last = self.holes.as_slice().last()?;
        // Within one stream all but the last value, the text, stay the same.
        if bytes.starts_with(&self.event[..last.start]) {
            let at = last.kind.pass(bytes, last.start)?;
            let end = end_of(bytes, at, &self.event[last.end..])?;
            if let Some(text) = text {
                *text = match self.holes.text {
                    Some(index) if index + 1 == self.holes.count => last.start + 1..at - 1,
                    _ => self.holes.answer(),
                };
            }
            return Some(end);
        }
        self.follow(bytes, text)
    }

    /// The length of an event of this shape with other values. Such a one takes the place of the event: its stream probably continues.
    fn follow(&mut self, bytes: &[u8], text: Option<&mut Range<usize>>) -> Option<usize> {
        let mut found = Holes {
            text: self.holes.text,
            ..Holes::default()
        };
        let (mut at, mut from) = (0, 0);
        for hole in self.holes.as_slice() {
            let start = end_of(bytes, at, &self.event[from..hole.start])?;
            at = hole.kind.pass(bytes, start)?;
            found.note(hole.kind, start, at);
            from = hole.end;
        }
        let end = end_of(bytes, at, &self.event[from..])?;
        if let Some(text) = text {
            *text = found.answer();
        }
        if end <= MAX_SHAPE_BYTES {
            self.event.clear();
            self.event.extend_from_slice(&bytes[..end]);
            self.holes = found;
        }
        Some(end)
    }
}

/// The position behind `expected` at `at`.
fn end_of(bytes: &[u8], at: usize, expected: &[u8]) -> Option<usize> {
    bytes.get(at..)?.starts_with(expected).then(|| at + expected.len())
}

/// The shapes that a core has seen lately.
#[derive(Debug)]
pub(super) struct ChunkShapes {
    shapes: [Shape; SHAPES],
    /// The one that was recognised last.
    latest: usize,
    /// The next one to give way.
    oldest: usize,
}

impl Default for ChunkShapes {
    fn default() -> Self {
        Self {
            shapes: std::array::from_fn(|_| Shape::new()),
            latest: 0,
            oldest: 0,
        }
    }
}

impl ChunkShapes {
    /// Keeps an event, whose data begins at `data_at`, in the place of the oldest shape. `holes` are positions in the data.
    pub(super) fn learn(&mut self, event: &[u8], data_at: usize, holes: &Holes, signs: Signs) {
        if event.len() > MAX_SHAPE_BYTES || holes.count == 0 {
            return;
        }
        let shape = &mut self.shapes[self.oldest];
        shape.event.clear();
        shape.event.extend_from_slice(event);
        shape.holes = holes.clone();
        for hole in &mut shape.holes.holes[..holes.count] {
            hole.start += data_at;
            hole.end += data_at;
        }
        shape.signs = signs;
        self.latest = self.oldest;
        self.oldest = (self.oldest + 1) % SHAPES;
    }

    /// The length and the signs of an event of a known shape at the start of `bytes`, its blank line included. `text` is told where in it the text
    /// of the answer is, raw and without quotes; an empty place if there is none.
    pub(super) fn recognise(&mut self, bytes: &[u8], mut text: Option<&mut Range<usize>>) -> Option<(usize, Signs)> {
        for distance in 0..SHAPES {
            let index = (self.latest + distance) % SHAPES;
            let shape = &mut self.shapes[index];
            let len = shape.recognise(bytes, text.as_deref_mut());
            if let Some(len) = len.filter(|&len| len <= MAX_EVENT_BYTES) {
                self.latest = index;
                return Some((len, shape.signs));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
