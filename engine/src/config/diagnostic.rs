//! Mistakes of a file: where, in which key, and what to do about it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use super::flags::{COMMAND_LINE, Flags, causes, in_words_of_flags};
use super::secrets::{Secrets, boundary_before};
use super::source::Excerpts;
pub(crate) use super::source::Source;
use super::span::Spans;
use super::tree::Position;

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Line, from 1; 0 when the file could not be read at all, and for a flag.
    pub line: u32,
    /// Column in characters, from 1; 0 when the file could not be read at all, and which flag for a flag.
    pub column: u32,
    /// The key, as in `benchmark.phases[1].rate`; empty for the whole document.
    pub path: String,
    /// What was found, what is allowed, what to do.
    pub message: String,
}

/// All mistakes of a file, in the order of the file. Never empty.
#[derive(Debug, Clone)]
pub struct Diagnostics {
    source: Arc<Source>,
    list: Vec<Diagnostic>,
    /// For each mistake, the flags that it comes from though it shows elsewhere; empty while nobody has looked.
    causes: Vec<Vec<Position>>,
}

/// Most mistakes that are kept: nobody reads more, and a file made to explode could have as many as it has values.
const MAX_MISTAKES: usize = 1000;

/// Longest message and longest path, in bytes. Lists of names in a message are as long as the file makes them.
const MESSAGE_LIMIT: usize = 2000;

/// Longest piece of a file that a message quotes, in characters.
const QUOTE_LIMIT: usize = 60;

impl Diagnostics {
    pub(crate) fn new(source: Arc<Source>, mut list: Vec<Diagnostic>) -> Self {
        for Diagnostic { path, message, .. } in &mut list {
            for text in [path, message] {
                if let Cow::Owned(shown) = source.secrets().redact(text) {
                    *text = shown;
                }
            }
        }
        list.sort_by_key(|mistake| (mistake.line, mistake.column));
        list.dedup();
        Self {
            source,
            list,
            causes: Vec::new(),
        }
    }

    /// The mistakes of another file that the config names. Nothing of it is shown: it may be large, and its lines are long.
    pub(crate) fn of_file(file: &str, list: Vec<Diagnostic>) -> Self {
        Self::new(Arc::new(Source::new(file, "", None, Secrets::default())), list)
    }

    /// One mistake that has no place because the file could not be read.
    pub(super) fn unreadable(file: &str, message: String) -> Self {
        let diagnostic = Diagnostic {
            line: 0,
            column: 0,
            path: String::new(),
            message,
        };
        Self::new(
            Arc::new(Source::new(file, "", None, Secrets::default())),
            vec![diagnostic],
        )
    }

    /// The same mistakes, said of one variation of a sweep.
    pub(crate) fn in_variation(mut self, label: &str) -> Self {
        for mistake in &mut self.list {
            mistake
                .message
                .push_str(&format!(" (in the variation {})", quote(label)));
        }
        self
    }

    /// Names the flags that mistakes at other places come from: those without which everything else does not have them. `again` reads everything with
    /// other flags.
    pub fn blame(mut self, flags: &Flags, again: &dyn Fn(&Flags) -> Result<(), Self>) -> Self {
        self.causes = causes(&self.list, flags, again);
        self
    }

    /// The mistakes in the order of the file.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// The file that they are about.
    pub fn file(&self) -> &str {
        self.source.file()
    }

    /// Just behind what each mistake is about, in the same order; `None` where the place is not known. For editors, which mark it: the file is read
    /// once more for that.
    pub fn ends(&self) -> Vec<Option<Position>> {
        let spans = Spans::of(self.source.text());
        let end = |mistake: &Diagnostic| {
            let (line, column) = (mistake.line, mistake.column);
            (line > 0).then(|| spans.end(Position { line, column })).flatten()
        };
        self.list.iter().map(end).collect()
    }

