//! Every reader of foreign bytes against inputs that nobody would write: no panic, no hang, no memory without end.
//!
//! The inputs are numbered, and a number always makes the same input. A failure prints it; `RINGLOAD_MUTATIONS_FROM=NUMBER RINGLOAD_MUTATIONS=1`
//! makes that one input again, and a large `RINGLOAD_MUTATIONS` looks for longer. `fuzz/` drives the same faces with coverage as its guide.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Instant;

use ringload_engine::fuzzable;
use ringload_tests::PATIENCE;
use ringload_tests::hurtful;
use ringload_tests::mutate::Corpus;
use ringload_tests::sys::heap::Gauged;

#[global_allocator]
static ALLOCATOR: Gauged = Gauged;

/// There is one gauge in a process.
static ALONE: Mutex<()> = Mutex::new(());

/// Inputs of each reader.
const INPUTS: u64 = 1_000;

/// Most memory that an input may take: some copies of the largest tree that a config may become.
const MEMORY: usize = 64 << 20;

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn hold_against(name: &str, corpus: Corpus, read: fn(&[u8])) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let from = number_of("RINGLOAD_MUTATIONS_FROM").unwrap_or(0);
    let until = from.saturating_add(number_of("RINGLOAD_MUTATIONS").unwrap_or(INPUTS));
    let at = AtomicU64::new(from);
    let again =
        |number| format!("{name}: input {number}; again with RINGLOAD_MUTATIONS_FROM={number} RINGLOAD_MUTATIONS=1");
    let (ended, end) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ended = ended;
            let mut slowest = (std::time::Duration::ZERO, from);
            let mut largest = (0, from);
            for number in from..until {
                at.store(number, Ordering::Release);
                let input = corpus.input(number);
                let (before, begin) = (Gauged::begin(), Instant::now());
                let result = catch_unwind(AssertUnwindSafe(|| read(&input)));
                let (taken, elapsed) = (Gauged::peak() - before, begin.elapsed());
                assert!(
                    result.is_ok(),
                    "{}:\n{}",
                    again(number),
                    String::from_utf8_lossy(&input)
                );
                assert!(taken <= MEMORY, "{} takes {taken} bytes", again(number));
                slowest = slowest.max((elapsed, number));
                largest = largest.max((taken, number));
            }
            println!(
                "{name}: {} inputs; slowest {slowest:?}; largest {largest:?}",
                until - from
            );
        });
        // A reader that hangs cannot be ended, only told of.
        loop {
            let last = at.load(Ordering::Acquire);
            match end.recv_timeout(PATIENCE) {
                Err(mpsc::RecvTimeoutError::Timeout) if at.load(Ordering::Acquire) == last => {
                    eprintln!("{} does not end", again(last));
                    std::process::exit(1);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
    });
}

/// The files below the folders, relative to the package, with this ending.
fn files(folders: &[&str], ending: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for folder in folders {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut paths: Vec<_> = entries
            .map(|entry| entry.expect("a folder that is readable").path())
            .collect();
        // The order of a folder is the file system's; numbers of inputs must not depend on it.
        paths.sort();
        let wanted = paths
            .iter()
            .filter(|path| path.extension().is_some_and(|found| found == ending));
        found.extend(wanted.map(|path| fs::read(path).expect("a readable case")));
    }
    found
}

fn words(words: &[&'static str]) -> Vec<&'static [u8]> {
    words.iter().map(|word| word.as_bytes()).collect()
}

#[test]
fn any_config_is_read_or_refused_with_places() {
    let seeds = files(&["cases/config/valid", "cases/config/invalid", "../examples"], "yaml");
    assert!(seeds.len() > 200, "only {} cases", seeds.len());
    let mut words = words(&[
        "{",
        "}",
        "[",
        "]",
        ": ",
        "- ",
        "? ",
        "\n",
        "\n  ",
        "\t",
        "\r",
        "\r\n",
        "&a ",
        "*a",
        "*a, ",
        "<<: *a",
        "<<: [*a, *a]",
        "!!str ",
        "!x ",
        "|\n",
        ">-\n",
        "'",
        "\"",
        ",",
        "#",
        "---\n",
        "...\n",
        "%YAML 1.1\n",
        "${",
        "${X}",
        "${X:1}",
        "${EMPTY}",
        "${LONG}",
        "{{ x }}",
        "{{ v1 * 2 }}",
        "{{",
        "{% for i in range(9) %}",
        "{% endfor %}",
        "variables: {v1: \"{{ v2 }}\", v2: 3}\n",
        "sweep: {type: grid, parameters: {",
        "phases.profiling.concurrency: [1, 2]",
        "variables.v1: [1, 2]",
        "multi_run: {num_runs: 3}\n",
        "null",
        "~",
        "true",
        "010",
        "1:30",
        ".inf",
        ".nan",
        "-1",
        "1e400",
        "1e-400",
        "99999999999999999999999999999999999999999999",
        "0x7f",
        "\u{0}",
        "\u{7f}",
        "\u{feff}",
        "\u{2028}",
        "\u{85}",
        "\u{1F600}",
        "\\x1b",
        "\\u0000",
        "/dev/zero",
        "api_key: ",
        "headers: {",
        "url: http://u:p@h",
        "name: ",
        "type: ",
        "phases: ",
        "rate_series: ",
        "adaptive_scale: ",
        "cancellation: ",
    ]);
    words.push(b"\xff\xfe");
    words.push(b"\xc3");
    let corpus = Corpus {
        seeds,
        words,
        limit: 64 << 10,
    };
    hold_against("config", corpus, fuzzable::config);
}

#[test]
fn files_made_to_hurt_cost_no_more_than_their_size() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, text) in hurtful::configs() {
        let (before, begin) = (Gauged::begin(), Instant::now());
        fuzzable::config(text.as_bytes());
        let (taken, elapsed) = (Gauged::peak() - before, begin.elapsed());
        println!("{name}: {} bytes, {elapsed:?}, {} KiB", text.len(), taken >> 10);
        // A sweep of 10,000 small variations and trees of 200,000 values fit in here; what multiplies does not.
        assert!(taken <= 16 * MEMORY, "{name}: {taken} bytes");
        assert!(elapsed < PATIENCE, "{name}: {elapsed:?}");
    }
}

