//! One line of the Prometheus text format.
//!
//! The grammar is that of the exposition formats 0.0.4 and OpenMetrics 1.0 as far as both are written in practice: a timestamp may follow the
//! value, and whatever stands behind a `#` after the value (an exemplar, with or without braces) is not read.

use std::borrow::Cow;

/// What a line says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Line<'a> {
    /// `# HELP name text`; the text may be missing.
    Help { name: &'a str, text: Cow<'a, str> },
    /// `# TYPE name kind`.
    Type { name: &'a str, kind: &'a str },
    /// `name{labels} value`.
    Sample {
        name: &'a str,
        labels: Vec<(&'a str, Cow<'a, str>)>,
        value: f64,
    },
    /// A blank line, a comment, or `# EOF`.
    Nothing,
}

/// The line is none of the format. What is wrong with it is of no use to anybody: such lines are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bad;

/// Reads a line without its end.
///
/// # Errors
/// If it is not of the format.
pub(super) fn read(line: &[u8]) -> Result<Line<'_>, Bad> {
    let line = std::str::from_utf8(line).map_err(|_| Bad)?;
    let line = line.trim_matches(is_blank);
    if line.is_empty() {
        return Ok(Line::Nothing);
    }
    match line.strip_prefix('#') {
        Some(comment) => Ok(read_comment(comment)),
        None => read_sample(line),
    }
}

fn is_blank(c: char) -> bool {
    // A carriage return before the end of a line is what some servers add to it.
    matches!(c, ' ' | '\t' | '\r')
}

fn read_comment(comment: &str) -> Line<'_> {
    let (keyword, rest) = word(comment);
    let (name, rest) = word(rest);
    match keyword {
        "HELP" if is_name(name) => Line::Help {
            name,
            text: unescape(rest.trim_matches(is_blank)),
        },
        "TYPE" if is_name(name) => Line::Type {
            name,
            kind: word(rest).0,
        },
        _ => Line::Nothing,
    }
}

/// The first word, and what follows it.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches(is_blank);
    text.split_at(text.find(is_blank).unwrap_or(text.len()))
}

fn is_name(text: &str) -> bool {
    name_length(text, true) == text.len() && !text.is_empty()
}

/// Bytes of the name that `text` begins with. Names of labels have no colons.
fn name_length(text: &str, colons: bool) -> usize {
    let belongs = |(at, b): (usize, u8)| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'_' => true,
        b':' => colons,
        b'0'..=b'9' => at > 0,
        _ => false,
    };
    text.bytes().enumerate().take_while(|&one| belongs(one)).count()
}

fn read_sample(line: &str) -> Result<Line<'_>, Bad> {
    let (name, rest) = line.split_at(name_length(line, true));
    if name.is_empty() {
        return Err(Bad);
    }
    let rest = rest.trim_start_matches(is_blank);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => read_labels(inside)?,
        // Without labels a blank must stand between name and value.
        None if line.as_bytes().get(name.len()).is_some_and(|&b| is_blank(b.into())) => (Vec::new(), rest),
        None => return Err(Bad),
    };
    let (value, rest) = word(rest);
    let value = read_value(value).ok_or(Bad)?;
    let (timestamp, rest) = word(rest);
    if timestamp.is_empty() || timestamp.starts_with('#') {
        return Ok(Line::Sample { name, labels, value });
    }
    // Milliseconds in one format, seconds in the other: the time of the scrape is used instead, but a text here is a mistake.
    timestamp.parse::<f64>().map_err(|_| Bad)?;
    match word(rest).0 {
        "" => Ok(Line::Sample { name, labels, value }),
        more if more.starts_with('#') => Ok(Line::Sample { name, labels, value }),
        _ => Err(Bad),
    }
}

type Labels<'a> = Vec<(&'a str, Cow<'a, str>)>;

/// Reads up to the closing brace, and gives what follows it.
fn read_labels(mut rest: &str) -> Result<(Labels<'_>, &str), Bad> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches(is_blank);
        // A comma may stand behind the last label.
        if let Some(behind) = rest.strip_prefix('}') {
            return Ok((labels, behind));
        }
        let (name, behind) = rest.split_at(name_length(rest, false));
        if name.is_empty() {
            return Err(Bad);
        }
        let behind = behind.trim_start_matches(is_blank).strip_prefix('=').ok_or(Bad)?;
        let behind = behind.trim_start_matches(is_blank).strip_prefix('"').ok_or(Bad)?;
        let end = closing_quote(behind).ok_or(Bad)?;
        labels.push((name, unescape(&behind[..end])));
        rest = behind[end + 1..].trim_start_matches(is_blank);
        match rest.strip_prefix(',') {
            Some(next) => rest = next,
            // A quote inside the text, not escaped, ends up here.
            None if rest.starts_with('}') => {}
            None => return Err(Bad),
        }
    }
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|b| {
        let closes = b == b'"' && !escaped;
        escaped = b == b'\\' && !escaped;
        closes
    })
}

