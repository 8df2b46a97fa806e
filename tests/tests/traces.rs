//! Recorded traces end to end: what a config does to their times and lengths reaches the wire, by file and by flags.

use ringload_tests::books::Books;
use ringload_tests::program::{Workplace, config, phase};
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

/// Three requests of a trace: two share their first block, and the last one is due late.
const TRACE: &str = "    records:\n      - {session_id: a, timestamp: 100, input_length: 10, hash_ids: [1, 2, 3], output_length: 4}\n      \
                     - {session_id: b, timestamp: 220, input_length: 12, hash_ids: [1, 4, 5], output_length: 8}\n      \
                     - {session_id: c, timestamp: 500, input_length: 30, output_length: 6}\n";

fn trace(changes: &str) -> String {
    format!(
        "  dataset:\n    type: file\n    format: mooncake_trace\n    block_size: 4\n    synthesis: {{{changes}}}\n{TRACE}"
    )
}

#[test]
fn a_trace_at_another_speed_is_sent_in_its_order_at_its_scaled_times() {
    for (speed, due) in [("2", [0, 60, 200]), ("0.8", [0, 150, 500])] {
        let server = mock(|_| {});
        let sections = format!(
            "{}  phases: [{{name: replay, kind: profiling, type: fixed_schedule}}]\n",
            trace(&format!("speedup_ratio: {speed}"))
        );
        let run = configured::run(server.address(), 1, &sections);
        let start = run.phase("replay").start_ns;
        for (session, due) in ["a", "b", "c"].into_iter().zip(due) {
            let turns = turns(&run, "replay", session);
            let [record] = turns[..] else {
                panic!("{session} was sent {} times", turns.len())
            };
            assert_eq!(
                record.ringload.intended_start_ns - start,
                due * MS,
                "{session} at {speed}"
            );
            assert!(record.metadata.request_start_ns >= record.ringload.intended_start_ns);
        }
        // By the clock of the server: nothing came sooner after the first than the schedule says, give or take what the first was late.
        let books = Books::complete(&run, &server);
        let order: Vec<&str> = books
            .matched
            .iter()
            .map(|(record, _)| record.metadata.conversation_id.as_str())
            .collect();
        assert_eq!(order, ["a", "b", "c"]);
        assert_eq!(run.counts("replay").succeeded, 3);
    }
}

/// Words of the prompt and tokens of the answer, in the order in which the server saw them, and the prompts.
fn seen(server: &ringload_mock_server::MockServer) -> (Vec<(u64, u32)>, Vec<String>) {
    let mut entries = server.ledger();
    entries.sort_by_key(|entry| entry.prompt_words);
    let text = |entry: &ringload_mock_server::LedgerEntry| {
        let messages = entry.messages.as_ref().expect("the server keeps them");
        messages[0].content.clone()
    };
    (
        entries
            .iter()
            .map(|entry| (entry.prompt_words, entry.tokens_sent))
            .collect(),
        entries.iter().map(text).collect(),
    )
}

#[test]
fn lengths_of_a_trace_change_on_the_wire_and_what_is_shared_stays_shared() {
    let phases = "  phases: [{name: load, kind: profiling, type: concurrency, sessions: 3}]\n";
    let sent = |changes: &str| {
        let server = mock(|options| {
            options.osl = None;
            options.keep_messages = true;
        });
        let sections = format!("{}{phases}", trace(changes));
        configured::run(server.address(), 1, &sections);
        seen(&server)
    };
    let common = |texts: &[String]| -> usize {
        let words = |at: usize| texts[at].split(' ').collect::<Vec<_>>();
        words(0).iter().zip(words(1)).take_while(|(a, b)| **a == *b).count()
    };
    let (lengths, texts) = sent("");
    assert_eq!(lengths, [(10, 4), (12, 8), (30, 6)]);
    assert_eq!(common(&texts), 4);
    let (lengths, texts) = sent("prompt_len_multiplier: 1.5, output_len_multiplier: 0.5");
    assert_eq!(lengths, [(13, 2), (16, 4), (45, 3)]);
    assert_eq!(common(&texts), 4);
    let (lengths, texts) = sent("prefix_len_multiplier: 3, max_osl: 5");
    assert_eq!(lengths, [(18, 4), (20, 5), (30, 5)]);
    assert_eq!(common(&texts), 12);
}

