//! How many nanoseconds does one reactor core take for a request over loopback?
//!
//! A core with 64 connections, journal and histograms on, in a closed loop against the mock server in this process: a small whole answer, and
//! a streamed answer of 32 tokens in one write. Criterion's times are elapsed time per request; a line per case gives requests per second and
//! the processor time of the core's thread per request. Checked: every request succeeds.
//!
//! Server and core have a processor each, where there are two. Elapsed time is that of the slower of the two, so it bounds the core from
//! above; the processor time is the core's own, but loopback charges the sender with the receiver's share of the kernel's work. The
//! coordinator's thread is not here, its part is played by a small loop; reading the journal back and writing artifacts is not here either.
//!
//! `RINGLOAD_BENCH_SMOKE=1` measures for a moment only, to show that the bench runs.

use std::time::Duration;

use criterion::{Criterion, Throughput};
use ringload_benches::plan::{Requests, closed_loop, plan};
use ringload_benches::{harness, mock};
use ringload_engine::benchable::LoadedCore;
use ringload_mock_server::Options;

const CONNECTIONS: u32 = 64;
/// Requests for each iteration: the ends of a burst, where fewer than all connections are busy, are a small part of it.
const BURST: u64 = 2_048;

fn main() {
    println!("host: {}", harness::host());
    let (warm_up, measurement) = harness::criterion_times();
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(warm_up)
        .measurement_time(measurement)
        .configure_from_args();
    let mut group = criterion.benchmark_group("core_loopback");
    group.throughput(Throughput::Elements(BURST));
    let requests = |streaming, output_tokens| Requests {
        streaming,
        input_tokens: 128,
        output_tokens,
    };
    for (name, requests) in [
        ("whole answer", requests(false, 1)),
        ("stream of 32 tokens", requests(true, 32)),
    ] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let server = mock::start(Options {
            fast: true,
            ledger_capacity: 1,
            ..Options::default()
        });
        let phases = vec![closed_loop(0, "load", CONNECTIONS, None)];
        let plan = plan(server.address(), requests, phases, directory.path());
        let journal = directory.path().join("journal");
        let mut core = LoadedCore::start(
            &plan,
            server.address(),
            harness::processors().map(|(_, client)| client),
            &journal,
        );
        let (mut elapsed, mut processor, mut sent) = (0, Some(0), 0);
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|bursts| {
                let burst = core.send(bursts * BURST);
                elapsed += burst.elapsed.0;
                processor = processor.and_then(|sum| Some(sum + burst.processor_time?.0));
                sent += bursts * BURST;
                Duration::from_nanos(burst.elapsed.0)
            });
        });
        core.stop();
        assert_eq!(server.counters().requests, sent, "the server saw what the core sent");
        if sent > 0 {
            let cost = processor.map_or("processor time not accounted by this kernel".to_owned(), |processor| {
                format!(
                    "{:.2} us of the core's processor time per request",
                    processor as f64 / sent as f64 / 1e3
                )
            });
            println!(
                "{name}: {:.0} requests/s, {cost} ({sent} requests)\n",
                sent as f64 * 1e9 / elapsed as f64
            );
        }
    }
    group.finish();
    criterion.final_summary();
}
