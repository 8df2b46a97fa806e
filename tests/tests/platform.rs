//! Hosts that refuse something: io_uring, locked memory, newer system calls. The program runs as a child that is refused it.
//!
//! # What covers which field case
//! Lines of the groups "Load and timing" and "Platform" by their numbers; `file: test`, files of this folder unless a path is given.
//!
//! | case | covered by |
//! |---|---|
//! | T01 absolute schedule, no drift | `open_loop: arrivals_of_a_constant_rate_…`, `timing: a_high_rate_…` |
//! | T03 client stopped for 500 ms | `timing: s55_a_client_that_was_stopped_…` |
//! | T04 server freezes | `accuracy: a_stall_within_the_run_…`, `open_loop: s55_a_stalling_server_…` |
//! | T06, T07 waiting at the cap, two clocks | `open_loop: an_arrival_that_finds_the_cap_full_…`, `timing: delays_and_rates_…` |
//! | T08 a busy loop beside the only core | `verdict: a_busy_loop_beside_the_only_core_…` |
//! | T09 delays and rates by arithmetic | `timing: delays_and_rates_…`, `artifacts: throughput_times_the_window_…` |
//! | T10 plateau | `closed_loop: the_concurrency_is_held_…`, `two_cores_share_…` |
//! | T12 a request that never ends | `timing: a_request_that_never_ends_…`, `phases: without_grace_…` |
//! | T15 the first of two limits, with the reason | `phases: whichever_of_requests_and_duration_…` |
//! | T16 hangs are cut after the grace period | `timing: requests_that_hang_…`, `phases: a_grace_period_is_measured_…` |
//! | T17 grace not needed, grace 0 | `phases: a_grace_period_that_is_not_needed_…`, `without_grace_…` |
//! | T18 storm of cancellations at 1,024 | `timing: a_storm_of_cancellations_…`, `connections: t18_…`, `connects_on_their_way_are_bounded` |
//! | T21 high constant rate | `timing: a_high_rate_…`; jitter: the bench `send_lag` |
//! | T23 seamless or not | `seamless: *`, `phases: phases_run_in_order_…` |
//! | T24 long grace is advised on | `engine/src/plan/build/tests.rs: t24_…` |
//! | T26, T28 plans that cannot be reached, cold first wave | `timing: plans_that_cannot_…` |
//! | T27 the warmup's own concurrency | `timing: a_warmup_keeps_…` |
//! | P01, P03 io_uring refused (the sysctl and a profile both say EPERM) | `a_profile_that_forbids_…`, `a_profile_that_hides_…`, `a_profile_that_forgets_…` |
//! | P02 64 KiB of locked memory | `little_locked_memory_…`, `locked_memory_for_one_core_of_two_…` |
//! | P05 features missing | `a_kernel_without_the_features_…`, `epoll_works_without_its_newest_call` |
//! | P06 5,000 streams on one core | `scale: five_thousand_streams_…` |
//! | P07, P08, P09, P14 races of a connection's end | `races: p07_…`, `p08_p14_…`, `p09_…` |
//! | P10 writes outstanding at the end | `cli: a_signal_ends_the_run_…`, `interrupt: a_profiler_that_runs_is_stopped` |
//! | P11 many sleeps of 50 us | `timing: a_high_rate_…` (20,000/s) |
//! | P12 each timer at its own time | `engine/src/reactor/deadline.rs`, `cancellation: leftover_disconnects_…` |
//! | P13 more data than buffers, resets | `a_core_without_a_free_buffer_…`, `races: p06_p13_…` |
//! | P15 processor time of each core | `every_core_tells_…`; the warning: `verdict: *` |

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::Command;
use std::time::Duration;

use ringload_mock_server::MockServer;
use ringload_tests::program::{Ended, Program, Workplace, config, phase};
use ringload_tests::sys::child::{is_administrator, refuse_call, unprivileged};
use ringload_tests::{Ending, Record, binary, eventually, mock};
use serde_json::Value;

/// What every message about a refused ring begins with.
const REFUSED: &str = "io_uring is not available";
const REQUESTS: u64 = 60;

/// A child's folder with a small load against a server.
fn small_load() -> (MockServer, Workplace) {
    let server = mock(|_| {});
    let load = phase("profiling", &format!("concurrency: 8, requests: {REQUESTS}"));
    let workplace = Workplace::new(&config(&server.url(), &load));
    (server, workplace)
}

/// Asserts that the run fell back to epoll, said why in one line that holds `parts`, and lost no request.
fn assert_fell_back(server: &MockServer, workplace: &Workplace, ended: Ended, parts: &[&str]) {
    let ended = ended.expect(0);
    let said = ended.stdout + &ended.stderr;
    let lines: Vec<&str> = said.lines().filter(|line| line.contains(REFUSED)).collect();
    let [line] = lines[..] else {
        panic!("one line is to say why, not these: {lines:#?} in\n{said}")
    };
    for part in parts.iter().chain(&["the run uses the epoll driver"]) {
        assert!(line.contains(part), "'{part}' is not in: {line}");
    }
    let facts = &workplace.root()["ringload"];
    assert_eq!(facts["driver"], "epoll");
    let reason = facts["driver_reason"].as_str().expect("the reason is recorded");
    assert!(line.ends_with(reason), "said: {line}\nrecorded: {reason}");
    assert!(facts["kernel"].is_string(), "{facts}");
    assert_all_counted(server, facts);
}

