//! Recorded traces end to end: what a config does to their times and lengths reaches the wire, by file and by flags.

use ringload_tests::books::Books;
use ringload_tests::sessions::sessions;
use ringload_tests::{Record, Run, configured, mock};

const MS: u64 = 1_000_000;

/// The turns of a session, in order.
fn turns<'r>(run: &'r Run, phase: &str, session: &str) -> Vec<&'r Record> {
    let mut records = run.records_of(phase);
    records.retain(|record| record.metadata.conversation_id == session);
    records.sort_by_key(|record| record.metadata.turn_index);
    records
}

#[test]
fn delays_that_are_capped_or_ignored_do_not_hold_turns_back() {
    // Ten minutes between turns: with any of it left, the run would not end in time.
    let records = "format: multi_turn, records: [{session_id: a, turns: [{text: one}, {text: two, delay: 600000}, {text: three, delay: 40}]}]";
    let phases = "  phases: [{name: load, kind: profiling, type: concurrency, sessions: 1}]\n";
    for (more, pauses) in [
        ("inter_turn_delay_cap_seconds: 0.12", [120, 40]),
        ("ignore_trace_delays: true", [0, 0]),
    ] {
        let server = mock(|options| options.keep_messages = true);
        let run = configured::run(
            server.address(),
            1,
            &format!("  dataset: {{type: file, {more}, {records}}}\n{phases}"),
        );
        let books = Books::complete(&run, &server);
        assert_eq!(sessions(&run, &books).len(), 1, "with its history");
        let turns = turns(&run, "load", "a");
        assert_eq!(turns.len(), 3);
        for (pair, pause) in turns.windows(2).zip(pauses) {
            let due = pair[0].metadata.request_end_ns + pause * MS;
            // Times of records are on the wall clock, converted one by one.
            let intended = pair[1].ringload.intended_start_ns;
            assert!(intended.abs_diff(due) < MS, "{more}: {intended} for {due}");
        }
    }
}
