//! Prints the body of the first request of a run, so that other clients can send the very same bytes.
//!
//! ```text
//! request_body INPUTS_JSON
//! ```

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

use ringload_benches::harness;
use serde_json::Value;

fn main() -> ExitCode {
    harness::exit("request_body", run())
}

fn run() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: request_body INPUTS_JSON")?;
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let inputs: Value = serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
    match &inputs["data"][0]["payloads"][0] {
        Value::Null => Err(format!("{path}: no payload in its first entry").into()),
        payload => Ok(std::io::stdout().write_all(payload.to_string().as_bytes())?),
    }
}
