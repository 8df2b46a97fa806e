//! Figures of single requests, read back from `profile_export.jsonl`: what comparisons of several runs are made of.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::error::ArtifactError;
use super::names::Names;

/// A line, as far as it is read.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    metrics: HashMap<Cow<'a, str>, Entry>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    benchmark_phase: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Entry {
    value: Figure,
}

/// What a request has of a metric: one number, or a list, which is no figure of the request.
#[derive(Deserialize)]
#[serde(untagged)]
enum Figure {
    One(f64),
    Other(IgnoredAny),
}

/// The values of the metrics that are `wanted`, by tag, in the order of the lines: of profiling phases, and of requests that succeeded.
///
/// # Errors
/// The file is not there or cannot be read, or has a line that no run writes.
pub fn read_values(
    directory: &Path,
    prefix: Option<&str>,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<HashMap<String, Vec<f64>>, ArtifactError> {
    let names = Names::new(prefix).ok_or_else(|| ArtifactError::Prefix {
        prefix: prefix.unwrap_or_default().to_owned(),
    })?;
    let path = directory.join(names.jsonl());
    read(&path, wanted).map_err(|source| ArtifactError::Read { path, source })
}

fn read(path: &Path, wanted: &dyn Fn(&str) -> bool) -> io::Result<HashMap<String, Vec<f64>>> {
    let mut reader = BufReader::new(File::open(path)?);
    let (mut values, mut text) = (HashMap::<String, Vec<f64>>::new(), Vec::new());
    loop {
        text.clear();
        if reader.read_until(b'\n', &mut text)? == 0 {
            return Ok(values);
        }
        let line: Line<'_> = serde_json::from_slice(&text)?;
        if line.metadata.benchmark_phase != "profiling" || line.error.is_some() {
            continue;
        }
        for (tag, entry) in line.metrics {
            let Figure::One(value) = entry.value else { continue };
            if !wanted(&tag) {
                continue;
            }
            match values.get_mut(tag.as_ref()) {
                Some(list) => list.push(value),
                None => {
                    values.insert(tag.into_owned(), vec![value]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str, wanted: &dyn Fn(&str) -> bool) -> Result<HashMap<String, Vec<f64>>, ArtifactError> {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("profile_export.jsonl"), text).expect("a file");
        read_values(directory.path(), None, wanted)
    }

    #[test]
    fn values_are_those_of_measured_successes() {
        let line = |phase: &str, value: &str, more: &str| {
            format!(
                "{{\"metadata\":{{\"benchmark_phase\":\"{phase}\",\"x\":1}},\"metrics\":{{\"a\":{{\"value\":{value},\"unit\":\"ms\"}},\"b\":{{\"value\":[1,2]}}}}{more}}}\n"
            )
        };
        let text = [
            line("warmup", "1", ""),
            line("profiling", "2.5", ""),
            line("profiling", "3", ",\"error\":{\"code\":500}"),
            line("profiling", "4", ",\"error\":null"),
        ]
        .concat();
        let all = values(&text, &|_| true).expect("lines");
        assert_eq!(
            all,
            HashMap::from([("a".to_owned(), vec![2.5, 4.0])]),
            "lists are no figures"
        );
        assert_eq!(values(&text, &|tag| tag == "b").expect("lines"), HashMap::new());
    }

    #[test]
    fn a_line_that_is_none_is_an_error() {
        assert!(values("{}\n", &|_| true).is_err());
        assert!(values("", &|_| true).expect("no lines").is_empty());
        assert!(read_values(Path::new("/nonexistent"), None, &|_| true).is_err());
    }
}
