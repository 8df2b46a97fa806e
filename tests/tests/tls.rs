//! `https`: the same figures as without TLS, connections that are resumed and reused, and refusals that say which check failed.
//!
//! With `RINGLOAD_TEST_DRIVER` all of this holds over either driver.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use ringload_engine::dataset::LengthDistribution;
use ringload_engine::plan::{ConnectionReuse, Verification};
use ringload_mock_server::MockServer;
use ringload_tests::books::Books;
use ringload_tests::server::control_paths;
use ringload_tests::sessions::sessions;
use ringload_tests::tls::{Authority, Farewell, TlsServer, server_of_files};
use ringload_tests::{Ending, Phase, Record, Run, Scenario, binary, eventually, mock};
use rustls::version::{TLS12, TLS13};

const HOST: &str = "127.0.0.1";

/// A mock server behind TLS, and the authority that vouches for it.
struct Sealed {
    authority: Authority,
    front: TlsServer,
    mock: MockServer,
}

impl Sealed {
    fn new(mock: MockServer) -> Self {
        let authority = Authority::new();
        let front = TlsServer::before(mock.address(), authority.server(HOST, |_| {}));
        Self { authority, front, mock }
    }

    fn scenario(&self) -> Scenario {
        trusting(&self.authority, self.front.address())
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn trusting(authority: &Authority, address: SocketAddr) -> Scenario {
    Scenario::new(address).tls(Verification::CaFile(authority.file()))
}

#[test]
fn sessions_of_several_turns_carry_their_history() {
    let sealed = Sealed::new(mock(|options| options.keep_messages = true));
    // Long enough for several pieces of ciphertext.
    let run = sealed
        .scenario()
        .prompt_tokens(12_000)
        .turns(LengthDistribution::Fixed(3))
        .connection_reuse(ConnectionReuse::StickyUserSessions)
        .phase(Phase::closed("load", 3).sessions(5))
        .run();
    assert_eq!(run.counts("load").succeeded, 15);
    assert_eq!(of_cores(&run, "connections_opened"), 5, "a connection for each session");
    let books = Books::complete(&run, &sealed.mock);
    assert_eq!(sessions(&run, &books).len(), 5);
}

/// A figure of the cores, added up.
fn of_cores(run: &Run, key: &str) -> u64 {
    let root = run.root();
    let cores = root["ringload"]["cores"].as_array().expect("a list of cores");
    cores.iter().filter_map(|core| core[key].as_u64()).sum()
}

/// The one kind of error of a run in which nothing succeeded.
fn only_error(run: &Run) -> (String, String) {
    let mut errors: Vec<(String, String)> = run
        .records
        .iter()
        .map(|record| record.error.as_ref().expect("every request failed"))
        .map(|error| (error.kind.clone(), error.message.clone()))
        .collect();
    errors.sort();
    errors.dedup();
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.remove(0)
}

#[test]
fn streams_and_whole_answers_are_the_same_behind_tls() {
    for (cores, streaming) in [(1, true), (2, true), (1, false), (2, false)] {
        let server = Sealed::new(mock(|_| {}));
        let mut scenario = server
            .scenario()
            .cores(cores)
            .phase(Phase::closed("warmup", 4).warmup().requests(12))
            .phase(Phase::constant("load", 200.0).capped(8).requests(100));
        if !streaming {
            scenario = scenario.whole_answers();
        }
        let run = scenario.run();
        let what = format!("{cores} cores, streaming {streaming}");
        assert_eq!(run.outcome.failure, None, "{what}");
        assert_eq!(run.ended(Ending::Succeeded), 112, "{what}");
        let books = Books::complete(&run, &server.mock);
        assert_eq!(books.matched.len(), 112, "{what}");
        // A connection for each request in flight at once, and no more: the others found one that was kept.
        let opened = of_cores(&run, "connections_opened");
        assert!((1..=16).contains(&opened), "{what}: {opened} connections");
        assert_eq!(of_cores(&run, "tls_handshakes"), opened, "{what}");
        assert_eq!(server.front.handshakes(), opened, "{what}");
        assert_eq!(run.root()["ringload"]["tls"]["verification"], "ca-file", "{what}");
        // The end of a run is no cut for the server.
        eventually("the farewells", || server.front.polite_ends() == opened);
    }
}

#[test]
fn the_connect_time_holds_the_handshake() {
    let server = Sealed::new(mock(|_| {}));
    let run = server.scenario().phase(Phase::closed("load", 1).requests(3)).run();
    let connecting = |record: &Record| record.metric("http_req_connecting").unwrap_or(0.0);
    let (first, later) = run.records.split_first().expect("three records");
    // A signature alone takes longer than this; a connect over loopback does not.
    assert!(connecting(first) > 0.2, "{first:?}");
    assert!(later.iter().all(|record| connecting(record) == 0.0), "{later:?}");
    assert!(
        first.metric("time_to_first_token") > Some(connecting(first)),
        "{first:?}"
    );
}

#[test]
fn a_connection_for_each_request_resumes_the_session() {
    for version in [&TLS12, &TLS13] {
        let mock = mock(|options| options.fault = Some("close-after".parse().expect("a fault")));
        let authority = Authority::new();
        let config = authority.server_speaking(&[version], HOST, |_| {});
        let front = TlsServer::before(mock.address(), config);
        let run = trusting(&authority, front.address())
            .phase(Phase::closed("load", 1).requests(10))
            .run();
        let what = format!("{:?}", version.version);
        assert_eq!(run.ended(Ending::Succeeded), 10, "{what}");
        assert_eq!((front.handshakes(), front.resumed()), (10, 9), "{what}");
        assert_eq!(of_cores(&run, "tls_handshakes"), 10, "{what}");
        assert_eq!(of_cores(&run, "tls_resumptions"), 9, "{what}");
    }
}

#[test]
fn a_request_cancelled_at_once_has_been_sent_whole() {
    for (cores, prompt_tokens) in [(1, 40), (2, 40), (1, 60_000)] {
        let server = Sealed::new(mock(|options| options.ttft = ms(2_000)));
        let run = server
            .scenario()
            .cores(cores)
            .prompt_tokens(prompt_tokens)
            .phase(Phase::closed("storm", 8).requests(40).cancelling(1.0, Duration::ZERO))
            .run();
        let what = format!("{cores} cores, prompts of {prompt_tokens} tokens");
        assert_eq!(run.counts("storm").cancelled, 40, "{what}");
        // The books compare the length of each body that arrived with the one that was planned.
        assert_eq!(Books::complete(&run, &server.mock).matched.len(), 40, "{what}");
    }
}

#[test]
fn tickets_that_come_late_take_nothing_of_a_cancelled_request_away() {
    let authority = Authority::new();
    let server = TlsServer::unhurried(authority.server(HOST, |_| {}));
    let run = trusting(&authority, server.address())
        .prompt_tokens(60_000)
        .phase(Phase::closed("storm", 4).requests(8).cancelling(1.0, Duration::ZERO))
        .run();
    assert_eq!(run.counts("storm").cancelled, 8);
    eventually("whole requests", || server.whole_requests() == 8);
}

#[test]
fn four_megabytes_go_either_way() {
    // A word of the prompts is about five bytes.
    let server = Sealed::new(mock(|_| {}));
    let run = server
        .scenario()
        .cores(1)
        .entries(2)
        .prompt_tokens(800_000)
        .phase(Phase::closed("load", 2).requests(4))
        .run();
    assert_eq!(run.outcome.failure, None);
    let books = Books::complete(&run, &server.mock);
    assert!(
        run.records
            .iter()
            .all(|record| record.metric("http_req_data_sent") > Some(4_000.0))
    );
    assert_eq!(books.matched.len(), 4);

    let authority = Authority::new();
    let text = "0123456789abcdef".repeat(1 << 18);
    let body = format!(
        r#"{{"object":"chat.completion","choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}"}},"finish_reason":"stop"}}]}}"#
    );
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let front = TlsServer::scripted(
        authority.server(HOST, |_| {}),
        (head + &body).into_bytes(),
        Farewell::Cut,
    );
    let run = trusting(&authority, front.address())
        .whole_answers()
        .phase(Phase::closed("load", 2).requests(4))
        .run();
    assert_eq!(run.outcome.failure, None);
    assert!(
        run.records
            .iter()
            .all(|record| record.metric("http_req_data_received") > Some(4_000.0))
    );
}

#[test]
fn a_body_that_lasts_until_the_close_needs_the_servers_word() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n\
         data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    for (farewell, expected) in [
        (Farewell::CloseNotify, Ending::Succeeded),
        (Farewell::Cut, Ending::Failed),
    ] {
        let authority = Authority::new();
        let front = TlsServer::scripted(authority.server(HOST, |_| {}), answer.into(), farewell);
        let run = trusting(&authority, front.address())
            .phase(Phase::closed("load", 2).requests(6))
            .run();
        assert_eq!(run.ended(expected), 6, "{farewell:?}: {:?}", run.records[0].error);
        if expected == Ending::Failed {
            assert_eq!(only_error(&run).0, "ClientPayloadError");
        }
    }
}

#[test]
fn a_kept_connection_that_the_server_closed_costs_nothing_but_a_second_try() {
    let server = Sealed::new(mock(|options| {
        options.fault = Some("silent-close".parse().expect("a fault"))
    }));
    let run = server.scenario().phase(Phase::closed("load", 2).requests(40)).run();
    assert_eq!(run.ended(Ending::Succeeded), 40, "{:?}", run.root()["error_summary"]);
    assert_eq!(server.mock.counters().requests, 40);
}

#[test]
fn a_server_that_is_not_who_it_should_be_gets_no_request() {
    type Change = fn(&mut rcgen::CertificateParams);
    let as_it_is: Change = |_| {};
    let old: Change = |params| params.not_after = rcgen::date_time_ymd(2020, 1, 2);
    let (authority, stranger) = (Authority::new(), Authority::new());
    for (trusted, name, change, reasons) in [
        (&stranger, HOST, as_it_is, &["root", "--ca-file FILE", "--insecure"][..]),
        (&authority, HOST, old, &["it expired on 2020-01-02", "renew it"]),
        (
            &authority,
            "other.test",
            as_it_is,
            &["it is for other.test, not for '127.0.0.1'"],
        ),
    ] {
        let mock = mock(|_| {});
        let front = TlsServer::before(mock.address(), authority.server(name, change));
        let run = trusting(trusted, front.address())
            .phase(Phase::closed("load", 2).requests(6))
            .run();
        assert_eq!(run.counts("load").failed, 6);
        let (kind, message) = only_error(&run);
        assert_eq!(kind, "TlsError", "{message}");
        let failure = run.outcome.failure.clone().expect("nothing succeeded");
        for reason in reasons {
            assert!(message.contains(reason), "{message}");
            assert!(failure.contains(reason), "{failure}");
        }
        assert_eq!((mock.counters().requests, front.handshakes()), (0, 0));
        eventually("the alerts", || front.failed() == 6);
    }
}

/// A certificate that signs itself, as the command line of docs/tls.md makes it; `None` without the program.
fn self_signed(folder: &Path, extensions: &[&str]) -> Option<(PathBuf, PathBuf)> {
    let (certificate, key) = (folder.join("own.pem"), folder.join("key.pem"));
    let mut command = Command::new("openssl");
    command.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]);
    command.args(["-subj", "/CN=own", "-addext", "subjectAltName=IP:127.0.0.1"]);
    extensions.iter().for_each(|extension| {
        command.args(["-addext", extension]);
    });
    let output = command
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some((certificate, key))
}

