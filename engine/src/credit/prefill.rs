//! How many requests of the run may be in prefill at once: between their start and their first content.
//!
//! The limit is one number over all cores, not a share for each, so that it is exact even below the number of cores, and so that a core whose
//! requests prefill slowly does not leave slots idle that another could use. Only phases that such a limit concerns touch any of this.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;

use crate::units::Nanos;

/// The prefill slots of a run.
///
/// A core that finds none waits in line, once, however many requests it has. A slot that becomes free goes to the first core in line and to
/// nobody else: otherwise the core that frees a slot would always be the first to take it, and with one slot the others would starve.
#[derive(Debug)]
pub(crate) struct PrefillSlots {
    /// Slots that are held, those granted and not yet picked up included.
    taken: CachePadded<AtomicU32>,
    /// Slots that exist. Only one phase sends at a time, and it is the one whose limit this is.
    limit: AtomicU32,
    /// Cores in line.
    line: ArrayQueue<usize>,
    /// By core: when a slot was granted to it, or zero.
    grants: Vec<CachePadded<AtomicU64>>,
}

impl PrefillSlots {
    /// No slots yet, for so many cores.
    pub(super) fn new(cores: usize) -> Self {
        Self {
            taken: CachePadded::default(),
            limit: AtomicU32::new(0),
            line: ArrayQueue::new(cores.max(1)),
            grants: (0..cores).map(|_| CachePadded::default()).collect(),
        }
    }

    /// Takes a slot whatever the limit is: for requests of a phase without one, which later phases must count all the same.
    pub(crate) fn count(&self) {
        // No order is needed: whoever is bound by the count starts after these requests, by the coordinator's commands.
        self.taken.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes a slot if one is free and no core has been waiting for it.
    pub(crate) fn try_take(&self) -> bool {
        self.line.is_empty() && self.reserve()
    }

    /// Puts a core in line. It must not be there already, and looks for its grant from then on. `wake` is called with each core that a slot was
    /// granted to.
    pub(super) fn wait(&self, core: usize, now: Nanos, wake: impl FnMut(usize)) {
        self.line.push(core).expect("every core waits at most once");
        self.hand_out(now, wake);
    }

    /// Takes the slot that was granted to a core; since when it was there.
    pub(crate) fn take_grant(&self, core: usize) -> Option<Nanos> {
        let grant = &self.grants[core];
        // The cheap look first: most turns find nothing.
        (grant.load(Ordering::Relaxed) > 0).then(|| Nanos(grant.swap(0, Ordering::Acquire)))
    }

    /// Whether a slot waits for a core to pick it up.
    pub(crate) fn has_grant(&self, core: usize) -> bool {
        self.grants[core].load(Ordering::Relaxed) > 0
    }

    /// Gives a slot back.
    pub(super) fn release(&self, now: Nanos, wake: impl FnMut(usize)) {
        self.taken.fetch_sub(1, Ordering::SeqCst);
        self.hand_out(now, wake);
    }

    /// Changes the number of slots. Below what is held nothing is taken away: what is held is given back in time, and nobody gets it.
    pub(super) fn limit(&self, limit: u32, now: Nanos, wake: impl FnMut(usize)) {
        self.limit.store(limit, Ordering::SeqCst);
        self.hand_out(now, wake);
    }

    /// Takes a slot if fewer are held than exist.
    fn reserve(&self) -> bool {
        let one_more = |taken: u32| (taken < self.limit.load(Ordering::SeqCst)).then(|| taken + 1);
        self.taken
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more)
            .is_ok()
    }

