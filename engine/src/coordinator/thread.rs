//! The shell of the phase machine: gives it time, counts and answers, and carries out what it says.
//!
//! The machine knows neither cores nor queues; this loop knows nothing else. It wakes when a core says that something it waits for has happened,
//! at the machine's deadlines, and every [`TICK`] to refill the gates.

mod signs;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};

use super::adaptive::{AdaptiveReport, Window};
use super::event::{Action, Event, HookCall, PhaseSummary, Tally};
use super::live::LiveBoard;
use super::machine::{Machine, MachineSettings, RunOutcome};
use super::pacer::{ImageCursor, Pacer};
use super::presence::Presence;
use super::surroundings::{Surroundings, Watch};
use crate::clock;
use crate::credit::{Command, CutCause, Exchange, PhaseCounters, PhaseGate, Sample};
use crate::id::PhaseId;
use crate::interrupt::Interrupt;
use crate::plan::{AdaptivePlan, Arrival, Conversations, PhasePlan, Plan, TurnLaw};
use crate::record::Outcome;
use crate::sys::time::thread_cpu;
use crate::units::Nanos;

/// Longest sleep. A gate holds what a core can send in several of these.
const TICK: Nanos = Nanos::from_millis(10);

/// After an interrupt a control call may take this long, whatever its own timeout: the run must end within five seconds, and a profiler whose
/// start was given up has to be stopped in what is left of them.
const HOOK_PATIENCE: Nanos = Nanos::from_millis(2_500);

/// Credits that the gate of a phase holds, per core: more than a core can send in many ticks.
const CREDITS_PER_CORE: usize = 16_384;

/// The credits that the gate of a phase should hold.
pub(crate) fn gate_capacity(phase: &PhasePlan, cores: usize) -> usize {
    let wanted = CREDITS_PER_CORE * cores;
    // Where arrivals are dropped there may be any number of them for each request.
    let requests = phase.stop.requests.filter(|_| !phase.drops_arrivals());
    requests.map_or(wanted, |requests| wanted.min(requests as usize)).max(1)
}

/// The line to the thread that carries out control calls.
pub(crate) struct HookPort {
    pub(crate) calls: Sender<HookCall>,
    pub(crate) answers: Receiver<(HookCall, Result<(), String>)>,
}

/// What the coordinator leaves behind.
#[derive(Debug)]
pub(crate) struct CoordinatorReport {
    /// Phases that started, in the order in which they ended.
    pub(crate) phases: Vec<PhaseSummary>,
    /// How the run went.
    pub(crate) outcome: RunOutcome,
    /// What became of arrivals that were not sent, by phase; `None` in a closed loop, which has no arrivals.
    pub(crate) arrivals: Vec<Option<UnsentArrivals>>,
    /// What controllers of phases did, by phase.
    pub(crate) adaptive: Vec<(PhaseId, AdaptiveReport)>,
    /// Requests that the controllers were not told of, because too many ended at once.
    pub(crate) samples_lost: u64,
    /// What the time of each phase was like, by phase.
    pub(crate) surroundings: Vec<Surroundings>,
    /// When the user ended the run.
    pub(crate) interrupted: Option<Nanos>,
    /// Processor time of the coordinator's thread.
    pub(crate) busy: Nanos,
}

/// Arrivals of an open loop that started no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct UnsentArrivals {
    /// Found no slot, and were dropped as the phase wants it.
    pub(crate) dropped: u64,
    /// Were due and still waiting when the phase stopped sending.
    pub(crate) unsent: u64,
}

/// The phase that issues credits.
struct Sending {
    phase: PhaseId,
    pacer: Pacer,
    /// Arrivals that find no slot are dropped.
    drops: bool,
    /// A session may be more than one request, see [`TurnLaw`].
    has_sessions: bool,
    /// Cores number the requests, because not every credit becomes one: the phase has sent everything when they have no number left.
    numbered_by_cores: bool,
    /// Requests of the phase, if anything but its duration ends it.
    total: Option<u64>,
    /// Every credit is in the gate or beyond, or none is needed any more.
    exhausted: bool,
    /// The machine knows how many requests there will be.
    announced: bool,
    /// `StopIssuing` was given; waits for the cores.
    closing: bool,
}

impl Sending {
    /// Sessions of the phase that have begun, when `sent` requests were.
    fn begun(&self, gate: &PhaseGate, sent: u64) -> u64 {
        if self.has_sessions { gate.begun() } else { sent }
    }
}

