//! `adaptive_scale_events.jsonl`, `adaptive_scale_summary.json` and their manifest. Keys are sorted.

use std::io::{self, Write};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{ArtifactDirectory, Written, names};
use crate::clock::WallAnchor;
use crate::coordinator::{AdaptiveEvent, AdaptiveReport, Candidate, Spread, WindowTotals};
use crate::plan::{AdaptivePlan, PhasePlan, Plan};
use crate::units::Nanos;

const SCHEMA_VERSION: u32 = 2;

/// What the controllers of a run leave behind.
#[derive(Debug, Clone, Copy)]
pub struct AdaptiveFacts<'a> {
    /// Of each phase with a controller.
    pub reports: &'a [(crate::id::PhaseId, AdaptiveReport)],
    /// Requests that the controllers were not told of.
    pub samples_lost: u64,
    /// Turns instants into wall-clock time.
    pub anchor: WallAnchor,
}

/// Writes the files of every phase that has a controller and started.
pub(super) fn write(directory: &ArtifactDirectory, plan: &Plan, facts: &AdaptiveFacts<'_>, written: &mut Written) {
    let mut listed = Vec::new();
    for (id, report) in facts.reports {
        let phase = &plan.phases[id.index()];
        let Some(controller) = phase.limits.adaptive.as_deref() else {
            continue;
        };
        let page = Page {
            phase,
            controller,
            report,
            facts,
        };
        let place = |name: &str| format!("{}/{}/{name}", names::PHASES, phase.name);
        let (events, summary) = (place(names::ADAPTIVE_EVENTS), place(names::ADAPTIVE_SUMMARY));
        written.note(directory.write_atomically(&events, |out| page.write_events(out)));
        written.note(directory.write_atomically(&summary, |out| document(&page.summary(), out)));
        let mut entry = page.identity();
        entry.insert("events_path".into(), json!(events));
        entry.insert("summary_path".into(), json!(summary));
        listed.push(Value::Object(entry));
    }
    if !listed.is_empty() {
        let manifest = json!({ "adaptive_phases": listed, "schema_version": SCHEMA_VERSION });
        written.note(directory.write_atomically(names::ADAPTIVE_MANIFEST, |out| document(&manifest, out)));
    }
}

/// Sorted, indented, with an end of line.
pub(super) fn document(value: &Value, out: &mut dyn Write) -> io::Result<()> {
    let mut value = value.clone();
    value.sort_all_objects();
    super::pretty(&value, out)?;
    out.write_all(b"\n")
}

/// One phase.
struct Page<'a> {
    phase: &'a PhasePlan,
    controller: &'a AdaptivePlan,
    report: &'a AdaptiveReport,
    facts: &'a AdaptiveFacts<'a>,
}

