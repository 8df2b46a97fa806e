//! The client's verdict on itself: never silent when the client was the limit, and no false alarm on a machine that is quiet.
//!
//! The program runs as a process of its own, so that it can be stopped and pinned without the mock server.

use std::ffi::OsStr;
use std::fs;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringload_engine::run::DriverChoice;
use ringload_mock_server::MockServer;
use ringload_tests::books::Books;
use ringload_tests::program::{Ended, Program, Workplace, config};
use ringload_tests::run::{driver_under_test, read_manifest};
use ringload_tests::statistics::percentile;
use ringload_tests::{Phase, Scenario, eventually, mock};
use serde_json::Value;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A folder for runs of the program with one phase named `load`; `phase` is the phase's YAML behind its name and kind.
fn workplace(server: &MockServer, phase: &str) -> Workplace {
    let phases = format!("    - {{name: load, kind: profiling, {phase}}}\n");
    Workplace::new(&config(&server.url(), &phases))
}

/// The program under way; `before` stands before it on the command line, `more` at its end.
fn start(workplace: &Workplace, before: &[&str], more: &[&str]) -> Program {
    let plain = workplace.profile_command(&["--driver", driver()]);
    let mut words = before.iter().map(OsStr::new).chain([plain.get_program()]);
    let mut command = Command::new(words.next().expect("the program at least"));
    command
        .args(words.chain(plain.get_args()))
        .args(more)
        .current_dir(workplace.folder());
    Program::start(command)
}

fn driver() -> &'static str {
    match driver_under_test() {
        DriverChoice::Auto => "auto",
        DriverChoice::IoUring => "io-uring",
        DriverChoice::Epoll => "epoll",
    }
}

/// `ringload` of the phase's summary.
fn facts(workplace: &Workplace) -> Value {
    let phases = read_manifest(&workplace.path("results"));
    let path = workplace.path("results").join(&phases[0].metrics_json);
    let text = fs::read(path).expect("a summary of the phase");
    let summary: Value = serde_json::from_slice(&text).expect("JSON");
    summary["ringload"].clone()
}

/// Kills a process when it goes.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no {key} in {value:#}"))
}

