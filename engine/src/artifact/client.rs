//! `ringload.client`: was the client the limit?

use serde_json::{Map, Value, json};

use crate::report::{ClientFigures, ClientReport, Finding, Report, Spread};
use crate::units::Nanos;

/// Of one phase: the verdict, what decided, and every figure.
pub(super) fn of_phase(client: &ClientReport) -> Value {
    let mut document = verdict(client);
    document.insert("findings".into(), client.findings.iter().map(finding).collect());
    figures(&client.figures, &mut document);
    Value::Object(document)
}

/// Of the run: the verdict on the profiling phase where the client did worst.
pub(super) fn of_run(report: &Report) -> Option<Value> {
    let (phase, client) = report.worst_client()?;
    let mut document = verdict(client);
    if client.deciding().is_some() {
        document.insert("phase".into(), json!(phase.name));
    }
    Some(Value::Object(document))
}

fn verdict(client: &ClientReport) -> Map<String, Value> {
    let mut document = Map::new();
    document.insert("verdict".into(), json!(client.verdict().as_str()));
    if let Some(deciding) = client.deciding() {
        document.insert("figure".into(), json!(deciding.figure));
        document.insert("reason".into(), json!(deciding.to_string()));
    }
    document
}

fn finding(finding: &Finding) -> Value {
    json!({
        "verdict": finding.verdict.as_str(),
        "figure": finding.figure,
        "value": finding.value,
        "limit": finding.limit,
    })
}

/// A figure that does not exist has no key.
fn figures(figures: &ClientFigures, document: &mut Map<String, Value>) {
    let mut insert = |key: &str, value: Option<Value>| {
        document.extend(value.map(|value| (key.to_owned(), value)));
    };
    let millis = |span: Nanos| json!(span.as_millis_f64());
    for (name, spread) in [
        ("lag", figures.lag),
        ("unseen", figures.unseen),
        ("oversleep", figures.oversleep),
    ] {
        let Some(Spread { count, p50, p99, max }) = spread else {
            continue;
        };
        insert(&format!("{name}_count"), Some(json!(count)));
        insert(&format!("{name}_p50_ms"), Some(millis(p50)));
        insert(&format!("{name}_p99_ms"), Some(millis(p99)));
        insert(&format!("{name}_max_ms"), Some(millis(max)));
    }
    insert("late_share", Some(json!(figures.late_share)));
    insert("stall_ms", Some(millis(figures.stall)));
    insert("latency_p50_ms", figures.latency_p50.map(millis));
    insert("busy_share", figures.busy_share.map(|share| json!(share)));
    insert("starved_mean_ms", figures.starved_mean.map(millis));
    insert("others_share", figures.others_share.map(|share| json!(share)));
    insert("unsent_share", Some(json!(figures.unsent_share)));
    for (name, count) in [
        ("kept_back", figures.kept_back),
        ("local_ports_exhausted", figures.local_ports_exhausted),
        ("descriptors_exhausted", figures.descriptors_exhausted),
        ("queue_overflows", figures.queue_overflows),
        ("buffer_shortages", figures.buffer_shortages),
        ("journal_waits", figures.journal_waits),
        ("connections_opened", figures.connections_opened),
        ("reconnects", figures.reconnects),
        ("resends", figures.resends),
    ] {
        insert(name, Some(json!(count)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> ClientReport {
        ClientReport::new(ClientFigures {
            lag: Some(Spread {
                count: 500,
                p50: Nanos::from_micros(20),
                p99: Nanos::from_millis(120),
                max: Nanos::from_millis(480),
            }),
            stall: Nanos::from_millis(490),
            others_share: Some(0.25),
            ..ClientFigures::default()
        })
    }

    #[test]
    fn a_phase_shows_verdict_reason_and_figures() {
        let document = of_phase(&client());
        assert_eq!(document["verdict"], "invalid");
        assert_eq!(document["figure"], "lag_p99_ms");
        assert!(
            document["reason"].as_str().unwrap().starts_with("120.000 ms "),
            "{document}"
        );
        assert_eq!(
            document["findings"],
            json!([
                {"verdict": "invalid", "figure": "lag_p99_ms", "value": 120.0, "limit": 100.0},
                {"verdict": "suspect", "figure": "stall_ms", "value": 490.0, "limit": 250.0},
            ])
        );
        assert_eq!(
            (&document["lag_p99_ms"], &document["lag_count"]),
            (&json!(120.0), &json!(500))
        );
        assert_eq!(document["others_share"], 0.25);
        for absent in ["busy_share", "unseen_p99_ms", "latency_p50_ms"] {
            assert_eq!(document.get(absent), None);
        }
    }

    #[test]
    fn every_figure_that_can_decide_stands_beside_the_verdict() {
        // The key in a finding must lead to the figure.
        let everything = ClientFigures {
            lag: client().figures.lag,
            unseen: client().figures.lag,
            busy_share: Some(1.0),
            starved_mean: Some(Nanos::from_secs(1)),
            others_share: Some(1.0),
            late_share: 1.0,
            unsent_share: 1.0,
            stall: Nanos::from_secs(1),
            kept_back: 1,
            local_ports_exhausted: 1,
            descriptors_exhausted: 1,
            queue_overflows: 1,
            journal_waits: 1,
            ..ClientFigures::default()
        };
        let document = of_phase(&ClientReport::new(everything));
        let findings = document["findings"].as_array().unwrap();
        assert_eq!(findings.len(), 13);
        for finding in findings {
            let figure = &document[finding["figure"].as_str().unwrap()];
            assert_eq!(figure.as_f64(), finding["value"].as_f64(), "{finding}");
        }
    }
}
