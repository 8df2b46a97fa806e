//! The program under test: started, waited for, and its artifacts asked.

use std::error::Error;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::Value;

/// Starts a client. What it prints goes to standard error, so that standard output holds figures only.
///
/// # Errors
/// There is no such program, or it cannot be run.
pub fn start(command: &[String]) -> io::Result<Child> {
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no command to run"))?;
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(io::stderr())
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("cannot run {program}: {error}")))
}

/// Refuses a client that did not end well: its figures would mean nothing.
///
/// # Errors
/// The client failed; the message names it.
pub fn expect_success(command: &[String], status: ExitStatus) -> io::Result<()> {
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{} ended with {status}", command.join(" "))))
}

/// What ringload says about itself in the artifacts of its run: the member `ringload` of the summary.
///
/// # Errors
/// There is no summary in `directory`, or it has no such member.
pub fn facts(directory: &Path) -> Result<Value, Box<dyn Error>> {
    let path = directory.join("profile_export_aiperf.json");
    let text = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    match serde_json::from_slice::<Value>(&text)?["ringload"].take() {
        Value::Null => Err(format!("{}: not a summary of ringload", path.display()).into()),
        facts => Ok(facts),
    }
}

/// The sum of one figure over all cores. `None` if a core does not have it, or there is no core.
pub fn sum_of_cores(facts: &Value, figure: &str) -> Option<f64> {
    let cores = facts["cores"].as_array().filter(|cores| !cores.is_empty())?;
    cores.iter().map(|core| core[figure].as_f64()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_client_that_fails_is_named() {
        let command = words("false --now");
        let status = start(&command).and_then(|mut child| child.wait()).expect("it runs");
        let error = expect_success(&command, status).expect_err("false fails").to_string();
        assert!(error.starts_with("false --now ended with"), "{error}");
        let error = start(&words("/no/such/client")).expect_err("not there").to_string();
        assert!(error.starts_with("cannot run /no/such/client: "), "{error}");
    }

    #[test]
    fn a_sum_needs_the_figure_of_every_core() {
        let facts = serde_json::json!({ "cores": [{ "a": 1, "b": 2 }, { "a": 0.5 }] });
        assert_eq!(sum_of_cores(&facts, "a"), Some(1.5));
        assert_eq!(sum_of_cores(&facts, "b"), None);
        assert_eq!(sum_of_cores(&serde_json::json!({ "cores": [] }), "a"), None);
    }
}
