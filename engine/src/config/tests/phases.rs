//! `phases`: fields, names, kinds and short forms.

use super::*;

#[test]
fn fields_of_a_phase_are_read_by_their_types() {
    let read = phase(
        "type: poisson, rate: 5e-1, duration: 1h30m, requests: 1e3, sessions: 3.0, grace_period: inf, \
                      cancellation: {rate: 0.5, delay: 250ms}, concurrency: \"4\"",
    );
    assert_eq!(
        read.load,
        PhaseType::Poisson {
            rate: Rate::Constant(0.5)
        }
    );
    assert_eq!(
        (read.duration_s, read.requests, read.sessions),
        (Some(5400.0), Some(1000), Some(3))
    );
    assert_eq!((read.grace_period_s, read.concurrency), (Some(f64::INFINITY), Some(4)));
    assert_eq!(
        read.cancellation,
        Some(Cancellation {
            rate: 0.5,
            delay_s: 0.25
        })
    );
    assert_eq!(phase("type: constant, rate: 3, requests: 1").concurrency, None);
    assert_eq!(
        phase("type: concurrency, requests: 1, cancellation: null, kind: null").cancellation,
        None
    );
    assert_eq!(
        phase("type: concurrency, duration: inf").duration_s,
        Some(f64::INFINITY)
    );
}

#[test]
fn mistakes_of_a_phase_are_placed_at_their_value() {
    let stop = "requests: 2";
    phase_mistake("type: concurrency", "{name", "", "nothing ends this phase");
    phase_mistake("type: concurrency, requests: 0", "0", ".requests", "at least 1");
    phase_mistake("type: concurrency, requests: 1.5", "1.5", ".requests", "whole number");
    phase_mistake("type: concurrency, requests: true", "true", ".requests", "found `true`");
    phase_mistake("type: concurrency, requests: 010", "010", ".requests", "write 10");
    phase_mistake("type: concurrency, requests: 1:30", "1:30", ".requests", "base 60");
    phase_mistake("type: concurrency, sessions: -1", "-1", ".sessions", "at least 1");
    phase_mistake("type: concurrency, duration: 0", "0", ".duration", "above 0");
    phase_mistake(
        "type: concurrency, duration: -5s",
        "-5s",
        ".duration",
        "a duration above 0",
    );
    phase_mistake("type: concurrency, duration: .nan", ".nan", ".duration", "found `.nan`");
    phase_mistake("type: concurrency, duration: 1d", "1d", ".duration", "`d` is no unit");
    phase_mistake(
        &format!("type: concurrency, {stop}, grace_period: 5"),
        "5",
        ".grace_period",
        "add `duration`",
    );
    phase_mistake(
        "type: concurrency, duration: 2, grace_period: -1",
        "-1",
        ".grace_period",
        "at least 0",
    );
    phase_mistake(
        &format!("type: concurrency, {stop}, concurrency: [1, 2]"),
        "[1",
        ".concurrency",
        "found a list",
    );
    phase_mistake(
        &format!("type: concurrency, {stop}, concurrency: 4294967296"),
        "4294967296",
        ".concurrency",
        "to 4294967295",
    );
    phase_mistake(
        &format!("type: concurrency, rate: 5, {stop}"),
        "rate",
        ".rate",
        "has no rate",
    );
    phase_mistake(&format!("type: poisson, {stop}"), "{name", ".rate", "required");
    phase_mistake(&format!("type: poisson, rate: 0, {stop}"), "0", ".rate", "above 0");
    phase_mistake(&format!("type: poisson, rate: inf, {stop}"), "inf", ".rate", "above 0");
    phase_mistake(stop, "{name", ".type", "required");
    phase_mistake(
        &format!("type: Concurrency, {stop}"),
        "Concurrency",
        ".type",
        "did you mean `concurrency`?",
    );
    phase_mistake(
        &format!("type: agentic_replay, {stop}"),
        "agentic_replay",
        ".type",
        "not supported by ringload yet: `agentic_replay`",
    );
    phase_mistake(
        &format!("type: burst, {stop}"),
        "burst",
        ".type",
        "allowed: concurrency, constant, poisson, gamma",
    );
    phase_mistake(
        &format!("type: concurrency, {stop}, kind: Profiling"),
        "Profiling",
        ".kind",
        "did you mean `profiling`?",
    );
    phase_mistake(
        &format!("type: concurrency, {stop}, exclude_from_results: true"),
        "true",
        ".exclude_from_results",
        "contradicts",
    );
}

