//! The controller against scripted windows.

use super::*;
use crate::credit::Sample;
use crate::id::PhaseId;
use crate::plan::{ControlVariable, SlaFilter, WindowStat};
use crate::record::Outcome;

const PERIOD: Nanos = Nanos::from_secs(1);

fn filter(metric: WindowMetric, name: &str, stat: WindowStat, op: SlaOp, threshold: f64) -> SlaFilter {
    SlaFilter {
        metric,
        name: name.to_owned(),
        stat,
        stat_name: "p95".to_owned(),
        op,
        threshold,
    }
}

/// From 1 to 20 in base steps of 2, at most 4 of them, while the latency's 95th percentile is below 100 ms; held for 2 s.
fn plan() -> AdaptivePlan {
    AdaptivePlan {
        variable: ControlVariable::Concurrency,
        min: 1.0,
        max: 20.0,
        assessment_period: PERIOD,
        min_completed: 1,
        sustain_duration: Nanos::from_secs(2),
        step_policy: StepPolicy::SlaMargin,
        base_step: 2.0,
        max_step_multiplier: 4,
        step_percent: 25.0,
        filters: vec![filter(
            WindowMetric::RequestLatency,
            "request_latency",
            WindowStat::Percentile(95),
            SlaOp::Lt,
            100.0,
        )],
    }
}

fn sample(issued: Nanos, outcome: Outcome, millis: u64) -> Sample {
    Sample {
        phase: PhaseId(0),
        outcome,
        issued,
        latency: Nanos::from_millis(millis),
        first_token: Some(Nanos::from_millis(millis / 2)),
        output_tokens: 5,
        counted_by_server: true,
        session_over: None,
        good: outcome == Outcome::Success,
    }
}

/// A controller and the time.
struct Rig {
    controller: Controller,
    now: Nanos,
}

impl Rig {
    fn new(plan: AdaptivePlan) -> Self {
        let now = Nanos::from_secs(100);
        Self {
            controller: Controller::new(Arc::new(plan), now),
            now,
        }
    }

    /// Lets a window pass in which `count` requests took so long; says whether the phase is to stop.
    fn window(&mut self, count: usize, millis: u64) -> bool {
        let issued = self.now;
        self.samples(vec![sample(issued, Outcome::Success, millis); count])
    }

    fn samples(&mut self, samples: Vec<Sample>) -> bool {
        self.now = self.now + PERIOD;
        assert_eq!(self.controller.next_assessment(), Some(self.now));
        assert!(self.controller.asks_for_window(self.now) && !self.controller.asks_for_window(self.now));
        self.controller.assess(Window { samples, leaving: 0 }, self.now)
    }

    fn events(&self) -> Vec<&'static str> {
        self.controller.events.iter().map(|event| event.kind.as_str()).collect()
    }

    fn end(&self) -> (Status, &'static str) {
        let report = self.controller.report();
        (report.status, report.reason)
    }

    fn told(&self) -> String {
        self.controller.report().told(ControlVariable::Concurrency)
    }
}

#[test]
fn steps_follow_the_margin_until_the_level_breaks_and_the_last_good_value_is_held() {
    let mut rig = Rig::new(plan());
    assert_eq!(rig.controller.control(), 1.0);
    // Margin 0.9: three base steps of the four (the whole part of 3.6).
    assert!(!rig.window(10, 10));
    assert_eq!(rig.controller.control(), 7.0);
    // Margin 0.1: one step at least.
    assert!(!rig.window(10, 90));
    assert_eq!(rig.controller.control(), 9.0);
    assert!(!rig.window(10, 100));
    assert_eq!(rig.controller.control(), 7.0, "100 is not below 100");
    assert!(!rig.window(10, 50));
    assert!(rig.window(10, 50), "held for two seconds");
    assert_eq!(rig.end(), (Status::Completed, "sustain_duration_completed"));
    assert_eq!(
        rig.told(),
        "completed: concurrency 7 held the service level, and 9 broke it"
    );
    assert_eq!(
        rig.events(),
        [
            "adaptive_phase_started",
            "adaptive_window",
            "adaptive_decision",
            "adaptive_window",
            "adaptive_decision",
            "adaptive_window",
            "sustain_started",
            "boundary_discovered",
            "adaptive_window",
            "adaptive_decision",
            "adaptive_window",
            "adaptive_decision",
            "adaptive_complete",
        ]
    );
    let report = rig.controller.report();
    let last = report.events.last().expect("it ended");
    assert_eq!(
        (last.boundary, last.last_passing, last.first_failing),
        (Some(7.0), Some(7.0), Some(9.0))
    );
    assert_eq!((report.sustain_windows, report.sustain_passed), (2, 2));
    let tried: Vec<(f64, bool)> = report
        .candidates
        .iter()
        .map(|one| (one.value, one.rejection.is_none()))
        .collect();
    assert_eq!(
        tried,
        [(1.0, true), (7.0, true), (9.0, false), (7.0, true), (7.0, true)]
    );
}

