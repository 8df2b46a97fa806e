//! A world for the machine and the pacer without threads, sockets or waiting: scripted server, scripted hooks, a clock that jumps.
//!
//! The world plays the shell and the cores by their contract and checks, after every step, what must hold whatever the workflow:
//! no send outside its phase, before its time, above its limit, or beside the requests of earlier phases above its cap; every request returned once;
//! the turns of a session one after the other; as many arrivals and users as a pace that moves says; hooks in turn; phases ended once; the end of the
//! run last.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::event::{Action, Event, HookCall, PhaseSummary, Tally};
use super::machine::{Machine, MachineSettings};
use super::pacer::{ImageCursor, Pacer};
use crate::credit::{Credit, Sample};
use crate::id::PhaseId;

use crate::plan::{Arrival, Conversations, PhaseKind, PhasePlan};
use crate::record::Outcome;
use crate::units::Nanos;

mod finished;
mod plans;
mod sessions;
mod shell;

use sessions::Sessions;

pub(super) use finished::Finished;
pub(super) use plans::{ms, profiling, warmup};

/// Credits that wait in a phase's queue at once; small, so that refilling happens in every test.
const QUEUE_CAPACITY: usize = 16;
/// Entries of the simulated dataset; odd and small, so that it wraps.
const DATASET_ENTRIES: u32 = 7;
/// Later than anything that happens.
const NEVER: Nanos = Nanos(u64::MAX / 2);
/// A run that takes more steps than this is taken for stuck.
const MOST_STEPS: usize = 200_000;

/// What the server does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// A good answer after this long, all of it at once.
    After(Nanos),
    /// A good answer: its first content and its end.
    Stream(Nanos, Nanos),
    /// An error after this long.
    Failure(Nanos),
    /// Nothing, ever.
    Hang,
}

/// What a hook does: how long it takes, and whether it works.
#[derive(Debug, Clone, Copy)]
pub(super) struct HookScript {
    pub(super) latency: Nanos,
    pub(super) succeeds: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct InFlight {
    phase: PhaseId,
    sequence: u64,
    /// The number of its session, in phases that have some.
    session: Option<u64>,
    start: Nanos,
    /// When its first content comes; [`Nanos::MAX`] once it has.
    content: Nanos,
    end: Nanos,
    ending: Ending,
}

impl InFlight {
    /// No byte of an answer ever comes, although a cancellation may end it.
    fn hangs(&self) -> bool {
        (NEVER..Nanos::MAX).contains(&self.content) || self.end == Nanos::MAX
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Success,
    Failure,
    Cancelled,
    Truncated,
}

/// One request as the server saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Served {
    pub(super) phase: PhaseId,
    pub(super) sequence: u64,
    pub(super) start: Nanos,
    pub(super) end: Nanos,
}

/// One line of the run's log.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Entry {
    Did(Action),
    Sent(PhaseId),
    Answered(HookCall),
    Interrupted,
}

#[derive(Debug, Default)]
struct PhaseWorld {
    pacer: Option<Pacer>,
    start: Nanos,
    queue: VecDeque<Credit>,
    exhausted: bool,
    stopped: bool,
    limit: u32,
    prefill_limit: u32,
    /// Requests that ended since the controller looked last.
    samples: Vec<Sample>,
    sessions: Sessions,
    /// From when on which pace applies, where one moves.
    paces: Vec<(Nanos, f64)>,
    truth: Tally,
    /// Arrivals that found no slot and were dropped.
    dropped: u64,
    ended: Option<PhaseSummary>,
    /// Most requests in flight, of this phase alone and of all phases while it was the newest.
    peak: u64,
    peak_all: u64,
    /// Most requests of all phases without content while it was the newest.
    peak_prefill: u64,
}

type ServerScript = Box<dyn FnMut(PhaseId, u64) -> Reply>;
/// How long a request takes that makes so many in flight.
type LoadScript = Box<dyn Fn(u64) -> Nanos>;
type Delay = Box<dyn FnMut() -> Nanos>;