/// Asserts that the verdict is not `valid`, that it is told first, and that the files of phase and run agree.
fn assert_told(workplace: &Workplace, ended: &Ended) {
    let client = &facts(workplace)["client"];
    let verdict = client["verdict"].as_str().expect("a verdict");
    assert!(["suspect", "invalid"].contains(&verdict), "{client:#}");
    let shown = &ended.stdout;
    let first = shown.lines().next().unwrap_or_default().to_lowercase();
    assert!(
        first.starts_with(&format!("client: {verdict} in phase 'load': ")),
        "{shown}"
    );
    assert!(shown.contains(&format!(", client: {verdict}\n")), "{shown}");
    let root = &workplace.root()["ringload"]["client"];
    assert_eq!(
        (&root["verdict"], &root["reason"], &root["phase"]),
        (&client["verdict"], &client["reason"], &Value::from("load"))
    );
    let findings = client["findings"].as_array().expect("a list");
    assert_eq!(findings[0]["figure"], client["figure"]);
    assert_eq!(
        shown
            .lines()
            .skip(1)
            .take_while(|line| line.starts_with("  and "))
            .count(),
        findings.len() - 1,
        "{shown}"
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
    let workplace = workplace(&server, "type: constant, rate: 50, requests: 100");
    let program = start(&workplace, &[], &[]);
    eventually("the first requests", || server.counters().requests >= 20);
    program.signal("STOP");
    std::thread::sleep(ms(500));
    program.signal("CONT");
    let ended = program.end().expect(0);
    let phase = facts(&workplace);
    assert_eq!((&phase["sent"], &phase["succeeded"]), (&100.into(), &100.into()));
    assert_eq!(server.counters().requests, 100);
    // Arrivals are 20 ms apart, and the first that fell into the stop waited for nearly all of it.
    let client = &phase["client"];
    assert!(number(&phase["send_lag"], "max") > 400.0, "{phase:#}");
    assert!(number(client, "lag_max_ms") > 400.0, "{client:#}");
    assert!(number(client, "stall_ms") > 400.0, "{client:#}");
    // About 25 of 100 arrivals fell into it, 20 of them more than 100 ms before its end.
    assert!(number(client, "late_share") > 0.15, "{client:#}");
    assert_eq!(client["verdict"], "invalid", "{client:#}");
    assert_told(&workplace, &ended);
}

#[test]
fn a_stop_is_seen_in_a_closed_loop_too_where_no_request_is_ever_late() {
    // The client waits for answers that take longer than the stop: no core has anything to be late with.
    let server = mock(|options| options.ttft = ms(1_500));
    let workplace = workplace(&server, "type: concurrency, concurrency: 4, requests: 4");
    let program = start(&workplace, &[], &[]);
    eventually("the requests", || server.counters().requests == 4);
    program.signal("STOP");
    std::thread::sleep(ms(500));
    program.signal("CONT");
    let ended = program.end().expect(0);
    let client = &facts(&workplace)["client"];
    assert!(number(client, "stall_ms") > 400.0, "{client:#}");
    assert_told(&workplace, &ended);
}

#[test]
fn a_busy_loop_beside_the_only_core_is_never_silent() {
    let server = mock(|options| options.ttft = ms(20));
    let processor = one_processor();
    let pinned = ["taskset", "-c", &processor];
    let mut busy = Command::new(pinned[0]);
    busy.args(&pinned[1..]).args(["sh", "-c", "while :; do :; done"]);
    let _busy = Guard(busy.spawn().expect("a shell"));
    for phase in [
        "type: constant, rate: 50, duration: 2",
        "type: concurrency, concurrency: 4, duration: 2",
    ] {
        let workplace = workplace(&server, phase);
        let ended = start(&workplace, &pinned, &[]).end().expect(0);
        let client = &facts(&workplace)["client"];
        // The busy loop is ready to run all the time, so it has at least its half.
        assert!(number(client, "others_share") > 1.0 / 3.0, "{client:#}");
        assert_told(&workplace, &ended);
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
        let workplace = workplace(&server, "type: constant, rate: 50, duration: 2");
        let machine = Quietness::watch();
        let ended = start(&workplace, &[], &[]).end().expect(0);
        let disturbance = machine.disturbance();
        let client = &facts(&workplace)["client"];
        if client["verdict"] == "valid" {
            let shown = &ended.stdout;
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
fn a_core_that_spins_for_its_schedule_is_not_busy() {
    let server = mock(|_| {});
    let workplace = workplace(&server, "type: constant, rate: 50, duration: 1");
    start(&workplace, &[], &["--pacing", "busy"]).end().expect(0);
    let client = &facts(&workplace)["client"];
    // Fifty requests are some milliseconds of work.
    assert!(number(client, "busy_share") < 0.5, "{client:#}");
    let findings = client["findings"].as_array().expect("a list");
    assert!(
        findings.iter().all(|finding| finding["figure"] != "busy_share"),
        "{client:#}"
    );
    let all = &workplace.root()["ringload"]["cores"][0];
    assert!(
        number(all, "busy_share") > number(client, "busy_share"),
        "it spun: {all:#}"
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
    for (flags, code) in [(&[][..], 0), (&["--fail-on-client-limited"][..], 4)] {
        let workplace = workplace(&server, "type: constant, rate: 200, duration: 1");
        let ended = start(&workplace, &limited, flags).end().expect(code);
        let phase = facts(&workplace);
        assert_eq!((&phase["sent"], &phase["succeeded"]), (&72.into(), &72.into()));
        let client = &phase["client"];
        assert_eq!(
            (&client["verdict"], &client["figure"]),
            (&"invalid".into(), &"unsent_share".into())
        );
        // Due after 5, 10 ... 995 ms.
        assert_eq!(number(client, "unsent_share"), 127.0 / 199.0);
        assert_eq!(number(client, "kept_back"), 1.0, "the one at the head of the queue");
        assert_told(&workplace, &ended);
        let told = &ended.stderr;
        assert_eq!(
            told.contains("error: the client was the limit in phase 'load': "),
            code == 4,
            "{told}"
        );
    }
}

#[test]
fn a_run_that_failed_says_so_whatever_the_client_was() {
    let server = mock(|options| options.fault = Some("status:500".parse().expect("a fault of the mock server")));
    let workplace = workplace(&server, "type: constant, rate: 20, duration: 0.5");
    let ended = start(&workplace, &[], &["--fail-on-client-limited"]).end().expect(1);
    assert!(ended.stderr.contains("no request succeeded"), "{}", ended.stderr);
    assert!(facts(&workplace)["client"]["verdict"].is_string());
}
