//! What a core notes about itself while it works: was the client in time, and if not, why.
//!
//! A turn costs two clock readings that the core has taken anyway and one or two counts in histograms. The kernel is asked at the borders of
//! phases only, and nothing here allocates after the start.

use std::collections::VecDeque;

use crate::clock;
use crate::credit::Credit;
use crate::plan::PhasePlan;
use crate::record::{CoreWindow, Family, PhaseHistograms};
use crate::sys::accounting::{ThreadAccount, ThreadTimes};
use crate::sys::driver::DriverCounters;
use crate::units::Nanos;

/// Counters of a core's parts, read at the borders of phases.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Parts {
    pub(super) driver: DriverCounters,
    pub(super) journal_waits: u64,
}

/// Everything that only grows, at one instant.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Nanos,
    times: ThreadTimes,
    spun: Nanos,
    parts: Parts,
}

/// The slots of a phase that are free on this core, each with the end of the request that left it; zero for one that was never used.
///
/// In the order in which they became free, because that is the order in which an arrival may count on them.
#[derive(Debug)]
struct FreeSlots {
    left: VecDeque<Nanos>,
    bound: usize,
    /// Slots that are held and will be gone with their requests, because the limit has fallen.
    owed: usize,
}

impl FreeSlots {
    /// For a limit on requests in flight; without one no request ever waits for a slot, and there is nothing to note.
    fn new(bound: usize) -> Self {
        Self {
            left: VecDeque::with_capacity(bound),
            bound,
            owed: 0,
        }
    }

    /// Follows a change of the limit; new slots are there since `since`. Slots that are gone are taken from the free ones first, and from those
    /// that become free later.
    fn resize(&mut self, before: u32, now: u32, since: Nanos) {
        if now < before {
            let fewer = (before - now) as usize;
            let gone = fewer.min(self.left.len());
            self.left.drain(..gone);
            self.owed += fewer - gone;
        }
        let more = now.saturating_sub(before).min(self.bound as u32) as usize;
        let paid = more.min(self.owed);
        self.owed -= paid;
        (paid..more).for_each(|_| self.add(since));
    }

    fn add(&mut self, since: Nanos) {
        if self.owed > 0 {
            self.owed -= 1;
        } else if self.left.len() < self.bound {
            self.left.push_back(since);
        }
    }

    /// Since when the slot that the next request takes has been free; zero without a note.
    fn next(&self) -> Nanos {
        self.left.front().copied().unwrap_or(Nanos::ZERO)
    }
}

/// One phase as far as the core's own account goes.
#[derive(Debug)]
struct PhaseHealth {
    /// Taken with the first slot.
    opening: Option<Reading>,
    open: bool,
    closed_loop: bool,
    slots: u32,
    free: FreeSlots,
    /// The latest request that had to wait for a connection's place.
    kept_back: Option<u64>,
    window: CoreWindow,
}

/// The account that a core keeps of itself.
#[derive(Debug)]
pub(super) struct Health {
    account: ThreadAccount,
    phases: Vec<PhaseHealth>,
    /// Phases that are open, by position.
    open: Vec<usize>,
    /// When the core last looked at the kernel.
    looked: Nanos,
    /// When the latest wait began, and how long it was to be at most.
    wait: (Nanos, Nanos),
    /// Something was done since the last look.
    worked: bool,
    spun: Nanos,
    /// All places for connections were taken when the latest wait began.
    no_place: bool,
}

impl Health {
    /// The account of the calling thread's core, which has at most `connections` connections.
    pub(super) fn new(phases: &[PhasePlan], connections: usize) -> Self {
        let phases: Vec<PhaseHealth> = phases
            .iter()
            .map(|phase| PhaseHealth {
                opening: None,
                open: false,
                closed_loop: phase.arrival.is_closed_loop(),
                slots: 0,
                free: FreeSlots::new(
                    phase
                        .concurrency
                        .map_or(0, |limit| connections.min(limit.get() as usize)),
                ),
                kept_back: None,
                window: CoreWindow::default(),
            })
            .collect();
        Self {
            account: ThreadAccount::of_this_thread(),
            open: Vec::with_capacity(phases.len()),
            phases,
            looked: clock::monotonic(),
            wait: (Nanos::ZERO, Nanos::ZERO),
            worked: false,
            spun: Nanos::ZERO,
            no_place: false,
        }
    }

    fn read(&self, now: Nanos, parts: Parts) -> Reading {
        Reading {
            at: now,
            times: self.account.read(),
            spun: self.spun,
            parts,
        }
    }

