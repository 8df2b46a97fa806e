//! A closed loop over one runtime: so many requests, so many connections, one thread; or ringload's own core, for comparison.
//!
//! All clients send the same bytes, read answers with the engine's reader, and stamp every read. What differs is how bytes are carried. ringload's
//! core does more: ids of its own in each request, deadlines, and a journal with a record for each request.

mod load;
mod on_glommio;
mod on_monoio;
mod on_tokio;
mod own_core;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use load::Load;
use ringload_benches::plan::{self, Requests};
use ringload_engine::plan::Plan;

/// Sends requests in a closed loop, over one runtime, by one thread
#[derive(Debug, Parser)]
struct Options {
    /// What carries the bytes
    #[arg(long)]
    runtime: Runtime,
    /// Address and port of the mock server
    #[arg(long, value_name = "ADDRESS:PORT")]
    server: SocketAddr,
    /// Connections, each with one request at a time
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Requests to send in all
    #[arg(long)]
    requests: u64,
    /// Ask for streams
    #[arg(long)]
    streaming: bool,
    /// Where ringload's core puts its journal
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Runtime {
    /// The reactor core of ringload
    Ringload,
    /// monoio on a ring with the flags that ringload's has
    Monoio,
    /// monoio on the ring that it makes by default
    MonoioDefault,
    /// tokio with its scheduler for one thread
    Tokio,
    /// glommio with one executor
    Glommio,
}

fn main() {
    send(&Options::parse());
}

/// Sends all requests.
///
/// # Panics
/// If the host refuses a socket or a ring, or a request does not succeed: the costs of such a run would mean nothing.
fn send(options: &Options) {
    let plan = plan(options);
    let load = || Load::new(&plan.requests, options.requests);
    let (server, connections) = (options.server, options.connections);
    match options.runtime {
        Runtime::Ringload => own_core::send(&plan, server, options.requests, &options.directory.join("journal")),
        Runtime::Monoio => on_monoio::send(server, connections, load(), on_monoio::Ring::AsRingload),
        Runtime::MonoioDefault => on_monoio::send(server, connections, load(), on_monoio::Ring::Default),
        Runtime::Tokio => on_tokio::send(server, connections, load()),
        Runtime::Glommio => on_glommio::send(server, connections, load()),
    }
}

fn plan(options: &Options) -> Plan {
    let requests = Requests {
        streaming: options.streaming,
        input_tokens: 96,
        output_tokens: 32,
    };
    let phases = vec![plan::closed_loop(0, "load", options.connections, None)];
    plan::plan(options.server, requests, phases, &options.directory)
}

#[cfg(test)]
mod tests {
    use ringload_benches::mock;

    use super::*;

    #[test]
    fn every_client_sends_the_same_load_over_as_many_connections() {
        for streaming in [false, true] {
            let seen = |&runtime: &Runtime| {
                let server = mock::start(ringload_mock_server::Options {
                    fast: true,
                    ..Default::default()
                });
                let directory = tempfile::tempdir().expect("a temporary directory");
                send(&Options {
                    runtime,
                    server: server.address(),
                    connections: 8,
                    requests: 100,
                    streaming,
                    directory: directory.path().to_owned(),
                });
                let counters = server.counters();
                (
                    counters.requests,
                    counters.connections,
                    counters.bytes_received,
                    counters.tokens_sent,
                )
            };
            let own = seen(&Runtime::Ringload);
            assert_eq!((own.0, own.1), (100, 8));
            for runtime in Runtime::value_variants() {
                assert_eq!(seen(runtime), own, "{runtime:?}");
            }
        }
    }
}
