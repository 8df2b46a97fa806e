//! `ringload profile --dry-run`: what would run, and what it needs of this host. Nothing is sent and nothing is written.

use serde_json::{Value, json};

use super::printed;
use crate::command_args::Report;
use crate::console;
use crate::dry_run_text as text;
use crate::engine::{self, Bound, Cells, ConvergenceMode, HostPreview, Plan, Preview, Requests, RunError, RunOptions};
use crate::exit::Exit;
use crate::number::counted;

/// Shows a single run.
pub(crate) fn of_run(plan: &Plan, options: &RunOptions, format: Report) -> Exit {
    let preview = engine::preview(plan, &options.cores, options.driver, &options.source_addresses);
    let warnings: Vec<String> = plan.warnings.iter().chain(&preview.warnings).cloned().collect();
    show(plan, None, &preview, &warnings, format)
}

/// Shows a suite: its cells, and the first of them in full.
pub(crate) fn of_cells(cells: &Cells, options: &RunOptions, resume: bool, format: Report) -> Exit {
    let plan = match cells.plan(&cells.cells()[0]) {
        Ok(plan) => plan,
        Err(diagnostics) => {
            console::note(diagnostics.render(true).trim_end());
            return Exit::Usage;
        }
    };
    let mut preview = engine::preview(&plan, &options.cores, options.driver, &options.source_addresses);
    let mut warnings: Vec<String> = cells.warnings().iter().chain(&preview.warnings).cloned().collect();
    if resume {
        preview.directory = Ok(());
        match cells.finished() {
            Ok(finished) => warnings.push(format!(
                "--resume: {finished} of {} finished earlier and would be kept",
                counted(cells.cells().len() as u64, "cell")
            )),
            Err(error) => {
                console::note(&console::error_block(&error));
                return Exit::Usage;
            }
        }
    } else {
        // The directory of the whole decides, not that of a cell.
        preview.directory = cells.check_directory().map_err(RunError::from);
    }
    show(&plan, Some(cells), &preview, &warnings, format)
}

fn show(plan: &Plan, cells: Option<&Cells>, preview: &Preview, warnings: &[String], format: Report) -> Exit {
    let refusals: Vec<&RunError> = [preview.host.as_ref().err(), preview.directory.as_ref().err()]
        .into_iter()
        .flatten()
        .collect();
    let shown = match format {
        Report::Text => {
            warnings.iter().for_each(|warning| console::warn(warning));
            text::render(plan, cells, preview)
        }
        Report::Json => format!("{:#}\n", document(plan, cells, preview, warnings, &refusals)),
    };
    let exit = printed(&shown);
    if format == Report::Text {
        refusals
            .iter()
            .for_each(|refusal| console::note(&console::error_block(*refusal)));
    }
    match (exit, refusals.first()) {
        (Exit::Success, Some(refusal)) if refusal.is_usage() => Exit::Usage,
        (Exit::Success, Some(_)) => Exit::RunFailed,
        (exit, _) => exit,
    }
}

fn document(
    plan: &Plan,
    cells: Option<&Cells>,
    preview: &Preview,
    warnings: &[String],
    refusals: &[&RunError],
) -> Value {
    let phases = plan.phases.iter().zip(&preview.forecast.phases);
    let phases: Vec<Value> = phases
        .map(|(phase, forecast)| {
            json!({
                "name": phase.name,
                "kind": phase.kind.as_str(),
                "load": text::load(&phase.arrival),
                "seamless": phase.seamless,
                "concurrency": phase.concurrency,
                "prefill_concurrency": phase.limits.prefill,
                "stop": {
                    "requests": phase.stop.requests,
                    "sessions": phase.stop.sessions,
                    "duration_seconds": phase.stop.duration.map(engine::Nanos::as_secs_f64),
                },
                "expected_requests": requests(forecast.requests),
                "sending_ends": bound(forecast.sending),
                "ends": bound(forecast.end),
            })
        })
        .collect();
    let rows = cells.map(|cells| {
        let row = |(index, cell): (usize, &engine::Cell)| {
            json!({ "index": index, "name": cell.name, "artifact_dir": cell.directory })
        };
        cells.cells().iter().enumerate().map(row).collect::<Vec<_>>()
    });
    json!({
        "phases": phases,
        "ends": bound(preview.forecast.end),
        "cells": rows,
        "convergence": cells.and_then(|cells| Some((cells.convergence()?, cells.trials()))).map(|(rule, most)| {
            json!({
                "metric": rule.metric,
                "stat": (rule.mode != ConvergenceMode::Distribution).then_some(rule.stat),
                "mode": rule.mode.as_str(),
                "threshold": rule.threshold,
                "min_runs": rule.min_runs,
                "max_runs": most,
            })
        }),
        "dataset": {
            "conversations": plan.requests.conversations.count(),
            "requests": plan.requests.entries.len(),
            "turns_mean": plan.requests.conversations.turns_mean(),
        },
        "models": plan.models.names.iter().zip(plan.models.shares())
            .map(|(name, share)| json!({ "name": name, "share": share })).collect::<Vec<_>>(),
        "servers": plan.endpoint.targets.iter().map(|target| &target.origin).collect::<Vec<_>>(),
        "request_timeout_seconds": plan.endpoint.request_timeout.map(engine::Nanos::as_secs_f64),
        "hooks": text::hooks(plan),
        "host": preview.host.as_ref().ok().map(host),
        "artifact_dir": cells.map_or(plan.artifacts.directory.as_path(), |cells| cells.directory()),
        "warnings": warnings,
        "refusals": refusals.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn host(host: &HostPreview) -> Value {
    json!({
        "cores": host.cores,
        "placement": host.placement,
        "driver": host.driver.0,
        "driver_reason": host.driver.1,
        "descriptors_needed": host.descriptors.0,
        "descriptor_limit": host.descriptors.1,
        "connections_max": host.connections,
        "local_ports_per_server_address": host.local_ports,
        "request_bytes": host.request_bytes,
        "connection_bytes_estimate": host.connection_bytes,
    })
}

/// A count and how sure it is.
fn requests(requests: Requests) -> Value {
    let (count, meaning) = match requests {
        Requests::Exactly(count) => (json!(count), "exactly"),
        Requests::AtMost(count) => (json!(count), "at_most"),
        Requests::About(count) => (json!(count), "about"),
        Requests::Open => (Value::Null, "as_many_as_the_server_answers"),
    };
    json!({ "count": count, "meaning": meaning })
}

/// Seconds from the start of the phase, or of the run, or why there are none.
fn bound(bound: Bound) -> Value {
    match bound {
        Bound::At(time) => json!({ "seconds": time.as_secs_f64(), "meaning": "at_the_latest" }),
        Bound::About(time) => json!({ "seconds": time.as_secs_f64(), "meaning": "about" }),
        Bound::None(reason) => json!({ "seconds": null, "meaning": "unbounded", "reason": reason }),
    }
}