#[test]
fn a_certificate_that_signs_itself_is_its_own_root_unless_it_is_an_authority() {
    for (extensions, is_good) in [(&["basicConstraints=critical,CA:FALSE"][..], true), (&[], false)] {
        let folder = tempfile::tempdir().expect("a folder");
        let Some((certificate, key)) = self_signed(folder.path(), extensions) else {
            eprintln!("skipped: there is no openssl here to make certificates");
            return;
        };
        let mock = mock(|_| {});
        let front = TlsServer::before(mock.address(), server_of_files(&certificate, &key));
        let run = Scenario::new(front.address())
            .tls(Verification::CaFile(certificate))
            .phase(Phase::closed("load", 2).requests(6))
            .run();
        if is_good {
            assert_eq!(run.counts("load").succeeded, 6, "{:?}", run.outcome.failure);
        } else {
            let (_, message) = only_error(&run);
            assert!(message.contains("CA:TRUE") && message.contains("CA:FALSE"), "{message}");
            assert_eq!(mock.counters().requests, 0);
        }
    }
}

#[test]
fn a_plain_server_is_told_from_a_bad_one() {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .tls(Verification::Off)
        .phase(Phase::closed("load", 1).requests(2))
        .run();
    let (kind, message) = only_error(&run);
    assert_eq!(kind, "TlsError");
    assert!(message.contains("write http:// in endpoint.url"), "{message}");
}