    /// The phase may have `slots` requests in flight, those that it could not have before from `since` on. `parts` is read if this opens the phase.
    pub(super) fn granted(
        &mut self,
        phase: usize,
        (slots, since): (u32, Nanos),
        now: Nanos,
        parts: impl FnOnce() -> Parts,
    ) {
        if self.phases[phase].opening.is_none() {
            let opening = self.read(now, parts());
            self.phases[phase].opening = Some(opening);
            self.phases[phase].open = true;
            self.open.push(phase);
        }
        let health = &mut self.phases[phase];
        // In a closed loop the first request of a slot is wanted when it starts, whenever the slot came.
        let since = if health.closed_loop { Nanos::ZERO } else { since };
        health.free.resize(health.slots, slots, since);
        health.slots = slots;
    }

    /// Whether every slot of the phase was taken when an arrival came at `intended`: the one that it would take now was not free yet.
    ///
    /// Slots are taken in the order in which they became free, so if this one was taken at that time, so were all others; and the cores take
    /// credits only while they have slots, so no other core had one for it either.
    pub(super) fn found_no_slot(&self, phase: usize, intended: Nanos) -> bool {
        intended < self.phases[phase].free.next()
    }

    /// The phase is over.
    pub(super) fn ended(&mut self, phase: usize, now: Nanos, parts: Parts) {
        let health = &mut self.phases[phase];
        let Some(opening) = health.opening.filter(|_| std::mem::take(&mut health.open)) else {
            return; // it never had a slot, or has ended before
        };
        self.open.retain(|&open| open != phase);
        let closing = self.read(now, parts);
        let (then, times) = (opening.times, closing.times);
        let window = &mut self.phases[phase].window;
        window.wall = now.since(opening.at);
        window.cpu = times.cpu.since(then.cpu);
        window.spun = closing.spun.since(opening.spun);
        window.starved = times.starved.zip(then.starved).map(|(now, before)| now.since(before));
        window.runs = times.runs.saturating_sub(then.runs);
        let (before, after) = (opening.parts, closing.parts);
        window.queue_overflows = after.driver.overflows - before.driver.overflows;
        window.buffer_shortages = after.driver.buffer_shortages - before.driver.buffer_shortages;
        window.journal_waits = after.journal_waits - before.journal_waits;
    }

    /// Ends what is open and gives the windows away, by phase.
    pub(super) fn close(mut self, now: Nanos, parts: Parts) -> Vec<CoreWindow> {
        (0..self.phases.len()).for_each(|phase| self.ended(phase, now, parts));
        self.phases.into_iter().map(|phase| phase.window).collect()
    }

    /// The instant from which on only the client holds back a request that starts at `now`: when it was wanted, or when its slot became free
    /// if that was later. `wanted` is `None` in a closed loop, where a slot's first request is wanted as soon as it starts.
    pub(super) fn ready(&self, phase: usize, wanted: Option<Nanos>, paused_until: Nanos, now: Nanos) -> Nanos {
        let freed = self.phases[phase].free.next();
        match wanted {
            Some(intended) => intended.max(freed),
            None if freed == Nanos::ZERO => now,
            None => freed.max(paused_until),
        }
    }

    /// A request started.
    pub(super) fn started(&mut self) {
        self.worked = true;
    }

    /// A request or a session took a slot.
    pub(super) fn took_slot(&mut self, phase: usize) {
        self.phases[phase].free.left.pop_front();
    }

    /// A request or a session left its slot.
    pub(super) fn left_slot(&mut self, phase: usize, now: Nanos) {
        self.phases[phase].free.add(now);
    }

    /// Requests were handed to the kernel.
    pub(super) fn sent(&mut self) {
        self.worked = true;
    }

    /// A request is to start at `now` and could have started at `ready`: it was kept back if there was no place for a connection in between. It
    /// may come back many times.
    pub(super) fn wanted(&mut self, credit: &Credit, ready: Nanos, now: Nanos) {
        let health = &mut self.phases[credit.phase.index()];
        if self.no_place && ready < now && health.kept_back.replace(credit.sequence) != Some(credit.sequence) {
            health.window.kept_back += 1;
        }
    }

    /// Whether every place for a connection is taken as the core goes to wait.
    pub(super) fn no_place_left(&mut self, none: bool) {
        self.no_place = none;
    }

    /// The figures of a phase that are counted one by one.
    pub(super) fn window(&mut self, phase: usize) -> &mut CoreWindow {
        &mut self.phases[phase].window
    }

    /// The core hands over its work and waits for news, at most `timeout`.
    pub(super) fn waits(&mut self, now: Nanos, timeout: Nanos) {
        self.wait = (now, timeout);
    }

