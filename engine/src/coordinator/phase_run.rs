//! One phase on its way through the run.

use super::adaptive::{AdaptiveReport, Controller, Window};
use super::attention::Attention;
use super::event::{Pace, PhaseSummary, StopReason, Tally};
use super::limit_ramp::LimitRamp;
use super::silence::Silence;
use super::stream::{Purpose, Stream};
use crate::plan::{AdaptivePlan, ControlVariable, DrainRule, PhasePlan};
use crate::units::{Nanos, counted};

/// How often a drain without a deadline looks at the time, and for silent requests once one could have been silent for long enough.
const STALL_CHECK_INTERVAL: Nanos = Nanos::from_secs(1);

/// A ratio of failures among fewer answers is chance.
const FEWEST_ANSWERS: u64 = 10;

/// Where a phase stands. Each state holds only what is true in it.
///
/// ```text
///   Waiting --prepare--> Preparing          both --skip--> Skipped
///      |                     |
///      +--------start--------+
///      v
///   Sending --stop_issuing--> Stopping
///      |                         |
///      | finish_sending          | issuing_stopped
///      v                         |
///   Draining <-------------------+
///      |
///      | complete
///      v
///   Complete
/// ```
#[derive(Debug)]
pub(super) enum PhaseState {
    /// Its turn has not come.
    Waiting,
    /// Its turn has come, but the server profiler has not answered yet.
    Preparing,
    /// Its clock runs and its credits may start requests.
    Sending(Sending),
    /// Its credits are being taken back.
    Stopping(Stopping),
    /// It sends nothing more and waits for requests in flight.
    Draining(Draining),
    /// Everything that belongs to it is accounted for.
    Complete {
        /// The final count.
        sent: u64,
    },
    /// It never started and never will.
    Skipped,
}

#[derive(Debug)]
pub(super) struct Sending {
    start: Nanos,
    /// How long the phase had been sending when its limits were last looked at.
    looked: Nanos,
    /// Credits that exist in all, once the last one is in its queue.
    issued: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Stopping {
    start: Nanos,
    reason: StopReason,
}

#[derive(Debug)]
pub(super) struct Draining {
    start: Nanos,
    sending_complete: Nanos,
    reason: StopReason,
    /// The frozen count: what must return.
    sent: u64,
    cut: bool,
    /// When to look for silent requests next; only under [`DrainRule::WhileProgressing`].
    stall_check: Nanos,
    attention: Attention,
}

/// A phase's plan, counts and state.
#[derive(Debug)]
pub(super) struct PhaseRun {
    pub(super) plan: PhasePlan,
    pub(super) state: PhaseState,
    tally: Tally,
    /// The limits as last set; zero before.
    limit: u32,
    prefill_limit: u32,
    concurrency_ramp: Option<LimitRamp>,
    prefill_ramp: Option<LimitRamp>,
    /// From the start on, in a phase that has one.
    controller: Option<Controller>,
    /// From the start on.
    pub(super) silence: Option<Silence>,
}

impl PhaseRun {
    pub(super) fn new(plan: &PhasePlan, seed: u64) -> Self {
        let ramp = |target, plan: Option<_>, draws| Some(LimitRamp::new(target?, plan?, draws));
        let limits = &plan.limits;
        Self {
            plan: plan.clone(),
            state: PhaseState::Waiting,
            tally: Tally::default(),
            limit: 0,
            prefill_limit: 0,
            concurrency_ramp: ramp(
                plan.concurrency,
                limits.concurrency_ramp,
                Stream::new(seed, &plan.name, Purpose::ConcurrencyRamp),
            ),
            prefill_ramp: ramp(
                limits.prefill,
                limits.prefill_ramp,
                Stream::new(seed, &plan.name, Purpose::PrefillRamp),
            ),
            controller: None,
            silence: None,
        }
    }

    // Transitions, in the order of the diagram.

    /// Waiting to Preparing: the profiler was called on behalf of this phase.
    pub(super) fn prepare(&mut self) {
        match self.state {
            PhaseState::Waiting => self.state = PhaseState::Preparing,
            _ => self.illegal("prepare"),
        }
    }

