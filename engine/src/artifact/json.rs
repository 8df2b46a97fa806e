//! `profile_export_aiperf.json`: the figures of one scope, of the run or of a phase.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use super::client;
use super::echo;
use super::telemetry::{self, TelemetryFacts};
use crate::plan::Plan;
use crate::report::{
    Distribution, ErrorCount, Findings, Level, Measured, PERCENTILES, PhaseReport, Report, ScopeReport, Unit,
    Value as Figure,
};

/// Version of the document's shape.
const SCHEMA_VERSION: &str = "1.5";
/// What stands for the version of the tool: readers expect a text under this key, and ours says who wrote the file.
pub(super) const TOOL_VERSION: &str = concat!("ringload-", env!("CARGO_PKG_VERSION"));

/// Metrics that stand before everything else; the others follow at the end. Both in the order of the table.
const LEADING: [&str; 26] = [
    "request_throughput",
    "request_latency",
    "request_count",
    "time_to_first_token",
    "time_to_second_token",
    "inter_token_latency",
    "output_token_throughput",
    "output_token_throughput_per_user",
    "full_decode_duration",
    "full_response_inter_token_latency",
    "full_response_output_token_throughput_per_user",
    "output_sequence_length",
    "input_sequence_length",
    "goodput",
    "good_request_count",
    "output_token_count",
    "reasoning_token_count",
    "inter_chunk_latency",
    "total_output_tokens",
    "total_reasoning_tokens",
    "benchmark_duration",
    "total_isl",
    "total_osl",
    "error_request_count",
    "error_isl",
    "total_error_isl",
];

/// The document of the whole run.
pub(super) fn root(
    plan: &Plan,
    report: &Report,
    facts: Map<String, Value>,
    telemetry: Option<TelemetryFacts<'_>>,
) -> Value {
    let client = client::of_run(report);
    let facts = with(client, facts);
    let mut document = document(plan, report, &report.aggregate, report.warmup.as_ref(), facts);
    if let (Some(facts), Value::Object(document)) = (telemetry, &mut document) {
        telemetry::add_to_summary(document, plan, &report.aggregate, facts);
    }
    document
}

/// The document of one phase.
pub(super) fn phase(plan: &Plan, report: &Report, phase: &PhaseReport, facts: Map<String, Value>) -> Value {
    let client = phase.client.as_ref().map(client::of_phase);
    document(plan, report, &phase.scope, None, with(client, facts))
}

/// The facts with the client's verdict before them.
fn with(client: Option<Value>, facts: Map<String, Value>) -> Map<String, Value> {
    client
        .map(|client| ("client".to_owned(), client))
        .into_iter()
        .chain(facts)
        .collect()
}

fn document(
    plan: &Plan,
    report: &Report,
    scope: &ScopeReport,
    warmup: Option<&ScopeReport>,
    facts: Map<String, Value>,
) -> Value {
    let (leading, rest): (Vec<_>, Vec<_>) = scope
        .metrics
        .iter()
        .partition(|measured| LEADING.contains(&measured.metric.tag));
    let mut document = Map::new();
    document.insert("schema_version".into(), json!(SCHEMA_VERSION));
    document.insert("aiperf_version".into(), json!(TOOL_VERSION));
    document.insert("benchmark_id".into(), json!(plan.benchmark_id));
    document.extend(leading.into_iter().map(entry));
    let (config, own) = echo::split(&plan.input_config);
    document.insert("input_config".into(), config);
    document.insert("run_info".into(), run_info(plan));
    document.insert("was_cancelled".into(), json!(scope.was_cancelled));
    document.insert("runtime_submission_invalid_reasons".into(), json!([]));
    document.insert("is_complete".into(), json!(scope.incomplete_reason.is_none()));
    if let Some(reason) = &scope.incomplete_reason {
        document.insert("incomplete_reason".into(), json!(reason));
    }
    document.insert("error_summary".into(), scope.errors.iter().map(error).collect());
    if let Some(window) = &scope.window {
        document.insert("start_time".into(), json!(local_time(window.start_ns)));
        document.insert("end_time".into(), json!(local_time(window.end_ns)));
    }
    if let Some(warmup) = warmup {
        let metrics: Map<String, Value> = warmup.metrics.iter().map(entry).collect();
        document.insert("warmup_metrics".into(), Value::Object(metrics));
    }
    document.extend(rest.into_iter().map(entry));
    let own = own.map(|own| ("input_config".to_owned(), own));
    let facts = facts.into_iter().chain(own).collect();
    document.insert("ringload".into(), additions(report, scope, facts));
    Value::Object(document)
}

