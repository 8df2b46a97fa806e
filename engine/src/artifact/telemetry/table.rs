//! `server_metrics_export.csv`: the same figures as tables, one for each kind of family.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::server::{Merged, merged};
use super::{Page, short};
use crate::artifact::csv::writer;
use crate::artifact::json::TOOL_VERSION;
use crate::plan::PhaseKind;
use crate::telemetry::{FamilyKind, PERCENTILES, SeriesStats, Stats};

const SCHEMA_VERSION: &str = "1.0";

pub(super) fn write(page: &Page<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "# AIPerf Server Metrics Export (CSV)")?;
    writeln!(out, "# aiperf_version: {TOOL_VERSION}")?;
    writeln!(out, "# schema_version: {SCHEMA_VERSION}")?;
    writeln!(out, "# benchmark_id: {}", page.plan.benchmark_id)?;
    writeln!(
        out,
        "# Note: the JSON export of the same benchmark_id has the same figures"
    )?;
    writeln!(out, "#")?;
    let families: Vec<(&str, Merged<'_>)> = merged(page, PhaseKind::Profiling).into_iter().collect();
    let mut is_first = true;
    for kind in FamilyKind::ALL {
        let of_kind = families
            .iter()
            .filter(|(name, merged)| merged.family.kind == kind && !is_info(kind, name));
        let of_kind: Vec<&(&str, Merged<'_>)> = of_kind.collect();
        if of_kind.is_empty() {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            writeln!(out)?;
        }
        write_kind(kind, &of_kind, out)?;
    }
    let infos: Vec<_> = families
        .iter()
        .filter(|(name, merged)| is_info(merged.family.kind, name))
        .collect();
    if infos.is_empty() {
        return Ok(());
    }
    if !is_first {
        writeln!(out)?;
    }
    let mut rows = writer(&mut *out, csv::Terminator::Any(b'\n'));
    rows.write_record(["Endpoint", "Metric", "Key", "Value", "Description"])?;
    for (name, merged) in infos {
        for (url, series) in &merged.series {
            for (key, value) in series.labels {
                rows.write_record([short(url), name, key, value, merged.family.help])?;
            }
        }
    }
    rows.flush()
}

/// What such a family says stands in its labels.
fn is_info(kind: FamilyKind, name: &str) -> bool {
    kind == FamilyKind::Gauge && name.ends_with("_info")
}

fn write_kind(kind: FamilyKind, families: &[&(&str, Merged<'_>)], out: &mut dyn Write) -> io::Result<()> {
    let series = || {
        families
            .iter()
            .flat_map(|(_, merged)| &merged.series)
            .map(|(_, series)| series)
    };
    let labels: BTreeSet<&str> = series()
        .flat_map(|series| series.labels)
        .map(|(name, _)| name.as_str())
        .collect();
    let has_slices = series().any(|series| !series.slices.is_empty());
    let mut header: Vec<String> = ["Endpoint", "Type", "Metric", "Unit"].map(String::from).to_vec();
    header.extend(columns(kind, has_slices));
    header.extend(labels.iter().map(|&label| label.to_owned()));
    header.push("Description".to_owned());
    if kind == FamilyKind::Histogram {
        header.push("buckets".to_owned());
    }
    let mut rows = writer(out, csv::Terminator::Any(b'\n'));
    rows.write_record(&header)?;
    for (name, merged) in families {
        for (url, series) in &merged.series {
            let mut row: Vec<String> = [short(url), kind.as_str(), name, merged.family.unit.unwrap_or_default()]
                .map(String::from)
                .to_vec();
            row.extend(cells(&series.stats, has_slices));
            row.extend(labels.iter().map(|label| label_of(series, label)));
            row.push(merged.family.help.to_owned());
            if let Stats::Histogram(histogram) = &series.stats {
                let pairs = histogram
                    .buckets
                    .iter()
                    .map(|(bound, count)| format!("{bound}={count}"));
                row.push(pairs.collect::<Vec<_>>().join(";"));
            }
            rows.write_record(&row)?;
        }
    }
    rows.flush()
}

fn label_of(series: &SeriesStats<'_>, label: &str) -> String {
    let found = series.labels.iter().find(|(name, _)| name == label);
    found.map(|(_, value)| value.clone()).unwrap_or_default()
}

fn columns(kind: FamilyKind, has_slices: bool) -> Vec<String> {
    let percentiles = |suffix: &str| PERCENTILES.map(|q| format!("p{q}{suffix}"));
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    match kind {
        FamilyKind::Gauge | FamilyKind::Unknown => {
            let mut columns = names(&["avg", "min", "max", "std"]);
            columns.extend(percentiles(""));
            columns
        }
        FamilyKind::Counter if has_slices => names(&["total", "rate", "rate_avg", "rate_min", "rate_max", "rate_std"]),
        FamilyKind::Counter => names(&["total", "rate"]),
        FamilyKind::Histogram => {
            let mut columns = names(&["count", "count_rate", "sum", "sum_rate", "avg"]);
            columns.extend(percentiles("_estimate"));
            columns
        }
    }
}

fn cells(stats: &Stats, has_slices: bool) -> Vec<String> {
    let cell = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
    match stats {
        Stats::Gauge(gauge) => [gauge.avg, gauge.min, gauge.max, gauge.std]
            .into_iter()
            .chain(gauge.percentiles)
            .map(|value| cell(Some(value)))
            .collect(),
        Stats::Counter(counter) => {
            let rates = counter.slice_rates;
            let rates = [
                rates.map(|rates| rates.avg),
                rates.map(|rates| rates.min),
                rates.map(|rates| rates.max),
                rates.map(|rates| rates.std),
            ];
            let shown = [Some(counter.total), counter.rate].into_iter();
            shown
                .chain(rates.into_iter().filter(|_| has_slices))
                .map(cell)
                .collect()
        }
        Stats::Histogram(histogram) => {
            let mut cells = vec![format!("{}", histogram.count)];
            cells.extend(
                [histogram.count_rate, histogram.sum, histogram.sum_rate, histogram.avg()]
                    .into_iter()
                    .map(cell),
            );
            let estimates = (0..PERCENTILES.len()).map(|at| histogram.percentiles.map(|estimates| estimates[at]));
            cells.extend(estimates.map(cell));
            cells
        }
    }
}
