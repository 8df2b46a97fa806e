//! What an endpoint says in one answer: families of series, gathered from lines.
//!
//! ```text
//! bytes, however split --> lines --> samples --> families: counter, gauge, histogram, unknown
//! ```

use std::collections::BTreeMap;

use memchr::memchr;

use super::line::{self, Line};

/// A longer line is not kept: nothing that a server measures needs it.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// What kind of figure a family is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FamilyKind {
    /// Goes up and down.
    Gauge,
    /// Only goes up, until its server starts anew.
    Counter,
    /// Counts by size, their number and their sum.
    Histogram,
    /// The server does not say.
    Unknown,
}

impl FamilyKind {
    /// Every kind, in the order of the artifacts.
    pub const ALL: [Self; 4] = [Self::Gauge, Self::Counter, Self::Histogram, Self::Unknown];

    /// The word in artifacts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Histogram => "histogram",
            Self::Unknown => "unknown",
        }
    }
}

/// Names and values, sorted by name.
pub type Labels = Vec<(String, String)>;

/// One series at one moment. A histogram has the last three; another kind has the first.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Reading {
    pub(super) value: Option<f64>,
    pub(super) sum: Option<f64>,
    pub(super) count: Option<f64>,
    /// Upper bound as written, and the count up to it, in the order of the answer.
    pub(super) buckets: Vec<(String, f64)>,
}

/// One family at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Family {
    pub(super) kind: FamilyKind,
    pub(super) help: String,
    pub(super) series: BTreeMap<Labels, Reading>,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Exposition {
    /// By name; names of counters have lost their `_total`.
    pub(super) families: BTreeMap<String, Family>,
    /// Samples that were read, those left out included.
    pub(super) samples: u64,
    /// Lines that are not of the format.
    pub(super) bad_lines: u64,
    /// Samples that stand in the answer a second time.
    pub(super) repeated: u64,
}

impl Exposition {
    /// Whether this is an answer in the format at all: a page of something else has lines and not one sample.
    pub(super) fn is_of_the_format(&self) -> bool {
        self.samples > 0 || self.bad_lines == 0
    }
}

/// Reads an answer piece by piece.
#[derive(Debug, Default)]
pub(super) struct Parser {
    /// The beginning of a line whose end has not come yet.
    partial: Vec<u8>,
    /// That line is too long; its end is waited for.
    skipping: bool,
    kinds: BTreeMap<String, Declared>,
    help: BTreeMap<String, String>,
    found: Exposition,
}

/// The word behind `# TYPE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Declared {
    Kind(FamilyKind),
    /// Quantiles over a time that the server chose: they cannot be told for a phase.
    Summary,
}

/// What a sample is to its family.
enum Part {
    Value,
    Bucket,
    Sum,
    Count,
}