pub(super) struct World {
    pub(super) now: Nanos,
    plans: Vec<PhasePlan>,
    machine: Machine,
    phases: Vec<PhaseWorld>,
    server: ServerScript,
    /// In place of `server`, where the answer depends on the load.
    under_load: Option<LoadScript>,
    hooks: VecDeque<HookScript>,
    hook_under_way: Option<HookCall>,
    profiling_on: bool,
    has_profiler: bool,
    in_flight: Vec<InFlight>,
    /// Events on their way to the machine: by time, then in order of posting.
    inbox: BTreeMap<(Nanos, u64), Event>,
    posted: u64,
    /// How long counts take to reach the machine.
    progress_delay: Delay,
    /// How long the cores take to answer that issuing stopped.
    stop_delay: Nanos,
    /// How long a cut takes to bring requests home.
    cut_delay: Nanos,
    /// How often the shell looks whether a credit may be issued ahead of its time.
    look_every: Nanos,
    /// When everything is stopped, and for how long.
    pause: Option<(Nanos, Nanos)>,
    seed: u64,
    cursor: ImageCursor,
    conversations: Arc<Conversations>,
    pub(super) log: Vec<(Nanos, Entry)>,
    pub(super) served: Vec<Served>,
    run_ended: bool,
}

impl World {
    /// A world for the given phases (ids are filled in), without profiler, in which every request takes 200 ms.
    pub(super) fn new(plans: Vec<PhasePlan>) -> Self {
        Self::build(plans, false, MachineSettings::default())
    }

    /// The same with a profiler whose calls take 1 ms and work.
    pub(super) fn with_profiler(plans: Vec<PhasePlan>) -> Self {
        Self::build(plans, true, MachineSettings::default())
    }

    pub(super) fn build(mut plans: Vec<PhasePlan>, profiler: bool, settings: MachineSettings) -> Self {
        for (position, plan) in plans.iter_mut().enumerate() {
            plan.id = PhaseId(u16::try_from(position).expect("tests have few phases"));
        }
        let entries = std::num::NonZeroU32::new(DATASET_ENTRIES).expect("the dataset is not empty");
        Self {
            // The monotonic clock never starts at zero, and neither does this one.
            now: Nanos::from_secs(1_000),
            machine: Machine::new(&plans, profiler, settings),
            phases: plans.iter().map(|_| PhaseWorld::default()).collect(),
            plans,
            server: Box::new(|_, _| Reply::After(ms(200))),
            under_load: None,
            hooks: VecDeque::new(),
            hook_under_way: None,
            profiling_on: false,
            has_profiler: profiler,
            in_flight: Vec::new(),
            inbox: BTreeMap::new(),
            posted: 0,
            progress_delay: Box::new(|| Nanos::ZERO),
            stop_delay: Nanos::ZERO,
            cut_delay: Nanos::ZERO,
            look_every: ms(10),
            pause: None,
            seed: 1,
            cursor: ImageCursor::new(entries),
            conversations: Arc::new(Conversations::of_single_turns(
                (0..DATASET_ENTRIES).map(|id| id.to_string()),
            )),
            log: Vec::new(),
            served: Vec::new(),
            run_ended: false,
        }
    }