/// Which run this is, and of which suite.
fn run_info(plan: &Plan) -> Value {
    let mut info = Map::new();
    info.insert("benchmark_id".into(), json!(plan.benchmark_id));
    if let Some(cell) = &plan.cell {
        info.insert("sweep_id".into(), json!(cell.sweep_id));
    }
    info.insert("random_seed".into(), json!(plan.seed));
    info.insert("trial".into(), json!(plan.trial));
    if let Some(cell) = &plan.cell {
        info.insert("run_label".into(), json!(cell.run_label));
        info.insert("variation_label".into(), json!(cell.variation_label));
        info.insert("variation_index".into(), json!(cell.variation_index));
        info.insert("variation_values".into(), json!(cell.variation_values));
    }
    info.insert("cli_command".into(), json!(plan.command));
    Value::Object(info)
}

/// What the peer does not have: the engine's facts, then the account of the scope's requests.
fn additions(report: &Report, scope: &ScopeReport, facts: Map<String, Value>) -> Value {
    let mut additions = facts;
    let counts = [
        ("sent", scope.counts.sent),
        ("succeeded", scope.counts.succeeded),
        ("failed", scope.counts.failed),
        ("cancelled", scope.counts.cancelled),
        ("truncated_request_count", scope.counts.truncated),
        ("resent_request_count", scope.resent),
        ("missing_done_count", scope.missing_done),
    ];
    additions.extend(counts.map(|(key, count)| (key.to_owned(), json!(count))));
    additions.insert("percentiles".into(), json!(report.percentiles.as_str()));
    if !scope.levels.is_empty() {
        additions.insert("slos".into(), Value::Object(scope.levels.iter().map(level).collect()));
    }
    if let Some(lag) = &scope.send_lag {
        additions.insert("send_lag".into(), distribution(Unit::Milliseconds, lag));
    }
    Value::Object(additions)
}

fn level(level: &Level) -> (String, Value) {
    let Findings { met, missed, lacking } = level.findings;
    let counts = json!({ "threshold": level.slo.threshold, "met": met, "missed": missed, "lacking": lacking });
    (level.slo.metric.to_owned(), counts)
}

/// The metrics of the run's document alone: what aggregates over runs are made of.
pub(super) fn metrics(report: &Report) -> Map<String, Value> {
    report.aggregate.metrics.iter().map(entry).collect()
}

/// A metric's tag and its object.
pub(super) fn entry(measured: &Measured) -> (String, Value) {
    let unit = measured.metric.unit;
    let value = match &measured.value {
        Figure::Scalar(value) => {
            let mut object = Map::new();
            object.insert("unit".into(), json!(unit.name()));
            insert(&mut object, "avg", Some(*value));
            Value::Object(object)
        }
        Figure::Distribution(figures) => distribution(unit, figures),
    };
    (measured.metric.tag.to_owned(), value)
}

fn distribution(unit: Unit, figures: &Distribution) -> Value {
    let mut object = Map::new();
    object.insert("unit".into(), json!(unit.name()));
    insert(&mut object, "avg", figures.avg);
    for (q, figure) in PERCENTILES.iter().zip(figures.percentiles) {
        insert(&mut object, &format!("p{q}"), figure);
    }
    insert(&mut object, "min", figures.min);
    insert(&mut object, "max", figures.max);
    insert(&mut object, "std", figures.std);
    if figures.count > 0 {
        object.insert("count".into(), json!(figures.count));
    }
    insert(&mut object, "sum", figures.sum);
    Value::Object(object)
}

/// JSON has no word for a figure that is absent or not finite, so there is no key for it.
pub(super) fn insert(object: &mut Map<String, Value>, key: &str, figure: Option<f64>) {
    if let Some(number) = figure.and_then(serde_json::Number::from_f64) {
        object.insert(key.to_owned(), Value::Number(number));
    }
}

fn error(error: &ErrorCount) -> Value {
    let mut details = Map::new();
    details.extend(error.code.map(|code| ("code".to_owned(), json!(code))));
    details.insert("type".into(), json!(error.type_name));
    details.insert("message".into(), json!(error.message));
    json!({"error_details": details, "count": error.count})
}

/// Local time without a zone, to the microsecond; a date beyond the calendar is shown as its number.
pub(super) fn local_time(wall_ns: u64) -> String {
    match Timestamp::from_nanosecond(i128::from(wall_ns)) {
        Ok(instant) => TimeZone::system()
            .to_datetime(instant)
            .strftime("%Y-%m-%dT%H:%M:%S%.6f")
            .to_string(),
        Err(_) => wall_ns.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::METRICS;

    #[test]
    fn leading_metrics_are_in_the_table_and_lead_it() {
        let first: Vec<&str> = METRICS.iter().take(LEADING.len()).map(|metric| metric.tag).collect();
        assert_eq!(first, LEADING);
    }
}
