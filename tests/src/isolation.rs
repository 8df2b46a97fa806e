//! Tests whose subject is the whole process or the whole host: they run once more, alone, in a process or a network of their own.

use std::process::{Command, Output};

/// Set in the process that runs the body of a test, to the name of that test.
const INSIDE: &str = "RINGLOAD_TEST_ISOLATED";

/// Runs `body` in a process that does nothing else, for tests that count what a process has.
///
/// `test` is the name of the calling test; the process is this test program, told to run that test only.
///
/// # Panics
/// If the test fails there.
pub fn in_process_of_its_own(test: &str, body: impl FnOnce()) {
    isolated(test, None, body);
}

/// Runs `body` in a network with nothing but a loopback interface, after `setup` (shell commands) has changed that network to the needs of the
/// test. It has file-system mounts of its own too. Where this host does not allow that, it says so and tests nothing.
///
/// # Panics
/// If the test fails there.
pub fn in_network_of_its_own(test: &str, setup: &str, body: impl FnOnce()) {
    isolated(test, Some(setup), body);
}

fn isolated(test: &str, setup: Option<&str>, body: impl FnOnce()) {
    if std::env::var(INSIDE).is_ok_and(|inside| inside == test) {
        return body();
    }
    let program = std::env::current_exe().expect("a test has a path");
    let mut command = match setup {
        None => Command::new(&program),
        Some(setup) => {
            let probe = network(setup).arg("true").output();
            if !probe.as_ref().is_ok_and(|output| output.status.success()) {
                return eprintln!("skipped: {test}: no network of its own to be had here: {probe:?}");
            }
            let mut command = network(setup);
            command.arg(&program);
            command
        }
    };
    let output = command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(INSIDE, test)
        .output()
        .expect("a test program can be run");
    let Output { status, stdout, stderr } = output;
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let ran = stdout.contains("1 passed");
    assert!(
        status.success() && ran,
        "{test} on its own, {status}:\n{stdout}\n{stderr}"
    );
    print!("{stdout}");
}

/// A command in a new network, of which the program and its arguments are still to be named.
fn network(setup: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "sh", "-ec"]);
    command.arg(format!("ip link set lo up\n{setup}\nexec \"$@\""));
    command.arg("sh");
    command
}
