//! `server_metrics_export.parquet`: every scrape of the profiling phases that says something new, as columns, a row for each figure.
//!
//! Counters and histograms are told as growth since the phases began, so the last rows are the totals of `server_metrics_export.json`.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Arc;

use ::parquet::basic::{LogicalType, Repetition, Type as Physical};
use ::parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use ::parquet::errors::Result;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::{Type, TypePtr};

use super::Page;
use crate::artifact::json::TOOL_VERSION;
use crate::plan::PhaseKind;
use crate::telemetry::{Figures, SeriesName, Walk};

const SCHEMA_VERSION: &str = "1.0";

/// Rows that are gathered before they are written as a group: some 10 MB, however long the run was.
const GROUP_ROWS: usize = 1 << 16;

/// A figure at a scrape; of a histogram, one of its buckets.
struct Row<'a> {
    url: &'a str,
    series: SeriesName<'a>,
    wall: u64,
    value: Option<f64>,
    sum: Option<f64>,
    count: Option<f64>,
    bucket: Option<(&'a str, f64)>,
}

struct Column<'a> {
    name: String,
    repetition: Repetition,
    cells: Cells<'a>,
}

/// How a row fills a column.
enum Cells<'a> {
    Text(fn(&Row<'a>) -> Option<&'a str>),
    Label(&'a str),
    Time(fn(&Row<'a>) -> u64),
    Number(fn(&Row<'a>) -> Option<f64>),
}

pub(super) fn write(page: &Page<'_>, out: &mut (dyn Write + Send)) -> io::Result<()> {
    write_groups(page, out, GROUP_ROWS).map_err(io::Error::other)
}

fn write_groups(page: &Page<'_>, out: &mut (dyn Write + Send), group_rows: usize) -> Result<()> {
    let mut walks: Vec<(&str, Walk<'_>)> = page
        .answering()
        .map(|(history, course)| {
            let spans = page.spans_of(history, PhaseKind::Profiling);
            // As in the lines: they say what the server is and do not change.
            let walk = Walk::new(history, &spans, |name| !name.ends_with("_info"));
            (course.url.as_str(), walk)
        })
        .collect();
    let labels = walks.iter().flat_map(|(_, walk)| walk.names());
    let labels: BTreeSet<&str> = labels
        .flat_map(|name| name.labels)
        .map(|(label, _)| label.as_str())
        .collect();
    let columns = columns(&labels);
    let mut file = SerializedFileWriter::new(out, schema(&columns)?, Arc::new(properties(page)))?;
    let mut rows = Vec::new();
    // The earliest stop of all: scrapes of several endpoints are in the order of time.
    while let Some((_, url, walk)) = walks
        .iter_mut()
        .filter_map(|(url, walk)| Some((walk.next_at()?, url, walk)))
        .min_by_key(|&(at, ..)| at)
    {
        let Some(at) = walk.next_at() else { break };
        for (series, figures) in walk.step() {
            gather(url, series, page.wall(at), figures, &mut rows);
            if rows.len() >= group_rows {
                write_group(&mut file, &columns, &rows)?;
                rows.clear();
            }
        }
    }
    if !rows.is_empty() {
        write_group(&mut file, &columns, &rows)?;
    }
    file.close()?;
    Ok(())
}

fn gather<'a>(url: &'a str, series: SeriesName<'a>, wall: u64, figures: Figures<'a>, rows: &mut Vec<Row<'a>>) {
    let row = |value, sum, count, bucket| Row {
        url,
        series,
        wall,
        value,
        sum,
        count,
        bucket,
    };
    match figures {
        Figures::Value(value) => rows.push(row(Some(value), None, None, None)),
        Figures::Histogram { buckets, sum, count } if buckets.is_empty() => {
            rows.push(row(None, sum, Some(count), None));
        }
        Figures::Histogram { buckets, sum, count } => {
            let buckets = buckets.into_iter();
            rows.extend(buckets.map(|bucket| row(None, sum, Some(count), Some(bucket))));
        }
    }
}

fn columns<'a>(labels: &BTreeSet<&'a str>) -> Vec<Column<'a>> {
    const OPTIONAL: Repetition = Repetition::OPTIONAL;
    const REQUIRED: Repetition = Repetition::REQUIRED;
    let column = |name: &str, repetition, cells| Column {
        name: name.to_owned(),
        repetition,
        cells,
    };
    let before = [
        column("endpoint_url", REQUIRED, Cells::Text(|row| Some(row.url))),
        column("metric_name", REQUIRED, Cells::Text(|row| Some(row.series.family))),
        column(
            "metric_type",
            REQUIRED,
            Cells::Text(|row| Some(row.series.kind.as_str())),
        ),
        column("unit", OPTIONAL, Cells::Text(|row| row.series.unit)),
        column("description", REQUIRED, Cells::Text(|row| Some(row.series.help))),
        column("timestamp_ns", REQUIRED, Cells::Time(|row| row.wall)),
    ];
    let behind = [
        column("value", OPTIONAL, Cells::Number(|row| row.value)),
        column("sum", OPTIONAL, Cells::Number(|row| row.sum)),
        column("count", OPTIONAL, Cells::Number(|row| row.count)),
        column(
            "bucket_le",
            OPTIONAL,
            Cells::Text(|row| row.bucket.map(|(bound, _)| bound)),
        ),
        column(
            "bucket_count",
            OPTIONAL,
            Cells::Number(|row| row.bucket.map(|(_, count)| count)),
        ),
    ];
    let mut taken: BTreeSet<String> = before.iter().chain(&behind).map(|column| column.name.clone()).collect();
    let of_labels = labels.iter().map(|&label| {
        // Readers refuse a file in which two columns have one name.
        let mut name = label.to_owned();
        while taken.contains(&name) || (name != label && labels.contains(name.as_str())) {
            name.insert_str(0, "label_");
        }
        taken.insert(name.clone());
        column(&name, OPTIONAL, Cells::Label(label))
    });
    let of_labels: Vec<Column<'a>> = of_labels.collect();
    before.into_iter().chain(of_labels).chain(behind).collect()
}

fn schema(columns: &[Column<'_>]) -> Result<TypePtr> {
    let field = |column: &Column<'_>| {
        let (physical, logical) = match column.cells {
            Cells::Text(_) | Cells::Label(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Cells::Time(_) => (Physical::INT64, None),
            Cells::Number(_) => (Physical::DOUBLE, None),
        };
        let field = Type::primitive_type_builder(&column.name, physical)
            .with_repetition(column.repetition)
            .with_logical_type(logical);
        field.build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<Vec<TypePtr>>>()?;
    let root = Type::group_type_builder("server_metrics").with_fields(fields);
    root.build().map(Arc::new)
}

/// What the file says of its run. Texts are few and often repeated: they are kept in dictionaries, as the crate does unless told otherwise.
fn properties(page: &Page<'_>) -> WriterProperties {
    let pairs = [
        ("aiperf.schema_version", SCHEMA_VERSION),
        ("aiperf.version", TOOL_VERSION),
        ("aiperf.benchmark_id", &page.plan.benchmark_id),
    ];
    let pairs = pairs.map(|(key, value)| KeyValue::new(key.to_owned(), value.to_owned()));
    WriterProperties::builder()
        .set_key_value_metadata(Some(pairs.to_vec()))
        .build()
}

fn write_group<'a, W: Write + Send>(
    file: &mut SerializedFileWriter<W>,
    columns: &[Column<'a>],
    rows: &[Row<'a>],
) -> Result<()> {
    let mut group = file.next_row_group()?;
    for column in columns {
        let Some(mut out) = group.next_column()? else { break };
        let text = |text: Option<&str>| text.map(ByteArray::from);
        match column.cells {
            Cells::Text(cell) => put::<ByteArrayType>(&mut out, rows.iter().map(|row| text(cell(row)))),
            Cells::Label(label) => {
                let cell = |row: &Row<'a>| row.series.labels.iter().find(|(name, _)| name == label);
                let values = rows.iter().map(cell).map(|pair| pair.map(|(_, value)| value.as_str()));
                put::<ByteArrayType>(&mut out, values.map(text))
            }
            Cells::Time(cell) => put::<Int64Type>(&mut out, rows.iter().map(|row| i64::try_from(cell(row)).ok())),
            Cells::Number(cell) => put::<DoubleType>(&mut out, rows.iter().map(cell)),
        }?;
        out.close()?;
    }
    group.close()?;
    Ok(())
}

/// Writes the values that are there, and for every row whether one is.
fn put<T: DataType>(out: &mut SerializedColumnWriter<'_>, cells: impl Iterator<Item = Option<T::T>>) -> Result<usize> {
    let mut values = Vec::new();
    let levels: Vec<i16> = cells
        .map(|cell| {
            let level = i16::from(cell.is_some());
            values.extend(cell);
            level
        })
        .collect();
    out.typed::<T>().write_batch(&values, Some(&levels), None)
}

#[cfg(test)]
#[path = "parquet_tests.rs"]
mod tests;