#[test]
fn mistakes_of_a_cancellation_are_placed_at_their_value() {
    let case = |block: &str| format!("type: concurrency, requests: 2, cancellation: {block}");
    phase_mistake(&case("{delay: 1}"), "{delay", ".cancellation.rate", "required");
    phase_mistake(&case("{rate: 101}"), "101", ".cancellation.rate", "from 0 to 100");
    phase_mistake(&case("{rate: -1}"), "-1", ".cancellation.rate", "from 0 to 100");
    phase_mistake(&case("{rate: .nan}"), ".nan", ".cancellation.rate", "from 0 to 100");
    phase_mistake(&case("{rate: 1, delay: -1}"), "-1", ".cancellation.delay", "at least 0");
    phase_mistake(
        &case("{rate: 1, jitter: 2}"),
        "jitter",
        ".cancellation.jitter",
        "unknown key",
    );
    phase_mistake(&case("5"), "5", ".cancellation", "a mapping");
    phase_mistake(&case("false"), "false", ".cancellation", "a mapping");
    for rate in ["0", "100", "0.5"] {
        assert!(phase(&case(&format!("{{rate: {rate}}}"))).cancellation.is_some());
    }
}

fn phases(list: &str) -> String {
    let text = SAMPLE.text();
    let head = text.split("  phases:").next().expect("the sample has phases");
    format!("{head}  phases:\n{list}")
}

#[test]
fn names_and_kinds_follow_the_naming_rules() {
    let pair = |a: &str, b: &str| {
        phases(&format!(
            "    - {{{a}, type: concurrency, requests: 1}}\n    - {{{b}, type: concurrency, requests: 1}}\n"
        ))
    };
    let good = read(&pair("name: warmup", "name: Load-2, kind: profiling"));
    assert_eq!(
        good.phases.iter().map(|phase| phase.kind).collect::<Vec<_>>(),
        [PhaseKind::Warmup, PhaseKind::Profiling]
    );
    read(&pair("name: Warmup, kind: warmup", "name: profiling"));
    for (a, b, place, words) in [
        (
            "name: load, kind: profiling",
            "name: Load, kind: warmup",
            "8:14: benchmark.phases[1].name",
            "line 7",
        ),
        (
            "name: baseline",
            "name: profiling",
            "7:7: benchmark.phases[0].kind",
            "required",
        ),
        (
            "name: Profiling",
            "name: b, kind: profiling",
            "7:7: benchmark.phases[0].kind",
            "only the name `profiling` implies",
        ),
        (
            "name: Warmup, kind: profiling",
            "name: b, kind: profiling",
            "7:22: benchmark.phases[0].kind",
            "reserved for kind: warmup",
        ),
        (
            "name: profiling, kind: warmup",
            "name: b, kind: profiling",
            "7:25: benchmark.phases[0].kind",
            "reserved for kind: profiling",
        ),
        (
            "name: warmup",
            "name: b, kind: warmup",
            "6:3: benchmark.phases",
            "at least one phase must have kind: profiling",
        ),
        (
            "kind: profiling",
            "name: profiling",
            "7:7: benchmark.phases[0].name",
            "required",
        ),
        (
            "name: com1, kind: warmup",
            "name: profiling",
            "7:14: benchmark.phases[0].name",
            "Windows",
        ),
        (
            "name: 5, kind: warmup",
            "name: profiling",
            "7:14: benchmark.phases[0].name",
            "allowed: a letter",
        ),
    ] {
        one_mistake(&pair(a, b), place, words);
    }
}

#[test]
fn short_forms_fill_in_name_and_kind() {
    let load = "{type: concurrency, requests: 1}";
    let flat = read(
        &SAMPLE
            .text()
            .replace("  phases:\n    - {name: profiling", "  phases: {name: load"),
    );
    assert_eq!(
        (flat.phases[0].name.as_str(), flat.phases[0].kind),
        ("load", PhaseKind::Profiling)
    );
    let both = phases("").replace("  phases:\n", &format!("  profiling: {load}\n  warmup: {load}\n"));
    assert_eq!(
        read(&both)
            .phases
            .iter()
            .map(|phase| phase.name.as_str())
            .collect::<Vec<_>>(),
        ["warmup", "profiling"]
    );
    let alone = phases("").replace("  phases:\n", &format!("  warmup: {load}\n"));
    one_mistake(&alone, "6:3: benchmark.warmup", "add `profiling`");
    let twice = format!("{}  profiling: null\n", SAMPLE.text());
    one_mistake(&twice, "8:3: benchmark.profiling", "exclude each other");
    one_mistake(
        &phases(&format!("    warmup: {load}\n    profiling: {load}\n")),
        "7:5: benchmark.phases",
        "keyed by phase name",
    );
    one_mistake(&phases("    []\n"), "7:5: benchmark.phases", "at least one phase");
}

