//! What the machine makes of silence: a word to the user, and the end of a phase that cannot go on by itself.

use super::{Course, Machine};
use crate::coordinator::event::{Action, StopReason};
use crate::coordinator::phase_run::{PhaseRun, PhaseState};
use crate::coordinator::silence::{Signs, Silence, Spell};
use crate::id::PhaseId;
use crate::units::Nanos;

impl Machine {
    /// Asks the cores about phases whose counts have stood still for long.
    pub(super) fn look_for_signs(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        for run in &mut self.phases[..self.next] {
            let phase = run.plan.id;
            if run.listened_to().is_some()
                && let Some(since) = run.silence.as_mut().and_then(|silence| silence.asks(now))
            {
                actions.push(Action::LookForSigns { phase, since });
            }
        }
    }

    pub(super) fn signs_seen(&mut self, phase: PhaseId, signs: Signs, now: Nanos, actions: &mut Vec<Action>) {
        let run = &mut self.phases[phase.index()];
        let Some(silence) = &mut run.silence else {
            panic!(
                "phase {} was not asked for signs of life: it never started",
                run.plan.name
            )
        };
        let ended = silence.hear(signs, now);
        self.went_on(phase.index(), ended, actions);
        let run = &mut self.phases[phase.index()];
        if run.listened_to().is_none() {
            return;
        }
        if let Some(spell) = run.silence.as_mut().and_then(|silence| silence.worth_a_word(now)) {
            actions.push(Action::IsSilent { phase, spell });
        }
        self.judge_silence(phase.index(), now, actions);
    }

    /// Something of a phase was counted.
    pub(super) fn sign_of_life(&mut self, index: usize, now: Nanos, actions: &mut Vec<Action>) {
        let run = &mut self.phases[index];
        let was_cut = run.listened_to().is_none();
        let silence = run.silence.as_mut();
        let ended = silence.and_then(|silence| {
            if was_cut {
                silence.forget_word();
            }
            silence.broken(now)
        });
        self.went_on(index, ended, actions);
    }

    /// A silence of which the user has heard is over.
    fn went_on(&self, index: usize, ended: Option<Spell>, actions: &mut Vec<Action>) {
        let run = &self.phases[index];
        // What comes back because it was cut is no answer.
        if ended.is_some() && run.listened_to().is_some() {
            actions.push(Action::GoesOn { phase: run.plan.id });
        }
    }

    /// Ends what has stalled.
    ///
    /// A drain is bounded by rules of its own, and only one without end can stall. Its phase had sent everything, so the requests that hang are cut
    /// as they would be after a grace period, and the run goes on. A phase that sends waits for its own requests and for those of earlier phases
    /// that hold its slots, so all of them have to be silent; there the server is dead, and so is the run.
    fn judge_silence(&mut self, index: usize, now: Nanos, actions: &mut Vec<Action>) {
        let timeout = self.settings.stall_timeout;
        let run = &self.phases[index];
        let Some(silence) = run.silence.as_ref().filter(|_| self.course == Course::Onward) else {
            return;
        };
        if run.drains_without_end() && silence.is_stall(Nanos::ZERO, now) {
            let line = format!(
                "phase {} stalled in its drain: no byte received for {}; {} were cut",
                run.plan.name,
                now.since(silence.since()).in_words(),
                requests(run.in_flight()),
            );
            self.outcome.warnings.push(line);
            let run = &mut self.phases[index];
            run.give_up_drain();
            actions.push(Action::CutStalled {
                phase: run.plan.id,
                timeout,
            });
        }
        let run = &self.phases[index];
        let earlier = &self.phases[..index];
        // What is cut comes back, and may be all that this phase has waited for.
        let will_change = |run: &PhaseRun| run.drains_without_end() || run.awaits_cores();
        if !matches!(run.state, PhaseState::Sending(_)) || earlier.iter().any(will_change) {
            return;
        }
        let silences = self.phases[..=index].iter().filter_map(|run| run.silence.as_ref());
        let since = silences.map(Silence::since).max().unwrap_or_default();
        if run.silence.as_ref().is_some_and(|silence| silence.is_stall(since, now)) {
            let line = self.stall_line(index, since, now);
            self.fail(line);
            self.cut_short(StopReason::Stalled, actions);
        }
    }

    /// Why a phase that was sending cannot go on.
    fn stall_line(&self, index: usize, since: Nanos, now: Nanos) -> String {
        let run = &self.phases[index];
        let held: u64 = self.phases[..index].iter().map(PhaseRun::leftover).sum();
        let oldest = run.silence.as_ref().and_then(Silence::oldest);
        let waits_for = match (run.in_flight(), held) {
            (0, 0) => "no request in flight and none due".to_owned(),
            (0, held) => format!(
                "no request in flight, for {} of earlier phases hold its slots",
                requests(held)
            ),
            (own, _) => {
                let age = oldest.map_or(String::new(), |start| {
                    format!(", the oldest for {}", now.since(start).in_words())
                });
                format!("{} in flight{age}", requests(own))
            }
        };
        format!(
            "{} phase {} stalled: nothing sent and no byte received for {}, {waits_for}",
            run.plan.kind.as_str(),
            run.plan.name,
            now.since(since).in_words(),
        )
    }
}

fn requests(count: u64) -> String {
    match count {
        1 => "1 request".to_owned(),
        count => format!("{count} requests"),
    }
}
