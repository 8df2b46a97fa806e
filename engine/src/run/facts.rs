//! What the engine tells about itself in the artifacts: the `ringload` key.

use serde_json::{Map, Value, json};

use super::Host;
use super::servers::Servers;
use crate::artifact::EngineFacts;
use crate::coordinator::{CoordinatorReport, PhaseSummary, StopReason, UnsentArrivals};
use crate::plan::{Plan, Verification};
use crate::reactor::CoreCounters;
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
        "busy_seconds": counters.busy.as_secs_f64(),
        "driver_enters": counters.enters,
        "driver_completions": counters.completions,
        "driver_overflows": counters.overflows,
        "buffer_shortages": counters.buffer_shortages,
        "connections_opened": counters.connections,
        "reconnects": counters.reconnects,
        "tls_handshakes": counters.handshakes,
        "tls_resumptions": counters.resumptions,
        "resends": counters.resends,
    })
}

/// How servers were verified.
fn verification(verification: &Verification) -> Value {
    match verification {
        Verification::SystemRoots => json!({ "verification": "system-roots" }),
        Verification::CaFile(path) => json!({ "verification": "ca-file", "ca_file": path }),
        Verification::Off => json!({
            "verification": "none",
            "warning": "--insecure: nobody checked that the server is the one that endpoint.url names",
        }),
    }
}

/// The kernel's release, as uname(1) prints it.
fn kernel() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .ok()
        .map(|release| release.trim().to_owned())
}

/// What was run, for whoever compares two runs or goes on with one: the plan, and the files that are no part of it.
pub(super) fn identify(run: &mut Map<String, Value>, plan: &Plan) {
    run.insert("plan_hash".into(), plan.fingerprint().into());
    if let Some(file) = &plan.dataset_file {
        run.insert("dataset_sha256".into(), file.sha256.as_str().into());
    }
    if let Some(file) = &plan.system_prompt_file {
        run.insert("system_prompt_sha256".into(), file.sha256.as_str().into());
    }
}

/// Facts of the run that are known when it starts.
pub(super) fn of_start(host: &Host, seed: u64) -> Map<String, Value> {
    let mut run = Map::new();
    run.insert("driver".into(), json!(host.driver.kind.as_str()));
    if let Some(reason) = &host.driver.reason {
        run.insert("driver_reason".into(), json!(reason));
    }
    run.insert("kernel".into(), json!(kernel()));
    if let Some(tls) = host.tls.first() {
        run.insert("tls".into(), verification(tls.verification()));
    }
    run.insert("seed".into(), json!(seed));
    run.insert("server_addresses".into(), json!(host.addresses.servers.concat()));
    if !host.addresses.sources.is_empty() {
        run.insert("source_addresses".into(), json!(host.addresses.sources));
    }
    run.insert("placement".into(), host.placement.to_json());
    run.insert(
        "pacing".into(),
        json!({
            "asked": host.pacing.as_str(),
            "open_loop": host.profiles.open_loop.as_str(),
            "closed_loop": host.profiles.closed_loop.as_str(),
        }),
    );
    run
}

/// Facts of a phase that its summary tells.
pub(super) fn of_phase(summary: &PhaseSummary) -> Map<String, Value> {
    let mut facts = Map::new();
    facts.insert("stop_reason".into(), json!(stop_word(summary.stop_reason)));
    facts.insert(
        "sending_seconds".into(),
        json!(summary.sending_complete.since(summary.start).as_secs_f64()),
    );
    facts.insert(
        "drain_seconds".into(),
        json!(summary.end.since(summary.sending_complete).as_secs_f64()),
    );
    facts.insert("drain_cut".into(), json!(summary.drain_cut));
    facts
}

/// Why a phase stopped sending, as artifacts and journals say it.
pub(super) fn stop_word(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Requests => "requests",
        StopReason::Duration => "duration",
        StopReason::Adaptive => "adaptive",
        StopReason::Stalled => "stalled",
        StopReason::Interrupted => "interrupted",
    }
}

/// Facts of the run and of each phase.
pub(super) fn collect(
    host: &Host,
    cores: &[CoreCounters],
    coordinator: &CoordinatorReport,
    seed: u64,
    hooks: Vec<Value>,
    servers: &Servers,
) -> EngineFacts {
    let life = cores.iter().map(|core| core.life).max().unwrap_or(Nanos::ZERO);
    let mut run = of_start(host, seed);
    run.insert(
        "cores".into(),
        host.placement
            .processors
            .cores
            .iter()
            .zip(cores)
            .map(|(&processor, counters)| core(processor, counters))
            .collect(),
    );
    run.insert("coordinator_busy_share".into(), json!(share(coordinator.busy, life)));
    if !hooks.is_empty() {
        run.insert("hooks".into(), Value::Array(hooks));
    }
    if let Some(servers) = servers.of_run() {
        run.insert("servers".into(), servers);
    }
    let phases = coordinator.phases.iter().map(|summary| {
        let mut facts = of_phase(summary);
        let arrivals = coordinator.arrivals[summary.phase.index()];
        if let Some(UnsentArrivals { dropped, unsent }) = arrivals {
            let sent = summary.tally.sent;
            facts.insert("arrivals_scheduled".into(), json!(sent + dropped + unsent));
            facts.insert("arrivals_sent".into(), json!(sent));
            facts.insert("arrivals_dropped".into(), json!(dropped));
            facts.insert("arrivals_unsent".into(), json!(unsent));
        }
        if let Some(servers) = servers.of_phase(summary.phase) {
            facts.insert("servers".into(), servers);
        }
        (summary.phase, facts)
    });
    EngineFacts {
        phases: phases.collect(),
        run,
        ..EngineFacts::default()
    }
}
