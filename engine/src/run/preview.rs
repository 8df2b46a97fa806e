//! A run before it starts: what it would send, and what it needs of this host. Nothing is sent, written or resolved.

use std::net::IpAddr;

use super::forecast::{Forecast, forecast};
use super::{CoreChoice, RunError, placement};
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
    let warnings = host.as_ref().map(|host| warnings(plan, host)).unwrap_or_default();
    Preview {
        forecast: forecast(plan),
        host,
        directory: ArtifactDirectory::check(plan).map_err(RunError::from),
        warnings,
    }
}

fn host(plan: &Plan, cores: &CoreChoice, driver: DriverChoice, sources: &[IpAddr]) -> Result<HostPreview, RunError> {
    let placement = placement::place(&plan.phases, plan.endpoint.targets.len(), cores)?;
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

fn warnings(plan: &Plan, host: &HostPreview) -> Vec<String> {
    let Some(ports) = host.local_ports else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    let remedy = "give more addresses with --source-address, or widen net.ipv4.ip_local_port_range";
    let servers = plan.endpoint.targets.len() as u64;
    if host.connections > ports * servers {
        warnings.push(format!(
            "up to {} connections at once need as many local ports, and this host has {ports} for each address of the server; {remedy}",
            host.connections
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::plan::{BuildOptions, build};

    fn plan(endpoint: &str, phase: &str) -> Plan {
        let text = format!(
            "benchmark:\n  model: m\n  endpoint: {{url: h{endpoint}}}\n  dataset: {{entries: 4, isl: 8, osl: 2}}\n  \
             phases: [{{name: p, kind: profiling, {phase}}}]\n  artifacts: {{dir: /nonexistent/ringload}}\n"
        );
        let config =
            config::parse("f.yaml", text.as_bytes(), &|_| None).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        build(&config, &BuildOptions::default()).expect("the plan is sound")
    }

    fn host(connections: u64) -> HostPreview {
        HostPreview {
            cores: 1,
            placement: String::new(),
            driver: ("epoll", None),
            descriptors: (1, 2),
            connections,
            local_ports: Some(28_232),
            request_bytes: 0,
            connection_bytes: 0,
        }
    }

    #[test]
    fn too_few_local_ports_are_told_with_the_remedy() {
        let calm = plan("", "type: constant, rate: 900, duration: 60");
        assert_eq!(warnings(&calm, &host(28_232)), Vec::<String>::new());
        let many = warnings(&calm, &host(28_233));
        assert!(many[0].contains("--source-address") && many.len() == 1, "{many:?}");
        let churn = plan(", connection_reuse: never", "type: constant, rate: 900, duration: 60");
        let told = warnings(&churn, &host(64));
        assert!(
            told[0].starts_with("phase p: about 54000 connections are closed within its first 60 s"),
            "{told:?}"
        );
        let short = plan(", connection_reuse: never", "type: constant, rate: 900, duration: 20");
        assert!(warnings(&short, &host(64)).is_empty());
        let storm = plan("", "type: poisson, rate: 900, duration: 600, cancellation: {rate: 60}");
        assert!(warnings(&storm, &host(64))[0].contains("about 32400 connections"));
    }

    #[test]
    fn a_preview_says_what_the_host_has_and_writes_nothing() {
        let plan = plan("", "type: concurrency, concurrency: 4, requests: 9");
        let preview = preview(&plan, &CoreChoice::Count(1), DriverChoice::Epoll, &[]);
        let host = preview.host.expect("one core and epoll are everywhere");
        assert_eq!((host.cores, host.driver.0, host.connections), (1, "epoll", 4));
        assert!(
            host.descriptors.0 > 4 && host.descriptors.1 >= host.descriptors.0,
            "{host:?}"
        );
        assert!(host.request_bytes > 4 * 100, "{host:?}");
        assert!(preview.directory.is_ok() && !plan.artifacts.directory.exists());
        let none = super::preview(&plan, &CoreChoice::Count(60_000), DriverChoice::Epoll, &[]);
        assert!(none.host.is_err_and(|error| error.is_usage()));
    }
}
