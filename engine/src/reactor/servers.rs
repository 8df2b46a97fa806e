//! Several servers behind one load: which request goes where, and what becomes of it.

use super::core::Core;
use crate::id::PhaseId;
use crate::record::{Outcome, ServerCounts};
use crate::sys::driver::Driver;

/// The servers of a core, and the requests that ended at each.
pub(super) struct ServerTallies {
    servers: u16,
    /// By phase, then by server; empty where there is one server.
    ended: Vec<ServerCounts>,
}

impl ServerTallies {
    pub(super) fn new(phases: usize, servers: usize) -> Self {
        Self {
            servers: u16::try_from(servers).expect("the config bounds the number of URLs"),
            ended: vec![ServerCounts::default(); if servers > 1 { phases * servers } else { 0 }],
        }
    }

    /// The server of a session: they take them in turn, whichever core they are on. Each phase begins one further, so that short phases do not all
    /// go to the first.
    pub(super) fn of(&self, phase: PhaseId, session: u64) -> u16 {
        if self.servers == 1 {
            return 0;
        }
        let turn = session.wrapping_add(u64::from(phase.0));
        (turn % u64::from(self.servers)) as u16
    }

    /// A request ended.
    pub(super) fn count(&mut self, phase: usize, server: u16, outcome: Outcome) {
        let at = phase * usize::from(self.servers) + usize::from(server);
        if let Some(counts) = self.ended.get_mut(at) {
            counts.count(outcome);
        }
    }

    pub(super) fn close(self) -> Vec<ServerCounts> {
        self.ended
    }
}

impl<D: Driver> Core<D> {
    /// Whether a request could start now.
    pub(super) fn has_place(&self) -> bool {
        self.idle.serves_all() || (self.slab.has_room() && self.ramp.has_room())
    }

    /// Whether a request to any server could start now.
    pub(super) fn can_send(&mut self) -> bool {
        if self.idle.serves_all() || (self.ramp.allows() && self.slab.has_room()) {
            return true;
        }
        self.make_room();
        false
    }

    /// Every place is taken: if by connections that wait at other servers, one of them goes. Its place is free when its last operation has completed.
    pub(super) fn make_room(&mut self) {
        // Places that are neither active nor idle are about to be free.
        let is_waiting = self.slab.in_use() == self.slab.active() + self.idle.len();
        if !self.slab.has_room()
            && is_waiting
            && let Some(index) = self.idle.pop_any()
        {
            self.close(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_take_servers_in_turn_and_phases_begin_one_further() {
        let tallies = ServerTallies::new(2, 3);
        let servers = |phase| [0, 1, 2, 3].map(|sequence| tallies.of(PhaseId(phase), sequence));
        assert_eq!((servers(0), servers(1)), ([0, 1, 2, 0], [1, 2, 0, 1]));
        assert_eq!(ServerTallies::new(2, 1).of(PhaseId(1), 7), 0);
    }

    #[test]
    fn ends_are_counted_by_phase_and_server_where_there_are_several() {
        let mut tallies = ServerTallies::new(2, 2);
        tallies.count(0, 1, Outcome::Success);
        tallies.count(1, 0, Outcome::Error);
        tallies.count(1, 0, Outcome::Success);
        let counts: Vec<(u64, u64)> = tallies
            .close()
            .iter()
            .map(|counts| (counts.of(Outcome::Success), counts.all()))
            .collect();
        assert_eq!(counts, [(0, 0), (1, 1), (1, 2), (0, 0)]);
        let mut single = ServerTallies::new(2, 1);
        single.count(1, 0, Outcome::Success);
        assert!(single.close().is_empty());
    }
}