/// The coordinator's loop.
pub(crate) struct Coordinator {
    phases: Vec<PhasePlan>,
    exchange: Arc<Exchange>,
    machine: Machine,
    hooks: HookPort,
    live: Arc<LiveBoard>,
    interrupt: Arc<Interrupt>,
    seed: u64,
    conversations: Arc<Conversations>,
    cursor: ImageCursor,
    sending: Option<Sending>,
    /// Started and not ended.
    open: Vec<PhaseId>,
    seen: Vec<Tally>,
    ended: Vec<PhaseSummary>,
    arrivals: Vec<Option<UnsentArrivals>>,
    /// By phase: requests that ended since its controller looked last. Empty for phases without a controller.
    samples: Vec<Vec<Sample>>,
    /// The users of the sending phase, if their number is moved.
    presence: Presence,
    watch: Watch,
    /// When the interrupt was seen.
    interrupted: Option<Nanos>,
    /// A control call without an answer.
    outstanding: Option<HookCall>,
    /// Phases that the cores have been asked about.
    asked: Vec<PhaseId>,
    run_ended: bool,
}

/// Counts of a phase over all cores.
pub(crate) fn tally(exchange: &Exchange, phase: PhaseId) -> Tally {
    let mut tally = Tally::default();
    for counters in exchange.counters(phase) {
        tally.succeeded += counters.ended(Outcome::Success);
        tally.failed += counters.ended(Outcome::Error);
        tally.cancelled += counters.ended(Outcome::Cancelled);
        tally.truncated += counters.ended(Outcome::Truncated);
        // After the ends, so that a request is never seen to end before it was sent.
        tally.sent += counters.sent();
    }
    tally
}

/// The share of core `core` of `cores` in a limit: as even as whole slots allow, and never smaller for a larger limit.
fn share(limit: u32, core: usize, cores: usize) -> u32 {
    if limit == u32::MAX {
        return u32::MAX;
    }
    let (core, cores) = (core as u32, cores as u32);
    limit / cores + u32::from(core < limit % cores)
}

impl Coordinator {
    pub(crate) fn new(
        plan: &Plan,
        exchange: Arc<Exchange>,
        hooks: HookPort,
        live: Arc<LiveBoard>,
        interrupt: Arc<Interrupt>,
        settings: MachineSettings,
    ) -> Self {
        let profiler = plan.hooks.server_profiler.is_some();
        Self {
            machine: Machine::new(&plan.phases, profiler, settings),
            seen: vec![Tally::default(); plan.phases.len()],
            arrivals: plan
                .phases
                .iter()
                .map(|phase| (!phase.arrival.is_closed_loop()).then(UnsentArrivals::default))
                .collect(),
            presence: Presence::default(),
            watch: Watch::new(plan.phases.len()),
            samples: vec![Vec::new(); plan.phases.len()],
            phases: plan.phases.clone(),
            exchange,
            hooks,
            live,
            interrupt,
            seed: plan.seed,
            conversations: Arc::clone(&plan.requests.conversations),
            cursor: ImageCursor::in_order(plan.requests.order),
            sending: None,
            open: Vec::new(),
            ended: Vec::new(),
            interrupted: None,
            outstanding: None,
            asked: Vec::new(),
            run_ended: false,
        }
    }

    /// Runs the workflow to its end, then tells the cores to end.
    pub(crate) fn run(mut self) -> CoordinatorReport {
        let mut asked = Nanos::MAX;
        while !self.run_ended && !self.exchange.core_failed() {
            let now = clock::monotonic();
            self.watch.late(now.since(asked));
            self.observe(now);
            self.tell(Event::Tick, now);
            self.refill(now);
            self.set_attention();
            self.watch.look();
            if self.run_ended {
                break;
            }
            asked = self.sleep(clock::monotonic());
        }
        // Nothing is open unless a core has failed; its neighbours then have no reason to wait for their answers.
        self.open.iter().for_each(|&phase| self.cut(phase, CutCause::Over));
        for link in &self.exchange.links {
            link.command(Command::Shutdown);
        }
        for (phase, arrivals) in self.phases.iter().zip(&mut self.arrivals) {
            let dropped: u64 = self.exchange.counters(phase.id).map(PhaseCounters::dropped).sum();
            arrivals.iter_mut().for_each(|arrivals| arrivals.dropped += dropped);
        }
        CoordinatorReport {
            phases: self.ended,
            outcome: self.machine.outcome().clone(),
            adaptive: self.machine.adaptive_reports(),
            samples_lost: self
                .exchange
                .links
                .iter()
                .filter_map(|link| Some(link.samples.as_ref()?.lost()))
                .sum(),
            arrivals: self.arrivals,
            surroundings: self.watch.into_surroundings(),
            interrupted: self.interrupted,
            busy: thread_cpu(),
        }
    }

