//! Files are read back with the crate's own reader.

use std::fs::File;

use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::{Field, Row as Read};

use super::super::TelemetryFacts;
use super::*;
use crate::id::PhaseId;
use crate::report::fixture::{BASELINE, STRESS, WARMUP, anchor, plan};
use crate::telemetry::{Course, History, Lifetime};
use crate::units::Nanos;

const SCRAPES: [&str; 5] = [
    "# TYPE c counter\nc_total{model=\"m\"} 3\n# TYPE v_info gauge\nv_info{version=\"1\"} 1\n",
    "# TYPE c counter\nc_total{model=\"m\"} 4\n",
    // Halfway.
    "# TYPE c counter\nc_total{model=\"m\"} 9\n# TYPE g gauge\n# HELP g Number of requests.\ng{value=\"x\"} 2\n",
    "# TYPE c counter\nc_total{model=\"m\"} 9\n# TYPE g gauge\ng{value=\"x\"} 2\n",
    "# TYPE c counter\nc_total{model=\"m\"} 10\n\
     # TYPE h histogram\nh_bucket{le=\"0.5\"} 1\nh_bucket{le=\"+Inf\"} 3\nh_sum 7.5\nh_count 3\n",
];

/// Warmup in the first second, then two profiling phases.
fn lifetimes() -> [(PhaseId, Lifetime); 3] {
    [(WARMUP, 100, 900), (BASELINE, 1_100, 2_900), (STRESS, 2_950, 3_900)].map(|(id, start, end)| {
        let [start, end] = [start, end].map(Nanos::from_millis);
        (id, Lifetime { start, end })
    })
}

fn file(servers: &[(History, Course)], group_rows: usize) -> SerializedFileReader<File> {
    let (plan, lifetimes) = (plan(), lifetimes());
    let facts = TelemetryFacts {
        servers,
        gpus: None,
        lifetimes: &lifetimes,
        anchor: anchor(),
    };
    let mut file = tempfile::tempfile().expect("a file");
    write_groups(&Page { plan: &plan, facts }, &mut file, group_rows).expect("written");
    SerializedFileReader::new(file).expect("a file that can be read")
}

fn server(url: &str, answers: &[&str]) -> (History, Course) {
    let course = Course {
        url: url.to_owned(),
        ..Course::default()
    };
    (History::each_second(answers), course)
}

fn cell(row: &Read, name: &str) -> Field {
    let found = row.get_column_iter().find(|(column, _)| *column == name);
    found.unwrap_or_else(|| panic!("no {name} in {row}")).1.clone()
}

fn text(text: &str) -> Field {
    Field::Str(text.to_owned())
}

fn rows(file: &SerializedFileReader<File>) -> Vec<Read> {
    let rows = file.get_row_iter(None).expect("rows");
    rows.map(|row| row.expect("a row")).collect()
}

#[test]
fn a_row_is_a_figure_or_a_bucket_and_counts_from_the_reference() {
    let file = file(&[server("http://a/metrics", &SCRAPES)], GROUP_ROWS);
    let schema = file.metadata().file_metadata().schema_descr();
    let names: Vec<&str> = schema.columns().iter().map(|column| column.name()).collect();
    assert_eq!(
        names,
        [
            "endpoint_url",
            "metric_name",
            "metric_type",
            "unit",
            "description",
            "timestamp_ns",
            "model",
            "label_value",
            "value",
            "sum",
            "count",
            "bucket_le",
            "bucket_count"
        ]
    );
    let rows = rows(&file);
    let figures: Vec<[Field; 4]> = rows
        .iter()
        .map(|row| ["metric_name", "metric_type", "timestamp_ns", "value"].map(|name| cell(row, name)))
        .collect();
    let [halfway, end] = [1_796_025_329_002_000_000, 1_796_025_331_002_000_000].map(Field::Long);
    let value = Field::Double;
    // The counter stands at 4 before the first profiling phase.
    let expected = [
        [text("c"), text("counter"), halfway.clone(), value(5.0)],
        [text("g"), text("gauge"), halfway, value(2.0)],
        [text("c"), text("counter"), end.clone(), value(6.0)],
        [text("h"), text("histogram"), end.clone(), Field::Null],
        [text("h"), text("histogram"), end, Field::Null],
    ];
    assert_eq!(figures, expected);
    let buckets = rows[3..]
        .iter()
        .map(|row| ["sum", "count", "bucket_le", "bucket_count"].map(|name| cell(row, name)));
    let expected =
        [("0.5", 1.0), ("+Inf", 3.0)].map(|(bound, count)| [value(7.5), value(3.0), text(bound), value(count)]);
    assert_eq!(buckets.collect::<Vec<_>>(), expected);
    let words = |row: &Read| ["unit", "description", "model", "label_value"].map(|name| cell(row, name));
    assert_eq!(words(&rows[0]), [Field::Null, text(""), text("m"), Field::Null]);
    assert_eq!(
        words(&rows[1]),
        [text("requests"), text("Number of requests."), Field::Null, text("x")]
    );
}

#[test]
fn the_file_says_whose_it_is() {
    let file = file(&[server("http://a/metrics", &SCRAPES)], GROUP_ROWS);
    let pairs = file.metadata().file_metadata().key_value_metadata().expect("pairs");
    let pairs: Vec<(&str, Option<&str>)> = pairs
        .iter()
        .map(|pair| (pair.key.as_str(), pair.value.as_deref()))
        .collect();
    assert_eq!(
        pairs,
        [
            ("aiperf.schema_version", Some("1.0")),
            ("aiperf.version", Some(TOOL_VERSION)),
            ("aiperf.benchmark_id", Some("0123456789ab"))
        ]
    );
}

#[test]
fn endpoints_take_turns_and_groups_of_rows_hold_the_same() {
    let servers = ["http://a/metrics", "http://b/metrics"].map(|url| server(url, &SCRAPES));
    let (whole, groups) = (file(&servers, GROUP_ROWS), file(&servers, 2));
    assert_eq!(whole.num_row_groups(), 1);
    let sizes: Vec<i64> = groups
        .metadata()
        .row_groups()
        .iter()
        .map(|group| group.num_rows())
        .collect();
    assert_eq!(sizes, [2, 2, 3, 3]);
    assert_eq!(rows(&groups), rows(&whole));
    let urls: Vec<Field> = rows(&whole).iter().map(|row| cell(row, "endpoint_url")).collect();
    let url = |name: &str| text(&format!("http://{name}/metrics"));
    let (a, b) = (url("a"), url("b"));
    let expected = [&a, &a, &b, &b, &a, &a, &a, &b, &b, &b].map(Clone::clone);
    assert_eq!(urls, expected);
}

#[test]
fn without_a_scrape_of_a_profiling_phase_there_are_no_rows() {
    let file = file(&[server("http://a/metrics", &SCRAPES[..1])], GROUP_ROWS);
    assert_eq!((rows(&file).len(), file.num_row_groups()), (0, 0));
}
