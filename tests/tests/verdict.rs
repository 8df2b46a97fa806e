//! The client's verdict on itself: never silent when the client was the limit, and no false alarm on a machine that is quiet.
//!
//! The program runs as a process of its own, so that it can be stopped and pinned without the mock server.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringload_mock_server::MockServer;
use ringload_tests::books::Books;
use ringload_tests::run::{driver_under_test, read_manifest};
use ringload_tests::statistics::percentile;
use ringload_tests::{Phase, Scenario, binary, eventually, mock};
use serde_json::Value;
use tempfile::TempDir;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A run of the program with one phase named `load`.
struct Program {
    folder: TempDir,
    command: Command,
}

impl Program {
    /// `phase` is the phase's YAML behind its name and kind; `before` stands before the program on the command line.
    fn new(server: &MockServer, phase: &str, before: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let config = format!(
            "schemaVersion: \"2.0\"\nbenchmark:\n  model: mock-model\n  endpoint: {{url: {}, type: chat, streaming: true}}\n  \
             dataset: {{type: synthetic, entries: 8, prompts: {{isl: 16, osl: 4}}}}\n  artifacts: {{dir: ./results}}\n  phases:\n    \
             - {{name: load, kind: profiling, {phase}}}\n",
            server.url()
        );
        fs::write(folder.path().join("test.yaml"), config).expect("a config file");
        let mut words: Vec<&str> = before.to_vec();
        words.push(binary::ringload().to_str().expect("a path of plain text"));
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command.args(["profile", "--config", "test.yaml", "--ui", "none", "--cores", "1"]);
        command.args(["--driver", driver()]);
        command.current_dir(folder.path());
        Self { folder, command }
    }

    fn with(mut self, argument: &str) -> Self {
        self.command.arg(argument);
        self
    }

    fn start(&mut self) -> Child {
        self.command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts")
    }

    /// Runs it to its end.
    fn run(&mut self, code: i32) -> Output {
        ended(self.start(), code)
    }

    fn json(&self, relative: &str) -> Value {
        let path = self.folder.path().join("results").join(relative);
        let text = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_slice(&text).expect("JSON")
    }

    /// `ringload` of the phase's summary.
    fn phase(&self) -> Value {
        let phases = read_manifest(&self.folder.path().join("results"));
        self.json(&phases[0].metrics_json)["ringload"].clone()
    }

    /// `ringload.client` of the phase's summary.
    fn client(&self) -> Value {
        self.phase()["client"].clone()
    }
}

fn driver() -> &'static str {
    use ringload_engine::run::DriverChoice;
    match driver_under_test() {
        DriverChoice::Auto => "auto",
        DriverChoice::IoUring => "io-uring",
        DriverChoice::Epoll => "epoll",
    }
}

