//! `profile_export_aiperf.csv`: distributions, a blank line, scalars; both sorted by tag.

use std::io::{self, Write};

use csv::{Terminator, WriterBuilder};

use crate::report::{Metric, PERCENTILES, ScopeReport, Unit, Value};
use crate::telemetry::Efficiency;

/// Writes one scope: commas, CRLF, quotes where needed, two decimals, an empty cell for a figure that does not exist.
///
/// `costs` are further scalars.
pub(super) fn write(scope: &ScopeReport, costs: &[Efficiency], out: &mut dyn Write) -> io::Result<()> {
    let mut sorted: Vec<_> = scope.metrics.iter().collect();
    sorted.sort_by_key(|measured| measured.metric.tag);

    let mut header = vec!["Metric".to_owned()];
    header.extend(["avg", "min", "max", "sum"].map(String::from));
    header.extend(PERCENTILES.map(|q| format!("p{q}")));
    header.push("std".to_owned());
    let mut distributions = writer(&mut *out, Terminator::CRLF);
    distributions.write_record(&header)?;
    for measured in &sorted {
        let Value::Distribution(d) = &measured.value else {
            continue;
        };
        // With most requests failed, an error-adjusted twin has a minimum and no finite percentile: not a row of this table.
        if d.percentiles.iter().all(Option::is_none) {
            continue;
        }
        let figures = [d.avg, d.min, d.max, d.sum]
            .into_iter()
            .chain(d.percentiles)
            .chain([d.std]);
        let cells = figures.map(|figure| figure.map_or(String::new(), cell));
        distributions.write_record([name(measured.metric)].into_iter().chain(cells))?;
    }
    distributions.flush()?;
    drop(distributions);

    out.write_all(b"\r\n")?;
    let mut scalars = writer(&mut *out, Terminator::CRLF);
    scalars.write_record(["Metric", "Value"])?;
    let figures = sorted.iter().filter_map(|measured| match measured.value {
        Value::Scalar(value) => Some((measured.metric.tag, name(measured.metric), value)),
        Value::Distribution(_) => None,
    });
    let costs = costs
        .iter()
        .map(|cost| (cost.tag, format!("{} ({})", cost.title, cost.unit), cost.value));
    let mut rows: Vec<(&str, String, f64)> = figures.chain(costs).collect();
    rows.sort_by_key(|&(tag, ..)| tag);
    for (_, name, value) in rows {
        scalars.write_record([name, cell(value)])?;
    }
    scalars.flush()
}

/// Writes rows that end so.
pub(super) fn writer<W: Write>(out: W, end: Terminator) -> csv::Writer<W> {
    WriterBuilder::new().terminator(end).from_writer(out)
}

/// Header and unit; counts speak for themselves.
fn name(metric: &Metric) -> String {
    match metric.unit {
        Unit::Count | Unit::Requests => metric.header.to_owned(),
        unit => format!("{} ({})", metric.header, unit.name()),
    }
}

/// Two decimals, as in all of these tables.
pub(super) fn cell(value: f64) -> String {
    format!("{value:.2}")
}
