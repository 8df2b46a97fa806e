//! Text to tree: YAML events, anchors, merge keys, environment references, and bounds against documents made to explode.

use std::collections::HashMap;
use std::rc::Rc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, Tag};

use super::diagnostic::{Sink, visible};
use super::substitute::{Environment, substitute};
use super::tree::{Entry, Node, Position, Scalar, Style, Value};

/// Longest file.
pub(super) const MAX_BYTES: usize = 4 << 20;
/// Deepest nesting, aliases followed.
const MAX_DEPTH: usize = 128;
/// Longest key in characters: paths of messages are made of keys.
const MAX_KEY: usize = 256;
/// Most values in a document, aliases and merge keys counted each time they occur.
const MAX_NODES: usize = 200_000;
/// Most bytes of text in a document, counted the same way: an alias of a long text costs its length each time it is read.
const MAX_TEXT: usize = 4 * MAX_BYTES;

/// Reads bytes as UTF-8 text without its byte order mark. `None` after a report.
pub(super) fn decode_text<'a>(bytes: &'a [u8], sink: &Sink) -> Option<&'a str> {
    if bytes.len() > MAX_BYTES {
        let message = format!("found {} bytes; allowed: at most {MAX_BYTES}", bytes.len());
        sink.report(Position::START, "", message);
        return None;
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let (good, bad) = bytes.split_at(error.valid_up_to());
            let message = format!(
                "found the byte 0x{:02x}, which is not UTF-8; save the file as UTF-8",
                bad[0]
            );
            sink.report(end_of(&String::from_utf8_lossy(good)), "", message);
            return None;
        }
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // YAML allows no others, and the scanner takes a NUL for the end of the file.
    let is_forbidden = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}');
    if let Some((at, bad)) = text.char_indices().find(|&(_, c)| is_forbidden(c)) {
        let code = u32::from(bad);
        let message =
            format!("found the control character U+{code:04X}; remove it, or write it as an escape in quotes");
        sink.report(end_of(&text[..at]), "", message);
        return None;
    }
    Some(text)
}

/// The position just behind a text.
fn end_of(text: &str) -> Position {
    let last_line = text.rsplit(['\n', '\r']).next().unwrap_or("");
    // A carriage return before a line feed belongs to the same break.
    let breaks = text.matches(['\n', '\r']).count() - text.matches("\r\n").count();
    Position {
        line: 1 + breaks as u32,
        column: 1 + last_line.chars().filter(|&c| c != '\u{feff}').count() as u32,
    }
}

/// Builds the tree of the only document. Mistakes that leave the rest readable are reported and passed over; `None` means that
/// no tree could be built and says why in the sink.
pub(super) fn parse(text: &str, environment: &Environment<'_>, sink: &Sink) -> Option<Rc<Node>> {
    let mut builder = Builder {
        environment,
        sink,
        stack: Vec::new(),
        anchors: HashMap::new(),
        nodes: 0,
        bytes: 0,
        root: None,
    };
    let mut parser = Parser::new_from_str(text);
    let mut documents = 0;
    while let Some(event) = parser.next_event() {
        let fatal = match event {
            Ok((Event::DocumentStart(_), span)) => {
                documents += 1;
                (documents > 1).then(|| {
                    (
                        position(span.start),
                        "found a second document; allowed: one; keep one of them, or give each a file of its own"
                            .to_owned(),
                    )
                })
            }
            Ok((event, span)) => builder
                .event(event, span)
                .err()
                .map(|message| (position(span.start), message)),
            Err(error) => Some(syntax_error(text, *error.marker(), error.info())),
        };
        if let Some((at, message)) = fatal {
            sink.report(at, &builder.path(), message);
            return None;
        }
    }
    match builder.root {
        Some(root) if !root.is_null() => Some(root),
        _ => {
            sink.report(
                Position::START,
                "",
                "found an empty document; allowed: a mapping with the key `benchmark`",
            );
            None
        }
    }
}

fn position(marker: Marker) -> Position {
    let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Position {
        line: clamp(marker.line()).max(1),
        column: clamp(marker.col()).saturating_add(1),
    }
}

/// The scanner reports a tab in indentation as whatever went wrong because of it, often a line off; say "tab" instead.
fn syntax_error(text: &str, marker: Marker, info: &str) -> (Position, String) {
    let at = position(marker);
    let line = |number: u32| text.lines().nth(number.checked_sub(1)? as usize);
    let tab = [at.line, at.line - 1, at.line + 1].into_iter().find_map(|number| {
        let content = line(number)?;
        let indentation = &content[..content.len() - content.trim_start_matches([' ', '\t']).len()];
        let column = indentation.find('\t')? as u32 + 1;
        Some(Position { line: number, column })
    });
    if let Some(tab) = tab {
        return (tab, "found a tab in the indentation; allowed: spaces only".to_owned());
    }
    let hint = match line(at.line) {
        Some(content) if content.contains("${") => "; inside { } and [ ], put `${NAME}` in quotes",
        _ => "",
    };
    (at, format!("not valid YAML: {}{hint}", info.trim_end_matches('.')))
}

