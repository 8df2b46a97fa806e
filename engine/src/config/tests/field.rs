//! Configs that went wrong for others; each test is named after its line in the list of field cases.

use super::*;

#[test]
fn c01_numbers_with_an_exponent_are_numbers_and_an_integer_must_be_whole() {
    let read = phase("type: poisson, rate: 5e-1, requests: 1e3");
    assert_eq!(read.requests, Some(1_000));
    assert_eq!(read.load.rate().map(|rate| rate.first()), Some(0.5));
    for (written, found) in [
        ("1e-1", "found `1e-1`"),
        ("1.5", "found `1.5`"),
        ("15e-1", "found `15e-1`"),
    ] {
        let fields = format!("type: concurrency, requests: {written}");
        phase_mistake(&fields, written, ".requests", found);
    }
}

#[test]
fn c03_a_version_is_a_version_and_a_name_keeps_its_text() {
    for version in ["2.0", "\"2.0\"", "'2.0'"] {
        let text = SAMPLE.text().replace("\"2.0\"", version);
        assert_eq!(names(&read(&text)), ["m"], "{version}");
    }
    for name in ["1.10", "010", "on", "1e3", "0x1f"] {
        let text = SAMPLE.text().replace("model: m", &format!("model: {name}"));
        assert_eq!(names(&read(&text)), [name]);
    }
    one_mistake(
        &SAMPLE.text().replace("\"2.0\"", "2.1"),
        "1:16: schemaVersion",
        "found `2.1`; allowed: \"2.0\"",
    );
}

#[test]
fn c04_references_are_replaced_before_values_are_checked() {
    assert_eq!(phase("type: concurrency, duration: \"${D}\"").duration_s, Some(30.0));
    let block = SAMPLE.text().replace("requests: 2", "duration: \"${D}\"");
    assert_eq!(read(&block).phases[0].duration_s, Some(30.0));
    phase_mistake(
        "type: concurrency, requests: \"${D}\"",
        "\"${D}",
        ".requests",
        "found `30s`",
    );
}

#[test]
fn c08_a_cancellation_rate_is_a_percentage() {
    let case = |rate: &str| format!("type: concurrency, requests: 2, cancellation: {{rate: {rate}}}");
    for (written, rate) in [("0", 0.0), ("0.5", 0.5), ("100", 100.0)] {
        let read = phase(&case(written)).cancellation;
        assert_eq!(read.map(|cancellation| cancellation.rate), Some(rate), "{written}");
    }
    for written in ["-1", "101", "nan", ".nan", "100.01", "inf"] {
        phase_mistake(
            &case(written),
            written,
            ".cancellation.rate",
            "allowed: a number from 0 to 100",
        );
    }
}

#[test]
fn c10_a_misspelt_key_gets_a_suggestion_and_a_misplaced_one_its_place() {
    phase_mistake(
        "type: concurrency, concurency: 4, requests: 2",
        "concurency",
        ".concurency",
        "did you mean `concurrency`?",
    );
    let above = Sample {
        more: "  concurrency: 4\n",
        ..SAMPLE
    };
    one_mistake(
        &above.text(),
        "8:3: benchmark.concurrency",
        "it belongs in benchmark.phases[]",
    );
    let both = phase_text("type: concurrency, concurrency: 4, concurency: 4, requests: 2");
    one_mistake(
        &both,
        "7:60: benchmark.phases[0].concurency",
        "did you mean `concurrency`, which is on line 7 already?",
    );
}

#[test]
fn c12_a_key_written_twice_is_a_mistake_with_both_lines() {
    let text = phase_text("type: concurrency, concurrency: 1, requests: 2,\n       concurrency: 2");
    one_mistake(
        &text,
        "8:8: benchmark.phases[0].concurrency",
        "it is on line 7 already; remove one",
    );
}

#[test]
fn c13_marks_and_line_ends_are_fine_tabs_are_placed_and_anchors_work() {
    let text = SAMPLE.text();
    for same in [
        format!("\u{feff}{text}"),
        text.replace('\n', "\r\n"),
        text.replace('\n', "\r"),
    ] {
        assert_eq!(read(&same).phases, read(&text).phases);
    }
    one_mistake(
        &text.replace("  endpoint:", "\tendpoint:"),
        "4:1",
        "tab in the indentation",
    );
    let phases =
        "  phases:\n    - &a {name: a, kind: profiling, type: concurrency, requests: 2}\n    - {<<: *a, name: b}\n";
    let merged = Sample { phases, ..SAMPLE }.read().phases;
    assert_eq!((merged[1].name.as_str(), merged[1].requests), ("b", Some(2)));
    // The name that was forgotten is missing in the second phase, not in the first.
    let phases =
        "  phases:\n    - &a {name: a, kind: profiling, type: concurrency, requests: 2}\n    - {<<: *a, requests: 3}\n";
    one_mistake(
        &Sample { phases, ..SAMPLE }.text(),
        "8:7: benchmark.phases[1].name",
        "a phase of this name is on line 7 already",
    );
}
