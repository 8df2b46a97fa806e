//! Rates of open loops: `rate`, `rate_series`, `rate_ramp`, `smoothness`, and what becomes of arrivals beyond the cap.

use super::*;

const STOP: &str = "requests: 2";

fn rate_of(fields: &str) -> Rate {
    phase(&format!("{fields}, {STOP}"))
        .load
        .rate()
        .expect("an open loop has a rate")
        .clone()
}

fn points(list: &[(f64, f64)]) -> Rate {
    Rate::Series(list.iter().map(|&(time_s, qps)| RatePoint { time_s, qps }).collect())
}

#[test]
fn gamma_has_a_rate_and_perhaps_a_smoothness() {
    let load = |fields: &str| phase(&format!("type: gamma, {fields}, {STOP}")).load;
    let rate = Rate::Constant(5.0);
    let gamma = |smoothness| PhaseType::Gamma {
        rate: rate.clone(),
        smoothness,
    };
    assert_eq!(load("rate: 5"), gamma(None));
    assert_eq!(load("rate: 5, smoothness: 0.001"), gamma(Some(0.001)));
    assert_eq!(load("rate: 5, smoothness: 1e6"), gamma(Some(1e6)));
}

#[test]
fn a_series_is_a_list_or_a_mapping_with_a_list() {
    let expected = points(&[(0.0, 1.0), (30.0, 10.5)]);
    for form in [
        "[{time_s: 0, qps: 1}, {time_s: 30, qps: 10.5}]",
        "{points: [{timeS: 0, qps: 1}, {qps: 10.5, timeS: 3e1}]}",
    ] {
        assert_eq!(rate_of(&format!("type: poisson, rate_series: {form}")), expected);
    }
    assert_eq!(
        rate_of("type: poisson, rateSeries: [{time_s: 5, qps: 1}, {time_s: 6, qps: 2}]"),
        points(&[(5.0, 1.0), (6.0, 2.0)])
    );
    assert_eq!(
        rate_of("type: poisson, rate_series: [{time_s: 500ms, qps: 1}, {time_s: 1m, qps: 2}]"),
        points(&[(0.5, 1.0), (60.0, 2.0)])
    );
}

#[test]
fn a_ramp_is_a_duration_or_a_mapping_with_one() {
    let ramp = |form: &str| phase(&format!("type: poisson, rate: 5, rate_ramp: {form}, {STOP}")).rate_ramp;
    let read = |duration_s, strategy| Some(Ramp { duration_s, strategy });
    assert_eq!(ramp("30"), read(30.0, RampStrategy::Linear));
    assert_eq!(ramp("1m30s"), read(90.0, RampStrategy::Linear));
    assert_eq!(
        ramp("{duration: 2, strategy: Exponential}"),
        read(2.0, RampStrategy::Exponential)
    );
    assert_eq!(
        ramp("{strategy: poisson, duration: 500ms}"),
        read(0.5, RampStrategy::Poisson)
    );
    assert_eq!(ramp("null"), None);
}

#[test]
fn what_becomes_of_arrivals_beyond_the_cap_is_a_word() {
    let on_cap = |fields: &str| phase(&format!("type: poisson, rate: 5, {fields}, {STOP}")).on_cap;
    assert_eq!(on_cap("concurrency: 3"), None);
    assert_eq!(on_cap("concurrency: 3, on_cap: wait"), Some(OnCap::Wait));
    assert_eq!(on_cap("concurrency: 3, on_cap: queue"), Some(OnCap::Wait));
    assert_eq!(on_cap("concurrency: 3, onCap: Drop"), Some(OnCap::Drop));
    let streaming = phase_text(&format!(
        "type: poisson, rate: 5, prefill_concurrency: 3, on_cap: drop, {STOP}"
    ))
    .replace("url: \"http://h:1\"", "url: \"http://h:1\", streaming: true");
    assert_eq!(read(&streaming).phases[0].on_cap, Some(OnCap::Drop));
}

#[test]
fn mistakes_of_rates_are_placed_at_their_value() {
    let case = |fields: &str, column_of: &str, path: &str, words: &str| {
        phase_mistake(&format!("{fields}, {STOP}"), column_of, path, words);
    };
    case("type: gamma", "{name", ".rate", "required");
    case(
        "type: gamma, rate: 5, smoothness: 0",
        "0,",
        ".smoothness",
        "at least 0.001",
    );
    case(
        "type: gamma, rate: 5, smoothness: inf",
        "inf",
        ".smoothness",
        "found `inf`",
    );
    case(
        "type: poisson, rate: 5, smoothness: 1",
        "smoothness",
        ".smoothness",
        "only gaps of type gamma",
    );
    case(
        "type: concurrency, smoothness: 1",
        "smoothness",
        ".smoothness",
        "only gaps of type gamma",
    );
    case("type: constant, rate: 2e9", "2e9", ".rate", "up to 1000000000");
    case(
        "type: concurrency, rate_ramp: 5",
        "rate_ramp",
        ".rate_ramp",
        "has no rate",
    );
    case(
        "type: concurrency, rate_series: [{time_s: 0, qps: 1}, {time_s: 1, qps: 1}]",
        "rate_series",
        ".rate_series",
        "has no rate",
    );
    case(
        "type: poisson, rate: 1, rate_series: [{time_s: 0, qps: 1}, {time_s: 1, qps: 1}]",
        "rate_series",
        ".rate_series",
        "exclude each other",
    );
    case("type: poisson, rate: 1, rate_ramp: 0", "0,", ".rate_ramp", "above 0");
    case("type: poisson, rate: 1, rate_ramp: inf", "inf", ".rate_ramp", "above 0");
    case(
        "type: poisson, rate: 1, rate_ramp: {strategy: linear}",
        "{strategy",
        ".rate_ramp.duration",
        "required",
    );
    case(
        "type: poisson, rate: 1, rate_ramp: {duration: 1, strategy: cubic}",
        "cubic",
        ".rate_ramp.strategy",
        "allowed: linear, exponential, poisson",
    );
    case(
        "type: poisson, rate: 5, on_cap: drop",
        "drop",
        ".on_cap",
        "add `concurrency` or `prefill_concurrency`",
    );
    case(
        "type: concurrency, concurrency: 5, on_cap: drop",
        "drop",
        ".on_cap",
        "has no arrivals",
    );
    case(
        "type: poisson, rate: 5, concurrency: 5, on_cap: shed",
        "shed",
        ".on_cap",
        "allowed: wait, queue, drop",
    );
}