    /// Sleeps until there is news or something is due; returns the latest instant at which that should have ended.
    fn sleep(&self, now: Nanos) -> Nanos {
        let waker = &self.exchange.coordinator;
        waker.prepare_sleep();
        let until = self.machine.next_deadline().unwrap_or(Nanos::MAX).since(now).min(TICK);
        if until > Nanos::ZERO && !self.news(now) {
            waker.event().wait(until);
        }
        waker.awake();
        now + until
    }

    /// Whether something happened since the last look that deserves a turn at once.
    fn news(&self, now: Nanos) -> bool {
        let watched = self.exchange.attention.load(Ordering::Relaxed);
        let progressed = |&phase: &PhaseId| tally(&self.exchange, phase) != self.seen[phase.index()];
        let closed = |sending: &Sending| sending.closing && self.exchange.all_closed(sending.phase);
        // An empty gate is news until it is refilled, or, if there is nothing to refill it with, until every return is looked at.
        let empty = |sending: &Sending| {
            let known = sending.closing || (sending.exhausted && (watched || sending.has_sessions));
            let gate = &self.exchange.gates[sending.phase.index()];
            // Of a pace that moves nothing may be due soon enough to refill it with.
            let has_nothing_yet = !sending.exhausted && !sending.pacer.is_open(now.since(gate.start()));
            !known && !has_nothing_yet && gate.is_empty()
        };
        let spent = |sending: &Sending| !sending.closing && !sending.announced && self.is_spent(sending);
        (watched && self.open.iter().any(progressed))
            || self
                .sending
                .as_ref()
                .is_some_and(|sending| closed(sending) || empty(sending) || spent(sending))
    }

    /// Tells the machine what happened since the last turn.
    fn observe(&mut self, now: Nanos) {
        if self.interrupt.is_raised() && self.interrupted.is_none() {
            self.interrupted = Some(now);
            self.tell(Event::Interrupted, now);
        }
        self.hear_hooks(now);
        self.collect_samples();
        for phase in self.open.clone() {
            let tally = tally(&self.exchange, phase);
            if self.seen[phase.index()] != tally {
                self.seen[phase.index()] = tally;
                self.tell(Event::Progress { phase, tally }, now);
            }
        }
        self.hear_cores(now);
        self.finish_closing(now);
    }

    /// Takes what cores have left for the controllers.
    fn collect_samples(&mut self) {
        for samples in self.exchange.links.iter().filter_map(|link| link.samples.as_ref()) {
            while let Some(sample) = samples.take() {
                if let Some(number) = sample.session_over
                    && self
                        .sending
                        .as_ref()
                        .is_some_and(|sending| sending.phase == sample.phase)
                {
                    self.presence.ended(number);
                }
                self.samples[sample.phase.index()].push(sample);
            }
        }
    }

    fn hear_hooks(&mut self, now: Nanos) {
        while let Ok((call, result)) = self.hooks.answers.try_recv() {
            // The answer to a call that was given up comes too late for anyone.
            if self.outstanding.take_if(|outstanding| *outstanding == call).is_some() {
                self.tell(Event::HookAnswered { call, result }, now);
            }
        }
        let patience_is_over = self.interrupted.is_some_and(|at| now.since(at) > HOOK_PATIENCE);
        if patience_is_over && let Some(call) = self.outstanding.take() {
            let result = Err(format!("no answer within {HOOK_PATIENCE} of the interrupt; given up"));
            self.tell(Event::HookAnswered { call, result }, now);
        }
    }

    fn tell(&mut self, event: Event, now: Nanos) {
        let mut actions = Vec::new();
        self.machine.handle(event, now, &mut actions);
        for action in actions {
            self.carry_out(action, now);
        }
    }