    /// Waiting or Preparing to Sending: the clock of the phase starts at `now`.
    pub(super) fn start(&mut self, stall_timeout: Nanos, now: Nanos) {
        match self.state {
            PhaseState::Waiting | PhaseState::Preparing => {
                self.state = PhaseState::Sending(Sending {
                    start: now,
                    looked: Nanos::ZERO,
                    issued: None,
                });
                let adaptive = self.plan.limits.adaptive.clone();
                self.controller = adaptive.map(|plan| Controller::new(plan, now));
                self.silence = Some(Silence::new(stall_timeout, now));
            }
            _ => self.illegal("start"),
        }
    }

    /// Waiting or Preparing to Skipped.
    pub(super) fn skip(&mut self) {
        match self.state {
            PhaseState::Waiting | PhaseState::Preparing => self.state = PhaseState::Skipped,
            _ => self.illegal("skip"),
        }
    }

    /// Sending to Stopping: credits that no core has taken are asked back.
    pub(super) fn stop_issuing(&mut self, reason: StopReason) {
        match self.state {
            PhaseState::Sending(Sending { start, .. }) => {
                self.state = PhaseState::Stopping(Stopping { start, reason });
            }
            _ => self.illegal("stop issuing"),
        }
    }

    /// Stopping to Draining: `sent` credits were taken by cores and no more will be.
    pub(super) fn issuing_stopped(&mut self, sent: u64, stall_timeout: Nanos, now: Nanos) {
        match self.state {
            PhaseState::Stopping(Stopping { start, reason }) => self.drain(start, reason, sent, stall_timeout, now),
            _ => self.illegal("take the answer that issuing stopped"),
        }
    }

    /// Sending to Draining if every credit that exists was sent and none can follow. Says whether it did.
    pub(super) fn finish_sending(&mut self, stall_timeout: Nanos, now: Nanos) -> bool {
        let PhaseState::Sending(Sending {
            start,
            issued: Some(issued),
            ..
        }) = self.state
        else {
            return false;
        };
        // A schedule that ran out before `requests` did was ended by the duration. Its last arrival comes before that moment, but the
        // phase lasts until it: otherwise a seamless successor of a slow open loop would start early.
        let stop = &self.plan.stop;
        let ended_by_duration = stop.duration.is_some()
            && stop.sessions.is_none()
            && stop.requests.is_none_or(|requests| issued < requests);
        if ended_by_duration || self.tally.sent < issued {
            return false;
        }
        self.drain(start, StopReason::Requests, issued, stall_timeout, now);
        true
    }

    fn drain(&mut self, start: Nanos, reason: StopReason, sent: u64, stall_timeout: Nanos, now: Nanos) {
        if let Some(controller) = &mut self.controller {
            controller.phase_stopped(now);
        }
        self.state = PhaseState::Draining(Draining {
            start,
            sending_complete: now,
            reason,
            sent,
            cut: false,
            stall_check: now + STALL_CHECK_INTERVAL.min(stall_timeout),
            attention: Attention::new(now),
        });
        self.check_counts();
    }

    /// Draining to Complete if everything returned. Gives the summary if it did.
    pub(super) fn complete(&mut self, now: Nanos) -> Option<PhaseSummary> {
        let PhaseState::Draining(Draining {
            start,
            sending_complete,
            reason,
            sent,
            cut,
            ..
        }) = self.state
        else {
            return None;
        };
        if self.tally.returned() < sent {
            return None;
        }
        // Cores publish a start and a return at different moments; the frozen count is the one that never lags.
        self.tally.sent = sent;
        let tally = self.tally;
        assert_eq!(
            tally.sent,
            tally.succeeded + tally.failed + tally.cancelled + tally.truncated,
            "phase {}: requests sent and requests accounted for differ: {tally:?}",
            self.plan.name
        );
        self.state = PhaseState::Complete { sent };
        Some(PhaseSummary {
            phase: self.plan.id,
            start,
            sending_complete,
            end: now,
            tally,
            stop_reason: reason,
            // A cut that found everything returned already, but not yet published, cut nothing.
            drain_cut: cut && tally.truncated > 0,
        })
    }