impl Parser {
    /// Takes the next piece.
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr(b'\n', bytes) {
            let (piece, rest) = (&bytes[..end], &bytes[end + 1..]);
            self.end_line(piece);
            bytes = rest;
        }
        self.keep(bytes);
    }

    /// The answer is over; its last line may have no end.
    pub(super) fn finish(mut self) -> Exposition {
        self.end_line(&[]);
        let Self { kinds, mut found, .. } = self;
        // When a series was made is not a figure of the server. Python's client writes it as a gauge of its own.
        found.families.retain(|name, _| {
            let base = name.strip_suffix("_created");
            !base.is_some_and(|base| kinds.contains_key(base) || kinds.contains_key(&format!("{base}_total")))
        });
        found
    }

    fn keep(&mut self, piece: &[u8]) {
        if self.partial.len() + piece.len() > LINE_BYTES_MAX {
            self.skipping = true;
            self.partial.clear();
        } else if !self.skipping {
            self.partial.extend_from_slice(piece);
        }
    }

    fn end_line(&mut self, piece: &[u8]) {
        if self.partial.is_empty() && !self.skipping && piece.len() <= LINE_BYTES_MAX {
            return self.take_line(piece);
        }
        self.keep(piece);
        let line = std::mem::take(&mut self.partial);
        if std::mem::take(&mut self.skipping) {
            self.found.bad_lines += 1;
        } else {
            self.take_line(&line);
        }
        self.partial = line;
        self.partial.clear();
    }

    fn take_line(&mut self, line: &[u8]) {
        match line::read(line) {
            Ok(Line::Nothing) => {}
            Ok(Line::Help { name, text }) => {
                self.help.insert(name.to_owned(), text.into_owned());
            }
            Ok(Line::Type { name, kind }) => {
                let declared = match kind {
                    "counter" => Declared::Kind(FamilyKind::Counter),
                    "gauge" => Declared::Kind(FamilyKind::Gauge),
                    "histogram" => Declared::Kind(FamilyKind::Histogram),
                    "summary" => Declared::Summary,
                    _ => Declared::Kind(FamilyKind::Unknown),
                };
                self.kinds.insert(name.to_owned(), declared);
            }
            Ok(Line::Sample { name, labels, value }) => {
                self.found.samples += 1;
                let labels = labels
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value.into_owned()));
                self.take_sample(name, labels.collect(), value);
            }
            Err(line::Bad) => self.found.bad_lines += 1,
        }
    }

    fn take_sample(&mut self, name: &str, mut labels: Labels, value: f64) {
        let Some((declared_name, kind, part)) = self.place(name) else {
            return;
        };
        let bound = match part {
            Part::Bucket => match labels.iter().position(|(label, _)| label == "le") {
                Some(at) => Some(labels.remove(at).1),
                // A bucket without a bound says nothing.
                None => {
                    self.found.bad_lines += 1;
                    return;
                }
            },
            _ => None,
        };
        labels.sort();
        let family_name = match kind {
            FamilyKind::Counter => declared_name.strip_suffix("_total").unwrap_or(declared_name),
            _ => declared_name,
        };
        let help = &self.help;
        let family = self
            .found
            .families
            .entry(family_name.to_owned())
            .or_insert_with(|| Family {
                kind,
                help: help
                    .get(declared_name)
                    .or_else(|| help.get(family_name))
                    .cloned()
                    .unwrap_or_default(),
                series: BTreeMap::new(),
            });
        let reading = family.series.entry(labels).or_default();
        let slot = match part {
            Part::Value => &mut reading.value,
            Part::Sum => &mut reading.sum,
            Part::Count => &mut reading.count,
            Part::Bucket => {
                let bound = bound.expect("a bucket has its bound by now");
                if reading.buckets.iter().any(|(known, _)| *known == bound) {
                    self.found.repeated += 1;
                } else {
                    reading.buckets.push((bound, value));
                }
                return;
            }
        };
        // The first one counts: two lines of one series are one figure written twice.
        if slot.is_some() {
            self.found.repeated += 1;
        } else {
            *slot = Some(value);
        }
    }

    /// The declared family of a sample, its kind, and the part of it that the sample is. `None` for what is left out.
    fn place<'n>(&self, name: &'n str) -> Option<(&'n str, FamilyKind, Part)> {
        const PARTS: [(&str, Part); 3] = [("_bucket", Part::Bucket), ("_sum", Part::Sum), ("_count", Part::Count)];
        for (suffix, part) in PARTS {
            let Some(base) = name.strip_suffix(suffix) else {
                continue;
            };
            match self.kinds.get(base) {
                Some(Declared::Kind(FamilyKind::Histogram)) => return Some((base, FamilyKind::Histogram, part)),
                Some(Declared::Summary) => return None,
                _ => {}
            }
        }
        if let Some(base) = name.strip_suffix("_created")
            && self.kinds.contains_key(base)
            && !self.kinds.contains_key(name)
        {
            return None;
        }
        // OpenMetrics declares `x` and writes `x_total`; the older format declares what it writes.
        if let Some(base) = name.strip_suffix("_total")
            && self.kinds.get(base) == Some(&Declared::Kind(FamilyKind::Counter))
        {
            return Some((base, FamilyKind::Counter, Part::Value));
        }
        match self.kinds.get(name) {
            Some(Declared::Summary) => None,
            // Its samples have suffixes.
            Some(Declared::Kind(FamilyKind::Histogram)) => None,
            Some(Declared::Kind(FamilyKind::Unknown)) | None if name.ends_with("_total") => {
                Some((name, FamilyKind::Counter, Part::Value))
            }
            Some(Declared::Kind(kind)) => Some((name, *kind, Part::Value)),
            None => Some((name, FamilyKind::Unknown, Part::Value)),
        }
    }
}

/// What an answer says, read in pieces of so many bytes, in words: figures that are no numbers are equal in them.
pub(crate) fn told(bytes: &[u8], piece: usize) -> String {
    let mut parser = Parser::default();
    bytes.chunks(piece).for_each(|piece| parser.push(piece));
    let found = parser.finish();
    assert!(found.samples >= found.repeated, "{found:?}");
    format!("{found:?}")
}

