//! A core under load asks for no memory: every request finds what it needs where an earlier one left it.
//!
//! The allocator of this program counts the calls of threads named `ringload-core-*` between two moments in the middle of a load. One test, for
//! there is one count in a process.

use std::time::Duration;

use ringload_engine::run::DriverChoice;
use ringload_tests::sys::allocator::{Count, Counting};
use ringload_tests::{Phase, Scenario, eventually, mock};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Requests before the count begins: every place of every table has been used by then, for each of the 24 slots has carried some of them.
const WARM: u64 = 600;
/// Requests while it lasts.
const COUNTED: u64 = 600;

/// Runs a load, counts in the middle of it, and ends it.
fn count_in_the_middle(driver: DriverChoice, change: impl FnOnce(Scenario) -> Scenario) -> Count {
    let server = mock(|options| options.osl = Some(6));
    let running = change(Scenario::new(server.address()).driver(driver)).start();
    let sent = || server.counters().requests;
    eventually("a load that is warm", || sent() >= WARM);
    Counting::arm();
    let from = sent();
    eventually("enough requests to count over", || sent() >= from + COUNTED);
    let count = Counting::disarm();
    running.interrupt(libc::SIGINT);
    let run = running.finish();
    assert!(run.counts("load").succeeded >= COUNTED, "{:?}", run.counts("load"));
    assert_eq!(run.counts("load").failed, 0);
    assert!(server.counters().connections <= 24, "connections are kept");
    count
}

#[test]
fn no_core_allocates_or_frees_while_the_load_is_steady() {
    // The counter counts: a thread that is named like a core is seen.
    Counting::arm();
    let alike = std::thread::Builder::new().name("ringload-core-9".into());
    let kept = alike
        .spawn(|| vec![0u8; 64])
        .expect("a thread")
        .join()
        .expect("it returns");
    let seen = Counting::disarm();
    assert!(!kept.is_empty() && seen.cores > 0 && seen.first.is_some(), "{seen:?}");

    for driver in [DriverChoice::Auto, DriverChoice::Epoll] {
        for (what, streaming, phase) in [
            ("streams in a closed loop", true, Phase::closed("load", 24)),
            ("whole answers in a closed loop", false, Phase::closed("load", 24)),
            (
                "streams in an open loop",
                true,
                Phase::constant("load", 800.0).capped(24),
            ),
        ] {
            let count = count_in_the_middle(driver, |scenario| {
                // Judging each request asks for no memory either.
                let scenario = scenario
                    .slo("request_latency", 30.0)
                    .phase(phase.lasting(Duration::from_secs(600)));
                if streaming {
                    scenario.slo("time_to_second_token", 5.0)
                } else {
                    scenario.whole_answers()
                }
            });
            assert_eq!(
                count.cores,
                0,
                "{driver:?}, {what}: the cores called the allocator ({} calls of others); the first call:\n{}",
                count.others,
                count.first.unwrap_or_default()
            );
            assert!(count.others > 0, "the mock server allocates, and was not seen");
        }
    }
}
