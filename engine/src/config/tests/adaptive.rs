//! `adaptive_scale` and `sla`.

use super::*;

const SLA_MAP: &str = "sla: {time_to_first_token: {p95: {lt: 200}}}";

fn streamed(fields: &str) -> String {
    phase_text(fields).replace("\"http://h:1\"", "\"http://h:1\", streaming: true")
}

fn adaptive(fields: &str) -> Option<AdaptiveScale> {
    read(&streamed(fields)).phases.remove(0).limits.adaptive
}

/// The only mistake of a closed loop of 8 that lasts 9 s.
#[track_caller]
fn mistake(fields: &str, key: &str, words: &str) {
    let found = mistakes(&streamed(&format!(
        "type: concurrency, concurrency: 8, duration: 9, {fields}"
    )));
    let [only] = &found[..] else {
        panic!("one mistake expected, found {found:#?}")
    };
    let path = format!("benchmark.phases[0].{key}: ");
    assert!(only.contains(&path) && only.contains(words), "{only}");
}

fn sla(metric: &str) -> Vec<Sla> {
    vec![Sla {
        metric: metric.to_owned(),
        stat: "p95".to_owned(),
        op: "lt".to_owned(),
        threshold: 200.0,
    }]
}

#[test]
fn the_nested_form_is_read() {
    let read = adaptive(&format!(
        "type: concurrency, concurrency: 32, duration: 5m, adaptive_scale: {{control: {{variable: concurrency, min: 2, max: 16}}, \
         strategy: {{type: ramp_until_fail, step_policy: fixed_percent_step, base_step: 4, stepPercent: 50}}, window: 5s, \
         min_completed_requests: 3, sustain_duration: 30, {SLA_MAP}}}"
    ));
    let expected = AdaptiveScale {
        variable: AdaptiveVariable::Concurrency,
        min: Some(2.0),
        max: 16.0,
        assessment_period_s: Some(5.0),
        min_completed_requests: Some(3),
        sustain_duration_s: 30.0,
        names_strategy: true,
        step_policy: Some(AdaptiveStep::FixedPercent),
        base_step: Some(4.0),
        max_step_multiplier: None,
        step_percent: Some(50.0),
        sla: sla("time_to_first_token"),
    };
    assert_eq!(read, Some(expected));
}

#[test]
fn the_flat_form_says_the_same() {
    let flat = adaptive(
        "type: concurrency, concurrency: 16, duration: 5m, adaptive_scale: true, adaptive_control_min: 2, adaptive_assessment_period: 5, \
         adaptive_sustain_duration: 30, adaptive_scale_base_step: 4, sla: [{metric_tag: time_to_first_token, op: lt, threshold: 200}]",
    );
    let nested = adaptive(&format!(
        "type: concurrency, concurrency: 16, duration: 5m, adaptive_scale: {{control: {{min: 2}}, strategy: {{base_step: 4}}, window: 5, \
         sustain_duration: 30, {SLA_MAP}}}"
    ));
    assert!(flat.is_some());
    assert_eq!(flat, nested);
}

#[test]
fn switched_off_it_asks_for_nothing() {
    for off in ["false", "{enabled: false}", "null"] {
        let phase = format!("type: concurrency, concurrency: 8, requests: 9, adaptive_scale: {off}");
        assert_eq!(adaptive(&phase), None, "{off}");
    }
}