#[test]
fn any_answer_means_the_same_however_it_is_split() {
    let event = |data: &str| format!("data: {data}\n\n");
    let token = r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"hé\u00e9 \ud83d\ude00"},"finish_reason":null}]}"#;
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":1}}}"#;
    let finish = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    let error = r#"{"error":{"message":"no","code":503}}"#;
    let stream = [token, token, finish, usage, "[DONE]"].map(event).concat();
    let broken = [token, error].map(event).concat();
    let whole = r#"{"choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    let sized = |status: &str, kind: &str, body: &str| {
        format!(
            "\u{8}HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let chunked = |body: &str| {
        let parts: Vec<String> = body
            .as_bytes()
            .chunks(31)
            .map(|part| format!("{:x};n\r\n{}\r\n", part.len(), String::from_utf8_lossy(part)))
            .collect();
        format!(
            "\u{8}HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\nT: r\r\n\r\n",
            parts.concat()
        )
    };
    let seeds = [
        sized("200 OK", "text/event-stream", &stream),
        sized("200 OK", "application/json", whole),
        sized("401 No", "application/json", error),
        sized("200 OK", "text/event-stream", &broken),
        chunked(&stream),
        format!(
            "\u{8}HTTP/1.1 103 Early\r\nLink: x\r\n\r\n{}",
            sized("200 OK", "application/json", whole).trim_start_matches('\u{8}')
        ),
        "\u{8}HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nuntil the end".to_owned(),
    ];
    let corpus = Corpus {
        seeds: seeds.map(String::into_bytes).to_vec(),
        words: words(&[
            "\r\n",
            "\n",
            "\r",
            "\r\n\r\n",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 204 No\r\n\r\n",
            "Content-Length: 5\r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Content-Length: -1\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip\r\n",
            "Content-Encoding: gzip\r\n",
            "Connection: close\r\n",
            "0\r\n\r\n",
            "ffffffffffffffff\r\n",
            "5;x=\"y\"\r\n",
            "00000005\r\n",
            "data: ",
            "data:",
            "event: error\n",
            ": ping\n\n",
            "[DONE]",
            "{",
            "}",
            "[",
            "\"",
            "\\",
            "\\u",
            "\\ud83d",
            "null",
            "1e999",
            "\u{feff}",
            "\u{0}",
        ]),
        limit: 16 << 10,
    };
    hold_against("http", corpus, fuzzable::http);
    let body = |text: String| [b"\x08".as_slice(), text.as_bytes()].concat();
    let corpus = Corpus {
        seeds: vec![
            body(stream.clone()),
            body(broken),
            body(stream.replace('\n', "\r\n")),
            body(stream.replace('\n', "\r")),
        ],
        words: words(&[
            "\n",
            "\r",
            "\r\n",
            "\n\n",
            "data: ",
            "data:",
            "data\n",
            "event: error\n",
            "event: x\n",
            ": ping\n\n",
            "id: 1\n",
            "retry: 5\n",
            "[DONE]",
            "{",
            "}",
            "[",
            "]",
            "\"",
            "\\",
            "\\u00",
            "\\ud83d",
            "null",
            "\"choices\":",
            "\"delta\":",
            "\"content\":",
            "\"usage\":",
            "\"error\":",
            "\u{feff}",
            "\u{0}",
            "\u{1F600}",
        ]),
        limit: 16 << 10,
    };
    hold_against("sse", corpus, fuzzable::sse);
}