#[test]
fn a_handshake_that_gets_no_answer_ends_with_its_request() {
    let silent = TlsServer::mute();
    let timed_out = Scenario::new(silent.address())
        .tls(Verification::Off)
        .request_timeout(ms(200))
        .phase(Phase::closed("load", 4).requests(8))
        .run();
    assert_eq!(only_error(&timed_out).0, "RequestTimeoutError");

    let cut = Scenario::new(silent.address())
        .tls(Verification::Off)
        .phase(Phase::closed("load", 4).lasting(ms(200)).grace(Duration::ZERO))
        .run();
    assert_eq!((cut.counts("load").sent, cut.counts("load").truncated), (4, 4));

    // Of its own, for its count.
    let silent = TlsServer::mute();
    let running = Scenario::new(silent.address())
        .tls(Verification::Off)
        .phase(Phase::closed("load", 4).requests(8))
        .start();
    eventually("four handshakes under way", || silent.greeted() == 4);
    running.interrupt(libc::SIGINT);
    // A timeout would have failed them.
    let interrupted = running.finish();
    let counts = interrupted.counts("load");
    assert_eq!((counts.sent, counts.succeeded, counts.truncated), (4, 0, 4));
}

#[test]
fn hooks_go_through_the_same_tls() {
    const PATHS: [&str; 3] = ["/reset_prefix_cache", "/start_profile", "/stop_profile"];
    let server = Sealed::new(mock(|_| {}));
    let with_hooks = |verification| {
        Scenario::new(server.front.address())
            .tls(verification)
            .reset(PATHS[0])
            .profiler(PATHS[1], PATHS[2])
            .phase(Phase::closed("load", 1).requests(2))
    };
    for verification in [Verification::CaFile(server.authority.file()), Verification::Off] {
        let run = with_hooks(verification).run();
        assert_eq!(run.outcome.failure, None);
    }
    assert_eq!(control_paths(&server.mock), [PATHS, PATHS].concat());

    let stranger = Authority::new();
    let started = Instant::now();
    let refusal = with_hooks(Verification::CaFile(stranger.file()))
        .start()
        .refused()
        .to_string();
    assert!(
        refusal.contains("kv-cache reset") && refusal.contains("--ca-file FILE"),
        "{refusal}"
    );
    // It fails the same way however often it is tried.
    assert!(started.elapsed() < Duration::from_secs(5));
}