/// `\\`, `\"` and `\n`; any other pair is kept as it is.
fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (c, rest.as_str().chars().next()) {
            ('\\', Some('n')) => plain.push('\n'),
            ('\\', Some(kept @ ('\\' | '"'))) => plain.push(kept),
            _ => {
                plain.push(c);
                continue;
            }
        }
        rest.next();
    }
    Cow::Owned(plain)
}

/// A number, or a word for one without digits. Words such as `infinity`, which Rust also reads, are not of the format.
fn read_value(text: &str) -> Option<f64> {
    match text {
        "NaN" | "nan" => Some(f64::NAN),
        "+Inf" | "Inf" | "+inf" | "inf" => Some(f64::INFINITY),
        "-Inf" | "-inf" => Some(f64::NEG_INFINITY),
        digits if digits.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b)) => digits.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Labels and value of a sample.
    fn sample(line: &str) -> Option<(Vec<(String, String)>, f64)> {
        match read(line.as_bytes()) {
            Ok(Line::Sample { labels, value, .. }) => {
                let labels = labels
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value.into_owned()));
                Some((labels.collect(), value))
            }
            _ => None,
        }
    }

    fn labels(line: &str) -> Vec<(String, String)> {
        sample(line).unwrap_or_else(|| panic!("{line}")).0
    }

    #[test]
    fn values_are_read_in_all_their_spellings() {
        for (line, value) in [
            ("a 1", 1.0),
            ("a:b_c9 \t 2.5e-3 \r", 0.0025),
            ("a{} 5", 5.0),
            ("a { } 5", 5.0),
            ("a{x=\"1\",} -7", -7.0),
            ("a +Inf", f64::INFINITY),
            ("a 3 1700000000000", 3.0),
            ("a 3 1700000000.125", 3.0),
        ] {
            assert_eq!(sample(line).map(|(.., value)| value), Some(value), "{line}");
        }
        assert!(sample("a NaN").is_some_and(|(.., value)| value.is_nan()));
    }

    #[test]
    fn e07_e09_empty_braces_and_exemplars_do_not_hide_the_value() {
        for line in [
            "x_bucket{le=\"0.5\"} 8 # {} 5.9 1.6e9",
            "x_bucket{le=\"0.5\"} 8 # {trace_id=\"a b\"} 0.3",
            "x_bucket{le=\"0.5\"} 8 # 5.9 1.6e9",
            "x_bucket{le=\"0.5\"} 8 1700000000 # {} 5.9",
        ] {
            assert_eq!(sample(line).map(|(.., value)| value), Some(8.0), "{line}");
        }
        assert_eq!(sample("x_sum{} 1.5").map(|(.., value)| value), Some(1.5));
        assert_eq!(read(b"# EOF"), Ok(Line::Nothing));
    }

    #[test]
    fn labels_keep_what_was_escaped() {
        assert_eq!(
            labels(r#"a{p="C:\\dir",q="say \"hi\"\n",r="\d"} 1"#),
            [("p", "C:\\dir"), ("q", "say \"hi\"\n"), ("r", "\\d")].map(|(a, b)| (a.to_owned(), b.to_owned()))
        );
        assert_eq!(labels(r#"a{x="},{"} 1"#), [("x".to_owned(), "},{".to_owned())]);
    }

    #[test]
    fn e04_a_raw_quote_in_a_label_makes_the_line_bad() {
        assert_eq!(read(br#"a{x="say "hi" now"} 1"#), Err(Bad));
    }

    #[test]
    fn lines_of_other_formats_are_bad() {
        for line in [
            "[",
            "{\"a\": 1}",
            "]",
            "a",
            "a 1 2 3",
            "a 1 soon",
            "a one",
            "a infinity",
            "a 0x10",
            "a{x=\"1\" 1",
            "a{x=1} 1",
            "a{=\"1\"} 1",
            "a{x=\"1\"y=\"2\"} 1",
            "9a 1",
            "a{x:y=\"1\"} 1",
            "<html>",
        ] {
            assert_eq!(read(line.as_bytes()), Err(Bad), "{line}");
        }
        assert_eq!(read(b"a{x=\"\xff\"} 1"), Err(Bad));
    }

    #[test]
    fn e08_help_may_have_no_text_and_types_are_words() {
        let help = |line: &'static str| match read(line.as_bytes()) {
            Ok(Line::Help { name, text }) => (name, text.into_owned()),
            other => panic!("{other:?}"),
        };
        assert_eq!(help("# HELP a"), ("a", String::new()));
        assert_eq!(
            help("# HELP a  in \\\\ seconds\\n"),
            ("a", "in \\ seconds\n".to_owned())
        );
        assert_eq!(
            read(b"# TYPE a:b counter"),
            Ok(Line::Type {
                name: "a:b",
                kind: "counter"
            })
        );
        assert_eq!(read(b"#TYPE a gauge").map(|line| line == Line::Nothing), Ok(false));
        assert_eq!(read(b"# some remark"), Ok(Line::Nothing));
        assert_eq!(read(b" \t\r"), Ok(Line::Nothing));
    }
}