#[test]
fn a_range_without_a_break_ends_incomplete_at_its_top() {
    let mut rig = Rig::new(plan());
    while !rig.window(10, 10) {}
    assert_eq!(rig.controller.control(), 20.0);
    assert_eq!(
        rig.end(),
        (Status::Incomplete, "max_control_value_reached_without_saturation")
    );
    assert_eq!(
        rig.told(),
        "incomplete: nothing broke the service level up to concurrency 20, where the search ended"
    );
}

#[test]
fn what_came_of_a_search_that_its_phase_ended_names_the_values_that_passed_and_broke() {
    let mut early = Rig::new(plan());
    early.controller.phase_stopped(early.now);
    assert_eq!(
        early.told(),
        "incomplete: the phase ended before any concurrency had passed"
    );
    let mut rising = Rig::new(plan());
    rising.window(10, 10);
    rising.window(10, 10);
    let highest = rising.controller.last_passing.expect("two windows passed");
    rising.controller.phase_stopped(rising.now);
    assert_eq!(
        rising.told(),
        format!(
            "incomplete: the phase ended before the search found what breaks the service level; concurrency {highest} is the highest that passed"
        )
    );
    let mut late = holding();
    late.controller.phase_stopped(late.now);
    assert_eq!(
        late.told(),
        "incomplete: the phase ended too soon; concurrency 7 passed, and 9 broke the service level"
    );
}

#[test]
fn the_lowest_value_must_hold() {
    let mut rig = Rig::new(plan());
    assert!(rig.window(10, 500));
    assert_eq!(rig.end(), (Status::Failed, "no_sustainable_concurrency_found"));
    assert_eq!(
        rig.told(),
        "failed: concurrency 1, the lowest, broke the service level already"
    );
}

#[test]
fn a_percentage_rounds_up_and_is_at_least_one() {
    let fixed = AdaptivePlan {
        step_policy: StepPolicy::FixedPercent,
        ..plan()
    };
    let mut rig = Rig::new(fixed);
    let mut values = vec![rig.controller.control()];
    while !rig.window(1, 10) {
        values.push(rig.controller.control());
    }
    assert_eq!(values, [1, 2, 3, 4, 5, 7, 9, 12, 15, 19, 20].map(f64::from));
}

/// A controller that holds 7 after 9 broke.
fn holding() -> Rig {
    let mut rig = Rig::new(plan());
    rig.window(10, 10);
    rig.window(10, 90);
    rig.window(10, 300);
    assert_eq!(rig.controller.control(), 7.0);
    rig
}

#[test]
fn a_held_value_that_breaks_is_lowered_once_and_then_given_up() {
    let mut rig = holding();
    assert!(!rig.window(10, 300));
    // Nothing lower has passed since: one step below.
    assert_eq!(rig.controller.control(), 5.0);
    assert!(rig.window(10, 300));
    assert_eq!(rig.end(), (Status::Failed, "sustain_failed_after_recovery"));
    assert_eq!(
        rig.told(),
        "failed: concurrency 7 passed at first and did not hold the service level for long enough"
    );

    let mut recovers = holding();
    recovers.window(10, 300);
    recovers.window(10, 50);
    assert!(!recovers.window(10, 300), "a window that passed restores the allowance");
    assert_eq!(recovers.controller.control(), 3.0);
    recovers.window(10, 50);
    assert!(recovers.window(10, 50));
    assert_eq!(recovers.end().0, Status::Completed);
    assert_eq!(recovers.controller.boundary, Some(3.0));
}

#[test]
fn at_the_lowest_value_there_is_no_recovery() {
    let narrow = AdaptivePlan { max: 3.0, ..plan() };
    let mut rig = Rig::new(narrow);
    rig.window(10, 10);
    rig.window(10, 300);
    assert_eq!(rig.controller.control(), 1.0);
    assert!(rig.window(10, 300));
    assert_eq!(rig.end(), (Status::Failed, "sustain_failed_sla_unrecoverable"));
}

#[test]
fn a_window_with_too_few_successes_changes_nothing() {
    let picky = AdaptivePlan {
        min_completed: 5,
        ..plan()
    };
    let mut rig = Rig::new(picky);
    assert!(!rig.window(4, 10));
    assert!(!rig.samples(Vec::new()));
    assert_eq!(rig.controller.control(), 1.0);
    assert_eq!(
        rig.events(),
        ["adaptive_phase_started", "adaptive_window", "adaptive_window"]
    );
    let rejections: Vec<_> = rig.controller.candidates.iter().map(|one| one.rejection).collect();
    assert_eq!(rejections, [Some("insufficient_samples"); 2]);
}

