//! Conversations of several turns: their order, their histories, their connections, and what ends them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringload_engine::dataset::LengthDistribution;
use ringload_engine::plan::ConnectionReuse;
use ringload_mock_server::{MockServer, Options};
use ringload_tests::books::{Books, spans};
use ringload_tests::server::{Client, ScriptedServer};
use ringload_tests::sessions::{Session, sessions};
use ringload_tests::statistics::most_open;
use ringload_tests::{Ending, Phase, Scenario, mock};
use serde_json::{Value, json};

/// A quick server that keeps messages and answers with as many tokens as it is asked for.
fn server(change: impl FnOnce(&mut Options)) -> MockServer {
    mock(|options| {
        options.keep_messages = true;
        options.osl = None;
        change(options);
    })
}

/// Conversations of `turns` turns, answers of different lengths.
fn scenario(server: &MockServer, turns: u32) -> Scenario {
    Scenario::new(server.address())
        .turns(LengthDistribution::Fixed(turns))
        .output_lengths(LengthDistribution::Normal { mean: 6.0, stddev: 3.0 })
}

fn turn_counts<'a>(sessions: impl IntoIterator<Item = &'a Session<'a>>) -> Vec<usize> {
    let mut counts: Vec<usize> = sessions.into_iter().map(|session| session.turns.len()).collect();
    counts.sort_unstable();
    counts
}

#[test]
fn s09_sessions_send_all_their_turns_in_order_on_one_connection_and_hold_their_slot() {
    for cores in [1, 2] {
        let server = server(|_| {});
        let run = scenario(&server, 4)
            .cores(cores)
            .connection_reuse(ConnectionReuse::StickyUserSessions)
            .phase(Phase::closed("load", 2).sessions(3))
            .run();
        assert_eq!(run.counts("load").sent, 12);
        assert_eq!(run.ended(Ending::Succeeded), 12);
        let books = Books::complete(&run, &server);
        let sessions = sessions(&run, &books);
        assert_eq!(turn_counts(sessions.values()), [4, 4, 4]);
        let open: Vec<(u64, u64)> = sessions.values().map(Session::span).collect();
        assert!(most_open(&open) <= 2, "at most two sessions are open: {open:?}");
        let connections: Vec<Vec<u64>> = sessions.values().map(Session::connections).collect();
        assert!(connections.iter().all(|of_one| of_one.len() == 1), "{connections:?}");
        let distinct: BTreeSet<&Vec<u64>> = connections.iter().collect();
        assert_eq!(distinct.len(), 3, "a connection is closed with its session");
        assert_eq!(server.counters().connections, 3);
    }
}

#[test]
fn histories_hold_for_many_sessions_at_once_streamed_and_whole() {
    for (streamed, cores) in [(true, 1), (true, 2), (false, 2)] {
        let server = server(|options| options.ttft = Duration::from_micros(300));
        let mut scenario = scenario(&server, 5).cores(cores).entries(40);
        if !streamed {
            scenario = scenario.whole_answers();
        }
        let run = scenario.phase(Phase::closed("load", 16).sessions(100)).run();
        assert_eq!(run.counts("load").succeeded, 500);
        let books = Books::complete(&run, &server);
        let sessions = sessions(&run, &books);
        assert_eq!(turn_counts(sessions.values()), [5; 100]);
        // 100 sessions over 40 conversations: each was taken two or three times.
        let mut taken: HashMap<&str, usize> = HashMap::new();
        for session in sessions.values() {
            *taken.entry(&session.turns[0].0.metadata.conversation_id).or_default() += 1;
        }
        assert!(
            taken.len() == 40 && taken.values().all(|count| (2..=3).contains(count)),
            "{taken:?}"
        );
    }
}

#[test]
fn numbers_of_turns_may_differ_and_the_total_is_their_sum() {
    let server = server(|options| options.fast = true);
    let run = Scenario::new(server.address())
        .turns(LengthDistribution::Normal { mean: 3.0, stddev: 2.0 })
        .cores(2)
        .entries(10)
        .phase(Phase::closed("warmup", 3).warmup().sessions(7))
        .phase(Phase::closed("load", 4).sessions(25))
        .run();
    let (conversations, order) = (&run.plan.requests.conversations, run.plan.requests.order);
    assert_eq!(run.counts("warmup").sent, conversations.turns_of(order, 0, 7));
    assert_eq!(
        run.counts("load").sent,
        conversations.turns_of(order, 7, 25),
        "the dataset goes on"
    );
    let books = Books::complete(&run, &server);
    assert_eq!(
        sessions(&run, &books).len(),
        32,
        "sessions of all phases have ids of their own"
    );
}