#[test]
fn flags_change_a_trace_as_the_file_does() {
    let workplace = Workplace::new("");
    let records = [
        r#"{"timestamp": 0, "input_length": 10, "hash_ids": [1, 2], "output_length": 4}"#,
        r#"{"timestamp": 30, "input_length": 16, "hash_ids": [1, 3], "output_length": 8}"#,
        r#"{"timestamp": 99000000, "input_length": 900, "output_length": 8}"#,
    ];
    std::fs::write(workplace.path("trace.jsonl"), records.join("\n")).expect("a file");
    let flags = [
        "--synthesis-max-isl",
        "100",
        "--synthesis-max-osl",
        "6",
        "--synthesis-prompt-len-multiplier",
        "2",
        "--synthesis-output-len-multiplier",
        "0.5",
    ];
    let dataset = "--input-file trace.jsonl --custom-dataset-type mooncake_trace --isl-block-size 8 --num-prompts 9";
    for times in [
        &["--synthesis-speedup-ratio", "3"][..],
        &["--ignore-trace-delays", "--request-count", "2"],
    ] {
        let server = mock(|options| {
            options.osl = None;
            options.keep_messages = true;
        });
        let url = server.url();
        let mut words = vec![
            "profile",
            "--model",
            "mock-model",
            "--url",
            &url,
            "--ui",
            "none",
            "--cores",
            "1",
            "--streaming",
        ];
        words.extend(["--artifact-dir", "results", "--overwrite"]);
        words.extend(dataset.split(' ').chain(flags).chain(times.iter().copied()));
        workplace.run(&words).expect(0);
        // 8 words are shared; 2 and 8 are not, and become twice as many. Answers are cut before and after they are halved.
        let (lengths, texts) = seen(&server);
        assert_eq!(lengths, [(12, 2), (24, 3)], "{times:?}");
        assert_eq!(
            texts[0].split(' ').take(8).collect::<Vec<_>>(),
            texts[1].split(' ').take(8).collect::<Vec<_>>()
        );
        let config = &workplace.root()["input_config"];
        let kind = if times.len() == 2 {
            "fixed_schedule"
        } else {
            "concurrency"
        };
        assert_eq!(config["phases"][0]["type"], kind);
        assert_eq!(config["datasets"][0]["synthesis"]["max_isl"], 100);
    }
}

#[test]
fn times_on_the_wire_have_tables_of_their_own_on_the_console() {
    let server = mock(|options| options.ttft = std::time::Duration::from_millis(30));
    let text = |artifacts: &str, sweep: &str| {
        let phases = phase("warmup", "requests: 1") + &phase("load", "requests: 3");
        config(&server.url(), &phases).replace("dir: ./results", artifacts) + sweep
    };
    let titles = |stdout: &str| -> Vec<String> {
        let lines = stdout.lines().filter(|line| line.contains("HTTP trace timing"));
        lines.map(str::to_owned).collect()
    };
    let shown = Workplace::new(&text("dir: results, show_trace_timing: true", ""));
    let ended = shown.profile(&[]).expect(0);
    assert_eq!(
        titles(&ended.stdout),
        [
            "HTTP trace timing, warmup (warmup)",
            "HTTP trace timing, load (profiling)"
        ]
    );
    // What the console says is what the artifacts say.
    let waiting = &shown.root()["http_req_waiting"];
    let average = waiting["avg"].as_f64().expect("it is measured without traces too");
    let row = ended
        .stdout
        .lines()
        .rev()
        .find(|line| line.contains("HTTP Waiting (TTFB) (ms)"));
    let figure = row.and_then(|row| {
        row.rsplit("(ms)")
            .next()?
            .split_whitespace()
            .next()?
            .parse::<f64>()
            .ok()
    });
    assert!(
        figure.is_some_and(|figure| (figure - average).abs() < 0.006),
        "{average} in {row:?}"
    );
    let lines = std::fs::read_to_string(shown.path("results/profile_export.jsonl")).expect("records");
    assert!(!lines.contains("trace_data"));
    assert_eq!(shown.root()["input_config"]["artifacts"]["show_trace_timing"], true);

    let hidden = Workplace::new(&text("dir: results", ""));
    assert!(titles(&hidden.profile(&[]).expect(0).stdout).is_empty());
    let by_flag = hidden.profile(&["--show-trace-timing", "--overwrite"]).expect(0);
    assert_eq!(titles(&by_flag.stdout).len(), 2);
    let sweep = Workplace::new(&text(
        "dir: results, show_trace_timing: true",
        "sweep: {type: grid, parameters: {phases.load.concurrency: [1, 2]}}\n",
    ));
    let cells = titles(&sweep.profile(&[]).expect(0).stdout);
    assert!(
        cells.len() == 4 && cells[0].starts_with("cell ") && cells[0].ends_with(": HTTP trace timing, warmup (warmup)"),
        "{cells:?}"
    );
}
