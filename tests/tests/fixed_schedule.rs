//! Fixed schedules end to end: requests start at the timestamps of their dataset, whatever the server does. Scenario 60 with its times divided by
//! ten: timestamps of 100, 100, 150 and 400 ms.

use std::collections::BTreeMap;
use std::time::Duration;

use ringload_tests::books::{Books, spans};
use ringload_tests::configured;
use ringload_tests::sessions::sessions;
use ringload_tests::statistics::most_open;
use ringload_tests::{Record, Run, mock};
use serde_json::Value;

const MS: u64 = 1_000_000;

const DATASET: &str = "  dataset:\n    type: file\n    records:\n      - {text: a, session_id: a, timestamp: 100}\n      - {text: b, session_id: b, \
                       timestamp: 100}\n      - {text: c, session_id: c, timestamp: 150}\n      - {text: d, session_id: d, timestamp: 400}\n";

fn phase(fields: &str) -> String {
    format!("{DATASET}  phases:\n    - {{name: replay, kind: profiling, type: fixed_schedule{fields}}}\n")
}

/// Requests in the order of the schedule.
fn scheduled(run: &Run) -> Vec<&Record> {
    let mut records = run.records_of("replay");
    records.sort_by_key(|record| record.metadata.session_num);
    records
}

/// What was sent, and when the schedule wanted it, in milliseconds from the start of the phase. Nothing may start before its time.
fn sent(run: &Run) -> Vec<(String, u64)> {
    let start = run.phase("replay").start_ns;
    let due = |record: &Record| {
        let intended = record.ringload.intended_start_ns;
        assert!(record.metadata.request_start_ns >= intended, "{record:?}");
        assert_eq!((intended - start) % MS, 0, "{record:?}");
        (record.metadata.conversation_id.clone(), (intended - start) / MS)
    };
    scheduled(run).into_iter().map(due).collect()
}

fn wanted(starts: &[(&str, u64)]) -> Vec<(String, u64)> {
    starts.iter().map(|&(id, due)| (id.to_owned(), due)).collect()
}

fn figure(run: &Run, path: &str) -> f64 {
    let summary = run.summary("replay");
    let value = summary.pointer(path).unwrap_or(&Value::Null);
    value.as_f64().unwrap_or_else(|| panic!("{path} is {value}"))
}

#[test]
fn s60_every_entry_is_sent_once_at_its_timestamp_on_any_number_of_cores() {
    for cores in [1, 2] {
        let server = mock(|_| {});
        let run = configured::run(server.address(), cores, &phase(""));
        assert_eq!(
            sent(&run),
            wanted(&[("a", 0), ("b", 0), ("c", 50), ("d", 300)]),
            "{cores} cores"
        );
        assert_eq!(figure(&run, "/ringload/arrivals_unsent"), 0.0);
        Books::complete(&run, &server);
    }
}

#[test]
fn later_turns_follow_their_timestamps_then_their_delays_and_never_their_predecessors_return() {
    let dataset = "  dataset:\n    type: file\n    format: multi_turn\n    records:\n      - {session_id: a, turns: [{text: one, timestamp: 100}, \
                   {text: two, timestamp: 350}, {text: three, delay: 60}]}\n      - {session_id: b, turns: [{text: one, timestamp: 150}, \
                   {text: two, timestamp: 151}]}\n";
    let phases = "  phases:\n    - {name: replay, kind: profiling, type: fixed_schedule}\n";
    for cores in [1, 2] {
        let server = mock(|options| {
            options.keep_messages = true;
            options.ttft = Duration::from_millis(40);
        });
        let run = configured::run(server.address(), cores, &format!("{dataset}{phases}"));
        assert_eq!(run.counts("replay").sent, 5);
        let start = run.phase("replay").start_ns;
        let of = |session: &str| {
            let mut records = run.records_of("replay");
            records.retain(|record| record.metadata.conversation_id == session);
            records.sort_by_key(|record| record.metadata.turn_index);
            records
        };
        let due = |record: &Record| record.ringload.intended_start_ns - start;
        let (a, b) = (of("a"), of("b"));
        assert_eq!((due(a[0]), due(a[1]) / MS, due(b[0]) / MS), (0, 250, 50));
        assert!(due(a[2]) + 1_000 >= a[1].metadata.request_end_ns - start + 60 * MS);
        assert!(due(b[1]) + 1_000 >= 51 * MS && b[1].metadata.request_start_ns >= b[0].metadata.request_end_ns);
        let books = Books::complete(&run, &server);
        assert_eq!(sessions(&run, &books).len(), 2, "with their histories");
    }
}

