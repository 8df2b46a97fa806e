//! Whole configs to plans.

mod checks;
mod datasets;
mod lengths;
mod models;
mod phases;
mod slices;
mod telemetry;
mod templates;
mod traces;

use super::*;
use crate::config::parse;
use crate::plan::EndpointKind;

const HEAD: &str = "benchmark:\n  model: org/m\n  dataset: {entries: 3, isl: 8, osl: 4}\n";
const PHASES: &str = "  phases:\n    - {name: profiling, type: concurrency, requests: 2}\n";
const ENDPOINT: &str = "  endpoint: {url: \"http://h:8000\", streaming: true}\n";

fn read(text: &str) -> Config {
    parse("f.yaml", text.as_bytes(), &|_| None).unwrap_or_else(|mistakes| panic!("{}", mistakes.render(true)))
}

fn options() -> BuildOptions {
    BuildOptions {
        seed: Some(7),
        benchmark_id: Some("0123456789ab".to_owned()),
        ..BuildOptions::default()
    }
}

fn plan_of(text: &str) -> Plan {
    build(&read(text), &options()).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn with_endpoint(fields: &str) -> Plan {
    plan_of(&format!("{HEAD}  endpoint: {{{fields}}}\n{PHASES}"))
}

fn with_phases(phases: &str) -> Plan {
    plan_of(&format!("{HEAD}{ENDPOINT}  phases:\n{phases}"))
}

/// The request line and headers of a plan.
fn head(plan: &Plan) -> String {
    String::from_utf8(plan.requests.heads[0].to_vec()).expect("heads are ASCII here")
}

#[test]
fn defaults_are_filled_in() {
    let plan = with_endpoint("url: h, reset_kv_cache: true, server_profiler: {stop_path: /s}");
    assert_eq!(plan.endpoint.request_timeout, Some(Nanos::from_secs(21_600)));
    assert!(!plan.endpoint.streaming);
    let reset = ResetHook {
        path: "/reset_prefix_cache".to_owned(),
        timeout: Nanos::from_secs(30),
        retry_budget: Nanos::from_secs(60),
    };
    assert_eq!(plan.hooks.reset_kv_cache, Some(reset));
    let profiler = ProfilerHook {
        start_path: "/start_profile".to_owned(),
        stop_path: "/s".to_owned(),
        timeout: Nanos::from_secs(30),
    };
    assert_eq!(plan.hooks.server_profiler, Some(profiler));
    assert_eq!(plan.requests.entries.len(), 3);
    assert!(plan.artifacts.summary_json && plan.artifacts.records && !plan.artifacts.overwrite);
    let [phase] = &plan.phases[..] else {
        panic!("one phase expected")
    };
    assert_eq!(phase.concurrency, NonZeroU32::new(1));
    assert_eq!(
        (phase.profiling_index, phase.drain),
        (Some(0), DrainRule::WhileProgressing)
    );
    let entries = plan_of(&format!("{}{ENDPOINT}{PHASES}", HEAD.replace("entries: 3, ", "")))
        .requests
        .entries
        .len();
    assert_eq!(entries, 100);
}

#[test]
fn a_timeout_of_zero_or_infinity_is_no_limit() {
    assert_eq!(with_endpoint("url: h, timeout: 0").endpoint.request_timeout, None);
    assert_eq!(with_endpoint("url: h, timeout: inf").endpoint.request_timeout, None);
    assert_eq!(
        with_endpoint("url: h, timeout: 500ms").endpoint.request_timeout,
        Some(Nanos::from_millis(500))
    );
    assert_eq!(
        with_endpoint("url: h, timeout: 1e-12").endpoint.request_timeout,
        Some(Nanos(1))
    );
}

#[test]
fn the_seed_workflow_becomes_four_phases() {
    let plan = plan_of(include_str!(
        "../../../../tests/cases/config/valid/seed_multi_phase.yaml"
    ));
    let names: Vec<&str> = plan.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(
        names,
        ["warmup", "baseline_traffic", "cancellation_stress", "recovery_traffic"]
    );
    assert_eq!(
        plan.phases
            .iter()
            .map(|phase| phase.profiling_index)
            .collect::<Vec<_>>(),
        [None, Some(0), Some(1), Some(2)]
    );
    assert_eq!(plan.phases[0].kind, PhaseKind::Warmup);
    let stress = &plan.phases[2];
    assert_eq!(
        stress.stop,
        StopRule {
            requests: None,
            sessions: None,
            duration: Some(Nanos::from_secs(300))
        }
    );
    assert_eq!(
        stress.cancellation,
        Some(CancellationPlan {
            probability: 0.5,
            delay: Nanos::ZERO
        })
    );
    assert_eq!(
        plan.endpoint.targets[0].url,
        "http://localhost:8000/v1/chat/completions"
    );
    assert_eq!(plan.endpoint.targets[0].origin, "http://localhost:8000");
    assert!(plan.artifacts.directory.ends_with("artifacts/multi-phase") && plan.artifacts.directory.is_absolute());
}

#[test]
fn stop_and_drain_rules_follow_the_written_fields() {
    let plan = with_phases(
        "    - {name: warmup, type: poisson, rate: 5, requests: 9, sessions: 4, duration: 5m}\n    \
         - {name: a, kind: profiling, type: constant, rate: 2, duration: 2s, grace_period: 0, seamless: true}\n    \
         - {name: b, kind: profiling, type: concurrency, duration: inf, requests: 3, grace_period: 5}\n    \
         - {name: c, kind: profiling, type: concurrency, duration: 3, grace_period: inf}\n",
    );
    let stop = |index: usize| (plan.phases[index].stop.requests, plan.phases[index].stop.duration);
    assert_eq!(stop(0), (Some(4), Some(Nanos::from_secs(300))));
    assert_eq!(stop(2), (Some(3), None));
    let drains: Vec<DrainRule> = plan.phases.iter().map(|phase| phase.drain).collect();
    assert_eq!(
        drains,
        [
            DrainRule::WhileProgressing,
            DrainRule::Grace(Nanos::ZERO),
            DrainRule::Unbounded,
            DrainRule::Unbounded
        ]
    );
    assert_eq!(plan.phases[0].arrival, Arrival::poisson(5.0));
    assert_eq!(
        (plan.phases[1].arrival.clone(), plan.phases[1].concurrency),
        (Arrival::constant(2.0), None)
    );
    assert!(plan.phases[1].seamless);
}

#[test]
fn authorisation_comes_from_headers_or_key_or_url() {
    assert!(head(&with_endpoint("url: h, api_key: k")).contains("\r\nAuthorization: Bearer k\r\n"));
    let basic = with_endpoint("url: \"http://u:p%40@h:1/v1?x=1\"");
    assert!(
        head(&basic).contains("\r\nAuthorization: Basic dTpwQA==\r\n"),
        "{}",
        head(&basic)
    );
    assert!(
        head(&basic).starts_with("POST /v1/chat/completions?x=1 HTTP/1.1\r\n"),
        "{}",
        head(&basic)
    );
    assert_eq!(basic.endpoint.targets[0].url, "http://h:1/v1/chat/completions?x=1");
    let own = with_endpoint("url: h, api_key: k, headers: {authorization: mine, X-A: 5, Accept: x}");
    assert!(head(&own).contains("authorization: mine\r\n") && !head(&own).contains("Bearer"));
    let control = [("authorization", "mine"), ("X-A", "5")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(own.endpoint.control_headers, control);
}

#[test]
fn the_type_decides_path_key_and_directory() {
    let messages = with_endpoint("url: h, type: messages, api_key: k");
    assert_eq!(messages.endpoint.kind, EndpointKind::Messages);
    assert_eq!(messages.endpoint.targets[0].url, "http://h/v1/messages");
    let text = head(&messages);
    assert!(
        text.contains("\r\nx-api-key: k\r\nanthropic-version: 2023-06-01\r\n"),
        "{text}"
    );
    assert!(!text.contains("Authorization"), "{text}");
    let directory = messages.artifacts.directory.display().to_string();
    assert!(
        directory.ends_with("artifacts/org_m-openai-messages-concurrency1"),
        "{directory}"
    );
    // The user's own header wins, in any case.
    let own = head(&with_endpoint(
        "url: h, type: messages, api_key: k, headers: {Anthropic-Version: \"2024-01-01\"}",
    ));
    assert!(
        own.contains("Anthropic-Version: 2024-01-01") && !own.contains("2023-06-01"),
        "{own}"
    );
    let own_path = with_endpoint("url: \"http://h/base\", type: cohere_rankings, path: /v1/rerank");
    assert_eq!(own_path.endpoint.targets[0].url, "http://h/base/v1/rerank");
    let rankings = with_endpoint("url: h, type: cohere_rankings");
    assert_eq!(rankings.endpoint.targets[0].path, "/v2/rerank");
}

#[test]
fn another_server_takes_the_place_of_host_and_port() {
    let config = read(&format!("{HEAD}  endpoint: {{url: \"http://prod/v1\"}}\n{PHASES}"));
    let mock = BuildOptions {
        target_override: Some("http://127.0.0.1:4000".to_owned()),
        ..options()
    };
    let plan = build(&config, &mock).expect("the plan is sound");
    assert_eq!(
        plan.endpoint.targets[0].url,
        "http://127.0.0.1:4000/v1/chat/completions"
    );
    assert!(head(&plan).contains("Host: 127.0.0.1:4000\r\n"));
    assert_eq!(plan.input_config["endpoint"]["urls"][0], "http://127.0.0.1:4000/v1");
    let bad = BuildOptions {
        target_override: Some("http://".to_owned()),
        ..options()
    };
    let mistakes = build(&config, &bad).expect_err("no host").to_string();
    assert!(
        mistakes.starts_with("f.yaml: the address that replaces endpoint.url"),
        "{mistakes}"
    );
}

#[test]
fn https_is_verified_as_the_user_says_and_warned_about_when_not() {
    let config = read(&format!("{HEAD}  endpoint: {{url: \"https://prod/v1\"}}\n{PHASES}"));
    let with = |verification: Option<Verification>| BuildOptions {
        verification,
        ..options()
    };
    let built = |verification| build(&config, &with(verification)).expect("the plan is sound");
    let plan = built(None);
    assert_eq!(plan.endpoint.tls, Some(Verification::SystemRoots));
    assert_eq!((plan.endpoint.targets[0].port, plan.warnings.len()), (443, 0));
    assert!(head(&plan).contains("Host: prod\r\n"));
    assert_eq!(plan.input_config["endpoint"]["urls"][0], "https://prod/v1");
    let file = Verification::CaFile("roots.pem".into());
    assert_eq!(built(Some(file.clone())).endpoint.tls, Some(file.clone()));
    let unverified = built(Some(Verification::Off));
    assert!(
        unverified.warnings[0].starts_with("--insecure: "),
        "{:?}",
        unverified.warnings
    );

    let plain = read(&format!("{HEAD}{ENDPOINT}{PHASES}"));
    for (verification, flag) in [(file, "--ca-file"), (Verification::Off, "--insecure")] {
        let refused = build(&plain, &with(Some(verification))).expect_err("nothing to verify");
        assert!(
            refused.to_string().contains(&format!("{flag} is for https addresses")),
            "{refused}"
        );
    }
    assert_eq!(
        build(&plain, &with(None)).expect("the plan is sound").endpoint.tls,
        None
    );

    let mock = BuildOptions {
        target_override: Some("http://127.0.0.1:4000".to_owned()),
        ..options()
    };
    let refused = build(&config, &mock).expect_err("the mock speaks no TLS");
    let mistake = refused.iter().next().expect("a mistake");
    assert_eq!((mistake.path.as_str(), mistake.line), ("benchmark.endpoint.url", 4));
}

#[test]
fn the_artifact_directory_is_named_after_the_load_unless_written() {
    let name = |phase: &str| {
        let plan = with_phases(&format!(
            "    - {{name: w, kind: warmup, type: concurrency, requests: 1}}\n    - {{name: profiling, {phase}, requests: 2}}\n"
        ));
        let directory = plan.artifacts.directory;
        assert!(directory.parent().is_some_and(|parent| parent.ends_with("artifacts")));
        directory.file_name().expect("a name").to_string_lossy().into_owned()
    };
    assert_eq!(
        name("type: concurrency, concurrency: 3"),
        "org_m-openai-chat-concurrency3"
    );
    assert_eq!(name("type: poisson, rate: 20"), "org_m-openai-chat-request_rate20.0");
    assert_eq!(
        name("type: constant, rate: 0.5, concurrency: 3"),
        "org_m-openai-chat-concurrency3-request_rate0.5"
    );
    let long = HEAD.replace("org/m", &"\u{e9}".repeat(300));
    let directory = plan_of(&format!("{long}{ENDPOINT}{PHASES}")).artifacts.directory;
    assert!(directory.file_name().is_some_and(|name| name.len() < 255));
    let config = read(&format!(
        "{HEAD}{ENDPOINT}{PHASES}  artifacts: {{dir: here, prefix: x.json, records: false}}\n"
    ));
    let plan = build(&config, &options()).expect("the plan is sound");
    assert_eq!(
        plan.artifacts.directory,
        std::env::current_dir().expect("a current directory").join("here")
    );
    assert_eq!(
        (plan.artifacts.prefix.as_deref(), plan.artifacts.records),
        (Some("x"), false)
    );
    let elsewhere = BuildOptions {
        output_directory: Some(PathBuf::from("/tmp/there")),
        overwrite: true,
        ..options()
    };
    let plan = build(&config, &elsewhere).expect("the plan is sound");
    assert_eq!(
        (plan.artifacts.directory, plan.artifacts.overwrite),
        (PathBuf::from("/tmp/there"), true)
    );
    assert_eq!(plan.input_config["artifacts"]["dir"], "/tmp/there");
}

#[test]
fn seeds_come_from_the_options_then_the_file_then_chance() {
    let config = read(&format!("random_seed: 3\n{HEAD}{ENDPOINT}{PHASES}"));
    assert_eq!(build(&config, &options()).expect("sound").seed, 7);
    let from_file = build(&config, &BuildOptions::default()).expect("sound");
    assert_eq!(from_file.seed, 3);
    assert_eq!(from_file.benchmark_id.len(), 12);
    assert!(
        from_file
            .benchmark_id
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    );
    let unseeded = read(&format!("{HEAD}{ENDPOINT}{PHASES}"));
    let draw = || build(&unseeded, &BuildOptions::default()).expect("sound");
    let (one, two) = (draw(), draw());
    assert_ne!((one.seed, one.benchmark_id), (two.seed, two.benchmark_id));
}

#[test]
fn a_dataset_seed_binds_the_prompts_alone() {
    let bodies = |dataset: &str, seed: u64| {
        let text = format!("{}{ENDPOINT}{PHASES}", HEAD.replace("entries: 3", dataset));
        let plan = build(
            &read(&text),
            &BuildOptions {
                seed: Some(seed),
                ..options()
            },
        )
        .expect("sound");
        plan.requests
            .entries
            .iter()
            .map(|image| image.tail.to_vec())
            .collect::<Vec<_>>()
    };
    assert_ne!(bodies("entries: 3", 1), bodies("entries: 3", 2));
    assert_eq!(
        bodies("entries: 3, random_seed: -1", 1),
        bodies("entries: 3, random_seed: -1", 2)
    );
}

#[test]
fn the_echo_names_what_is_set_and_hides_secrets() {
    let text = "benchmark:\n  model: m\n  \
        endpoint: {url: \"http://u:hunter2@h:1/v1?api_key=hunter2\", streaming: true, timeout: inf, headers: {X-Api-Key: hunter2, X-A: 5}, \
        extra: {a: {token: hunter2, b: 1}}, reset_kv_cache: true}\n  \
        dataset: {isl: 64, osl: {mean: 16, stddev: 2}}\n  \
        phases:\n    - {name: warmup, type: concurrency, concurrency: 2, duration: 2s}\n    \
        - {name: p, kind: profiling, type: poisson, rate: 4, requests: 6, cancellation: {rate: 5}, seamless: true}\n  \
        tokenizer: builtin\n  runtime: {ui: none}\n";
    let plan = plan_of(text);
    let expected = serde_json::json!({
        "models": {"items": [{"name": "m"}]},
        "endpoint": {
            "urls": ["http://<redacted>@h:1/v1?api_key=<redacted>"],
            "type": "chat",
            "timeout": "inf",
            "streaming": true,
            "headers": {"X-Api-Key": "<redacted>", "X-A": "5"},
            "extra": {"a": {"token": "<redacted>", "b": 1}},
            "reset_kv_cache": {},
        },
        "datasets": [{"name": "default", "type": "synthetic", "prompts": {"isl": {"value": 64.0}, "osl": {"mean": 16.0, "stddev": 2.0}}}],
        "phases": [
            {"name": "warmup", "kind": "warmup", "type": "concurrency", "exclude_from_results": true, "duration": 2.0, "concurrency": 2},
            {"name": "p", "kind": "profiling", "type": "poisson", "requests": 6, "rate": 4.0, "cancellation": {"rate": 5.0, "delay": 0.0},
             "seamless": true},
        ],
        "tokenizer": {"name": "builtin"},
        "network_latency": {"enabled": false},
        "runtime": {"ui": "none"},
    });
    assert_eq!(
        serde_json::to_string(&plan.input_config).expect("json"),
        serde_json::to_string(&expected).expect("json")
    );
}

#[test]
fn the_echo_loads_again_and_gives_the_same_plan() {
    let text = format!(
        "{HEAD}  endpoint: {{url: h/v1, timeout: 90s, headers: {{X-A: 5}}, extra: {{t: 0.5}}, session_header: X-S, path: /x, \
         use_legacy_max_tokens: on, connection_reuse: Never, transport: HTTP, server_profiler: {{start_path: /a}}}}\n  phases:\n    \
         - {{name: warmup, type: constant, rate: 2.5, sessions: 3}}\n    \
         - {{name: g, kind: profiling, type: gamma, smoothness: 0.5, rate: 4, rate_ramp: 5, concurrency: 2, on_cap: drop, requests: 3}}\n    \
         - {{name: s, kind: profiling, type: poisson, rate_series: [{{time_s: 1, qps: 2}}, {{time_s: 3, qps: 4}}], requests: 3}}\n    \
         - {{name: p, kind: profiling, type: concurrency, duration: inf, grace_period: 1m, cancellation: {{rate: 0.5, delay: 20ms}}}}\n    \
         - {{name: a, kind: profiling, type: concurrency, duration: 9, adaptive_scale: {{control: {{min: 2, max: 16}}, window: 2, \
         min_completed_requests: 5, sustain_duration: 3, strategy: {{step_policy: fixed_percent_step, step_percent: 50}}, \
         sla: {{request_latency: {{p95: {{lt: 500}}}}}}}}}}\n    \
         - {{name: r, kind: profiling, type: poisson, rate: 7.5, duration: 9, adaptive_scale: {{control: {{variable: request_rate, min: 0.5}}, \
         sustain_duration: 3, strategy: {{base_step: 0.5}}, sla: {{request_latency: {{p95: {{lt: 500}}}}}}}}}}\n    \
         - {{name: u, kind: profiling, type: user_centric, users: 6, rate: 3, duration: 90, adaptive_scale: {{control: {{variable: users}}, \
         sustain_duration: 3, sla: {{request_latency: {{p95: {{lt: 500}}}}}}}}}}\n  \
         artifacts: {{dir: d, prefix: p, summary: false, records: [jsonl]}}\n"
    );
    let first = plan_of(&text);
    let again = plan_of(&serde_json::json!({ "benchmark": first.input_config }).to_string());
    assert_eq!(first.phases, again.phases);
    assert_eq!(
        (first.hooks.reset_kv_cache, first.hooks.server_profiler),
        (again.hooks.reset_kv_cache, again.hooks.server_profiler)
    );
    assert_eq!(first.artifacts, again.artifacts);
    assert_eq!(first.requests.heads, again.requests.heads);
    assert_eq!(first.requests.ids.template, again.requests.ids.template);
    assert_eq!(first.requests.entries[2].tail, again.requests.entries[2].tail);
    assert_eq!(first.endpoint.request_timeout, again.endpoint.request_timeout);
    assert_eq!(first.endpoint.connection_reuse, ConnectionReuse::Never);
    assert_eq!(again.endpoint.connection_reuse, ConnectionReuse::Never);
    assert_eq!(first.input_config, again.input_config);
}

#[test]
fn limits_are_resolved_and_echoed() {
    let plan = with_phases(
        "    - {name: p, kind: profiling, type: concurrency, concurrency: 8, requests: 20, prefill_concurrency: 2, prefill_ramp: 1.5, \
         concurrency_ramp: {duration: 1ms, strategy: poisson}, failed_request_threshold: 0.5}\n",
    );
    let ramp = |duration, strategy| Some(RampPlan { duration, strategy });
    let expected = LimitPlan {
        prefill: NonZeroU32::new(2),
        concurrency_ramp: ramp(Nanos::from_millis(1), RampStrategy::Poisson),
        prefill_ramp: ramp(Nanos::from_millis(1_500), RampStrategy::Linear),
        failure_threshold: Some(0.5),
        adaptive: None,
    };
    assert_eq!(plan.phases[0].limits, expected);
    let echoed = &plan.input_config["phases"][0];
    assert_eq!(echoed["prefill_concurrency"], 2);
    assert_eq!(echoed["concurrency_ramp"]["strategy"], "poisson");
    assert_eq!(echoed["prefill_ramp"]["duration"], 1.5);
    assert_eq!(echoed["failed_request_threshold"], 0.5);
}

#[test]
fn advice_names_what_the_user_may_not_have_meant() {
    let warnings = |phases: &str| with_phases(phases).warnings.join("\n");
    let phase = |fields: &str| format!("    - {{name: p, kind: profiling, type: concurrency, {fields}}}\n");
    assert_eq!(warnings(&phase("concurrency: 10, requests: 10")), "");
    assert!(warnings(&phase("concurrency: 11, requests: 10")).contains("phase p: concurrency 11 can never be reached"));
    assert!(warnings(&phase("duration: inf")).contains("nothing ends it but an interrupt"));
    assert_eq!(
        warnings(&phase("duration: 10, concurrency: 4, concurrency_ramp: 10")),
        ""
    );
    assert!(
        warnings(&phase("duration: 10, concurrency: 4, concurrency_ramp: 11")).contains("its limit is never reached")
    );
    let users = |window: u32| {
        let block = format!(
            "control: {{variable: users}}, window: {window}, sustain_duration: 9, sla: {{request_latency: {{p95: {{lt: 5}}}}}}"
        );
        format!(
            "    - {{name: p, kind: profiling, type: user_centric, users: 60, rate: 3, duration: 90, adaptive_scale: {{{block}}}}}\n"
        )
    };
    assert_eq!(warnings(&users(20)), "");
    assert!(warnings(&users(19)).contains("take 20 s to begin, one turn gap, and are judged after 19 s"));
    let warmup = |concurrency: u32| {
        format!("    - {{name: warmup, type: concurrency, concurrency: {concurrency}, requests: 99}}\n")
    };
    let measured = phase("concurrency: 8, duration: 5");
    assert_eq!(warnings(&format!("{}{measured}", warmup(8))), "");
    assert!(warnings(&format!("{}{measured}", warmup(3))).contains("5 connections are opened while it is measured"));
    let open = "    - {name: p, kind: profiling, type: poisson, rate: 9, concurrency: 8, duration: 5}\n";
    assert_eq!(warnings(&format!("{}{open}", warmup(3))), "");
    let steered = phase(
        "concurrency: 8, duration: 5, adaptive_scale: {control: {min: 3}, sustain_duration: 2, sla: {request_latency: {p95: {lt: 5}}}}",
    );
    assert_eq!(warnings(&format!("{}{steered}", warmup(3))), "");
    let uncapped = "    - {name: w, kind: warmup, type: poisson, rate: 9, requests: 99}\n";
    assert_eq!(warnings(&format!("{}{uncapped}{measured}", warmup(3))), "");
    assert!(with_endpoint("url: h, use_server_token_count: true").warnings[0].contains("usage_prompt_tokens"));
}

#[test]
fn t24_a_grace_period_far_longer_than_the_phase_is_accepted_with_its_latest_end() {
    let warnings = |grace: &str| {
        let phase =
            format!("    - {{name: p, kind: profiling, type: concurrency, duration: 10, grace_period: {grace}}}\n");
        with_phases(&phase).warnings
    };
    assert_eq!(warnings("60"), Vec::<String>::new());
    assert_eq!(
        warnings("3600"),
        ["phase p: it may last 3610 s, because grace_period 3600 s follows duration 10 s"]
    );
}

#[test]
fn what_cannot_be_rendered_is_reported_at_its_section() {
    let mistakes = |text: String| build(&read(&text), &options()).expect_err("not renderable").to_string();
    let long = "X".repeat(300);
    let found = mistakes(format!(
        "{HEAD}  endpoint: {{url: h, session_header: {long}}}\n{PHASES}"
    ));
    assert!(
        found.starts_with("f.yaml:4:13: benchmark: endpoint.session_header: "),
        "{found}"
    );
    let huge = HEAD.replace("entries: 3, isl: 8", "entries: 100000, isl: 100000");
    let found = mistakes(format!("{huge}{ENDPOINT}{PHASES}"));
    assert!(
        found.starts_with("f.yaml:3:12: benchmark: dataset.entries: "),
        "{found}"
    );
}
