//! Adaptive scale: a controller that raises a limit or a pace window by window until the service level breaks, then holds what held.
//!
//! A value like the phase machine: windows in, a limit or a pace out. See `docs/adaptive.md` for the law in words.

mod event;
mod window;

use std::sync::Arc;

use event::PHASE_STOPPED;
pub use event::{AdaptiveEvent, AdaptiveReport, Candidate, EventKind, Spread, Stage, Status};
pub use window::{Window, WindowTotals};

use super::event::Pace;
use crate::plan::{AdaptivePlan, ControlVariable, PACE_LEAD, SlaOp, StepPolicy, WindowMetric};
use crate::units::Nanos;

/// What the figures of a window come to.
#[derive(Debug, Clone, Default)]
struct Judged {
    totals: WindowTotals,
    throughput: f64,
    /// Figures by filter.
    values: Vec<f64>,
    /// The filter with the smallest margin.
    binding: Option<usize>,
    /// The smallest margin, from 0.
    margin: f64,
    /// `None`: the window says nothing.
    passed: Option<bool>,
    rejection: Option<&'static str>,
}

/// Whether a held value is in trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Footing {
    /// The latest conclusive window passed, or there was none.
    Sound,
    /// The latest failed, and the value was lowered.
    Recovering,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Discover,
    Sustain {
        /// The value has been held since then.
        since: Nanos,
        /// Requests that were issued before do not judge it.
        judged_from: Nanos,
        footing: Footing,
        /// When it was last looked there were more users than it says.
        crowded: bool,
    },
    Ended(Status, &'static str),
}

/// The controller of one phase.
#[derive(Debug)]
pub(super) struct Controller {
    plan: Arc<AdaptivePlan>,
    state: State,
    /// When the phase began.
    start: Nanos,
    control: f64,
    /// Users who are there: those that the controller wants, and those who have not left yet.
    present: f64,
    last_passing: Option<f64>,
    first_failing: Option<f64>,
    boundary: Option<f64>,
    iteration: u32,
    /// The latest assessment, or the start.
    assessed: Nanos,
    /// When the next window is due, or the one that was asked for was: a whole number of periods since the start, however late anyone looks.
    due: Nanos,
    /// The window that is due was asked for.
    asked: bool,
    /// From when on a changed pace applies; only the latest one.
    pace_from: Nanos,
    latest: Judged,
    events: Vec<AdaptiveEvent>,
    candidates: Vec<Candidate>,
    sustain_started: Option<Nanos>,
    sustain_windows: u32,
    sustain_passed: u32,
    token_sources: (bool, bool),
}

impl Controller {
    /// The controller of a phase that starts at `now`.
    pub(super) fn new(plan: Arc<AdaptivePlan>, now: Nanos) -> Self {
        let mut controller = Self {
            state: State::Discover,
            start: now,
            control: plan.min,
            present: plan.min,
            last_passing: None,
            first_failing: None,
            boundary: None,
            iteration: 0,
            assessed: now,
            due: now + plan.assessment_period,
            asked: false,
            pace_from: now,
            latest: Judged::default(),
            events: Vec::new(),
            candidates: Vec::new(),
            sustain_started: None,
            sustain_windows: 0,
            sustain_passed: 0,
            token_sources: (false, false),
            plan,
        };
        controller.log(
            now,
            EventKind::Started,
            controller.control,
            "adaptive scale discover phase started",
        );
        controller
    }

    /// The value that applies now.
    pub(super) fn control(&self) -> f64 {
        self.control
    }

    /// How the phase goes on, if its pace is moved; asked for after each window.
    pub(super) fn pace(&self) -> Option<Pace> {
        (self.plan.variable.is_pace() && !self.has_ended()).then(|| Pace {
            value: self.control,
            from: self.pace_from.since(self.start),
            known_until: self.due.since(self.start) + PACE_LEAD,
        })
    }

    /// When the next window is due.
    pub(super) fn next_assessment(&self) -> Option<Nanos> {
        (!self.asked && !self.has_ended()).then_some(self.due)
    }

    /// Whether a window is due; says so once, and then waits for it.
    pub(super) fn asks_for_window(&mut self, now: Nanos) -> bool {
        let due = self.next_assessment().is_some_and(|next| now >= next);
        self.asked |= due;
        due
    }