#[cfg(test)]
pub(super) fn parse(text: &str) -> Exposition {
    let mut parser = Parser::default();
    parser.push(text.as_bytes());
    parser.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One of everything, bad lines among it.
    const TEXT: &str = "# HELP v:run Requests, running.\n# TYPE v:run gauge\nv:run{m=\"a\"} 4\r\nv:run{m=\"b\"} NaN\n\
        # TYPE v:tok_total counter\nv:tok_total{m=\"a\"} 17\nv:tok_total{m=\"a\"} 17\n\
        # HELP v:tok_created x\n# TYPE v:tok_created gauge\nv:tok_created{m=\"a\"} 1.7e9\n\
        # HELP h\n# TYPE h histogram\nh_bucket{le=\"0\"} 0\nh_bucket{le=\"0.5\"} 3 # {} 0.2 1.6e9\nh_bucket{le=\"+Inf\"} 4\nh_sum{} 2.5\nh_count{} 4\n\
        # TYPE s summary\ns{quantile=\"0.5\"} 1\ns_sum 1\ns_count 1\n\
        bad{x=\"a\"b\"} 1\nplain 7\n# EOF\nlast{x=\"\u{e9}\"} 8";

    fn value(found: &Exposition, family: &str, label: Option<(&str, &str)>) -> Option<f64> {
        let labels: Labels = label.into_iter().map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
        found.families.get(family)?.series.get(&labels)?.value
    }

    #[test]
    fn families_are_gathered_from_their_samples() {
        let found = parse(TEXT);
        let names: Vec<_> = found
            .families
            .iter()
            .map(|(name, family)| (name.as_str(), family.kind))
            .collect();
        assert_eq!(
            names,
            [
                ("h", FamilyKind::Histogram),
                ("last", FamilyKind::Unknown),
                ("plain", FamilyKind::Unknown),
                ("v:run", FamilyKind::Gauge),
                ("v:tok", FamilyKind::Counter),
            ]
        );
        assert_eq!(found.families["v:run"].help, "Requests, running.");
        assert_eq!(value(&found, "v:run", Some(("m", "a"))), Some(4.0));
        let histogram = &found.families["h"].series[&Labels::new()];
        assert_eq!((histogram.sum, histogram.count), (Some(2.5), Some(4.0)));
        let buckets = [("0", 0.0), ("0.5", 3.0), ("+Inf", 4.0)].map(|(bound, count)| (bound.to_owned(), count));
        assert_eq!(histogram.buckets, buckets);
    }

    #[test]
    fn e03_counters_are_found_with_and_without_their_suffix() {
        let openmetrics = parse("# TYPE tok counter\ntok_total 5\n# TYPE old counter\nold 6\nuntyped_total 7\n");
        for (name, expected) in [("tok", 5.0), ("old", 6.0), ("untyped", 7.0)] {
            assert_eq!(openmetrics.families[name].kind, FamilyKind::Counter, "{name}");
            assert_eq!(value(&openmetrics, name, None), Some(expected));
        }
        assert_eq!(value(&openmetrics, "gone", None), None, "missing is absent, never 0");
    }

    #[test]
    fn e04_a_bad_line_is_counted_and_the_others_are_kept() {
        let good: String = (0..100).map(|index| format!("g{{i=\"{index}\"}} {index}\n")).collect();
        let found = parse(&format!("{good}g{{i=\"a\"b\"}} 1\n"));
        assert_eq!((found.samples, found.bad_lines), (100, 1));
        assert_eq!(found.families["g"].series.len(), 100);
    }

    #[test]
    fn e15_a_line_that_stands_there_twice_counts_once() {
        let found = parse("c_total{a=\"1\",b=\"2\"} 5\nc_total{b=\"2\",a=\"1\"} 5\n");
        assert_eq!(found.families["c"].series.len(), 1);
        assert_eq!(found.repeated, 1);
    }

    #[test]
    fn e01_an_answer_of_another_kind_is_told_apart() {
        for other in [
            "[{\"name\": \"x\", \"value\": 1}]",
            "[\n  1,\n  2\n]",
            "<html>\n<body>x</body>",
        ] {
            assert!(!parse(other).is_of_the_format(), "{other}");
        }
        assert!(parse("").is_of_the_format());
        assert!(parse("# HELP x y\n").is_of_the_format());
        assert!(parse("x 1\n[\n").is_of_the_format());
    }

    #[test]
    fn an_endless_line_is_bad_and_does_not_take_the_next_one_along() {
        let found = parse(&format!("a{{x=\"{}\"}} 1\nb 2\n", "y".repeat(LINE_BYTES_MAX)));
        assert_eq!((found.bad_lines, value(&found, "b", None)), (1, Some(2.0)));
    }

    #[test]
    fn every_split_in_two_gives_the_same() {
        let whole = format!("{:?}", parse(TEXT));
        for at in 0..=TEXT.len() {
            let mut parser = Parser::default();
            parser.push(&TEXT.as_bytes()[..at]);
            parser.push(&TEXT.as_bytes()[at..]);
            assert_eq!(format!("{:?}", parser.finish()), whole, "split at {at}");
        }
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_give_the_same(sizes in prop::collection::vec(1usize..40, 1..40)) {
            let mut parser = Parser::default();
            let mut rest = TEXT.as_bytes();
            for size in sizes.iter().cycle() {
                let (piece, behind) = rest.split_at((*size).min(rest.len()));
                parser.push(piece);
                rest = behind;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(format!("{:?}", parser.finish()), format!("{:?}", parse(TEXT)));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut parser = Parser::default();
            parser.push(&bytes);
            parser.finish();
        }
    }
}
