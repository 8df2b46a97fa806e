//! A controller at the helm of a phase. A test's number is the scenario's.

use std::sync::Arc;

use super::assert_clean;
use crate::coordinator::Status;
use crate::coordinator::event::{Action, StopReason};
use crate::coordinator::simulation::{World, ms, profiling};
use crate::plan::{AdaptivePlan, ControlVariable, PhasePlan, SlaFilter, SlaOp, StepPolicy, WindowMetric, WindowStat};
use crate::units::Nanos;

/// From 1 up to `max`, in base steps of 4, while the latency's 95th percentile is at most 200 ms.
fn steered(mut plan: PhasePlan, variable: ControlVariable, max: u32) -> PhasePlan {
    plan.limits.adaptive = Some(Arc::new(AdaptivePlan {
        variable,
        min: 1,
        max,
        assessment_period: ms(5_000),
        min_completed: 1,
        sustain_duration: ms(10_000),
        step_policy: StepPolicy::SlaMargin,
        base_step: 4,
        max_step_multiplier: 4,
        step_percent: 25.0,
        filters: vec![SlaFilter {
            metric: WindowMetric::RequestLatency,
            name: "request_latency".to_owned(),
            stat: WindowStat::Percentile(95),
            stat_name: "p95".to_owned(),
            op: SlaOp::Le,
            threshold: 200.0,
        }],
    }));
    plan
}

fn limits(run: &crate::coordinator::simulation::Finished) -> Vec<u32> {
    let entries = run.log.iter();
    entries
        .filter_map(|(_, entry)| match entry {
            crate::coordinator::simulation::Entry::Did(Action::SetLimit { limit, .. }) => Some(*limit),
            _ => None,
        })
        .collect()
}

#[test]
fn s69_the_concurrency_rises_by_the_step_law_until_the_level_breaks_and_the_last_good_one_is_held() {
    // A request takes 10 ms for each that is in flight.
    let plan = steered(
        profiling("p").cap(64).lasting(ms(300_000)),
        ControlVariable::Concurrency,
        64,
    );
    let run = World::new(vec![plan]).loaded(|in_flight| ms(10 * in_flight)).run();
    assert_clean(&run);
    // Margins: 0.95 (3 steps of 4), 13: 0.35 (1), 17: 0.15 (1), 21: broken, so 17 is held.
    assert_eq!(limits(&run), [1, 13, 17, 21, 17]);
    assert_eq!(run.phase(0).stop_reason, StopReason::Adaptive);
    let (_, report) = &run.adaptive[0];
    assert_eq!(
        (report.status, report.reason),
        (Status::Completed, "sustain_duration_completed")
    );
    let last = report.events.last().expect("it ended");
    assert_eq!(
        (last.boundary, last.last_passing, last.first_failing),
        (Some(17), Some(17), Some(21))
    );
    // Four windows to find it, two to hold it.
    assert_eq!(run.sending_complete(0), ms(30_000));
    assert_eq!(run.tally(0).sent, run.tally(0).succeeded);
}

#[test]
fn the_duration_ends_a_search_that_is_not_through() {
    let plan = steered(
        profiling("p").cap(64).lasting(ms(12_000)),
        ControlVariable::Concurrency,
        64,
    );
    let run = World::new(vec![plan]).loaded(|in_flight| ms(10 * in_flight)).run();
    assert_eq!(run.phase(0).stop_reason, StopReason::Duration);
    let (_, report) = &run.adaptive[0];
    assert_eq!((report.status, report.reason), (Status::Incomplete, "phase_stopped"));
    assert!(run.end(0).since(run.sending_complete(0)) < ms(1_000));
}

#[test]
fn a_prefill_limit_is_steered_like_a_concurrency() {
    let plan = steered(
        profiling("p").cap(100).prefilling(64).lasting(ms(300_000)),
        ControlVariable::PrefillConcurrency,
        64,
    );
    let run = World::new(vec![plan]).loaded(|in_flight| ms(10 * in_flight)).run();
    assert_clean(&run);
    let steps = run.times(|action| matches!(action, Action::SetPrefillLimit { .. }));
    assert_eq!(steps, [0, 5_000, 10_000, 15_000, 20_000].map(ms));
    assert_eq!((run.adaptive[0].1.status, run.peak_prefill(0)), (Status::Completed, 21));
}

#[test]
fn phases_after_a_search_run_as_ever() {
    let search = steered(
        profiling("a").cap(64).lasting(ms(300_000)),
        ControlVariable::Concurrency,
        64,
    );
    let run = World::new(vec![search, profiling("b").cap(3).requests(9).seamless()])
        .loaded(|in_flight| ms(10 * in_flight))
        .run();
    assert_eq!(run.start(1), run.sending_complete(0));
    assert_eq!((run.tally(1).succeeded, run.peak_all(1)), (9, 3));
    assert!(run.end(1) > Nanos::ZERO);
}
