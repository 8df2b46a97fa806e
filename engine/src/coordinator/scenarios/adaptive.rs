//! A controller at the helm of a phase. A test's number is the scenario's.

use std::sync::Arc;

use super::assert_clean;
use crate::coordinator::Status;
use crate::coordinator::event::{Action, StopReason};
use crate::coordinator::simulation::{World, ms, profiling};
use crate::plan::{
    AdaptivePlan, Arrival, ControlVariable, PACE_LEAD, PhasePlan, SlaFilter, SlaOp, StepPolicy, WindowMetric,
    WindowStat,
};
use crate::units::Nanos;

/// From 1 up to `max`, in base steps of 4, while the latency's 95th percentile is at most 200 ms.
fn steered(mut plan: PhasePlan, variable: ControlVariable, max: f64) -> PhasePlan {
    plan.limits.adaptive = Some(Arc::new(AdaptivePlan {
        variable,
        min: 1.0,
        max,
        assessment_period: ms(5_000),
        min_completed: 1,
        sustain_duration: ms(10_000),
        step_policy: StepPolicy::SlaMargin,
        base_step: 4.0,
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
        64.0,
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
        (Some(17.0), Some(17.0), Some(21.0))
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
        64.0,
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
        64.0,
    );
    let run = World::new(vec![plan]).loaded(|in_flight| ms(10 * in_flight)).run();
    assert_clean(&run);
    let steps = run.times(|action| matches!(action, Action::SetPrefillLimit { .. }));
    assert_eq!(steps, [0, 5_000, 10_000, 15_000, 20_000].map(ms));
    assert_eq!((run.adaptive[0].1.status, run.peak_prefill(0)), (Status::Completed, 21));
}

/// A rate that rises to `max` while a request takes 50 ms and 10 more for each that is in flight: the server is lost at 100 a second.
fn rising(arrival: Arrival, max: f64) -> PhasePlan {
    let plan = profiling("p").uncapped().arriving(arrival).lasting(ms(900_000));
    let mut plan = steered(plan, ControlVariable::RequestRate, max);
    let adaptive = Arc::get_mut(plan.limits.adaptive.as_mut().expect("it is steered")).expect("nobody else has it");
    adaptive.assessment_period = ms(20_000);
    adaptive.sustain_duration = ms(40_000);
    plan
}

fn slow_under_load(in_flight: u64) -> Nanos {
    ms(50 + 10 * in_flight)
}

#[test]
fn s69_a_rate_rises_until_the_level_breaks_and_every_step_is_kept_to_the_arrival() {
    let run = World::new(vec![rising(Arrival::constant(90.0), 95.0)])
        .loaded(slow_under_load)
        .run();
    assert_clean(&run);
    let (_, report) = &run.adaptive[0];
    assert_eq!(
        (report.status, report.reason),
        (Status::Completed, "sustain_duration_completed")
    );
    let rates: Vec<f64> = report.candidates.iter().map(|one| one.value).collect();
    let held = rates[rates.len() - 1];
    assert_eq!(rates[..3], [1.0, 9.0, 17.0], "margins of 0.7, 0.7: two base steps each");
    assert!((60.0..80.0).contains(&held), "{rates:?}");
    // Arrivals are even: between two changes there are as many as the rate says.
    let sends = run.sends(0);
    let change = |window: usize| Nanos(ms(20_000).0 * window as u64) + PACE_LEAD;
    let mut expected = rates[0] * PACE_LEAD.as_secs_f64();
    for (window, rate) in rates.iter().enumerate() {
        let until = if window + 1 < rates.len() {
            change(window + 1)
        } else {
            run.sending_complete(0)
        };
        let from = if window == 0 { PACE_LEAD } else { change(window) };
        expected += rate * until.since(from).as_secs_f64();
        let sent = sends.iter().filter(|&&at| at < until).count() as f64;
        assert!((expected - sent).abs() <= 1.0, "{sent} of {expected} by {until}");
    }
}

#[test]
fn a_rate_that_is_moved_gives_the_same_run_however_seldom_the_shell_looks() {
    for arrival in [Arrival::poisson(90.0), Arrival::gamma(90.0, 4.0)] {
        let run = |every| {
            let world = World::new(vec![rising(arrival.clone(), 40.0)]).loaded(slow_under_load);
            world.looking_every(ms(every)).run()
        };
        let (often, seldom) = (run(1), run(40));
        assert_eq!(often.sends(0), seldom.sends(0));
        assert_eq!(often.adaptive, seldom.adaptive);
        assert!(often.tally(0).sent > 1_000);
    }
}

#[test]
fn phases_after_a_search_run_as_ever() {
    let search = steered(
        profiling("a").cap(64).lasting(ms(300_000)),
        ControlVariable::Concurrency,
        64.0,
    );
    let run = World::new(vec![search, profiling("b").cap(3).requests(9).seamless()])
        .loaded(|in_flight| ms(10 * in_flight))
        .run();
    assert_eq!(run.start(1), run.sending_complete(0));
    assert_eq!((run.tally(1).succeeded, run.peak_all(1)), (9, 3));
    assert!(run.end(1) > Nanos::ZERO);
}