#[test]
fn a_window_of_failures_alone_fails_unless_the_filters_are_about_failures() {
    let mut rig = Rig::new(plan());
    let failures = vec![sample(rig.now, Outcome::Error, 1); 3];
    assert!(rig.samples(failures.clone()));
    assert_eq!(rig.controller.candidates[0].rejection, Some("error_threshold"));

    let tolerant = AdaptivePlan {
        filters: vec![filter(
            WindowMetric::ErrorRate,
            "error_rate",
            WindowStat::Average,
            SlaOp::Le,
            100.0,
        )],
        ..plan()
    };
    let mut rig = Rig::new(tolerant);
    assert!(!rig.samples(failures));
    assert!(rig.controller.control() > 1.0);
}

#[test]
fn requests_that_were_issued_before_a_value_was_held_do_not_judge_it() {
    let mut rig = holding();
    let held_since = rig.now;
    let late = sample(Nanos(held_since.0 - 1), Outcome::Success, 5_000);
    assert!(!rig.samples(vec![late, sample(held_since, Outcome::Success, 20)]));
    assert_eq!(
        rig.controller.candidates.last().map(|one| one.totals.completed),
        Some(1)
    );
    assert_eq!(rig.controller.control(), 7.0);
}

#[test]
fn a_phase_that_stops_by_itself_leaves_an_incomplete_search() {
    let mut rig = Rig::new(plan());
    rig.window(10, 10);
    rig.controller.phase_stopped(rig.now);
    rig.controller.phase_stopped(rig.now);
    assert_eq!(rig.end(), (Status::Incomplete, "phase_stopped"));
    assert_eq!(rig.events().last(), Some(&"adaptive_incomplete"));
    assert!(
        !rig.controller.assess(Window::default(), rig.now),
        "an answer that comes too late"
    );
}

#[test]
fn the_filter_with_the_least_room_binds() {
    let two = AdaptivePlan {
        filters: vec![
            filter(
                WindowMetric::RequestLatency,
                "request_latency",
                WindowStat::Max,
                SlaOp::Lt,
                100.0,
            ),
            filter(
                WindowMetric::RequestThroughput,
                "request_throughput",
                WindowStat::Average,
                SlaOp::Gt,
                8.0,
            ),
        ],
        ..plan()
    };
    let mut rig = Rig::new(two);
    // Latency has half of its room left, throughput a quarter of its threshold above it.
    rig.window(10, 50);
    let event = &rig.controller.events[1];
    assert_eq!(
        (event.binding, event.sla_values.as_slice()),
        (Some(1), &[50.0, 10.0][..])
    );
    assert_eq!(rig.controller.control(), 3.0, "a quarter of four base steps is one");
}

#[test]
fn figures_of_a_window_follow_their_formulas() {
    let at = Nanos::from_secs(1);
    let mut samples: Vec<Sample> = [10, 20, 30, 40]
        .map(|millis| sample(at, Outcome::Success, millis))
        .into();
    samples.push(sample(at, Outcome::Error, 1));
    samples.push(sample(at, Outcome::Cancelled, 1));
    // A success that missed a threshold.
    samples[3].good = false;
    let window = Window { samples, leaving: 0 };
    let value = |metric, stat| window.value(&filter(metric, "", stat, SlaOp::Lt, 0.0), Nanos::from_secs(2));
    let average = WindowStat::Average;
    assert_eq!(value(WindowMetric::RequestLatency, WindowStat::Percentile(50)), 25.0);
    assert_eq!(value(WindowMetric::RequestLatency, WindowStat::Max), 40.0);
    assert_eq!(value(WindowMetric::TimeToFirstToken, average), 12.5);
    // Half of the latency over four gaps.
    assert_eq!(value(WindowMetric::InterTokenLatency, WindowStat::Min), 1.25);
    assert_eq!(value(WindowMetric::RequestThroughput, average), 2.0);
    assert_eq!(value(WindowMetric::OutputTokenThroughput, average), 10.0);
    assert_eq!(value(WindowMetric::Goodput, average), 1.5);
    assert_eq!(value(WindowMetric::GoodputRatio, average), 3.0 / 6.0);
    assert_eq!(value(WindowMetric::SuccessRate, average), 4.0 / 6.0);
    assert_eq!(value(WindowMetric::ErrorRate, average), 100.0 * (1.0 / 6.0));
    assert_eq!(value(WindowMetric::CancellationRate, average), 1.0 / 6.0);

    let mut blind = sample(at, Outcome::Success, 10);
    blind.first_token = None;
    let window = Window {
        samples: vec![blind],
        leaving: 0,
    };
    let first = filter(
        WindowMetric::TimeToFirstToken,
        "",
        WindowStat::Percentile(95),
        SlaOp::Lt,
        1e9,
    );
    assert_eq!(
        window.value(&first, PERIOD),
        f64::INFINITY,
        "without a token it never came"
    );
}

