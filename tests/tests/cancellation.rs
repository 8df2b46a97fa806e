//! Simulated disconnects: requests are sent whole, then abandoned, and every one of them is on the books.

use std::collections::BTreeSet;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use ringload_mock_server::Outcome;
use ringload_tests::books::Books;
use ringload_tests::{Ending, Phase, Run, Scenario, mock};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Numbers of the cancelled requests of a phase.
fn cancelled(run: &Run, phase: &str) -> BTreeSet<u64> {
    run.records_of(phase)
        .iter()
        .filter(|record| record.ending() == Ending::Cancelled)
        .map(|record| record.metadata.session_num)
        .collect()
}

#[test]
fn s42_a_request_cancelled_at_once_has_been_sent_whole() {
    for (cores, prompt_tokens) in [(1, 40), (2, 40), (1, 60_000)] {
        let server = mock(|options| options.ttft = ms(500));
        let run = Scenario::new(server.address())
            .cores(cores)
            .prompt_tokens(prompt_tokens)
            .phase(Phase::closed("storm", 8).requests(50).cancelling(1.0, Duration::ZERO))
            .run();
        let what = format!("{cores} cores, prompts of {prompt_tokens} tokens");
        assert_eq!(run.counts("storm").cancelled, 50, "{what}");
        for record in &run.records {
            let error = record.error.as_ref().expect("a cancelled request has an error");
            assert_eq!(error.code, Some(499), "{what}: {record:?}");
            assert!(record.metadata.was_cancelled, "{what}: {record:?}");
            assert_eq!(record.metric("error_isl"), Some(f64::from(prompt_tokens)), "{what}");
        }
        // The books compare the length of each body that arrived with the one that was planned.
        let books = Books::complete(&run, &server);
        assert_eq!(books.matched.len(), 50, "{what}");
        for (_, entry) in &books.matched {
            assert_eq!((entry.outcome, entry.tokens_sent), (Outcome::Disconnected, 0), "{what}");
        }
        assert_eq!(server.counters().disconnects_before_end, 50, "{what}");
        let root = run.root();
        for success_only in [
            "request_count",
            "request_latency",
            "time_to_first_token",
            "request_throughput",
        ] {
            assert!(root.get(success_only).is_none(), "{what}: {success_only}");
        }
        assert_eq!(root["error_request_count"]["avg"], 50.0, "{what}");
    }
}

#[test]
fn s42_a_run_of_cancellations_alone_fails_and_one_good_phase_saves_it() {
    let server = mock(|options| options.ttft = ms(500));
    let alone = Scenario::new(server.address())
        .phase(Phase::closed("storm", 4).requests(10).cancelling(1.0, Duration::ZERO))
        .run();
    let reason = alone.outcome.failure.as_deref().expect("nothing succeeded");
    assert!(
        reason.contains("no request succeeded") && reason.contains("10 were cancelled"),
        "{reason}"
    );

    let server = mock(|options| options.ttft = ms(20));
    let saved = Scenario::new(server.address())
        .phase(Phase::closed("storm", 4).requests(10).cancelling(1.0, Duration::ZERO))
        .phase(Phase::closed("recovery", 4).requests(10))
        .run();
    assert_eq!(saved.outcome.failure, None);
    assert_eq!(
        (saved.counts("storm").cancelled, saved.counts("recovery").succeeded),
        (10, 10)
    );
    assert_eq!(saved.root()["request_count"]["avg"], 10.0);
    assert_eq!(saved.root()["error_request_count"]["avg"], 10.0);
    Books::complete(&saved, &server);
}

fn storm(phase: &str, seed: u64, cores: u16) -> BTreeSet<u64> {
    let server = mock(|options| options.ttft = ms(5));
    let run = Scenario::new(server.address())
        .seed(seed)
        .cores(cores)
        .phase(Phase::closed(phase, 16).requests(2_000).cancelling(0.3, Duration::ZERO))
        .run();
    assert_eq!(run.counts(phase).failed, 0);
    Books::complete(&run, &server);
    cancelled(&run, phase)
}

#[test]
fn s45_the_seed_and_the_name_of_the_phase_decide_which_requests_are_cancelled() {
    let first = storm("storm", 5, 1);
    // 2,000 draws of 0.3: 600, with a standard deviation of 20.5.
    assert!((539..=661).contains(&first.len()), "{} of 2,000", first.len());
    assert_eq!(first, storm("storm", 5, 2));
    assert_ne!(first, storm("another", 5, 1));
    assert_ne!(first, storm("storm", 6, 1));
}

/// Reads one request of a connection, a little at a time and with pauses; the declared and the received length of its body.
fn read_slowly(mut connection: TcpStream) -> (usize, usize) {
    let mut received = Vec::new();
    let mut piece = [0u8; 16 << 10];
    loop {
        match connection.read(&mut piece) {
            // The end, however the client made it: everything that it had sent has been read.
            Ok(0) | Err(_) => break,
            Ok(length) => received.extend_from_slice(&piece[..length]),
        }
        std::thread::sleep(ms(1));
    }
    let text = String::from_utf8_lossy(&received);
    let (head, body) = text.split_once("\r\n\r\n").expect("a whole head");
    let declared = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok())
        .expect("a length");
    (declared, body.len())
}

