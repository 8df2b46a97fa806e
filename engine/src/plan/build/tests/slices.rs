//! Slices that cannot be.

use super::*;

fn config(artifacts: &str, phases: &str) -> Config {
    read(&format!(
        "{HEAD}{ENDPOINT}  artifacts: {{{artifacts}}}\n  phases:\n{phases}"
    ))
}

const MINUTE: &str = "    - {name: warmup, type: concurrency, duration: 1h}\n    - {name: p, kind: profiling, type: concurrency, duration: 40}\n    \
                      - {name: q, kind: profiling, type: poisson, rate: 2, duration: 20}\n";

#[test]
fn slices_that_are_sure_to_be_too_many_are_refused_before_the_load() {
    let built = |artifacts: &str, phases: &str| build(&config(artifacts, phases), &options());
    assert!(
        built("slice_duration: 6ms", MINUTE).is_ok(),
        "10,000 slices, and a warmup has none"
    );
    let refused = built("slice_duration: 5ms", MINUTE).expect_err("12,000 slices");
    assert_eq!(
        refused.to_string(),
        "f.yaml:5:31: benchmark.artifacts.slice_duration: the phases last 60 s, which makes 12000 slices, and at most 10000 are written; \
         write at least 6ms"
    );
    let day = "    - {name: p, kind: profiling, type: concurrency, duration: 24h}\n";
    let refused = built("slice_duration: 1", day).expect_err("86,400 slices").to_string();
    assert!(refused.ends_with("write at least 8640ms"), "{refused}");
    assert!(built("slice_duration: 8640ms", day).is_ok());
    // How long this lasts only the load tells.
    for other in ["requests: 9, duration: 24h", "requests: 100000000"] {
        let phases = format!("    - {{name: p, kind: profiling, type: concurrency, {other}}}\n");
        assert!(built("slice_duration: 1", &phases).is_ok(), "{other}");
    }
}

#[test]
fn without_records_a_warning_says_what_has_slices() {
    let warnings = |artifacts: &str| {
        build(&config(artifacts, MINUTE), &options())
            .expect("a plan")
            .warnings
            .join("\n")
    };
    let told = warnings("slice_duration: 1, records: false");
    assert!(
        told.contains("artifacts.records is false") && told.contains("only server metrics have slices"),
        "{told}"
    );
    assert!(!warnings("slice_duration: 1").contains("slice_duration"));
    assert!(!warnings("records: false").contains("slice_duration"));
}
