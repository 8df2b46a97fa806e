//! What a plan comes to before it runs: expected requests, latest ends, and what the host may be short of.

use ringload_engine::config;
use ringload_engine::plan::{BuildOptions, Plan, build};
use ringload_engine::run::{
    self, Bound, CoreChoice, DriverChoice, Forecast, HostPreview, PhaseForecast, Requests, forecast,
};
use ringload_engine::units::Nanos;

/// The reason for no latest moment that begins or goes on so. Reasons are told to people, so tests know them by their heart.
fn never(heart: &str) -> Bound {
    const REASONS: [&str; 3] = [
        "the server decides how fast requests end",
        "nothing but an interrupt ends it",
        "requests have no timeout, so the last answers may take any time",
    ];
    Bound::None(
        REASONS
            .into_iter()
            .find(|reason| reason.contains(heart))
            .expect("a reason"),
    )
}

fn of(phases: &str, timeout: &str) -> Forecast {
    let text = format!(
        "random_seed: 1\nbenchmark:\n  model: m\n  endpoint: {{url: h, timeout: {timeout}}}\n  dataset: {{entries: 4, isl: 8, osl: 2}}\n  \
         phases:\n{phases}"
    );
    let config = config::parse("f.yaml", text.as_bytes(), &|_| None).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    forecast(&build(&config, &BuildOptions::default()).expect("the plan is sound"))
}

fn phase(rest: &str) -> String {
    format!("    - {{name: p, kind: profiling, {rest}}}\n")
}

fn one(rest: &str) -> PhaseForecast {
    of(&phase(rest), "100").phases[0].clone()
}

const fn s(seconds: u64) -> Nanos {
    Nanos::from_secs(seconds)
}

#[test]
fn a_closed_loop_ends_with_its_time_or_when_the_server_lets_it() {
    let timed = one("type: concurrency, concurrency: 4, duration: 10, grace_period: 5");
    assert_eq!(
        (timed.requests, timed.sending, timed.end),
        (Requests::Open, Bound::At(s(10)), Bound::At(s(15)))
    );
    // Without a grace period the timeout of the last request decides.
    let waits = one("type: concurrency, concurrency: 4, duration: 10, requests: 50");
    assert_eq!((waits.requests, waits.end), (Requests::AtMost(50), Bound::At(s(110))));
    let counted = one("type: concurrency, concurrency: 4, requests: 50");
    assert_eq!(
        (counted.requests, counted.end),
        (Requests::Exactly(50), never("the server decides"))
    );
    assert_eq!(
        one("type: concurrency, duration: inf").end,
        never("nothing but an interrupt")
    );
    let endless = of(&phase("type: concurrency, duration: 10"), "0").end;
    assert_eq!(endless, never("no timeout"));
}

#[test]
fn an_open_loop_sends_the_integral_of_its_rate() {
    assert_eq!(
        one("type: constant, rate: 20, duration: 10").requests,
        Requests::About(200.0)
    );
    // From the rate of the ramp's start to its target on a line: half of it while it rises, but for its first tenth of a second.
    let Requests::About(ramped) = one("type: poisson, rate: 20, rate_ramp: 10, duration: 20").requests else {
        panic!("a rate over a time has an expectation")
    };
    assert!((300.0 - ramped).abs() < 2.0, "{ramped}");
    let series = one("type: gamma, rate_series: [{time_s: 0, qps: 10}, {time_s: 10, qps: 30}], duration: 20");
    assert_eq!(series.requests, Requests::About(500.0));
    let counted = one("type: constant, rate: 20, requests: 100");
    assert_eq!(
        (counted.requests, counted.sending),
        (Requests::Exactly(100), Bound::At(s(5)))
    );
    assert_eq!(
        one("type: poisson, rate: 20, requests: 100").sending,
        Bound::About(s(5))
    );
    assert_eq!(
        one("type: poisson, rate: 20, requests: 100, concurrency: 2").sending,
        never("the server decides")
    );
    assert_eq!(
        one("type: poisson, rate: 20, requests: 1000, duration: 10").requests,
        Requests::About(200.0)
    );
    assert_eq!(
        one("type: poisson, rate: 20, requests: 100, duration: 10").requests,
        Requests::AtMost(100)
    );
}

