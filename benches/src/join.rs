//! Records of a run beside the ledger of the mock server, request by request.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;

use ringload_mock_server::LedgerEntry;
use serde_json::Value;

/// What a line of `profile_export.jsonl` says about one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// `X-Request-ID` of the request.
    pub request_id: String,
    /// Phase that sent it.
    pub phase: String,
    /// Wall-clock nanoseconds of its start.
    pub start_ns: u64,
    /// Wall-clock nanoseconds of its end.
    pub end_ns: u64,
    /// From the start to the first token; streamed successes only.
    pub ttft_ms: Option<f64>,
    /// From the start to the last token; successes only.
    pub latency_ms: Option<f64>,
}

/// Time that is in the client's figures and not in the server's: both ways through the kernel, waiting in either process, and reading.
#[derive(Debug, Default)]
pub struct Added {
    /// In the time to first token, in milliseconds, one value per request.
    pub ttft_ms: Vec<f64>,
    /// In the request latency, in milliseconds, one value per request.
    pub latency_ms: Vec<f64>,
    /// Successful records that the ledger does not know, or knows without these times.
    pub unmatched: usize,
}

/// Reads the records of a run; with `phase`, only those of that phase.
///
/// # Errors
/// The file cannot be read, or a line is not a record.
pub fn read_records(path: &Path, phase: Option<&str>) -> io::Result<Vec<Record>> {
    let mut records = Vec::new();
    for (index, line) in BufReader::new(File::open(path)?).lines().enumerate() {
        let record = parse(&line?).ok_or_else(|| {
            let place = format!("{}:{}: not a record", path.display(), index + 1);
            io::Error::new(io::ErrorKind::InvalidData, place)
        })?;
        if phase.is_none_or(|phase| phase == record.phase) {
            records.push(record);
        }
    }
    Ok(records)
}

fn parse(line: &str) -> Option<Record> {
    let line: Value = serde_json::from_str(line).ok()?;
    let metadata = &line["metadata"];
    let metric = |name: &str| line["metrics"][name]["value"].as_f64();
    Some(Record {
        request_id: metadata["x_request_id"].as_str()?.to_owned(),
        phase: metadata["phase_name"].as_str()?.to_owned(),
        start_ns: metadata["request_start_ns"].as_u64()?,
        end_ns: metadata["request_end_ns"].as_u64()?,
        ttft_ms: metric("time_to_first_token"),
        latency_ms: metric("request_latency"),
    })
}

/// Entries of a ledger by their request id.
pub fn by_id(ledger: &[LedgerEntry]) -> HashMap<&str, &LedgerEntry> {
    let named = |entry: &'_ LedgerEntry| entry.request_id.is_some();
    ledger
        .iter()
        .filter(|entry| named(entry))
        .map(|entry| (entry.request_id.as_deref().unwrap_or_default(), entry))
        .collect()
}

/// Takes the server's spans from the client's, for every successful record.
///
/// The server's span begins when it had read the whole request and ends just before it hands the token to the kernel, so nothing that the
/// server spends on its own schedule counts as added. What it spends before it reads a request that has arrived does: the figure is an upper
/// bound of what the client adds.
pub fn added(records: &[Record], ledger: &[LedgerEntry]) -> Added {
    let entries = by_id(ledger);
    let mut added = Added::default();
    for record in records {
        let Some(latency_ms) = record.latency_ms else { continue };
        let spans = entries.get(record.request_id.as_str()).and_then(|entry| {
            let since_arrival = |at: Option<u64>| Some(at?.checked_sub(entry.receive_complete_ns)? as f64 / 1e6);
            Some((
                since_arrival(entry.first_token_ns)?,
                since_arrival(entry.last_token_ns)?,
            ))
        });
        let (Some((first_ms, last_ms)), Some(ttft_ms)) = (spans, record.ttft_ms) else {
            added.unmatched += 1;
            continue;
        };
        added.ttft_ms.push(ttft_ms - first_ms);
        added.latency_ms.push(latency_ms - last_ms);
    }
    added
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"metadata":{"x_request_id":"a","phase_name":"p","request_start_ns":5,"request_end_ns":9},
        "metrics":{"time_to_first_token":{"value":101.5,"unit":"ms"},"request_latency":{"value":130.25,"unit":"ms"}}}"#;

    fn entry(id: &str) -> LedgerEntry {
        let entry = serde_json::json!({
            "api": "chat", "receive_complete_ns": 1_000_000_000_u64, "first_byte_ns": 1_100_000_000_u64, "last_byte_ns": 1_130_100_000_u64,
            "first_token_ns": 1_101_000_000_u64, "last_token_ns": 1_130_000_000_u64, "request_bytes": 1, "response_bytes": 1,
            "request_id": id, "session": null, "prompt_words": 1, "tokens_sent": 2, "outcome": "complete", "fault": null,
            "in_flight_at_arrival": 1, "connection": 1, "client": "127.0.0.1:4000", "thread": 0,
        });
        serde_json::from_value(entry).expect("an entry")
    }

    #[test]
    fn the_client_adds_what_the_server_did_not_spend() {
        let record = parse(&LINE.replace('\n', "")).expect("a record");
        let other = Record {
            request_id: "b".into(),
            ..record.clone()
        };
        let added = added(&[record, other], &[entry("a"), entry("c")]);
        assert_eq!((added.ttft_ms, added.latency_ms), (vec![0.5], vec![0.25]));
        assert_eq!(added.unmatched, 1, "the ledger has no request b");
    }

    #[test]
    fn failed_requests_have_no_latency_to_compare() {
        let failed = Record {
            latency_ms: None,
            ..parse(&LINE.replace('\n', "")).expect("a record")
        };
        let added = added(&[failed], &[entry("a")]);
        assert!(added.latency_ms.is_empty() && added.unmatched == 0);
    }
}
