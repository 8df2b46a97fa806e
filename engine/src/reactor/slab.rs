//! All connections of a core: a bounded table, a free list, and the active ones chained by start.

use super::connection::{Connection, NONE, State, protocol_of};
use crate::http::Protocol;
use crate::plan::EndpointKind;

/// A bounded table of connections. It never moves or allocates once it has been used up to its bound.
pub(super) struct Slab {
    /// How the answers on all of them are read.
    protocol: Protocol,
    places: Vec<Connection>,
    free: Vec<u32>,
    /// Oldest active connection: the first to time out.
    oldest: u32,
    newest: u32,
    active: usize,
}

impl Slab {
    /// A table for up to `capacity` connections at once, which speak this API.
    pub(super) fn new(capacity: usize, kind: EndpointKind) -> Self {
        Self {
            protocol: protocol_of(kind),
            places: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
            oldest: NONE,
            newest: NONE,
            active: 0,
        }
    }

    /// Takes a place under a new generation; `None` when all are taken.
    pub(super) fn claim(&mut self) -> Option<u32> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.places.len() < self.places.capacity() => {
                self.places.push(Connection::vacant(self.protocol));
                (self.places.len() - 1) as u32
            }
            None => return None,
        };
        let place = &mut self.places[index as usize];
        debug_assert_eq!(place.state, State::Vacant);
        place.generation = place.generation.wrapping_add(1) & 0x00ff_ffff;
        Some(index)
    }

    /// Gives a place back. All its operations have completed.
    pub(super) fn vacate(&mut self, index: u32) {
        let place = &mut self.places[index as usize];
        assert_eq!(place.operations, 0, "a place is given back after its last completion");
        place.state = State::Vacant;
        place.socket = None;
        place.request = None;
        place.tls = None;
        place.served = 0;
        place.session = NONE;
        place.receiving = false;
        place.sending = false;
        self.free.push(index);
    }

    pub(super) fn get(&mut self, index: u32) -> &mut Connection {
        &mut self.places[index as usize]
    }

    pub(super) fn peek(&self, index: u32) -> &Connection {
        &self.places[index as usize]
    }

    /// Whether [`Slab::claim`] would give a place.
    pub(super) fn has_room(&self) -> bool {
        self.in_use() < self.places.capacity()
    }

    /// Places that are not vacant.
    pub(super) fn in_use(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Connections that carry a request.
    pub(super) fn active(&self) -> usize {
        self.active
    }

    /// Oldest connection that carries a request.
    pub(super) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// The next younger active connection.
    pub(super) fn younger(&self, index: u32) -> Option<u32> {
        let next = self.places[index as usize].next;
        (next != NONE).then_some(next)
    }

    /// Puts a connection at the young end of the chain.
    pub(super) fn link(&mut self, index: u32) {
        let newest = self.newest;
        let place = self.get(index);
        place.previous = newest;
        place.next = NONE;
        if newest == NONE {
            self.oldest = index;
        } else {
            self.get(newest).next = index;
        }
        self.newest = index;
        self.active += 1;
    }

    /// Lets `to` stand where `from` stood, keeping its age.
    pub(super) fn relink(&mut self, from: u32, to: u32) {
        let (previous, next) = (self.get(from).previous, self.get(from).next);
        let place = self.get(to);
        place.previous = previous;
        place.next = next;
        self.join(previous, to);
        self.join(to, next);
        let place = self.get(from);
        place.previous = NONE;
        place.next = NONE;
    }

    /// Takes a connection out of the chain.
    pub(super) fn unlink(&mut self, index: u32) {
        let (previous, next) = (self.get(index).previous, self.get(index).next);
        self.join(previous, next);
        let place = self.get(index);
        place.previous = NONE;
        place.next = NONE;
        self.active -= 1;
    }

    fn join(&mut self, older: u32, younger: u32) {
        if older == NONE {
            self.oldest = younger;
        } else {
            self.get(older).next = younger;
        }
        if younger == NONE {
            self.newest = older;
        } else {
            self.get(younger).previous = older;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(slab: &Slab) -> Vec<u32> {
        let mut all = Vec::new();
        let mut at = slab.oldest();
        while let Some(index) = at {
            all.push(index);
            at = slab.younger(index);
        }
        all
    }

    #[test]
    fn the_chain_keeps_the_order_of_starts() {
        let mut slab = Slab::new(8, EndpointKind::Chat);
        let places: Vec<u32> = (0..5).map(|_| slab.claim().unwrap()).collect();
        places.iter().for_each(|&place| slab.link(place));
        slab.unlink(places[2]);
        slab.unlink(places[0]);
        assert_eq!(chain(&slab), [places[1], places[3], places[4]]);
        let substitute = slab.claim().unwrap();
        slab.relink(places[3], substitute);
        assert_eq!(chain(&slab), [places[1], substitute, places[4]]);
        slab.unlink(places[4]);
        slab.unlink(places[1]);
        slab.unlink(substitute);
        assert!(chain(&slab).is_empty());
        assert_eq!(slab.active(), 0);
    }

    #[test]
    fn a_place_comes_back_under_a_new_generation_and_the_table_is_bounded() {
        let mut slab = Slab::new(2, EndpointKind::Chat);
        let first = slab.claim().unwrap();
        let generation = slab.get(first).generation;
        assert!(slab.claim().is_some());
        assert_eq!(slab.claim(), None);
        slab.vacate(first);
        assert_eq!(slab.claim(), Some(first));
        assert_ne!(slab.get(first).generation, generation);
        assert_eq!(slab.in_use(), 2);
    }
}
