//! Servers to test against, and addresses without one.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use ringload_mock_server::{LedgerEntry, MockServer, Options};

use crate::eventually;

/// A quick mock server on a free port: 2 ms to the first of 4 tokens, 1 ms between tokens, unless `change` says otherwise.
///
/// # Panics
/// If it does not start.
pub fn mock(change: impl FnOnce(&mut Options)) -> MockServer {
    let mut options = Options {
        port: 0,
        ttft: Duration::from_millis(2),
        itl: Duration::from_millis(1),
        osl: Some(4),
        ..Options::default()
    };
    change(&mut options);
    MockServer::start(options).expect("the mock server starts")
}

/// A mock server that plays `fault` on every inference request.
///
/// # Panics
/// If there is no such fault.
pub fn faulty(fault: &str) -> MockServer {
    mock(|options| options.fault = Some(fault.parse().expect("a fault of the mock server")))
}

/// An address that refuses connections.
///
/// It is on a loopback address of its own: the port is free again as soon as it is known, and on 127.0.0.1 a server of another test could take
/// it, or a client's own port could happen to be the one it connects to.
///
/// # Panics
/// If the host has no such loopback address.
pub fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.77.0.1:0").expect("all of 127.0.0.0/8 is this host");
    listener.local_addr().expect("a bound socket has an address")
}

/// The ledger once the server has seen all that clients sent over `connections` connections, now closed: what a client left in the kernel's
/// buffers when it went away arrives after its run has ended.
///
/// # Panics
/// If the server is not through with them in time.
pub fn settled_ledger(server: &MockServer, connections: u64) -> Vec<LedgerEntry> {
    eventually("the end of all connections at the server", || {
        let counters = server.counters();
        counters.connections >= connections && counters.connections_open == 0 && counters.in_flight == 0
    });
    server.ledger()
}

/// Paths of the control calls, in order of arrival.
pub fn control_paths(server: &MockServer) -> Vec<String> {
    server.control_log().into_iter().map(|entry| entry.path).collect()
}
