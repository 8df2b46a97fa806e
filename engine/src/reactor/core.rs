//! The loop of one core.
//!
//! A turn: carry out commands, start what may start, act on deadlines, publish counts, submit and wait, handle what completed. The clock is read
//! once before and once after the wait; everything that arrived in one turn carries the same time.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::connection::{NONE, Request, State};
use super::deadline::Deadlines;
use super::health::{Health, Parts};
use super::idle::IdlePool;
use super::opening::FAILURE_PAUSE;
use super::pacing::{Profile, Profiles};
use super::prefill::{self, PrefillRule};
use super::ramp::Ramp;
use super::recorder::{Recorder, Rules};
use super::routes::Routes;
use super::sealed::TlsCore;
use super::servers::ServerTallies;
use super::sessions::Sessions;
use super::slab::Slab;
use super::{CoreCounters, CorePlan, CoreReport, ReactorError, failure};
use crate::clock;
use crate::credit::{Cancellations, Command, Credit, Exchange, RequestIds};
use crate::http::{self, ScratchPool};
use crate::id::{CoreId, PhaseId};
use crate::plan::{ConnectionReuse, RequestImages, TurnLaw};
use crate::record::Outcome;
use crate::sys::driver::{Completion, Driver};
use crate::sys::time::thread_cpu;
use crate::units::Nanos;

/// Longest sleep without work.
const IDLE_WAIT: Nanos = Nanos::from_secs(1);

/// One phase as this core sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct PhaseRun {
    /// Credits may be taken.
    pub(super) open: bool,
    /// Slots of this core.
    pub(super) slots: u32,
    /// Slots that are taken: by requests in flight, or by sessions that are not over.
    pub(super) occupied: u32,
    /// A credit that is not due yet, or that waits for a connection.
    pub(super) held: Option<Credit>,
    /// Whether starts follow returns rather than a schedule.
    pub(super) closed_loop: bool,
    /// What starts the turns of its sessions.
    pub(super) law: TurnLaw,
    /// The number of a session that begins with the next credit.
    pub(super) claimed: Option<u64>,
    pub(super) cancellations: Option<Cancellations>,
    /// Its controller wants to know of every finished request.
    pub(super) sampled: bool,
    /// What its requests have to do with prefill slots.
    pub(super) prefill: PrefillRule,
    /// The credit in hand waits for a prefill slot.
    pub(super) awaits_prefill: bool,
    /// Arrivals that find no slot are dropped.
    pub(super) drops: bool,
}

/// Whose slot a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// One that was free.
    NewSlot,
    /// That of its session, which holds it from its first turn to its last.
    HeldSlot,
}

/// A reactor core.
pub(crate) struct Core<D> {
    pub(super) id: CoreId,
    pub(super) exchange: Arc<Exchange>,
    pub(super) driver: D,
    pub(super) slab: Slab,
    pub(super) idle: IdlePool,
    pub(super) servers: ServerTallies,
    pub(super) to_send: VecDeque<u32>,
    pub(super) phases: Vec<PhaseRun>,
    pub(super) recorder: Recorder,
    pub(super) scratch: ScratchPool,
    pub(super) sessions: Sessions,
    pub(super) cancels: Deadlines,
    pub(super) completions: Vec<Completion>,
    pub(super) images: RequestImages,
    pub(super) ids: RequestIds,
    pub(super) routes: Routes,
    pub(super) connection_reuse: ConnectionReuse,
    /// The text of each phase's disconnects, once it has been made: storms cancel requests as fast as they can be sent.
    pub(super) cancel_errors: Vec<Option<u32>>,
    /// With TLS, what the connections share.
    pub(super) tls: Option<TlsCore>,
    pub(super) request_timeout: Nanos,
    profiles: Profiles,
    /// How to wait, and how much to send at once: follows from the phases that are open.
    profile: Profile,
    sends_per_turn: usize,
    /// The last connect failed.
    pub(super) connect_failing: bool,
    pub(super) ramp: Ramp,
    /// Connections that have ended and that no new one has taken the place of yet.
    pub(super) lost: u64,
    /// No closed-loop start before this instant.
    pub(super) paused_until: Nanos,
    /// This core stands in line for a prefill slot.
    pub(super) in_line: bool,
    pub(super) shutting_down: bool,
    pub(super) watching: bool,
    /// Something happened that the coordinator waits for.
    pub(super) notify: bool,
    /// A request started or ended in this turn.
    pub(super) progressed: bool,
    pub(super) counters: CoreCounters,
    pub(super) health: Health,
}

