//! Ends of connections that meet: timeouts, answers, cancellations, resets. No request is mixed with another, and no descriptor or buffer is lost.

use std::time::Duration;

use ringload_engine::plan::ConnectionReuse;
use ringload_tests::books::Books;
use ringload_tests::isolation::in_process_of_its_own;
use ringload_tests::peak::Peak;
use ringload_tests::server::ScriptedServer;
use ringload_tests::{Ending, Phase, Scenario, eventually, mock};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Open descriptors of this process.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("proc is there").count()
}

#[test]
fn p07_a_timeout_that_meets_the_end_of_a_connect_leaves_no_descriptor_behind() {
    in_process_of_its_own(
        "p07_a_timeout_that_meets_the_end_of_a_connect_leaves_no_descriptor_behind",
        || {
            let base = descriptors();
            let (mut connected, mut unconnected) = (0, 0);
            for timeout_us in [20, 50, 100, 200, 400] {
                let server = ScriptedServer::new(|mut client| while client.request().is_some() && client.answer() {});
                let most = Peak::of(descriptors);
                let run = Scenario::new(server.address())
                    .whole_answers()
                    .connection_reuse(ConnectionReuse::Never)
                    .request_timeout(Duration::from_micros(timeout_us))
                    .phase(Phase::closed("load", 8).requests(2_000))
                    .run();
                let counts = run.counts("load");
                let established = run.summary("load")["ringload"]["client"]["connections_opened"].as_u64();
                let established = established.expect("a count");
                connected += established - counts.succeeded;
                unconnected += counts.sent - established;
                // The client's places, as many ends at the server, and what a server that gets no processor has not closed yet.
                let most = most.so_far();
                assert!(most < base + 2 * 80 + 600, "{most} descriptors, {base} at the start");
                drop(server);
            }
            assert!(
                unconnected > 100 && connected > 100,
                "{unconnected} before and {connected} after the connect"
            );
            eventually("the descriptors of the start", || descriptors() == base);
        },
    );
}

#[test]
fn p08_p14_a_timeout_that_meets_its_answer_spoils_no_later_request() {
    let server = mock(|options| {
        options.ttft = ms(3);
        options.itl = Duration::ZERO;
    });
    let run = Scenario::new(server.address())
        .request_timeout(Duration::from_micros(4_500))
        .phase(Phase::closed("load", 8).requests(4_000))
        .phase(Phase::closed("cancelled", 8).requests(4_000).cancelling(0.5, ms(3)))
        .run();
    // Each answer has 4 tokens: one that were mixed with another's would have more or fewer.
    for record in run.records.iter().filter(|record| record.ending() == Ending::Succeeded) {
        assert_eq!(record.metric("output_sequence_length"), Some(4.0), "{record:?}");
    }
    let counts = run.counts("load");
    assert!(counts.succeeded > 0 && counts.failed > 0, "no race: {counts:?}");
    let counts = run.counts("cancelled");
    assert!(counts.succeeded > 0 && counts.cancelled > 0, "no race: {counts:?}");
    Books::compare(&run, &server);
}

#[test]
fn p09_connections_that_are_cancelled_and_replaced_in_a_loop_leave_nothing_behind() {
    in_process_of_its_own(
        "p09_connections_that_are_cancelled_and_replaced_in_a_loop_leave_nothing_behind",
        || {
            let base = descriptors();
            let server = mock(|options| options.ttft = ms(50));
            let most = Peak::of(descriptors);
            let run = Scenario::new(server.address())
                .cores(2)
                .phase(
                    Phase::closed("at once", 16)
                        .requests(4_000)
                        .cancelling(1.0, Duration::ZERO),
                )
                .phase(Phase::closed("mixed", 16).requests(1_000).cancelling(0.9, ms(1)))
                .run();
            assert_eq!(run.counts("at once").cancelled, 4_000);
            let most = most.so_far();
            // Closing connections have 64 places per core beside those of the load, and the server keeps its ends until it has seen the close.
            assert!(most < base + 600, "{most} descriptors, {base} at the start");
            Books::compare(&run, &server);
            drop(server);
            eventually("the descriptors of the start", || descriptors() == base);
        },
    );
}

#[test]
fn p06_p13_more_connections_than_receive_buffers_and_many_resets_lose_nothing() {
    // 600 answers at once for 256 buffers; every third is reset in the middle.
    let server = mock(|options| {
        options.ttft = ms(400);
        options.itl = Duration::ZERO;
        options.osl = Some(100);
        options.fault = Some("every:3:reset-mid-stream".parse().expect("a fault of the mock server"));
    });
    let run = Scenario::new(server.address())
        .phase(Phase::closed("load", 600).requests(1_800))
        .run();
    assert_eq!((run.counts("load").succeeded, run.counts("load").failed), (1_200, 600));
    for record in run.records.iter().filter(|record| record.ending() == Ending::Succeeded) {
        assert_eq!(record.metric("output_sequence_length"), Some(100.0), "{record:?}");
    }
    let core = run.root()["ringload"]["cores"][0].clone();
    assert!(
        core["driver_overflows"].is_u64() && core["buffer_shortages"].is_u64(),
        "{core}"
    );
    Books::complete(&run, &server);
}
