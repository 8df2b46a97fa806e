//! The result tables on standard output. Figures come ready-made from the report; nothing is computed here.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ringload_engine::coordinator::Tally;

use crate::number::{counted, grouped, grouped_decimal};

/// The statistics of a metric, in the order of the columns.
pub(crate) const STATISTICS: [&str; 7] = ["avg", "min", "max", "p99", "p90", "p50", "std"];

/// One phase, or the aggregate of all profiling phases.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scope {
    /// What the table is about.
    pub(crate) title: String,
    /// What became of its requests: `sent = ok + errors + cancelled + truncated`.
    pub(crate) counts: Tally,
    /// Metrics, in the order of showing.
    pub(crate) rows: Vec<Row>,
    /// Distinct errors, most frequent first.
    pub(crate) errors: Vec<ErrorCount>,
}

/// One metric. A figure that does not exist (a percentile of a rate, say) is `None`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) header: String,
    pub(crate) unit: String,
    /// In the order of [`STATISTICS`].
    pub(crate) values: [Option<f64>; STATISTICS.len()],
}

/// A distinct error and how often it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ErrorCount {
    pub(crate) count: u64,
    /// HTTP status or another number; `None` where the error has none.
    pub(crate) code: Option<u16>,
    pub(crate) type_name: String,
    pub(crate) message: String,
}

/// Distinct errors that a table shows; the artifacts have them all.
const ERRORS_SHOWN: usize = 3;
/// Longest error text on one line.
const ERROR_CHARS: usize = 160;

/// The table of one scope.
pub(crate) fn render(scope: &Scope) -> String {
    let mut out = format!("{}\n  {}\n", scope.title, counts_line(&scope.counts));
    if !scope.rows.is_empty() {
        out.push_str(&render_rows(&scope.rows));
    }
    for error in scope.errors.iter().take(ERRORS_SHOWN) {
        let _ = writeln!(out, "  {} x {}", grouped(error.count), one_line(error));
    }
    if scope.errors.len() > ERRORS_SHOWN {
        let _ = writeln!(
            out,
            "  and {}, see the artifacts",
            counted((scope.errors.len() - ERRORS_SHOWN) as u64, "other error")
        );
    }
    out
}

/// An error as one line of bounded length, whatever a server put into its text.
pub(crate) fn one_line(error: &ErrorCount) -> String {
    let code = error.code.map_or(String::new(), |code| format!("{code} "));
    let words: Vec<&str> = error
        .message
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    let mut text = format!("{code}{}: {}", error.type_name, words.join(" "));
    if text.chars().count() > ERROR_CHARS {
        text = text.chars().take(ERROR_CHARS - 1).collect();
        text.push('…');
    }
    text
}

/// The law of accounting, with its figures.
fn counts_line(counts: &Tally) -> String {
    format!(
        "sent {} = {} ok + {} + {} cancelled + {} truncated",
        grouped(counts.sent),
        grouped(counts.succeeded),
        counted(counts.failed, "error"),
        grouped(counts.cancelled),
        grouped(counts.truncated),
    )
}

/// A table of its own beside those of the scopes.
pub(crate) fn render_table(title: &str, rows: &[Row]) -> String {
    format!("{title}\n{}", render_rows(rows))
}