    // Facts that arrive without a change of state.

    /// Merges published counts. Cores publish on their own, so an older reading may arrive after a newer one: the larger of each wins. Says whether
    /// it brought any news.
    pub(super) fn observe(&mut self, tally: Tally) -> bool {
        let before = self.tally;
        let known = &mut self.tally;
        known.sent = known.sent.max(tally.sent);
        known.succeeded = known.succeeded.max(tally.succeeded);
        known.failed = known.failed.max(tally.failed);
        known.cancelled = known.cancelled.max(tally.cancelled);
        known.truncated = known.truncated.max(tally.truncated);
        self.check_counts();
        self.tally != before
    }

    /// Notes that `issued` credits exist in all. After [`PhaseRun::stop_issuing`] the news is stale: the frozen count decides.
    pub(super) fn credits_exhausted(&mut self, issued: u64) {
        match &mut self.state {
            PhaseState::Sending(sending) if sending.issued.is_none() => sending.issued = Some(issued),
            PhaseState::Stopping(_) | PhaseState::Draining(_) | PhaseState::Complete { .. } => {}
            _ => self.illegal("exhaust its credits"),
        }
    }

    /// Sets the limit as far as a sending phase may use it at `now`, beside `leftover` requests of earlier phases. Gives the new limit if it
    /// changed.
    pub(super) fn limit_changed(&mut self, leftover: u64, now: Nanos) -> Option<u32> {
        let elapsed = self.elapsed(now)?;
        let wanted = match self.plan.concurrency {
            None => u32::MAX,
            Some(cap) => {
                let cap = self
                    .controlled(ControlVariable::Concurrency)
                    .or(ramped(&self.concurrency_ramp, elapsed))
                    .unwrap_or(cap.get());
                cap.saturating_sub(u32::try_from(leftover).unwrap_or(u32::MAX))
            }
        };
        let may_fall = self.controlled(ControlVariable::Concurrency).is_some();
        settle(&mut self.limit, wanted, may_fall)
    }

    /// Sets the prefill limit to what a sending phase may have at `now`. Gives the new limit if it changed. Prefills of earlier phases need no
    /// thought here: the cores count all prefills of the run together.
    pub(super) fn prefill_limit_changed(&mut self, now: Nanos) -> Option<u32> {
        let elapsed = self.elapsed(now)?;
        let cap = self.plan.limits.prefill?;
        let controlled = self.controlled(ControlVariable::PrefillConcurrency);
        let wanted = controlled.or(ramped(&self.prefill_ramp, elapsed)).unwrap_or(cap.get());
        settle(&mut self.prefill_limit, wanted, controlled.is_some())
    }

    /// What the controller wants a limit to be, if that is the one it moves.
    fn controlled(&self, variable: ControlVariable) -> Option<u32> {
        let moves = self.plan.limits.adaptive.as_ref().map(|plan| plan.variable);
        let controller = self.controller.as_ref().filter(|_| moves == Some(variable))?;
        Some(AdaptivePlan::whole(controller.control()))
    }

    /// Whether the controller of a sending phase wants a window, once for each.
    pub(super) fn must_assess(&mut self, now: Nanos) -> bool {
        matches!(self.state, PhaseState::Sending(_))
            && self
                .controller
                .as_mut()
                .is_some_and(|controller| controller.asks_for_window(now))
    }

    /// Hands the controller a window. Says whether the phase must stop sending.
    pub(super) fn assess(&mut self, window: Window, now: Nanos) -> bool {
        let controller = self.controller.as_mut();
        let wants_stop = controller.is_some_and(|controller| controller.assess(window, now));
        wants_stop && matches!(self.state, PhaseState::Sending(_))
    }

    /// How the schedule of a sending phase goes on, if its controller moves that.
    pub(super) fn pace(&self) -> Option<Pace> {
        let controller = self.controller.as_ref()?;
        matches!(self.state, PhaseState::Sending(_))
            .then(|| controller.pace())
            .flatten()
    }

    /// What the controller of a phase that started leaves behind.
    pub(super) fn adaptive_report(&self) -> Option<AdaptiveReport> {
        self.controller.as_ref().map(Controller::report)
    }