#[test]
fn turns_that_say_everything_themselves_carry_no_history() {
    let dataset = "  dataset:\n    type: file\n    records:\n      - {session_id: a, text: one}\n      - {session_id: a, text: two}\n";
    let phases = "  phases:\n    - {name: replay, kind: profiling, type: concurrency, sessions: 3}\n";
    let server = mock(|options| options.keep_messages = true);
    let run = configured::run(server.address(), 1, &format!("{dataset}{phases}"));
    assert_eq!(run.counts("replay").sent, 6);
    let books = Books::complete(&run, &server);
    for (record, entry) in &books.matched {
        let messages = entry.messages.as_ref().expect("the server keeps them");
        let said: Vec<&str> = messages.iter().map(|message| message.content.as_str()).collect();
        assert_eq!(said, [["one", "two"][record.metadata.turn_index as usize]]);
    }
}

#[test]
fn s60_offsets_choose_a_part_and_its_beginning() {
    let server = mock(|_| {});
    let run = configured::run(server.address(), 1, &phase(", auto_offset: false, start_offset: 120"));
    assert_eq!(sent(&run), wanted(&[("c", 30), ("d", 280)]));
    let server = mock(|_| {});
    let run = configured::run(server.address(), 1, &phase(", end_offset: 150"));
    assert_eq!(sent(&run), wanted(&[("a", 0), ("b", 0), ("c", 50)]));
}

#[test]
fn s60_under_a_cap_entries_wait_in_order_and_none_is_lost() {
    let server = mock(|options| options.ttft = Duration::from_millis(200));
    let run = configured::run(server.address(), 1, &phase(", concurrency: 1"));
    assert_eq!(sent(&run), wanted(&[("a", 0), ("b", 0), ("c", 50), ("d", 300)]));
    let books = Books::complete(&run, &server);
    let order: Vec<&str> = books
        .matched
        .iter()
        .map(|(record, _)| record.metadata.conversation_id.as_str())
        .collect();
    assert_eq!(order, ["a", "b", "c", "d"]);
    assert_eq!(most_open(&spans(&run.records)), 1);
    // The fourth is due at 300 ms and waits for three answers of at least 200 ms each.
    assert!(figure(&run, "/ringload/send_lag/max") >= 299.0);
    // The first starts almost at its time, so the lag that counts from it is nearly as large.
    assert!(figure(&run, "/replay_sched_lag_p99/avg") >= 200.0);
    assert_eq!(figure(&run, "/replay_sched_degraded/avg"), 0.0);
}

#[test]
fn s60_a_duration_leaves_out_what_is_due_later_or_finds_no_slot() {
    let server = mock(|_| {});
    let run = configured::run(server.address(), 1, &phase(", duration: 0.25"));
    // The fourth is due at 300 ms and does not exist. A machine that sleeps through the end of the phase can make the others late, but not vanish.
    let (sent_in_time, unsent) = (sent(&run), figure(&run, "/ringload/arrivals_unsent"));
    assert!(
        wanted(&[("a", 0), ("b", 0), ("c", 50)]).starts_with(&sent_in_time),
        "{sent_in_time:?}"
    );
    assert_eq!(sent_in_time.len() as f64 + unsent, 3.0);

    let server = mock(|options| options.ttft = Duration::from_millis(500));
    let run = configured::run(server.address(), 1, &phase(", duration: 0.25, concurrency: 2"));
    assert_eq!(sent(&run), wanted(&[("a", 0), ("b", 0)]));
    assert_eq!(
        figure(&run, "/ringload/arrivals_unsent"),
        1.0,
        "the third was due and found no slot"
    );
    Books::complete(&run, &server);
}

