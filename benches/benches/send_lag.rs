//! How late do requests start in an open loop?
//!
//! Ten seconds of load at constant and at Poisson arrivals, 1,000 and 20,000 per second, for each pacing profile, by one core against the mock
//! server that answers at once. Printed: the send lag (start minus intended start), the achieved rate, and the core's busy share.
//! Checked: every arrival was sent and every request succeeded.
//!
//! Server, coordinator and journal share the first processor, the core has the last one. A send costs 6 us on loopback, because it does the
//! receiver's work too; arrivals that are due at the same moment wait for one another, and at 20,000 per second Poisson arrivals often are. What
//! is printed is therefore the lag of this load, not the error of the clock. A neighbour on the same host shows in the maximum.
//!
//! Not a criterion bench: quantiles over one long run are the point. `RINGLOAD_BENCH_SMOKE=1` runs 0.3 seconds of each.

use ringload_benches::harness::{self, Size};
use ringload_benches::plan::{Requests, closed_loop, plan, run};
use ringload_benches::{client, mock};
use ringload_engine::plan::{Arrival, PhasePlan};
use ringload_engine::run::Pacing;
use ringload_mock_server::Options;

const RATES: [f64; 2] = [1_000.0, 20_000.0];
/// Connections are made before the measured phase, so that it is about the schedule and not about handshakes.
const CONNECTIONS: u32 = 256;

/// The phase that is measured.
const PHASE: &str = "measured";

fn phases(arrival: Arrival, requests: u64) -> Vec<PhasePlan> {
    let opening = closed_loop(0, "opening", CONNECTIONS, Some(4 * u64::from(CONNECTIONS)));
    let measured = PhasePlan {
        arrival,
        concurrency: None,
        ..closed_loop(1, PHASE, CONNECTIONS, Some(requests))
    };
    vec![opening, measured]
}

fn measure(name: &str, arrival: Arrival, rate: f64, pacing: Pacing, seconds: f64) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = mock::start(Options {
        fast: true,
        ledger_capacity: 1,
        ..Options::default()
    });
    let requests = Requests {
        streaming: false,
        input_tokens: 64,
        output_tokens: 1,
    };
    let arrivals = (rate * seconds) as u64;
    let plan = plan(server.address(), requests, phases(arrival, arrivals), directory.path());
    let outcome = run(&plan, pacing);
    let report = outcome.report.phases.iter().find(|phase| phase.name == PHASE);
    let scope = &report.expect("the phase ran").scope;
    assert_eq!((scope.counts.sent, scope.counts.succeeded), (arrivals, arrivals));
    let lag = scope.send_lag.as_ref().expect("requests were sent");
    let micros = |millis: Option<f64>| millis.unwrap_or(f64::NAN) * 1e3;
    let [p50, p99] = [50, 99].map(|q| micros(lag.percentile(q)));
    let facts = client::facts(directory.path()).expect("a summary");
    let window = scope.window.expect("the phase ran");
    let seconds = window.end_ns.saturating_sub(window.start_ns) as f64 / 1e9;
    let busy = client::sum_of_cores(&facts, "busy_share").expect("a share");
    println!(
        "{name:8} {rate:>6}/s {:9}: lag p50 {p50:7.1} us, p99 {p99:7.1} us, max {:8.1} us; {:8.1} per second, core {:3.0} % busy",
        pacing.as_str(),
        micros(lag.max),
        arrivals as f64 / seconds,
        busy * 100.0
    );
}

fn main() {
    let Some(size) = harness::size_of("send_lag") else {
        return;
    };
    let seconds = if size == Size::Full { 10.0 } else { 0.3 };
    println!("host: {}", harness::host());
    for rate in RATES {
        for (name, arrival) in [
            ("constant", Arrival::constant(rate)),
            ("poisson", Arrival::poisson(rate)),
        ] {
            for pacing in [Pacing::Efficient, Pacing::Precise, Pacing::Busy] {
                measure(name, arrival.clone(), rate, pacing, seconds);
            }
        }
    }
}
