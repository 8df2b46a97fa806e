//! How cores wait and where they run: the schedule does not depend on it, and everything else stays out of their way.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ringload_engine::run::Pacing;
use ringload_tests::books::Books;
use ringload_tests::{Phase, Run, Scenario, binary, eventually, mock};
use serde_json::Value;

/// Half a second at 60 requests per second.
fn paced(pacing: Pacing) -> Run {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .pacing(pacing)
        .phase(Phase::poisson("load", 60.0).requests(30))
        .run();
    Books::complete(&run, &server);
    assert_eq!(run.root()["ringload"]["pacing"]["asked"], pacing.as_str());
    run
}

fn intended(run: &Run) -> BTreeMap<u64, u64> {
    let start = run.phase("load").start_ns;
    let records = run.records_of("load");
    let offset = |due: u64| due - start;
    records
        .iter()
        .map(|record| (record.metadata.session_num, offset(record.ringload.intended_start_ns)))
        .collect()
}

/// Turns of the core's loop, each with one call that submits and waits.
fn turns(run: &Run) -> u64 {
    let turns = &run.root()["ringload"]["cores"][0]["driver_enters"];
    turns.as_u64().expect("a count of turns")
}

#[test]
fn every_profile_keeps_the_same_schedule_and_only_busy_never_sleeps() {
    let efficient = paced(Pacing::Efficient);
    let schedule = intended(&efficient);
    assert_eq!(schedule.len(), 30);
    let precise = paced(Pacing::Precise);
    let busy = paced(Pacing::Busy);
    for run in [&precise, &busy] {
        assert_eq!(intended(run), schedule);
    }
    // Half a second is some 100,000 turns without sleep. Asleep, a request needs about ten; spinning for 80 us before each of 30 starts makes some
    // thousand more at most.
    let (efficient, precise, busy) = (turns(&efficient), turns(&precise), turns(&busy));
    assert!(efficient < 3_000, "{efficient} turns");
    assert!(
        busy > 5 * efficient && busy > 2 * precise,
        "{efficient}, {precise}, {busy} turns"
    );
}

#[test]
fn auto_is_precise_for_a_schedule_beside_a_free_processor_only() {
    for (cores, expected) in [(1, "precise"), (2, "efficient")] {
        let server = mock(|_| {});
        let run = Scenario::new(server.address())
            .cores(cores)
            .phase(Phase::constant("load", 100.0).requests(10))
            .run();
        let placement = &run.root()["ringload"]["placement"];
        let pacing = &run.root()["ringload"]["pacing"];
        let spare = placement["processor_to_spare"].as_bool().expect("a fact");
        if allowed().len() == 2 {
            assert_eq!(pacing["open_loop"], expected);
        }
        assert_eq!(pacing["open_loop"] == "precise", spare, "{placement} {pacing}");
        assert_eq!(pacing["closed_loop"], "efficient");
    }
}

/// Processors that this test may use.
fn allowed() -> Vec<usize> {
    let status = fs::read_to_string("/proc/self/status").expect("procfs");
    mask(&status)
}

/// The processors of a `/proc/PID/status`.
fn mask(status: &str) -> Vec<usize> {
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .expect("the kernel tells the mask");
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<usize>().expect("a processor");
        number(first)..=number(last)
    };
    list.trim().split(',').flat_map(range).collect()
}

/// Names and masks of the threads of a process; threads that end meanwhile are left out.
fn threads(process: u32) -> BTreeMap<String, Vec<usize>> {
    let tasks = fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten()
        .flatten();
    tasks
        .filter_map(|task| {
            let name = fs::read_to_string(task.path().join("comm")).ok()?;
            let status = fs::read_to_string(task.path().join("status")).ok()?;
            status
                .contains("Cpus_allowed_list:")
                .then(|| (name.trim().to_owned(), mask(&status)))
        })
        .collect()
}

