//! The shell of the phase machine: gives it time, counts and answers, and carries out what it says.
//!
//! The machine knows neither cores nor queues; this loop knows nothing else. It wakes when a core says that something it waits for has happened,
//! at the machine's deadlines, and every [`TICK`] to refill the gates.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};

use super::event::{Action, Event, HookCall, PhaseSummary, Tally};
use super::live::LiveBoard;
use super::machine::{Machine, MachineSettings, RunOutcome};
use super::pacer::{ImageCursor, Pacer};
use super::surroundings::{Surroundings, Watch};
use crate::clock;
use crate::credit::{Command, Exchange, PhaseCounters, PhaseGate};
use crate::id::PhaseId;
use crate::interrupt::Interrupt;
use crate::plan::{Arrival, Conversations, PhasePlan, Plan, TurnLaw};
use crate::record::Outcome;
use crate::sys::time::thread_cpu;
use crate::units::Nanos;

/// Longest sleep. A gate holds what a core can send in several of these.
const TICK: Nanos = Nanos::from_millis(10);

/// After an interrupt a control call may take this long, whatever its own timeout: the run must end within five seconds.
const HOOK_PATIENCE: Nanos = Nanos::from_secs(3);

/// Credits that the gate of a phase holds, per core: more than a core can send in many ticks.
const CREDITS_PER_CORE: usize = 16_384;

/// The credits that the gate of a phase should hold.
pub(crate) fn gate_capacity(phase: &PhasePlan, cores: usize) -> usize {
    let wanted = CREDITS_PER_CORE * cores;
    phase
        .stop
        .requests
        .map_or(wanted, |requests| wanted.min(requests as usize))
        .max(1)
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
    /// Arrivals that were due and found no slot before their phase ended, by phase.
    pub(crate) unsent: Vec<u64>,
    /// What the time of each phase was like, by phase.
    pub(crate) surroundings: Vec<Surroundings>,
    /// A control call was still without an answer when the interrupted run ended.
    pub(crate) hook_abandoned: bool,
    /// Processor time of the coordinator's thread.
    pub(crate) busy: Nanos,
}

/// The phase that issues credits.
struct Sending {
    phase: PhaseId,
    pacer: Pacer,
    /// Every credit is in the gate or beyond.
    exhausted: bool,
    /// `StopIssuing` was given; waits for the cores.
    closing: bool,
    /// Cores number requests as they start, see [`TurnLaw`]: credits alone do not tell when all are sent.
    counted_by_cores: bool,
    /// The number of requests that the phase will have, until the machine has been told.
    news: Option<u64>,
}

impl Sending {
    /// Whether every request that the phase will ever have has been taken by a core.
    fn all_taken(&self, gate: &PhaseGate) -> bool {
        if self.counted_by_cores {
            !gate.requests.any_left()
        } else {
            self.exhausted && gate.is_empty()
        }
    }

