//! The load on a core of ringload, with journal and histograms, and a small loop in the place of the coordinator.

use std::net::SocketAddr;
use std::path::Path;

use ringload_engine::benchable::LoadedCore;
use ringload_engine::plan::Plan;

/// Sends `requests` requests over as many connections as the plan's first phase has slots.
pub(crate) fn send(plan: &Plan, server: SocketAddr, requests: u64, journal: &Path) {
    let mut core = LoadedCore::start(plan, server, None, journal);
    core.send(requests);
    core.stop();
}