/// Waits for the end of the program.
fn ended(child: Child, code: i32) -> Output {
    // Little is printed, so the pipes hold it all and reading after the end is enough.
    let mut child = Guard(Some(child));
    eventually("the end of the program", || {
        let child = child.0.as_mut().expect("it is taken below only");
        child.try_wait().expect("a child can be waited for").is_some()
    });
    let output = child.0.take().expect("it is taken once").wait_with_output();
    let output = output.expect("what it printed");
    assert_eq!(
        output.status.code(),
        Some(code),
        "{}{}",
        stdout(&output),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Kills a process when it goes.
struct Guard(Option<Child>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // Fails if it has ended, which is just as well.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn signal(child: &Child, name: &str) {
    // The shell's own kill: it is there wherever a shell is.
    let status = Command::new("sh")
        .args(["-c", &format!("kill -{name} {}", child.id())])
        .status();
    assert!(status.expect("a shell").success());
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no {key} in {value:#}"))
}

/// Asserts that the verdict is not `valid`, that it is told first, and that the files of phase and run agree.
fn assert_told(program: &Program, output: &Output) {
    let client = program.client();
    let verdict = client["verdict"].as_str().expect("a verdict");
    assert!(["suspect", "invalid"].contains(&verdict), "{client:#}");
    let shown = stdout(output);
    let first = shown.lines().next().unwrap_or_default().to_lowercase();
    assert!(
        first.starts_with(&format!("client: {verdict} in phase 'load': ")),
        "{shown}"
    );
    assert!(shown.contains(&format!(", client: {verdict}\n")), "{shown}");
    let root = &program.json("profile_export_aiperf.json")["ringload"]["client"];
    assert_eq!(
        (&root["verdict"], &root["reason"], &root["phase"]),
        (&client["verdict"], &client["reason"], &Value::from("load"))
    );
    let deciding = client["figure"].as_str().expect("the figure that decided");
    assert!(client[deciding].is_number(), "{client:#}");
}

/// A processor that the program may use.
fn one_processor() -> String {
    let status = fs::read_to_string("/proc/self/status").expect("procfs");
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let list = allowed.expect("the kernel tells the processors").trim();
    // "0-3,8" and the like: the last number of the list.
    list.rsplit([',', '-']).next().expect("at least one").to_owned()
}

#[test]
fn a_client_that_was_stopped_for_half_a_second_sends_all_and_is_not_valid() {
    let server = mock(|_| {});
    let mut program = Program::new(&server, "type: constant, rate: 50, requests: 100", &[]);
    let child = program.start();
    eventually("the first requests", || server.counters().requests >= 20);
    signal(&child, "STOP");
    std::thread::sleep(ms(500));
    signal(&child, "CONT");
    let output = ended(child, 0);
    let phase = program.phase();
    assert_eq!((&phase["sent"], &phase["succeeded"]), (&100.into(), &100.into()));
    assert_eq!(server.counters().requests, 100);
    // Arrivals are 20 ms apart, and the first that fell into the stop waited for nearly all of it.
    let client = program.client();
    assert!(number(&phase["send_lag"], "max") > 400.0, "{phase:#}");
    assert!(number(&client, "lag_max_ms") > 400.0, "{client:#}");
    assert!(number(&client, "stall_ms") > 400.0, "{client:#}");
    // About 25 of 100 arrivals fell into it, 20 of them more than 100 ms before its end.
    assert!(number(&client, "late_share") > 0.15, "{client:#}");
    assert_eq!(client["verdict"], "invalid", "{client:#}");
    assert_told(&program, &output);
}

#[test]
fn a_stop_is_seen_in_a_closed_loop_too_where_no_request_is_ever_late() {
    // The client waits for answers that take longer than the stop: no core has anything to be late with.
    let server = mock(|options| options.ttft = ms(1_500));
    let mut program = Program::new(&server, "type: concurrency, concurrency: 4, requests: 4", &[]);
    let child = program.start();
    eventually("the requests", || server.counters().requests == 4);
    signal(&child, "STOP");
    std::thread::sleep(ms(500));
    signal(&child, "CONT");
    let output = ended(child, 0);
    let client = program.client();
    assert!(number(&client, "stall_ms") > 400.0, "{client:#}");
    assert_told(&program, &output);
}

#[test]
fn a_busy_loop_beside_the_only_core_is_never_silent() {
    let server = mock(|options| options.ttft = ms(20));
    let processor = one_processor();
    let pinned = ["taskset", "-c", &processor];
    let _busy = Guard(
        Command::new("taskset")
            .args(["-c", &processor, "sh", "-c", "while :; do :; done"])
            .spawn()
            .ok(),
    );
    for phase in [
        "type: constant, rate: 50, duration: 2",
        "type: concurrency, concurrency: 4, duration: 2",
    ] {
        let mut program = Program::new(&server, phase, &pinned);
        let output = program.run(0);
        let client = program.client();
        // The busy loop is ready to run all the time, so it has at least its half.
        assert!(number(&client, "others_share") > 1.0 / 3.0, "{client:#}");
        assert_told(&program, &output);
    }
}

/// How quiet the machine was while something else ran.
struct Quietness {
    stop: Arc<AtomicBool>,
    probe: JoinHandle<Vec<f64>>,
    busy_before: (u64, u64),
}

impl Quietness {
    /// Starts to sleep for one millisecond after the other, on no processor in particular.
    fn watch() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&stop);
        let probe = std::thread::spawn(move || {
            let mut late = Vec::new();
            while !theirs.load(Ordering::Acquire) {
                let before = Instant::now();
                std::thread::sleep(ms(1));
                late.push((before.elapsed().as_secs_f64() - 1e-3) * 1e3);
            }
            late
        });
        Self {
            stop,
            probe,
            busy_before: machine_time(),
        }
    }

    /// Why the machine was not quiet; `None` if it was.
    fn disturbance(self) -> Option<String> {
        self.stop.store(true, Ordering::Release);
        let late = percentile(&self.probe.join().expect("the probe sleeps"), 99.0);
        let (busy, all) = machine_time();
        let busy = (busy - self.busy_before.0) as f64 / (all - self.busy_before.1).max(1) as f64;
        let quiet = late < 0.5 && busy < 0.2;
        (!quiet).then(|| {
            format!(
                "sleeps were up to {late:.2} ms late (p99) and processors {:.0} % busy",
                100.0 * busy
            )
        })
    }
}

/// Busy and whole time of all processors so far, in the kernel's units (proc_stat(5)).
fn machine_time() -> (u64, u64) {
    let text = fs::read_to_string("/proc/stat").expect("procfs");
    let line = text.lines().next().expect("the line of all processors");
    let ticks: Vec<u64> = line
        .split_ascii_whitespace()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    // Guests' time, at the end, is in the first two already.
    let all: u64 = ticks.iter().take(8).sum();
    (all - ticks[3] - ticks[4], all)
}

#[test]
fn a_quiet_run_on_a_quiet_machine_is_valid() {
    let server = mock(|options| options.ttft = ms(20));
    for attempt in 1..=3 {
        let mut program = Program::new(&server, "type: constant, rate: 50, duration: 2", &[]);
        let machine = Quietness::watch();
        let output = program.run(0);
        let disturbance = machine.disturbance();
        let client = program.client();
        if client["verdict"] == "valid" {
            let shown = stdout(&output);
            assert!(!shown.contains("client: suspect"), "{shown}");
            assert!(shown.contains(" s, client: valid\n"), "{shown}");
            return;
        }
        let Some(disturbance) = disturbance else {
            panic!("the machine was quiet, and yet: {client:#}");
        };
        println!("attempt {attempt}: {}; {disturbance}", client["reason"]);
    }
    println!("skipped: the machine was never quiet");
}

#[test]
fn the_wait_for_a_slot_is_the_servers_and_not_the_clients() {
    // One at a time, 100 ms each, one wanted every 25 ms: arrivals wait for the cap for up to 525 ms.
    let server = mock(|options| {
        options.ttft = ms(100);
        options.osl = Some(1);
    });
    let run = Scenario::new(server.address())
        .phase(Phase::constant("load", 40.0).capped(1).requests(8))
        .run();
    Books::complete(&run, &server);
    let facts = &run.summary("load")["ringload"];
    let (all, own) = (
        number(&facts["send_lag"], "p50"),
        number(&facts["client"], "lag_p50_ms"),
    );
    assert!(all >= 75.0 * 3.0, "{all} ms behind the schedule");
    assert!(own < 50.0, "{own} ms of them are the client's: {facts:#}");
    assert_eq!(number(&facts["client"], "lag_count"), 8.0);
}

#[test]
fn a_slot_is_used_again_at_once_and_the_time_until_then_is_kept() {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .phase(Phase::closed("load", 2).requests(40))
        .run();
    let client = &run.summary("load")["ringload"]["client"];
    assert_eq!(number(client, "lag_count"), 40.0);
    // The end of one request of a slot and the start of the next one, seen from the records of a core with two slots.
    let mut starts: Vec<u64> = run.records.iter().map(|r| r.metadata.request_start_ns).collect();
    let mut ends: Vec<u64> = run.records.iter().map(|r| r.metadata.request_end_ns).collect();
    starts.sort_unstable();
    ends.sort_unstable();
    let longest = starts[2..].iter().zip(&ends).map(|(start, end)| start - end).max();
    let longest = longest.expect("slots were used again") as f64 / 1e6;
    let kept = number(client, "lag_max_ms");
    assert!(
        (kept - longest).abs() < 0.01 || kept > longest,
        "{kept} ms kept, {longest} ms between the records"
    );
}

#[test]
fn phases_are_judged_one_by_one_and_the_run_by_the_worst_of_the_profiling_ones() {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .phase(Phase::closed("warm", 2).warmup().requests(4))
        .phase(Phase::closed("first", 2).requests(20))
        .phase(Phase::constant("second", 50.0).requests(20))
        .run();
    let order = ["valid", "suspect", "invalid"];
    let rank = |value: &Value| order.iter().position(|word| value == word).expect("a verdict");
    let of = |name: &str| run.summary(name)["ringload"]["client"].clone();
    let opened: f64 = ["warm", "first", "second"]
        .map(|name| number(&of(name), "connections_opened"))
        .iter()
        .sum();
    let cores = run.root()["ringload"]["cores"].clone();
    assert_eq!(
        number(&cores[0], "connections_opened"),
        opened,
        "each belongs to one phase"
    );
    let worst = ["first", "second"]
        .map(|name| rank(&of(name)["verdict"]))
        .into_iter()
        .max();
    assert_eq!(Some(rank(&run.root()["ringload"]["client"]["verdict"])), worst);
    for (name, count) in [("warm", 4.0), ("first", 20.0), ("second", 20.0)] {
        assert_eq!(number(&of(name), "lag_count"), count, "{name}");
    }
}

#[test]
fn an_open_loop_that_runs_out_of_descriptors_is_invalid_and_fails_on_request() {
    // 200 descriptors leave 72 for connections; all of them are taken after 360 ms, and nothing is answered before 1.5 s.
    let server = mock(|options| options.ttft = ms(1_500));
    let limited = ["sh", "-c", "ulimit -n 200; exec \"$@\"", "sh"];
    for (flag, code) in [(None, 0), (Some("--fail-on-client-limited"), 4)] {
        let mut program = Program::new(&server, "type: constant, rate: 200, duration: 1", &limited);
        program = flag.into_iter().fold(program, Program::with);
        let output = program.run(code);
        let phase = program.phase();
        assert_eq!((&phase["sent"], &phase["succeeded"]), (&72.into(), &72.into()));
        let client = &phase["client"];
        assert_eq!(
            (&client["verdict"], &client["figure"]),
            (&"invalid".into(), &"unsent_share".into())
        );
        // Due after 5, 10 ... 995 ms.
        assert_eq!(number(client, "unsent_share"), 127.0 / 199.0);
        assert_eq!(number(client, "kept_back"), 1.0, "the one at the head of the queue");
        assert_told(&program, &output);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            told.contains("error: the client was the limit in phase 'load': "),
            flag.is_some(),
            "{told}"
        );
    }
}

#[test]
fn a_run_that_failed_says_so_whatever_the_client_was() {
    let server = mock(|options| options.fault = Some("status:500".parse().expect("a fault of the mock server")));
    let limited = ["sh", "-c", "ulimit -n 200; exec \"$@\"", "sh"];
    let mut program =
        Program::new(&server, "type: constant, rate: 20, duration: 0.5", &limited).with("--fail-on-client-limited");
    let output = program.run(1);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("no request succeeded"), "{told}");
    assert!(Path::new(&program.folder.path().join("results/profile_export_aiperf.json")).exists());
}