/// Asserts that every request was sent, answered and counted, once.
fn assert_all_counted(server: &MockServer, facts: &Value) {
    assert_eq!(
        (&facts["sent"], &facts["succeeded"]),
        (&REQUESTS.into(), &REQUESTS.into())
    );
    assert_eq!(server.counters().requests, REQUESTS);
}

/// Asserts that the program refused to run without io_uring, before any load.
fn assert_refused(server: &MockServer, ended: Ended, parts: &[&str]) {
    let ended = ended.expect(1);
    for part in parts.iter().chain(&[REFUSED]) {
        assert!(ended.stderr.contains(part), "'{part}' is not in: {}", ended.stderr);
    }
    assert_eq!(server.counters().connections, 0);
}

/// Runs the program under a filter that refuses one system call: with `auto` it falls back, with `io-uring` it does not run.
fn refused_call(call: libc::c_long, errno: i32, parts: &[&str]) {
    let (server, workplace) = small_load();
    let under_filter = |driver: &str| {
        let mut command = workplace.profile_command(&["--driver", driver]);
        refuse_call(&mut command, call, errno);
        Program::start(command).end()
    };
    assert_refused(&server, under_filter("io-uring"), parts);
    assert_fell_back(&server, &workplace, under_filter("auto"), parts);
}

#[test]
fn a_profile_that_forbids_io_uring_leaves_epoll() {
    let parts = ["seccomp", "kernel.io_uring_disabled", "io_uring_setup"];
    refused_call(libc::SYS_io_uring_setup, libc::EPERM, &parts);
}

#[test]
fn a_profile_that_hides_io_uring_leaves_epoll() {
    let parts = ["seccomp", "no io_uring", "Linux 6.1"];
    refused_call(libc::SYS_io_uring_setup, libc::ENOSYS, &parts);
}

#[test]
fn a_kernel_without_the_features_leaves_epoll() {
    // What a kernel before 6.1 says to the flags; those that have them have everything else that is used.
    refused_call(libc::SYS_io_uring_setup, libc::EINVAL, &["too old", "Linux 6.1"]);
}

#[test]
fn a_profile_that_forgets_one_of_the_three_calls_is_found_out_before_the_load() {
    for call in [libc::SYS_io_uring_enter, libc::SYS_io_uring_register] {
        refused_call(call, libc::EPERM, &["seccomp", "io_uring_enter", "io_uring_register"]);
    }
}

#[test]
fn epoll_asked_for_by_name_needs_no_reason() {
    let (server, workplace) = small_load();
    let ended = workplace.profile(&["--driver", "epoll"]).expect(0);
    assert!(!(ended.stdout + &ended.stderr).contains(REFUSED));
    let root = workplace.root();
    assert_eq!(root["ringload"]["driver"], "epoll");
    assert!(root["ringload"].get("driver_reason").is_none(), "{root}");
    assert_all_counted(&server, &root["ringload"]);
}

#[test]
fn epoll_works_without_its_newest_call() {
    // Kernels before 5.11 do not have it, and older seccomp profiles do not know it: they say ENOSYS or EPERM.
    for errno in [libc::ENOSYS, libc::EPERM] {
        let (server, workplace) = small_load();
        let mut command = workplace.profile_command(&["--driver", "epoll"]);
        refuse_call(&mut command, libc::SYS_epoll_pwait2, errno);
        Program::start(command).end().expect(0);
        assert_all_counted(&server, &workplace.root()["ringload"]);
    }
}

/// The program as a user of its own with little locked memory: the kernel counts what a user's rings take over all processes of that user.
struct Poor {
    server: MockServer,
    workplace: Workplace,
    user: u32,
}

impl Poor {
    /// `None`, and a line that says so, where this process may not become another user.
    fn new() -> Option<Self> {
        if !is_administrator() {
            println!("skipped: only the administrator may run a child as another user");
            return None;
        }
        let (server, workplace) = small_load();
        // No account needs to exist for a number, and no other run of these tests has this one.
        let user = 200_000 + std::process::id();
        let program = workplace.path("ringload");
        std::fs::copy(binary::ringload(), &program).expect("a copy that others may read");
        let all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&program, all).expect("it is this user's file");
        for path in [workplace.folder(), &workplace.path("test.yaml")] {
            chown(path, Some(user), Some(user)).expect("the administrator may give files away");
        }
        Some(Self {
            server,
            workplace,
            user,
        })
    }

    fn run(&self, driver: &str, cores: &str, locked_bytes: u64) -> Ended {
        let mut command = Command::new(self.workplace.path("ringload"));
        command
            .args(["profile", "--config", "test.yaml", "--ui", "none", "--overwrite"])
            .args(["--driver", driver, "--cores", cores])
            .current_dir(self.workplace.folder());
        unprivileged(&mut command, self.user, locked_bytes);
        Program::start(command).end()
    }
}

