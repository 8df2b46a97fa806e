//! The phase machine: which phase runs, what it may have in flight, when it stops, and when the run is over.

mod stall;

use super::adaptive::AdaptiveReport;
use super::event::{Action, Event, HookCall, PhaseSummary, StopReason};
use super::phase_run::{PhaseRun, PhaseState};
use super::profiler::{Acquired, Profiler};
use super::silence::{STALL_TIMEOUT, Silence};
use crate::id::PhaseId;
use crate::plan::{PhaseKind, PhasePlan};
use crate::units::Nanos;

/// [`MachineSettings::drain_stall_timeout`] unless somebody wants another: a server with a full queue is not silent for so long, and a night is
/// longer.
pub const DRAIN_STALL_TIMEOUT: Nanos = Nanos::from_secs(300);

/// What the machine needs to know besides the phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineSettings {
    /// While a phase without a grace period drains, a request that has received nothing for this long is cut.
    pub drain_stall_timeout: Nanos,
    /// A phase that has sent nothing and received no byte for this long, and cannot go on by itself, ends. [`Nanos::MAX`]: never.
    pub stall_timeout: Nanos,
    /// Root of the draws of ramps.
    pub seed: u64,
}

impl Default for MachineSettings {
    fn default() -> Self {
        Self {
            drain_stall_timeout: DRAIN_STALL_TIMEOUT,
            stall_timeout: STALL_TIMEOUT,
            seed: 0,
        }
    }
}

/// How the run went, as far as phases and hooks decide it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunOutcome {
    /// Whether the user ended the run before its phases did.
    pub interrupted: bool,
    /// Why the run failed, in one line. `None`: it did not.
    pub failure: Option<String>,
    /// Which phase had more failures than its `failed_request_threshold` allows, in one line: that ended the run.
    pub threshold_missed: Option<String>,
    /// What went wrong without failing the run, one line each.
    pub warnings: Vec<String>,
}

/// The workflow as a value: events and the time go in, actions come out. It reads no clock, holds no socket and starts no thread.
///
/// The first event starts the run. From then on the shell owes it a [`Event::Tick`] at each [`Machine::next_deadline`], the counts
/// of every phase whenever they change, and an answer to every [`Action::StopIssuing`], [`Action::LookForSigns`] and [`Action::CallHook`]. After
/// [`Action::RunEnded`] no action follows.
///
/// The rules, each in the function of its name:
///
/// - a phase waits for *all* earlier ones to be complete; a seamless phase only for its predecessor to have stopped sending
///   (`may_begin`), so at most one phase sends at any time;
/// - requests of earlier phases that are still in flight occupy slots of the sending phase, and ramps give it its slots one by one
///   (`set_limits`);
/// - a drain ends as its rule says, or at once when the run is cut short (`cut_drains`);
/// - the controller of a phase that has one asks for its figures once per period, moves a limit or the pace by them, and may end the sending
///   (`ask_for_windows`);
/// - a phase that shows no sign of life for long is told of, and ends if it could not go on by itself (`stall.rs`);
/// - too many failures in a phase that says how many are too many cut the run short as the user would (`watch_failures`);
/// - the server profiler runs from before the first until after the last request of the phases that own it (`profiler.rs`).
///
/// The limit of a phase is zero until the first [`Action::SetLimit`].
#[derive(Debug)]
pub struct Machine {
    phases: Vec<PhaseRun>,
    /// The first phase that neither started nor was skipped; equals the number of phases in the end.
    next: usize,
    settings: MachineSettings,
    profiler: Option<Profiler>,
    course: Course,
    outcome: RunOutcome,
}

/// How far the run as a whole is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    /// No event has come yet.
    NotBegun,
    /// Phases start as their turn comes, drain and end by their own rules.
    Onward,
    /// The user wants out, or too much has failed: what is in flight is cut.
    CutShort,
    /// [`Action::RunEnded`] was given.
    Ended,
}

