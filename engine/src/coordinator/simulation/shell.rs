//! The shell's part of the world: it obeys actions, and checks every rule about them.

use super::sessions::Sessions;
use super::{Ending, Entry, HookScript, InFlight, QUEUE_CAPACITY, World, ms};
use crate::coordinator::adaptive::Window;
use crate::coordinator::event::{Action, Event, HookCall};
use crate::coordinator::pacer::Pacer;
use crate::coordinator::silence::Signs;
use crate::id::PhaseId;
use crate::plan::{AdaptivePlan, Arrival, Gaps};
use crate::units::Nanos;

/// More than counts and answers are late in any test that looks at stalls.
const LAG_MAX: Nanos = ms(400);

/// Arrivals that a stepped rate has until an instant.
fn integral(paces: &[(Nanos, f64)], until: Nanos) -> f64 {
    let ends = paces.iter().skip(1).map(|&(from, _)| from).chain([Nanos::MAX]);
    let of = |(&(from, rate), end): (&(Nanos, f64), Nanos)| rate * until.min(end).since(from).as_secs_f64();
    paces.iter().zip(ends).map(of).sum()
}

impl World {
    /// Plays the shell. Every rule about actions is checked here.
    pub(super) fn obey(&mut self, action: Action) {
        assert!(!self.run_ended, "{action:?} after the end of the run");
        self.log.push((self.now, Entry::Did(action.clone())));
        match action {
            Action::StartPhase { phase } => self.start_phase(phase),
            Action::Assess { phase } => {
                let world = &mut self.phases[phase.index()];
                let issued = world.pacer.as_ref().map_or(0, Pacer::issued);
                let window = Window {
                    samples: std::mem::take(&mut world.samples),
                    leaving: world.sessions.presence.leaving(issued),
                };
                self.post(self.now, Event::Assessed { phase, window });
            }
            Action::SetPace { phase, pace } => {
                let world = &mut self.phases[phase.index()];
                assert!(!world.stopped, "a pace for phase {phase:?} which does not send");
                let pacer = world.pacer.as_mut().expect("a pace for a phase that has begun");
                if let Arrival::UserCentric { .. } = self.plans[phase.index()].arrival {
                    let users = AdaptivePlan::whole(pace.value);
                    world.sessions.presence.want(users, pacer.issued());
                }
                pacer.go_on(pace);
                if world.paces.last().is_none_or(|&(_, value)| value != pace.value) {
                    world.paces.push((pace.from, pace.value));
                }
            }
            Action::SetLimit { phase, limit } => {
                let may_fall = self.plans[phase.index()].limits.adaptive.is_some();
                let world = &mut self.phases[phase.index()];
                assert!(
                    world.pacer.is_some() && !world.stopped,
                    "limit for phase {phase:?} which does not send"
                );
                assert!(
                    limit > world.limit || may_fall,
                    "limit of phase {phase:?} went from {} to {limit}",
                    world.limit
                );
                world.limit = limit;
            }
            Action::SetPrefillLimit { phase, limit } => {
                let limits = &self.plans[phase.index()].limits;
                let (is_limited, may_fall) = (limits.prefill.is_some(), limits.adaptive.is_some());
                let world = &mut self.phases[phase.index()];
                assert!(
                    world.pacer.is_some() && !world.stopped && is_limited,
                    "prefill limit for phase {phase:?} which does not send or has none"
                );
                assert!(
                    limit > world.prefill_limit || may_fall,
                    "prefill limit of phase {phase:?} went from {} to {limit}",
                    world.prefill_limit
                );
                world.prefill_limit = limit;
            }
            Action::StopIssuing { phase } => {
                let world = &mut self.phases[phase.index()];
                assert!(
                    world.pacer.is_some() && !world.stopped,
                    "issuing of phase {phase:?} stopped twice or too early"
                );
                world.stopped = true;
                world.queue.clear();
                world.sessions.close();
                let sent = world.truth.sent;
                self.post(self.now + self.stop_delay, Event::IssuingStopped { phase, sent });
            }
            Action::CutPhase { phase } => self.cut(|request| request.phase == phase),
            Action::CutSilent { phase, silent_since } => {
                // A request that will be answered streams all the time; one that hangs is silent from its start.
                self.cut(|request| {
                    request.phase == phase && request.end == Nanos::MAX && request.start <= silent_since
                });
            }
            Action::CutStalled { phase, .. } => {
                let streams = |request: &&InFlight| !request.hangs() && self.now.since(request.start) > LAG_MAX;
                let mut own = self.in_flight.iter().filter(|request| request.phase == phase);
                assert_eq!(own.find(streams), None, "phase {phase:?} was alive");
                self.cut(|request| request.phase == phase);
            }
            Action::LookForSigns { phase, .. } => {
                let signs = self.signs(phase);
                let at = self.now + (self.progress_delay)();
                self.post(at, Event::SignsSeen { phase, signs });
            }
            Action::IsSilent { phase, .. } | Action::GoesOn { phase } => {
                let world = &self.phases[phase.index()];
                assert!(
                    world.pacer.is_some() && world.ended.is_none(),
                    "word of phase {phase:?} which is not open"
                );
            }
            Action::CallHook(call) => {
                assert_eq!(self.hook_under_way, None, "{call:?} while another call is under way");
                let starts = call == HookCall::ProfilerStart;
                assert_ne!(starts, self.profiling_on, "{call:?} twice in a row");
                let script = self.hooks.pop_front().unwrap_or(HookScript {
                    latency: ms(1),
                    succeeds: true,
                });
                self.hook_under_way = Some(call);
                if starts {
                    self.profiling_on = script.succeeds;
                } else {
                    self.profiling_on = false;
                }
                let result = if script.succeeds {
                    Ok(())
                } else {
                    Err("scripted failure".to_owned())
                };
                self.post(self.now + script.latency, Event::HookAnswered { call, result });
            }
            Action::PhaseEnded(summary) => {
                let world = &mut self.phases[summary.phase.index()];
                assert_eq!(world.ended, None, "phase ended twice");
                assert_eq!(
                    summary.tally, world.truth,
                    "counts of {:?} differ from what happened",
                    summary.phase
                );
                assert_eq!(summary.tally.sent, summary.tally.returned(), "{summary:?}");
                assert!(summary.start <= summary.sending_complete && summary.sending_complete <= summary.end);
                world.ended = Some(summary);
            }
            Action::RunEnded => self.run_ended = true,
        }
    }