    /// The core looked at the kernel and found `completions`.
    pub(super) fn looked(&mut self, now: Nanos, completions: usize, histograms: &mut [PhaseHistograms]) {
        let (began, timeout) = self.wait;
        let before = std::mem::replace(&mut self.looked, now);
        let worked = std::mem::take(&mut self.worked);
        if completions > 0 {
            // A wait that may sleep ends with the first completion, so what it brings came after it began, or was there when it did. One that may
            // not sleep also takes the time of the sends that it carries out.
            let seen_late = if timeout == Nanos::ZERO { now } else { began }.since(before);
            for &phase in &self.open {
                histograms[phase].record_times(Family::Unseen, seen_late.0, completions as u64);
            }
        } else if timeout == Nanos::ZERO && !worked {
            self.spun = self.spun + now.since(before);
        }
        let due = began + timeout;
        if timeout > Nanos::ZERO && now >= due {
            for &phase in &self.open {
                histograms[phase].record(Family::Oversleep, now.since(due).0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::id::PhaseId;
    use crate::plan::{Arrival, DrainRule, LimitPlan, OnCap, PhaseKind, StopRule};

    fn phase(concurrency: Option<u32>) -> PhasePlan {
        PhasePlan {
            id: PhaseId(0),
            profiling_index: Some(0),
            name: "p".into(),
            kind: PhaseKind::Profiling,
            arrival: Arrival::ClosedLoop,
            concurrency: concurrency.and_then(NonZeroU32::new),
            on_cap: OnCap::Wait,
            stop: StopRule::default(),
            drain: DrainRule::WhileProgressing,
            seamless: false,
            cancellation: None,
            limits: LimitPlan::default(),
        }
    }

    fn ms(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    fn open(concurrency: Option<u32>) -> (Health, Vec<PhaseHistograms>) {
        let mut health = Health::new(&[phase(concurrency)], 64);
        let slots = concurrency.unwrap_or(u32::MAX);
        health.granted(0, (slots, ms(1)), ms(1), Parts::default);
        health.looked = ms(10);
        (health, vec![PhaseHistograms::new()])
    }

    #[test]
    fn a_closed_loop_waits_for_the_client_from_the_end_of_the_request_before() {
        let (mut health, _) = open(Some(2));
        assert_eq!(
            health.ready(0, None, Nanos::ZERO, ms(40)),
            ms(40),
            "the first of a slot"
        );
        health.took_slot(0);
        health.took_slot(0);
        health.left_slot(0, ms(50));
        health.left_slot(0, ms(60));
        assert_eq!(health.ready(0, None, Nanos::ZERO, ms(70)), ms(50));
        health.took_slot(0);
        assert_eq!(health.ready(0, None, Nanos::ZERO, ms(70)), ms(60));
        assert_eq!(health.ready(0, None, ms(65), ms(70)), ms(65), "it paused on purpose");
    }

    #[test]
    fn an_arrival_waits_for_the_client_from_its_time_or_from_its_slot() {
        let (mut health, _) = open(Some(1));
        assert_eq!(health.ready(0, Some(ms(30)), Nanos::ZERO, ms(40)), ms(30));
        health.took_slot(0);
        health.left_slot(0, ms(90));
        assert_eq!(
            health.ready(0, Some(ms(35)), Nanos::ZERO, ms(91)),
            ms(90),
            "the cap held it back"
        );
        assert_eq!(health.ready(0, Some(ms(120)), Nanos::ZERO, ms(121)), ms(120));
        let (mut unlimited, _) = open(None);
        unlimited.took_slot(0);
        unlimited.left_slot(0, ms(90));
        assert_eq!(unlimited.ready(0, Some(ms(35)), Nanos::ZERO, ms(91)), ms(35));
    }

    #[test]
    fn slots_of_a_limit_that_fell_are_not_waited_for() {
        let (mut health, _) = open(Some(4));
        (0..3).for_each(|_| health.took_slot(0));
        // One free, three held: of three slots that go, one is free and two go with their requests.
        health.granted(0, (1, ms(20)), ms(20), Parts::default);
        health.left_slot(0, ms(30));
        health.left_slot(0, ms(40));
        health.left_slot(0, ms(50));
        assert_eq!(
            health.ready(0, None, Nanos::ZERO, ms(60)),
            ms(50),
            "the slot that is left"
        );
        health.took_slot(0);
        health.granted(0, (2, ms(70)), ms(70), Parts::default);
        assert_eq!(
            health.ready(0, None, Nanos::ZERO, ms(80)),
            ms(80),
            "a new slot has kept nobody waiting"
        );
    }

    #[test]
    fn an_arrival_found_no_slot_if_the_one_that_it_would_take_was_not_free_yet() {
        let mut plan = phase(Some(2));
        plan.arrival = Arrival::constant(1.0);
        let mut health = Health::new(&[plan], 64);
        health.granted(0, (1, ms(10)), ms(11), Parts::default);
        assert!(health.found_no_slot(0, ms(9)), "the phase had none yet");
        assert!(!health.found_no_slot(0, ms(10)));
        health.took_slot(0);
        health.granted(0, (2, ms(30)), ms(31), Parts::default);
        assert!(health.found_no_slot(0, ms(29)) && !health.found_no_slot(0, ms(30)));
        health.took_slot(0);
        health.left_slot(0, ms(50));
        health.left_slot(0, ms(60));
        assert!(health.found_no_slot(0, ms(49)) && !health.found_no_slot(0, ms(50)));
        health.took_slot(0);
        assert!(health.found_no_slot(0, ms(59)), "the slot that is left came later");
        assert_eq!(
            health.ready(0, Some(ms(55)), Nanos::ZERO, ms(61)),
            ms(60),
            "before that it was not for the client to send"
        );
    }

    #[test]
    fn notes_of_free_slots_never_grow_beyond_the_limit() {
        let (mut health, _) = open(Some(3));
        let room = health.phases[0].free.left.capacity();
        for round in 0..100 {
            health.granted(0, (3, ms(round)), ms(round), Parts::default);
            health.left_slot(0, ms(round));
        }
        assert_eq!(health.phases[0].free.left.len(), 3);
        assert_eq!(health.phases[0].free.left.capacity(), room);
    }

    #[test]
    fn completions_lay_unseen_for_no_longer_than_since_the_last_look() {
        let (mut health, mut histograms) = open(Some(1));
        // Looked at 10, busy until 14, then asleep until 30.
        health.waits(ms(14), ms(100));
        health.looked(ms(30), 3, &mut histograms);
        // Busy until 31, then a look without sleep that took until 33.
        health.waits(ms(31), Nanos::ZERO);
        health.looked(ms(33), 1, &mut histograms);
        let unseen = histograms[0].family(Family::Unseen);
        assert_eq!(
            (unseen.count(), unseen.min(), unseen.max()),
            (4, Some(ms(3).0), Some(ms(4).0))
        );
        assert_eq!(histograms[0].family(Family::Oversleep).count(), 0);
    }

    #[test]
    fn a_wait_that_came_back_late_is_noted_and_one_that_was_woken_is_not() {
        let (mut health, mut histograms) = open(Some(1));
        health.waits(ms(10), ms(20));
        health.looked(ms(25), 1, &mut histograms);
        health.waits(ms(25), ms(5));
        health.looked(ms(530), 0, &mut histograms);
        let oversleep = histograms[0].family(Family::Oversleep);
        assert_eq!((oversleep.count(), oversleep.max()), (1, Some(ms(500).0)));
    }

    #[test]
    fn only_turns_without_any_work_are_spinning() {
        let (mut health, mut histograms) = open(Some(1));
        for (at, completions) in [(12, 0), (14, 1)] {
            health.waits(ms(at - 1), Nanos::ZERO);
            health.looked(ms(at), completions, &mut histograms);
        }
        health.sent();
        health.waits(ms(15), Nanos::ZERO);
        health.looked(ms(16), 0, &mut histograms);
        assert_eq!(health.spun, ms(2));
    }

    #[test]
    fn a_request_that_waited_for_a_place_is_counted_once() {
        let credit = |sequence| Credit {
            phase: PhaseId(0),
            conversation: 0,
            turns: u32::MAX,
            sequence,
            intended: Nanos::ZERO,
            cancel_after: None,
        };
        let (mut health, _) = open(Some(1));
        health.wanted(&credit(1), ms(30), ms(40));
        health.no_place_left(true);
        health.wanted(&credit(2), ms(40), ms(40));
        assert_eq!(health.window(0).kept_back, 0, "there was a place, or no wait");
        health.wanted(&credit(3), ms(30), ms(40));
        health.wanted(&credit(3), ms(30), ms(50));
        health.wanted(&credit(4), ms(30), ms(50));
        assert_eq!(health.window(0).kept_back, 2);
    }

    #[test]
    fn a_window_holds_what_happened_between_its_borders() {
        let (mut health, _) = open(Some(1));
        health.window(0).kept_back += 2;
        health.window(0).resends += 1;
        let parts = Parts {
            driver: DriverCounters {
                overflows: 2,
                buffer_shortages: 3,
                ..DriverCounters::default()
            },
            journal_waits: 4,
        };
        health.ended(0, ms(101), parts);
        let later = Parts {
            journal_waits: 9,
            ..parts
        };
        let windows = health.close(ms(500), later);
        let window = windows[0];
        assert_eq!(window.wall, ms(100));
        assert_eq!((window.kept_back, window.resends), (2, 1));
        assert_eq!(
            (window.queue_overflows, window.buffer_shortages, window.journal_waits),
            (2, 3, 4)
        );
    }
}
