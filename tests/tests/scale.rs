//! Thousands of open streams: none is lost, and each costs little memory. The server is in this process, the client in one of its own.

use std::collections::HashMap;
use std::time::Duration;

use ringload_engine::run::DriverChoice;
use ringload_tests::program::{Program, Workplace, config, phase};
use ringload_tests::run::driver_under_test;
use ringload_tests::server::settled_ledger;
use ringload_tests::sys::child::descriptor_limit;
use ringload_tests::{Ending, Record, eventually, mock};
use serde_json::Value;

/// Descriptors of either process beside one per stream.
const OTHER_DESCRIPTORS: u64 = 200;

/// What a run of many streams took and told.
struct Measured {
    /// Resident memory with one stream open and with all of them open.
    resident_kib: (u64, u64),
    facts: Value,
}

/// Opens `streams` at once from one core and holds them for some tokens; every one of them is in the records and in the ledger, once. `None`,
/// and a line that says so, where this host does not allow as many descriptors.
fn hold(streams: u64, driver: &str) -> Option<Measured> {
    let limit = descriptor_limit();
    if limit < streams + OTHER_DESCRIPTORS {
        println!("skipped: {streams} streams need more descriptors than the hard limit of {limit}");
        return None;
    }
    const TOKENS: u32 = 5;
    let server = mock(|options| {
        options.ttft = Duration::from_millis(1_500);
        options.itl = Duration::from_millis(700);
        options.osl = Some(TOKENS);
    });
    let phases = phase("warmup", "concurrency: 1, requests: 1")
        + &phase("profiling", &format!("concurrency: {streams}, requests: {streams}"));
    let workplace = Workplace::new(&config(&server.url(), &phases));
    let program: Program = workplace.start_profile(&["--driver", driver]);
    eventually("the one stream of the warmup", || server.counters().in_flight == 1);
    let idle = program.resident_kib();
    let mut loaded = 0;
    eventually("all streams open at once, and their end", || {
        let counters = server.counters();
        if counters.in_flight > 0 {
            loaded = loaded.max(program.resident_kib());
        }
        counters.in_flight_max == streams && counters.in_flight == 0
    });
    program.end().expect(0);

    let root = workplace.root();
    let facts = &root["ringload"];
    assert_eq!(
        (&facts["sent"], &facts["succeeded"]),
        (&streams.into(), &streams.into())
    );
    let ledger: HashMap<String, u32> = settled_ledger(&server, streams)
        .into_iter()
        .map(|entry| (entry.request_id.expect("requests carry ids"), entry.tokens_sent))
        .collect();
    let records = Record::read_all(&workplace.path("results/profile_export.jsonl"));
    assert_eq!(
        (records.len(), ledger.len()),
        (streams as usize + 1, streams as usize + 1)
    );
    for record in &records {
        assert_eq!(record.ending(), Ending::Succeeded, "{record:?}");
        assert_eq!(ledger.get(&record.metadata.x_request_id), Some(&TOKENS), "{record:?}");
        assert_eq!(record.gaps_ns().len() as u32, TOKENS - 1, "{record:?}");
    }
    Some(Measured {
        resident_kib: (idle, loaded),
        facts: facts.clone(),
    })
}

/// The word of `--driver` for the driver under test.
fn driver() -> &'static str {
    match driver_under_test() {
        DriverChoice::Auto => "auto",
        DriverChoice::IoUring => "io-uring",
        DriverChoice::Epoll => "epoll",
    }
}

#[test]
fn an_open_stream_costs_little_memory() {
    const STREAMS: u64 = 2_000;
    for driver in ["auto", "epoll"] {
        let Some(measured) = hold(STREAMS, driver) else { return };
        let (idle, loaded) = measured.resident_kib;
        let bytes = loaded.saturating_sub(idle) * 1024 / STREAMS;
        println!("{driver}: {bytes} bytes per stream ({idle} KiB with one stream, {loaded} KiB with {STREAMS})");
        // 1.6 KiB are measured, a third of it buffers that all streams share. A read buffer for each stream would add 4.
        assert!(
            bytes < 4 * 1024,
            "{driver}: {bytes} bytes per stream: {idle} KiB with one stream, {loaded} KiB with {STREAMS}"
        );
    }
}

#[test]
fn five_thousand_streams_on_one_core_lose_nothing_and_overflows_are_told() {
    let Some(measured) = hold(5_000, driver()) else { return };
    let cores = measured.facts["cores"].as_array().expect("the facts of every core");
    assert_eq!(cores.len(), 1);
    for figure in ["driver_overflows", "buffer_shortages", "driver_completions"] {
        assert!(cores[0][figure].is_u64(), "{figure} is not in {}", cores[0]);
    }
    assert_eq!(cores[0]["connections_opened"], 5_000);
}
