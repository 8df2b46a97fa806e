//! The document itself: encoding, syntax, anchors, bounds, substitution.

use super::*;

#[test]
fn a_byte_order_mark_and_crlf_change_nothing() {
    let text = SAMPLE.text();
    assert_eq!(read(&format!("\u{feff}{text}")).phases, read(&text).phases);
    assert_eq!(read(&text.replace('\n', "\r\n")).phases, read(&text).phases);
    let broken = text.replace("requests: 2", "requests: 0").replace('\n', "\r\n");
    one_mistake(
        &format!("\u{feff}{broken}"),
        "7:54: benchmark.phases[0].requests",
        "found `0`",
    );
}

#[test]
fn columns_count_characters() {
    let text = SAMPLE
        .text()
        .replace("{name: profiling", "{name: \"\u{e9}\u{4e2d}\", kind: profiling")
        .replace("requests: 2", "requests: 0");
    let found = mistakes(&text);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("7:14: benchmark.phases[0].name: "), "{}", found[0]);
    assert!(
        found[1].starts_with("7:66: benchmark.phases[0].requests: "),
        "{}",
        found[1]
    );
}

#[test]
fn what_is_not_one_mapping_in_utf8_is_refused_at_its_place() {
    one_mistake("", "1:1", "empty document");
    one_mistake("# only\n---\n", "1:1", "empty document");
    one_mistake("- a\n- b\n", "1:1", "found a list");
    one_mistake("text", "1:1", "found `text`");
    one_mistake(&format!("{}---\na: 1\n", SAMPLE.text()), "8:1", "second document");
    let bytes = [b"a: 1\nb: \xc3\xa9".as_slice(), b"\xff\n"].concat();
    let found = parse("f.yaml", &bytes, &|_| None).unwrap_err().to_string();
    assert_eq!(
        found,
        "f.yaml:2:5: found the byte 0xff, which is not UTF-8; save the file as UTF-8"
    );
    let hidden = format!("{}\0nonsense: 1\n", SAMPLE.text());
    one_mistake(&hidden, "8:1", "found the control character U+0000");
    one_mistake("a: \u{1b}[31m\n", "1:4", "U+001B");
    one_mistake("a: [1\nb: 2\n", "2:2: a[0]", "not valid YAML");
}

#[test]
fn a_tab_in_the_indentation_is_named_with_its_line() {
    let text = SAMPLE.text().replace("  endpoint:", "\tendpoint:");
    one_mistake(&text, "4:1", "tab in the indentation");
    one_mistake(
        "benchmark:\n  model: m\n  endpoint:\n  \turl: http://h\n",
        "4:3",
        "tab in the indentation",
    );
}

#[test]
fn a_key_written_twice_shows_both_lines() {
    let text = phase_text("type: concurrency, concurrency: 1,\n       concurrency: 2, requests: 2");
    one_mistake(&text, "8:8: benchmark.phases[0].concurrency", "it is on line 7 already");
    one_mistake(&format!("{}benchmark: 1\n", SAMPLE.text()), "8:1: benchmark", "line 2");
}

#[test]
fn both_spellings_of_a_key_are_one_too_many() {
    phase_mistake(
        "type: concurrency, duration: 5, grace_period: 1, gracePeriod: 2",
        "gracePeriod",
        ".gracePeriod",
        "`grace_period`",
    );
}

#[test]
fn anchors_aliases_and_merge_keys_work() {
    let phases = "  phases:\n    - &base {name: a, kind: profiling, type: concurrency, requests: 2, cancellation: &c {rate: 5}}\n    \
                  - {<<: *base, name: b, concurrency: 3}\n    - {name: c, kind: profiling, type: poisson, rate: 2, requests: 1, cancellation: *c}\n";
    let config = Sample { phases, ..SAMPLE }.read();
    let [a, b, c] = &config.phases[..] else {
        panic!("three phases expected")
    };
    assert_eq!(
        (a.requests, b.requests, b.concurrency, b.name.as_str()),
        (Some(2), Some(2), Some(3), "b")
    );
    assert_eq!(a.cancellation, c.cancellation);
    let merged_list =
        "  phases:\n    - {<<: [{requests: 5, name: x}, {requests: 6, type: concurrency}], name: profiling}\n";
    assert_eq!(
        Sample {
            phases: merged_list,
            ..SAMPLE
        }
        .read()
        .phases[0]
            .requests,
        Some(5)
    );
}

#[test]
fn an_own_key_wins_over_a_merged_one_in_the_other_spelling() {
    let phases =
        "  phases:\n    - {<<: {gracePeriod: 9}, grace_period: 1, name: profiling, type: concurrency, duration: 5}\n";
    assert_eq!(Sample { phases, ..SAMPLE }.read().phases[0].grace_period_s, Some(1.0));
}