#[test]
fn a_thousand_entries_are_each_sent_once_whatever_the_order_of_the_file() {
    // 7 is prime to 1000, so every timestamp from 0 to 999 tenths of a millisecond occurs once.
    let records: String = (0..1000u64)
        .map(|k| {
            format!(
                "      - {{text: x, session_id: s{k}, timestamp: {}}}\n",
                (k * 7 % 1000) as f64 / 2.0
            )
        })
        .collect();
    let server = mock(|_| {});
    let sections = format!(
        "  dataset:\n    type: file\n    records:\n{records}  phases:\n    - {{name: replay, kind: profiling, type: fixed_schedule}}\n"
    );
    let run = configured::run(server.address(), 2, &sections);
    let start = run.phase("replay").start_ns;
    let due: BTreeMap<u64, &str> = scheduled(&run)
        .into_iter()
        .map(|record| {
            (
                record.ringload.intended_start_ns - start,
                record.metadata.conversation_id.as_str(),
            )
        })
        .collect();
    let expected: BTreeMap<u64, String> = (0..1000u64).map(|k| (k * 7 % 1000 * MS / 2, format!("s{k}"))).collect();
    assert_eq!(due, expected.iter().map(|(at, id)| (*at, id.as_str())).collect());
    Books::complete(&run, &server);
}

#[test]
fn later_turns_follow_their_timestamps_else_their_delays_and_the_return_before_them() {
    let server = mock(|options| options.ttft = Duration::from_millis(60));
    for cores in [1, 2] {
        let run = configured::run(
            server.address(),
            cores,
            "  dataset:\n    type: file\n    format: multi_turn\n    records:\n      - {session_id: x, turns: [{text: a, timestamp: 100}, {text: b, timestamp: \
             400, delay: 5000}, {text: c, delay: 50}, {text: d}]}\n      - {session_id: y, turns: [{text: e, timestamp: 100}, {text: f, timestamp: 110}]}\n  \
             phases: [{name: replay, kind: profiling, type: fixed_schedule}]\n",
        );
        assert_eq!(run.counts("replay").succeeded, 6);
        let start = run.phase("replay").start_ns;
        let turn = |session: &str, turn: u64| {
            let records = run.records_of("replay");
            let is_it =
                |record: &&&Record| record.metadata.conversation_id == session && record.metadata.turn_index == turn;
            records.iter().find(is_it).copied().cloned().expect("it was sent")
        };
        let intended = |session: &str, number: u64| turn(session, number).ringload.intended_start_ns;
        let ended = |session: &str, number: u64| turn(session, number).metadata.request_end_ns;
        assert_eq!((intended("x", 0), intended("y", 0)), (start, start));
        // A timestamp is on the clock of the first and wins over the delay. A turn before that returns later makes it late, and does not move it.
        assert_eq!(intended("x", 1), start + 300 * MS);
        assert!(intended("x", 2) >= ended("x", 1) + 50 * MS);
        assert!(intended("x", 3) >= ended("x", 2));
        assert!(
            turn("y", 1).metadata.request_start_ns >= ended("y", 0),
            "a session says one thing at a time"
        );
        assert_eq!(intended("y", 1), start + 10 * MS);
    }
}

#[test]
fn a_duration_cuts_sessions_between_their_turns() {
    let server = mock(|_| {});
    let run = configured::run(
        server.address(),
        1,
        "  dataset:\n    type: file\n    format: multi_turn\n    records:\n      - {session_id: x, turns: [{text: a, timestamp: 0}, {text: b, timestamp: 60000}]}\n  \
         phases: [{name: replay, kind: profiling, type: fixed_schedule, duration: 0.5}]\n",
    );
    assert_eq!(run.counts("replay").sent, 1);
}
