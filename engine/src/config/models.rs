//! `benchmark.model` and `benchmark.models`: one or several models, in any of the forms of the format.

use super::decode::{Bounds, Field, Section};
use super::endpoint_type::EndpointType;
use super::schema::{MODEL, MODELS};
use super::tree::Value;

/// The models, as written.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Models {
    /// How a conversation gets its model; in turn if it is not set.
    pub strategy: Option<ModelStrategy>,
    /// At least one.
    pub items: Vec<Model>,
}

/// One model.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The name that the server knows.
    pub name: String,
    /// Its share, from 0 to 1; set for all models or for none.
    pub weight: Option<f64>,
}

/// How a conversation gets its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelStrategy {
    /// In turn.
    RoundRobin,
    /// Drawn, all alike.
    Random,
    /// Drawn by weight.
    Weighted,
}

/// Weights that add up to 1 but for rounding, as in three times 0.33.
const WEIGHTS_MIN: f64 = 0.99;
const WEIGHTS_MAX: f64 = 1.01;
/// What adding decimal fractions may be off by.
const SLACK: f64 = 1e-9;

impl ModelStrategy {
    const ALL: [Self; 3] = [Self::RoundRobin, Self::Random, Self::Weighted];

    /// The word of the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RoundRobin => "round_robin",
            Self::Random => "random",
            Self::Weighted => "weighted",
        }
    }
}

impl Models {
    /// The names, in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.items.iter().map(|model| model.name.as_str())
    }
}

/// The models; none after a report.
pub(super) fn decode(benchmark: &Section<'_>) -> Models {
    if benchmark.exclusive("model", "models") {
        return Models::default();
    }
    let Some(field) = benchmark.field("model").or_else(|| benchmark.field("models")) else {
        benchmark.required("model", "write the name that the server knows, as in model: my-model");
        return Models::default();
    };
    let of_items = |items: Vec<Option<Model>>| Models {
        strategy: None,
        items: items.into_iter().flatten().collect(),
    };
    match &field.node.value {
        Value::Sequence(_) => of_items(items(&field, named)),
        Value::Mapping(_) => field
            .section(&MODELS)
            .map(|section| long_form(&section))
            .unwrap_or_default(),
        Value::Scalar(_) | Value::Faulty => of_items(vec![named(&field)]),
    }
}

/// Reports several models where requests do not say which one they are for. `kind` is what they speak, if that could be read.
pub(super) fn check_kind(benchmark: &Section<'_>, models: &Models, kind: Option<EndpointType>) {
    let Some(kind) = kind.filter(|kind| !kind.names_model() && models.items.len() > 1) else {
        return;
    };
    let key = if benchmark.has("model") { "model" } else { "models" };
    let message = format!(
        "found {} models; requests to an endpoint of type {} name none, so write one",
        models.items.len(),
        kind.as_str()
    );
    benchmark.report(key, message);
}

fn long_form(section: &Section<'_>) -> Models {
    let words = ModelStrategy::ALL.map(|strategy| (strategy.as_str(), strategy));
    let strategy = section.field("strategy").map(|field| field.word(&words, &[]));
    let Some(list) = section.required("items", "list the models, as in items: [{name: my-model}]") else {
        return Models::default();
    };
    // Without a strategy that is known, nothing is known about weights.
    let is_weighted = match strategy {
        Some(None) => None,
        known => Some(known.flatten() == Some(ModelStrategy::Weighted)),
    };
    let items: Vec<Option<Model>> = items(&list, |field| item(field, is_weighted));
    let weights: Option<Vec<f64>> = items.iter().map(|model| model.as_ref()?.weight).collect();
    if let (Some(true), Some(weights)) = (is_weighted, weights.filter(|weights| !weights.is_empty())) {
        let sum: f64 = weights.iter().sum();
        if !(WEIGHTS_MIN - SLACK..=WEIGHTS_MAX + SLACK).contains(&sum) {
            // Nine decimals hide what adding decimal fractions is off by.
            let sum = (sum * 1e9).round() / 1e9;
            list.report(format!(
                "found weights that add up to {sum}; allowed: weights that add up to 1 (from {WEIGHTS_MIN} to {WEIGHTS_MAX})"
            ));
        }
    }
    Models {
        strategy: strategy.flatten(),
        items: items.into_iter().flatten().collect(),
    }
}

fn items(list: &Field<'_>, read: impl Fn(&Field<'_>) -> Option<Model>) -> Vec<Option<Model>> {
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

fn named(field: &Field<'_>) -> Option<Model> {
    Some(Model {
        name: name(field)?,
        weight: None,
    })
}

/// An item of the long form. `is_weighted` is whether weights count, if that is known.
fn item(field: &Field<'_>, is_weighted: Option<bool>) -> Option<Model> {
    let section = field.section(&MODEL)?;
    let share = Bounds {
        max: 1.0,
        ..Bounds::NOT_NEGATIVE
    };
    let weight = match is_weighted {
        Some(true) => section.required(
            "weight",
            "with strategy weighted each model has a share, as in weight: 0.5",
        ),
        _ => section.field("weight"),
    };
    let weight = weight.and_then(|field| field.float(share));
    if is_weighted == Some(false) && section.field("weight").is_some() {
        section.report(
            "weight",
            "weights count with `strategy: weighted` alone; set it, or remove this key",
        );
    }
    let name = section
        .required("name", "write the name that the server knows")
        .and_then(|field| name(&field))?;
    Some(Model { name, weight })
}
