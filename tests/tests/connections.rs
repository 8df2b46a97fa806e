//! Connections: how many there are, where they go, what becomes of them, and that none is lost.
//!
//! Where each case that concerns the wire and connections is tested:
//!
//! | case | test |
//! |---|---|
//! | H01 | `wire`: `h01_*`; `faults`: `a_request_that_meets_the_end_of_a_kept_connection_is_sent_once_more_and_counted`, `a_connection_that_ends_before_the_answer_fails_its_request` |
//! | H03, H04 | `wire`: `h03_h04_*`; engine `http::chunked`: `h03_*`, `h04_*` |
//! | H06 | `wire`: `h06_*`; `faults`: `an_answer_that_breaks_off_fails_its_request` |
//! | H09 | `wire`: `h09_*`; `faults`: `an_interim_head_is_not_the_answer` |
//! | H11 | `h11_an_ipv6_server_is_reached_under_its_bracketed_name` |
//! | H13 | `wire`: `h13_*` |
//! | H14 | `wire`: `h14_*` |
//! | H15 | `wire`: `h15_*`; `faults`: `a_content_coding_that_nobody_asked_for_fails_its_request` |
//! | H17 | `wire`: `h17_*` |
//! | H18, H26 | `h18_h26_a_server_that_always_refuses_fails_the_run_and_shows_why` |
//! | H19 | `readiness`: `a_model_is_waited_for_*`, `a_server_is_waited_for_*`, `a_server_that_never_gets_ready_*` |
//! | H21 | `h21_*` |
//! | H23 | `faults`: `a_server_that_is_not_there_is_asked_steadily_and_the_run_ends_on_time` |
//! | H25 | `wire`: `h25_*` |
//! | H27 | `wire`: `h27_*` |
//! | T18 | `t18_*`; `connects_on_their_way_are_bounded` |
//! | P05 | engine `sys::uring`: `p05_*`; `platform`: `a_kernel_without_the_features_leaves_epoll` |
//! | P06, P13 | `races`: `p06_p13_*` |
//! | P07 | `races`: `p07_*` |
//! | P08, P14 | `races`: `p08_p14_*`; `cancellation`: `leftover_disconnects_do_not_hit_later_requests_on_the_connection` |
//! | P09 | `races`: `p09_*` |
//! | P10 | `interrupt`: `in_the_middle_of_streams`, `a_profiler_that_runs_is_stopped` |

use std::collections::BTreeMap;
use std::net::{IpAddr, TcpListener};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringload_engine::plan::ConnectionReuse;
use ringload_engine::run::RunError;
use ringload_mock_server::MockServer;
use ringload_tests::binary::ringload;
use ringload_tests::books::Books;
use ringload_tests::isolation::in_network_of_its_own;
use ringload_tests::peak::Peak;
use ringload_tests::server::{ScriptedServer, faulty};
use ringload_tests::{Ending, Phase, Run, Scenario, mock};
use serde_json::Value;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What a phase did about connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Connections {
    opened: u64,
    reconnects: u64,
    resends: u64,
    local_ports_exhausted: u64,
}

fn connections(run: &Run, phase: &str) -> Connections {
    let summary = run.summary(phase);
    let client = &summary["ringload"]["client"];
    let count = |key: &str| client[key].as_u64().unwrap_or_else(|| panic!("{key} in {client}"));
    Connections {
        opened: count("connections_opened"),
        reconnects: count("reconnects"),
        resends: count("resends"),
        local_ports_exhausted: count("local_ports_exhausted"),
    }
}

/// A figure of all cores together.
fn of_cores(run: &Run, key: &str) -> u64 {
    let root = run.root();
    let cores = root["ringload"]["cores"].as_array().expect("a list of cores");
    cores.iter().map(|core| core[key].as_u64().expect("a count")).sum()
}

// --- reuse -----------------------------------------------------------------------------------------------------------------------------

fn reusing(reuse: ConnectionReuse) -> (Run, MockServer) {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .cores(2)
        .connection_reuse(reuse)
        .phase(Phase::closed("load", 6).requests(60))
        .run();
    assert_eq!(run.counts("load").succeeded, 60);
    Books::complete(&run, &server);
    (run, server)
}

