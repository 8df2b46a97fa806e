//! Several URLs behind one load: sessions take them in turn, each has connections of its own, and each is counted.

use std::process::Command;
use std::time::Duration;

use ringload_engine::plan::{ConnectionReuse, Verification};
use ringload_mock_server::MockServer;
use ringload_tests::program::{Program, Workplace, config, phase};
use ringload_tests::server::{faulty, nobody};
use ringload_tests::tls::{Authority, TlsServer};
use ringload_tests::{Phase, Run, Scenario, eventually, mock};

fn three() -> [MockServer; 3] {
    [1, 2, 3].map(|last| mock(|options| options.host = format!("127.0.0.{last}")))
}

fn against(servers: &[MockServer]) -> Scenario {
    let (first, others) = servers.split_first().expect("a server");
    others.iter().fold(Scenario::new(first.address()), |scenario, server| {
        scenario.also(server.address())
    })
}

/// A count of each server, from the artifacts of a phase.
fn told(run: &Run, phase: &str, key: &str) -> Vec<u64> {
    let summary = run.summary(phase);
    let servers = summary["ringload"]["servers"]
        .as_array()
        .expect("counts of servers")
        .clone();
    servers
        .iter()
        .map(|server| server[key].as_u64().expect("a count"))
        .collect()
}

fn seen(servers: &[MockServer]) -> Vec<u64> {
    servers.iter().map(|server| server.counters().requests).collect()
}

#[test]
fn requests_take_the_servers_in_turn_on_any_number_of_cores() {
    for cores in [1, 2] {
        let servers = three();
        let run = against(&servers)
            .cores(cores)
            .phase(Phase::closed("warmup", 3).warmup().requests(4))
            .phase(Phase::closed("load", 5).requests(29))
            .run();
        // The second phase begins at the second server.
        assert_eq!(told(&run, "warmup", "sent"), [2, 1, 1], "{cores} cores");
        assert_eq!(told(&run, "load", "sent"), [9, 10, 10], "{cores} cores");
        assert_eq!(told(&run, "load", "succeeded"), [9, 10, 10], "{cores} cores");
        assert_eq!(seen(&servers), [11, 11, 11], "{cores} cores");
        let root = run.root()["ringload"]["servers"].clone();
        assert_eq!(
            (&root[0]["sent"], &root[2]["sent"]),
            (&9.into(), &10.into()),
            "warmups are not counted: {root}"
        );
        assert_eq!(root[0]["url"], format!("{}/v1/chat/completions", servers[0].url()));
    }
}

#[test]
fn each_server_has_connections_of_its_own_and_they_are_used_again() {
    let servers = three();
    let run = against(&servers).phase(Phase::closed("load", 4).requests(120)).run();
    assert_eq!(run.counts("load").succeeded, 120);
    for server in &servers {
        let connections: Vec<u64> = server.ledger().iter().map(|entry| entry.connection).collect();
        let most = connections.iter().max().expect("requests");
        assert!(*most <= 4, "{most} connections for 4 slots");
        assert_eq!(connections.len(), 40);
    }
}

#[test]
fn one_url_is_told_without_a_list_of_servers() {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .phase(Phase::closed("load", 2).requests(4))
        .run();
    assert!(run.root()["ringload"].get("servers").is_none());
    assert!(run.summary("load")["ringload"].get("servers").is_none());
}

#[test]
fn a_server_that_fails_fails_its_own_requests_only() {
    let (good, bad) = (mock(|_| {}), faulty("status:500"));
    let run = Scenario::new(good.address())
        .also(bad.address())
        .also(nobody())
        .phase(Phase::closed("load", 2).requests(30))
        .run();
    assert_eq!(told(&run, "load", "succeeded"), [10, 0, 0]);
    assert_eq!(told(&run, "load", "failed"), [0, 10, 10]);
}