fn render_rows(rows: &[Row]) -> String {
    let mut cells: Vec<Vec<String>> = vec![
        std::iter::once("metric".to_owned())
            .chain(STATISTICS.map(str::to_owned))
            .collect(),
    ];
    for row in rows {
        let name = if row.unit.is_empty() {
            row.header.clone()
        } else {
            format!("{} ({})", row.header, row.unit)
        };
        let figures = row.values.iter().map(|value| match value {
            Some(value) => grouped_decimal(*value, 2),
            None => "N/A".to_owned(),
        });
        cells.push(std::iter::once(name).chain(figures).collect());
    }
    let widths: Vec<usize> = (0..=STATISTICS.len())
        .map(|column| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for row in &cells {
        let _ = write!(out, "  {:<width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(out, "  {cell:>width$}");
        }
        out.push('\n');
    }
    out
}

/// The files that were written, one line per directory.
pub(crate) fn render_files(directory: &Path, files: &[PathBuf]) -> String {
    let mut groups: BTreeMap<&Path, Vec<String>> = BTreeMap::new();
    for file in files {
        let relative = file.strip_prefix(directory).unwrap_or(file);
        let name = relative.file_name().unwrap_or(relative.as_os_str());
        groups
            .entry(relative.parent().unwrap_or(Path::new("")))
            .or_default()
            .push(name.to_string_lossy().into_owned());
    }
    let mut out = format!("artifacts in {}\n", directory.display());
    for (group, names) in groups {
        let label = if group.as_os_str().is_empty() {
            String::new()
        } else {
            format!("{}/  ", group.display())
        };
        let _ = writeln!(out, "  {label}{}", names.join("  "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        Scope {
            title: "baseline (profiling), 30.0 s".into(),
            counts: Tally {
                sent: 1234,
                succeeded: 1200,
                failed: 4,
                cancelled: 30,
                truncated: 0,
            },
            rows: vec![
                Row {
                    header: "Time to First Token".into(),
                    unit: "ms".into(),
                    values: [20.5, 19.0, 1234.567, 30.0, 25.0, 20.0, 1.25].map(Some),
                },
                Row {
                    header: "Request Throughput".into(),
                    unit: "requests/sec".into(),
                    values: [Some(12_345.6), None, None, None, None, None, None],
                },
            ],
            errors: Vec::new(),
        }
    }

    #[test]
    fn columns_line_up_and_missing_figures_say_so() {
        assert_eq!(
            render(&scope()),
            "baseline (profiling), 30.0 s\n\
             \x20 sent 1,234 = 1,200 ok + 4 errors + 30 cancelled + 0 truncated\n\
             \x20 metric                                   avg    min       max    p99    p90    p50   std\n\
             \x20 Time to First Token (ms)               20.50  19.00  1,234.57  30.00  25.00  20.00  1.25\n\
             \x20 Request Throughput (requests/sec)  12,345.60    N/A       N/A    N/A    N/A    N/A   N/A\n"
        );
    }

    #[test]
    fn a_scope_without_figures_still_accounts_for_its_requests() {
        let scope = Scope {
            rows: Vec::new(),
            ..scope()
        };
        assert_eq!(render(&scope).lines().count(), 2);
    }

    #[test]
    fn only_the_most_frequent_errors_are_shown() {
        let error = |count| ErrorCount {
            count,
            code: Some(503),
            type_name: "Service Unavailable".into(),
            message: format!("busy {count}"),
        };
        let scope = Scope {
            errors: (1..=5).rev().map(error).collect(),
            ..scope()
        };
        let text = render(&scope);
        assert!(text.contains("  5 x 503 Service Unavailable: busy 5\n"), "{text}");
        assert!(!text.contains("busy 2"), "{text}");
        assert!(text.ends_with("  and 2 other errors, see the artifacts\n"), "{text}");
    }

    #[test]
    fn an_error_is_one_short_line_without_control_characters() {
        let error = ErrorCount {
            count: 1,
            code: None,
            type_name: "ClientPayloadError".into(),
            message: format!("line one\r\n\tline\x1b[2Jtwo {}", "x".repeat(500)),
        };
        let line = one_line(&error);
        assert!(line.starts_with("ClientPayloadError: line one line [2Jtwo x"), "{line}");
        assert_eq!(line.chars().count(), ERROR_CHARS);
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }

    #[test]
    fn files_are_grouped_by_directory() {
        let files = [
            "profile.json",
            "phases/a/profile.json",
            "profile.csv",
            "phases/a/profile.csv",
        ];
        let files: Vec<PathBuf> = files.iter().map(|file| Path::new("/out").join(file)).collect();
        assert_eq!(
            render_files(Path::new("/out"), &files),
            "artifacts in /out\n  profile.json  profile.csv\n  phases/a/  profile.json  profile.csv\n"
        );
    }
}
