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
}

impl FreeSlots {
    /// For a limit on requests in flight; without one no request ever waits for a slot, and there is nothing to note.
    fn new(bound: usize) -> Self {
        Self {
            left: VecDeque::with_capacity(bound),
            bound,
        }
    }

    fn add(&mut self, since: Nanos) {
        if self.left.len() < self.bound {
            self.left.push_back(since);
        }
    }

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

    /// The phase may have `slots` requests in flight from now on. `parts` is read if this opens the phase.
    pub(super) fn granted(&mut self, phase: usize, slots: u32, now: Nanos, parts: impl FnOnce() -> Parts) {
        if self.phases[phase].opening.is_none() {
            let opening = self.read(now, parts());
            self.phases[phase].opening = Some(opening);
            self.phases[phase].open = true;
            self.open.push(phase);
        }
        let health = &mut self.phases[phase];
        let more = slots.saturating_sub(health.slots).min(health.free.bound as u32);
        health.slots = slots;
        for _ in 0..more {
            health.free.add(Nanos::ZERO);
        }
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
    use crate::plan::{Arrival, DrainRule, PhaseKind, StopRule};

    fn phase(concurrency: Option<u32>) -> PhasePlan {
        PhasePlan {
            id: PhaseId(0),
            profiling_index: Some(0),
            name: "p".into(),
            kind: PhaseKind::Profiling,
            arrival: Arrival::ClosedLoop,
            concurrency: concurrency.and_then(NonZeroU32::new),
            stop: StopRule::default(),
            drain: DrainRule::WhileProgressing,
            seamless: false,
            cancellation: None,
        }
    }

    fn ms(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    fn open(concurrency: Option<u32>) -> (Health, Vec<PhaseHistograms>) {
        let mut health = Health::new(&[phase(concurrency)], 64);
        let slots = concurrency.unwrap_or(u32::MAX);
        health.granted(0, slots, ms(1), Parts::default);
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
    fn notes_of_free_slots_never_grow_beyond_the_limit() {
        let (mut health, _) = open(Some(3));
        let room = health.phases[0].free.left.capacity();
        for round in 0..100 {
            health.granted(0, 3, ms(round), Parts::default);
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
