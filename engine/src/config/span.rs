//! Where values and keys end: what an editor underlines.

use super::diagnostic::Sink;
use super::parse;
use super::tree::{Node, Position, Value};

/// The places of a file.
pub(super) struct Spans<'a> {
    lines: Vec<&'a str>,
    /// Beginning and end of every scalar and key; empty if the file is not YAML.
    known: Vec<(Position, Position)>,
}

impl<'a> Spans<'a> {
    /// Of a text with `\n` at the end of its lines.
    pub(super) fn of(text: &'a str) -> Self {
        let mut spans = Self {
            lines: text.split('\n').collect(),
            known: Vec::new(),
        };
        // Mistakes have been told, and what references come to moves nothing in the text.
        if let Some(root) = parse::parse(text, &|_| None, &Sink::default()) {
            spans.collect(&root);
            spans.known.sort_unstable();
        }
        spans
    }

    fn collect(&mut self, node: &Node) {
        match &node.value {
            Value::Scalar(_) | Value::Faulty => self.known.push((node.start, node.end)),
            Value::Sequence(items) => items.iter().for_each(|item| self.collect(item)),
            Value::Mapping(entries) => {
                for entry in entries {
                    // A key in quotes or with escapes is longer than its text; then the word there is underlined.
                    let length = u32::try_from(entry.key.chars().count()).unwrap_or(u32::MAX);
                    let column = entry.key_at.column.saturating_add(length);
                    let is_as_written = self.tail(entry.key_at).is_some_and(|tail| tail.starts_with(&entry.key));
                    if is_as_written {
                        self.known.push((entry.key_at, Position { column, ..entry.key_at }));
                    }
                    self.collect(&entry.value);
                }
            }
        }
    }

    /// What stands on the line from a place on.
    fn tail(&self, at: Position) -> Option<&'a str> {
        let line = self.lines.get(at.line.checked_sub(1)? as usize)?;
        let skipped = at.column.checked_sub(1)? as usize;
        let (byte, _) = line.char_indices().chain([(line.len(), '\n')]).nth(skipped)?;
        Some(&line[byte..])
    }

    /// Just behind what begins at `at`; `None` outside the file.
    pub(super) fn end(&self, at: Position) -> Option<Position> {
        let tail = self.tail(at)?;
        let known = self.known.partition_point(|(start, _)| *start < at);
        let known = self.known.get(known).filter(|(start, end)| *start == at && *end > at);
        // A scalar over several lines is marked on its first.
        let known = known.map(|&(_, end)| end).filter(|end| end.line == at.line);
        if let Some(end) = known {
            let length = (end.column - at.column) as usize;
            let text: String = tail.chars().take(length).collect();
            let kept = text.trim_end().chars().count().max(1);
            return Some(behind(at, kept));
        }
        let word = tail
            .chars()
            .take_while(|c| !c.is_whitespace() && !",]}".contains(*c))
            .count();
        Some(behind(at, word.max(1)))
    }
}

fn behind(at: Position, length: usize) -> Position {
    Position {
        column: at.column.saturating_add(u32::try_from(length).unwrap_or(u32::MAX)),
        ..at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(text: &str, line: u32, column: u32) -> Option<String> {
        let at = Position { line, column };
        let end = Spans::of(text).end(at)?;
        assert_eq!(end.line, line);
        let line = text.split('\n').nth(line as usize - 1)?;
        Some(
            line.chars()
                .skip(column as usize - 1)
                .take((end.column - column) as usize)
                .collect(),
        )
    }

    #[test]
    fn keys_and_values_are_marked_whole() {
        let text =
            "key: a value   # why\nother: {x: \"quoted, }\", y: [1, twenty two]}\n\"q k\": |\n  block\n  text\nü: é\n";
        for (line, column, expected) in [
            (1, 1, "key"),
            (1, 6, "a value"),
            (2, 1, "other"),
            (2, 9, "x"),
            (2, 12, "\"quoted, }\""),
            (2, 25, "y"),
            (2, 29, "1"),
            (2, 32, "twenty two"),
            (3, 1, "\"q"),
            (3, 8, "|"),
            (6, 1, "ü"),
            (6, 4, "é"),
        ] {
            assert_eq!(marked(text, line, column).as_deref(), Some(expected), "{line}:{column}");
        }
        assert_eq!(marked(text, 99, 1), None);
    }

    #[test]
    fn a_file_that_is_not_yaml_has_its_words() {
        assert_eq!(marked("a: [b\nc: d]: e\n", 2, 1).as_deref(), Some("c:"));
        assert_eq!(marked("", 1, 1).as_deref(), Some(""));
    }
}
