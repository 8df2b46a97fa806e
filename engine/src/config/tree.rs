//! A YAML document as a tree that remembers where everything was written.

use std::rc::Rc;

use serde_json::{Map, Value as Json};

use super::scalar;
use super::schema::snake_case;

/// A place in a file, or a flag of the command line, which has no line. Lines and columns count from 1; columns count
/// characters, not bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Line, from 1; 0 for what is not in a file.
    pub line: u32,
    /// Column in characters, from 1; for a flag, which one it is.
    pub column: u32,
}

impl Position {
    /// The first character of a file: where a mistake is placed that concerns the whole document.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// A value as written, with everything below it. Aliases share their node, so a tree costs no more than its text.
#[derive(Debug)]
pub(super) struct Node {
    /// Where the value begins. For an alias: where the anchored value was written, because that is the text to correct.
    pub(super) start: Position,
    /// Just behind the last character.
    pub(super) end: Position,
    /// Nodes from here down, aliases counted each time they occur.
    pub(super) size: usize,
    /// Bytes of text and keys from here down, aliases counted each time they occur: what a copy takes.
    pub(super) bytes: usize,
    /// Levels from here down; 1 for a scalar.
    pub(super) height: usize,
    /// What was written.
    pub(super) value: Value,
}

/// The three shapes of YAML, and the one that stands for a scalar whose mistake has been reported.
#[derive(Debug)]
pub(super) enum Value {
    /// Text that gets its meaning from the field it stands in.
    Scalar(Scalar),
    /// `[a, b]` or dashes.
    Sequence(Vec<Rc<Node>>),
    /// `{a: b}` or lines of `key: value`.
    Mapping(Vec<Entry>),
    /// A scalar that could not be read, for example an unset environment variable. Readers pass over it in silence.
    Faulty,
}

/// A scalar before it has a type.
#[derive(Debug)]
pub(super) struct Scalar {
    /// The text after YAML escapes and environment substitution.
    pub(super) text: String,
    /// How it was written.
    pub(super) style: Style,
}

/// How a scalar was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Without quotes: may mean null, a boolean or a number.
    Plain,
    /// In quotes or as a block: text, but fields of other types still read it.
    Quoted,
    /// As a block whose line breaks are kept: the same. It begins where the first of its lines does that is not blank.
    Block,
    /// The whole scalar was one `${NAME}`: read like a plain scalar, except that it is never null.
    Substituted,
}

impl Style {
    /// Whether the scalar can be nothing but text.
    pub(super) fn is_text(self) -> bool {
        matches!(self, Self::Quoted | Self::Block)
    }
}

/// Where a byte of a scalar's text is, which is written from `start` to `end`: exactly if the text stands in the file as it is, on one line or as a block, else
/// where the value begins.
pub(super) fn place_in(text: &str, style: Style, start: Position, end: Position, offset: Option<usize>) -> Position {
    let Some(before) = offset.and_then(|offset| text.get(..offset)) else {
        return start;
    };
    let chars = |text: &str| text.chars().count() as u32;
    if style == Style::Block {
        let blank = text.lines().take_while(|line| line.is_empty()).count();
        let (lines, last) = match before.rsplit_once('\n') {
            Some((lines, last)) => (1 + lines.matches('\n').count(), last),
            None => (0, before),
        };
        return Position {
            line: start.line + lines.saturating_sub(blank) as u32,
            column: start.column + chars(last),
        };
    }
    let quotes = match end.column.saturating_sub(start.column).checked_sub(chars(text)) {
        Some(0) => 0,
        Some(2) => 1,
        _ => return start,
    };
    if start.line != end.line || text.contains('\n') {
        return start;
    }
    Position {
        line: start.line,
        column: start.column + quotes + chars(before),
    }
}

/// One `key: value` of a mapping.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// The key as written.
    pub(super) key: String,
    /// Where the key was written.
    pub(super) key_at: Position,
    /// The value.
    pub(super) value: Rc<Node>,
    /// Whether the entry came in through a merge key (`<<`).
    pub(super) merged: bool,
}