impl<D: Driver> Core<D> {
    /// Makes the core over its driver.
    pub(crate) fn new(plan: CorePlan, driver: D, exchange: Arc<Exchange>) -> Self {
        let phases = plan
            .phases
            .iter()
            .zip(prefill::rules(&plan.phases))
            .map(|(phase, prefill)| PhaseRun {
                open: false,
                slots: 0,
                occupied: 0,
                held: None,
                closed_loop: phase.arrival.is_closed_loop(),
                drops: phase.drops_arrivals(),
                sampled: phase.limits.adaptive.is_some(),
                prefill,
                awaits_prefill: false,
                law: phase.arrival.turn_law(&plan.images.conversations),
                claimed: None,
                cancellations: phase
                    .cancellation
                    .map(|draw| Cancellations::new(plan.seed, &phase.name, draw.probability, draw.delay)),
            })
            .collect();
        let scratch = plan.scratch();
        Self {
            cancel_errors: vec![None; plan.phases.len()],
            health: Health::new(&plan.phases, plan.connections),
            id: plan.id,
            driver,
            slab: Slab::new(plan.connections, plan.kind),
            idle: IdlePool::new(plan.routes.servers(), plan.connections),
            servers: ServerTallies::new(plan.phases.len(), plan.routes.servers()),
            to_send: VecDeque::with_capacity(plan.connections),
            phases,
            recorder: Recorder::new(
                plan.id,
                &plan.phases,
                plan.images.clone(),
                plan.streaming,
                plan.journal,
                Rules {
                    keep_successes: plan.keep_successes,
                    judge: plan.judge,
                    secrets: plan.secrets,
                },
            ),
            scratch,
            sessions: Sessions::new(plan.phases.len()),
            cancels: Deadlines::new(plan.connections),
            completions: Vec::with_capacity(4096),
            images: plan.images,
            ids: plan.ids,
            routes: plan.routes,
            connection_reuse: plan.connection_reuse,
            tls: TlsCore::new(plan.tls),
            request_timeout: plan.request_timeout,
            profiles: plan.pacing,
            profile: plan.pacing.with(false),
            sends_per_turn: plan.pacing.with(false).sends_per_turn(false),
            connect_failing: false,
            ramp: Ramp::new(plan.connects_in_flight),
            lost: 0,
            paused_until: Nanos::ZERO,
            in_line: false,
            shutting_down: false,
            watching: false,
            notify: false,
            progressed: false,
            counters: CoreCounters::default(),
            exchange,
        }
    }

    /// Runs until told to shut down and nothing is left.
    ///
    /// # Errors
    /// The ring failed. What was recorded so far has been handed to the journal.
    pub(crate) fn run(mut self) -> Result<CoreReport, ReactorError> {
        let born = clock::monotonic();
        let mut now = born;
        let outcome = loop {
            self.take_commands(now);
            self.sessions.wake(now);
            self.start_requests(now);
            self.act_on_deadlines(now);
            self.submit_sends();
            self.publish();
            self.recorder.flush_old(now);
            if self.shutting_down && self.wind_down() {
                break Ok(());
            }
            if let Err(error) = self.submit_and_wait(clock::monotonic()) {
                break Err(ReactorError::Driver(error));
            }
            now = clock::monotonic();
            self.health
                .looked(now, self.completions.len(), self.recorder.histograms());
            self.handle_completions(now);
        };
        let windows = self.health.close(now, parts(&mut self.driver, &self.recorder));
        let driver = self.driver.counters();
        self.counters = CoreCounters {
            enters: driver.enters,
            completions: driver.completions,
            buffer_shortages: driver.buffer_shortages,
            overflows: driver.overflows,
            life: now.since(born),
            busy: thread_cpu(),
            ..self.counters
        };
        let (histograms, errors) = self.recorder.close();
        outcome.map(|()| CoreReport {
            histograms,
            windows,
            servers: self.servers.close(),
            errors,
            counters: self.counters,
        })
    }

