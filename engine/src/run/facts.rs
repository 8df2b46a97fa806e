//! What the engine tells about itself in the artifacts: the `ringload` key.

use serde_json::{Map, Value, json};

use super::Host;
use crate::artifact::EngineFacts;
use crate::coordinator::{CoordinatorReport, StopReason};
use crate::reactor::{ConnectionCounts, CoreCounters, CoreReport};
use crate::units::Nanos;

fn share(part: Nanos, whole: Nanos) -> f64 {
    if whole == Nanos::ZERO {
        0.0
    } else {
        part.0 as f64 / whole.0 as f64
    }
}

fn core(processor: Option<usize>, counters: &CoreCounters) -> Value {
    json!({
        "processor": processor,
        "busy_share": share(counters.busy, counters.life),
        "driver_enters": counters.enters,
        "driver_completions": counters.completions,
        "driver_overflows": counters.overflows,
        "buffer_shortages": counters.buffer_shortages,
        "connections_opened": counters.connections.opened,
        "reconnects": counters.connections.reconnects,
        "resends": counters.connections.resends,
    })
}

fn connections(counts: ConnectionCounts) -> Value {
    json!({
        "opened": counts.opened,
        "reconnects": counts.reconnects,
        "resends": counts.resends,
        "local_ports_exhausted": counts.ports_exhausted,
    })
}

/// Connections by phase, over all cores.
pub(super) fn connections_by_phase(cores: &[CoreReport], phases: usize) -> Vec<ConnectionCounts> {
    let mut sums = vec![ConnectionCounts::default(); phases];
    for core in cores {
        for (sum, &counts) in sums.iter_mut().zip(&core.connections) {
            *sum += counts;
        }
    }
    sums
}

/// The kernel's release, as uname(1) prints it.
fn kernel() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .ok()
        .map(|release| release.trim().to_owned())
}

/// Facts of the run and of each phase.
pub(super) fn collect(
    host: &Host,
    cores: &[CoreReport],
    coordinator: &CoordinatorReport,
    seed: u64,
    hooks: Vec<Value>,
) -> EngineFacts {
    let by_phase = connections_by_phase(cores, coordinator.unsent.len());
    let life = cores.iter().map(|core| core.counters.life).max().unwrap_or(Nanos::ZERO);
    let mut run = Map::new();
    run.insert("driver".into(), json!(host.driver.kind.as_str()));
    if let Some(reason) = &host.driver.reason {
        run.insert("driver_reason".into(), json!(reason));
    }
    run.insert("kernel".into(), json!(kernel()));
    run.insert("seed".into(), json!(seed));
    run.insert(
        "cores".into(),
        host.placement
            .processors
            .iter()
            .zip(cores)
            .map(|(&processor, report)| core(processor, &report.counters))
            .collect(),
    );
    let mut all = ConnectionCounts::default();
    by_phase.iter().for_each(|&counts| all += counts);
    run.insert("connections".into(), connections(all));
    run.insert("server_addresses".into(), json!(host.addresses.peers));
    if !host.addresses.sources.is_empty() {
        run.insert("source_addresses".into(), json!(host.addresses.sources));
    }
    run.insert("coordinator_busy_share".into(), json!(share(coordinator.busy, life)));
    if !hooks.is_empty() {
        run.insert("hooks".into(), Value::Array(hooks));
    }
    let phases = coordinator.phases.iter().map(|summary| {
        let mut facts = Map::new();
        let reason = match summary.stop_reason {
            StopReason::Requests => "requests",
            StopReason::Duration => "duration",
            StopReason::Interrupted => "interrupted",
        };
        facts.insert("stop_reason".into(), json!(reason));
        facts.insert(
            "sending_seconds".into(),
            json!(summary.sending_complete.since(summary.start).as_secs_f64()),
        );
        facts.insert(
            "drain_seconds".into(),
            json!(summary.end.since(summary.sending_complete).as_secs_f64()),
        );
        facts.insert("drain_cut".into(), json!(summary.drain_cut));
        facts.insert(
            "arrivals_unsent".into(),
            json!(coordinator.unsent[summary.phase.index()]),
        );
        facts.insert("connections".into(), connections(by_phase[summary.phase.index()]));
        (summary.phase, facts)
    });
    EngineFacts {
        phases: phases.collect(),
        run,
        ..EngineFacts::default()
    }
}