impl Node {
    /// A value made of others, where `like` stands.
    pub(super) fn made(like: &Self, value: Value) -> Rc<Self> {
        Self::new(like.start, like.end, value)
    }

    /// A value that is written from `start` to `end`.
    pub(super) fn new(start: Position, end: Position, value: Value) -> Rc<Self> {
        let (mut size, mut bytes, mut height) = (1usize, 0usize, 1);
        let mut count = |key: usize, node: &Self| {
            size = size.saturating_add(node.size);
            bytes = bytes.saturating_add(key).saturating_add(node.bytes);
            height = height.max(node.height + 1);
        };
        match &value {
            Value::Sequence(items) => items.iter().for_each(|item| count(0, item)),
            Value::Mapping(entries) => entries.iter().for_each(|entry| count(entry.key.len(), &entry.value)),
            Value::Scalar(scalar) => bytes = scalar.text.len(),
            Value::Faulty => {}
        }
        Rc::new(Self {
            start,
            end,
            size,
            bytes,
            height,
            value,
        })
    }

    /// Roughly what a copy of everything from here down takes, in bytes.
    pub(super) fn weight(&self) -> usize {
        self.bytes.saturating_add(self.size.saturating_mul(size_of::<Self>()))
    }

    /// What stands `at` a place until something is made there.
    pub(super) fn placeholder(at: Position) -> Self {
        Self {
            start: at,
            end: at,
            size: 1,
            bytes: 0,
            height: 1,
            value: Value::Faulty,
        }
    }

    /// The value of a key in either spelling, if this is a mapping that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Rc<Self>> {
        let Value::Mapping(entries) = &self.value else {
            return None;
        };
        entry_of(entries, key).map(|at| &entries[at].value)
    }

    /// The value by its looks, as a reader without knowledge of fields takes it: for labels, templates and comparisons.
    pub(super) fn to_json(&self) -> Json {
        match &self.value {
            Value::Faulty => Json::Null,
            Value::Scalar(_) if self.is_null() => Json::Null,
            Value::Scalar(scalar) if scalar.style.is_text() => Json::String(scalar.text.clone()),
            Value::Scalar(scalar) => by_looks(&scalar.text),
            Value::Sequence(items) => items.iter().map(|item| item.to_json()).collect(),
            Value::Mapping(entries) => {
                let mut object = Map::new();
                for entry in entries {
                    // A merged entry comes after the own ones, and those win.
                    object.entry(entry.key.clone()).or_insert_with(|| entry.value.to_json());
                }
                Json::Object(object)
            }
        }
    }

    /// The scalar here, if it is one.
    pub(super) fn scalar(&self) -> Option<&Scalar> {
        match &self.value {
            Value::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// Whether this is an unquoted null: `null`, `~` or nothing at all.
    pub(super) fn is_null(&self) -> bool {
        self.scalar().is_some_and(|scalar| {
            scalar.style == Style::Plain && matches!(scalar.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
        })
    }

    /// Whether a mistake here has been reported already.
    pub(super) fn is_faulty(&self) -> bool {
        matches!(self.value, Value::Faulty)
    }
}

/// The entry of a key: spelt exactly so, or else in the other of the two spellings.
pub(super) fn entry_of(entries: &[Entry], key: &str) -> Option<usize> {
    let exact = entries.iter().position(|entry| entry.key == key);
    exact.or_else(|| {
        let wanted = snake_case(key);
        entries.iter().position(|entry| snake_case(&entry.key) == wanted)
    })
}

fn by_looks(text: &str) -> Json {
    // Words of booleans come first: they are no numbers, and what remains is text.
    if let Some(boolean) = scalar::boolean(text) {
        return Json::Bool(boolean);
    }
    match scalar::number(text) {
        Ok(number) => match number.integer.map(i64::try_from) {
            Some(Ok(integer)) if !text.contains(['.', 'e', 'E']) => Json::from(integer),
            _ => serde_json::Number::from_f64(number.value).map_or_else(|| Json::String(text.to_owned()), Json::Number),
        },
        Err(_) => Json::String(text.to_owned()),
    }
}