    fn take_commands(&mut self, now: Nanos) {
        while let Some(command) = self.exchange.links[self.id.index()].next_command() {
            match command {
                Command::Allow { phase, slots, since } => {
                    let run = &mut self.phases[phase.index()];
                    run.open = true;
                    run.slots = slots;
                    let (driver, recorder) = (&mut self.driver, &self.recorder);
                    self.health
                        .granted(phase.index(), (slots, since), now, || parts(driver, recorder));
                    self.choose_profile();
                }
                Command::Close { phase } => {
                    let run = &mut self.phases[phase.index()];
                    run.open = false;
                    run.awaits_prefill = false;
                    let link = &self.exchange.links[self.id.index()];
                    let start = self.exchange.gates[phase.index()].start();
                    let unsent = run.held.take().filter(|credit| start + credit.intended <= now);
                    if let Some(credit) = unsent {
                        link.progress.phase(phase.index()).count_unsent();
                        self.health.wanted(&credit, start + credit.intended, now);
                    }
                    link.acknowledge_close(phase);
                    self.cut_sessions(phase, now);
                    self.notify = true;
                    self.choose_profile();
                }
                Command::Cut { phase, cause } => self.cut(phase, cause, now),
                Command::TellPulse { phase, since } => self.tell_pulse(phase, since, now),
                Command::Ended { phase } => {
                    self.phases[phase.index()].open = false;
                    self.cut_sessions(phase, now);
                    self.recorder.flush();
                    let parts = parts(&mut self.driver, &self.recorder);
                    self.health.ended(phase.index(), now, parts);
                }
                Command::Shutdown => self.shutting_down = true,
            }
        }
    }

    fn choose_profile(&mut self) {
        let schedule_open = self.phases.iter().any(|run| run.open && !run.closed_loop);
        self.profile = self.profiles.with(schedule_open);
        self.sends_per_turn = self.profile.sends_per_turn(schedule_open);
    }

    /// Starts every request that has a credit, a slot and its time.
    fn start_requests(&mut self, now: Nanos) {
        self.ramp.begin_turn();
        for index in 0..self.phases.len() {
            if self.phases[index].law != TurnLaw::Single {
                self.start_turns(index, now);
                continue;
            }
            while self.phases[index].open && self.phases[index].occupied < self.phases[index].slots {
                let Some(credit) = self.next_arrival(index) else { break };
                let gate = &self.exchange.gates[index];
                let intended = gate.start() + credit.intended;
                let paused = self.phases[index].closed_loop && now < self.paused_until;
                let due = intended <= now && !paused;
                if !due || now >= gate.stop_at() || !self.start(credit, intended, now) {
                    self.phases[index].held = Some(credit);
                    break;
                }
            }
        }
        if self.in_line {
            self.return_unused_grant(now);
        }
    }

    pub(super) fn next_credit(&mut self, phase: usize) -> Option<Credit> {
        if let Some(held) = self.phases[phase].held.take() {
            return Some(held);
        }
        let gate = &self.exchange.gates[phase];
        let credit = gate.take();
        if credit.is_some() && gate.is_empty() {
            // The last credit has left the queue: the coordinator refills it, or learns that the phase has sent everything.
            self.notify = true;
        }
        credit
    }

    /// Starts a request; `false` when it needs a new connection and enough are being opened, or every place for one is taken.
    fn start(&mut self, credit: Credit, intended: Nanos, now: Nanos) -> bool {
        let closed_loop = self.phases[credit.phase.index()].closed_loop;
        let wanted = (!closed_loop).then_some(intended);
        let ready = self.health.ready(credit.phase.index(), wanted, self.paused_until, now);
        self.health.wanted(&credit, ready, now);
        if self.phases[credit.phase.index()].prefill != PrefillRule::Free {
            return self.start_in_prefill(credit, wanted, ready, now);
        }
        let Some(credit) = self.numbered(credit) else {
            return false;
        };
        // In a closed loop nothing was scheduled: the request is wanted when its slot takes the credit.
        self.begin(credit, wanted.unwrap_or(now), ready, now)
    }

    /// Starts a request that is a session of its own; `false` as above.
    pub(super) fn begin(&mut self, credit: Credit, intended: Nanos, ready: Nanos, now: Nanos) -> bool {
        let request = Request::new(credit, intended, ready, now);
        self.dispatch(request, None, Start::NewSlot, now)
    }

