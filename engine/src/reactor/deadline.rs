//! Instants at which a core must act on a connection although nothing arrived.
//!
//! Planned disconnects live here, with TLS the last second of a connection after one, and in a heap of their own the next turns of sessions, which
//! are numbered like connections. Request timeouts do not: all requests of a run have the same timeout, so the slab's chain of starts is already
//! in the order of the timeouts, at constant cost, and the drain needs that chain anyway.

use crate::units::Nanos;

/// Children of a node. Four lie side by side in 64 bytes, and the tree is half as deep as a binary one.
const ARITY: usize = 4;

#[derive(Debug, Clone, Copy)]
struct Entry {
    at: Nanos,
    index: u32,
}

/// At most one deadline per connection, in nanoseconds, soonest first: a heap that knows where each connection's entry is, so that the entry
/// of a request that ended early goes with it. A heap without removal would keep it until it is due: 100,000 of them at 10,000 requests per
/// second and a delay of ten seconds.
///
/// Bounded by the number of connections; nothing is allocated after the start, unless the table of sessions grows. Setting, moving and removing cost O(log n). A timer wheel
/// would be cheaper for many thousand entries, and would round every deadline to its slots.
#[derive(Debug)]
pub(crate) struct Deadlines {
    heap: Vec<Entry>,
    /// By connection: place in the heap plus one, 0 without an entry. Apart from the connections, because moving an entry would otherwise touch a
    /// cache line of each connection on the way; and zero means none, so that places never used cost no memory.
    places: Vec<u32>,
}

impl Deadlines {
    /// What a deadline takes.
    #[cfg(test)]
    pub(super) const BYTES_EACH: usize = std::mem::size_of::<Entry>() + std::mem::size_of::<u32>();

    /// Room for one deadline of each of `connections` connections.
    pub(crate) fn new(connections: usize) -> Self {
        assert!(u32::try_from(connections).is_ok(), "connection numbers are 32 bits");
        Self {
            heap: Vec::with_capacity(connections),
            places: vec![0; connections],
        }
    }

    /// Makes room for one deadline of each of `connections` connections, where there was room for fewer.
    pub(crate) fn grow(&mut self, connections: usize) {
        assert!(u32::try_from(connections).is_ok(), "connection numbers are 32 bits");
        self.places.resize(connections, 0);
    }

    /// Sets the deadline of a connection; an earlier one is replaced.
    ///
    /// # Panics
    /// If there is no such connection.
    pub(crate) fn set(&mut self, index: u32, at: Nanos) {
        let entry = Entry { at, index };
        match self.places[index as usize] {
            0 => {
                self.heap.push(entry);
                self.rise(self.heap.len() - 1, entry);
            }
            place => self.settle(place as usize - 1, entry),
        }
    }

    /// Removes the deadline of a connection, if it has one.
    ///
    /// # Panics
    /// If there is no such connection.
    pub(crate) fn remove(&mut self, index: u32) {
        let place = self.places[index as usize] as usize;
        if place > 0 {
            self.take(place - 1);
        }
    }

    /// The soonest deadline.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.heap.first().map(|entry| entry.at)
    }

    /// Takes the soonest deadline that is due at `now`; returns its connection.
    pub(crate) fn take_due(&mut self, now: Nanos) -> Option<u32> {
        let soonest = self.heap.first().filter(|entry| entry.at <= now)?.index;
        self.take(0);
        Some(soonest)
    }

    fn take(&mut self, place: usize) {
        let gone = self.heap[place].index;
        let last = self.heap.pop().expect("an entry that is taken is in the heap");
        self.places[gone as usize] = 0;
        if place < self.heap.len() {
            self.settle(place, last);
        }
    }

    /// Puts `entry` where it belongs, given that the place `place` is free for it and all other entries are in order.
    fn settle(&mut self, place: usize, entry: Entry) {
        if place > 0 && entry.at < self.heap[(place - 1) / ARITY].at {
            self.rise(place, entry);
        } else {
            self.sink(place, entry);
        }
    }

    fn rise(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.heap[parent].at <= entry.at {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    fn sink(&mut self, mut place: usize, entry: Entry) {
        loop {
            let first = ARITY * place + 1;
            let children = first..(first + ARITY).min(self.heap.len());
            let Some(soonest) = children.min_by_key(|&child| self.heap[child].at) else {
                break;
            };
            if entry.at <= self.heap[soonest].at {
                break;
            }
            self.put(place, self.heap[soonest]);
            place = soonest;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.places[entry.index as usize] = place as u32 + 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const CONNECTIONS: usize = 40;

    #[derive(Debug, Clone)]
    enum Step {
        Set { index: u32, at: u64 },
        Remove { index: u32 },
        Expire { now: u64 },
    }

    fn step() -> impl Strategy<Value = Step> {
        let index = 0..CONNECTIONS as u32;
        // Few instants, so that many deadlines coincide.
        let instant = 0u64..60;
        prop_oneof![
            4 => (index.clone(), instant.clone()).prop_map(|(index, at)| Step::Set { index, at }),
            2 => index.prop_map(|index| Step::Remove { index }),
            1 => instant.prop_map(|now| Step::Expire { now }),
        ]
    }

    fn assert_consistent(deadlines: &Deadlines) {
        for (place, entry) in deadlines.heap.iter().enumerate() {
            assert_eq!(deadlines.places[entry.index as usize] as usize, place + 1);
            assert!(place == 0 || deadlines.heap[(place - 1) / ARITY].at <= entry.at);
        }
        let known = deadlines.places.iter().filter(|&&place| place > 0).count();
        assert_eq!(known, deadlines.heap.len());
        assert_eq!(deadlines.heap.capacity(), CONNECTIONS, "nothing was allocated");
    }

    proptest! {
        #[test]
        fn deadlines_are_those_of_a_plain_map(steps in prop::collection::vec(step(), 1..400)) {
            let mut deadlines = Deadlines::new(CONNECTIONS);
            let mut model = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Set { index, at } => {
                        deadlines.set(index, Nanos(at));
                        model.insert(index, at);
                    }
                    Step::Remove { index } => {
                        deadlines.remove(index);
                        model.remove(&index);
                    }
                    Step::Expire { now } => {
                        let mut before = 0;
                        while let Some(index) = deadlines.take_due(Nanos(now)) {
                            let at = model.remove(&index).expect("it was set, and is due once");
                            prop_assert!((before..=now).contains(&at), "soonest first, and not before its time");
                            before = at;
                        }
                        prop_assert!(model.values().all(|&at| at > now), "all that are due are taken");
                    }
                }
                assert_consistent(&deadlines);
                prop_assert_eq!(deadlines.next().map(|at| at.0), model.values().min().copied());
            }
        }
    }

    #[test]
    fn a_hundred_thousand_deadlines_each_fire_at_their_own_time() {
        let mut deadlines = Deadlines::new(2);
        let mut fired = 0;
        // The two intervals of one connection that is set again whenever it fires, and another that is far ahead.
        deadlines.set(1, Nanos::MAX);
        for round in 0..100_000u64 {
            let due = Nanos(round * 1_000_000 + [50_000, 1_000_000][round as usize % 2]);
            deadlines.set(0, due);
            assert_eq!(deadlines.take_due(Nanos(due.0 - 1)), None);
            fired += u64::from(deadlines.take_due(due) == Some(0));
        }
        assert_eq!((fired, deadlines.next()), (100_000, Some(Nanos::MAX)));
    }
}
