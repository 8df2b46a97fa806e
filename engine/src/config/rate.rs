//! The rate of an open loop, as written: a number, or points of a curve in the file or in a file of its own.

use std::fs::{File, metadata};
use std::io::Read;

use serde_json::Value as Json;

use super::decode::{Bounds, Field, Section};
use super::diagnostic::quote;
use super::schema::{RATE_POINT, RATE_SERIES};
use super::tree::Value;

use crate::units::counted;

/// Requests per second. Beyond one request per nanosecond the clock has no different times left to give.
pub(super) const QPS: Bounds = Bounds {
    max: 1e9,
    ..Bounds::POSITIVE
};
/// Most points of a series, and most bytes of a file of them: far more than anyone draws, and little memory.
const MAX_POINTS: usize = 100_000;
const MAX_BYTES: u64 = 16 << 20;
const SHAPE: &str =
    "a list of points, as in [{time_s: 0, qps: 1}, {time_s: 60, qps: 5}], or the path of a JSON file with such a list";

/// Requests per second over the time of a phase.
#[derive(Debug, Clone, PartialEq)]
pub enum Rate {
    /// Always the same.
    Constant(f64),
    /// Linear between points, the first rate before the first of them and the last rate after the last. At least two.
    Series(Vec<RatePoint>),
}

impl Rate {
    /// The rate at the beginning.
    pub fn first(&self) -> f64 {
        match self {
            Self::Constant(rate) => *rate,
            Self::Series(points) => points.first().map_or(0.0, |point| point.qps),
        }
    }
}

/// One point of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatePoint {
    /// Seconds since the series began.
    pub time_s: f64,
    /// Requests per second at that time.
    pub qps: f64,
}

/// The rate of a phase that has one: exactly one of `rate` and `rate_series`.
pub(super) fn decode(section: &Section<'_>) -> Option<Rate> {
    if section.exclusive("rate", "rate_series") {
        return None;
    }
    if let Some(field) = section.field("rate_series") {
        return series(&field).map(Rate::Series);
    }
    if let Some(field) = section.field("rate") {
        return field.float(QPS).map(Rate::Constant);
    }
    if !section.is_accounted_for("rate_series") {
        section.required(
            "rate",
            "write the requests per second, as in rate: 20, or their course as rate_series",
        );
    }
    None
}

/// The rate of a phase whose rate is one number.
pub(super) fn decode_constant(section: &Section<'_>) -> Option<f64> {
    section.field("rate").and_then(|field| field.float(QPS))
}

fn series(field: &Field<'_>) -> Option<Vec<RatePoint>> {
    match &field.node.value {
        Value::Sequence(_) => inline(field),
        Value::Mapping(_) => {
            let section = field.section(&RATE_SERIES)?;
            if section.exclusive("points", "path") {
                return None;
            }
            match section.field("path") {
                Some(path) => from_file(&path, "the path of a JSON file with the points"),
                None => inline(&section.required(
                    "points",
                    "list the points, as in points: [{time_s: 0, qps: 1}, ...], or name their file with path",
                )?),
            }
        }
        _ => from_file(field, SHAPE),
    }
}

/// Points of the file that a field names.
fn from_file(field: &Field<'_>, allowed: &str) -> Option<Vec<RatePoint>> {
    match read(&field.scalar(allowed)?.text) {
        Ok(points) => Some(points),
        Err(reason) => {
            field.report(format!("cannot read the points from {}: {reason}", field.found()));
            None
        }
    }
}

/// Points in the config. Each mistake has its own place.
fn inline(field: &Field<'_>) -> Option<Vec<RatePoint>> {
    let items = field.items(SHAPE)?;
    if let Err(reason) = check_count(items.len()) {
        field.report(reason);
        return None;
    }
    let mut points: Vec<RatePoint> = Vec::with_capacity(items.len());
    let mut is_sound = true;
    for item in items {
        let Some(section) = item.section(&RATE_POINT) else {
            is_sound = false;
            continue;
        };
        let time = section.required("time_s", "write the seconds since the series began");
        let qps = section.required("qps", "write the requests per second");
        let time_s = time.as_ref().and_then(|field| field.duration(Bounds::NOT_NEGATIVE));
        let (Some(time_s), Some(qps)) = (time_s, qps.and_then(|field| field.float(QPS))) else {
            is_sound = false;
            continue;
        };
        if let (Some(last), Some(field)) = (points.last(), &time)
            && time_s <= last.time_s
        {
            field.mistake(&format!("a time above {}, that of the point before", last.time_s));
            is_sound = false;
        }
        points.push(RatePoint { time_s, qps });
    }
    is_sound.then_some(points)
}

/// Points of a JSON file: a list, or an object that has the list under `points`. The first mistake is told; relative paths start at the
/// current directory.
fn read(path: &str) -> Result<Vec<RatePoint>, String> {
    let metadata = metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if metadata.len() > MAX_BYTES {
        return Err(format!("found {} bytes; allowed: at most {MAX_BYTES}", metadata.len()));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    // A file may grow between the two looks at it.
    file.take(MAX_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    let json: Json = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    let list = match &json {
        Json::Array(list) => list,
        Json::Object(object) => match (object.len(), object.get("points")) {
            (1, Some(Json::Array(list))) => list,
            _ => return Err("allowed: a list of points, or an object with the only key `points`".to_owned()),
        },
        _ => return Err("allowed: a list of points".to_owned()),
    };
    check_count(list.len())?;
    let mut points: Vec<RatePoint> = Vec::with_capacity(list.len());
    for (index, item) in list.iter().enumerate() {
        let after = points.last().map(|point| point.time_s);
        points.push(point(item, after).map_err(|reason| format!("points[{index}]: {reason}"))?);
    }
    Ok(points)
}

fn check_count(count: usize) -> Result<(), String> {
    match count {
        2..=MAX_POINTS => Ok(()),
        _ => Err(format!(
            "found {}; allowed: from 2 to {MAX_POINTS}",
            counted(count, "point")
        )),
    }
}

/// One point of a file, later than `after`.
fn point(item: &Json, after: Option<f64>) -> Result<RatePoint, String> {
    let shape = || "allowed: an object with the keys time_s and qps, both numbers".to_owned();
    let object = item.as_object().ok_or_else(shape)?;
    let time = object.get("time_s").or_else(|| object.get("timeS"));
    let (Some(time), Some(qps), 2) = (time, object.get("qps").and_then(Json::as_f64), object.len()) else {
        return Err(shape());
    };
    let time_s = match time {
        // With a unit, as everywhere else.
        Json::String(text) => Bounds::NOT_NEGATIVE
            .duration(text)
            .map_err(|allowed| format!("found time_s {}; {allowed}", quote(text)))?,
        number => number.as_f64().ok_or_else(shape)?,
    };
    if !Bounds::NOT_NEGATIVE.contains(time_s) {
        return Err(format!("found time_s {time_s}; allowed: a number of at least 0"));
    }
    if !QPS.contains(qps) {
        return Err(format!(
            "found qps {qps}; allowed: a number above 0 and up to {}",
            QPS.max
        ));
    }
    match after {
        Some(after) if time_s <= after => Err(format!(
            "found time_s {time_s}; allowed: a time above {after}, that of the point before"
        )),
        _ => Ok(RatePoint { time_s, qps }),
    }
}
