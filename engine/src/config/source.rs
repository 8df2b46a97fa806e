//! The text of a file as messages show it: the line of a mistake with a caret below, credentials masked.

use super::secret::{REDACTED, is_suspicious_line};
use super::secrets::{Secrets, merged};
use super::tree::Position;

/// Widest piece of a source line in an excerpt.
const WIDTH: usize = 100;

/// Longest line that is shown in part, in bytes. Longer ones were made by programs, and the place says all.
const LONGEST_LINE: usize = 20_000;

/// A file as far as messages need it.
#[derive(Debug)]
pub(crate) struct Source {
    file: String,
    /// With `\n` for every line break that the scanner counts, so that lines here are the lines of positions.
    text: String,
    /// Where credentials are written; `None` when the text did not parse and nobody knows.
    places: Option<Vec<(Position, Position)>>,
    /// Credentials by their values, for what comes from elsewhere than where it is written.
    secrets: Secrets,
}

impl Source {
    pub(super) fn new(file: &str, text: &str, places: Option<Vec<(Position, Position)>>, secrets: Secrets) -> Self {
        Self {
            file: file.to_owned(),
            text: text.replace("\r\n", "\n").replace('\r', "\n"),
            places,
            secrets,
        }
    }

    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// Its text with one kind of line break.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Its credentials by their values.
    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// What of a line must not be shown, as columns from 0, sorted, without overlaps.
    fn hidden_in(&self, number: u32, raw: &str, length: usize) -> Vec<(usize, usize)> {
        let mut ranges = Vec::new();
        for (start, end) in self.places.iter().flatten() {
            if start.line > number || end.line < number {
                continue;
            }
            let column = |at: &Position, otherwise| {
                if at.line == number {
                    at.column as usize - 1
                } else {
                    otherwise
                }
            };
            let range = (column(start, 0).min(length), column(end, length).min(length));
            ranges.extend((range.0 < range.1).then_some(range));
        }
        let mut seen = (0, 0);
        for (from, to) in self.secrets.places_in(raw) {
            let columns = seen.1 + raw[seen.0..from].chars().count();
            let end = columns + raw[from..to].chars().count();
            ranges.push((columns, end));
            seen = (to, end);
        }
        merged(ranges)
    }
}

/// Excerpts of a file, made in the order of the file. A line is prepared once: it may be long, and have a thousand mistakes.
pub(super) struct Excerpts<'a> {
    source: &'a Source,
    lines: std::iter::Enumerate<std::str::Split<'a, char>>,
    /// The line of the last excerpt, and whether it may be shown.
    line: Option<(u32, Option<Line>)>,
}

/// A line that may be shown.
struct Line {
    shown: Vec<char>,
    /// What was masked: columns from 0 before, and where the mask begins now.
    masks: Vec<(usize, usize, usize)>,
}

impl<'a> Excerpts<'a> {
    pub(super) fn of(source: &'a Source) -> Self {
        Self {
            source,
            lines: source.text.split('\n').enumerate(),
            line: None,
        }
    }

    /// The excerpt of a place that is not before the last one; `None` when it cannot be shown.
    pub(super) fn at(&mut self, at: Position) -> Option<String> {
        let index = at.line.checked_sub(1)? as usize;
        if self.line.as_ref().is_none_or(|(number, _)| *number != at.line) {
            let (_, raw) = self.lines.find(|(found, _)| *found == index)?;
            self.line = Some((at.line, Line::of(self.source, at.line, raw)));
        }
        let (_, line) = self.line.as_ref()?;
        line.as_ref()?.excerpt(at)
    }
}

impl Line {
    fn of(source: &Source, number: u32, raw: &str) -> Option<Self> {
        if raw.len() > LONGEST_LINE {
            return None;
        }
        // Control characters would move the caret or the terminal.
        let chars: Vec<char> = raw.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if source.places.is_none() && is_suspicious_line(raw) {
            return None;
        }
        let (mut shown, mut masks) = (Vec::with_capacity(chars.len()), Vec::new());
        let mut done = 0;
        for (from, to) in source.hidden_in(number, raw, chars.len()) {
            shown.extend_from_slice(&chars[done..from]);
            masks.push((from, to, shown.len()));
            shown.extend(REDACTED.chars());
            done = to;
        }
        shown.extend_from_slice(&chars[done..]);
        Some(Self { shown, masks })
    }

    /// Where a column from 0 of the file is now.
    fn column(&self, column: usize) -> usize {
        match self.masks.partition_point(|&(from, ..)| from <= column).checked_sub(1) {
            None => column,
            Some(last) => {
                let (_, to, now) = self.masks[last];
                // Inside of what is masked there is only the mask.
                if column < to {
                    now
                } else {
                    now + REDACTED.len() + column - to
                }
            }
        }
    }

    fn excerpt(&self, at: Position) -> Option<String> {
        let caret = self
            .column((at.column as usize).saturating_sub(1))
            .min(self.shown.len());
        let skip = caret.saturating_sub(WIDTH * 3 / 4);
        let shown: String = self.shown.iter().skip(skip).take(WIDTH).collect();
        if shown.trim().is_empty() {
            return None;
        }
        let number = at.line.to_string();
        let gutter = " ".repeat(number.len());
        Some(format!(
            "{number} | {}\n{gutter} | {}^",
            shown.trim_end(),
            " ".repeat(caret - skip)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32, column: u32) -> Position {
        Position { line, column }
    }

    #[test]
    fn masks_move_what_stands_behind_them_and_nothing_else() {
        let places = vec![(at(1, 4), at(1, 6)), (at(1, 5), at(1, 9)), (at(1, 11), at(2, 3))];
        let source = Source::new("f", "a: xxyyy, zz\nzz: 1\n", Some(places), Secrets::default());
        let mut excerpts = Excerpts::of(&source);
        let caret = |text: &str| text.rsplit(" | ").next().map(|line| line.len() - 1);
        for (column, expected) in [(1, 0), (3, 2), (4, 3), (8, 3), (9, 13), (10, 14), (11, 15), (12, 15)] {
            let shown = excerpts.at(at(1, column)).expect("a line");
            assert!(shown.starts_with("1 | a: <redacted>, <redacted>\n"), "{shown}");
            assert_eq!(caret(&shown), Some(expected), "{column}");
        }
        assert!(
            excerpts
                .at(at(2, 1))
                .is_some_and(|shown| shown.starts_with("2 | <redacted>: 1"))
        );
        assert_eq!(excerpts.at(at(9, 1)), None);
    }

    #[test]
    fn a_credential_is_masked_where_it_was_not_expected() {
        let root = super::super::parse::parse("api_key: hunter2000", &|_| None, &Default::default()).expect("a tree");
        let source = Source::new("f", "é: [hunter2000, x]", Some(Vec::new()), Secrets::of(&root, []));
        let shown = Excerpts::of(&source).at(at(1, 17)).expect("a line");
        assert_eq!(shown, "1 | é: [<redacted>, x]\n  |                 ^");
    }
}