    /// How long a sending phase has been sending; from then on [`PhaseRun::next_step`] looks.
    fn elapsed(&mut self, now: Nanos) -> Option<Nanos> {
        match &mut self.state {
            PhaseState::Sending(sending) => {
                sending.looked = now.since(sending.start);
                Some(sending.looked)
            }
            _ => None,
        }
    }

    /// When a limit of a sending phase changes by itself.
    fn next_step(&self) -> Option<Nanos> {
        let PhaseState::Sending(sending) = &self.state else {
            return None;
        };
        let step = |ramp: &Option<LimitRamp>, elapsed: Nanos| ramp.as_ref()?.next_step(elapsed);
        let steps = [&self.concurrency_ramp, &self.prefill_ramp].map(|ramp| step(ramp, sending.looked));
        steps.into_iter().flatten().min().map(|step| sending.start + step)
    }

    /// Says in one line that too many answers were failures, if they were.
    ///
    /// Cancelled and cut requests are no answers: the client ended them. Until there are as many answers as slots, and at least
    /// [`FEWEST_ANSWERS`], a ratio says nothing.
    pub(super) fn failures_beyond_threshold(&self) -> Option<String> {
        let threshold = self.plan.limits.failure_threshold?;
        let (failed, answered) = (self.tally.failed, self.tally.failed + self.tally.succeeded);
        let fewest = self
            .plan
            .concurrency
            .map_or(0, |cap| u64::from(cap.get()))
            .max(FEWEST_ANSWERS);
        let ratio = failed as f64 / answered as f64;
        (answered >= fewest && ratio > threshold).then(|| {
            format!(
                "{} phase {}: {failed} of {} failed, a ratio of {ratio:.3} above failed_request_threshold {threshold}; \
                 the run was ended",
                self.plan.kind.as_str(),
                self.plan.name,
                counted(answered, "request")
            )
        })
    }

    /// Decides whether requests in flight must be cut now, once. `run_is_over`: no drain rule counts any more.
    pub(super) fn must_cut(&mut self, run_is_over: bool, now: Nanos) -> bool {
        let deadline = self.grace_deadline();
        match &mut self.state {
            PhaseState::Draining(draining) if !draining.cut => {
                draining.cut = run_is_over || deadline.is_some_and(|deadline| now >= deadline);
                draining.cut
            }
            _ => false,
        }
    }

    /// Decides whether to cut requests that have been silent for the stall timeout, at most once per interval, and since when they have to be silent for
    /// that. Time in which nobody listened is added to the timeout; the drain looks at the clock from its start on, so that not much of it is in doubt
    /// after a stop.
    pub(super) fn cuts_silent_since(&mut self, stall_timeout: Nanos, now: Nanos) -> Option<Nanos> {
        let PhaseState::Draining(draining) = &mut self.state else {
            return None;
        };
        if self.plan.drain != DrainRule::WhileProgressing || draining.cut || now < draining.stall_check {
            return None;
        }
        let start = draining.sending_complete;
        draining.attention.look(draining.stall_check, start, now);
        let enough = stall_timeout + draining.attention.unheard();
        let first = start + enough;
        draining.stall_check = now + STALL_CHECK_INTERVAL;
        if now < first {
            draining.stall_check = draining.stall_check.min(first);
            return None;
        }
        Some(Nanos(now.0.saturating_sub(enough.0)))
    }

    /// The next moment at which this phase does something by itself.
    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        let look = self.listened_to().map(Silence::next_look);
        let own = match &self.state {
            PhaseState::Sending(_) => {
                let assessment = self.controller.as_ref().and_then(Controller::next_assessment);
                [self.sending_deadline(), self.next_step(), assessment]
                    .into_iter()
                    .flatten()
                    .min()
            }
            PhaseState::Draining(draining) if !draining.cut => match self.plan.drain {
                DrainRule::WhileProgressing => Some(draining.stall_check),
                DrainRule::Grace(_) => self.grace_deadline(),
                DrainRule::Unbounded => None,
            },
            _ => None,
        };
        own.into_iter().chain(look).min()
    }