/// A collection that has not ended yet.
struct Open {
    start: Position,
    anchor: usize,
    content: Content,
}

enum Content {
    Sequence(Vec<Rc<Node>>),
    Mapping(OpenMapping),
}

#[derive(Default)]
struct OpenMapping {
    entries: Vec<Entry>,
    /// Where each key was first written.
    seen: HashMap<String, Position>,
    /// The key whose value comes next.
    key: Option<(String, Position, KeyRole)>,
    merges: Vec<Rc<Node>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyRole {
    Plain,
    /// An unquoted `<<`.
    Merge,
    /// A key that stood in this mapping before; its value is parsed and dropped.
    Duplicate,
}

struct Builder<'a> {
    environment: &'a Environment<'a>,
    sink: &'a Sink,
    stack: Vec<Open>,
    /// Finished nodes by anchor. An anchor that is still open is missing, which is how cycles show.
    anchors: HashMap<usize, Rc<Node>>,
    nodes: usize,
    bytes: usize,
    root: Option<Rc<Node>>,
}

impl Builder<'_> {
    /// # Errors
    /// A message when no sensible tree can be built any more.
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), String> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let style = match style {
                    ScalarStyle::Plain => Style::Plain,
                    ScalarStyle::Literal => Style::Block,
                    _ => Style::Quoted,
                };
                let style = check_tag(tag.as_deref(), "str")?.map_or(style, |()| match style {
                    Style::Block => Style::Block,
                    _ => Style::Quoted,
                });
                let value = self.scalar(text.into_owned(), style, position(span.start));
                let node = Node::new(position(span.start), position(span.end), value);
                let bytes = node.bytes;
                self.finish(node, anchor, (1, bytes))
            }
            Event::SequenceStart(anchor, tag) => {
                check_tag(tag.as_deref(), "seq")?;
                self.open(span, anchor, Content::Sequence(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                check_tag(tag.as_deref(), "map")?;
                self.open(span, anchor, Content::Mapping(OpenMapping::default()))
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let open = self.stack.pop().expect("the parser ends only what it started");
                self.close(open, position(span.end))
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor).map(Rc::clone) else {
                    return Err(
                        "found an alias inside its own anchor; allowed: an alias to a value that has ended".into(),
                    );
                };
                let added = (node.size, node.bytes);
                self.finish(node, 0, added)
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {
                Ok(())
            }
        }
    }

    /// The value of a scalar after substitution. Keys keep their text.
    fn scalar(&self, text: String, style: Style, at: Position) -> Value {
        if matches!(self.stack.last(), Some(Open { content: Content::Mapping(mapping), .. }) if mapping.key.is_none()) {
            return Value::Scalar(Scalar { text, style });
        }
        let scalar = match substitute(&text, self.environment) {
            Ok(None) => Scalar { text, style },
            Ok(Some(substituted)) => {
                let style = if substituted.whole && !substituted.text.is_empty() {
                    Style::Substituted
                } else {
                    Style::Quoted
                };
                Scalar {
                    text: substituted.text,
                    style,
                }
            }
            Err(message) => {
                self.sink.report(at, &self.path(), message);
                return Value::Faulty;
            }
        };
        Value::Scalar(scalar)
    }

    fn open(&mut self, span: Span, anchor: usize, content: Content) -> Result<(), String> {
        if matches!(self.stack.last(), Some(Open { content: Content::Mapping(mapping), .. }) if mapping.key.is_none()) {
            return Err(
                "found a collection as a key; allowed: text (put `{{ }}` and `{ }` of a value in quotes)".into(),
            );
        }
        if self.stack.len() >= MAX_DEPTH {
            return Err(format!(
                "found values nested more than {MAX_DEPTH} deep; allowed: at most {MAX_DEPTH} levels"
            ));
        }
        self.stack.push(Open {
            start: position(span.start),
            anchor,
            content,
        });
        Ok(())
    }

    fn close(&mut self, open: Open, end: Position) -> Result<(), String> {
        let value = match open.content {
            Content::Sequence(items) => Value::Sequence(items),
            Content::Mapping(mapping) => Value::Mapping(self.merge(mapping)?),
        };
        self.finish(Node::new(open.start, end, value), open.anchor, (1, 0))
    }

    /// Own keys, then those of `<<` that are not there yet; an earlier mapping of a `<<` list wins over a later one.
    fn merge(&mut self, mapping: OpenMapping) -> Result<Vec<Entry>, String> {
        let OpenMapping {
            mut entries,
            mut seen,
            merges,
            ..
        } = mapping;
        for merged in merges {
            let sources = match &merged.value {
                Value::Sequence(items) => items.clone(),
                Value::Mapping(_) => vec![Rc::clone(&merged)],
                Value::Scalar(_) | Value::Faulty => Vec::new(),
            };
            if sources.is_empty() || !sources.iter().all(|source| matches!(source.value, Value::Mapping(_))) {
                let message =
                    "found something else than a mapping after `<<`; allowed: an alias of a mapping, or a list of them";
                self.sink.report(merged.start, &self.path(), message);
                continue;
            }
            for source in &sources {
                let Value::Mapping(inherited) = &source.value else {
                    continue;
                };
                for entry in inherited {
                    if seen.contains_key(&entry.key) {
                        continue;
                    }
                    self.count((entry.value.size, entry.key.len() + entry.value.bytes))?;
                    seen.insert(entry.key.clone(), entry.key_at);
                    let (key, value) = (entry.key.clone(), Rc::clone(&entry.value));
                    entries.push(Entry {
                        key,
                        key_at: entry.key_at,
                        value,
                        merged: true,
                    });
                }
            }
        }
        Ok(entries)
    }

    /// Counts values and bytes of text that come to the document.
    fn count(&mut self, (nodes, bytes): (usize, usize)) -> Result<(), String> {
        self.nodes = self.nodes.saturating_add(nodes);
        self.bytes = self.bytes.saturating_add(bytes);
        let told = |what: String| {
            format!("found more than {what} once aliases and references are followed; allowed: at most {what}")
        };
        if self.nodes > MAX_NODES {
            return Err(told(format!("{MAX_NODES} values")));
        }
        if self.bytes > MAX_TEXT {
            return Err(told(format!("{MAX_TEXT} bytes of text")));
        }
        Ok(())
    }

    /// Hands a finished node to the collection around it. `added` is what it adds to the document, values and bytes.
    fn finish(&mut self, node: Rc<Node>, anchor: usize, added: (usize, usize)) -> Result<(), String> {
        self.count(added)?;
        if self.stack.len() + node.height > MAX_DEPTH {
            return Err(format!(
                "found values nested more than {MAX_DEPTH} deep; allowed: at most {MAX_DEPTH} levels"
            ));
        }
        if anchor > 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        let at = node.start;
        let first = match self.stack.last_mut().map(|open| &mut open.content) {
            None => {
                self.root = Some(node);
                None
            }
            Some(Content::Sequence(items)) => {
                items.push(node);
                None
            }
            Some(Content::Mapping(mapping)) => {
                if let Some((_, _, KeyRole::Duplicate)) = &mapping.key {
                    // The tree will not have it, so nobody else can tell whether it is a credential.
                    self.sink.hide(node.start, node.end);
                }
                mapping.accept(node)?
            }
        };
        if let Some(first) = first {
            let message = format!(
                "found this key a second time; it is on line {} already; remove one",
                first.line
            );
            self.sink.report(at, &self.path(), message);
        }
        Ok(())
    }

    /// The key that is being read, as in `benchmark.phases[1].rate`.
    fn path(&self) -> String {
        let mut path = String::new();
        for open in &self.stack {
            match &open.content {
                Content::Sequence(items) => path.push_str(&format!("[{}]", items.len())),
                Content::Mapping(OpenMapping {
                    key: Some((key, ..)), ..
                }) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(&visible(key));
                }
                Content::Mapping(_) => {}
            }
        }
        path
    }
}