#[test]
fn phases_follow_one_another_and_seamless_ones_the_sending() {
    let timed = |name: &str, rest: &str| {
        format!("    - {{name: {name}, kind: profiling, type: concurrency, duration: 10, grace_period: 5{rest}}}\n")
    };
    assert_eq!(of(&(timed("a", "") + &timed("b", "")), "100").end, Bound::At(s(30)));
    assert_eq!(
        of(&(timed("a", "") + &timed("b", ", seamless: true")), "100").end,
        Bound::At(s(25))
    );
    // The long drain of the first outlasts the second.
    let long = timed("a", "").replace("grace_period: 5", "grace_period: 60");
    assert_eq!(
        of(&(long + &timed("b", ", seamless: true")), "100").end,
        Bound::At(s(70))
    );
    let open = timed("a", "").replace("duration: 10, grace_period: 5", "requests: 7");
    assert_eq!(of(&(open + &timed("b", "")), "100").end, never("the server decides"));
}

fn plan(endpoint: &str, phase: &str) -> Plan {
    let text = format!(
        "benchmark:\n  model: m\n  endpoint: {{url: h{endpoint}}}\n  dataset: {{entries: 4, isl: 8, osl: 2}}\n  \
         phases: [{{name: p, kind: profiling, {phase}}}]\n  artifacts: {{dir: /nonexistent/ringload}}\n"
    );
    let config = config::parse("f.yaml", text.as_bytes(), &|_| None).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    build(&config, &BuildOptions::default()).expect("the plan is sound")
}

fn host(connections: u64) -> HostPreview {
    HostPreview {
        cores: 1,
        placement: String::new(),
        driver: ("epoll", None),
        descriptors: (1, 2),
        connections,
        local_ports: Some(28_232),
        request_bytes: 0,
        connection_bytes: 0,
    }
}

#[test]
fn too_few_local_ports_are_told_with_the_remedy() {
    let calm = plan("", "type: constant, rate: 900, duration: 60");
    assert_eq!(host(28_232).warnings(&calm), Vec::<String>::new());
    let many = host(28_233).warnings(&calm);
    assert!(many[0].contains("--source-address") && many.len() == 1, "{many:?}");
    let churn = plan(", connection_reuse: never", "type: constant, rate: 900, duration: 60");
    let told = host(64).warnings(&churn);
    assert!(
        told[0].starts_with("phase p: about 54000 connections are closed within its first 60 s"),
        "{told:?}"
    );
    let short = plan(", connection_reuse: never", "type: constant, rate: 900, duration: 20");
    assert!(host(64).warnings(&short).is_empty());
    let storm = plan("", "type: poisson, rate: 900, duration: 600, cancellation: {rate: 60}");
    assert!(host(64).warnings(&storm)[0].contains("about 32400 connections"));
}

#[test]
fn a_preview_says_what_the_host_has_and_writes_nothing() {
    let plan = plan("", "type: concurrency, concurrency: 4, requests: 9");
    let preview = run::preview(&plan, &CoreChoice::Count(1), DriverChoice::Epoll, &[]);
    let host = preview.host.expect("one core and epoll are everywhere");
    assert_eq!((host.cores, host.driver.0, host.connections), (1, "epoll", 4));
    assert!(
        host.descriptors.0 > 4 && host.descriptors.1 >= host.descriptors.0,
        "{host:?}"
    );
    assert!(host.request_bytes > 4 * 100, "{host:?}");
    assert!(preview.directory.is_ok() && !plan.artifacts.directory.exists());
    let none = run::preview(&plan, &CoreChoice::Count(60_000), DriverChoice::Epoll, &[]);
    assert!(none.host.is_err_and(|error| error.is_usage()));
}