#[test]
fn urls_of_one_server_may_differ_in_their_path() {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .also_at(server.address(), "/v1/chat/completions?fault=status:429")
        .phase(Phase::closed("load", 3).requests(20))
        .run();
    assert_eq!(told(&run, "load", "succeeded"), [10, 0]);
    assert_eq!(told(&run, "load", "failed"), [0, 10]);
    let shown = run.root()["ringload"]["servers"][1]["url"].clone();
    assert_eq!(
        shown,
        format!("{}/v1/chat/completions", server.url()),
        "a query may hold a key"
    );
}

#[test]
fn an_open_loop_keeps_its_schedule_over_several_servers() {
    let servers = three();
    let run = against(&servers)
        .cores(2)
        .phase(Phase::poisson("load", 300.0).requests(90))
        .run();
    assert_eq!(told(&run, "load", "succeeded"), [30, 30, 30]);
    assert_eq!(seen(&servers), [30, 30, 30]);
}

#[test]
fn connections_that_are_not_kept_are_opened_at_each_server_in_turn() {
    let servers = three();
    let run = against(&servers)
        .connection_reuse(ConnectionReuse::Never)
        .phase(Phase::closed("load", 3).requests(30))
        .run();
    assert_eq!(run.counts("load").succeeded, 30);
    for server in &servers {
        assert_eq!(server.counters().connections, 10);
    }
}

#[test]
fn requests_that_are_cut_are_counted_where_they_were() {
    let servers = [faulty("hang"), faulty("hang")];
    let running = against(&servers)
        .phase(Phase::closed("load", 5).requests(1_000_000))
        .start();
    eventually("a full house", || seen(&servers).iter().sum::<u64>() == 5);
    running.interrupt(2);
    let run = running.finish_within(Duration::from_secs(20));
    assert_eq!(told(&run, "load", "truncated_request_count"), [3, 2]);
}

#[test]
fn each_server_proves_its_own_name() {
    let authority = Authority::new();
    let mocks = [mock(|_| {}), mock(|_| {})];
    let fronts = [("localhost", &mocks[0]), ("127.0.0.1", &mocks[1])]
        .map(|(name, mock)| TlsServer::before(mock.address(), authority.server(name, |_| {})));
    let scenario = |host: &str| {
        Scenario::new(fronts[0].address())
            .host(host)
            .also(fronts[1].address())
            .tls(Verification::CaFile(authority.file()))
            .phase(Phase::closed("load", 2).requests(20))
    };
    let run = scenario("localhost").run();
    assert_eq!(told(&run, "load", "succeeded"), [10, 10]);
    let run = scenario("127.0.0.1").run();
    assert_eq!(
        told(&run, "load", "succeeded"),
        [0, 10],
        "the first server is not who it was said to be"
    );
}

#[test]
fn a_few_places_for_connections_serve_many_servers() {
    // 128 descriptors are kept for other things, so 22 connections are left for 20 slots at 6 servers: idle ones must make room.
    let servers: Vec<MockServer> = (0..6).map(|_| mock(|_| {})).collect();
    let urls: Vec<String> = servers.iter().map(MockServer::url).collect();
    let text = config(
        &format!("[{}]", urls.join(", ")),
        &phase("profiling", "concurrency: 20, requests: 1200"),
    );
    let workplace = Workplace::new(&text);
    let limited = ["sh", "-c", "ulimit -n 150; exec \"$@\"", "sh"];
    let profile = workplace.profile_command(&[]);
    let mut command = Command::new(limited[0]);
    command
        .args(&limited[1..])
        .arg(profile.get_program())
        .args(profile.get_args())
        .current_dir(workplace.folder());
    Program::start(command).end().expect(0);
    let told = workplace.root()["ringload"]["servers"].clone();
    for (index, server) in servers.iter().enumerate() {
        assert_eq!(told[index]["succeeded"], 200, "{told}");
        assert_eq!(server.counters().requests, 200);
    }
    let connections: u64 = servers.iter().map(|server| server.counters().connections).sum();
    assert!(connections > 22, "{connections} connections: nothing had to make room");
}