impl Machine {
    /// A run of `phases`, with the server profiler around profiling phases if `profiler`.
    ///
    /// # Panics
    ///
    /// If the ids of the phases are not their positions, or the first one is seamless: planning has excluded both.
    pub fn new(phases: &[PhasePlan], profiler: bool, settings: MachineSettings) -> Self {
        for (position, phase) in phases.iter().enumerate() {
            assert_eq!(
                phase.id.index(),
                position,
                "phase {} has the id of another position",
                phase.name
            );
            assert!(
                position > 0 || !phase.seamless,
                "phase {} is seamless but has no predecessor",
                phase.name
            );
        }
        Self {
            phases: phases.iter().map(|phase| PhaseRun::new(phase, settings.seed)).collect(),
            next: 0,
            settings,
            profiler: profiler.then(Profiler::new),
            course: Course::NotBegun,
            outcome: RunOutcome::default(),
        }
    }

    /// Takes one event and appends what must be done, in order.
    ///
    /// # Panics
    ///
    /// If the event contradicts the state: an answer that nobody asked for, or counts that exceed what was sent. The message holds
    /// the numbers.
    pub fn handle(&mut self, event: Event, now: Nanos, actions: &mut Vec<Action>) {
        if self.course == Course::NotBegun {
            self.course = Course::Onward;
        }
        match event {
            Event::Tick => {}
            Event::Progress { phase, tally } => {
                if self.phases[phase.index()].observe(tally) {
                    self.sign_of_life(phase.index(), now, actions);
                }
                self.watch_failures(phase.index(), actions);
            }
            Event::CreditsExhausted { phase, issued } => self.phases[phase.index()].credits_exhausted(issued),
            Event::IssuingStopped { phase, sent } => {
                self.phases[phase.index()].issuing_stopped(sent, self.settings.drain_stall_timeout, now);
            }
            Event::Assessed { phase, window } => {
                let run = &mut self.phases[phase.index()];
                if run.assess(window, now) {
                    run.stop_issuing(StopReason::Adaptive);
                    actions.push(Action::StopIssuing { phase });
                } else if let Some(pace) = run.pace() {
                    actions.push(Action::SetPace { phase, pace });
                }
            }
            Event::SignsSeen { phase, signs } => self.signs_seen(phase, signs, now, actions),
            Event::HookAnswered { call, result } => self.hook_answered(call, result, now, actions),
            Event::Interrupted => self.interrupt(actions),
        }
        self.move_on(now, actions);
    }

    /// When to send the next [`Event::Tick`] if nothing else happens before; `None`: only an event can move the run.
    pub fn next_deadline(&self) -> Option<Nanos> {
        match self.course {
            Course::NotBegun => Some(Nanos::ZERO),
            Course::Ended => None,
            _ => self
                .phases
                .iter()
                .filter_map(PhaseRun::next_deadline)
                .min()
                .filter(|&at| at < Nanos::MAX),
        }
    }

    /// How the run went so far; final after [`Action::RunEnded`].
    pub fn outcome(&self) -> &RunOutcome {
        &self.outcome
    }

    /// Does everything that the last event made possible. A step may enable another (the end of one phase starts the next), so the
    /// steps repeat until none applies.
    fn move_on(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        // A successor starts before its predecessor completes, so a seamless profiling phase takes the profiler over from one whose
        // last request returned in the same event, instead of having it stopped and started again.
        while self.finish_sending(now) || self.start_next(now, actions) || self.complete_drained(now, actions) {}
        self.stop_expired(now, actions);
        self.cut_drains(now, actions);
        self.look_for_signs(now, actions);
        self.ask_for_windows(now, actions);
        self.set_limits(now, actions);
        self.end_if_done(actions);
    }

    fn finish_sending(&mut self, now: Nanos) -> bool {
        let stall_timeout = self.settings.drain_stall_timeout;
        self.last_started()
            .is_some_and(|phase| phase.finish_sending(stall_timeout, now))
    }

    fn start_next(&mut self, now: Nanos, actions: &mut Vec<Action>) -> bool {
        if !self.may_begin() {
            return false;
        }
        let phase = &mut self.phases[self.next];
        if let (PhaseKind::Profiling, Some(profiler)) = (phase.plan.kind, &mut self.profiler) {
            match profiler.acquire(phase.plan.id, actions) {
                Acquired::Running => {}
                Acquired::Starting => {
                    phase.prepare();
                    return false;
                }
                Acquired::Busy => return false,
            }
        }
        self.start_phase(now, actions);
        true
    }