    /// Takes the window that was asked for. Says whether the phase is to stop.
    pub(super) fn assess(&mut self, mut window: Window, now: Nanos) -> bool {
        if self.has_ended() {
            return false; // the phase has stopped meanwhile
        }
        if let State::Sustain { judged_from, .. } = self.state {
            window.forget_before(judged_from);
        }
        self.present = self.control + f64::from(window.leaving);
        self.pace_from = self.due + PACE_LEAD;
        let length = now.since(self.assessed);
        let sources = window.token_sources();
        self.token_sources = (self.token_sources.0 | sources.0, self.token_sources.1 | sources.1);
        self.latest = self.judge(&window, length);
        self.log(now, EventKind::Window, self.control, "SLA window evaluated");
        self.note_candidate(&window, now);
        match (self.state, self.latest.passed) {
            (State::Sustain { footing, crowded, .. }, None) => {
                self.sustain_windows += 1;
                if crowded {
                    // The value has yet to be held.
                    self.hold(now, footing, window.leaving > 0);
                }
            }
            (_, None) | (State::Ended(..), _) => {}
            (State::Discover, Some(true)) => self.step_up(now),
            (State::Discover, Some(false)) => self.found_boundary(now),
            (State::Sustain { since, judged_from, .. }, Some(true)) => self.held(since, judged_from, now),
            (State::Sustain { footing, .. }, Some(false)) => self.broke(footing, now),
        }
        self.iteration += 1;
        self.assessed = now;
        self.asked = false;
        let period = self.plan.assessment_period;
        // Windows that passed while nobody looked are part of this one.
        self.due = self.due + Nanos(period.0 * (now.since(self.due).0 / period.0 + 1));
        self.has_ended()
    }

    /// The phase stopped sending for another reason.
    pub(super) fn phase_stopped(&mut self, now: Nanos) {
        if !self.has_ended() {
            self.end(Status::Incomplete, PHASE_STOPPED, now);
        }
    }

    /// What it leaves behind.
    pub(super) fn report(&self) -> AdaptiveReport {
        let (status, reason) = match self.state {
            State::Ended(status, reason) => (status, reason),
            _ => (Status::Incomplete, PHASE_STOPPED),
        };
        AdaptiveReport {
            events: self.events.clone(),
            candidates: self.candidates.clone(),
            status,
            reason,
            sustain_started: self.sustain_started,
            sustain_windows: self.sustain_windows,
            sustain_passed: self.sustain_passed,
            token_sources: self.token_sources,
        }
    }

    fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended(..))
    }

    fn judge(&self, window: &Window, length: Nanos) -> Judged {
        let filters = &self.plan.filters;
        let totals = window.totals();
        let values: Vec<f64> = filters.iter().map(|filter| window.value(filter, length)).collect();
        let margins = filters.iter().zip(&values).map(|(filter, &value)| {
            let room = match filter.op {
                SlaOp::Lt | SlaOp::Le => filter.threshold - value,
                SlaOp::Gt | SlaOp::Ge => value - filter.threshold,
            };
            // Relative to a threshold of zero there is no margin.
            if filter.threshold == 0.0 {
                room.min(0.0)
            } else {
                room / filter.threshold.abs()
            }
        });
        let binding = margins.enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b));
        let holds = filters
            .iter()
            .zip(&values)
            .all(|(filter, &value)| filter.op.holds(value, filter.threshold));
        let only_about_failures = filters.iter().all(|filter| filter.metric.is_about_failures());
        // Without a single success there is no latency to look at, but something to see all the same.
        let is_crowded = matches!(self.state, State::Sustain { crowded: true, .. });
        let (passed, rejection) = if is_crowded {
            (None, Some("insufficient_samples"))
        } else if totals.completed == 0 && totals.ended() > 0 && !only_about_failures {
            (Some(false), Some("error_threshold"))
        } else if totals.completed < self.plan.min_completed && !(only_about_failures && totals.ended() > 0) {
            (None, Some("insufficient_samples"))
        } else if holds {
            (Some(true), None)
        } else {
            (Some(false), Some("sla_miss"))
        };
        Judged {
            throughput: totals.completed as f64 / length.as_secs_f64().max(f64::MIN_POSITIVE),
            totals,
            values,
            margin: binding.map_or(0.0, |(_, margin)| margin.max(0.0)),
            binding: binding.map(|(index, _)| index),
            passed,
            rejection,
        }
    }

    /// How far to step from here.
    fn step(&self) -> f64 {
        match self.plan.step_policy {
            StepPolicy::FixedPercent => (self.control * self.plan.step_percent / 100.0).ceil().max(1.0),
            StepPolicy::SlaMargin => {
                let most = f64::from(self.plan.max_step_multiplier);
                self.plan.base_step * (self.latest.margin * most).floor().clamp(1.0, most)
            }
        }
    }

    fn step_up(&mut self, now: Nanos) {
        self.last_passing = Some(self.control);
        if self.control >= self.plan.max {
            return self.end(Status::Incomplete, "max_control_value_reached_without_saturation", now);
        }
        let before = self.control;
        self.control = (before + self.step()).min(self.plan.max);
        let reason = format!("SLA value {:.3} passes configured filters", self.first_value());
        self.log(now, EventKind::Decision, before, &reason);
    }

    fn found_boundary(&mut self, now: Nanos) {
        let before = self.control;
        self.first_failing = Some(before);
        let Some(passing) = self.last_passing else {
            return self.end(Status::Failed, "no_sustainable_concurrency_found", now);
        };
        self.control = passing.max(self.plan.min);
        self.boundary = Some(self.control);
        self.hold(now, Footing::Sound, self.plan.variable == ControlVariable::Users);
        let held = format!("holding boundary_value={}", self.control);
        self.log(now, EventKind::SustainStarted, before, &held);
        let reason = format!("SLA value {:.3} breaches configured filters", self.first_value());
        self.log(now, EventKind::BoundaryDiscovered, self.control, &reason);
    }

    fn hold(&mut self, now: Nanos, footing: Footing, crowded: bool) {
        let judged_from = if self.plan.variable.is_pace() {
            self.pace_from
        } else {
            now
        };
        self.state = State::Sustain {
            since: now,
            judged_from,
            footing,
            crowded,
        };
        self.sustain_started = Some(now);
    }

    fn held(&mut self, since: Nanos, judged_from: Nanos, now: Nanos) {
        self.sustain_windows += 1;
        self.sustain_passed += 1;
        self.last_passing = Some(self.control);
        self.state = State::Sustain {
            since,
            judged_from,
            footing: Footing::Sound,
            crowded: false,
        };
        let reason = format!(
            "SLA value {:.3} passes configured filters during sustain",
            self.first_value()
        );
        self.log(now, EventKind::Decision, self.control, &reason);
        if now.since(since) >= self.plan.sustain_duration {
            self.end(Status::Completed, "sustain_duration_completed", now);
        }
    }

    fn broke(&mut self, footing: Footing, now: Nanos) {
        self.sustain_windows += 1;
        let before = self.control;
        if footing == Footing::Recovering {
            return self.end(Status::Failed, "sustain_failed_after_recovery", now);
        }
        if before <= self.plan.min {
            return self.end(Status::Failed, "sustain_failed_sla_unrecoverable", now);
        }
        let lower = self.last_passing.filter(|&passing| passing < before);
        self.control = lower.unwrap_or_else(|| (before - self.step()).max(self.plan.min));
        self.boundary = Some(self.control);
        // What held for a while at another value proves nothing for this one.
        self.hold(now, Footing::Recovering, self.plan.variable == ControlVariable::Users);
        let reason = format!(
            "SLA value {:.3} breaches configured filters during sustain",
            self.first_value()
        );
        self.log(now, EventKind::Decision, before, &reason);
    }

    fn end(&mut self, status: Status, reason: &'static str, now: Nanos) {
        self.state = State::Ended(status, reason);
        self.log(now, EventKind::Ended(status), self.control, reason);
    }

    fn first_value(&self) -> f64 {
        self.latest.values.first().copied().unwrap_or(0.0)
    }

    fn log(&mut self, at: Nanos, kind: EventKind, before: f64, reason: &str) {
        let stage = match self.state {
            State::Discover => Stage::Discover,
            State::Sustain { .. } => Stage::Sustain,
            State::Ended(..) => Stage::Complete,
        };
        // Events about filters show them; the others show the latest figure only, as readers know it.
        let is_about_filters = kind == EventKind::Window || (kind == EventKind::Decision && stage == Stage::Discover);
        let latest = &self.latest;
        let is_step_up = kind == EventKind::Decision && self.control > before;
        self.events.push(AdaptiveEvent {
            at,
            kind,
            stage,
            iteration: self.iteration,
            before,
            after: self.control,
            actual: match self.plan.variable {
                ControlVariable::Users => self.present,
                _ => self.control,
            },
            candidate: match kind {
                // The boundary is found by the value above it, and named once the one below is held.
                EventKind::BoundaryDiscovered => self.control,
                _ => before,
            },
            boundary: self.boundary,
            last_passing: self.last_passing,
            first_failing: self.first_failing,
            sla_value: latest.values.first().copied(),
            sla_values: if is_about_filters {
                latest.values.clone()
            } else {
                Vec::new()
            },
            binding: latest.binding.filter(|_| is_about_filters),
            passed: latest.passed.filter(|_| kind == EventKind::Window),
            step: is_step_up.then_some(self.control - before),
            totals: latest.totals,
            throughput: latest.throughput,
            reason: reason.to_owned(),
        });
    }

    fn note_candidate(&mut self, window: &Window, now: Nanos) {
        self.candidates.push(Candidate {
            iteration: self.iteration,
            value: self.control,
            start: self.assessed,
            end: now,
            totals: self.latest.totals,
            latency: window.spread(WindowMetric::RequestLatency),
            first_token: window.spread(WindowMetric::TimeToFirstToken),
            inter_token: window.spread(WindowMetric::InterTokenLatency),
            rejection: self.latest.rejection,
        });
    }
}

#[cfg(test)]
mod tests;