    /// The silence of the phase, while anything may break it: it sends, or waits for requests that nobody has cut.
    pub(super) fn listened_to(&self) -> Option<&Silence> {
        let listens = match &self.state {
            PhaseState::Sending(_) => true,
            PhaseState::Draining(draining) => !draining.cut,
            _ => false,
        };
        self.silence.as_ref().filter(|_| listens)
    }

    /// Whether it waits for requests that were cut, or for the count of what was sent: for the cores alone.
    pub(super) fn awaits_cores(&self) -> bool {
        match &self.state {
            PhaseState::Stopping(_) => true,
            PhaseState::Draining(draining) => draining.cut,
            _ => false,
        }
    }

    /// Whether a drain has no end but the answers.
    pub(super) fn drains_without_end(&self) -> bool {
        matches!(&self.state, PhaseState::Draining(draining) if !draining.cut)
            && self.plan.drain == DrainRule::Unbounded
    }

    /// Draining, without the requests that are in flight: they were cut.
    pub(super) fn give_up_drain(&mut self) {
        match &mut self.state {
            PhaseState::Draining(draining) => draining.cut = true,
            _ => self.illegal("give up its drain"),
        }
    }

    /// Whether the sending ended because nothing came any more.
    pub(super) fn has_stalled(&self) -> bool {
        matches!(&self.state, PhaseState::Draining(draining) if draining.reason == StopReason::Stalled)
    }

    /// Requests in flight, as far as the counts are known.
    pub(super) fn in_flight(&self) -> u64 {
        self.tally.in_flight()
    }

    /// When `duration` ends the sending.
    pub(super) fn sending_deadline(&self) -> Option<Nanos> {
        match &self.state {
            PhaseState::Sending(sending) => self.plan.stop.duration.map(|duration| sending.start + duration),
            _ => None,
        }
    }

    /// When an explicit grace period ends the drain: measured from the start of the phase, also if `requests` ended the sending early.
    fn grace_deadline(&self) -> Option<Nanos> {
        match (&self.state, self.plan.drain) {
            (PhaseState::Draining(draining), DrainRule::Grace(grace)) => {
                Some(draining.start + self.plan.stop.duration.unwrap_or(Nanos::MAX) + grace)
            }
            _ => None,
        }
    }

    /// Whether the phase sends nothing more, ever.
    pub(super) fn sending_is_complete(&self) -> bool {
        matches!(self.state, PhaseState::Draining(_) | PhaseState::Complete { .. })
    }

    /// Requests in flight that still hold slots after the phase stopped sending.
    pub(super) fn leftover(&self) -> u64 {
        match &self.state {
            PhaseState::Draining(draining) => draining.sent.saturating_sub(self.tally.returned()),
            _ => 0,
        }
    }

    /// The limit as last set.
    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// No count may exceed what was frozen, and nothing may be counted for a phase that never started.
    fn check_counts(&self) {
        let tally = self.tally;
        let most = match &self.state {
            PhaseState::Waiting | PhaseState::Preparing | PhaseState::Skipped => 0,
            PhaseState::Sending(_) | PhaseState::Stopping(_) => return,
            PhaseState::Draining(draining) => draining.sent,
            PhaseState::Complete { sent } => *sent,
        };
        assert!(
            tally.sent <= most && tally.returned() <= most,
            "phase {}: counts exceed the {most} requests that it sent: {tally:?} in state {:?}",
            self.plan.name,
            self.state
        );
    }

    fn illegal(&self, transition: &str) -> ! {
        panic!(
            "phase {} cannot {transition} in state {:?} with counts {:?}",
            self.plan.name, self.state, self.tally
        )
    }
}

/// The value of a ramp, if there is one.
fn ramped(ramp: &Option<LimitRamp>, elapsed: Nanos) -> Option<u32> {
    ramp.as_ref().map(|ramp| ramp.value_at(elapsed))
}

/// Sets a limit, which falls only if it may. Gives the new one if it changed.
fn settle(limit: &mut u32, wanted: u32, may_fall: bool) -> Option<u32> {
    (wanted > *limit || (may_fall && wanted < *limit)).then(|| {
        *limit = wanted;
        wanted
    })
}