    /// Puts a request on the connection that was kept for it, else on an idle one, else on a new one; `false` as above.
    pub(super) fn dispatch(&mut self, mut request: Request, kept: Option<u32>, slot: Start, now: Nanos) -> bool {
        let phase = request.credit.phase;
        request.in_prefill = self.phases[phase.index()].prefill != PrefillRule::Free;
        let server = self.servers.of(phase, request.session);
        if let Some(index) = kept.or_else(|| self.idle.pop(server)) {
            request.connection_reused = true;
            self.account_start(phase, slot);
            self.slab.link(index);
            let place = self.slab.get(index);
            place.session = NONE;
            place.state = State::Busy;
            place.begin(request, &mut self.scratch);
            self.to_send.push_back(index);
            return true;
        }
        if !self.ramp.allows() {
            return false;
        }
        let Some(index) = self.slab.claim() else {
            self.make_room();
            return false;
        };
        self.slab.get(index).server = server;
        if self.connect_failing {
            self.paused_until = now + FAILURE_PAUSE;
        }
        self.account_start(phase, slot);
        self.slab.link(index);
        self.connect(index, request, now);
        true
    }

    fn account_start(&mut self, phase: PhaseId, slot: Start) {
        self.progressed = true;
        if slot == Start::NewSlot {
            self.phases[phase.index()].occupied += 1;
            self.health.took_slot(phase.index());
        }
        self.health.started();
        self.exchange.links[self.id.index()]
            .progress
            .phase(phase.index())
            .count_sent();
    }

    /// A slot of a phase is free again.
    pub(super) fn leave_slot(&mut self, phase: usize, now: Nanos) {
        self.phases[phase].occupied -= 1;
        self.health.left_slot(phase, now);
    }

    fn act_on_deadlines(&mut self, now: Nanos) {
        while let Some(index) = self.cancels.take_due(now) {
            if self.slab.get(index).state == State::Parting {
                self.close(index);
            } else {
                self.cancel(index, now);
            }
        }
        while let Some(index) = self.slab.oldest() {
            let start = self.slab.get(index).request().issued;
            if now.since(start) < self.request_timeout {
                break;
            }
            self.fail(index, Outcome::Error, failure::timeout(self.request_timeout), now);
        }
    }

    /// Hands the next sends to the ring. The clock is read here, right before the enter that carries them out.
    fn submit_sends(&mut self) {
        if self.to_send.is_empty() {
            return;
        }
        let now = clock::monotonic();
        let mut submitted = 0;
        while submitted < self.sends_per_turn {
            let Some(index) = self.to_send.pop_front() else { break };
            let place = self.slab.get(index);
            if place.state != State::Busy || place.sending {
                continue; // cut before its turn came
            }
            let Some(request) = place.request.as_mut().filter(|request| request.bytes_sent == 0) else {
                continue;
            };
            if request.connected == Nanos::ZERO && !request.resent {
                request.start = now;
            }
            let (phase, sequence, session) = (request.credit.phase, request.credit.sequence, request.session);
            let (request_id, session_id) = (self.ids.request(phase, sequence), self.ids.session(phase, session));
            let (image, session_place) = (request.image, request.session_place);
            let insert = |out: &mut Vec<u8>| {
                if session_place == NONE {
                    return 0;
                }
                let history = self.sessions.get(session_place).history();
                let image = &self.images.entries[image as usize];
                if history.is_empty() || !image.has_history() {
                    return 0;
                }
                image.begin_with_history(history, out)
            };
            let block = &self.images.ids;
            self.driver.prepare_request(index, place.server, image, insert, |out| {
                http::patch_ids(
                    &block.template,
                    block.request_id_at,
                    &block.correlation_id_at,
                    &http::format_uuid(request_id.0, request_id.1),
                    &http::format_uuid(session_id.0, session_id.1),
                    out,
                )
            });
            submitted += 1;
            if place.tls.is_some() {
                self.send_first_piece(index, now);
                continue;
            }
            place.sending = true;
            place.operations += 1;
            let (generation, socket) = (place.generation, place.raw_socket());
            self.driver.send(index, generation, socket, 0);
        }
        self.health.sent();
    }