impl OpenMapping {
    /// Takes the next node: a key, or the value of the key before it. Returns where the key was first written if this is not
    /// the first time.
    fn accept(&mut self, node: Rc<Node>) -> Result<Option<Position>, String> {
        let Some((key, key_at, role)) = self.key.take() else {
            let Some(scalar) = node.scalar() else {
                return Err("found a collection as a key; allowed: text".into());
            };
            if node.is_null() {
                return Err("found a value without a key; allowed: `key: value`".into());
            }
            if scalar.text.chars().nth(MAX_KEY).is_some() {
                return Err(format!(
                    "found a key of more than {MAX_KEY} characters; allowed: at most {MAX_KEY}"
                ));
            }
            let (key, at) = (scalar.text.clone(), node.start);
            let is_merge = key == "<<" && scalar.style == Style::Plain;
            let first = if is_merge { None } else { self.seen.get(&key).copied() };
            let role = match first {
                _ if is_merge => KeyRole::Merge,
                Some(_) => KeyRole::Duplicate,
                None => {
                    self.seen.insert(key.clone(), at);
                    KeyRole::Plain
                }
            };
            self.key = Some((key, at, role));
            return Ok(first);
        };
        match role {
            KeyRole::Plain => self.entries.push(Entry {
                key,
                key_at,
                value: node,
                merged: false,
            }),
            KeyRole::Merge => self.merges.push(node),
            KeyRole::Duplicate => {}
        }
        Ok(None)
    }
}

/// Whether the tag is the one that changes nothing but forces text (`!!str`). Tags that would change a type are refused: types
/// come from the fields.
fn check_tag(tag: Option<&Tag>, allowed: &str) -> Result<Option<()>, String> {
    match tag {
        None => Ok(None),
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == allowed => Ok(Some(())),
        Some(tag) => Err(format!(
            "found the tag `{tag}`; allowed: no tags, because every field has its own type"
        )),
    }
}