/// The program against a server, in a folder of its own.
fn program(url: &str, flags: &[&str]) -> (Output, serde_json::Value) {
    program_on(url, flags, None)
}

/// The same on a host that has these roots for its own.
fn program_on(url: &str, flags: &[&str], roots: Option<&Path>) -> (Output, serde_json::Value) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let config = format!(
        "benchmark:\n  model: mock-model\n  endpoint: {{url: \"{url}\", streaming: true}}\n  dataset: {{entries: 4, isl: 16, osl: 4}}\n  \
         artifacts: {{dir: ./results}}\n  phases:\n    - {{name: profiling, type: concurrency, concurrency: 2, requests: 4}}\n"
    );
    fs::write(folder.path().join("test.yaml"), config).expect("a config file");
    let mut command = Command::new(binary::ringload());
    command
        .args(["profile", "--config", "test.yaml", "--ui", "none"])
        .args(flags)
        .current_dir(folder.path());
    if let Some(roots) = roots {
        command.env("SSL_CERT_FILE", roots).env_remove("SSL_CERT_DIR");
    }
    let output = command.output().expect("the program runs");
    let root = fs::read(folder.path().join("results/profile_export_aiperf.json"))
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default();
    (output, root)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_flags_decide_whom_the_program_trusts() {
    let server = Sealed::new(mock(|_| {}));
    let url = format!("https://{}", server.front.address());
    let (authority, stranger) = (server.authority.file(), Authority::new());
    let (good, root) = program(&url, &["--ca-file", &authority.to_string_lossy()]);
    assert_eq!(good.status.code(), Some(0), "{}", stderr(&good));
    assert!(!stderr(&good).contains("warning"), "{}", stderr(&good));
    assert_eq!(root["ringload"]["tls"]["ca_file"], authority.to_string_lossy().as_ref());

    let (wrong, _) = program(&url, &["--ca-file", &stranger.file().to_string_lossy()]);
    assert_eq!(wrong.status.code(), Some(1), "{}", stderr(&wrong));
    assert!(
        stderr(&wrong).contains("TLS handshake: the server's certificate was not accepted"),
        "{}",
        stderr(&wrong)
    );

    let (insecure, root) = program(&url, &["--insecure"]);
    assert_eq!(insecure.status.code(), Some(0), "{}", stderr(&insecure));
    assert!(
        stderr(&insecure).contains("warning: --insecure: the server's certificate is not checked"),
        "{}",
        stderr(&insecure)
    );
    assert_eq!(root["ringload"]["tls"]["verification"], "none");
    assert!(root["ringload"]["tls"]["warning"].is_string());
    assert_eq!(root["input_config"]["endpoint"]["urls"][0], url);
}

