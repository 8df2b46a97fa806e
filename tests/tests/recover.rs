//! Runs that die, and their results from the journal: nothing is made up, and no more is missing than the last moments.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ringload_engine::clock;
use ringload_mock_server::{LedgerEntry, MockServer};
use ringload_tests::cells::{REQUESTS, faulty as fault_of_cell, scenarios};
use ringload_tests::program::{Ended, Program, Workplace, config, phase};
use ringload_tests::run::{PhaseEntry, read_manifest};
use ringload_tests::server::faulty;
use ringload_tests::statistics::{mean, percentile};
use ringload_tests::{Ending, Record, binary, cells, eventually, mock};
use serde_json::Value;

const JOURNAL: &str = "results/ringload.journal";
/// Requests that ended longer before the death than this are in the journal. The bound of the documents is two seconds; the rest is for a machine that
/// lets the client wait for its processor.
const TAIL: Duration = Duration::from_secs(6);

/// A run that was killed, and when.
struct Killed {
    workplace: Workplace,
    at_ns: u64,
}

/// Kills a program once `when` holds.
fn kill(workplace: Workplace, program: Program, when: impl FnMut() -> bool) -> Killed {
    eventually("the moment to die", when);
    let at_ns = clock::monotonic().0;
    program.signal("KILL");
    assert_eq!(program.end().code, None, "a signal ended it");
    assert!(!workplace.path("results/profile_export_aiperf.json").exists());
    Killed { workplace, at_ns }
}

impl Killed {
    fn recover(&self, more: &[&str]) -> Ended {
        self.workplace.run(&[&["recover", "results"], more].concat())
    }

    fn journal(&self) -> Vec<u8> {
        fs::read(self.workplace.path(JOURNAL)).expect("a journal")
    }
}