#[test]
fn mistakes_of_a_controller_are_placed_at_their_key() {
    let with = |more: &str| format!("adaptive_scale: {{sustain_duration: 5, {SLA_MAP}, {more}}}");
    for (fields, key, words) in [
        (
            format!("adaptive_scale: {{{SLA_MAP}}}"),
            "adaptive_scale",
            "sustain_duration",
        ),
        (
            "adaptive_scale: {sustain_duration: 5}".to_owned(),
            "adaptive_scale",
            "service level",
        ),
        (with("foo: 1"), "adaptive_scale.foo", "unknown key"),
        (with("window: 0.5"), "adaptive_scale.window", "of at least 1"),
        (with("control: {min: 8}"), "adaptive_scale", "from 8 (min) to 8 (max)"),
        (with("control: {min: 0}"), "adaptive_scale.control.min", "at least 1"),
        (
            with("control: {variable: request_rate}"),
            "adaptive_scale.control.variable",
            "a phase of type concurrency has no rate to move",
        ),
        (
            format!("{}, adaptive_control_variable: users", with("window: 1")),
            "adaptive_control_variable",
            "only a phase of type user_centric has users to move",
        ),
        (
            with("strategy: {step_policy: bold}"),
            "adaptive_scale.strategy.step_policy",
            "sla_margin, fixed_percent_step",
        ),
        (
            with("control: {max: 4}, max_concurrency: 5"),
            "adaptive_scale.control.max",
            "says this already",
        ),
        (
            format!("{}, concurrency_ramp: 2", with("window: 1")),
            "concurrency_ramp",
            "adaptive_scale moves concurrency already",
        ),
        (
            "adaptive_scale: {sustain_duration: 5, sla: {goodput: {avg: {gt: 5}}}}".to_owned(),
            "adaptive_scale.sla.goodput",
            "there are none; add them to the benchmark",
        ),
        (
            "adaptive_scale: {sustain_duration: 5, sla: {request_latency: {p42: {lt: 5}}}}".to_owned(),
            "adaptive_scale.sla.request_latency.p42",
            "found the statistic `p42`",
        ),
        (
            "adaptive_scale: {sustain_duration: 5, sla: {request_latency: {p95: {lt: fast}}}}".to_owned(),
            "adaptive_scale.sla.request_latency.p95.lt",
            "a number",
        ),
        (
            "adaptive_scale: {sustain_duration: 5, sla: []}".to_owned(),
            "adaptive_scale.sla",
            "at least one",
        ),
        (
            "adaptive_control_min: 2".to_owned(),
            "adaptive_control_min",
            "only adaptive_scale reads this",
        ),
        (SLA_MAP.to_owned(), "sla", "only adaptive_scale reads this"),
    ] {
        mistake(&fields, key, words);
    }
}

#[test]
fn a_rate_is_moved_in_every_open_loop_with_gaps_and_need_not_be_whole() {
    let block = |control: &str| {
        format!(
            "duration: 9, adaptive_scale: {{control: {{variable: request_rate{control}}}, sustain_duration: 5, {SLA_MAP}}}"
        )
    };
    for kind in ["constant", "poisson", "gamma"] {
        let read = adaptive(&format!("type: {kind}, rate: 12.5, {}", block(""))).expect("a controller");
        assert_eq!(
            (read.variable, read.min, read.max),
            (AdaptiveVariable::RequestRate, None, 12.5)
        );
    }
    let read = adaptive(&format!("type: poisson, rate: 1, {}", block(", min: 0.25, max: 7.5"))).expect("a controller");
    assert_eq!((read.min, read.max), (Some(0.25), 7.5));
}

#[test]
fn users_are_moved_where_there_are_some() {
    let block = |control: &str| {
        format!(
            "duration: 9, adaptive_scale: {{control: {{variable: users{control}}}, sustain_duration: 5, {SLA_MAP}}}"
        )
    };
    let read = adaptive(&format!(
        "type: user_centric, users: 40, rate: 8, {}",
        block(", min: 4")
    ))
    .expect("a controller");
    assert_eq!(
        (read.variable, read.min, read.max),
        (AdaptiveVariable::Users, Some(4.0), 40.0)
    );
}