    /// Shows what anyone may see, and tells the coordinator what it waits for.
    fn publish(&mut self) {
        let oldest = self
            .slab
            .oldest()
            .and_then(|index| self.slab.peek(index).request.as_ref());
        let since = oldest.map(|request| request.issued);
        self.exchange.links[self.id.index()].progress.show_oldest(since);
        let wanted = self.progressed && self.exchange.attention.load(Ordering::Relaxed);
        if self.notify || wanted {
            self.exchange.coordinator.wake();
        }
        self.notify = false;
        self.progressed = false;
    }

    /// Submits, then waits until something completes, is due, or arrives from the coordinator: asleep, or by coming back at once.
    fn submit_and_wait(&mut self, now: Nanos) -> io::Result<()> {
        let link = &self.exchange.links[self.id.index()];
        if !self.watching {
            self.driver.watch(link.waker.event().as_raw_fd());
            self.watching = true;
        }
        // While the ramp holds a connect back it is the network or the server that takes its time.
        self.health
            .no_place_left(!self.idle.serves_all() && !self.slab.has_room());
        let span = if self.to_send.is_empty() {
            self.profile.sleep(now, self.next_deadline(), self.is_loaded())
        } else {
            Nanos::ZERO
        };
        if span == Nanos::ZERO {
            self.health.waits(now, Nanos::ZERO);
            return self.driver.turn(Nanos::ZERO, &mut self.completions);
        }
        let hungry = (0..self.phases.len()).any(|phase| self.phases[phase].held.is_none() && self.wants_credit(phase));
        link.announce_sleep(hungry);
        let fed = |phase: usize| {
            let has_credit = !self.exchange.gates[phase].is_empty();
            has_credit && self.phases[phase].held.is_none() && self.wants_credit(phase)
        };
        let work = !link.is_quiet()
            || (self.in_line && self.exchange.prefill.has_grant(self.id.index()))
            || (hungry && (0..self.phases.len()).any(fed));
        let wait = if work { Nanos::ZERO } else { span.min(IDLE_WAIT) };
        self.health.waits(now, wait);
        let outcome = self.driver.turn(wait, &mut self.completions);
        self.exchange.links[self.id.index()].waker.awake();
        outcome
    }

    fn next_deadline(&self) -> Nanos {
        let mut next = self.cancels.next().unwrap_or(Nanos::MAX);
        if let Some(index) = self.slab.oldest() {
            let start = self
                .slab
                .peek(index)
                .request
                .as_ref()
                .map_or(Nanos::MAX, |request| request.issued);
            next = next.min(start + self.request_timeout);
        }
        if let Some(due) = self.sessions.next_due() {
            next = next.min(due);
        }
        for (phase, (run, gate)) in self.phases.iter().zip(&self.exchange.gates).enumerate() {
            if let Some(at) = self.next_turn(phase) {
                next = next.min(at);
            }
            // Who waits for a prefill slot is woken when there is one.
            let Some(held) = run.held.filter(|_| !run.awaits_prefill && self.wants_credit(phase)) else {
                continue;
            };
            let due = if run.closed_loop {
                self.paused_until
            } else {
                gate.start() + held.intended
            };
            // Without a place the credit waits for a completion, and one that may not start any more for the coordinator to close the phase.
            if due < gate.stop_at() && self.has_place() {
                next = next.min(due);
            }
        }
        next
    }

    /// Whether requests are in flight, or wait for their time.
    fn is_loaded(&self) -> bool {
        self.slab.active() > 0 || self.sessions.any() || self.phases.iter().any(|run| run.open && run.held.is_some())
    }

    /// Closes what is left once nothing is in flight; `true` when every operation has completed.
    fn wind_down(&mut self) -> bool {
        if self.slab.active() > 0 {
            return false;
        }
        while let Some(index) = self.idle.pop_any() {
            self.close(index);
        }
        if self.slab.in_use() > 0 {
            return false;
        }
        if self.watching {
            // The watch is the last operation: complete it.
            self.exchange.links[self.id.index()].waker.event().signal();
            return false;
        }
        true
    }
}

/// What the parts of a core have counted so far.
fn parts(driver: &mut impl Driver, recorder: &Recorder) -> Parts {
    Parts {
        driver: driver.counters(),
        journal_waits: recorder.journal_waits(),
    }
}