fn json(path: &Path) -> Value {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn records(directory: &Path) -> Vec<Record> {
    Record::read_all(&directory.join("profile_export.jsonl"))
}

/// What holds of all recovered results.
fn assert_marked(root: &Value) {
    assert_eq!(root["is_complete"], false);
    let reason = root["incomplete_reason"].as_str().expect("a reason");
    assert!(
        reason.starts_with("recovered from the journal after the process died"),
        "{reason}"
    );
    assert!(root["ringload"]["recovered"].is_object(), "{root:#}");
}

/// Asserts that a document's figures are those of these records.
fn assert_figures(document: &Value, records: &[&Record]) {
    let succeeded: Vec<&&Record> = records
        .iter()
        .filter(|record| record.ending() == Ending::Succeeded)
        .collect();
    let counts = &document["ringload"];
    assert_eq!(counts["sent"], records.len());
    assert_eq!(counts["succeeded"], succeeded.len());
    let figure = |tag: &str, key: &str| document[tag][key].as_f64();
    assert_eq!(
        figure("request_count", "avg"),
        (!succeeded.is_empty()).then_some(succeeded.len() as f64)
    );
    for tag in ["request_latency", "time_to_first_token", "output_sequence_length"] {
        let values: Vec<f64> = succeeded.iter().filter_map(|record| record.metric(tag)).collect();
        if values.is_empty() {
            assert_eq!(figure(tag, "avg"), None);
            continue;
        }
        for (key, expected) in [
            ("avg", mean(&values)),
            ("p50", percentile(&values, 50.0)),
            ("p99", percentile(&values, 99.0)),
        ] {
            let found = figure(tag, key).expect("a figure");
            assert!(
                (found - expected).abs() < 1e-6 * expected.abs(),
                "{tag} {key}: {found}, not {expected}"
            );
        }
    }
}

/// Asserts that all figures agree with the records, and the records with what the server saw.
fn assert_books(killed: &Killed, ledger: &[LedgerEntry]) -> Vec<Record> {
    let directory = killed.workplace.path("results");
    let records = records(&directory);
    let known: HashSet<&str> = ledger.iter().filter_map(|entry| entry.request_id.as_deref()).collect();
    let mut found = HashSet::new();
    for record in &records {
        let id = record.metadata.x_request_id.as_str();
        assert!(known.contains(id), "the server never saw {record:?}");
        assert!(found.insert(id), "twice: {record:?}");
    }
    let lost: Vec<&LedgerEntry> = ledger
        .iter()
        .filter(|entry| entry.request_id.as_deref().is_some_and(|id| !found.contains(id)))
        .filter(|entry| {
            entry
                .last_byte_ns
                .is_some_and(|end| end + TAIL.as_nanos() as u64 <= killed.at_ns)
        })
        .collect();
    assert!(lost.is_empty(), "{} are lost, one of them: {:?}", lost.len(), lost[0]);
    let root = json(&directory.join("profile_export_aiperf.json"));
    assert_marked(&root);
    assert_eq!(root["ringload"]["recovered"]["requests"], records.len());
    let of_kind = |kind: &str| {
        records
            .iter()
            .filter(|record| record.metadata.phase_kind == kind)
            .collect::<Vec<_>>()
    };
    assert_figures(&root, &of_kind("profiling"));
    for PhaseEntry {
        phase_name,
        metrics_json,
        total_request_count,
        ..
    } in read_manifest(&directory)
    {
        let of_phase: Vec<&Record> = records
            .iter()
            .filter(|record| record.metadata.phase_name == phase_name)
            .collect();
        assert_eq!(total_request_count as usize, of_phase.len());
        assert_figures(&json(&directory.join(metrics_json)), &of_phase);
    }
    let ready = json(&directory.join(".aiperf_results_ready.json"));
    assert_eq!((&ready["ready"], &ready["partial"]), (&true.into(), &true.into()));
    records
}

/// A run of two phases that is killed in the second.
fn killed_in_the_second_phase(server: &MockServer, flags: &[&str]) -> Killed {
    let phases = phase("warmup", "concurrency: 2, requests: 6")
        + &phase("first", "concurrency: 4, requests: 40")
        + &phase("second", "concurrency: 4, duration: 10m")
        + &phase("third", "concurrency: 1, requests: 1");
    let workplace = Workplace::new(&config(&server.url(), &phases));
    let arguments = [&["profile", "--config", "test.yaml", "--ui", "none"], flags].concat();
    let program = Program::start(workplace.command(&arguments));
    kill(workplace, program, || server.counters().requests > 1_500)
}

#[test]
fn a_run_that_is_killed_is_recovered_with_either_driver() {
    for flags in [
        ["--driver", "auto", "--cores", "1"],
        ["--driver", "epoll", "--cores", "2"],
    ] {
        let server = mock(|_| {});
        let killed = killed_in_the_second_phase(&server, &flags);
        let ended = killed.recover(&[]).expect(0);
        let records = assert_books(&killed, &server.ledger());
        assert!(records.len() > 46, "{} records", records.len());
        assert!(
            ended
                .stdout
                .starts_with(&format!("{} requests recovered from ", records.len())),
            "{}",
            ended.stdout
        );
        for line in ["phase second was under way", "phase third had not begun"] {
            assert!(ended.stdout.contains(line), "{}", ended.stdout);
        }
        let phases = read_manifest(&killed.workplace.path("results"));
        let names: Vec<&str> = phases.iter().map(|phase| phase.phase_name.as_str()).collect();
        assert_eq!(names, ["warmup", "first", "second"]);
        let [warmup, first, second] = &phases[..] else {
            unreachable!()
        };
        assert_eq!(
            (warmup.total_request_count, first.total_request_count),
            (6, 40),
            "what ended is whole"
        );
        assert!(warmup.end_ns.is_some() && first.end_ns.is_some() && !first.was_cancelled);
        assert!(second.end_ns.is_none() && second.was_cancelled);
        let root = killed.workplace.root();
        assert_eq!(root["was_cancelled"], true);
        if flags[1] == "epoll" {
            assert_eq!(root["ringload"]["driver"], "epoll");
        }
        let facts = |phase: &PhaseEntry| json(&killed.workplace.path("results").join(&phase.metrics_json));
        assert_eq!(facts(first)["is_complete"], true);
        assert_eq!(facts(first)["ringload"]["stop_reason"], "requests");
        assert_eq!(facts(second)["is_complete"], false);
        assert!(facts(second)["ringload"]["send_lag"]["avg"].is_number());
    }
}

#[test]
fn a_slow_run_loses_seconds_and_not_an_hour() {
    // Blocks hold hundreds of records: without a bound on their age, none of these would be there.
    let server = mock(|_| {});
    let load = "    - {name: load, kind: profiling, type: constant, rate: 5, duration: 10m}\n";
    let workplace = Workplace::new(&config(&server.url(), load));
    let program = workplace.start_profile(&[]);
    let start = clock::monotonic();
    let killed = kill(workplace, program, || {
        clock::monotonic().since(start).as_secs_f64() > 9.0
    });
    killed.recover(&[]).expect(0);
    let records = assert_books(&killed, &server.ledger());
    assert!(records.len() >= 5, "{} records", records.len());
}

#[test]
fn failures_have_their_texts() {
    let server = faulty("status:503");
    let workplace = Workplace::new(&config(&server.url(), &phase("load", "concurrency: 2, duration: 10m")));
    let program = workplace.start_profile(&[]);
    let journal = workplace.path(JOURNAL);
    let killed = kill(workplace, program, || {
        fs::metadata(&journal).is_ok_and(|journal| journal.len() > 100_000)
    });
    killed.recover(&[]).expect(0);
    let records = assert_books(&killed, &server.ledger());
    let errors: HashSet<(Option<u16>, &str)> = records
        .iter()
        .filter_map(|record| record.error.as_ref())
        .map(|error| (error.code, error.kind.as_str()))
        .collect();
    assert_eq!(errors, [(Some(503), "Service Unavailable")].into());
    let summary = &killed.workplace.root()["error_summary"];
    assert_eq!(summary[0]["error_details"]["code"], 503);
    assert_eq!(summary[0]["count"], records.len());
}

#[test]
fn s65_the_second_signal_names_the_way_to_the_results() {
    // The first one waits for the profiler's answer for some seconds: time for a second one.
    let server = mock(|_| {});
    let hook = "type: chat\n    server_profiler: {start_path: \"/start_profile?fault=hang\"}\n";
    let phases = phase("warmup", "concurrency: 1, requests: 5") + &phase("profiling", "concurrency: 3, duration: 10m");
    let text = config(&server.url(), &phases).replace("type: chat\n", hook);
    let workplace = Workplace::new(&text.replace("./results", "./it's results"));
    let program = workplace.start_profile(&[]);
    eventually("the start of the profiler", || server.counters().start_profile == 1);
    // The core hands over what it holds by itself; a copy of the journal tells when that is written.
    let copy = workplace.path("copy");
    eventually("the records of the warmup", || {
        let _ = fs::remove_dir_all(&copy);
        fs::create_dir(&copy).expect("a directory");
        fs::copy(
            workplace.path("it's results/ringload.journal"),
            copy.join("ringload.journal"),
        )
        .expect("a copy");
        let recovered = workplace.run(&["recover", "copy"]);
        recovered.stdout.starts_with("5 requests recovered from ")
    });
    program.signal("INT");
    eventually("the note on the first signal", || {
        program.said("a second signal exits at once")
    });
    program.signal("INT");
    let ended = program.end().expect(130);
    let lines: Vec<&str> = ended
        .stderr
        .lines()
        .filter(|line| line.contains("ringload recover"))
        .collect();
    let [line] = lines[..] else {
        panic!("one line expected: {}", ended.stderr)
    };
    let (_, command) = line.split_once(": ").expect("words, then the command");
    let words = command.strip_prefix("ringload ").expect("a command of ringload");
    // The shell reads the path back, whatever is in it.
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("\"$0\" {words}")]).arg(binary::ringload());
    let recovered = Program::start(shell).end().expect(0);
    assert!(
        recovered.stdout.starts_with("5 requests recovered from "),
        "{}",
        recovered.stdout
    );
    let root = json(&workplace.path("it's results/profile_export_aiperf.json"));
    assert_marked(&root);
    assert_eq!(records(&workplace.path("it's results")).len(), 5);
}

