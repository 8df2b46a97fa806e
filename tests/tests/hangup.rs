//! The terminal goes away: a run ends with its results, unless it was started to outlive it. And signals that come before a run.

use std::io::Read as _;
use std::process::{Command, Stdio};

use ringload_tests::program::{Program, Workplace, config, phase};
use ringload_tests::{binary, eventually, mock};

/// Starts a run by a command that takes the program's arguments.
fn profile(workplace: &Workplace, mut command: Command) -> Program {
    command.args(["profile", "--config", "test.yaml", "--ui", "none", "--cores", "1"]);
    command.current_dir(workplace.folder());
    Program::start(command)
}

#[test]
fn a_hangup_ends_a_run_like_the_other_signals() {
    let server = mock(|_| {});
    let workplace = Workplace::new(&config(&server.url(), &phase("load", "concurrency: 2, duration: 10m")));
    // These tests may run below `nohup` themselves.
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP").arg(binary::ringload());
    let program = profile(&workplace, command);
    eventually("some load", || server.counters().requests > 20);
    program.signal("HUP");
    // Shell and kernel may both say that the terminal is gone.
    program.signal("HUP");
    program.end().expect(129);
    let root = workplace.root();
    assert_eq!(
        (&root["was_cancelled"], &root["is_complete"]),
        (&true.into(), &false.into())
    );
    assert!(
        !workplace.path("results/ringload.journal").exists(),
        "everything is written out"
    );
}

#[test]
fn a_hangup_that_was_ignored_at_the_start_stays_ignored() {
    let server = mock(|_| {});
    let workplace = Workplace::new(&config(&server.url(), &phase("load", "concurrency: 2, duration: 10m")));
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' HUP && exec \"$@\"", "sh"])
        .arg(binary::ringload());
    let program = profile(&workplace, command);
    eventually("some load", || server.counters().requests > 20);
    program.signal("HUP");
    let before = server.counters().requests;
    eventually("more load", || server.counters().requests > before + 200);
    assert!(!program.said("interrupted"));
    program.signal("TERM");
    program.end().expect(143);
}

#[test]
fn a_signal_before_the_run_ends_the_program_with_its_code() {
    let values: Vec<String> = (1..=400).map(|value| value.to_string()).collect();
    let sweep = format!(
        "sweep: {{type: grid, parameters: {{phases.0.concurrency: [{}]}}}}\n",
        values.join(", ")
    );
    let phases = phase("load", "concurrency: 2, requests: 10");
    let workplace = Workplace::new(&(config("http://127.0.0.1:1", &phases) + &sweep));
    for (name, code) in [("HUP", 129), ("INT", 130), ("TERM", 143)] {
        let mut program = Command::new("env")
            .arg(format!("--default-signal={name}"))
            .arg(binary::ringload())
            .args(["config", "expand", "test.yaml"])
            .current_dir(workplace.folder())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        // It is at work: it prints more than a pipe takes, and nobody reads on.
        let mut first = [0];
        let output = program.stdout.as_mut().expect("a pipe");
        output.read_exact(&mut first).expect("the first byte");
        let id = program.id().to_string();
        let sent = Command::new("kill")
            .args(["-s", name, &id])
            .status()
            .expect("kill runs");
        assert!(sent.success());
        let status = program.wait().expect("the program ends");
        assert_eq!(status.code(), Some(code), "{name}: {status}");
    }
}