#[test]
fn without_flags_the_roots_of_the_host_decide() {
    let server = Sealed::new(mock(|_| {}));
    let url = format!("https://{}", server.front.address());
    let (own, stranger) = (server.authority.file(), Authority::new());
    let (good, root) = program_on(&url, &[], Some(&own));
    assert_eq!(good.status.code(), Some(0), "{}", stderr(&good));
    assert_eq!(root["ringload"]["tls"]["verification"], "system-roots");
    let (wrong, _) = program_on(&url, &[], Some(&stranger.file()));
    assert_eq!(wrong.status.code(), Some(1), "{}", stderr(&wrong));
    // A file of roots takes the place of the host's.
    let (replaced, _) = program_on(&url, &["--ca-file", &stranger.file().to_string_lossy()], Some(&own));
    assert_eq!(replaced.status.code(), Some(1), "{}", stderr(&replaced));

    let nowhere = stranger.folder().join("missing.pem");
    let (none, root) = program_on(&url, &[], Some(&nowhere));
    assert_eq!(none.status.code(), Some(1), "{}", stderr(&none));
    assert!(
        stderr(&none).contains("no root certificate of this system can be used"),
        "{}",
        stderr(&none)
    );
    assert!(root.is_null());
}

#[test]
fn what_cannot_be_trusted_is_refused_before_any_load() {
    let server = Sealed::new(mock(|_| {}));
    let url = format!("https://{}", server.front.address());
    let folder = server.authority.folder();
    fs::write(folder.join("empty.pem"), "").expect("a file");
    for (file, reason) in [("missing.pem", "cannot be read"), ("empty.pem", "holds no certificate")] {
        let path = folder.join(file);
        let (refused, root) = program(&url, &["--ca-file", &path.to_string_lossy()]);
        let text = stderr(&refused);
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert!(
            text.contains(&format!("--ca-file {}: ", path.display())) && text.contains(reason),
            "{text}"
        );
        assert!(root.is_null());
    }
    for (flags, reason) in [
        (
            &["--mock"][..],
            "an https address cannot be replaced with the plain server http://127.0.0.1:",
        ),
        (&["--mock", "--insecure"], "cannot be used with"),
    ] {
        let (refused, root) = program(&url, flags);
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
        assert!(stderr(&refused).contains(reason), "{}", stderr(&refused));
        assert!(root.is_null());
    }
    let (plain, _) = program("http://127.0.0.1:1", &["--insecure"]);
    assert_eq!(plain.status.code(), Some(2), "{}", stderr(&plain));
    assert!(
        stderr(&plain).contains("--insecure is for https addresses"),
        "{}",
        stderr(&plain)
    );
    assert_eq!((server.front.handshakes(), server.front.failed()), (0, 0));
}