#[test]
fn a_run_that_lives_is_left_alone_and_a_dead_one_is_named() {
    let server = mock(|_| {});
    let workplace = Workplace::new(&config(&server.url(), &phase("load", "concurrency: 2, duration: 10m")));
    let program = workplace.start_profile(&[]);
    eventually("some load", || server.counters().requests > 20);
    let refused = workplace.run(&["recover", "results"]).expect(1);
    let owner = format!("(begun by process {})", program.id());
    assert!(
        refused.stderr.contains("under way") && refused.stderr.contains(&owner),
        "{}",
        refused.stderr
    );
    let second = workplace.profile(&["--overwrite"]).expect(2);
    assert!(second.stderr.contains("a run is under way in "), "{}", second.stderr);

    let killed = kill(workplace, program, || true);
    let refused = killed.workplace.profile(&[]).expect(2);
    let way = format!("ringload recover {}", killed.workplace.path("results").display());
    assert!(refused.stderr.contains(&way), "{}", refused.stderr);
    killed.recover(&[]).expect(0);

    // Twice is once too often, unless it is for another place.
    let again = killed.recover(&[]).expect(2);
    assert!(
        again.stderr.contains("holds the results of this run already"),
        "{}",
        again.stderr
    );
    killed.recover(&["--output-artifact-dir", "again"]).expect(0);
    let files = |name: &str| fs::read(killed.workplace.path(name)).expect("a file");
    for name in ["profile_export.jsonl", "inputs.json", "resolved_config.yaml"] {
        assert_eq!(
            files(&format!("results/{name}")),
            files(&format!("again/{name}")),
            "{name}"
        );
    }
    let occupied = killed.recover(&["--output-artifact-dir", "again"]).expect(2);
    assert!(occupied.stderr.contains("--overwrite"), "{}", occupied.stderr);
    killed
        .recover(&["--output-artifact-dir", "again", "--overwrite"])
        .expect(0);
    for place in ["results", "."] {
        let across = killed
            .recover(&["--output-artifact-dir", place, "--overwrite"])
            .expect(2);
        assert!(across.stderr.contains("leave the flag out"), "{}", across.stderr);
    }
    assert!(killed.workplace.path(JOURNAL).exists(), "the journal stays");
    let third = killed.workplace.profile(&[]).expect(2);
    assert!(!third.stderr.contains("ringload recover"), "{}", third.stderr);
}