impl Page<'_> {
    fn identity(&self) -> Map<String, Value> {
        let identity = json!({
            "phase_index": self.phase.id.0,
            "phase_kind": self.phase.kind.as_str(),
            "phase_name": self.phase.name,
            "profiling_index": self.phase.profiling_index,
        });
        object(identity)
    }

    /// A value of the control variable: a whole number of what is counted.
    fn value(&self, value: f64) -> Value {
        if self.controller.variable.is_whole() {
            json!(value as u64)
        } else {
            json!(value)
        }
    }

    fn control(&self, event: &AdaptiveEvent) -> Value {
        json!({ "actual_value": self.value(event.actual), "target_value": self.value(event.after) })
    }

    fn wall(&self, at: Nanos) -> u64 {
        self.facts.anchor.to_wall_ns(at)
    }

    /// ISO 8601 in UTC, with microseconds.
    fn utc(&self, at: Nanos) -> String {
        let micros = i64::try_from(self.wall(at) / 1_000).unwrap_or(i64::MAX);
        Timestamp::from_microsecond(micros).map_or_else(|_| String::new(), |time| format!("{time:.6}"))
    }

    fn write_events(&self, out: &mut dyn Write) -> io::Result<()> {
        for event in &self.report.events {
            let mut line = Value::Object(self.event(event));
            line.sort_all_objects();
            serde_json::to_writer(&mut *out, &line)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    fn event(&self, event: &AdaptiveEvent) -> Map<String, Value> {
        let first = self.controller.filters.first();
        let filters = self.controller.filters.iter();
        let values: Map<String, Value> = filters
            .zip(&event.sla_values)
            .map(|(filter, value)| (filter.key(), json!(value)))
            .collect();
        let at = self.wall(event.at);
        let mut line = self.identity();
        line.extend(object(json!({
            "accepted_value": self.value(event.after),
            "adaptive_iteration": event.iteration,
            "binding_sla": event.binding.map(|index| self.controller.filters[index].key()),
            "boundary_value": event.boundary.map(|value| self.value(value)),
            "cancelled": event.totals.cancelled,
            "candidate_value": self.value(event.candidate),
            "completed": event.totals.completed,
            "control": self.control(event),
            "control_value": self.value(event.after),
            "control_value_after": self.value(event.after),
            "control_value_before": self.value(event.before),
            "control_variable": self.controller.variable.as_str(),
            "error_count": event.totals.errored,
            "errored": event.totals.errored,
            "event": event.kind.as_str(),
            "fault_window_id": null,
            "first_failing_value": event.first_failing.map(|value| self.value(value)),
            "in_flight": null,
            "last_passing_value": event.last_passing.map(|value| self.value(value)),
            "phase": event.stage.as_str(),
            "phase_end_ts": null,
            "phase_id": self.phase.name,
            "phase_start_ts": null,
            "reason": event.reason,
            "run_id": null,
            "sample_count": event.totals.completed,
            "schema_version": SCHEMA_VERSION,
            "sent": event.totals.ended(),
            "sla_bound": first.map(|filter| filter.threshold),
        })));
        line.extend(object(json!({
            "sla_metric": first.map(|filter| &filter.name),
            "sla_op": first.map(|filter| filter.op.as_str()),
            "sla_passed": event.passed,
            "sla_stat": first.map(|filter| &filter.stat_name),
            "sla_value": event.sla_value,
            "sla_values": values,
            "step_policy": self.controller.step_policy.as_str(),
            "step_size": event.step.map(|value| self.value(value)),
            "strategy_type": "ramp_until_fail",
            "throughput": event.throughput,
            "timestamp": at,
            "timestamp_ns": at,
            "timestamp_utc": self.utc(event.at),
        })));
        line
    }

    fn summary(&self) -> Value {
        let (plan, report) = (self.controller, self.report);
        let last = report.events.last().expect("a controller that started has logged it");
        let first = plan.filters.first();
        let passed_all = report.sustain_windows > 0 && report.sustain_passed == report.sustain_windows;
        let result = json!({
            "boundary_value": last.boundary.map(|value| self.value(value)),
            "first_failing_value": last.first_failing.map(|value| self.value(value)),
            "last_passing_value": last.last_passing.map(|value| self.value(value)),
        });
        let mut summary = self.identity();
        summary.extend(object(result.clone()));
        summary.extend(object(json!({
            "base_step": self.value(plan.base_step),
            "candidates": report.candidates.iter().map(|one| self.candidate(one)).collect::<Vec<_>>(),
            "completed_reason": report.reason,
            "control": self.control(last),
            "control_value": self.value(last.after),
            "control_variable": plan.variable.as_str(),
            "max_step_multiplier": plan.max_step_multiplier,
            "result": result,
            "schema_version": SCHEMA_VERSION,
            "sla": {
                "bound": first.map(|filter| filter.threshold),
                "metric": first.map(|filter| &filter.name),
                "op": first.map(|filter| filter.op.as_str()),
                "stat": first.map(|filter| &filter.stat_name),
            },
            "sla_bound": first.map(|filter| filter.threshold),
            "sla_metric": first.map(|filter| &filter.name),
            "sla_op": first.map(|filter| filter.op.as_str()),
            "sla_passed_during_sustain": passed_all,
            "sla_stat": first.map(|filter| &filter.stat_name),
        })));
        summary.extend(object(json!({
            "status": report.status.as_str(),
            "step_percent": plan.step_percent,
            "step_policy": plan.step_policy.as_str(),
            "strategy_type": "ramp_until_fail",
            "sustain_duration_seconds": plan.sustain_duration.as_secs_f64(),
            "sustain_passed_windows": report.sustain_passed,
            "sustain_started_at": report.sustain_started.map(|at| self.wall(at)),
            "sustain_windows": report.sustain_windows,
            "throughput": last.throughput,
            "totals": totals(last.totals),
            "ringload": {
                "output_tokens_from": match report.token_sources {
                    (true, false) => json!("usage"),
                    (false, true) => json!("content_events"),
                    (true, true) => json!("usage_and_content_events"),
                    (false, false) => json!(null),
                },
                "samples_lost": self.facts.samples_lost,
            },
        })));
        Value::Object(summary)
    }

    fn candidate(&self, one: &Candidate) -> Value {
        let ended = one.totals.ended();
        let length = one.end.since(one.start).as_secs_f64();
        let of = |spread: Option<Spread>, part: fn(Spread) -> f64| spread.map(part);
        json!({
            "accepted": one.rejection.is_none(),
            "adaptive_iteration": one.iteration,
            "cancelled": one.totals.cancelled,
            "candidate_value": self.value(one.value),
            "control_value": self.value(one.value),
            "duration_s": length,
            "end_ts": self.utc(one.end),
            "error_count": one.totals.errored,
            "itl_p50_ms": of(one.inter_token, |spread| spread.p50),
            "itl_p95_ms": of(one.inter_token, |spread| spread.p95),
            "itl_p99_ms": of(one.inter_token, |spread| spread.p99),
            "latency_avg_ms": of(one.latency, |spread| spread.average),
            "latency_p50_ms": of(one.latency, |spread| spread.p50),
            "latency_p95_ms": of(one.latency, |spread| spread.p95),
            "latency_p99_ms": of(one.latency, |spread| spread.p99),
            "rejection_reason": one.rejection,
            "request_count": ended,
            "start_ts": self.utc(one.start),
            "success_count": one.totals.completed,
            "success_rate": if ended > 0 { one.totals.completed as f64 / ended as f64 } else { 0.0 },
            "throughput_rps": if length > 0.0 { one.totals.completed as f64 / length } else { 0.0 },
            "ttft_p50_ms": of(one.first_token, |spread| spread.p50),
            "ttft_p95_ms": of(one.first_token, |spread| spread.p95),
            "ttft_p99_ms": of(one.first_token, |spread| spread.p99),
        })
    }
}

fn totals(totals: WindowTotals) -> Value {
    json!({
        "cancelled": totals.cancelled,
        "completed": totals.completed,
        "errored": totals.errored,
        "sent": totals.ended(),
    })
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}