    /// One block of text: a line for each mistake and, if asked, the source line with a caret below it. Credentials are masked.
    pub fn render(&self, with_excerpt: bool) -> String {
        let mut excerpts = with_excerpt.then(|| Excerpts::of(&self.source));
        let mut text = String::new();
        for (index, diagnostic) in self.list.iter().enumerate() {
            let Diagnostic {
                line,
                column,
                path,
                message,
            } = diagnostic;
            let at = Position {
                line: *line,
                column: *column,
            };
            if let Some(flag) = at.flag() {
                text.push_str(&format!("{flag}: {}\n", in_words_of_flags(at, message)));
                continue;
            }
            let causes = self.causes.get(index).map_or(&[][..], Vec::as_slice);
            let flags: Vec<String> = causes.iter().filter_map(|at| at.flag()).collect();
            // Without a file nothing but flags was written.
            if let (Some(&cause), true) = (causes.first(), self.source.file() == COMMAND_LINE) {
                text.push_str(&format!(
                    "{}: {}\n",
                    flags.join(", "),
                    in_words_of_flags(cause, message)
                ));
                continue;
            }
            if !flags.is_empty() {
                text.push_str(&format!("{} over ", flags.join(", ")));
            }
            text.push_str(self.source.file());
            if *line > 0 {
                text.push_str(&format!(":{line}:{column}"));
            }
            text.push_str(": ");
            if !path.is_empty() {
                text.push_str(path);
                text.push_str(": ");
            }
            text.push_str(message);
            text.push('\n');
            if let Some(excerpt) = excerpts.as_mut().and_then(|excerpts| excerpts.at(at)) {
                text.push_str(&excerpt);
                text.push('\n');
            }
        }
        text.truncate(text.trim_end_matches('\n').len());
        text
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

/// A piece of the file as messages show it: what could move the cursor or hide is escaped, quotes stay as they are.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\'' | '"' | '\\' => shown.push(c),
            _ => shown.extend(c.escape_debug()),
        }
    }
    shown
}

/// A piece of the file as messages quote it: escaped and cut.
pub(super) fn quote(text: &str) -> String {
    match text.char_indices().nth(QUOTE_LIMIT) {
        Some((end, _)) => format!("`{}...`", visible(&text[..end])),
        None => format!("`{}`", visible(text)),
    }
}

/// A text with its end left out if it is longer than `limit` bytes.
fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        text.truncate(boundary_before(&text, limit));
        text.push_str("...");
    }
    text
}

/// Collects mistakes while a file is read, so that one reading reports them all.
#[derive(Debug, Default)]
pub(super) struct Sink {
    mistakes: RefCell<Vec<Diagnostic>>,
    warnings: RefCell<Vec<String>>,
    hidden: RefCell<Vec<(Position, Position)>>,
}

impl Sink {
    pub(super) fn report(&self, at: Position, path: &str, message: impl Into<String>) {
        let mut mistakes = self.mistakes.borrow_mut();
        let (path, message) = match mistakes.len() {
            count if count < MAX_MISTAKES => (cut(path.to_owned(), MESSAGE_LIMIT), cut(message.into(), MESSAGE_LIMIT)),
            MAX_MISTAKES => (
                String::new(),
                format!("more than {MAX_MISTAKES} mistakes; correct some of them first"),
            ),
            _ => return,
        };
        let Position { line, column } = at;
        mistakes.push(Diagnostic {
            line,
            column,
            path,
            message,
        });
    }

    /// Notes a place that no excerpt may show.
    pub(super) fn hide(&self, start: Position, end: Position) {
        self.hidden.borrow_mut().push((start, end));
    }

    /// The places that no excerpt may show.
    pub(super) fn take_hidden(&self) -> Vec<(Position, Position)> {
        self.hidden.take()
    }

    /// Advice that does not stop the run.
    pub(super) fn warn(&self, warning: impl Into<String>) {
        self.warnings.borrow_mut().push(warning.into());
    }

    pub(super) fn into_parts(self) -> (Vec<Diagnostic>, Vec<String>) {
        (self.mistakes.into_inner(), self.warnings.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32, column: u32) -> Position {
        Position { line, column }
    }

    #[test]
    fn an_excerpt_points_at_the_column_and_masks_what_stands_before_it() {
        let text = "a: 1\ne: {api_key: hunter2, retries: 3}\n";
        let source = Arc::new(Source::new(
            "f.yaml",
            text,
            Some(vec![(at(2, 14), at(2, 21))]),
            Secrets::default(),
        ));
        let list = vec![Diagnostic {
            line: 2,
            column: 23,
            path: "e.retries".into(),
            message: "unknown key".into(),
        }];
        let shown = Diagnostics::new(source, list).render(true);
        assert_eq!(
            shown,
            "f.yaml:2:23: e.retries: unknown key\n\
             2 | e: {api_key: <redacted>, retries: 3}\n  \
             |                          ^"
        );
    }

    #[test]
    fn without_a_tree_no_line_that_may_hold_a_credential_is_shown() {
        let source = Arc::new(Source::new(
            "f.yaml",
            "api_key: hunter2 ]\nb: ]\n",
            None,
            Secrets::default(),
        ));
        let list = vec![
            Diagnostic {
                line: 2,
                column: 4,
                path: String::new(),
                message: "later".into(),
            },
            Diagnostic {
                line: 1,
                column: 18,
                path: String::new(),
                message: "bad".into(),
            },
        ];
        let shown = Diagnostics::new(source, list).render(true);
        assert_eq!(shown, "f.yaml:1:18: bad\nf.yaml:2:4: later\n2 | b: ]\n  |    ^");
    }
}
