//! Deadlines of nanosecond resolution: one timer descriptor per thread, driven by a heap.
//!
//! monoio's own timers are whole milliseconds, too coarse to pace tokens. The descriptor is watched by a readiness
//! operation of the ring, so a thread sleeps in one place for sockets and deadlines alike.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::rc::Rc;
use std::task::Waker;

use monoio::net::UnixStream;

use crate::sys;

/// One waker slot. An armed deadline is current while its generation is the slot's.
#[derive(Default)]
struct Slot {
    generation: u32,
    waker: Option<Waker>,
}

/// Which slot wakes when, as a value: `now` is always an argument.
#[derive(Default)]
pub(crate) struct Deadlines {
    heap: BinaryHeap<Reverse<(u64, u32, u32)>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Deadlines {
    /// Takes a free slot.
    fn claim(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).expect("there are fewer alarms than descriptors")
        })
    }

    /// Gives a slot back; what was armed on it never fires.
    fn release(&mut self, slot: u32) {
        self.disarm(slot);
        self.free.push(slot);
    }

    /// Forgets the slot's deadline. Its heap entry stays behind until it is due or outnumbers the live ones.
    fn disarm(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        if entry.waker.take().is_some() {
            entry.generation = entry.generation.wrapping_add(1);
        }
    }

    /// Replaces the slot's deadline.
    fn arm(&mut self, slot: u32, deadline_ns: u64, waker: &Waker) {
        self.disarm(slot);
        let entry = &mut self.slots[slot as usize];
        entry.waker = Some(waker.clone());
        self.heap.push(Reverse((deadline_ns, slot, entry.generation)));
        // A client that cancels early leaves entries that are due much later; without this they would pile up.
        if self.heap.len() > 2 * self.slots.len() + 64 {
            let slots = &self.slots;
            self.heap
                .retain(|Reverse((_, slot, generation))| is_live(slots, *slot, *generation));
        }
    }

    /// Moves the wakers of everything due at `now_ns` to `woken`, earliest first.
    fn fire(&mut self, now_ns: u64, woken: &mut Vec<Waker>) {
        while let Some(&Reverse((deadline_ns, slot, generation))) = self.heap.peek() {
            if deadline_ns > now_ns {
                return;
            }
            self.heap.pop();
            if is_live(&self.slots, slot, generation) {
                woken.extend(self.slots[slot as usize].waker.take());
                self.slots[slot as usize].generation = generation.wrapping_add(1);
            }
        }
    }

    /// The earliest live deadline.
    fn next(&mut self) -> Option<u64> {
        while let Some(&Reverse((deadline_ns, slot, generation))) = self.heap.peek() {
            if is_live(&self.slots, slot, generation) {
                return Some(deadline_ns);
            }
            self.heap.pop();
        }
        None
    }
}

fn is_live(slots: &[Slot], slot: u32, generation: u32) -> bool {
    let entry = &slots[slot as usize];
    entry.generation == generation && entry.waker.is_some()
}

/// The deadlines of one thread and the descriptor that wakes it for the earliest.
pub(crate) struct Timer {
    descriptor: UnixStream,
    deadlines: RefCell<Deadlines>,
    /// What the descriptor is set to; `u64::MAX` when disarmed.
    armed_ns: Cell<u64>,
    stopping: Cell<bool>,
}

impl Timer {
    /// Makes the timer of this thread; the thread must be inside its runtime.
    pub(crate) fn new() -> io::Result<Timer> {
        // The type is only a carrier: monoio offers its readiness operation on sockets, and that operation works on any
        // descriptor that can be polled. Nothing is ever read from or written to it.
        let descriptor = UnixStream::from_std(StdUnixStream::from(sys::timer()?))?;
        Ok(Timer {
            descriptor,
            deadlines: RefCell::default(),
            armed_ns: Cell::new(u64::MAX),
            stopping: Cell::new(false),
        })
    }