/// The program, which is killed if the test fails before it ends.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const CONFIG: &str = "schemaVersion: \"2.0\"\nbenchmark:\n  model: mock-model\n  endpoint: {url: URL, type: chat, streaming: true}\n  \
                      dataset: {type: synthetic, entries: 8, prompts: {isl: 16, osl: 4}}\n  artifacts: {dir: ./results}\n  phases:\n    \
                      - {name: profiling, kind: profiling, type: constant, rate: 50, duration: 1500ms}\n";

#[test]
fn other_threads_stay_off_the_processors_of_the_cores() {
    let processors = allowed();
    let [first, _, ..] = processors[..] else {
        println!("skipped: this host gives the test one processor, so nothing can be kept apart");
        return;
    };
    let server = mock(|_| {});
    // Which one a number takes depends on the host; the list asks for the first.
    for (cores, asked) in [("1".to_owned(), None), (format!("{first}-{first}"), Some(first))] {
        let folder = tempfile::tempdir().expect("a temporary directory");
        fs::write(folder.path().join("test.yaml"), CONFIG.replace("URL", &server.url())).expect("a config file");
        let mut command = Command::new(binary::ringload());
        command
            .args([
                "profile",
                "--config",
                "test.yaml",
                "--ui",
                "none",
                "--pacing",
                "busy",
                "--cores",
                &cores,
            ])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut program = Program(command.spawn().expect("the program starts"));
        let process = program.0.id();
        let mut seen = BTreeMap::new();
        eventually("the threads of the run", || {
            seen = threads(process);
            // Names end at the fifteenth byte; a core has its own when it says that it is ready.
            seen.contains_key("ringload-coordi") && seen.get("ringload-core-0").is_some_and(|mask| mask.len() == 1)
        });
        let core = seen["ringload-core-0"][0];
        assert!(
            asked.is_none_or(|asked| asked == core),
            "--cores {cores} runs on {core}"
        );
        for name in ["ringload", "ringload-coordi", "ringload-journa", "ringload-contro"] {
            let mask = seen.get(name).unwrap_or_else(|| panic!("no thread {name} in {seen:?}"));
            assert!(!mask.is_empty() && !mask.contains(&core), "{name} may run on {mask:?}");
        }
        let mut status = None;
        eventually("the end of the program", || {
            status = program.0.try_wait().expect("a child can be waited for");
            status.is_some()
        });
        assert_eq!(status.and_then(|status| status.code()), Some(0));
        let stdout = std::io::read_to_string(program.0.stdout.take().expect("it is piped")).expect("text");
        let line = format!("1 core on processor {core}, the other threads on processor");
        assert!(stdout.contains(&line) && stdout.contains("pacing busy"), "{stdout}");
        let text = fs::read(folder.path().join("results/profile_export_aiperf.json")).expect("a summary");
        let root: Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(root["ringload"]["cores"][0]["processor"], core);
    }
}

#[test]
fn a_processor_that_may_not_be_used_is_a_usage_error() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let server = mock(|_| {});
    fs::write(folder.path().join("test.yaml"), CONFIG.replace("URL", &server.url())).expect("a config file");
    let output = Command::new(binary::ringload())
        .args(["profile", "--config", "test.yaml", "--cores", "8000,8001"])
        .current_dir(folder.path())
        .output()
        .expect("the program runs");
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("--cores: processor 8000-8001"), "{stderr}");
    assert_eq!(server.counters().requests, 0);
}

#[test]
fn cancellations_far_ahead_leave_with_their_requests() {
    // Every request would be disconnected ten seconds after it was sent, and ends long before that: the run must neither wait for that nor
    // disconnect a later request of the same connection.
    let server = mock(|options| options.ttft = Duration::from_millis(1));
    let run = Scenario::new(server.address())
        .phase(
            Phase::closed("load", 4)
                .requests(400)
                .cancelling(1.0, Duration::from_secs(10)),
        )
        .phase(Phase::closed("after", 4).requests(40))
        .run();
    assert_eq!(run.counts("load").succeeded, 400);
    assert_eq!(run.counts("after").succeeded, 40);
    Books::complete(&run, &server);
}