#[test]
fn a_fixed_schedule_has_a_window_and_ends_by_itself() {
    let phase = |fields: &str| format!("  phases:\n    - {{name: profiling, type: fixed_schedule{fields}}}\n");
    let read_phase = |fields: &str| {
        let phases = phase(fields);
        let text = SAMPLE.text().replace(SAMPLE.phases, &phases);
        read(&text).phases.remove(0)
    };
    let whole = read_phase("");
    assert_eq!(whole.load, PhaseType::FixedSchedule(ScheduleWindow::default()));
    assert_eq!((whole.concurrency, whole.requests), (None, None));
    let part = read_phase(
        ", auto_offset: no, start_offset: 10, end_offset: 20, concurrency: 3, duration: 5s, grace_period: 1",
    );
    let window = ScheduleWindow {
        auto_offset: Some(false),
        start_ms: Some(10),
        end_ms: Some(20),
    };
    assert_eq!(
        (part.load, part.concurrency),
        (PhaseType::FixedSchedule(window), Some(3))
    );
    for (bad, words) in [
        (", requests: 5", "so `requests` has no meaning"),
        (", sessions: 5", "so `sessions` has no meaning"),
        (", rate: 5", "so `rate` has no meaning"),
        (", rate_ramp: 5s", "so `rate_ramp` has no meaning"),
        (
            ", concurrency: 1, on_cap: drop",
            "sends each of its entries, late if need be",
        ),
        (", start_offset: 5", "add auto_offset: false or remove the key"),
        (
            ", auto_offset: true, start_offset: 5",
            "add auto_offset: false or remove the key",
        ),
        (
            ", auto_offset: false, start_offset: 5, end_offset: 4",
            "found `4`; allowed: at least start_offset (5)",
        ),
        (", end_offset: -1", "a whole number"),
        (", end_offset: 1.5", "a whole number"),
    ] {
        let found = mistakes(&SAMPLE.text().replace(SAMPLE.phases, &phase(bad)));
        assert!(found.len() == 1 && found[0].contains(words), "{bad}: {found:?}");
    }
    let foreign = "  phases:\n    - {name: profiling, type: concurrency, requests: 1, end_offset: 5}\n";
    let found = mistakes(&SAMPLE.text().replace(SAMPLE.phases, foreign));
    assert!(
        found.len() == 1 && found[0].contains("only phases of type fixed_schedule have offsets"),
        "{found:?}"
    );
}

#[test]
fn s23_the_first_phase_has_nothing_to_follow_seamlessly() {
    phase_mistake(
        "type: concurrency, concurrency: 1, requests: 1, seamless: true",
        "seamless",
        ".seamless",
        "first phase",
    );
}

#[test]
fn users_have_a_number_and_one_rate_and_all_of_them_begin() {
    let read = phase("type: user_centric, users: 15, rate: 1, requests: 15");
    assert_eq!(
        (read.load.users(), read.load.rate()),
        (Some(15), Some(&Rate::Constant(1.0)))
    );
    let users = "type: user_centric, users: 5";
    phase_mistake(
        &format!("{users}, rate: 1, requests: 2"),
        "2}",
        ".requests",
        "2 requests end the phase before all 5 users have begun; allowed: at least 5",
    );
    phase_mistake(
        &format!("{users}, rate: 1, sessions: 4"),
        "4}",
        ".sessions",
        "at least 5",
    );
    phase_mistake(
        "type: user_centric, rate: 1, requests: 9",
        "{name",
        ".users",
        "this key is required",
    );
    phase_mistake(
        &format!("{users}, requests: 9"),
        "{name",
        ".rate",
        "this key is required",
    );
    phase_mistake(
        "type: poisson, rate: 1, requests: 9, users: 3",
        "users",
        ".users",
        "only a phase of type user_centric has users",
    );
    phase_mistake(
        &format!("{users}, rate: 1, rate_ramp: 5, requests: 9"),
        "rate_ramp",
        ".rate_ramp",
        "users send at even gaps",
    );
    phase_mistake(
        &format!("{users}, rate: 1, requests: 9, concurrency: 2, on_cap: drop"),
        "drop",
        ".on_cap",
        "users wait for a slot",
    );
}