#[test]
fn a_journal_cut_or_damaged_anywhere_gives_what_is_whole() {
    let server = mock(|_| {});
    let killed = killed_in_the_second_phase(&server, &["--cores", "1"]);
    let bytes = killed.journal();
    let place = killed.workplace.path("cut");
    let recover = |bytes: &[u8]| {
        let _ = fs::remove_dir_all(&place);
        fs::create_dir(&place).expect("a folder");
        fs::write(place.join("ringload.journal"), bytes).expect("a file");
        killed.workplace.run(&["recover", "cut"])
    };
    // Every byte is cut in the journal's own tests; here each cut is written out.
    let (mut last, mut nothing) = (0, 0);
    for cut in (0..bytes.len()).step_by(bytes.len() / 23).chain([bytes.len()]) {
        let ended = recover(&bytes[..cut]);
        match ended.code {
            Some(0) => {
                let found = records(&place);
                assert!(found.len() >= last, "cut at {cut}");
                last = found.len();
                let root = json(&place.join("profile_export_aiperf.json"));
                assert_marked(&root);
                let measured = found.iter().filter(|record| record.metadata.phase_kind == "profiling");
                assert_figures(&root, &measured.collect::<Vec<_>>());
            }
            Some(1) => {
                assert_eq!(last, 0, "cut at {cut}: {}", ended.stderr);
                nothing += 1;
            }
            other => panic!("cut at {cut}: {other:?} {}", ended.stderr),
        }
    }
    assert!(nothing > 0 && last > 46, "{nothing} {last}");
    let missing = |root: &Value| {
        root["ringload"]["recovered"]["missing_requests_at_least"]
            .as_u64()
            .expect("a count")
    };
    // The counts of the phase that was under way may be ahead of its records.
    let before = missing(&json(&place.join("profile_export_aiperf.json")));
    // A block of a phase that ended, all of it or on a busy machine a part: how many records are missing is known.
    let mut damaged = bytes.clone();
    damaged[second_block(&bytes) + 100] ^= 1;
    let ended = recover(&damaged).expect(0);
    let lost = last - records(&place).len();
    assert!((1..=40).contains(&lost), "{lost}");
    for line in [
        "left out: 1 block of the journal, damaged".to_owned(),
        format!("phase first: {lost} of its requests have no record"),
    ] {
        assert!(ended.stdout.contains(&line), "{}", ended.stdout);
    }
    let root = json(&place.join("profile_export_aiperf.json"));
    assert_eq!(missing(&root), before + lost as u64);
    let first = json(&place.join("phases/first/profile_export_aiperf.json"));
    assert_eq!(
        first["incomplete_reason"],
        format!("{lost} of its 40 requests have no record")
    );
}

