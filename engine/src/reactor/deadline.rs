//! Instants at which a core must act on a connection although nothing arrived.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::units::Nanos;

/// One request in one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Guest {
    /// The connection.
    pub(super) index: u32,
    /// The request's serial number on this core: a connection carries many requests, and only this one is meant.
    pub(super) serial: u64,
}

/// Planned disconnects, soonest first. An entry whose request has ended is found out by its serial number when it is due.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    heap: BinaryHeap<Reverse<(Nanos, Guest)>>,
}

impl Deadlines {
    pub(super) fn with_capacity(entries: usize) -> Self {
        Self {
            heap: BinaryHeap::with_capacity(entries),
        }
    }

    pub(super) fn add(&mut self, at: Nanos, guest: Guest) {
        self.heap.push(Reverse((at, guest)));
    }

    /// The soonest instant.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes an entry that is due.
    pub(super) fn take_due(&mut self, now: Nanos) -> Option<Guest> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, guest))| guest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_fire_in_order_each_at_its_own_time() {
        let mut deadlines = Deadlines::default();
        for at in [50u64, 10, 30, 20, 40] {
            deadlines.add(
                Nanos(at),
                Guest {
                    index: at as u32,
                    serial: 1,
                },
            );
        }
        assert_eq!(deadlines.take_due(Nanos(9)), None);
        let mut fired = Vec::new();
        for now in 10..=50 {
            while let Some(guest) = deadlines.take_due(Nanos(now)) {
                fired.push((now, guest.index));
            }
        }
        assert_eq!(fired, [(10, 10), (20, 20), (30, 30), (40, 40), (50, 50)]);
    }
}