#[test]
fn what_contradicts_a_moved_pace_is_refused_with_the_reason() {
    let steered_by = |load: &str, variable: &str, control: &str| {
        streamed(&format!(
            "{load}, duration: 9, adaptive_scale: {{control: {{variable: {variable}{control}}}, sustain_duration: 5, {SLA_MAP}}}"
        ))
    };
    let users = "type: user_centric, users: 40, rate: 8";
    for (load, variable, control, words) in [
        (
            "type: poisson, rate: 9, rate_ramp: 3",
            "request_rate",
            "",
            "rate_ramp: adaptive_scale moves the rate already",
        ),
        (
            "type: poisson, rate_series: [{time_s: 0, qps: 1}, {time_s: 5, qps: 9}]",
            "request_rate",
            ", max: 9",
            "rate_series: adaptive_scale moves the rate already",
        ),
        (
            "type: poisson, rate: 9",
            "request_rate",
            ", min: 9",
            "the value is to rise from 9 (min) to 9 (max)",
        ),
        (
            "type: poisson, rate: 9",
            "request_rate",
            ", min: 0",
            "control.min: found `0`; allowed: a number above 0",
        ),
        ("type: poisson, rate: fast", "request_rate", "", "phases[0].rate: "),
        (users, "request_rate", "", "write variable: users"),
        (
            "type: constant, rate: 9",
            "users",
            "",
            "only a phase of type user_centric has users to move",
        ),
        (
            users,
            "users",
            ", min: 1.5",
            "control.min: found `1.5`; allowed: a whole number",
        ),
        (
            "type: user_centric, users: 40, rate: 8, sessions: 90",
            "users",
            "",
            "sessions: how many requests a number of sessions comes to depends",
        ),
    ] {
        let found = mistakes(&steered_by(load, variable, control));
        assert!(found.len() == 1 && found[0].contains(words), "{words}: {found:#?}");
    }
}

#[test]
fn a_fixed_schedule_cannot_be_steered() {
    let block = format!("adaptive_scale: {{sustain_duration: 5, {SLA_MAP}}}");
    let found = mistakes(&streamed(&format!(
        "type: fixed_schedule, concurrency: 8, duration: 9, {block}"
    )));
    assert!(
        found
            .iter()
            .any(|mistake| mistake.contains("a fixed schedule is replayed as it is")),
        "{found:?}"
    );
}

#[test]
fn a_controller_needs_a_duration_and_its_metrics_what_they_are_measured_in() {
    let block = format!("adaptive_scale: {{sustain_duration: 5, {SLA_MAP}}}");
    let found = mistakes(&streamed(&format!(
        "type: concurrency, concurrency: 8, requests: 9, {block}"
    )));
    assert!(found.len() == 1 && found[0].contains("add `duration`"), "{found:?}");
    let found = mistakes(&phase_text(&format!(
        "type: concurrency, concurrency: 8, duration: 9, {block}"
    )));
    assert!(
        found.len() == 1 && found[0].contains("is measured in streams"),
        "{found:?}"
    );
}

#[test]
fn goodput_is_a_service_level_where_slos_say_what_is_good() {
    let block = "type: concurrency, concurrency: 8, duration: 9, adaptive_scale: {sustain_duration: 5, sla: {goodput_ratio: {avg: {ge: 0.9}}}}";
    let text = format!("{}  slos: {{request_latency: 500}}\n", phase_text(block));
    let adaptive = read(&text).phases.remove(0).limits.adaptive.expect("it is switched on");
    assert_eq!(
        (adaptive.sla[0].metric.as_str(), adaptive.sla[0].threshold),
        ("goodput_ratio", 0.9)
    );
    // A mistake in the thresholds is one mistake, not a reason for a second.
    let faulty = format!("{}  slos: {{request_latency: fast}}\n", phase_text(block));
    let found = mistakes(&faulty);
    assert!(
        found.len() == 1 && found[0].contains("slos.request_latency"),
        "{found:?}"
    );
    let empty = format!("{}  slos: {{}}\n", phase_text(block));
    let found = mistakes(&empty);
    assert!(found.len() == 1 && found[0].contains("there are none"), "{found:?}");
}