#[test]
fn requests_cut_sessions_midway_and_the_count_is_exact() {
    for cores in [1, 2] {
        let server = server(|options| options.fast = true);
        let run = scenario(&server, 4)
            .cores(cores)
            .phase(Phase::closed("load", 3).requests(10))
            .run();
        assert_eq!(run.counts("load").sent, 10);
        let mut numbers: Vec<u64> = run.records.iter().map(|record| record.metadata.session_num).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..10), "issue numbers have no gap");
        let books = Books::complete(&run, &server);
        let counts = turn_counts(sessions(&run, &books).values());
        assert_eq!(counts.iter().sum::<usize>(), 10);
        assert!(counts.iter().any(|&count| count < 4), "{counts:?}");
    }
}

#[test]
fn s21_a_duration_cuts_sessions_and_the_next_phase_begins_new_ones() {
    for (seamless, cores) in [(false, 1), (true, 1), (true, 2)] {
        let server = server(|options| options.ttft = Duration::from_millis(40));
        let second = Phase::closed("b", 2).sessions(2);
        let run = scenario(&server, 4)
            .cores(cores)
            .entries(2)
            .connection_reuse(ConnectionReuse::StickyUserSessions)
            .phase(Phase::closed("a", 4).lasting(Duration::from_millis(70)))
            .phase(if seamless { second.seamless() } else { second })
            .run();
        assert_eq!(run.outcome.failure, None);
        assert_eq!(run.counts("b").sent, 8);
        let books = Books::complete(&run, &server);
        let sessions = sessions(&run, &books);
        let (a, b): (Vec<&Session<'_>>, Vec<&Session<'_>>) = sessions
            .values()
            .partition(|session| session.turns[0].0.metadata.phase_name == "a");
        assert!(a.iter().all(|session| session.turns.len() < 4), "{:?}", turn_counts(a));
        assert_eq!(turn_counts(b), [4, 4]);
        assert_eq!(server.counters().connections_open, 0);
    }
}

#[test]
fn s49_a_cancelled_turn_does_not_end_its_session() {
    let server = server(|options| options.ttft = Duration::from_millis(100));
    // One session at a time, so that the seed alone decides which turns are cancelled.
    let run = scenario(&server, 4)
        .phase(
            Phase::closed("load", 1)
                .sessions(6)
                .cancelling(0.5, Duration::from_millis(1)),
        )
        .run();
    assert_eq!(run.counts("load").sent, 24);
    let cancelled = run.ended(Ending::Cancelled);
    assert!((1..24).contains(&cancelled), "{cancelled} of 24 were cancelled");
    // Whatever was cancelled, all turns were sent in order, and histories lack exactly the answers that never came.
    let books = Books::complete(&run, &server);
    let sessions = sessions(&run, &books);
    assert_eq!(turn_counts(sessions.values()), [4; 6]);
    let midway = |session: &Session<'_>| {
        let endings: Vec<Ending> = session.turns.iter().map(|(record, _)| record.ending()).collect();
        endings[1] == Ending::Cancelled
    };
    assert!(
        sessions.values().any(midway),
        "no second turn was cancelled with this seed"
    );
}

#[test]
fn a_failed_turn_does_not_end_its_session_and_leaves_no_answer() {
    let server = server(|options| options.fault = Some("every:3:status:503".parse().expect("a fault")));
    let run = scenario(&server, 4)
        .connection_reuse(ConnectionReuse::StickyUserSessions)
        .phase(Phase::closed("load", 2).sessions(6))
        .run();
    assert_eq!((run.ended(Ending::Failed), run.counts("load").sent), (8, 24));
    let books = Books::complete(&run, &server);
    let sessions = sessions(&run, &books);
    assert_eq!(turn_counts(sessions.values()), [4; 6]);
    for session in sessions.values() {
        let failures = session.turns[..3]
            .iter()
            .filter(|(record, _)| record.ending() == Ending::Failed);
        assert_eq!(
            session.connections().len(),
            1 + failures.count(),
            "an error ends a sticky connection"
        );
    }
}