#[test]
fn s43_a_large_body_reaches_a_slow_reader_to_its_last_byte_before_the_disconnect() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let readers = std::thread::spawn(move || {
        let connections: Vec<TcpStream> = listener
            .incoming()
            .take(3)
            .map(|connection| connection.expect("a connection"))
            .collect();
        let readers: Vec<_> = connections
            .into_iter()
            .map(|connection| std::thread::spawn(move || read_slowly(connection)))
            .collect();
        readers
            .into_iter()
            .map(|reader| reader.join().expect("a request"))
            .collect::<Vec<_>>()
    });
    let run = Scenario::new(address)
        .prompt_tokens(400_000)
        .entries(1)
        .phase(Phase::closed("storm", 3).requests(3).cancelling(1.0, Duration::ZERO))
        .run();
    assert_eq!(run.counts("storm").cancelled, 3);
    for (declared, received) in readers.join().expect("three requests") {
        assert!(declared > 1_500_000, "{declared} bytes are no large body");
        assert_eq!(received, declared);
    }
}

#[test]
fn s47_a_warmup_cancels_as_it_is_written_and_changes_no_draw_of_the_measurement() {
    let measured = |warmup: Phase| {
        let server = mock(|options| options.ttft = ms(5));
        let run = Scenario::new(server.address())
            .phase(warmup)
            .phase(Phase::closed("storm", 8).requests(300).cancelling(0.4, Duration::ZERO))
            .run();
        (run.counts("warmup").cancelled, cancelled(&run, "storm"))
    };
    let plain = Phase::closed("warmup", 4).warmup().requests(20);
    let (none, alone) = measured(plain.clone());
    let (all, beside) = measured(plain.cancelling(1.0, Duration::ZERO));
    assert_eq!((none, all), (0, 20));
    assert_eq!(alone, beside);
}

#[test]
fn a_request_that_is_answered_before_its_time_to_leave_succeeds() {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(
            Phase::closed("patient", 4)
                .requests(60)
                .cancelling(1.0, Duration::from_secs(25)),
        )
        .run();
    assert_eq!(run.counts("patient").succeeded, 60);
    // The connections are reused: a disconnect that is left over hits no later request.
    assert_eq!(server.counters().connections, 4);
    Books::complete(&run, &server);
}

#[test]
fn leftover_disconnects_do_not_hit_later_requests_on_the_connection() {
    // Answers of 5 ms, disconnects after 40 ms: each would strike a later request of the same connection.
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .phase(Phase::closed("quick", 2).requests(100).cancelling(0.5, ms(40)))
        .run();
    for record in &run.records {
        if record.ending() == Ending::Cancelled {
            let lasted = record.metadata.request_end_ns - record.metadata.request_start_ns;
            assert!(lasted >= 40_000_000, "struck before its time: {record:?}");
        }
    }
    assert!(run.counts("quick").succeeded >= 30, "{:?}", run.counts("quick"));
    Books::complete(&run, &server);
}

#[test]
fn a_disconnect_within_a_stream_reaches_the_server() {
    let server = mock(|options| {
        options.ttft = ms(5);
        options.itl = ms(20);
        options.osl = Some(200);
    });
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("leaving", 6).requests(24).cancelling(1.0, ms(50)))
        .run();
    assert_eq!(run.counts("leaving").cancelled, 24);
    let books = Books::complete(&run, &server);
    for (record, entry) in &books.matched {
        let lasted = record.metadata.request_end_ns - record.metadata.request_start_ns;
        assert!(lasted >= 50_000_000, "left early: {record:?}");
        assert_eq!(entry.outcome, Outcome::Disconnected, "{entry:?}");
        assert!(entry.tokens_sent < 200, "{entry:?}");
        // The server may have sent more than had arrived when the client left.
        let kept = record
            .ringload
            .partial_tokens
            .expect("a cancelled request says what it got");
        assert!(kept <= u64::from(entry.tokens_sent), "{kept} of {entry:?}");
        assert!(record.metric("output_sequence_length").is_none(), "{record:?}");
    }
    assert!(
        run.records
            .iter()
            .any(|record| record.ringload.partial_tokens > Some(0)),
        "some left in the middle of their stream"
    );
    assert!(run.root().get("total_output_tokens").is_none());
    assert_eq!(server.counters().disconnects_before_end, 24);
}

#[test]
fn s50_phases_without_cancellation_beside_one_with_it_lose_nothing() {
    let server = mock(|options| options.ttft = ms(20));
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::closed("warmup", 4).warmup().requests(12))
        .phase(Phase::closed("before", 4).requests(20))
        .phase(Phase::closed("storm", 8).requests(60).cancelling(0.7, Duration::ZERO))
        .phase(Phase::closed("after", 4).requests(20))
        .run();
    for phase in ["warmup", "before", "after"] {
        assert_eq!(run.counts(phase).cancelled, 0, "{phase}");
        assert_eq!(run.counts(phase).succeeded, run.counts(phase).sent, "{phase}");
    }
    assert!(run.counts("storm").cancelled > 0);
    Books::complete(&run, &server);
}

#[test]
fn the_slots_of_cancelled_requests_are_taken_again() {
    // An open loop with a cap and a closed loop: both would starve if a cancelled request kept its slot.
    let server = mock(|options| options.ttft = Duration::from_secs(50));
    let run = Scenario::new(server.address())
        .phase(Phase::closed("closed", 2).requests(40).cancelling(1.0, Duration::ZERO))
        .phase(
            Phase::constant("open", 400.0)
                .capped(2)
                .requests(40)
                .cancelling(1.0, Duration::ZERO),
        )
        .run();
    assert_eq!((run.counts("closed").cancelled, run.counts("open").cancelled), (40, 40));
    Books::complete(&run, &server);
}