    /// Fires deadlines until [`Timer::stop`]; the body of one task per thread.
    pub(crate) async fn run(&self) -> io::Result<()> {
        let mut woken = Vec::new();
        while !self.stopping.get() {
            self.descriptor.readable(false).await?;
            let next = {
                let mut deadlines = self.deadlines.borrow_mut();
                deadlines.fire(sys::monotonic_ns(), &mut woken);
                deadlines.next()
            };
            self.set(next)?;
            woken.drain(..).for_each(Waker::wake);
        }
        Ok(())
    }

    /// Makes [`Timer::run`] return.
    pub(crate) fn stop(&self) -> io::Result<()> {
        self.stopping.set(true);
        self.set(Some(1))
    }

    /// Points the descriptor at `deadline_ns`.
    fn set(&self, deadline_ns: Option<u64>) -> io::Result<()> {
        self.armed_ns.set(deadline_ns.unwrap_or(u64::MAX));
        sys::set_timer(&self.descriptor, deadline_ns)
    }
}

/// One task's place in the thread's timer.
pub(crate) struct Alarm {
    timer: Rc<Timer>,
    slot: u32,
}

impl Alarm {
    /// Claims a place in `timer`.
    pub(crate) fn new(timer: &Rc<Timer>) -> Alarm {
        Alarm {
            slot: timer.deadlines.borrow_mut().claim(),
            timer: Rc::clone(timer),
        }
    }

    /// Wakes `waker` at `deadline_ns`, instead of what was armed before.
    pub(crate) fn arm(&self, deadline_ns: u64, waker: &Waker) {
        self.timer.deadlines.borrow_mut().arm(self.slot, deadline_ns, waker);
        if deadline_ns < self.timer.armed_ns.get() && !self.timer.stopping.get() {
            self.timer
                .set(Some(deadline_ns))
                .expect("the timer descriptor is open and the time is in range");
        }
    }

    /// Forgets the deadline.
    pub(crate) fn disarm(&self) {
        self.timer.deadlines.borrow_mut().disarm(self.slot);
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.timer.deadlines.borrow_mut().release(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counting() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (Arc::clone(&count), Waker::from(count))
    }

    fn fire(deadlines: &mut Deadlines, now_ns: u64) -> usize {
        let mut woken = Vec::new();
        deadlines.fire(now_ns, &mut woken);
        let fired = woken.len();
        woken.into_iter().for_each(Waker::wake);
        fired
    }

    #[test]
    fn a_deadline_fires_once_and_not_before_its_time() {
        let (count, waker) = counting();
        let mut deadlines = Deadlines::default();
        let slot = deadlines.claim();
        deadlines.arm(slot, 100, &waker);
        assert_eq!(fire(&mut deadlines, 99), 0);
        assert_eq!(deadlines.next(), Some(100));
        assert_eq!(fire(&mut deadlines, 100), 1);
        assert_eq!(fire(&mut deadlines, u64::MAX), 0);
        assert_eq!(deadlines.next(), None);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn rearming_replaces_the_deadline_and_a_released_slot_stays_silent() {
        let (_, waker) = counting();
        let mut deadlines = Deadlines::default();
        let (moved, released) = (deadlines.claim(), deadlines.claim());
        deadlines.arm(moved, 100, &waker);
        deadlines.arm(moved, 50, &waker);
        deadlines.arm(released, 10, &waker);
        deadlines.release(released);
        assert_eq!(deadlines.next(), Some(50));
        assert_eq!(fire(&mut deadlines, 1_000), 1);
        let reused = deadlines.claim();
        assert_eq!(reused, released);
        deadlines.arm(reused, 2_000, &waker);
        assert_eq!(fire(&mut deadlines, 1_999), 0);
        assert_eq!(fire(&mut deadlines, 2_000), 1);
    }

    #[test]
    fn abandoned_deadlines_do_not_pile_up() {
        let (_, waker) = counting();
        let mut deadlines = Deadlines::default();
        let slot = deadlines.claim();
        for round in 0..10_000 {
            deadlines.arm(slot, 1_000_000 + round, &waker);
        }
        assert!(
            deadlines.heap.len() < 100,
            "{} entries for one alarm",
            deadlines.heap.len()
        );
        assert_eq!(deadlines.next(), Some(1_009_999));
    }
}
