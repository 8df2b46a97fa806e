//! Values without a schema (`endpoint.extra`): types come from the looks, by the YAML 1.1 words that users of the format expect.

use serde_json::{Map, Number as JsonNumber, Value as Json};

use super::decode::Field;
use super::scalar::{self, Fault, Number};
use super::tree::{Scalar, Value};

/// The value as JSON. `None` after reporting everything in it that has no JSON form.
pub(super) fn json(field: &Field<'_>) -> Option<Json> {
    match &field.node.value {
        Value::Faulty => None,
        Value::Scalar(_) if field.node.is_null() => Some(Json::Null),
        Value::Scalar(scalar) => match plain(scalar) {
            Ok(value) => Some(value),
            Err(advice) => {
                field.mistake(&format!("a JSON value; {advice}; put text in quotes"));
                None
            }
        },
        // Everything is read before the first failure counts, so that each is reported.
        Value::Sequence(_) => {
            let values: Vec<Option<Json>> = field.items("a list")?.map(|item| json(&item)).collect();
            values.into_iter().collect::<Option<Vec<_>>>().map(Json::Array)
        }
        Value::Mapping(_) => {
            let entries = field.free_entries("a mapping")?;
            let values: Vec<(&str, Option<Json>)> = entries.map(|(key, _, value)| (key, json(&value))).collect();
            let map = values.into_iter().map(|(key, value)| Some((key.to_owned(), value?)));
            map.collect::<Option<Map<_, _>>>().map(Json::Object)
        }
    }
}

fn plain(scalar: &Scalar) -> Result<Json, String> {
    let text = scalar.text.as_str();
    if scalar.style.is_text() {
        return Ok(Json::String(text.to_owned()));
    }
    if let Some(value) = scalar::boolean(text) {
        return Ok(Json::Bool(value));
    }
    match scalar::number(text) {
        Ok(Number {
            integer: Some(value), ..
        }) if is_integer_text(text) => match (u64::try_from(value), i64::try_from(value)) {
            (Ok(value), _) => Ok(Json::from(value)),
            (_, Ok(value)) => Ok(Json::from(value)),
            _ => Err("the number is too large".to_owned()),
        },
        Ok(Number { value, .. }) => {
            let number = JsonNumber::from_f64(value).ok_or("infinity has no JSON form")?;
            Ok(Json::Number(number))
        }
        Err(Fault::Advice(advice)) => Err(advice),
        Err(Fault::NoMatch) if text.trim_start_matches(['+', '-']).eq_ignore_ascii_case(".nan") => {
            Err("not-a-number has no JSON form".to_owned())
        }
        Err(Fault::NoMatch) => Ok(Json::String(text.to_owned())),
    }
}

/// `3` is an integer on the wire, `3.0` and `1e3` are not.
fn is_integer_text(text: &str) -> bool {
    !text.contains(['.', 'e', 'E'])
}