#[test]
fn delays_count_from_the_return_of_the_turn_before_and_keep_the_slot() {
    let server = server(|_| {});
    let delay = Duration::from_millis(60);
    let run = scenario(&server, 3)
        .turn_delay(delay)
        .phase(Phase::closed("load", 2).sessions(4))
        .run();
    let books = Books::complete(&run, &server);
    let sessions = sessions(&run, &books);
    for session in sessions.values() {
        for pair in session.turns.windows(2) {
            let pause = pair[1].0.metadata.request_start_ns - pair[0].0.metadata.request_end_ns;
            assert!(pause >= delay.as_nanos() as u64, "{pause} ns");
        }
    }
    let open: Vec<(u64, u64)> = sessions.values().map(Session::span).collect();
    assert_eq!(most_open(&open), 2, "a session that waits holds its slot");
}

#[test]
fn an_open_loop_gives_arrivals_to_turns_first_and_ends_with_the_last_session() {
    for cores in [1, 2] {
        let server = server(|_| {});
        let run = scenario(&server, 3)
            .cores(cores)
            .turn_delay(Duration::from_millis(30))
            .phase(Phase::constant("load", 200.0).sessions(8))
            .run();
        assert_eq!(run.counts("load").sent, 24);
        let books = Books::complete(&run, &server);
        assert_eq!(turn_counts(sessions(&run, &books).values()), [3; 8]);
        for record in &run.records {
            let intended = record.ringload.intended_start_ns - run.phase("load").start_ns;
            let off = intended % 5_000_000;
            assert!(!(1_000..=4_999_000).contains(&off), "an arrival every 5 ms: {intended}");
        }
        let mut numbers: Vec<u64> = run.records.iter().map(|record| record.metadata.session_num).collect();
        numbers.sort_unstable();
        assert!(
            numbers.into_iter().eq(0..24),
            "arrivals that found nothing have no number"
        );
        let mut arrivals: Vec<u64> = run
            .records
            .iter()
            .map(|record| record.ringload.intended_start_ns)
            .collect();
        arrivals.sort_unstable();
        arrivals.dedup();
        assert_eq!(arrivals.len(), 24, "an arrival is used once");
    }
}

#[test]
fn an_arrival_that_passed_before_a_turn_was_due_is_not_made_up_for() {
    // One session; its turns are due a tenth of a second after the return before. Meanwhile twenty arrivals pass.
    let server = server(|_| {});
    let run = scenario(&server, 4)
        .turn_delay(Duration::from_millis(100))
        .phase(Phase::constant("load", 200.0).sessions(1))
        .run();
    let mut records: Vec<_> = run.records.iter().collect();
    records.sort_by_key(|record| record.metadata.turn_index);
    for pair in records.windows(2) {
        let due = pair[0].metadata.request_end_ns + 100_000_000;
        // Times of records are on the wall clock, converted one by one.
        assert!(pair[1].ringload.intended_start_ns + 1_000 >= due);
        assert!(pair[1].metadata.request_start_ns >= due);
    }
    assert_eq!(run.counts("load").sent, 4);
}

#[test]
fn a_capped_open_loop_never_has_more_sessions_than_slots_and_loses_none() {
    let server = server(|options| options.ttft = Duration::from_millis(10));
    let run = scenario(&server, 3)
        .cores(2)
        .phase(Phase::poisson("load", 2_000.0).capped(4).sessions(20))
        .run();
    assert_eq!(run.counts("load").sent, 60);
    let books = Books::complete(&run, &server);
    let sessions = sessions(&run, &books);
    assert_eq!(turn_counts(sessions.values()), [3; 20]);
    let open: Vec<(u64, u64)> = sessions.values().map(Session::span).collect();
    assert!(most_open(&open) <= 4);
}

