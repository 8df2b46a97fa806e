//! Phases keep what is written of them, whatever their kind and their neighbours.

use super::*;

#[test]
fn a_warmup_keeps_its_type_ramps_cancellation_and_place_as_written() {
    let fields = "type: gamma, rate: 5, smoothness: 2, concurrency: 8, on_cap: drop, seamless: true, requests: 20, duration: 9, grace_period: 3, \
                  rate_ramp: {duration: 2, strategy: exponential}, concurrency_ramp: {duration: 1, strategy: poisson}, \
                  cancellation: {rate: 25, delay: 0.5}";
    let plan = with_phases(&format!(
        "    - {{name: a, kind: profiling, type: concurrency, requests: 2}}\n    - {{name: w, kind: warmup, {fields}}}\n    \
         - {{name: p, kind: profiling, {fields}}}\n"
    ));
    let [_, warmup, profiling] = &plan.phases[..] else {
        panic!("three phases expected")
    };
    assert_eq!((warmup.kind, warmup.profiling_index), (PhaseKind::Warmup, None));
    let cancellation = warmup.cancellation.as_ref().expect("it is written");
    assert_eq!(cancellation.delay, Nanos::from_millis(500));
    assert!(warmup.seamless && warmup.limits.concurrency_ramp.is_some());
    // All that was written is what a profiling phase with the same words has.
    let as_profiling = PhasePlan {
        id: profiling.id,
        kind: profiling.kind,
        profiling_index: profiling.profiling_index,
        name: profiling.name.clone(),
        ..warmup.clone()
    };
    assert_eq!(format!("{as_profiling:?}"), format!("{profiling:?}"));
}

#[test]
fn a_cancellation_is_inherited_by_no_neighbour() {
    let plan = with_phases(
        "    - {name: warmup, type: concurrency, requests: 2}\n    \
         - {name: storm, kind: profiling, type: concurrency, requests: 2, cancellation: {rate: 50, delay: 1}}\n    \
         - {name: after, kind: profiling, type: concurrency, requests: 2}\n    \
         - {name: settle, kind: warmup, type: concurrency, requests: 2, seamless: true}\n",
    );
    let has = plan.phases.iter().map(|phase| phase.cancellation.is_some());
    assert_eq!(has.collect::<Vec<_>>(), [false, true, false, false]);
}