#[test]
fn pooled_connections_are_used_again_and_others_are_not() {
    for (reuse, opened) in [
        (ConnectionReuse::Pooled, 6),
        (ConnectionReuse::Never, 60),
        // A session has one request.
        (ConnectionReuse::StickyUserSessions, 60),
    ] {
        let (run, server) = reusing(reuse);
        assert_eq!(server.counters().connections, opened, "{reuse:?}");
        let counts = connections(&run, "load");
        assert_eq!(
            (counts.opened, counts.reconnects, counts.resends),
            (opened, opened - 6, 0),
            "{reuse:?}"
        );
        assert_eq!(
            (of_cores(&run, "connections_opened"), of_cores(&run, "reconnects")),
            (opened, opened - 6)
        );
        let reused = |value| {
            move |record: &&_| ringload_tests::Record::metric(record, "http_req_connection_reused") == Some(value)
        };
        assert_eq!(
            run.records.iter().filter(reused(1.0)).count() as u64,
            60 - opened,
            "{reuse:?}"
        );
    }
}

#[test]
fn only_a_connection_that_is_never_used_again_is_announced_to_the_server_as_such() {
    for (reuse, announced) in [
        (ConnectionReuse::Pooled, None),
        (ConnectionReuse::Never, Some("close")),
        (ConnectionReuse::StickyUserSessions, None),
    ] {
        let server = ScriptedServer::new(move |mut client| {
            while let Some(request) = client.request() {
                assert_eq!(request.header("connection"), announced);
                client.answer();
            }
        });
        let run = Scenario::new(server.address())
            .whole_answers()
            .connection_reuse(reuse)
            .phase(Phase::closed("load", 2).requests(6))
            .run();
        assert_eq!(run.counts("load").succeeded, 6, "{reuse:?}");
    }
}

// --- addresses -------------------------------------------------------------------------------------------------------------------------

/// Requests by the addresses of both ends, that of the client first.
type Book = BTreeMap<(IpAddr, IpAddr), usize>;

/// A server that counts the addresses of its clients, and of its own ends.
fn address_book(address: &str) -> (ScriptedServer, Arc<Mutex<Book>>) {
    let book: Arc<Mutex<Book>> = Arc::default();
    let server = ScriptedServer::at(address, {
        let book = Arc::clone(&book);
        move |mut client| {
            let [from, to] =
                [client.stream.peer_addr(), client.stream.local_addr()].map(|end| end.expect("connected").ip());
            while client.request().is_some() {
                *book.lock().expect("no server panics").entry((from, to)).or_default() += 1;
                client.answer();
            }
        }
    });
    (server, book)
}

fn pair(from: &str, to: &str) -> (IpAddr, IpAddr) {
    let [from, to] = [from, to].map(|text| text.parse().expect("an address"));
    (from, to)
}

#[test]
fn source_addresses_take_turns() {
    let (server, book) = address_book("127.0.0.1:0");
    let run = Scenario::new(server.address())
        .whole_answers()
        .connection_reuse(ConnectionReuse::Never)
        .source_addresses(&["127.0.0.5", "127.0.0.6", "127.0.0.7"])
        .phase(Phase::closed("load", 4).requests(60))
        .run();
    assert_eq!(run.counts("load").succeeded, 60);
    let expected = ["127.0.0.5", "127.0.0.6", "127.0.0.7"].map(|from| (pair(from, "127.0.0.1"), 20));
    assert_eq!(*book.lock().expect("no server panics"), expected.into());
    assert_eq!(
        run.root()["ringload"]["source_addresses"],
        serde_json::json!(["127.0.0.5", "127.0.0.6", "127.0.0.7"])
    );
}

#[test]
fn a_source_address_that_cannot_be_used_is_refused_before_any_load() {
    let server = mock(|_| {});
    // 192.0.2.0/24 is for documentation, so no host has it.
    for (source, words) in [("192.0.2.1", "cannot be bound"), ("::1", "no IPv6 address")] {
        let refusal = Scenario::new(server.address())
            .source_addresses(&[source])
            .phase(Phase::closed("load", 1).requests(1))
            .start()
            .refused();
        assert!(
            matches!(refusal, RunError::SourceAddress { .. }) && refusal.is_usage(),
            "{refusal}"
        );
        assert!(refusal.to_string().contains(words), "{refusal}");
    }
    assert_eq!(server.counters().connections, 0);
}