    /// Sessions of the phase that have begun, when `sent` requests were.
    fn begun(&self, gate: &PhaseGate, sent: u64) -> u64 {
        if self.counted_by_cores { gate.begun() } else { sent }
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
    unsent: Vec<u64>,
    watch: Watch,
    /// When the interrupt was seen.
    interrupted: Option<Nanos>,
    /// A control call without an answer.
    outstanding: Option<HookCall>,
    hook_abandoned: bool,
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
    ) -> Self {
        let conversations = Arc::clone(&plan.requests.conversations);
        let entries = NonZeroU32::new(conversations.count()).expect("a dataset is not empty");
        let profiler = plan.hooks.server_profiler.is_some();
        Self {
            machine: Machine::new(&plan.phases, profiler, MachineSettings::default()),
            seen: vec![Tally::default(); plan.phases.len()],
            unsent: vec![0; plan.phases.len()],
            watch: Watch::new(plan.phases.len()),
            phases: plan.phases.clone(),
            exchange,
            hooks,
            live,
            interrupt,
            seed: plan.seed,
            conversations,
            cursor: ImageCursor::new(entries),
            sending: None,
            open: Vec::new(),
            ended: Vec::new(),
            interrupted: None,
            outstanding: None,
            hook_abandoned: false,
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
        self.open.iter().for_each(|&phase| self.cut(phase, None));
        for link in &self.exchange.links {
            link.command(Command::Shutdown);
        }
        CoordinatorReport {
            phases: self.ended,
            outcome: self.machine.outcome().clone(),
            unsent: self.unsent,
            surroundings: self.watch.into_surroundings(),
            hook_abandoned: self.hook_abandoned,
            busy: thread_cpu(),
        }
    }

    /// Sleeps until there is news or something is due; returns the latest instant at which that should have ended.
    fn sleep(&self, now: Nanos) -> Nanos {
        let waker = &self.exchange.coordinator;
        waker.prepare_sleep();
        let until = self.machine.next_deadline().unwrap_or(Nanos::MAX).since(now).min(TICK);
        if until > Nanos::ZERO && !self.news() {
            waker.event().wait(until);
        }
        waker.awake();
        now + until
    }

    /// Whether something happened since the last look that deserves a turn at once.
    fn news(&self) -> bool {
        let watched = self.exchange.attention.load(Ordering::Relaxed);
        let progressed = |&phase: &PhaseId| tally(&self.exchange, phase) != self.seen[phase.index()];
        let closed = |sending: &Sending| sending.closing && self.exchange.all_closed(sending.phase);
        // An empty gate is news until it is refilled, or, if there is nothing to refill it with, until every return is looked at.
        let empty = |sending: &Sending| {
            let gate = &self.exchange.gates[sending.phase.index()];
            let known = sending.closing || (watched && sending.all_taken(gate));
            !known && (gate.is_empty() || sending.all_taken(gate))
        };
        (watched && self.open.iter().any(progressed))
            || self
                .sending
                .as_ref()
                .is_some_and(|sending| closed(sending) || empty(sending))
    }

    /// Tells the machine what happened since the last turn.
    fn observe(&mut self, now: Nanos) {
        if self.interrupt.is_raised() && self.interrupted.is_none() {
            self.interrupted = Some(now);
            self.tell(Event::Interrupted, now);
        }
        self.hear_hooks(now);
        for phase in self.open.clone() {
            let tally = tally(&self.exchange, phase);
            if self.seen[phase.index()] != tally {
                self.seen[phase.index()] = tally;
                self.tell(Event::Progress { phase, tally }, now);
            }
        }
        self.finish_closing(now);
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
            self.hook_abandoned = true;
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
                    });
                }
            }
            Action::StopIssuing { phase } => {
                self.exchange.gates[phase.index()].stop(now);
                self.close(phase);
                if let Some(sending) = self.sending.as_mut().filter(|sending| sending.phase == phase) {
                    sending.closing = true;
                }
            }
            Action::CutPhase { phase } => self.cut(phase, None),
            Action::CutSilent { phase, silent_since } => self.cut(phase, Some(silent_since)),
            Action::CallHook(call) => {
                // The control thread lives until the coordinator has gone, so the line is open.
                let _ = self.hooks.calls.send(call);
                self.outstanding = Some(call);
            }
            Action::PhaseEnded(summary) => {
                let phase = summary.phase;
                self.open.retain(|&open| open != phase);
                self.live.ended(phase);
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
        let counted_by_cores = law != TurnLaw::Single;
        let mut known_total = None;
        if counted_by_cores {
            let total = self.total_of(&plan);
            gate.open_claims(total, plan.stop.sessions, self.cursor.image());
            // Not every credit becomes a request, so their number ends nothing.
            plan.stop.requests = None;
            known_total = total;
        }
        gate.open(now, stop_at);
        self.sending = Some(Sending {
            phase,
            pacer: Pacer::of_sessions(&plan, self.seed, self.cursor, &self.conversations),
            exhausted: false,
            closing: false,
            counted_by_cores,
            news: known_total,
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

    fn cut(&self, phase: PhaseId, silent_since: Option<Nanos>) {
        for link in &self.exchange.links {
            link.command(Command::Cut { phase, silent_since });
        }
    }

    /// Once every core has given up its credits of a stopped phase, what is left in the gate will never be sent.
    fn finish_closing(&mut self, now: Nanos) {
        let Some(sending) = self.sending.as_ref().filter(|sending| sending.closing) else {
            return;
        };
        let phase = sending.phase;
        if !self.exchange.all_closed(phase) {
            return;
        }
        let sent = tally(&self.exchange, phase).sent;
        let gate = &self.exchange.gates[phase.index()];
        self.cursor = sending.pacer.cursor_after(sending.begun(gate, sent));
        let waiting = gate.withdraw(now);
        // Arrivals that came when every session had begun found nothing to start: they were not kept back.
        let idle = sending.counted_by_cores && !gate.sessions.any_left();
        if self.phases[phase.index()].arrival != Arrival::ClosedLoop && !idle {
            let in_hand: u64 = self.exchange.counters(phase).map(PhaseCounters::unsent).sum();
            self.unsent[phase.index()] = waiting + in_hand;
        }
        self.sending = None;
        self.live.draining(phase);
        self.tell(Event::IssuingStopped { phase, sent }, now);
    }

    /// Puts as many credits into the gate of the sending phase as fit.
    fn refill(&mut self, now: Nanos) {
        let Some(sending) = self
            .sending
            .as_mut()
            .filter(|sending| !sending.closing && !sending.exhausted)
        else {
            return;
        };
        let phase = sending.phase;
        if let Some(issued) = sending.news.take() {
            self.tell(Event::CreditsExhausted { phase, issued }, now);
            return self.refill(now);
        }
        let gate = &self.exchange.gates[phase.index()];
        if sending.all_taken(gate) {
            return;
        }
        let mut added = false;
        for _ in 0..gate.room() {
            let Some(credit) = sending.pacer.next() else {
                sending.exhausted = true;
                break;
            };
            gate.push(credit);
            added = true;
        }
        if added {
            self.exchange.links.iter().for_each(|link| link.feed());
        }
        if sending.exhausted && !sending.counted_by_cores {
            let issued = sending.pacer.issued();
            self.tell(Event::CreditsExhausted { phase, issued }, now);
        }
    }

    fn set_attention(&mut self) {
        // The last returns of a phase, and every return while phases overlap, move the machine. While a phase has credits left it is enough to
        // look now and then: the core that takes the last one says so.
        let ending = self.sending.as_ref().is_none_or(|sending| {
            let taken = sending.all_taken(&self.exchange.gates[sending.phase.index()]);
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
