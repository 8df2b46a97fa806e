//! `profile_export_aiperf_timeslices.json` and `.csv`: the figures of each slice of the run.

use std::io::{self, Write};

use csv::Terminator;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::csv::{cell, writer};
use super::{echo, json};
use crate::plan::Plan;
use crate::report::{Distribution, PERCENTILES, Slice, Value as Figure};

/// Writes the document. Thousands of slices would not fit in memory as one value, so they become text one by one.
pub(super) fn write_json(plan: &Plan, slices: &[Slice], out: &mut dyn Write) -> io::Result<()> {
    let (input_config, own) = echo::split(&plan.input_config);
    let document = Document {
        slices,
        input_config,
        additions: own.map(|own| json!({ "input_config": own })),
    };
    serde_json::to_writer_pretty(out, &document).map_err(io::Error::from)
}

struct Document<'a> {
    slices: &'a [Slice],
    input_config: Value,
    additions: Option<Value>,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let slices: Vec<One<'_>> = self.slices.iter().map(One).collect();
        map.serialize_entry("timeslices", &slices)?;
        map.serialize_entry("input_config", &self.input_config)?;
        if let Some(additions) = &self.additions {
            map.serialize_entry("ringload", additions)?;
        }
        map.end()
    }
}

/// One slice: where it lies, then its metrics by tag.
struct One<'a>(&'a Slice);

impl Serialize for One<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Slice {
            start_ns,
            end_ns,
            is_complete,
            metrics,
            ..
        } = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("start_ns", start_ns)?;
        map.serialize_entry("end_ns", end_ns)?;
        if !is_complete {
            map.serialize_entry("is_complete", &false)?;
        }
        for (tag, figures) in metrics.iter().map(json::entry) {
            map.serialize_entry(&tag, &figures)?;
        }
        map.end()
    }
}

/// Writes one row for each statistic of each metric of each slice, metrics sorted by tag.
pub(super) fn write_csv(slices: &[Slice], out: &mut dyn Write) -> io::Result<()> {
    let mut rows = writer(out, Terminator::CRLF);
    rows.write_record(["Timeslice", "Start_NS", "End_NS", "Metric", "Unit", "Stat", "Value"])?;
    for slice in slices {
        let place = [slice.number as u64, slice.start_ns, slice.end_ns].map(|number| number.to_string());
        let mut sorted: Vec<_> = slice.metrics.iter().collect();
        sorted.sort_by_key(|measured| measured.metric.tag);
        for measured in sorted {
            let (header, unit) = (measured.metric.header, measured.metric.unit.name());
            let statistics = match &measured.value {
                Figure::Scalar(value) => vec![("avg".to_owned(), *value)],
                Figure::Distribution(figures) => statistics(figures),
            };
            for (statistic, value) in statistics {
                let row = [header, unit, &statistic, &cell(value)];
                rows.write_record(place.iter().map(String::as_str).chain(row))?;
            }
        }
    }
    rows.flush()
}

/// Those that exist, in the order of the other tables.
fn statistics(d: &Distribution) -> Vec<(String, f64)> {
    let percentiles = PERCENTILES.iter().zip(d.percentiles);
    [("avg", d.avg), ("min", d.min), ("max", d.max), ("sum", d.sum)]
        .map(|(name, figure)| (name.to_owned(), figure))
        .into_iter()
        .chain(percentiles.map(|(q, figure)| (format!("p{q}"), figure)))
        .chain([("std".to_owned(), d.std)])
        .filter_map(|(name, figure)| Some((name, figure?)))
        .collect()
}
