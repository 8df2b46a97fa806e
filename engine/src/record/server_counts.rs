//! Requests by server, where there are several.

use super::outcome::Outcome;

/// How the requests to one server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ServerCounts {
    ended: [u64; Outcome::ALL.len()],
}

impl ServerCounts {
    /// A request ended.
    pub(crate) fn count(&mut self, outcome: Outcome) {
        self.ended[outcome as usize] += 1;
    }

    /// Requests that ended so.
    pub(crate) fn of(&self, outcome: Outcome) -> u64 {
        self.ended[outcome as usize]
    }

    /// Requests that ended.
    pub(crate) fn all(&self) -> u64 {
        self.ended.iter().sum()
    }

    /// Adds the requests of another core or phase.
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, more) in self.ended.iter_mut().zip(other.ended) {
            *sum += more;
        }
    }
}