    fn carry_out(&mut self, action: Action, now: Nanos) {
        match action {
            Action::StartPhase { phase } => self.start_phase(phase, now),
            Action::SetLimit { phase, limit } => {
                let cores = self.exchange.links.len();
                for (core, link) in self.exchange.links.iter().enumerate() {
                    link.command(Command::Allow {
                        phase,
                        slots: share(limit, core, cores),
                        since: now,
                    });
                }
            }
            Action::Assess { phase } => {
                let sending = self.sending.as_ref().filter(|sending| sending.phase == phase);
                let window = Window {
                    samples: std::mem::take(&mut self.samples[phase.index()]),
                    leaving: sending.map_or(0, |sending| self.presence.leaving(sending.pacer.issued())),
                };
                self.tell(Event::Assessed { phase, window }, now);
            }
            Action::SetPace { phase, pace } => {
                // What is due before the change exists before it.
                self.refill(now);
                if let Some(sending) = self.sending.as_mut().filter(|sending| sending.phase == phase) {
                    if let Arrival::UserCentric { .. } = self.phases[phase.index()].arrival {
                        self.presence
                            .want(AdaptivePlan::whole(pace.value), sending.pacer.issued());
                    }
                    sending.pacer.go_on(pace);
                }
            }
            Action::SetPrefillLimit { limit, .. } => self.exchange.limit_prefills(limit, now),
            Action::StopIssuing { phase } => {
                self.exchange.gates[phase.index()].stop(now);
                self.close(phase);
                if let Some(sending) = self.sending.as_mut().filter(|sending| sending.phase == phase) {
                    sending.closing = true;
                }
            }
            Action::CutPhase { phase } => self.cut(phase, CutCause::Over),
            Action::CutSilent { phase, silent_since } => self.cut(phase, CutCause::Silent { since: silent_since }),
            Action::CutStalled { phase, timeout } => self.cut(phase, CutCause::Stalled { timeout }),
            Action::LookForSigns { phase, since } => self.look_for_signs(phase, since),
            Action::IsSilent { phase, spell } => self.live.silent(phase, Some(spell)),
            Action::GoesOn { phase } => self.live.silent(phase, None),
            Action::CallHook(call) => {
                // The control thread lives until the coordinator has gone, so the line is open.
                let _ = self.hooks.calls.send(call);
                self.outstanding = Some(call);
            }
            Action::PhaseEnded(summary) => {
                let phase = summary.phase;
                self.open.retain(|&open| open != phase);
                self.live.ended(&summary);
                self.watch.ended(phase);
                for link in &self.exchange.links {
                    link.command(Command::Ended { phase });
                }
                self.ended.push(summary);
            }
            Action::RunEnded => self.run_ended = true,
        }
    }

    fn start_phase(&mut self, phase: PhaseId, now: Nanos) {
        self.leave_predecessor();
        let mut plan = self.phases[phase.index()].clone();
        let stop_at = plan.stop.duration.map_or(Nanos::MAX, |duration| now + duration);
        let gate = &self.exchange.gates[phase.index()];
        let law = plan.arrival.turn_law(&self.conversations);
        let has_sessions = law != TurnLaw::Single;
        let mut total = plan.stop.requests;
        if has_sessions {
            total = self.total_of(&plan);
            // Not every credit becomes a request, so the number of requests does not end the schedule.
            plan.stop.requests = None;
        }
        let numbered_by_cores = has_sessions || plan.drops_arrivals();
        if numbered_by_cores {
            gate.open_claims(total, plan.stop.sessions, self.cursor.position());
        }
        gate.open(now, stop_at);
        self.presence = Presence::default();
        self.sending = Some(Sending {
            phase,
            pacer: Pacer::of_sessions(&plan, self.seed, self.cursor, &self.conversations),
            drops: plan.drops_arrivals(),
            has_sessions,
            numbered_by_cores,
            total,
            exhausted: false,
            announced: false,
            closing: false,
        });
        // Credits follow once every action of this turn is carried out.
        self.open.push(phase);
        self.live.started(phase, now);
        self.watch.started(phase);
    }

    /// Requests that a phase with sessions will send in all, if anything but its duration ends it.
    fn total_of(&self, plan: &PhasePlan) -> Option<u64> {
        let of_sessions = Pacer::requests_of_sessions(plan, self.cursor, &self.conversations);
        plan.stop.requests.into_iter().chain(of_sessions).min()
    }

    /// The dataset goes on where the phase that sent before has stopped.
    fn leave_predecessor(&mut self) {
        if let Some(sending) = self.sending.take() {
            let sent = tally(&self.exchange, sending.phase).sent;
            let gate = &self.exchange.gates[sending.phase.index()];
            self.cursor = sending.pacer.cursor_after(sending.begun(gate, sent));
            self.close(sending.phase);
        }
    }

    fn close(&self, phase: PhaseId) {
        for link in &self.exchange.links {
            link.command(Command::Close { phase });
        }
    }