/// Where the payload of the second block of records begins: behind the magic number, frames have a header of 16 bytes with kind and length.
fn second_block(journal: &[u8]) -> usize {
    let (mut at, mut blocks) = (8, 0);
    loop {
        let number = |from: usize, to: usize| {
            journal[from..to]
                .iter()
                .rev()
                .fold(0, |sum, &byte| sum << 8 | usize::from(byte))
        };
        blocks += usize::from(number(at, at + 2) == 0);
        if blocks == 2 {
            return at + 16;
        }
        at += 16 + number(at + 4, at + 8);
    }
}

#[test]
fn a_run_without_records_has_nothing_to_recover() {
    let server = mock(|_| {});
    let text = config(&server.url(), &phase("load", "concurrency: 2, duration: 10m"));
    let workplace = Workplace::new(&text.replace("{dir: ./results}", "{dir: ./results, records: false}"));
    let program = workplace.start_profile(&[]);
    let killed = kill(workplace, program, || server.counters().requests > 20);
    let ended = killed.recover(&[]).expect(1);
    assert!(
        ended
            .stderr
            .contains("the run kept no records (artifacts.records: false)"),
        "{}",
        ended.stderr
    );
}

#[test]
fn of_a_sweep_the_cell_that_died_is_recovered() {
    let server = cells::quick();
    let (good, slow) = (
        fault_of_cell(&server, "good", "interim"),
        fault_of_cell(&server, "slow", "hang"),
    );
    let workplace = Workplace::new(&cells::config(&server, &scenarios(&[good, slow])));
    let program = workplace.start_profile(&[]);
    let journal = workplace.path("results/slow/ringload.journal");
    let killed = kill(workplace, program, || {
        let text = fs::read(&journal).unwrap_or_default();
        text.windows(13).any(|window| window == b"phase_started") && server.counters().requests > REQUESTS as u64
    });
    let ended = killed.recover(&[]).expect(0);
    assert!(
        ended.stdout.contains("results/slow/ringload.journal") && ended.stdout.contains("phase p1 was under way"),
        "{}",
        ended.stdout
    );
    let [phase] = &read_manifest(&killed.workplace.path("results/slow"))[..] else {
        panic!("one phase had begun")
    };
    assert_eq!((phase.total_request_count, phase.end_ns), (0, None));
    let root = json(&killed.workplace.path("results/slow/profile_export_aiperf.json"));
    assert_marked(&root);
    assert_eq!(root["run_info"]["variation_label"], "slow");
    let finished = json(&killed.workplace.path("results/good/profile_export_aiperf.json"));
    assert_eq!(finished["is_complete"], true);
    // Of two nobody knows which is meant.
    for name in ["a", "b"] {
        let place = killed.workplace.path("results").join(name);
        fs::create_dir(&place).expect("a folder");
        fs::copy(
            killed.workplace.path("results/slow/ringload.journal"),
            place.join("ringload.journal"),
        )
        .expect("a copy");
    }
    let several = killed.recover(&[]).expect(2);
    assert!(
        several.stderr.contains("holds 2 journals; recover them one by one"),
        "{}",
        several.stderr
    );
}