#[test]
fn little_locked_memory_leaves_epoll() {
    let Some(poor) = Poor::new() else { return };
    let parts = ["locked-memory", "ulimit -l"];
    assert_refused(&poor.server, poor.run("io-uring", "1", 64 * 1024), &parts);
    assert_fell_back(&poor.server, &poor.workplace, poor.run("auto", "1", 64 * 1024), &parts);
}

#[test]
fn locked_memory_for_one_core_of_two_leaves_epoll_to_both() {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors < 2 {
        println!("skipped: there is one processor");
        return;
    }
    let Some(poor) = Poor::new() else { return };
    const MOST: u64 = 4 * 1024 * 1024;
    poor.run("auto", "1", MOST).expect(0);
    if poor.workplace.root()["ringload"]["driver"] != "io-uring" {
        println!("skipped: this host has no io_uring to spare");
        return;
    }
    // The least that one core needs, in steps that are smaller than what a second one would need.
    const STEP: u64 = 64 * 1024;
    let enough = (2..MOST / STEP)
        .map(|steps| steps * STEP)
        .find(|&bytes| poor.run("io-uring", "1", bytes).code == Some(0))
        .expect("what is enough in one piece is enough in steps");
    let before = poor.server.counters().requests;
    let refused = poor.run("io-uring", "2", enough).expect(1);
    assert!(refused.stderr.contains("use fewer cores"), "{}", refused.stderr);
    assert_eq!(poor.server.counters().requests, before);

    let fell_back = poor.run("auto", "2", enough).expect(0);
    assert!(fell_back.stdout.contains("ulimit -l"), "{}", fell_back.stdout);
    let facts = &poor.workplace.root()["ringload"];
    assert_eq!(
        (&facts["driver"], &facts["succeeded"]),
        (&"epoll".into(), &REQUESTS.into())
    );
    assert_eq!(facts["cores"].as_array().map(Vec::len), Some(2));
    assert_eq!(poor.server.counters().requests, before + REQUESTS);
}

/// A child that is stopped while answers for far more receive buffers than it has pile up in its sockets, some of them reset.
fn starve_of_buffers(driver: &str) {
    const STREAMS: u64 = 64;
    const TOKENS: u32 = 16_000;
    // The server sends a whole answer in one piece of about 70 KB: less than a socket holds, and all of them more than the buffers of a core.
    let server = mock(|options| {
        options.ttft = Duration::from_millis(300);
        options.itl = Duration::ZERO;
        options.osl = Some(TOKENS);
        options.fault = Some("every:4:reset-before-head".parse().expect("a fault"));
    });
    let load = phase("large", &format!("concurrency: {STREAMS}, requests: {STREAMS}"));
    let text = config(&server.url(), &load).replace("streaming: true", "streaming: false");
    let workplace = Workplace::new(&text);
    let program = workplace.start_profile(&["--driver", driver]);
    eventually("all requests", || server.counters().requests == STREAMS);
    program.signal("STOP");
    eventually("all answers", || server.counters().in_flight == 0);
    program.signal("CONT");
    program.end().expect(0);

    let facts = &workplace.root()["ringload"];
    let counts = ["sent", "succeeded", "failed"].map(|key| facts[key].as_u64());
    assert_eq!(counts, [Some(STREAMS), Some(48), Some(16)], "{facts}");
    for record in Record::read_all(&workplace.path("results/profile_export.jsonl")) {
        if record.ending() == Ending::Succeeded {
            assert_eq!(
                record.metric("output_sequence_length"),
                Some(f64::from(TOKENS)),
                "{record:?}"
            );
        }
    }
    let shortages = facts["cores"][0]["buffer_shortages"].as_u64();
    // The epoll driver never reads more at once than it has buffers.
    assert!(
        facts["driver"] == "epoll" || shortages > Some(0),
        "the buffers never ran out, and nothing was tested: {facts}"
    );
}

#[test]
fn a_core_without_a_free_buffer_asks_again_and_gets_every_byte() {
    starve_of_buffers("auto");
    starve_of_buffers("epoll");
}

#[test]
fn every_core_tells_its_own_share_of_a_processor() {
    let (_server, workplace) = small_load();
    workplace.profile(&[]).expect(0);
    let facts = &workplace.root()["ringload"];
    for share in [&facts["cores"][0]["busy_share"], &facts["coordinator_busy_share"]] {
        assert!(
            share.as_f64().is_some_and(|share| share > 0.0 && share <= 1.0),
            "{facts}"
        );
    }
}