    /// Grants free slots to the cores in line.
    ///
    /// Called after every change that could make one possible: a release, a higher limit, a core that got in line. Two that do so at the same
    /// time cannot both look past each other: all of it is sequentially consistent, so the later one sees what the earlier one did, and whoever
    /// reserved a slot in vain looks again after giving it back.
    fn hand_out(&self, now: Nanos, mut wake: impl FnMut(usize)) {
        while !self.line.is_empty() && self.reserve() {
            match self.line.pop() {
                Some(core) => {
                    // A core is in line once, and not again before it has taken its grant. An instant of zero would be none.
                    self.grants[core].store(now.0.max(1), Ordering::Release);
                    wake(core);
                }
                None => {
                    self.taken.fetch_sub(1, Ordering::SeqCst);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    const NOW: Nanos = Nanos::from_secs(1);

    fn slots(limit: u32, cores: usize) -> PrefillSlots {
        let slots = PrefillSlots::new(cores);
        slots.limit(limit, NOW, |_| ());
        slots
    }

    #[test]
    fn slots_end_where_the_limit_is_and_come_back() {
        let slots = slots(2, 1);
        assert!(slots.try_take() && slots.try_take() && !slots.try_take());
        slots.release(NOW, |_| ());
        assert!(slots.try_take() && !slots.try_take());
    }

    #[test]
    fn a_freed_slot_goes_to_the_core_that_has_waited_longest_and_not_to_the_one_that_frees_it() {
        let slots = slots(1, 3);
        assert!(slots.try_take());
        slots.wait(2, NOW, |_| panic!("there is none"));
        slots.wait(1, NOW, |_| panic!("there is none"));
        let mut woken = Vec::new();
        slots.release(Nanos::from_secs(5), |core| woken.push(core));
        assert_eq!(woken, [2]);
        assert!(!slots.try_take());
        assert_eq!(
            (slots.take_grant(2), slots.take_grant(2)),
            (Some(Nanos::from_secs(5)), None)
        );
        assert!(slots.has_grant(2) || !slots.has_grant(1));
        slots.release(NOW, |core| woken.push(core));
        assert_eq!(woken, [2, 1]);
    }

    #[test]
    fn what_phases_without_a_limit_hold_counts_against_the_next_one() {
        let slots = slots(0, 1);
        (0..3).for_each(|_| slots.count());
        slots.limit(2, NOW, |_| ());
        slots.release(NOW, |_| ());
        assert!(!slots.try_take(), "two are still held");
        slots.release(NOW, |_| ());
        assert!(slots.try_take() && !slots.try_take());
    }

    #[test]
    fn a_higher_limit_serves_the_line_and_a_lower_one_takes_nothing_away() {
        let slots = slots(1, 2);
        assert!(slots.try_take());
        slots.wait(0, NOW, |_| panic!("there is none"));
        slots.wait(1, NOW, |_| panic!("there is none"));
        let mut woken = Vec::new();
        slots.limit(3, NOW, |core| woken.push(core));
        assert_eq!(woken, [0, 1]);
        slots.limit(1, NOW, |_| panic!("nobody waits"));
        slots.release(NOW, |_| ());
        slots.release(NOW, |_| ());
        assert!(!slots.try_take());
        slots.release(NOW, |_| ());
        assert!(slots.try_take());
    }

    #[test]
    fn threads_never_exceed_the_limit_and_none_is_forgotten_in_line() {
        // As many threads as a core would be, each with a fixed number of prefills to do. A grant that gets lost hangs the test.
        const THREADS: usize = 4;
        const ROUNDS: usize = 20_000;
        for limit in [1, 2, 3] {
            let slots = Arc::new(slots(limit, THREADS));
            let held = Arc::new(AtomicUsize::new(0));
            let threads: Vec<_> = (0..THREADS)
                .map(|me| {
                    let (slots, held) = (Arc::clone(&slots), Arc::clone(&held));
                    std::thread::spawn(move || {
                        for _ in 0..ROUNDS {
                            if !slots.try_take() {
                                slots.wait(me, NOW, |_| ());
                                while slots.take_grant(me).is_none() {
                                    std::thread::yield_now();
                                }
                            }
                            let now_held = held.fetch_add(1, Ordering::SeqCst) + 1;
                            assert!(now_held <= limit as usize, "{now_held} of {limit}");
                            held.fetch_sub(1, Ordering::SeqCst);
                            slots.release(NOW, |_| ());
                        }
                    })
                })
                .collect();
            threads
                .into_iter()
                .for_each(|thread| thread.join().expect("no limit was exceeded"));
            assert_eq!(slots.taken.load(Ordering::SeqCst), 0);
        }
    }
}