#[test]
fn mistakes_of_a_series_are_placed_at_their_point() {
    let case = |series: &str, column_of: &str, path: &str, words: &str| {
        let fields = format!("type: poisson, {STOP}, rate_series: {series}");
        phase_mistake(&fields, column_of, &format!(".rate_series{path}"), words);
    };
    case("[]", "[]", "", "found 0 points; allowed: from 2");
    case("[{time_s: 0, qps: 1}]", "[{", "", "found 1 point");
    case("{points: [{time_s: 0, qps: 1}]}", "[{", ".points", "found 1 point");
    case("{}", "{}", ".points", "required");
    case(
        "{points: [{time_s: 0, qps: 1}, {time_s: 1, qps: 1}], unit: s}",
        "unit",
        ".unit",
        "unknown key",
    );
    case(
        "[{time_s: 0, qps: 1}, {time_s: 0, qps: 2}]",
        "0, qps: 2",
        "[1].time_s",
        "above 0, that of the point before",
    );
    case(
        "[{time_s: -1, qps: 1}, {time_s: 0, qps: 2}]",
        "-1",
        "[0].time_s",
        "at least 0",
    );
    case("[{time_s: 0, qps: 0}, {time_s: 1, qps: 2}]", "0}", "[0].qps", "above 0");
    case(
        "[{time_s: 0, qps: 1}, {time_s: inf, qps: 2}]",
        "inf",
        "[1].time_s",
        "at least 0",
    );
    case(
        "[{time_s: 0}, {time_s: 1, qps: 2}]",
        "{time_s: 0}",
        "[0].qps",
        "required",
    );
    case("[{time_s: 0, qps: 1}, 5]", "5]", "[1]", "a mapping");
    case(
        "[{time_s: 0, qps: 1, qsp: 2}, {time_s: 1, qps: 2}]",
        "qsp",
        "[0].qsp",
        "unknown key",
    );
    case(
        "/no/such/rates.json",
        "/no",
        "",
        "cannot read the points from `/no/such/rates.json`: No such file",
    );
    case("/", "/", "", "not a regular file");
    case("{path: /}", "/", ".path", "not a regular file");
    case("{path: [a]}", "[a]", ".path", "allowed: the path of a JSON file");
    case("{path: a, points: []}", "points", ".points", "exclude each other");
    case("{}", "{}", ".points", "name their file with path");
}

#[test]
fn a_series_is_read_from_a_json_file() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("rates.json");
    let fields = format!("type: constant, rate_series: {}", path.display());
    let write = |text: &str| std::fs::write(&path, text).expect("a file");
    for form in [
        r#"[{"time_s": 0, "qps": 1}, {"timeS": 2.5, "qps": 10}]"#,
        r#"{"points": [{"time_s": 0, "qps": 1}, {"time_s": 2.5, "qps": 10}]}"#,
        r#"[{"time_s": "0", "qps": 1}, {"time_s": "2500ms", "qps": 10}]"#,
    ] {
        write(form);
        let expected = points(&[(0.0, 1.0), (2.5, 10.0)]);
        assert_eq!(rate_of(&fields), expected, "{form}");
        let named = format!("type: constant, rate_series: {{path: {}}}", path.display());
        assert_eq!(rate_of(&named), expected, "{form}");
    }
    for (form, words) in [
        ("", "EOF while parsing"),
        ("[1, 2}", "line 1 column"),
        ("5", "allowed: a list of points"),
        (r#"{"points": [], "x": 1}"#, "the only key `points`"),
        (r#"[{"time_s": 0, "qps": 1}]"#, "found 1 point; allowed: from 2"),
        (r#"[{"time_s": 0, "qps": 1}, 7]"#, "points[1]: allowed: an object"),
        (
            r#"[{"time_s": 0, "qps": "1"}, {"time_s": 1, "qps": 1}]"#,
            "points[0]: allowed: an object",
        ),
        (
            r#"[{"time_s": 0, "qps": 1, "x": 1}, {"time_s": 1, "qps": 1}]"#,
            "points[0]: allowed: an object",
        ),
        (
            r#"[{"time_s": 0, "qps": 1}, {"time_s": 0, "qps": 1}]"#,
            "points[1]: found time_s 0; allowed: a time above 0",
        ),
        (
            r#"[{"time_s": -1, "qps": 1}, {"time_s": 0, "qps": 1}]"#,
            "points[0]: found time_s -1",
        ),
        (
            r#"[{"time_s": 0, "qps": 1}, {"time_s": "1d", "qps": 1}]"#,
            "points[1]: found time_s `1d`; allowed: ",
        ),
        (
            r#"[{"time_s": 0, "qps": 0}, {"time_s": 1, "qps": 1}]"#,
            "points[0]: found qps 0",
        ),
    ] {
        write(form);
        phase_mistake(
            &format!("{fields}, {STOP}"),
            &path.display().to_string(),
            ".rate_series",
            words,
        );
    }
}
