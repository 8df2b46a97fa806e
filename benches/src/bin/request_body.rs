//! Prints the body of the first request of a run, so that other clients can send the very same bytes.
//!
//! ```text
//! request_body INPUTS_JSON
//! ```

use std::io::Write as _;
use std::process::ExitCode;

use serde_json::Value;

fn main() -> ExitCode {
    match body() {
        Ok(body) => {
            // A reader that went away has what it wanted.
            let _ = std::io::stdout().write_all(body.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("request_body: {error}");
            ExitCode::FAILURE
        }
    }
}

fn body() -> Result<String, String> {
    let path = std::env::args().nth(1).ok_or("usage: request_body INPUTS_JSON")?;
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let inputs: Value = serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
    match &inputs["data"][0]["payloads"][0] {
        Value::Null => Err(format!("{path}: no payload in its first entry")),
        payload => Ok(payload.to_string()),
    }
}
