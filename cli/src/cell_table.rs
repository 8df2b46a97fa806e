//! Cells as a table: a line for each as it ends, under a header that comes with the first.

use crate::number::grouped_decimal;

/// The columns after number and name. A figure that a cell does not have is shown as N/A. The last one is there where requests are judged.
pub(crate) const FIGURES: [&str; 5] = [
    "requests/s",
    "ttft p99 (ms)",
    "latency p99 (ms)",
    "tokens/s",
    "goodput (req/s)",
];

/// One cell that has ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CellRow {
    /// Position in the order of running, from 0.
    pub(crate) index: usize,
    /// How it ended, in a word.
    pub(crate) status: String,
    /// In the order of [`FIGURES`].
    pub(crate) figures: [Option<f64>; FIGURES.len()],
    /// Why it did not succeed.
    pub(crate) reason: Option<String>,
    /// What came of the controllers of its phases, a line each.
    pub(crate) searches: Vec<String>,
}

/// Rows so far.
pub(crate) struct CellTable {
    names: Vec<String>,
    /// Where the artifacts of each cell are, below the directory of all.
    places: Vec<String>,
    figures: usize,
    width: usize,
    rows: Vec<CellRow>,
}

/// Longest name of a cell that is shown whole.
const NAME_CHARS: usize = 60;
/// Width of the column of statuses: that of its longest word.
const STATUS_WIDTH: usize = 11;
/// Status of a cell that never started.
const NOT_RUN: &str = "not run";
/// Status of a cell that was not to start any more: those before it agreed.
const NOT_NEEDED: &str = "not needed";

impl CellTable {
    /// For cells of these names and places, in the order of running. `judged`: there are service levels, and so there is a goodput.
    pub(crate) fn new(cells: impl Iterator<Item = (String, String)>, judged: bool) -> Self {
        let (names, places): (Vec<String>, Vec<String>) = cells.map(|(name, place)| (shorten(&name), place)).unzip();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        Self {
            names,
            places,
            figures: FIGURES.len() - usize::from(!judged),
            width: width.max("cell".len()),
            rows: Vec::new(),
        }
    }

    /// Adds a row and returns it as it is shown at once, after the header if it is the first.
    pub(crate) fn add(&mut self, row: CellRow) -> String {
        let header = if self.rows.is_empty() {
            self.header()
        } else {
            String::new()
        };
        let line = self.line(&row);
        self.rows.push(row);
        header + &line
    }

    /// The whole table, with the cells that did not run; `not_needed` of them were not to.
    pub(crate) fn all(&self, not_needed: &[usize]) -> String {
        let mut text = self.header();
        for (index, _) in self.names.iter().enumerate() {
            match self.rows.iter().find(|row| row.index == index) {
                Some(row) => text.push_str(&self.line(row)),
                None => text.push_str(
                    &self.line(&CellRow {
                        index,
                        status: if not_needed.contains(&index) {
                            NOT_NEEDED
                        } else {
                            NOT_RUN
                        }
                        .into(),
                        figures: [None; FIGURES.len()],
                        reason: None,
                        searches: Vec::new(),
                    }),
                ),
            }
        }
        text
    }

    fn header(&self) -> String {
        let digits = self.digits();
        let mut text = format!(
            "{:>digits$}  {:<width$}  {:<STATUS_WIDTH$}",
            "#",
            "cell",
            "status",
            width = self.width
        );
        for figure in &FIGURES[..self.figures] {
            text.push_str(&format!("  {figure:>16}"));
        }
        text + "  artifacts\n"
    }

    fn line(&self, row: &CellRow) -> String {
        let digits = self.digits();
        let mut text = format!(
            "{:>digits$}  {:<width$}  {:<STATUS_WIDTH$}",
            row.index + 1,
            self.names[row.index],
            row.status,
            width = self.width
        );
        for figure in &row.figures[..self.figures] {
            let figure = figure.map_or_else(|| "N/A".to_owned(), |figure| grouped_decimal(figure, 2));
            text.push_str(&format!("  {figure:>16}"));
        }
        // Of a cell that did not run there are none.
        match row.status.as_str() {
            NOT_RUN | NOT_NEEDED => text.push('\n'),
            _ => text.push_str(&format!("  {}\n", self.places[row.index])),
        }
        for line in row.reason.iter().chain(&row.searches) {
            let words: Vec<&str> = line.split_whitespace().collect();
            text.push_str(&format!("{:>digits$}  {}\n", "", words.join(" ")));
        }
        text
    }

    fn digits(&self) -> usize {
        self.names.len().to_string().len()
    }
}

fn shorten(name: &str) -> String {
    if name.chars().count() <= NAME_CHARS {
        return name.to_owned();
    }
    // The end tells cells of one sweep apart better than the beginning.
    let skipped = name.chars().count() - (NAME_CHARS - 1);
    std::iter::once('…').chain(name.chars().skip(skipped)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(index: usize, status: &str, reason: Option<&str>) -> CellRow {
        CellRow {
            index,
            status: status.into(),
            figures: [Some(1234.5), None, Some(7.0), None, Some(3.0)],
            reason: reason.map(str::to_owned),
            searches: Vec::new(),
        }
    }

    /// A table of cells of these names.
    fn table<const N: usize>(names: [&str; N], judged: bool) -> CellTable {
        CellTable::new(
            names.into_iter().map(|name| (name.to_owned(), name.replace('=', "_"))),
            judged,
        )
    }

    #[test]
    fn judged_requests_make_a_column_and_searches_a_line_each() {
        let mut plain = table(["c=1"], false);
        let line = plain.add(row(0, "succeeded", None));
        assert!(!line.contains("goodput") && !line.contains("3.00"), "{line}");
        let mut judged = table(["c=1"], true);
        let searches = vec!["adaptive scale of phase a, completed: x".to_owned(), "of b".to_owned()];
        let text = judged.add(CellRow {
            searches,
            ..row(0, "succeeded", None)
        });
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with("goodput (req/s)  artifacts"), "{text}");
        assert!(lines[1].ends_with(" 3.00  c_1"), "{text}");
        assert_eq!(lines[2..], ["   adaptive scale of phase a, completed: x", "   of b"]);
    }

    #[test]
    fn the_header_comes_with_the_first_row_only() {
        let mut table = table(["concurrency=1", "concurrency=2"], false);
        let first = table.add(row(0, "succeeded", None));
        assert!(first.starts_with("#  cell           status"), "{first}");
        assert!(
            first.contains("1  concurrency=1  succeeded            1,234.50               N/A"),
            "{first}"
        );
        let second = table.add(row(1, "failed", Some("500\nInternal Server Error")));
        assert!(
            !second.contains("status") && second.contains("500 Internal Server Error"),
            "{second}"
        );
    }

    #[test]
    fn cells_that_did_not_run_are_in_the_whole_table() {
        let mut table = table(["a", "b"], false);
        table.add(row(0, "interrupted", None));
        let all = table.all(&[]);
        assert_eq!(all.lines().count(), 3);
        assert!(
            all.lines()
                .nth(2)
                .is_some_and(|line| line.contains("b     not run") && line.ends_with("N/A")),
            "{all}"
        );
        assert!(table.all(&[1]).contains("b     not needed"));
    }

    #[test]
    fn long_names_keep_their_ends() {
        let name = format!("{}=64", "x".repeat(100));
        let short = shorten(&name);
        assert!(short.chars().count() == NAME_CHARS && short.starts_with('…') && short.ends_with("x=64"));
    }
}