#[test]
fn windows_are_due_at_whole_periods_however_late_anyone_looks() {
    let mut rig = Rig::new(plan());
    let start = rig.now;
    let look = |rig: &mut Rig, after: u64| {
        let now = start + Nanos::from_millis(after);
        assert!(rig.controller.asks_for_window(now));
        rig.controller.assess(Window::default(), now);
        rig.controller
            .next_assessment()
            .expect("the search goes on")
            .since(start)
    };
    assert_eq!(look(&mut rig, 1_000), Nanos::from_secs(2));
    assert_eq!(look(&mut rig, 2_400), Nanos::from_secs(3));
    // Two windows passed: they are one.
    assert_eq!(look(&mut rig, 4_999), Nanos::from_secs(5));
    assert_eq!(look(&mut rig, 5_000), Nanos::from_secs(6));
    assert_eq!(rig.controller.next_assessment(), Some(start + Nanos::from_secs(6)));
}

/// The plan of above for a pace.
fn pace_plan(variable: ControlVariable) -> AdaptivePlan {
    AdaptivePlan { variable, ..plan() }
}

#[test]
fn a_pace_changes_a_fixed_time_after_its_window_and_is_certain_until_the_next() {
    let mut rig = Rig::new(AdaptivePlan {
        min: 0.5,
        base_step: 0.25,
        ..pace_plan(ControlVariable::RequestRate)
    });
    let start = rig.now;
    rig.window(10, 10);
    let pace = |value, window: u64| Pace {
        value,
        from: Nanos(PERIOD.0 * window) + PACE_LEAD,
        known_until: Nanos(PERIOD.0 * (window + 1)) + PACE_LEAD,
    };
    assert_eq!(rig.controller.pace(), Some(pace(1.25, 1)), "three base steps of 0.25");
    // A look that comes late changes nothing of that.
    rig.now = start + Nanos::from_millis(2_030);
    assert!(rig.controller.asks_for_window(rig.now));
    rig.controller.assess(Window::default(), rig.now);
    assert_eq!(rig.controller.pace(), Some(pace(1.25, 2)), "a window that says nothing");
    rig.controller.phase_stopped(rig.now);
    assert_eq!(rig.controller.pace(), None);
    assert_eq!(Rig::new(plan()).controller.pace(), None, "a limit is no pace");
}

#[test]
fn what_was_issued_before_a_held_pace_applied_does_not_judge_it() {
    let mut rig = Rig::new(pace_plan(ControlVariable::RequestRate));
    rig.window(10, 10);
    rig.window(10, 300);
    assert_eq!(rig.controller.control(), 1.0);
    let early = sample(rig.now + Nanos(PACE_LEAD.0 - 1), Outcome::Success, 5_000);
    let first = sample(rig.now + PACE_LEAD, Outcome::Success, 20);
    rig.samples(vec![early, first]);
    assert_eq!(
        rig.controller.candidates.last().map(|one| one.totals.completed),
        Some(1)
    );
    // Held from the decision on, as other values are: two windows are two seconds.
    assert!(rig.window(10, 20));
    assert_eq!(rig.end().0, Status::Completed);
}

#[test]
fn users_who_have_yet_to_leave_keep_a_value_from_being_judged() {
    let mut rig = Rig::new(pace_plan(ControlVariable::Users));
    rig.window(10, 10);
    rig.window(10, 300);
    assert_eq!(rig.controller.control(), 1.0);
    let crowded = |rig: &mut Rig, leaving: u32| {
        rig.now = rig.now + PERIOD;
        assert!(rig.controller.asks_for_window(rig.now));
        let samples = vec![sample(rig.now, Outcome::Success, 300); 9];
        rig.controller.assess(Window { samples, leaving }, rig.now)
    };
    assert!(!crowded(&mut rig, 6) && !crowded(&mut rig, 2));
    let last = rig.controller.events.last().expect("a window");
    assert_eq!((last.passed, last.after, last.actual), (None, 1.0, 3.0));
    // In the window in which the last of them left they still were a part of the load. Two seconds from then on.
    assert!(!crowded(&mut rig, 0));
    let alone = |rig: &mut Rig| rig.samples(vec![sample(rig.now + PACE_LEAD, Outcome::Success, 10); 9]);
    assert!(!alone(&mut rig));
    assert!(alone(&mut rig));
    assert_eq!(rig.end(), (Status::Completed, "sustain_duration_completed"));
    let report = rig.controller.report();
    assert_eq!((report.sustain_windows, report.sustain_passed), (5, 2));
    assert_eq!(report.sustain_started, Some(Nanos(rig.now.0 - 2 * PERIOD.0)));
}