    pub(super) fn seeded(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    pub(super) fn serving(mut self, server: impl FnMut(PhaseId, u64) -> Reply + 'static) -> Self {
        self.server = Box::new(server);
        self
    }

    /// Lets requests take longer the more of them are in flight.
    pub(super) fn loaded(mut self, latency: impl Fn(u64) -> Nanos + 'static) -> Self {
        self.under_load = Some(Box::new(latency));
        self
    }

    /// Scripts hook calls in the order in which they are made; calls beyond the script take 1 ms and work.
    pub(super) fn hooks(mut self, script: impl IntoIterator<Item = HookScript>) -> Self {
        self.hooks = script.into_iter().collect();
        self
    }

    pub(super) fn progress_delayed(mut self, delay: impl FnMut() -> Nanos + 'static) -> Self {
        self.progress_delay = Box::new(delay);
        self
    }

    pub(super) fn stops_after(mut self, delay: Nanos) -> Self {
        self.stop_delay = delay;
        self
    }

    pub(super) fn cuts_after(mut self, delay: Nanos) -> Self {
        self.cut_delay = delay;
        self
    }

    pub(super) fn looking_every(mut self, span: Nanos) -> Self {
        self.look_every = span;
        self
    }

    /// Stops client and server this long after the start of the run, as Ctrl-Z or a paused machine does.
    pub(super) fn stopped_at(mut self, offset: Nanos, span: Nanos) -> Self {
        self.pause = Some((self.now + offset, span));
        self
    }

    /// Lets the user interrupt the run this long after its start.
    pub(super) fn interrupted_at(mut self, offset: Nanos) -> Self {
        self.post(self.now + offset, Event::Interrupted);
        self
    }

    /// Runs until the machine says that the run ended.
    pub(super) fn run(mut self) -> Finished {
        let epoch = self.now;
        for _ in 0..MOST_STEPS {
            if self.run_ended {
                return self.finish(epoch);
            }
            self.step();
        }
        panic!("no end after {MOST_STEPS} steps: {:?}", self.machine);
    }

    /// Jumps to the next thing that happens and lets it happen. At equal times the machine's deadlines come first: a request that is
    /// due when its phase ends is not sent.
    fn step(&mut self) {
        let deadline = self.machine.next_deadline();
        let message = self.inbox.keys().next().map(|&(at, _)| at);
        let finish = self
            .in_flight
            .iter()
            .map(|request| request.end.min(request.content))
            .filter(|&end| end < Nanos::MAX)
            .min();
        let send = self.next_send();
        let refill = self.next_refill();
        let next = [deadline, message, finish, send.map(|(at, _)| at), refill]
            .into_iter()
            .flatten()
            .min();
        let Some(next) = next else {
            panic!(
                "nothing can happen any more, yet the run has not ended: {:?}",
                self.machine
            );
        };
        self.now = self.now.max(next);
        if let Some((at, span)) = self.pause.take_if(|&mut (at, _)| at <= next) {
            self.now = at + span;
        }
        self.drop_arrivals();
        if deadline.is_some_and(|at| at <= self.now) {
            self.tell(Event::Tick);
        } else if message.is_some_and(|at| at <= self.now) {
            let (_, event) = self.inbox.pop_first().expect("the next message was seen above");
            match &event {
                Event::HookAnswered { call, .. } => self.hook_answered(*call),
                Event::Interrupted => self.log.push((self.now, Entry::Interrupted)),
                _ => {}
            }
            self.tell(event);
        } else if finish.is_some_and(|at| at <= self.now) {
            self.return_finished();
        } else if let Some((_, index)) = send.filter(|&(at, _)| at <= self.now) {
            if self.phases[index].sessions.exist() {
                self.send_turn(index);
            } else {
                self.send(index);
            }
        }
    }

    /// Drops the arrivals that came since the last step and found no slot, in phases that want it.
    fn drop_arrivals(&mut self) {
        for (world, plan) in self.phases.iter_mut().zip(&self.plans) {
            let is_past = |credit: &Credit| world.start + credit.intended < self.now;
            while plan.drops_arrivals() && world.finds_nothing() && world.queue.front().is_some_and(is_past) {
                world.queue.pop_front();
                world.dropped += 1;
            }
        }
        self.refill();
    }

    fn tell(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.machine.handle(event, self.now, &mut actions);
        for action in actions {
            self.obey(action);
        }
        self.refill();
    }

    fn post(&mut self, at: Nanos, event: Event) {
        self.inbox.insert((at, self.posted), event);
        self.posted += 1;
    }

    fn publish(&mut self, phase: PhaseId) {
        let tally = self.phases[phase.index()].truth;
        let at = self.now + (self.progress_delay)();
        self.post(at, Event::Progress { phase, tally });
    }

    /// The send that comes next: a credit at the head of its queue that has, or will at its due time have, a free slot.
    fn next_send(&self) -> Option<(Nanos, usize)> {
        self.phases
            .iter()
            .enumerate()
            .filter(|&(index, world)| {
                self.plans[index].limits.prefill.is_none() || self.prefills() < u64::from(world.prefill_limit)
            })
            .filter_map(|(index, world)| Some((world.next_start()?.max(self.now), index)))
            .min()
    }

    /// When a phase whose queue has room may have a credit that it may not have yet: at the next look of the shell after that.
    fn next_refill(&self) -> Option<Nanos> {
        let sending = self.phases.iter().filter(|world| !world.stopped && !world.exhausted);
        let until_open = sending.filter_map(|world| {
            let room = world.queue.len() < QUEUE_CAPACITY;
            let opens = world.pacer.as_ref().filter(|_| room)?.opens()?;
            let look = self.look_every.0;
            Some(Nanos((world.start + opens).0.div_ceil(look) * look))
        });
        // What is open already waits for nothing but this step.
        until_open.filter(|&at| at > self.now).min()
    }

    /// Requests of all phases that have no content yet.
    fn prefills(&self) -> u64 {
        self.in_flight
            .iter()
            .filter(|request| request.content < Nanos::MAX)
            .count() as u64
    }

    fn send(&mut self, index: usize) {
        let world = &mut self.phases[index];
        let credit = world.queue.pop_front().expect("the send was chosen from this queue");
        assert!(!world.stopped, "phase {index} sends after it stopped");
        assert!(
            world.start + credit.intended <= self.now,
            "phase {index} sends before its time"
        );
        let credit = if self.plans[index].drops_arrivals() {
            // Numbered when it starts, because nobody knows before which arrivals do.
            Credit {
                sequence: world.truth.sent,
                conversation: self.cursor.image(),
                ..credit
            }
        } else {
            credit
        };
        assert_eq!(credit.sequence, world.truth.sent, "phase {index} sends out of order");
        // A fixed schedule takes the entries that it names, and leaves the others where they were.
        if !matches!(self.plans[index].arrival, Arrival::FixedSchedule(_)) {
            assert_eq!(
                credit.conversation,
                self.cursor.image(),
                "the dataset is not taken in order across phases"
            );
            self.cursor = self.cursor.advanced(1);
        }
        self.launch(index, credit.sequence, credit.cancel_after, None);
        if self.plans[index].drops_arrivals() {
            // The last request leaves credits in the queue that nobody may take.
            self.refill();
        }
    }

    /// A request starts.
    fn launch(&mut self, index: usize, sequence: u64, cancel_after: Option<Nanos>, session: Option<u64>) {
        let world = &mut self.phases[index];
        assert!(!world.stopped, "phase {index} sends after it stopped");
        world.truth.sent += 1;
        let plan = &self.plans[index];
        let phase = plan.id;
        if let Some(duration) = plan.stop.duration {
            assert!(
                self.now < world.start + duration,
                "phase {index} sends after its duration"
            );
        }
        if let Some(requests) = plan.stop.requests {
            assert!(
                world.truth.sent <= requests,
                "phase {index} sends more than {requests} requests"
            );
        }
        let own = world.truth.in_flight();
        let all: u64 = self.phases.iter().map(|world| world.truth.in_flight()).sum();
        if let Some(cap) = plan.concurrency {
            assert!(
                all <= u64::from(cap.get()),
                "phase {index} sends request {all} in flight, its cap is {cap}"
            );
        }
        if plan.kind == PhaseKind::Profiling && self.has_profiler {
            assert!(
                self.profiling_on && self.hook_under_way.is_none(),
                "phase {index} sends while not profiled"
            );
        }
        let prefills = self.prefills() + 1;
        if let Some(cap) = plan.limits.prefill {
            assert!(
                prefills <= u64::from(cap.get()),
                "phase {index} sends request {prefills} in prefill, its cap is {cap}"
            );
        }
        let world = &mut self.phases[index];
        world.peak = world.peak.max(own);
        world.peak_all = world.peak_all.max(all);
        world.peak_prefill = world.peak_prefill.max(prefills);

        let reply = match &self.under_load {
            Some(latency) => Reply::After(latency(all)),
            None => (self.server)(phase, sequence),
        };
        let (first, span, ending) = match reply {
            Reply::After(span) => (span, span, Ending::Success),
            Reply::Stream(first, span) => (first, span, Ending::Success),
            Reply::Failure(span) => (span, span, Ending::Failure),
            // Without content it is in prefill until something ends it; never is not now.
            Reply::Hang => (NEVER, Nanos::MAX, Ending::Truncated),
        };
        let (span, ending) = match cancel_after {
            Some(delay) if delay < span => (delay, Ending::Cancelled),
            _ => (span, ending),
        };
        self.in_flight.push(InFlight {
            phase,
            sequence,
            session,
            start: self.now,
            content: self.now + first,
            end: self.now + span,
            ending,
        });
        self.log.push((self.now, Entry::Sent(phase)));
        self.publish(phase);
    }

    fn return_finished(&mut self) {
        let now = self.now;
        for request in self.in_flight.iter_mut().filter(|request| request.content <= now) {
            request.content = Nanos::MAX;
        }
        let finished: Vec<InFlight> = self.in_flight.extract_if(.., |request| request.end <= now).collect();
        for request in finished {
            let world = &mut self.phases[request.phase.index()];
            if let Some(session) = request.session {
                world.sessions.returned(session, !world.stopped, now);
            }
            let truth = &mut world.truth;
            match request.ending {
                Ending::Success => truth.succeeded += 1,
                Ending::Failure => truth.failed += 1,
                Ending::Cancelled => truth.cancelled += 1,
                Ending::Truncated => truth.truncated += 1,
            }
            if self.plans[request.phase.index()].limits.adaptive.is_some() {
                self.phases[request.phase.index()].samples.push(Sample {
                    phase: request.phase,
                    outcome: match request.ending {
                        Ending::Success => Outcome::Success,
                        Ending::Failure => Outcome::Error,
                        Ending::Cancelled => Outcome::Cancelled,
                        Ending::Truncated => Outcome::Truncated,
                    },
                    issued: request.start,
                    latency: now.since(request.start),
                    first_token: Some(now.since(request.start)),
                    output_tokens: 1,
                    counted_by_server: false,
                    session_over: None,
                    good: false,
                });
            }
            self.served.push(Served {
                phase: request.phase,
                sequence: request.sequence,
                start: request.start,
                end: now,
            });
            self.publish(request.phase);
        }
    }

    fn finish(self, epoch: Nanos) -> Finished {
        assert_eq!(
            self.machine.next_deadline(),
            None,
            "a deadline after the end of the run"
        );
        assert!(
            self.in_flight.is_empty(),
            "the run ended with requests in flight: {:?}",
            self.in_flight
        );
        assert!(
            !self.profiling_on && self.hook_under_way.is_none(),
            "the run ended with a running profiler"
        );
        for (index, world) in self.phases.iter().enumerate() {
            assert_eq!(
                world.pacer.is_some(),
                world.ended.is_some(),
                "phase {index} started and ended differ"
            );
        }
        Finished {
            epoch,
            end: self.now,
            outcome: self.machine.outcome().clone(),
            adaptive: self.machine.adaptive_reports(),
            phases: self.phases.iter().map(|world| world.ended.clone()).collect(),
            dropped: self.phases.iter().map(|world| world.dropped).collect(),
            totals: self.phases.iter().map(|world| world.sessions.total).collect(),
            peaks: self
                .phases
                .iter()
                .map(|world| (world.peak, world.peak_all, world.peak_prefill))
                .collect(),
            log: self.log,
            served: self.served,
        }
    }
}

impl PhaseWorld {
    fn exhausted_and_sent(&self) -> bool {
        self.exhausted && self.queue.is_empty()
    }
}