    /// What the cores know of a phase: a request that will be answered streams all the time, and one that hangs is silent from its start.
    fn signs(&self, phase: PhaseId) -> Signs {
        let own = || self.in_flight.iter().filter(|request| request.phase == phase);
        let last_byte = |request: &InFlight| if request.hangs() { request.start } else { self.now };
        Signs {
            last_byte: own().map(last_byte).max(),
            oldest: own().map(|request| request.start).min(),
            more_is_due: self.phases[phase.index()].more_is_due(self.now),
        }
    }

    fn start_phase(&mut self, phase: PhaseId) {
        let plan = &self.plans[phase.index()];
        for (index, earlier) in self.phases[..phase.index()].iter().enumerate() {
            let done = if plan.seamless {
                earlier.stopped || earlier.exhausted_and_sent()
            } else {
                earlier.ended.is_some()
            };
            assert!(done, "phase {phase:?} starts while phase {index} is not done");
        }
        let stop_is_owed = self.hook_under_way == Some(HookCall::ProfilerStop);
        assert!(
            plan.seamless || !stop_is_owed,
            "phase {phase:?} starts before the profiler of the last one stopped"
        );
        assert!(
            self.phases[phase.index()].pacer.is_none(),
            "phase {phase:?} started twice"
        );
        let world = &mut self.phases[phase.index()];
        let (sessions, pacer) = Sessions::start(plan, self.seed, self.cursor, &self.conversations);
        world.sessions = sessions;
        let adaptive = plan.limits.adaptive.iter().filter(|plan| plan.variable.is_pace());
        world.paces = adaptive.map(|plan| (Nanos::ZERO, plan.min)).collect();
        world.pacer = Some(pacer);
        world.start = self.now;
    }

    /// Fills queues from pacers, and tells once when a pacer has nothing more.
    pub(super) fn refill(&mut self) {
        for index in 0..self.phases.len() {
            let world = &mut self.phases[index];
            if world.pacer.is_none() || world.stopped || world.exhausted {
                continue;
            }
            let plan = &self.plans[index];
            let phase = plan.id;
            let numbered_by_cores = plan.drops_arrivals() || world.sessions.exist();
            if numbered_by_cores && world.is_spent() {
                world.exhausted = true;
                world.queue.clear();
                world.sessions.close();
                let issued = world.truth.sent;
                self.post(self.now, Event::CreditsExhausted { phase, issued });
                continue;
            }
            let Some(pacer) = &mut world.pacer else { continue };
            let elapsed = self.now.since(world.start);
            while world.queue.len() < QUEUE_CAPACITY
                && pacer.is_open(elapsed)
                && let Some(credit) = pacer.next()
            {
                if let Arrival::AtRate { gaps: Gaps::Even, .. } = plan.arrival
                    && !world.paces.is_empty()
                {
                    let off = integral(&world.paces, credit.intended) - (credit.sequence + 1) as f64;
                    assert!(
                        off.abs() < 1e-3,
                        "{credit:?} is off by {off} at paces {:?}",
                        world.paces
                    );
                }
                if let Arrival::UserCentric { users, .. } = plan.arrival {
                    let applies = |&&(from, _): &&(Nanos, f64)| from <= credit.intended;
                    let latest = world.paces.iter().rfind(applies).copied();
                    world
                        .sessions
                        .check_user(&credit, latest.unwrap_or((Nanos::ZERO, users.into())));
                }
                let before = world.queue.back().map_or(Nanos::ZERO, |before| before.intended);
                assert!(
                    credit.intended >= before,
                    "{credit:?} behind one that is due at {before}"
                );
                world.queue.push_back(credit);
            }
            if pacer.is_exhausted() && !numbered_by_cores {
                world.exhausted = true;
                let issued = pacer.issued();
                self.post(self.now, Event::CreditsExhausted { phase, issued });
            }
        }
    }

    /// Makes the chosen requests end as truncated after the cut's delay, unless they end before.
    fn cut(&mut self, chosen: impl Fn(&InFlight) -> bool) {
        let end = self.now + self.cut_delay;
        for request in self
            .in_flight
            .iter_mut()
            .filter(|request| chosen(request) && request.end > end)
        {
            request.end = end;
            request.ending = Ending::Truncated;
        }
    }

    pub(super) fn hook_answered(&mut self, call: HookCall) {
        assert_eq!(self.hook_under_way.take(), Some(call));
        self.log.push((self.now, Entry::Answered(call)));
    }
}
