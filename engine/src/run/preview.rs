//! A run before it starts: what it would send, and what it needs of this host. Nothing is sent, written or resolved.

use std::net::IpAddr;

use super::forecast::{Forecast, forecast};
use super::{CoreChoice, RunError, address, placement};
use crate::artifact::ArtifactDirectory;
use crate::plan::{Arrival, ConnectionReuse, Plan};
use crate::reactor::{self, DriverChoice};
use crate::sys::limits;
use crate::units::Nanos;

/// Bytes of memory of an open stream, as measured at 16,000 of them (docs/performance.md, P6).
const STREAM_BYTES: u64 = 1_262;
/// How long a closed connection keeps its local port (Linux, `TCP_TIMEWAIT_LEN`).
const TIME_WAIT: Nanos = Nanos::from_secs(60);

/// What a run would do and need.
#[derive(Debug)]
pub struct Preview {
    /// What it sends, and when it ends.
    pub forecast: Forecast,
    /// What it needs of this host; or why it would be refused here.
    pub host: Result<HostPreview, RunError>,
    /// Why the artifact directory would be refused.
    pub directory: Result<(), RunError>,
    /// What this host may not give, one line each.
    pub warnings: Vec<String>,
}

/// What a run has of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPreview {
    /// Reactor cores.
    pub cores: usize,
    /// Which processors they and the other threads have, in one line.
    pub placement: String,
    /// What moves the bytes, and why it is not io_uring.
    pub driver: (&'static str, Option<String>),
    /// File descriptors that the plan needs at least, and those that the process may have.
    pub descriptors: (u64, u64),
    /// Most connections at once.
    pub connections: u64,
    /// Local ports of this host for each address of a server; `None` if the host does not tell.
    pub local_ports: Option<u64>,
    /// Bytes of all requests as they are sent.
    pub request_bytes: u64,
    /// Bytes of what the engine keeps of that many open connections.
    pub connection_bytes: u64,
}

/// Looks at a plan on this host.
pub fn preview(plan: &Plan, cores: &CoreChoice, driver: DriverChoice, sources: &[IpAddr]) -> Preview {
    let host = host(plan, cores, driver, sources);
    let warnings = host.as_ref().map(|host| host.warnings(plan)).unwrap_or_default();
    Preview {
        forecast: forecast(plan),
        host,
        directory: ArtifactDirectory::check(plan).map_err(RunError::from),
        warnings,
    }
}

fn host(plan: &Plan, cores: &CoreChoice, driver: DriverChoice, sources: &[IpAddr]) -> Result<HostPreview, RunError> {
    let placement = placement::place(&plan.phases, plan.endpoint.targets.len(), cores)?;
    super::tls_clients(plan)?;
    address::check_sources(&plan.endpoint.targets, sources)?;
    let chosen = reactor::choose(driver)?;
    let cores = placement.processors.cores.len();
    let tails = plan
        .requests
        .entries
        .iter()
        .map(|image| image.tail.len() as u64)
        .sum::<u64>();
    let heads = plan.requests.heads.iter().map(|head| head.len() as u64).sum::<u64>();
    let connections = placement.most_in_flight(&plan.phases);
    Ok(HostPreview {
        cores,
        placement: placement.line(),
        driver: (chosen.kind.as_str(), chosen.reason),
        descriptors: placement.descriptors,
        connections,
        local_ports: limits::local_ports().map(|ports| ports * sources.len().max(1) as u64),
        request_bytes: tails + heads,
        connection_bytes: connections * STREAM_BYTES,
    })
}

impl HostPreview {
    /// What this host may be short of when it runs the plan, one line each.
    pub fn warnings(&self, plan: &Plan) -> Vec<String> {
        let Some(ports) = self.local_ports else {
            return Vec::new();
        };
        let mut warnings = Vec::new();
        let remedy = "give more addresses with --source-address, or widen net.ipv4.ip_local_port_range";
        let servers = plan.endpoint.targets.len() as u64;
        if self.connections > ports * servers {
            warnings.push(format!(
            "up to {} connections at once need as many local ports, and this host has {ports} for each address of the server; {remedy}",
            self.connections
        ));
        }
        for phase in &plan.phases {
            let Arrival::AtRate { .. } = &phase.arrival else {
                continue;
            };
            // Requests that take a connection with them when they end.
            let share = match (plan.endpoint.connection_reuse, phase.cancellation) {
                (ConnectionReuse::Never, _) => 1.0,
                (_, Some(cancellation)) => cancellation.probability,
                _ => 0.0,
            };
            let Some(expected) = crate::coordinator::ExpectedArrivals::of(phase, plan.seed) else {
                continue;
            };
            let minute = phase
                .stop
                .duration
                .map_or(TIME_WAIT, |duration| duration.min(TIME_WAIT));
            let closed = expected.by(minute) * share;
            if closed > (ports * servers) as f64 {
                warnings.push(format!(
                "phase {}: about {closed:.0} connections are closed within its first {} s, a closed one keeps its local port for a minute, and this \
                 host has {ports} for each address of the server; {remedy}",
                phase.name,
                minute.as_secs_f64()
            ));
            }
        }
        warnings
    }
}