#[test]
fn arrivals_without_a_slot_are_dropped_and_turns_that_are_due_take_theirs() {
    for cores in [1, 2] {
        let server = server(|options| options.ttft = Duration::from_millis(15));
        let run = scenario(&server, 3)
            .cores(cores)
            .phase(Phase::constant("load", 1_000.0).capped(3).dropping().sessions(12))
            .run();
        assert_eq!(run.counts("load").sent, 36);
        let books = Books::complete(&run, &server);
        let sessions = sessions(&run, &books);
        assert_eq!(turn_counts(sessions.values()), [3; 12]);
        let open: Vec<(u64, u64)> = sessions.values().map(Session::span).collect();
        assert!(most_open(&open) <= 3);
        let mut numbers: Vec<u64> = run.records.iter().map(|record| record.metadata.session_num).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..36));
    }
}

#[test]
fn every_turn_takes_a_prefill_slot() {
    for cores in [1, 2] {
        let server = server(|options| options.ttft = Duration::from_millis(10));
        let run = scenario(&server, 4)
            .cores(cores)
            .phase(Phase::closed("load", 8).prefilling(2).sessions(16))
            .run();
        assert_eq!(run.counts("load").succeeded, 64);
        let books = Books::complete(&run, &server);
        assert_eq!(turn_counts(sessions(&run, &books).values()), [4; 16]);
        let prefills: Vec<(u64, u64)> = run
            .records
            .iter()
            .map(|record| {
                let start = record.metadata.request_start_ns;
                (
                    start,
                    start
                        + record
                            .metric_ns("time_to_first_token")
                            .expect("a stream has a first token"),
                )
            })
            .collect();
        assert!(most_open(&prefills) <= 2);
    }
}

/// Answers each request with a text that no encoding survives by luck, the number of its messages in it, in pieces that split it anywhere.
fn serve_odd_texts(mut client: Client<'_>, bodies: &Mutex<Vec<Value>>) {
    while let Some(request) = client.request() {
        let body: Value = serde_json::from_slice(&request.body).expect("the body is JSON");
        let count = body["messages"].as_array().expect("a list").len();
        bodies.lock().expect("no reader panicked").push(body);
        let pieces = [
            &format!("{count}: "),
            r#"\"\\ \n\t\u0007 \/"#,
            "é日本",
            r"\ud83d\ude00 ",
            "{[",
            r"\u00e9",
        ];
        let delta = |delta: &str| {
            format!(r#"data: {{"object":"chat.completion.chunk","choices":[{{"index":0,"delta":{delta}}}]}}{END}"#)
        };
        let mut stream = delta(r#"{"reasoning_content":"not said aloud"}"#);
        pieces
            .iter()
            .for_each(|piece| stream.push_str(&delta(&format!(r#"{{"content":"{piece}"}}"#))));
        stream.push_str("data: [DONE]\n\n");
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream";
        if !client.send(format!("{head}\r\ncontent-length: {}\r\n\r\n{stream}", stream.len())) {
            return;
        }
    }
}

const END: &str = "\n\n";

#[test]
fn answers_of_any_text_come_back_as_they_were_said_without_their_reasoning() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&bodies);
    let server = ScriptedServer::new(move |client| serve_odd_texts(client, &theirs));
    let run = Scenario::new(server.address())
        .turns(LengthDistribution::Fixed(3))
        .phase(Phase::closed("load", 1).sessions(1))
        .run();
    assert_eq!(run.ended(Ending::Succeeded), 3);
    let bodies = bodies.lock().expect("no reader panicked");
    let last = bodies[2]["messages"].as_array().expect("a list");
    let said = |count: usize| format!("{count}: \"\\ \n\t\u{7} /é日本\u{1F600} {{[é");
    assert_eq!(last.len(), 5);
    assert_eq!(last[1], json!({"role": "assistant", "content": said(1)}));
    assert_eq!(last[3], json!({"role": "assistant", "content": said(3)}));
    assert_eq!(bodies[1]["messages"].as_array().expect("a list")[..], last[..3]);
}

#[test]
fn sessions_of_a_seamless_successor_fit_beside_the_turns_that_are_left() {
    let server = server(|options| options.ttft = Duration::from_millis(60));
    let run = scenario(&server, 6)
        .cores(2)
        .phase(Phase::closed("a", 6).requests(16))
        .phase(Phase::closed("b", 6).sessions(6).seamless())
        .run();
    assert_eq!((run.counts("a").sent, run.counts("b").sent), (16, 36));
    assert!(most_open(&spans(&run.records)) <= 6);
    Books::complete(&run, &server);
}