    /// Whether the turn of the next phase has come.
    fn may_begin(&self) -> bool {
        let Some(phase) = self.phases.get(self.next) else {
            return false;
        };
        if !matches!(phase.state, PhaseState::Waiting) {
            return false;
        }
        let earlier = &self.phases[..self.next];
        if phase.plan.seamless {
            earlier.last().is_some_and(PhaseRun::sending_is_complete)
        } else {
            let profiler_is_stopping = self.profiler.as_ref().is_some_and(Profiler::is_stopping);
            earlier
                .iter()
                .all(|phase| matches!(phase.state, PhaseState::Complete { .. }))
                && !profiler_is_stopping
        }
    }

    fn start_phase(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let phase = &mut self.phases[self.next];
        phase.start(self.settings.stall_timeout, now);
        actions.push(Action::StartPhase { phase: phase.plan.id });
        self.next += 1;
    }

    fn complete_drained(&mut self, now: Nanos, actions: &mut Vec<Action>) -> bool {
        let mut any = false;
        for index in 0..self.next {
            let phase = &mut self.phases[index];
            let Some(summary) = phase.complete(now) else {
                continue;
            };
            any = true;
            let past = phase.silence.as_ref().and_then(Silence::past);
            let past = past.map(|silence| format!("phase {}: {silence}", phase.plan.name));
            self.outcome.warnings.extend(past);
            self.judge(index, &summary);
            let id = summary.phase;
            actions.push(Action::PhaseEnded(summary));
            if let Some(profiler) = &mut self.profiler {
                profiler.release(id, actions);
            }
        }
        any
    }

    /// A measured phase without a single request is a failed run; an empty warmup deserves a word.
    fn judge(&mut self, index: usize, summary: &PhaseSummary) {
        // What ended the run early has a line already.
        let ended_early = matches!(summary.stop_reason, StopReason::Interrupted | StopReason::Stalled);
        if summary.tally.sent > 0 || ended_early {
            return;
        }
        let phase = &self.phases[index];
        let span = summary.sending_complete.since(summary.start);
        let why = if phase.limit() == 0 {
            "requests of earlier phases held all its slots: let them drain first (seamless: false) or make it longer"
        } else {
            "make it longer or its rate higher"
        };
        let line = format!(
            "{} phase {} sent no request in {span}: {why}",
            phase.plan.kind.as_str(),
            phase.plan.name
        );
        match phase.plan.kind {
            PhaseKind::Profiling => self.fail(line),
            PhaseKind::Warmup => self.outcome.warnings.push(line),
        }
    }

    fn stop_expired(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        if let Some(phase) = self.last_started()
            && phase.sending_deadline().is_some_and(|deadline| now >= deadline)
        {
            phase.stop_issuing(StopReason::Duration);
            actions.push(Action::StopIssuing { phase: phase.plan.id });
        }
    }

    fn cut_drains(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let run_is_over = self.course == Course::CutShort;
        for phase in &mut self.phases[..self.next] {
            let id = phase.plan.id;
            if phase.must_cut(run_is_over, now) {
                actions.push(match phase.has_stalled() {
                    true => Action::CutStalled {
                        phase: id,
                        timeout: self.settings.stall_timeout,
                    },
                    false => Action::CutPhase { phase: id },
                });
            } else if let Some(silent_since) = phase.cuts_silent_since(self.settings.drain_stall_timeout, now) {
                actions.push(Action::CutSilent {
                    phase: id,
                    silent_since,
                });
            }
        }
    }

    /// Gives the sending phase the slots that its ramp has reached and that earlier phases do not hold. Requests of any earlier phase count,
    /// capped or not; a phase without a cap of its own takes what it wants. Limits grow with time and returns; they fall only
    /// where a controller lowers them.
    fn set_limits(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let leftover: u64 = self.phases[..self.next].iter().map(PhaseRun::leftover).sum();
        let Some(run) = self.last_started() else {
            return;
        };
        let phase = run.plan.id;
        if let Some(limit) = run.prefill_limit_changed(now) {
            actions.push(Action::SetPrefillLimit { phase, limit });
        }
        if let Some(limit) = run.limit_changed(leftover, now) {
            actions.push(Action::SetLimit { phase, limit });
        }
    }

    /// The controller of the sending phase looks at its figures once per period.
    fn ask_for_windows(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        if let Some(run) = self.last_started()
            && run.must_assess(now)
        {
            actions.push(Action::Assess { phase: run.plan.id });
        }
    }