#[test]
fn any_journal_is_read_or_damaged() {
    // A run's own journal is gone when it ends, so the blocks here are made of numbers: enough for headers, lengths and checksums.
    let mut file = b"\x00ringjrn\x04".to_vec();
    file.extend_from_slice(&[0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
    let payload = (0..=255u8).cycle().skip(1).take(600).collect();
    let corpus = Corpus {
        seeds: vec![file, payload, vec![1; 400], [vec![1], vec![0; 400]].concat()],
        words: vec![
            b"ringjrn\x04",
            b"ringload",
            b"\x00\x00\x00\x80",
            b"\xff\xff\xff\xff",
            b"\xff\xff",
            b"\x00\x00\x00\x00",
            b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80",
            b"\x01\x00\x00\x00",
        ],
        limit: 8 << 10,
    };
    hold_against("journal", corpus, fuzzable::journal);
}

#[test]
fn any_dataset_is_read_or_refused() {
    let texts = [
        "\u{0}{\"text\": \"a\"}\n{\"text\": \"b\", \"session_id\": \"s\", \"output_length\": 5}\n",
        "\u{1}{\"session_id\": \"s\", \"turns\": [{\"text\": \"a\", \"delay\": 5}, {\"text\": \"b\"}]}\n",
        "\u{2}{\"timestamp\": 0, \"input_length\": 40, \"output_length\": 5, \"hash_ids\": [1, 2, 3]}\n{\"timestamp\": 5, \"input_length\": 16, \"output_length\": 1}\n",
        "\u{3}{\"text\": \"a\"}\n{\"texts\": [\"b\", \"c\"]}\n",
    ];
    let corpus = Corpus {
        seeds: texts.map(|text| text.as_bytes().to_vec()).to_vec(),
        words: words(&[
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"",
            "\n",
            "\r\n",
            "\r",
            "\\u",
            "\\ud83d",
            "null",
            "-1",
            "1e400",
            "99999999999999999999999",
            "0.5",
            "\"hash_ids\": ",
            "\"timestamp\": ",
            "\"input_length\": ",
            "\"turns\": ",
            "\"delay\": ",
            "\"session_id\": \"s\"",
            "\u{feff}",
            "\u{0}",
            "\u{2028}",
        ]),
        limit: 16 << 10,
    };
    hold_against("dataset", corpus, fuzzable::dataset);
}

#[test]
fn any_answer_of_a_metrics_endpoint_means_the_same_however_it_is_split() {
    let texts = [
        "\u{7}# HELP v:run Requests, running.\n# TYPE v:run gauge\nv:run{m=\"a\"} 4\r\nv:run{m=\"b\"} NaN\n# TYPE v:tok_total counter\n\
         v:tok_total{m=\"a\"} 17\nv:tok_total{m=\"a\"} 17\n# HELP v:tok_created x\n# TYPE v:tok_created gauge\nv:tok_created{m=\"a\"} 1.7e9\n",
        "\u{1}# HELP h\n# TYPE h histogram\nh_bucket{le=\"0\"} 0\nh_bucket{le=\"0.5\"} 3 # {} 0.2 1.6e9\nh_bucket{le=\"+Inf\"} 4\nh_sum{} 2.5\n\
         h_count{} 4\n# TYPE s summary\ns{quantile=\"0.5\"} 1\ns_sum 1\ns_count 1\nplain 7 1700000000000\n# EOF\n",
        "\u{30}# TYPE DCGM_FI_DEV_POWER_USAGE gauge\nDCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=\"GPU-1\",pci_bus_id=\"0\",device=\"nvidia0\",\
         modelName=\"H200\",Hostname=\"n\"} 301.5\n# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n\
         DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu=\"0\",UUID=\"GPU-1\"} 123456789\nDCGM_FI_DEV_GPU_UTIL{gpu=\"1\",UUID=\"GPU-2\"} 97\n",
        "\u{2}<html><body>not found</body></html>\n",
    ];
    let corpus = Corpus {
        seeds: texts.map(|text| text.as_bytes().to_vec()).to_vec(),
        words: words(&[
            "{",
            "}",
            ",",
            "=",
            "\"",
            "\\\"",
            "\\n",
            "\\",
            " ",
            "\t",
            "\n",
            "\r\n",
            "\r",
            "# HELP ",
            "# TYPE ",
            "# EOF\n",
            "#",
            " counter\n",
            " gauge\n",
            " histogram\n",
            " summary\n",
            " untyped\n",
            "_total",
            "_created",
            "_bucket",
            "_sum",
            "_count",
            "_info",
            "le=\"+Inf\"",
            "le=\"\"",
            "NaN",
            "+Inf",
            "-Inf",
            "1e999",
            "-1",
            "18446744073709551616",
            "DCGM_FI_DEV_",
            "gpu=\"0\"",
            "UUID=\"GPU-1\"",
            "\u{feff}",
            "\u{0}",
            "\u{1F600}",
        ]),
        limit: 16 << 10,
    };
    hold_against("metrics", corpus, fuzzable::metrics);
}