#[test]
fn merging_into_free_keys_keeps_the_first_of_each() {
    let text = SAMPLE
        .text()
        .replace("url: ", "extra: {<<: [{a: 1, b: 2}, {b: 3, c: 4}], a: 5}, url: ");
    let extra = serde_json::to_string(&read(&text).endpoint.extra).expect("extra is JSON");
    assert_eq!(extra, r#"{"a":5,"b":2,"c":4}"#);
}

#[test]
fn misused_anchors_and_merges_are_mistakes() {
    one_mistake("a: *nope\n", "1:4", "not valid YAML");
    one_mistake("a: &x [*x]\n", "1:8: a[0]", "inside its own anchor");
    let text = phase_text("<<: 5, type: concurrency, requests: 2");
    one_mistake(&text, "7:29: benchmark.phases[0]", "after `<<`");
}

#[test]
fn documents_made_to_explode_are_refused() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let below = format!("*a{}, ", level - 1).repeat(10);
        text.push_str(&format!("a{level}: &a{level} [{}]\n", below.trim_end_matches(", ")));
    }
    let found = mistakes(&text);
    assert!(found[0].contains("more than 200000 values"), "{found:?}");
    // A long text is copied each time that it is read: 100,000 times 1 MB here.
    let long = format!("a: &a {}\nb: [{}*a]\n", "x".repeat(1 << 20), "*a, ".repeat(99_999));
    let found = mistakes(&long);
    assert!(found[0].contains("more than 16777216 bytes of text"), "{found:?}");
    let big = |_: &str| Some("x".repeat(1 << 20));
    let references = format!("b: [{}x]\n", "\"${BIG}\", ".repeat(10_000));
    let found = parse("f.yaml", references.as_bytes(), &big).unwrap_err().to_string();
    assert!(found.contains("more than 16777216 bytes of text"), "{found}");
    let merged: String = (0..3_000).map(|at| format!("k{at}: [x, x, x, x, x], ")).collect();
    let bomb = format!("a: &a {{{merged}}}\nb: [{}{{<<: *a}}]\n", "{<<: *a}, ".repeat(2_000));
    let found = mistakes(&bomb);
    assert!(found[0].contains("more than 200000 values"), "{found:?}");
    let deep = format!("a: {}{}", "[".repeat(200), "]".repeat(200));
    let found = mistakes(&deep);
    assert!(
        found.len() == 1 && found[0].starts_with("1:") && found[0].contains("128 levels"),
        "{found:?}"
    );
    let mut chain = String::from("a0: &a0 [x]\n");
    for level in 1..150 {
        chain.push_str(&format!("a{level}: &a{level} [*a{}]\n", level - 1));
    }
    assert!(mistakes(&chain)[0].contains("128 levels"));
    let found = parse("f.yaml", &vec![b' '; 5 << 20], &|_| None)
        .unwrap_err()
        .to_string();
    assert!(found.contains("found 5242880 bytes"), "{found}");
}

#[test]
fn tags_and_collections_as_keys_are_refused() {
    assert_eq!(
        names(&read(&SAMPLE.text().replace("model: m", "model: !!str 5"))),
        ["5"]
    );
    one_mistake(
        &SAMPLE.text().replace("model: m", "model: !!int 5"),
        "3:10: benchmark.model",
        "tag",
    );
    one_mistake("a: {{ x }}\n", "1:5: a", "as a key");
    one_mistake("? [a]\n: b\n", "1:3", "as a key");
}

#[test]
fn the_environment_is_replaced_before_types_are_read() {
    let config = read(&phase_text(
        "type: concurrency, duration: \"${D}\", concurrency: \"${N:8}\"",
    ));
    assert_eq!(config.phases[0].duration_s, Some(30.0));
    assert_eq!(config.phases[0].concurrency, Some(8));
    let config = read(&SAMPLE.text().replace("model: m", "model: ${N:null}"));
    assert_eq!(names(&config), ["null"]);
    phase_mistake(
        "type: concurrency, duration: \"${NOPE}\"",
        "\"${NOPE}",
        ".duration",
        "`NOPE` is not set",
    );
    one_mistake(
        &SAMPLE.text().replace("model: m", "model: ${EMPTY}"),
        "3:10: benchmark.model",
        "empty text",
    );
}

#[test]
fn mistakes_without_end_are_cut_short() {
    let many = format!("extra: {{a: [{}]}}, url: ", "010, ".repeat(5000));
    let found = mistakes(&SAMPLE.text().replace("url: ", &many));
    assert_eq!(found.len(), 1001);
    assert!(found.iter().any(|line| line.contains("more than 1000 mistakes")));
    one_mistake(
        &format!("{}: 1\n", "k".repeat(300)),
        "1:1",
        "a key of more than 256 characters",
    );
}

#[test]
fn every_line_break_of_the_format_counts_as_one() {
    let text = SAMPLE
        .text()
        .replace("url: ", "api_key: hunter2, retries: 1, url: ")
        .replace('\n', "\r");
    let found = parse("f.yaml", text.as_bytes(), &environment).expect_err("retries is no key");
    let shown = found.render(true);
    assert!(
        shown.starts_with("f.yaml:4:32: benchmark.endpoint.retries")
            && shown.contains("4 |   endpoint: {api_key: <redacted>, retries"),
        "{shown}"
    );
}

#[test]
fn a_file_is_read_from_its_path_or_not_at_all() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("bench.yaml");
    std::fs::write(&file, SAMPLE.text().replace("requests: 2", "requests: 0")).expect("the file is writable");
    let found = load_suite(&file).expect_err("zero requests").to_string();
    assert!(
        found.starts_with(&format!("{}:7:54: benchmark.phases[0].requests: ", file.display())),
        "{found}"
    );
    let missing = directory.path().join("nope.yaml");
    let found = load_suite(&missing).expect_err("no such file").to_string();
    assert!(
        found.starts_with(&format!("{}: cannot read the file: ", missing.display())),
        "{found}"
    );
    assert!(
        load_suite(directory.path())
            .expect_err("a directory")
            .to_string()
            .ends_with("it is not a regular file")
    );
}
