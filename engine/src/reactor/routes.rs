//! Ways to the servers: every new connection takes the next one of its server.
//!
//! A way is an address of the server and, where the user names some, an address of this host of the same family. Both go round in turn, so that all
//! pairs are used equally often: a host with two source addresses has twice the local ports for one destination only if no pair is left out.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::sys::socket::KernelAddress;

/// The ways of a core, and whose turn it is.
#[derive(Clone)]
pub(crate) struct Routes {
    /// Addresses of the first server, of the second, and so on.
    peers: Arc<[KernelAddress]>,
    servers: Box<[Turns]>,
    sources: Arc<[KernelAddress]>,
}

/// The addresses of one server, and whose turn it is.
#[derive(Clone, Copy)]
struct Turns {
    first: usize,
    count: usize,
    turn: usize,
}

/// One way.
pub(super) struct Route<'a> {
    /// Number of the server's address.
    pub(super) peer: usize,
    /// The server's address.
    pub(super) to: &'a KernelAddress,
    /// What to bind the connection to; the kernel chooses where there is none.
    pub(super) from: Option<&'a KernelAddress>,
}

impl Routes {
    /// Ways to servers, each with at least one address, from `sources`.
    pub(crate) fn new<S: AsRef<[SocketAddr]>>(servers: &[S], sources: &[IpAddr]) -> Self {
        let mut peers = Vec::new();
        let mut turns = Vec::new();
        for addresses in servers.iter().map(AsRef::as_ref) {
            assert!(!addresses.is_empty(), "a server has an address");
            turns.push(Turns {
                first: peers.len(),
                count: addresses.len(),
                turn: 0,
            });
            peers.extend(addresses.iter().copied().map(KernelAddress::new));
        }
        let source = |&source: &IpAddr| KernelAddress::new(SocketAddr::new(source, 0));
        Self {
            peers: peers.into(),
            servers: turns.into(),
            sources: sources.iter().map(source).collect(),
        }
    }

    /// The same ways, beginning elsewhere: cores with few connections each should not all take the first one.
    pub(crate) fn beginning_at(mut self, turn: usize) -> Self {
        self.servers.iter_mut().for_each(|server| server.turn = turn);
        self
    }

    /// The servers' addresses by number.
    pub(crate) fn peers(&self) -> Arc<[KernelAddress]> {
        Arc::clone(&self.peers)
    }

    /// How many servers there are.
    pub(super) fn servers(&self) -> usize {
        self.servers.len()
    }

    /// The next way to a server.
    pub(super) fn next(&mut self, server: u16) -> Route<'_> {
        let turns = &mut self.servers[usize::from(server)];
        let (round, at) = (turns.turn / turns.count, turns.turn % turns.count);
        turns.turn = turns.turn.wrapping_add(1);
        let peer = turns.first + at;
        let to = &self.peers[peer];
        let fitting = || self.sources.iter().filter(|source| source.is_of_family_of(to));
        // Moved on by one each time this peer comes round.
        let from = fitting()
            .count()
            .checked_sub(1)
            .and_then(|last| fitting().nth((round + at) % (last + 1)));
        Route { peer, to, from }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// How often each pair of addresses comes in `turns` turns; a source is shown by its number among all sources.
    fn pairs(peers: &[&str], sources: &[&str], turns: usize) -> BTreeMap<(usize, Option<usize>), usize> {
        let peers: Vec<SocketAddr> = peers.iter().map(|peer| peer.parse().unwrap()).collect();
        let sources: Vec<IpAddr> = sources.iter().map(|source| source.parse().unwrap()).collect();
        let mut routes = Routes::new(&[peers], &sources);
        let known = Arc::clone(&routes.sources);
        let mut seen = BTreeMap::new();
        for _ in 0..turns {
            let route = routes.next(0);
            let number = route
                .from
                .map(|from| known.iter().position(|source| std::ptr::eq(source, from)).unwrap());
            *seen.entry((route.peer, number)).or_default() += 1;
        }
        seen
    }

    #[test]
    fn addresses_of_the_server_take_turns_and_the_kernel_chooses_the_source() {
        let seen = pairs(&["127.0.0.1:80", "[::1]:80", "127.0.0.2:80"], &[], 9);
        assert_eq!(seen, [((0, None), 3), ((1, None), 3), ((2, None), 3)].into());
    }

    #[test]
    fn every_pair_is_used_equally_often_whatever_the_numbers() {
        for (servers, hosts) in [(1, 3), (2, 2), (2, 3), (3, 2), (4, 6)] {
            let peers: Vec<String> = (1..=servers).map(|at| format!("127.0.0.{at}:80")).collect();
            let sources: Vec<String> = (1..=hosts).map(|at| format!("127.0.1.{at}")).collect();
            let peers: Vec<&str> = peers.iter().map(String::as_str).collect();
            let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
            let seen = pairs(&peers, &sources, 5 * servers * hosts);
            assert_eq!(seen.len(), servers * hosts);
            assert!(seen.values().all(|&count| count == 5), "{seen:?}");
        }
    }

    #[test]
    fn a_source_serves_the_servers_of_its_family_only() {
        let seen = pairs(&["127.0.0.1:80", "[::1]:80"], &["127.0.0.1", "::1", "127.0.0.2"], 8);
        assert_eq!(seen, [((0, Some(0)), 2), ((0, Some(2)), 2), ((1, Some(1)), 4)].into());
    }

    #[test]
    fn cores_begin_with_different_addresses() {
        let peers = ["127.0.0.1:80", "127.0.0.2:80"].map(|peer| peer.parse().unwrap());
        let routes = Routes::new(&[peers], &[]);
        let first = |core| routes.clone().beginning_at(core).next(0).peer;
        assert_eq!([first(0), first(1), first(2)], [0, 1, 0]);
    }

    #[test]
    fn each_server_has_turns_of_its_own_among_its_own_addresses() {
        let servers = [
            vec!["127.0.0.1:80", "127.0.0.2:80"],
            vec!["127.0.0.3:80"],
            vec!["127.0.0.4:80", "127.0.0.5:80"],
        ];
        let servers = servers.map(|addresses| addresses.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>());
        let mut routes = Routes::new(&servers, &[]);
        let taken = [0, 2, 1, 0, 2, 0, 1].map(|server| routes.next(server).peer);
        assert_eq!(taken, [0, 3, 2, 1, 4, 0, 2]);
        assert_eq!((routes.servers(), routes.peers().len()), (3, 5));
    }
}