#[test]
fn h11_an_ipv6_server_is_reached_under_its_bracketed_name() {
    if TcpListener::bind("[::1]:0").is_err() {
        return eprintln!("skipped: this host has no IPv6");
    }
    let hosts: Arc<Mutex<Vec<String>>> = Arc::default();
    let server = ScriptedServer::at("[::1]:0", {
        let hosts = Arc::clone(&hosts);
        move |mut client| {
            while let Some(request) = client.request() {
                let host = request.header("host").expect("HTTP/1.1 has a host").to_owned();
                hosts.lock().expect("no server panics").push(host);
                client.answer();
            }
        }
    });
    let folder = tempfile::tempdir().expect("a temporary directory");
    let url = format!("http://{}", server.address());
    let output = profile(folder.path(), &url, "requests: 10", &["--source-address", "::1"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let expected = format!("[::1]:{}", server.address().port());
    assert_eq!(*hosts.lock().expect("no server panics"), vec![expected; 10]);
}

/// A name with three addresses of both families.
const TWIN: &str = "printf '127.0.0.1 twin.test\\n::1 twin.test\\n127.0.0.2 twin.test\\n' > /dev/shm/hosts.$$\n\
                    mount --bind /dev/shm/hosts.$$ /etc/hosts\nrm /dev/shm/hosts.$$";

#[test]
fn all_addresses_of_a_name_take_turns_and_ipv4_is_preferred() {
    let test = "all_addresses_of_a_name_take_turns_and_ipv4_is_preferred";
    in_network_of_its_own(test, TWIN, || {
        let (server, book) = address_book("0.0.0.0:0");
        let run = Scenario::new(server.address())
            .host("twin.test")
            .whole_answers()
            .connection_reuse(ConnectionReuse::Never)
            .phase(Phase::closed("load", 3).requests(40))
            .run();
        assert_eq!(run.counts("load").succeeded, 40);
        let port = server.address().port();
        let addresses = run.root()["ringload"]["server_addresses"].clone();
        assert_eq!(
            addresses,
            serde_json::json!([format!("127.0.0.1:{port}"), format!("127.0.0.2:{port}")])
        );
        // The kernel answers from the address that was asked.
        let expected = ["127.0.0.1", "127.0.0.2"].map(|to| (pair("127.0.0.1", to), 20));
        let found = book.lock().expect("no server panics").clone();
        let by_server =
            |book: &Book| -> BTreeMap<IpAddr, usize> { book.iter().map(|((_, to), count)| (*to, *count)).collect() };
        assert_eq!(by_server(&found), by_server(&expected.into()));
    });
}

#[test]
fn an_address_where_nobody_listens_fails_its_requests_and_no_other() {
    let test = "an_address_where_nobody_listens_fails_its_requests_and_no_other";
    in_network_of_its_own(test, TWIN, || {
        let (server, _) = address_book("127.0.0.2:0");
        let run = Scenario::new(server.address())
            .host("twin.test")
            .whole_answers()
            .connection_reuse(ConnectionReuse::Never)
            .phase(Phase::closed("load", 1).requests(20))
            .run();
        assert_eq!((run.counts("load").succeeded, run.counts("load").failed), (10, 10));
        assert_eq!(
            server.connections(),
            10,
            "no hidden second try and no connection before the load"
        );
        // A connect that failed is no connection that ended.
        let counts = connections(&run, "load");
        assert_eq!((counts.opened, counts.reconnects), (10, 9));
        for record in run.records.iter().filter(|record| record.ending() == Ending::Failed) {
            assert_eq!(record.error.as_ref().expect("a failure").kind, "ConnectionRefusedError");
        }
    });
}

// --- ports -----------------------------------------------------------------------------------------------------------------------------

/// 50 local ports, none of which is used again while its connection is remembered.
const FEW_PORTS: &str = "echo '30000 30049' > /proc/sys/net/ipv4/ip_local_port_range\n\
                         echo 0 > /proc/sys/net/ipv4/tcp_tw_reuse";

fn on_few_ports(sources: &[&str]) -> Run {
    let (server, _) = address_book("127.0.0.1:8000");
    Scenario::new(server.address())
        .whole_answers()
        // Closed by the client, which therefore has to remember the connection.
        .connection_reuse(ConnectionReuse::StickyUserSessions)
        .source_addresses(sources)
        .phase(Phase::closed("load", 4).requests(200))
        .run()
}

#[test]
fn h21_local_ports_that_run_out_are_named_with_their_remedies() {
    let test = "h21_local_ports_that_run_out_are_named_with_their_remedies";
    in_network_of_its_own(test, FEW_PORTS, || {
        let run = on_few_ports(&[]);
        assert_eq!((run.counts("load").succeeded, run.counts("load").failed), (50, 150));
        let counts = connections(&run, "load");
        assert_eq!((counts.opened, counts.local_ports_exhausted), (50, 150));
        let summary = run.root()["error_summary"].clone();
        assert_eq!(summary.as_array().map(Vec::len), Some(1), "{summary}");
        assert_eq!(
            summary[0]["error_details"]["type"], "LocalPortsExhaustedError",
            "{summary}"
        );
        // The run is marked as limited by the client, with the remedies.
        let verdict = run.summary("load")["ringload"]["client"].clone();
        assert_eq!(
            (&verdict["verdict"], &verdict["figure"]),
            (&"invalid".into(), &"local_ports_exhausted".into())
        );
        for words in ["--source-address", "ip_local_port_range", "connection_reuse: pooled"] {
            let message = summary[0]["error_details"]["message"].as_str().expect("a message");
            assert!(message.contains(words), "{words}: {message}");
            assert!(
                verdict["reason"].as_str().is_some_and(|reason| reason.contains(words)),
                "{words}: {verdict}"
            );
        }
    });
}

#[test]
fn h21_more_source_addresses_have_more_ports() {
    let test = "h21_more_source_addresses_have_more_ports";
    in_network_of_its_own(test, FEW_PORTS, || {
        let run = on_few_ports(&["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"]);
        assert_eq!(run.counts("load").succeeded, 200);
        assert_eq!(connections(&run, "load").local_ports_exhausted, 0);
    });
}

#[test]
fn h21_ports_are_counted_for_each_address_of_the_server_too() {
    let test = "h21_ports_are_counted_for_each_address_of_the_server_too";
    in_network_of_its_own(test, &format!("{TWIN}\n{FEW_PORTS}"), || {
        let (server, _) = address_book("0.0.0.0:8000");
        let run = Scenario::new(server.address())
            .host("twin.test")
            .whole_answers()
            .connection_reuse(ConnectionReuse::StickyUserSessions)
            .source_addresses(&["127.0.0.2", "127.0.0.3"])
            .phase(Phase::closed("load", 4).requests(200))
            .run();
        // 50 for each of 2 x 2 pairs; a port that were bound before it is known where it leads could serve one server only.
        assert_eq!(run.counts("load").succeeded, 200);
    });
}

// --- pace ------------------------------------------------------------------------------------------------------------------------------

#[test]
fn t18_reconnects_of_a_storm_are_counted_with_it_and_not_with_the_recovery() {
    let server = mock(|options| options.ttft = ms(5));
    let run = Scenario::new(server.address())
        .phase(Phase::closed("before", 64).requests(256))
        .phase(
            Phase::closed("storm", 256)
                .requests(2_000)
                .cancelling(0.5, Duration::ZERO),
        )
        .phase(Phase::closed("after", 64).requests(256))
        .run();
    let [before, storm, after] = ["before", "storm", "after"].map(|phase| connections(&run, phase));
    let cancelled = run.counts("storm").cancelled;
    assert!(cancelled > 800, "{cancelled}");
    assert_eq!((before.opened, before.reconnects), (64, 0));
    // Every cancelled request takes its connection with it, and at most the last 256 of them find no successor. Beside the successors the storm
    // opens what it needs beyond the 64 connections that it found, up to 256 at once; fewer if cancellations are quicker than connects.
    assert!(
        (cancelled - 256..=cancelled).contains(&storm.reconnects),
        "{storm:?} after {cancelled} cancellations"
    );
    assert!((1..=192).contains(&(storm.opened - storm.reconnects)), "{storm:?}");
    assert!(after.opened <= 64, "{after:?}");
    let all = of_cores(&run, "connections_opened");
    assert_eq!(all, before.opened + storm.opened + after.opened);
    assert_eq!(all, server.counters().connections);
    Books::complete(&run, &server);
}

/// Sockets of this network that wait for the answer to their SYN, from tcp(5) of proc.
fn connecting_sockets() -> usize {
    const SYN_SENT: &str = "02";
    let table = std::fs::read_to_string("/proc/net/tcp").expect("proc is there");
    let state = |line: &str| line.split_whitespace().nth(3).map(|state| state == SYN_SENT);
    table.lines().skip(1).filter_map(state).filter(|&waits| waits).count()
}

#[test]
fn connects_on_their_way_are_bounded() {
    let test = "connects_on_their_way_are_bounded";
    in_network_of_its_own(test, "echo 8 > /proc/sys/net/core/somaxconn", || {
        // Nobody accepts: the ninth connection and all after it wait for their SYN to be answered.
        let listener = TcpListener::bind("127.0.0.1:8000").expect("the network is empty");
        let peak = Peak::of(connecting_sockets);
        let run = Scenario::new(listener.local_addr().expect("bound"))
            .phase(Phase::closed("load", 2_000).lasting(ms(900)).grace(Duration::ZERO))
            .run();
        let peak = peak.so_far();
        // The table is read in pieces while it changes, so a few may be seen twice.
        assert!((900..1_050).contains(&peak), "{peak} connects on their way");
        let counts = run.counts("load");
        assert_eq!(
            (counts.sent, counts.truncated),
            (1_024 + 9, 1_024 + 9),
            "no connect is given up for room"
        );
        // A core that waits for room sleeps and does not ask the kernel again and again.
        let enters = of_cores(&run, "driver_enters");
        assert!(enters < 2_000, "{enters} enters for 1,033 connects");
    });
}

// --- the program -----------------------------------------------------------------------------------------------------------------------

/// Runs the program on one phase of one connection at a time.
fn profile(folder: &std::path::Path, url: &str, stop: &str, more: &[&str]) -> std::process::Output {
    let config = folder.join("test.yaml");
    let text = format!(
        "benchmark:\n  model: m\n  endpoint: {{url: '{url}', type: chat}}\n  dataset: {{type: synthetic, entries: 2, prompts: {{isl: 16}}}}\n  \
         phases: {{type: concurrency, concurrency: 1, {stop}}}\n"
    );
    std::fs::write(&config, text).expect("the folder can be written");
    Command::new(ringload())
        .args([
            "profile",
            "--ui",
            "none",
            "--cores",
            "1",
            "--no-server-metrics",
            "--output-artifact-dir",
        ])
        .arg(folder.join("results"))
        .arg("--config")
        .arg(&config)
        .args(more)
        .output()
        .expect("the program starts")
}

#[test]
fn h18_h26_a_server_that_always_refuses_fails_the_run_and_shows_why() {
    let reason = r#"{"error":{"message":"max_tokens must be below 4096"}}"#;
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-length: {}\r\n\r\n{reason}",
        reason.len()
    );
    let refusing = ScriptedServer::new(move |mut client| while client.request().is_some() && client.send(&answer) {});
    let lost = faulty("status:404");
    for (url, words) in [
        (
            format!("http://{}", refusing.address()),
            "max_tokens must be below 4096",
        ),
        (lost.url(), "404"),
    ] {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let output = profile(folder.path(), &url, "requests: 10", &[]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(words), "{words:?} is not in {told}");
        let text = std::fs::read(folder.path().join("results/profile_export_aiperf.json")).expect("a summary");
        let root: Value = serde_json::from_slice(&text).expect("JSON");
        assert!(root.get("request_throughput").is_none(), "nothing succeeded");
        assert_eq!(root["request_error_rate"]["avg"], 100.0);
    }
}

#[test]
fn an_address_that_is_none_and_one_of_another_host_are_usage_errors() {
    let server = mock(|_| {});
    let folder = tempfile::tempdir().expect("a temporary directory");
    for (address, words) in [
        ("here", "invalid value 'here'"),
        ("192.0.2.1", "--source-address 192.0.2.1"),
    ] {
        let output = profile(
            folder.path(),
            &server.url(),
            "requests: 1",
            &["--source-address", address],
        );
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(words), "{told}");
    }
    assert_eq!(server.counters().connections, 0);
}