    fn cut(&self, phase: PhaseId, cause: CutCause) {
        for link in &self.exchange.links {
            link.command(Command::Cut { phase, cause });
        }
    }

    /// Once every core has given up its credits of a stopped phase, what is left in the gate will never be sent.
    fn finish_closing(&mut self, now: Nanos) {
        let Some(sending) = self.sending.as_mut().filter(|sending| sending.closing) else {
            return;
        };
        let phase = sending.phase;
        if !self.exchange.all_closed(phase) {
            return;
        }
        let sent = tally(&self.exchange, phase).sent;
        let gate = &self.exchange.gates[phase.index()];
        self.cursor = sending.pacer.cursor_after(sending.begun(gate, sent));
        let end = now.min(gate.stop_at());
        let waiting = gate.withdraw(end);
        // Arrivals that came when every session had begun found nothing to start: they were not kept back.
        let idle = sending.has_sessions && !gate.sessions.any_left();
        if let Some(arrivals) = self.arrivals[phase.index()].as_mut().filter(|_| !idle) {
            // Nobody had a slot for those that wait; one in hand had one, and its core was late.
            let waiting = waiting + sending.pacer.take_overdue(end.since(gate.start()));
            let in_hand: u64 = self.exchange.counters(phase).map(PhaseCounters::unsent).sum();
            if sending.drops {
                (arrivals.dropped, arrivals.unsent) = (waiting, in_hand);
            } else {
                arrivals.unsent = waiting + in_hand;
            }
        }
        self.sending = None;
        self.live.draining(phase);
        self.tell(Event::IssuingStopped { phase, sent }, now);
    }

    /// Whether a phase whose cores number the requests has no number left.
    fn is_spent(&self, sending: &Sending) -> bool {
        sending.numbered_by_cores && !self.exchange.gates[sending.phase.index()].requests.any_left()
    }

    /// Puts as many credits into the gate of the sending phase as fit, and tells the machine once their number is known.
    fn refill(&mut self, now: Nanos) {
        let Some(sending) = self
            .sending
            .as_ref()
            .filter(|sending| !sending.closing && !sending.announced)
        else {
            return;
        };
        let spent = self.is_spent(sending);
        let Some(sending) = self.sending.as_mut() else { return };
        let phase = sending.phase;
        let gate = &self.exchange.gates[phase.index()];
        let room = if spent || sending.exhausted { 0 } else { gate.room() };
        let elapsed = now.since(gate.start());
        let mut added = false;
        for _ in 0..room {
            if !sending.pacer.is_open(elapsed) {
                break;
            }
            let Some(credit) = sending.pacer.next() else { break };
            gate.push(credit);
            added = true;
        }
        sending.exhausted |= room > 0 && sending.pacer.is_exhausted();
        if added {
            self.exchange.links.iter().for_each(|link| link.feed());
        }
        let issued = match (sending.numbered_by_cores, spent) {
            (false, _) if sending.exhausted => sending.pacer.issued(),
            (true, true) => sending.total.unwrap_or(u64::MAX),
            // Of a schedule whose arrivals need not become requests only the duration knows the end.
            _ => return,
        };
        sending.exhausted = true;
        sending.announced = true;
        self.tell(Event::CreditsExhausted { phase, issued }, now);
    }

    fn set_attention(&mut self) {
        // The last returns of a phase, and every return while phases overlap, move the machine. While a phase has credits left it is enough to
        // look now and then: the core that takes the last one says so.
        let ending = self.sending.as_ref().is_none_or(|sending| {
            let gate = &self.exchange.gates[sending.phase.index()];
            // Without credits sessions still have turns to send.
            let taken = (sending.exhausted && gate.is_empty() && !sending.has_sessions) || self.is_spent(sending);
            if taken {
                self.live.draining(sending.phase);
            }
            taken || sending.closing
        });
        self.exchange
            .attention
            .store(ending || self.open.len() > 1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_never_shrink_as_the_limit_grows() {
        for cores in 1..=5usize {
            let mut before = vec![0; cores];
            for limit in 0..=64u32 {
                let shares: Vec<u32> = (0..cores).map(|core| share(limit, core, cores)).collect();
                assert_eq!(shares.iter().sum::<u32>(), limit);
                assert!(shares.iter().zip(&before).all(|(now, before)| now >= before));
                before = shares;
            }
            assert!((0..cores).all(|core| share(u32::MAX, core, cores) == u32::MAX));
        }
    }
}