#[test]
fn a_run_whose_disk_was_full_is_recovered_up_to_there() {
    let server = mock(|options| options.ttft = Duration::ZERO);
    let workplace = Workplace::new(&config(&server.url(), &phase("load", "concurrency: 4, duration: 10m")));
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -f 4096 && exec \"$@\"", "sh"])
        .arg(binary::ringload());
    command.args(["profile", "--config", "test.yaml", "--ui", "none", "--cores", "1"]);
    command.current_dir(workplace.folder());
    let program = Program::start(command);
    let journal = workplace.path(JOURNAL);
    // The limit is 2 MiB; when it is met, the journal gives half a megabyte back and stays as it is.
    let (mut most, mut length) = (0, 0);
    eventually("the full disk", || {
        length = fs::metadata(&journal).map_or(0, |journal| journal.len());
        most = most.max(length);
        length < most
    });
    let killed = kill(workplace, program, || true);
    assert_eq!(killed.journal().len() as u64, length);
    killed.recover(&[]).expect(0);
    let records = records(&killed.workplace.path("results"));
    assert!(records.len() > 1_000, "{}", records.len());
    let root = killed.workplace.root();
    assert_marked(&root);
    assert_figures(&root, &records.iter().collect::<Vec<_>>());
}

#[test]
fn a_recovery_without_room_says_so_and_can_be_repeated() {
    let server = mock(|_| {});
    let killed = killed_in_the_second_phase(&server, &["--cores", "1"]);
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -f 64 && exec \"$@\"", "sh"])
        .arg(binary::ringload());
    command
        .args(["recover", "results"])
        .current_dir(killed.workplace.folder());
    let ended = Program::start(command).end().expect(1);
    let errors: Vec<&str> = ended.stderr.lines().collect();
    assert!(
        errors.len() == 1 && errors[0].contains("File too large"),
        "{}",
        ended.stderr
    );
    let results = killed.workplace.path("results");
    assert!(!results.join("profile_export.jsonl").exists() && !results.join(".aiperf_results_ready.json").exists());
    killed.recover(&[]).expect(0);
    assert_books(&killed, &server.ledger());
}

#[test]
fn raw_records_and_texts_are_recovered_unless_they_would_have_to_be_masked() {
    let (none, key) = ("", "    api_key: a-long-secret\n");
    let (all, texts) = ("raw: true", "export_outputs_json: true");
    for (secret, artifacts, written, told) in [
        (none, all, [true, true], [false, false]),
        (key, all, [false, false], [true, true]),
        (none, texts, [false, true], [false, false]),
        (key, texts, [false, false], [false, true]),
    ] {
        let server = mock(|_| {});
        let text = config(&server.url(), &phase("load", "concurrency: 2, duration: 10m"));
        let text = text
            .replace("{dir: ./results}", &format!("{{dir: ./results, {artifacts}}}"))
            .replace("    type: chat\n", &format!("    type: chat\n{secret}"));
        let workplace = Workplace::new(&text);
        let program = workplace.start_profile(&[]);
        let journal = workplace.path(JOURNAL);
        let killed = kill(workplace, program, || {
            fs::metadata(&journal).is_ok_and(|journal| journal.len() > 300_000)
        });
        let ended = killed.recover(&[]).expect(0);
        let records = assert_books(&killed, &server.ledger());
        let [raw, outputs] =
            ["profile_export_raw.jsonl", "outputs.json"].map(|name| killed.workplace.path("results").join(name));
        let lost = ["raw requests and answers", "texts of answers"]
            .map(|what| ended.stdout.contains(&format!("{what} are not written")));
        let found = ([raw.exists(), outputs.exists()], lost);
        assert_eq!(found, (written, told), "{artifacts}: {}", ended.stdout);
        if raw.exists() {
            let text = fs::read_to_string(raw).expect("raw records");
            let first: Value = serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
            assert_eq!(text.lines().count(), records.len());
            assert_eq!(first["payload"]["model"], "mock-model");
            assert!(first["responses"][0]["packets"][0]["value"].is_string(), "{first}");
        }
        if outputs.exists() {
            let outputs = json(&outputs);
            assert_eq!(outputs["data"].as_array().map(Vec::len), Some(records.len()));
            let text = &outputs["data"][0]["response_text"];
            assert!(text.is_string(), "{text}");
        }
    }
}
