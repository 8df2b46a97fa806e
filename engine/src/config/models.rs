//! `benchmark.model` and `benchmark.models`: one model by name, in any of the forms of the format.

use super::decode::{Field, Section};
use super::schema::{MODEL, MODELS};
use super::tree::Value;

/// The names of the models; empty after a report.
pub(super) fn decode(benchmark: &Section<'_>) -> Vec<String> {
    if benchmark.exclusive("model", "models") {
        return Vec::new();
    }
    let Some(field) = benchmark.field("model").or_else(|| benchmark.field("models")) else {
        benchmark.required("model", "write the name that the server knows, as in model: my-model");
        return Vec::new();
    };
    let names: Vec<Option<String>> = match &field.node.value {
        Value::Sequence(_) => items(&field, name),
        Value::Mapping(_) => match field.section(&MODELS) {
            Some(section) => match section.required("items", "list the models, as in items: [{name: my-model}]") {
                Some(list) => items(&list, block),
                None => Vec::new(),
            },
            None => Vec::new(),
        },
        Value::Scalar(_) | Value::Faulty => vec![name(&field)],
    };
    if names.len() > 1 {
        field.refuse("several models", "write one");
    }
    names.into_iter().flatten().collect()
}

fn items(list: &Field<'_>, read: impl Fn(&Field<'_>) -> Option<String>) -> Vec<Option<String>> {
    let Some(fields) = list.items("a list of models") else {
        return Vec::new();
    };
    if fields.len() == 0 {
        list.mistake("at least one model");
    }
    fields.map(|field| read(&field)).collect()
}

fn name(field: &Field<'_>) -> Option<String> {
    field.non_empty_text().map(str::to_owned)
}

/// An item of the long form.
fn block(field: &Field<'_>) -> Option<String> {
    let section = field.section(&MODEL)?;
    section
        .required("name", "write the name that the server knows")
        .and_then(|field| name(&field))
}