    /// What the controllers of the phases that started leave behind.
    pub fn adaptive_reports(&self) -> Vec<(PhaseId, AdaptiveReport)> {
        let report = |run: &PhaseRun| Some((run.plan.id, run.adaptive_report()?));
        self.phases.iter().filter_map(report).collect()
    }

    fn end_if_done(&mut self, actions: &mut Vec<Action>) {
        let phases_are_over = self
            .phases
            .iter()
            .all(|phase| matches!(phase.state, PhaseState::Complete { .. } | PhaseState::Skipped));
        let profiler_is_stopped = self.profiler.as_ref().is_none_or(Profiler::is_stopped);
        if self.course != Course::Ended && phases_are_over && profiler_is_stopped {
            self.course = Course::Ended;
            actions.push(Action::RunEnded);
        }
    }

    fn hook_answered(&mut self, call: HookCall, result: Result<(), String>, now: Nanos, actions: &mut Vec<Action>) {
        let Some(profiler) = &mut self.profiler else {
            panic!("{call:?} was answered ({result:?}) in a run without profiler");
        };
        match call {
            HookCall::ProfilerStop => {
                profiler.stop_answered();
                if let Err(reason) = result {
                    self.outcome
                        .warnings
                        .push(format!("server profiler stop failed: {reason}"));
                }
            }
            HookCall::ProfilerStart => {
                profiler.start_answered(result.is_ok(), actions);
                let waiting = self
                    .phases
                    .get(self.next)
                    .filter(|phase| matches!(phase.state, PhaseState::Preparing))
                    .map(|phase| phase.plan.name.clone());
                match (result, waiting) {
                    (Ok(()), Some(_)) => self.start_phase(now, actions),
                    (Err(reason), Some(name)) => {
                        self.fail(format!(
                            "profiling phase {name} did not start: server profiler start failed: {reason}"
                        ));
                        self.skip_rest(actions);
                    }
                    // The user ended the run meanwhile. A start that worked has been followed by its stop.
                    (Ok(()), None) => {}
                    (Err(reason), None) => {
                        self.outcome
                            .warnings
                            .push(format!("server profiler start failed: {reason}"));
                    }
                }
            }
        }
    }

    fn interrupt(&mut self, actions: &mut Vec<Action>) {
        if self.course != Course::Ended {
            self.outcome.interrupted = true;
            self.cut_short(StopReason::Interrupted, actions);
        }
    }

    fn watch_failures(&mut self, index: usize, actions: &mut Vec<Action>) {
        if self.course == Course::Onward
            && let Some(line) = self.phases[index].failures_beyond_threshold()
        {
            self.outcome.threshold_missed = Some(line);
            self.cut_short(StopReason::Interrupted, actions);
        }
    }

    /// No further phase starts, and what is in flight is cut. `reason` is that of the phase that sends, if one does.
    fn cut_short(&mut self, reason: StopReason, actions: &mut Vec<Action>) {
        if self.course != Course::Onward {
            return;
        }
        self.course = Course::CutShort;
        self.skip_rest(actions);
        // Requests in flight are cut when the answer has frozen their number, so that none starts behind the cut.
        if let Some(phase) = self.last_started()
            && matches!(phase.state, PhaseState::Sending(_))
        {
            phase.stop_issuing(reason);
            actions.push(Action::StopIssuing { phase: phase.plan.id });
        }
    }

    /// No further phase starts; those under way finish.
    fn skip_rest(&mut self, actions: &mut Vec<Action>) {
        for phase in &mut self.phases[self.next..] {
            phase.skip();
            if let Some(profiler) = &mut self.profiler {
                profiler.release(phase.plan.id, actions);
            }
        }
        self.next = self.phases.len();
    }

    /// The run fails; the first reason leads the line.
    fn fail(&mut self, reason: String) {
        match &mut self.outcome.failure {
            Some(line) => {
                line.push_str("; ");
                line.push_str(&reason);
            }
            failure @ None => *failure = Some(reason),
        }
    }

    /// The only phase that can be sending: all earlier ones have stopped.
    fn last_started(&mut self) -> Option<&mut PhaseRun> {
        self.phases.iter_mut().rev().find(|phase| {
            !matches!(
                phase.state,
                PhaseState::Waiting | PhaseState::Preparing | PhaseState::Skipped
            )
        })
    }
}
